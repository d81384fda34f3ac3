// Arithmetic of floats, halves and narrow floats: rounding, divisions that rewrites must not touch, conversions.
// flags: -arch=compute_90 -fmad=true
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#define GLOBAL extern "C" __global__ void

GLOBAL rounding(float *out, const float *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = in[i], b = in[(i + 1) % 128], s = __fadd_rz(a, b) + __fmul_ru(a, b) - __fsub_rd(a, b);
    s += __fdiv_rn(a, b) + __frcp_ru(b) + __fsqrt_rd(fabsf(a)) + __fmaf_rz(a, b, s);
    out[i] = s + rintf(a * 100) + floorf(b * 7) + ceilf(a) + truncf(b * 3) + nearbyintf(a);
}

// divisions by powers of two and by one, by a parameter and by data
GLOBAL divisions(float *out, const float *in, float by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i] / 8 + in[i] / by + in[i] / 1.0f + in[i] / 3 + 1.0f / in[i];
}

GLOBAL divisions64(double *out, const double *in, double by, double h)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i] / by + (in[i] - h / 2) / (h * h) + sqrt(fabs(in[i])) + in[i] / 0.25;
}

// single-precision functions, by their full versions
GLOBAL functions(float *out, const float *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i];
    out[i] = expf(x) + logf(x + 2) + sinf(x) * cosf(x) + powf(x + 2, 1.5f) + tanhf(x) + atan2f(x, 2);
}

GLOBAL fast(float *out, const float *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i];
    out[i] = __expf(x) + __logf(x + 2) + __sinf(x) + __cosf(x) + __fdividef(x, 3) + rsqrtf(x + 2);
}

GLOBAL functions64(double *out, const double *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = exp(in[i]) + log(in[i] + 2) + sin(in[i]) + pow(in[i] + 2, 2.5);
}

// mixed signs of zero, NaN and infinity: min, max, comparisons, copysign
GLOBAL specials(float *out, const unsigned *bits)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = __uint_as_float(bits[i]), b = __uint_as_float(bits[i] << 8);
    float s = fminf(a, b) > fmaxf(a, b) ? 1 : copysignf(2, a);
    out[i] = isnan(a) ? 5 : isinf(b) ? 6 : a < b || !(a >= b) ? s : -s;
}

GLOBAL halves(__half2 *out, const __half2 *in, __half scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __half2 x = in[i], s = __half2half2(scale);
    x = __hfma2(x, s, __hadd2(x, s));
    out[i] = __hmax2(x, __hmul2(x, __float2half2_rn(0.5f)));
}

GLOBAL bfloats(__nv_bfloat16 *out, const __nv_bfloat16 *in, const float *wide)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = __hadd(in[i], __float2bfloat16(wide[i] * 2));
}

GLOBAL eighths(unsigned short *out, const float2 *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = __nv_cvt_float2_to_fp8x2(in[i], __NV_SATFINITE, __NV_E4M3);
    __half2_raw back = __nv_cvt_fp8x2_to_halfraw2(out[i], __NV_E4M3);
    out[i] ^= back.x ^ back.y;
}

// conversions between integers and floats, with saturation and every rounding
GLOBAL conversions(int *out, const float *in, const double *wide)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i] * 1e9f;
    double y = wide[i] * 1e12;
    int s = __float2int_rd(x) ^ __float2int_ru(x) ^ __float2int_rz(x) ^ __float2int_rn(x * 1e4f);
    s ^= (int)__double2ll_rn(y) ^ (int)__double2uint_rz(y) ^ (signed char)(int)in[i];
    out[i] = s ^ __float_as_int(__ll2float_rn((long long)y)) ^ __float_as_int(__saturatef(in[i]));
}

// what depends on the data and nothing else: an exponent that makes a loop longer
GLOBAL iterations(int *out, const float *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, count = 0;
    for (float x = fabsf(in[i]) + 1.0f / 1024; x < 1; x = x * 1.5f)
        count++;
    out[i] = count;
}

GLOBAL wide_integers(unsigned long long *out, const unsigned long long *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long a = in[i], b = in[(i + 5) % 128] | 1;
    out[i] = __umul64hi(a, b) + a / b + a % b + __popcll(a) + __clzll(b) + __brevll(a) + (long long)a / -3;
}
