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

/* Slots of the symbols that an instruction or value makes; operands have 0 to 15. */
enum { SLOT_TYPED = 16, SLOT_RESULT = 32, SLOT_QUOTIENT = 40, SLOT_JOIN = 48 };

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
    uint64_t walk_steps; /* of all walks */
    void *walk_regs;     /* scratch of a walk */
    uint8_t *walk_seen;
    uint32_t *walk_stack;
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

/* Bounds at the place at hand; whether there are any without what is open. */
struct range reach_bound(struct reaching *r, const struct form *form);
bool reach_strict(struct reaching *r, const struct form *form);
/* An unknown in a range, made by the instruction at hand out of `from`. */
struct form reach_in(struct reaching *r, uint32_t slot, struct range range, bool open,
                     const struct form *from);
/* A fact (<= 0) that comes with the symbol that the form is. */
void reach_own_fact(struct reaching *r, const struct form *symbol, const struct form *fact);
bool reach_modulo(struct reaching *r, const struct form *a, int64_t by, uint32_t slot,
                  struct form *out);
bool reach_int_type(const struct ptx_form *form, unsigned i);

/* ---- reach_bits.c, reach_join.c: instructions, as reach_value ---- */

bool reach_logic(struct reaching *r, const struct ptx_instr *instr, struct form *out);
bool reach_shift(struct reaching *r, const struct ptx_instr *instr, struct form *out);
bool reach_convert(struct reaching *r, const struct ptx_instr *instr, struct form *out);
bool reach_extract(struct reaching *r, const struct ptx_instr *instr, struct form *out);
bool reach_absolute(struct reaching *r, const struct ptx_instr *instr, struct form *out);
bool reach_count_bits(struct reaching *r, const struct ptx_instr *instr, struct form *out);
bool reach_extreme(struct reaching *r, const struct ptx_instr *instr, struct form *out);
bool reach_choose(struct reaching *r, const struct ptx_instr *instr, struct form *out);

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

/* ---- results: reach_access.c, reach_sum.c ---- */

enum { TARGETS_MAX = 256, WITNESSES_MAX = 48 };

/* One access on its way to the result. */
struct found {
    struct reach_access access;
    unsigned operand;
    struct form rest; /* relative to the target */
    bool affine;
};

struct collecting {
    struct reaching *r;
    struct reach *out;
    struct found *found;
    uint32_t count, room;
    bool dropped; /* there are more accesses than these */
    const struct needs *needs;
    uint32_t walked[WITNESSES_MAX][6], walked_count;
    const uint32_t *walking; /* the thread at hand */
    struct {                 /* by target: what walks touched */
        int64_t low[2], high[2];
        bool any[2];
    } touched[TARGETS_MAX];
};

struct shape {
    bool reads, writes, atomic;
    uint32_t bytes; /* 0: not known */
};

uint32_t reach_target_of(struct collecting *c, uint32_t at, const struct ptx_var *var);
void reach_not_known(struct reach_bytes *bytes, const char *why, uint32_t line);
/* Whether a module variable's memory is everybody's: not shared, local or a parameter. */
bool reach_in_arrays(const struct ptx_var *var);
/* What the access through operand n of the instruction is; false: none. */
bool reach_shape_of(const struct ptx_instr *instr, unsigned n, struct shape *out);
void reach_take_instr(struct collecting *c, uint32_t i, bool calls_harmless);
/* Whether functions that are called leave alone what pointers lead to. */
bool reach_all_harmless(struct collecting *c);
void reach_coalescing(struct collecting *c, struct found *found);
void reach_take_loop(struct collecting *c, uint32_t loop);
uint64_t reach_times_of(struct collecting *c, uint32_t block);
void reach_intensity(struct collecting *c);
bool reach_extent_of(const struct collecting *c, const struct reach_target *target, int64_t *low,
                     int64_t *high);
void reach_prove(struct collecting *c, struct reach_access *access);
void reach_walk_ends(struct collecting *c);

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
/* ---- reach_witness.c ---- */

/* The thread that a form is greatest for, under the facts, as far as a greedy search tells. */
bool reach_witness(struct reaching *r, const struct form *form, const struct fact *facts,
                   uint32_t tid[3], uint32_t ctaid[3]);

/* ---- reach_text.c ---- */

const char *reach_text(struct reaching *r, const struct form *form, struct kg_arena *arena);

#endif
