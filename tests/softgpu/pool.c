/* Memory in stream order, and its pools. The memory is there at once, which is earlier than the
 * stream's order demands; it goes when the stream comes to that. A block that was given back is
 * dead for kernels and copies: what a pool keeps beyond its use is an amount of the device's
 * memory, not addresses. The amount above the release threshold goes when the device's work was
 * waited for. */
#include "graph.h"

#include <pthread.h>
#include <stdlib.h>

struct pool {
    int device;
    bool standard;  /* the device's default one */
    bool destroyed; /* its handle is dead; it goes with its last block */
    uint64_t threshold, most;
    uint64_t used, used_high;
    uint64_t spare; /* kept beyond its use, and charged to the device */
    uint64_t reserved_high;
    unsigned blocks;
    int reuse[3]; /* event dependencies, opportunistic, internal dependencies */
    CUmemAccess_flags access[SOFT_DEVICES_MOST];
    struct pool *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* taken before the memory's */
static struct pool standards[SOFT_DEVICES_MOST];
static struct pool *current[SOFT_DEVICES_MOST]; /* NULL: the default one */
static struct pool *pools;                      /* all that live, when first used */

/* ---- the account; callers hold the mutex ---- */

static void pool_begin(struct pool *pool, int device)
{
    pool->device = device;
    pool->access[device] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    for (int i = 0; i < 3; i++)
        pool->reuse[i] = 1;
    pool->next = pools;
    pools = pool;
}

static struct pool *standard_of(int device)
{
    struct pool *pool = &standards[device];
    if (!pool->standard) {
        pool->standard = true;
        pool_begin(pool, device);
    }
    return pool;
}

static void shrink(struct pool *pool, uint64_t keep)
{
    uint64_t stays = keep > pool->used ? keep - pool->used : 0;
    if (pool->spare <= stays)
        return;
    memory_uncharge(pool->device, pool->spare - stays);
    pool->spare = stays;
}

static void pool_free(struct pool *pool)
{
    struct pool **link = &pools;
    while (*link != pool)
        link = &(*link)->next;
    *link = pool->next;
    shrink(pool, 0);
    free(pool);
}

void pools_settle(int device)
{
    pthread_mutex_lock(&mutex);
    for (struct pool *pool = pools; pool; pool = pool->next)
        if (pool->device == device && pool->spare)
            shrink(pool, pool->threshold);
    pthread_mutex_unlock(&mutex);
}

void pool_gave(const struct memory_block *block)
{
    struct pool *pool = block->pool;
    if (!pool)
        return;
    pthread_mutex_lock(&mutex);
    pool->used -= block->size;
    pool->blocks--;
    if (memory_charge(pool->device, block->size))
        pool->spare += block->size;
    if (pool->destroyed && !pool->blocks)
        pool_free(pool);
    pthread_mutex_unlock(&mutex);
}

/* What the pool keeps is used first; the device's other pools give theirs up before memory is out.
 */
static CUresult pool_take(struct pool *pool, struct context *context, uint64_t size,
                          uint64_t *address)
{
    if (pool->most && size > pool->most - pool->used)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t taken = pool->spare < size ? pool->spare : size;
    shrink(pool, pool->used + pool->spare - taken);
    struct pool *other = pools;
    while (other && size > device_at(pool->device)->memory - memory_used(pool->device)) {
        if (other->device == pool->device)
            shrink(other, 0);
        other = other->next;
    }
    CUresult result = memory_take(context, size, 512, MEMORY_DEVICE, address);
    if (result != CUDA_SUCCESS)
        return result;
    memory_mark(*address, pool);
    pool->used += size;
    pool->blocks++;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    if (pool->used + pool->spare > pool->reserved_high)
        pool->reserved_high = pool->used + pool->spare;
    return CUDA_SUCCESS;
}

/* ---- pools ---- */

/* Locks on success. */
static CUresult pool_enter(CUmemoryPool handle, struct pool **out)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&mutex);
    *out = pools;
    while (*out && (*out != (struct pool *)handle || (*out)->destroyed))
        *out = (*out)->next;
    if (*out)
        return CUDA_SUCCESS;
    pthread_mutex_unlock(&mutex);
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *poolProps)
{
    struct device *device;
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || !poolProps || poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (device_of(poolProps->location.id, &device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pool->most = poolProps->maxSize;
    pthread_mutex_lock(&mutex);
    pool_begin(pool, device->ordinal);
    pthread_mutex_unlock(&mutex);
    *out = (CUmemoryPool)pool;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
    struct pool *pool;
    CUresult result = pool_enter(handle, &pool);
    if (result != CUDA_SUCCESS)
        return result;
    if (pool->standard) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        pool->destroyed = true;
        if (current[pool->device] == pool)
            current[pool->device] = NULL;
        if (!pool->blocks)
            pool_free(pool);
    }
    pthread_mutex_unlock(&mutex);
    return result;
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t minBytesToKeep)
{
    struct pool *pool;
    CUresult result = pool_enter(handle, &pool);
    if (result != CUDA_SUCCESS)
        return result;
    shrink(pool, minBytesToKeep);
    pthread_mutex_unlock(&mutex);
    return CUDA_SUCCESS;
}

static CUresult set_attribute(struct pool *pool, CUmemPool_attribute which, const void *value)
{
    switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        pool->reuse[which - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] =
            *(const int *)value != 0;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->threshold = *(const cuuint64_t *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: /* back to what is */
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (*(const cuuint64_t *)value)
            return CUDA_ERROR_INVALID_VALUE;
        if (which == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
            pool->used_high = pool->used;
        else
            pool->reserved_high = pool->used + pool->spare;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult get_attribute(const struct pool *pool, CUmemPool_attribute which, void *value)
{
    switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *(int *)value = pool->reuse[which - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *(cuuint64_t *)value = pool->threshold;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->used + pool->spare;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *(cuuint64_t *)value = pool->reserved_high;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *(cuuint64_t *)value = pool->used;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *(cuuint64_t *)value = pool->used_high;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value)
{
    struct pool *pool;
    CUresult result = value ? pool_enter(handle, &pool) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    result = set_attribute(pool, attr, value);
    pthread_mutex_unlock(&mutex);
    return result;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value)
{
    struct pool *pool;
    CUresult result = value ? pool_enter(handle, &pool) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    result = get_attribute(pool, attr, value);
    pthread_mutex_unlock(&mutex);
    return result;
}

static bool location_good(const CUmemLocation *location)
{
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id >= 0 &&
           location->id < device_count();
}

/* Kept and given back; that a kernel on another device keeps to it is not checked. */
CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count)
{
    struct pool *pool;
    CUresult result = map && count ? pool_enter(handle, &pool) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        if (!location_good(&map[i].location))
            result = CUDA_ERROR_INVALID_DEVICE;
        else if (map[i].location.id == pool->device && /* its own device always has it all */
                 map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            result = CUDA_ERROR_INVALID_DEVICE;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        pool->access[map[i].location.id] = map[i].flags;
    pthread_mutex_unlock(&mutex);
    return result;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool handle, CUmemLocation *location)
{
    struct pool *pool;
    if (!flags || !location)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = pool_enter(handle, &pool);
    if (result != CUDA_SUCCESS)
        return result;
    bool good = location_good(location);
    if (good)
        *flags = pool->access[location->id];
    pthread_mutex_unlock(&mutex);
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult pool_of_device(CUmemoryPool *out, CUdevice dev, bool standard)
{
    struct device *device;
    CUresult result = device_of(dev, &device);
    if (result != CUDA_SUCCESS)
        return result;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&mutex);
    struct pool *pool = standard_of(dev);
    if (!standard && current[dev])
        pool = current[dev];
    pthread_mutex_unlock(&mutex);
    *out = (CUmemoryPool)pool;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
    return pool_of_device(pool_out, dev, true);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    return pool_of_device(pool, dev, false);
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool handle)
{
    struct device *device;
    struct pool *pool;
    CUresult result = device_of(dev, &device);
    if (result == CUDA_SUCCESS)
        result = pool_enter(handle, &pool);
    if (result != CUDA_SUCCESS)
        return result;
    bool fits = pool->device == dev;
    if (fits)
        current[dev] = pool->standard ? NULL : pool;
    pthread_mutex_unlock(&mutex);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static bool kind_known(const CUmemLocation *location, CUmemAllocationType type)
{
    return location && location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
           type == CU_MEM_ALLOCATION_TYPE_PINNED;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
                                CUmemAllocationType type)
{
    return kind_known(location, type) ? cuDeviceGetDefaultMemPool(pool_out, location->id)
                                      : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    return kind_known(location, type) ? cuDeviceGetMemPool(pool, location->id)
                                      : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    return kind_known(location, type) ? cuDeviceSetMemPool(location->id, pool)
                                      : CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- memory in stream order ---- */

/* Nodes of graphs that allocate are not there: a captured stream cannot do it. */
static CUresult enter(CUstream handle, bool per_thread, struct stream **out)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = stream_of(context, handle, per_thread, out);
    return result == CUDA_SUCCESS ? capture_refuses(*out, CUDA_ERROR_NOT_SUPPORTED) : result;
}

/* handle: NULL for the current pool of the stream's device. */
static CUresult take(CUdeviceptr *dptr, size_t size, CUmemoryPool handle, bool given,
                     CUstream stream_handle, bool per_thread)
{
    struct stream *stream;
    struct pool *pool;
    uint64_t address;
    CUresult result = enter(stream_handle, per_thread, &stream);
    if (result == CUDA_SUCCESS && (!dptr || !size))
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && !given)
        result = pool_of_device(&handle, stream->context->device->ordinal, false);
    if (result == CUDA_SUCCESS)
        result = pool_enter(handle, &pool);
    if (result != CUDA_SUCCESS)
        return result;
    struct context *owner = pool->device == stream->context->device->ordinal
                                ? stream->context
                                : context_primary(pool->device);
    result = pool_take(pool, owner, size, &address);
    pthread_mutex_unlock(&mutex);
    if (result == CUDA_SUCCESS)
        *dptr = address;
    return result;
}

struct free_op {
    struct op op;
    uint64_t address;
};

static CUresult free_run(struct op *op)
{
    struct memory_block block;
    uint64_t address = ((struct free_op *)op)->address;
    if (!memory_find(address, &block) || memory_give(address, MEMORY_DEVICE) != CUDA_SUCCESS)
        return CUDA_ERROR_ILLEGAL_ADDRESS; /* given back twice */
    pool_gave(&block);
    return CUDA_SUCCESS;
}

static CUresult give(CUdeviceptr dptr, CUstream handle, bool per_thread)
{
    struct stream *stream;
    struct memory_block block;
    CUresult result = enter(handle, per_thread, &stream);
    if (result != CUDA_SUCCESS || !dptr)
        return result;
    if (!memory_find(dptr, &block) || block.base != dptr || block.kind > MEMORY_MANAGED)
        return CUDA_ERROR_INVALID_VALUE;
    struct free_op *op = op_create(sizeof *op);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->op.run = free_run;
    op->address = dptr;
    return op_submit(stream, &op->op, false);
}

CALL(cuMemAllocAsync, _ptsz, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream),
     take(dptr, bytesize, NULL, false, hStream, own))
CALL(cuMemAllocFromPoolAsync, _ptsz,
     (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
     take(dptr, bytesize, pool, true, hStream, own))
CALL(cuMemFreeAsync, _ptsz, (CUdeviceptr dptr, CUstream hStream), give(dptr, hStream, own))
