/* Which call of libkgenrt.so is to fail: one in FAULT_RATE, by a sequence that FAULT_SEED begins,
 * once the program has made FAULT_AFTER launches.
 * Only calls that kgenrt itself makes fail, known by the address they return to; the program's
 * own never do. What failed is counted, and left in the file that FAULT_REPORT names. */
#ifndef KG_FAULTS_H
#define KG_FAULTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

extern struct faults {
    uintptr_t low, high; /* of libkgenrt.so */
    uint64_t seed, rate, after;
    unsigned pace_us; /* FAULT_PACE: that each of the program's launches takes longer, so that the
                         watcher has its turns between them */
    atomic_uint_fast64_t launches, calls, failed;
} faults;

static inline bool faults_ours(const void *returns_to)
{
    return (uintptr_t)returns_to >= faults.low && (uintptr_t)returns_to < faults.high;
}

/* A number for this call, the same whenever the same call comes in the same order. */
static inline uint64_t faults_draw(void)
{
    uint64_t x = faults.seed + (atomic_fetch_add(&faults.calls, 1) + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static inline bool faults_due(const void *returns_to)
{
    bool due = faults.rate && faults.launches >= faults.after && faults_ours(returns_to) &&
               faults_draw() % faults.rate == 0;
    if (due)
        atomic_fetch_add(&faults.failed, 1);
    return due;
}

#define HERE __builtin_return_address(0)

#endif
