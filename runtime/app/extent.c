/* Extents: see extent.h. The driver knows an address until its free was executed; what the app has
 * freed in stream order is over for every later launch, so those addresses are remembered here, by
 * their hash, each until another takes its place. */
#include "app/extent.h"

#include <sys/uio.h>
#include <unistd.h>

enum {
    FREED = 4096,
    MOST_MAPPINGS = 1024, /* in a row, each at least 2 MiB */
};

static _Atomic uint64_t freed[FREED];

static _Atomic uint64_t *freed_place(uint64_t address)
{
    return &freed[(address * UINT64_C(0x9e3779b97f4a7c15)) >> 52];
}

void memory_freed(uint64_t address)
{
    atomic_store_explicit(freed_place(address), address, memory_order_relaxed);
}

void memory_taken(uint64_t address)
{
    _Atomic uint64_t *place = freed_place(address);
    if (atomic_load_explicit(place, memory_order_relaxed) == address)
        atomic_store_explicit(place, 0, memory_order_relaxed);
}

static bool was_freed(uint64_t address)
{
    return atomic_load_explicit(freed_place(address), memory_order_relaxed) == address;
}

/* ---- asking the driver -------------------------------------------------------------------------
 */

/* 64 bits of an attribute, or 0. */
static uint64_t attribute(CUpointer_attribute which, uint64_t address)
{
    uint64_t value = 0;
    return real.cuPointerGetAttribute(&value, which, address) == CUDA_SUCCESS ? value : 0;
}

static const char *kind_refused(uint64_t address, unsigned type, CUdevice own)
{
    unsigned managed = 0;
    CUdevice device = own;
    if (real.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) ==
            CUDA_SUCCESS &&
        managed)
        return "it is given host-visible memory: managed";
    if (type != CU_MEMORYTYPE_DEVICE)
        return "it is given host-visible memory: mapped or registered host memory";
    if (real.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) ==
            CUDA_SUCCESS &&
        device != own)
        return "it is given another device's memory";
    return NULL;
}

/* One allocation or mapping. */
static struct extent one_find(uint64_t address, CUdevice own)
{
    struct extent e = {0};
    unsigned type = 0;
    CUdeviceptr base = 0;
    size_t size = 0;
    if (real.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) !=
        CUDA_SUCCESS)
        return e;
    e.why = kind_refused(address, type, own);
    if (!e.why && real.cuMemGetAddressRange_v2(&base, &size, address) == CUDA_SUCCESS &&
        address >= base && address - base < size && !was_freed(base)) {
        e.base = base;
        e.size = size;
    }
    return e;
}

/* What touches the extent at one of its ends becomes part of it. */
static bool grow(struct extent *e, bool up, CUdevice own)
{
    struct extent next = one_find(up ? e->base + e->size : e->base - 1, own);
    if (next.why || !next.size ||
        (up ? next.base != e->base + e->size : next.base + next.size != e->base))
        return false;
    e->base = up ? e->base : next.base;
    e->size += next.size;
    return true;
}

struct extent extent_find(uint64_t address, uint64_t from, uint64_t to, CUdevice own)
{
    struct extent e = one_find(address, own);
    if (e.why || !e.size)
        return e;
    e.pool = attribute(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address) != 0;
    if (e.pool || (from >= e.base && to <= e.base + e.size))
        return e;
    uint64_t low = attribute(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address);
    uint64_t high = low + attribute(CU_POINTER_ATTRIBUTE_RANGE_SIZE, address);
    if (!low || low > e.base || high < e.base + e.size)
        return e;
    from = from > low ? from : low;
    to = to < high ? to : high;
    unsigned left = MOST_MAPPINGS;
    while (left && e.base + e.size < to && grow(&e, true, own))
        left--;
    while (left && e.base > from && grow(&e, false, own))
        left--;
    if (!left)
        e.why = "it is given memory of more mappings than can be followed";
    return e;
}

/* What the driver reserved for device memory can be read by no host call. */
const char *extent_pageable(uint64_t address, CUdevice own)
{
    int can = 0;
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)address, 1};
    if (real.cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, own) !=
            CUDA_SUCCESS ||
        !can || process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1)
        return NULL;
    return "it is given host-visible memory: pageable";
}
