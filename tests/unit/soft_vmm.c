/* The virtual memory calls of the software GPU, and what replays rest on: an address that one
 * process was given by cuMemAlloc can be reserved in another one. */
#include "softgpu/soft_test.h"

#define MIB ((size_t)1 << 20)

static CUmemAllocationProp property(void)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
}

static CUmemAccessDesc access_of(CUmemAccess_flags flags)
{
    return (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}, .flags = flags};
}

static void reserve_map(void)
{
    CUdeviceptr base, other, end;
    CUmemGenericAllocationHandle first, second;
    CUmemAllocationProp prop = property();
    CUmemAccessDesc write = access_of(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CUmemAccessDesc read = access_of(CU_MEM_ACCESS_FLAGS_PROT_READ);
    size_t granularity;
    unsigned value = 0;
    OK(cu.cuMemGetAllocationGranularity(&granularity, &prop, 0));
    CHECK(granularity == 2 * MIB);
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemAddressReserve(&base, 1000, 0, 0, 0));
    OK(cu.cuMemAddressReserve(&base, 32 * MIB, 0, 0, 0));
    CHECK(base % (32 * MIB) == 0);
    OK(cu.cuMemCreate(&first, 2 * MIB, &prop, 0));
    OK(cu.cuMemCreate(&second, 2 * MIB, &prop, 0));
    OK(cu.cuMemMap(base, 2 * MIB, 0, first, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemMap(base, 2 * MIB, 0, second, 0)); /* mapped already */
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD32_v2(base, 1, 1));            /* no access yet */
    OK(cu.cuMemSetAccess(base, 2 * MIB, &write, 1));
    OK(cu.cuMemsetD32_v2(base, 42, 2 * MIB / 4));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD32_v2(base, 42, 2 * MIB / 4 + 1)); /* guard */
    OK(cu.cuMemMap(base + 2 * MIB, 2 * MIB, 0, first, 0)); /* the same memory, seen twice */
    OK(cu.cuMemSetAccess(base + 2 * MIB, 2 * MIB, &read, 1));
    OK(cu.cuMemcpyDtoH_v2(&value, base + 2 * MIB + 40, 4));
    CHECK(value == 42);
    OK(cu.cuMemcpyDtoH_v2(&value, base + 2 * MIB - 2, 4));                    /* across both */
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD32_v2(base + 2 * MIB, 1, 1)); /* read only */
    OK(cu.cuMemUnmap(base, 2 * MIB)); /* other memory under the same address */
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyDtoH_v2(&value, base, 4));
    OK(cu.cuMemMap(base, 2 * MIB, 0, second, 0));
    OK(cu.cuMemSetAccess(base, 2 * MIB, &write, 1));
    OK(cu.cuMemcpyDtoH_v2(&value, base, 4));
    CHECK(value == 0);
    OK(cu.cuMemRelease(first)); /* its mapping keeps it */
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemRelease(first));
    OK(cu.cuMemcpyDtoH_v2(&value, base + 2 * MIB, 4));
    CHECK(value == 42);
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemAddressFree(base, 32 * MIB)); /* still mapped */
    OK(cu.cuMemGetAddressRange_v2(&end, &granularity, base + 5));
    CHECK(end == base && granularity == 2 * MIB);
    OK(cu.cuMemUnmap(base, 4 * MIB));
    OK(cu.cuMemRelease(second));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuMemUnmap(base, 2 * MIB));
    OK(cu.cuMemAddressReserve(&other, 32 * MIB, 0, base, 0)); /* taken: goes elsewhere */
    CHECK(other != base);
    OK(cu.cuMemAddressFree(other, 32 * MIB));
    OK(cu.cuMemAddressFree(base, 32 * MIB));
    OK(cu.cuMemAddressReserve(&other, 64 * MIB, 0, base + MIB, 0));
    CHECK(other == base + 32 * MIB); /* rounded up */
    OK(cu.cuMemAddressFree(other, 64 * MIB));
}

/* Memory under a descriptor, as another process gets it; and what an address's range is. */
static void shared(void)
{
    CUdeviceptr base, start;
    CUmemGenericAllocationHandle memory, same;
    CUmemAllocationProp prop = property();
    CUmemAccessDesc write = access_of(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    unsigned value = 0;
    size_t size;
    int fd;
    OK(cu.cuMemCreate(&memory, 2 * MIB, &prop, 0));
    GIVES(
        CUDA_ERROR_INVALID_VALUE, /* not asked for when it was made */
        cu.cuMemExportToShareableHandle(&fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cu.cuMemRelease(memory));
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    OK(cu.cuMemCreate(&memory, 2 * MIB, &prop, 0));
    OK(cu.cuMemExportToShareableHandle(&fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cu.cuMemImportFromShareableHandle(&same, (void *)(intptr_t)fd,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    CHECK(same != memory && close(fd) == 0);
    GIVES(CUDA_ERROR_INVALID_VALUE, /* no memory of ours */
          cu.cuMemImportFromShareableHandle(&same, (void *)(intptr_t)2,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    OK(cu.cuMemAddressReserve(&base, 32 * MIB, 0, 0, 0));
    OK(cu.cuMemMap(base, 2 * MIB, 0, memory, 0));
    OK(cu.cuMemMap(base + 4 * MIB, 2 * MIB, 0, same, 0));
    OK(cu.cuMemSetAccess(base, 2 * MIB, &write, 1));
    OK(cu.cuMemSetAccess(base + 4 * MIB, 2 * MIB, &write, 1));
    OK(cu.cuMemsetD32_v2(base + 400, 42, 1));
    OK(cu.cuMemcpyDtoH_v2(&value, base + 4 * MIB + 400, 4));
    CHECK(value == 42);
    OK(cu.cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, base + 4 * MIB));
    OK(cu.cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, base + 4 * MIB));
    CHECK(start == base && size == 32 * MIB);
    OK(cu.cuMemRelease(memory));
    OK(cu.cuMemUnmap(base, 2 * MIB));
    OK(cu.cuMemcpyDtoH_v2(&value, base + 4 * MIB + 400, 4)); /* its other handle keeps it */
    CHECK(value == 42);
    OK(cu.cuMemUnmap(base + 4 * MIB, 2 * MIB));
    OK(cu.cuMemRelease(same));
    OK(cu.cuMemAddressFree(base, 32 * MIB));
}

/* In a child that has the address as its argument: reserve there, map, run a copy. */
static void at(CUdeviceptr wanted)
{
    CUdeviceptr own, got;
    CUmemGenericAllocationHandle memory;
    CUmemAllocationProp prop = property();
    CUmemAccessDesc write = access_of(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cu.cuMemAlloc_v2(&own, 1000)); /* its own small allocations do not stand in the way */
    CUdeviceptr window = wanted / (32 * MIB) * (32 * MIB);
    OK(cu.cuMemAddressReserve(&got, 32 * MIB, 0, window, 0));
    CHECK(got == window);
    OK(cu.cuMemCreate(&memory, 2 * MIB, &prop, 0));
    OK(cu.cuMemMap(wanted / (2 * MIB) * (2 * MIB), 2 * MIB, 0, memory, 0));
    OK(cu.cuMemSetAccess(wanted / (2 * MIB) * (2 * MIB), 2 * MIB, &write, 1));
    OK(cu.cuMemsetD8_v2(wanted, 3, 100));
}

int main(int argc, char **argv)
{
    soft_begin();
    if (argc > 1) {
        at(strtoull(argv[1], NULL, 0));
        return test_result();
    }
    reserve_map();
    shared();
    for (int i = 0; i < 8; i++) {
        CUdeviceptr memory;
        char text[32];
        OK(cu.cuMemAlloc_v2(&memory, 5 * MIB));
        snprintf(text, sizeof text, "%#llx", memory);
        CHECK(run_again(text, NULL, NULL, 60) == 0);
    }
    return test_result();
}
