/* Gate memory: every byte that the original leaves alone is unchanged: inputs, red zones,
 * variables. Catches rows 3 and 4. */
#include "tune/gates/gates.h"

#include <string.h>

/* The variant's run from poison number `run` left every byte alone that the original leaves alone:
 * inputs, red zones, the original's variables. */
static size_t strayed(struct trial *trial, unsigned run, const unsigned char *got)
{
    struct replay_memory *memory = trial->memory;
    memory_state(memory, trial->seeds[1 + run], false, memory->work);
    for (size_t at = 0; at < memory->total; at += 8) {
        uint64_t before, after, written;
        memcpy(&before, memory->work + at, 8);
        memcpy(&after, got + at, 8);
        memcpy(&written, memory->written + at, 8);
        uint64_t changed = (before ^ after) & ~written;
        if (changed)
            return at + (size_t)(__builtin_ctzll(changed) / 8);
    }
    return memory->total;
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
