/* What an entry does with its parameters and with what it loads: for each piece of the parameters
 * its roles, whether a variant may rely on it or must honour any value, and why; for each access
 * where its address comes from, what its data are, and where loaded data go. By data flow,
 * backwards from uses (roles) and by unification (element types), over the entry and all that it
 * calls.
 *
 * Safe direction: what is not known has ROLE_UNKNOWN and is pinned, or has no element type. What a
 * branch or a selection decides is not followed further: the role of its condition says it.
 * Different pointers are taken to lead to different memory: where the regions of a launch overlap,
 * what is said of one holds of all of them only together. */
#ifndef KG_ROLES_H
#define KG_ROLES_H

#include "origin.h"

enum {
    ROLE_POINTER = 1, /* of a parameter: an address that is accessed. Of loaded data: an address, or
                         added to one as it is */
    ROLE_INDEX = 2,   /* moves an address: offset, texture coordinate, lane of a shuffle */
    ROLE_BOUND = 4,   /* decides whether a loop goes on */
    ROLE_BRANCH = 8,  /* decides where control goes, whether memory is accessed or who waits */
    ROLE_SELECT = 16, /* decides between values: selp, a guarded computation */
    ROLE_SHIFT = 32,  /* amount of a shift, place in a bit field, byte selector */
    ROLE_VALUE = 64,  /* what is written to memory is computed from it */
    ROLE_UNKNOWN = 128, /* goes where it cannot be followed */
    ROLE_COUNT = 8,
};

struct role_set {
    unsigned roles;             /* bits; 0: no use */
    uint32_t lines[ROLE_COUNT]; /* PTX line of one use that gives it, by bit; 0 without */
};

/* What data are, by the arithmetic done on them, whatever the width of the access. */
enum element {
    ELEMENT_UNKNOWN, /* contradictory, or not all of its uses are known */
    ELEMENT_MOVED,   /* only copied */
    ELEMENT_INT,
    ELEMENT_F16,
    ELEMENT_BF16,
    ELEMENT_F32, /* and tf32 */
    ELEMENT_F64,
    ELEMENT_COUNT,
};
extern const char *const element_texts[ELEMENT_COUNT];

/* Bytes of the parameters that are read as one, or not read at all; in order, without gaps within a
 * parameter. */
struct roles_piece {
    uint32_t param;        /* index */
    uint32_t offset, size; /* in the packed buffer */
    struct role_set uses;
    uint8_t element;       /* of the piece itself; for a pointer: see `data` */
    bool element_declared; /* only by the types of moves (ld.param.f32), not by arithmetic */
    bool pointer;
    bool pinned;     /* a variant is made and verified for this value; else it is free. A pointer
                        is neither: false */
    const char *why; /* a sentence */
    uint8_t data;    /* of a pointer: element type of what it leads to */
    bool data_declared;
    bool read, written; /* of a pointer: through it directly */
};

struct roles_access {
    uint32_t func, instr; /* in needs->funcs */
    unsigned operand;
    uint32_t line;
    bool read, written, atomic, cached;
    uint8_t spaces;  /* mask of SPACE_…, as graph_spaces gives it */
    uint32_t bytes;  /* of one thread; 0: not fixed */
    uint32_t set;    /* origins_set: where the address comes from */
    uint8_t element; /* of its data */
    bool element_declared;
    struct role_set data; /* of what it loads */
};

struct roles {
    const struct ptx_module *module;
    const struct ptx_func *entry;
    struct needs needs;
    struct origins origins; /* with the graphs of all functions */
    uint32_t piece_count, access_count;
    struct roles_piece *pieces;
    struct roles_access *accesses;
    uint8_t *numbers;    /* by byte of the packed buffer: ELEMENT_F32 or _F64 where a number begins
                            with which nothing but arithmetic is done; else 0 */
    bool unknown_writes; /* some write's address may come from anywhere */
};

/* Everything is the arena's. KG_LIMIT: too large or too twisted; then all is unknown. */
kg_status roles_make(const struct ptx_module *module, const struct ptx_func *entry,
                     struct kg_arena *arena, struct roles *out);
/* The piece that holds a byte of the packed parameters; NULL: none. */
const struct roles_piece *roles_at(const struct roles *roles, uint32_t offset);
/* Where an address comes from, for people: "parameter 0", "parameter 2 at byte 8", "memory from
 * parameter 1" (loaded through it), a variable's name, "unknown"; joined by " or ". Cut to size. */
char *roles_origin_text(const struct roles *roles, uint32_t set, char *text, size_t size);
/* Roles for people: "index (line 12), branch (line 8)". */
char *roles_text(const struct role_set *uses, char *text, size_t size);

#endif
