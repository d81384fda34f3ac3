/* Through which parameters and to which variables an entry writes, from its PTX by taint: what
 * admission compares between an original and its variant. Over-approximates; an address whose
 * origin cannot be told counts as unknown, never as harmless. */
#include "parts.h"

#include <stdio.h>

_Static_assert((int)ACCESS_WORDS == (int)TAINT_WORDS, "the same words");

struct collecting {
    struct ptx_access *out;
    const struct ptx_var *objects[TAINT_OBJECTS];
    uint32_t count;
};

static void add_global(struct ptx_access *out, const char *name)
{
    for (uint32_t i = 0; i < out->global_count; i++)
        if (!strcmp(out->globals[i], name))
            return;
    size_t length = strlen(name);
    if (out->global_count == ACCESS_GLOBALS || length >= sizeof out->globals[0])
        out->writes_unknown = true;
    else
        memcpy(out->globals[out->global_count++], name, length + 1);
}

static void access_use(void *self, enum taint_use kind, const struct taint *value)
{
    struct collecting *collecting = self;
    struct ptx_access *out = collecting->out;
    uint64_t any = value->objects;
    for (unsigned i = 0; i < TAINT_WORDS / 64; i++) {
        any |= value->words[i];
        if (kind == TAINT_WRITE)
            out->written[i] |= value->words[i];
        if (kind == TAINT_READ_CACHED)
            out->cached[i] |= value->words[i];
    }
    if (kind != TAINT_WRITE)
        return;
    out->writes_unknown |= !any;
    for (uint32_t i = 0; i < collecting->count; i++)
        if (value->objects >> i & 1 && collecting->objects[i]->space == PTX_SPACE_global)
            add_global(out, collecting->objects[i]->name);
}

/* False: too many to follow. */
static bool follow(struct collecting *collecting, const struct ptx_var *var)
{
    if (collecting->count == TAINT_OBJECTS)
        return false;
    collecting->objects[collecting->count++] = var;
    return true;
}

/* Arrays in by-value structs, variables, and the memory of the block and the thread, whose generic
 * addresses are no mystery. */
static bool follow_all(struct collecting *collecting, const struct needs *needs)
{
    const struct ptx_func *entry = needs->funcs[0];
    bool all = true;
    for (uint32_t i = 0; i < entry->param_count; i++)
        all &= entry->params[i]->size <= 8 || follow(collecting, entry->params[i]);
    for (uint32_t i = 0; i < needs->var_count; i++)
        all &= needs->vars[i]->space == PTX_SPACE_const || follow(collecting, needs->vars[i]);
    for (uint32_t i = 0; i < needs->func_count; i++)
        for (uint32_t j = 0; j < needs->funcs[i]->var_count; j++) {
            const struct ptx_var *var = needs->funcs[i]->vars[j];
            bool memory = var->space == PTX_SPACE_shared || var->space == PTX_SPACE_local ||
                          var->space == PTX_SPACE_global;
            all &= !memory || follow(collecting, var);
        }
    return all;
}

kg_status ptx_access_of(const char *ptx, const char *entry, struct ptx_access *out)
{
    struct ptx_module module;
    struct kg_arena arena = {0};
    struct needs needs;
    char error[128];
    *out = (struct ptx_access){0};
    kg_status status = ptx_parse(ptx, strlen(ptx), &module, error, sizeof error);
    if (status != KG_OK)
        return status;
    const struct ptx_func *func = ptx_find_func(&module, entry);
    struct collecting collecting = {.out = out};
    status = func && func->entry && func->defined ? needs_make(&module, func, &arena, &needs)
                                                  : KG_NOT_FOUND;
    if (status == KG_OK && !follow_all(&collecting, &needs))
        status = KG_LIMIT;
    if (status == KG_OK)
        status = taint_run(&needs, needs.funcs[0], collecting.objects, collecting.count, &arena,
                           access_use, &collecting);
    arena_free(&arena);
    ptx_module_free(&module);
    return status;
}
