/* The real CUDA driver, opened at run time. */
#include "gpu/real.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct real_driver real;

#define STREAM_LEGACY 'L'
#define STREAM_PTDS 'P'
#define STREAM_BOTH 'B'
#define USE_HOOKED true
#define USE_PLAIN false

const struct real_row real_rows[] = {
#define API(ret, symbol, base, version, stream, use, params, args)                                 \
    {#symbol, base, version, STREAM_##stream, USE_##use, offsetof(struct real_driver, symbol)},
#include "cuda_api.def"
#undef API
};
const unsigned real_row_count = sizeof real_rows / sizeof *real_rows;

/* No lock: a caller may hold the dynamic linker's (a constructor that looks the driver up), and
 * dlopen takes it. Threads that meet here fill in the same values. An entry that is filled stays.
 */
kg_status real_open(void *(*dlsym_of)(void *, const char *))
{
    static atomic_bool done, said;
    if (atomic_load_explicit(&done, memory_order_acquire))
        return KG_OK;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        if (!atomic_exchange(&said, true))
            log_line(KG_INFO, "no NVIDIA driver here: %s", dlerror());
        return KG_NO_DRIVER;
    }
    for (unsigned i = 0; i < real_row_count; i++) {
        void **entry = (void **)((char *)&real + real_rows[i].offset);
        void *address =
            dlsym_of ? dlsym_of(library, real_rows[i].symbol) : dlsym(library, real_rows[i].symbol);
        if (address && !__atomic_load_n(entry, __ATOMIC_RELAXED))
            __atomic_store_n(entry, address, __ATOMIC_RELEASE);
    }
    atomic_store_explicit(&done, true, memory_order_release);
    return KG_OK;
}

const char *real_error(CUresult result)
{
    const char *name = NULL;
    if (real.cuGetErrorName && real.cuGetErrorName(result, &name) == CUDA_SUCCESS && name)
        return name;
    return "unknown CUDA error";
}

bool real_ok(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return true;
    log_line(KG_WARN, "%s: %s (%d)", what, real_error(result), (int)result);
    return false;
}

static uint32_t attribute(CUdevice device, CUdevice_attribute which)
{
    int value = 0;
    return real.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS && value > 0
               ? (uint32_t)value
               : 0;
}

kg_status real_hardware(CUdevice device, struct kg_hardware *out)
{
    *out = (struct kg_hardware){0};
    size_t memory = 0;
    CUuuid uuid = {{0}};
    if (!real_ok(real.cuDeviceGetName(out->name, (int)sizeof out->name, device),
                 "cuDeviceGetName") ||
        !real_ok(real.cuDeviceTotalMem_v2(&memory, device), "cuDeviceTotalMem") ||
        !real_ok(real.cuDriverGetVersion(&out->driver_version), "cuDriverGetVersion"))
        return KG_DRIVER;
    bool soft = !strncmp(out->name, "softgpu", 7);
    snprintf(out->vendor, sizeof out->vendor, "%s", soft ? "softgpu" : "nvidia");
    snprintf(out->arch, sizeof out->arch, "sm_%u%u", /* capabilities have two digits at most */
             attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) % 100,
             attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) % 100);
    const char *slice = strstr(out->name, " MIG "); /* "NVIDIA H200 MIG 1g.18gb" */
    if (slice)
        snprintf(out->mig, sizeof out->mig, "%s", slice + 5);
    out->sm_count = attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    out->bus_bits = attribute(device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
    out->l2_bytes = attribute(device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    out->memory_bytes = memory >> 30 << 30;
    if (real.cuDeviceGetUuid_v2)
        (void)real.cuDeviceGetUuid_v2(&uuid, device); /* of a MIG slice: the slice's own */
    const unsigned char *u = (const unsigned char *)uuid.bytes;
    snprintf(out->uuid, sizeof out->uuid,
             "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
             u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
             u[15]);
    return KG_OK;
}
