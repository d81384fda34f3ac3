/* The host's side of instrumented kernels: see observe.h. Device memory is four allocations: the
 * variable kgi_state is the module's own; bitmaps; race cells; and the rest (tables, reports). */
#include "tune/observe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BLOCKS = 1 << 20, RESERVED_SHARED = 1024 };
static const uint64_t most_shared_cells = UINT64_C(512) << 20; /* bytes */

#define TRY(call)                                                                                  \
    do {                                                                                           \
        CUresult result_ = (call);                                                                 \
        if (result_ != CUDA_SUCCESS)                                                               \
            return fail(result_, #call);                                                           \
    } while (0)

static kg_status fail(CUresult result, const char *call)
{
    log_line(KG_INFO, "instrumented run: %.40s: %s", call, real_error(result));
    return result == CUDA_ERROR_OUT_OF_MEMORY ? KG_NO_MEMORY : KG_DRIVER;
}

static uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

/* Bytes of one bitmap of a range. */
static uint64_t bitmap_size(const struct observe_range *range)
{
    return round_up(range->size + (range->address & 31), 32) / 8;
}

static uint64_t cells_of(const struct observe *o, const struct observe_range *range)
{
    return (range->size + (range->address & 31)) / o->text->global_granule + 1;
}

static uint32_t log2_of(uint32_t granule)
{
    return granule == 4 ? 2 : granule == 2 ? 1 : 0;
}

static int by_address(const void *a, const void *b)
{
    const struct observe_range *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* Copies the ranges, sorted; empty ones are left out. */
static kg_status take_ranges(struct observe *o, const struct observe_range *ranges, uint32_t count)
{
    o->ranges = calloc(count + 1, sizeof *o->ranges);
    o->consts = calloc(o->text->const_count + 1, sizeof *o->consts);
    if (!o->ranges || !o->consts)
        return KG_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        if (ranges[i].size)
            o->ranges[o->range_count++] = (struct observe_range){.address = ranges[i].address,
                                                                 .size = ranges[i].size,
                                                                 .rights = ranges[i].rights,
                                                                 .name = ranges[i].name};
    qsort(o->ranges, o->range_count, sizeof *o->ranges, by_address);
    for (uint32_t i = 1; i < o->range_count; i++)
        if (o->ranges[i].address - o->ranges[i - 1].address < o->ranges[i - 1].size)
            return KG_BAD_INPUT;
    return KG_OK;
}

/* Constant variables are known to the code by addresses of their own. */
static kg_status take_consts(struct observe *o, CUmodule module)
{
    uint32_t count = o->text->const_count;
    CUdeviceptr table;
    size_t size;
    if (!count)
        return KG_OK;
    uint64_t *addresses = calloc(count, sizeof *addresses);
    if (!addresses)
        return KG_NO_MEMORY;
    CUresult result = real.cuModuleGetGlobal_v2(&table, &size, module, "kgi_consts");
    if (result == CUDA_SUCCESS)
        result = real.cuMemcpyDtoH_v2(addresses, table, count * sizeof *addresses);
    for (uint32_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        o->consts[i] = (struct observe_range){.address = addresses[i],
                                              .size = o->text->const_sizes[i],
                                              .rights = INSTRUMENT_READ,
                                              .name = o->text->consts[i]};
    qsort(o->consts, count, sizeof *o->consts, by_address);
    free(addresses);
    o->const_count = count;
    return result == CUDA_SUCCESS ? KG_OK : fail(result, "constant variables");
}

/* ---- layout ----------------------------------------------------------------------------------
 */

struct layout {
    uint64_t tables, blocks, rest; /* offsets in `rest`: reports come first, then the clock */
    uint64_t shared_bytes;
    struct instrument_range *table;
};

static void place_ranges(struct observe *o, const struct observe_range *ranges, uint32_t count,
                         bool cells, struct instrument_range *table, uint64_t *bits, uint64_t *at)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct observe_range *range = &ranges[i];
        table[i] = (struct instrument_range){
            .begin = range->address, .end = range->address + range->size, .rights = range->rights};
        if (o->text->what & INSTRUMENT_RECORD) {
            table[i].reads = o->bits + *bits;
            table[i].writes = o->bits + *bits + bitmap_size(range);
            *bits += 2 * bitmap_size(range);
        }
        if (cells && o->text->what & INSTRUMENT_RACES) {
            table[i].cells = o->cells + *at;
            *at += cells_of(o, range) * sizeof(struct instrument_cell);
        }
    }
}

static kg_status allocate(CUdeviceptr *at, uint64_t size, size_t *kept)
{
    *kept = size;
    if (!size)
        return KG_OK;
    TRY(real.cuMemAlloc_v2(at, size));
    return KG_OK;
}

/* First pass with addresses of 0, for the sizes; then the same with real ones. */
static kg_status allocate_all(struct observe *o, struct layout *layout)
{
    uint64_t bits = 0, cells = 0;
    place_ranges(o, o->ranges, o->range_count, true, layout->table, &bits, &cells);
    place_ranges(o, o->consts, o->const_count, false, layout->table + o->range_count, &bits,
                 &cells);
    cells += layout->shared_bytes;
    kg_status status = allocate(&o->bits, bits, &o->bits_size);
    if (status == KG_OK)
        status = allocate(&o->cells, cells, &o->cells_size);
    if (status == KG_OK)
        status = allocate(&o->rest, layout->rest, &o->rest_size);
    bits = cells = 0;
    place_ranges(o, o->ranges, o->range_count, true, layout->table, &bits, &cells);
    place_ranges(o, o->consts, o->const_count, false, layout->table + o->range_count, &bits,
                 &cells);
    o->state.shared_cells = layout->shared_bytes ? o->cells + cells : 0;
    o->bits_host = calloc(1, o->bits_size + 1);
    return status == KG_OK && !o->bits_host ? KG_NO_MEMORY : status;
}

static kg_status plan(struct observe *o, CUfunction function, struct layout *out)
{
    const struct kg_dim *grid = &o->launch.grid;
    uint64_t blocks = (uint64_t)grid->x * grid->y * grid->z;
    int shared = 0;
    struct instrument_state *state = &o->state;
    state->block_count = blocks < MOST_BLOCKS ? (uint32_t)blocks : MOST_BLOCKS;
    state->range_count = o->range_count;
    state->const_count = o->const_count;
    state->global_shift = log2_of(o->text->global_granule);
    state->shared_shift = log2_of(o->text->shared_granule);
    state->flags = (o->text->what & INSTRUMENT_CHECK ? INSTRUMENT_CONTAIN | INSTRUMENT_SPACES : 0) |
                   (o->text->what & INSTRUMENT_RECORD ? INSTRUMENT_MARK : 0);
    TRY(real.cuFuncGetAttribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function));
    uint64_t bytes = (uint64_t)shared + o->launch.shared;
    if (o->text->what & INSTRUMENT_RACES && bytes) {
        state->shared_count = (uint32_t)((bytes + RESERVED_SHARED) >> state->shared_shift) + 1;
        uint64_t slot = state->shared_count * sizeof(struct instrument_cell);
        uint64_t slots = most_shared_cells / slot;
        slots = slots < blocks ? slots : blocks;
        state->shared_slots = slots ? (uint32_t)slots : 1;
        out->shared_bytes = state->shared_slots * slot;
    }
    out->tables = round_up(sizeof(struct instrument_reports) + sizeof(uint32_t), 16);
    uint64_t entries = (uint64_t)o->range_count + o->const_count;
    out->blocks = out->tables + entries * sizeof(struct instrument_range);
    out->rest = out->blocks + (o->text->what & INSTRUMENT_RACES
                                   ? state->block_count * sizeof(struct instrument_block)
                                   : 0);
    out->table = calloc(entries + 1, sizeof *out->table);
    return out->table ? KG_OK : KG_NO_MEMORY;
}

static kg_status fill(struct observe *o, const struct layout *layout)
{
    struct instrument_state *state = &o->state;
    size_t size = ((size_t)o->range_count + o->const_count) * sizeof *layout->table;
    kg_status status = observe_reset(o);
    if (status != KG_OK)
        return status;
    state->reports = o->rest;
    state->clock = o->rest + sizeof(struct instrument_reports);
    state->ranges = o->rest + layout->tables;
    state->consts = state->ranges + o->range_count * sizeof *layout->table;
    state->blocks = o->rest + layout->blocks;
    if (o->range_count <= INSTRUMENT_NEAR)
        memcpy(state->near, layout->table, o->range_count * sizeof *layout->table);
    if (o->const_count <= INSTRUMENT_NEAR)
        memcpy(state->near + INSTRUMENT_NEAR, layout->table + o->range_count,
               o->const_count * sizeof *layout->table);
    if (size)
        TRY(real.cuMemcpyHtoD_v2(state->ranges, layout->table, size));
    TRY(real.cuMemcpyHtoD_v2(o->state_at, state, sizeof *state));
    TRY(real.cuCtxSynchronize());
    return KG_OK;
}

kg_status observe_begin(const struct instrumented *text, CUmodule module, CUfunction function,
                        const struct kg_launch *launch, const struct observe_range *ranges,
                        uint32_t range_count, uint32_t budget, struct observe *out)
{
    struct layout layout = {0};
    size_t size = 0;
    *out = (struct observe){.text = text, .launch = *launch};
    out->state.budget = budget ? budget : 1;
    TRY(real.cuModuleGetGlobal_v2(&out->state_at, &size, module, "kgi_state"));
    if (size != sizeof out->state)
        return KG_BAD_INPUT;
    kg_status status = take_ranges(out, ranges, range_count);
    if (status == KG_OK)
        status = take_consts(out, module);
    if (status == KG_OK)
        status = plan(out, function, &layout);
    if (status == KG_OK)
        status = allocate_all(out, &layout);
    if (status == KG_OK)
        status = fill(out, &layout);
    free(layout.table);
    return status;
}

/* The tables lie between what is cleared. */
kg_status observe_reset(struct observe *o)
{
    if (o->bits_size)
        TRY(real.cuMemsetD8_v2(o->bits, 0, o->bits_size));
    if (o->cells_size)
        TRY(real.cuMemsetD8_v2(o->cells, 0, o->cells_size));
    size_t head = sizeof(struct instrument_reports) + sizeof(uint32_t);
    if (!o->state.blocks) { /* for the first time */
        TRY(real.cuMemsetD8_v2(o->rest, 0, o->rest_size));
        return KG_OK;
    }
    TRY(real.cuMemsetD8_v2(o->rest, 0, head));
    size_t from = o->state.blocks - o->rest;
    if (from < o->rest_size)
        TRY(real.cuMemsetD8_v2(o->state.blocks, 0, o->rest_size - from));
    TRY(real.cuCtxSynchronize());
    return KG_OK;
}

static void point(const struct observe *o, struct observe_range *ranges, uint32_t count, size_t *at)
{
    for (uint32_t i = 0; i < count && o->bits_size; i++) {
        ranges[i].reads = o->bits_host + *at;
        ranges[i].writes = ranges[i].reads + bitmap_size(&ranges[i]);
        *at += 2 * bitmap_size(&ranges[i]);
    }
}

kg_status observe_reports(struct observe *o)
{
    TRY(real.cuMemcpyDtoH_v2(&o->reports, o->rest, sizeof o->reports));
    return KG_OK;
}

kg_status observe_read(struct observe *o)
{
    size_t at = 0;
    kg_status status = observe_reports(o);
    if (status != KG_OK)
        return status;
    if (o->bits_size)
        TRY(real.cuMemcpyDtoH_v2(o->bits_host, o->bits, o->bits_size));
    point(o, o->ranges, o->range_count, &at);
    point(o, o->consts, o->const_count, &at);
    return KG_OK;
}

void observe_end(struct observe *o)
{
    const CUdeviceptr all[] = {o->bits, o->cells, o->rest};
    for (unsigned i = 0; i < 3; i++)
        if (all[i] && real.cuMemFree_v2(all[i]) != CUDA_SUCCESS)
            log_line(KG_DEBUG, "instrumented run: memory could not be freed");
    free(o->bits_host);
    free(o->ranges);
    free(o->consts);
    *o = (struct observe){0};
}

char *observe_text(const struct observe *o, const struct instrument_report *r, char *text,
                   size_t size)
{
    static const char *const spaces[] = {"", "shared ", "local ", "constant "};
    unsigned kind = r->kind & 255, block = r->other_block, thread = r->other_thread;
    const struct kg_dim *grid = &o->launch.grid, *dim = &o->launch.block;
    int n =
        snprintf(text, size, "PTX line %u, block (%u,%u,%u), thread (%u,%u,%u): ", r->line,
                 r->block[0], r->block[1], r->block[2], r->thread[0], r->thread[1], r->thread[2]);
    size_t used = n > 0 && (size_t)n < size ? (size_t)n : size - 1;
    if (kind > INSTRUMENT_WAW)
        kind = 0;
    if (kind == INSTRUMENT_BUDGET) {
        snprintf(text + used, size - used, "%s", instrument_kinds[kind]);
        return text;
    }
    n = snprintf(text + used, size - used, "%s of %u bytes at %saddress 0x%" PRIx64 ", %s",
                 r->kind & INSTRUMENT_WRITE << 8 ? "write" : "read", r->size,
                 spaces[r->kind >> 16 & 3], r->address, instrument_kinds[kind]);
    used += n > 0 && (size_t)n < size - used ? (size_t)n : size - 1 - used;
    if (kind >= INSTRUMENT_RAW && grid->x && grid->y && dim->x && dim->y)
        snprintf(text + used, size - used, " at line %u, block (%u,%u,%u), thread (%u,%u,%u)",
                 r->other_line, block % grid->x, block / grid->x % grid->y,
                 block / grid->x / grid->y, thread % dim->x, thread / dim->x % dim->y,
                 thread / dim->x / dim->y);
    return text;
}
