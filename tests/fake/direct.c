/* A driver-API program that is linked to libcuda: its calls go by the linker alone. Exit status 0
 * if a launch went all the way, and it prints which library its cuLaunchKernel is in. */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction function;
    Dl_info info = {0};
    dladdr((void *)&cuLaunchKernel, &info);
    printf("%s\n", info.dli_fname);
    return cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
           cuCtxSetCurrent(context) || cuModuleLoadData(&module, ".version 7.0") ||
           cuModuleGetFunction(&function, module, "direct") ||
           cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) || cuCtxSynchronize() ||
           cuModuleUnload(module);
}
