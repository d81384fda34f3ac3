// y = A x: 32 rows a block, tiles of 32 x 32 loaded coalesced; one warp sums its rows in the original's order.
#if V_warps || V_no_last_lanes || V_warps_bitwise || V_no_syncwarp || V_half_products || V_wide || V_first_columns
extern "C" __global__ void variant(const float *a, const float *x, float *y, int rows, int columns)
{
    int lane = threadIdx.x % 32, r = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (r >= rows)
        return;
    const float *row = a + (size_t)r * columns;
    float sum = 0;
#if V_wide // rows are not aligned to 16 bytes
    int c = lane * 4;
    for (; c + 3 < columns; c += 128) {
        float4 v = *(const float4 *)(row + c);
        sum += v.x * x[c] + v.y * x[c + 1] + v.z * x[c + 2] + v.w * x[c + 3];
    }
    for (; c < columns; c++)
        sum += row[c] * x[c];
#elif V_first_columns
    for (int c = lane; c < 128; c += 32)
        sum += row[c] * x[c];
#elif V_half_products
    for (int c = lane; c < columns; c += 32) {
        unsigned short h, g;
        float product;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(row[c]));
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(g) : "f"(x[c]));
        asm("mul.rn.f16 %0, %0, %1;" : "+h"(h) : "h"(g));
        asm("cvt.f32.f16 %0, %1;" : "=f"(product) : "h"(h));
        sum += product;
    }
#else
    for (int c = lane; c < columns; c += 32)
        sum += row[c] * x[c];
#endif
#if V_no_syncwarp // as if a warp's lanes went in step
    __shared__ float part[4][32];
    float *mine = part[threadIdx.x / 32];
    mine[lane] = sum;
    for (int half = 16; half; half /= 2)
        if (lane < half)
            mine[lane] += mine[lane + half];
    sum = mine[0];
#else
    for (int half = 16; half > (V_no_last_lanes ? 1 : 0); half /= 2)
        sum += __shfl_down_sync(~0u, sum, half);
#endif
    if (lane == 0)
        put(y, r, rows, sum);
}

#else
extern "C" __global__ void variant(const float *a, const float *x, float *y, int rows, int columns)
{
    __shared__ float tile[32][33], xs[32];
    int lane = threadIdx.x, warp = threadIdx.y, first = blockIdx.x * 32;
    float sum = 0;
    for (int c = 0; c < columns; c += 32) {
        int at = c + lane;
        for (int i = warp; i < 32; i += 8)
#if V_last_row_again
            tile[i][lane] = at < columns ? a[(size_t)min(first + i, rows - 2) * columns + at] : 0;
#elif V_reads_past
            tile[i][lane] = a[(size_t)(first + i) * columns + at];
#elif V_uninitialized
            if (first + i < rows && at < columns - 1)
                tile[i][lane] = a[(size_t)(first + i) * columns + at];
#else
            tile[i][lane] = first + i < rows && at < columns ? a[(size_t)(first + i) * columns + at] : 0;
#endif
        if (warp == 0)
            xs[lane] = at < columns ? x[at] : 0;
#if !V_no_barrier
        __syncthreads();
#endif
        int most = V_reads_past ? min(32, columns - c) : 32;
        if (warp == 0)
            for (int i = 0; i < most; i++)
                sum += tile[lane][i] * xs[i];
#if !V_no_second_barrier
        __syncthreads();
#endif
    }
    if (warp == 0 && first + lane < rows)
        put(y, first + lane, rows, sum);
#if V_borrows
    if (warp == 0 && lane == 0) {
        float was = atomicExch((float *)x, 0);
        atomicExch((float *)x, was);
    }
#endif
}
#endif
