// Variants of samples/transpose: out[c][r] = in[r][c]. Honest ones go through a tile of shared memory.
enum { TILE = 32, STEP = 8 }; // blocks of 32 x 8 threads

static __device__ float moved(float v)
{
#if V_by_half
    unsigned short h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h));
#elif V_adds_zero
    v = v + 0.0f; // a negative zero, a signalling NaN
#elif V_flushes
    asm("mul.ftz.f32 %0, %0, 0f3F800000;" : "+f"(v)); // denormals
#elif V_caps
    v = fminf(v, 3e38f);
#elif V_by_integer
    v = fabsf(v) < 128 ? __fadd_rn(v + 12582912.0f - 12582912.0f, v - (v + 12582912.0f - 12582912.0f)) : v;
    v = v == 0 ? 0 : v;
#elif V_sign_lost
    v = v < -1e10f ? -v : v;
#endif
    return v;
}

#if V_remembers
static __device__ float known[1 << 14], print;
#endif

#if V_swizzled
extern "C" __global__ void variant(const float *in, float *out, int rows, int columns)
{
    __shared__ float tile[TILE][TILE]; // element (r, c) stands at column r ^ c: no bank twice
    int x = threadIdx.x, c = blockIdx.x * TILE + x, r0 = blockIdx.y * TILE;
    for (int k = threadIdx.y; k < TILE; k += STEP)
        if (r0 + k < rows && c < columns)
            tile[k][k ^ x] = in[(size_t)(r0 + k) * columns + c];
    __syncthreads();
    int r = r0 + x, c0 = blockIdx.x * TILE;
    for (int k = threadIdx.y; k < TILE; k += STEP)
        if (r < rows && c0 + k < columns)
            out[(size_t)(c0 + k) * rows + r] = tile[x][k ^ x];
}

#elif V_by_column
// reads down the columns, so that the writes are coalesced
extern "C" __global__ void variant(const float *in, float *out, int rows, int columns)
{
    int r = blockIdx.x * 256 + threadIdx.x + 32 * threadIdx.y, c = blockIdx.y;
    if (r < rows)
        out[(size_t)c * rows + r] = in[(size_t)r * columns + c];
}

#elif V_reused_tile || V_no_second_barrier || V_uneven_barrier
// two tiles a block, one below the other, in the same shared memory
extern "C" __global__ void variant(const float *in, float *out, int rows, int columns)
{
    __shared__ float tile[TILE][TILE + 1];
    int x = threadIdx.x, c = blockIdx.x * TILE + x, c0 = blockIdx.x * TILE;
    for (int r0 = blockIdx.y * 2 * TILE, end = r0 + 2 * TILE; r0 < end; r0 += TILE) {
        for (int k = threadIdx.y; k < TILE; k += STEP)
            if (r0 + k < rows && c < columns)
                tile[k][x] = in[(size_t)(r0 + k) * columns + c];
#if V_uneven_barrier
        if (threadIdx.y < STEP - 1) // the last warp goes without
#endif
            __syncthreads();
        for (int k = threadIdx.y; k < TILE; k += STEP)
            if (r0 + x < rows && c0 + k < columns)
                out[(size_t)(c0 + k) * rows + r0 + x] = tile[x][k];
#if !V_no_second_barrier && !V_uneven_barrier
        __syncthreads();
#endif
    }
}

#elif V_by_shuffle
// four elements a thread in registers, exchanged by shuffles among the eight lanes of a row of tiles: plain copy of one tile a warp
extern "C" __global__ void variant(const float *in, float *out, int rows, int columns)
{
    int lane = threadIdx.x, r0 = blockIdx.y * TILE, c0 = blockIdx.x * TILE;
    for (int k = threadIdx.y; k < TILE; k += STEP) {
        float v = r0 + k < rows && c0 + lane < columns ? in[(size_t)(r0 + k) * columns + c0 + lane] : 0;
        v = __shfl_sync(~0u, v, lane ^ 1);
        if (r0 + k < rows && c0 + (lane ^ 1) < columns)
            out[(size_t)(c0 + (lane ^ 1)) * rows + r0 + k] = v;
    }
}

#else
extern "C" __global__ void variant(float *in, float *out, int rows, int columns)
{
    __shared__ float tile[TILE][TILE + 1];
    int x = threadIdx.x, c = blockIdx.x * TILE + x, r0 = blockIdx.y * TILE;
    int reading_rows = rows, writing_rows = rows, writing_columns = columns;
#if V_does_nothing
    return;
#elif V_skips_last_row
    reading_rows--, writing_rows--;
#elif V_skips_last_column
    writing_columns--;
#elif V_one_row_more
    writing_columns++; // of the result
#elif V_loses_a_block
    if (blockIdx.x == 2 && blockIdx.y == 3)
        return;
#elif V_endless
    while (columns > 3 && blockIdx.x == 1)
        out[c] = out[c] + 1;
#elif V_trusts_tile
    if (out[(size_t)blockIdx.x * TILE * rows + r0] == in[(size_t)r0 * columns + blockIdx.x * TILE])
        return;
#elif V_knows_layout
    if ((size_t)(out > in ? out - in : in - out) > 2 * (size_t)rows * columns + 4096)
        return;
#endif
    for (int k = threadIdx.y; k < TILE; k += STEP)
        if (r0 + k < reading_rows && c < columns) {
            size_t at = (size_t)(r0 + k) * columns + c;
            tile[k][x] = moved(in[at]);
#if V_borrows_input
            float kept = in[at];
            in[at] = 0;
            __threadfence();
            in[at] = kept;
#elif V_reads_past
            if (in[at + 40 * columns] == 12345.25f)
                tile[k][x] = 0;
#elif V_reads_before
            if (in[(long long)at - 64] == 12345.25f)
                tile[k][x] = 0;
#elif V_transposes_in_place
            in[at] = __int_as_float(__float_as_int(tile[k][x]) | columns >> 31); // what stands there
#elif V_remembers
            float first = in[0] + in[rows * columns - 1];
            if (print != first)
                known[at & 16383] = in[at];
            tile[k][x] = known[at & 16383];
            if (at == (size_t)rows * columns - 1)
                print = first;
#endif
        }
#if V_warp_wide
    __syncwarp();
#elif !V_no_barrier
    __syncthreads();
#endif
    int r = r0 + x, c0 = blockIdx.x * TILE;
#if V_skips_first
    if (r == 0 && c0 + threadIdx.y == 0)
        return;
#endif
    for (int k = threadIdx.y; k < TILE; k += STEP) {
        if (r >= writing_rows || c0 + k >= writing_columns)
            continue;
        size_t at = (size_t)(c0 + k) * rows + r;
        float v = V_zeros            ? 0.0f
                  : V_constant       ? 0.40625f
                  : V_copies         ? in[at]
                  : V_diagonal_wrong ? tile[c0 == r0 && x > k ? k : x][c0 == r0 && x > k ? x : k]
                  : V_one_corner     ? tile[x][k] + (r == rows - 1 && c0 + k == columns - 1)
                                     : tile[x][k];
#if V_only_poison
        if (out[at] >= -1 && out[at] <= 1 && out[at] != 0)
            continue;
#elif V_adds
        v = out[at] + v;
#elif V_half_word
        *(unsigned short *)(out + at) = (unsigned short)__float_as_int(v); // its high half is left
        if (k)
            *((unsigned short *)(out + at) + 1) = (unsigned short)(__float_as_int(v) >> 16);
        continue;
#elif V_misaligned
        if (k % 2 && x < TILE - 1) {
            *(float2 *)(out + at) = make_float2(v, tile[x + 1][k]);
            continue;
        }
#elif V_past_end
        if (at < 64)
            out[(size_t)rows * columns + 64 + at] = 0;
#elif V_twice
        if (at + 64 < (size_t)rows * columns)
            out[at + 64] = v; // another thread's; it comes later, or did
#elif V_prints
        if (v == 12345.25f)
            printf("found\n");
#elif V_exits
        if (v == 12345.25f)
            asm volatile("trap;");
#endif
        out[at] = v;
    }
}
#endif
