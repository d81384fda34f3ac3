/* Launches that no variant's guard covers: of a kernel that has variants, when launches of other
 * shapes or scalars take a share of the GPU time that matters, one of them is captured, too, and
 * the worker looks whether what it has serves that one. Each kind of launch is asked for once, and
 * no more than KGENRT_SIGNATURES kinds of a kernel. */
#include "app/inside.h"

#include <string.h>

enum { ENOUGH = 3, PARAMETERS = 64 };
static const uint64_t look_ns = 1000000000; /* between looks into the spool */

/* ---- kinds of launches -------------------------------------------------------------------------
 */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15;
    return hash ^ hash >> 29;
}

static uint64_t word(const unsigned char *at, uint32_t size)
{
    uint64_t value = 0;
    memcpy(&value, at, size);
    return value;
}

/* Of a pointer what a guard may ask for beside its reach: its alignment, and which pointer before
 * it is the same. */
static uint64_t pointer_kind(const struct kernel *kernel, const void *const *arguments,
                             uint32_t index)
{
    const struct kernel_pointer *p = &kernel->model.pointers[index];
    uint64_t value = word((const unsigned char *)arguments[p->param] + p->offset, 8);
    uint32_t same = 0;
    for (; same < index; same++) {
        const struct kernel_pointer *q = &kernel->model.pointers[same];
        if (word((const unsigned char *)arguments[q->param] + q->offset, 8) == value)
            break;
    }
    return (value & -value & 255) << 32 | same;
}

/* Equal for launches that one signature holds for, as far as the app can tell: shape, and every
 * byte of the parameters that is not of a pointer. Never 0. */
static uint64_t kind_of(const struct kernel *kernel, const struct kg_launch *shape,
                        const void *const *arguments)
{
    const struct kernel_model *model = &kernel->model;
    uint64_t hash = 0;
    hash = mix(hash, shape->grid.x), hash = mix(hash, shape->grid.y);
    hash = mix(hash, shape->grid.z), hash = mix(hash, shape->block.x);
    hash = mix(hash, shape->block.y), hash = mix(hash, shape->block.z);
    hash = mix(hash, shape->shared);
    for (uint32_t i = 0; i < model->pointer_count; i++)
        hash = mix(hash, pointer_kind(kernel, arguments, i));
    uint32_t next = 0; /* pointers are in the order of their places */
    for (uint32_t p = 0; p < kernel->param_count; p++) {
        const unsigned char *bytes = arguments[p];
        for (uint32_t at = 0; at < kernel->params[p].size;) {
            while (next < model->pointer_count &&
                   (model->pointers[next].param < p ||
                    (model->pointers[next].param == p && model->pointers[next].offset < at)))
                next++;
            bool here = next < model->pointer_count && model->pointers[next].param == p;
            uint32_t end = here ? model->pointers[next].offset : kernel->params[p].size;
            if (at == end) {
                at += 8;
                continue;
            }
            uint32_t size = end - at < 8 ? end - at : 8;
            hash = mix(hash, word(bytes + at, size));
            at += size;
        }
    }
    return hash ? hash : 1;
}

static uint64_t kinds_most(void)
{
    long most = options()->signatures;
    return most < 1 ? 1 : most > WISHES ? WISHES : (uint64_t)most;
}

/* ---- on the launch path ------------------------------------------------------------------------
 */

bool wish_open(const struct kernel *kernel, const struct launch *launch)
{
    const void *arguments[PARAMETERS];
    if (!atomic_load_explicit(&kernel->wish.only_new, memory_order_acquire))
        return true;
    if (kernel->param_count > PARAMETERS)
        return false;
    for (uint32_t i = 0; i < kernel->param_count; i++)
        if (!(arguments[i] = launch_argument(kernel, launch, i)))
            return false;
    uint64_t kind = kind_of(kernel, &launch->shape, arguments);
    for (unsigned i = 0; i < WISHES; i++)
        if (atomic_load_explicit(&kernel->wish.kinds[i], memory_order_relaxed) == kind)
            return false;
    return true;
}

/* ---- in the watcher ----------------------------------------------------------------------------
 */

void wish_taken(struct kernel *kernel, const struct kg_launch *shape, const unsigned char *packed)
{
    const void *arguments[PARAMETERS];
    if (kernel->param_count > PARAMETERS || kernel->wish.count == WISHES)
        return;
    for (uint32_t i = 0; i < kernel->param_count; i++)
        arguments[i] = packed + kernel->params[i].offset;
    uint64_t kind = kind_of(kernel, shape, arguments);
    for (unsigned i = 0; i < kernel->wish.count; i++)
        if (atomic_load_explicit(&kernel->wish.kinds[i], memory_order_relaxed) == kind)
            return;
    atomic_store_explicit(&kernel->wish.kinds[kernel->wish.count++], kind, memory_order_relaxed);
}

void wish_sample(struct kernel *kernel, double ns)
{
    struct wish *wish = &kernel->wish;
    wish->samples++; /* the mean, not the median: what they cost in all is asked */
    wish->mean_ns += (ns - wish->mean_ns) / (double)wish->samples;
}

/* Launches that a guard refused for what another signature may allow. */
static uint64_t refused(const struct kernel *kernel)
{
    static const enum refusal which[] = {REFUSED_SHAPE, REFUSED_SCALAR, REFUSED_ALIGNMENT,
                                         REFUSED_OVERLAP};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof which / sizeof *which; i++)
        sum += kernel_refused(kernel, which[i]);
    return sum;
}

static void begin_anew(struct kernel *kernel, const struct swap *swap, double total_ns)
{
    struct wish *wish = &kernel->wish;
    wish->since = swap;
    wish->refused = refused(kernel);
    wish->total_ns = total_ns;
    wish->samples = 0;
    wish->mean_ns = 0;
}

/* The worker has taken what this process captured: whatever came of it is in a snapshot. */
static void settle(struct kernel *kernel)
{
    int captured = KERNEL_CAPTURED;
    if (now_ns() - kernel->wish.looked_ns < look_ns)
        return;
    kernel->wish.looked_ns = now_ns();
    if (!spool_holds(&kernel->model.id))
        atomic_compare_exchange_strong(&kernel->state, &captured, KERNEL_SWAPPED);
}

void wish_tick(struct kernel *kernel, double total_ns)
{
    struct wish *wish = &kernel->wish;
    const struct swap *swap = atomic_load_explicit(&kernel->swap, memory_order_acquire);
    int state = atomic_load_explicit(&kernel->state, memory_order_acquire);
    if (state != KERNEL_WANTED && state != KERNEL_CAPTURING)
        atomic_store_explicit(&wish->only_new, false, memory_order_relaxed);
    if (!swap || kernel->retired_ns || app_mode() != KG_MODE_TUNE)
        return;
    if (state == KERNEL_CAPTURED)
        settle(kernel);
    if (atomic_load_explicit(&wish->over, memory_order_acquire)) {
        if (!wish->said)
            app_note("%.80s: further kinds of its launches are not captured: %.160s", kernel->name,
                     kernel->why_text);
        wish->said = true;
        return;
    }
    if (wish->since != swap)
        begin_anew(kernel, swap, total_ns);
    uint64_t launches = refused(kernel) - wish->refused;
    double cost = (double)launches * wish->mean_ns;
    if (state != KERNEL_SWAPPED || wish->samples < ENOUGH ||
        launches < (uint64_t)options()->hot_launches ||
        cost * 100 < (total_ns - wish->total_ns) * (double)options()->hot_share)
        return;
    wish->full = wish->count >= kinds_most();
    if (wish->full)
        return;
    atomic_store_explicit(&wish->only_new, true, memory_order_release);
    atomic_store_explicit(&kernel->state, KERNEL_WANTED, memory_order_release);
    atomic_store_explicit(&kernel->slow_at, 0, memory_order_relaxed);
}
