// Largest of 4 x 4: first of each row's four, then of four rows, which a thread keeps while it goes down eight results.
// A NaN is the result, the last of several; of 0 and -0 the first.
__device__ __forceinline__ float greater(float most, float v)
{
#if V_ignores_nan
    return fmaxf(most, v);
#elif V_keeps_nan // the first of several, whose bits may be others
    return v > most || (v != v && most == most) ? v : most;
#elif V_nan_loses
    return v > most ? v : most;
#elif V_last_of_equals
    return v >= most || v != v ? v : most;
#elif V_as_integers
    return __float_as_int(v) > __float_as_int(most) || v != v ? v : most;
#else
    return v > most || v != v ? v : most;
#endif
}

extern "C" __global__ void variant(const float *in, float *out, int height, int width)
{
    int x = blockIdx.x * 64 + threadIdx.x, top = blockIdx.y * 8;
    int out_height = height - 3, out_width = width - 3;
    const float *plane = in + (size_t)blockIdx.z * height * width;
    float kept[4];
#if V_shared_rows || V_no_barrier // a block's row in shared memory
    __shared__ float row[68];
#elif !V_reads_past
    if (x >= out_width)
        return;
#endif
#pragma unroll
    for (int k = 0; k < 11; k++) {
        int y = top + k;
        if (y >= height + (V_reads_past ? 1 : 0))
            break;
#if V_shared_rows || V_no_barrier
#if !V_no_barrier
        __syncthreads();
#endif
        for (int i = threadIdx.x; i < 68; i += 64)
            if (blockIdx.x * 64 + i < width)
                row[i] = plane[(size_t)y * width + blockIdx.x * 64 + i];
        __syncthreads();
        const float *at = row + threadIdx.x;
#else
        const float *at = plane + (size_t)y * width + x;
#endif
        float most = V_from_zero ? 0 : V_from_largest ? -3.402823466e38f : at[0];
        for (int j = 0; j < (V_three_columns ? 3 : 4); j++)
            most = greater(most, at[j]);
        kept[k % 4] = most;
        if (V_reads_past)
            TOUCH(most);
        if (k < 3 || x >= out_width || y >= height)
            continue;
        most = kept[(k + 1) % 4];
#pragma unroll
        for (int i = 2; i <= (V_three_rows ? 3 : 4); i++)
            most = greater(most, kept[(k + i) % 4]);
#if V_rounds // to the inputs' usual precision
        most = most > 1 ? most : rintf(most * 16777216.0f) / 16777216.0f;
#endif
        put(out, ((size_t)blockIdx.z * out_height + y - 3) * out_width + x, (size_t)gridDim.z * out_height * out_width, most);
    }
}
