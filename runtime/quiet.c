/* Writing in a stranger's process: a closed pipe or a limit on file sizes ends a process by a
 * signal, unless it is blocked while we write. The app's own signals, and what it does about them,
 * stay as they are. */
#include "kgenrt.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

/* Both go to the writing thread itself. */
static const int deadly[2] = {SIGPIPE, SIGXFSZ};

void quiet_begin(struct kg_quiet *quiet)
{
    sigset_t block, pending;
    sigemptyset(&block);
    sigemptyset(&quiet->ours);
    sigemptyset(&pending);
    (void)sigpending(&pending);
    for (int i = 0; i < 2; i++) {
        sigaddset(&block, deadly[i]);
        if (!sigismember(&pending, deadly[i]))
            sigaddset(&quiet->ours, deadly[i]);
    }
    quiet->blocked = !pthread_sigmask(SIG_BLOCK, &block, &quiet->before);
}

void quiet_end(const struct kg_quiet *quiet)
{
    const struct timespec now = {0, 0};
    int error = errno;
    if (!quiet->blocked)
        return;
    while (sigtimedwait(&quiet->ours, NULL, &now) > 0)
        ; /* what our writing raised ends here */
    (void)pthread_sigmask(SIG_SETMASK, &quiet->before, NULL);
    errno = error;
}
