/* Runs a program with libkgenrt.so in it, and a worker beside it that ends with it. Signals
 * sent to this process go on to the program; those that a terminal sends reach it anyway. */
#include "capture.h"
#include "way.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_DEATHS = 8, GRACE_MS = 3000 };
static const uint64_t short_life_ns = 3000000000;

static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

struct watch {
    const struct start *start;
    struct way way;
    char self[KG_PATH];
    sigset_t before, ours;
    struct sigaction children; /* as this process was given it; the program gets it back */
    pid_t program, worker;     /* worker 0: none runs now */
    uint64_t worker_start;     /* now_ns */
    bool tried;                /* a worker was started */
    int deaths;                /* workers that were killed, or ended as soon as they began */
};

static bool set(const char *name, const char *value, bool over)
{
    return !value || !setenv(name, value, over);
}

/* In the child that becomes the program. */
static bool set_environment(const struct watch *watch)
{
    const struct start *start = watch->start;
    return way_environment(&watch->way) &&
           set("KGENRT_WORKER", start->worker ? "supervised" : "off", true) &&
           set("KGENRT_CACHE", start->cache, true) && set("KGENRT_MODE", start->mode, true) &&
           set("KGENRT_MAKERS", start->makers, true) &&
           set("KGENRT_HOT_LAUNCHES", start->eager ? "5" : NULL, false) &&
           set("KGENRT_HOT_SHARE", start->eager ? "1" : NULL, false);
}

static void become_program(const struct watch *watch, int tell)
{
    sigaction(SIGCHLD, &watch->children, NULL);
    sigprocmask(SIG_SETMASK, &watch->before, NULL);
    if (set_environment(watch))
        execvp(watch->start->program[0], watch->start->program);
    int error = errno;
    if (write(tell, &error, sizeof error) < 0)
        _exit(1);
    _exit(127);
}

/* The errno of a failed exec comes through a pipe that a successful one closes. */
static kg_status start_program(struct watch *watch, int *code)
{
    int pipes[2], error = 0;
    if (pipe2(pipes, O_CLOEXEC)) {
        failed("pipe: %s", strerror(errno));
        return KG_IO;
    }
    watch->program = fork();
    if (!watch->program)
        become_program(watch, pipes[1]);
    if (watch->program < 0)
        error = errno;
    close(pipes[1]);
    while (watch->program > 0 && read(pipes[0], &error, sizeof error) < 0 && errno == EINTR)
        ;
    close(pipes[0]);
    if (!error)
        return KG_OK;
    if (watch->program > 0)
        waitpid(watch->program, NULL, 0);
    const char *name = watch->start->program[0];
    bool here = error == ENOENT && !strchr(name, '/') && !access(name, F_OK);
    failed("%s: cannot be started: %s%s%s", name, strerror(error),
           here ? "; the one in this folder is ./" : "", here ? name : "");
    *code = error == ENOENT ? 127 : 126;
    return KG_BAD_INPUT;
}

/* Its own process group, so that it and its children are ended together; if this process is killed,
 * it ends too. */
static void become_worker(const struct watch *watch, pid_t parent)
{
    char *const arguments[] = {(char *)watch->self, "worker", NULL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigprocmask(SIG_SETMASK, &watch->before, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(0);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
    }
    unsetenv("LD_PRELOAD");
    unsetenv("LD_AUDIT");
    if (set("KGENRT_CACHE", watch->start->cache, true) &&
        set("KGENRT_MAKERS", watch->start->makers, true))
        execv(watch->self, arguments);
    _exit(127);
}

static void start_worker(struct watch *watch)
{
    watch->tried = true;
    watch->worker_start = now_ns();
    pid_t parent = getpid();
    watch->worker = fork();
    if (!watch->worker)
        become_worker(watch, parent);
    if (watch->worker > 0)
        setpgid(watch->worker,
                watch->worker); /* here too: it may be stopped before it gets there */
    if (watch->worker < 0) {
        failed("the worker cannot be started: %s; the program runs on", strerror(errno));
        watch->worker = 0;
        watch->deaths = MOST_DEATHS;
    }
}

static void stop_worker(struct watch *watch)
{
    if (!watch->worker)
        return;
    kill(-watch->worker, SIGTERM);
    for (int waited = 0; waited < GRACE_MS; waited += 20) {
        if (waitpid(watch->worker, NULL, WNOHANG) == watch->worker) {
            kill(-watch->worker, SIGKILL); /* what it may have left in its group */
            return;
        }
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
    kill(-watch->worker, SIGKILL);
    waitpid(watch->worker, NULL, 0);
}

static bool spool_waits(const struct start *start)
{
    char path[KG_PATH];
    struct dirent *entry;
    bool waits = false;
    if (path_make(path, "%s/spool", start->cache ? start->cache : cache_dir()) != KG_OK)
        return false;
    DIR *folder = opendir(path);
    while (folder && !waits && (entry = readdir(folder)))
        waits = text_ends(entry->d_name, CAPTURE_SUFFIX);
    if (folder)
        closedir(folder);
    return waits;
}

/* True when the program has ended. */
static bool reap(struct watch *watch, int *code)
{
    int state;
    if (watch->worker && waitpid(watch->worker, &state, WNOHANG) == watch->worker) {
        if (WIFSIGNALED(state))
            log_line(KG_INFO, "the worker was ended by signal %d", WTERMSIG(state));
        watch->worker = 0;
        if (WIFSIGNALED(state) || now_ns() - watch->worker_start < short_life_ns)
            watch->deaths++;
    }
    if (waitpid(watch->program, &state, WNOHANG) != watch->program)
        return false;
    *code = WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
    return true;
}

/* Until the program ends. A worker that was killed, or left for want of work, is started again when
 * there is work; not for ever. */
static void supervise(struct watch *watch, int *code)
{
    const struct timespec second = {1, 0};
    while (!reap(watch, code)) {
        if (watch->start->worker && !watch->worker && watch->deaths < MOST_DEATHS &&
            (!watch->tried || spool_waits(watch->start)))
            start_worker(watch);
        way_watch(&watch->way, watch->program);
        siginfo_t info;
        int number = sigtimedwait(&watch->ours, &info, &second);
        if (number > 0 && number != SIGCHLD && info.si_code <= 0)
            kill(watch->program, number);
    }
}

static kg_status prepare(struct watch *watch)
{
    kg_status status = place_self(watch->self);
    if (status == KG_OK)
        status = place_library(watch->way.library);
    if (status == KG_NOT_FOUND)
        failed("libkgenrt.so is neither beside %s nor in ../lib: install it there", watch->self);
    if (status != KG_OK)
        return status;
    status = way_choose(&watch->way, watch->start->program[0], watch->start->via);
    if (status != KG_OK)
        return status;
    sigemptyset(&watch->ours);
    sigaddset(&watch->ours, SIGCHLD);
    for (unsigned i = 0; i < sizeof forwarded / sizeof *forwarded; i++)
        sigaddset(&watch->ours, forwarded[i]);
    sigprocmask(SIG_BLOCK, &watch->ours, &watch->before);
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, &watch->children);
    return KG_OK;
}

kg_status start_run(struct start *start)
{
    struct watch watch = {.start = start};
    kg_status status = prepare(&watch);
    if (status == KG_OK)
        status = start_program(&watch, &start->code);
    if (status != KG_OK)
        return status;
    supervise(&watch, &start->code);
    stop_worker(&watch);
    way_report(&watch.way);
    return KG_OK;
}
