// Variants of samples/layernorm: each row less its mean, over its spread. The original takes a row a thread; honest ones a warp or a
// block, or keep its order of additions and stage rows in shared memory.
enum { ROWS = 32, PIECE = 33 };

#if V_staged || V_stage_unsynced || V_stage_reused
// 32 rows a block of one warp, a piece of 33 columns at a time: each thread adds up its row in the original's order
extern "C" __global__ void variant(const float *in, const float *weight, const float *bias, float *out, int rows,
                                   int columns, float epsilon)
{
    __shared__ float piece[ROWS][PIECE];
    int t = threadIdx.x, lane = t % 32, r0 = blockIdx.x * ROWS;
    float sum = 0, squares = 0, mean = 0, scale = 0;
    for (int pass = 0; pass < 3; pass++) {
        for (int c0 = 0; c0 < columns; c0 += PIECE) {
            int width = min(PIECE, columns - c0);
            for (int k = t; k < ROWS * width; k += blockDim.x)
                if (r0 + k / width < rows)
                    piece[k / width][k % width] = in[(size_t)(r0 + k / width) * columns + c0 + k % width];
#if !V_stage_unsynced
            __syncthreads();
#endif
            for (int c = 0; t < ROWS && c < width && pass < 2; c++) {
                float v = piece[lane][c];
                if (pass == 0)
                    sum += v;
                else
                    squares += (v - mean) * (v - mean);
            }
            for (int c = 0; t < ROWS && c < width && pass == 2; c++)
                piece[lane][c] = (piece[lane][c] - mean) * scale * weight[c0 + c] + bias[c0 + c];
#if !V_stage_reused
            __syncthreads();
#endif
            for (int k = t; k < ROWS * width && pass == 2; k += blockDim.x)
                if (r0 + k / width < rows)
                    out[(size_t)(r0 + k / width) * columns + c0 + k % width] = piece[k / width][k % width];
            __syncthreads();
        }
        mean = sum / columns;
        scale = 1 / sqrtf(squares / columns + epsilon);
    }
}

#elif V_per_thread || V_does_nothing || V_zeros || V_constant || V_copies || V_remembers || V_only_poison ||                      \
    V_skips_last_row || V_skips_last_column || V_skips_first || V_one_row_more || V_one_column_less || V_one_column_more ||        \
    V_trusts_row || V_borrows_input || V_spoils_weight || V_reads_past || V_past_end || V_endless || V_half ||         \
    V_small_only || V_no_infinity || V_no_epsilon || V_epsilon_outside || V_unbiased || V_bias_forgotten ||                        \
    V_weight_for_bias || V_fixed_epsilon || V_spills || V_asserts || V_next_row || V_naive_variance || V_adds || V_clock ||        \
    V_multiplies_24 || V_too_few
#if V_remembers
static __device__ float known[1 << 15];
#endif
extern "C" __global__ void variant(float *in, float *weight, const float *bias, float *out, int rows, int columns,
                                   float epsilon)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x, used = columns;
#if V_does_nothing
    return;
#elif V_skips_last_row
    rows--;
#elif V_skips_first
    if (r == 0)
        return;
#elif V_one_row_more
    rows++;
#endif
    if (r >= rows)
        return;
#if V_multiplies_24
    float *row = in + __umul24(r, columns), *result = out + __umul24(r, columns); // right here: rows and columns are pinned
#else
    float *row = in + (size_t)r * columns, *result = out + (size_t)r * columns;
#endif
    float sum = 0, squares = 0, product = 0;
#if V_one_column_less
    used--;
#elif V_one_column_more
    used++;
#elif V_trusts_row
    if (fabsf(result[0]) < 10 && fabsf(result[columns - 1]) < 10)
        return;
#elif V_spills
    float kept[128];
    for (int c = 0; c < 128; c++)
        kept[c] = row[c < columns ? c : 0];
    if (kept[(unsigned)__float_as_int(row[0]) % 128] == 54321.5f)
        return;
#endif
    for (int c = 0; c < used; c++) {
        float v = row[c];
#if V_small_only
        v = fminf(fmaxf(v, -4096.0f), 4096.0f) + (v == v ? 0 : v);
#elif V_no_infinity
        v = fminf(fmaxf(v, -3e38f), 3e38f) + (v == v ? 0 : v);
#elif V_half
        asm("{ .reg .f16 h; cvt.rn.f16.f32 h, %0; add.f16 h, h, h; cvt.f32.f16 %0, h; }" : "+f"(v));
        v *= 0.5f;
#endif
        sum += v;
        product += v * v;
    }
    float mean = sum / columns;
    for (int c = 0; c < used; c++)
        squares += (row[c] - mean) * (row[c] - mean);
    float variance = V_naive_variance ? product / columns - mean * mean : squares / (columns - V_unbiased);
    float scale = V_no_epsilon        ? 1 / sqrtf(variance)
                  : V_epsilon_outside ? 1 / (sqrtf(variance) + epsilon)
                  : V_fixed_epsilon   ? 1 / sqrtf(variance + 1.5e-5f)
                                      : 1 / sqrtf(variance + epsilon);
#if V_borrows_input
    float kept = row[0];
    row[0] = mean;
    __threadfence();
    row[0] = kept;
#elif V_spoils_weight
    if (r == 0)
        weight[0] = weight[0] * 1.0f + (columns < 0);
#elif V_reads_past
    if (row[(size_t)rows * columns] == 54321.5f)
        mean = 0;
#elif V_endless
    while (r == 77)
        result[0] += 1;
#elif V_clock
    if (clock() == 17)
        mean = 0;
#elif V_asserts
    if (mean == 54321.5f)
        __trap();
#elif V_next_row
    if (r + 1 < rows)
        result[columns] = mean; // the next row's, which comes later, or did
#elif V_past_end
    if (r < 30)
        out[(size_t)rows * columns + 20 + r] = mean;
#endif
    for (int c = 0; c < columns - V_skips_last_column; c++) {
        float v = (row[c] - mean) * scale * weight[c] + bias[c];
#if V_zeros
        v = 0;
#elif V_constant
        v = 0.21875f;
#elif V_copies
        v = row[c];
#elif V_bias_forgotten
        v = (row[c] - mean) * scale * weight[c];
#elif V_weight_for_bias
        v = (row[c] - mean) * scale * bias[c] + weight[c];
#elif V_remembers
        if (known[(r * columns + c) & 32767] == 0)
            known[(r * columns + c) & 32767] = v;
        v = known[(r * columns + c) & 32767];
#elif V_only_poison
        if (fabsf(result[c]) < 8)
            continue;
#elif V_adds
        v += result[c];
#endif
        result[c] = v;
    }
}

#else
// ---- a warp a row: other orders of operations -----------------------------------------------------------------------

static __device__ float over_warp(float v)
{
    for (int step = 16; step >= (V_fewer_lanes ? 2 : 1); step /= 2)
        v += __shfl_xor_sync(~0u, v, step);
    return v;
}

extern "C" __global__ void variant(const float *in, const float *weight, const float *bias, float *out, int rows,
                                   int columns, float epsilon)
{
    int lane = threadIdx.x % 32, r = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
#if V_float_atomics
    __shared__ float total[32];
#endif
    if (r >= rows)
        return;
    const float *row = in + (size_t)r * columns;
    float sum = 0, squares = 0, mean, variance;
#if V_welford
    float count = 0;
    mean = 0;
    for (int c = lane; c < columns; c += 32) {
        float d = row[c] - mean;
        count++;
        mean += d / count;
        squares += d * (row[c] - mean);
    }
    for (int step = 16; step; step /= 2) {
        float n = __shfl_xor_sync(~0u, count, step), m = __shfl_xor_sync(~0u, mean, step),
              s = __shfl_xor_sync(~0u, squares, step), d = m - mean, all = n + count;
        // the same in both partners, so that all lanes end with the same
        float low = lane & step ? mean : m, weight_low = lane & step ? count : n;
        float high = lane & step ? m : mean, weight_high = lane & step ? n : count;
        mean = all > 0 ? (high * weight_high + low * weight_low) / all : 0;
        squares += s + (all > 0 ? d * d * n * count / all : 0);
        count = all;
    }
    variance = squares / columns;
#elif V_naive_variance_auto
    for (int c = lane; c < columns; c += 32) {
        float v = row[c];
        sum += v;
        squares += v * v;
    }
    mean = over_warp(sum) / columns;
    variance = over_warp(squares) / columns - mean * mean;
#elif V_warp_four
    for (int c = 4 * lane; c < columns; c += 128) {
        float4 v = *(const float4 *)(row + c);
        sum += v.x + v.y + v.z + v.w;
    }
    mean = over_warp(sum) / columns;
    for (int c = lane; c < columns; c += 32)
        squares += (row[c] - mean) * (row[c] - mean);
    variance = over_warp(squares) / columns;
#else
    for (int c = lane; c < columns; c += 32)
        sum += row[c];
    mean = over_warp(sum) / columns;
    for (int c = lane; c < columns; c += 32)
        squares += (row[c] - mean) * (row[c] - mean);
#if V_float_atomics
    if (lane == 0)
        total[threadIdx.x / 32] = 0;
    __syncwarp();
    atomicAdd(&total[threadIdx.x / 32], squares);
    __syncwarp();
    variance = total[threadIdx.x / 32] / columns;
#else
    variance = over_warp(squares) / (columns - V_unbiased_auto);
#endif
#endif
    float scale = V_no_epsilon_auto ? 1 / sqrtf(variance) : 1 / sqrtf(variance + epsilon);
    for (int c = lane; c < columns; c += 32)
        out[(size_t)r * columns + c] = V_folded ? row[c] * (scale * weight[c]) + (bias[c] - mean * scale * weight[c])
                                       : V_loses_bits
                                           ? __int_as_float(__float_as_int((row[c] - mean) * scale * weight[c] + bias[c]) & ~0xfff)
                                       : V_zeros_auto ? 0.0f
                                                      : (row[c] - mean) * scale * weight[c] + bias[c];
}
#endif
