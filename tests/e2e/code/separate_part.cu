// The other part of separate.cu.
#include <cuda_runtime.h>

__device__ int offset = 7;

static __device__ __noinline__ int helper(int x)
{
    return x + x;
}

__device__ int twice(int x)
{
    return helper(x);
}

static __global__ void same_name(int *x)
{
    x[threadIdx.x] += helper(50);
}

void other_part(int *x)
{
    same_name<<<1, 32>>>(x);
}
