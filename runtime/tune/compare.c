/* Comparing images: bit for bit, or, where another accuracy was asked for and the original's PTX
 * says that an element is floating point by the arithmetic done on it, within a bound per element.
 * What it does not say is compared bit for bit. Pure functions over bytes; no device. */
#include "tune/parallel.h"
#include "tune/replay.h"

#include <stdatomic.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 256, STRIDE = 4096 }; /* bytes */

struct difference {
    const unsigned char *a, *b, *mask;
    size_t base;
    _Atomic size_t at; /* the first one found so far */
};

/* The first one in [from, to); `to`: none. */
static size_t next_difference(const unsigned char *a, const unsigned char *b,
                              const unsigned char *mask, size_t from, size_t to)
{
    for (size_t at = from; at < to;) {
        size_t size = to - at < CHUNK ? to - at : CHUNK, end = at + size;
        if (!memcmp(a + at, b + at, size)) {
            at = end;
            continue;
        }
        for (; at < end; at++)
            if (a[at] != b[at] && (!mask || mask[at]))
                return at;
    }
    return to;
}

static void difference_part(void *self, size_t from, size_t to)
{
    struct difference *d = self;
    for (size_t at = d->base + from, stop = d->base + to; at < stop;) {
        size_t end = stop - at < STRIDE ? stop : at + STRIDE, first = atomic_load(&d->at);
        if (at >= first)
            return; /* one before this is known */
        size_t found = next_difference(d->a, d->b, d->mask, at, end);
        while (found < end && found < first && !atomic_compare_exchange_weak(&d->at, &first, found))
            ;
        at = found < end ? stop : end;
    }
}

size_t first_difference(const unsigned char *a, const unsigned char *b, const unsigned char *mask,
                        size_t from, size_t total)
{
    struct difference difference = {a, b, mask, from, total};
    if (from < total)
        parallel(total - from, STRIDE, difference_part, &difference);
    return difference.at;
}

static bool floating(uint8_t element)
{
    return element >= ELEMENT_F16 && element <= ELEMENT_F64;
}

/* Number of bits of the significand, and exponent of the smallest number that has them all. */
static const struct {
    uint8_t bytes, bits;
    int least;
} forms[ELEMENT_COUNT] = {[ELEMENT_F16] = {2, 11, -14},
                          [ELEMENT_BF16] = {2, 8, -126},
                          [ELEMENT_F32] = {4, 24, -126},
                          [ELEMENT_F64] = {8, 53, -1022}};

unsigned element_bytes(uint8_t element)
{
    return forms[element].bytes;
}

unsigned element_bits(uint8_t element)
{
    return forms[element].bits;
}

static double half_get(uint16_t raw)
{
    int exponent = raw >> 10 & 31;
    double significand = raw & 1023;
    double value = exponent == 31 ? (significand > 0 ? NAN : INFINITY)
                   : exponent     ? ldexp(significand + 1024, exponent - 25)
                                  : ldexp(significand, -24);
    return raw >> 15 ? -value : value;
}

double element_get(const unsigned char *image, size_t at, uint8_t element)
{
    uint16_t half;
    uint32_t word;
    float single;
    double wide;
    switch (element) {
    case ELEMENT_F64:
        memcpy(&wide, image + at, sizeof wide);
        return wide;
    case ELEMENT_F16:
        memcpy(&half, image + at, sizeof half);
        return half_get(half);
    case ELEMENT_BF16:
        memcpy(&half, image + at, sizeof half);
        word = (uint32_t)half << 16;
        memcpy(&single, &word, sizeof single);
        return single;
    default:
        memcpy(&single, image + at, sizeof single);
        return single;
    }
}

double element_ulp(double value, uint8_t element)
{
    int exponent = forms[element].least;
    if (fabs(value) > 0 && isfinite(value) && ilogb(value) > exponent)
        exponent = ilogb(value);
    return ldexp(1, exponent - forms[element].bits + 1);
}

/* To the nearest, ties to even. Infinity where the type's range ends. */
void element_put(unsigned char *image, size_t at, uint8_t element, double value)
{
    uint32_t word;
    uint16_t half;
    float single = (float)value;
    if (element == ELEMENT_F64) {
        memcpy(image + at, &value, sizeof value);
        return;
    }
    memcpy(&word, &single, sizeof word);
    if (element == ELEMENT_F32) {
        memcpy(image + at, &single, sizeof single);
        return;
    }
    if (element == ELEMENT_BF16) {
        half = isnan(value) ? 0x7fff : (uint16_t)((word + 0x7fff + (word >> 16 & 1)) >> 16);
    } else {
        double scaled = isfinite(value) ? rint(value / element_ulp(value, ELEMENT_F16)) *
                                              element_ulp(value, ELEMENT_F16)
                                        : value;
        double size = fabs(scaled);
        int exponent = size > 0 && isfinite(size) ? ilogb(size) : 0;
        if (isnan(value))
            half = 0x7fff;
        else if (size > 65504)
            half = 0x7c00;
        else if (size < 0x1p-14)
            half = (uint16_t)(size * 0x1p24);
        else
            half = (uint16_t)((unsigned)(exponent + 15) << 10 |
                              ((unsigned)ldexp(size, 10 - exponent) & 1023));
        half |= signbit(value) ? 0x8000 : 0;
    }
    memcpy(image + at, &half, sizeof half);
}

/* The largest difference that passes; below zero: none, not even between unequal zeros. */
static double allowed(const struct replay_memory *memory, const struct replay_datum *datum,
                      size_t at, double expected, const struct accuracy *accuracy)
{
    size_t number = datum->number + (at - datum->from) / forms[datum->stores].bytes;
    switch (accuracy->mode) {
    case ACCURACY_REL:
        return accuracy->limit * fabs(expected);
    case ACCURACY_ULP:
        return accuracy->limit * element_ulp(expected, datum->stores);
    case ACCURACY_AUTO:
        return memory->bound ? memory->bound[number] : -1;
    default:
        return -1;
    }
}

/* Also the better of two records; of equal ones the first. */
static void inexact_add(struct inexact *all, const struct inexact *one)
{
    bool worse =
        !all->elements || one->ulps > all->ulps || (!(one->ulps < all->ulps) && one->at < all->at);
    uint64_t elements = all->elements + one->elements;
    if (one->elements && worse)
        *all = *one;
    all->elements = elements;
}

struct judging {
    const struct replay_memory *memory;
    const unsigned char *got, *expected;
    const struct accuracy *accuracy;
    _Atomic size_t at; /* the first offence found so far */
    pthread_mutex_t lock;
    struct inexact inexact;
};

/* One element that differs by bits. */
static bool near(const struct judging *j, size_t at, const struct replay_datum *datum,
                 struct inexact *seen)
{
    uint8_t element = datum->stores;
    double is = element_get(j->got, at, element), was = element_get(j->expected, at, element);
    if (j->accuracy->ends_alike && !isfinite(is) && !isfinite(was))
        return true;
    if (isnan(is) || isnan(was))
        return isnan(is) && isnan(was);
    if (isinf(is) || isinf(was))
        return is == was; /* NOLINT: the same infinity */
    double off = fabs(is - was), most = allowed(j->memory, datum, at, was, j->accuracy);
    const struct inexact one = {1, off / element_ulp(was, element), most > 0 ? off / most : 0, at};
    if (off <= most)
        inexact_add(seen, &one);
    return off <= most;
}

/* In [from, to), which begins and ends between elements. */
static size_t judge_part(const struct judging *j, size_t from, size_t to, struct inexact *seen)
{
    const struct replay_datum *datum = NULL;
    for (size_t at = from;;) {
        at = next_difference(j->got, j->expected, j->memory->written, at, to);
        if (at >= to)
            return SIZE_MAX;
        if (!datum || at < datum->from || at >= datum->to)
            datum = memory_datum(j->memory, at);
        if (j->accuracy->mode == ACCURACY_BITWISE || !datum || !floating(datum->stores))
            return at;
        size_t width = forms[datum->stores].bytes, element = at / width * width;
        if (element < datum->from || element + width > datum->to || !near(j, element, datum, seen))
            return at;
        at = element + width;
    }
}

static void judge(void *self, size_t from, size_t to)
{
    struct judging *j = self;
    struct inexact seen = {0};
    for (size_t at = from; at < to && at < atomic_load(&j->at);) {
        size_t end = to - at < STRIDE ? to : at + STRIDE;
        size_t found = judge_part(j, at, end, &seen), first = atomic_load(&j->at);
        while (found < first && !atomic_compare_exchange_weak(&j->at, &first, found))
            ;
        at = found < end ? to : end;
    }
    pthread_mutex_lock(&j->lock);
    inexact_add(&j->inexact, &seen);
    pthread_mutex_unlock(&j->lock);
}

bool results_equal(const struct replay_memory *memory, const unsigned char *got,
                   const unsigned char *expected, const struct accuracy *accuracy, size_t *at)
{
    struct judging j = {memory, got, expected, accuracy, memory->total, PTHREAD_MUTEX_INITIALIZER,
                        {0}};
    parallel(memory->total, STRIDE, judge, &j);
    *at = j.at;
    if (*at < memory->total)
        return false;
    if (memory->inexact)
        inexact_add(memory->inexact, &j.inexact);
    return true;
}

bool has_floats(const struct replay_memory *memory)
{
    for (uint32_t i = 0; i < memory->datum_count; i++)
        if (floating(memory->data[i].stores) && memchr(memory->written + memory->data[i].from, 0xff,
                                                       memory->data[i].to - memory->data[i].from))
            return true;
    return false;
}

bool has_infinity(const struct replay_memory *memory, const unsigned char *image)
{
    for (uint32_t i = 0; i < memory->datum_count; i++) {
        const struct replay_datum *datum = &memory->data[i];
        size_t width = forms[datum->stores].bytes;
        if (!floating(datum->stores))
            continue;
        for (size_t at = (datum->from + width - 1) / width * width; at + width <= datum->to;
             at += width)
            if (memory->written[at] && isinf(element_get(image, at, datum->stores)))
                return true;
    }
    return false;
}

bool whole_numbers(const struct replay_memory *memory, const unsigned char *image)
{
    for (uint32_t i = 0; i < memory->datum_count; i++) {
        const struct replay_datum *datum = &memory->data[i];
        size_t width = forms[datum->stores].bytes;
        if (!floating(datum->stores))
            continue;
        double most = ldexp(1, forms[datum->stores].bits - 2);
        for (size_t at = (datum->from + width - 1) / width * width; at + width <= datum->to;
             at += width) {
            double value = memory->written[at] ? element_get(image, at, datum->stores) : 0;
            if (!(fabs(value) <= most) || value != trunc(value)) /* NOLINT */
                return false;
        }
    }
    return true;
}

void difference_text(const struct replay_memory *memory, const unsigned char *got,
                     const unsigned char *expected, const struct accuracy *accuracy, size_t at,
                     char *text, size_t size)
{
    char place[160];
    const struct kg_dim block = memory->capture->launch.block;
    const struct replay_datum *datum = memory_datum(memory, at);
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    size_t element = at & ~(size_t)3;
    uint32_t raw[2];
    memcpy(&raw[0], got + element, 4);
    memcpy(&raw[1], expected + element, 4);
    int used = snprintf(text, size, "%s: 0x%08x instead of 0x%08x (as float %.9g instead of %.9g",
                        memory_place(memory, element, place, sizeof place), raw[0], raw[1],
                        element_get(got, element, ELEMENT_F32),
                        element_get(expected, element, ELEMENT_F32));
    if (datum && floating(datum->stores) && used > 0 && (size_t)used < size) {
        size_t own = at / forms[datum->stores].bytes * forms[datum->stores].bytes;
        double was = element_get(expected, own, datum->stores);
        if (datum->stores != ELEMENT_F32)
            used +=
                snprintf(text + used, size - (size_t)used, "; as %s %.17g instead of %.17g",
                         element_texts[datum->stores], element_get(got, own, datum->stores), was);
        if (accuracy->mode != ACCURACY_BITWISE && (size_t)used < size)
            used += snprintf(text + used, size - (size_t)used, "; allowed %.3g",
                             fmax(0, allowed(memory, datum, own, was, accuracy)));
    }
    const char *plus = strstr(place, " + ");
    if (used <= 0 || (size_t)used >= size)
        return;
    if (plus && threads)
        snprintf(text + used, size - (size_t)used,
                 "; block %llu if each thread has one 4-byte element)",
                 strtoull(plus + 3, NULL, 10) / 4 / threads);
    else
        snprintf(text + used, size - (size_t)used, ")");
}
