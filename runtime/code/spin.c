/* Loops that wait for memory to change: another block, the host or a device must write what they
 * read before they go on. A simple form that errs on the side of finding one. A loop is the code
 * between a label and a later branch back to it. It waits if
 *   - it reads or exchanges memory at an address, and with operands, that do not change in it, and
 *   - the branches that decide whether it goes on depend on what was read, and
 *   - nothing they depend on makes progress by itself, as a counter does.
 * A compare-and-swap loop that computes its new value from the old one does not wait. */
#include "parts.h"

#include <stdlib.h>

enum { WORK_MAX = 20000000 }; /* instruction visits in a function: a fraction of a second */

/* Of a register, while one loop is looked at. */
struct state {
    uint32_t unsettled; /* writes that (indirectly) feed on themselves, memory left out */
    uint32_t varying;   /* writes that are not the same in every turn */
    bool decides;       /* a branch that decides whether the loop goes on depends on it */
};

struct loop {
    const struct ptx_func *func;
    uint32_t first, last; /* instructions; last branches back */
    bool barrier;
    struct state *states; /* of registers */
    uint8_t *done;        /* of instructions from first: see peel */
    uint64_t work;
};

/* One look at the registers that an instruction reads or writes. */
struct look {
    struct loop *loop;
    bool varying; /* whether the peeling at hand is that of `varying` */
    bool pending, decides, mark, changed, drop, add;
};

static void see(void *self, const struct ptx_operand *operand)
{
    struct look *look = self;
    if ((operand->kind != PTX_REG && operand->kind != PTX_ADDRESS) ||
        operand->reg >= look->loop->func->reg_count)
        return;
    struct state *state = &look->loop->states[operand->reg];
    uint32_t *count = look->varying ? &state->varying : &state->unsettled;
    *count += look->add;
    *count -= look->drop && *count;
    look->pending |= *count > 0;
    look->decides |= state->decides;
    look->changed |= look->mark && !state->decides;
    state->decides |= look->mark;
}

static void look_at(struct look *look, const struct ptx_instr *instr, bool writes)
{
    look->loop->work++;
    look->pending = look->decides = false;
    for (unsigned i = 0; i < instr->operand_count; i++) {
        char role = ptx_role(instr, i);
        bool written = (role == 'd' || role == 'b') && instr->operands[i].kind != PTX_ADDRESS;
        if (writes ? written : role != 'd')
            operand_each(&instr->operands[i], see, look);
    }
    if (!writes && instr->guard != PTX_NO_REG)
        see(look, &(struct ptx_operand){.kind = PTX_REG, .reg = instr->guard});
}

static bool reads_memory(const struct loop *loop, const struct ptx_instr *instr)
{
    enum ptx_space space = instr->form->space;
    if (!(ptx_effects(instr) & (PTX_READS | PTX_WORST)) || ptx_has(instr->form, PTX_MOD_nc))
        return false;
    return space == PTX_SPACE_generic || space == PTX_SPACE_global ||
           (space == PTX_SPACE_shared && !loop->barrier);
}

/* Takes away, again and again, the writes of instructions all of whose sources have no writes left:
 * what stays depends on itself. Reads of memory count as sources from outside, or (varying) as
 * never the same. */
static void peel(struct loop *loop, bool varying)
{
    bool again = true;
    memset(loop->done, 0, loop->last - loop->first + 1);
    while (again && loop->work < WORK_MAX) {
        again = false;
        for (uint32_t i = loop->first; i <= loop->last; i++) {
            const struct ptx_instr *instr = &loop->func->instrs[i];
            struct look look = {.loop = loop, .varying = varying};
            if (loop->done[i - loop->first])
                continue;
            look_at(&look, instr, false);
            bool memory = reads_memory(loop, instr);
            if (varying ? memory || look.pending : !memory && look.pending)
                continue;
            look.drop = true;
            look_at(&look, instr, true);
            loop->done[i - loop->first] = 1;
            again = true;
        }
    }
}

static bool leaves(const struct loop *loop, uint32_t index)
{
    const struct ptx_instr *instr = &loop->func->instrs[index];
    if (instr->guard == PTX_NO_REG)
        return false;
    if (index == loop->last || ptx_effects(instr) & PTX_LEAVES)
        return true;
    if (instr->form->op != PTX_OP_bra || !instr->operand_count ||
        instr->operands[0].label >= loop->func->label_count)
        return false;
    uint32_t target = loop->func->labels[instr->operands[0].label].instr;
    return target < loop->first || target > loop->last;
}

/* Marks what the deciding branches depend on. */
static void mark_deciding(struct loop *loop)
{
    for (uint32_t i = loop->first; i <= loop->last; i++)
        if (leaves(loop, i) && loop->func->instrs[i].guard < loop->func->reg_count)
            loop->states[loop->func->instrs[i].guard].decides = true;
    bool again = true;
    while (again && loop->work < WORK_MAX) {
        again = false;
        for (uint32_t i = loop->last + 1; i-- > loop->first;) {
            struct look look = {.loop = loop};
            look_at(&look, &loop->func->instrs[i], true);
            if (!look.decides)
                continue;
            look.mark = true;
            look_at(&look, &loop->func->instrs[i], false);
            again |= look.changed;
        }
    }
}

static bool waits(struct loop *loop)
{
    memset(loop->states, 0, loop->func->reg_count * sizeof *loop->states);
    loop->barrier = false;
    for (uint32_t i = loop->first; i <= loop->last; i++) {
        struct look look = {.loop = loop, .add = true};
        look_at(&look, &loop->func->instrs[i], true);
        look.varying = true;
        look_at(&look, &loop->func->instrs[i], true);
        loop->barrier |= (ptx_effects(&loop->func->instrs[i]) & PTX_BARRIER) != 0;
    }
    peel(loop, false);
    peel(loop, true);
    mark_deciding(loop);
    for (uint32_t i = 0; i < loop->func->reg_count; i++)
        if (loop->states[i].decides && loop->states[i].unsettled)
            return false;
    for (uint32_t i = loop->first; i <= loop->last; i++) {
        const struct ptx_instr *instr = &loop->func->instrs[i];
        struct look read = {.loop = loop, .varying = true}, written = {.loop = loop};
        if (!reads_memory(loop, instr))
            continue;
        look_at(&read, instr, false);
        look_at(&written, instr, true);
        if (!read.pending && written.decides)
            return true;
    }
    return false;
}

static uint32_t scan(struct loop *loop)
{
    const struct ptx_func *func = loop->func;
    for (uint32_t i = 0; i < func->instr_count; i++) {
        const struct ptx_instr *instr = &func->instrs[i];
        if (instr->form->op != PTX_OP_bra || !instr->operand_count ||
            instr->operands[0].label >= func->label_count)
            continue;
        loop->first = func->labels[instr->operands[0].label].instr;
        loop->last = i;
        loop->work += func->reg_count / 8;
        if (loop->first > i)
            continue;
        if (waits(loop))
            return instr->place.line;
        if (loop->work >= WORK_MAX)
            return UINT32_MAX;
    }
    return 0;
}

uint32_t spin_find(const struct ptx_func *func)
{
    struct loop loop = {.func = func};
    loop.states = malloc((func->reg_count + 1) * sizeof *loop.states);
    loop.done = malloc(func->instr_count + 1);
    uint32_t line = loop.states && loop.done ? scan(&loop) : UINT32_MAX;
    free(loop.states);
    free(loop.done);
    return line;
}
