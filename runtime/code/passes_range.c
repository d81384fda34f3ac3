/* What an operation makes of ranges: unsigned intervals of the type's bits. A result that may wrap,
 * or that an interval cannot hold, is anything. Only operations whose interval is plain to see. */
#include "passes.h"

struct wide { /* an interval before it is cut to bits: signed, so that less than zero is seen */
    __int128 low, high;
};

static struct range cut(struct wide wide, unsigned bits)
{
    __int128 size = (__int128)bits_mask(bits) + 1;
    __int128 turns = wide.low >= 0 ? wide.low / size : -((-wide.low + size - 1) / size);
    wide.low -= turns * size;
    wide.high -= turns * size;
    if (wide.high >= size) /* it goes over the edge */
        return range_any(bits);
    return (struct range){(uint64_t)wide.low, (uint64_t)wide.high, true};
}

/* As numbers of a signed type; false if the interval holds both ends of it. */
static bool signed_range(const struct range *range, unsigned bits, struct wide *out)
{
    uint64_t top = bits_mask(bits) >> 1;
    __int128 size = (__int128)bits_mask(bits) + 1;
    if (range->low <= top && range->high > top)
        return false;
    __int128 off = range->low > top ? size : 0;
    *out = (struct wide){(__int128)range->low - off, (__int128)range->high - off};
    return true;
}

static bool is_signed(uint8_t type)
{
    return ptx_types[type].class == PTX_SIGNED;
}

/* As the numbers that the operation's type says they are. */
static bool typed_range(const struct range *range, uint8_t type, struct wide *out)
{
    if (is_signed(type))
        return signed_range(range, ptx_types[type].bits, out);
    *out = (struct wide){(__int128)range->low, (__int128)range->high};
    return true;
}

/* All ones from the highest bit of value down. */
static uint64_t ones_above(uint64_t value)
{
    return value ? bits_mask(64 - (unsigned)__builtin_clzll(value)) : 0;
}

static struct range product(const struct ptx_form *form, const struct range *in)
{
    uint8_t type = form->types[0];
    unsigned bits = ptx_types[fold_result_type(form, 0)].bits;
    struct wide a, b;
    if (!bits || form->mod_count != 1 ||
        (form->mods[0] != PTX_MOD_lo && form->mods[0] != PTX_MOD_wide))
        return range_any(bits);
    /* of the low bits the sign makes no difference: take the numbers that are plain */
    bool small = form->mods[0] == PTX_MOD_wide
                     ? typed_range(&in[0], type, &a) && typed_range(&in[1], type, &b)
                     : true;
    if (!small)
        return range_any(bits);
    if (form->mods[0] == PTX_MOD_lo) {
        a = (struct wide){(__int128)in[0].low, (__int128)in[0].high};
        b = (struct wide){(__int128)in[1].low, (__int128)in[1].high};
    }
    if (a.low < 0 || b.low < 0 || (a.high > UINT32_MAX && b.high > UINT32_MAX))
        return range_any(bits); /* beyond what stays within 128 bits with room */
    struct wide out = {a.low * b.low, a.high * b.high};
    if (form->op == PTX_OP_mad) {
        out.low += (__int128)in[2].low;
        out.high += (__int128)in[2].high;
    }
    return out.high > (__int128)UINT64_MAX ? range_any(bits) : cut(out, bits);
}

static struct range shifted(const struct ptx_form *form, const struct range *in)
{
    unsigned bits = ptx_types[form->types[0]].bits;
    if (!range_known(&in[1]) || form->mod_count)
        return range_any(bits);
    uint64_t by = in[1].low;
    if (form->op == PTX_OP_shr) {
        if (is_signed(form->types[0]) && in[0].high > bits_mask(bits) >> 1)
            return range_any(bits);
        return by >= bits ? range_one(0) : (struct range){in[0].low >> by, in[0].high >> by, true};
    }
    if (by >= bits)
        return range_one(0);
    if (in[0].high > bits_mask(bits) >> by)
        return range_any(bits);
    return (struct range){in[0].low << by, in[0].high << by, true};
}

static struct range quotient(const struct ptx_form *form, const struct range *in)
{
    unsigned bits = ptx_types[form->types[0]].bits;
    uint64_t top = bits_mask(bits) >> is_signed(form->types[0]);
    if (in[0].high > top || in[1].high > top || !in[1].low || form->mod_count)
        return range_any(bits); /* a sign, or perhaps by zero */
    if (form->op == PTX_OP_div)
        return (struct range){in[0].low / in[1].high, in[0].high / in[1].low, true};
    if (in[0].high < in[1].low)
        return in[0];
    return (struct range){0, in[1].high - 1 < in[0].high ? in[1].high - 1 : in[0].high, true};
}

static struct range ordered(const struct ptx_form *form, const struct range *in)
{
    unsigned bits = ptx_types[form->types[0]].bits;
    struct wide a, b;
    if (form->mod_count || !typed_range(&in[0], form->types[0], &a) ||
        !typed_range(&in[1], form->types[0], &b))
        return range_any(bits);
    bool least = form->op == PTX_OP_min;
    struct wide out = {(a.low < b.low) == least ? a.low : b.low,
                       (a.high < b.high) == least ? a.high : b.high};
    return cut(out, bits);
}

static struct range compared(const struct ptx_form *form, unsigned dest, const struct range *in,
                             unsigned count)
{
    uint8_t type = form->types[0];
    enum ptx_mod mod = fold_comparison(form);
    struct wide a, b;
    int decided = -1;
    if (fold_is_float(type) || ptx_types[type].class == PTX_FLOAT || count != 2 ||
        form->mod_count != 1 || dest > 1 || !typed_range(&in[0], type, &a) ||
        !typed_range(&in[1], type, &b))
        return range_any(1);
    bool below = a.high<b.low, above = a.low> b.high;
    switch ((int)mod) {
    case PTX_MOD_eq:
        decided = below || above ? 0 : -1;
        break;
    case PTX_MOD_ne:
        decided = below || above ? 1 : -1;
        break;
    case PTX_MOD_lt:
    case PTX_MOD_lo:
        decided = below ? 1 : a.low >= b.high ? 0 : -1;
        break;
    case PTX_MOD_le:
    case PTX_MOD_ls:
        decided = a.high <= b.low ? 1 : above ? 0 : -1;
        break;
    case PTX_MOD_gt:
    case PTX_MOD_hi:
        decided = above ? 1 : a.high <= b.low ? 0 : -1;
        break;
    case PTX_MOD_ge:
    case PTX_MOD_hs:
        decided = a.low >= b.high ? 1 : below ? 0 : -1;
        break;
    default:
        break;
    }
    return decided < 0 ? range_any(1) : range_one((uint64_t)decided ^ dest);
}

static struct range merged(struct range a, struct range b)
{
    return (struct range){a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high, true};
}

static struct range logical(const struct ptx_form *form, const struct range *in)
{
    unsigned bits = ptx_types[form->types[0]].bits;
    uint64_t a = in[0].high, b = in[1].high;
    if (form->op == PTX_OP_and) {
        if (bits == 1 && in[0].low & in[1].low)
            return range_one(1);
        return (struct range){0, a < b ? a : b, true};
    }
    uint64_t high = ones_above(a) | ones_above(b), low = 0;
    if (form->op == PTX_OP_or)
        low = in[0].low > in[1].low ? in[0].low : in[1].low;
    return (struct range){low, high, true};
}

static struct range sum(const struct ptx_form *form, const struct range *in)
{
    unsigned bits = ptx_types[form->types[0]].bits;
    struct wide out = {(__int128)in[0].low + (__int128)in[1].low,
                       (__int128)in[0].high + (__int128)in[1].high};
    if (form->op == PTX_OP_sub)
        out = (struct wide){(__int128)in[0].low - (__int128)in[1].high,
                            (__int128)in[0].high - (__int128)in[1].low};
    return form->mod_count ? range_any(bits) : cut(out, bits);
}

static struct range converted(const struct ptx_form *form, const struct range *in)
{
    uint8_t to = form->types[0], from = form->types[1];
    unsigned bits = ptx_types[to].bits;
    struct wide wide;
    bool integers = form->type_count == 2 && ptx_types[to].class >= PTX_BITS &&
                    ptx_types[to].class <= PTX_SIGNED && ptx_types[from].class >= PTX_BITS &&
                    ptx_types[from].class <= PTX_SIGNED;
    if (!integers || form->mod_count || !typed_range(in, from, &wide))
        return range_any(bits);
    return cut(wide, bits);
}

struct range range_result(const struct ptx_form *form, unsigned dest, const struct range *in,
                          unsigned count)
{
    uint8_t type = fold_result_type(form, dest);
    unsigned bits = ptx_types[type].bits;
    if (form->op == PTX_OP_setp)
        return count >= 2 ? compared(form, dest, in, count) : range_any(1);
    if (dest || !count || !form->type_count || ptx_types[form->types[0]].class == PTX_FLOAT)
        return range_any(bits);
    switch (form->op) {
    case PTX_OP_mov:
        return count == 1 && !form->mod_count ? in[0] : range_any(bits);
    case PTX_OP_add:
    case PTX_OP_sub:
        return sum(form, in);
    case PTX_OP_mul:
    case PTX_OP_mad:
        return product(form, in);
    case PTX_OP_shl:
    case PTX_OP_shr:
        return shifted(form, in);
    case PTX_OP_div:
    case PTX_OP_rem:
        return quotient(form, in);
    case PTX_OP_min:
    case PTX_OP_max:
        return ordered(form, in);
    case PTX_OP_and:
    case PTX_OP_or:
    case PTX_OP_xor:
        return form->mod_count ? range_any(bits) : logical(form, in);
    case PTX_OP_selp:
        return count < 3 || form->mod_count ? range_any(bits)
               : range_known(&in[2])        ? in[!in[2].low]
                                            : merged(in[0], in[1]);
    case PTX_OP_cvt:
        return converted(form, in);
    case PTX_OP_popc:
    case PTX_OP_clz:
        return (struct range){0, ptx_types[form->types[0]].bits, true};
    default:
        return range_any(bits);
    }
}
