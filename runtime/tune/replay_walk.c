/* Images of memory on the GPU: large ones are pinned, so that copies of them are several times as
 * fast and the GPU can walk them where they stand (walk_device.cu), in place of some threads of the
 * host. They remain the host's, as ever; those that do not change any more have a copy on the
 * device, which is compared with them at the end. Whatever fails here only costs time. */
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

/* The first CUDA_SETTLED do not change any more once the original is known. */
static void images_of(const struct replay_memory *memory, unsigned char *out[static CUDA_IMAGES])
{
    unsigned char *const all[CUDA_IMAGES] = {memory->pristine, memory->slack,    memory->read,
                                             memory->written,  memory->poisoned, memory->result,
                                             memory->work,     memory->other,    memory->first};
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

/* Whether [from, to) lies in images and is worth it. */
static bool worth(const struct cuda *cuda, uint64_t from, uint64_t to)
{
    return cuda->walks && from <= to && to <= cuda->memory->total && to - from >= WALK_FROM;
}

/* Where the GPU reads an image: its copy, if it has one. False: it does not know it. */
static bool find(const struct cuda *cuda, const unsigned char **image)
{
    unsigned char *images[CUDA_IMAGES];
    unsigned k = 0;
    if (!*image)
        return true;
    images_of(cuda->memory, images);
    while (k < CUDA_IMAGES && *image != images[k])
        k++;
    if (k < CUDA_SETTLED && cuda->settled[k])
        *image = (const unsigned char *)(uintptr_t)cuda->settled[k];
    return k < CUDA_IMAGES;
}

/* … and where it writes one: only to those of which there are no copies. */
static bool find_out(const struct cuda *cuda, unsigned char *image)
{
    const unsigned char *at = image;
    return find(cuda, &at) && at == image;
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
    struct walk there = *w;
    bool known = worth(cuda, w->from, w->to) && find_out(cuda, w->out);
    if (w->x != w->out) /* where both are one, x is told by that */
        known &= find(cuda, &there.x);
    known &= find(cuda, &there.y);
    for (unsigned i = 0; i < WALK_MASKS; i++)
        known &= find(cuda, &there.masks[i]);
    return known ? done(cuda, walk(cuda, &there, seen)) : KG_UNSUPPORTED;
}

kg_status cuda_draw(struct replay_device *device, const struct draw_buffer *buffer)
{
    struct cuda *cuda = (struct cuda *)device;
    struct draw_buffer there = *buffer;
    uint32_t width = buffer->width;
    bool aligned = width <= 8 && !(width & (width - 1)) && buffer->from % width == 0;
    if (!aligned || !worth(cuda, buffer->from, buffer->from + buffer->count * width) ||
        !find_out(cuda, there.image) || !find(cuda, &there.pristine) || !find(cuda, &there.slack) ||
        !find(cuda, &there.written) || !find(cuda, &there.poisoned))
        return KG_UNSUPPORTED;
    return done(cuda, draw(cuda, &there));
}

kg_status cuda_settle(struct replay_device *device)
{
    struct cuda *cuda = (struct cuda *)device;
    unsigned char *images[CUDA_IMAGES];
    size_t total = cuda->memory->total, left = 0, all = 0;
    images_of(cuda->memory, images);
    if (!cuda->walks || cuda->settled[0])
        return KG_UNSUPPORTED;
    TRY("free memory", real.cuMemGetInfo_v2(&left, &all));
    if (left / 2 < CUDA_SETTLED * total) /* others may need it */
        return KG_NO_MEMORY;
    for (unsigned k = 0; k < CUDA_SETTLED; k++) {
        CUdeviceptr copy;
        TRY("copies of images", real.cuMemAlloc_v2(&copy, total + 8));
        TRY("copies of images", real.cuMemcpyHtoD_v2(copy, images[k], total));
        TRY("copies of images", real.cuCtxSynchronize());
        cuda->settled[k] = copy;
    }
    return KG_OK;
}

kg_status cuda_settled(struct replay_device *device, bool *same)
{
    struct cuda *cuda = (struct cuda *)device;
    unsigned char *images[CUDA_IMAGES];
    kg_status status = KG_OK;
    images_of(cuda->memory, images);
    *same = true;
    if (!cuda->walks) /* what walks have read from copies cannot be told any more */
        return cuda->settled[0] ? KG_DRIVER : KG_OK;
    for (unsigned k = 0; k < CUDA_SETTLED && cuda->settled[k] && *same && status == KG_OK; k++) {
        struct walked seen;
        struct walk w = {.kind = WALK_DIFFER,
                         .x = (const unsigned char *)(uintptr_t)cuda->settled[k],
                         .y = images[k],
                         .to = cuda->memory->total};
        status = done(cuda, walk(cuda, &w, &seen));
        *same = status != KG_OK || !seen.count;
    }
    return status;
}

/* Memory as it stands is walked at its own addresses: x is where the image would begin. */
kg_status cuda_holds(struct replay_device *device, const unsigned char *image, bool *same)
{
    struct cuda *cuda = (struct cuda *)device;
    const struct replay_memory *memory = cuda->memory;
    kg_status status = KG_OK;
    if (cuda->moved || !worth(cuda, 0, memory->total) || !find(cuda, &image))
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
