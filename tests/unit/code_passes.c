/* Exact rewriting, row by row, on the software GPU: each operation of passes_cases.h rewritten with
 * a known scalar gives the bits of the original for special and random operands; and what folding
 * makes of known operands is what executing them gives. tests/differential has the same for a GPU.
 */
#include "exec_test.h"
#include "passes_cases.h"

enum { COUNT = 16384, BLOCK = 256 };

static const struct kg_launch launch = {{COUNT / BLOCK, 1, 1}, {BLOCK, 1, 1}, 0};

static bool run(const char *text, uint64_t in, uint64_t out, uint64_t scalar, unsigned bytes)
{
    struct exec_module *module = module_of(text);
    if (!module)
        return false;
    struct test_call call = call_of(module, "k", COUNT / BLOCK, BLOCK, 0);
    ARG(&call, uint64_t, in);
    ARG(&call, uint64_t, out);
    call_add(&call, &scalar, bytes);
    call.config.threads = 1;
    bool good = call_good(&call);
    exec_module_destroy(module);
    return good;
}

static void check_case(const struct pass_case *c, uint64_t scalar, uint64_t seed)
{
    static char text[8192];
    unsigned bytes = (unsigned)atoi(c->type + 1) / 8;
    uint64_t in = test_alloc((size_t)2 * COUNT * bytes, 256), expected, got;
    expected = test_alloc((size_t)COUNT * bytes, 256);
    got = test_alloc((size_t)COUNT * bytes, 256);
    for (uint64_t i = 0; i < 2 * COUNT; i++) {
        uint64_t x =
            pass_operand(c, scalar, i % COUNT < COUNT - 1000 ? i % COUNT : i * 7 % 24, &seed);
        memcpy((char *)(uintptr_t)in + i * bytes, &x, bytes);
    }
    pass_text(c, COUNT, text, sizeof text);
    char *rewritten = pass_rewritten(c, text, scalar, &launch);
    if (CHECK(rewritten) && run(text, in, expected, scalar, bytes) &&
        run(rewritten, in, got, scalar, bytes)) {
        const char *a = (const char *)(uintptr_t)expected, *b = (const char *)(uintptr_t)got;
        unsigned i = 0;
        while (i < COUNT && !memcmp(a + i * bytes, b + i * bytes, bytes))
            i++;
        if (!CHECK(i == COUNT)) {
            uint64_t x = 0, y = 0, z = 0;
            memcpy(&x, (char *)(uintptr_t)in + i * bytes, bytes);
            memcpy(&y, a + i * bytes, bytes);
            memcpy(&z, b + i * bytes, bytes);
            fprintf(stderr, "%s with %llx of %llx: %llx became %llx\n", c->body,
                    (unsigned long long)scalar, (unsigned long long)x, (unsigned long long)y,
                    (unsigned long long)z);
        }
    }
    free(rewritten);
    test_free_all();
}

static void check_cases(void)
{
    for (unsigned i = 0; i < PASS_CASES; i++)
        for (unsigned k = 0; k < 12 && (!k || pass_cases[i].scalars[k]); k++)
            check_case(&pass_cases[i], pass_cases[i].scalars[k], 100 * i + k);
    /* divisors nobody chose */
    uint64_t state = 7;
    for (unsigned i = 0; i < PASS_CASES; i++) {
        const struct pass_case *c = &pass_cases[i];
        /* where %t has a range, the divisor may lie above it, and another row applies */
        if ((c->pass != PASS_div_int && c->pass != PASS_div_known) || strstr(c->body, "%t"))
            continue;
        for (unsigned k = 0; k < 4; k++) {
            uint64_t scalar = pass_random(&state) >> (pass_random(&state) % 40);
            scalar &= c->type[1] == '3' ? 0x7fffffff : UINT64_MAX >> 1;
            if (c->pass == PASS_div_known)
                scalar = c->type[1] == '3' ? (scalar & 0x7ffffe) | 0x40000001
                                           : (scalar & 0xffffffffffffe) | 0x3ff0000000000001;
            else
                scalar = scalar % 1000000007 + 2;
            check_case(c, scalar, k);
        }
    }
}

/* ---- folding ---- */

/* %qN 64 bits, %rN 32 bits, %hN 16 bits, %dN f64, %fN f32, %p0 a predicate: 0 to 2 are known. */
static const struct {
    char kind; /* of the register written: its number is 9 */
    const char *text;
} folds[] = {
    {'r', "add.u32 %r9, %r0, %r1;"},
    {'q', "add.s64 %q9, %q0, %q1;"},
    {'h', "add.u16 %h9, %h0, %h1;"},
    {'r', "sub.s32 %r9, %r0, %r1;"},
    {'q', "sub.u64 %q9, %q0, %q1;"},
    {'h', "sub.s16 %h9, %h0, %h1;"},
    {'r', "mul.lo.s32 %r9, %r0, %r1;"},
    {'r', "mul.hi.s32 %r9, %r0, %r1;"},
    {'r', "mul.hi.u32 %r9, %r0, %r1;"},
    {'q', "mul.wide.s32 %q9, %r0, %r1;"},
    {'q', "mul.wide.u32 %q9, %r0, %r1;"},
    {'r', "mul.wide.s16 %r9, %h0, %h1;"},
    {'q', "mul.lo.u64 %q9, %q0, %q1;"},
    {'q', "mul.hi.u64 %q9, %q0, %q1;"},
    {'q', "mul.hi.s64 %q9, %q0, %q1;"},
    {'h', "mul.hi.s16 %h9, %h0, %h1;"},
    {'r', "mad.lo.s32 %r9, %r0, %r1, %r2;"},
    {'q', "mad.wide.s32 %q9, %r0, %r1, %q2;"},
    {'q', "mad.wide.u32 %q9, %r0, %r1, %q2;"},
    {'r', "mad.hi.u32 %r9, %r0, %r1, %r2;"},
    {'q', "mad.lo.u64 %q9, %q0, %q1, %q2;"},
    {'r', "div.u32 %r9, %r0, %r1;"},
    {'r', "div.s32 %r9, %r0, %r1;"},
    {'r', "rem.u32 %r9, %r0, %r1;"},
    {'r', "rem.s32 %r9, %r0, %r1;"},
    {'q', "div.u64 %q9, %q0, %q1;"},
    {'q', "div.s64 %q9, %q0, %q1;"},
    {'q', "rem.u64 %q9, %q0, %q1;"},
    {'q', "rem.s64 %q9, %q0, %q1;"},
    {'h', "div.s16 %h9, %h0, %h1;"},
    {'h', "rem.u16 %h9, %h0, %h1;"},
    {'r', "and.b32 %r9, %r0, %r1;"},
    {'q', "or.b64 %q9, %q0, %q1;"},
    {'h', "xor.b16 %h9, %h0, %h1;"},
    {'r', "not.b32 %r9, %r0;"},
    {'q', "cnot.b64 %q9, %q0;"},
    {'r', "neg.s32 %r9, %r0;"},
    {'q', "abs.s64 %q9, %q0;"},
    {'h', "neg.s16 %h9, %h0;"},
    {'r', "min.s32 %r9, %r0, %r1;"},
    {'r', "max.u32 %r9, %r0, %r1;"},
    {'q', "min.u64 %q9, %q0, %q1;"},
    {'q', "max.s64 %q9, %q0, %q1;"},
    {'r', "popc.b32 %r9, %r0;"},
    {'r', "popc.b64 %r9, %q0;"},
    {'r', "clz.b32 %r9, %r0;"},
    {'r', "clz.b64 %r9, %q0;"},
    {'r', "brev.b32 %r9, %r0;"},
    {'q', "brev.b64 %q9, %q0;"},
    {'r', "shl.b32 %r9, %r0, %r1;"},
    {'r', "shr.u32 %r9, %r0, %r1;"},
    {'r', "shr.s32 %r9, %r0, %r1;"},
    {'q', "shl.b64 %q9, %q0, %r1;"},
    {'q', "shr.s64 %q9, %q0, %r1;"},
    {'h', "shr.s16 %h9, %h0, %r1;"},
    {'h', "shl.b16 %h9, %h0, %r1;"},
    {'r', "bfe.u32 %r9, %r0, %r1, %r2;"},
    {'r', "bfe.s32 %r9, %r0, %r1, %r2;"},
    {'q', "bfe.s64 %q9, %q0, %r1, %r2;"},
    {'q', "bfe.u64 %q9, %q0, %r1, %r2;"},
    {'r', "lop3.b32 %r9, %r0, %r1, %r2, 0x96;"},
    {'r', "lop3.b32 %r9, %r0, %r1, %r2, 0xCA;"},
    {'r', "shf.l.wrap.b32 %r9, %r0, %r1, %r2;"},
    {'r', "shf.r.clamp.b32 %r9, %r0, %r1, %r2;"},
    {'r', "shf.l.clamp.b32 %r9, %r0, %r1, %r2;"},
    {'r', "shf.r.wrap.b32 %r9, %r0, %r1, %r2;"},
    {'r', "prmt.b32 %r9, %r0, %r1, %r2;"},
    {'r', "setp.lt.s32 %p9, %r0, %r1; selp.u32 %r9, 1, 0, %p9;"},
    {'r', "setp.hi.u32 %p9, %r0, %r1; selp.u32 %r9, 1, 0, %p9;"},
    {'r', "setp.le.u64 %p9, %q0, %q1; selp.u32 %r9, 1, 0, %p9;"},
    {'r', "setp.ge.s16 %p9|%p8, %h0, %h1; selp.u32 %r9, 1, 0, %p8;"},
    {'r', "setp.ltu.f64 %p9, %d0, %d1; selp.u32 %r9, 1, 0, %p9;"},
    {'r', "setp.ne.f32 %p9, %f0, %f1; selp.u32 %r9, 1, 0, %p9;"},
    {'r', "setp.gt.ftz.f32 %p9, %f0, %f1; selp.u32 %r9, 1, 0, %p9;"},
    {'r', "setp.nan.f64 %p9, %d0, %d1; selp.u32 %r9, 1, 0, %p9;"},
    {'r', "setp.eq.s32 %p8, %r0, 5; setp.gt.and.s32 %p9, %r0, %r1, !%p8; selp.u32 %r9, 1, 0, %p9;"},
    {'r',
     "setp.eq.s32 %p8, %r0, 5; setp.ge.s32 %p7, %r1, 5; xor.pred %p9, %p8, %p7; not.pred %p9, %p9; "
     "selp.u32 %r9, 1, 0, %p9;"},
    {'q', "cvt.s64.s32 %q9, %r0;"},
    {'q', "cvt.u64.u32 %q9, %r0;"},
    {'r', "cvt.u32.u64 %r9, %q0;"},
    {'r', "cvt.s32.s16 %r9, %h0;"},
    {'r', "cvt.u32.u16 %r9, %h0;"},
    {'h', "cvt.u16.u32 %h9, %r0;"},
    {'r', "cvt.s32.s8 %r9, %r0;"},
    {'q', "cvt.u64.u8 %q9, %r0;"},
    {'d', "cvt.rn.f64.s32 %d9, %r0;"},
    {'d', "cvt.rn.f64.u64 %d9, %q0;"},
    {'f', "cvt.rn.f32.s64 %f9, %q0;"},
    {'f', "cvt.rn.f32.u32 %f9, %r0;"},
    {'d', "cvt.f64.f32 %d9, %f0;"},
    {'f', "cvt.rn.f32.f64 %f9, %d0;"},
    {'r', "cvt.rzi.s32.f64 %r9, %d0;"},
    {'r', "cvt.rni.s32.f32 %r9, %f0;"},
    {'r', "cvt.rpi.u32.f32 %r9, %f0;"},
    {'d', "add.f64 %d9, %d0, %d1;"},
    {'d', "sub.rn.f64 %d9, %d0, %d1;"},
    {'d', "mul.rn.f64 %d9, %d0, %d1;"},
    {'d', "div.rn.f64 %d9, %d0, %d1;"},
    {'d', "fma.rn.f64 %d9, %d0, %d1, %d2;"},
    {'d', "rcp.rn.f64 %d9, %d0;"},
    {'d', "sqrt.rn.f64 %d9, %d0;"},
    {'f', "add.f32 %f9, %f0, %f1;"},
    {'f', "sub.ftz.f32 %f9, %f0, %f1;"},
    {'f', "mul.rn.ftz.f32 %f9, %f0, %f1;"},
    {'f', "mul.rn.f32 %f9, %f0, %f1;"},
    {'f', "div.rn.f32 %f9, %f0, %f1;"},
    {'f', "fma.rn.f32 %f9, %f0, %f1, %f2;"},
    {'f', "fma.rn.ftz.f32 %f9, %f0, %f1, %f2;"},
    {'f', "sqrt.rn.f32 %f9, %f0;"},
    {'f', "rcp.rn.f32 %f9, %f0;"},
    {'f', "neg.f32 %f9, %f0;"},
    {'d', "abs.f64 %d9, %d0;"},
    {'r', "mov.b64 {%r8, %r9}, %d0;"},
    {'d', "mov.b64 %d9, {%r0, %r1};"},
    {'r', "mov.b32 %r9, {%h0, %h1};"},
    {'h', "mov.b32 {%h8, %h9}, %f0;"},
};
enum { FOLDS = sizeof folds / sizeof *folds };

static void fold_text(char *out, size_t size)
{
    size_t at = (size_t)snprintf(
        out, size,
        ".version 7.8\n.target sm_80\n.address_size 64\n"
        ".visible .entry k(.param .u64 out, .param .u64 a, .param .u64 b, .param .u64 c)\n{\n"
        "\t.reg .pred %%p<10>;\n\t.reg .b16 %%h<10>;\n\t.reg .b32 %%r<10>;\n\t.reg .b64 %%q<10>;\n"
        "\t.reg .f32 %%f<10>;\n\t.reg .f64 %%d<10>;\n\t.reg .b64 %%out;\n\tld.param.u64 %%out, "
        "[out];\n");
    for (unsigned i = 0; i < 3; i++)
        at += (size_t)snprintf(out + at, size - at,
                               "\tld.param.u64 %%q%u, [%c];\n\tld.param.u32 %%r%u, [%c];\n"
                               "\tld.param.u16 %%h%u, [%c];\n\tld.param.f32 %%f%u, [%c];\n"
                               "\tld.param.f64 %%d%u, [%c];\n",
                               i, 'a' + i, i, 'a' + i, i, 'a' + i, i, 'a' + i, i, 'a' + i);
    for (unsigned i = 0; i < FOLDS; i++) {
        const char *type = folds[i].kind == 'r'   ? "u32"
                           : folds[i].kind == 'q' ? "u64"
                           : folds[i].kind == 'h' ? "u16"
                           : folds[i].kind == 'f' ? "f32"
                                                  : "f64";
        at += (size_t)snprintf(out + at, size - at, "\t{ %s st.global.%s [%%out+%u], %%%c9; }\n",
                               folds[i].text, type, 8 * i, folds[i].kind);
    }
    snprintf(out + at, size - at, "\tret;\n}\n");
}

/* Both texts with the same three words as operands: the same results. */
static void check_fold(const char *text, const uint64_t words[3], unsigned *folded)
{
    const struct kg_param params[] = {{0, 8}, {8, 8}, {16, 8}, {24, 8}};
    const struct kg_scalar known[] = {
        {1, 0, 8, words[0]}, {2, 0, 8, words[1]}, {3, 0, 8, words[2]}};
    struct kg_bytes out = {0};
    unsigned done[PASS_COUNT];
    uint64_t results[2];
    if (!CHECK(ptx_rewrite(text, "k", NULL, params, 4, known, 3, &out, done) == KG_OK))
        return;
    *folded += done[PASS_fold_int] + done[PASS_fold_float] + done[PASS_range];
    for (unsigned side = 0; side < 2; side++) {
        results[side] = test_alloc((size_t)8 * FOLDS, 256);
        memset((void *)(uintptr_t)results[side], 0, (size_t)8 * FOLDS);
        struct exec_module *module = module_of(side ? (char *)out.data : text);
        if (!module)
            return;
        struct test_call call = call_of(module, "k", 1, 1, 0);
        ARG(&call, uint64_t, results[side]);
        for (unsigned i = 0; i < 3; i++)
            ARG(&call, uint64_t, words[i]);
        call.config.threads = 1;
        call_good(&call);
        exec_module_destroy(module);
    }
    for (unsigned i = 0; i < FOLDS; i++)
        if (!CHECK(!memcmp((char *)(uintptr_t)results[0] + 8 * i,
                           (char *)(uintptr_t)results[1] + 8 * i, 8)))
            fprintf(stderr, "%s of %llx %llx %llx\n", folds[i].text, (unsigned long long)words[0],
                    (unsigned long long)words[1], (unsigned long long)words[2]);
    bytes_free(&out);
    test_free_all();
}

static void check_folds(void)
{
    static char text[32768];
    static const uint64_t special[] = {0,
                                       1,
                                       5,
                                       UINT64_MAX,
                                       0x8000000080000000,
                                       0x7fffffff7fffffff,
                                       31,
                                       32,
                                       64,
                                       0x3ff000003f800000,
                                       0x7ff000007f800000,
                                       0x7ff80000ffc00001,
                                       0x0000000100000001,
                                       0x8010000000800000,
                                       0x4008000040400000,
                                       0x7fefffff7f7fffff};
    enum { SPECIAL = sizeof special / sizeof *special };
    uint64_t state = 3;
    unsigned folded = 0, runs = 0;
    fold_text(text, sizeof text);
    for (unsigned i = 0; i < 400; i++, runs++) {
        uint64_t words[3];
        for (unsigned k = 0; k < 3; k++) {
            words[k] = pass_random(&state);
            uint64_t kind = pass_random(&state) % 3;
            if (kind == 0)
                words[k] = special[words[k] % SPECIAL];
            else if (kind == 1)
                words[k] >>= pass_random(&state) & 63;
        }
        check_fold(text, words, &folded);
    }
    /* most are folded, not left alone: FOLDS rows, some of two instructions */
    CHECK(folded > runs * FOLDS * 9 / 10);
}

int main(void)
{
    check_cases();
    check_folds();
    return test_result();
}
