/* For tests of replay and worker: a capture of one launch of a hand-made PTX kernel, for the
 * software GPU or a real one. Two kernels: y[i] = 2 * x[i] + 1, and, in place with a __constant__
 * variable, y[i] += factor * x[i]. The capture finds the right result in y already, as in an app's
 * loop. */
#ifndef TUNE_FIXTURE_H
#define TUNE_FIXTURE_H

#include "gpu/real.h"

#include "test.h"
#include "tune/replay.h"

#include <string.h>
#include <unistd.h>

enum { N = 1000, THREADS = 128, BLOCKS = 8 };

/* ---- the code ----------------------------------------------------------------------------------
 */

/* Where a variant may differ from the right kernel. */
struct parts {
    const char *limit;  /* changes %r5, the element count */
    const char *before; /* before the element's store */
    const char *after;  /* after it */
    const char *slow;   /* work that changes nothing */
};

static const char slow[] __attribute__((unused)) =
    "\tmov.u32 %r8, 0;\nSLOW:\n\tadd.u32 %r8, %r8, 1;\n"
    "\tsetp.lt.u32 %p3, %r8, 600;\n\t@%p3 bra SLOW;\n"
    "\tand.b32 %r9, %r8, 1024;\n\tadd.s32 %r4, %r4, %r9;\n\tadd.s32 %r4, %r4, "
    "-0;\n";

static inline char *kernel_ptx(bool in_place, bool variant, const struct parts *parts)
{
    char *out = NULL;
    const char *slow_part = parts->slow ? parts->slow : "";
    int length = asprintf(
        &out,
        ".version 7.8\n.target sm_80\n.address_size 64\n%s"
        ".visible .entry k(\n\t.param .u64 k_0,\n\t.param .u64 k_1,\n\t.param .u32 k_2%s\n)\n{\n"
        "\t.reg .pred %%p<6>;\n\t.reg .b32 %%r<16>;\n\t.reg .f32 %%f<8>;\n\t.reg .b64 %%rd<12>;\n"
        "\tmov.u32 %%r1, %%ctaid.x;\n\tmov.u32 %%r2, %%ntid.x;\n\tmov.u32 %%r3, %%tid.x;\n"
        "\tmad.lo.s32 %%r4, %%r1, %%r2, %%r3;\n\tld.param.u32 %%r5, [k_2];\n%s"
        "\tld.param.u64 %%rd1, [k_0];\n\tld.param.u64 %%rd2, [k_1];\n"
        "\tcvta.to.global.u64 %%rd3, %%rd1;\n\tcvta.to.global.u64 %%rd4, %%rd2;\n%s"
        "\tsetp.ge.s32 %%p1, %%r4, %%r5;\n\t@%%p1 bra DONE;\n"
        "\tmul.wide.s32 %%rd5, %%r4, 4;\n\tadd.s64 %%rd6, %%rd3, %%rd5;\n"
        "\tadd.s64 %%rd7, %%rd4, %%rd5;\n\tld.global.f32 %%f1, [%%rd6];\n%s%s"
        "\tst.global.f32 [%%rd7], %%f3;\n%s\nDONE:\n\tret;\n}\n",
        in_place && !variant ? ".const .align 4 .b8 factor[4];\n" : "",
        in_place && variant ? ",\n\t.param .u64 k_3" : "", parts->limit ? parts->limit : "",
        slow_part,
        !in_place ? "\tfma.rn.f32 %f3, %f1, 0f40000000, 0f3F800000;\n"
        : variant ? "\tld.param.u64 %rd8, [k_3];\n\tld.f32 %f4, [%rd8];\n"
                    "\tld.global.f32 %f2, [%rd7];\n\tfma.rn.f32 %f3, %f1, %f4, %f2;\n"
                  : "\tld.const.f32 %f4, [factor];\n\tld.global.f32 %f2, [%rd7];\n"
                    "\tfma.rn.f32 %f3, %f1, %f4, %f2;\n",
        parts->before ? parts->before : "", parts->after ? parts->after : "");
    return length < 0 ? NULL : out;
}

/* The PTX's kernel id, so that worker and test speak of the same kernel. */
static inline bool fixture_id(const char *ptx, struct kg_id *out)
{
    struct image_code image;
    struct kernel_model model;
    if (image_select(ptx, strlen(ptx) + 1, "sm_90", true, &image) != KG_OK)
        return false;
    bool good = kernel_model_make(&image, "k", &model) == KG_OK;
    if (good)
        *out = model.id;
    kernel_model_free(&model);
    image_code_free(&image);
    return good;
}

/* ---- the capture -------------------------------------------------------------------------------
 */

/* Addresses as the app would have them; this process gives them back before any replay. */
static inline bool addresses(CUdeviceptr at[2], struct kg_hardware *hardware)
{
    CUdevice device;
    CUcontext context;
    if (real_open(NULL) != KG_OK || !real_ok(real.cuInit(0), "cuInit") ||
        !real_ok(real.cuDeviceGet(&device, 0), "cuDeviceGet") ||
        real_hardware(device, hardware) != KG_OK ||
        !real_ok(real.cuDevicePrimaryCtxRetain(&context, device), "context") ||
        !real_ok(real.cuCtxSetCurrent(context), "context"))
        return false;
    return real_ok(real.cuMemAlloc_v2(&at[0], N * 4), "cuMemAlloc") &&
           real_ok(real.cuMemAlloc_v2(&at[1], N * 4), "cuMemAlloc") &&
           real_ok(real.cuMemFree_v2(at[0]), "cuMemFree") &&
           real_ok(real.cuMemFree_v2(at[1]), "cuMemFree");
}

/* A buffer of N numbers; after: what the launch leaves there, or NULL. */
static inline struct capture_region numbers_at(CUdeviceptr at, const float *data,
                                               const float *after)
{
    return (struct capture_region){.address = at,
                                   .size = N * sizeof *data,
                                   .allocation = at,
                                   .allocation_size = N * sizeof *data,
                                   .data = (const unsigned char *)data,
                                   .after = (const unsigned char *)after};
}

/* Writes the capture of kernel k, with results already in y where `stale`, as in an app's loop. */
static inline bool write_capture(const char *path, bool in_place, const CUdeviceptr at[2],
                                 const struct kg_hardware *hardware)
{
    static float x[N], y[N], result[N], factor = 0.5f;
    struct kg_param params[3] = {{0, 8}, {8, 8}, {16, 4}};
    unsigned char args[20];
    int n = N;
    char *ptx = kernel_ptx(in_place, false, &(struct parts){.slow = slow});
    for (int i = 0; i < N; i++) {
        x[i] = (float)(int)(random_word(7, (uint64_t)i) % 2001) - 1000;
        y[i] = in_place ? x[N - 1 - i] + 3 : 2 * x[i] + 1;
    }
    for (int i = 0; i < N; i++)
        result[i] = in_place ? y[i] + factor * x[i] : y[i]; /* exact */
    memcpy(args, at, 16);
    memcpy(args + 16, &n, 4);
    struct capture_region regions[3] = {numbers_at(at[0], x, NULL),
                                        numbers_at(at[1], y, result),
                                        {.kind = CAPTURE_GLOBAL,
                                         .size = 4,
                                         .name = "factor",
                                         .data = (const unsigned char *)&factor}};
    struct capture_pointer pointers[2] = {{0, 0, 0}, {1, 0, 1}};
    struct kg_capture capture = {.hardware = *hardware,
                                 .pid = 1,
                                 .entry = "k",
                                 .launch = {{BLOCKS, 1, 1}, {THREADS, 1, 1}, 0},
                                 .carveout = -1,
                                 .param_count = 3,
                                 .params = params,
                                 .args = {args, sizeof args},
                                 .pointer_count = 2,
                                 .pointers = pointers,
                                 .region_count = in_place ? 3 : 2,
                                 .regions = regions,
                                 .image = (const unsigned char *)ptx,
                                 .image_size = ptx ? strlen(ptx) + 1 : 0};
    bool good = ptx && fixture_id(ptx, &capture.kernel) && capture_write(&capture, path) == KG_OK;
    free(ptx);
    return good;
}

/* Runs this program again with the software GPU's libraries, unless the first argument is gpu. */
static inline void fixture_device(char **argv)
{
    if (argv[1] && !strcmp(argv[1], "gpu")) {
        if (real_open(NULL) != KG_OK)
            SKIP("no GPU here");
        return;
    }
    if (getenv("KGENRT_TEST_INSIDE"))
        return;
    if (access(BUILD_DIR "/softgpu/libcuda.so.1", R_OK)) {
        perror(BUILD_DIR "/softgpu/libcuda.so.1");
        exit(1);
    }
    const char *others = getenv("LD_LIBRARY_PATH"); /* there may be NVRTC and nvJitLink */
    char libraries[8192];
    snprintf(libraries, sizeof libraries, "%s%s%s", BUILD_DIR "/softgpu", others ? ":" : "",
             others ? others : "");
    setenv("LD_LIBRARY_PATH", libraries, 1);
    setenv("KGENRT_TEST_INSIDE", "1", 1);
    execv("/proc/self/exe", argv);
    perror("exec");
    exit(1);
}

/* ---- folder and worker --------------------------------------------------------------------------
 */

static char tune_dir[] = "/tmp/kgenrt-tune-XXXXXX"; /* all that this test writes */

static inline bool fresh_dir(void)
{
    return CHECK(mkdtemp(tune_dir));
}

/* One of the last four paths asked for. */
static inline const char *in_dir(const char *name)
{
    static char paths[4][KG_PATH];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    snprintf(path, KG_PATH, "%s/%s", tune_dir, name);
    return path;
}

static inline void remove_all(const char *name)
{
    char line[KG_PATH + 64];
    snprintf(line, sizeof line, "rm -rf %s", in_dir(name));
    CHECK(system(line) == 0);
}

static inline void fresh_cache(void)
{
    remove_all("cache");
    remove_all("replies");
    CHECK(dir_make(in_dir("cache/spool")) == KG_OK && dir_make(in_dir("replies")) == KG_OK);
}

/* die: on entry to which step it kills itself, or NULL. */
static inline pid_t start_worker(const char *die)
{
    pid_t child = fork();
    if (child)
        return child;
    char makers[KG_PATH + 16];
    snprintf(makers, sizeof makers, "recorded:%s", in_dir("replies"));
    setenv("KGENRT_MAKERS", makers, 1);
    setenv("KGENRT_CACHE", in_dir("cache"), 1);
    if (die)
        setenv("KGENRT_TEST_DIE", die, 1);
    execl(BUILD_DIR "/kgenrt", "kgenrt", "worker", "--once", NULL);
    _exit(127);
}

#endif
