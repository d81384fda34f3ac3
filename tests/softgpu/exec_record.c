/* Which bytes of global memory a launch touches (struct exec_record): called where accesses are
 * checked, from several host threads. Must never change what a launch computes. */
#include "exec_core.h"

static void mark(uint8_t *bitmap, uint64_t first, uint32_t count)
{
    while (count) {
        unsigned bit = first % 8, here = 8 - bit < count ? 8 - bit : count;
        uint8_t bits = (uint8_t)(((1u << here) - 1) << bit);
        uint8_t *byte = bitmap + first / 8;
        if ((__atomic_load_n(byte, __ATOMIC_RELAXED) & bits) != bits)
            __atomic_fetch_or(byte, bits, __ATOMIC_RELAXED);
        first += here;
        count -= here;
    }
}

void record_touch(const struct launch *launch, uint64_t address, uint32_t size, bool write)
{
    const struct exec_record *record = launch->config->record;
    for (unsigned i = 0; record && i < record->count; i++) {
        const struct exec_touched *range = &record->ranges[i];
        uint8_t *bitmap = write ? range->written : range->read;
        uint64_t first = address > range->base ? address - range->base : 0;
        uint64_t end = address + size > range->base ? address + size - range->base : 0;
        if (end > range->size)
            end = range->size;
        if (bitmap && first < end)
            mark(bitmap, first, (uint32_t)(end - first));
    }
}
