/* Kernels with a race each, seeded into the patterns of free.cu. Parameters and launches as there. */
#include <cuda_pipeline.h>

#define KERNEL extern "C" __global__ void
#define SELF (blockIdx.x * blockDim.x + threadIdx.x)

/* shared, missing barriers */

KERNEL race_tree_no_barrier(int *a, int *b, int *c, int n)
{
    __shared__ int s[256];
    unsigned t = threadIdx.x;
    s[t] = a[SELF];
    __syncthreads();
    for (unsigned d = 128; d; d /= 2)
        if (t < d)
            s[t] += s[t + d];
    if (!t)
        c[blockIdx.x] = s[0];
}

KERNEL race_tree_first_barrier(int *a, int *b, int *c, int n)
{
    __shared__ int s[256];
    unsigned t = threadIdx.x;
    s[t] = a[SELF];
    for (unsigned d = 128; d; d /= 2) {
        if (t < d)
            s[t] += s[t + d];
        __syncthreads();
    }
    if (!t)
        c[blockIdx.x] = s[0];
}

KERNEL race_single_buffer(int *a, int *b, int *c, int n) /* WAR */
{
    __shared__ int s[64];
    unsigned t = threadIdx.x, base = blockIdx.x * 1024;
    int sum = 0;
    for (int k = 0; k < 16; k++) {
        s[t] = a[base + 64 * k + t];
        __syncthreads();
        sum += s[63 - t] * (k + 1);
    }
    c[SELF] = sum;
}

KERNEL race_transpose(int *a, int *b, int *c, int n)
{
    __shared__ int s[16][17];
    unsigned x = threadIdx.x, y = threadIdx.y, bx = blockIdx.x * 16, by = blockIdx.y * 16;
    s[y][x] = a[(by + y) * 64 + bx + x];
    c[(bx + y) * 64 + by + x] = s[x][y];
}

KERNEL race_multiply(int *a, int *b, int *c, int n) /* WAR: second barrier */
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
    }
    c[row * 64 + col] = sum;
}

KERNEL race_histogram_clear(int *a, int *b, int *c, int n) /* plain store beside atomics */
{
    __shared__ int bins[64];
    unsigned t = threadIdx.x;
    if (t < 64)
        bins[t] = 0;
    atomicAdd(&bins[a[SELF] & 63], 1);
    __syncthreads();
    if (t < 64)
        atomicAdd(&b[t], bins[t]);
}

KERNEL race_histogram_plain(int *a, int *b, int *c, int n)
{
    __shared__ int bins[64];
    unsigned t = threadIdx.x;
    if (t < 64)
        bins[t] = 0;
    __syncthreads();
    bins[a[SELF] & 63]++;
    __syncthreads();
    if (t < 64)
        atomicAdd(&b[t], bins[t]);
}

KERNEL race_scan(int *a, int *b, int *c, int n)
{
    __shared__ int s[256];
    unsigned t = threadIdx.x;
    s[t] = a[SELF];
    __syncthreads();
    for (unsigned d = 1; d < 256; d *= 2) {
        int v = t >= d ? s[t - d] : 0;
        s[t] += v;
        __syncthreads();
    }
    c[SELF] = s[t];
}

KERNEL race_bitonic(int *a, int *b, int *c, int n) /* one stage without its barrier */
{
    __shared__ int s[128];
    unsigned t = threadIdx.x;
    s[t] = a[SELF];
    for (unsigned k = 2; k <= 128; k *= 2)
        for (unsigned j = k / 2; j; j /= 2) {
            if (k != 64 || j != 8)
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

KERNEL race_pipeline(int *a, int *b, int *c, int n) /* waits for its own copies only */
{
    __shared__ __align__(16) int s[256];
    unsigned t = threadIdx.x;
    __pipeline_memcpy_async(&s[4 * t], &a[blockIdx.x * 256 + 4 * t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    c[SELF] = s[(4 * t + 7) % 256];
}

KERNEL race_dynamic_shared(int *a, int *b, int *c, int n)
{
    extern __shared__ int s[];
    unsigned t = threadIdx.x;
    s[t] = a[SELF];
    __syncthreads();
    int v = s[127 - t];
    s[t] = v + 1;
    __syncthreads();
    c[SELF] = s[t];
}

/* wrong assumptions about warps */

KERNEL race_warp_tail(int *a, int *b, int *c, int n)
{
    __shared__ int s[64];
    unsigned t = threadIdx.x;
    s[t] = a[SELF];
    __syncthreads();
    if (t < 32) {
        s[t] += s[t + 32];
        s[t] += s[t ^ 16];
        s[t] += s[t ^ 8];
        if (!t)
            c[blockIdx.x] = s[0];
    }
}

KERNEL race_warp_tail_volatile(int *a, int *b, int *c, int n)
{
    __shared__ volatile int s[64];
    unsigned t = threadIdx.x;
    s[t] = a[SELF];
    __syncthreads();
    if (t < 32) {
        s[t] += s[t + 32];
        s[t] += s[t + 16];
        s[t] += s[t + 8];
        s[t] += s[t + 4];
        s[t] += s[t + 2];
        s[t] += s[t + 1];
        if (!t)
            c[blockIdx.x] = s[0];
    }
}

KERNEL race_shuffle_is_no_fence(int *a, int *b, int *c, int n)
{
    __shared__ int s[32];
    unsigned t = threadIdx.x;
    int v = a[SELF];
    s[t] = v;
    v = __shfl_xor_sync(~0u, v, 1);
    c[SELF] = v + s[t ^ 2];
}

KERNEL race_half_warps(int *a, int *b, int *c, int n) /* each half waits for itself alone */
{
    __shared__ int s[32];
    unsigned t = threadIdx.x;
    s[t] = a[SELF];
    __syncwarp(t & 16 ? 0xffff0000u : 0xffffu);
    c[SELF] = s[t ^ 16];
}

KERNEL race_two_warps(int *a, int *b, int *c, int n) /* a warp's barrier for two warps' data */
{
    __shared__ int s[64];
    unsigned t = threadIdx.x;
    s[t] = a[SELF];
    __syncwarp();
    c[SELF] = s[t ^ 32];
}

/* between blocks */

KERNEL race_counter(int *a, int *b, int *c, int n)
{
    if (!threadIdx.x)
        b[0] += a[SELF];
}

KERNEL race_overlap(int *a, int *b, int *c, int n) /* a block writes one element of the next */
{
    unsigned t = threadIdx.x;
    c[SELF] = a[SELF] + 1;
    if (t == blockDim.x - 1)
        c[SELF + 1] = -5;
}

KERNEL race_in_place(int *a, int *b, int *c, int n)
{
    unsigned i = SELF;
    if (i + 1 < n)
        a[i] = a[i] + a[i + 1];
}

KERNEL race_in_place_apart(int *a, int *b, int *c, int n) /* between blocks only */
{
    __shared__ int s[64];
    s[threadIdx.x] = a[SELF];
    int right = threadIdx.x == 63 ? a[(SELF + 1) % n] : 0;
    __syncthreads();
    a[SELF] = s[(threadIdx.x + 1) % 64] + right;
}

KERNEL race_last_block_no_fence(int *a, int *b, int *c, int n)
{
    __shared__ bool last;
    unsigned t = threadIdx.x;
    if (!t) {
        b[1 + blockIdx.x] = a[SELF];
        last = atomicAdd(&b[0], 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && !t)
        for (unsigned i = 0; i < gridDim.x; i++)
            c[0] += b[1 + i];
}

KERNEL race_last_block_no_barrier(int *a, int *b, int *c, int n) /* one fences for all */
{
    __shared__ bool last;
    unsigned t = threadIdx.x;
    b[64 + SELF] = 2 * a[SELF];
    if (!t) {
        __threadfence();
        last = atomicAdd(&b[0], 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last)
        for (unsigned i = t; i < gridDim.x * blockDim.x; i += blockDim.x)
            c[i] = b[64 + i] + 1;
}

KERNEL race_last_block_early_fence(int *a, int *b, int *c, int n)
{
    __shared__ bool last;
    unsigned t = threadIdx.x;
    if (!t) {
        __threadfence();
        b[1 + blockIdx.x] = a[SELF] + 1;
        last = atomicAdd(&b[0], 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && !t)
        for (unsigned i = 0; i < gridDim.x; i++)
            c[0] += b[1 + i];
}

KERNEL race_lock_skipped(int *a, int *b, int *c, int n) /* one block in eight takes no lock */
{
    if (threadIdx.x)
        return;
    bool take = blockIdx.x % 8 != 5;
    while (take && atomicCAS(&b[0], 0, 1))
        continue;
    __threadfence();
    c[0] += a[blockIdx.x];
    __threadfence();
    if (take)
        atomicExch(&b[0], 0);
}

KERNEL race_barrier_after_many(int *a, int *b, int *c, int n) /* of nine phases, one lacks it */
{
    __shared__ int s[64];
    unsigned t = threadIdx.x;
    for (int phase = 1; phase <= 9; phase++) {
        s[t] = a[SELF] + phase;
        if (phase != 9)
            __syncthreads();
        c[SELF] += s[63 - t];
        __syncthreads();
        if (!t) {
            __threadfence();
            atomicAdd(&b[0], 1);
            while (*(volatile int *)&b[0] < (int)gridDim.x * phase)
                __nanosleep(20);
            __threadfence();
        }
        __syncthreads();
    }
}

KERNEL race_flag_no_fence(int *a, int *b, int *c, int n)
{
    if (threadIdx.x)
        return;
    if (!blockIdx.x) {
        b[1] = a[0] + 77;
        *(volatile int *)&b[0] = 1;
        return;
    }
    while (!*(volatile int *)&b[0])
        continue;
    c[blockIdx.x] = b[1];
}

KERNEL race_grid_barrier(int *a, int *b, int *c, int n) /* of the grid, without fences */
{
    for (int phase = 1; phase <= 3; phase++) {
        int *from = phase & 1 ? a : c, *to = phase & 1 ? c : a;
        to[SELF] = from[(SELF + blockDim.x) % (gridDim.x * blockDim.x)] + phase;
        __syncthreads();
        if (!threadIdx.x) {
            atomicAdd(&b[0], 1);
            while (*(volatile int *)&b[0] < (int)gridDim.x * phase)
                __nanosleep(20);
        }
        __syncthreads();
    }
}

KERNEL race_plain_reset(int *a, int *b, int *c, int n) /* a plain store beside atomics */
{
    if (!SELF)
        b[0] = 100;
    atomicAdd(&b[0], a[SELF]);
}

KERNEL race_look_back_no_fence(int *a, int *b, int *c, int n)
{
    volatile int *flags = b;
    int *sums = b + 64, sum = 0;
    if (threadIdx.x)
        return;
    if (blockIdx.x) {
        while (!flags[blockIdx.x - 1])
            __nanosleep(20);
        __threadfence();
        sum = sums[blockIdx.x - 1];
    }
    sums[blockIdx.x] = sum + a[SELF]; /* no fence that would publish it */
    flags[blockIdx.x] = 1;
    c[blockIdx.x] = sum;
}

/* rare ones */

KERNEL race_rare_global(int *a, int *b, int *c, int n) /* 1 thread in 1,000 */
{
    unsigned i = SELF;
    c[i % 1000 == 777 ? i - 1 : i] = a[i] * 3 + (int)i;
}

KERNEL race_rare_shared(int *a, int *b, int *c, int n) /* 1 thread of 1,000 */
{
    __shared__ int s[1000];
    unsigned t = threadIdx.x;
    s[t == 999 && blockIdx.x == 3 ? 421 : t] = a[SELF] + (int)t;
    __syncthreads();
    c[SELF] = s[999 - t];
}

KERNEL race_scatter(int *a, int *b, int *c, int n) /* one index comes twice in 16,384 */
{
    unsigned to = SELF == 9000 ? 37u : SELF * 5u % 16384u;
    c[to] = a[SELF] + (int)SELF;
}

/* below a word */

KERNEL race_byte_in_word(int *a, int *b, int *c, int n)
{
    c[SELF] = a[SELF];
    if (SELF)
        ((unsigned char *)c)[4 * SELF - 2] = 0xee;
}

KERNEL race_short_shift(int *a, int *b, int *c, int n)
{
    __shared__ unsigned short s[130];
    unsigned t = threadIdx.x;
    s[t] = (unsigned short)a[SELF];
    s[t + 1] = (unsigned short)(a[SELF] + 1);
    __syncthreads();
    c[SELF] = s[t];
}

KERNEL race_own_number(int *a, int *b, int *c, int n) /* same word, different values */
{
    if (a[SELF] & 64)
        b[0] = (int)SELF;
}
