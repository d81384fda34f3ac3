/* The devices of the software GPU by SOFTGPU_DEVICE, SOFTGPU_DEVICES and SOFTGPU_MEMORY: what they
 * say of themselves, work on several of them, peers, and values that cannot be. Each case runs in a
 * process of its own: the variables are read once. */
#include "softgpu/soft_test.h"

static int attribute(CUdevice_attribute which, CUdevice device)
{
    int value = -1;
    OK(cu.cuDeviceGetAttribute(&value, which, device));
    return value;
}

#define ATTRIBUTE(name, device) attribute(CU_DEVICE_ATTRIBUTE_##name, device)

static int arch(CUdevice device)
{
    return 10 * ATTRIBUTE(COMPUTE_CAPABILITY_MAJOR, device) +
           ATTRIBUTE(COMPUTE_CAPABILITY_MINOR, device);
}

static int count(void)
{
    int count = -1;
    OK(cu.cuDeviceGetCount(&count));
    return count;
}

static size_t memory(CUdevice device)
{
    size_t size = 0;
    OK(cu.cuDeviceTotalMem_v2(&size, device));
    return size;
}

static void t4(void)
{
    char name[64];
    soft_begin();
    OK(cu.cuDeviceGetName(name, sizeof name, 0));
    CHECK(count() == 1 && !strcmp(name, "softgpu T4") && arch(0) == 75);
    CHECK(ATTRIBUTE(MULTIPROCESSOR_COUNT, 0) == 40);
    CHECK(ATTRIBUTE(MAX_THREADS_PER_MULTIPROCESSOR, 0) == 1024);
    CHECK(ATTRIBUTE(MAX_BLOCKS_PER_MULTIPROCESSOR, 0) == 16);
    CHECK(ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0) == 64 << 10);
    CHECK(ATTRIBUTE(L2_CACHE_SIZE, 0) == 4 << 20);
    CHECK(memory(0) == (size_t)16 << 30);
    CUfunction vadd = function_of(vadd_ptx, "vadd");
    int blocks = 0, version = 0;
    OK(cu.cuFuncGetAttribute(&version, CU_FUNC_ATTRIBUTE_BINARY_VERSION, vadd));
    CHECK(version == 75);
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, vadd, 256, 0));
    CHECK(blocks == 4); /* threads limit it: 1024 an SM */
    GIVES(CUDA_ERROR_INVALID_VALUE,
          cu.cuFuncSetAttribute(vadd, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65 << 10));
    OK(cu.cuFuncSetAttribute(vadd, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10));
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, vadd, 256, 64 << 10));
    CHECK(blocks == 1);
}

static void a100(void)
{
    setenv("SOFTGPU_MEMORY", "3G", 1);
    soft_begin();
    CHECK(arch(0) == 80 && ATTRIBUTE(MULTIPROCESSOR_COUNT, 0) == 108);
    CHECK(ATTRIBUTE(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 0) == 164 << 10);
    CHECK(ATTRIBUTE(GLOBAL_MEMORY_BUS_WIDTH, 0) == 5120);
    CHECK(memory(0) == (size_t)3 << 30);
    CUdeviceptr most;
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&most, ((size_t)3 << 30) + 512));
}

static void l4(void)
{
    soft_begin();
    CHECK(arch(0) == 89 && ATTRIBUTE(MULTIPROCESSOR_COUNT, 0) == 58);
    CHECK(ATTRIBUTE(SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 0) == 64);
    /* code for a later device than this one is not for it */
    CUmodule module;
    char text[sizeof vadd_ptx];
    memcpy(text, vadd_ptx, sizeof text);
    char *target = strstr(text, "sm_75");
    memcpy(target, "sm_90", 5);
    GIVES(CUDA_ERROR_NO_BINARY_FOR_GPU, cu.cuModuleLoadData(&module, text));
}

/* Each device has contexts, memory, modules and streams of its own. */
static void list(void)
{
    CUcontext contexts[2], current;
    CUdeviceptr memories[2];
    CUfunction functions[2];
    CUstream streams[2];
    CUdevice device;
    CUuuid ids[2];
    char bus[16];
    size_t available, total;
    soft_open();
    OK(cu.cuInit(0));
    CHECK(count() == 2 && arch(0) == 90 && arch(1) == 75);
    GIVES(CUDA_ERROR_INVALID_DEVICE, cu.cuDeviceGet(&device, 2));
    for (int i = 0; i < 2; i++) {
        OK(cu.cuDeviceGetUuid_v2(&ids[i], i));
        OK(cu.cuDeviceGetPCIBusId(bus, sizeof bus, i));
        OK(cu.cuDeviceGetByPCIBusId(&device, bus));
        CHECK(device == i);
        OK(cu.cuDevicePrimaryCtxRetain(&contexts[i], i));
        OK(cu.cuCtxSetCurrent(contexts[i]));
        OK(cu.cuCtxGetDevice(&device));
        CHECK(device == i);
        OK(cu.cuMemAlloc_v2(&memories[i], 1 << 20));
        OK(cu.cuMemGetInfo_v2(&available, &total));
        CHECK(total == memory(i) && total - available == 1 << 20);
        functions[i] = function_of(vadd_ptx, "vadd");
        OK(cu.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    }
    CHECK(memcmp(&ids[0], &ids[1], sizeof ids[0]) != 0 && contexts[0] != contexts[1]);
    int ordinal = -1;
    for (int i = 0; i < 2; i++) {
        OK(cu.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memories[i]));
        CHECK(ordinal == i);
    }
    struct vadd v;
    OK(cu.cuCtxGetCurrent(&current));
    CHECK(current == contexts[1]);
    vadd_make(&v, 500);
    OK(vadd_launch(functions[1], &v, streams[1]));
    GIVES(CUDA_ERROR_INVALID_HANDLE, vadd_launch(functions[0], &v, streams[1]));
    GIVES(CUDA_ERROR_INVALID_HANDLE, vadd_launch(functions[0], &v, streams[0]));
    OK(cu.cuStreamSynchronize(streams[1]));
    CHECK(vadd_wrong(&v) == 0);
    /* a library has a module in each context */
    CUlibrary library;
    CUkernel kernel;
    CUdeviceptr variables[2];
    OK(cu.cuLibraryLoadData(&library, vadd_ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cu.cuLibraryGetKernel(&kernel, library, "vadd"));
    for (int i = 0; i < 2; i++) {
        OK(cu.cuCtxSetCurrent(contexts[i]));
        OK(cu.cuLibraryGetGlobal(&variables[i], NULL, library, "factor"));
        OK(vadd_launch((CUfunction)kernel, &v, streams[i]));
        OK(cu.cuStreamSynchronize(streams[i]));
    }
    CHECK(variables[0] != variables[1]);
    /* a fault on one leaves the other alone */
    OK(cu.cuMemFree_v2(v.c));
    OK(vadd_launch((CUfunction)kernel, &v, streams[1]));
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuCtxSynchronize());
    OK(cu.cuCtxSetCurrent(contexts[0]));
    OK(cu.cuMemsetD8_v2(memories[0], 1, 100));
    OK(cu.cuDevicePrimaryCtxReset(1));
    OK(cu.cuMemsetD8_v2(memories[0], 1, 100));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD8_v2(memories[1], 1, 100)); /* went with it */
}

static void peers(void)
{
    CUcontext contexts[2];
    CUdeviceptr memories[2];
    CUevent events[2];
    CUstream stream;
    int can = -1;
    float ms;
    unsigned char byte = 0;
    soft_open();
    OK(cu.cuInit(0));
    CHECK(count() == 3 && arch(2) == 80);
    OK(cu.cuDeviceCanAccessPeer(&can, 0, 1));
    CHECK(can == 1);
    OK(cu.cuDeviceCanAccessPeer(&can, 1, 1));
    CHECK(can == 0);
    OK(cu.cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 2));
    CHECK(can == 1);
    GIVES(CUDA_ERROR_INVALID_DEVICE,
          cu.cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 1, 1));
    for (int i = 0; i < 2; i++) {
        OK(cu.cuCtxCreate_v2(&contexts[i], 0, i));
        OK(cu.cuMemAlloc_v2(&memories[i], 4096));
        OK(cu.cuMemsetD8_v2(memories[i], (unsigned char)(7 + i), 4096));
        OK(cu.cuEventCreate(&events[i], 0));
    }
    GIVES(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cu.cuCtxDisablePeerAccess(contexts[0]));
    OK(cu.cuCtxEnablePeerAccess(contexts[0], 0));
    GIVES(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cu.cuCtxEnablePeerAccess(contexts[0], 0));
    GIVES(CUDA_ERROR_INVALID_DEVICE, cu.cuCtxEnablePeerAccess(contexts[1], 0)); /* itself */
    OK(cu.cuCtxDisablePeerAccess(contexts[0]));
    OK(cu.cuMemcpyPeer(memories[1], contexts[1], memories[0], contexts[0], 100));
    OK(cu.cuMemcpyDtoH_v2(&byte, memories[1] + 99, 1));
    CHECK(byte == 7);
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuMemcpyPeerAsync(memories[0] + 200, contexts[0], memories[1] + 200, contexts[1], 8,
                            stream));
    CUDA_MEMCPY3D_PEER box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                              .srcDevice = memories[1] + 1024,
                              .srcContext = contexts[1],
                              .srcPitch = 64,
                              .srcHeight = 4,
                              .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                              .dstDevice = memories[0] + 1024,
                              .dstContext = contexts[0],
                              .dstPitch = 128,
                              .dstHeight = 4,
                              .WidthInBytes = 5,
                              .Height = 2,
                              .Depth = 2};
    OK(cu.cuMemcpy3DPeerAsync(&box, stream));
    OK(cu.cuEventRecord(events[1], stream));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuEventRecord(events[0], stream)); /* of the other device */
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuMemcpyDtoH_v2(&byte, memories[0] + 207, 1));
    CHECK(byte == 8);
    OK(cu.cuMemcpyDtoH_v2(&byte, memories[0] + 1024 + 4 * 128 + 128 + 4, 1)); /* the last one */
    CHECK(byte == 8);
    OK(cu.cuMemcpyDtoH_v2(&byte, memories[0] + 1024 + 5, 1));
    CHECK(byte == 7);
    OK(cu.cuCtxSetCurrent(contexts[0]));
    OK(cu.cuEventRecord(events[0], NULL));
    OK(cu.cuEventSynchronize(events[0]));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuEventElapsedTime(&ms, events[0], events[1]));
    OK(cu.cuEventSynchronize(events[1])); /* from any device */
}

/* Memory, pools and mappings of the second device. */
static void second(void)
{
    CUcontext context;
    CUmemoryPool pool, other;
    CUdeviceptr memory_, address;
    CUmemGenericAllocationHandle handle, again;
    size_t before, after, total, granule = (size_t)2 << 20;
    soft_open();
    OK(cu.cuInit(0));
    OK(cu.cuDevicePrimaryCtxRetain(&context, 1));
    OK(cu.cuCtxSetCurrent(context));
    OK(cu.cuDeviceGetDefaultMemPool(&pool, 1));
    OK(cu.cuDeviceGetDefaultMemPool(&other, 0));
    CHECK(pool != other);
    GIVES(CUDA_ERROR_INVALID_DEVICE, cu.cuDeviceSetMemPool(0, pool));
    OK(cu.cuMemAllocAsync(&memory_, 4096, NULL));
    CUmemoryPool of = NULL;
    OK(cu.cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory_ + 9));
    CHECK(of == pool);
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}, there = here;
    there.id = 0;
    OK(cu.cuMemPoolGetAccess(&flags, pool, &here));
    CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cu.cuMemPoolGetAccess(&flags, pool, &there));
    CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CUmemAccessDesc desc = {there, CU_MEM_ACCESS_FLAGS_PROT_READ};
    OK(cu.cuMemPoolSetAccess(pool, &desc, 1));
    OK(cu.cuMemPoolGetAccess(&flags, pool, &there));
    CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READ);
    OK(cu.cuMemFreeAsync(memory_, NULL));
    OK(cu.cuCtxSynchronize());

    OK(cu.cuMemGetInfo_v2(&before, &total));
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here}, got;
    OK(cu.cuMemCreate(&handle, granule, &prop, 0));
    OK(cu.cuMemGetInfo_v2(&after, &total));
    CHECK(before - after == granule);
    OK(cu.cuMemGetAllocationPropertiesFromHandle(&got, handle));
    CHECK(got.location.id == 1);
    OK(cu.cuMemAddressReserve(&address, granule, 0, 0, 0));
    OK(cu.cuMemMap(address, granule, 0, handle, 0));
    unsigned long long access = 9;
    OK(cu.cuMemGetAccess(&access, &here, address));
    CHECK(access == CU_MEM_ACCESS_FLAGS_PROT_NONE);
    desc = (CUmemAccessDesc){here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cu.cuMemSetAccess(address, granule, &desc, 1));
    OK(cu.cuMemGetAccess(&access, &here, address + 5));
    CHECK(access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cu.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(address + 4096)));
    CHECK(again == handle);
    OK(cu.cuMemRelease(handle));
    OK(cu.cuMemRelease(again));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemRelease(again));
    OK(cu.cuMemsetD8_v2(address, 3, granule)); /* the mapping holds it */
    int ordinal = -1;
    OK(cu.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
    CHECK(ordinal == 1);
    OK(cu.cuMemUnmap(address, granule));
    OK(cu.cuMemAddressFree(address, granule));
    OK(cu.cuMemGetInfo_v2(&after, &total));
    CHECK(before == after);
}

static void bad(void)
{
    soft_open();
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuInit(0));
    int n;
    GIVES(CUDA_ERROR_NOT_INITIALIZED, cu.cuDeviceGetCount(&n));
}

static void none(void)
{
    soft_open();
    GIVES(CUDA_ERROR_NO_DEVICE, cu.cuInit(0));
}

static const struct soft_case cases[] = {
    {"t4", t4, "SOFTGPU_DEVICE", "t4"},
    {"a100", a100, "SOFTGPU_DEVICE", "a100"},
    {"l4", l4, "SOFTGPU_DEVICE", "l4"},
    {"list", list, "SOFTGPU_DEVICES", "standard,t4"},
    {"peers", peers, "SOFTGPU_DEVICES", "h200,l4,a100"},
    {"second", second, "SOFTGPU_DEVICES", "2"},
    {"none", none, "SOFTGPU_DEVICES", "0"},
    {"bad-device", bad, "SOFTGPU_DEVICE", "h300"},
    {"bad-number", bad, "SOFTGPU_DEVICES", "9"},
    {"bad-list", bad, "SOFTGPU_DEVICES", "t4,,l4"},
    {"bad-memory", bad, "SOFTGPU_MEMORY", "4T"},
    {"bad-seed", bad, "SOFTGPU_SEED", "first"},
    {"bad-threads", bad, "SOFTGPU_THREADS", "-1"},
};

int main(int argc, char **argv)
{
    const struct soft_case *own = soft_cases(argc, argv, cases, sizeof cases / sizeof *cases);
    if (own)
        own->run();
    return test_result();
}
