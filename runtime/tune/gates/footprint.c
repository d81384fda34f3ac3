/* Gate admission, its second half: what only the loaded code shows. Catches rows 31 (more shared
 * memory than there is) and variants that would make the driver enlarge its pool of local memory.
 */
#include "tune/gates/gates.h"

/* What only the loaded code shows: it fits the device, and needs no more local memory than the
 * original (the driver would enlarge its pool beside a running app). */
kg_status gate_footprint(struct trial *trial)
{
    const struct replay_footprint *was = &trial->device->footprint[ORIGINAL],
                                  *is = &trial->device->footprint[VARIANT];
    const struct kg_dim block = trial->variant.block;
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    uint64_t shared = (uint64_t)is->static_shared + trial->variant.shared;
    if (is->local_bytes > was->local_bytes)
        return because(trial, KG_REFUSED,
                       "%u bytes of local memory a thread; the original has %u (spilled "
                       "registers or indexed local arrays)",
                       is->local_bytes, was->local_bytes);
    if (trial->device->shared_limit && shared > trial->device->shared_limit)
        return because(trial, KG_REFUSED, "%llu bytes of shared memory; the device has %u a block",
                       (unsigned long long)shared, trial->device->shared_limit);
    if (is->max_threads && threads > is->max_threads)
        return because(trial, KG_REFUSED,
                       "%llu threads a block; with its registers the kernel can have %u",
                       (unsigned long long)threads, is->max_threads);
    return KG_OK;
}
