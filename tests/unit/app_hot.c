/* Sampling and the decision which kernels matter: when a launch is timed, when it is left alone,
 * and which kernels become wanted. */
#include "app_fixture.h"

static void schedule(void)
{
    static const uint64_t first[] = {3, 4, 5, 6, 8, 16, 32, 64, 122, 183};
    uint64_t at = 1;
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        at = hot_next(at);
        CHECK(at == first[i]);
    }
    CHECK(hot_next(1000000) == 1000000 / 61 * 61 + 61);
    for (uint64_t n = 0; n < 300; n++)
        CHECK(hot_next(n) > n);
}

static void launch_often(struct kernel *kernel, unsigned times)
{
    struct launch launch = fixture_launch();
    for (unsigned i = 0; i < times; i++)
        CHECK(dispatch_launch(kernel, &launch) == CUDA_SUCCESS);
}

static void hot_and_cold(void)
{
    struct kernel *hot = fixture_kernel("hot", 0x100), *cold = fixture_kernel("cold", 0x200);
    struct kernel *unfit = fixture_kernel("unfit", 0x300), *rare = fixture_kernel("rare", 0x400);
    unfit->model.ineligible = "it prints";
    fixture_hot_tick();
    fixture.kernel_ns = 100000;
    launch_often(hot, 39);
    launch_often(unfit, 100);
    launch_often(rare, 10);
    fixture_hot_tick();
    fixture.kernel_ns = 10;
    launch_often(cold, 100);
    fixture_hot_tick();
    CHECK(kernel_state_of(hot) == KERNEL_COLD); /* one launch short of KGENRT_HOT_LAUNCHES */
    CHECK(hot->samples >= 3 && hot->before_ns > 99999 && hot->before_ns < 100001);
    CHECK(hot->sampled_ns[0] > 0 && hot->gpu_ns > 38.9 * 1e5);
    launch_often(hot, 1);
    fixture_hot_tick();
    CHECK(kernel_state_of(hot) == KERNEL_WANTED);
    CHECK(kernel_state_of(unfit) == KERNEL_UNFIT && !strcmp(unfit->why, "it prints"));
    CHECK(kernel_state_of(cold) == KERNEL_COLD && hot_share(cold) < 0.05);
    CHECK(kernel_state_of(rare) == KERNEL_COLD);
    CHECK(hot_share(hot) > 0.2 && hot_share(hot) < 0.4);
    CHECK(hot->first_seen_ns != 0);
}

/* Nothing may be recorded into a stream that is being captured, nor when the launch failed. */
static void left_alone(void)
{
    struct kernel *kernel = fixture_kernel("captured", 0x500);
    fixture_hot_tick();
    int before = fixture.records;
    fixture.capturing = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    launch_often(kernel, 200);
    CHECK(fixture.records == before);
    fixture.capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    launch_often(kernel, 200);
    CHECK(fixture.records > before);
    fixture_hot_tick();
}

static void bounded(void)
{
    struct kernel *kernel = fixture_kernel("often", 0x600);
    fixture_hot_tick();
    int before = fixture.records;
    launch_often(kernel, 100000);
    CHECK(fixture.records - before <= 2 * 21);
    fixture_hot_tick();
}

static void cached_mode(void)
{
    struct kernel *kernel = fixture_kernel("cached", 0x700);
    atomic_store(&mode, KG_MODE_CACHED);
    fixture_hot_tick();
    fixture.kernel_ns = 1e6;
    launch_often(kernel, 300);
    fixture_hot_tick();
    fixture_hot_tick();
    CHECK(hot_share(kernel) > 0.05 && kernel_state_of(kernel) == KERNEL_COLD);
    atomic_store(&mode, KG_MODE_TUNE);
    fixture_hot_tick();
    CHECK(kernel_state_of(kernel) == KERNEL_WANTED);
}

/* A launch that got the original beside a variant is unlike those the variant is for. */
static void before_and_after(void)
{
    static const struct swap unlike = {0}; /* no entry's guard holds */
    struct kernel *kernel = fixture_kernel("two sizes", 0x900);
    kernel->model.ineligible = "not to be captured here";
    fixture_hot_tick();
    fixture.kernel_ns = 1e6;
    launch_often(kernel, 20);
    fixture_hot_tick();
    uint64_t samples = kernel->samples;
    CHECK(samples >= 3 && kernel->before_ns > 0.99e6 && kernel->before_ns < 1.01e6);
    atomic_store(&kernel->swap, &unlike);
    fixture.kernel_ns = 1000;
    int before = fixture.records;
    launch_often(kernel, 200);
    fixture_hot_tick();
    CHECK(fixture.records > before); /* watched, for what runs long */
    CHECK(kernel->samples == samples && !kernel->after_samples && kernel->before_ns > 0.99e6);
    atomic_store(&kernel->swap, NULL);
    launch_often(kernel, 200);
    fixture_hot_tick();
    CHECK(kernel->samples > samples);
}

/* The watcher may load code only when no kernel runs for long. */
static void idle(void)
{
    struct kernel *kernel = fixture_kernel("persistent", 0x800);
    fixture_hot_tick();
    CHECK(hot_idle());
    fixture.query = CUDA_ERROR_NOT_READY;
    launch_often(kernel, 1); /* the very first launch is watched */
    fixture_hot_tick();
    CHECK(!hot_idle());
    fixture.query = CUDA_SUCCESS;
    fixture_hot_tick();
    CHECK(hot_idle() && !kernel->samples); /* but it counts in no median */
    fixture.kernel_ns = 2e9;
    launch_often(kernel, 2);
    fixture_hot_tick();
    CHECK(!hot_idle()); /* it was seen to run for long: expected again */
}

int main(void)
{
    fixture_begin("app_hot", KG_MODE_TUNE);
    app_context_created(FIXTURE_CONTEXT);
    CHECK(context_only() == FIXTURE_CONTEXT);
    schedule();
    hot_and_cold();
    left_alone();
    bounded();
    cached_mode();
    before_and_after();
    idle();
    return test_result();
}
