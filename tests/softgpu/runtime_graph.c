/* Graphs by the runtime's names. Handles are the driver's; kernels are named by their host stubs,
 * copies by the runtime's structures. */
#include "runtime.h"

#include <string.h>

_Static_assert(sizeof(cudaGraphInstantiateParams) == sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS) &&
                   sizeof(struct cudaMemsetParams) <= sizeof(CUDA_MEMSET_NODE_PARAMS_v2) &&
                   sizeof(struct cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS) &&
                   sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo),
               "runtime and driver agree on the parameters of graphs");

static CUcontext here(void)
{
    CUcontext context = NULL;
    (void)driver.cuCtxGetCurrent(&context); /* runtime_enter has made one current */
    return context;
}

/* ---- the driver's form of a node's parameters ---- */

static cudaError_t kernel_of(const struct cudaKernelNodeParams *p, CUDA_KERNEL_NODE_PARAMS_v2 *out)
{
    CUkernel kernel;
    if (!p)
        return runtime_error(cudaErrorInvalidValue);
    cudaError_t error = runtime_kernel(p->func, &kernel);
    if (error == cudaSuccess)
        *out = (CUDA_KERNEL_NODE_PARAMS_v2){.gridDimX = p->gridDim.x,
                                            .gridDimY = p->gridDim.y,
                                            .gridDimZ = p->gridDim.z,
                                            .blockDimX = p->blockDim.x,
                                            .blockDimY = p->blockDim.y,
                                            .blockDimZ = p->blockDim.z,
                                            .sharedMemBytes = p->sharedMemBytes,
                                            .kernelParams = p->kernelParams,
                                            .extra = p->extra,
                                            .kern = kernel,
                                            .ctx = here()};
    return error;
}

static bool memset_of(const struct cudaMemsetParams *p, CUDA_MEMSET_NODE_PARAMS *out)
{
    if (p)
        *out = (CUDA_MEMSET_NODE_PARAMS){.dst = (uintptr_t)p->dst,
                                         .pitch = p->pitch,
                                         .value = p->value,
                                         .elementSize = p->elementSize,
                                         .width = p->width,
                                         .height = p->height};
    return p != NULL;
}

/* A copy in the driver's form, or why there is none. */
struct made_copy {
    CUDA_MEMCPY3D copy;
    cudaError_t error;
};

static struct made_copy box(const struct cudaMemcpy3DParms *params)
{
    struct made_copy made = {0};
    made.error = runtime_box(params, &made.copy);
    return made;
}

static struct made_copy line(uint64_t to, uint64_t from, size_t count)
{
    return (struct made_copy){{.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                               .srcDevice = from,
                               .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                               .dstDevice = to,
                               .WidthInBytes = count,
                               .Height = 1,
                               .Depth = 1},
                              cudaSuccess};
}

/* The same with a variable of the device on one side. */
static struct made_copy line_to(const void *symbol, const void *from, size_t count, size_t offset)
{
    CUdeviceptr to = 0;
    cudaError_t error = runtime_symbol_range(symbol, count, offset, &to);
    struct made_copy made = line(to, (uintptr_t)from, count);
    made.error = error;
    return made;
}

static struct made_copy line_from(void *to, const void *symbol, size_t count, size_t offset)
{
    CUdeviceptr from = 0;
    cudaError_t error = runtime_symbol_range(symbol, count, offset, &from);
    struct made_copy made = line((uintptr_t)to, from, count);
    made.error = error;
    return made;
}

/* ---- adding ---- */

#define AFTER const cudaGraphNode_t *pDependencies, size_t numDependencies

static cudaError_t add_kernel(cudaGraphNode_t *out, cudaGraph_t graph, AFTER,
                              const struct cudaKernelNodeParams *params)
{
    CUDA_KERNEL_NODE_PARAMS_v2 made;
    cudaError_t error = kernel_of(params, &made);
    return error == cudaSuccess ? runtime_result(driver.cuGraphAddKernelNode_v2(
                                      out, graph, pDependencies, numDependencies, &made))
                                : error;
}

static cudaError_t add_copy(cudaGraphNode_t *out, cudaGraph_t graph, AFTER, struct made_copy made)
{
    return made.error == cudaSuccess
               ? runtime_result(driver.cuGraphAddMemcpyNode(out, graph, pDependencies,
                                                            numDependencies, &made.copy, here()))
               : made.error;
}

static cudaError_t add_memset(cudaGraphNode_t *out, cudaGraph_t graph, AFTER,
                              const struct cudaMemsetParams *params)
{
    CUDA_MEMSET_NODE_PARAMS made;
    return memset_of(params, &made)
               ? runtime_result(driver.cuGraphAddMemsetNode(out, graph, pDependencies,
                                                            numDependencies, &made, here()))
               : runtime_error(cudaErrorInvalidValue);
}

ONE(cudaGraphAddKernelNode,
    (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, AFTER,
     const struct cudaKernelNodeParams *pNodeParams),
    add_kernel(pGraphNode, graph, pDependencies, numDependencies, pNodeParams))
ONE(cudaGraphAddMemcpyNode,
    (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, AFTER,
     const struct cudaMemcpy3DParms *pCopyParams),
    add_copy(pGraphNode, graph, pDependencies, numDependencies, box(pCopyParams)))
ONE(cudaGraphAddMemcpyNodeToSymbol,
    (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, AFTER, const void *symbol, const void *src,
     size_t count, size_t offset, enum cudaMemcpyKind kind),
    add_copy(pGraphNode, graph, pDependencies, numDependencies,
             line_to(symbol, src, count, offset)))
ONE(cudaGraphAddMemcpyNodeFromSymbol,
    (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, AFTER, void *dst, const void *symbol,
     size_t count, size_t offset, enum cudaMemcpyKind kind),
    add_copy(pGraphNode, graph, pDependencies, numDependencies,
             line_from(dst, symbol, count, offset)))
ONE(cudaGraphAddMemcpyNode1D,
    (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, AFTER, void *dst, const void *src,
     size_t count, enum cudaMemcpyKind kind),
    add_copy(pGraphNode, graph, pDependencies, numDependencies,
             line((uintptr_t)dst, (uintptr_t)src, count)))
ONE(cudaGraphAddMemsetNode,
    (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, AFTER,
     const struct cudaMemsetParams *pMemsetParams),
    add_memset(pGraphNode, graph, pDependencies, numDependencies, pMemsetParams))
ONE(cudaGraphAddHostNode,
    (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, AFTER,
     const struct cudaHostNodeParams *pNodeParams),
    runtime_result(driver.cuGraphAddHostNode(pGraphNode, graph, pDependencies, numDependencies,
                                             (const CUDA_HOST_NODE_PARAMS *)pNodeParams)))
ONE(cudaGraphAddChildGraphNode,
    (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, AFTER, cudaGraph_t childGraph),
    runtime_result(driver.cuGraphAddChildGraphNode(pGraphNode, graph, pDependencies,
                                                   numDependencies, childGraph)))
ONE(cudaGraphAddEmptyNode, (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, AFTER),
    runtime_result(driver.cuGraphAddEmptyNode(pGraphNode, graph, pDependencies, numDependencies)))
ONE(cudaGraphAddEventRecordNode,
    (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, AFTER, cudaEvent_t event),
    runtime_result(driver.cuGraphAddEventRecordNode(pGraphNode, graph, pDependencies,
                                                    numDependencies, (CUevent)event)))
ONE(cudaGraphAddEventWaitNode,
    (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, AFTER, cudaEvent_t event),
    runtime_result(driver.cuGraphAddEventWaitNode(pGraphNode, graph, pDependencies, numDependencies,
                                                  (CUevent)event)))

/* ---- asking and changing ---- */

static cudaError_t get_kernel(cudaGraphNode_t node, struct cudaKernelNodeParams *out)
{
    CUDA_KERNEL_NODE_PARAMS_v2 p;
    if (!out)
        return runtime_error(cudaErrorInvalidValue);
    CUresult result = driver.cuGraphKernelNodeGetParams_v2(node, &p);
    if (result != CUDA_SUCCESS)
        return runtime_result(result);
    void *kernel = p.func ? (void *)p.func : (void *)p.kern;
    const void *host = runtime_host_of(kernel);
    *out = (struct cudaKernelNodeParams){
        .func = host ? (void *)(uintptr_t)host : kernel,
        .gridDim = {p.gridDimX, p.gridDimY, p.gridDimZ},
        .blockDim = {p.blockDimX, p.blockDimY, p.blockDimZ},
        .sharedMemBytes = p.sharedMemBytes,
        .kernelParams = p.kernelParams,
        .extra = p.extra,
    };
    return cudaSuccess;
}

/* exec: NULL for the node of a graph. */
static cudaError_t set_kernel(cudaGraphExec_t exec, cudaGraphNode_t node,
                              const struct cudaKernelNodeParams *params)
{
    CUDA_KERNEL_NODE_PARAMS_v2 made;
    cudaError_t error = kernel_of(params, &made);
    if (error != cudaSuccess)
        return error;
    return runtime_result(exec ? driver.cuGraphExecKernelNodeSetParams_v2(exec, node, &made)
                               : driver.cuGraphKernelNodeSetParams_v2(node, &made));
}

static cudaError_t get_box(cudaGraphNode_t node, struct cudaMemcpy3DParms *out)
{
    CUDA_MEMCPY3D p;
    if (!out)
        return runtime_error(cudaErrorInvalidValue);
    CUresult result = driver.cuGraphMemcpyNodeGetParams(node, &p);
    if (result == CUDA_SUCCESS)
        *out = (struct cudaMemcpy3DParms){
            .srcPos = {p.srcXInBytes, p.srcY, p.srcZ},
            .srcPtr = {(void *)(uintptr_t)p.srcDevice, p.srcPitch, p.WidthInBytes, p.srcHeight},
            .dstPos = {p.dstXInBytes, p.dstY, p.dstZ},
            .dstPtr = {(void *)(uintptr_t)p.dstDevice, p.dstPitch, p.WidthInBytes, p.dstHeight},
            .extent = {p.WidthInBytes, p.Height, p.Depth},
            .kind = cudaMemcpyDefault,
        };
    return runtime_result(result);
}

static cudaError_t set_copy(cudaGraphExec_t exec, cudaGraphNode_t node, struct made_copy made)
{
    if (made.error != cudaSuccess)
        return made.error;
    return runtime_result(
        exec ? driver.cuGraphExecMemcpyNodeSetParams(exec, node, &made.copy, here())
             : driver.cuGraphMemcpyNodeSetParams(node, &made.copy));
}

static cudaError_t get_memset(cudaGraphNode_t node, struct cudaMemsetParams *out)
{
    CUDA_MEMSET_NODE_PARAMS p;
    if (!out)
        return runtime_error(cudaErrorInvalidValue);
    CUresult result = driver.cuGraphMemsetNodeGetParams(node, &p);
    if (result == CUDA_SUCCESS)
        *out = (struct cudaMemsetParams){
            (void *)(uintptr_t)p.dst, p.pitch, p.value, p.elementSize, p.width, p.height};
    return runtime_result(result);
}

static cudaError_t set_memset(cudaGraphExec_t exec, cudaGraphNode_t node,
                              const struct cudaMemsetParams *params)
{
    CUDA_MEMSET_NODE_PARAMS made;
    if (!memset_of(params, &made))
        return runtime_error(cudaErrorInvalidValue);
    return runtime_result(exec ? driver.cuGraphExecMemsetNodeSetParams(exec, node, &made, here())
                               : driver.cuGraphMemsetNodeSetParams(node, &made));
}

ONE(cudaGraphKernelNodeGetParams, (cudaGraphNode_t node, struct cudaKernelNodeParams *pNodeParams),
    get_kernel(node, pNodeParams))
ONE(cudaGraphKernelNodeSetParams,
    (cudaGraphNode_t node, const struct cudaKernelNodeParams *pNodeParams),
    set_kernel(NULL, node, pNodeParams))
ONE(cudaGraphExecKernelNodeSetParams,
    (cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
     const struct cudaKernelNodeParams *pNodeParams),
    set_kernel(hGraphExec, node, pNodeParams))
ONE(cudaGraphKernelNodeGetAttribute,
    (cudaGraphNode_t hNode, cudaLaunchAttributeID attr, cudaLaunchAttributeValue *value_out),
    runtime_result(driver.cuGraphKernelNodeGetAttribute(hNode, (CUkernelNodeAttrID)attr,
                                                        (CUkernelNodeAttrValue *)value_out)))
ONE(cudaGraphKernelNodeSetAttribute,
    (cudaGraphNode_t hNode, cudaLaunchAttributeID attr, const cudaLaunchAttributeValue *value),
    runtime_result(driver.cuGraphKernelNodeSetAttribute(hNode, (CUkernelNodeAttrID)attr,
                                                        (const CUkernelNodeAttrValue *)value)))
ONE(cudaGraphKernelNodeCopyAttributes, (cudaGraphNode_t hDst, cudaGraphNode_t hSrc),
    runtime_result(driver.cuGraphKernelNodeCopyAttributes(hDst, hSrc)))
ONE(cudaGraphMemcpyNodeGetParams, (cudaGraphNode_t node, struct cudaMemcpy3DParms *pNodeParams),
    get_box(node, pNodeParams))
ONE(cudaGraphMemcpyNodeSetParams,
    (cudaGraphNode_t node, const struct cudaMemcpy3DParms *pNodeParams),
    set_copy(NULL, node, box(pNodeParams)))
ONE(cudaGraphMemcpyNodeSetParams1D,
    (cudaGraphNode_t node, void *dst, const void *src, size_t count, enum cudaMemcpyKind kind),
    set_copy(NULL, node, line((uintptr_t)dst, (uintptr_t)src, count)))
ONE(cudaGraphMemcpyNodeSetParamsToSymbol,
    (cudaGraphNode_t node, const void *symbol, const void *src, size_t count, size_t offset,
     enum cudaMemcpyKind kind),
    set_copy(NULL, node, line_to(symbol, src, count, offset)))
ONE(cudaGraphMemcpyNodeSetParamsFromSymbol,
    (cudaGraphNode_t node, void *dst, const void *symbol, size_t count, size_t offset,
     enum cudaMemcpyKind kind),
    set_copy(NULL, node, line_from(dst, symbol, count, offset)))
ONE(cudaGraphExecMemcpyNodeSetParams,
    (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const struct cudaMemcpy3DParms *pNodeParams),
    set_copy(hGraphExec, node, box(pNodeParams)))
ONE(cudaGraphExecMemcpyNodeSetParams1D,
    (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, void *dst, const void *src, size_t count,
     enum cudaMemcpyKind kind),
    set_copy(hGraphExec, node, line((uintptr_t)dst, (uintptr_t)src, count)))
ONE(cudaGraphExecMemcpyNodeSetParamsToSymbol,
    (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const void *symbol, const void *src,
     size_t count, size_t offset, enum cudaMemcpyKind kind),
    set_copy(hGraphExec, node, line_to(symbol, src, count, offset)))
ONE(cudaGraphExecMemcpyNodeSetParamsFromSymbol,
    (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, void *dst, const void *symbol, size_t count,
     size_t offset, enum cudaMemcpyKind kind),
    set_copy(hGraphExec, node, line_from(dst, symbol, count, offset)))
ONE(cudaGraphMemsetNodeGetParams, (cudaGraphNode_t node, struct cudaMemsetParams *pNodeParams),
    get_memset(node, pNodeParams))
ONE(cudaGraphMemsetNodeSetParams,
    (cudaGraphNode_t node, const struct cudaMemsetParams *pNodeParams),
    set_memset(NULL, node, pNodeParams))
ONE(cudaGraphExecMemsetNodeSetParams,
    (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const struct cudaMemsetParams *pNodeParams),
    set_memset(hGraphExec, node, pNodeParams))
ONE(cudaGraphHostNodeGetParams, (cudaGraphNode_t node, struct cudaHostNodeParams *pNodeParams),
    runtime_result(driver.cuGraphHostNodeGetParams(node, (CUDA_HOST_NODE_PARAMS *)pNodeParams)))
ONE(cudaGraphHostNodeSetParams,
    (cudaGraphNode_t node, const struct cudaHostNodeParams *pNodeParams),
    runtime_result(driver.cuGraphHostNodeSetParams(node,
                                                   (const CUDA_HOST_NODE_PARAMS *)pNodeParams)))
ONE(cudaGraphExecHostNodeSetParams,
    (cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
     const struct cudaHostNodeParams *pNodeParams),
    runtime_result(driver.cuGraphExecHostNodeSetParams(hGraphExec, node,
                                                       (const CUDA_HOST_NODE_PARAMS *)pNodeParams)))
