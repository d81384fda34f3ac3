/* Our own CUDA runtime library, seen from inside: libcudart.so.N for programs built with
 * `-cudart shared`. It stands on a driver that it finds as NVIDIA's does: dlopen of libcuda.so.1,
 * one dlsym, and cuGetProcAddress for the rest, so that what hooks those is tested for real. It
 * knows nothing of the software GPU's insides. */
#ifndef SOFTGPU_RUNTIME_H
#define SOFTGPU_RUNTIME_H

#include "soft_entries.h"

#include <cuda_runtime_api.h>

/* Every entry as this driver gave it; an entry that it lacks answers CUDA_ERROR_NOT_SUPPORTED, so
 * that no pointer is ever NULL. */
extern struct soft_driver driver;

/* Driver found and initialised, a context current to this thread; or why not. */
cudaError_t runtime_enter(void);
/* Driver found and initialised. */
cudaError_t runtime_driver(void);
/* Keeps an error for cudaGetLastError and gives it back; the numbers are the driver's. */
cudaError_t runtime_result(CUresult result);
cudaError_t runtime_error(cudaError_t error);

/* runtime_module.c: what a program registered. */
cudaError_t runtime_kernel(const void *host, CUkernel *out);
cudaError_t runtime_symbol(const void *host, CUdeviceptr *address, size_t *size);
const void *runtime_host_of(const void *kernel); /* a CUkernel's stub; NULL: none registered */
/* runtime_memory.c: the device's bytes of a variable; a copy in the driver's form */
cudaError_t runtime_symbol_range(const void *symbol, size_t count, size_t offset, CUdeviceptr *out);
cudaError_t runtime_box(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *out);
cudaError_t runtime_last_error(void); /* without forgetting it */
int runtime_refuse(void);             /* for runtime_rest.c */
int runtime_device(void);             /* of this thread */
/* The primary context of a device, retained at the first call. */
CUresult runtime_primary(int number, CUcontext *out);

/* The driver's entry for this stream form. */
#define DRIVER(own, name, suffix) ((own) ? driver.name##suffix : driver.name)

/* Defines both stream forms of a runtime call: `own` says whether stream 0 is the thread's own.
 * action: a cudaError_t. */
#define BOTH(name, suffix, parameters, action)                                                     \
    cudaError_t name parameters                                                                    \
    {                                                                                              \
        enum { own = false };                                                                      \
        cudaError_t entered = runtime_enter();                                                     \
        return entered != cudaSuccess ? entered : (action);                                        \
    }                                                                                              \
    cudaError_t name##suffix parameters                                                            \
    {                                                                                              \
        enum { own = true };                                                                       \
        cudaError_t entered = runtime_enter();                                                     \
        return entered != cudaSuccess ? entered : (action);                                        \
    }

/* The same for a call with one form. */
#define ONE(name, parameters, action)                                                              \
    cudaError_t name parameters                                                                    \
    {                                                                                              \
        cudaError_t entered = runtime_enter();                                                     \
        return entered != cudaSuccess ? entered : (action);                                        \
    }

#endif
