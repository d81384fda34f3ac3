// A program in two files that are linked on the device (nvcc -rdc): this one calls a function and counts in a variable that
// the other one defines; each has a helper of the same name.
#include <cstdio>

#include <cuda_runtime.h>

__device__ float twice(float x);
extern __device__ int counter;
int counted();

static __device__ __noinline__ float helper(float x)
{
    return x - 1;
}

__global__ void go(float *x, int n)
{
    int i = threadIdx.x;
    if (i < n)
        x[i] = helper(twice(x[i]));
    if (i == 0)
        counter++;
}

int main()
{
    float host[4] = {1, 2, 3, 4}, *x = nullptr;
    cudaMalloc(&x, sizeof host);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    go<<<1, 32>>>(x, 4);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    int count = counted();
    bool good = host[0] == 1 && host[3] == 7 && count == 42 && cudaGetLastError() == cudaSuccess;
    if (!good)
        std::fprintf(stderr, "separate.cu: %g %g %d\n", host[0], host[3], count);
    return !good;
}
