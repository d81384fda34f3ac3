/* How origins flow: from sources to results, through .param variables of calls, and through local
 * and shared memory. Passes over all functions until nothing grows. */
#include "origin_parts.h"

enum {
    PASSES_MAX = 64,     /* real code needs 3 or 4 */
    WORK_MAX = 40000000, /* instructions and bytes of arguments visited: about a second */
};

struct flow {
    struct origins *of;
    struct origin_hidden *hidden;
    struct origin_sets *sets;
    uint32_t func; /* at hand */
    const struct graph *graph;
    uint32_t index; /* of the instruction */
    const struct ptx_instr *instr;
};

static const uint16_t unknown_item = ORIGIN_UNKNOWN;

static uint32_t unknown(struct flow *flow)
{
    return set_of(flow->sets, &unknown_item, 1);
}

static void join(struct flow *flow, uint32_t *to, uint32_t set)
{
    uint32_t both = set_join(flow->sets, *to, set);
    if (both != *to)
        flow->hidden->changed = true;
    *to = both;
}

static bool has_unknown(const struct flow *flow, uint32_t set)
{
    const struct origin_set *s = &flow->sets->sets[set];
    return s->count && s->items[s->count - 1] == ORIGIN_UNKNOWN;
}

/* An address of a variable is surely one, and so is a word that proved itself. */
static bool is_proven(const struct flow *flow, uint32_t set)
{
    const struct origin_set *s = &flow->sets->sets[set];
    for (uint32_t i = 0; i < s->count; i++)
        if (s->items[i] < ORIGIN_LOADED &&
            (flow->of->origins[s->items[i]].var || flow->of->origins[s->items[i]].proven))
            return true;
    return false;
}

static uint32_t word_set(struct flow *flow, uint64_t byte)
{
    uint32_t number = byte < ORIGIN_PARAM_BYTES
                          ? origin_number(flow->of, NULL, (uint32_t)(byte / 8))
                          : GRAPH_NONE;
    uint16_t item = (uint16_t)number;
    if (number == GRAPH_NONE)
        flow->hidden->failed = true;
    return number == GRAPH_NONE ? 0 : set_of(flow->sets, &item, 1);
}

/* The bytes at `offset` of a .param variable; NULL when memory is out. */
static uint32_t *cell(struct flow *flow, const struct ptx_var *var, int64_t offset)
{
    struct origin_hidden *hidden = flow->hidden;
    uint32_t number = number_of(&hidden->cells, var, (uint64_t)offset);
    if (number != NO_NUMBER && number >= hidden->cell_room) {
        uint32_t room = hidden->cell_room ? 2 * hidden->cell_room : 64;
        uint32_t *grown = graph_numbers(flow->of->arena, room);
        if (grown) {
            if (hidden->cell_room)
                memcpy(grown, hidden->cell_sets, hidden->cell_room * sizeof *grown);
            hidden->cell_sets = grown;
            hidden->cell_room = room;
        }
    }
    if (number >= hidden->cell_room) {
        hidden->failed = true;
        return NULL;
    }
    return &hidden->cell_sets[number];
}

static uint32_t value_of(struct flow *flow, const struct ptx_operand *operand)
{
    return origins_operand(flow->of, flow->func, flow->index, operand);
}

/* The value that the instruction gives the register; value 0 of a graph is never written. */
static void assign(struct flow *flow, const struct ptx_operand *to, uint32_t set)
{
    if (to->kind == PTX_REG) {
        uint32_t value = graph_write(flow->graph, flow->index, to->reg);
        if (value != GRAPH_UNKNOWN)
            join(flow, &flow->of->value_sets[flow->of->bases[flow->func] + value], set);
    }
    for (uint32_t i = 0; to->kind != PTX_ADDRESS && i < to->part_count; i++)
        assign(flow, &to->parts[i], set);
}

/* ---- memory -----------------------------------------------------------------------------------
 */

static unsigned width(const struct ptx_form *form)
{
    return form->type_count ? ptx_types[form->types[form->type_count - 1]].bits / 8 : 0;
}

/* Part `index` of a vector operand; the operand itself if it is none. */
static const struct ptx_operand *part(const struct ptx_operand *operand, unsigned index)
{
    return operand->kind == PTX_VECTOR && index < operand->part_count ? &operand->parts[index]
                                                                      : operand;
}

/* Words of a by-value struct whose address is taken. Those that are elsewhere read as something
 * smaller belong to its other members. */
static uint32_t words_of(struct flow *flow, const struct ptx_var *var)
{
    uint32_t set = 0;
    for (uint64_t at = 0; at + 8 <= var->size && !flow->hidden->failed; at += 8) {
        uint64_t byte = var->offset + at;
        if (byte < ORIGIN_PARAM_BYTES && flow->hidden->narrow[byte / 8])
            continue;
        set = set_join(flow->sets, set, word_set(flow, byte));
        flow->hidden->work++;
    }
    return set;
}

static bool is_entry_param(const struct flow *flow, const struct ptx_var *var)
{
    for (uint32_t i = 0; flow->of->entry && i < flow->of->entry->param_count; i++)
        if (flow->of->entry->params[i] == var)
            return true;
    return false;
}

static void load_param(struct flow *flow)
{
    const struct ptx_operand *to = &flow->instr->operands[0], *from = &flow->instr->operands[1];
    const struct ptx_form *form = flow->instr->form;
    bool entry = is_entry_param(flow, from->var);
    unsigned bytes = width(form), count = form->vector ? form->vector : 1;
    for (unsigned i = 0; i < count; i++) {
        uint32_t set = 0;
        int64_t offset = from->offset + (int64_t)i * bytes;
        bool inside = offset >= 0 && (uint64_t)offset < from->var->size;
        for (unsigned at = 0; entry && inside && at < (bytes ? bytes : 1); at += 8) {
            uint64_t byte = from->var->offset + (uint64_t)offset + at;
            set = set_join(flow->sets, set, word_set(flow, byte));
            if (bytes && bytes < 8 && count == 1 && byte < ORIGIN_PARAM_BYTES)
                flow->hidden->narrow[byte / 8] = true;
        }
        uint32_t *kept = entry ? NULL : cell(flow, from->var, offset);
        assign(flow, part(to, i), kept ? *kept : set);
    }
}

/* What an address in `base` finds in memory. From the entry's parameters: their words; from what
 * stores reach: what they put there; else what was loaded through it. */
static uint32_t content(struct flow *flow, uint32_t base)
{
    struct origins *of = flow->of;
    uint32_t set = 0;
    const struct origin_set from = flow->sets->sets[base];
    for (uint32_t i = 0; i < from.count && !flow->hidden->failed; i++) {
        uint16_t item = from.items[i];
        const struct ptx_var *var = item < ORIGIN_LOADED ? of->origins[item].var : NULL;
        flow->hidden->work++;
        if (var && is_entry_param(flow, var)) {
            set = set_join(flow->sets, set, words_of(flow, var));
        } else if (var && var->space != PTX_SPACE_global && var->space != PTX_SPACE_const) {
            set = set_join(flow->sets, set, of->hidden->contents[item]);
        } else {
            uint16_t loaded = item == ORIGIN_UNKNOWN ? item : item | ORIGIN_LOADED;
            set = set_join(flow->sets, set, set_of(flow->sets, &loaded, 1));
        }
    }
    return set;
}

static void load(struct flow *flow)
{
    const struct ptx_instr *instr = flow->instr;
    if (instr->operand_count < 2 || instr->operands[1].kind != PTX_ADDRESS)
        return;
    const struct ptx_operand *from = &instr->operands[1];
    if (instr->form->space == PTX_SPACE_param && from->var) {
        load_param(flow);
        return;
    }
    if (width(instr->form) < 4)
        return; /* no pointer fits, nor half of one */
    uint32_t base = value_of(flow, from), set = content(flow, base);
    unsigned spaces = graph_spaces(flow->graph, flow->index, 1);
    if (spaces & (SPACE_SHARED | SPACE_LOCAL))
        set = set_join(flow->sets, set, flow->hidden->anywhere);
    if (!base && spaces & (SPACE_GLOBAL | SPACE_CONST))
        set = set_join(flow->sets, set, unknown(flow));
    assign(flow, &instr->operands[0], set);
}

/* A pointer is stored whole, or as two words of one vector. */
static bool stores_pointers(const struct ptx_form *form)
{
    return width(form) >= 8 || (width(form) == 4 && form->vector >= 2);
}

/* Into memory that is followed; what goes to global memory comes back as loaded. */
static void put(struct flow *flow, const struct ptx_operand *to, uint32_t set)
{
    struct origins *of = flow->of;
    const struct origin_set into = flow->sets->sets[value_of(flow, to)];
    bool found = false;
    for (uint32_t i = 0; i < into.count; i++) {
        const struct ptx_var *var =
            into.items[i] < ORIGIN_LOADED ? of->origins[into.items[i]].var : NULL;
        if (!var || var->space == PTX_SPACE_global)
            continue;
        found = true;
        join(flow, &flow->hidden->contents[into.items[i]], set);
    }
    if (!found)
        join(flow, &flow->hidden->anywhere, set);
}

static void store(struct flow *flow)
{
    const struct ptx_instr *instr = flow->instr;
    if (instr->operand_count < 2 || instr->operands[0].kind != PTX_ADDRESS)
        return;
    const struct ptx_operand *to = &instr->operands[0];
    unsigned bytes = width(instr->form), count = instr->form->vector ? instr->form->vector : 1;
    if (instr->form->space == PTX_SPACE_param && to->var) {
        for (unsigned i = 0; i < count; i++) {
            uint32_t *into = cell(flow, to->var, to->offset + (int64_t)i * bytes);
            if (into)
                join(flow, into, value_of(flow, part(&instr->operands[1], i)));
        }
    } else if (stores_pointers(instr->form) &&
               graph_spaces(flow->graph, flow->index, 0) != SPACE_GLOBAL) {
        put(flow, to, value_of(flow, &instr->operands[1]));
    }
}

/* ---- registers --------------------------------------------------------------------------------
 */

/* Where a proven pointer and something else are added, the other is an offset. */
static void add(struct flow *flow)
{
    uint32_t a = value_of(flow, &flow->instr->operands[1]);
    uint32_t b = value_of(flow, &flow->instr->operands[2]);
    bool proven_a = is_proven(flow, a), proven_b = is_proven(flow, b);
    uint32_t sum = proven_a == proven_b ? set_join(flow->sets, a, b) : proven_a ? a : b;
    if (has_unknown(flow, a) || has_unknown(flow, b))
        sum = set_join(flow->sets, sum, unknown(flow));
    assign(flow, &flow->instr->operands[0], sum);
}

static void pass_on(struct flow *flow)
{
    uint32_t set = 0;
    for (unsigned i = 1; i < flow->instr->operand_count; i++)
        set = set_join(flow->sets, set, value_of(flow, &flow->instr->operands[i]));
    assign(flow, &flow->instr->operands[0], set);
    if (flow->instr->form->op == PTX_OP_cvta)
        origin_prove(flow->of, set);
}

static bool keeps_width(const struct ptx_form *form)
{
    return form->type_count == 2 && ptx_types[form->types[0]].bits == 64 &&
           ptx_types[form->types[1]].bits == 64;
}

/* ---- calls ------------------------------------------------------------------------------------
 */

/* Copies the cells of a .param variable of the caller to the callee's, or back. */
static void copy_cells(struct flow *flow, const struct ptx_var *from, const struct ptx_var *to)
{
    uint64_t size = from->size < ORIGIN_PARAM_BYTES ? from->size : ORIGIN_PARAM_BYTES;
    flow->hidden->work += size;
    for (uint64_t at = 0; at < size && !flow->hidden->failed; at++) {
        if (number_find(&flow->hidden->cells, from, at) == NO_NUMBER)
            continue;
        uint32_t set = *cell(flow, from, (int64_t)at), *into = cell(flow, to, (int64_t)at);
        if (into)
            join(flow, into, set);
    }
}

/* The set that stands for a callee's parameter that is no memory. */
static uint32_t *register_of(struct flow *flow, uint32_t callee, const struct ptx_var *param)
{
    uint32_t value = origins_start(flow->of, callee, param);
    return value != GRAPH_UNKNOWN ? &flow->of->value_sets[flow->of->bases[callee] + value] : NULL;
}

static void pass_argument(struct flow *flow, const struct ptx_operand *argument, uint32_t callee,
                          const struct ptx_var *param)
{
    if (argument->var && !param->is_register) {
        copy_cells(flow, argument->var, param);
        return;
    }
    uint32_t set = value_of(flow, argument);
    uint32_t *into = param->is_register ? register_of(flow, callee, param) : cell(flow, param, 0);
    if (into)
        join(flow, into, set);
}

/* A result in a register is what the function's returns see in it. */
static void take_result(struct flow *flow, const struct ptx_operand *result,
                        const struct ptx_var *param)
{
    if (result->var && !param->is_register) {
        copy_cells(flow, param, result->var);
        return;
    }
    uint32_t *from = cell(flow, param, 0);
    if (from)
        assign(flow, result, *from);
}

static void call_one(struct flow *flow, uint32_t number)
{
    const struct ptx_operand *results = &flow->instr->operands[0];
    const struct ptx_operand *arguments = &flow->instr->operands[2];
    const struct ptx_func *callee = number == GRAPH_NONE ? NULL : flow->of->needs->funcs[number];
    if (!callee || !callee->defined) {
        for (uint32_t i = 0; i < results->part_count; i++) {
            const struct ptx_operand *result = &results->parts[i];
            uint32_t *into = result->var ? cell(flow, result->var, 0) : NULL;
            if (into)
                join(flow, into, unknown(flow));
            assign(flow, result, unknown(flow));
        }
        return;
    }
    for (uint32_t i = 0; i < arguments->part_count && i < callee->param_count; i++)
        pass_argument(flow, &arguments->parts[i], number, callee->params[i]);
    for (uint32_t i = 0; i < results->part_count && i < callee->result_count; i++)
        take_result(flow, &results->parts[i], callee->results[i]);
}

static void call(struct flow *flow)
{
    const struct graph_calls *calls = &flow->of->calls;
    if (flow->instr->operand_count < 3)
        return;
    for (uint32_t s = graph_calls_at(calls, flow->func, flow->index);
         s < calls->first[flow->func + 1] && calls->sites[s].instr == flow->index; s++)
        call_one(flow, calls->sites[s].callee);
}

/* Results that are registers, at a ret: kept in the cell of the result. */
static void leave(struct flow *flow)
{
    const struct ptx_func *func = flow->graph->func;
    for (uint32_t i = 0; i < func->result_count; i++) {
        const struct ptx_var *result = func->results[i];
        uint32_t *into = result->is_register ? cell(flow, result, 0) : NULL;
        if (!into)
            continue;
        uint32_t value = graph_read(flow->graph, flow->index, result->reg);
        join(flow, into, flow->of->value_sets[flow->of->bases[flow->func] + value]);
    }
}

/* ---- passes -----------------------------------------------------------------------------------
 */

bool origin_passes(unsigned op)
{
    switch (op) {
    case PTX_OP_mov:
    case PTX_OP_cvta:
    case PTX_OP_mapa:
    case PTX_OP_selp:
    case PTX_OP_slct:
    case PTX_OP_min:
    case PTX_OP_max:
    case PTX_OP_and:
    case PTX_OP_or:
    case PTX_OP_xor:
    case PTX_OP_lop3:
    case PTX_OP_shfl:
        return true;
    default:
        return false;
    }
}

static void step(struct flow *flow)
{
    const struct ptx_instr *instr = flow->instr;
    bool known = instr->form->op != PTX_OP_unknown && !instr->form->strange;
    for (unsigned i = 0; !known && i < instr->operand_count; i++)
        assign(flow, &instr->operands[i], unknown(flow));
    switch (instr->form->op) {
    case PTX_OP_ld:
    case PTX_OP_ldu:
        load(flow);
        return;
    case PTX_OP_st:
        store(flow);
        return;
    case PTX_OP_call:
        call(flow);
        return;
    case PTX_OP_ret:
        leave(flow);
        return;
    case PTX_OP_add:
    case PTX_OP_sub:
    case PTX_OP_addc:
    case PTX_OP_subc:
        if (instr->operand_count >= 3)
            add(flow);
        return;
    case PTX_OP_mad:
    case PTX_OP_madc:
    case PTX_OP_mad24:
        if (instr->operand_count >= 4)
            assign(flow, &instr->operands[0], value_of(flow, &instr->operands[3]));
        return;
    case PTX_OP_cvt:
        if (!keeps_width(instr->form))
            return;
        break;
    case PTX_OP_atom: /* what was in memory */
        if (instr->operand_count >= 2 && width(instr->form) >= 8)
            assign(flow, &instr->operands[0], content(flow, value_of(flow, &instr->operands[1])));
        return;
    default:
        if (!origin_passes(instr->form->op))
            return;
    }
    if (instr->operand_count >= 2)
        pass_on(flow);
}

/* Merges at the head of a block, and in writes that may not happen. */
static void merge(struct flow *flow, uint32_t value)
{
    uint32_t *sets = flow->of->value_sets + flow->of->bases[flow->func];
    const struct graph_value *at = &flow->graph->values[value];
    for (uint32_t i = 0; i < at->input_count; i++)
        join(flow, &sets[value], sets[at->inputs[i]]);
}

static void pass_block(struct flow *flow, const struct graph_block *block)
{
    const struct graph *graph = flow->graph;
    for (uint32_t p = 0; p < block->phi_count; p++)
        merge(flow, block->phi_first + p);
    flow->hidden->work += block->end - block->first + block->phi_count;
    for (uint32_t i = block->first; i < block->end; i++) {
        flow->index = i;
        flow->instr = &graph->func->instrs[i];
        step(flow);
        for (uint32_t r = graph->write_first[i]; r < graph->read_first[i + 1]; r++)
            if (graph->refs[r].value != GRAPH_UNKNOWN && graph->values[graph->refs[r].value].may)
                merge(flow, graph->refs[r].value);
    }
}

static void pass(struct flow *flow)
{
    for (uint32_t f = 0; f < flow->of->needs->func_count; f++) {
        flow->func = f;
        flow->graph = &flow->of->graphs[f];
        for (uint32_t i = 0; i < flow->graph->order_count && flow->hidden->work < WORK_MAX; i++)
            pass_block(flow, &flow->graph->blocks[flow->graph->order[i]]);
    }
}

/* Some path leaves the function without ret. */
static bool falls_off(const struct graph *graph)
{
    bool falls = false;
    for (uint32_t i = 0; graph->func && i < graph->blocks[graph->exit].pred_count; i++)
        falls |= graph->blocks[graph->blocks[graph->exit].preds[i]].ends == GRAPH_FALLS;
    return falls;
}

/* Nothing is known of the values of a wild function, of results of one that just ends, and of the
 * arguments of one that may be called from anywhere. */
static void begin(struct flow *flow)
{
    struct origins *of = flow->of;
    memset(of->value_sets, 0, of->value_count * sizeof *of->value_sets);
    if (flow->hidden->cell_room)
        memset(flow->hidden->cell_sets, 0, flow->hidden->cell_room * sizeof(uint32_t));
    memset(flow->hidden->contents, 0, ORIGIN_COUNT * sizeof(uint32_t));
    flow->hidden->anywhere = 0;
    for (uint32_t f = 0; f < of->needs->func_count; f++) {
        of->value_sets[of->bases[f]] = unknown(flow);
        const struct ptx_func *func = of->needs->funcs[f];
        for (uint32_t i = 0; falls_off(&of->graphs[f]) && i < func->result_count; i++) {
            uint32_t *into = cell(flow, func->results[i], 0);
            if (into)
                *into = unknown(flow);
        }
        for (uint32_t i = 0; of->calls.unknown && !func->entry && i < func->param_count; i++) {
            const struct ptx_var *param = func->params[i];
            uint32_t *into =
                param->is_register ? register_of(flow, f, param) : cell(flow, param, 0);
            if (into)
                *into = unknown(flow);
        }
    }
}

kg_status origins_settle(struct origins *of)
{
    struct flow flow = {.of = of, .hidden = of->hidden, .sets = &of->hidden->sets};
    begin(&flow);
    for (unsigned i = 0; i < PASSES_MAX; i++) {
        of->hidden->changed = false;
        pass(&flow);
        if (of->hidden->failed || of->hidden->sets.failed || of->hidden->work >= WORK_MAX)
            return KG_LIMIT;
        if (!of->hidden->changed)
            return KG_OK;
    }
    return KG_LIMIT;
}
