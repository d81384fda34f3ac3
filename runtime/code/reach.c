/* The door of reach: sets the analysis of an entry up, and turns values and facts into what each
 * access, pointer and loop does. */
#include "origin.h"
#include "reach_parts.h"

#include <stdio.h>

enum { ACCESSES_MAX = 20000, TARGETS_MAX = 256, WITNESSES_MAX = 48 };

/* One access on its way to the result. */
struct found {
    struct reach_access access;
    unsigned operand;
    struct form rest; /* relative to the target */
    bool affine;
};

struct collecting {
    struct reaching *r;
    struct reach *out;
    struct found *found;
    uint32_t count, room;
    const struct needs *needs;
    uint32_t walked[WITNESSES_MAX][6], walked_count;
    const uint32_t *walking; /* the thread at hand */
    struct {                 /* by target: what walks touched */
        int64_t low[2], high[2];
        bool any[2];
    } touched[TARGETS_MAX];
};

/* ---- targets --------------------------------------------------------------------------------- */

static uint32_t target_of(struct collecting *c, uint32_t at, const struct ptx_var *var)
{
    struct reach *out = c->out;
    for (uint32_t i = 0; i < out->target_count; i++)
        if (var ? out->targets[i].name == var->name && out->targets[i].at == REACH_NONE
                : out->targets[i].at == at)
            return i;
    if (out->target_count == TARGETS_MAX)
        return REACH_NONE;
    struct reach_target *target = &out->targets[out->target_count];
    *target = (struct reach_target){.at = var ? REACH_NONE : at};
    target->name = var ? var->name : "";
    target->size = var ? var->size : 0;
    for (uint32_t i = 0; !var && i < c->r->func->param_count; i++) {
        const struct ptx_var *param = c->r->func->params[i];
        if (at >= param->offset && at - param->offset < param->size)
            target->name = param->name;
    }
    return out->target_count++;
}

static void merge_bytes(struct reach_bytes *into, const struct reach_bytes *more)
{
    if (into->state == REACH_UNKNOWN || more->state == REACH_UNTOUCHED)
        return;
    if (into->state == REACH_UNTOUCHED || more->state == REACH_UNKNOWN) {
        *into = *more;
        return;
    }
    into->low = more->low < into->low ? more->low : into->low;
    into->high = more->high > into->high ? more->high : into->high;
}

/* ---- what an instruction accesses ------------------------------------------------------------ */

struct shape {
    bool reads, writes, atomic;
    uint32_t bytes; /* 0: not known */
};

static uint32_t element_bytes(const struct ptx_form *form)
{
    unsigned bits = form->type_count ? reach_bits(form, form->type_count - 1) : 0;
    return bits / 8 * (form->vector ? form->vector : 1);
}

/* What the access through operand n of the instruction is; false: none. */
static bool shape_of(const struct ptx_instr *instr, unsigned n, struct shape *out)
{
    const struct ptx_form *form = instr->form;
    uint32_t effects = instr->opaque ? PTX_WORST : ptx_ops[form->op].effects;
    *out =
        (struct shape){(effects & (PTX_READS | PTX_WORST)) != 0,
                       (effects & (PTX_WRITES | PTX_WORST)) != 0, (effects & PTX_ATOMIC) != 0, 0};
    if (instr->operands[n].kind != PTX_ADDRESS || (!out->reads && !out->writes))
        return false;
    switch (form->op) {
    case PTX_OP_ld:
    case PTX_OP_ldu:
    case PTX_OP_st:
    case PTX_OP_atom:
    case PTX_OP_red:
        out->bytes = element_bytes(form);
        return true;
    case PTX_OP_cp_async:
        out->reads = n != 0;
        out->writes = n == 0;
        if (instr->operand_count > 2 && instr->operands[2].kind == PTX_INT)
            out->bytes = (uint32_t)instr->operands[2].bits;
        return true;
    case PTX_OP_discard:
        out->bytes = 128;
        return true;
    default:
        return true;
    }
}

/* ---- an access ------------------------------------------------------------------------------- */

static void not_known(struct reach_bytes *bytes, const char *why, uint32_t line)
{
    *bytes = (struct reach_bytes){.state = REACH_UNKNOWN, .why = why, .line = line};
}

/* Splits the address into the one object it points into, and the rest. */
static bool split(struct reaching *r, const struct form *address, const struct symbol **base,
                  struct form *rest)
{
    *base = NULL;
    for (uint32_t i = 0; i < address->count; i++) {
        const struct monomial *mono = &r->affine.monos[address->terms[i].mono];
        for (uint32_t s = 0; s < mono->count; s++) {
            const struct symbol *symbol = &r->affine.symbols[mono->symbols[s]];
            if (symbol->kind != SYMBOL_POINTER && symbol->kind != SYMBOL_VARIABLE)
                continue;
            struct form one = form_symbol(&r->affine, mono->symbols[s]);
            if (*base || mono->count != 1 || address->terms[i].coef != 1 ||
                !form_add(address, &one, -1, rest))
                return false;
            *base = symbol;
        }
    }
    return *base != NULL;
}

static void bound_access(struct collecting *c, struct found *found, const struct fact *facts)
{
    struct reaching *r = c->r;
    struct reach_bytes *bytes = &found->access.reach;
    struct range range = form_bound(&r->affine, &found->rest, facts, true, EFFORT_REACH);
    const wide_int limit = (wide_int)1 << 48; /* beyond it, what is known is that nothing wraps */
    if (range.low > -limit && range.high < limit && found->access.bytes) {
        *bytes = (struct reach_bytes){.state = REACH_KNOWN,
                                      .low = (int64_t)range.low,
                                      .high = (int64_t)range.high + found->access.bytes};
        return;
    }
    const char *why = "the size of the access is not known";
    uint32_t line = found->access.line;
    const struct symbol *open = reach_open(r, &found->rest);
    for (uint32_t i = 0; !open && found->access.bytes && i < found->rest.count; i++) {
        const struct monomial *mono = &r->affine.monos[found->rest.terms[i].mono];
        const struct symbol *symbol = &r->affine.symbols[mono->symbols[0]];
        if (symbol->range.high >= WIDE_INFINITE || symbol->range.low <= -WIDE_INFINITE)
            open = symbol;
    }
    if (open && open->why) {
        why = open->why;
        line = open->line ? open->line : line;
    }
    if (r->symbolic)
        why = "no launch is given";
    not_known(bytes, why, line);
}

static void address_of(struct collecting *c, uint32_t i, const struct ptx_operand *operand,
                       struct form *out)
{
    struct reaching *r = c->r;
    struct ptx_operand base = *operand;
    struct form offset = form_of(operand->offset);
    r->instr = i;
    r->block = r->graph->block_of[i];
    r->now = reach_at(r, i);
    base.offset = 0;
    base.kind = operand->reg != PTX_NO_REG ? PTX_REG : operand->var ? PTX_SYMBOL : PTX_INT;
    base.bits = 0;
    reach_operand(r, &base, 60, out);
    if (!form_add(out, &offset, 1, out))
        *out = reach_unknown(r, &r->func->instrs[i], 61, reach_type_range(64, true), true,
                             "an address that is not followed");
}

static bool in_arrays(const struct ptx_var *var)
{
    return var->space == PTX_SPACE_global || var->space == PTX_SPACE_const;
}

static void add_stray(struct collecting *c, bool writes, const char *why, uint32_t line)
{
    if (c->out->stray.state == REACH_UNTOUCHED)
        not_known(&c->out->stray, why, line);
    c->out->stray_writes |= writes;
}

static void take_access(struct collecting *c, uint32_t i, unsigned n, const struct shape *shape)
{
    struct reaching *r = c->r;
    const struct ptx_instr *instr = &r->func->instrs[i];
    struct form address;
    const struct symbol *base = NULL;
    unsigned spaces = graph_spaces(r->graph, i, n);
    struct found found = {.access = {.instr = i,
                                     .line = instr->place.line,
                                     .operation = instr->form->text,
                                     .reads = shape->reads,
                                     .writes = shape->writes,
                                     .atomic = shape->atomic,
                                     .bytes = shape->bytes,
                                     .vector = instr->form->vector ? instr->form->vector : 1,
                                     .target = REACH_NONE},
                          .operand = n};
    if (instr->form->space == PTX_SPACE_param || spaces == SPACE_PARAM)
        return;
    address_of(c, i, &instr->operands[n], &address);
    found.affine = split(r, &address, &base, &found.rest);
    if (found.affine && base->kind == SYMBOL_VARIABLE && !in_arrays(base->var)) {
        if (base->var->space == PTX_SPACE_param)
            return;
        spaces = base->var->space == PTX_SPACE_shared ? SPACE_SHARED : SPACE_LOCAL;
    } else if (found.affine && (spaces & (SPACE_GLOBAL | SPACE_CONST))) {
        found.access.target = target_of(c, base->kind == SYMBOL_POINTER ? base->number : REACH_NONE,
                                        base->kind == SYMBOL_POINTER ? NULL : base->var);
    }
    found.access.space = (uint8_t)spaces;
    if (!found.affine)
        found.rest = address;
    bound_access(c, &found, r->now);
    bool memory = spaces & (SPACE_GLOBAL | SPACE_CONST);
    if (memory && found.access.target == REACH_NONE) {
        const struct symbol *open = found.affine ? NULL : reach_open(r, &address);
        not_known(&found.access.reach, open && open->why ? open->why : "an address of no parameter",
                  open && open->line ? open->line : instr->place.line);
        add_stray(c, shape->writes, found.access.reach.why, found.access.reach.line);
    } else if (memory) {
        struct reach_target *target = &c->out->targets[found.access.target];
        if (shape->reads)
            merge_bytes(&target->read, &found.access.reach);
        if (shape->writes)
            merge_bytes(&target->written, &found.access.reach);
    }
    c->found[c->count++] = found;
}

/* ---- what is not seen ------------------------------------------------------------------------ */

/* Whether a function that is called may touch what its caller's pointers lead to, as far as its
 * own instructions tell; its loads and stores are seen to by outside_use. */
static bool harmless(const struct ptx_func *func)
{
    if (!func->defined)
        return !strcmp(func->name, "vprintf") || !strcmp(func->name, "__assertfail");
    for (uint32_t i = 0; i < func->instr_count; i++) {
        const struct ptx_instr *instr = &func->instrs[i];
        uint32_t effects = instr->opaque ? PTX_WORST : ptx_ops[instr->form->op].effects;
        if (effects & (PTX_WORST | PTX_TEXTURE))
            return false;
    }
    return true;
}

static bool all_harmless(struct collecting *c)
{
    bool all = !c->needs->indirect && !c->r->calls_touch;
    for (uint32_t i = 1; i < c->needs->func_count; i++)
        all &= harmless(c->needs->funcs[i]);
    return all;
}

static void take_instr(struct collecting *c, uint32_t i, bool calls_harmless)
{
    const struct ptx_instr *instr = &c->r->func->instrs[i];
    uint32_t effects = instr->opaque ? PTX_WORST : ptx_ops[instr->form->op].effects;
    bool address = false;
    if (effects & PTX_CALLS) {
        if (!calls_harmless)
            add_stray(c, true, "a function that is called", instr->place.line);
        return;
    }
    if (effects & PTX_TEXTURE) {
        if (effects & (PTX_READS | PTX_WRITES))
            add_stray(c, (effects & PTX_WRITES) != 0, "a texture or surface", instr->place.line);
        return;
    }
    for (unsigned n = 0; n < instr->operand_count; n++) {
        struct shape shape;
        if (!shape_of(instr, n, &shape))
            continue;
        address = true;
        if (c->count < c->room)
            take_access(c, i, n, &shape);
    }
    if (effects & PTX_WORST && !address)
        add_stray(c, true, "an unknown instruction", instr->place.line);
}

/* ---- stride and coalescing ------------------------------------------------------------------- */

/* The symbol's value in a thread of the first warp, what is the same in all of it left out. */
static bool lane_value(struct reaching *r, const struct form *form, const uint32_t tid[3],
                       wide_int *out, unsigned depth)
{
    *out = form->constant;
    for (uint32_t i = 0; i < form->count; i++) {
        const struct monomial *mono = &r->affine.monos[form->terms[i].mono];
        wide_int value = 1;
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
            value *= one;
            if (value > WIDE_INFINITE || value < -WIDE_INFINITE)
                return false;
        }
        *out += value * form->terms[i].coef;
    }
    return true;
}

static void coalescing(struct collecting *c, struct found *found)
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
static void take_loop(struct collecting *c, uint32_t loop)
{
    struct reaching *r = c->r;
    const struct graph_loop *at = &r->graph->loops[loop];
    struct reach_loop *out = &c->out->loops[loop];
    struct form trip = form_symbol(&r->affine, r->loops[loop].trip);
    *out =
        (struct reach_loop){.line = r->func->instrs[r->graph->blocks[at->header].first].place.line,
                            .depth = at->depth,
                            .parent = at->parent};
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

static uint64_t times_of(struct collecting *c, uint32_t block)
{
    uint64_t times = 1;
    for (uint32_t l = c->r->graph->blocks[block].loop; l != GRAPH_NONE;
         l = c->r->graph->loops[l].parent)
        if (!c->out->loops[l].known || __builtin_mul_overflow(times, c->out->loops[l].most, &times))
            return UINT64_MAX;
    return times;
}

/* Arithmetic of a thread, and the bytes that it moves, at most. */
static void intensity(struct collecting *c)
{
    struct reaching *r = c->r;
    uint64_t operations = 0, bytes = 0;
    for (uint32_t i = 0; i < r->func->instr_count; i++) {
        const struct ptx_instr *instr = &r->func->instrs[i];
        const struct ptx_form *form = instr->form;
        if (!r->graph->blocks[r->graph->block_of[i]].reachable || instr->opaque ||
            ptx_ops[form->op].effects || form->op == PTX_OP_mov || form->op == PTX_OP_cvta ||
            !form->type_count || ptx_types[form->types[0]].class != PTX_FLOAT)
            continue;
        uint64_t times = times_of(c, r->graph->block_of[i]);
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

static bool extent_of(const struct collecting *c, const struct reach_target *target, int64_t *low,
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

static void prove(struct collecting *c, struct reach_access *access)
{
    int64_t low, high;
    if (access->target == REACH_NONE) {
        access->proof = access->space & SPACE_GLOBAL ? PROOF_UNKNOWN : PROOF_NONE;
        return;
    }
    if (!extent_of(c, &c->out->targets[access->target], &low, &high))
        return;
    access->proof =
        access->reach.state == REACH_KNOWN && access->reach.low >= low && access->reach.high <= high
            ? PROOF_PROVEN
            : PROOF_UNKNOWN;
}

static void touched(void *self, const struct walk_touch *touch)
{
    struct collecting *c = self;
    for (uint32_t i = 0; i < c->count; i++) {
        struct reach_access *access = &c->found[i].access;
        int64_t low, high, end;
        if (access->instr != touch->instr || c->found[i].operand != touch->operand ||
            access->target == REACH_NONE || !access->bytes)
            continue;
        const struct reach_target *target = &c->out->targets[access->target];
        bool same = touch->var ? target->at == REACH_NONE && target->name == touch->var->name
                               : target->at == touch->target_word;
        if (!same || __builtin_add_overflow(touch->offset, (int64_t)access->bytes, &end))
            return;
        for (unsigned w = 0; w < 2; w++) {
            if (w ? !access->writes : !access->reads)
                continue;
            bool any = c->touched[access->target].any[w];
            int64_t *first = &c->touched[access->target].low[w];
            int64_t *last = &c->touched[access->target].high[w];
            *first = !any || touch->offset < *first ? touch->offset : *first;
            *last = !any || end > *last ? end : *last;
            c->touched[access->target].any[w] = true;
        }
        if (access->proof == PROOF_UNKNOWN && extent_of(c, target, &low, &high) &&
            (touch->offset < low || end > high)) {
            access->proof = PROOF_VIOLATED;
            memcpy(access->witness, c->walking, sizeof access->witness);
        }
        return;
    }
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

/* Threads that may touch the ends of what a target's accesses reach. */
static void walk_ends(struct collecting *c)
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
    for (uint32_t t = 0; t < c->out->target_count; t++)
        for (unsigned w = 0; w < 2; w++) {
            struct reach_bytes *bytes = w ? &c->out->targets[t].written : &c->out->targets[t].read;
            bytes->exact = bytes->state == REACH_KNOWN && c->touched[t].any[w] &&
                           c->touched[t].low[w] == bytes->low &&
                           c->touched[t].high[w] == bytes->high;
        }
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void summarise(struct collecting *c)
{
    struct reach *out = c->out;
    out->complete = out->stray.state == REACH_UNTOUCHED;
    for (uint32_t t = 0; t < out->target_count; t++) {
        struct reach_target *target = &out->targets[t];
        out->complete &=
            target->read.state != REACH_UNKNOWN && target->written.state != REACH_UNKNOWN;
        int64_t low, high;
        if (extent_of(c, target, &low, &high))
            target->proof = PROOF_PROVEN;
        for (uint32_t i = 0; i < c->count; i++)
            if (c->found[i].access.target == t && c->found[i].access.proof > target->proof)
                target->proof = c->found[i].access.proof;
    }
}

static kg_status collect(struct collecting *c)
{
    struct reaching *r = c->r;
    struct reach *out = c->out;
    uint32_t room = 0;
    for (uint32_t i = 0; i < r->func->instr_count; i++)
        for (unsigned n = 0; n < r->func->instrs[i].operand_count; n++) {
            struct shape shape;
            room += shape_of(&r->func->instrs[i], n, &shape);
        }
    if (room > ACCESSES_MAX)
        return KG_LIMIT;
    c->room = room;
    c->found = arena_alloc(r->arena, (room + 1) * sizeof *c->found);
    out->loops = arena_alloc(&out->arena, (r->graph->loop_count + 1) * sizeof *out->loops);
    out->loop_count = r->graph->loop_count;
    if (!c->found || !out->loops)
        return KG_NO_MEMORY;
    bool calls = all_harmless(c);
    for (uint32_t l = 0; l < out->loop_count; l++)
        take_loop(c, l);
    for (uint32_t i = 0; i < r->func->instr_count; i++)
        if (r->graph->blocks[r->graph->block_of[i]].reachable && !facts_never(reach_at(r, i)))
            take_instr(c, i, calls);
    for (uint32_t i = 0; i < c->count; i++) {
        struct found *found = &c->found[i];
        found->access.times = times_of(c, r->graph->block_of[found->access.instr]);
        coalescing(c, found);
        prove(c, &found->access);
        found->access.address = reach_text(r, &found->rest, &out->arena);
    }
    intensity(c);
    if (r->launch->exact && r->launch->launch && r->launch->params && !r->launch->scalar_count)
        walk_ends(c);
    summarise(c);
    out->accesses = arena_alloc(&out->arena, (c->count + 1) * sizeof *out->accesses);
    if (!out->accesses || r->affine.failed)
        return KG_NO_MEMORY;
    for (uint32_t i = 0; i < c->count; i++)
        out->accesses[i] = c->found[i].access;
    out->access_count = c->count;
    return KG_OK;
}

/* Everything the result points to is its own. */
static kg_status own_texts(struct reach *out)
{
    for (uint32_t i = 0; i < out->target_count; i++)
        if (!(out->targets[i].name =
                  arena_copy(&out->arena, out->targets[i].name, strlen(out->targets[i].name))))
            return KG_NO_MEMORY;
    for (uint32_t i = 0; i < out->access_count; i++)
        if (!(out->accesses[i].operation = arena_copy(&out->arena, out->accesses[i].operation,
                                                      strlen(out->accesses[i].operation))))
            return KG_NO_MEMORY;
    return KG_OK;
}

struct uses {
    struct reaching *r;
    const struct origins *origins;
};

/* Marks the words that lead to an address, and whether functions that are called have accesses. */
static void use_origin(void *self, const struct origin_access *access)
{
    struct uses *uses = self;
    const struct origin_set set = origins_set(uses->origins, access->set);
    uses->r->calls_touch |= access->func && !access->other_space && access->use != ORIGIN_ESCAPE;
    for (uint32_t i = 0; !access->other_space && i < set.count; i++) {
        const struct origin *origin =
            set.items[i] < ORIGIN_LOADED ? &uses->origins->origins[set.items[i]] : NULL;
        if (origin && !origin->var && 8 * origin->word + 8 <= uses->r->func->param_bytes)
            uses->r->pointer_words[8 * origin->word] = 1;
    }
}

static uint32_t fixed_symbol(struct reaching *r, enum symbol_kind kind, unsigned axis, wide_int low,
                             wide_int high)
{
    uint32_t id = symbol_new(&r->affine, kind);
    if (id == NO_SYMBOL)
        return id;
    r->affine.symbols[id].axis = (uint8_t)axis;
    r->affine.symbols[id].range = (struct range){low, high};
    r->affine.symbols[id].pass = PASS_ALWAYS;
    return id;
}

static void make_axes(struct reaching *r)
{
    const struct kg_launch *l = r->launch->launch;
    static const struct kg_launch none = {{0, 0, 0}, {0, 0, 0}, 0};
    const struct kg_launch *use = l ? l : &none;
    const uint32_t block[3] = {use->block.x, use->block.y, use->block.z};
    const uint32_t grid[3] = {use->grid.x, use->grid.y, use->grid.z};
    for (unsigned i = 0; i < 3; i++) {
        r->tid[i] = r->ctaid[i] = r->ntid[i] = r->nctaid[i] = NO_SYMBOL;
        if (!l) {
            r->tid[i] = fixed_symbol(r, SYMBOL_TID, i, 0, 1023);
            r->ctaid[i] = fixed_symbol(r, SYMBOL_CTAID, i, 0, INT32_MAX - 1);
            r->ntid[i] = fixed_symbol(r, SYMBOL_NTID, i, 1, 1024);
            r->nctaid[i] = fixed_symbol(r, SYMBOL_NCTAID, i, 1, INT32_MAX);
            continue;
        }
        if (block[i] > 1)
            r->tid[i] = fixed_symbol(r, SYMBOL_TID, i, 0, (wide_int)block[i] - 1);
        if (grid[i] > 1)
            r->ctaid[i] = fixed_symbol(r, SYMBOL_CTAID, i, 0, (wide_int)grid[i] - 1);
    }
}

static kg_status analyse(struct reaching *r, const struct needs *needs, struct reach *out)
{
    struct origins origins;
    kg_status status = origins_make(needs, r->func, r->arena, &origins);
    if (status != KG_OK)
        return status;
    const struct graph *graph = r->graph = &origins.graphs[0];
    struct uses uses = {r, &origins};
    origins_uses(&origins, use_origin, &uses);
    struct collecting *c = arena_alloc(r->arena, sizeof *c);
    out->targets = arena_alloc(&out->arena, TARGETS_MAX * sizeof *out->targets);
    if (!c || !out->targets)
        return KG_NO_MEMORY;
    c->r = r;
    c->out = out;
    c->needs = needs;
    for (uint32_t at = 0; at < r->func->param_bytes; at++)
        if (r->pointer_words[at])
            (void)target_of(c, at, NULL);
    status = graph->wild || graph->irreducible ? KG_LIMIT : KG_OK;
    make_axes(r);
    if (status == KG_OK)
        status = reach_flow(r);
    if (status == KG_OK)
        status = collect(c);
    if (status != KG_LIMIT)
        return status;
    /* Too twisted: an answer all the same, that nothing is known. */
    out->access_count = out->loop_count = 0;
    out->stray_writes = true;
    out->complete = false;
    not_known(&out->stray, "code too twisted to follow", graph->wild_line);
    for (uint32_t i = 0; i < out->target_count; i++)
        out->targets[i].read = out->targets[i].written = out->stray;
    return KG_OK;
}

kg_status reach_of(const struct ptx_module *module, const struct ptx_func *entry,
                   const struct reach_launch *launch, struct reach *out)
{
    struct kg_arena arena = {0};
    struct needs needs;
    struct reach_launch own = *launch;
    struct reaching *r = arena_alloc(&arena, sizeof *r);
    *out = (struct reach){0};
    if (!entry->entry || !entry->defined ||
        (launch->params && launch->param_bytes < entry->param_bytes)) {
        arena_free(&arena);
        return KG_BAD_INPUT;
    }
    own.param_bytes = entry->param_bytes;
    const struct kg_launch *l = launch->launch;
    kg_status status = r ? needs_make(module, entry, &arena, &needs) : KG_NO_MEMORY;
    if (l && (!l->grid.x || !l->grid.y || !l->grid.z || !l->block.x || !l->block.y || !l->block.z))
        status = KG_BAD_INPUT;
    if (status == KG_OK) {
        r->arena = r->affine.arena = r->affine.mono_numbers.arena = r->symbol_keys.arena = &arena;
        r->module = module;
        r->func = entry;
        r->launch = &own;
        r->symbolic = !l;
        r->pointer_words = arena_alloc(&arena, entry->param_bytes + 8);
        status = r->pointer_words ? analyse(r, &needs, out) : KG_NO_MEMORY;
    }
    if (status == KG_OK)
        status = own_texts(out);
    arena_free(&arena);
    if (status != KG_OK)
        reach_free(out);
    return status;
}

kg_status reach_of_ptx(const char *ptx, const char *entry, const struct reach_launch *launch,
                       struct reach *out)
{
    struct ptx_module module;
    char error[128];
    *out = (struct reach){0};
    kg_status status = ptx_parse(ptx, strlen(ptx), &module, error, sizeof error);
    if (status != KG_OK)
        return status;
    const struct ptx_func *func = ptx_find_func(&module, entry);
    status =
        func && func->entry && func->defined ? reach_of(&module, func, launch, out) : KG_NOT_FOUND;
    ptx_module_free(&module);
    return status;
}

void reach_free(struct reach *reach)
{
    arena_free(&reach->arena);
    *reach = (struct reach){0};
}
