/* Cases of exact rewriting, a row each, for the software GPU and for a real one: an operation on
 * loaded values %x and %w with a scalar %c that the rewriter knows; the kernels' texts; operands
 * with all that is special among them. */
#ifndef PASSES_CASES_H
#define PASSES_CASES_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code/code.h"

struct pass_case {
    const char *type; /* of all: f32, f64, u32, s32, u64, s64 */
    const char *body; /* from %x and %w (loaded), %c (scalar), by %t %u, to %y */
    enum rewrite_pass pass;
    uint64_t scalars[12]; /* bits; ends with a zero but for the first */
    bool all;             /* of one 32-bit operand: all its values can be tried */
};

static const struct pass_case pass_cases[] = {
    {"f64", "div.rn.f64 %y, %x, %c;", PASS_div_one, {0x3ff0000000000000}, false},
    {"f64",
     "add.f64 %t, %x, %w; div.rn.f64 %y, %t, %c;",
     PASS_div_one,
     {0x3ff0000000000000},
     false},
    {"f64",
     "mul.f64 %t, %x, %w; div.rn.f64 %u, %t, %c; add.f64 %y, %u, %w;",
     PASS_div_one,
     {0x3ff0000000000000},
     false},
    {"f64",
     "mul.rn.f64 %t, %x, %w; div.rn.f64 %u, %t, %c; add.f64 %y, %u, %w;",
     PASS_div_one,
     {0x3ff0000000000000},
     false},
    {"f64",
     "div.rn.f64 %t, %x, %c; add.f64 %y, %t, %w;",
     PASS_div_power,
     {0x4000000000000000, 0xbff0000000000000, 0xc010000000000000, 0x3fe0000000000000,
      0x7fd0000000000000, 0x0010000000000000, 0x0040000000000000, 0x5ff0000000000000,
      0x2000000000000000},
     false},
    {"f64",
     "div.rn.f64 %y, %x, %c;",
     PASS_div_known,
     {0x4008000000000000, 0x4024000000000000, 0xc01c000000000000, 0x400921fb54442d18,
      0x408f400000000000, 0x3fb999999999999a, 0x3fffffffffffffff, 0x3ff0000000000001,
      0x40c3880000000000, 0x2345678912345679, 0x5fedcba987654321},
     false},
    {"f32", "div.rn.f32 %y, %x, %c;", PASS_div_one, {0x3f800000}, true},
    {"f32", "add.f32 %t, %x, %w; div.rn.f32 %y, %t, %c;", PASS_div_one, {0x3f800000}, false},
    {"f32",
     "div.rn.f32 %y, %x, %c;",
     PASS_div_power,
     {0x40000000, 0xbf800000, 0x3f000000, 0x7e800000, 0x00800000, 0xc5000000},
     true},
    {"f32",
     "div.rn.ftz.f32 %y, %x, %c;",
     PASS_div_power,
     {0x3f000000, 0xbf800000, 0x30000000},
     true},
    {"f32", "div.rn.ftz.f32 %y, %x, %c;", PASS_div_one, {0x3f800000}, true},
    {"f32",
     "div.rn.f32 %y, %x, %c;",
     PASS_div_known,
     {0x40400000, 0x41200000, 0xc0e00000, 0x40490fdb, 0x447a0000, 0x3dcccccd, 0x3fffffff,
      0x3f800001, 0x43fa8000},
     true},
    {"f32",
     "div.rn.ftz.f32 %y, %x, %c;",
     PASS_div_known,
     {0x40400000, 0x41200000, 0x3dcccccd},
     true},
    {"f64", "add.f64 %t, %x, %w; mul.f64 %y, %t, %c;", PASS_mul_one, {0x3ff0000000000000}, false},
    {"f64",
     "mul.f64 %t, %x, %w; mul.f64 %u, %c, %t; add.f64 %y, %u, %w;",
     PASS_rounded,
     {0x3ff0000000000000},
     false},
    {"f32", "fma.rn.f32 %t, %x, %w, %x; mul.f32 %y, %c, %t;", PASS_mul_one, {0x3f800000}, false},
    {"f32", "mul.f32 %y, %x, %c;", PASS_rounded, {0x3f800000, 0xbf800000}, true},
    {"f64",
     "fma.rn.f64 %t, %x, %w, %x; add.f64 %y, %t, %c;",
     PASS_add_zero,
     {0x8000000000000000},
     false},
    {"f64", "mul.rn.f64 %t, %x, %w; sub.f64 %y, %t, %c;", PASS_add_zero, {0}, false},
    {"f32", "mul.rn.f32 %t, %x, %w; add.f32 %y, %c, %t;", PASS_add_zero, {0x80000000}, false},
    {"f32", "mul.rn.f32 %t, %x, %w; add.f32 %y, %c, %t;", PASS_COUNT, {0}, false},
    {"f64", "mul.f64 %t, %c, %c; add.f64 %y, %t, %x;", PASS_hidden, {0x3fb999999999999a}, false},
    {"f32", "mul.f32 %t, %c, %c; sub.f32 %y, %x, %t;", PASS_hidden, {0x3dcccccd}, true},
    {"f64",
     "mul.f64 %t, %x, %w; setp.eq.f64 %p, %c, 0d3FF0000000000000; selp.f64 %u, %t, %w, %p; add.f64 "
     "%y, %u, %x;",
     PASS_rounded,
     {0x3ff0000000000000},
     false},
    {"f32",
     "mul.f32 %t, %x, %w; mov.f32 %u, %t; setp.eq.f32 %p, %c, 0f3F800000; @%p bra over; mov.f32 "
     "%u, %w; over: "
     "add.f32 %y, %u, %x;",
     PASS_rounded,
     {0x3f800000},
     false},
    {"f64",
     "mul.f64 %t, %x, %w; add.f64 %y, %t, %x; setp.neu.f64 %p, %c, 0d3FF0000000000000; @%p "
     "div.rn.f64 %y, %t, %w;",
     PASS_rounded,
     {0x3ff0000000000000},
     false},
    {"f64",
     "mul.f64 %t, %x, %w; add.f64 %y, %t, %x; setp.neu.f64 %p, %c, 0d3FF0000000000000; @%p add.f64 "
     "%y, %t, %w;",
     PASS_guard,
     {0x3ff0000000000000},
     false},
    {"f32",
     "mul.f32 %t, %x, %c; add.f32 %y, %t, %w;",
     PASS_COUNT,
     {0x40000000, 0x3e99999a, 0x34000000},
     false},
    {"f32",
     "div.full.f32 %y, %x, %c;",
     PASS_COUNT,
     {0x40400000, 0x40000000, 0x3dcccccd, 0x0da24260, 0x7e967699},
     true},
    {"f32", "div.full.ftz.f32 %y, %x, %c;", PASS_COUNT, {0x40e00000, 0x3dcccccd}, true},
    {"f32", "div.approx.f32 %y, %x, %c;", PASS_COUNT, {0x40400000, 0x3dcccccd}, true},
    {"f32", "div.approx.ftz.f32 %y, %x, %c;", PASS_COUNT, {0x40e00000}, true},
    {"f32", "fma.rn.f32 %y, %x, %c, %w;", PASS_COUNT, {0x3f800000, 0xbf800000, 0x80000000}, true},
    {"f32", "add.f32 %y, %x, %c;", PASS_COUNT, {0x80000000, 0x3f800000}, true},
    {"f32", "max.f32 %y, %x, %c;", PASS_COUNT, {0xff800000, 0x3f800000}, true},
    {"u32",
     "div.u32 %y, %x, %c;",
     PASS_div_int,
     {2, 64, 3, 7, 77, 641, 1000, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff},
     true},
    {"u32", "rem.u32 %y, %x, %c;", PASS_div_int, {2, 64, 3, 7, 100, 65537, 0xfffffffe}, true},
    {"s32",
     "div.s32 %y, %x, %c;",
     PASS_div_int,
     {2, 64, 3, 7, 77, 641, 1000, 0x40000000, 0x7fffffff},
     true},
    {"s32", "rem.s32 %y, %x, %c;", PASS_div_int, {2, 64, 3, 7, 100, 65537, 0x40000001}, true},
    {"s32", "shr.u32 %t, %x, 3; rem.s32 %y, %t, %c;", PASS_div_int, {2, 7, 100, 0x1ffffffe}, true},
    {"u32", "shr.u32 %t, %x, 12; div.u32 %y, %t, %c;", PASS_div_int, {7, 77, 641, 524287}, true},
    {"u64",
     "div.u64 %y, %x, %c;",
     PASS_div_int,
     {2, 64, 3, 7, 77, 641, 1000, 0xffffffff, 0x100000001, 0x7fffffffffffffff, 0x8000000000000000},
     false},
    {"u64",
     "rem.u64 %y, %x, %c;",
     PASS_div_int,
     {2, 64, 3, 7, 100, 0x123456789abcdef, 6700417},
     false},
    {"s64",
     "div.s64 %y, %x, %c;",
     PASS_div_int,
     {2, 64, 3, 7, 77, 641, 1000, 0xffffffff, 0x4000000000000000, 0x7fffffffffffffff},
     false},
    {"s64", "rem.s64 %y, %x, %c;", PASS_div_int, {2, 64, 3, 7, 100, 0x123456789abcdef}, false},
    {"u64",
     "and.b64 %t, %x, 0xffffffff; div.u64 %y, %t, %c;",
     PASS_div_int,
     {7, 64, 77, 0xfffffffb},
     false},
    {"s64", "shr.u64 %t, %x, 33; rem.s64 %y, %t, %c;", PASS_div_int, {7, 1000, 0x7ffffffe}, false},
    {"u64",
     "and.b64 %t, %x, 0xffffffff; shr.u64 %u, %w, 40; or.b64 %u, %u, %c; div.u64 %y, %t, %u;",
     PASS_narrow,
     {1},
     false},
    {"s64",
     "shr.u64 %t, %x, 32; shr.u64 %u, %w, 36; or.b64 %u, %u, %c; rem.s64 %y, %t, %u;",
     PASS_narrow,
     {1},
     false},
    {"u32",
     "add.u32 %t, %x, %c; xor.b32 %t, %t, %c; shl.b32 %t, %t, %c; or.b32 %y, %c, %t;",
     PASS_identity,
     {0},
     true},
    {"u64", "mul.lo.u64 %t, %x, %c; div.u64 %y, %t, %c;", PASS_identity, {1}, false},
    {"s64", "and.b64 %y, %x, %c;", PASS_identity, {0xffffffffffffffff}, false},
    {"u32", "and.b32 %t, %x, 63; rem.u32 %y, %t, %c;", PASS_identity, {64, 100, 0x7fffffff}, true},
    {"s32",
     "setp.gt.s32 %p, %c, 4; selp.b32 %y, %x, %w, %p;",
     PASS_select,
     {3, 5, 0x80000000},
     true},
    {"u32",
     "and.b32 %t, %x, 63; setp.lt.u32 %p, %t, %c; selp.b32 %y, %x, 7, %p;",
     PASS_range,
     {64},
     true},
    {"s32",
     "mov.u32 %y, %x; setp.ne.s32 %p, %c, 4; @%p mov.u32 %y, %w;",
     PASS_guard,
     {3, 4, 5},
     true},
    {"s32",
     "mov.u32 %y, %x; setp.eq.s32 %p, %c, 4; @%p bra over; add.u32 %y, %w, 1; over:",
     PASS_guard,
     {3, 4},
     true},
    {"u32", "mov.u32 %t, %x; add.u32 %y, %t, %t; add.u32 %u, %y, 5;", PASS_copy, {1}, true},
};
enum { PASS_CASES = sizeof pass_cases / sizeof *pass_cases };

/* The kernel `k`(in, out, c): the second operands stand behind `count` first ones. */
static inline void pass_text(const struct pass_case *c, uint32_t count, char *out, size_t size)
{
    unsigned bytes = (unsigned)atoi(c->type + 1) / 8;
    const char *t = c->type;
    snprintf(out, size,
             ".version 7.8\n.target sm_80\n.address_size 64\n"
             ".visible .entry k(.param .u64 in, .param .u64 out, .param .%s c)\n{\n"
             "\t.reg .%s %%x, %%w, %%c, %%t, %%u, %%y;\n\t.reg .pred %%p;\n"
             "\t.reg .b32 %%i<4>;\n\t.reg .b64 %%a<4>;\n"
             "\tld.param.u64 %%a0, [in];\n\tld.param.u64 %%a1, [out];\n\tld.param.%s %%c, [c];\n"
             "\tmov.u32 %%i0, %%ctaid.x;\n\tmov.u32 %%i1, %%ntid.x;\n\tmov.u32 %%i2, %%tid.x;\n"
             "\tmad.lo.s32 %%i3, %%i0, %%i1, %%i2;\n\tmul.wide.u32 %%a2, %%i3, %u;\n"
             "\tadd.s64 %%a0, %%a0, %%a2;\n\tadd.s64 %%a1, %%a1, %%a2;\n"
             "\tld.global.%s %%x, [%%a0];\n\tld.global.%s %%w, [%%a0+%u];\n\t%s\n"
             "\tst.global.%s [%%a1], %%y;\n\tret;\n}\n",
             t, t, t, bytes, t, t, count * bytes, c->body, t);
}

/* The same with the scalar known; NULL with a line if that fails or the row did not apply. */
static inline char *pass_rewritten(const struct pass_case *c, const char *text, uint64_t scalar,
                                   const struct kg_launch *launch)
{
    unsigned bytes = (unsigned)atoi(c->type + 1) / 8, done[PASS_COUNT];
    const struct kg_param params[] = {{0, 8}, {8, 8}, {16, bytes}};
    const struct kg_scalar known = {2, 0, (uint16_t)bytes, scalar, 0};
    struct kg_bytes out = {0};
    kg_status status = ptx_rewrite(text, "k", launch, params, 3, &known, 1, &out, done);
    if (status == KG_OK && (c->pass == PASS_COUNT || done[c->pass]))
        return (char *)out.data;
    fprintf(stderr, "%s with %llx: %s, %s not applied\n", c->body, (unsigned long long)scalar,
            status_text(status), c->pass < PASS_COUNT ? pass_rows[c->pass].name : "it");
    bytes_free(&out);
    return NULL;
}

static inline uint64_t pass_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* Operand number i for a case with this scalar, as bits: zeros, infinities, NaN (signalling ones
 * too), denormals, the type's ends, multiples of the scalar and their neighbours, small integers,
 * all bits random. */
static inline uint64_t pass_operand(const struct pass_case *c, uint64_t scalar, uint64_t i,
                                    uint64_t *state)
{
    static const uint64_t f64s[] = {0,
                                    0x7ff0000000000000,
                                    0x7ff8000000000000,
                                    0x7ff0000000000001,
                                    0x7ff4123456789abc,
                                    1,
                                    0x000fffffffffffff,
                                    0x0010000000000000,
                                    0x7fefffffffffffff,
                                    0x3ff0000000000000,
                                    0x0010000000000001,
                                    0x4340000000000000};
    static const uint64_t f32s[] = {0,          0x7f800000, 0x7fc00000, 0x7f800001,
                                    0x7fa12345, 1,          0x7fffff,   0x800000,
                                    0x7f7fffff, 0x3f800000, 0x800001,   0x4b800000};
    bool wide = !strcmp(c->type + 1, "64"), real = *c->type == 'f';
    uint64_t random = pass_random(state), ones = wide ? UINT64_MAX : UINT32_MAX;
    uint64_t top = wide ? UINT64_C(1) << 63 : UINT64_C(1) << 31;
    if (i < 24 && real)
        return (wide ? f64s : f32s)[i / 2] | (i & 1 ? top : 0);
    if (i < 24)
        return (i < 8 ? i : i < 16 ? top - 12 + i : 0 - (i - 15)) & ones;
    switch (i % 4) {
    case 0: /* around multiples of the scalar */
        if (real && wide) {
            double a = (double)(int64_t)(random >> 40), s;
            memcpy(&s, &scalar, sizeof s);
            a *= s;
            memcpy(&random, &a, sizeof random);
            return random + (i / 4 % 3) - 1;
        }
        if (real)
            return random & ones;
        return (scalar * (random >> (pass_random(state) & 63)) + i / 4 % 3 - 1) & ones;
    case 1: /* exponents near the middle */
        if (real)
            return wide ? (random & 0x803fffffffffffff) | 0x3fc0000000000000
                        : (random & 0x83ffffff) | 0x3c000000;
        return random >> (pass_random(state) & 63) & ones;
    case 2: /* denormals and what becomes one */
        if (real)
            return wide ? random & 0x807fffffffffffff : random & 0x83ffffff;
        return random & ones;
    default:
        return random & ones;
    }
}

#endif
