/* Instrumented launches of either side: what it touches, whether that is allowed, whether accesses
 * conflict. Nobody has to trust the code that runs here: an access outside of what was captured is
 * reported and not performed, and a thread ends when its budget is spent. The text is made from the
 * side's PTX (of an original: the entry that the driver would select), and compiled by the driver.
 */
#include "tune/parallel.h"
#include "tune/replay_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that the side may touch, and where their masks stand in an image. */
struct watched {
    uint64_t address, size;
    size_t at; /* NO_IMAGE: a table of the side's own */
    unsigned rights;
};

enum { READ_WRITE = INSTRUMENT_READ | INSTRUMENT_WRITE, MOST_PTX = 64 << 20 };
#define NO_IMAGE SIZE_MAX

struct watch {
    uint32_t count, room;
    struct watched *list;
};

static kg_status watch_add(struct watch *watch, struct watched one)
{
    if (!one.size)
        return KG_OK;
    if (watch->count == watch->room) {
        uint32_t room = watch->room ? 2 * watch->room : 16;
        struct watched *more = realloc(watch->list, room * sizeof *more);
        if (!more)
            return KG_NO_MEMORY;
        watch->list = more;
        watch->room = room;
    }
    watch->list[watch->count++] = one;
    return KG_OK;
}

static unsigned rights_of(const struct cuda *cuda, enum side side, size_t at, size_t size)
{
    if (side == ORIGINAL || memchr(cuda->memory->written + at, 0xff, size))
        return READ_WRITE;
    return INSTRUMENT_READ;
}

/* Captured intervals: the runs of an extent that are no red zone. */
static kg_status watch_extent(const struct cuda *cuda, enum side side,
                              const struct replay_extent *extent, struct watch *watch)
{
    const unsigned char *slack = cuda->memory->slack + extent->at;
    const unsigned char *end = slack + extent->size, *from = slack;
    kg_status status = KG_OK;
    while (status == KG_OK && (from = memchr(from, 0, (size_t)(end - from)))) {
        const unsigned char *to = memchr(from, 0xff, (size_t)(end - from));
        size_t size = (size_t)((to ? to : end) - from), offset = (size_t)(from - slack);
        status =
            watch_add(watch, (struct watched){extent->address + offset, size, extent->at + offset,
                                              rights_of(cuda, side, extent->at + offset, size)});
        from += size;
    }
    return status;
}

static bool is_constant(const struct kernel_model *model, const char *name)
{
    for (uint32_t i = 0; i < model->global_count; i++)
        if (!strcmp(model->globals[i].name, name))
            return model->globals[i].constant;
    return false;
}

/* The original's instrumented code has variables of its own, at other addresses than its extents.
 */
static bool own_variable(const struct cuda *cuda, const struct observer *observer,
                         const struct replay_extent *extent, CUdeviceptr *at)
{
    size_t size = 0;
    return real.cuModuleGetGlobal_v2(at, &size, observer->module,
                                     cuda->capture->regions[extent->region].name) == CUDA_SUCCESS &&
           size >= extent->size;
}

static kg_status watch_variable(const struct cuda *cuda, enum side side,
                                const struct observer *observer, const struct replay_extent *extent,
                                struct watch *watch)
{
    CUdeviceptr at = extent->address;
    const char *name = cuda->capture->regions[extent->region].name;
    if (side == ORIGINAL && (is_constant(&cuda->texts[ORIGINAL].model, name) ||
                             !own_variable(cuda, observer, extent, &at)))
        return KG_OK;
    return watch_add(watch, (struct watched){at, extent->size, extent->at,
                                             rights_of(cuda, side, extent->at, extent->size)});
}

/* Tables that the side brings along. */
static kg_status watch_own(const struct cuda *cuda, enum side side, const struct observer *observer,
                           struct watch *watch)
{
    const struct kernel_model *model = &cuda->texts[side].model;
    const struct kg_capture *capture = cuda->capture;
    kg_status status = KG_OK;
    for (uint32_t i = 0; i < model->global_count && status == KG_OK; i++) {
        CUdeviceptr at;
        size_t size;
        uint32_t r = 0;
        while (side == ORIGINAL && r < capture->region_count &&
               (capture->regions[r].kind != CAPTURE_GLOBAL ||
                strcmp(capture->regions[r].name, model->globals[i].name)))
            r++;
        bool captured = side == ORIGINAL && r < capture->region_count;
        if (captured || model->globals[i].constant ||
            real.cuModuleGetGlobal_v2(&at, &size, observer->module, model->globals[i].name) !=
                CUDA_SUCCESS)
            continue;
        status =
            watch_add(watch, (struct watched){at, size, NO_IMAGE,
                                              side == ORIGINAL ? READ_WRITE : INSTRUMENT_READ});
    }
    return status;
}

static kg_status watch_all(const struct cuda *cuda, enum side side, const struct observer *observer,
                           struct watch *watch)
{
    const struct replay_memory *memory = cuda->memory;
    kg_status status = KG_OK;
    for (uint32_t i = 0; i < memory->extent_count && status == KG_OK; i++)
        status = memory->extents[i].global
                     ? watch_variable(cuda, side, observer, &memory->extents[i], watch)
                     : watch_extent(cuda, side, &memory->extents[i], watch);
    return status == KG_OK ? watch_own(cuda, side, observer, watch) : status;
}

/* ---- the code ----------------------------------------------------------------------------------
 */

static kg_status read_text(struct cuda *cuda, enum side side)
{
    const struct kg_capture *capture = cuda->capture;
    const struct replay_request *request = cuda->request;
    struct side_text *text = &cuda->texts[side];
    bool soft = !strcmp(capture->hardware.vendor, "softgpu");
    kg_status status;
    if (side == ORIGINAL) {
        text->entry = capture->entry;
        status = image_select(cuda->image, capture->image_size, capture->hardware.arch, soft,
                              &text->code);
    } else {
        text->entry = request->entry;
        if (!request->ptx)
            return KG_NOT_FOUND;
        status = file_read(request->ptx, MOST_PTX, &text->code.ptx);
    }
    if (status == KG_OK && !text->code.ptx.size)
        status = KG_NOT_FOUND;
    return status == KG_OK ? kernel_model_make(&text->code, text->entry, &text->model) : status;
}

static kg_status compile(struct cuda *cuda, enum side side, struct observer *observer)
{
    struct kg_bytes *text = &observer->text.text;
    char *whole = calloc(1, text->size + 1);
    if (!whole)
        return KG_NO_MEMORY;
    memcpy(whole, text->data, text->size);
    CUresult result = real.cuModuleLoadData(&observer->module, whole);
    free(whole);
    if (result == CUDA_SUCCESS)
        result = real.cuModuleGetFunction(&observer->function, observer->module,
                                          cuda->texts[side].entry);
    uint32_t shared = cuda->launches[side].shared;
    if (result == CUDA_SUCCESS && shared > 48 << 10)
        result = real.cuFuncSetAttribute(
            observer->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared);
    if (result == CUDA_SUCCESS)
        return KG_OK;
    snprintf(observer->reason, sizeof observer->reason,
             "its instrumented code does not load here: %s", real_error(result));
    return result == CUDA_ERROR_OUT_OF_MEMORY ? KG_NO_MEMORY : KG_NOT_ELIGIBLE;
}

static kg_status make(struct cuda *cuda, enum side side, unsigned what, struct observer *observer)
{
    struct instrument_options options = {what, cuda->launches[side].block};
    struct side_text *text = &cuda->texts[side];
    kg_status status = text->entry ? KG_OK : read_text(cuda, side);
    if (status != KG_OK || !text->code.ptx.data) {
        snprintf(observer->reason, sizeof observer->reason, "its PTX cannot be had: %s",
                 status_text(status));
        return KG_NOT_ELIGIBLE;
    }
    status =
        ptx_instrument((const char *)text->code.ptx.data, text->entry, &options, &observer->text);
    if (status != KG_OK) {
        snprintf(observer->reason, sizeof observer->reason, "it cannot be instrumented: %.200s",
                 *observer->text.reason ? observer->text.reason : status_text(status));
        return status == KG_NO_MEMORY ? status : KG_NOT_ELIGIBLE;
    }
    return compile(cuda, side, observer);
}

/* ---- a launch ----------------------------------------------------------------------------------
 */

/* The original's variables go to where its instrumented code has them, and back. */
static kg_status move_variables(struct cuda *cuda, enum side side, const struct observer *observer,
                                bool back)
{
    const struct replay_memory *memory = cuda->memory;
    for (uint32_t i = 0; i < memory->extent_count && side == ORIGINAL; i++) {
        const struct replay_extent *extent = &memory->extents[i];
        CUdeviceptr own;
        if (!extent->global || !own_variable(cuda, observer, extent, &own))
            continue;
        if (!back)
            TRY("copy", real.cuMemcpyDtoD_v2(own, extent->address, extent->size));
        else if (!is_constant(&cuda->texts[ORIGINAL].model,
                              cuda->capture->regions[extent->region].name))
            TRY("copy", real.cuMemcpyDtoD_v2(extent->address, own, extent->size));
    }
    TRY("copy", real.cuCtxSynchronize());
    return KG_OK;
}

struct spreading {
    const struct observe_range *range;
    const uint8_t *bits;
    unsigned char *mask;
};

/* Bits to bytes of 0xff: eight at a time where they stand so. */
static void spread_part(void *self, size_t from, size_t to)
{
    const struct spreading *s = self;
    const uint64_t skew = s->range->address & 31;
    for (uint64_t at = from; at < to;) {
        uint64_t bit = at + skew, word;
        uint8_t eight = s->bits[bit / 8];
        if (bit % 8 || to - at < 8) {
            s->mask[at] |= eight >> bit % 8 & 1 ? 0xff : 0;
            at++;
            continue;
        }
        if (eight) {
            /* bit i to the lowest bit of byte i */
            uint64_t each = eight * UINT64_C(0x0101010101010101) & UINT64_C(0x8040201008040201);
            each = (each + UINT64_C(0x7f7f7f7f7f7f7f7f)) >> 7 & UINT64_C(0x0101010101010101);
            memcpy(&word, s->mask + at, 8);
            word |= each * 255;
            memcpy(s->mask + at, &word, 8);
        }
        at += 8;
    }
}

static void spread(const struct observe_range *range, const uint8_t *bits, unsigned char *mask)
{
    struct spreading spreading = {range, bits, mask};
    parallel((size_t)range->size, 4096, spread_part, &spreading);
}

static void spread_all(const struct cuda *cuda, enum side side, const struct observe *observe,
                       const struct watch *watch, unsigned char *reads, unsigned char *writes)
{
    const struct replay_memory *memory = cuda->memory;
    for (uint32_t i = 0; i < observe->range_count; i++) {
        const struct observe_range *range = &observe->ranges[i];
        uint32_t w = 0;
        while (watch->list[w].address != range->address)
            w++;
        size_t at = watch->list[w].at;
        if (at != NO_IMAGE && reads && range->reads)
            spread(range, range->reads, reads + at);
        if (at != NO_IMAGE && writes && range->writes)
            spread(range, range->writes, writes + at);
    }
    for (uint32_t i = 0; i < observe->const_count && side == ORIGINAL && reads; i++)
        for (uint32_t e = 0; e < memory->extent_count; e++) {
            const struct replay_extent *extent = &memory->extents[e];
            const struct observe_range *range = &observe->consts[i];
            if (extent->global && range->reads && range->size <= extent->size &&
                !strcmp(cuda->capture->regions[extent->region].name, range->name))
                spread(range, range->reads, reads + extent->at);
        }
}

/* The first report for people, with the buffer that it is about. */
static void describe(const struct cuda *cuda, const struct observe *observe,
                     struct replay_observed *out)
{
    const struct instrument_report *report = &observe->reports.list[0];
    const struct replay_memory *memory = cuda->memory;
    char place[160];
    observe_text(observe, report, out->first, sizeof out->first);
    size_t used = strlen(out->first);
    for (uint32_t i = 0; i < memory->extent_count && !(report->kind >> 16 & 3); i++) {
        const struct replay_extent *extent = &memory->extents[i];
        if (report->address - extent->address < extent->size)
            snprintf(out->first + used, sizeof out->first - used, " (%s)",
                     memory_place(memory, extent->at + (report->address - extent->address), place,
                                  sizeof place));
    }
}

static kg_status run(struct cuda *cuda, enum side side, struct observer *observer,
                     struct observe *observe, bool bitmaps)
{
    kg_status status = move_variables(cuda, side, observer, false);
    if (status != KG_OK)
        return status;
    TRY("instrumented launch", cuda_enqueue(cuda, side, observer->function));
    TRY("instrumented launch", real.cuStreamSynchronize(cuda->stream));
    status = move_variables(cuda, side, observer, true);
    if (status != KG_OK)
        return status;
    return bitmaps ? observe_read(observe) : observe_reports(observe);
}

static kg_status launch(struct cuda *cuda, enum side side, struct observer *observer,
                        uint64_t budget, unsigned char *reads, unsigned char *writes,
                        struct replay_observed *out)
{
    struct watch watch = {0};
    struct observe observe = {0};
    struct observe_range *ranges = NULL;
    uint32_t most = budget < UINT32_MAX ? (uint32_t)budget : UINT32_MAX;
    kg_status status = watch_all(cuda, side, observer, &watch);
    if (status == KG_OK && !(ranges = calloc(watch.count + 1, sizeof *ranges)))
        status = KG_NO_MEMORY;
    for (uint32_t i = 0; i < watch.count && status == KG_OK; i++)
        ranges[i] = (struct observe_range){.address = watch.list[i].address,
                                           .size = watch.list[i].size,
                                           .rights = watch.list[i].rights};
    if (status == KG_OK)
        status = observe_begin(&observer->text, observer->module, observer->function,
                               &cuda->launches[side], ranges, watch.count, most, &observe);
    if (status == KG_NO_MEMORY)
        snprintf(cuda->device.error, sizeof cuda->device.error,
                 "not enough device memory is free for an instrumented launch");
    if (status == KG_OK)
        status = run(cuda, side, observer, &observe, reads || writes);
    if (status == KG_OK) {
        bool races = observer->text.what & INSTRUMENT_RACES;
        out->offences = races ? 0 : observe.reports.count;
        out->races = races ? observe.reports.count : 0;
        out->most = observe.reports.most;
        if (observe.reports.count)
            describe(cuda, &observe, out);
        spread_all(cuda, side, &observe, &watch, reads, writes);
    }
    observe_end(&observe);
    free(ranges);
    free(watch.list);
    return status;
}

kg_status cuda_observe(struct replay_device *device, enum side side, unsigned what, uint64_t budget,
                       unsigned char *reads, unsigned char *writes, struct replay_observed *out)
{
    struct cuda *cuda = (struct cuda *)device;
    enum observe_kind kind = what & INSTRUMENT_RACES ? OBSERVE_RACES : OBSERVE_TOUCHED;
    struct observer *observer = &cuda->observers[side][kind];
    if (!observer->made) {
        observer->made = true;
        observer->status =
            make(cuda, side,
                 kind == OBSERVE_RACES ? INSTRUMENT_RACES : INSTRUMENT_RECORD | INSTRUMENT_CHECK,
                 observer);
    }
    if (observer->status != KG_OK) {
        snprintf(device->error, sizeof device->error, "%s",
                 *observer->reason ? observer->reason : status_text(observer->status));
        return observer->status;
    }
    if (!out)
        return KG_OK;
    if (cuda->moved)
        return KG_UNSUPPORTED; /* ranges are captured addresses */
    *out = (struct replay_observed){0};
    if (reads)
        memset(reads, 0, cuda->memory->total);
    if (writes)
        memset(writes, 0, cuda->memory->total);
    return launch(cuda, side, observer, budget, reads, writes, out);
}

void observers_free(struct cuda *cuda)
{
    for (unsigned side = 0; side < 2; side++) {
        for (unsigned kind = 0; kind < OBSERVE_KINDS; kind++)
            instrumented_free(&cuda->observers[side][kind].text);
        kernel_model_free(&cuda->texts[side].model);
        image_code_free(&cuda->texts[side].code);
    }
}
