/* What a drawn element is: a function of the draw's seed and of the element's place alone. One text
 * for the host (draw.c) and for the GPU (walk_device.cu), which give the same bytes: only sums,
 * products and conversions that IEEE 754 says all of, none of them fused, and no function of a
 * library. */
#ifndef KG_DRAW_ELEMENT_H
#define KG_DRAW_ELEMENT_H

#include "tune/walk.h"

enum draw_type { TYPE_WHOLE, TYPE_F16, TYPE_BF16, TYPE_F32, TYPE_F64 };
enum draw_floats {
    FLOATS_MODERATE,
    FLOATS_SHUFFLE,
    FLOATS_SMALL,
    FLOATS_MEAN,
    FLOATS_SPECIAL,
    FLOATS_WIDE,
    FLOATS_TINY,
    FLOATS_TOGETHER,
    FLOATS_LOGITS,
    FLOATS_RUNS,
    FLOATS_EQUAL,
    FLOATS_INFINITE,
    FLOATS_LONE,
    FLOATS_PARTS,
    FLOATS_SOME_ZEROS, /* what stands beside infinities: a product with 0 is left out at a price */
};
enum draw_whole { WHOLE_BITS, WHOLE_SHUFFLE, WHOLE_SMALL, WHOLE_EXTREME };
enum draw_indices {
    INDICES_KEEP,
    INDICES_RANGE,
    INDICES_SHUFFLE,
    INDICES_BELOW,
    INDICES_ABOVE,
    INDICES_BITS,
    INDICES_ENDS,
    INDICES_RUNS,
};

/* A run of elements that are drawn alike. */
struct draw_buffer {
    const unsigned char *pristine, *slack, *written, *poisoned;
    unsigned char *image;
    uint64_t from, count, seed;         /* in the image; elements */
    uint32_t floats, integers, indices; /* of draw_rows */
    uint32_t type, width, bits;         /* enum draw_type, bytes, and bits of its significand */
    uint32_t indexed;                   /* indices count: data that reach addresses or bounds */
    uint32_t addresses;                 /* they may stand here, and are left alone */
    uint32_t level;                     /* see draw.h … */
    double scale;                       /* … and what it makes of exponents and ranges */
    double mean;                        /* of MEAN */
    double least, most;         /* exponents: of the smallest denormal, beyond the largest number */
    double one_sign;            /* of INFINITE */
    uint64_t one_in;            /* of SPECIAL, LONE and INFINITE */
    uint64_t step, shift;       /* of SHUFFLE; the step has no divisor in common with count */
    uint64_t low, high, beyond; /* of indices: what was captured; beyond: of ABOVE */
    uint32_t span_count;        /* where addresses lead */
    struct walk_span spans[WALK_SPANS];
};

/* ---- numbers -----------------------------------------------------------------------------------
 */

WALK_FUNCTION uint64_t draw_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

WALK_FUNCTION double draw_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

WALK_FUNCTION double draw_infinity(void)
{
    return draw_double(UINT64_C(0x7ff0000000000000));
}

WALK_FUNCTION double draw_nan(void)
{
    return draw_double(UINT64_C(0x7ff8000000000000));
}

WALK_FUNCTION double draw_unit(uint64_t random)
{
    return (double)(random >> 11) * 0x1p-53;
}

/* 2^x for x in [-1074, 1024): exactly where x is whole, else to about a millionth. */
WALK_CALLED double draw_power(double x)
{
    int64_t whole = (int64_t)x;
    if ((double)whole > x)
        whole--;
    double f = x - (double)whole, sum = 1.5403530393381608e-4;
    sum = sum * f + 1.3333558146428443e-3;
    sum = sum * f + 9.618129107628477e-3;
    sum = sum * f + 5.550410866482158e-2;
    sum = sum * f + 0.2402265069591007;
    sum = sum * f + 0.6931471805599453;
    sum = sum * f + 1;
    int64_t half = whole / 2; /* twice, for a denormal has no such factor */
    return sum * draw_double((uint64_t)(half + 1023) << 52) *
           draw_double((uint64_t)(whole - half + 1023) << 52);
}

/* A number of random sign whose exponent is spread evenly over [low, high). */
WALK_CALLED double draw_spread(uint64_t random, double low, double high)
{
    double part = draw_unit(random * UINT64_C(0x9e3779b97f4a7c15));
    double size = draw_power(low + (high - low) * part);
    return random & 1 ? -size : size;
}

/* All kinds in turn; the last, from which intermediate results overflow here and not there, only
 * where results must be equal bit for bit. */
WALK_FUNCTION double draw_special(const struct draw_buffer *b, uint64_t turn)
{
    double smallest = draw_power(b->least), normal = draw_power(b->least + (double)b->bits - 1);
    double largest = (2 - draw_power(1 - (double)b->bits)) * draw_power(b->most - 1);
    switch (turn % (b->level ? 9 : 12)) {
    case 0:
        return draw_nan();
    case 1:
        return draw_infinity();
    case 2:
        return -draw_infinity();
    case 3:
        return 0;
    case 4:
        return -0.0;
    case 5:
        return smallest;
    case 6:
        return -smallest;
    case 7:
        return normal;
    case 8:
        return -normal;
    case 9:
        return largest;
    case 10:
        return -largest;
    default:
        return normal - smallest;
    }
}

WALK_FUNCTION double draw_moderate(const struct draw_buffer *b, uint64_t random)
{
    double most = (b->type == TYPE_F16 ? 5 : 10) * b->scale;
    return draw_spread(random, -most, most);
}

/* A sixth of the buffer is -infinity, one infinity, one zeros, one has many NaN: whole rows, blocks
 * and windows have no number else. Moderate numbers lie between. */
WALK_FUNCTION double draw_part(const struct draw_buffer *b, uint64_t index, uint64_t random)
{
    switch ((index * 6 / b->count + b->seed % 6) % 6) {
    case 0:
        return -draw_infinity();
    case 2:
        return draw_infinity();
    case 4:
        return random & 1 ? -0.0 : 0.0;
    case 5:
        return random % 4 ? draw_moderate(b, random) : draw_nan();
    default:
        return draw_moderate(b, random);
    }
}

/* Random, and the same for a run of elements, shorter or longer than a row or a block. */
WALK_FUNCTION uint64_t draw_run(const struct draw_buffer *b, uint64_t index)
{
    return random_word(b->seed ^ 5, index / (UINT64_C(32) << b->seed % 6));
}

/* Zeros of both signs, and denormals. */
WALK_FUNCTION double draw_tiny(const struct draw_buffer *b, uint64_t random)
{
    return random % 4 == 0   ? 0
           : random % 4 == 1 ? -0.0
                             : draw_spread(random, b->least, b->least + (double)b->bits);
}

WALK_FUNCTION double draw_number(const struct draw_buffer *b, uint64_t index, uint64_t random)
{
    const double four = 4 * b->scale, wide = b->most / 4 * b->scale;
    uint64_t of_run = draw_run(b, index), block = index / b->one_in;
    /* one element of each block is chosen */
    uint32_t chosen = index % b->one_in == random_word(b->seed ^ 7, block) % b->one_in;
    switch (b->floats) {
    case FLOATS_SMALL:
        return (double)(random % 5) - 2;
    case FLOATS_MEAN:
        return b->mean + (2 * draw_unit(random) - 1);
    case FLOATS_SPECIAL:
        return chosen ? draw_special(b, block + b->seed % 97) : draw_spread(random, -four, four);
    case FLOATS_WIDE:
        return b->level ? draw_spread(random, -wide, wide) : draw_spread(random, b->least, b->most);
    case FLOATS_TOGETHER: /* in all buffers; among moderate numbers, since sums of nothing but
                             denormals round otherwise where products are fused otherwise */
        return index % 61 == 7 ? draw_tiny(b, random) : draw_moderate(b, random);
    case FLOATS_TINY:
        return draw_tiny(b, random);
    case FLOATS_LOGITS:
        return (176 * draw_unit(random) - 88) * b->scale;
    case FLOATS_RUNS:
        return draw_spread(random, -1, 1) * draw_power(24 * draw_unit(of_run) - 12);
    case FLOATS_EQUAL:
        return draw_spread(of_run, -6 * b->scale, 6 * b->scale);
    case FLOATS_LONE:
        return chosen ? draw_nan() : draw_moderate(b, random);
    case FLOATS_INFINITE:
        return chosen ? b->one_sign : draw_spread(random, -four, four);
    case FLOATS_PARTS:
        return draw_part(b, index, random);
    case FLOATS_SOME_ZEROS:
        return random % 8 == 3 ? 0 : draw_moderate(b, random);
    default:
        return draw_moderate(b, random);
    }
}

/* ---- their bits --------------------------------------------------------------------------------
 */

/* To the nearest, ties to even; infinity where the type's range ends. */
WALK_FUNCTION uint64_t draw_half(double value)
{
    uint64_t bits = draw_bits(value), sign = bits >> 63 << 15;
    int64_t exponent = (int64_t)(bits >> 52 & 0x7ff) - 1023;
    double size = draw_double(bits << 1 >> 1);
    if (size != size)
        return 0x7fff;
    if (!(size < 65520))
        return sign | 0x7c00;
    exponent = exponent < -14 ? -14 : exponent;
    double units = size * draw_double((uint64_t)(10 - exponent + 1023) << 52);
    units = (units + 0x1p52) - 0x1p52;
    return sign | (((uint64_t)(exponent + 14) << 10) + (uint64_t)units);
}

/* A NaN of single precision gets any sign and payload. */
WALK_FUNCTION uint64_t draw_encode(uint32_t type, double value, uint64_t random)
{
    float single = (float)value;
    uint32_t word;
    memcpy(&word, &single, sizeof word);
    switch (type) {
    case TYPE_F64:
        return draw_bits(value);
    case TYPE_F16:
        return draw_half(value);
    case TYPE_BF16:
        return value != value ? 0x7fff : (word + 0x7fff + (word >> 16 & 1)) >> 16;
    default:
        return value != value ? 0x7f800001u | ((uint32_t)random & 0x807fffffu) : word;
    }
}

WALK_FUNCTION uint64_t draw_whole(const struct draw_buffer *b, uint64_t random)
{
    uint64_t mask = b->width < 8 ? (UINT64_C(1) << 8 * b->width) - 1 : UINT64_MAX;
    if (b->integers == WHOLE_SMALL)
        return random % 4;
    if (b->integers != WHOLE_EXTREME || random % 3 == 0)
        return random & mask;
    switch ((random >> 8) % 7) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
        return mask;
    case 3:
        return mask >> 1;
    case 4:
        return (mask >> 1) + 1;
    case 5:
        return mask - 1;
    default:
        return 2;
    }
}

WALK_FUNCTION uint64_t draw_index(const struct draw_buffer *b, uint64_t random)
{
    uint64_t from = b->indices == INDICES_BELOW && (int64_t)b->low > 0 ? 0 : b->low;
    uint64_t distance = b->high - from + (b->indices == INDICES_ABOVE ? b->beyond : 0);
    if (b->indices == INDICES_BITS)
        return random;
    if (b->indices == INDICES_ENDS)
        return random % 2 ? b->high : b->low;
    return from + (distance == UINT64_MAX ? random : random % (distance + 1));
}

/* ---- in their places ---------------------------------------------------------------------------
 */

WALK_FUNCTION uint64_t draw_load(const unsigned char *image, uint64_t at, uint32_t width)
{
#ifdef __CUDACC__
    return width == 4   ? *(const uint32_t *)(image + at)
           : width == 2 ? *(const uint16_t *)(image + at)
           : width == 8 ? *(const uint64_t *)(image + at)
                        : image[at];
#else
    uint64_t value = 0;
    if (width == 4) /* common, and seen by the compiler as one move */
        memcpy(&value, image + at, 4);
    else
        memcpy(&value, image + at, width);
    return value;
#endif
}

WALK_FUNCTION void draw_store(unsigned char *image, uint64_t at, uint32_t width, uint64_t value)
{
#ifdef __CUDACC__
    if (width == 4)
        *(uint32_t *)(image + at) = (uint32_t)value;
    else if (width == 2)
        *(uint16_t *)(image + at) = (uint16_t)value;
    else if (width == 8)
        *(uint64_t *)(image + at) = value;
    else
        image[at] = (unsigned char)value;
#else
    if (width == 4)
        memcpy(image + at, &value, 4);
    else
        memcpy(image + at, &value, width);
#endif
}

/* Red zones, what holds anything before a launch, and addresses. */
WALK_FUNCTION uint32_t draw_leaves(const struct draw_buffer *b, uint64_t at)
{
    if (draw_load(b->slack, at, b->width) ||
        (draw_load(b->written, at, b->width) & draw_load(b->poisoned, at, b->width)))
        return 1;
    if (!b->addresses)
        return 0;
    uint64_t value = walk_load(b->pristine, at & ~UINT64_C(7));
    for (uint32_t i = 0; i < b->span_count; i++)
        if (value - b->spans[i].low <= b->spans[i].size)
            return 1;
    return 0;
}

WALK_FUNCTION void draw_element(const struct draw_buffer *b, uint64_t index)
{
    uint32_t floating = b->type != TYPE_WHOLE;
    uint64_t at = b->from + index * b->width, random = random_word(b->seed, index);
    uint32_t shuffled = b->indexed ? b->indices == INDICES_SHUFFLE
                        : floating ? b->floats == FLOATS_SHUFFLE
                                   : b->integers == WHOLE_SHUFFLE;
    if (draw_leaves(b, at))
        return;
    if (shuffled) { /* all captured elements in another order */
        uint64_t from = b->from + (index * b->step + b->shift) % b->count * b->width;
        if (!draw_leaves(b, from))
            draw_store(b->image, at, b->width, draw_load(b->pristine, from, b->width));
        return;
    }
    if (b->indexed) {
        uint64_t of = b->indices == INDICES_RUNS ? draw_run(b, index) : random;
        draw_store(b->image, at, b->width, draw_index(b, of));
        return;
    }
    uint64_t value = floating ? draw_encode(b->type, draw_number(b, index, random), random)
                              : draw_whole(b, random);
    draw_store(b->image, at, b->width, value);
}

#endif
