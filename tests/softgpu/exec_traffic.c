/* Counts of the time model (exec_model.h) while a launch runs: a warp's instructions with the
 * latencies of their operands, its memory accesses in lines, sectors and banks, the block's share
 * of the L1, and the sectors that a launch touches at all. Must never change what is computed. */
#include "exec_core.h"
#include "exec_pages.h"

#include <stdlib.h>
#include <string.h>

enum {
    LINE_SHIFT = 7,
    SECTORS = 4, /* of a line */
    PAGE_SHIFT = 17,
    PAGE_WORDS = 1 << (PAGE_SHIFT - 5 - 6), /* a bit for each sector */
    LATENCY_SHARED = 24,
    LATENCY_CONST = 30,
    LATENCY_L1 = 34,
    LATENCY_L2 = 260,   /* atomics */
    LATENCY_MISS = 500, /* of the L1: wherever it is, for that must not depend on other blocks */
};

struct model {
    struct exec_counts counts;
    uint64_t *tags; /* the block's L1: line number << 4 | sectors that are there */
    uint32_t lines;
    struct exec_pages pages; /* touched: PAGE_WORDS each */
};

/* ---- sectors touched ------------------------------------------------------------------------- */

static uint64_t *page_of(struct model *m, uint64_t index)
{
    return exec_pages_at(&m->pages, index, PAGE_WORDS * sizeof(uint64_t));
}

/* Where memory is out, a page counts for nothing: the launch goes on. */
static void touch(struct model *m, uint64_t line, uint32_t sectors)
{
    uint64_t *bits = page_of(m, line >> (PAGE_SHIFT - LINE_SHIFT));
    uint64_t bit = line % (1 << (PAGE_SHIFT - LINE_SHIFT)) * SECTORS;
    if (bits)
        bits[bit / 64] |= (uint64_t)sectors << bit % 64;
}

/* ---- a warp's instructions ------------------------------------------------------------------- */

static uint64_t *ready_of(const struct group *g, uint32_t slot)
{
    /* frames of callees are not followed: there every operand is taken to be there */
    return g->R == g->warp->base ? &g->warp->ready[slot / WARP] : &g->warp->ready[0];
}

static void later(uint64_t *time, uint64_t when)
{
    if (*time < when)
        *time = when;
}

static void result_at(struct group *g, const struct code *c, uint64_t when)
{
    if (c->count > 1 && c->list && c->op != X_brx)
        for (unsigned k = 0; k < c->count; k++)
            *ready_of(g, c->list[k]) = when;
    *ready_of(g, c->d) = *ready_of(g, c->p) = when;
    g->warp->ready[0] = 0; /* slot 0 is what is not there */
}

static uint64_t issue(struct group *g, const struct code *c)
{
    struct model *m = g->warp->block->worker->model;
    uint64_t *time = &g->warp->time;
    later(time, *ready_of(g, c->a));
    later(time, *ready_of(g, c->b));
    later(time, *ready_of(g, c->c));
    m->counts.issue += c->cost.slots;
    m->counts.pipe[c->cost.pipe] += c->cost.slots;
    m->counts.pipe[PIPE_SPECIAL] += c->cost.special;
    m->counts.pipe[PIPE_TENSOR] += c->cost.work;
    *time += c->cost.slots;
    return *time - c->cost.slots;
}

void model_instruction(struct group *g, const struct code *c)
{
    bool reads_a = c->op != X_special && c->op != X_brx;
    uint64_t start = reads_a ? issue(g, c) : (g->warp->time += c->cost.slots);
    if (c->op < X_mov || c->op == X_mov || c->op == X_slow || c->op == X_negate ||
        c->op == X_collective)
        result_at(g, c, start + c->cost.latency);
}

/* ---- accesses -------------------------------------------------------------------------------- */

struct line {
    uint64_t number;
    uint32_t sectors, bytes[SECTORS];
};

/* The lines that the active lanes' accesses touch. */
static unsigned lines_of(const uint64_t *address, uint32_t mask, uint32_t bytes,
                         struct line out[2 * WARP])
{
    unsigned count = 0, at = 0;
    for (; mask; mask &= mask - 1) {
        uint64_t first = address[__builtin_ctz(mask)], number = first >> LINE_SHIFT;
        unsigned tried = 0;
        while (tried < count && out[at].number != number) {
            at = at + 1 < count ? at + 1 : 0;
            tried++;
        }
        if (tried == count) {
            at = count++;
            out[at] = (struct line){.number = number};
        }
        unsigned sector = first / 32 % SECTORS, last = (first + bytes - 1) / 32 % SECTORS;
        out[at].sectors |= 1u << sector | 1u << last;
        out[at].bytes[sector] += bytes;
    }
    return count;
}

static uint64_t load_line(struct model *m, const struct line *line)
{
    uint64_t *tag = &m->tags[(line->number * UINT64_C(0x9E3779B97F4A7C15) >> 32) % m->lines];
    uint32_t there = *tag >> 4 == line->number ? *tag & 15 : 0, missing = line->sectors & ~there;
    *tag = line->number << 4 | there | line->sectors;
    if (!missing)
        return LATENCY_L1;
    m->counts.l2_sectors += (uint32_t)__builtin_popcount(missing);
    touch(m, line->number, missing);
    return LATENCY_MISS;
}

static void store_line(struct model *m, const struct line *line)
{
    for (unsigned s = 0; s < SECTORS; s++)
        if (line->sectors >> s & 1)
            m->counts.l2_sectors += line->bytes[s] < 32 ? 2 : 1;
    touch(m, line->number, line->sectors);
}

static uint64_t global_access(struct model *m, const uint64_t *address, uint32_t mask,
                              uint32_t bytes, bool write)
{
    struct line lines[2 * WARP];
    unsigned count = lines_of(address, mask, bytes, lines);
    uint64_t latency = LATENCY_L1;
    for (unsigned i = 0; i < count; i++)
        if (write)
            store_line(m, &lines[i]);
        else
            later(&latency, load_line(m, &lines[i]));
    m->counts.pipe[PIPE_L1] += count;
    return latency + count - 1;
}

/* Passes of the 32 banks: 4-byte words, the same word counts once. Wide accesses go by parts. */
static unsigned bank_passes(const uint64_t *address, uint32_t mask, uint32_t bytes)
{
    unsigned passes = 0, lanes = bytes <= 4 ? WARP : bytes == 8 ? WARP / 2 : WARP / 4;
    for (unsigned first = 0; first < WARP; first += lanes) {
        uint64_t words[WARP];
        uint8_t load[WARP] = {0}, most = 0;
        for (unsigned i = first; i < first + lanes; i++) {
            if (!(mask >> i & 1))
                continue;
            for (uint32_t part = 0; part < (bytes + 3) / 4; part++) {
                uint64_t word = address[i] / 4 + part;
                unsigned bank = word % WARP;
                if (load[bank] && words[bank] == word)
                    continue;
                words[bank] = word;
                load[bank]++;
                most = load[bank] > most ? load[bank] : most;
            }
        }
        passes += most;
    }
    return passes;
}

static unsigned different(const uint64_t *address, uint32_t mask)
{
    unsigned count = 0;
    uint64_t last = 0;
    for (; mask; mask &= mask - 1) {
        uint64_t one = address[__builtin_ctz(mask)];
        count += !count || one != last;
        last = one;
    }
    return count;
}

void model_access(struct group *g, const struct code *c, const uint64_t *address, uint32_t bytes,
                  bool write)
{
    struct model *m = g->warp->block->worker->model;
    uint64_t start = issue(g, c), latency, first = address[__builtin_ctz(g->mask)];
    unsigned window = first >> 48, passes;
    if (c->kind == PTX_SPACE_shared || (c->kind == PTX_SPACE_generic && window == WINDOW_SHARED)) {
        passes = bank_passes(address, g->mask, bytes);
        m->counts.pipe[PIPE_SHARED] += passes;
        latency = LATENCY_SHARED + passes - 1;
    } else if (c->kind == PTX_SPACE_const || window == WINDOW_PARAM) {
        passes = c->cost.direct ? 0 : different(address, g->mask);
        m->counts.pipe[PIPE_CONST] += passes;
        latency = passes ? LATENCY_CONST + passes - 1 : 0;
    } else if (c->kind == PTX_SPACE_local || window) { /* lanes lie side by side: no conflicts */
        m->counts.pipe[PIPE_L1] += (bytes + 3) / 4;
        latency = LATENCY_L1;
    } else {
        latency = global_access(m, address, g->mask, bytes, write);
    }
    if (!write)
        result_at(g, c, start + latency);
}

void model_atomic(struct group *g, const struct code *c, const uint64_t *address, uint32_t bytes)
{
    struct model *m = g->warp->block->worker->model;
    uint64_t start = g->warp->time;
    struct line lines[2 * WARP];
    unsigned lanes = (unsigned)__builtin_popcount(g->mask);
    if (c->kind == PTX_SPACE_shared || address[__builtin_ctz(g->mask)] >> 48 == WINDOW_SHARED) {
        m->counts.pipe[PIPE_SHARED] += lanes;
        result_at(g, c, start + LATENCY_SHARED + lanes);
        return;
    }
    unsigned count = lines_of(address, g->mask, bytes, lines);
    for (unsigned i = 0; i < count; i++)
        store_line(m, &lines[i]);
    m->counts.pipe[PIPE_ATOMIC] += lanes;
    result_at(g, c, start + LATENCY_L2 + lanes);
}

/* ---- blocks and launches --------------------------------------------------------------------- */

struct model *model_create(const struct launch *launch)
{
    const struct exec_device *device = launch->config->device;
    struct model *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->counts.resident = launch->resident;
    uint32_t used = launch->shared_bytes * launch->resident;
    uint32_t room = device->l1_bytes > used ? device->l1_bytes - used : 0;
    m->lines = room / launch->resident >> LINE_SHIFT;
    m->lines = m->lines ? m->lines : 1;
    m->tags = calloc(m->lines, sizeof *m->tags);
    if (m->tags)
        return m;
    free(m);
    return NULL;
}

void model_block_begin(struct block *block)
{
    struct model *m = block->worker->model;
    memset(m->tags, 0, m->lines * sizeof *m->tags);
    for (uint32_t i = 0; i < block->warp_count; i++) {
        block->warps[i].time = 0;
        memset(block->warps[i].ready, 0, block->ready_slots * sizeof *block->warps[i].ready);
    }
}

/* The warps of a block have met, or ended. */
uint64_t model_meet(struct block *block)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < block->warp_count; i++)
        later(&most, block->warps[i].time);
    for (uint32_t i = 0; i < block->warp_count; i++)
        block->warps[i].time = most;
    return most;
}

void model_block_end(struct block *block)
{
    block->worker->model->counts.latency += model_meet(block);
}

static void merge(struct model *into, const struct model *from)
{
    for (uint32_t i = 0; i < from->pages.room; i++) {
        const uint64_t *bits = from->pages.slots[i].data;
        uint64_t *to = bits ? page_of(into, from->pages.slots[i].number - 1) : NULL;
        for (unsigned k = 0; to && k < PAGE_WORDS; k++)
            to[k] |= bits[k];
    }
    into->counts.issue += from->counts.issue;
    for (unsigned i = 0; i < PIPE_COUNT; i++)
        into->counts.pipe[i] += from->counts.pipe[i];
    into->counts.l2_sectors += from->counts.l2_sectors;
    into->counts.latency += from->counts.latency;
}

void model_end(struct model *m, struct model *into)
{
    if (!m)
        return;
    if (into)
        merge(into, m);
    exec_pages_free(&m->pages);
    free(m->tags);
    free(m);
}

void model_result(struct model *m, struct exec_counts *out)
{
    m->counts.unique_sectors = 0;
    for (uint32_t i = 0; i < m->pages.room; i++) {
        const uint64_t *bits = m->pages.slots[i].data;
        for (unsigned k = 0; bits && k < PAGE_WORDS; k++)
            m->counts.unique_sectors += (unsigned)__builtin_popcountll(bits[k]);
    }
    *out = m->counts;
}
