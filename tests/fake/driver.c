/* A driver that only logs and answers: each row of cuda_api.def is a function that writes its name
 * into a log and succeeds (rows.c), but for those here. No device behind it. Built as libcuda.so.1,
 * for tests of the look-up rules; FAKE_OLD builds one from before cuGetProcAddress_v2.
 *
 * Linked with -Bsymbolic, as a driver is: its own calls stay its own. */
#include "gpu/real.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake/fake.h"

#define SHOWN __attribute__((visibility("default")))

/* ---- the log ----------------------------------------------------------------------------------
 */

/* Written by the program's threads and by ours; without a lock, which a fork could leave held. */
static char calls[1 << 20];
static _Atomic size_t used;

void note(const char *format, ...)
{
#ifdef FAKE_QUIET /* for the benchmark: an empty function */
    return;
#endif
    char line[512];
    va_list args;
    va_start(args, format);
    int more = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (more <= 0 || (size_t)more >= sizeof line)
        return;
    size_t at = atomic_fetch_add(&used, (size_t)more);
    if (at + (size_t)more < sizeof calls)
        memcpy(calls + at, line, (size_t)more);
}

SHOWN const char *fake_calls(void)
{
    return calls;
}

SHOWN void fake_forget(void)
{
    memset(calls, 0, sizeof calls);
    used = 0;
}

/* With FAKE_LOG the calls of the whole process are left in a file. */
__attribute__((destructor)) static void leave(void)
{
    const char *path = getenv("FAKE_LOG");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file)
        return;
    fputs(calls, file);
    fclose(file);
}

/* ---- answers ----------------------------------------------------------------------------------
 */

static uintptr_t next_handle = 0x1000;
static _Thread_local CUcontext current;

static void *fresh(void)
{
    return (void *)(next_handle += 0x100);
}

#define ANSWER(ret, symbol, ...)                                                                   \
    SHOWN ret symbol(__VA_ARGS__);                                                                 \
    SHOWN ret symbol(__VA_ARGS__)

ANSWER(CUresult, cuDriverGetVersion, int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}

static bool initialized;

ANSWER(CUresult, cuInit, unsigned flags)
{
    note("cuInit\n");
    initialized = true;
    return CUDA_SUCCESS;
}

ANSWER(CUresult, cuDeviceGetCount, int *count)
{
    *count = 1;
    return initialized ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

ANSWER(CUresult, cuDeviceGet, CUdevice *device, int ordinal)
{
    *device = 0;
    return ordinal ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

ANSWER(CUresult, cuDeviceGetName, char *name, int size, CUdevice device)
{
    snprintf(name, (size_t)size, "softgpu that only answers");
    return CUDA_SUCCESS;
}

ANSWER(CUresult, cuDeviceTotalMem_v2, size_t *bytes, CUdevice device)
{
    *bytes = (size_t)1 << 30;
    return CUDA_SUCCESS;
}

ANSWER(CUresult, cuDeviceGetAttribute, int *value, CUdevice_attribute attribute, CUdevice device)
{
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 1;
    return CUDA_SUCCESS;
}

ANSWER(CUresult, cuGetExportTable, const void **table, const CUuuid *id)
{
    note("cuGetExportTable\n");
    *table = NULL;
    return CUDA_ERROR_NOT_SUPPORTED;
}

ANSWER(CUresult, cuCtxGetCurrent, CUcontext *context)
{
    *context = current;
    return CUDA_SUCCESS;
}

ANSWER(CUresult, cuCtxGetDevice, CUdevice *device)
{
    *device = 0;
    return current ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

ANSWER(CUresult, cuCtxCreate_v2, CUcontext *context, unsigned flags, CUdevice device)
{
    note("cuCtxCreate_v2\n");
    *context = current = fresh();
    return CUDA_SUCCESS;
}

ANSWER(CUresult, cuDevicePrimaryCtxRetain, CUcontext *context, CUdevice device)
{
    static CUcontext primary;
    note("cuDevicePrimaryCtxRetain\n");
    *context = primary = primary ? primary : fresh();
    return CUDA_SUCCESS;
}

ANSWER(CUresult, cuCtxSetCurrent, CUcontext context)
{
    note("cuCtxSetCurrent\n");
    current = context;
    return CUDA_SUCCESS;
}

ANSWER(CUresult, cuCtxPushCurrent_v2, CUcontext context)
{
    current = context;
    return CUDA_SUCCESS;
}

ANSWER(CUresult, cuCtxPopCurrent_v2, CUcontext *context)
{
    *context = current;
    return CUDA_SUCCESS;
}

ANSWER(CUresult, cuStreamIsCapturing, CUstream stream, CUstreamCaptureStatus *status)
{
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

ANSWER(CUresult, cuModuleLoadData, CUmodule *module, const void *image)
{
    note("cuModuleLoadData\n");
    *module = fresh();
    return CUDA_SUCCESS;
}

ANSWER(CUresult, cuModuleGetFunction, CUfunction *function, CUmodule module, const char *name)
{
    note("cuModuleGetFunction %s\n", name);
    *function = fresh();
    return CUDA_SUCCESS;
}

ANSWER(CUresult, cuMemAlloc_v2, CUdeviceptr *address, size_t size)
{
    *address = (next_handle += 0x10000);
    return CUDA_SUCCESS;
}

ANSWER(CUresult, cuLibraryLoadData, CUlibrary *library, const void *code, CUjit_option *options,
       void **values, unsigned count, CUlibraryOption *more, void **more_values,
       unsigned more_count)
{
    note("cuLibraryLoadData\n");
    *library = fresh();
    return CUDA_SUCCESS;
}

ANSWER(CUresult, cuLibraryGetKernel, CUkernel *kernel, CUlibrary library, const char *name)
{
    note("cuLibraryGetKernel %s\n", name);
    *kernel = fresh();
    return CUDA_SUCCESS;
}

ANSWER(CUresult, cuKernelGetFunction, CUfunction *function, CUkernel kernel)
{
    note("cuKernelGetFunction\n");
    *function = fresh();
    return CUDA_SUCCESS;
}

/* As a driver that is too old to know. */
ANSWER(CUresult, cuFuncGetParamInfo, CUfunction function, size_t index, size_t *offset,
       size_t *size)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* A look-up of the driver's own. */
SHOWN void *fake_own(void *handle, const char *name)
{
    void *found = dlsym(handle, name);
    note("own %s\n", name); /* and no tail call, whose caller would be ours */
    return found;
}

/* The last, of this thread: a benchmark's threads must not meet here. */
SHOWN _Thread_local CUfunction fake_launched __attribute__((tls_model("initial-exec")));

ANSWER(CUresult, cuLaunchKernel, CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
       unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
{
    fake_launched = f;
#ifndef FAKE_QUIET
    note("cuLaunchKernel %p\n", (void *)stream);
#endif
    return CUDA_SUCCESS;
}

/* ---- look-up ----------------------------------------------------------------------------------
 */

/* Given out for names that no table of today holds, and for one that is not exported as given. */
static CUresult future(void)
{
    note("future\n");
    return CUDA_SUCCESS;
}

static CUresult private_load(CUmodule *module, const char *name)
{
    note("private cuModuleLoad %s\n", name);
    *module = fresh();
    return CUDA_SUCCESS;
}

#define API(ret, symbol, base, version, stream, use, params, args) ret symbol params;
#include "gpu/cuda_api.def"
#undef API

struct row {
    const char *base;
    void *address;
    int version;
    char stream;
};
#define LEGACY 'L'
#define PTDS 'P'
#define BOTH 'B'
static const struct row *rows(void);

/* The driver from before CUDA 12 has one form of this only. */
static bool lacking(const struct row *row)
{
#ifdef FAKE_OLD
    return !strcmp(row->base, "cuGetProcAddress") && row->version >= 12000;
#else
    return false;
#endif
}

static CUresult find(const char *base, void **pfn, int version, cuuint64_t flags)
{
    const struct row *best = NULL;
    bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if (!base)
        return CUDA_ERROR_INVALID_VALUE;
    for (const struct row *row = rows(); row->base; row++)
        if (!strcmp(row->base, base) && row->version <= version && !lacking(row) &&
            (row->stream == BOTH || (row->stream == PTDS) == per_thread) &&
            (!best || row->version >= best->version))
            best = row;
    void *address = best ? best->address : NULL;
    if (!strcmp(base, "cuCtxCreate") && version >= 14000)
        address = (void *)future;
    if (!strcmp(base, "cuGraphInstantiate") && version >= 12000)
        address = (void *)cuGraphInstantiateWithFlags; /* as cuda.h has it */
    if (!strcmp(base, "cuModuleLoad"))
        address = (void *)private_load;
    if (pfn)
        *pfn = address;
    return address ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

ANSWER(CUresult, cuGetProcAddress, const char *symbol, void **pfn, int version, cuuint64_t flags)
{
    note("cuGetProcAddress %s %d %d\n", symbol ? symbol : "NULL", version, (int)flags);
    return find(symbol, pfn, version, flags);
}

ANSWER(CUresult, cuGetProcAddress_v2, const char *symbol, void **pfn, int version, cuuint64_t flags,
       CUdriverProcAddressQueryResult *status)
{
    note("cuGetProcAddress_v2 %s %d %d\n", symbol ? symbol : "NULL", version, (int)flags);
    CUresult result = find(symbol, pfn, version, flags);
    if (status)
        *status = result ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_SUCCESS;
    return result;
}

static const struct row *rows(void)
{
    static const struct row all[] = {
#define API(ret, symbol, base, version, stream, use, params, args)                                 \
    {base, (void *)symbol, version, stream},
#include "gpu/cuda_api.def"
#undef API
        {NULL, NULL, 0, 0}};
    return all;
}
