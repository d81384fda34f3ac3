/* Whole programs under the preload: those that use no GPU are left alone, those that reach the
 * driver in other ways than by dlsym are seen, and what cannot be seen is said. */
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "gpu/real.h"

#include "edge_child.h"

static char output[1 << 20];

/* Runs a shell command under the preload (or not), keeps what it printed. */
static int run(bool preload, const char *command)
{
    char file[] = "/tmp/kgenrt-edge-out-XXXXXX";
    int out = mkstemp(file);
    if (!CHECK(out >= 0))
        return -1;
    pid_t pid = fork();
    if (!pid) {
        dup2(out, 1);
        dup2(out, 2);
        child_environment(PRELOAD, FAKE);
        if (!preload)
            unsetenv("LD_PRELOAD");
        execl("/bin/bash", "bash", "-c", command, NULL);
        _exit(127);
    }
    int status = child_status(pid);
    ssize_t got = pread(out, output, sizeof output - 1, 0);
    output[got < 0 ? 0 : got] = 0;
    close(out);
    unlink(file);
    return status;
}

static unsigned times(const char *text, const char *word)
{
    unsigned count = 0;
    while ((text = strstr(text, word)))
        count++, text += strlen(word);
    return count;
}

static bool found(const char *program)
{
    char command[256];
    snprintf(command, sizeof command, "command -v %s >/dev/null", program);
    return run(false, command) == 0;
}

/* Files opened and threads made, one line each; of the preload run the library's own line is left
 * out. */
static char *calls_of(const char *program, bool preload)
{
    char command[1024];
    snprintf(command, sizeof command,
             "strace -f -o /dev/stdout -e trace=open,openat,clone,clone3,fork,vfork,socket,"
             "memfd_create,timer_create -E LD_LIBRARY_PATH= %s%s %s | "
             "sed -e 's/^[0-9]* *//' -e 's/0x[0-9a-f]*/0x/g' -e 's/= [0-9]*$//' | "
             "grep -v -e libkgenrt -e '^+++' -e '^---' -e ENOENT",
             preload ? "-E LD_PRELOAD=" : "", preload ? PRELOAD : "", program);
    run(false, command);
    return strdup(output);
}

static void untouched(const char *program)
{
    char *plain = calls_of(program, false), *ours = calls_of(program, true);
    if (!CHECK(plain && ours))
        return;
    CHECK(times(plain, "open") >= 2); /* the trace works: at least the C library */
    size_t same = 0;
    while (plain[same] && plain[same] == ours[same])
        same++;
    if (!CHECK(!plain[same] && !ours[same]))
        fprintf(stderr, "%s without:\n%.300s\nwith:\n%.300s\n", program, plain + same, ours + same);
    free(plain);
    free(ours);
}

/* A sanitizer's build brings its runtime along, which does not start in every program. */
static bool instrumented(void)
{
    return run(false, "ldd " LIBRARY) == 0 && strstr(output, "san.so");
}

static void bystanders(void)
{
    CHECK(run(true, "bash -c 'echo fine'") == 0 && !strcmp(output, "fine\n"));
    if (found("python3")) {
        CHECK(run(true, "python3 -c 'import ctypes, ssl, threading; print(\"fine\")'") == 0);
        CHECK(!strcmp(output, "fine\n"));
    }
    if (!found("strace") || run(false, "strace -o /dev/null true")) {
        fprintf(stderr, "no strace: what bash and python3 open was not compared\n");
        return;
    }
    if (instrumented())
        return;
    untouched("bash -c :");
    /* the interpreter itself, not a script that chooses one; nothing of its site */
    if (run(false, "python3 -c 'import sys; print(sys.executable, end=\"\")'") == 0) {
        char command[1024];
        snprintf(command, sizeof command, "%.1000s -ISc pass", output);
        untouched(command);
    }
}

/* A program that is linked to libcuda. */
static void linked(void)
{
    CHECK(run(false, FAKE "/direct") == 0 && strstr(output, "libcuda.so.1"));
    CHECK(run(true, "FAKE_LOG=/dev/stdout " FAKE "/direct") == 0);
    CHECK(strstr(output, "libkgenrt.so") != NULL);
    CHECK(times(output, "cuLaunchKernel ") == 1 && times(output, "cuModuleLoadData\n") == 1);
    CHECK(run(true, "KGENRT_MODE=off FAKE_LOG=/dev/stdout " FAKE "/direct") == 0);
    CHECK(!times(output, "cuEventCreate")); /* off: no call of our own */
    CHECK(times(output, "cuLaunchKernel ") == 1);
}

/* What RTLD_DEEPBIND hides is said once, and only where a driver was used. */
static void deepbind_child(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_DEEPBIND);
    CUresult (*start)(unsigned) = NULL;
    void *(*own)(void *, const char *) = NULL;
    if (library)
        *(void **)&own = dlsym(library, "fake_own");
    if (own)
        *(void **)&start = own(library, "cuInit"); /* past the hooks */
    CHECK(start && start(0) == CUDA_SUCCESS);
}

static void deepbind_bystander(void)
{
    CHECK(dlopen(FAKE "/libnext.so", RTLD_NOW | RTLD_DEEPBIND) != NULL);
}

static void deepbind(void)
{
    if (instrumented()) {
        fprintf(stderr, "an instrumented build: its dlopen refuses RTLD_DEEPBIND\n");
        return;
    }
    CHECK(run(true, "/proc/$PPID/exe deepbind-child") == 0);
    CHECK(times(output, "RTLD_DEEPBIND") == 1);
    CHECK(run(true, "/proc/$PPID/exe deepbind-bystander") == 0);
    CHECK(!times(output, "RTLD_DEEPBIND"));
}

/* NVIDIA's runtime, linked statically: its requests all pass through us, and it ends as it does
 * without us. (It refuses a driver that is not NVIDIA's; we do not try to get past that.) */
static void static_runtime(void)
{
    if (!*NVCC || access(NVCC, X_OK) || instrumented()) {
        fprintf(stderr, "no nvcc, or an instrumented build: NVIDIA's runtime was not tried\n");
        return;
    }
    static const char source[] = "int main(void) { int n; return (int)cudaGetDeviceCount(&n); }\n";
    char command[2048];
    snprintf(command, sizeof command,
             "cd \"$KGENRT_CACHE\" && echo '%s' > static.cu && " NVCC " -o static static.cu",
             source);
    if (!CHECK(run(false, command) == 0)) {
        fprintf(stderr, "%s\n", output);
        return;
    }
    int plain = run(false, "FAKE_LOG=/dev/stdout \"$KGENRT_CACHE\"/static");
    unsigned requests = times(output, "cuGetProcAddress_v2 ");
    CHECK(requests > 300);
    CHECK(run(true, "FAKE_LOG=/dev/stdout \"$KGENRT_CACHE\"/static") == plain);
    CHECK(times(output, "cuGetProcAddress_v2 ") >= requests);
    CHECK(times(output, "cuGetProcAddress_v2 cuLaunchKernel 7000 2\n") >= 1);
    CHECK(times(output, "cuInit\n") == 1 || plain != 0);
}

int main(int argc, char **argv)
{
    const struct scenario children[] = {
        {"deepbind-child", deepbind_child, NULL, NULL},
        {"deepbind-bystander", deepbind_bystander, NULL, NULL},
    };
    for (unsigned i = 0; argc > 1 && i < 2; i++)
        if (!strcmp(argv[1], children[i].name)) {
            children[i].run();
            return test_result();
        }
    if (!PRELOADABLE)
        SKIP("a library instrumented for threads cannot be preloaded");
    fresh_cache();
    bystanders();
    linked();
    deepbind();
    static_runtime();
    remove_cache();
    return test_result();
}
