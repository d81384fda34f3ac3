/* What is known of the values of a function: an interval each, from known scalars, launch
 * dimensions and loaded widths, through operations and merges, along the edges that can be taken.
 * Optimistic: it begins with "nothing runs", and what remains when nothing changes any more is
 * true. Work is bounded; without an end in time nothing is known at all. */
#include "passes.h"

enum {
    CHANGES_MAX = 6,      /* of one interval; then it is anything */
    WORK_MAX = 1 << 25,   /* values looked at */
    PARTS_MAX = 8,        /* results of one instruction */
    THREADS_OF_WARP = 32, /* lanes */
};

static void list_add(const struct ptx_operand *operand, const struct ptx_operand **out,
                     unsigned room, unsigned *count)
{
    bool parted = operand->kind == PTX_VECTOR || operand->kind == PTX_PAIR;
    for (uint32_t i = 0; i < (parted ? operand->part_count : 1); i++, ++*count)
        if (*count < room)
            out[*count] = parted ? &operand->parts[i] : operand;
}

static unsigned listed(const struct ptx_instr *instr, char role, const struct ptx_operand **out,
                       unsigned room)
{
    unsigned count = 0;
    if (instr->opaque || instr->opaque_text)
        return 0;
    for (unsigned i = 0; i < instr->operand_count; i++)
        if (ptx_role(instr, i) == role)
            list_add(&instr->operands[i], out, room, &count);
    return count > room ? 0 : count;
}

static unsigned instr_sources(const struct ptx_instr *instr, const struct ptx_operand **out,
                              unsigned room)
{
    return listed(instr, 's', out, room);
}

unsigned instr_results(const struct ptx_instr *instr, const struct ptx_operand **out, unsigned room)
{
    return listed(instr, 'd', out, room);
}

static unsigned reg_bits(const struct values *values, uint32_t reg)
{
    if (reg >= values->graph->func->reg_count) /* the carry */
        return 64;
    const struct ptx_reg *of = &values->graph->func->regs[reg];
    return of->decl->vector > 1 ? 64 : ptx_types[of->type].bits;
}

/* ---- what an instruction reads ---- */

static struct range special_range(const struct values *values, const struct ptx_operand *operand,
                                  unsigned bits)
{
    const struct kg_launch *launch = values->launch;
    struct range out = range_any(bits);
    if (operand->special == PTX_SR_laneid)
        out.high = THREADS_OF_WARP - 1;
    if (!launch || !operand->component || operand->component > 3)
        return out;
    bool block = operand->special == PTX_SR_tid || operand->special == PTX_SR_ntid;
    const struct kg_dim *dim = block ? &launch->block : &launch->grid;
    uint32_t size = operand->component == 1 ? dim->x : operand->component == 2 ? dim->y : dim->z;
    if (!size || size - 1 >= bits_mask(bits))
        return out;
    if (operand->special == PTX_SR_tid || operand->special == PTX_SR_ctaid)
        return (struct range){0, size - 1, true};
    if (operand->special == PTX_SR_ntid || operand->special == PTX_SR_nctaid)
        return range_one(size);
    return out;
}

static struct range reg_range(const struct values *values, uint32_t instr,
                              const struct ptx_operand *operand, unsigned bits)
{
    uint32_t value = graph_operand(values->graph, instr, operand);
    if (operand->component || value == GRAPH_UNKNOWN || reg_bits(values, operand->reg) < bits)
        return range_any(bits);
    struct range out = values->ranges[value];
    if (!out.some)
        return out;
    if (range_known(&out))
        out = range_one(out.low & bits_mask(bits));
    else if (out.high > bits_mask(bits))
        return range_any(bits);
    if (operand->negated && bits == 1 && range_known(&out))
        out = range_one(!out.low);
    return out;
}

struct range values_source(const struct values *values, uint32_t instr,
                           const struct ptx_operand *operand, uint8_t type)
{
    unsigned bits = ptx_types[type].bits, class = ptx_types[type].class;
    switch (operand->kind) {
    case PTX_REG:
        return reg_range(values, instr, operand, bits);
    case PTX_SPECIAL:
        return class == PTX_FLOAT ? range_any(bits) : special_range(values, operand, bits);
    case PTX_INT:
        if (class == PTX_PRED)
            return range_one(operand->bits != 0);
        return class == PTX_FLOAT ? range_any(bits) : range_one(operand->bits & bits_mask(bits));
    case PTX_F32:
        return bits == 32 ? range_one(operand->bits & bits_mask(32)) : range_any(bits);
    case PTX_F64:
        return bits == 64 ? range_one(operand->bits) : range_any(bits);
    default:
        return range_any(bits);
    }
}

/* ---- what an instruction writes ---- */

/* Without a rounding named, ptxas may take a product into the sum that reads it, and round once.
 * Where it does not, passes_settle.c has named one. */
static bool may_be_fused(const struct ptx_form *form)
{
    return form->op == PTX_OP_mul && !ptx_has(form, PTX_MOD_rn) && fold_is_float(form->types[0]);
}

/* A narrow result in a wider register: filled with its sign, or with zeros. */
static struct range widened(struct range range, uint8_t type, unsigned bits)
{
    unsigned narrow = ptx_types[type].bits;
    if (!range.some || narrow >= bits)
        return range;
    if (ptx_types[type].class != PTX_SIGNED || range.high <= bits_mask(narrow) >> 1)
        return range;
    if (range.low <= bits_mask(narrow) >> 1)
        return range_any(bits);
    uint64_t fill = bits_mask(bits) & ~bits_mask(narrow);
    return (struct range){range.low | fill, range.high | fill, true};
}

static struct range loaded(const struct ptx_form *form, unsigned bits)
{
    uint8_t type = form->type_count == 1 ? form->types[0] : PTX_TYPE_none;
    bool filled = ptx_types[type].class == PTX_UNSIGNED || ptx_types[type].class == PTX_BITS;
    unsigned narrow = ptx_types[type].bits;
    return filled && narrow && narrow < bits ? range_any(narrow) : range_any(bits);
}

static struct range evaluated(const struct values *values, uint32_t instr, unsigned dest,
                              unsigned results, bool *known)
{
    const struct ptx_form *form = values->graph->func->instrs[instr].form;
    const struct ptx_operand *sources[FOLD_SOURCES];
    struct range in[FOLD_SOURCES];
    uint64_t exact[FOLD_SOURCES], out = 0;
    unsigned count = instr_sources(&values->graph->func->instrs[instr], sources, FOLD_SOURCES);
    unsigned bits = ptx_types[fold_result_type(form, dest)].bits;
    *known = true;
    for (unsigned i = 0; i < count; i++) {
        in[i] = values_source(values, instr, sources[i], fold_source_type(form, i));
        if (!in[i].some)
            return in[i];
        *known &= range_known(&in[i]);
        exact[i] = in[i].low;
    }
    if (form->op == PTX_OP_mov && results > 1) { /* unpacks */
        unsigned part = bits / results;
        *known &= count == 1 && bits <= 64 && part * results == bits && part && !form->mod_count;
        return *known ? range_one(exact[0] >> part * dest & bits_mask(part)) : range_any(64);
    }
    if (*known && count && fold_known(form, dest, exact, count, &out))
        return range_one(out);
    *known = false;
    return count ? range_result(form, dest, in, count) : range_any(bits);
}

struct range values_result(const struct values *values, uint32_t instr, unsigned dest,
                           bool *known_sources)
{
    const struct ptx_instr *at = &values->graph->func->instrs[instr];
    const struct ptx_operand *results[PARTS_MAX];
    unsigned count = instr_results(at, results, PARTS_MAX);
    *known_sources = false;
    if (dest >= count || results[dest]->kind != PTX_REG || results[dest]->component)
        return range_any(64);
    unsigned bits = reg_bits(values, results[dest]->reg);
    if (at->form->op == PTX_OP_ld)
        return loaded(at->form, bits);
    uint8_t type = fold_result_type(at->form, dest);
    if (fold_source_type(at->form, 0) == PTX_TYPE_none || type == PTX_TYPE_none ||
        may_be_fused(at->form))
        return range_any(bits);
    struct range out = evaluated(values, instr, dest, count, known_sources);
    if (out.some && out.high > bits_mask(bits))
        return range_any(bits);
    return count > 1 && at->form->op == PTX_OP_mov ? out : widened(out, type, bits);
}

/* ---- until nothing changes ---- */

struct run {
    struct values *values;
    uint8_t *changes; /* by value */
    bool changed;
    uint64_t work;
};

static struct range hull(struct range a, struct range b)
{
    if (!a.some || !b.some)
        return a.some ? a : b;
    return (struct range){a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high, true};
}

static void update(struct run *run, uint32_t value, struct range range)
{
    struct range *now = &run->values->ranges[value], next = hull(*now, range);
    run->work++;
    if (next.some == now->some && next.low == now->low && next.high == now->high)
        return;
    if (++run->changes[value] > CHANGES_MAX)
        next = range_any(reg_bits(run->values, run->values->graph->values[value].reg));
    *now = next;
    run->changed = true;
}

/* 0 or 1; -1: not known, or no guard. */
static int guard_value(const struct values *values, uint32_t instr)
{
    const struct ptx_instr *at = &values->graph->func->instrs[instr];
    if (at->guard == PTX_NO_REG)
        return -1;
    uint32_t value = graph_read(values->graph, instr, at->guard);
    const struct range *range = &values->ranges[value];
    if (value == GRAPH_UNKNOWN || !range_known(range))
        return -1;
    return (range->low != 0) != at->guard_negated;
}

/* Whether control can go from the end of block `from` to `to`, as far as is known now. */
static bool edge_taken(const struct values *values, uint32_t from, uint32_t to)
{
    const struct graph_block *block = &values->graph->blocks[from];
    if (!values->executed[from])
        return false;
    if (block->end == block->first)
        return true;
    const struct ptx_instr *last = &values->graph->func->instrs[block->end - 1];
    if (block->ends != GRAPH_BRANCHES || last->opaque || last->form->op != PTX_OP_bra ||
        block->succ_count != 2)
        return true;
    const struct range *range =
        &values->ranges[graph_read(values->graph, block->end - 1, last->guard)];
    if (!range->some)
        return false; /* the predicate is not computed yet */
    int guard = guard_value(values, block->end - 1);
    return guard < 0 || block->succs[!guard] == to;
}

static void run_phis(struct run *run, uint32_t index)
{
    const struct graph *graph = run->values->graph;
    const struct graph_block *block = &graph->blocks[index];
    for (uint32_t i = 0; i < block->phi_count; i++) {
        const struct graph_value *phi = &graph->values[block->phi_first + i];
        struct range range = {0};
        for (uint32_t j = 0; j < phi->input_count && j < block->pred_count; j++)
            if (edge_taken(run->values, block->preds[j], index))
                range = hull(range, run->values->ranges[phi->inputs[j]]);
        update(run, block->phi_first + i, range);
        run->work += phi->input_count;
    }
}

static void run_instr(struct run *run, uint32_t instr)
{
    const struct graph *graph = run->values->graph;
    const struct ptx_operand *results[PARTS_MAX];
    unsigned count = instr_results(&graph->func->instrs[instr], results, PARTS_MAX);
    int guard = guard_value(run->values, instr);
    for (uint32_t i = graph->write_first[instr]; i < graph->read_first[instr + 1]; i++) {
        const struct graph_value *value = &graph->values[graph->refs[i].value];
        struct range range = range_any(reg_bits(run->values, graph->refs[i].reg));
        bool known;
        unsigned written = 0;
        for (unsigned k = 0; k < count; k++)
            if (results[k]->kind == PTX_REG && results[k]->reg == graph->refs[i].reg) {
                struct range part = values_result(run->values, instr, k, &known);
                range = written++ ? range_any(64) : part;
            }
        if (value->may && guard == 0)
            range = (struct range){0};
        if (value->may && guard != 1 && value->input_count)
            range = hull(range, run->values->ranges[value->inputs[0]]);
        update(run, graph->refs[i].value, range);
    }
}

static void sweep(struct run *run)
{
    const struct graph *graph = run->values->graph;
    for (uint32_t i = 0; i < graph->order_count; i++) {
        uint32_t index = graph->order[i];
        const struct graph_block *block = &graph->blocks[index];
        if (!run->values->executed[index])
            continue;
        run_phis(run, index);
        for (uint32_t j = block->first; j < block->end; j++)
            run_instr(run, j);
        for (uint32_t j = 0; j < block->succ_count; j++) {
            uint32_t next = block->succs[j];
            if (next == graph->exit || run->values->executed[next] ||
                !edge_taken(run->values, index, next))
                continue;
            run->values->executed[next] = true;
            run->changed = true;
        }
    }
}

/* A branch whose predicate nothing computes would leave both its ways out. */
static bool is_complete(const struct values *values)
{
    const struct graph *graph = values->graph;
    for (uint32_t i = 0; i < graph->block_count; i++) {
        const struct graph_block *block = &graph->blocks[i];
        if (!values->executed[i] || block->end == block->first)
            continue;
        const struct ptx_instr *last = &graph->func->instrs[block->end - 1];
        if (last->guard != PTX_NO_REG &&
            !values->ranges[graph_read(graph, block->end - 1, last->guard)].some)
            return false;
    }
    return true;
}

kg_status values_make(const struct graph *graph, const struct kg_launch *launch,
                      struct kg_arena *arena, struct values *out)
{
    struct run run = {.values = out};
    *out = (struct values){.graph = graph, .launch = launch};
    if (graph->wild || !graph->block_count)
        return KG_LIMIT;
    out->ranges = arena_alloc(arena, graph->value_count * sizeof *out->ranges);
    out->executed = arena_alloc(arena, graph->block_count + 1);
    out->writes = arena_alloc(arena, graph->func->reg_count + 1);
    run.changes = arena_alloc(arena, graph->value_count);
    if (!out->ranges || !out->executed || !out->writes || !run.changes)
        return KG_NO_MEMORY;
    for (uint32_t i = 0; i < graph->value_count; i++) {
        if (graph->values[i].kind == VALUE_WRITE && graph->values[i].reg < graph->func->reg_count)
            out->writes[graph->values[i].reg] += out->writes[graph->values[i].reg] < 2;
        if (graph->values[i].kind == VALUE_START || graph->values[i].kind == VALUE_UNKNOWN)
            out->ranges[i] = range_any(64);
    }
    out->executed[0] = true;
    do {
        run.changed = false;
        sweep(&run);
        if (run.work > WORK_MAX)
            return KG_LIMIT;
    } while (run.changed);
    return is_complete(out) ? KG_OK : KG_LIMIT;
}
