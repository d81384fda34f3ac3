/* What dispatch.c shares with graphs.c, its tests and the benchmark beside app.h. */
#ifndef KG_DISPATCH_H
#define KG_DISPATCH_H

#include "app/app.h"

/* Most pointers and parameters a guard may have; signature_fits refuses more. */
enum { GUARD_POINTERS = 32, LAUNCH_PARAMS = 64 };

/* Addresses of the variant's arguments: the launch's (its own array, or `space`), then those of the
 * globals' addresses. NULL: there are none. */
void **variant_arguments(const struct kernel *kernel, const struct launch *launch,
                         const struct swap_entry *entry,
                         void *space[static LAUNCH_PARAMS + VARIANT_GLOBALS]);

#endif
