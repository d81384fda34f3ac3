/* The forms of memory that a program may give a kernel: how each is made, what happens to it at
 * each launch, the kernel, and what is to become of it. For tests/e2e/memory.c. */
#ifndef MEMORY_FORMS_H
#define MEMORY_FORMS_H

#include <dlfcn.h>
#include <sys/mman.h>

#include "gpu/real.h"

#include "e2e.h"

enum { COUNT = 1000, BYTES = 4 * COUNT, BLOCK = 128 };
#define MIB ((uint64_t)1 << 20)

/* What the kernel does besides out[i] = 2 * in[i * stride] + number of the form. */
enum code {
    PLAIN,
    GUARDED, /* adds extra[i] where in[0] is 1e38 or more, which it never is */
    STRUCT,  /* its parameters are one struct by value */
    NESTED,  /* `in` stands in memory, where the parameter leads */
    INDEXED, /* in[extra[i]] */
};

struct memory {
    CUdeviceptr in, out, extra; /* the arguments */
    CUdeviceptr data;           /* what is read: in, or what it leads to */
    unsigned count;
    CUdeviceptr more[4]; /* a form's own */
    CUmemoryPool pool;
};

struct form {
    const char *name;
    void (*make)(struct memory *m);   /* once; NULL: two plain allocations */
    void (*before)(struct memory *m); /* each launch: before its data are written … */
    void (*last)(struct memory *m);   /* … right before it, with nothing to wait for … */
    void (*behind)(struct memory *m); /* … and right behind it and the copy of its result */
    enum code code;
    unsigned stride;  /* bytes; 0: 4 */
    bool work;        /* also with the kernel that has a variant */
    bool alone;       /* in a process of its own */
    bool judged;      /* its capture is given to a worker */
    const char *left; /* part of why it is left alone; NULL: it is captured */
};

extern const struct form forms[];
extern const unsigned form_count;

static CUstream stream, other; /* launches; what memory is freed on, too */

/* An entry that kgenrt itself has no use for. */
#define ENTRY(name) ((__typeof__(&name))(uintptr_t)dlsym(driver, #name))
static void *driver;

/* ---- parts -------------------------------------------------------------------------------------
 */

static inline CUdeviceptr plain(uint64_t size)
{
    CUdeviceptr address;
    WELL(real.cuMemAlloc_v2(&address, size));
    return address;
}

/* Work that is still under way when the calls behind it return. */
static inline void sleeps(void *unused)
{
    usleep(1000);
}

static inline void busy(CUstream on)
{
    WELL(real.cuLaunchHostFunc(on, sleeps, NULL));
}

/* The stream `second` goes on when `first` has come to here. */
static inline void order(CUstream first, CUstream second)
{
    CUevent event;
    WELL(real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    WELL(real.cuEventRecord(event, first));
    WELL(real.cuStreamWaitEvent(second, event, 0));
    WELL(real.cuEventDestroy_v2(event));
}

static inline CUmemAllocationProp on_device(int device)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
}

static inline void map(CUdeviceptr at, uint64_t size, CUmemGenericAllocationHandle handle)
{
    CUmemAccessDesc access = {.location = on_device(0).location,
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    WELL(real.cuMemMap(at, size, 0, handle, 0));
    WELL(real.cuMemRelease(handle)); /* the mapping keeps it */
    WELL(real.cuMemSetAccess(at, size, &access, 1));
}

static inline void map_new(CUdeviceptr at, uint64_t size, int device)
{
    CUmemAllocationProp prop = on_device(device);
    CUmemGenericAllocationHandle handle;
    WELL(real.cuMemCreate(&handle, size, &prop, 0));
    map(at, size, handle);
}

static inline CUdeviceptr reserve(uint64_t size)
{
    CUdeviceptr base;
    WELL(real.cuMemAddressReserve(&base, size, 0, 0, 0));
    return base;
}

/* ---- the forms ---------------------------------------------------------------------------------
 */

static void pitched(struct memory *m)
{
    size_t pitch = 0;
    WELL(real.cuMemAllocPitch_v2(&m->in, &pitch, 12, COUNT, 4));
    WELL(pitch != 512);
    m->data = m->in;
    m->out = plain(BYTES);
}

static void async_take(struct memory *m)
{
    WELL(real.cuMemAllocAsync(&m->in, BYTES, stream));
    WELL(real.cuMemAllocAsync(&m->out, BYTES, stream));
    m->data = m->in;
}

static void async_give(struct memory *m)
{
    WELL(real.cuMemFreeAsync(m->in, stream));
    WELL(real.cuMemFreeAsync(m->out, stream));
}

static void pool(struct memory *m)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = on_device(0).location};
    WELL(real.cuMemPoolCreate(&m->pool, &props));
}

static void pool_take(struct memory *m)
{
    WELL(real.cuMemAllocFromPoolAsync(&m->in, BYTES, m->pool, other));
    WELL(real.cuMemAllocFromPoolAsync(&m->out, BYTES, m->pool, other));
    m->data = m->in;
    order(other, stream);
}

/* On another stream, which waits for the launch, and nobody else does. */
static void pool_give(struct memory *m)
{
    order(stream, other);
    WELL(real.cuMemFreeAsync(m->in, other));
    WELL(real.cuMemFreeAsync(m->out, other));
}

static void managed(struct memory *m)
{
    WELL(real.cuMemAllocManaged(&m->in, BYTES, CU_MEM_ATTACH_GLOBAL));
    WELL(real.cuMemAllocManaged(&m->out, BYTES, CU_MEM_ATTACH_GLOBAL));
    m->data = m->in;
}

static void prefetched(struct memory *m)
{
    WELL(ENTRY(cuMemPrefetchAsync_v2)(m->in, BYTES, on_device(0).location, 0, stream));
}

static void host_mapped(struct memory *m)
{
    void *in, *out;
    WELL(real.cuMemHostAlloc(&in, BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
    WELL(real.cuMemHostAlloc(&out, BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
    WELL(real.cuMemHostGetDevicePointer_v2(&m->in, in, 0));
    WELL(real.cuMemHostGetDevicePointer_v2(&m->out, out, 0));
    m->data = m->in;
}

static void registered(struct memory *m)
{
    void *memory = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    WELL(memory == MAP_FAILED);
    WELL(real.cuMemHostRegister_v2(memory, 16384, CU_MEMHOSTREGISTER_DEVICEMAP));
    WELL(real.cuMemHostGetDevicePointer_v2(&m->in, memory, 0));
    m->data = m->in;
    m->out = m->in + 8192;
}

/* As PyTorch's expandable segments: one reserved range, mapped in pieces, whose buffers do not care
 * where a mapping ends. */
static void segments(struct memory *m)
{
    CUdeviceptr base = m->more[0] = reserve(64 * MIB);
    for (unsigned i = 1; i < 5; i++)
        map_new(base + i * 2 * MIB, 2 * MIB, 0);
    m->data = m->in = base + 4 * MIB - 2000;
    m->out = base + 8 * MIB - 2000;
}

/* The segment grows behind its last buffer, or shrinks again. */
static void segments_breathe(struct memory *m)
{
    if (m->more[1])
        WELL(real.cuMemUnmap(m->more[0] + 10 * MIB, 2 * MIB));
    else
        map_new(m->more[0] + 10 * MIB, 2 * MIB, 0);
    m->more[1] = !m->more[1];
}

/* Unmapped between what is touched: 2 elements, 4 MiB apart. */
static void hole(struct memory *m)
{
    m->data = m->in = reserve(32 * MIB);
    map_new(m->in, 2 * MIB, 0);
    map_new(m->in + 4 * MIB, 2 * MIB, 0);
    m->out = plain(BYTES);
    m->count = 2;
}

static void peer(struct memory *m)
{
    m->data = m->in = reserve(32 * MIB);
    map_new(m->in, 2 * MIB, 1);
    m->out = m->in + MIB;
}

static void imported(struct memory *m);

/* Of this program, and no call was made about it. */
static void pageable(struct memory *m)
{
    static float in[COUNT], out[COUNT];
    m->data = m->in = (uintptr_t)in;
    m->out = (uintptr_t)out;
}

static void middle(struct memory *m)
{
    CUdeviceptr all = plain(64 * MIB);
    m->data = m->in = all + 20 * MIB + 16;
    m->out = all + 40 * MIB + 4 * 16;
}

static void past_end(struct memory *m)
{
    m->data = m->in = plain(BYTES);
    m->out = plain(BYTES);
    m->extra = m->in + BYTES;
}

/* Freed in the stream's order right before the launch, and not yet executed. */
static void dangle(struct memory *m)
{
    WELL(real.cuMemAllocAsync(&m->extra, BYTES, stream));
    busy(stream);
    WELL(real.cuMemFreeAsync(m->extra, stream));
}

static void nothing(struct memory *m)
{
    m->data = m->in = plain(BYTES);
    m->out = plain(BYTES);
    m->count = 0;
}

static void nested(struct memory *m)
{
    CUdeviceptr table[4] = {0};
    m->data = plain(BYTES);
    m->out = plain(BYTES);
    m->in = plain(sizeof table);
    table[0] = m->data;
    WELL(real.cuMemcpyHtoD_v2(m->in, table, sizeof table));
}

/* Behind the pointer that is followed stands one to memory that was freed. */
static void nested_stale(struct memory *m)
{
    CUdeviceptr gone;
    WELL(real.cuMemAllocAsync(&gone, BYTES, stream));
    WELL(real.cuStreamSynchronize(stream));
    WELL(real.cuMemcpyHtoD_v2(m->in + 8, &gone, 8));
    busy(stream);
    WELL(real.cuMemFreeAsync(gone, stream));
}

static void nested_pool(struct memory *m)
{
    nested(m);
    WELL(real.cuMemAllocAsync(&m->data, BYTES, stream));
    WELL(real.cuStreamSynchronize(stream));
    WELL(real.cuMemcpyHtoD_v2(m->in, &m->data, 8));
}

static void indexes(struct memory *m)
{
    static unsigned at[COUNT];
    m->extra = plain(sizeof at);
    for (unsigned i = 0; i < COUNT; i++)
        at[i] = i;
    WELL(real.cuMemcpyHtoD_v2(m->extra, at, sizeof at));
    m->out = plain(BYTES);
}

static void indexed(struct memory *m)
{
    indexes(m);
    m->data = m->in = plain(BYTES);
}

static void indexed_large(struct memory *m)
{
    indexes(m);
    m->data = m->in = plain(20 * MIB);
}

static void large(struct memory *m)
{
    m->data = m->in = plain(COUNT * 32768);
    m->out = plain(BYTES);
}

const struct form forms[] = {
    {.name = "plain", .work = true},
    {.name = "pitched", .make = pitched, .stride = 512},
    {.name = "segments",
     .make = segments,
     .before = segments_breathe,
     .stride = 4096,
     .work = true,
     .judged = true},
    {.name = "hole", .make = hole, .stride = 4 << 20, .judged = true},
    {.name = "async", .before = async_take, .behind = async_give, .work = true},
    {.name = "pool", .make = pool, .before = pool_take, .behind = pool_give, .work = true},
    {.name = "managed", .make = managed, .last = prefetched, .work = true, .left = "managed"},
    {.name = "host_mapped", .make = host_mapped, .work = true, .left = "registered host memory"},
    {.name = "registered", .make = registered, .work = true, .left = "registered host memory"},
    {.name = "pageable", .make = pageable, .alone = true, .left = "memory: pageable"},
    {.name = "peer", .make = peer, .work = true, .left = "another device's memory"},
    {.name = "imported", .make = imported, .work = true},
    {.name = "by_value", .code = STRUCT},
    {.name = "middle", .make = middle, .work = true},
    {.name = "past_end", .make = past_end, .code = GUARDED},
    {.name = "null", .code = GUARDED},
    {.name = "dangling", .last = dangle, .code = GUARDED},
    {.name = "nothing", .make = nothing},
    {.name = "nested", .make = nested, .code = NESTED},
    {.name = "nested_stale", .make = nested, .last = nested_stale, .code = NESTED},
    {.name = "nested_pool", .make = nested_pool, .code = NESTED, .left = "freed in stream order"},
    {.name = "indexed", .make = indexed, .code = INDEXED},
    {.name = "indexed_large",
     .make = indexed_large,
     .code = INDEXED,
     .left = "its allocation's rest has 20 MiB"},
    {.name = "large", .make = large, .stride = 32768, .left = "a launch reaches 31 MiB"},
};
const unsigned form_count = sizeof forms / sizeof *forms;

#endif
