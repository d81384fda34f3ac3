/* The bound of accuracy auto, measured on C functions: honest ways of computing the same in another
 * order or contraction pass, unstable algebra and lower precision do not, on the inputs that are
 * drawn for it; and it can say that it cannot tell. */
#include "test.h"
#include "tune/draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 48, COLUMNS = 1024, N = ROWS * COLUMNS };

typedef void kernel(const float *x, float *y);

/* ---- kernels -----------------------------------------------------------------------------------
 */

static void sum_serial(const float *x, float *y)
{
    for (int r = 0; r < ROWS; r++, x += COLUMNS) {
        volatile float sum = 0;
        for (int i = 0; i < COLUMNS; i++)
            sum = sum + x[i];
        y[r] = sum;
    }
}

static float tree(const float *x, int n)
{
    return n == 1 ? *x : tree(x, n / 2) + tree(x + n / 2, n / 2);
}

static void sum_tree(const float *x, float *y)
{
    for (int r = 0; r < ROWS; r++)
        y[r] = tree(x + (size_t)r * COLUMNS, COLUMNS);
}

static void sum_double(const float *x, float *y)
{
    for (int r = 0; r < ROWS; r++, x += COLUMNS) {
        double sum = 0;
        for (int i = 0; i < COLUMNS; i++)
            sum += x[i];
        y[r] = (float)sum;
    }
}

static float cut(float x, int bits)
{
    uint32_t raw;
    memcpy(&raw, &x, 4);
    raw &= ~((1u << (24 - bits)) - 1);
    memcpy(&x, &raw, 4);
    return x;
}

static void sum_tf32(const float *x, float *y)
{
    for (int r = 0; r < ROWS; r++, x += COLUMNS) {
        float sum = 0;
        for (int i = 0; i < COLUMNS; i++)
            sum += cut(x[i], 11);
        y[r] = sum;
    }
}

static void sum_half(const float *x, float *y)
{
    for (int r = 0; r < ROWS; r++, x += COLUMNS) {
        float sum = 0;
        for (int i = 0; i < COLUMNS; i++)
            sum = cut(sum + x[i], 11);
        y[r] = sum;
    }
}

static void sum_one_less(const float *x, float *y)
{
    sum_serial(x, y);
    for (int r = 0; r < ROWS; r++)
        y[r] -= x[(size_t)r * COLUMNS + 77] / 64;
}

/* Sums of products that partly cancel. */
static void fused(const float *x, float *y)
{
    for (int i = 0; i + 3 < N; i++)
        y[i] = fmaf(x[i], x[i + 1], -x[i + 2] * x[i + 3]);
}

static void not_fused(const float *x, float *y)
{
    for (int i = 0; i + 3 < N; i++) {
        volatile float product = x[i] * x[i + 1], other = x[i + 2] * x[i + 3];
        y[i] = product - other;
    }
}

static void softmax(const float *x, float *y)
{
    for (int r = 0; r < ROWS; r++, x += COLUMNS, y += COLUMNS) {
        float most = x[0], sum = 0;
        for (int i = 1; i < COLUMNS; i++)
            most = fmaxf(most, x[i]);
        for (int i = 0; i < COLUMNS; i++)
            sum += expf(x[i] - most);
        for (int i = 0; i < COLUMNS; i++)
            y[i] = expf(x[i] - most) / sum;
    }
}

static void softmax_online(const float *x, float *y)
{
    for (int r = 0; r < ROWS; r++, x += COLUMNS, y += COLUMNS) {
        float most = -INFINITY, sum = 0;
        for (int i = 0; i < COLUMNS; i++) {
            float now = fmaxf(most, x[i]);
            sum = sum * expf(most - now) + expf(x[i] - now);
            most = now;
        }
        float by = 1 / sum;
        for (int i = 0; i < COLUMNS; i++)
            y[i] = expf(x[i] - most) * by;
    }
}

static void softmax_no_maximum(const float *x, float *y)
{
    for (int r = 0; r < ROWS; r++, x += COLUMNS, y += COLUMNS) {
        float sum = 0;
        for (int i = 0; i < COLUMNS; i++)
            sum += expf(x[i]);
        for (int i = 0; i < COLUMNS; i++)
            y[i] = expf(x[i]) / sum;
    }
}

static void small_to_zero(const float *x, float *y)
{
    softmax(x, y);
    for (int i = 0; i < N; i++)
        y[i] = y[i] < 1e-12f ? 0 : y[i];
}

static void normalize(const float *x, float *y, float mean, float variance)
{
    float by = 1 / sqrtf(variance + 1e-5f);
    for (int i = 0; i < COLUMNS; i++)
        y[i] = (x[i] - mean) * by;
}

static void layernorm(const float *x, float *y)
{
    for (int r = 0; r < ROWS; r++, x += COLUMNS, y += COLUMNS) {
        float sum = 0, squares = 0;
        for (int i = 0; i < COLUMNS; i++)
            sum += x[i];
        float mean = sum / COLUMNS;
        for (int i = 0; i < COLUMNS; i++)
            squares += (x[i] - mean) * (x[i] - mean);
        normalize(x, y, mean, squares / COLUMNS);
    }
}

static void layernorm_welford(const float *x, float *y)
{
    for (int r = 0; r < ROWS; r++, x += COLUMNS, y += COLUMNS) {
        float mean = 0, squares = 0;
        for (int i = 0; i < COLUMNS; i++) {
            float off = x[i] - mean;
            mean += off / (float)(i + 1);
            squares += off * (x[i] - mean);
        }
        normalize(x, y, mean, squares / COLUMNS);
    }
}

static void layernorm_one_pass(const float *x, float *y)
{
    for (int r = 0; r < ROWS; r++, x += COLUMNS, y += COLUMNS) {
        float sum = 0, squares = 0;
        for (int i = 0; i < COLUMNS; i++) {
            sum += x[i];
            squares += x[i] * x[i];
        }
        float mean = sum / COLUMNS;
        normalize(x, y, mean, squares / COLUMNS - mean * mean);
    }
}

/* Its results jump: no bound that holds can tell precisions apart. */
static void wild(const float *x, float *y)
{
    for (int i = 0; i < N; i++)
        y[i] = sinf(x[i] * 1e7f);
}

/* Large parameters cancel, whatever the inputs. */
static float parameters[3] = {12345.67f, -12345.12f, 0.31f};

static void first_two(const float *x, float *y)
{
    for (int i = 0; i < N; i++)
        y[i] = x[i] * 1e-3f + ((parameters[0] + parameters[1]) + parameters[2]);
}

static void last_two(const float *x, float *y)
{
    for (int i = 0; i < N; i++)
        y[i] = x[i] * 1e-3f + (parameters[0] + (parameters[1] + parameters[2]));
}

static void one_of_them_less(const float *x, float *y)
{
    for (int i = 0; i < N; i++)
        y[i] = x[i] * 1e-3f + ((parameters[0] + parameters[1]) + parameters[2] * 0.97f);
}

/* ---- a device of C functions -------------------------------------------------------------------
 */

static float device_x[N], device_y[N];
static kernel *original;

static kg_status fake_read(struct replay_device *device, uint64_t address, void *out, size_t size)
{
    memcpy(out, (void *)(uintptr_t)address, size);
    return KG_OK;
}

static kg_status fake_write(struct replay_device *device, uint64_t address, const void *data,
                            size_t size)
{
    memcpy((void *)(uintptr_t)address, data, size);
    return KG_OK;
}

static kg_status fake_launch(struct replay_device *device, enum side side)
{
    original(device_x, device_y);
    return KG_OK;
}

static struct replay_device device = {
    .read = fake_read, .write = fake_write, .launch = fake_launch};
static struct replay_extent extents[2] = {{.size = sizeof device_x},
                                          {.size = sizeof device_y, .at = sizeof device_x}};
static struct replay_datum data[2] = {
    {.to = sizeof device_x, .read = true, .loads = ELEMENT_F32, .width = 4, .roles = ROLE_VALUE},
    {.from = sizeof device_x,
     .to = sizeof device_x + sizeof device_y,
     .stores = ELEMENT_F32,
     .width = 4}};
static struct kg_capture capture;
static unsigned char images[8][sizeof device_x + sizeof device_y + 8];
static struct replay_memory memory = {.capture = &capture,
                                      .extent_count = 2,
                                      .extents = extents,
                                      .total = sizeof device_x + sizeof device_y,
                                      .pristine = images[0],
                                      .slack = images[1],
                                      .written = images[2],
                                      .poisoned = images[3],
                                      .work = images[4],
                                      .other = images[5],
                                      .first = images[6],
                                      .datum_count = 2,
                                      .data = data};
static struct trial trial = {.device = &device,
                             .memory = &memory,
                             .accuracy = {.mode = ACCURACY_AUTO},
                             .seeds = {1, 2, 3, 4}};

static const struct draw_row *row_of(const char *text)
{
    for (unsigned i = 0; i < draw_row_count; i++)
        if (strstr(draw_rows[i].text, text))
            return &draw_rows[i];
    fprintf(stderr, "draws.def has no row '%s'\n", text);
    abort();
}

/* Whether the variant passes, on inputs drawn by that row. tells: the bound could have refused. */
static bool passes(kernel *was, kernel *variant, size_t results, const char *text, bool *tells)
{
    const struct draw_row *row = row_of(text);
    size_t at;
    original = was;
    memset(memory.written + sizeof device_x, 0, sizeof device_y);
    memset(memory.written + sizeof device_x, 0xff, results * sizeof(float));
    memset(memory.pristine, 0, memory.total);
    memcpy(memory.work, memory.pristine, memory.total);
    draw_fill(&memory, row, 0, 1, 1234, memory.work);
    memcpy(memory.first, memory.work, memory.total);
    memcpy(device_x, memory.work, sizeof device_x);
    was(device_x, device_y);
    memcpy(memory.first + sizeof device_x, device_y, sizeof device_y);
    memcpy(memory.other, memory.first, memory.total);
    CHECK(bound_measure(&trial, memory.work, memory.first, row->flags & DRAW_ILL) == KG_OK);
    *tells = bound_tells(&trial, memory.first);
    memcpy(device_x, memory.work, sizeof device_x);
    variant(device_x, device_y);
    memcpy(memory.other + sizeof device_x, device_y, sizeof device_y);
    bool equal = results_equal(&memory, memory.other, memory.first, &trial.accuracy, &at);
    if (!equal && getenv("VERBOSE")) {
        char words[512];
        difference_text(&memory, memory.other, memory.first, &trial.accuracy, at, words,
                        sizeof words);
        fprintf(stderr, "  %s\n", words);
    }
    return equal;
}

static void judge(const char *what, kernel *was, kernel *variant, size_t results, const char *row,
                  bool pass)
{
    struct inexact seen = {0};
    bool tells;
    memory.inexact = &seen;
    bool got = passes(was, variant, results, row, &tells);
    memory.inexact = NULL;
    if (!CHECK(got == pass) || getenv("VERBOSE"))
        fprintf(stderr, "  %s, %s: %s; worst %.3g ulp, %.3g of its bound; %s\n", what, row,
                got ? "passes" : "is refused", seen.ulps, seen.of_bound,
                tells ? "tells" : "tells nothing");
}

/* What an ulp of parameters makes is seen where it is known that they are numbers. */
static void of_parameters(void)
{
    static struct replay_number numbers[] = {{0, ELEMENT_F32}, {4, ELEMENT_F32}, {8, ELEMENT_F32}};
    float before[3];
    memcpy(before, parameters, sizeof before);
    judge("order of parameters, unknown", first_two, last_two, N, "moderate", false);
    device.args = (unsigned char *)parameters;
    device.args_size = sizeof parameters;
    memory.numbers = numbers;
    memory.number_count = 3;
    judge("order of parameters", first_two, last_two, N, "moderate", true);
    judge("a part of a parameter less", first_two, one_of_them_less, N, "moderate", false);
    CHECK(!memcmp(before, parameters, sizeof before));
    memory.number_count = 0;
    device.args = NULL;
}

int main(void)
{
    bool tells;
    extents[0].address = (uintptr_t)device_x;
    extents[1].address = (uintptr_t)device_y;
    static const char *const plain[] = {"moderate", "large mean", "-88 to 88"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        judge("tree", sum_serial, sum_tree, ROWS, plain[i], true);
        judge("serial", sum_tree, sum_serial, ROWS, plain[i], true);
        judge("double", sum_serial, sum_double, ROWS, plain[i], true);
        judge("not fused", fused, not_fused, N - 3, plain[i], true);
        judge("fused", not_fused, fused, N - 3, plain[i], true);
        judge("online", softmax, softmax_online, N, plain[i], true);
        judge("Welford", layernorm, layernorm_welford, N, plain[i], true);
    }
    judge("tf32", sum_serial, sum_tf32, ROWS, "moderate", false);
    judge("half", sum_serial, sum_half, ROWS, "moderate", false);
    judge("a sixty-fourth of an element less", sum_serial, sum_one_less, ROWS, "-88 to 88", false);
    judge("no maximum", softmax, softmax_no_maximum, N, "large mean", false);
    judge("small to zero", softmax, small_to_zero, N, "-88 to 88", false);
    judge("one pass", layernorm, layernorm_one_pass, N, "large mean", false);
    of_parameters();
    passes(sum_serial, sum_serial, ROWS, "moderate", &tells);
    CHECK(tells);
    passes(softmax, softmax, N, "-88 to 88", &tells);
    CHECK(tells);
    passes(wild, wild, N, "moderate", &tells);
    CHECK(!tells);
    free(memory.bound);
    return test_result();
}
