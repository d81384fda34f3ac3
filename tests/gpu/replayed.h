/* A captured launch run again in this process, by the code it was captured with and by a text made
 * from it: for programs that compare a rewriter's work with the original on a GPU. One capture a
 * process: addresses are reserved for good, and a fault is the end of the device. */
#ifndef TESTS_REPLAYED_H
#define TESTS_REPLAYED_H

#include "tune/replay.h"

struct replayed {
    struct job job;
    struct replay_request request;
    struct replay_memory memory;
    struct replay_device *device;
    struct kg_bytes code;
    char reason[512];
};

/* Reads the capture and makes its kernel's model. */
kg_status replayed_open(struct replayed *r, const char *capture);
/* Another value for bytes of the captured arguments. False: there is no such parameter. */
bool replayed_set(struct replayed *r, uint32_t param, uint64_t value);
/* Loads both sides; original: a text instead of the captured image, or NULL. KG_TAKEN: begin again
 * in another process, whose addresses are other ones. */
kg_status replayed_load(struct replayed *r, const char *original,
                        const struct candidate *candidate);
/* One launch from memory as captured; out: all memory afterwards (memory.total bytes); ns: how long
 * it took, launch and waiting. */
kg_status replayed_run(struct replayed *r, enum side side, unsigned char *out, double *ns);
/* Time of a launch by the device's clock, from memory as captured: the least of `samples`. */
kg_status replayed_time(struct replayed *r, enum side side, unsigned samples, unsigned batch,
                        double *ns);

#endif
