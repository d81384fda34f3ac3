/* nvJitLink: PTX to machine code of one exact architecture. Opened at need; only the short-lived
 * compile child calls it. */
#ifndef KG_NVJITLINK_H
#define KG_NVJITLINK_H

#include "kgenrt.h"

/* Opens the library (idempotent, one thread). KG_NO_LIBRARY with one log line. */
kg_status nvjitlink_open(void);
/* major * 1000 + minor * 10; 0 before nvjitlink_open or if the library does not tell. */
int nvjitlink_version(void);
/* The cubin of PTX text for `arch` ("sm_90"), and the log; free both, also after a failure.
 * KG_COMPILE: see log. */
kg_status nvjitlink_compile(const char *ptx, const char *arch, struct kg_bytes *cubin,
                            struct kg_bytes *log);

#endif
