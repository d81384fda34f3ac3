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

static bool says(const struct test_call *call, const char *words)
{
    if (strstr(call->result.text, words))
        return true;
    fprintf(stderr, "'%s' does not say '%s'\n", call->result.text, words);
    return false;
}

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
    CHECK(
        says(&call, "kernel reach, PTX line 15, block (3,0,0), thread (4,0,0): write of 4 bytes"));
    call.next = 0;
    ARG(&call, void *, (void *)(uintptr_t)64);
    ARG(&call, int, 100);
    CHECK(call_run(&call) == EXEC_ILLEGAL_ADDRESS &&
          says(&call, "at 0x40, which is not allocated"));
    call.next = 0;
    ARG(&call, void *, (char *)out + 2);
    ARG(&call, int, 1);
    CHECK(call_run(&call) == EXEC_MISALIGNED &&
          says(&call, "line 15, block (0,0,0), thread (0,0,0)"));
    for (unsigned i = 0; i < test_range_count; i++)
        test_ranges[i].writable &= test_ranges[i].base != (uintptr_t)out;
    call.next = 0;
    ARG(&call, void *, out);
    ARG(&call, int, 1);
    CHECK(call_run(&call) == EXEC_ILLEGAL_ADDRESS && says(&call, "read-only"));
}

static void test_vector(const struct exec_module *module)
{
    char *in = (char *)test_alloc(64, 256);
    struct test_call call = call_of(module, "crooked", 1, 1, 0);
    ARG(&call, void *, in);
    CHECK(call_run(&call) == EXEC_MISALIGNED && says(&call, "PTX line 21,") &&
          says(&call, "read of 16 bytes"));
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
    CHECK(call_run(&call) == EXEC_TRAP && says(&call, "line 31,") && says(&call, "thread (7,0,0)"));
    call = call_of(module, "traps", 1, 7, 0);
    CHECK(call_run(&call) == EXEC_OK);
    call = call_of(module, "waits", 1, 96, 0);
    CHECK(call_run(&call) == EXEC_DEADLOCK && says(&call, "bar.sync"));
    call = call_of(module, "shares", 1, 1, 0);
    CHECK(call.info.static_shared == 64);
    ARG(&call, int, 60);
    CHECK(call_run(&call) == EXEC_OK);
    call.next = 0;
    ARG(&call, int, 64);
    CHECK(call_run(&call) == EXEC_ILLEGAL_ADDRESS && says(&call, "shared"));
    call.next = 0;
    ARG(&call, int, -4);
    CHECK(call_run(&call) == EXEC_ILLEGAL_ADDRESS);
    call.next = 0;
    ARG(&call, int, 2);
    CHECK(call_run(&call) == EXEC_MISALIGNED);
    call = call_of(module, "strange", 1, 1, 0);
    CHECK(call_run(&call) == EXEC_UNSUPPORTED && says(&call, "frobnicate.sync.b32") &&
          says(&call, "line 51:3,"));
    call = call_of(module, "unreached", 1, 1, 0);
    CHECK(call_run(&call) == EXEC_OK);
    call = call_of(module, "recurses", 1, 1, 0);
    CHECK(call_run(&call) == EXEC_ILLEGAL_ADDRESS && says(&call, "stack overflow"));
    call = call_of(module, "traps", 1, 1025, 0);
    CHECK(call_run(&call) == EXEC_UNSUPPORTED && says(&call, "(1025,1,1) threads"));
    call = call_of(module, "traps", 0, 1, 0);
    CHECK(call_run(&call) == EXEC_UNSUPPORTED);
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
    CHECK(call_run(&call) == EXEC_ASSERT && says(&call, "n < 5"));
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
    test_refusals();
    test_free_all();
    test_assert();
    return test_result();
}
