/* Single instructions of the executor against values worked out from the ISA's text: edges of every
 * kind of operation, all halves, rounding in all modes. */
#include "exec_test.h"

#include <fenv.h>
#include <math.h>

/* Operands: %d1-3 hold a, b, c (64 bits), %r1-3 and %h1-3 their low bits, %p1-3 whether the low 32
 * are not 0, %q the address of 64 bytes of shared memory that hold 0, 1, 2, ... as words. The
 * result is %d0, %r0, %h0 or %p0, whichever the text names first. */
struct row {
    const char *text;
    uint64_t a, b, c, expected;
};

static uint64_t f(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

static uint64_t d(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
}

#define NAN32 0x7fffffff
#define INF32 0x7f800000
#define MAX32 0x7f7fffff /* the largest finite single */

static const struct row integers[] = {
    {"add.s32 %r0, %r1, %r2", 0xffffffff, 2, 0, 1},
    /* against the manual, as an H200 does; the first four are recorded (tests/differential) */
    {"vadd.u32.u32.u32.sat %r0, %r1, %r2", 0xffffffff, 2, 0, 1},
    {"vshl.u32.u32.u32.sat.clamp %r0, %r1, %r2", 0xc32a39c1, 32, 0, 0xffffffff},
    {"vadd.u32.u32.u32.sat %r0.h1, %r1, %r2, %r3", 7, 9, 0xaaaabbbb, 0xbbbb},
    {"vmad.u32.u32.u32.sat.shr7 %r0, %r1.h0, %r2.h1, %r3", 7, 9, 0x80000000, 0xffffffff},
    {"vadd.u32.u32.u32 %r0.h1, %r1, %r2, %r3", 0x12345678, 1, 0xaaaabbbb, 0x1234bbbb},
    {"vadd.s32.s32.s32.sat %r0.b1, %r1, %r2, %r3", 0xffffffff, 0, 0xaaaabbbb, 0xaaaa7fbb},
    {"add.sat.s32 %r0, %r1, %r2", 0x7fffffff, 1, 0, 0x7fffffff},
    {"add.sat.s32 %r0, %r1, %r2", 0x80000000, 0xffffffff, 0, 0x80000000},
    {"sub.sat.s32 %r0, %r1, %r2", 0x80000000, 1, 0, 0x80000000},
    {"sub.u16 %h0, %h1, %h2", 3, 5, 0, 0xfffe},
    {"mul.lo.u16 %h0, %h1, %h2", 0xffff, 0xffff, 0, 1},
    {"mul.hi.s16 %h0, %h1, %h2", 0x8000, 0x8000, 0, 0x4000},
    {"mul.hi.u32 %r0, %r1, %r2", 0xffffffff, 0xffffffff, 0, 0xfffffffe},
    {"mul.hi.s32 %r0, %r1, %r2", 0xffffffff, 5, 0, 0xffffffff},
    {"mul.hi.s64 %d0, %d1, %d2", UINT64_MAX, 7, 0, UINT64_MAX},
    {"mul.hi.u64 %d0, %d1, %d2", UINT64_MAX, UINT64_MAX, 0, UINT64_MAX - 1},
    {"mul.wide.s32 %d0, %r1, %r2", 0xffffffff, 3, 0, UINT64_MAX - 2},
    {"mul.wide.u32 %d0, %r1, %r2", 0xffffffff, 3, 0, 0x2fffffffd},
    {"mad.lo.s32 %r0, %r1, %r2, %r3", 7, 0xfffffffe, 20, 6},
    {"mad.wide.s32 %d0, %r1, %r2, %d3", 0xffffffff, 3, 1, UINT64_MAX - 1},
    {"mad.hi.u32 %r0, %r1, %r2, %r3", 0x80000000, 6, 9, 12},
    {"mad.hi.sat.s32 %r0, %r1, %r2, %r3", 0x7fffffff, 0x7fffffff, 0x7fffffff, 0x7fffffff},
    {"mul24.lo.s32 %r0, %r1, %r2", 0xff800000, 0x80000002, 0, 0xff000000},
    {"mul24.hi.u32 %r0, %r1, %r2", 0xffffff, 0xffffff, 0, 0xfffffe00},
    {"mad24.lo.u32 %r0, %r1, %r2, %r3", 0x1000003, 5, 1, 16},
    {"div.s32 %r0, %r1, %r2", 0xfffffff9, 2, 0, 0xfffffffd},
    {"div.s32 %r0, %r1, %r2", 0x80000000, 0xffffffff, 0, 0x80000000},
    {"div.u32 %r0, %r1, %r2", 7, 0, 0, 0xffffffff},
    {"div.u64 %d0, %d1, %d2", UINT64_MAX, 10, 0, UINT64_C(1844674407370955161)},
    {"rem.s32 %r0, %r1, %r2", 0xfffffff9, 2, 0, 0xffffffff},
    {"rem.s32 %r0, %r1, %r2", 0x80000000, 0xffffffff, 0, 0},
    {"rem.s64 %d0, %d1, %d2", (uint64_t)-7, 4, 0, (uint64_t)-3},
    {"rem.u16 %h0, %h1, %h2", 1000, 7, 0, 6},
    {"min.s32 %r0, %r1, %r2", 0xffffffff, 1, 0, 0xffffffff},
    {"min.u32 %r0, %r1, %r2", 0xffffffff, 1, 0, 1},
    {"max.s64 %d0, %d1, %d2", UINT64_MAX, 0, 0, 0},
    {"max.s16x2 %r0, %r1, %r2", 0xffff0005, 0x00010003, 0, 0x00010005},
    {"min.u16x2 %r0, %r1, %r2", 0xffff0005, 0x00010003, 0, 0x00010003},
    {"add.u16x2 %r0, %r1, %r2", 0xffffffff, 0x00010002, 0, 0x00000001},
    {"max.relu.s32 %r0, %r1, %r2", 0xfffffffe, 0xffffffff, 0, 0},
    {"abs.s32 %r0, %r1", 0xfffffffb, 0, 0, 5},
    {"abs.s64 %d0, %d1", UINT64_C(1) << 63, 0, 0, UINT64_C(1) << 63},
    {"neg.s16 %h0, %h1", 1, 0, 0, 0xffff},
    {"sad.s32 %r0, %r1, %r2, %r3", 0xfffffffe, 3, 10, 15},
    {"sad.u32 %r0, %r1, %r2, %r3", 3, 0xfffffffe, 10, 5},
    {"shl.b32 %r0, %r1, %r2", 1, 31, 0, 0x80000000},
    {"shl.b32 %r0, %r1, %r2", 1, 32, 0, 0},
    {"shl.b64 %d0, %d1, %r2", 3, 63, 0, UINT64_C(1) << 63},
    {"shr.s32 %r0, %r1, %r2", 0x80000000, 100, 0, 0xffffffff},
    {"shr.u32 %r0, %r1, %r2", 0x80000000, 32, 0, 0},
    {"shr.s64 %d0, %d1, %r2", UINT64_C(1) << 63, 62, 0, (uint64_t)-2},
    {"shf.l.wrap.b32 %r0, %r1, %r2, %r3", 0x80000001, 0x12345678, 36, 0x23456788},
    {"shf.r.clamp.b32 %r0, %r1, %r2, %r3", 0x80000001, 0x12345678, 40, 0x12345678},
    {"shf.r.wrap.b32 %r0, %r1, %r2, %r3", 0x80000001, 0x12345678, 4, 0x88000000},
    {"and.b32 %r0, %r1, %r2", 0xf0f0, 0xff00, 0, 0xf000},
    {"or.pred %p0, %p1, %p2", 0, 5, 0, 1},
    {"xor.pred %p0, %p1, !%p2", 1, 1, 0, 1},
    {"not.pred %p0, %p1", 1, 0, 0, 0},
    {"not.b64 %d0, %d1", 5, 0, 0, ~UINT64_C(5)},
    {"cnot.b32 %r0, %r1", 0, 0, 0, 1},
    {"lop3.b32 %r0, %r1, %r2, %r3, 0x96", 0xf0f0, 0xcccc, 0xaaaa, 0x9696},
    {"popc.b64 %r0, %d1", UINT64_C(0xf00000000000000f), 0, 0, 8},
    {"clz.b32 %r0, %r1", 0, 0, 0, 32},
    {"clz.b64 %r0, %d1", 1, 0, 0, 63},
    {"brev.b32 %r0, %r1", 0x00000003, 0, 0, 0xc0000000},
    {"brev.b64 %d0, %d1", 1, 0, 0, UINT64_C(1) << 63},
    {"bfind.u32 %r0, %r1", 0x00800000, 0, 0, 23},
    {"bfind.s32 %r0, %r1", 0xffffffff, 0, 0, 0xffffffff},
    {"bfind.s32 %r0, %r1", 0xfffffff0, 0, 0, 3},
    {"bfind.shiftamt.u32 %r0, %r1", 0x00800000, 0, 0, 8},
    {"bfe.u32 %r0, %r1, %r2, %r3", 0x12345678, 8, 12, 0x456},
    {"bfe.s32 %r0, %r1, %r2, %r3", 0x00000f00, 8, 4, 0xffffffff},
    {"bfe.s32 %r0, %r1, %r2, %r3", 0x80000000, 40, 4, 0xffffffff},
    {"bfe.u32 %r0, %r1, %r2, %r3", 0x12345678, 28, 12, 1},
    {"bfe.u64 %d0, %d1, %r2, %r3", UINT64_C(0xabcd000000000000), 48, 8, 0xcd},
    {"bfi.b32 %r0, %r1, %r2, 8, 4", 0xf, 0xffff00ff, 0, 0xffff0fff},
    {"bfi.b32 %r0, %r1, %r2, 28, 12", 0x12, 0, 0, 0x20000000},
    {"bmsk.clamp.b32 %r0, %r1, %r2", 4, 8, 0, 0xff0},
    {"fns.b32 %r0, %r1, 0, 2", 0xa8, 0, 0, 5},
    {"szext.clamp.s32 %r0, %r1, %r2", 0x88, 8, 0, 0xffffff88},
    {"prmt.b32 %r0, %r1, %r2, %r3", 0x33221100, 0x77665544, 0x7531, 0x77553311},
    {"prmt.b32 %r0, %r1, %r2, %r3", 0x33221180, 0x77665544, 0x0018, 0x808011ff},
    {"prmt.b32.f4e %r0, %r1, %r2, %r3", 0x33221100, 0x77665544, 1, 0x44332211},
    {"dp4a.s32.s32 %r0, %r1, %r2, %r3", 0x01ff02fe, 0x03040506, 100, 97},
    {"dp4a.u32.u32 %r0, %r1, %r2, %r3", 0x000000ff, 0x000000ff, 1, 0xfe02},
    {"dp2a.lo.s32.s32 %r0, %r1, %r2, %r3", 0x0002ffff, 0x00000305, 10, 11},
    {"slct.s32.s32 %r0, %r1, %r2, %r3", 1, 2, 0xffffffff, 2},
    {"selp.b32 %r0, %r1, %r2, !%p3", 1, 2, 0, 1},
    {"setp.lt.and.s32 %p0|%p1, %r1, %r2, %p3", 0xffffffff, 0, 1, 1},
    {"setp.lt.and.s32 %p1|%p0, %r1, %r2, %p3", 0xffffffff, 0, 1, 0},
    {"setp.hi.u32 %p0, %r1, %r2", 0xffffffff, 0, 0, 1},
    {"setp.ge.xor.u16 %p0, %h1, %h2, %p3", 5, 5, 1, 0},
    {"set.lt.u32.s32 %r0, %r1, %r2", 0xffffffff, 0, 0, 0xffffffff},
    {"set.eq.f32.s32 %r0, %r1, %r2", 4, 4, 0, 0x3f800000},
    {"{ .reg .b32 t; add.cc.u32 t, %r1, %r2; addc.u32 %r0, %r3, 0; }", 0xffffffff, 1, 5, 6},
    {"{ .reg .b32 t; sub.cc.u32 t, %r1, %r2; subc.u32 %r0, %r3, 0; }", 1, 2, 5, 4},
    {"{ .reg .b32 t; mad.lo.cc.u32 t, %r1, %r2, %r3; madc.hi.u32 %r0, %r1, %r2, 0; }", 0xffffffff,
     0xffffffff, 0xffffffff, 0xffffffff},
    {"{ .reg .b64 t; add.cc.u64 t, %d1, %d2; addc.u64 %d0, %d3, 0; }", UINT64_MAX, 1, 5, 6},
    {"mov.b64 %d0, {%r1, %r2}", 0x11111111, 0x22222222, 0, UINT64_C(0x2222222211111111)},
    {"mov.b64 {_, %r0}, %d1", UINT64_C(0x2222222211111111), 0, 0, 0x22222222},
    {"mov.b32 %r0, {%h1, %h2}", 0x1234, 0x5678, 0, 0x56781234},
    {"cvt.s32.s8 %r0, %r1", 0x80, 0, 0, 0xffffff80},
    {"cvt.u32.u8 %r0, %r1", 0x1ff, 0, 0, 0xff},
    {"cvt.sat.s8.s32 %r0, %r1", 1000, 0, 0, 127},
    {"cvt.sat.u8.s32 %r0, %r1", 0xfffffff0, 0, 0, 0},
    {"cvt.sat.s32.u32 %r0, %r1", 0xfffffff0, 0, 0, 0x7fffffff},
    {"cvt.sat.u32.s64 %r0, %d1", UINT64_C(1) << 40, 0, 0, 0xffffffff},
    {"cvt.u64.s32 %d0, %r1", 0xffffffff, 0, 0, UINT64_MAX},
    {"cvta.to.shared.u64 %d0, %d1", (UINT64_C(1) << 48) + 12, 0, 0, 12},
    {"isspacep.shared %p0, %d1", (UINT64_C(1) << 48) + 12, 0, 0, 1},
    {"ld.shared.u32 %r0, [%q+12]", 0, 0, 0, 3},
    {"ld.shared.s8 %r0, [%q+28]", 0, 0, 0, 7},
    {"{ .reg .b32 t<4>; ld.shared.v4.b32 {t0, t1, t2, t3}, [%q+16]; add.u32 %r0, t1, t3; }", 0, 0,
     0, 12},
    {"atom.shared.add.u32 %r0, [%q], 5", 0, 0, 0, 0},
    {"atom.shared.exch.b32 %r0, [%q], 0", 0, 0, 0, 5},
    {"atom.shared.inc.u32 %r0, [%q+4], 1", 0, 0, 0, 1},
    {"atom.shared.dec.u32 %r0, [%q+4], 1", 0, 0, 0, 0},
    {"atom.shared.cas.b32 %r0, [%q+4], 1, 9", 0, 0, 0, 1},
    {"atom.shared.max.s32 %r0, [%q+4], -1", 0, 0, 0, 9},
    {"atom.shared.min.u32 %r0, [%q+4], 1", 0, 0, 0, 9},
    {"{ red.shared.or.b32 [%q+4], 6; ld.shared.b32 %r0, [%q+4]; }", 0, 0, 0, 7},
    {"{ cp.async.ca.shared.global [%q+32], [%out+8], 8, 0; cp.async.wait_all;"
     " ld.shared.b32 %r0, [%q+32]; }",
     0, 0, 0, 0},
    {"{ .reg .b32 i; mov.u32 i, 1; ts: .branchtargets A, B; brx.idx i, ts;"
     " A: mov.u32 %r0, 1; bra E; B: mov.u32 %r0, 2; E: }",
     0, 0, 0, 2},
    {"@!%p1 mov.u32 %r0, 4", 0, 0, 0, 4},
};

/* Rows that need a constant expression of C: filled at run time. */
static struct row floats[128];
static unsigned float_count;
#define ROW(...)                                                                                   \
    floats[float_count++] = (struct row)                                                           \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void arithmetic(void)
{
    ROW("add.f32 %r0, %r1, %r2", f(1), f(0x1p-24f), 0, f(1));
    ROW("add.rp.f32 %r0, %r1, %r2", f(1), f(0x1p-60f), 0, f(1 + 0x1p-23f));
    ROW("add.rm.f32 %r0, %r1, %r2", f(-1), f(-0x1p-60f), 0, f(-1 - 0x1p-23f));
    ROW("add.rz.f32 %r0, %r1, %r2", MAX32, MAX32, 0, MAX32);
    ROW("add.f32 %r0, %r1, %r2", INF32, f(-INFINITY), 0, NAN32);
    ROW("add.f32 %r0, %r1, %r2", 0xffc12345, f(1), 0, NAN32);
    ROW("add.ftz.f32 %r0, %r1, %r2", 1, 0, 0, 0);
    ROW("add.f32 %r0, %r1, %r2", 1, 1, 0, 2);
    ROW("mul.ftz.f32 %r0, %r1, %r2", f(-0x1p-100f), f(0x1p-30f), 0, 0x80000000);
    ROW("mul.sat.f32 %r0, %r1, %r2", f(3), f(5), 0, f(1));
    ROW("add.sat.f32 %r0, %r1, %r2", NAN32, f(5), 0, 0);
    ROW("fma.rn.f32 %r0, %r1, %r2, %r3", f(1 + 0x1p-23f), f(1 + 0x1p-23f), f(-1),
        f(0x1p-22f + 0x1p-46f));
    ROW("fma.rz.f32 %r0, %r1, %r2, %r3", f(1 + 0x1p-23f), f(1 + 0x1p-23f), f(0), f(1 + 0x1p-22f));
    ROW("fma.rp.f32 %r0, %r1, %r2, %r3", f(1 + 0x1p-23f), f(1 + 0x1p-23f), f(0),
        f(1 + 3 * 0x1p-23f));
    ROW("fma.rn.f64 %d0, %d1, %d2, %d3", d(1 + 0x1p-52), d(1 + 0x1p-52), d(-1),
        d(0x1p-51 + 0x1p-104));
    ROW("fma.rm.f64 %d0, %d1, %d2, %d3", d(3), d(5), d(-0x1p-60), d(15 - 0x1p-49));
    ROW("div.rn.f32 %r0, %r1, %r2", f(1), f(3), 0, f(1.0f / 3));
    ROW("div.rp.f32 %r0, %r1, %r2", f(1), f(10), 0, f(0x1.99999ap-4f));
    ROW("div.rm.f32 %r0, %r1, %r2", f(1), f(10), 0, f(0x1.999998p-4f));
    ROW("div.rn.f64 %d0, %d1, %d2", d(1), d(0), 0, d(INFINITY));
    ROW("rcp.rz.f32 %r0, %r1", f(3), 0, 0, f(0x1.555554p-2f));
    ROW("sqrt.rp.f32 %r0, %r1", f(2), 0, 0, f(0x1.6a09e8p+0f));
    ROW("sqrt.rn.f64 %d0, %d1", d(2), 0, 0, d(0x1.6a09e667f3bcdp+0));
    ROW("sqrt.rn.f32 %r0, %r1", f(-1), 0, 0, NAN32);
    ROW("ex2.approx.f32 %r0, %r1", f(3), 0, 0, f(8));
    ROW("lg2.approx.f32 %r0, %r1", f(8), 0, 0, f(3));
    ROW("rsqrt.approx.f32 %r0, %r1", f(16), 0, 0, f(0.25f));
    ROW("rcp.approx.ftz.f32 %r0, %r1", f(4), 0, 0, f(0.25f));
    ROW("rcp.approx.ftz.f32 %r0, %r1", 1, 0, 0, INF32);
    ROW("sin.approx.f32 %r0, %r1", 0, 0, 0, 0);
    ROW("cos.approx.f32 %r0, %r1", 0, 0, 0, f(1));
    ROW("tanh.approx.f32 %r0, %r1", f(100), 0, 0, f(1));
}

static void signs_and_order(void)
{
    ROW("neg.f32 %r0, %r1", f(0), 0, 0, 0x80000000);
    ROW("abs.f64 %d0, %d1", d(-2.5), 0, 0, d(2.5));
    ROW("min.f32 %r0, %r1, %r2", NAN32, f(2), 0, f(2));
    ROW("min.NaN.f32 %r0, %r1, %r2", f(2), NAN32, 0, NAN32);
    ROW("min.f32 %r0, %r1, %r2", f(0.0f), f(-0.0f), 0, f(-0.0f));
    ROW("max.f32 %r0, %r1, %r2", f(-0.0f), f(0.0f), 0, f(0.0f));
    ROW("max.f64 %d0, %d1, %d2", d(NAN), d(-1), 0, d(-1));
    ROW("copysign.f32 %r0, %r1, %r2", f(-0.0f), f(3), 0, f(-3));
    ROW("testp.subnormal.f32 %p0, %r1", 1, 0, 0, 1);
    ROW("testp.notanumber.f64 %p0, %d1", d(NAN), 0, 0, 1);
    ROW("setp.neu.f32 %p0, %r1, %r2", NAN32, NAN32, 0, 1);
    ROW("setp.ne.f32 %p0, %r1, %r2", NAN32, f(1), 0, 0);
    ROW("setp.ltu.f64 %p0, %d1, %d2", d(NAN), d(1), 0, 1);
    ROW("setp.nan.f32 %p0, %r1, %r2", NAN32, 0, 0, 1);
    ROW("setp.eq.ftz.f32 %p0, %r1, %r2", 1, 0, 0, 1);
    ROW("setp.eq.f32 %p0, %r1, %r2", 1, 0, 0, 0);
    ROW("selp.f32 %r0, %r1, %r2, %p3", f(1), f(2), 1, f(1));
    ROW("slct.f32.f32 %r0, %r1, %r2, %r3", f(1), f(2), f(-0.0f), f(1));
}

static void conversions(void)
{
    ROW("cvt.rzi.s32.f32 %r0, %r1", f(-2.9f), 0, 0, (uint32_t)-2);
    ROW("cvt.rni.s32.f32 %r0, %r1", f(2.5f), 0, 0, 2);
    ROW("cvt.rmi.s32.f32 %r0, %r1", f(-2.1f), 0, 0, (uint32_t)-3);
    ROW("cvt.rpi.u32.f32 %r0, %r1", f(2.1f), 0, 0, 3);
    ROW("cvt.rzi.s32.f32 %r0, %r1", f(1e20f), 0, 0, 0x7fffffff);
    ROW("cvt.rzi.u32.f32 %r0, %r1", f(-5), 0, 0, 0);
    ROW("cvt.rzi.s32.f32 %r0, %r1", NAN32, 0, 0, 0);
    ROW("cvt.rzi.s64.f64 %d0, %d1", d(NAN), 0, 0, UINT64_C(1) << 63);
    ROW("cvt.rzi.u64.f64 %d0, %d1", d(0x1.8p63), 0, 0, UINT64_C(3) << 62);
    ROW("cvt.rzi.s64.f64 %d0, %d1", d(-1e300), 0, 0, UINT64_C(1) << 63);
    ROW("cvt.rzi.s16.f32 %h0, %r1", f(40000), 0, 0, 32767);
    ROW("cvt.rn.f32.s32 %r0, %r1", 16777217, 0, 0, f(16777216));
    ROW("cvt.rp.f32.s32 %r0, %r1", 16777217, 0, 0, f(16777218));
    ROW("cvt.rn.f32.u64 %r0, %d1", UINT64_MAX, 0, 0, f(0x1p64f));
    ROW("cvt.rz.f32.u64 %r0, %d1", UINT64_MAX, 0, 0, f(0x1.fffffep63f));
    ROW("cvt.rn.f64.s64 %d0, %d1", (uint64_t)-3, 0, 0, d(-3));
    ROW("cvt.rn.f32.f64 %r0, %d1", d(1 + 0x1p-24), 0, 0, f(1));
    ROW("cvt.rp.f32.f64 %r0, %d1", d(1 + 0x1p-40), 0, 0, f(1 + 0x1p-23f));
    ROW("cvt.f64.f32 %d0, %r1", f(1.5f), 0, 0, d(1.5));
    ROW("cvt.rni.f32.f32 %r0, %r1", f(3.5f), 0, 0, f(4));
    ROW("cvt.sat.f32.f32 %r0, %r1", f(-3), 0, 0, 0);
}

static void narrow_and_packed(void)
{
    ROW("cvt.rn.f16.f32 %h0, %r1", f(65520), 0, 0, 0x7c00);
    ROW("cvt.rz.f16.f32 %h0, %r1", f(65520), 0, 0, 0x7bff);
    ROW("cvt.rn.f16x2.f32 %r0, %r1, %r2", f(1), f(-2), 0, 0x3c00c000);
    ROW("cvt.rn.bf16.f32 %h0, %r1", f(1 + 0x1p-8f), 0, 0, 0x3f80);
    ROW("cvt.rn.bf16x2.f32 %r0, %r1, %r2", f(1), f(-2), 0, 0x3f80c000);
    ROW("cvt.f32.bf16 %r0, %h1", 0x3f80, 0, 0, f(1));
    ROW("cvt.rna.tf32.f32 %r0, %r1", f(1 + 0x1p-11f), 0, 0, f(1 + 0x1p-10f));
    ROW("cvt.rn.satfinite.e4m3x2.f32 %h0, %r1, %r2", f(1), f(1000), 0, 0x387e);
    ROW("cvt.rn.satfinite.e5m2x2.f32 %h0, %r1, %r2", f(-1), f(1e6f), 0, 0xbc7b);
    ROW("cvt.rn.f16x2.e4m3x2 %r0, %h1", 0x387e, 0, 0, 0x3c005f00);
    ROW("add.f16 %h0, %h1, %h2", 0x3c00, 0x1000, 0, 0x3c00);
    ROW("fma.rn.f16 %h0, %h1, %h2, %h3", 0x3c01, 0x3c01, 0xbc00, 0x1800);
    ROW("fma.rn.f16x2 %r0, %r1, %r2, %r3", 0x40003c00, 0x42004000, 0x3c003c00, 0x47004200);
    ROW("mul.bf16x2 %r0, %r1, %r2", 0x40003f80, 0x40404000, 0, 0x40c04000);
    ROW("max.f16 %h0, %h1, %h2", 0x7e00, 0x3c00, 0, 0x3c00);
    ROW("max.NaN.bf16 %h0, %h1, %h2", 0x7fc0, 0x3f80, 0, 0x7fff);
    ROW("neg.f16x2 %r0, %r1", 0x00003c00, 0, 0, 0x8000bc00);
    ROW("setp.lt.f16 %p0, %h1, %h2", 0xbc00, 0x3c00, 0, 1);
    ROW("set.gt.f16x2.f16x2 %r0, %r1, %r2", 0x3c00bc00, 0, 0, 0x3c000000);
    ROW("fma.rn.f32x2 %d0, %d1, %d2, %d3", f(3) << 32 | f(2), f(5) << 32 | f(7), f(1) << 32 | f(2),
        f(16) << 32 | f(16));
    ROW("{ atom.shared.add.f32 %r0, [%q+40], 0f3F800000; ld.shared.b32 %r0, [%q+40]; }", 0, 0, 0,
        f(1));
}

#undef ROW

/* One kernel of all rows; rows share nothing but the shared words. */
static char *kernel_of(const struct row *rows, unsigned count)
{
    char *text = malloc(4096 + 1024 * count);
    size_t used;
    if (!text)
        exit(1);
    used = (size_t)sprintf(text, ".version 8.6\n.target sm_100\n.address_size 64\n"
                                 ".visible .entry ops(.param .u64 in, .param .u64 out) {\n"
                                 ".shared .align 16 .b8 words[64];\n"
                                 ".reg .b64 %%in, %%out, %%d<4>; .reg .b32 %%r<4>, %%q, %%n;\n"
                                 ".reg .b16 %%h<4>; .reg .pred %%p<4>;\n"
                                 "ld.param.u64 %%in, [in]; ld.param.u64 %%out, [out];\n"
                                 "mov.u32 %%q, words;\n");
    for (unsigned i = 0; i < 10; i++)
        used += (size_t)sprintf(text + used, "mov.u32 %%n, %u; st.shared.u32 [%%q+%u], %%n;\n", i,
                                4 * i);
    used += (size_t)sprintf(text + used, "mov.u32 %%n, 0; st.shared.u32 [%%q+40], %%n;\n");
    for (unsigned i = 0; i < count; i++) {
        for (unsigned k = 0; k < 3; k++)
            used +=
                (size_t)sprintf(text + used,
                                "ld.global.u64 %%d%u, [%%in+%u]; cvt.u32.u64 %%r%u, %%d%u;"
                                " cvt.u16.u64 %%h%u, %%d%u; setp.ne.u32 %%p%u, %%r%u, 0;\n",
                                k + 1, i * 24 + 8 * k, k + 1, k + 1, k + 1, k + 1, k + 1, k + 1);
        const char *text_of = rows[i].text, *result = strstr(text_of, "0");
        while (result && (result == text_of || !strchr("drhp", result[-1]) || result[-2] != '%'))
            result = strstr(result + 1, "0");
        char letter = result ? result[-1] : '?';
        bool braces = text_of[0] == '{';
        used += (size_t)sprintf(text + used, "%s%s\n", text_of, braces ? "" : ";");
        if (letter == 'r')
            used += (size_t)sprintf(text + used, "cvt.u64.u32 %%d0, %%r0;\n");
        else if (letter == 'h')
            used += (size_t)sprintf(text + used, "cvt.u64.u16 %%d0, %%h0;\n");
        else if (letter == 'p')
            used += (size_t)sprintf(text + used, "selp.u64 %%d0, 1, 0, %%p0;\n");
        else
            CHECK(letter == 'd');
        used += (size_t)sprintf(text + used, "st.global.u64 [%%out+%u], %%d0;\n", 8 * i);
    }
    sprintf(text + used, "ret;\n}\n");
    return text;
}

static void test_rows(const struct row *rows, unsigned count)
{
    char *text = kernel_of(rows, count);
    struct exec_module *module = module_of(text);
    uint64_t *in = (uint64_t *)test_alloc(24 * count, 256);
    uint64_t *out = (uint64_t *)test_alloc(8 * count, 256);
    for (unsigned i = 0; i < count; i++)
        memcpy(in + 3 * i, &rows[i].a, 24);
    struct test_call call = call_of(module, "ops", 1, 1, 0);
    ARG(&call, void *, in);
    ARG(&call, void *, out);
    if (call_good(&call))
        for (unsigned i = 0; i < count; i++)
            if (!CHECK(out[i] == rows[i].expected))
                fprintf(stderr, "%s: %llx, %llx, %llx -> %llx, expected %llx\n", rows[i].text,
                        (unsigned long long)rows[i].a, (unsigned long long)rows[i].b,
                        (unsigned long long)rows[i].c, (unsigned long long)out[i],
                        (unsigned long long)rows[i].expected);
    exec_module_destroy(module);
    test_free_all();
    free(text);
}

/* ---- all halves, and many sums in all modes ---------------------------------------------------
 */

static double half_value(unsigned h)
{
    int exponent = h >> 10 & 31;
    double mantissa = h & 1023;
    double value = exponent == 31 ? (mantissa != 0 ? NAN : INFINITY)
                   : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                                  : ldexp(mantissa, -24);
    return h & 0x8000 ? -value : value;
}

/* Thread i: the single nearest to half i, that back, and the middle to the next half, back. */
static void test_halves(void)
{
    struct exec_module *module = module_of(
        ".version 8.0\n.target sm_90\n.address_size 64\n.entry e(.param .u64 out) {\n"
        ".reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .b16 %h<5>; .reg .f32 %f<5>;\n"
        "ld.param.u64 %rd1, [out]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;\n"
        "mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3; cvt.u16.u32 %h1, %r4;\n"
        "cvt.f32.f16 %f1, %h1; cvt.rn.f16.f32 %h2, %f1; add.u16 %h3, %h1, 1; cvt.f32.f16 %f2, "
        "%h3;\n"
        "add.f32 %f3, %f1, %f2; mul.f32 %f3, %f3, 0f3F000000; cvt.rn.f16.f32 %h4, %f3;\n"
        "mul.wide.u32 %rd2, %r4, 8; add.s64 %rd3, %rd1, %rd2; st.global.f32 [%rd3], %f1;\n"
        "st.global.u16 [%rd3+4], %h2; st.global.u16 [%rd3+6], %h4; ret; }\n");
    struct {
        float value;
        uint16_t back, middle;
    } *out = (void *)test_alloc(65536 * sizeof *out, 256);
    struct test_call call = call_of(module, "e", 256, 256, 0);
    ARG(&call, void *, out);
    CHECK(call_good(&call));
    unsigned bad = 0;
    for (unsigned h = 0; h < 65536; h++) {
        double value = half_value(h);
        if (value != value) {
            bad += out[h].value == out[h].value || out[h].back != 0x7fff;
            continue;
        }
        bad += out[h].value != (float)value || out[h].back != h;
        if ((h & 0x7fff) < 0x7bff) /* the middle of two neighbours goes to the even one */
            bad += out[h].middle != h + (h & 1);
    }
    CHECK(bad == 0);
    exec_module_destroy(module);
    test_free_all();
}

static void test_modes(void)
{
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    enum { N = 2048 };
    struct exec_module *module = module_of(
        ".version 8.0\n.target sm_90\n.address_size 64\n.entry e(.param .u64 in, .param .u64 out) "
        "{\n"
        ".reg .b32 %r<9>; .reg .b64 %rd<6>; .reg .f32 %f<9>;\n"
        "ld.param.u64 %rd1, [in]; ld.param.u64 %rd5, [out]; mov.u32 %r1, %ctaid.x;\n"
        "mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;\n"
        "mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2; shl.b64 %rd2, %rd2, 2;\n"
        "add.s64 %rd4, %rd5, %rd2; ld.global.f32 %f1, [%rd3]; ld.global.f32 %f2, [%rd3+4];\n"
        "ld.global.f32 %f3, [%rd3+8]; fma.rn.f32 %f4, %f1, %f2, %f3; fma.rz.f32 %f5, %f1, %f2, "
        "%f3;\n"
        "fma.rm.f32 %f6, %f1, %f2, %f3; fma.rp.f32 %f7, %f1, %f2, %f3;\n"
        "st.global.v4.f32 [%rd4], {%f4, %f5, %f6, %f7}; ret; }\n");
    float *in = (float *)test_alloc((N + 2) * 4, 256), *out = (float *)test_alloc(N * 16, 256);
    uint32_t seed = 7;
    for (unsigned i = 0; i < N + 2; i++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t bits = (seed >> 3) % 0x0c000000 + 0x3a000000; /* near 1 */
        memcpy(&in[i], &bits, 4);
        in[i] = seed & 1 ? -in[i] : in[i];
    }
    struct test_call call = call_of(module, "e", N / 256, 256, 0);
    ARG(&call, void *, in);
    ARG(&call, void *, out);
    CHECK(call_good(&call));
    unsigned bad = 0, differ = 0;
    for (unsigned i = 0; i < N; i++)
        for (unsigned m = 0; m < 4; m++) {
            /* by the exact product and error of the sum, not by a fused operation */
            volatile double product = (double)in[i] * in[i + 1], c = in[i + 2];
            fesetround(modes[m]);
            volatile long double sum = (long double)product + c; /* 64 bits hold it mostly */
            volatile float narrow = (float)sum;
            fesetround(FE_TONEAREST);
            bad += out[4 * i + m] != narrow;
            differ += out[4 * i + m] != out[4 * i];
        }
    CHECK(bad <= N / 256); /* double rounding of the reference, in one of some thousand */
    CHECK(differ > N / 2);
    exec_module_destroy(module);
    test_free_all();
}

/* Every way of values of 128 bits, by one thread; then many count together: both halves change as
 * one, or what is read does not fit together. */
static const char wide_source[] =
    ".version 8.4\n.target sm_90\n.address_size 64\n.global .align 16 .b128 pair;\n"
    ".visible .entry each(.param .u64 at, .param .align 16 .b128 given) {\n"
    ".reg .b64 %p, %x<5>; .reg .b128 %b<8>; .shared .align 16 .b128 mine;\n"
    "ld.param.u64 %p, [at]; ld.param.b128 %b0, [given];\n"
    "mov.b128 {%x1, %x2}, %b0; mov.b128 %b1, {%x2, %x1}; st.global.b128 [%p], %b1;\n"
    "ld.volatile.global.b128 %b2, [%p]; mov.b128 {_, %x3}, %b2; mov.b128 %b3, {%x3, 7};\n"
    "st.shared.b128 [mine], %b3; atom.shared.cas.b128 %b4, [mine], %b0, %b1;\n" /* is not there */
    "st.b128 [%p+16], %b4; atom.shared.cas.b128 _, [mine], %b3, %b0;\n"         /* is there */
    "atom.shared.exch.b128 %b5, [mine], %b3; st.global.b128 [%p+32], %b5;\n"
    "st.global.b128 [pair], %b1; atom.acq_rel.gpu.global.exch.b128 %b6, [pair], %b3;\n"
    "mov.b128 %b7, %b6; st.global.b128 [%p+48], %b7;\n"
    "ld.shared.b128 %b6, [mine]; st.global.b128 [%p+64], %b6; ret; }\n"
    ".visible .entry count(.param .u64 at) {\n"
    ".reg .b64 %p, %x<7>; .reg .b128 %b<4>; .reg .pred %q<4>; .reg .b32 %n;\n"
    "ld.param.u64 %p, [at]; mov.b32 %n, 0;\n"
    "again: ld.relaxed.gpu.global.b128 %b1, [%p]; mov.b128 {%x1, %x2}, %b1;\n"
    "mul.lo.u64 %x3, %x1, 3; setp.ne.u64 %q1, %x3, %x2; @%q1 trap;\n"
    "add.u64 %x1, %x1, 1; add.u64 %x2, %x2, 3; mov.b128 %b2, {%x1, %x2};\n"
    "atom.global.cas.b128 %b3, [%p], %b1, %b2; mov.b128 {%x4, %x5}, %b3;\n"
    "add.u64 %x4, %x4, 1; setp.ne.u64 %q2, %x4, %x1; @%q2 bra again;\n"
    "add.u32 %n, %n, 1; setp.lt.u32 %q3, %n, 250; @%q3 bra again; ret; }\n";

static void test_wide(void)
{
    static const uint64_t expected[] = {6, 5, 5, 7, 5, 6, 6, 5, 5, 7};
    struct exec_module *module = module_of(wide_source);
    uint64_t *out = (uint64_t *)test_alloc(sizeof expected + 16, 256);
    struct test_call call = call_of(module, "each", 1, 1, 0);
    const uint64_t given[2] = {5, 6};
    ARG(&call, void *, out);
    call_add(&call, given, sizeof given);
    CHECK(call_good(&call) && !memcmp(out, expected, sizeof expected));
    call.next = 0;
    ARG(&call, void *, out + 1);
    call_add(&call, given, sizeof given);
    CHECK(call_run(&call) == EXEC_MISALIGNED);
    uint64_t *both = (uint64_t *)test_alloc(16, 256);
    both[0] = both[1] = 0;
    call = call_of(module, "count", 20, 100, 0);
    call.config.threads = 4;
    ARG(&call, void *, both);
    CHECK(call_good(&call) && both[0] == 500000 && both[1] == 1500000);
    exec_module_destroy(module);
    test_free_all();
}

int main(void)
{
    arithmetic();
    signs_and_order();
    conversions();
    narrow_and_packed();
    test_rows(integers, sizeof integers / sizeof *integers);
    test_rows(floats, float_count);
    test_halves();
    test_modes();
    test_wide();
    return test_result();
}
