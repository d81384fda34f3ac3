/* Changes of what an executable graph does: of single nodes, and as a whole by another graph of the
 * same shape. What runs already keeps the values it was launched with. */
#include "graph.h"

#include <stdlib.h>

static CUresult enter_node(CUgraphExec handle, CUgraphNode node_handle, struct node **out)
{
    struct graph_exec *exec;
    CUresult result = exec_enter(handle, &exec);
    const struct node *original = node_of(node_handle);
    if (result == CUDA_SUCCESS)
        *out = original ? graph_node_from(exec->graph, original) : NULL;
    return result == CUDA_SUCCESS && !*out ? CUDA_ERROR_INVALID_VALUE : result;
}

static bool alike(const struct graph *a, const struct graph *b);

/* How much SOFTGPU_GRAPHS forbids: 1: another function by a whole graph, 2: by a single node too.
 */
static bool function_fits(const struct node *old, const struct node *fresh, uint64_t forbids)
{
    struct function *a = NULL, *b = NULL;
    if (old->type != CU_GRAPH_NODE_TYPE_KERNEL || soft_number("SOFTGPU_GRAPHS", 0) < forbids)
        return true;
    return function_of(old->kernel.handle, old->kernel.context, &a) == CUDA_SUCCESS &&
           function_of(fresh->kernel.handle, fresh->kernel.context, &b) == CUDA_SUCCESS && a == b;
}

static CUresult set(CUgraphExec handle, CUgraphNode node_handle, const struct payload *payload)
{
    struct node *node;
    CUresult result = enter_node(handle, node_handle, &node);
    if (result == CUDA_SUCCESS && node->type != payload->type)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    struct node values = {.type = payload->type};
    result = payload_fill(&values, payload);
    if (result != CUDA_SUCCESS)
        return result;
    result =
        function_fits(node, &values, 2) ? payload_fits(node, &values) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && node->type == CU_GRAPH_NODE_TYPE_GRAPH &&
        !alike(node->child, values.child))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        payload_move(node, &values);
    else
        payload_free(&values);
    return result;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                           const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
    return set(hGraphExec, hNode, PAYLOAD(KERNEL, nodeParams, NULL));
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    CUDA_KERNEL_NODE_PARAMS_v2 wide;
    return kernel_widen(nodeParams, &wide) ? set(hGraphExec, hNode, PAYLOAD(KERNEL, &wide, NULL))
                                           : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    return set(hGraphExec, hNode, PAYLOAD(MEMCPY, copyParams, ctx));
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    return set(hGraphExec, hNode, PAYLOAD(MEMSET, memsetParams, ctx));
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                      const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    return set(hGraphExec, hNode, PAYLOAD(HOST, nodeParams, NULL));
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            CUgraph childGraph)
{
    return set(hGraphExec, hNode, PAYLOAD(GRAPH, graph_of(childGraph), NULL));
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            CUevent event)
{
    return set(hGraphExec, hNode, PAYLOAD(EVENT_RECORD, event, NULL));
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event)
{
    return set(hGraphExec, hNode, PAYLOAD(WAIT_EVENT, event, NULL));
}

CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                  CUgraphNodeParams *nodeParams)
{
    struct payload payload;
    CUresult result = payload_of(nodeParams, &payload);
    return result == CUDA_SUCCESS ? set(hGraphExec, hNode, &payload) : result;
}

static CUresult enter_switch(CUgraphExec exec, CUgraphNode handle, struct node **out)
{
    CUresult result = enter_node(exec, handle, out);
    return result == CUDA_SUCCESS && (*out)->type > CU_GRAPH_NODE_TYPE_MEMSET
               ? CUDA_ERROR_INVALID_VALUE /* kernels, copies and fills alone */
               : result;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)
{
    struct node *node;
    CUresult result = enter_switch(hGraphExec, hNode, &node);
    if (result == CUDA_SUCCESS)
        node->disabled = !isEnabled;
    return result;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled)
{
    struct node *node;
    CUresult result = enter_switch(hGraphExec, hNode, &node);
    if (result == CUDA_SUCCESS && !isEnabled)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *isEnabled = !node->disabled;
    return result;
}

/* ---- update by another graph: nodes pair up in the order in which they were added ---- */

static CUgraphExecUpdateResult compare(const struct graph *ours, const struct graph *theirs,
                                       struct node **at)
{
    *at = NULL;
    if (ours->count != theirs->count)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (unsigned i = 0; i < ours->count; i++) {
        const struct node *a = ours->nodes[i];
        struct node *b = theirs->nodes[i];
        *at = b;
        if (a->type != b->type)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        if (a->after_count != b->after_count)
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        for (unsigned j = 0; j < a->after_count; j++)
            if (node_index(a->after[j]) != node_index(b->after[j]))
                return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        if (a->type == CU_GRAPH_NODE_TYPE_KERNEL &&
            (!function_fits(a, b, 1) || payload_fits(a, b) != CUDA_SUCCESS))
            return CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED;
        if (payload_fits(a, b) != CUDA_SUCCESS)
            return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
        struct node *inner;
        CUgraphExecUpdateResult result = a->type == CU_GRAPH_NODE_TYPE_GRAPH
                                             ? compare(a->child, b->child, &inner)
                                             : CU_GRAPH_EXEC_UPDATE_SUCCESS;
        if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
            return result;
    }
    *at = NULL;
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static bool alike(const struct graph *a, const struct graph *b)
{
    struct node *at;
    return compare(a, b, &at) == CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

/* All of the new graph, or nothing: a clone takes the old one's place. What is disabled stays so.
 */
static CUresult update(CUgraphExec handle, CUgraph graph_handle, CUgraphExecUpdateResult *why,
                       struct node **at)
{
    bool cycle;
    struct graph_exec *exec;
    const struct graph *graph = graph_of(graph_handle);
    CUresult result = exec_enter(handle, &exec);
    *why = CU_GRAPH_EXEC_UPDATE_ERROR;
    *at = NULL;
    if (result == CUDA_SUCCESS && !graph)
        return CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    *why = compare(exec->graph, graph, at);
    if (*why != CU_GRAPH_EXEC_UPDATE_SUCCESS)
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    struct graph *made = graph_clone(graph, true);
    struct node **order = made ? graph_order(made, &cycle) : NULL;
    if (!order) {
        graph_destroy(made);
        *why = CU_GRAPH_EXEC_UPDATE_ERROR;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (unsigned i = 0; i < made->count; i++) {
        made->nodes[i]->disabled = exec->graph->nodes[i]->disabled;
        made->nodes[i]->origin =
            exec->graph->nodes[i]->origin; /* the first graph's nodes name it */
    }
    graph_destroy(exec->graph);
    free(exec->order);
    exec->graph = made;
    exec->order = order;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                              CUgraphExecUpdateResultInfo *resultInfo)
{
    CUgraphExecUpdateResult why;
    struct node *at;
    CUresult result = update(hGraphExec, hGraph, &why, &at);
    if (resultInfo)
        *resultInfo = (CUgraphExecUpdateResultInfo){why, (CUgraphNode)at, NULL};
    return result;
}

CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
                           CUgraphExecUpdateResult *updateResult_out)
{
    CUgraphExecUpdateResult why;
    struct node *at;
    CUresult result = update(hGraphExec, hGraph, &why, &at);
    if (hErrorNode_out)
        *hErrorNode_out = (CUgraphNode)at;
    if (updateResult_out)
        *updateResult_out = why;
    return result;
}
