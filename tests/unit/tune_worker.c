/* The worker's manners without a GPU: one at a time, a broken capture is tried twice and given up,
 * also when each try kills the worker, but not when the worker is told to end, and a detached
 * worker keeps nothing of its starter. */
#include "test.h"
#include "tune/tune.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char dir[] = "/tmp/kgenrt-worker-XXXXXX";

static const char *in_dir(const char *name)
{
    static char path[KG_PATH];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static bool exists(const char *name)
{
    return !access(in_dir(name), F_OK);
}

static void put_broken(const char *name)
{
    CHECK(file_write(in_dir(name), "no capture", 10, 0600) == KG_OK);
}

/* In a process of its own, as the tool has it; returns its wait status. */
static int worker(struct worker_config config, const char *die)
{
    int how = 0;
    pid_t child = fork();
    if (!child) {
        if (die)
            setenv("KGENRT_TEST_DIE", die, 1);
        _exit(worker_main(&config));
    }
    CHECK(waitpid(child, &how, 0) == child);
    return how;
}

static void broken_captures(void)
{
    put_broken("spool/a.kgcap");
    put_broken("spool/b.kgcap.1.2.tmp"); /* being written: none of the worker's business */
    int how = worker((struct worker_config){.once = true}, NULL);
    CHECK(WIFEXITED(how) && !WEXITSTATUS(how));
    CHECK(!exists("spool/a.kgcap") && !exists("spool/a.kgcap.tries"));
    CHECK(exists("spool/b.kgcap.1.2.tmp"));
}

static void killed_twice(void)
{
    put_broken("spool/c.kgcap");
    for (int i = 0; i < 2; i++) {
        int how = worker((struct worker_config){.once = true}, "open");
        CHECK(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
        CHECK(exists("spool/c.kgcap"));
    }
    int how = worker((struct worker_config){.once = true}, "open");
    CHECK(WIFEXITED(how) && !WEXITSTATUS(how)); /* it is not even opened a third time */
    CHECK(!exists("spool/c.kgcap") && !exists("spool/c.kgcap.tries"));
}

/* As often as programs end before the verdict; and a death counts all the same. */
static void told_to_end(void)
{
    put_broken("spool/e.kgcap");
    for (int i = 0; i < 4; i++) {
        int how = worker((struct worker_config){.once = true}, "end:open");
        CHECK(WIFSIGNALED(how) && WTERMSIG(how) == SIGTERM && exists("spool/e.kgcap"));
        if (i == 1)
            CHECK(WIFSIGNALED(worker((struct worker_config){.once = true}, "open")));
    }
    CHECK(WIFSIGNALED(worker((struct worker_config){.once = true}, "open")));
    CHECK(exists("spool/e.kgcap"));
    CHECK(!worker((struct worker_config){.once = true}, "open") && !exists("spool/e.kgcap"));
}

static void one_at_a_time(void)
{
    int fd = open(in_dir("worker.lock"), O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB));
    put_broken("spool/d.kgcap");
    int how = worker((struct worker_config){.once = true}, NULL);
    CHECK(WIFEXITED(how) && WEXITSTATUS(how) == 1 && exists("spool/d.kgcap"));
    close(fd);
    CHECK(!worker((struct worker_config){.once = true}, NULL) && !exists("spool/d.kgcap"));
}

/* The pid in the lock file while somebody holds the lock, else 0. */
static int holder(void)
{
    struct kg_bytes text = {0};
    int fd = open(in_dir("worker.lock"), O_RDONLY), pid = 0;
    if (fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK &&
        file_read(in_dir("worker.lock"), 64, &text) == KG_OK)
        pid = atoi((const char *)text.data);
    bytes_free(&text);
    if (fd >= 0)
        close(fd);
    return pid;
}

static bool wait_for_holder(bool wanted)
{
    struct timespec nap = {0, 20000000};
    for (int i = 0; i < 1000; i++) {
        if ((holder() != 0) == wanted)
            return true;
        nanosleep(&nap, NULL);
    }
    return false;
}

/* An app lives (its recorder is locked): the worker stays; it ends soon after the app. */
static void detached(void)
{
    int pipes[2], app = open(in_dir("flight/1-1.kgf"), O_RDWR | O_CREAT, 0600);
    CHECK(app >= 0 && !flock(app, LOCK_EX | LOCK_NB));
    CHECK(!pipe(pipes));
    uint64_t before = now_ns();
    CHECK(!worker((struct worker_config){.detach = true}, NULL));
    CHECK(now_ns() - before < 2000000000u);
    CHECK(wait_for_holder(true));
    int pid = holder();
    CHECK(pid > 0 && getsid(pid) != getsid(0) && getpgid(pid) != getpgid(0));
    close(pipes[1]);
    char byte;
    CHECK(read(pipes[0], &byte, 1) == 0); /* nobody else holds the writing end */
    close(pipes[0]);
    struct timespec longer_than_first_grace = {6, 0};
    nanosleep(&longer_than_first_grace, NULL);
    CHECK(holder() == pid);
    close(app);
    CHECK(wait_for_holder(false));
}

int main(void)
{
    CHECK(mkdtemp(dir) != NULL);
    setenv("KGENRT_CACHE", dir, 1);
    CHECK(dir_make(in_dir("spool")) == KG_OK && dir_make(in_dir("flight")) == KG_OK);
    broken_captures();
    killed_twice();
    told_to_end();
    one_at_a_time();
    detached();
    char command[KG_PATH + 16];
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK(system(command) == 0);
    return test_result();
}
