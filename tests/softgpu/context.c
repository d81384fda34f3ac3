/* Contexts: the primary one, those that a program creates, and each thread's stack of current ones.
 * A context that dies takes its work, memory, modules, streams and events with it; its structure
 * stays, so that a thread that still has it current is told so. */
#include "graph.h"

#include <stdlib.h>

enum { STACK_MOST = 64 };

static struct context primaries[SOFT_DEVICES_MOST];
static struct context *contexts; /* all ever alive; guarded by the lock */

static _Thread_local struct context *stack[STACK_MOST]; /* NULL entries: none current */
static _Thread_local unsigned depth;

struct context *context_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

struct context *context_primary(int device)
{
    return &primaries[device];
}

struct context *context_here(void)
{
    struct context *context = context_current();
    return context && context->alive ? context : &primaries[0];
}

struct context *contexts_all(void)
{
    return contexts;
}

struct context *contexts_first(void)
{
    soft_lock();
    struct context *first = contexts;
    soft_unlock();
    return first;
}

static CUresult usable(const struct context *context)
{
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    return context->alive ? context->fault : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult context_enter(struct context **out)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    *out = context_current();
    return usable(*out);
}

CUresult context_of(CUcontext handle, struct context **out)
{
    if (!handle)
        return context_enter(out);
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    if (handle_kind_of(handle) != HANDLE_CONTEXT)
        return CUDA_ERROR_INVALID_CONTEXT;
    *out = (struct context *)handle;
    return usable(*out);
}

static const size_t standard_limits[SOFT_LIMITS] = {
    [CU_LIMIT_STACK_SIZE] = 1024,
    [CU_LIMIT_PRINTF_FIFO_SIZE] = 7u << 20,
    [CU_LIMIT_MALLOC_HEAP_SIZE] = 8u << 20,
    [CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2,
    [CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
    [CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
};

/* Makes the context usable. Caller holds the lock. */
static CUresult revive(struct context *context, unsigned flags)
{
    static uint64_t last_id;
    if (!handle_add(context, HANDLE_CONTEXT))
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->flags = flags;
    context->peers = 0;
    context->fault = CUDA_SUCCESS;
    context->id = ++last_id;
    for (int i = 0; i < SOFT_LIMITS; i++)
        context->limits[i] = standard_limits[i];
    CUresult result = stream_create(context, CU_STREAM_DEFAULT, 0, &context->legacy);
    if (result != CUDA_SUCCESS) {
        handle_remove(context);
        return result;
    }
    context->alive = true;
    if (!context->listed) {
        context->listed = true;
        context->next = contexts;
        contexts = context;
    }
    return result;
}

/* Ends the context with all that it owns, its parts too. */
static void end(struct context *context)
{
    for (struct context *part = contexts_first(); part; part = part->next)
        if (part->whole == context && part->alive)
            end(part);
    (void)context_drain(context); /* a fault ends with it */
    soft_lock();
    handle_remove(context);
    context->alive = false;
    if (context->primary)
        context->flags = 0; /* the next one's are asked for anew */
    event_forget_all(context);
    stream_forget_all(context);
    struct module *modules = context->modules;
    context->modules = NULL;
    soft_unlock();
    capture_sweep();
    while (modules) {
        struct module *module = modules;
        modules = module->next;
        module_destroy(module);
    }
    memory_give_all(context);
}

CUresult context_part(struct context *primary, struct green *green, struct context **out)
{
    struct context *part = calloc(1, sizeof *part);
    if (!part)
        return CUDA_ERROR_OUT_OF_MEMORY;
    part->device = primary->device;
    part->whole = primary;
    part->green = green;
    soft_lock();
    CUresult result = revive(part, primary->flags);
    soft_unlock();
    if (result == CUDA_SUCCESS)
        *out = part;
    else
        free(part);
    return result;
}

void context_part_end(struct context *part)
{
    if (part->alive)
        end(part);
}

/* The primary context of a device, alive or not. */
static CUresult primary_of(CUdevice ordinal, struct context **out)
{
    struct device *device;
    CUresult result = device_of(ordinal, &device);
    if (result == CUDA_SUCCESS) {
        *out = &primaries[ordinal];
        soft_lock();
        if (!(*out)->device) { /* once: who is in it reads this without the lock */
            (*out)->primary = true;
            (*out)->device = device;
        }
        soft_unlock();
    }
    return result;
}

/* ---- the primary context ---- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    struct context *primary;
    CUresult result = primary_of(dev, &primary);
    if (result != CUDA_SUCCESS)
        return result;
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    soft_lock();
    if (!primary->alive)
        result = revive(primary, primary->flags);
    if (result == CUDA_SUCCESS) {
        primary->references++;
        *pctx = (CUcontext)primary;
    }
    soft_unlock();
    return result;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    struct context *primary;
    CUresult result = primary_of(dev, &primary);
    if (result != CUDA_SUCCESS)
        return result;
    soft_lock();
    bool held = primary->alive && primary->references;
    bool last = held && --primary->references == 0;
    soft_unlock();
    if (last)
        end(primary);
    return held ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    return cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    struct context *primary;
    CUresult result = primary_of(dev, &primary);
    if (result != CUDA_SUCCESS)
        return result;
    soft_lock();
    bool alive = primary->alive;
    primary->references = 0;
    soft_unlock();
    if (alive)
        end(primary);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
    return cuDevicePrimaryCtxReset_v2(dev);
}

static bool flags_good(unsigned flags)
{
    unsigned scheduling = flags & CU_CTX_SCHED_MASK;
    return !(flags & ~(unsigned)CU_CTX_FLAGS_MASK) && !(scheduling & (scheduling - 1));
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    struct context *primary;
    CUresult result = primary_of(dev, &primary);
    if (result != CUDA_SUCCESS)
        return result;
    if (!flags_good(flags))
        return CUDA_ERROR_INVALID_VALUE;
    soft_lock();
    primary->flags = flags;
    soft_unlock();
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
    return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    struct context *primary;
    CUresult result = primary_of(dev, &primary);
    if (result != CUDA_SUCCESS)
        return result;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    soft_lock();
    *flags = primary->flags;
    *active = primary->alive;
    soft_unlock();
    return CUDA_SUCCESS;
}

/* ---- created contexts ---- */

static CUresult push(struct context *context)
{
    if (depth == STACK_MOST)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    struct device *device;
    CUresult result = device_of(dev, &device);
    if (result != CUDA_SUCCESS)
        return result;
    if (!pctx || !flags_good(flags))
        return CUDA_ERROR_INVALID_VALUE;
    struct context *context = depth < STACK_MOST ? calloc(1, sizeof *context) : NULL;
    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->device = device;
    soft_lock();
    result = revive(context, flags);
    soft_unlock();
    if (result != CUDA_SUCCESS) {
        free(context);
        return result;
    }
    *pctx = (CUcontext)context;
    return push(context);
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
                        unsigned int flags, CUdevice dev)
{
    return numParams ? CUDA_ERROR_NOT_SUPPORTED : cuCtxCreate_v2(pctx, flags, dev);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
                        CUdevice dev)
{
    return ctxCreateParams ? CUDA_ERROR_NOT_SUPPORTED : cuCtxCreate_v2(pctx, flags, dev);
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    if (handle_kind_of(ctx) != HANDLE_CONTEXT || ((struct context *)ctx)->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    end((struct context *)ctx);
    if (context_current() == (struct context *)ctx)
        depth--;
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext ctx)
{
    return cuCtxDestroy_v2(ctx);
}

CUresult cuCtxDetach(CUcontext ctx)
{
    return cuCtxDestroy_v2(ctx); /* nobody can attach: there is one reference */
}

/* ---- current contexts ---- */

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    return handle_kind_of(ctx) == HANDLE_CONTEXT ? push((struct context *)ctx)
                                                 : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxPushCurrent(CUcontext ctx)
{
    return cuCtxPushCurrent_v2(ctx);
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (pctx)
        *pctx = (CUcontext)stack[depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *pctx)
{
    return cuCtxPopCurrent_v2(pctx);
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    if (ctx && handle_kind_of(ctx) != HANDLE_CONTEXT)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!depth)
        return ctx ? push((struct context *)ctx) : CUDA_SUCCESS;
    stack[depth - 1] = (struct context *)ctx;
    if (!ctx)
        depth--;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *pctx)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    *pctx = (CUcontext)context_current();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
    struct context *context;
    CUresult result = context_of(ctx, &context);
    if (result == CUDA_SUCCESS && !device)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *device = context->device->ordinal;
    return result;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    return cuCtxGetDevice_v2(device, NULL);
}

/* ---- what a context tells ---- */

CUresult cuCtxGetFlags(unsigned int *flags)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS && !flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *flags = context->flags;
    return result;
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    struct context *context;
    CUresult result = context_of(ctx, &context);
    if (result == CUDA_SUCCESS)
        result = capture_forbids_context(context);
    if (result == CUDA_SUCCESS)
        result = context_drain(context);
    for (struct context *part = contexts_first(); result == CUDA_SUCCESS && part; part = part->next)
        if (part->alive && part->whole == context)
            result = context_drain(part);
    if (result == CUDA_SUCCESS)
        pools_settle(context->device->ordinal);
    return result;
}

CUresult cuCtxSynchronize(void)
{
    return cuCtxSynchronize_v2(NULL);
}

static CUresult limit_known(CUlimit limit)
{
    if (limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    return (unsigned)limit < SOFT_LIMITS && standard_limits[limit] ? CUDA_SUCCESS
                                                                   : CUDA_ERROR_UNSUPPORTED_LIMIT;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = limit_known(limit);
    if (result == CUDA_SUCCESS)
        context->limits[limit] = value;
    return result;
}

CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!pvalue)
        return CUDA_ERROR_INVALID_VALUE;
    result = limit_known(limit);
    if (result == CUDA_SUCCESS)
        *pvalue = context->limits[limit];
    return result;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS && !pconfig)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *pconfig = CU_FUNC_CACHE_PREFER_NONE;
    return result;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    struct context *context;
    return context_enter(&context); /* a preference, and there is no cache */
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
    struct context *context;
    CUresult result = context_of(ctx, &context);
    if (result == CUDA_SUCCESS && !version)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *version = 3020;
    return result;
}

CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (leastPriority)
        *leastPriority = 0;
    if (greatestPriority)
        *greatestPriority = -5;
    return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void)
{
    struct context *context;
    return context_enter(&context);
}

CUresult cuProfilerStart(void)
{
    struct context *context;
    return context_enter(&context);
}

CUresult cuProfilerStop(void)
{
    struct context *context;
    return context_enter(&context);
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
    struct context *context;
    CUresult result = context_of(ctx, &context);
    if (result == CUDA_SUCCESS && !ctxId)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *ctxId = context->id;
    return result;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS && !flags_good(flags))
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        context->flags = flags;
    return result;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *pConfig)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS && !pConfig)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *pConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return result;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    struct context *context;
    return context_enter(&context); /* banks have one width, as since compute capability 5 */
}

/* ---- peers ---- */

/* The current context, and the bit of another device's. */
static CUresult peer_enter(CUcontext handle, struct context **out, unsigned *bit)
{
    struct context *peer;
    CUresult result = context_enter(out);
    if (result == CUDA_SUCCESS)
        result = handle_kind_of(handle) == HANDLE_CONTEXT ? context_of(handle, &peer)
                                                          : CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS && peer->device == (*out)->device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (result == CUDA_SUCCESS)
        *bit = 1u << peer->device->ordinal;
    return result;
}

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
    struct context *context;
    unsigned bit = 0;
    CUresult result = peer_enter(peerContext, &context, &bit);
    if (result != CUDA_SUCCESS)
        return result;
    if (Flags)
        return CUDA_ERROR_INVALID_VALUE;
    soft_lock();
    bool already = context->peers & bit;
    context->peers |= bit;
    soft_unlock();
    return already ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext)
{
    struct context *context;
    unsigned bit = 0;
    CUresult result = peer_enter(peerContext, &context, &bit);
    if (result != CUDA_SUCCESS)
        return result;
    soft_lock();
    bool enabled = context->peers & bit;
    context->peers &= ~bit;
    soft_unlock();
    return enabled ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
