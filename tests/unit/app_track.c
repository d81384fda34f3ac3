/* What becomes of a variant after its swap, against a driver whose device memory is host memory and
 * whose kernels are C functions that run at once: which launches are checked, who writes the app's
 * memory, what is left alone and counted, what checks may cost, and that threads and the watcher
 * may do all this at once (for the thread sanitizer). */
#include "app_fixture.h"

#include "app/shadow.h"

#include <pthread.h>

enum { N = 1024, BYTES = 4 * N };

/* b[i] = 2 * a[i], in units of int; wrong: the variant's last element is off. */
static _Atomic int wrong;
static _Atomic unsigned variants_run, compares, allocations;
static uint64_t app_low, app_high; /* the app's memory */
static _Atomic unsigned variant_in_app;
static CUresult copy_result = CUDA_SUCCESS;

static const char ptx[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n, .param .f32 x)\n{\n"
    ".reg .b32 %r<4>; .reg .b64 %d<8>;\n"
    "ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; mov.u32 %r1, %tid.x;\n"
    "cvta.to.global.u64 %d1, %d1; cvta.to.global.u64 %d2, %d2; mul.wide.u32 %d3, %r1, 4;\n"
    "add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3; ld.global.u32 %r2, [%d4];\n"
    "add.u32 %r2, %r2, %r2; st.global.u32 [%d5], %r2;\nret;\n}\n"
    ".visible .entry nested(.param .u64 a, .param .u64 b, .param .u32 n, .param .f32 x)\n{\n"
    ".reg .b32 %r<4>; .reg .b64 %d<8>;\n"
    "ld.param.u64 %d1, [a]; cvta.to.global.u64 %d1, %d1; ld.global.u64 %d2, [%d1];\n"
    "mov.u32 %r1, 1; st.global.u32 [%d2], %r1;\nret;\n}\n";

/* ---- the driver --------------------------------------------------------------------------------
 */

#define VARIANT ((CUfunction)(void *)0xfa57)
#define COMPARE ((CUfunction)(void *)0xc09a)

static void twice(uint64_t a, uint64_t b, bool off)
{
    for (int i = 0; i < N; i++)
        ((volatile int *)b)[i] = 2 * ((volatile int *)a)[i] + (off && i == N - 1);
}

static CUresult original_run(const struct launch *launch)
{
    fx_originals++;
    twice(*(uint64_t *)launch->params[0], *(uint64_t *)launch->params[1], false);
    return CUDA_SUCCESS;
}

static void compare_bytes(void **params)
{
    const unsigned char *a = *(unsigned char **)params[0], *b = *(unsigned char **)params[1];
    struct shadow_outcome *out = *(struct shadow_outcome **)params[3];
    compares++;
    for (uint64_t i = *(uint64_t *)params[2]; i--;)
        if (a[i] != b[i]) {
            out->differences++;
            out->first = ~((uint64_t) * (unsigned *)params[4] << 48 | i);
        }
}

static CUresult run(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                    unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
{
    if (f == COMPARE) {
        compare_bytes(params);
        return CUDA_SUCCESS;
    }
    uint64_t b = *(uint64_t *)params[1];
    variants_run++;
    variant_in_app += b >= app_low && b < app_high;
    twice(*(uint64_t *)params[0], b, wrong);
    return CUDA_SUCCESS;
}

static CUresult allocate(CUdeviceptr *out, size_t size)
{
    allocations++;
    *out = (CUdeviceptr)aligned_alloc(512, size);
    return CUDA_SUCCESS;
}

static CUresult release(CUdeviceptr p)
{
    free((void *)p);
    return CUDA_SUCCESS;
}

static CUresult info(size_t *left, size_t *total)
{
    *left = *total = (size_t)8 << 30;
    return CUDA_SUCCESS;
}

static CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
    if (copy_result == CUDA_SUCCESS)
        memcpy((void *)to, (void *)from, size);
    return copy_result;
}

static CUresult set(CUdeviceptr at, unsigned value, size_t count, CUstream stream)
{
    memset((void *)at, (int)value, 4 * count);
    return CUDA_SUCCESS;
}

static CUresult get_kernel(CUkernel *out, CUlibrary library, const char *name)
{
    *out = (CUkernel)(void *)COMPARE;
    return CUDA_SUCCESS;
}

static CUresult unpin(void *memory)
{
    return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream stream)
{
    return CUDA_SUCCESS;
}

static void driver(void)
{
    real.cuMemAlloc_v2 = allocate;
    real.cuMemFree_v2 = release;
    real.cuMemGetInfo_v2 = info;
    real.cuMemcpyDtoDAsync_v2 = copy;
    real.cuMemsetD32Async = set;
    real.cuMemHostUnregister = unpin;
    real.cuLibraryGetKernel = get_kernel;
    real.cuLaunchKernel = run;
    real.cuEventRecord = record;
}

/* ---- a kernel with a variant: one record all the time, another variant each time --------------
 */

static int *memory; /* a, then b, for each thread */
enum { THREADS = 4 };
static struct kg_pointer pointers[] = {{0, 0, 4, KG_READ, 0, BYTES},
                                       {1, 0, 4, KG_WRITTEN, 0, BYTES}};

static struct kernel *swapped(const char *entry, uintptr_t handle, uint64_t launches)
{
    struct kernel *kernel = fixture_kernel(entry, handle);
    struct kg_variant v = {.kernel = kernel->model.id, .accuracy = "bitwise", .ratio = 2};
    v.signature = (struct kg_signature){
        .launch = fixture_launch().shape, .pointer_count = 2, .pointers = pointers};
    v.id.bytes[0] = (uint8_t)(handle >> 8);
    records_lock();
    CUstreamCaptureMode mode = capture_mode_relax(); /* as at a safe point */
    kernel->model.global_count = 0;
    kernel->module->code.ptx = (struct kg_bytes){(unsigned char *)(uintptr_t)ptx, sizeof ptx - 1};
    atomic_store(&kernel->launches, launches);
    struct swap_entry entry_of = {.function = VARIANT,
                                  .launch = v.signature.launch,
                                  .signature = v.signature,
                                  .variant = v.id,
                                  .ratio = 2,
                                  .track = track_of(kernel, &v, false)};
    CHECK(track_of(kernel, &v, false) == entry_of.track);
    atomic_store(&kernel->swap, table_make(kernel, &entry_of, 1));
    atomic_store(&kernel->state, KERNEL_SWAPPED);
    atomic_store(&kernel->slow_at, 0);
    capture_mode_restore(mode);
    records_unlock();
    return kernel;
}

static struct track *track(struct kernel *kernel)
{
    return kernel->tracks;
}

static void tick_once(void)
{
    records_lock();
    hot_tick();
    track_tick();
    records_unlock();
}

/* One launch on buffers of its own; whether its result is right. */
static bool launch_at(struct kernel *kernel, unsigned place)
{
    uint64_t a = (uint64_t)(memory + (size_t)place * 2 * N), b = a + BYTES;
    int n = 1000;
    float x = 1;
    void *params[] = {&a, &b, &n, &x};
    struct launch launch = fixture_launch();
    launch.params = params;
    launch.run = original_run;
    bool good = dispatch_launch(kernel, &launch) == CUDA_SUCCESS;
    for (int i = 0; i < N; i++)
        good &= ((volatile int *)b)[i] == 2 * ((volatile int *)a)[i];
    return good;
}

static uint64_t skipped(struct kernel *kernel, enum skip why)
{
    return atomic_load(&track(kernel)->skipped[why]);
}

/* ---- tests -------------------------------------------------------------------------------------
 */

/* The first three: the original in the app's memory, the variant in ours; then the variant. */
static void first_launches(void)
{
    struct kernel *kernel = swapped("k", 0x100, 0);
    CHECK(!track(kernel)->unchecked && !track_holds(atomic_load(&kernel->swap)->entries));
    unsigned originals = fx_originals, run_before = variants_run, made = allocations;
    for (int i = 0; i < 3; i++)
        CHECK(launch_at(kernel, 0));
    CHECK(fx_originals == originals + 3 && variants_run == run_before + 3 && !variant_in_app);
    CHECK(compares == 3 && allocations == made);
    tick_once();
    CHECK(track(kernel)->checked == 3 && !track(kernel)->differed);
    CHECK(launch_at(kernel, 0) && variant_in_app == 1);
    CHECK(atomic_load(&kernel->swapped) == 1 && atomic_load(&kernel->first_swapped) == 4);
}

/* It comes while the program runs: originals until the outcome is known. */
static void comes_later(void)
{
    struct kernel *kernel = swapped("k", 0x200, 100);
    unsigned before = variant_in_app;
    CHECK(track_holds(atomic_load(&kernel->swap)->entries));
    for (int i = 0; i < 50; i++)
        CHECK(launch_at(kernel, 0));
    CHECK(variant_in_app == before);
    tick_once(); /* reads the outcomes */
    tick_once();
    CHECK(!track_holds(atomic_load(&kernel->swap)->entries) && track(kernel)->checked == 3);
    CHECK(launch_at(kernel, 0) && variant_in_app == before + 1);
}

static void never_used_when_wrong(void)
{
    struct kernel *kernel = swapped("k", 0x300, 100);
    unsigned before = variant_in_app;
    wrong = 1;
    for (int i = 0; i < 20; i++)
        CHECK(launch_at(kernel, 0));
    tick_once();
    CHECK(track(kernel)->differed == 1 && track(kernel)->dropped && !atomic_load(&kernel->swap));
    CHECK(strstr(track(kernel)->said, "1 bytes, the first at byte 4092 of what pointer 1"));
    for (int i = 0; i < 20; i++)
        CHECK(launch_at(kernel, 0));
    CHECK(variant_in_app == before);
    struct kg_doubt doubt;
    CHECK(doubts_read(app_dir(), &doubt, 1) == 1 && doubt.differed);
    CHECK(id_equal(&doubt.variant, &track(kernel)->variant));
    CHECK(kernel_state_of(kernel) == KERNEL_WANTED); /* a capture of its next launch */
    doubt_remove(app_dir(), &doubt.variant);
    wrong = 0;
}

/* What cannot be checked soundly. */
static void left_alone(void)
{
    struct kernel *nested = swapped("nested", 0x400, 0);
    CHECK(track(nested)->unchecked && strstr(track(nested)->unchecked, "stand in memory"));
    struct kg_doubt look;
    tick_once();
    CHECK(!doubts_read(app_dir(), &look, 1)); /* no launch ran it yet */
    atomic_store(&nested->swapped, 1);
    tick_once();
    CHECK(doubts_read(app_dir(), &look, 1) == 1 && !look.differed);
    CHECK(atomic_load(&nested->look) && kernel_state_of(nested) == KERNEL_WANTED);
    atomic_store(&nested->state, KERNEL_SWAPPED); /* as when it was captured */
    tick_once();
    CHECK(!atomic_load(&nested->look));
    doubt_remove(app_dir(), &look.variant);
    looked_put(app_dir(), &look.variant);
    track(nested)->looked = false; /* another process */
    tick_once();
    CHECK(looked_holds(app_dir(), &look.variant) && !doubts_read(app_dir(), &look, 1));
    struct kernel *kernel = swapped("k", 0x500, 0);
    uint64_t checked = compares;
    fixture.capturing = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    CHECK(launch_at(kernel, 0));
    fixture.capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    CHECK(skipped(kernel, SKIP_GRAPH) == 1);
    fixture.sizes[0] = BYTES; /* what may be written leaves its allocation */
    CHECK(launch_at(kernel, 0) && skipped(kernel, SKIP_MEMORY) == 1);
    fixture.sizes[0] = (size_t)THREADS * 2 * BYTES;
    copy_result = CUDA_ERROR_INVALID_VALUE;
    CHECK(launch_at(kernel, 0) && skipped(kernel, SKIP_DRIVER) == 1);
    copy_result = CUDA_SUCCESS;
    CHECK(compares == checked);
    tick_once();
    for (int i = 0; i < 3; i++)
        CHECK(launch_at(kernel, 0));
    CHECK(compares == checked + 3); /* they are made up for */
    pointers[0].high += BYTES;      /* an input that overlaps what is written */
    struct kernel *overlapping = swapped("k", 0x600, 0);
    pointers[0].high -= BYTES;
    struct swap_entry *entry = (struct swap_entry *)atomic_load(&overlapping->swap)->entries;
    struct kg_overlap known = {0, 1, BYTES};
    entry->signature.overlaps = &known; /* as it was verified */
    entry->signature.overlap_count = 1;
    CHECK(launch_at(overlapping, 0) && skipped(overlapping, SKIP_OVERLAP) == 1);
    atomic_store(&overlapping->swap, NULL);
    CHECK(compares == checked + 3);
}

/* Memory that is not this device's own, met by a check: originals at once, and for good, but where
 * each process must do as the others do. */
static void foreign(void)
{
    uint64_t checked = compares;
    for (unsigned in_step = 0; in_step < 2; in_step++) {
        struct kernel *kernel = swapped("k", 0x2100 + 0x100 * in_step, 0);
        track(kernel)->in_step = in_step;
        fixture.types[0] = CU_MEMORYTYPE_HOST;
        CHECK(launch_at(kernel, 0) && skipped(kernel, SKIP_KIND) == 1);
        fixture.types[0] = 0;
        CHECK(track_holds(atomic_load(&kernel->swap)->entries) == !in_step);
        tick_once();
        CHECK(track(kernel)->dropped == !in_step && compares == checked);
        CHECK((atomic_load(&kernel->swap) == NULL) == !in_step);
        CHECK(in_step || strstr(track(kernel)->said, "is not used: it is given host-visible"));
        atomic_store(&kernel->swap, NULL);
    }
}

/* The bound on what may be tried, and the room. */
static void bounded(void)
{
    struct kernel *kernel = swapped("k", 0x700, 100);
    fixture.capturing = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    for (int i = 0; i < 40; i++)
        CHECK(launch_at(kernel, 0));
    fixture.capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    CHECK(skipped(kernel, SKIP_GRAPH) == 16);
    tick_once();
    CHECK(!track_holds(atomic_load(&kernel->swap)->entries));
    pointers[1].high = INT64_C(80) << 20;
    struct kernel *large = swapped("k", 0x800, 0);
    CHECK(track(large)->unchecked && strstr(track(large)->unchecked, "KGENRT_SHADOW_MIB"));
    atomic_store(&large->swap, NULL);
    pointers[1].high = BYTES;
}

/* A check that takes as long as 50 launches: later ones are 5,000 launches apart, on average. */
static void budget(void)
{
    struct kernel *kernel = swapped("k", 0x900, 0);
    fixture.kernel_ns = 1000;
    for (int i = 0; i < 400; i++) {
        CHECK(launch_at(kernel, 0));
        if (i % 8 == 0)
            tick_once();
    }
    fixture.kernel_ns = 50000; /* the next elapsed times are of checks */
    records_lock();
    kernel->after_ns = 1000;
    kernel->after_samples = 1;
    records_unlock();
    unsigned before = compares;
    atomic_store(&track(kernel)->check_at, 0);
    atomic_store(&kernel->slow_at, 0);
    CHECK(launch_at(kernel, 0) && compares == before + 1);
    records_lock();
    shadow_tick();
    records_unlock();
    CHECK(atomic_load(&track(kernel)->stride) == 5000);
    CHECK(atomic_load(&track(kernel)->check_at) >= 401 + 2500);
}

static struct kernel *shared_kernel;

static void *launcher(void *place)
{
    unsigned bad = 0;
    for (int i = 0; i < 3000; i++)
        bad += !launch_at(shared_kernel, (unsigned)(uintptr_t)place);
    return (void *)(uintptr_t)bad;
}

/* Checks while four threads launch and the watcher ticks, then a drop. */
static void threads(void)
{
    pthread_t all[THREADS];
    shared_kernel = swapped("k", 0xa00, 100);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&all[i], NULL, launcher, (void *)i));
    for (int i = 0; i < 50; i++) {
        tick_once();
        usleep(1000);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        void *bad;
        CHECK(!pthread_join(all[i], &bad) && !bad);
    }
    tick_once();
    CHECK(track(shared_kernel)->checked >= 3 && !track(shared_kernel)->differed);
    records_lock();
    struct kg_id id = track(shared_kernel)->variant;
    variant_drop(shared_kernel, &id, "a test");
    records_unlock();
    CHECK(track(shared_kernel)->dropped && !atomic_load(&shared_kernel->swap));
}

static void context_dies(void)
{
    struct kernel *kernel = swapped("k", 0xb00, 0);
    void *pool = (void *)shadow_pool.memory; /* which goes with its context */
    CHECK(launch_at(kernel, 0));
    records_lock();
    app_context_dying(FIXTURE_CONTEXT);
    records_unlock();
    free(pool);
    CHECK(!atomic_load(&shadow_pool.context) && !atomic_load(&track(kernel)->under_way));
    CHECK(launch_at(kernel, 0) && skipped(kernel, SKIP_CONTEXT) == 1);
    tick_once();
}

int main(void)
{
    setenv("KGENRT_LIVE_PAIRS", "0", 1);
    fixture_begin("app_track", KG_MODE_TUNE);
    driver();
    flight_write("start");
    app_context_created(FIXTURE_CONTEXT);
    memory = aligned_alloc(4096, (size_t)THREADS * 2 * BYTES);
    for (int i = 0; i < THREADS * 2 * N; i++)
        memory[i] = i;
    fixture.allocations[0] = app_low = (uint64_t)memory;
    fixture.sizes[0] = (size_t)THREADS * 2 * BYTES;
    fixture.count = 1;
    app_high = app_low + (size_t)THREADS * 2 * BYTES;
    first_launches();
    comes_later();
    never_used_when_wrong();
    left_alone();
    foreign();
    bounded();
    budget();
    threads();
    context_dies();
    free(memory);
    return test_result();
}
