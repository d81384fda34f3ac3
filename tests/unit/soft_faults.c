/* The software GPU when things go wrong: sticky faults, faults asked for, hanging kernels, exit and
 * fork. Each case runs in a process of its own, for a fault ends a context and a hang a process. */
#include "softgpu/soft_test.h"

#include <time.h>

static CUfunction load(void)
{
    CUmodule module;
    CUfunction function = NULL;
    OK(cu.cuModuleLoadData(&module, vadd_ptx));
    OK(cu.cuModuleGetFunction(&function, module, "vadd"));
    return function;
}

/* The kernel writes past its output: the fault comes at the next wait and stays. */
static void sticky(void)
{
    struct vadd v;
    CUdeviceptr memory;
    CUstream stream;
    soft_begin();
    CUfunction function = load();
    vadd_make(&v, 1000);
    OK(cu.cuMemFree_v2(v.c));
    OK(cu.cuMemAlloc_v2(&v.c, 3996)); /* one element short */
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(vadd_launch(function, &v, stream));
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuStreamSynchronize(stream));
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuCtxSynchronize());
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuMemAlloc_v2(&memory, 16));
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuStreamQuery(stream));
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, vadd_launch(function, &v, stream));
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuMemFree_v2(v.a));
    CUcontext other; /* another context is not touched by it */
    OK(cu.cuCtxCreate_v2(&other, 0, 0));
    OK(cu.cuMemAlloc_v2(&memory, 16));
    OK(cu.cuMemFree_v2(memory));
    OK(cu.cuCtxDestroy_v2(other));
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuMemAlloc_v2(&memory, 16));
    OK(cu.cuDevicePrimaryCtxReset(0)); /* a reset heals */
    OK(cu.cuDevicePrimaryCtxRetain(&other, 0));
    OK(cu.cuMemAlloc_v2(&memory, 16));
}

static void freed(void)
{
    struct vadd v;
    soft_begin();
    CUfunction function = load();
    vadd_make(&v, 1000);
    OK(cu.cuMemFree_v2(v.a));
    OK(vadd_launch(function, &v, NULL));
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuCtxSynchronize());
}

static void oom(void)
{
    CUdeviceptr memory;
    soft_begin();
    OK(cu.cuMemAlloc_v2(&memory, 16));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&memory, 16));
    OK(cu.cuMemAlloc_v2(&memory, 16));
}

static void launch(void)
{
    struct vadd v;
    soft_begin();
    CUfunction function = load();
    vadd_make(&v, 100);
    OK(vadd_launch(function, &v, NULL));
    OK(cu.cuCtxSynchronize());
    OK(vadd_launch(function, &v, NULL));
    GIVES(CUDA_ERROR_LAUNCH_FAILED, cu.cuCtxSynchronize());
}

/* Ends by returning from main while the kernel runs. */
static void hang(void)
{
    struct vadd v;
    CUstream hung, free_stream;
    soft_begin();
    CUfunction function = load();
    vadd_make(&v, 100);
    OK(cu.cuStreamCreate(&hung, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamCreate(&free_stream, CU_STREAM_NON_BLOCKING));
    OK(vadd_launch(function, &v, hung));
    OK(vadd_launch(function, &v, free_stream));
    OK(cu.cuStreamSynchronize(free_stream)); /* other streams go on */
    GIVES(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(hung));
}

static void forked(void)
{
    CUdeviceptr memory;
    soft_begin();
    struct vadd v;
    CUfunction function = load();
    vadd_make(&v, 100);
    OK(vadd_launch(function, &v, NULL));
    pid_t child = fork();
    if (child == 0) {
        GIVES(CUDA_ERROR_NOT_INITIALIZED, cu.cuMemAlloc_v2(&memory, 16));
        GIVES(CUDA_ERROR_NOT_INITIALIZED, cu.cuInit(0));
        GIVES(CUDA_ERROR_NOT_INITIALIZED, cu.cuCtxSynchronize());
        exit(test_result()); /* with the library's destructor */
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(vadd_wrong(&v) == 0);
}

static const struct {
    const char *name;
    void (*run)(void);
    const char *fault; /* SOFTGPU_FAULT */
} cases[] = {
    {"sticky", sticky, NULL},       {"freed", freed, NULL},   {"oom", oom, "oom:2"},
    {"launch", launch, "launch:2"}, {"hang", hang, "hang:1"}, {"forked", forked, NULL},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (argc > 1 && !strcmp(argv[1], cases[i].name)) {
            cases[i].run();
            return test_result();
        }
        if (argc == 1 && !CHECK(run_again(cases[i].name, cases[i].fault ? "SOFTGPU_FAULT" : NULL,
                                          cases[i].fault, 60) == 0))
            fprintf(stderr, "case %s failed\n", cases[i].name);
    }
    return test_result();
}
