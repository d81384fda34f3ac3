/* The inner loop: executes one thread until it has to wait for others, ends, faults, or has used
 * up its time slice. Everything in exec_ops.def happens here, in place. */
#include "exec_core.h"

#include <math.h>
#include <string.h>

#define likely(x) __builtin_expect(!!(x), 1)

/* Every NaN that an operation of single precision makes is this one. */
static inline float canonical(float value)
{
    union slot nan = {.u64 = 0x7fffffff};
    return likely(value == value) ? value : nan.f32;
}

static inline uint32_t double_high(double value)
{
    union slot bits = {.f64 = value};
    return (uint32_t)(bits.u64 >> 32);
}

static inline void *global_at(struct lane *lane, uint64_t address, uint32_t size, bool write)
{
    const struct exec_range *range = &lane->block->worker->cached[0];
    if (likely(address - range->base < range->size && !(address & (size - 1)) &&
               range->size - (address - range->base) >= size && (!write || range->writable)))
        return (void *)(uintptr_t)address;
    if (address >> 48) {
        lane_fault(lane, EXEC_ILLEGAL_ADDRESS, "address 0x%llx is not global memory",
                   (unsigned long long)address);
        return NULL;
    }
    return memory_at(lane, address, size, write);
}

static inline void *shared_at(struct lane *lane, uint64_t address, uint32_t size, bool write)
{
    uint32_t room = lane->block->worker->launch->shared_bytes;
    if (likely(room >= size && address <= room - size && !(address & (size - 1))))
        return lane->block->shared + address;
    return memory_at(lane, WINDOW_BASE(WINDOW_SHARED) + address, size, write);
}

static inline void *local_at(struct lane *lane, uint64_t address, uint32_t size, bool write)
{
    uint32_t room = lane->block->worker->launch->local_bytes;
    if (likely(room >= size && address <= room - size && !(address & (size - 1))))
        return lane->local + address;
    return memory_at(lane, WINDOW_BASE(WINDOW_LOCAL) + address, size, write);
}

static uint64_t timer(const struct lane *lane, unsigned special, uint64_t executed)
{
    switch (special) {
    case PTX_SR_clock:
        return (uint32_t)executed;
    case PTX_SR_clock_hi:
        return executed >> 32;
    case PTX_SR_clock64:
        return executed;
    case PTX_SR_globaltimer_lo:
        return (uint32_t)now_ns();
    case PTX_SR_globaltimer_hi:
        return now_ns() >> 32;
    default:
        return now_ns();
    }
}

#define D(field) R[c->d].field
#define A(field) R[c->a].field
#define B(field) R[c->b].field
#define C(field) R[c->c].field
#define MEMORY(type, at, write)                                                                    \
    lane->pc = c; /* for a fault's text */                                                         \
    void *memory =                                                                                 \
        at(lane, (c->narrow ? A(u32) : A(u64)) + (uint64_t)c->imm, sizeof(type), write);           \
    if (!memory)                                                                                   \
    goto fault

bool lane_run(struct lane *lane)
{
    struct worker *worker = lane->block->worker;
    const struct code *c = lane->pc, *first;
    union slot *R = lane->R;
    uint64_t executed = 0;
    bool good = true;
reload: /* after a call or return */
    first =
        lane->depth ? lane->frames[lane->depth - 1].func->code : worker->launch->kernel->func->code;
    for (;; executed++) {
        switch ((enum exec_op)c->op) {
#define ROW(id, text, ...)                                                                         \
    case X_##id: {                                                                                 \
        __VA_ARGS__;                                                                               \
    }                                                                                              \
        c++;                                                                                       \
        continue;
#include "exec_ops.def"
        case X_mov:
            R[c->d].u64 = R[c->a].u64;
            c++;
            continue;
        case X_ld_param: {
            uint64_t bits;
            memcpy(&bits, worker->launch->params + c->imm, sizeof bits);
            D(u64) = bits & (~UINT64_C(0) >> (64 - 8 * c->width));
            c++;
            continue;
        }
        case X_special:
            D(u64) = timer(lane, c->a, worker->instructions + executed);
            c++;
            continue;
        case X_slow:
            lane->pc = c;
            if (!c->slow(lane, R, c))
                goto fault;
            c++;
            continue;
        case X_skip_if:
        case X_skip_unless:
            if ((A(u32) != 0) == (c->op == X_skip_if)) {
                c = first + c->imm;
            } else {
                c++;
                executed--;
            }
            continue;
        case X_negate:
            D(u32) = !A(u32);
            c++;
            executed--;
            continue;
        case X_bra_if:
            if (A(u32))
                goto branch;
            c++;
            continue;
        case X_bra_unless:
            if (!A(u32))
                goto branch;
            c++;
            continue;
        case X_bra:
        branch:
            c = first + c->imm;
            if (likely(--worker->fuel))
                continue;
            executed++;
            goto leave;
        case X_brx:
            lane->pc = c;
            if (A(u32) >= c->list[0]) {
                lane_fault(lane, EXEC_TRAP, "branch index %u is beyond %u targets", A(u32),
                           c->list[0]);
                goto fault;
            }
            c = first + c->list[1 + A(u32)];
            continue;
        case X_call:
            lane->pc = c + 1;
            if (!lane_call(lane, c))
                goto fault;
            c = lane->pc;
            R = lane->R;
            executed++;
            goto reload;
        case X_ret:
            lane_return(lane);
            c = lane->pc;
            R = lane->R;
            executed++;
            goto reload;
        case X_exit:
            lane->state = DONE;
            executed++;
            goto leave;
        case X_trap:
            lane->pc = c;
            lane_fault(lane, EXEC_TRAP, "trap");
            goto fault;
        case X_yield:
            c++;
            executed++;
            goto leave;
        case X_barrier:
        case X_arrive:
            lane->pc = c;
            if (A(u32) >= BARRIERS) {
                lane_fault(lane, EXEC_TRAP, "barrier %u does not exist", A(u32));
                goto fault;
            }
            executed++;
            if (c->op == X_arrive) {
                lane->block->arrived[A(u32)]++;
                c++;
                goto leave; /* the barrier may be complete now */
            }
            lane->state = AT_BARRIER;
            goto leave;
        case X_collective:
            lane->state = AT_COLLECTIVE;
            executed++;
            goto leave;
        case X_unsupported:
        case X_COUNT:
            lane->pc = c;
            lane_fault(lane, EXEC_UNSUPPORTED, "%s is not implemented", c->instr->form->text);
            goto fault;
        }
    }
fault:
    good = false;
leave:
    lane->pc = c;
    worker->instructions += executed;
    return good;
}
