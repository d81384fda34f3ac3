/* The inner loop: executes a group of lanes of one warp in lockstep until they have to wait for
 * others, part, end, fault, or have used up their time slice. Of lanes that part, those at the
 * lower place go on, so that they meet the others there. */
#include "exec_core.h"

#include <string.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define EACH(lanes, i)                                                                             \
    for (uint32_t rest_##i = (lanes), i; rest_##i && (i = (uint32_t)__builtin_ctz(rest_##i), 1);   \
         rest_##i &= rest_##i - 1)

/* Where the lanes stand, for whoever looks at them one by one. */
static void stand(struct group *g, uint32_t mask, const struct code *pc)
{
    EACH(mask, i)
    g->warp->lanes[i].pc = pc;
}

/* All lanes of the group stand at pc (those that a guard left out, behind it), in this state. */
static enum group_end leave(struct group *g, const struct code *pc, enum lane_state state)
{
    stand(g, g->mask, pc);
    if (state != READY)
        EACH(g->mask, i)
    g->warp->lanes[i].state = (uint8_t)state;
    if (g->rejoin)
        stand(g, g->outer & ~g->mask, g->rejoin);
    return GROUP_LEFT;
}

static uint32_t lanes_with(const struct group *g, uint32_t slot)
{
    const union slot *values = g->R + slot;
    uint32_t out = 0;
    for (uint32_t i = 0; i < WARP; i++)
        out |= (uint32_t)(values[i].u32 != 0) << i;
    return out & g->mask;
}

static void stop_at(struct group *g, const struct code *place)
{
    if (!g->stop || place < g->stop)
        g->stop = place;
}

/* The lanes of `taken` go to target, the others of the group to the next place. */
static enum group_end branch(struct group *g, uint32_t taken, const struct code *target)
{
    const struct code *next = g->c + 1;
    if (!taken) {
        g->c = next;
        return GROUP_RUNS;
    }
    if (taken == g->mask) {
        g->c = target;
    } else if (target > next) {
        stand(g, taken, target);
        stop_at(g, target);
        g->mask &= ~taken;
        g->c = next;
    } else {
        stand(g, g->mask & ~taken, next);
        stop_at(g, next);
        g->mask = taken;
        g->c = target;
    }
    if (likely(--g->fuel))
        return GROUP_RUNS;
    leave(g, g->c, READY);
    return GROUP_TIRED;
}

static enum group_end branch_indexed(struct group *g)
{
    const struct code *c = g->c;
    EACH(g->mask, i)
    {
        uint32_t index = g->R[c->a + i].u32;
        struct lane *lane = &g->warp->lanes[i];
        lane->pc = c;
        if (index >= c->list[0]) {
            lane_fault(lane, EXEC_TRAP, "branch index %u is beyond %u targets", index, c->list[0]);
            return GROUP_FAULT;
        }
        lane->pc = g->first + c->list[1 + index];
    }
    return --g->fuel ? GROUP_LEFT : GROUP_TIRED;
}

/* A guarded instruction that is no branch: those whose guard says no wait behind it. */
static enum group_end guard(struct group *g, uint32_t skip)
{
    const struct code *behind = g->first + g->c->imm;
    if (skip == g->mask) {
        g->c = behind;
        return GROUP_RUNS;
    }
    if (skip) {
        g->outer = g->mask;
        g->rejoin = behind;
        g->mask &= ~skip;
    }
    g->c++;
    return GROUP_RUNS;
}

static uint64_t timer(const struct group *g, unsigned special)
{
    uint64_t executed = g->warp->block->clock;
    switch (special) {
    case PTX_SR_clock:
        return (uint32_t)executed;
    case PTX_SR_clock_hi:
        return executed >> 32;
    case PTX_SR_clock64:
        return executed;
    case PTX_SR_globaltimer_lo:
        return (uint32_t)now_ns();
    case PTX_SR_globaltimer_hi:
        return now_ns() >> 32;
    default:
        return now_ns();
    }
}

static void put_same(struct group *g, uint32_t slot, uint64_t value)
{
    EACH(g->mask, i)
    g->R[slot + i].u64 = value;
}

static void move(struct group *g)
{
    const union slot *from = g->R + g->c->a;
    union slot *to = g->R + g->c->d;
    if (g->mask == UINT32_MAX) {
        memmove(to, from, WARP * sizeof *to);
        return;
    }
    EACH(g->mask, i)
    to[i] = from[i];
}

static void load_param(struct group *g)
{
    uint64_t bits;
    memcpy(&bits, g->warp->block->worker->launch->params + g->c->imm, sizeof bits);
    put_same(g, g->c->d, bits & (~UINT64_C(0) >> (64 - 8 * g->c->width)));
}

static void count_atomic(struct group *g, const struct code *c)
{
    uint64_t address[WARP];
    EACH(g->mask, i)
    address[i] = operand_address(c, g->R + i);
    model_atomic(g, c, address, ptx_types[c->type].bits / 8);
}

static bool is_fence(const struct code *c)
{
    return c->slow == slow_fence &&
           (c->instr->form->op == PTX_OP_membar || c->instr->form->op == PTX_OP_fence);
}

static enum group_end lane_by_lane(struct group *g)
{
    const struct code *c = g->c;
    if (g->warp->block->worker->race && is_fence(c))
        EACH(g->mask, i)
    race_order(&g->warp->lanes[i]);
    bool atomic = c->slow == slow_atomic || c->slow == slow_wide_atomic;
    if (atomic && g->warp->block->worker->model)
        count_atomic(g, c);
    EACH(g->mask, i)
    {
        g->warp->lanes[i].pc = c; /* for a fault's text */
        if (!c->slow(&g->warp->lanes[i], g->R + i, c))
            return GROUP_FAULT;
    }
    g->c++;
    return GROUP_RUNS;
}

static enum group_end call(struct group *g)
{
    const struct code *c = g->c;
    leave(g, c + 1, READY);
    EACH(g->mask, i)
    if (!lane_call(&g->warp->lanes[i], c))
        return GROUP_FAULT;
    return GROUP_LEFT;
}

static enum group_end back(struct group *g)
{
    leave(g, g->c, READY);
    EACH(g->mask, i)
    lane_return(&g->warp->lanes[i]);
    return GROUP_LEFT;
}

static enum group_end barrier(struct group *g)
{
    const struct code *c = g->c;
    EACH(g->mask, i)
    {
        uint32_t id = g->R[c->a + i].u32;
        struct lane *lane = &g->warp->lanes[i];
        lane->pc = c;
        if (id >= BARRIERS ||
            (id == CLUSTER_BARRIER) != (c->instr->form->op == PTX_OP_barrier_cluster_wait)) {
            lane_fault(lane, EXEC_TRAP, "barrier %u does not exist", id);
            return GROUP_FAULT;
        }
        if (c->op == X_arrive)
            lane->block->arrived[id]++;
    }
    if (c->op == X_barrier)
        return leave(g, c, AT_BARRIER);
    leave(g, c + 1, READY);
    return GROUP_TIRED; /* the barrier may be complete now */
}

static enum group_end fault(struct group *g, enum exec_fault kind, const char *text)
{
    struct lane *lane = &g->warp->lanes[__builtin_ctz(g->mask)];
    lane->pc = g->c;
    lane_fault(lane, kind, "%s%s", text, kind == EXEC_UNSUPPORTED ? " is not implemented" : "");
    return GROUP_FAULT;
}

/* What is no row. */
static enum group_end step(struct group *g)
{
    const struct code *c = g->c;
    switch ((enum exec_op)c->op) {
    case X_mov:
        move(g);
        break;
    case X_load:
        if (!group_load(g, c))
            return GROUP_FAULT;
        break;
    case X_store:
        if (!group_store(g, c))
            return GROUP_FAULT;
        break;
    case X_ld_param:
        load_param(g);
        break;
    case X_special:
        put_same(g, c->d, timer(g, c->a));
        break;
    case X_slow:
        return lane_by_lane(g);
    case X_skip_if:
        return guard(g, lanes_with(g, c->a));
    case X_skip_unless:
        return guard(g, g->mask & ~lanes_with(g, c->a));
    case X_negate:
        EACH(g->mask, i)
        g->R[c->d + i].u64 = !g->R[c->a + i].u32;
        break;
    case X_bra_if:
        return branch(g, lanes_with(g, c->a), g->first + c->imm);
    case X_bra_unless:
        return branch(g, g->mask & ~lanes_with(g, c->a), g->first + c->imm);
    case X_bra:
        return branch(g, g->mask, g->first + c->imm);
    case X_brx:
        return branch_indexed(g);
    case X_call:
        return call(g);
    case X_ret:
        return back(g);
    case X_exit:
        return leave(g, c, DONE);
    case X_trap:
        return fault(g, EXEC_TRAP, "trap");
    case X_yield:
        leave(g, c + 1, READY);
        return GROUP_TIRED;
    case X_barrier:
    case X_arrive:
        return barrier(g);
    case X_collective:
        return leave(g, c, AT_COLLECTIVE);
    default:
        return fault(g, EXEC_UNSUPPORTED, c->instr->form->text);
    }
    g->c++;
    return GROUP_RUNS;
}

/* Guards and negated operands count as no instruction. */
static bool counts(const struct code *c)
{
    return c->op != X_skip_if && c->op != X_skip_unless && c->op != X_negate;
}

enum group_end group_run(struct group *g)
{
    struct block *block = g->warp->block;
    uint64_t executed = 0, lanes = 0;
    uint32_t counted = 0; /* mask that lanes are the number of */
    enum group_end end = GROUP_RUNS;
    bool model = block->worker->model != NULL;
    while (end == GROUP_RUNS) {
        const struct code *c = g->c;
        if (c == g->rejoin) {
            g->mask = g->outer;
            g->rejoin = NULL;
        }
        if (g->stop && c >= g->stop) {
            end = leave(g, c, READY);
            break;
        }
        if (counted != g->mask) {
            counted = g->mask;
            lanes = (uint64_t)__builtin_popcount(counted);
        }
        if (model && c->op != X_load && c->op != X_store)
            model_instruction(g, c);
        if (likely(c->row != NULL)) {
            executed += lanes;
            block->clock++;
            c->row(g->R, c, g->mask);
            g->c++;
            continue;
        }
        if (counts(c)) {
            executed += lanes;
            block->clock++;
        }
        end = step(g);
    }
    block->worker->instructions += executed;
    return end;
}
