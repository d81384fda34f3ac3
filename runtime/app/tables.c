/* The tables that dispatch reads, (guard, variant) by kernel: each is one immutable block of
 * memory. Keeps those that were published until no launch can stand in them, and unloads the
 * variants of an original whose module died. Never frees a table that a launch may still read. All
 * under records_lock. */
#include "app/dispatch.h"
#include "app/inside.h"

#include <stdlib.h>
#include <string.h>

#include "app/handles.h"

/* A published table, in front of its struct swap. */
struct table {
    struct table *next;
    struct kernel *kernel;
    CUcontext context; /* that its variants were loaded in */
    bool in_slot;
    bool orphan;         /* the original's module died: so must its variants */
    uint64_t retired_ns; /* seen replaced, dropped or orphaned; 0: in use */
};

static struct table *tables; /* all that were made and not freed yet */

/* Most tables have one entry and fit a slot. Slots stand close together, at cache lines: pages that
 * a launch must look at are what it costs. They are never given back, only used again. */
enum { SLOT = 512, SLAB = 64 };
static struct table *free_slots;

static void slots_add(void)
{
    char *slab = aligned_alloc(64, (size_t)SLOT * SLAB);
    for (unsigned i = SLAB; slab && i--;) {
        struct table *slot = (struct table *)(slab + (size_t)i * SLOT);
        slot->next = free_slots;
        free_slots = slot;
    }
}

static struct table *table_alloc(size_t size)
{
    if (size > SLOT)
        return malloc(size);
    if (!free_slots)
        slots_add();
    struct table *table = free_slots;
    if (table)
        free_slots = table->next;
    return table;
}

static void table_free(struct table *table)
{
    if (!table->in_slot) {
        free(table);
        return;
    }
    table->next = free_slots;
    free_slots = table;
}

static size_t arrays_size(const struct kg_signature *s)
{
    return s->scalar_count * sizeof *s->scalars + s->pointer_count * sizeof *s->pointers +
           s->overlap_count * sizeof *s->overlaps;
}

static void *array_move(char **free_space, const void *from, size_t size)
{
    char *to = *free_space;
    if (size)
        memcpy(to, from, size);
    *free_space += size;
    return to;
}

/* The signature's scalar at the place of another, if it is pinned to one value; or NULL. */
static const struct kg_scalar *pinned_at(const struct kg_signature *signature,
                                         const struct kg_scalar *place)
{
    for (uint32_t i = 0; i < signature->scalar_count; i++) {
        const struct kg_scalar *s = &signature->scalars[i];
        if (s->param == place->param && s->offset == place->offset && s->size == place->size)
            return s->span ? NULL : s;
    }
    return NULL;
}

/* Room for as many scalars as the first signature has is at `space`, and for the keys behind it. */
static void keys_make(struct swap *swap, char *space)
{
    struct kg_scalar *pinned = (struct kg_scalar *)space;
    const struct kg_signature *first = &swap->entries[0].signature;
    for (uint32_t k = 0; k < first->scalar_count; k++) {
        uint32_t i = 0;
        while (i < swap->count && pinned_at(&swap->entries[i].signature, &first->scalars[k]))
            i++;
        if (i == swap->count)
            pinned[swap->pinned_count++] = first->scalars[k];
    }
    uint64_t *keys = (uint64_t *)(pinned + first->scalar_count);
    for (uint32_t i = 0; i < swap->count; i++) {
        const struct kg_signature *signature = &swap->entries[i].signature;
        uint64_t hash = 0;
        for (uint32_t k = 0; k < swap->pinned_count; k++)
            hash = key_scalar(hash, pinned_at(signature, &pinned[k])->value);
        keys[i] = key_of(key_shape(&signature->launch), hash);
    }
    swap->pinned = pinned;
    swap->keys = keys;
}

/* One block of memory: head, entries, and their signatures' arrays, whose items are multiples of 8
 * bytes; of several entries their keys, too. */
struct swap *table_make(struct kernel *kernel, const struct swap_entry *entries, unsigned count)
{
    size_t size = sizeof(struct table) + sizeof(struct swap) + count * sizeof *entries;
    for (unsigned i = 0; i < count; i++)
        size += arrays_size(&entries[i].signature);
    if (count > 1)
        size +=
            entries[0].signature.scalar_count * sizeof(struct kg_scalar) + count * sizeof(uint64_t);
    struct table *table = table_alloc(size);
    if (!table)
        return NULL;
    *table = (struct table){
        .next = tables, .kernel = kernel, .context = kernel->context, .in_slot = size <= SLOT};
    tables = table;
    struct swap *swap = (struct swap *)(table + 1);
    *swap = (struct swap){.count = count};
    char *space = (char *)&swap->entries[count];
    for (unsigned i = 0; i < count; i++) {
        struct swap_entry *e = &swap->entries[i];
        *e = entries[i];
        struct kg_signature *s = &e->signature;
        s->pointers = array_move(&space, s->pointers, s->pointer_count * sizeof *s->pointers);
        s->scalars = array_move(&space, s->scalars, s->scalar_count * sizeof *s->scalars);
        s->overlaps = array_move(&space, s->overlaps, s->overlap_count * sizeof *s->overlaps);
    }
    if (count > 1)
        keys_make(swap, space);
    return swap;
}

static struct swap *swap_in(struct table *table)
{
    return (struct swap *)(table + 1);
}

/* Whether another table has this library, too: a variant that stayed in use when its table was
 * replaced. */
static bool library_elsewhere(const struct table *table, CUlibrary library)
{
    for (struct table *t = tables; t; t = t->next)
        for (uint32_t i = 0; t != table && i < swap_in(t)->count; i++)
            if (swap_in(t)->entries[i].library == library)
                return true;
    return false;
}

static bool context_alive(CUcontext context)
{
    for (int i = 0; i < CONTEXTS; i++)
        if (atomic_load_explicit(&contexts[i].handle, memory_order_acquire) == context)
            return context && !contexts[i].broken;
    return false;
}

/* Unloads the variants of an original whose module died. Only these: a living program may have put
 * a variant that was replaced since into a graph of its own. False: not now, kernels are running.
 */
static bool libraries_unload(struct table *table)
{
    CUcontext popped;
    if (!context_alive(table->context) || !real.cuLibraryUnload)
        return true; /* its code went with the context */
    if (!hot_idle())
        return false;
    if (!real_ok(real.cuCtxPushCurrent_v2(table->context), "context of a variant"))
        return true;
    for (uint32_t i = 0; i < swap_in(table)->count; i++) {
        CUlibrary library = swap_in(table)->entries[i].library;
        if (!library_elsewhere(table, library))
            (void)real_ok(real.cuLibraryUnload(library), "unloading a variant");
    }
    (void)real.cuCtxPopCurrent_v2(&popped);
    return true;
}

/* Frees the tables that no launch has been able to find for more than ten seconds: their kernel has
 * left them, or its module died. A kernel's record is never freed, and forgets its table when it is
 * used for another kernel. */
void tables_free(void)
{
    uint64_t now = now_ns();
    for (struct table **link = &tables, *t; (t = *link);) {
        bool in_use = atomic_load_explicit(&t->kernel->swap, memory_order_relaxed) == swap_in(t);
        t->orphan |= t->kernel->retired_ns != 0;
        bool left = t->orphan || !in_use;
        if (!left || !t->retired_ns || now - t->retired_ns <= QUIET_NS ||
            (t->orphan && !libraries_unload(t))) {
            if (left && !t->retired_ns)
                t->retired_ns = now;
            link = &t->next;
            continue;
        }
        if (in_use)
            atomic_store_explicit(&t->kernel->swap, NULL, memory_order_relaxed);
        *link = t->next;
        table_free(t);
    }
}
