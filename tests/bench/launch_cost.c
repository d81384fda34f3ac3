/* What a launch costs through the hook, with an empty function for a driver: nanoseconds a launch,
 * median and 99th percentile of batches of 128 launches, for
 *
 *   no preload; a hook that only calls the driver (empty_hook.c), the floor; a function that was
 *   never looked up; a known kernel without a variant; with one variant; with eight guarded
 *   variants, the last of which fits
 *
 * in 1, 2, 4 and 16 threads that launch the same 16 kernels, and in one thread that launches 1,000
 * in turn. Each case is a process; they measure in turns, in many short rounds, and what is printed
 * is the median over the rounds: others may use the machine. Where there is valgrind, instructions
 * a launch are counted too, which nobody disturbs.
 *
 *   launch_cost [ROUNDS [count]]   prints the table and whether the goals hold, and fails if not
 *
 * Threads beyond the processors do not run at the same time: the table says how many there are.
 * They run before all others' (SCHED_RR), where that is allowed: else threads seldom meet on a busy
 * machine, and contention is not seen. */
#include "bench.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#define BATCH_NS 15000000u /* that a thread measures in one round, at least */
enum { HOT = 16, MANY = 1000, THREADS = 16, BATCH = 128, BATCHES = 20000, COUNTED = 20000 };

/* ---- a case: the process that launches ----------------------------------------------------------
 */

static CUfunction functions[MANY];
static CUdeviceptr memory[MANY + 2];
static const CUfunction *launched; /* of this thread, by the driver */

static inline void launch_one(unsigned kernel)
{
    unsigned n = BENCH_N, m = BENCH_M;
    float x = bench_x;
    void *params[] = {&memory[kernel], &memory[kernel + 1], &memory[kernel + 2], &n, &x, &m};
    (void)cuLaunchKernel(functions[kernel], 4, 1, 1, 256, 1, 1, 0, NULL, params, NULL);
}

static struct {
    unsigned threads, kernels;
    pthread_barrier_t start;
    double *values; /* BATCHES a thread */
    unsigned counts[THREADS];
} run;

static void *measure(void *argument)
{
    unsigned self = (unsigned)(uintptr_t)argument, kernel = self % run.kernels, count = 0;
    double *values = run.values + (size_t)self * BATCHES;
    pthread_barrier_wait(&run.start);
    for (uint64_t begun = now_ns(), before = begun, now = begun;
         count < BATCHES && now - begun < BATCH_NS; before = now) {
        for (unsigned i = 0; i < BATCH; i++) {
            launch_one(kernel);
            kernel = kernel + 1 == run.kernels ? 0 : kernel + 1;
        }
        now = now_ns();
        values[count++] = (double)(now - before) / BATCH;
    }
    run.counts[self] = count;
    return NULL;
}

/* Answers "threads kernels" with "median p99". */
static void answer(unsigned threads, unsigned kernels)
{
    pthread_t all[THREADS];
    size_t count = 0;
    run.threads = threads;
    run.kernels = kernels;
    WELL(pthread_barrier_init(&run.start, NULL, threads));
    for (unsigned i = 0; i < threads; i++)
        WELL(pthread_create(&all[i], NULL, measure, (void *)(uintptr_t)i));
    for (unsigned i = 0; i < threads; i++) {
        WELL(pthread_join(all[i], NULL));
        memmove(run.values + count, run.values + (size_t)i * BATCHES,
                run.counts[i] * sizeof *run.values);
        count += run.counts[i];
    }
    WELL(pthread_barrier_destroy(&run.start));
    double median = quantile(run.values, count, 0.5);
    printf("%.3f %.3f\n", median, quantile(run.values, count, 0.99));
    fflush(stdout);
}

/* How many kernels' launches arrive as another function. */
static unsigned swapped(unsigned kernels)
{
    unsigned count = 0;
    for (unsigned i = 0; i < kernels; i++) {
        launch_one(i);
        count += *launched != functions[i];
    }
    return count;
}

static void set_up(bool known, bool variants, unsigned kernels)
{
    CUcontext context;
    WELL(cuInit(0));
    WELL(cuDevicePrimaryCtxRetain(&context, 0));
    WELL(cuCtxSetCurrent(context));
    for (unsigned i = 0; i < MANY + 2; i++)
        WELL(cuMemAlloc_v2(&memory[i], 4096));
    for (unsigned i = 0; i < kernels; i++) {
        CUmodule module;
        functions[i] = (CUfunction)(uintptr_t)(0x7000000 + 0x100 * i); /* never looked up */
        if (!known)
            continue;
        WELL(cuModuleLoadData(&module, bench_ptx(0)));
        WELL(cuModuleGetFunction(&functions[i], module, "work"));
    }
    unsigned wanted = variants ? kernels : 0, count = swapped(kernels);
    for (int i = 0; count != wanted && i < 1000; i++) {
        usleep(10000); /* first launches are checked; safe points load a few each */
        WELL(cuCtxSynchronize());
        count = swapped(kernels);
    }
    if (count != wanted) {
        fprintf(stderr, "%u kernels run a variant, not %u\n", count, wanted);
        exit(2);
    }
}

static int serve(const char *what, const char *once)
{
    extern __thread CUfunction fake_launched;
    unsigned threads, kernels;
    launched = &fake_launched;
    set_up(strcmp(what, "unknown"), !strcmp(what, "variants"), once ? HOT : MANY);
    if (once) { /* for valgrind: so many launches */
        for (long i = 0, count = atol(once); i < count; i++)
            launch_one(i % HOT);
        return 0;
    }
    struct sched_param first = {.sched_priority = 1};
    (void)sched_setscheduler(0, SCHED_RR, &first);
    run.values = malloc(sizeof *run.values * THREADS * BATCHES);
    while (run.values && scanf("%u %u", &threads, &kernels) == 2)
        answer(threads, kernels);
    return 0;
}

/* ---- the table ----------------------------------------------------------------------------------
 */

enum { EMPTY = 1, CASES = 6, SHAPES = 5, SIXTEEN = 3, ROUNDS_MOST = 1000 };

static const struct {
    const char *name, *serves;
    const char *preload; /* library; NULL: none */
    unsigned variants;
    double goal; /* nanoseconds above the empty hook, in one thread; 0: none */
} cases[CASES] = {
    {"no preload", "plain", NULL, 0, 0},
    {"empty hook", "plain", "bench/libempty_hook.so", 0, 0},
    {"unknown function", "unknown", "libkgenrt.so", 0, 10},
    {"no variant", "plain", "libkgenrt.so", 0, 10},
    {"one variant", "variants", "libkgenrt.so", 1, 40},
    {"eight variants", "variants", "libkgenrt.so", 8, 40},
};
static const struct {
    unsigned threads, kernels;
} shapes[SHAPES] = {{1, HOT}, {2, HOT}, {4, HOT}, {16, HOT}, {1, MANY}};

static struct child {
    FILE *in, *out;
    pid_t pid;
    char cache[64];
    double medians[SHAPES][ROUNDS_MOST], p99s[SHAPES][ROUNDS_MOST];
    double instructions; /* a launch; 0: not counted */
} children[CASES];

static void environment(unsigned which, const char *cache)
{
    char preload[1024];
    setenv("KGENRT_WORKER", "off", 1);
    setenv("KGENRT_CACHE", cache, 1);
    setenv("KGENRT_LOG", "error", 1);
    snprintf(preload, sizeof preload, BUILD_DIR "/%s", cases[which].preload);
    if (cases[which].preload)
        setenv("LD_PRELOAD", preload, 1);
}

static void begin(unsigned which)
{
    struct child *c = &children[which];
    int in[2], out[2];
    snprintf(c->cache, sizeof c->cache, "/tmp/kgenrt-bench-XXXXXX");
    if (!mkdtemp(c->cache) || pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
        exit(2);
    setenv("KGENRT_CACHE", c->cache, 1);
    char command[256];
    snprintf(command, sizeof command, "/proc/%d/exe publish %u", (int)getpid(),
             cases[which].variants);
    if (cases[which].variants && system(command))
        exit(2);
    c->pid = fork();
    if (!c->pid) {
        dup2(in[0], 0), dup2(out[1], 1);
        environment(which, c->cache);
        execl("/proc/self/exe", "launch_cost", "serve", cases[which].serves, (char *)NULL);
        _exit(127);
    }
    close(in[0]), close(out[1]);
    c->in = fdopen(in[1], "w");
    c->out = fdopen(out[0], "r");
}

static void ask(unsigned which, unsigned shape, unsigned round)
{
    struct child *c = &children[which];
    fprintf(c->in, "%u %u\n", shapes[shape].threads, shapes[shape].kernels);
    fflush(c->in);
    if (fscanf(c->out, "%lf %lf", &c->medians[shape][round], &c->p99s[shape][round]) != 2) {
        fprintf(stderr, "%s: ended\n", cases[which].name);
        exit(2);
    }
}

static double collected(unsigned which, unsigned launches)
{
    char command[1024], self[512], line[512];
    double count = 0;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length < 0 ? 0 : length] = 0;
    snprintf(command, sizeof command,
             "%s%s KGENRT_SHADOW_FIRST=0 KGENRT_SHADOW_MIB=0 KGENRT_LIVE_PAIRS=0 KGENRT_WORKER=off "
             "KGENRT_CACHE=%s timeout 60 valgrind --tool=callgrind --callgrind-out-file=/dev/null "
             "'%s' serve "
             "%s %u 2>&1",
             cases[which].preload ? "LD_PRELOAD=" BUILD_DIR "/" : "",
             cases[which].preload ? cases[which].preload : "", children[which].cache, self,
             cases[which].serves, launches);
    FILE *child = popen(command, "r");
    while (child && fgets(line, sizeof line, child))
        if (strstr(line, "Collected :"))
            count = atof(strstr(line, ":") + 1);
    if (child)
        pclose(child);
    return count;
}

static void end(unsigned which, bool count)
{
    struct child *c = &children[which];
    char command[256];
    fclose(c->in);
    fclose(c->out);
    waitpid(c->pid, NULL, 0);
    if (count && !system("command -v valgrind >/dev/null 2>&1")) {
        double less = collected(which, COUNTED), more = collected(which, 5 * COUNTED);
        c->instructions = less > 0 && more > less ? (more - less) / (4 * COUNTED) : 0;
    }
    snprintf(command, sizeof command, "rm -rf '%s'", c->cache);
    if (system(command))
        fprintf(stderr, "%s is left\n", c->cache);
}

static bool report(unsigned rounds)
{
    bool holds = true;
    double median[CASES][SHAPES], p99[CASES][SHAPES];
    for (unsigned i = 0; i < CASES; i++)
        for (unsigned s = 0; s < SHAPES; s++) {
            median[i][s] = quantile(children[i].medians[s], rounds, 0.5);
            p99[i][s] = quantile(children[i].p99s[s], rounds, 0.5);
        }
    print_processor();
    printf("%ld processors; nanoseconds a launch, median and 99th percentile of batches of %d, "
           "medians of %u rounds\n\n%-18s",
           sysconf(_SC_NPROCESSORS_ONLN), BATCH, rounds, "");
    for (unsigned s = 0; s < SHAPES; s++)
        printf(" %2u thread%s, %4u kernels", shapes[s].threads, shapes[s].threads == 1 ? " " : "s",
               shapes[s].kernels);
    printf("  instructions\n");
    for (unsigned i = 0; i < CASES; i++) {
        printf("%-18s", cases[i].name);
        for (unsigned s = 0; s < SHAPES; s++)
            printf("   %8.2f  p99 %8.2f", median[i][s], p99[i][s]);
        if (children[i].instructions > 0)
            printf("  %12.1f", children[i].instructions);
        printf("\n");
    }
    printf("\n");
    for (unsigned i = EMPTY + 1; i < CASES; i++) {
        double above = median[i][0] - median[EMPTY][0], ratio = median[i][SIXTEEN] / median[i][0];
        double two = median[i][1] / median[i][0];
        ratio = two > ratio ? two : ratio;
        bool fine = above <= cases[i].goal && ratio <= 1.5;
        printf("%-18s %+6.2f ns above the empty hook (goal %.0f), threads %.2f times one (goal "
               "1.5): %s\n",
               cases[i].name, above, cases[i].goal, ratio, fine ? "holds" : "DOES NOT HOLD");
        holds &= fine;
    }
    return holds;
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "publish"))
        return bench_publish(1, (unsigned)atoi(argv[2])), 0;
    if (argc > 2 && !strcmp(argv[1], "serve"))
        return serve(argv[2], argc > 3 ? argv[3] : NULL);
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 21;
    if (!rounds || rounds > ROUNDS_MOST) {
        fprintf(stderr, "usage: launch_cost [ROUNDS, 1 to %d [count]]\n", ROUNDS_MOST);
        return 2;
    }
    for (unsigned i = 0; i < CASES; i++)
        begin(i);
    for (unsigned round = 0; round < rounds; round++)
        for (unsigned s = 0; s < SHAPES; s++)
            for (unsigned i = 0; i < CASES; i++)
                ask(i, s, round);
    for (unsigned i = 0; i < CASES; i++)
        end(i, argc > 2 && !strcmp(argv[2], "count"));
    return !report(rounds);
}
