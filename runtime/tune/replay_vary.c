/* Gates on other memory than the captured: what stood in the outputs before, and the inputs a
 * little changed. Both catch a variant that is right in one memory only: one that computes where
 * it finds nothing useful and trusts what it finds otherwise, one that knows its result by heart.
 *
 * Inputs change as in written_find, one buffer at a time, by the lowest bit of each word: the
 * original is known to survive that, so nothing is risked. Larger changes need to know which loaded
 * data reaches addresses and branches. */
#include "tune/replay.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kg_status refuse(struct trial *trial, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static kg_status refuse(struct trial *trial, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(trial->reason, sizeof trial->reason, format, args);
    va_end(args);
    return KG_REFUSED;
}

/* Equal where the original writes, within accuracy; else bit for bit. `at`: the first offence. */
static bool same_memory(const struct trial *trial, const unsigned char *got,
                        const unsigned char *expected, size_t *at)
{
    const struct replay_memory *memory = trial->memory;
    if (!results_equal(memory, got, expected, &trial->accuracy, at))
        return false;
    size_t from = 0;
    while ((*at = first_difference(got, expected, NULL, from, memory->total)) < memory->total) {
        if (!memory->written[*at])
            return false;
        from = *at + 1;
    }
    return true;
}

/* What must stand in memory after a right launch on `work`. */
static void expect(const struct replay_memory *memory, unsigned char *out)
{
    memcpy(out, memory->work, memory->total);
    for (size_t at = 0; at < memory->total; at++)
        if (memory->written[at])
            out[at] = memory->result[at];
}

/* ---- what stood in the outputs -----------------------------------------------------------------
 */

/* What outputs may hold before a launch; of the last three most is right already. */
static const struct content {
    const char *text;
    unsigned one_in; /* a word of so many keeps its poison, the others are right; 0: none is */
    bool zeros;
} contents[] = {
    {"zeros", 0, true},
    {"right results in wrong places", 0, false},
    {"every other result", 2, false},
    {"nearly all results", 32, false},
    {"all results but a few", 1024, false},
};

static bool may_hold_anything(const struct replay_memory *memory, size_t at)
{
    return memory->written[at] && memory->poisoned[at] && !memory->slack[at];
}

/* Puts the content into `work`, which holds the poisoned state. False: there is nothing to put. */
static bool fill(const struct trial *trial, const struct content *content)
{
    const struct replay_memory *memory = trial->memory;
    const size_t away = 68; /* bytes: a place of another warp, and of another column */
    uint64_t seed = trial->seeds[2];
    bool any = false, wrong = false;
    for (size_t at = 0; at < memory->total; at++) {
        size_t other = at + away;
        if (!may_hold_anything(memory, at))
            continue;
        any = true;
        if (content->zeros)
            memory->work[at] = 0;
        else if (!content->one_in && other < memory->total && may_hold_anything(memory, other))
            memory->work[at] = memory->result[other];
        else if (content->one_in && wrong && random_word(seed, at / 4) % content->one_in)
            memory->work[at] = memory->result[at];
        wrong |= at % 4 == 3; /* the first word is wrong, or, by chance, all might be right */
    }
    return any;
}

kg_status gate_stale(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    unsigned char *expected = malloc(memory->total + 8);
    kg_status status = expected ? KG_OK : KG_NO_MEMORY;
    char text[512];
    for (size_t i = 0; i < sizeof contents / sizeof *contents && status == KG_OK; i++) {
        size_t at;
        memory_state(memory, trial->seeds[2] + 2 * (i + 1), false, memory->work);
        if (!fill(trial, &contents[i]) && i)
            break; /* it works in place: once, for what lies around */
        expect(memory, expected);
        if (trial_launch(trial, VARIANT, memory->work, memory->other) != KG_OK) {
            status = refuse(trial, "a launch over outputs that hold %s failed: %s",
                            contents[i].text, trial->device->error);
        } else if (!same_memory(trial, memory->other, expected, &at)) {
            difference_text(memory, memory->other, expected, &trial->accuracy, at, text,
                            sizeof text);
            status = refuse(trial,
                            "the result depends on what stood in the output before: over "
                            "%s it is wrong at %s",
                            contents[i].text, text);
        }
    }
    free(expected);
    return status;
}

/* ---- other inputs ------------------------------------------------------------------------------
 */

/* Original and variant from memory->work, compared. `expected`: scratch. */
static kg_status both_agree(struct trial *trial, unsigned char *expected)
{
    struct replay_memory *memory = trial->memory;
    char text[512];
    size_t at;
    if (trial_launch(trial, ORIGINAL, memory->work, expected) != KG_OK) {
        snprintf(trial->reason, sizeof trial->reason,
                 "the original does not survive a small change of its memory: %s",
                 trial->device->error);
        return KG_NOT_ELIGIBLE;
    }
    if (trial_launch(trial, VARIANT, memory->work, memory->other) != KG_OK)
        return refuse(trial, "a launch on other inputs failed: %s", trial->device->error);
    if (same_memory(trial, memory->other, expected, &at))
        return KG_OK;
    difference_text(memory, memory->other, expected, &trial->accuracy, at, text, sizeof text);
    return refuse(trial, "wrong result on other inputs (the lowest bits changed) at %s", text);
}

kg_status gate_inputs(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    unsigned char *expected = malloc(memory->total + 8);
    kg_status status = expected ? KG_OK : KG_NO_MEMORY;
    bool end = false;
    for (unsigned i = 0; status == KG_OK; i++) {
        status = written_change(trial, i, memory->work, &end);
        if (status != KG_OK || end)
            break;
        if (!memcmp(memory->work, memory->pristine, memory->total))
            continue;
        memory_state(memory, trial->seeds[2] - 2 * (i + 1), false, memory->other);
        for (size_t at = 0; at < memory->total; at++)
            if (memory->slack[at])
                memory->work[at] = memory->other[at];
        status = both_agree(trial, expected);
    }
    free(expected);
    return status;
}
