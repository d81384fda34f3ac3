/* Runs the exact rewrites in rounds: parse, learn what is known, rewrite every instruction that a
 * row applies to, splice the text, again, until nothing applies. Each round's text is whole PTX.
 * The entry's name, parameters and all that is not an instruction stay as they are. */
#include "passes.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS_MAX = 12 };

const struct pass_row pass_rows[PASS_COUNT] = {
#define PASS(id, title, reason) {#id, title, reason},
#include "passes.def"
};

/* ---- one round ---- */

struct round {
    const char *source;
    FILE *to;
    uint32_t at; /* bytes of the source that are written */
    unsigned count;
    unsigned *done;
};

static void take(struct round *round, const struct ptx_instr *instr, const struct rewrite *rewrite)
{
    if (instr->place.begin < round->at) /* places never overlap */
        return;
    fwrite(round->source + round->at, 1, instr->place.begin - round->at, round->to);
    fputs(rewrite->text, round->to);
    round->at = instr->place.end;
    round->done[rewrite->pass]++;
    round->count++;
}

static kg_status round_func(struct round *round, const struct ptx_func *func,
                            const struct kg_launch *launch, rewrite_row *row)
{
    struct kg_arena arena = {0};
    struct graph graph;
    struct values values;
    kg_status status = graph_make(func, &arena, &graph);
    if (status == KG_OK)
        status = values_make(&graph, launch, &arena, &values);
    struct rewriter r = {&arena, round->source, func, &graph, &values};
    for (uint32_t i = 0; status == KG_OK && i < func->instr_count; i++) {
        struct rewrite rewrite;
        if (row(&r, i, &rewrite))
            take(round, &func->instrs[i], &rewrite);
    }
    arena_free(&arena);
    return status == KG_LIMIT ? KG_OK : status; /* then it stays as it is */
}

/* Functions of a module stand in the order of their text among its items. */
static kg_status round_run(const char *source, const struct kg_launch *launch, rewrite_row *row,
                           struct kg_bytes *out, unsigned done[PASS_COUNT], unsigned *count)
{
    char error[256], *text = NULL;
    size_t size = 0;
    struct ptx_module module;
    struct round round = {.source = source, .done = done};
    kg_status status = ptx_parse(source, strlen(source), &module, error, sizeof error);
    if (status != KG_OK) {
        log_line(KG_WARN, "rules: a rewritten text is not understood: %s", error);
        return status;
    }
    round.to = open_memstream(&text, &size);
    if (!round.to)
        status = KG_NO_MEMORY;
    for (uint32_t i = 0; status == KG_OK && i < module.item_count; i++)
        if (module.items[i].kind == PTX_ITEM_DEFINE)
            status = round_func(&round, module.items[i].func, launch, row);
    if (round.to) {
        fputs(source + round.at, round.to);
        if (fclose(round.to) && status == KG_OK)
            status = KG_NO_MEMORY;
    }
    if (status == KG_OK)
        *out = (struct kg_bytes){(unsigned char *)text, size};
    else
        free(text);
    *count = round.count;
    ptx_module_free(&module);
    return status;
}

/* Rows that ptxas makes as well, and that are no reason for a variant. */
static bool is_tidying(unsigned pass)
{
    return pass == PASS_copy || pass == PASS_dead || pass == PASS_unreachable ||
           pass == PASS_rounded || pass == PASS_hidden;
}

kg_status ptx_rewrite(const char *ptx, const char *entry, const struct kg_launch *launch,
                      const struct kg_param *params, uint32_t param_count,
                      const struct kg_scalar *scalars, uint32_t scalar_count, struct kg_bytes *out,
                      unsigned done[PASS_COUNT])
{
    kg_status status =
        ptx_specialise(ptx, entry, launch, params, param_count, scalars, scalar_count, out, done);
    unsigned count = 1, useful = 0;
    for (unsigned i = 0; status == KG_OK && count && i < ROUNDS_MAX; i++) {
        struct kg_bytes next = {0};
        status = round_run((const char *)out->data, launch, i ? rewrite_common : rewrite_settle,
                           &next, done, &count);
        count += !i; /* whatever the first found, the next looks */
        if (status == KG_OK) {
            bytes_free(out);
            *out = next;
        }
    }
    for (unsigned i = 0; i < PASS_COUNT; i++)
        useful += is_tidying(i) ? 0 : done[i];
    if (status == KG_OK && !useful)
        status = KG_NO_CANDIDATE;
    if (status != KG_OK)
        bytes_free(out);
    return status;
}
