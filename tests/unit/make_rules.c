/* The maker "rules" on PTX that nvcc makes now: scalars and launch dimensions become constants, the
 * code compiles for the exact architecture, and what cannot be done exactly is left alone. */
#include <unistd.h>

#include "make_fixture.h"
#include "test.h"
#include "tune/makers.h"

static const char source[] =
    "__constant__ float weight[25];\n"
    "extern \"C\" __global__ void power(const float *x, float *y, int n, float a, int times)\n"
    "{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i >= n)\n        return;\n"
    "    float v = x[i];\n    for (int k = 0; k < times; k++)\n        v = v * a + 1.0f;\n    y[i] "
    "= v;\n}\n"
    "extern \"C\" __global__ void weighted(const float *x, float *y, int n)\n"
    "{\n    if (threadIdx.x < n)\n        y[threadIdx.x] = x[threadIdx.x] * "
    "weight[threadIdx.x];\n}\n"
    "extern \"C\" __global__ void plain(float *y)\n{\n    y[threadIdx.x] = 1.0f;\n}\n";

static char folder[] = "/tmp/make_rules_XXXXXX";
static struct kg_bytes ptx;

static bool compiled(void)
{
    char path[KG_PATH], command[4 * KG_PATH];
    if (!mkdtemp(folder) || path_make(path, "%s/k.cu", folder) != KG_OK ||
        file_write(path, source, strlen(source), 0600) != KG_OK)
        return false;
    snprintf(command, sizeof command, "cd %s && '%s' -arch=compute_80 -ptx k.cu -o k.ptx", folder,
             NVCC);
    bool good = !system(command) && path_make(path, "%s/k.ptx", folder) == KG_OK &&
                file_read(path, 1 << 20, &ptx) == KG_OK;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return !system(command) && good;
}

static bool job_make(struct job *job, const char *entry)
{
    static struct kg_scalar scalars[] = {{2, 0, 4, 1000}, {3, 0, 4, 0x3f000000}, {4, 0, 4, 7}};
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
    CHECK(!has(c.ptx, "weighted") && !has(c.ptx, "plain"));
    CHECK(compile_candidate(&job, &c, message, sizeof message) == KG_OK);
    CHECK(c.code.size > 500 && !memcmp(c.code.data, "\177ELF", 4) && c.compiler_version >= 12000 &&
          !strcmp(c.entry, "power"));
    bytes_free(&c.code);
    CHECK(make(&job, 1, 0, &c) == KG_NO_CANDIDATE && make(&job, 0, 1, &c) == KG_NO_CANDIDATE);
    kernel_model_free(&job.model);
    arena_free(&job.arena);
}

static void left_alone(void)
{
    struct job job;
    struct candidate c;
    /* module variables: a copy would go stale */
    if (CHECK(job_make(&job, "weighted")))
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
    if (access(NVCC, X_OK))
        SKIP("no nvcc on this machine");
    CHECK(compiled());
    if (ptx.data) {
        specialised();
        left_alone();
    }
    bytes_free(&ptx);
    return test_result();
}
