/* Ordinary kernels as nvcc makes them, executed and compared with plain C. */
#include "exec_test.h"

#include <math.h>

static const char source[] =
    "#include <cstdio>\n"
    "extern \"C\" {\n"
    "__constant__ float weights[9] = {0.25f, 0.5f, 0.125f};\n"
    "__device__ unsigned long long total = 7;\n"
    "__device__ const float *table[2];\n"
    "__device__ int counters[4] = {1, 2, 3};\n"
    "__device__ int *where = counters + 2;\n"
    "struct job { const float *in; float *out; int n; short shift; double scale; char tail; };\n"
    "__global__ void add(const float *a, const float *b, float *c, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) c[i] = a[i] + b[i]; }\n"
    "__global__ void transpose(const float *in, float *out, int w, int h) {\n"
    "  __shared__ float tile[16][17];\n"
    "  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;\n"
    "  if (x < w && y < h) tile[threadIdx.y][threadIdx.x] = in[y * w + x];\n"
    "  __syncthreads();\n"
    "  x = blockIdx.y * 16 + threadIdx.x; y = blockIdx.x * 16 + threadIdx.y;\n"
    "  if (x < h && y < w) out[y * h + x] = tile[threadIdx.x][threadIdx.y]; }\n"
    "__global__ void softmax(const float *in, float *out, int n) {\n"
    "  extern __shared__ float part[];\n"
    "  const float *row = in + (size_t)blockIdx.x * n; float most = -INFINITY, sum = 0;\n"
    "  for (int i = threadIdx.x; i < n; i += blockDim.x) most = fmaxf(most, row[i]);\n"
    "  part[threadIdx.x] = most; __syncthreads();\n"
    "  for (int s = blockDim.x / 2; s; s >>= 1) {\n"
    "    if (threadIdx.x < s) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + "
    "s]);\n"
    "    __syncthreads(); }\n"
    "  most = part[0]; __syncthreads();\n"
    "  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += expf(row[i] - most);\n"
    "  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);\n"
    "  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum; __syncthreads();\n"
    "  sum = 0; for (int w = 0; w < blockDim.x / 32; w++) sum += part[w];\n"
    "  for (int i = threadIdx.x; i < n; i += blockDim.x)\n"
    "    out[(size_t)blockIdx.x * n + i] = expf(row[i] - most) / sum; }\n"
    "__global__ void stencil(const float *in, float *out, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; float s = 0;\n"
    "  for (int k = -4; k <= 4; k++) { int j = min(max(i + k, 0), n - 1); s += weights[k + 4] * "
    "in[j]; }\n"
    "  out[i] = s; }\n"
    "__global__ void histogram(const unsigned char *in, unsigned *bins, int n) {\n"
    "  __shared__ unsigned mine[256]; mine[threadIdx.x] = 0; __syncthreads();\n"
    "  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)\n"
    "    atomicAdd(&mine[in[i]], 1u);\n"
    "  __syncthreads(); atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);\n"
    "  if (!threadIdx.x) atomicAdd(&total, 1ull); }\n"
    "__global__ void by_value(job j, int extra) {\n"
    "  int i = threadIdx.x; if (i < j.n) j.out[i] = (float)(j.in[i] * j.scale) + (i << j.shift) + "
    "extra; }\n"
    "__global__ void warps(int *out) {\n"
    "  int t = threadIdx.x, lane = t & 31; unsigned m = __ballot_sync(~0u, t % 3 == 0);\n"
    "  int up = __shfl_up_sync(~0u, t, 1), down = __shfl_down_sync(~0u, t, 2, 16);\n"
    "  int from = __shfl_sync(~0u, t, lane * 7, 8), any = __any_sync(~0u, t == 5), sum = 0;\n"
    "  if (lane < 16) sum = __shfl_xor_sync(0xffffu, t, 3); else sum = __popc(__activemask());\n"
    "  sum += __reduce_add_sync(~0u, lane); int all = __syncthreads_count(t & 1);\n"
    "  unsigned same = __match_any_sync(~0u, t / 8);\n"
    "  int *o = out + t * 8; o[0] = m; o[1] = up; o[2] = down; o[3] = from; o[4] = any; o[5] = "
    "sum;\n"
    "  o[6] = all; o[7] = same; }\n"
    "__global__ void powers(const double *a, double *out, int n) {\n"
    "  int i = threadIdx.x; if (i < n) out[i] = pow(a[i], 2.5) + sin(a[i]) + exp(-a[i]); }\n"
    "__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }\n"
    "__device__ __noinline__ float poly(float x, const float *c, int n) {\n"
    "  float y = 0; for (int i = 0; i < n; i++) y = y * x + c[i]; return y; }\n"
    "__global__ void calls(int *out, float *f) {\n"
    "  float c[8]; for (int i = 0; i < 8; i++) c[i] = i + threadIdx.x;\n"
    "  out[threadIdx.x] = fib(threadIdx.x % 12); f[threadIdx.x] = poly(0.5f, c, 8); }\n"
    "__global__ void says(int n) { if (threadIdx.x == 1)\n"
    "  printf(\"%s %d %5.2f %llu %c%% %x\\n\", \"text\", n, 1.5, 1ull << 40, 'z', 255); }\n"
    "__global__ void globals(int *out) { out[0] = *where; out[1] = (int)total; where[1] = 40; }\n"
    "__global__ void spin(int *flag, int *out) {\n"
    "  if (blockIdx.x == 0) { while (atomicAdd(flag, 0) < (int)gridDim.x - 1) {} out[0] = 1; }\n"
    "  else atomicAdd(flag, 1); }\n"
    "__global__ void warp_spin(volatile int *flag, int *out) { int t = threadIdx.x;\n"
    "  if (t == 0) { while (!*flag) {} out[0] = 1; }\n"
    "  else { int v = __shfl_down_sync(0xfffffffeu, t, 1); if (t == 5) { out[1] = v; *flag = 1; } "
    "} }\n"
    "}\n";

static float *floats(unsigned count, unsigned seed)
{
    float *out = (float *)test_alloc(count * sizeof *out, 256);
    for (unsigned i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        out[i] = (float)(int)(seed >> 8) / (1 << 20) - 8.0f;
    }
    return out;
}

static void test_add(const struct exec_module *module)
{
    enum { N = 1000 };
    float *a = floats(N, 1), *b = floats(N, 2), *c = floats(N, 3), last = c[N - 1];
    struct test_call call = call_of(module, "add", 8, 128, 0);
    ARG(&call, void *, a);
    ARG(&call, void *, b);
    ARG(&call, void *, c);
    ARG(&call, int, N - 1);
    CHECK(call_good(&call));
    bool same = true;
    for (int i = 0; i < N - 1; i++)
        same &= c[i] == a[i] + b[i];
    CHECK(same);
    CHECK(c[N - 1] == last);
    CHECK(call.result.instructions > 8 * 128 * 8 && call.result.instructions < 8 * 128 * 40);
}

static void test_transpose(const struct exec_module *module)
{
    enum { W = 70, H = 45 };
    float *in = floats(W * H, 4), *out = floats(W * H, 5);
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct test_call call = call_of(module, "transpose", 5, 16, 0);
        call.config.launch.grid.y = 3;
        call.config.launch.block.y = 16;
        call.config.seed = seed;
        call.config.threads = (unsigned)seed;
        ARG(&call, void *, in);
        ARG(&call, void *, out);
        ARG(&call, int, W);
        ARG(&call, int, H);
        memset(out, 0, W * H * sizeof *out);
        CHECK(call_good(&call));
        bool same = true;
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++)
                same &= out[x * H + y] == in[y * W + x];
        CHECK(same);
    }
}

static void test_softmax(const struct exec_module *module)
{
    enum { ROWS = 9, N = 333 };
    float *in = floats(ROWS * N, 6), *out = floats(ROWS * N, 7);
    struct test_call call = call_of(module, "softmax", ROWS, 128, 128 * 4);
    ARG(&call, void *, in);
    ARG(&call, void *, out);
    ARG(&call, int, N);
    CHECK(call_good(&call));
    double worst = 0;
    for (int r = 0; r < ROWS; r++) {
        double most = -INFINITY, sum = 0;
        for (int i = 0; i < N; i++)
            most = fmax(most, in[r * N + i]);
        for (int i = 0; i < N; i++)
            sum += exp(in[r * N + i] - most);
        for (int i = 0; i < N; i++) {
            double right = exp(in[r * N + i] - most) / sum;
            worst = fmax(worst, fabs(out[r * N + i] - right) / right);
        }
    }
    CHECK(worst < 1e-5);
}

static void test_stencil(const struct exec_module *module)
{
    enum { N = 500 };
    float *in = floats(N, 8), *out = floats(N, 9);
    uint64_t address, size;
    CHECK(exec_module_global(module, "weights", &address, &size) && size == 36);
    float *weights = (float *)address;
    CHECK(weights[0] == 0.25f && weights[2] == 0.125f && weights[8] == 0);
    for (int i = 0; i < 9; i++)
        weights[i] = 0.1f * (float)(i + 1);
    struct test_call call = call_of(module, "stencil", 4, 128, 0);
    ARG(&call, void *, in);
    ARG(&call, void *, out);
    ARG(&call, int, N);
    CHECK(call_good(&call));
    bool fused = true, apart = true; /* nvcc fuses where it optimises */
    for (int i = 0; i < N; i++) {
        float sum = 0, sum_apart = 0;
        for (int k = -4; k <= 4; k++) {
            int j = i + k < 0 ? 0 : i + k >= N ? N - 1 : i + k;
            volatile float product = weights[k + 4] * in[j];
            sum = fmaf(weights[k + 4], in[j], sum);
            sum_apart = product + sum_apart;
        }
        fused &= out[i] == sum;
        apart &= out[i] == sum_apart;
    }
    CHECK(fused || apart);
}

static void test_histogram(const struct exec_module *module)
{
    enum { N = 20000 };
    unsigned char *in = (unsigned char *)test_alloc(N, 256);
    unsigned *bins = (unsigned *)test_alloc(1024, 256), right[256] = {0};
    uint64_t address, size;
    memset(bins, 0, 1024);
    for (unsigned i = 0; i < N; i++)
        right[in[i] = (unsigned char)(i * i >> 5)]++;
    CHECK(exec_module_global(module, "total", &address, &size) && size == 8);
    CHECK(*(uint64_t *)address == 7);
    struct test_call call = call_of(module, "histogram", 12, 256, 0);
    call.config.threads = 4;
    ARG(&call, void *, in);
    ARG(&call, void *, bins);
    ARG(&call, int, N);
    CHECK(call_good(&call));
    CHECK(!memcmp(bins, right, sizeof right));
    CHECK(*(uint64_t *)address == 19);
}

static void test_by_value(const struct exec_module *module)
{
    struct job {
        const float *in;
        float *out;
        int n;
        short shift;
        double scale;
        char tail;
    } job = {floats(64, 10), floats(64, 11), 50, 3, 1.75, 1};
    struct test_call call = call_of(module, "by_value", 1, 64, 0);
    CHECK(call.info.param_count == 2 && call.info.params[1].offset == 40 &&
          call.info.param_bytes == 44);
    call_add(&call, &job, sizeof job);
    ARG(&call, int, 5);
    float *out = job.out, before = out[50];
    CHECK(call_good(&call));
    bool same = true;
    for (int i = 0; i < 50; i++)
        same &= out[i] == (float)(job.in[i] * job.scale) + (float)(i << 3) + 5.0f;
    CHECK(same && out[50] == before);
}

static void test_warps(const struct exec_module *module)
{
    int *out = (int *)test_alloc(64 * 8 * 4, 256);
    struct test_call call = call_of(module, "warps", 1, 64, 0);
    ARG(&call, void *, out);
    CHECK(call_good(&call));
    unsigned bad = 0;
    for (int t = 0; t < 64; t++) {
        int lane = t & 31, *o = out + t * 8;
        unsigned ballot = 0;
        for (int i = 0; i < 32; i++)
            ballot |= (unsigned)(((t & 32) + i) % 3 == 0) << i;
        bad += o[0] != (int)ballot;
        bad += o[1] != (lane ? t - 1 : t);
        bad += o[2] != ((lane & 15) < 14 ? t + 2 : t);
        bad += o[3] != (t & ~7) + (lane * 7 & 7);
        bad += o[4] != (t < 32);
        bad += o[5] != (lane < 16 ? (t ^ 3) : 16) + 496;
        bad += o[6] != 32;
        bad += (unsigned)o[7] != 0xffu << (lane & ~7);
    }
    CHECK(bad == 0);
}

static void test_powers(const struct exec_module *module)
{
    double *a = (double *)test_alloc(40 * 8, 256), *out = (double *)test_alloc(40 * 8, 256);
    for (int i = 0; i < 40; i++)
        a[i] = 0.1 + 0.37 * i;
    struct test_call call = call_of(module, "powers", 1, 64, 0);
    ARG(&call, void *, a);
    ARG(&call, void *, out);
    ARG(&call, int, 40);
    CHECK(call_good(&call));
    double worst = 0;
    for (int i = 0; i < 40; i++) {
        double right = pow(a[i], 2.5) + sin(a[i]) + exp(-a[i]);
        worst = fmax(worst, fabs(out[i] - right) / fabs(right));
    }
    CHECK(worst < 1e-14);
}

static void test_calls(const struct exec_module *module)
{
    static const int fibonacci[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
    int *out = (int *)test_alloc(96 * 4, 256);
    float *f = floats(96, 12);
    struct test_call call = call_of(module, "calls", 1, 96, 0);
    CHECK(call.info.local_bytes >= 32);
    ARG(&call, void *, out);
    ARG(&call, void *, f);
    CHECK(call_good(&call));
    bool same = true;
    for (int t = 0; t < 96; t++) {
        float y = 0;
        for (int i = 0; i < 8; i++)
            y = fmaf(y, 0.5f, (float)(i + t));
        same &= out[t] == fibonacci[t % 12] && f[t] == y;
    }
    CHECK(same);
}

static void test_globals(const struct exec_module *module)
{
    int *out = (int *)test_alloc(8, 256);
    uint64_t address, size;
    struct test_call call = call_of(module, "globals", 1, 1, 0);
    ARG(&call, void *, out);
    CHECK(call_good(&call));
    CHECK(out[0] == 3 && out[1] == 19);
    CHECK(exec_module_global(module, "counters", &address, &size) && ((int *)address)[3] == 40);
    CHECK(!exec_module_global(module, "nothing", &address, &size));
}

/* Block 0 spins until all others have run: it must be parked, with one host thread too. */
static void test_spin(const struct exec_module *module)
{
    int *words = (int *)test_alloc(8, 256);
    memset(words, 0, 8);
    struct test_call call = call_of(module, "spin", 5, 1, 0);
    call.config.threads = 1;
    ARG(&call, void *, words);
    ARG(&call, void *, words + 1);
    CHECK(call_good(&call));
    CHECK(words[0] == 4 && words[1] == 1);
    /* a lane that spins on what the others of its warp do after a shuffle without it */
    words = (int *)test_alloc(12, 256);
    memset(words, 0, 12);
    call = call_of(module, "warp_spin", 1, 32, 0);
    ARG(&call, void *, words);
    ARG(&call, void *, words + 1);
    CHECK(call_good(&call));
    CHECK(words[1] == 1 && words[2] == 6);
}

static void test_print(const struct exec_module *module)
{
    char text[200] = "", path[] = "/tmp/kgenrt-print-XXXXXX";
    int saved = dup(1), file = mkstemp(path);
    CHECK(file >= 0 && dup2(file, 1) == 1);
    struct test_call call = call_of(module, "says", 1, 32, 0);
    ARG(&call, int, -5);
    CHECK(call_good(&call));
    fflush(stdout);
    CHECK(pread(file, text, sizeof text - 1, 0) > 0);
    CHECK(dup2(saved, 1) == 1);
    close(saved);
    close(file);
    unlink(path);
    CHECK(!strcmp(text, "text -5  1.50 1099511627776 z% ff\n"));
}

int main(void)
{
    static const char *const flags[] = {"-arch=compute_75 -O3", "-arch=compute_80 -Xcicc -O0",
                                        "-arch=compute_90 -G", "-arch=compute_100 -lineinfo",
                                        "-arch=compute_80 -rdc=true"};
    for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
        char all[sizeof source];
        fprintf(stderr, "nvcc %s\n", flags[i]);
        snprintf(all, sizeof all, "%s", source);
        if (!i) { /* __reduce_add_sync is not there before 80 */
            char *reduce = strstr(all, "sum += __reduce_add_sync(~0u, lane);");
            memcpy(reduce, "sum += 496;                         ", 36);
        }
        struct exec_module *module = module_of_cuda(all, flags[i]);
        if (!module)
            continue;
        test_add(module);
        test_transpose(module);
        test_softmax(module);
        test_stencil(module);
        test_histogram(module);
        test_by_value(module);
        test_warps(module);
        test_powers(module);
        test_calls(module);
        test_globals(module);
        test_spin(module);
        test_print(module);
        exec_module_destroy(module);
        test_free_all();
    }
    return test_result();
}
