/* program.c: whether a program can be reached by a preload, as far as its file tells. */
#ifndef KG_PROGRAM_H
#define KG_PROGRAM_H

#include "kgenrt.h"

struct program {
    char file[KG_PATH]; /* what its name leads to; empty: nothing */
    char path[KG_PATH]; /* what is executed in the end; of a script, its interpreter */
    char reason[320];   /* why no library can be preloaded, "is …"; empty: nothing is known */
    bool refuses;       /* its loader would complain of the library, or not start at all */
};

/* name: as given to `kgenrt run`. */
void program_look(const char *name, struct program *out);

#endif
