/* Launches that no guard covers: which of them are captured, in their turn, and when that ends. */
#include "app_fixture.h"

static const struct swap covers_nothing = {0}, another = {0};
static struct kernel *kernel;

static void look(double total_ns)
{
    records_lock();
    wish_tick(kernel, total_ns);
    records_unlock();
}

static int state(void)
{
    return kernel_state_of(kernel);
}

/* A kernel that has variants, and launches that they do not cover, of which some were timed. */
static void begin(const char *name, uintptr_t handle)
{
    kernel = fixture_kernel(name, handle);
    atomic_store(&kernel->swap, &covers_nothing);
    atomic_store(&kernel->state, KERNEL_SWAPPED);
    look(0);
}

static void refuse(unsigned launches, double ns)
{
    atomic_fetch_add(&kernel->refused[REFUSED_SCALAR], launches);
    for (int i = 0; i < 3; i++)
        wish_sample(kernel, ns);
}

static void when_it_matters(void)
{
    begin("matters", 0x100);
    refuse(39, 1000);
    look(39e3);
    CHECK(state() == KERNEL_SWAPPED); /* one launch short of KGENRT_HOT_LAUNCHES */
    refuse(1, 1000);
    look(900e3);
    CHECK(state() == KERNEL_SWAPPED); /* 4.4% of the time */
    look(700e3);
    CHECK(state() == KERNEL_WANTED && atomic_load(&kernel->wish.only_new));
    CHECK(atomic_load(&kernel->slow_at) == 0);
    begin("anew", 0x200);
    refuse(100, 1000);
    atomic_store(&kernel->swap, &another); /* covers more: what was before says nothing */
    look(100e3);
    CHECK(state() == KERNEL_SWAPPED);
    refuse(100, 1000);
    look(200e3);
    CHECK(state() == KERNEL_WANTED);
    begin("attributes", 0x300); /* no signature would cover these */
    atomic_fetch_add(&kernel->refused[REFUSED_ATTRIBUTES], 1000);
    refuse(0, 1000);
    look(1e6);
    CHECK(state() == KERNEL_SWAPPED);
}

static uint64_t pointers[2] = {0x10000, 0x20000};
static int n = 100;
static float factor = 2;

static void packed(unsigned char out[static 24])
{
    memcpy(out, pointers, 16);
    memcpy(out + 16, &n, 4);
    memcpy(out + 20, &factor, 4);
}

static void one_of_a_kind(void)
{
    void *arguments[] = {&pointers[0], &pointers[1], &n, &factor};
    unsigned char args[24];
    struct launch launch = fixture_launch();
    launch.params = arguments;
    begin("kinds", 0x400);
    refuse(100, 1000);
    look(100e3);
    CHECK(state() == KERNEL_WANTED && wish_open(kernel, &launch));
    packed(args);
    records_lock();
    wish_taken(kernel, &launch.shape, args);
    wish_taken(kernel, &launch.shape, args);
    records_unlock();
    CHECK(kernel->wish.count == 1 && !wish_open(kernel, &launch));
    pointers[0] += 256; /* the same kind, wherever its memory is */
    CHECK(!wish_open(kernel, &launch));
    pointers[0] += 4; /* less aligned */
    CHECK(wish_open(kernel, &launch));
    pointers[0] = pointers[1] = 0x10000; /* in place */
    CHECK(wish_open(kernel, &launch));
    pointers[1] = 0x20000;
    n = 101;
    CHECK(wish_open(kernel, &launch));
    n = 100;
    factor = 3;
    CHECK(wish_open(kernel, &launch));
    factor = 2;
    launch.shape.grid.x++;
    CHECK(wish_open(kernel, &launch));
    launch.shape.grid.x--;
    launch.shape.shared = 4;
    CHECK(wish_open(kernel, &launch));
    launch.shape.shared = 0;
    CHECK(!wish_open(kernel, &launch));
    atomic_store(&kernel->state,
                 KERNEL_SWAPPED); /* somebody else asks for it: any launch will do */
    look(1e12);
    CHECK(wish_open(kernel, &launch));
}

static void not_without_end(void)
{
    unsigned char args[24];
    struct launch launch = fixture_launch();
    begin("many", 0x500);
    packed(args);
    records_lock();
    for (unsigned i = 0; i < 100; i++) {
        launch.shape.grid.x = 100 + i;
        wish_taken(kernel, &launch.shape, args);
    }
    records_unlock();
    CHECK(kernel->wish.count == WISHES);
    refuse(100, 1000);
    look(100e3);
    CHECK(state() == KERNEL_SWAPPED && kernel->wish.full);
    begin("refused", 0x600); /* it could not be captured */
    snprintf(kernel->why_text, sizeof kernel->why_text, "too large");
    atomic_store(&kernel->wish.over, true);
    refuse(100, 1000);
    look(100e3);
    CHECK(state() == KERNEL_SWAPPED && kernel->wish.said);
    begin("observed", 0x700);
    atomic_store(&mode, KG_MODE_CACHED);
    refuse(100, 1000);
    look(100e3);
    CHECK(state() == KERNEL_SWAPPED);
    atomic_store(&mode, KG_MODE_TUNE);
}

/* What the worker has taken is no longer waited for. */
static void settled(void)
{
    begin("settled", 0x800);
    atomic_store(&kernel->state, KERNEL_CAPTURED);
    look(0);
    CHECK(state() == KERNEL_SWAPPED); /* nothing of it in the spool */
    char path[KG_PATH];
    CHECK(spool_path(&kernel->model.id, path) == KG_OK && file_write(path, "x", 1, 0600) == KG_OK);
    atomic_store(&kernel->state, KERNEL_CAPTURED);
    kernel->wish.looked_ns = 0;
    look(0);
    CHECK(state() == KERNEL_CAPTURED);
    CHECK(!remove(path));
    look(0);
    CHECK(state() == KERNEL_CAPTURED); /* it looks once a second */
    kernel->wish.looked_ns = 0;
    look(0);
    CHECK(state() == KERNEL_SWAPPED);
}

int main(void)
{
    fixture_begin("app_wish", KG_MODE_TUNE);
    when_it_matters();
    one_of_a_kind();
    not_without_end();
    settled();
    return test_result();
}
