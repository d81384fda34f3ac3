/* Runs instrumented kernels on the executor alone: the few driver calls that observe.c makes, by
 * host memory, since the software GPU's device addresses are host addresses. */
#ifndef INSTRUMENT_FIXTURE_H
#define INSTRUMENT_FIXTURE_H

#include "gpu/real.h"

#include "ptx/corpus.h"
#include "tune/observe.h"

#include <stdio.h>
#include <string.h>

static const struct exec_memory *fixture_memory = &corpus_memory;

static CUresult fake_alloc(CUdeviceptr *at, size_t size)
{
    *at = fixture_memory->alloc(size, 256);
    return *at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult fake_free(CUdeviceptr at)
{
    fixture_memory->free(at);
    return CUDA_SUCCESS;
}

static CUresult fake_set(CUdeviceptr at, unsigned char value, size_t size)
{
    memset((void *)(uintptr_t)at, value, size);
    return CUDA_SUCCESS;
}

static CUresult fake_to(CUdeviceptr to, const void *from, size_t size)
{
    memcpy((void *)(uintptr_t)to, from, size);
    return CUDA_SUCCESS;
}

static CUresult fake_from(void *to, CUdeviceptr from, size_t size)
{
    memcpy(to, (const void *)(uintptr_t)from, size);
    return CUDA_SUCCESS;
}

static CUresult fake_global(CUdeviceptr *at, size_t *bytes, CUmodule module, const char *name)
{
    uint64_t address, size;
    if (!exec_module_global((const struct exec_module *)(const void *)module, name, &address,
                            &size))
        return CUDA_ERROR_NOT_FOUND;
    *at = address;
    *bytes = size;
    return CUDA_SUCCESS;
}

static CUresult fake_attribute(int *value, CUfunction_attribute which, CUfunction function)
{
    struct exec_info info;
    exec_kernel_info((const struct exec_kernel *)(const void *)function, &info);
    *value = which == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES ? (int)info.static_shared : 0;
    return CUDA_SUCCESS;
}

static CUresult fake_wait(void)
{
    return CUDA_SUCCESS;
}

static inline void fixture_driver(const struct exec_memory *memory)
{
    fixture_memory = memory;
    real.cuMemAlloc_v2 = fake_alloc;
    real.cuMemFree_v2 = fake_free;
    real.cuMemsetD8_v2 = fake_set;
    real.cuMemcpyHtoD_v2 = fake_to;
    real.cuMemcpyDtoH_v2 = fake_from;
    real.cuModuleGetGlobal_v2 = fake_global;
    real.cuFuncGetAttribute = fake_attribute;
    real.cuCtxSynchronize = fake_wait;
}

/* A loaded instrumented kernel. */
struct fixture_run {
    struct instrumented text;
    struct exec_module *module;
    const struct exec_kernel *kernel;
    struct observe observe;
    struct exec_result result;
};

static inline kg_status fixture_load(struct fixture_run *run, const char *ptx, const char *entry,
                                     unsigned what, const struct kg_launch *launch)
{
    struct instrument_options options = {what, launch->block};
    char error[300];
    *run = (struct fixture_run){0};
    kg_status status = ptx_instrument(ptx, entry, &options, &run->text);
    if (status != KG_OK)
        return status;
    status = exec_module_create((const char *)run->text.text.data, fixture_memory, &run->module,
                                error, sizeof error);
    if (status != KG_OK) {
        snprintf(run->text.reason, sizeof run->text.reason, "%.200s", error);
        return status;
    }
    run->kernel = exec_module_kernel(run->module, entry);
    return run->kernel ? KG_OK : KG_NOT_FOUND;
}

static inline void fixture_unload(struct fixture_run *run)
{
    observe_end(&run->observe);
    exec_module_destroy(run->module);
    instrumented_free(&run->text);
}

static inline CUmodule fixture_module(const struct fixture_run *run)
{
    return (CUmodule)(void *)run->module;
}

static inline CUfunction fixture_function(const struct fixture_run *run)
{
    return (CUfunction)(uintptr_t)run->kernel;
}

#endif
