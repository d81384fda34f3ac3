/* Gate memory: every byte that the original leaves alone is unchanged: inputs, red zones,
 * variables. Catches rows 3 and 4. */
#include "tune/gates/gates.h"

/* The variant's run from poison number `run` left every byte alone that the original leaves alone:
 * inputs, red zones, the original's variables. */
static size_t strayed(struct trial *trial, unsigned run, const unsigned char *got)
{
    struct replay_memory *memory = trial->memory;
    size_t at;
    memory_state(memory, trial->seeds[1 + run], false, memory->work);
    images_differ(memory, memory->work, got, OUTSIDE(memory->written), EVERYWHERE, &at);
    return at;
}

kg_status gate_memory(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    char place[160];
    for (unsigned run = 0; run < 2; run++) {
        size_t at = strayed(trial, run, run ? memory->other : memory->first);
        if (at < memory->total)
            return because(trial, KG_REFUSED, "writes memory that the original leaves alone: %s",
                           memory_place(memory, at, place, sizeof place));
    }
    return KG_OK;
}
