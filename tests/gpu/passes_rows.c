/* Exact rewriting, row by row, on a GPU: each operation of passes_cases.h as it is and rewritten,
 * on special and random operands, for 32 bits on all of them where one operand decides. Results are
 * compared bit for bit. Usage: passes_rows [chunks of 4 million operands a 64-bit row]. */
#include "gpu/real.h"

#include "unit/passes_folds.h"

enum { COUNT = 1 << 22, BLOCK = 256 };

static const struct kg_launch launch = {{COUNT / BLOCK, 1, 1}, {BLOCK, 1, 1}, 0};
static CUdeviceptr in, outs[2], counter; /* counter: differences, and the number of one of them */
static CUfunction rise, differ;
static unsigned char *operands;

/* rise: 32-bit words from base up. differ: counts 32-bit words in which a and b differ. */
static const char helpers[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry rise(.param .u64 a, .param .u32 base)\n{\n"
    "\t.reg .b32 %r<6>; .reg .b64 %q<4>;\n\tld.param.u64 %q1, [a]; ld.param.u32 %r1, [base];\n"
    "\tmov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"
    "\tmad.lo.u32 %r2, %r2, %r3, %r4; add.u32 %r1, %r1, %r2;\n"
    "\tmul.wide.u32 %q2, %r2, 4; add.u64 %q1, %q1, %q2; st.global.u32 [%q1], %r1; ret;\n}\n"
    ".visible .entry differ(.param .u64 a, .param .u64 b, .param .u64 n)\n{\n"
    "\t.reg .pred %p; .reg .b32 %r<6>; .reg .b64 %q<5>;\n"
    "\tld.param.u64 %q1, [a]; ld.param.u64 %q2, [b]; ld.param.u64 %q3, [n];\n"
    "\tmov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"
    "\tmad.lo.u32 %r2, %r2, %r3, %r4; mul.wide.u32 %q4, %r2, 4;\n"
    "\tadd.u64 %q1, %q1, %q4; add.u64 %q2, %q2, %q4;\n"
    "\tld.global.u32 %r3, [%q1]; ld.global.u32 %r4, [%q2]; setp.eq.u32 %p, %r3, %r4;\n"
    "\t@%p ret; red.global.add.u32 [%q3], 1; st.global.u32 [%q3+4], %r2; ret;\n}\n";

static bool load(const char *text, const char *entry, CUmodule *module, CUfunction *function)
{
    return real_ok(real.cuModuleLoadData(module, text), "cuModuleLoadData") &&
           real_ok(real.cuModuleGetFunction(function, *module, entry), "cuModuleGetFunction");
}

static bool run(CUfunction function, unsigned blocks, void **params)
{
    return real_ok(real.cuLaunchKernel(function, blocks, 1, 1, BLOCK, 1, 1, 0, NULL, params, NULL),
                   "launch");
}

/* Number of results that differ; -1: it could not be run. */
static long compare_chunk(CUfunction functions[2], uint64_t scalar, unsigned bytes)
{
    uint32_t count[2] = {0, 0};
    uint64_t values[3] = {0, 0, 0};
    if (!real_ok(real.cuMemsetD8_v2(counter, 0, 8), "cuMemsetD8"))
        return -1;
    for (unsigned side = 0; side < 2; side++) {
        void *params[] = {&in, &outs[side], &scalar};
        if (!real_ok(
                real.cuMemsetD8_v2(outs[side], (unsigned char)(0xee + side), (size_t)COUNT * bytes),
                "cuMemsetD8") ||
            !run(functions[side], COUNT / BLOCK, params))
            return -1;
    }
    void *params[] = {&outs[0], &outs[1], &counter};
    if (!run(differ, COUNT / BLOCK * (bytes / 4), params) ||
        !real_ok(real.cuMemcpyDtoH_v2(count, counter, 8), "cuMemcpyDtoH"))
        return -1;
    if (!count[0])
        return 0;
    uint64_t at = (uint64_t)count[1] * 4 / bytes * bytes;
    const CUdeviceptr from[] = {in + at, outs[0] + at, outs[1] + at};
    for (unsigned i = 0; i < 3; i++)
        if (!real_ok(real.cuMemcpyDtoH_v2(&values[i], from[i], bytes), "cuMemcpyDtoH"))
            return -1;
    printf("  of %llx: %llx became %llx\n", (unsigned long long)values[0],
           (unsigned long long)values[1], (unsigned long long)values[2]);
    return count[0];
}

/* Special and random ones; then, where all are tried, those from chunk * COUNT on. */
static bool fill(const struct pass_case *c, uint64_t scalar, uint64_t chunk, bool all,
                 uint64_t *state)
{
    unsigned bytes = (unsigned)atoi(c->type + 1) / 8;
    uint32_t base = (uint32_t)(chunk * COUNT);
    void *params[] = {&in, &base};
    for (uint64_t i = 0; i < 2 * COUNT && (!all || !chunk); i++) {
        uint64_t x =
            pass_operand(c, scalar, i > COUNT && i % 5000 < 24 ? i % 5000 : i % COUNT, state);
        memcpy(operands + i * bytes, &x, bytes);
    }
    if ((!all || !chunk) &&
        !real_ok(real.cuMemcpyHtoD_v2(in, operands, (size_t)2 * COUNT * bytes), "cuMemcpyHtoD"))
        return false;
    return !all || run(rise, COUNT / BLOCK, params);
}

static bool check(const struct pass_case *c, uint64_t scalar, uint64_t chunks)
{
    static char text[8192];
    CUmodule modules[2];
    CUfunction functions[2];
    uint64_t state = scalar;
    long different = 0;
    pass_text(c, COUNT, text, sizeof text);
    char *rewritten = pass_rewritten(c, text, scalar, &launch);
    if (!rewritten || !load(text, "k", &modules[0], &functions[0]) ||
        !load(rewritten, "k", &modules[1], &functions[1])) {
        printf("%s  %s\n", rewritten ? "NOT LOADED" : "NOT REWRITTEN", c->body);
        free(rewritten);
        return false;
    }
    /* all of the first scalar's operands; of the others a part, in which the special ones are */
    bool all = c->all && scalar == c->scalars[0] && chunks > 1;
    uint64_t runs = all ? (UINT64_C(1) << 32) / COUNT : c->all ? 1 : chunks;
    for (uint64_t i = 0; i < runs && different >= 0 && different < 100; i++) {
        long more = fill(c, scalar, i, all, &state)
                        ? compare_chunk(functions, scalar, (unsigned)atoi(c->type + 1) / 8)
                        : -1;
        different = more < 0 ? more : different + more;
    }
    printf("%-9s %-4s %016llx %6llu M  %s\n", different ? "DIFFERENT" : "equal", c->type,
           (unsigned long long)scalar, (unsigned long long)(runs * COUNT >> 20), c->body);
    fflush(stdout);
    real.cuModuleUnload(modules[0]);
    real.cuModuleUnload(modules[1]);
    free(rewritten);
    return !different;
}

/* Each row of a table with words known to both compilers, and to none. Number of rows that
 * differed. */
static unsigned check_folds(const struct fold *rows, unsigned count, unsigned turns)
{
    static char text[32768];
    static bool different[256];
    const struct kg_param params[] = {{0, 8}, {8, 8}, {16, 8}, {24, 8}};
    const struct kg_launch one = {{1, 1, 1}, {1, 1, 1}, 0};
    uint64_t state = 5, words[3], got[2][256];
    unsigned found = 0;
    fold_text(rows, count, text, sizeof text);
    for (unsigned turn = 0; turn < turns; turn++) {
        unsigned done[PASS_COUNT];
        struct kg_bytes out = {0};
        fold_words(words, &state);
        const struct kg_scalar known[] = {
            {1, 0, 8, words[0], 0}, {2, 0, 8, words[1], 0}, {3, 0, 8, words[2], 0}};
        if (ptx_rewrite(text, "k", &one, params, 4, known, 3, &out, done) != KG_OK)
            return count;
        for (unsigned side = 0; side < 2; side++) {
            CUmodule module;
            CUfunction function;
            void *args[] = {&outs[0], &words[0], &words[1], &words[2]};
            if (!load(side ? (char *)out.data : text, "k", &module, &function) ||
                !real_ok(real.cuMemsetD8_v2(outs[0], 0, sizeof got[0]), "cuMemsetD8") ||
                !real_ok(real.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL),
                         "launch") ||
                !real_ok(real.cuMemcpyDtoH_v2(got[side], outs[0], sizeof got[0]), "cuMemcpyDtoH"))
                return count;
            real.cuModuleUnload(module);
        }
        bytes_free(&out);
        for (unsigned i = 0; i < count; i++)
            if (got[0][i] != got[1][i] && !different[i]) {
                different[i] = true;
                found++;
                printf("DIFFERENT %s of %llx %llx %llx: %llx became %llx\n", rows[i].text,
                       (unsigned long long)words[0], (unsigned long long)words[1],
                       (unsigned long long)words[2], (unsigned long long)got[0][i],
                       (unsigned long long)got[1][i]);
            }
    }
    memset(different, 0, sizeof different);
    return found;
}

int main(int argc, char **argv)
{
    uint64_t chunks = argc > 1 ? strtoull(argv[1], NULL, 10) : 4;
    CUdevice device;
    CUcontext context;
    CUmodule module;
    unsigned good = 0, bad = 0;
    if (real_open(NULL) != KG_OK || !real_ok(real.cuInit(0), "cuInit") ||
        !real_ok(real.cuDeviceGet(&device, 0), "cuDeviceGet") ||
        !real_ok(real.cuDevicePrimaryCtxRetain(&context, device), "context") ||
        !real_ok(real.cuCtxSetCurrent(context), "context") ||
        !real_ok(real.cuMemAlloc_v2(&in, (size_t)2 * COUNT * 8), "cuMemAlloc") ||
        !real_ok(real.cuMemAlloc_v2(&outs[0], (size_t)COUNT * 8), "cuMemAlloc") ||
        !real_ok(real.cuMemAlloc_v2(&outs[1], (size_t)COUNT * 8), "cuMemAlloc") ||
        !real_ok(real.cuMemAlloc_v2(&counter, 8), "cuMemAlloc") ||
        !load(helpers, "rise", &module, &rise) || !load(helpers, "differ", &module, &differ))
        return 1;
    operands = malloc((size_t)2 * COUNT * 8);
    if (!operands)
        return 1;
    for (unsigned i = 0; i < PASS_CASES; i++)
        for (unsigned k = 0; k < 12 && (!k || pass_cases[i].scalars[k]); k++)
            *(check(&pass_cases[i], pass_cases[i].scalars[k], chunks) ? &good : &bad) += 1;
    printf("%u rows with their scalars equal, %u not\n", good, bad);
    unsigned folded = check_folds(folds, FOLDS, 120);
    printf("folding on 120 sets of operands: %u of %u rows differ\n", folded, (unsigned)FOLDS);
    unsigned left = check_folds(approximate, APPROXIMATE, 120);
    printf("what ptxas folds, on 120 sets: %u of %u rows differ\n", left, (unsigned)APPROXIMATE);
    return bad || folded || left;
}
