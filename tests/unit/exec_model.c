/* The time model ranks: on the samples its order of original and variant is the H200's, counts are
 * what can be worked out by hand, and both are the same in every run. */
#include "exec_samples.h"

enum { SCALE = 8 };

/* The H200 by its figures in devices.def. */
static struct exec_device h200(void)
{
    struct exec_device d = {.sms = 132,
                            .sm_threads = 2048,
                            .sm_blocks = 32,
                            .sm_registers = 65536,
                            .sm_shared = 228 << 10,
                            .reserved_shared = 1 << 10,
                            .l2_bytes = 60 << 20,
                            .clock_khz = 1980000,
                            .l2_rate = 6000000,
                            .dram_rate = 4300000};
    CHECK(exec_device_rates(&d, 9, 0));
    return d;
}

static uint64_t time_of(unsigned index, bool variant, const struct exec_device *device)
{
    struct sample sample = sample_make(index, variant, SCALE);
    sample.call.config.device = device;
    call_good(&sample.call);
    const struct exec_counts *n = &sample.call.result.counts;
    uint64_t out = exec_model_time(device, n);
    fprintf(stderr,
            "%-10s %d: %7.2f us; issue %.2f int %.2f float %.2f special %.2f l1 %.2f shared %.2f "
            "const %.2f l2 %.2f dram %.2f latency %.2f (resident %u)\n",
            sample_names[index], variant, (double)out * 1e-6,
            (double)n->issue / 4 / device->sms / 1980,
            (double)n->pipe[PIPE_INT] / 2 / device->sms / 1980,
            (double)n->pipe[PIPE_FLOAT] / 4 / device->sms / 1980,
            (double)n->pipe[PIPE_SPECIAL] * 2 / device->sms / 1980,
            (double)n->pipe[PIPE_L1] / device->sms / 1980,
            (double)n->pipe[PIPE_SHARED] / device->sms / 1980,
            (double)n->pipe[PIPE_CONST] * 2 / device->sms / 1980,
            (double)n->l2_sectors * 32 / (double)device->l2_rate,
            (double)n->unique_sectors * 32 / (double)device->dram_rate,
            (double)n->latency / n->resident / device->sms / 1980, n->resident);
    sample_drop(&sample);
    return out;
}

/* Measured on an H200: 4.21, 3.43, 1.08, 1.18 to 1.50 times faster. */
static void test_order(void)
{
    static const double least[SAMPLE_COUNT] = {2.5, 2.0, 1.02, 1.1},
                        most[SAMPLE_COUNT] = {6.0, 5.0, 1.3, 2.2};
    struct exec_device device = h200();
    for (unsigned i = 0; i < SAMPLE_COUNT; i++) {
        uint64_t original = time_of(i, false, &device), variant = time_of(i, true, &device);
        double ratio = (double)original / (double)variant;
        fprintf(stderr, "%s: modelled %.2f\n", sample_names[i], ratio);
        CHECK(ratio > least[i] && ratio < most[i]);
    }
}

/* Accesses of one warp, whose counts can be told by hand. */
static const char patterns[] =
    ".version 7.5\n.target sm_80\n.address_size 64\n"
    ".visible .entry strided(.param .u64 p, .param .u32 stride) {\n"
    "  .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .f32 %f<2>;\n"
    "  ld.param.u64 %rd1, [p];\n  ld.param.u32 %r1, [stride];\n  mov.u32 %r2, %tid.x;\n"
    "  mul.lo.u32 %r3, %r1, %r2;\n  mul.wide.u32 %rd2, %r3, 4;\n  add.u64 %rd3, %rd1, %rd2;\n"
    "  ld.global.f32 %f1, [%rd3];\n  st.global.f32 [%rd3], %f1;\n  ret;\n}\n"
    ".visible .entry banks(.param .u32 stride) {\n"
    "  .shared .align 4 .b8 room[8192];\n  .reg .b32 %r<5>;\n"
    "  ld.param.u32 %r1, [stride];\n  mov.u32 %r2, %tid.x;\n  mul.lo.u32 %r3, %r1, %r2;\n"
    "  shl.b32 %r4, %r3, 2;\n  st.shared.u32 [%r4], %r3;\n  ret;\n}\n"
    ".visible .entry splits(.param .u32 n) {\n"
    "  .reg .b32 %r<5>; .reg .pred %p<2>;\n  ld.param.u32 %r1, [n];\n  mov.u32 %r2, %tid.x;\n"
    "  setp.lt.u32 %p1, %r2, %r1;\n  @%p1 bra low;\n"
    "  add.s32 %r3, %r2, 1;\n  add.s32 %r3, %r3, 2;\n  add.s32 %r3, %r3, 3;\n  bra done;\n"
    "low:\n  add.s32 %r3, %r2, 4;\n  add.s32 %r3, %r3, 5;\n  add.s32 %r3, %r3, 6;\n"
    "done:\n  ret;\n}\n";

static struct exec_counts counts_of(const struct exec_module *module, const char *name, void *p,
                                    unsigned value)
{
    struct exec_device device = h200();
    struct test_call call = call_of(module, name, 1, 32, 0);
    call.config.device = &device;
    if (p)
        ARG(&call, void *, p);
    ARG(&call, unsigned, value);
    call_good(&call);
    return call.result.counts;
}

static void test_counts(void)
{
    /* stride in words: lines, sectors (a store's in part count twice), banks */
    static const struct {
        unsigned stride, lines, sectors, passes;
        bool part;
    } cases[] = {
        {0, 1, 1, 1, false}, {1, 1, 4, 1, false},    {2, 2, 8, 2, true},
        {8, 8, 32, 8, true}, {32, 32, 32, 32, true}, {33, 32, 32, 1, true},
    };
    struct exec_module *module = module_of(patterns);
    void *p = sample_floats(2048, 1);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct exec_counts n = counts_of(module, "strided", p, cases[i].stride);
        CHECK(n.pipe[PIPE_L1] == 2 * cases[i].lines);
        CHECK(n.unique_sectors == cases[i].sectors);
        CHECK(n.l2_sectors == cases[i].sectors * (cases[i].part ? 3 : 2));
        n = counts_of(module, "banks", NULL, cases[i].stride);
        CHECK(n.pipe[PIPE_SHARED] == cases[i].passes);
    }
    /* lanes that part issue one after another */
    struct exec_counts all = counts_of(module, "splits", NULL, 32);
    struct exec_counts none = counts_of(module, "splits", NULL, 0);
    struct exec_counts both = counts_of(module, "splits", NULL, 7);
    CHECK(none.issue == all.issue + 1 && both.issue == all.issue + 4);
    CHECK(both.latency > all.latency);
    exec_module_destroy(module);
    test_free_all();
}

/* Counts, and so times, do not depend on host threads nor on the run; more work takes longer. */
static void test_same(void)
{
    struct exec_device device = h200(), small = h200();
    small.sms = 1;
    struct sample sample = sample_make(2, false, 3);
    struct exec_counts first = {0};
    sample.call.config.device = &device;
    for (unsigned threads = 1; threads <= 4; threads++) {
        sample.call.config.threads = threads;
        call_good(&sample.call);
        if (threads == 1)
            first = sample.call.result.counts;
        CHECK(!memcmp(&first, &sample.call.result.counts, sizeof first));
    }
    CHECK(exec_model_time(&small, &first) > exec_model_time(&device, &first));
    sample.call.config.launch.grid.x /= 2;
    call_good(&sample.call);
    CHECK(exec_model_time(&device, &sample.call.result.counts) < exec_model_time(&device, &first));
    sample_drop(&sample);
}

int main(void)
{
    test_counts();
    test_same();
    test_order();
    return test_result();
}
