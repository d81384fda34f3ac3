/* Exact specialisation: reads of pinned scalars and launch dimensions become constants, the rest of
 * the source stays, and ptxas takes what comes out. */
#include "code_fixture.h"

#include "code/passes.h"

static const char source[] =
    "#include <cuda_fp16.h>\n"
    "struct S { char tag; short kind; unsigned char level; int n; float f; double d; float *p; "
    "long long k; };\n"
    "struct __align__(16) V { float4 f; int2 i; };\n"
    "__constant__ float coef[5]; __device__ float other[3];\n"
    "__device__ __noinline__ float helper(float x) { return x * coef[1] + blockDim.x; }\n"
    "__device__ __noinline__ float stray(float x) { return x * other[1]; }\n"
    "extern \"C\" {\n"
    "__global__ void plain(int n, float a, double b, float *p)\n"
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = a * p[i] + (float)b; }\n"
    "__global__ void structure(S s)\n"
    "{ if (threadIdx.x < s.n) s.p[threadIdx.x + s.k] = s.tag + s.kind * s.f + (float)s.d - "
    "s.level; "
    "}\n"
    "__global__ void vectors(float *p, V v)\n"
    "{ p[threadIdx.x] = v.f.x + v.f.y * v.f.z - v.f.w + v.i.x * v.i.y; }\n"
    "__global__ void calls(float *p) { p[threadIdx.x + gridDim.y] = helper(p[0]); }\n"
    "__global__ void unrelated(float *p) { p[0] = stray(p[1]); }\n"
    "__global__ void halves(__half *p, __half h, signed char c, bool b) { p[threadIdx.x] = b ? h : "
    "__int2half_rn(c); }\n"
    "__global__ void pointers(float *p) { p[threadIdx.x] = 1; }\n"
    "}\n";

static char *ptx;
static const char *sass; /* what ptxas compiles for */

struct pinned {
    uint16_t param, offset, size;
    uint64_t value;
};

/* Specialises `entry`, has ptxas look at it, and returns the text; checks what `status` says. */
static char *specialise(const char *entry, const struct kg_launch *launch,
                        const struct pinned *pinned, unsigned count, kg_status status,
                        unsigned expected)
{
    struct kernel_model model;
    struct image_code code;
    struct kg_bytes out;
    struct kg_scalar scalars[16];
    unsigned done[PASS_COUNT];
    for (unsigned i = 0; i < count; i++)
        scalars[i] = (struct kg_scalar){pinned[i].param, pinned[i].offset, pinned[i].size,
                                        pinned[i].value, 0};
    CHECK(image_select(ptx, 0, "sm_100", true, &code) == KG_OK);
    CHECK(kernel_model_make(&code, entry, &model) == KG_OK);
    kg_status got = ptx_specialise(ptx, entry, launch, model.params, model.param_count, scalars,
                                   count, &out, done);
    CHECK(got == status);
    CHECK(done[PASS_param] + done[PASS_launch] == expected);
    if (out.data) {
        struct kernel_model after;
        struct image_code special;
        CHECK(out.size == strlen((char *)out.data));
        fixture_write("special.ptx", (char *)out.data);
        CHECK(fixture_run(CUDA_ROOT "/bin/ptxas -arch=%s special.ptx -o special.cubin", sass));
        /* The signature is as it was, and there is one entry. */
        CHECK(image_select(out.data, out.size, "sm_100", true, &special) == KG_OK);
        CHECK(kernel_model_make(&special, entry, &after) == KG_OK);
        CHECK(after.param_count == model.param_count &&
              !memcmp(after.params, model.params, after.param_count * sizeof *after.params));
        CHECK(id_equal(&after.id, &model.id) == !expected);
        kernel_model_free(&after);
        image_code_free(&special);
    }
    kernel_model_free(&model);
    image_code_free(&code);
    return (char *)out.data;
}

static unsigned occurrences(const char *text, const char *word)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, word)); at++)
        count++;
    return count;
}

static void check_scalars(void)
{
    struct kg_launch launch = {{1000, 3, 1}, {256, 1, 1}, 0};
    static const struct pinned plain[] = {
        {0, 0, 4, 1000}, {1, 0, 4, 0xbfc00000}, {2, 0, 8, 0x3ff8000000000000}};
    char *text = specialise("plain", &launch, plain, 3, KG_OK, 4);
    CHECK(strstr(text, "0fBFC00000") && strstr(text, "0d3FF8000000000000"));
    CHECK(strstr(text, "mov.u32") && strstr(text, ", 256;") && strstr(text, "0x3E8;"));
    CHECK(!strstr(text, "%ntid") && occurrences(text, "ld.param") == 1);
    CHECK(occurrences(text, ".entry") == 1 && !strstr(text, "coef") && !strstr(text, "stray"));
    free(text);
    text = specialise("plain", NULL, plain, 2, KG_OK, 2);
    CHECK(strstr(text, "%ntid.x") && occurrences(text, "ld.param") == 2);
    free(text);
}

static void check_structures(void)
{
    struct kg_launch launch = {{1, 1, 1}, {64, 1, 1}, 0};
    /* bytes of S: tag 0, kind 2, level 4, n 8, f 12, d 16, p 24, k 32 */
    static const struct pinned all[] = {{0, 0, 8, 0xfffffffffff6ffddull}, /* -35, -10, 246 */
                                        {0, 8, 8, 0x3f80000000000064ull},
                                        {0, 16, 8, 0x4000000000000000ull},
                                        {0, 32, 8, 0xffffffffffffffffull}};
    char *text = specialise("structure", &launch, all, 4, KG_OK, 7);
    CHECK(occurrences(text, "ld.param") == 1);  /* the pointer */
    CHECK(strstr(text, "0xFFFFFFFFFFFFFFFF;")); /* k */
    CHECK(strstr(text, "0xDD;"));               /* tag: loaded as .u8, its sign is seen to later */
    CHECK(strstr(text, "0xFFF6;"));             /* kind */
    free(text);
    /* A load of which only some bytes are known stays. */
    static const struct pinned part[] = {{0, 8, 2, 100}};
    text = specialise("structure", NULL, part, 1, KG_OK, 0);
    free(text);
    static const struct pinned vector[] = {{1, 0, 8, 0x400000003f800000},
                                           {1, 8, 8, 0x4080000040400000},
                                           {1, 16, 8, 0x0000000700000005}};
    /* A newer compiler loads them as two vectors. */
    text = specialise("vectors", NULL, vector, 3, KG_OK, strstr(ptx, "ld.param.v4") ? 2 : 6);
    CHECK(occurrences(text, "ld.param") == 1 && strstr(text, "0f3F800000"));
    free(text);
    static const struct pinned small[] = {{1, 0, 2, 0x3c00}, {2, 0, 1, 0xfe}, {3, 0, 1, 1}};
    text = specialise("halves", NULL, small, 3, KG_OK, 3);
    CHECK(strstr(text, "0x3C00;") && (strstr(text, "0xFFFE;") || strstr(text, "0xFFFFFFFE;")));
    free(text);
}

/* nvcc makes no guarded loads of parameters, and few of vectors; others do. */
static void check_by_hand(void)
{
    static const struct pinned vector[] = {{0, 0, 8, 0x400000003f800000}, {0, 8, 4, 7}};
    static char text[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                         ".global .b32 a, b;\n.extern .global .b32 unused;\n"
                         ".visible .entry k(.param .align 16 .b8 p[16], .param .u64 out) {\n"
                         ".reg .b64 %rd<3>; .reg .f32 %f<3>; .reg .b32 %r<9>; .reg .pred %p;\n"
                         "ld.param.u64 %rd1, [out];\nld.param.v2.f32 {%f1, %f2}, [p];\n"
                         "setp.ne.u32 %p, %r3, 0;\nmov.u32 %r3, %tid.x;\nmov.u32 %r1, 0;\n"
                         "@!%p ld.param.u32 %r1, [p+8];\nld.param.u32 %r2, [p+12];\n"
                         "@%p mov.u32 %r4, %ntid.z; mad.lo.u32 %r5, %r1, %r4, %r2;\n"
                         "st.global.u32 [%rd1], %r5; st.global.f32 [b], %f1; ret; }\n";
    struct kg_launch launch = {{1, 2, 3}, {4, 5, 6}, 0};
    char *kept = ptx;
    ptx = text;
    char *out = specialise("k", &launch, vector, 2, KG_OK, 3);
    CHECK(strstr(out, "mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000;"));
    CHECK(strstr(out, "@!%p mov.b32 %r1, 0x7;"));
    CHECK(strstr(out, "ld.param.u32 %r2, [p+12];") && strstr(out, "@%p mov.u32 %r4, 6;"));
    CHECK(strstr(out, ".global .b32 a, b;") && !strstr(out, "unused"));
    free(out);
    ptx = kept;
}

static void check_functions(void)
{
    struct kg_launch launch = {{8, 5, 1}, {64, 1, 1}, 0};
    char *text = specialise("calls", &launch, NULL, 0, KG_OK, 2);
    CHECK(strstr(text, "coef") && strstr(text, "helper") && !strstr(text, "stray") &&
          !strstr(text, "other") && !strstr(text, "unrelated"));
    CHECK(!strstr(text, "%ntid") && !strstr(text, "%nctaid"));
    free(text);
    text = specialise("pointers", &launch, NULL, 0, KG_OK, 0);
    CHECK(strstr(text, "pointers") && !strstr(text, "unrelated"));
    free(text);
}

static void check_refusals(void)
{
    struct kg_bytes out;
    unsigned done[PASS_COUNT];
    struct kg_param params[] = {{0, 8}}, wrong[] = {{0, 4}};
    struct kg_scalar beyond = {0, 4, 8, 0, 0};
    CHECK(ptx_specialise(ptx, "nothing", NULL, params, 1, NULL, 0, &out, done) == KG_NOT_FOUND);
    CHECK(ptx_specialise(ptx, "pointers", NULL, wrong, 1, NULL, 0, &out, done) == KG_BAD_INPUT);
    CHECK(ptx_specialise(ptx, "pointers", NULL, params, 1, &beyond, 1, &out, done) == KG_BAD_INPUT);
    CHECK(ptx_specialise("garbage", "pointers", NULL, params, 1, NULL, 0, &out, done) ==
          KG_BAD_INPUT);
}

int main(void)
{
    static const char *const flags[] = {"-arch=compute_80", "-arch=compute_75 -lineinfo",
                                        "-arch=compute_90", "-arch=compute_100"};
    fixture_begin();
    fixture_write("a.cu", source);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        CHECK(fixture_run(NVCC " -ptx %s a.cu -o a.ptx", flags[i]));
        struct kg_bytes text = fixture_read("a.ptx");
        ptx = (char *)text.data;
        sass = strstr(flags[i], "100") ? "sm_100" : "sm_90";
        check_scalars();
        check_structures();
        check_functions();
        check_by_hand();
        check_refusals();
        bytes_free(&text);
    }
    fixture_end();
    return test_result();
}
