/* Integer instructions over affine forms. What is not understood gives an unknown with the range of
 * its type; never a guess. Floating point is not followed at all. */
#include "reach_parts.h"

enum { SLOT_TYPED = 16, SLOT_RESULT = 32, SLOT_QUOTIENT = 40, SLOT_JOIN = 48 };

/* ---- symbols --------------------------------------------------------------------------------- */

uint32_t reach_symbol(struct reaching *r, const void *thing, uint32_t slot, enum symbol_kind kind)
{
    uint32_t number = number_of(&r->symbol_keys, thing, slot);
    if (number == NO_NUMBER) {
        r->affine.failed = true;
        return NO_SYMBOL;
    }
    if (number >= r->symbol_of_room) {
        uint32_t room = r->symbol_of_room ? 2 * r->symbol_of_room : 256;
        uint32_t *more = arena_alloc(r->arena, room * sizeof *more);
        if (!more) {
            r->affine.failed = true;
            return NO_SYMBOL;
        }
        for (uint32_t i = 0; i < room; i++)
            more[i] = i < r->symbol_of_room ? r->symbol_of[i] : NO_SYMBOL;
        r->symbol_of = more;
        r->symbol_of_room = room;
    }
    if (r->symbol_of[number] == NO_SYMBOL)
        r->symbol_of[number] = symbol_new(&r->affine, kind);
    uint32_t id = r->symbol_of[number];
    if (id != NO_SYMBOL) {
        struct symbol *symbol = &r->affine.symbols[id];
        symbol->kind = (uint8_t)kind;
        symbol->pass = r->pass;
        symbol->fact_count = 0;
        symbol->block = r->block;
    }
    return id;
}

struct form reach_unknown(struct reaching *r, const void *thing, uint32_t slot, struct range range,
                          bool open, const char *why)
{
    uint32_t id = reach_symbol(r, thing, slot, SYMBOL_OTHER);
    if (id != NO_SYMBOL) {
        struct symbol *symbol = &r->affine.symbols[id];
        symbol->range = range;
        symbol->open = open;
        symbol->why = why;
        symbol->line = r->instr < r->func->instr_count ? r->func->instrs[r->instr].place.line : 0;
    }
    return form_symbol(&r->affine, id);
}

const struct symbol *reach_open(const struct reaching *r, const struct form *form)
{
    for (uint32_t i = 0; i < form->count; i++) {
        const struct monomial *mono = &r->affine.monos[form->terms[i].mono];
        for (uint32_t s = 0; s < mono->count; s++)
            if (r->affine.symbols[mono->symbols[s]].open)
                return &r->affine.symbols[mono->symbols[s]];
    }
    return NULL;
}

/* An unknown that is known to be one of the numbers that the form can be. */
static struct form unknown_in(struct reaching *r, uint32_t slot, struct range range, bool open,
                              const struct form *from)
{
    const struct symbol *symbol = from ? reach_open(r, from) : NULL;
    const char *why = symbol ? symbol->why : "arithmetic that is not followed";
    uint32_t line = symbol ? symbol->line : 0;
    struct form out = reach_unknown(r, &r->func->instrs[r->instr], slot, range, open, why);
    if (line && out.count)
        r->affine.symbols[r->affine.monos[out.terms[0].mono].symbols[0]].line = line;
    return out;
}

static void own_fact(struct reaching *r, const struct form *symbol, const struct form *fact)
{
    if (!symbol->count)
        return;
    struct symbol *s = &r->affine.symbols[r->affine.monos[symbol->terms[0].mono].symbols[0]];
    const struct form *kept = form_keep(&r->affine, fact);
    if (kept && s->fact_count < SYMBOL_FACTS)
        s->facts[s->fact_count++] = kept;
}

/* ---- types ----------------------------------------------------------------------------------- */

unsigned reach_bits(const struct ptx_form *form, unsigned i)
{
    return i < form->type_count ? ptx_types[form->types[i]].bits : 0;
}

bool reach_is_signed(const struct ptx_form *form, unsigned i)
{
    return i < form->type_count && ptx_types[form->types[i]].class == PTX_SIGNED;
}

static bool is_integer(const struct ptx_form *form, unsigned i)
{
    if (i >= form->type_count)
        return false;
    uint8_t class = ptx_types[form->types[i]].class;
    unsigned bits = ptx_types[form->types[i]].bits;
    return (class == PTX_BITS || class == PTX_UNSIGNED || class == PTX_SIGNED) && bits >= 8 &&
           bits <= 64 && form->types[i] != PTX_TYPE_u16x2 && form->types[i] != PTX_TYPE_s16x2;
}

struct range reach_type_range(unsigned bits, bool is_signed)
{
    wide_int whole = (wide_int)1 << bits;
    return is_signed ? (struct range){-whole / 2, whole / 2 - 1} : (struct range){0, whole - 1};
}

static bool within(struct range a, struct range b)
{
    return a.low >= b.low && a.high <= b.high;
}

static bool bounded(struct range a)
{
    return a.low > -WIDE_INFINITE && a.high < WIDE_INFINITE;
}

static struct range bound(struct reaching *r, const struct form *form)
{
    return form_bound(&r->affine, form, r->now, false, EFFORT_FIT);
}

static bool strictly_bounded(struct reaching *r, const struct form *form)
{
    return bounded(form_bound(&r->affine, form, r->now, true, EFFORT_FIT));
}

void reach_typed(struct reaching *r, const struct form *form, unsigned bits, bool is_signed,
                 uint32_t slot, struct form *out)
{
    struct range type = reach_type_range(bits, is_signed);
    struct range range = form_range(&r->affine, form, false);
    form_scale(form, 1, out);
    if (r->symbolic || within(range, type))
        return;
    range = bound(r, form);
    if (within(range, type))
        return;
    if (bounded(range) && bits < 64) {
        wide_int whole = (wide_int)1 << bits, turns = -wide_floor(range.low - type.low, whole);
        struct range moved = {range.low + turns * whole, range.high + turns * whole};
        struct form constant = form_of((int64_t)(turns * whole));
        if (turns > -4 && turns < 4 && within(moved, type) && form_add(form, &constant, 1, out))
            return;
    }
    *out = unknown_in(r, SLOT_TYPED + slot, type, bits > 16, form);
    if (!reach_open(r, form) && out->count) {
        struct symbol *s = &r->affine.symbols[r->affine.monos[out->terms[0].mono].symbols[0]];
        s->why = "a number that may wrap round";
    }
}

/* ---- operands -------------------------------------------------------------------------------- */

static const char *why_unknown(const struct graph *graph, const struct graph_value *value)
{
    if (value->kind != VALUE_WRITE)
        return value->kind == VALUE_PHI ? "a variable that is not affine"
                                        : "a register without a value";
    const struct ptx_instr *instr = &graph->func->instrs[value->instr];
    uint32_t effects = instr->opaque ? PTX_WORST : ptx_ops[instr->form->op].effects;
    if (effects & (PTX_READS | PTX_WRITES))
        return "comes from memory";
    if (effects & PTX_WARP)
        return "comes from other threads";
    if (effects & PTX_CALLS)
        return "comes from a function";
    if (instr->form->type_count &&
        ptx_types[instr->form->types[instr->form->type_count - 1]].class == PTX_FLOAT)
        return "comes from floating point";
    return "arithmetic that is not followed";
}

/* The symbol of a value of which nothing is known but its register's type. */
struct form reach_anything(struct reaching *r, uint32_t number)
{
    const struct graph_value *value = &r->graph->values[number];
    uint8_t type = value->reg < r->func->reg_count ? r->func->regs[value->reg].type : PTX_TYPE_b64;
    unsigned bits = ptx_types[type].bits;
    bits = bits < 1 || bits > 64 ? 64 : bits;
    uint32_t block = r->block, instr = r->instr;
    r->block = value->block;
    if (value->instr != GRAPH_NONE)
        r->instr = value->instr;
    struct form out = reach_unknown(r, value, 0, reach_type_range(bits, bits > 16), bits > 16,
                                    why_unknown(r->graph, value));
    r->block = block;
    r->instr = instr;
    return out;
}

void reach_operand(struct reaching *r, const struct ptx_operand *operand, uint32_t slot,
                   struct form *out)
{
    const struct ptx_instr *instr = &r->func->instrs[r->instr];
    if (operand->kind == PTX_INT) {
        *out = form_of((int64_t)operand->bits);
        return;
    }
    if (operand->kind == PTX_REG && !operand->component && !operand->negated) {
        uint32_t value = graph_operand(r->graph, r->instr, operand);
        if (value != GRAPH_UNKNOWN && r->values[value].form) {
            form_scale(r->values[value].form, 1, out);
            return;
        }
        if (value != GRAPH_UNKNOWN) {
            *out = reach_anything(r, value);
            return;
        }
    }
    if (operand->kind == PTX_SPECIAL && reach_special(r, operand, out))
        return;
    if (operand->kind == PTX_SYMBOL && operand->var) {
        uint32_t id = reach_symbol(r, operand->var, 0, SYMBOL_VARIABLE);
        if (id != NO_SYMBOL) {
            struct symbol *symbol = &r->affine.symbols[id];
            symbol->range = (struct range){
                0, (wide_int)1 << (operand->var->space == PTX_SPACE_global ? 62 : 24)};
            symbol->open = true;
            symbol->block = 0;
            symbol->var = operand->var;
            symbol->why = "an address";
        }
        struct form offset = form_of(operand->offset);
        *out = form_symbol(&r->affine, id);
        if (form_add(out, &offset, 1, out))
            return;
    }
    *out = reach_unknown(r, instr, slot, reach_type_range(64, true), true,
                         "an operand that is not followed");
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* out = the form, if its integer can be reckoned with modulo 2^bits; else an unknown. */
static bool made(struct reaching *r, bool ok, unsigned bits, struct form *out)
{
    if (ok)
        form_reduce(out, bits);
    return ok && !r->affine.failed;
}

static struct range product(struct range a, struct range b)
{
    wide_int all[4] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
    struct range out = {all[0], all[0]};
    for (unsigned i = 1; i < 4; i++) {
        out.low = all[i] < out.low ? all[i] : out.low;
        out.high = all[i] > out.high ? all[i] : out.high;
    }
    return out;
}

/* The product of two integers, exact; where it is no form, an unknown in its range. */
static bool times(struct reaching *r, const struct form *a, const struct form *b,
                  struct range *range_out, struct form *out)
{
    struct range x = bound(r, a), y = bound(r, b), limit = reach_type_range(64, true);
    if (!within(x, limit) || !within(y, limit))
        return false;
    *range_out = product(x, y);
    if (form_multiply(&r->affine, a, b, out))
        return true;
    *out = unknown_in(r, SLOT_RESULT + 1, *range_out,
                      !strictly_bounded(r, a) || !strictly_bounded(r, b), reach_open(r, a) ? a : b);
    return !r->affine.failed;
}

static bool multiply(struct reaching *r, const struct ptx_instr *instr, struct form *out)
{
    const struct ptx_form *form = instr->form;
    unsigned bits = reach_bits(form, 0);
    bool is_signed = reach_is_signed(form, 0);
    struct form a, b;
    struct range range;
    reach_operand(r, &instr->operands[1], 1, &a);
    reach_operand(r, &instr->operands[2], 2, &b);
    bool narrow = form->op == PTX_OP_mul24 || form->op == PTX_OP_mad24;
    if (narrow || ptx_has(form, PTX_MOD_wide)) {
        unsigned taken = narrow ? 24 : bits;
        reach_typed(r, &a, taken, is_signed, 1, &a);
        reach_typed(r, &b, taken, is_signed, 2, &b);
        return !ptx_has(form, PTX_MOD_hi) && times(r, &a, &b, &range, out);
    }
    if (ptx_has(form, PTX_MOD_hi)) {
        reach_typed(r, &a, bits, is_signed, 1, &a);
        reach_typed(r, &b, bits, is_signed, 2, &b);
        if (bits > 32 || !times(r, &a, &b, &range, out))
            return false;
        *out = reach_quotient(r, out, (int64_t)1 << bits, SLOT_QUOTIENT + 1);
        return true;
    }
    /* The low half is the same whatever integers stand for the factors, as long as they are
     * multiplied as forms. */
    if (form_multiply(&r->affine, &a, &b, out))
        return true;
    reach_typed(r, &a, bits, is_signed, 1, &a);
    reach_typed(r, &b, bits, is_signed, 2, &b);
    return times(r, &a, &b, &range, out);
}

static bool sum(struct reaching *r, const struct ptx_instr *instr, int64_t sign, struct form *out)
{
    struct form a, b;
    reach_operand(r, &instr->operands[1], 1, &a);
    reach_operand(r, &instr->operands[2], 2, &b);
    return !ptx_has(instr->form, PTX_MOD_sat) && form_add(&a, &b, sign, out);
}

static bool multiply_add(struct reaching *r, const struct ptx_instr *instr, struct form *out)
{
    struct form c;
    if (ptx_has(instr->form, PTX_MOD_sat) || !multiply(r, instr, out))
        return false;
    reach_operand(r, &instr->operands[3], 3, &c);
    return form_add(out, &c, 1, out);
}

struct form reach_quotient(struct reaching *r, const struct form *a, int64_t by, uint32_t slot)
{
    struct form whole = form_of((int64_t)wide_floor(a->constant, by)), rest, part;
    rest = form_of(a->constant - whole.constant * by);
    for (uint32_t i = 0; i < a->count; i++) {
        struct form *to = a->terms[i].coef % by ? &rest : &whole;
        to->terms[to->count] = a->terms[i];
        if (to == &whole)
            to->terms[to->count].coef /= by;
        to->count++;
    }
    struct range range = bound(r, &rest);
    bool finite = bounded(range);
    if (finite)
        range = (struct range){wide_floor(range.low, by), wide_floor(range.high, by)};
    if (finite && range.low == range.high) {
        part = form_of((int64_t)range.low);
        return form_add(&whole, &part, 1, &part) ? part : whole;
    }
    unsigned ring = sizeof r->quotients / sizeof *r->quotients;
    for (uint32_t i = 0; i < ring && i < r->quotient_count; i++) {
        uint32_t id = r->quotients[(r->quotient_count - 1 - i) % ring];
        const struct symbol *old = &r->affine.symbols[id];
        if (old->by == by && old->pass == r->pass && form_equal(old->of, &rest) &&
            graph_dominates(r->graph, old->block, r->block)) {
            part = form_symbol(&r->affine, id);
            if (form_add(&whole, &part, 1, &whole))
                return whole;
        }
    }
    bool open = !strictly_bounded(r, &rest);
    const struct symbol *from = reach_open(r, &rest);
    uint32_t id = reach_symbol(r, &r->func->instrs[r->instr], slot, SYMBOL_QUOTIENT);
    const struct form *kept = form_keep(&r->affine, &rest);
    part = form_symbol(&r->affine, id);
    if (id == NO_SYMBOL || !kept)
        return part;
    struct symbol *symbol = &r->affine.symbols[id];
    symbol->range = range;
    symbol->open = open;
    symbol->why = from ? from->why : "a quotient without bounds";
    symbol->line = from ? from->line : r->func->instrs[r->instr].place.line;
    symbol->of = kept;
    symbol->by = by;
    struct form low, high, most = form_of(by - 1);
    if (form_scale(&part, by, &low) && form_add(&low, &rest, -1, &low)) {
        own_fact(r, &part, &low);
        if (form_scale(&low, -1, &high) && form_add(&high, &most, -1, &high))
            own_fact(r, &part, &high);
    }
    r->quotients[r->quotient_count++ % ring] = id;
    return form_add(&whole, &part, 1, &whole) ? whole : part;
}

/* a modulo by, as a - by * floor(a / by): two's complement or not, for powers of two. */
static bool modulo(struct reaching *r, const struct form *a, int64_t by, uint32_t slot,
                   struct form *out)
{
    struct form quotient = reach_quotient(r, a, by, slot);
    return form_add(a, &quotient, -by, out);
}

static bool constant_of(const struct form *form, int64_t *out)
{
    *out = form->constant;
    return !form->count;
}

static bool divide(struct reaching *r, const struct ptx_instr *instr, struct form *out)
{
    bool is_signed = reach_is_signed(instr->form, 0), rest = instr->form->op == PTX_OP_rem;
    unsigned bits = reach_bits(instr->form, 0);
    struct form a, b;
    int64_t by;
    reach_operand(r, &instr->operands[1], 1, &a);
    reach_operand(r, &instr->operands[2], 2, &b);
    reach_typed(r, &a, bits, is_signed, 1, &a);
    reach_typed(r, &b, bits, is_signed, 2, &b);
    struct range x = bound(r, &a), y = bound(r, &b);
    if (constant_of(&b, &by) && by > 0 && (x.low >= 0 || r->symbolic)) {
        if (rest)
            return modulo(r, &a, by, SLOT_QUOTIENT, out);
        *out = reach_quotient(r, &a, by, SLOT_QUOTIENT);
        return true;
    }
    bool open_a = !strictly_bounded(r, &a), open_b = !strictly_bounded(r, &b);
    if (y.low < 1 || !bounded(x) || !bounded(y))
        return false;
    struct range range = {x.low < 0 ? x.low / y.low : x.low / y.high,
                          x.high < 0 ? x.high / y.high : x.high / y.low};
    if (rest) {
        wide_int most = y.high - 1;
        range.low = x.low < 0 ? (x.low > -most ? x.low : -most) : 0;
        range.high = x.high < 0 ? 0 : x.high < most ? x.high : most;
        *out = unknown_in(r, SLOT_RESULT, range, open_a && open_b, &b);
        struct form fact = form_of(1); /* out - b + 1 <= 0 */
        if (form_add(&fact, out, 1, &fact) && form_add(&fact, &b, -1, &fact))
            own_fact(r, out, &fact);
        return true;
    }
    *out = unknown_in(r, SLOT_RESULT, range, open_a, &a);
    return true;
}

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
        if (at + count < bits && !modulo(r, out, (int64_t)1 << (at + count), SLOT_QUOTIENT, out))
            return false;
        return !at || (modulo(r, out, (int64_t)1 << at, SLOT_QUOTIENT + 1, &low) &&
                       form_add(out, &low, -1, out));
    }
    struct form x, y;
    reach_typed(r, a, bits, false, 1, &x);
    reach_typed(r, b, bits, false, 2, &y);
    struct range p = bound(r, &x), q = bound(r, &y);
    bool open = !strictly_bounded(r, &x) && !strictly_bounded(r, &y);
    *out =
        unknown_in(r, SLOT_RESULT, (struct range){0, p.high < q.high ? p.high : q.high}, open, &x);
    return true;
}

/* Numbers none of whose bits meet are added: a multiple of 2^n, and what is below 2^n. */
static bool disjoint(struct reaching *r, const struct form *high, const struct form *low)
{
    struct range range = bound(r, low);
    uint64_t gcd = form_gcd(high);
    if (!bounded(range) || range.low < 0 || range.high > INT32_MAX)
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
    struct range p = bound(r, &x), q = bound(r, &y);
    wide_int most = ones(p.high > q.high ? p.high : q.high);
    wide_int least = exclusive ? 0 : p.low > q.low ? p.low : q.low;
    bool open = !strictly_bounded(r, &x) || !strictly_bounded(r, &y);
    *out =
        unknown_in(r, SLOT_RESULT, (struct range){least, most}, open, reach_open(r, &x) ? &x : &y);
    return true;
}

static bool logic(struct reaching *r, const struct ptx_instr *instr, struct form *out)
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

static bool shift(struct reaching *r, const struct ptx_instr *instr, struct form *out)
{
    unsigned bits = reach_bits(instr->form, 0);
    bool left = instr->form->op == PTX_OP_shl, is_signed = reach_is_signed(instr->form, 0);
    struct form a, amount;
    int64_t by;
    reach_operand(r, &instr->operands[1], 1, &a);
    reach_operand(r, &instr->operands[2], 2, &amount);
    if (constant_of(&amount, &by)) {
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
    struct range x = bound(r, &a), n = bound(r, &amount);
    bool open = !strictly_bounded(r, &a) || (left && !strictly_bounded(r, &amount));
    if (x.low < 0 || !bounded(x) || n.low < 0 || (left && n.high > 31))
        return false;
    wide_int low = n.low > 100 ? 100 : n.low, high = n.high > 100 ? 100 : n.high;
    struct range range = left ? (struct range){x.low << low, x.high << high}
                              : (struct range){x.low >> high, x.high >> low};
    *out = unknown_in(r, SLOT_RESULT, range, open, &a);
    return true;
}

/* ---- choices --------------------------------------------------------------------------------- */

static bool extreme(struct reaching *r, const struct ptx_instr *instr, struct form *out)
{
    bool least = instr->form->op == PTX_OP_min, is_signed = reach_is_signed(instr->form, 0);
    unsigned bits = reach_bits(instr->form, 0);
    struct form a, b, less;
    reach_operand(r, &instr->operands[1], 1, &a);
    reach_operand(r, &instr->operands[2], 2, &b);
    reach_typed(r, &a, bits, is_signed, 1, &a);
    reach_typed(r, &b, bits, is_signed, 2, &b);
    if (form_add(&a, &b, -1, &less)) {
        struct range d = bound(r, &less);
        if (d.high <= 0 || d.low >= 0) {
            *out = (d.high <= 0) == least ? a : b;
            return true;
        }
    }
    struct range x = bound(r, &a), y = bound(r, &b);
    struct range p = form_bound(&r->affine, &a, r->now, true, EFFORT_FIT);
    struct range q = form_bound(&r->affine, &b, r->now, true, EFFORT_FIT);
    struct range range = {x.low < y.low ? x.low : y.low, x.high < y.high ? x.high : y.high};
    if (!least)
        range = (struct range){x.low > y.low ? x.low : y.low, x.high > y.high ? x.high : y.high};
    bool low = least ? p.low > -WIDE_INFINITE && q.low > -WIDE_INFINITE
                     : p.low > -WIDE_INFINITE || q.low > -WIDE_INFINITE;
    bool high = least ? p.high < WIDE_INFINITE || q.high < WIDE_INFINITE
                      : p.high < WIDE_INFINITE && q.high < WIDE_INFINITE;
    if (!bounded(range))
        return false;
    *out = unknown_in(r, SLOT_RESULT, range, !low || !high, reach_open(r, &a) ? &a : &b);
    const struct form *both[] = {&a, &b};
    for (unsigned i = 0; i < 2; i++) /* min: out - a <= 0; max: a - out <= 0 */
        if (form_add(out, both[i], -1, &less) && (least || form_scale(&less, -1, &less)))
            own_fact(r, out, &less);
    return true;
}

/* The form without what is not the same in both; only symbols that are defined at `block`. */
static void common(struct reaching *r, struct form *a, const struct form *b, uint32_t block)
{
    uint32_t count = 0;
    for (uint32_t i = 0, j = 0; i < a->count; i++) {
        while (j < b->count && b->terms[j].mono < a->terms[i].mono)
            j++;
        bool same = j < b->count && b->terms[j].mono == a->terms[i].mono &&
                    b->terms[j].coef == a->terms[i].coef;
        const struct monomial *mono = &r->affine.monos[a->terms[i].mono];
        for (uint32_t s = 0; same && s < mono->count; s++)
            same = graph_dominates(r->graph, r->affine.symbols[mono->symbols[s]].block, block);
        if (same)
            a->terms[count++] = a->terms[i];
    }
    a->count = count;
    a->constant = 0;
}

static uint32_t stranger(struct reaching *r, const struct form *form, uint32_t block)
{
    for (uint32_t i = 0; i < form->count; i++) {
        const struct monomial *mono = &r->affine.monos[form->terms[i].mono];
        for (uint32_t s = 0; s < mono->count; s++)
            if (!graph_dominates(r->graph, r->affine.symbols[mono->symbols[s]].block, block))
                return mono->symbols[s];
    }
    return NO_SYMBOL;
}

/* Writes the form without symbols that mean nothing at `block`, by equations in force. */
static bool native(struct reaching *r, const struct fact *facts, uint32_t block, struct form *form)
{
    for (unsigned turn = 0; turn < 4; turn++) {
        uint32_t symbol = stranger(r, form, block);
        if (symbol == NO_SYMBOL)
            return true;
        unsigned seen = 0;
        bool done = false;
        for (const struct fact *fact = facts; fact && !done && seen < 64;
             fact = fact->next, seen++) {
            int64_t coef = fact->equal ? form_coef(&r->affine, fact->form, symbol) : 0;
            struct form one = form_symbol(&r->affine, symbol), value;
            if (coef != 1 && coef != -1)
                continue;
            /* coef * s + rest == 0: s = s - coef * fact */
            done = form_add(&one, fact->form, -coef, &value) &&
                   !form_has(&r->affine, &value, symbol) &&
                   form_replace(&r->affine, form, symbol, &value, form);
        }
        if (!done)
            return false;
    }
    return false;
}

static bool equals(struct reaching *r, const struct form *a, const struct form *b,
                   const struct fact *facts)
{
    struct form d;
    if (!form_add(a, b, -1, &d))
        return false;
    if (!form_proven(&r->affine, &d, facts, EFFORT_FIT))
        return false;
    return form_scale(&d, -1, &d) && form_proven(&r->affine, &d, facts, EFFORT_FIT);
}

struct form reach_join(struct reaching *r, const void *thing, uint32_t block, uint32_t count,
                       const struct form *forms, const struct fact *const *facts)
{
    for (uint32_t i = 0; i < count && count <= 8; i++) {
        struct form one = forms[i];
        bool all = native(r, facts[i], block, &one);
        for (uint32_t j = 0; all && j < count; j++)
            all = j == i || equals(r, &one, &forms[j], facts[j]);
        if (all)
            return one;
    }
    struct form same = forms[0], rest;
    struct range soft = {WIDE_INFINITE, -WIDE_INFINITE}, strict = soft;
    const struct symbol *open = NULL;
    for (uint32_t i = 0; i < count; i++)
        common(r, &same, &forms[i], block);
    for (uint32_t i = 0; i < count; i++) {
        struct range a = {-WIDE_INFINITE, WIDE_INFINITE}, b = a;
        if (form_add(&forms[i], &same, -1, &rest)) {
            a = form_bound(&r->affine, &rest, facts[i], false, EFFORT_FIT);
            b = form_bound(&r->affine, &rest, facts[i], true, EFFORT_FIT);
            open = open ? open : reach_open(r, &rest);
        }
        soft.low = a.low < soft.low ? a.low : soft.low;
        soft.high = a.high > soft.high ? a.high : soft.high;
        strict.low = b.low < strict.low ? b.low : strict.low;
        strict.high = b.high > strict.high ? b.high : strict.high;
    }
    uint32_t before = r->block;
    r->block = block;
    rest = reach_unknown(r, thing, SLOT_JOIN, soft, !bounded(strict),
                         open ? open->why : "a variable that is not affine");
    r->block = before;
    return form_add(&rest, &same, 1, &same) ? same : rest;
}

static bool choose(struct reaching *r, const struct ptx_instr *instr, struct form *out)
{
    const struct ptx_operand *p = &instr->operands[3];
    struct form forms[2];
    reach_operand(r, &instr->operands[1], 1, &forms[0]);
    reach_operand(r, &instr->operands[2], 2, &forms[1]);
    if (p->kind != PTX_REG || p->reg == PTX_NO_REG)
        return false;
    const struct cond *cond = reach_predicate(r, r->instr, p->reg);
    const struct fact *facts[2] = {reach_assume(r, cond, !p->negated, r->now),
                                   reach_assume(r, cond, p->negated, r->now)};
    *out = reach_join(r, instr, r->block, 2, forms, facts);
    return true;
}

/* ---- conversions ----------------------------------------------------------------------------- */

static bool convert(struct reaching *r, const struct ptx_instr *instr, struct form *out)
{
    const struct ptx_form *form = instr->form;
    struct form a;
    reach_operand(r, &instr->operands[1], 1, &a);
    if (form->type_count != 2 || !is_integer(form, 0) || !is_integer(form, 1))
        return false;
    unsigned to = reach_bits(form, 0), from = reach_bits(form, 1);
    if (to > from || ptx_has(form, PTX_MOD_sat))
        reach_typed(r, &a, from, reach_is_signed(form, 1), 1, &a);
    if (ptx_has(form, PTX_MOD_sat)) {
        struct range type = reach_type_range(to, reach_is_signed(form, 0)), range = bound(r, &a);
        *out = a;
        return within(range, type);
    }
    if (to < 32 && to <= from)
        reach_typed(r, &a, to, reach_is_signed(form, 0), 2, &a);
    *out = a;
    return true;
}

/* bfe: the field, for constant place and length. */
static bool extract(struct reaching *r, const struct ptx_instr *instr, struct form *out)
{
    struct form a, place, length;
    int64_t at, count;
    unsigned bits = reach_bits(instr->form, 0);
    reach_operand(r, &instr->operands[1], 1, &a);
    reach_operand(r, &instr->operands[2], 2, &place);
    reach_operand(r, &instr->operands[3], 3, &length);
    if (reach_is_signed(instr->form, 0) || !constant_of(&place, &at) ||
        !constant_of(&length, &count) || at < 0 || count < 1 || at + count > bits || count > 40)
        return false;
    reach_typed(r, &a, bits, false, 1, &a);
    *out = reach_quotient(r, &a, (int64_t)1 << at, SLOT_QUOTIENT);
    return at + count == bits || modulo(r, out, (int64_t)1 << count, SLOT_QUOTIENT + 1, out);
}

static bool absolute(struct reaching *r, const struct ptx_instr *instr, struct form *out)
{
    struct form a;
    reach_operand(r, &instr->operands[1], 1, &a);
    reach_typed(r, &a, reach_bits(instr->form, 0), true, 1, &a);
    struct range range = bound(r, &a);
    *out = a;
    if (range.low >= 0)
        return true;
    if (range.high <= 0)
        return form_scale(&a, -1, out);
    wide_int most = -range.low > range.high ? -range.low : range.high;
    *out = unknown_in(r, SLOT_RESULT, (struct range){0, most}, !strictly_bounded(r, &a), &a);
    return true;
}

static bool count_bits(struct reaching *r, const struct ptx_instr *instr, struct form *out)
{
    unsigned bits = reach_bits(instr->form, 0);
    *out = unknown_in(r, SLOT_RESULT, (struct range){0, bits}, false, NULL);
    return true;
}

static bool dispatch(struct reaching *r, const struct ptx_instr *instr, struct form *out)
{
    switch (instr->form->op) {
    case PTX_OP_mov:
    case PTX_OP_cvta:
        reach_operand(r, &instr->operands[1], 1, out);
        return true;
    case PTX_OP_add:
        return sum(r, instr, 1, out);
    case PTX_OP_sub:
        return sum(r, instr, -1, out);
    case PTX_OP_neg:
        reach_operand(r, &instr->operands[1], 1, out);
        return form_scale(out, -1, out);
    case PTX_OP_mul:
    case PTX_OP_mul24:
        return multiply(r, instr, out);
    case PTX_OP_mad:
    case PTX_OP_mad24:
        return multiply_add(r, instr, out);
    case PTX_OP_div:
    case PTX_OP_rem:
        return divide(r, instr, out);
    case PTX_OP_and:
    case PTX_OP_or:
    case PTX_OP_xor:
    case PTX_OP_not:
        return logic(r, instr, out);
    case PTX_OP_shl:
    case PTX_OP_shr:
        return shift(r, instr, out);
    case PTX_OP_min:
    case PTX_OP_max:
        return extreme(r, instr, out);
    case PTX_OP_selp:
        return choose(r, instr, out);
    case PTX_OP_cvt:
        return convert(r, instr, out);
    case PTX_OP_bfe:
        return extract(r, instr, out);
    case PTX_OP_abs:
        return absolute(r, instr, out);
    case PTX_OP_popc:
    case PTX_OP_clz:
        return count_bits(r, instr, out);
    default:
        return false;
    }
}

/* Operands that each operation here reads, the destination included. */
static unsigned operands_of(enum ptx_op op)
{
    switch (op) {
    case PTX_OP_mov:
    case PTX_OP_cvta:
    case PTX_OP_neg:
    case PTX_OP_not:
    case PTX_OP_cvt:
    case PTX_OP_abs:
    case PTX_OP_popc:
    case PTX_OP_clz:
        return 2;
    case PTX_OP_mad:
    case PTX_OP_mad24:
    case PTX_OP_selp:
    case PTX_OP_bfe:
        return 4;
    default:
        return 3;
    }
}

bool reach_value(struct reaching *r, const struct ptx_instr *instr, struct form *out)
{
    const struct ptx_form *form = instr->form;
    bool sized = form->op == PTX_OP_mov || form->op == PTX_OP_cvta || is_integer(form, 0);
    if (instr->opaque || instr->operand_count < operands_of(form->op) || !sized ||
        form->vector > 1 || instr->operands[0].kind != PTX_REG || ptx_has(form, PTX_MOD_cc))
        return false;
    for (unsigned i = 1; i < instr->operand_count; i++)
        if (instr->operands[i].kind == PTX_VECTOR)
            return false;
    uint8_t type = r->func->regs[instr->operands[0].reg].type;
    uint8_t class = ptx_types[type].class;
    if (class == PTX_FLOAT || class == PTX_PRED || class == PTX_OPAQUE)
        return false;
    return made(r, dispatch(r, instr, out), ptx_types[type].bits, out);
}
