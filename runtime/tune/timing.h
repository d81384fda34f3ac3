/* Timing, private to timing.c and timing_sets.c: one course of measurements, and the contents of
 * memory that its launches meet. */
#ifndef KG_TIMING_H
#define KG_TIMING_H

#include "tune/replay.h"

enum { TIMING_SETS = REPLAY_SETS - 1 }; /* the last one is for what was never seen */

struct series {
    double ns[2][TIMING_PAIRS], wall_ns[2][TIMING_PAIRS];
    unsigned pairs;
};

struct course {
    struct trial *trial;
    unsigned sets;
    unsigned char *right[REPLAY_SETS]; /* memory after the variant's launch on a set, verified */
    struct series series;
    uint64_t turn;     /* for draws */
    unsigned draws;    /* of contents so far */
    unsigned compared; /* timed launches whose result was compared */
    bool denied;       /* a gain did not stand: trial->reason says why */
    json_t *saw;
};

/* Draws contents on which the original is sound and the variant agrees with it, and has the device
 * keep them. Set 0 is the captured memory. */
kg_status sets_make(struct course *course);
void sets_free(struct course *course);
kg_status set_choose(struct course *course, unsigned set);
/* Compares memory after a timed launch of the variant with what must stand there. */
kg_status set_check(struct course *course, unsigned set);
/* Contents that no launch has met, kept as set number `sets`; *good false: there are none. */
kg_status set_unseen(struct course *course, bool *good);
/* Memory after the variant's timed launch on them, compared with the original's. */
kg_status set_check_unseen(struct course *course);

#endif
