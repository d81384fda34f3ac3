/* How the runtime library reaches the driver, the state it keeps for a thread, and errors. */
#include "runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct soft_driver driver;

static _Thread_local cudaError_t last_error;
static _Thread_local int device;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static cudaError_t start_result = cudaSuccess;

enum { DEVICES = 64 };
static struct {
    atomic_bool retained;
    CUcontext context; /* valid while retained */
} primaries[DEVICES];

/* ---- the driver ---- */

enum { FORM_LEGACY = 0, FORM_BOTH = 0, FORM_PTDS = 2 }; /* flags of cuGetProcAddress */

#define API(ret, symbol, base, version, stream, use, params, args)                                 \
    static ret missing_##symbol params                                                             \
    {                                                                                              \
        return CUDA_ERROR_NOT_SUPPORTED;                                                           \
    }
#include "cuda_api.def"
#include "soft_api.def"
#undef API

static const struct {
    const char *base;
    int version, flags;
    size_t offset;
    void *missing;
} rows[] = {
#define API(ret, symbol, base, version, stream, use, params, args)                                 \
    {base, version, FORM_##stream, offsetof(struct soft_driver, symbol),                           \
     (void *)(uintptr_t)missing_##symbol},
#include "cuda_api.def"
#include "soft_api.def"
#undef API
};

typedef CUresult (*look_up_fn)(const char *, void **, int, cuuint64_t,
                               CUdriverProcAddressQueryResult *);

/* The pointer that the driver gives for itself is the one used from then on, as NVIDIA's runtime
 * does: an interposer that wraps only the first one sees four requests. */
static look_up_fn look_up_of(void *library)
{
    void *function = dlsym(library, "cuGetProcAddress_v2");
    look_up_fn look_up;
    memcpy(&look_up, &function, sizeof look_up);
    if (!look_up)
        return NULL;
    function = NULL;
    (void)look_up("", &function, 0, 0, NULL); /* not found, and that is fine */
    (void)look_up("cuInit", &function, 2000, 0, NULL);
    (void)look_up("cuGetProcAddress", &function, 11030, 0, NULL);
    function = NULL;
    if (look_up("cuGetProcAddress", &function, 12000, 0, NULL) != CUDA_SUCCESS || !function)
        return NULL;
    memcpy(&look_up, &function, sizeof look_up);
    return look_up;
}

static void start(void)
{
    start_result = cudaErrorInsufficientDriver;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    look_up_fn look_up = library ? look_up_of(library) : NULL;
    if (!look_up)
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *function = NULL;
        if (look_up(rows[i].base, &function, rows[i].version, (cuuint64_t)rows[i].flags, NULL) !=
                CUDA_SUCCESS ||
            !function)
            function = rows[i].missing;
        memcpy((char *)&driver + rows[i].offset, &function, sizeof function);
    }
    int version = 0;
    if (driver.cuDriverGetVersion(&version) != CUDA_SUCCESS ||
        version / 1000 < CUDART_VERSION / 1000)
        return;
    start_result = (cudaError_t)driver.cuInit(0);
}

cudaError_t runtime_driver(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start);
    return runtime_error(start_result);
}

CUresult runtime_primary(int number, CUcontext *out)
{
    CUresult result = CUDA_SUCCESS;
    if (number < 0 || number >= DEVICES)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!atomic_load_explicit(&primaries[number].retained, memory_order_acquire)) {
        pthread_mutex_lock(&mutex);
        if (!atomic_load(&primaries[number].retained)) {
            result = driver.cuDevicePrimaryCtxRetain(&primaries[number].context, number);
            atomic_store(&primaries[number].retained, result == CUDA_SUCCESS);
        }
        pthread_mutex_unlock(&mutex);
    }
    if (result == CUDA_SUCCESS)
        *out = primaries[number].context;
    return result;
}

/* A context that the program made current by the driver's interface is left so. */
cudaError_t runtime_enter(void)
{
    cudaError_t error = runtime_driver();
    if (error != cudaSuccess)
        return error;
    CUcontext current = NULL, primary = NULL;
    CUresult result = runtime_primary(device, &primary);
    if (result == CUDA_SUCCESS)
        result = driver.cuCtxGetCurrent(&current);
    if (result == CUDA_SUCCESS && !current)
        result = driver.cuCtxSetCurrent(primary);
    return runtime_result(result);
}

/* ---- errors ---- */

/* "Not ready" is an answer, not an error to be kept. */
cudaError_t runtime_error(cudaError_t error)
{
    if (error != cudaSuccess && error != cudaErrorNotReady)
        last_error = error;
    return error;
}

cudaError_t runtime_result(CUresult result)
{
    return runtime_error((cudaError_t)result);
}

cudaError_t runtime_last_error(void)
{
    return last_error;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

static const struct {
    cudaError_t code;
    const char *name, *text;
} errors[] = {
#define ERROR(driver_name, code, text) {code, #code, text},
#include "errors.def"
#undef ERROR
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorInvalidSymbol, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {cudaErrorMissingConfiguration, "cudaErrorMissingConfiguration",
     "__global__ function call is not configured"},
};

const char *cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == error)
            return errors[i].name;
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == error)
            return errors[i].text;
    return "unrecognized error code";
}

/* ---- the whole device ---- */

int runtime_device(void)
{
    return device;
}

cudaError_t cudaDeviceReset(void)
{
    cudaError_t error = runtime_driver();
    if (error != cudaSuccess)
        return error;
    pthread_mutex_lock(&mutex);
    CUresult result = driver.cuDevicePrimaryCtxReset(device);
    atomic_store(&primaries[device].retained, false);
    pthread_mutex_unlock(&mutex);
    last_error = cudaSuccess;
    return runtime_result(result);
}

cudaError_t cudaSetDevice(int number)
{
    int count = 0;
    cudaError_t error = runtime_driver();
    if (error != cudaSuccess)
        return error;
    CUresult result = driver.cuDeviceGetCount(&count);
    if (result == CUDA_SUCCESS && (number < 0 || number >= count))
        result = CUDA_ERROR_INVALID_DEVICE;
    CUcontext primary;
    if (result == CUDA_SUCCESS)
        result = runtime_primary(number, &primary);
    if (result == CUDA_SUCCESS)
        result = driver.cuCtxSetCurrent(primary);
    if (result == CUDA_SUCCESS)
        device = number;
    return runtime_result(result);
}

cudaError_t cudaInitDevice(int number, unsigned int deviceFlags, unsigned int flags)
{
    return cudaSetDevice(number);
}

cudaError_t cudaGetDevice(int *out)
{
    cudaError_t error = runtime_driver();
    if (error == cudaSuccess && !out)
        return runtime_error(cudaErrorInvalidValue);
    CUcontext current = NULL;
    if (error == cudaSuccess)
        error = runtime_result(driver.cuCtxGetCurrent(&current));
    if (error == cudaSuccess)
        *out = device;
    return error == cudaSuccess && current ? runtime_result(driver.cuCtxGetDevice(out)) : error;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    cudaError_t error = runtime_driver();
    return error == cudaSuccess ? runtime_result(driver.cuDeviceGetCount(count)) : error;
}

ONE(cudaDeviceSynchronize, (void), runtime_result(driver.cuCtxSynchronize()))

cudaError_t cudaRuntimeGetVersion(int *version)
{
    if (!version)
        return runtime_error(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* 0 and success where there is no driver. */
cudaError_t cudaDriverGetVersion(int *version)
{
    if (!version)
        return runtime_error(cudaErrorInvalidValue);
    *version = 0;
    if (runtime_driver() != cudaSuccess) {
        last_error = cudaSuccess;
        return cudaSuccess;
    }
    return runtime_result(driver.cuDriverGetVersion(version));
}

/* ---- driver entries, for programs that mix both interfaces ---- */

static cudaError_t entry_point(const char *symbol, void **function, unsigned version,
                               unsigned long long flags,
                               enum cudaDriverEntryPointQueryResult *status, bool own)
{
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    cudaError_t error = runtime_driver();
    if (error != cudaSuccess)
        return error;
    if (!symbol || !function)
        return runtime_error(cudaErrorInvalidValue);
    if (flags == cudaEnableDefault && own)
        flags = cudaEnablePerThreadDefaultStream;
    CUresult result =
        driver.cuGetProcAddress_v2(symbol, function, (int)version, (cuuint64_t)flags, &found);
    if (status)
        *status = (enum cudaDriverEntryPointQueryResult)found;
    /* that it is not there is told by the status, where there is one */
    if (result == CUDA_ERROR_NOT_FOUND && status)
        result = CUDA_SUCCESS;
    return runtime_result(result);
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return entry_point(symbol, funcPtr, CUDART_VERSION, flags, driverStatus, false);
}

cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **funcPtr,
                                         unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return entry_point(symbol, funcPtr, CUDART_VERSION, flags, driverStatus, true);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr,
                                             unsigned int cudaVersion, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return entry_point(symbol, funcPtr, cudaVersion, flags, driverStatus, false);
}

cudaError_t
cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **funcPtr, unsigned int cudaVersion,
                                      unsigned long long flags,
                                      enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return entry_point(symbol, funcPtr, cudaVersion, flags, driverStatus, true);
}

cudaError_t cudaGetExportTable(const void **ppExportTable, const cudaUUID_t *pExportTableId)
{
    cudaError_t error = runtime_driver();
    return error == cudaSuccess
               ? runtime_result(driver.cuGetExportTable(ppExportTable, pExportTableId))
               : error;
}

int runtime_refuse(void)
{
    return (int)runtime_error(cudaErrorNotSupported);
}
