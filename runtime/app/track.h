/* What a process knows of one variant that one of its kernels uses: how its checks beside the
 * original went (shadow.c), and whether it is faster here (live.c). Made when the variant is
 * loaded; lives as long as the kernel's record, so that launches may read it as they read that.
 *
 * "Locked" means: the caller holds records_lock. */
#ifndef KG_APP_TRACK_H
#define KG_APP_TRACK_H

#include "app/app.h"
#include "app/dispatch.h"
#include "app/live.h"

enum skip {
#define SKIPPED(name, key, text) SKIP_##name,
#include "app/skip.def"
#undef SKIPPED
    SKIP_COUNT
};

struct track {
    struct track *next; /* of the same kernel */
    struct kernel *kernel;
    struct kg_id variant, signature;
    double ratio;             /* as verified */
    bool in_step;             /* not bitwise, in a program of several processes: each must do as the
                                 others do, so what the app sees is always the variant's */
    const char *unchecked;    /* why it is never checked in the app, static text; NULL: it is */
    struct accuracy accuracy; /* that it was verified under */
    uint8_t elements[GUARD_POINTERS]; /* what is written, by pointer of the signature, as
                                         shadow_device.cu numbers it; 0: bits */

    /* on the launch path */
    atomic_uint_fast64_t due; /* from the launch of this number on it wants to see launches: what
                                 follows, in one number */
    atomic_uint first;        /* of the first launches, still to be checked */
    atomic_uint tries;        /* for those, still to be had */
    atomic_uint under_way;    /* checks begun whose outcome is not known yet */
    atomic_bool hold;         /* originals run until the first checks' outcome is known */
    _Atomic(const char *) foreign; /* a launch was given memory that is left alone, static text:
                                      originals run, until the watcher drops the variant */
    atomic_uint_fast64_t check_at; /* number of the launch from which on a check is due */
    atomic_uint_fast64_t stride;   /* launches from check to check, at least: so that checks take
                                      no more than a hundredth of the kernel's time */
    atomic_uint_fast64_t skipped[SKIP_COUNT];
    struct live live;

    /* locked */
    uint64_t checked, differed; /* launches */
    uint64_t hold_since_ns;
    char said[192]; /* what became of it; empty: nothing yet */
    bool dropped;
    bool by_replay; /* `unchecked` for what the code does: the worker can look at it instead … */
    bool looked;    /* … and was asked */
};

/* ---- track.c -----------------------------------------------------------------------------------
 */

/* Locked. The track of a kernel's variant, made at need; NULL: no memory. in_step: see above. */
struct track *track_of(struct kernel *kernel, const struct kg_variant *variant, bool in_step);
/* Locked: the kernel's record is blanked. */
void tracks_free(struct kernel *kernel);
/* `due` is set anew, after a change of `hold`, `check_at` or `live`. Any thread; where two meet, it
 * may be late until the kernel's next launch on the slow path. */
void track_settle(struct track *track);
/* Whether a launch that this entry's guard covers is to be checked, timed, or left to the original.
 */
static inline bool track_due(const struct swap_entry *entry, uint64_t number)
{
    return entry && entry->track &&
           number >= atomic_load_explicit(&entry->track->due, memory_order_relaxed);
}
/* On the launch path. True: the launch was made here, with its result in *result, because a check
 * or a measurement was due, or because originals still run. */
bool track_launch(struct kernel *kernel, const struct launch *launch,
                  const struct swap_entry *entry, uint64_t number, CUresult *result);
/* Whether originals still run where this entry's guard holds. */
bool track_holds(const struct swap_entry *entry);
void track_tick(void); /* watcher, locked */
/* Locked. What became of it, for people: noted, and shown with the variant. */
void track_say(struct track *track, const char *text);
/* Locked: originals run from now on in this process. `why`: static text, of the kernel. */
void track_drop(struct track *track, const char *why, const char *text);
uint64_t track_mix(uint64_t value); /* bits that look random */
uint64_t track_random(void);

/* ---- shadow.c, shadow_pool.c: see shadow.h; live.c ---------------------------------------------
 */

/* On the launch path, as track_launch. */
bool live_launch(struct kernel *kernel, const struct launch *launch, const struct swap_entry *entry,
                 uint64_t number, CUresult *result);
/* Locked: one launch of a pair was timed. */
void live_sample(struct track *track, unsigned pair, bool variant, double ns);

#endif
