// A program on the CUDA runtime with graphs, stream capture and two devices (SOFTGPU_DEVICES=2). It checks itself and ends
// with status 0, or prints what was wrong.
#include <cstdio>
#include <vector>

#include <cooperative_groups.h>
#include <cuda_runtime.h>

static int failures, checks;

#define CHECK(expression)                                                                          \
    (checks++, (expression) ? 1 : (failures++, std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #expression), 0))
#define GIVES(error, call)                                                                         \
    do {                                                                                           \
        cudaError_t error_ = (call);                                                               \
        checks++;                                                                                  \
        if (error_ != (error)) {                                                                   \
            failures++;                                                                            \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(error_)); \
        }                                                                                          \
        (void)cudaGetLastError();                                                                  \
    } while (0)
#define OK(call) GIVES(cudaSuccess, call)

enum { N = 1000 };

__device__ int steps;

__global__ void scale(float *x, float factor, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] *= factor;
    if (i == 0)
        atomicAdd(&steps, 1);
}

// Each block adds what its neighbour wrote before the barrier of the whole grid.
__global__ void ring(int *values)
{
    cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    if (threadIdx.x == 0)
        values[blockIdx.x] = blockIdx.x;
    grid.sync();
    if (threadIdx.x == 0)
        values[gridDim.x + blockIdx.x] = values[(blockIdx.x + 1) % gridDim.x];
}

static void captured()
{
    cudaStream_t stream, side;
    cudaEvent_t fork, join;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    float *x, *y, host[N], out[N];
    OK(cudaStreamCreate(&stream));
    OK(cudaStreamCreate(&side));
    OK(cudaEventCreate(&fork));
    OK(cudaEventCreate(&join));
    OK(cudaMalloc(&x, sizeof host));
    OK(cudaMalloc(&y, sizeof host));
    for (int i = 0; i < N; i++)
        host[i] = float(i);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(cudaMemcpyAsync(x, host, sizeof host, cudaMemcpyHostToDevice, stream));
    scale<<<8, 128, 0, stream>>>(x, 2, N); // the first use of its code, which is loaded here
    OK(cudaGetLastError());
    OK(cudaEventRecord(fork, stream));
    OK(cudaStreamWaitEvent(side, fork, 0));
    OK(cudaMemcpyAsync(y, x, sizeof host, cudaMemcpyDeviceToDevice, side));
    scale<<<8, 128, 0, side>>>(y, 10, N);
    scale<<<8, 128, 0, stream>>>(x, 3, N);
    OK(cudaEventRecord(join, side));
    OK(cudaStreamWaitEvent(stream, join, 0));
    OK(cudaMemcpyAsync(out, y, sizeof out, cudaMemcpyDeviceToHost, stream));
    float *none;
    cudaStreamCaptureStatus status;
    OK(cudaStreamIsCapturing(stream, &status));
    CHECK(status == cudaStreamCaptureStatusActive);
    OK(cudaStreamEndCapture(stream, &graph));
    size_t count = 0;
    OK(cudaGraphGetNodes(graph, nullptr, &count));
    CHECK(count == 6);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    int done = -1;
    OK(cudaMemcpyFromSymbol(&done, steps, sizeof done));
    CHECK(done == 0); // nothing ran yet
    for (int i = 0; i < 5; i++)
        OK(cudaGraphLaunch(exec, stream));
    OK(cudaStreamSynchronize(stream));
    CHECK(out[1] == 20 && out[N - 1] == 20.f * (N - 1));
    OK(cudaMemcpy(out, x, sizeof out, cudaMemcpyDeviceToHost));
    CHECK(out[1] == 6);
    OK(cudaMemcpyFromSymbol(&done, steps, sizeof done));
    CHECK(done == 15);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    GIVES(cudaErrorStreamCaptureUnsupported, cudaMalloc(&none, 100));
    GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaFree(x));
    OK(cudaFree(y));
    OK(cudaStreamDestroy(side));
    OK(cudaStreamDestroy(stream));
    OK(cudaEventDestroy(fork));
    OK(cudaEventDestroy(join));
}

static void built()
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t fill, kernel, copy, toSymbol;
    float *x, factor = 4, out[N] = {};
    int n = N, zero = 0;
    OK(cudaMalloc(&x, N * sizeof *x));
    OK(cudaGraphCreate(&graph, 0));
    cudaMemsetParams m = {};
    m.dst = x;
    m.value = 0x3f800000; // 1.0f
    m.elementSize = 4;
    m.width = N;
    m.height = 1;
    OK(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &m));
    void *args[] = {&x, &factor, &n};
    cudaKernelNodeParams k = {};
    k.func = (void *)scale;
    k.gridDim = dim3(8);
    k.blockDim = dim3(128);
    k.kernelParams = args;
    OK(cudaGraphAddMemcpyNodeToSymbol(&toSymbol, graph, nullptr, 0, steps, &zero, sizeof zero, 0, cudaMemcpyHostToDevice));
    cudaGraphNode_t both[] = {fill, toSymbol};
    OK(cudaGraphAddKernelNode(&kernel, graph, both, 2, &k));
    OK(cudaGraphAddMemcpyNode1D(&copy, graph, &kernel, 1, out, x, sizeof out, cudaMemcpyDeviceToHost));
    cudaKernelNodeParams back;
    OK(cudaGraphKernelNodeGetParams(kernel, &back));
    CHECK(back.func == (void *)scale && back.gridDim.x == 8 && *(float *)back.kernelParams[1] == 4);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, 0));
    OK(cudaDeviceSynchronize());
    CHECK(out[0] == 4 && out[N - 1] == 4);
    factor = 5;
    OK(cudaGraphExecKernelNodeSetParams(exec, kernel, &k));
    OK(cudaGraphLaunch(exec, 0));
    OK(cudaDeviceSynchronize());
    CHECK(out[0] == 5);
    factor = 6;
    OK(cudaGraphKernelNodeSetParams(kernel, &k));
    cudaGraphExecUpdateResultInfo info;
    OK(cudaGraphExecUpdate(exec, graph, &info));
    CHECK(info.result == cudaGraphExecUpdateSuccess);
    OK(cudaGraphLaunch(exec, 0));
    OK(cudaDeviceSynchronize());
    CHECK(out[0] == 6);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaFree(x));
}

static void devices()
{
    int count = 0, device = -1, can = 0;
    float *first, *second, out[N] = {};
    std::vector<float> ones(N, 1.f);
    OK(cudaGetDeviceCount(&count));
    if (!CHECK(count == 2))
        return;
    OK(cudaMalloc(&first, sizeof out));
    OK(cudaMemcpy(first, ones.data(), sizeof out, cudaMemcpyHostToDevice));
    OK(cudaSetDevice(1));
    OK(cudaGetDevice(&device));
    CHECK(device == 1);
    OK(cudaDeviceCanAccessPeer(&can, 1, 0));
    CHECK(can == 1);
    OK(cudaDeviceEnablePeerAccess(0, 0));
    GIVES(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(0, 0));
    OK(cudaMalloc(&second, sizeof out));
    cudaPointerAttributes attributes;
    OK(cudaPointerGetAttributes(&attributes, first));
    CHECK(attributes.device == 0);
    OK(cudaPointerGetAttributes(&attributes, second));
    CHECK(attributes.device == 1);
    OK(cudaMemcpyPeer(second, 1, first, 0, sizeof out));
    scale<<<8, 128>>>(second, 9, N);
    OK(cudaMemcpy(out, second, sizeof out, cudaMemcpyDeviceToHost));
    CHECK(out[N - 1] == 9);
    int done = -1;
    OK(cudaMemcpyFromSymbol(&done, steps, sizeof done));
    CHECK(done == 1); // this device has a variable of its own
    OK(cudaDeviceReset());
    OK(cudaSetDevice(0));
    OK(cudaMemcpy(out, first, sizeof out, cudaMemcpyDeviceToHost));
    CHECK(out[0] == 1);
    OK(cudaFree(first));
    GIVES(cudaErrorInvalidDevice, cudaSetDevice(2));
}

static void cooperative()
{
    enum { BLOCKS = 200 }; // more than the machine has processors
    int *values, out[2 * BLOCKS] = {};
    OK(cudaMalloc(&values, sizeof out));
    void *args[] = {&values};
    OK(cudaLaunchCooperativeKernel((void *)ring, dim3(BLOCKS), dim3(64), args, 0, nullptr));
    OK(cudaMemcpy(out, values, sizeof out, cudaMemcpyDeviceToHost));
    int wrong = 0;
    for (int i = 0; i < BLOCKS; i++)
        wrong += out[BLOCKS + i] != (i + 1) % BLOCKS;
    CHECK(wrong == 0);
    OK(cudaFree(values));
}

int main()
{
    captured();
    built();
    devices();
    cooperative();
    std::printf("%d checks, %d failed\n", checks, failures);
    return failures != 0;
}
