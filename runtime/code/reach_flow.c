/* Passes over a function in reverse post order: the value of each register write as an affine form,
 * and the facts in force in each block. Loops begin with guesses; passes are repeated until all
 * guesses are proven by the pass that used them. Reducible flow only. */
#include "reach_parts.h"

enum { PASSES_MAX = 40, WORK_MAX = 2000000, INPUTS_MAX = 32, REVIVALS = 1 };

bool reach_integer(const struct reaching *r, uint32_t reg)
{
    if (reg >= r->func->reg_count)
        return false;
    const struct ptx_type_row *type = &ptx_types[r->func->regs[reg].type];
    return (type->class == PTX_BITS || type->class == PTX_UNSIGNED || type->class == PTX_SIGNED) &&
           type->bits >= 8 && type->bits <= 64;
}

uint32_t reach_headed(const struct reaching *r, uint32_t block)
{
    uint32_t loop = r->graph->blocks[block].loop;
    return loop != GRAPH_NONE && r->graph->loops[loop].header == block ? loop : GRAPH_NONE;
}

bool reach_is_latch(const struct reaching *r, uint32_t loop, uint32_t block)
{
    return graph_in_loop(r->graph, loop, block);
}

void reach_input(struct reaching *r, uint32_t value, struct form *out)
{
    if (value != GRAPH_UNKNOWN && r->values[value].form) {
        form_scale(r->values[value].form, 1, out);
        return;
    }
    if (value != GRAPH_UNKNOWN) {
        *out = reach_anything(r, value);
        return;
    }
    *out = reach_unknown(r, &r->graph->values[0], 3, reach_type_range(64, true), true,
                         "a register without a value");
}

static void keep(struct reaching *r, uint32_t value, const struct form *form)
{
    struct known *known = &r->values[value];
    if (!form)
        known->form = NULL;
    else if (!known->form || !form_equal(known->form, form))
        known->form = form_keep(&r->affine, form);
}

/* Joins what comes from predecessors; for a loop's header, from those outside. */
static bool join_inputs(struct reaching *r, uint32_t number, uint32_t loop, struct form *out)
{
    const struct graph_value *value = &r->graph->values[number];
    const struct graph_block *block = &r->graph->blocks[value->block];
    struct form forms[INPUTS_MAX];
    const struct fact *facts[INPUTS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < block->pred_count && i < value->input_count; i++) {
        if (loop != GRAPH_NONE && reach_is_latch(r, loop, block->preds[i]))
            continue;
        if (count == INPUTS_MAX)
            return false;
        facts[count] = reach_edge(r, block->preds[i], value->block);
        if (!facts_never(facts[count]))
            reach_input(r, value->inputs[i], &forms[count++]);
    }
    if (!count)
        return false;
    *out = reach_join(r, value, value->block, count, forms, facts);
    return true;
}

static void merge(struct reaching *r, uint32_t number)
{
    const struct graph_value *value = &r->graph->values[number];
    uint32_t loop = reach_headed(r, value->block);
    struct form out;
    r->values[number].cond = NULL;
    if (!reach_integer(r, value->reg) || !join_inputs(r, number, loop, &out)) {
        keep(r, number, NULL);
        if (loop != GRAPH_NONE)
            r->phis[number].kind = PHI_ANYTHING;
        return;
    }
    if (loop != GRAPH_NONE)
        out = reach_header_phi(r, number, &out);
    keep(r, number, &out);
}

/* Which element of a vector destination the register is. */
static unsigned part_of(const struct ptx_instr *instr, uint32_t reg)
{
    const struct ptx_operand *to = &instr->operands[0];
    for (uint32_t i = 0; to->kind == PTX_VECTOR && i < to->part_count; i++)
        if (to->parts[i].kind == PTX_REG && to->parts[i].reg == reg)
            return i;
    return 0;
}

static void write_value(struct reaching *r, uint32_t i, const struct graph_ref *ref, bool single)
{
    const struct ptx_instr *instr = &r->func->instrs[i];
    const struct graph_value *value = &r->graph->values[ref->value];
    struct form forms[2];
    bool load = instr->form->op == PTX_OP_ld || instr->form->op == PTX_OP_ldu;
    r->values[ref->value].cond = NULL;
    if (!reach_integer(r, ref->reg)) {
        if (single && !value->may && !instr->opaque && !instr->form->strange)
            r->values[ref->value].cond = reach_cond(r, instr);
        return;
    }
    bool known = instr->form->strange ? false
                 : load               ? reach_load(r, instr, part_of(instr, ref->reg), &forms[0])
                 : single             ? reach_value(r, instr, &forms[0])
                                      : false;
    if (known && value->may && instr->guard != PTX_NO_REG && value->input_count) {
        const struct fact *before = r->facts[r->block];
        const struct fact *facts[2] = {r->now, reach_assume(r, reach_predicate(r, i, instr->guard),
                                                            instr->guard_negated, before)};
        reach_input(r, value->inputs[0], &forms[1]);
        forms[0] = reach_join(r, value, r->block, 2, forms, facts);
    } else if (value->may) {
        known = false;
    }
    keep(r, ref->value, known ? &forms[0] : NULL);
}

/* Nobody comes to the block: its values are nothing. */
static void skip_block(struct reaching *r, const struct graph_block *block)
{
    for (uint32_t i = 0; i < block->phi_count; i++)
        r->values[block->phi_first + i] = (struct known){NULL, NULL};
    for (uint32_t i = block->first; i < block->end; i++)
        for (uint32_t w = r->graph->write_first[i]; w < r->graph->read_first[i + 1]; w++)
            r->values[r->graph->refs[w].value] = (struct known){NULL, NULL};
}

static void run_block(struct reaching *r, uint32_t b)
{
    const struct graph *graph = r->graph;
    const struct graph_block *block = &graph->blocks[b];
    uint32_t loop = reach_headed(r, b), outside = 0, live = 0;
    const struct fact *facts = NULL, *edge = NULL;
    r->block = b;
    r->instr = block->first;
    for (uint32_t i = 0; i < block->pred_count; i++)
        if (loop == GRAPH_NONE || !reach_is_latch(r, loop, block->preds[i])) {
            const struct fact *way = reach_edge(r, block->preds[i], b);
            edge = facts_never(way) ? edge : way;
            live += !facts_never(way);
            outside++;
        }
    if (outside && !live) {
        r->facts[b] = fact_never(&r->affine);
        skip_block(r, block);
        return;
    }
    if (live == 1)
        facts = edge;
    else if (block->idom != GRAPH_NONE)
        facts = r->facts[block->idom];
    r->now = r->facts[b] = loop != GRAPH_NONE ? reach_header_facts(r, loop, facts) : facts;
    for (uint32_t i = 0; i < block->phi_count; i++)
        merge(r, block->phi_first + i);
    for (uint32_t i = block->first; i < block->end; i++) {
        uint32_t first = graph->write_first[i], end = graph->read_first[i + 1];
        r->instr = i;
        if (first == end)
            continue;
        r->now = reach_at(r, i);
        for (uint32_t w = first; w < end; w++)
            write_value(r, i, &graph->refs[w], end - first == 1);
    }
}

static bool make_trips(struct reaching *r)
{
    for (uint32_t i = 0; i < r->graph->loop_count; i++) {
        uint32_t id = symbol_new(&r->affine, SYMBOL_TRIP);
        if (id == NO_SYMBOL)
            return false;
        r->loops[i].trip = id;
        r->affine.symbols[id].range.low = 0;
        r->affine.symbols[id].pass = PASS_ALWAYS;
        r->affine.symbols[id].block = r->graph->loops[i].header;
        r->affine.symbols[id].number = i;
        r->affine.symbols[id].why = "a loop without a known end";
        r->affine.symbols[id].line =
            r->func->instrs[r->graph->blocks[r->graph->loops[i].header].first].place.line;
    }
    return true;
}

kg_status reach_flow(struct reaching *r)
{
    const struct graph *graph = r->graph;
    uint64_t work = 0;
    r->values = arena_alloc(r->arena, (graph->value_count + 1) * sizeof *r->values);
    r->phis = arena_alloc(r->arena, (graph->value_count + 1) * sizeof *r->phis);
    r->facts = arena_alloc(r->arena, (graph->block_count + 1) * sizeof *r->facts);
    r->loops = arena_alloc(r->arena, (graph->loop_count + 1) * sizeof *r->loops);
    if (!r->values || !r->phis || !r->facts || !r->loops || !make_trips(r))
        return KG_NO_MEMORY;
    for (r->pass = 1; r->pass <= PASSES_MAX; r->pass++) {
        r->changed = false;
        r->quotient_count = 0;
        for (uint32_t i = 0; i < graph->order_count; i++)
            run_block(r, graph->order[i]);
        reach_loops(r);
        work += r->func->instr_count;
        if (r->affine.failed)
            return KG_NO_MEMORY;
        if (!r->changed && (r->revivals++ == REVIVALS || !reach_revive(r)))
            return KG_OK;
        if (work > WORK_MAX)
            break;
    }
    return KG_LIMIT;
}
