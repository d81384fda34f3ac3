/* Walks over images: what comes out is what a loop over bytes says, and the kernel that walks on
 * the GPU gives the very same bytes, on the software GPU's executor; and the replay's device pins
 * large images and walks them by the driver. */
#include "tune/replay_cuda.h"

#include "unit/exec_test.h"

#include <dlfcn.h>

#include "tune/walk_device.inc"

enum { BYTES = 2048, IMAGES = 6, ROOM = BYTES + 8, ROUNDS = 300 };

static struct exec_module *module;
static unsigned char *images[IMAGES]; /* x, y, three masks, out */
static uint64_t walked;
static unsigned long draws;

static uint64_t draw(uint64_t below)
{
    return random_word(17, draws++) % below;
}

/* Masks in runs of bytes, longer and shorter than a word. */
static void refill(void)
{
    for (unsigned image = 0; image < IMAGES; image++)
        for (unsigned at = 0; at < ROOM; at++)
            images[image][at] = (unsigned char)draw(256);
    for (unsigned image = 2; image < 5; image++)
        for (unsigned at = 0, run; at < ROOM; at += run) {
            run = 1 + (unsigned)draw(draw(2) ? 40 : 5);
            memset(images[image] + at, draw(2) ? 255 : 0, run < ROOM - at ? run : ROOM - at);
        }
    for (unsigned at = 0; at < ROOM; at += 3) /* mostly alike */
        memcpy(images[1] + at, images[0] + at, ROOM - at < 2 ? 1 : 2);
}

static struct walk random_walk(void)
{
    struct walk w = {.kind = (uint32_t)draw(3),
                     .source = (uint32_t)draw(4),
                     .x = draw(6) ? images[0] : images[5],
                     .y = images[1],
                     .out = images[5],
                     .invert = (uint32_t)draw(8),
                     .seed = draw(1000),
                     .flip = draw(2) ? UINT64_MAX : 0,
                     .pattern = {draw(UINT64_MAX), draw(UINT64_MAX)},
                     .from = draw(2) ? 0 : draw(300),
                     .to = draw(2) ? BYTES : BYTES - draw(300)};
    for (unsigned i = 0; i < 3; i++)
        w.masks[i] = draw(3) || (w.kind == WALK_NUDGE && i < 2) ? images[2 + i] : NULL;
    if (w.kind == WALK_MIX) {
        w.x = draw(6) ? w.x : NULL;
        w.shift = w.source == WALK_IMAGE && w.from % 4 == 0 && !draw(3) ? 68 : 0;
        w.to -= w.shift ? w.to % 8 : 0;
        w.one_in = draw(2) ? 0 : 2 + draw(5);
        w.skip = 4 * draw(10);
    }
    if (w.kind == WALK_DIFFER)
        w.y = draw(4) ? w.y : NULL;
    w.written = (uint32_t)draw(2);
    w.halves = (uint32_t)draw(2);
    w.span_count = (uint32_t)draw(3);
    for (uint32_t i = 0; i < w.span_count; i++) /* about every eighth word of 8 bytes */
        w.spans[i] = (struct walk_span){draw(UINT64_MAX), UINT64_MAX / 16};
    return w;
}

/* ---- a byte at a time --------------------------------------------------------------------------
 */

static bool masked(const struct walk *w, uint64_t at)
{
    bool all = true;
    for (unsigned i = 0; i < 3; i++)
        if (w->masks[i])
            all &= (w->masks[i][at] != 0) != (w->invert >> i & 1);
    return all;
}

static void mix(const struct walk *w, unsigned char *out)
{
    for (uint64_t at = w->from; at < w->to; at++) {
        uint64_t word = walk_poison(w->seed, at & ~UINT64_C(7)) ^ w->flip;
        bool takes = masked(w, at);
        out[at] = w->x ? w->x[at] : 0xff;
        if (w->one_in)
            takes &= at / 4 != w->skip / 4 && random_word(w->seed, at / 4) % w->one_in != 0;
        if (w->shift)
            takes &= at + w->shift < w->to && masked(w, at + w->shift);
        if (takes)
            out[at] = w->source == WALK_IMAGE    ? w->y[at + w->shift]
                      : w->source == WALK_POISON ? (unsigned char)(word >> 8 * (at % 8))
                      : w->source == WALK_PATTERN
                          ? (unsigned char)(w->pattern[at / 8 % 2] >> 8 * (at % 8))
                          : 0;
    }
}

static struct walked differ(const struct walk *w)
{
    struct walked seen = {0, UINT64_MAX};
    for (uint64_t at = w->from; at < w->to; at++) {
        if (w->x[at] == (w->y ? w->y[at] : 0) || !masked(w, at))
            continue;
        seen.first = seen.count++ ? seen.first : at;
    }
    return seen;
}

static bool any(const unsigned char *mask, uint64_t at)
{
    return mask[at] || mask[at + 1] || mask[at + 2] || mask[at + 3];
}

static void nudge(const struct walk *w, unsigned char *out)
{
    for (uint64_t at = (w->from + 3) & ~UINT64_C(3); at + 4 <= w->to; at += 4) {
        uint64_t word, pair = at & ~UINT64_C(7), chance = random_word(w->seed, pair);
        bool writes = any(w->masks[0], at), address = false;
        memcpy(&word, w->x + pair, 8);
        for (uint32_t i = 0; i < w->span_count; i++)
            address |= word - w->spans[i].low <= w->spans[i].size;
        if (writes != (w->written != 0) || (!writes && !any(w->masks[1], at)) || address ||
            (w->masks[2] && w->masks[2][at]) || (w->halves && !(chance >> (at != pair) & 1)))
            continue;
        out[at] ^= 1;
    }
}

/* ---- all three ---------------------------------------------------------------------------------
 */

static void on_gpu(const struct walk *w, struct walked *seen)
{
    struct walked *all = (struct walked *)walked;
    struct test_call call = call_of(module, "kgenrt_walk", 2, 32, 0);
    *all = (struct walked){0, UINT64_MAX};
    call_add(&call, w, sizeof *w);
    ARG(&call, uint64_t, walked);
    if (!CHECK(call_run(&call) == EXEC_OK))
        fprintf(stderr, "%s\n", call.result.text);
    *seen = *all;
}

static void agree(void)
{
    static unsigned char before[ROOM], bytes[ROOM], words[ROOM];
    refill();
    const struct walk w = random_walk();
    struct walked plain = {0, UINT64_MAX}, here, there;
    memcpy(before, images[5], ROOM);
    walk_here(&w, &here);
    memcpy(words, images[5], ROOM);
    memcpy(images[5], before, ROOM);
    on_gpu(&w, &there);
    CHECK(!memcmp(words, images[5], ROOM));
    CHECK(here.count == there.count && here.first == there.first);
    memcpy(images[5], before, ROOM);
    memcpy(bytes, before, ROOM);
    if (w.kind == WALK_MIX)
        mix(&w, bytes);
    else if (w.kind == WALK_DIFFER)
        plain = differ(&w);
    else
        nudge(&w, bytes);
    /* around it, in the same words, stands x */
    for (uint64_t at = w.from; at < w.to; at++)
        if (!CHECK(bytes[at] == words[at])) {
            fprintf(stderr, "  kind %u, source %u, at %lu of [%lu, %lu): %02x, not %02x\n", w.kind,
                    w.source, (unsigned long)at, (unsigned long)w.from, (unsigned long)w.to,
                    words[at], bytes[at]);
            return;
        }
    CHECK(here.count == plain.count && here.first == plain.first);
}

/* ---- by the driver -----------------------------------------------------------------------------
 */

static void by_the_driver(void)
{
    struct kg_capture capture = {0};
    struct replay_memory memory = {.capture = &capture, .total = 4 << 20};
    static struct cuda cuda;
    CUcontext context;
    struct walked seen;
    unsigned char outside[8];
    cuda.memory = &memory;
    if (!CHECK(dlopen(BUILD_DIR "/softgpu/libcuda.so.1", RTLD_NOW)) ||
        !CHECK(real_open(NULL) == KG_OK) || !CHECK(real.cuInit(0) == CUDA_SUCCESS) ||
        !CHECK(real.cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS) ||
        !CHECK(real.cuCtxSetCurrent(context) == CUDA_SUCCESS) ||
        !CHECK(real.cuStreamCreate(&cuda.stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS) ||
        !CHECK(memory_create(&memory) == KG_OK))
        return;
    struct walk w = {.kind = WALK_MIX,
                     .source = WALK_POISON,
                     .x = memory.pristine,
                     .out = memory.work,
                     .masks = {memory.poisoned},
                     .seed = 6,
                     .from = memory.total - (1 << 20),
                     .to = memory.total};
    memset(memory.poisoned + memory.total - 1000, 0xff, 500);
    CHECK(cuda_walk(&cuda.device, &w, &seen) == KG_UNSUPPORTED); /* not pinned */
    cuda_pin(&cuda.device);
    CHECK(cuda.walks && cuda.pinned == CUDA_IMAGES);
    CHECK(cuda_walk(&cuda.device, &w, &seen) == KG_OK && !seen.count);
    w.out = memory.other;
    walk_here(&w, &seen);
    CHECK(!memcmp(memory.work, memory.other, memory.total));
    CHECK(memory.work[memory.total - 700] || memory.work[memory.total - 701]);
    w = (struct walk){.kind = WALK_DIFFER, .x = memory.work, .from = w.from, .to = w.to};
    CHECK(cuda_walk(&cuda.device, &w, &seen) == KG_OK);
    CHECK(seen.count > 400 && seen.count <= 500 && seen.first >= memory.total - 1000 &&
          seen.first < memory.total - 900);
    w.y = outside;
    CHECK(cuda_walk(&cuda.device, &w, &seen) == KG_UNSUPPORTED);
    w.y = NULL, w.to = memory.total + 8;
    CHECK(cuda_walk(&cuda.device, &w, &seen) == KG_UNSUPPORTED);
    cuda_unpin(&cuda);
    memory_free(&memory);
}

int main(void)
{
    for (unsigned i = 0; i < IMAGES; i++)
        images[i] = (unsigned char *)(uintptr_t)test_alloc(ROOM, 256);
    walked = test_alloc(sizeof(struct walked), 256);
    module = module_of(walk_ptx);
    for (unsigned round = 0; CHECK(module) && round < ROUNDS; round++)
        agree();
    exec_module_destroy(module);
    by_the_driver();
    test_free_all();
    return test_result();
}
