/* When things may happen: nothing at load, everything at the first call to a driver, all off in the
 * child of a fork. A program that never looks for a driver pays for mapping the library only: no
 * file, no thread, no option read, and no constructor but the copy of one pointer
 * (runtime/lmdb_stderr.c). */
#include "interpose.h"

#include "app/graphs.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

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

bool driver_ready(void)
{
    static atomic_bool ready;
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

/* A driver that is in the process though no call to it was seen was reached past the hooks. */
static void say_what_was_missed(void)
{
    static const char what[] =
        "a library opened with RTLD_DEEPBIND uses the driver past kgenrt: its "
        "launches were not seen";
    if (!deepbind_seen() || inside_kgenrt || forked || options_mode() == KG_MODE_OFF)
        return;
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (!driver)
        return;
    dlclose(driver);
    log_line(KG_WARN, "%s ('kgenrt run --via audit' sees them)", what);
    const char *path = options()->missed, *slash = strrchr(path, '/');
    char folder[KG_PATH];
    if (slash && path_make(folder, "%.*s", (int)(slash - path), path) == KG_OK &&
        dir_make(folder) == KG_OK)
        (void)file_write(path, what, sizeof what - 1, 0600); /* else nobody is told */
}

__attribute__((destructor)) static void finish(void)
{
    if (app_active())
        app_finish();
    else
        say_what_was_missed();
}
