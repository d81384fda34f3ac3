/* Between origin.c, origin_set.c and origin_flow.c. Nobody else includes it. */
#ifndef KG_ORIGIN_PARTS_H
#define KG_ORIGIN_PARTS_H

#include "origin.h"

enum { SETS_MAX = 1 << 18, SET_ITEMS_MAX = 1 << 23, JOINS = 1 << 12 };

struct origin_join {
    uint32_t a, b, both;
};
struct origin_sets {
    struct kg_arena *arena;
    struct origin_set *sets;
    uint32_t *slots, count, room;
    uint64_t item_total;
    struct origin_join *joins;
    uint16_t *scratch;
    bool failed; /* no memory, or too many */
};
bool sets_begin(struct origin_sets *sets, struct kg_arena *arena);
uint32_t set_of(struct origin_sets *sets, const uint16_t *items, uint32_t count);
uint32_t set_join(struct origin_sets *sets, uint32_t a, uint32_t b);

struct origin_hidden {
    struct origin_sets sets;
    struct numbers vars;  /* (variable, 0) or (entry, word) -> number of the origin */
    struct numbers cells; /* (.param variable, offset) -> index into cell_sets */
    uint32_t *cell_sets, cell_room;
    uint32_t *contents;    /* by origin: what stores put into a variable's memory */
    uint32_t anywhere;     /* what stores put to who knows where */
    struct numbers starts; /* (.reg parameter, 0) -> index into start_values */
    uint32_t *start_values, start_room;
    bool *narrow; /* by parameter word: read as something smaller */
    uint64_t work;
    bool changed, failed;
};

/* origin_flow.c: sets of all values, under the proofs so far; proves words by cvta on the way. */
kg_status origins_settle(struct origins *origins);
/* Number of an origin, made if new; GRAPH_NONE: too many. */
uint32_t origin_number(struct origins *origins, const struct ptx_var *var, uint32_t word);
/* A set that is just one word, and not loaded, proves it a pointer. */
void origin_prove(struct origins *origins, uint32_t set);

#endif
