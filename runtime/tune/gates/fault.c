/* Gates fault and deadline: the variant's first launches as it will be used, without
 * instruments. Catches launches that fail and variants that do not end (rows 31 and 41). */
#include "tune/gates/gates.h"

#include <stdio.h>

/* Not a gate: the two launches that the next gates look at, from two different poisons. */
static void run_poisoned(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    trial->poison_at = trial->timed_at = memory->total;
    for (unsigned run = 0; run < 2; run++) {
        memory_state(memory, trial->seeds[1 + run], false, memory->work);
        if (trial_launch(trial, VARIANT, memory->work, run ? memory->other : memory->first) ==
            KG_OK)
            continue;
        snprintf(trial->launch_error, sizeof trial->launch_error, "%s", trial->device->error);
        return;
    }
    images_differ(memory, memory->first, memory->other, INSIDE(memory->written), EVERYWHERE,
                  &trial->poison_at);
}

kg_status gate_fault(struct trial *trial)
{
    run_poisoned(trial);
    if (!*trial->launch_error)
        return KG_OK;
    return because(trial, KG_REFUSED, "the variant's launch failed: %s", trial->launch_error);
}

/* Judged by the parent, which kills the child when a launch of the variant passes the limit that
 * trial_launch announces. A child that comes here has passed. */
kg_status gate_deadline(struct trial *trial)
{
    return KG_OK;
}
