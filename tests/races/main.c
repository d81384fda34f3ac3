/* Runs the kernels of free.cu and seeded.cu, plain and instrumented, through the CUDA driver that
 * it finds at run time: the software GPU's or a real one. Race-free kernels must compute the same
 * bytes and give no report; each seeded race must be found. One line each, a total at the end.
 *
 *   races [FOLDER]     where free.ptx and seeded.ptx are */
#include "gpu/real.h"

#include "../test.h"
#include "tune/observe.h"

#include <string.h>

enum { COUNT = 65536, BYTES = COUNT * 4, BUDGET = 50 * 1000 * 1000 };

struct race {
    const char *name;
    struct kg_launch launch;
    bool seeded;
};

static const struct race all[] = {
#define RACE(name, gx, gy, bx, by, shared, seeded)                                                 \
    {#name, {{gx, gy, 1}, {bx, by, 1}, shared}, seeded},
#include "races.def"
};

static CUdeviceptr buffers[3];
static unsigned char *before, *plain, *after;
static unsigned clean_free, found, frees, seededs, different;
static double slowest, slow_sum;

static bool ok(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS)
        fprintf(stderr, "%s: %s\n", what, real_error(result));
    return result == CUDA_SUCCESS;
}

static void fill(void)
{
    uint32_t *a = (uint32_t *)(void *)before;
    for (uint32_t i = 0; i < COUNT; i++)
        a[i] = i * 2654435761u >> 24;
}

/* Loads, launches once from the same memory as ever, and waits; ns: of the second launch. */
static bool launch(const struct race *race, CUfunction function, unsigned char *out, double *ns)
{
    int n = COUNT;
    void *params[] = {&buffers[0], &buffers[1], &buffers[2], &n};
    const struct kg_launch *l = &race->launch;
    for (unsigned i = 0; i < 3; i++)
        if (!ok(real.cuMemcpyHtoD_v2(buffers[i], before + i * BYTES, BYTES), "copy"))
            return false;
    uint64_t start = now_ns();
    if (!ok(real.cuLaunchKernel(function, l->grid.x, l->grid.y, 1, l->block.x, l->block.y, 1,
                                l->shared, NULL, params, NULL),
            "launch") ||
        !ok(real.cuCtxSynchronize(), "run"))
        return false;
    *ns = (double)(now_ns() - start);
    for (unsigned i = 0; i < 3; i++)
        if (!ok(real.cuMemcpyDtoH_v2(out + i * BYTES, buffers[i], BYTES), "copy"))
            return false;
    return true;
}

static bool instrumented_run(const struct race *race, const char *ptx, struct observe *observe,
                             struct instrumented *text, double *ns)
{
    struct instrument_options options = {.what = INSTRUMENT_RECORD | INSTRUMENT_CHECK |
                                                 INSTRUMENT_RACES,
                                         .block = race->launch.block};
    struct observe_range ranges[3];
    CUmodule module;
    CUfunction function;
    if (ptx_instrument(ptx, race->name, &options, text) != KG_OK) {
        printf("%-28s not instrumentable: %s\n", race->name, text->reason);
        return false;
    }
    for (unsigned i = 0; i < 3; i++)
        ranges[i] = (struct observe_range){
            .address = buffers[i], .size = BYTES, .rights = INSTRUMENT_READ | INSTRUMENT_WRITE};
    return ok(real.cuModuleLoadData(&module, text->text.data), "load") &&
           ok(real.cuModuleGetFunction(&function, module, race->name), "entry") &&
           observe_begin(text, module, function, &race->launch, ranges, 3, BUDGET, observe) ==
               KG_OK &&
           launch(race, function, after, ns) && observe_read(observe) == KG_OK &&
           ok(real.cuModuleUnload(module), "unload");
}

static void judge(const struct race *race, const struct observe *observe, double ratio)
{
    char text[512] = "no report";
    bool same = !memcmp(plain, after, 3 * (size_t)BYTES);
    uint32_t count = observe->reports.count;
    unsigned kind = count ? observe->reports.list[0].kind & 255 : 0;
    if (count)
        observe_text(observe, &observe->reports.list[0], text, sizeof text);
    bool good = race->seeded ? kind >= INSTRUMENT_RAW : !count && same;
    printf("%-28s %s%s, %.1f times as long: %u, %s\n", race->name, good ? "ok" : "FAILED",
           same || race->seeded ? "" : ", other bytes", ratio, count, text);
    frees += !race->seeded;
    seededs += race->seeded;
    clean_free += !race->seeded && !count;
    found += race->seeded && good;
    different += !race->seeded && !same;
    slowest = ratio > slowest ? ratio : slowest;
    slow_sum += ratio;
    CHECK(good);
}

static void run(const struct race *race, CUmodule module, const char *ptx)
{
    struct observe observe = {0};
    struct instrumented text = {0};
    CUfunction function;
    double ns = 1, slow = 0;
    if (CHECK(ok(real.cuModuleGetFunction(&function, module, race->name), race->name)) &&
        CHECK(launch(race, function, plain, &ns)) &&
        CHECK(instrumented_run(race, ptx, &observe, &text, &slow)))
        judge(race, &observe, slow / ns);
    observe_end(&observe);
    instrumented_free(&text);
}

static bool open_device(void)
{
    CUdevice device;
    CUcontext context;
    for (unsigned i = 0; i < 3; i++)
        buffers[i] = 0;
    if (real_open(NULL) != KG_OK || real.cuInit(0) != CUDA_SUCCESS)
        return false;
    bool good = ok(real.cuDeviceGet(&device, 0), "device") &&
                ok(real.cuDevicePrimaryCtxRetain(&context, device), "context") &&
                ok(real.cuCtxSetCurrent(context), "context");
    for (unsigned i = 0; i < 3 && good; i++)
        good = ok(real.cuMemAlloc_v2(&buffers[i], BYTES), "memory");
    return good;
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : BUILD_DIR "/tests/races";
    struct kg_bytes ptx[2] = {0};
    CUmodule modules[2];
    char path[KG_PATH];
    before = calloc(3, BYTES);
    plain = calloc(3, BYTES);
    after = calloc(3, BYTES);
    if (!open_device())
        SKIP("no CUDA driver here");
    if (!before || !plain || !after)
        return 1;
    fill();
    for (unsigned i = 0; i < 2; i++)
        if (path_make(path, "%s/%s.ptx", folder, i ? "seeded" : "free") != KG_OK ||
            file_read(path, 64 << 20, &ptx[i]) != KG_OK ||
            !ok(real.cuModuleLoadData(&modules[i], ptx[i].data), "load"))
            return 1;
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        if (argc < 3 || !strcmp(argv[2], all[i].name))
            run(&all[i], modules[all[i].seeded], (const char *)ptx[all[i].seeded].data);
    printf("%u race-free kernels: %u without a report, %u with other bytes; %u of %u seeded races "
           "found; instrumented launches took %.1f times as long on average, %.1f at most\n",
           frees, clean_free, different, found, seededs,
           slow_sum / (double)(frees + seededs ? frees + seededs : 1), slowest);
    for (unsigned i = 0; i < 2; i++)
        bytes_free(&ptx[i]);
    free(before);
    free(plain);
    free(after);
    return test_result();
}
