/* Gate stale: the result does not depend on what stood in the outputs before, where that is not
 * random but plausible: zeros, results in wrong places, results that are nearly all right. Catches
 * variants that compute where they find nothing useful and trust what they find otherwise (row 11).
 */
#include "tune/gates/gates.h"

#include <stdlib.h>
#include <string.h>

/* What must stand in memory after a right launch on `work`. */
static void expect(const struct replay_memory *memory, unsigned char *out)
{
    memcpy(out, memory->work, memory->total);
    for (size_t at = 0; at < memory->total; at++)
        if (memory->written[at])
            out[at] = memory->result[at];
}

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
            status = because(trial, KG_REFUSED, "a launch over outputs that hold %s failed: %s",
                             contents[i].text, trial->device->error);
        } else if (!same_memory(trial, memory->other, expected, &at)) {
            difference_text(memory, memory->other, expected, &trial->accuracy, at, text,
                            sizeof text);
            status = because(trial, KG_REFUSED,
                             "the result depends on what stood in the output before: over "
                             "%s it is wrong at %s",
                             contents[i].text, text);
        }
    }
    free(expected);
    return status;
}
