/* Values that are one of several: minimum and maximum, selections, what ways through the code bring
 * together. One affine form where it can be shown to be the same on all ways, by equations that
 * hold there; else what is common, and an unknown in a range. */
#include "reach_parts.h"

/* ---- choices --------------------------------------------------------------------------------- */

bool reach_extreme(struct reaching *r, const struct ptx_instr *instr, struct form *out)
{
    bool least = instr->form->op == PTX_OP_min, is_signed = reach_is_signed(instr->form, 0);
    unsigned bits = reach_bits(instr->form, 0);
    struct form a, b, less;
    reach_operand(r, &instr->operands[1], 1, &a);
    reach_operand(r, &instr->operands[2], 2, &b);
    reach_typed(r, &a, bits, is_signed, 1, &a);
    reach_typed(r, &b, bits, is_signed, 2, &b);
    if (form_add(&a, &b, -1, &less)) {
        struct range d = reach_bound(r, &less);
        if (d.high <= 0 || d.low >= 0) {
            *out = (d.high <= 0) == least ? a : b;
            return true;
        }
    }
    struct range x = reach_bound(r, &a), y = reach_bound(r, &b);
    struct range p = form_bound(&r->affine, &a, r->now, true, EFFORT_FIT);
    struct range q = form_bound(&r->affine, &b, r->now, true, EFFORT_FIT);
    struct range range = {x.low < y.low ? x.low : y.low, x.high < y.high ? x.high : y.high};
    if (!least)
        range = (struct range){x.low > y.low ? x.low : y.low, x.high > y.high ? x.high : y.high};
    bool low = least ? p.low > -WIDE_INFINITE && q.low > -WIDE_INFINITE
                     : p.low > -WIDE_INFINITE || q.low > -WIDE_INFINITE;
    bool high = least ? p.high < WIDE_INFINITE || q.high < WIDE_INFINITE
                      : p.high < WIDE_INFINITE && q.high < WIDE_INFINITE;
    if (!range_bounded(range))
        return false;
    *out = reach_in(r, SLOT_RESULT, range, !low || !high, reach_open(r, &a) ? &a : &b);
    const struct form *both[] = {&a, &b};
    for (unsigned i = 0; i < 2; i++) /* min: out - a <= 0; max: a - out <= 0 */
        if (form_add(out, both[i], -1, &less) && (least || form_scale(&less, -1, &less)))
            reach_own_fact(r, out, &less);
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

/* A symbol of the form that is not settled where `block` runs; NO_SYMBOL. */
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

static bool has_base(const struct reaching *r, const struct form *form)
{
    for (uint32_t i = 0; i < form->count; i++) {
        const struct monomial *mono = &r->affine.monos[form->terms[i].mono];
        uint8_t kind = r->affine.symbols[mono->symbols[0]].kind;
        if (mono->count == 1 &&
            (kind == SYMBOL_POINTER || kind == SYMBOL_VARIABLE || kind == SYMBOL_CHOICE))
            return true;
    }
    return false;
}

/* One address of several, into different objects: a symbol that lists them. */
static bool choose_address(struct reaching *r, const void *thing, uint32_t block, uint32_t count,
                           const struct form *forms, const struct form *same, struct form *out)
{
    const struct form *kept[SYMBOL_FACTS];
    uint32_t kinds = 0, before = r->block;
    struct range all = {WIDE_INFINITE, -WIDE_INFINITE};
    for (uint32_t i = 0; i < count; i++) {
        struct form rest;
        bool known = false;
        if (!form_add(&forms[i], same, -1, &rest) || !has_base(r, &rest) ||
            stranger(r, &rest, block) != NO_SYMBOL)
            return false;
        for (uint32_t k = 0; k < kinds && !known; k++)
            known = form_equal(kept[k], &rest);
        if (known)
            continue;
        if (kinds == SYMBOL_FACTS || !(kept[kinds++] = form_keep(&r->affine, &rest)))
            return false;
        struct range range = form_range(&r->affine, &rest, false);
        all.low = range.low < all.low ? range.low : all.low;
        all.high = range.high > all.high ? range.high : all.high;
    }
    r->block = block;
    uint32_t id = reach_symbol(r, thing, SLOT_JOIN + 1, SYMBOL_CHOICE);
    r->block = before;
    if (id == NO_SYMBOL)
        return false;
    struct symbol *symbol = &r->affine.symbols[id];
    memcpy(symbol->facts, kept, kinds * sizeof *kept);
    symbol->fact_count = (uint8_t)kinds;
    symbol->range = all;
    symbol->open = true;
    symbol->why = "one of several addresses";
    *out = form_symbol(&r->affine, id);
    return form_add(out, same, 1, out);
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
    if (count == 1) /* nobody comes from elsewhere: what is known there is known here */
        return forms[0];
    struct form same = forms[0], rest;
    struct range soft = {WIDE_INFINITE, -WIDE_INFINITE}, strict = soft;
    const struct symbol *open = NULL;
    for (uint32_t i = 0; i < count; i++)
        common(r, &same, &forms[i], block);
    if (has_base(r, &forms[0]) && !has_base(r, &same) &&
        choose_address(r, thing, block, count, forms, &same, &rest))
        return rest;
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
    rest = reach_unknown(r, thing, SLOT_JOIN, soft, !range_bounded(strict),
                         open ? open->why : "a variable that is not affine");
    r->block = before;
    return form_add(&rest, &same, 1, &same) ? same : rest;
}

bool reach_choose(struct reaching *r, const struct ptx_instr *instr, struct form *out)
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
