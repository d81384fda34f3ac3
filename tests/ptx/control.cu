// Control flow and calls: switches, early exits, recursion, function pointers, what makes a kernel ineligible.
// flags: -arch=compute_80
#include <cassert>
#include <cstdio>
#define GLOBAL extern "C" __global__ void

GLOBAL switches(int *out, const int *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
    switch (v & 7) {
    case 0: v += 3; break;
    case 1: v *= 5; break;
    case 2: v ^= 0x55; // falls through
    case 3: v -= i; break;
    case 4: v = -v; break;
    case 5: v |= 8; break;
    case 6: return;
    }
    out[i] = v;
}

__device__ __noinline__ int twice(int x) { return x * 2; }
__device__ __noinline__ int thrice(int x) { return x * 3; }
__device__ int (*const choices[2])(int) = {twice, thrice};

GLOBAL indirect(int *out, const int *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = choices[in[i] & 1](in[i]) + twice(i);
}

__device__ __noinline__ unsigned fibonacci(unsigned n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

GLOBAL recursion(unsigned *out, unsigned n) { out[threadIdx.x] = fibonacci((threadIdx.x + n) % 12); }

// a loop whose length is data: Collatz
GLOBAL collatz(int *out, const unsigned short *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, steps = 0;
    for (unsigned n = in[i] | 1; n != 1 && steps < 400; steps++)
        n = n & 1 ? 3 * n + 1 : n / 2;
    out[i] = steps;
}

GLOBAL nested(float *out, int n, int m, int step)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int a = 0; a < n; a++)
        for (int b = m; b > a; b -= step) {
            if ((a ^ b) == 5)
                continue;
            if (sum > 1000)
                break;
            sum += a * b + i;
        }
    out[i] = sum;
}

// a barrier in a loop that all threads leave together, the bound a parameter
GLOBAL uniform_barrier(int *out, int rounds)
{
    __shared__ int value;
    int sum = 0;
    for (int r = 0; r < rounds; r++) {
        if (threadIdx.x == r % blockDim.x)
            value = r * 7;
        __syncthreads();
        sum += value;
        __syncthreads();
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

GLOBAL prints(int *out)
{
    if (threadIdx.x == 0)
        printf("block %d\n", blockIdx.x);
    out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

GLOBAL asserts(const int *in, int limit)
{
    assert(in[threadIdx.x] < limit);
}

GLOBAL traps(int *out, int at)
{
    if (threadIdx.x == at)
        __trap();
    out[threadIdx.x] = 1;
}

GLOBAL allocates(int *out)
{
    int *p = (int *)malloc(64);
    if (p)
        p[threadIdx.x & 15] = 3;
    out[threadIdx.x] = p != nullptr;
    free(p);
}

GLOBAL clocks(long long *out)
{
    long long start = clock64();
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    out[threadIdx.x] = clock64() - start + sm;
}

struct shape {
    float side;
    __device__ virtual float area() const { return side * side; }
};
struct circle : shape {
    __device__ float area() const override { return side * side * 3.14159f; }
};

// virtual functions: calls through tables of pointers
GLOBAL virtuals(float *out, int n)
{
    shape square;
    circle round;
    square.side = round.side = threadIdx.x;
    shape *which = n & threadIdx.x ? &square : &round;
    out[threadIdx.x] = which->area();
}
