/* See replayed.h. */
#include "replayed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

kg_status replayed_open(struct replayed *r, const char *capture)
{
    memset(r, 0, sizeof *r);
    kg_status status = job_open(&r->job, capture);
    if (status == KG_OK)
        status = job_model(&r->job);
    if (status != KG_OK)
        snprintf(r->reason, sizeof r->reason, "the capture: %s", status_text(status));
    return status;
}

bool replayed_set(struct replayed *r, uint32_t param, uint64_t value)
{
    struct kg_capture *capture = &r->job.capture;
    if (param >= capture->param_count || capture->params[param].size > 8)
        return false;
    memcpy(capture->args.data + capture->params[param].offset, &value, capture->params[param].size);
    signature_free(&r->job.signature);
    return capture_signature(capture, &r->job.signature) == KG_OK;
}

kg_status replayed_load(struct replayed *r, const char *original, const struct candidate *candidate)
{
    struct kg_capture *capture = &r->job.capture;
    r->code.size = strlen(candidate->ptx);
    r->code.data = (unsigned char *)strdup(candidate->ptx);
    if (!r->code.data)
        return KG_NO_MEMORY;
    r->request.entry = candidate->entry;
    r->request.launch = candidate->launch;
    r->request.global_count = candidate->global_count;
    for (uint32_t i = 0; i < candidate->global_count; i++)
        r->request.globals[i] = candidate->globals[i];
    if (original) {
        capture->image = (const unsigned char *)original;
        capture->image_size = strlen(original);
    }
    kg_status status = cuda_open(capture, &r->request, &r->code, &r->memory, &r->device, r->reason,
                                 sizeof r->reason);
    return status == KG_OK ? memory_create(&r->memory) : status;
}

static double now_of_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static kg_status each_extent(struct replayed *r, unsigned char *image, bool write)
{
    kg_status status = KG_OK;
    for (uint32_t i = 0; i < r->memory.extent_count && status == KG_OK; i++) {
        const struct replay_extent *e = &r->memory.extents[i];
        status = write ? r->device->write(r->device, e->address, image + e->at, e->size)
                       : r->device->read(r->device, e->address, image + e->at, e->size);
    }
    return status;
}

kg_status replayed_run(struct replayed *r, enum side side, unsigned char *out, double *ns)
{
    kg_status status = each_extent(r, r->memory.pristine, true);
    double before = now_of_clock();
    if (status == KG_OK)
        status = r->device->launch(r->device, side);
    *ns = now_of_clock() - before;
    if (status == KG_OK)
        status = each_extent(r, out, false);
    if (status != KG_OK)
        snprintf(r->reason, sizeof r->reason, "%s: %s", side ? "rewritten" : "original",
                 r->device->error);
    return status;
}

kg_status replayed_time(struct replayed *r, enum side side, unsigned samples, unsigned batch,
                        double *ns)
{
    kg_status status = KG_OK;
    for (unsigned i = 0; i < samples && status == KG_OK; i++) {
        double sample;
        status = r->device->restore(r->device);
        if (status == KG_OK)
            status = r->device->sample(r->device, side, false, batch, &sample);
        if (status == KG_OK && (*ns <= 0 || sample < *ns))
            *ns = sample;
    }
    if (status != KG_OK)
        snprintf(r->reason, sizeof r->reason, "timing: %s", r->device->error);
    return status;
}
