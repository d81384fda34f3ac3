/* A kernel that takes as long as it is told to, as PTX: for originals and variants of it. */
#ifndef TURNING_KERNEL_H
#define TURNING_KERNEL_H

/* out[i] = in[i] * 2 + 1; turns: work that changes nothing; twist: what a wrong variant does */
#define BODY(name, turns, twist) BODY_OF(name, "", turns, twist)
#define NESTED(name, turns) BODY_OF(name, "ld.global.u64 %d1, [%d1];\n", turns, "")
#define BODY_OF(name, follow, turns, twist)                                                        \
    ".version 7.0\n.target sm_50\n.address_size 64\n"                                              \
    ".visible .entry " name "(.param .u64 in, .param .u64 out, .param .u32 n)\n{\n"                \
    ".reg .pred %p<4>; .reg .b32 %r<10>; .reg .f32 %f<6>; .reg .b64 %d<8>;\n"                      \
    "ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out]; ld.param.u32 %r1, [n];\n"                    \
    "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"                          \
    "mad.lo.s32 %r5, %r2, %r3, %r4;\n"                                                             \
    "setp.ge.u32 %p0, %r5, %r1;\n@%p0 bra DONE;\n"                                                 \
    "cvta.to.global.u64 %d1, %d1; cvta.to.global.u64 %d2, %d2;\n" follow                           \
    "mul.wide.u32 %d3, %r5, 4; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;\n"                    \
    "ld.global.f32 %f2, [%d4];\nmov.u32 %r6, 0; mov.f32 %f5, 0f00000000;\nAGAIN:\n"                \
    "add.u32 %r6, %r6, 1; fma.rn.f32 %f5, %f2, 0f00000000, %f5;\n"                                 \
    "setp.lt.u32 %p1, %r6, " turns ";\n@%p1 bra AGAIN;\nadd.f32 %f2, %f2, %f5;\n"                  \
    "fma.rn.f32 %f4, %f2, 0f40000000, 0f3F800000;\n" twist                                         \
    "st.global.f32 [%d5], %f4;\nDONE:\nret;\n}\n"

#endif
