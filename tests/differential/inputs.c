/* Operands of the corpus: edges of the type, pairs of edges, and random values of several shapes.
 * The same on every machine; a change here makes recorded results worthless: count VERSION in
 * corpus.c up then. */
#include "differential.h"

#include <string.h>

enum generator {
    ANY,
    SHIFT,   /* 0 to twice the width, sometimes anything */
    SMALL,   /* 0 to 40 */
    ANGLE,   /* a float within [-2 pi, 2 pi] */
    FAR,     /* a float within [-100 pi, 100 pi] */
    MEDIUM,  /* a float of a few binades around 1, sometimes 0 */
    NEAR,    /* a float of 24 binades around 1 */
    SPECIAL, /* MEDIUM, but one of 64 is an edge */
    WORD     /* 0 to 3: equal values are common */
};

uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    value = (value ^ value >> 27) * UINT64_C(0x94D049BB133111EB);
    return value ^ value >> 31;
}

char generator_find(const char *name, size_t length)
{
    static const char *const names[] = {"any",    "shift", "small",   "angle", "far",
                                        "medium", "near",  "special", "word"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && !strncmp(names[i], name, length))
            return (char)i;
    return -1;
}

static uint64_t ones(unsigned bits)
{
    return bits >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << bits) - 1;
}

/* ---- edges ----------------------------------------------------------------------------------- */

enum { EDGES = 32 };

static uint64_t integer_edge(unsigned bits, unsigned index)
{
    uint64_t top = UINT64_C(1) << (bits - 1), all = ones(bits);
    const uint64_t edges[] = {0,          1,       2,        3,       all,      all - 1,    top,
                              top - 1,    top + 1, top >> 1, bits,    bits - 1, bits + 1,   31,
                              32,         33,      63,       64,      0xff,     0x80,       0x7f,
                              0x100,      0xffff,  0x8000,   0x10000, 0xaaaa,   0x12345678, 7,
                              all ^ 0xff, all / 3, 255 + 8,  top >> 2};
    return edges[index % EDGES] & all;
}

static uint64_t float_edge(unsigned exponent, unsigned mantissa, unsigned index)
{
    uint64_t bias = ones(exponent - 1), one = bias << mantissa, top = ones(exponent) << mantissa;
    uint64_t sign = UINT64_C(1) << (exponent + mantissa), low = ones(mantissa);
    uint64_t quiet = UINT64_C(1) << (mantissa - 1), unit = UINT64_C(1) << mantissa;
    const uint64_t edges[] = {0, /* zeros, infinities, NaNs: quiet, signalling, with a payload */
                              sign,
                              top,
                              sign | top,
                              top | quiet,
                              sign | top | quiet | 1,
                              top | 1,
                              sign | top | low,
                              1, /* subnormal */
                              sign | low,
                              quiet,
                              unit, /* the least normal one, the greatest, and theirs */
                              sign | unit | 1,
                              top - 1,
                              sign | (top - 1),
                              one, /* around one and one half */
                              sign | one,
                              one - 1,
                              one + 1,
                              one + quiet,
                              one - unit,
                              sign | (one - unit),
                              one - unit + 1,
                              sign | (one + quiet),
                              one + 2 * unit, /* 4, 2.5, large integers */
                              one + unit + quiet / 2,
                              one + (uint64_t)(mantissa < bias ? mantissa : bias) * unit,
                              sign |
                                  (one + (uint64_t)(mantissa < bias ? mantissa : bias) * unit + 1),
                              one + (uint64_t)(bias > 31 ? 31 : bias) * unit,
                              sign | (one + (uint64_t)(bias > 31 ? 31 : bias) * unit + 1),
                              one + (uint64_t)(bias > 63 ? 63 : bias - 1) * unit,
                              top - unit};
    return edges[index % EDGES] & ones(1 + exponent + mantissa);
}

static uint64_t edge(const struct kind *kind, unsigned index)
{
    if (kind->class == KIND_PREDICATE)
        return index & 1;
    return kind->class == KIND_FLOAT ? float_edge(kind->exponent, kind->mantissa, index)
                                     : integer_edge(kind->bits, index);
}

/* ---- random values --------------------------------------------------------------------------- */

static uint64_t float_random(const struct kind *kind, uint64_t random, unsigned binades)
{
    uint64_t bias = ones(kind->exponent - 1), mantissa = random & ones(kind->mantissa);
    uint64_t sign = (random >> 60 & 1) << (kind->exponent + kind->mantissa);
    if (random >> 58 & 1) /* few bits: exact products and ties */
        mantissa &= ~ones(kind->mantissa - kind->mantissa / 3);
    if (binades > bias)
        binades = (unsigned)bias;
    uint64_t exponent = bias - binades / 2 + (random >> 48 & 0x3ff) % (binades + 1);
    return sign | exponent << kind->mantissa | mantissa;
}

static uint64_t any_random(const struct kind *kind, uint64_t random)
{
    uint64_t bits = mix(random), shape = random >> 56 & 7;
    if (kind->class == KIND_FLOAT)
        return shape < 3   ? bits & ones(1 + kind->exponent + kind->mantissa)
               : shape < 5 ? float_random(kind, bits, 3)
                           : float_random(kind, bits, 2 * kind->mantissa);
    bits &= ones(kind->bits);
    return shape < 4   ? bits
           : shape < 6 ? bits >> (random % kind->bits)
                       : ones(kind->bits) & ~(bits >> (random % kind->bits));
}

static uint64_t scaled_float(const struct kind *kind, uint64_t random, double most)
{
    double value = ((double)(int64_t)random) * 0x1p-63 * most;
    float narrow = (float)value;
    uint64_t bits = 0;
    if (kind->bits == 64)
        memcpy(&bits, &value, 8);
    else
        memcpy(&bits, &narrow, 4);
    return bits;
}

static uint64_t element(const struct operand *operand, uint64_t random)
{
    const struct kind *kind = operand->kind;
    switch ((enum generator)operand->generator) {
    case SHIFT:
        return (random >> 60 ? random % (2u * 64) : mix(random)) & ones(kind->bits);
    case SMALL:
        return random % 41;
    case WORD:
        return random & 3;
    case ANGLE:
        return scaled_float(kind, random, 6.283);
    case FAR:
        return scaled_float(kind, random, 314.1);
    case NEAR:
        return float_random(kind, random, 24);
    case MEDIUM:
    case SPECIAL:
        if (operand->generator == SPECIAL && !(random >> 32 & 63))
            return edge(kind, random & 31);
        if (!(random >> 20 & 15))
            return 0;
        return kind->class == KIND_FLOAT ? float_random(kind, random, 6)
                                         : random & ones(kind->bits);
    case ANY:
        break;
    }
    return any_random(kind, random);
}

/* Whether thread's value is an edge, and which. The first threads take the edges in order, or
 * random ones; the later ones go through all pairs of two operands. */
static int edge_index(const struct row *row, unsigned which, unsigned thread, uint64_t random)
{
    unsigned raw = row_raw(row), late = thread - raw;
    if (thread < raw && row->input_count == 1)
        return thread < EDGES ? (int)thread : -1;
    if (thread < raw)
        return (random >> 40) % 8 < 5 ? (int)(random >> 32 & 31) : -1;
    if (late < EDGES * EDGES && which < 2 && row->input_count > 1)
        return (int)(which ? late / EDGES : late % EDGES);
    return (random >> 40) % 8 < 1 ? (int)(random >> 32 & 31) : -1;
}

uint64_t input_value(const struct row *row, unsigned which, unsigned thread)
{
    const struct operand *operand = &row->inputs[which];
    const struct kind *kind = operand->kind;
    uint64_t value = 0;
    uint64_t seed = mix(row->key + which * UINT64_C(0x9E3779B97F4A7C15)) + thread;
    for (unsigned i = 0; i < kind->elements; i++) {
        uint64_t random = mix(seed + ((uint64_t)i << 32));
        int at = operand->generator == ANY ? edge_index(row, which, thread, mix(random)) : -1;
        uint64_t bits = at >= 0 ? edge(kind, (unsigned)at + i * 5) : element(operand, random);
        value |= bits << (i * kind->bits);
    }
    /* a register wider than the value: what is above it counts for nothing */
    if (kind->class == KIND_INTEGER && kind->bits == 8 && kind->elements == 1)
        value |= mix(seed) << 8;
    return value;
}
