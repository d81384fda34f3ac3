/* Graphs by the runtime's names, second part: structure, instantiation, launches, capture. What
 * runtime and driver have in the same form is handed on. */
#include "runtime.h"

#define SAME(name, parameters, call) ONE(name, parameters, runtime_result(driver.call))

SAME(cudaGraphCreate, (cudaGraph_t * pGraph, unsigned int flags), cuGraphCreate(pGraph, flags))
SAME(cudaGraphDestroy, (cudaGraph_t graph), cuGraphDestroy(graph))
SAME(cudaGraphClone, (cudaGraph_t * pGraphClone, cudaGraph_t originalGraph),
     cuGraphClone(pGraphClone, originalGraph))
SAME(cudaGraphNodeFindInClone,
     (cudaGraphNode_t * pNode, cudaGraphNode_t originalNode, cudaGraph_t clonedGraph),
     cuGraphNodeFindInClone(pNode, originalNode, clonedGraph))
SAME(cudaGraphNodeGetType, (cudaGraphNode_t node, enum cudaGraphNodeType *pType),
     cuGraphNodeGetType(node, (CUgraphNodeType *)pType))
SAME(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes),
     cuGraphGetNodes(graph, nodes, numNodes))
SAME(cudaGraphGetRootNodes, (cudaGraph_t graph, cudaGraphNode_t *pRootNodes, size_t *pNumRootNodes),
     cuGraphGetRootNodes(graph, pRootNodes, pNumRootNodes))
SAME(cudaGraphDestroyNode, (cudaGraphNode_t node), cuGraphDestroyNode(node))
SAME(cudaGraphChildGraphNodeGetGraph, (cudaGraphNode_t node, cudaGraph_t *pGraph),
     cuGraphChildGraphNodeGetGraph(node, pGraph))
SAME(cudaGraphEventRecordNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t *event_out),
     cuGraphEventRecordNodeGetEvent(node, (CUevent *)event_out))
SAME(cudaGraphEventRecordNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t event),
     cuGraphEventRecordNodeSetEvent(node, (CUevent)event))
SAME(cudaGraphEventWaitNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t *event_out),
     cuGraphEventWaitNodeGetEvent(node, (CUevent *)event_out))
SAME(cudaGraphEventWaitNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t event),
     cuGraphEventWaitNodeSetEvent(node, (CUevent)event))

SAME(cudaGraphDebugDotPrint, (cudaGraph_t graph, const char *path, unsigned int flags),
     cuGraphDebugDotPrint(graph, path, flags))

/* ---- edges ---- */

#if CUDART_VERSION >= 13000
SAME(cudaGraphGetEdges,
     (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *edgeData,
      size_t *numEdges),
     cuGraphGetEdges_v2(graph, from, to, (CUgraphEdgeData *)edgeData, numEdges))
SAME(cudaGraphNodeGetDependencies,
     (cudaGraphNode_t node, cudaGraphNode_t *pDependencies, cudaGraphEdgeData *edgeData,
      size_t *pNumDependencies),
     cuGraphNodeGetDependencies_v2(node, pDependencies, (CUgraphEdgeData *)edgeData,
                                   pNumDependencies))
SAME(cudaGraphNodeGetDependentNodes,
     (cudaGraphNode_t node, cudaGraphNode_t *pDependentNodes, cudaGraphEdgeData *edgeData,
      size_t *pNumDependentNodes),
     cuGraphNodeGetDependentNodes_v2(node, pDependentNodes, (CUgraphEdgeData *)edgeData,
                                     pNumDependentNodes))
SAME(cudaGraphAddDependencies,
     (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
      const cudaGraphEdgeData *edgeData, size_t numDependencies),
     cuGraphAddDependencies_v2(graph, from, to, (const CUgraphEdgeData *)edgeData, numDependencies))
SAME(cudaGraphRemoveDependencies,
     (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
      const cudaGraphEdgeData *edgeData, size_t numDependencies),
     cuGraphRemoveDependencies_v2(graph, from, to, (const CUgraphEdgeData *)edgeData,
                                  numDependencies))
#else
SAME(cudaGraphGetEdges,
     (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *numEdges),
     cuGraphGetEdges(graph, from, to, numEdges))
SAME(cudaGraphNodeGetDependencies,
     (cudaGraphNode_t node, cudaGraphNode_t *pDependencies, size_t *pNumDependencies),
     cuGraphNodeGetDependencies(node, pDependencies, pNumDependencies))
SAME(cudaGraphNodeGetDependentNodes,
     (cudaGraphNode_t node, cudaGraphNode_t *pDependentNodes, size_t *pNumDependentNodes),
     cuGraphNodeGetDependentNodes(node, pDependentNodes, pNumDependentNodes))
SAME(cudaGraphAddDependencies,
     (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
      size_t numDependencies),
     cuGraphAddDependencies(graph, from, to, numDependencies))
SAME(cudaGraphRemoveDependencies,
     (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
      size_t numDependencies),
     cuGraphRemoveDependencies(graph, from, to, numDependencies))
#endif

/* ---- nodes of any type: kernels have a form of their own ---- */

static cudaError_t params_of(const struct cudaGraphNodeParams *params, CUgraphNodeParams *out)
{
    if (!params)
        return runtime_error(cudaErrorInvalidValue);
    *out = (CUgraphNodeParams){.type = (CUgraphNodeType)params->type};
    switch (params->type) {
    case cudaGraphNodeTypeMemset:
        out->memset = (CUDA_MEMSET_NODE_PARAMS_v2){
            .dst = (uintptr_t)params->memset.dst,
            .pitch = params->memset.pitch,
            .value = params->memset.value,
            .elementSize = params->memset.elementSize,
            .width = params->memset.width,
            .height = params->memset.height,
        };
        return cudaSuccess;
    case cudaGraphNodeTypeMemcpy:
        return runtime_box(&params->memcpy.copyParams, &out->memcpy.copyParams);
    case cudaGraphNodeTypeHost:
        out->host.fn = params->host.fn;
        out->host.userData = params->host.userData;
        return cudaSuccess;
    case cudaGraphNodeTypeGraph:
        out->graph.graph = params->graph.graph;
        return cudaSuccess;
    case cudaGraphNodeTypeWaitEvent:
    case cudaGraphNodeTypeEventRecord:
        out->eventWait.event = (CUevent)params->eventWait.event;
        return cudaSuccess;
    case cudaGraphNodeTypeEmpty:
        return cudaSuccess;
    case cudaGraphNodeTypeKernel: {
        CUkernel kernel;
        const struct cudaKernelNodeParamsV2 *p = &params->kernel;
        cudaError_t error = runtime_kernel(p->func, &kernel);
        if (error != cudaSuccess)
            return error;
        out->kernel.kern = kernel;
        out->kernel.gridDimX = p->gridDim.x;
        out->kernel.gridDimY = p->gridDim.y;
        out->kernel.gridDimZ = p->gridDim.z;
        out->kernel.blockDimX = p->blockDim.x;
        out->kernel.blockDimY = p->blockDim.y;
        out->kernel.blockDimZ = p->blockDim.z;
        out->kernel.sharedMemBytes = p->sharedMemBytes;
        out->kernel.kernelParams = p->kernelParams;
        out->kernel.extra = p->extra;
        return cudaSuccess;
    }
    default:
        return runtime_error(cudaErrorNotSupported);
    }
}

static cudaError_t add(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *after,
                       const CUgraphEdgeData *edges, size_t count,
                       const struct cudaGraphNodeParams *params)
{
    CUgraphNodeParams made;
    cudaError_t error = params_of(params, &made);
    return error == cudaSuccess
               ? runtime_result(driver.cuGraphAddNode_v2(node, graph, after, edges, count, &made))
               : error;
}

/* exec: NULL for the node of a graph. */
static cudaError_t set(cudaGraphExec_t exec, cudaGraphNode_t node,
                       const struct cudaGraphNodeParams *params)
{
    CUgraphNodeParams made;
    cudaError_t error = params_of(params, &made);
    if (error != cudaSuccess)
        return error;
    return runtime_result(exec ? driver.cuGraphExecNodeSetParams(exec, node, &made)
                               : driver.cuGraphNodeSetParams(node, &made));
}

#if CUDART_VERSION >= 13000
ONE(cudaGraphAddNode,
    (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
     const cudaGraphEdgeData *dependencyData, size_t numDependencies,
     struct cudaGraphNodeParams *nodeParams),
    add(pGraphNode, graph, pDependencies, (const CUgraphEdgeData *)dependencyData, numDependencies,
        nodeParams))
#else
ONE(cudaGraphAddNode,
    (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
     size_t numDependencies, struct cudaGraphNodeParams *nodeParams),
    add(pGraphNode, graph, pDependencies, NULL, numDependencies, nodeParams))
#endif
ONE(cudaGraphNodeSetParams, (cudaGraphNode_t node, struct cudaGraphNodeParams *nodeParams),
    set(NULL, node, nodeParams))
ONE(cudaGraphExecNodeSetParams,
    (cudaGraphExec_t graphExec, cudaGraphNode_t node, struct cudaGraphNodeParams *nodeParams),
    set(graphExec, node, nodeParams))

/* ---- executable graphs ---- */

SAME(cudaGraphInstantiate,
     (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags),
     cuGraphInstantiateWithFlags(pGraphExec, graph, flags))
SAME(cudaGraphInstantiateWithFlags,
     (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags),
     cuGraphInstantiateWithFlags(pGraphExec, graph, flags))
BOTH(cudaGraphInstantiateWithParams, _ptsz,
     (cudaGraphExec_t * pGraphExec, cudaGraph_t graph,
      cudaGraphInstantiateParams *instantiateParams),
     runtime_result(DRIVER(own, cuGraphInstantiateWithParams,
                           _ptsz)(pGraphExec, graph,
                                  (CUDA_GRAPH_INSTANTIATE_PARAMS *)instantiateParams)))
SAME(cudaGraphExecGetFlags, (cudaGraphExec_t graphExec, unsigned long long *flags),
     cuGraphExecGetFlags(graphExec, (cuuint64_t *)flags))
SAME(cudaGraphExecDestroy, (cudaGraphExec_t graphExec), cuGraphExecDestroy(graphExec))
SAME(cudaGraphExecUpdate,
     (cudaGraphExec_t hGraphExec, cudaGraph_t hGraph, cudaGraphExecUpdateResultInfo *resultInfo),
     cuGraphExecUpdate_v2(hGraphExec, hGraph, (CUgraphExecUpdateResultInfo *)resultInfo))
SAME(cudaGraphExecChildGraphNodeSetParams,
     (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, cudaGraph_t childGraph),
     cuGraphExecChildGraphNodeSetParams(hGraphExec, node, childGraph))
SAME(cudaGraphExecEventRecordNodeSetEvent,
     (cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, cudaEvent_t event),
     cuGraphExecEventRecordNodeSetEvent(hGraphExec, hNode, (CUevent)event))
SAME(cudaGraphExecEventWaitNodeSetEvent,
     (cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, cudaEvent_t event),
     cuGraphExecEventWaitNodeSetEvent(hGraphExec, hNode, (CUevent)event))
SAME(cudaGraphNodeSetEnabled,
     (cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int isEnabled),
     cuGraphNodeSetEnabled(hGraphExec, hNode, isEnabled))
SAME(cudaGraphNodeGetEnabled,
     (cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int *isEnabled),
     cuGraphNodeGetEnabled(hGraphExec, hNode, isEnabled))
BOTH(cudaGraphUpload, _ptsz, (cudaGraphExec_t graphExec, cudaStream_t stream),
     runtime_result(DRIVER(own, cuGraphUpload, _ptsz)(graphExec, (CUstream)stream)))
BOTH(cudaGraphLaunch, _ptsz, (cudaGraphExec_t graphExec, cudaStream_t stream),
     runtime_result(DRIVER(own, cuGraphLaunch, _ptsz)(graphExec, (CUstream)stream)))

/* ---- user objects ---- */

SAME(cudaUserObjectCreate,
     (cudaUserObject_t * object_out, void *ptr, cudaHostFn_t destroy, unsigned int initialRefcount,
      unsigned int flags),
     cuUserObjectCreate(object_out, ptr, destroy, initialRefcount, flags))
SAME(cudaUserObjectRetain, (cudaUserObject_t object, unsigned int count),
     cuUserObjectRetain(object, count))
SAME(cudaUserObjectRelease, (cudaUserObject_t object, unsigned int count),
     cuUserObjectRelease(object, count))
SAME(cudaGraphRetainUserObject,
     (cudaGraph_t graph, cudaUserObject_t object, unsigned int count, unsigned int flags),
     cuGraphRetainUserObject(graph, object, count, flags))
SAME(cudaGraphReleaseUserObject, (cudaGraph_t graph, cudaUserObject_t object, unsigned int count),
     cuGraphReleaseUserObject(graph, object, count))

/* ---- capture ---- */

BOTH(cudaStreamBeginCaptureToGraph, _ptsz,
     (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
      const cudaGraphEdgeData *dependencyData, size_t numDependencies,
      enum cudaStreamCaptureMode mode),
     runtime_result(DRIVER(own, cuStreamBeginCaptureToGraph,
                           _ptsz)((CUstream)stream, graph, dependencies,
                                  (const CUgraphEdgeData *)dependencyData, numDependencies,
                                  (CUstreamCaptureMode)mode)))
#if CUDART_VERSION >= 13000
BOTH(cudaStreamGetCaptureInfo, _ptsz,
     (cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
      unsigned long long *id_out, cudaGraph_t *graph_out, const cudaGraphNode_t **dependencies_out,
      const cudaGraphEdgeData **edgeData_out, size_t *numDependencies_out),
     runtime_result(DRIVER(own, cuStreamGetCaptureInfo_v3,
                           _ptsz)((CUstream)stream, (CUstreamCaptureStatus *)captureStatus_out,
                                  (cuuint64_t *)id_out, graph_out, dependencies_out,
                                  (const CUgraphEdgeData **)edgeData_out, numDependencies_out)))
BOTH(cudaStreamUpdateCaptureDependencies, _ptsz,
     (cudaStream_t stream, cudaGraphNode_t *dependencies, const cudaGraphEdgeData *dependencyData,
      size_t numDependencies, unsigned int flags),
     runtime_result(DRIVER(own, cuStreamUpdateCaptureDependencies_v2,
                           _ptsz)((CUstream)stream, dependencies,
                                  (const CUgraphEdgeData *)dependencyData, numDependencies, flags)))
#endif
