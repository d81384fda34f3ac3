/* What the tests of the software GPU share: its driver opened by path, and PTX to run. */
#ifndef SOFTGPU_SOFT_TEST_H
#define SOFTGPU_SOFT_TEST_H

#include "softgpu/soft_entries.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#define SOFT_DRIVER BUILD_DIR "/softgpu/libcuda.so.1"

/* The driver under test, every entry that it has. */
static struct soft_driver cu;

static const struct {
    const char *symbol;
    size_t offset;
} soft_rows[] = {
#define API(ret, symbol, base, version, stream, use, params, args)                                 \
    {#symbol, offsetof(struct soft_driver, symbol)},
#include "gpu/cuda_api.def"
#include "softgpu/soft_api.def"
#undef API
};

/* By hand, SOFT_TEST_DRIVER=libcuda.so.1: what does hardware answer? What a test does then not ask
 * is a mistake of the program's (handles that are dead, say), or not decided by CUDA's manual, or
 * left out here. */
static inline const char *soft_hardware(void)
{
    return getenv("SOFT_TEST_DRIVER");
}

static inline void soft_open(void)
{
    const char *other = soft_hardware();
    void *library = dlopen(other ? other : SOFT_DRIVER, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    for (size_t i = 0; i < sizeof soft_rows / sizeof *soft_rows; i++) {
        void *address = dlsym(library, soft_rows[i].symbol);
        if (!CHECK(address))
            fprintf(stderr, "missing: %s\n", soft_rows[i].symbol);
        memcpy((char *)&cu + soft_rows[i].offset, &address, sizeof address);
    }
}

#define OK(call) CHECK((call) == CUDA_SUCCESS)
static inline bool soft_gives(CUresult error, CUresult given)
{
    if (given != error)
        fprintf(stderr, "%d, not %d:\n", (int)given, (int)error);
    return given == error;
}

#define GIVES(error, call) CHECK(soft_gives(error, call))

/* A context current to this thread. */
static inline void soft_begin(void)
{
    CUcontext context;
    soft_open();
    OK(cu.cuInit(0));
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxSetCurrent(context));
}

/* c[i] = a[i] + b[i] for i < n; `factor` is there to be found as a variable. */
static const char vadd_ptx[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .global .align 4 .u32 factor = 7;\n"
    ".visible .entry vadd(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n{\n"
    "  .reg .pred %p<2>;\n  .reg .f32 %f<4>;\n  .reg .b32 %r<6>;\n  .reg .b64 %rd<11>;\n"
    "  ld.param.u64 %rd1, [a];\n  ld.param.u64 %rd2, [b];\n  ld.param.u64 %rd3, [c];\n"
    "  ld.param.u32 %r1, [n];\n"
    "  mov.u32 %r2, %ctaid.x;\n  mov.u32 %r3, %ntid.x;\n  mov.u32 %r4, %tid.x;\n"
    "  mad.lo.s32 %r5, %r2, %r3, %r4;\n"
    "  setp.ge.s32 %p1, %r5, %r1;\n  @%p1 bra DONE;\n"
    "  cvta.to.global.u64 %rd4, %rd1;\n  cvta.to.global.u64 %rd5, %rd2;\n"
    "  cvta.to.global.u64 %rd6, %rd3;\n  mul.wide.s32 %rd7, %r5, 4;\n"
    "  add.s64 %rd8, %rd4, %rd7;\n  ld.global.f32 %f1, [%rd8];\n"
    "  add.s64 %rd9, %rd5, %rd7;\n  ld.global.f32 %f2, [%rd9];\n"
    "  add.f32 %f3, %f1, %f2;\n  add.s64 %rd10, %rd6, %rd7;\n  st.global.f32 [%rd10], %f3;\n"
    "DONE:\n  ret;\n}\n";

/* A kernel of a text; its module stays loaded. */
static inline CUfunction function_of(const char *ptx, const char *name)
{
    CUmodule module;
    CUfunction function = NULL;
    OK(cu.cuModuleLoadData(&module, ptx));
    OK(cu.cuModuleGetFunction(&function, module, name));
    return function;
}

/* What a kernel of an image writes to the word that its one parameter points to. */
static inline unsigned word_of(const void *image, const char *name)
{
    CUmodule module;
    CUfunction function;
    CUdeviceptr memory;
    unsigned word = 0;
    OK(cu.cuModuleLoadData(&module, image));
    OK(cu.cuModuleGetFunction(&function, module, name));
    OK(cu.cuMemAlloc_v2(&memory, sizeof word));
    void *params[] = {&memory};
    OK(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    OK(cu.cuMemcpyDtoH_v2(&word, memory, sizeof word));
    OK(cu.cuMemFree_v2(memory));
    OK(cu.cuModuleUnload(module));
    return word;
}

struct vadd {
    CUdeviceptr a, b, c;
    int n;
};

static inline void vadd_make(struct vadd *v, int n)
{
    size_t size = (size_t)n * sizeof(float);
    float *host = malloc(size);
    if (!CHECK(host))
        exit(1);
    v->n = n;
    OK(cu.cuMemAlloc_v2(&v->a, size));
    OK(cu.cuMemAlloc_v2(&v->b, size));
    OK(cu.cuMemAlloc_v2(&v->c, size));
    for (int i = 0; i < n; i++)
        host[i] = (float)i;
    OK(cu.cuMemcpyHtoD_v2(v->a, host, size));
    for (int i = 0; i < n; i++)
        host[i] = 2.0f * (float)i + 1.0f;
    OK(cu.cuMemcpyHtoD_v2(v->b, host, size));
    OK(cu.cuMemsetD8_v2(v->c, 0xff, size));
    free(host);
}

static inline CUresult vadd_launch(CUfunction function, struct vadd *v, CUstream stream)
{
    void *params[] = {&v->a, &v->b, &v->c, &v->n};
    return cu.cuLaunchKernel(function, (unsigned)(v->n + 127) / 128, 1, 1, 128, 1, 1, 0, stream,
                             params, NULL);
}

/* Number of wrong elements. */
static inline int vadd_wrong(const struct vadd *v)
{
    int wrong = 0;
    float *host = malloc((size_t)v->n * sizeof *host);
    if (!CHECK(host))
        exit(1);
    OK(cu.cuMemcpyDtoH_v2(host, v->c, (size_t)v->n * sizeof *host));
    for (int i = 0; i < v->n; i++)
        wrong += host[i] != 3.0f * (float)i + 1.0f;
    free(host);
    return wrong;
}

static inline void vadd_free(const struct vadd *v)
{
    OK(cu.cuMemFree_v2(v->a));
    OK(cu.cuMemFree_v2(v->b));
    OK(cu.cuMemFree_v2(v->c));
}

/* Runs this program again with the argument, and with variable=value in its environment. Its exit
 * status; -1 if it did not exit by itself within `seconds`. */
static inline int run_again(const char *argument, const char *variable, const char *value,
                            unsigned seconds)
{
    pid_t child = fork();
    if (child == 0) {
        alarm(seconds);
        if (variable)
            setenv(variable, value, 1);
        execl("/proc/self/exe", "soft", argument, (char *)NULL);
        _exit(127);
    }
    int status;
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* For what wants a process of its own. */
struct soft_case {
    const char *name;
    void (*run)(void);
    const char *variable, *value; /* of its environment; or NULL */
};

/* The case that the program's argument names, which is then to be run here. Without an argument
 * each is run by this program again, and has to succeed: NULL. */
static inline const struct soft_case *soft_cases(int argc, char **argv,
                                                 const struct soft_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct soft_case *one = &cases[i];
        if (argc > 1 && !strcmp(argv[1], one->name))
            return one;
        if (argc == 1 && !CHECK(run_again(one->name, one->variable, one->value, 60) == 0))
            fprintf(stderr, "case %s failed\n", one->name);
    }
    return NULL;
}

#endif
