/* The PTX corpus: kernels written for the tests of the PTX library and of the software GPU. Each
 * file in this folder says in its first line what it is for; .cu files are compiled by nvcc when
 * the tests are built (none without nvcc), .ptx files are written by hand. All of them lie as
 * CORPUS_DIR/NAME.ptx then.
 *
 * corpus.def has a row a runnable kernel: its launch, arguments and buffers. A test that wants
 * every kernel with real arguments does
 *
 *     for (unsigned i = 0; i < corpus_count; i++) {
 *         struct corpus_case c;
 *         if (!corpus_open(&corpus[i], &c))      // not compiled here: no nvcc
 *             continue;
 *         corpus_fill(&c, 1);                    // the same bytes for the same seed
 *         corpus_run(&c, NULL, NULL, &result);   // or another text of the same kernel
 *         corpus_close(&c);
 *     }
 *
 * One case may be open at a time a thread. */
#ifndef KG_TEST_CORPUS_H
#define KG_TEST_CORPUS_H

#include "code/ptx.h"
#include "softgpu/exec.h"

enum { CORPUS_ARGS = 12, CORPUS_PARAM_BYTES = 4096 };

enum corpus_kind {
    CORPUS_END, /* of the arguments */
    CORPUS_INTEGER,
    CORPUS_REAL,
    CORPUS_POINTER, /* to a buffer of its own */
    CORPUS_ALIAS,   /* to the buffer of argument `other` */
};
enum corpus_fill {
    CORPUS_POISON, /* 0x7e: what must be written before it is read, or is output only */
    CORPUS_ZERO,
    CORPUS_RANDOM,   /* floats in [-1, 1), integers of all bits */
    CORPUS_BELOW,    /* random integers in [0, limit) */
    CORPUS_RISING,   /* 0, 1, 2, ... */
    CORPUS_OFFSETS,  /* rows of a CSR matrix: from 0 to limit, rising, uneven */
    CORPUS_POINTERS, /* 64-bit addresses, evenly spread over the buffer of argument `other` */
    CORPUS_CHAIN,    /* each first word of 16 bytes points to another 16 bytes; the last: NULL */
};

struct corpus_arg {
    uint8_t kind;  /* enum corpus_kind */
    uint8_t type;  /* enum ptx_type of a scalar or of a buffer's elements */
    uint8_t fill;  /* enum corpus_fill */
    bool output;   /* the kernel writes this buffer */
    bool within;   /* a field of the parameter before it: structs by value */
    uint8_t other; /* index of an argument before this one, or of itself */
    uint32_t count;
    int64_t shift; /* bytes added to the buffer's address */
    int64_t integer;
    double real;
    uint64_t limit;
};

/* What is special about an entry. */
enum corpus_trait {
    CORPUS_ORDER = 1,        /* the result depends on the order of threads (float atomics) */
    CORPUS_FAULTS = 2,       /* the launch ends in a trap or an assertion */
    CORPUS_RACES = 4,        /* a data race was put in */
    CORPUS_SPINS = 8,        /* waits for memory that another block writes */
    CORPUS_UNRUN = 16,       /* the software GPU answers EXEC_UNSUPPORTED: not yet implemented */
    CORPUS_CLOCK = 32,       /* reads a clock, %smid or the like: not the same twice */
    CORPUS_CONTAINED = 64,   /* every access is inside its argument's own buffer */
    CORPUS_APPROXIMATE = 128 /* uses operations whose last bits are the device's own business */
};

struct corpus_entry {
    const char *file;  /* name without folder and suffix */
    const char *entry; /* of the kernel */
    struct kg_launch launch;
    unsigned traits; /* enum corpus_trait */
    struct corpus_arg args[CORPUS_ARGS];
};
extern const struct corpus_entry corpus[];
extern const unsigned corpus_count;

struct corpus_buffer {
    uint64_t base, size; /* device address (a host address), bytes */
    const struct corpus_arg *arg;
    uint32_t param, offset; /* where its pointer is passed: parameter, bytes in the parameter */
    uint64_t value;         /* the pointer passed: base + shift */
};

struct corpus_case {
    const struct corpus_entry *entry;
    struct kg_bytes text; /* PTX of the whole file, NUL after it */
    struct ptx_module module;
    struct ptx_func *func;
    unsigned char params[CORPUS_PARAM_BYTES]; /* packed; valid after corpus_open */
    uint32_t param_bytes;
    uint32_t buffer_count, pointer_count;
    struct corpus_buffer buffers[CORPUS_ARGS];  /* memory, each once */
    struct corpus_buffer pointers[CORPUS_ARGS]; /* as passed: aliases too */
};

/* False, with nothing to close, if the file was not compiled because there was no nvcc; anything
 * else that fails is printed and ends the test program. */
bool corpus_open(const struct corpus_entry *entry, struct corpus_case *out);
void corpus_close(struct corpus_case *c); /* closed and zeroed ones are fine */

/* Buffers as before the launch. */
void corpus_fill(struct corpus_case *c, uint64_t seed);
/* One number over all the buffers' bytes. */
uint64_t corpus_hash(const struct corpus_case *c);

/* Launches the entry of `text` (NULL: the case's own) on the software GPU; config: NULL, or
 * everything but the launch is taken from it. The result's fault is EXEC_UNSUPPORTED, with a text,
 * where the software GPU does not take the module. */
void corpus_run(const struct corpus_case *c, const char *text, const struct exec_config *config,
                struct exec_result *out);

/* For those who load modules themselves (instrumented ones with more parameters, say): the case's
 * buffers, and blocks of alloc, are valid device memory. */
extern const struct exec_memory corpus_memory;

/* Every file, runnable or not: the path of number `index`, NULL past the last. Sorted; valid until
 * the next call. */
const char *corpus_path(unsigned index);

#endif
