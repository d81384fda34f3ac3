/* Gate inputs: the variant agrees with the original on other inputs, drawn from a secret seed
 * (draws.def), and on what the app had at other times. Catches results known by heart or kept for a
 * fingerprint of the inputs (rows 7 and 10), work skipped for the weights at hand (8), unstable
 * algebra (25), NaN, infinities, zeros and denormals treated otherwise (24, 33), whole numbers
 * through floats and narrow multiplications, indices and rows unlike the captured ones.
 *
 * What is valid: loaded data that end in results only can be anything, for no address, branch or
 * loop depends on them. Other data are drawn from what the captures teach (between the smallest and
 * the largest value, the captured values in other places, sequences that never fall stay so), and
 * only a draw on which the instrumented original is sound is used: no access out of bounds, no
 * conflict, loops within their budget. On such draws the variant, too, runs instrumented first.
 *
 * Judged: for each buffer whose data reach addresses or loop bounds at least one sound draw must
 * have changed it, or a capture of another time, else the kernel is unverifiable: a variant could
 * rely on the captured contents, which no guard holds. Exact rewrites are excepted: their proof
 * does not rest on contents. A draw on which the original's own results vary is not used. */
#include "tune/gates/gates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOLO_TURNS = 6, GROWING_TURNS = 4 };
static const uint64_t patience_ns =
    20000000000ull; /* then rows that are less telling are left out */

struct search {
    struct trial *trial;
    unsigned char *expected;
    json_t *seen;
    bool *changed; /* by datum: a sound draw changed it */
    unsigned used;
    unsigned level; /* of draws: not bitwise, results that overflow tell nothing of precision, and
                       differ honestly; then smaller numbers are drawn from there on */
    char why_not[320]; /* the last draw that was not used was not */
};

static void note(struct search *search, const char *text, unsigned turn, uint64_t seed,
                 const char *why)
{
    const struct replay_memory *memory = search->trial->memory;
    char hex[20], sum[20];
    struct walked seen;
    memory_walk(memory, (struct walk){.kind = WALK_SUM, .x = memory->work}, &seen);
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)seed);
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)seen.count);
    json_t *entry = json_pack("{ss si ss ss sb}", "contents", text, "level", (int)search->level,
                              "seed", hex, "inputs_sum", sum, "used", !*why);
    if (turn)
        json_object_set_new(entry, "buffer", json_integer(turn));
    if (*why)
        json_object_set_new(entry, "why_not", json_string(why));
    json_array_append_new(search->seen, entry);
}

/* Marks the runs of memory in which the draw differs from the capture. */
static void mark_changed(struct search *search)
{
    const struct replay_memory *memory = search->trial->memory;
    for (uint32_t i = 0; i < memory->datum_count; i++)
        if (!search->changed[i])
            search->changed[i] =
                memcmp(memory->work + memory->data[i].from, memory->pristine + memory->data[i].from,
                       memory->data[i].to - memory->data[i].from) != 0;
}

/* Both sides from memory->work. *why: the draw was not used; NULL: it was. */
static kg_status both(struct search *search, const struct drawn *drawn, const char *text,
                      unsigned flags, bool captured, bool *overflows, char why[static 320])
{
    char words[320];
    struct trial *trial = search->trial;
    struct replay_memory *memory = trial->memory;
    struct accuracy accuracy = trial->accuracy, exact = {.mode = ACCURACY_BITWISE};
    accuracy.ends_alike = accuracy.mode == ACCURACY_AUTO && flags & DRAW_INFINITE && !captured;
    char difference[512];
    bool same;
    size_t at;
    if (draw_unsound(trial, ORIGINAL, drawn, why))
        return KG_OK;
    if (trial_launch(trial, ORIGINAL, memory->work, search->expected) != KG_OK)
        return because(trial, KG_NOT_ELIGIBLE, "the original does not survive other inputs: %s",
                       trial->device->error);
    if (search->level && !(flags & DRAW_INFINITE) && search->level < DRAW_LEVELS &&
        has_infinity(memory, search->expected)) {
        *overflows = true;
        return KG_OK;
    }
    if (bound_measure(trial, memory->work, search->expected, flags & DRAW_ILL) != KG_OK)
        return because(trial, KG_NOT_ELIGIBLE,
                       "the original does not survive small changes of other inputs: %s",
                       trial->device->error);
    trial->told |= memory->bound && bound_tells(trial, search->expected);
    if (draw_unsound(trial, VARIANT, drawn, words))
        return because(trial, KG_REFUSED, "on other inputs (%s) the variant is not sound: %s", text,
                       words);
    if (trial_launch(trial, VARIANT, memory->work, NULL) != KG_OK ||
        trial_fetch_unless(trial, search->expected, memory->other, &same) != KG_OK)
        return because(trial, KG_REFUSED, "a launch on other inputs (%s) failed: %s", text,
                       trial->device->error);
    if (same)
        return KG_OK;
    if (flags & DRAW_EXACT && accuracy.mode == ACCURACY_AUTO &&
        whole_numbers(memory, search->expected))
        accuracy = exact;
    if (same_memory_as(memory, memory->other, search->expected, &accuracy, &at))
        return KG_OK;
    difference_text(memory, memory->other, search->expected, &accuracy, at, difference,
                    sizeof difference);
    /* not if the original does not agree with itself here */
    if (trial_launch(trial, ORIGINAL, memory->work, memory->other) == KG_OK &&
        !same_memory_as(memory, memory->other, search->expected, &exact, &at)) {
        snprintf(why, 320, "the original's own results vary");
        return KG_OK;
    }
    return because(trial, KG_REFUSED, "wrong result on other inputs (%s) at %s", text, difference);
}

static kg_status one(struct search *search, unsigned number, unsigned turn)
{
    struct trial *trial = search->trial;
    uint64_t seed = random_word(trial->seeds[3], 64 * number + turn);
    unsigned flags = number < draw_row_count ? draw_rows[number].flags : DRAW_INFINITE;
    struct drawn drawn;
    const char *text;
    char why[320] = "";
    bool overflows;
    kg_status status;
    do {
        overflows = false;
        draw_state(trial, number, turn, search->level, seed, &drawn, &text);
        if (!drawn.changed || (flags & DRAW_INDEXED && !(drawn.roles & ROLES_INDEX)))
            return KG_OK;
        status = both(search, &drawn, text, flags, number >= draw_row_count, &overflows, why);
        search->level += overflows;
    } while (overflows);
    note(search, text, turn, seed, why);
    if (*why)
        memcpy(search->why_not, why, sizeof search->why_not);
    if (status == KG_OK && !*why) {
        search->used++;
        mark_changed(search);
    }
    return status;
}

/* Whether there is anything in it that the original reads. */
static bool is_input(const struct replay_memory *memory, const struct replay_datum *datum)
{
    for (size_t at = datum->from; at < datum->to && draw_takes(datum); at++)
        if (memory->read[at] && !memory->slack[at] &&
            !(memory->written[at] && memory->poisoned[at]))
            return true;
    return false;
}

/* A buffer whose contents no draw changed that was used; NULL: none. */
static const struct replay_datum *unchanged(const struct search *search)
{
    const struct replay_memory *memory = search->trial->memory;
    for (uint32_t i = 0; i < memory->datum_count; i++)
        if (!search->changed[i] && is_input(memory, &memory->data[i]))
            return &memory->data[i];
    return NULL;
}

static kg_status judge(struct search *search)
{
    struct trial *trial = search->trial;
    const struct replay_datum *fixed = unchanged(search);
    char place[160];
    if (fixed && !trial->exact_maker)
        return because(trial, KG_NOT_ELIGIBLE,
                       "unverifiable: no other contents of an input were found on which the "
                       "original is sound (%s): %s",
                       memory_place(trial->memory, fixed->from, place, sizeof place),
                       *search->why_not ? search->why_not : "all were as captured");
    if (!trial->told && trial->accuracy.mode == ACCURACY_AUTO && has_floats(trial->memory))
        return because(trial, KG_NOT_ELIGIBLE,
                       "unverifiable in accuracy auto: on no inputs would a result of the next "
                       "lower precision be refused; bitwise only");
    return KG_OK;
}

static unsigned drawable(const struct replay_memory *memory)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < memory->datum_count; i++)
        count += draw_takes(&memory->data[i]);
    return count;
}

/* A row once, or once for each of some buffers, or less and less far until it is sound. */
static kg_status row(struct search *search, unsigned number, unsigned buffers)
{
    unsigned flags = draw_rows[number].flags, used = search->used, turns = 1;
    kg_status status = KG_OK;
    if (flags & DRAW_BITWISE && search->trial->accuracy.mode != ACCURACY_BITWISE)
        return KG_OK;
    if (flags & DRAW_SOLO)
        turns = buffers < SOLO_TURNS ? buffers : SOLO_TURNS;
    if (flags & DRAW_GROWING)
        turns = GROWING_TURNS;
    for (unsigned turn = 0; turn < turns && status == KG_OK; turn++) {
        status = one(search, number, turn);
        if (flags & DRAW_GROWING && search->used > used)
            break;
    }
    return status;
}

static kg_status all(struct search *search)
{
    struct trial *trial = search->trial;
    unsigned buffers = drawable(trial->memory), left_out = 0;
    uint64_t until = now_ns() + patience_ns;
    kg_status status = KG_OK;
    for (unsigned i = 0; i < trial->memory->other_count && status == KG_OK; i++)
        status = one(search, draw_row_count + i, 0);
    for (unsigned i = 0; i < draw_row_count && status == KG_OK; i++) {
        if (draw_rows[i].flags & DRAW_LATER && now_ns() > until) {
            left_out++;
            continue;
        }
        status = row(search, i, buffers);
    }
    if (left_out)
        json_array_append_new(search->seen, json_pack("{ss sb ss sI}", "contents", "further ones",
                                                      "used", false, "why_not", "left out for time",
                                                      "kinds", (json_int_t)left_out));
    return status == KG_OK ? judge(search) : status;
}

kg_status gate_inputs(struct trial *trial)
{
    struct replay_memory *memory = trial->memory;
    struct search search = {.trial = trial,
                            .level = trial->accuracy.mode != ACCURACY_BITWISE,
                            .expected = memory->first,
                            .seen = json_array(),
                            .changed = calloc(memory->datum_count + 1, sizeof(bool))};
    double *bound = memory->bound; /* of the captured inputs: wanted again by later gates */
    memory->bound = NULL;
    kg_status status = search.changed ? all(&search) : KG_NO_MEMORY;
    trial_saw(trial, "inputs",
              json_pack("{sI so}", "draws_used", (json_int_t)search.used, "draws", search.seen));
    free(memory->bound);
    memory->bound = bound;
    free(search.changed);
    return status;
}
