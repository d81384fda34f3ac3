/* What remains: memory on the stack, hints to the caches, clusters of one block, bulk
 * copies, packed conversion.
 */
#include "exec_core.h"

#include <string.h>

/* alloca, stacksave, stackrestore. Memory comes from the end of the thread's local memory; a
 * function gives back what it took when it returns. */
bool slow_stack(struct lane *lane, union slot *R, const struct code *c)
{
    uint32_t room = lane->block->worker->launch->local_bytes;
    const struct frame *frame = lane->depth ? &lane->frames[lane->depth - 1] : NULL;
    uint32_t used = (frame ? frame->local_base : 0) + lane->func->local_bytes;
    switch (c->instr->form->op) {
    case PTX_OP_stacksave:
        R[c->d].u64 = lane->allocated;
        return true;
    case PTX_OP_stackrestore:
        if (R[c->a].u64 > lane->allocated)
            return lane_fault(lane, EXEC_TRAP, "stackrestore to what was not saved here");
        lane->allocated = R[c->a].u32;
        return true;
    default: {
        uint64_t align = c->instr->operand_count > 2 ? R[c->b].u64 : 8;
        if (!align || align & (align - 1) || align > 1024 || R[c->a].u64 > room)
            return lane_fault(lane, EXEC_ILLEGAL_ADDRESS, "alloca of %llu bytes",
                              (unsigned long long)R[c->a].u64);
        uint64_t size = lane->allocated + R[c->a].u64;
        size += (room - size) & (align - 1);
        if (size + used > room)
            return lane_fault(lane, EXEC_ILLEGAL_ADDRESS, "stack overflow in alloca");
        lane->allocated = (uint32_t)size;
        R[c->d].u64 = room - size;
        return true;
    }
    }
}

/* createpolicy, applypriority, discard: nothing to do, but operands must be right. */
bool slow_hint(struct lane *lane, union slot *R, const struct code *c)
{
    if (c->instr->form->op == PTX_OP_createpolicy) {
        R[c->d].u64 = 0;
        return true;
    }
    uint64_t address = operand_address(c, R);
    if (R[c->b].u32 != 128)
        return lane_fault(lane, EXEC_UNSUPPORTED, "%s of %u bytes", c->instr->form->text,
                          R[c->b].u32);
    return memory_at(lane, address, 128, c->instr->form->op == PTX_OP_discard) != NULL;
}

/* mapa, getctarank: the only block of a cluster has rank 0. */
bool slow_cluster(struct lane *lane, union slot *R, const struct code *c)
{
    if (c->instr->form->op == PTX_OP_getctarank) {
        R[c->d].u64 = 0;
        return true;
    }
    if (R[c->b].u32)
        return lane_fault(lane, EXEC_TRAP, "block %u of a cluster of one", R[c->b].u32);
    R[c->d].u64 = c->type == PTX_TYPE_u32 ? R[c->a].u32 : R[c->a].u64;
    return true;
}

/* cp.async.bulk between global and shared memory, done at once. */
bool slow_bulk(struct lane *lane, union slot *R, const struct code *c)
{
    const struct bulk *bulk = c->bulk;
    uint64_t at[BULK_ADDRESSES] = {0};
    uint32_t size = R[bulk->size].u32;
    for (unsigned i = 0; i < bulk->count; i++) {
        const struct code one = {
            .a = bulk->slots[i], .imm = bulk->offsets[i], .narrow = bulk->narrow[i]};
        at[i] = generic_address(bulk->spaces[i], operand_address(&one, R));
    }
    if (size % 16)
        return lane_fault(lane, EXEC_MISALIGNED, "bulk copy of %u bytes", size);
    for (uint32_t done = 0; done < size; done += 16) {
        const void *from = memory_at(lane, at[BULK_FROM] + done, 16, false);
        void *to = from ? memory_at(lane, at[BULK_TO] + done, 16, true) : NULL;
        if (!to)
            return false;
        memmove(to, from, 16);
    }
    return bulk->count < BULK_ADDRESSES || mbarrier_complete(lane, at[BULK_MBARRIER], size);
}

/* cvt.pack: two integers, cut to the first type, low part last; with a third operand its low bits
 * become the high ones. */
bool slow_cvt_pack(struct lane *lane, union slot *R, const struct code *c)
{
    const struct ptx_form *form = c->instr->form;
    unsigned bits = ptx_types[form->types[0]].bits;
    bool sign = ptx_types[form->types[0]].class == PTX_SIGNED;
    int64_t most = (INT64_C(1) << (sign ? bits - 1 : bits)) - 1, least = sign ? -most - 1 : 0;
    uint32_t mask = (1u << bits) - 1;
    const int32_t values[] = {R[c->b].s32, R[c->a].s32};
    uint64_t out = c->instr->operand_count > 3 ? R[c->c].u32 : 0;
    for (int i = 1; i >= 0; i--) {
        int64_t value = values[i] > most ? most : values[i] < least ? least : values[i];
        out = out << bits | ((uint32_t)value & mask);
    }
    R[c->d].u64 = (uint32_t)out;
    return true;
}
