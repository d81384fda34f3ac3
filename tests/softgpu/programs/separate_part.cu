// The other file of separate.cu.
#include <cuda_runtime.h>

__device__ int counter = 41;

static __device__ __noinline__ float helper(float x)
{
    return x + x;
}

__device__ float twice(float x)
{
    return helper(x);
}

int counted()
{
    int count = -1;
    cudaMemcpyFromSymbol(&count, counter, sizeof count);
    return count;
}
