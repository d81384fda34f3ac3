/* Exact rewriting, row by row, on the software GPU: each operation of passes_cases.h rewritten with
 * a known scalar gives the bits of the original for special and random operands; and what folding
 * makes of known operands is what executing them gives. tests/differential has the same for a GPU.
 */
#include "exec_test.h"
#include "passes_cases.h"
#include "passes_folds.h"

enum { COUNT = 16384, BLOCK = 256 };

static const struct kg_launch launch = {{COUNT / BLOCK, 1, 1}, {BLOCK, 1, 1}, 0};

static bool run(const char *text, uint64_t in, uint64_t out, uint64_t scalar, unsigned bytes)
{
    struct exec_module *module = module_of(text);
    if (!module)
        return false;
    struct test_call call = call_of(module, "k", COUNT / BLOCK, BLOCK, 0);
    ARG(&call, uint64_t, in);
    ARG(&call, uint64_t, out);
    call_add(&call, &scalar, bytes);
    call.config.threads = 1;
    bool good = call_good(&call);
    exec_module_destroy(module);
    return good;
}

static void check_case(const struct pass_case *c, uint64_t scalar, uint64_t seed)
{
    static char text[8192];
    unsigned bytes = (unsigned)atoi(c->type + 1) / 8;
    uint64_t in = test_alloc((size_t)2 * COUNT * bytes, 256), expected, got;
    expected = test_alloc((size_t)COUNT * bytes, 256);
    got = test_alloc((size_t)COUNT * bytes, 256);
    for (uint64_t i = 0; i < 2 * COUNT; i++) {
        uint64_t x =
            pass_operand(c, scalar, i % COUNT < COUNT - 1000 ? i % COUNT : i * 7 % 24, &seed);
        memcpy((char *)(uintptr_t)in + i * bytes, &x, bytes);
    }
    pass_text(c, COUNT, text, sizeof text);
    char *rewritten = pass_rewritten(c, text, scalar, &launch);
    if (CHECK(rewritten) && run(text, in, expected, scalar, bytes) &&
        run(rewritten, in, got, scalar, bytes)) {
        const char *a = (const char *)(uintptr_t)expected, *b = (const char *)(uintptr_t)got;
        unsigned i = 0;
        while (i < COUNT && !memcmp(a + i * bytes, b + i * bytes, bytes))
            i++;
        if (!CHECK(i == COUNT)) {
            uint64_t x = 0, y = 0, z = 0;
            memcpy(&x, (char *)(uintptr_t)in + i * bytes, bytes);
            memcpy(&y, a + i * bytes, bytes);
            memcpy(&z, b + i * bytes, bytes);
            fprintf(stderr, "%s with %llx of %llx: %llx became %llx\n", c->body,
                    (unsigned long long)scalar, (unsigned long long)x, (unsigned long long)y,
                    (unsigned long long)z);
        }
    }
    free(rewritten);
    test_free_all();
}

static void check_cases(void)
{
    for (unsigned i = 0; i < PASS_CASES; i++)
        for (unsigned k = 0; k < 12 && (!k || pass_cases[i].scalars[k]); k++)
            check_case(&pass_cases[i], pass_cases[i].scalars[k], 100 * i + k);
    /* divisors nobody chose */
    uint64_t state = 7;
    for (unsigned i = 0; i < PASS_CASES; i++) {
        const struct pass_case *c = &pass_cases[i];
        /* where %t has a range, the divisor may lie above it, and another row applies */
        if ((c->pass != PASS_div_int && c->pass != PASS_div_known) || strstr(c->body, "%t"))
            continue;
        for (unsigned k = 0; k < 4; k++) {
            uint64_t scalar = pass_random(&state) >> (pass_random(&state) % 40);
            scalar &= c->type[1] == '3' ? 0x7fffffff : UINT64_MAX >> 1;
            if (c->pass == PASS_div_known)
                scalar = c->type[1] == '3' ? (scalar & 0x7ffffe) | 0x40000001
                                           : (scalar & 0xffffffffffffe) | 0x3ff0000000000001;
            else
                scalar = scalar % 1000000007 + 2;
            check_case(c, scalar, k);
        }
    }
}

/* ---- folding ---- */

/* Both texts with the same three words as operands: the same results. */
static void check_fold(const char *text, const uint64_t words[3], unsigned *folded)
{
    const struct kg_param params[] = {{0, 8}, {8, 8}, {16, 8}, {24, 8}};
    const struct kg_scalar known[] = {
        {1, 0, 8, words[0], 0}, {2, 0, 8, words[1], 0}, {3, 0, 8, words[2], 0}};
    struct kg_bytes out = {0};
    unsigned done[PASS_COUNT];
    uint64_t results[2];
    if (!CHECK(ptx_rewrite(text, "k", NULL, params, 4, known, 3, &out, done) == KG_OK))
        return;
    *folded += done[PASS_fold_int] + done[PASS_fold_float] + done[PASS_range];
    for (unsigned side = 0; side < 2; side++) {
        results[side] = test_alloc((size_t)8 * FOLDS, 256);
        memset((void *)(uintptr_t)results[side], 0, (size_t)8 * FOLDS);
        struct exec_module *module = module_of(side ? (char *)out.data : text);
        if (!module)
            return;
        struct test_call call = call_of(module, "k", 1, 1, 0);
        ARG(&call, uint64_t, results[side]);
        for (unsigned i = 0; i < 3; i++)
            ARG(&call, uint64_t, words[i]);
        call.config.threads = 1;
        call_good(&call);
        exec_module_destroy(module);
    }
    for (unsigned i = 0; i < FOLDS; i++)
        if (!CHECK(!memcmp((char *)(uintptr_t)results[0] + 8 * i,
                           (char *)(uintptr_t)results[1] + 8 * i, 8)))
            fprintf(stderr, "%s of %llx %llx %llx\n", folds[i].text, (unsigned long long)words[0],
                    (unsigned long long)words[1], (unsigned long long)words[2]);
    bytes_free(&out);
    test_free_all();
}

static void check_folds(void)
{
    static char text[32768];
    uint64_t state = 3;
    unsigned folded = 0, runs = 0;
    fold_text(folds, FOLDS, text, sizeof text);
    for (unsigned i = 0; i < 400; i++, runs++) {
        uint64_t words[3];
        fold_words(words, &state);
        check_fold(text, words, &folded);
    }
    /* most are folded, not left alone: FOLDS rows, some of two instructions */
    CHECK(folded > runs * FOLDS * 9 / 10);
}

int main(void)
{
    check_cases();
    check_folds();
    return test_result();
}
