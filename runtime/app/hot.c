/* Which kernels matter: a few launches of each are timed by events around them, on the app's own
 * stream; medians times launches give each kernel's share of the GPU time. Stands between dispatch
 * and the driver on the slow path only. Never times a launch while its stream is being captured
 * into a graph, never waits. */
#include "app/inside.h"
#include "app/tally.h"
#include "app/track.h"

#include <string.h>

enum {
    BUDGET = 20,        /* samples in one tick of the watcher: 200 a second */
    FIRST_COUNTED = 3,  /* launches before it load code and warm caches: not in the median */
    ENOUGH = 3,         /* samples that make a median; one will do where graphs take the others */
    STRIDE = 61,        /* launches between samples, later on */
    RETRY_CAPTURE = 13, /* launches until another one is looked at for a capture */
    SEEN_SHARE = 1,  /* percent of the GPU time from which on a kernel's code is read, hot or not */
    READ_A_TICK = 4, /* kernels of which that is done */
};
static const uint64_t long_ns = 500000000ull;    /* a kernel that runs so long blocks loading */
static const uint64_t wary_ns = 60000000000ull;  /* … and is expected again for so long */
static const uint64_t stale_ns = 10000000000ull; /* records may have been recycled */

static atomic_int budget = BUDGET;
static _Atomic uint64_t wary_until;
static double total; /* GPU time of all kernels; under records_lock */

uint64_t hot_next(uint64_t launch)
{
    if (launch < FIRST_COUNTED)
        return FIRST_COUNTED;
    if (launch < 6)
        return launch + 1;
    if (launch >= 64) /* a prime: kinds of launches come in turns */
        return (launch / STRIDE + 1) * STRIDE;
    uint64_t next = 8;
    while (next <= launch)
        next *= 2;
    return next;
}

/* ---- on the launch path -------------------------------------------------------------------------
 */

static CUresult plain(struct kernel *kernel, const struct launch *launch,
                      const struct swap_entry *entry)
{
    return entry && !track_holds(entry) ? variant_launch(kernel, launch, entry)
                                        : launch->run(launch);
}

/* Not a success also covers the legacy stream while another thread captures. */
bool stream_quiet(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return real.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
           status == CU_STREAM_CAPTURE_STATUS_NONE;
}

/* A first launch is always watched: a kernel that never ends is known by it. */
static struct sample *sample_start(const struct launch *launch, bool first)
{
    if ((!first && atomic_fetch_sub_explicit(&budget, 1, memory_order_relaxed) <= 0) ||
        !stream_quiet(launch->explicit_stream))
        return NULL;
    struct sample *sample = sample_take();
    if (sample)
        sample->track = NULL;
    if (!sample && first)
        atomic_store_explicit(&wary_until, now_ns() + wary_ns, memory_order_relaxed);
    if (sample && real.cuEventRecord(sample->start, launch->explicit_stream) != CUDA_SUCCESS) {
        sample_free(sample); /* a stream of another context */
        return NULL;
    }
    return sample;
}

static void sample_end(struct sample *sample, struct kernel *kernel, const struct launch *launch,
                       uint64_t number, const struct swap_entry *entry)
{
    bool swap = atomic_load(&kernel->swap) != NULL; /* gone if the variant failed and was dropped */
    sample->kernel = kernel;
    sample->launch = number;
    sample->swapped = entry && swap;
    sample->other = !entry && swap;
    sample->since_ns = now_ns();
    int taken = SAMPLE_TAKEN;
    if (real.cuEventRecord(sample->end, launch->explicit_stream) != CUDA_SUCCESS)
        sample_free(sample);
    else
        atomic_compare_exchange_strong(&sample->state, &taken, SAMPLE_PENDING);
}

struct sample *hot_sample_start(const struct launch *launch)
{
    return sample_start(launch, false);
}

void hot_sample_end(struct sample *sample, struct kernel *kernel, const struct launch *launch,
                    uint64_t number, bool variant, CUresult result)
{
    static const struct swap_entry some;
    if (result == CUDA_SUCCESS)
        sample_end(sample, kernel, launch, number, variant ? &some : NULL);
    else
        sample_free(sample);
}

static bool looked_at(const struct kernel *kernel, const struct swap_entry *entry)
{
    return entry && atomic_load_explicit(&kernel->look, memory_order_relaxed) &&
           !(entry->track && entry->track->in_step);
}

/* A captured launch is the original's, so that its result is in the capture: no harm, but where
 * each process must do as the others do. */
static bool capture_wanted(const struct kernel *kernel, const struct launch *launch,
                           const struct swap_entry *entry)
{
    if ((!entry || looked_at(kernel, entry)) &&
        atomic_load_explicit(&kernel->state, memory_order_acquire) == KERNEL_WANTED &&
        wish_open(kernel, launch))
        return true;
    return atomic_load_explicit(&kernel->again, memory_order_relaxed) &&
           !(entry && entry->track && entry->track->in_step);
}

CUresult hot_launch(struct kernel *kernel, const struct launch *launch,
                    const struct swap_entry *entry)
{
    uint64_t number = tally_number(tally_of(kernel));
    uint64_t due = atomic_load_explicit(&kernel->slow_at, memory_order_relaxed);
    /* who moves slow_at on has the sample or the capture; others launch as ever */
    bool mine = due <= number + 1 &&
                atomic_compare_exchange_strong(&kernel->slow_at, &due, hot_next(number));
    if (!app_active() || (!mine && !track_due(entry, number)))
        return plain(kernel, launch, entry);
    bool was_inside = inside_kgenrt;
    inside_kgenrt = true;
    struct sample *sample = NULL;
    bool captured = false;
    bool wanted =
        mine && atomic_load_explicit(&kernel->state, memory_order_acquire) == KERNEL_WANTED;
    if (mine && capture_wanted(kernel, launch, entry)) {
        bool covered = entry && !looked_at(kernel, entry);
        captured = stream_quiet(launch->explicit_stream) && capture_begin(kernel, launch, covered);
        if (!captured)
            atomic_store_explicit(&kernel->slow_at, number + RETRY_CAPTURE, memory_order_relaxed);
    } else {
        if (wanted) /* by another launch */
            atomic_store_explicit(&kernel->slow_at, number + RETRY_CAPTURE, memory_order_relaxed);
        CUresult tracked;
        if (entry && track_launch(kernel, launch, entry, number, &tracked)) {
            inside_kgenrt = was_inside;
            return tracked;
        }
        sample = mine ? sample_start(launch, number == 1) : NULL;
    }
    inside_kgenrt = was_inside;
    CUresult result = captured ? launch->run(launch) : plain(kernel, launch, entry);
    if (captured) {
        inside_kgenrt = true;
        capture_end(launch, result);
        inside_kgenrt = was_inside;
    }
    if (sample && result == CUDA_SUCCESS)
        sample_end(sample, kernel, launch, number, entry);
    else if (sample)
        sample_free(sample);
    return result;
}

/* ---- in the watcher ----------------------------------------------------------------------------
 */

static double median_of(const double *values, uint64_t count)
{
    double sorted[32];
    unsigned n = count < 32 ? (unsigned)count : 32;
    for (unsigned i = 0; i < n; i++) {
        unsigned k = i;
        for (; k && sorted[k - 1] > values[i]; k--)
            sorted[k] = sorted[k - 1];
        sorted[k] = values[i];
    }
    return !n ? 0 : n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

void hot_sample(struct kernel *kernel, bool swapped, double ns)
{
    double *ring = swapped ? kernel->after_sampled_ns : kernel->sampled_ns;
    uint64_t *count = swapped ? &kernel->after_samples : &kernel->samples;
    ring[*count % 32] = ns;
    ++*count;
    *(swapped ? &kernel->after_ns : &kernel->before_ns) = median_of(ring, *count);
}

static void collect(struct context *context, struct sample *sample)
{
    uint64_t now = now_ns();
    CUresult result = real.cuEventQuery(sample->end);
    if (result == CUDA_ERROR_NOT_READY) {
        if (now - sample->since_ns > long_ns)
            atomic_store_explicit(&wary_until, now + wary_ns, memory_order_relaxed);
        return;
    }
    float ms = 0;
    bool known = now - sample->since_ns < stale_ns && !sample->kernel->retired_ns;
    if (result == CUDA_SUCCESS && known) {
        CUresult (*elapsed)(float *, CUevent, CUevent) =
            real.cuEventElapsedTime_v2 ? real.cuEventElapsedTime_v2 : real.cuEventElapsedTime;
        result = elapsed(&ms, sample->start, sample->end);
        if (result == CUDA_SUCCESS && ms * 1e6 > (double)long_ns)
            atomic_store_explicit(&wary_until, now + wary_ns, memory_order_relaxed);
        bool timed = result == CUDA_SUCCESS && ms > 0 && sample->launch >= FIRST_COUNTED;
        if (timed && sample->track)
            live_sample(sample->track, sample->pair, sample->swapped, ms * 1e6);
        if (timed && (sample->track || !sample->other))
            hot_sample(sample->kernel, sample->swapped, ms * 1e6);
        else if (timed)
            wish_sample(sample->kernel, ms * 1e6);
    }
    context_fault(context, result);
    sample_free(sample);
}

static void collect_all(void)
{
    for (int i = 0; i < CONTEXTS; i++) {
        struct context *c = &contexts[i];
        CUcontext handle = atomic_load_explicit(&c->handle, memory_order_acquire);
        if (!handle || c->broken || real.cuCtxSetCurrent(handle) != CUDA_SUCCESS)
            continue;
        for (int k = 0; k < SAMPLES && !c->broken; k++)
            if (atomic_load_explicit(&c->samples[k].state, memory_order_acquire) == SAMPLE_PENDING)
                collect(c, &c->samples[k]);
    }
}

double hot_share(const struct kernel *kernel)
{
    return total > 0 ? kernel->gpu_ns / total : 0;
}

static void estimate(struct kernel *kernel)
{
    uint64_t launches = kernel_launches(kernel), swapped = kernel_swapped(kernel);
    if (launches && !kernel->first_seen_ns)
        kernel->first_seen_ns = now_ns();
    double after = kernel->after_samples ? kernel->after_ns : kernel->before_ns;
    double before = kernel->samples ? kernel->before_ns : kernel->after_ns;
    if (swapped > launches)
        swapped = launches;
    kernel->gpu_ns = (double)(launches - swapped) * before + (double)swapped * after;
}

/* Out of the race, with the reason; `why` is set before the state that makes it readable. */
static void unfit(struct kernel *kernel, const char *why)
{
    kernel->why = why;
    atomic_store_explicit(&kernel->state, KERNEL_UNFIT, memory_order_release);
}

/* Whether a worker looked for a faster variant of late, in vain. */
static bool judged(const struct kernel *kernel)
{
    struct kg_hardware hardware;
    struct kg_id key;
    return app_hardware(&hardware, &key) &&
           judged_holds(app_dir(), &key, &kernel->model.id, hardware.driver_version);
}

static bool timed_enough(const struct kernel *kernel)
{
    bool in_graphs = atomic_load_explicit(&kernel->in_graphs, memory_order_relaxed);
    return kernel->samples >= (in_graphs ? 1 : ENOUGH);
}

/* What matters for the account of where the GPU time goes: `status` says of each such kernel
 * whether it can be replaced. What is hot is read anyway. */
static void read_code(struct kernel *kernel, double total_ns, unsigned *left)
{
    int state = atomic_load_explicit(&kernel->state, memory_order_relaxed);
    if (!*left || app_mode() < KG_MODE_CACHED || kernel->modelled || kernel->why ||
        kernel->retired_ns || (state != KERNEL_NEW && state != KERNEL_COLD))
        return;
    bool matters = timed_enough(kernel) && kernel->gpu_ns * 100 >= total_ns * SEEN_SHARE;
    if (!matters && !(ahead_any() && kernel_launches(kernel)))
        return;
    --*left;
    kernel_identify(kernel);
}

void hot_judge(struct kernel *kernel, double total_ns)
{
    int state = atomic_load_explicit(&kernel->state, memory_order_relaxed);
    uint64_t launches = kernel_launches(kernel);
    if ((state != KERNEL_NEW && state != KERNEL_COLD) || kernel->retired_ns || !launches)
        return;
    atomic_store_explicit(&kernel->state, KERNEL_COLD, memory_order_relaxed);
    if (app_mode() < KG_MODE_CACHED)
        return; /* it counts and is timed, and that is all */
    bool hot = launches >= (uint64_t)options()->hot_launches && timed_enough(kernel) &&
               kernel->gpu_ns * 100 >= total_ns * (double)options()->hot_share;
    if (!hot && !(kernel->modelled && ahead_knows(&kernel->model.id)))
        return;
    if (!kernel->modelled)
        kernel_identify(kernel);
    state = atomic_load_explicit(&kernel->state, memory_order_relaxed);
    if (state == KERNEL_UNFIT)
        return;
    if (!kernel->modelled)
        unfit(kernel, "its code was not seen when it was loaded");
    else if (kernel->model.ineligible)
        unfit(kernel, kernel->model.ineligible);
    else if (!context_alike(kernel->context))
        unfit(kernel, "its device is of another kind than the first that this program used");
    else if (app_mode() != KG_MODE_TUNE || kernel->variants_wait)
        return; /* stays cold; its variant is on its way, perhaps */
    else if (judged(kernel))
        atomic_store_explicit(&kernel->state, KERNEL_JUDGED, memory_order_release);
    else if (spool_holds(&kernel->model.id)) {
        atomic_store_explicit(&kernel->state, KERNEL_CAPTURED, memory_order_release);
        spawn_wanted();
    } else {
        atomic_store_explicit(&kernel->state, KERNEL_WANTED, memory_order_release);
        atomic_store_explicit(&kernel->slow_at, 0, memory_order_relaxed);
        if (atomic_load_explicit(&kernel->in_graphs, memory_order_relaxed))
            ahead_keep(&kernel->model.id); /* there may be no launch outside of them any more */
    }
}

void hot_tick(void)
{
    /* the watcher loads variants when no sample is under way: let them run out */
    atomic_store_explicit(&budget, variants_pending() ? 0 : BUDGET, memory_order_relaxed);
    collect_all();
    double sum = 0;
    for (struct kernel *k = kernels_first(); k; k = k->next) {
        estimate(k);
        sum += k->gpu_ns;
    }
    total = sum;
    unsigned left = READ_A_TICK;
    for (struct kernel *k = kernels_first(); k; k = k->next) {
        read_code(k, total, &left);
        hot_judge(k, total);
        wish_tick(k, total);
    }
}

bool hot_idle(void)
{
    if (now_ns() < atomic_load_explicit(&wary_until, memory_order_relaxed))
        return false;
    for (int i = 0; i < CONTEXTS; i++)
        for (int k = 0; k < SAMPLES; k++) {
            int state = atomic_load_explicit(&contexts[i].samples[k].state, memory_order_relaxed);
            if (state == SAMPLE_PENDING || state == SAMPLE_TAKEN)
                return false;
        }
    return true;
}
