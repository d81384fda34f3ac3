// A runtime-API program: 60 launches of one kernel, checked.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void add_one(int *values, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        values[i] += 1;
}

int main()
{
    enum { COUNT = 1000, LAUNCHES = 60 };
    int *device, host[COUNT];
    if (cudaMalloc(&device, sizeof host) || cudaMemset(device, 0, sizeof host))
        return 2;
    for (int i = 0; i < LAUNCHES; i++)
        add_one<<<(COUNT + 127) / 128, 128>>>(device, COUNT);
    if (cudaDeviceSynchronize() || cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost))
        return 3;
    for (int i = 0; i < COUNT; i++)
        if (host[i] != LAUNCHES)
            return 4;
    std::puts("right");
    return 0;
}
