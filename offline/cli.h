/* The tool `kgenrt`: what its commands share. Each command is one file cmd_NAME.c with one struct
 * command; main.c has the table. Unlike libkgenrt.so, the tool may print and exit. */
#ifndef KG_CLI_H
#define KG_CLI_H

#include "cache.h"
#include "kgenrt.h"

#include <jansson.h>
#include <stdio.h>

/* What the tool returns; help.c prints this table for every command. */
#define EXIT_CODES                                                                                 \
    EXIT_CODE(EXIT_GOOD, 0, "success")                                                             \
    EXIT_CODE(EXIT_FAILED, 1, "it failed; the reason is on standard error")                        \
    EXIT_CODE(EXIT_WRONG_USE, 2, "wrong use of the command line")                                  \
    EXIT_CODE(EXIT_NOTHING, 3, "nothing was found that matches, or there is nothing yet")
enum {
#define EXIT_CODE(name, code, text) name = code,
    EXIT_CODES
#undef EXIT_CODE
};

struct cli_option {
    const char *name;     /* long form, "json" */
    char letter;          /* short form, or 0 */
    const char *argument; /* name of its argument for the help; NULL: a flag */
    const char *text;
};

enum { MOST_OPTIONS = 16 };

struct arguments {
    const struct command *command;
    const char *values[MOST_OPTIONS]; /* by place in the command's options, then the common ones */
    int count;
    char **operands;
};

struct command {
    const char *name, *synopsis, *summary, *description;
    const struct cli_option *options; /* up to one without a name; NULL: none of its own */
    int least, most;                  /* operands; most < 0: any number */
    bool program; /* operands are a program and its arguments: options end at the first */
    bool hidden;
    bool no_json;         /* prints nothing of its own */
    bool foreign_status;  /* returns a program's status: the common codes do not hold */
    const char *exits;    /* beyond the common codes; NULL: none */
    const char *examples; /* lines */
    int (*run)(const struct arguments *arguments);
};

extern const struct command cmd_run, cmd_status, cmd_list, cmd_show, cmd_capture, cmd_replay,
    cmd_verify, cmd_worker, cmd_doctor, cmd_child;
extern const struct command *const commands[]; /* in the help's order, up to NULL */

/* ---- arguments.c ----------------------------------------------------------------------------- */

/* --cache, --help, --json: every command has them, the last one not where no_json is set. */
enum { COMMON_OPTIONS = 3 };
extern const struct cli_option common_options[COMMON_OPTIONS];
int common_count(const struct command *command);
/* Parses what follows the command's name. False after a line that says what is wrong. */
bool arguments_parse(const struct command *command, int argc, char **argv, struct arguments *out);
/* Value of an option by its long name ("" for a flag that is given); NULL: not given. */
const char *argument(const struct arguments *arguments, const char *name);
/* The same as a number; `standard` if it is not given. False, with a line, if it is no number in
 * [least, most]. */
bool argument_number(const struct arguments *arguments, const char *name, long least, long most,
                     long standard, long *out);
/* One line "kgenrt COMMAND: …" and where help is; returns EXIT_WRONG_USE. */
int wrong_use(const struct command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- help.c ---------------------------------------------------------------------------------- */

void help_tool(FILE *out);
void help_command(FILE *out, const struct command *command);

/* ---- output.c -------------------------------------------------------------------------------- */

/* Ends a command: prints `result`, which it takes over, as JSON if --json was given, else by
 * `text`. Both forms come from the one tree, so that neither knows more. Returns `code`, or
 * EXIT_FAILED if standard output cannot be written. */
int output(const struct arguments *arguments, json_t *result, void (*text)(const json_t *result),
           int code);
/* printf for text from captures, replies and other programs: control characters become '?', so that
 * a terminal shows them instead of obeying. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* One line "kgenrt: …" on standard error; returns EXIT_FAILED. */
int failed(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The array's members in another order; takes the array over. compare: as of qsort, of json_t *. */
json_t *json_sorted(json_t *array, int (*compare)(const void *, const void *));
/* JSON of texts that may be no UTF-8, of ids, launches and records. */
json_t *json_text(const char *text);
json_t *json_id(const struct kg_id *id); /* null for an id of zeros */
json_t *json_launch(const struct kg_launch *launch);
json_t *json_hardware(const struct kg_hardware *hardware);
json_t *json_variant(const struct kg_variant *variant, bool best);
json_t *json_rejection(const struct kg_rejection *rejection);
json_t *json_job(const struct kg_job_note *job);
/* Members of an object, with a value where they are missing. */
const char *member_text(const json_t *object, const char *key);
double member_number(const json_t *object, const char *key);
/* A time in ns as "1.23 us"; seconds since 1970 as local time. Both into `out`, which they return.
 */
enum { SHORT_TEXT = 64 };
const char *duration_text(double ns, char out[static SHORT_TEXT]);
const char *date_text(double seconds, char out[static SHORT_TEXT]);

/* ---- names.c, places.c ----------------------------------------------------------------------- */

/* A short readable form of a mangled name, without arguments: "_Z4polyPfi" is "poly",
 * "_ZN3app5scaleIfLi4EEEvPf" is "app::scale<float, 4>". What it cannot read it copies. */
const char *name_readable(const char *mangled, char *out, size_t size);
/* A line with the mangled names in it made readable; cut to the size. */
const char *names_readable(const char *line, char *out, size_t size);
/* True if `what` occurs in the name or its readable form, or begins the id's text. */
bool name_matches(const char *what, const char *name, const struct kg_id *id);

/* Path of this executable, and of libkgenrt.so beside it or in ../lib. */
kg_status place_self(char out[static KG_PATH]);
kg_status place_library(char out[static KG_PATH]);

/* ---- flights.c ------------------------------------------------------------------------------- */

/* The flight recorders of the cache folder as an array of objects, latest start first, each as its
 * process wrote it, with "running", "unclean" and "file" added. */
json_t *flights_read(const char *dir);

/* ---- stored.c -------------------------------------------------------------------------------- */

/* All that the store knows, but for blobs: {"store": text, "worker": bool, "variants": [],
 * "rejections": [], "jobs": [], "kernels": [], "hardware": []}. "store" is "ok", "none" (nothing
 * was tuned yet), or what is wrong with it; "worker": one runs. Variants have the name of their
 * "device". */
json_t *stored_read(const char *dir);

/* ---- explain.c ------------------------------------------------------------------------------- */

/* For a person: what became of one kernel of a flight recorder (process) and why, by the recorder
 * and what the store knows of it (stored: as stored_read gives it, or NULL). Parts are separated by
 * "; ". */
json_t *kernel_explain(const json_t *kernel, const json_t *process, const json_t *stored);
/* It was captured, and a verified variant for its device is in the store: it comes at the next safe
 * point, or the next run gets it. */
bool kernel_variant_waits(const json_t *kernel, const json_t *process, const json_t *stored);

/* ---- account.c ------------------------------------------------------------------------------- */

/* {"eligible": {share, kernels}, "left_alone": [{why, share, kernels}], "not_read": {share,
 * kernels}, "left_out": {share, kernels} (no room in the recorder)} of one flight recorder; shares
 * of its GPU time, 0 to 1, the largest first. */
json_t *gpu_time_account(const json_t *process);
void gpu_time_print(const json_t *account);

/* ---- analysis.c ------------------------------------------------------------------------------ */

/* What is known of one launch of a kernel, beside its PTX. */
struct analysis_launch {
    struct kg_launch launch;
    struct kg_bytes args; /* packed parameters */
    struct analysis_extent {
        uint32_t at;       /* of a pointer in args */
        int64_t low, high; /* bytes around its value that are allocated */
    } extents[64];
    uint32_t extent_count;
};

/* All that the PTX tells of an entry: eligibility, parameters with roles, accesses, reach, proofs,
 * loops; for the launch, if there is one (NULL: none). NULL after a line that says what is wrong.
 */
json_t *analysis_json(const char *ptx, const char *entry, const struct analysis_launch *launch);
void analysis_print(const json_t *analysis);
/* A launch from the text that the worker keeps with a kernel's record; false: it is none. Free its
 * args with bytes_free. */
bool analysis_launch_parse(const char *text, struct analysis_launch *out);

/* ---- show_analysis.c ------------------------------------------------------------------------- */

int analyse_kernel(const struct arguments *arguments, const char *what);
int analyse_capture(const struct arguments *arguments, const char *path);
int analyse_text(const struct arguments *arguments, const char *path);

/* ---- cmd_show.c ------------------------------------------------------------------------------ */

/* A blob as text, or null where there is none. */
json_t *blob_text(struct store *store, const json_t *id);
/* Members of a list of the store that belong to the kernel, or bear the variant's id. */
json_t *matching(const json_t *stored, const char *list, const char *id_key, const char *what);

/* What a gate asks, in words; empty for names that are none. */
const char *gate_text(const char *name);

/* ---- show_evidence.c ------------------------------------------------------------------------- */

/* The evidence of a variant (or a refused candidate), as stored_read and show made it: JSON of the
 * record with the evidence's own object in "evidence". */
void evidence_print(const json_t *record, bool variant);

/* ---- start.c: programs with the preload, for run and capture ----------------------------------
 */

struct start {
    char **program;                    /* and its arguments, up to NULL */
    const char *cache, *mode, *makers; /* NULL: as in the environment */
    const char *via;                   /* "preload", "audit", "auto"; NULL: auto */
    bool worker; /* start one, and keep one running as long as the program does */
    bool eager;  /* capture also what ran but a few times, unless the environment says when */
    int code;    /* out: the program's exit status, or 128 + the signal that ended it */
};
/* KG_NOT_FOUND if the library is missing, KG_BAD_INPUT if the program cannot be started (code is
 * 126 or 127 then), each with a line. */
kg_status start_run(struct start *start);

#endif
