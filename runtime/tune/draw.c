/* Drawing inputs: see draw.h. Each element is a function of the seed and its place
 * (draw_element.h), so that a draw can be made again from its row and seed alone, by threads of the
 * host or by the device. */
#include "tune/draw.h"
#include "tune/draw_element.h"
#include "tune/parallel.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- indices -----------------------------------------------------------------------------------
 */

/* What was captured of a run of indices. */
struct learning {
    const unsigned char *pristine;
    const struct replay_datum *datum;
    size_t count;
    pthread_mutex_t lock;
    bool small, large;
    struct learnt found;
};

static uint64_t captured(const struct learning *learning, size_t index)
{
    const unsigned width = learning->datum->width;
    uint64_t value = 0;
    memcpy(&value, learning->pristine + learning->datum->from + index * width, width);
    if (learning->found.is_signed && width < 8 && value >> (8 * width - 1))
        value |= UINT64_MAX << 8 * width;
    return value;
}

/* Whether some are small, or as large as only negative ones are. */
static void sign_part(void *self, size_t from, size_t to)
{
    struct learning *learning = self;
    const unsigned width = learning->datum->width;
    uint64_t top = UINT64_C(1) << (width < 8 ? 8 * width - 1 : 63);
    bool small = false, large = false;
    for (size_t i = from; i < to; i++) {
        uint64_t value = captured(learning, i);
        small |= value < top / 2;
        large |= value >= top + top / 2;
    }
    pthread_mutex_lock(&learning->lock);
    learning->small |= small;
    learning->large |= large;
    pthread_mutex_unlock(&learning->lock);
}

static void range_part(void *self, size_t from, size_t to)
{
    struct learning *learning = self;
    struct learnt *found = &learning->found;
    bool sorted = true;
    int64_t last = from < to ? (int64_t)captured(learning, from ? from - 1 : 0) : 0;
    int64_t low = from < to ? (int64_t)captured(learning, from) : INT64_MAX;
    int64_t high = from < to ? low : INT64_MIN;
    for (size_t i = from; i < to; i++) {
        int64_t value = (int64_t)captured(learning, i);
        low = value < low ? value : low;
        high = value > high ? value : high;
        sorted &= value >= last;
        last = value;
    }
    pthread_mutex_lock(&learning->lock);
    found->low = low < found->low ? low : found->low;
    found->high = high > found->high ? high : found->high;
    found->sorted &= sorted;
    pthread_mutex_unlock(&learning->lock);
}

/* Smallest and largest value, as signed numbers where one looks negative, and whether they never
 * fall. The same at each draw, and learnt at the first. */
static struct learnt learn(const struct replay_memory *memory, struct replay_datum *datum)
{
    struct learning learning = {.pristine = memory->pristine,
                                .datum = datum,
                                .count = (datum->to - datum->from) / datum->width,
                                .lock = PTHREAD_MUTEX_INITIALIZER,
                                .found = {.low = INT64_MAX, .high = INT64_MIN, .sorted = true}};
    if (!datum->learnt.known) {
        parallel(learning.count, 64, sign_part, &learning);
        learning.found.is_signed = learning.small && learning.large && datum->width > 1;
        parallel(learning.count, 64, range_part, &learning);
        datum->learnt = learning.found;
        datum->learnt.known = true;
        datum->learnt.sorted &= learning.count > 2 && datum->learnt.low != datum->learnt.high;
    }
    return datum->learnt;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* A sequence that never falls, from the first captured value to the last: where it bounds rows,
 * some rows are empty, and one is long. */
static bool draw_sorted(const struct draw_buffer *buffer)
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
        memcpy(buffer->image + buffer->from + i * buffer->width, &values[i], buffer->width);
    free(values);
    return true;
}

/* ---- filling -----------------------------------------------------------------------------------
 */

static size_t common_divisor(size_t a, size_t b)
{
    while (b) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void fill_part(void *self, size_t from, size_t to)
{
    const struct draw_buffer buffer = *(const struct draw_buffer *)self;
    for (size_t i = from; i < to; i++)
        draw_element(&buffer, i);
}

void draw_here(const struct draw_buffer *buffer)
{
    struct draw_buffer copy = *buffer;
    parallel(buffer->count, 64, fill_part, &copy);
}

/* On the device if it takes it, else here: the bytes are the same. */
static void elements(const struct replay_memory *memory, const struct draw_buffer *buffer)
{
    struct replay_device *device = memory->device;
    if (!device || !device->draw || device->draw(device, buffer) != KG_OK)
        draw_here(buffer);
}

/* Bits of which nobody says what they are are single floats in every other draw. */
static uint8_t element_for(const struct replay_datum *datum, uint64_t seed)
{
    bool bits = datum->loads == ELEMENT_UNKNOWN || datum->loads == ELEMENT_MOVED;
    return bits && datum->width == 4 && seed & 2 ? ELEMENT_F32 : datum->loads;
}

static enum draw_type type_of(uint8_t element)
{
    return element == ELEMENT_F16    ? TYPE_F16
           : element == ELEMENT_BF16 ? TYPE_BF16
           : element == ELEMENT_F32  ? TYPE_F32
           : element == ELEMENT_F64  ? TYPE_F64
                                     : TYPE_WHOLE;
}

static double scale_of(unsigned level)
{
    return level ? 1 / exp2((double)level - 1) : 1;
}

/* What the type says, and the row. */
static void numbers(struct draw_buffer *buffer, const struct draw_row *row, uint8_t element)
{
    bool half = element == ELEMENT_F16 || element == ELEMENT_BF16;
    bool lone = row->floats == FLOATS_LONE || row->floats == FLOATS_INFINITE;
    uint64_t seed = buffer->seed, one_in = buffer->count / 48 + 1; /* a small one gets all kinds */
    buffer->floats = row->floats;
    buffer->integers = row->integers;
    buffer->indices = row->indices;
    buffer->type = type_of(element);
    buffer->bits = element_bits(element);
    buffer->least = log2(element_ulp(0, element));
    buffer->most = element == ELEMENT_F16 ? 16 : element == ELEMENT_F64 ? 1024 : 128;
    buffer->mean = half ? 64 : exp2((10 + 3 * draw_unit(random_word(seed, 2))) * buffer->scale);
    buffer->one_in = one_in > 1021 ? 1021 : one_in;
    if (!buffer->indexed && lone)
        buffer->one_in = buffer->count / 8 < 8191 ? buffer->count / 8 + 1 : 8191;
    buffer->one_sign = seed & 1 ? INFINITY : -INFINITY;
    buffer->shift = random_word(seed, 1) % buffer->count;
    buffer->step =
        3 + random_word(seed, 0) % 29; /* small: large buffers are walked in caches' order */
    while (common_divisor(buffer->count, buffer->step) != 1)
        buffer->step++;
}

static bool fill(const struct replay_memory *memory, struct replay_datum *datum,
                 const struct draw_row *row, unsigned turn, unsigned level, uint64_t seed,
                 unsigned char *image)
{
    struct draw_buffer buffer = {.pristine = memory->pristine,
                                 .slack = memory->slack,
                                 .written = memory->written,
                                 .poisoned = memory->poisoned,
                                 .image = image,
                                 .from = datum->from,
                                 .seed = seed,
                                 .width = datum->width,
                                 .level = level,
                                 .scale = scale_of(level),
                                 .indexed = (datum->roles & ROLES_INDEX) != 0};
    uint8_t element = buffer.indexed ? datum->loads : element_for(datum, seed);
    if (!buffer.indexed && element_bytes(element))
        buffer.width = element_bytes(element);
    buffer.count = (datum->to - datum->from) / buffer.width;
    if (!buffer.count || (buffer.indexed && row->indices == INDICES_KEEP))
        return false;
    numbers(&buffer, row, element);
    buffer.addresses = buffer.indexed || element == ELEMENT_UNKNOWN || element == ELEMENT_MOVED;
    memory_spans(memory, buffer.spans, &buffer.span_count);
    if (buffer.indexed) {
        struct learnt learnt = learn(memory, datum);
        buffer.low = (uint64_t)learnt.low;
        buffer.high = (uint64_t)learnt.high;
        buffer.beyond = ((buffer.high - buffer.low) >> (2 + 3 * turn)) + 1;
        if (learnt.sorted && row->indices == INDICES_RANGE)
            return draw_sorted(&buffer);
        if (learnt.sorted && row->indices == INDICES_RUNS)
            return false;
    }
    elements(memory, &buffer);
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
        struct replay_datum *datum = &memory->data[i];
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
