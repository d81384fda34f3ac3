/* The one device: an sm_90 with the figures of an H200, but for its memory. */
#include "soft.h"

#include <stdio.h>
#include <string.h>

static const unsigned char uuid_bytes[16] = {0x50, 0xf7, 0x69, 0x50, 0x55, 0x00, 0x40, 0x90,
                                             0x90, 0x00, 0x6b, 0x67, 0x65, 0x6e, 0x72, 0x74};
static const char bus_id[] = "0000:5f:00.0";

/* What is not in this table is 0: a feature that is not there. */
static const struct {
    CUdevice_attribute which;
    int value;
} attributes[] = {
#define ATTRIBUTE(name, value) {CU_DEVICE_ATTRIBUTE_##name, value},
#include "device.def"
#undef ATTRIBUTE
};

static CUresult enter(CUdevice device)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetCount(int *count)
{
    CUresult result = enter(0);
    if (result == CUDA_SUCCESS && !count)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *count = 1;
    return result;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    CUresult result = enter(ordinal);
    if (result == CUDA_SUCCESS && !device)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *device = ordinal;
    return result;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
    CUresult result = enter(dev);
    if (result == CUDA_SUCCESS && (!name || len <= 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        snprintf(name, (size_t)len, "softgpu sm_90");
    return result;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    CUresult result = enter(dev);
    if (result == CUDA_SUCCESS && !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *bytes = SOFT_MEMORY;
    return result;
}

CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    CUresult result = enter(dev);
    if (result != CUDA_SUCCESS)
        return result;
    if (!pi || attrib <= 0 || attrib >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *pi = 0;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].which == attrib)
            *pi = attributes[i].value;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    CUresult result = enter(dev);
    if (result == CUDA_SUCCESS && !uuid)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        memcpy(uuid->bytes, uuid_bytes, sizeof uuid_bytes);
    return result;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    return cuDeviceGetUuid_v2(uuid, dev);
}

CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
    CUresult result = enter(dev);
    if (result == CUDA_SUCCESS && (!pciBusId || len < (int)sizeof bus_id))
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        memcpy(pciBusId, bus_id, sizeof bus_id);
    return result;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
    CUresult result = enter(0);
    if (result != CUDA_SUCCESS)
        return result;
    if (!dev || !pciBusId)
        return CUDA_ERROR_INVALID_VALUE;
    if (strcmp(pciBusId, bus_id))
        return CUDA_ERROR_INVALID_DEVICE;
    *dev = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
    CUresult result = enter(dev);
    if (result == CUDA_SUCCESS)
        result = enter(peerDev);
    if (result == CUDA_SUCCESS && !canAccessPeer)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *canAccessPeer = 0; /* a device is no peer of itself */
    return result;
}
