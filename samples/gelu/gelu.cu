// GELU as MinGPT writes it, with the numbers as people type them: they are doubles, so all of it is calculated in double.
//
// Floor on an H200: 8 bytes an element at 4.3 TB/s measured copy bandwidth, 31 us for 2^24. The kernel is plain: one element
// a thread, pow for a cube, tanh in double.
#include "../sample.h"

__global__ void gelu(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = 0.5 * x[i] * (1.0 + tanh(sqrt(2.0 / 3.141592653589793) * (x[i] + 0.044715 * pow(x[i], 3.0))));
}

int main(int argc, char **argv)
{
    Run run("gelu", argc, argv);
    int n = run.small ? 1500 : (1 << 24) - 33;
    unsigned seed = 61;
    float *x[2], *y = device_memory<float>(n);
    std::vector<std::vector<float>> expected;
    for (float *&set : x) {
        std::vector<float> values = noises(n, seed, 6), result;
        for (double v : values)
            result.push_back((float)(0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)))));
        set = on_device(values);
        expected.push_back(result);
    }

    return run.repeat(y, expected, 1e-6f, [&](int set) { gelu<<<(n + 255) / 256, 256>>>(x[set], y, n); });
}
