/* The table of live memory: see table.c. Changes are made by one writer at a time (the memory
 * lock's holder); table_find is safe at any time, from any thread. */
#ifndef SOFTGPU_TABLE_H
#define SOFTGPU_TABLE_H

#include "soft.h"

#define TABLE_WRITABLE ((uint64_t)1)

struct table_row {
    uint64_t base, size;
    uint64_t flags; /* TABLE_WRITABLE, and whatever the writer keeps above it */
};

/* The row that holds address. */
bool table_find(uint64_t address, struct table_row *out);

/* For the writer. index: position in address order. */
unsigned table_count(void);
unsigned table_upper(uint64_t address); /* rows that begin at or below address */
struct table_row table_at(unsigned index);
bool table_insert(struct table_row row); /* false: full, or it overlaps a row */
void table_remove(unsigned index);

#endif
