/* The memory: bytes in, bytes out; knows no GPU. The store is the worker's LMDB environment (one
 * writer); a snapshot is an immutable compact LMDB file made from it, one per hardware key, and the
 * only form that an app opens.
 *
 * Lifetimes: what a *_get or *_find call gives is the caller's own copy, freed as its comment says.
 * Records are versioned, little endian and checksummed (a BLAKE2b-256 at their end); a damaged one
 * is KG_CORRUPT, never a crash. */
#ifndef KG_CACHE_H
#define KG_CACHE_H

#include "kgenrt.h"

enum { VARIANT_GLOBALS = 16 };

/* A variant as the cache keeps it. Owns its memory through the arena. */
struct kg_variant {
    struct kg_arena arena;
    struct kg_id id; /* over all that decides what runs: code, entry, launch, signature, globals */
    struct kg_id hardware; /* key */
    struct kg_id kernel;
    struct kg_signature signature; /* guard: the launches it was verified for */
    struct kg_launch launch;       /* of the variant */
    const char *maker;             /* "rules", "openai", "recorded" */
    const char *entry;             /* of the variant's own code */
    const char *kernel_name; /* original's mangled name where it was seen first: for people only */
    const char *note;        /* what the maker says of it */
    const char *accuracy;    /* mode under which it was verified: "bitwise", "rel:1e-5" */
    bool exact;              /* in all comparisons of its verification equal bit for bit */
    uint32_t global_count;   /* originals' globals whose addresses are appended to the parameters */
    const char *globals[VARIANT_GLOBALS];
    struct kg_id code;     /* blob: cubin for the exact architecture (PTX on the software GPU) */
    struct kg_id source;   /* blob: CUDA C++ or PTX source as made; all zero: none */
    struct kg_id ptx;      /* blob; all zero: none */
    struct kg_id recipe;   /* blob: the reply's JSON block, whose expressions give launch and guards
                              for another signature; all zero: the launch stands as it is */
    struct kg_id evidence; /* blob: JSON text: what was checked, inputs, results, both timings */
    double original_ns, variant_ns, ratio, low,
        high; /* ratio of medians original/variant, 95% interval */
    int driver_version, compiler_version;
    uint64_t time; /* seconds since 1970 */
};
void variant_free(struct kg_variant *variant);
/* Fills variant->id from the other fields. */
void variant_identify(struct kg_variant *variant);
/* Record form, and back. parse: KG_CORRUPT on damage, KG_UNSUPPORTED on another format version. */
kg_status variant_pack(const struct kg_variant *variant, struct kg_bytes *out);
kg_status variant_parse(const void *data, size_t size, struct kg_variant *out);

/* Digest of a signature, the key beside hardware and kernel. */
void signature_id(const struct kg_signature *signature, struct kg_id *out);

/* A verdict against a candidate, or a job that led to nothing: kept so that it is not tried for
 * ever, and shown. */
struct kg_rejection {
    struct kg_id hardware, kernel, signature;
    char kernel_name[512], maker[64], gate[32], reason[1024];
    struct kg_id candidate;  /* blob: the candidate's source; all zero: none */
    double ratio, low, high; /* of gate "time", else 0 */
    int driver_version;      /* it was judged under; 0: an older record, not known */
    uint64_t time;
    struct kg_id evidence; /* blob: JSON as a variant's, of a refusal in a replay; all zero: none */
};

/* A kernel as a worker met it. */
struct kg_kernel_note {
    struct kg_id hardware, kernel;
    char name[512], program[256], ineligible[128];
    double app_ns, app_share;
    uint64_t time;
    struct kg_id ptx; /* blob: the module's PTX; all zero: none */
    struct kg_id
        launch; /* blob: JSON of the launch met last (runtime/tune/job.c); all zero: none */
};

/* A job: a capture's way through the worker. state: the step's name, "done", "failed", or that its
 * capture waits in the spool until a replay may be made. */
#define JOB_WAITING "waiting"
struct kg_job_note {
    struct kg_id hardware, kernel, signature;
    char kernel_name[512], state[32], detail[512];
    uint64_t time;
};

struct store;

/* Opens (makes) DIR/store. Nobody waits for long: readers see the last whole state, a writer waits
 * for another's transaction. KG_NOT_FOUND if it is only to be read and is not there; KG_BUSY when
 * LMDB's table of readers is full; KG_DENIED on unsafe ownership; KG_UNSUPPORTED on a network file
 * system. read_only: for the command line. One store a process. */
kg_status store_open(const char *dir, bool read_only, struct store **out);
void store_close(struct store *store);

kg_status store_put_blob(struct store *store, const void *data, size_t size, struct kg_id *out);
kg_status store_get_blob(struct store *store, const struct kg_id *id, struct kg_bytes *out);
kg_status store_put_hardware(struct store *store, const struct kg_hardware *hardware);
kg_status store_put_kernel(struct store *store, const struct kg_kernel_note *note);
kg_status store_put_job(struct store *store, const struct kg_job_note *note);
kg_status store_put_rejection(struct store *store, const struct kg_rejection *rejection);
/* Stores the variant, and makes it the best of its hardware, kernel and signature if its ratio
 * beats the present one's; a tie goes to the earlier. Both in one transaction. */
kg_status store_put_variant(struct store *store, const struct kg_variant *variant, bool *is_best);
/* Takes the variant out of `best`, keeps it in `variants`. In its place comes the next best of the
 * same key that was verified under the same driver version and is not demoted itself, if there is
 * one. */
kg_status store_demote(struct store *store, const struct kg_id *variant, const char *reason);

/* Walks; the record is the walker's only for the call. Return false from each to stop. Do not write
 * to the store from inside a walk (KG_BUSY). Damaged records are passed over; the walk is then
 * KG_CORRUPT after all sound ones were seen. */
kg_status store_each_variant(struct store *store,
                             bool (*each)(void *self, const struct kg_variant *v, bool best),
                             void *self);
kg_status store_each_rejection(struct store *store,
                               bool (*each)(void *self, const struct kg_rejection *r), void *self);
kg_status store_each_kernel(struct store *store,
                            bool (*each)(void *self, const struct kg_kernel_note *k), void *self);
kg_status store_each_job(struct store *store, bool (*each)(void *self, const struct kg_job_note *j),
                         void *self);
kg_status store_each_hardware(struct store *store,
                              bool (*each)(void *self, const struct kg_id *key,
                                           const struct kg_hardware *h),
                              void *self);

/* ---- snapshots ---------------------------------------------------------------------------------
 */

/* Writes DIR/snapshots/<hardware key>-<digest of the file>.kgs, then renames
 * DIR/snapshots/<hardware key>.current, a small text file that names it, into place, and removes
 * older snapshots but the one before. */
kg_status snapshot_make(struct store *store, const char *dir, const struct kg_id *hardware);

struct snapshot;

/* Opens the current snapshot of a hardware key: ownership and the whole file's digest are checked
 * by reading before anything is mapped; read-only, without lock file. KG_NOT_FOUND if there is
 * none. Safe in the app. Calls on an open snapshot may come from several threads. */
kg_status snapshot_open(const char *dir, const struct kg_id *hardware, struct snapshot **out);
/* The same of the snapshot with this digest, current or not. */
kg_status snapshot_open_named(const char *dir, const struct kg_id *hardware,
                              const struct kg_id *digest, struct snapshot **out);
void snapshot_close(struct snapshot *snapshot);
/* Digest that names the snapshot's file: changes when there is a new one. */
const struct kg_id *snapshot_id(const struct snapshot *snapshot);
/* Digest that the current file names, without opening the snapshot: one small read. */
kg_status snapshot_current(const char *dir, const struct kg_id *hardware, struct kg_id *out);
/* Whether there is a current file that is not the one at the last call with this mark, at first all
 * zero. Opens nothing: the app may at this moment count on the number of its next descriptor. */
struct snapshot_mark {
    uint64_t inode, device, time_ns;
};
bool snapshot_changed(const char *dir, const struct kg_id *hardware, struct snapshot_mark *mark);
/* Kernels that have a variant. */
size_t snapshot_kernel_count(const struct snapshot *snapshot);
/* Each best variant of the kernel (one a signature); the variant is the walker's only for the call.
 */
kg_status snapshot_each(const struct snapshot *snapshot, const struct kg_id *kernel,
                        bool (*each)(void *self, const struct kg_variant *variant), void *self);
/* A blob, decompressed and checked against its id; free with bytes_free. */
kg_status snapshot_blob(const struct snapshot *snapshot, const struct kg_id *id,
                        struct kg_bytes *out);

/* ---- snapshots that a program's processes share -------------------------------------------------
 */

/* DIR/bound/<job>: the first process of a job names the snapshot that it begins with, the others
 * take the same; the file is made whole and by one process only. offer: all zero for "none". */
kg_status bound_take(const char *dir, const struct kg_id *job, const struct kg_id *offer,
                     struct kg_id *out);
/* Removes names that are older than a day; whether a younger one is of this snapshot. For those who
 * remove snapshots. */
bool bound_holds(const char *dir, const struct kg_id *snapshot);

/* ---- doubts about variants in use ---------------------------------------------------------------
 */

#define DOUBT_SUFFIX ".doubt"

/* A variant differed from its original in a program, or (not `differed`) cannot be checked there:
 * the worker is asked to look at it again, on a capture that the program makes besides. */
struct kg_doubt {
    struct kg_id variant, hardware, kernel, signature;
    bool differed;
    int pid;
    uint64_t time; /* seconds since 1970 */
    char program[256], reason[256];
};
/* A later doubt about the same variant takes the place of an earlier one. */
kg_status doubt_put(const char *dir, const struct kg_doubt *doubt);
void doubt_remove(const char *dir, const struct kg_id *variant);
/* Those that wait, at most so many; how many. Files that are none are removed. */
unsigned doubts_read(const char *dir, struct kg_doubt *out, unsigned most);
/* DIR/looked/<variant id>: a variant that programs cannot check was verified again on a capture of
 * one of them; that holds for a week. */
void looked_put(const char *dir, const struct kg_id *variant);
bool looked_holds(const char *dir, const struct kg_id *variant);

/* ---- kernels judged without gain ---------------------------------------------------------------
 */

/* The worker notes that no maker had a faster variant of the kernel; the app asks, and does not
 * capture it again. Holds for 7 days, and while the driver's version, kgenrt's, KGENRT_MAKERS (with
 * the endpoint, and the content of folders of replies) and KGENRT_ACCURACY are the same in both. */
kg_status judged_put(const char *dir, const struct kg_id *hardware, const struct kg_id *kernel,
                     int driver_version);
bool judged_holds(const char *dir, const struct kg_id *hardware, const struct kg_id *kernel,
                  int driver_version);
void judged_remove(const char *dir, const struct kg_id *hardware, const struct kg_id *kernel);

/* ---- flight recorders
 * ---------------------------------------------------------------------------- */

/* What a process writes about itself: DIR/flight/<pid>-<start>.kgf. The app writes it
 * (runtime/app/flight.c) by single pwrite calls, never through a mapping (a full disk must not
 * become a SIGBUS in the app); `kgenrt status` reads it. Text, one JSON object: form documented in
 * flight.c; parsed by the command line with jansson. The file stays locked (flock) as long as its
 * process lives. */

#endif
