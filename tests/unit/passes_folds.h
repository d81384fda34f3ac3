/* Operations on known operands, a row each, for the software GPU and for a real one: what folding
 * makes of them is what executing them gives. */
#ifndef PASSES_FOLDS_H
#define PASSES_FOLDS_H

#include "passes_cases.h"

/* %qN 64 bits, %rN 32 bits, %hN 16 bits, %dN f64, %fN f32, %p0 a predicate: 0 to 2 are known. */
struct fold {
    char kind; /* of the register written: its number is 9 */
    const char *text;
};
static const struct fold folds[] = {
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

static inline void fold_text(const struct fold *rows, unsigned count, char *out, size_t size)
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
    for (unsigned i = 0; i < count; i++) {
        const char *type = rows[i].kind == 'r'   ? "u32"
                           : rows[i].kind == 'q' ? "u64"
                           : rows[i].kind == 'h' ? "u16"
                           : rows[i].kind == 'f' ? "f32"
                                                 : "f64";
        at += (size_t)snprintf(out + at, size - at, "\t{ %s st.global.%s [%%out+%u], %%%c9; }\n",
                               rows[i].text, type, 8 * i, rows[i].kind);
    }
    snprintf(out + at, size - at, "\tret;\n}\n");
}

/* Operations that only the hardware knows: folding leaves them alone, but ptxas, given constants,
 * does not. */
static const struct fold approximate[] = {
    {'f', "rcp.approx.f32 %f9, %f0;"},
    {'f', "rcp.approx.ftz.f32 %f9, %f0;"},
    {'f', "sqrt.approx.f32 %f9, %f0;"},
    {'f', "rsqrt.approx.f32 %f9, %f0;"},
    {'f', "rsqrt.approx.ftz.f32 %f9, %f0;"},
    {'f', "ex2.approx.f32 %f9, %f0;"},
    {'f', "ex2.approx.ftz.f32 %f9, %f0;"},
    {'f', "lg2.approx.f32 %f9, %f0;"},
    {'f', "sin.approx.f32 %f9, %f0;"},
    {'f', "cos.approx.f32 %f9, %f0;"},
    {'f', "tanh.approx.f32 %f9, %f0;"},
    {'f', "div.full.f32 %f9, %f0, %f1;"},
    {'f', "div.approx.f32 %f9, %f0, %f1;"},
    {'d', "rcp.approx.ftz.f64 %d9, %d0;"},
    {'d', "rsqrt.approx.f64 %d9, %d0;"},
    {'d', "max.f64 %d9, %d0, %d1;"},
    {'f', "min.f32 %f9, %f0, %f1;"},
    {'f', "add.sat.f32 %f9, %f0, %f1;"},
    {'r', "cvt.rzi.s32.f32 %r9, %f0;"},
    {'q', "cvt.rni.s64.f64 %q9, %d0;"},
    {'d', "mul.f64 %d8, %d0, %d1; add.f64 %d9, %d8, %d2;"},
    {'f', "mul.f32 %f8, %f0, %f1; sub.f32 %f9, %f2, %f8;"},
    {'d', "add.rz.f64 %d9, %d0, %d1;"},
    {'f', "mul.rp.f32 %f9, %f0, %f1;"},
};
enum { APPROXIMATE = sizeof approximate / sizeof *approximate };

static inline void fold_words(uint64_t words[3], uint64_t *state)
{
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
    for (unsigned k = 0; k < 3; k++) {
        words[k] = pass_random(state);
        uint64_t kind = pass_random(state) % 4;
        if (kind == 0)
            words[k] = special[words[k] % (sizeof special / sizeof *special)];
        else if (kind == 1)
            words[k] >>= pass_random(state) & 63;
        else if (kind == 2) /* numbers not far from one */
            words[k] = (words[k] & 0x800fffff83ffffff) | 0x3ff000003c000000;
    }
}

#endif
