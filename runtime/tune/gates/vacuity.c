/* Gate vacuity: the check can fail. Null candidates (nothing, zeros, one constant, the mean, an
 * input copied from any offset) must be refused by the very comparison that the variant will meet:
 * on the captured inputs, else on inputs drawn as gate inputs draws them, for a captured result
 * that is all zeros says nothing of the kernel. What no inputs refuse is unverifiable and left
 * alone; only a copy that holds on all drawn inputs is taken for what the kernel does. And a launch
 * that did not happen must change the outcome. Catches rows 1, 5, 6, 18 and 20 of the catalogue. */
#include "tune/gates/gates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum null { NULL_NOTHING, NULL_ZEROS, NULL_CONSTANT, NULL_MEAN, NULL_COPY, NULLS };
static const char *const null_texts[NULLS] = {"does nothing", "writes zeros", "writes one constant",
                                              "writes the mean of the results", "copies an input"};
enum { DRAWS = 6, MATCH = 32 };

struct nulls {
    struct trial *trial;
    const unsigned char *state, *expected; /* before and after the original's launch */
    bool refused[NULLS];
    unsigned draws;
};

/* True if the image in memory->other would pass for the result: then the check checks nothing. */
static bool passes(struct nulls *nulls)
{
    size_t at;
    return results_equal(nulls->trial->memory, nulls->trial->memory->other, nulls->expected,
                         &nulls->trial->accuracy, &at);
}

static void zeros(struct nulls *nulls)
{
    struct replay_memory *memory = nulls->trial->memory;
    images_mix(memory, nulls->expected, NULL, INSIDE(memory->written), EVERYWHERE, memory->other);
}

/* The same 16 bytes everywhere, those that come first. */
static void constant(struct nulls *nulls)
{
    struct replay_memory *memory = nulls->trial->memory;
    struct walk w = {.kind = WALK_MIX,
                     .source = WALK_PATTERN,
                     .x = nulls->expected,
                     .out = memory->other,
                     .masks = {memory->written}};
    unsigned char value[16] = {0};
    unsigned known = 0;
    for (size_t i = 0; i < memory->total && known != 0xffff; i++) {
        if (!memory->written[i] || known >> i % 16 & 1)
            continue;
        value[i % 16] = nulls->expected[i];
        known |= 1u << i % 16;
    }
    memcpy(w.pattern, value, sizeof value);
    memory_walk(memory, w, NULL);
}

/* Of each buffer of floating-point results its mean; false: there is none. */
static bool mean(struct nulls *nulls)
{
    struct replay_memory *memory = nulls->trial->memory;
    bool any = false;
    memcpy(memory->other, nulls->expected, memory->total);
    for (uint32_t d = 0; d < memory->datum_count; d++) {
        const struct replay_datum *datum = &memory->data[d];
        size_t width = element_bytes(datum->stores), count = 0;
        double sum = 0;
        for (size_t at = datum->from; width && at + width <= datum->to; at += width)
            if (memory->written[at]) {
                double value = element_get(nulls->expected, at, datum->stores);
                sum += isfinite(value) ? value : 0;
                count++;
            }
        for (size_t at = datum->from; count && at + width <= datum->to; at += width)
            if (memory->written[at])
                element_put(memory->other, at, datum->stores, sum / (double)count);
        any |= count > 1; /* of one it is the result */
    }
    return any;
}

/* A run of captured bytes, or of a variable. */
struct run {
    size_t from, to;
};

static bool run_of(const struct replay_memory *memory, uint32_t region, struct run *out)
{
    size_t at;
    if (!memory->capture->regions[region].size || !memory_region(memory, region, &at))
        return false;
    *out = (struct run){at, at + (size_t)memory->capture->regions[region].size};
    return true;
}

/* Tries the one copy of `source` into `target` that gives the first results: it stands wherever
 * these stand in the source. */
static bool copy_passes(struct nulls *nulls, struct run source, struct run target)
{
    struct replay_memory *memory = nulls->trial->memory;
    const unsigned char *begin =
        memchr(memory->written + target.from, 0xff, target.to - target.from);
    if (!begin)
        return false;
    size_t first = (size_t)(begin - memory->written), match = 0;
    while (match < MATCH && first + match < target.to && memory->written[first + match])
        match++;
    const unsigned char *found =
        memmem(nulls->state + source.from, source.to - source.from, nulls->expected + first, match);
    if (!found)
        return false;
    size_t from = (size_t)(found - nulls->state);
    memcpy(memory->other, nulls->expected, memory->total);
    for (size_t at = first; at < target.to && from + (at - first) < source.to; at++)
        if (memory->written[at])
            memory->other[at] = nulls->state[from + (at - first)];
    return passes(nulls);
}

static bool any_copy_passes(struct nulls *nulls)
{
    const struct replay_memory *memory = nulls->trial->memory;
    for (uint32_t t = 0; t < memory->capture->region_count; t++)
        for (uint32_t s = 0; s < memory->capture->region_count; s++) {
            struct run source, target;
            if (s != t && run_of(memory, s, &source) && run_of(memory, t, &target) &&
                source.from != target.from && copy_passes(nulls, source, target))
                return true;
        }
    return false;
}

/* Bytes that the result may depend on: captured, but for what is only written. */
static bool has_inputs(const struct replay_memory *memory)
{
    for (size_t i = 0; i < memory->total; i++)
        if (!memory->slack[i] && !(memory->written[i] && memory->poisoned[i]))
            return true;
    return false;
}

static void try_nulls(struct nulls *nulls)
{
    struct trial *trial = nulls->trial;
    struct replay_memory *memory = trial->memory;
    images_mix(memory, NULL, nulls->state, EVERYWHERE, EVERYWHERE, memory->other);
    nulls->refused[NULL_NOTHING] |= !passes(nulls);
    zeros(nulls);
    nulls->refused[NULL_ZEROS] |= !passes(nulls);
    constant(nulls);
    nulls->refused[NULL_CONSTANT] |= trial->sensitive || !has_inputs(memory) || !passes(nulls);
    nulls->refused[NULL_MEAN] |= trial->sensitive || !mean(nulls) || !passes(nulls);
    nulls->refused[NULL_COPY] |= !any_copy_passes(nulls);
}

/* NULL_COUNT: all are refused by now. */
static enum null still_passing(const struct nulls *nulls)
{
    enum null null = 0;
    while (null < NULLS && nulls->refused[null])
        null++;
    return null;
}

/* A device that gives back what was never launched would make every check pass. */
static kg_status ghost(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    size_t at;
    memory_state(memory, trial->seeds[1], false, memory->work);
    bool same = false;
    memory_expected(memory, trial->seeds[1], memory->first);
    kg_status status = trial_put(trial, memory->work);
    if (status == KG_OK)
        status = trial_fetch_unless(trial, memory->first, memory->other, &same);
    if (status != KG_OK)
        return because(trial, KG_NOT_ELIGIBLE, "memory cannot be read back: %s",
                       trial->device->error);
    if (same || results_equal(memory, memory->other, memory->first, &trial->accuracy, &at))
        return because(trial, KG_NOT_ELIGIBLE,
                       "unverifiable: on these inputs a kernel that does nothing would pass");
    return KG_OK;
}

/* Other inputs, until all null candidates are refused. */
static kg_status redraw(struct nulls *nulls)
{
    struct trial *trial = nulls->trial;
    struct replay_memory *memory = trial->memory;
    for (unsigned row = 0; row < DRAWS && still_passing(nulls) < NULLS; row++) {
        struct drawn drawn;
        const char *text;
        char why[320];
        draw_state(trial, row, 0, trial->accuracy.mode != ACCURACY_BITWISE,
                   random_word(trial->seeds[3], 100000 + row), &drawn, &text);
        if (!drawn.changed || draw_unsound(trial, ORIGINAL, &drawn, why))
            continue;
        if (trial_launch(trial, ORIGINAL, memory->work, memory->first) != KG_OK ||
            bound_measure(trial, memory->work, memory->first, draw_rows[row].flags & DRAW_ILL) !=
                KG_OK)
            return because(trial, KG_NOT_ELIGIBLE, "the original does not survive other inputs: %s",
                           trial->device->error);
        nulls->state = memory->work;
        nulls->expected = memory->first;
        nulls->draws++;
        try_nulls(nulls);
    }
    return KG_OK;
}

kg_status gate_vacuity(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    struct nulls nulls = {.trial = trial, .state = memory->work, .expected = memory->first};
    if (!trial->written_bytes)
        return because(trial, KG_NOT_ELIGIBLE, "unverifiable: the original writes nothing");
    if (bound_measure(trial, memory->pristine, memory->result, false) != KG_OK)
        return because(trial, KG_NOT_ELIGIBLE,
                       "the original does not survive small changes of its inputs: %s",
                       trial->device->error);
    trial->told = memory->bound && bound_tells(trial, memory->result);
    kg_status status = ghost(trial);
    if (status != KG_OK)
        return status;
    try_nulls(&nulls);
    enum null captured = still_passing(&nulls), left = captured;
    double *bound = memory->bound;
    memory->bound = NULL;
    if (captured < NULLS)
        status = redraw(&nulls);
    free(memory->bound);
    memory->bound = bound;
    if (nulls.draws)
        nulls.refused[NULL_COPY] = true; /* on random contents: that is what the kernel does */
    left = still_passing(&nulls);
    trial_saw(trial, "vacuity",
              json_pack("{ss ss sI}", "passes_on_the_capture",
                        captured < NULLS ? null_texts[captured] : "none", "passes_everywhere",
                        left < NULLS ? null_texts[left] : "none", "draws",
                        (json_int_t)nulls.draws));
    if (status != KG_OK || left == NULLS)
        return status;
    return because(trial, KG_NOT_ELIGIBLE,
                   "unverifiable: on these inputs%s a kernel that %s would pass",
                   nulls.draws ? ", and on others that were drawn," : "", null_texts[left]);
}
