/* Gate repeat: many launches from equal memory give equal results. Catches races and uninitialised
 * memory that show often enough (rows 29, 30 and 32); never a proof. */
#include "tune/gates/gates.h"

enum { LEAST = 2 }; /* whatever KGENRT_REPEATS says: no option switches a gate off */

kg_status gate_repeat(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    struct replay_device *device = trial->device;
    char place[160];
    unsigned repeats = trial->repeats < LEAST ? LEAST : trial->repeats;
    memory_state(memory, trial->seeds[1], false, memory->work);
    if (trial_put(trial, memory->work) != KG_OK || device->keep(device) != KG_OK)
        return because(trial, KG_DRIVER, "memory cannot be kept: %s", device->error);
    for (unsigned run = 0; run < repeats; run++, trial->repeated = run) {
        bool same;
        size_t at;
        kg_status status = device->restore(device);
        if (status == KG_OK)
            status = trial_go(trial, VARIANT);
        if (status == KG_OK)
            status = trial_fetch_unless(trial, memory->first, memory->other, &same);
        if (status != KG_OK)
            return because(trial, KG_REFUSED, "launch %u failed: %s", run + 1, device->error);
        if (same)
            continue;
        images_differ(memory, memory->first, memory->other, EVERYWHERE, EVERYWHERE, &at);
        return because(trial, KG_REFUSED,
                       "launch %u with equal inputs gave another result at %s: a race, or "
                       "uninitialised memory",
                       run + 1, memory_place(memory, at, place, sizeof place));
    }
    return KG_OK;
}
