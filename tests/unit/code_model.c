/* Kernel models of what nvcc makes: parameter layout, pointers told from scalars, globals, launch
 * bounds, and the kernel id over changes that must and must not matter. */
#include "code_fixture.h"

static struct kernel_model model_of(const char *object, const char *section, const char *arch,
                                    bool ptx_only, const char *entry)
{
    struct image_code code;
    struct kernel_model model = {0};
    struct kg_bytes fatbin = fixture_section(object, section);
    CHECK(image_select(fatbin.data, fatbin.size, arch, ptx_only, &code) == KG_OK);
    CHECK(kernel_model_make(&code, entry, &model) == KG_OK);
    image_code_free(&code);
    bytes_free(&fatbin);
    return model;
}

/* pointers as "param.offset param.offset", layout as "offset+size …" */
static bool has(const struct kernel_model *model, const char *layout, const char *pointers)
{
    char text[512] = "", words[512] = "";
    for (uint32_t i = 0; i < model->param_count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u+%u", i ? " " : "",
                 model->params[i].offset, model->params[i].size);
    for (uint32_t i = 0; i < model->pointer_count; i++)
        snprintf(words + strlen(words), sizeof words - strlen(words), "%s%u.%u", i ? " " : "",
                 model->pointers[i].param, model->pointers[i].offset);
    bool good = !strcmp(text, layout) && !strcmp(words, pointers);
    if (!good)
        fprintf(stderr, "%s: layout '%s' pointers '%s'\n", model->entry, text, words);
    return good;
}

static const char parameters[] =
    "struct S { int n; float *p; double q[3]; const float *r; };\n"
    "struct T { float *rows[4]; int n; };\n"
    "struct __align__(16) V { float *a; long long n; float *b; long long m; };\n"
    "__device__ __noinline__ float helper(const float *p, long long i) { return p[i] * 2; }\n"
    "__device__ __noinline__ float *choose(float *p, float *q, int i) { return i & 1 ? p : q; }\n"
    "extern \"C\" {\n"
    "__global__ void plain(int n, float a, const float *x, float *y)\n"
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i] + y[i]; }\n"
    "__global__ void index64(char *p, long long i, unsigned long long j, char *q)\n"
    "{ p[i] = q[j + threadIdx.x]; }\n"
    "__global__ void scaled(const double *p, long long i, double *q, size_t n)\n"
    "{ if (threadIdx.x < n) q[i * 3 + threadIdx.x] = p[n - i]; }\n"
    "__global__ void by_value(S s, long long off)\n"
    "{ int i = threadIdx.x; if (i < s.n) s.p[i + off] = s.r[i] * (float)s.q[1]; }\n"
    "__global__ void table(T t, int which) { t.rows[which][threadIdx.x] = t.n; }\n"
    "__global__ void vectors(V v) { v.a[v.n] = v.b[v.m + threadIdx.x]; }\n"
    "__global__ void called(float *out, const float *in, long long k)\n"
    "{ out[threadIdx.x] = helper(in, k); }\n"
    "__global__ void selected(float *a, float *b, int i, long long n)\n"
    "{ *choose(a, b, i) = n; float *p = i & 2 ? a : b; for (; n; n--) *p++ = 1; }\n"
    "__global__ void walk(const float *p, const float *end, float *out)\n"
    "{ float s = 0; while (p < end) s += *p++; *out = s; }\n"
    "__global__ void atomics(int *p, unsigned long long *q, unsigned long long v)\n"
    "{ atomicAdd(p, 1); atomicMax(q, v); }\n"
    "__global__ void unused(float *p, float *q, long long n) { if (n > 3) *q = n; }\n"
    "__global__ void nested(float **p, long long n) { p[threadIdx.x][n] = 0; }\n"
    "__global__ void none() { }\n"
    "}\n";

static void check_pointers(const char *flags)
{
    static const struct {
        const char *entry, *layout, *pointers;
    } expected[] = {
        {"plain", "0+4 4+4 8+8 16+8", "2.0 3.0"},
        {"index64", "0+8 8+8 16+8 24+8", "0.0 3.0"},
        {"scaled", "0+8 8+8 16+8 24+8", "0.0 2.0"},
        {"by_value", "0+48 48+8", "0.8 0.40"},
        {"table", "0+40 40+4", "0.0 0.8 0.16 0.24"},
        {"vectors", "0+32", "0.0 0.16"},
        {"called", "0+8 8+8 16+8", "0.0 1.0"},
        {"selected", "0+8 8+8 16+4 24+8", "0.0 1.0"},
        {"walk", "0+8 8+8 16+8", "0.0 2.0"},
        {"atomics", "0+8 8+8 16+8", "0.0 1.0"},
        {"unused", "0+8 8+8 16+8", "1.0"},
        {"nested", "0+8 8+8", "0.0"},
        {"none", "", ""},
    };
    CHECK(fixture_run(NVCC " -c %s params.cu -o params.o", flags));
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        struct kernel_model model =
            model_of("params.o", ".nv_fatbin", "sm_100", true, expected[i].entry);
        CHECK(has(&model, expected[i].layout, expected[i].pointers));
        CHECK(!model.ineligible);
        kernel_model_free(&model);
    }
}

/* By hand: no cvta anywhere. A word that is an address by itself proves the other an offset; where
 * nothing proves anything, both stay. */
static void check_undecided(void)
{
    static const char head[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n"
        ".visible .entry k(.param .u64 p, .param .u64 i) {\n"
        ".reg .b64 %rd<9>;\n.reg .b32 %r<9>;\n"
        "ld.param.u64 %rd1, [p];\nld.param.u64 %rd2, [i];\n"
        "add.s64 %rd3, %rd1, %rd2;\nld.u8 %r1, [%rd3];\nst.u8 [%rd3], %r1;\n";
    char text[1024];
    for (int proof = 0; proof < 2; proof++) {
        struct image_code code;
        struct kernel_model model;
        snprintf(text, sizeof text, "%s%sret;\n}\n", head, proof ? "ld.u8 %r2, [%rd1];\n" : "");
        CHECK(image_select(text, 0, "sm_90", false, &code) == KG_OK);
        CHECK(kernel_model_make(&code, "k", &model) == KG_OK);
        CHECK(has(&model, "0+8 8+8", proof ? "0.0" : "0.0 1.0"));
        kernel_model_free(&model);
        CHECK(kernel_model_make(&code, "absent", &model) == KG_NOT_FOUND);
        image_code_free(&code);
    }
}

static const char variables[] =
    "__constant__ float coef[5]; __device__ int counter; __device__ float other[7];\n"
    "__device__ __noinline__ float third(int i) { return other[i]; }\n"
    "extern \"C\" __global__ void __launch_bounds__(256) both(float *p)\n"
    "{ __shared__ float s[96]; s[threadIdx.x % 96] = p[threadIdx.x]; __syncthreads();\n"
    "  p[threadIdx.x] = coef[threadIdx.x % 5] + s[95 - threadIdx.x % 96];\n"
    "  if (!threadIdx.x) atomicAdd(&counter, 1); }\n"
    "extern \"C\" __global__ void calls(float *p) { *p = third(threadIdx.x); }\n";

static void check_globals(void)
{
    CHECK(fixture_run(NVCC " -c -arch=sm_90 globals.cu -o globals.o"));
    struct kernel_model model = model_of("globals.o", ".nv_fatbin", "sm_90", false, "both");
    CHECK(model.machine_code && model.global_count == 2 && !model.ineligible);
    const struct kernel_global *coef = kernel_global_find(&model, "coef");
    const struct kernel_global *counter = kernel_global_find(&model, "counter");
    CHECK(coef && coef->constant && coef->size == 20);
    CHECK(counter && !counter->constant && counter->size == 4);
    CHECK(!kernel_global_find(&model, "other"));
    /* the same name in two files of one program: only the exact one means something */
    struct kernel_global twins[] = {{(char *)"_ZN14_GLOBAL__N_1_a1vE", 4, false},
                                    {(char *)"_ZN14_GLOBAL__N_1_b1vE", 4, false}};
    struct kernel_model two = {.global_count = 2, .globals = twins};
    CHECK(kernel_global_find(&two, twins[1].name) == &twins[1]);
    CHECK(!kernel_global_find(&two, "_ZN14_GLOBAL__N_1_c1vE"));
    kernel_model_free(&model);
    model = model_of("globals.o", ".nv_fatbin", "sm_90", false, "calls");
    CHECK(model.global_count == 1 && !strcmp(model.globals[0].name, "other"));
    kernel_model_free(&model);
}

/* Without PTX: the layout from the cubin, the same as PTX gives; not eligible. */
static void check_machine_code(void)
{
    CHECK(fixture_run(NVCC " -c -gencode arch=compute_90,code=sm_90 params.cu -o sass.o"));
    struct kernel_model model = model_of("sass.o", ".nv_fatbin", "sm_90", false, "by_value");
    CHECK(has(&model, "0+48 48+8", ""));
    CHECK(model.machine_code && model.ineligible && strstr(model.ineligible, "no PTX"));
    kernel_model_free(&model);
    CHECK(fixture_run(NVCC " -c -arch=sm_90 params.cu -o both.o"));
    model = model_of("both.o", ".nv_fatbin", "sm_90", false, "by_value");
    CHECK(has(&model, "0+48 48+8", "0.8 0.40"));
    CHECK(model.machine_code && !model.ineligible);
    kernel_model_free(&model);
}

/* ---- the kernel id ---- */

static const char program[] =
    "#ifdef MORE\n"
    "__constant__ int extra[3]; __device__ int noise(int i) { return extra[i % 3]; }\n"
    "__global__ void unrelated(int *p) { for (int i = 0; i < 9; i++) "
    "if (p[i] > 3) p[i] = noise(i); }\n"
    "#endif\n"
    "#ifndef SCALE\n#define SCALE 2\n#endif\n"
    "#ifndef TABLE\n#define TABLE coef\n#endif\n"
    "__constant__ float coef[4] = {1, 2, 3, 4}; __constant__ float more[4];\n"
    "namespace { __device__ float hidden[3];\n"
    "__device__ __noinline__ float twice(float x) { return SCALE * x; } }\n"
    "static __device__ __noinline__ float once(float x) { return x + 1; }\n"
    "namespace { __global__ void kernel(float *p, int n) {\n"
    "  for (int i = threadIdx.x; i < n; i += 32)\n"
    "    if (p[i] > 0) p[i] = twice(p[i]) + once(TABLE[i & 3]) + hidden[i % 3]; } }\n"
    "void go(float *p) { kernel<<<1, 32>>>(p, 5); }\n";

/* The mangled name in the image's PTX, whose middle depends on the source's path. */
static void find_kernel(const struct image_code *code, char name[256])
{
    const char *text = (const char *)code->ptx.data, *end = strstr(text, "6kernelEPfi");
    if (!CHECK(end))
        return;
    const char *begin = end;
    while (begin > text && (isalnum((unsigned char)begin[-1]) || begin[-1] == '_'))
        begin--;
    snprintf(name, 256, "%.*s", (int)(end - begin + strlen("6kernelEPfi")), begin);
}

/* The id of program.cu's kernel, built in its own folder with `flags`. `global`: the name of
 * `hidden` in the build before, if there was one; this build's replaces it. */
static struct kg_id id_of(const char *folder, const char *flags, const char *section,
                          const char *arch, bool ptx_only, char *global)
{
    struct image_code code;
    struct kernel_model model;
    char object[128], entry[256] = "";
    CHECK(fixture_run("mkdir -p %s && cp program.cu %s/ && cd %s && " NVCC
                      " -c %s $PWD/program.cu -o program.o",
                      folder, folder, folder, flags));
    snprintf(object, sizeof object, "%s/program.o", folder);
    struct kg_bytes fatbin = fixture_section(object, section);
    CHECK(image_select(fatbin.data, fatbin.size, arch, ptx_only, &code) == KG_OK);
    find_kernel(&code, entry);
    CHECK(kernel_model_make(&code, entry, &model) == KG_OK);
    CHECK(model.global_count >= 2 && !model.ineligible);
    if (global && *global) /* another build's name finds this build's variable */
        CHECK(kernel_global_find(&model, global) &&
              strcmp(kernel_global_find(&model, global)->name, global));
    for (uint32_t i = 0; i < model.global_count && global; i++)
        if (strstr(model.globals[i].name, "hidden"))
            snprintf(global, 256, "%s", model.globals[i].name);
    struct kg_id id = model.id;
    kernel_model_free(&model);
    image_code_free(&code);
    bytes_free(&fatbin);
    return id;
}

static bool same(struct kg_id a, struct kg_id b)
{
    return id_equal(&a, &b);
}

#define FAT ".nv_fatbin"
static void check_identity(void)
{
    char name[256] = "";
    struct kg_id base = id_of("one", "-arch=sm_80", FAT, "sm_90", true, name);
    CHECK(same(base, id_of("two/deeper", "-arch=sm_80 -DMORE", FAT, "sm_90", true, name)));
    CHECK(*name);
    CHECK(same(base, id_of("line", "-arch=sm_80 -lineinfo", FAT, "sm_90", true, NULL)));
    CHECK(same(base, id_of("none", "-arch=sm_80 -compress-mode=none", FAT, "sm_90", true, NULL)));
    CHECK(
        same(base, id_of("ninety", "-arch=compute_90 -code=compute_90", FAT, "sm_90", true, NULL)));
    CHECK(!same(base, id_of("scale", "-arch=sm_80 -DSCALE=3", FAT, "sm_90", true, NULL)));
    CHECK(!same(base, id_of("table", "-arch=sm_80 -DTABLE=more", FAT, "sm_90", true, NULL)));
    CHECK(!same(base, id_of("regs", "-arch=sm_80 -maxrregcount=32", FAT, "sm_90", true, NULL)));
    CHECK(!same(base, id_of("fast", "-arch=sm_80 -use_fast_math -DSCALE=2.5f/blockDim.x", FAT,
                            "sm_90", true, NULL)));
    struct kg_id code = id_of("sass", "-arch=sm_90", FAT, "sm_90", false, NULL);
    CHECK(!same(base, code));
    CHECK(same(code, id_of("sass2/x", "-arch=sm_90", FAT, "sm_90", false, NULL)));
    CHECK(same(code, id_of("sassline", "-arch=sm_90 -lineinfo", FAT, "sm_90", false, NULL)));
    CHECK(!same(code, id_of("sass3", "-arch=sm_90 -DSCALE=3", FAT, "sm_90", false, NULL)));
    CHECK(same(base, id_of("rdc", "-rdc=true -arch=sm_80", "__nv_relfatbin", "sm_80", true, NULL)));
}

/* Kernels that differ only in which bytes of a register an operation takes, or in the value of a
 * constant expression, are others; those that differ in how a number is written are not. */
static void check_operands(void)
{
    static const char *const lines[] = {"vadd4.u32.u32.u32 %r1, %r2.b3210, %r3, 6;",
                                        "vadd4.u32.u32.u32 %r1, %r2.b3211, %r3, 6;",
                                        "vadd4.u32.u32.u32 %r1, %r2.b3210, %r3, 7;",
                                        "vadd4.u32.u32.u32 %r1, %r2.b3210, %r3, 2*(1+2);"};
    struct kg_id ids[4];
    for (int i = 0; i < 4; i++) {
        char text[512];
        struct image_code code;
        struct kernel_model model;
        snprintf(text, sizeof text,
                 ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {\n"
                 ".reg .b32 %%r<9>;\n%s\nret;\n}\n",
                 lines[i]);
        CHECK(image_select(text, 0, "sm_90", false, &code) == KG_OK);
        CHECK(kernel_model_make(&code, "k", &model) == KG_OK);
        ids[i] = model.id;
        kernel_model_free(&model);
        image_code_free(&code);
    }
    CHECK(!same(ids[0], ids[1]) && !same(ids[0], ids[2]) && same(ids[0], ids[3]));
}

/* Other entries are cut out before parsing: by their own ends, whatever comments and strings say.
 */
static void check_slices(void)
{
    static const char head[] = ".version 8.0\n.target sm_80\n.address_size 64\n";
    static const char own[] = ".visible .entry k(.param .u64 p) {\n.reg .b64 %rd<3>;\n"
                              "ld.param.u64 %rd1, [p]; { .reg .b64 %rd7; st.global.u64 [%rd1], "
                              "%rd1; }\nret;\n}\n";
    static const char *const noise[] = {
        ".entry broken() { this is no PTX; }\n",
        "// } { .entry k(\n/* { */ .weak /* \" */ .entry o(.param .u32 n) { ret; /* } */ }\n",
        ".visible .entry kk() { .pragma \"}\"; ret; }\n.entry declared(.param .b8 a[4]);\n",
        ".section .debug_str { Lstr: .b8 125, 0 }\n",
    };
    struct kg_id id = {0};
    char text[2048];
    for (size_t i = 0; i <= sizeof noise / sizeof *noise; i++) {
        const char *extra = i ? noise[i - 1] : "";
        for (int before = 0; before < 2; before++) {
            struct image_code code;
            struct kernel_model model;
            snprintf(text, sizeof text, "%s%s%s%s", head, before ? extra : "", own,
                     before ? "" : extra);
            CHECK(image_select(text, 0, "sm_90", false, &code) == KG_OK);
            CHECK(kernel_model_make(&code, "k", &model) == KG_OK);
            CHECK(!model.ineligible && has(&model, "0+8", "0.0"));
            CHECK(!i || id_equal(&id, &model.id));
            id = model.id;
            kernel_model_free(&model);
            image_code_free(&code);
        }
    }
}

int main(void)
{
    fixture_begin();
    fixture_write("params.cu", parameters);
    fixture_write("globals.cu", variables);
    fixture_write("program.cu", program);
    check_pointers("-arch=compute_80 -code=compute_80");
    check_pointers("-arch=compute_75 -code=compute_75");
    check_pointers("-arch=compute_100 -code=compute_100");
    check_undecided();
    check_operands();
    check_slices();
    check_globals();
    check_machine_code();
    check_identity();
    fixture_end();
    return test_result();
}
