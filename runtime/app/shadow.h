/* Checks in the app: a launch whose guard holds is made by the original as ever, and, right after
 * it on the same stream, the variant runs on private copies of all that the original may write;
 * then a kernel of ours compares both. Exactly one kernel writes the app's memory. Nothing here
 * waits or allocates on the launch path; the watcher reads the outcome. */
#ifndef KG_APP_SHADOW_H
#define KG_APP_SHADOW_H

#include "app/inside.h"
#include "app/track.h"

enum { SHADOW_SLOTS = 4, SHADOW_GAP = 512 };

/* What the comparing kernel leaves: see shadow_device.cu. */
struct shadow_outcome {
    uint64_t differences, first; /* first: complement of region << 48 | byte */
};

enum { SHADOW_FREE, SHADOW_TAKEN, SHADOW_PENDING };

/* One check under way. TAKEN belongs to the launching thread, PENDING to the watcher. */
struct shadow_slot {
    atomic_int state;
    CUevent start, end;
    struct track *track; /* NULL: its kernel's record has gone */
    uint64_t launch, since_ns, bytes;
    bool first; /* one of the first launches: it has no budget */
};

/* Private memory and what goes with it, in one context. Whoever has `claimed` may use what follows;
 * slots that are PENDING are the watcher's. */
struct shadow_pool {
    atomic_flag claimed;
    _Atomic(CUcontext) context; /* NULL: there is none */
    CUdeviceptr memory;         /* outcomes of all slots, then copies */
    uint64_t size, used;
    CUfunction compare;
    struct shadow_outcome *outcomes; /* pinned */
    struct shadow_slot slots[SHADOW_SLOTS];
};
extern struct shadow_pool shadow_pool;

/* ---- shadow_pool.c -----------------------------------------------------------------------------
 */

/* At a safe point, locked, in the current context: memory for checks of a launch that may write so
 * many bytes. False: there is none. */
bool shadow_prepare(uint64_t bytes);
void shadow_context_dying(CUcontext context);    /* locked; NULL: all */
void shadow_forget(const struct kernel *kernel); /* locked: its tracks go */
void shadow_tick(void);                          /* watcher, locked */

/* ---- shadow.c ----------------------------------------------------------------------------------
 */

/* On the launch path. True: the launch was made and is being checked; *result is what the app gets.
 * False: not made; why not is counted. */
bool shadow_launch(struct kernel *kernel, const struct launch *launch,
                   const struct swap_entry *entry, uint64_t number, CUresult *result);
/* Bytes that a launch of this signature may write. */
uint64_t shadow_bytes(const struct kg_signature *signature);

/* ---- doubt.c -----------------------------------------------------------------------------------
 */

/* Locked: a doubt about a variant goes into the spool; and the kernel's next launch is captured, so
 * that the worker can look at both. */
void doubt_raise(struct track *track, bool differed, const char *text);
/* Watcher, locked: where a variant cannot be checked here, the worker is asked to look at a launch.
 */
void doubt_tick(struct track *track);

#endif
