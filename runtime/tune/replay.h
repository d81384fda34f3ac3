/* The replay child and its gates, private to runtime/tune. A replay runs an original, and then a
 * variant of it, from a capture: replay_cuda.c makes a device of the real driver, replay_state.c
 * keeps the memory's images, verify.c has the table of gates, timing.c the clock. Gates and timing
 * see a device only through struct replay_device, so that tests can put C functions in its place.
 */
#ifndef KG_REPLAY_H
#define KG_REPLAY_H

#include <jansson.h>
#include <sys/types.h>

#include "code/roles.h"
#include "tune/tune.h"
#include "tune/walk.h"

/* ---- the device --------------------------------------------------------------------------------
 */

enum side { ORIGINAL, VARIANT };

struct replay_footprint { /* of a loaded function, as the driver reports it */
    uint32_t registers, local_bytes, static_shared, max_threads;
};

struct draw_buffer;

struct replay_observed {      /* of one instrumented launch */
    uint32_t offences, races; /* accesses out of bounds or not allowed, budgets spent; conflicts */
    uint64_t most;            /* branches backward and calls of the thread that made most */
    char first[256];          /* the first offence or race, for people; empty: none */
};

enum { REPLAY_SETS = 5 };

enum layout { LAYOUT_CAPTURED, LAYOUT_ELSEWHERE, LAYOUT_AT_END, LAYOUT_AT_START };

/* All calls wait for the device. A failing one leaves its cause in `error`; after a failed launch
 * the device is unusable. */
struct replay_device {
    kg_status (*read)(struct replay_device *device, uint64_t address, void *out, size_t size);
    kg_status (*write)(struct replay_device *device, uint64_t address, const void *data,
                       size_t size);
    kg_status (*launch)(struct replay_device *device, enum side side);
    /* Remembers what memory holds now; then restore brings it back, quickly and often. */
    kg_status (*keep)(struct replay_device *device);
    kg_status (*restore)(struct replay_device *device);
    /* Time of one launch out of `batch` back to back; cold: with nothing of ours in the L2. */
    kg_status (*sample)(struct replay_device *device, enum side side, bool cold, unsigned batch,
                        double *ns);
    /* One launch of a side's instrumented code (code/instrument.h) on memory as it stands.
     * Offending accesses are not performed: it never faults. what: INSTRUMENT_CHECK or _RACES;
     * budget: of a thread's branches backward and calls. reads, writes: masks over an image, 0xff a
     * byte touched; NULL: not wanted. Rights: what was captured may be read, what the original
     * writes written. out NULL: only makes the code ready, without a launch. KG_NOT_ELIGIBLE: this
     * code cannot be instrumented, `error` says why. NULL: not to be had. */
    kg_status (*observe)(struct replay_device *device, enum side side, unsigned what,
                         uint64_t budget, unsigned char *reads, unsigned char *writes,
                         struct replay_observed *out);
    /* From now on memory's images stand elsewhere, or again where they were captured: callers go on
     * with the captured addresses. Captured regions keep no more than their alignment classes and
     * get other distances; red zones beside them go along, but for LAYOUT_AT_END and _AT_START,
     * where an unmapped page is as near as the class allows. Pointers in the parameters go along,
     * and those in memory whose places are known. Only for read, write and launch.
     * KG_NOT_ELIGIBLE: there is nothing to move. NULL: not to be had. */
    kg_status (*relocate)(struct replay_device *device, enum layout layout);
    /* Chooses one of REPLAY_SETS contents of memory: from now on keep and restore mean that one.
     * Set 0 is chosen from the start. NULL: there is but one. */
    kg_status (*set_select)(struct replay_device *device, unsigned index);
    /* A walk over images of memory (walk.h), which must have been pinned. Any refusal: the caller
     * walks them itself. NULL: not to be had. */
    kg_status (*walk)(struct replay_device *device, const struct walk *w, struct walked *seen);
    kg_status (*draw)(struct replay_device *device, const struct draw_buffer *buffer); /* alike */
    /* From here on the images of what was captured and of what the original does (pristine, slack,
     * read, written, poisoned, result) do not change any more: the device may keep copies of them
     * for walks. Alike. settled: whether these are still the same, also where there are none; any
     * refusal: that is not known, and no verdict may rest on them. */
    kg_status (*settle)(struct replay_device *device);
    kg_status (*settled)(struct replay_device *device, bool *same);
    /* Whether memory is just the image; alike. */
    kg_status (*holds)(struct replay_device *device, const unsigned char *image, bool *same);
    unsigned char *args; /* packed parameters that both sides are launched with: a gate may change
                            free scalars in them, and puts them back. NULL: not to be had */
    size_t args_size;
    struct replay_footprint footprint[2];
    int driver_version;
    uint32_t shared_limit; /* bytes a block may have, opt-in; 0: unknown */
    bool exact_clock;      /* times are modelled: one sample says all */
    double bytes_ns;       /* most bytes a ns that memory can move; 0: not known */
    char error[256];
};

/* ---- memory's images ---------------------------------------------------------------------------
 */

/* A run of mapped device memory, or one module variable. */
struct replay_extent {
    uint64_t address, size;
    size_t at; /* where its bytes stand in an image */
    bool global;
    uint32_t region; /* of a global: index into the capture's regions */
};

/* Of captured indices. */
struct learnt {
    bool known, sorted, is_signed; /* sorted: they never fall */
    int64_t low, high;
};

/* A run of an image's bytes of which the original's PTX says the same. */
struct replay_datum {
    size_t from, to;       /* in an image */
    bool read, global;     /* loaded by the original; a module variable */
    uint8_t stores, loads; /* enum element of what it writes there, and of what it loads */
    uint8_t width;         /* of an element that it loads, bytes */
    unsigned roles;        /* what loaded data are used for: ROLE_… */
    size_t number;         /* of its first element in memory->bound */
    struct learnt learnt;  /* by draws, where its data are indices */
};

/* A number of floating point in the packed parameters that is in arithmetic only. */
struct replay_number {
    uint32_t at;
    uint8_t element;
};

/* An image is all mapped bytes, extent after extent. Masks have 0xff for bytes that belong. */
struct replay_memory {
    const struct kg_capture *capture;
    uint32_t extent_count;
    struct replay_extent *extents;
    size_t total;            /* bytes of an image */
    unsigned char *pristine; /* as captured; slack is zero */
    unsigned char *slack;    /* mask: mapped but not captured: red zones */
    unsigned char *written;  /* mask: the original writes it, on the captured inputs … */
    unsigned char *read;     /* … and it reads it */
    unsigned char *poisoned; /* mask: may hold anything before a launch from the captured inputs:
                                slack, what is not read, written bytes whose old content does not
                                count */
    unsigned char *result;   /* after the original ran on pristine */
    unsigned char *work, *other, *first; /* scratch; first: result of the variant's first run */
    const struct kg_capture **others;    /* of the same signature, at other times */
    unsigned other_count;
    uint32_t datum_count;      /* 0: nothing is known; all is compared by bits */
    struct replay_datum *data; /* in order, without gaps but for padding */
    uint32_t number_count;
    struct replay_number *numbers;
    struct inexact *inexact;      /* gets what passed without being equal; NULL: not wanted */
    struct replay_device *device; /* that may walk the images in place of the host; NULL: none */
    double *bound; /* in `auto`: largest difference of each element of floating point that may be
                     written, for the launch that was measured last; NULL: not measured */
};

/* Plans the extents for a capture's regions: whole granules, with a granule of red zone on either
 * side where it lies in the same window. Globals are appended by memory_global once their address
 * is known. */
kg_status memory_plan(struct replay_memory *memory, const struct kg_capture *capture,
                      uint64_t granule, uint64_t window);
kg_status memory_global(struct replay_memory *memory, const char *name, uint64_t address,
                        uint64_t size);
/* Allocates the images and fills pristine. */
kg_status memory_create(struct replay_memory *memory);
void memory_free(struct replay_memory *memory);

/* Where a captured region's bytes stand in an image; false: a module variable without an extent. */
bool memory_region(const struct replay_memory *memory, uint32_t region, size_t *at);
/* Takes those of the captures whose memory can stand in this one's place: same kernel, every region
 * with its like. They must outlive the memory. */
kg_status memory_others(struct replay_memory *memory, const struct kg_capture *captures,
                        unsigned count);
/* out = pristine with what was captured at another time, index < memory->other_count: contents that
 * the app really had, but for the launch's own scalars. */
void memory_other(const struct replay_memory *memory, unsigned index, unsigned char *out);

/* out = pristine with every poisoned byte replaced by random bytes of seed (of an odd one by
 * unremarkable floats); inverted: by their complements. */
void memory_state(const struct replay_memory *memory, uint64_t seed, bool inverted,
                  unsigned char *out);
/* out = what must stand in memory after a right launch on memory_state(seed). */
void memory_expected(const struct replay_memory *memory, uint64_t seed, unsigned char *out);
/* Words for people: "parameter 2 + 0x40", "12 bytes past the end of parameter 0". */
const char *memory_place(const struct replay_memory *memory, size_t at, char *text, size_t size);

/* ---- walks over images (walk.h) ----------------------------------------------------------------
 */

/* On the device if it takes it, else here: the outcome is the same. w->to 0: to the end. */
void memory_walk(const struct replay_memory *memory, struct walk w, struct walked *seen);
/* A mask and whether it counts where it is not set; NULL: everywhere. */
struct where {
    const unsigned char *mask;
    bool inverted;
};
/* out = y (NULL: zeros) where both say so, else x. */
void images_mix(const struct replay_memory *memory, const unsigned char *x, const unsigned char *y,
                struct where a, struct where b, unsigned char *out);
/* Bytes that differ between x and y (NULL: zeros) where both say so, and where the first one
 * stands; memory->total: nowhere. */
size_t images_differ(const struct replay_memory *memory, const unsigned char *x,
                     const unsigned char *y, struct where a, struct where b, size_t *first);
#define EVERYWHERE ((struct where){NULL, false})
#define INSIDE(mask) ((struct where){mask, false})
#define OUTSIDE(mask) ((struct where){mask, true})
/* Where the value of a word reads as an address in captured memory; of many intervals the last ones
 * become one. */
void memory_spans(const struct replay_memory *memory, struct walk_span spans[static WALK_SPANS],
                  uint32_t *count);
/* Digest of an image: of the digests of its pieces of 1 MiB, in order. */
void memory_digest(const struct replay_memory *memory, const unsigned char *image,
                   struct kg_id *out);

/* ---- comparing ---------------------------------------------------------------------------------
 */

/* What the original's PTX says (NULL: nothing) of the bytes of the images into memory->data, of the
 * parameters into memory->numbers. */
kg_status memory_data(struct replay_memory *memory, const char *ptx, const char *entry);
/* The run that holds a byte; NULL: none. */
const struct replay_datum *memory_datum(const struct replay_memory *memory, size_t at);

/* What passed a comparison without being equal bit for bit. */
struct inexact {
    uint64_t elements;
    double ulps, of_bound; /* of the one that is most ulps away */
    size_t at;             /* … and its place */
};

/* Elements of floating point, ELEMENT_F16 to ELEMENT_F64: size, bits of the significand, value, the
 * distance of two neighbours at a value. */
unsigned element_bytes(uint8_t element);
unsigned element_bits(uint8_t element);
double element_get(const unsigned char *image, size_t at, uint8_t element);
void element_put(unsigned char *image, size_t at, uint8_t element, double value);
double element_ulp(double value, uint8_t element);

/* Offset of the first byte in [from, total) where a and b differ and mask (NULL: everywhere) is
 * set; total if none. */
size_t first_difference(const unsigned char *a, const unsigned char *b, const unsigned char *mask,
                        size_t from, size_t total);
/* The comparison of verification: every written byte of `got` against `expected`. True when equal
 * within accuracy; else *at is the first offending byte. */
bool results_equal(const struct replay_memory *memory, const unsigned char *got,
                   const unsigned char *expected, const struct accuracy *accuracy, size_t *at);
/* Whether the original writes floating-point numbers; whether one of these is infinite; whether all
 * are whole, and so small that sums that make them are exact in any order. */
bool has_floats(const struct replay_memory *memory);
bool has_infinity(const struct replay_memory *memory, const unsigned char *image);
bool whole_numbers(const struct replay_memory *memory, const unsigned char *image);
/* Words for people about a difference at `at`. */
void difference_text(const struct replay_memory *memory, const unsigned char *got,
                     const unsigned char *expected, const struct accuracy *accuracy, size_t at,
                     char *text, size_t size);

/* ---- timing ------------------------------------------------------------------------------------
 */

struct timing {
    unsigned pairs, dropped, batch;
    double original_ns, variant_ns, ratio, low, high;
};
enum { TIMING_PAIRS = 256, TIMING_LEAST = 8 }; /* fewer say nothing about noise */

/* Ratio of medians original/variant and its 95% interval by a paired bootstrap. Pairs with a
 * sample far above its side's lower quartile (another process had the GPU) are dropped first. */
void timing_judge(const double *original, const double *variant, unsigned pairs, uint64_t seed,
                  struct timing *out);
/* The same while pairs still come in, with a wider interval, so that all looks together err in 5%
 * of cases. True: enough is known, because the interval lies on one side of `wanted`, or this is
 * the last look. */
bool timing_look(const double *original, const double *variant, unsigned pairs, bool last,
                 double wanted, uint64_t seed, struct timing *out);
/* The judgement over the half of the pairs that was disturbed least. */
bool timing_quiet(const double *original, const double *variant, unsigned pairs, uint64_t seed,
                  struct timing *out);

/* ---- the gates, in the child -------------------------------------------------------------------
 */

struct trial {
    struct replay_device *device;
    struct replay_memory *memory;
    struct kg_launch original, variant;
    struct accuracy accuracy;
    const char *gates_off;         /* names, by comma; tests only */
    const struct free_piece *free; /* what the guard leaves open */
    uint32_t free_count;
    unsigned repeats, runs;
    bool guard_pages; /* layouts beside unmapped pages: what faults there is logged by the driver */
    long variant_limit_ms; /* for a launch of the variant; 0: from the original's own times */
    double app_ns;
    int lines; /* descriptor for the parent's lines */
    bool only_original;
    const char *variant_ptx, *variant_entry; /* NULL: not known */
    uint32_t global_count; /* of the original's variables that the variant gets pointers to … */
    const char *const *globals; /* … by name */
    bool exact_maker;           /* the variant comes from exact rewriting: proven, not only tried */

    /* found on the way */
    uint64_t seeds[4];    /* slack and written set, poison 1, poison 2, everything else */
    bool seeded;          /* they were given: the draws of an earlier verdict again */
    double wall_ns;       /* of the original's longest launch, with its waiting */
    double observe_ns[2]; /* … of instrumented ones: what it touches, races */
    struct replay_observed observed; /* the original on the captured inputs */
    size_t written_bytes, poisoned_bytes;
    unsigned repeated;         /* launches in gate repeat that gave equal memory */
    bool unshown[FREE_PIECES]; /* of free pieces: nothing showed what they do */
    bool sensitive;            /* a small change of an input changes the original's result */
    char launch_error[256];    /* of the variant's first launches; empty: none */
    size_t poison_at;          /* where the two poisoned runs differ; memory->total: nowhere */
    size_t timed_at;           /* where a timed launch's result was wrong; memory->total: nowhere */
    bool told; /* in `auto`: on some inputs the bound would have refused lower precision */
    struct inexact inexact; /* of all comparisons of the variant's results that passed */
    struct timing cold, warm;
    const struct timing *chosen; /* the one that the verdict rests on; NULL before timing */
    json_t *evidence;
    char reason[1024];
};

/* Draws the seeds, goes through the gates and writes the lines "gate NAME", "limit MS" (from here
 * on, 0: no more) and at the end "end JSON" with the verdict. */
kg_status trial_run(struct trial *trial);
/* Memory becomes an image; a launch on memory as it stands; memory into an image. */
kg_status trial_put(struct trial *trial, const unsigned char *image);
kg_status trial_go(struct trial *trial, enum side side);
kg_status trial_fetch(struct trial *trial, unsigned char *out);
/* *same: memory is `expected`, byte for byte; else it is in `out` now. */
kg_status trial_fetch_unless(struct trial *trial, const unsigned char *expected, unsigned char *out,
                             bool *same);
/* One launch from an image; out: memory afterwards, NULL: not wanted. */
kg_status trial_launch(struct trial *trial, enum side side, const unsigned char *in,
                       unsigned char *out);
/* One instrumented launch from an image, under the limit that the original's own give. out NULL:
 * not allowed. KG_NOT_ELIGIBLE: not to be had, the device's error says why. */
kg_status trial_observe(struct trial *trial, enum side side, unsigned what, uint64_t budget,
                        const unsigned char *in, unsigned char *reads, unsigned char *writes,
                        struct replay_observed *out);
/* How long the variant may take, ms, where the original took ns at most. */
long trial_limit_ms(const struct trial *trial, double ns);
/* In `auto`, measures how far a result may be from `reference`, the original's after a launch on
 * `state`, into memory->bound; nothing in other modes. ill: the inputs are meant to be badly
 * conditioned. */
kg_status bound_measure(struct trial *trial, const unsigned char *state,
                        const unsigned char *reference, bool ill);
/* Whether the bound would refuse `reference` with its significands cut to the next lower precision:
 * half of the elements that this changes must be refused. */
bool bound_tells(const struct trial *trial, const unsigned char *reference);
/* Which bytes may be poisoned: memory's `read` and `written` are known. */
kg_status written_find(struct trial *trial);
/* Changes the lowest bit of, by chance, every other word that the original reads and that is not
 * poisoned, pointers left alone: such small changes it survives. */
kg_status written_change(const struct trial *trial, uint64_t seed, unsigned char *image);
/* Times both sides, cold and warm, and checks results of timed launches. */
kg_status timing_run(struct trial *trial);
/* The verdict over both timings. */
kg_status timing_verdict(struct trial *trial);
/* From now on the trial's device rests after each operation: it is busy at most so much of the time
 * (replay_share.c). */
void share_limit(struct trial *trial, unsigned percent);
void trial_line(struct trial *trial, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- evidence.c --------------------------------------------------------------------------------
 */

/* EVIDENCE.md has every field. Begins trial->evidence (made by the caller, or empty) and tells the
 * parent what is known so far, in case this child dies. */
void evidence_begin(struct trial *trial);
void evidence_gate(struct trial *trial, const char *gate, bool passed, double ns);
/* gate: that refused; NULL: none. */
void evidence_end(struct trial *trial, kg_status status, const char *gate);

/* ---- child and parent --------------------------------------------------------------------------
 */

enum { RESULT_FD = 3 }; /* where the child finds the descriptor for its lines */

/* What the child is asked to do: a JSON file beside the candidate's code. Texts belong to json. */
struct replay_request {
    json_t *json;
    const char *capture, *code, *ptx, *entry, *accuracy, *gates_off;
    bool exact_maker;
    unsigned other_count;
    const char *others[JOB_OTHERS]; /* captures of the same signature at other times */
    const char *signature;          /* its id, for the evidence */
    struct kg_launch launch;
    uint32_t global_count;
    const char *globals[VARIANT_GLOBALS];
    unsigned repeats, runs;
    int compiler_version; /* for the evidence */
    long variant_limit_ms;
    bool guard_pages, seeded;
    uint64_t seeds[4];   /* where seeded */
    uint32_t free_count; /* as in trial */
    struct free_piece free[FREE_PIECES];
    unsigned share;   /* percent of the GPU's time */
    uint64_t reserve; /* bytes of device memory to leave free */
};
kg_status request_write(const struct replay_request *request, const char *path);
kg_status request_read(const char *path, struct replay_request *out);

/* The device of the real driver with both sides loaded. code is NULL for the original alone. */
kg_status cuda_open(const struct kg_capture *capture, const struct replay_request *request,
                    const struct kg_bytes *code, struct replay_memory *memory,
                    struct replay_device **out, char *reason, size_t reason_size);
void cuda_close(struct replay_device *device);
/* Once memory has its images, which must outlive the device: copies to and from them get fast. */
void cuda_pin(struct replay_device *device);
/* A side's CUmodule and CUfunction. */
void cuda_code(const struct replay_device *device, enum side side, void **module, void **function);

/* A running child as its parent sees it. */
struct replay_run {
    pid_t pid;
    int fd;
    uint64_t deadline_ns, limit_ns; /* on now_ns's clock; limit_ns 0: none */
    bool launching;                 /* the variant, now: a limit is announced */
    bool again;                     /* this is the second child: the first was killed */
    bool deadline_off;              /* tests only: the gate `deadline` is switched off */
    char gate[32];                  /* last announced */
    char folder[KG_PATH];           /* removed by replay_end; empty: none */
    json_t *evidence;               /* as the child began it, and gates it left; NULL: none yet */
    uint64_t gate_ns;               /* when it came to the gate; 0: before the evidence */
    char why[200];                  /* replay_begin's KG_BUSY */
    char *lines;                    /* unread text */
    size_t used;
};
/* Starts `child replay` for a candidate (NULL: the original alone). */
kg_status replay_begin(struct job *job, const struct candidate *candidate, unsigned runs,
                       struct replay_run *out);
/* Reads lines until the gate `until` is announced (KG_OK with out->status KG_OK), or to the end of
 * the child, whose verdict is then in out (until NULL). A death is blamed on the gate it was in; a
 * child that was killed by SIGKILL is started once more. */
kg_status replay_wait(struct replay_run *run, const char *until, struct verdict *out, bool *ended);
/* Kills the child if it still runs, and removes its folder. NULL-safe after replay_begin failed. */
void replay_end(struct replay_run *run);
/* Switches gates off, names by comma. Only tests set it; nothing outside the process can. */
extern const char *verify_gates_off;

#endif
