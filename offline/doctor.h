/* The checks of kgenrt doctor: each adds lines "ok", "note", "warn" or "fail" with advice. */
#ifndef KG_DOCTOR_H
#define KG_DOCTOR_H

#include "cli.h"

enum level { LEVEL_OK, LEVEL_NOTE, LEVEL_WARN, LEVEL_FAIL };

struct doctor {
    json_t *checks, *devices;
    unsigned count[4]; /* of each level */
    unsigned gpus;
    bool soft; /* one of them is the software GPU */
};

/* advice: what to do; NULL: nothing. */
void finding(struct doctor *doctor, enum level level, const char *what, const char *advice,
             const char *format, ...) __attribute__((format(printf, 5, 6)));

void check_devices(struct doctor *doctor);   /* doctor_gpu.c: driver, devices */
void check_compilers(struct doctor *doctor); /* NVRTC, nvJitLink, libcurl, makers */
void check_preload(struct doctor *doctor);   /* doctor_place.c: the library, and whether it loads */
void check_environment(struct doctor *doctor); /* traps */
void check_cache(struct doctor *doctor);       /* folder, store, snapshots, spool, recorders */

#endif
