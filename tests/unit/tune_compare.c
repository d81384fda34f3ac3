/* Accuracy: what is equal, what is near enough, and what type an original stores. */
#include "test.h"
#include "tune/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct replay_memory memory;
static struct kg_capture capture = {.launch = {{4, 1, 1}, {2, 1, 1}, 0}};
static struct replay_extent extent = {.address = 0x1000, .size = 32};
static struct capture_region region = {.address = 0x1000, .size = 32};
static unsigned char mask[32];
static struct replay_datum datum = {.to = 32};

static bool equal32(const float got[8], const float expected[8], double relative, size_t *at)
{
    struct accuracy accuracy = {.mode = relative > 0 ? ACCURACY_REL : ACCURACY_BITWISE,
                                .limit = relative};
    datum.stores = ELEMENT_F32;
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
    struct accuracy accuracy = {.mode = ACCURACY_REL, .limit = 1e-8};
    size_t at;
    datum.stores = ELEMENT_F64;
    CHECK(results_equal(&memory, (void *)b, (void *)a, &accuracy, &at));
    datum.stores = ELEMENT_UNKNOWN; /* unknown type: bitwise, whatever was asked */
    CHECK(!results_equal(&memory, (void *)b, (void *)a, &accuracy, &at));
    char text[400];
    datum.stores = ELEMENT_F64;
    difference_text(&memory, (void *)b, (void *)a, &accuracy, 18, text, sizeof text);
    CHECK(strstr(text, "parameter 0 + 16:") && strstr(text, "as f64 3.00000000") &&
          strstr(text, "block 2 if"));
}

static void halves(void)
{
    unsigned char image[8];
    static const double values[] = {0, -0.0, 1, -2.5, 65504, 0x1p-14, 0x1p-24, -0x1.ffcp-3};
    for (uint8_t element = ELEMENT_F16; element <= ELEMENT_F64; element++)
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            bool fits = element != ELEMENT_BF16 || i < 4 || i == 5 || i == 6;
            element_put(image, 0, element, values[i]);
            CHECK(!fits || element_get(image, 0, element) == values[i]);
            element_put(image, 0, element, NAN);
            CHECK(isnan(element_get(image, 0, element)));
            element_put(image, 0, element, -INFINITY);
            CHECK(element_get(image, 0, element) == -INFINITY);
        }
    element_put(image, 0, ELEMENT_F16, 1 + 0x1.8p-11); /* to the nearest */
    CHECK(element_get(image, 0, ELEMENT_F16) == 1 + 0x1p-10);
    element_put(image, 0, ELEMENT_F16, 1e6);
    CHECK(isinf(element_get(image, 0, ELEMENT_F16)));
    CHECK(element_ulp(1, ELEMENT_F32) == 0x1p-23 && element_ulp(0, ELEMENT_F32) == 0x1p-149);
    CHECK(element_ulp(-3, ELEMENT_F64) == 0x1p-51 && element_ulp(5, ELEMENT_BF16) == 0x1p-5);
}

static void ulps(void)
{
    float a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, b[8];
    struct accuracy accuracy = {.mode = ACCURACY_ULP, .limit = 2};
    struct inexact seen = {0};
    size_t at;
    memcpy(b, a, sizeof b);
    datum.stores = ELEMENT_F32;
    memory.inexact = &seen;
    b[1] = 2 + 2 * 0x1p-22f;
    CHECK(results_equal(&memory, (void *)b, (void *)a, &accuracy, &at));
    CHECK(seen.elements == 1 && seen.ulps == 2 && seen.at == 4 && seen.of_bound == 1);
    b[1] = 2 + 3 * 0x1p-22f;
    CHECK(!results_equal(&memory, (void *)b, (void *)a, &accuracy, &at));
    double bound[8] = {0, 1e-3, 0, 0, 0, 0, 0, 0};
    accuracy.mode = ACCURACY_AUTO;
    CHECK(!results_equal(&memory, (void *)b, (void *)a, &accuracy, &at)); /* nothing measured */
    memory.bound = bound;
    CHECK(results_equal(&memory, (void *)b, (void *)a, &accuracy, &at));
    b[2] = 3.0000002f;
    CHECK(!results_equal(&memory, (void *)b, (void *)a, &accuracy, &at));
    memory.bound = NULL;
    memory.inexact = NULL;
}

static void accuracies(void)
{
    struct accuracy a, b;
    CHECK(accuracy_parse("bitwise", &a) && a.mode == ACCURACY_BITWISE);
    CHECK(accuracy_parse("rel:1e-5", &a) && a.mode == ACCURACY_REL && a.limit == 1e-5);
    CHECK(accuracy_parse("rel:1e-6", &b) && accuracy_suits(&b, &a) && !accuracy_suits(&a, &b));
    CHECK(accuracy_parse("ulp:4", &a) && a.mode == ACCURACY_ULP && a.limit == 4);
    CHECK(!accuracy_suits(&a, &b) && !accuracy_suits(&b, &a));
    CHECK(accuracy_parse("auto", &a) && a.mode == ACCURACY_AUTO && accuracy_suits(&a, &a));
    static const char *const bad[] = {"",       "rel:",    "rel:0",  "rel:-1", "rel:2",
                                      "rel:1x", "ulp",     "ulp:",   "ulp:0",  "ulp:1e9",
                                      "auto:1", "rel:nan", "Bitwise"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!accuracy_parse(bad[i], &b) && b.mode == ACCURACY_BITWISE);
    CHECK(accuracy_suits(&b, &a) && !accuracy_suits(&a, &b));
}

#define PTX_HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"
#define ENTRY                                                                                      \
    ".visible .entry k(.param .u64 p)\n{\n\t.reg .b32 %r<10>;\n\t.reg .b64 %rd<10>;\n"             \
    "\t.reg .f32 %f<10>;\n\t.reg .pred %p<3>;\n\tld.param.u64 %rd1, [p];\n"                        \
    "\tcvta.to.global.u64 %rd9, %rd1;\n"

static struct replay_datum of_ptx(const char *ptx)
{
    struct replay_memory own = memory;
    own.data = NULL;
    own.datum_count = 0;
    CHECK(memory_data(&own, ptx, "k") == KG_OK && own.datum_count == 1);
    struct replay_datum found = own.data[0];
    CHECK(found.from == 0 && found.to == 32);
    free(own.data);
    free(own.numbers);
    return found;
}

static void types(void)
{
#define STORES(body) of_ptx(PTX_HEAD ENTRY body "\tret;\n}\n").stores
    CHECK(STORES("\tfma.rn.f32 %r4, %r1, %r2, %r3;\n\tmov.b32 \t%r5, %r4;\n"
                 "\tst.global.b32 \t[%rd9], %r5;\n\tadd.f32 %f1, %f2, %f3;\n"
                 "\tst.global.v2.f32 [%rd9+8], {%f1, %f1};\n") == ELEMENT_F32);
    CHECK(of_ptx(NULL).stores == ELEMENT_UNKNOWN && of_ptx(NULL).roles == ROLE_UNKNOWN);
    CHECK(of_ptx("nonsense").stores == ELEMENT_UNKNOWN && of_ptx("nonsense").read);
    CHECK(STORES("\tmul.f64 %rd3, %rd4, %rd2;\n\tst.global.v2.b64 [%rd9], {%rd3, %rd3};\n") ==
          ELEMENT_F64);
    CHECK(STORES("\tmul.f32 %r3, %r1, %r2;\n\tadd.s32 %r4, %r1, 1;\n"
                 "\tst.global.v2.b32 [%rd9], {%r3, %r4};\n") == ELEMENT_UNKNOWN);
    CHECK(STORES("\tld.global.b32 %r3, [%rd9];\n\tst.global.b32 [%rd9+4], %r3;\n") ==
          ELEMENT_MOVED);
    CHECK(STORES("\tld.global.f32 %f3, [%rd9];\n\tst.global.f32 [%rd9+4], %f3;\n") ==
          ELEMENT_MOVED);
    CHECK(STORES("\tadd.f32 %f3, %f1, %f2;\n\tst.global.f32 [%rd9], %f3;\n"
                 "\tred.global.add.u32 [%rd9], %r1;\n") == ELEMENT_UNKNOWN);
    /* numbers of two types in one memory, but what is stored is computed */
    CHECK(STORES(
              "\tld.global.u32 %r3, [%rd9];\n\tadd.s32 %r4, %r3, 1;\n\tst.global.u32 [%rd9], %r4;\n"
              "\tld.global.f32 %f3, [%rd9+4];\n\tst.global.f32 [%rd9+8], %f3;\n") ==
          ELEMENT_UNKNOWN);
    CHECK(STORES("\tld.global.u32 %r3, [%rd9];\n\tadd.s32 %r4, %r3, 1;\n"
                 "\tld.global.f32 %f3, [%rd9+4];\n\t@%p1 bra L;\n\tadd.f32 %f3, %f3, %f3;\nL:\n"
                 "\tst.global.f32 [%rd9+8], %f3;\n") == ELEMENT_F32);
    /* whole numbers made of floats are no floats */
    CHECK(STORES("\tcvt.rzi.s32.f32 %r3, %f1;\n\tst.global.b32 [%rd9], %r3;\n") == ELEMENT_INT);
    CHECK(STORES("\tcvt.rn.f32.s32 %r3, %r1;\n\tst.global.b32 [%rd9], %r3;\n") == ELEMENT_F32);
    /* nor what is a whole number on one of two ways */
    CHECK(STORES("\tadd.s32 %r3, %r1, 1;\n\t@%p1 bra L;\n\tadd.f32 %r3, %r1, %r2;\nL:\n"
                 "\tst.global.b32 [%rd9], %r3;\n") == ELEMENT_UNKNOWN);
}

static void loads(void)
{
#define LOADS(body) of_ptx(PTX_HEAD ENTRY body "\tret;\n}\n")
    struct replay_datum d = LOADS("\tld.global.b32 %r3, [%rd9];\n\tadd.f32 %r4, %r3, %r3;\n"
                                  "\tst.global.b32 [%rd9+4], %r4;\n");
    CHECK(d.read && d.loads == ELEMENT_F32 && d.width == 4 && d.roles == ROLE_VALUE);
    d = LOADS("\tld.global.u8 %r3, [%rd9];\n\tadd.s32 %r3, %r3, 1;\n\tcvt.u64.u32 %rd3, %r3;\n"
              "\tadd.s64 %rd4, %rd9, %rd3;\n\tst.global.u8 [%rd4], 1;\n");
    CHECK(d.read && d.loads == ELEMENT_INT && d.width == 1 && d.roles & ROLE_INDEX);
    d = LOADS("\tst.global.u32 [%rd9], 7;\n");
    CHECK(!d.read && !d.roles);
}

int main(void)
{
    struct capture_pointer pointer = {.param = 0, .region = 0};
    capture.regions = &region;
    capture.region_count = 1;
    static struct kg_param param = {.offset = 0, .size = 8};
    capture.params = &param;
    capture.param_count = 1;
    capture.pointers = &pointer;
    capture.pointer_count = 1;
    memory = (struct replay_memory){.capture = &capture,
                                    .extent_count = 1,
                                    .extents = &extent,
                                    .total = 32,
                                    .written = mask,
                                    .datum_count = 1,
                                    .data = &datum};
    memset(mask, 0xff, sizeof mask);
    floats();
    doubles();
    halves();
    ulps();
    accuracies();
    types();
    loads();
    return test_result();
}
