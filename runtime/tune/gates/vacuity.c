/* Gate vacuity: the check can fail. Null candidates (nothing, zeros, one constant, an input copied)
 * must be refused by the very comparison that the variant will meet, on these inputs; else the
 * kernel is unverifiable and left alone. Catches rows 1, 5, 6 and 20 of the catalogue. */
#include "tune/gates/gates.h"

#include <string.h>

/* True if the image in memory->other would pass for the result: then the check checks nothing. */
static bool passes(struct trial *trial)
{
    size_t at;
    return results_equal(trial->memory, trial->memory->other, trial->memory->first,
                         &trial->accuracy, &at);
}

/* Puts into `other` the expected image with every written byte replaced by the byte that stands as
 * far behind `source` as it stands behind the start of the captured buffer `target`. */
static bool copied(struct trial *trial, const struct capture_region *source,
                   const struct capture_region *target, const struct replay_extent *extent)
{
    struct replay_memory *memory = trial->memory;
    size_t from = extent->at + (size_t)(target->address - extent->address);
    bool any = false;
    if (!memchr(memory->written + from, 0xff, target->size))
        return false;
    memcpy(memory->other, memory->first, memory->total);
    for (uint64_t i = 0; i < target->size && i < source->size; i++) {
        if (!memory->written[from + i])
            continue;
        memory->other[from + i] = source->data[i];
        any = true;
    }
    return any;
}

static const struct replay_extent *extent_of(const struct replay_memory *memory, uint64_t address)
{
    for (uint32_t i = 0; i < memory->extent_count; i++)
        if (!memory->extents[i].global && address >= memory->extents[i].address &&
            address - memory->extents[i].address < memory->extents[i].size)
            return &memory->extents[i];
    return NULL;
}

/* Bytes that the result may depend on: captured, but for what is only written. */
static bool has_inputs(const struct replay_memory *memory)
{
    for (size_t i = 0; i < memory->total; i++)
        if (!memory->slack[i] && !(memory->written[i] && memory->poisoned[i]))
            return true;
    return false;
}

/* Puts into `other` the expected image with the same 16 bytes everywhere, those that come first. */
static void one_constant(struct replay_memory *memory)
{
    unsigned char value[16] = {0};
    bool known[16] = {false};
    memcpy(memory->other, memory->first, memory->total);
    for (size_t i = 0; i < memory->total; i++) {
        if (!memory->written[i])
            continue;
        if (!known[i % 16])
            value[i % 16] = memory->first[i];
        known[i % 16] = true;
        memory->other[i] = value[i % 16];
    }
}

/* Null candidates must be refused by the comparison that the variant will meet, on these inputs:
 * one that does nothing, one that writes zeros or one constant, one that copies an input. */
kg_status gate_vacuity(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    const struct kg_capture *capture = memory->capture;
    if (!trial->written_bytes)
        return because(trial, KG_NOT_ELIGIBLE, "unverifiable: the original writes nothing");
    memory_expected(memory, trial->seeds[1], memory->first);
    memory_state(memory, trial->seeds[1], false, memory->other);
    if (passes(trial))
        return because(trial, KG_NOT_ELIGIBLE,
                       "unverifiable: on these inputs a kernel that does nothing would pass");
    for (size_t i = 0; i < memory->total; i++)
        memory->other[i] = memory->first[i] & (unsigned char)~memory->written[i];
    if (passes(trial))
        return because(trial, KG_NOT_ELIGIBLE,
                       "unverifiable: on these inputs a kernel that writes zeros would pass");
    one_constant(memory);
    if (!trial->sensitive && has_inputs(memory) && passes(trial))
        return because(
            trial, KG_NOT_ELIGIBLE,
            "unverifiable: on these inputs a kernel that writes one constant would pass");
    for (uint32_t t = 0; t < capture->region_count; t++)
        for (uint32_t s = 0; s < capture->region_count; s++) {
            const struct capture_region *source = &capture->regions[s],
                                        *target = &capture->regions[t];
            const struct replay_extent *extent =
                target->kind != CAPTURE_GLOBAL ? extent_of(memory, target->address) : NULL;
            if (!extent || source->kind == CAPTURE_GLOBAL || source->address == target->address ||
                !copied(trial, source, target, extent) || !passes(trial))
                continue;
            return because(trial, KG_NOT_ELIGIBLE,
                           "unverifiable: on these inputs a kernel that copies buffer %u to %u "
                           "would pass",
                           s, t);
        }
    return KG_OK;
}
