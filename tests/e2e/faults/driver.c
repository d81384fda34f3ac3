/* libcuda.so.1 between kgenrt and the software GPU's driver: calls that kgenrt adds fail with a
 * random error, all others are passed on. A launch is kgenrt's own if its function is of a library
 * that kgenrt loaded. What must not fail, because a driver undoes with it what it did, does not. */
#include "softgpu/soft_entries.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faults.h"

#define SHOWN __attribute__((visibility("default")))
enum { HANDLES = 4096 };

struct soft_driver next;
static atomic_uintptr_t handles[HANDLES]; /* libraries, kernels and functions of kgenrt's own */
static atomic_uint handle_count;

static bool own_handle(const void *handle)
{
    for (unsigned i = 0; i < handle_count && i < HANDLES; i++)
        if (handles[i] == (uintptr_t)handle)
            return true;
    return false;
}

static void own(const void *handle)
{
    unsigned at = own_handle(handle) ? HANDLES : atomic_fetch_add(&handle_count, 1);
    if (at < HANDLES)
        handles[at] = (uintptr_t)handle;
}

/* Whether the call was made for the program: by a hook, which has the entry's name. */
static bool passed_on(const void *returns_to, const char *symbol)
{
    Dl_info info;
    return dladdr(returns_to, &info) && info.dli_sname && !strcmp(info.dli_sname, symbol);
}

static bool must_work(const char *symbol)
{
    static const char *const names[] = {"cuCtxPopCurrent_v2",  "cuThreadExchangeStreamCaptureMode",
                                        "cuGetErrorName",      "cuGetProcAddress",
                                        "cuGetProcAddress_v2", "cuMemFree_v2",
                                        "cuLibraryUnload"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], symbol))
            return true;
    return false;
}

static bool hooked_and_added(const char *symbol)
{
    return !strcmp(symbol, "cuLibraryLoadData") || !strcmp(symbol, "cuMemAlloc_v2");
}

CUresult faults_of(const void *returns_to, const char *symbol, bool hooked)
{
    static const CUresult errors[] = {CUDA_ERROR_INVALID_VALUE,   CUDA_ERROR_OUT_OF_MEMORY,
                                      CUDA_ERROR_INVALID_HANDLE,  CUDA_ERROR_NOT_SUPPORTED,
                                      CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_UNKNOWN};
    if (!faults_ours(returns_to) || must_work(symbol) ||
        (hooked && (!hooked_and_added(symbol) || passed_on(returns_to, symbol))) ||
        !faults_due(returns_to))
        return CUDA_SUCCESS;
    return errors[faults_draw() % (sizeof errors / sizeof *errors)];
}

/* ---- entries that are more than passed on; all others: rows.c
 * ------------------------------------
 */

#define API(ret, symbol, base, version, stream, use, params, args) SHOWN ret symbol params;
#include "gpu/cuda_api.def"
#include "softgpu/soft_api.def"
#undef API

static const struct {
    const char *symbol;
    size_t offset;
    void *mine;
} rows[] = {
#define API(ret, symbol, base, version, stream, use, params, args)                                 \
    {#symbol, offsetof(struct soft_driver, symbol), (void *)symbol},
#include "gpu/cuda_api.def"
#include "softgpu/soft_api.def"
#undef API
};
enum { ROWS = sizeof rows / sizeof *rows };

static void **entry(size_t row)
{
    return (void **)((char *)&next + rows[row].offset);
}

static void replace(void **address)
{
    for (size_t i = 0; address && *address && i < ROWS; i++)
        if (*entry(i) == *address) {
            *address = rows[i].mine;
            return;
        }
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int version, cuuint64_t flags)
{
    CUresult result = next.cuGetProcAddress(symbol, pfn, version, flags);
    replace(pfn);
    return result;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *found)
{
    CUresult result = next.cuGetProcAddress_v2(symbol, pfn, version, flags, found);
    replace(pfn);
    return result;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options,
                           void **values, unsigned count, CUlibraryOption *more, void **more_values,
                           unsigned more_count)
{
    CUresult result = faults_of(HERE, "cuLibraryLoadData", true);
    if (result == CUDA_SUCCESS)
        result = next.cuLibraryLoadData(library, code, options, values, count, more, more_values,
                                        more_count);
    if (result == CUDA_SUCCESS && faults_ours(HERE) && !passed_on(HERE, "cuLibraryLoadData"))
        own(*library);
    return result;
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    bool added = own_handle(library);
    CUresult result = added ? faults_of(HERE, "cuLibraryGetKernel", false) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        result = next.cuLibraryGetKernel(kernel, library, name);
    if (added && result == CUDA_SUCCESS)
        own(*kernel);
    return result;
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    bool added = own_handle(kernel);
    CUresult result = added ? faults_of(HERE, "cuKernelGetFunction", false) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        result = next.cuKernelGetFunction(function, kernel);
    if (added && result == CUDA_SUCCESS)
        own(*function);
    return result;
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
                        void **extra)
{
    bool added = own_handle(f);
    bool may =
        added && faults_draw() % 512 == 0; /* the first one that fails ends a variant's use */
    CUresult result = may ? faults_of(HERE, "cuLaunchKernel", false) : CUDA_SUCCESS;
    if (faults_ours(HERE)) {
        faults.launches++;
        usleep(faults.pace_us);
    }
    return result != CUDA_SUCCESS
               ? result
               : next.cuLaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}

/* ---- start and end
 * -------------------------------------------------------------------------------
 */

__attribute__((constructor)) static void begin(void)
{
    void *driver = dlopen(SOFT_DRIVER, RTLD_NOW | RTLD_LOCAL);
    if (!driver) {
        fprintf(stderr, "%s\n", dlerror());
        _Exit(1);
    }
    for (size_t i = 0; i < ROWS; i++)
        *entry(i) = dlsym(driver, rows[i].symbol);
}
