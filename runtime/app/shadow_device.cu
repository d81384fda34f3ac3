// Compares what an original wrote with what its variant wrote to private copies: see shadow.c. device_text.sh makes
// shadow_device.inc of it, so that neither a build nor a user needs a compiler.
//
// Both sides stand at addresses that are equal modulo 512. element: 0 bits, 2 half, 3 bf16, 4 float, 8 double; limit: the
// relative error that such a number may have. result[0]: bytes (elements, of floats) that differ; result[1]: the complement of the first such
// byte's place, region in the upper 16 bits.

typedef unsigned char byte;
typedef unsigned long long word;

static __device__ void report(word *result, unsigned region, word at, unsigned count)
{
    atomicAdd(&result[0], (word)count);
    atomicMax(&result[1], ~((word)region << 48 | at));
}

// tiny: the smallest normal number; below it, units in the last place get no smaller.
static __device__ bool near(double got, double expected, double limit, double tiny)
{
    if (got != got || expected != expected)
        return got != got && expected != expected;
    if (got == expected) // infinities of one sign, too
        return true;
    double apart = got > expected ? got - expected : expected - got, size = expected < 0 ? -expected : expected;
    return apart <= limit * (size > tiny ? size : tiny) && size < __longlong_as_double(0x7ff0000000000000ll);
}

// A half or bf16 as a float.
static __device__ float small_value(unsigned bits, unsigned element)
{
    if (element == 3)
        return __uint_as_float(bits << 16);
    unsigned sign = (bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 31)
        return __uint_as_float(sign | 0x7f800000 | fraction << 13);
    if (!exponent) // zero, or a multiple of 2^-24
        return sign ? -(float)fraction * 5.9604644775390625e-8f : (float)fraction * 5.9604644775390625e-8f;
    return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
}

static __device__ void bytes_compare(const byte *a, const byte *b, word at, word *result, unsigned region)
{
    if (a[at] != b[at])
        report(result, region, at, 1);
}

// expected: what the original wrote; got: what the variant wrote.
extern "C" __global__ void kgenrt_compare(const byte *expected, const byte *got, word bytes, word *result,
                                          unsigned region, unsigned element, double limit)
{
    word thread = (word)blockIdx.x * blockDim.x + threadIdx.x, threads = (word)gridDim.x * blockDim.x;
    word step = element == 2 || element == 3 ? 2 : element == 4 ? 4 : 8, head = -(word)expected & (step - 1);
    if (head > bytes)
        head = bytes;
    word count = (bytes - head) / step;
    for (word i = thread; i < count; i += threads) {
        word at = head + i * step;
        word x, y;
        if (step == 2) {
            x = *(const unsigned short *)(expected + at), y = *(const unsigned short *)(got + at);
            if (x != y && !near(small_value((unsigned)y, element), small_value((unsigned)x, element), limit, element == 2 ? 0x1p-14 : 0x1p-126))
                report(result, region, at, 1);
            continue;
        }
        if (element == 4) {
            x = *(const unsigned *)(expected + at), y = *(const unsigned *)(got + at);
            if (x != y && !near(__uint_as_float((unsigned)y), __uint_as_float((unsigned)x), limit, 0x1p-126))
                report(result, region, at, 1);
            continue;
        }
        x = *(const word *)(expected + at), y = *(const word *)(got + at);
        if (x == y)
            continue;
        if (element == 8) {
            if (!near(__longlong_as_double((long long)y), __longlong_as_double((long long)x), limit, 0x1p-1022))
                report(result, region, at, 1);
            continue;
        }
        word changed = x ^ y;
        unsigned differ = 0, first = 8;
        for (unsigned k = 0; k < 8; k++)
            if (changed >> (8 * k) & 255) {
                differ++;
                if (first == 8)
                    first = k;
            }
        report(result, region, at + first, differ);
    }
    if (thread < head)
        bytes_compare(expected, got, thread, result, region);
    word tail = head + count * step;
    if (thread < bytes - tail)
        bytes_compare(expected, got, tail + thread, result, region);
}
