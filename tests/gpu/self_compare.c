/* A/A: a captured kernel timed against itself, through exactly the way that a variant goes, many
 * times; beside a neighbour that has the GPU in bursts, if asked. Nothing may be promoted.
 *
 *     self_compare [--count N] [--seconds S] [--load] CAPTURE
 *
 * Both sides are loaded from the capture's PTX. On the software GPU SOFTGPU_NOISE makes the clock
 * noisy. Prints the spread of the ratios; exit code 1: something was promoted. */
#include "replayed.h"

#include "gpu/real.h"

#include "tune/gates/gates.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 100000, BLOCKS = 1056, THREADS = 256 };

/* ---- the neighbour -----------------------------------------------------------------------------
 */

static const char busy_ptx[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry busy(.param .u64 at, .param .u32 turns)\n{\n"
    "\t.reg .pred %p<2>;\n\t.reg .b32 %r<6>;\n\t.reg .f32 %f<3>;\n\t.reg .b64 %rd<5>;\n"
    "\tld.param.u64 %rd1, [at];\n\tld.param.u32 %r1, [turns];\n\tmov.u32 %r2, %ctaid.x;\n"
    "\tmov.u32 %r3, %ntid.x;\n\tmov.u32 %r4, %tid.x;\n\tmad.lo.u32 %r5, %r2, %r3, %r4;\n"
    "\tmul.wide.u32 %rd2, %r5, 4;\n\tadd.u64 %rd3, %rd1, %rd2;\n\tld.global.f32 %f1, [%rd3];\n"
    "more:\n\tfma.rn.f32 %f1, %f1, %f1, %f1;\n\tadd.u32 %r1, %r1, -1;\n"
    "\tsetp.ne.u32 %p1, %r1, 0;\n\t@%p1 bra more;\n\tst.global.f32 [%rd3], %f1;\n\tret;\n}\n";

static bool good(CUresult result)
{
    return real_ok(result, "the neighbour");
}

/* Bursts of launches of changing length, and pauses, until its parent is gone. */
static void neighbour(void)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction busy;
    CUdeviceptr at;
    uint32_t turns;
    void *params[] = {&at, &turns};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (real_open(NULL) != KG_OK || !good(real.cuInit(0)) || !good(real.cuDeviceGet(&device, 0)) ||
        !good(real.cuDevicePrimaryCtxRetain(&context, device)) ||
        !good(real.cuCtxSetCurrent(context)) || !good(real.cuModuleLoadData(&module, busy_ptx)) ||
        !good(real.cuModuleGetFunction(&busy, module, "busy")) ||
        !good(real.cuMemAlloc_v2(&at, BLOCKS * THREADS * 4)))
        _exit(1);
    for (uint64_t i = 0;; i++) {
        uint64_t word = random_word(now_ns(), i);
        for (unsigned n = 0; n < word % 64; n++) {
            turns = 1000 + (uint32_t)(random_word(word, n) % 20000);
            if (!good(
                    real.cuLaunchKernel(busy, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL)))
                _exit(1);
        }
        if (!good(real.cuCtxSynchronize()))
            _exit(1);
        struct timespec nap = {0, (long)(word >> 32) % 5000000};
        nanosleep(&nap, NULL);
    }
}

/* ---- comparisons -------------------------------------------------------------------------------
 */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* What goes before timing in a verdict. */
static kg_status prepare(struct trial *trial)
{
    kg_status status = gate_replay(trial);
    if (status == KG_OK)
        status = gate_observed(trial);
    return status == KG_OK ? gate_fault(trial) : status;
}

static int compare(struct trial *trial, unsigned count, unsigned seconds)
{
    double *ratios = calloc(count, sizeof *ratios);
    unsigned promoted = 0, around = 0, done = 0, busy = 0;
    double pairs = 0;
    uint64_t begin = now_ns();
    for (; ratios && done < count && now_ns() - begin < seconds * UINT64_C(1000000000); done++) {
        trial->cold = trial->warm = (struct timing){0};
        trial->chosen = NULL;
        *trial->reason = 0;
        trial->seeds[3] = random_word(now_ns(), done) & ~UINT64_C(1);
        kg_status status = gate_time(trial);
        if (status != KG_OK && status != KG_SLOWER && status != KG_BUSY) {
            printf("comparison %u failed: %s\n", done, trial->reason);
            return 2;
        }
        ratios[done] = trial->chosen->ratio;
        pairs += trial->chosen->pairs;
        around += trial->chosen->low <= 1 && trial->chosen->high >= 1;
        busy += trial->chosen->pairs < TIMING_LEAST;
        promoted += status == KG_OK;
        if (status == KG_OK)
            printf("PROMOTED: ratio %.3f [%.3f, %.3f]\n", trial->chosen->ratio, trial->chosen->low,
                   trial->chosen->high);
    }
    if (!done)
        return 2;
    qsort(ratios, done, sizeof *ratios, by_value);
    printf("%u comparisons with itself, %u promoted, %u intervals hold 1, %u too disturbed; ratios "
           "%.3f %.3f %.3f (least, median, most), %.0f pairs and %.0f ms each, %.1f us a launch\n",
           done, promoted, around, busy, ratios[0], ratios[done / 2], ratios[done - 1],
           pairs / done, (double)(now_ns() - begin) * 1e-6 / done,
           trial->chosen->original_ns * 1e-3);
    free(ratios);
    return promoted != 0;
}

static int run(const char *capture, unsigned count, unsigned seconds)
{
    static struct replayed r;
    static struct trial trial;
    struct candidate same = {0};
    char path[] = "/tmp/self-compare-XXXXXX";
    if (replayed_open(&r, capture) != KG_OK || !r.job.image.ptx.size) {
        printf("%s: %s\n", capture, *r.reason ? r.reason : "no PTX");
        return 2;
    }
    const char *ptx = (const char *)r.job.image.ptx.data;
    int fd = mkstemp(path);
    same.ptx = ptx;
    same.entry = r.job.capture.entry;
    same.launch = r.job.capture.launch;
    r.request.ptx = path;
    trial.lines = open("/dev/null", O_WRONLY);
    if (fd < 0 || trial.lines < 0 || !write_all(fd, ptx, strlen(ptx)) ||
        getrandom(trial.seeds, sizeof trial.seeds, 0) != (ssize_t)sizeof trial.seeds)
        return 2;
    kg_status status = replayed_load(&r, ptx, &same);
    if (status == KG_OK) {
        trial.device = r.device;
        trial.memory = &r.memory;
        trial.original = trial.variant = same.launch;
        trial.app_ns = r.job.capture.app_ns;
        trial.evidence = json_object();
        if (getenv("SOFTGPU_NOISE"))
            r.device->exact_clock = false;
        status = prepare(&trial);
    }
    if (status != KG_OK)
        printf("%s: %s\n", r.job.capture.entry, *r.reason ? r.reason : trial.reason);
    int code = status == KG_TAKEN ? 3 : status != KG_OK ? 2 : compare(&trial, count, seconds);
    unlink(path);
    return code;
}

int main(int argc, char **argv)
{
    unsigned count = 200, seconds = 3600;
    pid_t load = 0;
    const char *capture = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--count") && i + 1 < argc)
            count = (unsigned)strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--seconds") && i + 1 < argc)
            seconds = (unsigned)strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--load"))
            load = -1;
        else
            capture = argv[i];
    }
    if (!capture || !count || count > MOST) {
        fprintf(stderr, "usage: self_compare [--count N] [--seconds S] [--load] CAPTURE\n");
        return 2;
    }
    if (load && !(load = fork()))
        neighbour();
    int code = run(capture, count, seconds);
    if (load > 0) {
        int how;
        if (waitpid(load, &how, WNOHANG) == load) {
            printf("the neighbour ended early\n");
            code = 2;
        }
        kill(load, SIGKILL);
    }
    return code;
}
