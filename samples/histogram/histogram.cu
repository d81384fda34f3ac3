// How often each byte occurs, added to 256 counters, one byte a thread.
//
// Floor on an H200: 1 byte an element at 4.3 TB/s measured copy bandwidth, 31 us for 2^27. The kernel is plain: an atomic
// addition to memory for every byte. In the second set of inputs nine bytes of ten are the same.
#include "../sample.h"

enum { BINS = 256 };

__global__ void histogram(const unsigned char *data, unsigned *bins, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&bins[data[i]], 1u);
}

int main(int argc, char **argv)
{
    Run run("histogram", argc, argv);
    int n = run.small ? 5000 : (1 << 27) - 99;
    unsigned seed = 31, *bins = device_memory<unsigned>(BINS);
    unsigned char *data[2];
    std::vector<std::vector<unsigned>> expected;
    for (int set = 0; set < 2; set++) {
        std::vector<unsigned char> bytes(n);
        std::vector<unsigned> counts(BINS);
        for (unsigned char &byte : bytes) {
            bool same = noise(seed) < 0.8f;
            byte = set && same ? 200 : seed >> 16;
            counts[byte]++;
        }
        data[set] = on_device(bytes);
        expected.push_back(counts);
    }

    return run.repeat(
        bins, expected, 0,
        [&](int set) { histogram<<<(n + 255) / 256, 256>>>(data[set], bins, n); }, 0);
}
