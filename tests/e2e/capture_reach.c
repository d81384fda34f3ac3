/* Captures of a running program on the software GPU hold what its launches reach and no more: a few
 * KiB of a 256 MiB allocation, two places of one pool, what lies before a pointer, what pointers in
 * memory lead to, in two levels. They replay to the app's own result, which is in the file; one in
 * which it is falsified does not. A later capture has later contents, and is judged with the first.
 */
#include "gpu/real.h"

#include "capture.h"

#include "e2e.h"

#include <dirent.h>

enum { COUNT = 1000, KERNELS = 4, TWICE = 2 };
static const uint64_t mib = 1 << 20;

#define ENTRY(name, body)                                                                          \
    ".visible .entry " name "(.param .u64 in, .param .u64 out, .param .u32 n)\n{\n"                \
    ".reg .pred %p; .reg .b32 %r<6>; .reg .f32 %f<6>; .reg .b64 %d<10>;\n"                         \
    "ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out]; ld.param.u32 %r1, [n];\n"                    \
    "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"                          \
    "mad.lo.s32 %r5, %r2, %r3, %r4;\nsetp.ge.s32 %p, %r5, %r1;\n@%p bra DONE;\n"                   \
    "cvta.to.global.u64 %d1, %d1; cvta.to.global.u64 %d2, %d2;\n"                                  \
    "mul.wide.s32 %d3, %r5, 4; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;\n" body               \
    "\nst.global.f32 [%d5], %f2;\nDONE:\nret;\n}\n"

static const char ptx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
    /* out[i] = in[i] + in[i] */
    ENTRY("few", "ld.global.f32 %f1, [%d4]; add.f32 %f2, %f1, %f1;")
    /* out[i] = in[-1 - i] */
    ENTRY("before", "sub.s64 %d4, %d1, %d3; ld.global.f32 %f2, [%d4+-4];")
    /* out[i] = *in[i]->second: in has pointers, what they lead to has pointers */
    ENTRY("list", "mul.wide.s32 %d6, %r5, 8; add.s64 %d7, %d1, %d6; ld.global.u64 %d8, [%d7];\n"
                  "ld.global.u64 %d9, [%d8+8]; ld.global.f32 %f2, [%d9];")
    /* out[i] += in[i] */
    ENTRY("step", "ld.global.f32 %f1, [%d4]; ld.global.f32 %f3, [%d5]; add.f32 %f2, %f1, %f3;");

static const char *const names[KERNELS] = {"few", "before", "list", "step"};

/* ---- the program -------------------------------------------------------------------------------
 */

/* Numbers, nodes that lead to them, and a table that leads to the nodes. */
static CUdeviceptr make_list(void)
{
    static float numbers[COUNT];
    static uint64_t nodes[2 * COUNT], table[COUNT];
    CUdeviceptr at[3];
    WELL(real.cuMemAlloc_v2(&at[0], sizeof numbers));
    WELL(real.cuMemAlloc_v2(&at[1], sizeof nodes));
    WELL(real.cuMemAlloc_v2(&at[2], sizeof table));
    for (unsigned i = 0; i < COUNT; i++) {
        unsigned other = i * 7 % COUNT;
        numbers[i] = (float)i + 0.5f;
        nodes[2 * i] = 0x3f8000003f800000;
        nodes[2 * i + 1] = at[0] + 4 * other;
        table[i] = at[1] + 16 * (COUNT - 1 - i);
    }
    WELL(real.cuMemcpyHtoD_v2(at[0], numbers, sizeof numbers));
    WELL(real.cuMemcpyHtoD_v2(at[1], nodes, sizeof nodes));
    WELL(real.cuMemcpyHtoD_v2(at[2], table, sizeof table));
    return at[2];
}

/* Launches them in turn until the file `stop` is there. */
static int program(const char *stop)
{
    static float values[2 * COUNT];
    CUcontext context;
    CUmodule module;
    CUfunction functions[KERNELS];
    CUdeviceptr pool, step;
    unsigned n = COUNT;
    WELL(real_open(NULL));
    WELL(real.cuInit(0));
    WELL(real.cuDevicePrimaryCtxRetain(&context, 0));
    WELL(real.cuCtxSetCurrent(context));
    WELL(real.cuModuleLoadData(&module, ptx));
    for (unsigned k = 0; k < KERNELS; k++)
        WELL(real.cuModuleGetFunction(&functions[k], module, names[k]));
    WELL(real.cuMemAlloc_v2(&pool, 256 * mib));
    WELL(real.cuMemAlloc_v2(&step, sizeof values));
    for (unsigned i = 0; i < 2 * COUNT; i++)
        values[i] = (float)(i % 97) - 48;
    WELL(real.cuMemcpyHtoD_v2(pool + 64 * mib, values, sizeof values));
    WELL(real.cuMemcpyHtoD_v2(step, values, sizeof values));
    CUdeviceptr in[KERNELS] = {pool + 64 * mib, pool + 64 * mib + 4 * COUNT, make_list(), step},
                out[KERNELS] = {pool + 128 * mib, pool + 192 * mib, pool + 32 * mib,
                                step + 4 * COUNT};
    while (access(stop, F_OK))
        for (unsigned k = 0; k < KERNELS; k++) {
            void *arguments[] = {&in[k], &out[k], &n};
            WELL(real.cuLaunchKernel(functions[k], 8, 1, 1, 128, 1, 1, 0, NULL, arguments, NULL));
            WELL(real.cuCtxSynchronize());
        }
    return test_result();
}

/* ---- the captures ------------------------------------------------------------------------------
 */

static struct kg_capture captures[KERNELS][TWICE];
static const char *paths[KERNELS][TWICE];
static unsigned counts[KERNELS];

static void take(const char *path)
{
    struct kg_capture capture;
    if (!CHECK(capture_read(path, &capture) == KG_OK))
        return;
    for (unsigned k = 0; k < KERNELS; k++)
        if (!strcmp(capture.entry, names[k]) && counts[k] < TWICE) {
            paths[k][counts[k]] = path;
            captures[k][counts[k]++] = capture;
            return;
        }
    capture_free(&capture);
}

static unsigned spooled(bool read)
{
    const char *folder = e2e_text("%s/spool", e2e_cache);
    unsigned count = 0;
    DIR *list = opendir(folder);
    for (struct dirent *e; list && (e = readdir(list));)
        if (strstr(e->d_name, CAPTURE_SUFFIX)) {
            count++;
            if (read)
                take(e2e_text("%s/%s", folder, e->d_name));
        }
    if (list)
        closedir(list);
    return count;
}

static const struct capture_region *region(const struct kg_capture *capture, unsigned param)
{
    for (uint32_t i = 0; i < capture->pointer_count; i++)
        if (capture->pointers[i].param == param)
            return &capture->regions[capture->pointers[i].region];
    fprintf(stderr, "%s: parameter %u has no region\n", capture->entry, param);
    exit(1);
}

static float number(const unsigned char *data, unsigned index)
{
    float value;
    memcpy(&value, data + 4 * (size_t)index, sizeof value);
    return value;
}

static void look(void)
{
    const struct kg_capture *few = &captures[0][0], *before = &captures[1][0],
                            *list = &captures[2][0], *step = captures[3];
    struct kg_signature signature;
    CHECK(few->region_count == 2 && few->file.size < 65536);
    const struct capture_region *in = region(few, 0), *out = region(few, 1);
    CHECK(in->size == 4 * COUNT && out->size == 4 * COUNT && !in->after && out->after);
    CHECK(in->allocation == out->allocation && in->allocation_size == 256 * mib);
    for (unsigned i = 0; i < COUNT; i++)
        CHECK(number(out->after, i) == 2 * number(in->data, i));

    in = region(before, 0);
    if (CHECK(capture_signature(before, &signature) == KG_OK)) {
        CHECK(signature.pointers[0].low == -4 * COUNT && signature.pointers[0].high == 0);
        signature_free(&signature);
    }
    CHECK(in->size == 4 * COUNT && number(region(before, 1)->after, 0) == number(in->data, 999));

    unsigned nested = 0;
    for (uint32_t i = 0; i < list->region_count; i++)
        nested += list->regions[i].kind == CAPTURE_NESTED;
    CHECK(nested == 2 && list->place_count == 2 * COUNT);
    CHECK(number(region(list, 1)->after, 0) == (float)((COUNT - 1) * 7 % COUNT) + 0.5f);

    /* two moments of a sum that grows */
    const struct capture_region *first = region(&step[0], 1), *second = region(&step[1], 1);
    CHECK(first->size == 4 * COUNT && second->size == first->size);
    CHECK(memcmp(first->data, second->data, first->size) != 0);
    CHECK(number(first->after, 1) == number(first->data, 1) + number(region(&step[0], 0)->data, 1));
}

static bool replays(const char *path)
{
    int code = e2e_run((const char *[]){e2e_cli(), "replay", path, NULL},
                       (const char *[]){"KGENRT_LOG=error", NULL}, 120);
    return code == 0;
}

static void replay_all(void)
{
    for (unsigned k = 0; k < KERNELS; k++) {
        if (!CHECK(replays(paths[k][0])))
            fprintf(stderr, "%s", e2e_output);
        struct kg_capture wrong = captures[k][0];
        const char *path = e2e_text("%s/wrong" CAPTURE_SUFFIX, e2e_cache);
        for (uint32_t i = 0; i < wrong.region_count; i++)
            if (wrong.regions[i].after) /* in its own copy of the file */
                ((unsigned char *)(uintptr_t)wrong.regions[i].after)[4 * 500] ^= 1;
        CHECK(capture_write(&wrong, path) == KG_OK && !replays(path));
        if (!CHECK(strstr(e2e_output, "not faithful") && strstr(e2e_output, "+ 2000")))
            fprintf(stderr, "%s", e2e_output);
    }
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "program"))
        return program(argv[2]);
    e2e_begin(argc, argv);
    const char *stop = e2e_text("%s/stop", e2e_cache);
    const char *const environment[] = {e2e_preload(),        "KGENRT_WORKER=off",
                                       "KGENRT_HOT_SHARE=1", "KGENRT_HOT_LAUNCHES=10",
                                       "KGENRT_CAPTURES=2",  NULL};
    pid_t pid =
        e2e_start((const char *[]){"/proc/self/exe", "program", stop, NULL}, environment, -1);
    for (double end = e2e_now() + 120; e2e_now() < end && spooled(false) < KERNELS * TWICE;)
        usleep(100000);
    CHECK(file_write(stop, "", 0, 0600) == KG_OK);
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    spooled(true);
    bool all = true;
    for (unsigned k = 0; k < KERNELS; k++)
        all = CHECK(counts[k] == TWICE) && all;
    if (all) {
        look();
        replay_all();
    } else {
        e2e_show_log();
    }
    /* files of one kind are one job: none is left, and none was a job of its own */
    CHECK(e2e_run((const char *[]){e2e_cli(), "worker", "--once", NULL},
                  (const char *[]){"KGENRT_MAKERS=recorded:/nonexistent", NULL}, 300) == 0);
    CHECK(!spooled(false));
    for (unsigned k = 0; k < KERNELS; k++)
        for (unsigned i = 0; i < counts[k]; i++)
            capture_free(&captures[k][i]);
    if (test_failures)
        e2e_show_log();
    e2e_remove_cache();
    return test_result();
}
