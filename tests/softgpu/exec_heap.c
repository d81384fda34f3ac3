/* malloc and free of kernels. Every block is an allocation of its own, so that an access beyond it
 * is a fault; a module's heap goes with the module. A program cannot tell how a block is found, but
 * it can count on NULL when the heap's limit is reached. */
#include "exec_core.h"

#include <stdlib.h>
#include <string.h>

struct piece {
    uint64_t address, size;
};

struct heap {
    pthread_mutex_t lock;
    struct piece *pieces;
    size_t count, room;
    uint64_t used;
};

enum { STANDARD_HEAP = 8 << 20, ALIGN = 16, OVERHEAD = 16 };

struct heap *heap_create(void)
{
    struct heap *heap = calloc(1, sizeof *heap);
    if (heap && pthread_mutex_init(&heap->lock, NULL)) {
        free(heap);
        return NULL;
    }
    return heap;
}

void heap_destroy(struct heap *heap, const struct exec_memory *memory)
{
    if (!heap)
        return;
    for (size_t i = 0; i < heap->count; i++)
        memory->free(heap->pieces[i].address);
    pthread_mutex_destroy(&heap->lock);
    free(heap->pieces);
    free(heap);
}

static bool room_for_one(struct heap *heap)
{
    if (heap->count < heap->room)
        return true;
    size_t room = heap->room * 2 + 64;
    struct piece *pieces = realloc(heap->pieces, room * sizeof *pieces);
    if (!pieces)
        return false;
    heap->pieces = pieces;
    heap->room = room;
    return true;
}

uint64_t heap_take(struct lane *lane, uint64_t size)
{
    const struct launch *launch = lane->block->worker->launch;
    const struct exec_module *module = lane->func->module;
    struct heap *heap = module->heap;
    uint64_t most = launch->config->heap ? launch->config->heap : STANDARD_HEAP, address = 0;
    if (!size || size > most)
        return 0;
    pthread_mutex_lock(&heap->lock);
    if (heap->used + size + OVERHEAD <= most && room_for_one(heap))
        address = module->memory.alloc(size, ALIGN);
    if (address) {
        heap->pieces[heap->count++] = (struct piece){address, size};
        heap->used += size + OVERHEAD;
    }
    pthread_mutex_unlock(&heap->lock);
    return address;
}

bool heap_give(struct lane *lane, uint64_t address)
{
    const struct exec_module *module = lane->func->module;
    struct heap *heap = module->heap;
    size_t i = 0;
    if (!address)
        return true;
    pthread_mutex_lock(&heap->lock);
    while (i < heap->count && heap->pieces[i].address != address)
        i++;
    bool found = i < heap->count;
    if (found) {
        heap->used -= heap->pieces[i].size + OVERHEAD;
        heap->pieces[i] = heap->pieces[--heap->count];
        module->memory.free(address);
        memset(lane->block->worker->cached, 0, sizeof lane->block->worker->cached);
    }
    pthread_mutex_unlock(&heap->lock);
    return found ||
           lane_fault(lane, EXEC_ILLEGAL_ADDRESS, "free of 0x%llx, which malloc did not give",
                      (unsigned long long)address);
}
