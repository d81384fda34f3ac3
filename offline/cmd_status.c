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
        json_object_set_new(kernel, "explanation", kernel_explain(kernel, process, stored));
    }
    json_object_set_new(process, "gpu_time", gpu_time_account(process));
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

/* How the kernels of a program fared; each row a clause of the summary. */
enum fate { FATE_COLD, FATE_UNFIT, FATE_WAITS, FATE_WORK, FATE_NONE, FATES };
static const char *const fates[FATES] = {
    [FATE_COLD] = "not hot",
    [FATE_UNFIT] = "cannot be replaced",
    [FATE_WAITS] = "with a verified variant in the cache that the next run gets",
    [FATE_WORK] = "waiting for its capture or for the worker",
    [FATE_NONE] = "tuned without a faster variant",
};

static enum fate fate_of(const json_t *kernel, const json_t *process, const json_t *stored)
{
    const char *state = member_text(kernel, "state");
    const json_t *job;
    size_t i;
    if (!strcmp(state, "cold") || !strcmp(state, "new"))
        return FATE_COLD;
    if (!strcmp(state, "unfit"))
        return FATE_UNFIT;
    if (!strcmp(state, "judged"))
        return FATE_NONE;
    if (!strcmp(state, "swapped") || kernel_variant_waits(kernel, process, stored))
        return FATE_WAITS;
    json_array_foreach(json_object_get(stored, "jobs"), i, job)
    {
        const char *at = member_text(job, "state");
        if (!strcmp(member_text(job, "kernel"), member_text(kernel, "id")) &&
            (!strcmp(at, "done") || !strcmp(at, "failed")))
            return FATE_NONE;
    }
    return FATE_WORK;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* One sentence that answers "so, did anything get faster?". */
static json_t *verdict(const json_t *processes, const json_t *stored)
{
    const json_t *latest = json_array_get(processes, 0), *kernel;
    const char *program = base_name(member_text(latest, "program"));
    unsigned seen = 0, swapped = 0, counts[FATES] = {0};
    char clauses[512] = "";
    size_t i, used = 0;
    if (!latest)
        return json_sprintf("No program has run under kgenrt with the cache folder %s yet; "
                            "'kgenrt doctor' checks it.",
                            cache_dir());
    json_array_foreach(json_object_get(latest, "kernels"), i, kernel)
    {
        bool ran = member_number(kernel, "swapped") > 0;
        seen++;
        swapped += ran;
        counts[fate_of(kernel, latest, stored)] += !ran;
    }
    if (!seen)
        return json_sprintf("The latest program, %s, launched no kernel that kgenrt saw; 'kgenrt "
                            "doctor' tells what may stand in the way.",
                            program);
    if (!strcmp(member_text(latest, "mode"), "observe"))
        return json_sprintf("The latest program, %s, was only observed (mode observe): kernels "
                            "seen %u, replaced none.",
                            program, seen);
    if (swapped)
        return json_sprintf("%u of %u kernels of the latest program, %s, ran a faster variant.",
                            swapped, seen, program);
    for (int f = 0; f < FATES; f++)
        if (counts[f] && used < sizeof clauses)
            used += (size_t)snprintf(clauses + used, sizeof clauses - used, "%s%u %s",
                                     used ? ", " : "", counts[f], fates[f]);
    return json_sprintf("Nothing got faster in the latest program, %s, with %u kernel%s: %s.",
                        program, seen, seen == 1 ? "" : "s", clauses);
}

static json_t *tree(size_t most)
{
    json_t *stored = stored_read(cache_dir()), *flights = flights_read(cache_dir());
    json_t *processes = json_array(), *process;
    size_t i;
    json_array_foreach(flights, i, process)
    {
        if (i >= most && !json_is_true(json_object_get(process, "running")))
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
    char line[1024];
    size_t i;
    json_array_foreach(json_object_get(process, "notes"), i, note)
    {
        if (json_is_string(note))
            say("    note: %s\n", names_readable(json_string_value(note), line, sizeof line));
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
    const json_t *hardware = json_object_get(process, "hardware");
    const char *device = member_text(hardware, "name");
    say("\n%s (process %.0f, %s, started %s, mode %s%s%s%s)\n", member_text(process, "program"),
        member_number(process, "pid"), alive ? "running" : "ended",
        date_text(member_number(process, "start"), when), member_text(process, "mode"),
        *device ? ", on " : "", device,
        strcmp(member_text(hardware, "vendor"), "softgpu") ? "" : ": times are modelled");
    if (unclean)
        say("    it did not end cleanly; last word: %s%s%s\n", member_text(process, "event"),
            *member_text(process, "fault") ? ", " : "", member_text(process, "fault"));
    print_notes(process);
    if (strcmp(member_text(process, "mode"), "observe") &&
        json_array_size(json_object_get(process, "kernels")))
        gpu_time_print(json_object_get(process, "gpu_time"));
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
        say("%s  %s on %s: %.2f times as fast, 95%% interval [%.2f, %.2f] (%s to %s), %s, by %s\n"
            "    evidence: kgenrt show %.12s\n",
            open ? "" : "\nIn the cache (programs get these):\n", member_text(item, "readable"),
            member_text(item, "device"), member_number(item, "ratio"), member_number(item, "low"),
            member_number(item, "high"), duration_text(member_number(item, "original_ns"), from),
            duration_text(member_number(item, "variant_ns"), to), member_text(item, "accuracy"),
            member_text(item, "maker"), member_text(item, "id"));
        open = true;
    }
    size_t refused = 0;
    json_array_foreach(json_object_get(result, "rejections"), i, item)
    {
        bool doubt = !strcmp(member_text(item, "gate"), "doubt");
        if (doubt)
            say("\n%s: %s\n", member_text(item, "readable"), member_text(item, "reason"));
        refused += !doubt;
    }
    if (refused)
        say("\n%zu candidate%s refused; 'kgenrt show KERNEL' says by which gate and why.\n",
            refused, refused == 1 ? " was" : "s were");
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
    long most;
    if (!argument_number(arguments, "latest", 1, MOST_PROCESSES, MOST_PROCESSES, &most))
        return EXIT_WRONG_USE;
    json_t *result = tree((size_t)most);
    bool nothing = !json_array_size(json_object_get(result, "processes")) &&
                   !json_array_size(json_object_get(result, "jobs")) &&
                   !json_array_size(json_object_get(result, "variants"));
    return output(arguments, result, print, nothing ? EXIT_NOTHING : EXIT_GOOD);
}

static const struct cli_option own_options[] = {
    {"latest", 'n', "N", "show the latest N programs, and those that run (20)"},
    {NULL, 0, NULL, NULL},
};

const struct command cmd_status = {
    .name = "status",
    .synopsis = "status [OPTION...]",
    .summary = "what was seen, what is being tuned, what got faster",
    .description =
        "Shows the programs that ran under kgenrt, the latest first: each kernel with its "
        "launches, "
        "its share of the GPU time, and what became of it. For a kernel that was not made faster "
        "it says why. Before them: which share of the GPU time is in kernels that can be "
        "replaced, and for what reasons the rest is left alone. Then the worker's jobs, the "
        "variants that programs get, and how many candidates "
        "were refused.\n"
        "\n"
        "With --json: an object with \"processes\" (latest first; \"gpu_time\" of each with the "
        "shares that are \"eligible\", \"left_alone\" by reason, \"not_read\" and "
        "\"left_out\" (no room in the recorder), and \"kernels\" with "
        "\"name\" (as the module has it), \"readable\", \"eligible\", \"why\", \"code\" (what "
        "runs), "
        "\"launches\", \"in_graphs\", \"swapped\", \"first_swapped_launch\", \"refused\", "
        "\"before_ns\", "
        "\"after_ns\", \"explanation\"), \"jobs\", \"variants\" and \"rejections\".",
    .options = own_options,
    .examples = " kgenrt status\n"
                " kgenrt status --latest 1\n"
                " kgenrt status --json | jq '.processes[0].kernels[].first_swapped_launch'",
    .run = run,
};
