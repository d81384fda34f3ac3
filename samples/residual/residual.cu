// x += delta in place, four elements a thread: a negative control that is vectorized already. Floor on an H200: 12 bytes an element
// at 4.3 TB/s measured copy bandwidth, 94 us for 2^25; "no gain" is the right answer.
#include "../sample.h"

__global__ void residual(float4 *x, const float4 *delta, int n4)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n4)
        return;
    float4 a = x[i], b = delta[i];
    x[i] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

int main(int argc, char **argv)
{
    Run run("residual", argc, argv);
    int n = run.small ? 12012 : (1 << 25) - 20;
    unsigned seed = 83;
    std::vector<float> before = noises(n, seed, 2), change = noises(n, seed), expected(n), result(n);
    for (int i = 0; i < n; i++)
        expected[i] = before[i] + change[i];
    float *first = on_device(before), *x = device_memory<float>(n), *delta = on_device(change);

    while (run.more()) {
        CUDA(cudaMemcpy(x, first, n * sizeof(float), cudaMemcpyDeviceToDevice));
        run.begin();
        residual<<<(n / 4 + 255) / 256, 256>>>((float4 *)x, (const float4 *)delta, n / 4);
        run.end();
        CUDA(cudaMemcpy(result.data(), x, n * sizeof(float), cudaMemcpyDeviceToHost));
        run.check(result.data(), expected.data(), n, 0);
    }
    return run.finish();
}
