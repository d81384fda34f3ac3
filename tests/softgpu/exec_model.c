/* From counts of a launch to modelled time: the formula that exec_model.h states. */
#include "exec_core.h"

#include <math.h>

static const struct {
    int major, minor;
    uint32_t l1_kib;
} models[] = {{9, 0, 256}, {8, 0, 192}, {8, 9, 128}, {7, 5, 96}};

enum { MODELS = sizeof models / sizeof *models };

/* Of each model, in hundredths of a warp instruction a clock and SM; tensor: multiply-adds of
 * halves a clock / 10. */
static const uint32_t rates[PIPE_COUNT][MODELS] = {
    [PIPE_INT] = {200, 200, 200, 200},
    [PIPE_FLOAT] = {400, 200, 400, 200},
    [PIPE_DOUBLE] = {200, 100, 6, 6},
    [PIPE_SPECIAL] = {50, 50, 50, 50},
    [PIPE_TENSOR] = {204800, 102400, 51200, 51200},
    [PIPE_L1] = {100, 100, 100, 50},
    [PIPE_SHARED] = {100, 100, 100, 50},
    [PIPE_CONST] = {50, 50, 50, 50},
    [PIPE_ATOMIC] = {100, 100, 100, 50},
};

bool exec_device_rates(struct exec_device *device, int major, int minor)
{
    unsigned at = 0;
    while (at < MODELS && (models[at].major != major || models[at].minor != minor))
        at++;
    bool known = at < MODELS;
    if (!known)
        at = 0;
    for (unsigned i = 0; i < PIPE_COUNT; i++)
        device->rate[i] = rates[i][at];
    device->issue = 400;
    device->l1_bytes = models[at].l1_kib << 10;
    return known;
}

uint32_t model_resident(const struct exec_device *device, uint32_t threads, uint32_t registers,
                        uint32_t shared)
{
    uint32_t warps = (threads + WARP - 1) / WARP, most = device->sm_blocks;
    uint32_t by_threads = device->sm_threads / (warps * WARP);
    /* registers are handed out to warps, 256 at a time */
    uint32_t by_registers = device->sm_registers / (warps * ((registers * WARP + 255) & ~255u));
    uint32_t by_shared = device->sm_shared / (shared + device->reserved_shared + 1);
    most = by_threads < most ? by_threads : most;
    most = by_registers < most ? by_registers : most;
    most = by_shared < most ? by_shared : most;
    return most ? most : 1;
}

uint64_t exec_model_time(const struct exec_device *device, const struct exec_counts *counts)
{
    double sum = 0, sms = device->sms, clocks, bound;
    double period = 1e9 / (double)device->clock_khz; /* picoseconds */
#define ADD(value) (bound = (value), bound *= bound, sum += bound * bound)
    ADD((double)counts->issue * 100 / device->issue / sms);
    for (unsigned i = 1; i < PIPE_COUNT; i++)
        ADD((double)counts->pipe[i] * 100 / device->rate[i] / sms);
    ADD((double)counts->latency / counts->resident / sms);
    clocks = sqrt(sqrt(sum));
    sum = 0;
    ADD(clocks * period);
    ADD((double)counts->l2_sectors * 32 * 1e6 / (double)device->l2_rate);
    double dram = (double)counts->unique_sectors, footprint = dram * 32;
    if (footprint > (double)device->l2_bytes && counts->l2_sectors > counts->unique_sectors)
        dram += (double)(counts->l2_sectors - counts->unique_sectors) *
                (1 - (double)device->l2_bytes / footprint);
    ADD(dram * 32 * 1e6 / (double)device->dram_rate);
#undef ADD
    return (uint64_t)sqrt(sqrt(sum));
}
