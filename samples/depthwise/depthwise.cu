// Depthwise convolution: each channel of each picture (NCHW) with a 3 x 3 filter of its own, zeros around.
//
// Floor on an H200: 8 bytes a point at 4.3 TB/s measured copy bandwidth, 31 us for 4 x 64 x 256 x 256. The kernel is
// plain: one point a thread in one long row of threads, whose place is found by divisions, with nine tests of the border.
#include "../sample.h"

__global__ void depthwise(const float *in, const float *weight, float *out, int channels, int height, int width,
                          int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    int x = i % width, y = i / width % height, plane = i / (width * height), channel = plane % channels;
    float sum = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            if (y + dy >= 0 && y + dy < height && x + dx >= 0 && x + dx < width)
                sum += weight[channel * 9 + (dy + 1) * 3 + dx + 1] *
                       in[((size_t)plane * height + y + dy) * width + x + dx];
    out[i] = sum;
}

static float point(const float *plane, const float *w, int y, int x, int height, int width)
{
    double sum = 0;
    for (int v = std::max(0, y - 1); v <= std::min(height - 1, y + 1); v++)
        for (int u = std::max(0, x - 1); u <= std::min(width - 1, x + 1); u++)
            sum += (double)w[(v - y + 1) * 3 + u - x + 1] * plane[v * width + u];
    return (float)sum;
}

int main(int argc, char **argv)
{
    Run run("depthwise", argc, argv);
    int pictures = run.small ? 2 : 4, channels = run.small ? 3 : 64;
    int height = run.small ? 19 : 257, width = run.small ? 22 : 259;
    int count = pictures * channels * height * width;
    unsigned seed = 41;
    std::vector<float> w = noises(channels * 9, seed);
    float *in[2], *weight = on_device(w), *out = device_memory<float>(count);
    std::vector<std::vector<float>> expected;
    for (float *&set : in) {
        std::vector<float> values = noises(count, seed), result;
        for (int p = 0; p < pictures * channels; p++)
            for (int i = 0; i < height * width; i++)
                result.push_back(point(&values[(size_t)p * height * width], &w[p % channels * 9], i / width,
                                       i % width, height, width));
        set = on_device(values);
        expected.push_back(result);
    }

    return run.repeat(out, expected, 1e-5f, [&](int set) {
        depthwise<<<(count + 255) / 256, 256>>>(in[set], weight, out, channels, height, width, count);
    });
}
