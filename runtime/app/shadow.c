/* A checked launch: see shadow.h. Everything is enqueued on the app's own stream: copies of what
 * may be written, the one kernel that writes the app's memory, the other on the copies, the
 * comparison, the outcome, an event. What cannot be checked soundly is not checked, and counted:
 * a stream under graph capture, buffers that overlap what is written, memory whose bounds are not
 * known, what does not fit. Never delays a launch by more than enqueuing these.
 *
 * In a program of several processes a variant that is not bitwise writes the app's memory, and the
 * original runs on the copies: else this process's data would differ from the others' in a checked
 * launch. */
#include "app/extent.h"
#include "app/shadow.h"

#include <string.h>

enum {
    ARGUMENT_BYTES = 4096,
    MOST_BLOCKS = 1024,
    THREADS = 256,
    COMPARE_BYTES = 8, /* a thread, at least */
    BUSY_GAP = 8,      /* launches until a check is tried again */
};

/* One region that the launch may write. */
struct written {
    uint32_t pointer; /* of the signature */
    uint64_t from, size, copy;
};

struct plan {
    uint32_t count;
    struct written regions[GUARD_POINTERS];
    uint64_t end, bytes; /* of the pool's memory in use then; to be compared */
    const char *foreign; /* of SKIP_KIND */
};

/* Arguments of the kernel that runs on copies. */
struct replaced {
    void *arguments[LAUNCH_PARAMS + VARIANT_GLOBALS];
    _Alignas(16) unsigned char bytes[ARGUMENT_BYTES];
};

uint64_t shadow_bytes(const struct kg_signature *signature)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < signature->pointer_count; i++) {
        const struct kg_pointer *p = &signature->pointers[i];
        uint64_t size = pointer_written(p) ? (uint64_t)(p->high - p->low) : 0;
        if (size > UINT64_MAX - sum - 2 * SHADOW_GAP)
            return UINT64_MAX;
        sum += size ? size + 2 * SHADOW_GAP : 0;
    }
    return sum;
}

/* ---- what is to be copied ----------------------------------------------------------------------
 */

static uint64_t pointer_value(const struct kernel *kernel, const struct launch *launch,
                              const struct kg_pointer *pointer)
{
    uint64_t value = 0;
    const char *argument = launch_argument(kernel, launch, pointer->param);
    if (argument)
        memcpy(&value, argument + pointer->offset, sizeof value);
    return value;
}

static bool overlaps_others(const struct kernel *kernel, const struct launch *launch,
                            const struct kg_signature *signature, const struct written *w)
{
    for (uint32_t i = 0; i < signature->pointer_count; i++) {
        const struct kg_pointer *p = &signature->pointers[i];
        uint64_t value = pointer_value(kernel, launch, p);
        uint64_t low = value + (uint64_t)p->low, high = value + (uint64_t)p->high;
        if (i != w->pointer && low != high && low < w->from + w->size && w->from < high)
            return true;
    }
    return false;
}

/* NULL: what the launch may touch is this device's own, or not known. Asked of all pointers, also
 * of those that are only read: see extent.h. */
static const char *foreign(const struct kernel *kernel, const struct launch *launch,
                           const struct kg_signature *signature, CUdevice own)
{
    const char *why = NULL;
    for (uint32_t i = 0; i < signature->pointer_count && !why; i++) {
        const struct kg_pointer *p = &signature->pointers[i];
        uint64_t at = pointer_value(kernel, launch, p) + (uint64_t)p->low;
        if (p->low == p->high)
            continue;
        struct extent e = extent_find(at, at, at, own);
        why = e.why || e.size ? e.why : extent_pageable(at, own);
    }
    return why;
}

/* SKIP_COUNT: all that may be written has its place in the pool. A copy stands at the address
 * modulo 512 at which the original bytes stand. */
static enum skip plan_make(const struct kernel *kernel, const struct launch *launch,
                           const struct kg_signature *signature, struct plan *plan)
{
    const struct shadow_pool *pool = &shadow_pool;
    CUdevice own;
    plan->count = 0;
    plan->bytes = 0;
    plan->end = pool->used;
    if (real.cuCtxGetDevice(&own) != CUDA_SUCCESS)
        return SKIP_DRIVER;
    plan->foreign = foreign(kernel, launch, signature, own);
    if (plan->foreign)
        return SKIP_KIND;
    for (uint32_t i = 0; i < signature->pointer_count; i++) {
        const struct kg_pointer *p = &signature->pointers[i];
        struct written w = {.pointer = i, .size = (uint64_t)(p->high - p->low)};
        if (!pointer_written(p) || !w.size)
            continue;
        w.from = pointer_value(kernel, launch, p) + (uint64_t)p->low;
        if (overlaps_others(kernel, launch, signature, &w))
            return SKIP_OVERLAP;
        struct extent e = extent_find(w.from, w.from, w.from + w.size, own);
        if (e.why || !e.size || w.size > e.size - (w.from - e.base))
            return SKIP_MEMORY;
        uint64_t at = (plan->end + SHADOW_GAP - 1) / SHADOW_GAP * SHADOW_GAP;
        at += (w.from - (pool->memory + at)) % SHADOW_GAP;
        if (at > pool->size || w.size > pool->size - at)
            return pool->used > sizeof(struct shadow_outcome) * SHADOW_SLOTS ? SKIP_BUSY
                                                                             : SKIP_POOL;
        w.copy = pool->memory + at;
        plan->end = at + w.size + SHADOW_GAP;
        plan->bytes += w.size;
        plan->regions[plan->count++] = w;
    }
    return SKIP_COUNT;
}

/* The launch's arguments with the pointers to what is written led to the copies. */
static bool arguments_replace(const struct kernel *kernel, const struct launch *launch,
                              const struct kg_signature *signature, const struct plan *plan,
                              struct replaced *out)
{
    if (kernel->param_count > LAUNCH_PARAMS || (launch->params && launch->extra))
        return false;
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        const struct kg_param *param = &kernel->params[i];
        const void *argument = launch_argument(kernel, launch, i);
        if (!argument || param->offset > ARGUMENT_BYTES ||
            param->size > ARGUMENT_BYTES - param->offset)
            return false;
        memcpy(out->bytes + param->offset, argument, param->size);
        out->arguments[i] = out->bytes + param->offset;
    }
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct written *w = &plan->regions[i];
        const struct kg_pointer *p = &signature->pointers[w->pointer];
        uint64_t value = w->copy - (uint64_t)p->low;
        memcpy((char *)out->arguments[p->param] + p->offset, &value, sizeof value);
    }
    return true;
}

/* ---- the launch --------------------------------------------------------------------------------
 */

static CUresult run_at(CUfunction function, const struct kg_launch *shape, CUstream stream,
                       void **arguments)
{
    return real.cuLaunchKernel(function, shape->grid.x, shape->grid.y, shape->grid.z,
                               shape->block.x, shape->block.y, shape->block.z, shape->shared,
                               stream, arguments, NULL);
}

static bool copies_enqueue(const struct plan *plan, struct shadow_slot *slot, CUstream stream)
{
    bool good = real.cuEventRecord(slot->start, stream) == CUDA_SUCCESS;
    for (uint32_t i = 0; i < plan->count && good; i++) {
        const struct written *w = &plan->regions[i];
        good = real.cuMemcpyDtoDAsync_v2(w->copy, w->from, w->size, stream) == CUDA_SUCCESS;
    }
    return good;
}

/* How far an element may be off, relative to the original's, in the app: `auto` knows a bound for
 * each element, from measurements that are not at hand here, so it gets some units in the last
 * place, and a few elements may pass even that. */
static double limit_of(const struct accuracy *accuracy, unsigned element)
{
    double unit = element == 2 ? 0x1p-10 : element == 3 ? 0x1p-7 : element == 4 ? 0x1p-23 : 0x1p-52;
    if (accuracy->mode == ACCURACY_REL)
        return accuracy->limit;
    if (accuracy->mode == ACCURACY_ULP)
        return accuracy->limit * unit;
    return element == 2 ? 16 * unit : element == 3 ? 8 * unit : 8192 * unit;
}

static CUdeviceptr outcome_of(const struct shadow_slot *slot)
{
    return shadow_pool.memory +
           (CUdeviceptr)(slot - shadow_pool.slots) * sizeof(struct shadow_outcome);
}

/* What the app has against what stands in the copies. */
static bool compare_enqueue(const struct track *track, const struct plan *plan,
                            const struct shadow_slot *slot, CUstream stream)
{
    CUdeviceptr outcome = outcome_of(slot);
    bool good = real.cuMemsetD32Async(outcome, 0, sizeof(struct shadow_outcome) / 4, stream) ==
                CUDA_SUCCESS;
    for (uint32_t i = 0; i < plan->count && good; i++) {
        const struct written *w = &plan->regions[i];
        uint64_t expected = track->in_step ? w->copy : w->from, size = w->size;
        uint64_t got = track->in_step ? w->from : w->copy;
        unsigned region = w->pointer, element = track->elements[w->pointer];
        if (expected % (element == 3 ? 2 : element ? element : 1))
            element = 0;
        double limit = limit_of(&track->accuracy, element);
        void *arguments[] = {&expected, &got, &size, &outcome, &region, &element, &limit};
        uint64_t blocks = size / (THREADS * COMPARE_BYTES) + 1;
        struct kg_launch shape = {
            {blocks < MOST_BLOCKS ? (uint32_t)blocks : MOST_BLOCKS, 1, 1}, {THREADS, 1, 1}, 0};
        good = run_at(shadow_pool.compare, &shape, stream, arguments) == CUDA_SUCCESS;
    }
    struct shadow_outcome *out = &shadow_pool.outcomes[slot - shadow_pool.slots];
    return good && real.cuMemcpyDtoHAsync_v2(out, outcome, sizeof *out, stream) == CUDA_SUCCESS;
}

/* The original, or the variant where the launch must keep in step, on the app's memory, then the
 * other on the copies. *good: both were launched. */
static CUresult run_both(struct kernel *kernel, const struct launch *launch,
                         const struct swap_entry *entry, struct replaced *replaced, bool *good)
{
    bool in_step = entry->track->in_step;
    CUresult result = in_step ? variant_launch(kernel, launch, entry) : launch->run(launch), other;
    *good = false;
    if (result != CUDA_SUCCESS || (in_step && !atomic_load(&kernel->swap)))
        return result; /* or the variant was refused, and the original ran: nothing to compare */
    if (in_step) {
        other =
            run_at(launch->function, &launch->shape, launch->explicit_stream, replaced->arguments);
    } else {
        for (uint32_t i = 0; i < entry->global_count; i++)
            replaced->arguments[kernel->param_count + i] = (void *)(uintptr_t)&entry->globals[i];
        other =
            run_at(entry->function, &entry->launch, launch->explicit_stream, replaced->arguments);
        if (other != CUDA_SUCCESS)
            variant_refused(kernel, entry);
    }
    *good = other == CUDA_SUCCESS;
    return result;
}

static struct shadow_slot *slot_take(void)
{
    struct shadow_pool *pool = &shadow_pool;
    struct shadow_slot *found = NULL;
    bool all_free = true;
    for (int i = 0; i < SHADOW_SLOTS; i++) {
        bool is_free =
            atomic_load_explicit(&pool->slots[i].state, memory_order_acquire) == SHADOW_FREE;
        all_free &= is_free;
        if (is_free && !found)
            found = &pool->slots[i];
    }
    if (all_free) /* nothing on any stream uses the pool */
        pool->used = SHADOW_SLOTS * sizeof(struct shadow_outcome);
    return found;
}

/* Until the watcher sees its event, the pool's memory is not used again. Without an event it never
 * is: the slot stays taken. track: NULL where there is nothing to compare. */
static void slot_close(struct shadow_slot *slot, struct track *track, uint64_t number,
                       CUstream stream)
{
    slot->track = track;
    slot->launch = number;
    slot->since_ns = now_ns();
    if (track)
        atomic_fetch_add_explicit(&track->under_way, 1, memory_order_relaxed);
    if (real.cuEventRecord(slot->end, stream) == CUDA_SUCCESS)
        atomic_store_explicit(&slot->state, SHADOW_PENDING, memory_order_release);
    else if (track)
        atomic_fetch_sub_explicit(&track->under_way, 1, memory_order_relaxed);
}

/* The pool is ours. False: the launch was not made. *why: SKIP_COUNT if it is being checked. */
static bool check(struct kernel *kernel, const struct launch *launch,
                  const struct swap_entry *entry, uint64_t number, CUresult *result, enum skip *why)
{
    struct plan plan;
    struct replaced replaced;
    struct track *track = entry->track;
    CUstream stream = launch->explicit_stream;
    struct shadow_slot *slot = slot_take();
    *why = slot ? plan_make(kernel, launch, &entry->signature, &plan) : SKIP_BUSY;
    if (*why == SKIP_KIND && !track->in_step) /* in step: not unlike the other processes */
        atomic_store_explicit(&track->foreign, plan.foreign, memory_order_release);
    if (*why != SKIP_COUNT)
        return false;
    *why = SKIP_ARGUMENTS;
    if (!arguments_replace(kernel, launch, &entry->signature, &plan, &replaced))
        return false;
    atomic_store_explicit(&slot->state, SHADOW_TAKEN, memory_order_relaxed);
    shadow_pool.used = plan.end;
    slot->bytes = plan.bytes;
    slot->first = atomic_load_explicit(&track->first, memory_order_relaxed) > 0;
    bool launched = copies_enqueue(&plan, slot, stream), good = launched;
    if (launched)
        *result = run_both(kernel, launch, entry, &replaced, &good);
    good = good && compare_enqueue(track, &plan, slot, stream);
    slot_close(slot, good ? track : NULL, number, stream);
    *why = good ? SKIP_COUNT : SKIP_DRIVER;
    return launched;
}

/* One less, unless none is left; how many are left. */
static unsigned take_one(atomic_uint *count)
{
    unsigned now = atomic_load_explicit(count, memory_order_relaxed);
    while (now && !atomic_compare_exchange_weak(count, &now, now - 1))
        ;
    return now ? now - 1 : 0;
}

/* When the next check is due. The first launches are tried one by one, then launches drawn at
 * random, so that no period of the app's is met again and again. */
static void account(struct track *track, uint64_t number, enum skip why)
{
    unsigned first = atomic_load_explicit(&track->first, memory_order_relaxed);
    uint64_t stride = atomic_load_explicit(&track->stride, memory_order_relaxed), next = 1;
    if (why != SKIP_COUNT)
        atomic_fetch_add_explicit(&track->skipped[why], 1, memory_order_relaxed);
    if (why == SKIP_COUNT)
        first = take_one(&track->first);
    else if (why != SKIP_BUSY && first && !take_one(&track->tries))
        atomic_store_explicit(&track->first, first = 0, memory_order_relaxed);
    if (why == SKIP_BUSY && !first)
        next = BUSY_GAP;
    else if (!first)
        next = stride ? stride / 2 + track_random() % stride : UINT64_MAX / 2;
    atomic_store_explicit(&track->check_at, number + (next ? next : 1), memory_order_relaxed);
}

bool shadow_launch(struct kernel *kernel, const struct launch *launch,
                   const struct swap_entry *entry, uint64_t number, CUresult *result)
{
    struct track *track = entry->track;
    CUcontext current = NULL;
    bool launched = false;
    if (track->unchecked || number < atomic_load_explicit(&track->check_at, memory_order_relaxed))
        return false;
    enum skip why = SKIP_BUSY;
    CUcontext own = atomic_load_explicit(&shadow_pool.context, memory_order_acquire);
    if (!stream_quiet(launch->explicit_stream)) {
        why = SKIP_GRAPH;
    } else if (!own || real.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != own) {
        why = SKIP_CONTEXT;
    } else if (!atomic_flag_test_and_set_explicit(&shadow_pool.claimed, memory_order_acquire)) {
        CUstreamCaptureMode mode = capture_mode_relax(); /* of another thread's stream */
        launched = check(kernel, launch, entry, number, result, &why);
        capture_mode_restore(mode);
        atomic_flag_clear_explicit(&shadow_pool.claimed, memory_order_release);
    }
    account(track, number, why);
    return launched;
}
