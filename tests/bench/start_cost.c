/* What the preload costs a program at its start, in time and memory. One that uses no GPU: the time
 * from start to end of `bash -c :` and of python3 with nothing to do, with and without it, 400
 * alternating runs each, medians. One that does (with an empty function for a driver): to its first
 * launch, and its memory then, in the modes, with caches of none and of 1,000 variants.
 *
 * Not run by ctest by default: times on a busy machine prove nothing. */
#include "bench.h"

#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kgenrt.h"

enum { RUNS = 400, STARTS = 60, VARIANTS = 1000 };

static double once(char *const argv[], char *const environment[])
{
    pid_t pid;
    int status;
    uint64_t start = now_ns();
    if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environment) ||
        waitpid(pid, &status, 0) != pid || status) {
        fprintf(stderr, "%s does not run\n", argv[0]);
        exit(2);
    }
    return (double)(now_ns() - start) / 1000;
}

static bool compare(char *const argv[])
{
    static char *plain[] = {"PATH=/usr/bin:/bin", NULL};
    static char *ours[] = {"PATH=/usr/bin:/bin", "LD_PRELOAD=" BUILD_DIR "/libkgenrt.so", NULL};
    static double without[RUNS], with[RUNS];
    for (int i = 0; i < RUNS; i++) {
        without[i] = once(argv, plain);
        with[i] = once(argv, ours);
    }
    double a = quantile(without, RUNS, 0.5), b = quantile(with, RUNS, 0.5);
    printf("%-40s without %8.1f us, with %8.1f us, %+.1f us, ratio %.3f (limit 100 us: %s)\n",
           argv[0], a, b, b - a, b / a, b - a <= 100 ? "holds" : "BROKEN");
    return b - a <= 100;
}

/* The interpreter itself, not a script that chooses one. */
static bool python(char path[static 1024])
{
    FILE *child = popen("python3 -c 'import sys; print(sys.executable)' 2>/dev/null", "r");
    bool found = child && fscanf(child, "%1023s", path) == 1;
    return child && pclose(child) == 0 && found;
}

/* ---- a program that uses a GPU ------------------------------------------------------------------
 */

/* Resident and proportional memory, KiB. */
static void memory_of_this(long *rss, long *pss)
{
    char line[256];
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    *rss = *pss = 0;
    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "Rss: %ld", rss);
        sscanf(line, "Pss: %ld", pss);
    }
    if (file)
        fclose(file);
}

/* Prints the microseconds from `since` to after the first launch, and the memory a second later. */
static int user(uint64_t since, const char *stay)
{
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUdeviceptr memory;
    unsigned n = BENCH_N, m = BENCH_M;
    float x = bench_x;
    long rss, pss;
    void *params[] = {&memory, &memory, &memory, &n, &x, &m};
    WELL(cuInit(0));
    WELL(cuDevicePrimaryCtxRetain(&context, 0));
    WELL(cuCtxSetCurrent(context));
    WELL(cuMemAlloc_v2(&memory, 4096));
    WELL(cuModuleLoadData(&module, bench_ptx(0)));
    WELL(cuModuleGetFunction(&function, module, "work"));
    WELL(cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    double us = (double)(now_ns() - since) / 1000;
    if (stay)
        sleep(1);
    memory_of_this(&rss, &pss);
    printf("%.1f %ld %ld\n", us, rss, pss);
    return 0;
}

static double start_once(const char *preload, const char *mode, const char *cache, bool stay,
                         long *rss, long *pss)
{
    char command[2048];
    double us = 0;
    snprintf(
        command, sizeof command,
        "KGENRT_WORKER=off KGENRT_CACHE='%s' KGENRT_MODE=%s %s%s exec /proc/%d/exe user %llu%s",
        cache, mode, *preload ? "LD_PRELOAD=" : "", preload, (int)getpid(),
        (unsigned long long)now_ns(), stay ? " stay" : "");
    FILE *child = popen(command, "r");
    bool fine = child && fscanf(child, "%lf %ld %ld", &us, rss, pss) == 3;
    if (!child || pclose(child) || !fine) {
        fprintf(stderr, "failed: %s\n", command);
        exit(2);
    }
    return us;
}

static void gpu_program(void)
{
    static const char preload[] = BUILD_DIR "/libkgenrt.so";
    char none[] = "/tmp/kgenrt-none-XXXXXX", full[] = "/tmp/kgenrt-full-XXXXXX", command[512];
    static const struct {
        const char *what, *preload, *mode;
        bool full;
    } cases[] = {{"no preload", "", "off", false},
                 {"mode off", preload, "off", false},
                 {"observe", preload, "observe", false},
                 {"cached, no variants", preload, "cached", false},
                 {"tune, no variants", preload, "tune", false},
                 {"cached, 1,000 variants", preload, "cached", true}};
    enum { CASES = sizeof cases / sizeof *cases };
    static double times[CASES][STARTS];
    long rss[CASES], pss[CASES];
    if (!mkdtemp(none) || !mkdtemp(full))
        exit(2);
    snprintf(command, sizeof command, "KGENRT_CACHE='%s' /proc/%d/exe publish", full,
             (int)getpid());
    WELL(system(command));
    for (int run = 0; run < STARTS; run++)
        for (int i = 0; i < CASES; i++)
            times[i][run] = start_once(cases[i].preload, cases[i].mode, cases[i].full ? full : none,
                                       false, &rss[i], &pss[i]);
    for (int i = 0; i < CASES; i++) {
        (void)start_once(cases[i].preload, cases[i].mode, cases[i].full ? full : none, true,
                         &rss[i], &pss[i]);
        printf("%-24s to the first launch %6.2f ms (%+.2f), a second later resident %5.1f MiB "
               "(%+.1f), proportional %5.1f MiB (%+.1f)\n",
               cases[i].what, quantile(times[i], STARTS, 0.5) / 1000,
               (quantile(times[i], STARTS, 0.5) - quantile(times[0], STARTS, 0.5)) / 1000,
               (double)rss[i] / 1024, (double)(rss[i] - rss[0]) / 1024, (double)pss[i] / 1024,
               (double)(pss[i] - pss[0]) / 1024);
    }
    snprintf(command, sizeof command, "rm -rf '%s' '%s'", none, full);
    WELL(system(command));
}

int main(int argc, char **argv)
{
    char path[1024];
    if (argc > 2 && !strcmp(argv[1], "user"))
        return user(strtoull(argv[2], NULL, 10), argc > 3 ? argv[3] : NULL);
    if (argc > 1 && !strcmp(argv[1], "publish"))
        return bench_publish(VARIANTS, 1), 0;
    print_processor();
    bool holds = compare((char *[]){"/bin/bash", "-c", ":", NULL});
    if (python(path))
        holds &= compare((char *[]){path, "-I", "-S", "-c", "pass", NULL});
    gpu_program();
    return !holds;
}
