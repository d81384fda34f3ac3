/* The flow of one PTX function: basic blocks, order, dominators both ways, loops, values of virtual
 * registers with their definitions and uses, address spaces; and the calls between functions.
 *
 * PTX is no SSA form, and its instructions may be guarded. Here each write of a register gives a
 * *value*, and so does each merge of several (a phi, at the head of a block); a guarded write's
 * value is a merge of its own result with the value before it. So "which definitions reach this
 * use" is one number, and who wants the set of writing instructions asks graph_defs.
 *
 * What cannot be known is GRAPH_UNKNOWN or GRAPH_NONE, and never a guess: in a *wild* function
 * (operands that did not parse, a branch to who knows where) every value is GRAPH_UNKNOWN, no block
 * dominates another, and all are one irreducible loop. Everything is the arena's, read-only once
 * made (graph_defs and graph_controllers use scratch in it: one thread at a time), and valid while
 * the tree is. Input is hostile: KG_LIMIT when the work or memory would grow faster than a fixed
 * multiple of the code.
 */
#ifndef KG_GRAPH_H
#define KG_GRAPH_H

#include "parts.h"

#define GRAPH_NONE UINT32_MAX
/* Number 0 of every function's values: anything. Of registers in wild functions, and of reads in
 * code that cannot be reached. */
#define GRAPH_UNKNOWN 0u

enum graph_end {
    GRAPH_FALLS, /* into the next block (which starts at a label), or off the end of the body */
    GRAPH_BRANCHES /* bra, brx.idx, or an unknown operation that names labels */,
    GRAPH_RETURNS, /* ret, exit, trap, a call that does not return: to the virtual exit */
};

/* Instructions [first, end). Block 0 is the start and has no predecessors: where the code branches
 * to its first instruction, block 0 is empty. A call counts as one that returns unless .noreturn.
 */
struct graph_block {
    uint32_t first, end;
    uint8_t ends;   /* enum graph_end: what its last instruction does */
    bool guarded;   /* … under a guard: else the next block follows */
    bool reachable; /* from block 0 */
    bool endless;   /* no path leads to the end of the function */
    uint32_t succ_count, pred_count;
    /* Each once. Successors: of a guarded bra the target first, then the next block; brx.idx in
     * order of its list. graph->exit, the virtual block, stands for the end of the function.
     * Predecessors: the reachable ones. */
    uint32_t *succs, *preds;
    uint32_t rank;        /* in graph->order; GRAPH_NONE: unreachable */
    uint32_t idom, ipdom; /* immediate (post-)dominator; GRAPH_NONE: none. Post-dominators may be
                             graph->exit. An endless block counts as one that may leave */
    uint32_t loop;        /* innermost, in graph->loops; GRAPH_NONE */
    uint32_t phi_first, phi_count; /* values of the merges at its head */
};

/* A loop: a header and what reaches a branch back to it. Numbered so that a loop comes before the
 * loops in it: loops [l, loops[l].end) lie in l. */
struct graph_loop {
    uint32_t header, parent, depth; /* parent GRAPH_NONE, depth 1: outermost */
    uint32_t end;
    bool irreducible;       /* control also enters past the header: the header dominates nothing */
    uint32_t block_count;   /* with those of loops in it */
    const uint32_t *blocks; /* in no order */
    uint32_t latch_count;   /* blocks that branch back to the header */
    const uint32_t *latches;
    uint32_t exit_count; /* edges out of it: from inside … */
    const struct graph_edge {
        uint32_t from, to; /* … to outside, or to graph->exit */
    } * exits;
};

enum graph_value_kind {
    VALUE_UNKNOWN,
    VALUE_START, /* what the register holds at the function's start: undefined, or a .reg parameter
                    of a .func, then `param` */
    VALUE_WRITE, /* written by `instr` */
    VALUE_PHI,   /* one of inputs: input i comes from predecessor i of `block` */
};

/* Space that an address is derived from; a mask. */
enum {
    SPACE_GLOBAL = 1,
    SPACE_SHARED = 2,
    SPACE_LOCAL = 4,
    SPACE_PARAM = 8,
    SPACE_CONST = 16,
    SPACE_TEXTURE = 32,
    SPACE_ANY = 31, /* generic, not known more exactly */
};

struct graph_value {
    uint8_t kind;
    bool may;       /* of a write: not sure to happen (guard, unknown operation); then inputs[0]
                       is the value before it */
    uint8_t spaces; /* mask: if it is a generic address, into which spaces; 0: no address known
                       to be in it; SPACE_ANY: not known */
    uint32_t reg, block, instr; /* instr GRAPH_NONE but for writes; block of VALUE_START: 0 */
    uint32_t input_count, user_count;
    const uint32_t *inputs; /* values */
    const struct graph_user *users;
    const struct ptx_var *param;
};

/* Who takes a value: an instruction (as operand, address or guard), or a merge (phi, guarded
 * write). */
struct graph_user {
    uint32_t instr; /* GRAPH_NONE: a merge */
    uint32_t value; /* the merge; else GRAPH_NONE */
};

/* A register read or written by an instruction, once however often it stands there. A ret reads
 * the function's results that are registers. */
struct graph_ref {
    uint32_t reg, value;
};

struct graph {
    const struct ptx_func *func;
    struct kg_arena *arena;
    bool wild;          /* see above */
    bool irreducible;   /* has an irreducible loop among those reachable */
    uint32_t wild_line; /* of the instruction that makes it wild or, if not wild, irreducible */
    uint32_t
        carry; /* number of the register that .cc writes and addc, subc, madc read: above func's */
    uint32_t block_count, exit; /* exit == block_count: the virtual one, blocks[exit]: its preds */
    struct graph_block *blocks;
    uint32_t *block_of;   /* of each instruction */
    uint32_t order_count; /* reachable blocks … */
    uint32_t *order;      /* … in reverse post order; the virtual exit is not among them */
    uint32_t loop_count;
    struct graph_loop *loops;
    uint32_t value_count;
    struct graph_value *values;
    /* refs [read_first[i], write_first[i]) are the reads of instruction i, the guard among them,
     * [write_first[i], read_first[i + 1]) its writes; each sorted by register */
    struct graph_ref *refs;
    uint32_t *read_first, *write_first;
    struct graph_hidden *hidden;
};

/* Room for count + 1 numbers, zero. */
static inline uint32_t *graph_numbers(struct kg_arena *arena, size_t count)
{
    return arena_alloc(arena, (count + 1) * sizeof(uint32_t));
}

/* The function must have a body. KG_LIMIT: too large or too twisted. KG_NO_MEMORY. */
kg_status graph_make(const struct ptx_func *func, struct kg_arena *arena, struct graph *out);

/* The value of a register as instruction `instr` reads it; GRAPH_UNKNOWN if it does not read it, or
 * nothing is known. Of an operand: that of its register (of a plain register or an address). */
uint32_t graph_read(const struct graph *graph, uint32_t instr, uint32_t reg);
uint32_t graph_operand(const struct graph *graph, uint32_t instr,
                       const struct ptx_operand *operand);
/* The value that `instr` writes to the register; GRAPH_UNKNOWN: none. */
uint32_t graph_write(const struct graph *graph, uint32_t instr, uint32_t reg);

/* The instructions whose writes may be what `value` is, through all merges; in order of the text.
 * GRAPH_NONE among them (last) stands for the value at the function's start. False: not known, or
 * more than `room`. */
bool graph_defs(const struct graph *graph, uint32_t value, uint32_t *instrs, uint32_t room,
                uint32_t *count);
/* The one write that surely gives the value, behind merges of one and the same; GRAPH_NONE. */
uint32_t graph_def(const struct graph *graph, uint32_t value);

/* Blocks. Each dominates itself; unreachable ones nothing and nobody else. */
bool graph_dominates(const struct graph *graph, uint32_t a, uint32_t b);
/* Instructions: a is executed (or skipped by its guard) before each execution of b. */
bool graph_instr_dominates(const struct graph *graph, uint32_t a, uint32_t b);

/* Whether a block lies in a loop, or in a loop in it. */
bool graph_in_loop(const struct graph *graph, uint32_t loop, uint32_t block);

/* Blocks whose last instruction decides whether `block` runs (control dependence), direct ones.
 * NULL with count GRAPH_NONE: not known. */
const uint32_t *graph_controllers(const struct graph *graph, uint32_t block, uint32_t *count);

/* Spaces that an access's operand may touch, as a mask: the instruction's own where it names one,
 * else those that its address is derived from; an offset beyond an object's bounds may leave them.
 * SPACE_ANY: not known. */
unsigned graph_spaces(const struct graph *graph, uint32_t instr, unsigned operand);
/* Of instructions that name spaces per operand (cp.async …): the space named for this one;
 * PTX_SPACE_generic: none. */
enum ptx_space graph_named_space(const struct ptx_instr *instr, unsigned operand);

/* ---- calls between functions ----------------------------------------------------------------- */

struct graph_site {
    uint32_t caller; /* index in needs->funcs */
    uint32_t instr;
    uint32_t callee; /* index in needs->funcs; GRAPH_NONE: not known (a register without targets) */
};

struct graph_calls {
    const struct needs *needs;
    uint32_t site_count;
    struct graph_site *sites; /* by caller, then instruction; an indirect call has one for each of
                                 its targets */
    uint32_t *first;          /* sites of function f: [first[f], first[f + 1]) */
    uint32_t *bottom_up;      /* functions, callees before callers, but for recursion */
    bool *recursive;          /* may call itself, directly or not */
    bool unknown;             /* some site has no known callee */
};
kg_status graph_calls_make(const struct needs *needs, struct kg_arena *arena,
                           struct graph_calls *out);
/* Index of the first site of an instruction, if it is a call: others follow. */
uint32_t graph_calls_at(const struct graph_calls *calls, uint32_t func, uint32_t instr);

/* ---- spin.c -----------------------------------------------------------------------------------
 */

/* Line of the first loop that waits for memory to change; 0: none. UINT32_MAX: too much code to
 * tell, or a wild function. */
uint32_t spin_find(const struct graph *graph);

#endif
