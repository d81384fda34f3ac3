/* Programs built by nvcc, unmodified, on the software GPU: with -cudart shared, with a default
 * stream for each thread, with machine code only (which cannot run), with graphs on two devices,
 * linked on the device; the device's absence; and NVRTC with the driver's API in one process. */
#include "softgpu/soft_test.h"

/* Runs a program of <build>/softgpu with our two libraries first in the search path. */
static int run(const char *program, const char *argument, const char *libraries)
{
    char path[1024];
    pid_t child = fork();
    if (child == 0) {
        snprintf(path, sizeof path, BUILD_DIR "/softgpu/%s", program);
        setenv("LD_LIBRARY_PATH", libraries, 1);
        if (*PRELOAD_FIRST) { /* the program is not instrumented, our libraries are */
            setenv("LD_PRELOAD", PRELOAD_FIRST, 1);
            setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* a program that hangs just ends */
        }
        alarm(120);
        execl(path, program, argument, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The N of libcudart.so.N: the headers' major version, for the runtime is made from them. */
static int cudart_major(void)
{
    return CUDA_VERSION / 1000;
}

/* A folder with the runtime alone. */
static void without_driver(void)
{
    char folder[] = "/tmp/softgpu-XXXXXX", library[512], link[512];
    if (!CHECK(mkdtemp(folder)))
        return;
    int major = cudart_major();
    snprintf(library, sizeof library, BUILD_DIR "/softgpu/libcudart.so.%d", major);
    snprintf(link, sizeof link, "%s/libcudart.so.%d", folder, major);
    CHECK(symlink(library, link) == 0);
    if (access("/dev/nvidiactl", F_OK)) /* a machine with a driver of its own finds that one */
        CHECK(run("runtime", "no-driver", folder) == 0);
    CHECK(unlink(link) == 0 && rmdir(folder) == 0);
}

static const char source[] = "extern \"C\" __global__ void scale(float *x, float f, int n)\n"
                             "{ int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                             "  if (i < n) x[i] *= f; }\n";

typedef struct nvrtc_program *program_handle;

/* Compiles with NVRTC; the text is the caller's. */
static char *compiled(void *nvrtc)
{
    int (*create)(program_handle *, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*compile)(program_handle, int, const char *const *);
    int (*size_of)(program_handle, size_t *);
    int (*text_of)(program_handle, char *);
    program_handle program;
    size_t size = 0;
    const char *options[] = {"--gpu-architecture=compute_90"};
    *(void **)&create = dlsym(nvrtc, "nvrtcCreateProgram");
    *(void **)&compile = dlsym(nvrtc, "nvrtcCompileProgram");
    *(void **)&size_of = dlsym(nvrtc, "nvrtcGetPTXSize");
    *(void **)&text_of = dlsym(nvrtc, "nvrtcGetPTX");
    CHECK(create(&program, source, "scale.cu", 0, NULL, NULL) == 0);
    CHECK(compile(program, 1, options) == 0);
    CHECK(size_of(program, &size) == 0 && size > 100); /* our driver poses as no compile cache */
    char *text = malloc(size + 1);
    CHECK(text && text_of(program, text) == 0);
    return text;
}

static void with_nvrtc(void)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/lib64/libnvrtc.so", CUDA_ROOT);
    soft_begin(); /* first, so that NVRTC finds this driver under its name */
    void *nvrtc = dlopen(path, RTLD_NOW);
    if (!nvrtc) {
        fprintf(stderr, "not checked: NVRTC (%s)\n", dlerror());
        return;
    }
    char *ptx = compiled(nvrtc);
    CUmodule module;
    CUfunction function;
    CUdeviceptr memory;
    float factor = 3, values[100];
    int n = 100;
    OK(cu.cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL));
    OK(cu.cuModuleGetFunction(&function, module, "scale"));
    for (int i = 0; i < n; i++)
        values[i] = (float)i;
    OK(cu.cuMemAlloc_v2(&memory, sizeof values));
    OK(cu.cuMemcpyHtoD_v2(memory, values, sizeof values));
    void *params[] = {&memory, &factor, &n};
    OK(cu.cuLaunchKernel(function, 2, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
    OK(cu.cuMemcpyDtoH_v2(values, memory, sizeof values));
    CHECK(values[0] == 0 && values[1] == 3 && values[99] == 297);
    free(ptx);
}

int main(void)
{
    if (access(NVCC, X_OK))
        SKIP("no nvcc here: the programs were not built");
    CHECK(run("runtime", NULL, BUILD_DIR "/softgpu") == 0);
    CHECK(run("runtime-ptds", NULL, BUILD_DIR "/softgpu") == 0);
    CHECK(run("runtime-elf", "no-image", BUILD_DIR "/softgpu") == 0);
    without_driver();
    setenv("SOFTGPU_DEVICES", "2", 1);
    CHECK(run("graphs", NULL, BUILD_DIR "/softgpu") == 0);
    unsetenv("SOFTGPU_DEVICES");
    CHECK(run("separate", NULL, BUILD_DIR "/softgpu") == 0);
    setenv("SOFTGPU_FAULT", "hang:1", 1);
    CHECK(run("runtime", "hang", BUILD_DIR "/softgpu") == 0);
    unsetenv("SOFTGPU_FAULT");
    with_nvrtc();
    return test_result();
}
