/* Runs the kernels of free.cu and seeded.cu, plain and instrumented, through the CUDA driver that
 * it finds at run time: the software GPU's or a real one. Race-free kernels must compute the same
 * bytes and give no report; each seeded race must be found. One line each, a total at the end.
 *
 *   races [FOLDER]     where free.ptx and seeded.ptx are */
#include "gpu/real.h"

#include "../test.h"
#include "tune/observe.h"

#include <string.h>

enum { COUNT = 65536, BYTES = COUNT * 4, BUDGET = 50 * 1000 * 1000, SMALL = 3000 };

struct race {
    const char *name;
    struct kg_launch launch;
    enum { FREE, SEEDED, OFFENDING } group;
    unsigned kind; /* of an offence */
};

static const struct race all[] = {
#define RACE(name, gx, gy, bx, by, shared, seeded)                                                 \
    {#name, {{gx, gy, 1}, {bx, by, 1}, shared}, seeded ? SEEDED : FREE, 0},
#define OFFENCE(name, grid, block, shared, kind)                                                   \
    {#name, {{grid, 1, 1}, {block, 1, 1}, shared}, OFFENDING, INSTRUMENT_##kind},
#include "races.def"
};

static CUdeviceptr buffers[3];
static unsigned char *before, *plain, *after;
static bool soft; /* its times are of no interest, and launches take long */
static unsigned clean_free, found, frees, seededs, different, offences, contained;
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

/* Launches once from the same memory as ever, and waits. */
static bool launch(const struct race *race, CUfunction function, unsigned char *out, double *ns)
{
    int n = race->group == OFFENDING ? COUNT / 2 : COUNT;
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
        ranges[i] = (struct observe_range){.address = buffers[i],
                                           .size = race->group == OFFENDING ? BYTES / 2 : BYTES,
                                           .rights = race->group == OFFENDING && !i
                                                         ? INSTRUMENT_READ
                                                         : INSTRUMENT_READ | INSTRUMENT_WRITE};
    return ok(real.cuModuleLoadData(&module, text->text.data), "load") &&
           ok(real.cuModuleGetFunction(&function, module, race->name), "entry") &&
           observe_begin(text, module, function, &race->launch, ranges, 3,
                         race->group == OFFENDING ? SMALL : BUDGET, observe) == KG_OK &&
           (soft || race->group == OFFENDING ||
            (launch(race, function, after, ns) && observe_reset(observe) == KG_OK)) &&
           launch(race, function, after, ns) && observe_read(observe) == KG_OK &&
           ok(real.cuModuleUnload(module), "unload");
}

/* What must not be touched holds what it did. */
static bool untouched(void)
{
    bool good = !memcmp(before, after, BYTES);
    for (unsigned i = 1; i < 3; i++)
        good &= !memcmp(before + i * BYTES + BYTES / 2, after + i * BYTES + BYTES / 2, BYTES / 2);
    return good;
}

static void judge(const struct race *race, const struct observe *observe, double ratio)
{
    char text[512] = "no report";
    bool same = !memcmp(plain, after, 3 * (size_t)BYTES), good;
    uint32_t count = observe->reports.count;
    unsigned kind = count ? observe->reports.list[0].kind & 255 : 0;
    if (count)
        observe_text(observe, &observe->reports.list[0], text, sizeof text);
    switch (race->group) {
    case FREE:
        good = !count && same;
        frees++;
        clean_free += !count;
        different += !same;
        break;
    case SEEDED:
        good = kind >= INSTRUMENT_RAW;
        seededs++;
        found += good;
        break;
    default:
        good = kind == race->kind && untouched();
        offences++;
        contained += good;
    }
    printf("%-28s %s%s", race->name, good ? "ok" : "FAILED",
           same || race->group != FREE ? "" : ", other bytes");
    if (!soft && race->group != OFFENDING)
        printf(", %.1f times as long", ratio);
    printf(": %u, %s\n", count, text);
    if (race->group != OFFENDING) {
        slowest = ratio > slowest ? ratio : slowest;
        slow_sum += ratio;
    }
    CHECK(good);
}

static void run(const struct race *race, CUmodule module, const char *ptx)
{
    struct observe observe = {0};
    struct instrumented text = {0};
    CUfunction function;
    double ns = 1, slow = 0;
    if (race->group != OFFENDING &&
        (!CHECK(ok(real.cuModuleGetFunction(&function, module, race->name), race->name)) ||
         !CHECK(launch(race, function, plain, &ns)) ||
         (!soft && !CHECK(launch(race, function, plain, &ns)))))
        return;
    if (CHECK(instrumented_run(race, ptx, &observe, &text, &slow)))
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
    struct kg_hardware hardware;
    bool good = ok(real.cuDeviceGet(&device, 0), "device") &&
                real_hardware(device, &hardware) == KG_OK &&
                ok(real.cuDevicePrimaryCtxRetain(&context, device), "context") &&
                ok(real.cuCtxSetCurrent(context), "context");
    for (unsigned i = 0; i < 3 && good; i++)
        good = ok(real.cuMemAlloc_v2(&buffers[i], BYTES), "memory");
    soft = good && !strcmp(hardware.vendor, "softgpu");
    return good;
}

static bool load(const char *folder, unsigned group, struct kg_bytes *ptx, CUmodule *module)
{
    static const char *const names[] = {"free", "seeded", "offending"};
    char path[KG_PATH];
    return path_make(path, "%s/%s.ptx", folder, names[group]) == KG_OK &&
           file_read(path, 64 << 20, ptx) == KG_OK &&
           ok(real.cuModuleLoadData(module, ptx->data), "load");
}

int main(int argc, char **argv)
{
    struct kg_bytes ptx[3] = {0};
    CUmodule modules[3];
    before = calloc(3, BYTES);
    plain = calloc(3, BYTES);
    after = calloc(3, BYTES);
    if (!before || !plain || !after)
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!open_device())
        SKIP("no CUDA driver here");
    fill();
    for (unsigned i = 0; i < 3; i++)
        if (!load(argc > 1 ? argv[1] : BUILD_DIR "/tests/races", i, &ptx[i], &modules[i]))
            return 1;
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        if (argc < 3 || !strcmp(argv[2], all[i].name))
            run(&all[i], modules[all[i].group], (const char *)ptx[all[i].group].data);
    printf("%u race-free kernels: %u without a report, %u with other bytes; %u of %u seeded races "
           "found; %u of %u offences found and prevented\n",
           frees, clean_free, different, found, seededs, contained, offences);
    if (!soft)
        printf("launches that record, check and tag took %.1f times as long on average, %.1f at "
               "most\n",
               slow_sum / (double)(frees + seededs ? frees + seededs : 1), slowest);
    for (unsigned i = 0; i < 3; i++)
        bytes_free(&ptx[i]);
    free(before);
    free(plain);
    free(after);
    return test_result();
}
