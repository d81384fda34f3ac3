/* Memory by the runtime's names: allocation, copies, fills, symbols, what a pointer is. */
#include "runtime.h"

#include <string.h>

static CUdeviceptr address(const void *pointer)
{
    return (uintptr_t)pointer;
}

/* Hands a device address out as the pointer that the runtime's callers hold. */
static cudaError_t handed(CUresult result, const CUdeviceptr *got, void **out)
{
    if (result == CUDA_SUCCESS)
        *out = (void *)(uintptr_t)*got;
    return runtime_result(result);
}

/* ---- allocation ---- */

/* 0 bytes are a null pointer and no error. */
static cudaError_t allocate(void **out, size_t size)
{
    CUdeviceptr got = 0;
    if (!out)
        return runtime_error(cudaErrorInvalidValue);
    return handed(size ? driver.cuMemAlloc_v2(&got, size) : CUDA_SUCCESS, &got, out);
}

ONE(cudaMalloc, (void **devPtr, size_t size), allocate(devPtr, size))
ONE(cudaFree, (void *devPtr), runtime_result(driver.cuMemFree_v2(address(devPtr))))

static cudaError_t allocate_managed(void **out, size_t size, unsigned flags)
{
    CUdeviceptr got = 0;
    if (!out)
        return runtime_error(cudaErrorInvalidValue);
    return handed(driver.cuMemAllocManaged(&got, size, flags), &got, out);
}

ONE(cudaMallocManaged, (void **devPtr, size_t size, unsigned int flags),
    allocate_managed(devPtr, size, flags))

static cudaError_t allocate_pitch(void **out, size_t *pitch, size_t width, size_t height)
{
    CUdeviceptr got = 0;
    if (!out || !pitch)
        return runtime_error(cudaErrorInvalidValue);
    return handed(driver.cuMemAllocPitch_v2(&got, pitch, width, height, 4), &got, out);
}

ONE(cudaMallocPitch, (void **devPtr, size_t *pitch, size_t width, size_t height),
    allocate_pitch(devPtr, pitch, width, height))

static cudaError_t allocate_box(struct cudaPitchedPtr *out, struct cudaExtent extent)
{
    void *memory = NULL;
    size_t pitch = 0;
    if (!out)
        return runtime_error(cudaErrorInvalidValue);
    cudaError_t error = allocate_pitch(&memory, &pitch, extent.width, extent.height * extent.depth);
    if (error == cudaSuccess)
        *out = (struct cudaPitchedPtr){memory, pitch, extent.width, extent.height};
    return error;
}

ONE(cudaMalloc3D, (struct cudaPitchedPtr * pitchedDevPtr, struct cudaExtent extent),
    allocate_box(pitchedDevPtr, extent))

static cudaError_t allocate_async(void **out, size_t size, cudaStream_t stream, bool own)
{
    CUdeviceptr got = 0;
    if (!out)
        return runtime_error(cudaErrorInvalidValue);
    if (!size)
        return handed(CUDA_SUCCESS, &got, out);
    return handed(DRIVER(own, cuMemAllocAsync, _ptsz)(&got, size, (CUstream)stream), &got, out);
}

BOTH(cudaMallocAsync, _ptsz, (void **devPtr, size_t size, cudaStream_t hStream),
     allocate_async(devPtr, size, hStream, own))
BOTH(cudaFreeAsync, _ptsz, (void *devPtr, cudaStream_t hStream),
     runtime_result(DRIVER(own, cuMemFreeAsync, _ptsz)(address(devPtr), (CUstream)hStream)))

static cudaError_t allocate_from(void **out, size_t size, cudaMemPool_t pool, cudaStream_t stream,
                                 bool own)
{
    CUdeviceptr got = 0;
    if (!out)
        return runtime_error(cudaErrorInvalidValue);
    return handed(DRIVER(own, cuMemAllocFromPoolAsync, _ptsz)(&got, size, (CUmemoryPool)pool,
                                                              (CUstream)stream),
                  &got, out);
}

BOTH(cudaMallocFromPoolAsync, _ptsz,
     (void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream),
     allocate_from(ptr, size, memPool, stream, own))
ONE(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * memPool, int device),
    runtime_result(driver.cuDeviceGetDefaultMemPool((CUmemoryPool *)memPool, device)))
ONE(cudaDeviceGetMemPool, (cudaMemPool_t * memPool, int device),
    runtime_result(driver.cuDeviceGetMemPool((CUmemoryPool *)memPool, device)))
ONE(cudaDeviceSetMemPool, (int device, cudaMemPool_t memPool),
    runtime_result(driver.cuDeviceSetMemPool(device, (CUmemoryPool)memPool)))
ONE(cudaMemPoolSetAttribute, (cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value),
    runtime_result(driver.cuMemPoolSetAttribute((CUmemoryPool)memPool, (CUmemPool_attribute)attr,
                                                value)))
ONE(cudaMemPoolGetAttribute, (cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value),
    runtime_result(driver.cuMemPoolGetAttribute((CUmemoryPool)memPool, (CUmemPool_attribute)attr,
                                                value)))
ONE(cudaMemPoolTrimTo, (cudaMemPool_t memPool, size_t minBytesToKeep),
    runtime_result(driver.cuMemPoolTrimTo((CUmemoryPool)memPool, minBytesToKeep)))

ONE(cudaMallocHost, (void **ptr, size_t size), runtime_result(driver.cuMemHostAlloc(ptr, size, 0)))
ONE(cudaHostAlloc, (void **pHost, size_t size, unsigned int flags),
    runtime_result(driver.cuMemHostAlloc(pHost, size, flags)))
ONE(cudaFreeHost, (void *ptr), runtime_result(driver.cuMemFreeHost(ptr)))
ONE(cudaHostRegister, (void *ptr, size_t size, unsigned int flags),
    runtime_result(driver.cuMemHostRegister_v2(ptr, size, flags)))
ONE(cudaHostUnregister, (void *ptr), runtime_result(driver.cuMemHostUnregister(ptr)))
ONE(cudaHostGetFlags, (unsigned int *pFlags, void *pHost),
    runtime_result(driver.cuMemHostGetFlags(pFlags, pHost)))

static cudaError_t device_pointer(void **out, void *host, unsigned flags)
{
    CUdeviceptr got = 0;
    if (!out)
        return runtime_error(cudaErrorInvalidValue);
    return handed(driver.cuMemHostGetDevicePointer_v2(&got, host, flags), &got, out);
}

ONE(cudaHostGetDevicePointer, (void **pDevice, void *pHost, unsigned int flags),
    device_pointer(pDevice, pHost, flags))
ONE(cudaMemGetInfo, (size_t * free, size_t *total),
    runtime_result(driver.cuMemGetInfo_v2(free, total)))

/* ---- copies ---- */

static cudaError_t copy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, bool own)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return runtime_result(DRIVER(own, cuMemcpyHtoD_v2, _ptds)(address(to), from, size));
    case cudaMemcpyDeviceToHost:
        return runtime_result(DRIVER(own, cuMemcpyDtoH_v2, _ptds)(to, address(from), size));
    case cudaMemcpyDeviceToDevice:
        return runtime_result(
            DRIVER(own, cuMemcpyDtoD_v2, _ptds)(address(to), address(from), size));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return runtime_result(DRIVER(own, cuMemcpy, _ptds)(address(to), address(from), size));
    }
    return runtime_error(cudaErrorInvalidMemcpyDirection);
}

static cudaError_t copy_async(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                              cudaStream_t stream, bool own)
{
    CUstream s = (CUstream)stream;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return runtime_result(DRIVER(own, cuMemcpyHtoDAsync_v2, _ptsz)(address(to), from, size, s));
    case cudaMemcpyDeviceToHost:
        return runtime_result(DRIVER(own, cuMemcpyDtoHAsync_v2, _ptsz)(to, address(from), size, s));
    case cudaMemcpyDeviceToDevice:
        return runtime_result(
            DRIVER(own, cuMemcpyDtoDAsync_v2, _ptsz)(address(to), address(from), size, s));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return runtime_result(
            DRIVER(own, cuMemcpyAsync, _ptsz)(address(to), address(from), size, s));
    }
    return runtime_error(cudaErrorInvalidMemcpyDirection);
}

BOTH(cudaMemcpy, _ptds, (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind),
     copy(dst, src, count, kind, own))
BOTH(cudaMemcpyAsync, _ptsz,
     (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream),
     copy_async(dst, src, count, kind, stream, own))
static cudaError_t copy_peer(void *to, int to_device, const void *from, int from_device,
                             size_t size, bool async, cudaStream_t stream, bool own)
{
    CUcontext target, source;
    CUresult result = runtime_primary(to_device, &target);
    if (result == CUDA_SUCCESS)
        result = runtime_primary(from_device, &source);
    if (result != CUDA_SUCCESS)
        return runtime_result(result);
    return runtime_result(
        async ? DRIVER(own, cuMemcpyPeerAsync, _ptsz)(address(to), target, address(from), source,
                                                      size, (CUstream)stream)
              : driver.cuMemcpyPeer(address(to), target, address(from), source, size));
}

ONE(cudaMemcpyPeer, (void *dst, int dstDevice, const void *src, int srcDevice, size_t count),
    copy_peer(dst, dstDevice, src, srcDevice, count, false, NULL, false))
BOTH(cudaMemcpyPeerAsync, _ptsz,
     (void *dst, int dstDevice, const void *src, int srcDevice, size_t count, cudaStream_t stream),
     copy_peer(dst, dstDevice, src, srcDevice, count, true, stream, own))

/* With one address space the driver finds out by itself what each side is. */
static CUDA_MEMCPY2D plane(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                           size_t width, size_t height)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .srcDevice = address(from),
                           .srcPitch = from_pitch,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstDevice = address(to),
                           .dstPitch = to_pitch,
                           .WidthInBytes = width,
                           .Height = height};
}

static cudaError_t copy_plane(CUDA_MEMCPY2D made, bool async, cudaStream_t stream, bool own)
{
    if (made.WidthInBytes > made.srcPitch || made.WidthInBytes > made.dstPitch)
        return runtime_error(cudaErrorInvalidValue);
    return runtime_result(async ? DRIVER(own, cuMemcpy2DAsync_v2, _ptsz)(&made, (CUstream)stream)
                                : DRIVER(own, cuMemcpy2DUnaligned_v2, _ptds)(&made));
}

BOTH(cudaMemcpy2D, _ptds,
     (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
      enum cudaMemcpyKind kind),
     copy_plane(plane(dst, dpitch, src, spitch, width, height), false, NULL, own))
BOTH(cudaMemcpy2DAsync, _ptsz,
     (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
      enum cudaMemcpyKind kind, cudaStream_t stream),
     copy_plane(plane(dst, dpitch, src, spitch, width, height), true, stream, own))

cudaError_t runtime_box(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *out)
{
    if (!p)
        return runtime_error(cudaErrorInvalidValue);
    if (p->srcArray || p->dstArray)
        return runtime_error(cudaErrorNotSupported);
    *out = (CUDA_MEMCPY3D){.srcXInBytes = p->srcPos.x,
                           .srcY = p->srcPos.y,
                           .srcZ = p->srcPos.z,
                           .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .srcDevice = address(p->srcPtr.ptr),
                           .srcPitch = p->srcPtr.pitch,
                           .srcHeight = p->srcPtr.ysize,
                           .dstXInBytes = p->dstPos.x,
                           .dstY = p->dstPos.y,
                           .dstZ = p->dstPos.z,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstDevice = address(p->dstPtr.ptr),
                           .dstPitch = p->dstPtr.pitch,
                           .dstHeight = p->dstPtr.ysize,
                           .WidthInBytes = p->extent.width,
                           .Height = p->extent.height,
                           .Depth = p->extent.depth};
    return cudaSuccess;
}

static cudaError_t copy_box(const struct cudaMemcpy3DParms *p, bool async, cudaStream_t stream,
                            bool own)
{
    CUDA_MEMCPY3D made;
    cudaError_t error = runtime_box(p, &made);
    if (error != cudaSuccess)
        return error;
    return runtime_result(async ? DRIVER(own, cuMemcpy3DAsync_v2, _ptsz)(&made, (CUstream)stream)
                                : DRIVER(own, cuMemcpy3D_v2, _ptds)(&made));
}

BOTH(cudaMemcpy3D, _ptds, (const struct cudaMemcpy3DParms *p), copy_box(p, false, NULL, own))
BOTH(cudaMemcpy3DAsync, _ptsz, (const struct cudaMemcpy3DParms *p, cudaStream_t stream),
     copy_box(p, true, stream, own))

/* ---- fills ---- */

BOTH(cudaMemset, _ptds, (void *devPtr, int value, size_t count),
     runtime_result(DRIVER(own, cuMemsetD8_v2, _ptds)(address(devPtr), (unsigned char)value,
                                                      count)))
BOTH(cudaMemsetAsync, _ptsz, (void *devPtr, int value, size_t count, cudaStream_t stream),
     runtime_result(DRIVER(own, cuMemsetD8Async, _ptsz)(address(devPtr), (unsigned char)value,
                                                        count, (CUstream)stream)))
BOTH(cudaMemset2D, _ptds, (void *devPtr, size_t pitch, int value, size_t width, size_t height),
     runtime_result(DRIVER(own, cuMemsetD2D8_v2, _ptds)(address(devPtr), pitch,
                                                        (unsigned char)value, width, height)))

BOTH(cudaMemset2DAsync, _ptsz,
     (void *devPtr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
     runtime_result(DRIVER(own, cuMemsetD2D8Async, _ptsz)(address(devPtr), pitch,
                                                          (unsigned char)value, width, height,
                                                          (CUstream)stream)))

/* Slice by slice: the driver has two dimensions. */
static cudaError_t fill_box(struct cudaPitchedPtr to, int value, struct cudaExtent extent,
                            bool async, cudaStream_t stream, bool own)
{
    CUresult result = CUDA_SUCCESS;
    if (extent.depth > 1 && to.ysize < extent.height)
        return runtime_error(cudaErrorInvalidValue);
    for (size_t z = 0; z < extent.depth && result == CUDA_SUCCESS; z++) {
        CUdeviceptr slice = address(to.ptr) + z * to.pitch * to.ysize;
        result = async ? DRIVER(own, cuMemsetD2D8Async, _ptsz)(slice, to.pitch,
                                                               (unsigned char)value, extent.width,
                                                               extent.height, (CUstream)stream)
                       : DRIVER(own, cuMemsetD2D8_v2, _ptds)(slice, to.pitch, (unsigned char)value,
                                                             extent.width, extent.height);
    }
    return runtime_result(result);
}

BOTH(cudaMemset3D, _ptds,
     (struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent),
     fill_box(pitchedDevPtr, value, extent, false, NULL, own))
BOTH(cudaMemset3DAsync, _ptsz,
     (struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent,
      cudaStream_t stream),
     fill_box(pitchedDevPtr, value, extent, true, stream, own))

/* ---- symbols ---- */

cudaError_t runtime_symbol_range(const void *symbol, size_t count, size_t offset, CUdeviceptr *out)
{
    size_t size = 0;
    cudaError_t error = runtime_symbol(symbol, out, &size);
    if (error != cudaSuccess)
        return error;
    if (offset > size || count > size - offset)
        return runtime_error(cudaErrorInvalidValue);
    *out += offset;
    return cudaSuccess;
}

static cudaError_t to_symbol(const void *symbol, const void *from, size_t count, size_t offset,
                             enum cudaMemcpyKind kind, bool async, cudaStream_t stream, bool own)
{
    CUdeviceptr to;
    cudaError_t error = runtime_symbol_range(symbol, count, offset, &to);
    if (error != cudaSuccess)
        return error;
    void *pointer = (void *)(uintptr_t)to;
    return async ? copy_async(pointer, from, count, kind, stream, own)
                 : copy(pointer, from, count, kind, own);
}

static cudaError_t from_symbol(void *to, const void *symbol, size_t count, size_t offset,
                               enum cudaMemcpyKind kind, bool async, cudaStream_t stream, bool own)
{
    CUdeviceptr from;
    cudaError_t error = runtime_symbol_range(symbol, count, offset, &from);
    if (error != cudaSuccess)
        return error;
    const void *pointer = (const void *)(uintptr_t)from;
    return async ? copy_async(to, pointer, count, kind, stream, own)
                 : copy(to, pointer, count, kind, own);
}

BOTH(cudaMemcpyToSymbol, _ptds,
     (const void *symbol, const void *src, size_t count, size_t offset, enum cudaMemcpyKind kind),
     to_symbol(symbol, src, count, offset, kind, false, NULL, own))
BOTH(cudaMemcpyFromSymbol, _ptds,
     (void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind),
     from_symbol(dst, symbol, count, offset, kind, false, NULL, own))
BOTH(cudaMemcpyToSymbolAsync, _ptsz,
     (const void *symbol, const void *src, size_t count, size_t offset, enum cudaMemcpyKind kind,
      cudaStream_t stream),
     to_symbol(symbol, src, count, offset, kind, true, stream, own))
BOTH(cudaMemcpyFromSymbolAsync, _ptsz,
     (void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind,
      cudaStream_t stream),
     from_symbol(dst, symbol, count, offset, kind, true, stream, own))

/* ---- what a pointer is ---- */

static cudaError_t pointer_attributes(struct cudaPointerAttributes *out, const void *pointer)
{
    unsigned type = 0, managed = 0;
    int ordinal = -2; /* cudaInvalidDeviceId */
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *where[] = {&type, &managed, &ordinal};
    if (!out)
        return runtime_error(cudaErrorInvalidValue);
    memset(out, 0, sizeof *out);
    CUresult result = driver.cuPointerGetAttributes(3, which, where, address(pointer));
    if (result != CUDA_SUCCESS)
        return runtime_result(result);
    out->type = !type                        ? cudaMemoryTypeUnregistered
                : managed                    ? cudaMemoryTypeManaged
                : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                             : cudaMemoryTypeDevice;
    out->device = ordinal;
    if (type)
        out->devicePointer = (void *)(uintptr_t)pointer;
    if (type == CU_MEMORYTYPE_HOST || managed || !type)
        out->hostPointer = (void *)(uintptr_t)pointer;
    return cudaSuccess;
}

ONE(cudaPointerGetAttributes, (struct cudaPointerAttributes * attributes, const void *ptr),
    pointer_attributes(attributes, ptr))
