/* Threads that need each other: locks within a warp and between blocks, barriers of parts of a
 * block, mbarriers; a kernel's own heap and stack; and what is not implemented, which is named. */
#include "exec_test.h"

static const char locks[] =
    "__device__ int lock, blocks;\n"
    "extern \"C\" __global__ void inside(int *out) {\n" /* the usual one, safe on any GPU */
    "  bool done = false;\n"
    "  while (!done)\n"
    "    if (atomicCAS(&lock, 0, 1) == 0) {\n"
    "      *(volatile int *)out += 1; __threadfence(); atomicExch(&lock, 0); done = true;\n"
    "    }\n"
    "}\n"
    "extern \"C\" __global__ void outside(int *out) {\n" /* needs independent lanes */
    "  while (atomicCAS(&lock, 0, 1) != 0)\n"
    "    ;\n"
    "  *(volatile int *)out += 1; __threadfence(); atomicExch(&lock, 0);\n"
    "}\n"
    "extern \"C\" __global__ void chain(volatile int *turn, int *out) {\n" /* lane i waits for i+1
                                                                            */
    "  int i = threadIdx.x, n = blockDim.x;\n"
    "  while (*turn != n - 1 - i)\n"
    "    ;\n"
    "  out[n - 1 - i] = i; __threadfence(); *turn = n - i;\n"
    "}\n"
    "extern \"C\" __global__ void last(int *out) {\n" /* every block waits for all */
    "  if (threadIdx.x == 0) {\n"
    "    atomicAdd(&blocks, 1);\n"
    "    while (*(volatile int *)&blocks < gridDim.x)\n"
    "      __nanosleep(20);\n"
    "  }\n"
    "  __syncthreads();\n"
    "  atomicAdd(out, 1);\n"
    "}\n"
    "extern \"C\" __global__ void heap(int *out, int n) {\n"
    "  int *p = (int *)malloc(n * sizeof *p), sum = 0;\n"
    "  for (int i = 0; p && i < n; i++) p[i] = i * threadIdx.x;\n"
    "  for (int i = 0; p && i < n; i++) sum += p[i];\n"
    "  out[threadIdx.x] = p ? sum : -1;\n"
    "  free(p);\n"
    "}\n"
    "extern \"C\" __global__ void beyond(int *out) {\n"
    "  volatile int *p = (volatile int *)malloc(16); out[0] = p[4];\n"
    "}\n"
    "extern \"C\" __global__ void twice(int *out) {\n"
    "  int *p = (int *)malloc(16); free(p); free(p); out[0] = 1;\n"
    "}\n";

static void test_locks(const struct exec_module *module)
{
    int *out = (int *)test_alloc(4096, 256), *turn = (int *)test_alloc(64, 256);
    static const char *const names[] = {"inside", "outside"};
    for (int i = 0; i < 2; i++) {
        *out = 0;
        struct test_call call = call_of(module, names[i], 6, 96, 0);
        call.config.threads = 2;
        ARG(&call, void *, out);
        CHECK(call_good(&call) && *out == 6 * 96);
    }
    struct test_call call = call_of(module, "chain", 1, 64, 0);
    *turn = 0;
    ARG(&call, void *, turn);
    ARG(&call, void *, out);
    if (CHECK(call_good(&call)))
        for (int i = 0; i < 64; i++)
            CHECK(out[i] == 63 - i);
    *out = 0;
    call = call_of(module, "last", 300, 32, 0);
    call.config.cooperative = true;
    ARG(&call, void *, out);
    CHECK(call_good(&call) && *out == 300 * 32);
}

static void test_heap(const struct exec_module *module)
{
    int *out = (int *)test_alloc(4096, 256);
    struct test_call call = call_of(module, "heap", 1, 64, 0);
    ARG(&call, void *, out);
    ARG(&call, int, 10);
    if (CHECK(call_good(&call)))
        for (int i = 0; i < 64; i++)
            CHECK(out[i] == 45 * i);
    call = call_of(module, "heap", 1, 4, 0);
    call.config.heap = 4096;
    ARG(&call, void *, out);
    ARG(&call, int, 1000);
    CHECK(call_good(&call) && out[0] == 0 && out[1] == -1 && out[3] == -1);
    call = call_of(module, "beyond", 1, 1, 0);
    ARG(&call, void *, out);
    CHECK(call_run(&call) == EXEC_ILLEGAL_ADDRESS);
    call = call_of(module, "twice", 1, 1, 0);
    ARG(&call, void *, out);
    CHECK(call_run(&call) == EXEC_ILLEGAL_ADDRESS && strstr(call.result.text, "free of 0x"));
}

#define HEAD ".version 9.0\n.target sm_90\n.address_size 64\n"
#define ENTRY(body)                                                                                \
    HEAD ".visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\n"             \
         ".reg .pred %p<9>;\nld.param.u64 %d0, [out];\n" body "\nret;\n}\n"

/* One warp loads, the others use, in turns, through two mbarriers a place. */
static const char pipeline[] = ENTRY(
    ".shared .align 8 .b64 full[2], empty[2];\n.shared .b32 place[2];\n"
    "mov.u32 %r0, %tid.x;\nmov.u32 %r1, 0;\nmov.u32 %r6, 0;\nsetp.ne.u32 %p0, %r0, 0;\n"
    "@%p0 bra ready;\nmbarrier.init.shared.b64 [full], 1;\nmbarrier.init.shared.b64 [full+8], 1;\n"
    "mbarrier.init.shared.b64 [empty], 32;\nmbarrier.init.shared.b64 [empty+8], 32;\nready:\n"
    "bar.sync 0;\nsetp.ge.u32 %p1, %r0, 32;\n"
    "next:\nand.b32 %r2, %r1, 1;\nshr.u32 %r3, %r1, 1;\nand.b32 %r3, %r3, 1;\nshl.b32 %r2, %r2, "
    "3;\n"
    "mov.u32 %r4, full;\nadd.u32 %r4, %r4, %r2;\nmov.u32 %r5, empty;\nadd.u32 %r5, %r5, %r2;\n"
    "shr.u32 %r2, %r2, 1;\nmov.u32 %r7, place;\nadd.u32 %r7, %r7, %r2;\n@%p1 bra use;\n"
    "setp.ne.u32 %p2, %r0, 0;\n@%p2 bra last;\nxor.b32 %r3, %r3, 1;\n"
    "free: mbarrier.try_wait.parity.shared.b64 %p3, [%r5], %r3;\n@!%p3 bra free;\n"
    "st.shared.b32 [%r7], %r1;\nmbarrier.arrive.shared.b64 _, [%r4];\nbra.uni last;\n"
    "use: mbarrier.try_wait.parity.shared.b64 %p3, [%r4], %r3;\n@!%p3 bra use;\n"
    "ld.shared.b32 %r8, [%r7];\nmad.lo.u32 %r6, %r6, 3, %r8;\n"
    "mbarrier.arrive.shared.b64 _, [%r5];\n"
    "last:\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p4, %r1, 9;\n@%p4 bra next;\n"
    "mul.wide.u32 %d1, %r0, 4;\nadd.u64 %d0, %d0, %d1;\nst.global.b32 [%d0], %r6;");

static void test_pipeline(void)
{
    struct exec_module *module = module_of(pipeline);
    unsigned *out = (unsigned *)test_alloc(4096, 256), expected = 0;
    for (unsigned i = 0; i < 9; i++)
        expected = expected * 3 + i;
    struct test_call call = call_of(module, "k", 1, 64, 0);
    ARG(&call, void *, out);
    if (CHECK(call_good(&call)))
        for (int i = 32; i < 64; i++)
            CHECK(out[i] == expected);
    exec_module_destroy(module);
}

/* Bulk copies: 64 bytes come, each thread adds its number to a word, they go back. */
static const char bulk[] = ENTRY(
    ".shared .align 16 .b8 place[64];\n.shared .align 8 .b64 bar;\n"
    "mov.u32 %r0, %tid.x;\nmov.u32 %r1, place;\nmov.u32 %r2, bar;\nsetp.eq.u32 %p0, %r0, 0;\n"
    "@%p0 mbarrier.init.shared.b64 [%r2], 16;\nbar.sync 0;\n"
    "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d0], 64, "
    "[%r2];\n@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 %d1, [%r2], 64;\n"
    "@!%p0 mbarrier.arrive.shared::cta.b64 %d1, [%r2];\n"
    "wait: mbarrier.try_wait.shared::cta.b64 %p1, [%r2], %d1;\n@!%p1 bra wait;\n"
    "shl.b32 %r3, %r0, 2;\nadd.u32 %r3, %r3, %r1;\nld.shared.u32 %r4, [%r3];\n"
    "add.u32 %r4, %r4, %r0;\nst.shared.u32 [%r3], %r4;\nfence.proxy.async.shared::cta;\n"
    "bar.sync 0;\n@%p0 cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r1], 64;\n"
    "@%p0 cp.async.bulk.commit_group;\n@%p0 cp.async.bulk.wait_group.read 0;");

static void test_bulk(void)
{
    struct exec_module *module = module_of(bulk);
    unsigned *out = (unsigned *)test_alloc(64, 256);
    for (unsigned i = 0; i < 16; i++)
        out[i] = 100 * i;
    struct test_call call = call_of(module, "k", 1, 16, 0);
    ARG(&call, void *, out);
    if (CHECK(call_good(&call)))
        for (unsigned i = 0; i < 16; i++)
            CHECK(out[i] == 101 * i);
    exec_module_destroy(module);
}

/* What is missing says so, by name and place; that it is skipped would be worse. */
static void test_missing(void)
{
    static const char *const texts[] = {
        "wgmma.fence.sync.aligned;",
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d0, "
        "{%r2}], [%r3];",
        "griddepcontrol.wait; cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d0], "
        "[%r1], 16;",
        "tex.1d.v4.f32.s32 {%r1, %r2, %r3, %r4}, [%d0, {%r0}];",
        "barrier.cluster.arrive; fma.rn.oob.f16x2 %r0, %r1, %r2, %r3;",
        "mma.sync.aligned.m16n8k16.row.col.kind::f8f6f4.f32.e3m2.e3m2.f32 {%r0, %r1, %r2, %r3}, "
        "{%r4, %r5}, {%r6}, {%r0, %r1, %r2, %r3};",
    };
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
        char ptx[2000], name[64];
        const char *end = strrchr(texts[i], ';'), *at = texts[i];
        if (strchr(at, ';') != end)
            at = strchr(at, ';') + 2; /* the second instruction is the missing one */
        snprintf(ptx, sizeof ptx,
                 HEAD
                 ".visible .entry k(.param .u64 out)\n{\n.reg .b32 %%r<9>;\n.reg .b64 %%d<9>;\n"
                 ".reg .pred %%p<9>;\nld.param.u64 %%d0, [out];\n  %s\nret;\n}\n",
                 texts[i]);
        snprintf(name, sizeof name, "%.*s is not implemented", (int)strcspn(at, " ;"), at);
        struct exec_module *module = module_of(ptx);
        struct test_call call = call_of(module, "k", 1, 32, 0);
        ARG(&call, void *, NULL);
        CHECK(call_run(&call) == EXEC_UNSUPPORTED);
        if (!CHECK(strstr(call.result.text, name) && strstr(call.result.text, "PTX line 10:")))
            fprintf(stderr, "%s\n", call.result.text);
        exec_module_destroy(module);
    }
}

int main(void)
{
    struct exec_module *module = module_of_cuda(locks, "-arch=compute_90");
    if (module) {
        test_locks(module);
        test_heap(module);
    }
    exec_module_destroy(module);
    test_pipeline();
    test_bulk();
    test_missing();
    test_free_all();
    return test_result();
}
