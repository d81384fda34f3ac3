/* Stream capture is never broken: what a program gets from each call that is hooked, made while a
 * stream is captured in each of the three modes, and what becomes of that capture, is the same
 * without the library and with it, while another thread launches and kgenrt checks, times and
 * captures these launches. And the watcher loads a variant while a capture is open. On the software
 * GPU, or with the argument "gpu" on the machine's. */
#include "adding_variant.h"
#include "softgpu/soft_entries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

static const char equal[] =
    BODY("fast", ", .param .u64 c", "ld.param.u64 %d6, [c]; ld.global.f32 %f3, [%d6];\n", "");

static float two = 2, three = 3;
static unsigned count = COUNT;
static CUstream captured, other;
static CUresult (*add_kernel)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                              const CUDA_KERNEL_NODE_PARAMS_v2 *);
static CUresult (*graph_make)(CUgraph *, unsigned);

static CUresult launch_in(CUstream stream, float *a)
{
    void *list[] = {&in, &out, a, &count};
    return real.cuLaunchKernel(work, 4, 1, 1, 256, 1, 1, 0, stream, list, NULL);
}

/* ---- another thread ----------------------------------------------------------------------------
 */

enum { MOST_AHEAD = 16 };
static atomic_bool stop;
static atomic_uint over; /* launches that have ended */

static void count_over(void *unused)
{
    atomic_fetch_add(&over, 1);
}

/* Launches are allowed in any thread, whatever is captured elsewhere. */
static void *launch_on(void *context)
{
    WELL(real.cuCtxSetCurrent(context));
    for (unsigned i = 0; !atomic_load(&stop); i++) {
        WELL(launch_in(other, i % 2 ? &two : &three));
        WELL(real.cuLaunchHostFunc(other, count_over, NULL));
        do /* few at a time: who synchronizes has to wait for them all */
            usleep(500);
        while (i + 1 - atomic_load(&over) > MOST_AHEAD && !atomic_load(&stop));
    }
    return NULL;
}

/* ---- calls -------------------------------------------------------------------------------------
 */

static struct {
    CUmodule module;
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    CUcontext context;
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
} have;

static CUresult with_module(CUresult (*then)(CUmodule module))
{
    CUmodule module;
    CUresult result = real.cuModuleLoadData(&module, original);
    if (result == CUDA_SUCCESS && then)
        result = then(module);
    CUresult end = result == CUDA_SUCCESS ? real.cuModuleUnload(module) : result;
    return result == CUDA_SUCCESS ? end : result;
}

static CUresult look_up(CUmodule module)
{
    CUfunction function;
    return real.cuModuleGetFunction(&function, module, "work");
}

static CUresult with_library(void)
{
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    CUresult result = real.cuLibraryLoadData(&library, original, NULL, NULL, 0, NULL, NULL, 0);
    if (result == CUDA_SUCCESS)
        result = real.cuLibraryGetKernel(&kernel, library, "work");
    if (result == CUDA_SUCCESS)
        result = real.cuKernelGetFunction(&function, kernel);
    return result == CUDA_SUCCESS ? real.cuLibraryUnload(library) : result;
}

static CUresult allocated(CUresult result, CUdeviceptr *memory)
{
    return result == CUDA_SUCCESS ? real.cuMemFree_v2(*memory) : result;
}

static CUresult extended(CUlaunchAttributeID id, CUlaunchAttributeValue value)
{
    void *list[] = {&in, &out, &two, &count};
    CUlaunchAttribute attribute = {.id = id, .value = value};
    CUlaunchConfig config = {4, 1, 1, 256, 1, 1, 0, captured, &attribute, 1};
    return real.cuLaunchKernelEx(&config, work, list, NULL);
}

static CUresult node_set(float *a)
{
    void *list[] = {&in, &out, a, &count};
    CUDA_KERNEL_NODE_PARAMS_v2 p = adding_node(list);
    return real.cuGraphExecKernelNodeSetParams_v2(have.exec, have.node, &p);
}

static CUresult whole_update(void)
{
    CUgraphExecUpdateResultInfo info;
    return real.cuGraphExecUpdate_v2(have.exec, have.graph, &info);
}

static CUresult another_instance(void)
{
    CUgraphExec exec;
    CUresult result = real.cuGraphInstantiateWithFlags(&exec, have.graph, 0);
    return result == CUDA_SUCCESS ? real.cuGraphExecDestroy(exec) : result;
}

static CUresult retain_release(void)
{
    CUcontext context;
    CUresult result = real.cuDevicePrimaryCtxRetain(&context, 0);
    return result == CUDA_SUCCESS ? real.cuDevicePrimaryCtxRelease_v2(0) : result;
}

static CUresult push_pop(void)
{
    CUcontext popped;
    CUresult result = real.cuCtxPushCurrent_v2(have.context);
    return result == CUDA_SUCCESS ? real.cuCtxPopCurrent_v2(&popped) : result;
}

enum { PAUSE = 33 };

/* An index over them all; false: no more. */
static bool call(unsigned index, const char **name, CUresult *result)
{
    CUdeviceptr memory = 0;
    CUmodule module;
    size_t pitch;
    void *found;
    switch (index) {
#define CALL(number, expression)                                                                   \
    case number:                                                                                   \
        *name = #expression;                                                                       \
        if (result)                                                                                \
            *result = (expression);                                                                \
        return true;
        CALL(0, CUDA_SUCCESS)
        CALL(1, real.cuInit(0))
        CALL(2, retain_release())
        CALL(3, real.cuCtxSetCurrent(have.context))
        CALL(4, push_pop())
        CALL(5, real.cuCtxSynchronize())
        CALL(6, with_module(NULL))
        CALL(7, with_module(look_up))
        CALL(8, with_library())
        CALL(9, real.cuLibraryGetModule(&module, have.library))
        CALL(10,
             real.cuFuncSetAttribute(work, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50))
        CALL(11, real.cuFuncSetCacheConfig(work, CU_FUNC_CACHE_PREFER_L1))
        CALL(12, allocated(real.cuMemAlloc_v2(&memory, BYTES), &memory))
        CALL(13, allocated(real.cuMemAllocPitch_v2(&memory, &pitch, 256, 4, 4), &memory))
        CALL(14, allocated(real.cuMemAllocManaged(&memory, BYTES, CU_MEM_ATTACH_GLOBAL), &memory))
        CALL(15, launch_in(captured, &two))
        CALL(16, launch_in(captured, &three))
        CALL(17, launch_in(other, &two))
        CALL(18, launch_in(CU_STREAM_LEGACY, &two))
        CALL(19, launch_in(CU_STREAM_PER_THREAD, &two))
        CALL(20, extended(CU_LAUNCH_ATTRIBUTE_PRIORITY, (CUlaunchAttributeValue){.priority = 0}))
        CALL(21,
             extended(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, (CUlaunchAttributeValue){.cooperative = 1}))
        CALL(22, another_instance())
        CALL(23, node_set(&two))
        CALL(24, node_set(&three))
        CALL(25, whole_update())
        CALL(26, real.cuGraphLaunch(have.exec, other))
        CALL(27, real.cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED))
        CALL(28, real.cuStreamBeginCapture(captured))
        CALL(29, real.cuStreamEndCapture(other, &have.graph))
        CALL(30, real.cuGetProcAddress_v2("cuLaunchKernel", &found, 12000, 0, NULL))
        CALL(31, real.cuModuleGetFunction(&have.function, have.module, "work"))
        CALL(32, real.cuLibraryGetKernel(&have.kernel, have.library, "work"))
        CALL(PAUSE, (usleep(150000), CUDA_SUCCESS)) /* the watcher's turn, at least once */
    default:
        return false;
    }
}

static void prepare_calls(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    WELL(!library);
    *(void **)&add_kernel = dlsym(library, "cuGraphAddKernelNode_v2");
    *(void **)&graph_make = dlsym(library, "cuGraphCreate");
    WELL(!add_kernel || !graph_make);
    void *list[] = {&in, &out, &two, &count};
    CUDA_KERNEL_NODE_PARAMS_v2 p = adding_node(list);
    WELL(graph_make(&have.graph, 0));
    WELL(add_kernel(&have.node, have.graph, NULL, 0, &p));
    WELL(real.cuGraphInstantiateWithFlags(&have.exec, have.graph, 0));
    WELL(real.cuLibraryLoadData(&have.library, original, NULL, NULL, 0, NULL, NULL, 0));
    WELL(real.cuModuleLoadData(&have.module, original));
    WELL(real.cuCtxGetCurrent(&have.context));
}

/* One call in a capture of its own, between two launches. */
static void within(unsigned index, CUstreamCaptureMode mode, unsigned flags, bool say)
{
    const char *name = "";
    CUresult result = CUDA_SUCCESS, end;
    CUgraph graph = NULL;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    size_t nodes = 0;
    WELL(real.cuStreamCreate(&captured, flags));
    WELL(real.cuStreamBeginCapture_v2(captured, mode));
    CUresult before = launch_in(captured, &two);
    (void)call(index, &name, &result);
    CUresult after = launch_in(captured, &three);
    WELL(real.cuStreamIsCapturing(captured, &status));
    end = real.cuStreamEndCapture(captured, &graph);
    if (graph)
        WELL(real.cuGraphGetNodes(graph, NULL, &nodes));
    if (say)
        printf("mode %d, stream %u, %s: %d; launches %d %d, status %d, end %d, %zu nodes\n",
               (int)mode, flags, name, (int)result, (int)before, (int)after, (int)status, (int)end,
               nodes);
    if (graph)
        WELL(real.cuGraphDestroy(graph));
    WELL(real.cuStreamDestroy_v2(captured));
}

static void begin(void)
{
    CUmodule module;
    start(&module);
    fill();
    WELL(real.cuCtxSynchronize());
    WELL(real.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
}

/* Captures in which nothing special is done, until the shell says that something came to pass. */
static void awaited(const char *passed)
{
    for (double end = e2e_now() + 100; system(passed) && e2e_now() < end;)
        for (unsigned i = 0; i < 10; i++)
            within(0, CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_NON_BLOCKING, false);
}

/* The variant runs, and a check of it was read. */
static const char *variant_at_work(void)
{
    return e2e_text("s=$(env -u LD_PRELOAD KGENRT_LOG=error '%s' status --json) && "
                    "echo \"$s\" | grep -q '\"swapped\": [1-9]' && "
                    "echo \"$s\" | grep -q '\"checked\": [1-9]'",
                    e2e_cli());
}

static int all_calls(void)
{
    pthread_t thread;
    const char *name, *option = getenv("KGENRT_MODE"), *pairs = getenv("KGENRT_LIVE_PAIRS");
    begin();
    prepare_calls();
    WELL(pthread_create(&thread, NULL, launch_on, have.context));
    if (option && strcmp(option, "observe") != 0) /* so that it all goes on meanwhile */
        awaited(variant_at_work());
    for (int mode = CU_STREAM_CAPTURE_MODE_GLOBAL; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++)
        for (unsigned flags = CU_STREAM_DEFAULT; flags <= CU_STREAM_NON_BLOCKING; flags++)
            for (unsigned i = 0; call(i, &name, NULL); i++)
                if (i != PAUSE || flags == CU_STREAM_NON_BLOCKING) /* it takes time */
                    within(i, (CUstreamCaptureMode)mode, flags, true);
    if (option && !strcmp(option, "tune") && pairs &&
        !strcmp(pairs, "0")) /* untimed, one is to come */
        awaited("ls \"$KGENRT_CACHE\"/spool/*.kgcap >/dev/null 2>&1");
    atomic_store(&stop, true);
    WELL(pthread_join(thread, NULL));
    WELL(launch_in(other, &two));
    return ran(out, 2, 1) != 'o'; /* and without the number of checks, which varies */
}

/* ---- the watcher loads -------------------------------------------------------------------------
 */

/* A module so large that kgenrt leaves it to its watcher, which may load its variant while nothing
 * runs: within a capture in the strictest mode. */
static int watcher_loads(void)
{
    enum { PADDING = 200 << 10 };
    CUmodule module;
    CUgraph graph;
    size_t nodes = 0, length = strlen(original);
    char *large = malloc(length + PADDING + 1);
    begin();
    WELL(!large);
    memcpy(large, original, length);
    memset(large + length, '\n', PADDING);
    large[length + PADDING] = 0;
    WELL(real.cuModuleLoadData(&module, large));
    WELL(real.cuModuleGetFunction(&work, module, "work"));
    WELL(real.cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    WELL(real.cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
    WELL(launch_in(captured, &two));
    float got = 0;
    for (double end = e2e_now() + 100; got < 100 && e2e_now() < end; usleep(100000)) {
        WELL(launch_in(other, &two));
        WELL(real.cuMemcpyDtoHAsync_v2(&got, out, sizeof got, other)); /* in[0] is 0 */
        WELL(real.cuStreamSynchronize(other));
    }
    CHECK(got == 101); /* the variant's */
    WELL(launch_in(captured, &two));
    WELL(real.cuStreamEndCapture(captured, &graph));
    WELL(real.cuGraphGetNodes(graph, NULL, &nodes));
    CHECK(nodes == 2);
    free(large);
    return test_result();
}

/* ---- the test ----------------------------------------------------------------------------------
 */

static bool run(const char *what, const char *mode, const char *pairs)
{
    const char *const preload[] = {e2e_preload(),        mode, pairs, "KGENRT_HOT_LAUNCHES=1",
                                   "KGENRT_HOT_SHARE=0", NULL};
    bool good = CHECK(e2e_run((const char *[]){"/proc/self/exe", what, NULL},
                              mode ? preload : (const char *[]){NULL}, 200) == 0);
    if (!good)
        e2e_show_log();
    return good;
}

/* The sum over the kernels of the last process, or over their variants. */
static int sum(const char *key, bool variants)
{
    json_t *status = e2e_json("status", NULL), *kernel, *one;
    json_t *process = json_array_get(json_object_get(status, "processes"), 0);
    size_t i, k;
    int total = 0;
    json_array_foreach(json_object_get(process, "kernels"), i, kernel)
    {
        total += variants ? 0 : (int)json_integer_value(json_object_get(kernel, key));
        json_array_foreach(json_object_get(kernel, "variants"), k, one) total +=
            variants ? (int)json_integer_value(json_object_get(one, key)) : 0;
    }
    json_decref(status);
    return total;
}

/* The variant is equal, and checked and timed all the time. */
static void same_answers(void)
{
    static char alone[sizeof e2e_output];
    /* equal is not faster: timed, the variant is given up, and the kernel not captured any more */
    static const struct {
        const char *mode, *pairs;
    } ways[] = {{"KGENRT_MODE=observe", "KGENRT_LIVE_PAIRS=0"},
                {"KGENRT_MODE=cached", "KGENRT_LIVE_PAIRS=0"},
                {"KGENRT_MODE=tune", "KGENRT_LIVE_PAIRS=0"},
                {"KGENRT_MODE=tune", "KGENRT_LIVE_PAIRS=512"}};
    setenv("KGENRT_SHADOW_EVERY", "2", 1);
    CHECK(e2e_run((const char *[]){"/proc/self/exe", "equal", NULL}, NULL, 60) == 0);
    run("calls", NULL, NULL);
    strcpy(alone, e2e_output);
    unsigned lines = 0;
    for (const char *c = alone; *c; c++)
        lines += *c == '\n';
    CHECK(lines > 6 * 30 && strstr(alone, "status 2") && strstr(alone, "status 1"));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        run("calls", ways[i].mode, ways[i].pairs);
        if (!CHECK(!strcmp(alone, e2e_output))) {
            const char *a = alone, *b = e2e_output;
            while (*a && *a == *b)
                a++, b++;
            while (a > alone && a[-1] != '\n')
                a--, b--;
            fprintf(stderr, "%s: alone\n%.200s\nwith the library\n%.200s\n", ways[i].mode, a, b);
        }
        bool cached = i == 1, tune = i == 2;
        CHECK(sum("in_graphs", false) > 0);
        CHECK(!cached || (sum("swapped", false) > 0 && sum("checked", true) > 0));
        CHECK(!tune || system(e2e_text("ls '%s'/spool/*.kgcap >/dev/null", e2e_cache)) == 0);
        WELL(system(e2e_text("rm -rf '%s/flight'", e2e_cache)));
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } parts[] = {{"calls", all_calls}, {"watcher", watcher_loads}, {"adding", adding_prepare}};
    if (argc > 1 && !strcmp(argv[1], "equal"))
        return adding_publish(equal);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (argc > 1 && !strcmp(argv[1], parts[i].name))
            return parts[i].run();
    e2e_begin(argc, argv);
    setenv("KGENRT_WORKER", "off", 1);
    same_answers();
    e2e_remove_cache();
    e2e_fresh_cache();
    made_environment();
    CHECK(e2e_run((const char *[]){"/proc/self/exe", "adding", NULL}, NULL, 60) == 0);
    run("watcher", "KGENRT_MODE=cached", "KGENRT_LIVE_PAIRS=0");
    e2e_remove_cache();
    return test_result();
}
