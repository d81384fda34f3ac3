/* Faults of kernels: each must be found, and say where. */
#include "exec_test.h"

#include <pthread.h>

/* Line numbers in this text are part of the test. */
static const char source[] = ".version 7.5\n"
                             ".target sm_80\n"
                             ".address_size 64\n"
                             ".visible .entry reach(.param .u64 p, .param .u32 n) {\n"
                             "  .reg .b32 %r<6>; .reg .b64 %rd<5>; .reg .pred %p<2>;\n"
                             "  ld.param.u64 %rd1, [p];\n"
                             "  ld.param.u32 %r1, [n];\n"
                             "  mov.u32 %r2, %tid.x;\n"
                             "  mov.u32 %r4, %ctaid.x;\n"
                             "  mad.lo.s32 %r2, %r4, 32, %r2;\n"
                             "  mul.wide.s32 %rd2, %r2, 4;\n"
                             "  add.s64 %rd3, %rd1, %rd2;\n"
                             "  setp.ge.s32 %p1, %r2, %r1;\n"
                             "  @%p1 bra done;\n"
                             "  st.global.u32 [%rd3], %r2;\n"
                             "done: ret;\n"
                             "}\n"
                             ".visible .entry crooked(.param .u64 p) {\n"
                             "  .reg .b64 %rd<3>; .reg .f32 %f<5>;\n"
                             "  ld.param.u64 %rd1, [p];\n"
                             "  ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+8];\n"
                             "  ret;\n"
                             "}\n"
                             ".visible .entry endless() {\n"
                             "top: bra top;\n"
                             "}\n"
                             ".visible .entry traps() {\n"
                             "  .reg .pred %p<2>; .reg .b32 %r<2>;\n"
                             "  mov.u32 %r1, %tid.x;\n"
                             "  setp.eq.u32 %p1, %r1, 7;\n"
                             "  @%p1 trap;\n"
                             "  ret;\n"
                             "}\n"
                             ".visible .entry waits() {\n"
                             "  .reg .pred %p<2>; .reg .b32 %r<2>;\n"
                             "  mov.u32 %r1, %tid.x;\n"
                             "  setp.lt.u32 %p1, %r1, 32;\n"
                             "  @%p1 bar.sync 1, 96;\n"
                             "  @!%p1 bar.sync 2, 96;\n"
                             "  ret;\n"
                             "}\n"
                             ".visible .entry shares(.param .u32 at) {\n"
                             "  .shared .align 4 .b8 mine[64];\n"
                             "  .reg .b32 %r<3>;\n"
                             "  ld.param.u32 %r1, [at];\n"
                             "  st.shared.u32 [%r1], %r1;\n"
                             "  ret;\n"
                             "}\n"
                             ".visible .entry strange() {\n"
                             "  .reg .b32 %r<3>;\n"
                             "  frobnicate.sync.b32 %r1, %r2;\n"
                             "  ret;\n"
                             "}\n"
                             ".visible .entry unreached() {\n"
                             "  .reg .b32 %r<3>;\n"
                             "  bra over;\n"
                             "  frobnicate.sync.b32 %r1, %r2;\n"
                             "over: ret;\n"
                             "}\n"
                             ".func deep() { call.uni deep; ret; }\n"
                             ".visible .entry recurses() {\n"
                             "  call.uni deep;\n"
                             "  ret;\n"
                             "}\n";

static void test_reach(const struct exec_module *module)
{
    int *out = (int *)test_alloc(100 * 4, 256);
    struct test_call call = call_of(module, "reach", 4, 32, 0);
    ARG(&call, void *, out);
    ARG(&call, int, 100);
    CHECK(call_run(&call) == EXEC_OK && out[99] == 99);
    call.next = 1;
    ARG(&call, int, 101);
    CHECK(call_run(&call) == EXEC_ILLEGAL_ADDRESS);
    CHECK(call_says(&call,
                    "kernel reach, PTX line 15, block (3,0,0), thread (4,0,0): write of 4 bytes"));
    call.next = 0;
    ARG(&call, void *, (void *)(uintptr_t)64);
    ARG(&call, int, 100);
    CHECK(call_run(&call) == EXEC_ILLEGAL_ADDRESS &&
          call_says(&call, "at 0x40, which is not allocated"));
    call.next = 0;
    ARG(&call, void *, (char *)out + 2);
    ARG(&call, int, 1);
    CHECK(call_run(&call) == EXEC_MISALIGNED &&
          call_says(&call, "line 15, block (0,0,0), thread (0,0,0)"));
    for (unsigned i = 0; i < test_range_count; i++)
        test_ranges[i].writable &= test_ranges[i].base != (uintptr_t)out;
    call.next = 0;
    ARG(&call, void *, out);
    ARG(&call, int, 1);
    CHECK(call_run(&call) == EXEC_ILLEGAL_ADDRESS && call_says(&call, "read-only"));
}

static void test_vector(const struct exec_module *module)
{
    char *in = (char *)test_alloc(64, 256);
    struct test_call call = call_of(module, "crooked", 1, 1, 0);
    ARG(&call, void *, in);
    CHECK(call_run(&call) == EXEC_MISALIGNED && call_says(&call, "PTX line 21,") &&
          call_says(&call, "read of 16 bytes"));
    call.next = 0;
    ARG(&call, void *, in + 40);
    CHECK(call_run(&call) == EXEC_OK);
    call.next = 0;
    ARG(&call, void *, in + 56);
    CHECK(call_run(&call) == EXEC_ILLEGAL_ADDRESS);
}

static volatile bool cancel;

static void *cancel_soon(void *unused)
{
    usleep(30000);
    __atomic_store_n(&cancel, true, __ATOMIC_RELAXED);
    return unused;
}

static void test_endless(const struct exec_module *module)
{
    struct test_call call = call_of(module, "endless", 200, 64, 0);
    pthread_t thread;
    call.config.cancel = &cancel;
    for (unsigned threads = 0; threads < 3; threads++) {
        cancel = false;
        call.config.threads = threads;
        CHECK(!pthread_create(&thread, NULL, cancel_soon, NULL));
        uint64_t start = now_ns();
        CHECK(call_run(&call) == EXEC_CANCELLED);
        CHECK(now_ns() - start < UINT64_C(2000000000));
        CHECK(!pthread_join(thread, NULL));
        CHECK(call.result.instructions > 1000);
    }
}

static void test_others(const struct exec_module *module)
{
    struct test_call call = call_of(module, "traps", 1, 32, 0);
    CHECK(call_run(&call) == EXEC_TRAP && call_says(&call, "line 31,") &&
          call_says(&call, "thread (7,0,0)"));
    call = call_of(module, "traps", 1, 7, 0);
    CHECK(call_run(&call) == EXEC_OK);
    call = call_of(module, "waits", 1, 96, 0);
    CHECK(call_run(&call) == EXEC_DEADLOCK && call_says(&call, "bar.sync"));
    call = call_of(module, "shares", 1, 1, 0);
    CHECK(call.info.static_shared == 64);
    ARG(&call, int, 60);
    CHECK(call_run(&call) == EXEC_OK);
    call.next = 0;
    ARG(&call, int, 64);
    CHECK(call_run(&call) == EXEC_ILLEGAL_ADDRESS && call_says(&call, "shared"));
    call.next = 0;
    ARG(&call, int, -4);
    CHECK(call_run(&call) == EXEC_ILLEGAL_ADDRESS);
    call.next = 0;
    ARG(&call, int, 2);
    CHECK(call_run(&call) == EXEC_MISALIGNED);
    call = call_of(module, "strange", 1, 1, 0);
    CHECK(call_run(&call) == EXEC_UNSUPPORTED && call_says(&call, "frobnicate.sync.b32") &&
          call_says(&call, "line 51:3,"));
    call = call_of(module, "unreached", 1, 1, 0);
    CHECK(call_run(&call) == EXEC_OK);
    call = call_of(module, "recurses", 1, 1, 0);
    CHECK(call_run(&call) == EXEC_ILLEGAL_ADDRESS && call_says(&call, "stack overflow"));
    call = call_of(module, "traps", 1, 1025, 0);
    CHECK(call_run(&call) == EXEC_UNSUPPORTED && call_says(&call, "(1025,1,1) threads"));
    call = call_of(module, "traps", 0, 1, 0);
    CHECK(call_run(&call) == EXEC_UNSUPPORTED);
}

/* Registers have: %rd1 and %r1 the distance, %rd2 and %r2 a memory's address, %rd3 and %r3 the two
 * added, %rd4 global memory, 64 bytes, like the dynamic shared memory. Another kernel of the module
 * has much static shared memory. */
#define SPACES_HEAD                                                                                \
    ".version 7.7\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 dynamic[];\n"    \
    ".entry large() {\n  .shared .align 4 .b8 square[4096]; .reg .b32 %%r<2>;\n"                   \
    "  mov.u32 %%r1, square; st.shared.u32 [%%r1], %%r1; ret;\n}\n"                                \
    ".entry spaces(.param .u64 distance, .param .u64 global) {\n"                                  \
    "  .local .align 16 .b8 own[64]; .shared .align 4 .b8 little[32];\n"                           \
    "  .reg .b32 %%r<9>; .reg .b64 %%rd<9>; .reg .b32 %%x;\n"                                      \
    "  ld.param.u64 %%rd1, [distance]; cvt.u32.u64 %%r1, %%rd1; mov.u32 %%x, 0;\n"                 \
    "  ld.param.u64 %%rd4, [global]; mov.u64 %%rd2, %s;\n"                                         \
    "  cvt.u32.u64 %%r2, %%rd2; add.u32 %%r3, %%r2, %%r1; add.u64 %%rd3, %%rd2, %%rd1;\n"          \
    "  %s;\n  ret;\n}\n"

/* Whatever a register and an offset add up to: no access leaves its space unseen. */
static void test_spaces(void)
{
    static const struct {
        const char *memory, *access;
        int64_t least, most, beyond[3]; /* distances that are good, and that are not */
    } rows[] = {
        {"dynamic", "st.shared.u32 [%r3], %x", 0, 60, {-4, 64, -4060}},
        {"dynamic", "st.shared.u32 [%r3+8], %x", -8, 52, {-12, 56, -4068}},
        {"dynamic", "ld.shared.u32 %x, [%r3-8]", 8, 68, {4, 72, 0}},
        {"dynamic", "st.shared.u32 [%rd3], %x", 0, 60, {-4, 64, INT64_C(1) << 48}},
        {"dynamic", "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3]", 0, 48, {-16, 64, 1 << 20}},
        {"dynamic", "atom.shared.add.u32 %x, [%r3], 1", 0, 60, {-4, 64, -4060}},
        {"dynamic", "atom.shared.add.u32 %x, [%rd3], 1", 0, 60, {-4, 64, -(INT64_C(1) << 48)}},
        {"dynamic", "cp.async.ca.shared.global [%r3], [%rd4], 4", 0, 60, {-4, 64, -4060}},
        {"dynamic", "cvta.shared.u64 %rd5, %rd3; st.u32 [%rd5], %x", 0, 60, {-4, 64, -4060}},
        {"little", "st.shared.u32 [%r3], %x", 0, 28, {-4, 32, 4092}},
        {"own", "st.local.u32 [%r3], %x", 0, 60, {-4, 64, 1 << 30}},
        {"own", "ld.local.u32 %x, [%rd3-8]", 8, 68, {4, 72, (INT64_C(1) << 48) + 8}},
        {"own", "st.local.u32 [%rd3], %x", 0, 60, {-4, 64, -(INT64_C(1) << 48)}},
        {"own", "cvta.local.u64 %rd5, %rd3; st.u32 [%rd5], %x", 0, 60, {-4, 64, 1 << 30}},
        {"0",
         "add.u64 %rd5, %rd4, %rd3; st.global.u32 [%rd5], %x",
         0,
         60,
         {-4, 64, INT64_C(1) << 48}},
        {"0", "add.u64 %rd5, %rd4, %rd3; st.u32 [%rd5+4], %x", -4, 56, {-8, 60, INT64_MIN}},
        {"0",
         "add.u64 %rd5, %rd4, %rd3; atom.global.add.u32 %x, [%rd5], 1",
         0,
         60,
         {-4, 64, INT64_C(1) << 48}},
        {"0",
         "mov.b64 %rd5, distance; add.u64 %rd5, %rd5, %rd3; ld.param.u32 %x, [%rd5]",
         0,
         12,
         {-4, 16, 1 << 20}},
        {"0",
         "mov.b64 %rd5, distance; cvta.param.u64 %rd5, %rd5; add.u64 %rd5, %rd5, %rd3; "
         "ld.u32 %x, [%rd5]",
         0,
         12,
         {-4, 16, INT64_C(1) << 48}},
    };
    uint64_t global = test_alloc(64, 256);
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[2000];
        snprintf(text, sizeof text, SPACES_HEAD, rows[i].memory, rows[i].access);
        struct exec_module *module = module_of(text);
        const int64_t at[] = {rows[i].least, rows[i].most, rows[i].beyond[0], rows[i].beyond[1],
                              rows[i].beyond[2]};
        for (unsigned k = 0; module && k < 5; k++) {
            struct test_call call =
                call_of(module, "spaces", 1, 1, strcmp(rows[i].memory, "little") ? 64 : k % 2 * 64);
            ARG(&call, int64_t, at[k]);
            ARG(&call, uint64_t, global);
            if (!CHECK(call_run(&call) == (k < 2 ? EXEC_OK : EXEC_ILLEGAL_ADDRESS)))
                fprintf(stderr, "%s %s, distance %lld: %s\n", rows[i].memory, rows[i].access,
                        (long long)at[k], call.result.text);
        }
        exec_module_destroy(module);
    }
    test_free(global);
}

/* An address of one space, given to an instruction of another, by way of cvta. */
static void test_other_space(void)
{
    static const char *const rows[] = {"cvta.to.shared.u64 %rd5, %rd4; ld.shared.u32 %x, [%rd5]",
                                       "cvta.to.local.u64 %rd5, %rd4; ld.local.u32 %x, [%rd5]",
                                       "cvta.shared.u64 %rd5, %rd2; red.global.add.u32 [%rd5], 1",
                                       "cvta.shared.u64 %rd5, %rd2; ld.global.u32 %x, [%rd5]"};
    uint64_t global = test_alloc(64, 256);
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[2000];
        snprintf(text, sizeof text, SPACES_HEAD, "dynamic", rows[i]);
        struct exec_module *module = module_of(text);
        struct test_call call = call_of(module, "spaces", 1, 1, 64);
        ARG(&call, int64_t, 0);
        ARG(&call, uint64_t, global);
        if (!CHECK(call_run(&call) == EXEC_ILLEGAL_ADDRESS && call_says(&call, "state space")))
            fprintf(stderr, "%s\n", rows[i]);
        exec_module_destroy(module);
    }
    test_free(global);
}

static void test_assert(void)
{
    struct exec_module *module =
        module_of_cuda("#include <cassert>\n"
                       "extern \"C\" __global__ void asserts(int n) { assert(n < 5); }\n",
                       "-arch=compute_80");
    struct test_call call = call_of(module, "asserts", 1, 1, 0);
    ARG(&call, int, 4);
    CHECK(call_run(&call) == EXEC_OK);
    call.next = 0;
    ARG(&call, int, 5);
    CHECK(call_run(&call) == EXEC_ASSERT && call_says(&call, "n < 5"));
    exec_module_destroy(module);
}

static void test_refusals(void)
{
    static const struct {
        const char *ptx, *error;
    } cases[] = {
        {"", "1:1: no .version"},
        {".version 7.0\n.target sm_80\n.entry e() { add.s32 %r1, 1, 2; }",
         "3:22: %r1 is not declared"},
        {".version 7.0\n.entry e() {\n.reg .b32 %r<3>;\n  add.s32 %r1, 1, %r3; }",
         "4:19: %r3 is not declared"},
        {".version 7.0\n.entry e() {\n  bra away;\n}", "3:3: label away"},
        {".version 7.0\n.entry e() {\n.reg .b32 %r;  mov.u32 %r, 1\n}", "4:1: ';' expected"},
        {".version 7.0\n.global .u64 p = nothing;", "2:18: nothing is not declared"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct exec_module *module;
        char error[200];
        CHECK(exec_module_create(cases[i].ptx, &test_memory, &module, error, sizeof error) !=
              KG_OK);
        CHECK(!module);
        if (!CHECK(!strncmp(error, cases[i].error, strlen(cases[i].error))))
            fprintf(stderr, "%s, not %s\n", error, cases[i].error);
    }
}

int main(void)
{
    struct exec_module *module = module_of(source);
    if (module) {
        test_reach(module);
        test_vector(module);
        test_endless(module);
        test_others(module);
    }
    exec_module_destroy(module);
    test_spaces();
    test_other_space();
    test_refusals();
    test_free_all();
    test_assert();
    return test_result();
}
