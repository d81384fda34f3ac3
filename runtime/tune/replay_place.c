/* Where a replay's memory stands: captured bytes at their original device addresses, so that
 * pointers in memory stay valid. Whole 32 MiB windows are reserved before anything else is
 * allocated, and physical memory is mapped inside. */
#include "tune/replay_cuda.h"

#include <inttypes.h>
#include <stdio.h>

static const uint64_t window_bytes = UINT64_C(32) << 20;

/* Reserves [low, high), whole windows, at just this address. */
static kg_status reserve(struct cuda *cuda, uint64_t low, uint64_t high)
{
    CUdeviceptr got = 0;
    TRY("address reservation", real.cuMemAddressReserve(&got, high - low, 0, low, 0));
    if (got == low)
        return KG_OK;
    snprintf(cuda->device.error, sizeof cuda->device.error,
             "the captured addresses 0x%" PRIx64 " to 0x%" PRIx64
             " are taken in the replay's process",
             low, high);
    return KG_TAKEN;
}

/* Extents are sorted; those in the same or in touching windows share one reservation. */
static kg_status reserve_all(struct cuda *cuda)
{
    const struct replay_memory *memory = cuda->memory;
    uint64_t low = 0, high = 0;
    for (uint32_t i = 0; i < memory->extent_count; i++) {
        const struct replay_extent *e = &memory->extents[i];
        uint64_t first = e->address / window_bytes * window_bytes;
        uint64_t last = (e->address + e->size + window_bytes - 1) / window_bytes * window_bytes;
        if (high && first <= high) {
            high = last > high ? last : high;
            continue;
        }
        kg_status status = high ? reserve(cuda, low, high) : KG_OK;
        if (status != KG_OK)
            return status;
        low = first;
        high = last;
    }
    return high ? reserve(cuda, low, high) : KG_OK;
}

CUmemAllocationProp place_physical(const struct cuda *cuda)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = cuda->handle}};
}

kg_status place_map(struct cuda *cuda, uint64_t address, uint64_t size)
{
    CUmemAllocationProp prop = place_physical(cuda);
    CUmemAccessDesc access = {.location = prop.location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    TRY("physical memory", real.cuMemCreate(&handle, size, &prop, 0));
    CUresult result = real.cuMemMap(address, size, 0, handle, 0);
    CUresult released = real.cuMemRelease(handle); /* the mapping keeps it */
    TRY("mapping", result);
    TRY("mapping", released);
    TRY("mapping", real.cuMemSetAccess(address, size, &access, 1));
    return KG_OK;
}

static kg_status map_all(struct cuda *cuda)
{
    const struct replay_memory *memory = cuda->memory;
    kg_status status = KG_OK;
    for (uint32_t i = 0; i < memory->extent_count && status == KG_OK; i++)
        status = place_map(cuda, memory->extents[i].address, memory->extents[i].size);
    return status;
}

static kg_status plan(struct cuda *cuda)
{
    size_t granule = 0, free_bytes = 0, all = 0;
    CUmemAllocationProp prop = place_physical(cuda);
    TRY("granularity",
        real.cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    if (!granule || window_bytes % granule)
        return KG_UNSUPPORTED;
    cuda->granule = granule;
    kg_status status = memory_plan(cuda->memory, cuda->capture, granule, window_bytes);
    if (status != KG_OK)
        return status;
    TRY("free memory", real.cuMemGetInfo_v2(&free_bytes, &all));
    uint64_t spare = cuda->request->reserve < all / 8 ? cuda->request->reserve : all / 8;
    if (free_bytes > spare && (free_bytes - spare) / 2 > cuda->memory->total)
        return KG_OK;
    snprintf(cuda->device.error, sizeof cuda->device.error,
             "%zu MiB of device memory are free, the replay needs %zu and leaves %" PRIu64,
             free_bytes >> 20, cuda->memory->total >> 19, spare >> 20);
    return spare ? KG_BUSY : KG_NO_MEMORY; /* the program beside may end */
}

kg_status place_all(struct cuda *cuda)
{
    kg_status status = plan(cuda);
    if (status == KG_OK)
        status = reserve_all(cuda);
    return status == KG_OK ? map_all(cuda) : status;
}
