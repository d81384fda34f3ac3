/* Gate inputs: the variant agrees with the original on other inputs too. Catches variants that know
 * their result by heart (rows 7 and 10).
 *
 * Inputs change as in written_find, one buffer at a time, by the lowest bit of each word: the
 * original is known to survive that, so nothing is risked. Larger changes need to know which loaded
 * data reaches addresses and branches. */
#include "tune/gates/gates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        return because(trial, KG_REFUSED, "a launch on other inputs failed: %s",
                       trial->device->error);
    if (same_memory(trial, memory->other, expected, &at))
        return KG_OK;
    difference_text(memory, memory->other, expected, &trial->accuracy, at, text, sizeof text);
    return because(trial, KG_REFUSED,
                   "wrong result on other inputs (the lowest bits changed) at %s", text);
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
