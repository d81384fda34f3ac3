/* Calls on streams, but for creation of their queues and what they run: see stream.c. Graph capture
 * is not there: no stream is ever capturing, and to begin is refused. */
#include "soft.h"

CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!phStream || flags > CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    struct stream *stream;
    priority = priority < -5 ? -5 : priority > 0 ? 0 : priority;
    soft_lock();
    result = stream_create(context, flags, priority, &stream);
    soft_unlock();
    if (result == CUDA_SUCCESS)
        *phStream = (CUstream)stream;
    return result;
}

CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
    return cuStreamCreateWithPriority(phStream, Flags, 0);
}

static CUresult enter(CUstream handle, bool per_thread, struct stream **out)
{
    struct context *context;
    CUresult result = context_enter(&context);
    return result == CUDA_SUCCESS ? stream_of(context, handle, per_thread, out) : result;
}

/* A stream is idle when the last operation queued is done; what precedes it is then done, too. */
static CUresult query(CUstream handle, bool per_thread)
{
    struct stream *stream;
    CUresult result = enter(handle, per_thread, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    soft_lock();
    bool busy = stream->tail && !stream->tail->done;
    if (!busy)
        clock_host_saw(stream->end);
    result = stream->context->fault != CUDA_SUCCESS ? stream->context->fault
             : busy                                 ? CUDA_ERROR_NOT_READY
                                                    : CUDA_SUCCESS;
    soft_unlock();
    return result;
}

/* An empty operation at the end: for the default stream it waits for the others as well. */
static CUresult synchronize(CUstream handle, bool per_thread)
{
    struct stream *stream;
    CUresult result = enter(handle, per_thread, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    struct op *op = op_create(sizeof *op);
    return op ? op_submit(stream, op, true) : CUDA_ERROR_OUT_OF_MEMORY;
}

struct callback_op {
    struct op op;
    CUhostFn function;
    CUstreamCallback callback;
    CUstream handle;
    void *data;
};

static CUresult callback_run(struct op *op)
{
    struct callback_op *call = (struct callback_op *)op;
    if (call->function)
        call->function(call->data);
    else
        call->callback(call->handle, op->stream->context->fault, call->data);
    return CUDA_SUCCESS;
}

static CUresult call_later(CUstream handle, bool per_thread, CUhostFn function,
                           CUstreamCallback callback, void *data)
{
    struct stream *stream;
    CUresult result = enter(handle, per_thread, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!function && !callback)
        return CUDA_ERROR_INVALID_VALUE;
    struct callback_op *call = op_create(sizeof *call);
    if (!call)
        return CUDA_ERROR_OUT_OF_MEMORY;
    call->op.run = callback_run;
    call->op.even_faulty = callback != NULL; /* it is told the error; a host function is not */
    call->function = function;
    call->callback = callback;
    call->handle = handle;
    call->data = data;
    return op_submit(stream, &call->op, false);
}

static CUresult capture_info(CUstream handle, CUstreamCaptureStatus *status, bool per_thread)
{
    struct stream *stream;
    CUresult result = enter(handle, per_thread, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

static CUresult get_context(CUstream handle, CUcontext *context, bool per_thread)
{
    struct stream *stream;
    CUresult result = enter(handle, per_thread, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    *context = (CUcontext)stream->context;
    return CUDA_SUCCESS;
}

static CUresult get_green(CUstream handle, CUcontext *context, CUgreenCtx *green, bool per_thread)
{
    if (green)
        *green = NULL;
    return get_context(handle, context, per_thread);
}

static CUresult get_flags(CUstream handle, unsigned *flags, bool per_thread)
{
    struct stream *stream;
    CUresult result = enter(handle, per_thread, &stream);
    if (result == CUDA_SUCCESS && flags)
        *flags = stream->flags;
    return result == CUDA_SUCCESS && !flags ? CUDA_ERROR_INVALID_VALUE : result;
}

static CUresult get_priority(CUstream handle, int *priority, bool per_thread)
{
    struct stream *stream;
    CUresult result = enter(handle, per_thread, &stream);
    if (result == CUDA_SUCCESS && priority)
        *priority = stream->priority;
    return result == CUDA_SUCCESS && !priority ? CUDA_ERROR_INVALID_VALUE : result;
}

static CUresult get_id(CUstream handle, unsigned long long *id, bool per_thread)
{
    struct stream *stream;
    CUresult result = enter(handle, per_thread, &stream);
    if (result == CUDA_SUCCESS && id)
        *id = stream->id;
    return result == CUDA_SUCCESS && !id ? CUDA_ERROR_INVALID_VALUE : result;
}

static CUresult begin_capture(CUstream handle, bool per_thread)
{
    struct stream *stream;
    CUresult result = enter(handle, per_thread, &stream);
    return result == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : result;
}

static CUresult end_capture(CUstream handle, CUgraph *graph, bool per_thread)
{
    struct stream *stream;
    CUresult result = enter(handle, per_thread, &stream);
    if (result == CUDA_SUCCESS && graph)
        *graph = NULL;
    return result == CUDA_SUCCESS ? CUDA_ERROR_ILLEGAL_STATE : result;
}

/* Earlier work of the event, seen from here on. */
static CUresult wait_event(CUstream handle, CUevent event, unsigned flags, bool per_thread)
{
    struct stream *stream;
    CUresult result = enter(handle, per_thread, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (flags > 1) /* CU_EVENT_WAIT_EXTERNAL means something under capture only */
        return CUDA_ERROR_INVALID_VALUE;
    struct op *op = op_create(sizeof *op);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    soft_lock();
    result = event_order(op, event);
    if (result != CUDA_SUCCESS)
        op_release(op);
    soft_unlock();
    return result == CUDA_SUCCESS ? op_submit(stream, op, false) : result;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    static _Thread_local CUstreamCaptureMode own = CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = own;
    own = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

CALL(cuStreamQuery, _ptsz, (CUstream hStream), query(hStream, own))
CALL(cuStreamSynchronize, _ptsz, (CUstream hStream), synchronize(hStream, own))
CALL(cuStreamWaitEvent, _ptsz, (CUstream hStream, CUevent hEvent, unsigned int Flags),
     wait_event(hStream, hEvent, Flags, own))
CALL(cuStreamAddCallback, _ptsz,
     (CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags),
     flags ? CUDA_ERROR_INVALID_VALUE : call_later(hStream, own, NULL, callback, userData))
CALL(cuLaunchHostFunc, _ptsz, (CUstream hStream, CUhostFn fn, void *userData),
     call_later(hStream, own, fn, NULL, userData))
CALL(cuStreamGetCtx, _ptsz, (CUstream hStream, CUcontext *pctx), get_context(hStream, pctx, own))
CALL(cuStreamGetCtx_v2, _ptsz, (CUstream hStream, CUcontext *pctx, CUgreenCtx *pGreenCtx),
     get_green(hStream, pctx, pGreenCtx, own))
CALL(cuStreamGetFlags, _ptsz, (CUstream hStream, unsigned int *flags),
     get_flags(hStream, flags, own))
CALL(cuStreamGetPriority, _ptsz, (CUstream hStream, int *priority),
     get_priority(hStream, priority, own))
CALL(cuStreamGetId, _ptsz, (CUstream hStream, unsigned long long *streamId),
     get_id(hStream, streamId, own))
CALL(cuStreamIsCapturing, _ptsz, (CUstream hStream, CUstreamCaptureStatus *captureStatus),
     capture_info(hStream, captureStatus, own))
CALL(cuStreamBeginCapture, _ptsz, (CUstream hStream), begin_capture(hStream, own))
CALL(cuStreamBeginCapture_v2, _ptsz, (CUstream hStream, CUstreamCaptureMode mode),
     begin_capture(hStream, own))
CALL(cuStreamEndCapture, _ptsz, (CUstream hStream, CUgraph *phGraph),
     end_capture(hStream, phGraph, own))
CALL(cuStreamGetCaptureInfo, _ptsz,
     (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out),
     capture_info(hStream, captureStatus_out, own))
CALL(cuStreamGetCaptureInfo_v2, _ptsz,
     (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
      CUgraph *graph_out, const CUgraphNode **dependencies_out, size_t *numDependencies_out),
     capture_info(hStream, captureStatus_out, own))
CALL(cuStreamGetCaptureInfo_v3, _ptsz,
     (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
      CUgraph *graph_out, const CUgraphNode **dependencies_out,
      const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out),
     capture_info(hStream, captureStatus_out, own))
