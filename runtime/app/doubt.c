/* A doubt about a variant that this process used: a small file for the worker, and one more capture
 * of the kernel, on which the worker can verify the variant again. What becomes of the variant for
 * other programs is the worker's to say. */
#include "app/shadow.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

void doubt_raise(struct track *track, bool differed, const char *text)
{
    struct kernel *kernel = track->kernel;
    struct kg_hardware hardware;
    struct kg_doubt doubt = {.variant = track->variant,
                             .kernel = kernel->model.id,
                             .signature = track->signature,
                             .differed = differed,
                             .pid = (int)getpid(),
                             .time = (uint64_t)time(NULL)};
    if (!*app_dir() || !app_hardware(&hardware, &doubt.hardware))
        return;
    app_program(doubt.program);
    snprintf(doubt.reason, sizeof doubt.reason, "%s", text);
    if (doubt_put(app_dir(), &doubt) != KG_OK || app_mode() != KG_MODE_TUNE)
        return; /* said by who found out; only who tunes captures */
    atomic_store_explicit(&kernel->look, !differed, memory_order_relaxed);
    atomic_store_explicit(&kernel->wish.only_new, false, memory_order_relaxed);
    atomic_store_explicit(&kernel->state, KERNEL_WANTED, memory_order_release);
    atomic_store_explicit(&kernel->slow_at, 0, memory_order_relaxed);
    spawn_wanted();
}

/* Once a process, and not where somebody looked of late. */
void doubt_tick(struct track *track)
{
    struct kernel *kernel = track->kernel;
    int state = atomic_load_explicit(&kernel->state, memory_order_acquire);
    if (atomic_load_explicit(&kernel->look, memory_order_relaxed) && state != KERNEL_WANTED &&
        state != KERNEL_CAPTURING)
        atomic_store_explicit(&kernel->look, false, memory_order_relaxed);
    if (!track->by_replay || track->looked || track->dropped || track->in_step ||
        app_mode() != KG_MODE_TUNE || state != KERNEL_SWAPPED || !kernel_swapped(kernel))
        return;
    track->looked = true;
    if (!looked_holds(app_dir(), &track->variant))
        doubt_raise(track, false, track->unchecked);
}
