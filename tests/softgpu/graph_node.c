/* What the nodes of a graph do: their values, checked when they are given, kept as copies of our
 * own, and given back on demand. Nodes for memory allocation, conditions, semaphores and batches of
 * memory operations are not there: CUDA_ERROR_NOT_SUPPORTED. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

/* ---- kernels ---- */

static void kernel_free(struct kernel_node *kernel)
{
    free(kernel->params);
    free(kernel->pointers);
}

static bool pointers_make(struct kernel_node *kernel, const struct exec_info *info)
{
    kernel->pointers = calloc(info->param_count + 1, sizeof(void *));
    for (uint32_t i = 0; kernel->pointers && i < info->param_count; i++)
        kernel->pointers[i] = kernel->params + info->params[i].offset;
    return kernel->pointers != NULL;
}

CUresult kernel_store(struct node *node, void *handle, struct function *function,
                      const struct launch_shape *shape, void **params, void **extra)
{
    struct kernel_node kernel = {
        .handle = handle, .context = function->module->context, .shape = *shape};
    CUresult result = launch_check(function, shape);
    if (result != CUDA_SUCCESS)
        return result;
    kernel.param_bytes = function->info.param_bytes;
    kernel.params = calloc(1, kernel.param_bytes + 1);
    if (!kernel.params || !pointers_make(&kernel, &function->info)) {
        kernel_free(&kernel);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    kernel.param_count = function->info.param_count;
    result = launch_pack(&function->info, params, extra, kernel.params);
    if (result != CUDA_SUCCESS) {
        kernel_free(&kernel);
        return result;
    }
    node->kernel = kernel;
    return CUDA_SUCCESS;
}

static CUresult kernel_fill(struct node *node, const CUDA_KERNEL_NODE_PARAMS_v2 *p)
{
    struct context *context;
    struct function *function;
    void *handle = p->func ? (void *)p->func : (void *)p->kern;
    CUresult result = context_of(p->func ? NULL : p->ctx, &context);
    if (result != CUDA_SUCCESS)
        return result;
    if (handle_kind_of(handle) == HANDLE_FUNCTION)
        context = ((struct function *)handle)->module->context;
    result = function_of(handle, context, &function);
    struct launch_shape shape = {{{p->gridDimX, p->gridDimY, p->gridDimZ},
                                  {p->blockDimX, p->blockDimY, p->blockDimZ},
                                  p->sharedMemBytes},
                                 false};
    return result == CUDA_SUCCESS
               ? kernel_store(node, handle, function, &shape, p->kernelParams, p->extra)
               : result;
}

static bool kernel_clone(struct kernel_node *to, const struct kernel_node *from)
{
    *to = *from;
    to->params = malloc(from->param_bytes + 1);
    to->pointers = calloc(from->param_count + 1, sizeof(void *));
    if (!to->params || !to->pointers) {
        kernel_free(to);
        to->params = NULL;
        to->pointers = NULL;
        return false;
    }
    memcpy(to->params, from->params, from->param_bytes);
    for (unsigned i = 0; i < from->param_count; i++)
        to->pointers[i] = to->params + ((unsigned char *)from->pointers[i] - from->params);
    return true;
}

/* ---- the others ---- */

static CUresult copy_fill(struct node *node, const CUDA_MEMCPY3D *p, CUcontext handle)
{
    struct context *context;
    struct copy copy;
    CUresult result = context_of(handle, &context);
    if (result == CUDA_SUCCESS)
        result = copy_of(p, &copy);
    if (result == CUDA_SUCCESS && (!copy.width || !copy.height || !copy.depth))
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = copy_check(&copy);
    if (result == CUDA_SUCCESS) {
        node->copy.asked = *p;
        node->copy.context = context;
    }
    return result;
}

static CUresult memset_fill(struct node *node, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext handle)
{
    struct context *context;
    CUresult result = context_of(handle, &context);
    if (result != CUDA_SUCCESS)
        return result;
    if ((p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) || !p->width ||
        !p->height)
        return CUDA_ERROR_INVALID_VALUE;
    struct fill fill = {p->dst, p->pitch, p->width, p->height, p->value, p->elementSize};
    result = fill_check(&fill);
    if (result == CUDA_SUCCESS) {
        node->fill.fill = fill;
        node->fill.context = context;
    }
    return result;
}

static CUresult host_fill(struct node *node, const CUDA_HOST_NODE_PARAMS *p)
{
    if (!p->fn)
        return CUDA_ERROR_INVALID_VALUE;
    node->host.function = p->fn;
    node->host.data = p->userData;
    return CUDA_SUCCESS;
}

static CUresult child_fill(struct node *node, const struct graph *graph)
{
    node->child = graph_clone(graph, node->graph && node->graph->executable);
    if (node->child)
        node->child->owner = node;
    return node->child ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult event_fill(struct node *node, CUevent event)
{
    if (handle_kind_of(event) != HANDLE_EVENT)
        return CUDA_ERROR_INVALID_HANDLE;
    node->event = event;
    return CUDA_SUCCESS;
}

bool kernel_widen(const CUDA_KERNEL_NODE_PARAMS_v1 *params, CUDA_KERNEL_NODE_PARAMS_v2 *out)
{
    memset(out, 0, sizeof *out);
    if (params)
        memcpy(out, params, sizeof *params); /* the first form is the beginning of the second */
    return params != NULL;
}

CUresult payload_fill(struct node *node, const struct payload *payload)
{
    if (!payload->params && payload->type != CU_GRAPH_NODE_TYPE_EMPTY)
        return CUDA_ERROR_INVALID_VALUE;
    switch (payload->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return kernel_fill(node, payload->params);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return copy_fill(node, payload->params, payload->context);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return memset_fill(node, payload->params, payload->context);
    case CU_GRAPH_NODE_TYPE_HOST:
        return host_fill(node, payload->params);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return child_fill(node, payload->params);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return event_fill(node, (CUevent)(uintptr_t)payload->params);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult payload_of(const CUgraphNodeParams *params, struct payload *out)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (struct payload){params->type, NULL, NULL};
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: /* the two structures begin alike */
        out->params = &params->kernel;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        out->params = &params->memcpy.copyParams;
        out->context = params->memcpy.copyCtx;
        return params->memcpy.flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        out->params = &params->memset;
        out->context = params->memset.ctx;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_HOST:
        out->params = &params->host;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        out->params = graph_of(params->graph.graph);
        return out->params ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: /* both hold one event at the same place */
        out->params = params->eventWait.event;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

void payload_free(struct node *node)
{
    if (node->type == CU_GRAPH_NODE_TYPE_KERNEL)
        kernel_free(&node->kernel);
    if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
        graph_destroy(node->child);
}

void payload_move(struct node *node, struct node *from)
{
    payload_free(node);
    switch (node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        memcpy(from->kernel.attributes, node->kernel.attributes, sizeof from->kernel.attributes);
        from->kernel.attribute_count = node->kernel.attribute_count;
        from->kernel.shape.cooperative |= node->kernel.shape.cooperative;
        node->kernel = from->kernel;
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        node->copy = from->copy;
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        node->fill = from->fill;
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
        node->host = from->host;
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        node->child = from->child;
        node->child->owner = node;
        break;
    default:
        node->event = from->event;
    }
}

bool payload_clone(struct node *to, const struct node *from)
{
    switch (from->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return kernel_clone(&to->kernel, &from->kernel);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        to->child = graph_clone(from->child, to->graph->executable);
        if (to->child)
            to->child->owner = to;
        return to->child != NULL;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        to->copy = from->copy;
        return true;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        to->fill = from->fill;
        return true;
    case CU_GRAPH_NODE_TYPE_HOST:
        to->host = from->host;
        return true;
    default:
        to->event = from->event;
        return true;
    }
}

static bool same_sides(const CUDA_MEMCPY3D *a, const CUDA_MEMCPY3D *b)
{
    struct copy first, second;
    return copy_of(a, &first) == CUDA_SUCCESS && copy_of(b, &second) == CUDA_SUCCESS &&
           copy_check(&first) == CUDA_SUCCESS && copy_check(&second) == CUDA_SUCCESS &&
           first.to.host == second.to.host && first.from.host == second.from.host &&
           first.height == 1 && first.depth == 1 && second.height == 1 && second.depth == 1;
}

CUresult payload_fits(const struct node *old, const struct node *fresh)
{
    bool fits = true;
    if (old->type == CU_GRAPH_NODE_TYPE_KERNEL)
        fits = old->kernel.context == fresh->kernel.context;
    if (old->type == CU_GRAPH_NODE_TYPE_MEMCPY)
        fits = old->copy.context == fresh->copy.context &&
               same_sides(&old->copy.asked, &fresh->copy.asked);
    if (old->type == CU_GRAPH_NODE_TYPE_MEMSET)
        fits = old->fill.context == fresh->fill.context && old->fill.fill.height == 1 &&
               fresh->fill.fill.height == 1;
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
