// y = A x, A row major, one row a thread.
//
// Floor on an H200: 4 bytes an element of A at 4.3 TB/s measured copy bandwidth, 31 us for 8192 x 4096. The kernel is
// plain: neighbouring threads read a row apart, and there are too few of them.
#include "../sample.h"

__global__ void sgemv(const float *a, const float *x, float *y, int rows, int columns)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float sum = 0;
    for (int c = 0; c < columns; c++)
        sum += a[(size_t)r * columns + c] * x[c];
    y[r] = sum;
}

int main(int argc, char **argv)
{
    Run run("sgemv", argc, argv);
    int rows = run.small ? 70 : 8189, columns = run.small ? 131 : 4101;
    unsigned seed = 5;
    std::vector<float> matrix = noises((size_t)rows * columns, seed);
    std::vector<std::vector<float>> expected;
    float *a = on_device(matrix), *x[3], *y = device_memory<float>(rows);
    for (float *&set : x) {
        std::vector<float> vector = noises(columns, seed), product(rows);
        for (int r = 0; r < rows; r++) {
            double sum = 0;
            for (int c = 0; c < columns; c++)
                sum += (double)matrix[(size_t)r * columns + c] * vector[c];
            product[r] = (float)sum;
        }
        set = on_device(vector);
        expected.push_back(product);
    }

    return run.repeat(y, expected, 1e-3f, [&](int set) {
        sgemv<<<(rows + 127) / 128, 128>>>(a, x[set], y, rows, columns);
    });
}
