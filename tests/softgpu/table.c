/* The table of live device-accessible memory, sorted by address. The executor asks it at every
 * access it has not seen, from many threads, so look-ups take no lock: a sequence counter tells a
 * reader that a writer was at work, and it looks again. Writers hold the memory lock. */
#include "table.h"

#include <sched.h>
#include <sys/mman.h>

enum { TABLE_MOST = 1 << 20 };

struct entry {
    _Atomic uint64_t base, size, flags; /* flags: TABLE_WRITABLE, and the index of the block */
};

static struct entry *entries; /* one large lazy mapping: it never moves under a reader */
static _Atomic unsigned count, sequence;

static bool prepare(void)
{
    if (entries)
        return true;
    void *memory = mmap(NULL, TABLE_MOST * sizeof *entries, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    entries = memory;
    return true;
}

/* Number of entries that begin at or below address. */
static unsigned upper(uint64_t address, unsigned total)
{
    unsigned low = 0, high = total;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (atomic_load_explicit(&entries[middle].base, memory_order_acquire) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct table_row row_at(unsigned index)
{
    return (struct table_row){
        .base = atomic_load_explicit(&entries[index].base, memory_order_acquire),
        .size = atomic_load_explicit(&entries[index].size, memory_order_acquire),
        .flags = atomic_load_explicit(&entries[index].flags, memory_order_acquire),
    };
}

static void row_set(unsigned index, struct table_row row)
{
    atomic_store_explicit(&entries[index].base, row.base, memory_order_release);
    atomic_store_explicit(&entries[index].size, row.size, memory_order_release);
    atomic_store_explicit(&entries[index].flags, row.flags, memory_order_release);
}

static void change_begin(void)
{
    atomic_fetch_add_explicit(&sequence, 1, memory_order_acq_rel);
}

static void change_end(void)
{
    atomic_fetch_add_explicit(&sequence, 1, memory_order_release);
}

bool table_find(uint64_t address, struct table_row *out)
{
    for (;;) {
        unsigned before = atomic_load_explicit(&sequence, memory_order_acquire);
        if (before & 1) {
            sched_yield();
            continue;
        }
        unsigned index = upper(address, atomic_load_explicit(&count, memory_order_acquire));
        struct table_row row = {0};
        if (index)
            row = row_at(index - 1);
        if (atomic_load_explicit(&sequence, memory_order_acquire) != before)
            continue;
        *out = row;
        return index && address - row.base < row.size;
    }
}

unsigned table_count(void)
{
    return atomic_load(&count);
}

unsigned table_upper(uint64_t address)
{
    return upper(address, table_count());
}

struct table_row table_at(unsigned index)
{
    return row_at(index);
}

bool table_insert(struct table_row row)
{
    unsigned total = table_count();
    if (!prepare() || total == TABLE_MOST)
        return false;
    unsigned index = upper(row.base, total);
    if (index) {
        struct table_row below = row_at(index - 1);
        if (row.base - below.base < below.size)
            return false;
    }
    if (index < total && row_at(index).base - row.base < row.size)
        return false;
    change_begin();
    for (unsigned i = total; i > index; i--)
        row_set(i, row_at(i - 1));
    row_set(index, row);
    atomic_store_explicit(&count, total + 1, memory_order_release);
    change_end();
    return true;
}

void table_remove(unsigned index)
{
    unsigned total = table_count();
    change_begin();
    for (unsigned i = index; i + 1 < total; i++)
        row_set(i, row_at(i + 1));
    atomic_store_explicit(&count, total - 1, memory_order_release);
    change_end();
}
