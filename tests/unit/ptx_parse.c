/* The PTX parser on what nvcc makes, on traps met in real PTX, and on text that is none. Each text
 * must come back from the printer as an equal tree, and every instruction's bytes must be its own.
 */
#include "exec_test.h"

#include "code/ptx.h"
#include "ptx/same.h"

/* ---- parsing and back ------------------------------------------------------------------------ */

/* The bytes of an instruction begin with its guard or opcode and end with its semicolon, and lines
 * count from the text's start. */
static bool places_right(const char *text, const struct ptx_func *func)
{
    for (uint32_t i = 0; i < func->instr_count; i++) {
        const struct ptx_instr *instr = &func->instrs[i];
        const char *begin = text + instr->place.begin;
        size_t op = strcspn(instr->form->text, ".");
        if (text[instr->place.end - 1] != ';')
            return false;
        if (instr->guard != PTX_NO_REG ? *begin != '@' : strncmp(begin, instr->form->text, op))
            return false;
        if (i && instr->place.begin < func->instrs[i - 1].place.end)
            return false;
        uint32_t line = 1, column = 1;
        if (i % 64)
            continue;
        for (const char *at = text; at < begin; at++) {
            column = *at == '\n' ? 1 : column + 1;
            line += *at == '\n';
        }
        if (line != instr->place.line || column != instr->place.column)
            return false;
        for (unsigned k = 0; k < instr->operand_count; k++)
            if (instr->operands[k].begin > instr->operands[k].end ||
                instr->operands[k].end >= instr->place.end)
                return false;
    }
    return true;
}

/* Parses, prints, parses, compares. */
static bool round_trip(const char *text, struct ptx_module *out)
{
    char error[300];
    struct kg_bytes printed;
    struct ptx_module again;
    if (ptx_parse(text, strlen(text), out, error, sizeof error) != KG_OK) {
        fprintf(stderr, "%s\n", error);
        return false;
    }
    for (uint32_t i = 0; i < out->func_count; i++)
        if (!CHECK(places_right(text, out->funcs[i])))
            return false;
    if (ptx_print(out, &printed) != KG_OK)
        return false;
    kg_status status = ptx_parse((char *)printed.data, printed.size, &again, error, sizeof error);
    if (status != KG_OK)
        fprintf(stderr, "printed: %s\n%s", error, printed.data);
    bool same = status == KG_OK && ptx_same(out, &again);
    if (status == KG_OK && !same)
        fprintf(stderr, "not the same:\n%s", printed.data);
    ptx_module_free(&again);
    bytes_free(&printed);
    return same;
}

static void test_nvcc(void)
{
    static const char source[] =
        "#include <cstdio>\n"
        "#include <cooperative_groups.h>\n"
        "#include <cuda_fp16.h>\n"
        "namespace cg = cooperative_groups;\n"
        "struct vec { float x, y, z; long n; };\n"
        "__constant__ float weights[5] = {1, 2.5f, -3};\n"
        "__device__ double wide[2] = {1.5, -2};\n"
        "__device__ const char *names[3] = {\"one\", \"two\"};\n"
        "__managed__ int shared_with_host = 9;\n"
        "__device__ __noinline__ float twice(float x) { return x * 2; }\n"
        "__device__ __noinline__ float thrice(float x) { return x * 3; }\n"
        "typedef float (*function)(float);\n"
        "__device__ function choices[2] = {twice, thrice};\n"
        "template <typename T> __global__ void __launch_bounds__(256, 2) many(T *out, vec v, int "
        "n) {\n"
        "  extern __shared__ float dynamic[]; __shared__ float tile[32][33];\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x; dynamic[threadIdx.x] = i;\n"
        "  tile[threadIdx.x & 31][threadIdx.x >> 5] = v.x; __syncthreads();\n"
        "  switch (n) { case 0: i += 1; break; case 1: i *= 3; break; case 2: i ^= 7; break;\n"
        "    case 3: i -= 2; break; case 4: i |= 8; break; case 5: printf(\"%d\\n\", i); }\n"
        "  asm volatile(\"{ .reg .pred p; .reg.b32 t; mov.b32 t, %0; setp.ne.s32 p, t, 0; @p bra "
        "DONE;\\n\"\n"
        "    \" DONE: }\" :: \"r\"(i));\n"
        "  asm volatile(\"{ .reg .pred p;\\n DONE: setp.ne.s32 p, %0, 0; @!p bra DONE; }\" :: "
        "\"r\"(i | 1));\n"
        "  out[i] = dynamic[i & 15] + (T)pow((double)v.y, 2.5) + (T)choices[n & 1](v.z);\n"
        "  atomicAdd(&shared_with_host, __popc(__ballot_sync(~0u, i & 1)));\n"
        "  cg::this_grid().sync(); }\n"
        "template __global__ void many<float>(float *, vec, int);\n"
        "template __global__ void many<double>(double *, vec, int);\n"
        "__global__ void halves(__half2 *a, const uint4 *b) { a[threadIdx.x] = __hfma2(a[0], a[1], "
        "a[2]);\n"
        "  uint4 q = b[threadIdx.x]; ((uint4 *)a)[9] = q; }\n";
    static const char *const flags[] = {"-arch=compute_75 -O3", "-arch=compute_80 -Xcicc -O0",
                                        "-arch=compute_90 -G", "-arch=compute_100 -lineinfo",
                                        "-arch=compute_80 -rdc=true -use_fast_math"};
    for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
        struct kg_bytes ptx = ptx_of(source, flags[i]);
        struct ptx_module module;
        if (!CHECK(round_trip((char *)ptx.data, &module)))
            fprintf(stderr, "nvcc %s\n", flags[i]);
        CHECK(module.unknown_count == 0 && module.mod_text_count == 0);
        unsigned entries = 0, calls = 0;
        for (uint32_t k = 0; k < module.func_count; k++) {
            const struct ptx_func *func = module.funcs[k];
            entries += func->entry && func->defined;
            for (uint32_t n = 0; n < func->instr_count; n++)
                calls += func->instrs[n].form->op == PTX_OP_call;
        }
        CHECK(entries == 3 && calls > 0);
        const struct ptx_func *many = ptx_find_func(&module, "_Z4manyIfEvPT_3veci");
        if (CHECK(many != NULL)) {
            CHECK(many->param_count == 3 && many->param_bytes == 36 && many->maxntid[0] == 256 &&
                  many->minnctapersm == 2);
            CHECK(many->params[1]->size == 24 && many->params[1]->offset == 8 &&
                  many->params[1]->align == 8);
        }
        const struct ptx_var *weights = ptx_find_var(&module, "weights");
        if (CHECK(weights != NULL))
            CHECK(weights->space == PTX_SPACE_const && weights->size == 20);
        const struct ptx_var *names = ptx_find_var(&module, "names");
        if (CHECK(names != NULL))
            CHECK(names->reloc_count == 2 && names->relocs[1].generic && names->size == 24);
        ptx_module_free(&module);
        bytes_free(&ptx);
    }
}

#define HEAD ".version 8.0\n.target sm_90a, debug\n.address_size 64\n"

/* Traps met in real PTX, all of them in order. */
static const char traps[] =
    HEAD ".global .align 4 .b8 data[2][3] = {{1, 2}, {0x10U, 0X11, -1}};\n"
         ".global .align 8 .u64 table[4] = {generic(data)+8, data, 0, 5};\n"
         ".global .align 1 .b8 bytes[3] = {0xFF(data), 0xFF00(generic(data)+2), 7};\n"
         ".global .f32 single = 0f3F800000; .global .f64 wide[2] = {-1.5, 0dC000000000000000};\n"
         ".weak .const .align 4 .f32 mixed[3] = {1, 2.5, -0.5};\n"
         ".global .v2 .f32 pair = {1.0, 2.0};\n"
         ".extern .shared .align 16 .b8 dyn[];\n"
         ".func (.reg .b32 %result) add1(.reg .b32 %a) .noreturn\n"
         "{ add.s32 %result, %a, 1; ret; }\n"
         ".visible .entry e(.param .u64 .ptr .global .align 16 p, .param .align 8 .b8 s[20],\n"
         "  .param .u8 c, .param .f64 d) .maxntid 128, 2 .reqnctapercluster 2 .pragma \"x\";\n"
         "{\n"
         ".reg.b32 %r<5>, t, _q; .reg .v4 .f32 v; .reg .pred %p<3>; .reg .b64 %rd<0x4>;\n"
         ".reg .b128 %rq<2>;\n"
         ".pragma \"nounroll\";\n"
         ".loc 1 10 5, function_name $L__info_string0, inlined_at 1 12 3\n"
         "{ .reg .b32 %r<2>; .reg .pred p; mov.u32 %r1, 0x1234abcdU; @!p bra L1; L1: }\n"
         "L1: mov.b32 {t, _}, %rd1; mov.b64 %rd2, {%r1, %r2};\n"
         "mov.f32 v.x, 0f00000000; mov.u32 %r3, %tid.x; mov.u64 %rd3, %clock64;\n"
         "@%p1 setp.lt.and.s32 %p1|%p2, %r1, -5, !%p0;\n"
         "shfl.sync.bfly.b32 _q|%p2, %r1, 1, WARP_SZ, -1;\n"
         "ld.global.v4.f32 {v.x, v.y, v.z, v.w}, [%rd1+-16];\n"
         "st.shared .b32 [dyn+4], %r1; ld.param.b8 %r1, [s + 19];\n"
         "proto: .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 8 .b8 _[16]);\n"
         "call.uni (%r1), add1, (%r2); call (%r1), %rd1, (%r2), proto;\n"
         "ts: .branchtargets L1, L2; brx.idx %r1, ts;\n"
         "tex.2d.v4.f32.s32 {v.x, _, _, _}, [table, {%r1, %r2}];\n"
         "frobnicate.x.y %r1, [%rd1+3, {1,2}], L1 & 3; unheard.of %r1, %r2;\n"
         "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
         " [%rd1], [%rd2, {%r1, %r2}], [%rd3];\n"
         "fma.rn.ftz.f32 t, 0f3F800000, 1.5, 2e-3; mov.u32 %r1, %strange_register;\n"
         "L2: @%p2 exit;\n"
         "}\n"
         "\t.section\t.debug_abbrev\n\t{\n.b8 1\n.b64 $L__tmp1\n\t}\n";

static void test_traps(void)
{
    static const char text[] =
        HEAD "/* comment\n */ .file 1 \"/a/b.cu\", 123, 456\n"
             ".extern .func (.param .b32 out) vprintf (.param .b64 a, .param .b64 b);\n"
             ".global .align 8 .u64 table[4] = {generic(data)+8, data, 0, 5};\n";
    struct ptx_module module;
    char error[200];
    CHECK(ptx_parse(text, sizeof text - 1, &module, error, sizeof error) == KG_BAD_INPUT);
    CHECK(!strncmp(error, "7:43: data is not declared", 24));
    if (!CHECK(round_trip(traps, &module)))
        return;
    CHECK(module.version_major == 8 && module.sm == 90 && !strcmp(module.target, "sm_90a, debug"));
    CHECK(module.unknown_count == 3);
    const struct ptx_var *data = ptx_find_var(&module, "data");
    static const unsigned char image[] = {1, 2, 0, 0x10, 0x11, 0xff};
    CHECK(data && data->image_bytes == 6 && !memcmp(data->image, image, 6));
    const struct ptx_var *bytes = ptx_find_var(&module, "bytes");
    CHECK(bytes && bytes->reloc_count == 2 && bytes->relocs[1].shift == 8 &&
          bytes->relocs[1].addend == 2 && bytes->image[2] == 7);
    const struct ptx_var *mixed = ptx_find_var(&module, "mixed");
    static const float floats[] = {1, 2.5f, -0.5f};
    CHECK(mixed && !memcmp(mixed->image, floats, 12));
    const struct ptx_func *e = ptx_find_func(&module, "e");
    if (!CHECK(e != NULL))
        return;
    CHECK(e->params[0]->pointer && e->params[0]->ptr_space == PTX_SPACE_global &&
          e->params[0]->ptr_align == 16);
    CHECK(e->params[1]->offset == 8 && e->params[2]->offset == 28 && e->params[3]->offset == 32 &&
          e->param_bytes == 40);
    CHECK(e->maxntid[0] == 128 && e->maxntid[1] == 2 && e->maxntid[2] == 1);
    CHECK(e->scope_count == 2 && e->label_count == 3);
    /* the inner %r1 is another register than the outer one, the inner L1 another label */
    const struct ptx_instr *instrs = e->instrs;
    CHECK(instrs[0].operands[0].reg != instrs[3].operands[1].reg);
    CHECK(instrs[0].operands[1].bits == 0x1234abcd);
    CHECK(e->labels[instrs[1].operands[0].label].scope == 1 && instrs[1].guard_negated);
    CHECK(instrs[7].operands[0].kind == PTX_PAIR && instrs[7].operands[2].bits == (uint64_t)-5 &&
          instrs[7].operands[3].negated);
    CHECK(instrs[9].operands[1].kind == PTX_ADDRESS && instrs[9].operands[1].offset == -16);
    CHECK(!strcmp(instrs[10].form->text, "st.shared.b32") &&
          instrs[10].form->space == PTX_SPACE_shared && instrs[10].operands[0].var->unsized);
    CHECK(instrs[13].operand_count == 4 && instrs[13].operands[3].list->param_count == 2);
    CHECK(instrs[16].opaque && instrs[16].opaque_text && ptx_effects(&instrs[16]) == PTX_WORST);
    CHECK(instrs[17].opaque && instrs[17].operand_count == 2);
    CHECK(ptx_role(&instrs[12], 0) == 'd' && ptx_role(&instrs[9], 1) == 'a');
    ptx_module_free(&module);
}

/* What the table does not know is kept, counted, and given the worst effects; what it knows is not,
 * however rare. */
static void test_rare(void)
{
    static const char text[] =
        HEAD ".global .samplerref s = { addr_mode_0 = clamp_to_border, filter_mode = nearest };\n"
             ".global .attribute(.unified(1, 2)) .align 4 .u32 both;\n"
             ".entry e(.param .u64 p) { .reg .b32 %r<9>; .reg .b64 %d<3>; .reg .pred %p<2>;\n"
             "vadd4.s32.s32.u32.sat %r1.b20, %r2.b3210, %r3.b7654, %r4;\n"
             "tex.2d.v4.s32.f32 {%r1, %r2, %r3, %r4}|%p1, [%d1, {%r5, %r6}];\n"
             "ld.global.future::order.u32 %r1, [%d1]; setmaxnreg.inc.sync.aligned.u32 232;\n"
             "tcgen05.fence::before_thread_sync; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, "
             "[%r2]; }";
    struct ptx_module module;
    if (!CHECK(round_trip(text, &module)))
        return;
    const struct ptx_instr *instrs = ptx_find_func(&module, "e")->instrs;
    CHECK(module.unknown_count == 1);
    CHECK(!strcmp(ptx_find_var(&module, "both")->attribute, ".unified(1, 2)"));
    CHECK(strstr(ptx_find_var(&module, "s")->opaque, "filter_mode = nearest"));
    CHECK(instrs[0].operands[0].component == PTX_SELECTOR &&
          !strcmp(instrs[0].operands[2].name, "b7654") && !ptx_effects(&instrs[0]));
    CHECK(instrs[1].operands[0].kind == PTX_PAIR &&
          instrs[1].operands[0].parts[0].kind == PTX_VECTOR);
    CHECK(instrs[2].form->strange && !instrs[2].opaque &&
          ptx_effects(&instrs[2]) == (PTX_READS | PTX_WORST));
    CHECK(ptx_effects(&instrs[3]) == PTX_STATE);
    CHECK(instrs[4].form->op == PTX_OP_tcgen05_fence_before &&
          ptx_effects(&instrs[4]) == PTX_FENCE);
    CHECK(ptx_role(&instrs[5], 1) == 's'); /* tensor memory: no pointer */
    ptx_module_free(&module);
}

/* Constant expressions. */
static void test_constants(void)
{
    static const char text[] =
        HEAD ".global .align 8 .s64 x[14] = {1+2*3, (5-3)<<4, ~0&0xff, 7>3?1:2, (.s64)-1 >> 60, "
             "(.u64)-1 >> 60, -7/2, -7 % 2, !0, -(-3), 1|6^2, 3<=3 && 2!=2, -5+3, 0x10U-1};\n"
             ".entry e() { .reg .b32 %r<2>; .reg .b64 %d<2>;\n"
             "mov.b32 %r1, 5-3; st.global.u32 [%d1+4*8-2], (1<<3)|1; st.global.u32 [x+4*2], !0;\n"
             "mov.b32 %r1, -2+1; mov.b64 %d1, x + (4-8); mov.f32 %r1, -1.5; }";
    static const int64_t values[] = {7, 32, 255, 1, -1, 15, -3, -1, 1, 3, 5, 0, -2, 15};
    struct ptx_module module;
    if (!CHECK(round_trip(text, &module)))
        return;
    const struct ptx_var *x = ptx_find_var(&module, "x");
    CHECK(x->image_bytes == sizeof values && !memcmp(x->image, values, sizeof values));
    const struct ptx_instr *instrs = ptx_find_func(&module, "e")->instrs;
    CHECK(instrs[0].operands[1].bits == 2 && instrs[1].operands[0].offset == 30);
    CHECK(instrs[1].operands[1].bits == 9 && instrs[2].operands[1].bits == 1);
    CHECK(instrs[3].operands[1].bits == UINT64_MAX && instrs[4].operands[1].offset == -4);
    CHECK(instrs[5].operands[1].kind == PTX_F64);
    ptx_module_free(&module);
}

/* Text that must be refused, with the place of the mistake. */
static void test_errors(void)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"hello", "1:1: directive expected"},
        {"\x7f"
         "ELF",
         "1:1: directive expected"},
        {HEAD ".entry e() { add.s32 %r1, 1, 2; }", "4:22: %r1 is not declared"},
        {HEAD ".entry e() {\n  bra away; }", "5:3: label away is not defined"},
        {HEAD ".entry e() { { L: } bra L; }", "4:21: label L is not defined"},
        {HEAD ".entry e() { L: L: }", "4:17: label L is defined twice"},
        {HEAD ".entry e() { ret; } .entry e() { ret; }", "4:28: e is defined twice"},
        {HEAD ".entry e() { ret;", "4:18: the text ends inside e"},
        {HEAD ".global .b32 x[2] = {1, 2, 3};", "4:28: too many initialisers"},
        {HEAD ".global .align 3 .b32 x;", "4:18: alignment is no power of two"},
        {HEAD ".global .b64 x[999999999999][999999999999];", "4:43: array too large"},
        {HEAD ".global .b8 x[9][999999999] = {{1},{2},{3}};", "4:37: initialiser too sparse"},
        {HEAD ".global .b64 x[][2305843009213693951] = {{1},{2}};", "4:47: initialiser too sparse"},
        {HEAD ".entry e() { .reg .b32 r; mov.b32 r, 99999999999999999999; }",
         "4:38: number too large"},
        {HEAD ".entry e() { .reg .b32 r; mov.b32 r, {{{{{{r}}}}}}; }",
         "4:43: operands nest too deeply"},
        {HEAD ".entry e() { call foo; }", "4:19: foo is not declared"},
        {HEAD ".global .b32 x = 1 / (3 - 3);", "4:29: division by zero"},
        {HEAD ".global .b32 x = 1 +;", "4:21: integer expected"},
        {HEAD ".entry e() { p: .callprototype (.param .b32 _) _ (.param .b32 _, 5); }",
         "4:66: .param or .reg expected"},
        {HEAD ".section .x {", "4:14: the text ends inside a statement"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ptx_module module;
        char error[300];
        kg_status status =
            ptx_parse(cases[i].text, strlen(cases[i].text), &module, error, sizeof error);
        CHECK(status == KG_BAD_INPUT || status == KG_LIMIT);
        CHECK(module.func_count == 0 && module.arena.blocks == NULL);
        if (!CHECK(!strncmp(error, cases[i].error, strlen(cases[i].error))))
            fprintf(stderr, "%s, not %s\n", error, cases[i].error);
    }
}

/* Cut anywhere, real PTX gives an error or a smaller tree, never a crash. */
static void test_cuts(void)
{
    struct kg_bytes ptx = ptx_of("__global__ void k(float *p) { __shared__ float s[9];\n"
                                 "s[threadIdx.x] = p[1]; __syncthreads(); p[0] = s[3] / p[2]; }\n",
                                 "-arch=compute_80 -G");
    unsigned refused = 0;
    for (size_t size = 0; size < ptx.size; size += 7) {
        struct ptx_module module;
        char error[64];
        refused += ptx_parse((char *)ptx.data, size, &module, error, sizeof error) != KG_OK;
        ptx_module_free(&module);
    }
    CHECK(refused > ptx.size / 7 / 2);
    bytes_free(&ptx);
}

/* Deep nesting and long chains: bounded, and not slow. */
static void test_bounds(void)
{
    enum { COUNT = 100000 };
    size_t room = 64 * COUNT;
    char *text = malloc(room), error[200];
    struct ptx_module module;
    if (!CHECK(text != NULL))
        return;
    size_t used = (size_t)sprintf(text, HEAD ".entry e() {");
    for (int i = 0; i < COUNT; i++)
        used += (size_t)sprintf(text + used, "{");
    CHECK(ptx_parse(text, used, &module, error, sizeof error) == KG_LIMIT);
    uint64_t start = now_ns();
    used = (size_t)sprintf(text, HEAD ".entry e() { .reg .b32 %%r<4000000000>;\n");
    for (int i = 0; i < COUNT; i++) /* the same names in many scopes, and registers far apart */
        used += (size_t)sprintf(text + used, "{.reg .b32 %%r<3>; D: mov.b32 %%r1, %%r%d; bra D;}\n",
                                i * 7 + 3);
    used += (size_t)sprintf(text + used, "}");
    CHECK(ptx_parse(text, used, &module, error, sizeof error) == KG_OK);
    CHECK(module.func_count == 1 && module.funcs[0]->reg_count == 2 * COUNT);
    CHECK(now_ns() - start < UINT64_C(5000000000));
    ptx_module_free(&module);
    free(text);
}

int main(void)
{
    test_traps();
    test_rare();
    test_constants();
    test_errors();
    test_bounds();
    test_nvcc();
    test_cuts();
    return test_result();
}
