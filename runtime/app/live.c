/* Sequential live timing: see live.h. Stands on the slow path of a launch and in the watcher; never
 * waits, and never times a launch while its stream is being captured into a graph.
 *
 * The test. In each pair, original and variant run one after the other in an order that is drawn;
 * so where both are equally fast, "the variant took less time" is a fair coin, whatever drifts and
 * whoever else uses the GPU, and outliers weigh no more than others. Against "it is not faster" we
 * bet on heads with the mean of five stakes (chances of heads from 0.55 to 0.98): the capital is a
 * nonnegative supermartingale with mean 1, which ever passes 1000 with a chance of at most 1 in
 * 1000, however often one looks (Ville 1939; Robbins, "Statistical Methods Related to the Law of
 * the Iterated Logarithm", 1970: mixtures). The second test is the same coin against "it is faster
 * by the margin": whether the original took less than 1.03 times the variant's time. Where neither
 * has ended after the most pairs, nothing was shown, and that is what is said. An idle stream adds
 * the time between two calls to both sides: that can only hide a gain. */
#include "app/inside.h"
#include "app/track.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GAP = 8, RETRY = 16 }; /* launches from pair to pair, at least, and after a failed try */

static const double rates[LIVE_RATES] = {0.55, 0.65, 0.75, 0.87, 0.98};

/* ---- arithmetic --------------------------------------------------------------------------------
 */

void live_begin(struct live_test *test)
{
    *test = (struct live_test){0};
    for (int i = 0; i < LIVE_RATES; i++)
        test->for_faster[i] = test->for_close[i] = 1;
}

/* The capital after one more toss. */
static double bet(double stakes[static LIVE_RATES], bool heads)
{
    double sum = 0;
    for (int i = 0; i < LIVE_RATES; i++) {
        stakes[i] *= 2 * (heads ? rates[i] : 1 - rates[i]);
        sum += stakes[i];
    }
    return sum / LIVE_RATES;
}

enum live_outcome live_add(struct live_test *test, double original_ns, double variant_ns,
                           unsigned most)
{
    if (!(original_ns > 0) || !(variant_ns > 0) || test->pairs == LIVE_PAIRS)
        return LIVE_OPEN;
    bool faster = variant_ns < original_ns, close = original_ns < LIVE_MARGIN * variant_ns;
    test->ratios[test->pairs++] = (float)(original_ns / variant_ns);
    test->faster += faster;
    test->close += close;
    bool confirmed = bet(test->for_faster, faster) >= LIVE_ODDS;
    bool refuted = bet(test->for_close, close) >= LIVE_ODDS;
    if (refuted) /* of both at once, the one that is on the safe side */
        return LIVE_NO_FASTER;
    if (confirmed)
        return LIVE_FASTER;
    return test->pairs >= most || test->pairs == LIVE_PAIRS ? LIVE_UNDECIDED : LIVE_OPEN;
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

void live_quartiles(const struct live_test *test, double *low, double *median, double *high)
{
    float sorted[LIVE_PAIRS];
    unsigned n = test->pairs;
    *low = *median = *high = 0;
    if (!n)
        return;
    memcpy(sorted, test->ratios, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_value);
    *low = (double)sorted[n / 4];
    *median = (double)(n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2);
    *high = (double)sorted[n - 1 - n / 4];
}

/* ---- on the launch path ------------------------------------------------------------------------
 */

bool live_launch(struct kernel *kernel, const struct launch *launch, const struct swap_entry *entry,
                 uint64_t number, CUresult *result)
{
    struct live *live = &entry->track->live;
    if (!atomic_load_explicit(&live->open, memory_order_relaxed) ||
        number < atomic_load_explicit(&live->at, memory_order_relaxed))
        return false;
    unsigned step = atomic_load_explicit(&live->step, memory_order_relaxed);
    struct sample *sample = step < 2 * LIVE_PAIRS ? hot_sample_start(launch) : NULL;
    if (!sample || !atomic_compare_exchange_strong(&live->step, &step, step + 1)) {
        if (sample)
            sample_free(sample);
        bool all = step >= 2 * LIVE_PAIRS; /* spent: what is under way decides */
        atomic_store_explicit(&live->at, all ? UINT64_MAX : number + RETRY, memory_order_relaxed);
        return false;
    }
    unsigned pair = step / 2;
    uint64_t gap = step % 2 ? GAP + track_random() % GAP : 1;
    atomic_store_explicit(&live->at, number + gap, memory_order_relaxed);
    bool variant = (track_mix(live->seed + pair) & 1) ^ (step % 2);
    *result = variant ? variant_launch(kernel, launch, entry) : launch->run(launch);
    sample->track = entry->track;
    sample->pair = pair;
    hot_sample_end(sample, kernel, launch, number, variant, *result);
    return true;
}

/* ---- in the watcher ----------------------------------------------------------------------------
 */

static void decide(struct track *track, enum live_outcome outcome)
{
    const struct live_test *test = &track->live.test;
    double low, median, high;
    char text[sizeof track->said];
    live_quartiles(test, &low, &median, &high);
    atomic_store_explicit(&track->live.open, false, memory_order_relaxed);
    if (outcome == LIVE_FASTER) {
        snprintf(text, sizeof text,
                 "confirmed in the app: %.2f times as fast (half of %u pairs within %.2f and %.2f)",
                 median, test->pairs, low, high);
    } else if (outcome == LIVE_UNDECIDED) {
        snprintf(text, sizeof text,
                 "not decided in the app after %u pairs: %.2f times as fast (half within %.2f and "
                 "%.2f)",
                 test->pairs, median, low, high);
    } else {
        snprintf(text, sizeof text,
                 "not faster in the app: %.2f times as fast, below %.2f in %u of %u pairs (half "
                 "within %.2f and %.2f)",
                 median, LIVE_MARGIN, test->close, test->pairs, low, high);
        track_drop(track, "it was not faster in this program", text);
        return;
    }
    track_say(track, text);
}

void live_sample(struct track *track, unsigned pair, bool variant, double ns)
{
    struct live *live = &track->live;
    if (!atomic_load_explicit(&live->open, memory_order_relaxed))
        return;
    unsigned slot = pair % LIVE_RING;
    if (live->halves[slot].pair != pair + 1) { /* numbered from 1: 0 is none */
        live->halves[slot].pair = pair + 1;
        live->halves[slot].ns[0] = live->halves[slot].ns[1] = 0;
    }
    double *both = live->halves[slot].ns;
    both[variant] = ns;
    if (!(both[0] > 0) || !(both[1] > 0))
        return;
    live->halves[slot].pair = 0;
    unsigned most = (unsigned)options()->live_pairs;
    enum live_outcome outcome = live_add(&live->test, both[0], both[1], most);
    if (outcome != LIVE_OPEN)
        decide(track, outcome);
    else if (atomic_load_explicit(&live->step, memory_order_relaxed) == 2 * LIVE_PAIRS)
        decide(track, LIVE_UNDECIDED); /* halves were lost: no more launches are spent on it */
}
