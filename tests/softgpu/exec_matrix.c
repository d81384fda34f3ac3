/* Matrices of a warp: where the elements of a fragment are in the lanes' registers, and the
 * operations that move them. mma's fragments are laid out as the PTX manual says; wmma's as we
 * like, which programs cannot tell. */
#include "exec_matrix.h"

#include <stdio.h>
#include <string.h>

unsigned fragment_bits(uint8_t type)
{
    return ptx_types[type].bits; /* tf32: 32, as a register holds it */
}

/* ---- decoding -------------------------------------------------------------------------------- */

/* The types of d, a, b and c, from those that are written. */
static bool types_of(const struct ptx_form *form, struct matrix *plan)
{
    const uint8_t *types = form->types;
    if (form->op == PTX_OP_wmma_mma && form->type_count == 2) {
        memcpy(plan->types, (uint8_t[]){types[0], PTX_TYPE_f16, PTX_TYPE_f16, types[1]}, FRAGMENTS);
        return true;
    }
    if (form->op == PTX_OP_mma || form->op == PTX_OP_wmma_mma) {
        memcpy(plan->types, types, FRAGMENTS);
        return form->type_count == 4;
    }
    memset(plan->types, types[0], FRAGMENTS);
    return form->type_count == 1;
}

static bool shape_of(const struct ptx_form *form, struct matrix *plan)
{
    const char *at = form->text;
    while ((at = strstr(at, ".m"))) {
        unsigned m, n, k = 0;
        int fields = sscanf(at, ".m%un%uk%u", &m, &n, &k);
        at += 2;
        if (fields < 2 || m > MATRIX_M || n > MATRIX_M || k > MATRIX_K)
            continue;
        plan->m = (uint16_t)m;
        plan->n = (uint16_t)n;
        plan->k = (uint16_t)k;
        return true;
    }
    return false;
}

/* The layouts in order: of a and b, or of the one fragment. */
static void layouts_of(const struct ptx_form *form, struct matrix *plan)
{
    unsigned found = 0;
    for (unsigned i = 0; i < form->mod_count; i++) {
        if (form->mods[i] != PTX_MOD_row && form->mods[i] != PTX_MOD_col)
            continue;
        bool col = form->mods[i] == PTX_MOD_col;
        if (form->op == PTX_OP_mma || form->op == PTX_OP_wmma_mma)
            plan->col[found ? FRAGMENT_B : FRAGMENT_A] = col;
        else
            plan->col[plan->fragment] = col;
        found++;
    }
}

/* The second word of wmma.load.a and its like. */
static uint8_t fragment_of(const struct ptx_form *form)
{
    return ptx_has(form, PTX_MOD_a)   ? FRAGMENT_A
           : ptx_has(form, PTX_MOD_b) ? FRAGMENT_B
           : ptx_has(form, PTX_MOD_c) ? FRAGMENT_C
                                      : FRAGMENT_D;
}

bool matrix_plan(const struct ptx_form *form, struct matrix *plan)
{
    plan->wmma = form->op == PTX_OP_wmma_load || form->op == PTX_OP_wmma_store ||
                 form->op == PTX_OP_wmma_mma;
    plan->saturates = ptx_has(form, PTX_MOD_satfinite);
    plan->trans = ptx_has(form, PTX_MOD_trans);
    plan->bit_op = ptx_has(form, PTX_MOD_xor)   ? PTX_MOD_xor
                   : ptx_has(form, PTX_MOD_and) ? PTX_MOD_and
                                                : 0;
    plan->fragment = fragment_of(form);
    plan->tiles = ptx_has(form, PTX_MOD_x4) ? 4 : ptx_has(form, PTX_MOD_x2) ? 2 : 1;
    layouts_of(form, plan);
    if (!shape_of(form, plan) || !types_of(form, plan))
        return false;
    if (form->op == PTX_OP_ldmatrix || form->op == PTX_OP_stmatrix || form->op == PTX_OP_movmatrix)
        return plan->m == 8 && plan->n == 8 && plan->types[0] == PTX_TYPE_b16;
    bool small_float = ptx_types[plan->types[FRAGMENT_A]].class == PTX_FLOAT &&
                       plan->types[FRAGMENT_A] != PTX_TYPE_f64;
    return plan->k && plan->k <= (small_float ? FLOATS_K : MATRIX_K) &&
           ptx_has(form, PTX_MOD_sync) && ptx_has(form, PTX_MOD_aligned);
}

/* ---- fragments ------------------------------------------------------------------------------- */

/* Rows and columns of a fragment's matrix. b counts as n rows of k: it is kept transposed. */
static void extent(const struct matrix *plan, unsigned fragment, unsigned *rows, unsigned *columns)
{
    *rows = fragment == FRAGMENT_B ? plan->n : plan->m;
    *columns = fragment == FRAGMENT_A || fragment == FRAGMENT_B ? plan->k : plan->n;
}

/* m8n8k4 of halves: four products of 8x8x4, each by the eight lanes of a quad pair. */
static void place_quad_pair(const struct matrix *plan, unsigned fragment, unsigned lane,
                            unsigned at, unsigned *row, unsigned *column)
{
    unsigned quad = lane % 4, upper = lane >= 16 ? 4 : 0;
    bool is_float = ptx_types[plan->types[fragment]].bits == 32;
    bool across = fragment == FRAGMENT_A ? !plan->col[FRAGMENT_A] : plan->col[FRAGMENT_B];
    if (fragment == FRAGMENT_A || fragment == FRAGMENT_B) {
        *row = across ? quad + upper : at + upper;
        *column = across ? at : quad;
    } else if (is_float) {
        *row = (lane & 1) + (at & 2) + upper;
        *column = (at & 4) + (lane & 2) + (at & 1);
    } else {
        *row = quad + upper;
        *column = at;
    }
}

static bool by_quad_pairs(const struct matrix *plan)
{
    return !plan->wmma && plan->m == 8 && plan->k == 4 && plan->types[FRAGMENT_A] == PTX_TYPE_f16;
}

/* Where element `at` of a lane's fragment is in the matrix. */
static void place(const struct matrix *plan, unsigned fragment, unsigned lane, unsigned at,
                  unsigned *row, unsigned *column)
{
    unsigned rows, columns, bits = fragment_bits(plan->types[fragment]);
    extent(plan, fragment, &rows, &columns);
    if (plan->wmma) {
        unsigned in_register = bits < 32 ? 32 / bits : 1;
        unsigned index = (lane * plan->counts[fragment] * in_register + at) % (rows * columns);
        *row = index / columns;
        *column = index % columns;
        return;
    }
    if (by_quad_pairs(plan)) {
        place_quad_pair(plan, fragment, lane, at, row, column);
        return;
    }
    unsigned group = lane / 4, quad = lane % 4;
    if (fragment == FRAGMENT_C || fragment == FRAGMENT_D) {
        *row = group + (at / 2) * 8;
        *column = quad * 2 + at % 2;
        return;
    }
    unsigned each = bits < 32 ? 32 / bits : 1, reg = at / each;
    bool halves = fragment == FRAGMENT_A && plan->m == 16;
    *row = group + (halves ? reg % 2 * 8 : 0);
    *column = quad * each + at % each + (halves ? reg / 2 : reg) * 4 * each;
}

/* The places of all lanes' elements, worked out once. */
bool matrix_places(struct kg_arena *arena, struct matrix *plan)
{
    for (unsigned fragment = 0; fragment < FRAGMENTS; fragment++) {
        unsigned bits = fragment_bits(plan->types[fragment]);
        unsigned each = (bits < 32 ? 32 / bits : 1) * plan->counts[fragment];
        uint16_t *places = arena_alloc(arena, sizeof *places * WARP * each + 1);
        if (!places)
            return false;
        plan->places[fragment] = places;
        for (unsigned lane = 0; lane < WARP; lane++)
            for (unsigned i = 0; i < each; i++) {
                unsigned row, column;
                place(plan, fragment, lane, i, &row, &column);
                *places++ = (uint16_t)(row * MATRIX_K + column);
            }
    }
    return true;
}

/* Between registers and matrix: all lanes of `group` (of the quad pairs, or all). */
static void exchange(const struct matrix *plan, struct lane *lanes, struct matrices *x,
                     unsigned fragment, int group)
{
    unsigned bits = fragment_bits(plan->types[fragment]), each = bits < 32 ? 32 / bits : 1;
    uint64_t mask = bits == 64 ? ~UINT64_C(0) : (UINT64_C(1) << bits) - 1;
    uint64_t *whole = fragment == FRAGMENT_A   ? x->a[0]
                      : fragment == FRAGMENT_B ? x->b[0]
                      : fragment == FRAGMENT_C ? x->c[0]
                                               : x->d[0];
    const uint16_t *at = plan->places[fragment];
    for (unsigned lane = 0; lane < WARP; lane++) {
        if (group >= 0 && (int)(lane / 4 % 4) != group) {
            at += plan->counts[fragment] * each;
            continue;
        }
        for (unsigned r = 0; r < plan->counts[fragment]; r++) {
            uint64_t *reg = &lanes[lane].R[plan->slots[fragment][r]].u64, value = *reg, out = 0;
            for (unsigned i = 0; i < each; i++, at++) {
                if (fragment == FRAGMENT_D)
                    out |= (whole[*at] & mask) << (i * bits);
                else
                    whole[*at] = value >> (i * bits) & mask;
            }
            if (fragment == FRAGMENT_D)
                *reg = out;
        }
    }
}

static void multiply(struct lane *lanes, const struct matrix *plan)
{
    struct matrices x;
    int groups = by_quad_pairs(plan) ? 4 : 1;
    for (int group = 0; group < groups; group++) {
        int only = groups == 1 ? -1 : group;
        exchange(plan, lanes, &x, FRAGMENT_A, only);
        exchange(plan, lanes, &x, FRAGMENT_B, only);
        exchange(plan, lanes, &x, FRAGMENT_C, only);
        matrix_multiply(plan, &x);
        exchange(plan, lanes, &x, FRAGMENT_D, only);
    }
}

/* Whether as many registers are given as the matrices need: nothing else checks places. */
bool matrix_fits(const struct ptx_form *form, const struct matrix *plan)
{
    if (form->op == PTX_OP_ldmatrix)
        return plan->counts[FRAGMENT_D] == plan->tiles;
    if (form->op == PTX_OP_stmatrix)
        return plan->counts[FRAGMENT_A] == plan->tiles;
    if (form->op == PTX_OP_movmatrix)
        return plan->counts[FRAGMENT_D] == 1 && plan->counts[FRAGMENT_A] == 1;
    if (plan->wmma)
        return true; /* places are within the matrix whatever their number */
    if ((plan->m != 8 && plan->m != 16) || plan->n != 8)
        return false;
    for (unsigned i = 0; i < FRAGMENTS; i++) {
        unsigned rows, columns, bits = fragment_bits(plan->types[i]);
        extent(plan, i, &rows, &columns);
        unsigned quads = by_quad_pairs(plan) ? 4 : 1;
        if (plan->counts[i] * WARP * (bits < 64 ? 32u : 64u) != rows * columns * bits * quads)
            return false;
    }
    return plan->types[FRAGMENT_C] == plan->types[FRAGMENT_D] || by_quad_pairs(plan);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void *operand_at(struct lane *lane, const struct code *c, uint64_t offset, uint32_t size,
                        bool write)
{
    const union slot *R = lane->R;
    uint64_t address = operand_address(c, R) + offset;
    return memory_at(lane, generic_address(c->kind, address), size, write);
}

/* wmma.load and wmma.store: the elements of one lane. */
static bool move_fragment(struct lane *lane, unsigned number, const struct code *c, bool store)
{
    const struct matrix *plan = c->matrix;
    unsigned fragment = plan->fragment, bits = fragment_bits(plan->types[fragment]), rows, columns;
    unsigned each = bits < 32 ? 32 / bits : 1;
    extent(plan, fragment, &rows, &columns);
    /* b is kept as n rows of k: its columns in memory are our rows */
    bool along = (fragment == FRAGMENT_B) == plan->col[fragment];
    uint64_t stride = plan->stride ? lane->R[plan->stride].u32 : along ? columns : rows;
    for (unsigned r = 0; r < plan->counts[fragment]; r++) {
        uint64_t *reg = &lane->R[plan->slots[fragment][r]].u64, value = 0;
        for (unsigned i = 0; i < each; i++) {
            unsigned row, column;
            place(plan, fragment, number, r * each + i, &row, &column);
            uint64_t index = along ? row * stride + column : column * stride + row;
            uint64_t bit = index * bits;
            unsigned bytes = bits < 8 ? 1 : bits / 8;
            unsigned char *at = operand_at(lane, c, bit / 8, bytes, store);
            if (!at)
                return false;
            uint64_t had = 0;
            if (store)
                memcpy(at, &(uint64_t){*reg >> (i * bits)}, bytes);
            else
                memcpy(&had, at, bytes);
            had >>= bit % 8;
            value |= (bits < 64 ? had & ((UINT64_C(1) << bits) - 1) : had) << (i * bits);
        }
        if (!store)
            *reg = value;
    }
    return true;
}

/* ldmatrix and stmatrix: row i of tile t is at the address of lane 8 t + i. */
static bool move_tiles(struct lane *lanes, const struct code *c, bool store)
{
    const struct matrix *plan = c->matrix;
    unsigned fragment = store ? FRAGMENT_A : FRAGMENT_D;
    unsigned char *rows[WARP] = {0};
    uint32_t taken[WARP][4];
    for (unsigned i = 0; i < 8u * plan->tiles; i++) {
        rows[i] = operand_at(&lanes[i], c, 0, 16, store);
        if (!rows[i])
            return false;
    }
    for (unsigned lane = 0; lane < WARP; lane++)
        for (unsigned tile = 0; tile < plan->tiles; tile++) {
            uint32_t value = lanes[lane].R[plan->slots[fragment][tile]].u32;
            for (unsigned i = 0; i < 2; i++) {
                unsigned row = plan->trans ? lane % 4 * 2 + i : lane / 4;
                unsigned column = plan->trans ? lane / 4 : lane % 4 * 2 + i;
                unsigned char *at = rows[tile * 8 + row] + column * 2;
                if (store)
                    memcpy(at, (unsigned char *)&value + 2 * i, 2);
                else
                    memcpy((unsigned char *)&value + 2 * i, at, 2);
            }
            taken[lane][tile] = value;
        }
    for (unsigned lane = 0; !store && lane < WARP; lane++)
        for (unsigned tile = 0; tile < plan->tiles; tile++)
            lanes[lane].R[plan->slots[fragment][tile]].u64 = taken[lane][tile];
    return true;
}

static void transpose(struct lane *lanes, const struct matrix *plan)
{
    uint16_t whole[8][8];
    for (unsigned lane = 0; lane < WARP; lane++)
        for (unsigned i = 0; i < 2; i++)
            whole[lane / 4][lane % 4 * 2 + i] =
                (uint16_t)(lanes[lane].R[plan->slots[FRAGMENT_A][0]].u32 >> (16 * i));
    for (unsigned lane = 0; lane < WARP; lane++)
        lanes[lane].R[plan->slots[FRAGMENT_D][0]].u64 =
            whole[lane % 4 * 2][lane / 4] | (uint32_t)whole[lane % 4 * 2 + 1][lane / 4] << 16;
}

/* The whole warp must be there: it is one operation of all 32 lanes. */
bool matrix_happen(struct lane *lanes, uint32_t present)
{
    const struct code *c = lanes[__builtin_ctz(present)].pc;
    if (present != UINT32_MAX)
        return lane_fault(&lanes[__builtin_ctz(present)], EXEC_TRAP,
                          "%s by lanes 0x%x only, not by the whole warp", c->instr->form->text,
                          present);
    switch (c->instr->form->op) {
    case PTX_OP_ldmatrix:
        return move_tiles(lanes, c, false);
    case PTX_OP_stmatrix:
        return move_tiles(lanes, c, true);
    case PTX_OP_movmatrix:
        transpose(lanes, c->matrix);
        return true;
    case PTX_OP_wmma_load:
    case PTX_OP_wmma_store:
        for (unsigned i = 0; i < WARP; i++)
            if (!move_fragment(&lanes[i], i, c, c->instr->form->op == PTX_OP_wmma_store))
                return false;
        return true;
    default:
        multiply(lanes, c->matrix);
        return true;
    }
}
