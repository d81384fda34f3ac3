/* What memory holds before timed launches: the captured contents, what the app had there at other
 * times, and small random changes of inputs; outputs random each time. So no launch finds the
 * inputs, or the answers, of the one before it, and a variant that keeps answers is found out by
 * being wrong or by being slow where it has none (catalogue rows 9 to 12 and 42).
 *
 * On drawn contents the original runs with instruments first: contents on which it does anything
 * unsound are not used. Then the variant runs, with instruments and without, and must agree. */
#include "tune/timing.h"

#include "code/instrument.h"
#include "tune/gates/gates.h"

#include <stdlib.h>
#include <string.h>

enum { TURNS_FACTOR = 64, LEAST_TURNS = 10000, MANY_SETS_BELOW = 32 << 20 };

static void copy(const struct replay_memory *memory, const unsigned char *from, unsigned char *to)
{
    images_mix(memory, NULL, from, EVERYWHERE, EVERYWHERE, to);
}

static bool sound(struct trial *trial, enum side side, const unsigned char *image)
{
    struct replay_observed saw = {0};
    uint64_t turns = TURNS_FACTOR * trial->observed.most + LEAST_TURNS;
    return trial->device->observe &&
           trial_observe(trial, side, INSTRUMENT_CHECK, turns, image, NULL, NULL, &saw) == KG_OK &&
           !saw.offences;
}

/* Whether the variant may run from there as it is. On a modelled device a fault is a verdict like
 * any other, and not an entry in an operator's log: it is not asked. */
static bool safe(struct trial *trial, const unsigned char *image)
{
    return trial->device->exact_clock || sound(trial, VARIANT, image);
}

/* New contents in memory->work; `scratch` is overwritten. *drawn: other inputs than captured. */
static kg_status draw(struct course *course, unsigned char *scratch, bool *drawn)
{
    struct trial *trial = course->trial;
    struct replay_memory *memory = trial->memory;
    unsigned number = course->draws++;
    uint64_t seed = random_word(trial->seeds[3], 1000 + number) & ~UINT64_C(1);
    memory_state(memory, seed, false, memory->work);
    *drawn = false;
    if (!number)
        return KG_OK; /* the captured inputs */
    kg_status status = KG_OK;
    if (number <= memory->other_count) {
        memory_other(memory, number - 1, scratch);
        images_mix(memory, memory->work, scratch, OUTSIDE(memory->poisoned), EVERYWHERE,
                   memory->work);
    } else {
        status = written_change(trial, seed, memory->work);
    }
    *drawn = status == KG_OK && sound(trial, ORIGINAL, memory->work);
    if (!*drawn)
        memory_state(memory, seed, false, memory->work);
    return status;
}

static kg_status put(struct course *course, unsigned set, const unsigned char *image)
{
    struct replay_device *device = course->trial->device;
    kg_status status = set_choose(course, set);
    if (status == KG_OK)
        status = trial_put(course->trial, image);
    return status == KG_OK ? device->keep(device) : status;
}

/* Both sides once from memory->work; the variant's result, agreed upon, in `right`. Copies from and
 * to the device go by way of memory's own images, which are pinned. */
static kg_status agree(struct trial *trial, bool drawn, unsigned char *right)
{
    struct replay_memory *memory = trial->memory;
    char text[512];
    size_t at;
    if (drawn && !safe(trial, memory->work))
        return because(trial, KG_REFUSED,
                       "on inputs drawn for timing it goes out of bounds, or "
                       "does not end");
    kg_status status = trial_launch(trial, ORIGINAL, memory->work, memory->other);
    if (status == KG_OK)
        status = bound_measure(trial, memory->work, memory->other, false);
    if (status == KG_OK)
        status = trial_launch(trial, VARIANT, memory->work, memory->first);
    if (status != KG_OK)
        return status;
    copy(memory, memory->first, right);
    if (same_memory(trial, memory->first, memory->other, &at))
        return KG_OK;
    difference_text(memory, memory->first, memory->other, &trial->accuracy, at, text, sizeof text);
    return because(trial, KG_REFUSED, "wrong result on inputs drawn for timing, at %s", text);
}

kg_status sets_make(struct course *course)
{
    struct trial *trial = course->trial;
    struct replay_memory *memory = trial->memory;
    /* a modelled clock times each launch by itself: there, what was never seen is enough */
    bool one = !trial->device->set_select || trial->device->exact_clock;
    unsigned wanted = one ? 1 : memory->total < MANY_SETS_BELOW ? TIMING_SETS : 2, drawn = 0;
    kg_status status = KG_OK;
    while (status == KG_OK && course->sets < wanted) {
        bool other = false;
        unsigned char *right = course->right[course->sets] = malloc(memory->total + 8);
        status = right ? draw(course, right, &other) : KG_NO_MEMORY;
        if (status == KG_OK)
            status = agree(trial, other, right);
        if (status == KG_OK)
            status = put(course, course->sets++, memory->work);
        drawn += other;
    }
    if (status == KG_OK && !(course->right[course->sets] = malloc(memory->total + 8)))
        status = KG_NO_MEMORY;
    json_object_set_new(course->saw, "drawn_sets", json_integer(drawn));
    return status;
}

void sets_free(struct course *course)
{
    for (unsigned i = 0; i < REPLAY_SETS; i++)
        free(course->right[i]);
}

kg_status set_choose(struct course *course, unsigned set)
{
    struct replay_device *device = course->trial->device;
    return device->set_select ? device->set_select(device, set) : KG_OK;
}

kg_status set_check(struct course *course, unsigned set)
{
    struct trial *trial = course->trial;
    const struct replay_memory *memory = trial->memory;
    kg_status status = trial_fetch(trial, memory->other);
    size_t at;
    images_differ(memory, course->right[set], memory->other, EVERYWHERE, EVERYWHERE, &at);
    if (status == KG_OK && at < trial->timed_at)
        trial->timed_at = at;
    course->compared++;
    return status;
}

kg_status set_unseen(struct course *course, bool *good)
{
    struct trial *trial = course->trial;
    unsigned char *image = course->right[course->sets];
    kg_status status = draw(course, image, good);
    if (status != KG_OK)
        return status;
    copy(trial->memory, trial->memory->work, image);
    if (*good && !safe(trial, trial->memory->work))
        return because(trial, KG_REFUSED,
                       "on inputs drawn for timing it goes out of bounds, or "
                       "does not end");
    return put(course, course->sets, trial->memory->work);
}

kg_status set_check_unseen(struct course *course)
{
    struct trial *trial = course->trial;
    struct replay_memory *memory = trial->memory;
    size_t at;
    kg_status status = trial_fetch(trial, memory->other); /* the variant's, in `other` */
    copy(memory, course->right[course->sets], memory->first);
    if (status == KG_OK)
        status = trial_launch(trial, ORIGINAL, memory->first, memory->work);
    if (status == KG_OK)
        status = bound_measure(trial, course->right[course->sets], memory->work, false);
    if (status == KG_OK && !same_memory(trial, memory->other, memory->work, &at) &&
        at < trial->timed_at)
        trial->timed_at = at;
    course->compared++;
    return status;
}
