/* How often each kernel was launched, counted so that no two threads write the same cache line: the
 * first thread of the process that launches anything counts in the record itself, each later one in
 * a tally of its own (as many as there are; more threads share some). The watcher makes the
 * tallies of a kernel once a second thread was seen to launch it; until then both write the record.
 *
 * Counts are exact in a program of one thread. Where two threads write one tally at the same
 * instant, a count may be lost; never more. */
#ifndef KG_APP_TALLY_H
#define KG_APP_TALLY_H

#include "app/app.h"

enum { TALLIES = 15, TALLY_HOME = TALLIES + 1 };

/* Whose tally this thread's launches count in: TALLY_HOME the record's; 0: not decided yet. */
extern _Thread_local unsigned tally_thread __attribute__((tls_model("initial-exec")));

struct tally *tally_elsewhere(struct kernel *kernel); /* any but the home thread */

/* On the launch path. */
static inline struct tally *tally_of(struct kernel *kernel)
{
    return __builtin_expect(tally_thread == TALLY_HOME, true) ? &kernel->home
                                                              : tally_elsewhere(kernel);
}

static inline void tally_count(atomic_uint_fast64_t *counter)
{
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, value + 1, memory_order_relaxed);
}

/* The number of this thread's last launch among all launches of the kernel, as far as it is known
 * here: what others launched in the last tick may be missing. */
static inline uint64_t tally_number(const struct tally *tally)
{
    return atomic_load_explicit(&tally->launches, memory_order_relaxed) +
           atomic_load_explicit(&tally->others, memory_order_relaxed);
}

/* Watcher, locked: makes the tallies that are wanted, and tells each what the others count. */
void tally_tick(struct kernel *kernel);
/* All launches that were made by launching, not within graphs. */
uint64_t tally_launches(const struct kernel *kernel);
void tally_free(struct kernel *kernel); /* locked: the record is blanked */

#endif
