// A program that keeps its GPU busy, for beside.sh: one kernel, launch after launch, and how many
// there were a second. The kernel stands between the marks: the script makes replies of it that are
// right and no gain.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include <cuda_runtime.h>

// <<< reply
extern "C" __global__ void smooth(const float *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 1 || i >= n - 1)
        return;
    float v = 0.25f * in[i - 1] + 0.5f * in[i] + 0.25f * in[i + 1];
    for (int k = 0; k < 64; k++)
        v = v * 0.999f + 0.001f;
    out[i] = v;
}
// >>> reply

static double now()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? std::atof(argv[1]) : 20;
    const int n = 1 << 24;
    float *in, *out;
    std::vector<float> values(n);
    for (int i = 0; i < n; i++)
        values[i] = (i * 2654435761u >> 8) / 16777216.0f;
    if (cudaMalloc(&in, n * sizeof *in) || cudaMalloc(&out, n * sizeof *out) ||
        cudaMemcpy(in, values.data(), n * sizeof *in, cudaMemcpyHostToDevice))
        return 1;
    long launches = 0;
    double begin = now(), counted = begin;
    while (now() - begin < seconds + 1) {
        for (int i = 0; i < 50; i++)
            smooth<<<n / 256, 256>>>(in, out, n);
        if (cudaDeviceSynchronize())
            return 1;
        launches += 50;
        if (now() - begin < 1) { // clocks rise
            launches = 0;
            counted = now();
        }
    }
    std::printf("%.1f launches a second\n", launches / (now() - counted));
    return 0;
}
