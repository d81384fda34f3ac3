/* Snapshots and swapping: opens the current snapshot of this hardware, loads the variants of a
 * kernel at safe points, and publishes them as one immutable table by a release store. A variant
 * that does not fit the kernel, this driver, the wanted accuracy, or that was in use when a process
 * died, is left out with a note. Never loads code elsewhere than at a safe point. entry.c loads it,
 * tables.c keeps the tables. */
#include "app/inside.h"
#include "app/track.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MOST = 64,          /* variants of one kernel: a bit each, in struct comparison */
    DROPPED = 64,       /* variants that this process gave up */
    IDENTIFIED = 8,     /* kernels modelled in one tick */
    PATIENCE_TICKS = 5, /* left to the app's own synchronizations before the watcher loads */
};
#define SAFE_POINT_NS UINT64_C(3000000) /* of work after the app's synchronization */

/* All under records_lock. */
static struct snapshot *snapshot;
static uint32_t generation; /* 0: none was opened yet */
static struct {
    struct kg_id variant;
    uint64_t time; /* seconds since 1970 */
} dropped[DROPPED];
static unsigned dropped_count;
static atomic_uint waiting;      /* kernels whose variants wait for a safe point */
static atomic_bool have_kernels; /* the open snapshot has some */
static unsigned patience;
/* In a program of several processes: where variants that are not bitwise come from, for good. */
static struct {
    bool asked, several;
    const char *why; /* there is none; static text */
    struct snapshot *snapshot;
} bound;

bool variants_pending(void)
{
    return atomic_load_explicit(&waiting, memory_order_relaxed) != 0;
}

bool variants_any(void)
{
    return atomic_load_explicit(&have_kernels, memory_order_relaxed);
}

const struct kg_id *variants_snapshot(void)
{
    return snapshot ? snapshot_id(snapshot) : NULL;
}

/* ---- which variants may be used ----------------------------------------------------------------
 */

static bool accuracy_allowed(const char *accuracy)
{
    struct accuracy has, wanted;
    accuracy_parse(options()->accuracy, &wanted); /* what cannot be read means bitwise */
    return accuracy_parse(accuracy, &has) && accuracy_suits(&has, &wanted);
}

static bool launch_possible(const struct kg_launch *launch)
{
    uint64_t threads = (uint64_t)launch->block.x * launch->block.y;
    return launch->grid.x && launch->grid.y && launch->grid.z && threads && launch->block.z &&
           threads <= 1024 && threads * launch->block.z <= 1024;
}

static bool is_dropped(const struct kg_variant *variant)
{
    for (unsigned i = 0; i < dropped_count; i++)
        if (id_equal(&dropped[i].variant, &variant->id) && variant->time <= dropped[i].time)
            return true;
    return false;
}

static bool is_bitwise(const struct kg_variant *variant)
{
    return !strcmp(variant->accuracy, "bitwise");
}

/* What must hold for variants that may differ in the last bits: the processes of a program do the
 * same all the time, or results that are equal in all of them would no longer be. NULL: fine. */
static const char *step_objection(bool from_bound, bool at_start)
{
    const char *seen;
    if (!bound.several && bound_several(&seen)) {
        bound.several = true; /* a library came later: too late for a common snapshot */
        bound.why = "it was not known at the start that there are several processes";
    }
    if (!bound.several)
        return NULL;
    if (!bound.snapshot)
        return bound.why ? bound.why
                         : "it is not bitwise, and the processes of this program began "
                           "without a common snapshot";
    if (!from_bound)
        return "it is not bitwise: a program of several processes gets such variants only from the "
               "snapshot that all of them began with";
    return at_start ? NULL
                    : "it is not bitwise: in a program of several processes it would have to "
                      "be loaded before the kernel's first launch";
}

/* NULL: usable; else why not. */
static const char *objection(const struct kernel *kernel, const struct kg_variant *variant,
                             bool from_bound, bool at_start)
{
    struct kg_hardware hardware;
    struct kg_id key;
    if (!app_hardware(&hardware, &key) || !id_equal(&key, &variant->hardware))
        return "it was made for another device";
    if (variant->driver_version != hardware.driver_version)
        return "it was verified under another driver and waits to be verified again";
    if (!accuracy_allowed(variant->accuracy))
        return "KGENRT_ACCURACY asks for more than it was verified for";
    if (!signature_fits(kernel, &variant->signature) || !launch_possible(&variant->launch))
        return "it does not fit the kernel's parameters";
    if (is_dropped(variant))
        return "it failed in this process";
    if (flight_suspended(&variant->id, variant->time))
        return "it was in use when a process ended uncleanly, and waits to be verified again";
    return is_bitwise(variant) ? NULL : step_objection(from_bound, at_start);
}

struct found {
    const struct kernel *kernel;
    bool at_start;   /* no launch can have been made */
    bool from_bound; /* what is walked now: the common snapshot, for what is not bitwise */
    struct kg_variant variants[MOST];
    bool in_step[MOST]; /* of each: from_bound */
    unsigned count;
    struct swap_entry entries[MOST]; /* here for its size: stacks of apps' threads may be small */
};

/* Keeps a copy of each usable variant, best first. */
static bool gather(void *self, const struct kg_variant *variant)
{
    struct found *found = self;
    char id[KG_ID_TEXT];
    if (found->from_bound && is_bitwise(variant))
        return true;
    const char *why = objection(found->kernel, variant, found->from_bound, found->at_start);
    bool later = why && !found->from_bound && !is_bitwise(variant) && bound.snapshot;
    if (later)
        return true; /* the walk through the common snapshot says it */
    if (why) {
        app_note("variant %.16s of %.80s is not used: %s", id_text(&variant->id, id),
                 found->kernel->name, why);
        return true;
    }
    struct kg_bytes packed;
    struct kg_variant copy;
    if (variant_pack(variant, &packed) != KG_OK)
        return false;
    kg_status status = variant_parse(packed.data, packed.size, &copy);
    bytes_free(&packed);
    if (status != KG_OK)
        return false;
    unsigned at = found->count++;
    for (; at && found->variants[at - 1].ratio < copy.ratio; at--) {
        found->variants[at] = found->variants[at - 1];
        found->in_step[at] = found->in_step[at - 1];
    }
    found->variants[at] = copy;
    found->in_step[at] = found->from_bound;
    return found->count < MOST;
}

/* ---- publishing
 * -----------------------------------------------------------------------------------
 */

static void publish(struct kernel *kernel, struct swap *swap)
{
    atomic_store_explicit(&kernel->swap, swap, memory_order_release);
    if (!swap)
        return;
    atomic_store_explicit(&kernel->state, KERNEL_SWAPPED, memory_order_release);
    if (!kernel->swapped_ns)
        kernel->swapped_ns = now_ns();
    atomic_store_explicit(&kernel->slow_at, 0, memory_order_relaxed); /* time the variant soon */
    log_line(KG_INFO, "%s: %u variant%s in use, first %.2f times as fast", kernel->name,
             swap->count, swap->count == 1 ? "" : "s", swap->entries[0].ratio);
}

/* Variants that must not come and go while the program runs. */
static unsigned kept(const struct swap *old, struct swap_entry *entries)
{
    unsigned count = 0;
    for (uint32_t i = 0; old && i < old->count && count < MOST; i++)
        if (old->entries[i].track && old->entries[i].track->in_step &&
            !old->entries[i].track->dropped)
            entries[count++] = old->entries[i];
    return count;
}

/* Nothing for this kernel in the open snapshot (any more). */
static void none_left(struct kernel *kernel)
{
    struct swap_entry *entries = calloc(MOST, sizeof *entries);
    const struct swap *old = atomic_load_explicit(&kernel->swap, memory_order_acquire);
    unsigned count = entries ? kept(old, entries) : 0;
    bool all = count && count == old->count;
    struct swap *swap = count && !all ? table_make(kernel, entries, count) : NULL;
    free(entries);
    if (all)
        return;
    publish(kernel, swap);
    if (swap)
        return;
    int swapped = KERNEL_SWAPPED;
    atomic_compare_exchange_strong(&kernel->state, &swapped, KERNEL_COLD);
}

/* A variant that stands in the present table is used as it is. */
static const struct swap_entry *entry_present(const struct swap *swap, const struct kg_id *variant)
{
    for (uint32_t i = 0; swap && i < swap->count; i++)
        if (id_equal(&swap->entries[i].variant, variant))
            return &swap->entries[i];
    return NULL;
}

static void load_found(struct kernel *kernel, struct found *found)
{
    struct swap_entry *entries = found->entries;
    const struct swap *old = atomic_load_explicit(&kernel->swap, memory_order_acquire);
    unsigned count = kept(old, entries);
    for (unsigned i = 0; i < found->count; i++)
        if (!flight_late(&found->variants[i].id))
            return; /* no room to account for it */
    flight_write("variants are loaded");
    for (unsigned i = 0; i < found->count && count < MOST; i++) {
        const struct kg_variant *v = &found->variants[i];
        const struct snapshot *from = found->in_step[i] ? bound.snapshot : snapshot;
        const struct swap_entry *present = entry_present(old, &v->id);
        if (present && present->track && present->track->in_step)
            continue; /* kept already */
        if (present)
            entries[count] = *present;
        else if (!entry_load(kernel, from, v, &entries[count])) {
            app_note("a variant of %.80s could not be loaded", kernel->name);
            continue;
        }
        if (!entries[count].track)
            entries[count].track = track_of(kernel, v, found->in_step[i]);
        count++;
    }
    struct swap *swap = count ? table_make(kernel, entries, count) : NULL;
    if (swap) {
        publish(kernel, swap);
        flight_write("variants are in use");
    } else {
        none_left(kernel);
    }
}

static void stop_waiting(struct kernel *kernel)
{
    kernel->snapshot_generation = generation;
    if (kernel->variants_wait)
        atomic_fetch_sub_explicit(&waiting, 1, memory_order_relaxed);
    kernel->variants_wait = false;
}

static bool in_snapshot(const struct kernel *kernel)
{
    return kernel->modelled && !kernel->model.ineligible && !kernel->retired_ns;
}

static void look_up(struct kernel *kernel, bool at_start)
{
    struct found *found = calloc(1, sizeof *found);
    if (!found)
        return;
    found->kernel = kernel;
    found->at_start = at_start && !kernel_launches(kernel);
    flight_reading(snapshot_id(snapshot));
    kg_status status = snapshot_each(snapshot, &kernel->model.id, gather, found);
    found->from_bound = true;
    if (status == KG_OK && bound.snapshot && found->count < MOST)
        status = snapshot_each(bound.snapshot, &kernel->model.id, gather, found);
    flight_reading(NULL);
    if (status == KG_OK && found->count)
        load_found(kernel, found);
    else
        none_left(kernel);
    for (unsigned i = 0; i < found->count; i++)
        variant_free(&found->variants[i]);
    free(found);
}

/* at_start: in the app's thread that looks the kernel up, before it can launch it. */
static void load_at(struct kernel *kernel, bool at_start)
{
    if (!snapshot || app_mode() < KG_MODE_CACHED || kernel->snapshot_generation == generation ||
        atomic_load_explicit(&kernel->state, memory_order_relaxed) == KERNEL_CAPTURING)
        return;
    if (!in_snapshot(kernel)) {
        if (kernel->modelled || kernel->why)
            stop_waiting(kernel);
        return;
    }
    CUcontext wanted = kernel->context ? kernel->context : context_only();
    if (!wanted || !real.cuLibraryLoadData)
        return;
    bool was_inside = inside_kgenrt;
    inside_kgenrt = true;
    CUstreamCaptureMode mode = capture_mode_relax();
    CUcontext popped;
    if (real.cuCtxPushCurrent_v2(wanted) == CUDA_SUCCESS) {
        kernel->context = wanted;
        if (device_fits())
            look_up(kernel, at_start);
        stop_waiting(kernel);
        (void)real.cuCtxPopCurrent_v2(&popped);
    }
    capture_mode_restore(mode);
    inside_kgenrt = was_inside;
}

void variants_load(struct kernel *kernel)
{
    load_at(kernel, true);
}

/* ---- safe points --------------------------------------------------------------------------------
 */

void safe_point(void)
{
    if (!variants_pending() || !app_active() || inside_kgenrt || context_is_green())
        return;
    records_lock();
    CUcontext current = NULL;
    uint64_t start = now_ns();
    if (real.cuCtxGetCurrent(&current) != CUDA_SUCCESS)
        current = NULL;
    for (struct kernel *k = kernels_first(); k && now_ns() - start < SAFE_POINT_NS; k = k->next)
        if (k->variants_wait && (!k->context || k->context == current)) {
            k->context = current;
            load_at(k, false);
        }
    records_unlock();
}

/* ---- in the watcher ----------------------------------------------------------------------------
 */

/* Locked. The new one's kernels are looked up anew, those of the old table too. */
static void snapshot_take(struct snapshot *fresh)
{
    struct snapshot *old = snapshot;
    snapshot = fresh;
    generation++;
    atomic_store_explicit(&have_kernels, snapshot_kernel_count(fresh) != 0, memory_order_relaxed);
    snapshot_close(old);
}

/* Once, at the first context: whether this program has several processes, and which snapshot they
 * share; the first of them names what is current now. */
static void bound_open(const struct kg_id *key)
{
    struct kg_id current = {{0}}, named;
    struct snapshot *opened = NULL;
    const char *seen, *why = NULL;
    bool several = bound_several(&seen);
    if (several) {
        if (snapshot_current(app_dir(), key, &current) != KG_OK)
            current = (struct kg_id){{0}};
        why = bound_agree(key, &current, &named);
        if (!why && flight_snapshot_bad(&named))
            why = "the snapshot that this program's processes began with is not opened";
        if (!why) {
            flight_reading(&named);
            if (snapshot_open_named(app_dir(), key, &named, &opened) != KG_OK)
                why = "the snapshot that this program's processes began with is not there";
            flight_reading(NULL);
        }
        app_note("several processes (%s): variants that are not bitwise %s%s", seen,
                 why ? "are not used: " : "come from the snapshot that all began with",
                 why ? why : "");
    }
    records_lock();
    bound.asked = true;
    bound.several = several;
    bound.why = why;
    bound.snapshot = opened;
    records_unlock();
}

void variants_open(void)
{
    static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
    static struct kg_id failed; /* under `opening`, as this one: */
    static struct snapshot_mark mark;
    struct kg_hardware hardware;
    struct kg_id key, id;
    struct snapshot *fresh = NULL;
    if (app_mode() < KG_MODE_CACHED || !app_hardware(&hardware, &key) ||
        pthread_mutex_trylock(&opening))
        return;
    if (!bound.asked)
        bound_open(&key);
    if (!snapshot_changed(app_dir(), &key, &mark)) {
        pthread_mutex_unlock(&opening);
        return;
    }
    kg_status status = snapshot_current(app_dir(), &key, &id);
    if (status == KG_IO)
        mark = (struct snapshot_mark){0}; /* no descriptor left, perhaps: asked again */
    records_lock();
    const struct kg_id *now = variants_snapshot();
    bool fine = status == KG_OK && !id_equal(&id, &failed) && !(now && id_equal(now, &id)) &&
                !flight_snapshot_bad(&id);
    records_unlock();
    if (fine) {
        flight_reading(&id);
        status = snapshot_open(app_dir(), &key, &fresh);
        if (status != KG_OK)
            failed = id; /* said by who found out; a newer one gets its chance */
        flight_reading(NULL);
    }
    if (fresh) {
        records_lock();
        snapshot_take(fresh);
        flight_write("a snapshot was opened");
        records_unlock();
    }
    pthread_mutex_unlock(&opening);
}

/* What the open snapshot says of a kernel's table. */
struct comparison {
    const struct swap *swap;
    bool any;      /* it has variants of the kernel */
    uint64_t good; /* entries, as bits, that it has too, or a faster one for their signature */
};

static bool compare(void *self, const struct kg_variant *variant)
{
    struct comparison *c = self;
    struct kg_id theirs, ours;
    c->any = true;
    signature_id(&variant->signature, &theirs);
    for (uint32_t i = 0; c->swap && i < c->swap->count; i++) {
        const struct swap_entry *entry = &c->swap->entries[i];
        signature_id(&entry->signature, &ours);
        if (id_equal(&entry->variant, &variant->id) || (entry->track && entry->track->in_step) ||
            (id_equal(&ours, &theirs) && variant->ratio > entry->ratio))
            c->good |= UINT64_C(1) << i;
    }
    return true;
}

/* Whether the open snapshot has variants of the kernel. One in use that was withdrawn goes at once:
 * that needs no safe point, as loading does. */
static bool has_variants(struct kernel *kernel)
{
    struct comparison c = {.swap = atomic_load_explicit(&kernel->swap, memory_order_acquire)};
    if (snapshot_each(snapshot, &kernel->model.id, compare, &c) != KG_OK || !c.any)
        return false;
    if (c.swap && c.good != UINT64_MAX >> (64 - c.swap->count))
        none_left(kernel);
    return true;
}

/* Locked. Kernels that the open snapshot may have variants for begin to wait for a safe point. */
static void find_waiting(void)
{
    unsigned left = IDENTIFIED;
    for (struct kernel *k = kernels_first(); k && snapshot; k = k->next) {
        if (k->retired_ns && k->variants_wait)
            stop_waiting(k);
        if (k->retired_ns || k->variants_wait || k->snapshot_generation == generation)
            continue;
        if (!k->modelled && !k->why) {
            if ((!kernel_launches(k) &&
                 !atomic_load_explicit(&k->in_capture, memory_order_relaxed)) ||
                !left)
                continue;
            left--;
            kernel_identify(k);
        }
        if (!in_snapshot(k) || !has_variants(k)) {
            none_left(k);
            k->snapshot_generation = generation;
            continue;
        }
        k->variants_wait = true;
        atomic_fetch_add_explicit(&waiting, 1, memory_order_relaxed);
    }
}

/* The watcher's own safe point: one kernel a tick, after the app had its chances. */
static void load_when_idle(void)
{
    if (!variants_pending() || !hot_idle()) {
        patience = 0;
        return;
    }
    if (++patience <= PATIENCE_TICKS)
        return;
    for (struct kernel *k = kernels_first(); k; k = k->next)
        if (k->variants_wait) {
            load_at(k, false);
            if (!k->variants_wait)
                return;
        }
}

void variants_tick(void)
{
    variants_open();
    records_lock();
    tables_free();
    if (app_mode() >= KG_MODE_CACHED) {
        find_waiting();
        load_when_idle();
    }
    records_unlock();
}

void variant_drop(struct kernel *kernel, const struct kg_id *variant, const char *why)
{
    char id[KG_ID_TEXT];
    app_note("variant %.16s of %.80s is not used any more: %s", id_text(variant, id), kernel->name,
             why);
    if (dropped_count < DROPPED) {
        dropped[dropped_count].variant = *variant;
        dropped[dropped_count++].time = (uint64_t)time(NULL);
    } else {
        app_limit(KG_MODE_OBSERVE, "too many variants failed in this process");
    }
    for (struct track *t = kernel->tracks; t; t = t->next)
        t->dropped |= id_equal(&t->variant, variant);
    none_left(kernel);
    kernel->why = why; /* so: not captured again */
    if (!atomic_load_explicit(&kernel->swap, memory_order_relaxed))
        atomic_store_explicit(&kernel->state, KERNEL_UNFIT, memory_order_release);
    kernel->snapshot_generation = 0; /* its other variants get their chance */
}
