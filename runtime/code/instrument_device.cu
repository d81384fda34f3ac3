/* What an instrumented kernel calls at each access, barrier and fence. This is the source; the
 * library carries its PTX, instrument_device.inc, which device_text.sh makes from it (nvcc is
 * not needed to build). Instructions of the oldest targets only: the PTX is put into modules of any
 * version. Layouts: instrument.h. Nothing here may wait, or touch a bar.* or a warp operation. */
typedef unsigned u32;
typedef unsigned long long u64;

enum { CONTAIN = 1, RECORD = 2, SPACES = 4 }; /* state.flags */
enum {
    READ = 0x100,
    WRITE = 0x200,
    ATOMIC = 0x400,
    STRONG = 0x800,
    RELEASE = 0x1000,
    VOLATILE = 0x2000
}; /* info */
enum {
    SHARED = 0x10000,
    LOCAL = 0x20000,
    CONSTANT = 0x30000,
    SPACE = 0x30000,
    GENERIC = 0x40000
};                                                               /* info: the space */
enum { OUTSIDE = 1, MISALIGNED, DENIED, BUDGET, RAW, WAR, WAW }; /* report kinds */
enum { MOST_REPORTS = 64, MOST_COUNT = 1 << 24, RING = 8, NEAR = 4 };

struct range {
    u64 begin, end, reads, writes, cells;
    u32 rights, pad;
};

struct report {
    u64 address;
    u32 kind, size, line, block[3], thread[3], other_block, other_thread, other_line;
};

struct reports {
    u32 count, same_value, most, pad;
    struct report list[MOST_REPORTS];
};

/* Of a block: what it published (see published), and the time of its latest acquire. */
struct block {
    u32 count, acquired;
    u64 ring[RING];
};

/* Of a granule of memory: its last writer, two readers, and their lines. */
struct cell {
    u64 writer, readers[2];
    u32 write_line, read_line;
};

extern "C" {
__constant__ struct {
    u32 flags, budget;
    u32 range_count, const_count;
    struct range *ranges, *consts;
    struct reports *reports;
    struct block *blocks;
    u32 *clock;
    struct cell *shared_cells; /* slots of shared_count cells, a block each */
    u32 block_count, shared_slots, shared_count;
    u32 global_shift, shared_shift; /* log2 of a granule's bytes */
    u32 pad;
    struct range near[2 * NEAR]; /* where there are so few: ranges, then consts; size 0: none */
} kgi_state;
}

struct thread {
    u32 budget, epoch, warp_epoch, acquired;
    u32 fence, fence_warp, block_fence, block_fence_warp; /* *_warp: and fences, in the low bits */
    u64 local_low, local_high;
    u32 shared_low, shared_high;
    u32 mask;   /* of the last bar.warp.sync of a part of the warp */
    u32 fences; /* since the last barrier */
};

#define FUNC extern "C" __device__ __noinline__

static __device__ __forceinline__ u32 block_number(void)
{
    return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}

static __device__ __forceinline__ u32 thread_number(void)
{
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

/* ---- reports ------------------------------------------------------------------------------- */

FUNC void kgi_report(u64 address, u32 kind, u32 size, u32 line, u32 block, u32 thread,
                     u32 other_line)
{
    struct reports *all = kgi_state.reports;
    if (*(volatile u32 *)&all->count >= MOST_COUNT)
        return;
    u32 index = atomicAdd(&all->count, 1);
    if (index >= MOST_REPORTS)
        return;
    struct report *r = &all->list[index];
    r->address = address;
    r->kind = kind;
    r->size = size;
    r->line = line;
    r->block[0] = blockIdx.x;
    r->block[1] = blockIdx.y;
    r->block[2] = blockIdx.z;
    r->thread[0] = threadIdx.x;
    r->thread[1] = threadIdx.y;
    r->thread[2] = threadIdx.z;
    r->other_block = block;
    r->other_thread = thread;
    r->other_line = other_line;
}

static __device__ __forceinline__ u32 offend(u64 address, u32 kind, u32 info, u32 line)
{
    kgi_report(address, kind | (info & 0x3ff00), info & 255, line, ~0u, 0, 0);
    return !(kgi_state.flags & CONTAIN);
}

/* ---- record and check ---------------------------------------------------------------------- */

/* The range that holds [address, address + size); ranges are sorted and disjoint. */
static __device__ __forceinline__ bool find_far(const struct range *ranges, u32 count, u64 address,
                                                struct range *out)
{
    u32 low = 0, high = count;
    while (low < high) {
        u32 middle = (low + high) / 2;
        if (address < ranges[middle].begin)
            high = middle;
        else
            low = middle + 1;
    }
    if (!low)
        return false;
    *out = ranges[low - 1];
    return true;
}

static __device__ __forceinline__ bool find(bool consts, u64 address, u32 size, struct range *out)
{
    u32 count = consts ? kgi_state.const_count : kgi_state.range_count, hit = NEAR;
    if (count > NEAR) {
        if (!find_far(consts ? kgi_state.consts : kgi_state.ranges, count, address, out))
            return false;
    } else {
        /* by operands from constant memory, without waiting for loads */
#pragma unroll
        for (u32 i = 0; i < NEAR; i++) {
            const struct range *r = &kgi_state.near[i + (consts ? NEAR : 0)];
            if (address - r->begin < r->end - r->begin)
                hit = i;
        }
        if (hit == NEAR)
            return false;
        *out = kgi_state.near[hit + (consts ? NEAR : 0)];
    }
    return address < out->end && out->end - address >= size;
}

/* A bit a byte; an aligned access never crosses a word of them. */
static __device__ __forceinline__ void mark(u64 bits, u64 begin, u64 address, u32 size)
{
    u64 offset = address - (begin & ~31ull);
    u32 mask = (size >= 32 ? ~0u : (1u << size) - 1) << (offset & 31);
    u32 *word = (u32 *)bits + (offset >> 5);
    if ((*word & mask) == mask) /* may be old, as the cache has it; bits are never taken back */
        return;
    if ((*(volatile u32 *)word & mask) != mask)
        atomicOr(word, mask);
}

static __device__ __forceinline__ u32 judge(bool consts, u64 address, u32 info, u32 line)
{
    u32 size = info & 255; /* of a copy with a length of its own: any multiple of 1, 2, 4, ... */
    struct range r;
    if (!size)
        return 1;
    if (address & ((size & -size) - 1))
        return offend(address, MISALIGNED, info, line);
    if (!find(consts, address, size, &r))
        return offend(address, OUTSIDE, info, line);
    if ((info >> 8 & 3) & ~r.rights)
        return offend(address, DENIED, info, line);
    if (kgi_state.flags & RECORD) {
        if (info & READ && r.reads)
            mark(r.reads, r.begin, address, size);
        if (info & WRITE && r.writes)
            mark(r.writes, r.begin, address, size);
    }
    return 1;
}

FUNC u32 kgi_global(u64 thread, u64 address, u32 info, u32 line)
{
    return judge(false, address, info, line);
}

FUNC u32 kgi_const(u64 thread, u64 address, u32 info, u32 line)
{
    return judge(true, address, info, line);
}

FUNC u32 kgi_shared(u64 thread, u64 address, u32 info, u32 line)
{
    const struct thread *t = (const struct thread *)thread;
    u32 size = info & 255;
    if (!(kgi_state.flags & SPACES))
        return 1;
    if (address & (size - 1))
        return offend(address, MISALIGNED, info, line);
    if (address < t->shared_low || address >= t->shared_high || t->shared_high - address < size)
        return offend(address, OUTSIDE, info, line);
    return 1;
}

FUNC u32 kgi_local(u64 thread, u64 address, u32 info, u32 line)
{
    const struct thread *t = (const struct thread *)thread;
    u32 size = info & 255;
    if (!(kgi_state.flags & SPACES))
        return 1;
    if (address & (size - 1))
        return offend(address, MISALIGNED, info, line);
    if (address < t->local_low || address >= t->local_high || t->local_high - address < size)
        return offend(address, OUTSIDE, info, line);
    return 1;
}

/* Parameters of the entry: [low, high). */
FUNC u32 kgi_param(u64 address, u32 info, u32 line, u64 low, u64 high)
{
    u32 size = info & 255;
    if (address & (size - 1))
        return offend(address, MISALIGNED, info, line);
    return address >= low && address < high && high - address >= size
               ? 1
               : offend(address, OUTSIDE, info, line);
}

static __device__ __forceinline__ u64 to_local(u64 address)
{
    u64 out;
    asm("cvta.to.local.u64 %0, %1;" : "=l"(out) : "l"(address));
    return out;
}

static __device__ __forceinline__ u64 to_shared(u64 address)
{
    u64 out;
    asm("cvta.to.shared.u64 %0, %1;" : "=l"(out) : "l"(address));
    return out;
}

static __device__ __forceinline__ u64 to_const(u64 address)
{
    u64 out;
    asm("cvta.to.const.u64 %0, %1;" : "=l"(out) : "l"(address));
    return out;
}

static __device__ __forceinline__ u32 is_const(u64 address)
{
    u32 out;
    asm("{ .reg .pred p; isspacep.const p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(out) : "l"(address));
    return out;
}

FUNC u32 kgi_generic(u64 thread, u64 address, u32 info, u32 line)
{
    if (__isShared((void *)address))
        return kgi_shared(thread, to_shared(address), info | SHARED, line);
    if (__isLocal((void *)address))
        return kgi_local(thread, to_local(address), info | LOCAL, line);
    if (kgi_state.const_count && is_const(address)) {
        /* a device may have no window of its own for them */
        u64 constant = to_const(address);
        struct range r;
        if (find(true, constant, info & 255, &r))
            return kgi_const(thread, constant, info | CONSTANT, line);
    }
    return kgi_global(thread, address, info, line);
}

/* A matrix of the warp: rows of row_bytes, pitch bytes apart. The first lane speaks for all; pieces
 * are no larger than the alignment that the operation asks for. */
FUNC u32 kgi_rows(u64 thread, u64 address, u32 info, u32 line, u32 rows, u32 pitch, u32 row_bytes)
{
    u32 lane, good = 1, piece = row_bytes < 16 ? row_bytes : 16;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    for (u32 i = 0; i < rows && !lane; i++)
        for (u32 at = 0; at < row_bytes; at += piece) {
            u64 to = address + (u64)i * pitch + at;
            u32 how = (info & 0x3ff00) | piece;
            good &= info & GENERIC             ? kgi_generic(thread, to, how, line)
                    : (info & SPACE) == SHARED ? kgi_shared(thread, to, how, line)
                                               : kgi_global(thread, to, how, line);
        }
    return good;
}

/* The budget is spent: the thread will end. */
FUNC void kgi_spent(u32 line)
{
    kgi_report(0, BUDGET, 0, line, ~0u, 0, 0);
}

/* Where a thread ends: how much of its budget it took. */
FUNC void kgi_used(u32 left)
{
    u32 used = kgi_state.budget - left, *most = &kgi_state.reports->most;
    if (used > *(volatile u32 *)most)
        atomicMax(most, used);
}

FUNC void kgi_begin(u64 thread)
{
    struct thread *t = (struct thread *)thread;
    *t = (struct thread){kgi_state.budget, 1};
}

/* ---- races ---------------------------------------------------------------------------------- */

/* Who accessed, when: block 20 bits, thread 10, epoch 12 (barriers passed, from 1), and since then
 * bar.warp.syncs of the whole warp 6 and, since those, of a part 4; then, of a writer, ATOM and two
 * bits on a hash of the value, of a reader MANY_*; the two bits count the thread's fences since the
 * barrier. Counts stop at their largest value: accesses there are taken for ordered. */
enum { TAG_ATOM = 0x800, TAG_HASH = 0x1ff, MANY_LANES = 1, MANY_WARPS = 2 };
enum {
    LAST_EPOCH = 0xfff,
    LAST_FULL = 63 << 4,
    LAST_PART = 15,
    LAST_TIME = 0xffffff,
    LAST_FENCES = 3
};

static __device__ __forceinline__ u32 tag_block(u64 tag)
{
    return (u32)(tag >> 44);
}

static __device__ __forceinline__ u32 tag_thread(u64 tag)
{
    return (u32)(tag >> 34) & 1023;
}

static __device__ __forceinline__ u32 tag_epoch(u64 tag)
{
    return (u32)(tag >> 22) & LAST_EPOCH;
}

static __device__ __forceinline__ u32 tag_warp_epoch(u64 tag)
{
    return (u32)tag >> 12 & 1023;
}

static __device__ __forceinline__ u32 tag_fences(u64 tag)
{
    return (u32)tag >> 9 & LAST_FENCES;
}

static __device__ __forceinline__ u64 tag_of(const struct thread *t)
{
    return (u64)block_number() << 44 | (u64)thread_number() << 34 | (u64)t->epoch << 22 |
           t->warp_epoch << 12 | t->fences << 9;
}

/* Of two lanes of one warp: whether a bar.warp.sync in which both took part lies between. Whom a
 * synchronization of a part joined, the later one's mask tells. */
static __device__ __forceinline__ bool warp_ordered(u64 tag, u64 me, u32 mask)
{
    u32 theirs = tag_warp_epoch(tag), mine = tag_warp_epoch(me);
    if ((theirs ^ mine) & LAST_FULL || (mine & LAST_FULL) == LAST_FULL)
        return true;
    return (theirs != mine || (mine & LAST_PART) == LAST_PART) &&
           mask >> (tag_thread(tag) & 31) & 1;
}

/* A publication: time 24 bits, epoch of the fence 12, thread 10, warp epoch of the fence 10, valid,
 * and whether a barrier lies between fence and atomic, and whether the fence is of the block only.
 */
enum { PUB_AFTER = 1, PUB_BLOCK = 2, PUB_VALID = 4, PUB_FENCES = 3 /* bits 3 and 4 */ };

/* Whether publication p covers what tag did. */
static __device__ __forceinline__ bool covers(u64 p, u64 tag)
{
    u32 epoch = (u32)(p >> 28) & LAST_EPOCH, thread = (u32)(p >> 18) & 1023;
    if (epoch != tag_epoch(tag))
        return epoch > tag_epoch(tag);
    if (thread == tag_thread(tag) && !(p & PUB_AFTER)) /* not what it did behind the fence */
        return tag_fences(tag) <= ((u32)p >> PUB_FENCES & LAST_FENCES);
    return (p & PUB_AFTER) ||
           (thread >> 5 == tag_thread(tag) >> 5 && tag_warp_epoch(tag) < ((u32)p >> 8 & 1023));
}

/* Whether the block of tag published what tag did before this thread last acquired. The ring keeps
 * a block's latest publications; epochs rise with time. Where older ones are lost that could be of
 * the tag's epoch or later, there is no evidence of a race. */
FUNC u32 kgi_published(u64 tag, u32 acquired, u32 same_block)
{
    if (!acquired)
        return false;
    const volatile struct block *b = &kgi_state.blocks[tag_block(tag) % kgi_state.block_count];
    u32 count = b->count, lowest = ~0u;
    for (u32 i = 0; i < RING && i < count; i++) {
        u64 p = b->ring[i];
        u32 epoch = (u32)(p >> 28) & LAST_EPOCH;
        if (!(p & PUB_VALID))
            continue;
        lowest = epoch < lowest ? epoch : lowest;
        if ((same_block || !(p & PUB_BLOCK)) && (u32)(p >> 40) <= acquired && covers(p, tag))
            return true;
    }
    return count > RING && lowest >= tag_epoch(tag);
}

/* Whether what tag did happens before what this thread does now, or is its own. */
static __device__ __forceinline__ bool ordered(u64 tag, u64 me, const struct thread *t, bool shared)
{
    if (tag_block(tag) != tag_block(me))
        return shared || kgi_published(tag, t->acquired, 0);
    if (tag_epoch(tag) != tag_epoch(me) || tag_epoch(me) == LAST_EPOCH ||
        tag_thread(tag) == tag_thread(me))
        return true;
    if (tag_thread(tag) >> 5 == tag_thread(me) >> 5 && warp_ordered(tag, me, t->mask))
        return true;
    return kgi_published(tag, t->acquired, 1);
}

/* The same of a reader's tag, which may stand for several threads of its block. */
static __device__ __forceinline__ bool readers_ordered(u64 tag, u64 me, const struct thread *t,
                                                       bool shared)
{
    u32 many = (u32)tag & (MANY_LANES | MANY_WARPS);
    if (!many || tag_block(tag) != tag_block(me) || tag_epoch(tag) != tag_epoch(me) ||
        tag_epoch(me) == LAST_EPOCH)
        return ordered(tag, me, t, shared);
    return !(many & MANY_WARPS) && tag_thread(tag) >> 5 == tag_thread(me) >> 5 &&
           warp_ordered(tag, me, t->mask);
}

static __device__ void conflict(u32 kind, u64 address, u32 info, u32 line, u64 tag, u32 other_line)
{
    kgi_report(address, kind | (info & 0x3ff00), info & 255, line, tag_block(tag), tag_thread(tag),
               other_line);
}

/* The reader's tag that stands for old and me, or 0: old does already. */
static __device__ __forceinline__ u64 merge(u64 old, u64 me, const struct thread *t, bool shared)
{
    if (!old || tag_block(old) != tag_block(me) || tag_epoch(old) != tag_epoch(me))
        return me;
    if (old & MANY_WARPS)
        return 0;
    if (tag_thread(old) >> 5 != tag_thread(me) >> 5)
        return ordered(old, me, t, shared) ? me : old | MANY_WARPS;
    bool same = tag_warp_epoch(old) == tag_warp_epoch(me);
    if (same && old & MANY_LANES)
        return 0;
    if (tag_thread(old) == tag_thread(me) && !(old & MANY_LANES))
        return me;
    return readers_ordered(old, me, t, shared) ? me : me | MANY_LANES;
}

static __device__ __forceinline__ void note_reader(struct cell *cell, u64 me, u32 line,
                                                   const struct thread *t, bool shared)
{
    u64 old = *(volatile u64 *)&cell->readers[0];
    for (;;) {
        bool foreign = old && tag_block(old) != tag_block(me);
        /* nothing is ever published: two blocks stand for all */
        if (foreign && !shared && *(volatile u64 *)&cell->readers[1] &&
            !*(volatile u32 *)kgi_state.clock)
            return;
        u64 next = merge(old, me, t, shared);
        if (!next || next == old)
            return;
        u64 seen = atomicCAS(&cell->readers[0], old, next);
        if (seen == old) {
            if (foreign && !shared)
                *(volatile u64 *)&cell->readers[1] = old;
            *(volatile u32 *)&cell->read_line = line;
            return;
        }
        old = seen;
    }
}

static __device__ __forceinline__ void cell_read(struct cell *cell, const struct thread *t,
                                                 u64 address, u32 info, u32 line, bool shared)
{
    u64 me = tag_of(t);
    if (!(info & STRONG))
        note_reader(cell, me, line, t, shared);
    u64 w = *(volatile u64 *)&cell->writer;
    if (w && !(info & STRONG && w & TAG_ATOM) && !ordered(w, me, t, shared))
        conflict(RAW, address, info, line, w, *(volatile u32 *)&cell->write_line);
}

static __device__ __forceinline__ void cell_write(struct cell *cell, const struct thread *t,
                                                  u64 address, u32 info, u32 line, u32 value,
                                                  bool shared)
{
    u64 me = tag_of(t);
    bool atom = info & (ATOMIC | STRONG);
    u32 mixed = value * 0x9e3779b1u;
    u64 own = me | (atom ? (u32)TAG_ATOM : mixed >> 23);
    /* a thread's atomic does not hide its plain write before it */
    u64 last = atom ? *(volatile u64 *)&cell->writer : 0;
    if (last && !(last & TAG_ATOM) && (last >> 22) == (me >> 22))
        own = me;
    u64 w = atomicExch(&cell->writer, own);
    u32 other = *(volatile u32 *)&cell->write_line;
    *(volatile u32 *)&cell->write_line = line;
    if (w && !(atom && w & TAG_ATOM) && !ordered(w, me, t, shared)) {
        if (!atom && !(w & TAG_ATOM) && ((w ^ own) & TAG_HASH) == 0)
            kgi_state.reports->same_value = 1;
        else
            conflict(WAW, address, info, line, w, other);
    }
    for (u32 i = 0; i < 2 - shared; i++) {
        u64 r = *(volatile u64 *)&cell->readers[i];
        if (!r)
            continue;
        if (!readers_ordered(r, me, t, shared))
            conflict(WAR, address, info, line, r, *(volatile u32 *)&cell->read_line);
        *(volatile u64 *)&cell->readers[i] = 0; /* ordered before this write, or reported */
    }
}

/* Before an atomic or strong write: what was fenced before is published by it. */
static __device__ void publish(struct thread *t, bool release)
{
    u32 fence = t->fence, detail = t->fence_warp, flags = PUB_VALID;
    if (release) {
        fence = t->epoch;
        detail = t->warp_epoch << 2 | t->fences;
    } else if (t->block_fence > fence ||
               (t->block_fence == fence && t->block_fence_warp > detail)) {
        fence = t->block_fence;
        detail = t->block_fence_warp;
        flags |= PUB_BLOCK;
    }
    if (!fence)
        return;
    u32 time = atomicAdd(kgi_state.clock, 1) + 1;
    if (time > LAST_TIME)
        time = LAST_TIME;
    if (t->epoch > fence)
        flags |= PUB_AFTER;
    flags |= (detail & LAST_FENCES) << PUB_FENCES | detail >> 2 << 8;
    struct block *b = &kgi_state.blocks[block_number() % kgi_state.block_count];
    *(volatile u64 *)&b->ring[atomicAdd(&b->count, 1) % RING] =
        (u64)time << 40 | (u64)fence << 28 | (u64)thread_number() << 18 | flags;
    __threadfence();
}

static __device__ __forceinline__ void cells(struct cell *first, u32 shift, struct thread *t,
                                             u64 address, u32 info, u32 line, u64 value,
                                             bool shared)
{
    u32 granule = 1u << shift, mask = granule < 4 ? (1u << 8 * granule) - 1 : ~0u;
    for (u32 i = 0; i < (info & 255); i += granule) {
        struct cell *cell = first + (i >> shift);
        if (info & WRITE)
            cell_write(cell, t, address + i, info, line, (u32)(value >> 8 * (i & 7)) & mask,
                       shared);
        else
            cell_read(cell, t, address + i, info, line, shared);
    }
}

FUNC void kgi_race_global(u64 thread, u64 address, u32 info, u32 line, u64 value)
{
    struct thread *t = (struct thread *)thread;
    if (info & WRITE && info & (ATOMIC | STRONG))
        publish(t, info & RELEASE);
    struct range r;
    if (!find(false, address, info & 255, &r) || !r.cells)
        return;
    u32 shift = kgi_state.global_shift;
    u64 offset = address - (r.begin & ~31ull);
    cells((struct cell *)r.cells + (offset >> shift), shift, t, address, info, line, value, false);
}

FUNC void kgi_race_shared(u64 thread, u64 address, u32 info, u32 line, u64 value)
{
    struct thread *t = (struct thread *)thread;
    if (info & WRITE && info & (ATOMIC | STRONG))
        publish(t, info & RELEASE);
    u32 shift = kgi_state.shared_shift, index = (u32)address >> shift;
    if (!kgi_state.shared_slots || index + ((info & 255) >> shift) >= kgi_state.shared_count)
        return;
    struct cell *slot = kgi_state.shared_cells +
                        (u64)(block_number() % kgi_state.shared_slots) * kgi_state.shared_count;
    cells(slot + index, shift, t, address, info | SHARED, line, value, true);
}

FUNC void kgi_race_generic(u64 thread, u64 address, u32 info, u32 line, u64 value)
{
    if (__isShared((void *)address))
        kgi_race_shared(thread, to_shared(address), info & VOLATILE ? info & ~STRONG : info, line,
                        value);
    else if (!__isLocal((void *)address))
        kgi_race_global(thread, address, info, line, value);
}

static __device__ __forceinline__ void later(struct thread *t)
{
    u32 time = *(volatile u32 *)&kgi_state.blocks[block_number() % kgi_state.block_count].acquired;
    if (time > t->acquired)
        t->acquired = time;
}

/* After a barrier of the whole block. */
FUNC void kgi_barrier(u64 thread)
{
    struct thread *t = (struct thread *)thread;
    t->epoch += t->epoch < LAST_EPOCH;
    t->warp_epoch = t->mask = t->fences = 0;
    later(t);
}

/* After bar.warp.sync. */
FUNC void kgi_warp(u64 thread, u32 mask)
{
    struct thread *t = (struct thread *)thread;
    u32 threads = blockDim.x * blockDim.y * blockDim.z, first = thread_number() & ~31u;
    u32 all = threads - first >= 32 ? ~0u : (1u << (threads - first)) - 1;
    if ((mask & all) == all) {
        t->warp_epoch =
            (t->warp_epoch & LAST_FULL) == LAST_FULL ? LAST_FULL : (t->warp_epoch | LAST_PART) + 1;
        t->mask = 0;
    } else {
        t->warp_epoch += (t->warp_epoch & LAST_PART) < LAST_PART;
        t->mask = t->mask && t->mask != mask ? t->mask & mask : mask;
    }
    later(t);
}

/* At a fence, of the device or of the block only. */
FUNC void kgi_fence(u64 thread, u32 device)
{
    struct thread *t = (struct thread *)thread;
    u32 detail = t->warp_epoch << 2 | t->fences;
    if (device) {
        t->fence = t->epoch;
        t->fence_warp = detail;
    } else {
        t->block_fence = t->epoch;
        t->block_fence_warp = detail;
    }
    t->fences += t->fences < LAST_FENCES;
}

/* After an atomic whose result is read, or a strong load. */
FUNC void kgi_acquire(u64 thread)
{
    struct thread *t = (struct thread *)thread;
    __threadfence();
    u32 time = *(volatile u32 *)kgi_state.clock;
    if (!time)
        return;
    t->acquired = time;
    atomicMax(&kgi_state.blocks[block_number() % kgi_state.block_count].acquired, time);
}
