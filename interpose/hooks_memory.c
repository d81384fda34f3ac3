/* Allocations: one that fails for want of memory ends the replays beside the app and is tried once
 * more. */
#include "interpose.h"

static inline bool again(CUresult result)
{
    return result == CUDA_ERROR_OUT_OF_MEMORY && watching() && pressure_relieved();
}

#define ALLOCATION(symbol, params, args)                                                           \
    CUresult symbol params                                                                         \
    {                                                                                              \
        NEED(symbol);                                                                              \
        CUresult result = real.symbol args;                                                        \
        return again(result) ? real.symbol args : result;                                          \
    }

ALLOCATION(cuMemAlloc_v2, (CUdeviceptr * dptr, size_t bytesize), (dptr, bytesize))
ALLOCATION(cuMemAllocPitch_v2,
           (CUdeviceptr * dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
            unsigned int ElementSizeBytes),
           (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes))
ALLOCATION(cuMemAllocManaged, (CUdeviceptr * dptr, size_t bytesize, unsigned int flags),
           (dptr, bytesize, flags))
ALLOCATION(cuMemAllocAsync, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream),
           (dptr, bytesize, hStream))
ALLOCATION(cuMemAllocAsync_ptsz, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream),
           (dptr, bytesize, hStream))
ALLOCATION(cuMemAllocFromPoolAsync,
           (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
           (dptr, bytesize, pool, hStream))
ALLOCATION(cuMemAllocFromPoolAsync_ptsz,
           (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
           (dptr, bytesize, pool, hStream))
ALLOCATION(cuMemCreate,
           (CUmemGenericAllocationHandle_v1 * handle, size_t size, const CUmemAllocationProp *prop,
            unsigned long long flags),
           (handle, size, prop, flags))
