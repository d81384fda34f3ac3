/* The kernel that compares what an original and its variant wrote, on the software GPU's executor:
 * every size and alignment bit for bit, and each type of float at its limit. */
#include "unit/exec_test.h"

#include <math.h>

#include "app/shadow_device.inc"

enum { ROOM = 4096 };

struct outcome {
    uint64_t differences, first;
};

static struct exec_module *module;
static uint64_t a, b, result;

/* Pointers are the test's own memory. */
static struct outcome compare(uint64_t at, uint64_t bytes, unsigned element, double limit)
{
    struct outcome *out = (struct outcome *)result;
    memset(out, 0, sizeof *out);
    struct test_call call = call_of(module, "kgenrt_compare", 2, 32, 0);
    ARG(&call, uint64_t, a + at);
    ARG(&call, uint64_t, b + at);
    ARG(&call, uint64_t, bytes);
    ARG(&call, uint64_t, result);
    ARG(&call, uint32_t, 5);
    ARG(&call, uint32_t, element);
    ARG(&call, double, limit);
    if (!CHECK(call_run(&call) == EXEC_OK))
        fprintf(stderr, "%s\n", call.result.text);
    return *out;
}

static void bits(void)
{
    unsigned char *x = (unsigned char *)a, *y = (unsigned char *)b;
    for (unsigned at = 0; at < 9; at++)
        for (unsigned size = 1; size < 40; size += size < 20 ? 1 : 7)
            for (unsigned k = 0; k < size; k += size < 20 ? 1 : 5) {
                memcpy(y, x, ROOM);
                y[at + k] ^= 1; /* and what stands around is none of its business */
                if (at)
                    y[at - 1] ^= 255;
                y[at + size] ^= 255;
                struct outcome o = compare(at, size, 0, 0);
                CHECK(o.differences == 1 && o.first == ~(UINT64_C(5) << 48 | k));
            }
    memcpy(y, x, ROOM);
    CHECK(!compare(3, 3000, 0, 0).differences);
    memset(y + 100, 0, 50);
    memset(x + 100, 255, 50);
    struct outcome o = compare(0, 3000, 0, 0);
    CHECK(o.differences == 50 && o.first == ~(UINT64_C(5) << 48 | 100));
    CHECK(!compare(0, 0, 0, 0).differences);
}

/* One pair of floats among equal ones: whether it passes. */
static bool passes(float expected, float got, double limit)
{
    float *x = (float *)a, *y = (float *)b;
    memcpy(y, x, ROOM);
    x[7] = expected;
    y[7] = got;
    struct outcome o = compare(0, 64, 4, limit);
    CHECK(o.differences <= 1);
    return !o.differences;
}

static bool doubles_pass(double expected, double got, double limit)
{
    double *x = (double *)a, *y = (double *)b;
    memcpy(y, x, ROOM);
    x[7] = expected;
    y[7] = got;
    return !compare(0, 128, 8, limit).differences;
}

static bool small_pass(uint16_t expected, uint16_t got, unsigned element, double limit)
{
    uint16_t *x = (uint16_t *)a, *y = (uint16_t *)b;
    memcpy(y, x, ROOM);
    x[7] = expected;
    y[7] = got;
    return !compare(0, 30, element, limit).differences;
}

static void floats(void)
{
    const double ulp = 0x1p-23;
    CHECK(passes(1, 1 + 1e-5f, 2e-5) && !passes(1, 1 + 1e-5f, 0.5e-5));
    CHECK(passes(-3, -3.00001f, 1e-5) && !passes(-3, 3, 1e-5));
    CHECK(passes(NAN, -NAN, 0) && !passes(NAN, 1, 1) && !passes(1, NAN, 1));
    CHECK(passes(INFINITY, INFINITY, 0) && !passes(INFINITY, -INFINITY, 1));
    CHECK(!passes(INFINITY, 3e38f, 1) && !passes(3e38f, INFINITY, 0.5));
    CHECK(passes(0.0f, -0.0f, 0) && !passes(0, 1e-30f, ulp));
    CHECK(passes(0x1p-140f, 0x1p-140f + 0x1p-149f, ulp)); /* one unit among denormals */
    CHECK(!passes(0x1p-140f, 0x1p-139f, ulp));
    CHECK(doubles_pass(1, 1 + 1e-13, 2e-13) && !doubles_pass(1, 1 + 1e-13, 0.5e-13));
    CHECK(doubles_pass(NAN, NAN, 0) && !doubles_pass(1e300, INFINITY, 0.5));
    CHECK(small_pass(0x3c00, 0x3c01, 2, 0x1p-10) && !small_pass(0x3c00, 0x3c02, 2, 0x1p-10));
    CHECK(small_pass(0x0001, 0x0002, 2, 0x1p-10) && !small_pass(0x0001, 0x0100, 2, 0x1p-10));
    CHECK(small_pass(0x8000, 0x0000, 2, 0) && !small_pass(0x7c00, 0xfc00, 2, 1));
    CHECK(small_pass(0x7e00, 0x7f00, 2, 0) && !small_pass(0x7e00, 0x3c00, 2, 1));
    CHECK(small_pass(0x3f80, 0x3f81, 3, 0x1p-7) && !small_pass(0x3f80, 0x3f82, 3, 0x1p-7));
    CHECK(!small_pass(0x7f80, 0xff80, 3, 1) && small_pass(0x7fc0, 0xffc0, 3, 0));
}

int main(void)
{
    module = module_of(shadow_ptx);
    a = test_alloc(ROOM, 512);
    b = test_alloc(ROOM, 512);
    result = test_alloc(64, 64);
    if (!CHECK(module && a && b && result))
        return test_result();
    for (unsigned i = 0; i < ROOM; i++)
        ((unsigned char *)a)[i] = (unsigned char)(i * 37 % 120); /* no NaN among them */
    bits();
    floats();
    exec_module_destroy(module);
    test_free_all();
    return test_result();
}
