/* Which bytes may be poisoned before a launch, because the original does not read what stood in
 * them.
 *
 * Which bytes it reads and writes is known exactly, for the captured inputs, from an instrumented
 * launch (gate observed). What it touches not at all, and what it writes and never reads, may hold
 * anything. What it both writes and reads may be scratch, written first, or worked on in place:
 * that is tried, on all of it, else buffer by buffer, by random bytes and by their complements. A
 * launch from random bytes is first made with instruments, which contain what it does with them.
 * Where the result does depend on the old content, the captured content stays, and original and
 * variant both start from it.
 *
 * Small changes of inputs (the lowest bit of each 4-byte word, pointers left alone) tell whether
 * the result depends on them at all. */
#include "tune/gates/gates.h"

#include "code/instrument.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURNS_FACTOR = 64, LEAST_TURNS = 10000 };

/* A buffer: from one captured pointer to the next, or to the end of its bytes. */
struct group {
    size_t from, to; /* in the image */
    bool global;     /* a module variable */
    bool poisoned;   /* what is written and read in it may be poisoned */
};

struct search {
    struct trial *trial;
    struct replay_memory *memory;
    struct group *groups;
    unsigned group_count;
};

/* Changes the lowest bit of each 4-byte word in a group that the original writes, or only reads. */
static struct walk nudge(const struct search *search, unsigned char *image,
                         const struct group *group)
{
    const struct replay_memory *memory = search->memory;
    struct walk w = {.kind = WALK_NUDGE,
                     .x = memory->pristine,
                     .out = image,
                     .masks = {memory->written, memory->read},
                     .from = group->from,
                     .to = group->to};
    memory_spans(memory, w.spans, &w.span_count);
    return w;
}

static int by_from(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* Buffers begin where captured pointers point. */
static kg_status make_groups(struct search *search)
{
    const struct replay_memory *memory = search->memory;
    const struct kg_capture *capture = memory->capture;
    search->groups = calloc(capture->region_count + memory->extent_count + 1, sizeof(struct group));
    if (!search->groups)
        return KG_NO_MEMORY;
    unsigned n = 0;
    for (uint32_t i = 0; i < memory->extent_count; i++) {
        const struct replay_extent *extent = &memory->extents[i];
        search->groups[n++] = (struct group){.from = extent->at, .global = extent->global};
        for (uint32_t r = 0; r < capture->region_count && !extent->global; r++) {
            const struct capture_region *region = &capture->regions[r];
            if (region->kind != CAPTURE_GLOBAL && region->address > extent->address &&
                region->address - extent->address < extent->size &&
                n < capture->region_count + memory->extent_count)
                search->groups[n++].from = extent->at + (region->address - extent->address);
        }
    }
    qsort(search->groups, n, sizeof *search->groups, by_from);
    for (unsigned i = 0; i < n; i++)
        search->groups[i].to = i + 1 < n ? search->groups[i + 1].from : memory->total;
    for (unsigned i = 0, e = 0; i < n; i++) { /* behind a variable there is nothing */
        while (search->groups[i].global && memory->extents[e].at != search->groups[i].from)
            e++;
        if (search->groups[i].global)
            search->groups[i].to = search->groups[i].from + memory->extents[e].size;
    }
    search->group_count = n;
    return KG_OK;
}

/* One launch of the original from memory->work, contained first: *survived is false where it did
 * something else than touch its own memory and end. Memory afterwards in `other`. */
static kg_status launch(struct search *search, bool *survived)
{
    struct trial *trial = search->trial;
    struct replay_memory *memory = search->memory;
    struct replay_observed saw = {0};
    uint64_t turns = TURNS_FACTOR * trial->observed.most + LEAST_TURNS;
    kg_status status =
        trial_observe(trial, ORIGINAL, INSTRUMENT_CHECK, turns, memory->work, NULL, NULL, &saw);
    *survived = status == KG_OK && !saw.offences;
    return *survived ? trial_launch(trial, ORIGINAL, memory->work, memory->other) : status;
}

/* What may always hold anything, and in chosen buffers what is both written and read. */
static void poison(struct search *search, int only)
{
    struct replay_memory *memory = search->memory;
    images_mix(memory, NULL, NULL, OUTSIDE(memory->slack), INSIDE(memory->read), memory->poisoned);
    for (uint32_t i = 0; i < memory->extent_count; i++) { /* behind a variable there is nothing */
        const struct replay_extent *extent = &memory->extents[i];
        if (extent->global)
            memset(memory->poisoned + extent->at + extent->size, 0, -extent->size & 7);
    }
    for (unsigned i = 0; i < search->group_count; i++) {
        const struct group *group = &search->groups[i];
        struct walk w = {.kind = WALK_MIX,
                         .x = memory->poisoned,
                         .y = memory->written,
                         .out = memory->poisoned,
                         .masks = {memory->written},
                         .from = group->from,
                         .to = group->to};
        if ((only < 0 ? group->poisoned : (unsigned)only == i) && group->from < group->to)
            memory_walk(memory, w, NULL);
    }
}

/* Whether the result stays the same from random bytes, and from their complements. */
static kg_status stands(struct search *search, bool *good)
{
    struct replay_memory *memory = search->memory;
    uint64_t seed = search->trial->seeds[3]; /* even: any bits */
    *good = true;
    for (unsigned run = 0; run < 2 && *good; run++) {
        memory_state(memory, seed, run, memory->work);
        kg_status status = launch(search, good);
        if (status != KG_OK)
            return status;
        size_t at;
        *good = *good &&
                !images_differ(memory, memory->other, memory->result, INSIDE(memory->written),
                               EVERYWHERE, &at) &&
                !images_differ(memory, memory->other, memory->work, OUTSIDE(memory->written),
                               EVERYWHERE, &at);
    }
    return KG_OK;
}

static bool has_scratch(const struct replay_memory *memory, const struct group *group)
{
    struct walk w = {.kind = WALK_DIFFER,
                     .x = memory->written,
                     .masks = {memory->read},
                     .from = group->from,
                     .to = group->to};
    struct walked seen = {0};
    if (group->from < group->to)
        memory_walk(memory, w, &seen);
    return seen.count;
}

/* All buffers at once, else those that stand the trial alone, together again. */
static kg_status find_poisoned(struct search *search)
{
    bool good = false, any = false;
    kg_status status = KG_OK;
    for (unsigned i = 0; i < search->group_count; i++)
        any |= search->groups[i].poisoned = has_scratch(search->memory, &search->groups[i]);
    poison(search, -1);
    if (any)
        status = stands(search, &good);
    if (!any || good || status != KG_OK)
        return status;
    search->trial->sensitive = true; /* it works in place */
    for (unsigned i = 0; i < search->group_count && status == KG_OK; i++) {
        if (!search->groups[i].poisoned)
            continue;
        poison(search, (int)i);
        status = stands(search, &search->groups[i].poisoned);
    }
    poison(search, -1);
    if (status == KG_OK)
        status = stands(search, &good);
    for (unsigned i = 0; i < search->group_count && !good; i++)
        search->groups[i].poisoned = false;
    poison(search, -1);
    return status;
}

/* Whether a small change of one buffer's inputs changes the result. */
static kg_status probe(struct search *search, const struct group *group)
{
    struct replay_memory *memory = search->memory;
    bool survived;
    if (group->global || group->from >= group->to) /* a variable is often a size or a pointer */
        return KG_OK;
    size_t at;
    images_mix(memory, NULL, memory->pristine, EVERYWHERE, EVERYWHERE, memory->work);
    memory_walk(memory, nudge(search, memory->work, group), NULL);
    if (!images_differ(memory, memory->work, memory->pristine, EVERYWHERE, EVERYWHERE, &at))
        return KG_OK;
    kg_status status = launch(search, &survived);
    if (status == KG_OK && survived)
        search->trial->sensitive |= images_differ(memory, memory->other, memory->result,
                                                  INSIDE(memory->written), EVERYWHERE, &at) != 0;
    return status;
}

static kg_status search_run(struct search *search)
{
    kg_status status = make_groups(search);
    if (status == KG_OK)
        status = find_poisoned(search);
    for (unsigned i = 0; i < search->group_count && status == KG_OK && !search->trial->sensitive;
         i++)
        status = probe(search, &search->groups[i]);
    return status;
}

kg_status written_find(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    struct search search = {.trial = trial, .memory = memory};
    kg_status status = search_run(&search);
    if (status == KG_OK) {
        size_t at;
        trial->written_bytes =
            images_differ(memory, memory->written, NULL, EVERYWHERE, EVERYWHERE, &at);
        trial->poisoned_bytes =
            images_differ(memory, memory->written, NULL, INSIDE(memory->poisoned), EVERYWHERE, &at);
    }
    if (status != KG_OK && !*trial->reason)
        snprintf(trial->reason, sizeof trial->reason,
                 "the original does not survive a small change of its memory: %s",
                 trial->device->error);
    free(search.groups);
    return status;
}

kg_status written_change(const struct trial *trial, uint64_t seed, unsigned char *image)
{
    struct replay_memory *memory = trial->memory;
    struct search search = {.memory = memory};
    kg_status status = make_groups(&search);
    if (status != KG_OK)
        return status;
    for (unsigned i = 0; i <= search.group_count; i++) {
        /* at last what is written, all together: see find_poisoned */
        const struct group all = {.to = memory->total},
                           *group = i < search.group_count ? &search.groups[i] : &all;
        struct walk w = nudge(&search, image, group);
        w.masks[2] = memory->poisoned;
        w.seed = seed;
        w.halves = 1;
        w.written = i == search.group_count;
        if (!group->global && group->from < group->to)
            memory_walk(memory, w, NULL);
    }
    free(search.groups);
    return KG_OK;
}
