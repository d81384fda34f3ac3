/* A kernel and a variant of it that differs on purpose (it adds 100), so that each launch tells
 * which code ran: the variant where its guard holds, the original elsewhere. A test publishes the
 * variant with adding_prepare() in one process, and runs the rest in others, with and without the
 * library. */
#ifndef ADDING_VARIANT_H
#define ADDING_VARIANT_H

#include "made_variant.h"

enum { COUNT = 1024, BYTES = 4 * COUNT };

#define BODY(name, parameters, coefficient, extra)                                                 \
    ".version 7.0\n.target sm_50\n.address_size 64\n"                                              \
    ".const .align 4 .f32 coefficient = 0f3F800000;\n"                                             \
    ".visible .entry " name                                                                        \
    "(.param .u64 in, .param .u64 out, .param .f32 a, .param .u32 n" parameters ")\n{\n"           \
    ".reg .pred %p; .reg .b32 %r<6>; .reg .f32 %f<6>; .reg .b64 %d<8>;\n"                          \
    "ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out];\n"                                           \
    "ld.param.f32 %f1, [a]; ld.param.u32 %r1, [n];\n"                                              \
    "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"                          \
    "mad.lo.s32 %r5, %r2, %r3, %r4;\n"                                                             \
    "setp.ge.u32 %p, %r5, %r1;\n@%p bra DONE;\n"                                                   \
    "cvta.to.global.u64 %d1, %d1; cvta.to.global.u64 %d2, %d2;\n"                                  \
    "mul.wide.u32 %d3, %r5, 4; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;\n"                    \
    "ld.global.f32 %f2, [%d4];\n" coefficient "fma.rn.f32 %f4, %f2, %f1, %f3;\n" extra             \
    "st.global.f32 [%d5], %f4;\nDONE:\nret;\n}\n"

static const char original[] = BODY("work", "", "ld.const.f32 %f3, [coefficient];\n", "");
static const char variant[] =
    BODY("fast", ", .param .u64 c", "ld.param.u64 %d6, [c]; ld.global.f32 %f3, [%d6];\n",
         "add.f32 %f4, %f4, 0f42C80000;\n");

/* ---- prepare -----------------------------------------------------------------------------------
 */

/* Exit status of the process that publishes. text: the variant, or another one with its form. */
static inline int adding_publish(const char *text)
{
    struct made made;
    float a = 2;
    struct kg_scalar scalars[] = {{2, 0, 4, 0, 0}, {3, 0, 4, COUNT, 0}};
    memcpy(&scalars[0].value, &a, sizeof a);
    struct kg_pointer pointers[] = {{0, 0, 16, 0, 0, BYTES}, {1, 0, 16, 0, 0, BYTES}};
    struct kg_variant v = made_begin(&made, original);
    CHECK(made.model.pointer_count == 2 && made.model.global_count == 1 && !made.model.ineligible);
    v.signature = (struct kg_signature){.launch = {{4, 1, 1}, {256, 1, 1}, 0},
                                        .scalar_count = 2,
                                        .pointer_count = 2,
                                        .scalars = scalars,
                                        .pointers = pointers};
    v.launch = (struct kg_launch){{2, 1, 1}, {512, 1, 1}, 0};
    v.note = "made by hand";
    v.global_count = 1;
    v.globals[0] = "coefficient";
    made_publish(&made, &v, text, "{}");
    return test_result();
}

static inline int adding_prepare(void)
{
    return adding_publish(variant);
}

/* ---- program -----------------------------------------------------------------------------------
 */

static CUdeviceptr in, out, coefficient;
static CUfunction work;
static float host[COUNT];

static inline void load(CUmodule *module)
{
    size_t size;
    WELL(real.cuModuleLoadData(module, original));
    WELL(real.cuModuleGetFunction(&work, *module, "work"));
    WELL(real.cuModuleGetGlobal_v2(&coefficient, &size, *module, "coefficient"));
    WELL(size != 4);
}

/* A node of the kernel, as a graph takes it; the arguments stay the caller's. */
static inline CUDA_KERNEL_NODE_PARAMS_v2 adding_node(void **arguments)
{
    return (CUDA_KERNEL_NODE_PARAMS_v2){.func = work,
                                        .gridDimX = 4,
                                        .gridDimY = 1,
                                        .gridDimZ = 1,
                                        .blockDimX = 256,
                                        .blockDimY = 1,
                                        .blockDimZ = 1,
                                        .kernelParams = arguments};
}

/* Which code ran: 'v', 'o', or '?' for a wrong result. `in` holds 0, 1, 2, … */
static inline char ran(CUdeviceptr from, float a, float c)
{
    char which = 0;
    WELL(real.cuCtxSynchronize());
    WELL(real.cuMemcpyDtoH_v2(host, from, BYTES));
    for (int i = 0; i < COUNT; i++) {
        float plain = (float)i * a + c;
        char now = host[i] == plain ? 'o' : host[i] == plain + 100 ? 'v' : '?';
        if (which && now != which)
            return '?';
        which = now;
    }
    return which;
}

static inline void fill(void)
{
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)i;
    WELL(real.cuMemcpyHtoD_v2(in, host, BYTES));
    WELL(real.cuMemsetD32_v2(out, 0, COUNT));
}

/* The primary context of device 0, the kernel, and its buffers. */
static inline void start(CUmodule *module)
{
    CUdevice device;
    CUcontext context;
    WELL(real_open(NULL)); /* by dlsym, hence through the hooks */
    WELL(real.cuInit(0));
    WELL(real.cuDeviceGet(&device, 0));
    WELL(real.cuDevicePrimaryCtxRetain(&context, device));
    WELL(real.cuCtxSetCurrent(context));
    load(module);
    WELL(real.cuMemAlloc_v2(&in, BYTES));
    WELL(real.cuMemAlloc_v2(&out, BYTES));
}

#endif
