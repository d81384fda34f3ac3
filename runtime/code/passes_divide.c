/* Integer quotients and remainders by known numbers, without a division: ptxas makes the general
 * sequence of them, 20 instructions for 32 bits and a call for 64, even by a power of two. The
 * numbers are found, and shown to be right for every dividend in range, here. */
#include "passes.h"

typedef unsigned __int128 wide;

struct divide {
    const struct rewriter *r;
    const struct ptx_instr *at;
    const char *to, *x, *guard;
    unsigned bits;     /* of the arithmetic: 32 or 64 */
    bool narrowed;     /* 64-bit operands, 32-bit arithmetic */
    bool rest;         /* rem, else div */
    uint64_t by, most; /* divisor; largest dividend, taken as unsigned */
};

/* floor(x / c) = (x >> before) * multiplier >> (bits + after). */
struct magic {
    uint64_t multiplier;
    unsigned before, after;
    bool extra; /* the multiplier has one bit more, which is left out of it */
};

static unsigned trailing_zeros(uint64_t value)
{
    return (unsigned)__builtin_ctzll(value);
}

/* x * m / 2^k is x / c + x * e / (c * 2^k) with e = m * c - 2^k: of the same floor as long as
 * x * e < 2^k, since x / c is at least 1 / c below the next integer. */
static bool magic_try(uint64_t c, uint64_t most, unsigned bits, unsigned after, struct magic *out)
{
    wide power = (wide)1 << (bits + after), m = (power + c - 1) / c, e = m * c - power;
    if (m > bits_mask(bits) || e * most >= power)
        return false;
    out->multiplier = (uint64_t)m;
    out->after = after;
    return true;
}

static bool magic_find(uint64_t c, uint64_t most, unsigned bits, struct magic *out)
{
    *out = (struct magic){0};
    for (unsigned after = 0; after < bits; after++)
        if (magic_try(c, most, bits, after, out))
            return true;
    unsigned zeros = trailing_zeros(c);
    for (unsigned after = 0; zeros && after < bits; after++)
        if (magic_try(c >> zeros, most >> zeros, bits, after, out)) {
            out->before = zeros;
            return true;
        }
    /* with a multiplier of one bit more: e < c <= 2^l, so e * most < 2^(bits + l) */
    unsigned l = 64 - (unsigned)__builtin_clzll(c - 1);
    if (l >= 64 || bits + l > 127)
        return false;
    wide power = (wide)1 << (bits + l), m = (power + c - 1) / c;
    *out = (struct magic){.multiplier = (uint64_t)(m - ((wide)1 << bits)) & bits_mask(bits),
                          .after = l,
                          .extra = true};
    return true;
}

/* The quotient by c, in %kgd; x stands in %kgx. */
static const char *quotient_text(const struct divide *d, const struct magic *magic)
{
    struct kg_arena *arena = d->r->arena;
    unsigned n = d->bits;
    const char *shift = "", *head = "", *from = "%kgx";
    const char *multiplier =
        literal_text(d->r, n == 64 ? PTX_TYPE_s64 : PTX_TYPE_s32, magic->multiplier);
    if (magic->before) {
        head = arena_format(arena, "shr.u%u %%kgd, %%kgx, %u; ", n, magic->before);
        from = "%kgd";
    }
    if (magic->extra)
        return arena_format(arena,
                            "mul.hi.u%u %%kgd, %%kgx, %s; sub.u%u %%kge, %%kgx, %%kgd; "
                            "shr.u%u %%kge, %%kge, 1; add.u%u %%kgd, %%kge, %%kgd; "
                            "shr.u%u %%kgd, %%kgd, %u; ",
                            n, multiplier, n, n, n, n, magic->after - 1);
    if (magic->after)
        shift = arena_format(arena, "shr.u%u %%kgd, %%kgd, %u; ", n, magic->after);
    if (!head || !shift)
        return NULL;
    return arena_format(arena, "%smul.hi.u%u %%kgd, %s, %s; %s", head, n, from, multiplier, shift);
}

/* Scope, x in, the quotient's text, x - q * c for a remainder, result out. */
static const char *framed(const struct divide *d, const char *body)
{
    struct kg_arena *arena = d->r->arena;
    unsigned n = d->bits;
    uint64_t minus = (0 - d->by) & bits_mask(n);
    const char *rest = "", *in = d->narrowed ? "cvt.u32.u64" : n == 64 ? "mov.b64" : "mov.b32";
    const char *out = d->narrowed ? "cvt.u64.u32" : n == 64 ? "mov.b64" : "mov.b32";
    if (d->rest)
        rest = arena_format(arena, "mad.lo.s%u %%kgd, %%kgd, %s, %%kgx; ", n,
                            literal_text(d->r, n == 64 ? PTX_TYPE_s64 : PTX_TYPE_s32, minus));
    if (!rest || !body)
        return NULL;
    return arena_format(arena,
                        "{ .reg .b%u %%kgx, %%kgd, %%kge; %s %%kgx, %s; %s%s%s%s %s, %%kgd; }", n,
                        in, d->x, body, rest, d->guard, out, d->to);
}

static const char *unsigned_text(const struct divide *d)
{
    struct magic magic;
    unsigned n = d->narrowed ? 64 : d->bits;
    bool power = !(d->by & (d->by - 1));
    if (power && d->rest)
        return arena_format(d->r->arena, "%sand.b%u %s, %s, %s;", d->guard, n, d->to, d->x,
                            literal_text(d->r, n == 64 ? PTX_TYPE_s64 : PTX_TYPE_s32, d->by - 1));
    if (power)
        return arena_format(d->r->arena, "%sshr.u%u %s, %s, %u;", d->guard, n, d->to, d->x,
                            trailing_zeros(d->by));
    if (!magic_find(d->by, d->most, d->bits, &magic))
        return NULL;
    return framed(d, quotient_text(d, &magic));
}

/* Towards zero: one is added to the floor of what is negative. */
static const char *signed_text(const struct divide *d)
{
    struct kg_arena *arena = d->r->arena;
    unsigned n = d->bits, k = trailing_zeros(d->by);
    if (!(d->by & (d->by - 1)))
        return framed(d, arena_format(arena,
                                      "shr.s%u %%kgd, %%kgx, %u; shr.u%u %%kgd, %%kgd, %u; "
                                      "add.s%u %%kgd, %%kgx, %%kgd; shr.s%u %%kgd, %%kgd, %u; ",
                                      n, n - 1, n, n - k, n, n, k));
    /* 2^after < c < 2^(after + 1): e <= c, so e * 2^(n-1) < 2^(n + after) */
    unsigned after = 63 - (unsigned)__builtin_clzll(d->by);
    wide power = (wide)1 << (n + after), m = power / d->by + 1;
    uint64_t multiplier = (uint64_t)m & bits_mask(n);
    const char *add = multiplier > bits_mask(n) >> 1
                          ? arena_format(arena, "add.s%u %%kgd, %%kgd, %%kgx; ", n)
                          : "";
    if (!add)
        return NULL;
    return framed(
        d, arena_format(arena,
                        "mul.hi.s%u %%kgd, %%kgx, %s; %sshr.s%u %%kgd, %%kgd, %u; "
                        "shr.u%u %%kge, %%kgx, %u; add.s%u %%kgd, %%kgd, %%kge; ",
                        n, literal_text(d->r, n == 64 ? PTX_TYPE_s64 : PTX_TYPE_s32, multiplier),
                        add, n, after, n, n - 1, n));
}

/* Both below 2^32, the divisor not zero: the 32-bit operation. */
static bool narrow(const struct divide *d, const char *by, struct rewrite *out)
{
    *out = (struct rewrite){
        PASS_narrow,
        arena_format(d->r->arena,
                     "{ .reg .b32 %%kgx, %%kgd; cvt.u32.u64 %%kgx, %s; cvt.u32.u64 %%kgd, %s; "
                     "%s.u32 %%kgd, %%kgx, %%kgd; %scvt.u64.u32 %s, %%kgd; }",
                     d->x, by, d->rest ? "rem" : "div", d->guard, d->to)};
    return true;
}

bool rewrite_divide(const struct rewriter *r, uint32_t instr, struct rewrite *out)
{
    const struct ptx_instr *at = &r->func->instrs[instr];
    const struct ptx_form *form = at->form;
    uint8_t type = form->type_count == 1 ? form->types[0] : PTX_TYPE_none;
    unsigned bits = ptx_types[type].bits;
    bool is_signed = ptx_types[type].class == PTX_SIGNED;
    if ((form->op != PTX_OP_div && form->op != PTX_OP_rem) || form->mod_count ||
        at->operand_count != 3 || (bits != 32 && bits != 64) || fold_is_float(type) ||
        at->operands[0].kind != PTX_REG || at->operands[0].component ||
        at->operands[1].kind != PTX_REG || at->operands[1].component || names_ours(r, at))
        return false;
    struct range x = values_source(r->values, instr, &at->operands[1], type);
    struct range by = values_source(r->values, instr, &at->operands[2], type);
    uint64_t top = bits_mask(bits) >> is_signed;
    if (!x.some || !by.some || !by.low || by.high == 1 || by.high > top)
        return false;
    bool positive = x.high <= top;
    struct divide d = {.r = r,
                       .at = at,
                       .to = source_text(r, at->operands[0].begin, at->operands[0].end),
                       .x = source_text(r, at->operands[1].begin, at->operands[1].end),
                       .guard = guard_text(r, at),
                       .bits = bits,
                       .rest = form->op == PTX_OP_rem,
                       .by = by.low,
                       .most = x.high};
    d.narrowed = bits == 64 && positive && x.high <= UINT32_MAX && by.high <= UINT32_MAX;
    if (!range_known(&by))
        return d.narrowed && at->operands[2].kind == PTX_REG &&
               narrow(&d, source_text(r, at->operands[2].begin, at->operands[2].end), out);
    d.bits = d.narrowed ? 32 : bits;
    *out = (struct rewrite){PASS_div_int, positive ? unsigned_text(&d) : signed_text(&d)};
    return out->text != NULL;
}
