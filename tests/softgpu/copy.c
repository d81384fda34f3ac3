/* Copies and fills. Each becomes one operation of a stream; the calls that are not named Async wait
 * for it. As on hardware, an asynchronous copy out of pageable host memory has read it before the
 * call returns, and one into pageable memory has written it. Arrays are not there. */
#include "soft.h"

#include <stdlib.h>
#include <string.h>

/* One side of a copy: rows of `width` bytes in slices of rows. */
struct side {
    uint64_t address;
    uint64_t pitch, slice; /* bytes from row to row, from slice to slice */
    bool pageable;         /* host memory the driver knows nothing of */
    bool host;
};

/* What the name of a call says of the sides. */
enum { TO_DEVICE = 1, FROM_DEVICE = 2 };

struct copy {
    struct side to, from;
    uint64_t width, height, depth;
    unsigned promise;
};

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

static CUresult copy_run(struct op *op)
{
    struct copy_op *self = (struct copy_op *)op;
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

static CUresult copy(const struct copy *asked, CUstream handle, bool per_thread, bool wait)
{
    struct context *context;
    struct stream *stream;
    struct copy checked = *asked;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = stream_of(context, handle, per_thread, &stream);
    if (result != CUDA_SUCCESS || !checked.width || !checked.height || !checked.depth)
        return result;
    result = resolve(&checked.to, span(&checked.to, &checked));
    if (result == CUDA_SUCCESS)
        result = resolve(&checked.from, span(&checked.from, &checked));
    if (result != CUDA_SUCCESS || !reachable(&checked) ||
        ((checked.promise & TO_DEVICE) && checked.to.pageable) ||
        ((checked.promise & FROM_DEVICE) && checked.from.pageable))
        return CUDA_ERROR_INVALID_VALUE;
    struct copy_op *op = op_create(sizeof *op);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->copy = checked;
    if (!wait && checked.from.pageable && !stage(op)) {
        op_release(&op->op);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    op->op.run = copy_run;
    op->op.drop = copy_drop;
    op->op.cost = clock_of_bytes(checked.width * checked.height * checked.depth,
                                 checked.to.host || checked.from.host);
    return op_submit(stream, &op->op, wait || checked.to.pageable);
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

static CUresult copy_box(const CUDA_MEMCPY3D *p, CUstream stream, bool per_thread, bool wait)
{
    struct copy made = {0};
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    made.width = p->WidthInBytes;
    made.height = p->Height;
    made.depth = p->Depth;
    CUresult result = side_of(p->dstMemoryType, p->dstDevice, p->dstHost, p->dstXInBytes, p->dstY,
                              p->dstZ, p->dstPitch ? p->dstPitch : made.width,
                              p->dstHeight ? p->dstHeight : made.height, &made.to);
    if (result == CUDA_SUCCESS)
        result = side_of(p->srcMemoryType, p->srcDevice, p->srcHost, p->srcXInBytes, p->srcY,
                         p->srcZ, p->srcPitch ? p->srcPitch : made.width,
                         p->srcHeight ? p->srcHeight : made.height, &made.from);
    return result == CUDA_SUCCESS ? copy(&made, stream, per_thread, wait) : result;
}

/* ---- fills ---- */

struct fill_op {
    struct op op;
    uint64_t address, pitch, width, height; /* width: elements */
    uint32_t value;
    unsigned element; /* bytes */
};

static uint64_t fill_span(const struct fill_op *fill)
{
    return (fill->height - 1) * fill->pitch + fill->width * fill->element;
}

static CUresult fill_run(struct op *op)
{
    struct fill_op *fill = (struct fill_op *)op;
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

static CUresult fill(const struct fill_op *asked, CUstream handle, bool per_thread, bool wait)
{
    struct context *context;
    struct stream *stream;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = stream_of(context, handle, per_thread, &stream);
    if (result != CUDA_SUCCESS || !asked->width || !asked->height)
        return result;
    if (asked->address % asked->element || asked->width > (uint64_t)1 << 42 ||
        !memory_covers(asked->address, fill_span(asked), true))
        return CUDA_ERROR_INVALID_VALUE;
    struct fill_op *op = op_create(sizeof *op);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *op = *asked;
    op->op =
        (struct op){.references = 1,
                    .run = fill_run,
                    .cost = clock_of_bytes(asked->width * asked->height * asked->element, false)};
    return op_submit(stream, &op->op, wait);
}

static CUresult fill_line(uint64_t to, uint32_t value, unsigned element, size_t count,
                          CUstream stream, bool per_thread, bool wait)
{
    return fill(
        &(struct fill_op){
            .address = to, .width = count, .height = 1, .value = value, .element = element},
        stream, per_thread, wait);
}

static CUresult fill_plane(uint64_t to, size_t pitch, uint32_t value, size_t width, size_t height,
                           bool per_thread)
{
    if (height > 1 && pitch < width)
        return CUDA_ERROR_INVALID_VALUE;
    return fill(&(struct fill_op){.address = to,
                                  .pitch = pitch,
                                  .width = width,
                                  .height = height,
                                  .value = value,
                                  .element = 1},
                NULL, per_thread, true);
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
     copy_line(dstDevice, srcDevice, ByteCount, 0, NULL, own, true))
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
CALL(cuMemsetD2D8_v2, _ptds,
     (CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height),
     fill_plane(dstDevice, dstPitch, uc, Width, Height, own))
