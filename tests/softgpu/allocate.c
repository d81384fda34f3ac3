/* Allocation calls: device, pitched, managed, pinned host memory, stream-ordered, pools. Managed
 * memory is device memory, for the host may touch every device address here. A pool is a name with
 * a threshold: its memory comes from where all comes from. */
#include "graph.h"

#include <stdlib.h>
#include <sys/mman.h>

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    struct context *context;
    uint64_t address;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = capture_unsafe();
    if (result == CUDA_SUCCESS && !dptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = memory_take(context, bytesize, 512, MEMORY_DEVICE, &address);
    if (result == CUDA_SUCCESS)
        *dptr = address;
    return result;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                            unsigned int ElementSizeBytes)
{
    const size_t most = (size_t)1 << 42;
    if (!pPitch || !WidthInBytes || !Height || WidthInBytes > most || Height > most)
        return CUDA_ERROR_INVALID_VALUE;
    size_t pitch = round_up(WidthInBytes, 512);
    if (Height > most / pitch)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = cuMemAlloc_v2(dptr, pitch * Height);
    if (result == CUDA_SUCCESS)
        *pPitch = pitch;
    return result;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    struct context *context;
    uint64_t address;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    if (!dptr || !(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    result = memory_take(context, bytesize, 512, MEMORY_MANAGED, &address);
    if (result == CUDA_SUCCESS)
        *dptr = address;
    return result;
}

/* Waits for the device, as on hardware: what runs may use the memory. */
CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = capture_unsafe();
    if (result != CUDA_SUCCESS || !dptr)
        return result;
    struct memory_block block;
    if (!memory_find(dptr, &block) || block.base != dptr || block.kind > MEMORY_MANAGED)
        return CUDA_ERROR_INVALID_VALUE;
    result = context_drain(context);
    if (result == CUDA_SUCCESS && block.context != context && block.context->alive)
        (void)context_drain(block.context); /* a fault there does not keep the memory */
    return result == CUDA_SUCCESS ? memory_give(dptr, MEMORY_DEVICE) : result;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS && (!free || !total))
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        *total = context->device->memory;
        *free = *total - memory_used(context->device->ordinal);
    }
    return result;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    struct context *context;
    struct memory_block block;
    CUresult result = context_enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!memory_find(dptr, &block))
        return CUDA_ERROR_NOT_FOUND;
    if (pbase)
        *pbase = block.base;
    if (psize)
        *psize = block.size;
    return CUDA_SUCCESS;
}

/* ---- pinned host memory ---- */

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    if (!pp || !bytesize || bytesize > ((size_t)1 << 46) ||
        Flags >
            (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED))
        return CUDA_ERROR_INVALID_VALUE;
    if (soft_fault_due(SOFT_OOM))
        return CUDA_ERROR_OUT_OF_MEMORY;
    void *memory = mmap(NULL, bytesize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = memory_enter((struct memory_block){.base = (uintptr_t)memory,
                                                .size = bytesize,
                                                .kind = MEMORY_HOST,
                                                .writable = true,
                                                .flags = Flags,
                                                .device = context->device->ordinal,
                                                .context = context});
    if (result == CUDA_SUCCESS)
        *pp = memory;
    else
        munmap(memory, bytesize);
    return result;
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
    return cuMemHostAlloc(pp, bytesize, 0);
}

CUresult cuMemFreeHost(void *p)
{
    struct context *context;
    struct memory_block block;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = capture_unsafe();
    if (result != CUDA_SUCCESS || !p)
        return result;
    if (!memory_find((uintptr_t)p, &block) || block.base != (uintptr_t)p)
        return CUDA_ERROR_INVALID_VALUE;
    result = context_drain(context);
    if (result == CUDA_SUCCESS)
        result = memory_leave(block.base, MEMORY_HOST);
    if (result == CUDA_SUCCESS && munmap(p, block.size))
        result = CUDA_ERROR_OPERATING_SYSTEM;
    return result;
}

CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    if (!p || !bytesize || memory_is_device_address((uintptr_t)p))
        return CUDA_ERROR_INVALID_VALUE;
    result = memory_enter((struct memory_block){.base = (uintptr_t)p,
                                                .size = bytesize,
                                                .kind = MEMORY_REGISTERED,
                                                .writable = !(Flags & CU_MEMHOSTREGISTER_READ_ONLY),
                                                .flags = Flags,
                                                .device = context->device->ordinal,
                                                .context = context});
    return result == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : result;
}

CUresult cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags)
{
    return cuMemHostRegister_v2(p, bytesize, Flags);
}

CUresult cuMemHostUnregister(void *p)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = capture_unsafe();
    if (result == CUDA_SUCCESS)
        result = context_drain(context);
    if (result != CUDA_SUCCESS)
        return result;
    return memory_leave((uintptr_t)p, MEMORY_REGISTERED) == CUDA_SUCCESS
               ? CUDA_SUCCESS
               : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

static CUresult host_block(const void *p, struct memory_block *out)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    return memory_find((uintptr_t)p, out) &&
                   (out->kind == MEMORY_HOST || out->kind == MEMORY_REGISTERED)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    struct memory_block block;
    CUresult result = host_block(p, &block);
    if (result == CUDA_SUCCESS && (!pdptr || Flags))
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *pdptr = (uintptr_t)p;
    return result;
}

CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    struct memory_block block;
    CUresult result = host_block(p, &block);
    if (result == CUDA_SUCCESS && !pFlags)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *pFlags = block.flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return result;
}

/* ---- pools and stream-ordered memory ---- */

struct pool {
    uint64_t threshold;
    int reuse[3]; /* event dependencies, opportunistic, internal dependencies */
};

static struct pool default_pool = {.reuse = {1, 1, 1}};
static _Atomic(struct pool *) current_pool = &default_pool;

static CUresult pool_of(CUmemoryPool handle, struct pool **out)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    *out = (struct pool *)handle;
    return *out == &default_pool || handle_kind_of(*out) == HANDLE_POOL ? CUDA_SUCCESS
                                                                        : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    if (!pool || !poolProps || poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        poolProps->location.id)
        return CUDA_ERROR_INVALID_VALUE;
    struct pool *made = malloc(sizeof *made);
    if (!made || !handle_add(made, HANDLE_POOL)) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *made = (struct pool){.reuse = {1, 1, 1}};
    *pool = (CUmemoryPool)made;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    struct pool *found;
    CUresult result = pool_of(pool, &found);
    if (result != CUDA_SUCCESS || found == &default_pool)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    struct pool *expected = found;
    atomic_compare_exchange_strong(&current_pool, &expected, &default_pool);
    handle_remove(found);
    free(found);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
    struct pool *found;
    return pool_of(pool, &found); /* nothing is kept beyond its use */
}

static CUresult pool_attribute(struct pool *pool, CUmemPool_attribute attr, void *value, bool set)
{
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (attr >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
        attr <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) {
        int *own = &pool->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
        *(set ? own : (int *)value) = *(set ? (int *)value : own);
        return CUDA_SUCCESS;
    }
    if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
        uint64_t *own = &pool->threshold;
        *(set ? own : (uint64_t *)value) = *(set ? (uint64_t *)value : own);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_SUPPORTED; /* counters of use: not kept by pool */
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    struct pool *found;
    CUresult result = pool_of(pool, &found);
    return result == CUDA_SUCCESS ? pool_attribute(found, attr, value, true) : result;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    struct pool *found;
    CUresult result = pool_of(pool, &found);
    return result == CUDA_SUCCESS ? pool_attribute(found, attr, value, false) : result;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
    CUresult result = soft_enter();
    if (result == CUDA_SUCCESS && (!pool_out || dev))
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *pool_out = (CUmemoryPool)&default_pool;
    return result;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    CUresult result = soft_enter();
    if (result == CUDA_SUCCESS && (!pool || dev))
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *pool = (CUmemoryPool)atomic_load(&current_pool);
    return result;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    struct pool *found;
    CUresult result = pool_of(pool, &found);
    if (result == CUDA_SUCCESS && dev)
        return CUDA_ERROR_INVALID_DEVICE;
    if (result == CUDA_SUCCESS)
        atomic_store(&current_pool, found);
    return result;
}

/* The memory is there at once, which is earlier than the stream's order demands. */
static CUresult take_async(CUdeviceptr *dptr, size_t size, CUstream handle, bool per_thread)
{
    struct context *context;
    struct stream *stream;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = stream_of(context, handle, per_thread, &stream);
    return result == CUDA_SUCCESS ? cuMemAlloc_v2(dptr, size) : result;
}

static CUresult take_from(CUdeviceptr *dptr, size_t size, CUmemoryPool pool, CUstream handle,
                          bool per_thread)
{
    struct pool *found;
    CUresult result = pool_of(pool, &found);
    return result == CUDA_SUCCESS ? take_async(dptr, size, handle, per_thread) : result;
}

struct free_op {
    struct op op;
    uint64_t address;
};

static CUresult free_run(struct op *op)
{
    return memory_give(((struct free_op *)op)->address, MEMORY_DEVICE) == CUDA_SUCCESS
               ? CUDA_SUCCESS
               : CUDA_ERROR_ILLEGAL_ADDRESS; /* given back twice */
}

static CUresult give_async(CUdeviceptr dptr, CUstream handle, bool per_thread)
{
    struct context *context;
    struct stream *stream;
    struct memory_block block;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = stream_of(context, handle, per_thread, &stream);
    if (result != CUDA_SUCCESS || !dptr)
        return result;
    if (!memory_find(dptr, &block) || block.base != dptr || block.kind > MEMORY_MANAGED)
        return CUDA_ERROR_INVALID_VALUE;
    struct free_op *op = op_create(sizeof *op);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->op.run = free_run;
    op->address = dptr;
    return op_submit(stream, &op->op, false);
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    return take_async(dptr, bytesize, hStream, false);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    return take_async(dptr, bytesize, hStream, true);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                 CUstream hStream)
{
    return take_from(dptr, bytesize, pool, hStream, false);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                      CUstream hStream)
{
    return take_from(dptr, bytesize, pool, hStream, true);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
    return give_async(dptr, hStream, false);
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream)
{
    return give_async(dptr, hStream, true);
}
