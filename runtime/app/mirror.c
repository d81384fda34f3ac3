/* What the app sets on an original is set on its variants too, those that are loaded now and those
 * that come later (entry.c), or the original is left alone for it. What the app asks about its
 * function, it is told about the original. */
#include "app/app.h"

/* Hints for the variant; a refusal changes speed only. Its handle may be a CUkernel. */
static void mirror(const struct swap_entry *entry, CUdevice device, int attribute, int value)
{
    if (attribute == FUNCTION_CACHE_CONFIG || attribute == FUNCTION_SHARED_CONFIG) {
        function_prefer(entry->function, attribute, value);
        return;
    }
    CUfunction_attribute which = (CUfunction_attribute)attribute;
    if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
        value < (int)entry->launch.shared)
        return; /* the variant needs what it was published with */
    if (real.cuFuncSetAttribute(entry->function, which, value) != CUDA_SUCCESS &&
        real.cuKernelSetAttribute)
        (void)real.cuKernelSetAttribute(which, value, (CUkernel)(void *)entry->function, device);
}

void function_prefer(CUfunction function, int preference, int value)
{
    if (preference == FUNCTION_CACHE_CONFIG && real.cuFuncSetCacheConfig)
        (void)real.cuFuncSetCacheConfig(function, (CUfunc_cache)value);
    if (preference == FUNCTION_SHARED_CONFIG && real.cuFuncSetSharedMemConfig)
        (void)real.cuFuncSetSharedMemConfig(function, (CUsharedconfig)value);
}

/* For good: each of its launches is one in clusters. */
static void leave_alone(struct kernel *kernel)
{
    kernel->left_alone = "the program sets a cluster size for it";
    atomic_store_explicit(&kernel->swap, NULL, memory_order_release);
    if (kernel->modelled)
        kernel->model.ineligible = kernel->left_alone;
    kernel->why = kernel->left_alone;
    if (atomic_load_explicit(&kernel->state, memory_order_relaxed) != KERNEL_CAPTURING)
        atomic_store_explicit(&kernel->state, KERNEL_UNFIT, memory_order_release);
}

/* For variants that are loaded later. */
static void remember(struct kernel *kernel, int attribute, int value)
{
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        kernel->max_dynamic_shared = value > 0 ? (uint32_t)value : 0;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        kernel->carveout = value;
        break;
    case FUNCTION_CACHE_CONFIG:
        kernel->cache_config = value;
        break;
    case FUNCTION_SHARED_CONFIG:
        kernel->shared_config = value;
        break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        if (value > 1)
            leave_alone(kernel);
        break;
    default:
        break;
    }
}

void function_attribute(void *function, int attribute, int value)
{
    records_lock();
    struct kernel *kernel = kernel_find(function);
    for (; kernel; kernel = atomic_load_explicit(&kernel->elsewhere, memory_order_relaxed)) {
        remember(kernel, attribute, value);
        const struct swap *swap = atomic_load_explicit(&kernel->swap, memory_order_acquire);
        for (uint32_t i = 0; swap && i < swap->count; i++)
            mirror(&swap->entries[i], kernel->module->device, attribute, value);
    }
    records_unlock();
}
