/* A slow kernel with a size, a free scalar and one that is not read, and a reply that is faster. */
#ifndef SIZED_KERNEL_H
#define SIZED_KERNEL_H

#include "kgenrt.h"
#include "test.h"

#include <string.h>

/* k(x, y, n, factor, unused): y[i] = factor * x[i] + 1, slowly. */
static const char sized_ptx[] =
    ".version 7.8\n.target sm_80\n.address_size 64\n"
    ".visible .entry k(.param .u64 k_0, .param .u64 k_1, .param .u32 k_2, .param .f32 k_3,\n"
    ".param .u32 k_4)\n{\n"
    ".reg .pred %p<6>; .reg .b32 %r<16>; .reg .f32 %f<8>; .reg .b64 %rd<12>;\n"
    "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
    "mad.lo.s32 %r4, %r1, %r2, %r3; ld.param.u32 %r5, [k_2]; ld.param.f32 %f2, [k_3];\n"
    "mov.u32 %r8, 0;\nSLOW:\nadd.u32 %r8, %r8, 1; setp.lt.u32 %p3, %r8, 600; @%p3 bra SLOW;\n"
    "and.b32 %r9, %r8, 1024; add.s32 %r4, %r4, %r9; add.s32 %r4, %r4, -0;\n"
    "ld.param.u64 %rd1, [k_0]; ld.param.u64 %rd2, [k_1];\n"
    "cvta.to.global.u64 %rd3, %rd1; cvta.to.global.u64 %rd4, %rd2;\n"
    "setp.ge.s32 %p1, %r4, %r5; @%p1 bra DONE;\n"
    "mul.wide.s32 %rd5, %r4, 4; add.s64 %rd6, %rd3, %rd5; add.s64 %rd7, %rd4, %rd5;\n"
    "ld.global.f32 %f1, [%rd6]; fma.rn.f32 %f3, %f1, %f2, 0f3F800000;\n"
    "st.global.f32 [%rd7], %f3;\nDONE:\nret;\n}\n";

/* Where the reply differs from the right one, which is "n", "f" and "n > 0". */
static inline void sized_reply(const char *path, const char *limit, const char *factor,
                               const char *guard)
{
    char text[2048];
    snprintf(text, sizeof text,
             "```cuda\nextern \"C\" __global__ void fast(const float *x, float *y, int n, float f,"
             " int unused)\n{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
             "    if (i < %s)\n        y[i] = __fmaf_rn(x[i], %s, 1);\n}\n```\n\n```json\n"
             "{\"entry\": \"fast\", \"params\": [\"x\", \"y\", \"n\", \"f\", \"unused\"], "
             "\"launch\": {\"grid\": [\"ceil_div(n, 64)\", 1, 1], \"block\": [64, 1, 1], "
             "\"shared\": 0}, \"guards\": [\"%s\"], \"globals\": [], \"note\": \"fast\"}\n```\n",
             limit, factor, guard);
    CHECK(file_write(path, text, strlen(text), 0600) == KG_OK);
}

#endif
