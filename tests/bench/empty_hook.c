/* The floor under what any preload can cost a launch: a hook that only calls the driver. */
#include "gpu/real.h"

#include <dlfcn.h>

static __typeof__(&cuLaunchKernel) next;

__attribute__((constructor)) static void find(void)
{
    next = (__typeof__(next))(uintptr_t)dlsym(RTLD_NEXT, "cuLaunchKernel");
}

__attribute__((visibility("default"))) CUresult
cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
               unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
               unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)
{
    return next(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,
                hStream, kernelParams, extra);
}
