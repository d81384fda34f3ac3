/* Floating point of the software GPU: rounding modes, flushing, small formats, conversions.
 * Compiled without contraction; a fused multiply-add is only ever the one that PTX asks for. */
#include "exec_core.h"

#include <fenv.h>
#include <math.h>
#include <string.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#if defined(__clang__)
#pragma STDC FENV_ACCESS ON
#endif

static const int roundings[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

/* The rounding of float and double alone, which is cheaper than that of long double too. */
static void round_to(unsigned round)
{
#ifdef __SSE2__
    static const unsigned bits[] = {0, _MM_ROUND_TOWARD_ZERO, _MM_ROUND_DOWN, _MM_ROUND_UP};
    _mm_setcsr((_mm_getcsr() & ~(unsigned)_MM_ROUND_MASK) | bits[round]);
#else
    fesetround(roundings[round]);
#endif
}

static float canonical(float value)
{
    union slot nan = {.u64 = 0x7fffffff};
    return value == value ? value : nan.f32;
}

float flush(float value, unsigned mode)
{
    if ((mode & FTZ) && fabsf(value) < 0x1p-126f)
        value = copysignf(0, value);
    return value;
}

static float saturate(float value)
{
    return value > 0 ? value < 1 ? value : 1.0f : 0.0f; /* NaN: 0 */
}

/* Operands are volatile so that nothing is computed before the rounding mode is set. */
static double in_mode(unsigned op, bool single, volatile double a, volatile double b,
                      volatile double c)
{
    volatile float x = (float)a, y = (float)b, z = (float)c;
    switch (op) {
    case PTX_OP_add:
        return single ? x + y : a + b;
    case PTX_OP_sub:
        return single ? x - y : a - b;
    case PTX_OP_mul:
        return single ? x * y : a * b;
    case PTX_OP_div:
        return single ? x / y : a / b;
    case PTX_OP_rcp:
        return single ? 1.0f / x : 1.0 / a;
    case PTX_OP_sqrt:
        return single ? sqrtf(x) : sqrt(a);
    default:
        return single ? fmaf(x, y, z) : fma(a, b, c);
    }
}

double double_op(unsigned op, unsigned mode, double a, double b, double c)
{
    round_to(mode & ROUND_MASK);
    double out = in_mode(op, false, a, b, c);
    round_to(ROUND_NEAREST);
    return op == PTX_OP_div || op == PTX_OP_rcp || op == PTX_OP_sqrt ? out
                                                                     : chosen_nan(out, a, b, c);
}

static float approximate(unsigned op, float a)
{
    switch (op) {
    case PTX_OP_ex2:
        return exp2f(a);
    case PTX_OP_lg2:
        return log2f(a);
    case PTX_OP_sin:
        return sinf(a);
    case PTX_OP_cos:
        return cosf(a);
    case PTX_OP_tanh:
        return tanhf(a);
    default: /* rsqrt */
        return (float)(1.0 / sqrt((double)a));
    }
}

/* A product, quotient or sum of a product that is below the normal numbers and only rounds to the
 * least of them is flushed as well. */
static float flush_tiny(unsigned op, float out, float a, float b, float c)
{
    if (fabsf(out) != 0x1p-126f || (op != PTX_OP_mul && op != PTX_OP_div && op != PTX_OP_fma))
        return out;
    double exact = double_op(op, ROUND_ZERO, a, b, c);
    return fabs(exact) < 0x1p-126 ? copysignf(0, out) : out;
}

float float_op(unsigned op, unsigned mode, float a, float b, float c)
{
    float out;
    a = flush(a, mode);
    b = flush(b, mode);
    c = flush(c, mode);
    switch (op) {
    case PTX_OP_ex2:
    case PTX_OP_lg2:
    case PTX_OP_sin:
    case PTX_OP_cos:
    case PTX_OP_tanh:
    case PTX_OP_rsqrt:
        out = approximate(op, a);
        break;
    default:
        if (mode & ROUND_MASK)
            round_to(mode & ROUND_MASK);
        out = (float)in_mode(op, true, a, b, c);
        if (mode & ROUND_MASK)
            round_to(ROUND_NEAREST);
        if (mode & FTZ)
            out = flush_tiny(op, out, a, b, c);
    }
    out = canonical(flush(out, mode));
    return mode & SAT ? saturate(out) : out;
}

/* div.approx: by the reciprocal, which is 0 for very large b. */
float divide_approximately(unsigned mode, float a, float b)
{
    b = flush(b, mode);
    if (fabsf(b) > 0x1p126f && isfinite(b))
        return float_op(PTX_OP_mul, mode, a, copysignf(0, b), 0);
    return float_op(PTX_OP_div, mode, a, b, 0);
}

/* rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 look at the high word only, and make one. */
uint32_t approximate_high(uint64_t a, bool root)
{
    union slot x = {.u64 = a & ~UINT64_C(0xffffffff)};
    if (fabs(x.f64) < 0x1p-1022)
        x.f64 = copysign(0, x.f64);
    double out = root ? x.f64 == 0 ? 1 / x.f64 : 1 / sqrt(x.f64) : 1 / x.f64;
    if (fabs(out) < 0x1p-1022)
        out = copysign(0, out);
    union slot bits = {.f64 = out};
    return out != out ? 0x7fffffff : (uint32_t)(bits.u64 >> 32);
}

/* IEEE 754-2019 minimumNumber and maximumNumber: a NaN loses, -0 is below +0. */
float min_f32(float a, float b)
{
    if (a != a)
        return canonical(b);
    if (b != b)
        return a;
    return a < b || (a == b && signbit(a)) ? a : b;
}

float max_f32(float a, float b)
{
    if (a != a)
        return canonical(b);
    if (b != b)
        return a;
    return a > b || (a == b && !signbit(a)) ? a : b;
}

double min_f64(double a, double b)
{
    if (a != a)
        return chosen_nan(b, b, 0, 0);
    if (b != b)
        return a;
    return a < b || (a == b && signbit(a)) ? a : b;
}

double max_f64(double a, double b)
{
    if (a != a)
        return chosen_nan(b, b, 0, 0);
    if (b != b)
        return a;
    return a > b || (a == b && !signbit(a)) ? a : b;
}

/* ---- small formats --------------------------------------------------------------------------- */

struct format {
    int exponent, mantissa; /* bits */
    bool infinite;          /* has infinities; e4m3 has only NaN */
};

static struct format format_of(uint8_t type)
{
    switch (type) {
    case PTX_TYPE_bf16:
    case PTX_TYPE_bf16x2:
        return (struct format){8, 7, true};
    case PTX_TYPE_tf32:
        return (struct format){8, 10, true};
    case PTX_TYPE_e4m3x2:
        return (struct format){4, 3, false};
    case PTX_TYPE_e5m2x2:
        return (struct format){5, 2, true};
    default:
        return (struct format){5, 10, true};
    }
}

double small_to_double(uint8_t type, uint32_t bits)
{
    struct format f = format_of(type);
    int bias = (1 << (f.exponent - 1)) - 1, top = (1 << f.exponent) - 1;
    int exponent = (int)(bits >> f.mantissa) & top;
    uint32_t mantissa = bits & ((1u << f.mantissa) - 1);
    double value;
    if (exponent == top && f.infinite)
        value = mantissa ? NAN : INFINITY;
    else if (exponent == top && !f.infinite && mantissa == (1u << f.mantissa) - 1)
        value = NAN;
    else if (exponent)
        value = ldexp((double)(mantissa | 1u << f.mantissa), exponent - bias - f.mantissa);
    else
        value = ldexp((double)mantissa, 1 - bias - f.mantissa);
    return bits >> (f.exponent + f.mantissa) & 1 ? -value : value;
}

/* scaled, an integer or not, to an integer in the mode. */
static double round_scaled(double scaled, bool negative, unsigned mode)
{
    double down = floor(scaled), rest = scaled - down;
    bool up = false;
    switch (mode & ROUND_MASK) {
    case ROUND_NEAREST:
        up = rest > 0.5 || (rest == 0.5 && fmod(down, 2) != 0);
        break;
    case ROUND_DOWN:
        up = negative && rest > 0;
        break;
    case ROUND_UP:
        up = !negative && rest > 0;
        break;
    }
    return down + up;
}

/* The nearest value of the format; a NaN is the format's canonical one. */
uint32_t small_from_double(uint8_t type, double value, unsigned mode)
{
    struct format f = format_of(type);
    int bias = (1 << (f.exponent - 1)) - 1, top = (1 << f.exponent) - 1, exponent;
    uint32_t sign = signbit(value) ? 1u << (f.exponent + f.mantissa) : 0;
    uint32_t all = (1u << (f.exponent + f.mantissa)) - 1;
    if (value != value)
        return all;
    double magnitude = fabs(value);
    uint32_t infinity = f.infinite ? (uint32_t)top << f.mantissa : all;
    uint32_t largest = f.infinite ? infinity - 1 : all - 1;
    if (isinf(value))
        return sign | infinity;
    if (magnitude == 0)
        return sign;
    frexp(magnitude, &exponent);
    exponent -= 1;
    if (exponent < 1 - bias)
        exponent = 1 - bias;
    double units = round_scaled(ldexp(magnitude, f.mantissa - exponent), sign != 0, mode);
    uint64_t bits = (uint64_t)units + ((uint64_t)(exponent + bias - 1) << f.mantissa);
    bool away = (mode & ROUND_MASK) == ROUND_NEAREST ||
                (mode & ROUND_MASK) == (sign ? ROUND_DOWN : ROUND_UP);
    if (bits > largest || exponent > bias + 1)
        bits = away ? infinity : largest;
    return sign | (uint32_t)bits;
}

/* a + b in double precision, rounded to odd: a second rounding to a format with at least two bits
 * less is then as if there had been no first. */
static double add_to_odd(double a, double b)
{
    double s = a + b, bb = s - a, error = (a - (s - bb)) + (b - bb);
    uint64_t bits;
    if (error == 0 || !isfinite(s))
        return s;
    memcpy(&bits, &s, sizeof bits);
    if (!(bits & 1)) { /* towards the exact sum, to the neighbour with an odd mantissa */
        bits += (error > 0) == (s > 0) ? 1 : -(uint64_t)1;
        memcpy(&s, &bits, sizeof bits);
    }
    return s;
}

/* ---- arithmetic of halves -------------------------------------------------------------------- */

static double tiny(uint8_t type, double value, bool flushes)
{
    double least = type == PTX_TYPE_bf16 || type == PTX_TYPE_bf16x2 ? 0x1p-126 : 0x1p-14;
    return flushes && fabs(value) < least ? copysign(0, value) : value;
}

static double pick(const struct ptx_form *form, double a, double b)
{
    bool least = form->op == PTX_OP_min;
    if (ptx_has(form, PTX_MOD_NaN) && (a != a || b != b))
        return NAN;
    if (ptx_has(form, PTX_MOD_xorsign)) {
        bool sign = signbit(a) != signbit(b);
        double of = least ? min_f64(fabs(a), fabs(b)) : max_f64(fabs(a), fabs(b));
        return sign ? -of : of;
    }
    return least ? min_f64(a, b) : max_f64(a, b);
}

static double half_value(const struct ptx_form *form, double a, double b, double c)
{
    double out;
    switch (form->op) {
    case PTX_OP_add:
        return add_to_odd(a, b);
    case PTX_OP_sub:
        return add_to_odd(a, -b);
    case PTX_OP_mul:
        return a * b;
    case PTX_OP_fma:
        out = a * b;
        return isfinite(out) ? add_to_odd(out, c) : out + c;
    case PTX_OP_neg:
        return -a;
    case PTX_OP_abs:
        return fabs(a);
    case PTX_OP_ex2:
        return exp2(a);
    case PTX_OP_tanh:
        return tanh(a);
    default:
        return pick(form, a, b);
    }
}

static uint32_t half_bits(const struct ptx_form *form, uint8_t type, uint32_t a, uint32_t b,
                          uint32_t c)
{
    bool flushes = ptx_has(form, PTX_MOD_ftz);
    double out = half_value(form, tiny(type, small_to_double(type, a), flushes),
                            tiny(type, small_to_double(type, b), flushes),
                            tiny(type, small_to_double(type, c), flushes));
    out = tiny(type, out, flushes);
    if (ptx_has(form, PTX_MOD_sat))
        out = out > 0 ? out < 1 ? out : 1 : 0;
    if (ptx_has(form, PTX_MOD_relu) && out <= 0) /* nor -0 */
        out = 0;
    return small_from_double(type, out, 0);
}

bool slow_half(struct lane *lane, union slot *R, const struct code *c)
{
    const struct ptx_form *form = c->instr->form;
    if (c->type == PTX_TYPE_f32) { /* min.NaN and the like */
        R[c->d].f32 = flush(
            canonical((float)pick(form, flush(R[c->a].f32, c->mode), flush(R[c->b].f32, c->mode))),
            c->mode);
        return true;
    }
    uint32_t out = 0;
    for (unsigned shift = 0; shift < ptx_types[c->type].bits; shift += 16)
        out |= half_bits(form, c->type, R[c->a].u32 >> shift & 0xffff,
                         R[c->b].u32 >> shift & 0xffff, R[c->c].u32 >> shift & 0xffff)
               << shift;
    R[c->d].u64 = out;
    return true;
}

/* Two singles in one register. */
bool slow_pair(struct lane *lane, union slot *R, const struct code *c)
{
    uint64_t out = 0;
    for (unsigned shift = 0; shift < 64; shift += 32) {
        union slot x = {.u64 = (uint32_t)(R[c->a].u64 >> shift)};
        union slot y = {.u64 = (uint32_t)(R[c->b].u64 >> shift)};
        union slot z = {.u64 = (uint32_t)(R[c->c].u64 >> shift)};
        x.f32 = float_op(c->instr->form->op, c->mode, x.f32, y.f32, z.f32);
        out |= (uint64_t)x.u32 << shift;
    }
    R[c->d].u64 = out;
    return true;
}

/* ---- conversions ----------------------------------------------------------------------------- */

struct conversion {
    unsigned round; /* enum mode */
    bool to_integer, ftz, sat, finite, relu, away;
};

static struct conversion conversion_of(const struct ptx_form *form)
{
    static const struct {
        uint16_t mod;
        uint8_t round;
        bool integer;
    } words[] = {{PTX_MOD_rn, ROUND_NEAREST, false}, {PTX_MOD_rz, ROUND_ZERO, false},
                 {PTX_MOD_rm, ROUND_DOWN, false},    {PTX_MOD_rp, ROUND_UP, false},
                 {PTX_MOD_rni, ROUND_NEAREST, true}, {PTX_MOD_rzi, ROUND_ZERO, true},
                 {PTX_MOD_rmi, ROUND_DOWN, true},    {PTX_MOD_rpi, ROUND_UP, true}};
    struct conversion out = {.ftz = ptx_has(form, PTX_MOD_ftz),
                             .sat = ptx_has(form, PTX_MOD_sat),
                             .finite = ptx_has(form, PTX_MOD_satfinite),
                             .relu = ptx_has(form, PTX_MOD_relu),
                             .away = ptx_has(form, PTX_MOD_rna)};
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        if (!ptx_has(form, words[i].mod))
            continue;
        out.round = words[i].round;
        out.to_integer = words[i].integer;
    }
    return out;
}

static double to_integral(double value, unsigned round)
{
    switch (round) {
    case ROUND_ZERO:
        return trunc(value);
    case ROUND_DOWN:
        return floor(value);
    case ROUND_UP:
        return ceil(value);
    default:
        return nearbyint(value); /* the mode of this thread is to nearest */
    }
}

/* To an integer of `type`: clamped; a NaN as the ISA says. */
static uint64_t integer_of(double value, uint8_t type, bool from_double)
{
    unsigned bits = ptx_types[type].bits;
    bool is_signed = ptx_types[type].class == PTX_SIGNED;
    if (value != value && (from_double || bits == 64))
        return bits == 8 && is_signed ? ~UINT64_C(0x7f) : UINT64_C(1) << (bits - 1);
    if (value != value)
        return 0;
    double high = ldexp(1, (int)(is_signed ? bits - 1 : bits));
    double low = is_signed ? -high : 0;
    uint64_t most = is_signed ? (UINT64_C(1) << (bits - 1)) - 1 : ~UINT64_C(0) >> (64 - bits);
    if (value >= high)
        return most;
    if (value <= low)
        return is_signed ? (uint64_t) - (int64_t)(most)-1 : 0;
    return is_signed ? (uint64_t)(int64_t)value : (uint64_t)value;
}

/* The value of an integer slot, sign- or zero-extended. */
static int64_t extended(union slot a, uint8_t type)
{
    unsigned shift = 64 - ptx_types[type].bits;
    if (ptx_types[type].class == PTX_SIGNED)
        return (int64_t)(a.u64 << shift) >> shift;
    return (int64_t)(a.u64 << shift >> shift);
}

static uint64_t integer_to_integer(union slot a, uint8_t from, uint8_t to, bool saturates)
{
    int64_t value = extended(a, from);
    bool was_signed = ptx_types[from].class == PTX_SIGNED;
    bool is_signed = ptx_types[to].class == PTX_SIGNED;
    unsigned bits = ptx_types[to].bits;
    if (!saturates)
        return bits == 8 ? (uint64_t)(is_signed ? (int8_t)value : (uint8_t)value) : (uint64_t)value;
    uint64_t most = is_signed ? (UINT64_C(1) << (bits - 1)) - 1 : ~UINT64_C(0) >> (64 - bits);
    if (was_signed && value < 0) {
        int64_t least = is_signed ? -(int64_t)most - 1 : 0;
        return (uint64_t)(value < least ? least : value);
    }
    return (uint64_t)value > most ? most : (uint64_t)value;
}

/* An integer to f32 or f64, in the mode. */
static double integer_to_float(union slot a, uint8_t from, bool single, unsigned round)
{
    volatile int64_t value = extended(a, from);
    bool was_signed = ptx_types[from].class == PTX_SIGNED;
    fesetround(roundings[round]);
    volatile long double exact = was_signed ? (long double)value : (long double)(uint64_t)value;
    volatile float narrow = (float)exact;
    volatile double wide = (double)exact;
    fesetround(FE_TONEAREST);
    return single ? narrow : wide;
}

/* An integer to a double that keeps, in its last bit, whether anything was cut off: good for
 * rounding once more to a smaller format. */
static double integer_to_odd(union slot a, uint8_t from)
{
    int64_t value = extended(a, from);
    bool minus = ptx_types[from].class == PTX_SIGNED && value < 0;
    uint64_t magnitude = minus ? 0 - (uint64_t)value : (uint64_t)value;
    if (magnitude >> 53)
        magnitude = (magnitude & ~UINT64_C(0xfff)) | (uint64_t)((magnitude & 0xfff) != 0) << 12;
    return minus ? -(double)magnitude : (double)magnitude;
}

static double float_value(union slot a, uint8_t type, bool ftz)
{
    if (type == PTX_TYPE_f64)
        return a.f64;
    if (type == PTX_TYPE_f32)
        return flush(a.f32, ftz ? FTZ : 0);
    return small_to_double(type, a.u16);
}

/* What becomes of a NaN where a conversion keeps its sign and payload, as those from and to doubles
 * do, bf16 to f32, and the rounding to tf32. False: it becomes the format's canonical one. */
static bool keep_nan(union slot a, uint8_t from, uint8_t to, const struct conversion *how,
                     uint64_t *out)
{
    bool to_wide = to == PTX_TYPE_f64, from_wide = from == PTX_TYPE_f64;
    if (to == PTX_TYPE_tf32) {
        *out = !how->away    ? 0x7fffe000
               : how->finite ? (a.u32 & ~0x1fffu) - 0x2000
                             : a.u32 & ~0x1fffu;
        return true;
    }
    if (how->sat || how->relu || how->finite)
        return false;
    if (from == PTX_TYPE_bf16 && to == PTX_TYPE_f32) {
        *out = a.u32 << 16;
        return !how->ftz;
    }
    if (!to_wide && !from_wide)
        return false;
    struct format f = format_of(to_wide ? from : to); /* the narrower one */
    if (to_wide && from_wide) {
        *out = a.u64 | UINT64_C(1) << 51;
        return true;
    }
    if (to == PTX_TYPE_f32 || from == PTX_TYPE_f32)
        f = (struct format){8, 23, true};
    unsigned bits = (unsigned)(f.exponent + f.mantissa), shift = 52 - (unsigned)f.mantissa;
    if (to_wide) {
        uint64_t mantissa = a.u64 & ((UINT64_C(1) << f.mantissa) - 1);
        *out = (a.u64 >> bits & 1) << 63 | UINT64_C(0x7ff8) << 48 | mantissa << shift;
        return !how->ftz;
    }
    uint64_t quiet = UINT64_C(1) << (f.mantissa - 1), top = ((UINT64_C(1) << f.exponent) - 1);
    *out = a.u64 >> 63 << bits | top << f.mantissa | quiet |
           (a.u64 >> shift & ((UINT64_C(1) << f.mantissa) - 1));
    return true;
}

/* A value to a float type, with the bits of the destination. */
static uint64_t float_bits(double value, uint8_t type, const struct conversion *how)
{
    union slot out = {0};
    if (how->sat)
        value = value > 0 ? value < 1 ? value : 1 : 0;
    if (how->relu && !(value > 0))
        value = value != value ? value : 0;
    if (type == PTX_TYPE_f64) {
        out.f64 = value;
        return out.u64;
    }
    if (type == PTX_TYPE_f32) {
        fesetround(roundings[how->round]);
        volatile double wide = value;
        volatile float narrow = (float)wide;
        fesetround(FE_TONEAREST);
        out.f32 = flush(canonical(narrow), how->ftz ? FTZ : 0);
        return out.u32;
    }
    if (type == PTX_TYPE_tf32) {
        uint32_t bits;
        float narrow = (float)value;
        memcpy(&bits, &narrow, 4);
        if (value != value)
            return 0x7fffffff;
        if (how->away && isfinite(narrow)) /* ties away from zero: half a unit more, then cut */
            bits = (bits + 0x1000) & ~0x1fffu;
        if (how->away)
            return how->finite && (bits & 0x7fffffff) == 0x7f800000 ? bits - 0x2000 : bits;
        return (uint64_t)small_from_double(type, value, how->round) << 13;
    }
    uint32_t bits = small_from_double(type, value, how->round);
    struct format f = format_of(type);
    uint32_t sign = bits & 1u << (f.exponent + f.mantissa);
    if (how->finite && isinf(small_to_double(type, bits)))
        bits = sign | ((((1u << f.exponent) - 1) << f.mantissa) - 1);
    else if (how->finite && value == value && !f.infinite &&
             small_to_double(type, bits) != small_to_double(type, bits))
        bits = sign | 0x7e;
    return bits;
}

/* cvt.rn.f16x2.f32 d, a, b: a in the high half. */
static bool convert_two(struct lane *lane, union slot *R, const struct code *c, uint8_t to,
                        const struct conversion *how)
{
    uint8_t from = c->type;
    unsigned bits = ptx_types[to].bits / 2;
    if (from == PTX_TYPE_f32) {
        uint64_t high = float_bits(float_value(R[c->a], from, how->ftz), to, how);
        uint64_t low = float_bits(float_value(R[c->b], from, how->ftz), to, how);
        R[c->d].u64 = high << bits | low;
        return true;
    }
    unsigned from_bits = ptx_types[from].bits / 2;
    if (ptx_types[from].bits > 32 || !from_bits || ptx_types[from].class != PTX_FLOAT)
        return lane_fault(lane, EXEC_UNSUPPORTED, "%s is not implemented", c->instr->form->text);
    uint64_t out = 0;
    for (unsigned i = 0; i < 2; i++) {
        uint32_t half = R[c->a].u32 >> (i * from_bits) & ((1u << from_bits) - 1);
        out |= float_bits(small_to_double(from, half), to, how) << (i * bits);
    }
    R[c->d].u64 = out;
    return true;
}

bool slow_convert(struct lane *lane, union slot *R, const struct code *c)
{
    const struct ptx_form *form = c->instr->form;
    uint8_t to = form->types[0], from = c->type;
    struct conversion how = conversion_of(form);
    bool from_float = ptx_types[from].class == PTX_FLOAT;
    bool to_float = ptx_types[to].class == PTX_FLOAT;
    bool pairs = to == PTX_TYPE_f16x2 || to == PTX_TYPE_bf16x2 || to == PTX_TYPE_e4m3x2 ||
                 to == PTX_TYPE_e5m2x2;
    if (form->type_count != 2)
        return lane_fault(lane, EXEC_UNSUPPORTED, "%s is not implemented", form->text);
    if (pairs)
        return convert_two(lane, R, c, to, &how);
    if (!from_float && !to_float) {
        R[c->d].u64 = integer_to_integer(R[c->a], from, to, how.sat);
    } else if (!from_float) {
        bool single = to == PTX_TYPE_f32, wide = to == PTX_TYPE_f64;
        double value = single || wide ? integer_to_float(R[c->a], from, single, how.round)
                                      : integer_to_odd(R[c->a], from);
        how.round = single ? ROUND_NEAREST : how.round;
        R[c->d].u64 = float_bits(value, to, &how);
    } else if (!to_float) {
        double value = to_integral(float_value(R[c->a], from, how.ftz), how.round);
        R[c->d].u64 = integer_of(value, to, from == PTX_TYPE_f64);
    } else {
        bool flushes = how.ftz && (to == PTX_TYPE_f32 || to == PTX_TYPE_f64);
        double value = float_value(R[c->a], from, flushes);
        uint64_t kept = 0;
        if (value != value && keep_nan(R[c->a], from, to, &how, &kept)) {
            R[c->d].u64 = kept;
            return true;
        }
        if (value != value && how.ftz && to == PTX_TYPE_f64)
            value = canonical((float)value);
        R[c->d].u64 = float_bits(how.to_integer ? to_integral(value, how.round) : value, to, &how);
    }
    return true;
}
