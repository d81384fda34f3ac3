/* A second layout of a replay's memory: the captured regions at other addresses, with other
 * distances, and no better aligned than the guard asks for. Callers go on with captured addresses:
 * copies find the bytes, and pointers in the parameters and at known places in memory are moved
 * along. The captured addresses stay mapped, so that a pointer that nobody knew of leads to old
 * bytes there, and not to a fault. */
#include "tune/replay_cuda.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_BYTES = 1 << 30,
    ZONE = 4096,
    ALIGN_LIMIT = 256 /* of a guard: see capture_signature */
};

static uint64_t lowest_bit(uint64_t value)
{
    return value & -value;
}

static uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

/* ---- copies ------------------------------------------------------------------------------------
 */

/* What moved with a captured address; NULL: nothing. */
static const struct moved *moved_of(const struct cuda *cuda, uint64_t address)
{
    for (uint32_t i = 0; i < cuda->moved_count; i++)
        if (address >= cuda->moved[i].first && address < cuda->moved[i].end)
            return &cuda->moved[i];
    return NULL;
}

/* Pointers that stand in [address, address + size), whose bytes are `data`: to where they lead now,
 * or back. */
static void move_pointers(const struct cuda *cuda, uint64_t address, unsigned char *data,
                          size_t size, bool back)
{
    const struct kg_capture *capture = cuda->capture;
    for (uint32_t i = 0; i < capture->place_count; i++) {
        const struct capture_place *place = &capture->places[i];
        const struct capture_region *target = &capture->regions[place->target];
        uint64_t at = capture->regions[place->region].address + place->offset, value;
        const struct moved *moved = moved_of(cuda, target->address);
        if (capture->regions[place->region].kind == CAPTURE_GLOBAL || at < address || size < 8 ||
            at - address > size - 8 || !moved)
            continue;
        memcpy(&value, data + (at - address), 8);
        uint64_t base = back ? moved->to : moved->from;
        if (value - base > moved->size)
            continue;
        value += back ? moved->from - moved->to : moved->to - moved->from;
        memcpy(data + (at - address), &value, 8);
    }
}

/* The next stretch of [address, end) that stands in one place; *at: where. */
static uint64_t stretch(const struct cuda *cuda, uint64_t address, uint64_t end, uint64_t *at)
{
    *at = address;
    for (uint32_t i = 0; i < cuda->moved_count; i++) {
        const struct moved *moved = &cuda->moved[i];
        if (address < moved->from)
            return moved->from < end ? moved->from - address : end - address;
        if (address - moved->from >= moved->size)
            continue;
        uint64_t left = moved->from + moved->size - address;
        *at = moved->to + (address - moved->from);
        return left < end - address ? left : end - address;
    }
    return end - address;
}

kg_status layout_read(struct cuda *cuda, uint64_t address, unsigned char *out, size_t size)
{
    uint64_t end = address + size, at;
    for (uint64_t from = address, step; from < end; from += step) {
        step = stretch(cuda, from, end, &at);
        TRY("copy from the device", real.cuMemcpyDtoH_v2(out + (from - address), at, step));
    }
    move_pointers(cuda, address, out, size, true);
    return KG_OK;
}

kg_status layout_write(struct cuda *cuda, uint64_t address, const unsigned char *data, size_t size)
{
    uint64_t end = address + size, at;
    const unsigned char *from_host = data;
    unsigned char *copy = NULL;
    if (cuda->capture->place_count) { /* pointers stand there */
        if (!(copy = malloc(size + 1)))
            return KG_NO_MEMORY;
        memcpy(copy, data, size);
        move_pointers(cuda, address, copy, size, false);
        from_host = copy;
    }
    CUresult result = CUDA_SUCCESS;
    for (uint64_t from = address, step; from < end && result == CUDA_SUCCESS; from += step) {
        step = stretch(cuda, from, end, &at);
        result = real.cuMemcpyHtoD_v2(at, from_host + (from - address), step);
    }
    free(copy);
    TRY("copy to the device", result);
    TRY("copy to the device", real.cuCtxSynchronize());
    return KG_OK;
}

/* ---- planning ----------------------------------------------------------------------------------
 */

static int by_first(const void *a, const void *b)
{
    const struct moved *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* What one word of the parameters leads to keeps its distances, too: from the first to the last of
 * it moves as one. */
static bool join_words(struct cuda *cuda)
{
    const struct kg_capture *capture = cuda->capture;
    for (uint32_t i = 1; i < capture->pointer_count; i++)
        for (uint32_t j = 0; j < i; j++) {
            const struct capture_pointer *a = &capture->pointers[i], *b = &capture->pointers[j];
            if (a->param != b->param || a->offset != b->offset || a->region == CAPTURE_NO_REGION ||
                b->region == CAPTURE_NO_REGION)
                continue;
            uint32_t x = (uint32_t)(moved_of(cuda, capture->regions[a->region].address) -
                                    cuda->moved),
                     y = (uint32_t)(moved_of(cuda, capture->regions[b->region].address) -
                                    cuda->moved),
                     low = x < y ? x : y, high = x < y ? y : x;
            if (low == high)
                continue;
            cuda->moved[low].end = cuda->moved[high].end;
            memmove(cuda->moved + low + 1, cuda->moved + high + 1,
                    (cuda->moved_count - high - 1) * sizeof *cuda->moved);
            cuda->moved_count -= high - low;
            return true;
        }
    return false;
}

/* Regions that overlap stay together: their distance is in the guard. */
static kg_status collect(struct cuda *cuda)
{
    const struct kg_capture *capture = cuda->capture;
    uint32_t count = 0, kept = 0;
    struct moved *list = calloc(capture->region_count + 1, sizeof *list);
    if (!list)
        return KG_NO_MEMORY;
    for (uint32_t i = 0; i < capture->region_count; i++) {
        const struct capture_region *r = &capture->regions[i];
        if (r->kind != CAPTURE_GLOBAL && r->size)
            list[count++] = (struct moved){.first = r->address, .end = r->address + r->size};
    }
    qsort(list, count, sizeof *list, by_first);
    for (uint32_t i = 1; i < count; i++) {
        if (list[i].first >= list[kept].end)
            list[++kept] = list[i];
        else if (list[i].end > list[kept].end)
            list[kept].end = list[i].end;
    }
    cuda->moved = list;
    cuda->moved_count = count ? kept + 1 : 0;
    while (join_words(cuda))
        continue;
    for (uint32_t i = 0; i < cuda->moved_count; i++)
        if (cuda->moved[i].end - cuda->moved[i].first > MOST_BYTES)
            return KG_NOT_ELIGIBLE;
    return count ? KG_OK : KG_NOT_ELIGIBLE;
}

static const struct replay_extent *extent_of(const struct cuda *cuda, uint64_t address)
{
    const struct replay_extent *e = cuda->memory->extents;
    while (e->global || address - e->address >= e->size)
        e++;
    return e;
}

/* Red zones on either side, as far as they are mapped and belong to no neighbour. */
static void add_zones(struct cuda *cuda, enum layout layout)
{
    for (uint32_t i = 0; i < cuda->moved_count; i++) {
        struct moved *moved = &cuda->moved[i];
        const struct replay_extent *last = extent_of(cuda, moved->end - 1);
        uint64_t low = extent_of(cuda, moved->first)->address, high = last->address + last->size;
        if (i && cuda->moved[i - 1].from + cuda->moved[i - 1].size > low)
            low = cuda->moved[i - 1].from + cuda->moved[i - 1].size;
        if (i + 1 < cuda->moved_count && cuda->moved[i + 1].first < high)
            high = cuda->moved[i + 1].first;
        uint64_t before = moved->first - low, after = high - moved->end;
        before = layout == LAYOUT_AT_START ? 0 : before < ZONE ? before : ZONE;
        after = layout == LAYOUT_AT_END ? 0 : after < ZONE ? after : ZONE;
        moved->from = moved->first - before;
        moved->size = moved->end + after - moved->from;
    }
}

/* By how much it may be moved: a multiple of `class`, an odd one where no pointer is aligned to
 * just that. */
static uint64_t class_of(const struct cuda *cuda, const struct moved *moved, bool *odd)
{
    const struct kg_capture *capture = cuda->capture;
    uint64_t class = 0;
    *odd = true;
    for (uint32_t i = 0; i < capture->pointer_count + capture->place_count; i++) {
        uint64_t value;
        if (i < capture->pointer_count) {
            const struct capture_pointer *p = &capture->pointers[i];
            if (p->region == CAPTURE_NO_REGION ||
                moved_of(cuda, capture->regions[p->region].address) != moved)
                continue;
            memcpy(&value, capture->args.data + capture->params[p->param].offset + p->offset, 8);
        } else { /* nobody guards these: as they are allocated */
            const struct capture_place *p = &capture->places[i - capture->pointer_count];
            if (moved_of(cuda, capture->regions[p->target].address) != moved)
                continue;
            value = ALIGN_LIMIT;
        }
        uint64_t exact = value ? lowest_bit(value) : ALIGN_LIMIT;
        uint64_t own = exact < ALIGN_LIMIT ? exact : ALIGN_LIMIT;
        if (own > class)
            *odd = true;
        if (own >= class)
            *odd &= exact > own;
        class = own > class ? own : class;
    }
    return class ? class : ALIGN_LIMIT;
}

/* The highest or lowest address for moved->from that is its captured one plus a fitting multiple,
 * in [low, high]. */
static uint64_t fit(const struct moved *moved, uint64_t class, bool odd, uint64_t low,
                    uint64_t high, bool highest)
{
    uint64_t step = 2 * class, skew = (moved->from + (odd ? class : 0)) % step;
    uint64_t first = low / step * step + skew;
    if (first < low)
        first += step;
    return highest ? first + (high - first) / step * step : first;
}

/* Where each stands, from `base`; returns the end. An unmapped granule lies around each. Not in the
 * captured order in the first layout: which buffer stands before which is in no guard either. */
static uint64_t arrange(struct cuda *cuda, enum layout layout, uint64_t base)
{
    uint64_t granule = cuda->granule, at = base;
    for (uint32_t i = 0; i < cuda->moved_count; i++) {
        bool turned = layout == LAYOUT_ELSEWHERE, odd;
        struct moved *moved = &cuda->moved[turned ? cuda->moved_count - 1 - i : i];
        uint64_t class = class_of(cuda, moved, &odd);
        uint64_t low = at + granule, room = round_up(moved->size + granule, granule);
        uint64_t high = low + room - moved->size;
        moved->to = fit(moved, class, odd, low, high, layout == LAYOUT_AT_END);
        if (layout == LAYOUT_ELSEWHERE) { /* anywhere: other distances each time */
            uint64_t steps = (high - moved->to) / (2 * class);
            moved->to += random_word(cuda->layouts, i) % (steps + 1) * 2 * class;
        }
        at = low + room;
    }
    return at + granule;
}

static uint64_t mapped_at(const struct cuda *cuda, const struct moved *moved)
{
    return moved->to / cuda->granule * cuda->granule;
}

static uint64_t mapped_size(const struct cuda *cuda, const struct moved *moved)
{
    return round_up(moved->to + moved->size, cuda->granule) - mapped_at(cuda, moved);
}

/* Pointers in the parameters, by their difference. */
static void move_params(struct cuda *cuda, bool back)
{
    const struct kg_capture *capture = cuda->capture;
    for (uint32_t i = 0; i < capture->pointer_count; i++) {
        const struct capture_pointer *p = &capture->pointers[i];
        const struct moved *moved = p->region == CAPTURE_NO_REGION
                                        ? NULL
                                        : moved_of(cuda, capture->regions[p->region].address);
        unsigned char *at = cuda->args + capture->params[p->param].offset + p->offset;
        uint64_t value;
        bool again = false; /* several regions of one word */
        for (uint32_t j = 0; j < i && !again; j++)
            again = capture->pointers[j].param == p->param &&
                    capture->pointers[j].offset == p->offset &&
                    capture->pointers[j].region != CAPTURE_NO_REGION;
        if (!moved || again)
            continue;
        memcpy(&value, at, 8);
        value += back ? moved->from - moved->to : moved->to - moved->from;
        memcpy(at, &value, 8);
    }
}

/* ---- the operation -----------------------------------------------------------------------------
 */

static kg_status go_back(struct cuda *cuda, uint32_t mapped, bool params)
{
    CUresult result = CUDA_SUCCESS;
    if (params)
        move_params(cuda, true);
    for (uint32_t i = 0; i < mapped && result == CUDA_SUCCESS; i++)
        result =
            real.cuMemUnmap(mapped_at(cuda, &cuda->moved[i]), mapped_size(cuda, &cuda->moved[i]));
    if (result == CUDA_SUCCESS && cuda->moved_base)
        result = real.cuMemAddressFree(cuda->moved_base, cuda->moved_size);
    free(cuda->moved);
    cuda->moved = NULL;
    cuda->moved_count = 0;
    cuda->moved_base = cuda->moved_size = 0;
    TRY("unmapping", result);
    return KG_OK;
}

static kg_status go(struct cuda *cuda, enum layout layout, uint32_t *mapped)
{
    CUdeviceptr base = 0;
    kg_status status = collect(cuda);
    if (status != KG_OK)
        return status;
    cuda->layouts++;
    add_zones(cuda, layout);
    uint64_t size = arrange(cuda, layout, 0);
    TRY("address reservation", real.cuMemAddressReserve(&base, size, 0, 0, 0));
    cuda->moved_base = base;
    cuda->moved_size = size;
    arrange(cuda, layout, base);
    for (*mapped = 0; *mapped < cuda->moved_count && status == KG_OK; ++*mapped) {
        const struct moved *moved = &cuda->moved[*mapped];
        status = place_map(cuda, mapped_at(cuda, moved), mapped_size(cuda, moved));
        if (status != KG_OK)
            break;
    }
    if (status == KG_OK)
        move_params(cuda, false);
    return status;
}

kg_status cuda_relocate(struct replay_device *device, enum layout layout)
{
    struct cuda *cuda = (struct cuda *)device;
    uint32_t mapped = 0;
    kg_status status = cuda->moved ? go_back(cuda, cuda->moved_count, true) : KG_OK;
    if (status != KG_OK || layout == LAYOUT_CAPTURED)
        return status;
    status = go(cuda, layout, &mapped);
    if (status != KG_OK)
        (void)go_back(cuda, mapped, false);
    return status;
}
