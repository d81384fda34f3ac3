/* What SOFTGPU_STRICT asks for: strict.c. */
#ifndef SOFTGPU_STRICT_H
#define SOFTGPU_STRICT_H

#include "soft.h"

enum { STRICT_FREED = 1 << 8 }; /* beside enum exec_strict */

/* Reads the variable, once; false after a line about what is wrong with it. */
bool strict_read(void);
unsigned strict_wanted(void);
/* Of device memory: taken (before anybody else sees it), and given back. */
void strict_taken(uint64_t base, uint64_t size);
void strict_freed(uint64_t base, uint64_t size);
/* The range that held address until it was freed, if that is remembered. */
void strict_was_freed(uint64_t address, struct exec_range *out);

#endif
