// The kernel that jit.c loads in every form; add_one(values, count).
extern "C" __global__ void add_one(int *values, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        values[i] += 1;
}
