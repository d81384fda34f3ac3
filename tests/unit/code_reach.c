/* Reach: the bytes that kernels can touch, worked out by hand, against what the analysis says. The
 * samples' kernels and small ones, each with a trap. Expectations are texts: "@8 w[0,400)!" is the
 * pointer at byte 8 of the parameters, written, 400 bytes from its value, exact; "r?" is not known;
 * "stray" that something is touched that no pointer parameter explains. */
#include "code_fixture.h"

#include "code/reach.h"

static const char source[] =
    "struct S { int first; float *p; short step; };\n"
    "__device__ float table[64];\n"
    "extern \"C\" {\n"
    "__global__ void before(float *p, int n)\n"
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[-i - 1] = i; }\n"
    "__global__ void reversed(float *p, int n)\n"
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[n - 1 - i] = i; }\n"
    "__global__ void grid_stride(float *p, const float *q, int n)\n"
    "{ for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)\n"
    "    p[i] = q[i]; }\n"
    "__global__ void downwards(float *p, int n)\n"
    "{ for (int i = n - 1; i >= 0; i--) p[i * 2] = threadIdx.x; }\n"
    "__global__ void at_least_once(float *p, int n)\n"
    "{ int i = 0; do { p[i] = 1; i += 3; } while (i < n); }\n"
    "__global__ void tile(float *out, const float *in, int rows, int columns)\n"
    "{ __shared__ float t[16][17]; int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + "
    "threadIdx.y;\n"
    "  if (r < rows && c < columns) t[threadIdx.y][threadIdx.x] = in[r * columns + c];\n"
    "  __syncthreads(); c = blockIdx.y * 16 + threadIdx.x; r = blockIdx.x * 16 + threadIdx.y;\n"
    "  if (r < columns && c < rows) out[r * rows + c] = t[threadIdx.x][threadIdx.y]; }\n"
    "__global__ void by_data(float *p, const int *index) { p[index[threadIdx.x]] = 1; }\n"
    "__global__ void checked(float *p, const int *index, int n)\n"
    "{ int i = index[threadIdx.x]; if (i >= 0 && i < n) p[i] = 1; }\n"
    "__global__ void checked_unsigned(float *p, const unsigned *index, unsigned n)\n"
    "{ unsigned i = index[threadIdx.x]; if (i < n) p[i] = 1; }\n"
    "__global__ void bytes(unsigned *p, const unsigned char *data)\n"
    "{ atomicAdd(&p[data[threadIdx.x]], 1u); }\n"
    "__global__ void while_data(float *p, const int *stop)\n"
    "{ for (int i = 0; i < *stop; i++) p[i] = 0; }\n"
    "__global__ void from_memory(float **p) { p[threadIdx.x][0] = 1; }\n"
    "__global__ void structure(S s) { s.p[s.first + s.step * (int)threadIdx.x] = 1; }\n"
    "__global__ void wraps(float *p, int n)\n"
    "{ int i = (int)(threadIdx.x * (unsigned)n); p[i] = 1; }\n"
    "__global__ void range_check(float *p, int first, unsigned count)\n"
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if ((unsigned)(i - first) < count) p[i] = 1; "
    "}\n"
    "__global__ void clamp(float *p, int n)\n"
    "{ int i = (int)threadIdx.x - 8; p[min(max(i, 0), n - 1)] = 1; }\n"
    "__global__ void modulo(float *p, unsigned n) { p[threadIdx.x % n] = 1; }\n"
    "__global__ void masked(float *p) { unsigned i = threadIdx.x; p[(i & 31) * 4 + (i >> 5)] = 1; "
    "}\n"
    "__global__ void swapped(float *p) { p[threadIdx.x ^ 1] = 1; }\n"
    "__global__ void wide(float4 *p, int n)\n"
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = make_float4(1, 2, 3, 4); "
    "}\n"
    "__global__ void either(float *p, float *q, int which)\n"
    "{ float *to = threadIdx.x & 1 ? p : q + 2; to[threadIdx.x] = which; }\n"
    "__global__ void pitch(char *p, size_t pitch, int rows, int width)\n"
    "{ int c = threadIdx.x, r = blockIdx.x; if (r < rows && c < width) p[r * pitch + c] = 1; }\n"
    "__global__ void triangle(float *p, int n)\n"
    "{ int r = threadIdx.x; for (int c = 0; c <= r; c++) if (r < n) p[r * n + c] = 1; }\n"
    "__global__ void halving(float *p, int n)\n"
    "{ for (int s = n / 2; s > 0; s /= 2) if (threadIdx.x < s) p[threadIdx.x] += p[threadIdx.x + "
    "s]; }\n"
    "__global__ void doubling(float *p, int n)\n"
    "{ for (int s = 1; s < n; s *= 2) p[s] = threadIdx.x; }\n"
    "__global__ void first_only(float *p, int n)\n"
    "{ if (threadIdx.x == 0 && blockIdx.x == 3) p[n] = 1; }\n"
    "__global__ void never(float *p, int n) { if (n > 10) p[threadIdx.x] = 1; }\n"
    "__global__ void variable(int n) { if (threadIdx.x < n) table[threadIdx.x] = 1; }\n"
    "__global__ void by_float(float *p, float f) { p[(int)(f * threadIdx.x)] = 1; }\n"
    "__global__ void unrolled(float *p, const float *q, int n)\n"
    "{ float sum = 0; for (int i = 0; i < n; i++) sum += q[i]; p[threadIdx.x] = sum; }\n"
    "__global__ void depth3(float *p, int x, int y, int z)\n"
    "{ for (int k = blockIdx.z; k < z; k += gridDim.z) for (int j = threadIdx.y; j < y; j += "
    "blockDim.y)\n"
    "    for (int i = threadIdx.x; i < x; i += blockDim.x) p[(k * y + j) * x + i] = 1; }\n"
    "__global__ void in_bounds(float *p, const float *q, int n)\n"
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = q[i + 1]; }\n"
    "}\n";

static struct expected {
    const char *entry;
    struct kg_dim grid, block;
    const char *args; /* p: a pointer; iN: an int; lN: 64 bits; sN: a short; a: to 8 bytes */
    const char *reach;
} expected[] = {
    {"before", {4, 1, 1}, {64, 1, 1}, "p i200", "@0 w[-800,0)!"},
    {"reversed", {4, 1, 1}, {64, 1, 1}, "p i200", "@0 w[0,800)!"},
    /* fewer threads than elements: the last are not touched */
    {"reversed", {2, 1, 1}, {64, 1, 1}, "p i200", "@0 w[288,800)!"},
    {"grid_stride", {3, 1, 1}, {32, 1, 1}, "p p i1000", "@0 w[0,4000)! @8 r[0,4000)!"},
    {"grid_stride", {3, 1, 1}, {32, 1, 1}, "p p i5", "@0 w[0,20)! @8 r[0,20)!"},
    {"grid_stride", {3, 1, 1}, {32, 1, 1}, "p p i0", "@0 - @8 -"},
    {"grid_stride", {3, 1, 1}, {32, 1, 1}, "p p i-7", "@0 - @8 -"},
    {"downwards", {1, 1, 1}, {32, 1, 1}, "p i100", "@0 w[0,796)!"},
    {"at_least_once", {1, 1, 1}, {1, 1, 1}, "p i10", "@0 w[0,40)!"},
    {"at_least_once", {1, 1, 1}, {1, 1, 1}, "p i-5", "@0 w[0,4)!"},
    {"tile", {3, 2, 1}, {16, 16, 1}, "p p i20 i40", "@0 w[0,3200)! @8 r[0,3200)!"},
    {"by_data", {1, 1, 1}, {32, 1, 1}, "p p", "@0 w? @8 r[0,128)!"},
    /* known, but no thread that surely does it */
    {"checked", {1, 1, 1}, {32, 1, 1}, "p p i50", "@0 w[0,200) @8 r[0,128)!"},
    {"checked_unsigned", {1, 1, 1}, {32, 1, 1}, "p p i50", "@0 w[0,200) @8 r[0,128)!"},
    {"bytes", {1, 1, 1}, {32, 1, 1}, "p p", "@0 r[0,1024) w[0,1024) @8 r[0,32)!"},
    {"while_data", {1, 1, 1}, {32, 1, 1}, "p p", "@0 w? @8 r[0,4)!"},
    {"from_memory", {1, 1, 1}, {32, 1, 1}, "p", "@0 r[0,256)! stray"},
    {"structure", {1, 1, 1}, {32, 1, 1}, "i10 a p s3", "@8 w[40,416)!"},
    {"structure", {1, 1, 1}, {32, 1, 1}, "i10 a p s-3", "@8 w[-332,44)!"},
    {"wraps", {1, 1, 1}, {32, 1, 1}, "p i100", "@0 w[0,12404)!"},
    /* 31 * 100000000 is more than 2^31: some threads write before the pointer */
    {"wraps", {1, 1, 1}, {32, 1, 1}, "p i100000000", "@0 w?"},
    {"range_check", {4, 1, 1}, {64, 1, 1}, "p i20 i100", "@0 w[80,480)!"},
    {"range_check", {4, 1, 1}, {64, 1, 1}, "p i-20 i100", "@0 w[0,320)!"},
    {"clamp", {1, 1, 1}, {64, 1, 1}, "p i30", "@0 w[0,120)!"},
    {"modulo", {1, 1, 1}, {64, 1, 1}, "p i30", "@0 w[0,120)!"},
    {"modulo", {1, 1, 1}, {16, 1, 1}, "p i30", "@0 w[0,64)!"},
    {"masked", {1, 1, 1}, {128, 1, 1}, "p", "@0 w[0,512)!"},
    {"swapped", {1, 1, 1}, {64, 1, 1}, "p", "@0 w[0,256)!"},
    {"wide", {2, 1, 1}, {64, 1, 1}, "p i100", "@0 w[0,1600)!"},
    {"either", {1, 1, 1}, {64, 1, 1}, "p p i1", "@0 w[0,256) @8 w[8,264)"},
    {"pitch", {9, 1, 1}, {64, 1, 1}, "p l512 i7 i50", "@0 w[0,3122)!"},
    {"triangle", {1, 1, 1}, {32, 1, 1}, "p i32", "@0 w[0,4096)!"},
    {"halving", {1, 1, 1}, {64, 1, 1}, "p i128", "@0 r[0,512)! w[0,256)!"},
    /* 2 * s < 100 is even: s is no more than 98 for all that is known */
    {"doubling", {1, 1, 1}, {32, 1, 1}, "p i100", "@0 w[4,396)"},
    {"first_only", {5, 1, 1}, {32, 1, 1}, "p i7", "@0 w[28,32)!"},
    {"first_only", {2, 1, 1}, {32, 1, 1}, "p i7", "@0 -"},
    {"never", {5, 1, 1}, {32, 1, 1}, "p i7", "@0 -"},
    {"variable", {1, 1, 1}, {128, 1, 1}, "i64", "table w[0,256)!"},
    {"by_float", {1, 1, 1}, {32, 1, 1}, "p i0", "@0 w?"},
    {"unrolled", {1, 1, 1}, {32, 1, 1}, "p p i1003", "@0 w[0,128)! @8 r[0,4012)!"},
    {"unrolled", {1, 1, 1}, {32, 1, 1}, "p p i3", "@0 w[0,128)! @8 r[0,12)!"},
    {"depth3", {1, 1, 2}, {32, 4, 1}, "p i50 i30 i5", "@0 w[0,30000)!"},
    /* the samples: on a part of a block at the edges, too */
    {"_Z9transposePKfPfii",
     {9, 5, 1},
     {16, 16, 1},
     "p p i77 i131",
     "@0 r[0,40348)! @8 w[0,40348)!"},
    {"_Z10polynomialPKfPf10Polynomiali",
     {64, 1, 1},
     {256, 1, 1},
     "p p i31 a z128 i16379",
     "@0 r[0,65516)! @8 w[0,65516)!"},
    {"_Z7softmaxPKfPfi", {8, 1, 1}, {256, 1, 1}, "p p i2048", "@0 r[0,65536)! @8 w[0,65536)!"},
    {"_Z7softmaxPKfPfi", {8, 1, 1}, {256, 1, 1}, "p p i2000", "@0 r[0,64000)! @8 w[0,64000)!"},
    {"_Z7softmaxPKfPfi", {8, 1, 1}, {256, 1, 1}, "p p i5", "@0 r[0,160)! @8 w[0,160)!"},
    {"_Z7stencilPKfPfii",
     {8, 6, 1},
     {16, 16, 1},
     "p p i96 i128",
     "@0 r[0,49152)! @8 w[0,49152)! weight r[0,100)!"},
    {"_Z5tallyPKfiPj", {1, 1, 1}, {64, 1, 1}, "p i64 a p", "@0 r[0,256)! @16 r[0,4) w[0,4)"},
    {"_Z4fadePfif", {1, 1, 1}, {64, 1, 1}, "p i50 i0", "@0 r[0,200)! w[0,200)!"},
};

/* ---- arguments and texts --------------------------------------------------------------------- */

static uint32_t pack_args(const char *text, unsigned char *out)
{
    uint32_t at = 0;
    uint64_t pointer = 0x7f0000000000ull;
    for (; *text; text += strcspn(text, " "), text += *text == ' ') {
        long long value = strtoll(text + 1, NULL, 10);
        uint32_t size = *text == 'p' || *text == 'l' ? 8 : *text == 's' ? 2 : *text == 'i' ? 4 : 1;
        at = *text == 'a' ? (at + 7) & ~7u : (at + size - 1) & ~(size - 1);
        if (*text == 'a')
            continue;
        if (*text == 'z') { /* bytes of a struct, all zero */
            at = ((at + 3) & ~3u) + (uint32_t)value - 4;
            continue;
        }
        if (*text == 'p') {
            value = (long long)pointer;
            pointer += 1ull << 32;
        }
        memcpy(out + at, &value, size);
        at += size;
    }
    return at;
}

static void put_bytes(char *out, size_t size, const char *letter, const struct reach_bytes *bytes)
{
    size_t used = strlen(out);
    if (bytes->state == REACH_KNOWN)
        snprintf(out + used, size - used, " %s[%lld,%lld)%s", letter, (long long)bytes->low,
                 (long long)bytes->high, bytes->exact ? "!" : "");
    else if (bytes->state == REACH_UNKNOWN)
        snprintf(out + used, size - used, " %s?", letter);
}

static void put_reach(const struct reach *reach, char *out, size_t size)
{
    *out = 0;
    for (uint32_t i = 0; i < reach->target_count; i++) {
        const struct reach_target *target = &reach->targets[i];
        size_t used = strlen(out);
        if (target->at == REACH_NONE)
            snprintf(out + used, size - used, "%s%s", used ? " " : "", target->name);
        else
            snprintf(out + used, size - used, "%s@%u", used ? " " : "", target->at);
        used = strlen(out);
        put_bytes(out, size, "r", &target->read);
        put_bytes(out, size, "w", &target->written);
        if (strlen(out) == used)
            snprintf(out + used, size - used, " -");
    }
    if (reach->stray.state)
        snprintf(out + strlen(out), size - strlen(out), "%sstray", *out ? " " : "");
}

static struct kg_bytes own, sample[4];

/* The PTX that has the entry. */
static const char *text_of(const char *entry)
{
    char name[128];
    snprintf(name, sizeof name, ".entry %s(", entry);
    for (unsigned i = 0; i < 4; i++)
        if (strstr((char *)sample[i].data, name))
            return (char *)sample[i].data;
    return (char *)own.data;
}

static bool reach_with(const char *entry, struct kg_launch launch, const char *args,
                       const struct reach_launch *more, struct reach *out)
{
    unsigned char params[4096] = {0};
    pack_args(args, params);
    struct reach_launch how = *more;
    how.launch = &launch;
    how.params = params;
    how.param_bytes = sizeof params;
    return CHECK(reach_of_ptx(text_of(entry), entry, &how, out) == KG_OK);
}

static void check_table(void)
{
    for (unsigned i = 0; i < sizeof expected / sizeof *expected; i++) {
        const struct expected *e = &expected[i];
        struct reach_launch how = {.exact = true};
        struct reach reach;
        char text[512];
        if (!reach_with(e->entry, (struct kg_launch){e->grid, e->block, 0}, e->args, &how, &reach))
            continue;
        put_reach(&reach, text, sizeof text);
        if (!CHECK(!strcmp(text, e->reach)))
            fprintf(stderr, "%s(%s): %s\n   expected %s\n", e->entry, e->args, text, e->reach);
        reach_free(&reach);
    }
}

/* ---- proofs ---------------------------------------------------------------------------------- */

static uint8_t proof_of(const struct reach *reach, uint32_t at)
{
    for (uint32_t i = 0; i < reach->target_count; i++)
        if (reach->targets[i].at == at)
            return reach->targets[i].proof;
    return PROOF_NONE;
}

static void check_proofs(void)
{
    struct kg_launch launch = {{4, 1, 1}, {64, 1, 1}, 0};
    struct reach_extent extents[] = {{0, 0, 800}, {8, 0, 804}};
    struct reach_launch how = {.extents = extents, .extent_count = 2, .exact = true};
    struct reach reach;
    reach_with("in_bounds", launch, "p p i200", &how, &reach);
    CHECK(proof_of(&reach, 0) == PROOF_PROVEN && proof_of(&reach, 8) == PROOF_PROVEN);
    reach_free(&reach);
    /* One byte too few: the last thread surely reads it. */
    extents[1].high = 803;
    reach_with("in_bounds", launch, "p p i200", &how, &reach);
    CHECK(proof_of(&reach, 0) == PROOF_PROVEN && proof_of(&reach, 8) == PROOF_VIOLATED);
    for (uint32_t i = 0; i < reach.access_count; i++)
        if (reach.accesses[i].proof == PROOF_VIOLATED) {
            CHECK(reach.accesses[i].witness[0] == 199 % 64);
            CHECK(reach.accesses[i].witness[3] == 199 / 64);
        }
    reach_free(&reach);
    /* Without walking, nothing is violated. */
    how.exact = false;
    reach_with("in_bounds", launch, "p p i200", &how, &reach);
    CHECK(proof_of(&reach, 8) == PROOF_UNKNOWN);
    reach_free(&reach);
    /* For all n from 1 to 200, and up to 201. */
    struct reach_scalar n = {16, 4, 1, 200};
    how.scalars = &n;
    how.scalar_count = 1;
    extents[1].high = 804;
    reach_with("in_bounds", launch, "p p i0", &how, &reach);
    CHECK(proof_of(&reach, 0) == PROOF_PROVEN && proof_of(&reach, 8) == PROOF_PROVEN);
    reach_free(&reach);
    n.high = 201;
    reach_with("in_bounds", launch, "p p i0", &how, &reach);
    CHECK(proof_of(&reach, 0) == PROOF_UNKNOWN && proof_of(&reach, 8) == PROOF_UNKNOWN);
    reach_free(&reach);
    /* What depends on data is neither proven nor violated. */
    how.scalar_count = 0;
    how.exact = true;
    reach_with("by_data", launch, "p p", &how, &reach);
    CHECK(proof_of(&reach, 0) == PROOF_UNKNOWN && proof_of(&reach, 8) == PROOF_PROVEN);
    reach_free(&reach);
}

/* ---- accesses and loops ---------------------------------------------------------------------- */

static const struct reach_access *access_of(const struct reach *reach, bool writes)
{
    for (uint32_t i = 0; i < reach->access_count; i++)
        if (reach->accesses[i].writes == writes && reach->accesses[i].target != REACH_NONE)
            return &reach->accesses[i];
    static const struct reach_access none;
    CHECK(reach->access_count == UINT32_MAX); /* no such access */
    return &none;
}

static void check_accesses(void)
{
    struct reach_launch how = {.exact = false};
    struct reach reach;
    const struct reach_access *access;
    struct kg_launch square = {{8, 8, 1}, {16, 16, 1}, 0};
    reach_with("_Z9transposePKfPfii", square, "p p i128 i128", &how, &reach);
    access = access_of(&reach, false);
    CHECK(access->strided && access->stride == 4 && access->sectors == 4 && access->bytes == 4);
    access = access_of(&reach, true);
    CHECK(access->strided && access->stride == 512 && access->sectors == 16 && access->times == 1);
    reach_free(&reach);
    struct kg_launch line = {{4, 1, 1}, {64, 1, 1}, 0};
    reach_with("wide", line, "p i200", &how, &reach);
    access = access_of(&reach, true);
    CHECK(access->stride == 16 && access->sectors == 16 && access->vector == 4);
    reach_free(&reach);
    reach_with("masked", (struct kg_launch){{1, 1, 1}, {128, 1, 1}, 0}, "p", &how, &reach);
    CHECK(access_of(&reach, true)->stride == 16);
    reach_free(&reach);
    reach_with("depth3", (struct kg_launch){{1, 1, 2}, {32, 4, 1}, 0}, "p i50 i30 i5", &how,
               &reach);
    CHECK(reach.loop_count == 3 && reach.complete);
    uint64_t most = 1;
    for (uint32_t i = 0; i < reach.loop_count; i++)
        most *= reach.loops[i].known ? reach.loops[i].most : 0;
    CHECK(most == 3 * 8 * 2); /* z: 5 by 2; y: 30 by 4; x: 50 by 32 */
    CHECK(access_of(&reach, true)->times == most);
    reach_free(&reach);
    reach_with("while_data", line, "p p", &how, &reach);
    CHECK(reach.loop_count == 1 && !reach.loops[0].known && reach.loops[0].why);
    CHECK(access_of(&reach, true)->times == UINT64_MAX);
    reach_free(&reach);
}

/* No launch: formulas, and nothing claimed. */
static void check_symbolic(void)
{
    struct reach_launch how = {0};
    struct reach reach;
    CHECK(reach_of_ptx(text_of("_Z9transposePKfPfii"), "_Z9transposePKfPfii", &how, &reach) ==
          KG_OK);
    CHECK(!reach.complete);
    const struct reach_access *access = access_of(&reach, false);
    CHECK(access->reach.state == REACH_UNKNOWN && access->stride == 4);
    CHECK(
        !strcmp(access->address, "4*tid.x + 4*ctaid.x*ntid.x + 4*tid.y*p3 + 4*ctaid.y*ntid.y*p3"));
    reach_free(&reach);
}

static void check_refusals(void)
{
    struct kg_launch launch = {{1, 1, 1}, {1, 1, 1}, 0}, empty = {{1, 0, 1}, {1, 1, 1}, 0};
    unsigned char params[64] = {0};
    struct reach_launch how = {.launch = &launch, .params = params, .param_bytes = sizeof params};
    struct reach reach;
    CHECK(reach_of_ptx((char *)own.data, "nobody", &how, &reach) == KG_NOT_FOUND);
    CHECK(reach_of_ptx(".version", "nobody", &how, &reach) != KG_OK);
    how.param_bytes = 4;
    CHECK(reach_of_ptx((char *)own.data, "before", &how, &reach) == KG_BAD_INPUT);
    how.param_bytes = sizeof params;
    how.launch = &empty;
    CHECK(reach_of_ptx((char *)own.data, "before", &how, &reach) == KG_BAD_INPUT);
    reach_free(&reach);
}

/* Stores through one of eight pointers, each 8 bytes after the last; the last of them far off. */
static void write_choice(char *text, size_t size, unsigned stores)
{
    size_t used = (size_t)snprintf(text, size,
                                   ".version 8.0\n.target sm_90\n.address_size 64\n"
                                   ".visible .entry choice(");
    for (unsigned i = 0; i < 8; i++)
        used += (size_t)snprintf(text + used, size - used, "%s.param .u64 p%u", i ? ", " : "", i);
    used += (size_t)snprintf(text + used, size - used,
                             ")\n{\n.reg .pred %%p<3>;\n.reg .b32 %%r<6>;\n.reg .b64 %%d<15>;\n"
                             "mov.u32 %%r0, %%tid.x;\n");
    for (unsigned i = 0; i < 8; i++)
        used += (size_t)snprintf(text + used, size - used, "ld.param.u64 %%d%u, [p%u];\n", i, i);
    for (unsigned i = 0; i < 3; i++)
        used += (size_t)snprintf(text + used, size - used,
                                 "and.b32 %%r%u, %%r0, %u;\nsetp.ne.u32 %%p%u, %%r%u, 0;\n", i + 1,
                                 1u << i, i, i + 1);
    for (unsigned i = 0; i < 7; i++)
        used += (size_t)snprintf(text + used, size - used, "selp.b64 %%d%u, %%d%u, %%d%u, %%p%u;\n",
                                 8 + i, 2 * i, 2 * i + 1,
                                 i < 4   ? 0
                                 : i < 6 ? 1
                                         : 2);
    for (unsigned i = 0; i < stores; i++)
        used += (size_t)snprintf(text + used, size - used, "st.global.u32 [%%d14+%u], %%r0;\n",
                                 i + 1 == stores ? 1000000 : 8 * i);
    CHECK(used + 10 < size);
    snprintf(text + used, size - used, "ret;\n}\n");
}

/* Each store is an access of eight targets: more than there is room for must not go unsaid. */
static void check_many(void)
{
    static const unsigned counts[] = {2, 14, 60, 400};
    struct kg_launch launch = {{1, 1, 1}, {32, 1, 1}, 0};
    unsigned char params[64];
    struct reach_extent extent = {0, 0, 2000000};
    pack_args("p p p p p p p p", params);
    for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++) {
        static char text[65536];
        struct reach_launch how = {.launch = &launch,
                                   .params = params,
                                   .param_bytes = sizeof params,
                                   .extents = &extent,
                                   .extent_count = 1,
                                   .exact = true};
        struct reach reach;
        write_choice(text, sizeof text, counts[i]);
        if (!CHECK(reach_of_ptx(text, "choice", &how, &reach) == KG_OK))
            continue;
        CHECK(reach.target_count == 8 && !reach.contradicted);
        bool whole = true;
        for (uint32_t t = 0; t < reach.target_count; t++)
            whole &= reach.targets[t].written.state == REACH_KNOWN &&
                     reach.targets[t].written.low == 0 && reach.targets[t].written.high == 1000004;
        CHECK(reach.complete == whole && (reach.stray.state != REACH_UNTOUCHED) == !whole);
        CHECK(whole == (counts[i] == 2)); /* or this test tests nothing */
        CHECK(whole || (reach.stray_writes && !reach.traffic));
        CHECK(proof_of(&reach, 0) == (whole ? PROOF_PROVEN : PROOF_UNKNOWN));
        reach_free(&reach);
    }
}

/* What an instruction with an unknown suffix reads, writes or gives is not known. */
static void check_strange(void)
{
    static const struct {
        const char *body, *reach;
    } rows[] = {
        {"add.s64 %d2, %d1, 8; st.global.u32 [%d2], %r1;", "@0 w[8,12)!"},
        {"add.s64 %d2, %d1, 8; st.global.future.u32 [%d2], %r1;", "@0 r? w? stray"},
        {"add.future.s64 %d2, %d1, 8; st.global.u32 [%d2], %r1;", "@0 - stray"},
        {"setp.eq.future.u32 %p1, %r1, 1; @%p1 ret; st.global.u32 [%d1], %r1;", "@0 w[0,4) stray"},
    };
    struct kg_launch launch = {{1, 1, 1}, {1, 1, 1}, 0};
    unsigned char params[8];
    struct reach_launch how = {
        .launch = &launch, .params = params, .param_bytes = sizeof params, .exact = true};
    pack_args("p", params);
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct reach reach;
        char text[1024], got[512];
        snprintf(text, sizeof text,
                 ".version 8.0\n.target sm_90\n.address_size 64\n"
                 ".visible .entry k(.param .u64 .ptr .global p) { .reg .pred %%p<2>; .reg .b32 "
                 "%%r<2>; .reg .b64 "
                 "%%d<3>;\nld.param.u64 %%d1, [p]; mov.u32 %%r1, 1; %s ret; }\n",
                 rows[i].body);
        if (!CHECK(reach_of_ptx(text, "k", &how, &reach) == KG_OK))
            continue;
        put_reach(&reach, got, sizeof got);
        if (!CHECK(!strcmp(got, rows[i].reach)))
            fprintf(stderr, "%s: %s\n   expected %s\n", rows[i].body, got, rows[i].reach);
        CHECK(reach.complete == !i);
        reach_free(&reach);
    }
}

int main(void)
{
    static const char *const samples[] = {"transpose", "polynomial", "softmax", "stencil"};
    fixture_begin();
    fixture_write("own.cu", source);
    CHECK(fixture_run(NVCC " -std=c++17 -ptx -o own.ptx own.cu"));
    own = fixture_read("own.ptx");
    for (unsigned i = 0; i < 4; i++) {
        CHECK(fixture_run(NVCC " -std=c++17 -ptx -o %s.ptx %s/samples/%s/%s.cu", samples[i],
                          SOURCE_DIR, samples[i], samples[i]));
        char name[64];
        snprintf(name, sizeof name, "%s.ptx", samples[i]);
        sample[i] = fixture_read(name);
    }
    check_table();
    check_proofs();
    check_accesses();
    check_symbolic();
    check_refusals();
    check_many();
    check_strange();
    bytes_free(&own);
    for (unsigned i = 0; i < 4; i++)
        bytes_free(&sample[i]);
    fixture_end();
    return test_result();
}
