/* Video instructions: parts of words with saturation, a second operation and merging; the same on
 * two or four lanes of a word at once. Hardware has few of them left and emulates the rest. */
#include "exec_core.h"

#include <string.h>

static bool is_signed(uint8_t type)
{
    return ptx_types[type].class == PTX_SIGNED;
}

static int64_t part(uint32_t word, unsigned from, unsigned bits, bool sign)
{
    uint64_t value = (uint64_t)word >> from;
    unsigned shift = 64 - bits;
    return sign ? (int64_t)(value << shift) >> shift : (int64_t)(value << shift >> shift);
}

/* Of a part named "b2" or "h1": its lowest bit, and its width. Without a name: the word. */
struct portion {
    unsigned from, bits;
};

static struct portion portion_of(const struct ptx_operand *operand)
{
    if (operand->component != PTX_SELECTOR)
        return (struct portion){0, 32};
    unsigned bits = operand->name[0] == 'b' ? 8 : 16;
    return (struct portion){(unsigned)(operand->name[1] - '0') * bits, bits};
}

static bool saturates(const struct ptx_form *form)
{
    return ptx_has(form, PTX_MOD_sat);
}

static int64_t clamp(int64_t value, unsigned bits, bool sign)
{
    int64_t most = (INT64_C(1) << (sign ? bits - 1 : bits)) - 1, least = sign ? -most - 1 : 0;
    return value > most ? most : value < least ? least : value;
}

static bool compare(const struct ptx_form *form, int64_t a, int64_t b)
{
    return (ptx_has(form, PTX_MOD_eq) && a == b) || (ptx_has(form, PTX_MOD_ne) && a != b) ||
           (ptx_has(form, PTX_MOD_lt) && a < b) || (ptx_has(form, PTX_MOD_le) && a <= b) ||
           (ptx_has(form, PTX_MOD_gt) && a > b) || (ptx_has(form, PTX_MOD_ge) && a >= b);
}

/* Saturation of the scalar instructions as an H200's compiler makes it, where the manual has one
 * clamp to the destination's range. Found from recorded results (tests/differential), and in the
 * machine code that ptxas makes of these instructions:
 * - the upper end of u32 is not seen: sums, differences and distances wrap round there, and only
 *   the lower end is one;
 * - a part of a word is compared as if unsigned: what is negative becomes the greatest value;
 * - a shifted value is cut to 34 bits with sign, then clamped to a word, whatever part is written.
 */
static int64_t saturated(const struct ptx_form *form, int64_t value, struct portion to, bool sign)
{
    if (form->op == PTX_OP_vshl || form->op == PTX_OP_vshr)
        return clamp((int64_t)((uint64_t)value << 30) >> 30, 32, sign);
    int64_t greatest = clamp(INT64_MAX, to.bits, sign);
    if (to.bits < 32)
        return value < 0 || value > greatest ? greatest : value;
    return sign ? clamp(value, 32, true) : value < 0 ? 0 : value;
}

/* What an operation does with two values, whatever their width. */
static int64_t value_of(const struct ptx_form *form, int64_t a, int64_t b)
{
    switch (form->op) {
    case PTX_OP_vadd:
    case PTX_OP_vadd2:
    case PTX_OP_vadd4:
        return a + b;
    case PTX_OP_vsub:
    case PTX_OP_vsub2:
    case PTX_OP_vsub4:
        return a - b;
    case PTX_OP_vabsdiff:
    case PTX_OP_vabsdiff2:
    case PTX_OP_vabsdiff4:
        return a < b ? b - a : a - b;
    case PTX_OP_vmin:
    case PTX_OP_vmin2:
    case PTX_OP_vmin4:
        return a < b ? a : b;
    case PTX_OP_vmax:
    case PTX_OP_vmax2:
    case PTX_OP_vmax4:
        return a > b ? a : b;
    case PTX_OP_vavrg2:
    case PTX_OP_vavrg4:
        return (a + b + (a + b >= 0)) >> 1;
    case PTX_OP_vshl:
    case PTX_OP_vshr:
        b = ptx_has(form, PTX_MOD_wrap) ? b & 31 : b > 32 ? 32 : b;
        return form->op == PTX_OP_vshl ? (int64_t)((uint64_t)a << b) : a >> b;
    default: /* vset, vset2, vset4 */
        return compare(form, a, b);
    }
}

static uint32_t second(const struct ptx_form *form, int64_t value, uint32_t c, bool sign)
{
    int64_t other = part(c, 0, 32, sign);
    if (form->op != PTX_OP_vabsdiff) /* a difference has no sign, the others wrap round */
        value = part((uint32_t)value, 0, 32, sign);
    if (ptx_has(form, PTX_MOD_add))
        return (uint32_t)value + c;
    if (ptx_has(form, PTX_MOD_min))
        return (uint32_t)(value < other ? value : other);
    if (ptx_has(form, PTX_MOD_max))
        return (uint32_t)(value > other ? value : other);
    return (uint32_t)value;
}

/* The value at the destination's part of c. An H200 puts the upper half of a value into h1, not its
 * lower one as into all other parts (recorded, and seen in machine code). */
static uint32_t merged(struct portion to, uint32_t value, uint32_t c)
{
    uint32_t mask = ((1u << to.bits) - 1) << to.from;
    bool upper = to.bits == 16 && to.from == 16;
    return (c & ~mask) | ((upper ? value : value << to.from) & mask);
}

/* The manual has unsigned products with an unsigned c, shifted as unsigned, and one clamp. An H200
 * takes c as signed always (from the recorded results, tests/differential); the sum of unsigned
 * ones is clamped to u32 at both ends, but after a shift a negative one is the greatest. */
static uint32_t multiply_add(const struct ptx_form *form, int64_t a, int64_t b, uint32_t c)
{
    bool sign = is_signed(form->types[1]) || is_signed(form->types[2]);
    unsigned shift = ptx_has(form, PTX_MOD_shr7) ? 7 : ptx_has(form, PTX_MOD_shr15) ? 15 : 0;
    __int128 sum = (__int128)a * b + (int32_t)c;
    sum >>= shift;
    if (!saturates(form))
        return (uint32_t)sum;
    __int128 most = sign ? INT32_MAX : UINT32_MAX, least = sign ? INT32_MIN : 0;
    if (sum > most || (!sign && shift && sum < 0))
        return (uint32_t)most;
    return (uint32_t)(sum < least ? least : sum);
}

static uint32_t scalar(const struct code *c, uint32_t a, uint32_t b, uint32_t e)
{
    const struct ptx_form *form = c->instr->form;
    const struct ptx_operand *o = c->instr->operands;
    bool compares = form->op == PTX_OP_vset;
    uint8_t type_a = form->types[compares ? 0 : 1], type_b = form->types[compares ? 1 : 2];
    bool sign = !compares && is_signed(form->types[0]);
    struct portion to = portion_of(&o[0]), of_a = portion_of(&o[1]), of_b = portion_of(&o[2]);
    int64_t x = part(a, of_a.from, of_a.bits, is_signed(type_a));
    int64_t y = part(b, of_b.from, of_b.bits, is_signed(type_b));
    if (form->op == PTX_OP_vmad)
        return multiply_add(form, x, y, e);
    int64_t value = value_of(form, x, y);
    if (saturates(form))
        value = saturated(form, value, to, sign);
    return to.bits < 32 ? merged(to, (uint32_t)value, e) : second(form, value, e, sign);
}

static uint32_t by_lanes(const struct ptx_form *form, unsigned lanes, uint32_t a, uint32_t b,
                         uint32_t c)
{
    unsigned bits = 32 / lanes;
    bool compares = form->op == PTX_OP_vset2 || form->op == PTX_OP_vset4;
    bool sum = ptx_has(form, PTX_MOD_add), sign = !compares && is_signed(form->types[0]);
    uint8_t type_a = form->types[compares ? 0 : 1], type_b = form->types[compares ? 1 : 2];
    uint32_t out = sum ? c : 0;
    for (unsigned i = 0; i < lanes; i++) {
        int64_t value = value_of(form, part(a, i * bits, bits, is_signed(type_a)),
                                 part(b, i * bits, bits, is_signed(type_b)));
        if (saturates(form))
            value = clamp(value, bits, sign);
        if (sum)
            out += (uint32_t)value;
        else
            out |= ((uint32_t)value & ((1u << bits) - 1)) << (i * bits);
    }
    return out;
}

/* Parts of two digits and more, as of vadd2 and vadd4, are not implemented. */
bool video_selects(const struct ptx_operand *operand)
{
    return operand->name && strlen(operand->name) == 2 &&
           (operand->name[0] == 'h' ? operand->name[1] <= '1'
                                    : operand->name[0] == 'b' && operand->name[1] <= '3');
}

bool slow_video(struct lane *lane, union slot *R, const struct code *c)
{
    const struct ptx_form *form = c->instr->form;
    size_t length = strcspn(form->text, ".");
    char last = form->text[length - 1];
    uint32_t a = R[c->a].u32, b = R[c->b].u32, e = R[c->c].u32;
    if (last == '2' || last == '4')
        R[c->d].u64 = by_lanes(form, last == '2' ? 2 : 4, a, b, e);
    else
        R[c->d].u64 = scalar(c, a, b, e);
    return true;
}
