/* A variant made by hand is swapped under a running program: where its guard holds, and nowhere
 * else. Runs on the software GPU, or with the argument "gpu" on the machine's.
 *
 * Three processes: `prepare` publishes the variant, `program` is the unmodified program, and the
 * test itself starts both. */
#define E2E_OWN_PROGRAM 1
#include "adding_variant.h"

/* One launch through cuLaunchKernel; the other ways below differ in one thing each. */
static char launch(unsigned grid, CUdeviceptr to, float a)
{
    unsigned n = COUNT;
    void *params[] = {&in, &to, &a, &n};
    WELL(real.cuLaunchKernel(work, grid, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    return ran(to, a, 1);
}

static char launch_packed(void)
{
    struct {
        CUdeviceptr in, out;
        float a;
        unsigned n;
    } buffer = {in, out, 2, COUNT};
    size_t size = sizeof buffer;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    WELL(real.cuLaunchKernel(work, 4, 1, 1, 256, 1, 1, 0, NULL, NULL, extra));
    return ran(out, 2, 1);
}

static char launch_extended(unsigned attributes)
{
    float a = 2;
    unsigned n = COUNT;
    void *params[] = {&in, &out, &a, &n};
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY};
    CUlaunchConfig config = {4, 1, 1, 256, 1, 1, 0, NULL, &attribute, attributes};
    WELL(real.cuLaunchKernelEx(&config, work, params, NULL));
    return ran(out, 2, 1);
}

static char launch_per_thread(void)
{
    float a = 2;
    unsigned n = COUNT;
    void *params[] = {&in, &out, &a, &n};
    WELL(real.cuLaunchKernel_ptsz(work, 4, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    return ran(out, 2, 1);
}

/* A library's kernel is one handle for all contexts, its variant is of the first one only. */
static void library(void)
{
    CUcontext first, second;
    CUlibrary lib;
    CUkernel kernel;
    CUdeviceptr kept[] = {in, out};
    WELL(real.cuCtxGetCurrent(&first));
    WELL(real.cuLibraryLoadData(&lib, original, NULL, NULL, 0, NULL, NULL, 0));
    WELL(real.cuLibraryGetKernel(&kernel, lib, "work"));
    work = (CUfunction)(void *)kernel; /* as CUDA's own runtime launches it */
    fill();
    CHECK(launch(4, out, 2) == 'v');
    WELL(real.cuCtxCreate_v2(&second, 0, 0));
    WELL(real.cuMemAlloc_v2(&in, BYTES));
    WELL(real.cuMemAlloc_v2(&out, BYTES));
    fill();
    CHECK(launch(4, out, 2) == 'o');
    WELL(real.cuCtxSetCurrent(first));
    in = kept[0];
    out = kept[1];
    fill();
    CHECK(launch(4, out, 2) == 'v');
    WELL(real.cuCtxDestroy_v2(second));
    WELL(real.cuCtxSetCurrent(first));
    CHECK(launch(4, out, 2) == 'v');
    WELL(real.cuLibraryUnload(lib));
}

static int program(void)
{
    CUmodule module;
    float five = 5, a = 2;
    unsigned n = COUNT;
    void *params[] = {&in, &out, &a, &n};
    start(&module);
    fill();
    CHECK(launch(4, out, 2) == 'v'); /* the very first launch */
    CHECK(launch(4, out, 3) == 'o'); /* another scalar */
    CHECK(launch(8, out, 2) == 'o'); /* another grid */
    CHECK(launch(4, in, 2) == 'o');  /* in place */
    fill();
    CHECK(launch_packed() == 'v');
    CHECK(launch_extended(0) == 'v');
    CHECK(launch_extended(1) == 'v'); /* of some priority */
    CHECK(launch_per_thread() == 'v');
    WELL(real.cuMemcpyHtoD_v2(coefficient, &five, sizeof five)); /* the variant follows */
    WELL(real.cuLaunchKernel(work, 4, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    CHECK(ran(out, 2, 5) == 'v');
    WELL(real.cuModuleUnload(module));
    load(&module);
    fill();
    CHECK(launch(4, out, 2) == 'v');
    WELL(real.cuModuleUnload(module));
    library();
    WELL(real.cuDevicePrimaryCtxRelease_v2(0));
    return test_result();
}

/* Without the library, and with nothing but observation, each launch is the original's. */
static int program_plain(void)
{
    CUmodule module;
    start(&module);
    fill();
    CHECK(launch(4, out, 2) == 'o' && launch_packed() == 'o' && launch_extended(0) == 'o');
    CHECK(launch_per_thread() == 'o');
    return test_result();
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "prepare"))
        return adding_prepare();
    if (argc > 1 && !strcmp(argv[1], "program"))
        return program();
    if (argc > 1 && !strcmp(argv[1], "plain"))
        return program_plain();
    e2e_begin(argc, argv);
    made_environment();
    const char *const none[] = {NULL};
    const struct {
        const char *what, *mode; /* no mode: no preload */
    } steps[] = {
        {"prepare", NULL},
        {"plain", NULL},
        {"plain", "KGENRT_MODE=off"},
        {"plain", "KGENRT_MODE=observe"},
        {"program", "KGENRT_MODE=cached"},
    };
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
        const char *const with[] = {e2e_preload(), steps[i].mode, NULL};
        const char *const command[] = {"/proc/self/exe", steps[i].what, NULL};
        if (!CHECK(e2e_run(command, steps[i].mode ? with : none, 120) == 0))
            e2e_show_log();
    }
    e2e_remove_cache();
    return test_result();
}
