/* Strictness: what the executor finds in kernels that a GPU would run without a word, or hang on;
 * each kind with a kernel that has it and one that looks alike and is right. */
#include "exec_samples.h"
#include "ptx/corpus.h"

static const char source[] =
    "#include <cuda/atomic>\n"
    "extern \"C\" {\n"
    "__global__ void copies(const int *in, int *out) { out[threadIdx.x] = in[threadIdx.x]; }\n"
    "__global__ void bytes(const char *in, int *out) { out[threadIdx.x] = in[threadIdx.x]; }\n"
    "__global__ void shared_unset(int *out, int n) {\n"
    "  __shared__ int room[64]; if (threadIdx.x < n) room[threadIdx.x] = threadIdx.x;\n"
    "  __syncthreads(); out[threadIdx.x] = room[63 - threadIdx.x]; }\n"
    "__global__ void no_barrier(int *out, int sync) {\n"
    "  __shared__ int room[64]; room[threadIdx.x] = threadIdx.x;\n"
    "  if (sync) __syncthreads(); out[threadIdx.x] = room[63 - threadIdx.x]; }\n"
    "__global__ void no_warp_sync(int *out, int sync) {\n"
    "  __shared__ int room[32]; room[threadIdx.x] = threadIdx.x;\n"
    "  if (sync) __syncwarp(); out[threadIdx.x] = room[31 - threadIdx.x]; }\n"
    "__global__ void sum(int *total, int atomic) {\n"
    "  if (atomic) atomicAdd(total, 1); else *total += 1; }\n"
    "__global__ void same_value(int *flag, int value) { *flag = value < 0 ? (int)threadIdx.x : "
    "value; }\n"
    "__global__ void neighbours(char *bytes) { bytes[blockIdx.x * blockDim.x + threadIdx.x] = 1; "
    "}\n"
    "__global__ void hand_over(int *data, int *flag, int fenced) {\n"
    "  if (threadIdx.x) return;\n"
    "  if (blockIdx.x == 0) { data[0] = 7; if (fenced) { __threadfence(); atomicExch(flag, 1); } "
    "}\n"
    "  else { if (fenced) { while (atomicAdd(flag, 0) == 0) {} __threadfence(); }\n"
    "    data[1] = data[0]; } }\n"
    "__global__ void last_block(const int *in, int *part, unsigned *count, int *out) {\n"
    "  __shared__ bool last; int t = threadIdx.x, b = blockIdx.x;\n"
    "  int mine = in[b * 64 + t];\n"
    "  for (int o = 16; o; o >>= 1) mine += __shfl_down_sync(~0u, mine, o);\n"
    "  __shared__ int warps[2]; if (t % 32 == 0) warps[t / 32] = mine; __syncthreads();\n"
    "  if (t == 0) { part[b] = warps[0] + warps[1]; __threadfence();\n"
    "    last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1; }\n"
    "  __syncthreads();\n"
    "  if (last && t == 0) { int s = 0; for (int i = 0; i < gridDim.x; i++) s += part[i]; *out = "
    "s; } }\n"
    "__global__ void half_barrier(int *out, int n) {\n"
    "  __shared__ int room[64]; int t = threadIdx.x; room[t] = t;\n"
    "  if (t % 32 < n) { room[t] += 1; asm volatile(\"bar.sync 0;\" ::: \"memory\"); }\n"
    "  else { room[t] += 2; asm volatile(\"bar.sync 0;\" ::: \"memory\"); room[t] += 3; }\n"
    "  out[t] = room[t]; }\n"
    "__global__ void early_exit(int *out, int n) {\n"
    "  __shared__ int room[64]; int t = threadIdx.x; if (t >= n) return;\n"
    "  room[t] = t; __syncthreads(); out[t] = room[n - 1 - t]; }\n"
    "__global__ void missed(int *out, int n) {\n"
    "  if (threadIdx.x < n) __syncthreads(); out[threadIdx.x] = 1; if (n < 64) __syncthreads(); }\n"
    "}\n";

static struct test_call strict_call(const struct exec_module *module, const char *name,
                                    unsigned grid, unsigned block)
{
    struct test_call call = call_of(module, name, grid, block, 0);
    call.config.strict = EXEC_STRICT_RACES | EXEC_STRICT_UNWRITTEN;
    return call;
}

static void *ints(unsigned count, bool written)
{
    uint64_t address = test_alloc(count * 4, 256);
    exec_fill_unwritten(address, count * 4);
    if (written)
        memset((void *)(uintptr_t)address, 1, count * 4);
    return (void *)(uintptr_t)address;
}

static void test_unwritten(const struct exec_module *module)
{
    char *in = ints(64, false);
    memset(in, 0, 63 * 4 + 1); /* of the last word one byte */
    struct test_call call = strict_call(module, "copies", 1, 64);
    ARG(&call, void *, in);
    ARG(&call, void *, ints(64, false));
    CHECK(call_run(&call) == EXEC_OK);
    exec_fill_unwritten((uintptr_t)in + 160, 4);
    CHECK(call_run(&call) == EXEC_UNWRITTEN);
    CHECK(call_says(&call, "kernel copies, PTX line ") &&
          call_says(&call, "thread (40,0,0): read of 4 bytes") &&
          call_says(&call, "which nobody has written"));
    call.config.strict = EXEC_STRICT_RACES;
    CHECK(call_run(&call) == EXEC_OK);
    call = strict_call(module, "bytes", 1, 64);
    ARG(&call, void *, in);
    ARG(&call, void *, ints(64, false));
    CHECK(call_run(&call) == EXEC_OK);
    exec_fill_unwritten((uintptr_t)in + 8, 4);
    CHECK(call_run(&call) == EXEC_UNWRITTEN && call_says(&call, "thread (8,0,0): read of 1 bytes"));
    call = strict_call(module, "shared_unset", 1, 64);
    ARG(&call, void *, ints(64, false));
    ARG(&call, int, 64);
    CHECK(call_run(&call) == EXEC_OK);
    call.next = 1;
    ARG(&call, int, 63);
    CHECK(call_run(&call) == EXEC_UNWRITTEN && call_says(&call, "shared address 0xfc"));
}

/* The kernel of that name with a switch: on, it is right. */
static struct test_call with(const struct exec_module *module, const char *name, unsigned grid,
                             unsigned block, bool right)
{
    struct test_call call = strict_call(module, name, grid, block);
    call.config.strict = EXEC_STRICT_RACES;
    ARG(&call, void *, ints(4096, true));
    if (!strcmp(name, "hand_over")) {
        int *flag = ints(1, true);
        *flag = 0;
        ARG(&call, void *, flag);
    }
    ARG(&call, int, right);
    return call;
}

static void test_races(const struct exec_module *module)
{
    static const struct {
        const char *name, *text;
        unsigned grid, block;
    } cases[] = {
        {"no_barrier", "at shared address", 1, 64},
        {"no_warp_sync", "at shared address", 1, 32},
        {"sum", "races with a ", 1, 64},
        {"sum", "by block (0,0,0), thread (0,0,0)", 2, 1},
        {"same_value", "write of 4 bytes", 1, 64},
        {"hand_over", "races with a write", 2, 32},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct test_call call = with(module, cases[i].name, cases[i].grid, cases[i].block, true);
        if (!CHECK(call_run(&call) == EXEC_OK))
            fprintf(stderr, "%s\n", call.result.text);
        call = with(module, cases[i].name, cases[i].grid, cases[i].block, false);
        if (!strcmp(cases[i].name, "same_value")) {
            call.next = 1;
            ARG(&call, int, -1);
        }
        if (!CHECK(call_run(&call) == EXEC_RACE))
            fprintf(stderr, "%s: %s\n", cases[i].name, call.result.text);
        CHECK(call_says(&call, cases[i].text) && call_says(&call, "PTX line "));
        call.config.strict = 0;
        CHECK(call_run(&call) == EXEC_OK);
    }
    struct test_call call = strict_call(module, "neighbours", 4, 64);
    ARG(&call, void *, ints(64, false));
    CHECK(call_run(&call) == EXEC_OK);
    call = strict_call(module, "last_block", 8, 64);
    int *count = ints(1, true), *out = ints(1, false);
    *count = 0;
    ARG(&call, void *, ints(512, true));
    ARG(&call, void *, ints(8, false));
    ARG(&call, void *, count);
    ARG(&call, void *, out);
    if (!CHECK(call_run(&call) == EXEC_OK))
        fprintf(stderr, "%s\n", call.result.text);
    CHECK(*out == (int)(512u * 0x01010101u));
}

static void test_barriers(const struct exec_module *module)
{
    static const struct {
        const char *name;
        int n;
        enum exec_fault fault;
    } cases[] = {
        {"half_barrier", 16, EXEC_DIVERGENT}, {"half_barrier", 32, EXEC_OK},
        {"half_barrier", 0, EXEC_OK},         {"early_exit", 40, EXEC_OK},
        {"early_exit", 64, EXEC_OK},          {"missed", 64, EXEC_OK},
        {"missed", 16, EXEC_DIVERGENT},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct test_call call = call_of(module, cases[i].name, 1, 64, 0);
        ARG(&call, void *, ints(64, false));
        ARG(&call, int, cases[i].n);
        if (!CHECK(call_run(&call) == cases[i].fault))
            fprintf(stderr, "%s %d: %s\n", cases[i].name, cases[i].n, call.result.text);
        if (cases[i].fault != EXEC_OK)
            CHECK(call_says(&call, "divergent barrier: ") && call_says(&call, "PTX line ") &&
                  call_says(&call, "block (0,0,0), thread ("));
    }
}

/* No false report on the samples. */
static void test_samples(void)
{
    for (unsigned i = 0; i < 2 * SAMPLE_COUNT; i++) {
        struct sample sample = sample_make(i / 2, i % 2, 0);
        exec_fill_unwritten((uintptr_t)sample.out, sample.size);
        sample.call.config.strict = EXEC_STRICT_RACES | EXEC_STRICT_UNWRITTEN;
        call_good(&sample.call);
        sample_drop(&sample);
    }
}

/* Nor on the corpus: only where a race was put in. */
static void test_corpus(void)
{
    unsigned ran = 0, raced = 0;
    for (unsigned i = 0; i < corpus_count; i++) {
        struct corpus_case c;
        struct exec_config config = {.strict = EXEC_STRICT_RACES | EXEC_STRICT_UNWRITTEN};
        struct exec_result result;
        if (!corpus_open(&corpus[i], &c))
            continue;
        corpus_fill(&c, 1);
        for (unsigned k = 0; k < c.buffer_count; k++)
            if (c.buffers[k].arg->fill == CORPUS_POISON)
                exec_fill_unwritten(c.buffers[k].base, c.buffers[k].size);
        corpus_run(&c, NULL, &config, &result);
        bool reported = result.fault == EXEC_RACE || result.fault == EXEC_UNWRITTEN ||
                        result.fault == EXEC_DIVERGENT;
        if (!CHECK(!reported || (corpus[i].traits & CORPUS_RACES)))
            fprintf(stderr, "%s\n", result.text);
        raced += reported;
        ran++;
        corpus_close(&c);
    }
    fprintf(stderr, "corpus: %u kernels ran, %u with a race put in were reported\n", ran, raced);
}

int main(void)
{
    struct exec_module *module = module_of_cuda(source, "-arch=compute_90 -std=c++17");
    if (module) {
        test_unwritten(module);
        test_races(module);
        test_barriers(module);
    }
    exec_module_destroy(module);
    test_free_all();
    test_samples();
    test_corpus();
    return test_result();
}
