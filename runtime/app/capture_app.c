/* One launch of a hot kernel into the spool: its arguments, and the bytes that they reach, are
 * copied on the app's own stream into pinned memory, before the original runs; the watcher writes
 * the file. One capture at a time. It must never delay a launch by more than enqueuing copies, nor
 * touch a stream that is being captured into a graph; whatever fails, the original just runs.
 *
 * The pinned memory is an ordinary mapping that is registered with the driver: it outlives the
 * context, so the watcher can never read memory that is gone. */
#include "app/inside.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "capture.h"

enum { REGIONS = 64, POINTERS = 128, ARGUMENTS = 32768, PARAMETERS = 64, ALIGN = 256 };
enum stage { IDLE, FILLING, COPYING };

/* Made under watch.c's start_mutex, released by who holds `stage` or finds it IDLE. */
static struct {
    _Atomic(unsigned char *) memory; /* NULL: not made, or not to be had; set last */
    uint64_t size;
    CUcontext context;         /* that it was registered in */
    atomic_bool tried, orphan; /* orphan: its context died while a capture was under way */
} ring;

/* FILLING: belongs to the launching thread; COPYING: to the watcher. */
static atomic_int stage;
static atomic_bool lost; /* its context died while copying */
static struct {
    struct kernel *kernel;
    CUcontext context;
    struct sample *done; /* its end event: all copies are there */
    struct kg_launch launch;
    uint64_t limits[3];
    unsigned char arguments[ARGUMENTS];
    uint64_t argument_size;
    struct capture_pointer pointers[POINTERS];
    uint32_t pointer_count;
    struct capture_region regions[REGIONS];
    uint64_t region_at[REGIONS]; /* in the ring */
    uint32_t region_count;
    uint64_t total; /* bytes of the ring in use */
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

/* ---- what a launch reaches ----------------------------------------------------------------------
 */

static bool arguments_copy(const struct kernel *kernel, const struct launch *launch)
{
    job.argument_size = 0;
    if (kernel->param_count > PARAMETERS)
        return false;
    memset(job.arguments, 0, sizeof job.arguments);
    for (uint32_t i = 0; i < kernel->param_count; i++) {
        const struct kg_param *p = &kernel->params[i];
        const void *value = launch_argument(kernel, launch, i);
        if (!value || p->offset > ARGUMENTS || p->size > ARGUMENTS - p->offset)
            return false;
        memcpy(job.arguments + p->offset, value, p->size);
        if (p->offset + p->size > job.argument_size)
            job.argument_size = p->offset + p->size;
    }
    return true;
}

/* Adds [address, end of its allocation), or widens the region of that allocation. */
static uint32_t region_add(enum capture_region_kind kind, uint64_t address, uint64_t base,
                           uint64_t size)
{
    uint32_t i = 0;
    while (i < job.region_count &&
           (job.regions[i].kind != kind || job.regions[i].allocation != base))
        i++;
    if (i == REGIONS)
        return i;
    struct capture_region *r = &job.regions[i];
    if (i == job.region_count) {
        *r = (struct capture_region){
            .kind = kind, .address = address, .allocation = base, .allocation_size = size};
        job.region_count++;
    }
    if (address < r->address)
        r->address = address;
    r->size = base + size - r->address;
    return i;
}

/* NULL, or why the kernel cannot be captured. */
static const char *pointer_add(const struct kernel_pointer *pointer, uint64_t value, CUdevice own)
{
    unsigned type = 0, managed = 0;
    CUdevice device = own;
    CUdeviceptr base = 0;
    size_t size = 0;
    if (real.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, value) != CUDA_SUCCESS)
        return NULL; /* in no allocation: a scalar */
    if (real.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, value) !=
        CUDA_SUCCESS)
        managed = 0;
    if (type != CU_MEMORYTYPE_DEVICE || managed)
        return "it is given host-visible memory";
    if (real.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, value) ==
            CUDA_SUCCESS &&
        device != own)
        return "it is given another device's memory";
    if (real.cuMemGetAddressRange_v2(&base, &size, value) != CUDA_SUCCESS || value < base ||
        value - base >= size)
        return NULL;
    uint32_t region = region_add(CAPTURE_POINTER, value, base, size);
    if (region == REGIONS || job.pointer_count == POINTERS)
        return "it reaches too many allocations";
    job.pointers[job.pointer_count++] = (struct capture_pointer){
        .param = pointer->param, .offset = pointer->offset, .region = region};
    return NULL;
}

/* A variable that the host cannot name is not captured: no host call can have changed it either,
 * and a kernel that writes it is the replay's to find out. */
static const char *global_add(const struct kernel *kernel, const struct kernel_global *global)
{
    const struct module *module = kernel->module;
    CUdeviceptr address = 0;
    size_t size = 0;
    CUresult result =
        module->library ? real.cuLibraryGetGlobal(&address, &size, module->handle, global->name)
                        : real.cuModuleGetGlobal_v2(&address, &size, module->handle, global->name);
    if (result != CUDA_SUCCESS || !size)
        return NULL;
    uint32_t region = region_add(CAPTURE_GLOBAL, address, address, size);
    size_t length = strlen(global->name);
    if (region == REGIONS || length >= sizeof job.regions[region].name)
        return "it uses too many module variables, or one with a very long name";
    memcpy(job.regions[region].name, global->name, length + 1);
    return NULL;
}

/* Places of the regions in the ring; NULL, or why they do not fit. */
static const char *regions_place(void)
{
    static char too_large[64]; /* one text a process: the limit does not change */
    job.total = 0;
    for (uint32_t i = 0; i < job.region_count; i++) {
        job.region_at[i] = job.total;
        if (job.regions[i].size > ring.size)
            job.total = UINT64_MAX;
        else if (job.total <= ring.size)
            job.total += (job.regions[i].size + ALIGN - 1) / ALIGN * ALIGN;
    }
    if (job.total <= ring.size)
        return NULL;
    if (!*too_large)
        snprintf(too_large, sizeof too_large, "a capture of it needs more than %llu MiB",
                 (unsigned long long)(ring.size >> 20));
    return too_large;
}

static const char *gather(const struct kernel *kernel, const struct launch *launch)
{
    const struct kernel_model *model = &kernel->model;
    const char *why = NULL;
    CUdevice own = 0;
    job.pointer_count = job.region_count = 0;
    if (!arguments_copy(kernel, launch))
        return "its arguments could not be read";
    if (real.cuCtxGetDevice(&own) != CUDA_SUCCESS)
        return "the device of its context is not known";
    for (uint32_t i = 0; i < model->pointer_count && !why; i++) {
        const struct kernel_pointer *p = &model->pointers[i];
        uint64_t at = (uint64_t)kernel->params[p->param].offset + p->offset, value;
        memcpy(&value, job.arguments + at, sizeof value);
        why = pointer_add(p, value, own);
    }
    for (uint32_t i = 0; i < model->global_count && !why; i++)
        why = global_add(kernel, &model->globals[i]);
    return why ? why : regions_place();
}

/* ---- on the launch path -------------------------------------------------------------------------
 */

static bool copies_enqueue(CUstream stream)
{
    bool good = true;
    for (uint32_t i = 0; i < job.region_count && good; i++)
        good =
            real_ok(real.cuMemcpyDtoHAsync_v2(ring.memory + job.region_at[i],
                                              job.regions[i].address, job.regions[i].size, stream),
                    "copying a launch's memory");
    /* recorded also after a failure: what was enqueued must be over before the ring is used again
     */
    return real_ok(real.cuEventRecord(job.done->end, stream), "event of a capture") && good;
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

static void kernel_unfit(struct kernel *kernel, const char *why)
{
    kernel->why = why;
    atomic_store_explicit(&kernel->state, KERNEL_UNFIT, memory_order_release);
}

/* The job is this thread's, the kernel's state is CAPTURING. */
static bool begin(struct kernel *kernel, const struct launch *launch)
{
    if (real.cuCtxGetCurrent(&job.context) != CUDA_SUCCESS || !(job.done = sample_take())) {
        atomic_store_explicit(&kernel->state, KERNEL_WANTED, memory_order_release);
        atomic_store_explicit(&stage, IDLE, memory_order_release);
        return false;
    }
    job.kernel = kernel;
    job.launch = launch->shape;
    limits_read();
    const char *why =
        ring.memory && !ring.orphan ? gather(kernel, launch) : "no pinned memory for captures";
    if (!why && !copies_enqueue(launch->explicit_stream))
        why = "the driver refused to copy its memory";
    if (why)
        kernel_unfit(kernel, why);
    atomic_store_explicit(&lost, false, memory_order_relaxed);
    atomic_store_explicit(&stage, COPYING, memory_order_release);
    return !why;
}

bool capture_begin(struct kernel *kernel, const struct launch *launch)
{
    int idle = IDLE, wanted = KERNEL_WANTED;
    if (launch->attributes || !atomic_compare_exchange_strong(&stage, &idle, FILLING))
        return false;
    if (!atomic_compare_exchange_strong(&kernel->state, &wanted, KERNEL_CAPTURING)) {
        atomic_store_explicit(&stage, IDLE, memory_order_release);
        return false;
    }
    CUstreamCaptureMode mode = capture_mode_relax();
    bool begun = begin(kernel, launch);
    capture_mode_restore(mode);
    return begun;
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
                             .args = {job.arguments, job.argument_size},
                             .pointer_count = job.pointer_count,
                             .pointers = job.pointers,
                             .region_count = job.region_count,
                             .regions = job.regions,
                             .image = kernel->module->image.data,
                             .image_size = kernel->module->image.size};
    (void)app_hardware(&c->hardware, &key);
    app_program(c->program);
    snprintf(c->entry, sizeof c->entry, "%s", kernel->name);
    memcpy(c->jit_options, kernel->module->jit_options, sizeof c->jit_options);
    memcpy(params, kernel->params, kernel->param_count * sizeof *params);
    for (uint32_t i = 0; i < job.region_count; i++)
        job.regions[i].data = ring.memory + job.region_at[i];
}

/* NULL, or what is to be said of the kernel. A record that is CAPTURING is not recycled, so image
 * and model stay while the file is written without the lock. */
static const char *save(const struct kg_capture *capture)
{
    char path[KG_PATH];
    if (spool_room(job.total + capture->image_size) != KG_OK)
        return "the spool has no room for its capture";
    if (spool_path(&capture->kernel, path) != KG_OK || capture_write(capture, path) != KG_OK)
        return "its capture could not be written";
    log_line(KG_INFO, "%s: captured, %llu MiB: %s", capture->entry,
             (unsigned long long)(job.total >> 20), path);
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

void capture_tick(void)
{
    if (atomic_load_explicit(&stage, memory_order_acquire) != COPYING)
        return;
    struct kg_capture capture;
    struct kg_param params[PARAMETERS];
    records_lock();
    CUresult result = copies_state();
    struct kernel *kernel = job.kernel;
    bool wanted = atomic_load_explicit(&kernel->state, memory_order_relaxed) == KERNEL_CAPTURING;
    if (result != CUDA_ERROR_NOT_READY && result != CUDA_ERROR_CONTEXT_IS_DESTROYED)
        sample_free(job.done); /* else the event went with its context */
    if (result == CUDA_SUCCESS && wanted)
        describe(&capture, params);
    records_unlock();
    if (result == CUDA_ERROR_NOT_READY)
        return;
    const char *why = "copying its memory failed";
    if (wanted && result == CUDA_SUCCESS)
        why = save(&capture);
    if (wanted && why)
        kernel_unfit(kernel, why);
    else if (wanted)
        atomic_store_explicit(&kernel->state, KERNEL_CAPTURED, memory_order_release);
    records_lock();
    if (ring.orphan)
        ring_release();
    ring.orphan = false;
    atomic_store_explicit(&stage, IDLE, memory_order_release);
    records_unlock();
}
