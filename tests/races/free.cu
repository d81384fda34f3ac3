/* Kernels without a race, each in one of the patterns that people use. All have the same parameters,
 * so that one program launches them: a is input (a permutation of small numbers, see main.c), b and c
 * are zero at first. Launches: races.def. */
#include <cooperative_groups.h>
#include <cuda_pipeline.h>

#define KERNEL extern "C" __global__ void
#define SELF (blockIdx.x * blockDim.x + threadIdx.x)

KERNEL free_add(int *a, int *b, int *c, int n)
{
    unsigned i = SELF;
    if (i < n)
        c[i] = a[i] + 3 * b[i];
}

KERNEL free_tree(int *a, int *b, int *c, int n)
{
    __shared__ int s[256];
    unsigned t = threadIdx.x;
    s[t] = a[SELF];
    __syncthreads();
    for (unsigned d = 128; d; d /= 2) {
        if (t < d)
            s[t] += s[t + d];
        __syncthreads();
    }
    if (!t)
        c[blockIdx.x] = s[0];
}

KERNEL free_tree_warp_tail(int *a, int *b, int *c, int n)
{
    __shared__ int s[256];
    unsigned t = threadIdx.x;
    s[t] = a[SELF];
    __syncthreads();
    for (unsigned d = 128; d > 32; d /= 2) {
        if (t < d)
            s[t] += s[t + d];
        __syncthreads();
    }
    if (t < 32) {
        int v = s[t] + s[t + 32];
        for (unsigned d = 16; d; d /= 2) {
            __syncwarp();
            s[t] = v;
            __syncwarp();
            if (t < d)
                v += s[t + d];
        }
        if (!t)
            c[blockIdx.x] = v;
    }
}

KERNEL free_shuffle(int *a, int *b, int *c, int n)
{
    int v = a[SELF];
    for (unsigned d = 16; d; d /= 2)
        v += __shfl_down_sync(~0u, v, d);
    if (threadIdx.x % 32 == 0)
        c[SELF / 32] = v;
}

KERNEL free_counter(int *a, int *b, int *c, int n)
{
    c[SELF] = a[SELF] & 1;
    if (a[SELF] & 1)
        atomicAdd(&b[0], a[SELF]);
}

KERNEL free_last_block(int *a, int *b, int *c, int n)
{
    __shared__ int s[128];
    __shared__ bool last;
    unsigned t = threadIdx.x;
    s[t] = a[SELF];
    for (unsigned d = 64; d; d /= 2) {
        __syncthreads();
        if (t < d)
            s[t] += s[t + d];
    }
    if (!t) {
        b[1 + blockIdx.x] = s[0];
        __threadfence();
        last = atomicAdd(&b[0], 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && !t) {
        int sum = 0;
        for (unsigned i = 0; i < gridDim.x; i++)
            sum += b[1 + i];
        c[0] = sum;
    }
}

KERNEL free_last_block_all_fence(int *a, int *b, int *c, int n)
{
    __shared__ bool last;
    unsigned t = threadIdx.x;
    b[64 + SELF] = 2 * a[SELF];
    __threadfence();
    __syncthreads();
    if (!t)
        last = atomicInc((unsigned *)&b[0], gridDim.x) == gridDim.x - 1;
    __syncthreads();
    if (last)
        for (unsigned i = t; i < gridDim.x * blockDim.x; i += blockDim.x)
            c[i] = b[64 + i] + 1;
}

KERNEL free_double_buffer(int *a, int *b, int *c, int n)
{
    __shared__ int s[2][64];
    unsigned t = threadIdx.x, base = blockIdx.x * 1024;
    int sum = 0;
    s[0][t] = a[base + t];
    for (int k = 0; k < 16; k++) {
        __syncthreads();
        if (k < 15)
            s[(k + 1) & 1][t] = a[base + 64 * (k + 1) + t];
        sum += s[k & 1][63 - t] * (k + 1);
    }
    c[SELF] = sum;
}

KERNEL free_transpose(int *a, int *b, int *c, int n)
{
    __shared__ int s[16][17];
    unsigned x = threadIdx.x, y = threadIdx.y, bx = blockIdx.x * 16, by = blockIdx.y * 16;
    s[y][x] = a[(by + y) * 64 + bx + x];
    __syncthreads();
    c[(bx + y) * 64 + by + x] = s[x][y];
}

KERNEL free_multiply(int *a, int *b, int *c, int n)
{
    __shared__ int s[16][16], r[16][16];
    unsigned x = threadIdx.x, y = threadIdx.y, col = blockIdx.x * 16 + x, row = blockIdx.y * 16 + y;
    int sum = 0;
    for (unsigned k = 0; k < 64; k += 16) {
        s[y][x] = a[row * 64 + k + x];
        r[y][x] = a[(k + y) * 64 + col];
        __syncthreads();
        for (unsigned i = 0; i < 16; i++)
            sum += s[y][i] * r[i][x];
        __syncthreads();
    }
    c[row * 64 + col] = sum;
}

KERNEL free_histogram(int *a, int *b, int *c, int n)
{
    __shared__ int bins[64];
    unsigned t = threadIdx.x;
    if (t < 64)
        bins[t] = 0;
    __syncthreads();
    atomicAdd(&bins[a[SELF] & 63], 1);
    __syncthreads();
    if (t < 64)
        atomicAdd(&b[t], bins[t]);
}

KERNEL free_byte_bins(int *a, int *b, int *c, int n)
{
    __shared__ unsigned char bins[16][64];
    unsigned t = threadIdx.x;
    for (unsigned i = 0; i < 16; i++)
        bins[i][t] = 0;
    for (unsigned i = 0; i < 16; i++)
        bins[a[SELF * 16 + i] & 15][t]++;
    __syncthreads();
    if (t < 16) {
        int sum = 0;
        for (unsigned i = 0; i < 64; i++)
            sum += bins[t][i];
        c[blockIdx.x * 16 + t] = sum;
    }
}

KERNEL free_byte_neighbours(int *a, int *b, int *c, int n)
{
    unsigned char *to = (unsigned char *)c;
    to[SELF] = (unsigned char)a[SELF];
}

KERNEL free_byte_update(int *a, int *b, int *c, int n)
{
    unsigned char *bytes = (unsigned char *)a;
    bytes[SELF] = (unsigned char)(bytes[SELF] * 3 + 1);
}

KERNEL free_short_shared(int *a, int *b, int *c, int n)
{
    __shared__ unsigned short s[128];
    unsigned t = threadIdx.x;
    s[t] = (unsigned short)a[SELF];
    s[t] = (unsigned short)(s[t] + 1);
    __syncthreads();
    ((unsigned short *)c)[SELF] = s[127 - t];
}

KERNEL free_scan(int *a, int *b, int *c, int n)
{
    __shared__ int s[256];
    unsigned t = threadIdx.x;
    s[t] = a[SELF];
    __syncthreads();
    for (unsigned d = 1; d < 256; d *= 2) {
        int v = t >= d ? s[t - d] : 0;
        __syncthreads();
        s[t] += v;
        __syncthreads();
    }
    c[SELF] = s[t];
}

KERNEL free_scan_warps(int *a, int *b, int *c, int n)
{
    __shared__ int sums[8];
    unsigned t = threadIdx.x, lane = t % 32, warp = t / 32;
    int v = a[SELF];
    for (unsigned d = 1; d < 32; d *= 2) {
        int other = __shfl_up_sync(~0u, v, d);
        if (lane >= d)
            v += other;
    }
    if (lane == 31)
        sums[warp] = v;
    __syncthreads();
    if (!warp && lane < 8) {
        int s = sums[lane];
        for (unsigned d = 1; d < 8; d *= 2) {
            int other = __shfl_up_sync(0xff, s, d);
            if (lane >= d)
                s += other;
        }
        sums[lane] = s;
    }
    __syncthreads();
    c[SELF] = v + (warp ? sums[warp - 1] : 0);
}

/* All who write, write the same: no race is reported (see races.def). */
KERNEL free_same_value(int *a, int *b, int *c, int n)
{
    if (a[SELF] & 4)
        b[0] = 1;
    c[SELF] = a[SELF];
}

KERNEL free_stencil(int *a, int *b, int *c, int n)
{
    unsigned i = SELF;
    if (i && i + 1 < n)
        c[i] = a[i - 1] + 2 * a[i] + a[i + 1];
}

KERNEL free_bitonic(int *a, int *b, int *c, int n)
{
    __shared__ int s[128];
    unsigned t = threadIdx.x;
    s[t] = a[SELF];
    for (unsigned k = 2; k <= 128; k *= 2)
        for (unsigned j = k / 2; j; j /= 2) {
            __syncthreads();
            unsigned u = t ^ j;
            if (u > t && (s[t] > s[u]) == !(t & k)) {
                int v = s[t];
                s[t] = s[u];
                s[u] = v;
            }
        }
    __syncthreads();
    c[SELF] = s[t];
}

KERNEL free_lock(int *a, int *b, int *c, int n)
{
    if (threadIdx.x)
        return;
    while (atomicCAS(&b[0], 0, 1))
        continue;
    __threadfence();
    c[0] += a[blockIdx.x];
    c[1]++;
    __threadfence();
    atomicExch(&b[0], 0);
}

/* Many critical sections a block; each has a word of its own, and reads another's. */
KERNEL free_lock_warps(int *a, int *b, int *c, int n)
{
    unsigned warps = gridDim.x * blockDim.x / 32, me = SELF / 32;
    if (threadIdx.x % 32)
        return;
    for (int k = 0; k < 6; k++) {
        while (atomicCAS(&b[0], 0, 1))
            __nanosleep(20);
        __threadfence();
        if (!k)
            c[8 + me] = a[me] + 1;
        c[2 + c[8 + (me + 1) % warps] / 1000]++;
        c[1] += 3;
        __threadfence();
        atomicExch(&b[0], 0);
    }
    c[100 + me] = 1;
}

KERNEL free_hand_over(int *a, int *b, int *c, int n)
{
    unsigned t = threadIdx.x;
    if (!blockIdx.x) {
        b[64 + t] = a[t] * 5;
        __threadfence();
        __syncthreads();
        if (!t)
            atomicExch(&b[0], 1);
        return;
    }
    if (!t) {
        while (!atomicAdd(&b[0], 0))
            continue;
        __threadfence();
    }
    __syncthreads();
    c[SELF] = b[64 + (t ^ 1)];
}

KERNEL free_warp_tile(int *a, int *b, int *c, int n)
{
    __shared__ int s[4][32];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int sum = 0;
    for (int k = 0; k < 100; k++) {
        s[warp][lane] = a[(SELF + 7 * k) % n];
        __syncwarp();
        sum += s[warp][31 - lane];
        __syncwarp();
    }
    c[SELF] = sum;
}

KERNEL free_half_warps(int *a, int *b, int *c, int n)
{
    __shared__ int s[64];
    unsigned t = threadIdx.x, mask = t & 16 ? 0xffff0000u : 0xffffu;
    int sum = 0;
    for (unsigned k = 0; k < (t & 16 ? 3u : 5u); k++) {
        s[t] = a[SELF] + k;
        __syncwarp(mask);
        sum += s[t ^ 5];
        __syncwarp(mask);
    }
    __syncwarp();
    c[SELF] = sum + s[t ^ 16];
}

KERNEL free_sync_or(int *a, int *b, int *c, int n)
{
    __shared__ int s[64];
    unsigned t = threadIdx.x;
    int rounds = 0, v = a[SELF] & 255;
    do {
        s[t] = v;
        __syncthreads();
        v = s[(t + 1) % 64] / 2;
        rounds++;
    } while (__syncthreads_or(v != 0));
    c[SELF] = rounds;
}

KERNEL free_local_array(int *a, int *b, int *c, int n)
{
    int own[32];
    for (int i = 0; i < 32; i++)
        own[i] = a[(SELF + i) % n];
    int at = a[SELF] & 31;
    for (int i = 0; i < 8; i++) {
        own[at] += i;
        at = own[at] & 31;
    }
    c[SELF] = own[at];
}

KERNEL free_vectors(int *a, int *b, int *c, int n)
{
    int4 v = ((int4 *)a)[SELF];
    int2 w = ((int2 *)a)[2 * SELF + 1];
    ((int4 *)c)[SELF] = make_int4(v.w, v.z, v.y + w.x, v.x + w.y);
    c[4 * SELF + 1] += 1;
}

KERNEL free_wide_atomics(int *a, int *b, int *c, int n)
{
    unsigned long long *wide = (unsigned long long *)b;
    atomicMax(&wide[1], (unsigned long long)a[SELF] << 20);
    atomicAdd(&wide[0], (unsigned long long)a[SELF]);
    atomicOr(&c[SELF & 7], 1 << (a[SELF] & 15));
}

KERNEL free_pipeline(int *a, int *b, int *c, int n)
{
    __shared__ __align__(16) int s[2][256];
    unsigned t = threadIdx.x, base = blockIdx.x * 1024;
    int sum = 0;
    __pipeline_memcpy_async(&s[0][4 * t], &a[base + 4 * t], 16);
    __pipeline_commit();
    for (int k = 0; k < 4; k++) {
        if (k < 3)
            __pipeline_memcpy_async(&s[(k + 1) & 1][4 * t], &a[base + 256 * (k + 1) + 4 * t], 16);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        for (unsigned i = 0; i < 4; i++)
            sum += s[k & 1][(4 * t + 64 * i + 3) % 256] * (k + 1);
        __syncthreads();
    }
    c[SELF] = sum;
}

KERNEL free_grid_barrier(int *a, int *b, int *c, int n)
{
    for (int phase = 1; phase <= 3; phase++) {
        int *from = phase & 1 ? a : c, *to = phase & 1 ? c : a;
        to[SELF] = from[(SELF + blockDim.x) % (gridDim.x * blockDim.x)] + phase;
        __syncthreads();
        if (!threadIdx.x) {
            __threadfence();
            atomicAdd(&b[0], 1);
            while (*(volatile int *)&b[0] < (int)gridDim.x * phase)
                __nanosleep(20);
            __threadfence();
        }
        __syncthreads();
    }
}

KERNEL free_release(int *a, int *b, int *c, int n)
{
    if (threadIdx.x)
        return;
    if (blockIdx.x) {
        int ready;
        do
            asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(ready) : "l"(b) : "memory");
        while (!ready);
        c[blockIdx.x] = b[1] + a[blockIdx.x];
    } else {
        b[1] = a[0] + 9;
        asm volatile("st.release.gpu.global.s32 [%0], %1;" : : "l"(b), "r"(1) : "memory");
    }
}

KERNEL free_early_exit(int *a, int *b, int *c, int n)
{
    __shared__ int s[128];
    unsigned t = threadIdx.x;
    if (t >= 100)
        return;
    s[t] = a[SELF];
    __syncthreads();
    c[SELF] = s[(t + 17) % 100];
}

KERNEL free_reuse(int *a, int *b, int *c, int n)
{
    extern __shared__ int s[];
    unsigned t = threadIdx.x;
    for (int k = 0; k < 4; k++) {
        s[t] = a[(SELF + k) % n] + k;
        __syncthreads();
        int v = s[127 - t];
        __syncthreads();
        s[t] = v;
        __syncthreads();
        c[SELF] += s[(t + 1) % 128];
        __syncthreads();
    }
}

/* Each block waits for the one before it: value, fence, flag. */
KERNEL free_look_back(int *a, int *b, int *c, int n)
{
    volatile int *flags = b;
    int *sums = b + 64;
    __shared__ int before;
    unsigned t = threadIdx.x;
    int v = a[SELF];
    for (unsigned d = 1; d < 32; d *= 2) {
        int other = __shfl_up_sync(~0u, v, d);
        if (t >= d)
            v += other;
    }
    if (t == 31) {
        int sum = 0;
        if (blockIdx.x) {
            while (!flags[blockIdx.x - 1])
                __nanosleep(20);
            __threadfence();
            sum = sums[blockIdx.x - 1];
        }
        sums[blockIdx.x] = sum + v;
        __threadfence();
        flags[blockIdx.x] = 1;
        before = sum;
    }
    __syncthreads();
    c[SELF] = v + before;
}

/* The same with value and flag in one word. */
KERNEL free_look_back_packed(int *a, int *b, int *c, int n)
{
    volatile unsigned long long *states = (volatile unsigned long long *)b;
    unsigned t = threadIdx.x;
    int v = __reduce_add_sync(~0u, a[SELF]), sum = 0;
    if (!t) {
        unsigned long long state = 1ull << 32;
        while (blockIdx.x && !((state = states[blockIdx.x - 1]) >> 32))
            __nanosleep(20);
        sum = (int)state;
        states[blockIdx.x] = 1ull << 32 | (unsigned)(sum + v);
    }
    sum = __shfl_sync(~0u, sum, 0);
    c[SELF] = sum + (int)t;
}

/* One atomic for all lanes that are there. */
KERNEL free_aggregated(int *a, int *b, int *c, int n)
{
    namespace cg = cooperative_groups;
    if (a[SELF] % 3 == 0) {
        cg::coalesced_group group = cg::coalesced_threads();
        if (!group.thread_rank())
            atomicAdd(&b[0], (int)group.size());
        c[SELF] = group.any(a[SELF] >= 0);
    }
}

KERNEL free_tiles(int *a, int *b, int *c, int n)
{
    namespace cg = cooperative_groups;
    __shared__ int s[128];
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(cg::this_thread_block());
    unsigned t = threadIdx.x, first = t & ~7u, lane = t & 7;
    int sum = 0;
    for (unsigned k = 0; k < 12; k++) {
        s[t] = a[SELF] * (int)(k + 1);
        tile.sync();
        sum += s[first + ((lane + k) & 7)] + tile.shfl_xor(sum, 1);
        tile.sync();
    }
    c[SELF] = sum;
}
