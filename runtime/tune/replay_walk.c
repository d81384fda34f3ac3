/* Images of memory on the GPU: large ones are pinned, so that copies of them are several times as
 * fast and the GPU can walk them where they stand (walk_device.cu), in place of some threads of the
 * host. They remain the host's, as ever: nothing is kept twice, and nothing can be stale. Whatever
 * fails here only costs time. */
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
    TRY("loading walks", real.cuModuleLoadData(&module, walk_ptx));
    TRY("loading walks", real.cuModuleGetFunction(&cuda->walk, module, "kgenrt_walk"));
    TRY("loading walks", real.cuMemAlloc_v2(&cuda->walked, sizeof(struct walked)));
    return KG_OK;
}

kg_status cuda_walk_run(struct cuda *cuda, const struct walk *w, struct walked *seen)
{
    struct walk walk = *w;
    void *params[] = {&walk, &cuda->walked};
    int processors = cuda_attribute(cuda, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    unsigned blocks = BLOCKS_EACH * (processors < 1 ? 1 : (unsigned)processors);
    kg_status status = cuda->walked ? KG_OK : load(cuda);
    if (status != KG_OK)
        return status;
    TRY("walk", real.cuMemsetD8Async(cuda->walked, 0, 8, cuda->stream));
    TRY("walk", real.cuMemsetD8Async(cuda->walked + 8, 0xff, 8, cuda->stream));
    TRY("walk", real.cuLaunchKernel(cuda->walk, blocks, 1, 1, THREADS, 1, 1, 0, cuda->stream,
                                    params, NULL));
    TRY("walk", real.cuMemcpyDtoHAsync_v2(seen, cuda->walked, sizeof *seen, cuda->stream));
    TRY("walk", real.cuStreamSynchronize(cuda->stream));
    return KG_OK;
}

/* NULL: there is nothing to reach. */
static bool within(const struct cuda *cuda, unsigned char *const *images, const unsigned char *at)
{
    bool known = !at;
    for (unsigned i = 0; i < CUDA_IMAGES && !known; i++)
        known = at == images[i];
    return known;
}

kg_status cuda_walk(struct replay_device *device, const struct walk *w, struct walked *seen)
{
    struct cuda *cuda = (struct cuda *)device;
    unsigned char *images[CUDA_IMAGES];
    if (!cuda->walks || w->to > cuda->memory->total || w->to - w->from < WALK_FROM)
        return KG_UNSUPPORTED;
    images_of(cuda->memory, images);
    const unsigned char *all[3 + WALK_MASKS] = {w->x,        w->y,        w->out,
                                                w->masks[0], w->masks[1], w->masks[2]};
    for (unsigned i = 0; i < 3 + WALK_MASKS; i++)
        if (!within(cuda, images, all[i]))
            return KG_UNSUPPORTED;
    kg_status status = cuda_walk_run(cuda, w, seen);
    cuda->walks = status == KG_OK; /* a lost context walks nothing any more */
    return status;
}
