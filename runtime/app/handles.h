/* A table from the driver's handles to records: lock-free to read, written by whoever holds
 * records_lock. Open addressing; a value of NULL is a tombstone, and a key that comes again (the
 * driver recycles handle values) gets the new value in its old slot. A table that is full is
 * replaced by a larger one; readers may still stand in the old one, so it is freed much later. */
#ifndef KG_HANDLES_H
#define KG_HANDLES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* After that no launch stands in what was replaced or retired: arrays, tables, records. */
#define QUIET_NS UINT64_C(10000000000)

struct handle_slot {
    atomic_uintptr_t key; /* 0: never used, ends a probe */
    _Atomic(void *) value;
};

struct handle_array {
    size_t mask; /* slots - 1, a power of two less one */
    uint64_t retired_ns;
    struct handle_array *older; /* of the replaced ones */
    struct handle_slot slots[];
};

struct handle_table {
    _Atomic(struct handle_array *) array; /* NULL: empty */
    size_t used;                          /* keys in array, tombstones too */
    struct handle_array *spare;           /* replaced ones, newest first, freed ten seconds later */
};

/* Multiplicative hashing: the driver's handles are multiples of 8 or 16 at least. */
static inline size_t handle_hash(uintptr_t key)
{
    return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
}

/* The value of a handle; NULL if there is none. Wait-free. */
static inline void *handles_find(const struct handle_table *table, const void *handle)
{
    struct handle_array *array = atomic_load_explicit(&table->array, memory_order_acquire);
    if (!array)
        return NULL;
    uintptr_t wanted = (uintptr_t)handle;
    for (size_t i = handle_hash(wanted);; i++) {
        struct handle_slot *slot = &array->slots[i & array->mask];
        uintptr_t key = atomic_load_explicit(&slot->key, memory_order_acquire);
        if (key == wanted) /* NULL is never put: its slot's value is NULL, if any */
            return atomic_load_explicit(&slot->value, memory_order_acquire);
        if (!key)
            return NULL;
    }
}

/* Writers: one at a time. */

/* False when memory is out: the handle stays unknown, and its launches pass through. */
bool handles_put(struct handle_table *table, const void *handle, void *value);
/* Tombstones the handle. */
void handles_remove(struct handle_table *table, const void *handle);
/* Tombstones every handle whose value is `value`, but for the handle `keep`. */
void handles_remove_value(struct handle_table *table, const void *value, const void *keep);
/* The table is empty from now on. Its memory is left behind: for the child of a fork. */
void handles_forget(struct handle_table *table);

#endif
