/* The gates that run in the replay child, one a file, and what they share. Each looks at one thing;
 * its file's head says what it catches. A gate may never pass a variant for lack of data: where the
 * check itself could not fail, the kernel is unverifiable (KG_NOT_ELIGIBLE) and left alone. Order
 * and names: the table in verify.c. */
#ifndef KG_GATES_H
#define KG_GATES_H

#include "tune/draw.h"
#include "tune/replay.h"

kg_status gate_replay(struct trial *trial);
kg_status gate_observed(struct trial *trial);
kg_status gate_bounds(struct trial *trial);
kg_status gate_instrumented(struct trial *trial);
kg_status gate_vacuity(struct trial *trial);
kg_status gate_footprint(struct trial *trial);
kg_status gate_fault(struct trial *trial);
kg_status gate_deadline(struct trial *trial);
kg_status gate_poison(struct trial *trial);
kg_status gate_memory(struct trial *trial);
kg_status gate_compare(struct trial *trial);
kg_status gate_layout(struct trial *trial);
kg_status gate_repeat(struct trial *trial);
kg_status gate_time(struct trial *trial);
kg_status gate_timed(struct trial *trial);
kg_status gate_stale(struct trial *trial);
kg_status gate_scalars(struct trial *trial);
kg_status gate_inputs(struct trial *trial);

/* Sets the trial's reason; returns the status. */
kg_status because(struct trial *trial, kg_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What a gate saw, for the evidence: an object, units in its keys' names. Takes it over. */
void trial_saw(struct trial *trial, const char *gate, json_t *seen_take);
/* Equal where the original writes, within accuracy; else bit for bit. `at`: the first offence. */
bool same_memory(const struct trial *trial, const unsigned char *got, const unsigned char *expected,
                 size_t *at);
bool same_memory_as(const struct replay_memory *memory, const unsigned char *got,
                    const unsigned char *expected, const struct accuracy *accuracy, size_t *at);

/* Branches backward that a thread of the variant may make: many times what falls to it of the
 * original's work. */
uint64_t variant_budget(const struct trial *trial);
/* draws.c. Makes memory->work a state with other inputs: number below draw_row_count: a row of
 * draws.def, else what was captured at another time. Old contents of outputs are random. */
void draw_state(struct trial *trial, unsigned number, unsigned turn, unsigned level, uint64_t seed,
                struct drawn *drawn, const char **text);
/* True if the instrumented side is not sound on memory->work, or this cannot be known, where what
 * was drawn puts it at risk. */
bool draw_unsound(struct trial *trial, enum side side, const struct drawn *drawn,
                  char why[static 320]);

#endif
