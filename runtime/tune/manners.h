/* The worker's manners beside living programs: when a replay may start, and how much of the GPU it
 * may take. Programs tell of themselves in their flight recorders (runtime/app/pressure.c). */
#ifndef KG_MANNERS_H
#define KG_MANNERS_H

#include "kgenrt.h"

struct manners {
    unsigned apps;    /* programs under kgenrt that are alive */
    unsigned share;   /* percent of the GPU's time that a replay may take */
    uint64_t reserve; /* bytes of device memory that it leaves free */
    char why[200];    /* KG_BUSY: why not now */
};

/* Whether a program that uses the cache folder is alive. */
bool app_alive(const char *dir);
/* KG_OK, or KG_BUSY: a program's memory use is not steady, or it lacked memory a moment ago. */
kg_status manners_ask(const char *dir, struct manners *out);
/* The same, and waits for a while until a replay may start. */
kg_status manners_wait(const char *dir, struct manners *out);

#endif
