/* mbarrier objects: arrivals and bytes that are still expected, in 8 bytes of shared memory. Their
 * layout is ours: bits 0 to 19 pending arrivals, 20 to 39 expected ones, 40 to 60 pending bytes
 * (signed), 63 the phase. A block's threads run on one host thread, so nothing here is atomic. */
#include "exec_core.h"

#include <string.h>

enum { COUNT_BITS = 20, BYTES_BITS = 21, COUNT_MOST = (1 << COUNT_BITS) - 1 };
#define PHASE (UINT64_C(1) << 63)

struct mbarrier {
    uint32_t pending, expected;
    int32_t bytes;
    bool phase;
};

static struct mbarrier unpack(uint64_t word)
{
    int64_t bytes = (int64_t)(word << (64 - 2 * COUNT_BITS - BYTES_BITS)) >> (64 - BYTES_BITS);
    return (struct mbarrier){(uint32_t)word & COUNT_MOST,
                             (uint32_t)(word >> COUNT_BITS) & COUNT_MOST, (int32_t)bytes,
                             (word & PHASE) != 0};
}

static uint64_t pack(struct mbarrier b)
{
    uint64_t bytes = (uint64_t)(uint32_t)b.bytes & ((1u << BYTES_BITS) - 1);
    return b.pending | (uint64_t)b.expected << COUNT_BITS | bytes << (2 * COUNT_BITS) |
           (b.phase ? PHASE : 0);
}

static uint64_t *barrier_at(struct lane *lane, const union slot *R, const struct code *c)
{
    uint64_t address = operand_address(c, R);
    address = generic_address(c->kind, address);
    if (address >> 48 != WINDOW_SHARED) {
        lane_fault(lane, EXEC_ILLEGAL_ADDRESS, "mbarrier at 0x%llx, which is not shared memory",
                   (unsigned long long)address);
        return NULL;
    }
    return memory_at(lane, address, 8, true);
}

/* The phase is over when nothing is expected any more. */
static void complete(struct mbarrier *b)
{
    if (b->pending || b->bytes)
        return;
    b->phase = !b->phase;
    b->pending = b->expected;
}

static bool arrive(struct lane *lane, struct mbarrier *b, uint32_t count, bool drops)
{
    if (!count || count > b->pending)
        return lane_fault(lane, EXEC_TRAP, "%u arrivals at an mbarrier that waits for %u", count,
                          b->pending);
    b->pending -= count;
    if (drops)
        b->expected -= count < b->expected ? count : b->expected;
    complete(b);
    return true;
}

/* What arrive and its variants do; R[c->b] is a count or, with .expect_tx, a number of bytes. */
static bool arrival(struct lane *lane, union slot *R, const struct code *c, struct mbarrier *b)
{
    const struct ptx_form *form = c->instr->form;
    bool expects = strstr(form->text, ".expect_tx") != NULL;
    bool given = c->instr->operand_count > (ptx_role(c->instr, 0) == 'd' ? 2 : 1);
    uint64_t before = pack(*b);
    if (expects)
        b->bytes += R[c->b].s32;
    if (!arrive(lane, b, given && !expects ? R[c->b].u32 : 1,
                form->op == PTX_OP_mbarrier_arrive_drop))
        return false;
    R[c->d].u64 = before;
    return true;
}

/* bytes have come, of those that the mbarrier at a generic address expects. */
bool mbarrier_complete(struct lane *lane, uint64_t address, uint32_t bytes)
{
    uint64_t *word = memory_at(lane, address, 8, true);
    if (!word || address >> 48 != WINDOW_SHARED)
        return word ? lane_fault(lane, EXEC_ILLEGAL_ADDRESS, "mbarrier outside shared memory")
                    : false;
    struct mbarrier b = unpack(*word);
    b.bytes -= (int32_t)bytes;
    complete(&b);
    *word = pack(b);
    return true;
}

bool slow_mbarrier(struct lane *lane, union slot *R, const struct code *c)
{
    const struct ptx_form *form = c->instr->form;
    if (form->op == PTX_OP_mbarrier_pending_count) {
        R[c->d].u64 = unpack(R[c->a].u64).pending;
        return true;
    }
    uint64_t *word = barrier_at(lane, R, c);
    if (!word)
        return false;
    struct mbarrier b = unpack(*word);
    switch (form->op) {
    case PTX_OP_mbarrier_init:
        if (!R[c->b].u32 || R[c->b].u32 > COUNT_MOST)
            return lane_fault(lane, EXEC_TRAP, "mbarrier for %u arrivals", R[c->b].u32);
        b = (struct mbarrier){R[c->b].u32, R[c->b].u32, 0, false};
        break;
    case PTX_OP_mbarrier_inval:
        break;
    case PTX_OP_mbarrier_expect_tx:
        b.bytes += R[c->b].s32;
        break;
    case PTX_OP_mbarrier_complete_tx:
        b.bytes -= R[c->b].s32;
        complete(&b);
        break;
    case PTX_OP_cp_async_mbarrier_arrive: /* the copies are done already */
        if (ptx_has(form, PTX_MOD_noinc) && !arrive(lane, &b, 1, false))
            return false;
        break;
    case PTX_OP_mbarrier_arrive:
    case PTX_OP_mbarrier_arrive_drop:
        if (!arrival(lane, R, c, &b))
            return false;
        break;
    default: /* test_wait, try_wait: by a state or by a parity */
        R[c->d].u64 = ptx_has(form, PTX_MOD_parity) ? b.phase != (R[c->b].u32 & 1)
                                                    : b.phase != unpack(R[c->b].u64).phase;
        return true;
    }
    *word = pack(b);
    return true;
}
