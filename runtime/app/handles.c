/* Writers' side of the handle table. */
#include "app/handles.h"

#include <stdlib.h>

#include "kgenrt.h"

enum { LEAST_SLOTS = 256 };

static struct handle_array *array_of(const struct handle_table *table)
{
    return atomic_load_explicit(&table->array, memory_order_relaxed);
}

static struct handle_slot *slot_of(struct handle_array *array, uintptr_t key)
{
    struct handle_slot *grave = NULL;
    for (size_t i = handle_hash(key);; i++) {
        struct handle_slot *slot = &array->slots[i & array->mask];
        uintptr_t there = atomic_load_explicit(&slot->key, memory_order_relaxed);
        if (there == key)
            return slot;
        if (!there)
            return grave ? grave : slot;
        if (!grave && !atomic_load_explicit(&slot->value, memory_order_relaxed))
            grave = slot; /* a dead handle's slot may serve another one */
    }
}

/* True if the key took a slot that was never used. */
static bool insert(struct handle_array *array, uintptr_t key, void *value)
{
    struct handle_slot *slot = slot_of(array, key);
    bool fresh = !atomic_load_explicit(&slot->key, memory_order_relaxed);
    atomic_store_explicit(&slot->key, key, memory_order_release);
    atomic_store_explicit(&slot->value, value, memory_order_release);
    return fresh;
}

/* Frees the replaced arrays in which no reader can stand any more. */
static void spares_free(struct handle_table *table)
{
    struct handle_array **link = &table->spare;
    uint64_t now = now_ns();
    while (*link && now - (*link)->retired_ns < QUIET_NS)
        link = &(*link)->older;
    struct handle_array *array = *link, *older;
    *link = NULL;
    for (; array; array = older) {
        older = array->older;
        free(array);
    }
}

/* Replaces the array by one with room, without its tombstones. */
static bool rebuild(struct handle_table *table)
{
    struct handle_array *old = array_of(table);
    size_t live = 0, slots = LEAST_SLOTS;
    for (size_t i = 0; old && i <= old->mask; i++)
        live += atomic_load_explicit(&old->slots[i].value, memory_order_relaxed) != NULL;
    while (slots < 4 * live)
        slots *= 2;
    spares_free(table);
    struct handle_array *array = calloc(1, sizeof *array + slots * sizeof *array->slots);
    if (!array)
        return false;
    array->mask = slots - 1;
    table->used = live;
    for (size_t i = 0; old && i <= old->mask; i++) {
        void *value = atomic_load_explicit(&old->slots[i].value, memory_order_relaxed);
        if (value)
            insert(array, atomic_load_explicit(&old->slots[i].key, memory_order_relaxed), value);
    }
    atomic_store_explicit(&table->array, array, memory_order_release);
    if (old) {
        old->retired_ns = now_ns();
        old->older = table->spare;
        table->spare = old;
    }
    return true;
}

bool handles_put(struct handle_table *table, const void *handle, void *value)
{
    if (!handle)
        return false;
    struct handle_array *array = array_of(table);
    if ((!array || 2 * (table->used + 1) > array->mask + 1) && !rebuild(table))
        return false;
    table->used += insert(array_of(table), (uintptr_t)handle, value);
    return true;
}

void handles_remove(struct handle_table *table, const void *handle)
{
    struct handle_array *array = array_of(table);
    if (!array || !handle)
        return;
    struct handle_slot *slot = slot_of(array, (uintptr_t)handle);
    if (atomic_load_explicit(&slot->key, memory_order_relaxed) == (uintptr_t)handle)
        atomic_store_explicit(&slot->value, NULL, memory_order_release);
}

void handles_remove_value(struct handle_table *table, const void *value, const void *keep)
{
    struct handle_array *array = array_of(table);
    for (size_t i = 0; array && i <= array->mask; i++) {
        struct handle_slot *slot = &array->slots[i];
        if (atomic_load_explicit(&slot->value, memory_order_relaxed) == value &&
            atomic_load_explicit(&slot->key, memory_order_relaxed) != (uintptr_t)keep)
            atomic_store_explicit(&slot->value, NULL, memory_order_release);
    }
}

void handles_forget(struct handle_table *table)
{
    atomic_store_explicit(&table->array, NULL, memory_order_release);
    table->used = 0;
    table->spare = NULL;
}
