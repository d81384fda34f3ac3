/* Executable graphs and variants that come and go: one that is made before its kernel's variant
 * keeps the original, one with a variant that was given up keeps that, each until the program
 * updates it or makes another; and a kernel that is launched in graphs only. `status` says so of
 * each. The variant differs on purpose (adding_variant.h). On the software GPU, or with the
 * argument "gpu" on the machine's. */
#include "adding_variant.h"

#define LIMIT 100 /* seconds */

static float two = 2;
static unsigned count = COUNT;
static void *list[] = {&in, &out, &two, &count};
static CUgraph graph; /* of one launch, by capture */
static CUgraphNode node;

static void begin(void)
{
    CUmodule module;
    CUstream stream;
    size_t nodes = 1;
    start(&module);
    fill();
    WELL(real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    WELL(real.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    WELL(real.cuLaunchKernel(work, 4, 1, 1, 256, 1, 1, 0, stream, list, NULL));
    WELL(real.cuStreamEndCapture(stream, &graph));
    WELL(real.cuGraphGetNodes(graph, &node, &nodes));
}

static CUgraphExec instantiated(void)
{
    CUgraphExec exec;
    WELL(real.cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

static char launched(CUgraphExec exec)
{
    WELL(real.cuMemsetD32_v2(out, 0, COUNT));
    WELL(real.cuGraphLaunch(exec, NULL));
    return ran(out, 2, 1);
}

/* One that is made now. */
static char fresh(void)
{
    CUgraphExec exec = instantiated();
    char which = launched(exec);
    WELL(real.cuGraphExecDestroy(exec));
    return which;
}

static char eager(void)
{
    WELL(real.cuMemsetD32_v2(out, 0, COUNT));
    WELL(real.cuLaunchKernel(work, 4, 1, 1, 256, 1, 1, 0, NULL, list, NULL));
    return ran(out, 2, 1);
}

/* Launches, until a graph that is made now runs this code. */
static bool becomes(char wanted)
{
    double end = e2e_now() + LIMIT;
    while (fresh() != wanted && e2e_now() < end) {
        (void)eager();
        usleep(20000);
    }
    return fresh() == wanted;
}

static void set_params(CUgraphExec exec)
{
    CUDA_KERNEL_NODE_PARAMS_v2 p = adding_node(list);
    WELL(real.cuGraphExecKernelNodeSetParams_v2(exec, node, &p));
}

/* Whether the command succeeds in the end. */
static bool found(const char *command)
{
    double end = e2e_now() + LIMIT;
    bool there = false;
    while (!(there = system(command) == 0) && e2e_now() < end)
        usleep(100000);
    return there;
}

/* ---- programs ----------------------------------------------------------------------------------
 */

/* The variant comes while graphs are there. */
static int late(void)
{
    begin();
    CUgraphExec old = instantiated(), updated = instantiated();
    CHECK(launched(old) == 'o' && launched(updated) == 'o');
    CHECK(adding_prepare() == 0);
    CHECK(becomes('v'));
    CHECK(launched(old) == 'o' && launched(updated) == 'o');
    set_params(updated);
    CHECK(launched(old) == 'o' && launched(updated) == 'v');
    return test_result();
}

/* The variant is found out, after graphs were made with it. */
static int given_up(void)
{
    begin();
    CUgraphExec old = instantiated(), updated = instantiated();
    CHECK(launched(old) == 'v' && launched(updated) == 'v');
    CHECK(becomes('o'));
    CHECK(launched(old) == 'v' && launched(updated) == 'v');
    set_params(updated);
    CHECK(launched(old) == 'v' && launched(updated) == 'o');
    return test_result();
}

/* No launch but those in graphs. */
static int only(void)
{
    begin();
    CUgraphExec exec = instantiated();
    for (int i = 0; i < 300; i++)
        WELL(real.cuGraphLaunch(exec, NULL));
    CHECK(launched(exec) == 'o');
    /* until the watcher has thought about it */
    CHECK(found("grep -q '\"state\":\"cold\"' \"$KGENRT_CACHE\"/flight/*.kgf"));
    return test_result();
}

/* Some launches, then a graph: in the first run the kernel is known to be hot too late, in the next
 * one it is captured from the first launches on. */
static int warm(void)
{
    begin();
    for (int i = 0; i < 5; i++)
        CHECK(eager() == 'o');
    CUgraphExec exec = instantiated();
    for (int i = 0; i < 2000; i++)
        WELL(real.cuGraphLaunch(exec, NULL));
    CHECK(found("ls \"$KGENRT_CACHE\"/ahead/* >/dev/null 2>&1"));
    return test_result();
}

static int warm_again(void)
{
    double end = e2e_now() + LIMIT;
    begin();
    bool there = false;
    while (!(there = !system("ls \"$KGENRT_CACHE\"/spool/*.kgcap >/dev/null 2>&1")) &&
           e2e_now() < end) {
        CHECK(eager() == 'o');
        usleep(100000);
    }
    CHECK(there);
    CHECK(found("! ls \"$KGENRT_CACHE\"/ahead/* >/dev/null 2>&1"));
    return test_result();
}

/* ---- the test ----------------------------------------------------------------------------------
 */

static void one(const char *what, const char *mode, const char *key, int wanted, const char *words)
{
    bool good = CHECK(e2e_run((const char *[]){"/proc/self/exe", what, NULL},
                              (const char *[]){e2e_preload(), mode, NULL}, 3 * LIMIT) == 0);
    if (!good)
        e2e_show_log();
    json_t *status = e2e_json("status", NULL);
    json_t *process = json_array_get(json_object_get(status, "processes"), 0);
    json_t *kernel = json_array_get(json_object_get(process, "kernels"), 0);
    const char *told = json_string_value(json_object_get(kernel, "explanation"));
    CHECK(json_integer_value(json_object_get(kernel, key)) == wanted);
    if (!CHECK(told && strstr(told, words)))
        fprintf(stderr, "%s: %s\n", what, told ? told : "nothing");
    json_decref(status);
    WELL(system(e2e_text("rm -rf '%s'/flight '%s'/spool", e2e_cache, e2e_cache)));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } parts[] = {{"late", late},
                 {"given-up", given_up},
                 {"only", only},
                 {"warm", warm},
                 {"warm-again", warm_again}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (argc > 1 && !strcmp(argv[1], parts[i].name))
            return parts[i].run();
    e2e_begin(argc, argv);
    setenv("KGENRT_WORKER", "off", 1);
    setenv("KGENRT_LIVE_PAIRS", "0", 1);
    one("only", "KGENRT_MODE=tune", "in_graphs", 301,
        "only 0 of its launches were outside of graphs, and within it can be neither timed nor "
        "captured");
    setenv("KGENRT_HOT_LAUNCHES", "1000", 1); /* more than there are outside of graphs */
    one("warm", "KGENRT_MODE=tune", "in_graphs", 2000,
        "which must be one outside of graphs, here or in the next run");
    one("warm-again", "KGENRT_MODE=tune", "in_graphs", 0, "a launch was captured");
    unsetenv("KGENRT_HOT_LAUNCHES");
    setenv("KGENRT_SHADOW_MIB", "0", 1);
    one("late", "KGENRT_MODE=cached", "graphs_behind", 1,
        "the original runs in 1 executable graph");
    unsetenv("KGENRT_SHADOW_MIB"); /* the variant that is there now will be checked */
    one("given-up", "KGENRT_MODE=cached", "graphs_stale", 1,
        "a variant that is not used any more runs in 1 executable graph");
    e2e_remove_cache();
    return test_result();
}
