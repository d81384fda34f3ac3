/* Makes a stored verdict again: the variant's own code, from the store by its digest, on the
 * capture that was kept, through every gate, and then compared with the evidence of then. A verdict
 * that cannot be made here (no capture, another GPU) is neither confirmed nor denied. */
#include "tune/again.h"

#include "tune/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* From one process, or one day, to the next a GPU is that much faster or slower. */
static const double drift = 0.05;

static void outcome(struct again_result *out, enum again what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void outcome(struct again_result *out, enum again what, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    out->outcome = what;
    vsnprintf(out->reason, sizeof out->reason, format, args);
    va_end(args);
}

static const char *text_of(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));
    return text ? text : "";
}

/* ---- what was kept -----------------------------------------------------------------------------
 */

/* The JSON of a blob. */
static kg_status read_evidence(struct store *store, const struct kg_id *id, json_t **out)
{
    struct kg_bytes bytes;
    kg_status status = store_get_blob(store, id, &bytes);
    if (status != KG_OK)
        return status;
    *out = json_loadb((const char *)bytes.data, bytes.size, 0, NULL);
    bytes_free(&bytes);
    return *out ? KG_OK : KG_CORRUPT;
}

/* Captures of other times that the verdict of then had; all of them, or it would be another. */
static kg_status find_others(struct job *job, const json_t *stored)
{
    const json_t *others = json_object_get(stored, "others");
    char path[KG_PATH];
    size_t count = json_array_size(others);
    kg_status status = count > JOB_OTHERS ? KG_LIMIT : KG_OK;
    for (size_t i = 0; i < count && status == KG_OK; i++) {
        const char *seal = json_string_value(json_array_get(others, i));
        status = kept_find(job->dir, &job->capture.kernel, seal ? seal : "", path);
        if (status != KG_OK)
            return status;
        kept_used(path);
        char *copy = arena_copy(&job->arena, path, strlen(path));
        if (!copy)
            return KG_NO_MEMORY;
        job->others[job->other_count++] = copy;
    }
    return status;
}

static bool open_kept(struct job *job, const struct kg_variant *variant, struct again_result *out)
{
    char path[KG_PATH];
    const char *seal = text_of(out->stored, "capture");
    kg_status status = kept_find(job->dir, &variant->kernel, seal, path);
    if (status == KG_OK)
        status = job_open(job, path);
    if (status == KG_OK)
        status = find_others(job, out->stored);
    if (status == KG_NOT_FOUND || status == KG_BAD_INPUT) {
        outcome(out, AGAIN_NOT_POSSIBLE,
                "the capture is not kept (any more): KGENRT_KEPT_MIB says how much is");
        return false;
    }
    if (status != KG_OK) {
        outcome(out, AGAIN_NOT_POSSIBLE, "%s: the kept capture cannot be used: %s", path,
                status_text(status));
        return false;
    }
    kept_used(path);
    status = job_model(job);
    if (status == KG_OK && id_equal(&job->model.id, &variant->kernel) &&
        id_equal(&job->hardware, &variant->hardware))
        return true;
    outcome(out, AGAIN_NOT_POSSIBLE, "%s: the kept capture is not of this variant's kernel and GPU",
            path);
    return false;
}

bool again_open(struct job *job, const struct kg_variant *variant, struct again_result *out)
{
    *out = (struct again_result){.outcome = AGAIN_NOT_POSSIBLE};
    kg_status status = read_evidence(job->store, &variant->evidence, &out->stored);
    if (status == KG_OK)
        return open_kept(job, variant, out);
    outcome(out, AGAIN_NOT_POSSIBLE, "its evidence cannot be read: %s", status_text(status));
    return false;
}

static bool is_none(const struct kg_id *id)
{
    static const struct kg_id none;
    return id_equal(id, &none);
}

/* A blob as text that lives as long as the job; NULL in *out: there is none. */
static kg_status blob_text(struct job *job, const struct kg_id *id, const char **out)
{
    struct kg_bytes bytes;
    *out = NULL;
    if (is_none(id))
        return KG_OK;
    kg_status status = store_get_blob(job->store, id, &bytes);
    if (status != KG_OK)
        return status;
    *out = arena_copy(&job->arena, (const char *)bytes.data, bytes.size);
    bytes_free(&bytes);
    return *out ? KG_OK : KG_NO_MEMORY;
}

static kg_status candidate_of(struct job *job, const struct kg_variant *variant,
                              struct candidate *out)
{
    *out = (struct candidate){.maker = variant->maker,
                              .entry = variant->entry,
                              .note = variant->note,
                              .launch = variant->launch,
                              .global_count = variant->global_count,
                              .compiler_version = variant->compiler_version};
    memcpy(out->globals, variant->globals, sizeof out->globals);
    kg_status status = blob_text(job, &variant->ptx, &out->ptx);
    if (status == KG_OK)
        status = blob_text(job, &variant->source, &out->source);
    return status == KG_OK ? store_get_blob(job->store, &variant->code, &out->code) : status;
}

static bool seeds_of(const json_t *stored, uint64_t seeds[4])
{
    const json_t *list = json_object_get(stored, "seeds");
    for (unsigned i = 0; i < 4; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text)
            return false;
        seeds[i] = strtoull(text, NULL, 16);
    }
    return true;
}

/* ---- comparing ---------------------------------------------------------------------------------
 */

static double figure_of(const json_t *json, const char *key)
{
    return json_number_value(json_object_get(json, key));
}

static bool gains_agree(const json_t *then, const json_t *now, char *text, size_t size)
{
    const json_t *a = json_object_get(then, text_of(then, "chosen")),
                 *b = json_object_get(now, text_of(now, "chosen"));
    bool agree = figure_of(b, "low") <= figure_of(a, "high") * (1 + drift) &&
                 figure_of(b, "high") >= figure_of(a, "low") * (1 - drift);
    snprintf(text, size, "%.3f [%.3f, %.3f] then, %.3f [%.3f, %.3f] now", figure_of(a, "ratio"),
             figure_of(a, "low"), figure_of(a, "high"), figure_of(b, "ratio"), figure_of(b, "low"),
             figure_of(b, "high"));
    return agree;
}

static void compare(struct again_result *out)
{
    const json_t *then = out->stored, *now = out->evidence;
    char gains[200];
    bool exact = !strcmp(text_of(then, "comparison"), "bitwise");
    if (!json_equal(json_object_get(then, "form"), json_object_get(now, "form")))
        outcome(out, AGAIN_NOT_REPRODUCED, "this version's evidence has another form");
    else if (strcmp(text_of(then, "inputs"), text_of(now, "inputs")))
        outcome(out, AGAIN_NOT_REPRODUCED, "the inputs' digest is another one than then");
    else if (exact && strcmp(text_of(then, "result"), text_of(now, "result")))
        outcome(out, AGAIN_NOT_REPRODUCED, "the result's digest is another one than then");
    else if (!gains_agree(then, now, gains, sizeof gains))
        outcome(out, AGAIN_NOT_REPRODUCED, "the gain is another one: %s", gains);
    else
        outcome(out, AGAIN_REPRODUCED, "%s", "");
}

/* A verdict against the variant, and not about this machine or moment. */
static bool against(kg_status status)
{
    return status == KG_REFUSED || status == KG_SLOWER || status == KG_TIMEOUT ||
           status == KG_NOT_ELIGIBLE;
}

static void run(struct job *job, const struct kg_variant *variant, struct again_result *out)
{
    struct candidate candidate;
    struct verdict verdict = {.status = KG_OK};
    kg_status status = candidate_of(job, variant, &candidate);
    if (status != KG_OK) {
        outcome(out, status == KG_NO_MEMORY ? AGAIN_NOT_POSSIBLE : AGAIN_NOT_REPRODUCED,
                "its code in the store cannot be used: %s", status_text(status));
        return;
    }
    status = verify_candidate(job, &candidate, &verdict);
    out->evidence = verdict.evidence ? json_loads(verdict.evidence, 0, NULL) : NULL;
    if (status == KG_OK)
        compare(out);
    else
        outcome(out, against(status) ? AGAIN_NOT_REPRODUCED : AGAIN_NOT_POSSIBLE, "%s %s: %s",
                against(status) ? "refused by gate" : "not verified, gate", verdict.gate,
                *verdict.reason ? verdict.reason : status_text(status));
    free(verdict.evidence);
    bytes_free(&candidate.code);
}

void verify_again(struct store *store, const char *dir, const struct kg_variant *variant,
                  bool same_seeds, struct again_result *out)
{
    struct job *job = calloc(1, sizeof *job);
    *out = (struct again_result){.outcome = AGAIN_NOT_POSSIBLE};
    if (!job) {
        outcome(out, AGAIN_NOT_POSSIBLE, "%s", status_text(KG_NO_MEMORY));
        return;
    }
    job->store = store;
    job->dir = dir;
    job->accuracy = variant->accuracy;
    if (again_open(job, variant, out)) {
        job->seeded = same_seeds && seeds_of(out->stored, job->seeds);
        if (same_seeds && !job->seeded)
            outcome(out, AGAIN_NOT_POSSIBLE, "its evidence has no seeds");
        else
            run(job, variant, out);
    }
    job_close(job);
    free(job);
}
