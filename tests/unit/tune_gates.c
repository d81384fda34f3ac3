/* The gates over a device in memory whose kernels are C functions: right variants pass, each
 * hostile kind is refused by the gate named here, and switching that gate off changes the verdict.
 * A trial runs in a forked process and reports over a pipe, as the replay child does, so crashes
 * and endless loops are judged by the worker's own code. */
#include "code/instrument.h"
#include "test.h"
#include "tune/job.h"
#include "tune/replay.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { N = 5000, THREADS = 256, GRANULE = 65536, WINDOW = 1 << 20, REPEATS = 5 };
#define BASE UINT64_C(0x7e8000000000)
#define X_AT (BASE + 4096)            /* input, N floats */
#define Y_AT (BASE + WINDOW + 0x8000) /* output, N floats: starts inside a granule */

typedef void kernel(const float *x, float *y);

/* ---- originals ---------------------------------------------------------------------------------
 */

static void out_of_place(const float *x, float *y)
{
    for (int i = 0; i < N; i++)
        y[i] = 2 * x[i] + 1;
}

static void in_place(const float *x, float *y)
{
    for (int i = 0; i < N; i++)
        y[i] += x[i];
}

static void every_second_byte(const float *x, float *y)
{
    for (int i = 0; i < N * 4; i += 2)
        ((unsigned char *)y)[i] = (unsigned char)(((const unsigned char *)x)[i] * 3 + 1);
}

static void reverses(const float *x, float *y)
{
    for (int i = 0; i < N; i++)
        y[i] = x[N - 1 - i];
}

/* What a launch is given: a free scalar, and one that the originals do not read. */
static struct {
    float factor;
    uint32_t unread;
} given = {2, 77};

static void scales(const float *x, float *y)
{
    for (int i = 0; i < N; i++)
        y[i] = given.factor * x[i] + 1;
}

static void scales_nothing(const float *x, float *y)
{
    for (int i = 0; i < N; i++)
        y[i] = (given.factor != given.factor ? 0 : 2) * x[i] + 1;
}

static void unsteady(const float *x, float *y)
{
    static int calls;
    out_of_place(x, y);
    y[17] += (float)calls++;
}

static void beyond_capture(const float *x, float *y)
{
    out_of_place(x, y);
    y[N + 3] = 1;
}

static void reads_beyond(const float *x, float *y)
{
    out_of_place(x, y);
    memcpy(&y[5], &x[N + 1], 4);
}

static void zeros(const float *x, float *y)
{
    memset(y, 0, N * sizeof *y);
}

static void copies(const float *x, float *y)
{
    memcpy(y, x, N * sizeof *y);
}

static void writes_nothing(const float *x, float *y)
{
}

/* Follows indices: sound while all are below N. */
static void gathers(const float *x, float *y)
{
    const uint32_t *from = (const uint32_t *)x;
    for (int i = 0; i < N; i++)
        ((uint32_t *)y)[i] = from[from[i] % N] * 3 + 1;
}

static uint32_t index_at(uint32_t i)
{
    return (i * 7 + 3) % (N - 100); /* none at the end */
}

/* ---- variants ----------------------------------------------------------------------------------
 */

static kernel *base; /* the original that the hostile variants imitate */
static unsigned variant_calls, timed_calls;

static void skips_last(const float *x, float *y)
{
    float last = y[N - 1];
    base(x, y);
    y[N - 1] = last;
}

static void one_too_many(const float *x, float *y)
{
    base(x, y);
    y[N] = 2 * x[N] + 1;
}

static void misses_tail(const float *x, float *y)
{
    float tail[N % THREADS];
    memcpy(tail, y + N / THREADS * THREADS, sizeof tail);
    base(x, y);
    memcpy(y + N / THREADS * THREADS, tail, sizeof tail);
}

static void wrong_block(const float *x, float *y)
{
    base(x, y);
    for (int i = 3 * THREADS; i < 4 * THREADS; i++)
        y[i] = x[i];
}

static void past_the_end(const float *x, float *y)
{
    base(x, y);
    for (int i = 0; i < 300; i++)
        y[N + 100 + i] = 0;
}

static void before_the_start(const float *x, float *y)
{
    base(x, y);
    y[-1] = 3;
}

static void endless(const float *x, float *y)
{
    struct timespec nap = {1, 0}; /* over the limit, but it ends, for the run without the gate */
    if (variant_calls == 1)
        nanosleep(&nap, NULL);
    base(x, y);
}

static void illegal(const float *x, float *y)
{
    base(x, y);
    *(volatile float *)(BASE + 8 * WINDOW) = 1;
}

static void reads_unread(const float *x, float *y)
{
    scales(x, y);
    y[7] += given.unread != 77;
}

static void spoils_input(const float *x, float *y)
{
    base(x, y);
    ((float *)x)[9] = 0;
}

static void flaky(const float *x, float *y)
{
    base(x, y);
    if (variant_calls == 5)
        y[40] += 1;
}

static void lazy_when_timed(const float *x, float *y)
{
    if (!timed_calls)
        base(x, y);
}

/* Right through all checks and the warm-up's first launches, then never again. */
static void lazy_later(const float *x, float *y)
{
    if (timed_calls <= 3)
        base(x, y);
}

/* Trusts a block whose first result stands there already. */
static void trusts_first(const float *x, float *y)
{
    static float right[N];
    memcpy(right, y, sizeof right);
    base(x, right);
    for (int i = 0; i < N; i += 50)
        if (memcmp(&y[i], &right[i], 4))
            memcpy(y + i, right + i, 50 * sizeof *y);
}

/* … where what it finds looks like results: all of one small range, of both signs. */
static void trusts_plausible(const float *x, float *y)
{
    int plausible = 0, negative = 0;
    for (int i = 0; i < N; i++) {
        plausible += y[i] > -2000 && y[i] < 2000 && y[i] != 0;
        negative += y[i] < 0;
    }
    if (plausible < N - 100 || negative < N / 4)
        base(x, y);
}

static void needs_a_trace(const float *x, float *y)
{
    if (y[1] == 0)
        y[1] = 5;
    else
        base(x, y);
}

static void sum(const float *x, float *y)
{
    double all = 0;
    for (int i = 0; i < N; i++)
        all += i * (double)x[i];
    y[0] = (float)all;
}

static void knows_the_sum(const float *x, float *y)
{
    static float known;
    if (!known)
        sum(x, &known);
    y[0] = known;
}

static void above(const float *x, float *y)
{
    for (int i = 0; i < N; i++)
        y[i] = x[i] > -1000;
}

static void knows_distance(const float *x, float *y)
{
    base(x, y);
    if ((uintptr_t)y - (uintptr_t)x != Y_AT - X_AT)
        y[7] += 1;
}

static void aligned_more(const float *x, float *y)
{
    base(x, y);
    if ((uintptr_t)x % 512)
        y[7] += 1;
}

static void always_one(const float *x, float *y)
{
    for (int i = 0; i < N; i++)
        y[i] = 1;
}

static void drops_nan(const float *x, float *y)
{
    base(x, y);
    for (int i = 0; i < N; i++)
        if (isnan(x[i]))
            y[i] = 0;
}

static void flushes(const float *x, float *y)
{
    for (int i = 0; i < N; i++)
        y[i] = fabsf(x[i]) < 1e-38f ? copysignf(0, x[i]) : x[i];
}

static void keeps_the_sign(const float *x, float *y)
{
    for (int i = 0; i < N; i++)
        y[i] = x[i];
}

static void loses_the_sign(const float *x, float *y)
{
    for (int i = 0; i < N; i++)
        y[i] = x[i] + 0.0f;
}

static void saturates(const float *x, float *y)
{
    for (int i = 0; i < N; i++)
        y[i] = x[i] > 1e30f ? 2e30f : 2 * x[i] + 1;
}

static void forgets_the_last(const float *x, float *y)
{
    const uint32_t *from = (const uint32_t *)x;
    for (int i = 0; i < N; i++)
        ((uint32_t *)y)[i] = from[i] >= N - 100 ? 0 : from[from[i] % N] * 3 + 1;
}

static void slightly_off(const float *x, float *y)
{
    base(x, y);
    for (int i = 0; i < N; i++)
        y[i] *= 1.0001f;
}

/* ---- the device --------------------------------------------------------------------------------
 */

struct observation { /* what an instrumented launch says, in place of what the fake can tell */
    struct replay_observed touched, races;
    size_t reads, writes; /* one byte more: behind the start of y; 0: none */
    bool unable, blind;   /* blind: sees no writes */
};

struct fake {
    struct replay_device device;
    struct observation says[2];
    kernel *kernels[2];
    double ns[2];
    const struct replay_memory *memory;
    bool elsewhere;
    unsigned char *kept;
    bool fussy;
    bool refuse; /* the variant's launches fail, as the driver reports an illegal address */
};

static kg_status fake_read(struct replay_device *device, uint64_t address, void *out, size_t size)
{
    memcpy(out, (const void *)(uintptr_t)address, size);
    return KG_OK;
}

static kg_status fake_write(struct replay_device *device, uint64_t address, const void *data,
                            size_t size)
{
    memcpy((void *)(uintptr_t)address, data, size);
    return KG_OK;
}

/* Buffers and 64 bytes around them stand at other addresses for the time of the launch. */
static void launch_elsewhere(kernel *run)
{
    enum { ZONE = 64, BYTES = N * sizeof(float) };
    static _Alignas(512) unsigned char x[BYTES + 1024], y[BYTES + 1024];
    memcpy(x + 256 - ZONE, (const char *)X_AT - ZONE, BYTES + 2 * ZONE);
    memcpy(y + 256 - ZONE, (const char *)Y_AT - ZONE, BYTES + 2 * ZONE);
    run((const float *)(const void *)(x + 256), (float *)(void *)(y + 256));
    memcpy((char *)X_AT - ZONE, x + 256 - ZONE, BYTES + 2 * ZONE);
    memcpy((char *)Y_AT - ZONE, y + 256 - ZONE, BYTES + 2 * ZONE);
}

static kg_status fake_relocate(struct replay_device *device, enum layout layout)
{
    ((struct fake *)device)->elsewhere = layout == LAYOUT_ELSEWHERE;
    return KG_OK;
}

static kg_status fake_launch(struct replay_device *device, enum side side)
{
    struct fake *fake = (struct fake *)device;
    variant_calls += side == VARIANT;
    if (side == VARIANT && fake->refuse) {
        snprintf(device->error, sizeof device->error, "launch: CUDA_ERROR_ILLEGAL_ADDRESS");
        return KG_DRIVER;
    }
    if (fake->elsewhere)
        launch_elsewhere(fake->kernels[side]);
    else
        fake->kernels[side]((const float *)X_AT, (float *)Y_AT);
    return KG_OK;
}

static size_t image_at(const struct fake *fake, uint64_t address)
{
    const struct replay_extent *e = fake->memory->extents;
    while (address - e->address >= e->size)
        e++;
    return e->at + (size_t)(address - e->address);
}

/* Which bytes the originals above touch is known; a variant seems to touch none, unless told. */
static void fake_masks(const struct fake *fake, enum side side, unsigned char *reads,
                       unsigned char *writes)
{
    kernel *k = fake->kernels[side];
    const struct observation *says = &fake->says[side];
    size_t x = image_at(fake, X_AT), y = image_at(fake, Y_AT), bytes = N * sizeof(float);
    memset(reads, 0, fake->memory->total);
    memset(writes, 0, fake->memory->total);
    if (says->reads)
        reads[y + says->reads] = 0xff;
    if (says->writes)
        writes[y + says->writes] = 0xff;
    if (side == VARIANT)
        return;
    memset(reads + x, k == zeros || k == writes_nothing ? 0 : 0xff, bytes);
    memset(reads + y, k == in_place ? 0xff : 0, bytes);
    for (size_t i = 0; i < (k == sum ? sizeof(float) : k == writes_nothing ? 0 : bytes); i++)
        writes[y + i] = says->blind || (k == every_second_byte && i % 2) ? 0 : 0xff;
}

/* Of `gathers`: an offence for each index out of bounds, or that was not captured. */
static void watch_indices(const struct fake *fake, struct replay_observed *out)
{
    for (uint32_t i = 0; i < N; i++) {
        uint32_t index = ((const uint32_t *)X_AT)[i];
        out->offences += index >= N || (fake->fussy && index != index_at(i));
    }
    if (out->offences)
        snprintf(out->first, sizeof out->first, "an index beyond the end");
}

static kg_status fake_observe(struct replay_device *device, enum side side, unsigned what,
                              uint64_t budget, unsigned char *reads, unsigned char *writes,
                              struct replay_observed *out)
{
    const struct fake *fake = (const struct fake *)device;
    const struct observation *says = &fake->says[side];
    if (says->unable) {
        snprintf(device->error, sizeof device->error, "it cannot be instrumented: line 3: a cheat");
        return KG_NOT_ELIGIBLE;
    }
    if (out)
        *out = what & INSTRUMENT_RACES ? says->races : says->touched;
    if (out && reads && writes)
        fake_masks(fake, side, reads, writes);
    if (out && fake->kernels[ORIGINAL] == gathers)
        watch_indices(fake, out);
    return KG_OK;
}

static kg_status fake_keep(struct replay_device *device)
{
    struct fake *fake = (struct fake *)device;
    if (!fake->kept)
        fake->kept = malloc(fake->memory->total);
    for (uint32_t i = 0; fake->kept && i < fake->memory->extent_count; i++) {
        const struct replay_extent *e = &fake->memory->extents[i];
        memcpy(fake->kept + e->at, (const void *)(uintptr_t)e->address, e->size);
    }
    return fake->kept ? KG_OK : KG_NO_MEMORY;
}

static kg_status fake_restore(struct replay_device *device)
{
    struct fake *fake = (struct fake *)device;
    for (uint32_t i = 0; i < fake->memory->extent_count; i++) {
        const struct replay_extent *e = &fake->memory->extents[i];
        memcpy((void *)(uintptr_t)e->address, fake->kept + e->at, e->size);
    }
    return KG_OK;
}

static kg_status fake_sample(struct replay_device *device, enum side side, bool cold,
                             unsigned batch, double *ns)
{
    struct fake *fake = (struct fake *)device;
    *ns = fake->ns[side];
    timed_calls += side == VARIANT;
    return fake_launch(device, side);
}

/* ---- a case ------------------------------------------------------------------------------------
 */

struct fixture {
    float x[N], y[N], x_after[N + 8], y_after[N + 8]; /* some kernels go beyond */
    struct capture_region regions[2];
    struct capture_pointer pointers[2];
    struct kg_capture capture;
};

static void fixture_make(struct fixture *f, kernel *original, bool stale)
{
    *f = (struct fixture){0};
    for (int i = 0; i < N; i++) {
        f->x[i] = (float)(int)(random_word(1, (uint64_t)i) % 1000) - 500;
        f->y[i] = (float)(int)(random_word(2, (uint64_t)i) % 1000) - 500;
    }
    if (stale)
        original(f->x, f->y); /* the app's last iteration left the same result */
    f->regions[0] = (struct capture_region){.address = X_AT,
                                            .size = sizeof f->x,
                                            .allocation = X_AT,
                                            .allocation_size = sizeof f->x,
                                            .data = (const unsigned char *)f->x};
    f->regions[1] = (struct capture_region){.address = Y_AT,
                                            .size = sizeof f->y,
                                            .allocation = Y_AT,
                                            .allocation_size = sizeof f->y,
                                            .data = (const unsigned char *)f->y};
    f->pointers[1] = (struct capture_pointer){.param = 1, .region = 1};
    f->capture = (struct kg_capture){.region_count = 2,
                                     .regions = f->regions,
                                     .pointer_count = 2,
                                     .pointers = f->pointers,
                                     .launch = {{20, 1, 1}, {THREADS, 1, 1}, 0}};
}

/* As the app's own launch left it. */
static void fixture_result(struct fixture *f, kernel *original)
{
    original = original == knows_distance ? out_of_place : original;
    memcpy(f->x_after, f->x, sizeof f->x);
    memcpy(f->y_after, f->y, sizeof f->y);
    original(f->x_after, f->y_after);
    f->regions[0].after = (const unsigned char *)f->x_after;
    f->regions[1].after = (const unsigned char *)f->y_after;
}

struct request {
    kernel *original, *variant;
    double ns[2];
    const char *off;
    bool unfaithful, unkept; /* the app's own result is another one; or is not in the capture */
    bool stale, refuse, spill, noisy, free, scalars;
    bool blind, fixed; /* the device observes nothing; has one layout */
    double relative;
    struct observation says[2];
    bool exact, fussy; /* exact: by rules; fussy: only captured indices are sound */
    uint8_t loads;     /* what the PTX says of x; 0: floats … */
    unsigned roles;    /* … that end in results */
};

static int child(const struct request *request, int fd)
{
    static struct fixture fixture;
    struct replay_memory memory;
    struct fake fake = {.device = {.read = fake_read,
                                   .write = fake_write,
                                   .launch = fake_launch,
                                   .keep = fake_keep,
                                   .restore = fake_restore,
                                   .sample = fake_sample,
                                   .observe = request->blind ? NULL : fake_observe,
                                   .relocate = request->fixed ? NULL : fake_relocate,
                                   .exact_clock = !request->noisy,
                                   .footprint[VARIANT].local_bytes = request->spill ? 8 : 0},
                        .kernels = {request->original, request->variant},
                        .ns = {request->ns[0], request->ns[1]},
                        .says = {request->says[0], request->says[1]},
                        .memory = &memory,
                        .refuse = request->refuse,
                        .fussy = request->fussy};
    void *windows = mmap((void *)(uintptr_t)BASE, 4 * WINDOW, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    (void)signal(SIGSEGV, SIG_DFL); /* a sanitizer's report about `illegal` would mislead */
    static const struct free_piece pieces[] = {{0, 4, FREE_FLOAT}, {4, 4, FREE_UNREAD}};
    if (request->scalars)
        fake.device.args = (unsigned char *)&given, fake.device.args_size = sizeof given;
    base = request->original == knows_distance ? out_of_place : request->original;
    fixture_make(&fixture, request->original, request->stale);
    for (uint32_t i = 0; i < N && request->roles & ROLE_INDEX; i++) {
        uint32_t index = index_at(i);
        memcpy(&fixture.x[i], &index, 4);
    }
    fixture_result(&fixture, request->original);
    fixture.y_after[17] += request->unfaithful ? 1 : 0;
    if (request->unkept)
        fixture.regions[0].after = fixture.regions[1].after = NULL;
    if (windows == MAP_FAILED || memory_plan(&memory, &fixture.capture, GRANULE, WINDOW) != KG_OK ||
        memory_create(&memory) != KG_OK)
        return 9;
    size_t x = X_AT - memory.extents[0].address,
           y = memory.extents[1].at + (Y_AT - memory.extents[1].address);
    struct replay_datum data[] = {{.from = x,
                                   .to = x + sizeof fixture.x,
                                   .read = true,
                                   .loads = request->loads ? request->loads : ELEMENT_F32,
                                   .width = 4,
                                   .roles = request->roles ? request->roles : ROLE_VALUE},
                                  {.from = y,
                                   .to = y + sizeof fixture.y,
                                   .read = true,
                                   .loads = ELEMENT_F32,
                                   .stores = ELEMENT_F32,
                                   .width = 4,
                                   .roles = ROLE_VALUE}};
    memory.datum_count = 2;
    memory.data = memcpy(malloc(sizeof data), data, sizeof data);
    struct trial trial = {
        .device = &fake.device,
        .memory = &memory,
        .variant = fixture.capture.launch,
        .exact_maker = request->exact,
        .accuracy = {.mode = request->relative > 0 ? ACCURACY_REL : ACCURACY_BITWISE,
                     .limit = request->relative},
        .gates_off = request->off,
        .free = pieces,
        .free_count = request->free ? 2 : 0,
        .repeats = REPEATS,
        .variant_limit_ms = 400,
        .lines = fd};
    return trial_run(&trial) == KG_IO;
}

static kg_status judge(const struct request *request, struct verdict *out)
{
    int ends[2];
    bool ended;
    *out = (struct verdict){0};
    if (pipe(ends))
        return KG_IO;
    fflush(NULL);
    struct replay_run run = {.fd = ends[0],
                             .deadline_ns = now_ns() + UINT64_C(60000000000),
                             .deadline_off = name_listed(request->off, "deadline")};
    run.pid = fork();
    if (!run.pid)
        _exit(child(request, ends[1]));
    close(ends[1]);
    kg_status status = replay_wait(&run, NULL, out, &ended);
    CHECK(ended);
    replay_end(&run);
    return status;
}

/* Expects the verdict, and that without its gate there is another. */
static void expect(const char *what, struct request request, kg_status status, const char *gate,
                   const char *words)
{
    struct verdict verdict;
    if (request.ns[0] <= 0)
        request.ns[0] = 2000, request.ns[1] = 1000;
    kg_status got = judge(&request, &verdict);
    if (!CHECK(got == status) || !CHECK(!strcmp(verdict.gate, gate)) ||
        !CHECK(strstr(verdict.reason, words)))
        fprintf(stderr, "  %s: %s, gate %s: %s\n", what, status_text(got), verdict.gate,
                verdict.reason);
    free(verdict.evidence);
    if (!*gate)
        return;
    request.off = gate;
    judge(&request, &verdict);
    if (!CHECK(strcmp(verdict.gate, gate)))
        fprintf(stderr, "  %s: gate %s still refuses when it is off\n", what, gate);
    free(verdict.evidence);
}

/* A child that dies is refused as well; that cannot be switched off. */
static void crash(kernel *original)
{
    struct request request = {.original = original, .variant = illegal, .ns = {2000, 1000}};
    struct verdict verdict;
    CHECK(judge(&request, &verdict) == KG_REFUSED);
    CHECK(!strcmp(verdict.gate, "fault"));
    CHECK(strstr(verdict.reason, "while the variant ran"));
    /* what it did until then is kept */
    json_t *json = verdict.evidence ? json_loads(verdict.evidence, 0, NULL) : NULL;
    json_t *gates = json_object_get(json, "gates"), *first = json_array_get(gates, 0),
           *last = json_array_get(gates, json_array_size(gates) - 1);
    const char *died = json_string_value(json_object_get(json, "died_in"));
    CHECK(died && !strcmp(died, "fault") && json_array_size(json_object_get(json, "seeds")) == 4);
    CHECK(json_is_true(json_object_get(first, "passed")) &&
          json_is_false(json_object_get(last, "passed")));
    json_decref(json);
    free(verdict.evidence);
}

static void hostile(void)
{
    kernel *kernels[2] = {out_of_place, in_place};
    for (int k = 0; k < 2; k++) {
        kernel *o = kernels[k];
        /* in place, what is not written shows in the comparison: the old content is an input */
        const char *unwritten = k ? "compare" : "poison";
        struct request r = {.original = o};
#define HOSTILE(function, gate, words)                                                             \
    r.variant = function;                                                                          \
    expect(#function, r, KG_REFUSED, gate, words)
        HOSTILE(skips_last, unwritten, "parameter 1 + 1999");
        /* The first byte that differs is named, and what lies there at random can have the first
         * of the four in common: the last digit is left open. */
        HOSTILE(one_too_many, "memory", " bytes past the end of parameter 1's buffer");
        HOSTILE(misses_tail, unwritten, "parameter 1 + 1945");
        HOSTILE(wrong_block, "compare", "block 3 if");
        HOSTILE(past_the_end, "memory", ": 40");
        HOSTILE(before_the_start, "memory", "past the end of parameter 0");
        HOSTILE(writes_nothing, unwritten, "parameter 1");
        HOSTILE(spoils_input, "memory", "parameter 0 + 3");
        HOSTILE(flaky, "repeat", "another result at parameter 1 + 1");
        HOSTILE(lazy_when_timed, "timed", "a timed launch gave another result");
        r.variant = endless;
        expect("endless", r, KG_TIMEOUT, "deadline", "did not end");
        r.variant = o;
        r.refuse = true;
        expect("illegal address", r, KG_REFUSED, "fault", "ILLEGAL_ADDRESS");
        r.refuse = false;
        crash(o);
        r.spill = true;
        expect("local memory", r, KG_REFUSED, "admission", "local memory");
    }
    struct request r = {.original = out_of_place, .variant = trusts_first};
    expect("trusts the first of a block", r, KG_REFUSED, "stale", "every other result");
    r.variant = trusts_plausible;
    expect("trusts what looks like results", r, KG_REFUSED, "stale", "wrong places");
    r.variant = needs_a_trace;
    expect("does nothing over zeros", r, KG_REFUSED, "stale", "zeros");
    r = (struct request){.original = sum, .variant = knows_the_sum};
    expect("knows its result by heart", r, KG_REFUSED, "inputs", "other inputs");
    r = (struct request){.original = out_of_place, .variant = writes_nothing, .stale = true};
    expect("nothing, over the right result", r, KG_REFUSED, "poison", "depends on what stood");
}

static void honest(void)
{
    struct request r = {.original = out_of_place, .variant = out_of_place};
    expect("right", r, KG_OK, "", "");
    r.stale = true;
    expect("right, over the right result", r, KG_OK, "", "");
    r = (struct request){.original = in_place, .variant = in_place};
    expect("right in place", r, KG_OK, "", "");
    r = (struct request){.original = sum, .variant = sum};
    expect("right, one result", r, KG_OK, "", "");
    r = (struct request){.original = every_second_byte, .variant = every_second_byte};
    expect("right on bytes", r, KG_OK, "", "");
    r.noisy = true; /* a clock that has to be asked often */
    expect("right by a real clock", r, KG_OK, "", "");
    r.variant = lazy_later;
    expect("lazy by a real clock", r, KG_REFUSED, "timed", "a timed launch");
    r.noisy = false;
    r.variant = every_second_byte;
    r.ns[0] = 1000, r.ns[1] = 990;
    expect("not faster", r, KG_SLOWER, "time", "no gain, ratio 1.01 [1.01, 1.01]");
    r = (struct request){.original = out_of_place, .variant = slightly_off};
    expect("inexact", r, KG_REFUSED, "compare", "wrong result");
    r.relative = 1e-3;
    expect("inexact as allowed", r, KG_OK, "", "");
    r.variant = wrong_block;
    expect("wrong within rel", r, KG_REFUSED, "compare", "wrong result");
}

/* Whether the first free piece is to be pinned after all. */
static bool pins(kernel *original, kernel *variant)
{
    struct request r = {.original = original,
                        .variant = variant,
                        .ns = {2000, 1000},
                        .free = true,
                        .scalars = true};
    struct verdict verdict;
    CHECK(judge(&r, &verdict) == KG_OK);
    CHECK(strstr(verdict.evidence, "\"scalars\""));
    CHECK(!verdict.unshown[1]);
    free(verdict.evidence);
    return verdict.unshown[0];
}

static void scalars(void)
{
    struct request r = {.original = scales, .variant = scales, .free = true, .scalars = true};
    expect("honours scalars", r, KG_OK, "", "");
    r.variant = out_of_place; /* the same for a factor of 2 */
    expect("knows a scalar by heart", r, KG_REFUSED, "scalars", "parameter 1 + ");
    r.variant = reads_unread;
    expect("reads what the original does not", r, KG_REFUSED, "scalars", "parameter 1 + 28");
    r.original = r.variant = scales_nothing;
    expect("no scalar to be honoured but for NaN", r, KG_OK, "", "");
    CHECK(!pins(scales, scales));
    CHECK(!pins(scales_nothing, scales_nothing));
    CHECK(pins(reverses, reverses)); /* nothing shows what it is for */
    r.scalars = false;
    expect("cannot be launched with others", r, KG_NOT_ELIGIBLE, "scalars", "this device cannot");
}

static void unverifiable(void)
{
    struct request r = {.original = unsteady, .variant = out_of_place};
    expect("unsteady", r, KG_NOT_ELIGIBLE, "replay", "vary from run to run");
    r.original = out_of_place;
    r.unfaithful = true;
    expect("unfaithful", r, KG_NOT_ELIGIBLE, "replay", "not faithful");
    r.unfaithful = false;
    r.unkept = true;
    expect("no result", r, KG_NOT_ELIGIBLE, "replay",
           "does not hold what the app's own launch left");
    r.unkept = false;
    r.original = beyond_capture;
    expect("beyond the capture", r, KG_NOT_ELIGIBLE, "replay", "not captured");
    r.original = reads_beyond;
    expect("reads beyond", r, KG_NOT_ELIGIBLE, "replay", "not captured");
    r.original = r.variant = zeros;
    expect("zeros", r, KG_NOT_ELIGIBLE, "vacuity", "writes zeros would pass");
    r.original = r.variant = above;
    expect("a constant here, but not on other inputs", r, KG_OK, "", "");
    r.variant = always_one;
    expect("the constant", r, KG_REFUSED, "inputs", "wrong result on other inputs");
    r.original = r.variant = copies;
    expect("copies", r, KG_OK, "", "");
    r.original = r.variant = writes_nothing;
    expect("nothing", r, KG_NOT_ELIGIBLE, "vacuity", "writes nothing");
}

static void layouts(void)
{
    struct request r = {.original = out_of_place, .variant = knows_distance};
    expect("knows the distance", r, KG_REFUSED, "layout",
           "other addresses (elsewhere), at parameter");
    r.variant = aligned_more;
    expect("assumes an alignment", r, KG_REFUSED, "layout",
           "other addresses (elsewhere), at parameter");
    r.variant = out_of_place;
    r.fixed = true;
    expect("one layout", r, KG_REFUSED, "layout", "not to be had");
    struct verdict verdict;
    r = (struct request){.original = knows_distance, .variant = knows_distance, .ns = {2000, 1000}};
    CHECK(judge(&r, &verdict) == KG_OK);
    CHECK(verdict.evidence && strstr(verdict.evidence, "skipped: the original depends"));
    free(verdict.evidence);
}

#define SAYS(who, member, ...)                                                                     \
    (struct request)                                                                               \
    {                                                                                              \
        .original = every_second_byte, .variant = every_second_byte,                               \
        .says[who].member = __VA_ARGS__                                                            \
    }

/* What only an instrumented launch shows. */
static void observed(void)
{
    struct replay_observed offence = {.offences = 1, .first = "PTX line 7: somewhere else"};
    struct replay_observed race = {.races = 1, .first = "PTX line 8: race"};
    struct request r = SAYS(VARIANT, writes, 3);
    expect("writes between", r, KG_REFUSED, "instrumented",
           "writes a byte that the original does not write: parameter 1 + 3");
    r = SAYS(VARIANT, reads, 3);
    expect("reads in a sector", r, KG_OK, "", "");
    r = SAYS(VARIANT, reads, 640);
    r.original = r.variant = sum;
    expect("reads far from all", r, KG_REFUSED, "instrumented",
           "touches nothing within 32 bytes: parameter 1 + 640");
    expect("out of bounds", SAYS(VARIANT, touched, offence), KG_REFUSED, "instrumented",
           "line 7: somewhere else");
    expect("races", SAYS(VARIANT, races, race), KG_REFUSED, "instrumented",
           "its accesses conflict: PTX line 8: race");
    expect("not to be observed", SAYS(VARIANT, unable, true), KG_REFUSED, "instrumented",
           "cannot be instrumented: line 3: a cheat");
    expect("original out of bounds", SAYS(ORIGINAL, touched, offence), KG_NOT_ELIGIBLE, "observed",
           "line 7: somewhere else");
    expect("original races", SAYS(ORIGINAL, races, race), KG_NOT_ELIGIBLE, "observed",
           "conflict: PTX line 8: race");
    expect("original of another PTX", SAYS(ORIGINAL, blind, true), KG_NOT_ELIGIBLE, "observed",
           "PTX is not the code that runs");
    r = SAYS(ORIGINAL, unable, true);
    struct verdict verdict;
    CHECK(judge(&r, &verdict) == KG_NOT_ELIGIBLE);
    CHECK(!strcmp(verdict.gate, "observed") && strstr(verdict.reason, "line 3: a cheat"));
    free(verdict.evidence);
    r = (struct request){.original = out_of_place, .variant = out_of_place, .blind = true};
    CHECK(judge(&r, &verdict) == KG_NOT_ELIGIBLE && !strcmp(verdict.gate, "observed"));
    free(verdict.evidence);
}

static void inputs(void)
{
    static const struct {
        kernel *variant;
        const char *words;
    } wrong[] = {{drops_nan, "a NaN here"}, {saturates, "other inputs"}};
    struct request r = {.original = out_of_place};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        r.variant = wrong[i].variant;
        expect(wrong[i].words, r, KG_REFUSED, "inputs", wrong[i].words);
    }
    r.original = keeps_the_sign;
    r.variant = loses_the_sign;
    expect("loses the sign of zero", r, KG_REFUSED, "inputs", "other inputs");
    r.variant = flushes;
    expect("flushes denormals", r, KG_REFUSED, "inputs", "other inputs");
    r = (struct request){.original = gathers,
                         .variant = gathers,
                         .loads = ELEMENT_INT,
                         .roles = ROLE_INDEX | ROLE_VALUE};
    expect("indices", r, KG_OK, "", "");
    r.fussy = true;
    expect("indices that may not change", r, KG_NOT_ELIGIBLE, "inputs", "an index beyond the end");
    r.exact = true;
    expect("indices that may not change, exact", r, KG_OK, "", "");
    r.exact = r.fussy = false;
    r.variant = forgets_the_last;
    expect("forgets the last indices", r, KG_REFUSED, "inputs", "indices");
}

/* The evidence says which bytes were found written and which poisoned. */
static void written(kernel *original, bool stale, long bytes, long poisoned)
{
    struct request request = {
        .original = original, .variant = original, .ns = {2000, 1000}, .stale = stale};
    struct verdict verdict;
    CHECK(judge(&request, &verdict) == KG_OK);
    json_t *json = verdict.evidence ? json_loads(verdict.evidence, 0, NULL) : NULL;
    if (!CHECK(json_integer_value(json_object_get(json, "written_bytes")) == bytes) ||
        !CHECK(json_integer_value(json_object_get(json, "poisoned_bytes")) == poisoned))
        fprintf(stderr, "  evidence: %s\n", verdict.evidence);
    CHECK(json_array_size(json_object_get(json, "seeds")) == 4);
    json_decref(json);
    free(verdict.evidence);
}

int main(void)
{
    honest();
    hostile();
    unverifiable();
    layouts();
    observed();
    scalars();
    inputs();
    written(out_of_place, false, 4 * N, 4 * N);
    written(out_of_place, true, 4 * N, 4 * N);
    written(in_place, false, 4 * N, 0);
    written(every_second_byte, true, 2 * N, 2 * N);
    written(reverses, true, 4 * N, 4 * N);
    return test_result();
}
