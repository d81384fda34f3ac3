/* Integer instructions over affine forms. What is not understood gives an unknown with the range of
 * its type; never a guess. Floating point is not followed at all. */
#include "reach_parts.h"

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
struct form reach_in(struct reaching *r, uint32_t slot, struct range range, bool open,
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

void reach_own_fact(struct reaching *r, const struct form *symbol, const struct form *fact)
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

bool reach_int_type(const struct ptx_form *form, unsigned i)
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

struct range reach_bound(struct reaching *r, const struct form *form)
{
    return form_bound(&r->affine, form, r->now, false, EFFORT_FIT);
}

bool reach_strict(struct reaching *r, const struct form *form)
{
    return range_bounded(form_bound(&r->affine, form, r->now, true, EFFORT_FIT));
}

void reach_typed(struct reaching *r, const struct form *form, unsigned bits, bool is_signed,
                 uint32_t slot, struct form *out)
{
    struct range type = reach_type_range(bits, is_signed);
    struct range range = form_range(&r->affine, form, false);
    form_scale(form, 1, out);
    if (r->symbolic || range_within(range, type))
        return;
    range = reach_bound(r, form);
    if (range_within(range, type))
        return;
    if (range_bounded(range) && bits < 64) {
        wide_int whole = (wide_int)1 << bits, turns = -wide_floor(range.low - type.low, whole);
        struct range moved = {range.low + turns * whole, range.high + turns * whole};
        struct form constant = form_of((int64_t)(turns * whole));
        if (turns > -4 && turns < 4 && range_within(moved, type) &&
            form_add(form, &constant, 1, out))
            return;
    }
    *out = reach_in(r, SLOT_TYPED + slot, type, bits > 16, form);
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
    struct range x = reach_bound(r, a), y = reach_bound(r, b), limit = reach_type_range(64, true);
    if (!range_within(x, limit) || !range_within(y, limit))
        return false;
    *range_out = product(x, y);
    if (form_multiply(&r->affine, a, b, out))
        return true;
    *out = reach_in(r, SLOT_RESULT + 1, *range_out, !reach_strict(r, a) || !reach_strict(r, b),
                    reach_open(r, a) ? a : b);
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

/* floor(a / by) with what all coefficients and by have in common divided out: the same number. */
static int64_t simplest(struct form *a, int64_t by)
{
    uint64_t gcd = form_gcd(a), rest = (uint64_t)by;
    while (rest) {
        uint64_t next = gcd % rest;
        gcd = rest;
        rest = next;
    }
    if (gcd <= 1 || !a->count)
        return by;
    for (uint32_t i = 0; i < a->count; i++)
        a->terms[i].coef /= (int64_t)gcd;
    a->constant = (int64_t)wide_floor(a->constant, (wide_int)gcd);
    return by / (int64_t)gcd;
}

struct form reach_quotient(struct reaching *r, const struct form *given, int64_t by, uint32_t slot)
{
    struct form reduced, *a = &reduced;
    form_scale(given, 1, a);
    by = simplest(a, by);
    if (by == 1)
        return *a;
    struct form whole = form_of((int64_t)wide_floor(a->constant, by)), rest, part;
    rest = form_of(a->constant - whole.constant * by);
    for (uint32_t i = 0; i < a->count; i++) {
        struct form *to = a->terms[i].coef % by ? &rest : &whole;
        to->terms[to->count] = a->terms[i];
        if (to == &whole)
            to->terms[to->count].coef /= by;
        to->count++;
    }
    struct range range = reach_bound(r, &rest);
    bool finite = range_bounded(range);
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
    bool open = !reach_strict(r, &rest);
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
        reach_own_fact(r, &part, &low);
        if (form_scale(&low, -1, &high) && form_add(&high, &most, -1, &high))
            reach_own_fact(r, &part, &high);
    }
    r->quotients[r->quotient_count++ % ring] = id;
    return form_add(&whole, &part, 1, &whole) ? whole : part;
}

/* a modulo by, as a - by * floor(a / by): two's complement or not, for powers of two. */
bool reach_modulo(struct reaching *r, const struct form *a, int64_t by, uint32_t slot,
                  struct form *out)
{
    struct form quotient = reach_quotient(r, a, by, slot);
    return form_add(a, &quotient, -by, out);
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
    struct range x = reach_bound(r, &a), y = reach_bound(r, &b);
    if (form_constant(&b, &by) && by > 0 && (x.low >= 0 || r->symbolic)) {
        if (rest)
            return reach_modulo(r, &a, by, SLOT_QUOTIENT, out);
        *out = reach_quotient(r, &a, by, SLOT_QUOTIENT);
        return true;
    }
    bool open_a = !reach_strict(r, &a), open_b = !reach_strict(r, &b);
    if (y.low < 1 || !range_bounded(x) || !range_bounded(y))
        return false;
    struct range range = {x.low < 0 ? x.low / y.low : x.low / y.high,
                          x.high < 0 ? x.high / y.high : x.high / y.low};
    if (rest) {
        wide_int most = y.high - 1;
        range.low = x.low < 0 ? (x.low > -most ? x.low : -most) : 0;
        range.high = x.high < 0 ? 0 : x.high < most ? x.high : most;
        *out = reach_in(r, SLOT_RESULT, range, open_a && open_b, &b);
        struct form fact = form_of(1); /* out - b + 1 <= 0 */
        if (form_add(&fact, out, 1, &fact) && form_add(&fact, &b, -1, &fact))
            reach_own_fact(r, out, &fact);
        return true;
    }
    *out = reach_in(r, SLOT_RESULT, range, open_a, &a);
    return true;
}

/* ---- all of them ------------------------------------------------------------------------------
 */

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
        return reach_logic(r, instr, out);
    case PTX_OP_shl:
    case PTX_OP_shr:
        return reach_shift(r, instr, out);
    case PTX_OP_min:
    case PTX_OP_max:
        return reach_extreme(r, instr, out);
    case PTX_OP_selp:
        return reach_choose(r, instr, out);
    case PTX_OP_cvt:
        return reach_convert(r, instr, out);
    case PTX_OP_bfe:
        return reach_extract(r, instr, out);
    case PTX_OP_abs:
        return reach_absolute(r, instr, out);
    case PTX_OP_popc:
    case PTX_OP_clz:
        return reach_count_bits(r, instr, out);
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
    bool sized = form->op == PTX_OP_mov || form->op == PTX_OP_cvta || reach_int_type(form, 0);
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
