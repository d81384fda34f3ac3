/* The devices: how many there are and what each is, by the table devices.def and the environment
 * (settings.c), read once at cuInit; and what a program may ask of them. */
#include "soft.h"

#include <stdio.h>
#include <string.h>

static const unsigned char uuid_bytes[16] = {0x50, 0xf7, 0x69, 0x50, 0x55, 0x00, 0x40, 0x90,
                                             0x90, 0x00, 0x6b, 0x67, 0x65, 0x6e, 0x72, 0x74};
enum { BUS_ID = 13 }; /* "0000:5f:00.0" */

static const struct device_model models[] = {
#define MODEL(word, ...) {#word, __VA_ARGS__},
#include "devices.def"
#undef MODEL
};

static struct device devices[SOFT_DEVICES_MOST];
static int device_total;

const struct device_model *device_model_find(const char *word, size_t length)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strlen(models[i].word) == length && !memcmp(models[i].word, word, length))
            return &models[i];
    return NULL;
}

bool device_add(const struct device_model *model, uint64_t memory)
{
    if (device_total == SOFT_DEVICES_MOST)
        return false;
    struct device *device = &devices[device_total];
    device->model = model;
    device->memory = memory ? memory : model->memory_bytes;
    device->ordinal = device_total;
    snprintf(device->arch, sizeof device->arch, "sm_%d%d", model->major % 100, model->minor % 100);
    device_total++;
    return true;
}

int device_count(void)
{
    return device_total;
}

struct device *device_at(int ordinal)
{
    return &devices[ordinal];
}

CUresult device_of(CUdevice ordinal, struct device **out)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    if (ordinal < 0 || ordinal >= device_total)
        return CUDA_ERROR_INVALID_DEVICE;
    *out = &devices[ordinal];
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    CUresult result = soft_enter();
    if (result == CUDA_SUCCESS && !count)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *count = device_total;
    return result;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    struct device *found;
    CUresult result = device_of(ordinal, &found);
    if (result == CUDA_SUCCESS && !device)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *device = ordinal;
    return result;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
    struct device *device;
    CUresult result = device_of(dev, &device);
    if (result == CUDA_SUCCESS && (!name || len <= 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        snprintf(name, (size_t)len, "softgpu %s", device->model->name);
    return result;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    struct device *device;
    CUresult result = device_of(dev, &device);
    if (result == CUDA_SUCCESS && !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *bytes = device->memory;
    return result;
}

/* What is not in the table is 0: a feature that is not there. */
static int attribute(const struct device *d, CUdevice_attribute which)
{
    const struct device_model *m = d->model;
    switch ((int)which) {
#define ATTRIBUTE(name, value)                                                                     \
    case CU_DEVICE_ATTRIBUTE_##name:                                                               \
        return (int)(value);
#include "device.def"
#undef ATTRIBUTE
    default:
        return 0;
    }
}

CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    struct device *device;
    CUresult result = device_of(dev, &device);
    if (result != CUDA_SUCCESS)
        return result;
    if (!pi || attrib <= 0 || attrib >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *pi = attribute(device, attrib);
    return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    struct device *device;
    CUresult result = device_of(dev, &device);
    if (result == CUDA_SUCCESS && (!major || !minor))
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        *major = device->model->major;
        *minor = device->model->minor;
    }
    return result;
}

CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
    struct device *device;
    CUresult result = device_of(dev, &device);
    if (result == CUDA_SUCCESS && !prop)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *prop = (CUdevprop){.maxThreadsPerBlock = 1024,
                            .maxThreadsDim = {1024, 1024, 64},
                            .maxGridSize = {2147483647, 65535, 65535},
                            .sharedMemPerBlock = SOFT_SHARED,
                            .totalConstantMemory = 65536,
                            .SIMDWidth = 32,
                            .memPitch = 2147483647,
                            .regsPerBlock = SOFT_SM_REGISTERS,
                            .clockRate = device->model->clock_khz,
                            .textureAlign = 512};
    return result;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    struct device *device;
    CUresult result = device_of(dev, &device);
    if (result == CUDA_SUCCESS && !uuid)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        memcpy(uuid->bytes, uuid_bytes, sizeof uuid_bytes);
        uuid->bytes[0] = (char)(uuid->bytes[0] + device->ordinal);
    }
    return result;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    return cuDeviceGetUuid_v2(uuid, dev);
}

CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
    struct device *device;
    CUresult result = device_of(dev, &device);
    if (result == CUDA_SUCCESS && (!pciBusId || len < BUS_ID))
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        snprintf(pciBusId, (size_t)len, "0000:%02x:00.0", (unsigned)(SOFT_BUS + device->ordinal));
    return result;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
    unsigned domain = 0, bus = 0, slot = 0;
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    if (!dev || !pciBusId)
        return CUDA_ERROR_INVALID_VALUE;
    int fields = sscanf(pciBusId, "%x:%x:%x", &domain, &bus, &slot);
    if (fields < 2)
        return CUDA_ERROR_INVALID_VALUE;
    if (domain || slot || bus < SOFT_BUS || bus >= SOFT_BUS + (unsigned)device_total)
        return CUDA_ERROR_INVALID_DEVICE;
    *dev = (int)(bus - SOFT_BUS);
    return CUDA_SUCCESS;
}

/* ---- peers: every device reaches every other ---- */

static CUresult pair(CUdevice dev, CUdevice peer)
{
    struct device *device;
    CUresult result = device_of(dev, &device);
    return result == CUDA_SUCCESS ? device_of(peer, &device) : result;
}

CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
    CUresult result = pair(dev, peerDev);
    if (result == CUDA_SUCCESS && !canAccessPeer)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *canAccessPeer = dev != peerDev; /* a device is no peer of itself */
    return result;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                 CUdevice dstDevice)
{
    CUresult result = pair(srcDevice, dstDevice);
    if (result != CUDA_SUCCESS)
        return result;
    if (srcDevice == dstDevice)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attrib) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
        *value = 0; /* the best */
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        *value = 1;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
        *value = 0; /* there are no arrays */
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}
