/* Green contexts: parts of a device's multiprocessors, with streams of their own. Modules,
 * functions and memory are those of the device's primary context. A launch takes as long as on the
 * whole device: the time model knows no parts. */
#include "soft.h"

#include <stdlib.h>
#include <string.h>

/* As cuDeviceGetDevResource tells of compute capability 9. */
enum { LEAST_SMS = 8, ALIGNMENT = 8 };

struct resources {
    int device;
    unsigned sms;
};

struct green {
    struct context *context;
    struct resources resources;
};

static void describe(CUdevResource *out, int device, unsigned sms)
{
    memset(out, 0, sizeof *out);
    out->type = CU_DEV_RESOURCE_TYPE_SM;
    memcpy(out->_internal_padding, &device, sizeof device);
    out->sm.smCount = sms;
    out->sm.minSmPartitionSize = LEAST_SMS;
    out->sm.smCoscheduledAlignment = ALIGNMENT;
}

static CUresult tell(CUdevResource *resource, CUdevResourceType type, int device, unsigned sms)
{
    if (!resource)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    describe(resource, device, sms);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
    struct device *found;
    CUresult result = device_of(device, &found);
    return result == CUDA_SUCCESS ? tell(resource, type, device, (unsigned)found->model->sms)
                                  : result;
}

CUresult cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type)
{
    struct context *context;
    CUresult result = context_of(hCtx, &context);
    if (result != CUDA_SUCCESS)
        return result;
    const struct green *green = context->green;
    const struct device *device = context->device;
    unsigned sms = green ? green->resources.sms : (unsigned)device->model->sms;
    return tell(resource, type, device->ordinal, sms);
}

static CUresult enter(CUgreenCtx handle, struct green **out)
{
    CUresult result = handle_enter(handle, HANDLE_GREEN, CUDA_ERROR_INVALID_CONTEXT);
    if (result == CUDA_SUCCESS)
        *out = (struct green *)handle;
    return result;
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource *resource, CUdevResourceType type)
{
    struct green *green;
    CUresult result = enter(hCtx, &green);
    return result == CUDA_SUCCESS
               ? tell(resource, type, green->resources.device, green->resources.sms)
               : result;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups,
                                     const CUdevResource *input, CUdevResource *remaining,
                                     unsigned int useFlags, unsigned int minCount)
{
    int device;
    if (!nbGroups || !input || minCount > input->sm.smCount)
        return CUDA_ERROR_INVALID_VALUE;
    if (input->type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    memcpy(&device, input->_internal_padding, sizeof device);
    unsigned each = (unsigned)round_up(minCount > LEAST_SMS ? minCount : LEAST_SMS, ALIGNMENT);
    unsigned groups = input->sm.smCount / each;
    if (result && *nbGroups < groups)
        groups = *nbGroups;
    for (unsigned i = 0; result && i < groups; i++)
        describe(&result[i], device, each);
    if (remaining)
        describe(remaining, device, input->sm.smCount - groups * each);
    *nbGroups = groups;
    return CUDA_SUCCESS;
}

/* Never freed, as nothing destroys one. */
CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources,
                                   unsigned int nbResources)
{
    if (!phDesc || !resources || !nbResources)
        return CUDA_ERROR_INVALID_VALUE;
    static struct resources kept[64];
    static atomic_uint used;
    unsigned at = atomic_fetch_add(&used, 1);
    if (at >= sizeof kept / sizeof *kept || !handle_add(&kept[at], HANDLE_RESOURCES))
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < nbResources; i++) {
        if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM)
            return CUDA_ERROR_INVALID_RESOURCE_TYPE;
        memcpy(&kept[at].device, resources[i]._internal_padding, sizeof kept[at].device);
        kept[at].sms += resources[i].sm.smCount;
    }
    *phDesc = (CUdevResourceDesc)&kept[at];
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
                          unsigned int flags)
{
    const struct resources *resources = (const struct resources *)desc;
    CUcontext primary;
    if (!phCtx || handle_kind_of(desc) != HANDLE_RESOURCES || resources->device != dev ||
        flags != CU_GREEN_CTX_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = cuDevicePrimaryCtxRetain(&primary, dev);
    if (result != CUDA_SUCCESS)
        return result;
    struct green *green = calloc(1, sizeof *green);
    result = green && handle_add(green, HANDLE_GREEN)
                 ? context_part((struct context *)primary, green, &green->context)
                 : CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        handle_remove(green);
        free(green);
        (void)cuDevicePrimaryCtxRelease_v2(dev);
        return result;
    }
    green->resources = *resources;
    *phCtx = (CUgreenCtx)green;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy(CUgreenCtx hCtx)
{
    struct green *green;
    CUresult result = enter(hCtx, &green);
    if (result != CUDA_SUCCESS)
        return result;
    handle_remove(green);
    context_part_end(green->context);
    result = cuDevicePrimaryCtxRelease_v2(green->resources.device);
    free(green);
    return result;
}

CUresult cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
    struct green *green;
    CUresult result = enter(hCtx, &green);
    if (result == CUDA_SUCCESS && !pContext)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *pContext = (CUcontext)green->context;
    return result;
}

CUresult cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags,
                                int priority)
{
    struct green *green;
    struct stream *stream;
    CUresult result = enter(greenCtx, &green);
    if (result != CUDA_SUCCESS)
        return result;
    if (!phStream || flags != CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    soft_lock();
    result = stream_create(green->context, flags, priority, &stream);
    soft_unlock();
    if (result == CUDA_SUCCESS)
        *phStream = (CUstream)stream;
    return result;
}

CUresult cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx)
{
    return cuStreamGetCtx_v2(hStream, NULL, phCtx);
}
