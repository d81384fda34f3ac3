/* What stands in the app's graphs, and which variant would suit: reads them, and changes nothing.
 * See graphs.c, which it is part of. */
#include "app/graph_nodes.h"

#include <stdlib.h>
#include <string.h>

#include "app/inside.h"
#include "app/track.h"

enum { MOST_NODES = 1 << 20, DEEPEST = 8, MOST_EDGES = 256 };

_Static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS_v2) == sizeof(CUDA_KERNEL_NODE_PARAMS_v3) &&
                   offsetof(CUDA_KERNEL_NODE_PARAMS_v2, ctx) ==
                       offsetof(CUDA_KERNEL_NODE_PARAMS_v3, ctx) &&
                   offsetof(CUDA_KERNEL_NODE_PARAMS_v2, extra) ==
                       offsetof(CUDA_KERNEL_NODE_PARAMS_v1, extra),
               "the forms of a kernel node's parameters begin alike");

static bool params_of(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2 *out)
{
    CUDA_KERNEL_NODE_PARAMS_v1 old;
    memset(out, 0, sizeof *out);
    if (real.cuGraphKernelNodeGetParams_v2)
        return real.cuGraphKernelNodeGetParams_v2(node, out) == CUDA_SUCCESS;
    memset(&old, 0, sizeof old);
    if (!real.cuGraphKernelNodeGetParams ||
        real.cuGraphKernelNodeGetParams(node, &old) != CUDA_SUCCESS)
        return false;
    memcpy(out, &old, sizeof old);
    return true;
}

struct kernel *node_kernel(const CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    const void *handle = params->func ? (const void *)params->func : (const void *)params->kern;
    struct kernel *kernel = handle ? kernel_find(handle) : NULL;
    return kernel || !params->func ? kernel : function_resolve(params->func);
}

enum { NODE_ATTRIBUTES = 4 };

/* Those of a node that attributes.def may refuse; the others stay with it whatever its function. A
 * node has a value of each, and 0, or a cluster of one block, is none. */
static unsigned attributes_of(CUgraphNode node, CUlaunchAttribute out[static NODE_ATTRIBUTES])
{
    static const int ids[NODE_ATTRIBUTES] = {2, 4, 11, 13}; /* older toolkits lack the last names */
    static const CUkernelNodeAttrValue none, block = {.clusterDim = {1, 1, 1}};
    unsigned count = 0;
    for (int i = 0; i < NODE_ATTRIBUTES && real.cuGraphKernelNodeGetAttribute; i++) {
        CUlaunchAttribute *a = &out[count];
        memset(a, 0, sizeof *a);
        a->id = (CUlaunchAttributeID)ids[i];
        if (real.cuGraphKernelNodeGetAttribute(node, a->id, &a->value) == CUDA_SUCCESS &&
            memcmp(&a->value, &none, sizeof none) && memcmp(&a->value, &block, sizeof block))
            count++;
    }
    return count;
}

/* Whether the node begins when what it depends on has ended, and not earlier: a variant does not
 * wait by itself. */
static bool edges_plain(CUgraphNode node)
{
    CUgraphNode from[MOST_EDGES];
    CUgraphEdgeData edges[MOST_EDGES];
    size_t count = MOST_EDGES;
    if (!real.cuGraphNodeGetDependencies_v2)
        return true; /* a driver from before such edges */
    memset(edges, 0, sizeof edges);
    if (real.cuGraphNodeGetDependencies_v2(node, NULL, NULL, &count) != CUDA_SUCCESS ||
        count > MOST_EDGES)
        return false;
    if (count && real.cuGraphNodeGetDependencies_v2(node, from, edges, &count) != CUDA_SUCCESS)
        return false;
    for (size_t i = 0; i < count && i < MOST_EDGES; i++)
        if (edges[i].type || edges[i].from_port || edges[i].to_port)
            return false;
    return true;
}

/* Whether the node itself, whatever its parameters, keeps variants out; REFUSAL_COUNT: it does not.
 */
static enum refusal node_refused(CUgraphNode node)
{
    CUlaunchAttribute attributes[NODE_ATTRIBUTES];
    const CUlaunchConfig config = {.attrs = attributes};
    const struct launch launch = {.attributes = attributes_of(node, attributes), .config = &config};
    return edges_plain(node) ? attributes_refused(&launch) : REFUSED_PROGRAMMATIC;
}

void node_choose(struct seen *seen, CUgraphNode node)
{
    struct kernel *kernel = seen->kernel;
    const CUDA_KERNEL_NODE_PARAMS_v2 *p = &seen->params;
    const struct swap *swap = atomic_load_explicit(&kernel->swap, memory_order_acquire);
    seen->offered = swap != NULL;
    if (!swap)
        return;
    const struct launch launch = {
        .function = p->func,
        .shape = {{p->gridDimX, p->gridDimY, p->gridDimZ},
                  {p->blockDimX, p->blockDimY, p->blockDimZ},
                  p->sharedMemBytes},
        .params = p->kernelParams,
        .extra = p->kernelParams ? NULL : p->extra,
    };
    enum refusal why = seen->plain ? REFUSAL_COUNT : node_refused(node);
    seen->plain = why == REFUSAL_COUNT;
    if (p->ctx && p->ctx != atomic_load_explicit(&kernel->context, memory_order_relaxed))
        why = REFUSED_CONTEXT;
    if (why == REFUSAL_COUNT)
        seen->entry = swap_match(swap, kernel, &launch, &why);
    if (seen->entry && track_holds(seen->entry)) {
        seen->entry = NULL;
        seen->offered = false; /* later it would be */
        why = REFUSED_GRAPH;
    }
    if (!seen->entry)
        atomic_fetch_add_explicit(&kernel->refused[why], 1, memory_order_relaxed);
}

static void left_alone(const char *what)
{
    if (app_mode() >= KG_MODE_CACHED)
        app_note("%s", what);
}

static void scan_kernel(struct scan *scan, CUgraphNode node, bool outermost)
{
    struct seen seen = {.node = outermost ? node : NULL, .offered = true};
    if (!params_of(node, &seen.params) || !(seen.kernel = node_kernel(&seen.params)))
        return;
    if (scan->count == scan->room) {
        uint32_t room = scan->room ? 2 * scan->room : 64;
        struct seen *grown = realloc(scan->seen, room * sizeof *grown);
        if (!grown)
            return; /* neither swapped nor counted */
        scan->seen = grown;
        scan->room = room;
    }
    if (scan->swaps && outermost)
        node_choose(&seen, node);
    scan->any |= seen.entry != NULL;
    scan->seen[scan->count++] = seen;
}

static void scan_deep(struct scan *scan, CUgraph graph, unsigned depth)
{
    size_t count = 0;
    if (!real.cuGraphGetNodes || !real.cuGraphNodeGetType ||
        real.cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS || !count || count > MOST_NODES)
        return;
    CUgraphNode *nodes = calloc(count, sizeof *nodes);
    if (!nodes || real.cuGraphGetNodes(graph, nodes, &count) != CUDA_SUCCESS)
        count = 0;
    for (size_t i = 0; i < count; i++) {
        CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
        CUgraph child = NULL;
        if (real.cuGraphNodeGetType(nodes[i], &type) != CUDA_SUCCESS)
            continue;
        if (type == CU_GRAPH_NODE_TYPE_KERNEL)
            scan_kernel(scan, nodes[i], depth == 0);
        if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
            left_alone(
                "bodies of conditional nodes of graphs are left alone, and their launches are "
                "not counted");
        if (type != CU_GRAPH_NODE_TYPE_GRAPH)
            continue;
        left_alone("child graphs are left alone: their kernels run as originals");
        if (depth < DEEPEST && real.cuGraphChildGraphNodeGetGraph &&
            real.cuGraphChildGraphNodeGetGraph(nodes[i], &child) == CUDA_SUCCESS && child)
            scan_deep(scan, child, depth + 1);
    }
    free(nodes);
}

void graph_scan(struct scan *scan, CUgraph graph)
{
    scan_deep(scan, graph, 0);
}

bool node_params(const struct seen *seen, struct variant_params *out)
{
    const struct swap_entry *entry = seen->entry;
    const struct kg_launch *shape = &entry->launch;
    const struct launch launch = {.params = seen->params.kernelParams,
                                  .extra = seen->params.kernelParams ? NULL : seen->params.extra};
    void **arguments = variant_arguments(seen->kernel, &launch, entry, out->space);
    if (!arguments)
        return false;
    out->params = (CUDA_KERNEL_NODE_PARAMS_v2){
        .func = entry->function,
        .gridDimX = shape->grid.x,
        .gridDimY = shape->grid.y,
        .gridDimZ = shape->grid.z,
        .blockDimX = shape->block.x,
        .blockDimY = shape->block.y,
        .blockDimZ = shape->block.z,
        .sharedMemBytes = shape->shared,
        .kernelParams = arguments,
    };
    return true;
}
