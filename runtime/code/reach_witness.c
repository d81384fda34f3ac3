/* Which thread of a launch makes a form greatest: a greedy search over the symbols of the form and
 * of the facts in force, the heaviest first. It may be wrong: whoever asks lets the thread walk. */
#include "reach_parts.h"

enum { CHOSEN_MAX = 16, FACTS_MAX = 48 };

struct choice {
    uint32_t symbols[CHOSEN_MAX];
    unsigned count;
    const struct form *facts[FACTS_MAX];
    unsigned fact_count;
};

static void choose_symbols(struct reaching *r, const struct form *form, struct choice *choice)
{
    for (uint32_t i = 0; i < form->count; i++) {
        const struct monomial *mono = &r->affine.monos[form->terms[i].mono];
        for (uint32_t s = 0; s < mono->count; s++) {
            bool have = r->affine.symbols[mono->symbols[s]].kind == SYMBOL_POINTER;
            for (unsigned c = 0; c < choice->count; c++)
                have |= choice->symbols[c] == mono->symbols[s];
            if (!have && choice->count < CHOSEN_MAX)
                choice->symbols[choice->count++] = mono->symbols[s];
        }
    }
}

static void choose_facts(struct reaching *r, const struct fact *facts, struct choice *choice)
{
    for (; facts && choice->fact_count < FACTS_MAX; facts = facts->next)
        if (facts->trip == GRAPH_NONE)
            choice->facts[choice->fact_count++] = facts->form;
    for (unsigned i = 0; i < choice->fact_count; i++)
        choose_symbols(r, choice->facts[i], choice);
    for (unsigned c = 0; c < choice->count; c++) {
        const struct symbol *symbol = &r->affine.symbols[choice->symbols[c]];
        unsigned count = symbol->kind == SYMBOL_CHOICE ? 0 : symbol->fact_count;
        for (unsigned f = 0; f < count && choice->fact_count < FACTS_MAX; f++) {
            choice->facts[choice->fact_count++] = symbol->facts[f];
            choose_symbols(r, symbol->facts[f], choice);
        }
    }
}

/* The values of the symbol that no single fact forbids, others being as they may. */
static struct range allowed(struct reaching *r, const struct choice *choice, uint32_t id)
{
    struct range out = r->affine.symbols[id].range;
    struct form symbol = form_symbol(&r->affine, id), rest;
    for (unsigned f = 0; f < choice->fact_count; f++) {
        int64_t coef = form_coef(&r->affine, choice->facts[f], id);
        if (!coef || coef == INT64_MIN || !form_add(choice->facts[f], &symbol, -coef, &rest))
            continue;
        wide_int least = form_range(&r->affine, &rest, false).low;
        if (least <= -WIDE_INFINITE)
            continue;
        wide_int limit = wide_floor(-least, coef < 0 ? -(wide_int)coef : coef);
        if (coef > 0 && limit < out.high)
            out.high = limit;
        if (coef < 0 && -limit > out.low)
            out.low = -limit;
    }
    return out;
}

/* The symbol, not yet chosen, that can change the form most. */
static unsigned heaviest(struct reaching *r, const struct form *form, const struct choice *choice,
                         uint32_t done)
{
    unsigned best = choice->count;
    wide_int most = -1;
    for (unsigned c = 0; c < choice->count; c++) {
        if (done >> c & 1)
            continue;
        struct range range = r->affine.symbols[choice->symbols[c]].range;
        wide_int coef = form_coef(&r->affine, form, choice->symbols[c]), width;
        width = range.low <= -WIDE_INFINITE || range.high >= WIDE_INFINITE ? (wide_int)1 << 36
                                                                           : range.high - range.low;
        width = width > (wide_int)1 << 36 ? (wide_int)1 << 36 : width;
        wide_int weight = (coef < 0 ? -coef : coef) * width;
        if (weight > most) {
            most = weight;
            best = c;
        }
    }
    return best;
}

bool reach_witness(struct reaching *r, const struct form *form, const struct fact *facts,
                   uint32_t tid[3], uint32_t ctaid[3])
{
    struct choice choice = {.count = 0};
    struct range saved[CHOSEN_MAX];
    uint32_t done = 0;
    choose_symbols(r, form, &choice);
    choose_facts(r, facts, &choice);
    for (unsigned c = 0; c < choice.count; c++)
        saved[c] = r->affine.symbols[choice.symbols[c]].range;
    bool good = true;
    for (unsigned turn = 0; turn < choice.count && good; turn++) {
        unsigned c = heaviest(r, form, &choice, done);
        struct symbol *symbol = &r->affine.symbols[choice.symbols[c]];
        struct range range = allowed(r, &choice, choice.symbols[c]);
        wide_int coef = form_coef(&r->affine, form, choice.symbols[c]);
        wide_int value = coef > 0 ? range.high : range.low;
        done |= 1u << c;
        good = range.low <= range.high && value > -WIDE_INFINITE && value < WIDE_INFINITE;
        if (good)
            symbol->range = (struct range){value, value};
    }
    for (unsigned i = 0; i < 3; i++) {
        tid[i] = r->tid[i] == NO_SYMBOL ? 0 : (uint32_t)r->affine.symbols[r->tid[i]].range.low;
        ctaid[i] =
            r->ctaid[i] == NO_SYMBOL ? 0 : (uint32_t)r->affine.symbols[r->ctaid[i]].range.low;
    }
    for (unsigned c = 0; c < choice.count; c++)
        r->affine.symbols[choice.symbols[c]].range = saved[c];
    return good;
}
