/* Private to the files of reach: values of registers as affine forms, conditions, facts, and the
 * pass over a function that finds them.
 *
 * Modular numbers: the form of an integer register of n bits is an integer that equals the
 * register's bits modulo 2^n, wrapped or not. Only who extends, compares, divides or shifts it
 * right needs to know which of these integers it is, and asks reach_typed, which proves it or gives
 * an unknown. Symbols stand for the value at the last time that their instruction was executed; a
 * form is only used where its symbols' instructions dominate, so none is stale. */
#ifndef KG_REACH_PARTS_H
#define KG_REACH_PARTS_H

#include "affine.h"
#include "graph.h"
#include "reach.h"

enum {
    EFFORT_FIT = 48,    /* to see that nothing wraps */
    EFFORT_FACT = 160,  /* to prove an invariant */
    EFFORT_REACH = 600, /* to bound an access */
    CANDIDATES = 48,    /* invariants tried for a loop */
};

enum cond_kind { COND_UNKNOWN, COND_LE, COND_EQ, COND_NE, COND_AND, COND_OR };

/* form <= 0, == 0, != 0; or both, one of a and b. */
struct cond {
    uint8_t kind;
    const struct form *form;
    const struct cond *a, *b;
};

struct known {
    const struct form *form; /* of an integer; NULL: anything */
    const struct cond *cond; /* of a predicate; NULL: unknown */
};

/* A loop's invariants are guessed, and those that do not prove each other are thrown out until the
 * rest does. */
struct candidate {
    const struct form *form; /* <= 0 at the header; over symbols from outside and the trip */
    enum { CANDIDATE_HOLDS, CANDIDATE_LATER, CANDIDATE_DEAD } state; /* later: not the first time */
};

struct loop_state {
    uint32_t trip; /* symbol */
    bool once;     /* nobody comes back to the header, by the pass before */
    uint32_t count;
    struct candidate candidates[CANDIDATES];
};

#define PASS_ALWAYS UINT32_MAX /* of symbols that are never made anew */

enum phi_kind { PHI_NEW, PHI_STEP, PHI_RANGE, PHI_ANYTHING };

struct phi_state {
    uint8_t kind, turns;
    bool open;
    const struct form *step; /* each time round */
    struct range range;      /* PHI_RANGE */
};

struct reaching {
    struct affine affine;
    struct kg_arena *arena;
    const struct ptx_module *module;
    const struct ptx_func *func;
    const struct graph *graph;
    const struct reach_launch *launch;
    struct known *values;      /* by graph value */
    const struct fact **facts; /* in force at the head of each block */
    struct loop_state *loops;
    struct phi_state *phis;     /* by graph value */
    struct numbers symbol_keys; /* (instruction or value, slot) -> index in symbol_of */
    uint32_t *symbol_of, symbol_of_room;
    uint32_t tid[3], ctaid[3], ntid[3], nctaid[3]; /* symbols; NO_SYMBOL: constant */
    uint8_t *pointer_words; /* a byte for each of the packed parameters: an address starts here */
    uint32_t quotients[64], quotient_count; /* symbols made last in this pass, a ring */
    uint32_t pass, revivals;
    bool changed;           /* in this pass */
    bool calls_touch;       /* functions that are called have accesses of their own */
    bool symbolic;          /* no launch: nothing is proven, wrap-around is left out of account */
    uint32_t block, instr;  /* at hand */
    const struct fact *now; /* facts in force at the instruction at hand */
};

/* ---- reach_value.c ---- */

/* The symbol for a thing made at a place; the same each time it is asked for. */
uint32_t reach_symbol(struct reaching *r, const void *thing, uint32_t slot, enum symbol_kind kind);
/* A symbol at the place at hand for something in [low, high]. open: that says no more than its type
 * does; then why. */
struct form reach_unknown(struct reaching *r, const void *thing, uint32_t slot, struct range range,
                          bool open, const char *why);
struct range reach_type_range(unsigned bits, bool is_signed);
/* The integer that a register of this type holds. */
void reach_typed(struct reaching *r, const struct form *form, unsigned bits, bool is_signed,
                 uint32_t slot, struct form *out);
void reach_operand(struct reaching *r, const struct ptx_operand *operand, uint32_t slot,
                   struct form *out);
/* Value of the integer that instruction `r->instr` writes; false: anything. */
bool reach_value(struct reaching *r, const struct ptx_instr *instr, struct form *out);
struct form reach_quotient(struct reaching *r, const struct form *a, int64_t by, uint32_t slot);
/* The symbol of a graph value of which nothing is known but its register's type. */
struct form reach_anything(struct reaching *r, uint32_t value);
/* Bits of the type at position i of the form. */
unsigned reach_bits(const struct ptx_form *form, unsigned i);
bool reach_is_signed(const struct ptx_form *form, unsigned i);
/* An open symbol of the form, for its reason; NULL: none. */
const struct symbol *reach_open(const struct reaching *r, const struct form *form);
/* One value that comes from several places, each under its own facts, made at `block`. */
struct form reach_join(struct reaching *r, const void *thing, uint32_t block, uint32_t count,
                       const struct form *forms, const struct fact *const *facts);

/* ---- reach_load.c ---- */

/* What a load or another instruction without arithmetic gives: by its type. */
bool reach_load(struct reaching *r, const struct ptx_instr *instr, unsigned part, struct form *out);
bool reach_special(struct reaching *r, const struct ptx_operand *operand, struct form *out);

/* ---- reach_cond.c ---- */

/* Of a predicate that the instruction writes; NULL: unknown. */
const struct cond *reach_cond(struct reaching *r, const struct ptx_instr *instr);
const struct cond *reach_predicate(struct reaching *r, uint32_t instr, uint32_t reg);
void reach_comparisons(struct reaching *r, uint32_t value, unsigned depth,
                       void (*each)(struct reaching *r, const struct form *difference,
                                    bool or_equal, uint32_t self),
                       uint32_t self);
/* The facts, and what follows from the condition being as wanted. */
const struct fact *reach_assume(struct reaching *r, const struct cond *cond, bool wanted,
                                const struct fact *facts);
/* Facts in force on the way from block `from` to `to`. */
const struct fact *reach_edge(struct reaching *r, uint32_t from, uint32_t to);
/* Facts in force where an instruction runs: those of its block, and its guard. */
const struct fact *reach_at(struct reaching *r, uint32_t instr);

/* ---- reach_loop.c ---- */

/* The value of a phi at a loop's header in this pass; facts: at the ends of its predecessors. */
struct form reach_header_phi(struct reaching *r, uint32_t value, const struct form *init);
/* The facts, and the invariants of the loop as far as they are believed. */
const struct fact *reach_header_facts(struct reaching *r, uint32_t loop, const struct fact *facts);
/* After a pass: what the loops showed. Sets r->changed. */
void reach_loops(struct reaching *r);
bool reach_revive(struct reaching *r);

/* ---- reach_flow.c ---- */

/* All values of the function; KG_LIMIT: no answer. */
kg_status reach_flow(struct reaching *r);
bool reach_is_latch(const struct reaching *r, uint32_t loop, uint32_t block);
/* The loop whose header the block is; GRAPH_NONE. */
uint32_t reach_headed(const struct reaching *r, uint32_t block);
/* Whether the register holds an integer. */
bool reach_integer(const struct reaching *r, uint32_t reg);
void reach_input(struct reaching *r, uint32_t value, struct form *out);

/* ---- reach_walk.c ---- */

/* One thread, executed as far as the parameters determine it. */
struct walk_touch {
    uint32_t instr, operand, target_word; /* packed byte of the pointer; REACH_NONE: var */
    const struct ptx_var *var;
    int64_t offset;
};
/* Calls touch for each access that the thread surely makes. False: the walk had to end early, or at
 * an access it could not follow. */
bool reach_walk(struct reaching *r, const uint32_t tid[3], const uint32_t ctaid[3],
                void (*touch)(void *self, const struct walk_touch *touch), void *self);
/* The thread that a form is greatest for, under the facts, as far as a greedy search tells. */
bool reach_witness(struct reaching *r, const struct form *form, const struct fact *facts,
                   uint32_t tid[3], uint32_t ctaid[3]);

/* ---- reach_text.c ---- */

const char *reach_text(struct reaching *r, const struct form *form, struct kg_arena *arena);

#endif
