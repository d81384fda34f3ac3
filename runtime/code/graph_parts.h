/* Between the files that make a struct graph, in this order: graph.c (blocks, edges), graph_tree.c
 * (order, dominators), graph_loop.c, graph_value.c, graph_space.c. Nobody else includes it. */
#ifndef KG_GRAPH_PARTS_H
#define KG_GRAPH_PARTS_H

#include "graph.h"

struct graph_hidden {
    /* numbers of the dominator tree: a dominates b if first[a] <= first[b] < end[a]; end 0: not in
     * it */
    uint32_t *span_first, *span_end;
    uint32_t edge_count;
    uint64_t work, limit; /* of what may grow faster than the code */
    /* of the depth-first search from block 0, by block */
    uint32_t *preorder, *last; /* GRAPH_NONE: not reached; last preorder number below it */
    uint32_t *by_preorder;     /* blocks */
    /* graph_controllers, once asked for */
    bool controls_tried;
    uint32_t *control_first, *controls;
    /* graph_defs */
    uint32_t *seen, seen_round, *value_stack;
};

/* Counts work that is not linear; false when it is too much. */
static inline bool graph_works(struct graph *graph, uint64_t work)
{
    graph->hidden->work += work;
    return graph->hidden->work <= graph->hidden->limit;
}

kg_status graph_make_order(struct graph *graph);
kg_status graph_make_trees(struct graph *graph);
kg_status graph_make_loops(struct graph *graph);
kg_status graph_make_values(struct graph *graph);
kg_status graph_make_spaces(struct graph *graph);

#endif
