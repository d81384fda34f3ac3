/* One kernel, several launches: a variant that was made for one is verified for the others without
 * asking a maker again; one that holds its launch's values is refused there. Free scalars are not
 * in the guard, and a variant that holds one of them by heart is refused. With the worker, on the
 * software GPU. */
#include "sized_kernel.h"
#include "tune_fixture.h"

#include "cache.h"

#include <math.h>
#include <sys/wait.h>

static CUdeviceptr at[2];
static struct kg_hardware hardware;

/* ---- the kernel --------------------------------------------------------------------------------
 */

static void spool(unsigned n, float factor, uint32_t unused)
{
    static float x[N], y[N];
    static struct kg_param params[5] = {{0, 8}, {8, 8}, {16, 4}, {20, 4}, {24, 4}};
    struct kg_id id;
    unsigned char args[28];
    for (unsigned i = 0; i < N; i++) {
        x[i] = (float)(int)(random_word(7, i) % 2001) - 1000;
        y[i] = i < n ? fmaf(x[i], factor, 1) : 0;
    }
    memcpy(args, at, 16);
    memcpy(args + 16, &n, 4);
    memcpy(args + 20, &factor, 4);
    memcpy(args + 24, &unused, 4);
    struct capture_region regions[2] = {numbers_at(at[0], x, NULL), numbers_at(at[1], y, y)};
    struct capture_pointer pointers[2] = {{0, 0, 0}, {1, 0, 1}};
    struct kg_capture capture = {
        .hardware = hardware,
        .pid = 1,
        .entry = "k",
        .launch = {{(n + THREADS - 1) / THREADS, 1, 1}, {THREADS, 1, 1}, 0},
        .carveout = -1,
        .param_count = 5,
        .params = params,
        .args = {args, sizeof args},
        .pointer_count = 2,
        .pointers = pointers,
        .region_count = 2,
        .regions = regions,
        .image = (const unsigned char *)sized_ptx,
        .image_size = sizeof sized_ptx};
    CHECK(fixture_id(sized_ptx, &id));
    capture.kernel = id;
    CHECK(capture_write(&capture, in_dir("cache/spool/one.kgcap")) == KG_OK);
}

/* ---- the worker --------------------------------------------------------------------------------
 */

static void work(void)
{
    int how = 0;
    pid_t child = start_worker(NULL);
    CHECK(waitpid(child, &how, 0) == child && how == 0);
}

struct found {
    unsigned variants, for_n, rejections;
    uint32_t n, blocks;
    struct kg_variant newest; /* its counts, launch and numbers only */
    struct kg_scalar scalar;
    struct kg_pointer pointers[2];
    char maker[64], gate[32], blamed[64];
};

static bool each_variant(void *self, const struct kg_variant *v, bool best)
{
    struct found *found = self;
    const struct kg_signature *s = &v->signature;
    found->variants += best;
    if (s->scalar_count && s->scalars[0].value == found->n) {
        found->for_n++;
        found->newest = *v;
        found->scalar = s->scalars[0];
        for (uint32_t i = 0; i < s->pointer_count && i < 2; i++)
            found->pointers[i] = s->pointers[i];
        snprintf(found->maker, sizeof found->maker, "%s", v->maker);
    }
    return true;
}

static bool each_rejection(void *self, const struct kg_rejection *r)
{
    struct found *found = self;
    found->rejections++;
    snprintf(found->gate, sizeof found->gate, "%s", r->gate);
    snprintf(found->blamed, sizeof found->blamed, "%s", r->maker);
    fprintf(stderr, "  %s, gate %s: %s\n", r->maker, r->gate, r->reason);
    return true;
}

static struct found look(uint32_t n)
{
    struct store *store;
    struct found found = {.n = n};
    if (!CHECK(store_open(in_dir("cache"), true, &store) == KG_OK))
        return found;
    CHECK(store_each_variant(store, each_variant, &found) == KG_OK);
    CHECK(store_each_rejection(store, each_rejection, &found) == KG_OK);
    store_close(store);
    return found;
}

/* ---- cases -------------------------------------------------------------------------------------
 */

/* Only the first launch asks a maker: then there are no replies any more. */
static void three_sizes(void)
{
    fresh_cache();
    sized_reply(in_dir("replies/1.md"), "n", "f", "n > 0");
    spool(1000, 2, 7);
    work();
    struct found found = look(1000);
    CHECK(found.variants == 1 && found.for_n == 1 && !found.rejections);
    /* only n is pinned; what is read and what written is known, to the byte */
    CHECK(found.newest.signature.scalar_count == 1 && found.scalar.param == 2 &&
          found.scalar.size == 4 && !found.scalar.span);
    CHECK(found.pointers[0].access == KG_READ && found.pointers[1].access == KG_WRITTEN);
    CHECK(found.pointers[0].low == 0 && found.pointers[0].high == 4000);
    remove_all("replies/1.md");
    for (unsigned n = 300; n <= 700; n += 400) {
        spool(n, 2, 7);
        work();
        found = look(n);
        CHECK(found.for_n == 1 && !strcmp(found.maker, "recorded") && !found.rejections);
        CHECK(found.newest.launch.grid.x == (n + 63) / 64 && found.newest.launch.block.x == 64);
        CHECK(found.pointers[1].high == 4 * n);
    }
    CHECK(found.variants == 3);
    spool(700, -5.5f, 100); /* free scalars may be anything */
    work();
    CHECK(look(700).variants == 3);
}

/* Its guard, and in the second case its code, is for one size. */
static void one_size(const char *limit, const char *guard, const char *gate)
{
    fresh_cache();
    sized_reply(in_dir("replies/1.md"), limit, "f", guard);
    spool(1000, 2, 7);
    work();
    CHECK(look(1000).variants == 1);
    remove_all("replies/1.md");
    spool(700, 2, 7);
    work();
    struct found found = look(700);
    CHECK(found.variants == 1 && !found.for_n && found.rejections == 1);
    CHECK(!strcmp(found.blamed, "known") && !strcmp(found.gate, gate));
    spool(700, 2, 7); /* not tried again */
    work();
    CHECK(look(700).rejections == 1);
}

static void knows_by_heart(void)
{
    fresh_cache();
    sized_reply(in_dir("replies/1.md"), "n", "2.0f", "n > 0");
    spool(1000, 2, 7);
    work();
    struct found found = look(1000);
    CHECK(!found.variants && found.rejections == 1 && !strcmp(found.gate, "scalars"));
    fresh_cache();
    sized_reply(in_dir("replies/1.md"), "n + (unused - 7)", "f", "n > 0");
    spool(1000, 2, 7);
    work();
    CHECK(!look(1000).variants);
    fresh_cache();
    sized_reply(in_dir("replies/1.md"), "n", "f", "unused == 7"); /* nothing may depend on it */
    spool(1000, 2, 7);
    work();
    found = look(1000);
    CHECK(!found.variants && !strcmp(found.gate, "reply"));
}

int main(int argc, char **argv)
{
    fixture_device(argv);
    if (strstr(NVCC, "NOTFOUND"))
        SKIP("no CUDA toolkit here, so replies cannot be compiled");
    if (!fresh_dir() || !CHECK(addresses(at, &hardware)))
        return test_result();
    setenv("KGENRT_REPEATS", "3", 0);
    three_sizes();
    one_size("n", "n == 1000", "reply");
    one_size("1000", "n > 0", "instrumented");
    knows_by_heart();
    remove_all("");
    return test_result();
}
