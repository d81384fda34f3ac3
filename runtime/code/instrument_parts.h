/* Between the files of the instrumenter only: instrument.c walks modules and functions,
 * instrument_access.c rewrites accesses, instrument_order.c barriers, fences, branches, calls. */
#ifndef KG_INSTRUMENT_PARTS_H
#define KG_INSTRUMENT_PARTS_H

#include <stdio.h>

#include "instrument.h"
#include "parts.h"

struct rewriting {
    const char *source;
    const struct ptx_module *module;
    const struct ptx_func *entry, *func; /* func: the one being written */
    const struct instrument_options *options;
    struct instrumented *out;
    struct needs needs;
    struct kg_arena arena;
    FILE *to;
    uint32_t cursor; /* bytes of the source already written or left out */
    uint32_t number; /* of the next name that must be one of its own */
    unsigned smallest_global, smallest_shared;
    kg_status status; /* the first failure */
};

/* `info` of the helpers: the access's size and these, as in instrument_device.cu. */
enum {
    INFO_READ = 0x100,
    INFO_WRITE = 0x200,
    INFO_ATOMIC = 0x400,
    INFO_STRONG = 0x800,
    INFO_RELEASE = 0x1000,
    INFO_VOLATILE = 0x2000,
    INFO_SHARED = 0x10000,
    INFO_LOCAL = 0x20000,
    INFO_CONST = 0x30000,
    INFO_GENERIC = 0x40000,
};

/* KG_NOT_ELIGIBLE with a reason; the first one stands. */
void refuse(struct rewriting *work, const struct ptx_instr *instr, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool wants(const struct rewriting *work, unsigned what);
/* The instruction's text from its operation on, without its guard. */
const char *bare_text(const struct rewriting *work, const struct ptx_instr *instr, int *length);
/* "@%p1 ", "@!%p1 " or nothing. */
const char *guard_of(struct rewriting *work, const struct ptx_instr *instr);
const char *reg_text(struct rewriting *work, uint32_t reg);
/* Has something behind the operation's place in the text. The source before it is already written;
 * each returns true when it wrote the instruction itself. */
bool rewrite_access(struct rewriting *work, const struct ptx_instr *instr);
bool rewrite_order(struct rewriting *work, const struct ptx_instr *instr, uint32_t index);
/* Whether a branch may go to itself or back. */
bool goes_back(const struct ptx_func *func, const struct ptx_instr *instr, uint32_t index);

#endif
