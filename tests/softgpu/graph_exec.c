/* Executable graphs: instantiation and launches (changes: graph_update.c). A launch makes the
 * operation of each node, as a stream would get it, and queues one operation that runs them in
 * order. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

CUresult exec_enter(CUgraphExec handle, struct graph_exec **out)
{
    *out = (struct graph_exec *)handle;
    return handle_enter(handle, HANDLE_EXEC, CUDA_ERROR_INVALID_VALUE);
}

/* Takes the lock. */
static void exec_release(struct graph_exec *exec)
{
    soft_lock();
    bool last = --exec->references == 0;
    if (last)
        op_release(exec->last);
    soft_unlock();
    if (!last)
        return;
    graph_destroy(exec->graph);
    free(exec->order);
    free(exec);
}

/* ---- instantiation ---- */

static bool orderable(const struct graph *graph)
{
    bool cycle;
    struct node **order = graph_order(graph, &cycle);
    bool good = order != NULL;
    for (unsigned i = 0; good && i < graph->count; i++)
        if (graph->nodes[i]->type == CU_GRAPH_NODE_TYPE_GRAPH)
            good = orderable(graph->nodes[i]->child);
    free(order);
    return good;
}

static CUresult instantiate(CUgraphExec *out, CUgraph handle, cuuint64_t flags,
                            CUgraphInstantiateResult *why)
{
    const cuuint64_t known =
        CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
        CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    struct graph *graph = graph_of(handle);
    CUresult result = soft_enter();
    *why = CUDA_GRAPH_INSTANTIATE_ERROR;
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || !graph || flags & ~known)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!orderable(graph)) {
        *why = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
        return CUDA_ERROR_INVALID_VALUE;
    }
    bool cycle;
    struct graph_exec *exec = calloc(1, sizeof *exec);
    if (exec)
        exec->graph = graph_clone(graph, true);
    if (exec && exec->graph)
        exec->order = graph_order(exec->graph, &cycle);
    if (!exec || !exec->graph || !exec->order || !handle_add(exec, HANDLE_EXEC)) {
        if (exec)
            graph_destroy(exec->graph);
        free(exec ? exec->order : NULL);
        free(exec);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    exec->flags = flags;
    exec->references = 1;
    *why = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    *out = (CUgraphExec)exec;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
                                     unsigned long long flags)
{
    CUgraphInstantiateResult why;
    return instantiate(phGraphExec, hGraph, flags, &why);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                               char *logBuffer, size_t bufferSize)
{
    CUgraphInstantiateResult why;
    CUresult result = instantiate(phGraphExec, hGraph, 0, &why);
    if (phErrorNode)
        *phErrorNode = NULL;
    if (logBuffer && bufferSize)
        logBuffer[0] = 0;
    return result;
}

CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                            char *logBuffer, size_t bufferSize)
{
    return cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

static CUresult instantiate_with(CUgraphExec *out, CUgraph graph,
                                 CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    params->hErrNode_out = NULL;
    return instantiate(out, graph, params->flags, &params->result_out);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    return instantiate_with(phGraphExec, hGraph, instantiateParams);
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *phGraphExec, CUgraph hGraph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    return instantiate_with(phGraphExec, hGraph, instantiateParams);
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    struct graph_exec *exec;
    CUresult result = exec_enter(hGraphExec, &exec);
    if (result != CUDA_SUCCESS)
        return result;
    handle_remove(exec);
    exec_release(exec);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
    struct graph_exec *exec;
    CUresult result = exec_enter(hGraphExec, &exec);
    if (result == CUDA_SUCCESS && !flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *flags = exec->flags;
    return result;
}

/* ---- a launch ---- */

/* One node to run, or the beginning or end of a child graph, which only orders. */
struct step {
    struct op *op; /* NULL: nothing to do */
    bool event;    /* op is what an event waits for: it is ended, not run */
    unsigned *after, after_count;
    uint64_t end; /* on the model clock, from the beginning of the launch */
};

struct graph_op {
    struct op op;
    struct graph_exec *exec; /* referenced */
    struct step *steps;
    unsigned count;
};

static CUresult graph_run(struct op *op)
{
    struct graph_op *self = (struct graph_op *)op;
    CUresult result = CUDA_SUCCESS;
    op->cost = 0;
    for (unsigned i = 0; i < self->count && result == CUDA_SUCCESS; i++) {
        struct step *step = &self->steps[i];
        for (unsigned j = 0; j < step->after_count; j++)
            if (self->steps[step->after[j]].end > step->end)
                step->end = self->steps[step->after[j]].end;
        if (step->op && step->event)
            op_finish(step->op, op->began + step->end);
        if (step->op && !step->event) {
            step->op->stream = op->stream;
            result = step->op->run(step->op);
            step->end += step->op->cost;
        }
        if (step->end > op->cost)
            op->cost = step->end;
    }
    return result;
}

static void graph_drop(struct op *op)
{
    struct graph_op *self = (struct graph_op *)op;
    for (unsigned i = 0; i < self->count; i++) {
        struct step *step = &self->steps[i];
        free(step->after);
        if (step->op && step->event) {
            op_finish(step->op, op->began); /* if a fault kept it from its turn */
            soft_lock();
            op_release(step->op);
            soft_unlock();
        } else if (step->op) {
            op_discard(step->op);
        }
    }
    free(self->steps);
    if (self->exec)
        exec_release(self->exec);
}

static CUresult kernel_op(const struct kernel_node *kernel, struct op **out)
{
    struct function *function;
    unsigned char *params;
    CUresult result = kernel->context->alive
                          ? function_of(kernel->handle, kernel->context, &function)
                          : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (result == CUDA_SUCCESS)
        result = launch_check(function, &kernel->shape);
    if (result == CUDA_SUCCESS && function->info.param_bytes != kernel->param_bytes)
        result = CUDA_ERROR_INVALID_HANDLE; /* another function has the handle now */
    if (result == CUDA_SUCCESS)
        result = launch_make(function, &kernel->shape, &params, out);
    if (result == CUDA_SUCCESS)
        memcpy(params, kernel->params, kernel->param_bytes);
    return result;
}

static CUresult copy_op(const CUDA_MEMCPY3D *asked, struct op **out)
{
    struct copy copy;
    CUresult result = copy_of(asked, &copy);
    if (result == CUDA_SUCCESS)
        result = copy_check(&copy);
    return result == CUDA_SUCCESS ? copy_make(&copy, out) : result;
}

static CUresult fill_op(const struct fill *fill, struct op **out)
{
    CUresult result = fill_check(fill);
    return result == CUDA_SUCCESS ? fill_make(fill, out) : result;
}

/* What a node does, as an operation; for an event what the event waits for from now on. */
static CUresult step_op(const struct node *node, struct stream *stream, struct step *step)
{
    if (node->disabled)
        return CUDA_SUCCESS;
    switch (node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return kernel_op(&node->kernel, &step->op);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return copy_op(&node->copy.asked, &step->op);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return fill_op(&node->fill.fill, &step->op);
    case CU_GRAPH_NODE_TYPE_HOST:
        return host_make(node->host.function, node->host.data, &step->op);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        step->event = true;
        return event_promise(node->event, stream, &step->op);
    default:
        return CUDA_SUCCESS;
    }
}

static unsigned steps_of(const struct graph *graph)
{
    unsigned total = graph->count;
    for (unsigned i = 0; i < graph->count; i++)
        if (graph->nodes[i]->type == CU_GRAPH_NODE_TYPE_GRAPH)
            total += 1 + steps_of(graph->nodes[i]->child);
    return total;
}

static bool step_after(struct step *step, unsigned earlier)
{
    unsigned *grown = realloc(step->after, (step->after_count + 1) * sizeof *grown);
    if (!grown)
        return false;
    step->after = grown;
    step->after[step->after_count++] = earlier;
    return true;
}

/* Waits of the whole launch for the events that its nodes wait for: earlier than it must be. */
static CUresult waits(struct graph_op *self, const struct graph *graph)
{
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < graph->count && result == CUDA_SUCCESS; i++) {
        const struct node *node = graph->nodes[i];
        if (node->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
            result = event_order(&self->op, node->event);
        if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
            result = waits(self, node->child);
    }
    return result;
}

static CUresult add_steps(struct graph_op *self, const struct graph *graph, struct node **order,
                          struct stream *stream, int begin);

/* A child graph: its beginning, its nodes, its end, which is what later nodes wait for. */
static CUresult add_child(struct graph_op *self, const struct node *node, struct stream *stream)
{
    bool cycle;
    unsigned begin = self->count++;
    struct node **order = graph_order(node->child, &cycle);
    if (!order)
        return CUDA_ERROR_OUT_OF_MEMORY; /* a cycle was refused before */
    CUresult result = add_steps(self, node->child, order, stream, (int)begin);
    free(order);
    struct step *end = &self->steps[self->count++];
    for (unsigned i = begin; i + 1 < self->count && result == CUDA_SUCCESS; i++)
        if (!step_after(end, i))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    return result;
}

/* begin: the step that stands for the beginning of a child graph; -1: none. */
static CUresult add_steps(struct graph_op *self, const struct graph *graph, struct node **order,
                          struct stream *stream, int begin)
{
    CUresult result = CUDA_SUCCESS;
    unsigned *step_at = calloc(graph->count + 1, sizeof *step_at);
    if (!step_at)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < graph->count && result == CUDA_SUCCESS; i++) {
        const struct node *node = order[i];
        struct step *step = &self->steps[self->count];
        bool good = begin < 0 || step_after(step, (unsigned)begin);
        for (unsigned j = 0; j < node->after_count && good; j++)
            good = step_after(step, step_at[node_index(node->after[j])]);
        if (!good)
            result = CUDA_ERROR_OUT_OF_MEMORY;
        else if (node->type == CU_GRAPH_NODE_TYPE_GRAPH && !node->disabled)
            result = add_child(self, node, stream);
        else
            result = step_op(node, stream, &self->steps[self->count++]);
        step_at[node_index(node)] = self->count - 1;
    }
    free(step_at);
    return result;
}

static CUresult enter_stream(CUgraphExec handle, CUstream stream_handle, bool per_thread,
                             struct graph_exec **exec, struct stream **stream)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = exec_enter(handle, exec);
    return result == CUDA_SUCCESS ? stream_of(context, stream_handle, per_thread, stream) : result;
}

static CUresult launch(CUgraphExec handle, CUstream stream_handle, bool per_thread)
{
    struct stream *stream;
    struct graph_exec *exec;
    CUresult result = enter_stream(handle, stream_handle, per_thread, &exec, &stream);
    if (result == CUDA_SUCCESS)
        result = capture_refuses(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (result != CUDA_SUCCESS)
        return result;
    struct graph_op *self = op_create(sizeof *self);
    if (!self)
        return CUDA_ERROR_OUT_OF_MEMORY;
    self->op.run = graph_run;
    self->op.drop = graph_drop;
    self->steps = calloc(steps_of(exec->graph) + 1, sizeof *self->steps);
    soft_lock();
    result = self->steps ? waits(self, exec->graph) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS)
        op_after(&self->op, exec->last);
    soft_unlock();
    if (result == CUDA_SUCCESS)
        result = add_steps(self, exec->graph, exec->order, stream, -1);
    if (result != CUDA_SUCCESS) {
        op_discard(&self->op);
        return result;
    }
    soft_lock();
    self->exec = exec;
    exec->references++;
    op_release(exec->last);
    exec->last = &self->op;
    self->op.references++;
    soft_unlock();
    return op_submit(stream, &self->op, false);
}

CALL(cuGraphLaunch, _ptsz, (CUgraphExec hGraphExec, CUstream hStream),
     launch(hGraphExec, hStream, own))

/* Nothing has to be brought anywhere. */
static CUresult upload(CUgraphExec handle, CUstream stream_handle, bool per_thread)
{
    struct stream *stream;
    struct graph_exec *exec;
    CUresult result = enter_stream(handle, stream_handle, per_thread, &exec, &stream);
    return result == CUDA_SUCCESS ? capture_blocks(stream) : result;
}

CALL(cuGraphUpload, _ptsz, (CUgraphExec hGraphExec, CUstream hStream),
     upload(hGraphExec, hStream, own))
