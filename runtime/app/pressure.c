/* Memory beside the app: an allocation of the app that fails ends all replays and is tried once
 * more, and the watcher notes since when the device's free memory has been steady, which a worker
 * reads in the flight recorder before it takes any. Many programs measure free memory and then take
 * it, or check that nobody else has: a replay must not start in between. */
#include "app/inside.h"

#include "replaying.h"

#include <time.h>

enum { WAIT_MS = 500 };
#define TICK_NS UINT64_C(1000000000)
#define STEADY_BYTES (UINT64_C(64) << 20) /* smaller changes are everyday */

static atomic_uint_fast64_t failed_at; /* seconds since 1970; 0 never */
static struct {
    uint64_t free_bytes, steady_since; /* seconds since 1970; 0: not known */
} seen;                                /* the watcher's, under records_lock */

bool pressure_relieved(void)
{
    bool was_inside = inside_kgenrt;
    if (!*app_dir())
        return false;
    inside_kgenrt = true;
    atomic_store_explicit(&failed_at, (uint64_t)time(NULL), memory_order_relaxed);
    unsigned ended = replaying_end_all(app_dir(), WAIT_MS);
    if (ended)
        app_note("an allocation failed: %u replays were ended for their memory", ended);
    inside_kgenrt = was_inside;
    return ended;
}

/* Of the first live context's device. */
static bool free_memory(size_t *free_bytes)
{
    size_t all;
    CUcontext popped;
    bool known = false;
    for (int i = 0; i < CONTEXTS && !known && real.cuMemGetInfo_v2; i++) {
        CUcontext handle = atomic_load_explicit(&contexts[i].handle, memory_order_acquire);
        if (!handle || contexts[i].broken || real.cuCtxPushCurrent_v2(handle) != CUDA_SUCCESS)
            continue;
        known = real.cuMemGetInfo_v2(free_bytes, &all) == CUDA_SUCCESS;
        (void)real.cuCtxPopCurrent_v2(&popped);
    }
    return known;
}

void pressure_tick(void)
{
    static uint64_t next;
    size_t now_free;
    uint64_t now = now_ns();
    if (now < next || app_mode() != KG_MODE_TUNE || !*app_dir())
        return;
    next = now + TICK_NS;
    if (replaying_any(app_dir()))
        return; /* what changes now may be the replay's; afterwards it must be as before */
    records_lock();
    if (!free_memory(&now_free)) {
        seen.steady_since = 0;
    } else {
        uint64_t change =
            now_free > seen.free_bytes ? now_free - seen.free_bytes : seen.free_bytes - now_free;
        if (!seen.steady_since || change > STEADY_BYTES) {
            seen.steady_since = (uint64_t)time(NULL);
            seen.free_bytes = now_free;
        }
    }
    records_unlock();
}

void pressure_state(uint64_t *free_bytes, uint64_t *steady_since, uint64_t *failed)
{
    *free_bytes = seen.free_bytes;
    *steady_since = seen.steady_since;
    *failed = atomic_load_explicit(&failed_at, memory_order_relaxed);
}
