/* Launches as before CUDA 4: a function has its block, its shared memory and its parameters set one
 * by one, then is launched. And the cooperative launch on several devices, without barriers between
 * them: no kernel that runs here has any. */
#include "soft.h"

#include <stdlib.h>
#include <string.h>

enum { PARAM_BYTES = 4096 };

struct legacy {
    unsigned block[3], shared, size;
    unsigned char params[PARAM_BYTES];
};

static CUresult enter(CUfunction handle, struct legacy **out)
{
    struct context *context;
    struct function *function;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = function_of(handle, context, &function);
    if (result != CUDA_SUCCESS)
        return result;
    if (!function->legacy) {
        function->legacy = calloc(1, sizeof *function->legacy);
        if (!function->legacy)
            return CUDA_ERROR_OUT_OF_MEMORY;
        for (int i = 0; i < 3; i++)
            function->legacy->block[i] = 1;
    }
    *out = function->legacy;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z)
{
    struct legacy *legacy;
    CUresult result = enter(hfunc, &legacy);
    if (result != CUDA_SUCCESS)
        return result;
    if (x <= 0 || y <= 0 || z <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    legacy->block[0] = (unsigned)x;
    legacy->block[1] = (unsigned)y;
    legacy->block[2] = (unsigned)z;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes)
{
    struct legacy *legacy;
    CUresult result = enter(hfunc, &legacy);
    if (result == CUDA_SUCCESS)
        legacy->shared = bytes;
    return result;
}

CUresult cuParamSetSize(CUfunction hfunc, unsigned int numbytes)
{
    struct legacy *legacy;
    CUresult result = enter(hfunc, &legacy);
    if (result != CUDA_SUCCESS)
        return result;
    if (numbytes > PARAM_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    legacy->size = numbytes;
    return CUDA_SUCCESS;
}

CUresult cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes)
{
    struct legacy *legacy;
    CUresult result = enter(hfunc, &legacy);
    if (result != CUDA_SUCCESS)
        return result;
    if (!ptr || offset < 0 || offset > PARAM_BYTES || numbytes > PARAM_BYTES - (unsigned)offset)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(legacy->params + offset, ptr, numbytes);
    return CUDA_SUCCESS;
}

CUresult cuParamSeti(CUfunction hfunc, int offset, unsigned int value)
{
    return cuParamSetv(hfunc, offset, &value, sizeof value);
}

CUresult cuParamSetf(CUfunction hfunc, int offset, float value)
{
    return cuParamSetv(hfunc, offset, &value, sizeof value);
}

CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream)
{
    struct legacy *legacy;
    CUresult result = enter(f, &legacy);
    if (result != CUDA_SUCCESS)
        return result;
    if (grid_width <= 0 || grid_height <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    size_t size = legacy->size;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, legacy->params, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &size, CU_LAUNCH_PARAM_END};
    return cuLaunchKernel(f, (unsigned)grid_width, (unsigned)grid_height, 1, legacy->block[0],
                          legacy->block[1], legacy->block[2], legacy->shared, hStream, NULL, extra);
}

CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height)
{
    return cuLaunchGridAsync(f, grid_width, grid_height, NULL);
}

CUresult cuLaunch(CUfunction f)
{
    return cuLaunchGrid(f, 1, 1);
}

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS_v1 *launchParamsList,
                                              unsigned int numDevices, unsigned int flags)
{
    CUresult result = launchParamsList && numDevices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; result == CUDA_SUCCESS && i < numDevices; i++) {
        const CUDA_LAUNCH_PARAMS_v1 *p = &launchParamsList[i];
        if (handle_kind_of(p->hStream) != HANDLE_STREAM)
            return CUDA_ERROR_INVALID_VALUE; /* each device's must be named */
        CUcontext popped, context = (CUcontext)((struct stream *)p->hStream)->context;
        result = cuCtxPushCurrent_v2(context);
        if (result == CUDA_SUCCESS) {
            result = cuLaunchCooperativeKernel(p->function, p->gridDimX, p->gridDimY, p->gridDimZ,
                                               p->blockDimX, p->blockDimY, p->blockDimZ,
                                               p->sharedMemBytes, p->hStream, p->kernelParams);
            (void)cuCtxPopCurrent_v2(&popped);
        }
    }
    return result;
}
