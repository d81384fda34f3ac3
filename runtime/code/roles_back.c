/* Roles, backwards: each use gives its operands a role; what an operation computes hands its roles
 * on to what it is computed from; what is stored gets those of what is loaded from the same memory.
 * Passes until nothing grows. */
#include "roles_parts.h"

enum { PASSES_MAX = 64, WORK_MAX = 40000000 };

struct walk {
    struct roles_back *back;
    const struct origins *origins;
    uint32_t func, index;
    const struct graph *graph;
    const struct ptx_instr *instr;
};

/* ---- sets -------------------------------------------------------------------------------------
 */

static void join(struct roles_back *back, struct role_set *to, const struct role_set *from)
{
    unsigned fresh = from->roles & ~to->roles;
    if (!fresh)
        return;
    for (unsigned i = 0; i < ROLE_COUNT; i++)
        if (fresh >> i & 1)
            to->lines[i] = from->lines[i];
    to->roles |= fresh;
    back->changed = true;
}

static struct role_set role(const struct walk *walk, unsigned roles)
{
    struct role_set set = {.roles = roles};
    for (unsigned i = 0; i < ROLE_COUNT; i++)
        if (roles >> i & 1)
            set.lines[i] = walk->instr->place.line;
    return set;
}

static void add(struct role_set *to, const struct role_set *from)
{
    for (unsigned i = 0; i < ROLE_COUNT; i++)
        if (from->roles & ~to->roles & 1u << i)
            to->lines[i] = from->lines[i];
    to->roles |= from->roles;
}

static void add_role(const struct walk *walk, struct role_set *to, unsigned roles)
{
    struct role_set set = role(walk, roles);
    add(to, &set);
}

/* Behind a multiplication, a shift or the like, a part of an address is an index. */
static struct role_set scaled(struct role_set set)
{
    if (set.roles & ROLE_POINTER) {
        if (!(set.roles & ROLE_INDEX))
            set.lines[1] = set.lines[0];
        set.roles = (set.roles & ~(unsigned)ROLE_POINTER) | ROLE_INDEX;
        set.lines[0] = 0;
    }
    return set;
}

static struct role_set *var_set(struct walk *walk, const struct ptx_var *var)
{
    struct roles_back *back = walk->back;
    uint32_t number = number_of(&back->vars, var, 0);
    if (number != NO_NUMBER && number >= back->var_room) {
        uint32_t room = back->var_room ? 2 * back->var_room : 32;
        struct role_set *grown = arena_alloc(back->arena, room * sizeof *grown);
        if (grown && back->var_room)
            memcpy(grown, back->var_sets, back->var_room * sizeof *grown);
        back->var_sets = grown;
        back->var_room = grown ? room : 0;
    }
    if (number < back->var_room)
        return &back->var_sets[number];
    back->failed = true;
    return &back->anywhere;
}

/* ---- giving roles to operands -----------------------------------------------------------------
 */

static void give_reg(struct walk *walk, uint32_t reg, const struct role_set *set)
{
    uint32_t value = graph_read(walk->graph, walk->index, reg);
    if (value != GRAPH_UNKNOWN)
        join(walk->back, &walk->back->values[walk->origins->bases[walk->func] + value], set);
}

static void give(struct walk *walk, const struct ptx_operand *operand, const struct role_set *set)
{
    if (operand->reg != PTX_NO_REG)
        give_reg(walk, operand->reg, set);
    for (uint32_t i = 0; i < operand->part_count; i++)
        give(walk, &operand->parts[i], set);
}

/* Roles of all that the instruction writes. */
static struct role_set result_of(const struct walk *walk)
{
    struct role_set set = {0};
    const struct graph *graph = walk->graph;
    for (uint32_t r = graph->write_first[walk->index]; r < graph->read_first[walk->index + 1]; r++)
        add(&set, &walk->back->values[walk->origins->bases[walk->func] + graph->refs[r].value]);
    return set;
}

static void give_all(struct walk *walk, unsigned from, unsigned end, const struct role_set *set)
{
    for (unsigned i = from; i < end && i < walk->instr->operand_count; i++)
        if (walk->instr->operands[i].kind != PTX_ADDRESS)
            give(walk, &walk->instr->operands[i], set);
}

/* ---- memory -----------------------------------------------------------------------------------
 */

static bool is_entry_param(const struct walk *walk, const struct ptx_var *var)
{
    const struct ptx_func *entry = walk->origins->entry;
    for (uint32_t i = 0; i < entry->param_count; i++)
        if (entry->params[i] == var)
            return true;
    return false;
}

static void give_bytes(struct walk *walk, uint64_t offset, uint64_t size,
                       const struct role_set *set)
{
    for (uint64_t i = offset; i < offset + size && i < ORIGIN_PARAM_BYTES; i++)
        join(walk->back, &walk->back->bytes[i], set);
}

/* What is loaded from memory has these roles. */
static void give_memory(struct walk *walk, uint32_t number, const struct role_set *set)
{
    struct roles_back *back = walk->back;
    const struct origin_set items = origins_set(walk->origins, number);
    if (!items.count)
        join(back, &back->anywhere, set);
    for (uint32_t i = 0; i < items.count; i++) {
        if (items.items[i] >= ORIGIN_LOADED) {
            join(back, &back->anywhere, set);
            continue;
        }
        const struct ptx_var *var = walk->origins->origins[items.items[i]].var;
        if (var && is_entry_param(walk, var))
            give_bytes(walk, var->offset, var->size, set);
        join(back, &back->contents[items.items[i]], set);
    }
    join(back, &back->everything, set);
}

/* What is written there is used like this. */
static struct role_set memory_of(const struct walk *walk, uint32_t number)
{
    struct role_set set = walk->back->anywhere;
    const struct origin_set items = origins_set(walk->origins, number);
    bool known = items.count > 0;
    for (uint32_t i = 0; i < items.count; i++) {
        if (items.items[i] < ORIGIN_LOADED)
            add(&set, &walk->back->contents[items.items[i]]);
        else
            known = false;
    }
    if (!known)
        add(&set, &walk->back->everything);
    return set;
}

static uint32_t set_at(const struct walk *walk, unsigned operand)
{
    return origins_operand(walk->origins, walk->func, walk->index, &walk->instr->operands[operand]);
}

static void load_param(struct walk *walk, const struct role_set *result)
{
    const struct ptx_operand *from = &walk->instr->operands[1];
    uint32_t offset, size;
    if (origins_param_load(walk->origins, walk->func, walk->instr, &offset, &size))
        give_bytes(walk, offset, size, result);
    else if (is_entry_param(walk, from->var)) /* partly outside: not understood */
        give_bytes(walk, from->var->offset, from->var->size, result);
    else
        join(walk->back, var_set(walk, from->var), result);
}

/* A param load of a vector gives each byte the roles of its own element. */
static bool load_vector(struct walk *walk)
{
    uint32_t offset, size;
    const struct ptx_operand *to = &walk->instr->operands[0];
    if (!origins_param_load(walk->origins, walk->func, walk->instr, &offset, &size) ||
        to->kind != PTX_VECTOR || !to->part_count || size % to->part_count)
        return false;
    size /= to->part_count;
    for (uint32_t i = 0; i < to->part_count; i++) {
        uint32_t value = to->parts[i].kind == PTX_REG
                             ? graph_write(walk->graph, walk->index, to->parts[i].reg)
                             : GRAPH_UNKNOWN;
        if (value != GRAPH_UNKNOWN)
            give_bytes(walk, offset + i * size, size,
                       &walk->back->values[walk->origins->bases[walk->func] + value]);
    }
    return true;
}

/* Every operation with addresses: they get that role, data written gets that of the memory, and the
 * memory read that of the result. */
static void access_memory(struct walk *walk, struct role_set result)
{
    const struct ptx_instr *instr = walk->instr;
    uint32_t effects = ptx_effects(instr);
    struct role_set address = role(walk, ROLE_POINTER), data = role(walk, ROLE_VALUE);
    bool any = false;
    for (unsigned i = 0; i < instr->operand_count; i++) {
        if (instr->operands[i].kind != PTX_ADDRESS)
            continue;
        struct role_set within = role(walk, ROLE_INDEX);
        any = true;
        if (instr->operands[i].reg != PTX_NO_REG)
            give_reg(walk, instr->operands[i].reg, &address);
        for (uint32_t j = 0; j < instr->operands[i].part_count; j++)
            give(walk, &instr->operands[i].parts[j], &within);
        if (effects & PTX_WRITES && i == 0) { /* of a copy: its target */
            struct role_set memory = memory_of(walk, set_at(walk, i));
            add(&data, &memory);
        }
        if (effects & PTX_WRITES && ptx_role(instr, 0) != 'a') {
            struct role_set memory = memory_of(walk, set_at(walk, i));
            add(&data, &memory);
        }
        struct role_set read = result;
        if (effects & PTX_WRITES) /* what was there goes on: copies, atomics */
            add(&read, &data);
        if (effects & PTX_READS)
            give_memory(walk, set_at(walk, i), &read);
    }
    if (!any || effects & (PTX_TEXTURE | PTX_WORST))
        add_role(walk, &data, ROLE_INDEX | ROLE_UNKNOWN);
    if (effects & PTX_ASYNC)
        add_role(walk, &data, ROLE_INDEX); /* sizes, ignored bytes, policies */
    add(&data, &result);
    if (instr->form->op != PTX_OP_st)
        data = scaled(data);
    unsigned first = ptx_role(instr, 0) == 'd' ? 1 : 0;
    if (effects & PTX_WRITES || !any || effects & PTX_WORST)
        give_all(walk, first, UINT16_MAX, &data);
}

static void store_param(struct walk *walk)
{
    struct role_set set = *var_set(walk, walk->instr->operands[0].var);
    give_all(walk, 1, UINT16_MAX, &set);
}

/* ---- calls ------------------------------------------------------------------------------------
 */

/* An argument or result: a .param variable, or a register. */
static void give_argument(struct walk *walk, const struct ptx_operand *argument,
                          const struct role_set *set)
{
    if (argument->var && argument->kind == PTX_SYMBOL)
        join(walk->back, var_set(walk, argument->var), set);
    else
        give(walk, argument, set);
}

static struct role_set result_operand(struct walk *walk, const struct ptx_operand *result)
{
    struct role_set set = {0};
    if (result->var)
        return *var_set(walk, result->var);
    uint32_t value = result->kind == PTX_REG ? graph_write(walk->graph, walk->index, result->reg)
                                             : GRAPH_UNKNOWN;
    return value == GRAPH_UNKNOWN ? set
                                  : walk->back->values[walk->origins->bases[walk->func] + value];
}

static void call_one(struct walk *walk, uint32_t number)
{
    const struct ptx_operand *results = &walk->instr->operands[0];
    const struct ptx_operand *arguments = &walk->instr->operands[2];
    const struct ptx_func *callee =
        number == GRAPH_NONE ? NULL : walk->origins->needs->funcs[number];
    bool known = callee && callee->defined;
    struct role_set unknown = role(walk, ROLE_UNKNOWN);
    for (uint32_t i = 0; i < arguments->part_count; i++) {
        struct role_set set =
            known && i < callee->param_count ? *var_set(walk, callee->params[i]) : unknown;
        give_argument(walk, &arguments->parts[i], &set);
    }
    for (uint32_t i = 0; known && i < results->part_count && i < callee->result_count; i++) {
        struct role_set set = result_operand(walk, &results->parts[i]);
        join(walk->back, var_set(walk, callee->results[i]), &set);
    }
}

static void call(struct walk *walk)
{
    const struct graph_calls *calls = &walk->origins->calls;
    struct role_set branch = role(walk, ROLE_BRANCH);
    if (walk->instr->operand_count < 3)
        return;
    give(walk, &walk->instr->operands[1], &branch);
    for (uint32_t s = graph_calls_at(calls, walk->func, walk->index);
         s < calls->first[walk->func + 1] && calls->sites[s].instr == walk->index; s++)
        call_one(walk, calls->sites[s].callee);
}

static void leave(struct walk *walk)
{
    const struct ptx_func *func = walk->graph->func;
    for (uint32_t i = 0; i < func->result_count; i++)
        if (func->results[i]->is_register) {
            struct role_set set = *var_set(walk, func->results[i]);
            give_reg(walk, func->results[i]->reg, &set);
        }
}

/* ---- operations -------------------------------------------------------------------------------
 */

/* Operands from `first` on (up to `end`) are positions or amounts. */
static const struct {
    enum ptx_op op;
    uint8_t first, end;
    unsigned role;
} amounts[] = {
    {PTX_OP_shl, 2, 3, ROLE_SHIFT},   {PTX_OP_shr, 2, 3, ROLE_SHIFT},
    {PTX_OP_shf, 3, 4, ROLE_SHIFT},   {PTX_OP_bfe, 2, 4, ROLE_SHIFT},
    {PTX_OP_bfi, 3, 5, ROLE_SHIFT},   {PTX_OP_bmsk, 1, 3, ROLE_SHIFT},
    {PTX_OP_prmt, 3, 4, ROLE_SHIFT},  {PTX_OP_szext, 2, 3, ROLE_SHIFT},
    {PTX_OP_vshl, 2, 3, ROLE_SHIFT},  {PTX_OP_vshr, 2, 3, ROLE_SHIFT},
    {PTX_OP_fns, 1, 4, ROLE_SHIFT},   {PTX_OP_selp, 3, 4, ROLE_SELECT},
    {PTX_OP_slct, 3, 4, ROLE_SELECT}, {PTX_OP_shfl, 2, 5, ROLE_INDEX},
};

/* A result that is an address is made of the operands as they are. */
static bool is_exact(const struct ptx_form *form)
{
    switch (form->op) {
    case PTX_OP_add:
    case PTX_OP_sub:
    case PTX_OP_addc:
    case PTX_OP_subc:
        return true;
    case PTX_OP_cvt:
        return form->type_count == 2 &&
               ptx_types[form->types[0]].bits == ptx_types[form->types[1]].bits &&
               ptx_types[form->types[0]].class != PTX_FLOAT &&
               ptx_types[form->types[1]].class != PTX_FLOAT;
    default:
        return origin_passes(form->op);
    }
}

static void compute(struct walk *walk, struct role_set result)
{
    const struct ptx_instr *instr = walk->instr;
    struct role_set inexact = scaled(result);
    enum ptx_op op = instr->form->op;
    unsigned first = instr->operand_count, end = first;
    struct role_set amount = inexact;
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++)
        if (amounts[i].op == op) {
            first = amounts[i].first;
            end = amounts[i].end;
            add_role(walk, &amount, amounts[i].role);
        }
    bool exact = is_exact(instr->form),
         product = op == PTX_OP_mad || op == PTX_OP_madc || op == PTX_OP_mad24;
    for (unsigned i = 1; i < instr->operand_count; i++) {
        bool keeps = exact || (product && i == 3);
        give(walk, &instr->operands[i],
             i >= first && i < end ? &amount
             : keeps               ? &result
                                   : &inexact);
    }
    if (op == PTX_OP_addc || op == PTX_OP_subc || op == PTX_OP_madc)
        give_reg(walk, walk->graph->carry, &inexact);
}

/* ---- control ----------------------------------------------------------------------------------
 */

/* The block's last instruction decides whether a loop is left. */
static bool leaves_loop(const struct graph *graph, uint32_t number)
{
    const struct graph_block *block = &graph->blocks[number];
    bool leaves = graph->wild;
    for (uint32_t i = 0; block->loop != GRAPH_NONE && i < block->succ_count; i++)
        leaves |= block->succs[i] == graph->exit ||
                  !graph_in_loop(graph, block->loop, block->succs[i]) ||
                  graph->loops[block->loop].irreducible;
    return leaves;
}

static void decide(struct walk *walk, const struct role_set *result)
{
    const struct ptx_instr *instr = walk->instr;
    uint32_t effects = ptx_effects(instr), block = walk->graph->block_of[walk->index];
    bool control = effects & (PTX_BRANCH | PTX_LEAVES);
    struct role_set set = {0};
    if (effects & ~(uint32_t)PTX_WARP)
        add_role(walk, &set, ROLE_BRANCH);
    else
        add_role(walk, &set, ROLE_SELECT);
    if (control && leaves_loop(walk->graph, block))
        add_role(walk, &set, ROLE_BOUND);
    if (effects & PTX_BRANCH)
        give_all(walk, 0, UINT16_MAX, &set); /* the index of brx.idx */
    struct role_set more = scaled(*result);
    add(&set, &more);
    if (instr->guard != PTX_NO_REG)
        give_reg(walk, instr->guard, &set);
}

static void step(struct walk *walk)
{
    const struct ptx_instr *instr = walk->instr;
    uint32_t effects = ptx_effects(instr);
    struct role_set result = result_of(walk), wait = role(walk, ROLE_BRANCH);
    enum ptx_op op = instr->form->op;
    bool param = instr->form->space == PTX_SPACE_param && instr->operand_count > 1;
    decide(walk, &result);
    if (op == PTX_OP_call) {
        call(walk);
    } else if (op == PTX_OP_ret) {
        leave(walk);
    } else if (op == PTX_OP_ld && param && instr->operands[1].var &&
               instr->operands[1].kind == PTX_ADDRESS) {
        if (!load_vector(walk))
            load_param(walk, &result);
    } else if (op == PTX_OP_st && param && instr->operands[0].var) {
        store_param(walk);
    } else if (effects & (PTX_READS | PTX_WRITES | PTX_WORST | PTX_TEXTURE)) {
        access_memory(walk, result);
    } else if (effects & (PTX_BARRIER | PTX_LEAVES) || op == PTX_OP_nanosleep) {
        add(&wait, &result);
        give_all(walk, ptx_role(instr, 0) == 'd' ? 1 : 0, UINT16_MAX, &wait);
    } else if (ptx_role(instr, 0) == 'a') { /* prefetch and the like */
        struct role_set index = role(walk, ROLE_INDEX);
        for (unsigned i = 0; i < instr->operand_count; i++)
            give(walk, &instr->operands[i], &index);
    } else if (!(effects & PTX_BRANCH)) {
        compute(walk, result);
    }
}

/* ---- passes -----------------------------------------------------------------------------------
 */

static void merge(struct walk *walk, uint32_t value)
{
    struct role_set *sets = walk->back->values + walk->origins->bases[walk->func];
    const struct graph_value *at = &walk->graph->values[value];
    for (uint32_t i = 0; i < at->input_count; i++)
        join(walk->back, &sets[at->inputs[i]], &sets[value]);
}

static void pass_block(struct walk *walk, const struct graph_block *block)
{
    const struct graph *graph = walk->graph;
    walk->back->work += 2 * (block->end - block->first) + block->phi_count;
    for (uint32_t i = block->end; i-- > block->first;) {
        walk->index = i;
        walk->instr = &graph->func->instrs[i];
        for (uint32_t r = graph->write_first[i]; r < graph->read_first[i + 1]; r++)
            if (graph->refs[r].value != GRAPH_UNKNOWN && graph->values[graph->refs[r].value].may)
                merge(walk, graph->refs[r].value);
        step(walk);
    }
    for (uint32_t p = 0; p < block->phi_count; p++)
        merge(walk, block->phi_first + p);
}

/* Parameters in registers: roles of their value at the start. Value 0 collects what reads of
 * unknown values give; it means nothing. */
static void pass_func(struct walk *walk)
{
    const struct graph *graph = walk->graph;
    const struct ptx_func *func = graph->func;
    for (uint32_t i = graph->order_count; i-- > 0 && walk->back->work < WORK_MAX;)
        pass_block(walk, &graph->blocks[graph->order[i]]);
    for (uint32_t i = 0; func && i < func->param_count; i++) {
        uint32_t value = origins_start(walk->origins, walk->func, func->params[i]);
        if (value != GRAPH_UNKNOWN)
            join(walk->back, var_set(walk, func->params[i]),
                 &walk->back->values[walk->origins->bases[walk->func] + value]);
    }
}

/* A function of which nothing is known may do anything with what it reads. */
static void be_wild(struct walk *walk)
{
    struct roles_back *back = walk->back;
    const struct ptx_func *func = walk->graph->func;
    struct role_set unknown = {.roles = ROLE_UNKNOWN};
    unknown.lines[7] = walk->graph->wild_line;
    for (uint32_t i = 0; i < func->param_count; i++) {
        if (func == walk->origins->entry)
            give_bytes(walk, func->params[i]->offset, func->params[i]->size, &unknown);
        else
            join(back, var_set(walk, func->params[i]), &unknown);
    }
    join(back, &back->anywhere, &unknown);
    join(back, &back->everything, &unknown);
}

kg_status roles_go_back(struct roles_back *back)
{
    const struct origins *origins = &back->roles->origins;
    struct walk walk = {.back = back, .origins = origins};
    back->vars.arena = back->arena;
    back->values = arena_alloc(back->arena, (origins->value_count + 1ull) * sizeof *back->values);
    back->bytes = arena_alloc(back->arena, (ORIGIN_PARAM_BYTES + 1) * sizeof *back->bytes);
    back->contents = arena_alloc(back->arena, ORIGIN_COUNT * sizeof *back->contents);
    if (!back->values || !back->bytes || !back->contents)
        return KG_NO_MEMORY;
    for (unsigned pass = 0; pass < PASSES_MAX; pass++) {
        back->changed = false;
        for (uint32_t i = origins->needs->func_count; i-- > 0;) {
            walk.func = origins->calls.bottom_up[i]; /* callers first, from their ends */
            walk.graph = &origins->graphs[walk.func];
            if (!walk.graph->func)
                continue;
            pass_func(&walk);
            if (walk.graph->wild)
                be_wild(&walk);
        }
        if (back->failed || back->work >= WORK_MAX)
            return KG_LIMIT;
        if (!back->changed)
            return KG_OK;
    }
    return KG_LIMIT;
}
