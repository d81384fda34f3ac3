/* What a program built by nvcc registers before main: its fat binaries, kernels and variables. A
 * fat binary is given to the driver when the first of its kernels or variables is needed. */
#include "runtime.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 4096 };

struct fatbin {
    void *wrapper; /* first: what the handle of a registration points to */
    CUlibrary library;
    CUresult result; /* of the load */
    bool loaded;
};

/* A kernel by the address of its host stub, or a variable by that of its shadow. */
struct registered {
    const void *host;
    const char *name;
    struct fatbin *fatbin;
    bool variable;
    void **managed;  /* the host's pointer to it; NULL: not managed */
    CUkernel kernel; /* NULL: not looked up yet */
    struct registered *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct registered *buckets[BUCKETS];

static struct registered **bucket_of(const void *host)
{
    return &buckets[((uintptr_t)host >> 4) * 0x9e3779b97f4a7c15u >> 52];
}

static struct registered *find(const void *host, bool variable)
{
    struct registered *entry = *bucket_of(host);
    while (entry && (entry->host != host || entry->variable != variable))
        entry = entry->next;
    return entry;
}

static void add(const struct registered *made)
{
    struct registered *entry = malloc(sizeof *entry);
    if (!entry)
        return; /* a use of it will say that it is unknown */
    *entry = *made;
    pthread_mutex_lock(&mutex);
    entry->next = *bucket_of(made->host);
    *bucket_of(made->host) = entry;
    pthread_mutex_unlock(&mutex);
}

void **__cudaRegisterFatBinary(void *fatCubin);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *hostFun, char *deviceFun,
                            const char *deviceName, int thread_limit, uint3 *tid, uint3 *bid,
                            dim3 *bDim, dim3 *gDim, int *wSize);
void __cudaRegisterVar(void **handle, char *hostVar, char *deviceAddress, const char *deviceName,
                       int ext, size_t size, int constant, int global);
void __cudaRegisterManagedVar(void **handle, void **hostVarPtrAddress, char *deviceAddress,
                              const char *deviceName, int ext, size_t size, int constant,
                              int global);
char __cudaInitModule(void **handle);

void **__cudaRegisterFatBinary(void *fatCubin)
{
    static struct fatbin none = {.loaded = true, .result = CUDA_ERROR_OUT_OF_MEMORY};
    struct fatbin *fatbin = calloc(1, sizeof *fatbin);
    if (!fatbin)
        return &none.wrapper;
    fatbin->wrapper = fatCubin;
    return &fatbin->wrapper;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
}

void __cudaRegisterFunction(void **handle, const char *hostFun, char *deviceFun,
                            const char *deviceName, int thread_limit, uint3 *tid, uint3 *bid,
                            dim3 *bDim, dim3 *gDim, int *wSize)
{
    add(&(struct registered){
        .host = hostFun, .name = deviceName, .fatbin = (struct fatbin *)handle});
}

void __cudaRegisterVar(void **handle, char *hostVar, char *deviceAddress, const char *deviceName,
                       int ext, size_t size, int constant, int global)
{
    add(&(struct registered){
        .host = hostVar, .name = deviceName, .fatbin = (struct fatbin *)handle, .variable = true});
}

void __cudaRegisterManagedVar(void **handle, void **hostVarPtrAddress, char *deviceAddress,
                              const char *deviceName, int ext, size_t size, int constant,
                              int global)
{
    add(&(struct registered){.host = hostVarPtrAddress,
                             .name = deviceName,
                             .fatbin = (struct fatbin *)handle,
                             .variable = true,
                             .managed = hostVarPtrAddress});
}

/* Caller holds the mutex. Late loading is the runtime's doing, not the program's: it is no breach
 * of a capture that is under way. */
static CUresult load(struct fatbin *fatbin)
{
    if (!fatbin->loaded) {
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        (void)driver.cuThreadExchangeStreamCaptureMode(&mode);
        fatbin->result = driver.cuLibraryLoadData(&fatbin->library, fatbin->wrapper, NULL, NULL, 0,
                                                  NULL, NULL, 0);
        (void)driver.cuThreadExchangeStreamCaptureMode(&mode);
        fatbin->loaded = true;
    }
    return fatbin->result;
}

/* Called once a fat binary by programs with managed variables, before they touch one. */
char __cudaInitModule(void **handle)
{
    struct fatbin *fatbin = (struct fatbin *)handle;
    if (runtime_enter() != cudaSuccess)
        return 0;
    pthread_mutex_lock(&mutex);
    bool good = load(fatbin) == CUDA_SUCCESS;
    for (unsigned i = 0; good && i < BUCKETS; i++)
        for (struct registered *entry = buckets[i]; entry; entry = entry->next) {
            CUdeviceptr address;
            size_t size;
            if (entry->fatbin != fatbin || !entry->managed)
                continue;
            if (driver.cuLibraryGetManaged(&address, &size, fatbin->library, entry->name) ==
                CUDA_SUCCESS)
                *entry->managed = (void *)(uintptr_t)address;
            else
                good = false;
        }
    pthread_mutex_unlock(&mutex);
    return good;
}

/* At exit, and when a plug-in that registered is closed. */
void __cudaUnregisterFatBinary(void **handle)
{
    struct fatbin *fatbin = (struct fatbin *)handle;
    pthread_mutex_lock(&mutex);
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct registered **link = &buckets[i]; *link;) {
            struct registered *entry = *link;
            if (entry->fatbin != fatbin) {
                link = &entry->next;
                continue;
            }
            *link = entry->next;
            free(entry);
        }
    pthread_mutex_unlock(&mutex);
    if (fatbin->loaded && fatbin->result == CUDA_SUCCESS)
        (void)driver.cuLibraryUnload(fatbin->library); /* after the driver's end it is refused */
    if (fatbin->wrapper)
        free(fatbin);
}

cudaError_t runtime_kernel(const void *host, CUkernel *out)
{
    cudaError_t error = runtime_enter();
    if (error != cudaSuccess)
        return error;
    pthread_mutex_lock(&mutex);
    struct registered *entry = find(host, false);
    CUresult result = CUDA_SUCCESS;
    if (entry && !entry->kernel) {
        result = load(entry->fatbin);
        if (result == CUDA_SUCCESS)
            result = driver.cuLibraryGetKernel(&entry->kernel, entry->fatbin->library, entry->name);
    }
    if (entry)
        *out = entry->kernel;
    pthread_mutex_unlock(&mutex);
    if (entry && result != CUDA_ERROR_NOT_FOUND)
        return runtime_result(result);
    const char *name; /* a cudaKernel_t is taken as well */
    if (!entry && host && driver.cuKernelGetName(&name, (CUkernel)host) == CUDA_SUCCESS) {
        *out = (CUkernel)host;
        return cudaSuccess;
    }
    return runtime_error(cudaErrorInvalidDeviceFunction);
}

const void *runtime_host_of(const void *kernel)
{
    const void *host = NULL;
    pthread_mutex_lock(&mutex);
    for (unsigned i = 0; i < BUCKETS && !host; i++)
        for (struct registered *entry = buckets[i]; entry && !host; entry = entry->next)
            if (entry->kernel && (const void *)entry->kernel == kernel)
                host = entry->host;
    pthread_mutex_unlock(&mutex);
    return host;
}

cudaError_t runtime_symbol(const void *host, CUdeviceptr *address, size_t *size)
{
    cudaError_t error = runtime_enter();
    if (error != cudaSuccess)
        return error;
    pthread_mutex_lock(&mutex);
    const struct registered *entry = find(host, true);
    CUresult result = entry ? load(entry->fatbin) : CUDA_SUCCESS;
    if (entry && result == CUDA_SUCCESS)
        result = driver.cuLibraryGetGlobal(address, size, entry->fatbin->library, entry->name);
    pthread_mutex_unlock(&mutex);
    if (!entry || result == CUDA_ERROR_NOT_FOUND)
        return runtime_error(cudaErrorInvalidSymbol);
    return runtime_result(result);
}

cudaError_t cudaGetSymbolAddress(void **devPtr, const void *symbol)
{
    CUdeviceptr address;
    size_t size;
    cudaError_t error = runtime_symbol(symbol, &address, &size);
    if (error == cudaSuccess)
        *devPtr = (void *)(uintptr_t)address;
    return error;
}

cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol)
{
    CUdeviceptr address;
    return runtime_symbol(symbol, &address, size);
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *functionPtr, const void *symbolPtr)
{
    CUkernel kernel;
    cudaError_t error = runtime_kernel(symbolPtr, &kernel);
    return error == cudaSuccess ? runtime_result(driver.cuKernelGetFunction(functionPtr, kernel))
                                : error;
}

cudaError_t cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr)
{
    return runtime_kernel(entryFuncAddr, kernelPtr);
}
