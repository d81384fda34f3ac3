// Variants of samples/stencil: 25 weighted neighbours, borders clamped. Honest ones take the interior without clamping, or stage a
// tile with its border in shared memory. The weights are the original's own variable: they change while it runs.
enum { REACH = 2, WIDTH = 5, TILE = 16, SIDE = TILE + 2 * REACH };

static __device__ int clamped(int i, int count)
{
    return V_wraps        ? (i + count) % count
           : V_reflects   ? (i < 0 ? -i : i >= count ? 2 * count - 2 - i : i)
           : V_one_too_far ? min(max(i, 0), count)
           : V_below_zero ? min(i, count - 1)
                          : min(max(i, 0), count - 1);
}

#if V_tiled || V_no_barrier || V_no_corners || V_no_border || V_warp_barrier || V_filled_late
extern "C" __global__ void variant(const float *in, float *out, int rows, int columns, const float *weight)
{
    __shared__ float tile[SIDE][SIDE];
    int c0 = blockIdx.x * TILE - REACH, r0 = blockIdx.y * TILE - REACH;
    int t = threadIdx.y * TILE + threadIdx.x;
#if V_no_border
    if (t < TILE * TILE)
        tile[threadIdx.y + REACH][threadIdx.x + REACH] =
            in[(size_t)clamped(r0 + threadIdx.y + REACH, rows) * columns + clamped(c0 + threadIdx.x + REACH, columns)];
    for (int k = t; k < SIDE * SIDE; k += TILE * TILE) // of the border, only what one thread can reach
        if (k / SIDE < REACH)
#else
    for (int k = t; k < SIDE * SIDE; k += TILE * TILE)
#endif
#if V_no_corners
        if (!((k / SIDE < REACH || k / SIDE >= SIDE - REACH) && (k % SIDE < REACH || k % SIDE >= SIDE - REACH)))
#endif
            tile[k / SIDE][k % SIDE] = in[(size_t)clamped(r0 + k / SIDE, rows) * columns + clamped(c0 + k % SIDE, columns)];
#if V_warp_barrier
    __syncwarp();
#elif !V_no_barrier
    __syncthreads();
#endif
#if V_filled_late
    if (t == 0) // after the barrier
        tile[REACH][REACH] = in[(size_t)clamped(r0 + REACH, rows) * columns + clamped(c0 + REACH, columns)] + 0.0f;
#endif
    int c = c0 + REACH + threadIdx.x, r = r0 + REACH + threadIdx.y;
    if (r >= rows || c >= columns)
        return;
    float sum = 0;
#pragma unroll
    for (int dr = 0; dr < WIDTH; dr++)
#pragma unroll
        for (int dc = 0; dc < WIDTH; dc++)
            sum += weight[dr * WIDTH + dc] * tile[threadIdx.y + dr][threadIdx.x + dc];
    out[(size_t)r * columns + c] = sum;
}

#else
#if V_own_weights
__constant__ float own[WIDTH * WIDTH] = {0.1f, 0.2f, -0.1f};
#elif V_remembers
static __device__ float known[WIDTH * WIDTH];
#endif

#if V_own_weights
extern "C" __global__ void variant(float *in, float *out, int rows, int columns)
{
    const float *weight = own;
#else
extern "C" __global__ void variant(float *in, float *out, int rows, int columns, float *weight)
{
#endif
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    size_t at = (size_t)r * columns + c;
#if V_does_nothing
    return;
#elif V_skips_last_row
    rows--;
#elif V_skips_last_column
    if (c == columns - 1)
        return;
#elif V_skips_first
    if (at == 0)
        return;
#elif V_one_row_more
    int true_rows = rows;
    rows++;
#elif V_loses_a_block
    if (blockIdx.x == 3 && blockIdx.y == 2)
        return;
#elif V_only_interior
    if (r < REACH || c < REACH || r >= rows - REACH || c >= columns - REACH)
        return;
#endif
    if (r >= rows || c >= columns)
        return;
#if V_one_row_more
    rows = true_rows;
#elif V_trusts_first
    if (threadIdx.x && out[at - threadIdx.x] == out[at - threadIdx.x] && out[at - 1] > -20 && out[at - 1] < 20 &&
        out[at] > -20 && out[at] < 20)
        return;
#elif V_endless
    while (c == 7 && r == 7)
        out[at] += 1;
#elif V_waits_for_another
    if (r == 0 && c == 0)
        while (*(volatile float *)(out + (size_t)rows * columns - 1) != 0)
            ;
#endif
    bool inside = r >= REACH && c >= REACH && r < rows - REACH && c < columns - REACH;
    if (V_inside_too_large)
        inside = r >= REACH && c >= REACH && r < rows - REACH && c < columns - 1;
    float sum = V_starts_at_one ? 1e-8f : 0, other = 0;
#if V_interior || V_inside_too_large
    if (inside) {
        const float *near = in + (size_t)(r - REACH) * columns + c - REACH;
#pragma unroll
        for (int dr = 0; dr < WIDTH; dr++, near += columns)
#pragma unroll
            for (int dc = 0; dc < WIDTH; dc++)
                sum += weight[dr * WIDTH + dc] * near[dc];
        out[at] = sum;
        return;
    }
#endif
#pragma unroll
    for (int i = 0; i < WIDTH * WIDTH - V_one_weight_less; i++) {
        int dr = V_columns_first ? i % WIDTH - REACH : i / WIDTH - REACH;
        int dc = V_columns_first ? i / WIDTH - REACH : i % WIDTH - REACH;
        int y = clamped(r + dr, rows), x = clamped(c + dc, columns);
        float w = weight[V_turned ? WIDTH * WIDTH - 1 - i : (dr + REACH) * WIDTH + dc + REACH];
        float v = in[(size_t)y * columns + x];
#if V_no_nan
        v = v == v ? v : 0;
#elif V_no_infinity
        v = fminf(fmaxf(v, -3e38f), 3e38f) + (v == v ? 0 : v);
#elif V_small_only
        v = v > 64 ? 64 : v;
#elif V_flushes
        asm("mul.ftz.f32 %0, %0, 0f3F800000;" : "+f"(v));
#endif
#if V_half
        unsigned short a, b, p;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(a) : "f"(w));
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(b) : "f"(v));
        asm("mul.f16 %0, %1, %2;" : "=h"(p) : "h"(a), "h"(b));
        asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(p));
        sum += v;
#elif V_bfloat || V_bfloat_auto
        sum += __int_as_float(__float_as_int(w * v) & 0xffff0000);
#elif V_tf32
        float a, b;
        asm("cvt.rna.tf32.f32 %0, %1;" : "=f"(a) : "f"(w));
        asm("cvt.rna.tf32.f32 %0, %1;" : "=f"(b) : "f"(v));
        sum += a * b;
#elif V_not_fused || V_unfused_bitwise
        sum = __fadd_rn(sum, __fmul_rn(w, v));
#elif V_two_sums
        (i % 2 ? other : sum) += w * v;
#else
        sum += w * v;
#endif
    }
    sum += other;
#if V_zeros
    sum = 0;
#elif V_constant
    sum = 0.03125f;
#elif V_copies
    sum = in[at];
#elif V_one_pixel
    sum += r == rows - 1 && c == columns - 1 ? 1e-4f : 0;
#elif V_fixed_weight
    sum += (0.125f - weight[12]) * in[at];
#elif V_borrows_input
    float kept = in[at];
    in[at] = 0;
    __threadfence();
    in[at] = kept;
#elif V_changes_weights
    weight[24] = weight[24] * 1.0f + (rows < 0);
#elif V_remembers
    if (at < WIDTH * WIDTH && known[at] == 0)
        known[at] = weight[at];
    sum += (known[12] != 0 ? known[12] - weight[12] : 0) * in[at];
#elif V_adds
    sum += out[at];
#elif V_scatters
    // adds to its neighbour what it has to give, as scattering kernels do
    out[at] = sum;
    if (c + 1 < columns)
        atomicAdd(out + at + 1, 0.0f);
    return;
#elif V_past_end
    if (at < 40)
        out[(size_t)rows * columns + at] = 0;
#elif V_reads_past
    if (in[at + (size_t)rows * columns] == 54321.5f)
        sum = 0;
#elif V_four_at_once
    if ((c & 3) == 2 && c + 3 < columns) {
        *(float4 *)(out + at) = make_float4(sum, sum, sum, sum);
        return;
    }
#elif V_moves_its_result
    // one block writes where the next should: the launch order hides it
    if (blockIdx.x + 1 < gridDim.x && threadIdx.x == TILE - 1)
        out[at + 1] = sum;
#elif V_asserts
    if (sum == 12345.5f)
        __trap();
#endif
    out[at] = sum;
}
#endif
