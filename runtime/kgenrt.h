/* The nouns of kgenrt that its parts share: status, identifiers, hardware, launch, signature; and
 * the small base services: options, log, files. Read it second, after README.md.
 *
 * Only the base lives here: nothing in this header touches a GPU, and everything in it may be used
 * in the app's process (no exit, no abort, no output but the log). */
#ifndef KGENRT_H
#define KGENRT_H

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KG_VERSION "0.1.0"

typedef enum kg_status {
#define STATUS(name, text) name,
#include "status.def"
#undef STATUS
    KG_STATUS_COUNT
} kg_status;

/* Static text of a status, never NULL. */
const char *status_text(kg_status status);

/* ---- identifiers ---------------------------------------------------------------------------- */

#define KG_ID_BYTES 32
#define KG_ID_TEXT (2 * KG_ID_BYTES + 1)

/* A BLAKE2b-256 digest: of a kernel, a hardware key, a signature, a variant or a blob. */
struct kg_id {
    uint8_t bytes[KG_ID_BYTES];
};

bool id_equal(const struct kg_id *a, const struct kg_id *b);
/* Lower-case hexadecimal text of id; returns text. */
char *id_text(const struct kg_id *id, char text[static KG_ID_TEXT]);
/* KG_BAD_INPUT unless text is exactly 64 hexadecimal digits. */
kg_status id_parse(const char *text, struct kg_id *out);

/* Incremental BLAKE2b-256 (libsodium's crypto_generichash). hash_text adds the text and its NUL, so
 * that neighbouring fields cannot run together. */
struct kg_hash {
    _Alignas(64) unsigned char state[384];
};
void hash_begin(struct kg_hash *hash);
void hash_bytes(struct kg_hash *hash, const void *data, size_t size);
void hash_text(struct kg_hash *hash, const char *text);
void hash_u64(struct kg_hash *hash, uint64_t value);
void hash_end(struct kg_hash *hash, struct kg_id *out);
/* The digest of just these bytes. */
void hash_data(const void *data, size_t size, struct kg_id *out);

/* ---- hardware -------------------------------------------------------------------------------- */

/* What makes machine code and its speed specific to a device. */
struct kg_hardware {
    char vendor[16];   /* "nvidia", "amd" or "softgpu" */
    char name[96];     /* as the driver names the device */
    char arch[16];     /* "sm_90" */
    char mig[64];      /* MIG slice, empty without MIG */
    uint32_t sm_count; /* multiprocessors (compute units) */
    uint32_t bus_bits; /* memory bus width, bits */
    uint64_t l2_bytes;
    uint64_t memory_bytes; /* rounded down to whole GiB: it varies a little between boards */
    char uuid[48];         /* this very device, "GPU-…"; not part of the key */
    int driver_version;    /* as cuDriverGetVersion gives it; not part of the key */
};
/* Hardware key: digest of all fields that are part of it. */
void hardware_key(const struct kg_hardware *hardware, struct kg_id *out);

/* ---- launches -------------------------------------------------------------------------------- */

struct kg_dim {
    uint32_t x, y, z;
};

struct kg_launch {
    struct kg_dim grid;  /* blocks */
    struct kg_dim block; /* threads */
    uint32_t shared;     /* dynamic shared memory, bytes a block */
};

/* Place of one parameter in the packed parameter buffer, in bytes. */
struct kg_param {
    uint32_t offset, size;
};

/* A scalar that a variant relies on: `size` bytes (1 to 8) at `offset` bytes inside parameter
 * `param`, little endian in the low bytes of value. What the launch passes, less value, in
 * arithmetic of that many bytes, must be at most span: with span 0 the scalar is pinned to its
 * value, else it is in a range of span + 1 values. Longer by-value structs give several; scalars
 * that may have any value, and bytes that nobody reads, give none. */
struct kg_scalar {
    uint16_t param, offset, size;
    uint64_t value, span;
};

/* The bits that a scalar of 1 to 8 bytes has. */
static inline uint64_t scalar_mask(unsigned size)
{
    return UINT64_MAX >> (64 - 8 * size);
}

enum { KG_READ = 1, KG_WRITTEN = 2 };

/* A device pointer inside parameter `param` at `offset` bytes: it must be a multiple of align, and
 * the kernel may touch the bytes [value + low, value + high), in the ways that access names (0: not
 * known, so in both). */
struct kg_pointer {
    uint16_t param, offset, align, access;
    int64_t low, high;
};
static inline bool pointer_written(const struct kg_pointer *pointer)
{
    return pointer->access != KG_READ;
}

/* Pointers a and b (indices, a < b), one of them written, whose reach overlapped in the capture:
 * their difference b - a, in bytes, must be just this. All other pairs of which one is written must
 * be disjoint. */
struct kg_overlap {
    uint16_t a, b;
    int64_t delta;
};

/* What a launch must look like for a variant to be used: see the design's "launch signature". */
struct kg_signature {
    struct kg_launch launch; /* of the original */
    uint32_t scalar_count, pointer_count, overlap_count;
    struct kg_scalar *scalars;
    struct kg_pointer *pointers;
    struct kg_overlap *overlaps;
};

/* ---- writing in a stranger's process ----------------------------------------------------------
 */

/* Between the two, a write to a closed pipe or beyond a limit of sizes fails, and is no signal. */
struct kg_quiet {
    sigset_t before, ours;
    bool blocked;
};
void quiet_begin(struct kg_quiet *quiet);
void quiet_end(const struct kg_quiet *quiet);

/* ---- options --------------------------------------------------------------------------------- */

struct kg_options {
#define OPT_INT long
#define OPT_TEXT const char *
#define OPT(type, field, variable, value, text) OPT_##type field;
#include "options.def"
#undef OPT
#undef OPT_INT
#undef OPT_TEXT
};

/* The process's options, read from the environment once, at the first call; never changes
 * afterwards. Texts live as long as the process. Thread-safe. A bad value logs one warning and
 * gives the default. */
const struct kg_options *options(void);
/* One line an option: variable, value in force, default, description. For doctor and the README
 * test. */
void options_each(void (*row)(void *self, const char *variable, const char *value,
                              const char *standard, const char *text),
                  void *self);

enum kg_mode { KG_MODE_OFF, KG_MODE_OBSERVE, KG_MODE_CACHED, KG_MODE_TUNE, KG_MODE_COUNT };
extern const char *const mode_names[KG_MODE_COUNT];
/* False unless text is one of the names. */
bool mode_parse(const char *text, enum kg_mode *out);
/* Of KGENRT_MODE; what is none of the names is said each time, and means off. */
enum kg_mode options_mode(void);

/* How near a variant's results must be to the original's, where these are floating point by what is
 * computed; all else is compared bit for bit in every mode. */
enum accuracy_mode {
    ACCURACY_BITWISE,
    ACCURACY_AUTO, /* a bound an element, measured on the original: see tune/bound.c */
    ACCURACY_ULP,  /* at most `limit` units in the last place of the original's value */
    ACCURACY_REL,  /* at most `limit` times the original's value */
};
struct accuracy {
    enum accuracy_mode mode;
    double limit;
    bool ends_alike; /* NaN for an infinite result, or the other way round, passes: only for inputs
                        with infinities that were drawn, where another order meets inf - inf */
};
/* "bitwise", "auto", "ulp:N" with 0 < N <= 65536, "rel:X" with 0 < X < 1, whatever the locale.
 * False unless it is one of these; then out is bitwise. */
bool accuracy_parse(const char *text, struct accuracy *out);
/* Whether what was verified under `has` is near enough for who asks for `wanted`. */
bool accuracy_suits(const struct accuracy *has, const struct accuracy *wanted);

/* Folder of the cache, without a slash at its end (see KGENRT_CACHE); empty when there is no home.
 */
const char *cache_dir(void);

/* ---- log ------------------------------------------------------------------------------------- */

enum kg_level { KG_ERROR, KG_WARN, KG_INFO, KG_DEBUG };

/* One line "kgenrt[pid] level: …" by a single write(2) from a stack buffer; no allocation, no lock.
 * At most 200 lines of warn and above a process, so that a broken machine cannot flood an app's
 * output. */
void log_line(enum kg_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool log_wanted(enum kg_level level);

/* ---- files ----------------------------------------------------------------------------------- */

/* Owned bytes; free with bytes_free. data has a NUL after size, not counted. */
struct kg_bytes {
    unsigned char *data;
    size_t size;
};
void bytes_free(struct kg_bytes *bytes);

/* Whole regular file into memory, at most limit bytes (KG_LIMIT above it). */
kg_status file_read(const char *path, size_t limit, struct kg_bytes *out);
/* Writes path by a temporary file beside it, fsync and rename: readers see the old or the new file.
 */
kg_status file_write(const char *path, const void *data, size_t size, unsigned mode);
/* All the bytes to a descriptor, whatever interrupts; false, with errno, if that fails. */
bool write_all(int fd, const void *data, size_t size);
/* mkdir -p with mode 0700; KG_DENIED if the last folder belongs to somebody else, or is writable by
 * others. */
kg_status dir_make(const char *path);
/* Whether a file belongs to this user or root and nobody else may write it. */
struct stat;
bool stat_trusted(const struct stat *info);
/* The same of an open file: KG_DENIED, with a line, if not. */
kg_status file_trusted(int fd, const char *path);
/* Whether another open file holds an exclusive flock on path: flight recorders and workers are
 * alive as long as they do. Asking takes the lock for a moment, if nobody has it. */
bool file_locked(const char *path);
/* Whether text ends with suffix and is longer. */
bool text_ends(const char *text, const char *suffix);
/* snprintf into a fixed path buffer; KG_LIMIT if it does not fit. */
#define KG_PATH 1024
kg_status path_make(char out[static KG_PATH], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- arena ----------------------------------------------------------------------------------- */

/* Memory that goes with its owner: allocate, never free singly. Not thread-safe. Zeroed memory.
 * arena_alloc returns NULL when memory is out. */
struct kg_arena {
    struct arena_block *blocks;
};
void *arena_alloc(struct kg_arena *arena, size_t size);
char *arena_copy(struct kg_arena *arena, const char *text, size_t length); /* NUL-terminated copy */
char *arena_format(struct kg_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void arena_free(struct kg_arena *arena);

/* Monotonic nanoseconds. */
uint64_t now_ns(void);

#endif
