/* The timing verdict's statistics: a real gain passes, a self-comparison never does, disturbed
 * samples do not decide. */
#include "test.h"
#include "tune/gates/gates.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

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

/* ---- the whole way -----------------------------------------------------------------------------
 */

/* A device in memory: y = 2 * x + 1 over WORDS words, x first. Times are 100 us with noise. */
enum { WORDS = 16, BYTES = 2 * 4 * WORDS };
static uint32_t place[2 * WORDS], kept[REPLAY_SETS][2 * WORDS];
static unsigned chosen_set, samples[2];
static double speed;            /* of the variant */
static const struct noise *air; /* of both */
static enum { HONEST, KEEPS_ANSWERS, SKIPS_IN_BATCH, ESCAPES } manner;

static kg_status read_place(struct replay_device *device, uint64_t address, void *out, size_t size)
{
    memcpy(out, (const void *)(uintptr_t)address, size);
    return KG_OK;
}

static kg_status write_place(struct replay_device *device, uint64_t address, const void *data,
                             size_t size)
{
    memcpy((void *)(uintptr_t)address, data, size);
    return KG_OK;
}

static kg_status launch(struct replay_device *device, enum side side)
{
    for (unsigned i = 0; i < WORDS; i++)
        place[WORDS + i] = 2 * place[i] + 1;
    return KG_OK;
}

static kg_status keep(struct replay_device *device)
{
    memcpy(kept[chosen_set], place, BYTES);
    return KG_OK;
}

static kg_status restore(struct replay_device *device)
{
    memcpy(place, kept[chosen_set], BYTES);
    return KG_OK;
}

static kg_status set_select(struct replay_device *device, unsigned index)
{
    chosen_set = index;
    return KG_OK;
}

static kg_status observe(struct replay_device *device, enum side side, unsigned what,
                         uint64_t budget, unsigned char *reads, unsigned char *writes,
                         struct replay_observed *out)
{
    if (out)
        *out = (struct replay_observed){.most = 1};
    return KG_OK;
}

/* How a variant that keeps answers, or knows that it is launched again, would look. */
static double variant_ns(unsigned batch)
{
    static struct kg_id known[64];
    struct kg_id inputs;
    bool seen = false;
    double ns = 100000 / speed;
    hash_data(place, BYTES / 2, &inputs);
    for (unsigned i = 0; i < 64; i++)
        seen |= id_equal(&known[i], &inputs);
    known[samples[VARIANT] % 64] = inputs;
    if (manner == KEEPS_ANSWERS && !seen)
        return 300000;
    if (manner == SKIPS_IN_BATCH)
        return (5000 + 100.0 * (batch - 1)) / batch;
    return ns;
}

static kg_status sample(struct replay_device *device, enum side side, bool cold, unsigned batch,
                        double *ns)
{
    double factor[2];
    air->draw(samples[side] / 2, factor);
    *ns = (side == ORIGINAL ? manner == SKIPS_IN_BATCH ? 5000 : 100000 : variant_ns(batch)) *
          factor[side];
    if (cold && manner == SKIPS_IN_BATCH)
        *ns *= 3; /* so that the warm mode is the one that fits */
    samples[side]++;
    if (manner == ESCAPES && side == VARIANT)
        usleep(300);
    return launch(device, side);
}

static kg_status course(double gain, const struct noise *noise, double app_ns, char reason[256],
                        struct timing *out)
{
    static struct kg_capture capture;
    uint64_t seed = draws++;
    struct replay_extent extent = {.address = (uintptr_t)place, .size = BYTES};
    struct replay_memory memory = {
        .capture = &capture, .extent_count = 1, .extents = &extent, .total = BYTES};
    struct replay_device device = {.read = read_place,
                                   .write = write_place,
                                   .launch = launch,
                                   .keep = keep,
                                   .restore = restore,
                                   .sample = sample,
                                   .observe = observe,
                                   .set_select = set_select};
    struct trial trial = {.device = &device,
                          .memory = &memory,
                          .app_ns = app_ns,
                          .lines = open("/dev/null", O_WRONLY),
                          .seeds = {seed, seed, seed, 2 * seed},
                          .written_bytes = BYTES / 2,
                          .poisoned_bytes = BYTES / 2,
                          .timed_at = BYTES,
                          .evidence = json_object()};
    struct replay_extent *extents = malloc(sizeof extent); /* memory_free frees them */
    *extents = extent;
    memory.extents = extents;
    CHECK(trial.lines >= 0 && memory_create(&memory) == KG_OK);
    memset(memory.slack, 0, BYTES);
    memset(memory.read, 0xff, BYTES / 2);
    memset(memory.written + BYTES / 2, 0xff, BYTES / 2);
    memcpy(memory.poisoned, memory.written, BYTES);
    for (unsigned i = 0; i < BYTES / 2; i++)
        memory.pristine[i] = (unsigned char)random_word(5, i);
    speed = gain;
    air = noise;
    memset(samples, 0, sizeof samples);
    kg_status status = gate_time(&trial);
    CHECK(gate_timed(&trial) == KG_OK);
    CHECK(json_is_object(json_object_get(json_object_get(trial.evidence, "saw"), "time")));
    snprintf(reason, 256, "%.255s", status == KG_OK ? "" : trial.reason);
    *out = *trial.chosen;
    json_decref(trial.evidence);
    memory_free(&memory);
    close(trial.lines);
    return status;
}

static void whole_way(void)
{
    char reason[256];
    struct timing t;
    unsigned promoted = 0, seen = 0;
    for (unsigned i = 0; i < 1000; i++)
        promoted += course(1, &noises[i % 3], 0, reason, &t) == KG_OK;
    fprintf(stderr, "A/A, the whole way: %u promoted of 1000\n", promoted);
    CHECK(promoted == 0);
    for (unsigned i = 0; i < 20; i++)
        seen += course(1.2, &noises[0], 0, reason, &t) == KG_OK;
    CHECK(seen >= 19);
    CHECK(course(20, &noises[0], 0, reason, &t) == KG_OK && t.ratio > 15);
    manner = KEEPS_ANSWERS;
    CHECK(course(2, &noises[0], 0, reason, &t) == KG_SLOWER && strstr(reason, "not seen"));
    manner = SKIPS_IN_BATCH;
    CHECK(course(2, &noises[0], 4000, reason, &t) == KG_SLOWER && strstr(reason, "in batches"));
    manner = ESCAPES;
    CHECK(course(2, &noises[0], 0, reason, &t) == KG_SLOWER && strstr(reason, "host's clock"));
    manner = HONEST;
}

/* Too few pairs that were not disturbed are no verdict about the variant. */
static void too_busy(void)
{
    struct replay_device device = {.exact_clock = false};
    struct trial trial = {.device = &device};
    trial.cold = (struct timing){.pairs = 5, .dropped = 251, .ratio = 1.5, .low = 1.4, .high = 1.6};
    trial.chosen = &trial.cold;
    CHECK(timing_verdict(&trial) == KG_BUSY && strstr(trial.reason, "too busy"));
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
    whole_way();
    too_busy();
    CHECK(verdict(1.5, 1.5, 0, "") == KG_OK);
    CHECK(verdict(1.02, 1.5, 2900, "no gain, ratio 1.02 [1.01, 1.03] cold") == KG_SLOWER);
    CHECK(verdict(1.02, 1.5, 1100, "") == KG_OK);
    CHECK(verdict(0.9, 1.5, 1100, "but 0.90") == KG_SLOWER);
    CHECK(verdict(1.5, 0.9, 2900, "but 0.90") == KG_SLOWER);
    return test_result();
}
