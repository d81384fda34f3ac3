/* What follows from the accesses: strides and coalescing, loop counts, arithmetic per byte, proofs
 * of bounds, and the threads that show an interval exact or an access out of bounds. */
#include "reach_parts.h"

enum { ALL_MAX = 2048 };

/* ---- stride and coalescing ------------------------------------------------------------------- */

/* The symbol's value in a thread of the first warp, what is the same in all of it left out. */
static bool lane_value(struct reaching *r, const struct form *form, const uint32_t tid[3],
                       wide_int *out, unsigned depth)
{
    *out = form->constant;
    for (uint32_t i = 0; i < form->count; i++) {
        const struct monomial *mono = &r->affine.monos[form->terms[i].mono];
        wide_int value = 1;
        bool uniform = false, varies = false;
        for (uint32_t s = 0; s < mono->count; s++) {
            const struct symbol *symbol = &r->affine.symbols[mono->symbols[s]];
            wide_int one = 0;
            if (symbol->kind == SYMBOL_TID)
                one = tid[symbol->axis];
            else if (symbol->kind == SYMBOL_OTHER && symbol->range.low != symbol->range.high)
                return false;
            else if (symbol->kind == SYMBOL_OTHER)
                one = symbol->range.low;
            else if (symbol->kind == SYMBOL_QUOTIENT) {
                if (depth > 3 || !lane_value(r, symbol->of, tid, &one, depth + 1))
                    return false;
                one = wide_floor(one, symbol->by);
            }
            bool own = symbol->kind == SYMBOL_TID || symbol->kind == SYMBOL_QUOTIENT;
            varies |= own;
            uniform |= !own && symbol->kind != SYMBOL_OTHER;
            value *= own || symbol->kind == SYMBOL_OTHER ? one : 1;
            if (value > WIDE_INFINITE || value < -WIDE_INFINITE)
                return false;
        }
        if (varies && uniform && value)
            return false;
        *out += uniform ? 0 : value * form->terms[i].coef;
    }
    return true;
}

void reach_coalescing(struct collecting *c, struct found *found)
{
    struct reaching *r = c->r;
    const struct kg_launch *launch = r->launch->launch;
    struct kg_dim block = launch ? launch->block : (struct kg_dim){32, 1, 1};
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    wide_int at[32], least = WIDE_INFINITE;
    unsigned lanes = threads < 32 ? (unsigned)threads : 32, sectors = 0;
    if (!found->affine || !found->access.bytes || !threads)
        return;
    for (unsigned l = 0; l < lanes; l++) {
        uint32_t tid[3] = {l % block.x, l / block.x % block.y, l / block.x / block.y};
        if (!lane_value(r, &found->rest, tid, &at[l], 0))
            return;
        least = at[l] < least ? at[l] : least;
    }
    found->access.strided = true;
    found->access.stride = lanes > 1 && block.x > 1 ? (int64_t)(at[1] - at[0]) : 0;
    for (unsigned l = 1; l + 1 < lanes && l + 1 < block.x; l++)
        if (at[l + 1] - at[l] != found->access.stride)
            found->access.strided = false;
    wide_int seen[256];
    for (unsigned l = 0; l < lanes; l++)
        for (wide_int s = (at[l] - least) / 32; s <= (at[l] - least + found->access.bytes - 1) / 32;
             s++) {
            bool known = false;
            for (unsigned k = 0; k < sectors && !known; k++)
                known = seen[k] == s;
            if (!known && sectors < 256)
                seen[sectors++] = s;
        }
    found->access.sectors = sectors;
}

/* ---- loops ----------------------------------------------------------------------------------- */

/* How often the loop's body runs each time that it is entered. */
void reach_take_loop(struct collecting *c, uint32_t loop)
{
    struct reaching *r = c->r;
    const struct graph_loop *at = &r->graph->loops[loop];
    struct reach_loop *out = &c->out->loops[loop];
    struct form trip = form_symbol(&r->affine, r->loops[loop].trip);
    *out =
        (struct reach_loop){.line = r->func->instrs[r->graph->blocks[at->header].first].place.line,
                            .depth = at->depth,
                            .parent = at->parent};
    if (facts_never(r->facts[at->header])) {
        out->known = out->uniform = true;
        return;
    }
    struct range range = form_bound(&r->affine, &trip, r->facts[at->header], true, EFFORT_REACH);
    bool test_first = true, uniform = at->exit_count > 0;
    wide_int most = range.high;
    for (uint32_t i = 0; i < at->latch_count; i++)
        test_first &= at->latches[i] != at->header;
    for (uint32_t i = 0; i < at->exit_count; i++) {
        struct range end =
            form_bound(&r->affine, &trip, reach_edge(r, at->exits[i].from, at->exits[i].to), true,
                       EFFORT_REACH);
        test_first &= at->exits[i].from == at->header;
        uniform &= end.low == most && end.high == most;
    }
    out->known = most < (wide_int)1 << 62;
    out->uniform = out->known && uniform;
    out->most = out->known ? (uint64_t)(most + !test_first) : UINT64_MAX;
    if (!out->known)
        out->why = r->symbolic ? "no launch is given" : "no bound was found";
}

uint64_t reach_times_of(struct collecting *c, uint32_t block)
{
    uint64_t times = 1;
    for (uint32_t l = c->r->graph->blocks[block].loop; l != GRAPH_NONE;
         l = c->r->graph->loops[l].parent)
        if (!c->out->loops[l].known || __builtin_mul_overflow(times, c->out->loops[l].most, &times))
            return UINT64_MAX;
    return times;
}

/* Arithmetic of a thread, and the bytes that it moves, at most. */
void reach_intensity(struct collecting *c)
{
    struct reaching *r = c->r;
    uint64_t operations = 0, bytes = 0;
    if (c->dropped)
        return;
    for (uint32_t i = 0; i < r->func->instr_count; i++) {
        const struct ptx_instr *instr = &r->func->instrs[i];
        const struct ptx_form *form = instr->form;
        if (!r->graph->blocks[r->graph->block_of[i]].reachable || instr->opaque ||
            ptx_ops[form->op].effects || form->op == PTX_OP_mov || form->op == PTX_OP_cvta ||
            !form->type_count || ptx_types[form->types[0]].class != PTX_FLOAT)
            continue;
        uint64_t times = reach_times_of(c, r->graph->block_of[i]);
        unsigned one = form->op == PTX_OP_fma || form->op == PTX_OP_mad ? 2 : 1;
        if (times == UINT64_MAX || __builtin_mul_overflow(times, one, &times) ||
            __builtin_add_overflow(operations, times, &operations))
            return;
    }
    for (uint32_t i = 0; i < c->count; i++) {
        const struct reach_access *access = &c->found[i].access;
        uint64_t moved = access->bytes;
        if (!(access->space & SPACE_GLOBAL))
            continue;
        if (access->times == UINT64_MAX || __builtin_mul_overflow(moved, access->times, &moved) ||
            __builtin_add_overflow(bytes, moved, &bytes))
            return;
    }
    c->out->arithmetic = operations;
    c->out->traffic = bytes;
}

/* ---- proofs and witnesses -------------------------------------------------------------------- */

bool reach_extent_of(const struct collecting *c, const struct reach_target *target, int64_t *low,
                     int64_t *high)
{
    if (target->at == REACH_NONE) {
        *low = 0;
        *high = (int64_t)target->size;
        return target->size > 0 && target->size < INT64_MAX;
    }
    for (uint32_t i = 0; i < c->r->launch->extent_count; i++)
        if (c->r->launch->extents[i].at == target->at) {
            *low = c->r->launch->extents[i].low;
            *high = c->r->launch->extents[i].high;
            return true;
        }
    return false;
}

void reach_prove(struct collecting *c, struct reach_access *access)
{
    int64_t low, high;
    if (access->target == REACH_NONE) {
        access->proof = access->space & SPACE_GLOBAL ? PROOF_UNKNOWN : PROOF_NONE;
        return;
    }
    if (!reach_extent_of(c, &c->out->targets[access->target], &low, &high))
        return;
    access->proof =
        access->reach.state == REACH_KNOWN && access->reach.low >= low && access->reach.high <= high
            ? PROOF_PROVEN
            : PROOF_UNKNOWN;
}

static bool leads_to(const struct collecting *c, const struct found *found,
                     const struct walk_touch *touch)
{
    if (found->access.instr != touch->instr || found->operand != touch->operand ||
        found->access.target == REACH_NONE)
        return false;
    const struct reach_target *target = &c->out->targets[found->access.target];
    return touch->var ? target->at == REACH_NONE && target->name == touch->var->name
                      : target->at == touch->target_word;
}

static void note_touch(struct collecting *c, struct reach_access *access, int64_t from, int64_t to)
{
    int64_t low, high;
    for (unsigned w = 0; w < 2; w++) {
        if (w ? !access->writes : !access->reads)
            continue;
        bool any = c->touched[access->target].any[w];
        int64_t *first = &c->touched[access->target].low[w];
        int64_t *last = &c->touched[access->target].high[w];
        *first = !any || from < *first ? from : *first;
        *last = !any || to > *last ? to : *last;
        c->touched[access->target].any[w] = true;
    }
    if (access->proof == PROOF_UNKNOWN &&
        reach_extent_of(c, &c->out->targets[access->target], &low, &high) &&
        (from < low || to > high)) {
        access->proof = PROOF_VIOLATED;
        memcpy(access->witness, c->walking, sizeof access->witness);
    }
}

/* A touch counts, and puts the analysis to the test: some access that it may be must reach it. */
static void touched(void *self, const struct walk_touch *touch)
{
    struct collecting *c = self;
    bool explained = (touch->var && !reach_in_arrays(touch->var)) ||
                     c->r->func->instrs[touch->instr].form->space == PTX_SPACE_param;
    bool strays = c->out->stray.state != REACH_UNTOUCHED;
    for (uint32_t i = 0; i < c->count; i++) {
        struct reach_access *access = &c->found[i].access;
        int64_t end;
        explained |= access->instr == touch->instr && access->target == REACH_NONE &&
                     !(access->space & (SPACE_GLOBAL | SPACE_CONST));
        if (!leads_to(c, &c->found[i], touch) ||
            __builtin_add_overflow(touch->offset, (int64_t)access->bytes, &end))
            continue;
        explained |= access->reach.state == REACH_UNKNOWN ||
                     (access->reach.low <= touch->offset && end <= access->reach.high);
        if (access->bytes)
            note_touch(c, access, touch->offset, end);
    }
    c->out->contradicted |= !explained && !strays;
}

static void walk_thread(struct collecting *c, const uint32_t thread[6])
{
    const struct kg_launch *l = c->r->launch->launch;
    const uint32_t sizes[6] = {l->block.x, l->block.y, l->block.z, l->grid.x, l->grid.y, l->grid.z};
    for (unsigned i = 0; i < 6; i++)
        if (thread[i] >= sizes[i])
            return;
    for (uint32_t i = 0; i < c->walked_count; i++)
        if (!memcmp(c->walked[i], thread, sizeof c->walked[i]))
            return;
    if (c->walked_count == WITNESSES_MAX)
        return;
    memcpy(c->walked[c->walked_count++], thread, sizeof c->walked[0]);
    c->walking = thread;
    (void)reach_walk(c->r, thread, thread + 3, touched, c); /* part of a walk is as good */
}

/* Marks what walks have filled to both ends; whether nothing is left to be shown. */
static bool mark_exact(struct collecting *c)
{
    bool all = true;
    for (uint32_t t = 0; t < c->out->target_count; t++)
        for (unsigned w = 0; w < 2; w++) {
            struct reach_bytes *bytes = w ? &c->out->targets[t].written : &c->out->targets[t].read;
            bytes->exact = bytes->state == REACH_KNOWN && c->touched[t].any[w] &&
                           c->touched[t].low[w] == bytes->low &&
                           c->touched[t].high[w] == bytes->high;
            all &= bytes->exact || bytes->state != REACH_KNOWN;
        }
    return all;
}

/* All threads of a small launch, where the search found no witnesses. */
static void walk_all(struct collecting *c)
{
    const struct kg_launch *l = c->r->launch->launch;
    uint64_t block = (uint64_t)l->block.x * l->block.y * l->block.z;
    uint64_t grid = (uint64_t)l->grid.x * l->grid.y * l->grid.z, count = block * grid;
    for (uint64_t i = 0; grid < ALL_MAX && count <= ALL_MAX && i < count; i++) {
        uint64_t t = i % block, b = i / block;
        const uint32_t thread[6] = {(uint32_t)(t % l->block.x),
                                    (uint32_t)(t / l->block.x % l->block.y),
                                    (uint32_t)(t / l->block.x / l->block.y),
                                    (uint32_t)(b % l->grid.x),
                                    (uint32_t)(b / l->grid.x % l->grid.y),
                                    (uint32_t)(b / l->grid.x / l->grid.y)};
        c->walking = thread;
        (void)reach_walk(c->r, thread, thread + 3, touched, c);
        if (i % 64 == 63 && mark_exact(c) && !c->r->launch->thorough)
            return;
    }
    (void)mark_exact(c);
}

/* Threads that may touch the ends of what a target's accesses reach. */
void reach_walk_ends(struct collecting *c)
{
    const struct kg_launch *l = c->r->launch->launch;
    const uint32_t first[6] = {0}, last[6] = {l->block.x - 1, l->block.y - 1, l->block.z - 1,
                                              l->grid.x - 1,  l->grid.y - 1,  l->grid.z - 1};
    walk_thread(c, first);
    walk_thread(c, last);
    for (uint32_t i = 0; i < c->count; i++) {
        struct found *found = &c->found[i];
        if (found->access.target == REACH_NONE || !found->affine)
            continue;
        const struct reach_target *target = &c->out->targets[found->access.target];
        const struct reach_bytes *reach = &found->access.reach;
        bool low = found->access.proof == PROOF_UNKNOWN ||
                   (reach->state == REACH_KNOWN &&
                    ((found->access.reads && reach->low == target->read.low) ||
                     (found->access.writes && reach->low == target->written.low)));
        bool high = found->access.proof == PROOF_UNKNOWN ||
                    (reach->state == REACH_KNOWN &&
                     ((found->access.reads && reach->high == target->read.high) ||
                      (found->access.writes && reach->high == target->written.high)));
        struct form minus;
        uint32_t thread[6];
        const struct fact *facts = reach_at(c->r, found->access.instr);
        if (high && reach_witness(c->r, &found->rest, facts, thread, thread + 3))
            walk_thread(c, thread);
        if (low && form_scale(&found->rest, -1, &minus) &&
            reach_witness(c->r, &minus, facts, thread, thread + 3))
            walk_thread(c, thread);
    }
    if (!mark_exact(c) || c->r->launch->thorough)
        walk_all(c);
}
