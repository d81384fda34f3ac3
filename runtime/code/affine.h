/* Affine forms: integers written as constant + sum of coefficient * monomial over symbols (thread
 * and block numbers, loop counters, quotients, unknowns with a range), and what inequalities
 * between such forms prove. The arithmetic under reach.h. Private to runtime/code.
 *
 * A form is a mathematical integer, not a register: whoever makes it sees to what wraps. Bounds are
 * sound, not complete: an upper bound is never too low, but may be higher than need be. Work is
 * limited: beyond the limit bounds get coarser, never wrong. */
#ifndef KG_AFFINE_H
#define KG_AFFINE_H

#include "parts.h"

enum {
    FORM_TERMS = 12,  /* of a form; one with more is not made */
    FORM_FACTORS = 3, /* of a monomial */
    SYMBOL_FACTS = 4, /* that come with a symbol */
};

__extension__ typedef __int128 wide_int;
#define WIDE_INFINITE ((wide_int)1 << 100) /* this and more: no bound */

struct range {
    wide_int low, high; /* both may be attained; -WIDE_INFINITE, WIDE_INFINITE: none */
};

static inline bool range_within(struct range a, struct range b)
{
    return a.low >= b.low && a.high <= b.high;
}

static inline bool range_bounded(struct range a)
{
    return a.low > -WIDE_INFINITE && a.high < WIDE_INFINITE;
}

struct term {
    uint32_t mono; /* number in affine->monos */
    int64_t coef;  /* never 0 */
};

struct form {
    int64_t constant;
    uint32_t count; /* sorted by mono */
    struct term terms[FORM_TERMS];
};

static inline bool form_constant(const struct form *form, int64_t *out)
{
    *out = form->constant;
    return !form->count;
}

enum symbol_kind {
    SYMBOL_TID,
    SYMBOL_CTAID,
    SYMBOL_NTID, /* only where no launch is given */
    SYMBOL_NCTAID,
    SYMBOL_SCALAR,   /* a parameter that is a range */
    SYMBOL_POINTER,  /* the value of a pointer parameter */
    SYMBOL_VARIABLE, /* the address of a variable */
    SYMBOL_TRIP,     /* times a loop came back to its header since it was entered */
    SYMBOL_QUOTIENT, /* floor(of / by) */
    SYMBOL_CHOICE,   /* one of facts[], which are no facts then: addresses into several objects */
    SYMBOL_OTHER,    /* anything in its range */
};

struct symbol {
    uint8_t kind, axis; /* axis: 0 to 2 of thread and block numbers */
    bool open;          /* its range is no more than its type's: tells nothing about memory */
    struct range range;
    uint32_t block;        /* graph block in which it gets its value */
    uint32_t number;       /* loop of a trip; packed byte of a parameter; instruction else */
    const struct form *of; /* of a quotient */
    int64_t by;
    uint8_t fact_count;
    const struct form *facts[SYMBOL_FACTS]; /* each <= 0 wherever the symbol has its value */
    uint32_t pass;                          /* of the analysis: made in it */
    const char *why;                        /* an open one is not known */
    uint32_t line;
    const struct ptx_var *var;
};

struct monomial {
    uint32_t count, symbols[FORM_FACTORS]; /* ascending */
};

/* Facts hold where they are in force: each form <= 0. A list that shares its tail. */
struct fact {
    const struct form *form;
    const struct fact *next;
    uint32_t trip; /* holds only where this trip symbol is 1 or more; GRAPH_NONE: always */
    bool equal;    /* form == 0: the other half is in the list too */
};

struct affine {
    struct kg_arena *arena;
    struct symbol *symbols;
    struct monomial *monos;
    uint32_t symbol_count, symbol_room, mono_count, mono_room;
    struct numbers mono_numbers;
    uint64_t work;
    bool failed; /* no memory, or too many symbols */
};

#define NO_SYMBOL UINT32_MAX

/* A new symbol; NO_SYMBOL when memory is out. */
uint32_t symbol_new(struct affine *affine, enum symbol_kind kind);

struct form form_of(int64_t constant);
struct form form_symbol(struct affine *affine, uint32_t symbol);
/* False where a result has too many terms, or a number is too large. out may be an argument. */
bool form_add(const struct form *a, const struct form *b, int64_t times, struct form *out);
bool form_scale(const struct form *a, int64_t times, struct form *out);
bool form_multiply(struct affine *affine, const struct form *a, const struct form *b,
                   struct form *out);
bool form_replace(struct affine *affine, const struct form *a, uint32_t symbol,
                  const struct form *by, struct form *out);
bool form_equal(const struct form *a, const struct form *b);
bool form_has(const struct affine *affine, const struct form *a, uint32_t symbol);
/* Coefficient of the symbol alone. */
int64_t form_coef(struct affine *affine, const struct form *a, uint32_t symbol);
/* Greatest common divisor of all coefficients; 0 for a constant. */
uint64_t form_gcd(const struct form *a);
/* The same number modulo 2^bits, with coefficients that are as small as may be. */
void form_reduce(struct form *a, unsigned bits);
/* A copy in the arena, no larger than need be; NULL when memory is out. */
const struct form *form_keep(struct affine *affine, const struct form *a);

/* By the symbols' ranges alone. strict: open symbols have no bound. */
struct range form_range(const struct affine *affine, const struct form *a, bool strict);
struct range mono_range(const struct affine *affine, uint32_t mono, bool strict);
struct range range_scale(struct range a, int64_t times);
/* The same under facts (affine_bound.c). effort: steps of search; 0 is form_range. */
struct range form_bound(struct affine *affine, const struct form *a, const struct fact *facts,
                        bool strict, unsigned effort);
/* Whether a <= 0 cannot be, under the facts. */
bool form_impossible(struct affine *affine, const struct form *a, const struct fact *facts,
                     unsigned effort);
/* Whether a <= 0 under the facts. */
bool form_proven(struct affine *affine, const struct form *a, const struct fact *facts,
                 unsigned effort);
/* The facts with one more in front; simple consequences are added too. NULL facts are none. */
const struct fact *fact_add(struct affine *affine, const struct form *form, uint32_t trip,
                            bool equal, const struct fact *facts);
/* A list that contradicts itself: nobody comes here. */
const struct fact *fact_never(struct affine *affine);
bool facts_never(const struct fact *facts);
wide_int wide_floor(wide_int a, wide_int by); /* by > 0 */

#endif
