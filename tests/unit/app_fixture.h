/* The app's side without a driver: watch.c is compiled into the test, so that a test can set the
 * process's state, and `real` is filled with a small driver whose device memory is host memory and
 * whose clock the test turns. */
#ifndef APP_FIXTURE_H
#define APP_FIXTURE_H

#include "app/inside.h"

static kg_status fixture_open(void);
#define real_open(dlsym_of) fixture_open()
#include "app/watch.c"
#undef real_open

#include "test.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define FIXTURE_CONTEXT ((CUcontext)(void *)0xc0)
#define FIXTURE_STREAM ((CUstream)(void *)0x51)

static struct {
    _Atomic int events, queries_not_ready, records, copies, launches, loads, unloads;
    CUresult query; /* what cuEventQuery answers */
    double kernel_ns;
    CUstreamCaptureStatus capturing;
    CUdeviceptr allocations[8];
    size_t sizes[8];
    unsigned types[8], managed[8], devices[8];
    unsigned count;
    CUresult copy;
    CUfunction launched;
    int driver_version;
    CUresult load;
} fixture = {.kernel_ns = 50000, .driver_version = 13000};

static CUcontext fixture_only = FIXTURE_CONTEXT;

static CUresult fx_ok(void)
{
    return CUDA_SUCCESS;
}

static CUresult fx_current(CUcontext *out)
{
    *out = fixture_only;
    return CUDA_SUCCESS;
}

static CUresult fx_set(CUcontext context)
{
    return CUDA_SUCCESS;
}

static CUresult fx_pop(CUcontext *out)
{
    *out = fixture_only;
    return CUDA_SUCCESS;
}

static CUresult fx_device(CUdevice *out)
{
    *out = 0;
    return CUDA_SUCCESS;
}

static CUresult fx_limit(size_t *out, CUlimit which)
{
    *out = 1024;
    return CUDA_SUCCESS;
}

static CUresult fx_name(char *name, int size, CUdevice device)
{
    snprintf(name, (size_t)size, device < 2 ? "softgpu test" : "softgpu other");
    return CUDA_SUCCESS;
}

static CUresult fx_memory(size_t *out, CUdevice device)
{
    *out = (size_t)8 << 30;
    return CUDA_SUCCESS;
}

static CUresult fx_attribute(int *out, CUdevice_attribute which, CUdevice device)
{
    *out = which == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS ? 0 : 9;
    return CUDA_SUCCESS;
}

static CUresult fx_version(int *out)
{
    *out = fixture.driver_version;
    return CUDA_SUCCESS;
}

/* What would break a capture that another thread has under way asks for the relaxed mode. */
static _Thread_local CUstreamCaptureMode fx_capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static CUresult fx_event_create(CUevent *out, unsigned flags)
{
    CHECK(fx_capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED);
    *out = (CUevent)(uintptr_t)(0xe000 + ++fixture.events);
    return CUDA_SUCCESS;
}

static CUresult fx_event_record(CUevent event, CUstream stream)
{
    fixture.records++;
    return CUDA_SUCCESS;
}

static CUresult fx_event_query(CUevent event)
{
    return fixture.query;
}

static CUresult fx_elapsed(float *ms, CUevent start, CUevent end)
{
    *ms = (float)(fixture.kernel_ns / 1e6);
    return CUDA_SUCCESS;
}

static CUresult fx_capturing(CUstream stream, CUstreamCaptureStatus *out)
{
    *out = fixture.capturing;
    return CUDA_SUCCESS;
}

static int fx_allocation(CUdeviceptr p)
{
    for (unsigned i = 0; i < fixture.count; i++)
        if (p >= fixture.allocations[i] && p < fixture.allocations[i] + fixture.sizes[i])
            return (int)i;
    return -1;
}

static CUresult fx_pointer(void *out, CUpointer_attribute which, CUdeviceptr p)
{
    int i = fx_allocation(p);
    if (i < 0 || which > CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        return CUDA_ERROR_INVALID_VALUE;
    *(unsigned *)out = which == CU_POINTER_ATTRIBUTE_IS_MANAGED       ? fixture.managed[i]
                       : which == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? fixture.devices[i]
                       : fixture.types[i]                             ? fixture.types[i]
                                                                      : CU_MEMORYTYPE_DEVICE;
    return CUDA_SUCCESS;
}

static CUresult fx_range(CUdeviceptr *base, size_t *size, CUdeviceptr p)
{
    int i = fx_allocation(p);
    if (i < 0)
        return CUDA_ERROR_NOT_FOUND;
    *base = fixture.allocations[i];
    *size = fixture.sizes[i];
    return CUDA_SUCCESS;
}

static CUresult fx_copy(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
    fixture.copies++;
    if (fixture.copy == CUDA_SUCCESS)
        memcpy(to, (void *)from, size);
    return fixture.copy;
}

static float fx_global[4] = {1, 2, 3, 4};

static CUresult fx_module_global(CUdeviceptr *out, size_t *size, CUmodule module, const char *name)
{
    *out = (CUdeviceptr)fx_global;
    *size = sizeof fx_global;
    return strcmp(name, "coefficients") ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

static CUresult fx_load(CUlibrary *out, const void *code, CUjit_option *a, void **b, unsigned c,
                        CUlibraryOption *d, void **e, unsigned f)
{
    *out = (CUlibrary)(uintptr_t)(0x1000 + 16 * ++fixture.loads);
    return fixture.load;
}

static CUresult fx_kernel(CUkernel *out, CUlibrary library, const char *name)
{
    *out = (CUkernel)(void *)library;
    return strcmp(name, "fast") ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

static CUresult fx_function(CUfunction *out, CUkernel kernel)
{
    *out = (CUfunction)(void *)kernel;
    return CUDA_SUCCESS;
}

static CUresult fx_function_set(CUfunction f, CUfunction_attribute which, int value)
{
    return CUDA_SUCCESS;
}

static CUresult fx_launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
                          void **extra)
{
    fixture.launched = f;
    return CUDA_SUCCESS;
}

static CUresult fx_pin(void *memory, size_t size, unsigned flags)
{
    CHECK(fx_capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED);
    return CUDA_SUCCESS;
}

static CUresult fx_unload(CUlibrary library)
{
    fixture.unloads++;
    return CUDA_SUCCESS;
}

static CUresult fx_mode(CUstreamCaptureMode *mode)
{
    CUstreamCaptureMode was = fx_capture_mode;
    fx_capture_mode = *mode;
    *mode = was;
    return CUDA_SUCCESS;
}

static kg_status fixture_open(void)
{
    real = (struct real_driver){.cuCtxGetCurrent = fx_current,
                                .cuCtxSetCurrent = fx_set,
                                .cuCtxPushCurrent_v2 = fx_set,
                                .cuCtxPopCurrent_v2 = fx_pop,
                                .cuCtxGetDevice = fx_device,
                                .cuCtxGetLimit = fx_limit,
                                .cuCtxSynchronize = fx_ok,
                                .cuDeviceGetName = fx_name,
                                .cuDeviceTotalMem_v2 = fx_memory,
                                .cuDeviceGetAttribute = fx_attribute,
                                .cuDriverGetVersion = fx_version,
                                .cuEventCreate = fx_event_create,
                                .cuEventRecord = fx_event_record,
                                .cuEventQuery = fx_event_query,
                                .cuEventElapsedTime = fx_elapsed,
                                .cuStreamIsCapturing = fx_capturing,
                                .cuThreadExchangeStreamCaptureMode = fx_mode,
                                .cuPointerGetAttribute = fx_pointer,
                                .cuMemGetAddressRange_v2 = fx_range,
                                .cuMemcpyDtoHAsync_v2 = fx_copy,
                                .cuMemHostRegister_v2 = fx_pin,
                                .cuModuleGetGlobal_v2 = fx_module_global,
                                .cuLibraryLoadData = fx_load,
                                .cuLibraryUnload = fx_unload,
                                .cuLibraryGetKernel = fx_kernel,
                                .cuKernelGetFunction = fx_function,
                                .cuFuncSetAttribute = fx_function_set,
                                .cuLaunchKernel = fx_launch};
    return KG_OK;
}

/* A fresh cache folder below the working directory, named by KGENRT_CACHE before options() is first
 * asked. */
static inline const char *fixture_cache(const char *name)
{
    static char path[512];
    char command[1200];
    char here[256];
    if (!getcwd(here, sizeof here))
        exit(1);
    snprintf(path, sizeof path, "%s/%s.cache", here, name);
    snprintf(command, sizeof command, "chmod -Rf u+w '%s'; rm -rf '%s'", path, path);
    if (system(command))
        exit(1);
    setenv("KGENRT_CACHE", path, 1);
    setenv("KGENRT_LOG", "error", 0);
    setenv("KGENRT_WORKER", "off", 1);
    return path;
}

/* The state that app_start makes, but no watcher: the test calls the ticks. */
static inline void fixture_begin(const char *name, enum kg_mode wanted)
{
    fixture_cache(name);
    fixture_open();
    atomic_store(&mode, wanted);
    CHECK(folders_make());
    atomic_store(&phase, PHASE_ON);
}

/* kernel(float *a, float *b, int n, float x), as if it had been identified. */
static struct kg_param fx_params[] = {{0, 8}, {8, 8}, {16, 4}, {20, 4}};
static struct kernel_pointer fx_pointers[] = {{0, 0}, {1, 0}};
static struct kernel_global fx_globals[] = {{"coefficients", 16, true}, {"local_table", 8, true}};
static const char fx_image[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
                               ".visible .entry k() { ret; }\n";

static inline struct kernel *fixture_kernel(const char *name, uintptr_t handle)
{
    static char module;
    function_found(&module, name, (void *)handle);
    struct kernel *kernel = kernel_find((void *)handle);
    struct kg_hash hash;
    records_lock(); /* the watcher may be at work */
    hash_begin(&hash);
    hash_text(&hash, name);
    hash_end(&hash, &kernel->model.id);
    kernel->why = NULL;
    kernel->modelled = true;
    kernel->context = FIXTURE_CONTEXT;
    kernel->model.entry = kernel->name;
    kernel->model.params = fx_params;
    kernel->model.param_count = 4;
    kernel->model.pointers = fx_pointers;
    kernel->model.pointer_count = 2;
    kernel->model.globals = fx_globals;
    kernel->model.global_count = 2;
    kernel->params = fx_params;
    kernel->param_count = 4;
    if (!kernel->module->image.size) {
        kernel->module->image.data = (unsigned char *)strdup(fx_image);
        kernel->module->image.size = sizeof fx_image - 1;
    }
    atomic_store(&kernel->state, KERNEL_NEW);
    records_unlock();
    return kernel;
}

static _Atomic unsigned fx_originals;

static CUresult fx_original(const struct launch *launch)
{
    fx_originals++;
    return CUDA_SUCCESS;
}

static struct {
    uint64_t a, b;
    int n;
    float x;
} fx_values;
static void *fx_arguments[] = {&fx_values.a, &fx_values.b, &fx_values.n, &fx_values.x};

static inline struct launch fixture_launch(void)
{
    return (struct launch){.function = (CUfunction)(void *)0xf0,
                           .shape = {{64, 1, 1}, {256, 1, 1}, 0},
                           .stream = FIXTURE_STREAM,
                           .explicit_stream = FIXTURE_STREAM,
                           .params = fx_arguments,
                           .run = fx_original};
}

static inline int kernel_state_of(struct kernel *kernel)
{
    return atomic_load(&kernel->state);
}

static inline void fixture_hot_tick(void)
{
    records_lock();
    hot_tick();
    records_unlock();
}

#endif
