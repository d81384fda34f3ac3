// Residual addition in place and RMS norm, as between the layers of a language model: x += delta, out = x / rms(x) * weight;
// one block a row.
//
// Floor on an H200: 16 bytes an element at 4.3 TB/s measured copy bandwidth, 125 us for 8192 x 4100. The kernel is plain
// but not bad: single loads, and the row is read back for the second pass.
#include "../sample.h"

enum { THREADS = 128 };

__global__ void add_rmsnorm(float *x, const float *delta, const float *weight, float *out, int columns, float epsilon)
{
    __shared__ float part[THREADS];
    float *row = x + (size_t)blockIdx.x * columns;
    const float *change = delta + (size_t)blockIdx.x * columns;
    int t = threadIdx.x;
    float squares = 0;
    for (int c = t; c < columns; c += THREADS) {
        float v = row[c] + change[c];
        row[c] = v;
        squares += v * v;
    }
    part[t] = squares;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (t < half)
            part[t] += part[t + half];
        __syncthreads();
    }
    float scale = 1 / sqrtf(part[0] / columns + epsilon);
    for (int c = t; c < columns; c += THREADS)
        out[(size_t)blockIdx.x * columns + c] = row[c] * scale * weight[c];
}

int main(int argc, char **argv)
{
    Run run("add_rmsnorm", argc, argv);
    int rows = run.small ? 24 : 8192, columns = run.small ? 500 : 4100;
    size_t count = (size_t)rows * columns, bytes = count * sizeof(float);
    unsigned seed = 71;
    std::vector<float> before = noises(count, seed, 3), change = noises(count, seed), w = noises(columns, seed);
    std::vector<float> sums(count), expected(count), result(count);
    for (int r = 0; r < rows; r++) {
        double squares = 0;
        for (size_t i = (size_t)r * columns; i < (size_t)(r + 1) * columns; i++) {
            sums[i] = before[i] + change[i];
            squares += (double)sums[i] * sums[i];
        }
        for (int c = 0; c < columns; c++)
            expected[(size_t)r * columns + c] =
                (float)(sums[(size_t)r * columns + c] / std::sqrt(squares / columns + 1e-6) * w[c]);
    }
    float *first = on_device(before), *x = device_memory<float>(count), *delta = on_device(change);
    float *weight = on_device(w), *out = device_memory<float>(count);

    while (run.more()) {
        CUDA(cudaMemcpy(x, first, bytes, cudaMemcpyDeviceToDevice));
        CUDA(cudaMemset(out, 0xff, bytes));
        run.begin();
        add_rmsnorm<<<rows, THREADS>>>(x, delta, weight, out, columns, 1e-6f);
        run.end();
        bool in_place = run.done % 2; // one of the two results each time
        CUDA(cudaMemcpy(result.data(), in_place ? x : out, bytes, cudaMemcpyDeviceToHost));
        run.check(result.data(), (in_place ? sums : expected).data(), count, in_place ? 0 : 1e-5f);
    }
    return run.finish();
}
