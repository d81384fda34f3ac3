/* Gate stale: the result does not depend on what stood in the outputs before, where that is not
 * random but plausible: zeros, results in wrong places, results that are nearly all right. Catches
 * variants that compute where they find nothing useful and trust what they find otherwise (row 11).
 */
#include "tune/gates/gates.h"

/* What outputs may hold before a launch; of the last three most is right already. */
static const struct content {
    const char *text;
    unsigned one_in; /* a word of so many keeps its poison, the others are right; 0: none is */
    bool zeros;
} contents[] = {
    {"zeros", 0, true},
    {"right results in wrong places", 0, false},
    {"every other result", 2, false},
    {"nearly all results", 32, false},
    {"all results but a few", 1024, false},
};

/* Bytes that may hold anything, and the first one. */
static struct walk may_hold_anything(const struct replay_memory *memory, struct walked *seen)
{
    struct walk w = {.kind = WALK_DIFFER,
                     .source = WALK_ZEROS,
                     .x = memory->written,
                     .masks = {memory->poisoned, memory->slack, memory->written},
                     .invert = 2};
    memory_walk(memory, w, seen);
    return w;
}

/* Puts the content into `work`, which holds the poisoned state. w: may_hold_anything. */
static void fill(const struct trial *trial, const struct content *content, struct walk w,
                 const struct walked *seen)
{
    const struct replay_memory *memory = trial->memory;
    const size_t away = 68; /* bytes: a place of another warp, and of another column */
    w.kind = WALK_MIX;
    w.source = content->zeros ? WALK_ZEROS : WALK_IMAGE;
    w.x = w.out = memory->work;
    w.y = memory->result;
    w.seed = trial->seeds[2];
    w.shift = content->zeros || content->one_in ? 0 : away;
    w.one_in = content->one_in;
    w.skip = seen->first / 4 * 4; /* the first word is wrong, or, by chance, all might be right */
    memory_walk(memory, w, NULL);
}

kg_status gate_stale(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    unsigned char *expected = memory->first;
    struct walked seen;
    const struct walk may = may_hold_anything(memory, &seen);
    kg_status status = KG_OK;
    char text[512];
    for (size_t i = 0; i < sizeof contents / sizeof *contents && status == KG_OK; i++) {
        size_t at;
        bool same;
        memory_state(memory, trial->seeds[2] + 2 * (i + 1), false, memory->work);
        if (!seen.count && i)
            break; /* it works in place: once, for what lies around */
        fill(trial, &contents[i], may, &seen);
        images_mix(memory, memory->work, memory->result, INSIDE(memory->written), EVERYWHERE,
                   expected);
        if (trial_launch(trial, VARIANT, memory->work, NULL) != KG_OK ||
            trial_fetch_unless(trial, expected, memory->other, &same) != KG_OK) {
            status = because(trial, KG_REFUSED, "a launch over outputs that hold %s failed: %s",
                             contents[i].text, trial->device->error);
        } else if (!same && !same_memory(trial, memory->other, expected, &at)) {
            difference_text(memory, memory->other, expected, &trial->accuracy, at, text,
                            sizeof text);
            status = because(trial, KG_REFUSED,
                             "the result depends on what stood in the output before: over "
                             "%s it is wrong at %s",
                             contents[i].text, text);
        }
    }
    return status;
}
