/* Addresses that stand in captured memory. The watcher looks for them, on the host, in what a
 * launch was captured with; what they lead to, if it was not captured, is captured at a later
 * launch. */
#ifndef KG_APP_NESTED_H
#define KG_APP_NESTED_H

#include "app/gather.h"

struct nested {
    uint32_t place_count;         /* addresses that lead into captured regions */
    struct capture_place *places; /* freed by nested_free */
    uint32_t led_count; /* allocations that others lead into, each from its lowest address on */
    struct plan_nested led[PLAN_NESTED];
    const char *why; /* they cannot be captured: a sentence */
};

/* Looks through the regions whose `scan` is set. ask: where an address leads, asked from this
 * thread; it may end the search with a reason of its own. False: `why`. */
bool nested_find(const struct gathered *got, const unsigned char *ring,
                 struct extent (*ask)(uint64_t address), struct nested *out);
/* Adds what was led to to the plan's. False: too many. */
bool nested_keep(struct plan *plan, const struct nested *nested);
void nested_free(struct nested *nested);

#endif
