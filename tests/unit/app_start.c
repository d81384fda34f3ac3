/* The process's life with kgenrt: off, a cache folder that cannot be used, the watcher's manners,
 * a fork, the end; and launches from several threads while the watcher works. */
#include "app_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/wait.h>

/* Each case is a process of its own: options are read once. */
static void in_child(const char *name, void (*body)(void))
{
    pid_t child = fork();
    if (!child) {
        test_failures = test_checks = 0;
        body();
        fflush(stderr);
        _exit(test_failures || !test_checks);
    }
    int status = -1;
    if (!CHECK(waitpid(child, &status, 0) == child && !status))
        fprintf(stderr, "in case %s\n", name);
}

static char comm[16];

/* The thread of this process that is called kgenrt; its status file's text. */
static bool watcher_status(char *text, size_t size)
{
    char path[300];
    DIR *list = opendir("/proc/self/task");
    bool found = false;
    for (struct dirent *e; list && !found && (e = readdir(list));) {
        snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
        int fd = open(path, O_RDONLY);
        ssize_t got = fd < 0 ? -1 : read(fd, text, size - 1);
        if (fd >= 0)
            close(fd);
        text[got < 0 ? 0 : got] = 0;
        found = sscanf(text, "Name:\t%15s", comm) == 1 && !strcmp(comm, "kgenrt");
    }
    if (list)
        closedir(list);
    return found;
}

static bool flight_says(const char *part)
{
    char command[700];
    snprintf(command, sizeof command, "grep -qs '%s' '%s'/flight/*.kgf", part, cache_dir());
    return !system(command);
}

static void off(void)
{
    char text[4096];
    setenv("KGENRT_MODE", "off", 1);
    fixture_cache("app_start_off");
    CHECK(!app_start() && !app_active() && !app_start());
    app_context_created(FIXTURE_CONTEXT);
    CHECK(!watcher_status(text, sizeof text) && access(cache_dir(), F_OK));
    app_finish();
}

static void manners(void)
{
    char text[4096];
    fixture_cache("app_start_on");
    CHECK(!app_active() && app_start() && app_start() && app_active());
    usleep(50000);
    CHECK(watcher_status(text, sizeof text));
    const char *blocked = strstr(text, "SigBlk:");
    unsigned long long mask = blocked ? strtoull(blocked + 7, NULL, 16) : 0;
    CHECK((mask | 0x3ull << 31 | 1ull << 8 | 1ull << 18) == ~0ull); /* all that can be blocked */
    CHECK(flight_says("\"clean\":false"));
    uint64_t before = now_ns();
    app_finish();
    CHECK(now_ns() - before < 250000000 && !app_active() && !app_start());
    CHECK(flight_says("\"clean\":true ") && flight_says("\"event\":\"end\""));
    usleep(50000);
    CHECK(!watcher_status(text, sizeof text));
}

/* The watcher hangs in the driver: the end does not wait for it, and is a clean one all the same.
 */
static void hanging(void)
{
    fixture_cache("app_start_hang");
    CHECK(app_start());
    records_lock();
    uint64_t before = now_ns();
    app_finish();
    CHECK(now_ns() - before < 400000000);
    CHECK(flight_says("\"clean\":true "));
}

static void forked(void)
{
    int status = -1;
    fixture_cache("app_start_fork");
    CHECK(app_start());
    pid_t child = fork();
    if (!child) {
        app_after_fork_child();
        bool dead = !app_active() && !app_start();
        app_finish();
        _exit(!dead);
    }
    CHECK(waitpid(child, &status, 0) == child && !status);
    CHECK(app_active() && flight_says("\"clean\":false"));
    app_finish();
    CHECK(flight_says("\"clean\":true "));
}

/* Observing goes on; nothing is written, nothing is captured, and the app does not notice. */
static void observes(const char *folder)
{
    setenv("KGENRT_CACHE", folder, 1);
    CHECK(app_start() && app_mode() == KG_MODE_OBSERVE && !*app_dir());
    app_context_created(FIXTURE_CONTEXT);
    struct kernel *kernel = fixture_kernel("observed", 0x100);
    struct launch launch = fixture_launch();
    fixture.kernel_ns = 1e6;
    for (int i = 0; i < 200; i++) {
        CHECK(dispatch_launch(kernel, &launch) == CUDA_SUCCESS);
        usleep(2000);
    }
    CHECK(fx_originals == 200 && !fixture.copies);
    CHECK(kernel_state_of(kernel) != KERNEL_WANTED && kernel_state_of(kernel) != KERNEL_UNFIT);
    app_finish();
}

/* By the user's wish: no image is kept, yet no kernel looks refused. */
static void observe_mode(void)
{
    static char module;
    setenv("KGENRT_MODE", "observe", 1);
    fixture_cache("app_start_observe");
    CHECK(app_start() && app_mode() == KG_MODE_OBSERVE);
    app_context_created(FIXTURE_CONTEXT);
    module_loaded(&module, false, fx_image, NULL, "");
    function_found(&module, "k", (void *)0x100);
    struct kernel *kernel = kernel_find((void *)0x100);
    struct launch launch = fixture_launch();
    for (int i = 0; i < 100; i++) {
        CHECK(dispatch_launch(kernel, &launch) == CUDA_SUCCESS);
        usleep(4000);
    }
    CHECK(fx_originals == 100 && !fixture.copies && !kernel->module->image.size);
    records_lock(); /* the watcher's samples */
    CHECK(kernel_state_of(kernel) == KERNEL_COLD && !kernel->why && kernel->before_ns > 0);
    records_unlock();
    app_finish();
    CHECK(flight_says("\"state\":\"observed\",\"eligible\":null,\"why\":\"\""));
    CHECK(flight_says("\"launches\":100,"));
}

static void under_a_file(void)
{
    char path[600];
    int fd = open("app_start.file", O_CREAT | O_WRONLY, 0600);
    CHECK(fd >= 0 && getcwd(path, 500));
    close(fd);
    strcat(path, "/app_start.file/cache");
    observes(path);
}

static void of_another(void)
{
    char path[600], flights[700];
    snprintf(path, sizeof path, "%s", fixture_cache("app_start_other"));
    CHECK(!mkdir(path, 0777) && !chmod(path, 0777)); /* others may write it */
    observes(path);
    snprintf(flights, sizeof flights, "%s/flight", path);
    CHECK(access(flights, F_OK)); /* and nothing was made in it */
}

static void no_home(void)
{
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    observes("");
}

/* Launches, module loads, contexts that die, and the watcher at once: for the thread sanitizer. */
static struct kernel *kernels[8];
static atomic_bool over;

static void *launcher(void *self)
{
    struct launch launch = fixture_launch();
    while (!atomic_load(&over)) {
        for (int i = 0; i < 8; i++)
            (void)dispatch_launch(kernels[i], &launch);
        usleep(100);
    }
    return NULL;
}

static void *loader(void *self)
{
    static char modules[64];
    char name[32];
    for (unsigned i = 0; !atomic_load(&over); i++) {
        snprintf(name, sizeof name, "short_%u", i % 64);
        module_loaded(&modules[i % 64], false, fx_image, NULL, NULL);
        function_found(&modules[i % 64], name, (void *)(uintptr_t)(0x9000 + 16 * (i % 64)));
        module_dying(&modules[i % 64]);
        safe_point();
        usleep(500);
    }
    return NULL;
}

static void threads(void)
{
    static float memory[1024];
    pthread_t thread[4];
    char path[KG_PATH];
    fixture_cache("app_start_threads");
    CHECK(app_start());
    app_context_created(FIXTURE_CONTEXT);
    fixture.allocations[0] = (CUdeviceptr)memory;
    fixture.sizes[0] = sizeof memory;
    fixture.count = 1;
    fx_values.a = fx_values.b = (uint64_t)memory;
    for (int i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "kernel_%d", i);
        kernels[i] = fixture_kernel(name, 0x100 + 16 * (uintptr_t)i);
    }
    for (int i = 0; i < 3; i++)
        CHECK(!pthread_create(&thread[i], NULL, launcher, NULL));
    CHECK(!pthread_create(&thread[3], NULL, loader, NULL));
    usleep(2500000);
    atomic_store(&over, true);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    unsigned captured = 0;
    for (int i = 0; i < 8; i++)
        captured += kernel_state_of(kernels[i]) == KERNEL_CAPTURED;
    CHECK(captured == 8);
    CHECK(spool_holds(&kernels[0]->model.id) && path_make(path, "%s", app_dir()) == KG_OK);
    app_finish();
    CHECK(flight_says("\"state\":\"captured\""));
}

int main(void)
{
    in_child("observe mode", observe_mode);
    in_child("off", off);
    in_child("manners", manners);
    in_child("hanging", hanging);
    in_child("forked", forked);
    in_child("under_a_file", under_a_file);
    in_child("of_another", of_another);
    in_child("no_home", no_home);
    in_child("threads", threads);
    return test_result();
}
