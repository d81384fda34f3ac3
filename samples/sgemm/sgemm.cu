// C = alpha A B, row major, one element of C a thread, nothing shared between threads.
//
// Floor on an H200: 2 m n k operations at 67 TFLOP/s, 2 ms for 4096^3. The kernel is plain: neighbouring threads have
// neighbouring rows, so that each access of a warp touches 32 lines; `--kernel sgemm_coalesced` is its twin with the two
// indices exchanged. Sizes are no multiples of a tile. The reference is the same product in double, by a second kernel.
#include "../sample.h"

__global__ void sgemm(const float *a, const float *b, float *c, int m, int n, int k, float alpha)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int column = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n)
        return;
    float sum = 0;
    for (int i = 0; i < k; i++)
        sum += a[(size_t)row * k + i] * b[(size_t)i * n + column];
    c[(size_t)row * n + column] = alpha * sum;
}

__global__ void sgemm_coalesced(const float *a, const float *b, float *c, int m, int n, int k, float alpha)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n)
        return;
    float sum = 0;
    for (int i = 0; i < k; i++)
        sum += a[(size_t)row * k + i] * b[(size_t)i * n + column];
    c[(size_t)row * n + column] = alpha * sum;
}

__global__ void in_double(const float *a, const float *b, float *c, int m, int n, int k, float alpha)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y;
    if (column >= n)
        return;
    double sum = 0;
    for (int i = 0; i < k; i++)
        sum += (double)a[(size_t)row * k + i] * b[(size_t)i * n + column];
    c[(size_t)row * n + column] = (float)(alpha * sum);
}

int main(int argc, char **argv)
{
    Run run("sgemm", argc, argv, {"sgemm", "sgemm_coalesced"});
    bool coalesced = !std::strcmp(run.kernel, "sgemm_coalesced");
    int m = run.small ? 34 : 4093, n = run.small ? 38 : 4092, k = run.small ? 21 : 4092;
    unsigned seed = 3;
    float alpha = 0.75f, *a[2], *b = on_device(noises((size_t)k * n, seed));
    float *c = device_memory<float>((size_t)m * n);

    std::vector<std::vector<float>> expected;
    for (float *&set : a) {
        set = on_device(noises((size_t)m * k, seed));
        in_double<<<dim3((n + 127) / 128, m), 128>>>(set, b, c, m, n, k, alpha);
        expected.push_back(on_host(c, (size_t)m * n));
    }

    dim3 block(16, 16), by_row((m + 15) / 16, (n + 15) / 16), by_column((n + 15) / 16, (m + 15) / 16);
    return run.repeat(c, expected, 1e-3f, [&](int set) {
        if (coalesced)
            sgemm_coalesced<<<by_column, block>>>(a[set], b, c, m, n, k, alpha);
        else
            sgemm<<<by_row, block>>>(a[set], b, c, m, n, k, alpha);
    });
}
