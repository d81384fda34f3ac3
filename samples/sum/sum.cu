// Sum of a long vector: one partial sum a block, in a tree over shared memory; the few partial sums are the result.
//
// Floor on an H200: 4 bytes an element at 4.3 TB/s measured copy bandwidth, 31 us for 2^25 elements. The kernel is plain:
// one element a thread, and the tree is interleaved, so that every warp stays half awake to its end.
#include "../sample.h"

enum { THREADS = 256 };

__global__ void sum(const float *in, float *partial, int n)
{
    __shared__ float part[THREADS];
    int t = threadIdx.x, i = blockIdx.x * THREADS + t;
    part[t] = i < n ? in[i] : 0;
    for (int stride = 1; stride < THREADS; stride *= 2) {
        __syncthreads();
        if (t % (2 * stride) == 0)
            part[t] += part[t + stride];
    }
    if (t == 0)
        partial[blockIdx.x] = part[0];
}

int main(int argc, char **argv)
{
    Run run("sum", argc, argv);
    int n = run.small ? 5000 : (1 << 25) - 77, blocks = (n + THREADS - 1) / THREADS;
    unsigned seed = 23;
    float *in[2], *partial = device_memory<float>(blocks);
    std::vector<std::vector<float>> expected;
    for (float *&set : in) {
        std::vector<float> values = noises(n, seed), sums(blocks);
        for (int b = 0; b < blocks; b++) {
            double exact = 0;
            for (int i = b * THREADS; i < std::min(n, (b + 1) * THREADS); i++)
                exact += values[i];
            sums[b] = (float)exact;
        }
        set = on_device(values);
        expected.push_back(sums);
    }

    return run.repeat(partial, expected, 1e-4f,
                      [&](int set) { sum<<<blocks, THREADS>>>(in[set], partial, n); });
}
