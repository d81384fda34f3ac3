/* Long loops over a replay's images, spread over a few threads of the replay child. Images are
 * hundreds of MiB, a verdict walks them some hundred times, and the GPU waits meanwhile. */
#ifndef KG_PARALLEL_H
#define KG_PARALLEL_H

#include <stddef.h>

/* Calls part(self, from, to) for ranges that make up [0, count), at the same time in several
 * threads; each but the last begins and ends at a multiple of `step`. Short ranges, and where no
 * thread can be made: in this thread. part must not depend on the order. */
void parallel(size_t count, size_t step, void (*part)(void *self, size_t from, size_t to),
              void *self);

#endif
