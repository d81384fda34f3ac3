/* Calls on streams, but for creation of their queues and what they run (stream.c) and for capture
 * (capture.c). */
#include "graph.h"

#include <string.h>

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
    if (result == CUDA_SUCCESS)
        result = capture_blocks(stream);
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
    if (result == CUDA_SUCCESS)
        result = capture_blocks(stream);
    if (result != CUDA_SUCCESS)
        return result;
    struct op *op = op_create(sizeof *op);
    result = op ? op_submit(stream, op, true) : CUDA_ERROR_OUT_OF_MEMORY;
    pools_settle(stream->context->device->ordinal);
    return result;
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

CUresult host_make(CUhostFn function, void *data, struct op **out)
{
    struct callback_op *call = op_create(sizeof *call);
    if (!call)
        return CUDA_ERROR_OUT_OF_MEMORY;
    call->op.run = callback_run;
    call->function = function;
    call->data = data;
    *out = &call->op;
    return CUDA_SUCCESS;
}

static CUresult call_later(CUstream handle, bool per_thread, CUhostFn function, void *data)
{
    struct stream *stream;
    struct capture *capture = NULL;
    struct op *op;
    CUresult result = enter(handle, per_thread, &stream);
    if (result == CUDA_SUCCESS)
        result = function ? capture_of(stream, &capture) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && capture)
        return capture_host(stream, function, data);
    if (result == CUDA_SUCCESS)
        result = host_make(function, data, &op);
    return result == CUDA_SUCCESS ? op_submit(stream, op, false) : result;
}

/* Unlike a host function it runs after a fault, too, and is told the error; it is never captured.
 */
static CUresult call_back(CUstream handle, bool per_thread, CUstreamCallback callback, void *data,
                          unsigned flags)
{
    struct stream *stream;
    CUresult result = enter(handle, per_thread, &stream);
    if (result == CUDA_SUCCESS && (!callback || flags))
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = capture_refuses(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (result != CUDA_SUCCESS)
        return result;
    struct callback_op *call = op_create(sizeof *call);
    if (!call)
        return CUDA_ERROR_OUT_OF_MEMORY;
    call->op.run = callback_run;
    call->op.even_faulty = true;
    call->callback = callback;
    call->handle = handle;
    call->data = data;
    return op_submit(stream, &call->op, false);
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
    struct stream *stream;
    CUresult result = enter(handle, per_thread, &stream);
    if (result == CUDA_SUCCESS && green)
        *green = (CUgreenCtx)stream->context->green;
    return result == CUDA_SUCCESS && context ? get_context(handle, context, per_thread) : result;
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

static CUresult get_device(CUstream handle, CUdevice *device, bool per_thread)
{
    struct stream *stream;
    CUresult result = enter(handle, per_thread, &stream);
    if (result == CUDA_SUCCESS && device)
        *device = stream->context->device->ordinal;
    return result == CUDA_SUCCESS && !device ? CUDA_ERROR_INVALID_VALUE : result;
}

/* Attributes say how work is scheduled and cached, not what it does: kept, to be given back. */
static CUresult set_attribute(CUstream handle, CUstreamAttrID id, const CUstreamAttrValue *value,
                              bool per_thread)
{
    struct stream *stream;
    CUresult result = enter(handle, per_thread, &stream);
    if (result == CUDA_SUCCESS && !value)
        return CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    soft_lock();
    unsigned i = 0;
    while (i < stream->attribute_count && stream->attributes[i].id != id)
        i++;
    bool fits = i < sizeof stream->attributes / sizeof *stream->attributes;
    if (fits) {
        stream->attributes[i] = (CUlaunchAttribute){.id = id, .value = *value};
        stream->attribute_count += i == stream->attribute_count;
    }
    soft_unlock();
    return fits ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

/* One that was not set is 0. */
static CUresult get_attribute(CUstream handle, CUstreamAttrID id, CUstreamAttrValue *value,
                              bool per_thread)
{
    struct stream *stream;
    CUresult result = enter(handle, per_thread, &stream);
    if (result == CUDA_SUCCESS && !value)
        return CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    memset(value, 0, sizeof *value);
    soft_lock();
    if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        value->priority = stream->priority;
    for (unsigned i = 0; i < stream->attribute_count; i++)
        if (stream->attributes[i].id == id)
            *value = stream->attributes[i].value;
    soft_unlock();
    return CUDA_SUCCESS;
}

static CUresult copy_attributes(CUstream to_handle, CUstream from_handle, bool per_thread)
{
    struct stream *to, *from;
    CUresult result = enter(to_handle, per_thread, &to);
    if (result == CUDA_SUCCESS)
        result = enter(from_handle, per_thread, &from);
    if (result != CUDA_SUCCESS)
        return result;
    soft_lock();
    memmove(to->attributes, from->attributes, sizeof to->attributes);
    to->attribute_count = from->attribute_count;
    soft_unlock();
    return CUDA_SUCCESS;
}

/* Earlier work of the event, seen from here on. */
static CUresult wait_event(CUstream handle, CUevent event, unsigned flags, bool per_thread)
{
    struct stream *stream;
    CUresult result = enter(handle, per_thread, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (flags > CU_EVENT_WAIT_EXTERNAL) /* which means something under capture only */
        return CUDA_ERROR_INVALID_VALUE;
    bool captured;
    result = capture_wait(stream, event, flags == CU_EVENT_WAIT_EXTERNAL, &captured);
    if (result != CUDA_SUCCESS || captured)
        return result;
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

CALL(cuStreamQuery, _ptsz, (CUstream hStream), query(hStream, own))
CALL(cuStreamSynchronize, _ptsz, (CUstream hStream), synchronize(hStream, own))
CALL(cuStreamWaitEvent, _ptsz, (CUstream hStream, CUevent hEvent, unsigned int Flags),
     wait_event(hStream, hEvent, Flags, own))
CALL(cuStreamAddCallback, _ptsz,
     (CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags),
     call_back(hStream, own, callback, userData, flags))
CALL(cuLaunchHostFunc, _ptsz, (CUstream hStream, CUhostFn fn, void *userData),
     call_later(hStream, own, fn, userData))
CALL(cuStreamGetCtx, _ptsz, (CUstream hStream, CUcontext *pctx), get_context(hStream, pctx, own))
CALL(cuStreamGetCtx_v2, _ptsz, (CUstream hStream, CUcontext *pctx, CUgreenCtx *pGreenCtx),
     get_green(hStream, pctx, pGreenCtx, own))
CALL(cuStreamGetFlags, _ptsz, (CUstream hStream, unsigned int *flags),
     get_flags(hStream, flags, own))
CALL(cuStreamGetPriority, _ptsz, (CUstream hStream, int *priority),
     get_priority(hStream, priority, own))
CALL(cuStreamGetId, _ptsz, (CUstream hStream, unsigned long long *streamId),
     get_id(hStream, streamId, own))
CALL(cuStreamGetDevice, _ptsz, (CUstream hStream, CUdevice *device),
     get_device(hStream, device, own))
CALL(cuStreamSetAttribute, _ptsz,
     (CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value),
     set_attribute(hStream, attr, value, own))
CALL(cuStreamGetAttribute, _ptsz,
     (CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value_out),
     get_attribute(hStream, attr, value_out, own))
CALL(cuStreamCopyAttributes, _ptsz, (CUstream dst, CUstream src), copy_attributes(dst, src, own))
