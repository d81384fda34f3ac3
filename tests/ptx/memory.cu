// Where memory is: constants, module variables, local arrays, shared tiles, pointers in memory.
// flags: -arch=compute_80
#define GLOBAL extern "C" __global__ void

__constant__ float weights[8] = {1, 2.5f, -3, 0.125f};
__constant__ int rows[4][3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
__device__ int table[256] = {3, 1, 4, 1, 5};
__device__ unsigned counter;
__device__ float *hidden;
__managed__ int managed = 5;

GLOBAL constants(float *out, const int *index)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = weights[i & 7] + rows[index[i] & 3][2] + managed;
}

// module variables: read, written, counted
GLOBAL globals(int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = table[i & 255];
    __syncthreads();
    if (i < 200)
        table[i + 50] = 7;
    atomicAdd(&counter, 1);
}

// a pointer that an earlier launch left in a variable: the first launch keeps it, and uses none
GLOBAL keeps_pointer(float *p)
{
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        hidden = p;
        hidden[1] = 3;
    }
}

GLOBAL local_array(int *out, const int *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, seen[16];
    for (int k = 0; k < 16; k++)
        seen[k] = in[(i + k) % n];
    out[i] = seen[in[i % n] & 15] - seen[out[i] & 15];
}

GLOBAL tile(float *out, const float *in, int n)
{
    __shared__ float square[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    square[threadIdx.y][threadIdx.x] = in[(long)y * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    out[(long)y * n + x] = square[threadIdx.x][threadIdx.y];
}

// dynamic shared memory, split into two arrays by a parameter
GLOBAL dynamic(float *out, const float *in, int n)
{
    extern __shared__ float buffer[];
    float *second = buffer + n;
    int t = threadIdx.x;
    buffer[t] = in[blockIdx.x * n + t];
    second[n - 1 - t] = buffer[t] * 2;
    __syncthreads();
    out[blockIdx.x * n + t] = buffer[n - 1 - t] + second[t];
}

// a generic pointer: shared or global, decided at run time
GLOBAL generic(int *out, int *in, int which)
{
    __shared__ int own[128];
    own[threadIdx.x] = threadIdx.x * 3;
    __syncthreads();
    int *p = which & threadIdx.x ? own : in;
    out[blockIdx.x * blockDim.x + threadIdx.x] = p[127 - threadIdx.x];
}

// an array of pointers in memory: reached only through it
GLOBAL pointers(const float *unused, float **list, int count, int n)
{
    for (int k = blockIdx.x; k < count; k += gridDim.x)
        for (int i = threadIdx.x; i < n; i += blockDim.x)
            list[k][i] = list[k][i] * 2 + k;
}

// a list in memory, walked to its end
struct node {
    struct node *next;
    long value;
};
GLOBAL walk(long *out, const struct node *first)
{
    long sum = 0;
    for (const struct node *at = first; at; at = at->next)
        sum += at->value * (threadIdx.x + 1);
    out[threadIdx.x] = sum;
}

// halves stored as .b32 and vectors stored as .v4.u32: element types by data flow only
GLOBAL packed(uint4 *out, const uint4 *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    uint4 v = in[i];
    v.x = __byte_perm(v.x, v.y, 0x5410), v.z ^= v.w;
    out[i] = v;
}

// bytes, shorts, words and doubles of one buffer
union mixed {
    double d;
    unsigned u[2];
    unsigned short h[4];
    unsigned char b[8];
};
GLOBAL sizes(union mixed *out, const union mixed *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    union mixed m;
    m.d = in[i].u[0] * 2.0;
    out[i] = m;
    out[i].b[3] = in[i].b[1];
    out[i].h[3] = in[i].h[0] + 1;
}

GLOBAL volatiles(volatile int *flags, int *out)
{
    int i = threadIdx.x;
    flags[i] = i;
    out[i] = flags[i] + flags[i];
}
