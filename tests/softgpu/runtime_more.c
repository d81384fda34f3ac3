/* Calls of the runtime that fewer programs make: libraries loaded at run time, hints for managed
 * memory, pools, peers (there are none), capture state. */
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

/* ---- managed memory: there is one memory, so a hint for a valid range is taken and changes
 * nothing ---- */

static cudaError_t hint(const void *range)
{
    unsigned managed = 0;
    CUresult result =
        driver.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, (uintptr_t)range);
    return runtime_result(result == CUDA_SUCCESS && !managed ? CUDA_ERROR_INVALID_VALUE : result);
}

#if CUDART_VERSION >= 13000
ONE(cudaMemAdvise,
    (const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
     struct cudaMemLocation location),
    hint(devPtr))
BOTH(cudaMemPrefetchAsync, _ptsz,
     (const void *devPtr, size_t count, struct cudaMemLocation location, unsigned int flags,
      cudaStream_t stream),
     hint(devPtr))
#else
ONE(cudaMemAdvise, (const void *devPtr, size_t count, enum cudaMemoryAdvise advice, int device),
    hint(devPtr))
BOTH(cudaMemPrefetchAsync, _ptsz,
     (const void *devPtr, size_t count, int dstDevice, cudaStream_t stream), hint(devPtr))
#endif
BOTH(cudaStreamAttachMemAsync, _ptsz,
     (cudaStream_t stream, void *devPtr, size_t length, unsigned int flags), hint(devPtr))

/* ---- pools ---- */

_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps),
               "runtime and driver agree on pool properties");

ONE(cudaMemPoolCreate, (cudaMemPool_t * memPool, const struct cudaMemPoolProps *poolProps),
    runtime_result(driver.cuMemPoolCreate((CUmemoryPool *)memPool,
                                          (const CUmemPoolProps *)poolProps)))
ONE(cudaMemPoolDestroy, (cudaMemPool_t memPool),
    runtime_result(driver.cuMemPoolDestroy((CUmemoryPool)memPool)))

/* ---- copies between devices: all memory is of one ---- */

ONE(cudaMemcpyPeerAsync,
    (void *dst, int dstDevice, const void *src, int srcDevice, size_t count, cudaStream_t stream),
    runtime_result(driver.cuMemcpyAsync((uintptr_t)dst, (uintptr_t)src, count, (CUstream)stream)))
ONE(cudaDeviceEnablePeerAccess, (int peerDevice, unsigned int flags),
    runtime_error(cudaErrorInvalidDevice))
ONE(cudaDeviceDisablePeerAccess, (int peerDevice), runtime_error(cudaErrorPeerAccessNotEnabled))

static cudaError_t peer_attribute(int *value)
{
    if (!value)
        return runtime_error(cudaErrorInvalidValue);
    *value = 0;
    return runtime_error(cudaErrorInvalidDevice); /* a device is no peer of itself */
}

ONE(cudaDeviceGetP2PAttribute,
    (int *value, enum cudaDeviceP2PAttr attr, int srcDevice, int dstDevice), peer_attribute(value))

/* ---- choices with one device ---- */

static cudaError_t only_device(int *device)
{
    if (!device)
        return runtime_error(cudaErrorInvalidValue);
    *device = 0;
    return cudaSuccess;
}

ONE(cudaChooseDevice, (int *device, const struct cudaDeviceProp *prop), only_device(device))
ONE(cudaSetValidDevices, (int *device_arr, int len), cudaSuccess)
#if CUDART_VERSION >= 12080
BOTH(cudaStreamGetDevice, _ptsz, (cudaStream_t hStream, int *device), only_device(device))
#endif

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
