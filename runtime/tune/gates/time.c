/* Gates time and timed: the variant is faster, and what was timed is what was verified. Catches
 * rows 10, 11 and 42: variants that behave otherwise in timed launches. */
#include "tune/gates/gates.h"

kg_status gate_time(struct trial *trial)
{
    kg_status status = timing_run(trial);
    if (status == KG_OK)
        return timing_verdict(trial);
    if (status == KG_SLOWER || status == KG_REFUSED)
        return status; /* with its reason */
    return because(trial, status, "timing failed: %s", trial->device->error);
}

kg_status gate_timed(struct trial *trial)
{
    char place[160];
    if (trial->timed_at >= trial->memory->total)
        return KG_OK;
    return because(trial, KG_REFUSED, "a timed launch gave another result at %s",
                   memory_place(trial->memory, trial->timed_at, place, sizeof place));
}
