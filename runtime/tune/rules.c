/* Maker "rules": no model, exact rewriting of the original's PTX: pinned scalars and launch
 * dimensions become constants, and what follows from them is rewritten by the rows of passes.def;
 * compiled again for the real architecture, loops with a known trip count unroll. The launch stays
 * as it was. Nothing here may change a result: what cannot be done exactly is left alone. */
#include "tune/makers.h"

/* "exact rewrites: 9 scalar reads, 5 divisions by one" */
static const char *counts_text(struct kg_arena *arena, const unsigned done[PASS_COUNT])
{
    const char *text = "exact rewrites: ", *comma = "";
    for (unsigned i = 0; i < PASS_COUNT && text; i++) {
        if (!done[i])
            continue;
        text = arena_format(arena, "%s%s%u %s", text, comma, done[i], pass_rows[i].title);
        comma = ", ";
    }
    return text;
}

static kg_status rewrite(struct job *job, struct candidate *out)
{
    struct kg_bytes text = {0};
    unsigned done[PASS_COUNT];
    kg_status status =
        ptx_rewrite((const char *)job->image.ptx.data, job->model.entry, &job->capture.launch,
                    job->model.params, job->model.param_count, job->signature.scalars,
                    job->signature.scalar_count, &text, done);
    if (status != KG_OK)
        return status;
    out->ptx = arena_copy(&job->arena, (const char *)text.data, text.size);
    bytes_free(&text);
    out->note = counts_text(&job->arena, done);
    return out->ptx && out->note ? KG_OK : KG_NO_MEMORY;
}

kg_status rules_make(struct job *job, const char *argument, unsigned attempt, unsigned turn,
                     const struct candidate *previous, const char *message, struct candidate *out)
{
    (void)argument, (void)previous, (void)message;
    *out = (struct candidate){
        .maker = "rules", .entry = job->model.entry, .launch = job->capture.launch};
    if (attempt || turn || !job->image.ptx.size)
        return KG_NO_CANDIDATE;
    kg_status status = rewrite(job, out);
    if (status == KG_OK && job->model.global_count)
        status = rules_globals(job, out);
    return status;
}
