/* Intervals to capture: see gather.h. A pointer's interval is clipped to allocations, since what
 * lies outside of all of them cannot have been touched. */
#include "app/gather.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 256 }; /* of places in the ring */

struct gathering {
    struct gathered *out;
    const struct plan *plan;
    CUdevice own;
};

static bool because(struct gathered *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool because(struct gathered *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(out->why, sizeof out->why, format, args);
    va_end(args);
    return false;
}

bool gather_arguments(struct gathered *out, const struct kernel *kernel,
                      const struct launch *launch)
{
    uint32_t size = 0;
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        const struct kg_param *p = &kernel->params[i];
        const void *value = launch_argument(kernel, launch, i);
        if (!value || p->offset < size || p->offset > PLAN_ARGUMENTS ||
            p->size > PLAN_ARGUMENTS - p->offset)
            return because(out, "its arguments could not be read");
        memset(out->arguments + size, 0, p->offset - size);
        memcpy(out->arguments + p->offset, value, p->size);
        size = p->offset + p->size;
    }
    out->argument_size = size;
    return true;
}

/* ---- pieces ------------------------------------------------------------------------------------
 */

static uint64_t argument(const struct gathered *out, const struct plan_pointer *p)
{
    uint64_t value;
    memcpy(&value, out->arguments + p->at, sizeof value);
    return value;
}

static bool add_piece(struct gathered *out, const struct gather_piece *piece)
{
    if (out->piece_count == GATHER_REGIONS)
        return because(out, "it reaches too many allocations");
    out->pieces[out->piece_count++] = *piece;
    return true;
}

/* Adds [from, to) as far as it lies in the allocation that holds `probe`. *found: there is one. */
static bool add_at(struct gathering *g, uint32_t pointer, uint64_t probe, uint64_t from,
                   uint64_t to, bool *found)
{
    const struct plan_pointer *p = &g->plan->pointers[pointer];
    for (uint32_t i = 0; i < g->out->piece_count; i++) {
        const struct gather_piece *have = &g->out->pieces[i];
        if (have->pointer == pointer && probe - have->allocation < have->allocation_size)
            return true;
    }
    struct extent e = extent_find(probe, from, to, g->own);
    if (e.why)
        return because(g->out, "%s", e.why);
    if (!e.size)
        return true;
    *found = true;
    from = from > e.base ? from : e.base;
    to = to < e.base + e.size ? to : e.base + e.size;
    return add_piece(g->out, &(struct gather_piece){.kind = CAPTURE_POINTER,
                                                    .pointer = pointer,
                                                    .written = p->written,
                                                    .scan = p->scan,
                                                    .address = from,
                                                    .size = to - from,
                                                    .allocation = e.base,
                                                    .allocation_size = e.size});
}

static bool link_pointer(struct gathered *out, const struct plan_pointer *p, uint32_t region)
{
    if (out->pointer_count == GATHER_POINTERS)
        return because(out, "it reaches too many allocations");
    out->pointers[out->pointer_count++] =
        (struct capture_pointer){.param = p->param, .offset = p->offset, .region = region};
    return true;
}

/* A pointer may stand before or behind its array, so the ends of the interval are asked for first.
 * A word that leads to no allocation at all is a scalar. */
static bool add_pointer(struct gathering *g, uint32_t pointer)
{
    const struct plan_pointer *p = &g->plan->pointers[pointer];
    uint64_t value = argument(g->out, p);
    uint64_t from = value + (uint64_t)p->low, to = value + (uint64_t)p->high;
    bool found = false;
    if (p->known && (p->low >= p->high || from >= to)) {
        struct extent e = extent_find(value, value, value, g->own);
        return e.why || !e.size || link_pointer(g->out, p, CAPTURE_NO_REGION);
    }
    bool good =
        p->known ? add_at(g, pointer, from, from, to, &found) &&
                       add_at(g, pointer, to - 1, from, to, &found) &&
                       (value < from || value >= to || add_at(g, pointer, value, from, to, &found))
                 : add_at(g, pointer, value, value, UINT64_MAX, &found);
    const char *why = good && !found ? extent_pageable(value, g->own) : NULL;
    return why ? because(g->out, "%s", why) : good;
}

/* What addresses in memory led to at the launch before, as far as it is still there. */
static bool add_nested(struct gathering *g)
{
    for (uint32_t i = 0; i < g->plan->nested_count; i++) {
        const struct plan_nested *n = &g->plan->led[i];
        struct extent e = extent_find(n->address, n->address, UINT64_MAX, g->own);
        if (e.why || e.base != n->allocation || e.size != n->size)
            continue;
        if (!add_piece(g->out, &(struct gather_piece){.kind = CAPTURE_NESTED,
                                                      .pointer = UINT32_MAX,
                                                      .written = g->plan->nested_written,
                                                      .scan = g->plan->scan_nested,
                                                      .address = n->address,
                                                      .size = e.base + e.size - n->address,
                                                      .allocation = e.base,
                                                      .allocation_size = e.size}))
            return false;
    }
    return true;
}

/* ---- regions ------------------------------------------------------------------------------------
 */

static int by_address(const void *a, const void *b)
{
    const struct gather_piece *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

static int by_place(const void *a, const void *b)
{
    const struct capture_pointer *x = a, *y = b;
    return x->param != y->param     ? (x->param > y->param) - (x->param < y->param)
           : x->offset != y->offset ? (x->offset > y->offset) - (x->offset < y->offset)
                                    : (x->region > y->region) - (x->region < y->region);
}

/* Of mappings side by side, each piece knows as many as it needs. */
static void allocation_widen(struct capture_region *region, const struct gather_piece *piece)
{
    uint64_t end = region->allocation + region->allocation_size,
             other = piece->allocation + piece->allocation_size;
    if (piece->allocation < region->allocation)
        region->allocation = piece->allocation;
    region->allocation_size = (other > end ? other : end) - region->allocation;
}

/* Pieces that overlap become one region, so that every byte stands in one place. */
static bool join(struct gathering *g)
{
    struct gathered *out = g->out;
    struct capture_region *last = NULL;
    qsort(out->pieces, out->piece_count, sizeof *out->pieces, by_address);
    for (uint32_t i = 0; i < out->piece_count; i++) {
        const struct gather_piece *piece = &out->pieces[i];
        uint64_t end = piece->address + piece->size;
        if (!last || piece->address >= last->address + last->size) {
            out->written[out->region_count] = out->scan[out->region_count] = false;
            last = &out->regions[out->region_count++];
            *last = (struct capture_region){.kind = piece->kind,
                                            .address = piece->address,
                                            .size = piece->size,
                                            .allocation = piece->allocation,
                                            .allocation_size = piece->allocation_size};
        } else {
            if (end > last->address + last->size)
                last->size = end - last->address;
            allocation_widen(last, piece);
        }
        if (piece->kind == CAPTURE_POINTER)
            last->kind = CAPTURE_POINTER;
        out->written[out->region_count - 1] |= piece->written;
        out->scan[out->region_count - 1] |= piece->scan;
        if (piece->pointer != UINT32_MAX &&
            !link_pointer(out, &g->plan->pointers[piece->pointer], out->region_count - 1))
            return false;
    }
    qsort(out->pointers, out->pointer_count, sizeof *out->pointers, by_place);
    return true;
}

/* A variable that the host cannot name is not captured: no host call can have changed it either,
 * and a kernel that writes it is the replay's to find out. */
static bool add_global(struct gathering *g, const struct kernel *kernel, uint32_t number)
{
    const struct kernel_global *global = &kernel->model.globals[number];
    const struct module *module = kernel->module;
    struct gathered *out = g->out;
    CUdeviceptr address = 0;
    size_t size = 0, length = strlen(global->name);
    CUresult result =
        module->library ? real.cuLibraryGetGlobal(&address, &size, module->handle, global->name)
                        : real.cuModuleGetGlobal_v2(&address, &size, module->handle, global->name);
    if (result != CUDA_SUCCESS || !size)
        return true;
    struct capture_region *region = &out->regions[out->region_count];
    if (out->region_count == GATHER_REGIONS || length >= sizeof region->name)
        return because(out, "it uses too many module variables, or one with a very long name");
    *region = (struct capture_region){.kind = CAPTURE_GLOBAL, .address = address, .size = size};
    memcpy(region->name, global->name, length + 1);
    out->written[out->region_count] =
        !global->constant && (number >= PLAN_GLOBALS || g->plan->globals_written[number]);
    out->scan[out->region_count++] = g->plan->scan_globals;
    return true;
}

/* ---- room --------------------------------------------------------------------------------------
 */

/* The largest of what is captured for want of knowledge is what makes it too large. */
static bool too_large(struct gathering *g, uint64_t total, uint64_t room)
{
    struct gathered *out = g->out;
    const struct plan_pointer *worst = NULL;
    uint64_t tail = 0, nested = 0;
    for (uint32_t i = 0; i < out->piece_count; i++) {
        const struct gather_piece *piece = &out->pieces[i];
        const struct plan_pointer *p =
            piece->pointer == UINT32_MAX ? NULL : &g->plan->pointers[piece->pointer];
        nested += p ? 0 : piece->size;
        if (p && !p->known && piece->size > tail) {
            worst = p;
            tail = piece->size;
        }
    }
    char line[24] = "";
    if (worst && tail >= nested) {
        if (worst->line)
            snprintf(line, sizeof line, "line %u: ", worst->line);
        return because(g->out,
                       "what it reaches through parameter %u is not known (%s%s), its allocation's "
                       "rest has %" PRIu64 " MiB, KGENRT_CAPTURE_MIB allows %" PRIu64 " in all",
                       worst->param, line, worst->why, tail >> 20, room >> 20);
    }
    if (nested)
        return because(g->out,
                       "addresses in its memory (line %u) lead to %" PRIu64
                       " MiB, KGENRT_CAPTURE_MIB allows %" PRIu64 " in all",
                       g->plan->nested_line, nested >> 20, room >> 20);
    return because(out,
                   "a launch reaches %" PRIu64 " MiB, with its result, KGENRT_CAPTURE_MIB allows "
                   "%" PRIu64,
                   total >> 20, room >> 20);
}

static bool place(struct gathering *g, uint64_t room)
{
    struct gathered *out = g->out;
    uint64_t total = 0;
    for (uint32_t i = 0; i < out->region_count; i++)
        for (unsigned after = 0; after < 2; after++) {
            if (after && !out->written[i])
                continue;
            (after ? out->after_at : out->data_at)[i] = total;
            uint64_t size = out->regions[i].size;
            total = size > UINT64_MAX / 4 || total > UINT64_MAX / 4
                        ? UINT64_MAX / 2
                        : total + (size + ALIGN - 1) / ALIGN * ALIGN;
        }
    out->total = total;
    return total <= room || too_large(g, total, room);
}

bool gather_regions(struct gathered *out, const struct kernel *kernel, const struct plan *plan,
                    uint64_t room)
{
    struct gathering g = {.out = out, .plan = plan};
    out->pointer_count = out->region_count = out->piece_count = 0;
    if (real.cuCtxGetDevice(&g.own) != CUDA_SUCCESS)
        return because(out, "the device of its context is not known");
    for (uint32_t i = 0; i < plan->pointer_count; i++)
        if (!add_pointer(&g, i))
            return false;
    if (!add_nested(&g) || !join(&g))
        return false;
    for (uint32_t i = 0; i < kernel->model.global_count; i++)
        if (!add_global(&g, kernel, i))
            return false;
    return place(&g, room);
}
