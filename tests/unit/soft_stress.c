/* Many threads on the software GPU at once: streams, events between them, the default stream,
 * allocations, modules. What comes out must be right, and it must come to an end. */
#include "softgpu/soft_test.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 40 };

static CUcontext context;
static CUkernel kernel;
static int wrong[THREADS];

/* No CHECK here: it counts without a lock. */
static void need(CUresult result, int thread)
{
    wrong[thread] += result != CUDA_SUCCESS;
}

static void round_of(int thread, CUstream mine, CUstream other, CUevent event)
{
    enum { N = 500 };
    float a[N], c[N];
    CUdeviceptr memory;
    int n = N;
    for (int i = 0; i < N; i++)
        a[i] = (float)(i + thread);
    need(cu.cuMemAlloc_v2(&memory, 2 * sizeof a), thread);
    CUdeviceptr in = memory, out = memory + sizeof a;
    need(cu.cuMemcpyHtoDAsync_v2(in, a, sizeof a, mine), thread);
    need(cu.cuEventRecord(event, mine), thread);
    need(cu.cuStreamWaitEvent(other, event, 0), thread);
    void *params[] = {&in, &in, &out, &n};
    need(cu.cuLaunchKernel((CUfunction)kernel, 4, 1, 1, 128, 1, 1, 0, other, params, NULL), thread);
    need(cu.cuEventRecord(event, other), thread);
    need(cu.cuStreamWaitEvent(mine, event, 0), thread);
    need(cu.cuMemcpyDtoHAsync_v2(c, out, sizeof c, mine), thread);
    need(cu.cuStreamSynchronize(mine), thread);
    for (int i = 0; i < N; i++)
        wrong[thread] += c[i] != 2.0f * a[i];
    need(cu.cuMemsetD8_v2(in, 0, sizeof a), thread); /* on the default stream, beside the others */
    need(cu.cuMemFree_v2(memory), thread);
}

static void *work(void *argument)
{
    int thread = (int)(intptr_t)argument;
    CUstream mine, other;
    CUevent event;
    need(cu.cuCtxSetCurrent(context), thread);
    for (int i = 0; i < ROUNDS; i++) {
        unsigned flags = i % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
        need(cu.cuStreamCreate(&mine, flags), thread);
        need(cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), thread);
        need(cu.cuEventCreate(&event, CU_EVENT_DEFAULT), thread);
        round_of(thread, mine, other, event);
        need(cu.cuEventDestroy_v2(event), thread);
        need(cu.cuStreamDestroy_v2(mine), thread);
        need(cu.cuStreamDestroy_v2(other), thread);
        CUmodule module;
        need(cu.cuModuleLoadData(&module, vadd_ptx), thread);
        need(cu.cuModuleUnload(module), thread);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    CUlibrary library;
    soft_begin();
    OK(cu.cuCtxGetCurrent(&context));
    OK(cu.cuLibraryLoadData(&library, vadd_ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cu.cuLibraryGetKernel(&kernel, library, "vadd"));
    for (int i = 0; i < THREADS; i++)
        if (!CHECK(!pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i)))
            return 1;
    for (int i = 0; i < THREADS; i++) {
        CHECK(!pthread_join(threads[i], NULL));
        CHECK(wrong[i] == 0);
    }
    OK(cu.cuCtxSynchronize());
    size_t available, total;
    OK(cu.cuMemGetInfo_v2(&available, &total));
    CHECK(total - available <= 4096); /* the library's variable, no more */
    return test_result();
}
