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

/* An aligned 8-byte word that reads as an address in captured memory: never changed, for a kernel
 * that follows it would fault. */
static bool looks_like_pointer(const struct kg_capture *capture, const unsigned char *word)
{
    uint64_t value;
    memcpy(&value, word, 8);
    for (uint32_t i = 0; i < capture->region_count; i++) {
        const struct capture_region *r = &capture->regions[i];
        if (r->kind != CAPTURE_GLOBAL &&
            ((value >= r->address && value - r->address <= r->size) ||
             (value >= r->allocation && value - r->allocation <= r->allocation_size)))
            return true;
    }
    return false;
}

/* Flips the lowest bit of each 4-byte word in [from, to) that the original writes, or that it only
 * reads. */
static void nudge(const struct search *search, unsigned char *image, size_t from, size_t to,
                  bool written)
{
    const struct replay_memory *memory = search->memory;
    for (size_t at = (from + 3) & ~(size_t)3; at + 4 <= to; at += 4) {
        bool writes = memchr(memory->written + at, 0xff, 4);
        if (writes != written || (!writes && !memchr(memory->read + at, 0xff, 4)))
            continue;
        size_t pair = at & ~(size_t)7;
        if (pair + 8 <= memory->total &&
            looks_like_pointer(memory->capture, memory->pristine + pair))
            at = pair + 4;
        else
            image[at] ^= 1;
    }
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
    memset(memory->poisoned, 0, memory->total);
    for (unsigned i = 0; i < search->group_count; i++) {
        const struct group *group = &search->groups[i];
        bool chosen = only < 0 ? group->poisoned : (unsigned)only == i;
        for (size_t at = group->from; at < group->to; at++)
            memory->poisoned[at] =
                memory->slack[at] || !memory->read[at] || (chosen && memory->written[at]) ? 0xff
                                                                                          : 0;
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
        for (size_t at = 0; at < memory->total && *good; at++)
            *good =
                memory->other[at] == (memory->written[at] ? memory->result[at] : memory->work[at]);
    }
    return KG_OK;
}

static bool has_scratch(const struct replay_memory *memory, const struct group *group)
{
    for (size_t at = group->from; at < group->to; at++)
        if (memory->written[at] && memory->read[at])
            return true;
    return false;
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
    if (group->global) /* often a size or a pointer */
        return KG_OK;
    memcpy(memory->work, memory->pristine, memory->total);
    nudge(search, memory->work, group->from, group->to, false);
    if (!memcmp(memory->work, memory->pristine, memory->total))
        return KG_OK;
    kg_status status = launch(search, &survived);
    if (status == KG_OK && survived)
        search->trial->sensitive |= first_difference(memory->other, memory->result, memory->written,
                                                     0, memory->total) < memory->total;
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
    for (size_t at = 0; at < memory->total && status == KG_OK; at++) {
        trial->written_bytes += memory->written[at] != 0;
        trial->poisoned_bytes += memory->written[at] && memory->poisoned[at];
    }
    if (status != KG_OK && !*trial->reason)
        snprintf(trial->reason, sizeof trial->reason,
                 "the original does not survive a small change of its memory: %s",
                 trial->device->error);
    free(search.groups);
    return status;
}

kg_status written_change(const struct trial *trial, unsigned index, unsigned char *image, bool *end)
{
    struct replay_memory *memory = trial->memory;
    struct search search = {.memory = memory};
    kg_status status = make_groups(&search);
    if (status != KG_OK)
        return status;
    memcpy(image, memory->pristine, memory->total);
    *end = index > search.group_count;
    const struct group *group = &search.groups[index];
    if (index < search.group_count && !group->global)
        nudge(&search, image, group->from, group->to, false);
    if (index == search.group_count) /* what is written, all together: see find_poisoned */
        nudge(&search, image, 0, memory->total, true);
    free(search.groups);
    return KG_OK;
}
