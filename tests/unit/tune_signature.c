/* Signatures by analysis: which scalars of hand-written kernels stay pinned, what their pointers
 * reach, and that what cannot be believed changes nothing; then every kernel of the corpus, with
 * the software GPU as the judge: what is said not to be read has no influence, what is said to be
 * read only is not written, and nothing is written beyond what is said to be reached. */
#include "tune/tune.h"

#include <stdlib.h>
#include <string.h>

#include "ptx/corpus.h"
#include "test.h"

enum { REGIONS = 12 };

struct fixture {
    struct job job;
    struct kg_param params[64];
    struct capture_region regions[REGIONS];
    struct capture_pointer pointers[REGIONS];
    unsigned char args[CORPUS_PARAM_BYTES];
};

static void fixture_free(struct fixture *f)
{
    signature_free(&f->job.signature);
    arena_free(&f->job.arena);
}

/* After args, params, regions and pointers are there. */
static bool narrow(struct fixture *f, const char *ptx, const char *entry, struct kg_launch launch,
                   uint32_t params, uint32_t size, uint32_t pointers)
{
    struct kg_capture *c = &f->job.capture;
    c->launch = launch;
    c->params = f->params;
    c->param_count = params;
    c->args = (struct kg_bytes){f->args, size};
    c->regions = f->regions;
    c->region_count = pointers;
    c->pointers = f->pointers;
    c->pointer_count = pointers;
    f->job.image.ptx = (struct kg_bytes){(unsigned char *)(uintptr_t)ptx, strlen(ptx)};
    f->job.model.entry = entry;
    return CHECK(capture_signature(c, &f->job.signature) == KG_OK) &&
           CHECK(signature_narrow(&f->job) == KG_OK) &&
           CHECK(signature_holds(&f->job.signature, c));
}

/* ---- hand-written ------------------------------------------------------------------------------
 */

/* k(x, y, n, a, { int used; int pad; short late; }, w): the body says what is done with them. */
static const char *text_of(const char *body)
{
    static char text[4096];
    snprintf(
        text, sizeof text,
        ".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 x,\n"
        ".param .u64 y, .param .u32 n, .param .f32 a, .param .align 4 .b8 s[12],\n"
        ".param .u64 w) {\n.reg .b64 %%rd<20>; .reg .b32 %%r<20>; .reg .f32 %%f<20>;\n"
        ".reg .pred %%p<4>;\nld.param.u64 %%rd1, [x]; ld.param.u64 %%rd2, [y];\n"
        "ld.param.u32 %%r1, [n]; ld.param.f32 %%f1, [a];\n"
        "cvta.to.global.u64 %%rd3, %%rd1; cvta.to.global.u64 %%rd4, %%rd2;\n"
        "mov.u32 %%r2, %%tid.x; mov.u32 %%r3, %%ctaid.x; mov.u32 %%r4, %%ntid.x;\n"
        "mad.lo.s32 %%r5, %%r3, %%r4, %%r2; ld.global.f32 %%f9, [%%rd3];\n%s\nDONE:\nret;\n}\n",
        body);
    return text;
}

static const char axpy[] =
    "setp.ge.s32 %p1, %r5, %r1; @%p1 bra DONE; mul.wide.s32 %rd5, %r5, 4;\n"
    "add.s64 %rd6, %rd3, %rd5; add.s64 %rd7, %rd4, %rd5; ld.global.f32 %f2, [%rd6];\n"
    "ld.param.s32 %r6, [s]; cvt.rn.f32.s32 %f4, %r6; fma.rn.f32 %f3, %f1, %f2, %f4;\n"
    "st.global.f32 [%rd7], %f3;";
enum { X = 0, Y = 8, N = 16, A = 20, S = 24, W = 40, ARGS = 48 };

static void begin(struct fixture *f, uint64_t x, uint64_t y)
{
    static const struct kg_param params[] = {{X, 8}, {Y, 8}, {N, 4}, {A, 4}, {S, 12}, {W, 8}};
    const uint32_t n = 100;
    const float a = 2.5f;
    *f = (struct fixture){.job = {.dir = ""}};
    memcpy(f->params, params, sizeof params);
    memset(f->args, 0x11, ARGS);
    memcpy(f->args + X, &x, 8);
    memcpy(f->args + Y, &y, 8);
    memcpy(f->args + N, &n, 4);
    memcpy(f->args + A, &a, 4);
    /* one large allocation, and all of it captured: a framework's pool */
    for (unsigned i = 0; i < 2; i++) {
        f->regions[i] = (struct capture_region){.address = i ? y : x,
                                                .size = 0x200000 - (i ? y : x),
                                                .allocation = 0x100000,
                                                .allocation_size = 0x100000};
        f->pointers[i] = (struct capture_pointer){.param = (uint16_t)i, .region = i};
    }
}

static bool run(struct fixture *f, const char *body)
{
    return narrow(f, text_of(body), "k", (struct kg_launch){{1, 1, 1}, {128, 1, 1}, 0}, 6, ARGS, 2);
}

static bool pinned(const struct fixture *f, uint32_t at)
{
    const struct kg_signature *s = &f->job.signature;
    for (uint32_t i = 0; i < s->scalar_count; i++) {
        uint32_t from = f->params[s->scalars[i].param].offset + s->scalars[i].offset;
        if (at >= from && at < from + s->scalars[i].size)
            return true;
    }
    return false;
}

static char free_as(const struct fixture *f, uint32_t at)
{
    for (uint32_t i = 0; i < f->job.free_count; i++)
        if (at >= f->job.free[i].at && at < f->job.free[i].at + f->job.free[i].size)
            return (char)f->job.free[i].type;
    return 0;
}

static void scalars(void)
{
    struct fixture f;
    begin(&f, 0x110000, 0x120000);
    if (!run(&f, axpy))
        return;
    const struct kg_signature *s = &f.job.signature;
    CHECK(s->scalar_count == 1 && pinned(&f, N) && s->scalars[0].value == 100);
    CHECK(free_as(&f, A) == FREE_FLOAT && free_as(&f, S) == FREE_INT);
    CHECK(free_as(&f, S + 4) == FREE_UNREAD && free_as(&f, S + 11) == FREE_UNREAD);
    CHECK(free_as(&f, W) == FREE_UNREAD && !free_as(&f, N) && !free_as(&f, X));
    CHECK(s->pointers[0].access == KG_READ && s->pointers[1].access == KG_WRITTEN);
    CHECK(s->pointers[0].low == 0 && s->pointers[0].high == 400 && s->pointers[1].high == 400);
    CHECK(!s->overlap_count); /* in one allocation, and apart */
    /* other values of what is free, other pointers: the guard holds; of n, or over each other: not
     */
    memset(f.args + A, 0x7f, 4);
    memset(f.args + S, 0x22, 12);
    CHECK(signature_holds(s, &f.job.capture));
    f.args[N]++;
    CHECK(!signature_holds(s, &f.job.capture) && !signature_alike(s, &f.job.capture));
    f.args[N]--;
    uint64_t y = 0x110000 + 256;
    memcpy(f.args + Y, &y, 8);
    CHECK(!signature_holds(s, &f.job.capture));
    CHECK(signature_alike(s, &f.job.capture) == (s->pointers[1].align <= 256));
    y = 0x110000 + 512;
    memcpy(f.args + Y, &y, 8);
    CHECK(signature_holds(s, &f.job.capture) == (s->pointers[1].align <= 256));
    f.job.capture.launch.shared = 1;
    CHECK(!signature_holds(s, &f.job.capture));
    fixture_free(&f);
}

/* Pinned for what they are used for, and once more with all of them pinned for what they are not.
 */
static void kept(void)
{
    static const struct {
        const char *body;
        bool a, s, w;
    } cases[] = {
        {"setp.gt.f32 %p1, %f1, 0f00000000; @%p1 bra DONE; st.global.f32 [%rd4], %f1;", true, false,
         false},
        {"ld.param.s32 %r6, [s]; mul.wide.s32 %rd5, %r6, 4; add.s64 %rd6, %rd4, %rd5;\n"
         "st.global.f32 [%rd6], %f1;",
         false, true, false},
        {"ld.param.u64 %rd8, [w]; cvt.u32.u64 %r6, %rd8; shl.b32 %r7, %r1, %r6;\n"
         "st.global.u32 [%rd4], %r7;",
         false, false, true},
        {"cvt.rzi.s32.f32 %r6, %f1; mul.wide.s32 %rd5, %r6, 4; add.s64 %rd6, %rd4, %rd5;\n"
         "st.global.u32 [%rd6], %r1;",
         true, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fixture f;
        begin(&f, 0x110000, 0x120000);
        if (run(&f, cases[i].body) &&
            (!CHECK(pinned(&f, A) == cases[i].a) || !CHECK(pinned(&f, S) == cases[i].s) ||
             !CHECK(pinned(&f, W) == cases[i].w)))
            fprintf(stderr, "  of %s\n", cases[i].body);
        fixture_free(&f);
    }
}

static bool all_pinned(const struct fixture *f)
{
    for (uint32_t at = N; at < ARGS; at++)
        if (!pinned(f, at) && at != S + 12 && at != S + 13 && at != S + 14 && at != S + 15)
            return false; /* those four are between the parameters */
    return !f->job.free_count;
}

static void distrusted(void)
{
    struct fixture f;
    begin(&f, 0x110000, 0x110000); /* in place */
    if (run(&f, axpy))
        CHECK(all_pinned(&f) && f.job.signature.overlap_count == 1 &&
              f.job.signature.overlaps[0].delta == 0);
    fixture_free(&f);
    begin(&f, 0x110000, 0x110004); /* one element on */
    if (run(&f, axpy))
        CHECK(all_pinned(&f) && f.job.signature.overlaps[0].delta == 4);
    fixture_free(&f);
    begin(&f, 0x110000, 0x120000); /* machine code that was made for another architecture */
    f.job.image.machine_code = true;
    f.job.image.sm = 80;
    if (run(&f, axpy))
        CHECK(all_pinned(&f) && !f.job.signature.pointers[0].access &&
              f.job.signature.pointers[0].high == 0xf0000);
    fixture_free(&f);
    begin(&f, 0x110000, 0x120000);
    f.job.image.machine_code = true;
    f.job.image.sm = 90;
    if (run(&f, axpy))
        CHECK(!all_pinned(&f));
    fixture_free(&f);
    begin(&f, 0x110000, 0x120000); /* an address out of memory may lead anywhere */
    if (run(&f, "ld.global.u64 %rd5, [%rd3]; st.global.f32 [%rd5], %f1;"))
        CHECK(!f.job.signature.pointers[0].access && !f.job.signature.pointers[1].access &&
              f.job.signature.pointers[1].high == 0xe0000);
    fixture_free(&f);
    begin(&f, 0x110000, 0x120000); /* no PTX that can be read */
    if (narrow(&f, "garbage", "k", (struct kg_launch){{1, 1, 1}, {128, 1, 1}, 0}, 6, ARGS, 2))
        CHECK(all_pinned(&f));
    fixture_free(&f);
}

/* Two that are read only may overlap, in the capture and later. */
static void read_only(void)
{
    struct fixture f;
    begin(&f, 0x110000, 0x110040);
    if (run(&f, "mul.wide.s32 %rd5, %r5, 4; add.s64 %rd6, %rd3, %rd5; add.s64 %rd7, %rd4, %rd5;\n"
                "ld.global.f32 %f2, [%rd6]; ld.global.f32 %f3, [%rd7]; add.f32 %f4, %f2, %f3;\n"
                "mov.b32 %r8, %f4; setp.eq.s32 %p1, %r8, 77; @%p1 bra DONE;")) {
        CHECK(!f.job.signature.overlap_count && f.job.signature.pointers[1].access == KG_READ);
        uint64_t y = 0x110000;
        memcpy(f.args + Y, &y, 8);
        CHECK(signature_holds(&f.job.signature, &f.job.capture));
    }
    fixture_free(&f);
}

/* ---- pinning again -----------------------------------------------------------------------------
 */

static void pinning(void)
{
    struct fixture f;
    struct kg_signature s;
    bool unshown[FREE_PIECES] = {false};
    begin(&f, 0x110000, 0x120000);
    if (!run(&f, axpy))
        return;
    CHECK(signature_pinning(&f.job, unshown, &s) == KG_OK && s.scalar_count == 1);
    free(s.scalars);
    memset(unshown, true, sizeof unshown);
    CHECK(signature_pinning(&f.job, unshown, &s) == KG_OK && signature_holds(&s, &f.job.capture));
    static const uint32_t places[] = {A, A + 3, S, S + 4, S + 11, W, W + 7, N};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        f.args[places[i]] ^= 1;
        CHECK(!signature_holds(&s, &f.job.capture));
        f.args[places[i]] ^= 1;
    }
    CHECK(signature_holds(&s, &f.job.capture));
    free(s.scalars);
    fixture_free(&f);
}

/* ---- the corpus --------------------------------------------------------------------------------
 */

static unsigned opened, judged, frees, unread, only_read, reached;

static bool fill(struct fixture *f, struct corpus_case *c)
{
    *f = (struct fixture){.job = {.dir = ""}};
    if (c->func->param_count > 64 || c->pointer_count > REGIONS)
        return false;
    for (uint32_t i = 0; i < c->func->param_count; i++)
        f->params[i] =
            (struct kg_param){c->func->params[i]->offset, (uint32_t)c->func->params[i]->size};
    memcpy(f->args, c->params, sizeof f->args);
    for (uint32_t i = 0; i < c->pointer_count; i++) {
        const struct corpus_buffer *p = &c->pointers[i];
        f->regions[i] = (struct capture_region){
            .address = p->base, .size = p->size, .allocation = p->base, .allocation_size = p->size};
        f->pointers[i] = (struct capture_pointer){
            .param = (uint16_t)p->param, .offset = (uint16_t)p->offset, .region = i};
    }
    return true;
}

static const struct kg_pointer *pointer_of(const struct fixture *f, const struct corpus_buffer *b)
{
    for (uint32_t i = 0; i < f->job.signature.pointer_count; i++)
        if (f->job.signature.pointers[i].param == b->param &&
            f->job.signature.pointers[i].offset == b->offset)
            return &f->job.signature.pointers[i];
    return NULL;
}

/* No byte of a buffer that is said to be read only, or that no pointer reaches, has changed. */
static bool writes_kept(const struct fixture *f, const struct corpus_case *c,
                        unsigned char **before)
{
    for (uint32_t b = 0; b < c->buffer_count; b++) {
        const unsigned char *now = (const unsigned char *)(uintptr_t)c->buffers[b].base;
        for (uint64_t at = 0; at < c->buffers[b].size; at++) {
            bool may = now[at] == before[b][at];
            for (uint32_t i = 0; i < c->pointer_count && !may; i++) {
                const struct kg_pointer *p = pointer_of(f, &c->pointers[i]);
                uint64_t from = c->buffers[b].base + at - c->pointers[i].value;
                may = p && pointer_written(p) && (int64_t)from >= p->low && (int64_t)from < p->high;
            }
            if (!may)
                return false;
        }
    }
    return true;
}

/* Changes what is free, or of that what is not read only. */
static void scramble(const struct fixture *f, struct corpus_case *c, bool all)
{
    for (uint32_t i = 0; i < f->job.free_count; i++)
        for (uint32_t k = 0; k < f->job.free[i].size; k++)
            if (all || f->job.free[i].type == FREE_UNREAD)
                c->params[f->job.free[i].at + k] ^= (unsigned char)(0x5a + k);
}

static void count(const struct fixture *f)
{
    judged++;
    for (uint32_t i = 0; i < f->job.free_count; i++)
        *(f->job.free[i].type == FREE_UNREAD ? &unread : &frees) += 1;
    for (uint32_t i = 0; i < f->job.signature.pointer_count; i++) {
        const struct kg_pointer *p = &f->job.signature.pointers[i];
        only_read += p->access == KG_READ;
        reached += p->access && (p->low || p->high != (int64_t)f->regions[i].size);
    }
}

/* One run from the same bytes, with the parameters as they stand. True: it ended, and wrote nothing
 * but what it may. */
static bool run_case(const struct fixture *f, struct corpus_case *c, uint64_t *hash)
{
    const struct exec_config config = {.threads = 1};
    unsigned char *before[CORPUS_ARGS] = {NULL}, params[CORPUS_PARAM_BYTES];
    struct exec_result result;
    memcpy(params, c->params, sizeof params);
    corpus_fill(c, 5); /* fills in the row's parameters, too */
    memcpy(c->params, params, sizeof params);
    for (uint32_t b = 0; b < c->buffer_count; b++) {
        before[b] = malloc(c->buffers[b].size + 1);
        memcpy(before[b], (const void *)(uintptr_t)c->buffers[b].base, c->buffers[b].size);
    }
    corpus_run(c, NULL, &config, &result);
    *hash = corpus_hash(c);
    bool kept = result.fault == EXEC_OK && writes_kept(f, c, before);
    for (uint32_t b = 0; b < c->buffer_count; b++)
        free(before[b]);
    return kept;
}

static void judge(struct fixture *f, struct corpus_case *c)
{
    uint64_t hash, other, any;
    bool kept = run_case(f, c, &hash);
    scramble(f, c, false);
    kept &= run_case(f, c, &other);
    scramble(f, c, false);
    scramble(f, c, true);
    kept &= run_case(f, c, &any);
    count(f);
    if (!CHECK(kept) || !CHECK(other == hash || c->entry->traits & (CORPUS_RACES | CORPUS_ORDER)))
        fprintf(stderr, "  of %s %s\n", c->entry->file, c->entry->entry);
}

static void corpus_all(void)
{
    struct fixture f;
    for (unsigned i = 0; i < corpus_count; i++) {
        struct corpus_case c;
        if (corpus[i].traits & (CORPUS_CLOCK | CORPUS_SPINS | CORPUS_UNRUN | CORPUS_FAULTS) ||
            !corpus_open(&corpus[i], &c))
            continue;
        opened++;
        corpus_fill(&c, 5);
        if (fill(&f, &c) && narrow(&f, (char *)c.text.data, c.entry->entry, c.entry->launch,
                                   c.func->param_count, c.param_bytes, c.pointer_count))
            judge(&f, &c);
        fixture_free(&f);
        corpus_close(&c);
    }
    fprintf(stderr,
            "%u kernels, %u judged: %u free scalars, %u pieces not read, %u pointers read "
            "only, %u with another reach than their buffer\n",
            opened, judged, frees, unread, only_read, reached);
    CHECK(judged > 20 && frees > 5 && unread > 0 && only_read > 20 && reached > 5);
}

int main(void)
{
    scalars();
    kept();
    distrusted();
    read_only();
    pinning();
    corpus_all();
    return test_result();
}
