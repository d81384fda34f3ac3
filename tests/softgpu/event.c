/* Events: each holds the operation that its last record queued; done when that is done, at the
 * model time at which it ended. */
#include "graph.h"

#include <stdlib.h>

struct event {
    struct context *context;
    unsigned flags;
    struct op *op; /* NULL: never recorded, which counts as done */
    struct event_mark mark;
    struct event *next;
};

static struct event *event_of(CUevent handle)
{
    return handle_kind_of(handle) == HANDLE_EVENT ? (struct event *)handle : NULL;
}

CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    bool shared = Flags & CU_EVENT_INTERPROCESS;
    if (!phEvent ||
        Flags > (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS) ||
        (shared && !(Flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    if (shared)
        return CUDA_ERROR_NOT_SUPPORTED; /* no other process sees this device's time */
    struct event *event = calloc(1, sizeof *event);
    if (!event || !handle_add(event, HANDLE_EVENT)) {
        free(event);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    event->context = context;
    event->flags = Flags;
    soft_lock();
    event->next = context->events;
    context->events = event;
    soft_unlock();
    *phEvent = (CUevent)event;
    return CUDA_SUCCESS;
}

static void forget(struct event *event)
{
    struct event **link = &event->context->events;
    while (*link != event)
        link = &(*link)->next;
    *link = event->next;
    handle_remove(event);
    op_release(event->op);
    free(event->mark.nodes);
    free(event);
}

void event_forget_all(struct context *context)
{
    while (context->events)
        forget(context->events);
}

CUresult cuEventDestroy_v2(CUevent hEvent)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    struct event *event = event_of(hEvent);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    soft_lock();
    forget(event);
    soft_unlock();
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent hEvent)
{
    return cuEventDestroy_v2(hEvent);
}

CUresult event_order(struct op *op, CUevent handle)
{
    struct event *event = event_of(handle);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    op_after(op, event->op);
    return CUDA_SUCCESS;
}

struct event_mark *event_mark(CUevent handle)
{
    struct event *event = event_of(handle);
    return event ? &event->mark : NULL;
}

bool event_recorded(CUevent handle)
{
    const struct event *event = event_of(handle);
    return event && event->op;
}

bool event_captured(CUevent handle)
{
    soft_lock();
    const struct event *event = event_of(handle);
    bool captured = event && event->mark.capture;
    soft_unlock();
    return captured;
}

/* The event waits for op from now on. Caller holds the lock. */
static void hold(struct event *event, struct op *op)
{
    op->references++;
    op_release(event->op);
    event->op = op;
    event->mark.capture = 0;
}

CUresult event_promise(CUevent handle, struct stream *stream, struct op **out)
{
    struct op *op = op_create(sizeof *op);
    struct event *event = event_of(handle);
    if (!op || !event) {
        free(op);
        return op ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_OUT_OF_MEMORY;
    }
    op->stream = stream;
    soft_lock();
    hold(event, op);
    soft_unlock();
    *out = op;
    return CUDA_SUCCESS;
}

/* flags: CU_EVENT_RECORD_EXTERNAL means something under capture only. */
static CUresult record(CUevent handle, CUstream stream_handle, unsigned flags, bool per_thread)
{
    struct context *context;
    struct stream *stream;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = stream_of(context, stream_handle, per_thread, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    struct event *event = event_of(handle);
    if (!event || event->context != stream->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags > CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    struct capture *capture;
    result = capture_of(stream, &capture);
    if (result == CUDA_SUCCESS && capture)
        return capture_record(stream, handle, flags == CU_EVENT_RECORD_EXTERNAL);
    if (result != CUDA_SUCCESS)
        return result;
    struct op *op = op_create(sizeof *op);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    soft_lock();
    hold(event, op);
    soft_unlock();
    return op_submit(stream, op, false);
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
    return record(hEvent, hStream, 0, false);
}

CUresult cuEventRecord_ptsz(CUevent hEvent, CUstream hStream)
{
    return record(hEvent, hStream, 0, true);
}

CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    return record(hEvent, hStream, flags, false);
}

CUresult cuEventRecordWithFlags_ptsz(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    return record(hEvent, hStream, flags, true);
}

static CUresult enter(CUevent handle, struct event **out)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    *out = event_of(handle);
    if (*out && event_captured(handle))
        return CUDA_ERROR_CAPTURED_EVENT;
    return *out ? (*out)->context->fault : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventQuery(CUevent hEvent)
{
    struct event *event;
    CUresult result = enter(hEvent, &event);
    if (result == CUDA_SUCCESS)
        result = capture_unsafe();
    if (result != CUDA_SUCCESS)
        return result;
    soft_lock();
    if (event->op && !event->op->done)
        result = CUDA_ERROR_NOT_READY;
    else if (event->op)
        clock_host_saw(event->op->end);
    if (event->context->fault != CUDA_SUCCESS)
        result = event->context->fault;
    soft_unlock();
    return result;
}

CUresult cuEventSynchronize(CUevent hEvent)
{
    struct event *event;
    CUresult result = enter(hEvent, &event);
    if (result != CUDA_SUCCESS)
        return result;
    soft_lock();
    if (event->op)
        result = op_wait(event->op, event->context);
    int device = event->context->device->ordinal;
    soft_unlock();
    pools_settle(device);
    return result;
}

CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    struct event *start, *end;
    CUresult result = enter(hStart, &start);
    if (result == CUDA_SUCCESS)
        result = enter(hEnd, &end);
    if (result != CUDA_SUCCESS)
        return result;
    if (!pMilliseconds)
        return CUDA_ERROR_INVALID_VALUE;
    soft_lock();
    if (start->context->device != end->context->device)
        result = CUDA_ERROR_INVALID_HANDLE;
    else if (!start->op || !end->op || ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
        result = CUDA_ERROR_INVALID_HANDLE;
    else if (!start->op->done || !end->op->done)
        result = CUDA_ERROR_NOT_READY;
    else
        *pMilliseconds = (float)(((double)end->op->end - (double)start->op->end) / 1e9);
    soft_unlock();
    return result;
}

CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}
