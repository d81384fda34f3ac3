/* What of a device is in the hardware key: a MIG slice is not the whole device, nor another slice;
 * two cards of one kind are the same. */
#include "gpu/real.h"

#include <string.h>

#include "cache.h"

#include "test.h"

static const char *name;
static unsigned char card;
static size_t memory;
static int multiprocessors;

static CUresult fake_name(char *out, int size, CUdevice device)
{
    snprintf(out, (size_t)size, "%s", name);
    return CUDA_SUCCESS;
}

static CUresult fake_memory(size_t *out, CUdevice device)
{
    *out = memory;
    return CUDA_SUCCESS;
}

static CUresult fake_version(int *out)
{
    *out = 13000;
    return CUDA_SUCCESS;
}

static CUresult fake_attribute(int *out, CUdevice_attribute which, CUdevice device)
{
    *out = which == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT       ? multiprocessors
           : which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9
           : which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
           : which == CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH  ? 6144
                                                                   : 1 << 20;
    return CUDA_SUCCESS;
}

static CUresult fake_uuid(CUuuid *out, CUdevice device)
{
    memset(out, card, sizeof *out);
    return CUDA_SUCCESS;
}

static struct kg_id key_of(const char *of, unsigned char its_card, size_t gib, int sms,
                           const char *slice)
{
    struct kg_hardware hardware;
    struct kg_id key;
    name = of;
    card = its_card;
    memory = (gib << 30) + 12345;
    multiprocessors = sms;
    CHECK(real_hardware(0, &hardware) == KG_OK);
    CHECK(!strcmp(hardware.mig, slice) && !strcmp(hardware.vendor, "nvidia"));
    CHECK(!strcmp(hardware.arch, "sm_90") && (int)hardware.sm_count == sms);
    hardware_key(&hardware, &key);
    return key;
}

int main(void)
{
    real.cuDeviceGetName = fake_name;
    real.cuDeviceTotalMem_v2 = fake_memory;
    real.cuDriverGetVersion = fake_version;
    real.cuDeviceGetAttribute = fake_attribute;
    real.cuDeviceGetUuid_v2 = fake_uuid;
    struct kg_id whole = key_of("NVIDIA H200", 1, 140, 132, ""),
                 second = key_of("NVIDIA H200", 2, 140, 132, ""),
                 small = key_of("NVIDIA H200 MIG 1g.18gb", 3, 16, 16, "1g.18gb"),
                 sibling = key_of("NVIDIA H200 MIG 1g.18gb", 4, 16, 16, "1g.18gb"),
                 large = key_of("NVIDIA H200 MIG 3g.71gb", 5, 69, 60, "3g.71gb"),
                 like_large = key_of("NVIDIA H200 MIG 3g.71gb.me", 5, 69, 60, "3g.71gb.me");
    CHECK(id_equal(&whole, &second) && id_equal(&small, &sibling));
    CHECK(!id_equal(&whole, &small) && !id_equal(&whole, &large) && !id_equal(&small, &large));
    CHECK(!id_equal(&large, &like_large)); /* by the slice's name alone */
    return test_result();
}
