/* Exact specialisation, which ptx_rewrite starts with (passes.c): reads of scalars that the guard
 * pins, and of the launch's dimensions, become constants; functions and variables that the entry
 * does not need go. Text is cut and spliced at the places the parser gives; nothing else of the
 * source changes, least of all the entry's name and parameters. */
#include "passes.h"

#include <stdio.h>
#include <stdlib.h>

enum { EDITS_MAX = 65536 };

struct edit {
    uint32_t begin, end; /* bytes of the source to leave out */
    char *text;          /* what stands there instead */
};

struct work {
    const char *source;
    const struct ptx_module *module;
    const struct kg_launch *launch;
    struct needs needs;
    struct kg_arena arena;
    uint8_t *bytes; /* of the packed parameter buffer, where known */
    bool *known;
    uint32_t byte_count;
    struct edit *edits; /* in order of the text within a function */
    uint32_t edit_count;
    unsigned done[PASS_COUNT];
    bool failed;
};

static void edit_add(struct work *work, enum rewrite_pass pass, uint32_t begin, uint32_t end,
                     char *text)
{
    work->done[pass]++;
    if (!text || work->edit_count == EDITS_MAX) {
        work->failed = true;
        return;
    }
    work->edits[work->edit_count++] = (struct edit){begin, end, text};
}

/* ---- parameters ---- */

static bool layout_agrees(const struct ptx_func *entry, const struct kg_param *params,
                          uint32_t count)
{
    if (count != entry->param_count)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (params[i].offset != entry->params[i]->offset ||
            params[i].size != entry->params[i]->size)
            return false;
    return true;
}

static kg_status spread_scalars(struct work *work, const struct kg_param *params,
                                uint32_t param_count, const struct kg_scalar *scalars,
                                uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct kg_scalar *scalar = &scalars[i];
        if (scalar->param >= param_count || scalar->size > 8 ||
            scalar->offset + scalar->size > params[scalar->param].size ||
            params[scalar->param].offset + scalar->offset + scalar->size > work->byte_count)
            return KG_BAD_INPUT;
        if (scalar->span)
            continue; /* one of several values */
        uint32_t at = params[scalar->param].offset + scalar->offset;
        for (unsigned j = 0; j < scalar->size; j++) {
            work->bytes[at + j] = (uint8_t)(scalar->value >> 8 * j);
            work->known[at + j] = true;
        }
    }
    return KG_OK;
}

/* The little-endian value of `size` bytes of the buffer, if all are known. */
static bool known_value(const struct work *work, uint64_t at, unsigned size, uint64_t *value)
{
    *value = 0;
    if (!size || size > 8 || at + size > work->byte_count)
        return false;
    for (unsigned i = 0; i < size; i++) {
        if (!work->known[at + i])
            return false;
        *value |= (uint64_t)work->bytes[at + i] << 8 * i;
    }
    return true;
}

/* A register may be wider than what is loaded into it: sign or zero fill the rest. */
static uint64_t widen(uint64_t value, enum ptx_type type)
{
    unsigned bits = ptx_types[type].bits;
    if (ptx_types[type].class == PTX_SIGNED && bits < 64 && value >> (bits - 1) & 1)
        value |= ~0ull << bits;
    return value;
}

/* "mov.f32 %f1, 0f3F800000;" for one destination; NULL if there is no such move. */
static char *move_text(struct work *work, const char *guard, int guard_length,
                       const struct ptx_func *func, const struct ptx_operand *to,
                       enum ptx_type type, uint64_t value)
{
    if (to->kind != PTX_REG || to->component || to->reg >= func->reg_count)
        return NULL;
    unsigned bits = ptx_types[func->regs[to->reg].type].bits;
    if (bits < ptx_types[type].bits || (bits != 16 && bits != 32 && bits != 64))
        return NULL;
    const char *name = work->source + to->begin;
    int length = (int)(to->end - to->begin);
    bool same = bits == ptx_types[type].bits;
    if (type == PTX_TYPE_f32 && same)
        return arena_format(&work->arena, "%.*smov.f32 %.*s, 0f%08llX;", guard_length, guard,
                            length, name, (unsigned long long)value);
    if (type == PTX_TYPE_f64 && same)
        return arena_format(&work->arena, "%.*smov.f64 %.*s, 0d%016llX;", guard_length, guard,
                            length, name, (unsigned long long)value);
    value = widen(value, type);
    if (bits < 64)
        value &= (1ull << bits) - 1;
    return arena_format(&work->arena, "%.*smov.b%u %.*s, 0x%llX;", guard_length, guard, bits,
                        length, name, (unsigned long long)value);
}

/* How much of the instruction stands before its operation: the guard and its white space. */
static int guard_length(const struct work *work, const struct ptx_instr *instr)
{
    if (instr->guard == PTX_NO_REG)
        return 0;
    size_t size =
        guard_size(work->source + instr->place.begin, instr->place.end - instr->place.begin);
    return size ? (int)size : -1;
}

/* ptxas folds what it sees of a NaN otherwise than the GPU computes: such a scalar stays a load. */
static bool is_nan(enum ptx_type type, uint64_t bits)
{
    return (type == PTX_TYPE_f32 && (bits & 0x7fffffff) > 0x7f800000) ||
           (type == PTX_TYPE_f64 && (bits & INT64_MAX) > 0x7ff0000000000000);
}

/* A load from the entry's parameters, all of whose bytes are known, becomes one move or several. */
static void edit_load(struct work *work, const struct ptx_func *func, const struct ptx_instr *instr)
{
    const struct ptx_form *form = instr->form;
    if (form->op != PTX_OP_ld || form->space != PTX_SPACE_param || form->type_count != 1 ||
        instr->operand_count != 2 || instr->operands[1].kind != PTX_ADDRESS ||
        instr->operands[1].reg != PTX_NO_REG || !instr->operands[1].var)
        return;
    const struct ptx_operand *to = &instr->operands[0], *from = &instr->operands[1];
    const struct ptx_var *param = ptx_find_param(func, from->var->name);
    unsigned count = form->vector > 1 ? form->vector : 1, size = ptx_types[form->types[0]].bits / 8;
    int guard = guard_length(work, instr);
    if (param != from->var || guard < 0 || from->offset < 0 ||
        (uint64_t)from->offset + (uint64_t)count * size > param->size ||
        (count > 1 && (to->kind != PTX_VECTOR || to->part_count != count)))
        return;
    char *text = NULL;
    for (unsigned i = 0; i < count; i++) {
        uint64_t value;
        if (!known_value(work, param->offset + (uint64_t)from->offset + i * size, size, &value) ||
            is_nan(form->types[0], value))
            return;
        char *move = move_text(work, work->source + instr->place.begin, guard, func,
                               count > 1 ? &to->parts[i] : to, form->types[0], value);
        text = text && move ? arena_format(&work->arena, "%s %s", text, move) : move;
        if (!text)
            return;
    }
    edit_add(work, PASS_param, instr->place.begin, instr->place.end, text);
}

/* ---- launch dimensions ---- */

struct special_edit {
    struct work *work;
    const struct ptx_instr *instr;
};

static void edit_special(void *self, const struct ptx_operand *operand)
{
    struct special_edit *at = self;
    const struct kg_launch *launch = at->work->launch;
    const struct ptx_form *form = at->instr->form;
    if (operand->kind != PTX_SPECIAL || !operand->component || operand->component > 3)
        return;
    if (operand->special != PTX_SR_ntid && operand->special != PTX_SR_nctaid)
        return;
    const struct kg_dim *dim = operand->special == PTX_SR_ntid ? &launch->block : &launch->grid;
    uint32_t value = operand->component == 1 ? dim->x : operand->component == 2 ? dim->y : dim->z;
    unsigned bits = form->type_count ? ptx_types[form->types[form->type_count - 1]].bits : 0;
    if (bits < 16 || (bits == 16 && value > UINT16_MAX))
        return;
    edit_add(at->work, PASS_launch, operand->begin, operand->end,
             arena_format(&at->work->arena, "%u", value));
}

static void edit_func(struct work *work, const struct ptx_func *func)
{
    for (uint32_t i = 0; i < func->instr_count; i++) {
        const struct ptx_instr *instr = &func->instrs[i];
        struct special_edit self = {work, instr};
        if (instr->opaque)
            continue;
        if (func == work->needs.funcs[0])
            edit_load(work, func, instr);
        for (unsigned j = 0; work->launch && j < instr->operand_count; j++)
            operand_each(&instr->operands[j], edit_special, &self);
    }
}

/* ---- output ---- */

static int by_place(const void *a, const void *b)
{
    uint32_t x = ((const struct edit *)a)->begin, y = ((const struct edit *)b)->begin;
    return x < y ? -1 : x > y;
}

/* Source bytes [begin, end) with the edits that lie in them. */
static void copy_range(const struct work *work, uint32_t begin, uint32_t end, FILE *to)
{
    for (uint32_t i = 0; i < work->edit_count; i++) {
        const struct edit *edit = &work->edits[i];
        if (edit->begin < begin || edit->end > end)
            continue;
        fwrite(work->source + begin, 1, edit->begin - begin, to);
        fputs(edit->text, to);
        begin = edit->end;
    }
    fwrite(work->source + begin, 1, end - begin, to);
}

static kg_status assemble(struct work *work, struct kg_bytes *out)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    if (!to)
        return KG_NO_MEMORY;
    qsort(work->edits, work->edit_count, sizeof *work->edits, by_place);
    fprintf(to, ".version %u.%u\n.target %s\n.address_size %u\n\n", work->module->version_major,
            work->module->version_minor, work->module->target, work->module->address_size);
    uint32_t whole = (uint32_t)strlen(work->source);
    for (uint32_t i = 0, next, end; i < work->module->item_count; i = next) {
        const struct ptx_item *item = &work->module->items[i];
        bool needed = false;
        next = statement_end(work->module, i, whole, &end);
        for (uint32_t j = i; j < next && !needed; j++)
            needed = work->module->items[j].kind == PTX_ITEM_LINE ||
                     needs_item(&work->needs, &work->module->items[j]);
        if (item->kind == PTX_ITEM_DEFINE)
            end = item->func->place.end;
        if (needed)
            copy_range(work, item->place.begin, end, to);
        fputc('\n', to);
    }
    if (fclose(to)) {
        free(text);
        return KG_NO_MEMORY;
    }
    *out = (struct kg_bytes){(unsigned char *)text, size};
    return KG_OK;
}

static kg_status prepare(struct work *work, const char *entry, const struct kg_param *params,
                         uint32_t param_count, const struct kg_scalar *scalars,
                         uint32_t scalar_count)
{
    const struct ptx_func *func = ptx_find_func(work->module, entry);
    if (!func || !func->entry || !func->defined)
        return KG_NOT_FOUND;
    /* Debug sections name every function of the module. */
    if (strstr(work->module->target, "debug"))
        return KG_NO_CANDIDATE;
    if (!layout_agrees(func, params, param_count))
        return KG_BAD_INPUT;
    work->byte_count = func->param_bytes;
    work->bytes = arena_alloc(&work->arena, work->byte_count + 1);
    work->known = arena_alloc(&work->arena, work->byte_count + 1);
    work->edits = arena_alloc(&work->arena, EDITS_MAX * sizeof *work->edits);
    if (!work->bytes || !work->known || !work->edits)
        return KG_NO_MEMORY;
    kg_status status = spread_scalars(work, params, param_count, scalars, scalar_count);
    return status == KG_OK ? needs_make(work->module, func, &work->arena, &work->needs) : status;
}

kg_status ptx_specialise(const char *ptx, const char *entry, const struct kg_launch *launch,
                         const struct kg_param *params, uint32_t param_count,
                         const struct kg_scalar *scalars, uint32_t scalar_count,
                         struct kg_bytes *out, unsigned done[PASS_COUNT])
{
    char error[256];
    struct ptx_module module;
    struct work work = {.source = ptx, .module = &module, .launch = launch};
    *out = (struct kg_bytes){0};
    memset(done, 0, PASS_COUNT * sizeof *done);
    kg_status status = ptx_parse(ptx, strlen(ptx), &module, error, sizeof error);
    if (status != KG_OK) {
        log_line(KG_INFO, "%.100s: PTX not understood: %s", entry, error);
        return status;
    }
    status = prepare(&work, entry, params, param_count, scalars, scalar_count);
    for (uint32_t i = 0; status == KG_OK && i < work.needs.func_count; i++)
        edit_func(&work, work.needs.funcs[i]);
    if (status == KG_OK && work.failed)
        status = KG_LIMIT;
    if (status == KG_OK)
        status = assemble(&work, out);
    if (status == KG_OK)
        memcpy(done, work.done, sizeof work.done);
    arena_free(&work.arena);
    ptx_module_free(&module);
    return status;
}
