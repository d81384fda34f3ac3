/* Stream capture: work that a program gives to a stream becomes nodes of a graph. A capture begins
 * and ends in one stream and spreads to others through events; a call that it cannot contain fails
 * and makes it void, by the rules that CUDA's manual gives for cuStreamBeginCapture and
 * cuThreadExchangeStreamCaptureMode.
 *
 * Which calls are "potentially unsafe" the manual does not list. Here: allocation and release of
 * memory that no stream orders, cuEventQuery (both as an H200 answered; to load code, and copies
 * that wait, it let pass), and to unload code. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

static struct capture *captures;  /* under way; guarded by the lock */
static struct graph *orphans[64]; /* to be destroyed without the lock */
static unsigned orphan_count;
static atomic_uint under_way; /* their number: 0 is the usual case, and cheap */
static _Thread_local CUstreamCaptureMode own_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* ---- the state of streams; callers hold the lock ---- */

bool capture_set_nodes(struct stream *stream, struct node *const *nodes, unsigned count)
{
    struct node **made = malloc((count + 1) * sizeof(struct node *));
    if (!made)
        return false;
    if (count)
        memcpy(made, nodes, count * sizeof(struct node *));
    free(stream->captured);
    stream->captured = made;
    stream->captured_count = count;
    return true;
}

bool capture_add_nodes(struct stream *stream, struct node *const *nodes, unsigned count)
{
    struct node **grown =
        realloc(stream->captured, (stream->captured_count + count + 1) * sizeof(struct node *));
    if (!grown)
        return false;
    stream->captured = grown;
    for (unsigned i = 0; i < count; i++) {
        unsigned j = 0;
        while (j < stream->captured_count && grown[j] != nodes[i])
            j++;
        if (j == stream->captured_count)
            grown[stream->captured_count++] = nodes[i];
    }
    return true;
}

static void leave(struct stream *stream)
{
    free(stream->captured);
    stream->captured = NULL;
    stream->captured_count = 0;
    stream->capture = NULL;
}

/* Calls `each` for the streams of a capture. */
static void detach(const struct capture *capture)
{
    for (struct context *c = contexts_all(); c; c = c->next)
        for (struct stream *s = c->streams; s; s = s->next_of_context)
            if (s->capture == capture)
                leave(s);
}

/* Takes it off the list; its graph, if it is to be destroyed, without the lock. */
static struct graph *finish(struct capture *capture, bool keep)
{
    struct capture **link = &captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    atomic_fetch_sub(&under_way, 1);
    detach(capture);
    struct graph *graph = keep || capture->lent ? NULL : capture->graph;
    free(capture);
    return graph;
}

void capture_forget(struct stream *stream)
{
    struct capture *capture = stream->capture;
    if (!capture)
        return;
    capture->invalid = true;
    if (capture->origin != stream) {
        leave(stream);
        return;
    }
    struct graph *graph = finish(capture, orphan_count == sizeof orphans / sizeof *orphans);
    if (graph)
        orphans[orphan_count++] = graph;
}

void capture_sweep(void)
{
    struct graph *graph;
    do {
        soft_lock();
        graph = orphan_count ? orphans[--orphan_count] : NULL;
        soft_unlock();
        graph_destroy(graph);
    } while (graph);
}

struct capture *capture_implied(const struct stream *stream)
{
    if (stream != stream->context->legacy)
        return NULL;
    for (struct stream *s = stream->context->streams; s; s = s->next_of_context)
        if (s->capture && !(s->flags & CU_STREAM_NON_BLOCKING))
            return s->capture;
    return NULL;
}

/* ---- what is refused ---- */

static CUresult void_implied(struct stream *stream)
{
    struct capture *capture = capture_implied(stream);
    if (capture)
        capture->invalid = true;
    return capture ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult capture_unsafe(void)
{
    if (!atomic_load_explicit(&under_way, memory_order_relaxed) ||
        own_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    soft_lock();
    for (struct capture *c = captures; c; c = c->next) {
        bool forbids = c->thread == thread_number() ? c->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                                                    : c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                                          own_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (!forbids || c->invalid)
            continue;
        c->invalid = true;
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    soft_unlock();
    return result;
}

CUresult capture_blocks(struct stream *stream)
{
    if (!atomic_load_explicit(&under_way, memory_order_relaxed))
        return CUDA_SUCCESS;
    soft_lock();
    CUresult result = void_implied(stream);
    if (stream->capture) {
        stream->capture->invalid = true;
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    soft_unlock();
    return result;
}

CUresult capture_forbids_context(struct context *context)
{
    if (!atomic_load_explicit(&under_way, memory_order_relaxed))
        return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    soft_lock();
    for (struct stream *s = context->streams; s; s = s->next_of_context)
        if (s->capture) {
            s->capture->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    soft_unlock();
    return result;
}

CUresult capture_of(struct stream *stream, struct capture **out)
{
    *out = NULL;
    if (!atomic_load_explicit(&under_way, memory_order_relaxed))
        return CUDA_SUCCESS;
    soft_lock();
    CUresult result = void_implied(stream);
    if (stream->capture && stream->capture->invalid)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else
        *out = stream->capture;
    soft_unlock();
    return result;
}

CUresult capture_refuses(struct stream *stream, CUresult error)
{
    struct capture *capture;
    CUresult result = capture_of(stream, &capture);
    if (result != CUDA_SUCCESS || !capture)
        return result;
    soft_lock();
    if (stream->capture) /* another thread may have ended it */
        stream->capture->invalid = true;
    soft_unlock();
    return error;
}

/* ---- what becomes a node ---- */

/* Consumes values. */
static CUresult add(struct stream *stream, struct node *values, CUresult filled)
{
    struct node *node;
    if (filled != CUDA_SUCCESS)
        return filled;
    soft_lock();
    struct capture *capture = stream->capture; /* this thread's calls put it there */
    CUresult result =
        capture ? node_add(capture->graph, values->type, (const CUgraphNode *)stream->captured,
                           stream->captured_count, &node)
                : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (result == CUDA_SUCCESS && !capture_set_nodes(stream, &node, 1))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS)
        payload_move(node, values);
    soft_unlock();
    if (result != CUDA_SUCCESS)
        payload_free(values);
    return result;
}

CUresult capture_kernel(struct stream *stream, void *handle, struct function *function,
                        const struct launch_shape *shape, void **params, void **extra)
{
    struct node values = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    return add(stream, &values, kernel_store(&values, handle, function, shape, params, extra));
}

CUresult capture_copy(struct stream *stream, const struct copy *copy)
{
    struct node values = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    uint64_t to_pitch = copy->to.pitch, from_pitch = copy->from.pitch;
    values.copy.context = stream->context;
    values.copy.asked = (CUDA_MEMCPY3D){
        .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
        .srcDevice = copy->from.address,
        .srcPitch = from_pitch,
        .srcHeight = from_pitch ? copy->from.slice / from_pitch : 0,
        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
        .dstDevice = copy->to.address,
        .dstPitch = to_pitch,
        .dstHeight = to_pitch ? copy->to.slice / to_pitch : 0,
        .WidthInBytes = copy->width,
        .Height = copy->height,
        .Depth = copy->depth,
    };
    return add(stream, &values, CUDA_SUCCESS);
}

CUresult capture_fill(struct stream *stream, const struct fill *fill)
{
    struct node values = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    values.fill.fill = *fill;
    values.fill.context = stream->context;
    return add(stream, &values, CUDA_SUCCESS);
}

CUresult capture_host(struct stream *stream, CUhostFn function, void *data)
{
    struct node values = {.type = CU_GRAPH_NODE_TYPE_HOST};
    values.host.function = function;
    values.host.data = data;
    return add(stream, &values, CUDA_SUCCESS);
}

static CUresult capture_event(struct stream *stream, CUgraphNodeType type, CUevent event)
{
    struct node values = {.type = type};
    values.event = event;
    return add(stream, &values, CUDA_SUCCESS);
}

/* ---- events ---- */

CUresult capture_record(struct stream *stream, CUevent event, bool external)
{
    if (external)
        return capture_event(stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
    soft_lock();
    struct event_mark *mark = event_mark(event);
    struct node **nodes = malloc((stream->captured_count + 1) * sizeof(struct node *));
    CUresult result = mark && stream->capture ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    if (!nodes)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS) {
        if (stream->captured_count)
            memcpy(nodes, stream->captured, stream->captured_count * sizeof(struct node *));
        free(mark->nodes);
        *mark = (struct event_mark){stream->capture->number, nodes, stream->captured_count};
    } else {
        free(nodes);
    }
    soft_unlock();
    return result;
}

static struct capture *capture_numbered(uint64_t number)
{
    struct capture *capture = captures;
    while (capture && capture->number != number)
        capture = capture->next;
    return capture;
}

/* The stream goes on after what the event marks, and so into its capture. */
static CUresult join(struct stream *stream, const struct event_mark *mark)
{
    struct capture *capture = capture_numbered(mark->capture);
    if (!capture)
        return CUDA_ERROR_CAPTURED_EVENT; /* of a capture that has ended */
    if (capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->capture && stream->capture != capture) {
        stream->capture->invalid = capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (stream == stream->context->legacy) {
        capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!capture_add_nodes(stream, mark->nodes, mark->count))
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->capture = capture;
    return CUDA_SUCCESS;
}

CUresult capture_wait(struct stream *stream, CUevent event, bool external, bool *handled)
{
    struct capture *capture;
    *handled = false;
    if (!atomic_load_explicit(&under_way, memory_order_relaxed) && !event_captured(event))
        return CUDA_SUCCESS;
    CUresult result = capture_of(stream, &capture);
    if (result != CUDA_SUCCESS)
        return result;
    if (capture && external) {
        *handled = true;
        return capture_event(stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
    }
    soft_lock();
    const struct event_mark *mark = event_mark(event);
    if (!mark) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (mark->capture) {
        *handled = true;
        result = join(stream, mark);
    } else if (capture) {
        *handled = true;
        if (event_recorded(event)) { /* else there is nothing to wait for */
            if (stream->capture)
                stream->capture->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
        }
    }
    soft_unlock();
    return result;
}

/* ---- beginning and end ---- */

CUresult capture_stream(CUstream handle, bool per_thread, struct stream **out)
{
    struct context *context;
    CUresult result = context_enter(&context);
    return result == CUDA_SUCCESS ? stream_of(context, handle, per_thread, out) : result;
}

/* graph: NULL for one of the capture's own. Consumes it on failure if it is not lent. */
static CUresult begin(struct stream *stream, CUstreamCaptureMode mode, struct graph *graph,
                      bool lent, const CUgraphNode *after, size_t count)
{
    static uint64_t last;
    struct capture *capture = calloc(1, sizeof *capture);
    CUresult result = CUDA_SUCCESS;
    soft_lock();
    if (stream == stream->context->legacy)
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    else if (stream->capture)
        result = CUDA_ERROR_ILLEGAL_STATE;
    else if (!capture || !graph ||
             !capture_set_nodes(stream, (struct node *const *)after, (unsigned)count))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS) {
        *capture = (struct capture){.number = ++last,
                                    .graph = graph,
                                    .lent = lent,
                                    .mode = mode,
                                    .origin = stream,
                                    .thread = thread_number(),
                                    .next = captures};
        captures = stream->capture = capture;
        atomic_fetch_add(&under_way, 1);
    }
    soft_unlock();
    if (result != CUDA_SUCCESS) {
        free(capture);
        if (!lent)
            graph_destroy(graph);
    }
    return result;
}

static CUresult begin_own(CUstream handle, CUstreamCaptureMode mode, bool per_thread)
{
    struct stream *stream;
    CUresult result = capture_stream(handle, per_thread, &stream);
    if (result == CUDA_SUCCESS && mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    return result == CUDA_SUCCESS ? begin(stream, mode, graph_create(), false, NULL, 0) : result;
}

static CUresult begin_to(CUstream handle, CUgraph graph_handle, const CUgraphNode *after,
                         size_t count, CUstreamCaptureMode mode, bool per_thread)
{
    struct stream *stream;
    struct graph *graph = graph_of(graph_handle);
    CUresult result = capture_stream(handle, per_thread, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!graph || mode > CU_STREAM_CAPTURE_MODE_RELAXED || (count && !after))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (!node_of(after[i]) || node_of(after[i])->graph != graph)
            return CUDA_ERROR_INVALID_VALUE;
    return begin(stream, mode, graph, true, after, count);
}

/* Whether node is one of the list or comes before one. */
static bool reached(const struct node *node, struct node *const *list, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (list[i] == node || reached(node, list[i]->after, list[i]->after_count))
            return true;
    return false;
}

static bool joined(const struct capture *capture)
{
    const struct stream *origin = capture->origin;
    for (struct context *c = contexts_all(); c; c = c->next)
        for (struct stream *s = c->streams; s; s = s->next_of_context)
            for (unsigned i = 0; s->capture == capture && i < s->captured_count; i++)
                if (!reached(s->captured[i], origin->captured, origin->captured_count))
                    return false;
    return true;
}

static CUresult end(CUstream handle, CUgraph *out, bool per_thread)
{
    struct stream *stream;
    struct graph *ended = NULL;
    CUresult result = capture_stream(handle, per_thread, &stream);
    if (result == CUDA_SUCCESS && !out)
        return CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    *out = NULL;
    soft_lock();
    struct capture *capture = stream->capture;
    if (!capture)
        result = CUDA_ERROR_ILLEGAL_STATE;
    else if (capture->origin != stream)
        result = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    else if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != thread_number())
        result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (capture && result != CUDA_SUCCESS)
        capture->invalid = true; /* as on the H200: the attempt is the end of it */
    if (result == CUDA_SUCCESS) {
        struct graph *graph = capture->graph;
        result = capture->invalid   ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                 : !joined(capture) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                    : CUDA_SUCCESS;
        ended = finish(capture, result == CUDA_SUCCESS);
        if (result == CUDA_SUCCESS)
            *out = (CUgraph)graph;
    }
    soft_unlock();
    graph_destroy(ended);
    return result;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = own_mode;
    own_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

CALL(cuStreamBeginCapture, _ptsz, (CUstream hStream),
     begin_own(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL, own))
CALL(cuStreamBeginCapture_v2, _ptsz, (CUstream hStream, CUstreamCaptureMode mode),
     begin_own(hStream, mode, own))
CALL(cuStreamBeginCaptureToGraph, _ptsz,
     (CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
      const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode),
     begin_to(hStream, hGraph, dependencies, numDependencies, mode, own))
CALL(cuStreamEndCapture, _ptsz, (CUstream hStream, CUgraph *phGraph), end(hStream, phGraph, own))
