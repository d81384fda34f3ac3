/* Masks, shifts, fields and conversions over affine forms. A mask or shift of a form that is no
 * multiple is the form minus what it cuts off, which is a quotient: so x & 31 and x >> 5 still know
 * of each other. */
#include "reach_parts.h"

/* ---- bits ------------------------------------------------------------------------------------ */

/* The smallest 2^n - 1 that is not below value. */
static wide_int ones(wide_int value)
{
    wide_int all = 0;
    while (all < value)
        all = 2 * all + 1;
    return all;
}

/* Lowest bit of a mask of ones in a row, and their number; false if it is none. */
static bool mask_shape(uint64_t mask, unsigned *at, unsigned *count)
{
    if (!mask)
        return false;
    *at = (unsigned)__builtin_ctzll(mask);
    uint64_t rest = mask >> *at;
    *count = rest == UINT64_MAX ? 64 : (unsigned)__builtin_ctzll(~rest);
    return *count == 64 || !(rest >> *count);
}

static bool bits_and(struct reaching *r, const struct form *a, const struct form *b, unsigned bits,
                     struct form *out)
{
    const struct form *value = b->count ? b : a, *other = b->count ? a : b;
    unsigned at, count;
    uint64_t all = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    uint64_t mask = (uint64_t)other->constant & all;
    if (!other->count && !mask) {
        *out = form_of(0);
        return true;
    }
    if (!other->count && mask_shape(mask, &at, &count) && at < 62) {
        /* ((a >> at) mod 2^count) << at; what lies above the register's bits is nobody's */
        struct form low;
        *out = *a;
        form_scale(value, 1, out);
        if (at + count < bits && at + count >= 62)
            return false;
        if (at + count < bits &&
            !reach_modulo(r, out, (int64_t)1 << (at + count), SLOT_QUOTIENT, out))
            return false;
        return !at || (reach_modulo(r, out, (int64_t)1 << at, SLOT_QUOTIENT + 1, &low) &&
                       form_add(out, &low, -1, out));
    }
    struct form x, y;
    reach_typed(r, a, bits, false, 1, &x);
    reach_typed(r, b, bits, false, 2, &y);
    struct range p = reach_bound(r, &x), q = reach_bound(r, &y);
    bool open = !reach_strict(r, &x) && !reach_strict(r, &y);
    *out = reach_in(r, SLOT_RESULT, (struct range){0, p.high < q.high ? p.high : q.high}, open, &x);
    return true;
}

/* Numbers none of whose bits meet are added: a multiple of 2^n, and what is below 2^n. */
static bool disjoint(struct reaching *r, const struct form *high, const struct form *low)
{
    struct range range = reach_bound(r, low);
    uint64_t gcd = form_gcd(high);
    if (!range_bounded(range) || range.low < 0 || range.high > INT32_MAX)
        return false;
    wide_int step = ones(range.high) + 1;
    return (gcd == 0 || (wide_int)(gcd & -gcd) % step == 0) && high->constant % step == 0;
}

static bool bits_or(struct reaching *r, const struct form *a, const struct form *b, unsigned bits,
                    bool exclusive, struct form *out)
{
    if (!r->symbolic && (disjoint(r, a, b) || disjoint(r, b, a)))
        return form_add(a, b, 1, out);
    struct form x, y;
    reach_typed(r, a, bits, false, 1, &x);
    reach_typed(r, b, bits, false, 2, &y);
    struct range p = reach_bound(r, &x), q = reach_bound(r, &y);
    /* Bits that are zero in both are zero in the result. */
    uint64_t bits_set = form_gcd(&x) | form_gcd(&y) | (uint64_t)x.constant | (uint64_t)y.constant;
    unsigned zeros = bits_set ? (unsigned)__builtin_ctzll(bits_set) : 0;
    wide_int most = ones(p.high > q.high ? p.high : q.high) >> zeros;
    wide_int least = exclusive ? 0 : (p.low > q.low ? p.low : q.low) >> zeros;
    bool open = !reach_strict(r, &x) || !reach_strict(r, &y);
    struct form some =
        reach_in(r, SLOT_RESULT, (struct range){least, most}, open, reach_open(r, &x) ? &x : &y);
    return zeros < 32 && form_scale(&some, (int64_t)1 << zeros, out);
}

/* a ^ -2^n: all bits from n on flipped, those below kept. */
static bool flip_high(struct reaching *r, const struct form *a, int64_t mask, struct form *out)
{
    struct form low, minus = form_of(mask);
    return reach_modulo(r, a, -mask, SLOT_QUOTIENT, &low) && form_add(&minus, a, -1, &minus) &&
           form_add(&minus, &low, 2, out);
}

bool reach_logic(struct reaching *r, const struct ptx_instr *instr, struct form *out)
{
    unsigned bits = reach_bits(instr->form, 0);
    struct form a, b, minus = form_of(-1);
    reach_operand(r, &instr->operands[1], 1, &a);
    if (instr->form->op == PTX_OP_not)
        return form_add(&minus, &a, -1, out);
    reach_operand(r, &instr->operands[2], 2, &b);
    if (instr->form->op == PTX_OP_and)
        return bits_and(r, &a, &b, bits, out);
    if (instr->form->op == PTX_OP_xor && !b.count && b.constant == -1)
        return form_add(&minus, &a, -1, out);
    int64_t mask = b.constant;
    if (instr->form->op == PTX_OP_xor && !b.count && mask < -1 && mask > -((int64_t)1 << 40) &&
        !(-mask & (-mask - 1)))
        return flip_high(r, &a, mask, out);
    if (!a.count && !a.constant) {
        *out = b;
        return true;
    }
    if (!b.count && !b.constant) {
        *out = a;
        return true;
    }
    return bits_or(r, &a, &b, bits, instr->form->op == PTX_OP_xor, out);
}

bool reach_shift(struct reaching *r, const struct ptx_instr *instr, struct form *out)
{
    unsigned bits = reach_bits(instr->form, 0);
    bool left = instr->form->op == PTX_OP_shl, is_signed = reach_is_signed(instr->form, 0);
    struct form a, amount;
    int64_t by;
    reach_operand(r, &instr->operands[1], 1, &a);
    reach_operand(r, &instr->operands[2], 2, &amount);
    if (form_constant(&amount, &by)) {
        uint64_t places = (uint32_t)by;
        if (left && places < bits && places < 63)
            return form_scale(&a, (int64_t)1 << places, out);
        if (left || (places >= bits && !is_signed)) {
            *out = form_of(0);
            return left ? places >= bits : true;
        }
        reach_typed(r, &a, bits, is_signed, 1, &a);
        places = places >= bits ? bits - 1 : places;
        if (places < 63)
            *out = reach_quotient(r, &a, (int64_t)1 << places, SLOT_QUOTIENT);
        return places < 63;
    }
    reach_typed(r, &a, bits, is_signed, 1, &a);
    reach_typed(r, &amount, 32, false, 2, &amount);
    struct range x = reach_bound(r, &a), n = reach_bound(r, &amount);
    bool open = !reach_strict(r, &a) || (left && !reach_strict(r, &amount));
    if (x.low < 0 || !range_bounded(x) || n.low < 0 || (left && n.high > 31))
        return false;
    wide_int low = n.low > 100 ? 100 : n.low, high = n.high > 100 ? 100 : n.high;
    struct range range = left ? (struct range){x.low << low, x.high << high}
                              : (struct range){x.low >> high, x.high >> low};
    *out = reach_in(r, SLOT_RESULT, range, open, &a);
    return true;
}

/* ---- conversions ----------------------------------------------------------------------------- */

bool reach_convert(struct reaching *r, const struct ptx_instr *instr, struct form *out)
{
    const struct ptx_form *form = instr->form;
    struct form a;
    reach_operand(r, &instr->operands[1], 1, &a);
    if (form->type_count != 2 || !reach_int_type(form, 0) || !reach_int_type(form, 1))
        return false;
    unsigned to = reach_bits(form, 0), from = reach_bits(form, 1);
    if (to > from || ptx_has(form, PTX_MOD_sat))
        reach_typed(r, &a, from, reach_is_signed(form, 1), 1, &a);
    if (ptx_has(form, PTX_MOD_sat)) {
        struct range type = reach_type_range(to, reach_is_signed(form, 0)),
                     range = reach_bound(r, &a);
        *out = a;
        return range_within(range, type);
    }
    if (to < 32 && to <= from)
        reach_typed(r, &a, to, reach_is_signed(form, 0), 2, &a);
    *out = a;
    return true;
}

/* bfe: the field, for constant place and length. */
bool reach_extract(struct reaching *r, const struct ptx_instr *instr, struct form *out)
{
    struct form a, place, length;
    int64_t at, count;
    unsigned bits = reach_bits(instr->form, 0);
    reach_operand(r, &instr->operands[1], 1, &a);
    reach_operand(r, &instr->operands[2], 2, &place);
    reach_operand(r, &instr->operands[3], 3, &length);
    if (reach_is_signed(instr->form, 0) || !form_constant(&place, &at) ||
        !form_constant(&length, &count) || at < 0 || count < 1 || at + count > bits || count > 40)
        return false;
    reach_typed(r, &a, bits, false, 1, &a);
    *out = reach_quotient(r, &a, (int64_t)1 << at, SLOT_QUOTIENT);
    return at + count == bits || reach_modulo(r, out, (int64_t)1 << count, SLOT_QUOTIENT + 1, out);
}

bool reach_absolute(struct reaching *r, const struct ptx_instr *instr, struct form *out)
{
    struct form a;
    reach_operand(r, &instr->operands[1], 1, &a);
    reach_typed(r, &a, reach_bits(instr->form, 0), true, 1, &a);
    struct range range = reach_bound(r, &a);
    *out = a;
    if (range.low >= 0)
        return true;
    if (range.high <= 0)
        return form_scale(&a, -1, out);
    wide_int most = -range.low > range.high ? -range.low : range.high;
    *out = reach_in(r, SLOT_RESULT, (struct range){0, most}, !reach_strict(r, &a), &a);
    return true;
}

bool reach_count_bits(struct reaching *r, const struct ptx_instr *instr, struct form *out)
{
    unsigned bits = reach_bits(instr->form, 0);
    *out = reach_in(r, SLOT_RESULT, (struct range){0, bits}, false, NULL);
    return true;
}
