/* Copies and fills. Each becomes one operation of a stream; the calls that are not named Async wait
 * for it. As on hardware, an asynchronous copy out of pageable host memory has read it before the
 * call returns, and one into pageable memory has written it. Arrays are not there. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What the name of a call says of the sides. */
enum { TO_DEVICE = 1, FROM_DEVICE = 2 };

struct copy_op {
    struct op op;
    struct copy copy;
    void *staged; /* what pageable memory held when the copy was asked for */
};

static uint64_t span(const struct side *side, const struct copy *copy)
{
    return (copy->depth - 1) * side->slice + (copy->height - 1) * side->pitch + copy->width;
}

static uint64_t row_of(const struct side *side, uint64_t y, uint64_t z)
{
    return side->address + z * side->slice + y * side->pitch;
}

static void copy_rows(const struct copy *copy)
{
    for (uint64_t z = 0; z < copy->depth; z++)
        for (uint64_t y = 0; y < copy->height; y++)
            memmove((void *)(uintptr_t)row_of(&copy->to, y, z),
                    (const void *)(uintptr_t)row_of(&copy->from, y, z), copy->width);
}

static bool reachable(const struct copy *copy)
{
    return (copy->to.pageable || memory_covers(copy->to.address, span(&copy->to, copy), true)) &&
           (copy->from.pageable ||
            memory_covers(copy->from.address, span(&copy->from, copy), false));
}

/* The time that SOFTGPU_FAULT=slow asks for, on the model's clock and on the wall's. */
static void dawdle(struct op *op)
{
    uint64_t left = soft_slowness();
    op->cost += left * 1000000000;
    for (; left && !__atomic_load_n(&soft_cancel, __ATOMIC_RELAXED); left--)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static CUresult copy_run(struct op *op)
{
    struct copy_op *self = (struct copy_op *)op;
    dawdle(op);
    if (!reachable(&self->copy))
        return CUDA_ERROR_ILLEGAL_ADDRESS; /* freed since it was asked for */
    copy_rows(&self->copy);
    return CUDA_SUCCESS;
}

static void copy_drop(struct op *op)
{
    free(((struct copy_op *)op)->staged);
}

/* What kind of memory a side is. A device address that is not live is a mistake of the caller. */
static CUresult resolve(struct side *side, uint64_t size)
{
    struct memory_block block;
    if (!memory_find(side->address, &block)) {
        side->pageable = side->host = true;
        return side->address && !memory_is_device_address(side->address) ? CUDA_SUCCESS
                                                                         : CUDA_ERROR_INVALID_VALUE;
    }
    side->host = block.kind == MEMORY_HOST || block.kind == MEMORY_REGISTERED;
    side->pageable =
        side->host && !memory_covers(side->address, size, false); /* only partly ours */
    return CUDA_SUCCESS;
}

/* Reads pageable memory now; the copy then comes from the staged bytes. */
static bool stage(struct copy_op *op)
{
    struct copy first = op->copy;
    op->staged = malloc(first.width * first.height * first.depth);
    if (!op->staged)
        return false;
    first.to = (struct side){.address = (uintptr_t)op->staged,
                             .pitch = first.width,
                             .slice = first.width * first.height,
                             .pageable = true,
                             .host = true};
    copy_rows(&first);
    op->copy.from = first.to;
    return true;
}

CUresult copy_check(struct copy *copy)
{
    CUresult result = resolve(&copy->to, span(&copy->to, copy));
    if (result == CUDA_SUCCESS)
        result = resolve(&copy->from, span(&copy->from, copy));
    if (result != CUDA_SUCCESS || !reachable(copy) ||
        ((copy->promise & TO_DEVICE) && copy->to.pageable) ||
        ((copy->promise & FROM_DEVICE) && copy->from.pageable))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult copy_make(const struct copy *checked, struct op **out)
{
    struct copy_op *op = op_create(sizeof *op);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->copy = *checked;
    op->op.run = copy_run;
    op->op.drop = copy_drop;
    op->op.cost = clock_of_bytes(checked->width * checked->height * checked->depth,
                                 checked->to.host || checked->from.host);
    *out = &op->op;
    return CUDA_SUCCESS;
}

/* A synchronous call is refused where its stream is captured, or would wait for one that is. */
static CUresult copy(const struct copy *asked, CUstream handle, bool per_thread, bool wait)
{
    struct context *context;
    struct stream *stream;
    struct capture *capture;
    struct copy checked = *asked;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = stream_of(context, handle, per_thread, &stream);
    if (result == CUDA_SUCCESS)
        result = wait ? capture_blocks(stream) : capture_of(stream, &capture);
    if (result != CUDA_SUCCESS || !checked.width || !checked.height || !checked.depth)
        return result;
    result = copy_check(&checked);
    if (result != CUDA_SUCCESS)
        return result;
    if (!wait && capture)
        return capture_copy(stream, &checked);
    struct op *op;
    result = copy_make(&checked, &op);
    if (result != CUDA_SUCCESS)
        return result;
    if (!wait && checked.from.pageable && !stage((struct copy_op *)op)) {
        op_discard(op);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return op_submit(stream, op, wait || checked.to.pageable);
}

static CUresult copy_line(uint64_t to, uint64_t from, size_t size, unsigned promise,
                          CUstream stream, bool per_thread, bool wait)
{
    struct copy made = {{.address = to}, {.address = from}, size, 1, 1, promise};
    return copy(&made, stream, per_thread, wait);
}

/* ---- 2D and 3D ---- */

static CUresult side_of(CUmemorytype type, CUdeviceptr device, const void *host, uint64_t x,
                        uint64_t y, uint64_t z, uint64_t pitch, uint64_t height, struct side *out)
{
    if (type == CU_MEMORYTYPE_ARRAY)
        return CUDA_ERROR_NOT_SUPPORTED;
    uint64_t base = type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : device;
    *out = (struct side){.pitch = pitch, .slice = pitch * height};
    out->address = base + z * out->slice + y * pitch + x;
    return base ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult copy_plane(const CUDA_MEMCPY2D *p, CUstream stream, bool per_thread, bool wait)
{
    struct copy made = {0};
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    made.width = p->WidthInBytes;
    made.height = p->Height;
    made.depth = 1;
    if (!made.width || !made.height)
        return CUDA_SUCCESS;
    if (made.height > 1 &&
        ((p->srcPitch && p->srcPitch < made.width) || (p->dstPitch && p->dstPitch < made.width)))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = side_of(p->dstMemoryType, p->dstDevice, p->dstHost, p->dstXInBytes, p->dstY,
                              0, p->dstPitch ? p->dstPitch : made.width, 0, &made.to);
    if (result == CUDA_SUCCESS)
        result = side_of(p->srcMemoryType, p->srcDevice, p->srcHost, p->srcXInBytes, p->srcY, 0,
                         p->srcPitch ? p->srcPitch : made.width, 0, &made.from);
    return result == CUDA_SUCCESS ? copy(&made, stream, per_thread, wait) : result;
}

CUresult copy_of(const CUDA_MEMCPY3D *p, struct copy *out)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (struct copy){.width = p->WidthInBytes, .height = p->Height, .depth = p->Depth};
    if (p->srcLOD || p->dstLOD)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = side_of(p->dstMemoryType, p->dstDevice, p->dstHost, p->dstXInBytes, p->dstY,
                              p->dstZ, p->dstPitch ? p->dstPitch : out->width,
                              p->dstHeight ? p->dstHeight : out->height, &out->to);
    if (result != CUDA_SUCCESS)
        return result;
    return side_of(p->srcMemoryType, p->srcDevice, p->srcHost, p->srcXInBytes, p->srcY, p->srcZ,
                   p->srcPitch ? p->srcPitch : out->width,
                   p->srcHeight ? p->srcHeight : out->height, &out->from);
}

static CUresult copy_box(const CUDA_MEMCPY3D *p, CUstream stream, bool per_thread, bool wait)
{
    struct copy made;
    CUresult result = copy_of(p, &made);
    return result == CUDA_SUCCESS ? copy(&made, stream, per_thread, wait) : result;
}

/* Contexts need no naming: one address space holds all devices. */
static CUresult copy_peer(const CUDA_MEMCPY3D_PEER *p, CUstream stream, bool per_thread, bool wait)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D same = {.srcXInBytes = p->srcXInBytes,
                          .srcY = p->srcY,
                          .srcZ = p->srcZ,
                          .srcLOD = p->srcLOD,
                          .srcMemoryType = p->srcMemoryType,
                          .srcHost = p->srcHost,
                          .srcDevice = p->srcDevice,
                          .srcPitch = p->srcPitch,
                          .srcHeight = p->srcHeight,
                          .dstXInBytes = p->dstXInBytes,
                          .dstY = p->dstY,
                          .dstZ = p->dstZ,
                          .dstLOD = p->dstLOD,
                          .dstMemoryType = p->dstMemoryType,
                          .dstHost = p->dstHost,
                          .dstDevice = p->dstDevice,
                          .dstPitch = p->dstPitch,
                          .dstHeight = p->dstHeight,
                          .WidthInBytes = p->WidthInBytes,
                          .Height = p->Height,
                          .Depth = p->Depth};
    return copy_box(&same, stream, per_thread, wait);
}

static CUresult copy_between(uint64_t to, CUcontext to_context, uint64_t from,
                             CUcontext from_context, size_t size, CUstream stream, bool per_thread,
                             bool wait)
{
    if (handle_kind_of(to_context) != HANDLE_CONTEXT ||
        handle_kind_of(from_context) != HANDLE_CONTEXT)
        return CUDA_ERROR_INVALID_CONTEXT;
    return copy_line(to, from, size, 0, stream, per_thread, wait);
}

/* ---- fills ---- */

struct fill_op {
    struct op op;
    struct fill fill;
};

static uint64_t fill_span(const struct fill *fill)
{
    return (fill->height - 1) * fill->pitch + fill->width * fill->element;
}

static CUresult fill_run(struct op *op)
{
    const struct fill *fill = &((struct fill_op *)op)->fill;
    if (!memory_covers(fill->address, fill_span(fill), true))
        return CUDA_ERROR_ILLEGAL_ADDRESS; /* freed since it was asked for */
    for (uint64_t y = 0; y < fill->height; y++) {
        unsigned char *row = (unsigned char *)(uintptr_t)(fill->address + y * fill->pitch);
        if (fill->element == 1)
            memset(row, (int)fill->value, fill->width);
        else
            for (uint64_t x = 0; x < fill->width; x++)
                memcpy(row + x * fill->element, &fill->value, fill->element);
    }
    return CUDA_SUCCESS;
}

CUresult fill_check(const struct fill *fill)
{
    const uint64_t most = (uint64_t)1 << 42;
    if (fill->address % fill->element || fill->width > most || fill->height > most ||
        (fill->height > 1 && (fill->pitch < fill->width * fill->element || fill->pitch > most ||
                              fill->pitch % fill->element)) ||
        !memory_covers(fill->address, fill_span(fill), true))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult fill_make(const struct fill *checked, struct op **out)
{
    struct fill_op *op = op_create(sizeof *op);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->fill = *checked;
    op->op.run = fill_run;
    op->op.cost = clock_of_bytes(checked->width * checked->height * checked->element, false);
    *out = &op->op;
    return CUDA_SUCCESS;
}

static CUresult fill(const struct fill *asked, CUstream handle, bool per_thread, bool wait)
{
    struct context *context;
    struct stream *stream;
    struct capture *capture;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = stream_of(context, handle, per_thread, &stream);
    if (result == CUDA_SUCCESS)
        result = wait ? capture_blocks(stream) : capture_of(stream, &capture);
    if (result != CUDA_SUCCESS || !asked->width || !asked->height)
        return result;
    result = fill_check(asked);
    if (result != CUDA_SUCCESS)
        return result;
    if (!wait && capture)
        return capture_fill(stream, asked);
    struct op *op;
    result = fill_make(asked, &op);
    return result == CUDA_SUCCESS ? op_submit(stream, op, wait) : result;
}

static CUresult fill_line(uint64_t to, uint32_t value, unsigned element, size_t count,
                          CUstream stream, bool per_thread, bool wait)
{
    return fill(&(struct fill){to, 0, count, 1, value, element}, stream, per_thread, wait);
}

static CUresult fill_plane(uint64_t to, size_t pitch, uint32_t value, unsigned element,
                           size_t width, size_t height, CUstream stream, bool per_thread, bool wait)
{
    return fill(&(struct fill){to, pitch, width, height, value, element}, stream, per_thread, wait);
}

/* ---- the calls --------------------------------------------------------------------------------
 */

CALL(cuMemcpy, _ptds, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount),
     copy_line(dst, src, ByteCount, 0, NULL, own, true))
CALL(cuMemcpyAsync, _ptsz, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream),
     copy_line(dst, src, ByteCount, 0, hStream, own, false))
CALL(cuMemcpyPeer, _ptds,
     (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
      size_t ByteCount),
     copy_between(dstDevice, dstContext, srcDevice, srcContext, ByteCount, NULL, own, true))
CALL(cuMemcpyPeerAsync, _ptsz,
     (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
      size_t ByteCount, CUstream hStream),
     copy_between(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream, own, false))
CALL(cuMemcpy3DPeer, _ptds, (const CUDA_MEMCPY3D_PEER *pCopy), copy_peer(pCopy, NULL, own, true))
CALL(cuMemcpy3DPeerAsync, _ptsz, (const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream),
     copy_peer(pCopy, hStream, own, false))
CALL(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount),
     copy_line(dstDevice, (uintptr_t)srcHost, ByteCount, TO_DEVICE, NULL, own, true))
CALL(cuMemcpyDtoH_v2, _ptds, (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount),
     copy_line((uintptr_t)dstHost, srcDevice, ByteCount, FROM_DEVICE, NULL, own, true))
CALL(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount),
     copy_line(dstDevice, srcDevice, ByteCount, TO_DEVICE | FROM_DEVICE, NULL, own, true))
CALL(cuMemcpyHtoDAsync_v2, _ptsz,
     (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream),
     copy_line(dstDevice, (uintptr_t)srcHost, ByteCount, TO_DEVICE, hStream, own, false))
CALL(cuMemcpyDtoHAsync_v2, _ptsz,
     (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
     copy_line((uintptr_t)dstHost, srcDevice, ByteCount, FROM_DEVICE, hStream, own, false))
CALL(cuMemcpyDtoDAsync_v2, _ptsz,
     (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
     copy_line(dstDevice, srcDevice, ByteCount, TO_DEVICE | FROM_DEVICE, hStream, own, false))
CALL(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D *pCopy), copy_plane(pCopy, NULL, own, true))
CALL(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D *pCopy),
     copy_plane(pCopy, NULL, own, true))
CALL(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D *pCopy, CUstream hStream),
     copy_plane(pCopy, hStream, own, false))
CALL(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D *pCopy), copy_box(pCopy, NULL, own, true))
CALL(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D *pCopy, CUstream hStream),
     copy_box(pCopy, hStream, own, false))
CALL(cuMemsetD8_v2, _ptds, (CUdeviceptr dstDevice, unsigned char uc, size_t N),
     fill_line(dstDevice, uc, 1, N, NULL, own, true))
CALL(cuMemsetD16_v2, _ptds, (CUdeviceptr dstDevice, unsigned short us, size_t N),
     fill_line(dstDevice, us, 2, N, NULL, own, true))
CALL(cuMemsetD32_v2, _ptds, (CUdeviceptr dstDevice, unsigned int ui, size_t N),
     fill_line(dstDevice, ui, 4, N, NULL, own, true))
CALL(cuMemsetD8Async, _ptsz, (CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream),
     fill_line(dstDevice, uc, 1, N, hStream, own, false))
CALL(cuMemsetD16Async, _ptsz,
     (CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream),
     fill_line(dstDevice, us, 2, N, hStream, own, false))
CALL(cuMemsetD32Async, _ptsz, (CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream),
     fill_line(dstDevice, ui, 4, N, hStream, own, false))

#define FILL_PLANES(bits, type, element)                                                           \
    CALL(cuMemsetD2D##bits##_v2, _ptds,                                                            \
         (CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width, size_t Height),        \
         fill_plane(dstDevice, dstPitch, value, element, Width, Height, NULL, own, true))          \
    CALL(cuMemsetD2D##bits##Async, _ptsz,                                                          \
         (CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width, size_t Height,         \
          CUstream hStream),                                                                       \
         fill_plane(dstDevice, dstPitch, value, element, Width, Height, hStream, own, false))
FILL_PLANES(8, unsigned char, 1)
FILL_PLANES(16, unsigned short, 2)
FILL_PLANES(32, unsigned int, 4)
