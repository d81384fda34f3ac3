/* What the preload costs a program that uses no GPU: the time from start to end of `bash -c :` and
 * of python3 with nothing to do, with and without it, 400 alternating runs each, medians.
 *
 * Not run by ctest: times on a busy machine prove nothing. */
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kgenrt.h"

enum { RUNS = 400 };

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

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(double *values)
{
    qsort(values, RUNS, sizeof *values, by_value);
    return (values[RUNS / 2 - 1] + values[RUNS / 2]) / 2;
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
    double a = median(without), b = median(with);
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

int main(void)
{
    char path[1024];
    bool holds = compare((char *[]){"/bin/bash", "-c", ":", NULL});
    if (python(path))
        holds &= compare((char *[]){path, "-I", "-S", "-c", "pass", NULL});
    return !holds;
}
