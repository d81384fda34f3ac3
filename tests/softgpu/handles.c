/* Which handles are alive: a hash table from address to kind. A dead or foreign handle is answered
 * with an error and never followed; addresses are recycled by malloc, as drivers recycle theirs. */
#include "soft.h"

#include <pthread.h>
#include <stdlib.h>

struct slot {
    const void *handle; /* NULL: free; dead: was used, keep probing */
    enum handle_kind kind;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct slot *slots;
static size_t room, used; /* used counts dead slots */
static const char dead;

static size_t first_slot(const void *handle, size_t size)
{
    return (size_t)(((uintptr_t)handle >> 4) * 0x9e3779b97f4a7c15u >> 20) & (size - 1);
}

static struct slot *find(const void *handle)
{
    if (!room || !handle)
        return NULL;
    for (size_t i = first_slot(handle, room);; i = (i + 1) & (room - 1)) {
        if (!slots[i].handle)
            return NULL;
        if (slots[i].handle == handle)
            return &slots[i];
    }
}

static void put(struct slot *table, size_t size, struct slot slot)
{
    size_t i = first_slot(slot.handle, size);
    while (table[i].handle)
        i = (i + 1) & (size - 1);
    table[i] = slot;
}

/* Twice the room of what is alive, dead slots gone. */
static bool grow(void)
{
    size_t alive = 0;
    for (size_t i = 0; i < room; i++)
        alive += slots[i].handle && slots[i].handle != &dead;
    size_t size = 64;
    while (size < 4 * (alive + 1))
        size *= 2;
    struct slot *table = calloc(size, sizeof *table);
    if (!table)
        return false;
    for (size_t i = 0; i < room; i++)
        if (slots[i].handle && slots[i].handle != &dead)
            put(table, size, slots[i]);
    free(slots);
    slots = table;
    room = size;
    used = alive;
    return true;
}

bool handle_add(const void *handle, enum handle_kind kind)
{
    pthread_mutex_lock(&mutex);
    bool fits = 2 * (used + 1) <= room || grow();
    if (fits) {
        put(slots, room, (struct slot){handle, kind});
        used++;
    }
    pthread_mutex_unlock(&mutex);
    return fits;
}

enum handle_kind handle_kind_of(const void *handle)
{
    pthread_mutex_lock(&mutex);
    struct slot *slot = find(handle);
    enum handle_kind kind = slot ? slot->kind : HANDLE_NONE;
    pthread_mutex_unlock(&mutex);
    return kind;
}

CUresult handle_enter(const void *handle, enum handle_kind kind, CUresult error)
{
    CUresult result = soft_enter();
    return result == CUDA_SUCCESS && handle_kind_of(handle) != kind ? error : result;
}

void handle_remove(const void *handle)
{
    pthread_mutex_lock(&mutex);
    struct slot *slot = find(handle);
    if (slot)
        *slot = (struct slot){&dead, HANDLE_NONE};
    pthread_mutex_unlock(&mutex);
}
