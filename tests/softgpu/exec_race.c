/* Data races, on request: each word of global and shared memory remembers its last write and two
 * reads by different threads; an access is a race with one of them if one of the two writes, they
 * share a byte, not both are atomic (or volatile, relaxed or stronger), and nothing orders them.
 * What orders: for threads of a block, any barrier that completed in between; for lanes of a warp
 * also any collective; for any two, that the first later did something that releases (an atomic, a
 * fence, a strong store) and the second something that acquires after the access. That is more
 * than the memory model grants, so that what is reported is a race; not every race is found. A
 * store of the value that is there already is no race with another store. */
#include "exec_core.h"
#include "exec_pages.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE_SHIFT = 12, CELLS = 1 << (PAGE_SHIFT - 2), MOST_BLOCKS = 1 << 24 };

struct mark {
    uint64_t when;
    uint32_t block, thread, epoch, warp_epoch, line;
    uint8_t bytes; /* of the word; 0: no such access yet */
    bool strong;
};

struct cell {
    struct mark write, read, other;
};

struct race {
    uint64_t clock, *released; /* of each block: when last */
    struct exec_pages pages;   /* CELLS each */
    struct cell *shared;       /* of the block that runs; blocks that were parked begin anew */
    uint32_t shared_cells;
    uint64_t shared_of;
};

struct race *race_create(const struct launch *launch)
{
    struct race *race = calloc(1, sizeof *race);
    if (!race)
        return NULL;
    race->shared_cells = launch->shared_bytes / 4 + 1;
    race->shared = calloc(race->shared_cells, sizeof *race->shared);
    if (launch->block_count <= MOST_BLOCKS)
        race->released = calloc(launch->block_count, sizeof *race->released);
    if (race->shared)
        return race;
    race_end(race);
    return NULL;
}

void race_end(struct race *race)
{
    if (!race)
        return;
    exec_pages_free(&race->pages);
    free(race->released);
    free(race->shared);
    free(race);
}

void race_block_begin(struct block *block)
{
    block->epoch = 0;
    block->acquired = 0;
    for (uint32_t i = 0; i < block->warp_count; i++)
        block->warps[i].epoch = 0;
    for (uint32_t i = 0; i < block->lane_count; i++)
        block->lanes[i].released = block->lanes[i].acquired = 0;
}

/* NULL: out of memory; then nothing is said about the word. */
static struct cell *cell_of(struct race *race, const struct block *block, uint64_t address)
{
    if (address >> 48) {
        if (race->shared_of != block->number + 1)
            memset(race->shared, 0, race->shared_cells * sizeof *race->shared);
        race->shared_of = block->number + 1;
        return &race->shared[(address & (WINDOW_BASE(1) - 1)) / 4];
    }
    struct cell *cells =
        exec_pages_at(&race->pages, address >> PAGE_SHIFT, CELLS * sizeof(struct cell));
    return cells ? &cells[address / 4 % CELLS] : NULL;
}

static bool is_strong(const struct ptx_form *form)
{
    static const uint16_t words[] = {PTX_MOD_volatile, PTX_MOD_relaxed, PTX_MOD_acquire,
                                     PTX_MOD_release,  PTX_MOD_acq_rel, PTX_MOD_mmio};
    if (form->op == PTX_OP_atom || form->op == PTX_OP_red ||
        !strncmp(form->text, "mbarrier", strlen("mbarrier")))
        return true;
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        if (ptx_has(form, words[i]))
            return true;
    return false;
}

static bool ordered(const struct lane *lane, const struct race *race, const struct mark *m)
{
    const struct block *block = lane->block;
    if (m->block != (uint32_t)block->number)
        return !race->released || (race->released[m->block] > m->when && block->acquired > m->when);
    if (m->epoch != block->epoch)
        return true;
    if (m->thread / WARP == lane->index / WARP && m->warp_epoch != lane->warp->epoch)
        return true;
    return block->lanes[m->thread].released > m->when && lane->acquired > m->when;
}

static bool conflict(const struct lane *lane, const struct race *race, const struct mark *old,
                     const struct mark *now)
{
    return old->bytes & now->bytes && !(old->strong && now->strong) &&
           (old->block != now->block || old->thread != now->thread) && !ordered(lane, race, old);
}

static bool report(struct lane *lane, const struct mark *old, const char *did, uint64_t address,
                   uint32_t size, bool write)
{
    const struct kg_launch *launch = &lane->block->worker->launch->config->launch;
    uint32_t x = launch->block.x, y = launch->block.y, gx = launch->grid.x, gy = launch->grid.y;
    return lane_fault(
        lane, EXEC_RACE,
        "%s of %u bytes at %s0x%llx races with a %s in PTX line %u by block (%u,%u,%u), thread "
        "(%u,%u,%u)",
        write ? "write" : "read", size, address >> 48 ? "shared address " : "",
        (unsigned long long)(address & (WINDOW_BASE(1) - 1)), did, old->line, old->block % gx,
        old->block / gx % gy, old->block / gx / gy, old->thread % x, old->thread / x % y,
        old->thread / x / y);
}

static void remember(struct cell *cell, const struct mark *now, bool write)
{
    if (write) {
        cell->write = *now;
        return;
    }
    if (cell->read.bytes && (cell->read.thread != now->thread || cell->read.block != now->block))
        cell->other = cell->read;
    cell->read = *now;
}

bool race_access(struct lane *lane, uint64_t address, const unsigned char *at, uint32_t size,
                 bool write)
{
    struct block *block = lane->block;
    struct race *race = block->worker->race;
    const struct ptx_instr *instr = lane->pc ? lane->pc->instr : NULL;
    struct mark now = {.when = ++race->clock,
                       .block = (uint32_t)block->number,
                       .thread = lane->index,
                       .epoch = block->epoch,
                       .warp_epoch = lane->warp->epoch,
                       .line = instr ? instr->place.line : 0,
                       .strong = instr && is_strong(instr->form)};
    bool same = write && lane->stores && !memcmp(at, lane->stores, size);
    for (uint64_t word = address & ~UINT64_C(3); word < address + size; word += 4) {
        struct cell *cell = cell_of(race, block, word);
        uint64_t first = word < address ? address - word : 0;
        uint64_t end = address + size < word + 4 ? address + size - word : 4;
        now.bytes = (uint8_t)(((1u << end) - 1) & ~((1u << first) - 1));
        if (!cell)
            continue;
        if (!same && conflict(lane, race, &cell->write, &now))
            return report(lane, &cell->write, "write", address, size, write);
        if (write && conflict(lane, race, &cell->read, &now))
            return report(lane, &cell->read, "read", address, size, write);
        if (write && conflict(lane, race, &cell->other, &now))
            return report(lane, &cell->other, "read", address, size, write);
        remember(cell, &now, write);
    }
    if (now.strong)
        race_order(lane);
    return true;
}

/* The lane did something that releases or acquires: each counts as both. */
void race_order(struct lane *lane)
{
    struct block *block = lane->block;
    struct race *race = block->worker->race;
    uint64_t now = ++race->clock;
    lane->released = lane->acquired = block->acquired = now;
    if (race->released)
        race->released[block->number] = now;
}
