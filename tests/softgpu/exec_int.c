/* Integer and bit operations that need more than an expression, comparisons with combinations,
 * packing, fences, address spaces. */
#include "exec_core.h"

#include <math.h>
#include <string.h>

/* ---- comparisons ----------------------------------------------------------------------------- */

static bool relation(unsigned comparison, bool less, bool equal, bool unordered)
{
    bool greater = !less && !equal && !unordered;
    switch (comparison) {
    case PTX_MOD_eq:
        return equal;
    case PTX_MOD_ne:
        return less || greater;
    case PTX_MOD_lt:
        return less;
    case PTX_MOD_le:
    case PTX_MOD_ls:
        return less || equal;
    case PTX_MOD_gt:
        return greater;
    case PTX_MOD_ge:
    case PTX_MOD_hs:
        return greater || equal;
    case PTX_MOD_equ:
        return equal || unordered;
    case PTX_MOD_neu:
        return !equal;
    case PTX_MOD_ltu:
        return less || unordered;
    case PTX_MOD_leu:
        return !greater;
    case PTX_MOD_gtu:
        return greater || unordered;
    case PTX_MOD_geu:
        return !less;
    case PTX_MOD_num:
        return !unordered;
    default: /* nan */
        return unordered;
    }
}

static bool compare(unsigned comparison, uint8_t type, union slot a, union slot b)
{
    unsigned shift = 64 - ptx_types[type].bits;
    if (comparison == PTX_MOD_lo || comparison == PTX_MOD_hi) /* of integers: unsigned lt, gt */
        comparison = comparison == PTX_MOD_lo ? PTX_MOD_lt : PTX_MOD_gt;
    if (ptx_types[type].class == PTX_FLOAT) {
        double x, y;
        if (type == PTX_TYPE_f64) {
            x = a.f64;
            y = b.f64;
        } else if (type == PTX_TYPE_f32) {
            x = a.f32;
            y = b.f32;
        } else {
            x = small_to_double(type, a.u16);
            y = small_to_double(type, b.u16);
        }
        return relation(comparison, x < y, x == y, x != x || y != y);
    }
    uint64_t x = a.u64 << shift, y = b.u64 << shift;
    bool less = ptx_types[type].class == PTX_SIGNED ? (int64_t)x < (int64_t)y : x < y;
    return relation(comparison, less, x == y, false);
}

static bool combined(const struct ptx_form *form, bool value, bool other)
{
    if (ptx_has(form, PTX_MOD_and))
        return value && other;
    if (ptx_has(form, PTX_MOD_or))
        return value || other;
    if (ptx_has(form, PTX_MOD_xor))
        return value != other;
    return value;
}

static bool halves(uint8_t type)
{
    return type == PTX_TYPE_f16x2 || type == PTX_TYPE_bf16x2;
}

static unsigned comparison_of(const struct ptx_form *form)
{
    for (unsigned i = 0; i < form->mod_count; i++) {
        uint16_t mod = form->mods[i];
        if ((mod >= PTX_MOD_eq && mod <= PTX_MOD_nan) || mod == PTX_MOD_lo || mod == PTX_MOD_hi)
            return mod;
    }
    return PTX_MOD_none;
}

static union slot flushed(union slot value, const struct ptx_form *form, uint8_t type)
{
    bool half = type == PTX_TYPE_f16 || type == PTX_TYPE_f16x2;
    if (!ptx_has(form, PTX_MOD_ftz))
        return value;
    if (type == PTX_TYPE_f32)
        value.f32 = flush(value.f32, FTZ);
    for (unsigned shift = 0; half && shift < ptx_types[type].bits; shift += 16)
        if (!(value.u32 >> shift & 0x7c00)) /* zero or below the normal numbers */
            value.u32 &= ~(0x7fffu << shift);
    return value;
}

/* setp.cmp{.bool}.type p{|q}, a, b{, c} */
static bool set_predicate(struct lane *lane, union slot *R, const struct code *c)
{
    const struct ptx_form *form = c->instr->form;
    unsigned comparison = comparison_of(form);
    union slot a = flushed(R[c->a], form, c->type), b = flushed(R[c->b], form, c->type);
    bool other = R[c->c].u32;
    bool first = compare(comparison, c->type, a, b), second = !first;
    if (halves(c->type)) { /* of pairs: the second result is the high half's */
        a.u32 >>= 16;
        b.u32 >>= 16;
        second = compare(comparison, c->type, a, b);
    }
    R[c->p].u64 = combined(form, second, other);
    R[c->d].u64 = combined(form, first, other); /* last: p may be the sink */
    return true;
}

/* set.cmp{.bool}.dtype.stype d, a, b{, c}: all ones, or 1.0 where the destination is a float */
static bool set_value(struct lane *lane, union slot *R, const struct code *c)
{
    const struct ptx_form *form = c->instr->form;
    uint8_t to = form->types[0];
    unsigned comparison = comparison_of(form);
    union slot a = flushed(R[c->a], form, c->type), b = flushed(R[c->b], form, c->type);
    bool other = R[c->c].u32;
    uint64_t yes = ~UINT64_C(0), out = 0;
    if (to == PTX_TYPE_f32)
        yes = 0x3f800000;
    else if (ptx_types[to].class == PTX_FLOAT)
        yes = small_from_double(to, 1.0, 0);
    else if (halves(c->type))
        yes = 0xffff;
    for (unsigned shift = 0; shift < (halves(c->type) ? 32u : 16u); shift += 16) {
        if (combined(form, compare(comparison, c->type, a, b), other))
            out |= yes << shift;
        a.u64 >>= 16;
        b.u64 >>= 16;
    }
    R[c->d].u64 = out;
    return true;
}

static bool test_property(const struct ptx_form *form, double value, bool normal)
{
    switch (form->mods[0]) {
    case PTX_MOD_finite:
        return isfinite(value);
    case PTX_MOD_infinite:
        return isinf(value);
    case PTX_MOD_number:
        return value == value;
    case PTX_MOD_notanumber:
        return value != value;
    case PTX_MOD_normal:
        return normal || value == 0; /* as the hardware has it */
    default:
        return isfinite(value) && !normal && value != 0;
    }
}

bool slow_set(struct lane *lane, union slot *R, const struct code *c)
{
    const struct ptx_form *form = c->instr->form;
    switch (form->op) {
    case PTX_OP_setp:
        return comparison_of(form) ? set_predicate(lane, R, c)
                                   : lane_fault(lane, EXEC_UNSUPPORTED, "%s", form->text);
    case PTX_OP_set:
        return comparison_of(form) && form->type_count == 2
                   ? set_value(lane, R, c)
                   : lane_fault(lane, EXEC_UNSUPPORTED, "%s", form->text);
    case PTX_OP_slct: {
        bool first =
            c->type == PTX_TYPE_f32 ? flushed(R[c->c], form, c->type).f32 >= 0 : R[c->c].s32 >= 0;
        R[c->d].u64 = first ? R[c->a].u64 : R[c->b].u64;
        return true;
    }
    default: /* testp */
        if (form->mod_count != 1)
            return lane_fault(lane, EXEC_UNSUPPORTED, "%s", form->text);
        R[c->d].u64 = c->type == PTX_TYPE_f64
                          ? test_property(form, R[c->a].f64, isnormal(R[c->a].f64))
                          : test_property(form, R[c->a].f32, isnormal(R[c->a].f32));
        return true;
    }
}

/* ---- integers -------------------------------------------------------------------------------- */

static uint64_t low_bits(uint64_t value, unsigned bits)
{
    return bits >= 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

static int64_t sign_extended(uint64_t value, unsigned bits)
{
    return (int64_t)(value << (64 - bits)) >> (64 - bits);
}

static int64_t clamp_s32(int64_t value)
{
    return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value;
}

/* a + b + carry in `bits`, with the carry out. */
static uint64_t add_carry(uint64_t a, uint64_t b, unsigned carry, unsigned bits, unsigned *out)
{
    unsigned __int128 sum = (unsigned __int128)low_bits(a, bits) + low_bits(b, bits) + carry;
    *out = (unsigned)(sum >> bits) & 1;
    return low_bits((uint64_t)sum, bits);
}

/* add.cc, addc, sub.cc, subc, mad.cc, madc */
static uint64_t carried(struct lane *lane, const struct ptx_form *form, uint8_t type, uint64_t a,
                        uint64_t b, uint64_t c)
{
    unsigned bits = ptx_types[type].bits, out;
    bool is_signed = ptx_types[type].class == PTX_SIGNED;
    bool uses = form->op == PTX_OP_addc || form->op == PTX_OP_subc || form->op == PTX_OP_madc;
    unsigned in = uses ? lane->carry : 0;
    uint64_t result;
    if (form->op == PTX_OP_sub || form->op == PTX_OP_subc) {
        result = add_carry(a, ~b, uses ? in : 1, bits, &out); /* the flag: no borrow */
    } else if (form->op == PTX_OP_mad || form->op == PTX_OP_madc) {
        __int128 product =
            is_signed ? (__int128)sign_extended(a, bits) * sign_extended(b, bits)
                      : (__int128)((unsigned __int128)low_bits(a, bits) * low_bits(b, bits));
        uint64_t part = (uint64_t)(ptx_has(form, PTX_MOD_hi) ? product >> bits : product);
        result = add_carry(part, c, in, bits, &out);
    } else {
        result = add_carry(a, b, in, bits, &out);
    }
    if (ptx_has(form, PTX_MOD_cc))
        lane->carry = (uint8_t)out;
    return result;
}

static uint64_t extract(uint8_t type, uint64_t a, uint32_t position, uint32_t length)
{
    unsigned bits = ptx_types[type].bits;
    bool is_signed = ptx_types[type].class == PTX_SIGNED;
    if (bits == 32) { /* of 64 bits all the operands' bits count */
        position &= 0xff;
        length &= 0xff;
    }
    if (!length)
        return 0;
    uint64_t end = (uint64_t)position + length - 1;
    unsigned top = end < bits - 1 ? (unsigned)end : bits - 1;
    bool sign = is_signed && (a >> top & 1);
    uint64_t field = position >= bits ? 0 : low_bits(a, bits) >> position;
    unsigned kept = position >= bits ? 0 : top - position + 1;
    field = kept >= 64 ? field : low_bits(field, kept);
    if (sign && kept < 64)
        field |= ~UINT64_C(0) << kept;
    return low_bits(field, bits);
}

static uint64_t insert(unsigned bits, uint64_t a, uint64_t b, uint32_t position, uint32_t length)
{
    if (bits == 32) {
        position &= 0xff;
        length &= 0xff;
    }
    if (position >= bits || !length)
        return b;
    length = length > bits - position ? bits - position : length;
    uint64_t mask = low_bits(~UINT64_C(0), length) << position;
    return low_bits((b & ~mask) | (a << position & mask), bits);
}

static uint32_t find_leading(uint8_t type, uint64_t a, bool shift_amount)
{
    unsigned bits = ptx_types[type].bits;
    a = low_bits(a, bits);
    if (ptx_types[type].class == PTX_SIGNED && (a >> (bits - 1) & 1))
        a = low_bits(~a, bits);
    if (!a)
        return UINT32_MAX;
    unsigned top = 63 - (unsigned)__builtin_clzll(a);
    return shift_amount ? bits - 1 - top : top;
}

static uint64_t reverse(uint64_t a, unsigned bits)
{
    uint64_t out = 0;
    for (unsigned i = 0; i < bits; i++)
        out |= (a >> i & 1) << (bits - 1 - i);
    return out;
}

/* prmt's selector in its special modes, from the two low bits of c. */
static uint32_t permute_selector(const struct ptx_form *form, uint32_t c)
{
    static const uint16_t tables[][4] = {
        {0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
        {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
        {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
    for (unsigned i = 0; i < 6; i++)
        if (ptx_has(form, PTX_MOD_f4e + i))
            return tables[i][c & 3];
    return c;
}

static uint32_t permute(uint32_t a, uint32_t b, uint32_t selector)
{
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t out = 0;
    for (unsigned i = 0; i < 4; i++) {
        unsigned pick = selector >> (4 * i) & 15;
        uint32_t byte = (uint32_t)(bytes >> (8 * (pick & 7))) & 0xff;
        if (pick & 8)
            byte = byte & 0x80 ? 0xff : 0;
        out |= byte << (8 * i);
    }
    return out;
}

static uint32_t funnel(const struct ptx_form *form, uint32_t a, uint32_t b, uint32_t amount)
{
    uint64_t both = (uint64_t)b << 32 | a;
    amount = ptx_has(form, PTX_MOD_clamp) ? amount > 32 ? 32 : amount : amount & 31;
    return ptx_has(form, PTX_MOD_l) ? (uint32_t)(both << amount >> 32) : (uint32_t)(both >> amount);
}

static uint32_t logic3(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t out = 0;
    for (unsigned i = 0; i < 8; i++)
        if (table >> i & 1)
            out |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return out;
}

/* lop3, and lop3.and or lop3.or with a predicate. */
static void logic_of(union slot *R, const struct code *c)
{
    uint32_t out = logic3(R[c->a].u32, R[c->b].u32, R[c->c].u32, R[c->m].u32);
    if (c->list) {
        bool other = R[c->list[0]].u32 != 0, set = out != 0;
        R[c->p].u64 = ptx_has(c->instr->form, PTX_MOD_or) ? set || other : set && other;
    }
    R[c->d].u64 = out;
}

/* dp4a, dp2a: each operand has a type of its own */
static uint32_t dot(const struct ptx_form *form, uint32_t a, uint32_t b, uint32_t c)
{
    bool a_signed = form->types[0] == PTX_TYPE_s32, b_signed = form->types[1] == PTX_TYPE_s32;
    bool two = form->op == PTX_OP_dp2a;
    unsigned from = two && ptx_has(form, PTX_MOD_hi) ? 2 : 0;
    for (unsigned i = 0; i < (two ? 2u : 4u); i++) {
        unsigned bits = two ? 16 : 8;
        int64_t x = (int64_t)low_bits(a >> (bits * i), bits);
        int64_t y = (int64_t)low_bits(b >> (8 * (i + from)), 8);
        x = a_signed ? sign_extended((uint64_t)x, bits) : x;
        y = b_signed ? sign_extended((uint64_t)y, 8) : y;
        c += (uint32_t)(x * y);
    }
    return c;
}

static uint32_t pairwise(const struct ptx_form *form, bool is_signed, uint32_t a, uint32_t b)
{
    uint32_t out = 0;
    for (unsigned shift = 0; shift < 32; shift += 16) {
        int32_t x = (int32_t)(a >> shift & 0xffff), y = (int32_t)(b >> shift & 0xffff);
        x = is_signed ? (int16_t)x : x;
        y = is_signed ? (int16_t)y : y;
        int32_t z = form->op == PTX_OP_add   ? x + y
                    : form->op == PTX_OP_min ? (x < y ? x : y)
                                             : (x > y ? x : y);
        if (ptx_has(form, PTX_MOD_relu) && z < 0)
            z = 0;
        out |= ((uint32_t)z & 0xffff) << shift;
    }
    return out;
}

/* Product of the low 24 bits of each. */
static uint32_t product24(const struct ptx_form *form, uint32_t a, uint32_t b)
{
    int64_t product = form->types[0] == PTX_TYPE_s32
                          ? sign_extended(a, 24) * sign_extended(b, 24)
                          : (int64_t)((uint64_t)(a & 0xffffff) * (b & 0xffffff));
    return (uint32_t)(ptx_has(form, PTX_MOD_hi) ? product >> 16 : product);
}

static uint32_t nth_set(uint32_t mask, uint32_t base, int32_t offset)
{
    int32_t step = offset < 0 ? -1 : 1, left = offset < 0 ? -offset : offset;
    if (base > 31)
        return UINT32_MAX;
    if (!offset)
        return mask >> base & 1 ? base : UINT32_MAX;
    for (int32_t at = (int32_t)base; at >= 0 && at < 32; at += step)
        if ((mask >> at & 1) && !--left)
            return (uint32_t)at;
    return UINT32_MAX;
}

static uint32_t bit_mask(const struct ptx_form *form, uint32_t position, uint32_t length)
{
    if (ptx_has(form, PTX_MOD_wrap)) {
        position &= 31;
        length &= 31;
    }
    if (position > 31 || !length)
        return 0;
    return (uint32_t)(low_bits(~UINT64_C(0), length > 32 ? 32 : length) << position);
}

static uint32_t extend(const struct ptx_form *form, uint8_t type, uint32_t a, uint32_t bits)
{
    bits = ptx_has(form, PTX_MOD_wrap) ? bits & 31 : bits > 32 ? 32 : bits;
    if (!bits)
        return 0;
    return type == PTX_TYPE_s32 ? (uint32_t)sign_extended(a, bits) : (uint32_t)low_bits(a, bits);
}

static uint64_t difference(uint8_t type, union slot a, union slot b, uint64_t c)
{
    bool less = compare(PTX_MOD_lt, type, a, b);
    return c + (less ? b.u64 - a.u64 : a.u64 - b.u64);
}

static uint64_t saturating(const struct ptx_form *form, union slot a, union slot b, union slot c)
{
    switch (form->op) {
    case PTX_OP_add:
        return (uint64_t)clamp_s32((int64_t)a.s32 + b.s32);
    case PTX_OP_sub:
        return (uint64_t)clamp_s32((int64_t)a.s32 - b.s32);
    default: /* mad.hi.sat.s32 */
        return (uint64_t)clamp_s32((((int64_t)a.s32 * b.s32) >> 32) + c.s32);
    }
}

bool slow_int(struct lane *lane, union slot *R, const struct code *c)
{
    const struct ptx_form *form = c->instr->form;
    union slot a = R[c->a], b = R[c->b], e = R[c->c], *d = &R[c->d];
    uint8_t type = form->types[0];
    bool paired = type == PTX_TYPE_u16x2 || type == PTX_TYPE_s16x2;
    switch (form->op) {
    case PTX_OP_add:
    case PTX_OP_sub:
    case PTX_OP_addc:
    case PTX_OP_subc:
    case PTX_OP_mad:
    case PTX_OP_madc:
        if (paired)
            d->u64 = pairwise(form, type == PTX_TYPE_s16x2, a.u32, b.u32);
        else if (ptx_has(form, PTX_MOD_sat) && type == PTX_TYPE_s32)
            d->u64 = saturating(form, a, b, e);
        else if (ptx_has(form, PTX_MOD_sat))
            return lane_fault(lane, EXEC_UNSUPPORTED, "%s is not implemented", form->text);
        else
            d->u64 = carried(lane, form, type, a.u64, b.u64, e.u64);
        return true;
    case PTX_OP_mul24:
        d->u64 = product24(form, a.u32, b.u32);
        return true;
    case PTX_OP_mad24:
        if (ptx_has(form, PTX_MOD_sat))
            d->u64 = (uint64_t)clamp_s32((int64_t)(int32_t)product24(form, a.u32, b.u32) + e.s32);
        else
            d->u64 = product24(form, a.u32, b.u32) + e.u32;
        return true;
    case PTX_OP_sad:
        d->u64 = difference(type, a, b, e.u64);
        return true;
    case PTX_OP_dp4a:
    case PTX_OP_dp2a:
        d->u64 = dot(form, a.u32, b.u32, e.u32);
        return true;
    case PTX_OP_min:
    case PTX_OP_max:
        if (paired) {
            d->u64 = pairwise(form, type == PTX_TYPE_s16x2, a.u32, b.u32);
        } else { /* .relu */
            int32_t z = (a.s32 < b.s32) == (form->op == PTX_OP_min) ? a.s32 : b.s32;
            d->u64 = z < 0 ? 0 : (uint32_t)z;
        }
        return true;
    case PTX_OP_bfe:
        d->u64 = extract(type, a.u64, b.u32, e.u32);
        return true;
    case PTX_OP_bfi:
        d->u64 = insert(ptx_types[type].bits, a.u64, b.u64, e.u32, R[c->m].u32);
        return true;
    case PTX_OP_bfind:
        d->u64 = find_leading(type, a.u64, ptx_has(form, PTX_MOD_shiftamt));
        return true;
    case PTX_OP_brev:
        d->u64 = reverse(a.u64, ptx_types[type].bits);
        return true;
    case PTX_OP_prmt:
        d->u64 = permute(a.u32, b.u32, permute_selector(form, e.u32));
        return true;
    case PTX_OP_shf:
        d->u64 = funnel(form, a.u32, b.u32, e.u32);
        return true;
    case PTX_OP_lop3:
        logic_of(R, c);
        return true;
    case PTX_OP_bmsk:
        d->u64 = bit_mask(form, a.u32, b.u32);
        return true;
    case PTX_OP_fns:
        d->u64 = nth_set(a.u32, b.u32, e.s32);
        return true;
    case PTX_OP_szext:
        d->u64 = extend(form, type, a.u32, b.u32);
        return true;
    default:
        return lane_fault(lane, EXEC_UNSUPPORTED, "%s is not implemented", form->text);
    }
}

/* ---- moves and spaces ------------------------------------------------------------------------ */

/* mov d, {a, b} and mov {a, b}, d: the first element is the lowest. */
bool slow_pack(struct lane *lane, union slot *R, const struct code *c)
{
    unsigned bits = ptx_types[c->type].bits / (c->count ? c->count : 1);
    if (bits < 8)
        return lane_fault(lane, EXEC_UNSUPPORTED, "%s with %u elements", c->instr->form->text,
                          c->count);
    uint64_t whole = 0;
    if (c->instr->operands[0].kind == PTX_VECTOR) {
        whole = R[c->a].u64;
        for (unsigned i = 0; i < c->count; i++)
            R[c->list[i]].u64 = low_bits(whole >> (bits * i), bits);
        return true;
    }
    for (unsigned i = 0; i < c->count; i++)
        whole |= low_bits(R[c->list[i]].u64, bits) << (bits * i);
    R[c->d].u64 = whole;
    return true;
}

bool slow_fence(struct lane *lane, union slot *R, const struct code *c)
{
    __sync_synchronize();
    return true;
}

/* Constant variables are global memory of ours; parameters count as global too. */
static bool in_space(const struct lane *lane, unsigned space, unsigned window, uint64_t address)
{
    const struct exec_module *module = lane->func->module;
    bool constant = false;
    for (uint32_t i = 0; i < module->variable_count; i++)
        constant |= module->ptx.vars[i]->space == PTX_SPACE_const &&
                    address - module->variables[i].address < module->variables[i].size;
    if (space == PTX_SPACE_param)
        return address >> 48 == WINDOW_PARAM;
    if (space == PTX_SPACE_const)
        return constant;
    if (space == PTX_SPACE_global)
        return (address >> 48 == WINDOW_GLOBAL && !constant) || address >> 48 == WINDOW_PARAM;
    return address >> 48 == window;
}

/* cvta and isspacep */
bool slow_space(struct lane *lane, union slot *R, const struct code *c)
{
    const struct ptx_form *form = c->instr->form;
    uint64_t address = c->type == PTX_TYPE_u32 ? R[c->a].u32 : R[c->a].u64;
    unsigned window = form->space == PTX_SPACE_shared  ? WINDOW_SHARED
                      : form->space == PTX_SPACE_local ? WINDOW_LOCAL
                                                       : WINDOW_GLOBAL;
    if (form->op == PTX_OP_isspacep)
        R[c->d].u64 = in_space(lane, form->space, window, address);
    else if (ptx_has(form, PTX_MOD_to))
        R[c->d].u64 = address - WINDOW_BASE(window);
    else
        R[c->d].u64 = address + WINDOW_BASE(window);
    return true;
}
