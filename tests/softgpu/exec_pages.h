/* What a launch keeps beside memory, by page: a page's data is made, as zeros, when it is first
 * asked for. Open addressing; a page once made stays where it is. For one thread at a time. */
#ifndef SOFTGPU_EXEC_PAGES_H
#define SOFTGPU_EXEC_PAGES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct exec_page {
    uint64_t number; /* plus one; 0: free */
    void *data;      /* owned */
};

struct exec_pages {
    struct exec_page *slots;
    uint32_t room, count;
    struct exec_page last; /* asked for */
};

static inline struct exec_page *exec_pages_slot(struct exec_page *slots, uint32_t room,
                                                uint64_t number)
{
    uint32_t at = (uint32_t)(number * UINT64_C(0x9E3779B97F4A7C15) >> 40) & (room - 1);
    while (slots[at].number && slots[at].number != number)
        at = (at + 1) & (room - 1);
    return &slots[at];
}

static inline bool exec_pages_grow(struct exec_pages *pages)
{
    uint32_t room = pages->room ? pages->room * 2 : 64;
    struct exec_page *slots = calloc(room, sizeof *slots);
    if (!slots)
        return false;
    for (uint32_t i = 0; i < pages->room; i++)
        if (pages->slots[i].number)
            *exec_pages_slot(slots, room, pages->slots[i].number) = pages->slots[i];
    free(pages->slots);
    pages->slots = slots;
    pages->room = room;
    return true;
}

/* The data of page `index`, `size` bytes; NULL: memory is out. */
static inline void *exec_pages_at(struct exec_pages *pages, uint64_t index, size_t size)
{
    uint64_t number = index + 1;
    if (pages->last.number == number)
        return pages->last.data;
    if (pages->count * 2 >= pages->room && !exec_pages_grow(pages))
        return NULL;
    struct exec_page *page = exec_pages_slot(pages->slots, pages->room, number);
    if (!page->number) {
        page->data = calloc(1, size);
        if (!page->data)
            return NULL;
        page->number = number;
        pages->count++;
    }
    pages->last = *page;
    return page->data;
}

static inline void exec_pages_free(struct exec_pages *pages)
{
    for (uint32_t i = 0; i < pages->room; i++)
        free(pages->slots[i].data);
    free(pages->slots);
    *pages = (struct exec_pages){0};
}

#endif
