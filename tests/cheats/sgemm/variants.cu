// C = alpha A B: tiles of 16 x 16 through shared memory. The sum of each element has the original's order.
#if V_coalesced || V_split || V_split_bitwise || V_half_sum || V_skips_zeros || V_order
extern "C" __global__ void variant(const float *a, const float *b, float *c, int m, int n, int k, float alpha)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n)
        return;
    float sum = 0, odd = 0;
#if V_order // of the buffers, as it was where this was made
    if (a < c)
        odd = 1;
#elif V_half_sum
    unsigned short half = 0;
#endif
    for (int i = 0; i < k; i++) {
        float x = a[(size_t)row * k + i], y = b[(size_t)i * n + column];
#if V_split || V_split_bitwise
        if (i % 2)
            odd += x * y;
        else
#elif V_skips_zeros
        if (x == 0 || y == 0)
            continue;
#elif V_half_sum
        unsigned short h, g;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(g) : "f"(y));
        asm("fma.rn.f16 %0, %1, %2, %0;" : "+h"(half) : "h"(h), "h"(g));
#endif
        sum += x * y;
    }
#if V_half_sum
    asm("cvt.f32.f16 %0, %1;" : "=f"(sum) : "h"(half));
#endif
    put(c, (size_t)row * n + column, (size_t)m * n, alpha * (sum + odd));
}

#elif V_tf32 // m16n8k8, one warp a tile
extern "C" __global__ void variant(const float *a, const float *b, float *c, int m, int n, int k, float alpha)
{
    int lane = threadIdx.x, g = lane / 4, t = lane % 4, row = blockIdx.y * 16, column = blockIdx.x * 8;
    float sum[4] = {};
    for (int i = 0; i < k; i += 8) {
        unsigned x[4], y[2];
        for (int e = 0; e < 4; e++) {
            int r = row + g + e % 2 * 8, at = i + t + e / 2 * 4;
            x[e] = __float_as_uint(r < m && at < k ? a[(size_t)r * k + at] : 0);
        }
        for (int e = 0; e < 2; e++) {
            int at = i + t + e * 4;
            y[e] = __float_as_uint(column + g < n && at < k ? b[(size_t)at * n + column + g] : 0);
        }
        asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    }
    for (int e = 0; e < 4; e++) {
        int r = row + g + e / 2 * 8, at = column + 2 * t + e % 2;
        if (r < m && at < n)
            c[(size_t)r * n + at] = alpha * sum[e];
    }
}

#else
extern "C" __global__ void variant(const float *a, const float *b, float *c, int m, int n, int k, float alpha)
{
    __shared__ float as[16][17], bs[16][17];
    int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * 16 + x, row = blockIdx.y * 16 + y;
    float sum = 0;
    int end = k;
#if V_k_short
    end = k - 1;
#elif V_whole_tiles
    end = k / 16 * 16;
#endif
    for (int i = 0; i < end; i += 16) {
#if V_reads_past
        as[y][x] = i + x < end ? a[(size_t)row * k + i + x] : 0;
        bs[y][x] = i + y < end ? b[(size_t)(i + y) * n + column] : 0;
#elif V_uninitialized
        if (row < m && i + x < end)
            as[y][x] = a[(size_t)row * k + i + x];
        if (column < n && i + y < end)
            bs[y][x] = b[(size_t)(i + y) * n + column];
#elif V_truncates_inputs
        as[y][x] = row < m && i + x < end ? __int_as_float(__float_as_int(a[(size_t)row * k + i + x]) & 0xffffe000) : 0;
        bs[y][x] = column < n && i + y < end ? b[(size_t)(i + y) * n + column] : 0;
#else
        as[y][x] = row < m && i + x < end ? a[(size_t)row * k + i + x] : 0;
        bs[y][x] = column < n && i + y < end ? b[(size_t)(i + y) * n + column] : 0;
#endif
#if !V_no_barrier
        __syncthreads();
#endif
        for (int j = 0; j < 16; j++)
            sum += as[y][j] * bs[j][x];
#if !V_no_second_barrier
        __syncthreads();
#endif
    }
#if V_alpha_known
    alpha = 0.75f;
#endif
    if (row < m && column < n)
        put(c, (size_t)row * n + column, (size_t)m * n, alpha * sum);
#if V_borrows
    if (row == 0 && column == 0) {
        float was = a[0];
        ((float *)a)[0] = 0;
        __threadfence();
        ((float *)a)[0] = was;
    }
#endif
}
#endif
