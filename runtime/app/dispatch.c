/* The hot path: a launch of a known kernel gets the first variant whose guard holds, else the
 * original. No lock, no allocation, no system call, no logging, no look-up of an allocation.
 *
 * Guards come from a file: signature_fits has held for each before it was published. */
#include "app/dispatch.h"
#include "app/tally.h"
#include "app/track.h"

#include <string.h>

#include "app/graphs.h"
#include "app/inside.h"

enum { CONTEXTS_KNOWN = 16 };

/* For good: a reader must not see it come and go. */
enum { SEVERAL = 1, GREEN = 2 };
static atomic_int wary;
static _Atomic(CUcontext) contexts_seen[CONTEXTS_KNOWN];

bool context_known(CUcontext context)
{
    for (int i = 0; context && i < CONTEXTS_KNOWN; i++)
        if (atomic_load_explicit(&contexts_seen[i], memory_order_relaxed) == context)
            return true;
    return false;
}

bool context_seen(CUcontext context)
{
    if (!context)
        return false;
    for (int i = 0; i < CONTEXTS_KNOWN; i++) {
        CUcontext there = atomic_load_explicit(&contexts_seen[i], memory_order_relaxed);
        if (!there && atomic_compare_exchange_strong(&contexts_seen[i], &there, context))
            return true;
        if (there == context)
            return false;
        atomic_fetch_or_explicit(&wary, SEVERAL, memory_order_relaxed);
    }
    return false; /* one of many; kgenrt does not tune such a process anyway */
}

void context_unseen(CUcontext context)
{
    for (int i = 0; i < CONTEXTS_KNOWN; i++) {
        CUcontext there = context;
        if (context)
            atomic_compare_exchange_strong(&contexts_seen[i], &there, NULL);
        else
            atomic_store(&contexts_seen[i], NULL);
    }
}

void context_green(void)
{
    atomic_fetch_or_explicit(&wary, GREEN, memory_order_relaxed);
}

bool context_is_green(void)
{
    CUgreenCtx green = NULL;
    return (atomic_load_explicit(&wary, memory_order_relaxed) & GREEN) &&
           real.cuStreamGetGreenCtx &&
           real.cuStreamGetGreenCtx(CU_STREAM_LEGACY, &green) == CUDA_SUCCESS && green;
}

/* REFUSAL_COUNT: the launch is in the kernel's own context, and that is the whole device's. */
static __attribute__((noinline)) enum refusal context_refused(const struct kernel *kernel,
                                                              const struct launch *launch, int why)
{
    CUcontext now = NULL;
    CUgreenCtx green = NULL;
    if ((why & GREEN) && /* a graph's node has no stream: whose context it is cannot be told */
        (!launch->explicit_stream || !real.cuStreamGetGreenCtx ||
         real.cuStreamGetGreenCtx(launch->explicit_stream, &green) != CUDA_SUCCESS || green))
        return REFUSED_GREEN;
    if ((why & SEVERAL) && (real.cuCtxGetCurrent(&now) != CUDA_SUCCESS || !now ||
                            now != atomic_load_explicit(&kernel->context, memory_order_relaxed)))
        return REFUSED_CONTEXT;
    return REFUSAL_COUNT;
}

/* ---- arguments ---------------------------------------------------------------------------------
 */

/* The packed parameter buffer of an `extra` list, and its size. */
static const char *packed(void *const *extra, size_t *size)
{
    const char *buffer = NULL;
    *size = 0;
    for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1])
            *size = *(const size_t *)extra[1];
        else
            return NULL;
    }
    return buffer;
}

const void *launch_argument(const struct kernel *kernel, const struct launch *launch,
                            unsigned index)
{
    if (index >= kernel->param_count)
        return NULL;
    if (launch->params)
        return launch->params[index];
    size_t size;
    const char *buffer = packed(launch->extra, &size);
    const struct kg_param *param = &kernel->params[index];
    if (!buffer || param->offset > size || param->size > size - param->offset)
        return NULL;
    return buffer + param->offset;
}

/* Address of each argument: the app's own array, or `space` filled from the packed form. NULL:
 * there are none. */
static void *const *arguments_of(const struct kernel *kernel, const struct launch *launch,
                                 void *space[static LAUNCH_PARAMS])
{
    if (launch->params)
        return launch->extra ? NULL : launch->params; /* both: the driver says what is wrong */
    if (kernel->param_count > LAUNCH_PARAMS)
        return NULL;
    for (unsigned i = 0; i < kernel->param_count; i++)
        if (!(space[i] = (void *)launch_argument(kernel, launch, i)))
            return NULL;
    return space;
}

/* Little endian, from 1 to 8 bytes; equality is a span of 0. Each size has its own variable, which
 * stays in a register: bytes stored into a wider one would be loaded again, and waited for. Sizes
 * in order of how common they are; a switch would be an indirect jump. */
static inline bool holds(const struct kg_scalar *scalar, const char *argument)
{
    uint64_t eight = 0;
    uint32_t four;
    if (scalar->size == 4) {
        memcpy(&four, argument, 4);
        return four - (uint32_t)scalar->value <= (uint32_t)scalar->span;
    }
    if (scalar->size == 8) {
        memcpy(&eight, argument, 8);
        return eight - scalar->value <= scalar->span;
    }
    memcpy(&eight, argument, scalar->size & 7);
    return ((eight - scalar->value) & scalar_mask(scalar->size)) <= scalar->span;
}

static inline uint64_t scalar_read(const struct kg_scalar *scalar, const char *argument)
{
    uint64_t eight = 0;
    uint32_t four;
    if (scalar->size == 4) {
        memcpy(&four, argument, 4);
        return four;
    }
    if (scalar->size == 8)
        memcpy(&eight, argument, 8);
    else
        memcpy(&eight, argument, scalar->size & 7);
    return eight;
}

/* ---- guards ------------------------------------------------------------------------------------
 */

/* Word by word, as the hook stored them a moment ago: a wider load of what still stands in the
 * store buffer waits for it, 20 ns in all. */
static inline bool same_shape(const struct kg_launch *a, const struct kg_launch *b)
{
    return a->grid.x == b->grid.x && a->grid.y == b->grid.y && a->grid.z == b->grid.z &&
           a->block.x == b->block.x && a->block.y == b->block.y && a->block.z == b->block.z &&
           a->shared == b->shared;
}

static inline bool scalars_hold(const struct kg_signature *signature, void *const *arguments)
{
    const struct kg_scalar *end = signature->scalars + signature->scalar_count;
    for (const struct kg_scalar *scalar = signature->scalars; scalar != end; scalar++)
        if (!holds(scalar, (const char *)arguments[scalar->param] + scalar->offset))
            return false;
    return true;
}

/* What each pointer may touch: addresses [low, high). */
struct touched {
    uint64_t low[GUARD_POINTERS], high[GUARD_POINTERS];
};

/* All at once: misaligned pointers are rare, and a branch each is not. */
static inline bool pointers_aligned(const struct kg_signature *signature, void *const *arguments,
                                    struct touched *touched)
{
    uint64_t astray = 0;
    for (uint32_t i = 0; i < signature->pointer_count; i++) {
        const struct kg_pointer *pointer = &signature->pointers[i];
        uint64_t value;
        memcpy(&value, (const char *)arguments[pointer->param] + pointer->offset, 8);
        astray |= value & ((uint64_t)pointer->align - 1);
        touched->low[i] = value + (uint64_t)pointer->low;
        touched->high[i] = value + (uint64_t)pointer->high;
    }
    return !astray;
}

/* Of two pointers whose reach has bytes in common: whether the variant was verified like that. */
static bool may_overlap(const struct kg_signature *signature, uint32_t a, uint32_t b)
{
    const struct kg_pointer *x = &signature->pointers[a], *y = &signature->pointers[b];
    if (x->low == x->high || y->low == y->high || (!pointer_written(x) && !pointer_written(y)))
        return true;
    for (uint32_t i = 0; i < signature->overlap_count; i++)
        if (signature->overlaps[i].a == a && signature->overlaps[i].b == b)
            return true;
    return false;
}

/* Recorded overlaps are just as they were; all other pairs of which one is written are disjoint. */
static inline bool pointers_apart(const struct kg_signature *signature,
                                  const struct touched *touched)
{
    for (uint32_t i = 0; i < signature->overlap_count; i++) {
        const struct kg_overlap *overlap = &signature->overlaps[i];
        const struct kg_pointer *p = signature->pointers;
        uint64_t a = touched->low[overlap->a] - (uint64_t)p[overlap->a].low,
                 b = touched->low[overlap->b] - (uint64_t)p[overlap->b].low;
        if (b - a != (uint64_t)overlap->delta)
            return false;
    }
    for (uint32_t b = 1; b < signature->pointer_count; b++) {
        uint64_t low = touched->low[b], high = touched->high[b];
        for (uint32_t a = 0; a < b; a++) {
            bool apart = touched->high[a] <= low || high <= touched->low[a];
            if (__builtin_expect(!apart, 0) && !may_overlap(signature, a, b))
                return false;
        }
    }
    return true;
}

/* REFUSAL_COUNT: the guard holds. */
static inline enum refusal guard(const struct kg_signature *signature,
                                 const struct kg_launch *shape, void *const *arguments)
{
    struct touched touched;
    if (!same_shape(&signature->launch, shape))
        return REFUSED_SHAPE;
    if (!scalars_hold(signature, arguments))
        return REFUSED_SCALAR;
    if (!pointers_aligned(signature, arguments, &touched))
        return REFUSED_ALIGNMENT;
    if (!pointers_apart(signature, &touched))
        return REFUSED_OVERLAP;
    return REFUSAL_COUNT;
}

static inline uint64_t key_of_launch(const struct swap *swap, const struct kg_launch *shape,
                                     void *const *arguments)
{
    uint64_t hash = 0;
    const struct kg_scalar *end = swap->pinned + swap->pinned_count;
    for (const struct kg_scalar *s = swap->pinned; s != end; s++)
        hash = key_scalar(hash, scalar_read(s, (const char *)arguments[s->param] + s->offset));
    return key_of(key_shape(shape), hash);
}

/* Of several guards that do not hold the one that came nearest tells most. */
static inline const struct swap_entry *match_each(const struct swap *swap,
                                                  const struct launch *launch,
                                                  void *const *arguments, enum refusal *why)
{
    *why = REFUSED_SHAPE;
    for (uint32_t i = 0; i < swap->count; i++) {
        enum refusal outcome = guard(&swap->entries[i].signature, &launch->shape, arguments);
        if (outcome == REFUSAL_COUNT)
            return &swap->entries[i];
        if (outcome > *why)
            *why = outcome;
    }
    return NULL;
}

static inline const struct swap_entry *match_key(const struct swap *swap,
                                                 const struct launch *launch,
                                                 void *const *arguments, enum refusal *why)
{
    uint64_t key = key_of_launch(swap, &launch->shape, arguments);
    *why = REFUSED_SHAPE;
    for (uint32_t i = 0; i < swap->count; i++) {
        if (swap->keys[i] != key)
            continue;
        enum refusal outcome = guard(&swap->entries[i].signature, &launch->shape, arguments);
        if (outcome == REFUSAL_COUNT)
            return &swap->entries[i];
        if (outcome > *why)
            *why = outcome;
    }
    for (uint32_t i = 0; *why == REFUSED_SHAPE && i < swap->count; i++)
        if (!((swap->keys[i] ^ key) >> 32)) /* the shape is this one's, a scalar is not */
            *why = REFUSED_SCALAR;
    return NULL;
}

static inline const struct swap_entry *match(const struct swap *swap, const struct kernel *kernel,
                                             const struct launch *launch, void *const *arguments,
                                             enum refusal *why)
{
    if (launch->attributes && (*why = attributes_refused(launch)) != REFUSAL_COUNT)
        return NULL;
    *why = REFUSED_ARGUMENTS;
    if (!arguments)
        return NULL;
    int contexts = atomic_load_explicit(&wary, memory_order_relaxed);
    if (contexts && (*why = context_refused(kernel, launch, contexts)) != REFUSAL_COUNT)
        return NULL;
    return swap->keys ? match_key(swap, launch, arguments, why)
                      : match_each(swap, launch, arguments, why);
}

const struct swap_entry *swap_match(const struct swap *swap, const struct kernel *kernel,
                                    const struct launch *launch, enum refusal *why)
{
    void *space[LAUNCH_PARAMS];
    return match(swap, kernel, launch, arguments_of(kernel, launch, space), why);
}

bool signature_fits(const struct kernel *kernel, const struct kg_signature *signature)
{
    uint32_t n = signature->pointer_count;
    if (!kernel->modelled || kernel->param_count > LAUNCH_PARAMS || n > GUARD_POINTERS)
        return false;
    for (uint32_t i = 0; i < signature->scalar_count; i++) {
        const struct kg_scalar *s = &signature->scalars[i];
        if (s->param >= kernel->param_count || !s->size || s->size > 8 ||
            (uint32_t)s->offset + s->size > kernel->params[s->param].size ||
            (s->value | s->span) & ~scalar_mask(s->size))
            return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct kg_pointer *p = &signature->pointers[i];
        if (p->param >= kernel->param_count || p->low > p->high || !p->align ||
            (p->align & (p->align - 1)) || (uint32_t)p->offset + 8 > kernel->params[p->param].size)
            return false;
    }
    for (uint32_t i = 0; i < signature->overlap_count; i++)
        if (signature->overlaps[i].a >= signature->overlaps[i].b || signature->overlaps[i].b >= n)
            return false;
    return true;
}

/* ---- launching ---------------------------------------------------------------------------------
 */

static void count_swapped(struct kernel *kernel)
{
    struct tally *tally = tally_of(kernel);
    if (!atomic_load_explicit(&kernel->first_swapped, memory_order_relaxed))
        atomic_store_explicit(&kernel->first_swapped, tally_number(tally), memory_order_relaxed);
    tally_count(&tally->swapped);
}

void variant_refused(struct kernel *kernel, const struct swap_entry *entry)
{
    tally_count(&tally_of(kernel)->refused[REFUSED_ERROR]);
    atomic_store_explicit(&kernel->swap, NULL, memory_order_release);
    atomic_store_explicit(&kernel->failed, entry, memory_order_release);
}

/* The original is right even where the variant cannot be launched. The variant is to blame only if
 * the original can: after a fault of the app's own, no launch succeeds. */
static CUresult fall_back(struct kernel *kernel, const struct launch *launch,
                          const struct swap_entry *entry)
{
    CUresult result = launch->run(launch);
    if (result == CUDA_SUCCESS)
        variant_refused(kernel, entry);
    return result;
}

static __attribute__((noinline)) CUresult run_with_attributes(const struct launch *launch,
                                                              const struct swap_entry *entry,
                                                              void *const *arguments)
{
    const struct kg_launch *shape = &entry->launch;
    const CUlaunchConfig config = {
        shape->grid.x,         shape->grid.y,     shape->grid.z, shape->block.x,
        shape->block.y,        shape->block.z,    shape->shared, launch->explicit_stream,
        launch->config->attrs, launch->attributes};
    if (!real.cuLaunchKernelEx) /* the app got another form of it */
        return CUDA_ERROR_NOT_SUPPORTED;
    return real.cuLaunchKernelEx(&config, entry->function, (void **)arguments, NULL);
}

/* The variant's arguments: those given, and then the addresses of the globals' addresses. */
static inline void **with_globals(const struct kernel *kernel, const struct swap_entry *entry,
                                  void *const *given,
                                  void *space[static LAUNCH_PARAMS + VARIANT_GLOBALS])
{
    unsigned n = kernel->param_count;
    if (!entry->global_count)
        return (void **)given;
    if (given != space)
        memcpy(space, given, n * sizeof *given);
    for (unsigned i = 0; i < entry->global_count; i++)
        space[n + i] = (void *)(uintptr_t)&entry->globals[i];
    return space;
}

static inline CUresult run_variant(struct kernel *kernel, const struct launch *launch,
                                   const struct swap_entry *entry, void *const *given)
{
    void *space[LAUNCH_PARAMS + VARIANT_GLOBALS];
    given = with_globals(kernel, entry, given, space);
    const struct kg_launch *shape = &entry->launch;
    CUresult result =
        launch->attributes
            ? run_with_attributes(launch, entry, given)
            : real.cuLaunchKernel(entry->function, shape->grid.x, shape->grid.y, shape->grid.z,
                                  shape->block.x, shape->block.y, shape->block.z, shape->shared,
                                  launch->explicit_stream, (void **)given, NULL);
    if (result != CUDA_SUCCESS)
        return fall_back(kernel, launch, entry);
    count_swapped(kernel);
    return result;
}

void **variant_arguments(const struct kernel *kernel, const struct launch *launch,
                         const struct swap_entry *entry,
                         void *space[static LAUNCH_PARAMS + VARIANT_GLOBALS])
{
    void *const *given = arguments_of(kernel, launch, space);
    return given ? with_globals(kernel, entry, given, space) : NULL;
}

CUresult variant_launch(struct kernel *kernel, const struct launch *launch,
                        const struct swap_entry *entry)
{
    void *space[LAUNCH_PARAMS];
    void *const *arguments = arguments_of(kernel, launch, space);
    return arguments ? run_variant(kernel, launch, entry, arguments) : launch->run(launch);
}

static CUresult swapping_launch(struct kernel *kernel, const struct launch *launch,
                                const struct swap *swap, uint64_t number)
{
    enum refusal why;
    void *space[LAUNCH_PARAMS];
    void *const *arguments = arguments_of(kernel, launch, space);
    const struct swap_entry *entry = match(swap, kernel, launch, arguments, &why);
    if (!entry)
        tally_count(&tally_of(kernel)->refused[why]);
    if (number >= atomic_load_explicit(&kernel->slow_at, memory_order_relaxed) ||
        track_due(entry, number))
        return hot_launch(kernel, launch, entry);
    return entry ? run_variant(kernel, launch, entry, arguments) : launch->run(launch);
}

/* What a capture takes becomes a node, which runs when its graph does: counted and swapped there.
 */
static CUresult captured_launch(struct kernel *kernel, const struct launch *launch)
{
    graph_captured(kernel);
    return launch->run(launch);
}

CUresult dispatch_launch(struct kernel *kernel, const struct launch *launch)
{
    if (__builtin_expect(atomic_load_explicit(&wary, memory_order_relaxed) & SEVERAL, 0))
        kernel = kernel_here(kernel);
    if (__builtin_expect(graph_capturing(), false) && !stream_quiet(launch->explicit_stream))
        return captured_launch(kernel, launch);
    struct tally *tally = tally_of(kernel);
    tally_count(&tally->launches);
    uint64_t number = tally_number(tally);
    const struct swap *swap = atomic_load_explicit(&kernel->swap, memory_order_acquire);
    if (swap)
        return swapping_launch(kernel, launch, swap, number);
    if (number >= atomic_load_explicit(&kernel->slow_at, memory_order_relaxed))
        return hot_launch(kernel, launch, NULL);
    return launch->run(launch);
}
