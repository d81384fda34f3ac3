/* Contexts of the software GPU: the stack of current ones, the primary one's life, what belongs to
 * which, limits and flags, threads. */
#include "softgpu/soft_test.h"

#include <pthread.h>

static CUcontext current(void)
{
    CUcontext context = (CUcontext)1;
    OK(cu.cuCtxGetCurrent(&context));
    return context;
}

static void stack(void)
{
    CUcontext a, b, popped;
    CHECK(!current());
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxPopCurrent_v2(&popped));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxSynchronize());
    OK(cu.cuCtxCreate_v2(&a, CU_CTX_SCHED_SPIN, 0));
    OK(cu.cuCtxCreate_v2(&b, 0, 0));
    CHECK(current() == b);
    OK(cu.cuCtxPushCurrent_v2(a));
    OK(cu.cuCtxPushCurrent_v2(a)); /* as often as one likes */
    OK(cu.cuCtxPopCurrent_v2(&popped));
    OK(cu.cuCtxPopCurrent_v2(NULL));
    CHECK(popped == a && current() == b);
    unsigned flags = 0, version = 0;
    OK(cu.cuCtxPopCurrent_v2(NULL));
    CHECK(current() == a);
    OK(cu.cuCtxGetFlags(&flags));
    CHECK(flags == CU_CTX_SCHED_SPIN);
    OK(cu.cuCtxSetFlags(CU_CTX_SCHED_YIELD));
    OK(cu.cuCtxGetFlags(&flags));
    CHECK(flags == CU_CTX_SCHED_YIELD);
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuCtxSetFlags(CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD));
    OK(cu.cuCtxGetApiVersion(b, &version));
    CHECK(version >= 3020);
    unsigned long long first = 0, second = 0;
    OK(cu.cuCtxGetId(a, &first));
    OK(cu.cuCtxGetId(b, &second));
    CHECK(first && second && first != second);
    OK(cu.cuCtxSetCurrent(b)); /* takes the place of the one on top */
    OK(cu.cuCtxPopCurrent_v2(&popped));
    CHECK(popped == b && !current());
    OK(cu.cuCtxSetCurrent(a));
    OK(cu.cuCtxSetCurrent(NULL));
    CHECK(!current());
    OK(cu.cuCtxDestroy_v2(a));
    OK(cu.cuCtxDestroy_v2(b));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxDestroy_v2(b));
    if (!soft_hardware()) /* a dead handle: an H200 takes it */
        GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxSetCurrent(a));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuCtxCreate_v2(&a, 1 << 20, 0));
    GIVES(CUDA_ERROR_INVALID_DEVICE, cu.cuCtxCreate_v2(&a, 0, 1));
}

static void state(unsigned expected_flags, int expected_active)
{
    unsigned flags = 99;
    int active = 99;
    OK(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
    if (!CHECK(flags == expected_flags && active == expected_active))
        fprintf(stderr, "flags %u, active %d\n", flags, active);
}

/* Alive from the first retain to the last release; its flags go with it. */
static void primary(void)
{
    CUcontext first, second;
    CUdeviceptr memory;
    state(0, 0);
    OK(cu.cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SCHED_BLOCKING_SYNC));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuDevicePrimaryCtxSetFlags_v2(0, 0x3));
    state(CU_CTX_SCHED_BLOCKING_SYNC, 0);
    OK(cu.cuDevicePrimaryCtxRetain(&first, 0));
    OK(cu.cuDevicePrimaryCtxRetain(&second, 0));
    CHECK(first == second && !current()); /* a retain makes nothing current */
    state(CU_CTX_SCHED_BLOCKING_SYNC, 1);
    OK(cu.cuCtxSetCurrent(first));
    OK(cu.cuMemAlloc_v2(&memory, 100));
    OK(cu.cuDevicePrimaryCtxRelease_v2(0));
    OK(cu.cuMemsetD8_v2(memory, 0, 100)); /* one holder is left */
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxDestroy_v2(first));
    OK(cu.cuDevicePrimaryCtxRelease_v2(0));
    state(0, 0);
    GIVES(CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuMemsetD8_v2(memory, 0, 100));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuDevicePrimaryCtxRelease_v2(0));
    OK(cu.cuDevicePrimaryCtxRetain(&first, 0));
    OK(cu.cuCtxSetCurrent(first));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD8_v2(memory, 0, 100)); /* it went */
    OK(cu.cuDevicePrimaryCtxReset_v2(0));
    state(0, 0);
    OK(cu.cuDevicePrimaryCtxReset_v2(0)); /* of a dead one: nothing to do */
    OK(cu.cuCtxSetCurrent(NULL));
}

/* What one context made is not another's. */
static void belongings(void)
{
    CUcontext a, b;
    CUmodule module;
    CUfunction vadd;
    CUstream stream;
    CUevent event;
    struct vadd v;
    OK(cu.cuCtxCreate_v2(&a, 0, 0));
    OK(cu.cuModuleLoadData(&module, vadd_ptx));
    OK(cu.cuModuleGetFunction(&vadd, module, "vadd"));
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuEventCreate(&event, 0));
    vadd_make(&v, 300);
    CUcontext of = NULL;
    OK(cu.cuStreamGetCtx(stream, &of));
    CHECK(of == a);
    OK(cu.cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, v.a + 4));
    CHECK(of == a);
    OK(cu.cuCtxCreate_v2(&b, 0, 0));
    if (!soft_hardware()) /* an H200 answers otherwise where function and stream are of one context
                           */
        GIVES(CUDA_ERROR_INVALID_HANDLE, vadd_launch(vadd, &v, stream));
    GIVES(CUDA_ERROR_INVALID_HANDLE, vadd_launch(vadd, &v, NULL));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuEventRecord(event, NULL));
    OK(cu.cuMemsetD8Async(v.c, 0, 4, stream)); /* but copies and fills go into any stream */
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuCtxPushCurrent_v2(a));
    OK(vadd_launch(vadd, &v, stream));
    OK(cu.cuCtxPopCurrent_v2(NULL));
    OK(cu.cuCtxSynchronize_v2(a)); /* of another context than the current one */
    CHECK(vadd_wrong(&v) == 0);
    /* a fault in one leaves the other alone, and goes with its context */
    v.c = 0; /* what was freed may still be mapped */
    OK(cu.cuCtxPushCurrent_v2(a));
    OK(vadd_launch(vadd, &v, stream));
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuCtxSynchronize());
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuModuleUnload(module));
    OK(cu.cuCtxPopCurrent_v2(NULL));
    CUdeviceptr memory;
    OK(cu.cuMemAlloc_v2(&memory, 100));
    OK(cu.cuMemFree_v2(memory));
    OK(cu.cuCtxDestroy_v2(a));
    if (!soft_hardware()) { /* dead handles */
        GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuStreamSynchronize(stream));
        GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuEventQuery(event));
    }
    size_t available, total;
    OK(cu.cuMemGetInfo_v2(&available, &total));
    CHECK(available <= total);
    if (!soft_hardware()) /* where contexts need memory too */
        CHECK(available == total);
    OK(cu.cuCtxDestroy_v2(b));
    OK(cu.cuCtxSetCurrent(NULL));
}

static void limits(void)
{
    CUcontext context;
    size_t value = 0;
    int least = 9, greatest = 9;
    OK(cu.cuCtxCreate_v2(&context, 0, 0));
    OK(cu.cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
    CHECK(value == 1024);
    OK(cu.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
    OK(cu.cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
    CHECK(value == 4096);
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuCtxSetLimit((CUlimit)77, 1));
    OK(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
    CHECK(least == 0 && greatest < 0);
    CUstream stream;
    OK(cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest - 100));
    OK(cu.cuStreamGetPriority(stream, &least));
    CHECK(least == greatest); /* clamped */
    CUstreamAttrValue attribute = {.syncPolicy = CU_SYNC_POLICY_YIELD}, back = {0};
    OK(cu.cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &attribute));
    OK(cu.cuStreamGetAttribute(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &back));
    CHECK(back.syncPolicy == CU_SYNC_POLICY_YIELD);
    OK(cu.cuCtxDestroy_v2(context));
    CHECK(!current());
}

struct seen {
    CUcontext before, after;
    CUstream own;
    CUresult result;
};

static void *look(void *argument)
{
    struct seen *seen = argument;
    CUcontext given = seen->before;
    seen->result = cu.cuCtxGetCurrent(&seen->before);
    if (seen->result == CUDA_SUCCESS)
        seen->result = cu.cuCtxSetCurrent(given);
    if (seen->result == CUDA_SUCCESS)
        seen->result = cu.cuCtxGetCurrent(&seen->after);
    unsigned long long id = 0;
    if (seen->result == CUDA_SUCCESS)
        seen->result = cu.cuStreamGetId(CU_STREAM_PER_THREAD, &id);
    seen->own = (CUstream)(uintptr_t)id;
    return NULL;
}

/* Each thread has a stack of its own, and a default stream of its own. */
static void threads(void)
{
    CUcontext context;
    OK(cu.cuCtxCreate_v2(&context, 0, 0));
    struct seen seen[2] = {{.before = context}, {.before = context}};
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        CHECK(!pthread_create(&thread, NULL, look, &seen[i]) && !pthread_join(thread, NULL));
        CHECK(seen[i].result == CUDA_SUCCESS && !seen[i].before && seen[i].after == context);
    }
    CHECK(seen[0].own != seen[1].own);
    OK(cu.cuCtxDestroy_v2(context));
}

int main(void)
{
    soft_open();
    OK(cu.cuInit(0));
    stack();
    primary();
    belongings();
    limits();
    threads();
    return test_result();
}
