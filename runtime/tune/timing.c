/* What "faster" means: one process, original and variant in ABBA blocks, device time, cold and
 * warm, the ratio of medians with a paired bootstrap interval whose low end must pass 1.03.
 * Wall-clock times never enter. */
#include "tune/replay.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RESAMPLES = 1000,
    LEAST_PAIRS = 10,    /* fewer say nothing about noise */
    ENOUGH_PAIRS = 80,   /* more than this only if they come fast */
    EXACT_PAIRS = 2,     /* a modelled clock has no noise */
    CHECKED_ONE_IN = 16, /* blocks whose variant results are compared; one of the first always */
    BATCH_BELOW_NS = 20000,
    MOST_BATCH = 64,
    WARM_UP_NS = 30000000
};
static const double gain_wanted = 1.03, loss_allowed = 0.98;
static const double budget_ns = 2e9; /* for cold and warm each */

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

void timing_judge(const double *original, const double *variant, unsigned pairs, uint64_t seed,
                  struct timing *out)
{
    double a[TIMING_PAIRS], b[TIMING_PAIRS], ratios[RESAMPLES];
    struct ranked ranked_a = {0}, ranked_b = {0};
    unsigned counts[TIMING_PAIRS], n;
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
    out->low = ratios[RESAMPLES * 25 / 1000];
    out->high = ratios[RESAMPLES * 975 / 1000 - 1];
}

/* ---- sampling ----------------------------------------------------------------------------------
 */

/* Compares memory after a timed launch with what must stand there. */
static kg_status check(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    kg_status status = KG_OK;
    for (uint32_t i = 0; i < memory->extent_count && status == KG_OK; i++) {
        const struct replay_extent *extent = &memory->extents[i];
        status = trial->device->read(trial->device, extent->address, memory->other + extent->at,
                                     extent->size);
    }
    size_t at = first_difference(memory->first, memory->other, NULL, 0, memory->total);
    if (status == KG_OK && at < trial->timed_at)
        trial->timed_at = at;
    return status;
}

static kg_status sample(struct trial *trial, enum side side, bool cold, unsigned batch, double *ns)
{
    kg_status status = trial->device->restore(trial->device);
    return status == KG_OK ? trial->device->sample(trial->device, side, cold, batch, ns) : status;
}

/* Launches back to back, for kernels too short for the clock; one where the kernel works in place,
 * for its second launch would have another input. */
static unsigned batch_for(const struct trial *trial, double ns)
{
    if (trial->poisoned_bytes < trial->written_bytes || ns >= BATCH_BELOW_NS || ns <= 0)
        return 1;
    double batch = ceil(BATCH_BELOW_NS / ns);
    return batch > MOST_BATCH ? MOST_BATCH : (unsigned)batch;
}

/* Clocks rise and lazily loaded code arrives before anything counts. *ns: of the variant. */
static kg_status warm_up(struct trial *trial, bool cold, double *ns)
{
    uint64_t until = now_ns() + (trial->device->exact_clock ? 0 : WARM_UP_NS);
    kg_status status;
    do {
        status = sample(trial, ORIGINAL, cold, 1, ns);
        if (status == KG_OK)
            status = sample(trial, VARIANT, cold, 1, ns);
    } while (status == KG_OK && now_ns() < until);
    return status;
}

/* ABBA blocks until there are enough pairs, or time is over and there are a few. */
static kg_status blocks(struct trial *trial, bool cold, struct timing *out)
{
    double times[2][TIMING_PAIRS], ns = 0;
    bool exact = trial->device->exact_clock;
    unsigned enough = exact ? EXACT_PAIRS : ENOUGH_PAIRS, least = exact ? EXACT_PAIRS : LEAST_PAIRS;
    kg_status status = warm_up(trial, cold, &ns);
    out->batch = cold ? 1 : batch_for(trial, ns);
    uint64_t begin = now_ns();
    unsigned pairs = 0, lucky = random_word(trial->seeds[3], cold) % (least / 2);
    while (status == KG_OK && pairs < enough &&
           (pairs < least || (double)(now_ns() - begin) < budget_ns)) {
        static const enum side order[4] = {ORIGINAL, VARIANT, VARIANT, ORIGINAL};
        bool checked =
            pairs / 2 == lucky || !(random_word(trial->seeds[3], pairs) % CHECKED_ONE_IN);
        for (unsigned i = 0; i < 4 && status == KG_OK; i++) {
            status = sample(trial, order[i], cold, out->batch, &times[order[i]][pairs + i / 2]);
            if (status == KG_OK && checked && order[i] == VARIANT)
                status = check(trial);
        }
        pairs += 2;
    }
    if (status == KG_OK)
        timing_judge(times[ORIGINAL], times[VARIANT], pairs, trial->seeds[3] ^ cold, out);
    return status;
}

kg_status timing_run(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    struct replay_device *device = trial->device;
    kg_status status = KG_OK;
    memory_state(memory, trial->seeds[1], false, memory->work);
    for (uint32_t i = 0; i < memory->extent_count && status == KG_OK; i++) {
        const struct replay_extent *extent = &memory->extents[i];
        status = device->write(device, extent->address, memory->work + extent->at, extent->size);
    }
    if (status == KG_OK)
        status = device->keep(device);
    if (status == KG_OK)
        status = blocks(trial, true, &trial->cold);
    return status == KG_OK ? blocks(trial, false, &trial->warm) : status;
}

kg_status timing_verdict(struct trial *trial)
{
    const struct timing *cold = &trial->cold, *warm = &trial->warm;
    bool warm_fits = trial->app_ns > 0 && fabs(log(trial->app_ns / warm->original_ns)) <
                                              fabs(log(trial->app_ns / cold->original_ns));
    const struct timing *chosen = warm_fits ? warm : cold, *rest = warm_fits ? cold : warm;
    const char *name = warm_fits ? "warm" : "cold", *rest_name = warm_fits ? "cold" : "warm";
    unsigned least = trial->device->exact_clock ? EXACT_PAIRS : LEAST_PAIRS;
    trial->chosen = chosen;
    if (cold->pairs < least || warm->pairs < least) {
        snprintf(trial->reason, sizeof trial->reason,
                 "the GPU was too busy to tell: %u of %u samples disturbed",
                 cold->dropped + warm->dropped,
                 cold->dropped + warm->dropped + cold->pairs + warm->pairs);
        return KG_SLOWER;
    }
    if (chosen->low < gain_wanted) {
        snprintf(trial->reason, sizeof trial->reason,
                 "no gain, ratio %.2f [%.2f, %.2f] %s (original %.0f ns, variant %.0f ns)",
                 chosen->ratio, chosen->low, chosen->high, name, chosen->original_ns,
                 chosen->variant_ns);
        return KG_SLOWER;
    }
    if (rest->ratio < loss_allowed || rest->high < 1) {
        snprintf(trial->reason, sizeof trial->reason,
                 "no gain, ratio %.2f [%.2f, %.2f] %s but %.2f [%.2f, %.2f] %s", chosen->ratio,
                 chosen->low, chosen->high, name, rest->ratio, rest->low, rest->high, rest_name);
        return KG_SLOWER;
    }
    return KG_OK;
}
