// One step of AdamW: weights and two moments in place, one element a thread: a negative control. Floor on an H200: 28 bytes an
// element at 4.3 TB/s measured copy bandwidth, 109 us for 2^24; the plain kernel is there already, and "no gain" is the right answer.
#include "../sample.h"

__global__ void adamw(float *weight, float *mean, float *square, const float *gradient, int n, float rate, float beta1,
                      float beta2, float correction1, float correction2, float epsilon, float decay)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float g = gradient[i], w = weight[i];
    float m = mean[i] = beta1 * mean[i] + (1 - beta1) * g;
    float s = square[i] = beta2 * square[i] + (1 - beta2) * g * g;
    weight[i] = w - rate * (m / correction1 / (sqrtf(s / correction2) + epsilon) + decay * w);
}

int main(int argc, char **argv)
{
    Run run("adamw", argc, argv);
    int n = run.small ? 5003 : (1 << 24) - 3;
    size_t bytes = n * sizeof(float);
    unsigned seed = 89;
    const float rate = 1e-3f, beta1 = 0.9f, beta2 = 0.95f, c1 = 0.271f, c2 = 0.142625f, epsilon = 1e-8f, decay = 0.1f;
    std::vector<float> values[4], expected[3], result(n);
    for (std::vector<float> &v : values)
        v = noises(n, seed);
    for (float &s : values[2])
        s = s * s;
    for (int k = 0; k < 3; k++)
        expected[k].resize(n);
    for (int i = 0; i < n; i++) {
        double w = values[0][i], g = values[3][i];
        double m = beta1 * (double)values[1][i] + (1 - (double)beta1) * g;
        double s = beta2 * (double)values[2][i] + (1 - (double)beta2) * g * g;
        expected[0][i] = (float)(w - rate * (m / c1 / (std::sqrt(s / c2) + epsilon) + decay * w));
        expected[1][i] = (float)m;
        expected[2][i] = (float)s;
    }
    float *first[3], *now[3], *gradient = on_device(values[3]);
    for (int k = 0; k < 3; k++) {
        first[k] = on_device(values[k]);
        now[k] = device_memory<float>(n);
    }

    while (run.more()) {
        int k = run.done % 3; // one of the three results each time
        for (int j = 0; j < 3; j++)
            CUDA(cudaMemcpy(now[j], first[j], bytes, cudaMemcpyDeviceToDevice));
        run.begin();
        adamw<<<(n + 255) / 256, 256>>>(now[0], now[1], now[2], gradient, n, rate, beta1, beta2, c1, c2, epsilon, decay);
        run.end();
        CUDA(cudaMemcpy(result.data(), now[k], bytes, cudaMemcpyDeviceToHost));
        run.check(result.data(), expected[k].data(), n, 1e-5f);
    }
    return run.finish();
}
