/* Why a kernel is where it is, in words for a person. The states are those of runtime/app/app.h as
 * the flight recorder names them. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { ENOUGH_SAMPLES = 3 }; /* as runtime/app/hot.c has it */

/* Appends to a text that grows. */
struct words {
    char text[2048];
    size_t used;
};

static void add(struct words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct words *words, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length =
        vsnprintf(words->text + words->used, sizeof words->text - words->used, format, args);
    va_end(args);
    if (length > 0)
        words->used += (size_t)length;
    if (words->used >= sizeof words->text)
        words->used = sizeof words->text - 1;
}

/* The latest item of a list of the store that has this kernel's id; NULL: none. */
static const json_t *latest(const json_t *stored, const char *list, const char *id)
{
    const json_t *found = NULL, *item;
    size_t i;
    json_array_foreach(json_object_get(stored, list), i, item)
    {
        if (!strcmp(member_text(item, "kernel"), id) &&
            (!found || member_number(item, "time") >= member_number(found, "time")))
            found = item;
    }
    return found;
}

/* The variant that programs on this process's device get; NULL: none. */
static const json_t *best_variant(const json_t *stored, const json_t *process, const char *id)
{
    const char *device = member_text(json_object_get(process, "hardware"), "name");
    const json_t *variant;
    size_t i;
    json_array_foreach(json_object_get(stored, "variants"), i, variant)
    {
        if (json_is_true(json_object_get(variant, "best")) &&
            !strcmp(member_text(variant, "kernel"), id) &&
            !strcmp(member_text(variant, "device"), device))
            return variant;
    }
    return NULL;
}

bool kernel_variant_waits(const json_t *kernel, const json_t *process, const json_t *stored)
{
    return !strcmp(member_text(kernel, "state"), "captured") &&
           best_variant(stored, process, member_text(kernel, "id"));
}

/* What the worker made of it, where the recorder cannot know. */
static void add_worker(struct words *words, const json_t *kernel, const json_t *process,
                       const json_t *stored)
{
    const char *id = member_text(kernel, "id");
    const json_t *job = latest(stored, "jobs", id), *best = best_variant(stored, process, id);
    const json_t *rejection = latest(stored, "rejections", id);
    const char *state = member_text(job, "state"), *detail = member_text(job, "detail");
    if (!stored)
        return; /* kgenrt capture: no worker is wanted */
    if (!job)
        add(words, "; no worker has taken it up yet");
    else if (!strcmp(state, "done"))
        add(words, "; the worker is done with it: %s", detail);
    else if (!strcmp(state, "failed"))
        add(words, "; the worker's job failed: %s", detail);
    else if (!strcmp(state, JOB_WAITING))
        add(words, "; its capture waits in the spool: %s", detail);
    else if (json_is_true(json_object_get(stored, "worker")))
        add(words, "; the worker is at step '%s'%s%s", state, *detail ? ": " : "", detail);
    else
        add(words, "; the worker ended in step '%s': the next one begins again", state);
    if (best)
        add(words, "; verified variant %.12s is in the cache: %s", member_text(best, "id"),
            json_is_true(json_object_get(process, "running"))
                ? "it is swapped in at the next safe point"
                : "this run ended before it was swapped in, the next one gets it");
    if (rejection)
        add(words, "; last refused candidate (%s): gate %s: %s", member_text(rejection, "maker"),
            member_text(rejection, "gate"), member_text(rejection, "reason"));
}

/* The recorder's keys, in words. */
static const struct {
    const char *key, *text;
} refusals[] = {
#define REFUSAL(name, key, text) {key, text},
#include "app/refusal.def"
#undef REFUSAL
};

static const char *refusal_text(const char *key)
{
    for (unsigned i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (!strcmp(refusals[i].key, key))
            return refusals[i].text;
    return key;
}

static void add_refusals(struct words *words, const json_t *kernel)
{
    const char *reason;
    json_t *count;
    json_object_foreach(json_object_get(kernel, "refused"), reason, count)
    {
        if (json_number_value(count))
            add(words, "; %.0f got the original: %s", json_number_value(count),
                refusal_text(reason));
    }
}

/* The recorder's keys of skip.def, in words. */
static const struct {
    const char *key, *text;
} skips[] = {
#define SKIPPED(name, key, text) {key, text},
#include "app/skip.def"
#undef SKIPPED
};

static void add_skips(struct words *words, const json_t *variant)
{
    const char *reason;
    json_t *count;
    json_object_foreach(json_object_get(variant, "skipped"), reason, count)
    {
        for (unsigned i = 0; i < sizeof skips / sizeof *skips; i++)
            if (!strcmp(skips[i].key, reason))
                add(words, "; %.0f could not be checked: %s", json_number_value(count),
                    skips[i].text);
    }
}

/* How each variant fared beside the original in the program. */
static void add_tracks(struct words *words, const json_t *kernel)
{
    const json_t *variant;
    size_t i;
    json_array_foreach(json_object_get(kernel, "variants"), i, variant)
    {
        const char *said = member_text(variant, "said"), *id = member_text(variant, "id");
        const char *unchecked = member_text(variant, "unchecked");
        if (!json_object_get(variant, "checked"))
            continue; /* a recorder of an older version */
        if (*unchecked)
            add(words, "; variant %.12s is not checked beside the original here: %s", id,
                unchecked);
        else
            add(words, "; variant %.12s: checked %.0f launches, %.0f differences", id,
                member_number(variant, "checked"), member_number(variant, "differed"));
        add_skips(words, variant);
        if (*said)
            add(words, "; variant %.12s %s", id, said);
        else if (member_number(variant, "pairs") > 0)
            add(words, "; %.0f pairs timed in the program so far", member_number(variant, "pairs"));
    }
}

/* Launches that no guard covered are captured, too, as long as there are not too many kinds. */
static void add_kinds(struct words *words, const json_t *kernel)
{
    double kinds = member_number(kernel, "kinds");
    if (json_is_true(json_object_get(kernel, "kinds_full")))
        add(words,
            "; %.0f kinds of its launches (shape, scalars) were captured, and there are more: no "
            "further ones are (KGENRT_SIGNATURES), and makers are asked for a more general variant",
            kinds);
    else if (kinds > 1)
        add(words, "; %.0f kinds of its launches (shape, scalars) were captured", kinds);
}

static void add_swap(struct words *words, const json_t *kernel)
{
    const json_t *variant = json_array_get(json_object_get(kernel, "variants"), 0);
    double before = member_number(kernel, "before_ns"), after = member_number(kernel, "after_ns");
    char from[SHORT_TEXT], to[SHORT_TEXT];
    if (member_number(kernel, "swapped") > 0)
        add(words, "%.0f of %.0f launches ran a variant, the first of them launch %.0f",
            member_number(kernel, "swapped"), member_number(kernel, "launches"),
            member_number(kernel, "first_swapped_launch"));
    else
        add(words, "a variant is loaded; no launch has run it yet");
    if (member_number(kernel, "seconds_to_swap") > 0)
        add(words, ", %.1f s after the first", member_number(kernel, "seconds_to_swap"));
    if (before > 0 && after > 0)
        add(words, "; in the program %s a launch before, %s after: %.2f times as fast",
            duration_text(before, from), duration_text(after, to), before / after);
    else if (after > 0)
        add(words, "; in the program %s a launch", duration_text(after, to));
    if (variant)
        add(words, "; verified variant %.12s, %.2f times as fast in the replay",
            member_text(variant, "id"), member_number(variant, "ratio"));
}

/* A limit that the process worked by; older recorders do not tell, then ours. */
static double limit(const json_t *process, const char *key, long otherwise)
{
    const json_t *value = json_object_get(process, key);
    return json_is_number(value) ? json_number_value(value) : (double)otherwise;
}

/* Launches of executable graphs, and which of these are not as they would be made today. */
static void add_graphs(struct words *words, const json_t *kernel)
{
    double within = member_number(kernel, "in_graphs"),
           stale = member_number(kernel, "graphs_stale"),
           behind = member_number(kernel, "graphs_behind");
    if (within > 0)
        add(words, "; %.0f of its launches were within graphs", within);
    if (stale > 0)
        add(words,
            "; a variant that is not used any more runs in %.0f executable graph%s until the "
            "program "
            "instantiates or updates %s",
            stale, stale > 1 ? "s" : "", stale > 1 ? "them" : "it");
    if (behind > 0)
        add(words,
            "; the original runs in %.0f executable graph%s made before a variant was in use, "
            "until "
            "the program instantiates or updates %s",
            behind, behind > 1 ? "s" : "", behind > 1 ? "them" : "it");
}

/* Why a kernel is not looked at: what it would have to do for it. */
static void add_cold(struct words *words, const json_t *kernel, const json_t *process)
{
    double launches = member_number(kernel, "launches"),
           share = 100 * member_number(kernel, "share");
    double most = limit(process, "hot_launches", options()->hot_launches);
    double least = limit(process, "hot_share", options()->hot_share);
    const char *mode = member_text(process, "mode");
    if (launches < most)
        add(words, "left alone: hot is a kernel from %.0f launches on (KGENRT_HOT_LAUNCHES)", most);
    else if (member_number(kernel, "in_graphs") > 0 && strcmp(mode, "cached") &&
             !member_number(kernel, "samples"))
        add(words,
            "left alone: only %.0f of its launches were outside of graphs, and within it can be "
            "neither timed nor captured",
            launches - member_number(kernel, "in_graphs"));
    else if (share < least)
        add(words, "left alone: hot is a kernel from %.0f%% of the GPU time on (KGENRT_HOT_SHARE)",
            least);
    else if (!strcmp(mode, "cached"))
        add(words,
            "the original runs: the cache has no variant for it, and mode cached makes none");
    else if (member_number(kernel, "samples") < ENOUGH_SAMPLES &&
             !member_number(kernel, "in_graphs"))
        add(words, "left alone: fewer than %d of its launches could be timed", ENOUGH_SAMPLES);
    else if (json_is_true(json_object_get(process, "running")))
        add(words, "hot (%.1f%% of the GPU time): taken up in a moment", share);
    else
        add(words, "hot (%.1f%% of the GPU time), but the program ended before it was taken up",
            share);
}

static void add_state(struct words *words, const json_t *kernel, const json_t *process)
{
    const char *state = member_text(kernel, "state"), *why = member_text(kernel, "why");
    double share = 100 * member_number(kernel, "share");
    if (!strcmp(member_text(process, "mode"), "observe")) {
        double ns = member_number(kernel, "before_ns");
        char time[SHORT_TEXT];
        add(words, "mode observe: counted and timed, never captured or replaced");
        if (ns > 0)
            add(words, "; a launch takes %s (median)", duration_text(ns, time));
        return;
    }
    if (!strcmp(state, "new"))
        add(words, "seen, not looked at yet");
    else if (!strcmp(state, "cold"))
        add_cold(words, kernel, process);
    else if (!strcmp(state, "judged"))
        add(words,
            "hot (%.1f%% of the GPU time); judged before: no faster variant; 'kgenrt show' has why",
            share);
    else if (!strcmp(state, "unfit"))
        add(words, "cannot be replaced");
    else if (!strcmp(state, "wanted"))
        add(words, "hot (%.1f%% of the GPU time): the next launch that can be is captured%s", share,
            member_number(kernel, "in_graphs") > 0
                ? ", which must be one outside of graphs, here or in the next run"
                : "");
    else if (!strcmp(state, "capturing"))
        add(words, "hot (%.1f%% of the GPU time): a launch is being captured", share);
    else if (!strcmp(state, "captured"))
        add(words, "hot (%.1f%% of the GPU time): a launch was captured", share);
    else if (!strcmp(state, "swapped"))
        add_swap(words, kernel);
    else
        add(words, "%s", *state ? state : "unknown");
    if (*why)
        add(words, ": %s", why);
}

json_t *kernel_explain(const json_t *kernel, const json_t *process, const json_t *stored)
{
    struct words words = {.used = 0};
    add_state(&words, kernel, process);
    if (!strcmp(member_text(kernel, "state"), "captured"))
        add_worker(&words, kernel, process, stored);
    add_refusals(&words, kernel);
    add_graphs(&words, kernel);
    add_kinds(&words, kernel);
    add_tracks(&words, kernel);
    return json_text(words.text);
}
