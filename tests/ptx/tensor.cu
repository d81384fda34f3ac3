// Tensor cores and asynchronous copies as CUDA 12 and 13 write them, from sm_80 to sm_90.
// flags: -arch=compute_90
#include <cuda_pipeline.h>
#include <mma.h>
using namespace nvcuda;
#define GLOBAL extern "C" __global__ void

GLOBAL wmma_tile(float *c, const half *a, const half *b, int k)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> z;
    wmma::fill_fragment(z, 0);
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(x, a + i, k);
        wmma::load_matrix_sync(y, b + i, k);
        wmma::mma_sync(z, x, y, z);
    }
    wmma::store_matrix_sync(c, z, 16, wmma::mem_row_major);
}

// mma.sync on fragments from ldmatrix: m16n8k16
GLOBAL mma_tile(float *c, const uint4 *a, const uint4 *b)
{
    __shared__ uint4 tile[48];
    unsigned t = threadIdx.x, r[4], s[2];
    tile[t] = a[t];
    if (t < 16)
        tile[32 + t] = b[t];
    __syncthreads();
    unsigned at = __cvta_generic_to_shared(&tile[t % 16 * 2 + t / 16]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
    at = __cvta_generic_to_shared(&tile[32 + t % 8 * 2 + t / 8 % 2]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(s[0]), "=r"(s[1]) : "r"(at));
    float d[4] = {};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(s[0]), "r"(s[1]));
    for (int i = 0; i < 4; i++)
        c[(t / 4 + i / 2 * 8) * 8 + t % 4 * 2 + i % 2] = d[i];
}

// a pipeline of asynchronous copies, two stages
GLOBAL pipeline(float *out, const float *in, int tiles)
{
    __shared__ float stage[2][128];
    int t = threadIdx.x;
    float sum = 0;
    const float *from = in + (long)blockIdx.x * tiles * 128;
    __pipeline_memcpy_async(&stage[0][t], &from[t], 4);
    __pipeline_commit();
    for (int i = 0; i < tiles; i++) {
        if (i + 1 < tiles)
            __pipeline_memcpy_async(&stage[(i + 1) & 1][t], &from[(i + 1) * 128 + t], 4);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        sum += stage[i & 1][t ^ 1];
        __syncthreads();
    }
    out[blockIdx.x * 128 + t] = sum;
}

// a bulk copy into shared memory, awaited by a barrier object
GLOBAL bulk_copy(float *out, const float *in)
{
    __shared__ alignas(128) float tile[256];
    __shared__ alignas(8) unsigned long long bar;
    unsigned to = __cvta_generic_to_shared(tile), at = __cvta_generic_to_shared(&bar), done = 0;
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" ::"r"(at) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" ::"r"(to),
                     "l"(in + blockIdx.x * 256), "r"(at) : "memory");
    }
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(at) : "memory");
    out[blockIdx.x * 256 + threadIdx.x] = tile[255 - threadIdx.x];
}
