/* What an address is. */
#include "soft.h"

/* Of mapped memory the whole reservation, which has other mappings, too, and unmapped parts. */
static void range(const struct memory_block *block, bool size, uint64_t *out)
{
    uint64_t base = block->base, bytes = block->size;
    if (block->kind == MEMORY_MAPPED)
        (void)vmm_range(block->base, &base, &bytes);
    *out = size ? bytes : base;
}

static CUresult attribute(void *data, CUpointer_attribute which, uint64_t address,
                          const struct memory_block *block)
{
    bool host = block->kind == MEMORY_HOST || block->kind == MEMORY_REGISTERED;
    switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data =
            (CUcontext)(block->context ? block->context
                                       : context_primary(block->device)); /* mapped: none */
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!host && block->kind != MEMORY_MANAGED)
            return CUDA_ERROR_INVALID_VALUE;
        *(uint64_t *)data = address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(unsigned *)data = block->sync;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *(unsigned *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(uint64_t *)data = block->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)data = block->kind == MEMORY_MANAGED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = block->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        range(block, which == CU_POINTER_ATTRIBUTE_RANGE_SIZE, data);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned *)data = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(uint64_t *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(unsigned *)data = block->writable ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
                                            : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = (CUmemoryPool)block->pool;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        if (block->kind != MEMORY_MAPPED)
            return CUDA_ERROR_INVALID_VALUE;
        *(uint64_t *)data = which == CU_POINTER_ATTRIBUTE_MAPPING_SIZE ? block->size : block->base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *(uint64_t *)data = block->id;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute which, CUdeviceptr ptr)
{
    struct context *context;
    struct memory_block block;
    CUresult result = context_enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!data || !memory_find(ptr, &block))
        return CUDA_ERROR_INVALID_VALUE;
    return attribute(data, which, ptr, &block);
}

static size_t value_size(CUpointer_attribute which)
{
    switch (which) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return 4;
    default:
        return 8;
    }
}

/* Unlike the single call it answers zeros for an address that is none of ours, and success. */
CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
                                void **data, CUdeviceptr ptr)
{
    struct context *context;
    struct memory_block block;
    CUresult result = context_enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!numAttributes || !attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    bool found = memory_find(ptr, &block);
    for (unsigned i = 0; i < numAttributes; i++) {
        if (!data[i])
            return CUDA_ERROR_INVALID_VALUE;
        for (size_t j = 0; j < value_size(attributes[i]); j++)
            ((unsigned char *)data[i])[j] = 0;
        if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL && !found)
            *(int *)data[i] = -2; /* CU_DEVICE_INVALID */
        if (found)
            (void)attribute(data[i], attributes[i], ptr, &block); /* what has no value stays 0 */
    }
    return CUDA_SUCCESS;
}

/* Copies here are ordered as the flag demands in any case; it is kept to be read again. */
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct context *context;
    struct memory_block block;
    CUresult result = context_enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !memory_find(ptr, &block) ||
        block.kind == MEMORY_HOST || block.kind == MEMORY_REGISTERED)
        return CUDA_ERROR_INVALID_VALUE;
    memory_sync_set(ptr, *(const unsigned *)value != 0);
    return CUDA_SUCCESS;
}
