/* Values of 128 bits: registers in two slots each, moves, and atomics. Loads and stores of them are
 * exec_access.c's. */
#include "exec_decode.h"

#include <stdlib.h>

/* ---- decoding -------------------------------------------------------------------------------- */

static uint32_t high_slot(struct decoder *x, uint32_t reg)
{
    if (!x->high)
        x->high = calloc(x->ptx->reg_count + 1, sizeof *x->high);
    if (!x->high) {
        x->failed = true;
        return 0;
    }
    if (!x->high[reg])
        x->high[reg] = new_slot(x, 0);
    return x->high[reg];
}

/* A register of 128 bits, or two values of 64. */
static void halves(struct decoder *x, const struct ptx_operand *o, uint32_t out[2])
{
    out[0] = out[1] = 0; /* the sink */
    if (o->kind == PTX_REG && !o->component && ptx_types[x->ptx->regs[o->reg].type].bits == 128) {
        out[0] = reg_slot(o->reg);
        out[1] = high_slot(x, o->reg);
    } else if (o->kind == PTX_VECTOR && o->part_count == 2) {
        out[0] = slot_of(x, &o->parts[0], PTX_TYPE_b64);
        out[1] = slot_of(x, &o->parts[1], PTX_TYPE_b64);
    } else if (o->kind != PTX_SINK) {
        x->unsupported = true;
    }
}

const uint32_t *wide_list(struct decoder *x, const struct ptx_operand *o, unsigned count)
{
    uint32_t *list = arena_alloc(&x->module->arena, sizeof *list * 2 * count);
    x->failed |= !list;
    if (count > 1 && (o->kind != PTX_VECTOR || o->part_count != count))
        x->unsupported = true;
    for (unsigned i = 0; i < count && !x->failed && !x->unsupported; i++)
        halves(x, count > 1 ? &o->parts[i] : o, list + 2 * i);
    return list;
}

void wide_move(struct decoder *x, const struct ptx_instr *instr)
{
    uint32_t to[2], from[2];
    if (instr->operand_count != 2 || instr->form->mod_count) {
        x->unsupported = true;
        return;
    }
    halves(x, &instr->operands[0], to);
    halves(x, &instr->operands[1], from);
    for (int i = 0; i < 2; i++) {
        struct code *c = emit(x, X_mov, instr);
        c->type = PTX_TYPE_b64;
        c->d = to[i];
        c->a = from[i];
    }
}

/* The list: halves of the result, of the operand, and for cas of what is written. */
void wide_atomic(struct decoder *x, const struct ptx_instr *instr)
{
    const struct ptx_form *form = instr->form;
    const struct ptx_operand *o = instr->operands;
    bool compares = ptx_has(form, PTX_MOD_cas), hinted = ptx_has(form, PTX_MOD_L2_cache_hint);
    uint32_t *list = arena_alloc(&x->module->arena, sizeof *list * 6);
    struct code c = {
        .op = X_slow, .instr = instr, .slow = form_slow(form), .type = PTX_TYPE_b128, .count = 2};
    if (!list || !c.slow || instr->operand_count != 3u + compares + hinted) {
        x->failed |= !list;
        x->unsupported = true;
        return;
    }
    halves(x, &o[0], list);
    halves(x, &o[2], list + 2);
    halves(x, &o[compares ? 3 : 2], list + 4);
    c.list = list;
    c.kind = (uint8_t)address_of(x, &o[1], form->space, &c);
    *emit(x, c.op, instr) = c;
}

/* ---- execution ------------------------------------------------------------------------------- */

typedef unsigned __int128 wide;

static wide joined(const union slot *R, const uint32_t *list)
{
    return (wide)R[list[1]].u64 << 64 | R[list[0]].u64;
}

/* What stood at `word`, where `value` stands afterwards, if the word was *expected or nothing is.
 */
static wide exchange(wide *word, const wide *expected, wide value)
{
    wide seen = 0, was; /* a guess: what is there comes back */
    while ((was = __sync_val_compare_and_swap(
                word, seen, expected && seen != *expected ? seen : value)) != seen)
        seen = was;
    return was;
}

bool slow_wide_atomic(struct lane *lane, union slot *R, const struct code *c)
{
    uint64_t address = generic_address(c->kind, operand_address(c, R));
    const uint32_t *list = c->list;
    wide *at = memory_at(lane, address, sizeof *at, true);
    if (!at || !memory_at(lane, address, sizeof *at, false)) /* written and read */
        return false;
    if ((uintptr_t)at % sizeof *at)
        return lane_fault(lane, EXEC_MISALIGNED, "%s outside of global and shared memory",
                          c->instr->form->text);
    wide operand = joined(R, list + 2);
    wide old =
        exchange(at, ptx_has(c->instr->form, PTX_MOD_cas) ? &operand : NULL, joined(R, list + 4));
    R[list[0]].u64 = (uint64_t)old;
    R[list[1]].u64 = (uint64_t)(old >> 64);
    return true;
}
