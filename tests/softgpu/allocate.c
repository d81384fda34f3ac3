/* Allocation calls: device, pitched, managed, pinned host memory (in stream order: pool.c). Managed
 * memory is device memory, for the host may touch every device address here. */
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
    if (result == CUDA_SUCCESS)
        result = memory_give(dptr, MEMORY_DEVICE);
    if (result == CUDA_SUCCESS)
        pool_gave(&block);
    return result;
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
