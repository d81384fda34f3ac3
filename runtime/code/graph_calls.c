/* Who calls whom among the functions that an entry needs. Strongly connected ones, by Tarjan's
 * method, are recursive; the order in which they end is bottom-up. */
#include "graph.h"

static bool add_site(struct graph_calls *calls, uint32_t caller, uint32_t instr, uint32_t callee)
{
    if (calls->sites)
        calls->sites[calls->site_count] = (struct graph_site){caller, instr, callee};
    calls->unknown |= callee == GRAPH_NONE;
    return ++calls->site_count < (1u << 22);
}

/* One call's sites. A register's possible targets are known from a .calltargets list only. */
static bool add_call(struct graph_calls *calls, uint32_t caller, uint32_t index)
{
    const struct ptx_instr *instr = &calls->needs->funcs[caller]->instrs[index];
    const struct ptx_func *func = instr->operand_count > 1 ? instr->operands[1].func : NULL;
    const struct ptx_list *list = instr->operand_count > 3 ? instr->operands[3].list : NULL;
    if (func)
        return add_site(calls, caller, index, number_find(&calls->needs->func_numbers, func, 0));
    if (!list || list->kind != PTX_CALL_TARGETS || !list->count)
        return add_site(calls, caller, index, GRAPH_NONE);
    for (uint32_t i = 0; i < list->count; i++)
        if (!add_site(calls, caller, index,
                      number_find(&calls->needs->func_numbers, list->funcs[i], 0)))
            return false;
    return true;
}

static bool add_sites(struct graph_calls *calls)
{
    calls->site_count = 0;
    for (uint32_t f = 0; f < calls->needs->func_count; f++) {
        const struct ptx_func *func = calls->needs->funcs[f];
        calls->first[f] = calls->site_count;
        for (uint32_t i = 0; i < func->instr_count; i++)
            if (func->instrs[i].form->op == PTX_OP_call && !add_call(calls, f, i))
                return false;
    }
    calls->first[calls->needs->func_count] = calls->site_count;
    return true;
}

struct connecting {
    struct graph_calls *calls;
    uint32_t *number, *low, *next, *path, *open; /* by function; path, open: stacks */
    uint32_t count, path_depth, open_depth, done;
    bool *is_open;
};

static void start(struct connecting *at, uint32_t func)
{
    at->number[func] = at->low[func] = ++at->count;
    at->next[func] = at->calls->first[func];
    at->path[at->path_depth++] = at->open[at->open_depth++] = func;
    at->is_open[func] = true;
}

/* All calls of func are seen: if nothing above it is reached from it, its component is complete. */
static void finish(struct connecting *at, uint32_t func)
{
    at->path_depth--;
    if (at->path_depth) {
        uint32_t caller = at->path[at->path_depth - 1];
        if (at->low[func] < at->low[caller])
            at->low[caller] = at->low[func];
    }
    if (at->low[func] != at->number[func])
        return;
    bool alone = at->open[at->open_depth - 1] == func;
    for (uint32_t other = GRAPH_NONE; other != func;) {
        other = at->open[--at->open_depth];
        at->is_open[other] = false;
        at->calls->recursive[other] |= !alone;
        at->calls->bottom_up[at->done++] = other;
    }
}

static void connect(struct connecting *at, uint32_t root)
{
    for (start(at, root); at->path_depth;) {
        uint32_t func = at->path[at->path_depth - 1];
        if (at->next[func] == at->calls->first[func + 1]) {
            finish(at, func);
            continue;
        }
        uint32_t callee = at->calls->sites[at->next[func]++].callee;
        if (callee == GRAPH_NONE)
            continue;
        at->calls->recursive[func] |= callee == func;
        if (!at->number[callee])
            start(at, callee);
        else if (at->is_open[callee] && at->number[callee] < at->low[func])
            at->low[func] = at->number[callee];
    }
}

kg_status graph_calls_make(const struct needs *needs, struct kg_arena *arena,
                           struct graph_calls *out)
{
    size_t count = needs->func_count;
    *out = (struct graph_calls){.needs = needs};
    struct connecting at = {.calls = out};
    uint32_t **arrays[] = {&out->first, &out->bottom_up, &at.number, &at.low,
                           &at.next,    &at.path,        &at.open};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (!(*arrays[i] = arena_alloc(arena, (count + 1) * sizeof(uint32_t))))
            return KG_NO_MEMORY;
    out->recursive = arena_alloc(arena, count + 1);
    at.is_open = arena_alloc(arena, count + 1);
    if (!out->recursive || !at.is_open)
        return KG_NO_MEMORY;
    if (!add_sites(out))
        return KG_LIMIT;
    out->sites = arena_alloc(arena, (out->site_count + 1ull) * sizeof *out->sites);
    if (!out->sites)
        return KG_NO_MEMORY;
    add_sites(out);
    for (uint32_t f = 0; f < count; f++)
        if (!at.number[f])
            connect(&at, f);
    return KG_OK;
}

uint32_t graph_calls_at(const struct graph_calls *calls, uint32_t func, uint32_t instr)
{
    uint32_t low = calls->first[func], high = calls->first[func + 1];
    while (low < high) { /* sites are in order of the text */
        uint32_t middle = low + (high - low) / 2;
        if (calls->sites[middle].instr < instr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
