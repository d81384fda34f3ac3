/* What an instruction costs by its operation alone: issue slots, pipe, latency. PTX is not machine
 * code: what ptxas makes of each operation for ordinary operands is put here in round numbers. */
#include "exec_core.h"

#include <stdio.h>
#include <string.h>

enum { ALU = 4, DOUBLE = 8, MUFU = 18, SHUFFLE = 23, MATRIX = 32 };

/* Of operations that take more than one slot, or another pipe than their type says: slots for
 * operands of 32 bits and less, of 64 bits, for f32 and f64; special: that many slots of the pipe
 * for functions. */
static const struct {
    uint16_t op;
    uint8_t small, wide, single, twice, special;
} dear[] = {
    {PTX_OP_mov, 0, 0, 0, 0, 0},    {PTX_OP_cvta, 0, 0, 0, 0, 0},  {PTX_OP_div, 18, 70, 9, 22, 1},
    {PTX_OP_rem, 20, 75, 1, 1, 1},  {PTX_OP_sqrt, 1, 1, 8, 20, 1}, {PTX_OP_rcp, 1, 1, 6, 12, 1},
    {PTX_OP_rsqrt, 1, 1, 2, 10, 1}, {PTX_OP_ex2, 1, 1, 1, 1, 1},   {PTX_OP_lg2, 1, 1, 1, 1, 1},
    {PTX_OP_sin, 1, 1, 2, 1, 1},    {PTX_OP_cos, 1, 1, 2, 1, 1},   {PTX_OP_tanh, 1, 1, 1, 1, 1},
    {PTX_OP_mul, 1, 4, 1, 1, 0},    {PTX_OP_mad, 1, 4, 1, 1, 0},   {PTX_OP_neg, 0, 1, 0, 0, 0},
    {PTX_OP_popc, 1, 2, 1, 1, 1},   {PTX_OP_brev, 1, 2, 1, 1, 1},  {PTX_OP_bfind, 1, 2, 1, 1, 1},
    {PTX_OP_clz, 2, 3, 1, 1, 1},    {PTX_OP_abs, 1, 2, 0, 0, 0},
};

static bool approximate(const struct ptx_form *form)
{
    return ptx_has(form, PTX_MOD_approx) || ptx_has(form, PTX_MOD_full);
}

static void by_type(struct code *c, const struct ptx_form *form)
{
    uint8_t type = form->type_count ? form->types[form->type_count - 1] : PTX_TYPE_b32;
    bool is_float = ptx_types[type].class == PTX_FLOAT, wide = ptx_types[type].bits > 32;
    c->cost.pipe = !is_float ? PIPE_INT : type == PTX_TYPE_f64 ? PIPE_DOUBLE : PIPE_FLOAT;
    c->cost.slots = 1;
    c->cost.latency = c->cost.pipe == PIPE_DOUBLE ? DOUBLE : ALU;
    for (unsigned i = 0; i < sizeof dear / sizeof *dear; i++) {
        if (dear[i].op != form->op)
            continue;
        c->cost.slots = is_float ? wide ? dear[i].twice : dear[i].single
                        : wide   ? dear[i].wide
                                 : dear[i].small;
        if (dear[i].special && approximate(form))
            c->cost.slots = form->op == PTX_OP_div ? 2 : 1;
        if (dear[i].special && (is_float || dear[i].small < 10))
            c->cost.special = 1;
        c->cost.latency = (uint8_t)(c->cost.slots * ALU + (c->cost.special ? MUFU : 0));
        return;
    }
}

/* cvt between integers is arithmetic; others go through the pipe for functions. */
static void conversion(struct code *c, const struct ptx_form *form)
{
    bool floats = false;
    for (unsigned i = 0; i < form->type_count; i++)
        floats |= ptx_types[form->types[i]].class == PTX_FLOAT;
    bool same = form->type_count == 2 && form->types[0] == form->types[1];
    c->cost =
        (struct cost){.pipe = floats && same ? PIPE_FLOAT : PIPE_INT, .slots = 1, .latency = ALU};
    if (floats && !same)
        c->cost = (struct cost){.pipe = PIPE_NONE, .slots = 1, .special = 1, .latency = MUFU};
}

/* Multiply-adds of a matrix instruction, from the shape in its name. */
static uint32_t matrix_work(const struct ptx_form *form)
{
    const char *shape = strstr(form->text, ".m");
    unsigned m, n, k;
    for (; shape; shape = strstr(shape + 1, ".m"))
        if (sscanf(shape, ".m%un%uk%u", &m, &n, &k) == 3 && m <= 256 && n <= 256 && k <= 1024)
            return m * n * k;
    return 0;
}

void cost_of(struct code *c)
{
    const struct ptx_form *form = c->instr ? c->instr->form : NULL;
    bool direct = c->cost.direct;
    c->cost = (struct cost){.slots = 1, .latency = ALU, .direct = direct};
    if (!form || c->op == X_skip_if || c->op == X_skip_unless || c->op == X_negate ||
        c->op == X_ld_param || (c->op == X_load && direct)) {
        c->cost.slots = c->cost.latency = 0;
        return;
    }
    switch ((enum ptx_op)form->op) {
    case PTX_OP_ld:
    case PTX_OP_ldu:
    case PTX_OP_st:
    case PTX_OP_atom:
    case PTX_OP_red:
    case PTX_OP_cp_async: /* exec_traffic.c adds pipes and latency */
    case PTX_OP_bra:
    case PTX_OP_ret:
    case PTX_OP_exit:
        return;
    case PTX_OP_cvt:
        conversion(c, form);
        return;
    case PTX_OP_shfl:
        c->cost = (struct cost){.pipe = PIPE_SHARED, .slots = 1, .latency = SHUFFLE};
        return;
    default:
        by_type(c, form);
    }
    c->cost.work = matrix_work(form);
    if (c->cost.work)
        c->cost =
            (struct cost){.pipe = PIPE_NONE, .slots = 1, .latency = MATRIX, .work = c->cost.work};
}
