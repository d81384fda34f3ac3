/* The worker beside a program, with the manners that it has by default: under MPS and in exclusive
 * mode nothing is replayed, the capture waits, and `status` says for what; where the program's
 * allocation fails while a replay runs, the replay is gone at once and the allocation succeeds. */
#include "e2e.h"

#include <cuda.h>
#include <dlfcn.h>

#include "replaying.h"

static json_t *newest_kernel(json_t **status)
{
    *status = e2e_json("status", NULL);
    json_t *process = json_array_get(json_object_get(*status, "processes"), 0), *one;
    size_t i;
    json_array_foreach(json_object_get(process, "kernels"), i, one)
    {
        if (strstr(json_string_value(json_object_get(one, "name")), "polynomial"))
            return one;
    }
    return NULL;
}

static int in_spool(void)
{
    char text[32] = "";
    FILE *count = popen(e2e_text("ls '%s/spool' 2>/dev/null | grep -c 'kgcap$'", e2e_cache), "r");
    CHECK(count && fgets(text, sizeof text, count));
    if (count)
        pclose(count);
    return atoi(text);
}

/* Whether `status` says that the kernel's capture waits, and for what. */
static bool waits(const char *word)
{
    json_t *status, *kernel = newest_kernel(&status);
    const char *text = json_string_value(json_object_get(kernel, "explanation"));
    bool found = text && strstr(text, "waits in the spool") && strstr(text, word);
    json_decref(status);
    return found;
}

static void not_beside(const char *mode, const char *word)
{
    e2e_fresh_cache();
    /* on a busy machine, a kernel is not hot, and its capture not looked at, so soon */
    int seconds = 4;
    do
        CHECK(e2e_run((const char *[]){e2e_cli(), "run", e2e_sample("polynomial"), "--seconds",
                                       e2e_text("%d", seconds), NULL},
                      (const char *[]){e2e_text("SOFTGPU_MODE=%s", mode), e2e_replies("polynomial"),
                                       NULL},
                      300) == 0);
    while (!waits(word) && (seconds *= 2) <= 64);
    CHECK(waits(word));
    CHECK(in_spool() >= 1);
    /* neither does a worker say less that ends while it tries again */
    CHECK(e2e_run((const char *[]){e2e_cli(), "worker", "--once", NULL},
                  (const char *[]){e2e_text("SOFTGPU_MODE=%s", mode), e2e_replies("polynomial"),
                                   "KGENRT_TEST_DIE=admit", NULL},
                  120) != 0);
    CHECK(waits(word));
    if (test_failures)
        e2e_show_log();
    e2e_remove_cache();
}

/* ---- memory ------------------------------------------------------------------------------------
 */

/* A program under the preload that allocates fifty times. Its exit status: how many failed. */
static int allocates(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CUresult (*init)(unsigned) = (CUresult(*)(unsigned))dlsym(driver, "cuInit");
    CUresult (*retain)(CUcontext *, CUdevice) =
        (CUresult(*)(CUcontext *, CUdevice))dlsym(driver, "cuDevicePrimaryCtxRetain");
    CUresult (*set)(CUcontext) = (CUresult(*)(CUcontext))dlsym(driver, "cuCtxSetCurrent");
    CUresult (*alloc)(CUdeviceptr *, size_t) =
        (CUresult(*)(CUdeviceptr *, size_t))dlsym(driver, "cuMemAlloc_v2");
    CUcontext context;
    int bad = 0;
    if (!init || !retain || !set || !alloc || init(0) || retain(&context, 0) || set(context))
        return 99;
    for (int i = 0; i < 50; i++) {
        CUdeviceptr at;
        CUresult result = alloc(&at, 4096);
        bad += result == CUDA_ERROR_OUT_OF_MEMORY ? 1 : result ? 50 : 0;
    }
    return bad;
}

static pid_t replay(void)
{
    char *folder = e2e_text("%s/work/1-0", e2e_cache);
    int ready[2];
    char byte = 'x';
    CHECK(!pipe(ready));
    pid_t pid = fork();
    if (!pid) {
        if (dir_make(folder) == KG_OK && replaying_begin(folder) == KG_OK &&
            write(ready[1], &byte, 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    close(ready[1]);
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    return pid;
}

/* The thirtieth allocation of the process fails, the next would not. A worker that begins sweeps
 * what killed replays leave, which is looked at here. */
static int with_failure(const char *self)
{
    return e2e_run((const char *[]){e2e_cli(), "run", self, "allocates", NULL},
                   (const char *[]){"SOFTGPU_FAULT=oom:30", "KGENRT_WORKER=off", NULL}, 60);
}

static void makes_room(const char *self)
{
    int how;
    e2e_fresh_cache();
    CHECK(with_failure(self) == 1); /* no replay runs: the program sees what happened */
    pid_t child = replay();
    CHECK(with_failure(self) == 0);
    if (!CHECK(waitpid(child, &how, WNOHANG) == child && WIFSIGNALED(how)))
        kill(child, SIGTERM);
    CHECK(replaying_ended(e2e_text("%s/work/1-0", e2e_cache)));
    json_t *status = e2e_json("status", NULL);
    char *text = json_dumps(status, 0);
    CHECK(text && strstr(text, "an allocation failed: 1 replays were ended for their memory"));
    if (test_failures)
        e2e_show_log();
    free(text);
    json_decref(status);
    e2e_remove_cache();
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "allocates"))
        return allocates();
    e2e_begin(argc, argv);
    if (e2e_gpu)
        SKIP("the GPU's mode is left as it is");
    e2e_remove_cache();
    makes_room(argv[0]);
    not_beside("mps", "MPS");
    not_beside("exclusive", "compute mode");
    return test_result();
}
