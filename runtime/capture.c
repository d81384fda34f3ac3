/* The file form of a capture: see capture.h. Written by the app's watcher, read by the worker and
 * the command line; nothing here touches a GPU, and nothing in a file is believed.
 *
 * Layout: magic, version, the fixed fields, params, argument bytes, the regions' records, pointers,
 * places, size of the image; then, each at a multiple of 16, the image and, for every region in
 * order, its data and, where it is kept, what stood there afterwards; then the digest. Offsets of
 * data follow from the sizes, so there is none to be wrong. */
#include "capture.h"

#include "pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    VERSION = 3,
    ALIGN = 16,        /* of image and data in the file */
    MOST_ARGS = 65536, /* bytes of parameters: drivers take 4 KiB, newer ones 32 KiB */
    MOST_PARAMS = 4096,
    MOST_POINTERS = 1024,
    MOST_REGIONS = 4096,
    MOST_PLACES = 1 << 20,
    CHUNK = 1 << 20,
};
static const size_t most_file = (size_t)8 << 30;
static const char magic[PACK_MAGIC] = "KGCAP1\0";

/* ---- writing --------------------------------------------------------------------------------- */

/* The file being written; failed after the first write that does not succeed. */
struct sink {
    int fd;
    uint64_t size;
    struct kg_hash hash;
    bool failed;
};

static void sink_write(struct sink *sink, const void *data, size_t size)
{
    if (!sink->failed && !write_all(sink->fd, data, size))
        sink->failed = true;
}

/* In pieces, so that a piece is still in the processor's cache when it is hashed. */
static void sink_put(struct sink *sink, const void *data, size_t size)
{
    const unsigned char *at = data;
    sink->size += size;
    while (size && !sink->failed) {
        size_t piece = size < CHUNK ? size : CHUNK;
        hash_bytes(&sink->hash, at, piece);
        sink_write(sink, at, piece);
        at += piece;
        size -= piece;
    }
}

static void sink_put_aligned(struct sink *sink, const void *data, size_t size)
{
    static const unsigned char zeros[ALIGN];
    sink_put(sink, zeros, (size_t)(-sink->size % ALIGN));
    sink_put(sink, data, size);
}

static void pack_facts(struct pack *out, const struct kg_capture *capture)
{
    pack_hardware(out, &capture->hardware);
    pack_text(out, capture->program);
    pack_u32(out, (uint32_t)capture->pid);
    pack_u64(out, capture->time);
    pack_id(out, &capture->kernel);
    pack_text(out, capture->entry);
    pack_launch(out, &capture->launch);
    pack_u32(out, capture->max_dynamic_shared);
    pack_u32(out, (uint32_t)capture->carveout);
    pack_u64(out, capture->stack_limit);
    pack_u64(out, capture->printf_limit);
    pack_u64(out, capture->heap_limit);
    pack_f64(out, capture->app_ns);
    pack_f64(out, capture->app_share);
    pack_text(out, capture->jit_options);
}

static void pack_tables(struct pack *out, const struct kg_capture *capture)
{
    pack_u32(out, capture->param_count);
    for (uint32_t i = 0; i < capture->param_count; i++) {
        pack_u32(out, capture->params[i].offset);
        pack_u32(out, capture->params[i].size);
    }
    pack_u32(out, (uint32_t)capture->args.size);
    pack_bytes(out, capture->args.data, capture->args.size);
    pack_u32(out, capture->region_count);
    for (uint32_t i = 0; i < capture->region_count; i++) {
        const struct capture_region *region = &capture->regions[i];
        pack_u8(out, (uint8_t)region->kind);
        pack_u8(out, region->after != NULL);
        pack_u64(out, region->address);
        pack_u64(out, region->size);
        pack_u64(out, region->allocation);
        pack_u64(out, region->allocation_size);
        pack_text(out, region->name);
    }
    pack_u32(out, capture->pointer_count);
    for (uint32_t i = 0; i < capture->pointer_count; i++) {
        pack_u16(out, capture->pointers[i].param);
        pack_u16(out, capture->pointers[i].offset);
        pack_u32(out, capture->pointers[i].region);
    }
    pack_u32(out, capture->place_count);
    for (uint32_t i = 0; i < capture->place_count; i++) {
        pack_u32(out, capture->places[i].region);
        pack_u32(out, capture->places[i].target);
        pack_u64(out, capture->places[i].offset);
    }
    pack_u64(out, capture->image_size);
}

static void stream(struct sink *sink, const struct pack *head, const struct kg_capture *capture)
{
    struct kg_id digest;
    hash_begin(&sink->hash);
    sink_put(sink, head->data, head->size);
    sink_put_aligned(sink, capture->image, capture->image_size);
    for (uint32_t i = 0; i < capture->region_count; i++) {
        const struct capture_region *region = &capture->regions[i];
        sink_put_aligned(sink, region->data, (size_t)region->size);
        if (region->after)
            sink_put_aligned(sink, region->after, (size_t)region->size);
    }
    hash_end(&sink->hash, &digest);
    sink_write(sink, digest.bytes, sizeof digest.bytes);
}

/* Not synced: a spool file that a power cut tears is refused by its digest, and made again. */
static kg_status write_file(const struct pack *head, const struct kg_capture *capture,
                            const char *path)
{
    static atomic_uint number;
    char temporary[KG_PATH];
    kg_status status = path_make(temporary, "%s.%d.%u.tmp", path, (int)getpid(),
                                 atomic_fetch_add_explicit(&number, 1, memory_order_relaxed));
    if (status != KG_OK)
        return status;
    struct sink sink = {.fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
    sink.failed = sink.fd < 0;
    if (!sink.failed)
        stream(&sink, head, capture);
    int error = errno;
    if (sink.fd >= 0 && close(sink.fd) && !sink.failed) {
        sink.failed = true;
        error = errno;
    }
    if (!sink.failed && !rename(temporary, path))
        return KG_OK;
    if (!sink.failed)
        error = errno;
    if (sink.fd >= 0)
        unlink(temporary);
    log_line(KG_WARN, "%s: capture cannot be written: %s", path, strerror(error));
    return KG_IO;
}

kg_status capture_write(const struct kg_capture *capture, const char *path)
{
    struct pack head = {0};
    pack_begin(&head, magic, VERSION);
    pack_facts(&head, capture);
    pack_tables(&head, capture);
    kg_status status = head.failed ? KG_NO_MEMORY : write_file(&head, capture, path);
    pack_free(&head);
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void unpack_facts(struct unpack *in, struct kg_capture *out)
{
    unpack_hardware(in, &out->hardware);
    unpack_text(in, out->program, sizeof out->program);
    out->pid = (int)unpack_u32(in);
    out->time = unpack_u64(in);
    unpack_id(in, &out->kernel);
    unpack_text(in, out->entry, sizeof out->entry);
    unpack_launch(in, &out->launch);
    out->max_dynamic_shared = unpack_u32(in);
    out->carveout = (int32_t)unpack_u32(in);
    out->stack_limit = unpack_u64(in);
    out->printf_limit = unpack_u64(in);
    out->heap_limit = unpack_u64(in);
    out->app_ns = unpack_f64(in);
    out->app_share = unpack_f64(in);
    unpack_text(in, out->jit_options, sizeof out->jit_options);
    if (!*out->entry || out->app_ns < 0 || out->app_share < 0)
        in->failed = true;
}

/* Memory for `count` items; a failing allocation fails the reader. */
static void *items(struct unpack *in, uint32_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        in->failed = true;
    return memory;
}

static void unpack_params(struct unpack *in, struct kg_capture *out)
{
    uint64_t end = 0;
    uint32_t count = unpack_count(in, 8);
    if (count > MOST_PARAMS)
        in->failed = true;
    out->params = items(in, in->failed ? 0 : count, sizeof *out->params);
    for (uint32_t i = 0; i < count && !in->failed; i++) {
        struct kg_param *param = &out->params[i];
        param->offset = unpack_u32(in);
        param->size = unpack_u32(in);
        if (param->offset < end || !param->size || param->size > MOST_ARGS)
            in->failed = true;
        end = (uint64_t)param->offset + param->size;
    }
    out->param_count = count;
    uint32_t size = unpack_u32(in);
    const unsigned char *bytes = size <= MOST_ARGS ? unpack_bytes(in, size) : NULL;
    out->args.data = bytes && size >= end ? malloc((size_t)size + 1) : NULL;
    if (!out->args.data) {
        in->failed = true;
        return;
    }
    memcpy(out->args.data, bytes, size);
    out->args.data[size] = 0;
    out->args.size = size;
}

/* Little-endian value of up to 8 bytes. */
static uint64_t word(const unsigned char *bytes, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

static uint64_t pointer_value(const struct kg_capture *capture, uint16_t param, uint16_t offset)
{
    return word(capture->args.data + capture->params[param].offset + offset, 8);
}

/* Reach of a pointer of this value into the region, as in kg_pointer. */
static int64_t reach_low(const struct capture_region *region, uint64_t value)
{
    return (int64_t)(region->address - value);
}

static int64_t reach_high(const struct capture_region *region, uint64_t value)
{
    return (int64_t)(region->address + region->size - value);
}

static bool region_sound(const struct capture_region *region)
{
    uint64_t end;
    if (!region->size || __builtin_add_overflow(region->address, region->size, &end))
        return false;
    if (region->kind == CAPTURE_GLOBAL)
        return *region->name != 0;
    uint64_t limit;
    return (region->kind == CAPTURE_POINTER || region->kind == CAPTURE_NESTED) && !*region->name &&
           !__builtin_add_overflow(region->allocation, region->allocation_size, &limit) &&
           region->address >= region->allocation && end <= limit;
}

static void unpack_regions(struct unpack *in, struct kg_capture *out)
{
    uint32_t count = unpack_count(in, 2 + 4 * 8 + 4);
    if (count > MOST_REGIONS)
        in->failed = true;
    out->regions = items(in, in->failed ? 0 : count, sizeof *out->regions);
    for (uint32_t i = 0; i < count && !in->failed; i++) {
        struct capture_region *region = &out->regions[i];
        static const unsigned char kept[1]; /* until its place is known */
        region->kind = (enum capture_region_kind)unpack_u8(in);
        region->after = unpack_u8(in) ? kept : NULL;
        region->address = unpack_u64(in);
        region->size = unpack_u64(in);
        region->allocation = unpack_u64(in);
        region->allocation_size = unpack_u64(in);
        unpack_text(in, region->name, sizeof region->name);
        if (!region_sound(region))
            in->failed = true;
    }
    out->region_count = count;
}

static bool pointer_sound(const struct kg_capture *capture, const struct capture_pointer *pointer)
{
    if (pointer->param >= capture->param_count ||
        pointer->offset + 8u > capture->params[pointer->param].size)
        return false;
    if (pointer->region == CAPTURE_NO_REGION)
        return true;
    if (pointer->region >= capture->region_count)
        return false;
    const struct capture_region *region = &capture->regions[pointer->region];
    uint64_t value = pointer_value(capture, pointer->param, pointer->offset);
    return region->kind == CAPTURE_POINTER &&
           reach_low(region, value) < reach_high(region, value); /* no wrap around the middle */
}

static void unpack_pointers(struct unpack *in, struct kg_capture *out)
{
    uint32_t count = unpack_count(in, 8);
    if (count > MOST_POINTERS)
        in->failed = true;
    out->pointers = items(in, in->failed ? 0 : count, sizeof *out->pointers);
    for (uint32_t i = 0; i < count && !in->failed; i++) {
        struct capture_pointer *pointer = &out->pointers[i];
        pointer->param = unpack_u16(in);
        pointer->offset = unpack_u16(in);
        pointer->region = unpack_u32(in);
        if (!in->failed && !pointer_sound(out, pointer))
            in->failed = true;
    }
    out->pointer_count = in->failed ? 0 : count;
}

static void unpack_places(struct unpack *in, struct kg_capture *out)
{
    uint32_t count = unpack_count(in, 16);
    if (count > MOST_PLACES)
        in->failed = true;
    out->places = items(in, in->failed ? 0 : count, sizeof *out->places);
    for (uint32_t i = 0; i < count && !in->failed; i++) {
        struct capture_place *place = &out->places[i];
        place->region = unpack_u32(in);
        place->target = unpack_u32(in);
        place->offset = unpack_u64(in);
    }
    out->place_count = in->failed ? 0 : count;
}

static bool place_sound(const struct kg_capture *capture, const struct capture_place *place)
{
    if (place->region >= capture->region_count || place->target >= capture->region_count)
        return false;
    const struct capture_region *from = &capture->regions[place->region],
                                *to = &capture->regions[place->target];
    if (to->kind == CAPTURE_GLOBAL || place->offset > from->size || from->size - place->offset < 8)
        return false;
    uint64_t value = word(from->data + place->offset, 8);
    return value >= to->address && value - to->address <= to->size;
}

static void unpack_data(struct unpack *in, struct kg_capture *out)
{
    out->image_size = (size_t)unpack_u64(in);
    if (!out->image_size)
        in->failed = true;
    unpack_align(in, ALIGN);
    out->image = unpack_bytes(in, out->image_size);
    for (uint32_t i = 0; i < out->region_count && !in->failed; i++) {
        unpack_align(in, ALIGN);
        struct capture_region *region = &out->regions[i];
        region->data = unpack_bytes(in, (size_t)region->size);
        if (!region->after)
            continue;
        unpack_align(in, ALIGN);
        region->after = unpack_bytes(in, (size_t)region->size);
    }
    for (uint32_t i = 0; i < out->place_count && !in->failed; i++)
        in->failed = !place_sound(out, &out->places[i]);
}

kg_status capture_parse(struct kg_bytes file_take, struct kg_capture *out)
{
    struct unpack in;
    *out = (struct kg_capture){.file = file_take};
    kg_status status = unpack_begin(&in, file_take.data, file_take.size, magic, VERSION);
    if (status == KG_OK) {
        unpack_facts(&in, out);
        unpack_params(&in, out);
        unpack_regions(&in, out);
        unpack_pointers(&in, out);
        unpack_places(&in, out);
        unpack_data(&in, out);
        if (unpack_done(&in))
            return KG_OK;
        status = KG_CORRUPT;
    }
    capture_free(out);
    return status;
}

kg_status capture_read(const char *path, struct kg_capture *out)
{
    struct kg_bytes file;
    *out = (struct kg_capture){0};
    kg_status status = file_read(path, most_file, &file);
    if (status != KG_OK) {
        log_line(KG_WARN, "%s: capture cannot be read: %s", path, status_text(status));
        return status;
    }
    status = capture_parse(file, out);
    if (status == KG_BAD_INPUT)
        log_line(KG_WARN, "%s: is no capture of kgenrt", path);
    else if (status == KG_UNSUPPORTED)
        log_line(KG_WARN, "%s: is a capture of another version of kgenrt: capture anew", path);
    else if (status != KG_OK)
        log_line(KG_WARN, "%s: the capture is damaged or cut short", path);
    return status;
}

void capture_free(struct kg_capture *capture)
{
    free(capture->params);
    free(capture->pointers);
    free(capture->regions);
    free(capture->places);
    bytes_free(&capture->args);
    bytes_free(&capture->file);
    *capture = (struct kg_capture){0};
}

/* ---- signature ------------------------------------------------------------------------------- */

static uint32_t alignment(uint64_t value)
{
    uint64_t lowest = value & -value;
    return lowest && lowest < 256 ? (uint32_t)lowest : 256;
}

static int by_place(const void *a, const void *b)
{
    const struct kg_pointer *x = a, *y = b;
    if (x->param != y->param)
        return x->param < y->param ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Pointers in the order of their places, one for each word; several regions of a word make one
 * reach. */
static bool add_pointers(const struct kg_capture *capture, struct kg_signature *out)
{
    out->pointers = calloc(capture->pointer_count + 1, sizeof *out->pointers);
    if (!out->pointers)
        return false;
    struct kg_pointer *all = out->pointers;
    for (uint32_t i = 0; i < capture->pointer_count; i++) {
        const struct capture_pointer *from = &capture->pointers[i];
        uint64_t value = pointer_value(capture, from->param, from->offset);
        all[i] = (struct kg_pointer){
            .param = from->param, .offset = from->offset, .align = alignment(value)};
        if (from->region == CAPTURE_NO_REGION)
            continue; /* it touches nothing */
        all[i].low = reach_low(&capture->regions[from->region], value);
        all[i].high = reach_high(&capture->regions[from->region], value);
    }
    qsort(all, capture->pointer_count, sizeof *all, by_place);
    for (uint32_t i = 0; i < capture->pointer_count; i++) {
        struct kg_pointer *last = out->pointer_count ? &all[out->pointer_count - 1] : NULL;
        if (!last || by_place(last, &all[i])) {
            all[out->pointer_count++] = all[i];
            continue;
        }
        last->low = last->low < all[i].low ? last->low : all[i].low;
        last->high = last->high > all[i].high ? last->high : all[i].high;
    }
    return true;
}

/* Every byte that belongs to no pointer, in words of up to 8 bytes. Room: a word a byte at most. */
static bool add_scalars(const struct kg_capture *capture, struct kg_signature *out)
{
    out->scalars = calloc(capture->args.size + 1, sizeof *out->scalars);
    if (!out->scalars)
        return false;
    const struct kg_pointer *next = out->pointers, *last = next + out->pointer_count;
    for (uint32_t p = 0; p < capture->param_count; p++) {
        const struct kg_param *param = &capture->params[p];
        for (uint32_t at = 0; at < param->size;) {
            while (next < last && (next->param < p || (next->param == p && next->offset < at)))
                next++; /* overlaps the pointer before it: its bytes are no scalar anyway */
            bool here = next < last && next->param == p;
            if (here && next->offset == at) {
                at += 8;
                continue;
            }
            uint32_t end = here ? next->offset : param->size;
            uint32_t size = end - at < 8 ? end - at : 8;
            out->scalars[out->scalar_count++] =
                (struct kg_scalar){.param = (uint16_t)p,
                                   .offset = (uint16_t)at,
                                   .size = (uint16_t)size,
                                   .value = word(capture->args.data + param->offset + at, size)};
            at += size;
        }
    }
    return true;
}

bool reaches_apart(const struct kg_pointer *x, uint64_t at_x, const struct kg_pointer *y,
                   uint64_t at_y)
{
    if ((!pointer_written(x) && !pointer_written(y)) || x->low == x->high || y->low == y->high)
        return true;
    return at_x + (uint64_t)x->low >= at_y + (uint64_t)y->high ||
           at_y + (uint64_t)y->low >= at_x + (uint64_t)x->high;
}

kg_status signature_overlaps(const struct kg_capture *capture, struct kg_signature *out)
{
    size_t pairs = (size_t)out->pointer_count * out->pointer_count / 2;
    free(out->overlaps);
    out->overlap_count = 0;
    out->overlaps = calloc(pairs + 1, sizeof *out->overlaps);
    if (!out->overlaps)
        return KG_NO_MEMORY;
    for (uint32_t a = 0; a < out->pointer_count; a++)
        for (uint32_t b = a + 1; b < out->pointer_count; b++) {
            const struct kg_pointer *x = &out->pointers[a], *y = &out->pointers[b];
            uint64_t at_x = pointer_value(capture, x->param, x->offset);
            uint64_t at_y = pointer_value(capture, y->param, y->offset);
            if (!reaches_apart(x, at_x, y, at_y))
                out->overlaps[out->overlap_count++] = (struct kg_overlap){
                    .a = (uint16_t)a, .b = (uint16_t)b, .delta = (int64_t)(at_y - at_x)};
        }
    return KG_OK;
}

kg_status capture_signature(const struct kg_capture *capture, struct kg_signature *out)
{
    *out = (struct kg_signature){.launch = capture->launch};
    if (add_pointers(capture, out) && add_scalars(capture, out) &&
        signature_overlaps(capture, out) == KG_OK)
        return KG_OK;
    signature_free(out);
    return KG_NO_MEMORY;
}

void signature_free(struct kg_signature *signature)
{
    free(signature->scalars);
    free(signature->pointers);
    free(signature->overlaps);
    *signature = (struct kg_signature){0};
}
