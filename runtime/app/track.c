/* Tracks: what becomes of a variant in this process after its swap. Decides on the slow path which
 * launches are checked (shadow.c) or timed (live.c) and which the original still makes, and takes a
 * variant back. One decision a variant: what was dropped is not loaded again here, unless it was
 * verified anew. */
#include "app/tally.h"
#include "app/track.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "app/shadow.h"
#include "code/roles.h"

enum {
    TRIES = 16,       /* launches in which the first checks may turn out impossible */
    BEFORE_LIVE = 16, /* launches until the first pair is timed */
};
static const uint64_t hold_ns = 2000000000; /* originals wait no longer for the first checks */

/* ---- chance ------------------------------------------------------------------------------------
 */

uint64_t track_mix(uint64_t value)
{
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

uint64_t track_random(void)
{
    static _Atomic uint64_t state;
    return track_mix(atomic_fetch_add_explicit(&state, 0x9e3779b97f4a7c15u, memory_order_relaxed));
}

/* ---- what can be checked -----------------------------------------------------------------------
 */

/* Types of what the original writes, where floats may be off; doubt means bits. */
static void elements_find(struct track *track, const struct kg_signature *signature)
{
    const struct kernel *kernel = track->kernel;
    const struct kg_bytes *ptx = &kernel->module->code.ptx;
    struct ptx_module module;
    struct kg_arena arena = {0};
    struct roles roles;
    char error[128];
    if (!ptx->size ||
        ptx_parse((const char *)ptx->data, ptx->size, &module, error, sizeof error) != KG_OK)
        return;
    const struct ptx_func *entry = ptx_find_func(&module, kernel->name);
    if (entry && roles_make(&module, entry, &arena, &roles) == KG_OK)
        for (uint32_t i = 0; i < signature->pointer_count; i++) {
            const struct kg_pointer *p = &signature->pointers[i];
            const struct roles_piece *piece =
                roles_at(&roles, kernel->params[p->param].offset + p->offset);
            static const uint8_t numbers[ELEMENT_COUNT] = {
                [ELEMENT_F16] = 2, [ELEMENT_BF16] = 3, [ELEMENT_F32] = 4, [ELEMENT_F64] = 8};
            track->elements[i] = piece ? numbers[piece->data] : 0;
        }
    arena_free(&arena);
    ptx_module_free(&module);
}

/* NULL: checks are sound; else why the kernel is not checked in the app. Where memory holds
 * pointers, the variant's copies would not be all that the original changes: by_replay. */
static const char *objection(const struct kernel *kernel, const struct kg_variant *variant,
                             bool *by_replay)
{
    struct ptx_access access;
    const struct kg_bytes *ptx = &kernel->module->code.ptx;
    if (!options()->shadow_mib || (!options()->shadow_first && !options()->shadow_every))
        return "switched off";
    if (!ptx->size || ptx_access_of((const char *)ptx->data, kernel->name, &access) != KG_OK)
        return "its code could not be followed";
    *by_replay = true;
    if (access.global_count)
        return "it writes module variables";
    if (access.writes_unknown || access.follows_loaded)
        return "it uses pointers that stand in memory";
    *by_replay = false;
    uint64_t bytes = shadow_bytes(&variant->signature);
    if (!bytes)
        return "it writes nothing that is known";
    return shadow_prepare(bytes) ? NULL : "no room: it may write more than KGENRT_SHADOW_MIB";
}

/* ---- their life --------------------------------------------------------------------------------
 */

static void begin(struct track *track, const struct kg_variant *variant)
{
    uint64_t launches = tally_launches(track->kernel);
    bool mid_run = kernel_launches(track->kernel) > 0;
    track->unchecked = objection(track->kernel, variant, &track->by_replay);
    if (accuracy_parse(variant->accuracy, &track->accuracy) &&
        track->accuracy.mode != ACCURACY_BITWISE)
        elements_find(track, &variant->signature);
    unsigned first = track->unchecked ? 0 : (unsigned)options()->shadow_first;
    atomic_store(&track->first, first);
    atomic_store(&track->tries, TRIES);
    atomic_store(&track->stride, (uint64_t)options()->shadow_every);
    atomic_store(&track->check_at, first ? 0 : (uint64_t)options()->shadow_every);
    track->hold_since_ns = now_ns();
    atomic_store(&track->hold, first && mid_run && !track->in_step);
    if (getrandom(&track->live.seed, sizeof track->live.seed, GRND_NONBLOCK) < 0)
        track->live.seed = track_random();
    live_begin(&track->live.test);
    atomic_store(&track->live.at, launches + BEFORE_LIVE);
    /* in step, the processes of a program must not differ in when the original runs */
    atomic_store(&track->live.open, options()->live_pairs > 0 && !track->in_step);
    track_settle(track);
}

struct track *track_of(struct kernel *kernel, const struct kg_variant *variant, bool in_step)
{
    for (struct track *t = kernel->tracks; t; t = t->next)
        if (id_equal(&t->variant, &variant->id))
            return t;
    struct track *track = calloc(1, sizeof *track);
    if (!track)
        return NULL;
    track->kernel = kernel;
    track->variant = variant->id;
    track->ratio = variant->ratio;
    signature_id(&variant->signature, &track->signature);
    track->in_step = in_step;
    begin(track, variant);
    track->next = kernel->tracks;
    kernel->tracks = track;
    return track;
}

void tracks_free(struct kernel *kernel)
{
    shadow_forget(kernel);
    while (kernel->tracks) {
        struct track *track = kernel->tracks;
        kernel->tracks = track->next;
        free(track);
    }
}

void track_say(struct track *track, const char *text)
{
    char id[KG_ID_TEXT];
    snprintf(track->said, sizeof track->said, "%s", text);
    app_note("variant %.16s of %.80s %s", id_text(&track->variant, id), track->kernel->name, text);
    flight_write("a variant was judged in the app");
}

void track_drop(struct track *track, const char *why, const char *text)
{
    track->dropped = true;
    atomic_store_explicit(&track->live.open, false, memory_order_relaxed);
    variant_drop(track->kernel, &track->variant, why);
    track_say(track, text);
}

/* ---- on the launch path ------------------------------------------------------------------------
 */

static bool holds(const struct track *track)
{
    return atomic_load_explicit(&track->hold, memory_order_relaxed) ||
           atomic_load_explicit(&track->foreign, memory_order_relaxed);
}

bool track_holds(const struct swap_entry *entry)
{
    return entry->track && holds(entry->track);
}

void track_settle(struct track *track)
{
    uint64_t due = UINT64_MAX, live = atomic_load_explicit(&track->live.at, memory_order_relaxed);
    if (!track->unchecked)
        due = atomic_load_explicit(&track->check_at, memory_order_relaxed);
    if (atomic_load_explicit(&track->live.open, memory_order_relaxed) && live < due)
        due = live;
    if (holds(track))
        due = 0;
    atomic_store_explicit(&track->due, due, memory_order_relaxed);
}

bool track_launch(struct kernel *kernel, const struct launch *launch,
                  const struct swap_entry *entry, uint64_t number, CUresult *result)
{
    if (!entry->track)
        return false;
    bool launched = shadow_launch(kernel, launch, entry, number, result);
    if (!launched && track_holds(entry)) {
        *result = launch->run(launch);
        launched = true;
    }
    launched = launched || live_launch(kernel, launch, entry, number, result);
    track_settle(entry->track);
    return launched;
}

/* ---- in the watcher ----------------------------------------------------------------------------
 */

/* A check met memory that no variant was verified on: the originals' from now on. */
static void foreign_end(struct track *track, const char *why)
{
    char text[sizeof track->said];
    snprintf(text, sizeof text, "is not used: %s", why);
    track_drop(track, why, text);
}

/* The first checks have been read, or cannot be had: the variant's turn. */
static void hold_end(struct track *track)
{
    bool over = !atomic_load_explicit(&track->first, memory_order_relaxed) &&
                !atomic_load_explicit(&track->under_way, memory_order_relaxed);
    if (over || now_ns() - track->hold_since_ns > hold_ns)
        atomic_store_explicit(&track->hold, false, memory_order_relaxed);
    track_settle(track);
}

void track_tick(void)
{
    shadow_tick();
    for (struct kernel *k = kernels_first(); k; k = k->next)
        for (struct track *t = k->retired_ns ? NULL : k->tracks; t; t = t->next) {
            const char *foreign = atomic_load_explicit(&t->foreign, memory_order_acquire);
            if (foreign && !t->dropped)
                foreign_end(t, foreign);
            else if (atomic_load_explicit(&t->hold, memory_order_relaxed))
                hold_end(t);
            doubt_tick(t);
        }
}
