/* Which bytes a launch can touch, from the PTX alone: for each pointer parameter and variable the
 * interval read and the interval written, relative to the pointer's value; for each access its
 * stride, coalescing and whether it is in bounds; for each loop how often it turns. Third door of
 * the PTX library.
 *
 * Under what is trusted, what is said is never less than what the kernel does: an interval contains
 * every byte that any thread of that launch may touch, whatever is in memory, or it is "unknown",
 * with a reason and a line. "Exact" is said only where threads were found, by walking them, that
 * touch its first and its last byte. Only what the walk executed is "violated".
 *
 * What is trusted: the launch and the parameters' bytes; that an address stays in the memory that
 * it is derived from, so that one of shared or local memory, however it is moved, leads to no
 * global byte, and what is read back from a local variable was stored to it by addresses of it
 * (graph_spaces, origin.h); that the pointers that the host passes lead to global memory; that
 * objects do not wrap round the end of the address space; that a block's threads are numbered as
 * CUDA numbers them. What is not seen: bytes
 * touched through textures and surfaces, by kernels that the kernel launches, through pointers that
 * stand in memory (these make `stray`). */
#ifndef KG_REACH_H
#define KG_REACH_H

#include "code.h"

#define REACH_NONE UINT32_MAX

/* A scalar that may be anything in [low, high] (signed if low < 0), instead of what stands in the
 * parameters. */
struct reach_scalar {
    uint32_t at, size; /* in the packed parameters; 1, 2, 4 or 8 bytes */
    int64_t low, high;
};

/* Bytes [low, high) around a pointer's value that may be touched. */
struct reach_extent {
    uint32_t at; /* of the pointer in the packed parameters */
    int64_t low, high;
};

struct reach_launch {
    const struct kg_launch *launch; /* NULL: none; then only symbolic texts come out */
    const unsigned char *params;    /* packed; NULL: none */
    uint32_t param_bytes;
    uint32_t scalar_count, extent_count;
    const struct reach_scalar *scalars;
    const struct reach_extent *extents;
    bool exact;    /* walk threads to find out what is exact, and what is violated */
    bool thorough; /* … and all threads of a small launch, whatever is found: for tests */
};

enum reach_state { REACH_UNTOUCHED, REACH_KNOWN, REACH_UNKNOWN };

struct reach_bytes {
    uint8_t state;     /* enum reach_state */
    bool exact;        /* the first and the last byte are touched */
    int64_t low, high; /* bytes [low, high) relative to the target's address */
    const char *why;   /* unknown: the reason */
    uint32_t line;     /* … and where */
};

enum reach_proof { PROOF_NONE, PROOF_PROVEN, PROOF_UNKNOWN, PROOF_VIOLATED };

/* A pointer parameter or a variable of the module. */
struct reach_target {
    uint32_t at; /* byte in the packed parameters; REACH_NONE: a variable */
    const char *name;
    uint64_t size; /* of a variable */
    struct reach_bytes read, written;
    uint8_t proof; /* enum reach_proof: of all accesses together */
};

struct reach_access {
    uint32_t instr, line;
    const char *operation;
    bool reads, writes, atomic;
    uint8_t space;   /* SPACE_ mask of graph.h */
    uint32_t bytes;  /* of one thread at a time; 0: not known */
    uint8_t vector;  /* elements of an access */
    uint32_t target; /* index of targets; REACH_NONE: shared, local, or not known */
    struct reach_bytes reach;
    const char *address; /* affine form, as text; NULL: none */
    bool strided;        /* stride is known */
    int64_t stride;      /* bytes from one tid.x to the next */
    uint32_t sectors;    /* of 32 bytes, a full warp's request touches, if the first thread's
                            address is at the start of one; 0: not known */
    uint64_t times;      /* a thread makes it, at most; UINT64_MAX: not known */
    uint8_t proof;       /* enum reach_proof */
    uint32_t witness[6]; /* violated: tid, ctaid of a thread that does it */
};

struct reach_loop {
    uint32_t line, depth, parent; /* parent: index; REACH_NONE */
    bool known;                   /* most is */
    bool uniform;                 /* all threads turn just `most` times */
    uint64_t most;                /* times its body runs, each time that it is entered */
    const char *why;
};

struct reach {
    struct kg_arena arena;
    uint32_t target_count, access_count, loop_count;
    struct reach_target *targets;
    struct reach_access *accesses; /* in order of the text; parameters' own reads left out */
    struct reach_loop *loops;
    struct reach_bytes stray; /* accesses that no target explains; untouched: none */
    bool stray_writes;
    uint64_t arithmetic; /* operations of a thread at most, an fma counts two; 0: not known */
    uint64_t traffic;    /* bytes of global memory a thread moves at most; 0: not known */
    bool contradicted;   /* a thread that was walked touched what is out of reach: a mistake of the
                            analysis. Then nothing is known */
    bool complete;       /* all pointers' reach is known, and there is no stray */
};

/* Parses the text. KG_NOT_FOUND: no such entry; KG_BAD_INPUT: no PTX, or parameters that are not
 * the entry's. Free with reach_free, whatever came. */
kg_status reach_of_ptx(const char *ptx, const char *entry, const struct reach_launch *launch,
                       struct reach *out);
/* The same of a tree. */
struct ptx_module;
struct ptx_func;
kg_status reach_of(const struct ptx_module *module, const struct ptx_func *entry,
                   const struct reach_launch *launch, struct reach *out);
void reach_free(struct reach *reach);

#endif
