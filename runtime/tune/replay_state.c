/* The memory of a replay as images on the host: what was captured, the red zones around it, masks
 * of what the original writes, and the random states that launches start from. Knows no driver. */
#include "tune/parallel.h"
#include "tune/replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t most_bytes = UINT64_C(1) << 30; /* of all images' extents together */

uint64_t random_word(uint64_t seed, uint64_t index)
{
    uint64_t z = seed + (index + 1) * UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

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

kg_status memory_create(struct replay_memory *memory)
{
    unsigned char **const images[] = {&memory->pristine, &memory->slack,    &memory->written,
                                      &memory->read,     &memory->poisoned, &memory->result,
                                      &memory->work,     &memory->other,    &memory->first};
    for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
        *images[i] = calloc(1, memory->total + 8);
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
    free(memory->pristine);
    free(memory->slack);
    free(memory->written);
    free(memory->read);
    free(memory->poisoned);
    free(memory->result);
    free(memory->work);
    free(memory->other);
    free(memory->first);
    free(memory->data);
    free(memory->bound);
    free(memory->others);
    *memory = (struct replay_memory){0};
}

/* Any bits, or, of an odd seed, floats from 32 to 128: among random floats most sums are just the
 * larger one, and an addition where nothing should be added would not show. */
static uint64_t poison(uint64_t seed, uint64_t index)
{
    uint64_t word = random_word(seed, index);
    return seed & 1 ? (word & UINT64_C(0x00ffffff00ffffff)) | UINT64_C(0x4200000042000000) : word;
}

struct state {
    const struct replay_memory *memory;
    uint64_t seed, flip;
    unsigned char *out;
    bool expected; /* with results where the original writes */
};

static void state_part(void *self, size_t from, size_t to)
{
    const struct state *state = self;
    const struct replay_memory *memory = state->memory;
    memcpy(state->out + from, memory->pristine + from, to - from);
    for (size_t at = from; at < to; at += 8) {
        uint64_t poisoned, written = 0, word;
        memcpy(&poisoned, memory->poisoned + at, 8);
        if (state->expected)
            memcpy(&written, memory->written + at, 8);
        if (!(poisoned | written))
            continue;
        memcpy(&word, memory->pristine + at, 8);
        if (poisoned)
            word = (word & ~poisoned) | ((poison(state->seed, at) ^ state->flip) & poisoned);
        if (written) {
            uint64_t result;
            memcpy(&result, memory->result + at, 8);
            word = (word & ~written) | (result & written);
        }
        memcpy(state->out + at, &word, 8); /* images have room for a whole last word */
    }
}

void memory_state(const struct replay_memory *memory, uint64_t seed, bool inverted,
                  unsigned char *out)
{
    struct state state = {memory, seed, inverted ? UINT64_MAX : 0, out, false};
    parallel(memory->total, 4096, state_part, &state);
}

void memory_expected(const struct replay_memory *memory, uint64_t seed, unsigned char *out)
{
    struct state state = {memory, seed, 0, out, true};
    parallel(memory->total, 4096, state_part, &state);
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
