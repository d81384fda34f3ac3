/* way.c: how libkgenrt.so gets into a program. */
#ifndef KG_WAY_H
#define KG_WAY_H

#include <sys/types.h>

#include "cli.h"
#include "program.h"

struct way {
    struct program program;
    bool preload, audit; /* what is set in the program's environment */
    char library[KG_PATH], auditor[KG_PATH];
    char note[KG_PATH]; /* where it is written down that the program's launches were missed; empty:
                           nowhere */
    bool known;         /* an earlier run has left a note */
    unsigned scans;
    uint64_t next_scan;    /* now_ns */
    char process[KG_PATH]; /* the program of a process with the driver, but without the library */
};

/* Before the program is started: what is told of it is told here. asked: "preload", "audit" or
 * "auto"; NULL: auto. */
kg_status way_choose(struct way *way, const char *name, const char *asked);
/* In the child that becomes the program. */
bool way_environment(const struct way *way);
/* Now and then while it runs: is there a process of its own without the library? */
void way_watch(struct way *way, pid_t program);
/* After it has ended: what was missed, and what to do about it. */
void way_report(struct way *way);

/* The auditor beside this library: NULL if it can be used, else why not. */
const char *auditor_find(const char *library, char auditor[static KG_PATH]);

#endif
