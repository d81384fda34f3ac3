/* What a launch reaches, as the spool gets it: touched intervals and nothing else, pointers beside
 * their arrays, addresses in memory, the app's own result, further captures with other contents,
 * scalars that only look like pointers, limits, host-visible memory, module variables; and that a
 * launch which cannot be captured is only a launch. */
#include "app_fixture.h"

#include <dirent.h>

#include "app/plan.h"
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

/* Entry `name`: b[i] = a[i + offset / 4], for i < n; or what `load` loads instead. */
static char *ptx_of(const char *name, int offset, const char *load)
{
    char *text, plain[64];
    snprintf(plain, sizeof plain, "ld.global.f32 %%f1, [%%rd6+%d];", offset);
    CHECK(
        asprintf(&text,
                 ".version 8.0\n.target sm_90\n.address_size 64\n"
                 ".visible .entry other(.param .u64 unused)\n{\n\tret;\n}\n"
                 ".visible .entry %s(.param .u64 a, .param .u64 b, .param .u32 n, .param .f32 x)\n"
                 "{\n.reg .pred %%p<2>;\n.reg .b32 %%r<7>;\n.reg .f32 %%f<4>;\n"
                 ".reg .b64 %%rd<12>;\n"
                 "ld.param.u64 %%rd1, [a];\nld.param.u64 %%rd2, [b];\nld.param.u32 %%r1, [n];\n"
                 "mov.u32 %%r2, %%ctaid.x;\nmov.u32 %%r3, %%ntid.x;\nmov.u32 %%r4, %%tid.x;\n"
                 "mad.lo.s32 %%r5, %%r2, %%r3, %%r4;\nsetp.ge.s32 %%p1, %%r5, %%r1;\n"
                 "@%%p1 bra done;\ncvta.to.global.u64 %%rd3, %%rd1;\n"
                 "cvta.to.global.u64 %%rd4, %%rd2;\nmul.wide.s32 %%rd5, %%r5, 4;\n"
                 "add.s64 %%rd6, %%rd3, %%rd5;\nadd.s64 %%rd7, %%rd4, %%rd5;\n%s\n"
                 "st.global.f32 [%%rd7], %%f1;\ndone:\nret;\n}\n",
                 name, load ? load : plain) > 0);
    return text;
}

/* a[index] where the index stands in memory; and two loads through addresses that do. */
static const char by_index[] = "ld.global.u32 %r6, [%rd6];\nmul.wide.u32 %rd8, %r6, 4;\n"
                               "add.s64 %rd9, %rd3, %rd8;\nld.global.f32 %f1, [%rd9];";
static const char by_address[] = "mul.wide.s32 %rd8, %r5, 8;\nadd.s64 %rd9, %rd3, %rd8;\n"
                                 "ld.global.u64 %rd10, [%rd9];\nld.global.u64 %rd11, [%rd10+8];\n"
                                 "ld.global.f32 %f1, [%rd11];";

static struct kernel *kernel_of(const char *name, uintptr_t handle, int offset, const char *load)
{
    struct kernel *kernel = fixture_kernel(name, handle);
    records_lock();
    struct module *module = kernel->module;
    free(module->code.ptx.data);
    char *text = ptx_of(name, offset, load);
    module->code.ptx = (struct kg_bytes){(unsigned char *)text, strlen(text)};
    records_unlock();
    return kernel;
}

/* What the kernel of offset 0 does, if its pointers lead anywhere. */
static bool copies;
static CUresult run_copy(const struct launch *launch)
{
    fx_originals++;
    for (int i = 0; copies && i < fx_values.n; i++)
        ((float *)fx_values.b)[i] = ((const float *)fx_values.a)[i];
    return CUDA_SUCCESS;
}

static void launch_once(struct kernel *kernel)
{
    struct launch launch = fixture_launch();
    launch.run = run_copy;
    unsigned before = fx_originals;
    atomic_store(&kernel->slow_at, 0);
    CHECK(dispatch_launch(kernel, &launch) == CUDA_SUCCESS);
    CHECK(fx_originals == before + 1); /* whatever else happens, the original runs, once */
}

/* A first launch, of which the watcher makes a plan, and a second one by it. */
static void launch_wanted(struct kernel *kernel)
{
    atomic_store(&kernel->state, KERNEL_WANTED);
    int before = fixture.copies;
    launch_once(kernel);
    if (kernel_state_of(kernel) != KERNEL_WANTED)
        return; /* there was a plan */
    CHECK(fixture.copies == before);
    capture_tick();
    if (kernel_state_of(kernel) == KERNEL_WANTED)
        launch_once(kernel);
}

/* The kernel is unfit for this reason, and nothing was written. */
static void refused(struct kernel *kernel, const char *why)
{
    char path[KG_PATH];
    launch_wanted(kernel);
    capture_tick();
    CHECK(kernel_state_of(kernel) == KERNEL_UNFIT);
    if (!CHECK(kernel->why && strstr(kernel->why, why)))
        fprintf(stderr, "state %d, %s\n", kernel_state_of(kernel), kernel->why);
    CHECK(!spooled(path));
}

/* The only capture, read and taken away. */
static bool take(struct kg_capture *out)
{
    char path[KG_PATH];
    if (!CHECK(spooled(path)) || !CHECK(capture_read(path, out) == KG_OK))
        return false;
    unlink(path);
    return true;
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
    CHECK(c.region_count == 3 && !c.place_count);
    const struct capture_region *r = &c.regions[c.pointers[0].region];
    CHECK(r->address == (uint64_t)&a[10] && r->size == 400 && r->allocation == (uint64_t)a &&
          r->allocation_size == sizeof a);
    CHECK(!memcmp(r->data, &a[10], r->size) && !r->after); /* it is only read */
    r = &c.regions[c.pointers[1].region];
    CHECK(r->address == (uint64_t)b && r->size == 400 && *(const float *)r->data == 7);
    CHECK(r->after && !memcmp(r->after, &a[10], 400)); /* the app's own result */
    r = &c.regions[2];
    CHECK(r->kind == CAPTURE_GLOBAL && !strcmp(r->name, "coefficients") && r->size == 16);
    CHECK(!memcmp(r->data, fx_global, 16) && !r->after);
    CHECK(c.app_ns == kernel->before_ns && c.carveout == -1);
    capture_free(&c);
}

static void whole(void)
{
    char path[KG_PATH];
    struct kernel *kernel = kernel_of("whole", 0x100, 0, NULL);
    for (int i = 0; i < 1000; i++)
        a[i] = (float)i;
    b[0] = 7;
    memory(0, a, sizeof a);
    memory(1, b, sizeof b);
    fx_values.a = (uint64_t)&a[10];
    fx_values.b = (uint64_t)b;
    fx_values.n = 100;
    kernel->before_ns = 1234;
    copies = true;
    atomic_store(&kernel->state, KERNEL_WANTED);
    launch_once(kernel);
    CHECK(kernel_state_of(kernel) == KERNEL_WANTED && !fixture.copies); /* noted, no more */
    b[0] = 7;
    capture_tick();
    launch_once(kernel);
    CHECK(kernel_state_of(kernel) == KERNEL_CAPTURING && fixture.copies == 4);
    fixture.query = CUDA_ERROR_NOT_READY;
    capture_tick();
    CHECK(kernel_state_of(kernel) == KERNEL_CAPTURING && !spooled(path));
    a[11] = -1; /* the copies are made */
    fixture.query = CUDA_SUCCESS;
    capture_tick();
    a[11] = 11;
    CHECK(kernel_state_of(kernel) == KERNEL_CAPTURED);
    struct stat info;
    if (CHECK(spooled(path))) {
        check_file(path, kernel);
        CHECK(!stat(path, &info) && (info.st_mode & 0777) == 0600);
        CHECK(spool_holds(&kernel->model.id) && !unlink(path));
    }
    CHECK(!spool_holds(&kernel->model.id));
}

/* Further captures, at other times: other contents. */
static void again(void)
{
    struct kg_capture c;
    struct kernel *kernel = kernel_find((void *)0x100);
    for (unsigned i = 2; i <= 3; i++) {
        if (!CHECK(kernel->plan->taken == i - 1 && kernel->plan->due_ns > now_ns()))
            return;
        capture_tick();
        CHECK(!kernel->again); /* its time has not come */
        kernel->plan->due_ns = 1;
        capture_tick();
        CHECK(kernel->again && !atomic_load(&kernel->slow_at));
        fx_values.n = 99; /* another kind of launch */
        launch_once(kernel);
        CHECK(!kernel->again && !kernel->held);
        kernel->plan->due_ns = 1;
        capture_tick();
        fx_values.n = 100;
        a[10] = (float)i * 1000;
        launch_once(kernel);
        capture_tick();
        CHECK(kernel_state_of(kernel) == KERNEL_CAPTURED && !kernel->held);
        if (!take(&c))
            return;
        CHECK(*(const float *)c.regions[c.pointers[0].region].data == (float)i * 1000);
        CHECK(*(const float *)c.regions[c.pointers[1].region].after == (float)i * 1000);
        capture_free(&c);
    }
    CHECK(kernel->plan->taken == 3 && !kernel->plan->due_ns); /* KGENRT_CAPTURES */
    copies = false;
}

/* Two pointers into one large allocation: two small regions, and one where they overlap. */
static void pool(void)
{
    struct kg_capture c;
    struct kernel *kernel = kernel_of("pool", 0x200, 0, NULL);
    memory(0, a, sizeof a);
    memory(1, b, 256 * mib); /* only touched bytes are copied */
    fx_values.a = (uint64_t)&b[2000];
    fx_values.b = (uint64_t)&b[500];
    launch_wanted(kernel);
    capture_tick();
    if (take(&c)) {
        CHECK(c.pointer_count == 2 && c.region_count == 3);
        CHECK(c.regions[c.pointers[0].region].address == (uint64_t)&b[2000]);
        CHECK(c.regions[c.pointers[1].region].address == (uint64_t)&b[500]);
        CHECK(c.regions[0].size == 400 && c.regions[1].size == 400);
        CHECK(c.file.size < 8192 && c.regions[0].allocation_size == 256 * mib);
        capture_free(&c);
    }
    kernel = kernel_of("overlap", 0x210, 0, NULL);
    fx_values.a = (uint64_t)&b[501];
    launch_wanted(kernel);
    capture_tick();
    if (take(&c)) {
        CHECK(c.region_count == 2 && c.pointers[0].region == 0 && c.pointers[1].region == 0);
        CHECK(c.regions[0].address == (uint64_t)&b[500] && c.regions[0].size == 404);
        capture_free(&c);
    }
    memory(1, b, sizeof b);
}

/* A pointer behind, and one before, what is read through it. */
static void outside(void)
{
    struct kg_capture c;
    struct kernel *kernel = kernel_of("before", 0x220, -40, NULL);
    fx_values.a = (uint64_t)&a[1000]; /* one past the end: in no allocation */
    fx_values.b = (uint64_t)b;
    fx_values.n = 10;
    launch_wanted(kernel);
    capture_tick();
    if (take(&c)) {
        const struct capture_region *r = &c.regions[c.pointers[0].region];
        CHECK(r->address == (uint64_t)&a[990] && r->size == 40 && r->allocation == (uint64_t)a);
        struct kg_signature s;
        if (CHECK(capture_signature(&c, &s) == KG_OK))
            CHECK(s.pointers[0].low == -40 && s.pointers[0].high == 0);
        signature_free(&s);
        capture_free(&c);
    }
    kernel = kernel_of("behind", 0x230, 80, NULL);
    fx_values.a = (uint64_t)a - 80;
    launch_wanted(kernel);
    capture_tick();
    if (take(&c)) {
        CHECK(c.regions[c.pointers[0].region].address == (uint64_t)a);
        CHECK(c.regions[c.pointers[0].region].size == 40);
        capture_free(&c);
    }
    kernel = kernel_of("nothing", 0x240, 0, NULL);
    fx_values.a = (uint64_t)a;
    fx_values.n = 0; /* no thread touches anything: addresses all the same, not scalars */
    launch_wanted(kernel);
    capture_tick();
    if (take(&c)) {
        CHECK(c.pointer_count == 2 && c.region_count == 1);
        CHECK(c.pointers[0].region == CAPTURE_NO_REGION);
        capture_free(&c);
    }
    fx_values.n = 100;
}

/* Reach that is not known: to the end of the allocation, if that is not too much. */
static void unknown(void)
{
    struct kg_capture c;
    struct kernel *kernel = kernel_of("unknown", 0x250, 0, by_index);
    fx_values.a = (uint64_t)&a[10];
    fx_values.b = (uint64_t)b;
    launch_wanted(kernel);
    capture_tick();
    if (take(&c)) {
        CHECK(c.regions[c.pointers[0].region].size == sizeof a - 40);
        CHECK(c.regions[c.pointers[1].region].size == 400);
        capture_free(&c);
    }
    kernel = kernel_of("unknown_large", 0x260, 0, by_index);
    memory(0, a, 5 * mib); /* KGENRT_CAPTURE_MIB is 4 */
    refused(kernel, "through parameter 0 is not known (line 28: comes from memory)");
    CHECK(strstr(kernel->why, "4 MiB") && strstr(kernel->why, "allows 4"));
    memory(0, a, sizeof a);
}

/* Every launch is unlike the one before: a plan for all of them. */
static void restless(void)
{
    struct kg_capture c;
    struct kernel *kernel = kernel_of("restless", 0x270, 0, NULL);
    unsigned launches = 0;
    atomic_store(&kernel->state, KERNEL_WANTED);
    for (fx_values.n = 1; fx_values.n < 200 && kernel_state_of(kernel) == KERNEL_WANTED;
         fx_values.n++, launches++) {
        launch_once(kernel);
        capture_tick();
    }
    CHECK(kernel_state_of(kernel) == KERNEL_CAPTURED && launches > 16);
    if (take(&c)) {
        CHECK(c.regions[c.pointers[0].region].size == sizeof a - 40);
        capture_free(&c);
    }
    kernel = kernel_of("free", 0x280, 0, NULL); /* a float that is not even used changes nothing */
    atomic_store(&kernel->state, KERNEL_WANTED);
    fx_values.n = 100;
    fx_values.x = 1;
    launch_once(kernel);
    capture_tick();
    fx_values.x = 2;
    launch_once(kernel);
    capture_tick();
    if (take(&c)) {
        CHECK(c.regions[c.pointers[0].region].size == 400);
        CHECK(c.args.data[23] == 0x40); /* of 2.0f */
        capture_free(&c);
    }
}

/* a[i] leads to a node whose second word leads to a number: two levels, each an allocation. */
static void nested(void)
{
    static uint64_t table[100], nodes[250];
    static float numbers[300];
    struct kg_capture c;
    struct kernel *kernel = kernel_of("nested", 0x290, 0, by_address);
    memory(0, table, sizeof table);
    memory(1, b, sizeof b);
    memory(2, nodes, sizeof nodes);
    memory(3, numbers, sizeof numbers);
    for (int i = 0; i < 100; i++) {
        table[i] = (uint64_t)&nodes[50 + 2 * i];
        nodes[50 + 2 * i] = 0x3f8000003f800000;
        nodes[51 + 2 * i] = (uint64_t)&numbers[299 - i];
        numbers[299 - i] = (float)i;
    }
    fx_values.a = (uint64_t)table;
    launch_wanted(kernel);
    for (unsigned i = 0; i < 2; i++) { /* the table was captured, then the nodes as well */
        char path[KG_PATH];
        CHECK(kernel_state_of(kernel) == KERNEL_CAPTURING);
        capture_tick();
        CHECK(kernel_state_of(kernel) == KERNEL_WANTED && !spooled(path));
        launch_once(kernel);
    }
    capture_tick();
    CHECK(kernel_state_of(kernel) == KERNEL_CAPTURED);
    if (take(&c)) {
        CHECK(c.region_count == 5 && c.place_count == 200); /* all are places, and lead right */
        unsigned found = 0;
        for (uint32_t i = 0; i < c.region_count; i++) {
            const struct capture_region *r = &c.regions[i];
            found += r->kind == CAPTURE_NESTED && r->address == (uint64_t)&nodes[50] &&
                     r->size == sizeof nodes - 400;
            found += r->kind == CAPTURE_NESTED && r->address == (uint64_t)&numbers[200] &&
                     r->size == 400 && !r->after;
        }
        CHECK(found == 2);
        capture_free(&c);
    }
    kernel = kernel_of("nested_large", 0x2a0, 0, by_address);
    memory(3, numbers, 5 * mib);
    launch_wanted(kernel);
    for (unsigned i = 0; i < 4 && kernel_state_of(kernel) != KERNEL_UNFIT; i++) {
        capture_tick();
        launch_once(kernel);
    }
    CHECK(kernel_state_of(kernel) == KERNEL_UNFIT &&
          strstr(kernel->why, "addresses in its memory (line 30) lead to 5 MiB"));
    fixture.count = 2;
    memory(0, a, sizeof a);
}

/* A null pointer, or one to nowhere, is a scalar. */
static void scalars(void)
{
    struct kg_capture c;
    struct kernel *kernel = kernel_of("scalars", 0x300, 0, NULL);
    fx_values.a = 0;
    fx_values.b = 0x1234;
    launch_wanted(kernel);
    capture_tick();
    if (!take(&c))
        return;
    CHECK(c.pointer_count == 0 && c.region_count == 1 && c.regions[0].kind == CAPTURE_GLOBAL);
    capture_free(&c);
}

static void refusals(void)
{
    struct kernel *kernel = kernel_of("refused", 0x400, 0, NULL);
    fx_values.a = (uint64_t)a;
    fx_values.b = (uint64_t)b;
    fx_values.n = 100;
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
    refused(kernel, "copying");
    fixture.copy = CUDA_SUCCESS;
    fixture.query = CUDA_ERROR_UNKNOWN;
    refused(kernel, "copying");
    fixture.query = CUDA_SUCCESS;
    contexts[0].broken = false;
}

static CUresult fail(const struct launch *launch)
{
    return CUDA_ERROR_LAUNCH_FAILED;
}

/* Not now, but later: the launch goes its way and the kernel stays wanted. */
static void later(void)
{
    char path[KG_PATH];
    struct kernel *kernel = kernel_of("later", 0x500, 0, NULL);
    int copied = fixture.copies;
    fixture.capturing = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    atomic_store(&kernel->state, KERNEL_WANTED);
    launch_once(kernel);
    fixture.capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    CHECK(kernel_state_of(kernel) == KERNEL_WANTED && fixture.copies == copied);
    CHECK(atomic_load(&kernel->slow_at) == 14); /* tried again after some launches, not at each */
    struct launch extended = fixture_launch();
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    const CUlaunchConfig config = {.attrs = &attribute, .numAttrs = 1};
    extended.attributes = 1;
    extended.config = &config;
    CHECK(!capture_begin(kernel, &extended, false) && kernel_state_of(kernel) == KERNEL_WANTED);
    CHECK(kernel->refused[REFUSED_COOPERATIVE] == 1); /* so that `status` says it */
    launch_wanted(kernel);
    CHECK(kernel_state_of(kernel) == KERNEL_CAPTURING);
    struct kernel *second = fixture_kernel("second", 0x600); /* one capture at a time */
    atomic_store(&second->state, KERNEL_WANTED);
    launch_once(second);
    CHECK(kernel_state_of(second) == KERNEL_WANTED && !second->held);
    capture_tick();
    CHECK(kernel_state_of(kernel) == KERNEL_CAPTURED && spooled(path) && !unlink(path));
    struct launch failing = fixture_launch();
    failing.run = fail;
    kernel->plan->taken = 0;
    atomic_store(&kernel->state, KERNEL_WANTED);
    atomic_store(&kernel->slow_at, 0);
    CHECK(dispatch_launch(kernel, &failing) == CUDA_ERROR_LAUNCH_FAILED);
    capture_tick();
    CHECK(kernel_state_of(kernel) == KERNEL_UNFIT && !spooled(path));
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
    struct kernel *kernel = kernel_of("full", 0x800, 0, NULL);
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
    struct kernel *kernel = kernel_of("ends", 0x900, 0, NULL);
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
    again();
    pool();
    outside();
    unknown();
    restless();
    nested();
    scalars();
    refusals();
    later();
    known();
    full();
    context_ends();
    return test_result();
}
