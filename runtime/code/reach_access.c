/* The accesses of a function: what each instruction reads and writes, into which object its address
 * leads, and the interval of bytes there; and what the analysis does not see, which makes `stray`.
 */
#include "reach_parts.h"

/* ---- targets --------------------------------------------------------------------------------- */

uint32_t reach_target_of(struct collecting *c, uint32_t at, const struct ptx_var *var)
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

/* What the access through operand n of the instruction is; false: none. */
bool reach_shape_of(const struct ptx_instr *instr, unsigned n, struct shape *out)
{
    const struct ptx_form *form = instr->form;
    uint32_t effects = instr->opaque ? PTX_WORST : ptx_effects(instr);
    *out =
        (struct shape){(effects & (PTX_READS | PTX_WORST)) != 0,
                       (effects & (PTX_WRITES | PTX_WORST)) != 0, (effects & PTX_ATOMIC) != 0, 0};
    if (instr->operands[n].kind != PTX_ADDRESS || (!out->reads && !out->writes))
        return false;
    if (form->strange) /* who knows how much */
        return true;
    switch (form->op) {
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
        out->bytes = ptx_moved_bytes(form);
        return true;
    }
}

/* ---- an access ------------------------------------------------------------------------------- */

void reach_not_known(struct reach_bytes *bytes, const char *why, uint32_t line)
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
    reach_not_known(bytes, why, line);
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

bool reach_in_arrays(const struct ptx_var *var)
{
    return var->space == PTX_SPACE_global || var->space == PTX_SPACE_const;
}

static void add_stray(struct collecting *c, bool writes, const char *why, uint32_t line)
{
    if (c->out->stray.state == REACH_UNTOUCHED)
        reach_not_known(&c->out->stray, why, line);
    c->out->stray_writes |= writes;
}

/* The access is not listed: then nothing may be claimed that is true of all accesses. */
static void drop_access(struct collecting *c, const struct found *found)
{
    c->dropped = true;
    add_stray(c, found->access.writes, "too many accesses", found->access.line);
}

/* A choice of addresses that the form contains, as the address it is; NULL: none. */
static const struct symbol *choice_in(const struct reaching *r, const struct form *form,
                                      uint32_t *number)
{
    for (uint32_t i = 0; i < form->count; i++) {
        const struct monomial *mono = &r->affine.monos[form->terms[i].mono];
        *number = mono->symbols[0];
        if (mono->count == 1 && form->terms[i].coef == 1 &&
            r->affine.symbols[*number].kind == SYMBOL_CHOICE)
            return &r->affine.symbols[*number];
    }
    return NULL;
}

/* The target that the address leads to. False: the access is none that counts. */
static bool aim(struct collecting *c, struct found *found, const struct form *address)
{
    const struct symbol *base = NULL;
    unsigned spaces = found->access.space;
    found->affine = split(c->r, address, &base, &found->rest);
    if (!found->affine) {
        form_scale(address, 1, &found->rest);
        return true;
    }
    if (base->kind == SYMBOL_VARIABLE && !reach_in_arrays(base->var)) {
        spaces = base->var->space == PTX_SPACE_shared ? SPACE_SHARED : SPACE_LOCAL;
        found->access.space = (uint8_t)spaces;
        return base->var->space != PTX_SPACE_param;
    }
    if (spaces & (SPACE_GLOBAL | SPACE_CONST))
        found->access.target =
            reach_target_of(c, base->kind == SYMBOL_POINTER ? base->number : REACH_NONE,
                            base->kind == SYMBOL_POINTER ? NULL : base->var);
    return true;
}

static void take_address(struct collecting *c, struct found found, const struct form *address,
                         unsigned depth)
{
    struct reaching *r = c->r;
    uint32_t number;
    const struct symbol *choice = depth < 3 ? choice_in(r, address, &number) : NULL;
    for (unsigned i = 0; choice && i < choice->fact_count; i++) {
        struct form one = form_symbol(&r->affine, number), rest;
        if (form_add(address, &one, -1, &rest) && form_add(&rest, choice->facts[i], 1, &rest))
            take_address(c, found, &rest, depth + 1);
        else
            choice = NULL;
    }
    if (choice || !aim(c, &found, address))
        return;
    if (c->count == c->room) {
        drop_access(c, &found);
        return;
    }
    bound_access(c, &found, r->now);
    bool memory = found.access.space & (SPACE_GLOBAL | SPACE_CONST);
    if (memory && found.access.target == REACH_NONE) {
        const struct symbol *open = found.affine ? NULL : reach_open(r, address);
        reach_not_known(&found.access.reach,
                        open && open->why ? open->why : "an address of no parameter",
                        open && open->line ? open->line : found.access.line);
        add_stray(c, found.access.writes, found.access.reach.why, found.access.reach.line);
    } else if (memory) {
        struct reach_target *target = &c->out->targets[found.access.target];
        if (found.access.reads)
            merge_bytes(&target->read, &found.access.reach);
        if (found.access.writes)
            merge_bytes(&target->written, &found.access.reach);
    }
    c->found[c->count++] = found;
}

static void take_access(struct collecting *c, uint32_t i, unsigned n, const struct shape *shape)
{
    struct reaching *r = c->r;
    const struct ptx_instr *instr = &r->func->instrs[i];
    struct form address;
    unsigned spaces = graph_spaces(r->graph, i, n);
    struct found found = {.access = {.instr = i,
                                     .line = instr->place.line,
                                     .operation = instr->form->text,
                                     .reads = shape->reads,
                                     .writes = shape->writes,
                                     .atomic = shape->atomic,
                                     .space = (uint8_t)spaces,
                                     .bytes = shape->bytes,
                                     .vector = instr->form->vector ? instr->form->vector : 1,
                                     .target = REACH_NONE},
                          .operand = n};
    if (instr->form->space == PTX_SPACE_param || spaces == SPACE_PARAM)
        return;
    address_of(c, i, &instr->operands[n], &address);
    take_address(c, found, &address, 0);
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
        uint32_t effects = instr->opaque ? PTX_WORST : ptx_effects(instr);
        if (effects & (PTX_WORST | PTX_TEXTURE))
            return false;
    }
    return true;
}

bool reach_all_harmless(struct collecting *c)
{
    bool all = !c->needs->indirect && !c->r->calls_touch;
    for (uint32_t i = 1; i < c->needs->func_count; i++)
        all &= harmless(c->needs->funcs[i]);
    return all;
}

void reach_take_instr(struct collecting *c, uint32_t i, bool calls_harmless)
{
    const struct ptx_instr *instr = &c->r->func->instrs[i];
    uint32_t effects = instr->opaque ? PTX_WORST : ptx_effects(instr);
    if (effects & PTX_WORST)
        add_stray(c, true, "an unknown instruction", instr->place.line);
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
    if (strstr(instr->form->text, ".tensor")) /* what the tensor map leads to */
        add_stray(c, true, "a tensor map", instr->place.line);
    for (unsigned n = 0; n < instr->operand_count; n++) {
        struct shape shape;
        if (reach_shape_of(instr, n, &shape))
            take_access(c, i, n, &shape);
    }
}
