/* The edge's end-to-end tests run themselves again under the preload, one scenario a child, against
 * the fake driver. */
#ifndef KG_EDGE_CHILD_H
#define KG_EDGE_CHILD_H

#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#define LIBRARY BUILD_DIR "/libkgenrt.so"
#define PRELOAD PRELOAD_FIRST LIBRARY
#define FAKE BUILD_DIR "/fake"

#if defined(__SANITIZE_THREAD__)
#define PRELOADABLE false /* its runtime must come with the program */
#else
#define PRELOADABLE true
#endif

struct scenario {
    const char *name;
    void (*run)(void);
    const char *preload;   /* LD_PRELOAD */
    const char *libraries; /* LD_LIBRARY_PATH */
};

static inline void child_environment(const char *preload, const char *libraries)
{
    setenv("LD_PRELOAD", preload, 1);
    setenv("LD_LIBRARY_PATH", libraries, 1);
    setenv("KGENRT_WORKER", "off", 1);
    /* a scenario may put a library before the sanitizer's, and shells leak */
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0", 1);
}

static inline int child_status(pid_t pid)
{
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A cache folder that goes with the test. */
static inline void fresh_cache(void)
{
    char path[] = "/tmp/kgenrt-edge-XXXXXX";
    if (!mkdtemp(path)) {
        perror(path);
        exit(1);
    }
    setenv("KGENRT_CACHE", path, 1);
}

static inline void remove_cache(void)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", getenv("KGENRT_CACHE"));
    if (system(command))
        fprintf(stderr, "%s: failed\n", command);
}

/* main of such a test. */
static inline int scenarios_run(int argc, char **argv, const struct scenario *list, unsigned count)
{
    for (unsigned i = 0; argc > 1 && i < count; i++)
        if (!strcmp(argv[1], list[i].name)) {
            list[i].run();
            return test_result();
        }
    if (!PRELOADABLE)
        SKIP("a library instrumented for threads cannot be preloaded");
    fresh_cache();
    for (unsigned i = 0; i < count; i++) {
        pid_t pid = fork();
        if (!pid) {
            child_environment(list[i].preload, list[i].libraries);
            execl("/proc/self/exe", argv[0], list[i].name, NULL);
            _exit(126);
        }
        fprintf(stderr, "-- %s\n", list[i].name);
        CHECK(child_status(pid) == 0);
    }
    remove_cache();
    return test_result();
}

#endif
