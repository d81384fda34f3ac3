/* Gate poison: two launches from outputs that held different random bytes must agree. Catches
 * outputs that are not written, and results that depend on what stood there (rows 1, 2, 7 and 11).
 */
#include "tune/gates/gates.h"

kg_status gate_poison(struct trial *trial)
{
    const struct replay_memory *memory = trial->memory;
    char text[512];
    if (trial->poison_at >= memory->total)
        return KG_OK;
    difference_text(memory, memory->first, memory->other, &trial->accuracy, trial->poison_at, text,
                    sizeof text);
    return because(trial, KG_REFUSED,
                   "the result depends on what stood in the output before (not written, or read): "
                   "two runs differ at %s",
                   text);
}
