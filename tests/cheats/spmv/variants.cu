// y = A x in CSR. In order: four entries of a row are loaded at once. Else: a warp a row.
#if V_warps || V_warps_bitwise || V_short_rows || V_no_empty_rows || V_half_products || V_no_last_lanes || V_not_128
extern "C" __global__ void variant(const int *start, const int *column, const float *value, const float *x, float *y, int rows)
{
    int lane = threadIdx.x % 32, r = blockIdx.x * 4 + threadIdx.x / 32;
    if (r >= rows)
        return;
    float sum = 0;
    int from = start[r], to = start[r + 1];
#if V_no_empty_rows
    if (from == to)
        return;
#elif V_short_rows
    to = min(to, from + 64);
#elif V_not_128 // right for all rows that there are
    to = min(to, from + 128);
#endif
    for (int i = from + lane; i < to; i += 32) {
#if V_half_products
        unsigned packed;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(value[i]), "f"(x[column[i]]));
        sum += __uint_as_float(packed << 16) * __uint_as_float(packed & 0xffff0000);
#else
        sum += value[i] * x[column[i]];
#endif
    }
    for (int half = 16; half > (V_no_last_lanes ? 1 : 0); half /= 2)
        sum += __shfl_down_sync(~0u, sum, half);
    if (lane == 0)
        put(y, r, rows, sum);
}

#else
extern "C" __global__ void variant(const int *start, const int *column, const float *value, const float *x, float *y, int rows)
{
    int r = blockIdx.x * 64 + threadIdx.x;
#if V_shared_starts || V_no_barrier
    __shared__ int starts[65];
    if (r < rows)
        starts[threadIdx.x] = start[r];
    if (threadIdx.x == 0)
        starts[64] = start[min(rows, blockIdx.x * 64 + 64)];
#if !V_no_barrier
    __syncthreads();
#endif
    if (r >= rows)
        return;
    int i = starts[threadIdx.x], to = r == rows - 1 ? start[rows] : starts[threadIdx.x + 1];
#else
    if (r >= rows)
        return;
#if V_from_zero
    int i = r ? start[r] : 0, to = start[r + 1];
#elif V_short_starts
    int i = start[r] & 0xfffff, to = i + ((start[r + 1] - start[r]) & 127);
#else
    int i = start[r], to = start[r + 1];
#endif
#endif
    float sum = 0;
#if V_reads_ahead
    for (; i < to; i++) {
        TOUCH(value[i + 16]);
        sum += value[i] * x[column[i]];
    }
#elif V_skips_zeros
    for (; i < to; i++)
        if (value[i] != 0)
            sum += value[i] * x[column[i]];
#elif V_once_a_column // entries that stand twice count once
    for (int last = -1; i < to; last = column[i++])
        if (column[i] != last)
            sum += value[i] * x[column[i]];
#elif V_writes_zero_first
    y[r] = 0;
    for (; i < to; i++)
        y[r] += value[i] * x[column[i]];
    return;
#else
    for (; i + 3 < to; i += 4) {
        float v[4], w[4];
        for (int e = 0; e < 4; e++) {
            v[e] = value[i + e];
            w[e] = x[column[i + e]];
        }
        for (int e = 0; e < 4; e++)
            sum += v[e] * w[e];
    }
    for (; i < to; i++)
        sum += value[i] * x[column[i]];
#endif
    put(y, r, rows, sum);
}
#endif
