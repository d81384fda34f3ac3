// c = a + b, one element a thread: a negative control. Floor on an H200: 12 bytes an element at 4.3 TB/s measured copy
// bandwidth, 94 us for 2^25; the plain kernel is there already, and "no gain" is the right answer.
#include "../sample.h"

__global__ void vector_add(const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}

int main(int argc, char **argv)
{
    Run run("vector_add", argc, argv);
    int n = run.small ? 10007 : (1 << 25) - 9;
    unsigned seed = 73;
    std::vector<float> other = noises(n, seed);
    float *a[2], *b = on_device(other), *c = device_memory<float>(n);
    std::vector<std::vector<float>> expected;
    for (float *&set : a) {
        std::vector<float> values = noises(n, seed), result(n);
        for (int i = 0; i < n; i++)
            result[i] = values[i] + other[i];
        set = on_device(values);
        expected.push_back(result);
    }

    return run.repeat(c, expected, 0, [&](int set) { vector_add<<<(n + 255) / 256, 256>>>(a[set], b, c, n); });
}
