/* Hints for managed memory. There is one memory, so a hint for a range that is managed is taken and
 * changes nothing; for another range it is a mistake. */
#include "graph.h"

/* The whole range is managed memory. */
static CUresult managed(CUdeviceptr address, size_t size)
{
    struct context *context;
    struct memory_block block;
    CUresult result = context_enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    return size && memory_find(address, &block) && block.kind == MEMORY_MANAGED &&
                   size <= block.base + block.size - address
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

static bool device_good(int device)
{
    return device == CU_DEVICE_CPU || (device >= 0 && device < device_count());
}

static bool location_good(CUmemLocation location)
{
    return location.type == CU_MEM_LOCATION_TYPE_DEVICE ? device_good(location.id)
                                                        : location.type > 0;
}

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
    CUresult result = managed(devPtr, count);
    if (result == CUDA_SUCCESS &&
        (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY))
        return CUDA_ERROR_INVALID_VALUE;
    return result == CUDA_SUCCESS && !device_good(device) ? CUDA_ERROR_INVALID_DEVICE : result;
}

CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                        CUmemLocation location)
{
    return location_good(location) ? cuMemAdvise(devPtr, count, advice, CU_DEVICE_CPU)
                                   : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult prefetch(CUdeviceptr address, size_t size, bool good, CUstream handle,
                         bool per_thread)
{
    struct context *context;
    struct stream *stream;
    CUresult result = managed(address, size);
    if (result == CUDA_SUCCESS && !good)
        return CUDA_ERROR_INVALID_DEVICE;
    if (result == CUDA_SUCCESS)
        result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = stream_of(context, handle, per_thread, &stream);
    return result == CUDA_SUCCESS ? capture_refuses(stream, CUDA_ERROR_NOT_SUPPORTED) : result;
}

CALL(cuMemPrefetchAsync, _ptsz,
     (CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream),
     prefetch(devPtr, count, device_good(dstDevice), hStream, own))
CALL(cuMemPrefetchAsync_v2, _ptsz,
     (CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
      CUstream hStream),
     flags ? CUDA_ERROR_INVALID_VALUE
           : prefetch(devPtr, count, location_good(location), hStream, own))
CALL(cuStreamAttachMemAsync, _ptsz,
     (CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags),
     prefetch(dptr, length ? length : 1,
              flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST ||
                  flags == CU_MEM_ATTACH_SINGLE,
              hStream, own))
