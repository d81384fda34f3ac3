/* Runs of instrumented kernels: lays out in device memory what code/instrument.h describes, hands
 * it to a loaded module, and reads what a launch left there. Launching is the caller's. All calls
 * wait for the device; a context must be current. Never used in an app's process. */
#ifndef KG_OBSERVE_H
#define KG_OBSERVE_H

#include "gpu/real.h"

#include "code/instrument.h"

struct observe_range {
    uint64_t address, size;
    const char *name;        /* of the caller, or a constant variable's; NULL: none */
    unsigned rights;         /* INSTRUMENT_READ, INSTRUMENT_WRITE */
    uint8_t *reads, *writes; /* set by observe_read when recording: bit i of byte j is address
                                rounded down to 32, plus 8 * j + i. Owned by the observation */
};

struct observe {
    const struct instrumented *text;
    struct kg_launch launch;
    uint32_t range_count, const_count;
    struct observe_range *ranges; /* in order of their addresses */
    struct observe_range *consts; /* constant variables, in order of addresses of their own */
    struct instrument_reports reports;
    /* private */
    struct instrument_state state;
    CUdeviceptr state_at, bits, cells, rest;
    size_t bits_size, cells_size, rest_size;
    unsigned char *bits_host;
};

/* Allocates and fills all for launches of `function` of `module`, which was made from text, with
 * this grid, block and shared memory. Ranges must be disjoint; they are copied. budget: of branches
 * backward and calls of a thread. text must live as long. */
kg_status observe_begin(const struct instrumented *text, CUmodule module, CUfunction function,
                        const struct kg_launch *launch, const struct observe_range *ranges,
                        uint32_t range_count, uint32_t budget, struct observe *out);
/* As after observe_begin: for another launch. */
kg_status observe_reset(struct observe *observe);
/* After a launch has ended: fills reports; and also the bitmaps of ranges and consts. */
kg_status observe_reports(struct observe *observe);
kg_status observe_read(struct observe *observe);
/* Also after a failed observe_begin. */
void observe_end(struct observe *observe);

/* Whether byte `at` of a range is in one of its bitmaps. */
static inline bool observed(const struct observe_range *range, const uint8_t *bits, uint64_t at)
{
    uint64_t bit = at + (range->address & 31);
    return bits && bits[bit / 8] >> bit % 8 & 1;
}
/* A report in words for people: "PTX line 34: race: ... by thread (1,0,0) of block (2,0,0)". */
char *observe_text(const struct observe *observe, const struct instrument_report *report,
                   char *text, size_t size);

#endif
