// 5 x 5 stencil with coefficients in __constant__ memory, borders clamped, one point a thread.
//
// Floor on an H200: 8 bytes a point at 4.3 TB/s measured copy bandwidth, 8 us for 2048 x 2048 (50 operations a point are 3 us at
// 67 TFLOP/s). The kernel is plain: every thread loads and clamps all 25 neighbours itself. The coefficients
// change every 100 launches. Two more kernels run now and then on little data: `tally` and `fade`.
#include "../sample.h"

enum { REACH = 2, WIDTH = 2 * REACH + 1 };

__constant__ float weight[WIDTH * WIDTH];

__global__ void stencil(const float *in, float *out, int rows, int columns)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r >= rows || c >= columns)
        return;
    float sum = 0;
    for (int dr = -REACH; dr <= REACH; dr++)
        for (int dc = -REACH; dc <= REACH; dc++) {
            int y = min(max(r + dr, 0), rows - 1), x = min(max(c + dc, 0), columns - 1);
            sum += weight[(dr + REACH) * WIDTH + dc + REACH] * in[(size_t)y * columns + x];
        }
    out[(size_t)r * columns + c] = sum;
}

__global__ void tally(const float *values, int count, unsigned *positive)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count && values[i] > 0)
        atomicAdd(positive, 1u);
}

__global__ void fade(float *values, int count, float factor)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        values[i] *= factor;
}

static void new_weights(unsigned &seed, float *w)
{
    for (int i = 0; i < WIDTH * WIDTH; i++)
        w[i] = noise(seed) / 4;
}

static void on_cpu(const std::vector<float> &in, std::vector<float> &out, int rows, int columns, const float *w)
{
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) {
            float sum = 0;
            for (int dr = -REACH; dr <= REACH; dr++) {
                const float *row = &in[(size_t)std::min(std::max(r + dr, 0), rows - 1) * columns];
                for (int dc = -REACH; dc <= REACH; dc++)
                    sum += w[(dr + REACH) * WIDTH + dc + REACH] *
                           row[std::min(std::max(c + dc, 0), columns - 1)];
            }
            out[(size_t)r * columns + c] = sum;
        }
}

int main(int argc, char **argv)
{
    Run run("stencil", argc, argv);
    int rows = run.tiny ? 40 : run.small ? 96 : 2048, columns = run.tiny ? 56 : run.small ? 128 : 2048, side = 64;
    size_t count = (size_t)rows * columns, bytes = count * sizeof(float);

    std::vector<float> input(count), expected(count);
    unsigned seed = 17, *positive;
    float w[WIDTH * WIDTH], *in, *out, *little, *result;
    for (float &v : input)
        v = noise(seed);
    CUDA(cudaMalloc(&in, bytes));
    CUDA(cudaMalloc(&out, bytes));
    CUDA(cudaMalloc(&little, side * sizeof(float)));
    CUDA(cudaMalloc(&positive, sizeof(unsigned)));
    CUDA(cudaMallocHost(&result, bytes));
    CUDA(cudaMemcpy(in, input.data(), bytes, cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(little, input.data(), side * sizeof(float), cudaMemcpyHostToDevice));
    CUDA(cudaMemset(positive, 0, sizeof(unsigned)));

    while (run.more()) {
        if (run.done % 100 == 0) {
            new_weights(seed, w);
            CUDA(cudaMemcpyToSymbol(weight, w, sizeof w));
            on_cpu(input, expected, rows, columns, w);
        }
        if (run.done % 50 == 0) {
            tally<<<1, side>>>(little, side, positive);
            fade<<<1, side>>>(little, side, 0.99f);
        }
        CUDA(cudaMemset(out, 0xff, bytes));
        dim3 block(16, 16), grid((columns + 15) / 16, (rows + 15) / 16);
        run.begin();
        stencil<<<grid, block>>>(in, out, rows, columns);
        run.end();
        CUDA(cudaMemcpy(result, out, bytes, cudaMemcpyDeviceToHost));
        run.check(result, expected.data(), count, 1e-5f);
    }
    return run.finish();
}
