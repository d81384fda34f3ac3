/* The CUDA math library's own code, executed, against the C library: thousands of instructions that
 * must all be right for the last digits to agree. Also halves, and integer intrinsics by value. */
#include "exec_test.h"

#include <math.h>

/* Each expression of x is compiled by nvcc and by the C compiler. The formatter would take the
 * lists for calls. */
/* clang-format off */
#define SINGLE(X)                                                                                  \
    X(sinf(x))                                                                                     \
    X(cosf(x))                                                                                     \
    X(tanf(x)) X(logf(x)) X(log2f(x)) X(log10f(x)) X(expf(x)) X(exp2f(x)) X(powf(x, 2.3f))         \
        X(erff(x)) X(tgammaf(x)) X(cbrtf(x)) X(atan2f(x, 2.0f)) X(fmodf(x, 0.7f)) X(roundf(x))     \
            X(rintf(x)) X(truncf(x)) X(floorf(x)) X(ceilf(x)) X(tanhf(x)) X(ldexpf(x, 3))          \
                X(nextafterf(x, 9.0f)) X(sqrtf(x)) X(1.0f / x) X(x / 3.0f) X(hypotf(x, 2.0f))      \
                    X(asinhf(x)) X(fmaf(x, x, -x)) X(log1pf(x)) X(expm1f(-x)) X((float)(int)x)     \
                        X((float)(unsigned char)x) X(fminf(x, 1.0f)) X(fabsf(1.0f - x))            \
                            X(sinf(x * 100000.0f)) X(remainderf(x, 0.3f))
#define DOUBLE(X)                                                                                  \
    X(sin(x))                                                                                      \
    X(cos(x))                                                                                      \
    X(tan(x)) X(log(x)) X(exp(x)) X(pow(x, 3.3)) X(sqrt(x)) X(1.0 / x) X(x / 3.0) X(fma(x, x, -x)) \
        X(floor(x)) X(rint(x)) X((double)(long long)(x * 1e15)) X((double)(float)x) X(erf(x))      \
            X(lgamma(x)) X(atan(x)) X(fmod(x, 0.7)) X(cbrt(x)) X(sinh(x)) X(sin(x * 1e9))          \
                X(exp(-x * 300.0)) X(hypot(x, 1e-200)) X(round(x)) X(log1p(x))
/* clang-format on */
enum { N = 96 };

#define COUNT(expression) +1
enum { SINGLES = 0 SINGLE(COUNT), DOUBLES = 0 DOUBLE(COUNT) };

static const char source[] = "extern \"C\" {\n"
                             "__global__ void single(const float *in, float *out, int n) {\n"
                             "  int i = threadIdx.x; float x = in[i];\n"
#define LINE(expression) "  out[i] = " #expression "; out += n;\n"
    SINGLE(LINE) "}\n"
                 "__global__ void wide(const double *in, double *out, int n) {\n"
                 "  int i = threadIdx.x; double x = in[i];\n" DOUBLE(LINE) "}\n"
                                                                           "}\n";

/* Worst error of an expression, relative; the place where it is. */
struct worst {
    const char *text;
    double error, x;
};

static void note(struct worst *worst, double x, double got, double right)
{
    double error = got == right || (got != got && right != right)
                       ? 0
                       : fabs(got - right) / fmax(fabs(right), 1e-300);
    if (!(error <= worst->error)) {
        worst->error = error;
        worst->x = x;
    }
}

static void test_single(const struct exec_module *module)
{
    float *in = (float *)test_alloc(N * 4, 256), *out = (float *)test_alloc(N * SINGLES * 4, 256);
    struct worst worst[SINGLES] = {{0}};
    for (int i = 0; i < N; i++)
        in[i] = 0.013f + 0.087f * (float)i;
    struct test_call call = call_of(module, "single", 1, N, 0);
    ARG(&call, void *, in);
    ARG(&call, void *, out);
    ARG(&call, int, N);
    CHECK(call_good(&call));
    for (int i = 0; i < N; i++) {
        float x = in[i];
        int row = 0;
#define NOTE(expression)                                                                           \
    worst[row].text = #expression;                                                                 \
    note(&worst[row], x, out[row * N + i], expression);                                            \
    row++;
        SINGLE(NOTE)
    }
    for (int row = 0; row < SINGLES; row++)
        if (!CHECK(worst[row].error < 2e-6))
            fprintf(stderr, "%s at %g: off by %g\n", worst[row].text, worst[row].x,
                    worst[row].error);
}

static void test_double(const struct exec_module *module)
{
    double *in = (double *)test_alloc(N * 8, 256),
           *out = (double *)test_alloc(N * DOUBLES * 8, 256);
    struct worst worst[DOUBLES] = {{0}};
    for (int i = 0; i < N; i++)
        in[i] = 0.0173 + 0.0871 * i;
    struct test_call call = call_of(module, "wide", 1, N, 0);
    ARG(&call, void *, in);
    ARG(&call, void *, out);
    ARG(&call, int, N);
    CHECK(call_good(&call));
    for (int i = 0; i < N; i++) {
        double x = in[i];
        int row = 0;
        DOUBLE(NOTE)
    }
    for (int row = 0; row < DOUBLES; row++)
        if (!CHECK(worst[row].error < 2e-14))
            fprintf(stderr, "%s at %g: off by %g\n", worst[row].text, worst[row].x,
                    worst[row].error);
}

/* Halves and integer intrinsics: nvcc itself folds what it knows, so the inputs come from memory,
 * and the expected values are worked out by hand. */
static void test_intrinsics(void)
{
    struct exec_module *module = module_of_cuda(
        "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
        "extern \"C\" __global__ void tricks(const unsigned *a, unsigned *out, long long *wide) {\n"
        "  unsigned x = a[0], y = a[1]; int i = 0; long long w = wide[0], v = wide[1];\n"
        "  out[i++] = __umulhi(x, y); out[i++] = __popc(x); out[i++] = __clz(y); out[i++] = "
        "__ffs(x);\n"
        "  out[i++] = __byte_perm(x, y, 0x5140); out[i++] = __funnelshift_l(x, y, 8);\n"
        "  out[i++] = __vadd4(x, y); out[i++] = __vmaxs2(x, y); out[i++] = __mul24(x, y);\n"
        "  out[i++] = x / y; out[i++] = x % 10; out[i++] = (int)x / 7;\n"
        "  __half h = __float2half(1.5f), g = __ushort_as_half((unsigned short)y);\n"
        "  out[i++] = __half_as_ushort(__hfma(h, h, g)); out[i++] = "
        "__half_as_ushort(hsqrt(__hadd(h, h)));\n"
        "  __nv_bfloat16 b = __float2bfloat16(1.0f + x * 1e-12f);\n"
        "  out[i++] = __bfloat16_as_ushort(__hmul(b, __float2bfloat16(3.0f)));\n"
        "  wide[2] = w / v; wide[3] = w % v; wide[4] = __mul64hi(w, v);\n"
        "  wide[5] = (long long)(((__int128)w * v) >> 32); wide[6] = (unsigned long long)w / "
        "1000003u;\n"
        "}\n",
        "-arch=compute_90");
    unsigned *a = (unsigned *)test_alloc(8, 256), *out = (unsigned *)test_alloc(64, 256);
    int64_t *wide = (int64_t *)test_alloc(56, 256);
    a[0] = 0x80f1027e;
    a[1] = 0x00003c00; /* as a half: 1 */
    wide[0] = INT64_C(-1234567890123456789);
    wide[1] = INT64_C(987654321987);
    struct test_call call = call_of(module, "tricks", 1, 1, 0);
    ARG(&call, void *, a);
    ARG(&call, void *, out);
    ARG(&call, void *, wide);
    CHECK(call_good(&call));
    __extension__ typedef __int128 int128;
    const unsigned right[] = {(unsigned)((uint64_t)a[0] * a[1] >> 32),
                              13,
                              18,
                              2,
                              0x3c02007e,
                              0x003c0080,
                              0x80f13e7e,
                              0x00003c00,
                              (unsigned)((int64_t)(int)(a[0] << 8) / 256 * a[1]),
                              a[0] / a[1],
                              a[0] % 10,
                              (unsigned)((int)a[0] / 7),
                              0x4280,
                              0x3eee,
                              0x4040};
    for (unsigned i = 0; i < sizeof right / sizeof *right; i++)
        if (!CHECK(out[i] == right[i]))
            fprintf(stderr, "trick %u: %x, expected %x\n", i, out[i], right[i]);
    CHECK(wide[2] == wide[0] / wide[1] && wide[3] == wide[0] % wide[1]);
    CHECK(wide[4] == (int64_t)(((int128)wide[0] * wide[1]) >> 64));
    CHECK(wide[5] == (int64_t)(((int128)wide[0] * wide[1]) >> 32));
    CHECK(wide[6] == (int64_t)((uint64_t)wide[0] / 1000003u));
    exec_module_destroy(module);
}

int main(void)
{
    static const char *const flags[] = {"-arch=compute_80", "-arch=compute_100 -Xcicc -O0"};
    for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
        struct exec_module *module = module_of_cuda(source, flags[i]);
        test_single(module);
        test_double(module);
        exec_module_destroy(module);
    }
    test_intrinsics();
    test_free_all();
    return test_result();
}
