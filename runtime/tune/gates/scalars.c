/* Gate scalars: what the guard leaves open may be anything. Catches variants with a free scalar's
 * captured value in their code (dangers 3), and those that read what the original does not.
 *
 * Free scalars reach no address, branch or bound of the original (roles.h), so it survives them
 * all: zeros of both signs, ones, infinities, NaN, the smallest and the largest, and values near
 * the captured one, each piece alone, and all together with what is not read. Where no value of a
 * piece changes the original's result, the captured memory does not show what it does: then nothing
 * was checked, and the piece is pinned for this variant (trial->unshown). */
#include "tune/gates/gates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ALONE = 16, TOGETHER = 6 };

enum kind { ZERO, ONE, NEAR, NAN_OR_MIN, MINUS_ZERO, INFINITE, SMALLEST, LARGEST, WIDE, KINDS };

/* ---- values ------------------------------------------------------------------------------------
 */

static double real_value(enum kind kind, uint64_t random, double captured)
{
    double unit = (double)(random >> 11) / 9007199254740992.0, sign = random & 1 ? -1 : 1;
    switch (kind) {
    case ZERO:
        return 0;
    case ONE:
        return captured == 1 ? -1 : 1;
    case NEAR:
        return (isfinite(captured) && captured != 0 ? captured : sign) * (0.5 + unit);
    case NAN_OR_MIN:
        return (double)NAN;
    case MINUS_ZERO:
        return -0.0;
    case INFINITE:
        return sign * (double)INFINITY;
    default:
        return sign * ldexp(1 + unit, (int)(random >> 20 & 31) - 16);
    }
}

static uint64_t whole_value(enum kind kind, uint64_t random, uint64_t captured)
{
    switch (kind) {
    case ZERO:
        return 0;
    case ONE:
        return captured == 1 ? 2 : 1;
    case NEAR:
        return captured + (random & 1 ? 1 + (random >> 1) % 7 : -(1 + (random >> 1) % 7));
    case NAN_OR_MIN:
        return UINT64_C(0x8080808080808080); /* the sign of whatever width, and not much else */
    case MINUS_ZERO:
        return UINT64_MAX;
    case LARGEST:
        return UINT64_C(0x7f7f7f7f7f7f7f7f);
    case SMALLEST:
        return random % 256;
    default:
        return random;
    }
}

/* Bits of the smallest denormal and the largest finite value stand beside each other's in no
 * format, so these two are written as bits. */
static uint64_t float_bits(const struct free_piece *piece, enum kind kind, uint64_t random,
                           uint64_t captured)
{
    static const uint64_t largest[] = {0x7bff, 0x7f7fffff, UINT64_C(0x7fefffffffffffff)};
    if (kind == SMALLEST)
        return 1;
    if (kind == LARGEST)
        return piece->type == FREE_BF16 ? 0x7f7f : largest[piece->size / 4];
    uint64_t bits = 0;
    if (piece->size == 8) {
        double value;
        memcpy(&value, &captured, sizeof value);
        value = real_value(kind, random, value);
        memcpy(&bits, &value, sizeof value);
        return bits;
    }
    float value;
    uint32_t word = (uint32_t)captured;
    if (piece->size == 2) /* as bf16, the upper half of a float; half precision is near enough */
        word <<= 16;
    memcpy(&value, &word, sizeof value);
    value = (float)real_value(kind, random, (double)value);
    memcpy(&word, &value, sizeof value);
    return piece->size == 2 ? word >> 16 : word;
}

/* A piece that is read as what is not known is a float, and at times an integer. */
static void piece_set(const struct trial *trial, const struct free_piece *piece,
                      const unsigned char *captured, enum kind kind, uint64_t seed)
{
    unsigned char *to = trial->device->args + piece->at;
    uint64_t random = random_word(seed, piece->at), was = 0, value;
    bool fits = piece->size == 2 || piece->size == 4 || piece->size == 8;
    if (piece->type == FREE_UNREAD || piece->size > 8) {
        for (uint32_t i = 0; i < piece->size; i++)
            to[i] = (unsigned char)random_word(seed, piece->at + i);
        return;
    }
    memcpy(&was, captured + piece->at, piece->size);
    bool real = piece->type == FREE_FLOAT || piece->type == FREE_BF16 ||
                (piece->type == FREE_BITS && random >> 40 & 1);
    value = real && fits ? float_bits(piece, kind, random, was) : whole_value(kind, random, was);
    memcpy(to, &value, piece->size);
}

/* ---- launches ----------------------------------------------------------------------------------
 */

struct drawing {
    struct trial *trial;
    unsigned char *captured, *plain, *expected; /* parameters; the result with them; a scratch */
    unsigned launches;
};

/* Both sides with the parameters as they stand. *shown: the result is another than with the
 * captured ones. */
static kg_status both_agree(struct drawing *d, bool *shown)
{
    struct trial *trial = d->trial;
    struct replay_memory *memory = trial->memory;
    char text[512];
    size_t at;
    memory_state(memory, trial->seeds[1], false, memory->work);
    if (trial_launch(trial, ORIGINAL, memory->work, d->expected) != KG_OK)
        return because(trial, KG_NOT_ELIGIBLE,
                       "the original does not survive another value of a free scalar: %s",
                       trial->device->error);
    if (bound_measure(trial, memory->work, d->expected, true) != KG_OK)
        return because(trial, KG_NOT_ELIGIBLE,
                       "the original does not survive small changes of its inputs: %s",
                       trial->device->error);
    if (trial_launch(trial, VARIANT, memory->work, memory->other) != KG_OK)
        return because(trial, KG_REFUSED, "a launch with other values of free scalars failed: %s",
                       trial->device->error);
    d->launches++;
    *shown = images_differ(memory, d->expected, d->plain, INSIDE(memory->written), EVERYWHERE, &at);
    if (same_memory(trial, memory->other, d->expected, &at))
        return KG_OK;
    difference_text(memory, memory->other, d->expected, &trial->accuracy, at, text, sizeof text);
    return because(trial, KG_REFUSED, "wrong result with other values of free scalars at %s", text);
}

static void put_back(const struct drawing *d)
{
    memcpy(d->trial->device->args, d->captured, d->trial->device->args_size);
}

/* One piece with each kind of value, beside the others as captured. */
static kg_status try_alone(struct drawing *d, uint32_t index)
{
    struct trial *trial = d->trial;
    const struct free_piece *piece = &trial->free[index];
    bool any = false;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        bool shown;
        if (kind == LARGEST && trial->accuracy.mode != ACCURACY_BITWISE)
            continue; /* what overflows first depends on the order, which may be another */
        piece_set(trial, piece, d->captured, kind, trial->seeds[3] + 2 * kind);
        kg_status status = both_agree(d, &shown);
        put_back(d);
        if (status != KG_OK)
            return status;
        any |= shown;
    }
    trial->unshown[index] = !any;
    return KG_OK;
}

static kg_status try_together(struct drawing *d, unsigned round)
{
    const struct trial *trial = d->trial;
    bool shown;
    for (uint32_t i = 0; i < trial->free_count; i++)
        if (!trial->unshown[i])
            piece_set(trial, &trial->free[i], d->captured, round ? NEAR : WIDE,
                      trial->seeds[3] + 2 * (KINDS + round));
    kg_status status = both_agree(d, &shown);
    put_back(d);
    return status;
}

static kg_status draw_all(struct drawing *d)
{
    struct trial *trial = d->trial;
    struct replay_memory *memory = trial->memory;
    unsigned alone = 0;
    kg_status status = KG_OK;
    memory_state(memory, trial->seeds[1], false, memory->work);
    if (trial_launch(trial, ORIGINAL, memory->work, d->plain) != KG_OK)
        return because(trial, KG_NOT_ELIGIBLE, "the original failed: %s", trial->device->error);
    for (uint32_t i = 0; i < trial->free_count && status == KG_OK; i++) {
        if (trial->free[i].type == FREE_UNREAD)
            continue;
        trial->unshown[i] = alone == MOST_ALONE;
        if (alone < MOST_ALONE)
            alone++, status = try_alone(d, i);
    }
    for (unsigned round = 0; round < TOGETHER && status == KG_OK; round++)
        status = try_together(d, round);
    return status;
}

static json_t *seen(const struct drawing *d)
{
    json_t *pinned = json_array();
    for (uint32_t i = 0; i < d->trial->free_count; i++)
        if (d->trial->unshown[i])
            json_array_append_new(pinned, json_integer(d->trial->free[i].at));
    return json_pack("{si si so}", "free_pieces", (int)d->trial->free_count, "draws",
                     (int)d->launches, "pinned_at_bytes", pinned);
}

kg_status gate_scalars(struct trial *trial)
{
    struct drawing d = {.trial = trial};
    const struct replay_device *device = trial->device;
    if (!trial->free_count)
        return KG_OK;
    if (!device->args)
        return because(trial, KG_NOT_ELIGIBLE, "this device cannot launch with other parameters");
    d.captured = malloc(device->args_size + 1);
    d.plain = malloc(trial->memory->total + 8);
    d.expected = trial->memory->first;
    kg_status status = KG_NO_MEMORY;
    if (d.captured && d.plain) {
        memcpy(d.captured, device->args, device->args_size);
        status = draw_all(&d);
        put_back(&d);
        trial_saw(trial, "scalars", seen(&d));
    }
    free(d.captured);
    free(d.plain);
    return status;
}
