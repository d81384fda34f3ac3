/* Start, contexts and safe points. A context that dies takes functions with it: their records are
 * tombstoned before the real call, since the driver may give the same handle out again at once. */
#include "interpose.h"

enum { DEVICES = 64 };

/* Primary contexts die with their last release, so references are counted. Those that a runtime
 * takes past our hooks cannot be: then only the driver knows, after the release. */
static struct {
    _Atomic(CUcontext) context;
    atomic_int count;
    atomic_bool uncounted; /* in use before anybody retained it */
} primary[DEVICES];

static bool counted(CUdevice device)
{
    return device >= 0 && device < DEVICES;
}

static void dying(CUcontext context)
{
    context_unseen(context);
    context_dying(context);
}

/* True: the driver is to be asked afterwards. */
static bool primary_dying(CUdevice device, bool reset)
{
    if (!watching())
        return false;
    if (!counted(device)) {
        dying(NULL);
        return false;
    }
    if (!reset && atomic_fetch_sub(&primary[device].count, 1) > 1)
        return false;
    atomic_store(&primary[device].count, 0);
    if (!reset && atomic_load(&primary[device].uncounted))
        return true;
    dying(atomic_load(&primary[device].context)); /* NULL, never seen: all of them */
    return false;
}

static CUresult primary_released(CUresult result, CUdevice device, bool ask)
{
    unsigned flags;
    int active = 0;
    if (ask && real.cuDevicePrimaryCtxGetState &&
        (real.cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || !active))
        dying(atomic_load(&primary[device].context));
    return result;
}

static void context_made(CUcontext context)
{
    if (!inside_kgenrt && app_start() && context_seen(context))
        app_context_created(context);
}

/* A runtime makes a primary context current before it is alive (seen with NVIDIA's, on an H200:
 * every call in it then fails as destroyed); its retain, which brings it to life, comes later. */
static bool alive(CUdevice device)
{
    unsigned flags;
    int active = 1;
    if (!counted(device) || !real.cuDevicePrimaryCtxGetState)
        return true;
    return real.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active;
}

void context_met(void)
{
    CUcontext context = NULL;
    CUdevice device;
    if (!watching() || !real.cuCtxGetCurrent || real.cuCtxGetCurrent(&context) != CUDA_SUCCESS ||
        !context || context_known(context) || context_is_green() || !real.cuCtxGetDevice ||
        real.cuCtxGetDevice(&device) != CUDA_SUCCESS || !alive(device) || !context_seen(context))
        return;
    if (counted(device) && !atomic_load(&primary[device].count)) {
        atomic_store(&primary[device].context, context);
        atomic_store(&primary[device].uncounted, true);
    }
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
    bool ask = primary_dying(dev, false);
    return primary_released(real.cuDevicePrimaryCtxRelease(dev), dev, ask);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    NEED(cuDevicePrimaryCtxRelease_v2);
    bool ask = primary_dying(dev, false);
    return primary_released(real.cuDevicePrimaryCtxRelease_v2(dev), dev, ask);
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
    NEED(cuDevicePrimaryCtxReset);
    (void)primary_dying(dev, true);
    return real.cuDevicePrimaryCtxReset(dev);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    NEED(cuDevicePrimaryCtxReset_v2);
    (void)primary_dying(dev, true);
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
    if (ctx && watching())
        dying(ctx);
    return real.cuCtxDestroy(ctx);
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    NEED(cuCtxDestroy_v2);
    if (ctx && watching())
        dying(ctx);
    return real.cuCtxDestroy_v2(ctx);
}

/* May end the context: its count is not ours to know. One that lives on is met again, and its
 * functions are looked up again or run as originals. */
CUresult cuCtxDetach(CUcontext ctx)
{
    NEED(cuCtxDetach);
    if (ctx && watching())
        dying(ctx);
    return real.cuCtxDetach(ctx);
}

/* Which launches run in a green context, each is asked from now on. */
CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
                          unsigned int flags)
{
    NEED(cuGreenCtxCreate);
    CUresult result = real.cuGreenCtxCreate(phCtx, desc, dev, flags);
    if (result == CUDA_SUCCESS)
        context_green();
    return result;
}

static bool is_primary(CUcontext context)
{
    for (int i = 0; i < DEVICES; i++)
        if (atomic_load(&primary[i].context) == context)
            return true;
    return false;
}

CUresult cuGreenCtxDestroy(CUgreenCtx hCtx)
{
    NEED(cuGreenCtxDestroy);
    CUcontext context = NULL;
    if (hCtx && watching() && real.cuCtxFromGreenCtx &&
        real.cuCtxFromGreenCtx(&context, hCtx) == CUDA_SUCCESS && context && !is_primary(context))
        dying(context);
    return real.cuGreenCtxDestroy(hCtx);
}

/* A runtime may make its contexts past our hooks; here, or at a load, they are met at the latest.
 */
static CUresult current(CUresult result)
{
    if (result == CUDA_SUCCESS)
        context_met();
    return result;
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
    NEED(cuCtxSetCurrent);
    return current(real.cuCtxSetCurrent(ctx));
}

CUresult cuCtxPushCurrent(CUcontext ctx)
{
    NEED(cuCtxPushCurrent);
    return current(real.cuCtxPushCurrent(ctx));
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    NEED(cuCtxPushCurrent_v2);
    return current(real.cuCtxPushCurrent_v2(ctx));
}

/* Nothing of this thread's context runs now: the moment to load variants, in the app's own thread.
 */
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
    CUcontext current = NULL;
    CUresult result = real.cuCtxSynchronize_v2(ctx);
    bool own = !ctx || (real.cuCtxGetCurrent && real.cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
                        current == ctx);
    return own ? quiet(result) : result; /* another context's rest says nothing of this one */
}
