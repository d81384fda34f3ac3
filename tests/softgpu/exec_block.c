/* One block: its warps run one after another, each until it waits for others; then barriers are
 * completed, and the next round begins. Within a warp the lanes at the lowest place of the code run
 * first, so that those which parted meet again. */
#include "exec_core.h"

#include <string.h>

enum { SLICE = 1 << 10, ROUNDS = 256 }; /* taken branches a slice; rounds until others may run */

uint64_t special_value(const struct lane *lane, unsigned special, unsigned component)
{
    const struct block *block = lane->block;
    const struct kg_launch *launch = &block->worker->launch->config->launch;
    const uint32_t ntid[] = {launch->block.x, launch->block.y, launch->block.z, 0};
    const uint32_t nctaid[] = {launch->grid.x, launch->grid.y, launch->grid.z, 0};
    unsigned axis = component ? component - 1 : 0, warp_lane = lane->index % WARP;
    bool real = axis < 3;
    switch (special) {
    case PTX_SR_tid:
        return real ? lane->tid[axis] : 0;
    case PTX_SR_ntid:
        return ntid[axis];
    case PTX_SR_ctaid:
    case PTX_SR_clusterid: /* every block is a cluster of its own */
        return real ? block->ctaid[axis] : 0;
    case PTX_SR_nctaid:
    case PTX_SR_nclusterid:
        return nctaid[axis];
    case PTX_SR_cluster_nctaid:
    case PTX_SR_cluster_nctarank:
        return 1;
    case PTX_SR_laneid:
        return warp_lane;
    case PTX_SR_warpid:
        return lane->index / WARP;
    case PTX_SR_nwarpid:
        return (block->lane_count + WARP - 1) / WARP;
    case PTX_SR_smid:
        return block->number % 16;
    case PTX_SR_nsmid:
        return 16;
    case PTX_SR_lanemask_eq:
        return 1u << warp_lane;
    case PTX_SR_lanemask_lt:
        return (1u << warp_lane) - 1;
    case PTX_SR_lanemask_le:
        return (2u << warp_lane) - 1;
    case PTX_SR_lanemask_ge:
        return ~((1u << warp_lane) - 1);
    case PTX_SR_lanemask_gt:
        return ~((2u << warp_lane) - 1);
    case PTX_SR_dynamic_smem_size:
        return launch->shared;
    case PTX_SR_total_smem_size:
    case PTX_SR_aggr_smem_size:
        return block->worker->launch->shared_bytes;
    case PTX_SR_envreg1: /* where cooperative groups look for their workspace */
        return (uint32_t)(block->worker->launch->config->workspace >> 32);
    case PTX_SR_envreg2:
        return (uint32_t)block->worker->launch->config->workspace;
    default: /* %envreg, %pm, %gridid, %cluster_ctaid, ...: 0 */
        return 0;
    }
}

void block_begin(struct block *block, uint64_t number)
{
    const struct launch *launch = block->worker->launch;
    const struct kg_dim *grid = &launch->config->launch.grid, *dim = &launch->config->launch.block;
    block->number = number;
    block->ctaid[0] = (uint32_t)(number % grid->x);
    block->ctaid[1] = (uint32_t)(number / grid->x % grid->y);
    block->ctaid[2] = (uint32_t)(number / grid->x / grid->y);
    block->live = block->lane_count = launch->lane_count;
    block->clock = 0;
    memset(block->arrived, 0, sizeof block->arrived);
    /* memory starts dirty: a kernel that relies on zeros shall be seen to be wrong */
    memset(block->shared, launch->dirt, launch->shared_bytes);
    memset(block->local, launch->dirt, (size_t)launch->local_bytes * launch->lane_count);
    for (uint32_t i = 0; i < block->lane_count; i++) {
        struct lane *lane = &block->lanes[i];
        lane->block = block;
        lane->warp = &block->warps[i / WARP];
        lane->index = i;
        lane->tid[0] = i % dim->x;
        lane->tid[1] = i / dim->x % dim->y;
        lane->tid[2] = i / dim->x / dim->y;
        lane->state = READY;
        lane->carry = 0;
        lane->allocated = 0;
        lane->local = block->local + (size_t)i * launch->local_bytes;
    }
    for (uint32_t i = 0; i < block->warp_count; i++)
        warp_begin(&block->warps[i]);
    if (block->worker->model)
        model_block_begin(block);
    if (launch->config->strict)
        strict_block_begin(block);
    block->used = true;
}

/* ---- barriers -------------------------------------------------------------------------------- */

static bool waits_at(const struct lane *lane, uint32_t id)
{
    return lane->state == AT_BARRIER && lane->R[lane->pc->a].u32 == id;
}

static uint32_t barrier_reduce(struct block *block, const struct lane *first, uint32_t id)
{
    uint32_t count = 0, waiting = 0;
    for (uint32_t i = 0; i < block->lane_count; i++) {
        const struct lane *lane = &block->lanes[i];
        if (!waits_at(lane, id))
            continue;
        waiting++;
        count += lane->R[lane->pc->c].u32 != 0;
    }
    return first->pc->kind == PTX_MOD_popc  ? count
           : first->pc->kind == PTX_MOD_and ? count == waiting
                                            : count != 0;
}

/* bar.* and barrier.*.aligned want the live threads of a warp at one instruction: else what happens
 * is undefined. */
static bool barrier_aligned(const struct warp *warp, uint32_t id)
{
    struct lane *first = NULL;
    for (uint32_t i = 0; i < warp->count && !first; i++)
        first = waits_at(&warp->lanes[i], id) ? &warp->lanes[i] : NULL;
    if (!first || (strncmp(first->pc->instr->form->text, "bar.", 4) &&
                   !ptx_has(first->pc->instr->form, PTX_MOD_aligned)))
        return true;
    for (uint32_t i = 0; i < warp->count; i++) {
        const struct lane *other = &warp->lanes[i];
        if (other->state == DONE || (waits_at(other, id) && other->pc == first->pc))
            continue;
        return lane_fault(
            first, EXEC_DIVERGENT,
            "divergent barrier: %s is reached by a part of the warp, thread (%u,%u,%u) "
            "of it is at PTX line %u",
            first->pc->instr->form->text, other->tid[0], other->tid[1], other->tid[2],
            other->pc->instr ? other->pc->instr->place.line : 0);
    }
    return true;
}

/* Lets barrier `id` complete if enough threads are there. */
static bool barrier_complete(struct block *block, uint32_t id)
{
    const struct lane *first = NULL;
    uint32_t waiting = 0, result;
    for (uint32_t i = 0; i < block->lane_count; i++) {
        const struct lane *lane = &block->lanes[i];
        if (!waits_at(lane, id))
            continue;
        first = first ? first : lane;
        waiting++;
    }
    if (!first)
        return false;
    uint32_t expected = first->R[first->pc->b].u32;
    if (!expected) /* threads that have ended count no more */
        expected = block->live;
    else if (expected > block->lane_count) /* a count of whole warps, the last one not full */
        expected = block->lane_count;
    if (waiting + block->arrived[id] < expected)
        return false;
    for (uint32_t i = 0; i < block->warp_count; i++)
        if (!barrier_aligned(&block->warps[i], id))
            return false;
    block->epoch++;
    result = first->pc->kind ? barrier_reduce(block, first, id) : 0;
    block->arrived[id] = 0;
    if (block->worker->model && expected == block->live)
        model_meet(block);
    for (uint32_t i = 0; i < block->lane_count; i++) {
        struct lane *lane = &block->lanes[i];
        if (!waits_at(lane, id))
            continue;
        if (lane->pc->kind)
            lane->R[lane->pc->d].u64 = result;
        lane->pc++;
        lane->state = READY;
    }
    return true;
}

static bool barriers_complete(struct block *block)
{
    bool any = false;
    for (uint32_t id = 0; id < BARRIERS; id++)
        any |= barrier_complete(block, id);
    return any;
}

/* ---- scheduling ------------------------------------------------------------------------------ */

static bool stopped(const struct block *block)
{
    struct launch *launch = block->worker->launch;
    if (launch->config->cancel && __atomic_load_n(launch->config->cancel, __ATOMIC_RELAXED))
        lane_fault(&block->lanes[0], EXEC_CANCELLED, "cancelled");
    if (launch->config->budget && block->worker->instructions > launch->config->budget)
        lane_fault(&block->lanes[0], EXEC_CANCELLED, "has run for %llu instructions",
                   (unsigned long long)block->worker->instructions);
    return __atomic_load_n(&launch->stop, __ATOMIC_ACQUIRE);
}

/* Of the ready lanes that are not tired: those deepest in calls, at the lowest place. */
static bool choose(struct warp *warp, uint32_t tired, struct group *g)
{
    const struct lane *best = NULL;
    *g = (struct group){.warp = warp, .fuel = g->fuel};
    for (uint32_t i = 0; i < warp->count; i++) {
        const struct lane *lane = &warp->lanes[i];
        if (lane->state == READY && !(tired >> i & 1) &&
            (!best || lane->depth > best->depth ||
             (lane->depth == best->depth && lane->pc < best->pc)))
            best = lane;
    }
    if (!best)
        return false;
    g->c = best->pc;
    g->first = best->func->code;
    g->R = best->R - best->index % WARP;
    for (uint32_t i = 0; i < warp->count; i++) {
        const struct lane *lane = &warp->lanes[i];
        if (lane->state != READY || tired >> i & 1 || lane->func != best->func ||
            lane->R - i != g->R)
            continue;
        if (lane->pc == g->c)
            g->mask |= 1u << i;
        else if (lane->pc > g->c && (!g->stop || lane->pc < g->stop))
            g->stop = lane->pc;
    }
    return true;
}

static uint32_t done_of(const struct warp *warp, uint32_t mask)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < warp->count; i++)
        count += mask >> i & 1 && warp->lanes[i].state == DONE;
    return count;
}

/* Every ready lane of a warp, and its collectives, until none is ready whose slice has not run out.
 * False: the launch is over. */
static bool warp_run(struct block *block, struct warp *warp, bool *ready)
{
    uint32_t tired = 0;
    struct group group = {.fuel = SLICE};
    do {
        while (choose(warp, tired, &group)) {
            uint32_t mask = group.mask;
            enum group_end end = group_run(&group);
            if (end == GROUP_FAULT)
                return false;
            block->live -= done_of(warp, mask);
            if (end != GROUP_TIRED)
                continue;
            tired |= group.mask;
            group.fuel = SLICE;
            if (stopped(block))
                return false;
        }
        /* a tired one may be spinning on what those who wait will do */
    } while (warp_collect(warp->lanes, warp->count, false, !tired));
    *ready = tired != 0;
    return true;
}

static bool collect_loosely(struct block *block)
{
    bool any = false;
    for (uint32_t i = 0; i < block->warp_count; i++)
        any |= warp_collect(block->warps[i].lanes, block->warps[i].count, true, true);
    return any;
}

static enum block_end deadlock(const struct block *block)
{
    for (uint32_t i = 0; i < block->lane_count; i++) {
        struct lane *lane = &block->lanes[i];
        if (lane->state != AT_BARRIER && lane->state != AT_COLLECTIVE)
            continue;
        lane_fault(lane, EXEC_DEADLOCK, "waits at %s, which cannot complete",
                   lane->pc->instr->form->text);
        break;
    }
    return BLOCK_FAULT;
}

enum block_end block_run(struct block *block)
{
    for (unsigned round = 0; block->live; round++) {
        bool ready = false;
        if (stopped(block))
            return BLOCK_FAULT;
        for (uint32_t i = 0; i < block->warp_count; i++) {
            bool unfinished = false;
            if (!warp_run(block, &block->warps[i], &unfinished))
                return BLOCK_FAULT;
            ready |= unfinished;
        }
        if (!block->live)
            break;
        bool moved = barriers_complete(block);
        if (ready && round >= ROUNDS)
            return BLOCK_YIELDS;
        if (!ready && !moved && !collect_loosely(block))
            return deadlock(block);
    }
    return BLOCK_DONE;
}
