/* The memory of a replay as images on the host: what was captured, the red zones around it, masks
 * of what the original writes, and the random states that launches start from. Knows no driver. */
#include "tune/parallel.h"
#include "tune/replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { OWN_PAGES_FROM = 4 << 20 };
static const uint64_t most_bytes = UINT64_C(1) << 30; /* of all images' extents together */

static int by_address(const void *a, const void *b)
{
    const struct replay_extent *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* Whole granules around a region, and one more on either side inside the same windows. */
static struct replay_extent around(const struct capture_region *region, uint64_t granule,
                                   uint64_t window)
{
    uint64_t end = region->address + region->size;
    uint64_t low = region->address / granule * granule;
    uint64_t high = (end + granule - 1) / granule * granule;
    if (low / window * window < low)
        low -= granule;
    if (high < (end + window - 1) / window * window)
        high += granule;
    return (struct replay_extent){.address = low, .size = high - low};
}

/* Joins sorted extents that touch, so that each byte stands in one image place only. */
static void join(struct replay_memory *memory)
{
    uint32_t kept = 0;
    for (uint32_t i = 1; i < memory->extent_count; i++) {
        struct replay_extent *last = &memory->extents[kept], *next = &memory->extents[i];
        uint64_t end = last->address + last->size;
        if (next->address > end) {
            memory->extents[++kept] = *next;
            continue;
        }
        if (next->address + next->size > end)
            last->size = next->address + next->size - last->address;
    }
    if (memory->extent_count)
        memory->extent_count = kept + 1;
}

kg_status memory_plan(struct replay_memory *memory, const struct kg_capture *capture,
                      uint64_t granule, uint64_t window)
{
    *memory = (struct replay_memory){.capture = capture};
    memory->extents = calloc(capture->region_count + 1, sizeof *memory->extents);
    if (!memory->extents)
        return KG_NO_MEMORY;
    for (uint32_t i = 0; i < capture->region_count; i++) {
        const struct capture_region *region = &capture->regions[i];
        if (region->kind == CAPTURE_GLOBAL || !region->size)
            continue;
        if (region->size > most_bytes || region->address > UINT64_MAX / 2)
            return KG_LIMIT;
        memory->extents[memory->extent_count++] = around(region, granule, window);
    }
    qsort(memory->extents, memory->extent_count, sizeof *memory->extents, by_address);
    join(memory);
    for (uint32_t i = 0; i < memory->extent_count; i++) {
        memory->extents[i].at = memory->total;
        memory->total += memory->extents[i].size;
        if (memory->total > most_bytes)
            return KG_LIMIT;
    }
    return KG_OK;
}

kg_status memory_global(struct replay_memory *memory, const char *name, uint64_t address,
                        uint64_t size)
{
    const struct kg_capture *capture = memory->capture;
    uint32_t region = 0;
    while (region < capture->region_count && (capture->regions[region].kind != CAPTURE_GLOBAL ||
                                              strcmp(capture->regions[region].name, name)))
        region++;
    if (region == capture->region_count || capture->regions[region].size != size ||
        size > most_bytes - memory->total)
        return KG_BAD_INPUT;
    size_t room = (memory->extent_count + 1) * sizeof *memory->extents;
    struct replay_extent *more = realloc(memory->extents, room);
    if (!more)
        return KG_NO_MEMORY;
    memory->extents = more;
    memory->extents[memory->extent_count++] = (struct replay_extent){
        .address = address, .size = size, .at = memory->total, .global = true, .region = region};
    memory->total += (size + 7) & ~UINT64_C(7);
    return KG_OK;
}

/* Where a device range stands in an image; false unless it lies in one extent. */
static bool find(const struct replay_memory *memory, uint64_t address, uint64_t size, size_t *at)
{
    for (uint32_t i = 0; i < memory->extent_count; i++) {
        const struct replay_extent *extent = &memory->extents[i];
        if (extent->global || address < extent->address ||
            address - extent->address > extent->size ||
            size > extent->size - (address - extent->address))
            continue;
        *at = extent->at + (size_t)(address - extent->address);
        return true;
    }
    return false;
}

bool memory_region(const struct replay_memory *memory, uint32_t region, size_t *at)
{
    const struct capture_region *r = &memory->capture->regions[region];
    if (r->kind != CAPTURE_GLOBAL)
        return find(memory, r->address, r->size, at);
    for (uint32_t i = 0; i < memory->extent_count; i++)
        if (memory->extents[i].global && memory->extents[i].region == region) {
            *at = memory->extents[i].at;
            return true;
        }
    return false;
}

/* Pristine bytes and the slack mask from the capture's regions. */
static void fill(struct replay_memory *memory)
{
    for (uint32_t i = 0; i < memory->extent_count; i++) {
        const struct replay_extent *extent = &memory->extents[i];
        if (extent->global)
            memcpy(memory->pristine + extent->at, memory->capture->regions[extent->region].data,
                   extent->size);
        else
            memset(memory->slack + extent->at, 0xff, extent->size);
    }
    for (uint32_t i = 0; i < memory->capture->region_count; i++) {
        const struct capture_region *region = &memory->capture->regions[i];
        size_t at;
        if (region->kind == CAPTURE_GLOBAL || !region->size ||
            !find(memory, region->address, region->size, &at))
            continue;
        memcpy(memory->pristine + at, region->data, region->size);
        memset(memory->slack + at, 0, region->size);
    }
}

/* A large image has pages of its own, which can be pinned, and large ones, if it may be. */
static unsigned char *image_new(size_t total)
{
    if (total < OWN_PAGES_FROM)
        return calloc(1, total + 8);
    void *image = mmap(NULL, total + 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (image == MAP_FAILED)
        return NULL;
    (void)madvise(image, total + 8, MADV_HUGEPAGE);
    return image;
}

static void image_free(unsigned char *image, size_t total)
{
    if (total < OWN_PAGES_FROM)
        free(image);
    else if (image && munmap(image, total + 8))
        log_line(KG_DEBUG, "replay: an image of memory stays mapped");
}

kg_status memory_create(struct replay_memory *memory)
{
    unsigned char **const images[] = {&memory->pristine, &memory->slack,    &memory->written,
                                      &memory->read,     &memory->poisoned, &memory->result,
                                      &memory->work,     &memory->other,    &memory->first};
    for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
        *images[i] = image_new(memory->total);
        if (!*images[i])
            return KG_NO_MEMORY;
    }
    fill(memory);
    memcpy(memory->poisoned, memory->slack, memory->total);
    return KG_OK;
}

void memory_free(struct replay_memory *memory)
{
    free(memory->extents);
    image_free(memory->pristine, memory->total);
    image_free(memory->slack, memory->total);
    image_free(memory->written, memory->total);
    image_free(memory->read, memory->total);
    image_free(memory->poisoned, memory->total);
    image_free(memory->result, memory->total);
    image_free(memory->work, memory->total);
    image_free(memory->other, memory->total);
    image_free(memory->first, memory->total);
    free(memory->data);
    free(memory->numbers);
    free(memory->bound);
    free(memory->others);
    *memory = (struct replay_memory){0};
}

/* ---- walks -------------------------------------------------------------------------------------
 */

void memory_walk(const struct replay_memory *memory, struct walk w, struct walked *seen)
{
    struct replay_device *device = memory->device;
    struct walked none;
    if (!w.to)
        w.to = memory->total;
    if (!seen)
        seen = &none;
    if (!device || !device->walk || device->walk(device, &w, seen) != KG_OK)
        walk_here(&w, seen);
}

static struct walk over(enum walk_kind kind, const unsigned char *x, const unsigned char *y,
                        struct where a, struct where b)
{
    return (struct walk){.kind = kind,
                         .source = y ? WALK_IMAGE : WALK_ZEROS,
                         .x = x,
                         .y = y,
                         .masks = {a.mask, b.mask},
                         .invert = (uint32_t)a.inverted | (uint32_t)b.inverted << 1};
}

void images_mix(const struct replay_memory *memory, const unsigned char *x, const unsigned char *y,
                struct where a, struct where b, unsigned char *out)
{
    struct walk w = over(WALK_MIX, x, y, a, b);
    w.out = out;
    memory_walk(memory, w, NULL);
}

size_t images_differ(const struct replay_memory *memory, const unsigned char *x,
                     const unsigned char *y, struct where a, struct where b, size_t *first)
{
    struct walked seen;
    bool whole = y && !a.mask && !b.mask;
    if (whole && first_difference(x, y, NULL, 0, memory->total) == memory->total) {
        *first = memory->total; /* as most are, and nothing is as quick at it */
        return 0;
    }
    memory_walk(memory, over(WALK_DIFFER, x, y, a, b), &seen);
    *first = seen.count ? (size_t)seen.first : memory->total;
    return (size_t)seen.count;
}

void memory_state(const struct replay_memory *memory, uint64_t seed, bool inverted,
                  unsigned char *out)
{
    struct walk w = {.kind = WALK_MIX,
                     .source = WALK_POISON,
                     .x = memory->pristine,
                     .out = out,
                     .masks = {memory->poisoned},
                     .seed = seed,
                     .flip = inverted ? UINT64_MAX : 0};
    memory_walk(memory, w, NULL);
}

void memory_expected(const struct replay_memory *memory, uint64_t seed, unsigned char *out)
{
    memory_state(memory, seed, false, out);
    images_mix(memory, out, memory->result, INSIDE(memory->written), EVERYWHERE, out);
}

static void span_add(struct walk_span *spans, uint32_t *count, uint64_t low, uint64_t size)
{
    for (uint32_t i = 0; i < *count; i++)
        if (low - spans[i].low <= spans[i].size && size <= spans[i].size - (low - spans[i].low))
            return;
    if (*count < WALK_SPANS) {
        spans[(*count)++] = (struct walk_span){low, size};
        return;
    }
    struct walk_span *last = &spans[WALK_SPANS - 1];
    uint64_t end = last->low + last->size > low + size ? last->low + last->size : low + size;
    last->low = last->low < low ? last->low : low;
    last->size = end - last->low;
}

void memory_spans(const struct replay_memory *memory, struct walk_span spans[static WALK_SPANS],
                  uint32_t *count)
{
    const struct kg_capture *capture = memory->capture;
    *count = 0;
    for (uint32_t i = 0; i < capture->region_count; i++) {
        const struct capture_region *r = &capture->regions[i];
        if (r->kind == CAPTURE_GLOBAL)
            continue;
        span_add(spans, count, r->allocation, r->allocation_size);
        span_add(spans, count, r->address, r->size);
    }
}

enum { PIECE = 1 << 20 };

struct pieces {
    const unsigned char *image;
    size_t total;
    struct kg_id *ids;
};

static void digest_part(void *self, size_t from, size_t to)
{
    const struct pieces *pieces = self;
    for (size_t at = from; at < to; at += PIECE) {
        size_t left = pieces->total - at;
        hash_data(pieces->image + at, left < PIECE ? left : PIECE, &pieces->ids[at / PIECE]);
    }
}

void memory_digest(const struct replay_memory *memory, const unsigned char *image,
                   struct kg_id *out)
{
    size_t count = (memory->total + PIECE - 1) / PIECE;
    struct pieces pieces = {image, memory->total, calloc(count + 1, sizeof *pieces.ids)};
    *out = (struct kg_id){0};
    if (!pieces.ids)
        return;
    parallel(memory->total, PIECE, digest_part, &pieces);
    hash_data(pieces.ids, count * sizeof *pieces.ids, out);
    free(pieces.ids);
}

/* The parameter whose pointer leads to a region. */
static const char *owner(const struct kg_capture *capture, uint32_t region, char text[static 40])
{
    snprintf(text, 40, "region %u", region);
    for (uint32_t i = 0; i < capture->pointer_count; i++)
        if (capture->pointers[i].region == region) {
            snprintf(text, 40, "parameter %u", capture->pointers[i].param);
            break;
        }
    return text;
}

/* The region that holds address with the highest start, else the one that ends last before it. */
static bool nearest(const struct kg_capture *capture, uint64_t address, uint32_t *best)
{
    bool found = false, inside = false;
    for (uint32_t i = 0; i < capture->region_count; i++) {
        const struct capture_region *r = &capture->regions[i], *b = &capture->regions[*best];
        if (r->kind == CAPTURE_GLOBAL || !r->size || address < r->address)
            continue;
        bool holds = address - r->address < r->size;
        bool nearer = holds ? !inside || r->address > b->address
                            : !inside && r->address + r->size > b->address + b->size;
        if (!found || nearer) {
            *best = i;
            inside = holds;
        }
        found = true;
    }
    return found;
}

const char *memory_place(const struct replay_memory *memory, size_t at, char *text, size_t size)
{
    const struct kg_capture *capture = memory->capture;
    uint32_t i = 0, best = 0;
    while (i + 1 < memory->extent_count && memory->extents[i + 1].at <= at)
        i++;
    const struct replay_extent *extent = &memory->extents[i];
    uint64_t offset = at - extent->at, address = extent->address + offset;
    char who[40];
    if (extent->global) {
        snprintf(text, size, "variable %.100s + %" PRIu64, capture->regions[extent->region].name,
                 offset);
        return text;
    }
    if (!nearest(capture, address, &best)) {
        snprintf(text, size, "0x%" PRIx64 ", before every buffer", address);
        return text;
    }
    const struct capture_region *region = &capture->regions[best];
    offset = address - region->address;
    if (offset < region->size)
        snprintf(text, size, "%s + %" PRIu64, owner(capture, best, who), offset);
    else
        snprintf(text, size, "%" PRIu64 " bytes past the end of %s's buffer", offset - region->size,
                 owner(capture, best, who));
    return text;
}
