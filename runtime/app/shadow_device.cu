// Compares what an original wrote with what its variant wrote to private copies: see shadow.c. shadow_device.sh makes
// shadow_device.inc of it, so that neither a build nor a user needs a compiler.
//
// Both sides stand at addresses that are equal modulo 512. element: 0 bits, 4 float, 8 double; limit: the relative error
// that a float may have. result[0]: bytes (elements, of floats) that differ; result[1]: the complement of the first such
// byte's place, region in the upper 16 bits.

typedef unsigned char byte;
typedef unsigned long long word;

static __device__ void report(word *result, unsigned region, word at, unsigned count)
{
    atomicAdd(&result[0], (word)count);
    atomicMax(&result[1], ~((word)region << 48 | at));
}

static __device__ bool near(double got, double expected, double limit)
{
    if (got != got || expected != expected)
        return got != got && expected != expected;
    if (got == expected) // infinities of one sign, too
        return true;
    double apart = got > expected ? got - expected : expected - got, size = expected < 0 ? -expected : expected;
    return apart <= limit * size && size < __longlong_as_double(0x7ff0000000000000ll);
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
    word step = element == 4 ? 4 : 8, head = -(word)expected & (step - 1);
    if (head > bytes)
        head = bytes;
    word count = (bytes - head) / step;
    for (word i = thread; i < count; i += threads) {
        word at = head + i * step;
        word x, y;
        if (element == 4) {
            x = *(const unsigned *)(expected + at), y = *(const unsigned *)(got + at);
            if (x != y && !near(__uint_as_float((unsigned)y), __uint_as_float((unsigned)x), limit))
                report(result, region, at, 1);
            continue;
        }
        x = *(const word *)(expected + at), y = *(const word *)(got + at);
        if (x == y)
            continue;
        if (element == 8) {
            if (!near(__longlong_as_double((long long)y), __longlong_as_double((long long)x), limit))
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
