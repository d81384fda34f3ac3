/* A library's kernel is one handle for all contexts, but its variants are loaded in one: for each
 * other context that it is launched in, it gets a record of its own, with its own counts, checks
 * and variants. Launches find it without a lock; it goes with its context. */
#include "app/inside.h"

struct kernel *kernel_here(struct kernel *kernel)
{
    CUcontext now = NULL;
    if (!kernel->handle || real.cuCtxGetCurrent(&now) != CUDA_SUCCESS || !now)
        return kernel;
    for (struct kernel *k = kernel; k;
         k = atomic_load_explicit(&k->elsewhere, memory_order_acquire))
        if (k->context == now)
            return k;
    atomic_store_explicit(&kernel->missing, now, memory_order_relaxed);
    return kernel;
}

void elsewhere_make(struct kernel *kernel)
{
    CUcontext context = atomic_exchange_explicit(&kernel->missing, NULL, memory_order_relaxed);
    if (!context || kernel->retired_ns || kernel->is_elsewhere || context_broken(context) ||
        app_mode() < KG_MODE_CACHED)
        return;
    if (!kernel->context)
        kernel->context = context;
    for (struct kernel *k = kernel; k; k = atomic_load(&k->elsewhere))
        if (k->context == context)
            return;
    struct kernel *other = kernel_new(kernel->module, kernel->name);
    if (!other)
        return;
    other->is_elsewhere = true;
    other->context = context;
    other->max_dynamic_shared = kernel->max_dynamic_shared;
    other->carveout = kernel->carveout;
    other->cache_config = kernel->cache_config;
    other->shared_config = kernel->shared_config;
    other->left_alone = kernel->left_alone;
    atomic_store(&other->elsewhere, atomic_load(&kernel->elsewhere));
    atomic_store_explicit(&kernel->elsewhere, other, memory_order_release);
}

void elsewhere_leave(struct kernel *kernel)
{
    struct kernel *next = atomic_load_explicit(&kernel->elsewhere, memory_order_relaxed);
    for (struct kernel *k = kernel->module->kernels; k; k = k->sibling)
        if (atomic_load_explicit(&k->elsewhere, memory_order_relaxed) == kernel)
            atomic_store_explicit(&k->elsewhere, next, memory_order_release);
}
