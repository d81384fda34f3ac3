/* What a program asks of the device. */
#include "runtime.h"

#include <string.h>

static cudaError_t attribute(int *value, int which, int device)
{
    return runtime_result(driver.cuDeviceGetAttribute(value, (CUdevice_attribute)which, device));
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    cudaError_t error = runtime_driver();
    return error == cudaSuccess ? attribute(value, (int)attr, device) : error;
}

/* One row for each field of cudaDeviceProp that an attribute gives: its place, how wide it is. */
static const struct {
    size_t offset, size;
    CUdevice_attribute which;
} fields[] = {
#define FIELD(field, attribute)                                                                    \
    {offsetof(struct cudaDeviceProp, field), sizeof(((struct cudaDeviceProp *)0)->field),          \
     CU_DEVICE_ATTRIBUTE_##attribute},
#include "runtime_device.def"
#undef FIELD
};

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    cudaError_t error = runtime_driver();
    if (error != cudaSuccess)
        return error;
    if (!prop)
        return runtime_error(cudaErrorInvalidValue);
    memset(prop, 0, sizeof *prop);
    CUuuid uuid;
    CUresult result = driver.cuDeviceGetName(prop->name, sizeof prop->name, device);
    if (result == CUDA_SUCCESS)
        result = driver.cuDeviceTotalMem_v2(&prop->totalGlobalMem, device);
    if (result == CUDA_SUCCESS)
        result = driver.cuDeviceGetUuid_v2(&uuid, device);
    if (result != CUDA_SUCCESS)
        return runtime_result(result);
    memcpy(&prop->uuid, &uuid, sizeof prop->uuid);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        int value = 0;
        error = attribute(&value, (int)fields[i].which, device);
        if (error != cudaSuccess)
            return error;
        int64_t wide = value;
        memcpy((char *)prop + fields[i].offset, &wide, fields[i].size); /* little endian */
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *pciBusId)
{
    cudaError_t error = runtime_driver();
    return error == cudaSuccess ? runtime_result(driver.cuDeviceGetByPCIBusId(device, pciBusId))
                                : error;
}

cudaError_t cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)
{
    cudaError_t error = runtime_driver();
    return error == cudaSuccess ? runtime_result(driver.cuDeviceGetPCIBusId(pciBusId, len, device))
                                : error;
}

cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice)
{
    cudaError_t error = runtime_driver();
    return error == cudaSuccess
               ? runtime_result(driver.cuDeviceCanAccessPeer(canAccessPeer, device, peerDevice))
               : error;
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    cudaError_t error = runtime_driver();
    return error == cudaSuccess
               ? runtime_result(driver.cuDevicePrimaryCtxSetFlags_v2(runtime_device(), flags))
               : error;
}

ONE(cudaGetDeviceFlags, (unsigned int *flags), runtime_result(driver.cuCtxGetFlags(flags)))
ONE(cudaDeviceSetLimit, (enum cudaLimit limit, size_t value),
    runtime_result(driver.cuCtxSetLimit((CUlimit)limit, value)))
ONE(cudaDeviceGetLimit, (size_t * pValue, enum cudaLimit limit),
    runtime_result(driver.cuCtxGetLimit(pValue, (CUlimit)limit)))
ONE(cudaDeviceGetCacheConfig, (enum cudaFuncCache * pCacheConfig),
    runtime_result(driver.cuCtxGetCacheConfig((CUfunc_cache *)pCacheConfig)))
ONE(cudaDeviceSetCacheConfig, (enum cudaFuncCache cacheConfig),
    runtime_result(driver.cuCtxSetCacheConfig((CUfunc_cache)cacheConfig)))
ONE(cudaCtxResetPersistingL2Cache, (void), runtime_result(driver.cuCtxResetPersistingL2Cache()))
ONE(cudaProfilerStart, (void), runtime_result(driver.cuProfilerStart()))
ONE(cudaProfilerStop, (void), runtime_result(driver.cuProfilerStop()))
