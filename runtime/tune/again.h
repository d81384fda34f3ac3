/* A verdict made again, from what was kept with the variant: see again.c and kept.c. */
#ifndef KG_AGAIN_H
#define KG_AGAIN_H

#include "tune/tune.h"

#include <jansson.h>

/* ---- kept.c ------------------------------------------------------------------------------------
 */

/* Keeps the job's captures, within the quota; what fails is said and is no harm. */
void kept_put(const struct job *job);
/* Removes the captures that were not used for the longest time until the quota holds; `but`: never
 * that file. */
void kept_trim(const char *dir, const char *but);
/* Where a capture would be kept, by its digest as text; and whether it is: KG_NOT_FOUND, or
 * KG_CORRUPT if another stands there. */
kg_status kept_path(const char *dir, const struct kg_id *kernel, const char *seal,
                    char out[static KG_PATH]);
kg_status kept_find(const char *dir, const struct kg_id *kernel, const char *seal,
                    char out[static KG_PATH]);
/* It was used now. */
void kept_used(const char *path);

/* ---- again.c -----------------------------------------------------------------------------------
 */

enum again { AGAIN_REPRODUCED, AGAIN_NOT_REPRODUCED, AGAIN_NOT_POSSIBLE };

struct again_result {
    enum again outcome;
    char reason[1200];         /* why not; empty when reproduced */
    json_t *stored, *evidence; /* of then and of now, or NULL; the caller's */
};
/* Reads the variant's evidence and opens the job, of which store and dir are set, on the captures
 * that the verdict of then had. False: it cannot be, and out says why. */
bool again_open(struct job *job, const struct kg_variant *variant, struct again_result *out);
/* All gates and timing again, for a variant of the store; same_seeds: with the random numbers of
 * then. Nothing is changed but the capture's time of use. */
void verify_again(struct store *store, const char *dir, const struct kg_variant *variant,
                  bool same_seeds, struct again_result *out);

#endif
