/* Between the files that make struct roles: roles.c, roles_back.c, roles_numbers.c, roles_type.c.
 */
#ifndef KG_ROLES_PARTS_H
#define KG_ROLES_PARTS_H

#include "roles.h"

/* Where data goes: which function's value, and what else has roles. */
struct roles_back {
    const struct roles *roles;
    struct kg_arena *arena;
    struct role_set *values;    /* by value of all functions: origins.bases[f] + number */
    struct role_set *bytes;     /* by byte of the entry's parameters */
    struct role_set *contents;  /* by origin: of data in the memory it leads to */
    struct role_set anywhere;   /* of data in memory that may be anybody's */
    struct role_set everything; /* of all contents: what a write to who knows where feeds */
    struct numbers vars;        /* .param variables and .reg parameters of calls -> var_sets */
    struct role_set *var_sets;
    uint32_t var_room;
    uint64_t work;
    bool changed, failed;
};
kg_status roles_go_back(struct roles_back *back);

/* The element types: nodes are united, and collect evidence. */
struct roles_types {
    const struct roles *roles;
    struct kg_arena *arena;
    uint32_t *above;           /* union-find */
    uint32_t *used, *declared; /* by node: bits of enum element */
    uint32_t *instr_bases;     /* by function: of its instructions' nodes */
    uint32_t first_byte, first_origin, first_loaded, first_var, var_limit, first_instr, unknown;
    struct numbers vars;
    bool failed;
};
kg_status roles_find_types(struct roles_types *types);
/* Element of a node: what first_byte + offset, first_origin + number or a value's number is. */
enum element roles_element(struct roles_types *types, uint32_t node, bool *declared);
/* The node of the data in memory that an item of an origin set leads to. */
uint32_t roles_item_node(const struct roles_types *types, uint16_t item);

/* Fills `numbers`; the accesses must be known. */
kg_status roles_find_numbers(struct roles *roles, struct kg_arena *arena);

#endif
