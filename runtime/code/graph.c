/* Blocks and edges of a function, and the questions about blocks. Only looks at where control goes;
 * the other graph_*.c files build on it. */
#include "graph_parts.h"

/* ---- where an instruction goes ----------------------------------------------------------------
 */

struct targeting {
    const struct ptx_func *func;
    void (*each)(void *self, uint32_t label);
    void *self;
    bool good, any;
};

static void target_operand(void *self, const struct ptx_operand *operand)
{
    struct targeting *at = self;
    uint32_t count = at->func->label_count;
    if (operand->kind == PTX_LABEL) {
        at->any = true;
        at->good &= operand->label < count;
        if (operand->label < count)
            at->each(at->self, operand->label);
    }
    if (!operand->list || operand->list->kind != PTX_BRANCH_TARGETS)
        return;
    at->any = true;
    for (uint32_t i = 0; i < operand->list->count; i++) {
        at->good &= operand->list->labels[i] < count;
        if (operand->list->labels[i] < count)
            at->each(at->self, operand->list->labels[i]);
    }
}

/* Calls each for the labels that an instruction may branch to; false: not all are known. */
static bool branch_targets(const struct ptx_func *func, const struct ptx_instr *instr,
                           void (*each)(void *self, uint32_t label), void *self)
{
    struct targeting at = {.func = func, .each = each, .self = self, .good = true};
    uint32_t effects = ptx_effects(instr);
    if (!(effects & (PTX_BRANCH | PTX_WORST)))
        return true;
    for (unsigned i = 0; i < instr->operand_count; i++)
        operand_each(&instr->operands[i], target_operand, &at);
    return at.good && (at.any || !(effects & PTX_BRANCH)) && !instr->opaque_text;
}

static bool never_returns(const struct ptx_instr *instr)
{
    if (instr->form->op != PTX_OP_call || instr->operand_count < 2)
        return false;
    const struct ptx_operand *callee = &instr->operands[1];
    const struct ptx_list *list = instr->operand_count > 3 ? instr->operands[3].list : NULL;
    return (callee->func && callee->func->noreturn) ||
           (list && list->kind == PTX_PROTOTYPE && list->noreturn);
}

static enum graph_end end_of(const struct ptx_instr *instr)
{
    uint32_t effects = ptx_effects(instr);
    if (effects & (PTX_BRANCH | PTX_WORST))
        return GRAPH_BRANCHES;
    return effects & PTX_LEAVES || never_returns(instr) ? GRAPH_RETURNS : GRAPH_FALLS;
}

/* ---- blocks -----------------------------------------------------------------------------------
 */

struct leading {
    const struct ptx_func *func;
    bool *leads; /* instructions that begin a block */
};

static void lead(void *self, uint32_t label)
{
    struct leading *at = self;
    at->leads[at->func->labels[label].instr] = true;
}

static void be_wild(struct graph *graph, const struct ptx_instr *instr)
{
    if (!graph->wild)
        graph->wild_line = instr->place.line;
    graph->wild = true;
}

static kg_status make_blocks(struct graph *graph)
{
    const struct ptx_func *func = graph->func;
    uint32_t count = func->instr_count, blocks = 1;
    struct leading leading = {func, arena_alloc(graph->arena, count + 2)};
    graph->block_of = graph_numbers(graph->arena, count);
    if (!leading.leads || !graph->block_of)
        return KG_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        const struct ptx_instr *instr = &func->instrs[i];
        if (!branch_targets(func, instr, lead, &leading) || instr->opaque_text)
            be_wild(graph, instr);
        leading.leads[i + 1] |= end_of(instr) != GRAPH_FALLS;
    }
    for (uint32_t i = 0; i < count; i++)
        blocks += leading.leads[i];
    graph->blocks = arena_alloc(graph->arena, (blocks + 1) * sizeof *graph->blocks);
    if (!graph->blocks)
        return KG_NO_MEMORY;
    struct graph_block *block = graph->blocks;
    for (uint32_t i = 0; i < count; i++) {
        if (leading.leads[i]) {
            (block++)->end = i;
            block->first = i;
        }
        graph->block_of[i] = (uint32_t)(block - graph->blocks);
    }
    block->end = count;
    graph->block_count = graph->exit = blocks;
    graph->blocks[blocks].first = graph->blocks[blocks].end = count;
    return KG_OK;
}

/* ---- edges ------------------------------------------------------------------------------------
 */

struct linking {
    struct graph *graph;
    uint32_t block;
    uint32_t *met;   /* by block: the last one (plus 1) that got an edge to it */
    uint32_t *edges; /* where they go; NULL: counting */
    uint32_t count;
};

static void link_block(struct linking *at, uint32_t to)
{
    if (at->met[to] == at->block + 1)
        return;
    at->met[to] = at->block + 1;
    if (at->edges)
        at->edges[at->count] = to;
    at->count++;
}

static void link_label(void *self, uint32_t label)
{
    struct linking *at = self;
    uint32_t instr = at->graph->func->labels[label].instr;
    at->graph->hidden->work++;
    link_block(at,
               instr < at->graph->func->instr_count ? at->graph->block_of[instr] : at->graph->exit);
}

static void link_ends(struct linking *at, struct graph_block *block)
{
    const struct graph *graph = at->graph;
    const struct ptx_instr *last =
        block->end > block->first ? &graph->func->instrs[block->end - 1] : NULL;
    block->ends = last ? end_of(last) : GRAPH_FALLS;
    /* An unknown operation may do anything, or nothing. */
    block->guarded = last && (last->guard != PTX_NO_REG || ptx_effects(last) & PTX_WORST);
    if (block->ends == GRAPH_BRANCHES)
        branch_targets(graph->func, last, link_label, at);
    if (block->ends == GRAPH_RETURNS || (last && ptx_effects(last) & PTX_WORST))
        link_block(at, graph->exit);
    if (block->ends == GRAPH_FALLS || block->guarded)
        link_block(at, at->block + 1); /* behind the last one stands the exit */
}

/* Where nothing is known of a branch, its block goes to the exit too, to be some graph. */
static kg_status make_edges(struct graph *graph)
{
    struct linking at = {.graph = graph};
    uint32_t limit = 16 * graph->block_count + 4000000;
    for (int pass = 0; pass < 2; pass++) {
        at.met = graph_numbers(graph->arena, graph->block_count + 1);
        at.edges = pass ? graph_numbers(graph->arena, at.count) : NULL;
        if (!at.met || (pass && !at.edges))
            return KG_NO_MEMORY;
        at.count = 0;
        for (uint32_t i = 0; i < graph->block_count; i++) {
            struct graph_block *block = &graph->blocks[i];
            at.block = i;
            block->succs = at.edges ? at.edges + at.count : NULL;
            uint32_t before = at.count;
            link_ends(&at, block);
            if (at.count == before)
                link_block(&at, graph->exit);
            block->succ_count = at.count - before;
            if (at.count > limit || !graph_works(graph, 0))
                return KG_LIMIT;
        }
    }
    graph->hidden->edge_count = at.count;
    return KG_OK;
}

/* Of reachable blocks; of all in a wild function. */
static kg_status make_preds(struct graph *graph)
{
    uint32_t *at = graph_numbers(graph->arena, graph->hidden->edge_count);
    if (!at)
        return KG_NO_MEMORY;
    for (uint32_t i = 0; i < graph->block_count; i++)
        for (uint32_t j = 0; graph->blocks[i].reachable && j < graph->blocks[i].succ_count; j++)
            graph->blocks[graph->blocks[i].succs[j]].pred_count++;
    for (uint32_t i = 0; i <= graph->exit; i++) {
        graph->blocks[i].preds = at;
        at += graph->blocks[i].pred_count;
        graph->blocks[i].pred_count = 0;
    }
    for (uint32_t i = 0; i < graph->block_count; i++)
        for (uint32_t j = 0; graph->blocks[i].reachable && j < graph->blocks[i].succ_count; j++) {
            struct graph_block *to = &graph->blocks[graph->blocks[i].succs[j]];
            to->preds[to->pred_count++] = i;
        }
    return KG_OK;
}

static bool mark_endless(struct graph *graph)
{
    uint32_t *stack = graph_numbers(graph->arena, graph->block_count + 1), depth = 0;
    if (!stack)
        return false;
    for (uint32_t i = 0; i < graph->block_count; i++)
        graph->blocks[i].endless = graph->blocks[i].reachable && !graph->wild;
    for (stack[depth++] = graph->exit; depth;) {
        const struct graph_block *block = &graph->blocks[stack[--depth]];
        for (uint32_t i = 0; i < block->pred_count; i++)
            if (graph->blocks[block->preds[i]].endless) {
                graph->blocks[block->preds[i]].endless = false;
                stack[depth++] = block->preds[i];
            }
    }
    return true;
}

/* ---- the whole --------------------------------------------------------------------------------
 */

kg_status graph_make(const struct ptx_func *func, struct kg_arena *arena, struct graph *out)
{
    *out = (struct graph){.func = func, .arena = arena, .carry = func->reg_count};
    out->hidden = arena_alloc(arena, sizeof *out->hidden);
    if (!out->hidden)
        return KG_NO_MEMORY;
    out->hidden->limit = 50000000 + 100ull * func->instr_count;
    kg_status status = make_blocks(out);
    if (status == KG_OK)
        status = make_edges(out);
    if (status == KG_OK)
        status = graph_make_order(out);
    if (status == KG_OK)
        status = make_preds(out);
    if (status != KG_OK)
        return status;
    if (!mark_endless(out))
        return KG_NO_MEMORY;
    status = graph_make_trees(out);
    if (status == KG_OK)
        status = graph_make_loops(out);
    if (status == KG_OK)
        status = graph_make_values(out);
    return status == KG_OK ? graph_make_spaces(out) : status;
}

/* ---- questions --------------------------------------------------------------------------------
 */

bool graph_dominates(const struct graph *graph, uint32_t a, uint32_t b)
{
    const uint32_t *first = graph->hidden->span_first, *end = graph->hidden->span_end;
    return a == b || (end[b] && first[a] <= first[b] && first[b] < end[a]);
}

bool graph_instr_dominates(const struct graph *graph, uint32_t a, uint32_t b)
{
    uint32_t in = graph->block_of[a], of = graph->block_of[b];
    if (in == of)
        return a <= b && (a == b || !graph->wild);
    return graph_dominates(graph, in, of);
}

bool graph_in_loop(const struct graph *graph, uint32_t loop, uint32_t block)
{
    uint32_t own = graph->blocks[block].loop;
    return own != GRAPH_NONE && loop <= own && own < graph->loops[loop].end;
}
