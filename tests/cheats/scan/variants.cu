// Running sums. In order: 32 rows a block, tiles of 32 x 32 through shared memory, one lane a row. Else: a warp a row, 32
// elements at once.
#if V_warp_scan || V_warp_scan_bitwise || V_no_guard || V_carry_of_last || V_carry_lost || V_no_carry || V_four_steps
extern "C" __global__ void variant(const float *in, float *out, int rows, int columns)
{
    int lane = threadIdx.x % 32, r = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (r >= rows)
        return;
    float carry = 0;
    for (int c = lane; c - lane < columns; c += 32) {
        float value = c < columns ? in[(size_t)r * columns + c] : 0;
        for (int d = 1; d < (V_four_steps ? 16 : 32); d *= 2) {
            float left = __shfl_up_sync(~0u, value, d);
            if (lane >= d || V_no_guard)
                value += left;
        }
        value += carry;
        if (c < columns)
            put(out, (size_t)r * columns + c, (size_t)rows * columns, value);
#if V_carry_lost // in one row of a thousand, between the third and the fourth tile
        if (r % 1000 == 77 && c / 32 == 2)
            value = carry;
#endif
#if V_carry_of_last
        carry = __shfl_sync(~0u, value, 30);
#elif !V_no_carry
        carry = __shfl_sync(~0u, value, 31);
#endif
    }
}

#else
extern "C" __global__ void variant(const float *in, float *out, int rows, int columns)
{
    __shared__ float tile[32][33];
    int lane = threadIdx.x, warp = threadIdx.y, first = blockIdx.x * 32;
    float sum = 0;
    int end = V_whole_tiles ? columns / 32 * 32 : columns;
    for (int c = 0; c < end; c += 32) {
        int at = c + lane;
        for (int i = warp; i < 32; i += 8)
            if ((first + i < rows || V_reads_past) && (at < columns || V_reads_past))
                tile[i][lane] = in[(size_t)(first + i) * columns + at];
#if !V_no_barrier
        __syncthreads();
#endif
        if (warp == 0)
            for (int i = 0; i < 32; i++) {
#if V_exclusive
                float value = tile[lane][i];
                tile[lane][i] = sum;
                sum += value;
#elif V_nan_restarts
                sum = sum != sum ? tile[lane][i] : sum + tile[lane][i];
                tile[lane][i] = sum;
#else
                sum += tile[lane][i];
                tile[lane][i] = sum;
#endif
            }
#if !V_no_second_barrier
        __syncthreads();
#endif
        for (int i = warp; i < 32; i += 8)
            if (first + i < rows && (at < columns || V_writes_past))
                put(out, (size_t)(first + i) * columns + at, (size_t)rows * columns, tile[i][lane]);
        __syncthreads();
    }
}
#endif
