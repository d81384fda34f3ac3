/* The memory that one launch is to be captured with: intervals of the app's allocations, by a plan
 * and the launch's own arguments. On the launch path: driver queries, no allocation, no lock. */
#ifndef KG_APP_GATHER_H
#define KG_APP_GATHER_H

#include "app/extent.h"
#include "app/plan.h"

#include "capture.h"

enum { GATHER_REGIONS = 384, GATHER_POINTERS = 192, GATHER_WHY = 200 };

/* An interval before those that overlap are joined. */
struct gather_piece {
    enum capture_region_kind kind;
    uint32_t pointer; /* of the plan; UINT32_MAX: none */
    bool written, scan;
    uint64_t address, size, allocation, allocation_size;
};

/* Large, and static where it is used: an app's threads may have small stacks. */
struct gathered {
    unsigned char arguments[PLAN_ARGUMENTS];
    uint32_t argument_size;
    uint32_t pointer_count, region_count;
    struct capture_pointer pointers[GATHER_POINTERS];
    struct capture_region regions[GATHER_REGIONS]; /* in order of addresses, variables last */
    bool scan[GATHER_REGIONS];                     /* addresses may stand there */
    bool written[GATHER_REGIONS];                  /* or may be */
    uint64_t data_at[GATHER_REGIONS], after_at[GATHER_REGIONS]; /* places in the ring */
    uint64_t total;                                             /* bytes of the ring */
    uint32_t piece_count;
    struct gather_piece pieces[GATHER_REGIONS];
    char why[GATHER_WHY]; /* why the launch cannot be captured, a sentence */
};

/* The launch's packed arguments; false: they could not be read. */
bool gather_arguments(struct gathered *out, const struct kernel *kernel,
                      const struct launch *launch);
/* Regions, and their places in a ring of `room` bytes, with room for what the launch leaves in
 * those that it writes. The arguments are there. False: `why` says it. */
bool gather_regions(struct gathered *out, const struct kernel *kernel, const struct plan *plan,
                    uint64_t room);

#endif
