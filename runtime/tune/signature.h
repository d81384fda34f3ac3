/* Which launches a variant may stand for. A capture alone pins every scalar (capture_signature);
 * here the original's PTX says what need not be: scalars that only numbers are computed from, bytes
 * that nobody reads, how far each pointer reaches in this launch, and what is only read. Safe
 * direction: what is not proven stays pinned, and stands for whatever was captured. In the worker.
 */
#ifndef KG_SIGNATURE_H
#define KG_SIGNATURE_H

#include "capture.h"

/* What a free piece is by the arithmetic done on it. */
enum free_type {
    FREE_UNREAD = '-', /* the original does not read it: any bytes */
    FREE_BITS = '?',   /* read, but as what is not known */
    FREE_INT = 'i',
    FREE_FLOAT = 'f', /* of 2, 4 or 8 bytes */
    FREE_BF16 = 'b',
};

/* Bytes of the parameters that no guard pins: a variant must honour whatever stands there, and is
 * to be tried with all kinds of values (gate scalars). */
struct free_piece {
    uint32_t at, size; /* in the packed parameters */
    uint8_t type;      /* enum free_type */
};
enum { FREE_PIECES = 256 };

struct job;
/* Narrows job->signature, as made by capture_signature, by what job->image and job->model tell, and
 * fills job->free. Where that is nothing, it stays. Call it once, before keys are made of it. */
kg_status signature_narrow(struct job *job);
/* job->signature with those free pieces pinned that verification did not show (`unshown`, one for
 * each of job->free). Its scalars are the caller's to free; pointers and overlaps are lent. */
kg_status signature_pinning(const struct job *job, const bool *unshown, struct kg_signature *out);
/* Whether a captured launch has a guard's shape, scalars and alignment, wherever its memory lies.
 */
bool signature_alike(const struct kg_signature *signature, const struct kg_capture *capture);
/* Whether a guard holds for a captured launch: what dispatch.c decides, slowly. */
bool signature_holds(const struct kg_signature *signature, const struct kg_capture *capture);

#endif
