/* Exact rewrites of float operations with a known operand: division by one, by powers of two and by
 * other constants, multiplication by one, addition of minus zero. What follows must never hand
 * ptxas a product to fuse that it could not fuse before, nor lose the quieting of a NaN. */
#include "passes.h"

#include <math.h>

enum { TRACED_MAX = 64 }; /* instructions looked at for one question */

struct format {                       /* of a binary float */
    unsigned bits, digits, bias, top; /* top: largest exponent field of a number */
    uint8_t type;
};
static const struct format formats[] = {{32, 24, 127, 254, PTX_TYPE_f32},
                                        {64, 53, 1023, 2046, PTX_TYPE_f64}};

static unsigned exponent_field(const struct format *format, uint64_t bits)
{
    return (unsigned)(bits >> (format->digits - 1)) & (2 * format->bias + 1);
}

static uint64_t fraction(const struct format *format, uint64_t bits)
{
    return bits & bits_mask(format->digits - 1);
}

static uint64_t number_bits(const struct format *format, bool negative, unsigned field)
{
    return (uint64_t)negative << (format->bits - 1) | (uint64_t)field << (format->digits - 1);
}

/* ---- may a copy of it stand for x op neutral? ---- */

/* Its result is no signalling NaN (it was computed), and no product that ptxas would fuse. */
static bool is_settled(const struct ptx_instr *instr, uint8_t type)
{
    const struct ptx_form *form = instr->form;
    if (form->type_count && form->types[0] != type)
        return false;
    switch (form->op) {
    case PTX_OP_add:
    case PTX_OP_sub:
    case PTX_OP_fma:
        return true;
    case PTX_OP_div:
    case PTX_OP_rcp:
    case PTX_OP_sqrt:
    case PTX_OP_mul:
        return ptx_has(form, PTX_MOD_rn);
    case PTX_OP_cvt: /* from an integer: never a NaN */
        return form->type_count == 2 && ptx_types[form->types[1]].class != PTX_FLOAT;
    default:
        return false;
    }
}

static bool is_number(const struct format *format, const struct ptx_operand *operand)
{
    return operand->kind == (format->bits == 64 ? PTX_F64 : PTX_F32) &&
           exponent_field(format, operand->bits) <= format->top;
}

struct trace {
    const struct rewriter *r;
    const struct format *format;
    uint32_t pending[TRACED_MAX], count;
};

static bool trace_defs(struct trace *trace, uint32_t value)
{
    uint32_t found[TRACED_MAX], count;
    if (value == GRAPH_UNKNOWN || !graph_defs(trace->r->graph, value, found, TRACED_MAX, &count))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        bool known = false;
        for (uint32_t j = 0; j < trace->count; j++)
            known |= trace->pending[j] == found[i];
        if (found[i] == GRAPH_NONE || (!known && trace->count == TRACED_MAX))
            return false;
        if (!known)
            trace->pending[trace->count++] = found[i];
    }
    return true;
}

/* Whatever may have written x, through copies, is settled. */
static bool is_copyable(const struct rewriter *r, uint32_t instr, const struct ptx_operand *x,
                        const struct format *format)
{
    struct trace trace = {.r = r, .format = format};
    if (x->kind != PTX_REG || x->component || r->func->regs[x->reg].type != format->type ||
        !trace_defs(&trace, graph_operand(r->graph, instr, x)))
        return false;
    for (uint32_t i = 0; i < trace.count; i++) {
        const struct ptx_instr *def = &r->func->instrs[trace.pending[i]];
        if (is_settled(def, format->type))
            continue;
        if (def->form->op != PTX_OP_mov || def->opaque || def->operand_count != 2 ||
            def->form->type_count != 1 || ptx_types[def->form->types[0]].bits != format->bits)
            return false;
        if (is_number(format, &def->operands[1]))
            continue;
        if (def->operands[1].kind != PTX_REG || def->operands[1].component ||
            !trace_defs(&trace, graph_operand(r->graph, trace.pending[i], &def->operands[1])))
            return false;
    }
    return true;
}

/* ---- texts ---- */

static const char *operand_text(const struct rewriter *r, const struct ptx_operand *operand)
{
    return source_text(r, operand->begin, operand->end);
}

static bool finish(struct rewrite *out, enum rewrite_pass pass, const char *text)
{
    *out = (struct rewrite){pass, text};
    return true;
}

static bool copy_to(const struct rewriter *r, uint32_t instr, const struct ptx_operand *from,
                    enum rewrite_pass pass, const struct format *format, struct rewrite *out)
{
    const struct ptx_instr *at = &r->func->instrs[instr];
    return finish(out, pass,
                  arena_format(r->arena, "%smov.f%u %s, %s;", guard_text(r, at), format->bits,
                               operand_text(r, &at->operands[0]), operand_text(r, from)));
}

/* ---- division by a number with digits ---- */

struct reciprocal {
    uint64_t high, low;   /* 1/c = high + low, each rounded to nearest */
    unsigned first, last; /* exponent fields of x for which two operations round correctly */
};

static uint64_t to_bits(const struct format *format, double value)
{
    uint64_t wide;
    uint32_t small;
    float narrow = (float)value;
    memcpy(&wide, &value, sizeof wide);
    memcpy(&small, &narrow, sizeof small);
    return format->bits == 64 ? wide : small;
}

/* One operation in the format, nothing fused but what is asked for. */
static double quotient(const struct format *format, volatile double a, volatile double b)
{
    volatile float x = (float)a, y = (float)b;
    return format->bits == 64 ? a / b : (double)(x / y);
}
static double product(const struct format *format, volatile double a, volatile double b)
{
    volatile float x = (float)a, y = (float)b;
    return format->bits == 64 ? a * b : (double)(x * y);
}
static double fused(const struct format *format, double a, double b, double c)
{
    return format->bits == 64 ? fma(a, b, c) : (double)fmaf((float)a, (float)b, (float)c);
}

/* C = c * 2^(p-1) for 1 < c < 2, p digits. The sum x * low + x * high, rounded twice, is off by
 * less than 2^-2p before the last rounding (1 <= x < 2). For x >= c, x / c is further than that
 * from every midpoint between two numbers; for x < c it is, unless X * 2^(p+1) - M * C is 1 or -1
 * for the midpoint M, which is odd: so at most two X, which are tried here. */
static bool rounds_correctly(const struct format *format, uint64_t C, double high, double low)
{
    unsigned p = format->digits;
    uint64_t inverse = C; /* of C modulo a power of two: each step doubles the right digits */
    if (!(C & 1))
        return true; /* the difference is even, and not zero */
    for (unsigned i = 0; i < 6; i++)
        inverse *= 2 - C * inverse;
    for (int difference = -1; difference <= 1; difference += 2) {
        uint64_t M = (difference < 0 ? inverse : 0 - inverse) & bits_mask(p + 1);
        unsigned __int128 scaled =
            (unsigned __int128)M * C + (unsigned __int128)(__int128)difference;
        uint64_t X = (uint64_t)(scaled >> (p + 1));
        if (M < (UINT64_C(1) << p) || X < (UINT64_C(1) << (p - 1)) || X >= C)
            continue;
        double x = ldexp((double)X, 1 - (int)p), c = ldexp((double)C, 1 - (int)p);
        if (fused(format, x, high, product(format, x, low)) != quotient(format, x, c))
            return false;
    }
    return true;
}

/* False for powers of two, and where no good range of dividends is left. */
static bool reciprocal_of(const struct format *format, uint64_t c_bits, struct reciprocal *out)
{
    unsigned field = exponent_field(format, c_bits), p = format->digits;
    uint64_t C = fraction(format, c_bits) | UINT64_C(1) << (p - 1);
    bool negative = c_bits >> (format->bits - 1);
    if (!field || field > format->top || !fraction(format, c_bits))
        return false;
    int power = (int)field - (int)format->bias, least = 1 - (int)format->bias;
    double c = ldexp((double)C, 1 - (int)p), high = quotient(format, 1, c);
    double low = quotient(format, fused(format, -c, high, 1), c); /* the remainder is exact */
    if (low == 0 || !rounds_correctly(format, C, high, low))
        return false;
    int low_power = ilogb(low) - power, highest = (int)format->bias;
    if (low_power < least || -power - 1 < least || -power > highest)
        return false;
    /* products and quotient stay normal numbers */
    int first = least - low_power > least + power + 2 ? least - low_power : least + power + 2;
    int last = highest - 1 + power < highest - 1 ? highest - 1 + power : highest - 1;
    if (last - first < 16)
        return false;
    double sign = negative ? -1 : 1;
    out->high = to_bits(format, sign * ldexp(high, -power));
    out->low = to_bits(format, sign * ldexp(low, -power));
    out->first = (unsigned)(first + (int)format->bias);
    out->last = (unsigned)(last + (int)format->bias);
    return true;
}

static bool divide_known(const struct rewriter *r, uint32_t instr, const struct format *format,
                         uint64_t divisor, struct rewrite *out)
{
    const struct ptx_instr *at = &r->func->instrs[instr];
    const struct ptx_operand *x = &at->operands[1];
    const char *text = operand_text(r, x), *form = at->form->text;
    struct reciprocal by;
    if (x->kind != PTX_REG || x->component || names_ours(r, at) ||
        !reciprocal_of(format, divisor, &by))
        return false;
    unsigned shift = format->bits == 64 ? 20 : 23, bits = format->bits;
    const char *word = bits == 64 ? "mov.b64 {%kgl, %kgh}, " : "mov.b32 %kgh, ";
    return finish(out, PASS_div_known,
                  arena_format(r->arena,
                               "{ .reg .pred %%kgq; .reg .b32 %%kgl, %%kgh; .reg .f%u %%kgt; %s%s; "
                               "and.b32 %%kgh, %%kgh, 0x7FFFFFFF; sub.u32 %%kgh, %%kgh, 0x%X; "
                               "setp.lt.u32 %%kgq, %%kgh, 0x%X; mul.rn.f%u %%kgt, %s, %s; "
                               "fma.rn.f%u %%kgt, %s, %s, %%kgt; @!%%kgq %s %%kgt, %s, %s; "
                               "%smov.f%u %s, %%kgt; }",
                               bits, word, text, by.first << shift,
                               (by.last - by.first + 1) << shift, bits, text,
                               literal_text(r, format->type, by.low), bits, text,
                               literal_text(r, format->type, by.high), form, text,
                               literal_text(r, format->type, divisor), guard_text(r, at), bits,
                               operand_text(r, &at->operands[0])));
}

static bool divide(const struct rewriter *r, uint32_t instr, const struct format *format,
                   struct rewrite *out)
{
    const struct ptx_instr *at = &r->func->instrs[instr];
    struct range by = values_source(r->values, instr, &at->operands[2], format->type);
    bool flushes = ptx_has(at->form, PTX_MOD_ftz), rounded = ptx_has(at->form, PTX_MOD_rn);
    if (!range_known(&by) || !rounded || at->form->mod_count != 1u + flushes)
        return false;
    unsigned field = exponent_field(format, by.low);
    bool one = by.low == number_bits(format, false, format->bias);
    if (one && !flushes && is_copyable(r, instr, &at->operands[1], format))
        return copy_to(r, instr, &at->operands[1], PASS_div_one, format, out);
    bool power = field && field < format->top && !fraction(format, by.low);
    if (!power)
        return divide_known(r, instr, format, by.low, out);
    if (flushes && field > format->bias)
        return false; /* a result may become denormal: flushed before or after rounding? */
    uint64_t inverse = number_bits(format, by.low >> (format->bits - 1), 2 * format->bias - field);
    return finish(out, one ? PASS_div_one : PASS_div_power,
                  arena_format(r->arena, "%smul.rn%s.f%u %s, %s, %s;", guard_text(r, at),
                               flushes ? ".ftz" : "", format->bits,
                               operand_text(r, &at->operands[0]), operand_text(r, &at->operands[1]),
                               literal_text(r, format->type, inverse)));
}

/* x op neutral. */
static bool neutral(const struct rewriter *r, uint32_t instr, const struct format *format,
                    uint64_t value, bool either, enum rewrite_pass pass, struct rewrite *out)
{
    const struct ptx_instr *at = &r->func->instrs[instr];
    if (at->form->mod_count > ptx_has(at->form, PTX_MOD_rn))
        return false;
    for (unsigned side = 2; side >= (either ? 1 : 2); side--) {
        const struct ptx_operand *x = &at->operands[3 - side];
        struct range by = values_source(r->values, instr, &at->operands[side], format->type);
        if (range_known(&by) && by.low == value && is_copyable(r, instr, x, format))
            return copy_to(r, instr, x, pass, format, out);
    }
    return false;
}

bool rewrite_float(const struct rewriter *r, uint32_t instr, struct rewrite *out)
{
    const struct ptx_instr *at = &r->func->instrs[instr];
    const struct ptx_form *form = at->form;
    if (at->operand_count != 3 || form->type_count != 1 || at->operands[0].kind != PTX_REG ||
        at->operands[0].component || !fold_is_float(form->types[0]) ||
        r->func->regs[at->operands[0].reg].type != form->types[0])
        return false;
    const struct format *format = &formats[form->types[0] == PTX_TYPE_f64];
    uint64_t one = number_bits(format, false, format->bias), minus = number_bits(format, true, 0);
    switch (form->op) {
    case PTX_OP_div:
        return divide(r, instr, format, out);
    case PTX_OP_mul:
        return neutral(r, instr, format, one, true, PASS_mul_one, out);
    case PTX_OP_add:
        return neutral(r, instr, format, minus, true, PASS_add_zero, out);
    case PTX_OP_sub:
        return neutral(r, instr, format, 0, false, PASS_add_zero, out);
    default:
        return false;
    }
}
