/* Which bytes the original writes, found by running it, and which of them may be poisoned before a
 * launch because their old content is never read.
 *
 * One run from the captured memory shows only bytes that changed. In an app's loop the output often
 * holds already what the launch will write, so further runs start, for one buffer at a time, with a
 * small change (the lowest bit of each 4-byte word, pointers left alone) in all words that did not
 * change: a word that does not keep the change is written. One buffer at a time, or a kernel that
 * copies would carry the change of its input to its output. Inputs are changed too, by so little
 * that an index stays within an element of where it was.
 *
 * Written bytes may be poisoned if the result does not depend on them. That is tried on all of them
 * together, else buffer by buffer: first with the small change, then with random bytes and with
 * their complements. A byte that keeps both is not written after all: no value equals both. Where
 * the result does depend on the old content (a kernel that works in place), the captured content
 * stays, and original and variant both start from it.
 *
 * Limits: a word that is written with what it held, by a kernel that works in place, is not seen.
 * Module variables are not probed: one that is written with the value it held is not seen.
 * A kernel that does not survive the small change (it walks an index list into a cycle, say) is
 * unverifiable. */
#include "tune/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A buffer: from one captured pointer to the next, or to the end of its bytes. */
struct group {
    size_t from, to; /* in the image */
    bool global;     /* a module variable */
    bool pure;       /* written bytes may be poisoned */
};

struct search {
    struct trial *trial;
    struct replay_memory *memory;
    unsigned char *touched; /* mask: whole words that seem to be written */
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

/* Flips the lowest bit of each 4-byte word in [from, to) that is captured and whose `touched` is
 * `which`. */
static void nudge(const struct search *search, unsigned char *image, size_t from, size_t to,
                  bool which)
{
    const struct replay_memory *memory = search->memory;
    for (size_t at = (from + 3) & ~(size_t)3; at + 4 <= to; at += 4) {
        if (memory->slack[at] || (search->touched[at] != 0) != which)
            continue;
        size_t pair = at & ~(size_t)7;
        if (pair + 8 <= memory->total &&
            looks_like_pointer(memory->capture, memory->pristine + pair))
            at = pair + 4;
        else
            image[at] ^= 1;
    }
}

/* Marks the words that differ. */
static void touch_changed(struct search *search, const unsigned char *before,
                          const unsigned char *after, size_t from, size_t to)
{
    while ((from = first_difference(before, after, NULL, from, to)) < to) {
        from &= ~(size_t)3;
        memset(search->touched + from, 0xff, 4);
        from += 4;
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
    search->group_count = n;
    return KG_OK;
}

static void choose(struct search *search, int only)
{
    for (unsigned i = 0; i < search->group_count; i++)
        search->groups[i].pure = only < 0 || (unsigned)only == i;
}

/* True when `after` holds the result everywhere, but for touched bytes of chosen buffers that kept
 * what stood there before. */
static bool explained(const struct search *search, const unsigned char *before,
                      const unsigned char *after)
{
    const struct replay_memory *memory = search->memory;
    unsigned g = 0;
    size_t at = 0;
    while ((at = first_difference(after, memory->result, NULL, at, memory->total)) <
           memory->total) {
        while (at >= search->groups[g].to)
            g++;
        bool kept = after[at] == before[at];
        if (!(memory->slack[at] && kept) &&
            !(search->groups[g].pure && search->touched[at] && kept))
            return false;
        at++;
    }
    return true;
}

static kg_status gentle(struct search *search, bool *good)
{
    struct replay_memory *memory = search->memory;
    memcpy(memory->work, memory->pristine, memory->total);
    for (unsigned i = 0; i < search->group_count; i++)
        if (search->groups[i].pure)
            nudge(search, memory->work, search->groups[i].from, search->groups[i].to, true);
    kg_status status = trial_launch(search->trial, ORIGINAL, memory->work, memory->other);
    *good = status == KG_OK && explained(search, memory->work, memory->other);
    return status;
}

/* Poisons the touched bytes of the chosen buffers; a byte that keeps both poisons is not written.
 */
static kg_status harsh(struct search *search, bool *good)
{
    struct replay_memory *memory = search->memory;
    uint64_t seed = search->trial->seeds[3];
    memcpy(memory->poisoned, memory->slack, memory->total);
    for (unsigned i = 0; i < search->group_count; i++)
        for (size_t at = search->groups[i].from; at < search->groups[i].to; at++)
            if (search->groups[i].pure)
                memory->poisoned[at] |= search->touched[at];
    memory_state(memory, seed, false, memory->work);
    kg_status status = trial_launch(search->trial, ORIGINAL, memory->work, memory->other);
    *good = status == KG_OK && explained(search, memory->work, memory->other);
    if (!*good)
        return status;
    for (size_t at = 0; at < memory->total; at++)
        memory->first[at] = memory->other[at] == memory->work[at] ? 0xff : 0; /* kept */
    memory_state(memory, seed, true, memory->work);
    status = trial_launch(search->trial, ORIGINAL, memory->work, memory->other);
    if (status != KG_OK || !(*good = explained(search, memory->work, memory->other)))
        return status;
    for (size_t at = 0; at < memory->total; at++) {
        if (memory->slack[at] || !memory->poisoned[at])
            continue;
        bool kept = memory->other[at] == memory->work[at];
        if (kept && memory->first[at])
            memory->poisoned[at] = search->touched[at] = 0;
        else if (memory->other[at] != memory->result[at])
            *good = false;
    }
    return KG_OK;
}

/* Both trials for the buffers chosen. A byte that one poison left alone by chance and the other did
 * not has the result's value in the second run, which `harsh` asks for. */
static kg_status poisonable(struct search *search, bool *good)
{
    kg_status status = gentle(search, good);
    return status == KG_OK && *good ? harsh(search, good) : status;
}

/* All buffers at once, else those that stand the trial alone, together again. */
static kg_status find_pure(struct search *search)
{
    bool good = false;
    choose(search, -1);
    kg_status status = poisonable(search, &good);
    search->trial->sensitive |= !good; /* it works in place */
    if (status != KG_OK || good || search->group_count < 2)
        goto done;
    bool *alone = calloc(search->group_count, sizeof *alone);
    if (!alone)
        return KG_NO_MEMORY;
    for (unsigned i = 0; i < search->group_count && status == KG_OK; i++) {
        const struct group *group = &search->groups[i];
        if (!memchr(search->touched + group->from, 0xff, group->to - group->from))
            continue;
        choose(search, (int)i);
        status = poisonable(search, &alone[i]);
    }
    for (unsigned i = 0; i < search->group_count; i++)
        search->groups[i].pure = alone[i];
    free(alone);
    if (status == KG_OK)
        status = poisonable(search, &good);
done:
    if (!good)
        memcpy(search->memory->poisoned, search->memory->slack, search->memory->total);
    return status;
}

/* Finds bytes of one buffer that are written with the value they had. */
static kg_status probe(struct search *search, const struct group *group)
{
    struct replay_memory *memory = search->memory;
    if (group->global) /* rarely written, and often a size or a pointer */
        return KG_OK;
    memcpy(memory->work, memory->pristine, memory->total);
    nudge(search, memory->work, group->from, group->to, false);
    if (!memcmp(memory->work, memory->pristine, memory->total))
        return KG_OK; /* all of it changes anyway, or is slack */
    kg_status status = trial_launch(search->trial, ORIGINAL, memory->work, memory->other);
    if (status != KG_OK)
        return status;
    touch_changed(search, memory->work, memory->other, group->from, group->to);
    search->trial->sensitive |=
        first_difference(memory->other, memory->result, NULL, 0, group->from) < group->from ||
        first_difference(memory->other, memory->result, NULL, group->to, memory->total) <
            memory->total;
    return KG_OK;
}

static kg_status search_run(struct search *search)
{
    struct replay_memory *memory = search->memory;
    kg_status status = make_groups(search);
    if (status != KG_OK)
        return status;
    touch_changed(search, memory->pristine, memory->result, 0, memory->total);
    for (unsigned i = 0; i < search->group_count && status == KG_OK; i++)
        status = probe(search, &search->groups[i]);
    return status == KG_OK ? find_pure(search) : status;
}

kg_status written_find(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    struct search search = {.trial = trial, .memory = memory};
    search.touched = calloc(1, memory->total + 8);
    kg_status status = search.touched ? search_run(&search) : KG_NO_MEMORY;
    if (status == KG_OK) {
        for (size_t at = 0; at < memory->total; at++) {
            memory->written[at] = memory->slack[at] ? 0 : search.touched[at];
            trial->written_bytes += memory->written[at] != 0;
            trial->poisoned_bytes += memory->written[at] && memory->poisoned[at];
        }
    } else if (!*trial->reason) {
        snprintf(trial->reason, sizeof trial->reason,
                 "the original does not survive a small change of its memory: %s",
                 trial->device->error);
    }
    free(search.touched);
    free(search.groups);
    return status;
}

kg_status written_change(const struct trial *trial, unsigned index, unsigned char *image, bool *end)
{
    struct replay_memory *memory = trial->memory;
    struct search search = {.memory = memory, .touched = memory->written};
    kg_status status = make_groups(&search);
    if (status != KG_OK)
        return status;
    memcpy(image, memory->pristine, memory->total);
    *end = index > search.group_count;
    const struct group *group = &search.groups[index];
    if (index < search.group_count && !group->global)
        nudge(&search, image, group->from, group->to, false);
    if (index == search.group_count) /* what is written, all together: see find_pure */
        nudge(&search, image, 0, memory->total, true);
    free(search.groups);
    return KG_OK;
}
