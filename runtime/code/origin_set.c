/* Sets of origins, each different one once: values hold their numbers, and a union that was made
 * before is looked up. */
#include "origin_parts.h"

static uint32_t mix(uint64_t key)
{
    key *= 0x9E3779B97F4A7C15u;
    return (uint32_t)(key >> 32);
}

static uint32_t hash_items(const uint16_t *items, uint32_t count)
{
    uint64_t hash = count;
    for (uint32_t i = 0; i < count; i++)
        hash = (hash ^ items[i]) * 0x100000001B3u;
    return mix(hash);
}

static bool grow(struct origin_sets *sets)
{
    uint32_t room = sets->room ? 2 * sets->room : 256;
    struct origin_set *grown = arena_alloc(sets->arena, room * sizeof *grown);
    uint32_t *slots = arena_alloc(sets->arena, 2ull * room * sizeof *slots);
    if (!grown || !slots)
        return false;
    if (sets->count)
        memcpy(grown, sets->sets, sets->count * sizeof *grown);
    sets->sets = grown;
    sets->slots = slots;
    sets->room = room;
    for (uint32_t i = 1; i < sets->count; i++) {
        uint32_t at = hash_items(grown[i].items, grown[i].count) & (2 * room - 1);
        while (slots[at])
            at = (at + 1) & (2 * room - 1);
        slots[at] = i;
    }
    return true;
}

uint32_t set_of(struct origin_sets *sets, const uint16_t *items, uint32_t count)
{
    if (!count)
        return 0;
    if ((!sets->room || sets->count == sets->room) && !grow(sets)) {
        sets->failed = true;
        return 0;
    }
    uint32_t mask = 2 * sets->room - 1, at = hash_items(items, count) & mask;
    for (; sets->slots[at]; at = (at + 1) & mask) {
        const struct origin_set *other = &sets->sets[sets->slots[at]];
        if (other->count == count && !memcmp(other->items, items, count * sizeof *items))
            return sets->slots[at];
    }
    sets->item_total += count;
    uint16_t *copy = sets->count < SETS_MAX && sets->item_total < SET_ITEMS_MAX
                         ? arena_alloc(sets->arena, count * sizeof *copy)
                         : NULL;
    if (!copy) {
        sets->failed = true;
        return 0;
    }
    memcpy(copy, items, count * sizeof *copy);
    sets->sets[sets->count] = (struct origin_set){count, copy};
    return sets->slots[at] = sets->count++;
}

static uint32_t unite(struct origin_sets *sets, uint32_t a, uint32_t b)
{
    const struct origin_set x = sets->sets[a], y = sets->sets[b];
    uint16_t *items = sets->scratch;
    uint32_t i = 0, j = 0, count = 0;
    while (i < x.count || j < y.count) {
        if (j == y.count || (i < x.count && x.items[i] < y.items[j])) {
            items[count++] = x.items[i++];
        } else {
            i += i < x.count && x.items[i] == y.items[j];
            items[count++] = y.items[j++];
        }
    }
    return set_of(sets, items, count);
}

uint32_t set_join(struct origin_sets *sets, uint32_t a, uint32_t b)
{
    if (a == b || !b)
        return a;
    if (!a)
        return b;
    if (a > b) {
        uint32_t swap = a;
        a = b;
        b = swap;
    }
    struct origin_join *join = &sets->joins[mix((uint64_t)a << 32 | b) & (JOINS - 1)];
    if (join->a != a || join->b != b) /* forgets what was there */
        *join = (struct origin_join){a, b, unite(sets, a, b)};
    return join->both;
}

bool sets_begin(struct origin_sets *sets, struct kg_arena *arena)
{
    sets->arena = arena;
    sets->joins = arena_alloc(arena, JOINS * sizeof *sets->joins);
    sets->scratch = arena_alloc(arena, 4 * ORIGIN_COUNT * sizeof *sets->scratch);
    if (!sets->joins || !sets->scratch || !grow(sets))
        return false;
    sets->count = 1; /* 0 is the empty one */
    return true;
}
