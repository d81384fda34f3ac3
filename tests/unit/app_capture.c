/* What a launch reaches, as the spool gets it: regions merged by allocation, scalars that only look
 * like pointers, limits, host-visible memory, module variables; and that a launch which cannot be
 * captured is only a launch. */
#include "app_fixture.h"

#include <dirent.h>

#include "capture.h"

static const char *cache;
static float a[1000], b[3000];
static const uint64_t mib = 1 << 20;

static void memory(unsigned index, void *base, size_t size)
{
    fixture.allocations[index] = (CUdeviceptr)base;
    fixture.sizes[index] = size;
    fixture.types[index] = fixture.managed[index] = fixture.devices[index] = 0;
    if (fixture.count <= index)
        fixture.count = index + 1;
}

/* The only capture in the spool, which it leaves; false: none or several. */
static bool spooled(char path[static KG_PATH])
{
    char folder[KG_PATH];
    unsigned count = 0;
    snprintf(folder, sizeof folder, "%s/spool", cache);
    DIR *list = opendir(folder);
    for (struct dirent *e; list && (e = readdir(list));)
        if (strstr(e->d_name, ".kgcap")) {
            count++;
            if (snprintf(path, KG_PATH, "%s/%s", folder, e->d_name) >= KG_PATH)
                return false;
        }
    if (list)
        closedir(list);
    return count == 1;
}

static void launch_wanted(struct kernel *kernel)
{
    struct launch launch = fixture_launch();
    unsigned before = fx_originals;
    atomic_store(&kernel->state, KERNEL_WANTED);
    atomic_store(&kernel->slow_at, 0);
    CHECK(dispatch_launch(kernel, &launch) == CUDA_SUCCESS);
    CHECK(fx_originals == before + 1); /* whatever else happens, the original runs, once */
}

/* The kernel is unfit for this reason, and nothing was written. */
static void refused(struct kernel *kernel, const char *why)
{
    char path[KG_PATH];
    launch_wanted(kernel);
    capture_tick();
    CHECK(kernel_state_of(kernel) == KERNEL_UNFIT);
    CHECK(kernel->why && strstr(kernel->why, why));
    CHECK(!spooled(path));
}

static void check_file(const char *path, struct kernel *kernel)
{
    struct kg_capture c;
    if (!CHECK(capture_read(path, &c) == KG_OK))
        return;
    CHECK(id_equal(&c.kernel, &kernel->model.id) && !strcmp(c.entry, "whole"));
    CHECK(c.pid == getpid() && !strcmp(c.hardware.vendor, "softgpu") && c.hardware.uuid[0]);
    CHECK(c.launch.grid.x == 64 && c.launch.block.x == 256 && c.stack_limit == 1024);
    CHECK(c.param_count == 4 && c.params[3].offset == 20 && c.args.size == 24);
    CHECK(!memcmp(c.args.data, &fx_values, 24));
    CHECK(c.image_size == sizeof fx_image - 1 && !memcmp(c.image, fx_image, c.image_size));
    CHECK(c.pointer_count == 2 && c.pointers[0].region != c.pointers[1].region);
    CHECK(c.region_count == 3);
    const struct capture_region *r = &c.regions[c.pointers[0].region];
    CHECK(r->address == (uint64_t)&a[10] && r->size == sizeof a - 40 &&
          r->allocation == (uint64_t)a && r->allocation_size == sizeof a);
    CHECK(!memcmp(r->data, &a[10], r->size));
    r = &c.regions[2];
    CHECK(r->kind == CAPTURE_GLOBAL && !strcmp(r->name, "coefficients") && r->size == 16);
    CHECK(!memcmp(r->data, fx_global, 16));
    CHECK(c.app_ns == kernel->before_ns && c.carveout == -1);
    capture_free(&c);
}

static void whole(void)
{
    char path[KG_PATH];
    struct kernel *kernel = fixture_kernel("whole", 0x100);
    for (int i = 0; i < 1000; i++)
        a[i] = (float)i;
    memory(0, a, sizeof a);
    memory(1, b, sizeof b);
    fx_values.a = (uint64_t)&a[10];
    fx_values.b = (uint64_t)b;
    fx_values.n = 1000;
    kernel->before_ns = 1234;
    launch_wanted(kernel);
    CHECK(kernel_state_of(kernel) == KERNEL_CAPTURING && fixture.copies == 3);
    fixture.query = CUDA_ERROR_NOT_READY;
    capture_tick();
    CHECK(kernel_state_of(kernel) == KERNEL_CAPTURING && !spooled(path));
    a[10] = -1; /* the original may write: the copies were made before it */
    fixture.query = CUDA_SUCCESS;
    capture_tick();
    a[10] = 10;
    CHECK(kernel_state_of(kernel) == KERNEL_CAPTURED);
    struct stat info;
    if (CHECK(spooled(path))) {
        check_file(path, kernel);
        CHECK(!stat(path, &info) && (info.st_mode & 0777) == 0600);
        CHECK(spool_holds(&kernel->model.id) && !unlink(path));
    }
    CHECK(!spool_holds(&kernel->model.id));
}

/* Two pointers into one allocation share a region from the lower one on. */
static void merged(void)
{
    char path[KG_PATH];
    struct kg_capture c;
    struct kernel *kernel = fixture_kernel("merged", 0x200);
    fx_values.a = (uint64_t)&b[2000];
    fx_values.b = (uint64_t)&b[500];
    launch_wanted(kernel);
    capture_tick();
    if (!CHECK(spooled(path)) || !CHECK(capture_read(path, &c) == KG_OK))
        return;
    CHECK(c.pointer_count == 2 && c.region_count == 2 && c.pointers[0].region == 0 &&
          c.pointers[1].region == 0);
    CHECK(c.regions[0].address == (uint64_t)&b[500] && c.regions[0].size == sizeof b - 2000);
    capture_free(&c);
    unlink(path);
}

/* A null pointer, or one to nowhere, is a scalar. */
static void scalars(void)
{
    char path[KG_PATH];
    struct kg_capture c;
    struct kernel *kernel = fixture_kernel("scalars", 0x300);
    fx_values.a = 0;
    fx_values.b = 0x1234;
    launch_wanted(kernel);
    capture_tick();
    if (!CHECK(spooled(path)) || !CHECK(capture_read(path, &c) == KG_OK))
        return;
    CHECK(c.pointer_count == 0 && c.region_count == 1 && c.regions[0].kind == CAPTURE_GLOBAL);
    capture_free(&c);
    unlink(path);
}

static void refusals(void)
{
    struct kernel *kernel = fixture_kernel("refused", 0x400);
    fx_values.a = (uint64_t)a;
    fx_values.b = (uint64_t)b;
    memory(1, b, 5 * mib); /* KGENRT_CAPTURE_MIB is 4 */
    refused(kernel, "needs more than 4 MiB");
    memory(1, b, SIZE_MAX / 2);
    refused(kernel, "needs more than 4 MiB");
    memory(1, b, sizeof b);
    fixture.managed[0] = 1;
    refused(kernel, "host-visible");
    fixture.managed[0] = 0;
    fixture.types[0] = CU_MEMORYTYPE_HOST;
    refused(kernel, "host-visible");
    fixture.types[0] = 0;
    fixture.devices[1] = 1;
    refused(kernel, "another device's memory");
    fixture.devices[1] = 0;
    fixture.copy = CUDA_ERROR_INVALID_VALUE;
    refused(kernel, "refused to copy");
    fixture.copy = CUDA_SUCCESS;
    fixture.query = CUDA_ERROR_UNKNOWN;
    refused(kernel, "copying");
    fixture.query = CUDA_SUCCESS;
    contexts[0].broken = false;
}

/* Not now, but later: the launch goes its way and the kernel stays wanted. */
static void later(void)
{
    char path[KG_PATH];
    struct kernel *kernel = fixture_kernel("later", 0x500);
    int copies = fixture.copies;
    fixture.capturing = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    launch_wanted(kernel);
    fixture.capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    CHECK(kernel_state_of(kernel) == KERNEL_WANTED && fixture.copies == copies);
    CHECK(atomic_load(&kernel->slow_at) == 17); /* tried again after some launches, not at each */
    struct launch extended = fixture_launch();
    extended.attributes = 1;
    CHECK(!capture_begin(kernel, &extended) && kernel_state_of(kernel) == KERNEL_WANTED);
    launch_wanted(kernel);
    CHECK(kernel_state_of(kernel) == KERNEL_CAPTURING);
    struct kernel *second = fixture_kernel("second", 0x600); /* one capture at a time */
    launch_wanted(second);
    CHECK(kernel_state_of(second) == KERNEL_WANTED);
    capture_tick();
    CHECK(kernel_state_of(kernel) == KERNEL_CAPTURED && spooled(path) && !unlink(path));
}

/* A kernel that waits in the spool already, of another process perhaps, is not captured again. */
static void known(void)
{
    char path[KG_PATH];
    struct kernel *kernel = fixture_kernel("known", 0x700);
    CHECK(spool_path(&kernel->model.id, path) == KG_OK && file_write(path, "x", 1, 0600) == KG_OK);
    atomic_store(&kernel->launches, 1000);
    kernel->samples = 3;
    kernel->gpu_ns = kernel->before_ns = 1000;
    records_lock();
    hot_judge(kernel, 1000);
    records_unlock();
    CHECK(kernel_state_of(kernel) == KERNEL_CAPTURED);
    unlink(path);
}

static void full(void)
{
    struct kernel *kernel = fixture_kernel("full", 0x800);
    char path[KG_PATH];
    CHECK(spool_path(&kernel->model.id, path) == KG_OK && file_write(path, "x", 1, 0600) == KG_OK);
    CHECK(!truncate(path, (off_t)(16 * mib))); /* KGENRT_SPOOL_MIB */
    CHECK(spool_room(1) == KG_LIMIT);
    launch_wanted(kernel);
    capture_tick();
    CHECK(kernel_state_of(kernel) == KERNEL_UNFIT && strstr(kernel->why, "no room"));
    unlink(path);
    CHECK(spool_room(1) == KG_OK);
}

/* The context ends while its copies are under way: no file, and the next context captures again. */
static void context_ends(void)
{
    char path[KG_PATH];
    struct kernel *kernel = fixture_kernel("ends", 0x900);
    launch_wanted(kernel);
    records_lock();
    app_context_dying(FIXTURE_CONTEXT);
    records_unlock();
    capture_tick();
    CHECK(kernel_state_of(kernel) == KERNEL_UNFIT && !spooled(path) && !context_only());
    app_context_created(FIXTURE_CONTEXT);
    launch_wanted(kernel);
    capture_tick();
    CHECK(kernel_state_of(kernel) == KERNEL_CAPTURED && spooled(path));
    unlink(path);
}

int main(void)
{
    setenv("KGENRT_CAPTURE_MIB", "4", 1);
    setenv("KGENRT_SPOOL_MIB", "16", 1);
    fixture_begin("app_capture", KG_MODE_TUNE);
    cache = cache_dir();
    app_context_created(FIXTURE_CONTEXT);
    whole();
    merged();
    scalars();
    refusals();
    later();
    known();
    full();
    context_ends();
    return test_result();
}
