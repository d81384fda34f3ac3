/* What end-to-end tests share: a fresh cache folder, programs run under the preload on the software
 * GPU or, when the test program's first argument is "gpu", on the machine's GPU, and kgenrt's own
 * answers as JSON.
 *
 * KGENRT_BUILD_DIR and KGENRT_SOURCE_DIR override where build and sources stand, for builds that
 * were carried to another machine. */
#ifndef KG_E2E_H
#define KG_E2E_H

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

#ifndef E2E_OWN_PROGRAM /* 1: the test runs itself as the program, and no sample */
#define E2E_OWN_PROGRAM 0
#endif

static bool e2e_gpu;             /* on the machine's GPU */
static char e2e_cache[256];      /* the cache folder of this test */
static char e2e_output[1 << 20]; /* what the last program printed */

static inline const char *e2e_place(const char *variable, const char *otherwise)
{
    const char *value = getenv(variable);
    return value && *value ? value : otherwise;
}
#define E2E_BUILD e2e_place("KGENRT_BUILD_DIR", BUILD_DIR)
#define E2E_SOURCE e2e_place("KGENRT_SOURCE_DIR", SOURCE_DIR)

/* A call that returns 0, or the program ends: one that cannot go on without it. */
#define WELL(call)                                                                                 \
    do {                                                                                           \
        int result_ = (int)(call);                                                                 \
        if (!CHECK(result_ == 0)) {                                                                \
            fprintf(stderr, "result %d\n", result_);                                               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* A text that lives until the program ends; tests are short. */
__attribute__((format(printf, 1, 2))) static inline char *e2e_text(const char *format, ...)
{
    static struct kept {
        struct kept *before;
        char *text;
    } * last; /* all of them, so that the leak checker knows that they are wanted */
    struct kept *one = malloc(sizeof *one);
    va_list args;
    va_start(args, format);
    if (!one || vasprintf(&one->text, format, args) < 0)
        exit(1);
    va_end(args);
    one->before = last;
    last = one;
    return one->text;
}

static inline void e2e_fresh_cache(void)
{
    snprintf(e2e_cache, sizeof e2e_cache, "%s/kgenrt-e2e-XXXXXX", e2e_place("TMPDIR", "/tmp"));
    if (!mkdtemp(e2e_cache)) {
        perror(e2e_cache);
        exit(1);
    }
    setenv("KGENRT_CACHE", e2e_cache, 1);
    setenv("KGENRT_LOG_FILE", e2e_text("%s/log", e2e_cache), 1);
}

static inline void e2e_remove_cache(void)
{
    if (system(e2e_text("rm -rf '%s'", e2e_cache)))
        fprintf(stderr, "%s: not removed\n", e2e_cache);
}

/* First call of each test: device, library path, a cache folder of its own. */
static inline void e2e_begin(int argc, char **argv)
{
#ifdef __SANITIZE_THREAD__
    if (!E2E_OWN_PROGRAM)
        SKIP("the samples are not instrumented for threads");
#endif
    e2e_gpu = argc > 1 && !strcmp(argv[1], "gpu");
    if (e2e_gpu && access("/dev/nvidiactl", F_OK) && access("/dev/nvidia0", F_OK))
        SKIP("no NVIDIA GPU on this machine");
    if (!e2e_gpu) {
        bool driver = !access(e2e_text("%s/softgpu/libcuda.so.1", E2E_BUILD), R_OK);
        bool samples =
            E2E_OWN_PROGRAM || !access(e2e_text("%s/samples/polynomial-shared", E2E_BUILD), X_OK);
        if (!driver || (!samples && !access(NVCC, X_OK))) { /* skipped, it would look well */
            fprintf(stderr, "%s: the %s not built\n", E2E_BUILD,
                    driver ? "samples were" : "software GPU was");
            exit(1);
        }
        if (!samples)
            SKIP("no nvcc here: the samples were not built");
        const char *before = getenv("LD_LIBRARY_PATH");
        setenv("LD_LIBRARY_PATH", e2e_text("%s/softgpu:%s", E2E_BUILD, before ? before : ""), 1);
    }
    if (*PRELOAD_FIRST) { /* kgenrt run puts our library before the sanitizer's */
        setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
        setenv("LSAN_OPTIONS",
               e2e_text("print_suppressions=0:suppressions=%s/tests/lsan.supp", E2E_SOURCE), 1);
    }
    e2e_fresh_cache();
    setenv("KGENRT_DEADLINE", "300", 0);  /* a busy machine is no fault of a kernel */
    setenv("KGENRT_GPU_SHARE", "100", 0); /* tests have no time for manners, but their own */
    setenv("KGENRT_LOG", e2e_place("KGENRT_LOG", "info"), 1);
}

static inline double e2e_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Starts a program; environment: "NAME=value" strings to set in it, NULL-terminated, or NULL. */
static inline pid_t e2e_start(const char *const argv[], const char *const environment[], int out)
{
    pid_t pid = fork();
    if (pid)
        return pid;
    if (*PRELOAD_FIRST)
        setenv("LD_PRELOAD", PRELOAD_FIRST, 1);
    for (; environment && *environment; environment++)
        putenv((char *)(uintptr_t)*environment);
    if (out >= 0) {
        dup2(out, 1);
        dup2(out, 2);
    }
    execv(argv[0], (char *const *)(uintptr_t)argv);
    perror(argv[0]);
    _exit(127);
}

/* Runs a program to its end and keeps its output in e2e_output. Returns its exit status, 128 +
 * signal, or -1 when it had to be killed after `seconds`. */
static inline int e2e_run(const char *const argv[], const char *const environment[], double seconds)
{
    int pipes[2], status = -1;
    size_t used = 0;
    if (pipe2(pipes, O_CLOEXEC))
        return -1;
    pid_t pid = e2e_start(argv, environment, pipes[1]);
    close(pipes[1]);
    double end = e2e_now() + seconds;
    bool late = false;
    for (;;) {
        struct pollfd poll_one = {.fd = pipes[0], .events = POLLIN};
        int ready = poll(&poll_one, 1, 100);
        char chunk[4096];
        ssize_t got = ready > 0 ? read(pipes[0], chunk, sizeof chunk) : 0;
        if (got > 0 && used + (size_t)got < sizeof e2e_output) {
            memcpy(e2e_output + used, chunk, (size_t)got);
            used += (size_t)got;
        }
        if (ready > 0 && got <= 0)
            break;
        if (ready == 0 && waitpid(pid, &status, WNOHANG) == pid) {
            pid = 0; /* a child of it may hold the pipe: do not wait for that */
            break;
        }
        if (e2e_now() > end) {
            kill(pid, SIGKILL);
            late = true;
            break;
        }
    }
    e2e_output[used] = 0;
    close(pipes[0]);
    if (pid && waitpid(pid, &status, 0) != pid)
        return -1;
    if (late)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A sample's program for the device at hand. */
static inline const char *e2e_sample(const char *name)
{
    return e2e_text("%s/samples/%s%s", E2E_BUILD, name, e2e_gpu ? "" : "-shared");
}

static inline const char *e2e_cli(void)
{
    return e2e_text("%s/kgenrt", E2E_BUILD);
}

static inline const char *e2e_preload(void)
{
    return e2e_text("LD_PRELOAD=" PRELOAD_FIRST "%s/libkgenrt.so", E2E_BUILD);
}

static inline const char *e2e_replies(const char *sample)
{
    return e2e_text("KGENRT_MAKERS=recorded:%s/samples/%s/reply", E2E_SOURCE, sample);
}

/* One launch of the program's hot kernel, captured into the cache folder; NULL and a failed check
 * otherwise. more: another argument of the program, or NULL. On a machine so busy that the program
 * ends first, it runs longer. */
static inline const char *e2e_captured(const char *program, const char *more)
{
    static char path[512];
    bool found = false;
    int status = -1;
    for (int seconds = 3; !found && seconds < 100; seconds *= e2e_gpu ? 100 : 4) {
        status = e2e_run((const char *[]){e2e_cli(), "capture", "-o", e2e_cache, program,
                                          e2e_gpu ? "--launches" : "--seconds",
                                          e2e_gpu ? "30000" : e2e_text("%d", seconds), more, NULL},
                         NULL, 120);
        FILE *ls = popen(e2e_text("ls '%s'/*.kgcap 2>/dev/null | head -n 1", e2e_cache), "r");
        found = ls && fgets(path, sizeof path, ls);
        if (ls)
            pclose(ls);
    }
    CHECK(found && status == 0);
    path[strcspn(path, "\n")] = 0;
    return found ? path : NULL;
}

/* How long a worker needs to bring a sample's own reply to its verdict: on this machine, in this
 * build, now. What waits for workers waits for so and so many times that. */
static inline double e2e_verdict_seconds(const char *capture, const char *sample)
{
    double start = e2e_now();
    CHECK(capture && e2e_run((const char *[]){e2e_cli(), "worker", "--once", capture, NULL},
                             (const char *[]){e2e_replies(sample), NULL}, 400) == 0);
    double took = e2e_now() - start;
    fprintf(stderr, "%s: a verdict takes %.1f s\n", sample, took);
    return took;
}

/* How long a run of a sample must be for a swap well before its end. */
static inline double e2e_enough(const char *sample)
{
    if (e2e_gpu)
        return 40;
    e2e_fresh_cache();
    double took = e2e_verdict_seconds(e2e_captured(e2e_sample(sample), NULL), sample);
    e2e_remove_cache();
    return 16 + 5 * took;
}

/* Output of `kgenrt WORDS… --json`, parsed (status 3: nothing found); NULL and a failed check
 * otherwise. Ends with a NULL word. */
static inline json_t *e2e_json(const char *word, ...)
{
    const char *argv[16] = {e2e_cli(), word};
    int count = 2;
    va_list words;
    va_start(words, word);
    while (count < 14 && (argv[count] = va_arg(words, const char *)))
        count++;
    va_end(words);
    argv[count] = "--json";
    int code = e2e_run(argv, (const char *[]){"KGENRT_LOG=error", NULL}, 60);
    json_error_t error;
    json_t *out = code && code != 3 ? NULL : json_loads(e2e_output, 0, &error);
    if (!CHECK(out != NULL))
        fprintf(stderr, "kgenrt %s --json: exit status %d, output: %.2000s\n", word, code,
                e2e_output);
    return out;
}

static inline void e2e_show_log(void)
{
    fprintf(stderr, "---- log and output of the last program:\n%s\n", e2e_output);
    if (system(e2e_text("tail -n 60 '%s/log' '%s/worker.log' >&2", e2e_cache, e2e_cache)))
        fprintf(stderr, "(no log)\n");
}

#endif
