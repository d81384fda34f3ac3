// Warp collectives, and barriers with reductions.
// flags: -arch=compute_80
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#define GLOBAL extern "C" __global__ void

GLOBAL shuffles(int *out, const int *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
    int sum = __shfl_sync(~0u, v, 3) + __shfl_up_sync(~0u, v, 2) * 3;
    sum += __shfl_down_sync(~0u, v, 5) * 7 + __shfl_xor_sync(~0u, v, 9, 16) * 11;
    out[i] = sum;
}

GLOBAL votes(unsigned *out, const int *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool odd = in[i] & 1;
    unsigned sum = __ballot_sync(~0u, odd) + __all_sync(~0u, odd) + 2 * __any_sync(~0u, odd);
    out[i] = sum + __match_any_sync(~0u, in[i] & 3) + __popc(__activemask());
}

GLOBAL reductions(int *out, const int *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = __reduce_add_sync(~0u, in[i]) ^ __reduce_max_sync(~0u, in[i] >> 3);
    out[i] += (int)__reduce_xor_sync(~0u, (unsigned)in[i]);
}

// float sum over a block by shuffles: a fixed order
GLOBAL block_sum(float *out, const float *in, int n)
{
    __shared__ float warps[32];
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        sum += in[i];
    for (int d = 16; d; d /= 2)
        sum += __shfl_down_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0;
        for (int d = 16; d; d /= 2)
            sum += __shfl_down_sync(~0u, sum, d);
        if (threadIdx.x == 0)
            out[blockIdx.x] = sum;
    }
}

// assumes that a warp runs in step: __syncwarp between
GLOBAL in_step(int *out, const int *in)
{
    __shared__ int line[256];
    int t = threadIdx.x;
    line[t] = in[blockIdx.x * 256 + t];
    __syncwarp();
    int v = line[t ^ 1];
    __syncwarp();
    line[t] = v * 2;
    __syncwarp();
    out[blockIdx.x * 256 + t] = line[t ^ 2];
}

// diverged lanes with a mask of their own
GLOBAL diverged(int *out, const int *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    if (lane < 12)
        out[i] = __shfl_sync(0xfff, in[i], 11 - lane);
    else if (lane & 1)
        out[i] = __ballot_sync(0xaaaaa000, in[i] > 0);
    else
        out[i] = -1;
}

GLOBAL barrier_reductions(int *out, const int *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int count = __syncthreads_count(in[i] > 0);
    out[i] = count + 1000 * __syncthreads_or(in[i] & 64) + 10000 * __syncthreads_and(in[i] != 0);
}

GLOBAL groups(int *out, const int *in)
{
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    int i = block.group_index().x * block.size() + block.thread_rank(), sum = in[i];
    for (int d = 4; d; d /= 2)
        sum += tile.shfl_xor(sum, d);
    block.sync();
    out[i] = sum + tile.meta_group_rank();
}

// positions of the kept elements within a warp, by lane masks
GLOBAL compact(int *out, int *counts, const int *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, below;
    unsigned kept = __ballot_sync(~0u, in[i] > 0);
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    if (in[i] > 0)
        out[(i & ~31) + __popc(kept & below)] = in[i];
    if ((i & 31) == 0)
        counts[i / 32] = __popc(kept);
}

// warps of a block meet at named barriers: two producers, two consumers
GLOBAL named_barriers(int *out, const int *in)
{
    __shared__ int line[64];
    int t = threadIdx.x;
    if (t < 64) {
        line[t] = in[blockIdx.x * 64 + t];
        asm volatile("bar.arrive 1, 128;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 128;" ::: "memory");
        out[blockIdx.x * 64 + t - 64] = line[127 - t] + 1;
    }
}

// ordinary loop reduction with a barrier in it
GLOBAL tree(int *out, const int *in)
{
    __shared__ int line[256];
    int t = threadIdx.x;
    line[t] = in[blockIdx.x * 256 + t];
    for (int half = 128; half; half /= 2) {
        __syncthreads();
        if (t < half)
            line[t] += line[t + half];
    }
    if (t == 0)
        out[blockIdx.x] = line[0];
}
