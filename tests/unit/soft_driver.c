/* The software GPU's driver by its API: look-ups, device, memory, launches, streams, events. */
#include "softgpu/soft_test.h"

static void *look_up(const char *name, int version, cuuint64_t flags, CUresult expected,
                     CUdriverProcAddressQueryResult status_expected)
{
    void *function = (void *)1;
    CUdriverProcAddressQueryResult status = 99;
    GIVES(expected, cu.cuGetProcAddress_v2(name, &function, version, flags, &status));
    CHECK(status == status_expected);
    return function;
}

#define FOUND CU_GET_PROC_ADDRESS_SUCCESS
#define NONE CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
#define OLD CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT

static void look_ups(void)
{
    void *function;
    CHECK(look_up("cuGetProcAddress", 11030, 0, CUDA_SUCCESS, FOUND) ==
          (void *)cu.cuGetProcAddress);
    CHECK(look_up("cuGetProcAddress", 12000, 0, CUDA_SUCCESS, FOUND) ==
          (void *)cu.cuGetProcAddress_v2);
    CHECK(look_up("cuLaunchKernel", 4000, 0, CUDA_SUCCESS, FOUND) == (void *)cu.cuLaunchKernel);
    CHECK(look_up("cuLaunchKernel", 13000, 2, CUDA_SUCCESS, FOUND) ==
          (void *)cu.cuLaunchKernel_ptsz);
    CHECK(look_up("cuMemcpy", 13000, 1, CUDA_SUCCESS, FOUND) == (void *)cu.cuMemcpy);
    CHECK(look_up("cuCtxCreate", 12040, 0, CUDA_SUCCESS, FOUND) == (void *)cu.cuCtxCreate_v3);
    CHECK(look_up("cuCtxCreate", 13000, 2, CUDA_SUCCESS, FOUND) == (void *)cu.cuCtxCreate_v4);
    CHECK(!look_up("cuLaunchKernel", 3000, 0, CUDA_ERROR_NOT_FOUND, OLD));
    CHECK(!look_up("cuLaunchKernel_ptsz", 13000, 0, CUDA_ERROR_NOT_FOUND, NONE));
    CHECK(!look_up("", 0, 0, CUDA_ERROR_NOT_FOUND, NONE));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGetProcAddress_v2(NULL, &function, 12000, 0, NULL));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGetProcAddress_v2("cuInit", &function, 12000, 8, NULL));
    OK(cu.cuGetProcAddress_v2("cuInit", NULL, 12000, 0, NULL));
    OK(cu.cuGetProcAddress("cuInit", &function, 12000, 0));
    CHECK(function == (void *)cu.cuInit);
    const void *table = &table;
    CUuuid id = {{0}};
    CHECK(cu.cuGetExportTable(&table, &id) != CUDA_SUCCESS && !table);
    const char *name;
    OK(cu.cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &name));
    CHECK(!strcmp(name, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuGetErrorName((CUresult)12345, &name));
}

static void before_init(void)
{
    int count;
    CUdeviceptr memory;
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cu.cuDeviceGetCount(&count));
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cu.cuMemAlloc_v2(&memory, 16));
    OK(cu.cuInit(0));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuMemAlloc_v2(&memory, 16));
}

static void device(void)
{
    char name[64];
    int major, minor, sms, count;
    size_t memory, available;
    OK(cu.cuDeviceGetCount(&count));
    CHECK(count == 1);
    OK(cu.cuDeviceGetName(name, sizeof name, 0));
    CHECK(!strncmp(name, "softgpu", 7));
    OK(cu.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    OK(cu.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
    OK(cu.cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    CHECK(major == 9 && minor == 0 && sms == 132);
    GIVES(CUDA_ERROR_INVALID_DEVICE, cu.cuDeviceGetAttribute(&sms, 1, 1));
    OK(cu.cuDeviceTotalMem_v2(&memory, 0));
    OK(cu.cuMemGetInfo_v2(&available, &memory));
    CHECK(available <= memory);
}

static void contexts(void)
{
    CUcontext first, second, current;
    unsigned flags;
    int active;
    OK(cu.cuCtxGetCurrent(&first));
    OK(cu.cuCtxCreate_v2(&second, 0, 0));
    OK(cu.cuCtxGetCurrent(&current));
    CHECK(current == second && second != first);
    CUdeviceptr memory;
    char own[100];
    OK(cu.cuMemAlloc_v2(&memory, 1000));
    OK(cu.cuMemHostRegister_v2(own, sizeof own, 0));
    OK(cu.cuCtxDestroy_v2(second));
    OK(cu.cuCtxGetCurrent(&current));
    CHECK(current == first);
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemFree_v2(memory)); /* it went with its context */
    OK(cu.cuMemHostRegister_v2(own, sizeof own, 0));          /* and so did this registration */
    OK(cu.cuMemHostUnregister(own));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxPushCurrent_v2(second));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxDestroy_v2(first));
    OK(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
    CHECK(active == 1);
}

static void allocations(void)
{
    CUdeviceptr p, q, base;
    size_t size, before, after, total;
    OK(cu.cuMemGetInfo_v2(&before, &total));
    OK(cu.cuMemAlloc_v2(&p, 1000));
    OK(cu.cuMemAlloc_v2(&q, (size_t)100 << 20));
    CHECK(p % 256 == 0 && q % 256 == 0);
    OK(cu.cuMemGetAddressRange_v2(&base, &size, p + 999));
    CHECK(base == p && size == 1000);
    GIVES(CUDA_ERROR_NOT_FOUND, cu.cuMemGetAddressRange_v2(&base, &size, p + 1000));
    unsigned type = 0;
    int managed = 9;
    OK(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, q + 5));
    CHECK(type == CU_MEMORYTYPE_DEVICE);
    GIVES(CUDA_ERROR_INVALID_VALUE,
          cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)&type));
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *where[] = {&managed, &size};
    OK(cu.cuPointerGetAttributes(2, which, where, q));
    CHECK(managed == 0 && size == (size_t)100 << 20);
    OK(cu.cuMemFree_v2(p));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemFree_v2(p)); /* twice */
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemFree_v2(q + 512));
    char byte;
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyDtoH_v2(&byte, p, 1)); /* freed */
    OK(cu.cuMemFree_v2(q));
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&p, (size_t)8 << 30));
    OK(cu.cuMemGetInfo_v2(&after, &total));
    CHECK(before == after);
    CUdeviceptr many[500];
    for (int i = 0; i < 500; i++)
        OK(cu.cuMemAlloc_v2(&many[i], (size_t)(i % 7 + 1) * 3000));
    for (int i = 0; i < 500; i += 2)
        OK(cu.cuMemFree_v2(many[i]));
    for (int i = 0; i < 500; i += 2)
        OK(cu.cuMemAlloc_v2(&many[i], (size_t)(i % 5 + 1) * 1000));
    for (int i = 0; i < 500; i++)
        for (int j = 0; j < i; j += 17)
            if (many[i] == many[j])
                CHECK(many[i] != many[j]);
    for (int i = 0; i < 500; i++)
        OK(cu.cuMemFree_v2(many[i]));
}

static void host_memory(void)
{
    char own[8192];
    void *pinned;
    CUdeviceptr address;
    unsigned type;
    OK(cu.cuMemHostAlloc(&pinned, 5000, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cu.cuMemHostGetDevicePointer_v2(&address, pinned, 0));
    CHECK(address == (uintptr_t)pinned);
    OK(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
    CHECK(type == CU_MEMORYTYPE_HOST);
    OK(cu.cuMemFreeHost(pinned));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemFreeHost(pinned));
    OK(cu.cuMemHostRegister_v2(own, sizeof own, 0));
    GIVES(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cu.cuMemHostRegister_v2(own, 10, 0));
    OK(cu.cuMemHostUnregister(own));
    GIVES(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cu.cuMemHostUnregister(own));
}

static void copies(void)
{
    unsigned char from[4096], to[4096] = {0};
    CUdeviceptr memory, other;
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 7);
    OK(cu.cuMemAlloc_v2(&memory, sizeof from));
    OK(cu.cuMemAlloc_v2(&other, sizeof from));
    OK(cu.cuMemcpyHtoD_v2(memory, from, sizeof from));
    OK(cu.cuMemcpyDtoD_v2(other, memory, sizeof from));
    OK(cu.cuMemcpy((uintptr_t)to, other, sizeof from));
    CHECK(!memcmp(from, to, sizeof from));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyHtoD_v2(memory + 1, from, sizeof from));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyDtoH_v2(to, (uintptr_t)from, 16));
    OK(cu.cuMemsetD32_v2(memory, 0x01020304, 10));
    OK(cu.cuMemsetD16_v2(memory + 40, 0xabcd, 1));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD32_v2(memory + 2, 0, 1));
    OK(cu.cuMemcpyDtoH_v2(to, memory, 44));
    CHECK(to[0] == 4 && to[3] == 1 && to[39] == 1 && to[40] == 0xcd && to[42] == from[42]);
    CUDA_MEMCPY2D plane = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = from,
                           .srcPitch = 64,
                           .srcXInBytes = 3,
                           .srcY = 1,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = other,
                           .dstPitch = 128,
                           .WidthInBytes = 20,
                           .Height = 5};
    OK(cu.cuMemcpy2D_v2(&plane));
    OK(cu.cuMemcpyDtoH_v2(to, other, sizeof to));
    CHECK(!memcmp(to + 4 * 128, from + 5 * 64 + 3, 20) && to[20] == from[20]);
    plane.Height = 100;
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpy2D_v2(&plane)); /* past the end */
    OK(cu.cuMemFree_v2(memory));
    OK(cu.cuMemFree_v2(other));
}

static void launches(void)
{
    CUmodule module;
    CUfunction function;
    CUdeviceptr variable;
    size_t offset, size;
    int value;
    struct vadd v;
    OK(cu.cuModuleLoadData(&module, vadd_ptx));
    GIVES(CUDA_ERROR_NOT_FOUND, cu.cuModuleGetFunction(&function, module, "none"));
    OK(cu.cuModuleGetFunction(&function, module, "vadd"));
    OK(cu.cuModuleGetGlobal_v2(&variable, &size, module, "factor"));
    OK(cu.cuFuncGetParamInfo(function, 3, &offset, &size));
    CHECK(offset == 24 && size == 4);
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuFuncGetParamInfo(function, 4, &offset, &size));
    vadd_make(&v, 1000);
    OK(vadd_launch(function, &v, NULL));
    CHECK(vadd_wrong(&v) == 0);
    struct {
        CUdeviceptr a, b, c;
        int n;
    } buffer = {v.a, v.b, v.c, v.n};
    size = sizeof buffer;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    OK(cu.cuMemsetD8_v2(v.c, 0, 4000));
    OK(cu.cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, NULL, NULL, extra));
    CHECK(vadd_wrong(&v) == 0);
    GIVES(CUDA_ERROR_INVALID_VALUE,
          cu.cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL));
    GIVES(CUDA_ERROR_INVALID_VALUE,
          cu.cuLaunchKernel(function, 0, 1, 1, 128, 1, 1, 0, NULL, NULL, extra));
    GIVES(CUDA_ERROR_INVALID_VALUE,
          cu.cuLaunchKernel(function, 1, 1, 1, 64, 32, 1, 0, NULL, NULL, extra));
    unsigned much = 100 << 10;
    GIVES(CUDA_ERROR_INVALID_VALUE,
          cu.cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, much, NULL, NULL, extra));
    OK(cu.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 << 10));
    OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
    CHECK(value == 100 << 10);
    OK(cu.cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, much, NULL, NULL, extra));
    GIVES(CUDA_ERROR_INVALID_VALUE,
          cu.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                228 << 10));
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    CUlaunchConfig config = {8, 1, 1, 128, 1, 1, 0, NULL, &attribute, 1};
    OK(cu.cuLaunchKernelEx(&config, function, NULL, extra));
    config.gridDimX = 1000000;
    GIVES(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
          cu.cuLaunchKernelEx(&config, function, NULL, extra));
    OK(cu.cuCtxSynchronize());
    vadd_free(&v);
    OK(cu.cuModuleUnload(module));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuModuleUnload(module));
    GIVES(CUDA_ERROR_INVALID_HANDLE, vadd_launch(function, &v, NULL));
    GIVES(CUDA_ERROR_INVALID_IMAGE, cu.cuModuleLoadData(&module, "\177ELF nothing"));
}

/* An address of 32 bits wraps, as on hardware: a compiler may count from below the array. */
static void narrow(void)
{
    static const char text[] =
        ".version 7.0\n.target sm_75\n.address_size 64\n"
        ".visible .entry wrap(.param .u64 out)\n{\n"
        "  .reg .b32 %r<4>;\n  .reg .b64 %rd<2>;\n  .shared .align 4 .b8 array[16];\n"
        "  ld.param.u64 %rd1, [out];\n  mov.u32 %r1, array;\n  mov.u32 %r2, 42;\n"
        "  st.shared.u32 [%r1+4], %r2;\n  sub.s32 %r1, %r1, 4;\n"
        "  ld.shared.u32 %r3, [%r1+8];\n  atom.shared.add.u32 %r2, [%r1+8], 1;\n"
        "  add.u32 %r3, %r3, %r2;\n  st.global.u32 [%rd1], %r3;\n  ret;\n}\n";
    CHECK(word_of(text, "wrap") == 84);
}

static void bad_ptx(void)
{
    char log[200] = "";
    CUmodule module;
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)sizeof log};
    GIVES(CUDA_ERROR_INVALID_PTX,
          cu.cuModuleLoadDataEx(&module,
                                ".version 7.0\n.target sm_75\n.address_size 64\n"
                                ".visible .entry bad()\n{\n  add.u32 [;\n}\n",
                                2, options, values));
    CHECK(strstr(log, "6:")); /* the line */
}

static void libraries(void)
{
    CUlibrary library, owner;
    CUkernel kernel, again;
    CUfunction function;
    CUmodule module;
    CUdeviceptr variable, same;
    size_t size;
    const char *name;
    unsigned count;
    struct vadd v;
    OK(cu.cuLibraryLoadData(&library, vadd_ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cu.cuLibraryGetKernelCount(&count, library));
    CHECK(count == 1);
    OK(cu.cuLibraryGetKernel(&kernel, library, "vadd"));
    OK(cu.cuLibraryEnumerateKernels(&again, 1, library));
    CHECK(kernel == again);
    OK(cu.cuKernelGetFunction(&function, kernel));
    CHECK((void *)function != (void *)kernel);
    OK(cu.cuFuncGetName(&name, function));
    CHECK(!strcmp(name, "vadd"));
    OK(cu.cuKernelGetName(&name, kernel));
    CHECK(!strcmp(name, "vadd"));
    OK(cu.cuKernelGetLibrary(&owner, kernel));
    CHECK(owner == library);
    OK(cu.cuLibraryGetModule(&module, library));
    OK(cu.cuLibraryGetGlobal(&variable, &size, library, "factor"));
    OK(cu.cuModuleGetGlobal_v2(&same, &size, module, "factor"));
    CHECK(variable == same);
    OK(cu.cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000, kernel, 0));
    int value;
    OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
    CHECK(value == 60000);
    vadd_make(&v, 777);
    OK(vadd_launch((CUfunction)kernel, &v, NULL)); /* a CUkernel in a CUfunction's clothes */
    CHECK(vadd_wrong(&v) == 0);
    OK(cu.cuMemsetD8_v2(v.c, 0, 777 * 4));
    OK(vadd_launch(function, &v, CU_STREAM_PER_THREAD));
    OK(cu.cuStreamSynchronize(CU_STREAM_PER_THREAD));
    CHECK(vadd_wrong(&v) == 0);
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemFree_v2(variable)); /* not the caller's to free */
    OK(cu.cuLibraryUnload(library));
    GIVES(CUDA_ERROR_INVALID_HANDLE, vadd_launch((CUfunction)kernel, &v, NULL));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuLibraryUnload(library));
    vadd_free(&v);
    CUlinkState link;
    void *linked;
    OK(cu.cuLinkCreate_v2(0, NULL, NULL, &link));
    OK(cu.cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)vadd_ptx, sizeof vadd_ptx,
                           "vadd", 0, NULL, NULL));
    OK(cu.cuLinkComplete(link, &linked, &size));
    OK(cu.cuModuleLoadData(&module, linked));
    OK(cu.cuLinkDestroy(link));
    OK(cu.cuModuleGetFunction(&function, module, "vadd"));
    OK(cu.cuModuleUnload(module));
}

static void hold(void *data)
{
    volatile int *gate = data;
    while (!__atomic_load_n(gate, __ATOMIC_ACQUIRE))
        usleep(200);
}

/* Order between streams, with a stream held by a host function so that nothing is left to luck. */
static void order(void)
{
    CUstream held, other, apart;
    CUevent event;
    int gate = 0;
    CUdeviceptr memory;
    void *pinned;
    OK(cu.cuMemAlloc_v2(&memory, 128));
    OK(cu.cuMemsetD8_v2(memory, 1, 128));
    OK(cu.cuMemHostAlloc(&pinned, 128, 0));
    OK(cu.cuStreamCreate(&held, CU_STREAM_DEFAULT));
    OK(cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamCreate(&apart, CU_STREAM_NON_BLOCKING));
    OK(cu.cuEventCreate(&event, CU_EVENT_DEFAULT));
    OK(cu.cuEventQuery(event)); /* never recorded */
    OK(cu.cuLaunchHostFunc(held, hold, &gate));
    OK(cu.cuMemsetD8Async(memory, 2, 128, held));
    OK(cu.cuEventRecord(event, held));
    OK(cu.cuStreamWaitEvent(other, event, 0));
    OK(cu.cuMemcpyDtoHAsync_v2(pinned, memory, 64, other));
    GIVES(CUDA_ERROR_NOT_READY, cu.cuEventQuery(event));
    GIVES(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(held));
    GIVES(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(other));
    OK(cu.cuStreamSynchronize(apart));               /* held by nobody */
    OK(cu.cuMemsetD8Async(memory + 64, 3, 1, NULL)); /* the default stream waits for `held` */
    GIVES(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(NULL));
    __atomic_store_n(&gate, 1, __ATOMIC_RELEASE);
    OK(cu.cuStreamSynchronize(other));
    OK(cu.cuEventQuery(event));
    CHECK(((unsigned char *)pinned)[63] == 2);
    OK(cu.cuStreamSynchronize(NULL));
    OK(cu.cuMemcpyDtoH_v2(pinned, memory, 128));
    CHECK(((unsigned char *)pinned)[64] == 3 && ((unsigned char *)pinned)[65] == 2);
    CUstreamCaptureStatus status = 9;
    OK(cu.cuStreamIsCapturing(held, &status));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cu.cuStreamDestroy_v2(held));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuStreamSynchronize(held));
    OK(cu.cuStreamDestroy_v2(other));
    OK(cu.cuStreamDestroy_v2(apart));
    OK(cu.cuEventDestroy_v2(event));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuEventQuery(event));
    OK(cu.cuMemFree_v2(memory));
    OK(cu.cuMemFreeHost(pinned));
}

/* Pageable memory may be reused as soon as an asynchronous copy out of it was asked for. */
static void staging(void)
{
    char host[256];
    int gate = 0;
    CUstream stream;
    CUdeviceptr memory;
    OK(cu.cuMemAlloc_v2(&memory, sizeof host));
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    memset(host, 5, sizeof host);
    OK(cu.cuLaunchHostFunc(stream, hold, &gate));
    OK(cu.cuMemcpyHtoDAsync_v2(memory, host, sizeof host, stream));
    memset(host, 6, sizeof host);
    __atomic_store_n(&gate, 1, __ATOMIC_RELEASE);
    OK(cu.cuMemcpyDtoHAsync_v2(host, memory, sizeof host, stream));
    CHECK(host[0] == 5 && host[255] == 5);
    OK(cu.cuStreamDestroy_v2(stream));
    OK(cu.cuMemFree_v2(memory));
}

static float timed(CUfunction function, struct vadd *v, CUstream stream)
{
    CUevent start, end;
    float ms = -1;
    OK(cu.cuEventCreate(&start, CU_EVENT_DEFAULT));
    OK(cu.cuEventCreate(&end, CU_EVENT_DEFAULT));
    OK(cu.cuEventRecord(start, stream));
    OK(vadd_launch(function, v, stream));
    OK(cu.cuEventRecord(end, stream));
    OK(cu.cuEventSynchronize(end));
    OK(cu.cuEventElapsedTime(&ms, start, end));
    OK(cu.cuEventDestroy_v2(start));
    OK(cu.cuEventDestroy_v2(end));
    return ms;
}

/* The clock counts work: the same work takes the same time, more work more. */
static void clock_counts(void)
{
    CUmodule module;
    CUfunction function;
    CUstream stream;
    struct vadd small, large;
    float few, many;
    OK(cu.cuModuleLoadData(&module, vadd_ptx));
    OK(cu.cuModuleGetFunction(&function, module, "vadd"));
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    vadd_make(&small, 1000);
    vadd_make(&large, 200000);
    few = timed(function, &small, stream);
    many = timed(function, &large, stream);
    CHECK(few >= 0.002f && few < 0.01f);
    CHECK(many > 10 * few);
    for (int i = 0; i < 5; i++) {
        CHECK(timed(function, &small, stream) == few);
        CHECK(timed(function, &large, NULL) == many);
    }
    vadd_free(&small);
    vadd_free(&large);
    OK(cu.cuStreamDestroy_v2(stream));
    OK(cu.cuModuleUnload(module));
}

static cuuint64_t counter(CUmemoryPool pool, CUmemPool_attribute which)
{
    cuuint64_t value = 12345;
    OK(cu.cuMemPoolGetAttribute(pool, which, &value));
    return value;
}

static void pools(void)
{
    enum { SIZE = 1 << 20 };
    CUmemoryPool pool, own, current;
    CUdeviceptr memory, other;
    cuuint64_t threshold = (cuuint64_t)1 << 30, zero = 0;
    size_t before, kept, after, total;
    OK(cu.cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    CHECK(counter(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == threshold);
    OK(cu.cuMemGetInfo_v2(&before, &total));
    OK(cu.cuMemAllocAsync(&memory, SIZE, NULL));
    OK(cu.cuMemsetD8Async(memory, 1, SIZE, NULL));
    CHECK(counter(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == SIZE);
    OK(cu.cuMemFreeAsync(memory, NULL));
    OK(cu.cuCtxSynchronize());
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD8_v2(memory, 1, 1)); /* dead, though kept */
    CHECK(counter(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
    CHECK(counter(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == SIZE);
    CHECK(counter(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == SIZE);
    OK(cu.cuMemGetInfo_v2(&kept, &total));
    CHECK(before - kept == SIZE);
    OK(cu.cuMemAllocAsync(&memory, SIZE / 2, NULL)); /* out of what is kept */
    CHECK(counter(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == SIZE);
    OK(cu.cuMemPoolTrimTo(pool, 0));
    CHECK(counter(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == SIZE / 2);
    OK(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &zero));
    OK(cu.cuMemFree_v2(memory)); /* the plain call does as well */
    OK(cu.cuStreamSynchronize(NULL));
    CHECK(counter(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
    OK(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    CHECK(counter(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 0);
    GIVES(CUDA_ERROR_INVALID_VALUE,
          cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &threshold));
    GIVES(CUDA_ERROR_INVALID_VALUE,
          cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero));
    OK(cu.cuMemGetInfo_v2(&after, &total));
    CHECK(before == after);

    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    OK(cu.cuMemPoolCreate(&own, &props));
    OK(cu.cuDeviceSetMemPool(0, own));
    OK(cu.cuDeviceGetMemPool(&current, 0));
    CHECK(current == own);
    OK(cu.cuMemAllocAsync(&memory, 4096, NULL));
    OK(cu.cuMemAllocFromPoolAsync(&other, 4096, pool, NULL));
    CHECK(counter(own, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 4096);
    OK(cu.cuMemPoolDestroy(own)); /* with a block alive: that stays */
    OK(cu.cuDeviceGetMemPool(&current, 0));
    CHECK(current == pool);
    OK(cu.cuMemsetD8_v2(memory, 1, 4096));
    OK(cu.cuMemFreeAsync(memory, NULL));
    OK(cu.cuMemFreeAsync(other, NULL));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemPoolTrimTo(own, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemPoolDestroy(pool));
    OK(cu.cuCtxSynchronize());
    OK(cu.cuMemGetInfo_v2(&after, &total));
    CHECK(before == after);
    CUevent event;
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuEventCreate(&event, CU_EVENT_INTERPROCESS));
    GIVES(CUDA_ERROR_NOT_SUPPORTED,
          cu.cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
}

/* The primary context dies and comes back; what it held does not. */
static void reset(void)
{
    CUcontext context;
    CUdeviceptr memory, fresh;
    CUmodule module;
    OK(cu.cuMemAlloc_v2(&memory, 100));
    OK(cu.cuModuleLoadData(&module, vadd_ptx));
    OK(cu.cuDevicePrimaryCtxReset(0));
    GIVES(CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuMemAlloc_v2(&fresh, 100));
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxSetCurrent(context));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemFree_v2(memory));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuModuleUnload(module));
    OK(cu.cuMemAlloc_v2(&fresh, 100));
    OK(cu.cuMemFree_v2(fresh));
    OK(cu.cuDevicePrimaryCtxRelease(0));
    GIVES(CUDA_ERROR_INVALID_CONTEXT, cu.cuDevicePrimaryCtxRelease(0));
}

int main(void)
{
    soft_open();
    look_ups();
    before_init();
    soft_begin();
    device();
    contexts();
    allocations();
    host_memory();
    copies();
    launches();
    narrow();
    bad_ptx();
    libraries();
    order();
    staging();
    clock_counts();
    pools();
    reset();
    return test_result();
}
