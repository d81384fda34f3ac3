/* Into which state space a generic address points, as far as it is known from what it is derived
 * from: cvta, variables, an entry's parameters. The host gives a kernel addresses of global memory
 * only, as nvcc itself assumes. Sets grow until nothing changes. */
#include "graph_parts.h"

enum ptx_space graph_named_space(const struct ptx_instr *instr, unsigned operand)
{
    const struct ptx_form *form = instr->form;
    unsigned spaces = 0, address = 0;
    enum ptx_space last = PTX_SPACE_generic, own = PTX_SPACE_generic;
    for (unsigned i = 0; i < operand && i < instr->operand_count; i++)
        address += instr->operands[i].kind == PTX_ADDRESS;
    for (unsigned i = 0; i < form->mod_count; i++) {
        enum ptx_space space = ptx_mod_space(form->mods[i]);
        if (space == PTX_SPACE_generic)
            continue;
        last = space;
        if (spaces++ == address)
            own = space;
    }
    return spaces > 1 && own ? own : last;
}

static unsigned mask_of(enum ptx_space space)
{
    static const unsigned char masks[] = {
        [PTX_SPACE_generic] = SPACE_ANY, [PTX_SPACE_global] = SPACE_GLOBAL,
        [PTX_SPACE_const] = SPACE_CONST, [PTX_SPACE_shared] = SPACE_SHARED,
        [PTX_SPACE_local] = SPACE_LOCAL, [PTX_SPACE_param] = SPACE_PARAM,
        [PTX_SPACE_reg] = SPACE_ANY,     [PTX_SPACE_tex] = SPACE_TEXTURE};
    return space < sizeof masks ? masks[space] : SPACE_ANY;
}

static unsigned operand_mask(const struct graph *graph, uint32_t instr,
                             const struct ptx_operand *operand)
{
    unsigned mask = 0;
    if (operand->kind == PTX_REG && graph->func->regs[operand->reg].type == PTX_TYPE_pred)
        return 0;
    if (operand->kind == PTX_REG)
        return graph->values[graph_operand(graph, instr, operand)].spaces;
    if (operand->kind == PTX_SYMBOL)
        return operand->var && operand->var->space == PTX_SPACE_global ? SPACE_GLOBAL : 0;
    for (uint32_t i = 0; operand->kind != PTX_ADDRESS && i < operand->part_count; i++)
        mask |= operand_mask(graph, instr, &operand->parts[i]);
    return mask;
}

/* A sum is an address when one side is: the other is an offset then. */
static unsigned sources_mask(const struct graph *graph, uint32_t index, unsigned from)
{
    const struct ptx_instr *instr = &graph->func->instrs[index];
    unsigned mask = 0;
    for (unsigned i = from; i < instr->operand_count; i++)
        mask |= operand_mask(graph, index, &instr->operands[i]);
    return mask;
}

static bool is_entry_param(const struct ptx_func *func, const struct ptx_var *var)
{
    for (uint32_t i = 0; func->entry && i < func->param_count; i++)
        if (func->params[i] == var)
            return true;
    return false;
}

/* What memory holds can be any address; what is narrow, none. */
static unsigned load_mask(const struct graph *graph, const struct ptx_instr *instr)
{
    const struct ptx_form *form = instr->form;
    if (form->type_count && ptx_types[form->types[form->type_count - 1]].bits < 32)
        return 0;
    if (instr->operand_count < 2 || form->space != PTX_SPACE_param ||
        !is_entry_param(graph->func, instr->operands[1].var))
        return SPACE_ANY;
    const struct ptx_var *var = instr->operands[1].var;
    return var->pointer && var->ptr_space != PTX_SPACE_generic ? mask_of(var->ptr_space)
                                                               : SPACE_GLOBAL;
}

static unsigned cvta_mask(const struct graph *graph, uint32_t index)
{
    const struct ptx_form *form = graph->func->instrs[index].form;
    if (!ptx_has(form, PTX_MOD_to))
        return mask_of(form->space);
    return form->space == PTX_SPACE_global ? SPACE_GLOBAL : 0;
}

static bool is_narrow_cvt(const struct ptx_form *form)
{
    return form->type_count < 2 || ptx_types[form->types[0]].bits != 64 ||
           ptx_types[form->types[1]].bits != 64 || ptx_types[form->types[0]].class == PTX_FLOAT ||
           ptx_types[form->types[1]].class == PTX_FLOAT;
}

/* The result of an instruction as an address. */
static unsigned result_mask(const struct graph *graph, uint32_t index)
{
    const struct ptx_instr *instr = &graph->func->instrs[index];
    const struct ptx_form *form = instr->form;
    uint32_t effects = ptx_effects(instr);
    if (form->op == PTX_OP_ld || form->op == PTX_OP_ldu)
        return load_mask(graph, instr);
    if (effects & (PTX_READS | PTX_ATOMIC | PTX_CALLS | PTX_WORST | PTX_TEXTURE))
        return SPACE_ANY;
    switch (form->op) {
    case PTX_OP_cvta:
        return cvta_mask(graph, index);
    case PTX_OP_mad:
    case PTX_OP_madc:
    case PTX_OP_mad24:
        return sources_mask(graph, index, 3);
    case PTX_OP_cvt:
        return is_narrow_cvt(form) ? 0 : sources_mask(graph, index, 1);
    case PTX_OP_alloca:
        return SPACE_LOCAL;
    case PTX_OP_mapa:
        return SPACE_SHARED;
    case PTX_OP_mul:
    case PTX_OP_mul24:
    case PTX_OP_div:
    case PTX_OP_rem:
    case PTX_OP_shl:
    case PTX_OP_shr:
    case PTX_OP_popc:
    case PTX_OP_clz:
    case PTX_OP_setp:
    case PTX_OP_set:
        return 0;
    default:
        if (form->type_count && ptx_types[form->types[0]].class == PTX_FLOAT)
            return 0;
        return sources_mask(graph, index, 1);
    }
}

static unsigned value_mask(const struct graph *graph, const struct graph_value *value)
{
    unsigned mask = value->kind == VALUE_WRITE ? result_mask(graph, value->instr)
                    : value->kind == VALUE_PHI ? 0
                                               : SPACE_ANY;
    for (uint32_t i = 0; i < value->input_count; i++)
        mask |= graph->values[value->inputs[i]].spaces;
    return mask;
}

/* Puts what takes the value on the list, unless it is there. */
static void queue(uint32_t *list, uint32_t *count, bool *queued, uint32_t value)
{
    if (value != GRAPH_UNKNOWN && !queued[value])
        list[(*count)++] = value;
    queued[value] = true;
}

kg_status graph_make_spaces(struct graph *graph)
{
    uint32_t count = graph->value_count, listed = 0;
    uint32_t *list = graph_numbers(graph->arena, count);
    bool *queued = arena_alloc(graph->arena, count + 1);
    if (!list || !queued)
        return KG_NO_MEMORY;
    graph->values[GRAPH_UNKNOWN].spaces = SPACE_ANY;
    for (uint32_t v = count; v-- > 1;)
        queue(list, &listed, queued, v);
    while (listed) {
        uint32_t v = list[--listed];
        struct graph_value *value = &graph->values[v];
        queued[v] = false;
        unsigned mask = value->spaces | value_mask(graph, value);
        if (!graph_works(graph, 1 + value->input_count))
            return KG_LIMIT;
        if (mask == value->spaces)
            continue;
        value->spaces = (uint8_t)mask;
        for (uint32_t i = 0; i < value->user_count; i++) {
            const struct graph_user *user = &value->users[i];
            if (user->value != GRAPH_NONE)
                queue(list, &listed, queued, user->value);
            for (uint32_t r = user->instr == GRAPH_NONE ? 1 : graph->write_first[user->instr];
                 user->instr != GRAPH_NONE && r < graph->read_first[user->instr + 1]; r++)
                queue(list, &listed, queued, graph->refs[r].value);
        }
    }
    return KG_OK;
}

unsigned graph_spaces(const struct graph *graph, uint32_t instr, unsigned operand)
{
    const struct ptx_instr *at = &graph->func->instrs[instr];
    if (operand >= at->operand_count || at->opaque)
        return SPACE_ANY | SPACE_TEXTURE;
    if (ptx_effects(at) & PTX_TEXTURE)
        return SPACE_TEXTURE;
    enum ptx_space named = graph_named_space(at, operand);
    if (named != PTX_SPACE_generic)
        return mask_of(named);
    const struct ptx_operand *address = &at->operands[operand];
    if (address->reg == PTX_NO_REG)
        return address->var ? mask_of(address->var->space) : SPACE_ANY;
    unsigned mask = graph->values[graph_operand(graph, instr, address)].spaces;
    return mask ? mask : SPACE_ANY;
}
