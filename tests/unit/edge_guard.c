/* Guards against a slow reference that knows nothing of intervals: the values that a span allows
 * are counted out in wide numbers, and the bytes that pointers touch are marked one by one. Random
 * signatures, and launches that are made to hold and then changed in one place; beside them the
 * ends of spans of each width, and pointers that may overlap because both only read. */
#include "app/dispatch.h"

#include <string.h>

#include "test.h"

enum { PARAMS = 5, WORDS = 4, SCALARS = 6, POINTERS = 4, SPACE = 512, ROUNDS = 200000 };

/* Each parameter has 32 bytes: pointers stand in the first 8 of one, scalars in the others. */
static struct kg_param params[PARAMS];
static struct kernel kernel = {.modelled = true, .param_count = PARAMS, .params = params};
static uint64_t values[PARAMS][WORDS];
static void *arguments[PARAMS];
static struct kg_scalar scalars[SCALARS];
static struct kg_pointer pointers[POINTERS];
static struct kg_overlap overlaps[POINTERS * POINTERS];
static _Alignas(8) char table[sizeof(struct swap) + sizeof(struct swap_entry)];
static struct swap *const swap = (struct swap *)table;
static struct launch launch;

static uint64_t seed = 0x2545f4914f6cdd1d;

static uint64_t draw(void)
{
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return seed * 0x9e3779b97f4a7c15;
}

static unsigned below(unsigned count)
{
    return (unsigned)((draw() >> 33) % count);
}

static void set_up(void)
{
    for (unsigned i = 0; i < PARAMS; i++) {
        params[i] = (struct kg_param){32 * i, 32};
        arguments[i] = values[i];
    }
    launch = (struct launch){.shape = {{1, 1, 1}, {1, 1, 1}, 0}, .params = arguments};
    swap->count = 1;
    swap->entries[0] = (struct swap_entry){.signature = {.launch = launch.shape,
                                                         .scalars = scalars,
                                                         .pointers = pointers,
                                                         .overlaps = overlaps}};
}

static int outcome(void)
{
    enum refusal why;
    return swap_match(swap, &kernel, &launch, &why) ? REFUSAL_COUNT : (int)why;
}

/* ---- the reference -----------------------------------------------------------------------------
 */

static bool scalar_holds(const struct kg_scalar *s)
{
    const unsigned char *bytes = (unsigned char *)arguments[s->param] + s->offset;
    unsigned __int128 given = 0, turn = (unsigned __int128)1 << 8 * s->size;
    for (unsigned i = 0; i < s->size; i++)
        given |= (unsigned __int128)bytes[i] << 8 * i;
    unsigned __int128 last = (unsigned __int128)s->value + s->span;
    return (given >= s->value && given <= last) ||
           (given + turn >= s->value && given + turn <= last);
}

static uint64_t pointer_value(const struct kg_pointer *p)
{
    return values[p->param][0];
}

static bool pair_holds(const struct kg_signature *g, unsigned a, unsigned b)
{
    const struct kg_pointer *x = &g->pointers[a], *y = &g->pointers[b];
    for (unsigned i = 0; i < g->overlap_count; i++)
        if (g->overlaps[i].a == a && g->overlaps[i].b == b)
            return (int64_t)(pointer_value(y) - pointer_value(x)) == g->overlaps[i].delta;
    if (x->access == KG_READ && y->access == KG_READ)
        return true;
    static bool touched[3 * SPACE];
    memset(touched, 0, sizeof touched);
    for (int64_t at = x->low; at < x->high; at++)
        touched[pointer_value(x) + (uint64_t)at] = true;
    for (int64_t at = y->low; at < y->high; at++)
        if (touched[pointer_value(y) + (uint64_t)at])
            return false;
    return true;
}

static int reference(void)
{
    const struct kg_signature *g = &swap->entries[0].signature;
    for (unsigned i = 0; i < g->scalar_count; i++)
        if (!scalar_holds(&g->scalars[i]))
            return REFUSED_SCALAR;
    for (unsigned i = 0; i < g->pointer_count; i++)
        if (pointer_value(&g->pointers[i]) % g->pointers[i].align)
            return REFUSED_ALIGNMENT;
    for (unsigned b = 0; b < g->pointer_count; b++)
        for (unsigned a = 0; a < b; a++)
            if (!pair_holds(g, a, b))
                return REFUSED_OVERLAP;
    return REFUSAL_COUNT;
}

/* ---- random signatures -------------------------------------------------------------------------
 */

static void draw_scalar(struct kg_scalar *s)
{
    s->size = (uint16_t)(1 + below(8));
    s->param = (uint16_t)below(PARAMS);
    s->offset = (uint16_t)(8 + below(24 - s->size + 1));
    uint64_t mask = scalar_mask(s->size), span[] = {0, below(4), draw(), mask, mask - below(3)};
    s->span = span[below(5)] & mask;
    uint64_t given = 0;
    memcpy(&given, (char *)arguments[s->param] + s->offset, s->size);
    s->value = given; /* holds, or is about to, at either end of the span, wherever that wraps */
    if (s->span)
        s->value -= below(3) ? draw() % s->span : s->span + below(3) - 1;
    s->value &= mask;
}

static void draw_pointer(struct kg_pointer *p, unsigned param)
{
    *p = (struct kg_pointer){.param = (uint16_t)param,
                             .align = (uint16_t)(1u << below(5)),
                             .access = (uint16_t)below(4),
                             .low = (int64_t)below(48) - 24};
    p->high = p->low + below(48);
    values[param][0] = SPACE + below(SPACE) / 16 * 16 + (below(4) ? 0 : below(16));
}

static void draw_signature(struct kg_signature *g)
{
    for (unsigned i = 0; i < PARAMS; i++)
        for (unsigned k = 0; k < WORDS; k++)
            values[i][k] = below(2) ? draw() : below(2) ? below(3) : -(uint64_t)below(3);
    g->scalar_count = below(SCALARS + 1);
    for (unsigned i = 0; i < g->scalar_count; i++)
        draw_scalar(&scalars[i]);
    g->pointer_count = below(POINTERS + 1);
    for (unsigned i = 0; i < g->pointer_count; i++)
        draw_pointer(&pointers[i], i);
    g->overlap_count = 0;
    for (unsigned b = 0; b < g->pointer_count; b++)
        for (unsigned a = 0; a < b; a++)
            if (!pair_holds(g, a, b) && below(3))
                overlaps[g->overlap_count++] = (struct kg_overlap){
                    (uint16_t)a, (uint16_t)b,
                    (int64_t)(values[b][0] - values[a][0]) + (below(4) ? 0 : 1)};
}

static void random_guards(void)
{
    unsigned seen[REFUSAL_COUNT + 1] = {0}, different = 0;
    set_up();
    struct kg_signature *g = &swap->entries[0].signature;
    for (unsigned round = 0; round < ROUNDS; round++) {
        draw_signature(g);
        if (!signature_fits(&kernel, g))
            different++;
        for (unsigned change = 0; change < 3; change++) {
            int expected = reference();
            different += outcome() != expected;
            seen[expected]++;
            unsigned param = below(PARAMS), at = 8 + below(24);
            if (below(3))
                ((unsigned char *)values[param])[at] += (unsigned char)(below(3) - 1);
            else
                values[param][0] = SPACE + below(SPACE);
        }
    }
    CHECK(!different);
    CHECK(seen[REFUSED_SCALAR] > ROUNDS / 10 && seen[REFUSED_ALIGNMENT] > ROUNDS / 50);
    CHECK(seen[REFUSED_OVERLAP] > ROUNDS / 50 && seen[REFUSAL_COUNT] > ROUNDS / 10);
}

/* ---- ends --------------------------------------------------------------------------------------
 */

/* Of one scalar at the start of parameter 0's second word: whether this value is accepted. */
static bool accepted(unsigned size, uint64_t value, uint64_t span, uint64_t given)
{
    scalars[0] = (struct kg_scalar){0, 8, (uint16_t)size, value & scalar_mask(size), span};
    values[0][1] = ~given; /* what lies beyond the scalar has no say */
    memcpy(&values[0][1], &given, size);
    return outcome() == REFUSAL_COUNT;
}

static void ends(void)
{
    set_up();
    swap->entries[0].signature.scalar_count = 1;
    for (unsigned size = 1; size <= 8; size++) {
        uint64_t mask = scalar_mask(size), half = mask / 2;
        CHECK(accepted(size, 100, 0, 100) && !accepted(size, 100, 0, 101) &&
              !accepted(size, 100, 0, 99));
        CHECK(accepted(size, 10, 20, 10) && accepted(size, 10, 20, 30));
        CHECK(!accepted(size, 10, 20, 9) && !accepted(size, 10, 20, 31));
        /* signed: from -3 to 4 */
        CHECK(accepted(size, (uint64_t)-3, 7, (uint64_t)-3) && accepted(size, (uint64_t)-3, 7, 4) &&
              accepted(size, (uint64_t)-3, 7, 0) && accepted(size, (uint64_t)-3, 7, (uint64_t)-1));
        CHECK(!accepted(size, (uint64_t)-3, 7, (uint64_t)-4) &&
              !accepted(size, (uint64_t)-3, 7, 5));
        /* over the border between the signs */
        CHECK(accepted(size, half, 1, half) && accepted(size, half, 1, half + 1));
        CHECK(!accepted(size, half, 1, half - 1) && !accepted(size, half, 1, half + 2));
        /* all values but one, and all */
        CHECK(accepted(size, 1, mask - 1, mask) && !accepted(size, 1, mask - 1, 0));
        CHECK(accepted(size, 1, mask, 0) && accepted(size, 77, mask, 76));
    }
    struct kg_signature *g = &swap->entries[0].signature;
    scalars[0] = (struct kg_scalar){0, 8, 4, 1ull << 32, 0}; /* more than its width */
    CHECK(!signature_fits(&kernel, g));
    scalars[0] = (struct kg_scalar){0, 8, 4, 1, 1ull << 32};
    CHECK(!signature_fits(&kernel, g));
    scalars[0] = (struct kg_scalar){0, 8, 4, 1, UINT32_MAX};
    CHECK(signature_fits(&kernel, g));
}

/* Whether two pointers 8 bytes apart, which each touch 16 bytes, are accepted. */
static bool apart(unsigned first, unsigned second)
{
    set_up();
    pointers[0] = (struct kg_pointer){0, 0, 1, (uint16_t)first, 0, 16};
    pointers[1] = (struct kg_pointer){1, 0, 1, (uint16_t)second, 0, 16};
    values[0][0] = 1000;
    values[1][0] = 1008;
    swap->entries[0].signature.pointer_count = 2;
    return outcome() == REFUSAL_COUNT;
}

int main(void)
{
    CHECK(apart(KG_READ, KG_READ));
    for (unsigned access = 0; access < 4; access++)
        if (access != KG_READ) {
            CHECK(!apart(KG_READ, access) && !apart(access, KG_READ));
            CHECK(!apart(access, access));
        }
    ends();
    random_guards();
    return test_result();
}
