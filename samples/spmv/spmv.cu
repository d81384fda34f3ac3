// y = A x, A sparse in rows (CSR), one row a thread.
//
// Floor on an H200: 8 bytes an entry at 4.3 TB/s measured copy bandwidth, 31 us for 2^24 entries. The kernel is plain:
// neighbouring threads read a row apart, and a warp waits for its longest row. Rows have 0 to 126 entries, few of them many.
#include "../sample.h"

__global__ void spmv(const int *start, const int *column, const float *value, const float *x, float *y, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float sum = 0;
    for (int i = start[r]; i < start[r + 1]; i++)
        sum += value[i] * x[column[i]];
    y[r] = sum;
}

int main(int argc, char **argv)
{
    Run run("spmv", argc, argv);
    int rows = run.small ? 70 : (1 << 20) - 3, columns = run.small ? 150 : 1 << 19;
    unsigned seed = 47;
    std::vector<int> start(1), column;
    for (int r = 0; r < rows; r++) {
        float skewed = noise(seed); // many short rows, one of ten empty
        int length = skewed < -0.8f ? 0 : 1 + (int)(125 * skewed * skewed * skewed * skewed);
        for (int i = 0; i < length; i++)
            column.push_back(std::min(columns - 1, (int)((noise(seed) + 1) / 2 * columns)));
        start.push_back((int)column.size());
    }
    std::vector<float> value = noises(column.size(), seed);
    int *starts = on_device(start), *in_columns = on_device(column);
    float *values = on_device(value), *x[3], *y = device_memory<float>(rows);
    std::vector<std::vector<float>> expected;
    for (float *&set : x) {
        std::vector<float> vector = noises(columns, seed), product(rows);
        for (int r = 0; r < rows; r++) {
            double sum = 0;
            for (int i = start[r]; i < start[r + 1]; i++)
                sum += (double)value[i] * vector[column[i]];
            product[r] = (float)sum;
        }
        set = on_device(vector);
        expected.push_back(product);
    }

    return run.repeat(y, expected, 1e-4f, [&](int set) {
        spmv<<<(rows + 127) / 128, 128>>>(starts, in_columns, values, x[set], y, rows);
    });
}
