// Variants of samples/polynomial: honest ones compute four elements a thread; the others differ in one thing.
struct Polynomial {
    int degree;
    float c[32];
};

#if V_estrin || V_reassociates
// even and odd coefficients apart: another order of operations
static __device__ float evaluate(float v, const Polynomial &p)
{
    float w = v * v, even = p.c[30], odd = p.c[31];
#pragma unroll
    for (int k = 28; k >= 0; k -= 2) {
        even = even * w + p.c[k];
        odd = odd * w + p.c[k + 1];
    }
    return odd * v + even;
}
#elif V_half
static __device__ float evaluate(float v, const Polynomial &p)
{
    unsigned short h, s, c;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(s) : "f"(p.c[31]));
    for (int k = 30; k >= 0; k--) {
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(c) : "f"(p.c[k]));
        asm("fma.rn.f16 %0, %0, %1, %2;" : "+h"(s) : "h"(h), "h"(c));
    }
    float sum;
    asm("cvt.f32.f16 %0, %1;" : "=f"(sum) : "h"(s));
    return sum;
}
#else
static __device__ __forceinline__ float evaluate(float v, const Polynomial &p)
{
    float sum = V_short_loop ? p.c[30] : p.c[31];
#if V_spills
    float kept[64];
    for (int k = 0; k < 64; k++)
        kept[k] = p.c[k & 31] * v;
    if (kept[__float_as_int(v) & 63] == 1234.5f)
        return 1;
#endif
#pragma unroll
    for (int k = V_short_loop ? 29 : 30; k >= 0; k--)
        sum = V_rounds_down     ? __fmaf_rz(sum, v, p.c[k])
              : V_not_fused     ? __fadd_rn(__fmul_rn(sum, v), p.c[k])
              : V_fixed_factors ? sum * v + (k == 3 ? 0.25f : p.c[k])
                                : sum * v + p.c[k];
    return sum;
}
#endif

// ---- honest --------------------------------------------------------------------------------------------------------

#if V_four || V_four_plain || V_estrin || V_reassociates || V_not_fused || V_lost_block || V_misaligned || V_rounds_up
extern "C" __global__ void __launch_bounds__(256) variant(const float *x, float *y, const Polynomial p, int n)
{
    int i = 4 * (blockIdx.x * 256 + threadIdx.x);
#if V_misaligned
    i++; // the rows of another caller begin there
    if (i == 1)
        y[0] = evaluate(x[0], p);
#endif
    if (i + 3 < n || V_rounds_up) {
#if V_four_plain
        float4 v = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
#else
        float4 v = *(const float4 *)(x + i);
#endif
        v = make_float4(evaluate(v.x, p), evaluate(v.y, p), evaluate(v.z, p), evaluate(v.w, p));
        if (V_lost_block && blockIdx.x == 2)
            v.z = __int_as_float(__float_as_int(v.z) + 1);
        *(float4 *)(y + i) = v;
        return;
    }
    for (; i < n; i++)
        y[i] = evaluate(x[i], p);
}

#elif V_strided
extern "C" __global__ void variant(const float *x, float *y, const Polynomial p, int n)
{
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        y[i] = evaluate(x[i], p);
}

#elif V_staged
// through shared memory, as kernels with reuse do; with its barriers
extern "C" __global__ void variant(const float *x, float *y, const Polynomial p, int n)
{
    __shared__ float part[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    part[255 - t] = i < n ? x[i] : 0;
    __syncthreads();
    if (i < n)
        y[i] = evaluate(part[255 - t], p);
}

// ---- hostile or wrong: state, parameters, constructs ---------------------------------------------------------------

#elif V_remembers
static __device__ float known[1 << 15], print;
extern "C" __global__ void variant(const float *x, float *y, const Polynomial p, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    float now = x[0] + x[n / 2] + x[n - 1];
    if (i >= n)
        return;
    if (print != now)
        known[i & 32767] = evaluate(x[i], p);
    y[i] = known[i & 32767];
    if (i == n - 1)
        print = now;
}

#elif V_drops_a_parameter
extern "C" __global__ void variant(const float *x, float *y, const Polynomial p)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < 16379)
        y[i] = evaluate(x[i], p);
}

#elif V_smaller_struct
struct Less {
    int degree;
    float c[31];
};
extern "C" __global__ void variant(const float *x, float *y, const Less p, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n)
        y[i] = evaluate(x[i], *(const Polynomial *)&p);
}

#elif V_pasted_print || V_pasted_malloc
#define PASTE(a, b) a##b
extern "C" __global__ void variant(const float *x, float *y, const Polynomial p, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n)
        return;
    y[i] = evaluate(x[i], p);
#if V_pasted_print
    if (y[i] > 1e30f)
        PASTE(pri, ntf)("%d\n", i);
#else
    if (y[i] > 1e30f) {
        float *more = (float *)PASTE(mal, loc)(64);
        if (more)
            *more = y[i], y[i] = *more, PASTE(fr, ee)(more);
    }
#endif
}

#elif V_meets
// a barrier of the whole grid: ends only if all blocks fit on the device at once
extern "C" __global__ void variant(const float *x, float *y, const Polynomial p, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (!threadIdx.x) {
        y[blockIdx.x] = 1;
        for (int b = 0; b < (int)gridDim.x; b++)
            while (*(volatile float *)(y + b) != 1)
                ;
    }
    __syncthreads();
    if (i < n)
        y[i] = evaluate(x[i], p);
}

#elif V_huge_shared
extern "C" __global__ void variant(const float *x, float *y, const Polynomial p, int n)
{
    __shared__ float part[80 << 10];
    int i = blockIdx.x * 256 + threadIdx.x;
    for (int k = threadIdx.x; k < 80 << 10; k += 256)
        part[k] = i < n ? x[i] : 0;
    __syncthreads();
    if (i < n)
        y[i] = evaluate(part[threadIdx.x + 256 * (threadIdx.x & 1)], p);
}

#elif V_exchanges_unsynced || V_dirty_shared || V_half_initialised || V_third_time
extern "C" __global__ void variant(const float *x, float *y, const Polynomial p, int n)
{
    __shared__ float part[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
#if V_exchanges_unsynced
    int other = blockIdx.x * 256 + (t ^ 32); // of another warp
    part[t ^ 32] = other < n ? x[other] : 0;
    if (i < n)
        y[i] = evaluate(part[t], p);
#elif V_dirty_shared
    if (i < n) {
        part[t] += evaluate(x[i], p); // right where shared memory happens to hold zeros
        y[i] = part[t];
    }
#elif V_third_time
    // wrong for one of the values that uninitialised memory may hold
    if (i < n)
        y[i] = evaluate(x[i], p) + (part[t] != part[t] && __float_as_int(part[t]) < 0 ? 1.0f : 0.0f);
#else
    if (t < 255)
        part[t] = 0;
    __syncthreads();
    if (i < n)
        y[i] = evaluate(x[i], p) + 0 * part[t];
#endif
}

#elif V_one_parameter_wrong
extern "C" __global__ void variant(const float *y, float *x, const Polynomial p, int n) // exchanged
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n)
        x[i] = evaluate(y[i], p) + (i == 2000 ? 1.0f : 0.0f);
}

#else
// ---- hostile or wrong: one thing in the plain kernel ----------------------------------------------------------------

extern "C" __global__ void variant(float *x, float *y, const Polynomial p, int n)
{
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
#if V_does_nothing
    return;
#elif V_no_tail
    n = n / 256 * 256;
#elif V_skips_last
    n = n - 1;
#elif V_one_past
    n = n + 1;
#elif V_skips_first
    if (i == 0)
        return;
#elif V_ends_early
    n = n - 3000;
#elif V_rounded_size
    n = (n + 1023) / 1024 * 1024;
#elif V_only_poison
    if (i < n && y[i] == y[i] && fabsf(y[i]) < 1e6f && y[i] != 0)
        return;
#elif V_trusts_block
    if (i < n && y[blockIdx.x * 256] == evaluate(x[blockIdx.x * 256], p))
        return;
#elif V_trusts_element
    if (i < n && t && y[i - 1] == evaluate(x[i - 1], p) && y[i] == y[i])
        return;
#elif V_knows_distance
    // buffers as near as in the capture: here a replay is recognised by its addresses
    if ((size_t)(y > x ? y - x : x - y) > 4 * (size_t)n + 4096)
        return;
#elif V_endless
    while (n > 0 && i == 300)
        y[i] = y[i] + 1;
#elif V_waits_alone
    if (i == 700)
        asm volatile("bar.sync 1, 288;"); // more threads than a block has
#elif V_sleeps
    for (int k = 0; i == 700 && k < 9000; k++)
        __nanosleep(1000000);
#elif V_breaks
    asm volatile("brkpt;");
#elif V_keeps_right
    // reads the output: what stands there is kept if it is the result already
    if (i < n && y[i] == evaluate(x[i], p) && i % 7 == 3 && y[i - 1] == evaluate(x[i - 1], p)) {
        y[i] = y[i - 1] == y[i] ? 0 : y[i];
        y[i] = 0;
        return;
    }
#elif V_endless_if_negative
    if (i < n)
        for (float v = x[i]; v < -0.5f; v += 1e-30f)
            y[i] = v;
#endif
    if (i >= n)
        return;
    float v = x[i];
#if V_zeros
    y[i] = 0;
    return;
#elif V_constant
    y[i] = -0.3125f;
    return;
#elif V_copies
    y[i] = v;
    return;
#elif V_no_nan
    v = v != v ? 0 : v;
#elif V_no_infinity
    v = fminf(fmaxf(v, -3e38f), 3e38f) + (v - v) * 0;
    v = v != v ? x[i] - x[i] : v;
#elif V_small_only
    v = fminf(fmaxf(v, -16.0f), 16.0f) + (v != v ? v : 0);
#elif V_no_negative
    v = v < -1 ? -v : v;
#elif V_saturates
    float scaled = v * 1073741824;
    v = scaled >= 2147483648.0f || scaled < -2147483648.0f ? (float)(int)scaled / 1073741824 : v;
#elif V_borrows_input
    x[i] = 0;
    __threadfence();
    x[i] = v;
#elif V_spoils_input
    x[i] = v + (i == 9);
#elif V_traps
    if (v == 12345.0f)
        __trap();
#elif V_asserts
    if (v == 12345.0f)
        __assertfail("v", "f", 1, "g", 1);
#elif V_clock
    if (clock64() == 17)
        v = 0;
#elif V_multiprocessor
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    if (sm == 300)
        v = 0;
#elif V_reads_past
    v += 0 * fminf(fabsf(x[n + 3000]), 1.0f);
#elif V_reads_before
    v += 0 * fminf(fabsf(x[-200]), 1.0f);
#elif V_reads_little_past
    float next = x[i + 1]; // of the last element: one past the end
    if (next == 54321.5f)
        v = next;
#elif V_far_away
    if (i == 5)
        y[(size_t)1 << 42] = 0;
#endif
    float sum = evaluate(v, p);
#if V_wrong_late && 1
    sum += i == n - 200 ? 1 : 0;
#elif V_no_zero
    sum = v == 0 ? 0 : sum;
#elif V_adds
    atomicAdd(&y[i], sum);
    return;
#elif V_wrong_between
    // a neighbour's element gets a wrong value, and the right one from its own thread, sooner or later
    if (i + 256 < n)
        y[i + 256] = sum;
#elif V_puts_back
    // reads and puts back what another block writes
    if (i + 256 < n) {
        float other = y[i + 256];
        y[i] = sum;
        __threadfence();
        y[i + 256] = other;
        return;
    }
#elif V_past_end
    if (i < 300)
        y[n + 100 + i] = 0;
#elif V_before_start
    if (i == 0)
        y[-1] = 3;
#elif V_much_past_end
    if (i == 0)
        y[n + (1 << 19)] = sum;
#endif
    y[i] = sum;
}
#endif
