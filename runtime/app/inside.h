/* What the files of runtime/app share among themselves: the process's state, live contexts with
 * their event pools, and the services of the flight recorder, the spool and the worker's start.
 * Nobody outside this folder includes it, but its tests.
 *
 * "Locked" below means: the caller holds records_lock. */
#ifndef KG_APP_INSIDE_H
#define KG_APP_INSIDE_H

#include "app/app.h"

/* ---- watch.c: the process's state --------------------------------------------------------------
 */

enum kg_mode app_mode(void); /* in force: the option, or lower where something forbids it */
/* Lowers the mode for the rest of the process; a note says why. */
void app_limit(enum kg_mode mode, const char *why);
bool device_fits(void);    /* locked: the current context's device is of the process's one kind */
const char *app_dir(void); /* cache folder; empty: none that can be used */
/* Hardware of the process's first device, and of others of its kind: those that it is tuned for.
 * False before the first context. */
bool app_hardware(struct kg_hardware *hardware, struct kg_id *key);
void app_program(char path[static 256]); /* of the executable */
/* Something worth a line in `status`: kept (the latest 16 different ones) and logged at info. */
void app_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void app_notes_each(void (*each)(void *self, const char *note), void *self);
/* Stream-capture mode of this thread to relaxed, and back: our driver calls must not end a capture
 * that the app has under way. */
CUstreamCaptureMode capture_mode_relax(void);
void capture_mode_restore(CUstreamCaptureMode mode);

/* ---- material.c, triton.c: raw material of machine code -----------------------------------------
 */

void triton_start(void); /* reads the environment */
/* The PTX, allocated, of the kernel's cubin of this size and hash, from Triton's cache; or NULL. */
char *triton_ptx(const char *name, size_t size, const struct kg_id *cubin);
void material_tick(void); /* watcher, without records_lock: one module */

/* ---- kernels.c ---------------------------------------------------------------------------------
 */

struct module *modules_first(void); /* locked */
/* Locked. A blank record, of the current context; NULL when memory is out. */
struct kernel *kernel_new(struct module *module, const char *name);

/* elsewhere.c, locked, both. A record for the context that the kernel was launched in without one;
 * and the end of such a record: launches find it no more. */
void elsewhere_make(struct kernel *kernel);
void elsewhere_leave(struct kernel *kernel);

/* Locked. If the module's image is the cubin of this hash, it gets its PTX, and its kernels are
 * looked at again. */
void module_material_found(struct module *module, const struct kg_id *cubin);

/* ---- contexts.c: live contexts and their events ------------------------------------------------
 */

enum { CONTEXTS = 8, SAMPLES = 32 };
enum sample_state { SAMPLE_NONE, SAMPLE_FREE, SAMPLE_TAKEN, SAMPLE_PENDING };

/* A pair of events around one launch. TAKEN belongs to the thread that took it, PENDING to the
 * watcher. */
struct sample {
    atomic_int state;
    CUevent start, end;
    struct kernel *kernel;
    uint64_t launch; /* its number */
    struct track
        *track; /* of a pair of live.c: pair, and `swapped`, say which side; NULL: no pair */
    unsigned pair;
    uint64_t since_ns;
    bool swapped; /* a variant ran */
    bool other;   /* the original ran though there are variants: a launch unlike those they are for,
                     whose time says nothing of before and after */
};

struct context {
    _Atomic(CUcontext) handle; /* NULL: slot is free */
    CUdevice device;
    bool alike;  /* its device is of the kind that the process is tuned for */
    bool broken; /* a fault was seen: no more calls */
    struct sample samples[SAMPLES];
};
extern struct context contexts[CONTEXTS];

/* Locked. Makes the slot and its events; the context is current. False: no slot, or known. */
bool context_add(CUcontext handle, CUdevice device, bool alike);
bool context_alike(CUcontext handle);   /* no lock; of one that is not known: true */
void context_forget(CUcontext handle);  /* locked; NULL: all. Events die with their context */
CUcontext context_only(void);           /* the one live context; NULL with none or several */
bool context_broken(CUcontext context); /* locked: a fault was seen in it, or it is not known */
/* A free pair of this thread's current context, or NULL. No lock. */
struct sample *sample_take(void);
void sample_free(struct sample *sample);
/* Whether `result`, of a query in the context, tells of a fault that a kernel made; says so once in
 * the flight recorder. Locked. */
bool context_fault(struct context *context, CUresult result);

/* ---- hot.c --------------------------------------------------------------------------------------
 */

uint64_t hot_next(uint64_t launch);            /* number of the next launch to sample */
double hot_share(const struct kernel *kernel); /* locked: of the process's GPU time, 0 to 1 */
void hot_sample(struct kernel *kernel, bool swapped, double ns); /* locked */
void hot_judge(struct kernel *kernel, double total_ns);          /* locked */
/* Whether nothing is captured into a graph on the stream. */
bool stream_quiet(CUstream stream);
/* On the launch path: events around one launch that the caller makes. start: NULL where it cannot
 * be timed now; the caller may fill in track and pair. end: whether the variant ran, and how its
 * launch went. */
struct sample *hot_sample_start(const struct launch *launch);
void hot_sample_end(struct sample *sample, struct kernel *kernel, const struct launch *launch,
                    uint64_t number, bool variant, CUresult result);

/* ---- ahead.c: kernels that the next process is to capture early ---------------------------------
 */

void ahead_start(void);                        /* reads what earlier processes left */
bool ahead_any(void);                          /* these are locked: there are some */
bool ahead_knows(const struct kg_id *kernel);  /* capture it at once */
void ahead_keep(const struct kg_id *kernel);   /* hot, but it is launched in graphs only by now */
void ahead_forget(const struct kg_id *kernel); /* it was captured */

/* ---- wish.c: launches that no guard covers ------------------------------------------------------
 */

/* Whether a launch that no guard covers may be captured, while its kernel is wanted. */
bool wish_open(const struct kernel *kernel, const struct launch *launch);
/* The rest is the watcher's, locked. A launch was captured; packed: its parameters. */
void wish_taken(struct kernel *kernel, const struct kg_launch *shape, const unsigned char *packed);
void wish_sample(struct kernel *kernel, double ns); /* the time of one that no guard covered */
void wish_tick(struct kernel *kernel, double total_ns);

/* ---- capture_app.c, spool.c, spawn.c ------------------------------------------------------------
 */

void capture_context_dying(CUcontext context); /* locked; NULL: all */

/* The spool: DIR/spool/<kernel id>-<pid>-<number>.kgcap */
kg_status spool_path(const struct kg_id *kernel, char path[static KG_PATH]);
bool spool_holds(const struct kg_id *kernel); /* a capture of it (NULL: any) waits there */
/* KG_LIMIT when `size` more bytes would pass the quota or leave the disk too full. */
kg_status spool_room(uint64_t size);

void spawn_prepare(void); /* at start, in the app's thread: keeps the environment for the worker */
void spawn_wanted(void);  /* there is work in the spool */
void spawn_tick(void);    /* watcher: starts a worker if one is wanted and none runs */
/* Starts `binary` with our clean environment so that neither SIGCHLD nor wait() of the app sees it.
 * 0, or an errno. */
int spawn_start(const char *binary, char *const arguments[]);

/* ---- pressure.c ---------------------------------------------------------------------------------
 */

void pressure_tick(void); /* watcher, without records_lock */
/* Locked. Free bytes of the device, since when steady, and when an allocation of the app failed
 * last; times in seconds since 1970, 0 unknown or never. */
void pressure_state(uint64_t *free_bytes, uint64_t *steady_since, uint64_t *failed);

/* ---- variants.c ---------------------------------------------------------------------------------
 */

const struct kg_id *variants_snapshot(void); /* locked: id of the open one, or NULL */
void variants_open(void); /* opens the current snapshot if it is another one; not locked */

/* ---- bound.c: programs of several processes -----------------------------------------------------
 */

/* Whether there are signs of it: a launcher's variables, or libraries of MPI or NCCL. seen: of
 * what. */
bool bound_several(const char **seen);
/* NULL: *named is the snapshot that all processes of this program share; the first of them offers
 * it. Else why there is none. */
const char *bound_agree(const struct kg_id *hardware, const struct kg_id *offer,
                        struct kg_id *named);

/* ---- entry.c ------------------------------------------------------------------------------------
 */

/* At a safe point, locked: loads the variant's code into the current context. What it takes from
 * the variant's arena (signature) is replaced by copies in table_make. */
bool entry_load(const struct kernel *kernel, const struct snapshot *from,
                const struct kg_variant *variant, struct swap_entry *out);

/* ---- tables.c -----------------------------------------------------------------------------------
 */

/* Locked, both. A table with copies of the entries, to be published; NULL when memory is out. It is
 * never freed by hand: tables_free does, in the watcher, ten seconds after its kernel left it. */
struct swap *table_make(struct kernel *kernel, const struct swap_entry *entries, unsigned count);
void tables_free(void);

/* ---- flight.c -----------------------------------------------------------------------------------
 */

/* Makes this process's file and learns what older ones tell. Not KG_OK: no recorder, hence no
 * swaps. */
kg_status flight_start(void);
bool flight_late(const struct kg_id *variant); /* locked: it may run from now on; false: no room */
void flight_reading(const struct kg_id *snapshot); /* NULL: no longer; one small write */
bool flight_snapshot_bad(const struct kg_id *snapshot);
void flight_fault(const char *text); /* a kernel faulted: this process does not end cleanly */
void flight_tick(void);              /* watcher, locked: once a second, when something changed */
void flight_finish(bool whole);      /* clean end; whole (locked): with the last state */
void flight_abandon(void);           /* after fork: closes our copy of the descriptor */

#endif
