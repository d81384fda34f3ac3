/* Walks by threads of this process: see walk.h. */
#include "tune/walk.h"
#include "tune/parallel.h"

#include <stdatomic.h>

struct going {
    const struct walk *walk;
    uint64_t base;
    _Atomic uint64_t count, first;
};

static void part(void *self, size_t from, size_t to)
{
    struct going *going = self;
    const struct walk walk = *going->walk;
    struct walked seen = {.first = UINT64_MAX};
    for (size_t at = from; at < to; at += 8)
        walk_word(&walk, going->base + at, &seen);
    uint64_t first = atomic_load(&going->first);
    atomic_fetch_add(&going->count, seen.count);
    while (seen.first < first && !atomic_compare_exchange_weak(&going->first, &first, seen.first))
        ;
}

void walk_here(const struct walk *w, struct walked *seen)
{
    uint64_t base = w->from & ~UINT64_C(7);
    struct going going = {.walk = w, .base = base, .first = UINT64_MAX};
    if (base < w->to)
        parallel((w->to - base + 7) & ~UINT64_C(7), 4096, part, &going);
    *seen = (struct walked){going.count, going.first};
}
