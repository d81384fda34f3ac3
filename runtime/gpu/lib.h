/* Optional libraries, opened at need through a table of names: NVRTC, nvJitLink, libcurl, … */
#ifndef KG_LIB_H
#define KG_LIB_H

#include "kgenrt.h"

struct lib_row {
    const char *symbol;
    void **pointer; /* filled with the symbol's address */
    bool optional;  /* may be missing: pointer stays NULL */
};

/* Opens the first of `names` (NULL-terminated; a path or a soname) that loads and has every row
 * that is not optional. `override`, if not empty, is tried alone. `what` names the library for the
 * one message that says what is missing and what to install (`advice`). KG_NO_LIBRARY if none. The
 * library stays open. */
kg_status lib_open(const char *what, const char *override, const char *const *names,
                   const struct lib_row *rows, const char *advice);

#endif
