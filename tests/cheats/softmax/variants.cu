// Variants of samples/softmax: each row divided by the sum of its exponentials, 256 threads a row, rows of up to 4096 numbers.
#define INFINITE __int_as_float(0x7f800000)
enum { THREADS = 256, MOST = 16 };

static __device__ __forceinline__ float exponential(float v)
{
#if V_fast_exponential
    return __expf(v);
#elif V_half_exponential
    unsigned short h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v * 1.4426950f));
    asm("ex2.approx.f16 %0, %0;" : "+h"(h));
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h));
    return v;
#elif V_base_two
    return exp2f(v * 1.442695041f);
#elif V_bounded_exponential
    return v < -40 ? 0.0f : expf(v);
#else
    return expf(v);
#endif
}

#if V_online || V_shuffles || V_online_unmerged || V_shuffle_half
// sums (or largest values) within a warp by shuffles, then of the warps through shared memory
template <class Join> static __device__ float over_block(float v, float *part, Join join)
{
    for (int step = 16; step >= (V_shuffle_half ? 2 : 1); step /= 2)
        v = join(v, __shfl_xor_sync(~0u, v, step));
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = v;
    __syncthreads();
    v = part[0];
    for (int w = 1; w < THREADS / 32; w++)
        v = join(v, part[w]);
    return v;
}
static __device__ float larger(float a, float b)
{
    return fmaxf(a, b);
}
static __device__ float plus(float a, float b)
{
    return a + b;
}

extern "C" __global__ void __launch_bounds__(THREADS) variant(const float *in, float *out, int columns)
{
    __shared__ float part[THREADS / 32];
    const float *row = in + (size_t)blockIdx.x * columns;
    float most = -INFINITE, sum = 0;
#if V_shuffles || V_shuffle_half
    for (int c = threadIdx.x; c < columns; c += THREADS)
        most = fmaxf(most, row[c]);
    most = over_block(most, part, larger);
    for (int c = threadIdx.x; c < columns; c += THREADS)
        sum += expf(row[c] - most);
#else
    // one pass: the sum so far is scaled anew whenever a larger number comes
    for (int c = threadIdx.x; c < columns; c += THREADS) {
        float v = row[c];
        if (v > most) {
            sum *= expf(most - v);
            most = v;
        }
        sum += v == most ? 1 : expf(v - most);
        if (v != v)
            sum = v;
    }
    float all = over_block(most, part, larger);
    sum *= V_online_unmerged ? 1.0f : most == all ? (all - all == 0 ? 1.0f : all - all) : expf(most - all);
    most = all;
#endif
    sum = over_block(sum, part, plus);
    for (int c = threadIdx.x; c < columns; c += THREADS)
        out[(size_t)blockIdx.x * columns + c] = expf(row[c] - most) / sum;
}

#else
// ---- the same order of operations as the original ------------------------------------------------------------------

#if V_remembers
static __device__ float known_most, known_sum, print;
#endif

extern "C" __global__ void __launch_bounds__(THREADS) variant(float *in, float *out, int columns)
{
    __shared__ float part[THREADS];
#if V_too_much_shared
    __shared__ float row_of_all[64 << 10];
#endif
    float *row = in + (size_t)blockIdx.x * columns;
    float *result = out + (size_t)blockIdx.x * columns;
    int t = threadIdx.x, first = 0, end = columns;
    float v[MOST];
#if V_does_nothing
    return;
#elif V_skips_last
    end--;
#elif V_one_more
    end++;
#elif V_hard_coded
    end = columns = 1024;
#elif V_loses_a_row
    if (blockIdx.x == gridDim.x - 1)
        return;
#elif V_trusts_row
    if (result[0] > 0 && result[0] < 1 && result[columns - 1] > 0 && result[columns - 1] < 1)
        return;
#endif

    float most = -INFINITE;
#pragma unroll
    for (int k = 0; k < MOST; k++) {
        int c = first + t + k * THREADS;
        if (c >= end)
            break;
        v[k] = row[c];
#if V_no_nan
        v[k] = v[k] != v[k] ? 0 : v[k];
#elif V_no_infinity
        v[k] = fminf(fmaxf(v[k], -1e30f), 1e30f) + (v[k] != v[k] ? v[k] : 0);
#elif V_borrows_input
        row[c] = 0;
        __threadfence();
        row[c] = v[k];
#elif V_reads_past
        if (row[c + 5000000] == 54321.5f)
            v[k] = 0;
#endif
        if (V_half_of_the_maximum && k >= columns / THREADS / 2)
            continue;
        most = V_least ? fminf(most == -INFINITE ? v[k] : most, v[k]) : fmaxf(most, v[k]);
    }
    part[t] = most;
    __syncthreads();
#pragma unroll
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (t < half)
            part[t] = fmaxf(part[t], part[t + half]);
#if V_no_barrier_in_tree
#elif V_warps_alone
        if (half > 32)
            __syncthreads(); // and then as if the lanes of a warp went in step
#else
        __syncthreads();
#endif
    }
    most = V_no_maximum || V_no_maximum_auto ? 0.0f : V_own_maximum ? part[t & 128] : part[0];
#if !V_one_barrier_less
    __syncthreads();
#endif

    float sum = 0;
#pragma unroll
    for (int k = 0; k < MOST; k++)
        if (t + k * THREADS < end) {
            v[k] = exponential(v[k] - most);
            if (V_keeps_in_output)
                result[t + k * THREADS] = v[k];
            sum += v[k];
        }
#if V_shared_atomics
    if (t == 0)
        part[0] = 0;
    __syncthreads();
    atomicAdd(&part[0], sum);
    __syncthreads();
#elif V_dirty_sum
    __shared__ float total;
    atomicAdd(&total, sum);
    __syncthreads();
    part[0] = total;
    __syncthreads();
#else
    part[t] = sum;
    __syncthreads();
#pragma unroll
    for (int half = THREADS / 2; half > (V_tree_ends_early ? 1 : 0); half /= 2) {
        if (t < half)
            part[t] += part[t + half];
        __syncthreads();
    }
#endif
    sum = V_sum_of_another ? part[1] : part[0];
#if V_remembers
    if (t == 0 && blockIdx.x == 0)
        known_most = most, known_sum = sum, print = row[0];
#elif V_too_much_shared
    for (int k = t; k < 64 << 10; k += THREADS)
        row_of_all[k] = sum;
    __syncthreads();
    sum = row_of_all[(t * 77 + columns) % (64 << 10)];
#elif V_endless
    while (sum > 0 && t == 3)
        result[t] += sum;
#elif V_prints
    if (sum == 12345.5f)
        printf("%f\n", sum);
#endif

#pragma unroll
    for (int k = 0; k < MOST; k++) {
        int c = t + k * THREADS;
        if (c >= end)
            break;
        if (V_keeps_in_output)
            v[k] = result[c];
        float r = V_zeros || V_zeros_auto ? 0.0f
                  : V_constant || V_constant_auto ? 1.0f / columns
                  : V_copies         ? row[c]
                  : V_not_divided    ? v[k]
                  : V_reciprocal     ? v[k] * (1 / sum)
                  : V_small_to_zero  ? (v[k] / sum < 1e-20f ? 0 : v[k] / sum)
                  : V_no_small_sums  ? v[k] / fmaxf(sum, 1.0f)
                  : V_logarithm      ? expf(row[c] - most - logf(sum))
                                     : v[k] / sum;
#if V_only_poison
        if (result[c] >= 0 && result[c] <= 1)
            continue;
#elif V_adds
        r += result[c];
#elif V_twice
        result[c ^ 32] = r;
#elif V_past_end
        if (c < 32)
            out[(size_t)gridDim.x * columns + 10 + c] = r;
#elif V_four_shifted
        if ((c & 3) == 1 && c + 3 < columns) {
            *(float4 *)(result + c) = make_float4(r, r, r, r);
            continue;
        }
#endif
        result[c] = r;
    }
}
#endif
