/* Warp collectives: shuffles, votes, matches, reductions, and the barrier of a warp. A lane that
 * reaches one waits here until every live lane that its member mask names stands at the same one;
 * then all of them go on together. */
#include "exec_core.h"

#include <string.h>

/* Slot of the member mask; activemask has none. */
static uint32_t mask_slot(const struct code *c)
{
    switch (c->instr->form->op) {
    case PTX_OP_shfl:
        return c->m;
    case PTX_OP_bar_warp_sync:
    case PTX_OP_elect:
        return c->a;
    default:
        return c->b;
    }
}

static uint32_t mask_of(const struct lane *lane)
{
    return lane->R[mask_slot(lane->pc)].u32;
}

static bool asks_activity(const struct lane *lane)
{
    return lane->pc->instr->form->op == PTX_OP_activemask;
}

/* Lanes that take part with `lane`, itself included; 0: some are not there yet. */
static uint32_t participants(const struct lane *lanes, uint32_t count, uint32_t index, bool loose)
{
    const struct lane *self = &lanes[index];
    uint32_t mask = mask_of(self) | 1u << index, present = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct lane *other = &lanes[i];
        if (!(mask >> i & 1) || other->state == DONE)
            continue;
        bool same = other->state == AT_COLLECTIVE && !asks_activity(other) &&
                    (other->pc == self->pc || (loose && !self->pc->matrix &&
                                               other->pc->instr->form == self->pc->instr->form)) &&
                    (mask_of(other) | 1u << i) == (mask_of(self) | 1u << i);
        if (!same)
            return 0;
        present |= 1u << i;
    }
    return present;
}

/* ---- what the operations compute ------------------------------------------------------------- */

/* The lane that `self` reads from, or -1: out of range, it keeps its own value. */
static int shuffle_source(const struct code *c, const union slot *R, uint32_t self)
{
    uint32_t b = R[c->b].u32 & 31, bounds = R[c->c].u32;
    uint32_t clamp = bounds & 31, segment = bounds >> 8 & 31;
    uint32_t most = (self & segment) | (clamp & ~segment);
    uint32_t least = self & segment;
    int32_t from;
    switch (c->kind) {
    case PTX_MOD_up:
        from = (int32_t)self - (int32_t)b;
        return from >= (int32_t)most ? from : -1;
    case PTX_MOD_down:
        from = (int32_t)(self + b);
        return from <= (int32_t)most ? from : -1;
    case PTX_MOD_bfly:
        from = (int32_t)(self ^ b);
        return from <= (int32_t)most ? from : -1;
    default: /* idx */
        from = (int32_t)(least | (b & ~segment));
        return from <= (int32_t)most ? from : -1;
    }
}

static void shuffle(struct lane *lanes, uint32_t present)
{
    uint64_t values[WARP];
    for (uint32_t i = 0; i < WARP; i++)
        if (present >> i & 1)
            values[i] = lanes[i].R[lanes[i].pc->a].u32;
    for (uint32_t i = 0; i < WARP; i++) {
        if (!(present >> i & 1))
            continue;
        const struct code *c = lanes[i].pc;
        int from = shuffle_source(c, lanes[i].R, i);
        bool there = from >= 0 && (present >> from & 1);
        lanes[i].R[c->p].u64 = from >= 0; /* slot 0 if there is no predicate */
        /* from a lane that does not take part: 0, as the hardware has it */
        lanes[i].R[c->d].u64 = there ? values[from] : from >= 0 ? 0 : values[i];
    }
}

static void vote(struct lane *lanes, uint32_t present)
{
    uint32_t yes = 0;
    for (uint32_t i = 0; i < WARP; i++)
        if (present >> i & 1 && lanes[i].R[lanes[i].pc->a].u32)
            yes |= 1u << i;
    for (uint32_t i = 0; i < WARP; i++) {
        if (!(present >> i & 1))
            continue;
        const struct code *c = lanes[i].pc;
        uint32_t out = c->kind == PTX_MOD_all   ? yes == present
                       : c->kind == PTX_MOD_any ? yes != 0
                       : c->kind == PTX_MOD_uni ? yes == 0 || yes == present
                                                : yes;
        lanes[i].R[c->d].u64 = out;
    }
}

static void match(struct lane *lanes, uint32_t present)
{
    uint32_t found[WARP] = {0};
    for (uint32_t i = 0; i < WARP; i++)
        for (uint32_t k = 0; present >> i & 1 && k < WARP; k++) {
            if (!(present >> k & 1))
                continue;
            union slot a = lanes[i].R[lanes[i].pc->a], b = lanes[k].R[lanes[k].pc->a];
            bool wide = ptx_types[lanes[i].pc->type].bits == 64;
            if (wide ? a.u64 == b.u64 : a.u32 == b.u32)
                found[i] |= 1u << k;
        }
    for (uint32_t i = 0; i < WARP; i++) {
        if (!(present >> i & 1))
            continue;
        const struct code *c = lanes[i].pc;
        bool all = found[i] == present;
        lanes[i].R[c->p].u64 = all;
        lanes[i].R[c->d].u64 = c->kind == PTX_MOD_all ? (all ? present : 0) : found[i];
    }
}

static uint32_t reduce_two(unsigned kind, bool is_signed, uint32_t a, uint32_t b)
{
    bool less = is_signed ? (int32_t)a < (int32_t)b : a < b;
    switch (kind) {
    case PTX_MOD_add:
        return a + b;
    case PTX_MOD_and:
        return a & b;
    case PTX_MOD_or:
        return a | b;
    case PTX_MOD_xor:
        return a ^ b;
    case PTX_MOD_min:
        return less ? a : b;
    default:
        return less ? b : a;
    }
}

static void reduce(struct lane *lanes, uint32_t present)
{
    uint32_t first = (uint32_t)__builtin_ctz(present);
    const struct code *c = lanes[first].pc;
    uint32_t all = lanes[first].R[c->a].u32;
    for (uint32_t i = first + 1; i < WARP; i++)
        if (present >> i & 1)
            all = reduce_two(c->kind, c->type == PTX_TYPE_s32, all, lanes[i].R[lanes[i].pc->a].u32);
    for (uint32_t i = first; i < WARP; i++)
        if (present >> i & 1)
            lanes[i].R[lanes[i].pc->d].u64 = all;
}

static void elect(struct lane *lanes, uint32_t present)
{
    uint32_t first = (uint32_t)__builtin_ctz(present);
    for (uint32_t i = first; i < WARP; i++) {
        if (!(present >> i & 1))
            continue;
        lanes[i].R[lanes[i].pc->p].u64 = i == first;
        lanes[i].R[lanes[i].pc->d].u64 = first;
    }
}

/* False: a fault. */
static bool happen(struct lane *lanes, uint32_t who, uint32_t present)
{
    switch (lanes[who].pc->instr->form->op) {
    case PTX_OP_shfl:
        shuffle(lanes, present);
        break;
    case PTX_OP_vote:
        vote(lanes, present);
        break;
    case PTX_OP_match:
        match(lanes, present);
        break;
    case PTX_OP_redux:
        reduce(lanes, present);
        break;
    case PTX_OP_elect:
        elect(lanes, present);
        break;
    case PTX_OP_activemask:
        for (uint32_t i = 0; i < WARP; i++)
            if (present >> i & 1)
                lanes[i].R[lanes[i].pc->d].u64 = present;
        break;
    case PTX_OP_bar_warp_sync:
        break;
    default:
        if (!matrix_happen(lanes, present))
            return false;
    }
    lanes->warp->epoch += !asks_activity(&lanes[who]);
    for (uint32_t i = 0; i < WARP; i++) {
        if (!(present >> i & 1))
            continue;
        lanes[i].pc++;
        lanes[i].state = READY;
    }
    return true;
}

/* Lanes that wait at the same activemask as `index`. */
static uint32_t active_with(const struct lane *lanes, uint32_t count, uint32_t index)
{
    uint32_t present = 0;
    for (uint32_t i = 0; i < count; i++)
        if (lanes[i].state == AT_COLLECTIVE && lanes[i].pc == lanes[index].pc)
            present |= 1u << i;
    return present;
}

bool warp_collect(struct lane *lanes, uint32_t count, bool loose, bool quiet)
{
    bool any = false;
    for (uint32_t i = 0; i < count; i++) {
        if (lanes[i].state != AT_COLLECTIVE || asks_activity(&lanes[i]))
            continue;
        uint32_t present = participants(lanes, count, i, loose);
        any |= present && happen(lanes, i, present);
    }
    if (any || !quiet)
        return any;
    /* only when nothing else moves: then those who wait together are the active ones */
    for (uint32_t i = 0; i < count; i++) {
        if (lanes[i].state != AT_COLLECTIVE || !asks_activity(&lanes[i]))
            continue;
        return happen(lanes, i, active_with(lanes, count, i));
    }
    return false;
}
