/* What a launch costs through the hook: 1,000 kernels with 3 pointers and 3 scalars, 3,000 live
 * allocations, an empty function for a driver; three processes: without the preload, with it and
 * nothing to swap, and with a variant for every kernel. Prints medians and 99th percentiles of 301
 * batches and what they are above the first.
 *
 *   launch_cost            all three, and whether the limits hold (15 and 50 ns)
 *
 * Whoever runs on the other thread of the same core makes all of this 1.7 times slower. So a batch
 * counts only if a yardstick, work of a fixed length that fills the core, took its shortest
 * time before and after the batch; the number of batches left out is printed. Where too few count,
 * that is said, and no limit is judged. Not run by ctest. */
#include "gpu/real.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache.h"
#include "code/code.h"

enum {
    KERNELS = 1000,
    ALLOCATIONS = 3000,
    BATCHES = 301,
    TRIES = 6000, /* batches, until enough of them count */
    ROUNDS = 5,
    STICK = 4000,      /* steps of the yardstick: about 10 us */
    WALK_LINES = 4096, /* cache lines that it walks through: 256 KiB */
};
#define QUIET 1.06 /* times its shortest is what the yardstick may take */

static const char ptx[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry work(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n,\n"
    ".param .f32 x, .param .u32 m)\n{\n"
    ".reg .f32 %f<6>; .reg .b32 %r<4>; .reg .b64 %d<8>; .reg .pred %p;\n"
    "ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [c];\n"
    "ld.param.u32 %r1, [n]; ld.param.f32 %f1, [x]; ld.param.u32 %r2, [m];\n"
    "setp.ge.u32 %p, %r1, %r2;\n@%p bra DONE;\n"
    "ld.global.f32 %f2, [%d1]; ld.global.f32 %f3, [%d2];\n"
    "fma.rn.f32 %f4, %f2, %f1, %f3;\nst.global.f32 [%d3], %f4;\nDONE:\nret;\n}\n";

static CUfunction functions[KERNELS];
static CUdeviceptr memory[ALLOCATIONS];
static unsigned n = 100, m = 50;
static float x = 1.5f;

#define WELL(call)                                                                                 \
    do {                                                                                           \
        int result_ = (int)(call);                                                                 \
        if (result_) {                                                                             \
            fprintf(stderr, "%s: %d\n", #call, result_);                                           \
            exit(2);                                                                               \
        }                                                                                          \
    } while (0)

/* ---- publishing --------------------------------------------------------------------------------
 */

static void publish(void)
{
    struct kg_hardware hardware;
    struct image_code code;
    struct kernel_model model;
    struct store *store;
    bool best;
    struct kg_scalar scalars[] = {{3, 0, 4, n, 0}, {4, 0, 4, 0, 0}, {5, 0, 4, m, 0}};
    struct kg_pointer pointers[] = {
        {0, 0, 16, 0, 0, 256}, {1, 0, 16, 0, 0, 256}, {2, 0, 16, 0, 0, 256}};
    memcpy(&scalars[1].value, &x, sizeof x);
    WELL(real_open(NULL));
    WELL(real_hardware(0, &hardware));
    WELL(image_select(ptx, sizeof ptx, hardware.arch, true, &code));
    WELL(kernel_model_make(&code, "work", &model));
    struct kg_variant v = {
        .kernel = model.id,
        .signature = {.launch = {{4, 1, 1}, {256, 1, 1}, 0},
                      .scalar_count = 3,
                      .pointer_count = 3,
                      .scalars = scalars,
                      .pointers = pointers},
        .launch = {{2, 1, 1}, {512, 1, 1}, 0},
        .maker = "recorded",
        .entry = "work",
        .kernel_name = "work",
        .note = "",
        .accuracy = "bitwise",
        .ratio = 2,
        .low = 2,
        .high = 2,
        .driver_version = hardware.driver_version,
        .time = 1700000000,
    };
    hardware_key(&hardware, &v.hardware);
    WELL(store_open(cache_dir(), false, &store));
    WELL(store_put_hardware(store, &hardware));
    WELL(store_put_blob(store, ptx, sizeof ptx, &v.code));
    WELL(store_put_blob(store, "{}", 2, &v.evidence));
    variant_identify(&v);
    WELL(store_put_variant(store, &v, &best));
    WELL(snapshot_make(store, cache_dir(), &v.hardware));
    store_close(store);
}

/* ---- measuring ---------------------------------------------------------------------------------
 */

static void set_up(void)
{
    CUcontext context;
    WELL(real_open(NULL)); /* by dlsym: the hooks, under the preload */
    WELL(real.cuInit(0));
    WELL(real.cuDevicePrimaryCtxRetain(&context, 0));
    WELL(real.cuCtxSetCurrent(context));
    for (int i = 0; i < ALLOCATIONS; i++)
        WELL(real.cuMemAlloc_v2(&memory[i], 4096));
    for (int i = 0; i < KERNELS; i++) {
        CUmodule module;
        WELL(real.cuModuleLoadData(&module, ptx));
        WELL(real.cuModuleGetFunction(&functions[i], module, "work"));
    }
}

static inline void launch(int kernel, int at)
{
    void *params[] = {&memory[at], &memory[at + 1], &memory[at + 2], &n, &x, &m};
    (void)real.cuLaunchKernel(functions[kernel], 4, 1, 1, 256, 1, 1, 0, NULL, params, NULL);
}

/* How many kernels' launches arrive as another function. */
static int swapped(const CUfunction *launched)
{
    int count = 0;
    for (int i = 0; i < KERNELS; i++) {
        launch(i, i);
        count += *launched != functions[i];
    }
    return count;
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Nanoseconds that a fixed piece of work takes: four chains of arithmetic at once, as wide as the
 * core, then a walk through as much memory as the launches look at, which the second cache holds
 * while nobody else fills it. */
static double yardstick(void)
{
    static volatile uint64_t memory[WALK_LINES * 8];
    uint64_t a = 1, b = 2, c = 3, d = 4, start = now_ns();
    for (unsigned i = 0, at = 0; i < WALK_LINES; i++, at = (at + 1531) % WALK_LINES)
        memory[at * 8]++;
    for (unsigned i = 0; i < STICK; i++) {
        a += i ^ (a << 1), b ^= i + (b << 2), c += i ^ (c << 3), d ^= i + (d << 1);
        __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
    }
    return (double)(now_ns() - start);
}

static double shortest_yardstick(void)
{
    double shortest = yardstick();
    for (uint64_t end = now_ns() + 300000000; now_ns() < end;) {
        double length = yardstick();
        shortest = length < shortest ? length : shortest;
    }
    return shortest;
}

/* Nanoseconds a launch of one batch. */
static double batch(void)
{
    uint64_t start = now_ns();
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < KERNELS; i++)
            launch(i, (i + 7 * round) % (ALLOCATIONS - 2));
    return (double)(now_ns() - start) / (ROUNDS * KERNELS);
}

/* Prints "median p99 fastest swapped counted tried yardstick". */
static void measure(bool want_swaps)
{
    static double batches[BATCHES];
    set_up();
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    const CUfunction *launched = driver ? dlsym(driver, "fake_launched") : NULL;
    if (!launched)
        exit(2);
    int count = swapped(launched);
    for (int i = 0; want_swaps && count < KERNELS && i < 600; i++) {
        usleep(10000); /* safe points load a few each */
        WELL(real.cuCtxSynchronize());
        count = swapped(launched);
    }
    double shortest = shortest_yardstick(), before = yardstick();
    int counted = 0, tried = 0;
    for (; counted < BATCHES && tried < TRIES; tried++) {
        double time = batch(), after = yardstick();
        if (before <= QUIET * shortest && after <= QUIET * shortest)
            batches[counted++] = time;
        before = after;
    }
    if (!counted)
        batches[counted++] = batch();
    qsort(batches, (size_t)counted, sizeof *batches, by_value);
    printf("%.2f %.2f %.2f %d %d %d %.0f\n", batches[counted / 2], batches[counted * 99 / 100],
           batches[0], count, counted, tried, shortest);
}

/* ---- the three processes -----------------------------------------------------------------------
 */

struct outcome {
    double median, p99, fastest;
    int swapped, counted, tried;
    double yardstick;
};

static struct outcome process(const char *what, const char *mode)
{
    char command[4096], self[1024];
    struct outcome out = {0};
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length < 0 ? 0 : length] = 0;
    snprintf(command, sizeof command,
             "LD_LIBRARY_PATH=" BUILD_DIR "/fake/quiet KGENRT_WORKER=off %s%s '%s' %s",
             mode ? "LD_PRELOAD=" BUILD_DIR "/libkgenrt.so KGENRT_MODE=" : "", mode ? mode : "",
             self, what);
    FILE *child = popen(command, "r");
    bool fine =
        child && fscanf(child, "%lf %lf %lf %d %d %d %lf", &out.median, &out.p99, &out.fastest,
                        &out.swapped, &out.counted, &out.tried, &out.yardstick) == 7;
    if (!child || pclose(child) || !fine) {
        fprintf(stderr, "failed: %s\n", command);
        exit(2);
    }
    return out;
}

static bool report(const char *what, const struct outcome *out, const struct outcome *base,
                   double limit)
{
    double above = out->median - base->median;
    printf("%-16s median %6.2f ns, p99 %6.2f ns, fastest %6.2f ns, %d of %d batches count; %+7.2f "
           "ns above none",
           what, out->median, out->p99, out->fastest, out->counted, out->tried, above);
    printf(limit > 0 ? " (limit %.0f ns: %s)\n" : "\n", limit, above <= limit ? "holds" : "BROKEN");
    return limit <= 0 || above <= limit;
}

/* Enough batches count, and the core was as fast in all three processes. */
static bool comparable(const struct outcome *a, const struct outcome *b)
{
    double ratio = a->yardstick / b->yardstick;
    return b->counted == BATCHES && ratio < QUIET && ratio > 1 / QUIET;
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        if (!strcmp(argv[1], "publish"))
            publish(), puts("0 0 0 0 0 0 0");
        else
            measure(!strcmp(argv[1], "swaps"));
        return 0;
    }
    char folder[] = "/tmp/kgenrt-bench-XXXXXX", command[256];
    if (!mkdtemp(folder))
        return 2;
    setenv("KGENRT_CACHE", folder, 1);
    struct outcome none = process("plain", NULL), known = process("plain", "tune");
    process("publish", NULL);
    struct outcome swaps = process("swaps", "tune");
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command))
        fprintf(stderr, "%s is left\n", folder);
    bool holds = report("no preload", &none, &none, 0);
    holds &= report("nothing to swap", &known, &none, 15);
    holds &= report("swapped", &swaps, &none, 50);
    if (known.swapped || swaps.swapped != KERNELS) {
        printf("swapped kernels: %d of none, %d of %d\n", known.swapped, swaps.swapped, KERNELS);
        return 2;
    }
    if (!comparable(&none, &none) || !comparable(&none, &known) || !comparable(&none, &swaps)) {
        printf("not judged: the machine was too busy (yardsticks %.0f, %.0f, %.0f ns)\n",
               none.yardstick, known.yardstick, swaps.yardstick);
        return 77;
    }
    return !holds;
}
