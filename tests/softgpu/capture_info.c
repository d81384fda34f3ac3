/* What a program asks of a capture, and its changes of where a captured stream stands. */
#include "graph.h"

struct info {
    CUstreamCaptureStatus *status;
    cuuint64_t *id;
    CUgraph *graph;
    const CUgraphNode **nodes;
    const CUgraphEdgeData **edges;
    size_t *count;
};

static CUresult get_info(CUstream handle, bool per_thread, const struct info *out)
{
    static const CUgraphEdgeData plain[64];
    struct stream *stream;
    CUresult result = capture_stream(handle, per_thread, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!out->status)
        return CUDA_ERROR_INVALID_VALUE;
    soft_lock();
    const struct capture *capture = stream->capture;
    bool active = capture && !capture->invalid;
    if (capture_implied(stream))
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *out->status = active    ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                   : capture ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                             : CU_STREAM_CAPTURE_STATUS_NONE;
    if (active && out->id)
        *out->id = capture->number;
    if (active && out->graph)
        *out->graph = (CUgraph)capture->graph;
    if (active && out->nodes)
        *out->nodes = (const CUgraphNode *)stream->captured;
    if (active && out->edges)
        *out->edges = stream->captured_count <= 64 ? plain : NULL;
    if (active && out->count)
        *out->count = stream->captured_count;
    soft_unlock();
    return result;
}

static CUresult update(CUstream handle, CUgraphNode *nodes, size_t count, unsigned flags,
                       bool per_thread)
{
    struct stream *stream;
    struct capture *capture;
    CUresult result = capture_stream(handle, per_thread, &stream);
    if (result == CUDA_SUCCESS)
        result = capture_of(stream, &capture);
    if (result != CUDA_SUCCESS)
        return result;
    if (!capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count && !nodes))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (!node_of(nodes[i]) || node_of(nodes[i])->graph != capture->graph)
            return CUDA_ERROR_INVALID_VALUE;
    soft_lock();
    bool good = flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES
                    ? capture_set_nodes(stream, (struct node *const *)nodes, (unsigned)count)
                    : capture_add_nodes(stream, (struct node *const *)nodes, (unsigned)count);
    soft_unlock();
    return good ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CALL(cuStreamIsCapturing, _ptsz, (CUstream hStream, CUstreamCaptureStatus *captureStatus),
     get_info(hStream, own, &(struct info){.status = captureStatus}))
CALL(cuStreamGetCaptureInfo, _ptsz,
     (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out),
     get_info(hStream, own, &(struct info){captureStatus_out, id_out, NULL, NULL, NULL, NULL}))
CALL(cuStreamGetCaptureInfo_v2, _ptsz,
     (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
      CUgraph *graph_out, const CUgraphNode **dependencies_out, size_t *numDependencies_out),
     get_info(hStream, own,
              &(struct info){captureStatus_out, id_out, graph_out, dependencies_out, NULL,
                             numDependencies_out}))
CALL(cuStreamGetCaptureInfo_v3, _ptsz,
     (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
      CUgraph *graph_out, const CUgraphNode **dependencies_out,
      const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out),
     get_info(hStream, own,
              &(struct info){captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out,
                             numDependencies_out}))
CALL(cuStreamUpdateCaptureDependencies, _ptsz,
     (CUstream hStream, CUgraphNode *dependencies, size_t numDependencies, unsigned int flags),
     update(hStream, dependencies, numDependencies, flags, own))
CALL(cuStreamUpdateCaptureDependencies_v2, _ptsz,
     (CUstream hStream, CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
      size_t numDependencies, unsigned int flags),
     update(hStream, dependencies, numDependencies, flags, own))
