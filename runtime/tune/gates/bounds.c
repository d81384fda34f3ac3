/* Gate bounds: what the variant's PTX alone says about its accesses, for this launch, these scalars
 * and the captured intervals as all that there is, whatever stands in memory. One thread that
 * leaves them, found by walking it, is a refusal, with the thread as a witness; where every access
 * through every pointer is proven to stay inside, the evidence says so: then no data can make this
 * variant fault under this signature. What is not known is left to the instrumented launches.
 * Catches reads and writes out of bounds, also on data that nobody drew (dangers 4, 9). */
#include "tune/gates/gates.h"

#include "code/reach.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_PARAMS = 8192, MOST_POINTERS = 64 + VARIANT_GLOBALS };

struct question {
    unsigned char params[MOST_PARAMS];
    uint32_t bytes, count;
    struct reach_extent extents[MOST_POINTERS];
    bool split; /* some pointer's has parts that were not captured */
};

/* Another region of the same pointer. What lies between two of them may have no memory: that is for
 * the instrumented launches to see. */
static void extent_join(struct question *q, const struct reach_extent *more)
{
    struct reach_extent *last = &q->extents[q->count - 1];
    q->split |= more->low > last->high || more->high < last->low;
    last->low = more->low < last->low ? more->low : last->low;
    last->high = more->high > last->high ? more->high : last->high;
}

/* The captured pointers, each with its interval around its value. */
static bool add_pointers(const struct kg_capture *capture, struct question *q)
{
    for (uint32_t i = 0; i < capture->pointer_count; i++) {
        const struct capture_pointer *pointer = &capture->pointers[i];
        uint32_t at = capture->params[pointer->param].offset + pointer->offset;
        struct reach_extent extent = {.at = at};
        uint64_t value;
        if (at + 8 > q->bytes)
            return false;
        memcpy(&value, q->params + at, 8);
        if (pointer->region != CAPTURE_NO_REGION) {
            const struct capture_region *region = &capture->regions[pointer->region];
            extent.low = (int64_t)(region->address - value);
            extent.high = (int64_t)(region->address + region->size - value);
        }
        if (q->count && q->extents[q->count - 1].at == at) {
            extent_join(q, &extent);
            continue;
        }
        if (q->count == MOST_POINTERS)
            return false;
        q->extents[q->count++] = extent;
    }
    return true;
}

/* Pointers to the original's variables stand behind the original's parameters. */
static bool add_globals(const struct trial *trial, struct question *q)
{
    const struct replay_memory *memory = trial->memory;
    for (uint32_t g = 0; g < trial->global_count; g++) {
        uint32_t e = 0;
        while (e < memory->extent_count &&
               (!memory->extents[e].global ||
                strcmp(memory->capture->regions[memory->extents[e].region].name,
                       trial->globals[g]) != 0))
            e++;
        q->bytes = (q->bytes + 7) & ~7u;
        if (e == memory->extent_count || q->count == MOST_POINTERS || q->bytes + 8 > MOST_PARAMS)
            return false;
        memcpy(q->params + q->bytes, &memory->extents[e].address, 8);
        q->extents[q->count++] =
            (struct reach_extent){.at = q->bytes, .high = (int64_t)memory->extents[e].size};
        q->bytes += 8;
    }
    return true;
}

static kg_status violated(struct trial *trial, const struct reach *reach)
{
    for (uint32_t i = 0; i < reach->access_count; i++) {
        const struct reach_access *access = &reach->accesses[i];
        const uint32_t *who = access->witness;
        const char *name =
            access->target == REACH_NONE ? "memory" : reach->targets[access->target].name;
        if (access->proof == PROOF_VIOLATED)
            return because(trial, KG_REFUSED,
                           "PTX line %u, block (%u,%u,%u), thread (%u,%u,%u): %s %.80s out of "
                           "bounds",
                           access->line, who[3], who[4], who[5], who[0], who[1], who[2],
                           access->writes ? "writes" : "reads", name ? name : "memory");
    }
    return KG_OK;
}

static const char *found(const struct reach *reach, bool split)
{
    bool proven = reach->complete && !reach->contradicted && !split;
    for (uint32_t i = 0; i < reach->target_count; i++) {
        const struct reach_target *target = &reach->targets[i];
        bool touched =
            target->read.state != REACH_UNTOUCHED || target->written.state != REACH_UNTOUCHED;
        proven &= !touched || target->proof == PROOF_PROVEN;
    }
    return proven ? "proven" : "unknown";
}

kg_status gate_bounds(struct trial *trial)
{
    const struct kg_capture *capture = trial->memory->capture;
    struct question q = {.bytes = (uint32_t)capture->args.size};
    struct reach_launch launch = {.launch = &trial->variant, .params = q.params, .exact = true};
    struct reach reach = {0};
    if (capture->args.size && capture->args.size <= MOST_PARAMS)
        memcpy(q.params, capture->args.data, capture->args.size);
    bool asked = trial->variant_ptx && capture->args.size <= MOST_PARAMS &&
                 add_pointers(capture, &q) && add_globals(trial, &q);
    launch.param_bytes = q.bytes;
    launch.extents = q.extents;
    launch.extent_count = q.count;
    kg_status status = asked
                           ? reach_of_ptx(trial->variant_ptx, trial->variant_entry, &launch, &reach)
                           : KG_NOT_FOUND;
    kg_status verdict = status == KG_OK ? violated(trial, &reach) : KG_OK;
    trial_saw(trial, "bounds",
              json_pack("{ss si si}", "bounds",
                        status != KG_OK    ? "unknown"
                        : verdict != KG_OK ? "violated"
                                           : found(&reach, q.split),
                        "accesses", (int)reach.access_count, "pointers", (int)q.count));
    if (status == KG_OK)
        reach_free(&reach);
    return verdict;
}
