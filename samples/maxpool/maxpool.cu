// Largest of each 4 x 4 window, step 1, no border: planes of height x width to (height - 3) x (width - 3). A NaN in the
// window is the result.
//
// Floor on an H200: 8 bytes a point at 4.3 TB/s measured copy bandwidth, 31 us for 64 planes of 512 x 512. The kernel is
// plain: one result a thread, sixteen loads, nothing kept from one window for the next.
#include "../sample.h"

enum { WINDOW = 4 };

__global__ void maxpool(const float *in, float *out, int height, int width)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    int out_height = height - WINDOW + 1, out_width = width - WINDOW + 1;
    if (x >= out_width)
        return;
    const float *plane = in + (size_t)blockIdx.z * height * width;
    float most = plane[(size_t)y * width + x];
    for (int i = 0; i < WINDOW; i++)
        for (int j = 0; j < WINDOW; j++) {
            float v = plane[(size_t)(y + i) * width + x + j];
            if (v > most || v != v)
                most = v;
        }
    out[((size_t)blockIdx.z * out_height + y) * out_width + x] = most;
}

int main(int argc, char **argv)
{
    Run run("maxpool", argc, argv);
    int planes = run.small ? 3 : 64, height = run.small ? 20 : 511, width = run.small ? 43 : 517;
    int out_height = height - WINDOW + 1, out_width = width - WINDOW + 1;
    size_t count = (size_t)planes * height * width;
    unsigned seed = 43;
    float *in[2], *out = device_memory<float>((size_t)planes * out_height * out_width);
    std::vector<std::vector<float>> expected;
    for (float *&set : in) {
        std::vector<float> values = noises(count, seed), result;
        for (int p = 0; p < planes; p++)
            for (int y = 0; y < out_height; y++)
                for (int x = 0; x < out_width; x++) {
                    float most = -INFINITY;
                    for (int i = 0; i < WINDOW * WINDOW; i++)
                        most = std::max(most, values[((size_t)p * height + y + i / WINDOW) * width + x + i % WINDOW]);
                    result.push_back(most);
                }
        set = on_device(values);
        expected.push_back(result);
    }

    dim3 grid((out_width + 127) / 128, out_height, planes);
    return run.repeat(out, expected, 0,
                      [&](int set) { maxpool<<<grid, 128>>>(in[set], out, height, width); });
}
