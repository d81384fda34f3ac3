// How indices are made: what an affine reach analysis must get right, or must give up on.
// flags: -arch=compute_90
#define GLOBAL extern "C" __global__ void

GLOBAL saxpy(float *y, const float *x, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}

// four elements a thread, by one 16-byte access
GLOBAL add_float4(float4 *out, const float4 *a, const float4 *b)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 x = a[i], y = b[i];
    out[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}

// a stride from a parameter: one access in `stride` elements
GLOBAL strided(float *out, const float *in, int stride, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[(long)i * stride];
}

GLOBAL grid_stride(float *out, const float *in, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = in[i] * 2;
}

GLOBAL bytes(unsigned char *out, const unsigned char *in, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[n - 1 - i] = in[i] ^ 0x55;
}

// three dimensions, one 64-bit index
GLOBAL volume(float *out, const float *in, int nx, int ny, int nz)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x < nx && y < ny && z < nz)
        out[((size_t)z * ny + y) * nx + x] = in[((size_t)x * ny + y) * nz + z];
}

// a stencil with a halo that is clamped by min and max
GLOBAL clamped(float *out, const float *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float sum = 0;
    for (int d = -3; d <= 3; d++)
        sum += in[max(0, min(n - 1, i + d))];
    out[i] = sum;
}

// a halo that wraps: remainder by a power of two and by a parameter
GLOBAL wrapped(float *out, const float *in, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i % n] = in[(i + 17) & 1023] + in[(i + n / 2) % n];
}

// the pointer passed lies before the first element that is touched
GLOBAL before(float *p, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i + 64] = p[i + 64] + 1;
}

// rows through a pitch in bytes, as cudaMallocPitch gives it
GLOBAL pitched(char *base, size_t pitch, int width, int height)
{
    int x = threadIdx.x, y = blockIdx.x;
    if (x < width && y < height) {
        float *row = (float *)(base + y * pitch);
        row[x] = row[x] * 0.5f;
    }
}

// a loop bound that is the thread's own number
GLOBAL triangle(float *out, const float *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float sum = 0;
    for (int k = 0; k <= i; k++)
        sum += in[(long)i * n + k];
    out[i] = sum;
}

// nested loops with parameters as bounds
GLOBAL matmul(float *c, const float *a, const float *b, int m, int n, int k)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || col >= n)
        return;
    float sum = 0;
    for (int i = 0; i < k; i++)
        sum += a[row * k + i] * b[i * n + col];
    c[row * n + col] = sum;
}

// a 32-bit unsigned index that wraps round on purpose: start is near 2^32
GLOBAL wraps(unsigned *out, unsigned start, int n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned at = start + i;
    if (i < n)
        out[at + 16] = at;
}

// shifts make the index; the amount is a parameter
GLOBAL shifted(unsigned *out, const unsigned *in, int shift)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i >> shift] + in[i & ((1u << shift) - 1)];
}

// the index is a data-dependent one: gather
GLOBAL gather(float *out, const float *in, const int *index, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[index[i]];
}

// scatter with distinct destinations (a rising index)
GLOBAL scatter(float *out, const float *in, const unsigned *index, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[index[i] ^ 5] = in[i];
}

// loop bounds that come from memory: a CSR matrix times a vector
GLOBAL csr(float *out, const unsigned *rows, const unsigned *columns, const float *values,
           const float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float sum = 0;
    for (unsigned k = rows[i]; k < rows[i + 1]; k++)
        sum += values[k] * x[columns[k]];
    out[i] = sum;
}

// an integer that went through a float: an affine form ends there
GLOBAL by_float(float *out, const float *in, float scale, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int at = (int)(i * scale);
    if (i < n && at >= 0 && at < n)
        out[i] = in[at];
}

// 24-bit multiplication
GLOBAL mul24(int *out, const int *in, int pitch)
{
    out[__mul24(blockIdx.x, pitch) + threadIdx.x] = in[__umul24(threadIdx.x, 3)];
}

// the block's first warp only; an exit in the middle
GLOBAL some_threads(int *out, int n)
{
    if (threadIdx.x >= 32)
        return;
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i >= n)
        return;
    out[i] = i * i;
}

// a pointer chosen by a parameter, and one chosen by the thread's number
GLOBAL choose(float *out, const float *a, const float *b, int which, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float *p = which ? a : b, *q = i & 1 ? a : b;
    if (i < n)
        out[i] = p[i] - q[i];
}

// a struct by value with pointers and sizes inside
struct matrix {
    float *data;
    int rows, columns;
    float scale;
};
GLOBAL by_struct(struct matrix m, const float *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < m.rows * m.columns)
        m.data[i] = in[i] * m.scale;
}

// read and written through two pointers that may be the same: no restrict, no .nc
GLOBAL may_alias(float *out, const float *in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i] + 1;
}

// the same with restrict: loads become .nc
GLOBAL no_alias(float *__restrict__ out, const float *__restrict__ in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i] + in[i ^ 1];
}
