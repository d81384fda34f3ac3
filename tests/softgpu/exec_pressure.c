/* An estimate of the registers that a thread of a kernel needs: the most 32-bit words that are
 * alive at once, in the order of the PTX text, a value being alive from its first to its last
 * mention and through every loop that it enters. What ptxas keeps elsewhere counts for nothing:
 * predicates, scalar parameters, numbers. Only for occupancy: never for correctness. */
#include "exec_core.h"

#include <stdlib.h>

enum { SYSTEM = 8, LEAST = 16, MOST = 255, SM_REGISTERS = 65536 };

struct alive {
    uint32_t first, last, defs;
    bool free; /* a parameter, a number, or an address made of one */
};

static void mention(struct alive *regs, uint32_t reg, uint32_t at)
{
    if (regs[reg].first == UINT32_MAX)
        regs[reg].first = at;
    regs[reg].last = at;
}

static void mention_operand(struct alive *regs, const struct ptx_operand *o, uint32_t at, bool def)
{
    if (o->reg != PTX_NO_REG && (o->kind == PTX_REG || o->kind == PTX_ADDRESS)) {
        mention(regs, o->reg, at);
        regs[o->reg].defs += def && o->kind == PTX_REG;
    }
    for (uint32_t i = 0; i < o->part_count; i++)
        mention_operand(regs, &o->parts[i], at, def);
}

/* A value that needs no register if nothing else is ever put there. */
static bool costs_nothing(const struct alive *regs, const struct ptx_instr *instr)
{
    const struct ptx_operand *o = instr->operands;
    if (instr->operand_count != 2 || o[0].kind != PTX_REG)
        return false;
    switch (instr->form->op) {
    case PTX_OP_ld:
        return instr->form->space == PTX_SPACE_param && o[1].reg == PTX_NO_REG;
    case PTX_OP_mov:
        return o[1].kind == PTX_INT || o[1].kind == PTX_F32 || o[1].kind == PTX_F64 ||
               o[1].kind == PTX_SYMBOL;
    case PTX_OP_cvta:
        return o[1].kind == PTX_REG && regs[o[1].reg].free;
    default:
        return false;
    }
}

static void mention_all(struct alive *regs, const struct ptx_func *ptx)
{
    for (uint32_t i = 0; i < ptx->instr_count; i++) {
        const struct ptx_instr *instr = &ptx->instrs[i];
        if (instr->guard != PTX_NO_REG)
            mention(regs, instr->guard, i);
        bool nothing = costs_nothing(regs, instr);
        for (unsigned k = 0; k < instr->operand_count; k++)
            mention_operand(regs, &instr->operands[k], i, k == 0);
        if (nothing)
            regs[instr->operands[0].reg].free = true;
    }
}

/* Values that enter a loop stay to its end. */
static void extend(struct alive *regs, const struct ptx_func *ptx)
{
    for (uint32_t i = 0; i < ptx->instr_count; i++) {
        const struct ptx_instr *instr = &ptx->instrs[i];
        const struct ptx_operand *o = instr->operands;
        if (instr->opaque || instr->form->op != PTX_OP_bra || o[0].kind != PTX_LABEL)
            continue;
        uint32_t top = ptx->labels[o[0].label].instr;
        for (uint32_t r = 0; top <= i && r < ptx->reg_count; r++)
            if (regs[r].first < top && regs[r].last >= top && regs[r].last < i)
                regs[r].last = i;
    }
}

static uint32_t words_of(const struct ptx_func *ptx, const struct alive *regs, uint32_t r)
{
    uint8_t type = ptx->regs[r].type;
    if (regs[r].first == UINT32_MAX || ptx_types[type].bits < 8 || type == PTX_TYPE_pred ||
        (regs[r].free && regs[r].defs == 1))
        return 0;
    return (ptx_types[type].bits + 31) / 32;
}

static uint32_t most_alive(const struct ptx_func *ptx, const struct alive *regs)
{
    int64_t now = 0, most = 0;
    int32_t *change = calloc(ptx->instr_count + 2, sizeof *change);
    if (!change)
        return MOST;
    for (uint32_t r = 0; r < ptx->reg_count; r++) {
        uint32_t words = words_of(ptx, regs, r);
        if (!words)
            continue;
        change[regs[r].first] += (int32_t)words;
        change[regs[r].last] -= (int32_t)words; /* the last reader's result may take its place */
    }
    for (uint32_t i = 0; i < ptx->instr_count; i++) {
        now += change[i];
        most = now > most ? now : most;
    }
    free(change);
    return most > MOST ? MOST : (uint32_t)most;
}

uint32_t registers_of(const struct ptx_func *ptx, uint32_t max_threads)
{
    struct alive *regs = malloc(sizeof *regs * (ptx->reg_count + 1));
    uint32_t out = MOST, allowed = max_threads ? SM_REGISTERS / max_threads : MOST;
    if (regs) {
        for (uint32_t r = 0; r < ptx->reg_count; r++)
            regs[r] = (struct alive){.first = UINT32_MAX};
        mention_all(regs, ptx);
        extend(regs, ptx);
        extend(regs, ptx); /* loops in loops */
        out = SYSTEM + most_alive(ptx, regs);
        free(regs);
    }
    out = out > allowed ? allowed & ~7u : out;
    return out < LEAST ? LEAST : out > MOST ? MOST : out;
}
