// An ordinary program on the CUDA runtime, touching what such programs use. It checks itself and ends with status 0, or
// prints what was wrong. Built by nvcc with -cudart shared, with and without a default stream for each thread.
//   runtime            all checks
//   runtime no-image   the image has no PTX: every launch must say so
//   runtime no-driver  there is no driver library
//   runtime hang       ends while a kernel runs that never does (with SOFTGPU_FAULT=hang:1)
#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include <cuda_runtime.h>

static std::atomic<int> failures, checks;

#define CHECK(expression)                                                                          \
    (checks++, (expression) ? 1 : (failures++, std::fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #expression), 0))
#define OK(call)                                                                                   \
    do {                                                                                           \
        cudaError_t error_ = (call);                                                               \
        checks++;                                                                                  \
        if (error_ != cudaSuccess) {                                                               \
            failures++;                                                                            \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorName(error_)); \
        }                                                                                          \
    } while (0)

__constant__ float scale[4];
__device__ int counter = 5;
__managed__ int shared_with_host = 11;

struct Pair {
    float factor;
    int shift;
};

__global__ void add(const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}

__global__ void scaled(float *x, int n, Pair pair)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[(i + pair.shift) % n] = scale[i % 4] * pair.factor;
    if (i == 0)
        counter += shared_with_host;
}

__global__ void reversed(int *data, int n)
{
    extern __shared__ int tile[];
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        tile[i] = data[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        data[i] = tile[n - 1 - i];
}

static void vectors(cudaStream_t stream)
{
    const int n = 10007;
    std::vector<float> a(n), b(n), c(n);
    float *da, *db, *dc;
    for (int i = 0; i < n; i++)
        a[i] = i, b[i] = 0.5f * i;
    OK(cudaMalloc(&da, n * sizeof(float)));
    OK(cudaMalloc(&db, n * sizeof(float)));
    OK(cudaMalloc(&dc, n * sizeof(float)));
    OK(cudaMemcpyAsync(da, a.data(), n * sizeof(float), cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyAsync(db, b.data(), n * sizeof(float), cudaMemcpyHostToDevice, stream));
    add<<<(n + 255) / 256, 256, 0, stream>>>(da, db, dc, n);
    OK(cudaGetLastError());
    OK(cudaMemcpyAsync(c.data(), dc, n * sizeof(float), cudaMemcpyDeviceToHost, stream));
    OK(cudaStreamSynchronize(stream));
    int wrong = 0;
    for (int i = 0; i < n; i++)
        wrong += c[i] != 1.5f * i;
    CHECK(wrong == 0);
    OK(cudaFree(da));
    OK(cudaFree(db));
    OK(cudaFree(dc));
}

static void symbols()
{
    const float values[4] = {1, 2, 3, 4};
    float back[4] = {}, x[8];
    float *dx;
    void *address;
    size_t size;
    int count;
    OK(cudaMemcpyToSymbol(scale, values, sizeof values));
    OK(cudaMemcpyFromSymbol(back, scale, 8, 8));
    CHECK(back[0] == 3 && back[1] == 4);
    OK(cudaGetSymbolSize(&size, scale));
    CHECK(size == sizeof values);
    OK(cudaGetSymbolAddress(&address, counter));
    OK(cudaMalloc(&dx, sizeof x));
    shared_with_host = 20;
    scaled<<<1, 32>>>(dx, 8, Pair{10, 1});
    OK(cudaMemcpy(x, dx, sizeof x, cudaMemcpyDeviceToHost));
    CHECK(x[1] == 10 && x[4] == 40 && x[0] == 40);
    OK(cudaMemcpy(&count, address, sizeof count, cudaMemcpyDefault));
    CHECK(count == 25);
    CHECK(cudaMemcpyToSymbol(scale, values, sizeof values, 4) == cudaErrorInvalidValue);
    CHECK(cudaMemcpyToSymbol(&failures, values, 4) == cudaErrorInvalidSymbol);
    cudaGetLastError();
    OK(cudaFree(dx));
}

static void attributes()
{
    cudaDeviceProp device;
    cudaFuncAttributes function;
    int blocks, value, best, size;
    const int n = 20000;
    OK(cudaGetDeviceProperties(&device, 0));
    CHECK(!std::strncmp(device.name, "softgpu", 7) && device.major == 9 && device.warpSize == 32);
    CHECK(device.multiProcessorCount == 132 && device.maxThreadsDim[2] == 64 && device.totalGlobalMem > 0);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    CHECK(value == 227 * 1024);
    OK(cudaFuncGetAttributes(&function, reversed));
    CHECK(function.maxThreadsPerBlock == 1024 && function.maxDynamicSharedSizeBytes == 48 * 1024);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 256, 0));
    CHECK(blocks >= 1 && blocks <= 8);
    OK(cudaOccupancyMaxPotentialBlockSize(&best, &size, add));
    CHECK(size >= 32 && best >= 132);

    std::vector<int> data(n);
    int *memory;
    for (int i = 0; i < n; i++)
        data[i] = i;
    OK(cudaMalloc(&memory, n * sizeof(int)));
    OK(cudaMemcpy(memory, data.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    reversed<<<1, 128, n * sizeof(int)>>>(memory, n); // more than a block may have without asking
    CHECK(cudaGetLastError() == cudaErrorInvalidValue);
    OK(cudaFuncSetAttribute(reversed, cudaFuncAttributeMaxDynamicSharedMemorySize, n * sizeof(int)));
    reversed<<<1, 128, n * sizeof(int)>>>(memory, n);
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(data.data(), memory, n * sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(data[0] == n - 1 && data[n - 1] == 0 && data[7] == n - 8);
    OK(cudaFree(memory));
}

static void errors()
{
    add<<<0, 32>>>(nullptr, nullptr, nullptr, 0);
    CHECK(cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
    CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
    CHECK(cudaGetLastError() == cudaSuccess);
    add<<<1, 2048>>>(nullptr, nullptr, nullptr, 0);
    CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
    void *memory;
    CHECK(cudaMalloc(&memory, (size_t)1 << 50) == cudaErrorMemoryAllocation);
    CHECK(cudaSetDevice(7) == cudaErrorInvalidDevice);
    CHECK(cudaFree((void *)16) == cudaErrorInvalidValue);
    CHECK(!std::strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue"));
    cudaGetLastError();
    OK(cudaFree(nullptr));
}

static void streams()
{
    cudaStream_t stream;
    cudaEvent_t start, end;
    float ms = -1;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaEventCreate(&start));
    OK(cudaEventCreateWithFlags(&end, cudaEventDefault));
    OK(cudaEventRecord(start, stream));
    vectors(stream);
    OK(cudaEventRecord(end, stream));
    OK(cudaEventSynchronize(end));
    OK(cudaEventElapsedTime(&ms, start, end));
    CHECK(ms > 0);
    int called = 0;
    OK(cudaLaunchHostFunc(stream, [](void *data) { *(int *)data = 1; }, &called));
    OK(cudaStreamSynchronize(stream));
    CHECK(called == 1);
    OK(cudaStreamQuery(stream));
    cudaStreamCaptureStatus capturing;
    OK(cudaStreamIsCapturing(stream, &capturing));
    CHECK(capturing == cudaStreamCaptureStatusNone);
    OK(cudaEventDestroy(start));
    OK(cudaEventDestroy(end));
    OK(cudaStreamDestroy(stream));
    vectors(nullptr);
    vectors(cudaStreamPerThread);
}

static void planes()
{
    size_t pitch;
    float *memory, rows[5][3], back[5][3] = {};
    for (int i = 0; i < 15; i++)
        (&rows[0][0])[i] = i;
    OK(cudaMallocPitch((void **)&memory, &pitch, 3 * sizeof(float), 5));
    CHECK(pitch >= 12 && pitch % 512 == 0);
    OK(cudaMemset2D(memory, pitch, 0, 12, 5));
    OK(cudaMemcpy2D(memory, pitch, rows, 12, 12, 5, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2D(back, 12, memory, pitch, 12, 5, cudaMemcpyDeviceToHost));
    CHECK(!std::memcmp(rows, back, sizeof rows));
    OK(cudaFree(memory));
    int *managed;
    OK(cudaMallocManaged(&managed, 100 * sizeof(int)));
    for (int i = 0; i < 100; i++)
        managed[i] = i;
    reversed<<<1, 32, 400>>>(managed, 100);
    OK(cudaDeviceSynchronize());
    CHECK(managed[0] == 99 && managed[99] == 0);
    cudaPointerAttributes what;
    OK(cudaPointerGetAttributes(&what, managed));
    CHECK(what.type == cudaMemoryTypeManaged);
    OK(cudaPointerGetAttributes(&what, &managed));
    CHECK(what.type == cudaMemoryTypeUnregistered);
    OK(cudaFree(managed));
    void *pooled;
    OK(cudaMallocAsync(&pooled, 1000, nullptr));
    OK(cudaMemsetAsync(pooled, 1, 1000, nullptr));
    OK(cudaFreeAsync(pooled, nullptr));
    OK(cudaDeviceSynchronize());
}

// Hints for managed memory: the whole range, the device, the flags and a capture are looked at.
static void hints()
{
    int *managed, *plain;
    cudaStream_t stream;
    cudaGraph_t graph = nullptr;
    OK(cudaMallocManaged(&managed, 100));
    OK(cudaMalloc(&plain, 100));
    OK(cudaStreamCreate(&stream));
#if CUDART_VERSION >= 13000
    auto prefetch = [&](const void *memory, size_t size, int device) {
        cudaMemLocation there = {device < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice, device};
        return cudaMemPrefetchAsync(memory, size, there, 0, stream);
    };
    auto advise = [&](const void *memory, size_t size, cudaMemoryAdvise advice, int device) {
        return cudaMemAdvise(memory, size, advice, {cudaMemLocationTypeDevice, device});
    };
    CHECK(cudaMemPrefetchAsync(managed, 100, {cudaMemLocationTypeDevice, 0}, 1, stream) == cudaErrorInvalidValue);
#else
    auto prefetch = [&](const void *memory, size_t size, int device) {
        return cudaMemPrefetchAsync(memory, size, device, stream);
    };
    auto advise = cudaMemAdvise;
#endif
    OK(prefetch(managed, 100, 0));
    OK(prefetch(managed + 5, 80, cudaCpuDeviceId));
    CHECK(prefetch(managed, 101, 0) == cudaErrorInvalidValue);
    CHECK(prefetch(plain, 100, 0) == cudaErrorInvalidValue);
    CHECK(prefetch(managed, 100, 99) == cudaErrorInvalidDevice);
    OK(advise(managed, 100, cudaMemAdviseSetReadMostly, 0));
    CHECK(advise(managed, 101, cudaMemAdviseSetReadMostly, 0) == cudaErrorInvalidValue);
    CHECK(advise(managed, 100, (cudaMemoryAdvise)77, 0) == cudaErrorInvalidValue);
    CHECK(advise(managed, 100, cudaMemAdviseSetPreferredLocation, 99) == cudaErrorInvalidDevice);
    OK(cudaStreamAttachMemAsync(stream, managed, 0, cudaMemAttachSingle));
    CHECK(cudaStreamAttachMemAsync(stream, plain, 0, cudaMemAttachSingle) != cudaSuccess);
    CHECK(cudaStreamAttachMemAsync(stream, managed, 0, 64) != cudaSuccess);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(prefetch(managed, 100, 0) != cudaSuccess);
    (void)cudaStreamEndCapture(stream, &graph);
    if (graph)
        OK(cudaGraphDestroy(graph));
    int devices[] = {0, 99};
    OK(cudaSetValidDevices(devices, 1));
    OK(cudaSetValidDevices(nullptr, 0));
    CHECK(cudaSetValidDevices(devices + 1, 1) == cudaErrorInvalidDevice);
    CHECK(cudaSetValidDevices(devices, 1000) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(managed));
    OK(cudaFree(plain));
}

static void extended()
{
    float host[64], *memory;
    int n = 64;
    for (int i = 0; i < 64; i++)
        host[i] = i;
    OK(cudaMalloc(&memory, sizeof host));
    OK(cudaMemcpy(memory, host, sizeof host, cudaMemcpyHostToDevice));
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = 1;
    config.blockDim = 64;
    config.attrs = &attribute;
    config.numAttrs = 1;
    OK(cudaLaunchKernelEx(&config, add, (const float *)memory, (const float *)memory, memory, n));
    void *args[] = {&memory, &memory, &memory, &n};
    OK(cudaLaunchKernel((const void *)add, dim3(1), dim3(64), args, 0, nullptr));
    OK(cudaLaunchCooperativeKernel((const void *)add, dim3(1), dim3(64), args, 0, nullptr));
    OK(cudaMemcpy(host, memory, sizeof host, cudaMemcpyDeviceToHost));
    CHECK(host[63] == 63 * 8);
    OK(cudaFree(memory));
    void *entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    OK(cudaGetDriverEntryPointByVersion("cuCtxGetCurrent", &entry, 12000, cudaEnableDefault, &found));
    CHECK(entry && found == cudaDriverEntryPointSuccess);
    OK(cudaGetDriverEntryPointByVersion("cuNoSuchEntry", &entry, 12000, cudaEnableDefault, &found));
    CHECK(found == cudaDriverEntryPointSymbolNotFound);
}

static int no_image()
{
    add<<<1, 32>>>(nullptr, nullptr, nullptr, 0);
    CHECK(cudaGetLastError() == cudaErrorNoKernelImageForDevice);
    add<<<1, 32>>>(nullptr, nullptr, nullptr, 0);
    CHECK(cudaGetLastError() != cudaSuccess);
    return failures;
}

static int no_driver()
{
    int count, version = -1;
    void *memory;
    CHECK(cudaGetDeviceCount(&count) == cudaErrorInsufficientDriver);
    CHECK(cudaMalloc(&memory, 16) == cudaErrorInsufficientDriver);
    OK(cudaDriverGetVersion(&version));
    CHECK(version == 0);
    return failures;
}

static int hang()
{
    cudaStream_t stream;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    add<<<1, 32, 0, stream>>>(nullptr, nullptr, nullptr, 0);
    OK(cudaGetLastError());
    CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
    return failures;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !std::strcmp(argv[1], "no-image"))
        return no_image();
    if (argc > 1 && !std::strcmp(argv[1], "no-driver"))
        return no_driver();
    if (argc > 1 && !std::strcmp(argv[1], "hang"))
        return hang();
    int runtime = 0, driver = 0, count = 0;
    OK(cudaRuntimeGetVersion(&runtime));
    OK(cudaDriverGetVersion(&driver));
    OK(cudaGetDeviceCount(&count));
    CHECK(runtime == CUDART_VERSION && driver >= runtime / 1000 * 1000 && count == 1);
    vectors(nullptr);
    symbols();
    attributes();
    errors();
    streams();
    planes();
    hints();
    extended();
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([] { vectors(nullptr); });
    for (auto &thread : threads)
        thread.join();
    OK(cudaDeviceReset());
    vectors(nullptr);
    int value = 0;
    OK(cudaMemcpyFromSymbol(&value, counter, sizeof value));
    CHECK(value == 5); // as the program was loaded: the reset forgot 25
    std::printf("%d checks, %d failed\n", checks.load(), failures.load());
    return failures != 0;
}
