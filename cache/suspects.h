/* What the flight recorders of dead processes tell: variants that one had in use when it ended
 * uncleanly, snapshots that one died over. Read by the app at its start, which then leaves them
 * alone, and by the worker, which makes and verifies such variants anew. */
#ifndef KG_SUSPECTS_H
#define KG_SUSPECTS_H

#include "kgenrt.h"

/* Every recorder begins with these, so that it is understood without a JSON parser, which the app
 * does not have: see runtime/app/flight.c for the whole form. */
#define FLIGHT_CLEAN "{\"version\":1,\"clean\":"
#define FLIGHT_READING ",\"reading_snapshot\":"
#define FLIGHT_LATE ",\"late\":["
enum { FLIGHT_LATE_MOST = 256 }; /* ids in that list */

enum { SUSPECT_VARIANTS = 512, SUSPECT_SNAPSHOTS = 16 };

struct suspects {
    unsigned variant_count, snapshot_count;
    struct {
        struct kg_id id;
        uint64_t time; /* of the last sign of life, seconds since 1970 */
    } variants[SUSPECT_VARIANTS];
    struct kg_id snapshots[SUSPECT_SNAPSHOTS];
};

/* Reads DIR/flight. Calls each(self, name, time, unclean), if not NULL, for the file of every dead
 * process; unclean: it adds to the suspects. Hostile files add nothing. */
void suspects_read(const char *dir, struct suspects *out,
                   void (*each)(void *self, const char *name, uint64_t time, bool unclean),
                   void *self);
/* Whether the variant is suspended: `verified` is its time, and nobody died with it since. */
bool suspects_variant(const struct suspects *suspects, const struct kg_id *variant,
                      uint64_t verified);
bool suspects_snapshot(const struct suspects *suspects, const struct kg_id *snapshot);

#endif
