/* The sequential test of live timing, on times that a model of noise draws: how often it confirms a
 * variant that is no faster, or refuses one that is, and how many pairs it takes. */
#include "app/live.h"

#include <math.h>

#include "test.h"

static uint64_t state = 12345;

static double uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

/* A launch: its time with noise, sometimes a time slice of somebody else on top, and a clock that
 * drifts from pair to pair. */
static double launch(double ns, double noise, double slices, double drift)
{
    double time = ns * drift * exp(noise * normal());
    return uniform() < slices ? time + 2000000 * uniform() : time;
}

struct rates {
    double confirmed, refused, undecided, pairs;
};

static struct rates simulate(double ratio, double noise, double slices, unsigned trials)
{
    unsigned counts[4] = {0};
    double pairs = 0;
    for (unsigned trial = 0; trial < trials; trial++) {
        struct live_test test;
        enum live_outcome outcome = LIVE_OPEN;
        live_begin(&test);
        double drift = 1;
        while (outcome == LIVE_OPEN) {
            drift *= exp(0.02 * normal());
            double original = launch(50000 * ratio, noise, slices, drift);
            double variant = launch(50000, noise, slices, drift);
            outcome = live_add(&test, original, variant, LIVE_PAIRS);
        }
        counts[outcome]++;
        pairs += test.pairs;
    }
    double n = trials;
    struct rates rates = {counts[LIVE_FASTER] / n, counts[LIVE_NO_FASTER] / n,
                          counts[LIVE_UNDECIDED] / n, pairs / n};
    fprintf(stderr,
            "ratio %.2f, noise %.0f%%, slices %.0f%%: confirmed %.4f, refused %.4f, undecided "
            "%.4f, %.0f pairs\n",
            ratio, 100 * noise, 100 * slices, rates.confirmed, rates.refused, rates.undecided,
            rates.pairs);
    return rates;
}

/* The bound is one in 1000 of each kind; 4000 trials with 12 or more would come by chance less than
 * once in a thousand runs at that rate, and the seed is fixed. */
static void error_rates(void)
{
    enum { TRIALS = 4000 };
    const double bound = 12.0 / TRIALS;
    for (int i = 0; i < 3; i++) {
        double noise = i == 0 ? 0.01 : i == 1 ? 0.05 : 0.3, slices = i == 2 ? 0.1 : 0;
        CHECK(simulate(1, noise, slices, TRIALS).confirmed <= bound);
        CHECK(simulate(0.9, noise, slices, TRIALS).confirmed <= bound);
        CHECK(simulate(LIVE_MARGIN, noise, slices, TRIALS).refused <= bound);
        CHECK(simulate(1.2, noise, slices, TRIALS).refused <= bound);
    }
}

static void power(void)
{
    struct rates fast = simulate(2.9, 0.05, 0.05, 1000), some = simulate(1.15, 0.05, 0.02, 1000);
    CHECK(fast.confirmed > 0.999 && fast.pairs < 25);
    CHECK(some.confirmed > 0.99 && some.pairs < 60);
    struct rates equal = simulate(1, 0.02, 0.02, 1000), slow = simulate(0.7, 0.05, 0.05, 1000);
    CHECK(equal.refused > 0.95 && slow.refused > 0.999 && slow.pairs < 25);
}

/* Times without noise: equal ones are no gain. */
static void modelled(void)
{
    struct live_test test;
    double low, median, high;
    enum live_outcome outcome = LIVE_OPEN;
    live_begin(&test);
    live_quartiles(&test, &low, &median, &high);
    CHECK(median == 0);
    CHECK(live_add(&test, 0, 100, 10) == LIVE_OPEN && live_add(&test, NAN, 1, 10) == LIVE_OPEN);
    CHECK(!test.pairs);
    while (outcome == LIVE_OPEN)
        outcome = live_add(&test, 100, 100, LIVE_PAIRS);
    CHECK(outcome == LIVE_NO_FASTER && test.pairs < 20);
    live_begin(&test);
    for (outcome = LIVE_OPEN; outcome == LIVE_OPEN;)
        outcome = live_add(&test, 290, 100, LIVE_PAIRS);
    live_quartiles(&test, &low, &median, &high);
    CHECK(outcome == LIVE_FASTER && median > 2.89 && median < 2.91 && low == high);
    live_begin(&test);
    for (unsigned i = 0; i < 5; i++)
        outcome = live_add(&test, 290, 100, 5); /* fewer pairs than it needs */
    CHECK(outcome == LIVE_UNDECIDED);
}

int main(void)
{
    error_rates();
    power();
    modelled();
    return test_result();
}
