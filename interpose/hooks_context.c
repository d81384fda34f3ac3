/* Start, contexts and safe points. A context that dies takes functions with it: their records are
 * tombstoned before the real call, since the driver may give the same handle out again at once. */
#include "interpose.h"

enum { DEVICES = 64 };

/* Primary contexts are counted: they die with the last release. References that a runtime took past
 * our hooks are not seen, so a count of nothing means "may die", and its records are given up. */
static struct {
    _Atomic(CUcontext) context;
    atomic_int count;
} primary[DEVICES];

static bool counted(CUdevice device)
{
    return device >= 0 && device < DEVICES;
}

static void primary_dying(CUdevice device, bool reset)
{
    if (!app_active())
        return;
    if (!counted(device)) {
        context_dying(NULL);
        return;
    }
    if (!reset && atomic_fetch_sub(&primary[device].count, 1) > 1)
        return;
    atomic_store(&primary[device].count, 0);
    context_dying(atomic_load(&primary[device].context)); /* NULL, never seen: all of them */
}

static void context_made(CUcontext context)
{
    if (inside_kgenrt || !app_start())
        return;
    context_seen(context);
    app_context_created(context);
}

CUresult cuInit(unsigned int Flags)
{
    NEED(cuInit);
    CUresult result = real.cuInit(Flags);
    if (result == CUDA_SUCCESS && !inside_kgenrt)
        (void)app_start();
    return result;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    NEED(cuDevicePrimaryCtxRetain);
    CUresult result = real.cuDevicePrimaryCtxRetain(pctx, dev);
    if (result != CUDA_SUCCESS || !pctx)
        return result;
    if (counted(dev)) {
        atomic_store(&primary[dev].context, *pctx);
        atomic_fetch_add(&primary[dev].count, 1);
    }
    context_made(*pctx);
    return result;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    NEED(cuDevicePrimaryCtxRelease);
    primary_dying(dev, false);
    return real.cuDevicePrimaryCtxRelease(dev);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    NEED(cuDevicePrimaryCtxRelease_v2);
    primary_dying(dev, false);
    return real.cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
    NEED(cuDevicePrimaryCtxReset);
    primary_dying(dev, true);
    return real.cuDevicePrimaryCtxReset(dev);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    NEED(cuDevicePrimaryCtxReset_v2);
    primary_dying(dev, true);
    return real.cuDevicePrimaryCtxReset_v2(dev);
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    NEED(cuCtxCreate_v2);
    CUresult result = real.cuCtxCreate_v2(pctx, flags, dev);
    if (result == CUDA_SUCCESS && pctx)
        context_made(*pctx);
    return result;
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
                        unsigned int flags, CUdevice dev)
{
    NEED(cuCtxCreate_v3);
    CUresult result = real.cuCtxCreate_v3(pctx, paramsArray, numParams, flags, dev);
    if (result == CUDA_SUCCESS && pctx)
        context_made(*pctx);
    return result;
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
                        CUdevice dev)
{
    NEED(cuCtxCreate_v4);
    CUresult result = real.cuCtxCreate_v4(pctx, ctxCreateParams, flags, dev);
    if (result == CUDA_SUCCESS && pctx)
        context_made(*pctx);
    return result;
}

CUresult cuCtxDestroy(CUcontext ctx)
{
    NEED(cuCtxDestroy);
    if (ctx && app_active())
        context_dying(ctx);
    return real.cuCtxDestroy(ctx);
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    NEED(cuCtxDestroy_v2);
    if (ctx && app_active())
        context_dying(ctx);
    return real.cuCtxDestroy_v2(ctx);
}

/* A runtime may make its contexts past our hooks; here they are met at the latest. */
static CUresult current(CUresult result, CUcontext context)
{
    if (result == CUDA_SUCCESS && context && watching())
        context_seen(context);
    return result;
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
    NEED(cuCtxSetCurrent);
    return current(real.cuCtxSetCurrent(ctx), ctx);
}

CUresult cuCtxPushCurrent(CUcontext ctx)
{
    NEED(cuCtxPushCurrent);
    return current(real.cuCtxPushCurrent(ctx), ctx);
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    NEED(cuCtxPushCurrent_v2);
    return current(real.cuCtxPushCurrent_v2(ctx), ctx);
}

/* Nothing of this context runs now: the moment to load variants, in the app's own thread. */
static CUresult quiet(CUresult result)
{
    if (result == CUDA_SUCCESS && watching() && variants_pending())
        safe_point();
    return result;
}

CUresult cuCtxSynchronize(void)
{
    NEED(cuCtxSynchronize);
    return quiet(real.cuCtxSynchronize());
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    NEED(cuCtxSynchronize_v2);
    return quiet(real.cuCtxSynchronize_v2(ctx));
}
