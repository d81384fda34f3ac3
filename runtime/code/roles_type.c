/* Element types by use: what only moves (registers, merges, memory of one origin) is united, and
 * arithmetic on any of it says what all of it is. The width of an access says nothing: a float is
 * often loaded as .b32, four of them as .v4.u32. */
#include "roles_parts.h"

struct typing {
    struct roles_types *types;
    const struct origins *origins;
    uint32_t func, index;
    const struct graph *graph;
    const struct ptx_instr *instr;
};

/* ---- nodes ------------------------------------------------------------------------------------
 */

static uint32_t find(struct roles_types *types, uint32_t node)
{
    while (types->above[node] != node) {
        types->above[node] = types->above[types->above[node]];
        node = types->above[node];
    }
    return node;
}

static void unite(struct roles_types *types, uint32_t a, uint32_t b)
{
    if (a == GRAPH_NONE || b == GRAPH_NONE)
        return;
    a = find(types, a);
    b = find(types, b);
    if (a == b)
        return;
    types->above[b] = a;
    types->used[a] |= types->used[b];
    types->declared[a] |= types->declared[b];
}

static void use(struct roles_types *types, uint32_t node, uint32_t bits)
{
    if (node != GRAPH_NONE)
        types->used[find(types, node)] |= bits;
}

/* A .param variable of a call, whole. */
static uint32_t var_node(struct roles_types *types, const struct ptx_var *var)
{
    uint32_t number = number_of(&types->vars, var, 0);
    if (number < types->var_limit)
        return types->first_var + number;
    types->failed = true;
    return types->unknown;
}

uint32_t roles_item_node(const struct roles_types *types, uint16_t item)
{
    if (item == ORIGIN_UNKNOWN)
        return types->unknown;
    return item < ORIGIN_LOADED ? types->first_origin + item
                                : types->first_loaded + (item & ~(uint32_t)ORIGIN_LOADED);
}

static uint32_t read_node(const struct typing *at, uint32_t reg)
{
    uint32_t value = graph_read(at->graph, at->index, reg);
    return value == GRAPH_UNKNOWN ? at->types->unknown : at->origins->bases[at->func] + value;
}

static uint32_t write_node(const struct typing *at, uint32_t reg)
{
    uint32_t value = graph_write(at->graph, at->index, reg);
    return value == GRAPH_UNKNOWN ? at->types->unknown : at->origins->bases[at->func] + value;
}

static bool is_predicate(const struct typing *at, uint32_t reg)
{
    return at->graph->func->regs[reg].type == PTX_TYPE_pred;
}

/* Does `act` with the node of each register of the operand, predicates left out. */
static void each_node(const struct typing *at, const struct ptx_operand *operand, bool written,
                      void (*act)(struct roles_types *types, uint32_t node, uint32_t data),
                      uint32_t data)
{
    if (operand->kind == PTX_REG && !is_predicate(at, operand->reg))
        act(at->types, written ? write_node(at, operand->reg) : read_node(at, operand->reg), data);
    for (uint32_t i = 0; i < operand->part_count; i++)
        each_node(at, &operand->parts[i], written, act, data);
}

static void be_used(const struct typing *at, unsigned operand, uint32_t bits)
{
    char role = ptx_role(at->instr, operand);
    const struct ptx_operand *of = &at->instr->operands[operand];
    if (role != 'd' || of->kind == PTX_ADDRESS)
        each_node(at, of, false, use, bits);
    if ((role == 'd' || role == 'b') && of->kind != PTX_ADDRESS)
        each_node(at, of, true, use, bits);
}

/* ---- evidence ---------------------------------------------------------------------------------
 */

enum { STRANGE = 1u << ELEMENT_UNKNOWN };

static uint32_t bits_of(enum ptx_type type)
{
    switch (type) {
    case PTX_TYPE_f16:
    case PTX_TYPE_f16x2:
        return 1u << ELEMENT_F16;
    case PTX_TYPE_bf16:
    case PTX_TYPE_bf16x2:
        return 1u << ELEMENT_BF16;
    case PTX_TYPE_tf32:
    case PTX_TYPE_f32:
    case PTX_TYPE_f32x2:
        return 1u << ELEMENT_F32;
    case PTX_TYPE_f64:
        return 1u << ELEMENT_F64;
    default:
        return ptx_types[type].class == PTX_FLOAT ? STRANGE : 1u << ELEMENT_INT;
    }
}

/* What the operation takes operand `index` for. */
static uint32_t evidence(const struct ptx_form *form, unsigned index)
{
    uint32_t bits = 0;
    switch (form->op) {
    case PTX_OP_cvt:
    case PTX_OP_set:
        if (form->type_count >= 2)
            return bits_of(form->types[index ? 1 : 0]);
        return STRANGE;
    case PTX_OP_mma:
    case PTX_OP_wmma_mma:
        if (form->type_count == 4 && index < 4)
            return bits_of(form->types[index]);
        return STRANGE;
    case PTX_OP_shl:
    case PTX_OP_shr:
        return 1u << ELEMENT_INT;
    default:
        for (unsigned i = 0; i < form->type_count; i++)
            bits |= bits_of(form->types[i]);
        if (!bits)
            return 0;
        return bits & (bits - 1) ? STRANGE : bits;
    }
}

static void compute(const struct typing *at)
{
    for (unsigned i = 0; i < at->instr->operand_count; i++)
        be_used(at, i, evidence(at->instr->form, i));
}

/* ---- moves ------------------------------------------------------------------------------------
 */

static uint32_t own_node(const struct typing *at)
{
    return at->types->first_instr + at->types->instr_bases[at->func] + at->index;
}

/* Unites the registers that operand 0 writes with those of operands from `from` to `end`. */
static void move(const struct typing *at, unsigned from, unsigned end)
{
    each_node(at, &at->instr->operands[0], true, unite, own_node(at));
    for (unsigned i = from; i < end && i < at->instr->operand_count; i++)
        each_node(at, &at->instr->operands[i], false, unite, own_node(at));
}

/* Unites the instruction's node with the memory that an address leads to. */
static void touch(const struct typing *at, unsigned operand)
{
    const struct origin_set set =
        origins_set(at->origins, origins_operand(at->origins, at->func, at->index,
                                                 &at->instr->operands[operand]));
    for (uint32_t i = 0; i < set.count; i++)
        unite(at->types, own_node(at), roles_item_node(at->types, set.items[i]));
    if (!set.count)
        unite(at->types, own_node(at), at->types->unknown);
}

/* A type that ld or st names: what the compiler took the data for, no more. */
static uint32_t declared_bits(const struct ptx_form *form)
{
    enum ptx_type type = form->type_count ? form->types[form->type_count - 1] : PTX_TYPE_none;
    return ptx_types[type].class == PTX_FLOAT || ptx_types[type].class == PTX_SIGNED ||
                   ptx_types[type].class == PTX_UNSIGNED
               ? bits_of(type)
               : 0;
}

static void declare(const struct typing *at, uint32_t node)
{
    at->types->declared[find(at->types, node)] |= declared_bits(at->instr->form);
}

static void load_entry(const struct typing *at, uint32_t offset, uint32_t size)
{
    const struct ptx_operand *to = &at->instr->operands[0];
    uint32_t count = to->kind == PTX_VECTOR && to->part_count ? to->part_count : 1;
    for (uint32_t i = 0; i < count; i++) {
        const struct ptx_operand *part = to->kind == PTX_VECTOR ? &to->parts[i] : to;
        uint32_t first = at->types->first_byte + offset + i * (size / count);
        for (uint32_t byte = 1; byte < size / count; byte++)
            unite(at->types, first, first + byte);
        each_node(at, part, true, unite, first);
        declare(at, first);
    }
}

/* Of ld.param and st.param on a variable's name. False: not such. */
static bool move_param(const struct typing *at)
{
    const struct ptx_instr *instr = at->instr;
    unsigned address = instr->form->op == PTX_OP_st ? 0 : 1;
    uint32_t offset, size;
    if (instr->form->space != PTX_SPACE_param || instr->operand_count < 2 ||
        instr->operands[address].kind != PTX_ADDRESS || !instr->operands[address].var)
        return false;
    if (origins_param_load(at->origins, at->func, instr, &offset, &size) &&
        offset + size <= ORIGIN_PARAM_BYTES) {
        load_entry(at, offset, size);
        return true;
    }
    uint32_t node = var_node(at->types, instr->operands[address].var);
    each_node(at, &instr->operands[!address], !address ? false : true, unite, node);
    declare(at, node);
    return true;
}

/* Memory: first operands by operation; what is not listed has strange data. */
static void access_memory(const struct typing *at)
{
    const struct ptx_instr *instr = at->instr;
    const struct ptx_form *form = instr->form;
    enum ptx_op op = form->op;
    bool atomic = op == PTX_OP_atom || op == PTX_OP_red;
    bool load = op == PTX_OP_ld || op == PTX_OP_ldu || op == PTX_OP_ldmatrix ||
                op == PTX_OP_wmma_load || op == PTX_OP_atom;
    bool store =
        op == PTX_OP_st || op == PTX_OP_stmatrix || op == PTX_OP_wmma_store || op == PTX_OP_red;
    unsigned address = load ? 1 : 0, data = op == PTX_OP_atom ? 2 : 1;
    if ((op == PTX_OP_ld || op == PTX_OP_st) && move_param(at))
        return;
    for (unsigned i = 0; i < instr->operand_count; i++)
        if (instr->operands[i].kind == PTX_ADDRESS)
            touch(at, i);
    if (op == PTX_OP_cp_async || ptx_effects(instr) & PTX_TEXTURE) {
        if (ptx_role(instr, 0) == 'd')
            be_used(at, 0, form->type_count ? bits_of(form->types[0]) : STRANGE);
        return; /* bytes from one memory to the other: united by the instruction's node */
    }
    if ((!load && !store) || instr->operand_count <= address) {
        use(at->types, own_node(at), STRANGE);
        for (unsigned i = 0; i < instr->operand_count; i++)
            be_used(at, i, STRANGE);
        return;
    }
    if (load)
        each_node(at, &instr->operands[0], true, unite, own_node(at));
    for (unsigned i = data; (store || atomic) && i < instr->operand_count && i < data + 2u; i++)
        if (atomic || i == data)
            each_node(at, &instr->operands[i], false, unite, own_node(at));
    if (!atomic)
        declare(at, own_node(at));
    else if (!ptx_has(form, PTX_MOD_exch) && !ptx_has(form, PTX_MOD_cas))
        use(at->types, own_node(at), evidence(form, 0));
}

/* ---- calls ------------------------------------------------------------------------------------
 */

static void pass(const struct typing *at, const struct ptx_operand *operand, bool result,
                 uint32_t node)
{
    if (operand->var && operand->kind == PTX_SYMBOL)
        unite(at->types, var_node(at->types, operand->var), node);
    else
        each_node(at, operand, result, unite, node);
}

static void call(const struct typing *at)
{
    const struct graph_calls *calls = &at->origins->calls;
    if (at->instr->operand_count < 3)
        return;
    for (uint32_t s = graph_calls_at(calls, at->func, at->index);
         s < calls->first[at->func + 1] && calls->sites[s].instr == at->index; s++) {
        uint32_t number = calls->sites[s].callee;
        const struct ptx_func *callee =
            number == GRAPH_NONE ? NULL : at->origins->needs->funcs[number];
        bool known = callee && callee->defined;
        for (unsigned side = 0; side < 2; side++) {
            const struct ptx_operand *list = &at->instr->operands[side ? 0 : 2];
            uint32_t count = !known ? 0 : side ? callee->result_count : callee->param_count;
            for (uint32_t i = 0; i < list->part_count; i++)
                pass(at, &list->parts[i], side,
                     i < count ? var_node(at->types, side ? callee->results[i] : callee->params[i])
                               : at->types->unknown);
        }
    }
}

static void leave(const struct typing *at)
{
    const struct ptx_func *func = at->graph->func;
    for (uint32_t i = 0; i < func->result_count; i++)
        if (func->results[i]->is_register)
            unite(at->types, read_node(at, func->results[i]->reg),
                  var_node(at->types, func->results[i]));
}

/* ---- the whole --------------------------------------------------------------------------------
 */

static void step(const struct typing *at)
{
    uint32_t effects = ptx_effects(at->instr);
    switch (at->instr->form->op) {
    case PTX_OP_mov:
    case PTX_OP_movmatrix:
    case PTX_OP_shfl:
        if (at->instr->operand_count >= 2)
            move(at, 1, 2);
        return;
    case PTX_OP_selp:
    case PTX_OP_slct:
        if (at->instr->operand_count >= 4)
            move(at, 1, 3);
        if (at->instr->form->op == PTX_OP_slct && at->instr->form->type_count == 2)
            be_used(at, 3, bits_of(at->instr->form->types[1]));
        return;
    case PTX_OP_cvta:
        return;
    case PTX_OP_call:
        call(at);
        return;
    case PTX_OP_ret:
        leave(at);
        return;
    default:
        break;
    }
    if (effects & (PTX_READS | PTX_WRITES | PTX_WORST | PTX_TEXTURE))
        access_memory(at);
    else if (at->instr->form->type_count)
        compute(at);
}

static void walk_func(struct typing *at)
{
    const struct graph *graph = at->graph;
    uint32_t base = at->origins->bases[at->func];
    for (uint32_t v = 1; v < graph->value_count; v++)
        for (uint32_t i = 0; i < graph->values[v].input_count; i++)
            unite(at->types, base + v,
                  graph->values[v].inputs[i] == GRAPH_UNKNOWN ? at->types->unknown
                                                              : base + graph->values[v].inputs[i]);
    for (uint32_t i = 0; i < graph->func->param_count; i++) {
        uint32_t start = origins_start(at->origins, at->func, graph->func->params[i]);
        if (start != GRAPH_UNKNOWN)
            unite(at->types, base + start, var_node(at->types, graph->func->params[i]));
    }
    for (uint32_t i = 0; i < graph->func->instr_count; i++) {
        at->index = i;
        at->instr = &graph->func->instrs[i];
        if (graph->blocks[graph->block_of[i]].reachable)
            step(at);
    }
}

/* A by-value struct whose address is taken: its bytes are that memory. */
static void unite_structs(struct roles_types *types, const struct origins *origins)
{
    for (uint32_t i = 0; origins->entry && i < origins->entry->param_count; i++) {
        const struct ptx_var *param = origins->entry->params[i];
        uint32_t number = origins_of_var(origins, param);
        for (uint64_t byte = param->offset;
             number != GRAPH_NONE && byte < param->offset + param->size &&
             byte < ORIGIN_PARAM_BYTES;
             byte++)
            unite(types, types->first_origin + number, types->first_byte + (uint32_t)byte);
    }
}

kg_status roles_find_types(struct roles_types *types)
{
    const struct origins *origins = &types->roles->origins;
    struct typing at = {.types = types, .origins = origins};
    uint64_t instrs = 0, vars = 64;
    types->instr_bases = graph_numbers(types->arena, origins->needs->func_count);
    if (!types->instr_bases)
        return KG_NO_MEMORY;
    for (uint32_t f = 0; f < origins->needs->func_count; f++) {
        const struct ptx_func *func = origins->needs->funcs[f];
        types->instr_bases[f] = (uint32_t)instrs;
        instrs += func->instr_count;
        vars += func->var_count + func->param_count + func->result_count;
    }
    types->vars.arena = types->arena;
    types->var_limit = (uint32_t)vars;
    types->first_byte = origins->value_count;
    types->first_origin = types->first_byte + ORIGIN_PARAM_BYTES;
    types->first_loaded = types->first_origin + ORIGIN_COUNT;
    types->first_var = types->first_loaded + ORIGIN_COUNT;
    types->first_instr = types->first_var + types->var_limit;
    types->unknown = types->first_instr + (uint32_t)instrs;
    uint32_t count = types->unknown + 1;
    types->above = graph_numbers(types->arena, count);
    types->used = graph_numbers(types->arena, count);
    types->declared = graph_numbers(types->arena, count);
    if (!types->above || !types->used || !types->declared)
        return KG_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        types->above[i] = i;
    types->used[types->unknown] = STRANGE;
    for (at.func = 0; at.func < origins->needs->func_count; at.func++) {
        at.graph = &origins->graphs[at.func];
        if (at.graph->func)
            walk_func(&at);
    }
    unite_structs(types, origins);
    return types->failed ? KG_LIMIT : KG_OK;
}

enum element roles_element(struct roles_types *types, uint32_t node, bool *declared)
{
    uint32_t root = find(types, node);
    uint32_t used = types->used[root], said = types->declared[root];
    uint32_t floats = said & ~(1u << ELEMENT_INT), all = used | floats;
    *declared = !used && said;
    if (!used && !said)
        return ELEMENT_MOVED;
    if (!used)
        all = said;
    return all & (all - 1) ? ELEMENT_UNKNOWN : (enum element)__builtin_ctz(all);
}
