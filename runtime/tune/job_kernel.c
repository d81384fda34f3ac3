/* What a job keeps of its kernel, whatever becomes of it: where it was met, how long it takes, and
 * what `kgenrt show --analysis` needs later. Never contents of memory. */
#include "tune/job.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The launch as people ask for it later, of what `kgenrt show --analysis` prints: {"grid": [x, y,
 * z], "block": [], "shared", "args": packed bytes in hexadecimal, "pointers": [{"at": byte in them,
 * "low", "high": bytes around its value that are allocated}]}. */
static char *launch_text(const struct kg_capture *capture)
{
    static const char digits[] = "0123456789abcdef";
    const struct kg_launch *l = &capture->launch;
    char *hex = calloc(1, 2 * capture->args.size + 1);
    json_t *pointers = json_array();
    if (!hex || !pointers) {
        free(hex);
        json_decref(pointers);
        return NULL;
    }
    for (size_t i = 0; i < capture->args.size; i++) {
        hex[2 * i] = digits[capture->args.data[i] >> 4];
        hex[2 * i + 1] = digits[capture->args.data[i] & 15];
    }
    for (uint32_t i = 0; i < capture->pointer_count; i++) {
        const struct capture_pointer *pointer = &capture->pointers[i];
        uint64_t at = capture->params[pointer->param].offset + pointer->offset, value = 0;
        if (at + 8 > capture->args.size || pointer->region == CAPTURE_NO_REGION)
            continue;
        memcpy(&value, capture->args.data + at, 8);
        const struct capture_region *region = &capture->regions[pointer->region];
        uint64_t end = region->allocation + region->allocation_size;
        json_array_append_new(pointers, json_pack("{sI sI sI}", "at", (json_int_t)at, "low",
                                                  (json_int_t)(region->allocation - value), "high",
                                                  (json_int_t)(end - value)));
    }
    json_t *json = json_pack("{s[III] s[III] sI ss so}", "grid", (json_int_t)l->grid.x,
                             (json_int_t)l->grid.y, (json_int_t)l->grid.z, "block",
                             (json_int_t)l->block.x, (json_int_t)l->block.y, (json_int_t)l->block.z,
                             "shared", (json_int_t)l->shared, "args", hex, "pointers", pointers);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    free(hex);
    return text;
}

/* What `kgenrt show --analysis` needs, beside the record. Without it the record is as good. */
static void put_analysis(struct job *job, struct kg_kernel_note *note)
{
    char *launch = launch_text(&job->capture);
    if (job->image.ptx.size &&
        store_put_blob(job->store, job->image.ptx.data, job->image.ptx.size, &note->ptx) != KG_OK)
        note->ptx = (struct kg_id){{0}};
    if (launch && store_put_blob(job->store, launch, strlen(launch), &note->launch) != KG_OK)
        note->launch = (struct kg_id){{0}};
    free(launch);
}

kg_status job_put_kernel(struct job *job, const char *ineligible)
{
    struct kg_kernel_note text = {.hardware = job->hardware,
                                  .kernel = job->capture.kernel,
                                  .app_ns = job->capture.app_ns,
                                  .app_share = job->capture.app_share,
                                  .time = (uint64_t)time(NULL)};
    snprintf(text.name, sizeof text.name, "%s", job->capture.entry);
    snprintf(text.program, sizeof text.program, "%s", job->capture.program);
    snprintf(text.ineligible, sizeof text.ineligible, "%s", ineligible ? ineligible : "");
    put_analysis(job, &text);
    return store_put_kernel(job->store, &text);
}
