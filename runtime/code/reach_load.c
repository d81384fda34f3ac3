/* What registers get from outside: parameters, special registers, memory. Of memory nothing is
 * known but the type of what is loaded. */
#include "reach_parts.h"

/* The parameter's bytes that the launch pins, or the range or pointer that stands there. */
static bool param_bytes(struct reaching *r, uint64_t at, unsigned bytes, bool is_signed,
                        struct form *out)
{
    const struct reach_launch *launch = r->launch;
    for (uint32_t i = 0; i < launch->scalar_count; i++) {
        const struct reach_scalar *scalar = &launch->scalars[i];
        if (at + bytes <= scalar->at || scalar->at + scalar->size <= at)
            continue;
        if (at != scalar->at || bytes != scalar->size)
            return false;
        uint32_t id = reach_symbol(r, r->func, (uint32_t)(64 + at), SYMBOL_SCALAR);
        if (id != NO_SYMBOL) {
            r->affine.symbols[id].range = (struct range){scalar->low, scalar->high};
            r->affine.symbols[id].block = 0;
            r->affine.symbols[id].number = (uint32_t)at;
        }
        *out = form_symbol(&r->affine, id);
        return true;
    }
    if (!launch->params || at + bytes > launch->param_bytes)
        return false;
    uint64_t bits = 0;
    memcpy(&bits, launch->params + at, bytes);
    unsigned unused = 64 - 8 * bytes;
    *out = form_of(is_signed ? (int64_t)(bits << unused) >> unused : (int64_t)bits);
    return true;
}

static struct form param_pointer(struct reaching *r, uint64_t at)
{
    uint32_t id = reach_symbol(r, r->func, (uint32_t)(64 + at), SYMBOL_POINTER);
    if (id != NO_SYMBOL) {
        struct symbol *symbol = &r->affine.symbols[id];
        uint64_t value = (uint64_t)1 << 40;
        if (r->launch->params && at + 8 <= r->launch->param_bytes)
            memcpy(&value, r->launch->params + at, 8);
        symbol->range = (struct range){value, value};
        symbol->open = true;
        symbol->block = 0;
        symbol->number = (uint32_t)at;
        symbol->why = "an address";
    }
    return form_symbol(&r->affine, id);
}

/* No launch: the parameter is a name. */
static struct form param_name(struct reaching *r, uint64_t at, unsigned bits, bool is_signed)
{
    uint32_t id = reach_symbol(r, r->func, (uint32_t)(64 + at), SYMBOL_SCALAR);
    if (id != NO_SYMBOL) {
        r->affine.symbols[id].range = reach_type_range(bits, is_signed);
        r->affine.symbols[id].open = true;
        r->affine.symbols[id].block = 0;
        r->affine.symbols[id].number = (uint32_t)at;
        r->affine.symbols[id].why = "a parameter";
    }
    return form_symbol(&r->affine, id);
}

/* Where in the packed parameters an ld.param reads; false: not known, or not of the entry. */
static bool param_place(struct reaching *r, const struct ptx_operand *from, uint64_t bytes,
                        uint64_t *at)
{
    const struct ptx_var *var = from->var;
    int64_t offset = from->offset;
    if (from->reg != PTX_NO_REG) {
        uint32_t value = graph_operand(r->graph, r->instr, from);
        const struct form *form = value == GRAPH_UNKNOWN ? NULL : r->values[value].form;
        if (!form || form->count != 1 || form->terms[0].coef != 1)
            return false;
        const struct monomial *mono = &r->affine.monos[form->terms[0].mono];
        const struct symbol *symbol = &r->affine.symbols[mono->symbols[0]];
        if (mono->count != 1 || symbol->kind != SYMBOL_VARIABLE ||
            __builtin_add_overflow(offset, form->constant, &offset))
            return false;
        var = symbol->var;
    }
    for (uint32_t i = 0; var && i < r->func->param_count; i++)
        if (r->func->params[i] == var && r->func->entry && offset >= 0 &&
            (uint64_t)offset + bytes <= var->size) {
            *at = var->offset + (uint64_t)offset;
            return true;
        }
    return false;
}

static bool load_param(struct reaching *r, const struct ptx_instr *instr, unsigned part,
                       struct form *out)
{
    unsigned bits = reach_bits(instr->form, 0), bytes = bits / 8;
    bool is_signed = reach_is_signed(instr->form, 0);
    uint64_t at;
    struct ptx_operand from = instr->operands[1];
    if (bytes < 1 || bytes > 8)
        return false;
    from.offset += (int64_t)part * bytes;
    if (!param_place(r, &from, bytes, &at))
        return false;
    if (bytes == 8 && at < r->launch->param_bytes && r->pointer_words[at]) {
        *out = param_pointer(r, at);
        return true;
    }
    for (uint64_t b = at < 7 ? 0 : at - 7; b < at + bytes; b++)
        if (b < r->launch->param_bytes && r->pointer_words[b])
            return false; /* a part of an address */
    if (!r->symbolic)
        return param_bytes(r, at, bytes, is_signed, out);
    *out = param_name(r, at, bits, is_signed);
    return true;
}

bool reach_load(struct reaching *r, const struct ptx_instr *instr, unsigned part, struct form *out)
{
    const struct ptx_form *form = instr->form;
    unsigned bits = reach_bits(form, 0);
    if (instr->operand_count < 2 || instr->operands[1].kind != PTX_ADDRESS || bits < 8 ||
        ptx_types[form->types[0]].class == PTX_FLOAT)
        return false;
    if (form->space == PTX_SPACE_param && load_param(r, instr, part, out))
        return true;
    /* Small numbers have a range worth knowing; part 0 only: the symbol is the instruction's. */
    if (bits > 16 || part)
        return false;
    *out = reach_unknown(r, instr, 8, reach_type_range(bits, reach_is_signed(form, 0)), false,
                         "comes from memory");
    return true;
}

/* ---- special registers ----------------------------------------------------------------------- */

static bool axis(struct reaching *r, const uint32_t symbols[3], unsigned i,
                 const struct kg_dim *dim, bool last, struct form *out)
{
    uint32_t sizes[3] = {dim->x, dim->y, dim->z};
    if (i > 2)
        return false;
    *out = symbols[i] != NO_SYMBOL ? form_symbol(&r->affine, symbols[i])
                                   : form_of(last ? (int64_t)sizes[i] : 0);
    return true;
}

/* The thread's number in its block modulo 32. */
static bool lane(struct reaching *r, struct form *out)
{
    struct form x, y, z;
    const struct kg_dim *block = &r->launch->launch->block;
    return axis(r, r->tid, 0, block, false, &x) && axis(r, r->tid, 1, block, false, &y) &&
           axis(r, r->tid, 2, block, false, &z) && form_add(&x, &y, block->x, &x) &&
           form_add(&x, &z, (int64_t)block->x * block->y, &x) &&
           (y = reach_quotient(r, &x, 32, 9), form_add(&x, &y, -32, out));
}

bool reach_special(struct reaching *r, const struct ptx_operand *operand, struct form *out)
{
    static const struct kg_launch none = {{0, 0, 0}, {0, 0, 0}, 0};
    const struct kg_launch *launch = r->launch->launch ? r->launch->launch : &none;
    unsigned i = operand->component - 1u;
    switch (operand->special) {
    case PTX_SR_tid:
        return axis(r, r->tid, i, &launch->block, false, out);
    case PTX_SR_ntid:
        return axis(r, r->ntid, i, &launch->block, true, out);
    case PTX_SR_ctaid:
        return axis(r, r->ctaid, i, &launch->grid, false, out);
    case PTX_SR_nctaid:
        return axis(r, r->nctaid, i, &launch->grid, true, out);
    case PTX_SR_laneid:
        return r->launch->launch && lane(r, out);
    default:
        return false;
    }
}
