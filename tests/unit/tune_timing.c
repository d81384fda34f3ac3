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
    CHECK(verdict(1.5, 1.5, 0, "") == KG_OK);
    CHECK(verdict(1.02, 1.5, 2900, "no gain, ratio 1.02 [1.01, 1.03] cold") == KG_SLOWER);
    CHECK(verdict(1.02, 1.5, 1100, "") == KG_OK);
    CHECK(verdict(0.9, 1.5, 1100, "but 0.90") == KG_SLOWER);
    CHECK(verdict(1.5, 0.9, 2900, "but 0.90") == KG_SLOWER);
    return test_result();
}
