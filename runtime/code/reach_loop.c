/* Loops: variables that change by the same amount each time round, and inequalities that hold each
 * time round. Both are guessed from one pass over the function and checked by the next ones; what
 * does not follow from the rest, at the loop's entry and from one turn to the next, is thrown out,
 * until what is left proves itself. */
#include "reach_parts.h"

enum { WIDEN_AFTER = 3, GIVE_UP_AFTER = 6, NARROWED = 100 };

static struct form trip_of(struct reaching *r, uint32_t loop)
{
    return form_symbol(&r->affine, r->loops[loop].trip);
}

/* Symbols of the form are from outside the loop, or its trip; and none is a left-over of an
 * earlier pass. */
static bool from_outside(struct reaching *r, const struct form *form, uint32_t loop)
{
    uint32_t header = r->graph->loops[loop].header;
    for (uint32_t i = 0; i < form->count; i++) {
        const struct monomial *mono = &r->affine.monos[form->terms[i].mono];
        for (uint32_t s = 0; s < mono->count; s++) {
            const struct symbol *symbol = &r->affine.symbols[mono->symbols[s]];
            bool alive = symbol->pass == PASS_ALWAYS || symbol->pass == r->pass;
            bool outside = !graph_in_loop(r->graph, loop, symbol->block) &&
                           graph_dominates(r->graph, symbol->block, header);
            if (!alive || (!outside && mono->symbols[s] != r->loops[loop].trip))
                return false;
        }
    }
    return true;
}

/* The form with the trip moved on by `turns`. */
static bool moved(struct reaching *r, const struct form *form, uint32_t loop, int64_t turns,
                  struct form *out)
{
    struct form next = trip_of(r, loop);
    next.constant = turns;
    return form_replace(&r->affine, form, r->loops[loop].trip, &next, out);
}

static void propose(struct reaching *r, uint32_t loop, const struct form *form)
{
    struct loop_state *state = &r->loops[loop];
    if (!form_has(&r->affine, form, state->trip) || !from_outside(r, form, loop))
        return;
    for (uint32_t i = 0; i < state->count; i++)
        if (form_equal(state->candidates[i].form, form))
            return;
    const struct form *kept = state->count < CANDIDATES ? form_keep(&r->affine, form) : NULL;
    if (!kept)
        return;
    state->candidates[state->count++] = (struct candidate){kept, CANDIDATE_HOLDS};
    r->changed = true;
}

/* A guess that cannot be true is none: it must not make the loop look as if nobody came. */
const struct fact *reach_header_facts(struct reaching *r, uint32_t loop, const struct fact *facts)
{
    struct loop_state *state = &r->loops[loop];
    struct form trip = trip_of(r, loop);
    if (state->once)
        return fact_add(&r->affine, &trip, GRAPH_NONE, false, facts);
    for (uint32_t i = 0; i < state->count; i++) {
        struct candidate *candidate = &state->candidates[i];
        if (candidate->state != CANDIDATE_DEAD &&
            form_range(&r->affine, candidate->form, false).low > 0) {
            candidate->state = CANDIDATE_DEAD;
            r->changed = true;
        }
        if (candidate->state != CANDIDATE_DEAD)
            facts = fact_add(&r->affine, candidate->form,
                             candidate->state == CANDIDATE_LATER ? state->trip : GRAPH_NONE, false,
                             facts);
    }
    return facts;
}

/* ---- variables ------------------------------------------------------------------------------- */

static unsigned bits_of(const struct reaching *r, const struct graph_value *value)
{
    unsigned bits = ptx_types[r->func->regs[value->reg].type].bits;
    return bits > 64 ? 64 : bits;
}

struct form reach_header_phi(struct reaching *r, uint32_t number, const struct form *init)
{
    const struct graph_value *value = &r->graph->values[number];
    struct phi_state *phi = &r->phis[number];
    uint32_t loop = reach_headed(r, value->block);
    struct form out = trip_of(r, loop);
    if (r->loops[loop].once)
        return *init;
    if (phi->kind == PHI_STEP && phi->step && form_multiply(&r->affine, &out, phi->step, &out) &&
        form_add(&out, init, 1, &out)) {
        form_reduce(&out, bits_of(r, value));
        return out;
    }
    if (phi->kind == PHI_STEP) {
        phi->kind = PHI_ANYTHING;
        r->changed = true;
    }
    if (phi->kind == PHI_RANGE)
        return reach_unknown(r, value, 2, phi->range, phi->open, "a variable that is not affine");
    unsigned bits = bits_of(r, value);
    return reach_unknown(r, value, 1, reach_type_range(bits, true), true,
                         "a variable that is not affine");
}

/* What the phi grows by on each way round, if that is always the same. */
static bool step_of(struct reaching *r, uint32_t loop, uint32_t number, struct form *out)
{
    const struct graph_value *value = &r->graph->values[number];
    const struct graph_block *block = &r->graph->blocks[value->block];
    const struct form *own = r->values[number].form;
    bool any = false;
    for (uint32_t i = 0; i < block->pred_count && i < value->input_count; i++) {
        struct form next, step;
        if (!reach_is_latch(r, loop, block->preds[i]) || facts_never(r->facts[block->preds[i]]))
            continue;
        reach_input(r, value->inputs[i], &next);
        if (!form_add(&next, own, -1, &step))
            return false;
        form_reduce(&step, bits_of(r, value));
        if (any && !form_equal(&step, out))
            return false;
        *out = step;
        any = true;
    }
    return any && from_outside(r, out, loop) && !form_has(&r->affine, out, r->loops[loop].trip);
}

static void widen_to(struct range *range, struct range more)
{
    range->low = more.low < range->low ? more.low : range->low;
    range->high = more.high > range->high ? more.high : range->high;
}

/* Range of what comes in on all edges; strict: without what is open. */
static struct range incoming(struct reaching *r, uint32_t number, bool strict, bool entry_only)
{
    const struct graph_value *value = &r->graph->values[number];
    const struct graph_block *block = &r->graph->blocks[value->block];
    uint32_t loop = reach_headed(r, value->block);
    struct range out = {WIDE_INFINITE, -WIDE_INFINITE};
    for (uint32_t i = 0; i < block->pred_count && i < value->input_count; i++) {
        struct form form;
        if (entry_only && reach_is_latch(r, loop, block->preds[i]))
            continue;
        reach_input(r, value->inputs[i], &form);
        widen_to(&out, form_bound(&r->affine, &form, reach_edge(r, block->preds[i], value->block),
                                  strict, EFFORT_FIT));
    }
    return out;
}

static void make_anything(struct reaching *r, struct phi_state *phi)
{
    phi->kind = PHI_ANYTHING;
    r->changed = true;
}

/* Checks the range that was assumed for the phi, and widens or narrows it. */
static void check_range(struct reaching *r, uint32_t number)
{
    struct phi_state *phi = &r->phis[number];
    struct range type = reach_type_range(bits_of(r, &r->graph->values[number]), true);
    struct range all = incoming(r, number, false, false);
    bool closed = range_bounded(incoming(r, number, true, false));
    if (all.low >= phi->range.low && all.high <= phi->range.high) {
        if (!closed && !phi->open) {
            phi->open = true;
            r->changed = true;
        } else if (phi->turns > WIDEN_AFTER && phi->turns < NARROWED) {
            phi->turns = NARROWED;
            bool at_limit = all.low <= type.low || all.high >= type.high;
            r->changed |=
                at_limit != phi->open || all.low > phi->range.low || all.high < phi->range.high;
            phi->open = at_limit;
            phi->range = all;
        }
        return;
    }
    phi->turns++;
    if (phi->turns > GIVE_UP_AFTER || !range_bounded(all)) {
        make_anything(r, phi);
        return;
    }
    /* Far, but not so far that what is done with it must wrap round; then as far as can be. */
    if (phi->turns == WIDEN_AFTER)
        type = (struct range){type.low >> 4, type.high >> 4};
    if (phi->turns >= WIDEN_AFTER) {
        if (all.low < phi->range.low)
            all.low = all.low < type.low ? all.low : type.low;
        if (all.high > phi->range.high)
            all.high = all.high > type.high ? all.high : type.high;
        phi->turns = WIDEN_AFTER + 1 > phi->turns ? WIDEN_AFTER + 1 : phi->turns;
    }
    widen_to(&phi->range, all);
    r->changed = true;
}

static void check_phi(struct reaching *r, uint32_t loop, uint32_t number)
{
    struct phi_state *phi = &r->phis[number];
    struct form step;
    if (phi->kind == PHI_ANYTHING || r->loops[loop].once)
        return;
    if (phi->kind == PHI_RANGE) {
        check_range(r, number);
        return;
    }
    if (step_of(r, loop, number, &step)) {
        if (phi->kind == PHI_STEP && form_equal(&step, phi->step))
            return;
        phi->turns++;
        phi->kind = phi->turns > GIVE_UP_AFTER ? PHI_ANYTHING : PHI_STEP;
        phi->step = form_keep(&r->affine, &step);
        r->changed = true;
        return;
    }
    phi->kind = PHI_RANGE;
    phi->turns = 0;
    phi->range = incoming(r, number, false, true);
    phi->open = !range_bounded(incoming(r, number, true, true));
    r->changed = true;
    if (!range_bounded(phi->range))
        phi->kind = PHI_ANYTHING;
}

/* ---- invariants ------------------------------------------------------------------------------ */

/* That the variable does not wrap round: as a signed or an unsigned number. */
static void propose_fits(struct reaching *r, uint32_t loop, uint32_t number)
{
    const struct form *form = r->values[number].form;
    unsigned bits = bits_of(r, &r->graph->values[number]);
    int64_t limit = (int64_t)1 << (bits < 64 ? bits - 1 : 62);
    const struct symbol *open = reach_open(r, form);
    if (!form->count || (open && (open->kind == SYMBOL_POINTER || open->kind == SYMBOL_VARIABLE)))
        return;
    struct form most = form_of(1 - limit), least = form_of(-limit), unsigned_most, positive;
    struct form more = form_of(bits < 64 ? -limit : 0);
    if (!form_add(&most, form, 1, &most) || !form_add(&least, form, -1, &least) ||
        !form_add(&most, &more, 1, &unsigned_most) || !form_scale(form, -1, &positive))
        return;
    const struct form *all[] = {&positive, &most, &least, &unsigned_most};
    for (unsigned i = 0; i < 4; i++)
        propose(r, loop, all[i]);
}

/* A loop that goes on as long as a < b, or not a >= b: while it does, the variable has not wrapped
 * round, if it had not before. At the header, now or one turn ago. */
static void propose_compared(struct reaching *r, const struct form *difference, bool or_equal,
                             uint32_t self)
{
    uint32_t loop = self / 2;
    struct form form, before;
    int64_t coef = form_coef(&r->affine, difference, r->loops[loop].trip);
    if (!coef || !form_scale(difference, coef < 0 ? -1 : 1, &form))
        return;
    struct form strict = form_of(or_equal == (coef < 0));
    if (!form_add(&form, &strict, 1, &form))
        return;
    if (moved(r, &form, loop, -1, &before))
        propose(r, loop, &before);
    if (!(self & 1))
        propose(r, loop, &form);
}

static bool is_latch_block(const struct graph_loop *loop, uint32_t block)
{
    for (uint32_t i = 0; i < loop->latch_count; i++)
        if (loop->latches[i] == block)
            return true;
    return false;
}

/* A loop that goes on as long as f != 0, where f walks towards 0, ends there. */
static void propose_exits(struct reaching *r, uint32_t loop)
{
    const struct graph_loop *at = &r->graph->loops[loop];
    for (uint32_t i = 0; i < at->exit_count; i++) {
        const struct graph_block *block = &r->graph->blocks[at->exits[i].from];
        if (block->ends != GRAPH_BRANCHES || !block->guarded || block->end == block->first)
            continue;
        const struct ptx_instr *last = &r->func->instrs[block->end - 1];
        const struct cond *cond =
            last->guard == PTX_NO_REG ? NULL : reach_predicate(r, block->end - 1, last->guard);
        if (last->guard != PTX_NO_REG)
            reach_comparisons(r, graph_read(r->graph, block->end - 1, last->guard), 0,
                              propose_compared, 2 * loop + is_latch_block(at, at->exits[i].from));
        if (!cond || (cond->kind != COND_EQ && cond->kind != COND_NE))
            continue;
        struct form form;
        int64_t coef = form_coef(&r->affine, cond->form, r->loops[loop].trip);
        if (coef && form_scale(cond->form, coef < 0 ? -1 : 1, &form))
            propose(r, loop, &form);
    }
}

/* What holds at the end of a turn held, one turn ago, at the beginning of the next. */
static void propose_latch(struct reaching *r, uint32_t loop, uint32_t latch)
{
    uint32_t header = r->graph->loops[loop].header;
    const struct fact *stop = r->facts[header];
    unsigned seen = 0;
    for (const struct fact *fact = reach_edge(r, latch, header); fact && fact != stop && seen < 64;
         fact = fact->next, seen++) {
        struct form form;
        if (fact->trip == GRAPH_NONE && from_outside(r, fact->form, loop) &&
            moved(r, fact->form, loop, -1, &form))
            propose(r, loop, &form);
    }
}

static bool holds_at_entry(struct reaching *r, uint32_t loop, const struct form *form)
{
    uint32_t header = r->graph->loops[loop].header;
    const struct graph_block *block = &r->graph->blocks[header];
    struct form zero = form_of(0), first;
    if (!form_replace(&r->affine, form, r->loops[loop].trip, &zero, &first))
        return false;
    for (uint32_t i = 0; i < block->pred_count; i++)
        if (!reach_is_latch(r, loop, block->preds[i]) &&
            !form_proven(&r->affine, &first, reach_edge(r, block->preds[i], header), EFFORT_FACT))
            return false;
    return true;
}

static bool holds_next(struct reaching *r, uint32_t loop, const struct form *form)
{
    const struct graph_loop *at = &r->graph->loops[loop];
    struct form next;
    if (!moved(r, form, loop, 1, &next))
        return false;
    for (uint32_t i = 0; i < at->latch_count; i++)
        if (!form_proven(&r->affine, &next, reach_edge(r, at->latches[i], at->header), EFFORT_FACT))
            return false;
    return true;
}

static void check_candidates(struct reaching *r, uint32_t loop)
{
    struct loop_state *state = &r->loops[loop];
    for (uint32_t i = 0; i < state->count; i++) {
        struct candidate *candidate = &state->candidates[i];
        if (candidate->state == CANDIDATE_DEAD)
            continue;
        if (!from_outside(r, candidate->form, loop) || !holds_next(r, loop, candidate->form)) {
            candidate->state = CANDIDATE_DEAD;
            r->changed = true;
        } else if (candidate->state == CANDIDATE_HOLDS &&
                   !holds_at_entry(r, loop, candidate->form)) {
            candidate->state = CANDIDATE_LATER;
            r->changed = true;
        }
    }
}

/* What was thrown out while other guesses were still wrong, or not made yet, gets another chance.
 */
bool reach_revive(struct reaching *r)
{
    bool any = false;
    for (uint32_t loop = 0; loop < r->graph->loop_count; loop++)
        for (uint32_t i = 0; i < r->loops[loop].count; i++) {
            struct candidate *candidate = &r->loops[loop].candidates[i];
            any |= candidate->state != CANDIDATE_HOLDS;
            candidate->state = CANDIDATE_HOLDS;
        }
    return any;
}

void reach_loops(struct reaching *r)
{
    const struct graph *graph = r->graph;
    for (uint32_t loop = 0; loop < graph->loop_count; loop++) {
        const struct graph_loop *at = &graph->loops[loop];
        const struct graph_block *header = &graph->blocks[at->header];
        if (!header->reachable || facts_never(r->facts[at->header]))
            continue;
        r->block = at->header;
        r->instr = header->first;
        check_candidates(r, loop);
        for (uint32_t i = 0; i < header->phi_count; i++) {
            uint32_t number = header->phi_first + i;
            if (!reach_integer(r, graph->values[number].reg))
                continue;
            check_phi(r, loop, number);
            if (r->phis[number].kind == PHI_STEP && r->values[number].form)
                propose_fits(r, loop, number);
        }
        propose_exits(r, loop);
        bool again = false;
        for (uint32_t i = 0; i < at->latch_count; i++) {
            propose_latch(r, loop, at->latches[i]);
            again |= !facts_never(reach_edge(r, at->latches[i], at->header));
        }
        r->changed |= r->loops[loop].once == again;
        r->loops[loop].once = !again;
    }
}
