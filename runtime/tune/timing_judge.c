/* The statistics of timing, over numbers alone: the ratio of medians with a paired bootstrap
 * interval, looks at it while pairs still come in, and the least disturbed pairs by themselves.
 *
 * Looking often and stopping when it pleases would find a gain in pure noise sooner or later. So
 * the looks are few and fixed, at powers of two, and each gets its share of the interval's error
 * (Bonferroni): the intervals of all looks together hold with 95%. */
#include "tune/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    RESAMPLES = 2000,
    FIRST_LOOK = 8,
    LOOKS = 7 /* at 8, 16, … 256 pairs, and one when time is over */
};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double quantile(const double *values, unsigned n, double q)
{
    double sorted[TIMING_PAIRS];
    memcpy(sorted, values, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, ascending);
    return sorted[(unsigned)(q * (n - 1))];
}

/* Sorted values with, for each, the pair it came from: a resample is a count for each pair, and its
 * median is found by walking the counts in this order. */
struct ranked {
    double value[TIMING_PAIRS];
    unsigned pair[TIMING_PAIRS];
};

static void rank(const double *values, unsigned n, struct ranked *out)
{
    for (unsigned i = 0; i < n; i++) {
        unsigned at = i;
        for (; at && out->value[at - 1] > values[i]; at--) {
            out->value[at] = out->value[at - 1];
            out->pair[at] = out->pair[at - 1];
        }
        out->value[at] = values[i];
        out->pair[at] = i;
    }
}

static double median(const struct ranked *ranked, const unsigned *counts, unsigned n)
{
    unsigned below = 0;
    for (unsigned i = 0; i < n; i++) {
        below += counts[ranked->pair[i]];
        if (2 * below == n) { /* between two values */
            unsigned next = i + 1;
            while (!counts[ranked->pair[next]])
                next++;
            return (ranked->value[i] + ranked->value[next]) / 2;
        }
        if (2 * below > n)
            return ranked->value[i];
    }
    return ranked->value[n - 1];
}

static unsigned drop_disturbed(const double *original, const double *variant, unsigned pairs,
                               double *kept_original, double *kept_variant)
{
    double most_original = 3 * quantile(original, pairs, 0.25);
    double most_variant = 3 * quantile(variant, pairs, 0.25);
    unsigned kept = 0;
    for (unsigned i = 0; i < pairs; i++) {
        if (original[i] > most_original || variant[i] > most_variant)
            continue;
        kept_original[kept] = original[i];
        kept_variant[kept++] = variant[i];
    }
    return kept;
}

/* The judgement with `tail` of the resampled ratios below `low`, and as many above `high`. */
static void judge(const double *original, const double *variant, unsigned pairs, uint64_t seed,
                  double tail, struct timing *out)
{
    double a[TIMING_PAIRS], b[TIMING_PAIRS], ratios[RESAMPLES];
    struct ranked ranked_a = {0}, ranked_b = {0};
    unsigned counts[TIMING_PAIRS], n;
    out->pairs = 0;
    if (!pairs || pairs > TIMING_PAIRS)
        return;
    n = drop_disturbed(original, variant, pairs, a, b);
    out->pairs = n;
    out->dropped = pairs - n;
    if (!n)
        return;
    rank(a, n, &ranked_a);
    rank(b, n, &ranked_b);
    for (unsigned i = 0; i < n; i++)
        counts[i] = 1;
    out->original_ns = median(&ranked_a, counts, n);
    out->variant_ns = median(&ranked_b, counts, n);
    out->ratio = out->variant_ns > 0 ? out->original_ns / out->variant_ns : 0;
    for (unsigned r = 0; r < RESAMPLES; r++) {
        memset(counts, 0, sizeof counts);
        for (unsigned i = 0; i < n; i++)
            counts[random_word(seed, (uint64_t)r * TIMING_PAIRS + i) % n]++;
        double below = median(&ranked_b, counts, n);
        ratios[r] = below > 0 ? median(&ranked_a, counts, n) / below : 0;
    }
    qsort(ratios, RESAMPLES, sizeof *ratios, ascending);
    unsigned below = (unsigned)(RESAMPLES * tail);
    out->low = ratios[below];
    out->high = ratios[RESAMPLES - 1 - below];
}

void timing_judge(const double *original, const double *variant, unsigned pairs, uint64_t seed,
                  struct timing *out)
{
    judge(original, variant, pairs, seed, 0.025, out);
}

bool timing_look(const double *original, const double *variant, unsigned pairs, bool last,
                 double wanted, uint64_t seed, struct timing *out)
{
    if (!last && (pairs < FIRST_LOOK || (pairs & (pairs - 1))))
        return false;
    judge(original, variant, pairs, seed + pairs, 0.025 / LOOKS, out);
    bool clear = out->low >= wanted || out->high < wanted;
    return last || (clear && out->pairs >= TIMING_LEAST);
}

bool timing_quiet(const double *original, const double *variant, unsigned pairs, uint64_t seed,
                  struct timing *out)
{
    double worst[TIMING_PAIRS], a[TIMING_PAIRS], b[TIMING_PAIRS];
    unsigned n = 0;
    if (!pairs || pairs > TIMING_PAIRS)
        return false;
    double floor_a = quantile(original, pairs, 0.25), floor_b = quantile(variant, pairs, 0.25);
    for (unsigned i = 0; i < pairs; i++)
        worst[i] = fmax(original[i] / floor_a, variant[i] / floor_b);
    double limit = quantile(worst, pairs, 0.5);
    for (unsigned i = 0; i < pairs; i++) {
        if (worst[i] > limit)
            continue;
        a[n] = original[i];
        b[n++] = variant[i];
    }
    judge(a, b, n, seed, 0.025, out);
    return out->pairs > 0;
}
