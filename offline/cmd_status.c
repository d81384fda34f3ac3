/* kgenrt status: what was seen, what is being tuned, what got faster and on what evidence; and
 * where nothing did, why. Reads flight recorders and the store; writes nothing. */
#include "cli.h"

#include <string.h>

enum { MOST_PROCESSES = 20 };

/* ---- the tree -------------------------------------------------------------------------------- */

static void complete_kernels(json_t *process, const json_t *stored)
{
    json_t *kernel;
    size_t i;
    json_array_foreach(json_object_get(process, "kernels"), i, kernel)
    {
        char readable[512];
        if (!json_is_object(kernel))
            continue;
        name_readable(member_text(kernel, "name"), readable, sizeof readable);
        json_object_set_new(kernel, "readable", json_text(readable));
        json_object_set_new(kernel, "explanation", kernel_explain(kernel, stored));
    }
}

static json_t *best_only(const json_t *variants)
{
    json_t *out = json_array(), *variant;
    size_t i;
    json_array_foreach(variants, i, variant)
    {
        if (json_is_true(json_object_get(variant, "best")))
            json_array_append(out, variant);
    }
    return out;
}

/* One sentence that answers "so, did anything get faster?". */
static json_t *verdict(const json_t *processes, const json_t *stored)
{
    const json_t *latest = json_array_get(processes, 0), *kernel;
    unsigned seen = 0, swapped = 0, unfit = 0, cold = 0, waiting = 0;
    size_t i;
    json_array_foreach(json_object_get(latest, "kernels"), i, kernel)
    {
        const char *state = member_text(kernel, "state");
        seen++;
        swapped += !strcmp(state, "swapped");
        unfit += !strcmp(state, "unfit");
        cold += !strcmp(state, "cold") || !strcmp(state, "new");
        waiting +=
            !strcmp(state, "wanted") || !strcmp(state, "capturing") || !strcmp(state, "captured");
    }
    if (!latest)
        return json_sprintf("No program has run under kgenrt with this cache folder yet.");
    if (!seen)
        return json_sprintf("The latest program launched no kernel that kgenrt saw.");
    if (swapped)
        return json_sprintf("%u of %u kernels of the latest program run a faster variant.", swapped,
                            seen);
    return json_sprintf("Nothing got faster in the latest program: of %u kernels %u do not matter, "
                        "%u cannot be replaced, %u are being tuned or found no faster variant.",
                        seen, cold, unfit, waiting);
}

static json_t *tree(void)
{
    json_t *stored = stored_read(cache_dir()), *flights = flights_read(cache_dir());
    json_t *processes = json_array(), *process;
    size_t i;
    json_array_foreach(flights, i, process)
    {
        if (i >= MOST_PROCESSES && !json_is_true(json_object_get(process, "running")))
            continue;
        complete_kernels(process, stored);
        json_array_append(processes, process);
    }
    json_t *result = json_pack(
        "{s:s, s:s, s:O, s:o, s:o, s:O, s:o, s:O}", "cache", cache_dir(), "store",
        member_text(stored, "store"), "worker", json_object_get(stored, "worker"), "summary",
        verdict(processes, stored), "processes", processes, "jobs", json_object_get(stored, "jobs"),
        "variants", best_only(json_object_get(stored, "variants")), "rejections",
        json_object_get(stored, "rejections"));
    json_decref(flights);
    json_decref(stored);
    return result;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void print_notes(const json_t *process)
{
    const json_t *note;
    size_t i;
    json_array_foreach(json_object_get(process, "notes"), i, note)
    {
        if (json_is_string(note))
            say("    note: %s\n", json_string_value(note));
    }
}

/* A line for each part of an explanation. */
static void print_clauses(const char *text)
{
    while (*text) {
        const char *end = strstr(text, "; ");
        say("    %.*s\n", end ? (int)(end - text) : (int)strlen(text), text);
        text += end ? (size_t)(end - text) + 2 : strlen(text);
    }
}

static void print_process(const json_t *process)
{
    const json_t *kernel;
    char when[SHORT_TEXT];
    size_t i;
    bool alive = json_is_true(json_object_get(process, "running"));
    bool unclean = json_is_true(json_object_get(process, "unclean"));
    const char *device = member_text(json_object_get(process, "hardware"), "name");
    say("\n%s (process %.0f, %s since %s, mode %s%s%s)\n", member_text(process, "program"),
        member_number(process, "pid"), alive ? "running" : "ended; it ran",
        date_text(member_number(process, "start"), when), member_text(process, "mode"),
        *device ? ", " : "", device);
    if (unclean)
        say("    it did not end cleanly; last word: %s%s%s\n", member_text(process, "event"),
            *member_text(process, "fault") ? ", " : "", member_text(process, "fault"));
    print_notes(process);
    json_array_foreach(json_object_get(process, "kernels"), i, kernel)
    {
        say("  %s\n    %.0f launches, %.1f%% of the GPU time\n", member_text(kernel, "readable"),
            member_number(kernel, "launches"), 100 * member_number(kernel, "share"));
        print_clauses(member_text(kernel, "explanation"));
    }
}

static void print_stored(const json_t *result)
{
    const json_t *item;
    size_t i;
    bool open = false;
    const char *heading = json_is_true(json_object_get(result, "worker"))
                              ? "\nJobs of the worker, which runs:\n"
                              : "\nJobs of the worker (none runs now):\n";
    json_array_foreach(json_object_get(result, "jobs"), i, item)
    {
        const char *state = member_text(item, "state");
        if (!strcmp(state, "done"))
            continue;
        say("%s  %s: %s%s%s\n", open ? "" : heading, member_text(item, "readable"), state,
            *member_text(item, "detail") ? ": " : "", member_text(item, "detail"));
        open = true;
    }
    open = false;
    json_array_foreach(json_object_get(result, "variants"), i, item)
    {
        char from[SHORT_TEXT], to[SHORT_TEXT];
        say("%s  %s: %.2f times as fast [%.2f, %.2f] (%s to %s), %s, by %s; "
            "'kgenrt show %.12s' has the evidence\n",
            open ? "" : "\nIn the cache (programs get these):\n", member_text(item, "readable"),
            member_number(item, "ratio"), member_number(item, "low"), member_number(item, "high"),
            duration_text(member_number(item, "original_ns"), from),
            duration_text(member_number(item, "variant_ns"), to), member_text(item, "accuracy"),
            member_text(item, "maker"), member_text(item, "id"));
        open = true;
    }
    size_t refused = json_array_size(json_object_get(result, "rejections"));
    if (refused)
        say("\n%zu candidates were refused; 'kgenrt show KERNEL' says by which gate and why.\n",
            refused);
}

static void print(const json_t *result)
{
    const json_t *process;
    const char *state = member_text(result, "store");
    size_t i;
    say("%s\n", member_text(result, "summary"));
    json_array_foreach(json_object_get(result, "processes"), i, process)
    {
        print_process(process);
    }
    print_stored(result);
    if (strcmp(state, "ok") && strcmp(state, "none"))
        say("\nThe store in %s cannot be used: %s; 'kgenrt doctor' says more.\n",
            member_text(result, "cache"), state);
}

static int run(const struct arguments *arguments)
{
    if (!*cache_dir())
        return failed("there is no cache folder: set KGENRT_CACHE, or HOME");
    json_t *result = tree();
    bool nothing = !json_array_size(json_object_get(result, "processes")) &&
                   !json_array_size(json_object_get(result, "jobs")) &&
                   !json_array_size(json_object_get(result, "variants"));
    return output(arguments, result, print, nothing ? EXIT_NOTHING : EXIT_GOOD);
}

const struct command cmd_status = {
    .name = "status",
    .synopsis = "status [OPTION...]",
    .summary = "what was seen, what is being tuned, what got faster",
    .description =
        "Shows the programs that ran under kgenrt, the latest first: each kernel with its "
        "launches, "
        "its share of the GPU time, and what became of it. For a kernel that was not made faster "
        "it "
        "says why. Then the worker's jobs, the variants that programs get, and how many candidates "
        "were refused.\n"
        "\n"
        "With --json: an object with \"processes\" (latest first; \"kernels\" of each with "
        "\"launches\", \"swapped\", \"first_swapped_launch\", \"refused\", \"before_ns\", "
        "\"after_ns\", \"explanation\"), \"jobs\", \"variants\" and \"rejections\".",
    .examples = " kgenrt status\n"
                " kgenrt status --json | jq '.processes[0].kernels[].first_swapped_launch'",
    .run = run,
};
