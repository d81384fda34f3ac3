/* Device memory. A device address is a host address inside a window that nothing else uses. Blocks
 * are cut from segments of whole 32 MiB, inaccessible until taken, at least 512 bytes apart, so
 * that a kernel that leaves its block is caught. Where the segments begin differs from process to
 * process (by its id): an address that one process was given is then free in another one, which may
 * reserve it by the virtual memory calls, as replays do. */
#include "strict.h"
#include "table.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define WINDOW ((uint64_t)0x7e8000000000)
#define WINDOW_SIZE ((uint64_t)256 << 30)
#define SEGMENT ((uint64_t)32 << 20)
#define GAP ((uint64_t)512)
#define PAGE ((uint64_t)4096)

struct segment {
    uint64_t base, size;
    uint64_t used; /* end of the highest block ever taken */
    struct segment *next;
};

/* A block and its place in a list, which is there for the leak checker alone: the table that holds
 * the address lies in a mapping that it does not look into. */
struct node {
    struct memory_block block;
    struct node *next, **link;
};

static struct node *nodes;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct segment *segments; /* never given back: the process keeps the addresses */
static uint64_t used[SOFT_DEVICES_MOST], next_id, cursor;
static _Thread_local int owner; /* device that the executor allocates for */

uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

static struct memory_block *block_of(struct table_row row)
{
    return (struct memory_block *)(uintptr_t)(row.flags & ~TABLE_WRITABLE);
}

/* Index of the block that begins at base, or -1. Caller holds the mutex, as below. */
static int index_of(uint64_t base)
{
    unsigned upper = table_upper(base);
    return upper && table_at(upper - 1).base == base ? (int)upper - 1 : -1;
}

static CUresult enter(struct memory_block block)
{
    struct node *node = malloc(sizeof *node);
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *node = (struct node){block, nodes, &nodes};
    node->block.id = ++next_id;
    uint64_t flags = (uintptr_t)node | (block.writable ? TABLE_WRITABLE : 0);
    if (!table_insert((struct table_row){block.base, block.size, flags})) {
        free(node);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (nodes)
        nodes->link = &node->next;
    nodes = node;
    return CUDA_SUCCESS;
}

static void leave(int index)
{
    struct node *node = (struct node *)block_of(table_at((unsigned)index)); /* its first member */
    table_remove((unsigned)index);
    *node->link = node->next;
    if (node->next)
        node->next->link = node->link;
    free(node);
}

static struct segment *segment_add(uint64_t size)
{
    size = round_up(size + GAP, SEGMENT);
    if (!cursor) {
        uint64_t mixed = ((uint64_t)getpid() * 0x9e3779b97f4a7c15u) >> 32;
        cursor = WINDOW + mixed % ((WINDOW_SIZE - ((uint64_t)8 << 30)) / SEGMENT) * SEGMENT;
    }
    for (unsigned tries = 0; tries < WINDOW_SIZE / SEGMENT; tries++) {
        if (cursor + size > WINDOW + WINDOW_SIZE)
            cursor = WINDOW;
        void *want = (void *)(uintptr_t)cursor; /* NOLINT: device addresses are host addresses */
        void *got = mmap(want, size, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (got != want) {
            if (got != MAP_FAILED)
                munmap(got, size); /* a kernel that does not know the flag */
            cursor += SEGMENT;
            continue;
        }
        struct segment *segment = malloc(sizeof *segment);
        if (!segment) {
            munmap(got, size);
            return NULL;
        }
        *segment = (struct segment){cursor, size, cursor, segments};
        segments = segment;
        cursor += size;
        return segment;
    }
    return NULL;
}

/* First gap of the segment with room; 0: none. */
static uint64_t gap_in(const struct segment *segment, uint64_t size, uint64_t align)
{
    bool again = !(strict_wanted() & STRICT_FREED);
    uint64_t at = round_up(again ? segment->base : segment->used, align),
             end = segment->base + segment->size;
    unsigned total = table_count();
    for (unsigned i = table_upper(segment->base - 1); i < total; i++) {
        struct table_row row = table_at(i);
        if (row.base >= end || at + size + GAP <= row.base)
            break;
        uint64_t behind = round_up(row.base + row.size + GAP, align);
        at = behind > at ? behind : at;
    }
    return at + size + GAP <= end ? at : 0;
}

static uint64_t gap_take(struct segment *segment, uint64_t size, uint64_t align)
{
    uint64_t at = gap_in(segment, size, align);
    if (at && at + size + GAP > segment->used)
        segment->used = at + size + GAP;
    return at;
}

static uint64_t gap_find(uint64_t size, uint64_t align)
{
    for (struct segment *segment = segments; segment; segment = segment->next) {
        uint64_t at = gap_take(segment, size, align);
        if (at)
            return at;
    }
    struct segment *fresh = segment_add(size + align);
    return fresh ? gap_take(fresh, size, align) : 0;
}

static bool commit(uint64_t base, uint64_t size)
{
    uint64_t first = base / PAGE * PAGE, end = round_up(base + size, PAGE);
    return mprotect((void *)(uintptr_t)first, end - first, PROT_READ | PROT_WRITE) == 0;
}

/* Drops the pages that no neighbour shares. */
static void uncommit(int index)
{
    struct table_row row = table_at((unsigned)index);
    uint64_t first = row.base / PAGE * PAGE, end = round_up(row.base + row.size, PAGE);
    if (index) {
        struct table_row below = table_at((unsigned)index - 1);
        uint64_t taken = round_up(below.base + below.size, PAGE);
        first = taken > first ? taken : first;
    }
    if ((unsigned)index + 1 < table_count()) {
        uint64_t taken = table_at((unsigned)index + 1).base / PAGE * PAGE;
        end = taken < end ? taken : end;
    }
    if (first < end &&
        mmap((void *)(uintptr_t)first, end - first, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        soft_say("cannot give back %llu bytes", (unsigned long long)(end - first));
}

static uint64_t room_of(int device)
{
    return device_at(device)->memory - used[device];
}

static CUresult take(struct memory_block *block, uint64_t align)
{
    if (block->size > room_of(block->device))
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->base = gap_find(block->size, align);
    if (!block->base || !commit(block->base, block->size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    strict_taken(block->base, block->size);
    CUresult result = enter(*block);
    if (result == CUDA_SUCCESS)
        used[block->device] += block->size;
    return result;
}

CUresult memory_take(struct context *context, uint64_t size, uint64_t align, enum memory_kind kind,
                     uint64_t *address)
{
    if (!size)
        return CUDA_ERROR_INVALID_VALUE;
    if (context)
        context = context_whole(context);
    struct memory_block block = {.size = size,
                                 .kind = kind,
                                 .writable = true,
                                 .device = context ? context->device->ordinal : owner,
                                 .context = context};
    if (size > device_at(block.device)->memory ||
        (kind != MEMORY_MODULE && soft_fault_due(SOFT_OOM)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&mutex);
    CUresult result = take(&block, align > 512 ? align : 512);
    pthread_mutex_unlock(&mutex);
    if (result == CUDA_SUCCESS)
        *address = block.base;
    return result;
}

void memory_mark(uint64_t address, struct pool *pool)
{
    pthread_mutex_lock(&mutex);
    int index = index_of(address);
    if (index >= 0)
        block_of(table_at((unsigned)index))->pool = pool;
    pthread_mutex_unlock(&mutex);
}

void memory_sync_set(uint64_t address, bool sync)
{
    struct table_row row;
    pthread_mutex_lock(&mutex);
    if (table_find(address, &row))
        block_of(row)->sync = sync;
    pthread_mutex_unlock(&mutex);
}

static void give(int index)
{
    const struct memory_block *block = block_of(table_at((unsigned)index));
    used[block->device] -= block->size;
    strict_freed(block->base, block->size);
    uncommit(index);
    leave(index);
}

CUresult memory_give(uint64_t address, enum memory_kind kind)
{
    pthread_mutex_lock(&mutex);
    int index = index_of(address);
    enum memory_kind actual = index < 0 ? MEMORY_HOST : block_of(table_at((unsigned)index))->kind;
    bool fits =
        index >= 0 && (actual == kind || (kind == MEMORY_DEVICE && actual == MEMORY_MANAGED));
    if (fits)
        give(index);
    pthread_mutex_unlock(&mutex);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void memory_give_all(struct context *context)
{
    pthread_mutex_lock(&mutex);
    for (int i = (int)table_count() - 1; i >= 0; i--) {
        const struct memory_block block = *block_of(table_at((unsigned)i));
        if (block.context != context)
            continue;
        if (block.kind <= MEMORY_MANAGED) {
            give(i);
            if (block.pool) { /* whose lock comes first: then look again, from the end */
                pthread_mutex_unlock(&mutex);
                pool_gave(&block);
                pthread_mutex_lock(&mutex);
                i = (int)table_count();
            }
            continue;
        }
        leave(i); /* host memory: what is the caller's stays mapped */
        if (block.kind == MEMORY_HOST && munmap((void *)(uintptr_t)block.base, block.size))
            soft_say("cannot give back %llu bytes", (unsigned long long)block.size);
    }
    pthread_mutex_unlock(&mutex);
}

CUresult memory_enter(struct memory_block block)
{
    pthread_mutex_lock(&mutex);
    CUresult result = enter(block);
    pthread_mutex_unlock(&mutex);
    return result;
}

CUresult memory_leave(uint64_t base, enum memory_kind kind)
{
    pthread_mutex_lock(&mutex);
    int index = index_of(base);
    bool fits = index >= 0 && block_of(table_at((unsigned)index))->kind == kind;
    if (fits)
        leave(index);
    pthread_mutex_unlock(&mutex);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool memory_find(uint64_t address, struct memory_block *out)
{
    struct table_row row;
    pthread_mutex_lock(&mutex);
    bool found = table_find(address, &row);
    if (found)
        *out = *block_of(row);
    pthread_mutex_unlock(&mutex);
    return found;
}

bool memory_covers(uint64_t address, uint64_t size, bool write)
{
    struct table_row row;
    while (size) {
        if (!table_find(address, &row) || (write && !(row.flags & TABLE_WRITABLE)))
            return false;
        uint64_t here = row.base + row.size - address;
        if (here >= size)
            return true;
        address += here;
        size -= here;
    }
    return true;
}

/* By what was taken, not by the window: now and then the system puts its own mappings there. */
bool memory_is_device_address(uint64_t address)
{
    bool found = vmm_holds(address);
    pthread_mutex_lock(&mutex);
    for (const struct segment *segment = segments; segment && !found; segment = segment->next)
        found = address - segment->base < segment->size;
    pthread_mutex_unlock(&mutex);
    return found;
}

bool memory_charge(int device, uint64_t size)
{
    pthread_mutex_lock(&mutex);
    bool fits = size <= room_of(device);
    if (fits)
        used[device] += size;
    pthread_mutex_unlock(&mutex);
    return fits;
}

void memory_uncharge(int device, uint64_t size)
{
    pthread_mutex_lock(&mutex);
    used[device] -= size;
    pthread_mutex_unlock(&mutex);
}

uint64_t memory_used(int device)
{
    pthread_mutex_lock(&mutex);
    uint64_t now = used[device];
    pthread_mutex_unlock(&mutex);
    return now;
}

void memory_owner_set(int device)
{
    owner = device;
}

/* The page of ordinary host memory that holds the address, where the device reaches that. */
static bool pageable_find(uint64_t address, struct exec_range *out)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)address, 1};
    if (!soft_number("SOFTGPU_PAGEABLE", 0) || memory_is_device_address(address) ||
        process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1)
        return false;
    *out = (struct exec_range){address / PAGE * PAGE, PAGE, TABLE_WRITABLE};
    return true;
}

static bool exec_find(uint64_t address, struct exec_range *out)
{
    struct table_row row;
    if (!table_find(address, &row)) {
        if (pageable_find(address, out))
            return true;
        strict_was_freed(address, out);
        return false;
    }
    *out = (struct exec_range){row.base, row.size, row.flags & TABLE_WRITABLE};
    return true;
}

static uint64_t exec_alloc(size_t size, size_t align)
{
    uint64_t address = 0;
    return memory_take(NULL, size ? size : 1, align, MEMORY_MODULE, &address) == CUDA_SUCCESS
               ? address
               : 0;
}

static void exec_free(uint64_t address)
{
    (void)memory_give(address, MEMORY_MODULE); /* an address of exec_alloc: cannot fail */
}

const struct exec_memory soft_memory = {exec_find, exec_alloc, exec_free};
