/* The bound of accuracy `auto`: how far an element of a result may be from the original's, measured
 * on the original itself, for the inputs at hand.
 *
 *     a few ulp + 32 * the original's own rounding noise + 16 * what an ulp of the inputs makes
 *
 * and never more than a share of the root mean square of the results around (four times the noise,
 * and a larger share, where the inputs are meant to be badly conditioned: there sums of other
 * orders differ most, and what such inputs are drawn for is wrong by far more). Both are taken from
 * one table of differences (Hamming, Numerical Methods for Scientists and Engineers, on the noise
 * of a table; Moré and Wild, Estimating Computational Noise, 2011): the inputs go in equal steps
 * along a direction of random signs, far enough that every rounding falls anew, and near enough
 * that the results are smooth: the fourth difference is then noise, the first the slope. One ulp of
 * the inputs alone would hardly move a long sum's roundings, which are what another order of
 * summation changes.
 *
 * Elements share what was measured with their like: noise with all results of the same binary
 * exponent, times the local excess of a run of neighbours, and never less than their own.
 *
 * Inputs are what is loaded from memory, and the parameters' numbers with which nothing but
 * arithmetic is done: where large terms cancel at a flat place of the former, only coefficients
 * show it.
 *
 * Never: a bound for what is not floating point by data flow, or for a result that is infinite. */
#include "tune/draw.h"
#include "tune/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    DIRECTIONS = 3,
    ARGS_DIRECTIONS = 6,
    POINTS = 4,
    NEIGHBOURS = 64,
    EXPONENTS = 2200,
    MIDDLE = 1100
};

static const double few_ulp = 4, noise_times = 32, slope_times = 16, ill_times = 4;

/* At -2, -1, 1, 2 steps. */
static const double steps[POINTS] = {-2, -1, 1, 2};
static const double fourth[POINTS] = {1, -4, -4, 1}, first[POINTS] = {1, -8, 8, -1};
static const double fourth_norm = 8.366600265340756 /* sqrt(70) */, first_norm = 12;

/* By element type: a step is 2^-step of a number's binade; a bound is at most 2^-cap of the root
 * mean square, 2^-ill_cap where inputs are badly conditioned. */
static const struct {
    int step, cap, ill_cap;
} scales[ELEMENT_COUNT] = {[ELEMENT_F16] = {5, 7, 4},
                           [ELEMENT_BF16] = {4, 4, 3},
                           [ELEMENT_F32] = {12, 10, 3},
                           [ELEMENT_F64] = {26, 36, 20}};

struct measure {
    struct trial *trial;
    struct replay_memory *memory;
    const unsigned char *reference;
    unsigned char *in, *out;
    unsigned char *args;    /* the packed parameters as they were; NULL: none is moved */
    unsigned directions;    /* more where parameters are moved: all elements share their signs, by
                               which terms that cancel may look small in all of a few */
    size_t count;           /* of elements of floating point that may be written */
    double *fourth, *first; /* of the direction at hand */
    double *noise, *slope;  /* root mean squares over the directions */
};

static bool floating(uint8_t element)
{
    return element >= ELEMENT_F16 && element <= ELEMENT_F64;
}

static bool smooth_input(const struct replay_datum *datum)
{
    return draw_takes(datum) && floating(datum->loads) && !(datum->roles & ROLES_INDEX);
}

/* A step, in ulps of the number: an odd number of them, or the roundings of larger sums would not
 * see it; three quarters of 2^-step of the binade on average. */
static double step_ulps(uint8_t element, uint64_t random)
{
    uint64_t half = UINT64_C(1) << (element_bits(element) - 2 - (unsigned)scales[element].step);
    return (double)((half + (random >> 8) % half) | 1);
}

static void move_number(const unsigned char *from, unsigned char *to, size_t at, uint8_t element,
                        uint64_t random, double by)
{
    double value = element_get(from, at, element);
    if (!(fabs(value) > 0) || !isfinite(value))
        return;
    double step = element_ulp(value, element) * step_ulps(element, random);
    element_put(to, at, element, value + (random & 1 ? by : -by) * step);
}

/* The numbers of the parameters, as the inputs in memory below. */
static void move_args(const struct measure *m, unsigned direction, double by)
{
    const struct replay_memory *memory = m->memory;
    const struct replay_device *device = m->trial->device;
    for (uint32_t i = 0; m->args && i < memory->number_count; i++) {
        const struct replay_number *number = &memory->numbers[i];
        if (number->at + element_bytes(number->element) <= device->args_size)
            move_number(m->args, device->args, number->at, number->element,
                        random_word(m->trial->seeds[3] + direction, memory->total + number->at),
                        by);
    }
}

/* The state with every floating-point input moved by so many steps along the direction. */
static void move_inputs(const struct measure *m, const unsigned char *state, unsigned direction,
                        double by)
{
    const struct replay_memory *memory = m->memory;
    memcpy(m->in, state, memory->total);
    for (uint32_t d = 0; d < memory->datum_count; d++) {
        const struct replay_datum *datum = &memory->data[d];
        size_t width = element_bytes(datum->loads);
        if (!smooth_input(datum))
            continue;
        for (size_t at = datum->from; at + width <= datum->to; at += width) {
            if (!memory->slack[at] && !(memory->written[at] && memory->poisoned[at]))
                move_number(state, m->in, at, datum->loads,
                            random_word(m->trial->seeds[3] + direction, at), by);
        }
    }
}

/* Calls each for all elements of floating point that the original writes. */
static void each_result(struct measure *m,
                        void (*each)(struct measure *m, const struct replay_datum *datum, size_t at,
                                     size_t number, double data),
                        double data)
{
    const struct replay_memory *memory = m->memory;
    for (uint32_t d = 0; d < memory->datum_count; d++) {
        const struct replay_datum *datum = &memory->data[d];
        size_t width = element_bytes(datum->stores);
        if (!floating(datum->stores))
            continue;
        for (size_t at = (datum->from + width - 1) / width * width; at + width <= datum->to;
             at += width)
            if (memory->written[at])
                each(m, datum, at, datum->number + (at - datum->from) / width, data);
    }
}

/* One point of the table, as differences from the reference, so that equal numbers cancel. data:
 * the point's number. */
static void add_point(struct measure *m, const struct replay_datum *datum, size_t at, size_t number,
                      double data)
{
    double off =
        element_get(m->out, at, datum->stores) - element_get(m->reference, at, datum->stores);
    m->fourth[number] += fourth[(unsigned)data] * off;
    m->first[number] += first[(unsigned)data] * off;
}

/* data: what makes of a step an ulp of the inputs. */
static void add_direction(struct measure *m, const struct replay_datum *datum, size_t at,
                          size_t number, double data)
{
    double noise = m->fourth[number] / fourth_norm, slope = m->first[number] / first_norm * data;
    m->noise[number] = hypot(m->noise[number], noise / sqrt(m->directions));
    m->slope[number] = hypot(m->slope[number], slope / sqrt(m->directions));
}

/* An ulp, in steps. */
static double step_share(uint8_t element)
{
    return exp2(scales[element].step + 1 - (double)element_bits(element)) / 0.75;
}

/* The widest of the inputs' types decides what an ulp is against a step. */
static double ulps_a_step(const struct measure *m)
{
    const struct replay_memory *memory = m->memory;
    double most = 0;
    for (uint32_t i = 0; m->args && i < memory->number_count; i++)
        most = fmax(most, step_share(memory->numbers[i].element));
    for (uint32_t d = 0; d < memory->datum_count; d++) {
        const struct replay_datum *datum = &memory->data[d];
        if (smooth_input(datum))
            most = fmax(most, step_share(datum->loads));
    }
    return most;
}

static kg_status measure_all(struct measure *m, const unsigned char *state)
{
    double ulp = ulps_a_step(m);
    for (unsigned direction = 0; direction < m->directions; direction++) {
        memset(m->fourth, 0, m->count * sizeof *m->fourth);
        memset(m->first, 0, m->count * sizeof *m->first);
        for (unsigned point = 0; point < POINTS; point++) {
            move_inputs(m, state, direction, steps[point]);
            move_args(m, direction, steps[point]);
            kg_status status = trial_launch(m->trial, ORIGINAL, m->in, m->out);
            if (m->args)
                memcpy(m->trial->device->args, m->args, m->trial->device->args_size);
            if (status != KG_OK)
                return status;
            each_result(m, add_point, point);
        }
        each_result(m, add_direction, ulp);
    }
    return KG_OK;
}

/* ---- from measures to a bound ------------------------------------------------------------------
 */

static unsigned bin_of(double value)
{
    int exponent = fabs(value) > 0 && isfinite(value) ? ilogb(value) : -MIDDLE;
    return exponent <= -MIDDLE ? 0 : (unsigned)(exponent + MIDDLE);
}

/* Mean deviation of results by their binary exponent. */
struct pool {
    double noise[EXPONENTS], slope[EXPONENTS];
    size_t count[EXPONENTS];
    double squares; /* of the results themselves */
    size_t finite;
};

static void pool_make(struct measure *m, const struct replay_datum *datum, struct pool *pool)
{
    size_t width = element_bytes(datum->stores);
    *pool = (struct pool){0};
    for (size_t at = (datum->from + width - 1) / width * width; at + width <= datum->to;
         at += width) {
        size_t number = datum->number + (at - datum->from) / width;
        double value = element_get(m->reference, at, datum->stores);
        if (!m->memory->written[at] || !isfinite(value) || !isfinite(m->noise[number]) ||
            !isfinite(m->slope[number]))
            continue;
        unsigned bin = bin_of(value);
        pool->noise[bin] += m->noise[number];
        pool->slope[bin] += m->slope[number];
        pool->count[bin]++;
        pool->squares += value * value;
        pool->finite++;
    }
    for (unsigned bin = 0; bin < EXPONENTS; bin++)
        if (pool->count[bin]) {
            pool->noise[bin] /= (double)pool->count[bin];
            pool->slope[bin] /= (double)pool->count[bin];
        }
}

/* By how much the measures of these neighbours exceed those of their like, at least 1. */
static void excess(struct measure *m, const struct replay_datum *datum, const struct pool *pool,
                   size_t from, size_t to, double *noise, double *slope)
{
    size_t width = element_bytes(datum->stores), count = 0;
    *noise = *slope = 0;
    for (size_t at = from; at < to; at += width) {
        size_t number = datum->number + (at - datum->from) / width;
        unsigned bin = bin_of(element_get(m->reference, at, datum->stores));
        if (!m->memory->written[at] || !isfinite(m->noise[number]) || !isfinite(m->slope[number]))
            continue;
        count++;
        if (pool->noise[bin] > 0)
            *noise += pow(m->noise[number] / pool->noise[bin], 2);
        if (pool->slope[bin] > 0)
            *slope += pow(m->slope[number] / pool->slope[bin], 2);
    }
    *noise = fmax(1, sqrt(*noise / (double)(count ? count : 1)));
    *slope = fmax(1, sqrt(*slope / (double)(count ? count : 1)));
}

static void bound_datum(struct measure *m, const struct replay_datum *datum, struct pool *pool,
                        bool ill)
{
    size_t width = element_bytes(datum->stores), run = NEIGHBOURS * width;
    pool_make(m, datum, pool);
    double rms = sqrt(pool->squares / (double)(pool->finite ? pool->finite : 1));
    double most = rms * exp2(-(ill ? scales[datum->stores].ill_cap : scales[datum->stores].cap));
    for (size_t from = (datum->from + width - 1) / width * width; from + width <= datum->to;
         from += run) {
        size_t to = from + run < datum->to ? from + run : datum->to / width * width;
        double noise, slope;
        excess(m, datum, pool, from, to, &noise, &slope);
        for (size_t at = from; at < to; at += width) {
            size_t number = datum->number + (at - datum->from) / width;
            double value = element_get(m->reference, at, datum->stores);
            unsigned bin = bin_of(value);
            double own_noise = isfinite(m->noise[number]) ? m->noise[number] : 0;
            double own_slope = isfinite(m->slope[number]) ? m->slope[number] : 0;
            double bound =
                noise_times * (ill ? ill_times : 1) * fmax(own_noise, noise * pool->noise[bin]) +
                slope_times * fmax(own_slope, slope * pool->slope[bin]);
            double least = few_ulp / (element_bits(datum->stores) < 16 ? 2 : 1) *
                           element_ulp(value, datum->stores);
            bound = least + fmin(bound, most);
            m->memory->bound[number] = isfinite(bound) ? bound : 0;
        }
    }
}

static size_t count_results(struct replay_memory *memory)
{
    size_t count = 0;
    for (uint32_t d = 0; d < memory->datum_count; d++) {
        struct replay_datum *datum = &memory->data[d];
        datum->number = count;
        if (floating(datum->stores))
            count += (datum->to - datum->from) / element_bytes(datum->stores) + 1;
    }
    return count;
}

kg_status bound_measure(struct trial *trial, const unsigned char *state,
                        const unsigned char *reference, bool ill)
{
    struct replay_memory *memory = trial->memory;
    struct measure m = {.trial = trial, .memory = memory, .reference = reference};
    if (trial->accuracy.mode != ACCURACY_AUTO)
        return KG_OK;
    m.count = count_results(memory);
    if (!memory->bound)
        memory->bound = calloc(m.count + 1, sizeof *memory->bound);
    struct pool *pool = malloc(sizeof *pool);
    m.in = malloc(memory->total + 8);
    m.out = malloc(memory->total + 8);
    double *all = calloc(4 * m.count + 1, sizeof *all);
    bool movable = memory->number_count && trial->device->args;
    m.args = movable ? malloc(trial->device->args_size + 1) : NULL;
    m.directions = movable ? ARGS_DIRECTIONS : DIRECTIONS;
    if (m.args)
        memcpy(m.args, trial->device->args, trial->device->args_size);
    kg_status status = memory->bound && pool && m.in && m.out && all && (m.args || !movable)
                           ? KG_OK
                           : KG_NO_MEMORY;
    m.fourth = all;
    m.first = all + m.count;
    m.noise = m.first + m.count;
    m.slope = m.noise + m.count;
    if (status == KG_OK && m.count)
        status = measure_all(&m, state);
    for (uint32_t d = 0; status == KG_OK && d < memory->datum_count; d++)
        if (floating(memory->data[d].stores))
            bound_datum(&m, &memory->data[d], pool, ill);
    free(pool);
    free(m.in);
    free(m.out);
    free(m.args);
    free(all);
    return status;
}

/* ---- whether it can fail -----------------------------------------------------------------------
 */

/* Significand bits of the type below: what a cheaper unit would have left. */
static unsigned lower_bits(uint8_t element)
{
    return element == ELEMENT_F64   ? 24
           : element == ELEMENT_F32 ? 11
           : element == ELEMENT_F16 ? 8
                                    : 4;
}

bool bound_tells(const struct trial *trial, const unsigned char *reference)
{
    const struct replay_memory *memory = trial->memory;
    size_t cut = 0, refused = 0;
    for (uint32_t d = 0; d < memory->datum_count; d++) {
        const struct replay_datum *datum = &memory->data[d];
        size_t width = element_bytes(datum->stores);
        if (!floating(datum->stores))
            continue;
        double unit = exp2((double)(element_bits(datum->stores) - lower_bits(datum->stores)));
        for (size_t at = (datum->from + width - 1) / width * width; at + width <= datum->to;
             at += width) {
            double value = element_get(reference, at, datum->stores);
            double ulp = unit * element_ulp(value, datum->stores);
            double off = isfinite(value) ? fabs(value - trunc(value / ulp) * ulp) : 0;
            if (!memory->written[at] || !(off > 0))
                continue;
            cut++;
            refused += off > memory->bound[datum->number + (at - datum->from) / width];
        }
    }
    return refused && 2 * refused >= cut;
}
