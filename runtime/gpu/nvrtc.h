/* NVRTC: CUDA C++ to PTX, with fixed options. Opened at need; only the short-lived compile child
 * calls it, because hostile source goes in. */
#ifndef KG_NVRTC_H
#define KG_NVRTC_H

#include "kgenrt.h"

/* What a compilation gave. Free with nvrtc_free, also after a failure. */
struct nvrtc_output {
    struct kg_bytes ptx;
    struct kg_bytes log; /* the compiler's words, text */
    char entry[512];     /* name of the entry in the PTX */
    unsigned sm;         /* architecture compiled for: 90 for compute_90 */
};

/* Opens the library and all that it would open later (idempotent, one thread). KG_NO_LIBRARY with
 * one log line. */
kg_status nvrtc_open(void);
/* major * 1000 + minor * 10; 0 before nvrtc_open. */
int nvrtc_version(void);
/* Compiles for the highest architecture the library knows that is not above sm. `entry` is a C++
 * name expression of the kernel. KG_COMPILE: see log. */
kg_status nvrtc_compile(const char *source, const char *entry, unsigned sm,
                        struct nvrtc_output *out);
void nvrtc_free(struct nvrtc_output *output);

#endif
