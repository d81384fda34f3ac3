/* The worker: takes captures out of the spool, oldest first, and runs a job on each, until no app
 * is alive any more. It never opens the GPU driver: compiling and launching happen in children of
 * its own, so that nothing they do can end it. One a cache folder; a second one ends at once. */
#include "tune/again.h"
#include "tune/job.h"
#include "tune/manners.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_TRIES = 2, /* of a capture, over all workers */
    POLL_MS = 200,
    MOST_LOG = 1 << 20 /* bytes of DIR/worker.log; then it begins anew */
};
#define MATERIAL_SECONDS (30 * 24 * 3600)
static const uint64_t linger_ns = 2000000000, first_app_ns = 5000000000;
static const uint64_t first_pause_ns = 2000000000, longest_pause_ns = 60000000000;

/* ---- becoming a process of its own -------------------------------------------------------------
 */

static void reset_signals(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t none;
    for (int i = 1; i < NSIG; i++)
        (void)sigaction(i, &standard, NULL); /* some cannot be set: they refuse */
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_IGN); /* a model's connection may break */
}

/* Descriptors 0 and 1 on /dev/null; 2 on the worker's log, where there is room. */
static bool settle_descriptors(const char *dir)
{
    char path[KG_PATH];
    struct stat info;
    int null = open("/dev/null", O_RDWR), log = -1;
    if (path_make(path, "%s/worker.log", dir) == KG_OK)
        log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
    if (log >= 0 && !fstat(log, &info) && info.st_size > MOST_LOG && ftruncate(log, 0))
        log = -1;
    return null >= 0 && dup2(null, 0) >= 0 && dup2(null, 1) >= 0 &&
           dup2(log >= 0 ? log : null, 2) >= 0 && !close_range(3, ~0u, 0);
}

/* False in the process that called, whose part is over; true in the worker. A first fork leaves the
 * caller's process group and session, a second makes init the parent. *code: how the caller ends.
 */
static bool detach(const char *dir, int *code)
{
    pid_t child = fork();
    if (child) {
        int how = 0;
        while (child > 0 && waitpid(child, &how, 0) < 0 && errno == EINTR)
            ;
        *code = child < 0 || !WIFEXITED(how) || WEXITSTATUS(how);
        return false;
    }
    if (setsid() < 0)
        _exit(1);
    child = fork();
    if (child)
        _exit(child < 0);
    umask(077);
    reset_signals();
    if (!settle_descriptors(dir)) /* the folder stays: paths in options may be relative */
        _exit(1);
    return true;
}

/* DIR/worker.lock stays locked as long as this process lives; apps look whether it is. The file
 * says who holds it. Returns the descriptor, -1 when another worker has it. */
static int take_lock(const char *dir)
{
    char path[KG_PATH], text[32];
    if (path_make(path, "%s/worker.lock", dir) != KG_OK)
        return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        log_line(KG_ERROR, "%s: %s", path, strerror(errno));
        return -1;
    }
    bool held;
    int tries = 50; /* who asks whether a worker runs holds it for microseconds */
    while (!(held = !flock(fd, LOCK_EX | LOCK_NB)) && errno == EWOULDBLOCK && --tries)
        usleep(1000);
    if (!held) {
        log_line(errno == EWOULDBLOCK ? KG_INFO : KG_ERROR, "%s: %s", path,
                 errno == EWOULDBLOCK ? "another worker is at work" : strerror(errno));
        close(fd);
        return -1;
    }
    int length = snprintf(text, sizeof text, "%d\n", (int)getpid());
    if (ftruncate(fd, 0) || pwrite(fd, text, (size_t)length, 0) != length)
        log_line(KG_INFO, "%s: %s", path, strerror(errno));
    return fd;
}

/* ---- the spool ---------------------------------------------------------------------------------
 */

/* The oldest capture; false when there is none. */
static bool next_capture(const char *dir, char path[static KG_PATH])
{
    char folder[KG_PATH];
    struct timespec oldest = {0, 0};
    bool found = false;
    if (path_make(folder, "%s/spool", dir) != KG_OK)
        return false;
    DIR *list = opendir(folder);
    for (struct dirent *e; list && (e = readdir(list));) {
        struct stat info;
        if (!text_ends(e->d_name, CAPTURE_SUFFIX) ||
            fstatat(dirfd(list), e->d_name, &info, AT_SYMLINK_NOFOLLOW) || !S_ISREG(info.st_mode))
            continue;
        bool older = info.st_mtim.tv_sec < oldest.tv_sec || (info.st_mtim.tv_sec == oldest.tv_sec &&
                                                             info.st_mtim.tv_nsec < oldest.tv_nsec);
        if ((found && !older) || path_make(path, "%s/%s", folder, e->d_name) != KG_OK)
            continue;
        oldest = info.st_mtim;
        found = true;
    }
    if (list)
        closedir(list);
    return found;
}

/* Tries are counted in a file beside the capture before the job begins, so that one that kills its
 * worker is counted too. */
static kg_status count_try(const char *capture, unsigned *tries)
{
    char path[KG_PATH], text[16];
    struct kg_bytes before;
    kg_status status = path_make(path, "%s.tries", capture);
    if (status != KG_OK)
        return status;
    status = file_read(path, sizeof text, &before);
    *tries = status == KG_OK ? (unsigned)strtoul((const char *)before.data, NULL, 10) : 0;
    bytes_free(&before);
    int length = snprintf(text, sizeof text, "%u\n", ++*tries);
    return file_write(path, text, (size_t)length, 0600);
}

static void forget(const char *capture, bool remove_capture)
{
    char path[KG_PATH];
    if (remove_capture && unlink(capture) && errno != ENOENT)
        log_line(KG_WARN, "%s: %s", capture, strerror(errno));
    if (path_make(path, "%s.tries", capture) == KG_OK && unlink(path) && errno != ENOENT)
        log_line(KG_WARN, "%s: %s", path, strerror(errno));
}

/* The tries of the capture that is worked on. */
static struct {
    char path[KG_PATH], before; /* a digit: without this one */
    volatile sig_atomic_t counted;
} trying;

/* A worker that is told to end, as `kgenrt run` tells it when the program has ended, did not die of
 * what it had in hand: this was no try. */
static void told_to_end(int number)
{
    int fd = trying.counted ? open(trying.path, O_WRONLY | O_TRUNC | O_CLOEXEC) : -1;
    if (fd >= 0)
        (void)!write(fd, &trying.before, 1);
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

/* One capture; false when the spool itself cannot be worked with. *busy: it waits there, and this
 * was no try. */
static bool work_off(struct store *store, const char *dir, const char *capture, bool *busy)
{
    unsigned tries;
    *busy = false;
    if (count_try(capture, &tries) != KG_OK)
        return false;
    if (tries > MOST_TRIES) {
        log_line(KG_WARN, "%s: given up, %d workers died in it", capture, MOST_TRIES);
        forget(capture, true);
        return true;
    }
    trying.before = (char)('0' + tries - 1);
    trying.counted = path_make(trying.path, "%s.tries", capture) == KG_OK;
    kg_status status = job_run(store, dir, capture, false);
    trying.counted = false;
    *busy = status == KG_BUSY;
    if (*busy)
        forget(capture, false);
    else if (status == KG_OK || tries == MOST_TRIES)
        forget(capture, status != KG_OK);
    return true;
}

/* ---- the loop ----------------------------------------------------------------------------------
 */

static void nap(uint64_t ns)
{
    nanosleep(&(struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)}, NULL);
}

/* Where no replay may be made beside programs (MPS, exclusive mode, memory), captures wait in the
 * spool: while one of the programs lives, they are tried again at longer and longer intervals; then
 * they are left to a later worker. */
static int loop(struct store *store, const char *dir, bool once)
{
    char capture[KG_PATH];
    uint64_t until = now_ns() + first_app_ns; /* of an app, the first may be about to start */
    uint64_t pause = 0, paused_until = 0;
    for (;;) {
        bool alive = app_alive(dir), busy = false;
        if (now_ns() >= paused_until && next_capture(dir, capture)) {
            if (!work_off(store, dir, capture, &busy))
                return 1;
            pause = !busy                      ? 0
                    : !pause                   ? first_pause_ns
                    : pause < longest_pause_ns ? 2 * pause
                                               : pause;
            paused_until = now_ns() + pause;
            until = now_ns() + linger_ns;
            if (busy && (once || !alive)) {
                log_line(KG_WARN, "%s/spool: captures wait there; `kgenrt status` says for what",
                         dir);
                return once;
            }
            continue;
        }
        recheck_leftover(store, dir, alive);
        if (once)
            return 0;
        if (alive)
            until = now_ns() + linger_ns;
        if (now_ns() >= until)
            return 0;
        nap(POLL_MS * 1000000u);
    }
}

/* Folders of replays whose worker was killed; those that `kgenrt replay` runs just now are not
 * ours. */
static void sweep(const char *dir)
{
    char folder[KG_PATH], path[KG_PATH];
    static const char *const names[] = {"/request.json", "/code", "/ptx", "/child", "/yield", ""};
    if (path_make(folder, "%s/work", dir) != KG_OK)
        return;
    DIR *list = opendir(folder);
    for (struct dirent *e; list && (e = readdir(list));) {
        if (*e->d_name == '.' || path_make(path, "%s/%s/child", folder, e->d_name) != KG_OK ||
            file_locked(path))
            continue;
        for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
            if (path_make(path, "%s/%s%s", folder, e->d_name, names[i]) == KG_OK && remove(path) &&
                errno != ENOENT)
                log_line(KG_INFO, "%s: %s", path, strerror(errno));
    }
    if (list)
        closedir(list);
}

/* PTX that apps handed down (runtime/app/material.c) and that none has used for a month. */
static void sweep_material(const char *dir)
{
    char folder[KG_PATH];
    struct stat info;
    if (path_make(folder, "%s/material", dir) != KG_OK)
        return;
    DIR *list = opendir(folder);
    for (struct dirent *e; list && (e = readdir(list));)
        if (!fstatat(dirfd(list), e->d_name, &info, AT_SYMLINK_NOFOLLOW) && S_ISREG(info.st_mode) &&
            time(NULL) - info.st_mtime > MATERIAL_SECONDS && unlinkat(dirfd(list), e->d_name, 0) &&
            errno != ENOENT)
            log_line(KG_INFO, "%s/%s: %s", folder, e->d_name, strerror(errno));
    if (list)
        closedir(list);
}

static int run(const struct worker_config *config, const char *dir)
{
    struct store *store;
    kg_status status = store_open(dir, false, &store);
    if (status != KG_OK) {
        log_line(KG_ERROR, "%s: the store cannot be used: %s", dir, status_text(status));
        return 1;
    }
    sweep(dir);
    sweep_material(dir);
    kept_trim(dir, "");
    int code;
    if (config->capture)
        code = job_run(store, dir, config->capture, true) != KG_OK;
    else
        code = loop(store, dir, config->once);
    store_close(store);
    return code;
}

int worker_main(const struct worker_config *config)
{
    const char *dir = cache_dir();
    int code = 0;
    if (!*dir || dir_make(dir) != KG_OK) {
        log_line(KG_ERROR, "%s: no cache folder to work in; set KGENRT_CACHE", *dir ? dir : "-");
        return 1;
    }
    if (config->detach && !detach(dir, &code))
        return code;
    unsetenv("LD_PRELOAD"); /* children must not tune themselves */
    unsetenv("LD_AUDIT");
    int lock = take_lock(dir);
    if (lock < 0)
        return 1;
    (void)signal(SIGTERM, told_to_end);
    errno = 0;
    if (nice(10) == -1 && errno)
        log_line(KG_INFO, "nice: %s", strerror(errno));
    code = run(config, dir);
    close(lock);
    return code;
}
