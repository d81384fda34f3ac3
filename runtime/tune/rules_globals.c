/* An entry's module variables, turned into pointers that the launch passes: a rewritten module
 * would have its own copies, which the program's later updates do not reach. The text is spliced at
 * the places that the parser gives. What does not fit the few forms known here is left alone. */
#include "tune/makers.h"

#include "code/ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EDITS = 16384 };

struct edit {
    uint32_t begin, end; /* bytes of the source that go */
    const char *text;    /* what stands there instead */
};

struct rewrite {
    struct kg_arena *arena;
    const char *source;
    const struct ptx_module *module;
    const struct ptx_func *func;
    uint32_t count;
    const struct ptx_var *vars[VARIANT_GLOBALS];
    struct edit *edits;
    uint32_t edit_count;
    kg_status status; /* KG_NO_CANDIDATE: a form that is not known here */
};

static void give_up(struct rewrite *r, kg_status status, const char *why)
{
    if (r->status == KG_OK)
        log_line(KG_DEBUG, "rules: variables of %.64s: %s", r->func->name, why);
    r->status = r->status == KG_OK ? status : r->status;
}

static void edit(struct rewrite *r, uint32_t begin, uint32_t end, const char *text)
{
    if (!text)
        give_up(r, KG_NO_MEMORY, "out of memory");
    else if (r->edit_count == EDITS)
        give_up(r, KG_LIMIT, "too many uses");
    else
        r->edits[r->edit_count++] = (struct edit){begin, end, text};
}

/* Index of a variable that becomes a pointer, or -1. */
static int var_index(const struct rewrite *r, const struct ptx_var *var)
{
    for (uint32_t i = 0; var && i < r->count; i++)
        if (r->vars[i] == var)
            return (int)i;
    return -1;
}

static bool in_memory(const struct ptx_var *var)
{
    return var->space == PTX_SPACE_global || var->space == PTX_SPACE_const;
}

static void take_vars(struct rewrite *r, const struct kernel_model *model)
{
    for (uint32_t i = 0; i < model->global_count && r->status == KG_OK; i++) {
        const struct ptx_var *var = ptx_find_var(r->module, model->globals[i].name);
        if (!var || !in_memory(var) || r->count == VARIANT_GLOBALS)
            give_up(r, KG_NO_CANDIDATE, "too many, or not in memory");
        else
            r->vars[r->count++] = var;
    }
}

/* ---- uses -------------------------------------------------------------------------------------
 */

static bool mentions(const struct rewrite *r, const struct ptx_operand *operand, unsigned depth)
{
    if (var_index(r, operand->var) >= 0)
        return true;
    for (uint32_t i = 0; depth < 8 && i < operand->part_count; i++)
        if (mentions(r, &operand->parts[i], depth + 1))
            return true;
    return false;
}

/* [var+8] becomes [%kgv0+8]; var alone becomes %kgv0. */
static void edit_operand(struct rewrite *r, const struct ptx_operand *operand)
{
    int index = var_index(r, operand->var);
    bool address = operand->kind == PTX_ADDRESS && !operand->part_count;
    if (index < 0 && !mentions(r, operand, 0))
        return;
    if (index >= 0 && address)
        edit(r, operand->begin, operand->end,
             arena_format(r->arena, "[%%kgv%d+%lld]", index, (long long)operand->offset));
    else if (index >= 0 && operand->kind == PTX_SYMBOL && !operand->offset)
        edit(r, operand->begin, operand->end, arena_format(r->arena, "%%kgv%d", index));
    else
        give_up(r, KG_NO_CANDIDATE, "a use of a form that is not known");
}

/* Through a pointer, constant memory is memory like any other. */
static void edit_space(struct rewrite *r, const struct ptx_instr *instr)
{
    static const char word[] = ".const";
    uint32_t end = instr->operand_count ? instr->operands[0].begin : instr->place.end;
    const char *at =
        memmem(r->source + instr->place.begin, end - instr->place.begin, word, sizeof word - 1);
    if (!at)
        give_up(r, KG_NO_CANDIDATE, "constant memory without its name");
    else
        edit(r, (uint32_t)(at - r->source), (uint32_t)(at - r->source) + sizeof word - 1,
             ".global");
}

static void edit_body(struct rewrite *r)
{
    for (uint32_t i = 0; i < r->func->instr_count && r->status == KG_OK; i++) {
        const struct ptx_instr *instr = &r->func->instrs[i];
        if (instr->opaque)
            give_up(r, KG_NO_CANDIDATE, "an operation that is not known");
        if (instr->form->space == PTX_SPACE_const)
            edit_space(r, instr);
        for (unsigned k = 0; k < instr->operand_count; k++)
            edit_operand(r, &instr->operands[k]);
    }
}

/* Other functions and initialisers must not name what goes. */
static void check_others(struct rewrite *r)
{
    for (uint32_t f = 0; f < r->module->func_count && r->status == KG_OK; f++) {
        const struct ptx_func *func = r->module->funcs[f];
        for (uint32_t i = 0; func != r->func && i < func->instr_count; i++) {
            const struct ptx_instr *instr = &func->instrs[i];
            bool found = instr->form->space == PTX_SPACE_const || instr->opaque;
            for (unsigned k = 0; k < instr->operand_count; k++)
                found |= mentions(r, &instr->operands[k], 0);
            if (found)
                give_up(r, KG_NO_CANDIDATE, "used in a function");
        }
    }
    for (uint32_t i = 0; i < r->module->var_count; i++)
        if (r->module->vars[i]->reloc_count)
            give_up(r, KG_NO_CANDIDATE, "addresses in an initialiser");
}

/* ---- declarations -----------------------------------------------------------------------------
 */

static void edit_declarations(struct rewrite *r)
{
    for (uint32_t i = 0; i < r->module->item_count; i++) {
        const struct ptx_item *item = &r->module->items[i];
        if (item->kind == PTX_ITEM_VAR && var_index(r, item->var) >= 0) {
            /* up to the semicolon, which alone is no statement */
            const char *end = strchr(r->source + item->place.begin, ';');
            if (!end)
                give_up(r, KG_NO_CANDIDATE, "a declaration without an end");
            else
                edit(r, item->place.begin, (uint32_t)(end - r->source) + 1, "");
        }
    }
}

static void edit_head(struct rewrite *r)
{
    const struct ptx_func *func = r->func;
    const char *params = "", *loads = "";
    for (uint32_t i = 0; i < r->count && params && loads; i++) {
        params = arena_format(r->arena, "%s,\n\t.param .u64 kgv_param_%u", params, i);
        loads = arena_format(r->arena,
                             "%s\n\t.reg .b64 %%kgv%u;\n\tld.param.u64 %%kgv%u, [kgv_param_%u];",
                             loads, i, i, i);
    }
    uint32_t end = func->params[func->param_count - 1]->place.end;
    edit(r, end, end, params);
    edit(r, func->body_begin + 1, func->body_begin + 1, loads);
}

static int by_place(const void *a, const void *b)
{
    const struct edit *left = a, *right = b;
    return left->begin < right->begin ? -1 : left->begin > right->begin;
}

/* The text with all edits made; two that meet would be a misunderstanding. */
static char *splice(struct rewrite *r)
{
    size_t size = strlen(r->source), room = size, used = 0, from = 0;
    for (uint32_t i = 0; i < r->edit_count; i++)
        room += strlen(r->edits[i].text);
    qsort(r->edits, r->edit_count, sizeof *r->edits, by_place);
    char *out = arena_alloc(r->arena, room + 1);
    for (uint32_t i = 0; out && i < r->edit_count; i++) {
        const struct edit *e = &r->edits[i];
        if (e->begin < from || e->end < e->begin || e->end > size) {
            give_up(r, KG_NO_CANDIDATE, "places that overlap");
            return NULL;
        }
        memcpy(out + used, r->source + from, e->begin - from);
        used += e->begin - from;
        memcpy(out + used, e->text, strlen(e->text));
        used += strlen(e->text);
        from = e->end;
    }
    if (out)
        memcpy(out + used, r->source + from, size - from);
    else
        give_up(r, KG_NO_MEMORY, "out of memory");
    return out;
}

static void rewrite(struct rewrite *r, const struct kernel_model *model)
{
    if (!r->func || !r->func->param_count || strstr(r->source, "%kgv") ||
        r->module->address_size != 64) {
        r->status = KG_NO_CANDIDATE;
        return;
    }
    take_vars(r, model);
    check_others(r);
    if (r->status == KG_OK) {
        edit_declarations(r);
        edit_head(r);
        edit_body(r);
    }
}

kg_status rules_globals(struct job *job, struct candidate *candidate)
{
    char error[256];
    struct ptx_module module;
    struct rewrite r = {.arena = &job->arena, .source = candidate->ptx, .module = &module};
    kg_status status = ptx_parse(r.source, strlen(r.source), &module, error, sizeof error);
    if (status != KG_OK) {
        log_line(KG_INFO, "rules: %.64s: %s", candidate->entry, error);
        return status;
    }
    r.func = ptx_find_func(&module, candidate->entry);
    r.edits = calloc(EDITS, sizeof *r.edits);
    if (r.edits)
        rewrite(&r, &job->model);
    else
        r.status = KG_NO_MEMORY;
    const char *text = r.status == KG_OK ? splice(&r) : NULL;
    for (uint32_t i = 0; i < r.count && r.status == KG_OK; i++)
        candidate->globals[i] = job->model.globals[i].name;
    if (r.status == KG_OK) {
        candidate->ptx = text;
        candidate->global_count = r.count;
    }
    free(r.edits);
    ptx_module_free(&module);
    return r.status;
}
