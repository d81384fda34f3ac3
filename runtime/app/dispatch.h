/* What dispatch.c shares with graphs.c, its tests and the benchmark beside app.h. */
#ifndef KG_DISPATCH_H
#define KG_DISPATCH_H

#include "app/app.h"

/* Most pointers and parameters a guard may have; signature_fits refuses more. */
enum { GUARD_POINTERS = 32, LAUNCH_PARAMS = 64 };

/* A launch's key and a guard's: the shape's hash in the upper half, in the lower one that of what
 * swap->pinned names. */
static inline uint64_t key_shape(const struct kg_launch *shape)
{
    uint64_t hash = shape->grid.x * UINT64_C(0x9e3779b97f4a7c15) +
                    shape->grid.y * UINT64_C(0xbf58476d1ce4e5b9) +
                    shape->grid.z * UINT64_C(0x94d049bb133111eb) +
                    shape->block.x * UINT64_C(0xd6e8feb86659fd93) +
                    shape->block.y * UINT64_C(0xa0761d6478bd642f) +
                    shape->block.z * UINT64_C(0xe7037ed1a0b428db) +
                    shape->shared * UINT64_C(0x8ebc6af09c88c6e3);
    return hash & ~(uint64_t)UINT32_MAX;
}
static inline uint64_t key_scalar(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
}
static inline uint64_t key_of(uint64_t shape, uint64_t scalars)
{
    return shape | scalars >> 32;
}

/* Addresses of the variant's arguments: the launch's (its own array, or `space`), then those of the
 * globals' addresses. NULL: there are none. */
void **variant_arguments(const struct kernel *kernel, const struct launch *launch,
                         const struct swap_entry *entry,
                         void *space[static LAUNCH_PARAMS + VARIANT_GLOBALS]);

#endif
