/* When things may happen: nothing at load, everything at the first call to a driver, all off in the
 * child of a fork. A program that never looks for a driver pays for mapping the library only: no
 * file, no thread, no option read, and no constructor but the copy of one pointer
 * (runtime/lmdb_stderr.c). */
#include "interpose.h"

#include "app/graphs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool forked; /* what is missed from now on is the parent's to say */

static void after_fork_child(void)
{
    forked = true;
    kernels_after_fork_child();
    material_after_fork_child();
    linking_after_fork_child();
    context_unseen(NULL);
    graphs_after_fork_child();
    app_after_fork_child();
}

static atomic_bool ready; /* somebody asked us for the driver */

bool driver_ready(void)
{
    if (atomic_load_explicit(&ready, memory_order_acquire))
        return true;
    if (real_open(real_symbol) != KG_OK)
        return false;
    app_dlsym = real_symbol;
    if (!atomic_exchange(&ready, true))
        (void)pthread_atfork(NULL, NULL, after_fork_child); /* fails when memory is out: then a
                                                               child's hooks see stale records, of
                                                               handles that it cannot use */
    return true;
}

/* Whether the driver is in the process, and was initialized. */
static bool driver_in_use(void)
{
    CUresult (*count)(int *);
    int devices;
    *(void **)&count = driver_symbol("cuDeviceGetCount");
    return count && count(&devices) != CUDA_ERROR_NOT_INITIALIZED;
}

/* For the next `kgenrt run` of this program. */
static void leave_word(const char *word)
{
    const char *path = options()->missed, *slash = strrchr(path, '/');
    char folder[KG_PATH];
    if (slash && path_make(folder, "%.*s", (int)(slash - path), path) == KG_OK &&
        dir_make(folder) == KG_OK)
        (void)file_write(path, word, strlen(word), 0600); /* else nobody is told */
}

/* A driver that is in use, though nobody asked us for it, or though a library was opened so that it
 * does not ask us, was reached past the hooks. */
static void say_what_was_missed(void)
{
    if (inside_kgenrt || forked || (atomic_load(&ready) && !deepbind_seen()) ||
        options_mode() == KG_MODE_OFF || !driver_in_use())
        return;
    const char *who = deepbind_seen() ? "a library opened with RTLD_DEEPBIND" : "this program";
    log_line(KG_WARN,
             "%s uses the driver past kgenrt: its launches were not seen ('kgenrt run "
             "--via audit' may see them)",
             who);
    leave_word(who);
}

__attribute__((destructor)) static void finish(void)
{
    if (app_active())
        app_finish();
    else
        say_what_was_missed();
}

/* An end without exit handlers, as of the processes that Python's multiprocessing forks: in good
 * order if the program says so. It may be called in the child of a vfork and in a signal handler.
 */
__attribute__((visibility("default"))) void _exit(int status)
{
    if (status == 0 && app_active())
        app_leave();
    _Exit(status);
}
