/* kgenrt run and capture: the program is as it is without them (output, status, signals,
 * environment), and no worker outlives it. No GPU needed. */
#include "cli.h"

#include <signal.h>
#include <sys/file.h>
#include <time.h>

static const char *dir;

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void statuses(void)
{
    CHECK(cli_run(dir, "$K run true") == 0 && !*cli.out && !*cli.errors);
    CHECK(cli_run(dir, "$K run sh -c 'echo out; echo err >&2; exit 7'") == 7);
    CHECK(!strcmp(cli.out, "out\n") && !strcmp(cli.errors, "err\n"));
    CHECK(cli_run(dir, "$K run no-such-program") == 127 && cli_errs("no-such-program"));
    CHECK(cli_run(dir, "$K run /etc/passwd") == 126 && cli_errs("/etc/passwd"));
    CHECK(cli_run(dir, "$K run sh -c 'kill -USR2 $$'") == 128 + SIGUSR2);
    /* Arguments that look like options are the program's. */
    CHECK(cli_run(dir, "$K run --mode observe sh -c 'echo $1$2' x --help --json") == 0 &&
          cli_says("--help--json"));
    CHECK(cli_run(dir, "echo text | $K run cat") == 0 && cli_says("text"));
}

static void environment(void)
{
    CHECK(cli_run(dir, "$K run sh -c 'echo $LD_PRELOAD'") == 0 && cli_says("libkgenrt.so\n"));
    CHECK(cli_run(dir, "LD_PRELOAD=libm.so.6 $K run sh -c 'echo $LD_PRELOAD'") == 0 &&
          cli_says("libkgenrt.so:libm.so.6\n"));
    CHECK(cli_run(dir, "$K run -m cached -M rules sh -c 'echo $KGENRT_MODE $KGENRT_MAKERS'") == 0 &&
          cli_says("cached rules\n"));
    CHECK(cli_run(dir, "$K run --cache /x/y sh -c 'echo $KGENRT_CACHE'") == 0 &&
          cli_says("/x/y\n"));
    CHECK(cli_run(dir, "$K run sh -c 'trap \"\" CHLD; true'") == 0);
    CHECK(cli_run(dir, "sh -c 'trap \"\" CHLD; exec $K run sh -c \"exit 3\"'") == 3);
}

/* The tool elsewhere: the library in ../lib is found, none at all is said before anything runs. */
static void places(void)
{
    CHECK(cli_run(dir,
                  "mkdir -p %s/p/bin %s/p/lib && cp $K %s/p/bin && %s/p/bin/kgenrt run echo ran",
                  dir, dir, dir, dir) == 125);
    CHECK(cli_errs("libkgenrt.so is neither") && !strstr(cli.out, "ran"));
    CHECK(cli_run(dir, "cp " BUILD_DIR "/libkgenrt.so %s/p/lib && %s/p/bin/kgenrt run echo ran",
                  dir, dir) == 0 &&
          cli_says("ran"));
    CHECK(cli_run(dir, "mv %s/p '%s/p q' && '%s/p q/bin/kgenrt' run true", dir, dir, dir) == 125 &&
          cli_errs("a space"));
}

/* True if a worker of our cache holds its lock. */
static bool worker_runs(void)
{
    char path[KG_PATH];
    snprintf(path, sizeof path, "%s/cache/worker.lock", dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool runs = flock(fd, LOCK_SH | LOCK_NB) != 0;
    close(fd);
    return runs;
}

static pid_t start(const char *const arguments[])
{
    pid_t child = fork();
    if (!child) {
        execv(BUILD_DIR "/kgenrt", (char *const *)arguments);
        _exit(99);
    }
    return child;
}

static int finish(pid_t child)
{
    int state = -1;
    CHECK(waitpid(child, &state, 0) == child);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
}

/* A signal for us reaches the program, and its answer is the outcome. */
static void signals(void)
{
    const char *const sleeper[] = {"kgenrt", "run", "sleep", "60", NULL};
    const char *const catcher[] = {
        "kgenrt", "run", "sh", "-c", "trap 'exit 42' USR1; while :; do sleep 0.05; done", NULL};
    pid_t child = start(sleeper);
    pause_ms(400);
    CHECK(!kill(child, SIGTERM) && finish(child) == 128 + SIGTERM);
    child = start(catcher);
    pause_ms(400);
    CHECK(!kill(child, SIGUSR1) && finish(child) == 42);
}

/* The worker starts with the program and ends with it, or with a kgenrt run that is killed. */
static void worker(void)
{
    const char *const sleeper[] = {"kgenrt", "run", "sleep", "2", NULL};
    pid_t child = start(sleeper);
    bool seen = false;
    for (int i = 0; i < 100 && !seen; i++) {
        pause_ms(20);
        seen = worker_runs();
    }
    CHECK(seen);
    CHECK(finish(child) == 0 && !worker_runs());
    child = start(sleeper);
    for (int i = 0; i < 100 && !worker_runs(); i++)
        pause_ms(20);
    CHECK(worker_runs() && !kill(child, SIGKILL) && finish(child) == -SIGKILL);
    for (int i = 0; i < 250 && worker_runs(); i++)
        pause_ms(20);
    CHECK(!worker_runs());
    CHECK(cli_run(dir, "rm -rf %s/cache; $K run --mode cached true", dir) == 0 && !worker_runs());
    CHECK(cli_run(dir, "$K run sh -c 'echo worker $KGENRT_WORKER'") == 0);
    CHECK(cli_says("worker supervised"));
    CHECK(cli_run(dir, "$K run --mode cached sh -c 'echo worker $KGENRT_WORKER'") == 0);
    CHECK(cli_says("worker off"));
    CHECK(cli_run(dir, "rm -f %s/cache/worker.lock", dir) == 0);
    CHECK(cli_run(dir, "KGENRT_WORKER=off $K run true; ls %s/cache/worker.lock", dir) != 0);
}

/* Killed while there is work: another one takes its place. */
static void worker_again(void)
{
    const char *const sleeper[] = {"kgenrt", "run", "sleep", "6", NULL};
    char lock[KG_PATH], spooled[KG_PATH], first[32] = "", second[32] = "";
    snprintf(lock, sizeof lock, "%s/cache/worker.lock", dir);
    snprintf(spooled, sizeof spooled, "%s/cache/spool/x.kgcap", dir);
    pid_t child = start(sleeper);
    for (int i = 0; i < 100 && !worker_runs(); i++)
        pause_ms(20);
    cli_read(lock, first, sizeof first);
    CHECK(atoi(first) > 1 && !kill(atoi(first), SIGKILL));
    CHECK(cli_run(dir, "mkdir -p %s/cache/spool; echo no capture > %s", dir, spooled) == 0);
    for (int i = 0; i < 200 && !(worker_runs() && *second && strcmp(first, second)); i++) {
        pause_ms(20);
        cli_read(lock, second, sizeof second);
    }
    CHECK(worker_runs() && atoi(second) > 1 && atoi(second) != atoi(first));
    CHECK(!kill(child, SIGTERM) && finish(child) == 128 + SIGTERM && !worker_runs());
}

/* Nothing of the cache can be used: the program does not notice. */
static void unusable_cache(void)
{
    CHECK(cli_run(dir, "$K run --cache /etc/passwd/x sh -c 'echo fine; exit 4'") == 4 &&
          cli_says("fine"));
    CHECK(cli_run(dir, "$K run --cache /proc/none sh -c 'echo fine'") == 0 && cli_says("fine"));
}

static void capture(void)
{
    CHECK(cli_run(dir, "$K capture -o %s/captures sh -c 'echo ran $KGENRT_MODE $KGENRT_WORKER'",
                  dir) == 3);
    CHECK(cli_says("ran tune off") && cli_says("kgenrt saw no kernel"));
    CHECK(cli_run(dir, "ls -A %s/captures | wc -l", dir) == 0 && !strcmp(cli.out, "0\n"));
    CHECK(cli_run(dir, "$K capture --json -o %s/captures sh -c 'exit 6'", dir) == 3);
    json_t *root = cli_json();
    CHECK(json_integer_value(json_object_get(root, "program_status")) == 6);
    json_decref(root);
    CHECK(cli_run(dir, "$K capture -o %s/captures no-such-program", dir) == 127);
    CHECK(cli_run(dir, "$K capture -o /etc/passwd/x true") == 1);
}

int main(void)
{
    dir = cli_start("cli_run");
    /* In instrumented builds the preload comes before the sanitizer's library, and shells leak. */
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0", 1);
    if (CHECK(!access(BUILD_DIR "/kgenrt", X_OK) && !access(BUILD_DIR "/libkgenrt.so", R_OK))) {
        statuses();
        environment();
        places();
        signals();
        worker();
        worker_again();
        unusable_cache();
        capture();
    }
    return test_result();
}
