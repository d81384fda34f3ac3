/* See parallel.h. Half of the processors that this process may use, at most eight: the others are
 * the program's beside which a worker runs. */
#include "tune/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

enum { THREADS = 8, LEAST = 1 << 18 };

struct share {
    void (*part)(void *self, size_t from, size_t to);
    void *self;
    size_t from, to;
};

static void *run(void *self)
{
    struct share *share = self;
    share->part(share->self, share->from, share->to);
    return NULL;
}

static unsigned processors(void)
{
    cpu_set_t set;
    int usable = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set) / 2;
    return usable < 1 ? 1 : usable > THREADS ? THREADS : (unsigned)usable;
}

void parallel(size_t count, size_t step, void (*part)(void *self, size_t from, size_t to),
              void *self)
{
    struct share shares[THREADS];
    pthread_t threads[THREADS];
    bool started[THREADS] = {false};
    unsigned n = count < LEAST ? 1 : processors();
    size_t each = (count / n + step) / step * step, from = 0;
    for (unsigned i = 0; i < n; i++) {
        size_t to = i == n - 1 || count - from < each ? count : from + each;
        shares[i] = (struct share){part, self, from, to};
        from = to;
        if (i)
            started[i] = !pthread_create(&threads[i], NULL, run, &shares[i]);
    }
    for (unsigned i = 0; i < n; i++)
        if (!started[i])
            (void)run(&shares[i]);
    for (unsigned i = 0; i < n; i++)
        if (started[i])
            (void)pthread_join(threads[i], NULL);
}
