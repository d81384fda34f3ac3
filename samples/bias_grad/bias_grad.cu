// Gradient of a bias: the sum of each column of dout, row major, one column a thread.
//
// Floor on an H200: 4 bytes an element at 4.3 TB/s measured copy bandwidth, 31 us for 16384 x 2048. The kernel is plain:
// reads are coalesced, but 2,000 threads with one serial sum each cannot fill the memory system.
#include "../sample.h"

__global__ void bias_grad(const float *dout, float *dbias, int rows, int columns)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= columns)
        return;
    float sum = 0;
    for (int r = 0; r < rows; r++)
        sum += dout[(size_t)r * columns + c];
    dbias[c] = sum;
}

int main(int argc, char **argv)
{
    Run run("bias_grad", argc, argv);
    int rows = run.small ? 67 : 16381, columns = run.small ? 301 : 2051;
    unsigned seed = 19;
    float *dout[2], *dbias = device_memory<float>(columns);
    std::vector<std::vector<float>> expected;
    for (float *&set : dout) {
        std::vector<float> values = noises((size_t)rows * columns, seed), sums(columns);
        std::vector<double> exact(columns);
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < columns; c++)
                exact[c] += values[(size_t)r * columns + c];
        std::copy(exact.begin(), exact.end(), sums.begin());
        set = on_device(values);
        expected.push_back(sums);
    }

    return run.repeat(dbias, expected, 1e-3f, [&](int set) {
        bias_grad<<<(columns + 127) / 128, 128>>>(dout[set], dbias, rows, columns);
    });
}
