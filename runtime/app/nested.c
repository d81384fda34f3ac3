/* Addresses in captured memory: see nested.h. A word of 8 aligned bytes is an address if it leads
 * into an allocation that is alive. Data that looks like one by chance costs memory, nothing else:
 * it is captured needlessly. */
#include "app/nested.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_PLACES = 1 << 18,
    MOST_QUESTIONS = 1 << 16, /* to the driver, each a microsecond */
    GRAIN = 256,              /* allocations begin at multiples of it */
    KNOWN = 4096,             /* grains in no allocation, remembered */
};
static const uint64_t lowest = 1 << 16, highest = UINT64_C(1) << 57; /* addresses of a device */

struct search {
    const struct gathered *got;
    struct extent (*ask)(uint64_t address);
    struct nested *out;
    uint32_t mapped; /* regions that are no variables; they come first, in order of addresses */
    uint32_t room;   /* of places */
    unsigned questions;
    uint64_t none[KNOWN];
};

/* The region that holds the address; UINT32_MAX: none. */
static uint32_t region_of(const struct search *s, uint64_t address)
{
    uint32_t low = 0, high = s->mapped;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (s->got->regions[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const struct capture_region *r = low ? &s->got->regions[low - 1] : NULL;
    return r && address - r->address < r->size ? low - 1 : UINT32_MAX;
}

static bool refuse(struct search *s, const char *why)
{
    s->out->why = why;
    return false;
}

static bool add_place(struct search *s, uint32_t region, uint64_t offset, uint32_t target)
{
    struct nested *out = s->out;
    if (out->place_count == MOST_PLACES)
        return refuse(s, "more addresses stand in its memory than can be kept");
    if (out->place_count == s->room) {
        s->room = s->room ? 2 * s->room : 256;
        struct capture_place *more = realloc(out->places, s->room * sizeof *more);
        if (!more)
            return refuse(s, "out of memory");
        out->places = more;
    }
    out->places[out->place_count++] =
        (struct capture_place){.region = region, .target = target, .offset = offset};
    return true;
}

/* What holds an address, out->size 0: nothing. Memory that is freed in stream order may go while it
 * is copied, since nobody knows that the kernel uses it. */
static bool find(struct search *s, uint64_t address, struct extent *out)
{
    uint64_t grain = address / GRAIN, *none = &s->none[grain % KNOWN];
    *out = (struct extent){0};
    if (*none == grain)
        return true;
    if (++s->questions > MOST_QUESTIONS)
        return refuse(s, "too many words of its memory may be addresses");
    *out = s->ask(grain * GRAIN);
    if (out->why)
        return refuse(s, out->why);
    if (!out->size)
        *none = grain;
    if (out->size && address - out->base >= out->size)
        out->size = 0;
    if (out->size && out->pool)
        return refuse(s, "addresses in its memory lead to memory that is freed in stream order");
    return true;
}

static bool add_led(struct search *s, uint64_t address)
{
    struct nested *out = s->out;
    struct extent e;
    for (uint32_t i = 0; i < out->led_count; i++) {
        struct plan_nested *led = &out->led[i];
        if (address - led->allocation >= led->size)
            continue;
        if (address < led->address)
            led->address = address;
        return true;
    }
    if (!find(s, address, &e))
        return false;
    if (!e.size)
        return true;
    if (out->led_count == PLAN_NESTED)
        return refuse(s, "addresses in its memory lead to too many allocations");
    out->led[out->led_count++] =
        (struct plan_nested){.address = address, .allocation = e.base, .size = e.size};
    return true;
}

static bool look_through(struct search *s, const unsigned char *ring, uint32_t region)
{
    const struct capture_region *r = &s->got->regions[region];
    const unsigned char *bytes = ring + s->got->data_at[region];
    for (uint64_t at = -r->address % 8; at + 8 <= r->size; at += 8) {
        uint64_t value;
        memcpy(&value, bytes + at, 8);
        if (value < lowest || value >= highest)
            continue;
        uint32_t target = region_of(s, value);
        if (!(target == UINT32_MAX ? add_led(s, value) : add_place(s, region, at, target)))
            return false;
    }
    return true;
}

bool nested_find(const struct gathered *got, const unsigned char *ring,
                 struct extent (*ask)(uint64_t address), struct nested *out)
{
    *out = (struct nested){.place_count = 0};
    struct search *s = calloc(1, sizeof *s);
    if (!s) {
        out->why = "out of memory";
        return false;
    }
    s->got = got;
    s->ask = ask;
    s->out = out;
    while (s->mapped < got->region_count && got->regions[s->mapped].kind != CAPTURE_GLOBAL)
        s->mapped++;
    bool good = true;
    for (uint32_t i = 0; i < got->region_count && good; i++)
        good = !got->scan[i] || look_through(s, ring, i);
    free(s);
    return good;
}

bool nested_keep(struct plan *plan, const struct nested *nested)
{
    for (uint32_t i = 0; i < nested->led_count; i++) {
        const struct plan_nested *led = &nested->led[i];
        uint32_t k = 0;
        while (k < plan->nested_count && plan->led[k].allocation != led->allocation)
            k++;
        if (k == PLAN_NESTED)
            return false;
        bool known = k < plan->nested_count && plan->led[k].size == led->size &&
                     plan->led[k].address < led->address;
        if (!known)
            plan->led[k] = *led;
        plan->nested_count += k == plan->nested_count;
    }
    return true;
}

void nested_free(struct nested *nested)
{
    free(nested->places);
    *nested = (struct nested){.place_count = 0};
}
