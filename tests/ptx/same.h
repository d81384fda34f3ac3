/* Equality of PTX trees, for tests of round trips. */
#ifndef KG_TEST_SAME_H
#define KG_TEST_SAME_H

#include "code/ptx.h"

/* Places in the source apart. */
bool ptx_same(const struct ptx_module *a, const struct ptx_module *b);

#endif
