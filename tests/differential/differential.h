/* The differential test: a corpus of PTX rows, one entry each, run through the driver API on
 * whatever libcuda.so.1 is found, so that a GPU and the software GPU can be compared.
 *
 * A row is text such as "add.sat.s32 >, <, <": ">" is a result, "<" an operand, of the type that
 * follows or else of the instruction's last one; "$0" means the first operand again, "^0" the first
 * result; "(a|b)" stands for two rows (without a bar it is text). Every thread runs the row once on
 * inputs of its own, which depend on nothing but the row's text and the thread's number. */
#ifndef DIFFERENTIAL_H
#define DIFFERENTIAL_H

#include "kgenrt.h"

enum {
    MAX_INPUTS = 40,
    MAX_OUTPUTS = 16,
    BLOCK = 128,
    CHUNK = 512, /* of the results that are not kept, a hash for so many threads */
    CHUNKS = 8
};

/* How close results must be. */
enum bound {
#define BOUND(id, ...) BOUND_##id,
#include "bounds.def"
    BOUND_COUNT
};
struct bound_row {
    unsigned raw; /* threads */
    double relative, absolute, ulps;
};
extern const struct bound_row bounds[BOUND_COUNT];

enum class_of_kind { KIND_INTEGER, KIND_FLOAT, KIND_PREDICATE };

struct kind {
    const char *name;
    uint8_t class, bits; /* of a value, or of one element of a packed one */
    uint8_t elements;
    uint8_t exponent, mantissa; /* of a float */
    uint8_t reg;                /* bits of the register that holds it: 16, 32, 64; 1: a predicate */
};

struct operand {
    const struct kind *kind;
    char generator; /* enum generator */
};

struct row {
    const char *text; /* as in the corpus, alternatives chosen */
    const char *body; /* PTX, with register names */
    uint64_t key;     /* hash of text and what else the results depend on */
    uint8_t bound;
    uint8_t input_count, output_count;
    struct operand inputs[MAX_INPUTS];
    const struct kind *outputs[MAX_OUTPUTS];
};

struct corpus {
    struct kg_arena arena;
    struct row *rows;
    unsigned count, room;
};

enum status { ROW_OK, ROW_REFUSED, ROW_FAULT, ROW_MISSING };

/* What a device made of a row. */
struct outcome {
    enum status status;
    char message[120];   /* of the device's compiler or driver */
    unsigned char *data; /* results of all threads: output after output */
};

/* corpus.c: all rows; false: the corpus is wrong, said on stderr. */
bool corpus_make(struct corpus *corpus);
bool corpus_add(struct corpus *corpus, enum bound bound, const char *text);
void corpus_free(struct corpus *corpus);
const struct kind *kind_find(const char *name, size_t length);
unsigned row_threads(const struct row *row);
unsigned row_raw(const struct row *row); /* the first threads: their results are kept as they are */
unsigned output_bytes(const struct kind *kind);
unsigned row_bytes(const struct row *row); /* results of one thread */

/* inputs.c: operand `which` of thread `thread`. */
uint64_t input_value(const struct row *row, unsigned which, unsigned thread);
uint64_t mix(uint64_t value);
/* Generator by name ("shift"), or 0. */
char generator_find(const char *name, size_t length);

/* ptx.c: text of a module of these rows; lines[i]: the first line of row i, lines[count]: the end.
 */
char *module_text(const struct row *const *rows, unsigned count, unsigned *lines);

/* device.c */
struct device;
struct device *device_open(void); /* NULL: none, said on stderr */
const char *device_name(const struct device *device);
void device_close(struct device *device);
/* Runs rows; outcomes[i].data is given room by the caller. */
bool device_run(struct device *device, const struct row *const *rows, unsigned count,
                struct outcome *outcomes);

/* stored.c: results in a file. */
struct stored {
    enum status status;
    char message[120];
    const unsigned char *raw; /* row_raw threads, output after output */
    const unsigned char *hashes;
};
struct store {
    struct kg_bytes bytes;
    char device[64];
    unsigned count;
};
/* Hash of results of one chunk. */
uint64_t chunk_hash(const struct row *row, const unsigned char *data, unsigned chunk);
bool store_write(const char *path, const char *device, const struct corpus *corpus,
                 const struct outcome *outcomes);
bool store_read(const char *path, struct store *out);
struct stored store_find(const struct store *store, const struct row *row);

/* compare.c: of how many threads a row's results are compared: all, or within a bound the kept
 * ones. */
unsigned row_compared(const struct row *row);
/* Differences of a row, and the first of them as text. */
unsigned row_compare(const struct row *row, const struct outcome *outcome,
                     const struct stored *stored, char *text, size_t size);

#endif
