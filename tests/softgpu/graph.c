/* Graphs as a structure: nodes, edges, clones. What nodes do is in graph_node.c, how a graph runs
 * in graph_exec.c, the objects it keeps alive in graph_objects.c. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

struct graph *graph_of(CUgraph handle)
{
    return handle_kind_of(handle) == HANDLE_GRAPH ? (struct graph *)handle : NULL;
}

struct node *node_of(CUgraphNode handle)
{
    return handle_kind_of(handle) == HANDLE_NODE ? (struct node *)handle : NULL;
}

static uint64_t next_number(void)
{
    static atomic_uint_fast64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}

static struct graph *create(bool executable)
{
    struct graph *graph = calloc(1, sizeof *graph);
    if (!graph || (!executable && !handle_add(graph, HANDLE_GRAPH))) {
        free(graph);
        return NULL;
    }
    graph->executable = executable;
    graph->number = next_number();
    return graph;
}

struct graph *graph_create(void)
{
    return create(false);
}

/* ---- nodes ---- */

unsigned node_index(const struct node *node)
{
    unsigned i = 0;
    while (node->graph->nodes[i] != node)
        i++;
    return i;
}

/* False: memory is out. */
static bool node_after(struct node *node, struct node *earlier)
{
    if (node->after_count == node->after_room) {
        unsigned room = node->after_room ? 2 * node->after_room : 4;
        struct node **grown = realloc(node->after, room * sizeof(struct node *));
        if (!grown)
            return false;
        node->after = grown;
        node->after_room = room;
    }
    node->after[node->after_count++] = earlier;
    return true;
}

static bool depends(const struct node *node, const struct node *earlier)
{
    for (unsigned i = 0; i < node->after_count; i++)
        if (node->after[i] == earlier)
            return true;
    return false;
}

static void forget(struct node *node, const struct node *earlier)
{
    for (unsigned i = 0; i < node->after_count; i++)
        if (node->after[i] == earlier) {
            node->after_count--;
            memmove(&node->after[i], &node->after[i + 1],
                    (node->after_count - i) * sizeof(struct node *));
            return;
        }
}

static bool append(struct graph *graph, struct node *node)
{
    if (graph->count == graph->room) {
        unsigned room = graph->room ? 2 * graph->room : 16;
        struct node **grown = realloc(graph->nodes, room * sizeof(struct node *));
        if (!grown)
            return false;
        graph->nodes = grown;
        graph->room = room;
    }
    if (!graph->executable && !handle_add(node, HANDLE_NODE))
        return false;
    graph->nodes[graph->count++] = node;
    return true;
}

static struct node *node_create(struct graph *graph, CUgraphNodeType type)
{
    struct node *node = calloc(1, sizeof *node);
    if (!node || !append(graph, node)) {
        free(node);
        return NULL;
    }
    node->graph = graph;
    node->type = type;
    node->number = next_number();
    return node;
}

static void release(struct node *node)
{
    payload_free(node);
    if (!node->graph->executable)
        handle_remove(node);
    free(node->after);
    free(node);
}

static void node_destroy(struct node *node)
{
    struct graph *graph = node->graph;
    unsigned index = node_index(node);
    graph->count--;
    memmove(&graph->nodes[index], &graph->nodes[index + 1],
            (graph->count - index) * sizeof(struct node *));
    for (unsigned i = 0; i < graph->count; i++)
        forget(graph->nodes[i], node);
    release(node);
}

CUresult node_add(struct graph *graph, CUgraphNodeType type, const CUgraphNode *after, size_t count,
                  struct node **out)
{
    if (count && !after)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        const struct node *earlier = node_of(after[i]);
        if (!earlier || earlier->graph != graph)
            return CUDA_ERROR_INVALID_VALUE;
        for (size_t j = 0; j < i; j++)
            if (after[j] == after[i])
                return CUDA_ERROR_INVALID_VALUE; /* twice the same */
    }
    struct node *node = node_create(graph, type);
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        if (!node_after(node, (struct node *)after[i])) {
            node_destroy(node);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    *out = node;
    return CUDA_SUCCESS;
}

void graph_destroy(struct graph *graph)
{
    if (!graph)
        return;
    if (!graph->executable)
        handle_remove(graph);
    for (unsigned i = 0; i < graph->count; i++)
        release(graph->nodes[i]);
    user_objects_drop(graph);
    free(graph->nodes);
    free(graph);
}

/* ---- clones ---- */

static bool copy_nodes(struct graph *to, const struct graph *from)
{
    for (unsigned i = 0; i < from->count; i++) {
        const struct node *old = from->nodes[i];
        struct node *made = node_create(to, old->type);
        if (!made)
            return false;
        made->origin = old->number;
        made->disabled = old->disabled;
        if (!payload_clone(made, old)) {
            node_destroy(made);
            return false;
        }
    }
    for (unsigned i = 0; i < from->count; i++)
        for (unsigned j = 0; j < from->nodes[i]->after_count; j++)
            if (!node_after(to->nodes[i], to->nodes[node_index(from->nodes[i]->after[j])]))
                return false;
    for (unsigned i = 0; i < from->object_count; i++)
        if (user_object_keep(to, from->objects[i].object, from->objects[i].count) != CUDA_SUCCESS)
            return false;
    return true;
}

struct graph *graph_clone(const struct graph *graph, bool executable)
{
    struct graph *made = create(executable);
    if (made && !copy_nodes(made, graph)) {
        graph_destroy(made);
        return NULL;
    }
    return made;
}

struct node *graph_node_from(const struct graph *graph, const struct node *original)
{
    for (unsigned i = 0; i < graph->count; i++)
        if (graph->nodes[i]->origin == original->number)
            return graph->nodes[i];
    return NULL;
}

/* ---- order ---- */

/* Whether all that node depends on stands among the first `count` of list. */
static bool ready(const struct node *node, struct node *const *list, unsigned count)
{
    for (unsigned i = 0; i < node->after_count; i++) {
        unsigned j = 0;
        while (j < count && list[j] != node->after[i])
            j++;
        if (j == count)
            return false;
    }
    return true;
}

/* As added, where that order will do; else the first that is ready, again and again. */
struct node **graph_order(const struct graph *graph, bool *cycle)
{
    struct node **list = calloc(graph->count + 1, sizeof(struct node *));
    bool *placed = calloc(graph->count + 1, sizeof *placed);
    unsigned count = 0;
    *cycle = false;
    while (list && placed && count < graph->count && !*cycle) {
        unsigned before = count;
        for (unsigned i = 0; i < graph->count; i++)
            if (!placed[i] && ready(graph->nodes[i], list, count)) {
                list[count++] = graph->nodes[i];
                placed[i] = true;
            }
        *cycle = count == before;
    }
    bool good = list && placed && !*cycle;
    free(placed);
    if (good)
        return list;
    free(list);
    return NULL;
}

/* ---- calls ---- */

static CUresult enter(CUgraph handle, struct graph **out)
{
    *out = (struct graph *)handle;
    return handle_enter(handle, HANDLE_GRAPH, CUDA_ERROR_INVALID_VALUE);
}

static CUresult enter_node(CUgraphNode handle, struct node **out)
{
    *out = (struct node *)handle;
    return handle_enter(handle, HANDLE_NODE, CUDA_ERROR_INVALID_VALUE);
}

CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    if (!phGraph || flags)
        return CUDA_ERROR_INVALID_VALUE;
    struct graph *graph = graph_create();
    *phGraph = (CUgraph)graph;
    return graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphDestroy(CUgraph hGraph)
{
    struct graph *graph;
    CUresult result = enter(hGraph, &graph);
    if (result == CUDA_SUCCESS && graph->owner)
        return CUDA_ERROR_INVALID_VALUE; /* the node's */
    if (result == CUDA_SUCCESS)
        graph_destroy(graph);
    return result;
}

CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
    struct graph *graph;
    CUresult result = enter(originalGraph, &graph);
    if (result == CUDA_SUCCESS && !phGraphClone)
        return CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    struct graph *made = graph_clone(graph, false);
    if (made)
        *phGraphClone = (CUgraph)made;
    return made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode,
                                CUgraph hClonedGraph)
{
    struct graph *graph;
    struct node *original;
    CUresult result = enter(hClonedGraph, &graph);
    if (result == CUDA_SUCCESS)
        result = enter_node(hOriginalNode, &original);
    if (result == CUDA_SUCCESS && !phNode)
        return CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    struct node *found = graph_node_from(graph, original);
    if (found)
        *phNode = (CUgraphNode)found;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphDestroyNode(CUgraphNode hNode)
{
    struct node *node;
    CUresult result = enter_node(hNode, &node);
    if (result == CUDA_SUCCESS)
        node_destroy(node);
    return result;
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
    struct node *node;
    CUresult result = enter_node(hNode, &node);
    if (result == CUDA_SUCCESS && !type)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *type = node->type;
    return result;
}

/* A list handed out as CUDA does: its length alone, or as much of it as there is room for; what
 * room is left is set to NULL. */
struct listing {
    CUgraphNode *nodes;
    size_t room, count;
};

static void list(struct listing *listing, struct node *node)
{
    if (listing->nodes && listing->count < listing->room)
        listing->nodes[listing->count] = (CUgraphNode)node;
    listing->count++;
}

static CUresult list_end(struct listing *listing, size_t *count)
{
    for (size_t i = listing->count; listing->nodes && i < listing->room; i++)
        listing->nodes[i] = NULL;
    bool cut = listing->nodes && listing->count > listing->room;
    *count = cut ? listing->room : listing->count;
    return CUDA_SUCCESS;
}

static CUresult get_nodes(CUgraph handle, CUgraphNode *nodes, size_t *count, bool roots)
{
    struct graph *graph;
    CUresult result = enter(handle, &graph);
    if (result == CUDA_SUCCESS && !count)
        return CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    struct listing listing = {nodes, *count, 0};
    for (unsigned i = 0; i < graph->count; i++)
        if (!roots || !graph->nodes[i]->after_count)
            list(&listing, graph->nodes[i]);
    return list_end(&listing, count);
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
    return get_nodes(hGraph, nodes, numNodes, false);
}

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
    return get_nodes(hGraph, rootNodes, numRootNodes, true);
}

static void plain_edges(CUgraphEdgeData *data, size_t count)
{
    if (data)
        memset(data, 0, count * sizeof *data);
}

CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)
{
    struct graph *graph;
    CUresult result = enter(hGraph, &graph);
    if (result == CUDA_SUCCESS && (!numEdges || !from != !to))
        return CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    struct listing first = {from, *numEdges, 0}, second = {to, *numEdges, 0};
    for (unsigned i = 0; i < graph->count; i++)
        for (unsigned j = 0; j < graph->nodes[i]->after_count; j++) {
            list(&first, graph->nodes[i]->after[j]);
            list(&second, graph->nodes[i]);
        }
    (void)list_end(&first, numEdges); /* both are of one length */
    return list_end(&second, numEdges);
}

CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
                            CUgraphEdgeData *edgeData, size_t *numEdges)
{
    CUresult result = cuGraphGetEdges(hGraph, from, to, numEdges);
    if (result == CUDA_SUCCESS && from)
        plain_edges(edgeData, *numEdges);
    return result;
}

static CUresult neighbours(CUgraphNode handle, CUgraphNode *nodes, CUgraphEdgeData *data,
                           size_t *count, bool later)
{
    struct node *node;
    CUresult result = enter_node(handle, &node);
    if (result == CUDA_SUCCESS && !count)
        return CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    struct listing listing = {nodes, *count, 0};
    for (unsigned i = 0; !later && i < node->after_count; i++)
        list(&listing, node->after[i]);
    for (unsigned i = 0; later && i < node->graph->count; i++)
        if (depends(node->graph->nodes[i], node))
            list(&listing, node->graph->nodes[i]);
    result = list_end(&listing, count);
    if (nodes)
        plain_edges(data, *count);
    return result;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies,
                                    size_t *numDependencies)
{
    return neighbours(hNode, dependencies, NULL, numDependencies, false);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
                                       CUgraphEdgeData *edgeData, size_t *numDependencies)
{
    return neighbours(hNode, dependencies, edgeData, numDependencies, false);
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes,
                                      size_t *numDependentNodes)
{
    return neighbours(hNode, dependentNodes, NULL, numDependentNodes, true);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes,
                                         CUgraphEdgeData *edgeData, size_t *numDependentNodes)
{
    return neighbours(hNode, dependentNodes, edgeData, numDependentNodes, true);
}

/* Checks all edges before the first is changed. */
static CUresult edges_check(const struct graph *graph, const CUgraphNode *from,
                            const CUgraphNode *to, size_t count, bool there)
{
    if (count && (!from || !to))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        const struct node *first = node_of(from[i]), *second = node_of(to[i]);
        if (!first || !second || first == second || first->graph != graph ||
            second->graph != graph || depends(second, first) != there)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                size_t numDependencies)
{
    struct graph *graph;
    CUresult result = enter(hGraph, &graph);
    if (result == CUDA_SUCCESS)
        result = edges_check(graph, from, to, numDependencies, false);
    for (size_t i = 0; result == CUDA_SUCCESS && i < numDependencies; i++)
        if (!node_after((struct node *)to[i], (struct node *)from[i]))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    return result;
}

CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                   size_t numDependencies)
{
    struct graph *graph;
    CUresult result = enter(hGraph, &graph);
    if (result == CUDA_SUCCESS)
        result = edges_check(graph, from, to, numDependencies, true);
    for (size_t i = 0; result == CUDA_SUCCESS && i < numDependencies; i++)
        forget((struct node *)to[i], (struct node *)from[i]);
    return result;
}

bool edges_plain(const CUgraphEdgeData *data, size_t count)
{
    for (size_t i = 0; data && i < count; i++)
        if (data[i].from_port || data[i].to_port || data[i].type)
            return false;
    return true;
}

CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *edgeData, size_t numDependencies)
{
    return edges_plain(edgeData, numDependencies)
               ? cuGraphAddDependencies(hGraph, from, to, numDependencies)
               : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
                                      const CUgraphNode *to, const CUgraphEdgeData *edgeData,
                                      size_t numDependencies)
{
    return edges_plain(edgeData, numDependencies)
               ? cuGraphRemoveDependencies(hGraph, from, to, numDependencies)
               : CUDA_ERROR_INVALID_VALUE; /* no such edge */
}
