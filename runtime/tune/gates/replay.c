/* Gate replay: the original runs here, gives the same three times whatever stands in the red zones,
 * and touches nothing that was not captured. Catches captures that are not the whole story (an
 * original that reads what was not captured), and originals whose results vary: these are left
 * alone. */
#include "tune/gates/gates.h"

/* The original runs here, gives the same three times whatever stands in the red zones, and touches
 * nothing that was not captured. */
kg_status gate_replay(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    char place[160];
    for (unsigned run = 0; run < 3; run++) {
        unsigned char *out = run ? memory->other : memory->result;
        memory_state(memory, trial->seeds[0] + run, false, memory->work);
        if (trial_launch(trial, ORIGINAL, memory->work, out) != KG_OK)
            return because(trial, KG_NOT_ELIGIBLE, "the original does not run in a replay: %s",
                           trial->device->error);
        size_t at = first_difference(memory->work, out, memory->slack, 0, memory->total);
        if (at < memory->total)
            return because(trial, KG_NOT_ELIGIBLE,
                           "the original writes memory that was not captured: %s",
                           memory_place(memory, at, place, sizeof place));
        for (size_t i = 0; i < memory->total; i++)
            out[i] &= (unsigned char)~memory->slack[i]; /* as in pristine, so that images compare */
        at = first_difference(memory->result, out, NULL, 0, memory->total);
        if (at < memory->total)
            return because(trial, KG_NOT_ELIGIBLE,
                           "the original's results vary from run to run, or depend on memory that "
                           "was not captured: first at %s",
                           memory_place(memory, at, place, sizeof place));
    }
    if (trial->only_original)
        return KG_OK;
    return written_find(trial) == KG_OK ? KG_OK : KG_NOT_ELIGIBLE;
}
