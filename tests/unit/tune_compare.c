/* Accuracy: what is equal, what is near enough, and what type an original stores. */
#include "test.h"
#include "tune/replay.h"

#include <math.h>
#include <string.h>

static struct replay_memory memory;
static struct kg_capture capture = {.launch = {{4, 1, 1}, {2, 1, 1}, 0}};
static struct replay_extent extent = {.address = 0x1000, .size = 32};
static struct capture_region region = {.address = 0x1000, .size = 32};
static unsigned char mask[32];

static bool equal32(const float got[8], const float expected[8], double relative, size_t *at)
{
    struct accuracy accuracy = {relative, ELEMENT_F32};
    return results_equal(&memory, (const unsigned char *)got, (const unsigned char *)expected,
                         &accuracy, at);
}

static void floats(void)
{
    float a[8] = {1, -2, 3e-30f, 4, NAN, INFINITY, 0, -0.0f}, b[8];
    size_t at;
    memcpy(b, a, sizeof b);
    CHECK(equal32(b, a, 0, &at) && equal32(b, a, 1e-5, &at));
    b[1] = -2.00001f;
    CHECK(!equal32(b, a, 0, &at) && at >= 4 && at < 8);
    CHECK(equal32(b, a, 1e-5, &at));
    CHECK(!equal32(b, a, 1e-6, &at));
    b[1] = 2;
    CHECK(!equal32(b, a, 1e-5, &at));
    memcpy(b, a, sizeof b);
    b[2] = 3.1e-30f; /* relative, however small */
    CHECK(!equal32(b, a, 1e-5, &at) && at >= 8 && at < 12);
    memcpy(b, a, sizeof b);
    b[4] = -NAN; /* another NaN is a NaN */
    CHECK(!equal32(b, a, 0, &at) && equal32(b, a, 1e-5, &at));
    b[4] = 0;
    CHECK(!equal32(b, a, 1e-5, &at));
    memcpy(b, a, sizeof b);
    b[5] = -INFINITY;
    CHECK(!equal32(b, a, 0.5, &at));
    b[5] = 3e38f;
    CHECK(!equal32(b, a, 0.5, &at));
    memcpy(b, a, sizeof b);
    b[6] = 1e-20f; /* against zero nothing else is near */
    CHECK(!equal32(b, a, 0.5, &at) && at >= 24);
    b[6] = -0.0f;
    CHECK(equal32(b, a, 0.5, &at));
    b[3] = 9;
    memset(mask + 12, 0, 4); /* not written by the original: not this comparison's business */
    CHECK(equal32(b, a, 0.5, &at));
    memset(mask, 0xff, sizeof mask);
}

static void doubles(void)
{
    double a[4] = {1, 2, 3, 4}, b[4] = {1, 2, 3.000000001, 4};
    struct accuracy accuracy = {1e-8, ELEMENT_F64};
    size_t at;
    CHECK(results_equal(&memory, (void *)b, (void *)a, &accuracy, &at));
    accuracy.element = ELEMENT_BITS; /* unknown type: bitwise, whatever was asked */
    CHECK(!results_equal(&memory, (void *)b, (void *)a, &accuracy, &at));
    char text[400];
    accuracy.element = ELEMENT_F64;
    difference_text(&memory, (void *)b, (void *)a, &accuracy, 18, text, sizeof text);
    CHECK(strstr(text, "parameter 3 + 16:") && strstr(text, "as double 3.00000000") &&
          strstr(text, "block 2 if"));
}

static void accuracies(void)
{
    struct accuracy a;
    CHECK(accuracy_parse("bitwise", &a) == KG_OK && a.relative == 0);
    CHECK(accuracy_parse("rel:1e-5", &a) == KG_OK && a.relative == 1e-5);
    static const char *const bad[] = {"",       "rel:", "rel:0",   "rel:-1", "rel:2",
                                      "rel:1x", "ulp",  "rel:nan", "Bitwise"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(accuracy_parse(bad[i], &a) == KG_BAD_INPUT);
}

#define PTX_HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"
#define ENTRY(name)                                                                                \
    ".visible .entry " name "(.param .u64 p)\n{\n\t.reg .b32 %r<10>;\n\t.reg .b64 %rd<10>;\n"      \
    "\t.reg .f32 %f<10>;\n\t.reg .pred %p<3>;\n"

static void types(void)
{
    static const char *const f32 =
        PTX_HEAD ENTRY("other") "\tst.global.u32 [%rd1], %r1;\n}\n" ENTRY(
            "k") "\tfma.rn.f32 %r4, %r1, %r2, %r3;\n"
                 "\tmov.b32 \t%r5, %r4;\n\tst.global.b32 \t[%rd1], %r5;\n"
                 "\tadd.f32 %f1, %f2, %f3;\n\tst.global.v2.f32 [%rd2], {%f1, %f1};\n"
                 "\tst.shared.b32 [%r9], %r7;\n\tret;\n}\n";
    CHECK(element_of_ptx(f32, "k") == ELEMENT_F32);
    CHECK(element_of_ptx(f32, "other") == ELEMENT_BITS);
    CHECK(element_of_ptx(f32, "none") == ELEMENT_BITS);
    CHECK(element_of_ptx("nonsense", "none") == ELEMENT_BITS);
#define TYPE(body) element_of_ptx(PTX_HEAD ENTRY("k") body "\tret;\n}\n", "k")
    CHECK(TYPE("\tmul.f64 %rd3, %rd1, %rd2;\n\tst.global.v2.b64 [%rd9], {%rd3, %rd3};\n") ==
          ELEMENT_F64);
    CHECK(TYPE("\tmul.f32 %r3, %r1, %r2;\n\tadd.s32 %r4, %r1, 1;\n"
               "\tst.global.v2.b32 [%rd9], {%r3, %r4};\n") == ELEMENT_BITS);
    CHECK(TYPE("\tld.global.b32 %r3, [%rd1];\n\tst.global.b32 [%rd9], %r3;\n") == ELEMENT_BITS);
    CHECK(TYPE("\tst.global.f32 [%rd9], %f3;\n\tred.global.add.u32 [%rd1], %r1;\n") ==
          ELEMENT_BITS);
    /* whole numbers made of floats are no floats */
    CHECK(TYPE("\tcvt.rzi.s32.f32 %r3, %f1;\n\tst.global.b32 [%rd9], %r3;\n") == ELEMENT_BITS);
    CHECK(TYPE("\tset.lt.u32.f32 %r3, %f1, %f2;\n\tst.global.b32 [%rd9], %r3;\n") == ELEMENT_BITS);
    CHECK(TYPE("\tcvt.rn.f32.s32 %r3, %r1;\n\tst.global.b32 [%rd9], %r3;\n") == ELEMENT_F32);
    /* nor what is a whole number on one of two ways, or in the first turn of a loop */
    CHECK(TYPE("\tadd.s32 %r3, %r1, 1;\n\t@%p1 bra L;\n\tadd.f32 %r3, %r1, %r2;\nL:\n"
               "\tst.global.b32 [%rd9], %r3;\n") == ELEMENT_BITS);
    CHECK(TYPE("\tadd.f32 %r3, %r1, %r2;\nL:\n\tst.global.b32 [%rd9], %r3;\n"
               "\tadd.s32 %r3, %r1, 1;\n\t@%p1 bra L;\n") == ELEMENT_BITS);
    CHECK(TYPE("\tadd.f32 %r3, %r1, %r2;\n\tld.global.v2.b32 {%r4, %r3}, [%rd1];\n"
               "\tst.global.b32 [%rd9], %r3;\n") == ELEMENT_BITS);
}

int main(void)
{
    struct capture_pointer pointer = {.param = 3, .region = 0};
    capture.regions = &region;
    capture.region_count = 1;
    capture.pointers = &pointer;
    capture.pointer_count = 1;
    memory = (struct replay_memory){
        .capture = &capture, .extent_count = 1, .extents = &extent, .total = 32, .written = mask};
    memset(mask, 0xff, sizeof mask);
    floats();
    doubles();
    accuracies();
    types();
    return test_result();
}
