/* Forms and their arithmetic. Every step is checked for overflow: a form that cannot be made is
 * said so, and its maker puts an unknown in its place. */
#include "affine.h"

enum { SYMBOLS_MAX = 200000, FACTOR_BITS = 21 };

/* ---- symbols and monomials ------------------------------------------------------------------- */

static void *grow(struct affine *affine, void *old, uint32_t count, uint32_t *room, size_t size)
{
    if (count < *room)
        return old;
    uint32_t more = *room ? 2 * *room : 64;
    void *out = arena_alloc(affine->arena, more * size);
    if (!out) {
        affine->failed = true;
        return NULL;
    }
    if (count)
        memcpy(out, old, count * size);
    *room = more;
    return out;
}

uint32_t symbol_new(struct affine *affine, enum symbol_kind kind)
{
    void *symbols = grow(affine, affine->symbols, affine->symbol_count, &affine->symbol_room,
                         sizeof *affine->symbols);
    if (!symbols || affine->symbol_count == SYMBOLS_MAX) {
        affine->failed = true;
        return NO_SYMBOL;
    }
    affine->symbols = symbols;
    affine->symbols[affine->symbol_count] =
        (struct symbol){.kind = (uint8_t)kind, .range = {-WIDE_INFINITE, WIDE_INFINITE}};
    return affine->symbol_count++;
}

/* The number of a monomial; UINT32_MAX when memory is out. */
static uint32_t mono_of(struct affine *affine, const struct monomial *mono)
{
    uint64_t key = 0;
    for (uint32_t i = 0; i < mono->count; i++)
        key |= (uint64_t)(mono->symbols[i] + 1) << (FACTOR_BITS * i);
    uint32_t number = number_of(&affine->mono_numbers, affine, key);
    if (number == NO_NUMBER) {
        affine->failed = true;
        return UINT32_MAX;
    }
    if (number < affine->mono_count)
        return number;
    void *monos =
        grow(affine, affine->monos, affine->mono_count, &affine->mono_room, sizeof *affine->monos);
    if (!monos)
        return UINT32_MAX;
    affine->monos = monos;
    affine->monos[affine->mono_count++] = *mono;
    return number;
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

struct form form_of(int64_t constant)
{
    struct form out;
    out.constant = constant;
    out.count = 0;
    return out;
}

struct form form_symbol(struct affine *affine, uint32_t symbol)
{
    struct form out = form_of(0);
    uint32_t mono =
        symbol == NO_SYMBOL ? UINT32_MAX : mono_of(affine, &(struct monomial){1, {symbol}});
    if (mono != UINT32_MAX)
        out.terms[out.count++] = (struct term){mono, 1};
    return out;
}

bool form_add(const struct form *a, const struct form *b, int64_t times, struct form *out)
{
    struct form sum;
    int64_t scaled;
    sum.count = 0;
    if (__builtin_mul_overflow(b->constant, times, &scaled) ||
        __builtin_add_overflow(a->constant, scaled, &sum.constant))
        return false;
    for (uint32_t i = 0, j = 0; i < a->count || j < b->count;) {
        struct term term;
        if (j == b->count || (i < a->count && a->terms[i].mono < b->terms[j].mono)) {
            term = a->terms[i++];
        } else {
            term = b->terms[j++];
            if (__builtin_mul_overflow(term.coef, times, &term.coef))
                return false;
            if (i < a->count && a->terms[i].mono == term.mono &&
                __builtin_add_overflow(a->terms[i++].coef, term.coef, &term.coef))
                return false;
        }
        if (!term.coef)
            continue;
        if (sum.count == FORM_TERMS)
            return false;
        sum.terms[sum.count++] = term;
    }
    *out = sum;
    return true;
}

bool form_scale(const struct form *a, int64_t times, struct form *out)
{
    struct form zero = form_of(0);
    return form_add(&zero, a, times, out);
}

static bool mono_multiply(struct affine *affine, uint32_t a, uint32_t b, uint32_t *out)
{
    const struct monomial *x = &affine->monos[a], *y = &affine->monos[b];
    struct monomial product = {0};
    if (x->count + y->count > FORM_FACTORS)
        return false;
    for (uint32_t i = 0, j = 0; i < x->count || j < y->count;) {
        bool first = j == y->count || (i < x->count && x->symbols[i] <= y->symbols[j]);
        product.symbols[product.count++] = first ? x->symbols[i++] : y->symbols[j++];
    }
    *out = mono_of(affine, &product);
    return *out != UINT32_MAX;
}

bool form_multiply(struct affine *affine, const struct form *a, const struct form *b,
                   struct form *out)
{
    struct form sum;
    if (!form_scale(a, b->constant, &sum))
        return false;
    for (uint32_t i = 0; i < b->count; i++) {
        struct form part = form_of(0), one;
        one.count = 1;
        one.constant = 0;
        part.count = 0;
        if (a->constant) {
            one.terms[0] = (struct term){b->terms[i].mono, a->constant};
            if (!form_add(&part, &one, b->terms[i].coef, &part))
                return false;
        }
        for (uint32_t j = 0; j < a->count; j++) {
            one.terms[0].coef = a->terms[j].coef;
            if (!mono_multiply(affine, a->terms[j].mono, b->terms[i].mono, &one.terms[0].mono) ||
                !form_add(&part, &one, b->terms[i].coef, &part))
                return false;
        }
        if (!form_add(&sum, &part, 1, &sum))
            return false;
    }
    *out = sum;
    return true;
}

static bool mono_has(const struct monomial *mono, uint32_t symbol)
{
    for (uint32_t i = 0; i < mono->count; i++)
        if (mono->symbols[i] == symbol)
            return true;
    return false;
}

/* The monomial without one factor `symbol`, as a form. */
static struct form mono_without(struct affine *affine, const struct monomial *mono, uint32_t symbol)
{
    struct monomial rest = {0};
    bool dropped = false;
    for (uint32_t i = 0; i < mono->count; i++) {
        if (mono->symbols[i] == symbol && !dropped)
            dropped = true;
        else
            rest.symbols[rest.count++] = mono->symbols[i];
    }
    struct form out = form_of(rest.count ? 0 : 1);
    uint32_t number = rest.count ? mono_of(affine, &rest) : UINT32_MAX;
    if (number != UINT32_MAX)
        out.terms[out.count++] = (struct term){number, 1};
    return out;
}

bool form_replace(struct affine *affine, const struct form *a, uint32_t symbol,
                  const struct form *by, struct form *out)
{
    struct form sum = form_of(a->constant);
    for (uint32_t i = 0; i < a->count; i++) {
        struct form part = form_of(0);
        struct monomial mono = affine->monos[a->terms[i].mono];
        part.terms[0] = (struct term){a->terms[i].mono, 1};
        part.count = 1;
        if (mono_has(&mono, symbol)) {
            part = mono_without(affine, &mono, symbol);
            if (!form_multiply(affine, &part, by, &part))
                return false;
            if (form_has(affine, &part, symbol) && !form_has(affine, by, symbol))
                return false; /* a square: nobody needs it */
        }
        if (!form_add(&sum, &part, a->terms[i].coef, &sum))
            return false;
    }
    *out = sum;
    return !affine->failed;
}

bool form_equal(const struct form *a, const struct form *b)
{
    if (a->constant != b->constant || a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->terms[i].mono != b->terms[i].mono || a->terms[i].coef != b->terms[i].coef)
            return false;
    return true;
}

bool form_has(const struct affine *affine, const struct form *a, uint32_t symbol)
{
    for (uint32_t i = 0; i < a->count; i++)
        if (mono_has(&affine->monos[a->terms[i].mono], symbol))
            return true;
    return false;
}

int64_t form_coef(struct affine *affine, const struct form *a, uint32_t symbol)
{
    for (uint32_t i = 0; i < a->count; i++) {
        const struct monomial *mono = &affine->monos[a->terms[i].mono];
        if (mono->count == 1 && mono->symbols[0] == symbol)
            return a->terms[i].coef;
    }
    return 0;
}

static uint64_t magnitude(int64_t value)
{
    return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

uint64_t form_gcd(const struct form *a)
{
    uint64_t gcd = 0;
    for (uint32_t i = 0; i < a->count; i++)
        for (uint64_t b = magnitude(a->terms[i].coef); b;) {
            uint64_t rest = gcd % b;
            gcd = b;
            b = rest;
        }
    return gcd;
}

void form_reduce(struct form *a, unsigned bits)
{
    uint32_t count = 0;
    if (bits >= 64)
        return;
    int64_t half = (int64_t)1 << (bits - 1), whole = (int64_t)1 << bits;
    a->constant = (a->constant & (whole - 1)) - (a->constant & half ? whole : 0);
    for (uint32_t i = 0; i < a->count; i++) {
        int64_t coef = a->terms[i].coef;
        if (coef >= whole || coef <= -whole)
            coef = (coef & (whole - 1)) - (coef & half ? whole : 0);
        if (coef)
            a->terms[count++] = (struct term){a->terms[i].mono, coef};
    }
    a->count = count;
}

const struct form *form_keep(struct affine *affine, const struct form *a)
{
    size_t size = offsetof(struct form, terms) + a->count * sizeof *a->terms;
    struct form *out = arena_alloc(affine->arena, size);
    if (out)
        memcpy(out, a, size);
    else
        affine->failed = true;
    return out;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

wide_int wide_floor(wide_int a, wide_int by)
{
    return a / by - (a % by < 0);
}

static bool infinite(wide_int a)
{
    return a >= WIDE_INFINITE || a <= -WIDE_INFINITE;
}

static wide_int clamp(wide_int a)
{
    return a > WIDE_INFINITE ? WIDE_INFINITE : a < -WIDE_INFINITE ? -WIDE_INFINITE : a;
}

/* Numbers beyond 2^62 count as infinite here, so that no product overflows. */
static wide_int multiply(wide_int a, wide_int b)
{
    const wide_int most = (wide_int)1 << 63;
    if (!a || !b)
        return 0;
    if (a > most || a < -most || b > most || b < -most)
        return (a < 0) == (b < 0) ? WIDE_INFINITE : -WIDE_INFINITE;
    return clamp(a * b);
}

struct range range_scale(struct range a, int64_t times)
{
    struct range out = {multiply(a.low, times), multiply(a.high, times)};
    return times < 0 ? (struct range){out.high, out.low} : out;
}

static struct range range_multiply(struct range a, struct range b)
{
    wide_int all[4] = {multiply(a.low, b.low), multiply(a.low, b.high), multiply(a.high, b.low),
                       multiply(a.high, b.high)};
    struct range out = {all[0], all[0]};
    for (unsigned i = 1; i < 4; i++) {
        out.low = all[i] < out.low ? all[i] : out.low;
        out.high = all[i] > out.high ? all[i] : out.high;
    }
    return out;
}

struct range mono_range(const struct affine *affine, uint32_t number, bool strict)
{
    const struct monomial *mono = &affine->monos[number];
    struct range out = {1, 1};
    for (uint32_t i = 0; i < mono->count; i++) {
        const struct symbol *symbol = &affine->symbols[mono->symbols[i]];
        struct range range = symbol->range;
        if (strict && symbol->open)
            range = (struct range){-WIDE_INFINITE, WIDE_INFINITE};
        out = range_multiply(out, range);
    }
    return out;
}

struct range form_range(const struct affine *affine, const struct form *a, bool strict)
{
    struct range out = {a->constant, a->constant};
    for (uint32_t i = 0; i < a->count; i++) {
        struct range part =
            range_scale(mono_range(affine, a->terms[i].mono, strict), a->terms[i].coef);
        out.low =
            infinite(part.low) || infinite(out.low) ? -WIDE_INFINITE : clamp(out.low + part.low);
        out.high =
            infinite(part.high) || infinite(out.high) ? WIDE_INFINITE : clamp(out.high + part.high);
    }
    return out;
}
