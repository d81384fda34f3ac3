/* Doubts: a program saw a variant differ from its original, or could not check it there. The
 * variant goes through all gates again, on a capture of that program's and on those that are kept.
 * Only what a replay refuses is taken from everybody; a difference that does not show again may
 * have been another stream's write, and is noted, no more. */
#include "tune/job.h"

#include "tune/again.h"
#include "tune/signature.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_DOUBTS = 16, PATIENCE_SECONDS = 120 };

/* ---- the variant again -------------------------------------------------------------------------
 */

struct sought {
    const struct kg_id *id;
    struct kg_bytes record;
};

static bool seek(void *self, const struct kg_variant *v, bool best)
{
    struct sought *sought = self;
    if (!id_equal(&v->id, sought->id))
        return true;
    if (variant_pack(v, &sought->record) != KG_OK)
        sought->record = (struct kg_bytes){0};
    return false;
}

static kg_status variant_find(struct store *store, const struct kg_id *id, struct kg_variant *out)
{
    struct sought sought = {.id = id};
    kg_status status = store_each_variant(store, seek, &sought);
    if (status == KG_OK)
        status = sought.record.data ? variant_parse(sought.record.data, sought.record.size, out)
                                    : KG_NOT_FOUND;
    bytes_free(&sought.record);
    return status;
}

/* Text of a blob in the job's arena; NULL: there is none. */
static const char *text_of(struct job *job, const struct kg_id *id)
{
    static const struct kg_id none;
    struct kg_bytes bytes;
    if (id_equal(id, &none) || store_get_blob(job->store, id, &bytes) != KG_OK)
        return NULL;
    const char *text = arena_copy(&job->arena, (const char *)bytes.data, bytes.size);
    bytes_free(&bytes);
    return text;
}

/* All gates anew, under the accuracy that it was verified for. */
static kg_status verify_anew(struct job *job, const struct kg_variant *v, struct verdict *out)
{
    struct candidate candidate = {.maker = v->maker,
                                  .source = text_of(job, &v->source),
                                  .ptx = text_of(job, &v->ptx),
                                  .entry = v->entry,
                                  .note = v->note,
                                  .launch = v->launch,
                                  .global_count = v->global_count,
                                  .compiler_version = v->compiler_version};
    memcpy(candidate.globals, v->globals, sizeof candidate.globals);
    kg_status status = store_get_blob(job->store, &v->code, &candidate.code);
    if (status != KG_OK) {
        verdict_set(out, status, "replay", "its code is not in the store");
        return status;
    }
    if (!candidate.ptx) /* code that is text, as on the software GPU */
        candidate.ptx = (const char *)candidate.code.data;
    const char *own = job->accuracy;
    job->accuracy = v->accuracy;
    status = verify_candidate(job, &candidate, out);
    job->accuracy = own;
    bytes_free(&candidate.code);
    free(out->evidence);
    out->evidence = NULL;
    return status;
}

/* ---- what comes of it --------------------------------------------------------------------------
 */

/* Kept with the verdicts against candidates, under a gate of its own: see `kgenrt show`. */
static void note_doubt(struct store *store, const struct kg_doubt *doubt,
                       const struct kg_variant *variant, const char *outcome)
{
    struct kg_rejection note = {.hardware = doubt->hardware,
                                .kernel = doubt->kernel,
                                .gate = GATE_DOUBT,
                                .candidate = variant->code,
                                .driver_version = variant->driver_version,
                                .time = (uint64_t)time(NULL)};
    signature_id(&variant->signature, &note.signature);
    snprintf(note.kernel_name, sizeof note.kernel_name, "%s", variant->kernel_name);
    snprintf(note.maker, sizeof note.maker, "%s", variant->maker);
    char id[KG_ID_TEXT];
    snprintf(note.reason, sizeof note.reason, "variant %.12s in %.200s: %.255s; %.400s",
             id_text(&variant->id, id), doubt->program, doubt->reason, outcome);
    log_line(KG_WARN, "%s: %s", note.kernel_name, note.reason);
    (void)store_put_rejection(store, &note); /* says itself what failed */
}

/* A refusal by a replay, or a launch that did not end: everybody's originals run from now on. */
static void quarantine(struct job *job, const struct kg_doubt *doubt,
                       const struct kg_variant *variant, const struct verdict *verdict)
{
    char reason[1024];
    snprintf(reason, sizeof reason, "%s in %.200s: %.200s; a replay refused it at gate %s: %.400s",
             doubt->differed ? "it differed" : "looked at again for", doubt->program,
             doubt->differed ? doubt->reason : "what it was given there", verdict->gate,
             verdict->reason);
    log_line(KG_WARN, "%s: a variant is taken back: %s", variant->kernel_name, reason);
    kg_status status = store_demote(job->store, &variant->id, reason);
    if (status == KG_OK)
        status = snapshot_make(job->store, job->dir, &variant->hardware);
    if (status != KG_OK && status != KG_NOT_FOUND) /* not found: it was no longer the best */
        log_line(KG_ERROR, "%s: the variant could not be taken back: %s", variant->kernel_name,
                 status_text(status));
}

static bool passed(kg_status status)
{
    return status == KG_OK || status == KG_SLOWER;
}

/* On the captures that are kept of the variant's own verification, if they are. */
static kg_status verify_kept(const struct job *job, const struct kg_variant *variant,
                             struct verdict *out)
{
    struct again_result then;
    struct job *kept = calloc(1, sizeof *kept);
    kg_status status = KG_OK;
    if (!kept)
        return KG_OK;
    kept->store = job->store;
    kept->dir = job->dir;
    if (again_open(kept, variant, &then))
        status = verify_anew(kept, variant, out);
    else
        log_line(KG_DEBUG, "%s: not verified on kept captures: %s", variant->kernel_name,
                 then.reason);
    json_decref(then.stored);
    job_close(kept);
    free(kept);
    return status;
}

static void settle(struct job *job, const struct kg_doubt *doubt, const struct kg_variant *variant)
{
    struct verdict verdict = {.status = KG_OK}, kept = {.status = KG_OK};
    char outcome[512];
    kg_status status = verify_anew(job, variant, &verdict);
    if (status != KG_REFUSED && status != KG_TIMEOUT) {
        kg_status other = verify_kept(job, variant, &kept);
        if (other == KG_REFUSED || other == KG_TIMEOUT) {
            status = other;
            verdict = kept;
        }
    }
    if (passed(status))
        looked_put(job->dir, &variant->id);
    if (status == KG_REFUSED || status == KG_TIMEOUT) {
        quarantine(job, doubt, variant, &verdict);
    } else if (doubt->differed || !passed(status)) {
        if (passed(status))
            snprintf(outcome, sizeof outcome,
                     "a replay of a launch there did not show it: other programs keep the variant");
        else
            snprintf(outcome, sizeof outcome, "it could not be replayed (gate %s: %.300s)",
                     verdict.gate, *verdict.reason ? verdict.reason : status_text(status));
        note_doubt(job->store, doubt, variant, outcome);
    }
}

/* Whether the capture is one that a verdict rests on already. */
static bool used_before(const struct job *job)
{
    char seal[KG_ID_TEXT], path[KG_PATH];
    struct kg_id digest;
    const struct kg_bytes *file = &job->capture.file;
    if (file->size < KG_ID_BYTES)
        return true;
    memcpy(digest.bytes, file->data + file->size - KG_ID_BYTES, KG_ID_BYTES);
    return kept_find(job->dir, &job->capture.kernel, id_text(&digest, seal), path) == KG_OK;
}

void recheck_later(struct job *job, const struct kg_id *variant)
{
    struct kg_variant v;
    struct verdict verdict = {.status = KG_OK};
    if (used_before(job) || variant_find(job->store, variant, &v) != KG_OK)
        return;
    kg_status status = KG_REFUSED;
    for (unsigned i = 0; i < 2 && status == KG_REFUSED; i++) /* one refusal may be bad luck */
        status = verify_anew(job, &v, &verdict);
    if (status == KG_REFUSED) {
        struct kg_doubt doubt = {.variant = v.id};
        snprintf(doubt.program, sizeof doubt.program, "%s", job->capture.program);
        quarantine(job, &doubt, &v, &verdict);
    } else if (passed(status)) {
        log_line(KG_INFO, "%s: its variant is right on a later launch, too", v.kernel_name);
        kept_put(job);
    }
    variant_free(&v);
}

void recheck_doubts(struct job *job)
{
    struct kg_doubt *doubts = calloc(MOST_DOUBTS, sizeof *doubts);
    unsigned count = doubts ? doubts_read(job->dir, doubts, MOST_DOUBTS) : 0;
    for (unsigned i = 0; i < count; i++) {
        const struct kg_doubt *doubt = &doubts[i];
        struct kg_variant variant;
        if (!id_equal(&doubt->hardware, &job->hardware) ||
            !id_equal(&doubt->kernel, &job->model.id) || job->capture.time < doubt->time)
            continue; /* an older capture cannot show what was seen later */
        kg_status status = variant_find(job->store, &doubt->variant, &variant);
        bool settled = status == KG_NOT_FOUND; /* of another cache: nobody here gets it */
        if (status == KG_OK) {
            settled = signature_alike(&variant.signature, &job->capture);
            if (settled)
                settle(job, doubt, &variant);
            variant_free(&variant);
        }
        if (settled)
            doubt_remove(job->dir, &doubt->variant);
    }
    free(doubts);
}

void recheck_leftover(struct store *store, const char *dir, bool apps_live)
{
    struct kg_doubt *doubts = calloc(MOST_DOUBTS, sizeof *doubts);
    unsigned count = doubts ? doubts_read(dir, doubts, MOST_DOUBTS) : 0;
    for (unsigned i = 0; i < count; i++) {
        const struct kg_doubt *doubt = &doubts[i];
        struct kg_variant variant;
        if (apps_live && doubt->time + PATIENCE_SECONDS > (uint64_t)time(NULL))
            continue; /* its program may still bring a capture */
        kg_status status = variant_find(store, &doubt->variant, &variant);
        if (status == KG_OK && doubt->differed)
            note_doubt(store, doubt, &variant,
                       "no launch of it was captured, so it was not looked at again: other "
                       "programs keep the variant");
        if (status == KG_OK)
            variant_free(&variant);
        doubt_remove(dir, &doubt->variant);
    }
    free(doubts);
}
