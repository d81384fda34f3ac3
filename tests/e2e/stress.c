/* Sixteen threads launch, load and unload modules, make streams and contexts, capture graphs, and
 * fork, while variants come, are replaced and are withdrawn every few milliseconds, launches are
 * checked, timed and captured, and the watcher runs fifty times as often as usual. Every result is
 * compared. Meant for the thread sanitizer (preset tsan), and short enough to run in all builds.
 *
 * Hooks and watcher are linked into this program, so that one instrumented program holds them; the
 * software GPU is the library of the same build. `program` is run by the test itself, with the
 * environment it needs; `publish` is the worker's part, a process of its own. */
#define E2E_OWN_PROGRAM 1
#define TICK_NS 2000000L
#include "app/watch.c"

#include <dlfcn.h>
#include <poll.h>
#include <stdlib.h>

#include "interpose.h"
#include "made_variant.h"
#include "turning_kernel.h"

enum { N = 256, BYTES = 4 * N, BLOCK = 64, MODULES = 4, THREADS = 16, PLANS = 4 };

static const char original[] = BODY("work", "9", "");
static const char lone[] = BODY("work", "7", ""); /* a kernel without variants: it is captured */
static const char *const variants[] = {BODY("fast", "2", ""), BODY("fast", "1", ""),
                                       BODY("fast", "3", "")};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* ---- publish: what a worker does to the cache ---------------------------------------------------
 */

static struct kg_id published[VARIANTS];

static void put(struct store *store, struct kg_variant *v, unsigned which, uint64_t time)
{
    bool best;
    v->time = time; /* verified anew: not demoted any more */
    v->ratio = v->high = 2 + which;
    WELL(store_put_blob(store, variants[which], strlen(variants[which]) + 1, &v->code));
    variant_identify(v);
    published[which] = v->id;
    WELL(store_put_variant(store, v, &best));
}

/* One, another and faster one, the first again, none … until standard input ends. */
static int publish(void)
{
    struct made made;
    struct store *store;
    struct kg_scalar scalars[] = {{2, 0, 4, N, 0}};
    struct kg_pointer pointers[] = {{0, 0, 16, KG_READ, 0, BYTES},
                                    {1, 0, 16, KG_WRITTEN, 0, BYTES}};
    struct pollfd parent = {.fd = 0, .events = POLLIN};
    CHECK(driver_ready());
    struct kg_variant v = made_begin(&made, original);
    v.launch = (struct kg_launch){{N / BLOCK, 1, 1}, {BLOCK, 1, 1}, 0};
    v.signature = (struct kg_signature){.launch = v.launch,
                                        .scalar_count = 1,
                                        .pointer_count = 2,
                                        .scalars = scalars,
                                        .pointers = pointers};
    v.note = "made by hand";
    WELL(store_open(cache_dir(), false, &store));
    WELL(store_put_hardware(store, &made.hardware));
    WELL(store_put_blob(store, "{}", 2, &v.evidence));
    for (uint64_t turn = 0; poll(&parent, 1, 2) == 0; turn++) {
        unsigned which = turn / 2 % VARIANTS;
        if (turn % 2 == 0)
            put(store, &v, which, 1700000000 + turn);
        else if (turn % (2 * VARIANTS) == 2 * VARIANTS - 1) /* the last of a round: none is left */
            for (unsigned i = 0; i < VARIANTS; i++)
                WELL(store_demote(store, &published[i], "a test"));
        else
            WELL(store_demote(store, &published[which], "a test"));
        WELL(snapshot_make(store, cache_dir(), &v.hardware));
    }
    store_close(store);
    kernel_model_free(&made.model);
    image_code_free(&made.code);
    return test_result();
}

/* ---- program ------------------------------------------------------------------------------------
 */

static struct real_driver app; /* the driver as a program finds it: through the hooks */
static void *driver;
static CUcontext context;
static CUfunction shared[MODULES + 1]; /* the last is the one without variants */
static atomic_bool over;
/* Whoever waits for the whole context while a stream in it is being captured breaks the capture. */
static pthread_rwlock_t capturing = PTHREAD_RWLOCK_INITIALIZER;
static _Atomic unsigned long launches, wrong, rounds[PLANS];

static void well(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS && atomic_fetch_add(&wrong, 1) < 10)
        fprintf(stderr, "%s: %d\n", what, (int)result);
}
#define DO(name, ...) well(app.name(__VA_ARGS__), #name)
#define ENTRY(name) ((__typeof__(&name))(uintptr_t)dlsym(driver, #name))

struct buffers {
    CUdeviceptr in, out;
    float first;
};

static void buffers_make(struct buffers *b, float first)
{
    float host[N];
    b->first = first;
    for (int i = 0; i < N; i++)
        host[i] = (float)i + first;
    DO(cuMemAlloc_v2, &b->in, BYTES);
    DO(cuMemAlloc_v2, &b->out, BYTES);
    DO(cuMemcpyHtoD_v2, b->in, host, BYTES);
}

static void buffers_free(const struct buffers *b)
{
    DO(cuMemFree_v2, b->in);
    DO(cuMemFree_v2, b->out);
}

static void enqueue(CUfunction work, struct buffers *b, CUstream stream)
{
    unsigned n = N;
    void *params[] = {&b->in, &b->out, &n};
    DO(cuLaunchKernel, work, N / BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, params, NULL);
    launches++;
}

static void compare(struct buffers *b)
{
    float host[N];
    DO(cuMemcpyDtoH_v2, host, b->out, BYTES);
    for (int i = 0; i < N; i++)
        if (host[i] != ((float)i + b->first) * 2 + 1) {
            well(CUDA_ERROR_UNKNOWN, "a result is wrong");
            return;
        }
}

/* whole: the context is waited for, which is where variants are loaded. */
static void run_and_compare(CUfunction work, struct buffers *b, CUstream stream, bool whole)
{
    DO(cuMemsetD32Async, b->out, 0x7f000000, N, stream);
    enqueue(work, b, stream);
    if (!whole) {
        DO(cuStreamSynchronize, stream);
    } else {
        pthread_rwlock_wrlock(&capturing);
        DO(cuCtxSynchronize);
        pthread_rwlock_unlock(&capturing);
    }
    compare(b);
}

/* Launches of kernels that all threads launch, in a stream that is made anew at times. */
static void launch_round(struct buffers *b, unsigned turn)
{
    CUstream stream;
    DO(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    for (unsigned i = 0; i < 8; i++)
        run_and_compare(shared[(turn + i) % (MODULES + 1)], b, stream, i == 7);
    DO(cuStreamDestroy_v2, stream);
}

/* A module comes, is used and goes; every third time as a library. */
static void module_round(struct buffers *b, unsigned turn)
{
    CUmodule module;
    CUlibrary library;
    CUkernel kernel;
    CUfunction work = NULL;
    bool whole = turn % 3 == 0;
    if (whole) {
        DO(cuLibraryLoadData, &library, original, NULL, NULL, 0, NULL, NULL, 0);
        DO(cuLibraryGetKernel, &kernel, library, "work");
        work = (CUfunction)(void *)kernel;
    } else {
        DO(cuModuleLoadData, &module, turn % 3 == 1 ? original : lone);
        DO(cuModuleGetFunction, &work, module, "work");
    }
    for (unsigned i = 0; i < 4; i++)
        run_and_compare(work, b, NULL, false);
    if (whole)
        DO(cuLibraryUnload, library);
    else
        DO(cuModuleUnload, module);
}

/* The same as before: of one node, of all. */
static void graph_update_some(CUgraphExec exec, CUgraph graph, unsigned turn)
{
    CUgraphNode nodes[3];
    CUDA_KERNEL_NODE_PARAMS_v2 params;
    CUgraphExecUpdateResultInfo info;
    size_t count = 3;
    if (turn) {
        well(ENTRY(cuGraphExecUpdate_v2)(exec, graph, &info), "cuGraphExecUpdate");
        return;
    }
    well(ENTRY(cuGraphGetNodes)(graph, nodes, &count), "cuGraphGetNodes");
    well(ENTRY(cuGraphKernelNodeGetParams_v2)(nodes[1], &params), "cuGraphKernelNodeGetParams");
    well(ENTRY(cuGraphExecKernelNodeSetParams_v2)(exec, nodes[1], &params), "node");
}

static void graph_round(struct buffers *b, unsigned turn)
{
    CUstream stream;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    DO(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    pthread_rwlock_rdlock(&capturing);
    DO(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    for (unsigned i = 0; i < 3; i++)
        enqueue(shared[(turn + i) % MODULES], b, stream);
    DO(cuStreamEndCapture, stream, &graph);
    pthread_rwlock_unlock(&capturing);
    well(ENTRY(cuGraphInstantiateWithFlags)(&exec, graph, 0), "instantiate");
    for (unsigned i = 0; i < 3; i++) {
        DO(cuMemsetD32Async, b->out, 0x7f000000, N, stream);
        well(ENTRY(cuGraphLaunch)(exec, stream), "cuGraphLaunch");
        DO(cuStreamSynchronize, stream);
        compare(b);
        graph_update_some(exec, graph, i);
    }
    well(ENTRY(cuGraphExecDestroy)(exec), "cuGraphExecDestroy");
    well(ENTRY(cuGraphDestroy)(graph), "cuGraphDestroy");
    DO(cuStreamDestroy_v2, stream);
}

/* A context of its own with a module in it; and a child process, where kgenrt is off. */
static void context_round(struct buffers *b, unsigned turn)
{
    CUcontext own;
    CUmodule module;
    CUfunction work = NULL;
    struct buffers there;
    DO(cuCtxCreate_v2, &own, 0, 0);
    DO(cuModuleLoadData, &module, original);
    DO(cuModuleGetFunction, &work, module, "work");
    buffers_make(&there, b->first);
    for (unsigned i = 0; i < 4; i++)
        run_and_compare(work, &there, NULL, true);
    DO(cuCtxDestroy_v2, own);
    DO(cuCtxSetCurrent, context);
    pid_t child = fork();
    if (!child)
        _exit(app_active());
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || status)
        wrong++;
}

static const struct plan_of {
    void (*round)(struct buffers *, unsigned);
    unsigned threads;
} plans[PLANS] = {{launch_round, 11}, {module_round, 2}, {graph_round, 2}, {context_round, 1}};

struct thread {
    pthread_t thread;
    unsigned plan, index;
};

static void *work(void *argument)
{
    const struct thread *self = argument;
    struct buffers b;
    DO(cuCtxSetCurrent, context);
    buffers_make(&b, (float)self->index);
    for (unsigned turn = self->index; !over; turn++) {
        plans[self->plan].round(&b, turn);
        rounds[self->plan]++;
    }
    buffers_free(&b);
    return NULL;
}

static void start_program(void)
{
    CUmodule module;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!CHECK(driver))
        exit(1);
    for (unsigned i = 0; i < real_row_count; i++) {
        void *address = dlsym(driver, real_rows[i].symbol);
        memcpy((char *)&app + real_rows[i].offset, &address, sizeof address);
    }
    CHECK((void *)app.cuLaunchKernel == (void *)cuLaunchKernel); /* the hooks are what it finds */
    DO(cuInit, 0);
    DO(cuDevicePrimaryCtxRetain, &context, 0);
    DO(cuCtxSetCurrent, context);
    for (unsigned i = 0; i <= MODULES; i++) {
        DO(cuModuleLoadData, &module, i < MODULES ? original : lone);
        DO(cuModuleGetFunction, &shared[i], module, "work");
    }
}

/* How often the tables of the shared kernels changed, as seen every half millisecond. */
static unsigned long swaps_seen(void)
{
    static const struct swap *last[MODULES];
    static unsigned long count;
    for (unsigned i = 0; i < MODULES; i++) {
        const struct kernel *kernel = kernel_find(shared[i]);
        const struct swap *now = kernel ? atomic_load(&kernel->swap) : NULL;
        count += now != last[i];
        last[i] = now;
    }
    return count;
}

struct seen {
    unsigned long checked, pairs, swapped, captured;
};

/* What befell the shared kernels until now. */
static struct seen look(void)
{
    struct seen seen = {0};
    records_lock();
    for (const struct kernel *k = kernels_first(); k; k = k->next) {
        seen.captured += atomic_load(&k->state) == KERNEL_CAPTURED;
        seen.swapped += atomic_load(&k->swapped);
        for (const struct track *t = k->tracks; t; t = t->next)
            seen.checked += t->checked;
    }
    records_unlock();
    return seen;
}

static int program(const char *seconds)
{
    struct thread threads[THREADS];
    unsigned count = 0;
    unsigned long swaps = 0;
    struct seen seen = {0};
    start_program();
    double end = e2e_now() + atof(seconds), last = end + 240;
    for (unsigned plan = 0; plan < PLANS; plan++)
        for (unsigned i = 0; i < plans[plan].threads; i++, count++) {
            threads[count].plan = plan;
            threads[count].index = count;
            WELL(pthread_create(&threads[count].thread, NULL, work, &threads[count]));
        }
    CHECK(count == THREADS);
    /* on a slow machine as long as it takes for all of it to have happened */
    for (bool enough = false; e2e_now() < end || (!enough && e2e_now() < last);) {
        usleep(500);
        swaps = swaps_seen();
        enough = swaps >= 50 && rounds[1] >= 10 && rounds[2] >= 10 && rounds[3] >= 3;
        seen = enough ? look() : seen;
        enough = enough && seen.checked >= 3 && seen.captured && seen.swapped >= 50;
    }
    over = true;
    for (unsigned i = 0; i < count; i++)
        WELL(pthread_join(threads[i].thread, NULL));
    CHECK(wrong == 0);
    CHECK(swaps >= 50 && seen.checked >= 3 && seen.captured && seen.swapped >= 50);
    CHECK(rounds[1] >= 10 && rounds[2] >= 10 && rounds[3] >= 3);
    printf("%lu launches, %lu of a variant, %lu changes of tables, %lu checks, %lu modules, %lu "
           "graphs, %lu contexts\n",
           launches, seen.swapped, swaps, seen.checked, rounds[1], rounds[2], rounds[3]);
    return test_result();
}

/* ---- the test ----------------------------------------------------------------------------------
 */

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "publish"))
        return publish();
    if (argc > 2 && !strcmp(argv[1], "program"))
        return program(argv[2]);
    e2e_begin(argc, argv);
    int pipes[2];
    WELL(pipe2(pipes, O_CLOEXEC));
    setenv("KGENRT_WORKER", "off", 1);
    const char *const environment[] = {"KGENRT_MODE=tune",       "KGENRT_HOT_LAUNCHES=8",
                                       "KGENRT_SHADOW_EVERY=32", "KGENRT_SHADOW_FIRST=1",
                                       "KGENRT_LOG=error",       NULL};
    pid_t publisher = fork();
    if (!publisher) {
        dup2(pipes[0], 0);
        execl("/proc/self/exe", "stress", "publish", (char *)NULL);
        _exit(127);
    }
    const char *seconds = e2e_place("STRESS_SECONDS", "4");
    int status =
        e2e_run((const char *[]){"/proc/self/exe", "program", seconds, NULL}, environment, 400);
    fprintf(stderr, "%s", e2e_output);
    if (!CHECK(status == 0))
        e2e_show_log();
    close(pipes[1]);
    CHECK(waitpid(publisher, &status, 0) == publisher && status == 0);
    e2e_remove_cache();
    return test_result();
}
