/* Stream capture on the software GPU: what becomes a graph, how captures spread and join, and which
 * calls are refused, by the modes of captures and threads. */
#include "softgpu/soft_test.h"

#include <pthread.h>

enum { N = 256 };

static CUfunction vadd;
static CUcontext context;
static struct vadd v;

static CUstreamCaptureStatus status_of(CUstream stream)
{
    CUstreamCaptureStatus status = 9;
    OK(cu.cuStreamIsCapturing(stream, &status));
    return status;
}

static CUstream stream_new(unsigned flags)
{
    CUstream stream;
    OK(cu.cuStreamCreate(&stream, flags));
    return stream;
}

static void begin(CUstream stream, CUstreamCaptureMode mode)
{
    OK(cu.cuStreamBeginCapture_v2(stream, mode));
    CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
}

/* Ends a capture that has been made void. */
static void voided(CUstream stream)
{
    CUgraph graph = (CUgraph)&graph;
    CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, vadd_launch(vadd, &v, stream));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(stream, &graph));
    CHECK(!graph && status_of(stream) == CU_STREAM_CAPTURE_STATUS_NONE);
}

static size_t node_count(CUgraph graph)
{
    size_t count = 0;
    OK(cu.cuGraphGetNodes(graph, NULL, &count));
    return count;
}

static int calls;

static void count_call(void *data)
{
    calls += *(int *)data;
}

/* Every kind of work in one stream; nothing runs before the graph is launched. */
static void simple(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    float out[N] = {0}, in[N];
    int one = 1;
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr spare;
    for (int i = 0; i < N; i++)
        in[i] = (float)i;
    OK(cu.cuMemAlloc_v2(&spare, 64 * 64));
    begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cu.cuMemcpyHtoDAsync_v2(v.a, in, sizeof in, stream));
    OK(cu.cuMemsetD32Async(v.c, 0x40000000, N, stream));
    OK(cu.cuMemsetD2D16Async(spare, 64, 0x1234, 3, 5, stream));
    OK(vadd_launch(vadd, &v, stream));
    OK(cu.cuLaunchHostFunc(stream, count_call, &one));
    OK(cu.cuMemcpyDtoHAsync_v2(out, v.c, sizeof out, stream));
    calls = 0;
    OK(cu.cuStreamEndCapture(stream, &graph));
    CHECK(calls == 0 && out[1] == 0 && node_count(graph) == 6);
    size_t edges = 0;
    OK(cu.cuGraphGetEdges(graph, NULL, NULL, &edges));
    CHECK(edges == 5); /* in a row */
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; i++) {
        memset(out, 0, sizeof out);
        in[2] = (float)(10 * i); /* read when it runs */
        OK(cu.cuGraphLaunch(exec, stream));
        OK(cu.cuStreamSynchronize(stream));
        CHECK(out[1] == 4 && out[2] == (float)(10 * i + 5) && calls == i + 1);
    }
    in[2] = 2;
    OK(cu.cuMemcpyHtoD_v2(v.a, in, sizeof in));
    unsigned short plane[4 * 32 + 3];
    OK(cu.cuMemcpyDtoH_v2(plane, spare, sizeof plane));
    CHECK(plane[0] == 0x1234 && plane[4 * 32 + 2] == 0x1234 && plane[3] != 0x1234);
    OK(cu.cuGraphExecDestroy(exec));
    OK(cu.cuGraphDestroy(graph));
    OK(cu.cuMemFree_v2(spare));
    OK(cu.cuStreamDestroy_v2(stream));
}

/* Events carry a capture to other streams, and must bring it back. */
static void forks(void)
{
    CUstream origin = stream_new(CU_STREAM_NON_BLOCKING), side = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent fork, join;
    CUgraph graph, inside;
    cuuint64_t id = 0, other = 1;
    const CUgraphNode *after;
    const CUgraphEdgeData *data;
    size_t count = 0;
    int one = 1;
    OK(cu.cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    OK(cu.cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    begin(origin, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    OK(cu.cuMemsetD8Async(v.c, 0, 4, origin));
    OK(cu.cuEventRecord(fork, origin));
    OK(cu.cuStreamWaitEvent(side, fork, 0));
    CHECK(status_of(side) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(vadd_launch(vadd, &v, side));
    OK(cu.cuLaunchHostFunc(origin, count_call, &one));
    CUstreamCaptureStatus status;
    OK(cu.cuStreamGetCaptureInfo(side, &status, &other));
    OK(cu.cuStreamGetCaptureInfo_v3(origin, &status, &id, &inside, &after, &data, &count));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id == other && count == 1 && after[0] &&
          node_count(inside) == 3);
    OK(cu.cuEventRecord(join, side));
    OK(cu.cuStreamWaitEvent(origin, join, 0));
    OK(cu.cuStreamGetCaptureInfo_v2(origin, &status, &id, &inside, &after, &count));
    CHECK(count == 2); /* what follows comes after both */
    OK(cu.cuLaunchHostFunc(origin, count_call, &one));
    GIVES(CUDA_ERROR_CAPTURED_EVENT, cu.cuEventQuery(fork));
    GIVES(CUDA_ERROR_CAPTURED_EVENT, cu.cuEventSynchronize(fork));
    OK(cu.cuStreamEndCapture(origin, &graph));
    CHECK(node_count(graph) == 4 && status_of(side) == CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cu.cuGraphDestroy(graph));
    GIVES(CUDA_ERROR_CAPTURED_EVENT, cu.cuEventQuery(fork)); /* until it is recorded anew */
    OK(cu.cuEventRecord(fork, origin));
    OK(cu.cuEventSynchronize(fork));

    begin(origin, CU_STREAM_CAPTURE_MODE_RELAXED); /* ended in another stream */
    OK(cu.cuEventRecord(fork, origin));
    OK(cu.cuStreamWaitEvent(side, fork, 0));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cu.cuStreamEndCapture(side, &graph));
    voided(origin);

    begin(origin, CU_STREAM_CAPTURE_MODE_RELAXED); /* never joined */
    OK(cu.cuEventRecord(fork, origin));
    OK(cu.cuStreamWaitEvent(side, fork, 0));
    OK(vadd_launch(vadd, &v, side));
    graph = (CUgraph)&graph;
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cu.cuStreamEndCapture(origin, &graph));
    CHECK(!graph && status_of(origin) == CU_STREAM_CAPTURE_STATUS_NONE);

    begin(origin, CU_STREAM_CAPTURE_MODE_RELAXED); /* two captures do not become one */
    begin(side, CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cu.cuEventRecord(fork, origin));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_MERGE, cu.cuStreamWaitEvent(side, fork, 0));
    voided(origin);
    voided(side);

    OK(cu.cuEventRecord(join, side)); /* outside */
    begin(origin, CU_STREAM_CAPTURE_MODE_RELAXED);
    GIVES(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cu.cuStreamWaitEvent(origin, join, 0));
    voided(origin);
    OK(cu.cuEventDestroy_v2(fork));
    OK(cu.cuEventDestroy_v2(join));
    OK(cu.cuStreamDestroy_v2(side));
    OK(cu.cuStreamDestroy_v2(origin));
}

static void external_events(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent event;
    CUgraph graph;
    CUgraphExec exec;
    OK(cu.cuEventCreate(&event, 0));
    OK(cu.cuEventRecord(event, stream));
    begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cu.cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_EXTERNAL));
    OK(vadd_launch(vadd, &v, stream));
    OK(cu.cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_EXTERNAL));
    OK(cu.cuStreamEndCapture(stream, &graph));
    CHECK(node_count(graph) == 3);
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuMemsetD8_v2(v.c, 0, 4));
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuEventSynchronize(event));
    CHECK(vadd_wrong(&v) == 0);
    OK(cu.cuGraphExecDestroy(exec));
    OK(cu.cuGraphDestroy(graph));
    OK(cu.cuEventDestroy_v2(event));
    OK(cu.cuStreamDestroy_v2(stream));
}

/* Calls that cannot be part of a capture, or wait for what is captured. */
static void conflicts(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING), blocking = stream_new(CU_STREAM_DEFAULT);
    CUgraph graph;
    GIVES(CUDA_ERROR_ILLEGAL_STATE, cu.cuStreamEndCapture(stream, &graph));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamBeginCapture_v2(NULL, 0));
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    GIVES(CUDA_ERROR_ILLEGAL_STATE, cu.cuStreamBeginCapture_v2(stream, 0));
    OK(cu.cuStreamEndCapture(stream, &graph));
    OK(cu.cuGraphDestroy(graph));

    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamSynchronize(stream));
    voided(stream);
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuStreamQuery(stream));
    voided(stream);
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuCtxSynchronize());
    voided(stream);
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          cu.cuStreamAddCallback(stream, (CUstreamCallback)(void *)count_call, NULL, 0));
    voided(stream);
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    CUdeviceptr memory;
    GIVES(CUDA_ERROR_NOT_SUPPORTED,
          cu.cuMemAllocAsync(&memory, 100, stream)); /* such nodes are not there */
    voided(stream);

    /* the default stream waits for blocking streams alone */
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cu.cuMemsetD8Async(v.c, 0, 4, NULL));
    OK(cu.cuStreamEndCapture(stream, &graph));
    OK(cu.cuGraphDestroy(graph));
    begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
    CUstreamCaptureStatus status;
    GIVES(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cu.cuStreamIsCapturing(NULL, &status));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cu.cuMemsetD8Async(v.c, 0, 4, NULL));
    voided(blocking);
    begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
    GIVES(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, vadd_launch(vadd, &v, NULL));
    voided(blocking);
    OK(cu.cuStreamDestroy_v2(stream));
    begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cu.cuStreamDestroy_v2(blocking)); /* with its capture */
    OK(cu.cuCtxSynchronize());
}

/* ---- potentially unsafe calls ---- */

static CUresult allocate(void)
{
    CUdeviceptr memory;
    CUresult result = cu.cuMemAlloc_v2(&memory, 100);
    if (result == CUDA_SUCCESS)
        result = cu.cuMemFree_v2(memory);
    return result;
}

struct elsewhere {
    CUstreamCaptureMode mode;
    CUresult result;
};

static void *allocate_elsewhere(void *argument)
{
    struct elsewhere *self = argument;
    CUstreamCaptureMode mode = self->mode;
    self->result = cu.cuCtxSetCurrent(context);
    if (self->result == CUDA_SUCCESS)
        self->result = cu.cuThreadExchangeStreamCaptureMode(&mode);
    if (self->result == CUDA_SUCCESS)
        self->result = allocate();
    return NULL;
}

/* The same in another thread, which is in this mode. */
static CUresult elsewhere(CUstreamCaptureMode mode)
{
    struct elsewhere self = {mode, CUDA_ERROR_UNKNOWN};
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, allocate_elsewhere, &self));
    CHECK(!pthread_join(thread, NULL));
    return self.result;
}

#define GLOBAL CU_STREAM_CAPTURE_MODE_GLOBAL
#define LOCAL CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
#define RELAXED CU_STREAM_CAPTURE_MODE_RELAXED

static void modes(void)
{
    static const struct {
        CUstreamCaptureMode capture, thread;
        bool here, there; /* refused in the capturing thread; in another one */
    } rows[] = {
        {GLOBAL, GLOBAL, true, true},     {GLOBAL, LOCAL, true, false},
        {GLOBAL, RELAXED, false, false},  {LOCAL, GLOBAL, true, false},
        {LOCAL, LOCAL, true, false},      {LOCAL, RELAXED, false, false},
        {RELAXED, GLOBAL, false, false},  {RELAXED, LOCAL, false, false},
        {RELAXED, RELAXED, false, false},
    };
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUgraph graph;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CUstreamCaptureMode mode = rows[i].thread;
        OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
        begin(stream, rows[i].capture);
        CHECK((elsewhere(rows[i].thread) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) ==
              rows[i].there);
        if (rows[i].there) {
            voided(stream);
            begin(stream, rows[i].capture);
        }
        CHECK((allocate() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) == rows[i].here);
        if (rows[i].here) {
            voided(stream);
        } else {
            OK(cu.cuStreamEndCapture(stream, &graph));
            OK(cu.cuGraphDestroy(graph));
        }
        OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
    }
    /* each of them is refused */
    CUmodule module;
    void *pinned;
    char byte = 0;
    CUevent event;
    OK(cu.cuEventCreate(&event, 0));
    begin(stream, GLOBAL);
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuMemHostAlloc(&pinned, 10, 0));
    voided(stream);
    begin(stream, GLOBAL);
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuEventQuery(event));
    voided(stream);
    begin(stream, GLOBAL); /* and these are not */
    OK(cu.cuModuleLoadData(&module, vadd_ptx));
    OK(cu.cuMemcpyDtoH_v2(&byte, v.c, 1));
    OK(cu.cuStreamEndCapture(stream, &graph));
    OK(cu.cuGraphDestroy(graph));
    OK(cu.cuModuleUnload(module));
    OK(cu.cuEventDestroy_v2(event));
    OK(cu.cuStreamDestroy_v2(stream));
}

static CUresult ended;

static void *end_elsewhere(void *stream)
{
    CUgraph graph;
    ended = cu.cuCtxSetCurrent(context);
    if (ended == CUDA_SUCCESS)
        ended = cu.cuStreamEndCapture(stream, &graph);
    if (ended == CUDA_SUCCESS)
        ended = cu.cuGraphDestroy(graph);
    return NULL;
}

static void threads(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    pthread_t thread;
    begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    CHECK(!pthread_create(&thread, NULL, end_elsewhere, stream) && !pthread_join(thread, NULL));
    CHECK(ended == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    voided(stream);
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    CHECK(!pthread_create(&thread, NULL, end_elsewhere, stream) && !pthread_join(thread, NULL));
    CHECK(ended == CUDA_SUCCESS);
    OK(cu.cuStreamDestroy_v2(stream));
}

/* Into a graph that is there, after nodes of the program's choice.
 */
static void to_graph(void)
{
    CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
    CUgraph graph, same;
    CUgraphNode first, second;
    CUgraphExec exec;
    OK(cu.cuGraphCreate(&graph, 0));
    OK(cu.cuGraphAddEmptyNode(&first, graph, NULL, 0));
    OK(cu.cuGraphAddEmptyNode(&second, graph, NULL, 0));
    OK(cu.cuStreamBeginCaptureToGraph(stream, graph, &first, NULL, 1,
                                      CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cu.cuStreamUpdateCaptureDependencies(stream, &second, 1,
                                            CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    OK(vadd_launch(vadd, &v, stream));
    OK(cu.cuStreamEndCapture(stream, &same));
    CHECK(same == graph && node_count(graph) == 3);
    CUgraphNode nodes[3];
    size_t count = 3;
    OK(cu.cuGraphGetNodes(graph, nodes, &count));
    OK(cu.cuGraphNodeGetDependencies(nodes[2], NULL, &count));
    CHECK(count == 2);
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuGraphLaunch(exec, stream));
    voided(stream);
    OK(cu.cuMemsetD8_v2(v.c, 0, 4 * N));
    OK(cu.cuCtxSynchronize()); /* a fill need not wait */
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuStreamSynchronize(stream));
    CHECK(vadd_wrong(&v) == 0);
    OK(cu.cuGraphExecDestroy(exec));
    OK(cu.cuGraphDestroy(graph));
    OK(cu.cuStreamDestroy_v2(stream));
}

int main(void)
{
    soft_begin();
    OK(cu.cuCtxGetCurrent(&context));
    vadd = function_of(vadd_ptx, "vadd");
    vadd_make(&v, N);
    OK(cu.cuCtxSynchronize());
    simple();
    forks();
    external_events();
    conflicts();
    modes();
    threads();
    to_graph();
    vadd_free(&v);
    return test_result();
}
