/* Ways of CUDA's runtime to a kernel: symbols, cudaFunction_t, cudaKernel_t, libraries, entry
 * points of the driver. In each the variant runs, or `status` counts why the original did; what the
 * program is told of its kernel is the same. The program, forms/lookups.cu, is built here by nvcc.
 * Runs on the software GPU, or with the argument "gpu" on the machine's, there also with the static
 * runtime. */
#include "made_variant.h"

enum { COUNT = 1024, BYTES = 4 * COUNT };

/* It adds 100, and so differs on purpose. */
static const char variant[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry fast(.param .u64 in, .param .u64 out, .param .f32 a, .param .u32 n)\n{\n"
    ".reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %d<6>;\n"
    "ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out]; ld.param.f32 %f1, [a];\n"
    "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
    "mad.lo.s32 %r1, %r1, %r2, %r3;\n"
    "cvta.to.global.u64 %d1, %d1; cvta.to.global.u64 %d2, %d2;\n"
    "mul.wide.u32 %d3, %r1, 4; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;\n"
    "ld.global.f32 %f2, [%d4]; fma.rn.f32 %f3, %f2, %f1, 0f42CA0000;\n"
    "st.global.f32 [%d5], %f3;\nret;\n}\n";

static int prepare(const char *path)
{
    static char original[1 << 16];
    struct made made;
    float a = 2;
    struct kg_scalar scalars[] = {{2, 0, 4, 0, 0}, {3, 0, 4, COUNT, 0}};
    struct kg_pointer pointers[] = {{0, 0, 4, 0, 0, BYTES}, {1, 0, 4, 0, 0, BYTES}};
    FILE *file = fopen(path, "r");
    if (!CHECK(file && fread(original, 1, sizeof original - 1, file) && !fclose(file)))
        return 1;
    memcpy(&scalars[0].value, &a, sizeof a);
    struct kg_variant v = made_begin(&made, original);
    v.signature = (struct kg_signature){.launch = {{4, 1, 1}, {256, 1, 1}, 0},
                                        .scalar_count = 2,
                                        .pointer_count = 2,
                                        .scalars = scalars,
                                        .pointers = pointers};
    v.launch = (struct kg_launch){{2, 1, 1}, {512, 1, 1}, 0};
    v.note = "made by hand";
    made_publish(&made, &v, variant, "{}");
    return test_result();
}

/* The last word of the line that begins with `what`. */
static char letter(const char *what)
{
    size_t length = strlen(what);
    for (const char *line = e2e_output; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, what, length) && line[length] == ' ')
            return line[length + 1];
    }
    return 0;
}

static const char *told(void)
{
    const char *line = strstr(e2e_output, "blocks ");
    return e2e_text("%.*s", line ? (int)strcspn(line, "\n") : 0, line ? line : "");
}

static const struct {
    const char *what;
    char runs;
} ways[] = {
    {"<<<>>>", 'v'},
    {"cudaLaunchKernel", 'v'},
    {"a stream", 'v'},
    {"cudaLaunchKernelExC", 'v'},
    {"priority", 'v'},
    {"programmatic", 'o'},
    {"cooperative", 'o'},
    {"cudaGetFuncBySymbol", 'v'},
    {"the newest cuLaunchKernel", 'v'},
    {"cudaGetKernel", 'v'},
    {"cudaLibraryGetKernel", 'v'},
    {"cudaLibraryEnumerateKernels", 'v'},
    {"attributes", 'v'},
};

static void look(const char *what, const char *program, const char *image, bool swaps)
{
    const char *const with[] = {e2e_preload(), "KGENRT_MODE=cached", NULL};
    int status =
        e2e_run((const char *[]){program, image, NULL}, swaps ? with : (const char *[]){NULL}, 100);
    bool right = CHECK(status == 0);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (!CHECK(letter(ways[i].what) == (swaps ? ways[i].runs : 'o')))
            fprintf(stderr, "%s: %s\n", what, ways[i].what);
    if (!right)
        fprintf(stderr, "%s: exit status %d, %s\n", what, status, e2e_output);
}

static int counted(const json_t *kernels, const char *list, const char *key)
{
    json_t *kernel;
    size_t i;
    int sum = 0;
    json_array_foreach((json_t *)(uintptr_t)kernels, i, kernel)
    {
        const json_t *from = list ? json_object_get(kernel, list) : kernel;
        sum += (int)json_integer_value(json_object_get(from, key));
    }
    return sum;
}

static void one(const char *flags, const char *image)
{
    const char *program = e2e_text("%s/lookups", e2e_cache);
    if (!CHECK(!system(e2e_text("'%s' %s -o '%s' '%s/tests/e2e/forms/lookups.cu'",
                                e2e_place("NVCC", NVCC), flags, program, E2E_SOURCE))))
        return;
    look(flags, program, image, false);
    const char *alone = told();
    WELL(system(e2e_text("rm -rf '%s/flight'", e2e_cache)));
    look(flags, program, image, true);
    CHECK(*alone && !strcmp(alone, told()));
    json_t *status = e2e_json("status", NULL);
    const json_t *kernels =
        json_object_get(json_array_get(json_object_get(status, "processes"), 0), "kernels");
    int launches = counted(kernels, NULL, "launches"), swapped = counted(kernels, NULL, "swapped");
    fprintf(stderr, "%s: %d launches, %d ran the variant\n", flags, launches, swapped);
    CHECK(launches == 13 && swapped == 11);
    CHECK(counted(kernels, "refused", "programmatic") == 1);
    CHECK(counted(kernels, "refused", "cooperative") == 1);
    json_decref(status);
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "prepare"))
        return prepare(argv[2]);
    e2e_begin(argc, argv);
    made_environment();
    const char *image = e2e_text("%s/work.ptx", e2e_cache);
    WELL(system(e2e_text("'%s' -DKERNEL_ONLY -ptx -o '%s' '%s/tests/e2e/forms/lookups.cu'",
                         e2e_place("NVCC", NVCC), image, E2E_SOURCE)));
    CHECK(e2e_run((const char *[]){"/proc/self/exe", "prepare", image, NULL}, NULL, 60) == 0);
    one("-cudart shared", image);
    one("-cudart shared --default-stream per-thread", image);
    if (e2e_gpu)
        one("-cudart static", image);
    e2e_remove_cache();
    return test_result();
}
