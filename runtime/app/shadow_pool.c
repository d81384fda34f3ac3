/* Memory of checks in the app, and what comes of them: the private pool, our comparing kernel, the
 * events and the pinned page of outcomes, made at safe points in the one context that variants are
 * loaded in; and the watcher's side, which reads outcomes, counts them, and drops a variant that
 * differed. Takes no more than KGENRT_SHADOW_MIB, and nothing where memory is short. */
#include "app/shadow.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "app/shadow_device.inc"

enum { PAGE = 4096, STEP = 2 << 20, SHORT = 16, ROOM = 3, STRIDE_MOST = 1 << 30 };
_Static_assert(SHADOW_SLOTS * sizeof(struct shadow_outcome) <= PAGE, "one page of outcomes");
static const uint64_t stale_ns = 10000000000ull;

struct shadow_pool shadow_pool = {.claimed = ATOMIC_FLAG_INIT};

/* ---- making it ---------------------------------------------------------------------------------
 */

static bool outcomes_make(struct shadow_pool *pool)
{
    CUresult (*pin)(void *, size_t, unsigned) =
        real.cuMemHostRegister_v2 ? real.cuMemHostRegister_v2 : real.cuMemHostRegister;
    if (!pin)
        return false;
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return false;
    (void)madvise(page, PAGE, MADV_DONTFORK); /* a fork must not copy pinned pages */
    if (!real_ok(pin(page, PAGE, CU_MEMHOSTREGISTER_PORTABLE), "pinned page for checks")) {
        munmap(page, PAGE);
        return false;
    }
    pool->outcomes = page;
    return true;
}

static bool compare_load(struct shadow_pool *pool)
{
    CUlibrary library;
    CUkernel kernel;
    return real_ok(real.cuLibraryLoadData(&library, shadow_ptx, NULL, NULL, 0, NULL, NULL, 0),
                   "loading the comparing kernel") &&
           real_ok(real.cuLibraryGetKernel(&kernel, library, "kgenrt_compare"),
                   "the comparing kernel") &&
           real_ok(real.cuKernelGetFunction(&pool->compare, kernel), "the comparing kernel") &&
           (!real.cuFuncLoad || real.cuFuncLoad(pool->compare) == CUDA_SUCCESS);
}

static bool events_make(struct shadow_pool *pool)
{
    for (int i = 0; i < SHADOW_SLOTS; i++) {
        struct shadow_slot *slot = &pool->slots[i];
        if (!real_ok(real.cuEventCreate(&slot->start, CU_EVENT_DEFAULT), "event of a check") ||
            !real_ok(real.cuEventCreate(&slot->end, CU_EVENT_DEFAULT), "event of a check"))
            return false;
        slot->track = NULL;
        atomic_store_explicit(&slot->state, SHADOW_FREE, memory_order_relaxed);
    }
    return true;
}

static bool all_free(const struct shadow_pool *pool)
{
    for (int i = 0; i < SHADOW_SLOTS; i++)
        if (atomic_load_explicit(&pool->slots[i].state, memory_order_acquire) != SHADOW_FREE)
            return false;
    return true;
}

/* Device memory of this size, unless it is short: the app's needs come first. */
static bool memory_make(struct shadow_pool *pool, uint64_t size)
{
    size_t left = 0, total = 0;
    CUdeviceptr memory = 0;
    if (real.cuMemGetInfo_v2(&left, &total) != CUDA_SUCCESS || left / SHORT < size) {
        app_note("no checks in the app of what needs %" PRIu64 " MiB: GPU memory is short",
                 size >> 20);
        return false;
    }
    if (!real_ok(real.cuMemAlloc_v2(&memory, size), "memory for checks"))
        return false;
    if (pool->memory)
        (void)real_ok(real.cuMemFree_v2(pool->memory), "memory for checks");
    pool->memory = memory;
    pool->size = size;
    pool->used = 0;
    return true;
}

static bool driver_has_all(void)
{
    return real.cuMemAlloc_v2 && real.cuMemFree_v2 && real.cuMemGetInfo_v2 &&
           real.cuMemcpyDtoDAsync_v2 && real.cuMemcpyDtoHAsync_v2 && real.cuMemsetD32Async &&
           real.cuLibraryLoadData && real.cuLibraryGetKernel && real.cuKernelGetFunction &&
           real.cuMemHostUnregister;
}

/* Claimed, in the current context. */
static bool make(struct shadow_pool *pool, CUcontext current, uint64_t size)
{
    CUcontext now = atomic_load_explicit(&pool->context, memory_order_relaxed);
    if (now && now != current)
        return false; /* the pool is another context's */
    if (now)
        return all_free(pool) && memory_make(pool, size);
    if (!outcomes_make(pool))
        return false;
    if (compare_load(pool) && events_make(pool) && memory_make(pool, size)) {
        atomic_store_explicit(&pool->context, current, memory_order_release);
        return true;
    }
    (void)real.cuMemHostUnregister(pool->outcomes);
    munmap(pool->outcomes, PAGE);
    pool->outcomes = NULL;
    return false;
}

bool shadow_prepare(uint64_t bytes)
{
    struct shadow_pool *pool = &shadow_pool;
    CUcontext current = NULL;
    uint64_t limit = (uint64_t)options()->shadow_mib << 20, fixed = STEP / 8, size;
    if (bytes > limit || bytes + fixed > limit || !driver_has_all() ||
        real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current)
        return false;
    size = (ROOM * bytes + fixed + STEP - 1) / STEP * STEP; /* the first checks one after another */
    if (size > limit)
        size = limit;
    if (atomic_load_explicit(&pool->context, memory_order_acquire) == current && pool->size >= size)
        return true;
    if (atomic_flag_test_and_set_explicit(&pool->claimed, memory_order_acquire))
        return false; /* a launch is in it at this very moment */
    bool made = make(pool, current, size);
    bool enough = made || (atomic_load(&pool->context) == current && pool->size >= bytes + fixed);
    atomic_flag_clear_explicit(&pool->claimed, memory_order_release);
    return enough;
}

/* ---- the end -----------------------------------------------------------------------------------
 */

static void slot_drop(struct shadow_slot *slot)
{
    if (slot->track)
        atomic_fetch_sub_explicit(&slot->track->under_way, 1, memory_order_relaxed);
    slot->track = NULL;
    atomic_store_explicit(&slot->state, SHADOW_FREE, memory_order_release);
}

void shadow_context_dying(CUcontext context)
{
    struct shadow_pool *pool = &shadow_pool;
    CUcontext own = atomic_load_explicit(&pool->context, memory_order_acquire);
    if (!own || (context && context != own))
        return;
    bool quiet = all_free(pool);
    atomic_store_explicit(&pool->context, NULL, memory_order_release);
    for (int i = 0; i < SHADOW_SLOTS; i++)
        if (atomic_load_explicit(&pool->slots[i].state, memory_order_acquire) == SHADOW_PENDING)
            slot_drop(&pool->slots[i]);
    if (quiet && real.cuMemHostUnregister(pool->outcomes) == CUDA_SUCCESS)
        munmap(pool->outcomes, PAGE); /* else a copy may be on its way to it: it stays */
    pool->outcomes = NULL;
    pool->memory = 0; /* gone with the context, as the events */
    pool->size = 0;
}

void shadow_forget(const struct kernel *kernel)
{
    for (int i = 0; i < SHADOW_SLOTS; i++) {
        struct shadow_slot *slot = &shadow_pool.slots[i];
        if (atomic_load_explicit(&slot->state, memory_order_acquire) == SHADOW_PENDING &&
            slot->track && slot->track->kernel == kernel)
            slot->track = NULL;
    }
}

/* ---- outcomes ----------------------------------------------------------------------------------
 */

/* A check may cost a hundredth of the kernel's time, on the whole. */
static void stride_set(struct track *track, const struct shadow_slot *slot)
{
    float ms = 0;
    CUresult (*elapsed)(float *, CUevent, CUevent) =
        real.cuEventElapsedTime_v2 ? real.cuEventElapsedTime_v2 : real.cuEventElapsedTime;
    double launch_ns =
        track->kernel->after_samples ? track->kernel->after_ns : track->kernel->before_ns;
    double stride = (double)options()->shadow_every;
    if (elapsed(&ms, slot->start, slot->end) == CUDA_SUCCESS && launch_ns > 0 &&
        100e6 * (double)ms / launch_ns > stride)
        stride = 100e6 * (double)ms / launch_ns;
    if (stride > STRIDE_MOST)
        stride = STRIDE_MOST;
    if (!options()->shadow_every)
        return;
    atomic_store_explicit(&track->stride, (uint64_t)stride, memory_order_relaxed);
    if (slot->first || atomic_load_explicit(&track->first, memory_order_relaxed))
        return; /* the first of the sampled ones is due no later for it */
    uint64_t least = slot->launch + (uint64_t)stride / 2;
    if (atomic_load_explicit(&track->check_at, memory_order_relaxed) < least)
        atomic_store_explicit(&track->check_at, least, memory_order_relaxed);
    track_settle(track);
}

static void differed(struct track *track, const struct shadow_slot *slot,
                     const struct shadow_outcome *outcome)
{
    char text[sizeof track->said];
    uint64_t place = ~outcome->first;
    unsigned pointer = (unsigned)(place >> 48);
    snprintf(text, sizeof text,
             "differed from the original in launch %" PRIu64 ": %" PRIu64
             " %s, the first at byte %" PRIu64 " of what pointer %u may write",
             slot->launch, outcome->differences,
             pointer < GUARD_POINTERS && track->elements[pointer] ? "elements" : "bytes",
             place & ((UINT64_C(1) << 48) - 1), pointer);
    track->differed++;
    if (track->in_step)
        log_line(KG_WARN,
                 "%.80s: a variant %s: this process runs the original from now on, and its results "
                 "may differ from those of the program's other processes in the last bits",
                 track->kernel->name, text);
    track_drop(track, "its variant differed from it in a checked launch", text);
    doubt_raise(track, true, text);
}

/* Where floats may be off by a limit, a few may be by more: cancellation makes that of nothing. */
static bool tolerated(const struct track *track, const struct shadow_slot *slot,
                      const struct shadow_outcome *outcome)
{
    double share = track->accuracy.mode == ACCURACY_AUTO ? 1e-3 : 0;
    return (double)outcome->differences <= share * (double)(slot->bytes / 8);
}

static void outcome_take(struct shadow_slot *slot)
{
    struct track *track = slot->track;
    struct shadow_outcome outcome = shadow_pool.outcomes[slot - shadow_pool.slots];
    if (!track || track->kernel->retired_ns || now_ns() - slot->since_ns > stale_ns)
        return;
    track->checked++;
    stride_set(track, slot);
    if (!tolerated(track, slot, &outcome) && !track->dropped)
        differed(track, slot, &outcome);
}

void shadow_tick(void)
{
    struct shadow_pool *pool = &shadow_pool;
    CUcontext own = atomic_load_explicit(&pool->context, memory_order_acquire);
    if (!own || context_broken(own) || all_free(pool) || real.cuCtxSetCurrent(own) != CUDA_SUCCESS)
        return;
    for (int i = 0; i < SHADOW_SLOTS; i++) {
        struct shadow_slot *slot = &pool->slots[i];
        if (atomic_load_explicit(&slot->state, memory_order_acquire) != SHADOW_PENDING)
            continue;
        CUresult result = real.cuEventQuery(slot->end);
        if (result == CUDA_ERROR_NOT_READY)
            continue;
        if (result == CUDA_SUCCESS)
            outcome_take(slot);
        slot_drop(slot);
    }
}
