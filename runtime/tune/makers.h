/* The makers' functions, for the table in generate.c. See struct maker in tune.h for the contract.
 */
#ifndef KG_MAKERS_H
#define KG_MAKERS_H

#include "tune/tune.h"

#define MAKER(function)                                                                            \
    kg_status function(struct job *job, const char *argument, unsigned attempt, unsigned turn,     \
                       const struct candidate *previous, const char *message,                      \
                       struct candidate *out)
MAKER(rules_make);
MAKER(recorded_make);
MAKER(openai_make);
MAKER(known_make);
#undef MAKER

/* Asked before all others, whatever KGENRT_MAKERS says: not in the table. */
extern const struct maker known_maker;

/* How many other launches of the job's kernel have variants, and, as lines of a prompt, the first
 * of them. 0: none; the text may be NULL then. */
unsigned known_launches(struct job *job, const char **text);

/* Parses a reply that a maker got: sets out->maker and out->reply as well, and on KG_BAD_INPUT
 * out->note to the message. */
kg_status maker_reply(struct job *job, const char *maker, const char *text, size_t size,
                      struct candidate *out);

/* Rewrites a candidate of `rules` so that it takes the original's variables by added pointers.
 * KG_NO_CANDIDATE if it uses them in a way that is not understood. */
kg_status rules_globals(struct job *job, struct candidate *candidate);

#endif
