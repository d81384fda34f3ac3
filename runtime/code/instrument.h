/* Instrumentation of one entry by rewriting its PTX: the same results, and a record of which bytes
 * it reads and writes; or each access checked against ranges of memory and not performed outside
 * them; or conflicting accesses found. Text to text: who runs the text lays out the structures
 * below in device memory (tune/observe.h does) and puts their addresses into the text's variable
 * kgi_state. What cannot be instrumented exactly makes the whole entry KG_NOT_ELIGIBLE with a
 * reason; nothing is passed over in silence. Control flow, predicates, barriers and warp operations
 * of the original stay as they are.
 *
 * What race tags see: each granule of memory remembers its last writer and up to two readers, with
 * block, thread, barriers and bar.warp.syncs passed. Order between blocks, and under locks, comes
 * from fences and atomics: an atomic or strong write publishes what its thread fenced, and what its
 * block did before the barrier behind which it fenced; an atomic or strong read acquires all that
 * was published before it. So a report is a conflict that really was unordered in this run, with
 * two exceptions that the tests have none of: partial barriers of a warp that nest, and locks built
 * on something else than atomics. No report is no proof: a race can hide behind a third access,
 * behind an order that came about by chance, a fence of one thread for all at a barrier, copies
 * (cp.async) that are read before they were waited for, or more barriers than a tag can count. */
#ifndef KG_INSTRUMENT_H
#define KG_INSTRUMENT_H

#include "code.h"

enum instrument_what {
    /* Sets of bytes read and written, of global and constant memory; atomics are in both. */
    INSTRUMENT_RECORD = 1,
    /* Every access against its ranges (shared and local ones against the entry's variables); an
     * offending one is not performed, a load then gives 0. Branches backward and calls are counted:
     * a thread that exceeds its budget is reported and ends. */
    INSTRUMENT_CHECK = 2,
    /* Conflicting accesses without order between them, in global and shared memory. */
    INSTRUMENT_RACES = 4,
};

struct instrument_options {
    unsigned what;
    struct kg_dim block; /* threads of the launch: the code must fit their registers; 0: any */
};

struct instrumented {
    struct kg_arena arena;
    struct kg_bytes text;                   /* PTX */
    unsigned what, accesses;                /* accesses: instructions rewritten */
    uint8_t global_granule, shared_granule; /* bytes, 1 to 4: smallest access, for race cells */
    /* Constant variables that it names: their addresses as the code sees them stand in the text's
     * variable kgi_consts, 8 bytes each in this order. */
    uint32_t const_count;
    const char **consts;
    uint64_t *const_sizes;
    char reason[256]; /* of KG_NOT_ELIGIBLE, with its line */
};

/* KG_NOT_FOUND: no such entry. Free with instrumented_free, also after a failure. */
kg_status ptx_instrument(const char *ptx, const char *entry,
                         const struct instrument_options *options, struct instrumented *out);
void instrumented_free(struct instrumented *instrumented);

/* Digest of the helpers that go into every text: with what was checked, goes who checked. */
void instrument_digest(struct kg_id *out);

/* ---- in device memory, as the text sees it ----------------------------------------------------
 */

enum { INSTRUMENT_READ = 1, INSTRUMENT_WRITE = 2 };

/* Memory that may be touched; sorted by begin, disjoint. Bitmaps have a bit a byte, the first one
 * for begin rounded down to 32; cells likewise one a granule. Addresses of 0: not kept. */
struct instrument_range {
    uint64_t begin, end, reads, writes, cells;
    uint32_t rights, pad;
};

enum instrument_flags {
    INSTRUMENT_CONTAIN = 1, /* do not perform offending accesses */
    INSTRUMENT_MARK = 2,    /* fill bitmaps */
    INSTRUMENT_SPACES = 4,  /* look at shared and local accesses */
};

enum instrument_kind { /* of a report, in the low 8 bits of `kind` */
                       INSTRUMENT_OUTSIDE = 1,
                       INSTRUMENT_MISALIGNED,
                       INSTRUMENT_DENIED, /* write to memory that may only be read, or the reverse
                                           */
                       INSTRUMENT_BUDGET,
                       INSTRUMENT_RAW, /* a read after an unordered write */
                       INSTRUMENT_WAR,
                       INSTRUMENT_WAW,
};
extern const char *const instrument_kinds[]; /* texts */

struct instrument_report {
    uint64_t
        address; /* in its space: bits 16 and 17 of kind: 0 global, 1 shared, 2 local, 3 const */
    uint32_t kind, size, line, block[3], thread[3];
    uint32_t other_block, other_thread, other_line; /* of a race: linear numbers; line 0: unknown */
};

enum { INSTRUMENT_REPORTS = 64 }; /* the first ones are kept */
struct instrument_reports {
    uint32_t count, same_value; /* same_value: unordered writes of equal values were seen */
    uint32_t most, pad; /* branches backward and calls of the thread that made most, in a check */
    struct instrument_report list[INSTRUMENT_REPORTS];
};

struct instrument_block { /* of one block, for the order between blocks; zero at first */
    uint32_t count, acquired;
    uint64_t ring[8];
};

struct instrument_cell { /* of a granule; zero at first */
    uint64_t writer, readers[2];
    uint32_t write_line, read_line;
};

enum { INSTRUMENT_NEAR = 4 };
struct instrument_state {
    uint32_t flags, budget; /* budget: branches backward and calls of a thread */
    uint32_t range_count, const_count;
    uint64_t ranges, consts, reports, blocks, clock; /* clock: 4 bytes, 0 at first */
    uint64_t shared_cells; /* shared_slots times shared_count cells: a slot a block, by turns */
    uint32_t block_count, shared_slots, shared_count;
    uint32_t global_shift, shared_shift, pad;
    /* Where there are so few: the ranges, then the constant ones, again; others are zero. */
    struct instrument_range near[2 * INSTRUMENT_NEAR];
};

#endif
