/* From a snapshot to a swap: real store and snapshots, a driver of a few functions. Which variants
 * are published, when, and which are left out; and that replaced and dropped ones go. */
#include "app_fixture.h"
#include "cache_fixture.h"

#include "app/tables.c" /* whose clock the tests turn back */

static struct store *store;
static struct kg_id key;
static struct kg_hardware hardware;
static struct kg_scalar scalars[] = {{2, 0, 4, 1000, 0}};
static struct kg_pointer pointers[] = {{0, 0, 16, 0, 0, 4000}, {1, 0, 16, 0, 0, 4000}};

/* A variant that fits the fixture's kernel. */
static struct kg_variant fitting(struct kernel *kernel, double ratio)
{
    struct kg_variant v = fixture_variant(kernel->name, 64, ratio);
    v.hardware = key;
    v.kernel = kernel->model.id;
    v.signature.scalars = scalars;
    v.signature.pointers = pointers;
    v.signature.scalar_count = 1;
    v.signature.overlap_count = 0;
    v.driver_version = fixture.driver_version;
    return v;
}

static struct kg_id put(struct kg_variant v)
{
    CHECK(store_put_blob(store, v.kernel_name, strlen(v.kernel_name), &v.code) == KG_OK);
    variant_identify(&v);
    CHECK(store_put_variant(store, &v, NULL) == KG_OK);
    return v.id;
}

static void snapshot_new(void)
{
    CHECK(snapshot_make(store, app_dir(), &key) == KG_OK);
}

static const struct swap *swap_of(struct kernel *kernel)
{
    return atomic_load(&kernel->swap);
}

static void load_now(struct kernel *kernel)
{
    records_lock();
    variants_load(kernel);
    records_unlock();
}

static bool noted(const char *part)
{
    for (unsigned i = 0; i < notes.count && i < NOTES; i++)
        if (strstr(notes.texts[i], part))
            return true;
    return false;
}

/* Found while the module is loaded: published before the first launch, which runs the variant with
 * the original's global as an added parameter. */
static void first_launch(void)
{
    struct kernel *kernel = fixture_kernel("first", 0x100);
    struct kg_id best = put(fitting(kernel, 1.5));
    snapshot_new();
    variants_open();
    CHECK(variants_any());
    load_now(kernel);
    const struct swap *swap = swap_of(kernel);
    if (!CHECK(swap && swap->count == 1))
        return;
    CHECK(id_equal(&swap->entries[0].variant, &best) && swap->entries[0].ratio == 1.5);
    CHECK(swap->entries[0].signature.scalars != scalars);
    CHECK(swap->entries[0].signature.scalars[0].value == 1000);
    CHECK(swap->entries[0].global_count == 1 &&
          swap->entries[0].globals[0] == (CUdeviceptr)fx_global);
    CHECK(kernel_state_of(kernel) == KERNEL_SWAPPED && kernel->swapped_ns);
    struct launch launch = fixture_launch();
    fx_values.a = 0x10000, fx_values.b = 0x20000, fx_values.n = 1000;
    CHECK(dispatch_launch(kernel, &launch) == CUDA_SUCCESS && !fx_originals);
    CHECK(fixture.launched == swap->entries[0].function);
    CHECK(atomic_load(&kernel->first_swapped) == 1);
    fx_values.n = 999;
    CHECK(dispatch_launch(kernel, &launch) == CUDA_SUCCESS && fx_originals == 1);
    CHECK(atomic_load(&kernel->refused[REFUSED_SCALAR]) == 1);
}

/* Made from another build of the program, in whose folder the anonymous namespace, and so the
 * variable, has another name. */
static CUresult moved_global(CUdeviceptr *out, size_t *size, CUmodule module, const char *name)
{
    *out = (CUdeviceptr)fx_global;
    *size = sizeof fx_global;
    return strcmp(name, "_ZN14_GLOBAL__N_1_a4coefE") ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

static void moved_build(void)
{
    static struct kernel_global here[] = {{(char *)"_ZN14_GLOBAL__N_1_a4coefE", 16, true}};
    struct kernel *kernel = fixture_kernel("moved", 0x180);
    kernel->model.globals = here;
    kernel->model.global_count = 1;
    struct kg_variant v = fitting(kernel, 1.5);
    v.globals[0] = "_ZN14_GLOBAL__N_2_b4coefE";
    put(v);
    snapshot_new();
    variants_open();
    real.cuModuleGetGlobal_v2 = moved_global;
    load_now(kernel);
    real.cuModuleGetGlobal_v2 = fx_module_global;
    const struct swap *swap = swap_of(kernel);
    CHECK(swap && swap->entries[0].globals[0] == (CUdeviceptr)fx_global);
}

/* A snapshot that comes while the app runs: nothing is loaded before a safe point. */
static void safe_points(void)
{
    struct kernel *at_sync = fixture_kernel("at_sync", 0x200);
    struct kernel *idle = fixture_kernel("idle", 0x300), *none = fixture_kernel("none", 0x400);
    atomic_store(&at_sync->launches, 5), atomic_store(&idle->launches, 5);
    put(fitting(at_sync, 1.2));
    snapshot_new();
    int loads = fixture.loads;
    variants_tick();
    CHECK(variants_pending() && at_sync->variants_wait && !swap_of(at_sync));
    CHECK(fixture.loads == loads && !idle->variants_wait && !none->variants_wait);
    CUcontext other = (CUcontext)(void *)0xc1;
    fixture_only = other; /* a synchronization of another context is no safe point for this one */
    safe_point();
    CHECK(!swap_of(at_sync));
    fixture_only = FIXTURE_CONTEXT;
    for (int i = 0; i < 20 && variants_pending(); i++) /* each has a few milliseconds */
        safe_point();
    CHECK(swap_of(at_sync) && !variants_pending());
    put(fitting(idle, 1.2));
    snapshot_new();
    fixture.query = CUDA_ERROR_NOT_READY; /* a kernel is under way */
    struct launch launch = fixture_launch();
    fixture_hot_tick();
    atomic_store(&none->slow_at, 0);
    CHECK(dispatch_launch(none, &launch) == CUDA_SUCCESS);
    for (int i = 0; i < 20; i++)
        variants_tick();
    CHECK(!swap_of(idle) && variants_pending());
    fixture.query = CUDA_SUCCESS;
    fixture_hot_tick();
    for (int i = 0; i < 20 && !swap_of(idle); i++)
        variants_tick();
    CHECK(swap_of(idle) && swap_of(at_sync)); /* what is loaded already is not loaded again */
    CHECK(fixture.loads == loads + 2);
}

/* Each has a flaw; none is published, and a note says why. */
static void objections(void)
{
    struct kernel *kernel = fixture_kernel("objections", 0x500);
    struct kg_variant v = fitting(kernel, 1.5);
    struct kg_scalar outside[] = {{7, 0, 4, 0, 0}};
    v.driver_version = 12000;
    put(v);
    v = fitting(kernel, 1.5);
    v.signature.launch.grid.x = 65;
    v.accuracy = "rel:1e-3"; /* KGENRT_ACCURACY=rel:1e-5 */
    put(v);
    v = fitting(kernel, 1.5);
    v.signature.launch.grid.x = 66;
    v.signature.scalars = outside;
    put(v);
    v = fitting(kernel, 1.5);
    v.signature.launch.grid.x = 67;
    v.launch.block.x = 2048;
    put(v);
    v = fitting(kernel, 1.5);
    v.signature.launch.grid.x = 68;
    v.globals[0] = "unknown";
    put(v);
    v = fitting(kernel, 1.5);
    v.signature.launch.grid.x = 69;
    v.entry = "missing";
    put(v);
    snapshot_new();
    variants_open();
    load_now(kernel);
    CHECK(!swap_of(kernel) && kernel_state_of(kernel) != KERNEL_SWAPPED);
    CHECK(noted("another driver") && noted("KGENRT_ACCURACY") && noted("does not fit"));
    CHECK(noted("could not be loaded"));
    v = fitting(kernel, 1.5);
    v.signature.launch.grid.x = 70;
    v.accuracy = "rel:1e-6";
    struct kg_id good = put(v);
    snapshot_new();
    variants_open();
    load_now(kernel);
    const struct swap *swap = swap_of(kernel);
    CHECK(swap && swap->count == 1 && id_equal(&swap->entries[0].variant, &good));
}

/* The driver's own list of parameters is believed more than the record. */
static CUresult four_parameters(CUfunction f, size_t i, size_t *offset, size_t *size)
{
    if (i >= 4)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = fx_params[i].offset;
    *size = fx_params[i].size;
    return CUDA_SUCCESS;
}

static void parameters(void)
{
    struct kernel *kernel = fixture_kernel("parameters", 0x600);
    put(fitting(kernel, 1.5)); /* wants a fifth for its global */
    snapshot_new();
    variants_open();
    real.cuFuncGetParamInfo = four_parameters;
    load_now(kernel);
    CHECK(!swap_of(kernel));
    real.cuFuncGetParamInfo = NULL;
    struct kernel *plain = fixture_kernel("plain", 0x700);
    struct kg_variant v = fitting(plain, 1.5);
    v.global_count = 0;
    put(v);
    snapshot_new();
    variants_open();
    real.cuFuncGetParamInfo = four_parameters;
    load_now(plain);
    CHECK(swap_of(plain));
    real.cuFuncGetParamInfo = NULL;
}

/* A launch of the variant fails: the original runs, the variant is gone for this process, the
 * kernel is not captured again; a better one of a later snapshot is welcome. */
static CUresult refuse(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                       unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
                       void **extra)
{
    return CUDA_ERROR_INVALID_VALUE;
}

static void dropped_and_better(void)
{
    struct kernel *kernel = fixture_kernel("dropped", 0x800);
    struct launch launch = fixture_launch();
    struct kg_id first = put(fitting(kernel, 1.5));
    snapshot_new();
    variants_open();
    load_now(kernel);
    fx_values.n = 1000;
    real.cuLaunchKernel = refuse;
    unsigned before = fx_originals;
    CHECK(dispatch_launch(kernel, &launch) == CUDA_SUCCESS && fx_originals == before + 1);
    real.cuLaunchKernel = fx_launch;
    records_lock();
    kernels_tick();
    records_unlock();
    CHECK(noted("is not used any more"));
    fixture_hot_tick();
    for (int i = 0; i < 20; i++)
        variants_tick();
    CHECK(!variants_pending() && noted("failed in this process"));
    CHECK(!swap_of(kernel) && kernel_state_of(kernel) == KERNEL_UNFIT);
    struct kg_variant better = fitting(kernel, 1.7);
    better.note = "another one";
    better.launch.grid.x = 16;
    struct kg_id second = put(better);
    CHECK(!id_equal(&first, &second));
    snapshot_new();
    for (int i = 0; i < 20 && !swap_of(kernel); i++)
        variants_tick();
    const struct swap *swap = swap_of(kernel);
    CHECK(swap && id_equal(&swap->entries[0].variant, &second));
    CHECK(store_demote(store, &second, "a test") == KG_OK);
    snapshot_new();
    variants_tick();
    CHECK(!swap_of(kernel)); /* withdrawn at once */
}

static void eleven_seconds_later(void)
{
    for (struct table *t = tables; t; t = t->next)
        if (t->retired_ns)
            t->retired_ns -= UINT64_C(11000000000);
    variants_tick();
}

/* The original's module dies: its variants are unloaded, once nothing can be launching them, and
 * not while kernels run; those of living originals stay. */
static void module_died(void)
{
    static char module;
    struct kernel *kernel = fixture_kernel("mortal", 0xa00);
    struct module *own = kernel->module;
    module_loaded(&module, false, fx_image, NULL, "");
    function_found(&module, "mortal", (void *)0xa10);
    struct kernel *dying = kernel_find((void *)0xa10);
    put(fitting(kernel, 1.5));
    struct kg_variant wide = fitting(kernel, 1.3);
    wide.signature.launch.grid.x = 128;
    put(wide);
    records_lock();
    dying->why = NULL;
    dying->modelled = true;
    dying->context = FIXTURE_CONTEXT;
    dying->model.id = kernel->model.id;
    dying->model.globals = fx_globals;
    dying->model.global_count = 2;
    dying->params = fx_params;
    dying->param_count = 4;
    records_unlock();
    snapshot_new();
    variants_open();
    load_now(kernel);
    load_now(dying);
    CHECK(swap_of(kernel) && swap_of(dying) && swap_of(dying)->count == 2);
    fixture.unloads = 0;
    module_dying(&module);
    variants_tick();
    variants_tick();
    CHECK(!fixture.unloads && dying->retired_ns && swap_of(dying));
    fixture.query = CUDA_ERROR_NOT_READY; /* something runs */
    struct launch launch = fixture_launch();
    atomic_store(&kernel->slow_at, 0);
    fx_values.n = 999;
    CHECK(dispatch_launch(kernel, &launch) == CUDA_SUCCESS);
    eleven_seconds_later();
    CHECK(!fixture.unloads && swap_of(dying));
    fixture.query = CUDA_SUCCESS;
    fixture_hot_tick();
    eleven_seconds_later();
    CHECK(fixture.unloads == 2 && !swap_of(dying) && swap_of(kernel));
    eleven_seconds_later();
    CHECK(fixture.unloads == 2 && kernel->module == own);
}

static void several_devices(void)
{
    struct kernel *kernel = fixture_kernel("several", 0x900);
    put(fitting(kernel, 1.5));
    snapshot_new();
    variants_open();
    load_now(kernel);
    CHECK(swap_of(kernel));
    records_lock();
    CHECK(device_seen(1) && !noted("several kinds of devices")); /* one like the first */
    CHECK(!device_seen(2) && noted("several kinds of devices"));
    CHECK(device_fits());
    records_unlock();
    CHECK(app_mode() == KG_MODE_CACHED && swap_of(kernel));
}

int main(void)
{
    setenv("KGENRT_ACCURACY", "rel:1e-5", 1);
    fixture_begin("app_variants", KG_MODE_CACHED);
    flight_write("start");
    CHECK(store_open(app_dir(), false, &store) == KG_OK);
    app_context_created(FIXTURE_CONTEXT);
    CHECK(app_hardware(&hardware, &key) && !variants_any());
    first_launch();
    moved_build();
    safe_points();
    objections();
    parameters();
    dropped_and_better();
    module_died();
    several_devices();
    store_close(store);
    return test_result();
}
