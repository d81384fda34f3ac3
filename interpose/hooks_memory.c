/* Allocations: one that fails for want of memory ends the replays beside the app and is tried once
 * more. And what is freed in stream order: captures and checks must not touch it from then on,
 * though the driver knows it until the stream has come to it. */
#include "interpose.h"

static inline bool again(CUresult result)
{
    return result == CUDA_ERROR_OUT_OF_MEMORY && watching() && pressure_relieved();
}

static CUresult taken(CUresult result, const CUdeviceptr *address)
{
    if (result == CUDA_SUCCESS && watching())
        memory_taken(*address);
    return result;
}

#define ALLOCATION(symbol, params, args)                                                           \
    CUresult symbol params                                                                         \
    {                                                                                              \
        NEED(symbol);                                                                              \
        CUresult result = real.symbol args;                                                        \
        return again(result) ? real.symbol args : result;                                          \
    }
#define TAKING(symbol, params, args)                                                               \
    CUresult symbol params                                                                         \
    {                                                                                              \
        NEED(symbol);                                                                              \
        CUresult result = real.symbol args;                                                        \
        return taken(again(result) ? real.symbol args : result, dptr);                             \
    }
#define FREEING(symbol)                                                                            \
    CUresult symbol(CUdeviceptr dptr, CUstream hStream)                                            \
    {                                                                                              \
        NEED(symbol);                                                                              \
        if (watching())                                                                            \
            memory_freed(dptr); /* before: afterwards it may be taken again */                     \
        CUresult result = real.symbol(dptr, hStream);                                              \
        return result == CUDA_SUCCESS ? result : (memory_taken(dptr), result);                     \
    }

TAKING(cuMemAlloc_v2, (CUdeviceptr * dptr, size_t bytesize), (dptr, bytesize))
TAKING(cuMemAllocPitch_v2,
       (CUdeviceptr * dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
        unsigned int ElementSizeBytes),
       (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes))
TAKING(cuMemAllocManaged, (CUdeviceptr * dptr, size_t bytesize, unsigned int flags),
       (dptr, bytesize, flags))
TAKING(cuMemAllocAsync, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream),
       (dptr, bytesize, hStream))
TAKING(cuMemAllocAsync_ptsz, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream),
       (dptr, bytesize, hStream))
TAKING(cuMemAllocFromPoolAsync,
       (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
       (dptr, bytesize, pool, hStream))
TAKING(cuMemAllocFromPoolAsync_ptsz,
       (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
       (dptr, bytesize, pool, hStream))
ALLOCATION(cuMemCreate,
           (CUmemGenericAllocationHandle_v1 * handle, size_t size, const CUmemAllocationProp *prop,
            unsigned long long flags),
           (handle, size, prop, flags))
FREEING(cuMemFreeAsync)
FREEING(cuMemFreeAsync_ptsz)
