/* Loads and stores of a group of lanes. The usual access lies in the range used last, in shared or
 * in local memory, aligned: then it is a plain loop. Any other goes lane by lane through memory_at,
 * which checks, records and reports. */
#include "exec_core.h"

#include <string.h>

struct access {
    uint64_t address[WARP]; /* as the space counts */
    unsigned char *at[WARP];
};

#define EACH_LANE(statement)                                                                       \
    if (mask == UINT32_MAX)                                                                        \
        for (unsigned i = 0; i < WARP; i++)                                                        \
            statement;                                                                             \
    else                                                                                           \
        for (uint32_t rest = mask; rest; rest &= rest - 1) {                                       \
            unsigned i = (unsigned)__builtin_ctz(rest);                                            \
            statement;                                                                             \
        }

static inline void addresses(const struct group *g, const struct code *c, uint64_t *out)
{
    const union slot *a = g->R + c->a;
    uint64_t offset = (uint64_t)c->imm;
    uint32_t mask = g->mask;
    if (c->narrow)
        EACH_LANE(out[i] = (uint32_t)(a[i].u32 + offset))
    else
        EACH_LANE(out[i] = a[i].u64 + offset)
}

/* Every active address is aligned and in [base, base + size). */
static inline bool all_in(const uint64_t *address, uint32_t mask, uint64_t base, uint64_t size,
                          uint32_t bytes)
{
    uint64_t wrong = size < bytes, most = size - bytes, low = bytes - 1;
    EACH_LANE(wrong |= (address[i] - base > most) | (address[i] & low))
    return !wrong;
}

static bool in_shared(const struct launch *launch, const uint64_t *address, uint32_t mask,
                      uint32_t bytes)
{
    if (launch->gap == launch->dynamic)
        return all_in(address, mask, 0, launch->shared_bytes, bytes);
    return all_in(address, mask, launch->dynamic, launch->shared_bytes - launch->dynamic, bytes) ||
           all_in(address, mask, 0, launch->gap, bytes);
}

/* The range used lately that holds address, or an empty one. */
static inline const struct exec_range *range_of(const struct worker *worker, uint64_t address)
{
    const struct exec_range *range = worker->cached;
    while (range < worker->cached + RANGES - 1 && address - range->base >= range->size)
        range++;
    return range;
}

/* Host addresses of the fast case, or false. */
static bool fast(const struct group *g, unsigned space, struct access *x, uint32_t bytes,
                 bool write)
{
    const struct block *block = g->warp->block;
    const struct launch *launch = block->worker->launch;
    uint32_t mask = g->mask;
    if (launch->careful)
        return false;
    if (space == PTX_SPACE_shared) {
        if (!in_shared(launch, x->address, mask, bytes))
            return false;
        EACH_LANE(x->at[i] = block->shared + x->address[i])
    } else if (space == PTX_SPACE_local) {
        if (!all_in(x->address, mask, 0, launch->local_bytes, bytes))
            return false;
        EACH_LANE(x->at[i] = g->warp->lanes[i].local + x->address[i])
    } else {
        const struct exec_range *range = range_of(block->worker, x->address[__builtin_ctz(mask)]);
        if ((write && !range->writable) ||
            !all_in(x->address, mask, range->base, range->size, bytes))
            return false;
        EACH_LANE(x->at[i] = (unsigned char *)(uintptr_t)x->address[i])
    }
    return true;
}

static bool careful(const struct group *g, const struct code *c, struct access *x, uint32_t bytes,
                    bool write)
{
    for (uint32_t rest = g->mask; rest; rest &= rest - 1) {
        unsigned i = (unsigned)__builtin_ctz(rest);
        struct lane *lane = &g->warp->lanes[i];
        lane->pc = c;
        lane->stores = write && c->count == 1 ? &g->R[c->b + i] : NULL;
        x->at[i] = memory_at(lane, generic_address(c->kind, x->address[i]), bytes, write);
        if (x->at[i] && lane->stores) /* the next lane may store the same */
            memcpy(x->at[i], lane->stores, bytes);
        lane->stores = NULL;
        if (!x->at[i])
            return false;
    }
    return true;
}

static bool reach(struct group *g, const struct code *c, struct access *x, bool write)
{
    uint32_t bytes = (uint32_t)c->width * c->count;
    addresses(g, c, x->address);
    if (g->warp->block->worker->model)
        model_access(g, c, x->address, bytes, write);
    return fast(g, c->kind, x, bytes, write) || careful(g, c, x, bytes, write);
}

#define GET(type) EACH_LANE(d[i].u64 = (uint64_t) * (const type *)(at[i] + offset))
#define PUT(type) EACH_LANE(*(type *)(at[i] + offset) = (type)b[i].u64)

static void get(union slot *d, unsigned char *const *at, size_t offset, const struct code *c,
                uint32_t mask)
{
    bool is_signed = ptx_types[c->type].class == PTX_SIGNED;
    switch (c->width << 1 | is_signed) {
    case 2:
        GET(uint8_t) break;
    case 3:
        GET(int8_t) break;
    case 4:
        GET(uint16_t) break;
    case 5:
        GET(int16_t) break;
    case 8:
        GET(uint32_t) break;
    case 9:
        GET(int32_t) break;
    default:
        GET(uint64_t)
    }
}

static void put(const union slot *b, unsigned char *const *at, size_t offset, const struct code *c,
                uint32_t mask)
{
    switch (c->width) {
    case 1:
        PUT(uint8_t) break;
    case 2:
        PUT(uint16_t) break;
    case 4:
        PUT(uint32_t) break;
    default:
        PUT(uint64_t)
    }
}

/* Values of 128 bits are read and written at once, as on hardware: processors with AVX promise it
 * for such accesses to aligned memory (not aligned on the host: parameters). */
typedef uint64_t wide __attribute__((vector_size(16)));

static inline void get_wide(union slot *low, union slot *high, const unsigned char *from)
{
    wide value;
    if ((uintptr_t)from % sizeof value)
        memcpy(&value, from, sizeof value);
    else
        value = *(const volatile wide *)from;
    low->u64 = value[0];
    high->u64 = value[1];
}

static inline void put_wide(const union slot *low, const union slot *high, unsigned char *to)
{
    wide value = {low->u64, high->u64};
    if ((uintptr_t)to % sizeof value)
        memcpy(to, &value, sizeof value);
    else
        *(volatile wide *)to = value;
}

/* The values of c->list are halves, side by side. */
static void access_wide(union slot *R, const struct code *c, unsigned char *const *at,
                        uint32_t mask)
{
    for (size_t k = 0; k < c->count; k += 2) {
        union slot *low = R + c->list[k], *high = R + c->list[k + 1];
        if (c->op == X_load)
            EACH_LANE(get_wide(&low[i], &high[i], at[i] + k * c->width))
        else
            EACH_LANE(put_wide(&low[i], &high[i], at[i] + k * c->width))
    }
}

bool group_load(struct group *g, const struct code *c)
{
    struct access x;
    if (!reach(g, c, &x, false))
        return false;
    if (c->type == PTX_TYPE_b128)
        access_wide(g->R, c, x.at, g->mask);
    else if (c->count == 1)
        get(g->R + c->d, x.at, 0, c, g->mask);
    else
        for (size_t k = 0; k < c->count; k++)
            get(g->R + c->list[k], x.at, k * c->width, c, g->mask);
    return true;
}

bool group_store(struct group *g, const struct code *c)
{
    struct access x;
    if (!reach(g, c, &x, true))
        return false;
    if (c->type == PTX_TYPE_b128)
        access_wide(g->R, c, x.at, g->mask);
    else if (c->count == 1)
        put(g->R + c->b, x.at, 0, c, g->mask);
    else
        for (size_t k = 0; k < c->count; k++)
            put(g->R + c->list[k], x.at, k * c->width, c, g->mask);
    return true;
}
