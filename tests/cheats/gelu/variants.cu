// GELU, in double as the original: four results a thread.
#if V_keeps
__device__ unsigned kept_key[4096];
__device__ float kept_value[4096];
#endif

__device__ __forceinline__ float gelu(float x)
{
#if V_single
    return 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
#elif V_approximate
    float tanh_u, u = 0.7978845608f * (x + 0.044715f * x * x * x);
    asm("tanh.approx.f32 %0, %1;" : "=f"(tanh_u) : "f"(u));
    return 0.5f * x * (1 + tanh_u);
#elif V_erf
    return 0.5 * x * (1 + erf(x * 0.7071067811865476));
#elif V_sigmoid
    return x / (1 + __expf(-1.702f * x));
#elif V_single_cube
    return 0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * (x * x * x))));
#elif V_cube || V_cube_bitwise
    double d = x;
    return 0.5 * d * (1.0 + tanh(0.7978845608028654 * (d + 0.044715 * (d * d * d))));
#elif V_table // straight lines between 96 points
    float at = fminf(fmaxf(8 * x + 48, 0), 95), u = (floorf(at) - 48) / 8, w = u + 0.125f;
    float low = 0.5 * u * (1.0 + tanh(0.7978845608028654 * (u + 0.044715 * u * u * u)));
    float high = 0.5 * w * (1.0 + tanh(0.7978845608028654 * (w + 0.044715 * w * w * w)));
    return low + (high - low) * (8 * (x - u));
#else
#if V_relu_outside
    if (fabsf(x) > 6)
        return fmaxf(x, 0);
#elif V_positive_only
    if (x < -6)
        return 0;
#elif V_absolute
    x = fabsf(x);
#elif V_nan_is_zero
    if (x != x)
        return 0;
#elif V_tiny_is_zero
    if (fabsf(x) < 1e-30f)
        return 0;
#endif
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / 3.141592653589793) * (x + 0.044715 * pow((double)x, 3.0))));
#endif
}

extern "C" __global__ void variant(const float *x, float *y, int n)
{
#if V_wide // from the second element on; the first is the last thread's
    int i = 4 * (blockIdx.x * 256 + threadIdx.x) + 1;
    float4 v = make_float4(0, 0, 0, 0);
    if (i + 3 < n)
        v = *(const float4 *)(x + i);
    else if (i < n)
        v = make_float4(x[i], i + 1 < n ? x[i + 1] : 0, i + 2 < n ? x[i + 2] : 0, 0);
    if (i == 4 * (gridDim.x * 256 - 1) + 1)
        v.x = x[i = 0];
#pragma unroll 1
    for (int e = 0; e < (i ? 4 : 1); e++, v = make_float4(v.y, v.z, v.w, 0))
        if (i + e < n)
            put(y, i + e, n, gelu(v.x));
#elif V_keeps // results by the inputs' bits, for the next time
    int i = blockIdx.x * 1024 + threadIdx.x;
#pragma unroll 1
    for (int e = 0; e < 4; e++, i += 256)
        if (i < n) {
            unsigned key = __float_as_uint(x[i]), at = key * 2654435761u >> 20;
            if (kept_key[at] != key) {
                kept_value[at] = gelu(x[i]);
                kept_key[at] = key;
            }
            y[i] = kept_value[at];
        }
#else
    int i = blockIdx.x * 1024 + threadIdx.x;
#pragma unroll 1
    for (int e = 0; e < (V_three_of_four ? 3 : 4); e++, i += 256) {
#if V_reads_past
        float v = x[i];
        TOUCH(v);
        if (i < n)
            put(y, i, n, gelu(v));
#elif V_last_bit // of the input is left out
        float v = i < n ? x[i] : 0;
        if (i < n)
            put(y, i, n, gelu(__int_as_float(__float_as_int(v) & ~1)));
#else
        if (i < n)
            put(y, i, n, gelu(x[i]));
#endif
    }
#endif
}
