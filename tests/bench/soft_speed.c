/* How many PTX instructions x lanes a second and core the software GPU's executor runs on the
 * samples' kernels, originals and variants: one host thread, one warm-up launch, then launches for
 * half a second of this process's processor time (others may use the machine); instructions are
 * those that the executor counts (a guarded one that does not happen counts, labels and
 * declarations do not). Prints each kernel's rate and the geometric mean. A number of this machine,
 * not of any GPU. With `model` as argument the time model counts along, as in the driver. */
#include "unit/exec_samples.h"

#include <math.h>
#include <time.h>

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
    double product = 0;
    bool model = argc > 1 && !strcmp(argv[1], "model");
    struct exec_device device = {1, 2048, 32, 65536, 228 << 10, 1 << 10, 0, 0, {0}, 1, 1, 1, 1};
    exec_device_rates(&device, 9, 0);
    for (unsigned i = 0; i < 2 * SAMPLE_COUNT; i++) {
        struct sample sample = sample_make(i / 2, i % 2, 6);
        sample.call.config.threads = 1;
        sample.call.config.device = model ? &device : NULL;
        call_good(&sample.call);
        uint64_t start = cpu_ns(), end = start, instructions = 0, launches = 0;
        for (; end - start < 500000000; end = cpu_ns(), launches++) {
            call_good(&sample.call);
            instructions += sample.call.result.instructions;
        }
        double rate = 1e3 * (double)instructions / (double)(end - start);
        printf("%-10s %-8s %7.0f million instructions x lanes a second, %.2f ms a launch\n",
               sample_names[i / 2], i % 2 ? "variant" : "original", rate,
               (double)(end - start) * 1e-6 / (double)launches);
        product += log(rate) / (2 * SAMPLE_COUNT);
        sample_drop(&sample);
    }
    printf("geometric mean: %.0f million a second and core\n", exp(product));
    return test_failures != 0;
}
