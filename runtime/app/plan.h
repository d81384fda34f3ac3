/* What is to be captured of a launch: for each pointer the bytes that the launch may touch, by the
 * analysis of reach, and where addresses may stand in memory. Made by the watcher, milliseconds
 * without any lock; applied to a launch by the thread that makes it. Never a claim that is not
 * proven: what is not known says so, with the reason and the line of the PTX. */
#ifndef KG_APP_PLAN_H
#define KG_APP_PLAN_H

#include "app/app.h"

enum { PLAN_POINTERS = 64, PLAN_GLOBALS = 64, PLAN_NESTED = 256, PLAN_ARGUMENTS = 32768 };

struct plan_pointer {
    uint16_t param, offset;
    uint32_t at; /* in the packed parameters */
    bool known;  /* [low, high) around its value holds all that is touched; low == high: nothing */
    bool written, scan; /* or it may be; addresses may stand in what it leads to */
    int64_t low, high;
    const char *why; /* not known: the reason … */
    uint32_t line;   /* … and the PTX's line, 0: none */
};

/* What pointers in memory led to at an earlier launch: from an address to its allocation's end. */
struct plan_nested {
    uint64_t address, allocation, size;
};

struct plan {
    struct kg_launch launch;
    bool any; /* launches differ too much: good for every one, and nothing is known */
    uint32_t arg_count;
    unsigned char *args;    /* of the launch that it was made for */
    unsigned char *matters; /* mask: a launch with other bytes here needs a plan of its own */
    uint32_t pointer_count;
    struct plan_pointer pointers[PLAN_POINTERS];
    bool globals_written[PLAN_GLOBALS]; /* by number in the model; or may be */
    bool nested;                        /* addresses come from memory … */
    uint32_t nested_line;               /* … at this line */
    bool nested_written;                /* or may be */
    bool scan_globals, scan_nested;     /* addresses may stand there, too */
    uint32_t nested_count;
    struct plan_nested led[PLAN_NESTED];

    unsigned missed;         /* launches that it did not fit */
    unsigned remade;         /* plans before it that no launch fitted */
    unsigned rounds;         /* captures that found addresses to what was not captured */
    unsigned taken;          /* captures in the spool */
    _Atomic uint64_t due_ns; /* when another one is wanted; 0: none */
};

/* The packed parameters are args. NULL: out of memory. ptx NULL, or what cannot be analysed: a plan
 * in which nothing is known. */
struct plan *plan_make(const struct kernel_model *model, const struct kg_bytes *ptx,
                       const struct kg_launch *launch, const unsigned char *args, uint32_t size);
/* A plan for any launch. */
struct plan *plan_make_any(const struct kernel_model *model, const char *why);
bool plan_fits(const struct plan *plan, const struct kg_launch *launch, const unsigned char *args,
               uint32_t size);
/* Whether all that `exact`, made for one launch, may touch lies in what `plan` has for it: a plan
 * holds for the pointers' values that it was made with, and is trusted with others after this. */
bool plan_contains(const struct plan *plan, const struct plan *exact);
void plan_free(struct plan *plan); /* NULL is fine */

#endif
