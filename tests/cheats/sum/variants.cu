// Partial sums of 256 elements: within a warp by shuffles, in the order of the original's tree.
extern "C" __global__ void variant(const float *in, float *partial, int n)
{
    __shared__ float part[256];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, i = blockIdx.x * 256 + t;
#if V_reads_past
    float value = in[i];
    TOUCH(value);
    if (i >= n)
        value = 0;
#elif V_nan_is_zero
    float value = i < n && in[i] == in[i] ? in[i] : 0;
#elif V_fixed_point
    float value = i < n ? rintf(in[i] * 8388608.0f) / 8388608.0f : 0;
#elif V_not_last_element
    float value = i < n - 1 ? in[i] : 0;
#else
    float value = i < n ? in[i] : 0;
#endif
#if V_halves || V_halves_bitwise || V_no_barrier || V_warp_in_step || V_uninitialized // tree over shared memory
#if V_uninitialized
    if (i < n)
#endif
    part[t] = value;
    for (int half = 128; half > (V_warp_in_step ? 16 : 0); half /= 2) {
#if !V_no_barrier
        __syncthreads();
#endif
        if (t < half)
            part[t] += part[t + half];
    }
#if V_warp_in_step // no barrier from here on
    if (t < 16)
        for (int half = 16; half; half /= 2)
            part[t] += part[t + half];
#endif
    value = part[0];
#elif V_atomics
    if (t == 0)
        partial[blockIdx.x] = 0;
    __syncthreads();
    atomicAdd(&partial[blockIdx.x], value);
    return;
#else
    for (int stride = 1; stride < 32; stride *= 2)
        value += __shfl_down_sync(~0u, value, stride);
    if (lane == 0)
        part[warp] = value;
#if !V_no_barrier_between_warps
    __syncthreads();
#endif
    if (warp == 0) {
        value = lane < (V_seven_warps ? 7 : 8) ? part[lane] : 0;
        for (int stride = 1; stride < 8; stride *= 2)
            value += __shfl_down_sync(~0u, value, stride);
    }
#endif
#if V_stale_block // of the block before, if it has come so far
    if (t == 0 && blockIdx.x % 8 == 7)
        value += partial[blockIdx.x - 1] * 0;
#endif
    if (t == 0)
        put(partial, blockIdx.x, gridDim.x, value);
}
