// Compiled in two parts that are linked on the device (nvcc -rdc): `sum` needs what the other part defines; each part has a
// helper and a kernel of its own by the same name; `parent` would launch another kernel.
#include <chrono>
#include <cstdio>
#include <thread>

#include <unistd.h>

#include <cuda_runtime.h>

__device__ int twice(int x);
extern __device__ int offset;
void other_part(int *x);

static __device__ __noinline__ int helper(int x)
{
    return x - 1;
}

static __global__ void same_name(int *x)
{
    x[threadIdx.x] += 10;
}

__global__ void sum(int *x)
{
    x[threadIdx.x] += helper(twice(3)) + offset; // 5 + 7
}

__global__ void child(int *x)
{
    x[0] = 0;
}

__global__ void parent(int *x, int n)
{
    if (n < 0)
        child<<<1, 1>>>(x);
    x[threadIdx.x] += 1;
}

int main(int argc, char **argv)
{
    int *x, host[32], turns = 0;
    if (argc != 2 || cudaMalloc(&x, sizeof host) || cudaMemset(x, 0, sizeof host))
        return 2;
    while (turns < 20000 && (turns < 40 || access(argv[1], F_OK))) {
        sum<<<1, 32>>>(x);
        same_name<<<1, 32>>>(x);
        other_part(x);
        parent<<<1, 32>>>(x, 1);
        if (cudaDeviceSynchronize() || cudaGetLastError())
            return 3;
        turns++;
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
    if (cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost))
        return 4;
    for (int i = 0; i < 32; i++)
        if (host[i] != (12 + 10 + 100 + 1) * turns)
            return 5;
    std::puts("right");
    return 0;
}
