/* Through which parameters and to which variables an entry writes, from its PTX: what admission
 * compares between an original and its variant. Over-approximates; an address whose origin cannot
 * be told, or that was loaded from memory, counts as unknown, never as harmless. */
#include "origin.h"

_Static_assert(8 * (int)ACCESS_WORDS == (int)ORIGIN_PARAM_BYTES, "the same words");

struct collecting {
    struct ptx_access *out;
    const struct origins *origins;
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

static void access_use(void *self, const struct origin_access *access)
{
    const struct collecting *collecting = self;
    struct ptx_access *out = collecting->out;
    const struct origin_set set = origins_set(collecting->origins, access->set);
    bool known = set.count > 0;
    for (uint32_t i = 0; !access->other_space && i < set.count; i++) {
        if (set.items[i] >= ORIGIN_LOADED) {
            known = false;
            continue;
        }
        const struct origin *origin = &collecting->origins->origins[set.items[i]];
        uint64_t bit = 1ull << (origin->word % 64);
        if (origin->var) {
            if (access->use == ORIGIN_WRITE && origin->var->space == PTX_SPACE_global)
                add_global(out, origin->var->name);
            continue;
        }
        if (access->use == ORIGIN_WRITE)
            out->written[origin->word / 64] |= bit;
        if (access->use == ORIGIN_READ_CACHED)
            out->cached[origin->word / 64] |= bit;
    }
    out->cached_unknown |= !known && access->use == ORIGIN_READ_CACHED && !access->other_space;
    out->writes_unknown |= !known && access->use == ORIGIN_WRITE && !access->other_space;
    out->follows_loaded |= !known && access->use != ORIGIN_ESCAPE && !access->other_space;
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
    struct origins origins;
    struct collecting collecting = {.out = out, .origins = &origins};
    status = func && func->entry && func->defined ? needs_make(&module, func, &arena, &needs)
                                                  : KG_NOT_FOUND;
    if (status == KG_OK)
        status = origins_make(&needs, func, &arena, &origins);
    if (status == KG_OK)
        origins_uses(&origins, access_use, &collecting);
    arena_free(&arena);
    ptx_module_free(&module);
    return status;
}
