/* Images of memory on the GPU: large ones are pinned, so that copies of them are several times as
 * fast and the GPU can walk them where they stand (walk_device.cu), in place of some threads of the
 * host. They remain the host's, as ever: nothing is kept twice, and nothing can be stale. Whatever
 * fails here only costs time. */
#include "tune/draw_element.h"
#include "tune/replay_cuda.h"

#include "tune/walk_device.inc"

enum {
    PIN_FROM = 4 << 20, /* bytes of an image */
    PIN_MOST = 512 << 20,
    WALK_FROM = 1 << 20,
    THREADS = 256,
    BLOCKS_EACH = 8, /* a multiprocessor */
};

static void images_of(const struct replay_memory *memory, unsigned char *out[static CUDA_IMAGES])
{
    unsigned char *const all[CUDA_IMAGES] = {memory->pristine, memory->result,  memory->work,
                                             memory->other,    memory->first,   memory->slack,
                                             memory->read,     memory->written, memory->poisoned};
    memcpy(out, all, sizeof all);
}

/* A device may know registered memory by another address than the host: then it cannot walk it. */
static bool same_address(unsigned char *image)
{
    CUdeviceptr at = 0;
    return real.cuMemHostGetDevicePointer_v2 &&
           real.cuMemHostGetDevicePointer_v2(&at, image, 0) == CUDA_SUCCESS &&
           at == (uintptr_t)image;
}

void cuda_pin(struct replay_device *device)
{
    struct cuda *cuda = (struct cuda *)device;
    unsigned char *images[CUDA_IMAGES];
    images_of(cuda->memory, images);
    size_t total = cuda->memory->total;
    if (device->exact_clock || total < PIN_FROM || total > PIN_MOST || !real.cuMemHostRegister_v2 ||
        !real.cuMemHostUnregister)
        return;
    cuda->walks = true;
    while (cuda->pinned < CUDA_IMAGES &&
           real.cuMemHostRegister_v2(images[cuda->pinned], total + 8,
                                     CU_MEMHOSTREGISTER_DEVICEMAP) == CUDA_SUCCESS)
        cuda->walks &= same_address(images[cuda->pinned++]);
    cuda->walks &= cuda->pinned == CUDA_IMAGES;
    if (!cuda->walks)
        log_line(KG_DEBUG, "replay: images of memory are walked by the host");
}

void cuda_unpin(struct cuda *cuda)
{
    unsigned char *images[CUDA_IMAGES];
    images_of(cuda->memory, images);
    while (cuda->pinned)
        if (real.cuMemHostUnregister(images[--cuda->pinned]) != CUDA_SUCCESS)
            log_line(KG_DEBUG, "replay: an image of memory stays pinned");
}

/* ---- walks -------------------------------------------------------------------------------------
 */

static kg_status load(struct cuda *cuda)
{
    CUmodule module;
    int processors = cuda_attribute(cuda, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    if (cuda->walked)
        return KG_OK;
    cuda->walk_blocks = BLOCKS_EACH * (processors < 1 ? 1 : (unsigned)processors);
    TRY("loading walks", real.cuModuleLoadData(&module, walk_ptx));
    TRY("loading walks", real.cuModuleGetFunction(&cuda->walk, module, "kgenrt_walk"));
    TRY("loading walks", real.cuModuleGetFunction(&cuda->draw, module, "kgenrt_draw"));
    TRY("loading walks", real.cuMemAlloc_v2(&cuda->walked, sizeof(struct walked)));
    return KG_OK;
}

static kg_status walk(struct cuda *cuda, const struct walk *w, struct walked *seen)
{
    struct walk copy = *w;
    void *params[] = {&copy, &cuda->walked};
    kg_status status = load(cuda);
    if (status != KG_OK)
        return status;
    TRY("walk", real.cuMemsetD8Async(cuda->walked, 0, 8, cuda->stream));
    TRY("walk", real.cuMemsetD8Async(cuda->walked + 8, 0xff, 8, cuda->stream));
    TRY("walk", real.cuLaunchKernel(cuda->walk, cuda->walk_blocks, 1, 1, THREADS, 1, 1, 0,
                                    cuda->stream, params, NULL));
    TRY("walk", real.cuMemcpyDtoHAsync_v2(seen, cuda->walked, sizeof *seen, cuda->stream));
    TRY("walk", real.cuStreamSynchronize(cuda->stream));
    return KG_OK;
}

static kg_status draw(struct cuda *cuda, const struct draw_buffer *buffer)
{
    struct draw_buffer copy = *buffer;
    void *params[] = {&copy};
    kg_status status = load(cuda);
    if (status != KG_OK)
        return status;
    TRY("draw", real.cuLaunchKernel(cuda->draw, cuda->walk_blocks, 1, 1, THREADS, 1, 1, 0,
                                    cuda->stream, params, NULL));
    TRY("draw", real.cuStreamSynchronize(cuda->stream));
    return KG_OK;
}

/* Whether these are images that the GPU knows, where one is named at all, and [from, to) lies in
 * them and is worth it. */
static bool takes(const struct cuda *cuda, const unsigned char *const *named, unsigned count,
                  uint64_t from, uint64_t to)
{
    unsigned char *images[CUDA_IMAGES];
    images_of(cuda->memory, images);
    if (!cuda->walks || to > cuda->memory->total || from > to || to - from < WALK_FROM)
        return false;
    for (unsigned i = 0, k; i < count; i++) {
        for (k = 0; named[i] && k < CUDA_IMAGES && named[i] != images[k]; k++)
            ;
        if (k == CUDA_IMAGES)
            return false;
    }
    return true;
}

/* A lost context walks nothing any more. */
static kg_status done(struct cuda *cuda, kg_status status)
{
    cuda->walks = status == KG_OK;
    return status;
}

kg_status cuda_walk(struct replay_device *device, const struct walk *w, struct walked *seen)
{
    struct cuda *cuda = (struct cuda *)device;
    const unsigned char *named[] = {w->x, w->y, w->out, w->masks[0], w->masks[1], w->masks[2]};
    if (!takes(cuda, named, sizeof named / sizeof *named, w->from, w->to))
        return KG_UNSUPPORTED;
    return done(cuda, walk(cuda, w, seen));
}

kg_status cuda_draw(struct replay_device *device, const struct draw_buffer *buffer)
{
    struct cuda *cuda = (struct cuda *)device;
    const unsigned char *named[] = {buffer->pristine, buffer->slack, buffer->written,
                                    buffer->poisoned, buffer->image};
    uint64_t to = buffer->from + buffer->count * buffer->width;
    bool aligned = buffer->from % buffer->width == 0 && !(buffer->width & (buffer->width - 1)) &&
                   buffer->width <= 8;
    if (!aligned || !takes(cuda, named, sizeof named / sizeof *named, buffer->from, to))
        return KG_UNSUPPORTED;
    return done(cuda, draw(cuda, buffer));
}

/* Memory as it stands is walked at its own addresses: x is where the image would begin. */
kg_status cuda_holds(struct replay_device *device, const unsigned char *image, bool *same)
{
    struct cuda *cuda = (struct cuda *)device;
    const struct replay_memory *memory = cuda->memory;
    kg_status status = KG_OK;
    if (cuda->moved || !takes(cuda, &image, 1, 0, memory->total))
        return KG_UNSUPPORTED;
    for (uint32_t i = 0; i < memory->extent_count; i++)
        if ((memory->extents[i].address | memory->extents[i].size) % 8)
            return KG_UNSUPPORTED; /* a small variable */
    *same = true;
    for (uint32_t i = 0; i < memory->extent_count && *same && status == KG_OK; i++) {
        const struct replay_extent *e = &memory->extents[i];
        const uintptr_t begin = (uintptr_t)(e->address - e->at);
        struct walked seen;
        struct walk w = {.kind = WALK_DIFFER,
                         .x = (const unsigned char *)begin,
                         .y = image,
                         .from = e->at,
                         .to = e->at + e->size};
        status = walk(cuda, &w, &seen);
        *same = status == KG_OK && !seen.count;
    }
    return done(cuda, status);
}
