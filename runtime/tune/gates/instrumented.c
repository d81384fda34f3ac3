/* Gates observed and instrumented: launches of instrumented code, before anything of the variant
 * runs as it is.
 *
 * observed: the original. Gives the exact bytes that it reads and writes, and how much it loops; an
 * original that touches what was not captured, leaves its shared or local memory, races, or cannot
 * be instrumented is left alone. (A byte that another makes it touch on other data is not known
 * here: who draws inputs observes again.)
 *
 * instrumented: the variant. It may write only bytes that the original writes, and read only what
 * the original touches, or what shares an aligned sector of 32 bytes with that: no memory is
 * protected more finely, and what stands there is random in every launch, so that using it shows.
 * Its shared and local accesses are in bounds, its loops end within many times the original's
 * work, and none of its accesses conflict. Catches writes and reads out of bounds, variants that
 * do not end, and races (rows 4, 26, 29, 34, 41 of the catalogue; dangers 9, 16, 17, 19, 20). */
#include "tune/gates/gates.h"

#include "code/instrument.h"

#include <stdio.h>
#include <string.h>

enum { WORK_FACTOR = 64, LEAST_BUDGET = 10000, SECTOR = 32 };

static uint64_t threads_of(const struct kg_launch *l)
{
    return (uint64_t)l->grid.x * l->grid.y * l->grid.z * l->block.x * l->block.y * l->block.z;
}

uint64_t variant_budget(const struct trial *trial)
{
    uint64_t was = threads_of(&trial->original), is = threads_of(&trial->variant);
    uint64_t share = is && was > is ? (was + is - 1) / is : 1;
    double budget = (double)share * (double)(trial->observed.most + 1) * WORK_FACTOR + LEAST_BUDGET;
    return budget < UINT32_MAX - 1 ? (uint64_t)budget : UINT32_MAX - 1;
}

kg_status trial_observe(struct trial *trial, enum side side, unsigned what, uint64_t budget,
                        const unsigned char *in, unsigned char *reads, unsigned char *writes,
                        struct replay_observed *out)
{
    struct replay_device *device = trial->device;
    double *longest = &trial->observe_ns[what & INSTRUMENT_RACES ? 1 : 0];
    kg_status status = device->observe(device, side, what, 0, NULL, NULL, NULL);
    if (status == KG_OK)
        status = trial_put(trial, in);
    if (status != KG_OK)
        return status;
    if (side == VARIANT)
        trial_line(trial, "limit %ld", trial_limit_ms(trial, *longest));
    uint64_t before = now_ns();
    status = device->observe(device, side, what, budget, reads, writes, out);
    double took = (double)(now_ns() - before);
    if (side == VARIANT)
        trial_line(trial, "limit 0");
    else if (took > *longest)
        *longest = took;
    return status;
}

/* ---- the original ------------------------------------------------------------------------------
 */

static json_int_t count_set(const struct replay_memory *memory, const unsigned char *mask)
{
    size_t first;
    return (json_int_t)images_differ(memory, mask, NULL, EVERYWHERE, EVERYWHERE, &first);
}

/* The instruments saw every byte that the launch as it is has changed; else the PTX is not what
 * runs.
 */
static kg_status same_code(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    char place[160];
    size_t at;
    if (images_differ(memory, memory->result, memory->pristine, OUTSIDE(memory->written),
                      EVERYWHERE, &at))
        return because(trial, KG_NOT_ELIGIBLE,
                       "the original's PTX is not the code that runs: it does not write %s",
                       memory_place(memory, at, place, sizeof place));
    return KG_OK;
}

static kg_status observe_original(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    struct replay_observed races = {0}, *touched = &trial->observed;
    kg_status status = trial_observe(trial, ORIGINAL, INSTRUMENT_CHECK, UINT32_MAX,
                                     memory->pristine, memory->read, memory->written, touched);
    if (status == KG_OK && touched->offences)
        return because(trial, KG_NOT_ELIGIBLE,
                       "the original touches memory that is not its own, or was not captured: %s",
                       touched->first);
    if (status == KG_OK && (status = same_code(trial)) != KG_OK)
        return status;
    if (status == KG_OK)
        status = trial_observe(trial, ORIGINAL, INSTRUMENT_RACES, UINT32_MAX, memory->pristine,
                               NULL, NULL, &races);
    if (status != KG_OK)
        return because(trial, KG_NOT_ELIGIBLE, "the original cannot be observed: %s",
                       trial->device->error);
    if (races.races)
        return because(trial, KG_NOT_ELIGIBLE, "the original's accesses conflict: %s", races.first);
    trial_saw(trial, "observed",
              json_pack("{sI sI sI sf sf}", "read_bytes", count_set(memory, memory->read),
                        "written_bytes", count_set(memory, memory->written), "most_turns",
                        (json_int_t)touched->most, "instrumented_ns", trial->observe_ns[0],
                        "races_ns", trial->observe_ns[1]));
    return KG_OK;
}

kg_status gate_observed(struct trial *trial)
{
    if (!trial->device->observe)
        return because(trial, KG_NOT_ELIGIBLE,
                       "unverifiable: instrumented launches are not to be had here");
    kg_status status = observe_original(trial);
    if (status != KG_OK)
        return status;
    if (written_find(trial) != KG_OK)
        return KG_NOT_ELIGIBLE;
    if (trial->device->settle && trial->device->settle(trial->device) != KG_OK)
        log_line(KG_DEBUG, "replay: the device keeps no copies of images");
    return KG_OK;
}

/* ---- the variant -------------------------------------------------------------------------------
 */

/* First byte that is set in `mask` and fits nothing of the original; total: none. near: sharing a
 * sector is enough. */
static size_t beyond(const struct replay_memory *memory, const unsigned char *mask, bool near)
{
    size_t first;
    if (!images_differ(memory, mask, NULL, OUTSIDE(memory->written),
                       near ? OUTSIDE(memory->read) : EVERYWHERE, &first))
        return memory->total;
    for (uint32_t i = 0; i < memory->extent_count; i++) {
        const struct replay_extent *extent = &memory->extents[i];
        size_t end = extent->at + extent->size;
        for (size_t at = extent->at > first ? extent->at : first; at < end; at++) {
            if (!mask[at] || memory->written[at] || (near && memory->read[at]))
                continue;
            size_t skew = (size_t)((extent->address + (at - extent->at)) % SECTOR);
            size_t from = at - extent->at >= skew ? at - skew : extent->at;
            size_t to = at - skew + SECTOR < end ? at - skew + SECTOR : end;
            if (near && (memchr(memory->written + from, 0xff, to - from) ||
                         memchr(memory->read + from, 0xff, to - from)))
                continue;
            return at;
        }
    }
    return memory->total;
}

static kg_status refuse(struct trial *trial, kg_status status)
{
    if (status == KG_NOT_ELIGIBLE)
        return because(trial, KG_REFUSED, "the variant cannot be observed: %s",
                       trial->device->error);
    return because(trial, status == KG_NO_MEMORY ? status : KG_REFUSED,
                   "the variant's instrumented launch failed: %s", trial->device->error);
}

static kg_status judge_touched(struct trial *trial, const struct replay_observed *saw,
                               const unsigned char *reads, const unsigned char *writes)
{
    const struct replay_memory *memory = trial->memory;
    char place[160];
    if (saw->offences)
        return because(trial, KG_REFUSED, "%s", saw->first);
    size_t at = beyond(memory, writes, false);
    if (at < memory->total)
        return because(trial, KG_REFUSED, "writes a byte that the original does not write: %s",
                       memory_place(memory, at, place, sizeof place));
    at = beyond(memory, reads, true);
    if (at < memory->total)
        return because(trial, KG_REFUSED,
                       "reads where the original touches nothing within %d bytes: %s", SECTOR,
                       memory_place(memory, at, place, sizeof place));
    return KG_OK;
}

kg_status gate_instrumented(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    struct replay_observed touched = {0}, races = {0};
    uint64_t budget = variant_budget(trial);
    if (!trial->device->observe)
        return because(trial, KG_REFUSED, "instrumented launches are not to be had here");
    memory_state(memory, trial->seeds[1], false, memory->work);
    kg_status status = trial_observe(trial, VARIANT, INSTRUMENT_CHECK, budget, memory->work,
                                     memory->other, memory->first, &touched);
    if (status != KG_OK)
        return refuse(trial, status);
    status = judge_touched(trial, &touched, memory->other, memory->first);
    if (status != KG_OK)
        return status;
    json_int_t read = count_set(memory, memory->other), written = count_set(memory, memory->first);
    status =
        trial_observe(trial, VARIANT, INSTRUMENT_RACES, budget, memory->work, NULL, NULL, &races);
    if (status != KG_OK)
        return refuse(trial, status);
    trial_saw(trial, "instrumented",
              json_pack("{sI sI sI sI}", "read_bytes", read, "written_bytes", written, "most_turns",
                        (json_int_t)touched.most, "turns_budget", (json_int_t)budget));
    return races.races ? because(trial, KG_REFUSED, "its accesses conflict: %s", races.first)
                       : KG_OK;
}
