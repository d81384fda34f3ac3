/* Comparing images: bitwise, or within a relative error per element where that was asked for.
 * Pure functions over bytes; no device. */
#include "code/ptx.h"
#include "tune/replay.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 4096 };

kg_status accuracy_parse(const char *text, struct accuracy *out)
{
    *out = (struct accuracy){0};
    if (accuracy_relative(text, &out->relative))
        return KG_OK;
    log_line(KG_ERROR, "KGENRT_ACCURACY='%s' is neither bitwise nor rel:X with 0 < X < 1", text);
    return KG_BAD_INPUT;
}

size_t first_difference(const unsigned char *a, const unsigned char *b, const unsigned char *mask,
                        size_t from, size_t total)
{
    for (size_t at = from; at < total;) {
        size_t size = total - at < CHUNK ? total - at : CHUNK;
        if (!memcmp(a + at, b + at, size)) {
            at += size;
            continue;
        }
        for (size_t end = at + size; at < end; at++)
            if (a[at] != b[at] && (!mask || mask[at]))
                return at;
    }
    return total;
}

static bool near(double got, double expected, double relative)
{
    if (isnan(expected) || isnan(got))
        return isnan(expected) && isnan(got);
    if (isinf(expected) || isinf(got))
        return got == expected;
    return fabs(got - expected) <= relative * fabs(expected);
}

static double value_at(const unsigned char *image, size_t at, enum element element)
{
    float single;
    double wide;
    if (element == ELEMENT_F64) {
        memcpy(&wide, image + at, sizeof wide);
        return wide;
    }
    memcpy(&single, image + at, sizeof single);
    return single;
}

bool results_equal(const struct replay_memory *memory, const unsigned char *got,
                   const unsigned char *expected, const struct accuracy *accuracy, size_t *at)
{
    size_t width = accuracy->element == ELEMENT_F64 ? 8 : 4;
    bool loose = accuracy->relative > 0 && accuracy->element != ELEMENT_BITS;
    *at = 0;
    for (;;) {
        *at = first_difference(got, expected, memory->written, *at, memory->total);
        if (*at >= memory->total)
            return true;
        size_t element = *at / width * width;
        if (!loose || element + width > memory->total ||
            !near(value_at(got, element, accuracy->element),
                  value_at(expected, element, accuracy->element), accuracy->relative))
            return false;
        *at = element + width;
    }
}

void difference_text(const struct replay_memory *memory, const unsigned char *got,
                     const unsigned char *expected, const struct accuracy *accuracy, size_t at,
                     char *text, size_t size)
{
    char place[160];
    const struct kg_dim block = memory->capture->launch.block;
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    size_t element = at & ~(size_t)3;
    uint32_t raw[2];
    memcpy(&raw[0], got + element, 4);
    memcpy(&raw[1], expected + element, 4);
    int used =
        snprintf(text, size, "%s: 0x%08x instead of 0x%08x (as float %.9g instead of %.9g",
                 memory_place(memory, element, place, sizeof place), raw[0], raw[1],
                 value_at(got, element, ELEMENT_F32), value_at(expected, element, ELEMENT_F32));
    if (used > 0 && (size_t)used < size && accuracy->element == ELEMENT_F64)
        used += snprintf(text + used, size - (size_t)used, "; as double %.17g instead of %.17g",
                         value_at(got, at & ~(size_t)7, ELEMENT_F64),
                         value_at(expected, at & ~(size_t)7, ELEMENT_F64));
    const char *plus = strstr(place, " + ");
    if (used <= 0 || (size_t)used >= size)
        return;
    if (plus && threads)
        snprintf(text + used, size - (size_t)used,
                 "; block %llu if each thread has one 4-byte element)",
                 strtoull(plus + 3, NULL, 10) / 4 / threads);
    else
        snprintf(text + used, size - (size_t)used, ")");
}

/* ---- what the original stores ------------------------------------------------------------------
 */

/* Of one entry; a doubt gives ELEMENT_BITS. */
struct typing {
    const struct ptx_func *func;
    unsigned work; /* instructions looked at, in all */
};
enum { WORK_MAX = 2000000, DEEPEST = 8 };

static enum element element_of(unsigned type)
{
    return type == PTX_TYPE_f32 ? ELEMENT_F32 : type == PTX_TYPE_f64 ? ELEMENT_F64 : ELEMENT_BITS;
}

static bool holds(const struct ptx_operand *operand, uint32_t reg)
{
    if (operand->kind == PTX_REG)
        return operand->reg == reg;
    for (uint32_t i = 0; operand->kind != PTX_ADDRESS && i < operand->part_count; i++)
        if (operand->parts[i].kind == PTX_REG && operand->parts[i].reg == reg)
            return true;
    return false;
}

static bool defines(const struct ptx_instr *instr, uint32_t reg)
{
    for (unsigned i = 0; i < instr->operand_count; i++) {
        char role = ptx_role(instr, i);
        if ((role == 'd' || role == 'b' || instr->opaque) && holds(&instr->operands[i], reg))
            return true;
    }
    return false;
}

static enum element register_type(struct typing *typing, uint32_t reg, unsigned depth);

/* The type that this instruction gives its result: the first that it names. */
static enum element result_type(struct typing *typing, const struct ptx_instr *instr,
                                unsigned depth)
{
    const struct ptx_form *form = instr->form;
    bool plain = instr->operand_count == 2 && instr->operands[0].kind == PTX_REG;
    if (form->op == PTX_OP_mov && plain && instr->operands[1].kind == PTX_REG)
        return register_type(typing, instr->operands[1].reg, depth + 1);
    if (instr->opaque || form->op == PTX_OP_mov || ptx_effects(instr) & (PTX_READS | PTX_CALLS))
        return ELEMENT_BITS; /* moved, not computed: compared by bits unless the store says */
    return form->type_count ? element_of(form->types[0]) : ELEMENT_BITS;
}

/* All definitions of a register must agree, wherever they stand. */
static enum element register_type(struct typing *typing, uint32_t reg, unsigned depth)
{
    enum element all = ELEMENT_BITS;
    bool any = false;
    if (depth > DEEPEST || reg == PTX_NO_REG)
        return ELEMENT_BITS;
    for (uint32_t i = 0; i < typing->func->instr_count; i++) {
        const struct ptx_instr *instr = &typing->func->instrs[i];
        if (typing->work++ > WORK_MAX)
            return ELEMENT_BITS;
        if (!defines(instr, reg))
            continue;
        enum element one = result_type(typing, instr, depth);
        if (one == ELEMENT_BITS || (any && one != all))
            return ELEMENT_BITS;
        all = one;
        any = true;
    }
    return all;
}

/* Type of what a store stores: its own, else that of all its registers. */
static enum element stored_type(struct typing *typing, const struct ptx_instr *store)
{
    const struct ptx_operand *value = &store->operands[1];
    enum element named = store->form->type_count ? element_of(store->form->types[0]) : ELEMENT_BITS;
    if (named != ELEMENT_BITS || store->operand_count < 2)
        return named;
    if (value->kind == PTX_REG)
        return register_type(typing, value->reg, 0);
    enum element all = ELEMENT_BITS;
    for (uint32_t i = 0; value->kind == PTX_VECTOR && i < value->part_count; i++) {
        const struct ptx_operand *part = &value->parts[i];
        enum element one =
            part->kind == PTX_REG ? register_type(typing, part->reg, 0) : ELEMENT_BITS;
        if (one == ELEMENT_BITS || (i && one != all))
            return ELEMENT_BITS;
        all = one;
    }
    return all;
}

static enum element element_of_func(struct typing *typing)
{
    enum element all = ELEMENT_BITS;
    bool any = false;
    for (uint32_t i = 0; i < typing->func->instr_count; i++) {
        const struct ptx_instr *instr = &typing->func->instrs[i];
        enum ptx_space space = instr->form->space;
        if (instr->form->op == PTX_OP_st &&
            (space == PTX_SPACE_shared || space == PTX_SPACE_local || space == PTX_SPACE_param))
            continue;
        uint32_t effects = ptx_effects(instr);
        if (!(effects & (PTX_WRITES | PTX_CALLS | PTX_WORST)))
            continue;
        enum element one = instr->form->op == PTX_OP_st ? stored_type(typing, instr) : ELEMENT_BITS;
        if (one == ELEMENT_BITS || (any && one != all))
            return ELEMENT_BITS;
        all = one;
        any = true;
    }
    return all;
}

enum element element_of_ptx(const char *ptx, const char *entry)
{
    struct ptx_module module;
    char error[128];
    enum element found = ELEMENT_BITS;
    if (ptx_parse(ptx, strlen(ptx), &module, error, sizeof error) != KG_OK)
        return ELEMENT_BITS;
    struct typing typing = {.func = ptx_find_func(&module, entry)};
    if (typing.func && typing.func->entry && typing.func->defined)
        found = element_of_func(&typing);
    ptx_module_free(&module);
    return found;
}
