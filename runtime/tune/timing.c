/* What "faster" means: one process, original and variant in ABBA blocks, device time, each launch
 * on other inputs than the one before, caches cold and warm; the ratio of medians, whose interval
 * must lie above 1.03 (timing_judge.c). Wall-clock times never make a gain, they can only deny one.
 *
 * The mode on which the verdict rests is the one whose times are nearer to the app's; the other is
 * measured only as long as it takes to see that nothing is lost there. A gain must then stand:
 * - in a second, short measurement, by its least disturbed pairs (danger 21);
 * - on inputs that no launch has seen (catalogue rows 10 to 12: results kept from the launches
 *   before), and one launch at a time, if it was measured in batches;
 * - by the host's clock (row 13: work that escapes the events);
 * - and if it is more than the device can do, or tenfold, on many more launches that are all
 *   compared (row 36). */
#include "tune/timing.h"

#include "tune/gates/gates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXACT_PAIRS = 2, /* a modelled clock has no noise */
    MOST_PAIRS = TIMING_PAIRS,
    QUIET_PAIRS = 16,
    CHECKED_ONE_IN = 8, /* blocks whose variant results are compared; one of the first always */
    FIRST_BLOCKS = 4,
    DOUBTED_PAIRS = 32, /* all of them compared */
    UNSEEN = 3,         /* at most: a neighbour may have disturbed one */
    SINGLES = 5,
    BATCH_BELOW_NS = 20000,
    MOST_BATCH = 64,
    WARM_UP_NS = 30000000,
    WALL_SLACK_NS = 50000
};
static const double gain_wanted = 1.03, loss_allowed = 0.98;
static const double budget_ns = 1e9; /* for cold and warm each */
static const double unseen_allowed = 1.5, too_good = 10;

static double low_quantile(double *values, unsigned n)
{
    for (unsigned i = 1; i < n; i++)
        for (unsigned k = i; k && values[k] < values[k - 1]; k--) {
            double larger = values[k - 1];
            values[k - 1] = values[k];
            values[k] = larger;
        }
    return n ? values[n / 4] : 0;
}

/* ---- one launch --------------------------------------------------------------------------------
 */

/* The chosen set as it was written, then a launch. *wall: what the host saw; NULL: not wanted. */
static kg_status sample(struct course *course, unsigned set, enum side side, bool cold,
                        unsigned batch, double *ns, double *wall)
{
    struct replay_device *device = course->trial->device;
    kg_status status = set_choose(course, set);
    if (status == KG_OK)
        status = device->restore(device);
    bool limited = side == VARIANT && status == KG_OK;
    if (limited)
        trial_line(course->trial, "limit %ld",
                   trial_limit_ms(course->trial, course->trial->wall_ns * batch));
    uint64_t before = now_ns(); /* beside a program the operations above may rest */
    if (status == KG_OK)
        status = device->sample(device, side, cold, batch, ns);
    if (wall)
        *wall = (double)(now_ns() - before);
    if (limited)
        trial_line(course->trial, "limit 0");
    return status;
}

/* Launches back to back, for kernels too short for the clock; one where the kernel works in place,
 * for its second launch would have another input. */
static unsigned batch_for(const struct trial *trial, double ns)
{
    if (trial->poisoned_bytes < trial->written_bytes || trial->device->exact_clock ||
        ns >= BATCH_BELOW_NS || ns <= 0)
        return 1;
    double batch = ceil(BATCH_BELOW_NS / ns);
    return batch > MOST_BATCH ? MOST_BATCH : (unsigned)batch;
}

/* Clocks rise and lazily loaded code arrives before anything counts. ns: of both sides. */
static kg_status warm_up(struct course *course, bool cold, double ns[2])
{
    uint64_t until = now_ns() + WARM_UP_NS;
    double spent = 0;
    kg_status status = KG_OK;
    ns[0] = ns[1] = 0;
    if (course->trial->device->exact_clock)
        return KG_OK;
    do {
        status = sample(course, course->turn++ % course->sets, ORIGINAL, cold, 1, &ns[0], NULL);
        if (status == KG_OK)
            status = sample(course, course->turn % course->sets, VARIANT, cold, 1, &ns[1], NULL);
        spent += ns[0] + ns[1];
    } while (status == KG_OK && now_ns() < until && spent < WARM_UP_NS);
    return status;
}

/* ---- blocks ------------------------------------------------------------------------------------
 */

/* Two pairs in the order ABBA. The pairs have different inputs, and no launch has those of the one
 * before it. */
static kg_status block(struct course *course, bool cold, unsigned batch, bool checked)
{
    static const enum side sides[4] = {ORIGINAL, VARIANT, VARIANT, ORIGINAL};
    static const unsigned pair[4] = {0, 1, 0, 1};
    struct series *series = &course->series;
    unsigned first =
                 (unsigned)(random_word(course->trial->seeds[3], ~course->turn++) % course->sets),
             sets[2] = {first, (first + 1) % course->sets};
    kg_status status = KG_OK;
    for (unsigned i = 0; i < 4 && status == KG_OK; i++) {
        unsigned at = series->pairs + pair[i];
        status = sample(course, sets[pair[i]], sides[i], cold, batch, &series->ns[sides[i]][at],
                        &series->wall_ns[sides[i]][at]);
        if (status == KG_OK && checked && sides[i] == VARIANT)
            status = set_check(course, sets[pair[i]]);
    }
    series->pairs += 2;
    return status;
}

/* Blocks until the interval is clear of `wanted`, or time is over. */
static kg_status measure(struct course *course, bool cold, double wanted, struct timing *out)
{
    struct trial *trial = course->trial;
    struct series *series = &course->series;
    bool exact = trial->device->exact_clock, done = false;
    double ns[2];
    kg_status status = warm_up(course, cold, ns);
    out->batch = cold ? 1 : batch_for(trial, ns[1]);
    uint64_t begin = now_ns();
    unsigned lucky = (unsigned)random_word(trial->seeds[3], cold) % FIRST_BLOCKS;
    series->pairs = 0;
    while (status == KG_OK && !done) {
        unsigned number = series->pairs / 2;
        bool checked = exact || number == lucky ||
                       !(random_word(trial->seeds[3], 2 + series->pairs + cold) % CHECKED_ONE_IN);
        status = block(course, cold, out->batch, checked);
        double spent = (double)(now_ns() - begin);
        bool late = spent > budget_ns;
        bool last = exact ? series->pairs >= EXACT_PAIRS
                          : series->pairs >= MOST_PAIRS || (late && series->pairs >= TIMING_LEAST);
        done = timing_look(series->ns[ORIGINAL], series->ns[VARIANT], series->pairs, last, wanted,
                           trial->seeds[3] ^ cold, out);
        if (out->pairs < TIMING_LEAST && !exact && series->pairs < MOST_PAIRS &&
            spent < 4 * budget_ns)
            done = false; /* too many of the few were disturbed */
    }
    return status;
}

/* ---- a gain must stand -------------------------------------------------------------------------
 */

static kg_status no_gain(struct course *course, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static kg_status no_gain(struct course *course, const char *format, ...)
{
    struct trial *trial = course->trial;
    va_list args;
    va_start(args, format);
    vsnprintf(trial->reason, sizeof trial->reason, format, args);
    va_end(args);
    course->denied = true;
    return KG_OK;
}

/* Measured again, briefly; what counts is what was least disturbed. That there is more of a gain
 * than was claimed is no objection. */
static kg_status stands_quiet(struct course *course, const struct timing *chosen, bool cold)
{
    struct series *series = &course->series;
    struct timing quiet = {.batch = chosen->batch};
    kg_status status = KG_OK;
    uint64_t begin = now_ns();
    series->pairs = 0;
    while (status == KG_OK && series->pairs < QUIET_PAIRS &&
           (series->pairs < TIMING_LEAST || (double)(now_ns() - begin) < budget_ns / 4))
        status = block(course, cold, chosen->batch, false);
    if (status != KG_OK)
        return status;
    bool any = timing_quiet(series->ns[ORIGINAL], series->ns[VARIANT], series->pairs,
                            course->trial->seeds[3], &quiet);
    json_object_set_new(course->saw, "quiet",
                        json_pack("{sf sf sf si}", "ratio", quiet.ratio, "low", quiet.low, "high",
                                  quiet.high, "pairs", (int)quiet.pairs));
    if (!any || quiet.ratio < gain_wanted || quiet.high < chosen->low)
        return no_gain(course,
                       "no gain that stands: ratio %.2f [%.2f, %.2f], but %.2f [%.2f, %.2f] when "
                       "it was measured again in a quiet window",
                       chosen->ratio, chosen->low, chosen->high, quiet.ratio, quiet.low,
                       quiet.high);
    return KG_OK;
}

/* By the host's clock the variant must not give back what it gains by the events. */
static kg_status stands_by_wall(struct course *course, const struct timing *chosen)
{
    const struct series *series = &course->series;
    double excess[2], values[TIMING_PAIRS], gain;
    for (unsigned side = 0; side < 2; side++) {
        for (unsigned i = 0; i < series->pairs; i++)
            values[i] = fmax(0, series->wall_ns[side][i] - series->ns[side][i] * chosen->batch);
        excess[side] = low_quantile(values, series->pairs);
    }
    gain = (chosen->original_ns - chosen->variant_ns) * chosen->batch;
    double escaped = excess[VARIANT] - excess[ORIGINAL];
    json_object_set_new(course->saw, "host_excess_ns",
                        json_pack("[ff]", excess[ORIGINAL], excess[VARIANT]));
    if (escaped <= gain / 2 || escaped <= WALL_SLACK_NS)
        return KG_OK;
    return no_gain(course,
                   "no gain by the host's clock: beside its %.0f ns a launch of the variant takes "
                   "%.0f ns more than one of the original",
                   chosen->variant_ns, escaped);
}

/* Contents that no launch has met: the variant is timed on them at once. */
static kg_status stands_unseen(struct course *course)
{
    double best = 0, seen = course->trial->cold.variant_ns, ns;
    unsigned tried = 0;
    kg_status status = KG_OK;
    for (unsigned i = 0; i < UNSEEN && status == KG_OK; i++) {
        bool good;
        status = set_unseen(course, &good);
        if (status != KG_OK || !good)
            break;
        status = sample(course, course->sets, VARIANT, true, 1, &ns, NULL);
        if (status == KG_OK)
            status = set_check_unseen(course);
        best = !tried++ || ns < best ? ns : best;
        if (best < unseen_allowed * seen)
            break;
    }
    json_object_set_new(course->saw, "unseen_ns", json_real(best));
    json_object_set_new(course->saw, "unseen_draws", json_integer(tried));
    if (status != KG_OK || !tried || best < unseen_allowed * seen)
        return status;
    return no_gain(course, "no gain on inputs that it has not seen: %.0f ns, %.0f ns otherwise",
                   best, seen);
}

/* What was measured in batches of equal launches must be much the same for one. */
static kg_status stands_single(struct course *course, const struct timing *chosen)
{
    double ns[2][SINGLES], one[2];
    kg_status status = KG_OK;
    if (chosen->batch < 2)
        return KG_OK;
    unsigned count = course->trial->device->exact_clock ? 1 : SINGLES;
    for (unsigned i = 0; i < count && status == KG_OK; i++)
        for (unsigned side = 0; side < 2 && status == KG_OK; side++)
            status = sample(course, i % course->sets, side, false, 1, &ns[side][i], NULL);
    if (status != KG_OK)
        return status;
    for (unsigned side = 0; side < 2; side++)
        one[side] = low_quantile(ns[side], count);
    json_object_set_new(course->saw, "single_ns", json_pack("[ff]", one[0], one[1]));
    if (one[0] > 0 && chosen->ratio <= unseen_allowed * one[0] / one[1])
        return KG_OK;
    return no_gain(course, "ratio %.2f in batches, but %.2f for one launch by itself",
                   chosen->ratio, one[0] / one[1]);
}

/* The least time in which memory can move what the original touches; 0: not known. */
static double floor_ns(const struct trial *trial)
{
    const struct replay_memory *memory = trial->memory;
    size_t at, bytes = images_differ(memory, memory->read, NULL, EVERYWHERE, EVERYWHERE, &at) +
                       images_differ(memory, memory->written, NULL, OUTSIDE(memory->read),
                                     EVERYWHERE, &at);
    return trial->device->bytes_ns > 0 ? (double)bytes / trial->device->bytes_ns : 0;
}

/* Faster than memory allows, or tenfold, is possible, and suspicious: many more launches, each
 * compared. */
static kg_status stands_doubt(struct course *course)
{
    const struct trial *trial = course->trial;
    double least = floor_ns(trial);
    bool below = trial->cold.variant_ns<least, wonder = trial->cold.ratio> too_good ||
                 trial->warm.ratio > too_good;
    unsigned before = course->compared;
    kg_status status = KG_OK;
    course->series.pairs = 0;
    while (status == KG_OK && (below || wonder) && course->series.pairs < DOUBTED_PAIRS)
        status = block(course, true, 1, true);
    json_object_set_new(course->saw, "floor_ns", json_real(least));
    json_object_set_new(course->saw, "below_floor", json_boolean(below));
    json_object_set_new(course->saw, "doubted_compared",
                        json_integer((json_int_t)(course->compared - before)));
    return status;
}

static kg_status stands(struct course *course)
{
    struct trial *trial = course->trial;
    const struct timing *chosen = trial->chosen;
    bool exact = trial->device->exact_clock;
    kg_status status = KG_OK;
    if (!exact)
        status = stands_quiet(course, chosen, chosen == &trial->cold);
    if (!exact && status == KG_OK && !course->denied)
        status = stands_by_wall(course, chosen);
    if (status == KG_OK && !course->denied)
        status = stands_unseen(course);
    if (status == KG_OK && !course->denied)
        status = stands_single(course, chosen);
    return status == KG_OK && !course->denied ? stands_doubt(course) : status;
}

/* ---- the verdict -------------------------------------------------------------------------------
 */

/* The mode whose time is nearer to what the app saw. */
static bool warm_fits(double app_ns, double cold_ns, double warm_ns)
{
    return app_ns > 0 && cold_ns > 0 && warm_ns > 0 &&
           fabs(log(app_ns / warm_ns)) < fabs(log(app_ns / cold_ns));
}

static kg_status choose(struct course *course)
{
    struct trial *trial = course->trial;
    double cold[SINGLES], warm[SINGLES];
    unsigned count = 0, most = trial->device->exact_clock ? 1 : SINGLES;
    uint64_t begin = now_ns();
    kg_status status = KG_OK;
    while (status == KG_OK && count < most &&
           (!count || (double)(now_ns() - begin) < budget_ns / 4)) {
        unsigned set = count % course->sets;
        status = sample(course, set, ORIGINAL, true, 1, &cold[count], NULL);
        if (status == KG_OK)
            status = sample(course, set, ORIGINAL, false, 1, &warm[count++], NULL);
    }
    if (status == KG_OK)
        trial->chosen =
            warm_fits(trial->app_ns, low_quantile(cold, count), low_quantile(warm, count))
                ? &trial->warm
                : &trial->cold;
    return status;
}

static kg_status both_modes(struct course *course)
{
    struct trial *trial = course->trial;
    double ns[2];
    kg_status status = warm_up(course, true, ns);
    if (status == KG_OK)
        status = choose(course);
    if (status != KG_OK)
        return status;
    bool cold = trial->chosen == &trial->cold;
    status = measure(course, cold, gain_wanted, cold ? &trial->cold : &trial->warm);
    if (status != KG_OK || trial->chosen->low < gain_wanted)
        return status; /* the other cannot make it faster */
    status = measure(course, !cold, loss_allowed, cold ? &trial->warm : &trial->cold);
    return status == KG_OK && timing_verdict(trial) == KG_OK ? stands(course) : status;
}

kg_status timing_run(struct trial *trial)
{
    struct course *course = calloc(1, sizeof *course);
    if (!course)
        return KG_NO_MEMORY;
    *course = (struct course){.trial = trial, .saw = json_object()};
    kg_status status = sets_make(course);
    if (status == KG_OK)
        status = both_modes(course);
    if (status == KG_OK && course->denied)
        status = KG_SLOWER;
    json_object_set_new(course->saw, "input_sets", json_integer(course->sets));
    json_object_set_new(course->saw, "timed_launches_compared", json_integer(course->compared));
    trial_saw(trial, "time", course->saw);
    sets_free(course);
    free(course);
    return status;
}

kg_status timing_verdict(struct trial *trial)
{
    const struct timing *cold = &trial->cold, *warm = &trial->warm;
    if (!trial->chosen)
        trial->chosen =
            warm_fits(trial->app_ns, cold->original_ns, warm->original_ns) ? warm : cold;
    const struct timing *chosen = trial->chosen, *rest = chosen == warm ? cold : warm;
    const char *name = chosen == warm ? "warm" : "cold",
               *rest_name = rest == warm ? "warm" : "cold";
    unsigned least = trial->device->exact_clock ? EXACT_PAIRS : TIMING_LEAST;
    bool slower = chosen->pairs >= least && chosen->low < gain_wanted;
    if (!slower && (chosen->pairs < least || rest->pairs < least)) {
        snprintf(trial->reason, sizeof trial->reason,
                 "the GPU was too busy to tell: %u of %u samples disturbed",
                 cold->dropped + warm->dropped,
                 cold->dropped + warm->dropped + cold->pairs + warm->pairs);
        return KG_BUSY; /* about the moment, not about the variant */
    }
    if (slower) {
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
