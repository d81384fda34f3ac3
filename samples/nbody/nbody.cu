// Gravity: the acceleration of each body by all others, one body a thread.
//
// Floor on an H200: 20 operations a pair at 67 TFLOP/s, 1.3 ms for 65,536 bodies; the bodies themselves fit into the L2.
// The kernel is plain: every thread reads every body from memory, and takes a square root and a division for each.
#include "../sample.h"

__global__ void nbody(const float4 *body, float4 *acceleration, int n, float softening)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float4 me = body[i], sum = make_float4(0, 0, 0, 0);
    for (int j = 0; j < n; j++) {
        float4 other = body[j]; // x, y, z, mass
        float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
        float inverse = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + softening);
        float strength = other.w * inverse * inverse * inverse;
        sum.x += strength * dx;
        sum.y += strength * dy;
        sum.z += strength * dz;
    }
    acceleration[i] = sum;
}

__global__ void in_double(const float4 *body, float4 *acceleration, int n, float softening)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double x = 0, y = 0, z = 0;
    for (int j = 0; j < n; j++) {
        double dx = (double)body[j].x - body[i].x, dy = (double)body[j].y - body[i].y;
        double dz = (double)body[j].z - body[i].z, square = dx * dx + dy * dy + dz * dz + softening;
        double strength = body[j].w / (square * sqrt(square));
        x += strength * dx;
        y += strength * dy;
        z += strength * dz;
    }
    acceleration[i] = make_float4((float)x, (float)y, (float)z, 0);
}

int main(int argc, char **argv)
{
    Run run("nbody", argc, argv);
    int n = run.small ? 100 : 65500;
    unsigned seed = 53;
    float4 *body[2];
    float *acceleration = device_memory<float>(4 * n), softening = 0.01f;
    std::vector<std::vector<float>> expected;
    for (float4 *&set : body) {
        std::vector<float> values = noises(4 * (size_t)n, seed);
        for (size_t i = 3; i < values.size(); i += 4)
            values[i] = std::fabs(values[i]);
        set = (float4 *)on_device(values);
        in_double<<<(n + 127) / 128, 128>>>(set, (float4 *)acceleration, n, softening);
        expected.push_back(on_host(acceleration, 4 * (size_t)n));
    }

    return run.repeat(acceleration, expected, 1e-2f, [&](int set) {
        nbody<<<(n + 127) / 128, 128>>>(body[set], (float4 *)acceleration, n, softening);
    });
}
