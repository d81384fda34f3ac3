/* Launches of a hot kernel into the spool. A first launch is only noted; the watcher makes a plan
 * of what it reaches (plan.h); the next launch like it is captured: its arguments, and the bytes
 * that they reach, are copied on the app's own stream into pinned memory before the original runs,
 * and what the original left in those that it writes, behind it. The watcher looks for addresses in
 * what was copied (nested.h), which may ask for another launch, and writes the file. Later launches
 * of the same kind are captured at random times, so that a variant meets more than one moment's
 * data.
 *
 * One capture at a time. It must never delay a launch by more than enqueuing copies, nor touch a
 * stream that is being captured into a graph; whatever fails, the original just runs.
 *
 * The pinned memory is an ordinary mapping that is registered with the driver: it outlives the
 * context, so the watcher can never read memory that is gone. */
#include "app/gather.h"
#include "app/inside.h"
#include "app/nested.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    PARAMETERS = 64,
    MOST_MISSED = 8, /* launches that do not fit a plan, until another one is made */
    MOST_PLANS = 4,  /* plans that no launch fits, until one is made for all */
    MOST_ROUNDS = 6, /* captures that only found where addresses lead: four levels, and changes */
};
static const uint64_t second_ns = 1000000000;

enum stage { IDLE, FILLING, COPYING, NOTED };

/* Made under watch.c's start_mutex, released by who holds `stage` or finds it IDLE. */
static struct {
    _Atomic(unsigned char *) memory; /* NULL: not made, or not to be had; set last */
    uint64_t size;
    CUcontext context;         /* that it was registered in */
    atomic_bool tried, orphan; /* orphan: its context died while a capture was under way */
} ring;

/* FILLING: belongs to the launching thread; COPYING and NOTED: to the watcher. */
static atomic_int stage;
static atomic_bool lost; /* its context died while copying */
static struct {
    struct kernel *kernel;
    CUcontext context;
    struct sample *done; /* its end event: all copies are there */
    struct kg_launch launch;
    uint64_t limits[3];
    bool again;  /* a further capture: whatever comes of it, the kernel stays what it is */
    bool failed; /* the launch, or copying */
    struct gathered got;
} job;

/* ---- the pinned memory --------------------------------------------------------------------------
 */

/* Memory that this process may have: the machine's, its control group's (version 2 or 1), or what
 * its limit on addresses leaves. */
static uint64_t memory_limit(void)
{
    static const char *const files[] = {"/sys/fs/cgroup/memory.max",
                                        "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    uint64_t limit = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < 2; i++) {
        char text[32] = "", *end;
        FILE *file = fopen(files[i], "re");
        if (file && fgets(text, sizeof text, file)) {
            unsigned long long group = strtoull(text, &end, 10);
            if (end != text && group < limit) /* "max" is no number */
                limit = group;
        }
        if (file)
            fclose(file);
    }
    struct rlimit space;
    if (!getrlimit(RLIMIT_AS, &space) && space.rlim_cur < limit)
        limit = space.rlim_cur;
    return limit;
}

void capture_ring_create(void)
{
    CUcontext context = NULL;
    if (ring.tried || app_mode() != KG_MODE_TUNE || real.cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        return;
    ring.tried = true;
    uint64_t size = (uint64_t)options()->capture_mib << 20, most = memory_limit() / 16;
    if (size > most)
        size = most >> 20 << 20;
    CUresult (*pin)(void *, size_t, unsigned) =
        real.cuMemHostRegister_v2 ? real.cuMemHostRegister_v2 : real.cuMemHostRegister;
    if (!size || !pin)
        return;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return;
    (void)madvise(memory, size, MADV_HUGEPAGE); /* far fewer pages to pin */
    (void)madvise(memory, size, MADV_DONTFORK); /* a fork must not copy pinned pages */
    (void)madvise(memory, size, MADV_DONTDUMP); /* the app's data, and large */
    if (!real_ok(pin(memory, size, CU_MEMHOSTREGISTER_PORTABLE), "pinned memory for captures")) {
        munmap(memory, size);
        return;
    }
    ring.size = size;
    ring.context = context;
    ring.memory = memory;
}

/* The next context gets another ring. */
static void ring_release(void)
{
    if (!ring.memory)
        return;
    munmap(ring.memory, ring.size);
    ring.memory = NULL;
    ring.tried = false;
}

/* ---- on the launch path -------------------------------------------------------------------------
 */

static bool copies_enqueue(CUstream stream, bool after)
{
    bool good = true;
    for (uint32_t i = 0; i < job.got.region_count && good; i++) {
        const struct capture_region *r = &job.got.regions[i];
        if (after && !job.got.written[i])
            continue;
        uint64_t at = after ? job.got.after_at[i] : job.got.data_at[i];
        good = real_ok(real.cuMemcpyDtoHAsync_v2(ring.memory + at, r->address, r->size, stream),
                       "copying a launch's memory");
    }
    return good;
}

static void limits_read(void)
{
    static const CUlimit which[] = {CU_LIMIT_STACK_SIZE, CU_LIMIT_PRINTF_FIFO_SIZE,
                                    CU_LIMIT_MALLOC_HEAP_SIZE};
    for (int i = 0; i < 3; i++) {
        size_t value = 0;
        if (real.cuCtxGetLimit(&value, which[i]) != CUDA_SUCCESS)
            value = 0;
        job.limits[i] = value;
    }
}

/* A kernel that has variants keeps them, and is asked for nothing more. */
static void kernel_unfit(struct kernel *kernel, const char *why)
{
    snprintf(kernel->why_text, sizeof kernel->why_text, "%s", why);
    if (atomic_load_explicit(&kernel->swap, memory_order_acquire)) {
        atomic_store_explicit(&kernel->wish.over, true, memory_order_release);
        atomic_store_explicit(&kernel->state, KERNEL_SWAPPED, memory_order_release);
        return;
    }
    kernel->why = kernel->why_text;
    atomic_store_explicit(&kernel->state, KERNEL_UNFIT, memory_order_release);
}

/* The job is over, or goes over to the watcher. */
static void stage_set(enum stage next)
{
    if (next == IDLE)
        atomic_store_explicit(&job.kernel->held, false, memory_order_release);
    atomic_store_explicit(&stage, next, memory_order_release);
}

/* Wanted still, or again: what is wrong is not the kernel's. */
static bool give_up(struct kernel *kernel)
{
    int capturing = KERNEL_CAPTURING;
    (void)atomic_compare_exchange_strong(&kernel->state, &capturing, KERNEL_WANTED);
    stage_set(IDLE);
    return false;
}

/* The launch is like none that there is a plan for. The watcher makes one, of the arguments. */
static bool note(struct kernel *kernel, const struct launch *launch)
{
    struct plan *plan = kernel->plan;
    if (job.again || (plan && !plan->taken && ++plan->missed < MOST_MISSED))
        return give_up(kernel);
    job.launch = launch->shape;
    atomic_store_explicit(&kernel->state, KERNEL_WANTED, memory_order_release);
    stage_set(NOTED);
    return false;
}

static void refuse(struct kernel *kernel, const char *why)
{
    if (!job.again)
        kernel_unfit(kernel, why);
    else if (kernel->plan)
        kernel->plan->due_ns = 0;
}

/* The job is this thread's. */
static bool begin(struct kernel *kernel, const struct launch *launch)
{
    struct gathered *got = &job.got;
    if (real.cuCtxGetCurrent(&job.context) != CUDA_SUCCESS || !context_alike(job.context))
        return give_up(kernel);
    if (!gather_arguments(got, kernel, launch)) {
        refuse(kernel, got->why);
        stage_set(IDLE);
        return false;
    }
    if (!kernel->plan ||
        !plan_fits(kernel->plan, &launch->shape, got->arguments, got->argument_size))
        return note(kernel, launch);
    if (ring.orphan || !(job.done = sample_take()))
        return give_up(kernel);
    job.launch = launch->shape;
    job.failed = false;
    limits_read();
    const char *why = ring.memory ? NULL : "no pinned memory for captures";
    if (!why && !gather_regions(got, kernel, kernel->plan, ring.size))
        why = got->why;
    if (why) {
        refuse(kernel, why);
        sample_free(job.done);
        stage_set(IDLE);
        return false;
    }
    atomic_store_explicit(&lost, false, memory_order_relaxed);
    job.failed = !copies_enqueue(launch->explicit_stream, false);
    return true;
}

/* A replay knows of no attributes: those that are kept make no difference to it. */
static bool replayable(struct kernel *kernel, const struct launch *launch)
{
    enum refusal why = launch->attributes ? attributes_refused(launch) : REFUSAL_COUNT;
    if (why == REFUSAL_COUNT)
        return true;
    if (!atomic_load_explicit(&kernel->swap, memory_order_relaxed)) /* else dispatch counted it */
        atomic_fetch_add_explicit(&kernel->refused[why], 1, memory_order_relaxed);
    return false;
}

bool capture_begin(struct kernel *kernel, const struct launch *launch, bool covered)
{
    int idle = IDLE, wanted = KERNEL_WANTED;
    if (!replayable(kernel, launch) || !atomic_compare_exchange_strong(&stage, &idle, FILLING))
        return false;
    bool first =
        !covered && atomic_compare_exchange_strong(&kernel->state, &wanted, KERNEL_CAPTURING);
    job.again = !first && atomic_exchange(&kernel->again, false);
    if (!first && !job.again) {
        atomic_store_explicit(&stage, IDLE, memory_order_release);
        return false;
    }
    job.kernel = kernel;
    atomic_store_explicit(&kernel->held, true, memory_order_release);
    CUstreamCaptureMode mode = capture_mode_relax();
    bool begun = begin(kernel, launch);
    capture_mode_restore(mode);
    return begun;
}

void capture_end(const struct launch *launch, CUresult result)
{
    CUstreamCaptureMode mode = capture_mode_relax();
    job.failed |= result != CUDA_SUCCESS;
    if (!job.failed)
        job.failed = !copies_enqueue(launch->explicit_stream, true);
    /* recorded also after a failure: what was enqueued must be over before the ring is used again
     */
    job.failed |=
        !real_ok(real.cuEventRecord(job.done->end, launch->explicit_stream), "event of a capture");
    stage_set(COPYING);
    capture_mode_restore(mode);
}

/* ---- in the watcher ----------------------------------------------------------------------------
 */

void capture_context_dying(CUcontext context)
{
    int now = atomic_load_explicit(&stage, memory_order_acquire);
    if (now == COPYING && (!context || context == job.context))
        atomic_store_explicit(&lost, true, memory_order_release);
    if (!ring.memory || (context && context != ring.context))
        return;
    if (real.cuMemHostUnregister)
        (void)real.cuMemHostUnregister(ring.memory);
    int idle = IDLE; /* a launch of another context may begin a capture at this moment */
    if (atomic_compare_exchange_strong(&stage, &idle, FILLING)) {
        ring_release();
        atomic_store_explicit(&stage, IDLE, memory_order_release);
    } else {
        ring.orphan = true;
    }
}

static void describe(struct kg_capture *c, struct kg_param params[static PARAMETERS])
{
    const struct kernel *kernel = job.kernel;
    struct kg_id key;
    *c = (struct kg_capture){.pid = (int)getpid(),
                             .time = (uint64_t)time(NULL),
                             .kernel = kernel->model.id,
                             .launch = job.launch,
                             .max_dynamic_shared = kernel->max_dynamic_shared,
                             .carveout = kernel->carveout,
                             .stack_limit = job.limits[0],
                             .printf_limit = job.limits[1],
                             .heap_limit = job.limits[2],
                             .app_ns = kernel->before_ns,
                             .app_share = hot_share(kernel),
                             .param_count = kernel->param_count,
                             .params = params,
                             .args = {job.got.arguments, job.got.argument_size},
                             .pointer_count = job.got.pointer_count,
                             .pointers = job.got.pointers,
                             .region_count = job.got.region_count,
                             .regions = job.got.regions,
                             .image = kernel->module->image.data,
                             .image_size = kernel->module->image.size};
    (void)app_hardware(&c->hardware, &key);
    app_program(c->program);
    snprintf(c->entry, sizeof c->entry, "%s", kernel->name);
    memcpy(c->jit_options, kernel->module->jit_options, sizeof c->jit_options);
    memcpy(params, kernel->params, kernel->param_count * sizeof *params);
    for (uint32_t i = 0; i < job.got.region_count; i++) {
        job.got.regions[i].data = ring.memory + job.got.data_at[i];
        job.got.regions[i].after = job.got.written[i] ? ring.memory + job.got.after_at[i] : NULL;
    }
}

/* NULL, or what is to be said of the kernel. A record that is held is not recycled, so image and
 * model stay while the file is written without the lock. */
static const char *save(const struct kg_capture *capture)
{
    char path[KG_PATH];
    if (spool_room(job.got.total + capture->image_size) != KG_OK)
        return "the spool has no room for its capture";
    if (spool_path(&capture->kernel, path) != KG_OK || capture_write(capture, path) != KG_OK)
        return "its capture could not be written";
    log_line(KG_INFO, "%s: captured, %llu KiB: %s", capture->entry,
             (unsigned long long)(job.got.total >> 10), path);
    spawn_wanted();
    return NULL;
}

/* Locked. The result of the query for the end of the copies, in the job's context. */
static CUresult copies_state(void)
{
    if (atomic_load_explicit(&lost, memory_order_acquire))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    CUresult result = real.cuCtxSetCurrent(job.context);
    return result == CUDA_SUCCESS ? real.cuEventQuery(job.done->end) : result;
}

/* In the job's context, which must not die in between. */
static struct extent ask(uint64_t address)
{
    CUdevice own;
    struct extent e = {.why = "its context ended"};
    records_lock();
    if (!atomic_load_explicit(&lost, memory_order_acquire) &&
        real.cuCtxSetCurrent(job.context) == CUDA_SUCCESS &&
        real.cuCtxGetDevice(&own) == CUDA_SUCCESS)
        e = extent_find(address, address, UINT64_MAX, own);
    records_unlock();
    return e;
}

enum outcome { SAVED, ONCE_MORE, REFUSED };

/* Whether the plan holds for this launch, too: it was made for another one, and reach may depend on
 * where pointers lead. If not, the next launch is captured by a plan for this one. */
static bool plan_holds(struct kernel *kernel)
{
    struct plan *plan = kernel->plan;
    const struct gathered *got = &job.got;
    if (plan->any || (got->argument_size == plan->arg_count &&
                      !memcmp(got->arguments, plan->args, plan->arg_count)))
        return true;
    struct plan *exact = plan_make(&kernel->model, &kernel->module->code.ptx, &job.launch,
                                   got->arguments, got->argument_size);
    if (!exact || plan_contains(plan, exact)) {
        plan_free(exact);
        return exact != NULL;
    }
    exact->taken = plan->taken;
    exact->rounds = plan->rounds + 1;
    kernel->plan = exact;
    plan_free(plan);
    return false;
}

/* The copies are there. *why: of REFUSED. */
static enum outcome finish(struct kernel *kernel, const char **why)
{
    struct kg_capture capture;
    struct kg_param params[PARAMETERS];
    struct nested nested = {.place_count = 0};
    *why = "its launches differ too much from one another to be captured";
    if (!plan_holds(kernel))
        return kernel->plan->rounds > MOST_ROUNDS ? REFUSED : ONCE_MORE;
    struct plan *plan = kernel->plan;
    bool good = !plan->nested || nested_find(&job.got, ring.memory, ask, &nested);
    if (!good)
        *why = nested.why;
    enum outcome outcome = good ? SAVED : REFUSED;
    if (good && nested.led_count) { /* what they lead to was not captured */
        *why = "addresses in its memory lead deeper than four levels, or to other places at each "
               "launch";
        good = nested_keep(plan, &nested);
        outcome = good && ++plan->rounds <= MOST_ROUNDS ? ONCE_MORE : REFUSED;
    }
    if (outcome == SAVED) {
        records_lock();
        describe(&capture, params);
        records_unlock();
        capture.place_count = nested.place_count;
        capture.places = nested.places;
        *why = save(&capture);
        outcome = *why ? REFUSED : SAVED;
    }
    nested_free(&nested);
    return outcome;
}

/* At a random time, the later the more there are already: nobody knows how long the run will be. */
static void schedule(struct plan *plan)
{
    uint64_t random = 0, most = 2 * second_ns;
    plan->rounds = 0;
    plan->due_ns = 0;
    if (++plan->taken >= (unsigned)options()->captures)
        return;
    for (unsigned i = 1; i < plan->taken && i < 8; i++)
        most *= 4;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random)
        random = now_ns();
    plan->due_ns = now_ns() + most / 2 + random % most;
}

/* Locked. */
static void settle(struct kernel *kernel, enum outcome outcome, const char *why)
{
    bool first = !job.again;
    if (outcome == SAVED)
        schedule(kernel->plan);
    if (outcome == SAVED)
        ahead_forget(&kernel->model.id);
    if (outcome == SAVED && first)
        wish_taken(kernel, &job.launch, job.got.arguments);
    if (outcome == REFUSED && !first)
        kernel->plan->due_ns = 0;
    if (outcome == REFUSED && first)
        kernel_unfit(kernel, why);
    else if (first)
        atomic_store_explicit(&kernel->state, outcome == SAVED ? KERNEL_CAPTURED : KERNEL_WANTED,
                              memory_order_release);
    if (outcome == ONCE_MORE && !first)
        atomic_store_explicit(&kernel->again, true, memory_order_relaxed);
    if (outcome == ONCE_MORE)
        atomic_store_explicit(&kernel->slow_at, 0, memory_order_relaxed);
}

static void ring_settle(void)
{
    records_lock();
    if (ring.orphan)
        ring_release();
    ring.orphan = false;
    stage_set(IDLE);
    records_unlock();
}

static void copies_tick(void)
{
    struct kernel *kernel = job.kernel;
    records_lock();
    CUresult result = copies_state();
    /* somebody may have found it unfit meanwhile */
    bool wanted =
        job.again || atomic_load_explicit(&kernel->state, memory_order_relaxed) == KERNEL_CAPTURING;
    if (result != CUDA_ERROR_NOT_READY && result != CUDA_ERROR_CONTEXT_IS_DESTROYED)
        sample_free(job.done); /* else the event went with its context */
    records_unlock();
    if (result == CUDA_ERROR_NOT_READY)
        return;
    const char *why = "copying its memory failed";
    enum outcome outcome = REFUSED;
    if (wanted && result == CUDA_SUCCESS && !job.failed)
        outcome = finish(kernel, &why);
    records_lock();
    if (wanted)
        settle(kernel, outcome, why);
    records_unlock();
    ring_settle();
}

static void note_tick(void)
{
    struct kernel *kernel = job.kernel;
    struct plan *old = kernel->plan, *plan;
    unsigned remade = old && !old->taken ? old->remade + 1 : 0;
    if (remade >= MOST_PLANS)
        plan = plan_make_any(&kernel->model, "no two of its launches are alike");
    else
        plan = plan_make(&kernel->model, &kernel->module->code.ptx, &job.launch, job.got.arguments,
                         job.got.argument_size);
    if (plan) {
        plan->remade = remade;
        plan_free(old);
        kernel->plan = plan;
    }
    ring_settle();
    atomic_store_explicit(&kernel->slow_at, 0, memory_order_relaxed);
}

/* A context ended while a launch thought about a capture, and nothing came of it. */
static void orphan_tick(void)
{
    int idle = IDLE;
    if (!ring.orphan || !atomic_compare_exchange_strong(&stage, &idle, FILLING))
        return;
    records_lock();
    ring_release();
    ring.orphan = false;
    atomic_store_explicit(&stage, IDLE, memory_order_release);
    records_unlock();
}

/* Further captures whose time has come. */
static void again_tick(void)
{
    uint64_t now = now_ns();
    records_lock();
    for (struct kernel *k = kernels_first(); k; k = k->next) {
        if (k->retired_ns || !k->plan || !k->plan->due_ns || now < k->plan->due_ns ||
            atomic_load_explicit(&k->state, memory_order_relaxed) == KERNEL_UNFIT)
            continue;
        k->plan->due_ns = now + second_ns; /* asked for again, if it comes to nothing */
        atomic_store_explicit(&k->again, true, memory_order_relaxed);
        atomic_store_explicit(&k->slow_at, 0, memory_order_relaxed);
    }
    records_unlock();
}

void capture_tick(void)
{
    int now = atomic_load_explicit(&stage, memory_order_acquire);
    if (now == COPYING)
        copies_tick();
    else if (now == NOTED)
        note_tick();
    orphan_tick();
    again_tick();
}
