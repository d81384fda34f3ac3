// What a scalar may be to a kernel: a factor, a switch, a bound, a shift; and launches that depend on the one before.
// flags: -arch=compute_90
#define GLOBAL extern "C" __global__ void

// y is not read where b is zero, as BLAS has it: NaN in y must not show then
GLOBAL axpby(float *out, const float *x, const float *y, float a, float b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = b == 0 ? a * x[i] : a * x[i] + b * y[i];
}

// an integer that only arithmetic sees, and one that is a bit mask of switches
GLOBAL mixed(int *out, const int *in, int add, unsigned switches)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i] + add;
    if (switches & 1)
        v = -v;
    if (switches & 4)
        v ^= add * 3;
    out[i] = v;
}

// powers by a loop of a scalar's length; zero turns are right too
GLOBAL power(float *out, const float *in, unsigned exponent, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float result = 1;
    for (unsigned k = 0; k < exponent; k++)
        result *= in[i % n];
    out[i] = result;
}

// 64-bit bounds, and a size given in bytes
GLOBAL sized(double *out, const double *in, unsigned long long bytes, long long first)
{
    long long i = first + (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= 0 && i < (long long)(bytes / sizeof *out))
        out[i] = in[i] * 4;
}

// normalisation by parameters: divisions by n and by powers of two
GLOBAL mean(float *out, const float *in, int n, float scale)
{
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += in[(long)(blockIdx.x * blockDim.x + threadIdx.x) * n + k];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum / n / scale;
}

// waits for the launch before it, then works: a dependent launch as it should be
GLOBAL waits_first(int *out, const int *in)
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
    out[threadIdx.x] = in[threadIdx.x] + 1;
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// reads before it waits: what it reads may still be written
GLOBAL waits_late(int *out, const int *in)
{
    int early = in[threadIdx.x];
    asm volatile("griddepcontrol.wait;" ::: "memory");
    out[threadIdx.x] = early + in[threadIdx.x];
}
