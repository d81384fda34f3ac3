/* Inside the decoder only: what its files share. A register has the slot after its number; of one
 * of 128 bits that slot is the lower half, and the upper one is a slot of its own. */
#ifndef SOFTGPU_EXEC_DECODE_H
#define SOFTGPU_EXEC_DECODE_H

#include "exec_core.h"

/* A register that is written once, with the address of a parameter of the entry. */
struct known {
    const struct ptx_var *var; /* NULL: it is not */
    int64_t offset;
    uint8_t defs;
};

struct decoder {
    struct exec_module *module;
    struct exec_func *func;
    const struct ptx_func *ptx;
    struct code *code;
    uint32_t count, room;
    union slot *frame;
    uint32_t slots, slot_room;
    struct fixup *fixups;
    uint32_t fixup_count, fixup_room;
    uint32_t *places; /* of the instructions */
    uint32_t *hash;   /* constants by value: slot numbers */
    uint32_t hash_count, constants;
    uint32_t *var_offset; /* of the body's variables, in local or shared memory */
    struct known *known;  /* of the registers */
    uint32_t *high;       /* of a register of 128 bits: the slot of its upper half, or 0 */
    struct code spare;    /* written when memory is out */
    bool failed, unsupported;
    bool selects; /* parts of registers may be named */
};

/* exec_decode.c: all set failed or unsupported in the decoder if something is. */
uint32_t new_slot(struct decoder *x, uint64_t value);
uint32_t reg_slot(uint32_t reg);
uint32_t slot_of(struct decoder *x, const struct ptx_operand *o, uint8_t type);
/* Sets a, narrow and imm from an address operand; the space in which it is, after all. */
unsigned address_of(struct decoder *x, const struct ptx_operand *o, unsigned space, struct code *c);
struct code *emit(struct decoder *x, unsigned op, const struct ptx_instr *instr);

/* exec_wide.c: slots of `count` values of 128 bits, halves side by side. */
const uint32_t *wide_list(struct decoder *x, const struct ptx_operand *o, unsigned count);
void wide_move(struct decoder *x, const struct ptx_instr *instr);
void wide_atomic(struct decoder *x, const struct ptx_instr *instr);

#endif
