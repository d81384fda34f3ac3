/* Graphs on the software GPU: nodes of each kind, structure, launches, changes before and after
 * instantiation, what is refused. */
#include "softgpu/soft_test.h"

enum { N = 256 };

static CUfunction vadd;
static CUcontext context;

struct world {
    struct vadd v;
    CUgraph graph;
    CUgraphExec exec;
    CUstream stream;
};

static void world_make(struct world *w)
{
    vadd_make(&w->v, N);
    OK(cu.cuGraphCreate(&w->graph, 0));
    OK(cu.cuStreamCreate(&w->stream, CU_STREAM_NON_BLOCKING));
    w->exec = NULL;
    OK(cu.cuCtxSynchronize()); /* fills need not wait */
}

static void world_free(struct world *w)
{
    if (w->exec)
        OK(cu.cuGraphExecDestroy(w->exec));
    OK(cu.cuGraphDestroy(w->graph));
    OK(cu.cuStreamDestroy_v2(w->stream));
    vadd_free(&w->v);
}

static void go(struct world *w)
{
    OK(cu.cuGraphLaunch(w->exec, w->stream));
    OK(cu.cuStreamSynchronize(w->stream));
}

static CUDA_KERNEL_NODE_PARAMS_v2 kernel_params(void **params)
{
    return (CUDA_KERNEL_NODE_PARAMS_v2){.func = vadd,
                                        .gridDimX = 2,
                                        .gridDimY = 1,
                                        .gridDimZ = 1,
                                        .blockDimX = 128,
                                        .blockDimY = 1,
                                        .blockDimZ = 1,
                                        .kernelParams = params};
}

static CUDA_MEMCPY3D line(CUdeviceptr to, CUdeviceptr from, size_t size)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .srcDevice = from,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstDevice = to,
                           .WidthInBytes = size,
                           .Height = 1,
                           .Depth = 1};
}

static float first_of(CUdeviceptr memory)
{
    float value = -1;
    OK(cu.cuMemcpyDtoH_v2(&value, memory, sizeof value));
    return value;
}

static int order[8], orders;

static void note(void *data)
{
    if (orders < 8)
        order[orders++] = (int)(intptr_t)data;
}

static void pass(void *data)
{
    (void)data;
}

/* fill -> kernel -> copy -> host function, with an empty node between. */
static void chain(void)
{
    struct world w;
    CUgraphNode fill, kernel, empty, copy, host;
    float out[N] = {0};
    world_make(&w);
    void *params[] = {&w.v.a, &w.v.b, &w.v.c, &w.v.n};
    CUDA_KERNEL_NODE_PARAMS_v2 k = kernel_params(params);
    CUDA_MEMSET_NODE_PARAMS m = {.dst = w.v.a, .elementSize = 4, .width = N, .height = 1};
    CUDA_MEMCPY3D c = line((uintptr_t)out, w.v.c, sizeof out);
    CUDA_HOST_NODE_PARAMS h = {note, (void *)7};
    OK(cu.cuGraphAddMemsetNode(&fill, w.graph, NULL, 0, &m, context));
    OK(cu.cuGraphAddKernelNode_v2(&kernel, w.graph, &fill, 1, &k));
    OK(cu.cuGraphAddEmptyNode(&empty, w.graph, &kernel, 1));
    OK(cu.cuGraphAddMemcpyNode(&copy, w.graph, &empty, 1, &c, context));
    OK(cu.cuGraphAddHostNode(&host, w.graph, &copy, 1, &h));
    OK(cu.cuGraphInstantiateWithFlags(&w.exec, w.graph, 0));
    orders = 0;
    go(&w);
    CHECK(out[0] == 1 && out[N - 1] == 2 * (N - 1) + 1); /* a was zeroed first */
    CHECK(orders == 1 && order[0] == 7);

    CUgraphNodeType type;
    OK(cu.cuGraphNodeGetType(copy, &type));
    CHECK(type == CU_GRAPH_NODE_TYPE_MEMCPY);
    CUgraphNode list[8] = {0}, from[8], to[8];
    size_t count = 0;
    OK(cu.cuGraphGetNodes(w.graph, NULL, &count));
    CHECK(count == 5);
    count = 8;
    OK(cu.cuGraphGetNodes(w.graph, list, &count));
    CHECK(count == 5 && list[0] == fill && list[4] == host && !list[5]);
    count = 8;
    OK(cu.cuGraphGetRootNodes(w.graph, list, &count));
    CHECK(count == 1 && list[0] == fill);
    count = 8;
    OK(cu.cuGraphGetEdges(w.graph, from, to, &count));
    CHECK(count == 4 && from[3] == copy && to[3] == host);
    CUgraphEdgeData data[8];
    memset(data, 0xff, sizeof data);
    count = 8;
    OK(cu.cuGraphGetEdges_v2(w.graph, from, to, data, &count));
    CHECK(count == 4 && data[0].type == 0);
    count = 8;
    OK(cu.cuGraphNodeGetDependencies(copy, list, &count));
    CHECK(count == 1 && list[0] == empty);
    count = 8;
    OK(cu.cuGraphNodeGetDependentNodes(kernel, list, &count));
    CHECK(count == 1 && list[0] == empty);

    CUDA_KERNEL_NODE_PARAMS_v2 back;
    OK(cu.cuGraphKernelNodeGetParams_v2(kernel, &back));
    CHECK(back.func == vadd && back.gridDimX == 2 && back.kernelParams &&
          *(CUdeviceptr *)back.kernelParams[2] == w.v.c && *(int *)back.kernelParams[3] == N);
    CUDA_MEMSET_NODE_PARAMS m_back;
    OK(cu.cuGraphMemsetNodeGetParams(fill, &m_back));
    CHECK(m_back.dst == w.v.a && m_back.width == N && m_back.elementSize == 4);
    CUDA_MEMCPY3D c_back;
    OK(cu.cuGraphMemcpyNodeGetParams(copy, &c_back));
    CHECK(c_back.srcDevice == w.v.c && c_back.WidthInBytes == sizeof out);
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGraphMemcpyNodeGetParams(kernel, &c_back));

    char path[] = "/tmp/soft-graph-XXXXXX", text[4000] = "";
    int fd = mkstemp(path);
    OK(cu.cuGraphDebugDotPrint(w.graph, path, 0));
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0 && !close(fd) && !unlink(path));
    if (!soft_hardware()) /* each driver draws its own picture */
        CHECK(strstr(text, "1 KERNEL") && strstr(text, "\"0\" -> \"1\";"));
    GIVES(CUDA_ERROR_OPERATING_SYSTEM, cu.cuGraphDebugDotPrint(w.graph, "/nowhere/x", 0));

    OK(cu.cuGraphDestroyNode(
        empty));          /* its edges go with it; the executable graph stays as it is */
    if (!soft_hardware()) /* dead handles are the program's mistake there */
        GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGraphNodeGetType(empty, &type));
    count = 8;
    OK(cu.cuGraphGetEdges(w.graph, from, to, &count));
    CHECK(count == 2);
    memset(out, 0, sizeof out);
    go(&w);
    CHECK(out[1] == 3);
    world_free(&w);
}

/* Values are copied when they are given, and can be changed in the graph or in what was made of it.
 */
static void changes(void)
{
    struct world w;
    CUgraphNode kernel, copy, fill, host;
    CUdeviceptr other;
    world_make(&w);
    OK(cu.cuMemAlloc_v2(&other, N * sizeof(float)));
    OK(cu.cuMemsetD32_v2(other, 0, N));
    struct vadd v = w.v;
    void *params[] = {&v.a, &v.b, &v.c, &v.n};
    CUDA_KERNEL_NODE_PARAMS_v2 k = kernel_params(params);
    CUDA_MEMSET_NODE_PARAMS m = {.dst = w.v.c, .elementSize = 1, .width = 4, .height = 1};
    OK(cu.cuGraphAddMemsetNode(&fill, w.graph, NULL, 0, &m, context));
    OK(cu.cuGraphAddKernelNode_v2(&kernel, w.graph, &fill, 1, &k));
    v.c = 0; /* the node has its own */
    CUDA_MEMCPY3D c = line(other, w.v.c, 16);
    OK(cu.cuGraphAddMemcpyNode(&copy, w.graph, &kernel, 1, &c, context));
    CUDA_HOST_NODE_PARAMS h = {note, (void *)1};
    OK(cu.cuGraphAddHostNode(&host, w.graph, &copy, 1, &h));
    CUDA_GRAPH_INSTANTIATE_PARAMS how = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH};
    OK(cu.cuGraphInstantiateWithParams(&w.exec, w.graph, &how));
    CHECK(how.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS);
    cuuint64_t flags = 0;
    OK(cu.cuGraphExecGetFlags(w.exec, &flags));
    CHECK(flags == how.flags);
    go(&w);
    CHECK(vadd_wrong(&w.v) == 0 && first_of(other) == 1);

    v = w.v;
    v.a = w.v.b; /* b + b */
    OK(cu.cuGraphKernelNodeSetParams_v2(kernel,
                                        &k)); /* of the graph: the executable one keeps its */
    go(&w);
    CHECK(vadd_wrong(&w.v) == 0);
    OK(cu.cuGraphExecKernelNodeSetParams_v2(w.exec, kernel, &k));
    go(&w);
    CHECK(first_of(w.v.c) == 2 && first_of(other) == 2);

    c = line(other + 64, w.v.c, 4);
    OK(cu.cuGraphExecMemcpyNodeSetParams(w.exec, copy, &c, context));
    m.dst = other + 128;
    m.value = 0x3f;
    OK(cu.cuGraphExecMemsetNodeSetParams(w.exec, fill, &m, context));
    h.userData = (void *)2;
    OK(cu.cuGraphExecHostNodeSetParams(w.exec, host, &h));
    orders = 0;
    go(&w);
    CHECK(first_of(other + 64) == 2 && first_of(other + 128) > 0.7f && order[0] == 2);
    float pageable;
    c = line((uintptr_t)&pageable, w.v.c, 4); /* another kind of memory */
    if (!soft_hardware())                     /* an H200 takes it, and faults when it runs */
        GIVES(CUDA_ERROR_INVALID_VALUE,
              cu.cuGraphExecMemcpyNodeSetParams(w.exec, copy, &c, context));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGraphExecKernelNodeSetParams_v2(w.exec, copy, &k));

    unsigned enabled = 9;
    OK(cu.cuGraphNodeSetEnabled(w.exec, kernel, 0));
    OK(cu.cuGraphNodeGetEnabled(w.exec, kernel, &enabled));
    CHECK(enabled == 0);
    OK(cu.cuMemsetD32_v2(w.v.c, 0, N));
    go(&w);
    CHECK(first_of(w.v.c) == 0);
    OK(cu.cuGraphNodeSetEnabled(w.exec, kernel, 1));
    go(&w);
    CHECK(first_of(w.v.c) == 2);
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGraphNodeSetEnabled(w.exec, host, 0));
    world_free(&w);
    OK(cu.cuMemFree_v2(other));
}

/* Branches join; a cycle is found when the graph is to be run. */
static void structure(void)
{
    struct world w;
    CUgraphNode nodes[4];
    world_make(&w);
    CUDA_HOST_NODE_PARAMS h = {note, NULL};
    for (int i = 0; i < 4; i++) {
        h.userData = (void *)(intptr_t)i;
        OK(cu.cuGraphAddHostNode(&nodes[i], w.graph, NULL, 0, &h));
    }
    CUgraphNode from[] = {nodes[3], nodes[3], nodes[2], nodes[1]};
    CUgraphNode to[] = {nodes[2], nodes[1], nodes[0], nodes[0]}; /* 3 first, 0 last */
    OK(cu.cuGraphAddDependencies(w.graph, from, to, 4));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGraphAddDependencies(w.graph, from, to, 1)); /* is there */
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGraphAddDependencies(w.graph, from, from, 1));
    OK(cu.cuGraphInstantiate_v2(&w.exec, w.graph, NULL, NULL, 0));
    orders = 0;
    go(&w);
    CHECK(orders == 4 && order[0] == 3 && order[3] == 0 && order[1] + order[2] == 3);

    CUgraph clone;
    CUgraphNode twin, none;
    CUgraphExec second;
    OK(cu.cuGraphClone(&clone, w.graph));
    OK(cu.cuGraphNodeFindInClone(&twin, nodes[2], clone));
    CHECK(twin && twin != nodes[2]);
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGraphNodeFindInClone(&none, nodes[2], w.graph));
    OK(cu.cuGraphRemoveDependencies(clone, (CUgraphNode[]){0}, (CUgraphNode[]){0}, 0));
    OK(cu.cuGraphDestroyNode(twin));
    OK(cu.cuGraphInstantiateWithFlags(&second, clone, 0));
    orders = 0;
    OK(cu.cuGraphLaunch(second, w.stream));
    OK(cu.cuStreamSynchronize(w.stream));
    CHECK(orders == 3 && order[0] == 3 && order[2] == 0);
    OK(cu.cuGraphExecDestroy(second));
    OK(cu.cuGraphDestroy(clone));

    OK(cu.cuGraphAddDependencies(w.graph, &nodes[0], &nodes[3], 1)); /* a ring */
    CUDA_GRAPH_INSTANTIATE_PARAMS how = {0};
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGraphInstantiateWithParams(&second, w.graph, &how));
    CHECK(how.result_out == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
    OK(cu.cuGraphRemoveDependencies(w.graph, &nodes[0], &nodes[3], 1));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGraphRemoveDependencies(w.graph, &nodes[0], &nodes[3], 1));
    world_free(&w);
}

static void children(void)
{
    struct world w;
    CUgraph child, inside;
    CUgraphNode first, last, whole, inner, other;
    world_make(&w);
    OK(cu.cuGraphCreate(&child, 0));
    CUDA_HOST_NODE_PARAMS h = {note, (void *)5};
    OK(cu.cuGraphAddHostNode(&inner, child, NULL, 0, &h));
    h.userData = (void *)6;
    OK(cu.cuGraphAddHostNode(&other, child, &inner, 1, &h));
    h.userData = (void *)1;
    OK(cu.cuGraphAddHostNode(&first, w.graph, NULL, 0, &h));
    OK(cu.cuGraphAddChildGraphNode(&whole, w.graph, &first, 1, child));
    h.userData = (void *)2;
    OK(cu.cuGraphAddHostNode(&last, w.graph, &whole, 1, &h));
    OK(cu.cuGraphChildGraphNodeGetGraph(whole, &inside));
    CHECK(inside != child); /* a copy */
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGraphDestroy(inside));
    OK(cu.cuGraphInstantiateWithFlags(&w.exec, w.graph, 0));
    orders = 0;
    go(&w);
    CHECK(orders == 4 && order[0] == 1 && order[1] == 5 && order[2] == 6 && order[3] == 2);
    h.userData = (void *)9;
    OK(cu.cuGraphHostNodeSetParams(inner, &h));
    OK(cu.cuGraphExecChildGraphNodeSetParams(w.exec, whole, child));
    orders = 0;
    go(&w);
    CHECK(order[1] == 9 && order[2] == 6);
    OK(cu.cuGraphDestroyNode(other)); /* another shape */
    CUresult result = cu.cuGraphExecChildGraphNodeSetParams(w.exec, whole, child);
    if (soft_hardware()) /* which of the errors, or none, the manual does not say */
        fprintf(stderr, "a child graph of another shape: %d\n", (int)result);
    else
        CHECK(result == CUDA_ERROR_INVALID_VALUE);
    OK(cu.cuGraphDestroy(child));
    world_free(&w);
}

static void events(void)
{
    struct world w;
    CUevent before, after;
    CUgraphNode wait, kernel, record;
    float ms = -1;
    world_make(&w);
    OK(cu.cuEventCreate(&before, 0));
    OK(cu.cuEventCreate(&after, 0));
    void *params[] = {&w.v.a, &w.v.b, &w.v.c, &w.v.n};
    CUDA_KERNEL_NODE_PARAMS_v2 k = kernel_params(params);
    OK(cu.cuGraphAddEventWaitNode(&wait, w.graph, NULL, 0, before));
    OK(cu.cuGraphAddKernelNode_v2(&kernel, w.graph, &wait, 1, &k));
    OK(cu.cuGraphAddEventRecordNode(&record, w.graph, &kernel, 1, after));
    CUevent got;
    OK(cu.cuGraphEventRecordNodeGetEvent(record, &got));
    CHECK(got == after);
    OK(cu.cuGraphInstantiateWithFlags(&w.exec, w.graph, 0));
    OK(cu.cuEventRecord(before, w.stream));
    OK(cu.cuGraphLaunch(w.exec, w.stream));
    OK(cu.cuEventSynchronize(after));
    OK(cu.cuEventElapsedTime(&ms, before, after));
    CHECK(ms >= 0.002f && ms < 1);
    CHECK(vadd_wrong(&w.v) == 0);
    OK(cu.cuGraphExecEventRecordNodeSetEvent(w.exec, record, before));
    OK(cu.cuGraphLaunch(w.exec, w.stream));
    OK(cu.cuEventSynchronize(before));
    OK(cu.cuEventElapsedTime(&ms, after, before));
    CHECK(ms > 0);
    world_free(&w);
    OK(cu.cuEventDestroy_v2(before));
    OK(cu.cuEventDestroy_v2(after));
}

/* Another graph of the same shape takes the place of the first one's values, or nothing changes. */
static void updates(void)
{
    struct world w;
    CUgraph other;
    CUgraphNode kernel, fill;
    world_make(&w);
    void *params[] = {&w.v.a, &w.v.b, &w.v.c, &w.v.n};
    CUDA_KERNEL_NODE_PARAMS_v2 k = kernel_params(params);
    CUDA_MEMSET_NODE_PARAMS m = {.dst = w.v.c, .elementSize = 1, .width = 4, .height = 1};
    OK(cu.cuGraphAddMemsetNode(&fill, w.graph, NULL, 0, &m, context));
    OK(cu.cuGraphAddKernelNode_v2(&kernel, w.graph, &fill, 1, &k));
    OK(cu.cuGraphInstantiateWithFlags(&w.exec, w.graph, 0));
    go(&w);

    CUgraphNode k2, m2;
    CUgraphExecUpdateResultInfo info;
    OK(cu.cuGraphCreate(&other, 0));
    params[0] = &w.v.b;
    OK(cu.cuGraphAddMemsetNode(&m2, other, NULL, 0, &m, context));
    OK(cu.cuGraphAddKernelNode_v2(&k2, other, &m2, 1, &k));
    OK(cu.cuGraphExecUpdate_v2(w.exec, other, &info));
    CHECK(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
    go(&w);
    CHECK(first_of(w.v.c) == 2);
    params[0] = &w.v.a; /* the nodes of the first graph still name those of the executable one */
    OK(cu.cuGraphExecKernelNodeSetParams_v2(w.exec, kernel, &k));
    go(&w);
    CHECK(vadd_wrong(&w.v) == 0);

    OK(cu.cuGraphRemoveDependencies(other, &m2, &k2, 1));
    GIVES(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cu.cuGraphExecUpdate_v2(w.exec, other, &info));
    CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED && info.errorNode == k2);
    CUgraphNode extra, at = NULL;
    CUgraphExecUpdateResult why = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    OK(cu.cuGraphDestroyNode(k2));
    OK(cu.cuGraphAddEmptyNode(&extra, other, &m2, 1));
    GIVES(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cu.cuGraphExecUpdate(w.exec, other, &at, &why));
    if (soft_hardware()) /* its order of nodes and of reasons is its own */
        CHECK(why != CU_GRAPH_EXEC_UPDATE_SUCCESS);
    else
        CHECK(why == CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED && at == extra);
    go(&w);
    CHECK(vadd_wrong(&w.v) == 0);
    OK(cu.cuGraphDestroy(other));
    world_free(&w);
}

static void generic(void)
{
    struct world w;
    CUgraphNode node, next;
    world_make(&w);
    void *params[] = {&w.v.a, &w.v.b, &w.v.c, &w.v.n};
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    CUDA_KERNEL_NODE_PARAMS_v2 k = kernel_params(params);
    memcpy(&p.kernel, &k, sizeof k);
    OK(cu.cuGraphAddNode(&node, w.graph, NULL, 0, &p));
    CUgraphNodeParams h = {.type = CU_GRAPH_NODE_TYPE_HOST, .host = {note, (void *)4}};
    OK(cu.cuGraphAddNode_v2(&next, w.graph, &node, NULL, 1, &h));
    OK(cu.cuGraphInstantiateWithFlags(&w.exec, w.graph, 0));
    h.host.userData = (void *)3;
    OK(cu.cuGraphExecNodeSetParams(w.exec, next, &h));
    orders = 0;
    go(&w);
    CHECK(vadd_wrong(&w.v) == 0 && order[0] == 3);
    CUkernelNodeAttrValue value = {.cooperative = 1}, back = {0};
    OK(cu.cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
    OK(cu.cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &back));
    CHECK(back.cooperative == 1);
    world_free(&w);
}

/* What is not there: hardware has it. */
static void not_there(struct world *w)
{
    CUgraphNode node;
    CUgraphExec exec;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cu.cuGraphAddNode(&node, w->graph, NULL, 0, &p));
    CUDA_MEM_ALLOC_NODE_PARAMS a = {.bytesize = 100};
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cu.cuGraphAddMemAllocNode(&node, w->graph, NULL, 0, &a));
    GIVES(CUDA_ERROR_NOT_SUPPORTED, cu.cuGraphAddMemFreeNode(&node, w->graph, NULL, 0, w->v.a));
    CUgraphConditionalHandle handle;
    GIVES(CUDA_ERROR_NOT_SUPPORTED,
          cu.cuGraphConditionalHandleCreate(&handle, w->graph, NULL, 0, 0));
    GIVES(
        CUDA_ERROR_NOT_SUPPORTED,
        cu.cuGraphInstantiateWithFlags(&exec, w->graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH));
}

/* What cannot be, and what is not there. */
static void refusals(void)
{
    struct world w;
    CUgraphNode node, empty;
    CUgraphExec exec;
    world_make(&w);
    if (!soft_hardware())
        not_there(&w);
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGraphInstantiateWithFlags(&exec, w.graph, 1 << 20));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGraphCreate(&w.graph, 1));
    CUDA_KERNEL_NODE_PARAMS_v2 k = kernel_params(NULL); /* without its arguments */
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGraphAddKernelNode_v2(&node, w.graph, NULL, 0, &k));
    void *params[] = {&w.v.a, &w.v.b, &w.v.c, &w.v.n};
    k = kernel_params(params);
    k.blockDimX = 2048;
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGraphAddKernelNode_v2(&node, w.graph, NULL, 0, &k));
    CUDA_HOST_NODE_PARAMS h = {NULL, NULL};
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGraphAddHostNode(&node, w.graph, NULL, 0, &h));
    OK(cu.cuGraphAddEmptyNode(&empty, w.graph, NULL, 0));
    CUgraphNode twice[] = {empty, empty};
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGraphAddEmptyNode(&node, w.graph, twice, 2));
    CUgraph other;
    OK(cu.cuGraphCreate(&other, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGraphAddEmptyNode(&node, other, &empty, 1));
    OK(cu.cuGraphDestroy(other));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGraphDestroy(other));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGraphLaunch((CUgraphExec)w.graph, w.stream));
    world_free(&w);
}

static int destroyed;

static void destroy(void *data)
{
    destroyed += (int)(intptr_t)data;
}

/* A user object lives as long as a graph, a clone or an executable graph holds it. */
static void objects(void)
{
    struct world w;
    CUuserObject object;
    world_make(&w);
    destroyed = 0;
    OK(cu.cuUserObjectCreate(&object, (void *)3, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(cu.cuGraphRetainUserObject(w.graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    OK(cu.cuGraphInstantiateWithFlags(&w.exec, w.graph, 0));
    OK(cu.cuGraphReleaseUserObject(w.graph, object, 1));
    CHECK(destroyed == 0);
    OK(cu.cuGraphExecDestroy(w.exec));
    w.exec = NULL;
    CHECK(destroyed == 3);
    if (!soft_hardware()) /* a dead handle */
        GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuUserObjectRetain(object, 1));
    world_free(&w);
}

/* A fault in the middle: later nodes do not run, the context is faulty, events do not hang. */
static void fault(void)
{
    struct world w;
    CUgraphNode kernel, host, record;
    CUevent event;
    world_make(&w);
    OK(cu.cuEventCreate(&event, 0));
    CUdeviceptr nowhere = 0; /* a little beyond an allocation may be mapped */
    void *params[] = {&w.v.a, &w.v.b, &nowhere, &w.v.n};
    CUDA_KERNEL_NODE_PARAMS_v2 k = kernel_params(params);
    OK(cu.cuGraphAddKernelNode_v2(&kernel, w.graph, NULL, 0, &k));
    CUDA_HOST_NODE_PARAMS h = {note, (void *)1};
    OK(cu.cuGraphAddHostNode(&host, w.graph, &kernel, 1, &h));
    OK(cu.cuGraphAddEventRecordNode(&record, w.graph, &host, 1, event));
    OK(cu.cuGraphInstantiateWithFlags(&w.exec, w.graph, 0));
    orders = 0;
    OK(cu.cuGraphLaunch(w.exec, w.stream));
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuEventSynchronize(event));
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuStreamSynchronize(w.stream));
    CHECK(orders == 0);
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuGraphLaunch(w.exec, w.stream));
    OK(cu.cuGraphExecDestroy(w.exec));
    OK(cu.cuGraphDestroy(w.graph));
}

/* Launches of one executable graph wait for each other, in whatever streams. */
static void serial(void)
{
    struct world w;
    CUgraphNode node;
    CUstream other;
    world_make(&w);
    OK(cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CUDA_HOST_NODE_PARAMS h = {pass, NULL};
    CUgraphNode last = NULL;
    for (int i = 0; i < 300; i++) {
        OK(cu.cuGraphAddHostNode(&node, w.graph, last ? &last : NULL, last != NULL, &h));
        last = node;
    }
    OK(cu.cuGraphInstantiateWithFlags(&w.exec, w.graph, 0));
    OK(cu.cuGraphUpload(w.exec, w.stream));
    for (int i = 0; i < 20; i++)
        OK(cu.cuGraphLaunch(w.exec, i % 2 ? other : w.stream));
    OK(cu.cuGraphExecDestroy(w.exec)); /* while it runs */
    w.exec = NULL;
    OK(cu.cuStreamSynchronize(w.stream));
    OK(cu.cuStreamSynchronize(other));
    OK(cu.cuStreamDestroy_v2(other));
    world_free(&w);
}

int main(void)
{
    soft_begin();
    OK(cu.cuCtxGetCurrent(&context));
    vadd = function_of(vadd_ptx, "vadd");
    chain();
    changes();
    structure();
    children();
    events();
    updates();
    generic();
    refusals();
    objects();
    serial();
    fault(); /* the last: the context is lost */
    return test_result();
}
