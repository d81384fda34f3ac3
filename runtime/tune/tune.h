/* The worker's pipeline: spool -> analyse -> generate -> compile -> verify -> time -> publish.
 * Lives in `kgenrt worker` and its short-lived children, never in the app. */
#ifndef KG_TUNE_H
#define KG_TUNE_H

#include "cache.h"
#include "capture.h"
#include "code/code.h"
#include "kgenrt.h"
#include "tune/signature.h"

/* A candidate variant on its way through the gates. Memory is the job's arena, but for `code`. */
struct candidate {
    const char *maker;  /* "rules", "openai", "recorded" */
    const char *source; /* CUDA C++ (or NULL) */
    const char *ptx;    /* PTX text: as made, or as compiled from source */
    const char *entry;  /* name of its entry point in the PTX */
    const char *note;
    const char *recipe; /* JSON block that it came with: reply_recipe; NULL: none */
    const char *reply;  /* whole reply that it came from, for repair turns; NULL: none */
    struct kg_launch launch;
    uint32_t global_count;
    const char *globals[VARIANT_GLOBALS];
    struct kg_bytes code; /* what is loaded: cubin, or PTX on the software GPU; bytes_free */
    int compiler_version;
};

/* The outcome of verification: first gate that failed, or none. */
struct verdict {
    kg_status status; /* KG_OK, KG_REFUSED, KG_SLOWER, KG_TIMEOUT, KG_CHILD, … */
    char gate[32];    /* name of the gate that refused: see verify.c's table */
    char reason[1024];
    bool exact; /* every comparison was equal bit for bit */
    double original_ns, variant_ns, ratio, low, high;
    bool
        unshown[FREE_PIECES]; /* of job->free: no value of it changed the result, so it is pinned */
    char *evidence;           /* JSON text, malloc'd */
};

enum { JOB_OTHERS = 4 };

struct job {
    struct kg_arena arena;
    char capture_path[KG_PATH];
    unsigned other_count; /* captures of the same kernel and signature that lie beside it */
    const char *others[JOB_OTHERS];
    struct kg_capture capture;
    struct image_code image;
    struct kernel_model model;
    struct kg_signature signature;
    struct free_piece *free; /* what the signature leaves open, in the arena */
    uint32_t free_count;
    struct kg_id hardware, signature_key;
    struct store *store;
    const char *dir; /* cache folder */
    /* a verdict made again (again.h): else as options say, and at random */
    const char *accuracy;
    bool seeded;
    uint64_t seeds[4];
};

/* What a job is about, without a store: job_open reads the capture and makes a signature that pins
 * everything, job_model finds the code and the kernel in it, and narrows the signature. Free by
 * job_close, also after a failure. */
kg_status job_open(struct job *job, const char *capture_path);
kg_status job_model(struct job *job);
void job_close(struct job *job);

/* ---- makers ------------------------------------------------------------------------------------
 */

/* One way of making candidates. `argument` is what follows the colon in KGENRT_MAKERS. `attempt`
 * counts from 0 as long as the maker is asked for further independent candidates; `message` is
 * NULL, or the compiler's or verifier's message about `previous`, for makers that can repair (turn
 * 1, 2). KG_NO_CANDIDATE: nothing (more) to offer. KG_BAD_INPUT: the reply was malformed; out->note
 * says how (the message for a repair turn) and out->reply holds it: a further attempt or turn may
 * be better. Any other status: the maker cannot work now. */
struct maker {
    const char *name;
    kg_status (*make)(struct job *job, const char *argument, unsigned attempt, unsigned turn,
                      const struct candidate *previous, const char *message, struct candidate *out);
    unsigned turns; /* repair turns it can use; 0 none */
};
extern const struct maker makers[];
extern const unsigned maker_count;
/* Calls each(self, maker, argument) for KGENRT_MAKERS in order; one log line for an unknown name.
 */
void makers_each(bool (*each)(void *self, const struct maker *maker, const char *argument),
                 void *self);

/* The prompt for a job: kernel PTX, parameters, launch, hardware facts, and the reply format asked
 * for. */
kg_status prompt_make(struct job *job, struct kg_bytes *out);

/* A model's reply: a fenced `cuda` block and a fenced `json` block with "entry", "params" (names,
 * in order), "launch" {"grid": [x,y,z], "block": [x,y,z], "shared": n} whose items are numbers or
 * small integer expressions over gx gy gz bx by bz shared and the params' scalar names, "guards"
 * (list of expressions that must be non-zero), "globals" (names wanted), "note". KG_BAD_INPUT with
 * a message for the repair turn. Hostile input. */
kg_status reply_parse(struct job *job, const char *text, size_t size, struct candidate *out,
                      char *message, size_t message_size);

/* Entry, launch, guards and globals of such a JSON block alone, for the job's launch: of a variant
 * that was verified for another. */
kg_status reply_recipe(struct job *job, const char *json, size_t size, struct candidate *out,
                       char *message, size_t message_size);

/* ---- compile -----------------------------------------------------------------------------------
 */

/* Compiles in a child process with limits on time and memory, in an empty folder. CUDA C++ by NVRTC
 * to PTX for the job's architecture, then PTX by nvJitLink to machine code of the exact
 * architecture (on the software GPU code = PTX). KG_COMPILE with the compiler's words in message.
 */
kg_status compile_candidate(struct job *job, struct candidate *candidate, char *message,
                            size_t message_size);
/* Entry points of the children, reached through the hidden command `kgenrt child NAME …`. They
 * return exit codes. */
int compile_child(int argc, char **argv);

/* ---- verify and time ----------------------------------------------------------------------------
 */

/* Gate 1, static: admission on the candidate's PTX against the original's. */
kg_status admit(struct job *job, const struct candidate *candidate, struct verdict *out);
/* All gates, cheap first, then timing; launches only in a replay child. */
kg_status verify_candidate(struct job *job, const struct candidate *candidate, struct verdict *out);
/* Runs the original alone in a replay child and reports (kgenrt replay): time in ns and output
 * digests. */
kg_status replay_original(struct job *job, unsigned runs, struct verdict *out);
int replay_child(int argc, char **argv);

/* ---- the worker ---------------------------------------------------------------------------------
 */

struct worker_config {
    bool detach;         /* double fork, own session, descriptors closed */
    bool once;           /* work off the spool, then end */
    const char *capture; /* only this file, keep it; NULL: the spool */
};
/* The worker's main loop; returns an exit code. One per user and device: KG_BUSY ends it with a
 * line. As long as it lives it holds an exclusive flock on DIR/worker.lock, by which apps see that
 * they need not start one. */
int worker_main(const struct worker_config *config);

/* One job, start to end: opens the capture, goes through the table of steps, stores what came of
 * it. */
kg_status job_run(struct store *store, const char *dir, const char *capture_path, bool keep);

#endif
