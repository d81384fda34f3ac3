/* Starts the worker from inside a stranger's process. The app must not notice: no SIGCHLD, nothing
 * for its wait() to find, no descriptor, no preload handed on. Hence two steps: a first child that
 * has no exit signal (only __WCLONE waits for it, and that is ours) and never executes anything; it
 * starts the second, which executes the worker, and ends at once, so that the worker is init's
 * child. Both borrow our memory until then, as after vfork. Never where orphans would come back to
 * the app: as process 1 or as a subreaper. */
#include "app/inside.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STARTS = 5, VARIABLES = 256, CHILD_STACK = 32768 };
#define PAUSE_NS UINT64_C(5000000000)

static atomic_bool wanted;
static char *environment[VARIABLES + 1]; /* filled at start, constant then */

/* ---- what the worker inherits -------------------------------------------------------------------
 */

static bool handed_on(const char *variable)
{
    static const char *const prefixes[] = {"KGENRT_", "XDG_", "SOFTGPU_"};
    static const char *const names[] = {
        "OPENAI_API_KEY=", "HOME=", "PATH=", "CUDA_VISIBLE_DEVICES=", "LD_LIBRARY_PATH="};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strncmp(variable, prefixes[i], strlen(prefixes[i])))
            return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(variable, names[i], strlen(names[i])))
            return true;
    return false;
}

void spawn_prepare(void)
{
    unsigned count = 0;
    for (char **variable = environ; variable && *variable && count < VARIABLES; variable++)
        if (handed_on(*variable) && (environment[count] = strdup(*variable)))
            count++;
}

/* ---- the two steps ------------------------------------------------------------------------------
 */

struct start {
    const char *binary;
    char *const *arguments;
    char *stack_end; /* of the second child */
    int error;       /* errno of what failed */
};

/* In the borrowed memory: only system calls, and none of the app's signal handlers may run. */
static int run_worker(void *self)
{
    struct start *start = self;
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t none;
    for (int i = 1; i < 65; i++)
        (void)sigaction(i, &standard, NULL); /* two real-time signals are libc's: they refuse */
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    execve(start->binary, start->arguments, environment);
    start->error = errno;
    _exit(127);
}

static int run_between(void *self)
{
    struct start *start = self;
    if (clone(run_worker, start->stack_end, CLONE_VM | CLONE_VFORK, start) < 0)
        start->error = errno;
    _exit(0);
}

int spawn_start(const char *binary, char *const arguments[])
{
    char *stacks = malloc(2 * CHILD_STACK);
    if (!stacks)
        return ENOMEM;
    struct start start = {
        .binary = binary, .arguments = arguments, .stack_end = stacks + 2 * CHILD_STACK};
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pid_t child = clone(run_between, stacks + CHILD_STACK, CLONE_VM | CLONE_VFORK, &start);
    int error = child < 0 ? errno : 0;
    if (child > 0)
        while (waitpid(child, NULL, __WCLONE) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    free(stacks); /* both children ended or execute something else */
    return error ? error : start.error;
}

/* ---- whether, and what --------------------------------------------------------------------------
 */

/* The folder of this library, in full: an app may have changed its folder since a relative
 * LD_PRELOAD. */
static bool beside_us(char path[static KG_PATH])
{
    Dl_info info;
    char line[KG_PATH + 128], file[KG_PATH] = "";
    if (!dladdr((void *)(uintptr_t)spawn_start, &info) || !info.dli_fname)
        return false;
    uintptr_t here = (uintptr_t)spawn_start, low, high;
    int at;
    FILE *maps = *info.dli_fname == '/' ? NULL : fopen("/proc/self/maps", "re");
    if (!maps)
        snprintf(file, sizeof file, "%s", info.dli_fname);
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %n", &low, &high, &at) == 2 && low <= here &&
            here < high)
            snprintf(file, sizeof file, "%.*s", (int)strcspn(line + at, "\n"), line + at);
    if (maps)
        fclose(maps);
    char *slash = strrchr(file, '/');
    if (!slash)
        return false;
    *slash = 0;
    return path_make(path, "%s/kgenrt", file) == KG_OK;
}

/* A worker holds DIR/worker.lock as long as it lives. */
static bool worker_runs(void)
{
    char path[KG_PATH];
    return path_make(path, "%s/worker.lock", app_dir()) == KG_OK && file_locked(path);
}

/* NULL, or why no worker may be started from here. */
static const char *forbidden(void)
{
    int subreaper = 0;
    if (!strcmp(options()->worker, "off"))
        return "KGENRT_WORKER=off";
    if (getpid() == 1)
        return "this program is process 1";
    if (!prctl(PR_GET_CHILD_SUBREAPER, &subreaper) && subreaper)
        return "this program is a subreaper";
    return NULL;
}

void spawn_wanted(void)
{
    if (!strcmp(options()->worker, "supervised"))
        return; /* `kgenrt run` sees to it */
    atomic_store_explicit(&wanted, true, memory_order_relaxed);
}

static bool start_now(void)
{
    char path[KG_PATH];
    const char *why = forbidden();
    if (why) {
        app_note("captures wait in the spool for a worker: %s", why);
        return false;
    }
    if (!beside_us(path) || access(path, X_OK)) {
        log_line(KG_WARN,
                 "no kgenrt program beside libkgenrt.so: captures wait in %s/spool; run "
                 "`kgenrt worker`",
                 app_dir());
        return false;
    }
    char *const arguments[] = {path, "worker", "--detach", NULL};
    int error = spawn_start(path, arguments);
    if (error)
        log_line(KG_WARN, "%s: cannot be started: %s", path, strerror(error));
    return !error;
}

/* Looked at again every few seconds, so that captures do not wait for ever when a worker died. */
void spawn_tick(void)
{
    static uint64_t last;
    static unsigned starts;
    uint64_t now = now_ns();
    if (!atomic_load_explicit(&wanted, memory_order_relaxed) || starts >= STARTS ||
        (last && now - last < PAUSE_NS))
        return;
    last = now;
    if (!spool_holds(NULL))
        atomic_store_explicit(&wanted, false, memory_order_relaxed);
    else if (!worker_runs())
        starts = start_now() ? starts + 1 : STARTS;
}
