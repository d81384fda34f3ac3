/* The maker "rules" on PTX that nvcc makes now: scalars and launch dimensions become constants, the
 * code compiles for the exact architecture, and what cannot be done exactly is left alone. */
#include "exec_test.h"
#include "make_fixture.h"
#include "tune/makers.h"

static const char source[] =
    "__constant__ float weight[25];\n"
    "extern \"C\" __global__ void power(const float *x, float *y, int n, float a, int times)\n"
    "{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i >= n)\n        return;\n"
    "    float v = x[i];\n    for (int k = 0; k < times; k++)\n        v = v * a + 1.0f;\n    y[i] "
    "= v;\n}\n"
    "extern \"C\" __global__ void heavy(const float *x, float *y, int n)\n"
    "{\n    if (threadIdx.x < n)\n        y[threadIdx.x] = x[threadIdx.x] * "
    "weight[threadIdx.x % 25];\n}\n"
    "static __device__ float scale = 2.0f;\n__device__ int counter;\n__device__ __noinline__ float "
    "scaled(float v)\n"
    "{\n    return v * scale;\n}\n"
    "extern \"C\" __global__ void several(const float *x, float *y, int n, float a, int k)\n"
    "{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i >= n)\n        return;\n    "
    "float s = a;\n"
    "    for (int j = 0; j < k; j++)\n        s += weight[j] * x[i];\n    y[i] = (s + weight[3]) * "
    "scale;\n"
    "    if (i == 5)\n        atomicAdd(&counter, 1);\n}\n"
    "extern \"C\" __global__ void called(const float *x, float *y, int n)\n{\n    if (threadIdx.x "
    "< n)\n"
    "        y[threadIdx.x] = scaled(x[threadIdx.x]);\n}\n"
    "extern \"C\" __global__ void plain(float *y)\n{\n    y[threadIdx.x] = 1.0f;\n}\n";

static struct kg_bytes ptx;

static bool job_make(struct job *job, const char *entry)
{
    static struct kg_scalar scalars[] = {
        {2, 0, 4, 1000, 0}, {3, 0, 4, 0x3f000000, 0}, {4, 0, 4, 7, 0}};
    memset(job, 0, sizeof *job);
    job->capture.hardware = (struct kg_hardware){.vendor = "nvidia", .arch = "sm_90"};
    job->capture.launch = (struct kg_launch){{4, 1, 1}, {256, 1, 1}, 0};
    job->image.selected = job->image.ptx = ptx;
    job->image.sm = 80;
    if (kernel_model_make(&job->image, entry, &job->model) != KG_OK)
        return false;
    job->signature.scalars = scalars;
    job->signature.scalar_count = job->model.param_count > 2 ? job->model.param_count - 2 : 0;
    return true;
}

static kg_status make(struct job *job, unsigned attempt, unsigned turn, struct candidate *out)
{
    return rules_make(job, "", attempt, turn, NULL, NULL, out);
}

/* ---- running both on the executor of the software GPU ---- */

enum { N = 1000 };

/* Gives the module's variables the values that both runs start with. */
static void fill(const struct exec_module *module)
{
    uint64_t address, size;
    float value = 0.37f;
    if (exec_module_global(module, "weight", &address, &size))
        for (int i = 0; i < 25; i++, value *= -1.3f)
            memcpy((char *)(uintptr_t)address + 4 * i, &value, 4);
}

/* Launches the entry of ptx on x; the result, and the counter behind it, go to y[0 .. N].
 * variables: the module whose variables are passed, or NULL. */
static bool launch(const char *ptx, const struct job *job, const struct candidate *candidate,
                   const struct exec_module *variables, float *y)
{
    struct exec_module *module = NULL;
    struct exec_info info;
    struct exec_result result = {.fault = EXEC_UNSUPPORTED};
    char error[256] = "";
    unsigned char args[256] = {0};
    uint64_t input = test_alloc(N * 4, 256), output = test_alloc(N * 4, 256), size, counter;
    memset((void *)(uintptr_t)output, 0, N * 4);
    for (int i = 0; i < N; i++)
        ((float *)(uintptr_t)input)[i] = (float)(i % 77) * 0.123f - 3.0f;
    if (exec_module_create(ptx, &test_memory, &module, error, sizeof error) != KG_OK) {
        fprintf(stderr, "%s\n", error);
        return false;
    }
    const struct exec_kernel *kernel = exec_module_kernel(module, job->model.entry);
    exec_kernel_info(kernel, &info);
    fill(variables ? variables : module);
    memcpy(args, &input, 8);
    memcpy(args + 8, &output, 8);
    for (uint32_t i = 0; i < job->signature.scalar_count; i++)
        memcpy(args + job->model.params[2 + i].offset, &job->signature.scalars[i].value, 4);
    for (uint32_t i = 0; variables && i < candidate->global_count; i++)
        if (!exec_module_global(variables, candidate->globals[i],
                                (uint64_t *)(args + info.params[job->model.param_count + i].offset),
                                &size))
            return false;
    const struct exec_config config = {.launch = job->capture.launch, .threads = 1};
    exec_launch(kernel, &config, args, &result);
    if (result.fault != EXEC_OK)
        fprintf(stderr, "%s\n", result.text);
    memcpy(y, (void *)(uintptr_t)output, N * 4);
    y[N] = 0;
    if (exec_module_global(variables ? variables : module, "counter", &counter, &size))
        memcpy(&y[N], (void *)(uintptr_t)counter, 4);
    exec_module_destroy(module);
    test_free(input);
    test_free(output);
    return result.fault == EXEC_OK;
}

/* The variant, on the original's variables, gives what the original gives, to the last bit. */
static void equal_results(const struct job *job, const struct candidate *c)
{
    static float expected[N + 1], got[N + 1];
    char error[256];
    struct exec_module *original = NULL;
    CHECK(launch((char *)ptx.data, job, NULL, NULL, expected));
    CHECK(exec_module_create((char *)ptx.data, &test_memory, &original, error, sizeof error) ==
          KG_OK);
    if (!original)
        return;
    CHECK(launch(c->ptx, job, c, original, got));
    CHECK(!memcmp(expected, got, sizeof got) && (expected[3] != 0 || expected[4] != 0));
    exec_module_destroy(original);
}

static void specialised(void)
{
    struct job job;
    struct candidate c;
    char message[1024];
    if (!CHECK(job_make(&job, "power")) || !CHECK(make(&job, 0, 0, &c) == KG_OK))
        return;
    CHECK(!strcmp(c.maker, "rules") && !c.source && !strcmp(c.entry, "power") && c.note &&
          c.launch.grid.x == 4 && c.launch.block.x == 256);
    CHECK(has((char *)ptx.data, "[power_param_2]") && !has(c.ptx, "[power_param_2]") &&
          !has(c.ptx, "[power_param_3]") && !has(c.ptx, "[power_param_4]"));
    CHECK(has(c.ptx, "[power_param_0]") && has(c.ptx, "[power_param_1]") &&
          has(c.ptx, "power_param_4") && !has(c.ptx, "%ntid.x"));
    CHECK(!has(c.ptx, "heavy") && !has(c.ptx, "plain"));
    CHECK(compile_candidate(&job, &c, message, sizeof message) == KG_OK);
    CHECK(c.code.size > 500 && !memcmp(c.code.data, "\177ELF", 4) && c.compiler_version >= 12000 &&
          !strcmp(c.entry, "power"));
    bytes_free(&c.code);
    equal_results(&job, &c);
    CHECK(make(&job, 1, 0, &c) == KG_NO_CANDIDATE && make(&job, 0, 1, &c) == KG_NO_CANDIDATE);
    kernel_model_free(&job.model);
    arena_free(&job.arena);
}

/* Module variables become pointers that the launch passes. */
static void by_address(const char *entry, unsigned variables)
{
    struct job job;
    struct candidate c;
    char message[1024] = "";
    if (!CHECK(job_make(&job, entry)) || !CHECK(make(&job, 0, 0, &c) == KG_OK))
        return;
    CHECK(c.global_count == variables && job.model.global_count == variables);
    for (unsigned i = 0; i < c.global_count; i++) {
        char param[32];
        snprintf(param, sizeof param, "[kgv_param_%u]", i);
        CHECK(!strcmp(c.globals[i], job.model.globals[i].name) && !has(c.ptx, c.globals[i]) &&
              has(c.ptx, param));
    }
    CHECK(!has(c.ptx, ".const"));
    equal_results(&job, &c);
    struct ptx_facts facts;
    CHECK(ptx_facts_of(c.ptx, &facts, message, sizeof message) == KG_OK);
    CHECK(facts.param_count == job.model.param_count + variables && !facts.writable_globals);
    CHECK(facts.params[facts.param_count - 1].size == 8 && facts.entries == 1);
    CHECK(compile_candidate(&job, &c, message, sizeof message) == KG_OK);
    if (*message)
        fprintf(stderr, "%s\n%s", message, c.ptx);
    bytes_free(&c.code);
    kernel_model_free(&job.model);
    arena_free(&job.arena);
}

static void left_alone(void)
{
    struct job job;
    struct candidate c;
    /* a variable named in a function that is called */
    if (CHECK(job_make(&job, "called")))
        CHECK(job.model.global_count == 1 && make(&job, 0, 0, &c) == KG_NO_CANDIDATE);
    kernel_model_free(&job.model);
    arena_free(&job.arena);
    /* nothing to replace */
    if (CHECK(job_make(&job, "plain")))
        CHECK(make(&job, 0, 0, &c) == KG_NO_CANDIDATE);
    kernel_model_free(&job.model);
    /* no PTX */
    if (CHECK(job_make(&job, "power"))) {
        job.image.ptx = (struct kg_bytes){0};
        CHECK(make(&job, 0, 0, &c) == KG_NO_CANDIDATE);
    }
    kernel_model_free(&job.model);
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "child"))
        return compile_child(argc, argv);
    setenv("KGENRT_TEST_CLI", "/proc/self/exe", 1);
    ptx = ptx_of(source, "-arch=compute_80");
    specialised();
    by_address("heavy", 1);
    by_address("several", 3);
    left_alone();
    bytes_free(&ptx);
    return test_result();
}
