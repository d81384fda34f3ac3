/* Kernels that touch what they may not, or do not end: each would fault or hang a GPU if it were
 * launched as it is. They are launched instrumented only. Parameters as in free.cu; only the first
 * half of each buffer may be touched, and a may only be read. n: words of a half. */
#define KERNEL extern "C" __global__ void
#define SELF (blockIdx.x * blockDim.x + threadIdx.x)

KERNEL bad_write_beyond(int *a, int *b, int *c, int n)
{
    c[SELF == 77 ? n + 3 : SELF] = a[SELF];
}

KERNEL bad_read_beyond(int *a, int *b, int *c, int n)
{
    c[SELF] = a[SELF == 77 ? n : SELF];
}

KERNEL bad_write_read_only(int *a, int *b, int *c, int n)
{
    c[SELF] = a[SELF];
    if (SELF == 200)
        a[5] = 1;
}

KERNEL bad_atomic(int *a, int *b, int *c, int n)
{
    c[SELF] = atomicAdd(&b[SELF % 7 == 6 ? n + SELF : SELF % 7], 1);
}

KERNEL bad_vector(int *a, int *b, int *c, int n)
{
    int4 v = *(int4 *)(a + 4 * SELF + (n - 4 * 127)); /* of the last thread: all but none of it */
    c[SELF] = v.x + v.w;
}

KERNEL bad_null(int *a, int *b, int *c, int n)
{
    int *to = SELF == 99 ? (int *)(size_t)b[3] : c + SELF;
    *to = a[SELF];
}

KERNEL bad_wild_read(int *a, int *b, int *c, int n)
{
    const int *from = SELF == 99 ? (const int *)0x00dead0000000000 : a + SELF;
    c[SELF] = *from + 1;
}

KERNEL bad_misaligned(int *a, int *b, int *c, int n)
{
    c[SELF] = *(int *)((char *)(a + SELF) + (SELF == 31 ? 2 : 0));
}

KERNEL bad_shared(int *a, int *b, int *c, int n)
{
    __shared__ int s[128];
    s[threadIdx.x + (SELF == 130 ? n * 16 : 0)] = a[SELF];
    __syncthreads();
    c[SELF] = s[127 - threadIdx.x];
}

KERNEL bad_shared_dynamic(int *a, int *b, int *c, int n)
{
    extern __shared__ int s[];
    s[threadIdx.x] = a[SELF];
    __syncthreads();
    c[SELF] = s[threadIdx.x + (SELF == 100 ? 128 : 0)];
}

KERNEL bad_local(int *a, int *b, int *c, int n)
{
    int own[16];
    for (int i = 0; i < 16; i++)
        own[i] = a[i] + (int)SELF;
    own[(a[1] & 7) + (SELF == 9 ? n : 0)] = 3;
    c[SELF] = own[a[2] & 15];
}

KERNEL bad_endless(int *a, int *b, int *c, int n) /* the others wait for it */
{
    volatile int *flag = b;
    if (SELF == 40)
        while (!flag[0])
            continue;
    __syncthreads();
    c[SELF] = (int)SELF + 1;
}

KERNEL bad_endless_warps(int *a, int *b, int *c, int n) /* half of each warp */
{
    volatile int *flag = b;
    int v = a[SELF];
    if (threadIdx.x & 16)
        while (!flag[0])
            v++;
    __syncwarp();
    c[SELF] = v + __popc(__ballot_sync(~0u, v > 3));
}

KERNEL bad_endless_barriers(int *a, int *b, int *c, int n) /* a loop with a barrier in it */
{
    volatile int *flag = b;
    do
        __syncthreads();
    while (!flag[0]);
    c[SELF] = 1;
}

__device__ __noinline__ int often(volatile int *flag, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += flag[i & 15];
    return sum;
}

KERNEL bad_calls(int *a, int *b, int *c, int n) /* each call ends, all of them do not */
{
    int sum = 0;
    for (int i = 0; SELF == 3 ? i >= 0 : i < 4; i = (i + 1) & 1023)
        sum += often(b, 8);
    __syncthreads();
    c[SELF] = sum + 1;
}

KERNEL bad_copy(int *a, int *b, int *c, int n)
{
    __shared__ __align__(16) int s[512];
    unsigned to = (unsigned)__cvta_generic_to_shared(s + 4 * threadIdx.x);
    const int *from = a + 4 * threadIdx.x + (SELF == 50 ? n : 0);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(to), "l"(from) : "memory");
    asm volatile("cp.async.wait_all;" : : : "memory");
    __syncthreads();
    c[SELF] = s[SELF % 128];
}

KERNEL bad_matrix(int *a, int *b, int *c, int n)
{
    __shared__ __align__(16) int s[256];
    unsigned at = (unsigned)__cvta_generic_to_shared(s + 4 * (threadIdx.x & 7));
    int v = 7;
    for (unsigned i = threadIdx.x; i < 256; i += blockDim.x)
        s[i] = a[i];
    __syncthreads();
    if (SELF % 32 == 3 && SELF / 32 == 1)
        at += 1 << 20;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(v) : "r"(at) : "memory");
    c[SELF] = v;
}
