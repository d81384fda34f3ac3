/* The part of a module that one entry needs, printed from its tree, so that comments are gone, and
 * with the program's function names replaced: they are data that should not speak to a model. */
#include "tune/prompt.h"

#include "code/ptx.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One flag a function and a variable of the module: needed. */
struct slice {
    const struct ptx_module *module;
    bool *funcs, *vars;
    bool grew;
};

static void need_func(struct slice *s, const struct ptx_func *func)
{
    for (uint32_t i = 0; i < s->module->func_count; i++)
        if (s->module->funcs[i] == func && !s->funcs[i])
            s->funcs[i] = s->grew = true;
}

static void need_var(struct slice *s, const struct ptx_var *var)
{
    for (uint32_t i = 0; i < s->module->var_count; i++)
        if (s->module->vars[i] == var && !s->vars[i])
            s->vars[i] = s->grew = true;
}

static void need_operand(struct slice *s, const struct ptx_operand *operand, unsigned depth)
{
    if (operand->func)
        need_func(s, operand->func);
    if (operand->var)
        need_var(s, operand->var);
    if (operand->list && operand->list->kind == PTX_CALL_TARGETS)
        for (uint32_t i = 0; i < operand->list->count; i++)
            need_func(s, operand->list->funcs[i]);
    for (uint32_t i = 0; depth < 8 && i < operand->part_count; i++)
        need_operand(s, &operand->parts[i], depth + 1);
}

static void need_image(struct slice *s, const struct ptx_var *var)
{
    for (uint32_t i = 0; i < var->reloc_count; i++) {
        if (var->relocs[i].var)
            need_var(s, var->relocs[i].var);
        if (var->relocs[i].func)
            need_func(s, var->relocs[i].func);
    }
}

static void need_body(struct slice *s, const struct ptx_func *func)
{
    for (uint32_t i = 0; i < func->instr_count; i++)
        for (unsigned k = 0; k < func->instrs[i].operand_count; k++)
            need_operand(s, &func->instrs[i].operands[k], 0);
}

/* To the fixed point: call depth is small, so passes over all that is needed are few. */
static void slice_grow(struct slice *s)
{
    do {
        s->grew = false;
        for (uint32_t i = 0; i < s->module->func_count; i++)
            if (s->funcs[i])
                need_body(s, s->module->funcs[i]);
        for (uint32_t i = 0; i < s->module->var_count; i++)
            if (s->vars[i])
                need_image(s, s->module->vars[i]);
    } while (s->grew);
}

static bool item_wanted(const struct slice *s, const struct ptx_item *item)
{
    if (item->kind == PTX_ITEM_LINE)
        return false;
    for (uint32_t i = 0; item->kind == PTX_ITEM_VAR && i < s->module->var_count; i++)
        if (s->module->vars[i] == item->var)
            return s->vars[i];
    for (uint32_t i = 0; item->kind != PTX_ITEM_VAR && i < s->module->func_count; i++)
        if (s->module->funcs[i] == item->func)
            return s->funcs[i];
    return false;
}

/* ---- names ------------------------------------------------------------------------------------
 */

static bool word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

/* What the printed word becomes: a function's name, alone or with "_param_3" behind it, is
 * replaced. Returns how much of the word that was. */
static size_t word_rename(const struct slice *s, const char *word, size_t length, const char *entry,
                          const char *name, char out[static 64])
{
    unsigned number = 0;
    for (uint32_t i = 0; i < s->module->func_count; i++) {
        if (!s->funcs[i])
            continue;
        const char *old = s->module->funcs[i]->name;
        size_t size = strlen(old);
        bool own = !strcmp(old, entry);
        if (size <= length && !memcmp(old, word, size) &&
            (size == length || !strncmp(word + size, "_param_", 7))) {
            if (own)
                snprintf(out, 64, "%s", name);
            else
                snprintf(out, 64, "f%u", number);
            return size;
        }
        number += !own;
    }
    return 0;
}

static bool dropped(const char *line, size_t length)
{
    size_t blank = strspn(line, " \t");
    return blank >= length || !strncmp(line + blank, ".loc", 4);
}

static void emit_line(struct text *out, const struct slice *s, const char *line, size_t length,
                      const char *entry, const char *name)
{
    for (size_t at = 0; at < length;) {
        size_t size = 0;
        char neutral[64];
        while (at + size < length && word_char(line[at + size]))
            size++;
        if (!size) {
            /* a backtick could close the block that the text stands in */
            char c = line[at++];
            c = c == '`' ? '\'' : (c < 0x20 && c != '\t') || c > 0x7e ? '?' : c;
            text_bytes(out, &c, 1);
            continue;
        }
        size_t old = word_rename(s, line + at, size, entry, name, neutral);
        if (old)
            text_bytes(out, neutral, strlen(neutral));
        text_bytes(out, line + at + old, size - old);
        at += size;
    }
    text_bytes(out, "\n", 1);
}

static void emit(struct text *out, const struct slice *s, const char *printed, const char *entry,
                 const char *name)
{
    for (const char *line = printed; *line;) {
        size_t length = strcspn(line, "\n");
        if (!dropped(line, length))
            emit_line(out, s, line, length, entry, name);
        line += length + (line[length] == '\n');
    }
}

static kg_status slice_print(struct slice *s, struct text *out, const char *entry, const char *name)
{
    struct ptx_module part = *s->module;
    struct kg_bytes printed;
    part.items = calloc(part.item_count ? part.item_count : 1, sizeof *part.items);
    if (!part.items)
        return KG_NO_MEMORY;
    part.item_count = 0;
    for (uint32_t i = 0; i < s->module->item_count; i++)
        if (item_wanted(s, &s->module->items[i]))
            part.items[part.item_count++] = s->module->items[i];
    kg_status status = ptx_print(&part, &printed);
    free(part.items);
    if (status != KG_OK)
        return status;
    emit(out, s, (const char *)printed.data, entry, name);
    bytes_free(&printed);
    return KG_OK;
}

void prompt_ptx(struct text *out, const struct kg_bytes *ptx, const char *entry, const char *name)
{
    char error[256] = "";
    struct ptx_module module;
    if (out->status != KG_OK)
        return;
    out->status = ptx_parse((const char *)ptx->data, ptx->size, &module, error, sizeof error);
    if (out->status != KG_OK) {
        log_line(KG_WARN, "prompt: the kernel's PTX: %s", error);
        return;
    }
    struct slice s = {.module = &module,
                      .funcs = calloc(module.func_count + 1u, 1),
                      .vars = calloc(module.var_count + 1u, 1)};
    const struct ptx_func *func = ptx_find_func(&module, entry);
    if (!s.funcs || !s.vars) {
        out->status = KG_NO_MEMORY;
    } else if (!func) {
        out->status = KG_NOT_FOUND;
    } else {
        need_func(&s, func);
        slice_grow(&s);
        kg_status status = slice_print(&s, out, entry, name);
        out->status = out->status == KG_OK ? status : out->status;
    }
    free(s.funcs);
    free(s.vars);
    ptx_module_free(&module);
}
