/* d = a * b + c on whole matrices, as tensor cores compute it. Integers and single bits: exact.
 * Doubles: a chain of fused multiply-adds over k. Smaller floats: not IEEE; the model is
 *
 *   the exact products of BLOCK values of k and the accumulator are aligned to the largest exponent
 *   among them (of a product: the sum of its factors' exponents), cut (towards zero) FRACTION bits
 *   below it, added exactly; the sum is cut to f32, or rounded to nearest for f16.
 *
 * It is compared with hardware by tests/differential. */
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
    case PTX_TYPE_e4m3:
        return (struct layout){4, 3, 0};
    case PTX_TYPE_e5m2:
        return (struct layout){5, 2, 0};
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
    if (type == PTX_TYPE_e4m3 ? exponent == top && mantissa == 7 : exponent == top)
        out.special = type == PTX_TYPE_e4m3 || mantissa ? NOT_A_NUMBER
                      : minus                           ? INFINITE_MINUS
                                                        : INFINITE;
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
    double exact = ldexp((double)sum, exponent);
    union slot out = {0};
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

/* One block of k: products of a and b, and the accumulator. */
static uint64_t block_sum(uint8_t type, int fraction, const struct part *a, const struct part *b,
                          unsigned count, uint8_t of, uint64_t accumulator)
{
    struct part c = part_of(of, accumulator);
    uint8_t special = c.special;
    int most = c.exponent, c_fraction = layout_of(of).mantissa;
    int64_t sum;
    for (unsigned i = 0; i < count; i++) {
        int exponent = a[i].exponent + b[i].exponent;
        most = exponent > most ? exponent : most;
        special = special_sum(special, special_product(a[i], b[i]));
    }
    if (special != FINITE)
        return special_bits(type, special);
    sum = aligned(c.significand, FRACTION - c_fraction, most - c.exponent);
    for (unsigned i = 0; i < count; i++)
        sum += aligned((int64_t)a[i].significand * b[i].significand, FRACTION - fraction,
                       most - a[i].exponent - b[i].exponent);
    return accumulator_bits(type, sum, most - FRACTION);
}

static void multiply_floats(const struct matrix *plan, struct matrices *x)
{
    struct part a[MATRIX_K], b[MATRIX_M][MATRIX_K];
    uint8_t type = plan->types[FRAGMENT_D];
    int fraction =
        layout_of(plan->types[FRAGMENT_A]).mantissa + layout_of(plan->types[FRAGMENT_B]).mantissa;
    for (unsigned n = 0; n < plan->n; n++)
        for (unsigned k = 0; k < plan->k; k++)
            b[n][k] = part_of(plan->types[FRAGMENT_B], x->b[n][k]);
    for (unsigned m = 0; m < plan->m; m++) {
        for (unsigned k = 0; k < plan->k; k++)
            a[k] = part_of(plan->types[FRAGMENT_A], x->a[m][k]);
        for (unsigned n = 0; n < plan->n; n++) {
            uint64_t sum = x->c[m][n];
            uint8_t of = plan->types[FRAGMENT_C];
            for (unsigned k = 0; k < plan->k; k += BLOCK) {
                unsigned count = plan->k - k < BLOCK ? plan->k - k : BLOCK;
                sum = block_sum(type, fraction, a + k, b[n] + k, count, of, sum);
                of = type;
            }
            x->d[m][n] = sum;
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
                sum.f64 = fma(a.f64, b.f64, sum.f64);
            }
            x->d[m][n] = sum.f64 == sum.f64 ? sum.u64 : UINT64_C(0x7fffffffffffffff);
        }
}

static int64_t integer_of(uint8_t type, uint64_t bits)
{
    unsigned shift = 64 - element_bits(type);
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
