/* The values of registers: which write, or merge of writes, each read sees. Most registers are
 * written once, before all their reads; the others get merges where paths with different writes
 * meet, at the iterated dominance frontier of the writes, and only where the register is still
 * read. */
#include "graph_parts.h"

#include <stdlib.h>

/* An instruction's mention of a register. */
enum { READS = 1, WRITES = 2, MAY = 4 };
struct mention {
    uint32_t instr, what;
};

struct frontier { /* of blocks: those where their dominance ends */
    uint32_t *first, *blocks;
};

struct valuing {
    struct graph *graph;
    uint32_t regs;            /* registers, the carry among them */
    uint32_t *mention_first;  /* by register */
    struct mention *mentions; /* in order of the text */
    bool *may;                /* by ref: a write that is not sure to happen */
    struct frontier frontier;
    uint32_t *wrote, *lives, *gets,
        *work; /* by block: the last register (plus 1) it was marked for */
    uint32_t *phi_regs, *phi_blocks, phi_count, phi_room;
    uint32_t *current; /* by register: its value at the point of the walk */
    uint32_t *undo_regs, *undo_values, undo_count;
};

/* ---- mentions ---------------------------------------------------------------------------------
 */

struct gathering {
    struct graph_ref *refs;
    uint32_t reads, writes; /* found in the instruction; refs NULL: counting */
    struct graph_ref *written;
    bool may, read_too, write;
    uint32_t register_count;
};

static void gather_read(struct gathering *at, uint32_t reg)
{
    if (reg >= at->register_count)
        return;
    if (at->refs)
        at->refs[at->reads].reg = reg;
    at->reads++;
}

static void gather_write(struct gathering *at, uint32_t reg, bool may)
{
    if (reg >= at->register_count)
        return;
    if (at->refs)
        at->written[at->writes] = (struct graph_ref){reg, may};
    at->writes++;
}

static void gather(struct gathering *at, const struct ptx_operand *operand, char role)
{
    if (operand->kind == PTX_ADDRESS)
        role = 's'; /* the register in it is read, and what follows a comma */
    if (operand->reg != PTX_NO_REG) {
        if (role != 'd')
            gather_read(at, operand->reg);
        if (role == 'd' || role == 'b')
            gather_write(at, operand->reg, role == 'b' ? at->may : at->may || operand->component);
    }
    for (uint32_t i = 0; i < operand->part_count; i++)
        gather(at, &operand->parts[i], role);
}

static bool has_carry(const struct ptx_instr *instr, bool written)
{
    enum ptx_op op = instr->form->op;
    if (written)
        return ptx_has(instr->form, PTX_MOD_cc);
    return op == PTX_OP_addc || op == PTX_OP_subc || op == PTX_OP_madc;
}

static void gather_instr(struct gathering *at, const struct graph *graph,
                         const struct ptx_instr *instr)
{
    at->may = instr->guard != PTX_NO_REG || instr->opaque;
    at->reads = at->writes = 0;
    at->register_count = graph->func->reg_count + 1;
    for (unsigned i = 0; i < instr->operand_count; i++)
        gather(at, &instr->operands[i], ptx_role(instr, i));
    if (instr->guard != PTX_NO_REG)
        gather_read(at, instr->guard);
    if (has_carry(instr, false))
        gather_read(at, graph->carry);
    for (uint32_t i = 0; instr->form->op == PTX_OP_ret && i < graph->func->result_count; i++)
        if (graph->func->results[i]->is_register)
            gather_read(at, graph->func->results[i]->reg);
    if (has_carry(instr, true))
        gather_write(at, graph->carry, at->may);
}

static int by_reg(const void *a, const void *b)
{
    uint32_t x = ((const struct graph_ref *)a)->reg, y = ((const struct graph_ref *)b)->reg;
    return x < y ? -1 : x > y;
}

/* Sorts, and leaves each register once; a register written twice at once may hold either. */
static uint32_t unite(struct graph_ref *refs, uint32_t count, bool writes)
{
    uint32_t kept = 0;
    if (count > 1)
        qsort(refs, count, sizeof *refs, by_reg);
    for (uint32_t i = 0; i < count; i++) {
        if (kept && refs[kept - 1].reg == refs[i].reg)
            refs[kept - 1].value = writes;
        else
            refs[kept++] = refs[i];
    }
    return kept;
}

/* Fills refs; a write's `may` waits in its value. */
static kg_status make_refs(struct valuing *at)
{
    struct graph *graph = at->graph;
    const struct ptx_func *func = graph->func;
    struct gathering look = {0};
    size_t total = 0, most = 0;
    for (uint32_t i = 0; i < func->instr_count; i++) {
        gather_instr(&look, graph, &func->instrs[i]);
        total += look.reads + look.writes;
        most = look.writes > most ? look.writes : most;
    }
    if (total > UINT32_MAX / 4)
        return KG_LIMIT;
    graph->refs = arena_alloc(graph->arena, (total + 1) * sizeof *graph->refs);
    graph->read_first = graph_numbers(graph->arena, func->instr_count + 1);
    graph->write_first = graph_numbers(graph->arena, func->instr_count + 1);
    at->may = arena_alloc(graph->arena, total + 1);
    look.written = arena_alloc(graph->arena, (most + 1) * sizeof *look.written);
    if (!graph->refs || !graph->read_first || !graph->write_first || !at->may || !look.written)
        return KG_NO_MEMORY;
    uint32_t count = 0;
    for (uint32_t i = 0; i < func->instr_count; i++) {
        look.refs = graph->refs + count;
        gather_instr(&look, graph, &func->instrs[i]);
        graph->read_first[i] = count;
        count += unite(look.refs, look.reads, false);
        graph->write_first[i] = count;
        uint32_t writes = unite(look.written, look.writes, true);
        for (uint32_t j = 0; j < writes; j++, count++) {
            graph->refs[count].reg = look.written[j].reg;
            at->may[count] = look.written[j].value;
        }
    }
    graph->read_first[func->instr_count] = graph->write_first[func->instr_count] = count;
    for (uint32_t i = 0; i < count; i++)
        graph->refs[i].value = GRAPH_UNKNOWN;
    return KG_OK;
}

/* In reachable code, by register. */
static void add_mentions(struct valuing *at, bool fill)
{
    const struct graph *graph = at->graph;
    for (uint32_t i = 0; i < graph->func->instr_count; i++) {
        if (!graph->blocks[graph->block_of[i]].reachable)
            continue;
        for (uint32_t r = graph->read_first[i]; r < graph->read_first[i + 1]; r++) {
            uint32_t *slot = &at->mention_first[graph->refs[r].reg + !fill];
            bool write = r >= graph->write_first[i];
            if (fill)
                at->mentions[*slot] =
                    (struct mention){i, write ? WRITES | (at->may[r] ? MAY : 0) : READS};
            ++*slot;
        }
    }
}

static kg_status make_mentions(struct valuing *at)
{
    struct kg_arena *arena = at->graph->arena;
    uint32_t *first = graph_numbers(arena, at->regs + 1);
    at->mention_first = first;
    if (!first)
        return KG_NO_MEMORY;
    add_mentions(at, false);
    for (uint32_t r = 0; r < at->regs; r++)
        first[r + 1] += first[r];
    at->mentions = arena_alloc(arena, (first[at->regs] + 1ull) * sizeof *at->mentions);
    if (!at->mentions)
        return KG_NO_MEMORY;
    add_mentions(at, true); /* moves each first to the next one's */
    memmove(first + 1, first, at->regs * sizeof *first);
    first[0] = 0;
    return KG_OK;
}

/* ---- merges -----------------------------------------------------------------------------------
 */

static bool walk_frontier(struct valuing *at, uint32_t *met, uint32_t *first, uint32_t *out)
{
    struct graph *graph = at->graph;
    for (uint32_t b = 0; b < graph->block_count; b++) {
        const struct graph_block *block = &graph->blocks[b];
        if (!block->reachable || block->pred_count < 2)
            continue;
        for (uint32_t i = 0; i < block->pred_count; i++)
            for (uint32_t run = block->preds[i]; run != block->idom && met[run] != b + 1;
                 run = graph->blocks[run].idom) {
                met[run] = b + 1;
                if (out)
                    out[first[run]] = b;
                first[run]++;
                if (!graph_works(graph, 1))
                    return false;
            }
    }
    return true;
}

static kg_status make_frontier(struct valuing *at)
{
    struct kg_arena *arena = at->graph->arena;
    uint32_t count = at->graph->block_count, total = 0;
    uint32_t *met = graph_numbers(arena, count), *first = graph_numbers(arena, count);
    at->frontier.first = first;
    if (!met || !first)
        return KG_NO_MEMORY;
    if (!walk_frontier(at, met, first, NULL))
        return KG_LIMIT;
    for (uint32_t b = 0; b <= count; b++) {
        uint32_t own = b < count ? first[b] : 0;
        first[b] = total;
        total += own;
    }
    at->frontier.blocks = graph_numbers(arena, total);
    uint32_t *next = graph_numbers(arena, count);
    if (!at->frontier.blocks || !next)
        return KG_NO_MEMORY;
    memcpy(next, first, (count + 1) * sizeof *next);
    memset(met, 0, (count + 1) * sizeof *met);
    return walk_frontier(at, met, next, at->frontier.blocks) ? KG_OK : KG_LIMIT;
}

/* The one write of a register comes before all its reads: no merges. */
static bool is_simple(const struct valuing *at, const struct mention *mentions, uint32_t count)
{
    uint32_t write = GRAPH_NONE;
    for (uint32_t i = 0; i < count; i++) {
        if (!(mentions[i].what & WRITES))
            continue;
        if (write != GRAPH_NONE || mentions[i].what & MAY)
            return false;
        write = mentions[i].instr;
    }
    for (uint32_t i = 0; write != GRAPH_NONE && i < count; i++)
        if (mentions[i].what & READS &&
            (mentions[i].instr == write ||
             !graph_instr_dominates(at->graph, write, mentions[i].instr)))
            return false;
    return true; /* never written: its value is that of the start */
}

/* Marks the blocks at whose head the register's value is still read. A write that may not happen
 * reads it too. */
static bool find_living(struct valuing *at, uint32_t reg, const struct mention *mentions,
                        uint32_t count)
{
    struct graph *graph = at->graph;
    uint32_t depth = 0, settled = GRAPH_NONE; /* block in which a sure write came already */
    for (uint32_t i = 0; i < count; i++) {
        uint32_t block = graph->block_of[mentions[i].instr];
        bool sure = mentions[i].what == WRITES;
        if (settled != block && !sure && at->lives[block] != reg + 1) {
            at->lives[block] = reg + 1;
            at->work[depth++] = block;
        }
        if (sure) {
            settled = block;
            at->wrote[block] = reg + 1;
        }
    }
    while (depth) {
        const struct graph_block *block = &graph->blocks[at->work[--depth]];
        for (uint32_t i = 0; i < block->pred_count; i++) {
            uint32_t from = block->preds[i];
            if (!graph_works(graph, 1))
                return false;
            if (at->wrote[from] == reg + 1 || at->lives[from] == reg + 1)
                continue;
            at->lives[from] = reg + 1;
            at->work[depth++] = from;
        }
    }
    return true;
}

static bool add_phi(struct valuing *at, uint32_t reg, uint32_t block)
{
    if (at->phi_count == at->phi_room) {
        uint32_t room = at->phi_room ? 2 * at->phi_room : 256;
        uint32_t *grown = graph_numbers(at->graph->arena, 2ull * room);
        if (!grown)
            return false;
        if (at->phi_count) {
            memcpy(grown, at->phi_regs, at->phi_count * sizeof *grown);
            memcpy(grown + room, at->phi_blocks, at->phi_count * sizeof *grown);
        }
        at->phi_regs = grown;
        at->phi_blocks = grown + room;
        at->phi_room = room;
    }
    at->phi_regs[at->phi_count] = reg;
    at->phi_blocks[at->phi_count++] = block;
    return true;
}

static kg_status place_phis(struct valuing *at, uint32_t reg, const struct mention *mentions,
                            uint32_t count)
{
    struct graph *graph = at->graph;
    uint32_t depth = 0;
    if (!find_living(at, reg, mentions, count))
        return KG_LIMIT;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t block = graph->block_of[mentions[i].instr];
        bool again = depth && at->work[depth - 1] == block;
        if (mentions[i].what & WRITES && !again)
            at->work[depth++] = block;
    }
    while (depth) {
        uint32_t from = at->work[--depth];
        for (uint32_t i = at->frontier.first[from]; i < at->frontier.first[from + 1]; i++) {
            uint32_t block = at->frontier.blocks[i];
            if (!graph_works(graph, 1))
                return KG_LIMIT;
            if (at->gets[block] == reg + 1 || at->lives[block] != reg + 1)
                continue;
            at->gets[block] = reg + 1;
            if (!graph_works(graph, graph->blocks[block].pred_count))
                return KG_LIMIT;
            if (!add_phi(at, reg, block))
                return KG_NO_MEMORY;
            at->work[depth++] = block;
        }
    }
    return KG_OK;
}

static kg_status place_all(struct valuing *at)
{
    struct kg_arena *arena = at->graph->arena;
    uint32_t count = at->graph->block_count;
    at->wrote = graph_numbers(arena, count);
    at->lives = graph_numbers(arena, count);
    at->gets = graph_numbers(arena, count);
    at->work = graph_numbers(arena, 2ull * count + 2);
    if (!at->wrote || !at->lives || !at->gets || !at->work)
        return KG_NO_MEMORY;
    kg_status status = make_frontier(at);
    for (uint32_t reg = 0; status == KG_OK && reg < at->regs; reg++) {
        const struct mention *mentions = at->mentions + at->mention_first[reg];
        uint32_t mentioned = at->mention_first[reg + 1] - at->mention_first[reg];
        if (!is_simple(at, mentions, mentioned))
            status = place_phis(at, reg, mentions, mentioned);
    }
    return status;
}

/* ---- numbering --------------------------------------------------------------------------------
 */

static kg_status make_phis(struct valuing *at)
{
    struct graph *graph = at->graph;
    for (uint32_t i = 0; i < at->phi_count; i++)
        graph->blocks[at->phi_blocks[i]].phi_count++;
    for (uint32_t b = 0; b < graph->block_count; b++) {
        graph->blocks[b].phi_first = graph->value_count;
        graph->value_count += graph->blocks[b].phi_count;
        graph->blocks[b].phi_count = 0;
    }
    for (uint32_t i = 0; i < at->phi_count; i++) {
        struct graph_block *block = &graph->blocks[at->phi_blocks[i]];
        uint32_t *inputs = graph_numbers(graph->arena, block->pred_count);
        if (!inputs)
            return KG_NO_MEMORY;
        graph->values[block->phi_first + block->phi_count++] =
            (struct graph_value){.kind = VALUE_PHI,
                                 .reg = at->phi_regs[i],
                                 .block = at->phi_blocks[i],
                                 .instr = GRAPH_NONE,
                                 .input_count = block->pred_count,
                                 .inputs = inputs};
    }
    return KG_OK;
}

static void set_current(struct valuing *at, uint32_t reg, uint32_t value)
{
    at->undo_regs[at->undo_count] = reg;
    at->undo_values[at->undo_count++] = at->current[reg];
    at->current[reg] = value;
}

static uint32_t see(struct valuing *at, uint32_t reg)
{
    struct graph *graph = at->graph;
    if (at->current[reg] != GRAPH_UNKNOWN)
        return at->current[reg];
    struct graph_value start = {.kind = VALUE_START, .reg = reg, .instr = GRAPH_NONE};
    for (uint32_t i = 0; i < graph->func->param_count; i++)
        if (graph->func->params[i]->is_register && graph->func->params[i]->reg == reg)
            start.param = graph->func->params[i];
    graph->values[graph->value_count] = start;
    return at->current[reg] = graph->value_count++; /* not undone: it holds from the start */
}

static bool value_writes(struct valuing *at, uint32_t instr)
{
    struct graph *graph = at->graph;
    for (uint32_t r = graph->write_first[instr]; r < graph->read_first[instr + 1]; r++) {
        uint32_t reg = graph->refs[r].reg, *inputs = NULL;
        if (at->may[r]) {
            if (!(inputs = graph_numbers(graph->arena, 1)))
                return false;
            *inputs = see(at, reg);
        }
        uint32_t number = graph->value_count++;
        graph->values[number] = (struct graph_value){.kind = VALUE_WRITE,
                                                     .may = at->may[r],
                                                     .reg = reg,
                                                     .block = graph->block_of[instr],
                                                     .instr = instr,
                                                     .input_count = at->may[r],
                                                     .inputs = inputs};
        graph->refs[r].value = number;
        set_current(at, reg, number);
    }
    return true;
}

static bool walk_block(struct valuing *at, uint32_t number)
{
    struct graph *graph = at->graph;
    const struct graph_block *block = &graph->blocks[number];
    for (uint32_t p = block->phi_first; p < block->phi_first + block->phi_count; p++)
        set_current(at, graph->values[p].reg, p);
    for (uint32_t i = block->first; i < block->end; i++) {
        for (uint32_t r = graph->read_first[i]; r < graph->write_first[i]; r++)
            graph->refs[r].value = see(at, graph->refs[r].reg);
        if (!value_writes(at, i))
            return false;
    }
    for (uint32_t s = 0; s < block->succ_count; s++) {
        const struct graph_block *to = &graph->blocks[block->succs[s]];
        if (!to->phi_count)
            continue;
        uint32_t slot = 0;
        while (to->preds[slot] != number)
            slot++;
        if (!graph_works(graph, slot))
            return false;
        for (uint32_t p = to->phi_first; p < to->phi_first + to->phi_count; p++)
            ((uint32_t *)graph->values[p].inputs)[slot] = see(at, graph->values[p].reg);
    }
    return true;
}

/* Over the tree of dominators, in preorder; what a block set is undone behind its subtree. */
static kg_status walk_tree(struct valuing *at)
{
    struct graph *graph = at->graph;
    uint32_t count = graph->order_count, depth = 0;
    struct kg_arena *arena = graph->arena;
    uint32_t *by_rank = graph_numbers(arena, graph->block_count);
    uint32_t *path = graph_numbers(arena, count), *marks = graph_numbers(arena, count);
    if (!by_rank || !path || !marks)
        return KG_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        by_rank[graph->hidden->span_first[graph->order[i]]] = graph->order[i];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t block = by_rank[i];
        while (depth && !graph_dominates(graph, path[depth - 1], block)) {
            for (depth--; at->undo_count > marks[depth];) {
                at->undo_count--;
                at->current[at->undo_regs[at->undo_count]] = at->undo_values[at->undo_count];
            }
        }
        path[depth] = block;
        marks[depth++] = at->undo_count;
        if (!walk_block(at, block))
            return KG_LIMIT;
    }
    return KG_OK;
}

/* ---- users ------------------------------------------------------------------------------------
 */

static void add_user(struct graph *graph, struct graph_user *users, uint32_t *at, uint32_t value,
                     struct graph_user user)
{
    if (users)
        users[at[value]++] = user;
    else
        graph->values[value].user_count++;
}

static void walk_users(struct graph *graph, struct graph_user *users, uint32_t *at)
{
    for (uint32_t i = 0; i < graph->func->instr_count; i++)
        for (uint32_t r = graph->read_first[i]; r < graph->write_first[i]; r++)
            add_user(graph, users, at, graph->refs[r].value, (struct graph_user){i, GRAPH_NONE});
    for (uint32_t v = 1; v < graph->value_count; v++)
        for (uint32_t i = 0; i < graph->values[v].input_count; i++)
            add_user(graph, users, at, graph->values[v].inputs[i],
                     (struct graph_user){GRAPH_NONE, v});
}

static kg_status list_users(struct graph *graph)
{
    uint32_t *at = graph_numbers(graph->arena, graph->value_count), total = 0;
    if (!at)
        return KG_NO_MEMORY;
    walk_users(graph, NULL, NULL);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        at[v] = total;
        total += graph->values[v].user_count;
    }
    struct graph_user *users = arena_alloc(graph->arena, (total + 1ull) * sizeof *users);
    if (!users)
        return KG_NO_MEMORY;
    for (uint32_t v = 0; v < graph->value_count; v++)
        graph->values[v].users = users + at[v];
    walk_users(graph, users, at);
    return KG_OK;
}

kg_status graph_make_values(struct graph *graph)
{
    struct valuing at = {.graph = graph, .regs = graph->func->reg_count + 1};
    kg_status status = make_refs(&at);
    if (status == KG_OK && !graph->wild)
        status = make_mentions(&at);
    if (status == KG_OK && !graph->wild)
        status = place_all(&at);
    if (status != KG_OK)
        return status;
    size_t writes = graph->read_first[graph->func->instr_count];
    size_t most = 1 + at.phi_count + writes + at.regs;
    graph->values = arena_alloc(graph->arena, (most + 1) * sizeof *graph->values);
    graph->hidden->seen = graph_numbers(graph->arena, most);
    graph->hidden->value_stack = graph_numbers(graph->arena, most);
    at.current = graph_numbers(graph->arena, at.regs);
    at.undo_regs = graph_numbers(graph->arena, most);
    at.undo_values = graph_numbers(graph->arena, most);
    if (!graph->values || !graph->hidden->seen || !graph->hidden->value_stack || !at.current ||
        !at.undo_regs || !at.undo_values)
        return KG_NO_MEMORY;
    graph->values[graph->value_count++] = (struct graph_value){.instr = GRAPH_NONE};
    if (!graph->wild) {
        status = make_phis(&at);
        if (status == KG_OK)
            status = walk_tree(&at);
    }
    return status == KG_OK ? list_users(graph) : status;
}
