/* Calls of the runtime that fewer programs make: libraries loaded at run time, hints for managed
 * memory, pools, peers, attributes of streams. */
#include "runtime.h"

/* ---- libraries ---- */

#if CUDART_VERSION >= 12080
ONE(cudaLibraryLoadData,
    (cudaLibrary_t * library, const void *code, enum cudaJitOption *jitOptions,
     void **jitOptionsValues, unsigned int numJitOptions, enum cudaLibraryOption *libraryOptions,
     void **libraryOptionValues, unsigned int numLibraryOptions),
    runtime_result(driver.cuLibraryLoadData((CUlibrary *)library, code, (CUjit_option *)jitOptions,
                                            jitOptionsValues, numJitOptions,
                                            (CUlibraryOption *)libraryOptions, libraryOptionValues,
                                            numLibraryOptions)))
ONE(cudaLibraryLoadFromFile,
    (cudaLibrary_t * library, const char *fileName, enum cudaJitOption *jitOptions,
     void **jitOptionsValues, unsigned int numJitOptions, enum cudaLibraryOption *libraryOptions,
     void **libraryOptionValues, unsigned int numLibraryOptions),
    runtime_result(driver.cuLibraryLoadFromFile((CUlibrary *)library, fileName,
                                                (CUjit_option *)jitOptions, jitOptionsValues,
                                                numJitOptions, (CUlibraryOption *)libraryOptions,
                                                libraryOptionValues, numLibraryOptions)))
ONE(cudaLibraryUnload, (cudaLibrary_t library),
    runtime_result(driver.cuLibraryUnload((CUlibrary)library)))
ONE(cudaLibraryGetKernel, (cudaKernel_t * pKernel, cudaLibrary_t library, const char *name),
    runtime_result(driver.cuLibraryGetKernel(pKernel, (CUlibrary)library, name)))
ONE(cudaLibraryGetGlobal, (void **dptr, size_t *bytes, cudaLibrary_t library, const char *name),
    runtime_result(driver.cuLibraryGetGlobal((CUdeviceptr *)dptr, bytes, (CUlibrary)library, name)))
ONE(cudaLibraryGetManaged, (void **dptr, size_t *bytes, cudaLibrary_t library, const char *name),
    runtime_result(driver.cuLibraryGetManaged((CUdeviceptr *)dptr, bytes, (CUlibrary)library,
                                              name)))
ONE(cudaLibraryGetKernelCount, (unsigned int *count, cudaLibrary_t lib),
    runtime_result(driver.cuLibraryGetKernelCount(count, (CUlibrary)lib)))
ONE(cudaLibraryEnumerateKernels,
    (cudaKernel_t * kernels, unsigned int numKernels, cudaLibrary_t lib),
    runtime_result(driver.cuLibraryEnumerateKernels(kernels, numKernels, (CUlibrary)lib)))
ONE(cudaKernelSetAttributeForDevice,
    (cudaKernel_t kernel, enum cudaFuncAttribute attr, int value, int device),
    runtime_result(driver.cuKernelSetAttribute((CUfunction_attribute)attr, value, kernel, device)))
#endif

#if CUDART_VERSION >= 12040
static cudaError_t parameter(const void *func, size_t index, size_t *offset, size_t *size)
{
    CUkernel kernel;
    cudaError_t error = runtime_kernel(func, &kernel);
    return error == cudaSuccess
               ? runtime_result(driver.cuKernelGetParamInfo(kernel, index, offset, size))
               : error;
}

ONE(cudaFuncGetParamInfo,
    (const void *func, size_t paramIndex, size_t *paramOffset, size_t *paramSize),
    parameter(func, paramIndex, paramOffset, paramSize))
#endif

/* ---- managed memory: the driver judges the hint ---- */

#if CUDART_VERSION >= 13000
static CUmemLocation place(struct cudaMemLocation location)
{
    return (CUmemLocation){.type = (CUmemLocationType)location.type, .id = location.id};
}

ONE(cudaMemAdvise,
    (const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
     struct cudaMemLocation location),
    runtime_result(driver.cuMemAdvise_v2((uintptr_t)devPtr, count, (CUmem_advise)advice,
                                         place(location))))
BOTH(cudaMemPrefetchAsync, _ptsz,
     (const void *devPtr, size_t count, struct cudaMemLocation location, unsigned int flags,
      cudaStream_t stream),
     runtime_result(DRIVER(own, cuMemPrefetchAsync_v2, _ptsz)((uintptr_t)devPtr, count,
                                                              place(location), flags,
                                                              (CUstream)stream)))
#else
ONE(cudaMemAdvise, (const void *devPtr, size_t count, enum cudaMemoryAdvise advice, int device),
    runtime_result(driver.cuMemAdvise((uintptr_t)devPtr, count, (CUmem_advise)advice, device)))
BOTH(cudaMemPrefetchAsync, _ptsz,
     (const void *devPtr, size_t count, int dstDevice, cudaStream_t stream),
     runtime_result(DRIVER(own, cuMemPrefetchAsync, _ptsz)((uintptr_t)devPtr, count, dstDevice,
                                                           (CUstream)stream)))
#endif
BOTH(cudaStreamAttachMemAsync, _ptsz,
     (cudaStream_t stream, void *devPtr, size_t length, unsigned int flags),
     runtime_result(DRIVER(own, cuStreamAttachMemAsync, _ptsz)((CUstream)stream, (uintptr_t)devPtr,
                                                               length, flags)))

/* ---- pools ---- */

_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps),
               "runtime and driver agree on pool properties");

ONE(cudaMemPoolCreate, (cudaMemPool_t * memPool, const struct cudaMemPoolProps *poolProps),
    runtime_result(driver.cuMemPoolCreate((CUmemoryPool *)memPool,
                                          (const CUmemPoolProps *)poolProps)))
ONE(cudaMemPoolDestroy, (cudaMemPool_t memPool),
    runtime_result(driver.cuMemPoolDestroy((CUmemoryPool)memPool)))

ONE(cudaMemPoolSetAccess,
    (cudaMemPool_t memPool, const struct cudaMemAccessDesc *descList, size_t count),
    runtime_result(driver.cuMemPoolSetAccess((CUmemoryPool)memPool,
                                             (const CUmemAccessDesc *)descList, count)))
ONE(cudaMemPoolGetAccess,
    (enum cudaMemAccessFlags * flags, cudaMemPool_t memPool, struct cudaMemLocation *location),
    runtime_result(driver.cuMemPoolGetAccess((CUmemAccess_flags *)flags, (CUmemoryPool)memPool,
                                             (CUmemLocation *)location)))

/* ---- peers ---- */

static cudaError_t peer_access(int device, unsigned flags, bool enable)
{
    CUcontext peer;
    CUresult result = runtime_primary(device, &peer);
    if (result == CUDA_SUCCESS)
        result = enable ? driver.cuCtxEnablePeerAccess(peer, flags)
                        : driver.cuCtxDisablePeerAccess(peer);
    return runtime_result(result);
}

ONE(cudaDeviceEnablePeerAccess, (int peerDevice, unsigned int flags),
    peer_access(peerDevice, flags, true))
ONE(cudaDeviceDisablePeerAccess, (int peerDevice), peer_access(peerDevice, 0, false))
ONE(cudaDeviceGetP2PAttribute,
    (int *value, enum cudaDeviceP2PAttr attr, int srcDevice, int dstDevice),
    runtime_result(driver.cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attr, srcDevice,
                                                  dstDevice)))

/* ---- choices of a device: the first will do ---- */

static cudaError_t first_device(int *device)
{
    if (!device)
        return runtime_error(cudaErrorInvalidValue);
    *device = 0;
    return cudaSuccess;
}

ONE(cudaChooseDevice, (int *device, const struct cudaDeviceProp *prop), first_device(device))

/* The ids are checked; the list's order changes nothing, for the first device will do. */
static cudaError_t valid_devices(const int *list, int length)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && (length < 0 || length > count || (length && !list)))
        return runtime_error(cudaErrorInvalidValue);
    for (int i = 0; i < length && error == cudaSuccess; i++)
        if (list[i] < 0 || list[i] >= count)
            return runtime_error(cudaErrorInvalidDevice);
    return error;
}

ONE(cudaSetValidDevices, (int *device_arr, int len), valid_devices(device_arr, len))
#if CUDART_VERSION >= 12080
BOTH(cudaStreamGetDevice, _ptsz, (cudaStream_t hStream, int *device),
     runtime_result(DRIVER(own, cuStreamGetDevice, _ptsz)((CUstream)hStream, device)))
#endif

/* ---- attributes of streams ---- */

BOTH(cudaStreamSetAttribute, _ptsz,
     (cudaStream_t hStream, cudaLaunchAttributeID attr, const cudaLaunchAttributeValue *value),
     runtime_result(DRIVER(own, cuStreamSetAttribute, _ptsz)((CUstream)hStream,
                                                             (CUstreamAttrID)attr,
                                                             (const CUstreamAttrValue *)value)))
BOTH(cudaStreamGetAttribute, _ptsz,
     (cudaStream_t hStream, cudaLaunchAttributeID attr, cudaLaunchAttributeValue *value_out),
     runtime_result(DRIVER(own, cuStreamGetAttribute, _ptsz)((CUstream)hStream,
                                                             (CUstreamAttrID)attr,
                                                             (CUstreamAttrValue *)value_out)))
BOTH(cudaStreamCopyAttributes, _ptsz, (cudaStream_t dst, cudaStream_t src),
     runtime_result(DRIVER(own, cuStreamCopyAttributes, _ptsz)((CUstream)dst, (CUstream)src)))

/* ---- shared memory ---- */

static cudaError_t bank_size(enum cudaSharedMemConfig *config)
{
    if (!config)
        return runtime_error(cudaErrorInvalidValue);
    *config = cudaSharedMemBankSizeFourByte;
    return cudaSuccess;
}

ONE(cudaDeviceGetSharedMemConfig, (enum cudaSharedMemConfig * pConfig), bank_size(pConfig))
ONE(cudaDeviceSetSharedMemConfig, (enum cudaSharedMemConfig config), cudaSuccess)
ONE(cudaFuncSetSharedMemConfig, (const void *func, enum cudaSharedMemConfig config), cudaSuccess)
