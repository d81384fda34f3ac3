/* A job's steps, private to runtime/tune: the table runner, verdicts, publishing. */
#ifndef KG_JOB_H
#define KG_JOB_H

#include "tune/tune.h"

/* One step of a way that is walked in order. */
struct step {
    const char *name;
    kg_status (*run)(void *self);
};

/* Runs the steps until one fails; `entered` is called before each. failed: its name, or NULL. */
kg_status steps_run(const struct step *steps, unsigned count, void *self,
                    void (*entered)(void *self, const char *name), const char **failed);

/* The note of the job's kernel; ineligible: why it is left alone, or NULL. */
kg_status job_put_kernel(struct job *job, const char *ineligible);

/* Stores the variant with its blobs and evidence and, when it is the best, a new snapshot. */
kg_status publish_variant(struct job *job, const struct candidate *candidate,
                          const struct verdict *verdict);

/* others.c: captures of the same kernel and signature that lie beside the job's own, into others;
 * and their end, after the verdict. */
kg_status job_find_others(struct job *job);
void job_remove_others(const struct job *job);

/* recheck.c: doubts about variants that this job's capture is a launch of, settled by verifying
 * them anew; job_model is done. And those for which no capture came: noted, once their program has
 * had its time. */
void recheck_doubts(struct job *job);
/* The job's capture is of another moment than those that this variant, which is published for such
 * launches, was verified on: it must be right there, too, or is taken back. */
void recheck_later(struct job *job, const struct kg_id *variant);
void recheck_leftover(struct store *store, const char *dir, bool apps_live);
#define GATE_DOUBT "doubt" /* of their records among the rejections: no candidate was refused */

/* Whether a list of KGENRT_LOWER names the kernel: by its plain or mangled name, * for anything. */
bool lower_asked(const char *list, const char *mangled);

void verdict_set(struct verdict *verdict, kg_status status, const char *gate, const char *format,
                 ...) __attribute__((format(printf, 4, 5)));
/* Whether a comma-separated list (NULL: empty) holds a name. */
bool name_listed(const char *list, const char *name);

#endif
