// Convolution of one channel with a 7 x 7 filter that lies in memory; outside of the picture there are zeros.
//
// Floor on an H200: 8 bytes a point at 4.3 TB/s measured copy bandwidth, 31 us for 4096 x 4096; 98 operations a point are
// 25 us at 67 TFLOP/s. The kernel is plain: each thread loads 49 points and 49 coefficients for one result.
#include "../sample.h"

enum { REACH = 3, WIDTH = 2 * REACH + 1 };

__global__ void conv2d(const float *in, const float *filter, float *out, int rows, int columns)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r >= rows || c >= columns)
        return;
    float sum = 0;
    for (int i = 0; i < WIDTH; i++)
        for (int j = 0; j < WIDTH; j++) {
            int y = r + i - REACH, x = c + j - REACH;
            if (y >= 0 && y < rows && x >= 0 && x < columns)
                sum += filter[i * WIDTH + j] * in[(size_t)y * columns + x];
        }
    out[(size_t)r * columns + c] = sum;
}

static std::vector<float> on_cpu(const std::vector<float> &in, const float *filter, int rows, int columns)
{
    std::vector<float> out(in.size());
    for (int r = 0; r < rows; r++)
        for (int i = std::max(0, REACH - r); i < std::min<int>(WIDTH, rows + REACH - r); i++)
            for (int j = 0; j < WIDTH; j++) {
                const float *row = &in[(size_t)(r + i - REACH) * columns], f = filter[i * WIDTH + j];
                int d = j - REACH;
                for (int c = std::max(0, -d); c < std::min(columns, columns - d); c++)
                    out[(size_t)r * columns + c] += f * row[c + d];
            }
    return out;
}

int main(int argc, char **argv)
{
    Run run("conv2d", argc, argv);
    int rows = run.small ? 19 : 4099, columns = run.small ? 34 : 4098;
    size_t count = (size_t)rows * columns;
    unsigned seed = 37;
    std::vector<float> w = noises(WIDTH * WIDTH, seed, 0.25f);
    float *in[2], *filter = on_device(w), *out = device_memory<float>(count);
    std::vector<std::vector<float>> expected;
    for (float *&set : in) {
        std::vector<float> values = noises(count, seed);
        expected.push_back(on_cpu(values, w.data(), rows, columns));
        set = on_device(values);
    }

    dim3 block(16, 16), grid((columns + 15) / 16, (rows + 15) / 16);
    return run.repeat(out, expected, 1e-5f, [&](int set) {
        conv2d<<<grid, block>>>(in[set], filter, out, rows, columns);
    });
}
