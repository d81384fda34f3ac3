/* Order and dominators of a graph. Dominators are found by Lengauer and Tarjan's method with path
 * compression (m log n), the same for both directions; backwards the virtual exit is the root, and
 * an endless block counts as one that may leave. */
#include "graph_parts.h"

/* ---- depth-first order ------------------------------------------------------------------------
 */

static kg_status number_blocks(struct graph *graph, uint32_t *post)
{
    struct graph_hidden *hidden = graph->hidden;
    uint32_t *stack = graph_numbers(graph->arena, graph->block_count), depth = 0, count = 0;
    uint32_t *next = graph_numbers(graph->arena, graph->block_count), posts = 0;
    if (!stack || !next)
        return KG_NO_MEMORY;
    hidden->by_preorder[count] = 0;
    hidden->preorder[0] = count++;
    stack[depth++] = 0;
    while (depth) {
        uint32_t block = stack[depth - 1];
        const struct graph_block *at = &graph->blocks[block];
        if (next[block] == at->succ_count) {
            hidden->last[block] = count - 1;
            post[posts++] = block;
            depth--;
            continue;
        }
        uint32_t to = at->succs[next[block]++];
        if (to == graph->exit || hidden->preorder[to] != GRAPH_NONE)
            continue;
        hidden->by_preorder[count] = to;
        hidden->preorder[to] = count++;
        stack[depth++] = to;
    }
    graph->order_count = count;
    return KG_OK;
}

kg_status graph_make_order(struct graph *graph)
{
    struct graph_hidden *hidden = graph->hidden;
    uint32_t count = graph->block_count, *post = graph_numbers(graph->arena, count);
    hidden->preorder = graph_numbers(graph->arena, count);
    hidden->last = graph_numbers(graph->arena, count);
    hidden->by_preorder = graph_numbers(graph->arena, count);
    graph->order = graph_numbers(graph->arena, count);
    if (!post || !hidden->preorder || !hidden->last || !hidden->by_preorder || !graph->order)
        return KG_NO_MEMORY;
    for (uint32_t i = 0; i <= count; i++) {
        hidden->preorder[i] = GRAPH_NONE;
        graph->blocks[i].rank = graph->blocks[i].idom = graph->blocks[i].ipdom = GRAPH_NONE;
        graph->blocks[i].loop = GRAPH_NONE;
    }
    kg_status status = number_blocks(graph, post);
    if (status != KG_OK)
        return status;
    if (graph->wild)
        graph->order_count = count;
    for (uint32_t i = 0; i < graph->order_count; i++) {
        uint32_t block = graph->wild ? i : post[graph->order_count - 1 - i];
        graph->order[i] = block;
        graph->blocks[block].rank = i;
        graph->blocks[block].reachable = true;
    }
    return KG_OK;
}

/* ---- dominators -------------------------------------------------------------------------------
 */

/* One direction's edges, and the state of the method. Nodes are blocks, the exit among them. */
struct finding {
    struct graph *graph;
    bool backward;
    uint32_t root, count, nodes;
    uint32_t *number, *vertex; /* by node: depth-first number; and back */
    uint32_t *parent, *semi, *label, *ancestor, *bucket, *bucket_next, *dom; /* by number */
    uint32_t *stack;
};

/* Edge `index` of a node along (or against) the direction; GRAPH_NONE: no more. The exit's edges
 * against endless blocks are those after its predecessors: all blocks, filtered. */
static uint32_t edge(const struct finding *at, uint32_t node, uint32_t index, bool along)
{
    const struct graph *graph = at->graph;
    const struct graph_block *block = &graph->blocks[node];
    bool preds = along == at->backward;
    uint32_t count = preds ? block->pred_count : block->succ_count;
    if (index < count)
        return preds ? block->preds[index] : block->succs[index];
    if (!at->backward)
        return GRAPH_NONE;
    if (!preds)
        return index == count && block->endless ? graph->exit : GRAPH_NONE;
    if (node != graph->exit || index - count >= graph->block_count)
        return GRAPH_NONE;
    uint32_t other = index - count;
    return graph->blocks[other].endless ? other : node; /* itself: no edge */
}

static void search(struct finding *at, uint32_t *next)
{
    uint32_t depth = 0;
    memset(at->number, 0xFF, (at->nodes + 1) * sizeof *at->number);
    at->number[at->root] = 0;
    at->vertex[at->count++] = at->root;
    at->stack[depth++] = at->root;
    while (depth) {
        uint32_t node = at->stack[depth - 1], to = edge(at, node, next[node]++, true);
        if (to == GRAPH_NONE) {
            depth--;
            continue;
        }
        if (to == at->graph->exit && !at->backward)
            continue;
        if (at->number[to] != GRAPH_NONE)
            continue;
        at->number[to] = at->count;
        at->parent[at->count] = at->number[node];
        at->vertex[at->count++] = to;
        at->stack[depth++] = to;
    }
}

/* The number with the least semi-dominator on the way up to the root of its linked tree. */
static uint32_t eval(struct finding *at, uint32_t v)
{
    uint32_t depth = 0;
    if (at->ancestor[v] == GRAPH_NONE)
        return at->label[v];
    for (uint32_t u = v; at->ancestor[at->ancestor[u]] != GRAPH_NONE; u = at->ancestor[u])
        at->stack[depth++] = u;
    while (depth) {
        uint32_t u = at->stack[--depth], above = at->ancestor[u];
        if (at->semi[at->label[above]] < at->semi[at->label[u]])
            at->label[u] = at->label[above];
        at->ancestor[u] = at->ancestor[above];
    }
    return at->label[v];
}

static void settle_bucket(struct finding *at, uint32_t parent)
{
    for (uint32_t v = at->bucket[parent]; v != GRAPH_NONE; v = at->bucket_next[v]) {
        uint32_t u = eval(at, v);
        at->dom[v] = at->semi[u] < at->semi[v] ? u : parent;
    }
    at->bucket[parent] = GRAPH_NONE;
}

static void find(struct finding *at)
{
    for (uint32_t i = 0; i < at->count; i++) {
        at->semi[i] = at->label[i] = i;
        at->ancestor[i] = at->bucket[i] = GRAPH_NONE;
    }
    for (uint32_t w = at->count; w-- > 1;) {
        uint32_t from;
        for (uint32_t i = 0; (from = edge(at, at->vertex[w], i, false)) != GRAPH_NONE; i++) {
            if (at->number[from] == GRAPH_NONE)
                continue;
            uint32_t u = eval(at, at->number[from]);
            if (at->semi[u] < at->semi[w])
                at->semi[w] = at->semi[u];
        }
        at->bucket_next[w] = at->bucket[at->semi[w]];
        at->bucket[at->semi[w]] = w;
        at->ancestor[w] = at->parent[w];
        settle_bucket(at, at->parent[w]);
    }
    for (uint32_t w = 1; w < at->count; w++)
        if (at->dom[w] != at->semi[w])
            at->dom[w] = at->dom[at->dom[w]];
}

/* Numbers the tree in preorder. Dominators have lower numbers than what they dominate. */
static kg_status span(const struct finding *at)
{
    struct kg_arena *arena = at->graph->arena;
    uint32_t *sizes = graph_numbers(arena, at->nodes);
    uint32_t *begins = graph_numbers(arena, at->nodes), *ends = graph_numbers(arena, at->nodes);
    if (!sizes || !begins || !ends)
        return KG_NO_MEMORY;
    for (uint32_t w = at->count; w-- > 0;) {
        sizes[w]++;
        if (w)
            sizes[at->dom[w]] += sizes[w];
    }
    for (uint32_t w = 0; w < at->count; w++) {
        uint32_t node = at->vertex[w], size = sizes[w];
        uint32_t first = w ? sizes[at->dom[w]] : 0; /* reused: where the next child begins */
        if (w)
            sizes[at->dom[w]] += size;
        begins[node] = first;
        ends[node] = first + size;
        sizes[w] = first + 1;
    }
    at->graph->hidden->span_first = begins;
    at->graph->hidden->span_end = ends;
    return KG_OK;
}

static kg_status make_tree(struct graph *graph, bool backward)
{
    struct finding at = {.graph = graph,
                         .backward = backward,
                         .root = backward ? graph->exit : 0,
                         .nodes = graph->block_count + 1};
    uint32_t **arrays[] = {&at.number,   &at.vertex, &at.parent, &at.semi,        &at.label,
                           &at.ancestor, &at.bucket, &at.stack,  &at.bucket_next, &at.dom};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (!(*arrays[i] = graph_numbers(graph->arena, at.nodes)))
            return KG_NO_MEMORY;
    uint32_t *next = graph_numbers(graph->arena, at.nodes);
    if (!next)
        return KG_NO_MEMORY;
    if (!graph->wild) { /* else nobody dominates anybody */
        search(&at, next);
        find(&at);
    }
    for (uint32_t w = 1; w < at.count; w++) {
        struct graph_block *block = &graph->blocks[at.vertex[w]];
        *(backward ? &block->ipdom : &block->idom) = at.vertex[at.dom[w]];
    }
    return backward ? KG_OK : span(&at);
}

kg_status graph_make_trees(struct graph *graph)
{
    kg_status status = make_tree(graph, false);
    return status == KG_OK ? make_tree(graph, true) : status;
}

/* ---- control dependence -----------------------------------------------------------------------
 */

/* Walks from each successor of a block with several up the tree of post-dominators, to the block's
 * own. First counts, then fills. */
static bool walk_controls(struct graph *graph, uint32_t *met, uint32_t *first, uint32_t *out)
{
    for (uint32_t i = 0; i < graph->block_count; i++) {
        const struct graph_block *block = &graph->blocks[i];
        if (!block->reachable || block->succ_count + block->endless < 2)
            continue;
        for (uint32_t j = 0; j < block->succ_count; j++)
            for (uint32_t run = block->succs[j];
                 run != block->ipdom && run != graph->exit && run != GRAPH_NONE;
                 run = graph->blocks[run].ipdom) {
                if (!graph_works(graph, 1))
                    return false;
                if (met[run] == i + 1)
                    break;
                met[run] = i + 1;
                if (out)
                    out[first[run]] = i;
                first[run]++;
            }
    }
    return true;
}

static void make_controls(struct graph *graph)
{
    struct graph_hidden *hidden = graph->hidden;
    uint32_t count = graph->block_count, total = 0;
    uint32_t *met = graph_numbers(graph->arena, count), *first = graph_numbers(graph->arena, count);
    hidden->controls_tried = true;
    if (graph->wild || !met || !first || !walk_controls(graph, met, first, NULL))
        return;
    for (uint32_t i = 0; i <= count; i++) {
        uint32_t own = i < count ? first[i] : 0;
        first[i] = total;
        total += own;
    }
    uint32_t *out = graph_numbers(graph->arena, total), *at = graph_numbers(graph->arena, count);
    if (!out || !at)
        return;
    memcpy(at, first, (count + 1) * sizeof *at);
    memset(met, 0, (count + 1) * sizeof *met);
    if (!walk_controls(graph, met, at, out))
        return;
    hidden->control_first = first;
    hidden->controls = out;
}

const uint32_t *graph_controllers(const struct graph *graph, uint32_t block, uint32_t *count)
{
    struct graph_hidden *hidden = graph->hidden;
    if (!hidden->controls_tried)
        make_controls((struct graph *)graph);
    *count = GRAPH_NONE;
    if (!hidden->controls)
        return NULL;
    *count = hidden->control_first[block + 1] - hidden->control_first[block];
    return hidden->controls + hidden->control_first[block];
}
