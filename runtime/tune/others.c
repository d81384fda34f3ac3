/* Captures of one kernel and signature at different times. The app takes several, so that a variant
 * is not judged by one moment's contents: the oldest is the job's own, those that lie beside it
 * when the job begins are its `others`. In the worker they are found; in the replay child their
 * bytes are brought to where the job's own stand. A capture whose memory cannot stand there is not
 * used, and never guessed at. */
#include "tune/job.h"
#include "tune/replay.h"
#include "tune/signature.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- in the worker -----------------------------------------------------------------------------
 */

/* Whether the capture at `path` is of the job's kernel and signature; where its memory lies is
 * looked at in the replay. */
static bool same_launch(const struct job *job, const char *path)
{
    struct kg_capture capture;
    if (capture_read(path, &capture) != KG_OK)
        return false;
    bool same = id_equal(&capture.kernel, &job->capture.kernel) &&
                signature_alike(&job->signature, &capture);
    capture_free(&capture);
    return same;
}

kg_status job_find_others(struct job *job)
{
    const char *slash = strrchr(job->capture_path, '/');
    const char *own = slash ? slash + 1 : job->capture_path;
    char folder[KG_PATH], id[KG_ID_TEXT], path[KG_PATH];
    kg_status status = path_make(folder, "%.*s", slash ? (int)(slash - job->capture_path) : 1,
                                 slash ? job->capture_path : ".");
    if (status != KG_OK)
        return status;
    id_text(&job->capture.kernel, id);
    id[8] = 0; /* `kgenrt capture` names files by so many digits; what a file is, it says itself */
    DIR *list = opendir(*folder ? folder : "/");
    for (struct dirent *e; list && job->other_count < JOB_OTHERS && (e = readdir(list));)
        if (strstr(e->d_name, id) && text_ends(e->d_name, CAPTURE_SUFFIX) &&
            strcmp(e->d_name, own) && path_make(path, "%s/%s", folder, e->d_name) == KG_OK &&
            same_launch(job, path) &&
            (job->others[job->other_count] = arena_copy(&job->arena, path, strlen(path))))
            job->other_count++;
    if (list)
        closedir(list);
    return KG_OK;
}

void job_remove_others(const struct job *job)
{
    for (unsigned i = 0; i < job->other_count; i++)
        if (unlink(job->others[i]) && errno != ENOENT)
            log_line(KG_WARN, "%s: cannot be removed: %s", job->others[i], strerror(errno));
}

/* ---- in the replay child -----------------------------------------------------------------------
 */

static uint64_t argument(const struct kg_capture *capture, const struct capture_pointer *pointer)
{
    uint64_t value;
    memcpy(&value, capture->args.data + capture->params[pointer->param].offset + pointer->offset,
           sizeof value);
    return value;
}

/* The other's region that the same pointer reaches at the same distance. */
static const struct capture_region *reached_alike(const struct kg_capture *own,
                                                  const struct capture_pointer *from,
                                                  const struct kg_capture *other)
{
    const struct capture_region *want = &own->regions[from->region];
    uint64_t distance = want->address - argument(own, from);
    for (uint32_t i = 0; i < other->pointer_count; i++) {
        const struct capture_pointer *p = &other->pointers[i];
        if (p->param != from->param || p->offset != from->offset || p->region == CAPTURE_NO_REGION)
            continue;
        const struct capture_region *found = &other->regions[p->region];
        if (found->size == want->size && found->address - argument(other, p) == distance)
            return found;
    }
    return NULL;
}

/* The other's bytes for a region of our own; NULL: it has none. `fixed`: only at the same address.
 */
static const unsigned char *bytes_alike(const struct kg_capture *own, uint32_t region,
                                        const struct kg_capture *other, bool fixed)
{
    const struct capture_region *want = &own->regions[region];
    for (uint32_t i = 0; i < other->region_count; i++) {
        const struct capture_region *r = &other->regions[i];
        bool same = want->kind == CAPTURE_GLOBAL ? !strcmp(r->name, want->name)
                                                 : r->address == want->address;
        if (same && r->kind == want->kind && r->size == want->size)
            return r->data;
    }
    for (uint32_t i = 0; i < own->pointer_count && !fixed && want->kind == CAPTURE_POINTER; i++) {
        const struct capture_region *found =
            own->pointers[i].region == region ? reached_alike(own, &own->pointers[i], other) : NULL;
        if (found)
            return found->data;
    }
    return NULL;
}

/* Pointers that stand in memory must lead to where they led: then everything stays in place. */
static bool fits(const struct kg_capture *own, const struct kg_capture *other)
{
    bool fixed = own->place_count || other->place_count;
    if (!id_equal(&own->kernel, &other->kernel) || own->region_count != other->region_count ||
        own->param_count != other->param_count || own->args.size != other->args.size ||
        memcmp(own->params, other->params, own->param_count * sizeof *own->params))
        return false;
    for (uint32_t i = 0; i < own->region_count; i++)
        if (!bytes_alike(own, i, other, fixed))
            return false;
    return true;
}

kg_status memory_others(struct replay_memory *memory, const struct kg_capture *captures,
                        unsigned count)
{
    memory->others = calloc(count + 1, sizeof *memory->others);
    if (!memory->others)
        return KG_NO_MEMORY;
    for (unsigned i = 0; i < count; i++)
        if (fits(memory->capture, &captures[i]))
            memory->others[memory->other_count++] = &captures[i];
    return KG_OK;
}

void memory_other(const struct replay_memory *memory, unsigned index, unsigned char *out)
{
    const struct kg_capture *own = memory->capture, *other = memory->others[index];
    bool fixed = own->place_count || other->place_count;
    memcpy(out, memory->pristine, memory->total);
    for (uint32_t i = 0; i < own->region_count; i++) {
        size_t at;
        if (memory_region(memory, i, &at))
            memcpy(out + at, bytes_alike(own, i, other, fixed), own->regions[i].size);
    }
}
