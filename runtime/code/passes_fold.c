/* What an operation makes of operands that are all known: the integers with their wrapping and
 * clamped shifts as the ISA says, comparisons, packing; floats are in passes_real.c. Everything
 * else is not known. */
#include "passes.h"

bool mods_among(const struct ptx_form *form, const enum ptx_mod *mods)
{
    for (unsigned i = 0; i < form->mod_count; i++) {
        unsigned j = 0;
        while (mods[j] != PTX_MOD_none && mods[j] != form->mods[i])
            j++;
        if (mods[j] == PTX_MOD_none)
            return false;
    }
    return true;
}

bool fold_is_float(uint8_t type)
{
    return type == PTX_TYPE_f32 || type == PTX_TYPE_f64;
}

/* 16, 32, 64 bits: others are for loads and conversions alone. */
static bool is_plain(uint8_t type)
{
    unsigned bits = ptx_types[type].bits;
    return type == PTX_TYPE_pred || fold_is_float(type) ||
           (is_integer(type) && type != PTX_TYPE_u16x2 && type != PTX_TYPE_s16x2 &&
            (bits == 16 || bits == 32 || bits == 64));
}

static uint8_t doubled(uint8_t type)
{
    switch (type) {
    case PTX_TYPE_u16:
        return PTX_TYPE_u32;
    case PTX_TYPE_s16:
        return PTX_TYPE_s32;
    case PTX_TYPE_u32:
        return PTX_TYPE_u64;
    case PTX_TYPE_s32:
        return PTX_TYPE_s64;
    default:
        return PTX_TYPE_none;
    }
}

/* ---- types ---- */

uint8_t fold_source_type(const struct ptx_form *form, unsigned index)
{
    uint8_t first = form->type_count ? form->types[0] : PTX_TYPE_none;
    switch (form->op) {
    case PTX_OP_cvt:
    case PTX_OP_set:
        return form->type_count != 2 ? PTX_TYPE_none : index == 2 ? PTX_TYPE_pred : form->types[1];
    case PTX_OP_setp:
    case PTX_OP_selp:
        return index == 2 ? PTX_TYPE_pred : first;
    case PTX_OP_shl:
    case PTX_OP_shr:
    case PTX_OP_bfe:
        return index ? PTX_TYPE_u32 : first;
    case PTX_OP_bfi:
        return index > 1 ? PTX_TYPE_u32 : first;
    case PTX_OP_mad:
        return index == 2 && ptx_has(form, PTX_MOD_wide) ? doubled(first) : first;
    case PTX_OP_mov: /* a pack's parts are what the registers hold */
    case PTX_OP_abs:
    case PTX_OP_add:
    case PTX_OP_and:
    case PTX_OP_bfind:
    case PTX_OP_brev:
    case PTX_OP_clz:
    case PTX_OP_cnot:
    case PTX_OP_div:
    case PTX_OP_fma:
    case PTX_OP_lop3:
    case PTX_OP_max:
    case PTX_OP_min:
    case PTX_OP_mul:
    case PTX_OP_neg:
    case PTX_OP_not:
    case PTX_OP_or:
    case PTX_OP_popc:
    case PTX_OP_prmt:
    case PTX_OP_rcp:
    case PTX_OP_rem:
    case PTX_OP_shf:
    case PTX_OP_sqrt:
    case PTX_OP_sub:
    case PTX_OP_xor:
        return first;
    default:
        return PTX_TYPE_none;
    }
}

uint8_t fold_result_type(const struct ptx_form *form, unsigned index)
{
    uint8_t first = form->type_count ? form->types[0] : PTX_TYPE_none;
    (void)index;
    switch (form->op) {
    case PTX_OP_setp:
        return PTX_TYPE_pred;
    case PTX_OP_popc:
    case PTX_OP_clz:
    case PTX_OP_bfind:
        return PTX_TYPE_u32;
    case PTX_OP_mul:
    case PTX_OP_mad:
        return ptx_has(form, PTX_MOD_wide) ? doubled(first) : first;
    default:
        return first;
    }
}

/* ---- integers ---- */

static uint64_t high_product(uint64_t a, uint64_t b, unsigned bits, bool is_signed)
{
    if (is_signed)
        return (uint64_t)(((__int128)extended(a, bits) * extended(b, bits)) >> bits);
    return (uint64_t)(((unsigned __int128)a * b) >> bits);
}

static bool product(const struct ptx_form *form, const uint64_t *in, unsigned bits, bool is_signed,
                    uint64_t *out)
{
    uint64_t add = form->op == PTX_OP_mad ? in[2] : 0;
    if (!mods_among(form, MODS(PTX_MOD_lo, PTX_MOD_hi, PTX_MOD_wide)) || form->mod_count != 1)
        return false;
    if (form->mods[0] == PTX_MOD_hi)
        *out = high_product(in[0], in[1], bits, is_signed) + add;
    else if (form->mods[0] == PTX_MOD_wide && is_signed)
        *out = (uint64_t)(extended(in[0], bits) * extended(in[1], bits)) + add;
    else
        *out = in[0] * in[1] + add;
    return true;
}

/* By zero the ISA leaves the result open. */
static bool quotient(const struct ptx_form *form, const uint64_t *in, unsigned bits, bool is_signed,
                     uint64_t *out)
{
    bool rest = form->op == PTX_OP_rem;
    if (form->mod_count || !in[1])
        return false;
    if (!is_signed) {
        *out = rest ? in[0] % in[1] : in[0] / in[1];
        return true;
    }
    int64_t a = extended(in[0], bits), b = extended(in[1], bits);
    if (b == -1)
        return false; /* the smallest number has no counterpart */
    *out = (uint64_t)(rest ? a % b : a / b);
    return true;
}

static uint64_t shifted(const struct ptx_form *form, uint64_t a, uint64_t by, unsigned bits,
                        bool is_signed)
{
    if (form->op == PTX_OP_shl)
        return by >= bits ? 0 : a << by;
    if (is_signed)
        return (uint64_t)(extended(a, bits) >> (by >= bits ? bits - 1 : by));
    return by >= bits ? 0 : a >> by;
}

/* Only of fields within the word: beyond it, 64-bit fields of an H200 are not what the ISA says. */
static bool bit_field(uint64_t a, uint64_t at, uint64_t length, unsigned bits, bool is_signed,
                      uint64_t *out)
{
    if (at > bits || length > bits || at + length > bits)
        return false;
    *out = length ? a >> at & bits_mask((unsigned)length) : 0;
    if (is_signed && length && *out >> (length - 1) & 1)
        *out |= ~bits_mask((unsigned)length);
    return true;
}

static uint64_t lop3(uint64_t a, uint64_t b, uint64_t c, uint64_t table)
{
    uint64_t out = 0;
    for (unsigned i = 0; i < 8; i++)
        if (table >> i & 1)
            out |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return out;
}

static bool funnel(const struct ptx_form *form, const uint64_t *in, uint64_t *out)
{
    bool wrap = ptx_has(form, PTX_MOD_wrap), left = ptx_has(form, PTX_MOD_l);
    if (form->types[0] != PTX_TYPE_b32 || form->mod_count != 2 ||
        !mods_among(form, MODS(PTX_MOD_l, PTX_MOD_r, PTX_MOD_wrap, PTX_MOD_clamp)))
        return false;
    uint64_t by = wrap ? in[2] & 31 : in[2] > 32 ? 32 : in[2], both = in[1] << 32 | in[0];
    *out = left ? (both << by) >> 32 : both >> by;
    return true;
}

static uint64_t permuted(uint64_t a, uint64_t b, uint64_t selectors)
{
    uint64_t both = b << 32 | a, out = 0;
    for (unsigned i = 0; i < 4; i++) {
        uint64_t selector = selectors >> 4 * i & 15;
        uint64_t byte = both >> 8 * (selector & 7) & 0xff;
        if (selector & 8)
            byte = byte & 0x80 ? 0xff : 0;
        out |= byte << 8 * i;
    }
    return out;
}

/* Operations that need no suffix but their type. */
static bool plain_integer(const struct ptx_form *form, const uint64_t *in, unsigned bits,
                          bool is_signed, uint64_t *out)
{
    int64_t a = extended(in[0], bits), b = extended(in[1], bits);
    bool below = is_signed ? a < b : in[0] < in[1];
    if (form->mod_count)
        return false;
    switch (form->op) {
    case PTX_OP_add:
        return *out = in[0] + in[1], true;
    case PTX_OP_sub:
        return *out = in[0] - in[1], true;
    case PTX_OP_and:
        return *out = in[0] & in[1], true;
    case PTX_OP_or:
        return *out = in[0] | in[1], true;
    case PTX_OP_xor:
        return *out = in[0] ^ in[1], true;
    case PTX_OP_not:
        return *out = ~in[0], true;
    case PTX_OP_cnot:
        return *out = !in[0], true;
    case PTX_OP_neg:
        return *out = 0 - in[0], true;
    case PTX_OP_abs:
        return *out = a < 0 ? 0 - in[0] : in[0], true;
    case PTX_OP_min:
        return *out = below ? in[0] : in[1], true;
    case PTX_OP_max:
        return *out = below ? in[1] : in[0], true;
    case PTX_OP_popc:
        return *out = (uint64_t)__builtin_popcountll(in[0]), true;
    case PTX_OP_clz:
        return *out = in[0] ? (uint64_t)__builtin_clzll(in[0]) - (64 - bits) : bits, true;
    case PTX_OP_brev:
        *out = 0;
        for (unsigned i = 0; i < bits; i++)
            *out |= (in[0] >> i & 1) << (bits - 1 - i);
        return true;
    case PTX_OP_prmt:
        return *out = permuted(in[0], in[1], in[2]), true;
    case PTX_OP_bfe:
        return bit_field(in[0], in[1], in[2], bits, is_signed, out);
    default:
        return false;
    }
}

static bool integer(const struct ptx_form *form, const uint64_t *in, uint64_t *out)
{
    unsigned bits = ptx_types[form->types[0]].bits;
    bool is_signed = ptx_types[form->types[0]].class == PTX_SIGNED;
    switch (form->op) {
    case PTX_OP_mul:
    case PTX_OP_mad:
        return product(form, in, bits, is_signed, out);
    case PTX_OP_div:
    case PTX_OP_rem:
        return quotient(form, in, bits, is_signed, out);
    case PTX_OP_shl:
    case PTX_OP_shr:
        *out = shifted(form, in[0], in[1], bits, is_signed);
        return !form->mod_count;
    case PTX_OP_lop3:
        *out = lop3(in[0], in[1], in[2], in[3]);
        return !form->mod_count;
    case PTX_OP_shf:
        return funnel(form, in, out);
    default:
        return plain_integer(form, in, bits, is_signed, out);
    }
}

/* ---- comparisons ---- */

enum ptx_mod fold_comparison(const struct ptx_form *form)
{
    for (unsigned i = 0; i < form->mod_count; i++) {
        uint16_t mod = form->mods[i];
        if ((mod >= PTX_MOD_eq && mod <= PTX_MOD_nan) || mod == PTX_MOD_lo || mod == PTX_MOD_hi)
            return (enum ptx_mod)mod;
    }
    return PTX_MOD_none;
}

static bool relation(enum ptx_mod mod, bool less, bool equal, bool unordered, bool *out)
{
    bool greater = !less && !equal && !unordered;
    switch ((int)mod) {
    case PTX_MOD_eq:
        return *out = equal, true;
    case PTX_MOD_ne:
        return *out = less || greater, true;
    case PTX_MOD_lt:
    case PTX_MOD_lo:
        return *out = less, true;
    case PTX_MOD_le:
    case PTX_MOD_ls:
        return *out = less || equal, true;
    case PTX_MOD_gt:
    case PTX_MOD_hi:
        return *out = greater, true;
    case PTX_MOD_ge:
    case PTX_MOD_hs:
        return *out = greater || equal, true;
    case PTX_MOD_equ:
        return *out = equal || unordered, true;
    case PTX_MOD_neu:
        return *out = !equal, true;
    case PTX_MOD_ltu:
        return *out = less || unordered, true;
    case PTX_MOD_leu:
        return *out = !greater, true;
    case PTX_MOD_gtu:
        return *out = greater || unordered, true;
    case PTX_MOD_geu:
        return *out = !less, true;
    case PTX_MOD_num:
        return *out = !unordered, true;
    case PTX_MOD_nan:
        return *out = unordered, true;
    default:
        return false;
    }
}

static bool comparison(const struct ptx_form *form, unsigned dest, const uint64_t *in,
                       unsigned count, uint64_t *out)
{
    uint8_t type = form->types[0];
    enum ptx_mod mod = fold_comparison(form);
    bool first;
    if (form->type_count != 1 || dest > 1 || mod == PTX_MOD_none ||
        form->mod_count != 1u + (count > 2) + ptx_has(form, PTX_MOD_ftz))
        return false;
    if (fold_is_float(type)) {
        double a = real_value(type, in[0]), b = real_value(type, in[1]);
        if (ptx_has(form, PTX_MOD_ftz) && (real_denormal(type, a) || real_denormal(type, b)))
            return false;
        if (!relation(mod, a < b, a == b, a != a || b != b, &first))
            return false;
    } else {
        unsigned bits = ptx_types[type].bits;
        bool is_signed = ptx_types[type].class == PTX_SIGNED && mod < PTX_MOD_equ &&
                         mod != PTX_MOD_ls && mod != PTX_MOD_hs && mod != PTX_MOD_lo &&
                         mod != PTX_MOD_hi;
        bool less = is_signed ? extended(in[0], bits) < extended(in[1], bits) : in[0] < in[1];
        if (!relation(mod, less, in[0] == in[1], false, &first))
            return false;
    }
    first = dest ? !first : first;
    if (count > 2 && ptx_has(form, PTX_MOD_and))
        first = first && in[2];
    else if (count > 2 && ptx_has(form, PTX_MOD_or))
        first = first || in[2];
    else if (count > 2 && ptx_has(form, PTX_MOD_xor))
        first = first != (in[2] != 0);
    else if (count > 2)
        return false;
    *out = first;
    return true;
}

/* ---- all ---- */

static bool moved(const struct ptx_form *form, unsigned dest, const uint64_t *in, unsigned count,
                  uint64_t *out)
{
    unsigned bits = ptx_types[form->types[0]].bits;
    if (form->mod_count || (count > 1 && dest))
        return false;
    if (count == 1) /* the part is cut by the caller, who knows how many there are */
        return *out = in[0], true;
    if (bits > 64 || bits % count)
        return false;
    *out = 0;
    for (unsigned i = 0; i < count; i++)
        *out |= (in[i] & bits_mask(bits / count)) << (bits / count * i);
    return true;
}

bool fold_known(const struct ptx_form *form, unsigned dest, const uint64_t *in, unsigned count,
                uint64_t *out)
{
    uint64_t full[FOLD_SOURCES] = {0};
    uint8_t result = fold_result_type(form, dest);
    bool good = false;
    if (!count || count > FOLD_SOURCES || !form->type_count || result == PTX_TYPE_none)
        return false;
    memcpy(full, in, count * sizeof *full);
    if (form->op == PTX_OP_mov)
        good = moved(form, dest, full, count, out);
    else if (form->op == PTX_OP_cvt)
        good = fold_conversion(form, full[0], out);
    else if (form->op == PTX_OP_setp)
        good = is_plain(form->types[0]) && comparison(form, dest, full, count, out);
    else if (form->op == PTX_OP_selp)
        good = (*out = full[2] ? full[0] : full[1], !form->mod_count);
    else if (!is_plain(form->types[0]) || dest)
        good = false;
    else if (fold_is_float(form->types[0]))
        good = fold_real(form, full, count, out);
    else
        good = integer(form, full, out);
    *out &= bits_mask(ptx_types[result].bits);
    return good;
}
