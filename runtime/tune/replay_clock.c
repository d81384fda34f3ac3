/* The replay device's clock: what memory holds before a timed launch, caches cold or warm, and the
 * device's own time of it. Several contents are kept, so that no two launches in a row have the
 * same inputs. */
#include "tune/replay_cuda.h"

#include <stdlib.h>
#include <string.h>

/* Room for the chosen set's copy: on the device, else here. */
static kg_status room(struct cuda *cuda)
{
    CUdeviceptr *kept = &cuda->kept[cuda->set];
    unsigned char **host = &cuda->kept_host[cuda->set];
    size_t total = cuda->memory->total;
    if (*kept || *host || !total || real.cuMemAlloc_v2(kept, total) == CUDA_SUCCESS)
        return KG_OK;
    *kept = 0;
    *host = malloc(total);
    return *host ? KG_OK : KG_NO_MEMORY;
}

kg_status cuda_keep(struct replay_device *device)
{
    struct cuda *cuda = (struct cuda *)device;
    const struct replay_memory *memory = cuda->memory;
    kg_status status = room(cuda);
    CUdeviceptr kept = cuda->kept[cuda->set];
    unsigned char *host = cuda->kept_host[cuda->set];
    for (uint32_t i = 0; i < memory->extent_count && status == KG_OK; i++) {
        const struct replay_extent *e = &memory->extents[i];
        if (kept)
            TRY("copy", real.cuMemcpyDtoDAsync_v2(kept + e->at, e->address, e->size, cuda->stream));
        else
            TRY("copy", real.cuMemcpyDtoH_v2(host + e->at, e->address, e->size));
    }
    if (status == KG_OK)
        TRY("copy", real.cuStreamSynchronize(cuda->stream));
    return status;
}

/* Enqueued on the launches' own stream: no waiting. */
kg_status cuda_restore(struct replay_device *device)
{
    struct cuda *cuda = (struct cuda *)device;
    const struct replay_memory *memory = cuda->memory;
    CUdeviceptr kept = cuda->kept[cuda->set];
    const unsigned char *host = cuda->kept_host[cuda->set];
    for (uint32_t i = 0; i < memory->extent_count; i++) {
        const struct replay_extent *e = &memory->extents[i];
        if (kept)
            TRY("copy", real.cuMemcpyDtoDAsync_v2(e->address, kept + e->at, e->size, cuda->stream));
        else
            TRY("copy", real.cuMemcpyHtoDAsync_v2(e->address, host + e->at, e->size, cuda->stream));
    }
    return KG_OK;
}

kg_status cuda_set_select(struct replay_device *device, unsigned index)
{
    struct cuda *cuda = (struct cuda *)device;
    if (index >= REPLAY_SETS)
        return KG_LIMIT;
    cuda->set = index;
    return KG_OK;
}

/* Lines that a launch made persist in the L2 (a policy of its loads can) would outlive the flush.
 */
static kg_status make_cold(struct cuda *cuda)
{
    if (real.cuCtxResetPersistingL2Cache)
        TRY("flush", real.cuCtxResetPersistingL2Cache());
    TRY("flush",
        real.cuMemsetD8Async(cuda->flush, ++cuda->flush_value, cuda->flush_bytes, cuda->stream));
    return KG_OK;
}

kg_status cuda_sample(struct replay_device *device, enum side side, bool cold, unsigned batch,
                      double *ns)
{
    struct cuda *cuda = (struct cuda *)device;
    float milliseconds = 0;
    kg_status status = cold && cuda->flush ? make_cold(cuda) : KG_OK;
    if (status != KG_OK)
        return status;
    TRY("event", real.cuEventRecord(cuda->start, cuda->stream));
    for (unsigned i = 0; i < batch; i++)
        TRY("launch", cuda_enqueue(cuda, side, cuda->functions[side]));
    TRY("event", real.cuEventRecord(cuda->stop, cuda->stream));
    TRY("launch", real.cuEventSynchronize(cuda->stop));
    TRY("event", real.cuEventElapsedTime(&milliseconds, cuda->start, cuda->stop));
    *ns = (double)milliseconds * 1e6 / batch;
    return KG_OK;
}

kg_status clock_open(struct cuda *cuda)
{
    TRY("stream", real.cuStreamCreate(&cuda->stream, CU_STREAM_NON_BLOCKING));
    TRY("event", real.cuEventCreate(&cuda->start, CU_EVENT_DEFAULT));
    TRY("event", real.cuEventCreate(&cuda->stop, CU_EVENT_DEFAULT));
    if (cuda->device.exact_clock)
        return KG_OK; /* a model without a cache */
    int l2 = cuda_attribute(cuda, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    int khz = cuda_attribute(cuda, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
    int bits = cuda_attribute(cuda, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
    cuda->device.bytes_ns = khz > 0 && bits > 0 ? 2e-6 * khz * bits / 8 : 0;
    cuda->flush_bytes = l2 > 0 ? 2 * (size_t)l2 : 64u << 20;
    TRY("scratch memory", real.cuMemAlloc_v2(&cuda->flush, cuda->flush_bytes));
    return KG_OK;
}

void clock_close(struct cuda *cuda)
{
    for (unsigned i = 0; i < REPLAY_SETS; i++)
        free(cuda->kept_host[i]);
}
