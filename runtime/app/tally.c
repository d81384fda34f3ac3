/* Counters of launches, apart by thread: see tally.h. Nothing here is allocated on the launch path.
 */
#include "app/tally.h"

#include <stdlib.h>
#include <string.h>

_Thread_local unsigned tally_thread __attribute__((tls_model("initial-exec")));

static struct tally *tallies_of(const struct kernel *kernel)
{
    return atomic_load_explicit(&kernel->tallies, memory_order_acquire);
}

struct tally *tally_elsewhere(struct kernel *kernel)
{
    static atomic_uint threads; /* that launched something */
    if (!tally_thread) {
        unsigned before = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed);
        tally_thread = before ? before % TALLIES + 1 : TALLY_HOME;
        if (!before)
            return &kernel->home;
    }
    struct tally *tallies = tallies_of(kernel);
    if (tallies)
        return &tallies[tally_thread - 1];
    if (!atomic_load_explicit(&kernel->tallies_wanted, memory_order_relaxed))
        atomic_store_explicit(&kernel->tallies_wanted, true, memory_order_relaxed);
    return &kernel->home;
}

static uint64_t value_at(const struct tally *tally, size_t counter)
{
    return atomic_load_explicit(
        (const atomic_uint_fast64_t *)(const void *)((const char *)tally + counter),
        memory_order_relaxed);
}

static uint64_t sum_of(const struct kernel *kernel, size_t counter)
{
    const struct tally *tallies = tallies_of(kernel);
    uint64_t sum = value_at(&kernel->home, counter);
    for (unsigned i = 0; tallies && i < TALLIES; i++)
        sum += value_at(&tallies[i], counter);
    return sum;
}

uint64_t tally_launches(const struct kernel *kernel)
{
    return sum_of(kernel, offsetof(struct tally, launches));
}

uint64_t kernel_launches(const struct kernel *kernel)
{
    return tally_launches(kernel) + atomic_load_explicit(&kernel->in_graphs, memory_order_relaxed);
}

uint64_t kernel_swapped(const struct kernel *kernel)
{
    return sum_of(kernel, offsetof(struct tally, swapped)) +
           atomic_load_explicit(&kernel->swapped_in_graphs, memory_order_relaxed);
}

uint64_t kernel_refused(const struct kernel *kernel, enum refusal why)
{
    return sum_of(kernel, offsetof(struct tally, refused) + why * sizeof(atomic_uint_fast64_t));
}

static void tell(struct tally *tally, uint64_t all)
{
    uint64_t own = atomic_load_explicit(&tally->launches, memory_order_relaxed);
    if (all > own) /* else it launched meanwhile, alone */
        atomic_store_explicit(&tally->others, all - own, memory_order_relaxed);
}

void tally_tick(struct kernel *kernel)
{
    struct tally *tallies = tallies_of(kernel);
    if (!tallies && atomic_load_explicit(&kernel->tallies_wanted, memory_order_relaxed)) {
        tallies = aligned_alloc(_Alignof(struct tally), TALLIES * sizeof *tallies);
        if (!tallies)
            return;
        memset(tallies, 0, TALLIES * sizeof *tallies);
        atomic_store_explicit(&kernel->tallies, tallies, memory_order_release);
    }
    if (!tallies)
        return;
    uint64_t all = tally_launches(kernel);
    tell(&kernel->home, all);
    for (unsigned i = 0; i < TALLIES; i++)
        tell(&tallies[i], all);
}

void tally_free(struct kernel *kernel)
{
    free(tallies_of(kernel));
    atomic_store_explicit(&kernel->tallies, NULL, memory_order_relaxed);
}
