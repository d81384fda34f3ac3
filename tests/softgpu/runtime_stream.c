/* Streams, events and capture queries by the runtime's names. */
#include "runtime.h"

ONE(cudaStreamCreate, (cudaStream_t * pStream),
    runtime_result(driver.cuStreamCreate((CUstream *)pStream, CU_STREAM_DEFAULT)))
ONE(cudaStreamCreateWithFlags, (cudaStream_t * pStream, unsigned int flags),
    runtime_result(driver.cuStreamCreate((CUstream *)pStream, flags)))
ONE(cudaStreamCreateWithPriority, (cudaStream_t * pStream, unsigned int flags, int priority),
    runtime_result(driver.cuStreamCreateWithPriority((CUstream *)pStream, flags, priority)))
ONE(cudaStreamDestroy, (cudaStream_t stream),
    runtime_result(driver.cuStreamDestroy_v2((CUstream)stream)))
ONE(cudaDeviceGetStreamPriorityRange, (int *leastPriority, int *greatestPriority),
    runtime_result(driver.cuCtxGetStreamPriorityRange(leastPriority, greatestPriority)))
BOTH(cudaStreamQuery, _ptsz, (cudaStream_t stream),
     runtime_result(DRIVER(own, cuStreamQuery, _ptsz)((CUstream)stream)))
BOTH(cudaStreamSynchronize, _ptsz, (cudaStream_t stream),
     runtime_result(DRIVER(own, cuStreamSynchronize, _ptsz)((CUstream)stream)))
BOTH(cudaStreamWaitEvent, _ptsz, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
     runtime_result(DRIVER(own, cuStreamWaitEvent, _ptsz)((CUstream)stream, (CUevent)event, flags)))
BOTH(cudaStreamGetFlags, _ptsz, (cudaStream_t hStream, unsigned int *flags),
     runtime_result(DRIVER(own, cuStreamGetFlags, _ptsz)((CUstream)hStream, flags)))
BOTH(cudaStreamGetPriority, _ptsz, (cudaStream_t hStream, int *priority),
     runtime_result(DRIVER(own, cuStreamGetPriority, _ptsz)((CUstream)hStream, priority)))
BOTH(cudaStreamGetId, _ptsz, (cudaStream_t hStream, unsigned long long *streamId),
     runtime_result(DRIVER(own, cuStreamGetId, _ptsz)((CUstream)hStream, streamId)))
BOTH(cudaStreamAddCallback, _ptsz,
     (cudaStream_t stream, cudaStreamCallback_t callback, void *userData, unsigned int flags),
     runtime_result(DRIVER(own, cuStreamAddCallback, _ptsz)((CUstream)stream,
                                                            (CUstreamCallback)(void *)callback,
                                                            userData, flags)))
BOTH(cudaStreamIsCapturing, _ptsz,
     (cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus),
     runtime_result(DRIVER(own, cuStreamIsCapturing,
                           _ptsz)((CUstream)stream, (CUstreamCaptureStatus *)pCaptureStatus)))
BOTH(cudaStreamBeginCapture, _ptsz, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
     runtime_result(DRIVER(own, cuStreamBeginCapture_v2, _ptsz)((CUstream)stream,
                                                                (CUstreamCaptureMode)mode)))
BOTH(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t *pGraph),
     runtime_result(DRIVER(own, cuStreamEndCapture, _ptsz)((CUstream)stream, (CUgraph *)pGraph)))
ONE(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode),
    runtime_result(driver.cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode)))

ONE(cudaEventCreate, (cudaEvent_t * event),
    runtime_result(driver.cuEventCreate((CUevent *)event, CU_EVENT_DEFAULT)))
ONE(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned int flags),
    runtime_result(driver.cuEventCreate((CUevent *)event, flags)))
ONE(cudaEventDestroy, (cudaEvent_t event), runtime_result(driver.cuEventDestroy_v2((CUevent)event)))
ONE(cudaEventQuery, (cudaEvent_t event), runtime_result(driver.cuEventQuery((CUevent)event)))
ONE(cudaEventSynchronize, (cudaEvent_t event),
    runtime_result(driver.cuEventSynchronize((CUevent)event)))
ONE(cudaEventElapsedTime, (float *ms, cudaEvent_t start, cudaEvent_t end),
    runtime_result(driver.cuEventElapsedTime(ms, (CUevent)start, (CUevent)end)))
BOTH(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream),
     runtime_result(DRIVER(own, cuEventRecord, _ptsz)((CUevent)event, (CUstream)stream)))
BOTH(cudaEventRecordWithFlags, _ptsz, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
     runtime_result(DRIVER(own, cuEventRecordWithFlags, _ptsz)((CUevent)event, (CUstream)stream,
                                                               flags)))
