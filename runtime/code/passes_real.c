/* What float operations and conversions make of known operands: IEEE, rounded to nearest, where
 * nothing is left to the hardware. Must never be compiled with contraction or fast arithmetic: each
 * operation stands in a statement of its own, on volatile operands. */
#include "passes.h"

#include <math.h>

double real_value(uint8_t type, uint64_t bits)
{
    double wide;
    float narrow;
    uint32_t low = (uint32_t)bits;
    if (type == PTX_TYPE_f64) {
        memcpy(&wide, &bits, sizeof wide);
        return wide;
    }
    memcpy(&narrow, &low, sizeof narrow);
    return (double)narrow;
}

/* A flushed denormal compares as zero: left alone. */
bool real_denormal(uint8_t type, double value)
{
    double smallest = type == PTX_TYPE_f64 ? 0x1p-1022 : 0x1p-126;
    return value != 0 && fabs(value) < smallest;
}

/* ---- conversions ---- */

static bool integer_to_float(const struct ptx_form *form, uint64_t in, uint64_t *out)
{
    uint8_t to = form->types[0], from = form->types[1];
    int64_t value = extended(in, ptx_types[from].bits);
    bool is_signed = ptx_types[from].class == PTX_SIGNED;
    if (!mods_among(form, MODS(PTX_MOD_rn)) || form->mod_count != 1)
        return false;
    if (to == PTX_TYPE_f64) {
        double wide = is_signed ? (double)value : (double)in;
        memcpy(out, &wide, sizeof wide);
        return true;
    }
    float narrow = is_signed ? (float)value : (float)in;
    *out = 0;
    memcpy(out, &narrow, sizeof narrow);
    return true;
}

static bool float_to_integer(const struct ptx_form *form, uint64_t in, uint64_t *out)
{
    uint8_t to = form->types[0];
    unsigned bits = ptx_types[to].bits;
    double value = real_value(form->types[1], in);
    if (form->mod_count != 1 || bits > 32)
        return false;
    switch (form->mods[0]) {
    case PTX_MOD_rni:
        value = nearbyint(value);
        break;
    case PTX_MOD_rzi:
        value = trunc(value);
        break;
    case PTX_MOD_rmi:
        value = floor(value);
        break;
    case PTX_MOD_rpi:
        value = ceil(value);
        break;
    default:
        return false;
    }
    double low = ptx_types[to].class == PTX_SIGNED ? -ldexp(1, (int)bits - 1) : 0;
    double high = ldexp(1, (int)bits - (ptx_types[to].class == PTX_SIGNED));
    if (!(value >= low && value < high)) /* what is beyond is the hardware's to say */
        return false;
    *out = (uint64_t)(int64_t)value;
    return true;
}

static bool float_to_float(const struct ptx_form *form, uint64_t in, uint64_t *out)
{
    double value = real_value(form->types[1], in);
    if (value != value)
        return false;
    if (form->types[0] == PTX_TYPE_f64 && form->types[1] == PTX_TYPE_f32 && !form->mod_count) {
        memcpy(out, &value, sizeof value);
        return true;
    }
    if (form->types[0] == PTX_TYPE_f32 && form->types[1] == PTX_TYPE_f64 && form->mod_count == 1 &&
        form->mods[0] == PTX_MOD_rn) {
        float narrow = (float)value;
        *out = 0;
        memcpy(out, &narrow, sizeof narrow);
        return true;
    }
    return false;
}

bool fold_conversion(const struct ptx_form *form, uint64_t in, uint64_t *out)
{
    uint8_t to = form->types[0], from = form->types[1];
    if (form->type_count != 2)
        return false;
    if (is_integer(to) && is_integer(from)) {
        *out =
            ptx_types[from].class == PTX_SIGNED ? (uint64_t)extended(in, ptx_types[from].bits) : in;
        return !form->mod_count;
    }
    if (fold_is_float(to) && is_integer(from))
        return integer_to_float(form, in, out);
    if (is_integer(to) && fold_is_float(from))
        return float_to_integer(form, in, out);
    return fold_is_float(to) && fold_is_float(from) && float_to_float(form, in, out);
}

/* ---- floats ---- */

static bool computed(unsigned op, bool single, volatile double a, volatile double b,
                     volatile double c, volatile double *out)
{
    volatile float x = (float)a, y = (float)b, z = (float)c;
    switch (op) {
    case PTX_OP_add:
        *out = single ? x + y : a + b;
        return true;
    case PTX_OP_sub:
        *out = single ? x - y : a - b;
        return true;
    case PTX_OP_mul:
        *out = single ? x * y : a * b;
        return true;
    case PTX_OP_div:
        *out = single ? x / y : a / b;
        return true;
    case PTX_OP_rcp:
        *out = single ? 1.0f / x : 1.0 / a;
        return true;
    case PTX_OP_sqrt:
        *out = single ? sqrtf(x) : sqrt(a);
        return true;
    case PTX_OP_fma:
        *out = single ? fmaf(x, y, z) : fma(a, b, c);
        return true;
    default:
        return false;
    }
}

static bool bit_float(const struct ptx_form *form, uint64_t in, uint64_t *out)
{
    uint64_t sign = UINT64_C(1) << (ptx_types[form->types[0]].bits - 1);
    double value = real_value(form->types[0], in);
    if (value != value || form->mod_count)
        return false;
    *out = form->op == PTX_OP_neg ? in ^ sign : in & ~sign;
    return true;
}

/* Whether to fold a product that a sum may take in is the caller's to ask. */
bool fold_real(const struct ptx_form *form, const uint64_t *in, unsigned count, uint64_t *out)
{
    uint8_t type = form->types[0];
    bool single = type == PTX_TYPE_f32, rounded = ptx_has(form, PTX_MOD_rn);
    double value[3] = {0, 0, 0};
    volatile double result = 0;
    if (form->op == PTX_OP_neg || form->op == PTX_OP_abs)
        return bit_float(form, in[0], out);
    if (!mods_among(form, MODS(PTX_MOD_rn, PTX_MOD_ftz)) || count > 3)
        return false;
    if (!rounded && form->op != PTX_OP_add && form->op != PTX_OP_sub && form->op != PTX_OP_mul)
        return false;
    bool flushes = ptx_has(form, PTX_MOD_ftz), tiny = false;
    for (unsigned i = 0; i < count; i++) {
        value[i] = real_value(type, in[i]);
        tiny |= real_denormal(type, value[i]);
        if (value[i] != value[i])
            return false;
    }
    if (!computed(form->op, single, value[0], value[1], value[2], &result) || result != result)
        return false;
    /* a result of just the smallest normal may have been less before it was rounded */
    tiny |= result != 0 && fabs(result) <= (single ? 0x1p-126 : 0x1p-1022);
    if (flushes && tiny)
        return false;
    float narrow = (float)result;
    double wide = result;
    *out = 0;
    memcpy(out, single ? (void *)&narrow : (void *)&wide, single ? sizeof narrow : sizeof wide);
    return true;
}
