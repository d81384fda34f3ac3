/* Bounds of forms under facts: the maximum of a linear form over the integer points of a
 * polyhedron, from above. Each fact g <= 0 may be subtracted any positive number of times from a
 * form without lowering its maximum below the truth: a <= a - q * g. So a bounded search over which
 * facts to subtract, to make terms vanish, can only give bounds that are true; and a bound of a
 * form whose terms have a common divisor falls to the next number that the form can be. */
#include "affine.h"
#include "graph.h"

enum {
    FACTS_MAX = 32, /* looked at in one search */
    MONOS_MAX = 48,
    NARROW_MAX = 4,     /* rounds of narrowing ranges */
    CHAIN_MAX = 256,    /* facts in force, walked through for those that concern the form */
    DEPTH_MAX = 6,      /* facts subtracted one after the other */
    DERIVED_MAX = 6,    /* consequences of a new fact */
    WORK_MAX = 8000000, /* search steps of one analysis */
};

struct search {
    struct affine *affine;
    const struct form *facts[FACTS_MAX];
    uint32_t monos[MONOS_MAX];
    struct range ranges[MONOS_MAX]; /* of the monomials, as the facts narrow them */
    unsigned count, mono_count, left;
    bool strict, empty; /* empty: the facts contradict each other */
    wide_int goal;      /* a bound no higher is good enough */
};

static uint64_t magnitude(int64_t value)
{
    return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

static uint64_t gcd_of(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static const struct term *term_of(const struct form *a, uint32_t mono)
{
    for (uint32_t i = 0; i < a->count; i++)
        if (a->terms[i].mono == mono)
            return &a->terms[i];
    return NULL;
}

/* out = *scale * a - t * g, without the monomial; false unless both have it with one sign. */
static bool cancel(const struct form *a, const struct form *g, uint32_t mono, int64_t *scale,
                   struct form *out)
{
    const struct term *x = term_of(a, mono), *y = term_of(g, mono);
    if (!x || !y || (x->coef < 0) != (y->coef < 0))
        return false;
    uint64_t p = magnitude(x->coef), q = magnitude(y->coef), common = gcd_of(p, q);
    if (q / common > INT32_MAX || p / common > INT64_MAX)
        return false;
    *scale = (int64_t)(q / common);
    return form_scale(a, *scale, out) && form_add(out, g, -(int64_t)(p / common), out);
}

/* ---- ranges under facts ---------------------------------------------------------------------- */

static struct range range_of(const struct search *search, uint32_t mono)
{
    for (unsigned i = 0; i < search->mono_count; i++)
        if (search->monos[i] == mono)
            return search->ranges[i];
    return mono_range(search->affine, mono, search->strict);
}

static void know(struct search *search, const struct form *a)
{
    for (uint32_t i = 0; i < a->count; i++) {
        bool have = search->mono_count == MONOS_MAX;
        for (unsigned m = 0; m < search->mono_count && !have; m++)
            have = search->monos[m] == a->terms[i].mono;
        if (have)
            continue;
        search->monos[search->mono_count] = a->terms[i].mono;
        search->ranges[search->mono_count++] =
            mono_range(search->affine, a->terms[i].mono, search->strict);
    }
}

static bool unbounded(wide_int a)
{
    return a >= WIDE_INFINITE || a <= -WIDE_INFINITE;
}

/* Least of coef * mono. */
static wide_int least(const struct search *search, const struct term *term)
{
    return range_scale(range_of(search, term->mono), term->coef).low;
}

/* What the fact leaves to each of its terms, the others being at their least. */
static bool narrow(struct search *search, const struct form *fact)
{
    wide_int sum = fact->constant, parts[FORM_TERMS];
    unsigned open = 0, which = 0;
    bool changed = false;
    for (uint32_t i = 0; i < fact->count; i++) {
        parts[i] = least(search, &fact->terms[i]);
        if (unbounded(parts[i])) {
            open++;
            which = i;
        } else {
            sum += parts[i];
        }
    }
    for (uint32_t i = 0; i < fact->count; i++) {
        if (open > 1 || (open == 1 && i != which))
            continue;
        int64_t coef = fact->terms[i].coef;
        wide_int limit = wide_floor(open ? -sum : parts[i] - sum, (wide_int)magnitude(coef));
        for (unsigned m = 0; m < search->mono_count && !unbounded(sum); m++) {
            struct range *range = &search->ranges[m];
            if (search->monos[m] != fact->terms[i].mono)
                continue;
            if (coef > 0 && limit < range->high) {
                range->high = limit;
                changed = true;
            } else if (coef < 0 && -limit > range->low) {
                range->low = -limit;
                changed = true;
            }
            search->empty |= range->low > range->high;
        }
    }
    return changed;
}

static void narrow_all(struct search *search)
{
    bool changed = true;
    for (unsigned f = 0; f < search->count; f++)
        know(search, search->facts[f]);
    for (unsigned round = 0; round < NARROW_MAX && changed && !search->empty; round++) {
        changed = false;
        search->affine->work += search->count;
        for (unsigned f = 0; f < search->count && !search->empty; f++)
            changed |= narrow(search, search->facts[f]);
    }
}

static struct range form_narrowed(const struct search *search, const struct form *a)
{
    struct range out = {a->constant, a->constant};
    for (uint32_t i = 0; i < a->count; i++) {
        struct range part = range_scale(range_of(search, a->terms[i].mono), a->terms[i].coef);
        out.low = unbounded(part.low) || unbounded(out.low) ? -WIDE_INFINITE : out.low + part.low;
        out.high =
            unbounded(part.high) || unbounded(out.high) ? WIDE_INFINITE : out.high + part.high;
    }
    return out;
}

/* ---- the search ------------------------------------------------------------------------------ */

/* Terms in the order in which they are worth getting rid of: those without bound, then those that
 * make most of the maximum. */
static void rank(const struct search *search, const struct form *a, uint32_t order[FORM_TERMS])
{
    wide_int weights[FORM_TERMS];
    for (uint32_t i = 0; i < a->count; i++) {
        struct form one = form_of(0);
        one.terms[one.count++] = a->terms[i];
        struct range range = form_narrowed(search, &one);
        wide_int weight = range.high >= WIDE_INFINITE   ? WIDE_INFINITE
                          : range.low <= -WIDE_INFINITE ? WIDE_INFINITE - 1
                                                        : range.high - range.low;
        uint32_t at = i;
        for (; at && weights[at - 1] < weight; at--) {
            weights[at] = weights[at - 1];
            order[at] = order[at - 1];
        }
        weights[at] = weight;
        order[at] = i;
    }
}

static wide_int upper(struct search *search, const struct form *a, unsigned depth)
{
    wide_int best = form_narrowed(search, a).high;
    uint32_t order[FORM_TERMS];
    if (depth && a->count)
        rank(search, a, order);
    for (uint32_t i = 0; depth && i < a->count; i++)
        for (unsigned f = 0; f < search->count && search->left; f++) {
            struct form rest;
            int64_t scale;
            search->affine->work++;
            if (!cancel(a, search->facts[f], a->terms[order[i]].mono, &scale, &rest))
                continue;
            search->left--;
            wide_int bound = upper(search, &rest, depth - 1);
            if (bound < WIDE_INFINITE && wide_floor(bound, scale) < best)
                best = wide_floor(bound, scale);
        }
    uint64_t gcd = form_gcd(a);
    if (gcd > 1 && best < WIDE_INFINITE && best > -WIDE_INFINITE)
        best = a->constant + wide_floor(best - a->constant, (wide_int)gcd) * (wide_int)gcd;
    return best;
}

/* Few facts first: most bounds need one or two, and the search grows fast with their number. */
static wide_int deepen(struct search *search, const struct form *a)
{
    unsigned effort = search->left;
    narrow_all(search);
    if (search->empty)
        return -WIDE_INFINITE; /* nobody comes here: any bound is true */
    wide_int best = form_narrowed(search, a).high;
    for (unsigned depth = 1; depth <= DEPTH_MAX && search->count && best > search->goal; depth++) {
        search->left = effort;
        wide_int bound = upper(search, a, depth);
        best = bound < best ? bound : best;
        if (!search->left)
            break;
    }
    return best;
}

/* ---- which facts concern a form -------------------------------------------------------------- */

static bool shares(const struct form *a, const struct form *b)
{
    for (uint32_t i = 0, j = 0; i < a->count && j < b->count;) {
        if (a->terms[i].mono == b->terms[j].mono)
            return true;
        if (a->terms[i].mono < b->terms[j].mono)
            i++;
        else
            j++;
    }
    return false;
}

static bool same_terms(const struct form *a, const struct form *b)
{
    bool same = a->count == b->count;
    for (uint32_t i = 0; same && i < a->count; i++)
        same = a->terms[i].mono == b->terms[i].mono && a->terms[i].coef == b->terms[i].coef;
    return same;
}

static void take(struct search *search, const struct form *fact)
{
    for (unsigned i = 0; i < search->count; i++)
        if (same_terms(search->facts[i], fact)) {
            if (search->facts[i]->constant < fact->constant)
                search->facts[i] = fact; /* the same, but stronger */
            return;
        }
    if (search->count < FACTS_MAX)
        search->facts[search->count++] = fact;
}

static void take_own(struct search *search, const struct form *a)
{
    for (uint32_t i = 0; i < a->count; i++) {
        const struct monomial *mono = &search->affine->monos[a->terms[i].mono];
        for (uint32_t s = 0; s < mono->count; s++) {
            const struct symbol *symbol = &search->affine->symbols[mono->symbols[s]];
            for (unsigned f = 0; symbol->kind != SYMBOL_CHOICE && f < symbol->fact_count; f++)
                take(search, symbol->facts[f]);
        }
    }
}

/* Facts that share a monomial with the form, or with a fact that does. A fact under a condition
 * counts only where the condition is `trip`. */
static void gather(struct search *search, const struct form *a, const struct fact *facts,
                   uint32_t trip)
{
    take_own(search, a);
    for (unsigned round = 0, done = 0; round < 3; round++) {
        unsigned seen = 0, before = search->count;
        for (const struct fact *fact = facts; fact && seen < CHAIN_MAX; fact = fact->next, seen++) {
            bool concerns = (fact->trip == GRAPH_NONE || fact->trip == trip) &&
                            (round || shares(a, fact->form));
            for (unsigned i = 0; round && concerns && i <= search->count; i++) {
                concerns = i < search->count;
                if (concerns && shares(search->facts[i], fact->form))
                    break;
            }
            if (concerns)
                take(search, fact->form);
        }
        search->affine->work += seen;
        for (; done < before; done++)
            take_own(search, search->facts[done]);
        if (search->count == before && round)
            break;
    }
}

static wide_int upper_under(struct affine *affine, const struct form *a, const struct fact *facts,
                            uint32_t trip, const struct form *more, bool strict, unsigned effort,
                            wide_int goal)
{
    struct search search = {.affine = affine, .strict = strict, .left = effort, .goal = goal};
    if (more)
        take(&search, more);
    gather(&search, a, facts, trip);
    return deepen(&search, a);
}

/* A trip symbol that facts in force are conditional on, and that concerns the form. */
static uint32_t condition_of(struct affine *affine, const struct form *a, const struct fact *facts)
{
    unsigned seen = 0;
    for (const struct fact *fact = facts; fact && seen < CHAIN_MAX; fact = fact->next, seen++)
        if (fact->trip != GRAPH_NONE && (form_has(affine, a, fact->trip) || shares(a, fact->form)))
            return fact->trip;
    return GRAPH_NONE;
}

static wide_int upper_of(struct affine *affine, const struct form *a, const struct fact *facts,
                         bool strict, unsigned effort, wide_int goal)
{
    wide_int best = form_range(affine, a, strict).high;
    if (!effort || affine->work > WORK_MAX || !a->count || best <= goal)
        return best;
    uint32_t trip = condition_of(affine, a, facts);
    wide_int bound = upper_under(affine, a, facts, GRAPH_NONE, NULL, strict, effort, goal);
    best = bound < best ? bound : best;
    if (trip == GRAPH_NONE || best <= goal)
        return best;
    /* The first time round, and all others. */
    struct form first = form_symbol(affine, trip), later = form_of(1), zero = form_of(0), at_first;
    if (!form_add(&later, &first, -1, &later) || !form_replace(affine, a, trip, &zero, &at_first))
        return best;
    const struct form *least = form_keep(affine, &later), *none = form_keep(affine, &first);
    if (!least || !none)
        return best;
    wide_int once = upper_under(affine, &at_first, facts, GRAPH_NONE, none, strict, effort, goal);
    wide_int often = upper_under(affine, a, facts, trip, least, strict, effort, goal);
    bound = once > often ? once : often;
    return bound < best ? bound : best;
}

struct range form_bound(struct affine *affine, const struct form *a, const struct fact *facts,
                        bool strict, unsigned effort)
{
    struct range out = form_range(affine, a, strict);
    struct form minus;
    if (!effort || !a->count || !form_scale(a, -1, &minus))
        return out;
    wide_int high = upper_of(affine, a, facts, strict, effort, -WIDE_INFINITE);
    wide_int low = -upper_of(affine, &minus, facts, strict, effort, -WIDE_INFINITE);
    out.high = high < out.high ? high : out.high;
    out.low = low > out.low ? low : out.low;
    return out.low > out.high ? form_range(affine, a, strict) : out;
}

bool form_impossible(struct affine *affine, const struct form *a, const struct fact *facts,
                     unsigned effort)
{
    struct form minus;
    if (facts_never(facts) || form_range(affine, a, false).low > 0)
        return true;
    return form_scale(a, -1, &minus) && upper_of(affine, &minus, facts, false, effort, -1) < 0;
}

bool form_proven(struct affine *affine, const struct form *a, const struct fact *facts,
                 unsigned effort)
{
    return facts_never(facts) || form_range(affine, a, false).high <= 0 ||
           upper_of(affine, a, facts, false, effort, 0) <= 0;
}

/* ---- new facts ------------------------------------------------------------------------------- */

/* The same inequality with coefficients that have no common divisor: over the integers it may say
 * more. */
static void tighten(struct form *fact)
{
    uint64_t gcd = form_gcd(fact);
    if (gcd <= 1 || gcd > INT64_MAX)
        return;
    for (uint32_t i = 0; i < fact->count; i++)
        fact->terms[i].coef /= (int64_t)gcd;
    fact->constant = (int64_t)-wide_floor(-(wide_int)fact->constant, (wide_int)gcd);
}

static const struct fact *push(struct affine *affine, const struct form *form, uint32_t trip,
                               bool equal, const struct fact *facts)
{
    struct fact *fact = arena_alloc(affine->arena, sizeof *fact);
    const struct form *kept = form_keep(affine, form);
    if (!fact || !kept)
        return facts;
    *fact = (struct fact){kept, facts, trip, equal};
    return fact;
}

/* Sums of the fact and one that comes with its symbols, in which more vanishes than is added:
 * rounding can make them stronger than both together. */
static const struct fact *derive(struct affine *affine, const struct form *form, uint32_t trip,
                                 const struct fact *facts)
{
    struct search search = {.affine = affine};
    struct form minus;
    take_own(&search, form);
    if (!form_scale(form, -1, &minus))
        return facts;
    for (unsigned f = 0, derived = 0; f < search.count && derived < DERIVED_MAX; f++)
        for (uint32_t i = 0; i < form->count; i++) {
            struct form sum;
            int64_t scale;
            /* scale * -form - t * fact, so its negative is the sum of both */
            if (!cancel(&minus, search.facts[f], form->terms[i].mono, &scale, &sum) ||
                sum.count >= form->count || !sum.count || !form_scale(&sum, -1, &sum))
                continue;
            tighten(&sum);
            facts = push(affine, &sum, trip, false, facts);
            derived++;
            break;
        }
    return facts;
}

const struct fact *fact_never(struct affine *affine)
{
    struct form one = form_of(1);
    return push(affine, &one, GRAPH_NONE, false, NULL);
}

bool facts_never(const struct fact *facts)
{
    return facts && !facts->form->count && facts->form->constant > 0;
}

const struct fact *fact_add(struct affine *affine, const struct form *form, uint32_t trip,
                            bool equal, const struct fact *facts)
{
    struct form own;
    if (facts_never(facts) || !form_scale(form, 1, &own))
        return facts;
    if (form_range(affine, form, false).low > 0 && trip == GRAPH_NONE)
        return fact_never(affine);
    if (!form->count)
        return facts;
    tighten(&own);
    facts = derive(affine, &own, trip, facts);
    return push(affine, &own, trip, equal, facts);
}
