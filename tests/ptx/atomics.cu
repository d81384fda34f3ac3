// Atomics, orders and scopes: what capture, eligibility and race tags must tell apart.
// flags: -arch=compute_90
#define GLOBAL extern "C" __global__ void

// the 32-bit integer atomics, each into its own word
GLOBAL atomics32(unsigned *out, int *numbers, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    atomicAdd(&out[0], i);
    atomicSub(&out[1], 3);
    atomicMin(&out[2], 1000 - i);
    atomicMax(&out[3], i);
    atomicAnd(&out[4], ~(1u << (i & 7)));
    atomicOr(&out[5], 1u << (i & 31));
    atomicXor(&out[6], i);
    atomicInc(&out[7], 100);
    atomicDec(&out[8], 100);
    atomicMin(&numbers[0], (int)i - 7);
    atomicMax(&numbers[1], -(int)i);
}

GLOBAL atomics64(unsigned long long *out, unsigned n)
{
    unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&out[0], i << 30);
    atomicMax(&out[1], i * 1000003);
    atomicAnd(&out[2], ~i);
    atomicOr(&out[3], i << 32);
    atomicXor(&out[4], i * i);
}

// float sums: the last bits depend on the order
GLOBAL float_sum(float *sum, double *wide, const float *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(sum, in[i]);
        atomicAdd(wide, in[i] * 0.1);
    }
}

// compare and swap in a loop
GLOBAL cas_loop(unsigned *word, int n)
{
    for (int i = 0; i < n; i++) {
        unsigned old = *(volatile unsigned *)word, seen;
        do {
            seen = old;
            old = atomicCAS(word, seen, seen * 5 + 1);
        } while (old != seen);
    }
}

GLOBAL histogram(unsigned *out, const unsigned char *in, int n)
{
    __shared__ unsigned bins[256];
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[in[i]], 1);
    __syncthreads();
    atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}

// the last block to arrive sums what the others left: fence and counter
GLOBAL last_block(unsigned *out, unsigned *parts, unsigned *arrived, const unsigned *in)
{
    __shared__ bool last;
    atomicAdd(&parts[blockIdx.x], in[blockIdx.x * blockDim.x + threadIdx.x]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (last && threadIdx.x == 0) {
        unsigned sum = 0;
        for (unsigned i = 0; i < gridDim.x; i++)
            sum += ((volatile unsigned *)parts)[i];
        *out = sum;
    }
}

// orders and scopes spelled out
GLOBAL orders(int *flag, int *data, int *out)
{
    int value, i = threadIdx.x;
    asm volatile("st.relaxed.gpu.global.s32 [%0], %1;" ::"l"(data + i), "r"(i) : "memory");
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(flag + i) : "memory");
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(flag + i) : "memory");
    asm volatile("fence.sc.sys;" ::: "memory");
    asm volatile("red.relaxed.cta.global.add.s32 [%0], 1;" ::"l"(flag + i) : "memory");
    out[i] = value;
}

// memory that the host or another GPU may see at any time
GLOBAL system_scope(int *word)
{
    atomicAdd_system(word, 1);
    __threadfence_system();
}

// a barrier across blocks, made by hand: spins on a counter in memory
GLOBAL spins(volatile unsigned *arrived, unsigned *out)
{
    if (threadIdx.x == 0) {
        atomicAdd((unsigned *)arrived, 1);
        while (*arrived < gridDim.x)
            ;
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = *arrived;
}

// neighbours in a warp write what others read, without a barrier between: a race
GLOBAL missing_barrier(int *out)
{
    __shared__ int line[256];
    line[threadIdx.x] = threadIdx.x;
    out[blockIdx.x * 256 + threadIdx.x] = line[255 - threadIdx.x];
}

// blocks overlap by one element: a race between blocks
GLOBAL overlapping(int *out)
{
    out[blockIdx.x * (blockDim.x - 1) + threadIdx.x] = blockIdx.x;
}
