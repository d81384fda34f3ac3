// Variants of samples/add_rmsnorm: x += delta in place, out = x / rms(x) * weight, 128 threads a row. What is written is an input too.
enum { THREADS = 128, MOST = 36 };

#if V_remembers
static __device__ float known;
#endif

#if V_shuffles || V_four || V_four_anywhere || V_shuffle_lost || V_no_epsilon_auto || V_twice_auto || V_zeros_auto || V_out_only_auto
extern "C" __global__ void __launch_bounds__(THREADS) variant(float *x, const float *delta, const float *weight, float *out,
                                                             int columns, float epsilon)
{
    __shared__ float part[THREADS / 32];
    float *row = x + (size_t)blockIdx.x * columns, *result = out + (size_t)blockIdx.x * columns;
    const float *change = delta + (size_t)blockIdx.x * columns;
    float squares = 0;
    int t = threadIdx.x;
#if V_four || V_four_anywhere
#if V_four_anywhere
    row++, change++, result++; // of rows that begin an element later
    int end = columns - 1;
#else
    int end = columns; // a multiple of four: pinned
#endif
    for (int c = 4 * t; c < end; c += 4 * THREADS) {
        float4 a = *(float4 *)(row + c), b = *(const float4 *)(change + c);
        a = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
        *(float4 *)(row + c) = a;
        squares += a.x * a.x + a.y * a.y + a.z * a.z + a.w * a.w;
    }
#else
    for (int c = t; c < columns; c += THREADS) {
        float v = row[c] + change[c] * (V_twice_auto ? 1.0001f : 1.0f);
        if (!V_out_only_auto)
            row[c] = v;
        squares += v * v;
    }
#endif
    for (int step = 16; step; step /= 2)
        squares += __shfl_xor_sync(~0u, squares, step);
    if (t % 32 == 0)
        part[t / 32] = squares;
    __syncthreads();
    squares = part[0] + part[1] + part[2] + (V_shuffle_lost ? 0 : part[3]);
    float scale = 1 / sqrtf(V_no_epsilon_auto ? squares / columns : squares / columns + epsilon);
    __syncthreads();
    for (int c = t; c < columns; c += THREADS)
        out[(size_t)blockIdx.x * columns + c] =
            V_zeros_auto ? 0 : (V_out_only_auto ? row[c] + change[c] : x[(size_t)blockIdx.x * columns + c]) * scale * weight[c];
}

#else
// ---- the original's order of additions ------------------------------------------------------------------------------

extern "C" __global__ void __launch_bounds__(THREADS) variant(float *x, float *delta, const float *weight, float *out, int columns,
                                                             float epsilon)
{
    __shared__ float part[THREADS];
    size_t start = (size_t)blockIdx.x * columns;
    float *row = x + start, *change = delta + start, *result = out + start;
    int t = threadIdx.x, end = columns;
    float squares = 0;
    float v[MOST];
#if V_does_nothing
    return;
#elif V_skips_last
    end--;
#elif V_loses_a_row
    if (blockIdx.x == 11)
        return;
#elif V_one_more
    end++;
#elif V_trusts_row
    if (fabsf(result[0]) < 20 && fabsf(result[columns - 1]) < 20)
        return;
#elif V_endless
    while (t == 5)
        result[5] += 1;
#elif V_remembers
    if (blockIdx.x == 0 && t == 0)
        known += row[0];
#endif

#pragma unroll
    for (int k = 0; k < MOST; k++) {
        int c = t + k * THREADS;
        if (c >= end)
            break;
        float before = V_nc_load ? __ldg(row + c) : row[c];
        v[k] = before + change[c];
#if V_no_nan
        v[k] = v[k] == v[k] ? v[k] : 0;
#elif V_no_infinity
        v[k] = fminf(fmaxf(v[k], -3e38f), 3e38f) + (v[k] == v[k] ? 0 : v[k]);
#elif V_small_only
        v[k] = fabsf(v[k]) > 512 ? 512 : v[k];
#elif V_flushes
        asm("add.ftz.f32 %0, %1, %2;" : "=f"(v[k]) : "f"(before), "f"(change[c]));
#elif V_half
        asm("{ .reg .f16 a, b; cvt.rn.f16.f32 a, %1; cvt.rn.f16.f32 b, %2; add.f16 a, a, b; cvt.f32.f16 %0, a; }"
            : "=f"(v[k])
            : "f"(before), "f"(change[c]));
#elif V_adds_twice
        v[k] += change[c];
#elif V_borrows_input
        float kept = change[c];
        change[c] = 0;
        __threadfence();
        change[c] = kept;
#endif
        if (V_out_only)
            ;
        else if (V_stale_part && k == 3)
            ;
        else if (V_only_if_changed) {
            if (v[k] != before)
                row[c] = v[k];
        } else if (V_clears_delta)
            row[c] = v[k], change[c] = 0;
        else
            row[c] = v[k];
        squares += v[k] * v[k];
    }
    part[t] = V_squares_of_old ? 0 : squares;
#if !V_no_first_barrier
    __syncthreads();
#endif
    for (int half = THREADS / 2; half > (V_tree_ends_early ? 1 : 0); half /= 2) {
        if (t < half)
            part[t] += part[t + half];
#if V_warps_alone
        if (half > 32)
            __syncthreads();
#elif V_warps_synced
        if (half > 32)
            __syncthreads();
        else
            __syncwarp();
#else
        __syncthreads();
#endif
    }
#if V_warps_synced
    __syncthreads();
#endif
    squares = part[0];
#if V_dirty_sum
    __shared__ float total;
    if (t < 4)
        atomicAdd(&total, t == 0 ? squares : 0);
    __syncthreads();
    squares = total;
#elif V_too_much_shared
    __shared__ float more[60 << 10];
    for (int k = t; k < 60 << 10; k += THREADS)
        more[k] = squares;
    __syncthreads();
    squares = more[(t * 33 + columns) % (60 << 10)];
#endif
    float rms = squares / (columns - V_one_less) + (V_no_epsilon ? 0 : V_fixed_epsilon ? 2e-6f : epsilon);
    float scale = V_no_root ? 1 / rms : 1 / sqrtf(rms);
#if V_clock
    if (clock() == 17)
        scale = 0;
#elif V_prints
    if (scale == 54321.5f)
        printf("%f\n", scale);
#endif

#pragma unroll
    for (int k = 0; k < MOST; k++) {
        int c = t + k * THREADS;
        if (c >= end)
            break;
        float r = V_zeros            ? 0
                  : V_constant       ? 0.28125f
                  : V_copies         ? row[c]
                  : V_no_weight      ? v[k] * scale
                  : V_weight_first   ? v[k] * (scale * weight[c])
                  : V_out_of_old     ? (v[k] - change[c]) * scale * weight[c]
                  : V_reads_again    ? row[c] * scale * weight[c]
                                     : v[k] * scale * weight[c];
#if V_only_poison
        if (fabsf(result[c]) < 20)
            continue;
#elif V_adds
        r += result[c];
#elif V_other_way_round
        row[c] = r, r = v[k];
#elif V_past_end
        if (c < 20)
            out[(size_t)gridDim.x * columns + 3 + c] = r;
#elif V_past_x
        if (c < 20)
            x[(size_t)gridDim.x * columns + 3 + c] = r;
#elif V_before_x
        if (blockIdx.x == 0 && c < 20)
            x[c - 20] = r;
#elif V_next_rows
        if (c == 0 && blockIdx.x + 1 < gridDim.x)
            result[columns] = r; // the next block's
#elif V_reads_past
        if (delta[(size_t)gridDim.x * columns + c] == 54321.5f)
            r = 0;
#endif
        result[c] = r;
    }
}
#endif
