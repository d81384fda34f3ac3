/* The software GPU when things go wrong: sticky faults, faults asked for, hanging kernels, exit and
 * fork. Each case runs in a process of its own, for a fault ends a context and a hang a process. */
#include "softgpu/soft_test.h"

#include <time.h>

/* The kernel writes past its output: the fault comes at the next wait and stays. */
static void sticky(void)
{
    struct vadd v;
    CUdeviceptr memory;
    CUstream stream;
    soft_begin();
    CUfunction function = function_of(vadd_ptx, "vadd");
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
    CUfunction function = function_of(vadd_ptx, "vadd");
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
    CUfunction function = function_of(vadd_ptx, "vadd");
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
    CUfunction function = function_of(vadd_ptx, "vadd");
    vadd_make(&v, 100);
    OK(cu.cuStreamCreate(&hung, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamCreate(&free_stream, CU_STREAM_NON_BLOCKING));
    OK(vadd_launch(function, &v, hung));
    OK(vadd_launch(function, &v, free_stream));
    OK(cu.cuStreamSynchronize(free_stream)); /* other streams go on */
    GIVES(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(hung));
}

/* From the second allocation on, none succeeds, of whatever kind. */
static void oom_onwards(void)
{
    CUdeviceptr memory;
    void *pinned;
    soft_begin();
    OK(cu.cuMemAlloc_v2(&memory, 16));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&memory, 16));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemHostAlloc(&pinned, 16, 0));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAllocManaged(&memory, 16, CU_MEM_ATTACH_GLOBAL));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAllocAsync(&memory, 16, NULL));
    OK(cu.cuCtxSynchronize()); /* no fault of the context */
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Copies take 50 ms longer, by the device's clock and by ours; kernels and fills do not. */
static void slow(void)
{
    CUevent start, end;
    CUdeviceptr memory;
    char host[64] = {0};
    float ms = 0;
    soft_begin();
    OK(cu.cuEventCreate(&start, 0));
    OK(cu.cuEventCreate(&end, 0));
    OK(cu.cuMemAlloc_v2(&memory, sizeof host));
    double began = now();
    OK(cu.cuEventRecord(start, NULL));
    OK(cu.cuMemcpyHtoDAsync_v2(memory, host, sizeof host, NULL));
    OK(cu.cuEventRecord(end, NULL));
    OK(cu.cuEventSynchronize(end));
    CHECK(now() - began >= 0.05);
    OK(cu.cuEventElapsedTime(&ms, start, end));
    CHECK(ms >= 50 && ms < 51);
    OK(cu.cuEventRecord(start, NULL));
    OK(cu.cuMemsetD8Async(memory, 1, sizeof host, NULL));
    OK(cu.cuEventRecord(end, NULL));
    OK(cu.cuEventSynchronize(end));
    OK(cu.cuEventElapsedTime(&ms, start, end));
    CHECK(ms < 1);
}

/* With the second launch the device is gone, for every call and for good. */
static void lost(void)
{
    struct vadd v;
    CUcontext other;
    CUdeviceptr memory;
    int count;
    soft_begin();
    CUfunction function = function_of(vadd_ptx, "vadd");
    vadd_make(&v, 100);
    OK(vadd_launch(function, &v, NULL));
    OK(cu.cuCtxSynchronize());
    (void)vadd_launch(function, &v, NULL);
    GIVES(CUDA_ERROR_UNKNOWN, cu.cuCtxSynchronize());
    GIVES(CUDA_ERROR_UNKNOWN, cu.cuMemAlloc_v2(&memory, 16));
    GIVES(CUDA_ERROR_UNKNOWN, cu.cuDeviceGetCount(&count));
    GIVES(CUDA_ERROR_UNKNOWN, cu.cuDevicePrimaryCtxReset(0));
    GIVES(CUDA_ERROR_UNKNOWN, cu.cuCtxCreate_v2(&other, 0, 0));
}

/* A misspelt order is an error, not a test without its fault. */
static void refused(void)
{
    soft_open();
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuInit(0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuInit(0));
}

static void several(void)
{
    CUdeviceptr memory;
    struct vadd v;
    soft_begin();
    CUfunction function = function_of(vadd_ptx, "vadd");
    vadd_make(&v, 100); /* allocations 1 to 3 */
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&memory, 16));
    OK(vadd_launch(function, &v, NULL));
    GIVES(CUDA_ERROR_LAUNCH_FAILED, cu.cuCtxSynchronize());
}

static void forked(void)
{
    CUdeviceptr memory;
    soft_begin();
    struct vadd v;
    CUfunction function = function_of(vadd_ptx, "vadd");
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

static const struct soft_case cases[] = {
    {"sticky", sticky, NULL, NULL},
    {"freed", freed, NULL, NULL},
    {"oom", oom, "SOFTGPU_FAULT", "oom:2"},
    {"launch", launch, "SOFTGPU_FAULT", "launch:2"},
    {"hang", hang, "SOFTGPU_FAULT", "hang:1"},
    {"forked", forked, NULL, NULL},
    {"oom-onwards", oom_onwards, "SOFTGPU_FAULT", "oom:2+"},
    {"slow", slow, "SOFTGPU_FAULT", "slow:50"},
    {"lost", lost, "SOFTGPU_FAULT", "lost:2"},
    {"several", several, "SOFTGPU_FAULT", "oom:4,launch:1"},
    {"no-kind", refused, "SOFTGPU_FAULT", "fire:1"},
    {"no-number", refused, "SOFTGPU_FAULT", "oom"},
    {"zero", refused, "SOFTGPU_FAULT", "oom:0"},
    {"word", refused, "SOFTGPU_FAULT", "launch:two"},
    {"comma", refused, "SOFTGPU_FAULT", "oom:1,,hang:1"},
    {"slow-onwards", refused, "SOFTGPU_FAULT", "slow:5+"},
};

int main(int argc, char **argv)
{
    const struct soft_case *own = soft_cases(argc, argv, cases, sizeof cases / sizeof *cases);
    if (own)
        own->run();
    return test_result();
}
