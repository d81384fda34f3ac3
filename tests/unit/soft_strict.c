/* SOFTGPU_STRICT and what is found without it, through the driver: one line on standard error that
 * says kernel, line, block, thread and address, then the error that hardware gives; and a block
 * order by SOFTGPU_SEED that shows what depends on it. Each case runs in a process of its own. */
#include "softgpu/soft_test.h"

static const char text_ptx[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry last(.param .u64 p)\n{\n"
    "  .reg .b64 %rd<3>; .reg .b32 %r<3>;\n  ld.param.u64 %rd1, [p];\n"
    "  mov.u32 %r1, %ctaid.x;\n  st.global.u32 [%rd1], %r1;\n  ret;\n}\n"
    ".visible .entry crooked(.param .u64 p)\n{\n"
    "  .reg .b64 %rd<3>; .reg .b32 %r<3>;\n  ld.param.u64 %rd1, [p];\n"
    "  ld.global.u32 %r1, [%rd1+2];\n  st.global.u32 [%rd1], %r1;\n  ret;\n}\n"
    ".visible .entry halves(.param .u64 p)\n{\n"
    "  .reg .b32 %r<3>; .reg .pred %p<3>;\n  mov.u32 %r1, %tid.x;\n"
    "  setp.lt.u32 %p1, %r1, 16;\n  @%p1 bra low;\n  bar.sync 0;\n  ret;\n"
    "low:\n  bar.sync 0;\n  ret;\n}\n";

static CUresult run_one(const char *name, CUdeviceptr p, unsigned grid, unsigned block)
{
    void *params[] = {&p};
    CUresult result = cu.cuLaunchKernel(function_of(text_ptx, name), grid, 1, 1, block, 1, 1, 0,
                                        NULL, params, NULL);
    return result == CUDA_SUCCESS ? cu.cuCtxSynchronize() : result;
}

/* Standard error of this process from now on. */
static int heard = -1;

static void hear(void)
{
    char path[] = "/tmp/kgenrt-strict-XXXXXX";
    heard = mkstemp(path);
    if (!CHECK(heard >= 0 && !unlink(path) && dup2(heard, STDERR_FILENO) == STDERR_FILENO))
        exit(1);
}

/* One line has been said, with these words in it. */
static bool said(const char *one, const char *other)
{
    char text[4096];
    ssize_t length = pread(heard, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = 0;
    char *end = strchr(text, '\n');
    bool good =
        end && !end[1] && !strncmp(text, "softgpu[", 8) && strstr(text, one) && strstr(text, other);
    if (!good)
        printf("'%s' is not one line with '%s' and '%s'\n", text, one, other);
    return good;
}

static void past_end(void)
{
    struct vadd v;
    vadd_make(&v, 1000);
    OK(cu.cuMemFree_v2(v.c));
    OK(cu.cuMemAlloc_v2(&v.c, 3996));
    OK(vadd_launch(function_of(vadd_ptx, "vadd"), &v, NULL));
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuCtxSynchronize());
    CHECK(
        said("kernel vadd, PTX line ", "block (7,0,0), thread (103,0,0): write of 4 bytes at 0x"));
}

static void misaligned(void)
{
    CUdeviceptr p;
    OK(cu.cuMemAlloc_v2(&p, 64));
    GIVES(CUDA_ERROR_MISALIGNED_ADDRESS, run_one("crooked", p, 1, 1));
    CHECK(said("kernel crooked, PTX line 16,", "read of 4 bytes at misaligned address 0x"));
}

static void divergent(void)
{
    GIVES(CUDA_ERROR_LAUNCH_FAILED, run_one("halves", 0, 1, 32));
    CHECK(said("kernel halves, PTX line ", "divergent barrier: bar.sync"));
}

/* The address is not given out again, so that the stale pointer is seen. */
static void freed(void)
{
    struct vadd v;
    CUdeviceptr other;
    vadd_make(&v, 1000);
    OK(cu.cuMemFree_v2(v.a));
    OK(cu.cuMemAlloc_v2(&other, 4000));
    CHECK(other != v.a);
    OK(vadd_launch(function_of(vadd_ptx, "vadd"), &v, NULL));
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuCtxSynchronize());
    CHECK(said("thread (0,0,0): read of 4 bytes at 0x", "which was freed"));
}

static void unwritten(void)
{
    struct vadd v;
    vadd_make(&v, 1000);
    CUfunction function = function_of(vadd_ptx, "vadd");
    OK(vadd_launch(function, &v, NULL));
    OK(cu.cuCtxSynchronize());
    CHECK(vadd_wrong(&v) == 0);
    OK(cu.cuMemFree_v2(v.b));
    OK(cu.cuMemAlloc_v2(&v.b, 4000));
    OK(cu.cuMemsetD8_v2(v.b, 0, 3900));
    OK(vadd_launch(function, &v, NULL));
    GIVES(CUDA_ERROR_LAUNCH_FAILED, cu.cuCtxSynchronize());
    CHECK(said("thread (79,0,0): read of 4 bytes", "which nobody has written"));
}

static void races(void)
{
    CUdeviceptr p;
    OK(cu.cuMemAlloc_v2(&p, 64));
    OK(run_one("last", p, 1, 1));
    GIVES(CUDA_ERROR_LAUNCH_FAILED, run_one("last", p, 2, 1));
    CHECK(said("kernel last, PTX line 9, block (1,0,0), thread (0,0,0): write of 4 bytes at 0x",
               "races with a write in PTX line 9 by block (0,0,0), thread (0,0,0)"));
}

static void nothing(void)
{
    struct vadd v;
    vadd_make(&v, 1000);
    CUfunction function = function_of(vadd_ptx, "vadd");
    OK(vadd_launch(function, &v, NULL));
    CHECK(vadd_wrong(&v) == 0);
    vadd_free(&v);
    char none[8];
    CHECK(pread(heard, none, sizeof none, 0) == 0);
}

/* The block that runs last is not always the last one. */
static void order(void)
{
    CUdeviceptr p;
    unsigned seen = 0, value = 0;
    OK(cu.cuMemAlloc_v2(&p, 64));
    for (unsigned i = 0; i < 8; i++) {
        OK(run_one("last", p, 16, 1));
        OK(cu.cuMemcpyDtoH_v2(&value, p, 4));
        seen |= 1u << value;
    }
    CHECK(__builtin_popcount(seen) > 2);
}

static void in_order(void)
{
    CUdeviceptr p;
    unsigned value = 0;
    OK(cu.cuMemAlloc_v2(&p, 64));
    for (unsigned i = 0; i < 8; i++) {
        OK(run_one("last", p, 16, 1));
        OK(cu.cuMemcpyDtoH_v2(&value, p, 4));
        CHECK(value == 15);
    }
}

static void refused(void)
{
    CUdevice device;
    soft_open();
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuInit(0));
    CHECK(said("SOFTGPU_STRICT=unwriten:", "unwritten, races, freed or all"));
    CHECK(cu.cuDeviceGet(&device, 0) != CUDA_SUCCESS);
}

static const struct soft_case cases[] = {
    {"past_end", past_end, NULL, NULL},
    {"misaligned", misaligned, NULL, NULL},
    {"divergent", divergent, NULL, NULL},
    {"freed", freed, "SOFTGPU_STRICT", "freed"},
    {"unwritten", unwritten, "SOFTGPU_STRICT", "races,unwritten"},
    {"races", races, "SOFTGPU_STRICT", "races"},
    {"nothing", nothing, "SOFTGPU_STRICT", "all"},
    {"in_order", in_order, NULL, NULL},
    {"order", order, "SOFTGPU_SEED", "5"},
    {"refused", refused, "SOFTGPU_STRICT", "unwriten"},
};

int main(int argc, char **argv)
{
    const struct soft_case *own = soft_cases(argc, argv, cases, sizeof cases / sizeof *cases);
    if (own) {
        hear();
        if (own->run != refused)
            soft_begin();
        own->run();
    }
    return test_result();
}
