/* Functions and kernels: what they are, their attributes, how many blocks fit. */
#include "soft.h"

#include <string.h>

/* The kernel's function in this context; the kernel remembers the last one. */
static CUresult bind(struct kernel *kernel, struct context *context, struct function **out)
{
    context = context_whole(context);
    soft_lock();
    struct function *last = kernel->function;
    bool fits = last && last->module->context == context;
    soft_unlock();
    if (fits) {
        *out = last;
        return CUDA_SUCCESS;
    }
    struct module *module;
    CUresult result = library_module(kernel->library, context, &module);
    if (result == CUDA_SUCCESS)
        result = module_function(module, kernel->name, out);
    if (result != CUDA_SUCCESS)
        return result;
    soft_lock();
    if (!(*out)->kernel) {
        (*out)->kernel = kernel;
        (*out)->max_shared = kernel->max_shared;
        (*out)->carveout = kernel->carveout;
    }
    kernel->function = *out;
    soft_unlock();
    return CUDA_SUCCESS;
}

CUresult function_of(const void *handle, struct context *context, struct function **out)
{
    switch (handle_kind_of(handle)) {
    case HANDLE_FUNCTION:
        *out = (struct function *)handle;
        return (*out)->module->context == context_whole(context) ? CUDA_SUCCESS
                                                                 : CUDA_ERROR_INVALID_HANDLE;
    case HANDLE_KERNEL:
        return bind((struct kernel *)handle, context, out);
    default:
        return CUDA_ERROR_INVALID_HANDLE;
    }
}

static CUresult enter(const void *handle, struct function **out)
{
    struct context *context;
    CUresult result = context_enter(&context);
    return result == CUDA_SUCCESS ? function_of(handle, context, out) : result;
}

/* The same without a current context, for calls on kernels. */
static CUresult enter_kernel(CUkernel handle, struct function **out)
{
    CUresult result = handle_enter(handle, HANDLE_KERNEL, CUDA_ERROR_INVALID_HANDLE);
    return result == CUDA_SUCCESS ? bind((struct kernel *)handle, context_here(), out) : result;
}

/* ---- attributes ---- */

static CUresult function_attribute(const struct function *function, CUfunction_attribute which,
                                   int *out)
{
    const struct exec_info *info = &function->info;
    const struct device *device = function->module->context->device;
    switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *out = (int)info->max_threads;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *out = (int)info->static_shared;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *out = (int)info->local_bytes;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *out = (int)info->registers;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *out = 10 * device->model->major + device->model->minor;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *out = (int)function->max_shared;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *out = function->carveout;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        *out = 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult attribute_check(const struct function *function, CUfunction_attribute which,
                                int value)
{
    unsigned most = (unsigned)function->module->context->device->model->block_shared_kib << 10;
    if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        return value >= 0 && function->info.static_shared + (uint64_t)value <= most
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    if (which == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
        return value >= -1 && value <= 100 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (which == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
        return CUDA_SUCCESS; /* there are no clusters to speak of */
    return CUDA_ERROR_INVALID_VALUE;
}

static void attribute_store(unsigned *max_shared, int *carveout, CUfunction_attribute which,
                            int value)
{
    if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        *max_shared = (unsigned)value;
    if (which == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
        *carveout = value;
}

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
    struct function *function;
    CUresult result = enter(hfunc, &function);
    if (result == CUDA_SUCCESS && !pi)
        return CUDA_ERROR_INVALID_VALUE;
    return result == CUDA_SUCCESS ? function_attribute(function, attrib, pi) : result;
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    struct function *function;
    CUresult result = enter(hfunc, &function);
    if (result == CUDA_SUCCESS)
        result = attribute_check(function, attrib, value);
    if (result == CUDA_SUCCESS)
        attribute_store(&function->max_shared, &function->carveout, attrib, value);
    return result;
}

CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
{
    struct function *function;
    CUresult result = enter_kernel(kernel, &function);
    if (result == CUDA_SUCCESS && (dev < 0 || dev >= device_count()))
        return CUDA_ERROR_INVALID_DEVICE;
    if (result == CUDA_SUCCESS && !pi)
        return CUDA_ERROR_INVALID_VALUE;
    return result == CUDA_SUCCESS ? function_attribute(function, attrib, pi) : result;
}

/* Of the kernel in every context: those that have a function for it, and those to come. */
CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel handle, CUdevice dev)
{
    struct function *here;
    CUresult result = enter_kernel(handle, &here);
    if (result == CUDA_SUCCESS && (dev < 0 || dev >= device_count()))
        return CUDA_ERROR_INVALID_DEVICE;
    if (result == CUDA_SUCCESS)
        result = attribute_check(here, attrib, val);
    if (result != CUDA_SUCCESS)
        return result;
    struct kernel *kernel = (struct kernel *)handle;
    struct context *context = contexts_first();
    soft_lock();
    attribute_store(&kernel->max_shared, &kernel->carveout, attrib, val);
    for (; context; context = context->next)
        for (struct module *module = context->modules; module; module = module->next)
            for (struct function *f = module->functions; f; f = f->next)
                if (f->kernel == kernel)
                    attribute_store(&f->max_shared, &f->carveout, attrib, val);
    soft_unlock();
    return CUDA_SUCCESS;
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
    struct function *function;
    return enter(hfunc, &function); /* a preference, and there is no cache */
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
    struct function *function;
    return enter_kernel(kernel, &function);
}

CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
    struct function *function;
    return enter(hfunc, &function); /* there are no banks */
}

/* ---- what they are ---- */

static CUresult parameter(const struct function *function, size_t index, size_t *offset,
                          size_t *size)
{
    if (!offset || index >= function->info.param_count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = function->info.params[index].offset;
    if (size)
        *size = function->info.params[index].size;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
                            size_t *paramSize)
{
    struct function *function;
    CUresult result = enter(func, &function);
    return result == CUDA_SUCCESS ? parameter(function, paramIndex, paramOffset, paramSize)
                                  : result;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset,
                              size_t *paramSize)
{
    struct function *function;
    CUresult result = enter_kernel(kernel, &function);
    return result == CUDA_SUCCESS ? parameter(function, paramIndex, paramOffset, paramSize)
                                  : result;
}

CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
    struct function *function;
    CUresult result = enter(hfunc, &function);
    if (result == CUDA_SUCCESS && !hmod)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *hmod = (CUmodule)function->module;
    return result;
}

CUresult cuFuncGetName(const char **name, CUfunction hfunc)
{
    struct function *function;
    CUresult result = enter(hfunc, &function);
    if (result == CUDA_SUCCESS && !name)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *name = function->info.name;
    return result;
}

CUresult cuFuncLoad(CUfunction hfunc)
{
    struct function *function;
    return enter(hfunc, &function);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction hfunc)
{
    struct function *function;
    CUresult result = enter(hfunc, &function);
    if (result == CUDA_SUCCESS && !state)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return result;
}

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
    struct function *function;
    struct context *context;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = enter_kernel(kernel, &function);
    if (result == CUDA_SUCCESS && !pFunc)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *pFunc = (CUfunction)function;
    return result;
}

CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
    CUresult result = handle_enter(kernel, HANDLE_KERNEL, CUDA_ERROR_INVALID_HANDLE);
    if (result != CUDA_SUCCESS)
        return result;
    if (!pLib)
        return CUDA_ERROR_INVALID_VALUE;
    *pLib = (CUlibrary)((struct kernel *)kernel)->library;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, CUkernel hfunc)
{
    CUresult result = handle_enter(hfunc, HANDLE_KERNEL, CUDA_ERROR_INVALID_HANDLE);
    if (result != CUDA_SUCCESS)
        return result;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = ((struct kernel *)hfunc)->name;
    return CUDA_SUCCESS;
}

/* ---- occupancy ---- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

CUresult function_blocks(const struct function *function, uint64_t threads, uint64_t shared,
                         int *blocks)
{
    *blocks = 0;
    if (!threads)
        return CUDA_ERROR_INVALID_VALUE;
    if (threads > function->info.max_threads || shared > function->max_shared)
        return CUDA_SUCCESS;
    uint64_t warps = round_up(threads, 32) / 32;
    const struct device_model *m = function->module->context->device->model;
    uint64_t block_shared =
        function->info.static_shared + shared + ((uint64_t)m->reserved_kib << 10);
    uint64_t registers = round_up(function->info.registers, 8) * 32 * warps;
    uint64_t most = least((uint64_t)m->sm_blocks, (uint64_t)m->sm_threads / 32 / warps);
    if (block_shared)
        most = least(most, ((uint64_t)m->sm_shared_kib << 10) / block_shared);
    *blocks = (int)least(most, registers ? SOFT_SM_REGISTERS / registers : most);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func,
                                                              int blockSize, size_t dynamicSMemSize,
                                                              unsigned int flags)
{
    struct function *function;
    CUresult result = enter(func, &function);
    if (result == CUDA_SUCCESS && (!numBlocks || blockSize <= 0))
        return CUDA_ERROR_INVALID_VALUE;
    return result == CUDA_SUCCESS
               ? function_blocks(function, (uint64_t)blockSize, dynamicSMemSize, numBlocks)
               : result;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize,
                                                     size_t dynamicSMemSize)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize,
                                                                dynamicSMemSize, 0);
}

/* The largest block that puts most threads on a multiprocessor. */
CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
                                          CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                          size_t dynamicSMemSize, int blockSizeLimit)
{
    struct function *function;
    int best_threads = 0, best_blocks = 0, best_size = 0;
    CUresult result = enter(func, &function);
    if (result == CUDA_SUCCESS && (!minGridSize || !blockSize))
        return CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    int limit = (int)function->info.max_threads;
    if (blockSizeLimit > 0 && blockSizeLimit < limit)
        limit = blockSizeLimit;
    for (int size = limit; size > 0; size = size % 32 ? size / 32 * 32 : size - 32) {
        size_t shared =
            blockSizeToDynamicSMemSize ? blockSizeToDynamicSMemSize(size) : dynamicSMemSize;
        int blocks;
        result = function_blocks(function, (uint64_t)size, shared, &blocks);
        if (result != CUDA_SUCCESS)
            return result;
        if (blocks * size > best_threads) {
            best_threads = blocks * size;
            best_blocks = blocks;
            best_size = size;
        }
    }
    *minGridSize = best_blocks * function->module->context->device->model->sms;
    *blockSize = best_size;
    return best_size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize,
                                                   CUfunction func,
                                                   CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                   size_t dynamicSMemSize, int blockSizeLimit,
                                                   unsigned int flags)
{
    return flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE
               ? CUDA_ERROR_INVALID_VALUE
               : cuOccupancyMaxPotentialBlockSize(minGridSize, blockSize, func,
                                                  blockSizeToDynamicSMemSize, dynamicSMemSize,
                                                  blockSizeLimit);
}

/* What is left of an SM's shared memory for each of so many blocks, at most what a block may have.
 */
CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func,
                                                 int numBlocks, int blockSize)
{
    struct function *function;
    int blocks;
    CUresult result = enter(func, &function);
    if (result == CUDA_SUCCESS && (!dynamicSmemSize || numBlocks <= 0 || blockSize <= 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = function_blocks(function, (uint64_t)blockSize, 0, &blocks);
    if (result == CUDA_SUCCESS && numBlocks > blocks)
        return CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    const struct device_model *m = function->module->context->device->model;
    uint64_t each = ((uint64_t)m->sm_shared_kib << 10) / (uint64_t)numBlocks;
    uint64_t taken = function->info.static_shared + ((uint64_t)m->reserved_kib << 10);
    each = each > taken ? each - taken : 0;
    *dynamicSmemSize =
        least(each, ((uint64_t)m->block_shared_kib << 10) > function->info.static_shared
                        ? ((uint64_t)m->block_shared_kib << 10) - function->info.static_shared
                        : 0);
    return CUDA_SUCCESS;
}
