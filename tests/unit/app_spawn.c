/* Starting the worker does not disturb the app: no SIGCHLD, nothing for wait() to find, neither its
 * preload nor its descriptors, signal mask or handlers handed on; and no start where orphans would
 * come back to the app. */
#include "app_fixture.h"

#include "app/spawn.c"

#include <fcntl.h>
#include <sys/file.h>

static volatile sig_atomic_t signals;
static char output[600], program[600];

static void on_child(int number)
{
    signals++;
}

static void program_make(const char *text)
{
    CHECK(file_write(program, text, strlen(text), 0700) == KG_OK);
    unlink(output);
}

/* Waits for the program's output, which it renames into place. */
static bool output_read(struct kg_bytes *out)
{
    for (int i = 0; i < 500; i++) {
        if (file_read(output, 1 << 20, out) == KG_OK)
            return true;
        usleep(10000);
    }
    return false;
}

static void undisturbed(void)
{
    char text[2000];
    snprintf(text, sizeof text,
             "#!/bin/sh\n(env; echo parent=$PPID args=$*; grep Sig /proc/$$/status) >'%s.new'\n"
             "mv '%s.new' '%s'\nexit 3\n",
             output, output, output);
    program_make(text);
    setenv("LD_PRELOAD", "", 1);
    setenv("KGENRT_TEST", "kept", 1);
    setenv("HOMELESS", "dropped", 1);
    spawn_prepare();
    struct sigaction action = {.sa_handler = on_child};
    sigaction(SIGCHLD, &action, NULL);
    signal(SIGUSR1, SIG_IGN);
    char *const arguments[] = {program, "worker", "--detach", NULL};
    CHECK(spawn_start(program, arguments) == 0);
    errno = 0;
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    struct kg_bytes out = {0};
    if (CHECK(output_read(&out))) {
        const char *got = (const char *)out.data;
        char parent[32];
        snprintf(parent, sizeof parent, "parent=%d ", (int)getpid());
        CHECK(strstr(got, "KGENRT_TEST=kept") && strstr(got, "args=worker --detach"));
        CHECK(!strstr(got, "LD_PRELOAD") && !strstr(got, "HOMELESS") && !strstr(got, parent));
        CHECK(strstr(got, "SigBlk:\t0000000000000000") && strstr(got, "SigIgn:\t0000000000000000"));
    }
    bytes_free(&out);
    usleep(100000); /* it has ended by now */
    errno = 0;
    CHECK(wait(NULL) == -1 && errno == ECHILD && !signals);
    sigset_t mask;
    CHECK(!pthread_sigmask(SIG_BLOCK, NULL, &mask) && !sigismember(&mask, SIGUSR2));
    CHECK(!sigaction(SIGCHLD, NULL, &action) && action.sa_handler == on_child);
}

/* A child of the app's own stays the app's. */
static void own_child(void)
{
    char *const arguments[] = {program, NULL};
    pid_t child = fork();
    if (!child) {
        usleep(200000);
        _exit(5);
    }
    CHECK(spawn_start(program, arguments) == 0);
    int status = 0;
    CHECK(wait(&status) == child && WEXITSTATUS(status) == 5 && signals == 1);
}

static void failures(void)
{
    char *const arguments[] = {program, NULL};
    CHECK(spawn_start("/nonexistent/kgenrt", arguments) == ENOENT);
    CHECK(!chmod(program, 0600) && spawn_start(program, arguments) == EACCES);
}

static void manners(void)
{
    char path[KG_PATH], self[256];
    CHECK(forbidden() && strstr(forbidden(), "KGENRT_WORKER=off"));
    CHECK(beside_us(path)); /* this test's folder: it is linked in statically here */
    app_program(self);
    char *slash = strrchr(self, '/');
    CHECK(slash && !strncmp(path, self, (size_t)(slash - self) + 1) &&
          !strcmp(path + (slash - self), "/kgenrt"));
}

static void locks(void)
{
    char path[KG_PATH];
    CHECK(!worker_runs());
    CHECK(path_make(path, "%s/worker.lock", app_dir()) == KG_OK);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    CHECK(!worker_runs() && !flock(fd, LOCK_EX) && worker_runs());
    close(fd);
    CHECK(!worker_runs());
}

static void subreaper(void)
{
    pid_t child = fork(); /* options are read once: in a child they are read anew */
    if (!child) {
        setenv("KGENRT_WORKER", "auto", 1);
        bool before = forbidden() == NULL;
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        const char *why = forbidden();
        _exit(!(before && why && strstr(why, "subreaper")));
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && !status);
}

/* Work waits, but whoever supervises this program has a worker for it: nothing is started or said.
 */
static void supervised(void)
{
    pid_t child = fork();
    if (!child) {
        char path[KG_PATH];
        struct kg_id kernel = {{1}};
        fixture_cache("app_spawn_supervised");
        setenv("KGENRT_WORKER", "supervised", 1);
        fixture_open();
        atomic_store(&mode, KG_MODE_TUNE);
        bool good = folders_make() && spool_path(&kernel, path) == KG_OK &&
                    file_write(path, "work", 4, 0600) == KG_OK && spool_holds(NULL);
        spawn_wanted();
        spawn_tick();
        _exit(!good || notes.count || atomic_load(&wanted));
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && !status);
}

int main(void)
{
#ifdef __SANITIZE_THREAD__
    SKIP("the thread sanitizer's own record of signal handlers is shared with a vfork child");
#endif
    snprintf(output, sizeof output, "%s.out", fixture_cache("app_spawn"));
    snprintf(program, sizeof program, "%s.program", getenv("KGENRT_CACHE"));
    subreaper();
    supervised();
    signals = 0;
    fixture_begin("app_spawn", KG_MODE_TUNE);
    undisturbed();
    own_child();
    failures();
    manners();
    locks();
    return test_result();
}
