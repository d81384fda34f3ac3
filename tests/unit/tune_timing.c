/* The timing verdict's statistics: a real gain passes, a self-comparison never does, disturbed
 * samples do not decide. */
#include "test.h"
#include "tune/replay.h"

#include <math.h>
#include <string.h>

static uint64_t draws;

static double uniform(void)
{
    return ((double)(random_word(99, draws++) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* A launch of `ns` with 1.5% noise, a slow drift common to a pair, and now and then a time slice.
 */
static double noisy(double ns, double drift)
{
    double slice = uniform() < 0.03 ? 2e6 : 0;
    return ns * drift * (1 + 0.015 * normal()) + slice;
}

static struct timing trial_of(double gain, unsigned pairs)
{
    double original[TIMING_PAIRS], variant[TIMING_PAIRS];
    struct timing out = {0};
    for (unsigned i = 0; i < pairs; i++) {
        double drift = 1 + 0.02 * sin(i * 0.3);
        original[i] = noisy(100000, drift);
        variant[i] = noisy(100000 / gain, drift);
    }
    timing_judge(original, variant, pairs, draws, &out);
    return out;
}

static void no_false_promotion(void)
{
    unsigned promoted = 0, covered = 0;
    for (unsigned i = 0; i < 1000; i++) {
        struct timing t = trial_of(1, 80);
        promoted += t.low >= 1.03;
        covered += t.low <= 1 && t.high >= 1;
    }
    CHECK(promoted == 0);
    CHECK(covered >= 900); /* a 95% interval, give or take */
    fprintf(stderr, "A/A: %u promoted of 1000, %u intervals hold 1\n", promoted, covered);
    promoted = 0;
    for (unsigned i = 0; i < 1000; i++)
        promoted += trial_of(1, 10).low >= 1.03; /* the fewest pairs that are judged */
    CHECK(promoted == 0);
}

static void gains_are_seen(void)
{
    unsigned passed = 0;
    for (unsigned i = 0; i < 100; i++)
        passed += trial_of(1.10, 80).low >= 1.03;
    CHECK(passed >= 95);
    struct timing t = trial_of(2, 80);
    CHECK(t.low > 1.9 && t.high < 2.1 && t.low <= t.ratio && t.ratio <= t.high);
    CHECK(fabs(t.original_ns / 100000 - 1) < 0.05);
}

static void exact_and_disturbed(void)
{
    double original[20], variant[20];
    struct timing t = {0};
    for (unsigned i = 0; i < 20; i++)
        original[i] = 300, variant[i] = 200;
    timing_judge(original, variant, 2, 1, &t);
    CHECK(t.pairs == 2 && t.ratio == 1.5 && t.low == 1.5 && t.high == 1.5);
    variant[3] = 2000000;
    original[8] = 2000000;
    timing_judge(original, variant, 20, 1, &t);
    CHECK(t.dropped == 2 && t.pairs == 18 && t.ratio == 1.5);
    original[0] = 100; /* the median of an even count lies between two values */
    original[1] = 200;
    variant[0] = variant[1] = 100;
    timing_judge(original, variant, 2, 1, &t);
    CHECK(t.original_ns == 150 && t.variant_ns == 100);
    t = (struct timing){0};
    timing_judge(original, variant, 0, 1, &t);
    CHECK(!t.pairs);
}

/* ---- looking while pairs come in ---------------------------------------------------------------
 */

/* Ways in which clocks and neighbours disturb. Each gives factors for the two launches of a pair;
 * number: of the pair. */
struct noise {
    const char *name;
    void (*draw)(unsigned number, double factor[2]);
};

static void even(unsigned number, double factor[2])
{
    factor[0] = 1 + 0.015 * normal();
    factor[1] = 1 + 0.015 * normal();
}

/* Now and then very late, by the inverse of a uniform number. */
static void heavy(unsigned number, double factor[2])
{
    for (unsigned i = 0; i < 2; i++)
        factor[i] = 1 + 0.01 * fabs(normal()) + (uniform() < 0.2 ? 0.02 / uniform() : 0);
}

/* The clock sinks by a quarter while it is measured. */
static void drift(unsigned number, double factor[2])
{
    double slow = 1 + 0.25 * number / 64;
    even(number, factor);
    factor[0] *= slow * (1 + 0.002 * uniform());
    factor[1] *= slow;
}

/* Two clocks, 12% apart, of each launch by itself. */
static void bimodal(unsigned number, double factor[2])
{
    for (unsigned i = 0; i < 2; i++)
        factor[i] = (uniform() < 0.5 ? 1 : 1.12) * (1 + 0.004 * normal());
}

/* … and for stretches of launches. */
static void stretches(unsigned number, double factor[2])
{
    static bool fast;
    for (unsigned i = 0; i < 2; i++) {
        fast ^= uniform() < 0.1;
        factor[i] = (fast ? 1 : 1.15) * (1 + 0.005 * normal());
    }
}

/* A neighbour's time slices in a third of all launches. */
static void slices(unsigned number, double factor[2])
{
    for (unsigned i = 0; i < 2; i++)
        factor[i] = 1 + 0.01 * normal() + (uniform() < 0.33 ? 0.3 * uniform() : 0);
}

static const struct noise noises[] = {
    {"even", even},          {"heavy tails", heavy},   {"drift", drift},
    {"two clocks", bimodal}, {"stretches", stretches}, {"slices", slices},
};
enum { NOISES = sizeof noises / sizeof *noises };

static struct timing sequential(const struct noise *noise, double gain, unsigned *pairs)
{
    double original[TIMING_PAIRS], variant[TIMING_PAIRS], factor[2];
    struct timing out = {0};
    for (*pairs = 0;;) {
        noise->draw(*pairs, factor);
        original[*pairs] = 100000 * factor[0];
        variant[*pairs] = 100000 / gain * factor[1];
        (*pairs)++;
        if (timing_look(original, variant, *pairs, *pairs == TIMING_PAIRS, 1.03, draws, &out))
            return out;
    }
}

static void looks_do_not_inflate(void)
{
    for (unsigned n = 0; n < NOISES; n++) {
        unsigned promoted = 0, wrong = 0, taken = 0, pairs;
        unsigned trials = n < 3 ? 1000 : 300; /* where noise is large, each takes its time */
        for (unsigned i = 0; i < trials; i++) {
            struct timing t = sequential(&noises[n], 1, &pairs);
            promoted += t.low >= 1.03;
            wrong += t.low > 1 || t.high < 1;
            taken += pairs;
        }
        fprintf(stderr, "A/A, %-12s %u promoted of %u, %u intervals without 1, %.0f pairs\n",
                noises[n].name, promoted, trials, wrong, (double)taken / trials);
        CHECK(promoted == 0);
        CHECK(wrong <= trials * 6 / 100);
    }
}

static void looks_see_gains(void)
{
    static const double gains[] = {1.06, 1.10, 1.5};
    for (unsigned g = 0; g < 3; g++)
        for (unsigned n = 0; n < NOISES; n++) {
            unsigned passed = 0, taken = 0, pairs;
            for (unsigned i = 0; i < 20; i++) {
                passed += sequential(&noises[n], gains[g], &pairs).low >= 1.03;
                taken += pairs;
            }
            fprintf(stderr, "gain %.2f, %-12s seen %u of 20, %.0f pairs\n", gains[g],
                    noises[n].name, passed, taken / 20.0);
            CHECK(gains[g] < 1.5 || passed >= 19);
            CHECK(gains[g] < 1.10 || strcmp(noises[n].name, "even") || passed >= 19);
        }
}

/* What a neighbour does only to one side is not in the least disturbed pairs. */
static void quiet_pairs(void)
{
    double original[16], variant[16];
    struct timing t = {0};
    for (unsigned i = 0; i < 16; i++) {
        original[i] = i % 2 ? 110 : 100;
        variant[i] = 100;
    }
    CHECK(timing_quiet(original, variant, 16, 1, &t) && t.ratio == 1 && t.pairs == 8);
    CHECK(!timing_quiet(original, variant, 0, 1, &t));
}

/* timing_verdict looks at cold and warm, and at the app's own time. */
static kg_status verdict(double cold, double warm, double app_ns, const char *words)
{
    struct replay_device device = {.exact_clock = false};
    struct trial trial = {.device = &device, .app_ns = app_ns};
    trial.cold = (struct timing){.pairs = 40,
                                 .original_ns = 3000,
                                 .variant_ns = 3000 / cold,
                                 .ratio = cold,
                                 .low = cold - 0.01,
                                 .high = cold + 0.01};
    trial.warm = trial.cold;
    trial.warm.original_ns = 1000;
    trial.warm.ratio = warm;
    trial.warm.low = warm - 0.01;
    trial.warm.high = warm + 0.01;
    kg_status status = timing_verdict(&trial);
    CHECK(strstr(trial.reason, words));
    return status;
}

int main(void)
{
    no_false_promotion();
    gains_are_seen();
    exact_and_disturbed();
    looks_do_not_inflate();
    looks_see_gains();
    quiet_pairs();
    CHECK(verdict(1.5, 1.5, 0, "") == KG_OK);
    CHECK(verdict(1.02, 1.5, 2900, "no gain, ratio 1.02 [1.01, 1.03] cold") == KG_SLOWER);
    CHECK(verdict(1.02, 1.5, 1100, "") == KG_OK);
    CHECK(verdict(0.9, 1.5, 1100, "but 0.90") == KG_SLOWER);
    CHECK(verdict(1.5, 0.9, 2900, "but 0.90") == KG_SLOWER);
    return test_result();
}
