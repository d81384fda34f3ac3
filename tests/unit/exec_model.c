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

int main(void)
{
    test_order();
    return test_result();
}
