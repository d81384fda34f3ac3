/* Arena: memory that goes with its owner. */
#include "kgenrt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arena_block {
    struct arena_block *next;
    size_t used, size;
    _Alignas(16) unsigned char data[];
};

enum { BLOCK = 16 << 10, BLOCK_MOST = 1 << 20 }; /* each block twice as large as the last */

void *arena_alloc(struct kg_arena *arena, size_t size)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + 15) & ~(size_t)15;
    struct arena_block *block = arena->blocks;
    if (!block || block->size - block->used < size) {
        size_t room = block ? block->size * 2 : BLOCK;
        room = room < BLOCK_MOST ? room : BLOCK_MOST;
        room = size > room ? size : room;
        block = calloc(1, sizeof *block + room);
        if (!block)
            return NULL;
        block->size = room;
        block->next = arena->blocks;
        arena->blocks = block;
    }
    void *out = block->data + block->used;
    block->used += size;
    return out;
}

char *arena_copy(struct kg_arena *arena, const char *text, size_t length)
{
    char *out = arena_alloc(arena, length + 1);
    if (out)
        memcpy(out, text, length);
    return out;
}

char *arena_format(struct kg_arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *out = length < 0 ? NULL : arena_alloc(arena, (size_t)length + 1);
    if (!out)
        return NULL;
    va_start(args, format);
    vsnprintf(out, (size_t)length + 1, format, args);
    va_end(args);
    return out;
}

void arena_free(struct kg_arena *arena)
{
    while (arena->blocks) {
        struct arena_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
}
