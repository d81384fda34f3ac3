/* A variant made by hand is swapped under a running program. It differs on purpose (it adds 100),
 * so that each launch tells which code ran: the variant where its guard holds, the original
 * elsewhere. Runs on the software GPU, or with the argument "gpu" on the machine's.
 *
 * Three processes: `prepare` publishes the variant, `program` is the unmodified program, and the
 * test itself starts both. */
#include "made_variant.h"

enum { COUNT = 1024, BYTES = 4 * COUNT };

#define BODY(name, parameters, coefficient, extra)                                                 \
    ".version 7.0\n.target sm_50\n.address_size 64\n"                                              \
    ".const .align 4 .f32 coefficient = 0f3F800000;\n"                                             \
    ".visible .entry " name                                                                        \
    "(.param .u64 in, .param .u64 out, .param .f32 a, .param .u32 n" parameters ")\n{\n"           \
    ".reg .pred %p; .reg .b32 %r<6>; .reg .f32 %f<6>; .reg .b64 %d<8>;\n"                          \
    "ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out];\n"                                           \
    "ld.param.f32 %f1, [a]; ld.param.u32 %r1, [n];\n"                                              \
    "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"                          \
    "mad.lo.s32 %r5, %r2, %r3, %r4;\n"                                                             \
    "setp.ge.u32 %p, %r5, %r1;\n@%p bra DONE;\n"                                                   \
    "cvta.to.global.u64 %d1, %d1; cvta.to.global.u64 %d2, %d2;\n"                                  \
    "mul.wide.u32 %d3, %r5, 4; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;\n"                    \
    "ld.global.f32 %f2, [%d4];\n" coefficient "fma.rn.f32 %f4, %f2, %f1, %f3;\n" extra             \
    "st.global.f32 [%d5], %f4;\nDONE:\nret;\n}\n"

static const char original[] = BODY("work", "", "ld.const.f32 %f3, [coefficient];\n", "");
static const char variant[] =
    BODY("fast", ", .param .u64 c", "ld.param.u64 %d6, [c]; ld.global.f32 %f3, [%d6];\n",
         "add.f32 %f4, %f4, 0f42C80000;\n");

/* ---- prepare -----------------------------------------------------------------------------------
 */

static int prepare(void)
{
    struct made made;
    float a = 2;
    struct kg_scalar scalars[] = {{2, 0, 4, 0, 0}, {3, 0, 4, COUNT, 0}};
    memcpy(&scalars[0].value, &a, sizeof a);
    struct kg_pointer pointers[] = {{0, 0, 16, 0, 0, BYTES}, {1, 0, 16, 0, 0, BYTES}};
    struct kg_variant v = made_begin(&made, original);
    CHECK(made.model.pointer_count == 2 && made.model.global_count == 1 && !made.model.ineligible);
    v.signature = (struct kg_signature){.launch = {{4, 1, 1}, {256, 1, 1}, 0},
                                        .scalar_count = 2,
                                        .pointer_count = 2,
                                        .scalars = scalars,
                                        .pointers = pointers};
    v.launch = (struct kg_launch){{2, 1, 1}, {512, 1, 1}, 0};
    v.note = "made by hand";
    v.global_count = 1;
    v.globals[0] = "coefficient";
    made_publish(&made, &v, variant, "{}");
    return test_result();
}

/* ---- program -----------------------------------------------------------------------------------
 */

static CUdeviceptr in, out, coefficient;
static CUfunction work;
static float host[COUNT];

static void load(CUmodule *module)
{
    size_t size;
    WELL(real.cuModuleLoadData(module, original));
    WELL(real.cuModuleGetFunction(&work, *module, "work"));
    WELL(real.cuModuleGetGlobal_v2(&coefficient, &size, *module, "coefficient"));
    WELL(size != 4);
}

/* Which code ran: 'v', 'o', or '?' for a wrong result. `in` holds 0, 1, 2, … */
static char ran(CUdeviceptr from, float a, float c)
{
    char which = 0;
    WELL(real.cuCtxSynchronize());
    WELL(real.cuMemcpyDtoH_v2(host, from, BYTES));
    for (int i = 0; i < COUNT; i++) {
        float plain = (float)i * a + c;
        char now = host[i] == plain ? 'o' : host[i] == plain + 100 ? 'v' : '?';
        if (which && now != which)
            return '?';
        which = now;
    }
    return which;
}

static void fill(void)
{
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)i;
    WELL(real.cuMemcpyHtoD_v2(in, host, BYTES));
    WELL(real.cuMemsetD32_v2(out, 0, COUNT));
}

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

static void start(CUmodule *module)
{
    CUdevice device;
    CUcontext context;
    WELL(real_open(NULL)); /* by dlsym, hence through the hooks */
    WELL(real.cuInit(0));
    WELL(real.cuDeviceGet(&device, 0));
    WELL(real.cuDevicePrimaryCtxRetain(&context, device));
    WELL(real.cuCtxSetCurrent(context));
    load(module);
    WELL(real.cuMemAlloc_v2(&in, BYTES));
    WELL(real.cuMemAlloc_v2(&out, BYTES));
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
    CHECK(launch_extended(1) == 'o');
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
        return prepare();
    if (argc > 1 && !strcmp(argv[1], "program"))
        return program();
    if (argc > 1 && !strcmp(argv[1], "plain"))
        return program_plain();
    e2e_begin(argc, argv);
    setenv("KGENRT_WORKER", "off", 1);
    setenv("KGENRT_SHADOW_MIB", "0", 1); /* a check would find out that it differs */
    setenv("KGENRT_LIVE_PAIRS", "0", 1);
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
