// Ways of CUDA's runtime to a kernel and to the driver. Each launches the same kernel once and prints a word and which code ran: 'o' the
// kernel, 'v' one that adds 100 more.
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <cuda_runtime.h>

extern "C" __global__ void work(const float *in, float *out, float a, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = fmaf(in[i], a, 1.0f);
}

#ifndef KERNEL_ONLY
#define NEED(call)                                                                                                                          \
    do {                                                                                                                                    \
        int result_ = (int)(call);                                                                                                          \
        if (result_) {                                                                                                                      \
            std::fprintf(stderr, "line %d: error %d\n", __LINE__, result_);                                                                 \
            std::exit(2);                                                                                                                   \
        }                                                                                                                                   \
    } while (0)

enum { COUNT = 1024, BYTES = 4 * COUNT };
static float *in, *out, two = 2;
static unsigned count = COUNT;
static void *params[] = {&in, &out, &two, &count};

static void ran(const char *what)
{
    static float host[COUNT];
    NEED(cudaDeviceSynchronize());
    NEED(cudaMemcpy(host, out, BYTES, cudaMemcpyDeviceToHost));
    for (int i = 0; i < COUNT; i++)
        if (host[i] != host[0] + 2 * float(i))
            std::exit(3);
    std::printf("%s %c\n", what, host[0] == 1 ? 'o' : host[0] == 101 ? 'v' : '?');
    NEED(cudaMemset(out, 0, BYTES));
}

static void buffers()
{
    float host[COUNT];
    for (int i = 0; i < COUNT; i++)
        host[i] = float(i);
    NEED(cudaMalloc(&in, BYTES));
    NEED(cudaMalloc(&out, BYTES));
    NEED(cudaMemcpy(in, host, BYTES, cudaMemcpyHostToDevice));
    NEED(cudaMemset(out, 0, BYTES));
}

static void *entry(const char *name, int version)
{
    void *found = nullptr;
    cudaDriverEntryPointQueryResult status;
    if (version)
        NEED(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &status));
#if CUDART_VERSION < 13000
    else
        NEED(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &status));
#else
    else
        NEED(cudaGetDriverEntryPointByVersion(name, &found, CUDART_VERSION, cudaEnablePerThreadDefaultStream, &status));
#endif
    return found;
}

static void by_driver(CUfunction function, int version, const char *what)
{
    auto launch = (decltype(&cuLaunchKernel))entry("cuLaunchKernel", version);
    NEED(launch(function, 4, 1, 1, 256, 1, 1, 0, nullptr, params, nullptr));
    ran(what);
}

static void extended()
{
    cudaLaunchAttribute attribute[1];
    cudaLaunchConfig_t config = {};
    config.gridDim = 4;
    config.blockDim = 256;
    NEED(cudaLaunchKernelExC(&config, (const void *)work, params));
    ran("cudaLaunchKernelExC");
    attribute[0].id = cudaLaunchAttributePriority;
    attribute[0].val.priority = -1;
    config.attrs = attribute;
    config.numAttrs = 1;
    NEED(cudaLaunchKernelExC(&config, (const void *)work, params));
    ran("priority");
    attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute[0].val.programmaticStreamSerializationAllowed = 1;
    NEED(cudaLaunchKernelExC(&config, (const void *)work, params));
    ran("programmatic");
    NEED(cudaLaunchCooperativeKernel((const void *)work, dim3(4), dim3(256), params, 0, nullptr));
    ran("cooperative");
}

static void library(const char *path)
{
    cudaLibrary_t made;
    cudaKernel_t kernel;
    unsigned kernels = 0;
    NEED(cudaLibraryLoadFromFile(&made, path, nullptr, nullptr, 0, nullptr, nullptr, 0));
    NEED(cudaLibraryGetKernel(&kernel, made, "work"));
    NEED(cudaLaunchKernel((const void *)kernel, dim3(4), dim3(256), params, 0, nullptr));
    ran("cudaLibraryGetKernel");
    NEED(cudaLibraryGetKernelCount(&kernels, made));
    NEED(cudaLibraryEnumerateKernels(&kernel, 1, made));
    NEED(cudaLaunchKernel((const void *)kernel, dim3(4), dim3(256), params, 0, nullptr));
    ran("cudaLibraryEnumerateKernels");
    NEED(cudaLibraryUnload(made));
}

int main(int argc, char **argv)
{
    cudaFunction_t function;
    cudaKernel_t kernel;
    cudaStream_t stream;
    int blocks = 0;
    cudaFuncAttributes told;
    if (argc != 2)
        return 5;
    buffers();
    work<<<4, 256>>>(in, out, two, count);
    ran("<<<>>>");
    NEED(cudaLaunchKernel((const void *)work, dim3(4), dim3(256), params, 0, nullptr));
    ran("cudaLaunchKernel");
    NEED(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -1));
    work<<<4, 256, 0, stream>>>(in, out, two, count);
    ran("a stream");
    extended();
    NEED(cudaGetFuncBySymbol(&function, (const void *)work));
    by_driver((CUfunction)function, 12000, "cudaGetFuncBySymbol");
    by_driver((CUfunction)function, 0, "the newest cuLaunchKernel");
    NEED(cudaGetKernel(&kernel, (const void *)work));
    by_driver((CUfunction)kernel, 12000, "cudaGetKernel");
    library(argv[1]);
    NEED(cudaFuncSetAttribute((const void *)work, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
    NEED(cudaFuncSetCacheConfig((const void *)work, cudaFuncCachePreferL1));
    NEED(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)work, 256, 0));
    NEED(cudaFuncGetAttributes(&told, (const void *)work));
    work<<<4, 256>>>(in, out, two, count);
    ran("attributes");
    std::printf("blocks %d registers %d threads %d\n", blocks, told.numRegs, told.maxThreadsPerBlock);
    return 0;
}
#endif
