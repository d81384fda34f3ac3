/* Walks over images, and draws: what comes out is what a loop over bytes says, and the kernel that
 * walks on the GPU gives the very same bytes, on the software GPU's executor; and the replay's
 * device pins large images and walks them by the driver. */
#include "tune/draw.h"
#include "tune/draw_element.h"
#include "tune/replay_cuda.h"

#include "unit/exec_test.h"

#include <dlfcn.h>
#include <math.h>

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
    struct walk w = {.kind = (uint32_t)draw(4),
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

static struct walked sum(const struct walk *w)
{
    struct walked seen = {0, UINT64_MAX};
    for (uint64_t at = w->from & ~UINT64_C(7); at < w->to; at += 8)
        seen.count += random_word(walk_load(w->x, at), at);
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
    else if (w.kind == WALK_SUM)
        plain = sum(&w);
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

/* ---- draws -------------------------------------------------------------------------------------
 */

/* Every row, for every type of element, at each level, of buffers that lie anywhere. */
static void draw_alike(const struct draw_buffer *from, const struct draw_row *row)
{
    static unsigned char before[ROOM], here[ROOM];
    struct draw_buffer b = *from;
    struct test_call call = call_of(module, "kgenrt_draw", 2, 32, 0);
    b.floats = row->floats;
    b.integers = row->integers;
    b.indices = row->indices;
    memcpy(before, images[5], ROOM);
    draw_here(&b);
    memcpy(here, images[5], ROOM);
    memcpy(images[5], before, ROOM);
    call_add(&call, &b, sizeof b);
    call_good(&call);
    if (!CHECK(!memcmp(here, images[5], ROOM)))
        fprintf(stderr, "  %s, type %u of %u bytes, level %u\n", row->text, b.type, b.width,
                b.level);
    CHECK(row->indices == INDICES_KEEP || !b.indexed || memcmp(here, before, ROOM));
}

static void draws_agree(void)
{
    static const struct {
        enum draw_type type;
        unsigned width, bits;
        double least, most;
    } types[] = {{TYPE_WHOLE, 1, 0, 0, 0},     {TYPE_WHOLE, 2, 0, 0, 0},
                 {TYPE_WHOLE, 4, 0, 0, 0},     {TYPE_WHOLE, 8, 0, 0, 0},
                 {TYPE_F16, 2, 11, -24, 16},   {TYPE_BF16, 2, 8, -133, 128},
                 {TYPE_F32, 4, 24, -149, 128}, {TYPE_F64, 8, 53, -1074, 1024}};
    for (unsigned t = 0; t < sizeof types / sizeof *types; t++)
        for (unsigned r = 0; r < draw_row_count; r++)
            for (unsigned level = 0; level < 6; level += 3) {
                unsigned width = types[t].width, from = width * (unsigned)draw(30);
                struct draw_buffer b = {.pristine = images[0],
                                        .slack = images[2],
                                        .written = images[3],
                                        .poisoned = images[4],
                                        .image = images[5],
                                        .from = from,
                                        .count = (BYTES - from) / width - draw(9),
                                        .seed = draw(UINT64_MAX),
                                        .type = types[t].type,
                                        .width = width,
                                        .bits = types[t].bits,
                                        .indexed = draw_rows[r].flags & DRAW_INDEXED &&
                                                   types[t].type == TYPE_WHOLE,
                                        .addresses = draw(2) != 0,
                                        .level = level,
                                        .scale = level ? 0.25 : 1,
                                        .mean = 1000.5,
                                        .least = types[t].least,
                                        .most = types[t].most,
                                        .one_sign = -INFINITY,
                                        .one_in = 1 + draw(40),
                                        .step = 7,
                                        .shift = draw(100),
                                        .low = draw(50),
                                        .high = 1000 + draw(50),
                                        .beyond = 13,
                                        .span_count = 1,
                                        .spans = {{draw(UINT64_MAX), UINT64_MAX / 16}}};
                refill();
                draw_alike(&b, &draw_rows[r]);
            }
}

/* What types can be: that the text of elements keeps to them is what the host's own conversions
 * say. */
static void halves(void)
{
    for (unsigned i = 0; i < 200000; i++) {
        double value = draw_spread(random_word(3, i), -27, 17);
        unsigned char bytes[8];
        uint16_t half;
        element_put(bytes, 0, ELEMENT_F16, value);
        memcpy(&half, bytes, 2);
        if (!CHECK(half == draw_encode(TYPE_F16, value, 0)))
            return;
        element_put(bytes, 0, ELEMENT_BF16, value);
        memcpy(&half, bytes, 2);
        if (!CHECK(half == draw_encode(TYPE_BF16, value, 0)))
            return;
    }
    for (int x = -1074; x < 1024; x++)
        CHECK(draw_bits(draw_power(x)) == draw_bits(ldexp(1, x)));
    for (unsigned i = 0; i < 1000; i++) {
        double x = -1000 + 2000 * draw_unit(random_word(4, i));
        CHECK(fabs(draw_power(x) / exp2(x) - 1) < 1e-4);
    }
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
    bool same = false;
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
    struct draw_buffer drawn = {.pristine = memory.pristine,
                                .slack = memory.slack,
                                .written = memory.written,
                                .poisoned = memory.poisoned,
                                .image = memory.work,
                                .from = 64,
                                .count = 1 << 18,
                                .seed = 5,
                                .width = 4,
                                .one_in = 1};
    CHECK(cuda_draw(&cuda.device, &drawn) == KG_OK);
    drawn.image = memory.other;
    draw_here(&drawn);
    CHECK(!memcmp(memory.work, memory.other, memory.total));
    /* from the device's copies, of which the host's image is no more */
    CHECK(cuda_settled(&cuda.device, &same) == KG_OK && same);
    CHECK(cuda_settle(&cuda.device) == KG_OK);
    CHECK(cuda_settled(&cuda.device, &same) == KG_OK && same);
    memory.pristine[memory.total - 600] ^= 0xff;
    CHECK(cuda_settled(&cuda.device, &same) == KG_OK && !same);
    CHECK(cuda_draw(&cuda.device, &drawn) == KG_OK);
    w = (struct walk){.kind = WALK_SUM, .x = memory.pristine, .from = w.from, .to = memory.total};
    CHECK(cuda_walk(&cuda.device, &w, &seen) == KG_OK);
    uint64_t there = seen.count;
    walk_here(&w, &seen);
    CHECK(seen.count != there);
    memory.pristine[memory.total - 600] ^= 0xff;
    walk_here(&w, &seen);
    CHECK(seen.count == there);
    w = (struct walk){.kind = WALK_MIX, .x = memory.work, .out = memory.poisoned};
    w.to = memory.total;
    CHECK(cuda_walk(&cuda.device, &w, &seen) == KG_UNSUPPORTED);
    /* memory as it stands: one extent, elsewhere */
    struct replay_extent extent = {.size = memory.total};
    CHECK(real.cuMemAlloc_v2((CUdeviceptr *)&extent.address, memory.total) == CUDA_SUCCESS);
    CHECK(real.cuMemcpyHtoD_v2(extent.address, memory.work, memory.total) == CUDA_SUCCESS);
    memory.extents = &extent;
    memory.extent_count = 1;
    CHECK(cuda_holds(&cuda.device, memory.other, &same) == KG_OK && same);
    memory.other[memory.total - 1] ^= 1;
    CHECK(cuda_holds(&cuda.device, memory.other, &same) == KG_OK && !same);
    extent.size -= 4;
    CHECK(cuda_holds(&cuda.device, memory.other, &same) == KG_UNSUPPORTED);
    memory.extents = NULL;
    memory.extent_count = 0;
    drawn.from++;
    CHECK(cuda_draw(&cuda.device, &drawn) == KG_UNSUPPORTED);
    cuda.walks = false; /* a walk has failed: nobody knows what copies have told */
    CHECK(cuda_settled(&cuda.device, &same) == KG_DRIVER);
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
    if (module)
        draws_agree();
    exec_module_destroy(module);
    halves();
    by_the_driver();
    test_free_all();
    return test_result();
}
