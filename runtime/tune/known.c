/* Maker "known": variants of the job's kernel that were verified for other launches, best first, as
 * candidates for this one. Asked before all makers, and costs no model: launch and guards of a
 * reply are worked out anew from its expressions, the code stays as it is. Through all gates like
 * any other; what is refused is refused for this signature only. What `rules` made holds the values
 * of its signature and costs nothing to make again: left out. */
#include "tune/makers.h"
#include "tune/reply.h"
#include "suspects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KNOWN = 8 };

struct known {
    struct kg_id id, code, source, ptx, recipe;
    struct kg_launch launch, original;
    const char *maker, *entry, *note;
    uint32_t global_count;
    const char *globals[VARIANT_GLOBALS];
    double ratio;
};

struct finding {
    struct job *job;
    struct suspects suspects;
    unsigned count;
    struct known list[MOST_KNOWN]; /* best first, each code once */
    bool failed;
};

static const char *copy(struct finding *f, const char *text)
{
    const char *out = arena_copy(&f->job->arena, text, strlen(text));
    f->failed |= !out;
    return out;
}

static void keep(struct finding *f, struct known *to, const struct kg_variant *v)
{
    *to = (struct known){.id = v->id,
                         .code = v->code,
                         .source = v->source,
                         .ptx = v->ptx,
                         .recipe = v->recipe,
                         .launch = v->launch,
                         .original = v->signature.launch,
                         .maker = copy(f, v->maker),
                         .entry = copy(f, v->entry),
                         .note = copy(f, v->note),
                         .global_count = v->global_count,
                         .ratio = v->ratio};
    for (uint32_t i = 0; i < v->global_count; i++)
        to->globals[i] = copy(f, v->globals[i]);
}

static bool take(void *self, const struct kg_variant *v, bool best)
{
    struct finding *f = self;
    const struct job *job = f->job;
    if (!best || !id_equal(&v->hardware, &job->hardware) || !id_equal(&v->kernel, &job->model.id) ||
        !strcmp(v->maker, "rules") || suspects_variant(&f->suspects, &v->id, v->time))
        return true;
    unsigned at = 0, end = f->count;
    for (unsigned i = 0; i < f->count; i++) {
        if (id_equal(&f->list[i].code, &v->code) && id_equal(&f->list[i].recipe, &v->recipe)) {
            if (f->list[i].ratio >= v->ratio)
                return true;
            end = i; /* the same for another launch, where it gained less: gives way */
            break;
        }
    }
    while (at < end && f->list[at].ratio >= v->ratio)
        at++;
    if (at == MOST_KNOWN)
        return true;
    if (end == f->count && f->count < MOST_KNOWN)
        f->count++;
    else if (end == f->count)
        end--;
    memmove(&f->list[at + 1], &f->list[at], (end - at) * sizeof *f->list);
    keep(f, &f->list[at], v);
    return !f->failed;
}

static kg_status blob_text(struct job *job, const struct kg_id *id, const char **out)
{
    static const struct kg_id none;
    struct kg_bytes bytes;
    *out = NULL;
    if (id_equal(id, &none))
        return KG_OK;
    kg_status status = store_get_blob(job->store, id, &bytes);
    if (status != KG_OK)
        return status;
    *out = arena_copy(&job->arena, (const char *)bytes.data, bytes.size);
    bytes_free(&bytes);
    return *out ? KG_OK : KG_NO_MEMORY;
}

/* A launch without expressions stands for launches of the original like the one it had. */
static kg_status launch_of(struct job *job, const struct known *known, const char *recipe,
                           struct candidate *out)
{
    char message[512] = "";
    if (recipe) {
        kg_status status = reply_recipe(job, recipe, strlen(recipe), out, message, sizeof message);
        if (status == KG_BAD_INPUT &&
            !(out->note = arena_copy(&job->arena, message, strlen(message))))
            return KG_NO_MEMORY;
        return status;
    }
    out->launch = known->launch;
    if (!memcmp(&known->original, &job->capture.launch, sizeof known->original))
        return KG_OK;
    out->note = "its launch is not known for another launch of the original";
    return KG_BAD_INPUT;
}

static kg_status offer(struct job *job, const struct known *known, struct candidate *out)
{
    const char *recipe;
    *out = (struct candidate){.maker = known->maker, .global_count = known->global_count};
    memcpy(out->globals, known->globals, sizeof out->globals);
    kg_status status = blob_text(job, &known->source, &out->source);
    if (status == KG_OK)
        status = blob_text(job, &known->ptx, &out->ptx);
    if (status == KG_OK)
        status = blob_text(job, &known->recipe, &recipe);
    if (status == KG_OK)
        status = launch_of(job, known, recipe, out);
    out->entry = known->entry; /* of the code, which a reply may name in another way */
    if (status != KG_OK)
        return status;
    out->note = known->note;
    return store_get_blob(job->store, &known->code, &out->code);
}

kg_status known_make(struct job *job, const char *argument, unsigned attempt, unsigned turn,
                     const struct candidate *previous, const char *message, struct candidate *out)
{
    (void)argument, (void)previous, (void)message;
    *out = (struct candidate){0};
    struct finding *f = turn ? NULL : calloc(1, sizeof *f);
    if (!f)
        return turn ? KG_NO_CANDIDATE : KG_NO_MEMORY;
    f->job = job;
    suspects_read(job->dir, &f->suspects, NULL, NULL);
    kg_status status = store_each_variant(job->store, take, f);
    if (f->failed)
        status = KG_NO_MEMORY;
    else if (attempt >= f->count) /* a damaged record is none */
        status = KG_NO_CANDIDATE;
    else
        status = offer(job, &f->list[attempt], out);
    free(f);
    return status;
}

/* ---- for the prompt ----------------------------------------------------------------------------
 */

struct listing {
    struct job *job;
    unsigned count;
    char *text;
};

static bool list(void *self, const struct kg_variant *v, bool best)
{
    struct listing *l = self;
    const struct kg_signature *s = &v->signature;
    const struct kg_dim g = s->launch.grid, b = s->launch.block;
    if (!best || !id_equal(&v->hardware, &l->job->hardware) ||
        !id_equal(&v->kernel, &l->job->model.id) || signature_holds(s, &l->job->capture))
        return true;
    if (l->count++ >= MOST_KNOWN)
        return true;
    l->text = arena_format(&l->job->arena, "%s- grid (%u, %u, %u), block (%u, %u, %u), shared %u",
                           l->text, g.x, g.y, g.z, b.x, b.y, b.z, s->launch.shared);
    for (uint32_t i = 0; l->text && i < s->scalar_count && i < MOST_KNOWN; i++)
        l->text = arena_format(&l->job->arena, "%s%sp%u, byte %u: 0x%llx", l->text,
                               i ? "; " : "; scalars ", s->scalars[i].param, s->scalars[i].offset,
                               (unsigned long long)s->scalars[i].value);
    l->text = l->text ? arena_format(&l->job->arena, "%s\n", l->text) : NULL;
    return l->text != NULL;
}

unsigned known_launches(struct job *job, const char **text)
{
    struct listing l = {.job = job, .text = arena_copy(&job->arena, "", 0)};
    *text = NULL;
    if (!job->store || !l.text || store_each_variant(job->store, list, &l) == KG_NO_MEMORY ||
        !l.text)
        return 0;
    *text = l.text;
    return l.count;
}

const struct maker known_maker = {"known", known_make, 0};
