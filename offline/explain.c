/* Why a kernel is where it is, in words for a person. The states are those of runtime/app/app.h as
 * the flight recorder names them. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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

/* What the worker made of it, where the recorder cannot know. */
static void add_worker(struct words *words, const json_t *stored, const char *id)
{
    const json_t *job = latest(stored, "jobs", id);
    const json_t *rejection = latest(stored, "rejections", id);
    const char *state = member_text(job, "state"), *detail = member_text(job, "detail");
    if (!job)
        add(words, "; no worker has taken it up yet");
    else if (!strcmp(state, "done") || !strcmp(state, "failed"))
        add(words, "; the worker's job %s%s%s", strcmp(state, "done") ? "failed" : "is done",
            *detail ? ": " : "", detail);
    else if (json_is_true(json_object_get(stored, "worker")))
        add(words, "; the worker is at step '%s'%s%s", state, *detail ? ": " : "", detail);
    else
        add(words, "; the worker ended in step '%s': the next one begins again", state);
    if (rejection)
        add(words, "; last refused candidate (%s): gate %s: %s", member_text(rejection, "maker"),
            member_text(rejection, "gate"), member_text(rejection, "reason"));
}

static void add_refusals(struct words *words, const json_t *kernel)
{
    const char *reason;
    json_t *count;
    const char *separator = "; launches that got the original: ";
    json_object_foreach(json_object_get(kernel, "refused"), reason, count)
    {
        if (!json_number_value(count))
            continue;
        add(words, "%s%.0f (%s)", separator, json_number_value(count), reason);
        separator = ", ";
    }
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
        add(words, "; in the program %s before, %s after: %.2f times as fast",
            duration_text(before, from), duration_text(after, to), before / after);
    if (variant)
        add(words, "; verified variant %.12s, %.2f times as fast in the replay",
            member_text(variant, "id"), member_number(variant, "ratio"));
}

static void add_state(struct words *words, const json_t *kernel, const json_t *stored)
{
    const char *state = member_text(kernel, "state"), *why = member_text(kernel, "why");
    double share = 100 * member_number(kernel, "share");
    if (!strcmp(state, "new"))
        add(words, "seen, not looked at yet");
    else if (!strcmp(state, "cold"))
        add(words, "left alone: it does not matter so far (%.1f%% of the GPU time, %.0f launches)",
            share, member_number(kernel, "launches"));
    else if (!strcmp(state, "unfit"))
        add(words, "left alone");
    else if (!strcmp(state, "wanted"))
        add(words, "hot (%.1f%% of the GPU time): the next launch that can be is captured", share);
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
    if (!strcmp(state, "captured"))
        add_worker(words, stored, member_text(kernel, "id"));
}

json_t *kernel_explain(const json_t *kernel, const json_t *stored)
{
    struct words words = {.used = 0};
    add_state(&words, kernel, stored);
    add_refusals(&words, kernel);
    return json_text(words.text);
}
