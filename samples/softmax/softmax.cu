// Softmax of each row: one block a row, three passes over it.
//
// Floor on an H200: 8 bytes an element at 4.3 TB/s measured copy bandwidth, 31 us for 4096 x 4096. The kernel is plain: it
// reads the row three times and computes each exponential twice. Once, at 80% of the run, it is called in place.
#include "../sample.h"

enum { THREADS = 256 };

__global__ void softmax(const float *in, float *out, int columns)
{
    __shared__ float part[THREADS];
    const float *row = in + (size_t)blockIdx.x * columns;
    float *result = out + (size_t)blockIdx.x * columns;
    int t = threadIdx.x;

    float most = -INFINITY;
    for (int c = t; c < columns; c += THREADS)
        most = fmaxf(most, row[c]);
    part[t] = most;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (t < half)
            part[t] = fmaxf(part[t], part[t + half]);
        __syncthreads();
    }
    most = part[0];
    __syncthreads();

    float sum = 0;
    for (int c = t; c < columns; c += THREADS)
        sum += expf(row[c] - most);
    part[t] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (t < half)
            part[t] += part[t + half];
        __syncthreads();
    }
    sum = part[0];

    for (int c = t; c < columns; c += THREADS)
        result[c] = expf(row[c] - most) / sum;
}

int main(int argc, char **argv)
{
    Run run("softmax", argc, argv);
    enum { SETS = 2 };
    int rows = run.tiny ? 3 : run.small ? 8 : 4096, columns = run.tiny ? 1280 : run.small ? 2048 : 4096;
    size_t count = (size_t)rows * columns, bytes = count * sizeof(float);

    std::vector<float> input[SETS], expected[SETS];
    float *in[SETS], *out, *result;
    unsigned seed = 13;
    for (int s = 0; s < SETS; s++) {
        input[s].resize(count);
        expected[s].resize(count);
        for (float &v : input[s])
            v = 8 * noise(seed);
        for (int r = 0; r < rows; r++) {
            const float *row = &input[s][(size_t)r * columns];
            float most = *std::max_element(row, row + columns);
            double sum = 0;
            for (int c = 0; c < columns; c++)
                sum += std::exp((double)row[c] - most);
            for (int c = 0; c < columns; c++)
                expected[s][(size_t)r * columns + c] = (float)(std::exp((double)row[c] - most) / sum);
        }
        CUDA(cudaMalloc(&in[s], bytes));
        CUDA(cudaMemcpy(in[s], input[s].data(), bytes, cudaMemcpyHostToDevice));
    }
    CUDA(cudaMalloc(&out, bytes));
    CUDA(cudaMallocHost(&result, bytes));

    bool in_place_done = false;
    while (run.more()) {
        int s = run.done % SETS;
        bool in_place = !in_place_done && run.part() >= 0.8;
        in_place_done |= in_place;
        if (in_place)
            CUDA(cudaMemcpy(out, in[s], bytes, cudaMemcpyDeviceToDevice));
        else
            CUDA(cudaMemset(out, 0xff, bytes));
        run.begin();
        softmax<<<rows, THREADS>>>(in_place ? out : in[s], out, columns);
        run.end();
        CUDA(cudaMemcpy(result, out, bytes, cudaMemcpyDeviceToHost));
        // values are small: the tolerance is absolute, a thousandth of the mean value 1/columns
        run.check(result, expected[s].data(), count, 1e-3f / columns);
    }
    return run.finish();
}
