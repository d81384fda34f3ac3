/* Memory of the software GPU: checked addresses, vector accesses, atomics, asynchronous copies
 * (done at once). */
#include "exec_core.h"

#include <math.h>
#include <string.h>

static void *out_of(struct lane *lane, const char *space, uint64_t offset, uint32_t size,
                    uint64_t room, bool write)
{
    lane_fault(lane, EXEC_ILLEGAL_ADDRESS, "%s of %u bytes at %s address 0x%llx, which has %llu",
               write ? "write" : "read", size, space, (unsigned long long)offset,
               (unsigned long long)room);
    return NULL;
}

static void *window_at(struct lane *lane, unsigned char *memory, uint64_t room, const char *space,
                       uint64_t address, uint32_t size, bool write)
{
    uint64_t offset = address & (WINDOW_BASE(1) - 1);
    if (size > room || offset > room - size)
        return out_of(lane, space, offset, size, room, write);
    return memory + offset;
}

static void *shared_at(struct lane *lane, uint64_t address, uint32_t size, bool write)
{
    const struct launch *launch = lane->block->worker->launch;
    uint64_t offset = address & (WINDOW_BASE(1) - 1);
    if (launch->gap != launch->dynamic && offset < launch->dynamic && offset + size > launch->gap) {
        lane_fault(lane, EXEC_ILLEGAL_ADDRESS,
                   "%s of %u bytes at shared address 0x%llx, which is %llu before the dynamic part "
                   "and behind the kernel's variables",
                   write ? "write" : "read", size, (unsigned long long)offset,
                   (unsigned long long)(launch->dynamic - offset));
        return NULL;
    }
    return window_at(lane, lane->block->shared, launch->shared_bytes, "shared", address, size,
                     write);
}

static void *global_find(struct lane *lane, uint64_t address, uint32_t size, bool write)
{
    struct worker *worker = lane->block->worker;
    const struct exec_memory *memory = &worker->launch->kernel->func->module->memory;
    struct exec_range *cached = worker->cached, found = {0};
    bool freed = false;
    unsigned at = 0;
    while (at < RANGES - 1 && address - cached[at].base >= cached[at].size)
        at++;
    if (address - cached[at].base < cached[at].size)
        found = cached[at];
    else if (!memory->find(address, &found)) {
        freed = address - found.base < found.size;
        found = (struct exec_range){0};
    }
    if (address - found.base >= found.size || found.size - (address - found.base) < size) {
        lane_fault(lane, EXEC_ILLEGAL_ADDRESS, "%s of %u bytes at 0x%llx, %s",
                   write ? "write" : "read", size, (unsigned long long)address,
                   found.size ? "which reaches beyond its allocation"
                   : freed    ? "which was freed"
                              : "which is not allocated");
        return NULL;
    }
    for (; at; at--)
        cached[at] = cached[at - 1];
    cached[0] = found;
    if (write && !found.writable) {
        lane_fault(lane, EXEC_ILLEGAL_ADDRESS, "write of %u bytes at 0x%llx, which is read-only",
                   size, (unsigned long long)address);
        return NULL;
    }
    record_touch(worker->launch, address, size, write);
    return (void *)(uintptr_t)address;
}

static void *resolve(struct lane *lane, uint64_t address, uint32_t size, bool write)
{
    const struct launch *launch = lane->block->worker->launch;
    if (address & (size - 1)) {
        lane_fault(lane, EXEC_MISALIGNED, "%s of %u bytes at misaligned address 0x%llx",
                   write ? "write" : "read", size, (unsigned long long)address);
        return NULL;
    }
    switch (address >> 48) {
    case WINDOW_GLOBAL:
        return global_find(lane, address, size, write);
    case WINDOW_SHARED:
        return shared_at(lane, address, size, write);
    case WINDOW_LOCAL:
        return window_at(lane, lane->local, launch->local_bytes, "local", address, size, write);
    case WINDOW_PARAM:
        if (!write)
            return window_at(lane, (unsigned char *)launch->params,
                             launch->kernel->info.param_bytes, "parameter", address, size, write);
    }
    lane_fault(lane, EXEC_ILLEGAL_ADDRESS, "%s of %u bytes at 0x%llx%s", write ? "write" : "read",
               size, (unsigned long long)address,
               address >> 48 == WINDOW_NONE ? ", which is outside the instruction's state space"
                                            : "");
    return NULL;
}

void *memory_at(struct lane *lane, uint64_t address, uint32_t size, bool write)
{
    void *at = resolve(lane, address, size, write);
    if (at && lane->block->worker->launch->config->strict &&
        !strict_access(lane, address, at, size, write))
        return NULL;
    return at;
}

static void *operand_at(struct lane *lane, const union slot *R, const struct code *c, uint32_t size,
                        bool write)
{
    uint64_t address = operand_address(c, R);
    return memory_at(lane, generic_address(c->kind, address), size, write);
}

/* ---- atomics --------------------------------------------------------------------------------- */

static uint64_t ordered(unsigned op, uint8_t type, uint64_t old, uint64_t b)
{
    union slot x = {.u64 = old}, y = {.u64 = b};
    bool less;
    switch (type) {
    case PTX_TYPE_u32:
        less = x.u32 < y.u32;
        break;
    case PTX_TYPE_s32:
        less = x.s32 < y.s32;
        break;
    case PTX_TYPE_s64:
        less = x.s64 < y.s64;
        break;
    default:
        less = x.u64 < y.u64;
    }
    return less == (op == PTX_MOD_min) ? old : b;
}

static uint64_t sum(uint8_t type, uint64_t old, uint64_t b, bool flushes)
{
    union slot x = {.u64 = old}, y = {.u64 = b}, z = {0};
    unsigned bits = ptx_types[type].bits;
    if (type == PTX_TYPE_f32)
        z.f32 = float_op(PTX_OP_add, flushes ? FTZ : 0, x.f32, y.f32, 0);
    else if (type == PTX_TYPE_f64)
        z.f64 = !flushes         ? chosen_nan(x.f64 + y.f64, y.f64, x.f64, 0) /* as by add */
                : y.f64 != y.f64 ? y.f64
                : x.f64 != x.f64 ? x.f64
                                 : x.f64 + y.f64;
    else if (ptx_types[type].class != PTX_FLOAT)
        z.u64 = old + b;
    else
        for (unsigned shift = 0; shift < bits; shift += 16)
            z.u64 |= (uint64_t)small_from_double(
                         type,
                         small_to_double(type, (uint32_t)(old >> shift) & 0xffff) +
                             small_to_double(type, (uint32_t)(b >> shift) & 0xffff),
                         0)
                     << shift;
    return z.u64;
}

/* Of floats of 16 bits. */
static uint64_t least_or_most(unsigned op, uint8_t type, uint64_t old, uint64_t b)
{
    uint64_t out = 0;
    for (unsigned shift = 0; shift < ptx_types[type].bits; shift += 16) {
        double x = small_to_double(type, (uint32_t)(old >> shift) & 0xffff);
        double y = small_to_double(type, (uint32_t)(b >> shift) & 0xffff);
        double z = op == PTX_MOD_min ? min_f64(x, y) : max_f64(x, y);
        out |= (uint64_t)small_from_double(type, z, 0) << shift;
    }
    return out;
}

/* What memory holds afterwards. */
static uint64_t combine(unsigned op, uint8_t type, uint64_t old, uint64_t b, uint64_t c,
                        bool flushes)
{
    switch (op) {
    case PTX_MOD_add:
        return sum(type, old, b, flushes);
    case PTX_MOD_and:
        return old & b;
    case PTX_MOD_or:
        return old | b;
    case PTX_MOD_xor:
        return old ^ b;
    case PTX_MOD_exch:
        return b;
    case PTX_MOD_cas:
        return old == b ? c : old;
    case PTX_MOD_inc:
        return (uint32_t)old >= (uint32_t)b ? 0 : (uint32_t)old + 1;
    case PTX_MOD_dec:
        return (uint32_t)old == 0 || (uint32_t)old > (uint32_t)b ? b : (uint32_t)old - 1;
    default:
        return ptx_types[type].class == PTX_FLOAT ? least_or_most(op, type, old, b)
                                                  : ordered(op, type, old, b);
    }
}

static unsigned operation_of(const struct ptx_form *form)
{
    for (unsigned i = 0; i < form->mod_count; i++)
        if (form->mods[i] >= PTX_MOD_and && form->mods[i] <= PTX_MOD_max)
            return form->mods[i];
    return PTX_MOD_none;
}

#define EXCHANGE(word)                                                                             \
    do {                                                                                           \
        word seen = __atomic_load_n((word *)at, __ATOMIC_ACQUIRE);                                 \
        while (!__atomic_compare_exchange_n((word *)at, &seen,                                     \
                                            (word)combine(op, c->type, seen, b, other, flushes),   \
                                            true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))             \
            continue;                                                                              \
        old = seen;                                                                                \
    } while (0)

/* Element by element: of a vector each one is an atomic operation. */
static bool atomic_element(struct lane *lane, const union slot *R, const struct code *c,
                           uint64_t offset, uint32_t operand, uint64_t *out)
{
    unsigned bits = ptx_types[c->type].bits, op = operation_of(c->instr->form);
    uint64_t mask = ~UINT64_C(0) >> (64 - bits), old;
    struct code one = *c;
    one.imm += (int64_t)offset;
    void *at = operand_at(lane, R, &one, bits / 8, true);
    if (!at || !operand_at(lane, R, &one, bits / 8, false)) /* written and read */
        return false;
    uint64_t b = R[operand].u64 & mask, other = R[c->c].u64 & mask;
    bool flushes = c->kind == PTX_SPACE_global; /* of single precision, in global memory only */
    if (bits == 16)
        EXCHANGE(uint16_t);
    else if (bits == 32)
        EXCHANGE(uint32_t);
    else
        EXCHANGE(uint64_t);
    *out = old;
    return true;
}

bool slow_atomic(struct lane *lane, union slot *R, const struct code *c)
{
    const struct ptx_form *form = c->instr->form;
    unsigned bits = ptx_types[c->type].bits, op = operation_of(form);
    bool wide = ptx_types[c->type].class == PTX_FLOAT && bits >= 32 && c->type != PTX_TYPE_f16x2 &&
                c->type != PTX_TYPE_bf16x2; /* only added */
    bool returns = form->op == PTX_OP_atom;
    uint64_t old[8] = {0};
    if (!op || c->count > 8 || (wide && op != PTX_MOD_add))
        return lane_fault(lane, EXEC_UNSUPPORTED, "%s is not implemented", form->text);
    if (c->count < 2) {
        if (!atomic_element(lane, R, c, 0, c->b, old))
            return false;
        if (returns)
            R[c->d].u64 = old[0];
        return true;
    }
    if (!operand_at(lane, R, c, c->count * bits / 8, true)) /* aligned as a whole */
        return false;
    const uint32_t *operands = c->list + (returns ? c->count : 0);
    for (unsigned i = 0; i < c->count; i++)
        if (!atomic_element(lane, R, c, i * bits / 8, operands[i], &old[i]))
            return false;
    for (unsigned i = 0; returns && i < c->count; i++)
        R[c->list[i]].u64 = old[i];
    return true;
}

bool slow_copy_async(struct lane *lane, union slot *R, const struct code *c)
{
    int64_t offset;
    memcpy(&offset, c->list, sizeof offset);
    uint32_t size = c->width, given = R[c->c].u32;
    if ((size != 4 && size != 8 && size != 16) || given > size)
        return lane_fault(lane, EXEC_UNSUPPORTED, "copy of %u of %u bytes", given, size);
    unsigned char *to = operand_at(lane, R, c, size, true);
    const unsigned char *from = NULL;
    if (to && given)
        from = memory_at(lane, generic_address(PTX_SPACE_global, R[c->b].u64 + (uint64_t)offset),
                         size, false);
    if (!to || (given && !from))
        return false;
    memset(to, 0, size);
    if (given)
        memcpy(to, from, given);
    return true;
}
