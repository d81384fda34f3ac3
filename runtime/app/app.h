/* The app's side of kgenrt: records of originals, dispatch, hot kernels, capture, watcher.
 * Everything here runs in a stranger's process: no exit, abort, assert or stdout; the hot path
 * takes no lock, allocates nothing, makes no system call; whatever fails, the original runs.
 *
 * Threads: hooks run in the app's threads; one watcher thread (watch.c) does all slow work. `struct
 * kernel` records are shared: their hot fields are atomics, their cold fields belong to
 * `records_lock` holders. Records are never freed while a launch may hold one: retired ones are
 * recycled by the watcher after ten seconds. */
#ifndef KG_APP_H
#define KG_APP_H

#include <stdatomic.h>

#include "gpu/real.h"

#include "cache.h"
#include "code/code.h"
#include "kgenrt.h"

/* Why a launch of a kernel that has variants got the original. */
enum refusal {
#define REFUSAL(name, key, text) REFUSED_##name,
#include "app/refusal.def"
#undef REFUSAL
    REFUSAL_COUNT
};

/* One verified variant, ready to launch. Immutable once published. */
struct swap_entry {
    CUfunction function;     /* of the variant, already loaded */
    struct kg_launch launch; /* of the variant */
    struct kg_signature signature;
    uint32_t global_count;
    CUdeviceptr globals[VARIANT_GLOBALS]; /* addresses of the original's globals, appended to the
                                             parameters */
    struct kg_id variant;
    double ratio;
    CUlibrary library;   /* owns the code */
    struct track *track; /* how it fares in this process: app/track.h; NULL: nobody asks */
};

/* Table of guard -> variant for one original: first entry whose guard holds wins. Published by one
 * release store. */
struct swap {
    uint32_t count;
    uint32_t pinned_count;
    /* Of several entries: the scalars that each pins to one value of its own (the values here mean
     * nothing), and the entries' keys over those values and the shape (dispatch.h). A guard whose
     * key is not the launch's cannot hold. NULL: each guard is asked. */
    const struct kg_scalar *pinned;
    const uint64_t *keys;
    struct swap_entry entries[];
};

enum kernel_state {
    KERNEL_NEW,       /* seen, not identified */
    KERNEL_COLD,      /* identified, does not matter (yet) */
    KERNEL_UNFIT,     /* not eligible, or cannot be captured: `why` says it */
    KERNEL_JUDGED,    /* hot, but a worker found no faster variant of late: see judged_holds */
    KERNEL_WANTED,    /* hot: the next suitable launch is captured */
    KERNEL_CAPTURING, /* copies are under way, or the watcher writes the file */
    KERNEL_CAPTURED,  /* in the spool: the worker's turn */
    KERNEL_SWAPPED,   /* has variants */
};

/* What is to be captured of a kernel that has variants: wish.c. Kinds of launches that were
 * captured are read by launches, the rest is the watcher's. */
enum { WISHES = 64 };
struct wish {
    _Atomic uint64_t kinds[WISHES]; /* 0: none */
    atomic_bool only_new;           /* of KERNEL_WANTED: only a launch of another kind */
    atomic_bool over;               /* a launch could not be captured: why_text */
    unsigned count;
    bool said;
    bool full;                /* there are more kinds than KGENRT_SIGNATURES */
    const struct swap *since; /* what follows is counted from this table on */
    uint64_t refused, samples, looked_ns;
    double total_ns, mean_ns; /* of the process; of launches that no guard covers */
};

/* What launches count, by thread: tally.h. */
#define TALLY_COUNTERS                                                                             \
    atomic_uint_fast64_t launches;                                                                 \
    atomic_uint_fast64_t others;  /* launches that are counted in other tallies, as of late */     \
    atomic_uint_fast64_t swapped; /* launches that ran a variant */                                \
    atomic_uint_fast64_t refused[REFUSAL_COUNT];
struct tally {
    _Alignas(64) TALLY_COUNTERS
};

/* One original entry point as this process knows it. Several handles may lead here (a CUkernel and
 * its CUfunctions). */
struct kernel {
    /* hot: what launches read; seldom written */
    _Atomic(const struct swap *) swap;
    atomic_uint_fast64_t slow_at; /* the launch with this number, or any later, takes the slow path
                                     first; ~0: none. A new record has 1: its first launch */
    atomic_uint_fast64_t first_swapped; /* number of the first that ran a variant, from 1; 0 none */
    _Atomic(struct tally *) tallies;    /* TALLIES of them, for other threads than the first; or
                                           NULL */
    atomic_bool tallies_wanted;
    const struct kg_param *params; /* model.params */
    uint32_t param_count;          /* 0 until the model is known; the first cache line ends */
    union {                        /* hot: written by launches, of one thread if there are others */
        struct tally home;
        struct {
            TALLY_COUNTERS
        };
    };
    _Atomic(const struct swap_entry *) failed; /* its launch was refused by the driver; the swap is
                                                  off until kernels_tick has dropped it */

    /* cold */
    atomic_int state; /* enum kernel_state */
    const char *why;  /* of KERNEL_UNFIT; static text, or why_text */
    bool modelled;
    struct kernel_model model;
    char why_text[200]; /* where `why` is no static text */
    struct plan *plan;  /* what is captured of it: capture_app.c; NULL: not known yet */
    atomic_bool again;  /* another capture like the last one is wanted */
    atomic_bool look;   /* a capture is wanted of a launch that a variant serves: doubt.c */
    atomic_bool held;   /* captured now, or thought about: not recycled */
    char name[512];     /* mangled, cut if longer; as a capture's entry */
    struct module *module;
    /* Of a library's kernel, which is one handle for all contexts: its records for the others than
     * `context`, in any order, and the latest context that it was launched in without one. */
    _Atomic(struct kernel *) elsewhere;
    _Atomic(CUcontext) missing;
    bool is_elsewhere;                   /* this is such a record: handles lead to the first one */
    _Atomic(CUcontext) context;          /* of the module load or first sight */
    uint64_t samples;                    /* event timings taken */
    double sampled_ns[32];               /* the last of them */
    double gpu_ns;                       /* estimated GPU time of all launches */
    uint32_t max_dynamic_shared;         /* as set by the app, bytes */
    int32_t carveout;                    /* percent; -1 never set */
    int32_t cache_config, shared_config; /* as set by the app; -1 never */
    const char *left_alone;              /* for what the app set on it; static text, or NULL */
    void *handle; /* the CUkernel, of a library's: outlives contexts; NULL: not seen */
    uint64_t first_seen_ns, swapped_ns; /* now_ns of first launch and of the swap; 0 none */
    double before_ns,
        after_ns; /* median sampled time of original launches, and of variant launches */
    double after_sampled_ns[32];  /* as sampled_ns, of launches that ran a variant */
    uint64_t after_samples;       /* how many of those were taken */
    uint32_t snapshot_generation; /* of the snapshot this kernel was last looked up in; 0 none */
    bool variants_wait;           /* a snapshot may hold variants: waits for a safe point */
    atomic_bool in_capture;       /* launched into a stream capture, or part of a graph */
    bool forgotten;               /* no graph counts for it any more: graphs.c, under its lock */
    atomic_uint_fast64_t in_graphs, swapped_in_graphs; /* launches within graphs; of a variant */
    uint32_t graphs_stale, graphs_behind; /* executable graphs with a variant that is not used any
                                             more; with the original, from before its variants */
    uint64_t retired_ns;                  /* when its module died; 0 alive */
    struct track *tracks;                 /* of its variants */
    struct wish wish;
    /* Walkers skip retired records, and let go of those they hold: ten seconds later the record
     * becomes another kernel's. */
    struct kernel *next;    /* of all records */
    struct kernel *sibling; /* of the same module */
};

/* All its launches, within graphs, too. */
uint64_t kernel_launches(const struct kernel *kernel);
uint64_t kernel_swapped(const struct kernel *kernel);
uint64_t kernel_refused(const struct kernel *kernel, enum refusal why);

/* A module or library as the app loaded it. */
struct module {
    void *handle; /* CUmodule or CUlibrary */
    bool library;
    CUcontext context; /* current at load; NULL possible for libraries */
    CUdevice device;
    struct kg_bytes image; /* copy of the container (<= 16 MiB), empty if larger or unreadable */
    char why_no_image[96];
    struct kg_id cubin; /* of the cubin in image, if PTX was joined to it */
    bool in_parts;      /* image is what image_parts gave: not linked yet */
    bool joined;        /* by PTX that a compiler in this process made */
    bool asked;         /* material_tick has looked for its PTX, or kept it for the next process */
    bool selected;      /* code has been filled */
    struct image_code code;
    char jit_options[256];
    bool dead;
    uint64_t retired_ns; /* as a kernel's */
    struct kernel *kernels;
    struct module *next;
};

/* A launch as a hook got it. stream is explicit: the _ptsz hooks turn 0 into CU_STREAM_PER_THREAD,
 * the others into CU_STREAM_LEGACY, for the calls that kgenrt adds. `run` makes the original's
 * launch just as the app asked. */
struct launch {
    CUfunction function;
    struct kg_launch shape;
    CUstream stream; /* as the app gave it, for launching */
    CUstream explicit_stream;
    void **params;       /* or NULL */
    void **extra;        /* or NULL */
    unsigned attributes; /* number of config's attributes */
    CUresult (*run)(const struct launch *launch);
    const CUlaunchConfig *config; /* as cuLaunchKernelEx gets it; or NULL, without attributes */
};

/* ---- kernels.c: records and the handle table
 * ----------------------------------------------------- */

/* The record behind a CUfunction or CUkernel; NULL if unknown. Lock-free, wait-free: one hash probe
 * in practice and one acquire load. */
struct kernel *kernel_find(const void *function);

/* Hooks call these after (loading, look-up) or before (dying) the real call. None of them can fail
 * visibly. */
void module_loaded(void *handle, bool library, const void *image, const char *path,
                   const char *jit_options);
void module_dying(void *handle); /* tombstones its functions */
void context_dying(
    CUcontext context); /* and modules of this context; NULL: of all (device reset) */
void function_found(void *module, const char *name, void *function); /* look-up by name */
void function_alias(void *kernel,
                    void *function);            /* cuKernelGetFunction: both lead to one record */
void module_alias(void *library, void *module); /* cuLibraryGetModule */
void module_of_function(void *module, void *function); /* cuFuncGetModule */
/* The record behind a function that only the driver has named yet, as a CUkernel's own one in this
 * context; NULL: none. */
struct kernel *function_resolve(CUfunction function);
void function_attribute(void *function, int attribute,
                        int value); /* set by the app; mirrored onto variants */
/* "Attributes" of cuFuncSetCacheConfig and cuFuncSetSharedMemConfig. */
enum { FUNCTION_CACHE_CONFIG = -1, FUNCTION_SHARED_CONFIG = -2 };
void function_prefer(CUfunction function, int preference, int value); /* one of them */
/* A context became current somewhere. True: it was not seen before, and app_context_created is to
 * be told. From the second live context of a process on, a variant runs only where the launching
 * thread's context is kernel->context: its globals' addresses are of that one. */
bool context_seen(CUcontext context);
bool context_known(CUcontext context);  /* seen before, and alive as far as is known; cheap */
void context_unseen(CUcontext context); /* it dies; NULL: all */
/* The program made a green context: launches in such a one get the original, since variants were
 * timed with all multiprocessors. */
void context_green(void);
/* Whether this thread's context is a green one. Such a context may be current to one thread only,
 * so kgenrt takes no note of it and never makes it current: code that is loaded in it belongs to
 * the primary context. */
bool context_is_green(void);
/* The kernel's record for the current context, where the process has several; a kernel that was not
 * met there gets one in the next tick. Lock-free. */
struct kernel *kernel_here(struct kernel *kernel);
/* Watcher, each tick, holds records_lock: calls variant_drop for variants whose launch failed. */
void kernels_tick(void);
/* In the child of a fork: no record is found any more, and the lock is free. */
void kernels_after_fork_child(void);
/* All records, newest first; for the watcher, which holds records_lock. */
struct kernel *kernels_first(void);
void records_lock(void);
void records_unlock(void);
/* Models the kernel if that is still to be done (image selection, parsing): milliseconds; never on
 * a launch path. Caller holds records_lock. */
void kernel_identify(struct kernel *kernel);

/* ---- material.c: PTX beside machine code that was made in this process --------------------------
 */

/* The compiler returned this cubin and has this PTX for it, terminated and allocated, which is the
 * callee's now. Any thread. */
void material_add(const void *cubin, size_t size, char *ptx);
/* A fatbin of both, owned, if the PTX of this cubin is known. */
bool material_join(const void *cubin, size_t size, struct kg_bytes *out);
void material_after_fork_child(void);

/* ---- linking.c: cubins that are linked in this process ------------------------------------------
 */

/* `link` is the linker's handle. Data that are no PTX are passed over. cubin: as for
 * material_add; of size 0, as long as its headers say. */
void linking_input(const void *link, const void *data, size_t size);
void linking_output(const void *link, const void *cubin, size_t size);
void linking_end(const void *link);
void linking_after_fork_child(void);

/* ---- dispatch.c: the hot path
 * -------------------------------------------------------------------- */

/* Launches the variant whose guard holds, else the original. */
CUresult dispatch_launch(struct kernel *kernel, const struct launch *launch);
/* The argument's address: params[i], or inside the extra buffer. NULL if there is none. */
const void *launch_argument(const struct kernel *kernel, const struct launch *launch,
                            unsigned index);
/* First entry whose guard holds, or NULL and the refusal. Exposed for tests and the benchmark. */
const struct swap_entry *swap_match(const struct swap *swap, const struct kernel *kernel,
                                    const struct launch *launch, enum refusal *why);
/* Launches this variant and counts it in `swapped`; the original if the driver refuses it. For
 * hot_launch, whose caller has matched the guard already. */
CUresult variant_launch(struct kernel *kernel, const struct launch *launch,
                        const struct swap_entry *entry);
/* The driver refused a launch of this variant that the original can make: the swap is off. */
void variant_refused(struct kernel *kernel, const struct swap_entry *entry);
/* Why no variant may run with the launch's attributes; REFUSAL_COUNT: it may, and keeps them. */
enum refusal attributes_refused(const struct launch *launch);
/* Whether a signature fits a kernel's parameters. Whoever publishes a swap asks it first: the hot
 * path does not check again, and would read outside the launch's arguments. */
bool signature_fits(const struct kernel *kernel, const struct kg_signature *signature);

/* ---- hot.c: sampled timing, and which kernels matter
 * ---------------------------------------------- */

/* Slow path of a launch, taken when launches reaches slow_at: may record events around it, or
 * capture it. Makes the launch itself and returns its result; `entry` is the variant to launch, or
 * NULL. */
CUresult hot_launch(struct kernel *kernel, const struct launch *launch,
                    const struct swap_entry *entry);
/* Watcher: collects finished events, updates estimates, sets KERNEL_WANTED. Holds records_lock. */
void hot_tick(void);
/* True when every sampled event is done and no kernel has been seen to run for long (safe point 3).
 */
bool hot_idle(void);

/* ---- capture_app.c: one launch into the spool
 * ------------------------------------------------------ */

void capture_ring_create(void); /* in the thread that created the context, mode tune only */
/* In the launch path, before the original runs: enqueues the copies on the launch's stream.
 * covered: there is a variant for it, so that only a further capture may be wanted. False: not now.
 */
bool capture_begin(struct kernel *kernel, const struct launch *launch, bool covered);
/* After the original's launch, if it was begun: enqueues the copies of its result. */
void capture_end(const struct launch *launch, CUresult result);
void capture_tick(void); /* watcher: writes finished captures into the spool */

/* ---- pressure.c: memory beside the app
 * ------------------------------------------------------------ */

/* An allocation of the app failed for want of memory. True: replays were ended, and it may be tried
 * once more. Any thread. */
bool pressure_relieved(void);

/* ---- extent.c: what memory an address lies in
 * ------------------------------------------------------------ */

/* Hooks: memory was freed in stream order, which is executed later; was taken. Any thread. */
void memory_freed(uint64_t address);
void memory_taken(uint64_t address);

/* ---- variants.c: snapshots and swapping
 * ------------------------------------------------------------ */

/* Looks the kernel up in the open snapshot and, if it has variants, loads and publishes them.
 * Called at safe points only: (1) in the thread that loads the module or looks the function up, (2)
 * after a synchronization of the context by the app, (3) by the watcher when hot_idle(). Holds
 * records_lock. */
void variants_load(struct kernel *kernel);
void variants_tick(void);    /* watcher: is there a new snapshot? opens it */
bool variants_pending(void); /* cheap: some record waits for a safe point */
bool variants_any(void); /* cheap: the open snapshot has kernels, so look-ups are worth modelling:
                            function_found then calls kernel_identify and variants_load */
void safe_point(void);   /* hooks, after cuCtxSynchronize returned success */
/* The kernel's originals run from now on, and this variant is not loaded again in this process
 * unless it was verified anew. why: static text, "its variant …". Holds records_lock. */
void variant_drop(struct kernel *kernel, const struct kg_id *variant, const char *why);

/* ---- flight.c, watch.c
 * ------------------------------------------------------------------------------ */

/* The dlsym behind the interposer's own hook, which sets it before app_start; NULL: dlsym. */
extern void *(*app_dlsym)(void *handle, const char *name);
/* Called by hooks after cuInit or the first context creation succeeded; starts options, flight
 * recorder and watcher once. Returns whether kgenrt is active in this process. Also called first
 * thing by app_context_created. */
bool app_start(void);
bool app_active(
    void); /* cheap: one relaxed load; false before app_start, after fork, in mode off */
void app_context_created(CUcontext context); /* without records_lock; known contexts are ignored */
/* Called by context_dying, which holds records_lock, before the context dies (NULL: all do): its
 * events, captures and the watcher's use of it end here. */
void app_context_dying(CUcontext context);
void app_after_fork_child(void); /* everything off: handles of the parent mean nothing here */
void app_finish(void);           /* library destructor: last state into the flight recorder */
void app_leave(void); /* the same where no exit handler runs, perhaps in a signal handler:
                         what the watcher does not do in time is not done */

/* Whole state by one pwrite; event: why. Before a variant may run and before a snapshot is read, so
 * that a crash is found at the next start. Caller holds records_lock. */
void flight_write(const char *event);
/* Whether a process that ended uncleanly had this variant in use, and it has not been verified
 * since: `verified` is the variant's time, seconds since 1970. */
bool flight_suspended(const struct kg_id *variant, uint64_t verified);

/* True while this thread is inside kgenrt: hooks pass through. */
extern _Thread_local bool inside_kgenrt __attribute__((tls_model("initial-exec")));

#endif
