/* Usage: life HOW. A job that launches at odd moments of a process's life, or forks at such; prints
 * "right" if every launch counted. See the table at the end. */
#include "job.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, LAUNCHES = 60, CHILDREN = 12 };

static struct job job;
static atomic_bool go_on = true;
static atomic_int running;

static void failed(const char *what, int line)
{
    fprintf(stderr, "%s: failed in line %d\n", what, line);
    _exit(9);
}

#define WELL(what)                                                                                 \
    do {                                                                                           \
        int line_ = (what);                                                                        \
        if (line_)                                                                                 \
            failed(#what, line_);                                                                  \
    } while (0)

static int whole_job(void)
{
    WELL(job_begin(&job));
    WELL(job_launch(&job, LAUNCHES));
    WELL(job_right(&job));
    puts("right");
    fflush(stdout);
    return 0;
}

static int wait_all(void)
{
    int status, worst = 0;
    while (wait(&status) > 0)
        if (!WIFEXITED(status) || WEXITSTATUS(status))
            worst = 10;
    return worst;
}

/* What this process's flight recorder says: it has not ended. */
static int goes_on(void)
{
    char command[256];
    snprintf(command, sizeof command, "grep -q '\"clean\":false' \"$KGENRT_CACHE\"/flight/%d-*",
             (int)getpid());
    return system(command);
}

/* ---- before main and after its end -------------------------------------------------------------
 */

static bool is(char **argv, const char *how)
{
    return argv[1] && !strcmp(argv[1], how);
}

__attribute__((constructor)) static void before_main(int argc, char **argv)
{
    if (is(argv, "constructor"))
        whole_job();
}

static bool at_the_end; /* the destructor is to launch; the driver may have ended by then */

__attribute__((destructor)) static void after_main(void)
{
    int count = JOB_VALUES;
    void *params[] = {&job.values, &count};
    if (!at_the_end)
        return;
    CUresult result = JOB_CALL(cuLaunchKernel)(job.add, 2, 1, 1, 128, 1, 1, 0, NULL, params, NULL);
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED)
        puts("right");
}

#ifdef RESOLVER /* not where a sanitizer's allocator would have to answer */
/* Chosen by the dynamic linker before any constructor has run; a dlopen here would break glibc,
 * which would lose the environment. */
static int plain(void)
{
    return 4;
}

static int (*choose(void))(void)
{
    return dlsym(RTLD_DEFAULT, "getpid") && !dlsym(RTLD_DEFAULT, "cuNothing") &&
                   !dlsym(RTLD_DEFAULT, "cuInit")
               ? plain
               : NULL;
}

static int indirect(void) __attribute__((ifunc("choose")));

static int from_resolver(void)
{
    return indirect() == 4 ? whole_job() : 11;
}
#endif

static int from_constructor(void)
{
    return 0;
}

static int from_destructor(void)
{
    WELL(job_begin(&job));
    at_the_end = true;
    return 0;
}

static void launch_at_exit(void)
{
    WELL(job_launch(&job, LAUNCHES));
    WELL(job_right(&job));
    puts("right");
    fflush(stdout);
}

static int from_atexit(void)
{
    WELL(job_begin(&job));
    return atexit(launch_at_exit);
}

static int from_quick_exit(void)
{
    WELL(job_begin(&job));
    if (!at_quick_exit(launch_at_exit))
        quick_exit(0);
    return 12;
}

static int by_exit_at_once(void)
{
    whole_job();
    _exit(0);
}

static int by_exit_in_anger(void)
{
    whole_job();
    _exit(3);
}

/* The child of a vfork is in its parent's memory. */
static int vfork_exit(void)
{
    WELL(job_begin(&job));
    pid_t pid = vfork();
    if (!pid)
        _exit(0);
    int outcome = wait_all();
    WELL(goes_on());
    launch_at_exit();
    return outcome;
}

/* ---- threads -----------------------------------------------------------------------------------
 */

static void *launch_on(void *unused)
{
    int count = JOB_VALUES;
    void *params[] = {&job.values, &count};
    CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       unsigned, CUstream, void **, void **) = JOB_CALL(cuLaunchKernel);
    (void)JOB_CALL(cuCtxSetCurrent)(job.context);
    atomic_fetch_add(&running, 1);
    while (atomic_load(&go_on))
        (void)launch(job.add, 2, 1, 1, 128, 1, 1, 0, NULL, params, NULL);
    return unused;
}

static void threads_begin(pthread_t threads[THREADS])
{
    for (int i = 0; i < THREADS; i++)
        WELL(pthread_create(&threads[i], NULL, launch_on, NULL));
    while (atomic_load(&running) < THREADS)
        usleep(1000);
}

/* Threads launch while the process ends around them. */
static int threads_at_exit(void)
{
    pthread_t threads[THREADS];
    whole_job();
    threads_begin(threads);
    return 0;
}

static pthread_key_t key;

static void launch_at_thread_end(void *unused)
{
    (void)unused;
    WELL(job_launch(&job, LAUNCHES));
}

static void *with_key(void *unused)
{
    (void)JOB_CALL(cuCtxSetCurrent)(job.context);
    WELL(pthread_setspecific(key, &job));
    return unused;
}

static int from_thread_data(void)
{
    pthread_t thread;
    WELL(job_begin(&job));
    WELL(pthread_key_create(&key, launch_at_thread_end));
    WELL(pthread_create(&thread, NULL, with_key, NULL));
    WELL(pthread_join(thread, NULL));
    WELL(job_right(&job));
    puts("right");
    return 0;
}

/* ---- forks -------------------------------------------------------------------------------------
 */

/* Nothing of the GPU was used: both begin for themselves. */
static int fork_first(void)
{
    pid_t pid = fork();
    int outcome = whole_job();
    return pid ? outcome + wait_all() : outcome;
}

/* The driver is there and was asked for its functions, no more. */
static int fork_after_look_up(void)
{
    job_driver = dlopen("libcuda.so.1", RTLD_NOW);
    int version;
    WELL(!job_driver || JOB_CALL(cuDriverGetVersion)(&version));
    return fork_first();
}

/* Workers that do without the GPU, as a loader of data has; they end by exit. */
static int fork_workers(void)
{
    WELL(job_begin(&job));
    for (int i = 0; i < CHILDREN; i++) {
        if (!fork())
            exit(0);
        WELL(job_launch(&job, LAUNCHES / CHILDREN));
    }
    WELL(job_right(&job));
    puts("right");
    return wait_all();
}

/* Children of a parent whose threads launch at this moment. */
static int fork_beside_threads(void)
{
    pthread_t threads[THREADS];
    WELL(job_begin(&job));
    threads_begin(threads);
    for (int i = 0; i < CHILDREN; i++)
        if (!fork())
            exit(dlsym(RTLD_DEFAULT, "cuNothing") != NULL);
    int outcome = wait_all();
    atomic_store(&go_on, false);
    for (int i = 0; i < THREADS; i++)
        WELL(pthread_join(threads[i], NULL));
    puts("right");
    return outcome;
}

/* A fork of which no library is told; the child ends as if it were the process. Its parent has not
 * ended, as its flight recorder goes on to say. */
static int fork_unseen(void)
{
    WELL(job_begin(&job));
    pid_t pid = (pid_t)syscall(SYS_fork);
    if (!pid)
        exit(0);
    int outcome = wait_all();
    WELL(goes_on());
    WELL(job_launch(&job, LAUNCHES));
    WELL(job_right(&job));
    puts("right");
    return outcome;
}

/* What the driver tells a child of a process that used it is the driver's affair. */
static int fork_and_use(void)
{
    WELL(job_begin(&job));
    WELL(job_launch(&job, LAUNCHES));
    pid_t pid = fork();
    if (!pid) {
        int count = 0;
        CUresult first = JOB_CALL(cuInit)(0), second = JOB_CALL(cuDeviceGetCount)(&count);
        printf("child: %d %d\n", (int)first, (int)second);
        exit(0);
    }
    int outcome = wait_all();
    WELL(job_right(&job));
    puts("right");
    return outcome;
}

static int fork_exec(void)
{
    WELL(job_begin(&job));
    pid_t pid = fork();
    if (!pid) {
        execl("/proc/self/exe", "life", "plain", (char *)NULL);
        _exit(13);
    }
    WELL(job_launch(&job, LAUNCHES));
    WELL(job_right(&job));
    puts("right");
    return wait_all();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *how;
        int (*run)(void);
    } ways[] = {
        {"plain", whole_job},
#ifdef RESOLVER
        {"ifunc", from_resolver},
#endif
        {"constructor", from_constructor},
        {"destructor", from_destructor},
        {"atexit", from_atexit},
        {"quick_exit", from_quick_exit},
        {"_exit", by_exit_at_once},
        {"_exit-3", by_exit_in_anger},
        {"vfork-_exit", vfork_exit},
        {"threads", threads_at_exit},
        {"thread-data", from_thread_data},
        {"fork-first", fork_first},
        {"fork-look-up", fork_after_look_up},
        {"fork-workers", fork_workers},
        {"fork-threads", fork_beside_threads},
        {"fork-unseen", fork_unseen},
        {"fork-use", fork_and_use},
        {"fork-exec", fork_exec},
    };
    for (unsigned i = 0; argc > 1 && i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(argv[1], ways[i].how))
            return ways[i].run();
    return 14;
}
