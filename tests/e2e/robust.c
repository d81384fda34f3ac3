/* The one promise, with everything around the app broken: whatever happens to the worker, the
 * cache, the reply or the installation, the sample's output is right on every launch and its exit
 * status is 0. */
#include "e2e.h"

#include <dirent.h>
#include <sched.h>
#include <sys/mount.h>

#define SAMPLE "transpose"
static const char *shortly,
    *long_enough; /* seconds; the second lets a worker reach its last step */

/* The sample under a bare preload, or supervised; 0 if all went well. */
static bool right(const char *what, bool supervised, const char *seconds,
                  const char *const environment[])
{
    const char *bare[] = {e2e_sample(SAMPLE), "--seconds", seconds, NULL};
    const char *run[] = {e2e_cli(), "run", bare[0], bare[1], bare[2], NULL};
    const char *all[16] = {e2e_preload()};
    int count = supervised ? 0 : 1;
    for (; environment && *environment && count < 15; environment++)
        all[count++] = *environment;
    all[count] = NULL;
    int status = e2e_run(supervised ? run : bare, all, 300);
    bool good = CHECK(status == 0) && CHECK(strstr(e2e_output, ", 0 wrong"));
    fprintf(stderr, "%-44s exit status %d: %.60s\n", what, status, e2e_output);
    if (!good)
        e2e_show_log();
    return good;
}

static bool logged(const char *text)
{
    return !system(e2e_text("grep -qs '%s' '%s/log' '%s/worker.log'", text, e2e_cache, e2e_cache));
}

/* The worker is killed on entry to each of its steps: it kills itself there, and says so first (see
 * job.c). */
static void killed_at_steps(void)
{
    static const char *const steps[] = {"open",  "analyse", "generate", "compile",
                                        "admit", "verify",  "time",     "publish"};
    /* under a sanitizer each run is long: every third step, the release build has them all */
    for (size_t i = 1; i <= sizeof steps / sizeof *steps; i++) {
        if (*PRELOAD_FIRST && i % 3 != 2)
            continue;
        e2e_fresh_cache();
        setenv("KGENRT_LOG_FILE", e2e_text("%s/log", e2e_cache), 1);
        right(e2e_text("worker killed on entry to %s", steps[i - 1]), false, long_enough,
              (const char *[]){e2e_replies(SAMPLE), e2e_text("KGENRT_TEST_DIE=%s", steps[i - 1]),
                               NULL});
        if (!CHECK(logged(e2e_text("killed on entry to %s", steps[i - 1]))))
            e2e_show_log();
        e2e_remove_cache();
    }
}

/* Whether a file of /proc/PID holds the text, NULs and all. */
static bool holds(const char *pid, const char *name, const char *text, size_t size)
{
    static char bytes[65536];
    int fd = open(e2e_text("/proc/%s/%s", pid, name), O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, bytes, sizeof bytes);
    if (fd >= 0)
        close(fd);
    return got > 0 && memmem(bytes, (size_t)got, text, size);
}

/* Kills the worker of this cache folder and its children; how many workers those were. */
static unsigned kill_workers(void)
{
    unsigned count = 0;
    DIR *proc = opendir("/proc");
    const char *cache = e2e_text("KGENRT_CACHE=%s", e2e_cache);
    for (struct dirent *one; proc && (one = readdir(proc));) {
        bool worker = holds(one->d_name, "cmdline", "kgenrt\0worker", 13);
        if ((!worker && !holds(one->d_name, "cmdline", "kgenrt\0child", 12)) ||
            !holds(one->d_name, "environ", cache, strlen(cache) + 1))
            continue;
        count += !kill((pid_t)atoi(one->d_name), SIGKILL) && worker;
    }
    if (proc)
        closedir(proc);
    return count;
}

/* … and at random times while programs run, until so many workers were hit. */
static void killed_at_random(unsigned times)
{
    unsigned seed = 12345, hit = 0;
    for (unsigned runs = 0; hit < times && runs < 20; runs++) {
        e2e_fresh_cache();
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC), status = 0;
        pid_t pid = e2e_start(
            (const char *[]){e2e_cli(), "run", e2e_sample(SAMPLE), "--seconds", long_enough, NULL},
            (const char *[]){e2e_replies(SAMPLE), NULL}, null);
        while (waitpid(pid, &status, WNOHANG) == 0) {
            seed = seed * 1664525u + 1013904223u;
            struct timespec wait = {0, (long)(seed >> 8) % 800000000L + 20000000L};
            nanosleep(&wait, NULL);
            if (hit < times)
                hit += kill_workers();
        }
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        close(null);
        e2e_remove_cache();
    }
    CHECK(hit >= times);
    fprintf(stderr, "worker killed at %u random times\n", hit);
}

static void broken_caches(void)
{
    e2e_fresh_cache();
    char *file = e2e_text("%s/plain", e2e_cache);
    FILE *f = fopen(file, "w");
    CHECK(f && fclose(f) == 0);
    right("cache path under a plain file", false, shortly,
          (const char *[]){e2e_text("KGENRT_CACHE=%s/cache", file), NULL});
    right("cache path under a plain file, supervised", true, shortly,
          (const char *[]){e2e_text("KGENRT_CACHE=%s/cache", file), NULL});

    char *other = e2e_text("%s/other", e2e_cache);
    CHECK(mkdir(other, 0755) == 0);
    if (geteuid() == 0 && CHECK(chown(other, 12345, 12345) == 0))
        right("cache folder of another user", false, shortly,
              (const char *[]){e2e_text("KGENRT_CACHE=%s", other), NULL});
    else
        fprintf(stderr, "not run: cache folder of another user (needs root)\n");

    char *mounted = e2e_text("%s/mounted", e2e_cache);
    CHECK(mkdir(mounted, 0755) == 0);
    pid_t pid = fork();
    if (!pid) {
        if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
            mount("none", mounted, "tmpfs", MS_RDONLY, NULL))
            _exit(77);
        int before = test_failures;
        right("cache folder on a read-only mount", false, shortly,
              (const char *[]){e2e_text("KGENRT_CACHE=%s/cache", mounted), NULL});
        _exit(test_failures > before);
    }
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        fprintf(stderr, "not run: read-only mount (this machine allows no mount)\n");
    else
        CHECK(WEXITSTATUS(status) == 0);
    e2e_remove_cache();
}

static void garbage_reply(void)
{
    e2e_fresh_cache();
    char *folder = e2e_text("%s/replies", e2e_cache);
    CHECK(mkdir(folder, 0700) == 0);
    FILE *f = fopen(e2e_text("%s/1.md", folder), "w");
    CHECK(f != NULL);
    for (int i = 0; f && i < 3000; i++)
        fputc(i * 7919 % 256, f);
    CHECK(f && fclose(f) == 0);
    right("the reply is garbage", true, long_enough,
          (const char *[]){e2e_text("KGENRT_MAKERS=recorded:%s", folder), NULL});
    e2e_remove_cache();
}

/* The library alone in a folder: there is no worker to start. */
static void no_worker(void)
{
    e2e_fresh_cache();
    CHECK(system(e2e_text("cp '%s/libkgenrt.so' '%s/'", E2E_BUILD, e2e_cache)) == 0);
    const char *argv[] = {e2e_sample(SAMPLE), "--seconds", shortly, NULL};
    int status =
        e2e_run(argv,
                (const char *[]){e2e_text("LD_PRELOAD=" PRELOAD_FIRST "%s/libkgenrt.so", e2e_cache),
                                 e2e_replies(SAMPLE), NULL},
                300);
    CHECK(status == 0 && strstr(e2e_output, ", 0 wrong"));
    fprintf(stderr, "%-44s exit status %d: %.60s\n", "no worker binary", status, e2e_output);
    /* the capture waits in the spool, for a worker that comes later */
    CHECK(system(e2e_text("ls '%s'/spool/* >/dev/null 2>&1", e2e_cache)) == 0);
    e2e_remove_cache();
}

int main(int argc, char **argv)
{
    e2e_begin(argc, argv);
    double verdict = e2e_verdict_seconds(e2e_captured(e2e_sample(SAMPLE), NULL), SAMPLE);
    e2e_remove_cache();
    shortly = e2e_text("%.0f", 3 + verdict);
    long_enough = e2e_gpu ? "18" : e2e_text("%.0f", 7 + 4 * verdict);
    broken_caches();
    garbage_reply();
    no_worker();
    if (!e2e_gpu) /* the worker's steps are the same on every device */
        killed_at_steps();
    killed_at_random(*PRELOAD_FIRST ? 5 : 20);
    return test_result();
}
