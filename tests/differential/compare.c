/* Whether a device's results are the recorded ones: bit for bit, or within the row's bound. */
#include "differential.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static uint64_t read_at(const unsigned char *data, unsigned bytes)
{
    uint64_t value = 0;
    memcpy(&value, data, bytes);
    return value;
}

/* The value of bits in a float format, and the distance to its neighbour. */
static double float_of(const struct kind *kind, uint64_t bits, double *unit)
{
    int exponent = (int)(bits >> kind->mantissa & ((1u << kind->exponent) - 1));
    int top = (1 << kind->exponent) - 1, bias = top / 2;
    uint64_t mantissa = bits & ((UINT64_C(1) << kind->mantissa) - 1);
    double sign = bits >> (kind->exponent + kind->mantissa) & 1 ? -1 : 1;
    *unit = ldexp(1, (exponent ? exponent : 1) - bias - kind->mantissa);
    if (exponent == top)
        return mantissa ? (double)NAN : sign * (double)INFINITY;
    return sign * ldexp((double)(mantissa + (exponent ? UINT64_C(1) << kind->mantissa : 0)),
                        (exponent ? exponent : 1) - bias - kind->mantissa);
}

static bool near(const struct kind *kind, const struct bound_row *bound, uint64_t ours,
                 uint64_t recorded)
{
    double unit, other;
    if (ours == recorded)
        return true;
    if (kind->class != KIND_FLOAT)
        return false;
    double a = float_of(kind, ours, &other), b = float_of(kind, recorded, &unit);
    if (!isfinite(a) || !isfinite(b)) /* a NaN's bits must be the same */
        return a == b;
    return fabs(a - b) <= bound->relative * fabs(b) + bound->absolute + (bound->ulps + 1) * unit &&
           (b != 0 || fabs(a) <= bound->absolute + unit);
}

/* Bit for bit: only then do the hashes say anything. */
static bool exactly(const struct row *row)
{
    const struct bound_row *bound = &bounds[row->bound];
    return bound->relative == 0 && bound->absolute == 0 && bound->ulps == 0;
}

static bool equal(const struct row *row, const struct kind *kind, uint64_t ours, uint64_t recorded)
{
    const struct bound_row *bound = &bounds[row->bound];
    if (exactly(row))
        return ours == recorded;
    uint64_t mask = kind->bits == 64 ? ~UINT64_C(0) : (UINT64_C(1) << kind->bits) - 1;
    for (unsigned i = 0; i < kind->elements; i++)
        if (!near(kind, bound, ours >> (i * kind->bits) & mask,
                  recorded >> (i * kind->bits) & mask))
            return false;
    return true;
}

unsigned row_compared(const struct row *row)
{
    return exactly(row) ? row_threads(row) : row_raw(row);
}

static void tell(const struct row *row, unsigned thread, unsigned output, uint64_t ours,
                 uint64_t recorded, char *text, size_t size)
{
    size_t used = 0;
    for (unsigned i = 0; i < row->input_count && i < 4 && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%llx ",
                                 (unsigned long long)input_value(row, i, thread));
    if (used < size)
        snprintf(text + used, size - used, "(thread %u, result %u): %llx, recorded %llx", thread,
                 output, (unsigned long long)ours, (unsigned long long)recorded);
}

unsigned row_compare(const struct row *row, const struct outcome *outcome,
                     const struct stored *stored, char *text, size_t size)
{
    unsigned threads = row_threads(row), raw = row_raw(row), before = 0, different = 0;
    for (unsigned i = 0; i < row->output_count; i++) {
        unsigned bytes = output_bytes(row->outputs[i]);
        const unsigned char *ours = outcome->data + (size_t)before * threads;
        const unsigned char *theirs = stored->raw + (size_t)before * raw;
        for (unsigned t = 0; t < raw; t++) {
            uint64_t a = read_at(ours + t * bytes, bytes), b = read_at(theirs + t * bytes, bytes);
            if (equal(row, row->outputs[i], a, b))
                continue;
            if (!different++)
                tell(row, t, i, a, b, text, size);
        }
        before += bytes;
    }
    for (unsigned chunk = 0; exactly(row) && chunk < CHUNKS; chunk++) {
        if (chunk_hash(row, outcome->data, chunk) == read_at(stored->hashes + chunk * 8, 8))
            continue;
        if (!different++)
            snprintf(text, size, "in threads %u to %u", raw + chunk * CHUNK,
                     raw + (chunk + 1) * CHUNK - 1);
    }
    return different;
}
