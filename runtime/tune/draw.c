/* Drawing inputs: see draw.h. Each element is a function of the seed and its place, so that a draw
 * can be made again from its row and seed alone. */
#include "tune/draw.h"
#include "tune/parallel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum floats {
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
enum whole { WHOLE_BITS, WHOLE_SHUFFLE, WHOLE_SMALL, WHOLE_EXTREME };
enum indices {
    INDICES_KEEP,
    INDICES_RANGE,
    INDICES_SHUFFLE,
    INDICES_BELOW,
    INDICES_ABOVE,
    INDICES_BITS,
    INDICES_ENDS,
    INDICES_RUNS,
};

#define SOLO DRAW_SOLO
#define EXACT DRAW_EXACT
#define ILL DRAW_ILL
#define INDEXED DRAW_INDEXED
#define LATER DRAW_LATER
#define GROWING DRAW_GROWING
#define BITWISE DRAW_BITWISE
#define INFINITE DRAW_INFINITE
const struct draw_row draw_rows[] = {
#define DRAW(text, floats, integers, indices, flags)                                               \
    {text, FLOATS_##floats, WHOLE_##integers, INDICES_##indices, flags},
#include "tune/draws.def"
#undef DRAW
};
const unsigned draw_row_count = sizeof draw_rows / sizeof *draw_rows;

bool draw_takes(const struct replay_datum *datum)
{
    return datum->read && !(datum->roles & ROLE_POINTER);
}

/* ---- numbers -----------------------------------------------------------------------------------
 */

static double unit(uint64_t random)
{
    return (double)(random >> 11) * 0x1p-53;
}

/* A number of random sign whose exponent is spread evenly over [low, high). */
static double spread(uint64_t random, double low, double high)
{
    double size = exp2(low + (high - low) * unit(random * UINT64_C(0x9e3779b97f4a7c15)));
    return random & 1 ? -size : size;
}

/* Least exponent of a denormal, largest of a finite number. */
static void range(uint8_t element, double *least, double *most)
{
    double ulp = element_ulp(0, element);
    *least = log2(ulp);
    *most = element == ELEMENT_F16 ? 16 : element == ELEMENT_F64 ? 1024 : 128;
}

/* All kinds in turn; the last, from which intermediate results overflow here and not there, only
 * where results must be equal bit for bit. */
static double special(uint8_t element, bool extremes, uint64_t turn)
{
    double least, most;
    range(element, &least, &most);
    double smallest = exp2(least), normal = exp2(least + element_bits(element) - 1);
    double largest = (2 - exp2(1 - (double)element_bits(element))) * exp2(most - 1);
    const double values[] = {NAN,       INFINITY, -INFINITY, 0,       -0.0,     smallest,
                             -smallest, normal,   -normal,   largest, -largest, normal - smallest};
    return values[turn % (extremes ? 12 : 9)];
}

/* What a buffer has in common. */
struct buffer {
    const struct replay_memory *memory;
    const struct replay_datum *datum;
    uint64_t seed;
    uint8_t element;
    unsigned width;
    size_t count;       /* elements */
    double mean;        /* of MEAN */
    double least, most; /* exponents: of the smallest denormal, beyond the largest number */
    size_t one_in;      /* of SPECIAL and INFINITE */
    double one_sign;
    size_t step, shift; /* of SHUFFLE; the step has no divisor in common with count */
    /* of indices: what was captured */
    uint64_t low, high, beyond; /* beyond: of ABOVE */
    bool sorted, is_signed;
    unsigned level; /* see draw.h */
    double scale;   /* of exponents and ranges, by level */
};

static double moderate(const struct buffer *buffer, uint64_t random)
{
    double most = (buffer->element == ELEMENT_F16 ? 5 : 10) * buffer->scale;
    return spread(random, -most, most);
}

/* A sixth of the buffer is -infinity, one infinity, one zeros, one has many NaN: whole rows, blocks
 * and windows have no number else. Moderate numbers lie between. */
static double part(const struct buffer *buffer, size_t index, uint64_t random)
{
    switch ((index * 6 / buffer->count + buffer->seed % 6) % 6) {
    case 0:
        return -INFINITY;
    case 2:
        return INFINITY;
    case 4:
        return random & 1 ? -0.0 : 0.0;
    case 5:
        return random % 4 ? moderate(buffer, random) : (double)NAN;
    default:
        return moderate(buffer, random);
    }
}

/* Random, and the same for a run of elements, shorter or longer than a row or a block. */
static uint64_t run_of(const struct buffer *buffer, size_t index)
{
    return random_word(buffer->seed ^ 5, index / ((size_t)32 << buffer->seed % 6));
}

static double number(const struct buffer *buffer, uint8_t kind, size_t index, uint64_t random)
{
    const double least = buffer->least, most = buffer->most;
    uint64_t of_run = run_of(buffer, index);
    const size_t block = index / buffer->one_in; /* one element of each is chosen */
    bool chosen = index % buffer->one_in == random_word(buffer->seed ^ 7, block) % buffer->one_in;
    switch (kind) {
    case FLOATS_SMALL:
        return (double)(random % 5) - 2;
    case FLOATS_MEAN:
        return buffer->mean + 2 * unit(random) - 1;
    case FLOATS_SPECIAL:
        return chosen ? special(buffer->element, !buffer->level, block + buffer->seed % 97)
                      : spread(random, -4 * buffer->scale, 4 * buffer->scale);
    case FLOATS_WIDE:
        return buffer->level ? spread(random, -most / 4 * buffer->scale, most / 4 * buffer->scale)
                             : spread(random, least, most);
    case FLOATS_TOGETHER: /* in all buffers; among moderate numbers, since sums of nothing but
                             denormals round otherwise where products are fused otherwise */
        if (index % 61 != 7)
            return moderate(buffer, random);
        /* fall through */
    case FLOATS_TINY:
        return random % 4 == 0   ? 0
               : random % 4 == 1 ? -0.0
                                 : spread(random, least, least + element_bits(buffer->element));
    case FLOATS_LOGITS:
        return (176 * unit(random) - 88) * buffer->scale;
    case FLOATS_RUNS:
        return spread(random, -1, 1) * exp2(24 * unit(of_run) - 12);
    case FLOATS_EQUAL:
        return spread(of_run, -6 * buffer->scale, 6 * buffer->scale);
    case FLOATS_LONE:
        return chosen ? (double)NAN : moderate(buffer, random);
    case FLOATS_INFINITE:
        return chosen ? buffer->one_sign : spread(random, -4 * buffer->scale, 4 * buffer->scale);
    case FLOATS_PARTS:
        return part(buffer, index, random);
    case FLOATS_SOME_ZEROS:
        return random % 8 == 3 ? 0 : moderate(buffer, random);
    default:
        return moderate(buffer, random);
    }
}

static uint64_t whole(const struct buffer *buffer, uint8_t kind, uint64_t random)
{
    unsigned bits = 8 * buffer->width;
    uint64_t mask = bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
    const uint64_t ends[] = {0, 1, mask, mask >> 1, (mask >> 1) + 1, mask - 1, 2};
    if (kind == WHOLE_SMALL)
        return random % 4;
    if (kind == WHOLE_EXTREME && random % 3)
        return ends[(random >> 8) % 7];
    return random & mask;
}

/* ---- indices -----------------------------------------------------------------------------------
 */

static uint64_t captured(const struct buffer *buffer, size_t index)
{
    uint64_t value = 0;
    memcpy(&value, buffer->memory->pristine + buffer->datum->from + index * buffer->width,
           buffer->width);
    if (buffer->is_signed && buffer->width < 8 && value >> (8 * buffer->width - 1))
        value |= UINT64_MAX << 8 * buffer->width;
    return value;
}

/* Smallest and largest value, as signed numbers where one looks negative, and whether they never
 * fall. */
static void learn(struct buffer *buffer)
{
    uint64_t top = buffer->width < 8 ? UINT64_C(1) << (8 * buffer->width - 1) : UINT64_C(1) << 63;
    bool small = false, large = false;
    for (size_t i = 0; i < buffer->count; i++) {
        uint64_t value = captured(buffer, i);
        small |= value < top / 2;
        large |= value >= top + top / 2;
    }
    buffer->is_signed = small && large && buffer->width > 1;
    buffer->sorted = buffer->count > 2;
    for (size_t i = 0; i < buffer->count; i++) {
        int64_t value = (int64_t)captured(buffer, i);
        if (!i || value < (int64_t)buffer->low)
            buffer->low = (uint64_t)value;
        if (!i || value > (int64_t)buffer->high)
            buffer->high = (uint64_t)value;
        buffer->sorted &= !i || value >= (int64_t)captured(buffer, i - 1);
    }
    buffer->sorted &= buffer->low != buffer->high;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* A sequence that never falls, from the first captured value to the last: where it bounds rows,
 * some rows are empty, and one is long. */
static bool draw_sorted(const struct buffer *buffer, unsigned char *image)
{
    int64_t *values = malloc(buffer->count * sizeof *values);
    if (!values)
        return false;
    uint64_t distance = buffer->high - buffer->low, jump = distance / 8;
    size_t place = random_word(buffer->seed, 1) % buffer->count;
    for (size_t i = 0; i < buffer->count; i++)
        values[i] =
            (int64_t)(buffer->low + random_word(buffer->seed, i + 2) % (distance - jump + 1));
    qsort(values, buffer->count, sizeof *values, by_value);
    for (size_t i = 1; i < buffer->count; i++)
        if (random_word(buffer->seed ^ 3, i) % 4 == 0)
            values[i] = values[i - 1];
    for (size_t i = place; i < buffer->count; i++)
        values[i] += (int64_t)jump;
    values[0] = (int64_t)buffer->low;
    values[buffer->count - 1] = (int64_t)buffer->high;
    for (size_t i = 0; i < buffer->count; i++)
        memcpy(image + buffer->datum->from + i * buffer->width, &values[i], buffer->width);
    free(values);
    return true;
}

static uint64_t index_of(const struct buffer *buffer, uint8_t kind, uint64_t random)
{
    uint64_t from = kind == INDICES_BELOW && (int64_t)buffer->low > 0 ? 0 : buffer->low;
    uint64_t distance = buffer->high - from + (kind == INDICES_ABOVE ? buffer->beyond : 0);
    if (kind == INDICES_BITS)
        return random;
    if (kind == INDICES_ENDS)
        return random % 2 ? buffer->high : buffer->low;
    return from + (distance == UINT64_MAX ? random : random % (distance + 1));
}

/* ---- filling -----------------------------------------------------------------------------------
 */

/* An address that stands in captured memory, known by its place or by its value. */
static bool address_at(const struct replay_memory *memory, size_t at)
{
    const struct kg_capture *capture = memory->capture;
    size_t word = at & ~(size_t)7;
    uint64_t value;
    if (word + 8 > memory->total)
        return false;
    memcpy(&value, memory->pristine + word, 8);
    for (uint32_t i = 0; i < capture->region_count; i++) {
        const struct capture_region *r = &capture->regions[i];
        if (r->kind != CAPTURE_GLOBAL &&
            ((value >= r->address && value - r->address <= r->size) ||
             (value >= r->allocation && value - r->allocation <= r->allocation_size)))
            return true;
    }
    return false;
}

static size_t common_divisor(size_t a, size_t b)
{
    while (b) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Goes through all captured elements in another order. */
static size_t elsewhere(const struct buffer *buffer, size_t index)
{
    return (size_t)(((__uint128_t)index * buffer->step + buffer->shift) % buffer->count);
}

/* An element's bytes of a mask; one width is common, and a move of four bytes that the compiler
 * sees is one instruction. */
static inline uint64_t masked(const unsigned char *mask, size_t at, unsigned width)
{
    uint64_t bits = 0;
    if (width == 4)
        memcpy(&bits, mask + at, 4);
    else
        memcpy(&bits, mask + at, width);
    return bits;
}

static bool left_alone(const struct buffer *buffer, size_t at)
{
    const struct replay_memory *memory = buffer->memory;
    const unsigned width = buffer->width;
    if (masked(memory->slack, at, width) ||
        (masked(memory->written, at, width) & masked(memory->poisoned, at, width)))
        return true;
    return (buffer->datum->roles & ROLES_INDEX || buffer->element == ELEMENT_UNKNOWN ||
            buffer->element == ELEMENT_MOVED) &&
           address_at(memory, at);
}

static void put(const struct buffer *buffer, const struct draw_row *row, size_t index,
                unsigned char *image)
{
    bool indexed = buffer->datum->roles & ROLES_INDEX;
    bool floating = buffer->element >= ELEMENT_F16 && buffer->element <= ELEMENT_F64;
    size_t at = buffer->datum->from + index * buffer->width;
    uint64_t random = random_word(buffer->seed, index), value;
    bool shuffled = indexed    ? row->indices == INDICES_SHUFFLE
                    : floating ? row->floats == FLOATS_SHUFFLE
                               : row->integers == WHOLE_SHUFFLE;
    if (left_alone(buffer, at))
        return;
    if (shuffled) {
        size_t from = buffer->datum->from + elsewhere(buffer, index) * buffer->width;
        if (!left_alone(buffer, from))
            memcpy(image + at, buffer->memory->pristine + from, buffer->width);
        return;
    }
    if (!indexed && floating) {
        double drawn = number(buffer, row->floats, index, random);
        uint32_t nan = 0x7f800001u | ((uint32_t)random & 0x807fffffu);
        if (isnan(drawn) && buffer->element == ELEMENT_F32) /* of any sign and payload */
            memcpy(image + at, &nan, sizeof nan);
        else
            element_put(image, at, buffer->element, drawn);
        return;
    }
    if (indexed && row->indices == INDICES_RUNS)
        random = run_of(buffer, index);
    value = indexed ? index_of(buffer, row->indices, random) : whole(buffer, row->integers, random);
    memcpy(image + at, &value, buffer->width);
}

struct filling {
    const struct buffer *buffer;
    const struct draw_row *row;
    unsigned char *image;
};

static void fill_part(void *self, size_t from, size_t to)
{
    const struct filling *filling = self;
    for (size_t i = from; i < to; i++)
        put(filling->buffer, filling->row, i, filling->image);
}

/* Bits of which nobody says what they are are single floats in every other draw. */
static uint8_t element_for(const struct replay_datum *datum, uint64_t seed)
{
    bool bits = datum->loads == ELEMENT_UNKNOWN || datum->loads == ELEMENT_MOVED;
    return bits && datum->width == 4 && seed & 2 ? ELEMENT_F32 : datum->loads;
}

static bool fill(const struct replay_memory *memory, const struct replay_datum *datum,
                 const struct draw_row *row, unsigned turn, unsigned level, uint64_t seed,
                 unsigned char *image)
{
    struct buffer buffer = {.memory = memory,
                            .datum = datum,
                            .seed = seed,
                            .width = datum->width,
                            .level = level,
                            .scale = level ? 1 / exp2((double)level - 1) : 1};
    bool indexed = datum->roles & ROLES_INDEX;
    buffer.element = indexed ? datum->loads : element_for(datum, seed);
    if (!indexed && element_bytes(buffer.element))
        buffer.width = element_bytes(buffer.element);
    buffer.count = (datum->to - datum->from) / buffer.width;
    if (!buffer.count || (indexed && row->indices == INDICES_KEEP))
        return false;
    range(buffer.element, &buffer.least, &buffer.most);
    buffer.mean = exp2((10 + 3 * unit(random_word(seed, 2))) * buffer.scale);
    if (buffer.element == ELEMENT_F16 || buffer.element == ELEMENT_BF16)
        buffer.mean = 64;
    buffer.one_in = buffer.count / 48 + 1; /* a small buffer, too, gets all kinds */
    if (buffer.one_in > 1021)
        buffer.one_in = 1021;
    if (!indexed && (row->floats == FLOATS_LONE || row->floats == FLOATS_INFINITE))
        buffer.one_in = buffer.count / 8 < 8191 ? buffer.count / 8 + 1 : 8191;
    buffer.one_sign = seed & 1 ? INFINITY : -INFINITY;
    buffer.shift = random_word(seed, 1) % buffer.count;
    buffer.step =
        3 + random_word(seed, 0) % 29; /* small: large buffers are walked in caches' order */
    while (common_divisor(buffer.count, buffer.step) != 1)
        buffer.step++;
    if (indexed)
        learn(&buffer);
    buffer.beyond = ((buffer.high - buffer.low) >> (2 + 3 * turn)) + 1;
    if (indexed && buffer.sorted && row->indices == INDICES_RANGE)
        return draw_sorted(&buffer, image);
    if (indexed && buffer.sorted && row->indices == INDICES_RUNS)
        return false;
    struct filling filling = {&buffer, row, image};
    parallel(buffer.count, 64, fill_part, &filling);
    return true;
}

struct drawn draw_fill(const struct replay_memory *memory, const struct draw_row *row,
                       unsigned turn, unsigned level, uint64_t seed, unsigned char *image)
{
    static const struct draw_row plain = {"", FLOATS_MODERATE, WHOLE_BITS, INDICES_KEEP, 0},
                                 zeros = {"", FLOATS_SOME_ZEROS, WHOLE_BITS, INDICES_KEEP, 0};
    const struct draw_row *others = row->flags & DRAW_INFINITE ? &zeros : &plain;
    struct drawn drawn = {0};
    unsigned number = 0;
    for (uint32_t i = 0; i < memory->datum_count; i++) {
        const struct replay_datum *datum = &memory->data[i];
        if (!draw_takes(datum))
            continue;
        bool chosen = !(row->flags & DRAW_SOLO) || number == turn;
        number += !(datum->roles & ROLES_INDEX); /* no turn is spent on what such a row keeps */
        if (!fill(memory, datum, chosen ? row : others, turn, level, random_word(seed, i), image))
            continue;
        drawn.changed++;
        drawn.roles |= datum->roles;
    }
    return drawn;
}
