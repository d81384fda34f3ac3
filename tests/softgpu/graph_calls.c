/* The calls that add nodes to graphs, and ask or change what nodes do: thin covers over
 * graph_node.c. */
#include "graph.h"

#include <stdio.h>
#include <string.h>

#define DEPENDENCIES const CUgraphNode *dependencies, size_t numDependencies

static CUresult add(CUgraphNode *out, CUgraph handle, const CUgraphNode *after, size_t count,
                    const struct payload *payload)
{
    struct graph *graph = graph_of(handle);
    struct node *node;
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    struct node values = {.type = payload->type};
    result = payload_fill(&values, payload);
    if (result != CUDA_SUCCESS)
        return result;
    result = node_add(graph, payload->type, after, count, &node);
    if (result != CUDA_SUCCESS) {
        payload_free(&values);
        return result;
    }
    payload_move(node, &values);
    *out = (CUgraphNode)node;
    return CUDA_SUCCESS;
}

/* The node, if it is of this type. */
static CUresult get(CUgraphNode handle, CUgraphNodeType type, const void *out, struct node **node)
{
    *node = (struct node *)handle;
    CUresult result = handle_enter(handle, HANDLE_NODE, CUDA_ERROR_INVALID_VALUE);
    return result == CUDA_SUCCESS && (!out || (*node)->type != type) ? CUDA_ERROR_INVALID_VALUE
                                                                     : result;
}

static CUresult set(CUgraphNode handle, const struct payload *payload)
{
    struct node *node;
    CUresult result = get(handle, payload->type, handle, &node);
    if (result != CUDA_SUCCESS)
        return result;
    struct node values = {.type = payload->type};
    result = payload_fill(&values, payload);
    if (result == CUDA_SUCCESS)
        payload_move(node, &values);
    return result;
}

/* ---- kernels ---- */

CUresult cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, DEPENDENCIES,
                                 const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
    return add(phGraphNode, hGraph, dependencies, numDependencies,
               PAYLOAD(KERNEL, nodeParams, NULL));
}

CUresult cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph, DEPENDENCIES,
                              const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    CUDA_KERNEL_NODE_PARAMS_v2 wide;
    return kernel_widen(nodeParams, &wide)
               ? cuGraphAddKernelNode_v2(phGraphNode, hGraph, dependencies, numDependencies, &wide)
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
    struct node *node;
    CUresult result = get(hNode, CU_GRAPH_NODE_TYPE_KERNEL, nodeParams, &node);
    if (result != CUDA_SUCCESS)
        return result;
    const struct kernel_node *kernel = &node->kernel;
    const struct kg_launch *shape = &kernel->shape.launch;
    bool function = handle_kind_of(kernel->handle) == HANDLE_FUNCTION;
    *nodeParams = (CUDA_KERNEL_NODE_PARAMS_v2){
        .func = function ? kernel->handle : NULL,
        .gridDimX = shape->grid.x,
        .gridDimY = shape->grid.y,
        .gridDimZ = shape->grid.z,
        .blockDimX = shape->block.x,
        .blockDimY = shape->block.y,
        .blockDimZ = shape->block.z,
        .sharedMemBytes = shape->shared,
        .kernelParams = kernel->param_count ? kernel->pointers : NULL,
        .kern = function ? NULL : kernel->handle,
        .ctx = (CUcontext)kernel->context,
    };
    return CUDA_SUCCESS;
}

/* The first form has no place for a CUkernel: it gets its function. */
CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    CUDA_KERNEL_NODE_PARAMS_v2 wide;
    struct node *node;
    struct function *function;
    CUresult result = get(hNode, CU_GRAPH_NODE_TYPE_KERNEL, nodeParams, &node);
    if (result == CUDA_SUCCESS)
        result = cuGraphKernelNodeGetParams_v2(hNode, &wide);
    if (result == CUDA_SUCCESS)
        result = function_of(node->kernel.handle, node->kernel.context, &function);
    if (result != CUDA_SUCCESS)
        return result;
    wide.func = (CUfunction)function;
    memcpy(nodeParams, &wide, sizeof *nodeParams);
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode,
                                       const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
    return set(hNode, PAYLOAD(KERNEL, nodeParams, NULL));
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    CUDA_KERNEL_NODE_PARAMS_v2 wide;
    return kernel_widen(nodeParams, &wide) ? cuGraphKernelNodeSetParams_v2(hNode, &wide)
                                           : CUDA_ERROR_INVALID_VALUE;
}

static CUresult attribute_set(struct kernel_node *kernel, const CUlaunchAttribute *attribute)
{
    unsigned i = 0;
    struct launch_shape shape = kernel->shape;
    CUresult result = launch_attributes(attribute, 1, &shape);
    while (i < kernel->attribute_count && kernel->attributes[i].id != attribute->id)
        i++;
    if (result == CUDA_SUCCESS && i == sizeof kernel->attributes / sizeof *kernel->attributes)
        return CUDA_ERROR_NOT_SUPPORTED; /* no room for so many */
    if (result != CUDA_SUCCESS)
        return result;
    kernel->attributes[i] = *attribute;
    if (i == kernel->attribute_count)
        kernel->attribute_count++;
    kernel->shape = shape;
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                       const CUkernelNodeAttrValue *value)
{
    struct node *node;
    CUresult result = get(hNode, CU_GRAPH_NODE_TYPE_KERNEL, value, &node);
    if (result != CUDA_SUCCESS)
        return result;
    CUlaunchAttribute attribute = {.id = attr, .value = *value};
    return attribute_set(&node->kernel, &attribute);
}

/* One that was not set has the value 0. */
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                       CUkernelNodeAttrValue *value_out)
{
    struct node *node;
    CUresult result = get(hNode, CU_GRAPH_NODE_TYPE_KERNEL, value_out, &node);
    if (result != CUDA_SUCCESS)
        return result;
    const struct kernel_node *kernel = &node->kernel;
    memset(value_out, 0, sizeof *value_out);
    if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
        value_out->cooperative = kernel->shape.cooperative;
    for (unsigned i = 0; i < kernel->attribute_count; i++)
        if (kernel->attributes[i].id == attr)
            *value_out = kernel->attributes[i].value;
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
    struct node *to, *from;
    CUresult result = get(dst, CU_GRAPH_NODE_TYPE_KERNEL, dst, &to);
    if (result == CUDA_SUCCESS)
        result = get(src, CU_GRAPH_NODE_TYPE_KERNEL, src, &from);
    if (result != CUDA_SUCCESS)
        return result;
    memcpy(to->kernel.attributes, from->kernel.attributes, sizeof to->kernel.attributes);
    to->kernel.attribute_count = from->kernel.attribute_count;
    to->kernel.shape.cooperative = from->kernel.shape.cooperative;
    return CUDA_SUCCESS;
}

/* ---- copies, fills, host functions ---- */

CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph, DEPENDENCIES,
                              const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    return add(phGraphNode, hGraph, dependencies, numDependencies,
               PAYLOAD(MEMCPY, copyParams, ctx));
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
    struct node *node;
    CUresult result = get(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, nodeParams, &node);
    if (result == CUDA_SUCCESS)
        *nodeParams = node->copy.asked;
    return result;
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
    struct node *node;
    CUresult result = get(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, nodeParams, &node);
    return result == CUDA_SUCCESS
               ? set(hNode, PAYLOAD(MEMCPY, nodeParams, (CUcontext)node->copy.context))
               : result;
}

CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph, DEPENDENCIES,
                              const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    return add(phGraphNode, hGraph, dependencies, numDependencies,
               PAYLOAD(MEMSET, memsetParams, ctx));
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
    struct node *node;
    CUresult result = get(hNode, CU_GRAPH_NODE_TYPE_MEMSET, nodeParams, &node);
    if (result != CUDA_SUCCESS)
        return result;
    const struct fill *fill = &node->fill.fill;
    *nodeParams = (CUDA_MEMSET_NODE_PARAMS){.dst = fill->address,
                                            .pitch = fill->pitch,
                                            .value = fill->value,
                                            .elementSize = fill->element,
                                            .width = fill->width,
                                            .height = fill->height};
    return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
    struct node *node;
    CUresult result = get(hNode, CU_GRAPH_NODE_TYPE_MEMSET, nodeParams, &node);
    return result == CUDA_SUCCESS
               ? set(hNode, PAYLOAD(MEMSET, nodeParams, (CUcontext)node->fill.context))
               : result;
}

CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph, DEPENDENCIES,
                            const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    return add(phGraphNode, hGraph, dependencies, numDependencies, PAYLOAD(HOST, nodeParams, NULL));
}

CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)
{
    struct node *node;
    CUresult result = get(hNode, CU_GRAPH_NODE_TYPE_HOST, nodeParams, &node);
    if (result == CUDA_SUCCESS)
        *nodeParams = (CUDA_HOST_NODE_PARAMS){node->host.function, node->host.data};
    return result;
}

CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    return set(hNode, PAYLOAD(HOST, nodeParams, NULL));
}

/* ---- child graphs, nothing, events ---- */

CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph, DEPENDENCIES,
                                  CUgraph childGraph)
{
    return add(phGraphNode, hGraph, dependencies, numDependencies,
               PAYLOAD(GRAPH, graph_of(childGraph), NULL));
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
    struct node *node;
    CUresult result = get(hNode, CU_GRAPH_NODE_TYPE_GRAPH, phGraph, &node);
    if (result == CUDA_SUCCESS)
        *phGraph = (CUgraph)node->child;
    return result;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph, DEPENDENCIES)
{
    return add(phGraphNode, hGraph, dependencies, numDependencies, PAYLOAD(EMPTY, NULL, NULL));
}

static CUresult get_event(CUgraphNode handle, CUgraphNodeType type, CUevent *event)
{
    struct node *node;
    CUresult result = get(handle, type, event, &node);
    if (result == CUDA_SUCCESS)
        *event = node->event;
    return result;
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph, DEPENDENCIES,
                                   CUevent event)
{
    return add(phGraphNode, hGraph, dependencies, numDependencies,
               PAYLOAD(EVENT_RECORD, event, NULL));
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
    return get_event(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event_out);
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event)
{
    return set(hNode, PAYLOAD(EVENT_RECORD, event, NULL));
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph, DEPENDENCIES,
                                 CUevent event)
{
    return add(phGraphNode, hGraph, dependencies, numDependencies,
               PAYLOAD(WAIT_EVENT, event, NULL));
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
    return get_event(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event_out);
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)
{
    return set(hNode, PAYLOAD(WAIT_EVENT, event, NULL));
}

/* ---- any type ---- */

CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, DEPENDENCIES,
                        CUgraphNodeParams *nodeParams)
{
    struct payload payload;
    CUresult result = payload_of(nodeParams, &payload);
    return result == CUDA_SUCCESS
               ? add(phGraphNode, hGraph, dependencies, numDependencies, &payload)
               : result;
}

CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                           const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
                           size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    return edges_plain(dependencyData, numDependencies)
               ? cuGraphAddNode(phGraphNode, hGraph, dependencies, numDependencies, nodeParams)
               : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    struct payload payload;
    CUresult result = payload_of(nodeParams, &payload);
    return result == CUDA_SUCCESS ? set(hNode, &payload) : result;
}

/* ---- a picture ---- */

static const char *type_name(CUgraphNodeType type)
{
    static const char *const names[] = {"KERNEL", "MEMCPY", "MEMSET",     "HOST",
                                        "GRAPH",  "EMPTY",  "EVENT_WAIT", "EVENT_RECORD"};
    return (size_t)type < sizeof names / sizeof *names ? names[type] : "OTHER";
}

/* Nodes by their place in the graph; which details the flags ask for makes no difference. */
CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
    const struct graph *graph = graph_of(hGraph);
    CUresult result = soft_enter();
    if (result != CUDA_SUCCESS)
        return result;
    FILE *file = graph && path ? fopen(path, "w") : NULL;
    if (!file)
        return graph && path ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_ERROR_INVALID_VALUE;
    bool good = fputs("digraph dot {\n", file) >= 0;
    for (unsigned i = 0; i < graph->count; i++) {
        const struct node *node = graph->nodes[i];
        good &= fprintf(file, "\"%u\" [label=\"%u %s\"];\n", i, i, type_name(node->type)) > 0;
        for (unsigned j = 0; j < node->after_count; j++)
            good &= fprintf(file, "\"%u\" -> \"%u\";\n", node_index(node->after[j]), i) > 0;
    }
    good &= fputs("}\n", file) >= 0;
    return fclose(file) == 0 && good ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
