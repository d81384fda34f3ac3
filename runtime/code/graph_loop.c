/* The loop forest, by Havlak's method: headers from the innermost outwards, each loop's blocks
 * merged into its header. A loop that is also entered past its header is found like the others, and
 * marked. A wild function is one irreducible loop. */
#include "graph_parts.h"

struct entry { /* of a list: an edge into a block from elsewhere */
    uint32_t block, next;
};

struct nesting {
    struct graph *graph;
    uint32_t *header;      /* by block: of the innermost loop around it, as a block */
    uint32_t *merged;      /* by block: union-find */
    bool *heads, *crooked; /* by block: heads a loop; an irreducible one */
    uint32_t *extra;       /* by block: first entry of its list */
    struct entry *entries;
    uint32_t entry_count, entry_room;
    uint32_t *pool, *in_pool; /* of the header at hand */
};

static uint32_t find(struct nesting *at, uint32_t block)
{
    uint32_t root = block;
    while (at->merged[root] != root)
        root = at->merged[root];
    while (at->merged[block] != root) {
        uint32_t next = at->merged[block];
        at->merged[block] = root;
        block = next;
    }
    return root;
}

/* a is b or above it in the depth-first tree */
static bool above(const struct graph *graph, uint32_t a, uint32_t b)
{
    const uint32_t *preorder = graph->hidden->preorder;
    return preorder[a] <= preorder[b] && preorder[b] <= graph->hidden->last[a];
}

static bool add_entry(struct nesting *at, uint32_t block, uint32_t from)
{
    if (at->entry_count == at->entry_room) {
        uint32_t room = at->entry_room ? 2 * at->entry_room : 64;
        struct entry *grown = arena_alloc(at->graph->arena, room * sizeof *grown);
        if (!grown)
            return false;
        if (at->entry_count)
            memcpy(grown, at->entries, at->entry_count * sizeof *grown);
        at->entries = grown;
        at->entry_room = room;
    }
    at->entries[at->entry_count] = (struct entry){from, at->extra[block]};
    at->extra[block] = at->entry_count++;
    return true;
}

static bool take(struct nesting *at, uint32_t header, uint32_t block, uint32_t *count)
{
    if (at->in_pool[block] != header + 1 && block != header) {
        at->in_pool[block] = header + 1;
        at->pool[(*count)++] = block;
    }
    return graph_works(at->graph, 1);
}

/* A block of the loop at hand is entered from `from`: that is in the loop too, or from outside. */
static bool enter(struct nesting *at, uint32_t header, uint32_t from, uint32_t *count)
{
    from = find(at, from);
    if (above(at->graph, header, from))
        return take(at, header, from, count);
    at->crooked[header] = true;
    return add_entry(at, header, from) && graph_works(at->graph, 1);
}

static bool grow(struct nesting *at, uint32_t header)
{
    const struct graph *graph = at->graph;
    const struct graph_block *block = &graph->blocks[header];
    uint32_t count = 0;
    for (uint32_t i = 0; i < block->pred_count; i++) {
        if (!above(graph, header, block->preds[i]))
            continue;
        at->heads[header] = true;
        if (!take(at, header, find(at, block->preds[i]), &count))
            return false;
    }
    for (uint32_t done = 0; done < count; done++) {
        uint32_t inside = at->pool[done];
        const struct graph_block *of = &graph->blocks[inside];
        for (uint32_t i = 0; i < of->pred_count; i++)
            if (!above(graph, inside, of->preds[i]) && !enter(at, header, of->preds[i], &count))
                return false;
        for (uint32_t e = at->extra[inside]; e != GRAPH_NONE; e = at->entries[e].next)
            if (!enter(at, header, at->entries[e].block, &count))
                return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        at->header[at->pool[i]] = header;
        at->merged[at->pool[i]] = header;
    }
    return true;
}

/* ---- the loops as an array --------------------------------------------------------------------
 */

/* Numbers loops in preorder of the forest. A header comes before what its loop holds, in the
 * depth-first order; the loop of each block by the way. */
static kg_status number_loops(struct graph *graph, const struct nesting *at)
{
    uint32_t loops = 0, *by_header = graph_numbers(graph->arena, graph->block_count);
    uint32_t *sizes = graph_numbers(graph->arena, graph->block_count);
    if (!by_header || !sizes)
        return KG_NO_MEMORY;
    for (uint32_t i = graph->order_count; i-- > 0;) {
        uint32_t block = graph->hidden->by_preorder[i];
        sizes[block] += at->heads[block];
        loops += at->heads[block];
        if (at->header[block] != GRAPH_NONE)
            sizes[at->header[block]] += sizes[block];
    }
    graph->loops = arena_alloc(graph->arena, (loops + 1) * sizeof *graph->loops);
    if (!graph->loops)
        return KG_NO_MEMORY;
    graph->loop_count = loops;
    uint32_t next = 0;
    for (uint32_t i = 0; i < graph->order_count; i++) {
        uint32_t block = graph->hidden->by_preorder[i], outer = at->header[block];
        uint32_t parent = outer == GRAPH_NONE ? GRAPH_NONE : by_header[outer];
        graph->blocks[block].loop = parent;
        if (!at->heads[block])
            continue;
        uint32_t size = sizes[block], *place = parent == GRAPH_NONE ? &next : &sizes[outer];
        uint32_t number = *place;
        *place += size;
        sizes[block] = number + 1; /* reused: where the next loop inside begins */
        by_header[block] = graph->blocks[block].loop = number;
        graph->loops[number] =
            (struct graph_loop){.header = block,
                                .parent = parent,
                                .depth = parent == GRAPH_NONE ? 1 : graph->loops[parent].depth + 1,
                                .end = number + size,
                                .irreducible = at->crooked[block]};
        graph->irreducible |= at->crooked[block];
    }
    return KG_OK;
}

/* Blocks in order of their loops: each loop's are one range. */
static kg_status list_blocks(struct graph *graph)
{
    uint32_t loops = graph->loop_count, *all = graph_numbers(graph->arena, graph->block_count);
    uint32_t *first = graph_numbers(graph->arena, loops + 1);
    if (!all || !first)
        return KG_NO_MEMORY;
    for (uint32_t i = 0; i < graph->block_count; i++)
        if (graph->blocks[i].loop != GRAPH_NONE)
            first[graph->blocks[i].loop + 1]++;
    for (uint32_t l = 0; l < loops; l++)
        first[l + 1] += first[l];
    for (uint32_t l = 0; l < loops; l++) {
        graph->loops[l].blocks = all + first[l];
        graph->loops[l].block_count = first[graph->loops[l].end] - first[l];
    }
    for (uint32_t i = 0; i < graph->block_count; i++)
        if (graph->blocks[i].loop != GRAPH_NONE)
            all[first[graph->blocks[i].loop]++] = i;
    return KG_OK;
}

/* Counts, or fills: the edges that leave loops, by loop, and the latches. */
static bool walk_edges(struct graph *graph, uint32_t *latches, struct graph_edge *exits)
{
    for (uint32_t i = 0; i < graph->block_count; i++) {
        const struct graph_block *block = &graph->blocks[i];
        for (uint32_t j = 0; block->loop != GRAPH_NONE && j < block->succ_count; j++) {
            uint32_t to = block->succs[j], l = block->loop;
            for (; l != GRAPH_NONE && (to == graph->exit || !graph_in_loop(graph, l, to));
                 l = graph->loops[l].parent) {
                struct graph_loop *loop = &graph->loops[l];
                if (exits)
                    exits[(loop->exits - exits) + loop->exit_count] = (struct graph_edge){i, to};
                loop->exit_count++;
                if (!graph_works(graph, 1))
                    return false;
            }
            uint32_t head = to == graph->exit ? GRAPH_NONE : graph->blocks[to].loop;
            if (head == GRAPH_NONE || graph->loops[head].header != to ||
                !graph_in_loop(graph, head, i))
                continue;
            struct graph_loop *loop = &graph->loops[head];
            if (latches)
                latches[(loop->latches - latches) + loop->latch_count] = i;
            loop->latch_count++;
        }
    }
    return true;
}

static kg_status list_edges(struct graph *graph)
{
    size_t latch_total = 0, exit_total = 0;
    if (!walk_edges(graph, NULL, NULL))
        return KG_LIMIT;
    for (uint32_t l = 0; l < graph->loop_count; l++) {
        latch_total += graph->loops[l].latch_count;
        exit_total += graph->loops[l].exit_count;
    }
    uint32_t *latches = graph_numbers(graph->arena, latch_total);
    struct graph_edge *exits = arena_alloc(graph->arena, (exit_total + 1) * sizeof *exits);
    if (!latches || !exits)
        return KG_NO_MEMORY;
    latch_total = exit_total = 0;
    for (uint32_t l = 0; l < graph->loop_count; l++) {
        struct graph_loop *loop = &graph->loops[l];
        loop->latches = latches + latch_total;
        loop->exits = exits + exit_total;
        latch_total += loop->latch_count;
        exit_total += loop->exit_count;
        loop->latch_count = loop->exit_count = 0;
    }
    return walk_edges(graph, latches, exits) ? KG_OK : KG_LIMIT;
}

static kg_status nest(struct graph *graph, struct nesting *at)
{
    uint32_t count = graph->block_count;
    uint32_t **arrays[] = {&at->header, &at->merged, &at->extra, &at->pool, &at->in_pool};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (!(*arrays[i] = graph_numbers(graph->arena, count)))
            return KG_NO_MEMORY;
    at->heads = arena_alloc(graph->arena, count + 1);
    at->crooked = arena_alloc(graph->arena, count + 1);
    if (!at->heads || !at->crooked)
        return KG_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        at->merged[i] = i;
        at->header[i] = at->extra[i] = GRAPH_NONE;
    }
    for (uint32_t i = graph->order_count; !graph->wild && i-- > 0;)
        if (!grow(at, graph->hidden->by_preorder[i]))
            return KG_LIMIT;
    return KG_OK;
}

static kg_status one_wild_loop(struct graph *graph)
{
    graph->loops = arena_alloc(graph->arena, sizeof *graph->loops);
    if (!graph->loops)
        return KG_NO_MEMORY;
    graph->loop_count = 1;
    graph->irreducible = true;
    *graph->loops =
        (struct graph_loop){.parent = GRAPH_NONE, .depth = 1, .end = 1, .irreducible = true};
    for (uint32_t i = 0; i < graph->block_count; i++)
        graph->blocks[i].loop = 0;
    return KG_OK;
}

kg_status graph_make_loops(struct graph *graph)
{
    struct nesting at = {.graph = graph};
    kg_status status = nest(graph, &at);
    if (status == KG_OK)
        status = graph->wild ? one_wild_loop(graph) : number_loops(graph, &at);
    for (uint32_t l = 0; status == KG_OK && !graph->wild && l < graph->loop_count; l++) {
        const struct graph_block *header = &graph->blocks[graph->loops[l].header];
        if (graph->loops[l].irreducible && !graph->wild_line &&
            header->first < graph->func->instr_count)
            graph->wild_line = graph->func->instrs[header->first].place.line;
    }
    if (status == KG_OK)
        status = list_blocks(graph);
    return status == KG_OK ? list_edges(graph) : status;
}
