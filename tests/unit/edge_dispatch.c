/* The hot path against a driver of six functions: which guard holds, with which reason it does not,
 * what a variant is launched with, and that a variant which cannot be launched gives way. */
#include "app/dispatch.h"
#include "app/inside.h"

#include <string.h>

#include "test.h"

static struct {
    CUfunction function;
    struct kg_launch shape;
    CUstream stream;
    void *arguments[8];
    const CUlaunchAttribute *attributes;
    unsigned attribute_count;
    unsigned count, originals;
} seen;
static CUresult variant_answer, original_answer;
static CUcontext current;

static CUresult fake_launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                            unsigned by, unsigned bz, unsigned shared, CUstream stream,
                            void **params, void **extra)
{
    seen.function = f;
    seen.shape = (struct kg_launch){{gx, gy, gz}, {bx, by, bz}, shared};
    seen.stream = stream;
    memcpy(seen.arguments, params, sizeof seen.arguments);
    seen.count++;
    return variant_answer;
}

static CUresult fake_launch_ex(const CUlaunchConfig *c, CUfunction f, void **params, void **extra)
{
    seen.attributes = c->attrs;
    seen.attribute_count = c->numAttrs;
    return fake_launch(f, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY,
                       c->blockDimZ, c->sharedMemBytes, c->hStream, params, extra);
}

static CUresult fake_current(CUcontext *out)
{
    *out = current;
    return CUDA_SUCCESS;
}

static CUgreenCtx green;
static CUresult fake_green(CUstream stream, CUgreenCtx *out)
{
    *out = green;
    return CUDA_SUCCESS;
}

static CUresult original(const struct launch *launch)
{
    seen.originals++;
    return original_answer;
}

/* kernel(float *a, float *b, struct { int n; short m; char c; } s, double x) */
static const struct kg_param params[] = {{0, 8}, {8, 8}, {16, 8}, {24, 8}};
static struct kernel kernel = {.modelled = true, .param_count = 4, .params = params};
static struct kg_scalar scalars[] = {
    {2, 0, 4, 100, 0}, {2, 4, 2, 7, 0}, {2, 6, 1, 200, 0}, {3, 0, 8, 0, 0}};
static struct kg_pointer pointers[] = {{0, 0, 16, 0, 0, 400}, {1, 0, 4, 0, -4, 404}};
static struct kg_overlap overlap = {0, 1, 200};

static struct {
    uint64_t a, b;
    struct {
        int n;
        short m;
        unsigned char c;
    } s;
    double x;
} values;
static void *arguments[] = {&values.a, &values.b, &values.s, &values.x, NULL, NULL, NULL, NULL};
static struct launch launch;

/* Two entries: the first for 8 blocks, the second for 16. */
static _Alignas(8) char table[sizeof(struct swap) + 2 * sizeof(struct swap_entry)];
static struct swap *const swap = (struct swap *)table;

static void reset(void)
{
    memset(&seen, 0, sizeof seen);
    variant_answer = original_answer = CUDA_SUCCESS;
    values.a = 0x10000;
    values.b = 0x20000;
    values.s.n = 100;
    values.s.m = 7;
    values.s.c = 200;
    scalars[3].value = 0;
    values.x = 2.5;
    memcpy(&scalars[3].value, &values.x, 8);
    launch = (struct launch){
        .function = (CUfunction)0x100,
        .shape = {{8, 1, 1}, {256, 1, 1}, 0},
        .explicit_stream = CU_STREAM_LEGACY,
        .params = arguments,
        .run = original,
    };
    swap->count = 2;
    for (int i = 0; i < 2; i++)
        swap->entries[i] = (struct swap_entry){
            .function = (CUfunction)(uintptr_t)(0x200 + i),
            .launch = {{2, 1, 1}, {512, 1, 1}, 1024},
            .signature = {.launch = {{i ? 16 : 8, 1, 1}, {256, 1, 1}, 0},
                          .scalar_count = 4,
                          .pointer_count = 2,
                          .scalars = scalars,
                          .pointers = pointers},
            .global_count = 2,
            .globals = {0x7000, 0x8000},
        };
    kernel.launches = kernel.swapped = kernel.first_swapped = 0;
    memset((void *)kernel.refused, 0, sizeof kernel.refused);
    atomic_store(&kernel.slow_at, UINT64_MAX);
    atomic_store(&kernel.failed, NULL);
    atomic_store(&kernel.swap, swap);
}

static int reason(void)
{
    enum refusal why;
    return swap_match(swap, &kernel, &launch, &why) ? -1 : (int)why;
}

static void guards(void)
{
    reset();
    CHECK(reason() == -1);
    launch.shape.grid.x = 16; /* the second entry's */
    enum refusal why;
    CHECK(swap_match(swap, &kernel, &launch, &why) == &swap->entries[1]);
    launch.shape.grid.x = 17;
    CHECK(reason() == REFUSED_SHAPE);
    reset();
    launch.shape.shared = 4;
    CHECK(reason() == REFUSED_SHAPE);
    reset();
    values.s.n = 101;
    CHECK(reason() == REFUSED_SCALAR);
    reset();
    values.s.m = 8;
    CHECK(reason() == REFUSED_SCALAR);
    reset();
    values.s.c = 201;
    CHECK(reason() == REFUSED_SCALAR);
    reset();
    values.x = 2.6;
    CHECK(reason() == REFUSED_SCALAR);
    reset();
    values.a += 8;
    CHECK(reason() == REFUSED_ALIGNMENT);
    values.a += 8;
    CHECK(reason() == -1);
}

/* What several guards have in common tells them apart by one number: with the same outcome. */
static void keys(void)
{
    static struct kg_scalar other[4];
    static const int ns[] = {100, 101, 0}, ms[] = {7, 8}, cs[] = {200, 201};
    reset();
    memcpy(other, scalars, sizeof other);
    other[0].value = 101;
    other[1].span = 1; /* 7 or 8: not pinned by all */
    swap->entries[1].signature.launch.grid.x = 8;
    swap->entries[1].signature.scalars = other;
    struct swap *keyed = table_make(&kernel, swap->entries, 2);
    if (!CHECK(keyed && keyed->keys && keyed->pinned_count == 3 && !swap->keys))
        return;
    unsigned fits = 0;
    for (unsigned i = 0; i < 3 * 2 * 2 * 2 * 2; i++) {
        launch.shape.grid.x = i / 24 ? 8 : 9;
        values.s.n = ns[i % 3];
        values.s.m = (short)ms[i / 3 % 2];
        values.s.c = (unsigned char)cs[i / 6 % 2];
        values.a = i / 12 % 2 ? 0x10000 : 0x10008; /* misaligned */
        enum refusal why, as;
        const struct swap_entry *plain = swap_match(swap, &kernel, &launch, &why);
        const struct swap_entry *fast = swap_match(keyed, &kernel, &launch, &as);
        CHECK(plain ? fast && plain - swap->entries == fast - keyed->entries : !fast && as == why);
        fits += plain != NULL;
    }
    CHECK(fits == 3);
}

static void reaches(void)
{
    reset();
    values.b = values.a + 404; /* touches [a, a+400) and [b-4, b+404) */
    CHECK(reason() == -1);
    values.b -= 4;
    CHECK(reason() == REFUSED_OVERLAP);
    values.b = values.a - 404;
    CHECK(reason() == -1);
    values.b += 4;
    CHECK(reason() == REFUSED_OVERLAP);
    values.b = values.a;
    CHECK(reason() == REFUSED_OVERLAP);
    pointers[1].high = pointers[1].low; /* touches nothing: stands anywhere */
    CHECK(reason() == -1);
    pointers[1].high = 404;
    for (int i = 0; i < 2; i++) {
        swap->entries[i].signature.overlap_count = 1;
        swap->entries[i].signature.overlaps = &overlap;
    }
    CHECK(reason() == REFUSED_OVERLAP);
    values.b = values.a + 200; /* just as in the capture */
    CHECK(reason() == -1);
    values.b = values.a + 204;
    CHECK(reason() == REFUSED_OVERLAP);
    values.b = values.a + 4000; /* apart is another way, too */
    CHECK(reason() == REFUSED_OVERLAP);
}

static void packed_arguments(void)
{
    reset();
    char buffer[32];
    memcpy(buffer, &values.a, 8);
    memcpy(buffer + 8, &values.b, 8);
    memcpy(buffer + 16, &values.s, 8);
    memcpy(buffer + 24, &values.x, 8);
    size_t size = sizeof buffer;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    launch.params = NULL;
    launch.extra = extra;
    CHECK(reason() == -1);
    CHECK(launch_argument(&kernel, &launch, 3) == buffer + 24);
    CHECK(launch_argument(&kernel, &launch, 4) == NULL);
    CHECK(dispatch_launch(&kernel, &launch) == CUDA_SUCCESS);
    CHECK(seen.count == 1 && seen.arguments[2] == buffer + 16);
    size = 31; /* the last parameter is not there: nothing beyond is read */
    CHECK(launch_argument(&kernel, &launch, 3) == NULL);
    CHECK(reason() == REFUSED_ARGUMENTS && dispatch_launch(&kernel, &launch) == CUDA_SUCCESS);
    CHECK(seen.originals == 1);
    size = 32;
    launch.params = arguments; /* both forms at once: the driver's to refuse */
    CHECK(reason() == REFUSED_ARGUMENTS);
    launch.params = NULL;
    extra[0] = (void *)0x77;
    size = 32;
    CHECK(launch_argument(&kernel, &launch, 0) == NULL);
}

#if CUDA_VERSION >= 13000 /* the table's numbers are the header's */
#define ATTRIBUTE(id, name, refusal, condition)                                                    \
    _Static_assert(id == CU_LAUNCH_ATTRIBUTE_##name, #name);
#include "app/attributes.def"
#undef ATTRIBUTE
#endif

/* Each attribute, with a value that asks for something: kept, or the original with this reason. */
static void attributes(void)
{
    static const struct {
        int id;
        CUlaunchAttributeValue value;
        enum refusal why; /* REFUSAL_COUNT: kept */
    } rows[] = {
        {0, {{0}}, REFUSAL_COUNT},
        {1, {.accessPolicyWindow = {.num_bytes = 4096, .hitRatio = 1}}, REFUSAL_COUNT},
        {2, {.cooperative = 1}, REFUSED_COOPERATIVE},
        {2, {.cooperative = 0}, REFUSAL_COUNT},
        {3, {.syncPolicy = CU_SYNC_POLICY_SPIN}, REFUSAL_COUNT},
        {4, {.clusterDim = {2, 1, 1}}, REFUSED_CLUSTER},
        {4, {.clusterDim = {1, 1, 2}}, REFUSED_CLUSTER},
        {4, {.clusterDim = {1, 1, 1}}, REFUSAL_COUNT},
        {5, {.clusterSchedulingPolicyPreference = 1}, REFUSAL_COUNT},
        {6, {.programmaticStreamSerializationAllowed = 1}, REFUSED_PROGRAMMATIC},
        {6, {.programmaticStreamSerializationAllowed = 0}, REFUSAL_COUNT},
        {7, {.programmaticEvent = {.event = (CUevent)0x10}}, REFUSED_PROGRAMMATIC},
        {8, {.priority = -3}, REFUSAL_COUNT},
        {9, {.memSyncDomainMap = {0, 1}}, REFUSAL_COUNT},
        {10, {.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE}, REFUSAL_COUNT},
        {11, {.pad = {2, 0, 0, 0, 1}}, REFUSED_CLUSTER},
        {12, {.pad = {16}}, REFUSED_EVENT},
        {13, {.pad = {1}}, REFUSED_UPDATABLE},
        {14, {.pad = {50}}, REFUSAL_COUNT},
        {15, {{0}}, REFUSED_ATTRIBUTES}, /* unknown */
        {16, {.pad = {1}}, REFUSAL_COUNT},
        {17, {{0}}, REFUSED_ATTRIBUTES},
        {-1, {{0}}, REFUSED_ATTRIBUTES},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CUlaunchAttribute list[] = {
            {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value.priority = -1},
            {.id = (CUlaunchAttributeID)rows[i].id, .value = rows[i].value}};
        const CUlaunchConfig config = {.attrs = list, .numAttrs = 2};
        reset();
        launch.attributes = 2;
        launch.config = &config;
        launch.explicit_stream = (CUstream)0x55;
        bool kept = rows[i].why == REFUSAL_COUNT;
        if (!CHECK(reason() == (kept ? -1 : (int)rows[i].why)))
            fprintf(stderr, "attribute %d: reason %d\n", rows[i].id, reason());
        CHECK(dispatch_launch(&kernel, &launch) == CUDA_SUCCESS);
        CHECK(seen.originals == !kept && seen.count == kept && kernel.swapped == kept);
        if (kept)
            CHECK(seen.attributes == list && seen.attribute_count == 2 &&
                  seen.stream == (CUstream)0x55 && seen.shape.grid.x == 2 &&
                  seen.function == (CUfunction)0x200);
        else
            CHECK(kernel.refused[rows[i].why] == 1);
    }
}

static void variant_runs(void)
{
    reset();
    CHECK(dispatch_launch(&kernel, &launch) == CUDA_SUCCESS);
    CHECK(seen.count == 1 && seen.originals == 0);
    CHECK(seen.function == (CUfunction)0x200 && seen.stream == CU_STREAM_LEGACY);
    CHECK(!memcmp(&seen.shape, &swap->entries[0].launch, sizeof seen.shape));
    CHECK(!memcmp(seen.arguments, arguments, 4 * sizeof *arguments));
    CHECK(*(CUdeviceptr *)seen.arguments[4] == 0x7000);
    CHECK(*(CUdeviceptr *)seen.arguments[5] == 0x8000);
    CHECK(kernel.swapped == 1 && kernel.launches == 1 && kernel.first_swapped == 1);
    values.s.n = 5;
    CHECK(dispatch_launch(&kernel, &launch) == CUDA_SUCCESS);
    CHECK(seen.originals == 1 && kernel.refused[REFUSED_SCALAR] == 1 && kernel.swapped == 1);
    values.s.n = 100;
    CHECK(dispatch_launch(&kernel, &launch) == CUDA_SUCCESS);
    CHECK(kernel.swapped == 2 && kernel.first_swapped == 1 && kernel.launches == 3);
    atomic_store(&kernel.swap, NULL);
    CHECK(dispatch_launch(&kernel, &launch) == CUDA_SUCCESS);
    CHECK(seen.originals == 2 && kernel.launches == 4);
}

static void variant_fails(void)
{
    reset();
    variant_answer = original_answer = CUDA_ERROR_ILLEGAL_ADDRESS; /* an older fault of the app */
    CHECK(dispatch_launch(&kernel, &launch) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(seen.originals == 1 && kernel.swap == swap && !kernel.failed);
    original_answer = CUDA_SUCCESS;
    variant_answer = CUDA_ERROR_INVALID_VALUE;
    CHECK(dispatch_launch(&kernel, &launch) == CUDA_SUCCESS);
    CHECK(seen.originals == 2 && kernel.swapped == 0);
    CHECK(kernel.refused[REFUSED_ERROR] == 1 && kernel.failed == &swap->entries[0]);
    CHECK(kernel.swap == NULL);
    CHECK(dispatch_launch(&kernel, &launch) == CUDA_SUCCESS);
    CHECK(seen.originals == 3 && seen.count == 2);
}

static void hostile_guards(void)
{
    reset();
    struct kg_signature signature = swap->entries[0].signature;
    CHECK(signature_fits(&kernel, &signature));
    scalars[0].param = 4; /* no such parameter */
    CHECK(!signature_fits(&kernel, &signature));
    scalars[0] = (struct kg_scalar){2, 6, 4, 100, 0}; /* past the parameter's end */
    CHECK(!signature_fits(&kernel, &signature));
    scalars[0] = (struct kg_scalar){2, 0, 9, 100, 0};
    CHECK(!signature_fits(&kernel, &signature));
    scalars[0] = (struct kg_scalar){2, 0, 0, 100, 0};
    CHECK(!signature_fits(&kernel, &signature));
    scalars[0] = (struct kg_scalar){2, 0, 4, 100, 0};
    pointers[0].align = 12;
    CHECK(!signature_fits(&kernel, &signature));
    pointers[0].align = 0;
    CHECK(!signature_fits(&kernel, &signature));
    pointers[0].align = 16;
    pointers[0].param = 9;
    CHECK(!signature_fits(&kernel, &signature));
    pointers[0].param = 0;
    pointers[0].offset = 1; /* its eight bytes end outside */
    CHECK(!signature_fits(&kernel, &signature));
    pointers[0].offset = 0;
    pointers[0].low = 401;
    CHECK(!signature_fits(&kernel, &signature));
    pointers[0].low = 0;
    CHECK(signature_fits(&kernel, &signature));
    overlap.b = 2;
    signature.overlap_count = 1;
    signature.overlaps = &overlap;
    CHECK(!signature_fits(&kernel, &signature));
    overlap.b = 0;
    CHECK(!signature_fits(&kernel, &signature));
    overlap.b = 1;
    CHECK(signature_fits(&kernel, &signature));
    signature = (struct kg_signature){.pointer_count = GUARD_POINTERS + 1, .pointers = pointers};
    CHECK(!signature_fits(&kernel, &signature));
    signature.pointer_count = 0;
    kernel.modelled = false;
    CHECK(!signature_fits(&kernel, &signature));
    kernel.modelled = true;
    kernel.param_count = LAUNCH_PARAMS + 1;
    CHECK(!signature_fits(&kernel, &signature));
    kernel.param_count = 4;
}

/* Last: a process that saw two contexts stays wary. */
static void other_contexts(void)
{
    reset();
    kernel.context = (CUcontext)0x1;
    current = (CUcontext)0x2;
    CHECK(!context_known((CUcontext)0x1) && context_seen((CUcontext)0x1));
    CHECK(!context_seen(NULL) && !context_known(NULL) && !context_seen((CUcontext)0x1));
    context_unseen((CUcontext)0x1); /* destroyed, and made anew */
    CHECK(!context_known((CUcontext)0x1) && context_seen((CUcontext)0x1));
    CHECK(context_known((CUcontext)0x1));
    CHECK(reason() == -1); /* one context: nobody asks which is current */
    CHECK(context_seen((CUcontext)0x2));
    CHECK(reason() == REFUSED_CONTEXT);
    current = (CUcontext)0x1;
    CHECK(reason() == -1);
    kernel.context = current = NULL;
    CHECK(reason() == REFUSED_CONTEXT);
    kernel.context = current = (CUcontext)0x1;
    green = (CUgreenCtx)0x3;
    CHECK(reason() == -1); /* nobody asks before the first one was made */
    context_green();
    CHECK(reason() == REFUSED_GREEN);
    real.cuStreamGetGreenCtx = fake_green;
    CHECK(reason() == REFUSED_GREEN);
    green = NULL;
    CHECK(reason() == -1);
}

int main(void)
{
    real.cuLaunchKernel = fake_launch;
    real.cuLaunchKernelEx = fake_launch_ex;
    real.cuCtxGetCurrent = fake_current;
    guards();
    keys();
    reaches();
    packed_arguments();
    attributes();
    variant_runs();
    variant_fails();
    hostile_guards();
    other_contexts();
    return test_result();
}
