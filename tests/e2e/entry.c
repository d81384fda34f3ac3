/* The ways in, whole: a program under `kgenrt run` whose libraries hide the driver from a preload,
 * or which keeps its variables from what it starts, by preload and by LD_AUDIT; what `auto` learns
 * from a run; and what is said of programs that no library gets into. */
#include "entry/entry.h"

static const char *program, *linked, *library, *linked_library, *direct_library, *deep, *starter;

static bool says(const char *text)
{
    return strstr(e2e_output, text) != NULL;
}

/* Runs it in a cache of its own; `expected` launches are seen, of `ran` that are made. */
static void ways(const char *what, const char *way, long expected, const char *const command[])
{
    const char *argv[16] = {e2e_cli(), "run", "--mode", "observe", "--via", way};
    int count = 6;
    for (; count < 15 && *command; command++)
        argv[count++] = *command;
    argv[count] = NULL;
    e2e_fresh_cache();
    int status = e2e_run(argv, NULL, 120);
    CHECK(status == 0 && says("right"));
    struct entry_seen seen = entry_seen();
    fprintf(stderr, "%-12s %-28s exit status %d, %ld launches seen\n", way, what, status,
            seen.launches);
    if (!CHECK(seen.launches == expected))
        fprintf(stderr, "%s\n", e2e_output);
    e2e_remove_cache();
}

#define COMMAND(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The audit form sees what the preload sees, and no launch twice. */
static void plain(void)
{
    ways("dlopen and dlsym", "preload", 60, COMMAND(program));
    ways("dlopen and dlsym", "audit", 60, COMMAND(program));
    ways("linked", "preload", 60, COMMAND(linked));
    ways("linked", "audit", 60, COMMAND(linked));
}

static void deepbind(void)
{
    if (*PRELOAD_FIRST) {
        fprintf(stderr, "an instrumented build: its dlopen refuses RTLD_DEEPBIND\n");
        return;
    }
    ways("RTLD_DEEPBIND", "preload", 0, COMMAND(deep, library));
    ways("RTLD_DEEPBIND", "audit", 60, COMMAND(deep, library));
    ways("RTLD_DEEPBIND, linked", "preload", 0, COMMAND(deep, linked_library));
    ways("RTLD_DEEPBIND, linked", "audit", 60, COMMAND(deep, linked_library));
    /* what the stub cannot see, as the help says */
    ways("RTLD_DEEPBIND, without PLT", "audit", 0, COMMAND(deep, direct_library));
    if (!e2e_gpu) /* NVIDIA's driver need not work there at all */
        ways("another namespace", "audit", 0, COMMAND(deep, library, "next"));
}

/* The stub alone, as a user may set it: it brings the library. */
static void by_hand(void)
{
    const char *const audit[] = {e2e_text("LD_AUDIT=%s/libkgenrt_audit.so", E2E_BUILD),
                                 "KGENRT_MODE=observe", NULL};
    e2e_fresh_cache();
    CHECK(e2e_run(COMMAND(program), audit, 120) == 0 && says("right"));
    CHECK(entry_seen().launches == 60);
    if (!*PRELOAD_FIRST) {
        CHECK(e2e_run(COMMAND(deep, library), audit, 120) == 0 && says("right"));
        CHECK(entry_seen().launches == 120);
    }
    e2e_remove_cache();
}

static void kept_variables(void)
{
    static const char *const forms[] = {
        "execl",   "execlp",      "execle",       "execve", "execv", "execvp", "execvpe",
        "fexecve", "posix_spawn", "posix_spawnp", "vfork",  "fork",  "own"};
    static const char *const usual[] = {"+execve", "+execvp", "+posix_spawn", "+vfork", "+fork"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        ways(usual[i], i % 2 ? "preload" : "audit", 60, COMMAND(starter, usual[i], program));
    ways("execve, cleared", "preload", 0, COMMAND(starter, "execve", program));
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        ways(e2e_text("%s, cleared", forms[i]), "audit", 60, COMMAND(starter, forms[i], program));
    ways("execle with arguments", "audit", 60,
         COMMAND(starter, "execle", starter, "vfork", program));
    ways("two deep", "audit", 60, COMMAND(starter, "execve", starter, "posix_spawn", program));
    ways("env -i", "audit", 60,
         COMMAND("/bin/sh", "-c",
                 e2e_text("env -i LD_LIBRARY_PATH=\"$LD_LIBRARY_PATH\" "
                          "ASAN_OPTIONS=\"$ASAN_OPTIONS\" LSAN_OPTIONS=\"$LSAN_OPTIONS\" %s",
                          program)));
}

/* A worker that our tool starts from within such a program is without us, all the same. */
static void workers(void)
{
    const char *lock = e2e_text("%s/of-nested/worker.lock", entry_folder);
    e2e_fresh_cache(); /* of the outer one */
    pid_t pid = e2e_start(COMMAND(e2e_cli(), "run", "--via", "audit", e2e_cli(), "run", "--cache",
                                  e2e_text("%s/of-nested", entry_folder), "/bin/sleep", "60"),
                          NULL, -1);
    int worker = 0;
    for (double end = e2e_now() + 60; !worker && e2e_now() < end; usleep(20000)) {
        FILE *file = fopen(lock, "r");
        if (file && fscanf(file, "%d", &worker) != 1)
            worker = 0;
        if (file)
            fclose(file);
    }
    CHECK(worker > 1 && !system(e2e_text("! grep -q -a libkgenrt /proc/%d/environ", worker)) &&
          !system(e2e_text("! grep -q libkgenrt /proc/%d/maps", worker)));
    CHECK(!kill(pid, SIGTERM) && waitpid(pid, NULL, 0) == pid);
    e2e_remove_cache();
}

/* Libraries with much thread-local memory leave little of what glibc sets aside under an auditor.
 */
static void thread_local(void)
{
    const char *storage = entry_build("libstorage.so", "other", "-DSTORAGE -shared -fPIC");
    const char *path = entry_build("storing", "job", e2e_text("-Wl,--no-as-needed '%s'", storage));
    ways("thread-local memory", "audit", 60, COMMAND(path));
    ways("thread-local memory, execve", "audit", 60, COMMAND(starter, "execve", path));
}

/* A run that was missed is known to the next. */
static void automatic(void)
{
    const char *const first[] = {e2e_cli(), "run", "--mode", "observe", deep, library, NULL};
    if (*PRELOAD_FIRST)
        return;
    e2e_fresh_cache();
    CHECK(e2e_run(first, NULL, 120) == 0 && says("right") && entry_seen().launches == 0);
    CHECK(e2e_run(first, NULL, 120) == 0 && says("right") && says("in an earlier run"));
    CHECK(entry_seen().launches == 60);
    CHECK(e2e_run(COMMAND(e2e_cli(), "run", "--mode", "observe", "--via", "preload", deep, library),
                  NULL, 120) == 0);
    CHECK(!says("in an earlier run") && entry_seen().launches == 60);
    CHECK(e2e_run(COMMAND(e2e_cli(), "run", "--mode", "observe", program), NULL, 120) == 0);
    CHECK(!says("in an earlier run") && entry_seen().launches == 120);
    e2e_remove_cache();
}

/* An interposer that a script puts before ours, and that goes past everybody behind it. */
static void passed_by(void)
{
    if (*PRELOAD_FIRST) /* see entry_others */
        return;
    const char *limiter =
        entry_build("libpast.so", "other", "-DLIMITER -DPAST_ALL -shared -fPIC -O0");
    const char *script = e2e_text("%s/past", entry_folder);
    FILE *file = fopen(script, "w");
    if (!CHECK(file != NULL))
        return;
    fprintf(file, "#!/bin/sh\nLD_PRELOAD='%s':\"$LD_PRELOAD\" exec '%s'\n", limiter, program);
    CHECK(fclose(file) == 0 && chmod(script, 0755) == 0);
    const char *const words[] = {e2e_cli(), "run", "--mode", "observe", script, NULL};
    e2e_fresh_cache();
    CHECK(e2e_run(words, NULL, 120) == 0 && says("right") && says("limiter: 60 launches"));
    CHECK(says("run it again") && entry_seen().launches == 0);
    CHECK(e2e_run(words, NULL, 120) == 0 && says("right") && says("limiter: 60 launches"));
    CHECK(says("in an earlier run") && entry_seen().launches == 60);
    e2e_remove_cache();
}

/* A process that has the driver and not the library is noticed while it runs. */
static void noticed(void)
{
    const char *words[] = {e2e_cli(),     "run",   "--mode", "observe", starter,
                           "posix_spawn", program, NULL,     NULL};
    bool noted = false;
    e2e_fresh_cache();
    for (int stays = 4; !noted && stays < 100; stays *= 4) { /* longer on a busy machine */
        words[7] = e2e_text("%d", stays);
        CHECK(e2e_run(words, NULL, 120) == 0 && says("right"));
        noted = says("ran without libkgenrt.so and used the driver");
    }
    CHECK(noted && entry_seen().launches == 0);
    words[7] = NULL; /* it need not stay for it */
    CHECK(e2e_run(words, NULL, 120) == 0 && says("in an earlier run"));
    CHECK(entry_seen().launches == 60);
    /* what was written of a file that has changed since says nothing, before a run and after it */
    CHECK(!system(e2e_text("find '%s/missed' -type f -exec touch -d 2001-01-01 {} +", e2e_cache)));
    words[5] = "+posix_spawn";
    CHECK(e2e_run(words, NULL, 120) == 0 && entry_seen().launches == 120);
    CHECK(!says("in an earlier run") && !says("run it again"));
    e2e_remove_cache();
}

/* ---- programs that no library gets into --------------------------------------------------------
 */

/* It runs as ever, with status 3, after a word that contains `why`; with no preload where its
 * loader would stumble over it. */
static void told(const char *path, const char *why, bool preload)
{
    int status = e2e_run(COMMAND(e2e_cli(), "run", path), NULL, 60);
    if (!CHECK(status == 3 && says("kgenrt: ") && says(why) && says("as it would without kgenrt")))
        fprintf(stderr, "%s: status %d:\n%s\n", path, status, e2e_output);
    CHECK(says("preload: none.") == !preload || *PRELOAD_FIRST);
}

static const char *script(const char *name, const char *first)
{
    const char *path = e2e_text("%s/%s", entry_folder, name);
    FILE *file = fopen(path, "w");
    if (CHECK(file != NULL)) {
        fprintf(file, "#!%s\nexit 3\n", first);
        CHECK(fclose(file) == 0 && chmod(path, 0755) == 0);
    }
    return path;
}

/* The head of a dynamic program that says it is of 64-bit ARM. */
static const char *foreign(const char *of)
{
    const char *path = e2e_text("%s/foreign", entry_folder);
    CHECK(system(e2e_text("cp '%s' '%s' && printf '\\267\\000' | dd of='%s' bs=1 seek=18 "
                          "conv=notrunc 2>/dev/null",
                          of, path, path)) == 0);
    return path;
}

static void unreachable(void)
{
    const char *bare = entry_build("bare", "bare", ""),
               *still = entry_build("still", "bare", "-static"),
               *other = e2e_text("%s/ld-musl-x86_64.so.1", entry_folder);
    CHECK(symlink("/lib64/ld-linux-x86-64.so.2", other) == 0);
    e2e_fresh_cache();
    told(still, "is linked statically", true);
    told(entry_build("pie", "bare", "-static-pie"), "is linked statically", true);
    told(script("of-still", still), "is linked statically", true);
    told(script("of-env", e2e_text("/usr/bin/env -S A=1 %s", still)), "linked statically", true);
    told(entry_build("musl", "bare", e2e_text("-Wl,--dynamic-linker='%s'", other)), "(musl)",
         false);
    const char *musl = e2e_text("%s/of-musl", entry_folder);
    if (*PRELOAD_FIRST || system("command -v musl-gcc >/dev/null"))
        fprintf(stderr,
                "no musl-gcc here, or an instrumented build: only its loader's name was tried\n");
    else if (CHECK(system(e2e_text("musl-gcc -o '%s' '%s/tests/e2e/entry/bare.c'", musl,
                                   E2E_SOURCE)) == 0))
        told(musl, "(musl)", false); /* a preload that it cannot link ends it */
    CHECK(e2e_run(COMMAND(e2e_cli(), "run", foreign(bare)), NULL, 60) != 0);
    CHECK(says("is a program for 64-bit ARM, the library is one for 64-bit x86"));
    CHECK(unlink(other) == 0 && symlink("/nowhere", other) == 0);
    CHECK(e2e_run(COMMAND(e2e_cli(), "run",
                          entry_build("lost", "bare", "-Wl,--dynamic-linker=/nowhere/ld-linux.so")),
                  NULL, 60) == 127);
    CHECK(says("asks for the loader /nowhere/ld-linux.so, which is not on this machine"));
    if (!getuid() && !chown(bare, 65534, 65534) && !chmod(bare, 04755)) {
        told(bare, "is set-user-id", false); /* the loader removes the variable as well */
        CHECK(!chmod(bare, 0755));
    } else {
        fprintf(stderr, "not root: no program was made set-user-id\n");
    }
    /* nothing is said of the others */
    CHECK(e2e_run(COMMAND(e2e_cli(), "run", bare), NULL, 60) == 3 && !says("kgenrt: "));
    CHECK(e2e_run(COMMAND(e2e_cli(), "run", script("plain", "/bin/sh")), NULL, 60) == 3);
    CHECK(!says("kgenrt: "));
    CHECK(e2e_run(COMMAND(e2e_cli(), "run", "--via", "both", bare), NULL, 60) == 2);
    CHECK(says("none of auto, preload, audit"));
    e2e_remove_cache();
}

int main(int argc, char **argv)
{
    entry_begin(argc, argv);
    program = entry_build("job", "job", "");
    linked = entry_build_linked("linked", "job", "");
    library = entry_build("libjob.so", "job", "-shared -fPIC -DMAIN=job_run");
    linked_library = entry_build_linked("liblinked.so", "job", "-shared -fPIC -DMAIN=job_run");
    direct_library =
        entry_build_linked("libdirect.so", "job", "-shared -fPIC -fno-plt -DMAIN=job_run");
    deep = entry_build("deep", "deep", "");
    starter = entry_build("starter", "starter", "");
    plain();
    deepbind();
    by_hand();
    kept_variables();
    workers();
    thread_local();
    automatic();
    passed_by();
    noticed();
    unreachable();
    return entry_end();
}
