/* Launches by the runtime's names, and what a program asks of a kernel. */
#include "runtime.h"

#include <string.h>

enum { CONFIGURATIONS = 16 };

struct configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};

static _Thread_local struct configuration stack[CONFIGURATIONS];
static _Thread_local unsigned depth;

unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem, void *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem,
                                       void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
                               size_t sharedMem, cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
                                    size_t sharedMem, cudaStream_t stream);

/* Not 0: the program then does not call the stub. */
unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem, void *stream)
{
    if (depth == CONFIGURATIONS)
        return 1;
    stack[depth++] = (struct configuration){gridDim, blockDim, sharedMem, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem,
                                       void *stream)
{
    if (!depth)
        return runtime_error(cudaErrorMissingConfiguration);
    const struct configuration *top = &stack[--depth];
    *gridDim = top->grid;
    *blockDim = top->block;
    *sharedMem = top->shared;
    memcpy(stream, &top->stream, sizeof top->stream);
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
    *kernel = NULL;
    return runtime_kernel(host, kernel);
}

/* The driver's word for a shape that cannot be is "invalid value"; the runtime's is more exact. */
static cudaError_t configured(CUresult result, dim3 grid, dim3 block)
{
    bool impossible = !grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z ||
                      grid.y > 65535 || grid.z > 65535 || block.z > 64 ||
                      (uint64_t)block.x * block.y * block.z > 1024;
    return result == CUDA_ERROR_INVALID_VALUE && impossible
               ? runtime_error(cudaErrorInvalidConfiguration)
               : runtime_result(result);
}

static cudaError_t launch(CUkernel kernel, dim3 grid, dim3 block, void **args, size_t shared,
                          cudaStream_t stream, bool own)
{
    if (!kernel) /* the stub could not get it: say again why */
        return runtime_last_error() != cudaSuccess ? runtime_last_error()
                                                   : runtime_error(cudaErrorInvalidDeviceFunction);
    if (shared > UINT32_MAX)
        return runtime_error(cudaErrorInvalidValue);
    CUresult result = DRIVER(own, cuLaunchKernel,
                             _ptsz)((CUfunction)kernel, grid.x, grid.y, grid.z, block.x, block.y,
                                    block.z, (unsigned)shared, (CUstream)stream, args, NULL);
    return configured(result, grid, block);
}

BOTH(__cudaLaunchKernel, _ptsz,
     (cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
      cudaStream_t stream),
     launch(kernel, gridDim, blockDim, args, sharedMem, stream, own))

static cudaError_t launch_host(const void *func, dim3 grid, dim3 block, void **args, size_t shared,
                               cudaStream_t stream, bool own)
{
    CUkernel kernel;
    cudaError_t error = runtime_kernel(func, &kernel);
    return error == cudaSuccess ? launch(kernel, grid, block, args, shared, stream, own) : error;
}

BOTH(cudaLaunchKernel, _ptsz,
     (const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
      cudaStream_t stream),
     launch_host(func, gridDim, blockDim, args, sharedMem, stream, own))

static cudaError_t launch_cooperative(const void *func, dim3 grid, dim3 block, void **args,
                                      size_t shared, cudaStream_t stream, bool own)
{
    CUkernel kernel;
    cudaError_t error = runtime_kernel(func, &kernel);
    if (error != cudaSuccess)
        return error;
    if (shared > UINT32_MAX)
        return runtime_error(cudaErrorInvalidValue);
    CUresult result = DRIVER(own, cuLaunchCooperativeKernel,
                             _ptsz)((CUfunction)kernel, grid.x, grid.y, grid.z, block.x, block.y,
                                    block.z, (unsigned)shared, (CUstream)stream, args);
    return configured(result, grid, block);
}

BOTH(cudaLaunchCooperativeKernel, _ptsz,
     (const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
      cudaStream_t stream),
     launch_cooperative(func, gridDim, blockDim, args, sharedMem, stream, own))

_Static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute),
               "runtime and driver agree on launch attributes");

static cudaError_t launch_config(const cudaLaunchConfig_t *config, const void *func, void **args,
                                 bool own)
{
    CUkernel kernel;
    if (!config || config->dynamicSmemBytes > UINT32_MAX)
        return runtime_error(cudaErrorInvalidValue);
    cudaError_t error = runtime_kernel(func, &kernel);
    if (error != cudaSuccess)
        return error;
    CUlaunchConfig made = {
        .gridDimX = config->gridDim.x,
        .gridDimY = config->gridDim.y,
        .gridDimZ = config->gridDim.z,
        .blockDimX = config->blockDim.x,
        .blockDimY = config->blockDim.y,
        .blockDimZ = config->blockDim.z,
        .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
        .hStream = (CUstream)config->stream,
        .attrs = (CUlaunchAttribute *)config->attrs,
        .numAttrs = config->numAttrs,
    };
    CUresult result = DRIVER(own, cuLaunchKernelEx, _ptsz)(&made, (CUfunction)kernel, args, NULL);
    return configured(result, config->gridDim, config->blockDim);
}

BOTH(cudaLaunchKernelExC, _ptsz, (const cudaLaunchConfig_t *config, const void *func, void **args),
     launch_config(config, func, args, own))

BOTH(cudaLaunchHostFunc, _ptsz, (cudaStream_t stream, cudaHostFn_t fn, void *userData),
     runtime_result(DRIVER(own, cuLaunchHostFunc, _ptsz)((CUstream)stream, fn, userData)))

/* ---- attributes ---- */

static const struct {
    size_t offset;
    bool wide; /* size_t, else int */
    CUfunction_attribute which;
} attributes[] = {
#define WIDE(field, which)                                                                         \
    {                                                                                              \
        offsetof(struct cudaFuncAttributes, field), true, which                                    \
    }
#define NARROW(field, which)                                                                       \
    {                                                                                              \
        offsetof(struct cudaFuncAttributes, field), false, which                                   \
    }
    WIDE(sharedSizeBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
    WIDE(constSizeBytes, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES),
    WIDE(localSizeBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
    NARROW(maxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
    NARROW(numRegs, CU_FUNC_ATTRIBUTE_NUM_REGS),
    NARROW(ptxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION),
    NARROW(binaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION),
    NARROW(cacheModeCA, CU_FUNC_ATTRIBUTE_CACHE_MODE_CA),
    NARROW(maxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
    NARROW(preferredShmemCarveout, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT),
#undef WIDE
#undef NARROW
};

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
    CUkernel kernel;
    cudaError_t error = runtime_kernel(func, &kernel);
    if (error != cudaSuccess)
        return error;
    if (!attr)
        return runtime_error(cudaErrorInvalidValue);
    memset(attr, 0, sizeof *attr);
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        int value = 0;
        CUresult result =
            driver.cuKernelGetAttribute(&value, attributes[i].which, kernel, runtime_device());
        if (result != CUDA_SUCCESS)
            return runtime_result(result);
        size_t wide = (size_t)value;
        memcpy((char *)attr + attributes[i].offset,
               attributes[i].wide ? (const void *)&wide : (const void *)&value,
               attributes[i].wide ? sizeof wide : sizeof value);
    }
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
    CUkernel kernel;
    cudaError_t error = runtime_kernel(func, &kernel);
    return error == cudaSuccess ? runtime_result(driver.cuKernelSetAttribute(
                                      (CUfunction_attribute)attr, value, kernel, runtime_device()))
                                : error;
}

cudaError_t cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache cacheConfig)
{
    CUkernel kernel;
    cudaError_t error = runtime_kernel(func, &kernel);
    return error == cudaSuccess ? runtime_result(driver.cuKernelSetCacheConfig(
                                      kernel, (CUfunc_cache)cacheConfig, runtime_device()))
                                : error;
}

#if CUDART_VERSION >= 12030
cudaError_t cudaFuncGetName(const char **name, const void *func)
{
    CUkernel kernel;
    cudaError_t error = runtime_kernel(func, &kernel);
    return error == cudaSuccess ? runtime_result(driver.cuKernelGetName(name, kernel)) : error;
}
#endif

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, const void *func,
                                                                   int blockSize,
                                                                   size_t dynamicSMemSize,
                                                                   unsigned int flags)
{
    CUkernel kernel;
    cudaError_t error = runtime_kernel(func, &kernel);
    return error == cudaSuccess
               ? runtime_result(driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                     numBlocks, (CUfunction)kernel, blockSize, dynamicSMemSize, flags))
               : error;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, const void *func,
                                                          int blockSize, size_t dynamicSMemSize)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize,
                                                                  dynamicSMemSize, 0);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, const void *func,
                                                      int numBlocks, int blockSize)
{
    CUkernel kernel;
    cudaError_t error = runtime_kernel(func, &kernel);
    return error == cudaSuccess ? runtime_result(driver.cuOccupancyAvailableDynamicSMemPerBlock(
                                      dynamicSmemSize, (CUfunction)kernel, numBlocks, blockSize))
                                : error;
}
