/* Where addresses come from: for each register value of an entry and what it calls, the parameter
 * words and variables that it may be an address into. Over-approximates: what it cannot tell apart
 * it keeps, and ORIGIN_UNKNOWN stands for anything. Built on graph.h; roles.h is built on it.
 *
 * Pointer or index? Both are 64 bits wide and meet in an addition. A word *proves* itself a pointer
 * if it alone passes through cvta, or alone is the address of an access, or is declared .ptr. Where
 * a proven and an unproven value are added, the sum comes from the proven one: the other is an
 * offset. Multiplications, shifts and conversions of width end a pointer's path, so scaled indices
 * never meet this question. If neither side is proven anywhere (base + byte index, neither
 * converted), both are kept. */
#ifndef KG_ORIGIN_H
#define KG_ORIGIN_H

#include "graph.h"

enum {
    ORIGIN_PARAM_BYTES = 4096, /* a kernel with more is left alone */
    ORIGIN_COUNT = 4096,       /* of different origins */
    /* Items of sets: an origin's number; with this bit: what was loaded from memory that the
     * origin leads to */
    ORIGIN_LOADED = 0x4000,
    ORIGIN_UNKNOWN = 0xFFFF,
};

struct origin {
    const struct ptx_var *var; /* a variable's address; NULL: a word of the parameters … */
    uint32_t word;             /* … 8 bytes at 8 * word in the packed buffer */
    bool proven;
};

/* Sets are numbered, equal ones are equal. 0: none. */
struct origin_set {
    uint32_t count;
    const uint16_t *items; /* sorted */
};

struct origins {
    const struct needs *needs;
    const struct ptx_func *entry;
    struct kg_arena *arena;
    struct graph_calls calls;
    struct graph *graphs; /* by function in needs; those without body are zero */
    uint32_t *bases;      /* first value of each function among all values */
    uint32_t value_count; /* of all functions */
    uint32_t *value_sets; /* by value: bases[f] + number in its graph */
    uint32_t origin_count;
    struct origin *origins;
    struct origin_hidden *hidden;
};

/* Follows all of needs, whose funcs[0] must be the entry if parameter words are asked for (entry
 * NULL: they are not). KG_LIMIT if the code is too large or too twisted. */
kg_status origins_make(const struct needs *needs, const struct ptx_func *entry,
                       struct kg_arena *arena, struct origins *out);
struct origin_set origins_set(const struct origins *origins, uint32_t set);
/* Set of a register, an address operand's base, a variable's address, or all parts of a vector. */
uint32_t origins_operand(const struct origins *origins, uint32_t func, uint32_t instr,
                         const struct ptx_operand *operand);

enum origin_use {
    ORIGIN_READ,
    ORIGIN_READ_CACHED, /* past the coherent cache (ld.global.nc) */
    ORIGIN_WRITE,       /* or atomic */
    ORIGIN_ESCAPE,      /* goes where it cannot be followed: an unknown callee, memory */
};
/* One access, or escape (operand: the one that escapes). */
struct origin_access {
    uint32_t func, instr;
    unsigned operand;
    enum origin_use use;
    uint32_t set;
    bool other_space; /* surely not of global memory: shared, local, parameters */
};
/* Calls each for all of them, in order of functions and text; only code that can be reached. */
void origins_uses(const struct origins *origins,
                  void (*each)(void *self, const struct origin_access *access), void *self);

/* ---- for roles.c ---- */

/* The bytes of the entry's parameters that a ld.param reads at a known place; false: not such. */
bool origins_param_load(const struct origins *origins, uint32_t func, const struct ptx_instr *instr,
                        uint32_t *offset, uint32_t *size);
/* The value that a .reg parameter of a function has at its start; GRAPH_UNKNOWN. */
uint32_t origins_start(const struct origins *origins, uint32_t func, const struct ptx_var *param);
/* Whether an operation's result may be one of its sources as it is, or with some bits taken out: an
 * address stays one. cvt, which may, is not among them. */
bool origin_passes(unsigned op);
/* Number of a variable among the origins; GRAPH_NONE. */
uint32_t origins_of_var(const struct origins *origins, const struct ptx_var *var);

#endif
