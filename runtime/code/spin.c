/* Loops that wait for memory to change: another block, the host or a device must write what they
 * read before they go on. Errs on the side of finding one. A loop waits if
 *   - it reads or exchanges memory at an address, and with operands, that do not change in it, and
 *   - the branches that decide whether it goes on depend on what was read, and
 *   - nothing they depend on makes progress by itself, as a counter does.
 * A compare-and-swap loop that computes its new value from the old one does not wait. A call counts
 * as a read: its arguments are the operands. */
#include "graph.h"

enum { WORK_MAX = 20000000 }; /* visits of values in a function: a fraction of a second */

/* What a value depends on, within the loop at hand: on something that feeds itself by arithmetic,
 * what is read aside; on what is read. */
enum { PROGRESS = 1, MEMORY = 2 };

struct spin {
    const struct graph *graph;
    uint32_t loop;
    bool barrier, calls; /* in the loop */
    uint64_t work;
    /* by value, of the loop at hand: Tarjan's numbers (0: not met), next source, flags */
    uint32_t *number, *low, *next;
    uint8_t *flags;
    bool *open, *decides;
    bool *block_decides; /* by block */
    uint32_t *path, *stack, *todo;
    uint32_t count, path_depth, stack_depth, todo_count;
    uint32_t *passed, passed_count; /* values that the loop stores to .param variables */
};

static bool within(const struct spin *spin, uint32_t value)
{
    const struct graph_value *at = &spin->graph->values[value];
    return at->kind != VALUE_START && at->kind != VALUE_UNKNOWN &&
           graph_in_loop(spin->graph, spin->loop, at->block);
}

/* What a call left in a .param variable. */
static bool is_result(const struct spin *spin, const struct ptx_instr *instr)
{
    const struct ptx_func *func = spin->graph->func;
    if (!spin->calls || instr->form->op != PTX_OP_ld || instr->form->space != PTX_SPACE_param)
        return false;
    for (uint32_t i = 0; i < func->param_count; i++)
        if (instr->operand_count > 1 && instr->operands[1].var == func->params[i])
            return false;
    return true;
}

static bool reads_memory(const struct spin *spin, uint32_t index)
{
    const struct ptx_instr *instr = &spin->graph->func->instrs[index];
    uint32_t effects = ptx_effects(instr);
    if (effects & (PTX_CALLS | PTX_WORST) || is_result(spin, instr))
        return true;
    if (!(effects & PTX_READS) || ptx_has(instr->form, PTX_MOD_nc))
        return false;
    unsigned spaces = SPACE_GLOBAL | (spin->barrier ? 0 : SPACE_SHARED), touched = 0;
    for (unsigned i = 0; i < instr->operand_count; i++)
        if (instr->operands[i].kind == PTX_ADDRESS)
            touched |= graph_spaces(spin->graph, index, i);
    return touched & spaces;
}

static bool value_reads(const struct spin *spin, uint32_t value)
{
    const struct graph_value *at = &spin->graph->values[value];
    return at->kind == VALUE_WRITE && reads_memory(spin, at->instr);
}

/* Source number `index` of a value; GRAPH_NONE: no more. */
static uint32_t source(const struct spin *spin, uint32_t value, uint32_t index)
{
    const struct graph *graph = spin->graph;
    const struct graph_value *at = &graph->values[value];
    if (index < at->input_count)
        return at->inputs[index];
    if (at->kind != VALUE_WRITE)
        return GRAPH_NONE;
    index -= at->input_count;
    uint32_t reads = graph->write_first[at->instr] - graph->read_first[at->instr];
    if (index < reads)
        return graph->refs[graph->read_first[at->instr] + index].value;
    index -= reads;
    return index < spin->passed_count && is_result(spin, &graph->func->instrs[at->instr])
               ? spin->passed[index]
               : GRAPH_NONE;
}

/* Hands on or chooses, but makes nothing new. */
static bool only_moves(const struct spin *spin, uint32_t value)
{
    const struct graph_value *at = &spin->graph->values[value];
    if (at->kind != VALUE_WRITE || spin->graph->func->regs[at->reg].type == PTX_TYPE_pred)
        return true;
    switch (spin->graph->func->instrs[at->instr].form->op) {
    case PTX_OP_mov:
    case PTX_OP_selp:
    case PTX_OP_slct:
    case PTX_OP_cvt:
    case PTX_OP_cvta:
        return true;
    default:
        return false;
    }
}

/* ---- what values depend on --------------------------------------------------------------------
 */

static void start(struct spin *spin, uint32_t value)
{
    spin->number[value] = spin->low[value] = ++spin->count;
    spin->next[value] = 0;
    spin->flags[value] = value_reads(spin, value) ? MEMORY : 0;
    spin->open[value] = true;
    spin->path[spin->path_depth++] = spin->stack[spin->stack_depth++] = value;
}

/* All that the value depends on is known: so is its component, if it is the root. */
static void finish(struct spin *spin, uint32_t value)
{
    spin->path_depth--;
    if (spin->low[value] == spin->number[value]) {
        uint32_t first = spin->stack_depth, flags = 0;
        bool makes = false, cycle = spin->flags[value] & 4;
        do {
            uint32_t other = spin->stack[--first];
            flags |= spin->flags[other];
            makes |= !only_moves(spin, other);
            cycle |= other != value;
        } while (spin->stack[first] != value);
        if (cycle && makes)
            flags |= PROGRESS;
        for (uint32_t i = first; i < spin->stack_depth; i++) {
            spin->flags[spin->stack[i]] = (uint8_t)(flags & (PROGRESS | MEMORY));
            spin->open[spin->stack[i]] = false;
        }
        spin->stack_depth = first;
    }
    if (!spin->path_depth)
        return;
    uint32_t user = spin->path[spin->path_depth - 1];
    if (spin->low[value] < spin->low[user])
        spin->low[user] = spin->low[value];
    spin->flags[user] |= spin->flags[value] & (PROGRESS | MEMORY);
}

/* A read's own sources are not followed: progress means without memory. */
static void explore(struct spin *spin, uint32_t root)
{
    for (start(spin, root); spin->path_depth && spin->work < WORK_MAX; spin->work++) {
        uint32_t value = spin->path[spin->path_depth - 1];
        uint32_t from =
            value_reads(spin, value) ? GRAPH_NONE : source(spin, value, spin->next[value]++);
        if (from == GRAPH_NONE) {
            finish(spin, value);
        } else if (from == value) {
            spin->flags[value] |= 4; /* feeds itself directly */
        } else if (!within(spin, from)) {
            continue;
        } else if (!spin->number[from]) {
            start(spin, from);
        } else if (spin->open[from]) {
            if (spin->number[from] < spin->low[value])
                spin->low[value] = spin->number[from];
        } else {
            spin->flags[value] |= spin->flags[from];
        }
    }
}

/* ---- what decides -----------------------------------------------------------------------------
 */

static void decide(struct spin *spin, uint32_t value)
{
    if (value == GRAPH_NONE || !within(spin, value) || spin->decides[value])
        return;
    spin->decides[value] = true;
    spin->todo[spin->todo_count++] = value;
}

/* The branch at the end of a block. */
static void decide_block(struct spin *spin, uint32_t block)
{
    const struct graph *graph = spin->graph;
    if (spin->block_decides[block] || graph->blocks[block].end == graph->blocks[block].first)
        return;
    spin->block_decides[block] = true;
    uint32_t last = graph->blocks[block].end - 1;
    if (graph->blocks[block].succ_count > 1)
        for (uint32_t r = graph->read_first[last]; r < graph->write_first[last]; r++)
            decide(spin, graph->refs[r].value);
}

/* A merge depends on the way that was taken. */
static void decide_way(struct spin *spin, uint32_t block)
{
    const struct graph_block *at = &spin->graph->blocks[block];
    for (uint32_t p = 0; p < at->pred_count; p++) {
        uint32_t count;
        if (!graph_in_loop(spin->graph, spin->loop, at->preds[p]))
            continue;
        const uint32_t *by = graph_controllers(spin->graph, at->preds[p], &count);
        if (!by)
            spin->work = WORK_MAX; /* not known: too large to tell */
        decide_block(spin, at->preds[p]);
        for (uint32_t i = 0; by && i < count; i++, spin->work++)
            if (graph_in_loop(spin->graph, spin->loop, by[i]))
                decide_block(spin, by[i]);
    }
}

static void follow_deciding(struct spin *spin)
{
    const struct graph_loop *loop = &spin->graph->loops[spin->loop];
    for (uint32_t i = 0; i < loop->exit_count; i++)
        decide_block(spin, loop->exits[i].from);
    while (spin->todo_count && spin->work < WORK_MAX) {
        uint32_t value = spin->todo[--spin->todo_count], from;
        for (uint32_t i = 0; (from = source(spin, value, i)) != GRAPH_NONE; i++, spin->work++)
            decide(spin, from);
        if (spin->graph->values[value].kind == VALUE_PHI)
            decide_way(spin, spin->graph->values[value].block);
    }
}

/* ---- loops ------------------------------------------------------------------------------------
 */

static void look_over(struct spin *spin)
{
    const struct graph *graph = spin->graph;
    const struct graph_loop *loop = &graph->loops[spin->loop];
    spin->barrier = spin->calls = false;
    spin->count = spin->path_depth = spin->stack_depth = spin->todo_count = 0;
    spin->passed_count = 0;
    for (uint32_t b = 0; b < loop->block_count; b++) {
        const struct graph_block *block = &graph->blocks[loop->blocks[b]];
        spin->block_decides[loop->blocks[b]] = false;
        for (uint32_t p = 0; p < block->phi_count; p++)
            spin->number[block->phi_first + p] = spin->decides[block->phi_first + p] = 0;
        for (uint32_t i = block->first; i < block->end; i++, spin->work++) {
            const struct ptx_instr *instr = &graph->func->instrs[i];
            spin->barrier |= (ptx_effects(instr) & PTX_BARRIER) != 0;
            spin->calls |= instr->form->op == PTX_OP_call;
            for (uint32_t r = graph->write_first[i]; r < graph->read_first[i + 1]; r++)
                spin->number[graph->refs[r].value] = spin->decides[graph->refs[r].value] = 0;
            if (instr->form->op == PTX_OP_st && instr->form->space == PTX_SPACE_param)
                for (uint32_t r = graph->read_first[i]; r < graph->write_first[i]; r++)
                    spin->passed[spin->passed_count++] = graph->refs[r].value;
        }
    }
}

/* Sources of a read vary: then it is not the same read in every turn. */
static bool varies(const struct spin *spin, uint32_t value)
{
    uint32_t from;
    for (uint32_t i = 0; (from = source(spin, value, i)) != GRAPH_NONE; i++)
        if (within(spin, from) && spin->flags[from])
            return true;
    return false;
}

/* Calls `each` with every value made in the loop, until it says true. */
static bool any_value(struct spin *spin, bool (*each)(struct spin *spin, uint32_t value))
{
    const struct graph *graph = spin->graph;
    const struct graph_loop *loop = &graph->loops[spin->loop];
    for (uint32_t b = 0; b < loop->block_count; b++) {
        const struct graph_block *block = &graph->blocks[loop->blocks[b]];
        for (uint32_t p = 0; p < block->phi_count; p++)
            if (each(spin, block->phi_first + p))
                return true;
        for (uint32_t r = graph->read_first[block->first]; r < graph->read_first[block->end]; r++)
            if (graph->values[graph->refs[r].value].kind == VALUE_WRITE &&
                within(spin, graph->refs[r].value) && each(spin, graph->refs[r].value))
                return true;
    }
    return false;
}

static bool explore_value(struct spin *spin, uint32_t value)
{
    if (!spin->number[value])
        explore(spin, value);
    return spin->work >= WORK_MAX;
}

static bool progresses(struct spin *spin, uint32_t value)
{
    return spin->decides[value] && spin->flags[value] & PROGRESS;
}

static bool waits_for(struct spin *spin, uint32_t value)
{
    return spin->decides[value] && value_reads(spin, value) && !varies(spin, value);
}

/* Line of the loop's first instruction. */
static uint32_t line_of(const struct spin *spin)
{
    const struct graph_loop *loop = &spin->graph->loops[spin->loop];
    uint32_t first = spin->graph->blocks[loop->header].first;
    return spin->graph->func->instrs[first].place.line;
}

static uint32_t scan(struct spin *spin)
{
    for (spin->loop = 0; spin->loop < spin->graph->loop_count; spin->loop++) {
        look_over(spin);
        any_value(spin, explore_value);
        follow_deciding(spin);
        if (spin->work >= WORK_MAX)
            return UINT32_MAX;
        if (!any_value(spin, progresses) && any_value(spin, waits_for))
            return line_of(spin);
    }
    return 0;
}

uint32_t spin_find(const struct graph *graph)
{
    struct kg_arena arena = {0};
    struct spin spin = {.graph = graph};
    uint32_t values = graph->value_count, line = UINT32_MAX;
    if (graph->wild)
        return line;
    if (!graph->loop_count)
        return 0;
    spin.number = graph_numbers(&arena, values);
    spin.low = graph_numbers(&arena, values);
    spin.next = graph_numbers(&arena, values);
    spin.path = graph_numbers(&arena, values);
    spin.stack = graph_numbers(&arena, values);
    spin.todo = graph_numbers(&arena, values);
    spin.passed = graph_numbers(&arena, graph->read_first[graph->func->instr_count]);
    spin.flags = arena_alloc(&arena, values + 1);
    spin.open = arena_alloc(&arena, values + 1);
    spin.decides = arena_alloc(&arena, values + 1);
    spin.block_decides = arena_alloc(&arena, graph->block_count + 1);
    if (spin.number && spin.low && spin.next && spin.path && spin.stack && spin.todo &&
        spin.passed && spin.flags && spin.open && spin.decides && spin.block_decides)
        line = scan(&spin);
    arena_free(&arena);
    return line;
}
