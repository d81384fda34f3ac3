/* What graphs.c and graph_nodes.c share: the kernel nodes of one graph. All of it in the app's
 * thread, within its own call on the graph or on an executable of it. */
#ifndef KG_APP_GRAPH_NODES_H
#define KG_APP_GRAPH_NODES_H

#include "app/dispatch.h"

/* A kernel node, and what is to be put into the executable instead. */
struct seen {
    CUgraphNode node; /* NULL: not an outermost one, and not to be named */
    struct kernel *kernel;
    const struct swap_entry *entry; /* NULL: the original */
    bool offered;                   /* there were variants, or it is of those that never get one */
    bool plain;                     /* its attributes and edges are known to fit any variant */
    CUDA_KERNEL_NODE_PARAMS_v2 params;
};

struct scan {
    struct seen *seen;
    uint32_t count, room;
    bool swaps; /* entries are looked for */
    bool any;   /* … and found */
};

/* A node's parameters as the variant has them. */
struct variant_params {
    CUDA_KERNEL_NODE_PARAMS_v2 params;
    void *space[LAUNCH_PARAMS + VARIANT_GLOBALS];
};

/* All kernel nodes that are known, those of child graphs too. The caller frees scan->seen. */
void graph_scan(struct scan *scan, CUgraph graph);
/* The record of the kernel that the parameters name; NULL: none. */
struct kernel *node_kernel(const CUDA_KERNEL_NODE_PARAMS_v2 *params);
/* Fills in entry and offered for a node with seen's kernel and parameters. Why there is no variant
 * is counted. */
void node_choose(struct seen *seen, CUgraphNode node);
/* False: they cannot be had. */
bool node_params(const struct seen *seen, struct variant_params *out);

#endif
