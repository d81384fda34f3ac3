/* Whether a variant is faster in the app itself: launches of the original and of the variant are
 * timed in pairs, in an order that is drawn for each pair, until one of two sequential sign tests
 * ends. One decision a variant; what it costs is bounded by the number of pairs. */
#ifndef KG_APP_LIVE_H
#define KG_APP_LIVE_H

#include "app/app.h"

enum { LIVE_PAIRS = 256, LIVE_RATES = 5, LIVE_RING = 4 };
#define LIVE_MARGIN 1.03 /* what a variant must be worth: as in verification */
#define LIVE_ODDS 1000.0 /* one in so many decisions of each kind may be wrong */

enum live_outcome {
    LIVE_OPEN,
    LIVE_FASTER,    /* confirmed */
    LIVE_NO_FASTER, /* by less than the margin, or slower */
    LIVE_UNDECIDED, /* after all the pairs it may have */
};

/* The arithmetic alone: no driver, no clock. */
struct live_test {
    unsigned pairs;
    unsigned faster; /* pairs in which the variant took less time */
    unsigned close;  /* in which the original took less than LIVE_MARGIN times the variant's time */
    double for_faster[LIVE_RATES], for_close[LIVE_RATES];
    float ratios[LIVE_PAIRS];
};
void live_begin(struct live_test *test);
enum live_outcome live_add(struct live_test *test, double original_ns, double variant_ns,
                           unsigned most);
/* Quartiles of the ratios original/variant so far. */
void live_quartiles(const struct live_test *test, double *low, double *median, double *high);

/* Of one variant in one process. */
struct live {
    atomic_bool open;        /* pairs are wanted */
    atomic_uint step;        /* launches taken for it: two a pair */
    atomic_uint_fast64_t at; /* number of the launch from which on the next is due */
    uint64_t seed;
    /* locked */
    struct live_test test;
    struct {
        unsigned pair;
        double ns[2];
    } halves[LIVE_RING]; /* pairs of which one side is known */
};

#endif
