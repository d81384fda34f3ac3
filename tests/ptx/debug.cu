// Compiled for a debugger: DWARF sections, every variable in local memory, no optimisation.
// flags: -arch=compute_80 -G
extern "C" __global__ void debug_sum(int *out, const int *in, int n)
{
    __shared__ int part[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    for (int k = i; k < n; k += 64)
        sum += in[k];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 32; half; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = part[0];
}
