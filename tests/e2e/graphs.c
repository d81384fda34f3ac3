/* Kernels in CUDA graphs, of which the variant differs on purpose (adding_variant.h), so that each
 * launch of a graph tells which code ran: nodes by stream capture and by hand, in every form of the
 * calls; updates of single nodes and by whole graphs; clones, child graphs. What the program asks
 * of its graphs is always what it put there. Runs alone, and with the library in every mode;
 * `status` knows each launch. On the software GPU, or with the argument "gpu" on the machine's. */
#include "adding_variant.h"
#include "softgpu/soft_entries.h"

#include <dlfcn.h>

static struct soft_driver cu; /* every entry, through the hooks */
static bool swaps;            /* variants are there */
static unsigned launches, swapped;

static float two = 2;
static unsigned count = COUNT;

static void entries_find(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    WELL(!library);
    static const struct {
        const char *symbol;
        size_t offset;
    } rows[] = {
#define API(ret, symbol, base, version, stream, use, params, args)                                 \
    {#symbol, offsetof(struct soft_driver, symbol)},
#include "gpu/cuda_api.def"
#include "softgpu/soft_api.def"
#undef API
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *address = dlsym(library, rows[i].symbol); /* one that is called must be there */
        memcpy((char *)&cu + rows[i].offset, &address, sizeof address);
    }
}

static bool is(char ran, char wanted, const char *what, int line)
{
    char right = wanted == 'v' && !swaps ? 'o' : wanted;
    swapped += ran == 'v';
    if (ran != right)
        fprintf(stderr, "graphs.c:%d: %s: '%c' ran instead of '%c'\n", line, what, ran, right);
    return ran == right;
}
#define RAN(wanted, call) CHECK(is(call, wanted, #call, __LINE__))

/* ---- graphs ------------------------------------------------------------------------------------
 */

/* Parameters of a node that the variant is for, where a is 2. */
struct arguments {
    CUdeviceptr in, out;
    float a;
    unsigned n;
    void *list[4];
};

static CUDA_KERNEL_NODE_PARAMS_v2 node_of(struct arguments *space, float a)
{
    *space = (struct arguments){.in = in, .out = out, .a = a, .n = COUNT};
    space->list[0] = &space->in;
    space->list[1] = &space->out;
    space->list[2] = &space->a;
    space->list[3] = &space->n;
    return adding_node(space->list);
}

/* Whether the program gets back what it put there. */
static bool untouched(CUgraphNode node, float a)
{
    CUDA_KERNEL_NODE_PARAMS_v2 p;
    CUDA_KERNEL_NODE_PARAMS_v1 old;
    memset(&p, 0, sizeof p);
    WELL(cu.cuGraphKernelNodeGetParams_v2(node, &p));
    WELL(cu.cuGraphKernelNodeGetParams(node, &old));
    const void *function = p.func ? (void *)p.func : (void *)p.kern;
    fprintf(stderr, "node: %s, %s\n", p.func ? "func" : "kern",
            function == (void *)work ? "as given" : "another handle");
    return (function == (void *)work || e2e_gpu) && p.gridDimX == 4 && p.blockDimX == 256 &&
           *(CUdeviceptr *)p.kernelParams[0] == in && *(CUdeviceptr *)p.kernelParams[1] == out &&
           *(float *)p.kernelParams[2] == a && *(unsigned *)p.kernelParams[3] == COUNT &&
           old.gridDimX == 4 && *(float *)old.kernelParams[2] == a;
}

static CUgraph captured_graph(CUstreamCaptureMode mode, float a, CUgraphNode *node)
{
    CUgraph graph;
    CUstream stream;
    size_t nodes = 1;
    struct arguments space;
    (void)node_of(&space, a);
    WELL(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    WELL(cu.cuStreamBeginCapture_v2(stream, mode));
    WELL(real.cuLaunchKernel(work, 4, 1, 1, 256, 1, 1, 0, stream, space.list, NULL));
    WELL(cu.cuStreamEndCapture(stream, &graph));
    WELL(cu.cuStreamDestroy_v2(stream));
    WELL(cu.cuGraphGetNodes(graph, node, &nodes));
    WELL(nodes != 1);
    return graph;
}

enum { BY_V1, BY_V2, BY_NODE, BY_NODE_V2, BY_PACKED, WAYS };
static CUgraph made_graph(unsigned way, float a, CUgraphNode *node)
{
    CUgraph graph;
    struct arguments space;
    CUDA_KERNEL_NODE_PARAMS_v2 p = node_of(&space, a);
    CUDA_KERNEL_NODE_PARAMS_v1 old;
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    size_t size = offsetof(struct arguments, list);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &space, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    memcpy(&old, &p, sizeof old);
    memcpy(&any.kernel, &p, sizeof p);
    WELL(cu.cuGraphCreate(&graph, 0));
    if (way == BY_V1)
        WELL(cu.cuGraphAddKernelNode(node, graph, NULL, 0, &old));
    if (way == BY_V2)
        WELL(cu.cuGraphAddKernelNode_v2(node, graph, NULL, 0, &p));
    if (way == BY_NODE)
        WELL(cu.cuGraphAddNode(node, graph, NULL, 0, &any));
    if (way == BY_NODE_V2)
        WELL(cu.cuGraphAddNode_v2(node, graph, NULL, NULL, 0, &any));
    p.kernelParams = NULL;
    p.extra = extra;
    if (way == BY_PACKED)
        WELL(cu.cuGraphAddKernelNode_v2(node, graph, NULL, 0, &p));
    return graph;
}

static CUgraphExec instantiated(CUgraph graph)
{
    static unsigned turn;
    CUgraphExec exec;
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
    switch (turn++ % 5) {
    case 0:
        WELL(cu.cuGraphInstantiate(&exec, graph, NULL, NULL, 0));
        break;
    case 1:
        WELL(cu.cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
        break;
    case 2:
        WELL(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
        break;
    case 3:
        WELL(cu.cuGraphInstantiateWithParams(&exec, graph, &params));
        break;
    default:
        WELL(cu.cuGraphInstantiateWithParams_ptsz(&exec, graph, &params));
    }
    return exec;
}

static char launched(CUgraphExec exec, float a)
{
    WELL(real.cuMemsetD32_v2(out, 0, COUNT));
    if (launches++ % 2)
        WELL(cu.cuGraphLaunch(exec, NULL));
    else
        WELL(cu.cuGraphLaunch_ptsz(exec, NULL));
    return ran(out, a, 1);
}

/* Instantiates it, runs it twice, and lets it go. */
static void twice(CUgraph graph, float a, char wanted)
{
    CUgraphExec exec = instantiated(graph);
    WELL(cu.cuGraphDestroy(graph));
    RAN(wanted, launched(exec, a));
    RAN(wanted, launched(exec, a));
    WELL(cu.cuGraphExecDestroy(exec));
}

/* ---- cases -------------------------------------------------------------------------------------
 */

static void by_capture(void)
{
    static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                                CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                                CU_STREAM_CAPTURE_MODE_RELAXED};
    CUgraphNode node;
    for (int i = 0; i < 3; i++) {
        CUgraph graph = captured_graph(modes[i], 2, &node);
        CHECK(untouched(node, 2));
        twice(graph, 2, 'v');
        twice(captured_graph(modes[i], 3, &node), 3, 'o');
    }
}

static void by_hand(void)
{
    CUgraphNode node;
    for (unsigned way = 0; way < WAYS; way++) {
        CUgraph graph = made_graph(way, 2, &node);
        CHECK(way == BY_PACKED || untouched(node, 2));
        twice(graph, 2, 'v');
        twice(made_graph(way, 3, &node), 3, 'o');
    }
}

static void node_updates(void)
{
    CUgraphNode node;
    struct arguments space;
    CUDA_KERNEL_NODE_PARAMS_v1 old;
    CUgraph graph = made_graph(BY_V2, 2, &node);
    CUgraphExec exec = instantiated(graph);
    for (int i = 0; i < 6; i++) {
        float a = i % 2 ? 2 : 3;
        CUDA_KERNEL_NODE_PARAMS_v2 p = node_of(&space, a);
        CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
        memcpy(&old, &p, sizeof old);
        memcpy(&any.kernel, &p, sizeof p);
        if (i / 2 == 0)
            WELL(cu.cuGraphExecKernelNodeSetParams(exec, node, &old));
        if (i / 2 == 1)
            WELL(cu.cuGraphExecKernelNodeSetParams_v2(exec, node, &p));
        if (i / 2 == 2)
            WELL(cu.cuGraphExecNodeSetParams(exec, node, &any));
        RAN(i % 2 ? 'v' : 'o', launched(exec, a));
        CHECK(untouched(node, 2));
    }
    CUDA_KERNEL_NODE_PARAMS_v2 p = node_of(&space, 3);
    WELL(cu.cuGraphKernelNodeSetParams_v2(node, &p)); /* of the graph alone */
    CHECK(untouched(node, 3));
    RAN('v', launched(exec, 2));
    WELL(cu.cuGraphExecDestroy(exec));
    p = node_of(&space, 2);
    WELL(cu.cuGraphKernelNodeSetParams_v2(node, &p));
    twice(graph, 2, 'v');
}

/* A node that is switched off stays so, whatever it would run. */
static void switched_off(void)
{
    CUgraphNode node;
    unsigned on = 1;
    CUgraph graph = made_graph(BY_V1, 2, &node);
    CUgraphExec exec = instantiated(graph);
    WELL(cu.cuGraphNodeSetEnabled(exec, node, 0));
    WELL(cu.cuGraphNodeGetEnabled(exec, node, &on));
    CHECK(on == 0);
    WELL(cu.cuGraphNodeSetEnabled(exec, node, 1));
    RAN('v', launched(exec, 2));
    WELL(cu.cuGraphExecDestroy(exec));
    WELL(cu.cuGraphDestroy(graph));
}

static CUresult updated(CUgraphExec exec, CUgraph graph, unsigned form,
                        CUgraphExecUpdateResult *why, CUgraphNode *at)
{
    CUgraphExecUpdateResultInfo info;
    memset(&info, 0xff, sizeof info);
    if (form == 0)
        return cu.cuGraphExecUpdate(exec, graph, at, why);
    CUresult result = cu.cuGraphExecUpdate_v2(exec, graph, &info);
    *why = info.result;
    *at = info.errorNode;
    return result;
}

static void whole_updates(void)
{
    CUgraphNode node, second, at;
    CUgraphExecUpdateResult why;
    CUgraph graph = captured_graph(CU_STREAM_CAPTURE_MODE_RELAXED, 2, &node);
    CUgraphExec exec = instantiated(graph);
    for (unsigned i = 0; i < 4; i++) {
        float a = i % 2 ? 2 : 3;
        CUgraph next = captured_graph(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, a, &second);
        at = second;
        CHECK(updated(exec, next, i / 2, &why, &at) == CUDA_SUCCESS);
        CHECK(why == CU_GRAPH_EXEC_UPDATE_SUCCESS && !at && untouched(second, a));
        WELL(cu.cuGraphDestroy(next));
        for (int k = 0; k < 8; k++)
            RAN(i % 2 ? 'v' : 'o', launched(exec, a));
    }
    /* one that cannot be, with a kernel that has a variant: the reason is the program's own node */
    struct arguments space;
    CUgraph more = made_graph(BY_V1, 2, &second);
    CUDA_KERNEL_NODE_PARAMS_v2 p = node_of(&space, 2);
    WELL(cu.cuGraphAddKernelNode_v2(&at, more, &second, 1, &p));
    for (unsigned form = 0; form < 2; form++) {
        CHECK(updated(exec, more, form, &why, &at) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
        CHECK(why == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED && !at);
    }
    WELL(cu.cuGraphDestroy(more));
    RAN('v', launched(exec, 2)); /* as it was */
    CUgraph next = captured_graph(CU_STREAM_CAPTURE_MODE_RELAXED, 2, &second);
    for (int k = 0; k < 3; k++) { /* a clone for each launch would not pay */
        CHECK(updated(exec, next, 1, &why, &at) == CUDA_SUCCESS && !at);
        RAN('o', launched(exec, 2));
    }
    WELL(cu.cuGraphDestroy(next));
    /* the first graph's nodes still name the executable's */
    p = node_of(&space, 3);
    WELL(cu.cuGraphExecKernelNodeSetParams_v2(exec, node, &p));
    RAN('o', launched(exec, 3));
    WELL(cu.cuGraphExecDestroy(exec));
    WELL(cu.cuGraphDestroy(graph));
}

static void clones(void)
{
    CUgraphNode node, copy;
    CUgraph clone, graph = made_graph(BY_NODE, 2, &node);
    CUgraphExec exec = instantiated(graph);
    WELL(cu.cuGraphClone(&clone, graph));
    WELL(cu.cuGraphNodeFindInClone(&copy, node, clone));
    CHECK(untouched(copy, 2) && untouched(node, 2));
    WELL(cu.cuGraphDestroy(graph));
    RAN('v', launched(exec, 2));
    twice(clone, 2, 'v');
    RAN('v', launched(exec, 2));
    WELL(cu.cuGraphExecDestroy(exec));
}

/* The kernel of a child graph is the original: its launches are counted. */
static void child(void)
{
    CUgraphNode node, parent;
    CUgraph outer, inner = made_graph(BY_V2, 2, &node);
    WELL(cu.cuGraphCreate(&outer, 0));
    WELL(cu.cuGraphAddChildGraphNode(&parent, outer, NULL, 0, inner));
    WELL(cu.cuGraphDestroy(inner));
    twice(outer, 2, 'o');
}

/* Attributes stay the program's; a cooperative node stays the original. */
static void attributes(void)
{
    CUgraphNode node, other;
    CUkernelNodeAttrValue value = {.priority = -1};
    CUgraph graph = made_graph(BY_V2, 2, &node), second = made_graph(BY_V2, 2, &other);
    WELL(cu.cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    WELL(cu.cuGraphKernelNodeCopyAttributes(other, node));
    CUgraphExec exec = instantiated(second);
    memset(&value, 0, sizeof value);
    WELL(cu.cuGraphKernelNodeGetAttribute(other, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    CHECK(value.priority == -1);
    RAN('v', launched(exec, 2));
    WELL(cu.cuGraphExecDestroy(exec));
    WELL(cu.cuGraphDestroy(second));
    value = (CUkernelNodeAttrValue){.cooperative = 1};
    WELL(cu.cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
    twice(graph, 2, 'o');
}

/* The function that the driver names for a node, of which nothing else was heard before. */
static void by_its_own_function(void)
{
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS_v1 params;
    CUgraph graph, first = captured_graph(CU_STREAM_CAPTURE_MODE_RELAXED, 2, &node);
    WELL(cu.cuGraphKernelNodeGetParams(node, &params));
    WELL(cu.cuGraphCreate(&graph, 0));
    WELL(cu.cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
    WELL(cu.cuGraphDestroy(first));
    twice(graph, 2, 'v');
}

/* Two nodes one after the other, and what is no kernel between them. */
static void chain(void)
{
    CUgraph graph;
    CUgraphNode first, fill_node, last;
    CUcontext context;
    CUdeviceptr middle;
    struct arguments space;
    CUDA_MEMSET_NODE_PARAMS zero = {.elementSize = 4, .width = COUNT, .height = 1};
    WELL(real.cuCtxGetCurrent(&context));
    WELL(real.cuMemAlloc_v2(&middle, BYTES));
    zero.dst = out;
    WELL(cu.cuGraphCreate(&graph, 0));
    CUDA_KERNEL_NODE_PARAMS_v2 p = node_of(&space, 2);
    space.out = middle;
    WELL(cu.cuGraphAddKernelNode_v2(&first, graph, NULL, 0, &p));
    WELL(cu.cuGraphAddMemsetNode(&fill_node, graph, &first, 1, &zero, context));
    p = node_of(&space, 3);
    WELL(cu.cuGraphAddKernelNode_v2(&last, graph, &fill_node, 1, &p));
    CUgraphExec exec = instantiated(graph);
    RAN('o', launched(exec, 3));
    launches++; /* the other node */
    RAN('v', ran(middle, 2, 1));
    WELL(cu.cuGraphExecDestroy(exec));
    WELL(cu.cuGraphDestroy(graph));
    WELL(real.cuMemFree_v2(middle));
}

/* Beside graphs, launches are as ever. */
static char eager(void)
{
    void *list[] = {&in, &out, &two, &count};
    launches++;
    WELL(real.cuMemsetD32_v2(out, 0, COUNT));
    WELL(real.cuLaunchKernel(work, 4, 1, 1, 256, 1, 1, 0, NULL, list, NULL));
    return ran(out, 2, 1);
}

static int program(void)
{
    CUmodule module;
    CUlibrary library;
    CUkernel kernel;
    start(&module);
    entries_find();
    fill();
    for (int round = 0; round < 2; round++) {
        RAN('v', eager());
        by_capture();
        by_hand();
        node_updates();
        switched_off();
        whole_updates();
        clones();
        child();
        attributes();
        chain();
        by_its_own_function();
        RAN('v', eager());
        /* the same with a kernel of a library, whose handle is of another kind */
        WELL(cu.cuLibraryLoadData(&library, original, NULL, NULL, 0, NULL, NULL, 0));
        WELL(cu.cuLibraryGetKernel(&kernel, library, "work"));
        work = (CUfunction)(void *)kernel;
    }
    CHECK(swaps == (swapped > 0));
    printf("launches %u swapped %u\n", launches, swapped);
    WELL(cu.cuLibraryUnload(library));
    WELL(real.cuModuleUnload(module));
    WELL(real.cuDevicePrimaryCtxRelease_v2(0));
    return test_result();
}

/* ---- the test ----------------------------------------------------------------------------------
 */

/* Drivers that do not let a node's function change: by whole graphs, or at all. The program does as
 * programs do: an executable that cannot be updated is made again. */
static int stubborn(void)
{
    CUmodule module;
    CUgraphNode node, second, at;
    CUgraphExecUpdateResult why;
    start(&module);
    entries_find();
    fill();
    unsigned failed = 0;
    CUgraph graph = captured_graph(CU_STREAM_CAPTURE_MODE_RELAXED, 2, &node);
    CUgraphExec exec = instantiated(graph);
    bool first = launched(exec, 2) == 'v';
    for (int i = 0; i < 6; i++) {
        float a = i % 2 ? 2 : 3;
        CUgraph next = captured_graph(CU_STREAM_CAPTURE_MODE_RELAXED, a, &second);
        CUresult result = updated(exec, next, (unsigned)i % 2, &why, &at);
        if (result != CUDA_SUCCESS) {
            CHECK(result == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE && at == second);
            CHECK(why == CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED);
            failed++;
            WELL(cu.cuGraphExecDestroy(exec));
            exec = instantiated(next);
        }
        char which = launched(exec, a);
        CHECK(which == 'o' || (a == 2 && which == 'v'));
    }
    printf("variant first: %d, updates that failed: %u\n", first, failed);
    return test_result();
}

static void one_stubborn(const char *setting, const char *words)
{
    CHECK(e2e_run((const char *[]){"/proc/self/exe", "stubborn", NULL},
                  (const char *[]){setting, NULL}, 60) == 0);
    CHECK(strstr(e2e_output, "variant first: 0, updates that failed: 0"));
    if (!CHECK(e2e_run((const char *[]){"/proc/self/exe", "stubborn", NULL},
                       (const char *[]){e2e_preload(), "KGENRT_MODE=cached", setting, NULL},
                       60) == 0) ||
        !CHECK(strstr(e2e_output, words)))
        e2e_show_log();
}

static int sum(json_t *status, const char *key)
{
    json_t *kernel, *process = json_array_get(json_object_get(status, "processes"), 0);
    size_t i;
    int total = 0;
    json_array_foreach(json_object_get(process, "kernels"), i, kernel) total +=
        (int)json_integer_value(json_object_get(kernel, key));
    return total;
}

static void one(const char *mode, bool with)
{
    const char *const command[] = {"/proc/self/exe", "program", with ? "swapped" : "plain",
                                   e2e_gpu ? "gpu" : "soft", NULL};
    const char *const preload[] = {e2e_preload(), mode, NULL};
    if (!CHECK(e2e_run(command, mode ? preload : (const char *[]){NULL}, 120) == 0))
        e2e_show_log();
    const char *line = strstr(e2e_output, "launches ");
    unsigned total = 0, variants = 0;
    CHECK(line && sscanf(line, "launches %u swapped %u", &total, &variants) == 2);
    CHECK(with ? variants > 0 && variants < total : total > 0 && !variants);
    fprintf(stderr, "%s: %u launches, %u of the variant\n", mode ? mode : "alone", total, variants);
    if (!mode || strstr(mode, "=off"))
        return;
    json_t *status = e2e_json("status", NULL);
    CHECK(sum(status, "launches") == (int)total && sum(status, "swapped") == (int)variants);
    CHECK(sum(status, "in_graphs") == (int)total - 4); /* without those of eager() */
    CHECK(!with || strstr(e2e_output, "child graphs are left alone"));
    json_decref(status);
    WELL(system(e2e_text("rm -rf '%s/flight'", e2e_cache)));
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "prepare"))
        return adding_prepare();
    if (argc > 3 && !strcmp(argv[1], "program")) {
        swaps = !strcmp(argv[2], "swapped");
        e2e_gpu = !strcmp(argv[3], "gpu");
        return program();
    }
    if (argc > 1 && !strcmp(argv[1], "stubborn"))
        return stubborn();
    e2e_begin(argc, argv);
    made_environment();
    CHECK(e2e_run((const char *[]){"/proc/self/exe", "prepare", NULL}, NULL, 60) == 0);
    one(NULL, false);
    one("KGENRT_MODE=off", false);
    one("KGENRT_MODE=observe", false);
    one("KGENRT_MODE=cached", true);
    one("KGENRT_MODE=tune", true);
    if (!e2e_gpu) {
        one_stubborn("SOFTGPU_GRAPHS=1", "variant first: 1, updates that failed: 1");
        one_stubborn("SOFTGPU_GRAPHS=2", "variant first: 0, updates that failed: 0");
    }
    e2e_remove_cache();
    return test_result();
}
