/* CUDA graphs: when captures begin and end, and the app's own calls on executable graphs, which are
 * the only moments at which these may be touched. Graphs themselves, and what the app asks of their
 * nodes, are the driver's alone. */
#include "interpose.h"

#include "app/graphs.h"

#include <string.h>

/* ---- stream capture ----------------------------------------------------------------------------
 */

static CUresult began(CUresult result)
{
    if (result != CUDA_SUCCESS)
        graph_capture_ended();
    return result;
}

#define BEGIN_HOOK(symbol, parameters, arguments)                                                  \
    CUresult symbol parameters                                                                     \
    {                                                                                              \
        NEED(symbol);                                                                              \
        graph_capture_begins();                                                                    \
        return began(real.symbol arguments);                                                       \
    }

BEGIN_HOOK(cuStreamBeginCapture, (CUstream hStream), (hStream))
BEGIN_HOOK(cuStreamBeginCapture_ptsz, (CUstream hStream), (hStream))
BEGIN_HOOK(cuStreamBeginCapture_v2, (CUstream hStream, CUstreamCaptureMode mode), (hStream, mode))
BEGIN_HOOK(cuStreamBeginCapture_v2_ptsz, (CUstream hStream, CUstreamCaptureMode mode),
           (hStream, mode))
BEGIN_HOOK(cuStreamBeginCaptureToGraph,
           (CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
            const CUgraphEdgeData *dependencyData, size_t numDependencies,
            CUstreamCaptureMode mode),
           (hStream, hGraph, dependencies, dependencyData, numDependencies, mode))
BEGIN_HOOK(cuStreamBeginCaptureToGraph_ptsz,
           (CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
            const CUgraphEdgeData *dependencyData, size_t numDependencies,
            CUstreamCaptureMode mode),
           (hStream, hGraph, dependencies, dependencyData, numDependencies, mode))

/* Other failures leave the capture as it is. */
static CUresult ended(CUresult result)
{
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
        result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED)
        graph_capture_ended();
    return result;
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    NEED(cuStreamEndCapture);
    return ended(real.cuStreamEndCapture(hStream, phGraph));
}

CUresult cuStreamEndCapture_ptsz(CUstream hStream, CUgraph *phGraph)
{
    NEED(cuStreamEndCapture_ptsz);
    return ended(real.cuStreamEndCapture_ptsz(hStream, phGraph));
}

/* ---- executables -------------------------------------------------------------------------------
 */

static CUresult instantiated(CUresult result, const CUgraphExec *exec, CUgraph graph,
                             cuuint64_t flags)
{
    if (result == CUDA_SUCCESS && exec && *exec && watching())
        graph_instantiated(graph, *exec, flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH);
    return result;
}

CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                            char *logBuffer, size_t bufferSize)
{
    NEED(cuGraphInstantiate);
    return instantiated(
        real.cuGraphInstantiate(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize),
        phGraphExec, hGraph, 0);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                               char *logBuffer, size_t bufferSize)
{
    NEED(cuGraphInstantiate_v2);
    return instantiated(
        real.cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize),
        phGraphExec, hGraph, 0);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
                                     unsigned long long flags)
{
    NEED(cuGraphInstantiateWithFlags);
    return instantiated(real.cuGraphInstantiateWithFlags(phGraphExec, hGraph, flags), phGraphExec,
                        hGraph, flags);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    NEED(cuGraphInstantiateWithParams);
    return instantiated(real.cuGraphInstantiateWithParams(phGraphExec, hGraph, instantiateParams),
                        phGraphExec, hGraph, instantiateParams ? instantiateParams->flags : 0);
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *phGraphExec, CUgraph hGraph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    NEED(cuGraphInstantiateWithParams_ptsz);
    return instantiated(
        real.cuGraphInstantiateWithParams_ptsz(phGraphExec, hGraph, instantiateParams), phGraphExec,
        hGraph, instantiateParams ? instantiateParams->flags : 0);
}

/* The variant, where its guard holds; else the app's own call, and what it left. params: NULL if it
 * is about no kernel. */
#define SET_HOOK(symbol, params, arguments)                                                        \
    do {                                                                                           \
        const CUDA_KERNEL_NODE_PARAMS_v2 *params_ = (params);                                      \
        bool watched_ = params_ && watching();                                                     \
        if (watched_ && graph_node_put(hGraphExec, hNode, params_))                                \
            return CUDA_SUCCESS;                                                                   \
        CUresult result_ = real.symbol arguments;                                                  \
        if (watched_ && result_ == CUDA_SUCCESS)                                                   \
            graph_node_set(hGraphExec, hNode, params_);                                            \
        return result_;                                                                            \
    } while (0)

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    NEED(cuGraphExecKernelNodeSetParams);
    CUDA_KERNEL_NODE_PARAMS_v2 wide;
    memset(&wide, 0, sizeof wide);
    if (nodeParams)
        memcpy(&wide, nodeParams, sizeof *nodeParams); /* the second form begins like the first */
    SET_HOOK(cuGraphExecKernelNodeSetParams, nodeParams ? &wide : NULL,
             (hGraphExec, hNode, nodeParams));
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                           const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
    NEED(cuGraphExecKernelNodeSetParams_v2);
    SET_HOOK(cuGraphExecKernelNodeSetParams_v2, nodeParams, (hGraphExec, hNode, nodeParams));
}

CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                  CUgraphNodeParams *nodeParams)
{
    NEED(cuGraphExecNodeSetParams);
    CUDA_KERNEL_NODE_PARAMS_v2 kernel;
    bool is_kernel = nodeParams && nodeParams->type == CU_GRAPH_NODE_TYPE_KERNEL;
    if (is_kernel)
        memcpy(&kernel, &nodeParams->kernel, sizeof kernel);
    SET_HOOK(cuGraphExecNodeSetParams, is_kernel ? &kernel : NULL, (hGraphExec, hNode, nodeParams));
}

struct update {
    CUgraphExec exec;
    CUgraph graph;
    CUgraphNode *node; /* the first form's */
    CUgraphExecUpdateResultInfo *info;
};

static CUresult run_update(void *self, CUgraphExecUpdateResult *why)
{
    const struct update *u = self;
    return real.cuGraphExecUpdate(u->exec, u->graph, u->node, why);
}

static CUresult run_update_v2(void *self, CUgraphExecUpdateResult *why)
{
    const struct update *u = self;
    CUresult result = real.cuGraphExecUpdate_v2(u->exec, u->graph, u->info);
    *why = u->info->result;
    return result;
}

CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
                           CUgraphExecUpdateResult *updateResult_out)
{
    NEED(cuGraphExecUpdate);
    bool done = false;
    CUgraphExecUpdateResult why = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    struct update update = {hGraphExec, hGraph, hErrorNode_out, NULL};
    if (!watching())
        return real.cuGraphExecUpdate(hGraphExec, hGraph, hErrorNode_out, updateResult_out);
    CUresult result = graph_update(hGraphExec, hGraph, run_update, &update, &why, &done);
    if (done && hErrorNode_out)
        *hErrorNode_out = NULL;
    if (updateResult_out)
        *updateResult_out = why;
    return result;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                              CUgraphExecUpdateResultInfo *resultInfo)
{
    NEED(cuGraphExecUpdate_v2);
    bool done = false;
    CUgraphExecUpdateResult why = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    CUgraphExecUpdateResultInfo own = {.result = CU_GRAPH_EXEC_UPDATE_SUCCESS};
    struct update update = {hGraphExec, hGraph, NULL, resultInfo ? resultInfo : &own};
    if (!watching())
        return real.cuGraphExecUpdate_v2(hGraphExec, hGraph, resultInfo);
    CUresult result = graph_update(hGraphExec, hGraph, run_update_v2, &update, &why, &done);
    if (done && resultInfo)
        *resultInfo = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_SUCCESS};
    return result;
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    NEED(cuGraphExecDestroy);
    if (watching())
        graph_exec_dying(hGraphExec);
    return real.cuGraphExecDestroy(hGraphExec);
}

#define LAUNCH_HOOK(symbol, standard)                                                              \
    CUresult symbol(CUgraphExec hGraph, CUstream hStream)                                          \
    {                                                                                              \
        NEED(symbol);                                                                              \
        CUresult result = real.symbol(hGraph, hStream);                                            \
        if (result == CUDA_SUCCESS)                                                                \
            graph_launched(hGraph, hStream ? hStream : standard);                                  \
        return result;                                                                             \
    }

LAUNCH_HOOK(cuGraphLaunch, CU_STREAM_LEGACY)
LAUNCH_HOOK(cuGraphLaunch_ptsz, CU_STREAM_PER_THREAD)
