// Variants of the four negative controls, elementwise kernels that leave nothing to gain: samples/vector_add, relu, residual, adamw.
// Each control says what an element is (ELEMENT), what it becomes, and where it goes; the faults are the same for all.
#if S_vector_add
#define PARAMS float *a, float *b, float *c, int n
#define COUNT n
#define IN a
#define OUT c
typedef float ELEMENT;
#define VALUE(i) becomes(a[i], b[i])
static __device__ float becomes(float x, float y)
{
    return x + y;
}
#elif S_relu
#define PARAMS float *x, float *y, int n
#define COUNT n
#define IN x
#define OUT y
typedef float ELEMENT;
#define VALUE(i) becomes(x[i], 0)
static __device__ float becomes(float x, float y)
{
    return x > 0 ? x : 0;
}
#elif S_residual
#define PARAMS float4 *x, float4 *delta, int n4
#define COUNT n4
#define IN delta
#define OUT x
typedef float4 ELEMENT;
#define VALUE(i) becomes(x[i], delta[i])
static __device__ float4 becomes(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
#elif S_adamw
#define PARAMS                                                                                                             \
    float *weight, float *mean, float *square, float *gradient, int n, float rate, float beta1, float beta2,             \
        float correction1, float correction2, float epsilon, float decay
#define COUNT n
#define IN gradient
#define OUT weight
typedef float ELEMENT;
#define VALUE(i) moved(weight, mean, square, gradient[i], i, rate, beta1, beta2, correction1, correction2, epsilon, decay)
static __device__ float moved(float *weight, float *mean, float *square, float g, int i, float rate, float beta1,
                              float beta2, float correction1, float correction2, float epsilon, float decay)
{
    float w = weight[i], m = beta1 * mean[i] + (1 - beta1) * g, s = beta2 * square[i] + (1 - beta2) * g * g;
    mean[i] = V_moments_exchanged ? s : m;
    square[i] = V_moments_exchanged ? m : V_one_output_less ? square[i] : s;
    if (V_divides_once)
        return w - rate * (m / (correction1 * (sqrtf(s / correction2) + epsilon)) + decay * w);
    if (V_fixed_scalar)
        decay = 0.1f;
    if (V_epsilon_lost)
        epsilon = 0;
    return w - rate * (m / correction1 / (sqrtf(s / correction2) + epsilon) + decay * w);
}
#endif

static __device__ float &first(float &v)
{
    return v;
}
static __device__ float &first(float4 &v)
{
    return v.x;
}

#if V_strided || V_two_each || V_blocks_first
extern "C" __global__ void variant(PARAMS)
{
#if V_strided
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < COUNT; i += gridDim.x * blockDim.x)
        OUT[i] = VALUE(i);
#elif V_two_each
    for (int k = 0; k < 2; k++) {
        int i = (2 * blockIdx.x + k) * blockDim.x + threadIdx.x;
        if (i < COUNT)
            OUT[i] = VALUE(i);
    }
#else
    int i = (gridDim.x - 1 - blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < COUNT)
        OUT[i] = VALUE(i);
#endif
}

#else
#if V_remembers
static __device__ ELEMENT known[1 << 14];
#elif V_counts_launches
static __device__ int launches;
#endif

extern "C" __global__ void variant(PARAMS)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, end = COUNT;
#if V_does_nothing
    return;
#elif V_skips_last
    end--;
#elif V_skips_first
    if (i == 0)
        return;
#elif V_no_tail
    end = end / 256 * 256;
#elif V_one_past
    end++;
#elif V_loses_a_block
    if (blockIdx.x == 9)
        return;
#elif V_counts_launches
    if (i == 0)
        launches++;
#endif
    if (i >= end)
        return;
#if V_far_away
    if (i == 5)
        first(OUT[(size_t)1 << 40]) = 0;
#elif V_endless
    while (i == 99)
        first(OUT[i]) += 1;
#elif V_only_poison
    if (first(OUT[i]) > -100 && first(OUT[i]) < 100 && first(OUT[i]) != 0)
        return;
#elif V_trusts_block
    if (threadIdx.x % 32 && first(OUT[i - 1]) == first(OUT[i - 1]) && fabsf(first(OUT[i])) < 100)
        return;
#endif
#if V_reads_past
    if (first(IN[i + COUNT]) == 54321.5f)
        return;
#elif V_reads_before
    if (first(IN[i - 60]) == 54321.5f)
        return;
#elif V_borrows_input
    ELEMENT kept = IN[i];
    first(IN[i]) = 0;
    __threadfence();
    IN[i] = kept;
#elif V_unsynced
    __shared__ ELEMENT part[256];
    part[threadIdx.x] = IN[i];
    ELEMENT other = part[threadIdx.x ^ 32];
    if (first(other) == 54321.5f)
        return;
#elif V_dirty_shared
    __shared__ float part[256];
    part[threadIdx.x] += 1;
    if (part[threadIdx.x] != 1)
        return;
#elif V_too_much_shared
    __shared__ float part[60 << 10];
    part[threadIdx.x * 200] = first(IN[i]);
    __syncthreads();
    if (part[(threadIdx.x * 200 + 200) % (60 << 10)] == 54321.5f)
        return;
#endif
    ELEMENT v = VALUE(i);
#if V_zeros
    v = ELEMENT();
#elif V_constant
    v = ELEMENT();
    first(v) = 0.25f;
#elif V_copies
    v = IN[i];
#elif V_one_wrong
    if (i == COUNT - 77)
        first(v) = __int_as_float(__float_as_int(first(v)) ^ 1);
#elif V_remembers
    if (first(known[i & 16383]) == 0)
        known[i & 16383] = v;
    v = known[i & 16383];
#elif V_no_nan
    first(v) = first(v) == first(v) ? first(v) : 0;
#elif V_no_infinity
    if (fabsf(first(v)) > 3.4e38f)
        first(v) = copysignf(3.4e38f, first(v));
#elif V_small_only
    if (fabsf(first(v)) > 4096)
        first(v) = copysignf(4096.0f, first(v));
#elif V_small_to_zero
    if (fabsf(first(v)) < 1e-25f)
        first(v) = 0;
#elif V_large_negative
    if (first(v) < -1e6f)
        first(v) = -first(v);
#elif V_half
    asm("{ .reg .f16 h; cvt.rn.f16.f32 h, %0; add.f16 h, h, h; cvt.f32.f16 %0, h; }" : "+f"(first(v)));
    first(v) *= 0.5f;
#elif V_cut
    first(v) = __int_as_float(__float_as_int(first(v)) & ~0xff);
#elif V_adds
    first(v) += first(OUT[i]);
#elif V_multiprocessor
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    if (sm == 300)
        return;
#elif V_asserts
    if (first(v) == 54321.5f)
        __trap();
#elif V_prints
#define PASTE(a, b) a##b
    if (first(v) == 54321.5f)
        PASTE(pri, ntf)("found\n");
#endif
#if V_atomics
    atomicAdd(&first(OUT[i]), first(v));
    return;
#elif V_past_end
    if (i < 50)
        OUT[COUNT + 7 + i] = v;
#elif V_before_start
    if (i < 50)
        OUT[-1 - i] = v;
#elif V_next_too
    if (i + 256 < COUNT)
        OUT[i + 256] = v; // another block's
#elif V_eight_shifted
    *(float2 *)((float *)(OUT + i) + 1) = make_float2(first(v), first(v));
    return;
#elif V_low_half
    ((unsigned short *)(OUT + i))[0] = (unsigned short)__float_as_int(first(v));
    return;
#endif
    OUT[i] = v;
}
#endif
