/* Checks by instrumentation: each kind of offending access is found, told exactly, and not
 * performed; loops and recursion end; nobody waits for a thread that was ended; what cannot be
 * instrumented is refused with its line. */
#include "unit/exec_test.h"

#include "instrument_fixture.h"

enum { WORDS = 64, BYTES = WORDS * 4 };

/* clang-format off */
static const char source[] =
    "extern \"C\" __global__ void beyond(int *a, int *b, int n) { b[threadIdx.x + n] = a[threadIdx.x]; }\n"
    "extern \"C\" __global__ void before(int *a, int *b, int n) { b[threadIdx.x] = a[(int)threadIdx.x - n] + 7; }\n"
    "extern \"C\" __global__ void atomic(int *a, int *b, int n) { b[threadIdx.x] = atomicAdd(&a[threadIdx.x + n], 5) + 1; }\n"
    "extern \"C\" __global__ void vector(int4 *a, int4 *b, int n) {\n"
    "    int4 v = *(int4 *)((char *)a + 16 * threadIdx.x + n); b[threadIdx.x] = make_int4(v.w, v.z, v.y, v.x + 1); }\n"
    "extern \"C\" __global__ void shared(int *a, int *b, int n) { __shared__ int s[32];\n"
    "    s[threadIdx.x & 31] = a[threadIdx.x]; __syncthreads(); s[threadIdx.x + n] = 3; __syncthreads();\n"
    "    b[threadIdx.x] = s[threadIdx.x & 31] + s[threadIdx.x + n]; }\n"
    "extern \"C\" __global__ void local(int *a, int *b, int n) { int own[8];\n"
    "    for (int i = 0; i < 8; i++) own[i] = a[i] + threadIdx.x;\n"
    "    own[a[0] + n + threadIdx.x % 4] = 9; b[threadIdx.x] = own[a[1] % 8] + own[(threadIdx.x + a[0]) % 8]; }\n"
    "extern \"C\" __global__ void endless(int *a, int *b, int n) {\n"
    "    volatile int *go = a; if (threadIdx.x == 5) while (go[0] == n) continue;\n"
    "    __syncthreads(); b[threadIdx.x] = threadIdx.x + 1; }\n"
    "__device__ __noinline__ int deep(int *a, int n) { return a[n & 15] ? deep(a, n + 1) + n : n; }\n"
    "extern \"C\" __global__ void recursion(int *a, int *b, int n) { b[threadIdx.x] = 1; b[threadIdx.x] = deep(a, n); }\n"
    "__device__ __noinline__ void fill(int *to, int n, int v) { int tmp[4]; for (int i = 0; i < n; i++) tmp[(i * v) & 3] = i;\n"
    "    for (int i = 0; i < n; i++) to[i] = tmp[i & 3] + v; }\n"
    "extern \"C\" __global__ void calls(int *a, int *b, int n) { int own[8]; fill(own, 8, a[threadIdx.x]); fill(b + 8 * threadIdx.x, 8, n);\n"
    "    b[8 * threadIdx.x] += own[a[0] & 7] + own[3]; }\n"
    "extern \"C\" __global__ void copy(int *a, int *b, int n) { __shared__ __align__(16) int s[128];\n"
    "    unsigned to = (unsigned)__cvta_generic_to_shared(s) + 16 * threadIdx.x;\n"
    "    asm volatile(\"cp.async.ca.shared.global [%0], [%1], 16;\" :: \"r\"(to), \"l\"(a + 4 * threadIdx.x + n));\n"
    "    asm volatile(\"cp.async.wait_all;\"); __syncthreads(); b[threadIdx.x] = threadIdx.x < 16 && n ? 0 : s[threadIdx.x]; }\n"
    "extern \"C\" __global__ void parts(int *a, int *b, int n) {\n"
    "    if (threadIdx.x < 32) asm volatile(\"bar.arrive 1, 64;\"); else asm volatile(\"bar.sync 1, 64;\");\n"
    "    for (int i = 0; i < a[0]; i++) b[i] = n; }\n"
    "extern \"C\" __global__ void counts(int *a, int *b, int n) { int sum = 0;\n"
    "#pragma unroll 1\n"
    "    for (int i = 0; i < (threadIdx.x == 7 ? n : 3); i++) sum += ((volatile int *)a)[i & 31];\n"
    "    if (threadIdx.x & 1) return; b[threadIdx.x] = sum; }\n"
    "extern \"C\" __global__ void traps(int *a, int *b, int n) { if (a[0] == n) __trap(); b[0] = 1; }\n"
    "extern \"C\" __global__ void pointer(int *a, int *b, int n) { int (*f)(int *, int) = n ? deep : (int (*)(int *, int))a; b[0] = f(a, n); }\n";
/* clang-format on */

static uint64_t buffers[2], others; /* others: many small ranges */
enum { MANY = 9 };
static struct kg_bytes ptx;

static int *words(unsigned buffer)
{
    return (int *)(uintptr_t)buffers[buffer];
}

static void reset(void)
{
    for (int i = 0; i < WORDS; i++) {
        words(0)[i] = i + 1;
        words(1)[i] = -1;
    }
}

struct offence {
    unsigned rights[2], budget;
    uint64_t size[2]; /* of the ranges; 0: all */
    unsigned what;
    bool many; /* ranges */
};

/* Runs one block of `threads` of an entry; the first report, or NULL. */
static const struct instrument_report *run(struct fixture_run *out, const char *entry, int n,
                                           unsigned threads, const struct offence *how)
{
    static const struct offence usual = {0};
    struct kg_launch launch = {{1, 1, 1}, {threads, 1, 1}, 0};
    struct exec_config config = {.launch = launch, .threads = 1};
    struct observe_range ranges[2 + MANY];
    unsigned char params[24];
    how = how ? how : &usual;
    reset();
    for (unsigned i = 0; i < 2; i++)
        ranges[i] = (struct observe_range){
            .address = buffers[i],
            .size = how->size[i] ? how->size[i] : BYTES,
            .rights = how->rights[i] ? how->rights[i] : INSTRUMENT_READ | INSTRUMENT_WRITE};
    for (unsigned i = 0; i < MANY; i++)
        ranges[2 + i] = (struct observe_range){
            .address = others + 16 * i, .size = 8, .rights = INSTRUMENT_READ};
    kg_status status = fixture_load(out, (const char *)ptx.data, entry,
                                    how->what ? how->what : INSTRUMENT_CHECK, &launch);
    if (!CHECK(status == KG_OK)) {
        fprintf(stderr, "%s: %s\n", entry, out->text.reason);
        exit(1);
    }
    CHECK(observe_begin(&out->text, fixture_module(out), fixture_function(out), &launch, ranges,
                        how->many ? 2 + MANY : 2, how->budget ? how->budget : 10000,
                        &out->observe) == KG_OK);
    memcpy(params, buffers, 16);
    memcpy(params + 16, &n, 4);
    exec_launch(out->kernel, &config, params, &out->result);
    if (!CHECK(out->result.fault == EXEC_OK))
        fprintf(stderr, "%s: %s\n", entry, out->result.text);
    CHECK(observe_read(&out->observe) == KG_OK);
    return out->observe.reports.count ? &out->observe.reports.list[0] : NULL;
}

/* The report's line of the PTX holds this operation. */
static bool line_has(const struct instrument_report *report, const char *operation)
{
    const char *at = (const char *)ptx.data;
    for (unsigned line = 1; line < report->line; line++)
        at = strchr(at, '\n') + 1;
    const char *found = strstr(at, operation);
    return found && found < strchr(at, '\n');
}

static bool told(const struct instrument_report *report, unsigned kind, unsigned rights,
                 uint64_t address, unsigned size, unsigned thread, const char *operation)
{
    return CHECK(report != NULL) && CHECK((report->kind & 255) == kind) &&
           CHECK((report->kind >> 8 & 3) == rights) && CHECK(report->address == address) &&
           CHECK(report->size == size) && CHECK(report->thread[0] == thread) &&
           CHECK(line_has(report, operation));
}

static void check_global(void)
{
    struct fixture_run r;
    const struct offence read_only = {.rights = {0, INSTRUMENT_READ}},
                         write_only = {.rights = {INSTRUMENT_WRITE}};
    told(run(&r, "beyond", 60, 32, NULL), INSTRUMENT_OUTSIDE, INSTRUMENT_WRITE, buffers[1] + BYTES,
         4, 4, "st.global");
    CHECK(r.observe.reports.count == 28 && words(1)[63] == 4 && words(1)[59] == -1);
    fixture_unload(&r);
    told(run(&r, "before", 3, 32, NULL), INSTRUMENT_OUTSIDE, INSTRUMENT_READ, buffers[0] - 12, 4, 0,
         "ld.global");
    CHECK(r.observe.reports.count == 3 && words(1)[2] == 7 && words(1)[3] == 8);
    fixture_unload(&r);
    told(run(&r, "atomic", 62, 4, NULL), INSTRUMENT_OUTSIDE, INSTRUMENT_READ | INSTRUMENT_WRITE,
         buffers[0] + BYTES, 4, 2, "atom.");
    CHECK(words(1)[1] == 65 && words(1)[2] == 1 && words(0)[63] == 69);
    fixture_unload(&r);
    told(run(&r, "beyond", 0, 32, &read_only), INSTRUMENT_DENIED, INSTRUMENT_WRITE, buffers[1], 4,
         0, "st.global");
    CHECK(words(1)[0] == -1 && r.observe.reports.count == 32);
    fixture_unload(&r);
    told(run(&r, "beyond", 0, 32, &write_only), INSTRUMENT_DENIED, INSTRUMENT_READ, buffers[0], 4,
         0, "ld.global");
    CHECK(words(1)[5] == 0);
    fixture_unload(&r);
}

/* Beyond the few ranges that are looked at one by one. */
static void check_many(void)
{
    struct fixture_run r;
    const struct offence many = {.many = true, .what = INSTRUMENT_CHECK | INSTRUMENT_RECORD};
    told(run(&r, "beyond", 60, 32, &many), INSTRUMENT_OUTSIDE, INSTRUMENT_WRITE, buffers[1] + BYTES,
         4, 4, "st.global");
    CHECK(r.observe.reports.count == 28 && words(1)[63] == 4 && words(1)[59] == -1);
    for (unsigned i = 0; i < r.observe.range_count; i++) {
        const struct observe_range *range = &r.observe.ranges[i];
        for (uint64_t at = 0; at < range->size; at++) {
            CHECK(observed(range, range->writes, at) ==
                  (range->address == buffers[1] && at >= 240));
            CHECK(observed(range, range->reads, at) == (range->address == buffers[0] && at < 128));
        }
    }
    fixture_unload(&r);
}

static void check_vectors(void)
{
    struct fixture_run r;
    const struct offence part = {.size = {BYTES - 4}};
    told(run(&r, "vector", 0, 16, &part), INSTRUMENT_OUTSIDE, INSTRUMENT_READ, buffers[0] + 240, 16,
         15, "ld.global.v4");
    CHECK(words(1)[59] == 58 && words(1)[60] == 0 && words(1)[63] == 1);
    fixture_unload(&r);
    told(run(&r, "vector", 4, 8, NULL), INSTRUMENT_MISALIGNED, INSTRUMENT_READ, buffers[0] + 4, 16,
         0, "ld.global.v4");
    fixture_unload(&r);
    told(run(&r, "copy", 8, 15, NULL), INSTRUMENT_OUTSIDE, INSTRUMENT_READ, buffers[0] + BYTES, 16,
         14, "cp.async");
    fixture_unload(&r);
    CHECK(!run(&r, "copy", 0, 16, NULL) && words(1)[15] == 16);
    fixture_unload(&r);
}

static void check_spaces(void)
{
    struct fixture_run r;
    const struct instrument_report *report = run(&r, "shared", 20, 16, NULL);
    if (CHECK(report != NULL))
        CHECK((report->kind & 255) == INSTRUMENT_OUTSIDE && (report->kind >> 16 & 3) == 1 &&
              report->thread[0] == 12 && line_has(report, "st.shared"));
    CHECK(words(1)[3] == 4 + 3 && words(1)[12] == 13);
    fixture_unload(&r);
    report = run(&r, "local", 4, 8, NULL);
    if (CHECK(report != NULL))
        CHECK((report->kind & 255) == INSTRUMENT_OUTSIDE && (report->kind >> 16 & 3) == 2 &&
              report->thread[0] == 3 && line_has(report, "st.local"));
    fixture_unload(&r);
    CHECK(!run(&r, "calls", 6, 8, NULL) && words(1)[1] >= 6);
    fixture_unload(&r);
}

static void check_budgets(void)
{
    struct fixture_run r;
    const struct instrument_report *report = run(&r, "endless", 1, 64, NULL);
    if (CHECK(report != NULL))
        CHECK((report->kind & 255) == INSTRUMENT_BUDGET && report->thread[0] == 5 &&
              line_has(report, "bra"));
    CHECK(r.observe.reports.count == 1 && words(1)[4] == 5 && words(1)[5] == -1 &&
          words(1)[63] == 64);
    fixture_unload(&r);
}

static void check_counts(void)
{
    struct fixture_run r;
    CHECK(!run(&r, "counts", 500, 32, NULL) && r.observe.reports.most >= 499 &&
          r.observe.reports.most <= 501);
    fixture_unload(&r);
    CHECK(!run(&r, "counts", 0, 8, NULL) && r.observe.reports.most >= 2 &&
          r.observe.reports.most <= 4);
    fixture_unload(&r);
}

/* Recording performs what lies outside, too. */
static void check_record(void)
{
    struct fixture_run r;
    const struct offence half = {.what = INSTRUMENT_RECORD, .size = {0, BYTES / 2}};
    told(run(&r, "beyond", 30, 4, &half), INSTRUMENT_OUTSIDE, INSTRUMENT_WRITE,
         buffers[1] + BYTES / 2, 4, 2, "st.global");
    CHECK(words(1)[33] == 4);
    for (unsigned i = 0; i < 2; i++) {
        const struct observe_range *range = &r.observe.ranges[i];
        bool out = range->address == buffers[1];
        for (uint64_t at = 0; at < range->size; at++) {
            CHECK(observed(range, range->writes, at) == (out && at >= 120));
            CHECK(observed(range, range->reads, at) == (!out && at < 16));
        }
    }
    CHECK(observe_reset(&r.observe) == KG_OK && observe_read(&r.observe) == KG_OK &&
          !r.observe.reports.count &&
          !observed(&r.observe.ranges[0], r.observe.ranges[0].reads, 0));
    for (unsigned i = 0; i < r.observe.bits_size; i++)
        CHECK(!r.observe.bits_host[i]);
    fixture_unload(&r);
}

/* Ranges that overlap cannot be told apart. */
static void check_overlap(void)
{
    struct fixture_run r;
    const struct kg_launch launch = {{1, 1, 1}, {32, 1, 1}, 0};
    const struct observe_range ranges[2] = {{.address = buffers[0], .size = BYTES},
                                            {.address = buffers[0] + BYTES - 1, .size = 4}};
    CHECK(fixture_load(&r, (const char *)ptx.data, "beyond", INSTRUMENT_RECORD, &launch) == KG_OK);
    CHECK(observe_begin(&r.text, fixture_module(&r), fixture_function(&r), &launch, ranges, 2, 1,
                        &r.observe) == KG_BAD_INPUT);
    fixture_unload(&r);
}

static void check_refusals(void)
{
    static const struct {
        const char *entry;
        unsigned what;
        const char *reason;
    } rows[] = {
        {"parts", INSTRUMENT_CHECK, "bar.arrive"},    {"parts", INSTRUMENT_RACES, "bar.arrive"},
        {"traps", INSTRUMENT_CHECK, "trap"},          {"pointer", INSTRUMENT_RECORD, "indirect"},
        {"recursion", INSTRUMENT_CHECK, "recursion"},
    };
    const struct kg_launch launch = {{1, 1, 1}, {32, 1, 1}, 0};
    struct fixture_run r;
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!CHECK(fixture_load(&r, (const char *)ptx.data, rows[i].entry, rows[i].what, &launch) ==
                   KG_NOT_ELIGIBLE) ||
            !CHECK(strstr(r.text.reason, rows[i].reason) != NULL))
            fprintf(stderr, "%s: '%s'\n", rows[i].entry, r.text.reason);
        CHECK(!r.text.text.data);
        fixture_unload(&r);
    }
    CHECK(fixture_load(&r, (const char *)ptx.data, "nothing", INSTRUMENT_CHECK, &launch) ==
          KG_NOT_FOUND);
    fixture_unload(&r);
    CHECK(fixture_load(&r, (const char *)ptx.data, "beyond", INSTRUMENT_CHECK, &launch) == KG_OK);
    struct instrumented twice;
    struct instrument_options options = {INSTRUMENT_CHECK, {0}};
    CHECK(ptx_instrument((const char *)r.text.text.data, "beyond", &options, &twice) ==
          KG_NOT_ELIGIBLE);
    instrumented_free(&twice);
    fixture_unload(&r);
}

int main(void)
{
    ptx = ptx_of(source, "-O2 -arch=compute_90");
    fixture_driver(&test_memory);
    buffers[0] = test_alloc(BYTES, 256);
    buffers[1] = test_alloc(BYTES, 256);
    others = test_alloc(16 * MANY, 256);
    check_global();
    check_many();
    check_vectors();
    check_spaces();
    check_budgets();
    check_counts();
    check_record();
    check_overlap();
    check_refusals();
    test_free_all();
    bytes_free(&ptx);
    return test_result();
}
