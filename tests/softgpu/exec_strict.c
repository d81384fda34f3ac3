/* Judges accesses, on request, beyond what makes a GPU fault: reads of memory that nobody has
 * written since it was allocated (a pattern of its own address still stands there, word by word: a
 * program that writes just that pattern is suspected wrongly, one word in 2^32; a word written in
 * part counts as written), and data races (exec_race.c). Never changes what is computed. */
#include "exec_core.h"

#include <string.h>

static uint32_t pattern(uint64_t address)
{
    uint64_t mixed = (address / 4 + 0x5bd1) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(mixed >> 32) | 1; /* never zero */
}

static void fill(unsigned char *memory, uint64_t address, uint64_t size)
{
    for (uint64_t i = 0; i + 4 <= size; i += 4) {
        uint32_t word = pattern(address + i);
        memcpy(memory + i, &word, 4);
    }
}

void exec_fill_unwritten(uint64_t address, uint64_t size)
{
    if (address % 4 == 0)
        fill((unsigned char *)(uintptr_t)address, address, size);
}

void strict_block_begin(struct block *block)
{
    const struct launch *launch = block->worker->launch;
    if (launch->config->strict & EXEC_STRICT_UNWRITTEN)
        fill(block->shared, WINDOW_BASE(WINDOW_SHARED), launch->shared_bytes);
    if (launch->config->strict & EXEC_STRICT_RACES)
        race_block_begin(block);
}

/* All the words that the access reads from, as far as they are before `end`; of a smaller access,
 * the word around it. */
static bool unwritten(const unsigned char *at, uint64_t address, uint32_t size, uint64_t end)
{
    uint64_t first = address & ~UINT64_C(3);
    at -= address - first;
    for (; first < address + size && end - first >= 4; first += 4, at += 4) {
        uint32_t word;
        memcpy(&word, at, 4);
        if (word == pattern(first))
            return true;
    }
    return false;
}

bool strict_access(struct lane *lane, uint64_t address, const unsigned char *at, uint32_t size,
                   bool write)
{
    const struct worker *worker = lane->block->worker;
    unsigned wanted = worker->launch->config->strict, window = address >> 48;
    uint64_t end = window == WINDOW_SHARED
                       ? WINDOW_BASE(WINDOW_SHARED) + worker->launch->shared_bytes
                       : worker->cached[0].base + worker->cached[0].size; /* it was just found */
    if (window != WINDOW_GLOBAL && window != WINDOW_SHARED)
        return true;
    if (wanted & EXEC_STRICT_UNWRITTEN && !write && unwritten(at, address, size, end))
        return lane_fault(lane, EXEC_UNWRITTEN,
                          "read of %u bytes at %s0x%llx, which nobody has written", size,
                          window == WINDOW_SHARED ? "shared address " : "",
                          (unsigned long long)(address & (WINDOW_BASE(1) - 1)));
    return !(wanted & EXEC_STRICT_RACES) || race_access(lane, address, at, size, write);
}
