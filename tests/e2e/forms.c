/* Every way in which a program reaches the driver: its launches are counted, all of them, and its
 * result is right. The two programs in forms/ are built here by nvcc and the C compiler. And the
 * kernel id: two builds of a program, one with an unrelated kernel added and moved to another
 * folder, have the same. */
#include "e2e.h"

static char *folder;

static bool build(const char *command)
{
    int status = system(command);
    if (!CHECK(status == 0))
        fprintf(stderr, "failed: %s\n", command);
    return status == 0;
}

/* The one kernel of the newest process. */
static json_t *kernel(json_t *status)
{
    json_t *process = json_array_get(json_object_get(status, "processes"), 0);
    return json_array_get(json_object_get(process, "kernels"), 0);
}

/* Runs the program, and expects 60 launches of one kernel in `status`. The kernel's id into id, if
 * not NULL. */
static void seen(const char *what, const char *const argv[])
{
    e2e_fresh_cache();
    int status = e2e_run(argv, (const char *[]){e2e_preload(), "KGENRT_MODE=observe", NULL}, 60);
    bool right = CHECK(status == 0) && CHECK(strstr(e2e_output, "right"));
    if (!right)
        fprintf(stderr, "%s\n", e2e_output);
    json_t *json = e2e_json("status", NULL), *one = kernel(json);
    long launches = (long)json_number_value(json_object_get(one, "launches"));
    fprintf(stderr, "%-44s exit status %d, %ld launches seen\n", what, status, launches);
    CHECK(launches == 60);
    json_decref(json);
    e2e_remove_cache();
}

static void runtime_programs(void)
{
    static const struct {
        const char *name, *flags;
        bool gpu; /* needs a real one: NVIDIA's own runtime refuses other drivers */
    } forms[] = {
        {"cudart shared", "-cudart shared", false},
        {"cudart shared, per-thread stream", "-cudart shared --default-stream per-thread", false},
        {"cudart static", "", true},
        {"cudart static, per-thread stream", "--default-stream per-thread", true},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (forms[i].gpu && !e2e_gpu)
            continue;
        char *program = e2e_text("%s/runtime%zu", folder, i);
        if (build(e2e_text("'%s' %s -o '%s' '%s/tests/e2e/forms/runtime.cu'",
                           e2e_place("NVCC", NVCC), forms[i].flags, program, E2E_SOURCE)))
            seen(forms[i].name, (const char *[]){program, NULL});
    }
}

static void driver_programs(void)
{
    const char *nvcc = e2e_place("NVCC", NVCC);
    char *source = e2e_text("%s/add_one.cu", folder), *ptx = e2e_text("%s/add_one.ptx", folder),
         *fatbin = e2e_text("%s/add_one.fatbin", folder);
    FILE *f = fopen(source, "w");
    if (!CHECK(f != NULL))
        return;
    fputs("extern \"C\" __global__ void add_one(int *values, int count)\n{\n    int i = blockIdx.x "
          "* blockDim.x + "
          "threadIdx.x;\n    if (i < count)\n        values[i] += 1;\n}\n",
          f);
    CHECK(fclose(f) == 0);
    if (!build(e2e_text("'%s' -ptx -o '%s' '%s'", nvcc, ptx, source)) ||
        !build(e2e_text("'%s' -fatbin -o '%s' '%s'", nvcc, fatbin, source)))
        return;
    /* linked to libcuda: the software GPU's, or the machine's */
    char *linked = e2e_text("%s/linked", folder), *opened = e2e_text("%s/opened", folder);
    const char *libcuda =
        e2e_gpu ? "-l:libcuda.so.1 -L/usr/local/nvidia/lib64 -L/usr/lib/x86_64-linux-gnu"
                : e2e_text("'%s/softgpu/libcuda.so.1'", E2E_BUILD);
    const char *include =
        e2e_text("-I'%s/include' -I'%s/targets/x86_64-linux/include'",
                 e2e_place("CUDA_ROOT", CUDA_ROOT), e2e_place("CUDA_ROOT", CUDA_ROOT));
    if (!build(
            e2e_text("gcc %s -o '%s' '%s/tests/e2e/forms/driver.c' %s -Wl,--allow-shlib-undefined",
                     include, linked, E2E_SOURCE, libcuda)) ||
        !build(e2e_text("gcc -DBY_DLOPEN %s -o '%s' '%s/tests/e2e/forms/driver.c' -ldl", include,
                        opened, E2E_SOURCE)))
        return;
    static const char *const loads[] = {"data", "dataex", "fatbin", "file", "library", "nvrtc"};
    for (size_t i = 0; i < 6; i++) {
        const char *image = i == 2 ? fatbin : i == 5 ? source : ptx;
        seen(e2e_text("driver linked, load %s", loads[i]),
             (const char *[]){linked, loads[i], image, "params", NULL});
        seen(e2e_text("driver by dlopen, load %s", loads[i]),
             (const char *[]){opened, loads[i], image, "params", NULL});
    }
    seen("driver linked, extra buffer", (const char *[]){linked, "data", ptx, "extra", NULL});
    seen("driver linked, cuLaunchKernelEx", (const char *[]){linked, "data", ptx, "ex", NULL});
}

/* The cache entry is the kernel's, not the build's: what was made for the first build, the
 * second finds at its first launches. */
static void two_builds(void)
{
    const char *flags = e2e_gpu ? "" : "-cudart shared", *nvcc = e2e_place("NVCC", NVCC);
    char *there = e2e_text("%s/another/folder/transpose", folder),
         *first = e2e_text("%s/first", folder), *second = e2e_text("%s/second", folder);
    if (!build(e2e_text("mkdir -p '%s' && cp '%s/samples/sample.h' '%s/..'", there, E2E_SOURCE,
                        there)) ||
        !build(e2e_text("'%s' %s -O3 -o '%s' '%s/samples/transpose/transpose.cu'", nvcc, flags,
                        first, E2E_SOURCE)) ||
        !build(
            e2e_text("(echo '__global__ void unrelated(float *x, int n) { for (int i = 0; i < n; "
                     "i++) if (x[i] "
                     "> 0) x[i] *= n; }'; cat '%s/samples/transpose/transpose.cu') >'%s/moved.cu'",
                     E2E_SOURCE, there)) ||
        !build(e2e_text("cd '%s' && '%s' %s -O3 -lineinfo -o '%s' moved.cu", there, nvcc, flags,
                        second)))
        return;
    e2e_fresh_cache();
    e2e_verdict_seconds(e2e_captured(first, NULL), "transpose");
    json_t *json = e2e_json("list", NULL);
    CHECK(json_array_size(json_object_get(json, "variants")) == 1);
    json_decref(json);
    CHECK(e2e_run((const char *[]){second, "--launches", "50", NULL},
                  (const char *[]){e2e_preload(), "KGENRT_MODE=cached", NULL}, 60) == 0);
    json = e2e_json("status", NULL);
    long at = (long)json_number_value(json_object_get(kernel(json), "first_swapped_launch"));
    fprintf(stderr, "second build, moved, with another kernel: first swapped launch %ld\n", at);
    if (!CHECK(at > 0 && at < 10))
        e2e_show_log();
    json_decref(json);
    e2e_remove_cache();
}

int main(int argc, char **argv)
{
    e2e_begin(argc, argv);
    folder = e2e_text("%s", e2e_cache);
    runtime_programs();
    driver_programs();
    two_builds();
    snprintf(e2e_cache, sizeof e2e_cache, "%s", folder);
    e2e_remove_cache();
    return test_result();
}
