/* Recording of touched bytes: exact to the byte, for every kind of access, from any host thread. */
#include "exec_test.h"

static const char source[] =
    ".version 8.0\n"
    ".target sm_90\n"
    ".address_size 64\n"
    ".visible .entry touches(.param .u64 p, .param .u64 q) {\n"
    "  .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .b16 %h<3>; .reg .pred %p<3>;\n"
    "  .shared .align 16 .b8 room[64];\n"
    "  ld.param.u64 %rd1, [p];\n"
    "  ld.param.u64 %rd2, [q];\n"
    "  mov.u32 %r1, %tid.x;\n"
    "  mov.u32 %r2, %ctaid.x;\n"
    "  mad.lo.s32 %r3, %r2, 64, %r1;\n"
    "  mul.wide.u32 %rd3, %r3, 12;\n" /* of every twelve bytes: four read, one, then two written */
    "  add.s64 %rd4, %rd1, %rd3;\n"
    "  ld.global.u32 %r4, [%rd4];\n"
    "  st.global.u8 [%rd4+5], %r4;\n"
    "  mov.u16 %h1, 3;\n"
    "  st.u16 [%rd4+8], %h1;\n" /* a generic address */
    "  setp.ne.u32 %p1, %r3, 0;\n"
    "  @%p1 bra done;\n"
    "  ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd2+16];\n"
    "  st.global.v2.u32 [%rd2+40], {%r4, %r5};\n"
    "  atom.global.add.u32 %r4, [%rd2+64], 1;\n"
    "  mov.u32 %r5, room;\n"
    "  cp.async.ca.shared.global [%r5], [%rd2+72], 8;\n"
    "  st.shared.u32 [room+16], %r4;\n"
    "done: ret;\n"
    "}\n"
    ".visible .entry beyond(.param .u64 p) {\n"
    "  .reg .b64 %rd<3>; .reg .b32 %r<3>;\n"
    "  ld.param.u64 %rd1, [p];\n"
    "  ld.global.u32 %r1, [%rd1];\n"
    "  ld.global.u32 %r1, [%rd1+64];\n"
    "  ret;\n"
    "}\n";

enum { BLOCKS = 40, THREADS = 64, P = BLOCKS * THREADS * 12, Q = 128 };

static bool touched_in(const uint8_t *bitmap, unsigned byte, unsigned first, unsigned size)
{
    return exec_was_touched(bitmap, byte) == (byte >= first && byte < first + size);
}

static void test_touches(const struct exec_module *module, unsigned threads)
{
    static uint8_t p_read[P / 8], p_written[P / 8], q_read[Q / 8], q_written[Q / 8];
    char *p = (char *)test_alloc(P, 256), *q = (char *)test_alloc(Q, 256);
    struct exec_touched ranges[] = {{(uintptr_t)p, P, p_read, p_written},
                                    {(uintptr_t)q, Q, q_read, q_written}};
    struct exec_record record = {ranges, 2};
    struct test_call call = call_of(module, "touches", BLOCKS, THREADS, 0);
    memset(p_read, 0, sizeof p_read);
    memset(p_written, 0, sizeof p_written);
    memset(q_read, 0, sizeof q_read);
    memset(q_written, 0, sizeof q_written);
    call.config.threads = threads;
    call.config.record = &record;
    ARG(&call, void *, p);
    ARG(&call, void *, q);
    CHECK(call_good(&call));
    unsigned wrong = 0;
    for (unsigned i = 0; i < P; i++) {
        wrong += exec_was_touched(p_read, i) != (i % 12 < 4);
        wrong += exec_was_touched(p_written, i) != (i % 12 == 5 || i % 12 == 8 || i % 12 == 9);
    }
    for (unsigned i = 0; i < Q; i++) {
        bool atomic = i >= 64 && i < 68;
        wrong += !touched_in(q_read, i, 16, 16) && !atomic && !touched_in(q_read, i, 72, 8);
        wrong += atomic && !exec_was_touched(q_read, i);
        wrong += atomic ? !exec_was_touched(q_written, i) : !touched_in(q_written, i, 40, 8);
    }
    CHECK(wrong == 0);
    test_free_all();
}

/* Ranges that begin and end inside an access, or have no bitmap for one way. */
static void test_edges(const struct exec_module *module)
{
    char *p = (char *)test_alloc(64, 256);
    uint8_t bits[2] = {0};
    struct exec_touched ranges[] = {{(uintptr_t)p + 1, 2, bits, NULL},
                                    {(uintptr_t)p + 3, 8, NULL, bits + 1}};
    struct exec_record record = {ranges, 2};
    struct test_call call = call_of(module, "beyond", 1, 1, 0);
    call.config.record = &record;
    ARG(&call, void *, p);
    CHECK(call_run(&call) == EXEC_ILLEGAL_ADDRESS);
    CHECK(bits[0] == 3 && bits[1] == 0);
    test_free_all();
}

int main(void)
{
    struct exec_module *module = module_of(source);
    if (module) {
        for (unsigned threads = 1; threads <= 4; threads += 3)
            test_touches(module, threads);
        test_edges(module);
    }
    exec_module_destroy(module);
    return test_result();
}
