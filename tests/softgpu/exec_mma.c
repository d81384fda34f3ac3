/* d = a * b + c on whole matrices, as an H200 computes it. Integers and single bits: exact.
 * Doubles: a chain of fused multiply-adds over k. Smaller floats: not IEEE; the model is
 *
 *   the exact products of BLOCK values of k and the accumulator are aligned to the largest
 *   exponent of a product that is not zero (the sum of its factors' exponents) or of the
 * accumulator, cut (towards zero) FRACTION bits below it, added exactly; the sum is cut to f32, or
 * rounded to nearest for f16.
 *
 * What this processor has no instruction for is made of others: see chain_of and small_chain. All
 * of it is compared bit for bit with the hardware by tests/differential. */
#include "exec_matrix.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 16, FRACTION = 25 };

/* A number: significand * 2^(exponent - bits of its fraction). */
struct part {
    int32_t significand;
    int16_t exponent;
    uint8_t special; /* enum special */
};
enum special { FINITE, INFINITE, INFINITE_MINUS, NOT_A_NUMBER };

struct layout {
    uint8_t exponent, mantissa, low; /* low: bits below the mantissa that are ignored */
};

static struct layout layout_of(uint8_t type)
{
    switch (type) {
    case PTX_TYPE_bf16:
        return (struct layout){8, 7, 0};
    case PTX_TYPE_tf32:
        return (struct layout){8, 10, 13};
    case PTX_TYPE_f32:
        return (struct layout){8, 23, 0};
    default:
        return (struct layout){5, 10, 0};
    }
}

static struct part part_of(uint8_t type, uint64_t bits)
{
    struct layout f = layout_of(type);
    bits >>= f.low;
    int top = (1 << f.exponent) - 1, exponent = (int)(bits >> f.mantissa) & top;
    int32_t mantissa = (int32_t)(bits & ((1u << f.mantissa) - 1));
    bool minus = bits >> (f.exponent + f.mantissa) & 1;
    struct part out = {mantissa, (int16_t)((exponent ? exponent : 1) - top / 2), FINITE};
    if (exponent == top)
        out.special = mantissa ? NOT_A_NUMBER : minus ? INFINITE_MINUS : INFINITE;
    if (exponent)
        out.significand |= 1 << f.mantissa;
    if (minus)
        out.significand = -out.significand;
    return out;
}

static uint8_t special_product(struct part a, struct part b)
{
    if (a.special == FINITE && b.special == FINITE)
        return FINITE;
    bool nan = a.special == NOT_A_NUMBER || b.special == NOT_A_NUMBER ||
               (a.special == FINITE && !a.significand) || (b.special == FINITE && !b.significand);
    bool minus = (a.special == FINITE ? a.significand < 0 : a.special == INFINITE_MINUS) !=
                 (b.special == FINITE ? b.significand < 0 : b.special == INFINITE_MINUS);
    return nan ? NOT_A_NUMBER : minus ? INFINITE_MINUS : INFINITE;
}

static uint8_t special_sum(uint8_t a, uint8_t b)
{
    return a == FINITE || a == b ? b : b == FINITE ? a : NOT_A_NUMBER;
}

/* significand * 2^left, cut to a multiple of 2^right, divided by it. */
static int64_t aligned(int64_t significand, int left, int right)
{
    if (right >= 63)
        return 0;
    int64_t magnitude = significand < 0 ? -significand : significand;
    magnitude = left < 0 ? magnitude >> -left : magnitude << left;
    magnitude >>= right;
    return significand < 0 ? -magnitude : magnitude;
}

/* sum * 2^exponent to the accumulator's type. */
static uint64_t accumulator_bits(uint8_t type, int64_t sum, int exponent)
{
    /* scaled by a power of two that is made by hand where it is a normal number */
    union slot scale = {.u64 = (uint64_t)(exponent + 1023) << 52}, out = {0};
    double exact = exponent > -1023 && exponent < 1024 ? (double)sum * scale.f64
                                                       : ldexp((double)sum, exponent);
    if (type == PTX_TYPE_f16)
        return small_from_double(PTX_TYPE_f16, exact, 0);
    out.f32 = (float)exact;
    if (fabs((double)out.f32) > fabs(exact)) /* towards zero; what is too large is infinite */
        out.f32 = fabs(exact) >= 0x1p128 ? out.f32 : nextafterf(out.f32, 0);
    return out.u32;
}

static uint64_t special_bits(uint8_t type, uint8_t special)
{
    bool half = type == PTX_TYPE_f16;
    switch (special) {
    case INFINITE:
        return half ? 0x7c00 : 0x7f800000;
    case INFINITE_MINUS:
        return half ? 0xfc00 : 0xff800000;
    default:
        return half ? 0x7fff : 0x7fffffff;
    }
}

static uint8_t special_block(const struct part *a, const struct part *b, unsigned count,
                             uint8_t special)
{
    for (unsigned i = 0; i < count; i++)
        special = special_sum(special, special_product(a[i], b[i]));
    return special;
}

/* One block of k: products of a and b, and the accumulator. special: some factor is no number. */
static uint64_t block_sum(uint8_t type, int fraction, const struct part *a, const struct part *b,
                          unsigned count, bool special, uint8_t of, uint64_t accumulator)
{
    struct part c = part_of(of, accumulator);
    int most = c.exponent, c_fraction = layout_of(of).mantissa;
    int64_t sum;
    if (special || c.special != FINITE) {
        uint8_t result = special_block(a, b, count, c.special);
        if (result != FINITE)
            return special_bits(type, result);
    }
    for (unsigned i = 0; i < count; i++) {
        int exponent = a[i].exponent + b[i].exponent;
        if (a[i].significand && b[i].significand && exponent > most) /* zeros do not count */
            most = exponent;
    }
    sum = aligned(c.significand, FRACTION - c_fraction, most - c.exponent);
    for (unsigned i = 0; i < count; i++) {
        int64_t product = (int64_t)a[i].significand * b[i].significand;
        if (product)
            sum += aligned(product, FRACTION - fraction, most - a[i].exponent - b[i].exponent);
    }
    return accumulator_bits(type, sum, most - FRACTION);
}

/* One row of a and one column of b. */
struct line {
    const struct matrix *plan;
    const struct part *a, *b;
    const uint64_t *bits_a, *bits_b;
    int fraction; /* bits of a product's */
    bool special; /* not all factors are numbers */
};

/* The usual case: block after block; tf32 of wmma in blocks of 4. */
static uint64_t chain_of(const struct line *x, uint64_t c)
{
    const struct matrix *plan = x->plan;
    uint8_t type = plan->types[FRAGMENT_D], of = plan->types[FRAGMENT_C];
    unsigned block = plan->wmma && plan->types[FRAGMENT_A] == PTX_TYPE_tf32 ? 4 : BLOCK;
    for (unsigned k = 0; k < plan->k; k += block) {
        unsigned count = plan->k - k < block ? plan->k - k : block;
        c = block_sum(type, x->fraction, x->a + k, x->b + k, count, x->special, of, c);
        of = type;
    }
    return c;
}

/* 8 bits: the first two of each four values of k, then the others, from zero; c is added last. */
static uint64_t small_chain(const struct line *x, uint64_t c)
{
    uint8_t type = x->plan->types[FRAGMENT_D];
    struct part a[FLOATS_K], b[FLOATS_K];
    union slot sum = {0}, of_c = {.u64 = c};
    for (unsigned half = 0; half < 2; half++) {
        unsigned count = 0;
        for (unsigned k = 0; k < x->plan->k; k++) {
            if (k % 4 / 2 != half)
                continue;
            a[count] = x->a[k];
            b[count++] = x->b[k];
        }
        sum.u64 = block_sum(type, x->fraction, a, b, count, x->special, type, sum.u64);
    }
    if (type == PTX_TYPE_f16)
        return small_from_double(
            type, small_to_double(type, sum.u32) + small_to_double(type, of_c.u32), 0);
    sum.f32 = float_op(PTX_OP_add, 0, of_c.f32, sum.f32, 0);
    return sum.u32;
}

/* m8n8k4 of halves, in single precision: from the first product on and c last; or, where d is of
 * halves too, from c on by the sums of two products. */
static uint64_t single_chain(const struct line *x, uint64_t c)
{
    const uint8_t *types = x->plan->types;
    union slot of_c = {.u64 = c}, sum;
    float a[4], b[4];
    for (unsigned k = 0; k < 4; k++) {
        a[k] = (float)small_to_double(PTX_TYPE_f16, (uint32_t)x->bits_a[k]);
        b[k] = (float)small_to_double(PTX_TYPE_f16, (uint32_t)x->bits_b[k]);
    }
    if (types[FRAGMENT_C] == PTX_TYPE_f16)
        of_c.f32 = (float)small_to_double(PTX_TYPE_f16, of_c.u32);
    if (types[FRAGMENT_D] == PTX_TYPE_f16) { /* products of halves are exact */
        float low = a[0] * b[0] + a[1] * b[1], high = a[2] * b[2] + a[3] * b[3];
        return small_from_double(PTX_TYPE_f16, (double)((of_c.f32 + low) + high), 0);
    }
    sum.f32 = fmaf(a[3], b[3], fmaf(a[2], b[2], fmaf(a[1], b[1], a[0] * b[0])));
    sum.f32 = float_op(PTX_OP_add, 0, sum.f32, of_c.f32, 0);
    return sum.u32;
}

/* Eight bits become halves first. */
static uint64_t widened(uint8_t type, uint64_t bits)
{
    uint8_t pair = type == PTX_TYPE_e4m3 ? PTX_TYPE_e4m3x2 : PTX_TYPE_e5m2x2;
    return small_from_double(PTX_TYPE_f16, small_to_double(pair, (uint32_t)bits), 0);
}

/* Takes rows of `count` elements apart; special[i]: not all of row i are numbers. */
static void take_apart(uint8_t type, bool small, uint64_t rows[][MATRIX_K], unsigned row_count,
                       unsigned count, struct part parts[][FLOATS_K], bool special[])
{
    for (unsigned i = 0; i < row_count; i++) {
        special[i] = false;
        for (unsigned k = 0; k < count; k++) {
            if (small)
                rows[i][k] = widened(type, rows[i][k]);
            parts[i][k] = part_of(small ? PTX_TYPE_f16 : type, rows[i][k]);
            special[i] |= parts[i][k].special != FINITE;
        }
    }
}

static void multiply_floats(const struct matrix *plan, struct matrices *x)
{
    uint8_t of_a = plan->types[FRAGMENT_A], of_b = plan->types[FRAGMENT_B];
    bool small = of_a == PTX_TYPE_e4m3 || of_a == PTX_TYPE_e5m2;
    bool single = plan->m == 8 && plan->k == 4 && !plan->wmma;
    bool special_a[MATRIX_M], special_b[MATRIX_M];
    struct part a[MATRIX_M][FLOATS_K], b[MATRIX_M][FLOATS_K];
    struct line line = {.plan = plan,
                        .fraction = 2 * layout_of(small ? PTX_TYPE_f16 : of_a).mantissa};
    take_apart(of_a, small, x->a, plan->m, plan->k, a, special_a);
    take_apart(of_b, small, x->b, plan->n, plan->k, b, special_b);
    for (unsigned m = 0; m < plan->m; m++) {
        line.a = a[m];
        line.bits_a = x->a[m];
        for (unsigned n = 0; n < plan->n; n++) {
            line.b = b[n];
            line.bits_b = x->b[n];
            line.special = special_a[m] || special_b[n];
            x->d[m][n] = small    ? small_chain(&line, x->c[m][n])
                         : single ? single_chain(&line, x->c[m][n])
                                  : chain_of(&line, x->c[m][n]);
        }
    }
}

static void multiply_doubles(const struct matrix *plan, struct matrices *x)
{
    for (unsigned m = 0; m < plan->m; m++)
        for (unsigned n = 0; n < plan->n; n++) {
            union slot sum = {.u64 = x->c[m][n]};
            for (unsigned k = 0; k < plan->k; k++) {
                union slot a = {.u64 = x->a[m][k]}, b = {.u64 = x->b[n][k]};
                sum.f64 = chosen_nan(fma(a.f64, b.f64, sum.f64), a.f64, b.f64, sum.f64);
            }
            x->d[m][n] = sum.u64;
        }
}

static int64_t integer_of(uint8_t type, uint64_t bits)
{
    unsigned shift = 64 - fragment_bits(type);
    bool is_signed = type == PTX_TYPE_s8 || type == PTX_TYPE_s4 || type == PTX_TYPE_s32;
    return is_signed ? (int64_t)(bits << shift) >> shift : (int64_t)(bits << shift >> shift);
}

static void multiply_integers(const struct matrix *plan, struct matrices *x)
{
    uint8_t of_a = plan->types[FRAGMENT_A], of_b = plan->types[FRAGMENT_B];
    for (unsigned m = 0; m < plan->m; m++)
        for (unsigned n = 0; n < plan->n; n++) {
            int64_t sum = integer_of(PTX_TYPE_s32, x->c[m][n]);
            for (unsigned k = 0; k < plan->k; k++) {
                int64_t a = integer_of(of_a, x->a[m][k]), b = integer_of(of_b, x->b[n][k]);
                sum += plan->bit_op == PTX_MOD_xor   ? a ^ b
                       : plan->bit_op == PTX_MOD_and ? (a & b)
                                                     : a * b;
            }
            if (plan->saturates)
                sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
            x->d[m][n] = (uint32_t)sum;
        }
}

void matrix_multiply(const struct matrix *plan, struct matrices *x)
{
    uint8_t type = plan->types[FRAGMENT_D];
    if (type == PTX_TYPE_s32)
        multiply_integers(plan, x);
    else if (type == PTX_TYPE_f64)
        multiply_doubles(plan, x);
    else
        multiply_floats(plan, x);
}
