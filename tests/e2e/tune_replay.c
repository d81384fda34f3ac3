/* The replay child for real: a capture is written, originals and variants run as PTX in child
 * processes on the software GPU (or, with the argument gpu, on the machine's own), and each hostile
 * kind is refused by the gate named here, against two kernels: one out of place, one that works in
 * place with a __constant__ factor, which variants read through an added pointer. */
#include "test.h"
#include "gpu/real.h"
#include "tune/job.h"
#include "tune/replay.h"

#include <string.h>
#include <unistd.h>

enum { N = 1000, THREADS = 128, BLOCKS = 8 };

static char dir[] = "/tmp/kgenrt-replay-XXXXXX";
static char program[KG_PATH];

/* ---- the code ----------------------------------------------------------------------------------
 */

/* Where a variant may differ from the right kernel. */
struct parts {
    const char *limit;  /* changes %r5, the element count */
    const char *before; /* before the element's store */
    const char *after;  /* after it */
    const char *slow;   /* work that changes nothing */
};

static const char slow[] = "\tmov.u32 %r8, 0;\nSLOW:\n\tadd.u32 %r8, %r8, 1;\n"
                           "\tsetp.lt.u32 %p3, %r8, 60;\n\t@%p3 bra SLOW;\n"
                           "\tand.b32 %r9, %r8, 64;\n\tadd.s32 %r4, %r4, %r9;\n\tadd.s32 %r4, %r4, "
                           "-0;\n";

static char *kernel_ptx(bool in_place, bool variant, const struct parts *parts)
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

/* ---- the capture -------------------------------------------------------------------------------
 */

/* Addresses as the app would have them; this process gives them back before any replay. */
static bool addresses(CUdeviceptr at[2], struct kg_hardware *hardware)
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

/* Writes the capture of kernel k, with results already in y where `stale`, as in an app's loop. */
static bool write_capture(const char *path, bool in_place, const CUdeviceptr at[2],
                          const struct kg_hardware *hardware)
{
    static float x[N], y[N], factor = 0.5f;
    struct kg_param params[3] = {{0, 8}, {8, 8}, {16, 4}};
    unsigned char args[20];
    int n = N;
    char *ptx = kernel_ptx(in_place, false, &(struct parts){.slow = slow});
    for (int i = 0; i < N; i++) {
        x[i] = (float)(int)(random_word(7, (uint64_t)i) % 2001) - 1000;
        y[i] = in_place ? x[N - 1 - i] + 3 : 2 * x[i] + 1;
    }
    memcpy(args, at, 16);
    memcpy(args + 16, &n, 4);
    struct capture_region regions[3] = {{.address = at[0],
                                         .size = sizeof x,
                                         .allocation = at[0],
                                         .allocation_size = sizeof x,
                                         .data = (const unsigned char *)x},
                                        {.address = at[1],
                                         .size = sizeof y,
                                         .allocation = at[1],
                                         .allocation_size = sizeof y,
                                         .data = (const unsigned char *)y},
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
    bool good = ptx && capture_write(&capture, path) == KG_OK;
    free(ptx);
    return good;
}

static bool open_job(struct job *job, const char *path)
{
    *job = (struct job){.dir = dir};
    if (path_make(job->capture_path, "%s", path) != KG_OK ||
        capture_read(path, &job->capture) != KG_OK ||
        capture_signature(&job->capture, &job->signature) != KG_OK)
        return false;
    bool soft = !strcmp(job->capture.hardware.vendor, "softgpu");
    return image_select(job->capture.image, job->capture.image_size, job->capture.hardware.arch,
                        soft, &job->image) == KG_OK &&
           kernel_model_make(&job->image, "k", &job->model) == KG_OK;
}

static void close_job(struct job *job)
{
    kernel_model_free(&job->model);
    image_code_free(&job->image);
    signature_free(&job->signature);
    capture_free(&job->capture);
    arena_free(&job->arena);
}

/* ---- cases -------------------------------------------------------------------------------------
 */

static void expect(struct job *job, bool in_place, const char *what, const struct parts *parts,
                   kg_status status, const char *gate, const char *words)
{
    char *ptx = kernel_ptx(in_place, true, parts);
    struct candidate candidate = {.maker = "test",
                                  .ptx = ptx,
                                  .entry = "k",
                                  .launch = job->capture.launch,
                                  .global_count = in_place,
                                  .globals = {"factor"}};
    struct verdict verdict = {0};
    candidate.code.data = (unsigned char *)ptx;
    candidate.code.size = strlen(ptx) + 1;
    kg_status got = verify_candidate(job, &candidate, &verdict);
    bool good = CHECK(got == status) && CHECK(!strcmp(verdict.gate, gate)) &&
                CHECK(strstr(verdict.reason, words));
    fprintf(stderr, "%s%s, %s: %s%s%s%s%s\n", good ? "" : "  ", in_place ? "in place" : "plain",
            what, status_text(got), *gate ? ", gate " : "", verdict.gate,
            *verdict.reason ? ": " : "", verdict.reason);
    if (!good || !strcmp(what, "right"))
        fprintf(stderr, "%s\n", verdict.evidence ? verdict.evidence : "no evidence");
    free(verdict.evidence);
    free(ptx);
}

static void variants(struct job *job, bool in_place)
{
    const char *unwritten = in_place ? "compare" : "poison";
    const struct {
        const char *what;
        struct parts parts;
        kg_status status;
        const char *gate, *words;
    } cases[] = {
        {"right", {0}, KG_OK, "", ""},
        {"not faster", {.slow = slow}, KG_SLOWER, "time", "no gain, ratio 1.0"},
        {"off by one at the edge",
         {.limit = "\tadd.s32 %r5, %r5, 1;\n"},
         KG_REFUSED,
         "memory",
         "0 bytes past the end of parameter 1"},
        {"missing tail",
         {.limit = "\tand.b32 %r5, %r5, -128;\n"},
         KG_REFUSED,
         unwritten,
         "parameter 1 + 3584"},
        {"one block wrong",
         {.before = "\tsetp.eq.s32 %p2, %r1, 3;\n\t@%p2 add.f32 %f3, %f3, 0f3F800000;\n"},
         KG_REFUSED,
         "compare",
         "block 3 if"},
        {"writes past the end",
         {.after = "\tsetp.eq.s32 %p2, %r4, 5;\n\t@%p2 st.global.f32 [%rd7+4400], %f3;\n"},
         KG_REFUSED,
         "memory",
         "420 bytes past the end of parameter 1"},
        {"endless loop",
         {.before = "FOREVER:\n\tadd.s32 %r8, %r8, 1;\n\tbra FOREVER;\n"},
         KG_TIMEOUT,
         "deadline",
         "did not end"},
        {"does nothing",
         {.limit = "\tmov.u32 %r5, 0;\n"},
         KG_REFUSED,
         unwritten,
         "parameter 1 + 0"},
        {"illegal address",
         {.after = "\tmov.u64 %rd9, 64;\n\tst.global.f32 [%rd9], %f3;\n"},
         KG_REFUSED,
         "fault",
         "ILLEGAL_ADDRESS"},
        {"no entry of this name", {.limit = "}\n"}, KG_REFUSED, "admission", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(job, in_place, cases[i].what, &cases[i].parts, cases[i].status, cases[i].gate,
               cases[i].words);
}

static void original_alone(struct job *job)
{
    struct verdict verdict = {0};
    CHECK(replay_original(job, 5, &verdict) == KG_OK);
    CHECK(verdict.original_ns > 0 && verdict.evidence && strstr(verdict.evidence, "\"result\""));
    fprintf(stderr, "original: %.0f ns %s\n", verdict.original_ns, verdict.reason);
    free(verdict.evidence);
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "child"))
        return replay_child(argc - 2, argv + 2);
    bool gpu = argc > 1 && !strcmp(argv[1], "gpu");
    if (!gpu && !getenv("KGENRT_TEST_INSIDE")) {
        if (access(BUILD_DIR "/softgpu/libcuda.so.1", R_OK))
            SKIP("the software GPU is not built");
        setenv("LD_LIBRARY_PATH", BUILD_DIR "/softgpu", 1);
        setenv("KGENRT_TEST_INSIDE", "1", 1);
        execv("/proc/self/exe", argv);
        return 1;
    }
    CUdeviceptr at[2];
    struct kg_hardware hardware;
    setenv("KGENRT_REPEATS", "5", 0);
    if (gpu && real_open(NULL) != KG_OK)
        SKIP("no GPU here");
    if (!CHECK(mkdtemp(dir)) || !CHECK(addresses(at, &hardware)))
        return test_result();
    for (int in_place = 0; in_place < 2; in_place++) {
        struct job job;
        CHECK(path_make(program, "%s/%d.kgcap", dir, in_place) == KG_OK);
        if (!CHECK(write_capture(program, in_place, at, &hardware)) ||
            !CHECK(open_job(&job, program)))
            continue;
        original_alone(&job);
        variants(&job, in_place);
        close_job(&job);
    }
    char command[KG_PATH + 16];
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK(system(command) == 0);
    return test_result();
}
