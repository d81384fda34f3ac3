/* Maker "rules": no model, exact rewriting of the original's PTX: pinned scalars and launch
 * dimensions become constants; compiled again for the real architecture, loops with a known trip
 * count unroll. The launch stays as it was. Nothing here may change a result: what cannot be done
 * exactly is left alone. */
#include "tune/makers.h"

static kg_status specialise(struct job *job, struct candidate *out)
{
    struct kg_bytes text = {0};
    unsigned replaced = 0;
    kg_status status =
        ptx_specialise((const char *)job->image.ptx.data, job->model.entry, &job->capture.launch,
                       job->model.params, job->model.param_count, job->signature.scalars,
                       job->signature.scalar_count, &text, &replaced);
    if (status != KG_OK)
        return status;
    out->ptx = arena_copy(&job->arena, (const char *)text.data, text.size);
    bytes_free(&text);
    out->note = arena_format(&job->arena,
                             "%u reads of scalars and launch dimensions replaced by "
                             "constants",
                             replaced);
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
    kg_status status = specialise(job, out);
    if (status == KG_OK && job->model.global_count)
        status = rules_globals(job, out);
    return status;
}
