/* Publishing: a verified variant, its code, source and evidence into the store, and from the store
 * a new snapshot, which is all that apps see. */
#include "tune/again.h"
#include "tune/job.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static kg_status put_text(struct store *store, const char *text, struct kg_id *out)
{
    return text && *text ? store_put_blob(store, text, strlen(text), out) : KG_OK;
}

/* The code that is stored must be the code that the replay loaded: by its digest, not by its name.
 */
static kg_status labelled(const char *evidence, const struct kg_id *code)
{
    char text[KG_ID_TEXT];
    json_t *json = evidence ? json_loads(evidence, 0, NULL) : NULL;
    const char *loaded =
        json_string_value(json_object_get(json_object_get(json, "variant"), "code"));
    bool same = loaded && !strcmp(loaded, id_text(code, text));
    json_decref(json);
    if (same)
        return KG_OK;
    log_line(KG_ERROR, "the replay did not load the code that was to be verified");
    return KG_CORRUPT;
}

static kg_status put_blobs(struct job *job, const struct candidate *candidate,
                           const struct verdict *verdict, struct kg_variant *variant)
{
    kg_status status =
        store_put_blob(job->store, candidate->code.data, candidate->code.size, &variant->code);
    if (status == KG_OK)
        status = put_text(job->store, candidate->source, &variant->source);
    if (status == KG_OK)
        status = put_text(job->store, candidate->ptx, &variant->ptx);
    if (status == KG_OK)
        status = put_text(job->store, candidate->recipe, &variant->recipe);
    if (status == KG_OK)
        status = labelled(verdict->evidence, &variant->code);
    return status == KG_OK ? put_text(job->store, verdict->evidence, &variant->evidence) : status;
}

kg_status publish_variant(struct job *job, const struct candidate *candidate,
                          const struct verdict *verdict)
{
    bool best = false;
    struct kg_variant variant = {
        .hardware = job->hardware,
        .kernel = job->model.id,
        .launch = candidate->launch,
        .maker = candidate->maker,
        .entry = candidate->entry,
        .kernel_name = job->capture.entry,
        .note = candidate->note ? candidate->note : "",
        .accuracy = job->accuracy ? job->accuracy : options()->accuracy,
        .exact = verdict->exact,
        .global_count = candidate->global_count,
        .original_ns = verdict->original_ns,
        .variant_ns = verdict->variant_ns,
        .ratio = verdict->ratio,
        .low = verdict->low,
        .high = verdict->high,
        .driver_version = job->capture.hardware.driver_version,
        .compiler_version = candidate->compiler_version,
        .time = (uint64_t)time(NULL),
    };
    memcpy(variant.globals, candidate->globals, sizeof variant.globals);
    kept_put(job);
    kg_status status = put_blobs(job, candidate, verdict, &variant);
    if (status == KG_OK)
        status = signature_pinning(job, verdict->unshown, &variant.signature);
    if (status != KG_OK)
        return status;
    variant_identify(&variant);
    status = store_put_variant(job->store, &variant, &best);
    free(variant.signature.scalars);
    if (status != KG_OK)
        return status;
    log_line(KG_INFO, "%s: variant by %s, %.2f times as fast [%.2f, %.2f]%s", job->capture.entry,
             candidate->maker, variant.ratio, variant.low, variant.high,
             best ? "" : "; another is faster");
    return best ? snapshot_make(job->store, job->dir, &job->hardware) : KG_OK;
}
