/* Live contexts of the process and the events made in each, so that timing a launch needs no
 * creation on the launch path. Slots are filled and emptied under records_lock; launches find them
 * without a lock. Never destroys an event: they go with their context. */
#include "app/inside.h"

#include <string.h>

struct context contexts[CONTEXTS];

static struct context *context_find(CUcontext handle)
{
    for (int i = 0; handle && i < CONTEXTS; i++)
        if (atomic_load_explicit(&contexts[i].handle, memory_order_acquire) == handle)
            return &contexts[i];
    return NULL;
}

static void events_make(struct context *context)
{
    for (int i = 0; i < SAMPLES; i++) {
        struct sample *s = &context->samples[i];
        bool good = real.cuEventCreate(&s->start, CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
                    real.cuEventCreate(&s->end, CU_EVENT_DEFAULT) == CUDA_SUCCESS;
        atomic_store_explicit(&s->state, good ? SAMPLE_FREE : SAMPLE_NONE, memory_order_relaxed);
        if (!good)
            return; /* fewer samples, no harm */
    }
}

bool context_add(CUcontext handle, CUdevice device, bool alike)
{
    if (context_find(handle))
        return false;
    for (int i = 0; i < CONTEXTS; i++) {
        struct context *c = &contexts[i];
        if (atomic_load_explicit(&c->handle, memory_order_relaxed))
            continue;
        c->device = device;
        c->broken = false;
        c->alike = alike;
        events_make(c);
        atomic_store_explicit(&c->handle, handle, memory_order_release);
        return true;
    }
    return false;
}

void context_forget(CUcontext handle)
{
    for (int i = 0; i < CONTEXTS; i++) {
        struct context *c = &contexts[i];
        CUcontext is = atomic_load_explicit(&c->handle, memory_order_relaxed);
        if (!is || (handle && is != handle))
            continue;
        atomic_store_explicit(&c->handle, NULL, memory_order_release);
        for (int k = 0; k < SAMPLES; k++)
            atomic_store_explicit(&c->samples[k].state, SAMPLE_NONE, memory_order_relaxed);
    }
}

bool context_broken(CUcontext handle)
{
    const struct context *context = context_find(handle);
    return !context || context->broken;
}

bool context_alike(CUcontext handle)
{
    const struct context *context = context_find(handle);
    return !context || context->alike;
}

CUcontext context_only(void)
{
    CUcontext only = NULL;
    for (int i = 0; i < CONTEXTS; i++) {
        CUcontext is = atomic_load_explicit(&contexts[i].handle, memory_order_relaxed);
        if (is && only)
            return NULL;
        if (is)
            only = is;
    }
    return only;
}

struct sample *sample_take(void)
{
    CUcontext current = NULL;
    if (real.cuCtxGetCurrent(&current) != CUDA_SUCCESS)
        return NULL;
    struct context *c = context_find(current);
    for (int i = 0; c && i < SAMPLES; i++) {
        int free_state = SAMPLE_FREE;
        if (atomic_compare_exchange_strong(&c->samples[i].state, &free_state, SAMPLE_TAKEN))
            return &c->samples[i];
    }
    return NULL;
}

void sample_free(struct sample *sample)
{
    int state = atomic_load_explicit(&sample->state, memory_order_relaxed);
    if (state != SAMPLE_NONE) /* its context died meanwhile */
        atomic_compare_exchange_strong(&sample->state, &state, SAMPLE_FREE);
}

/* The errors by which the driver reports what a kernel did; all of them stay until the process
 * ends. */
static bool kernel_fault(CUresult result)
{
    static const CUresult faults[] = {
        CUDA_ERROR_ILLEGAL_ADDRESS,
        CUDA_ERROR_LAUNCH_TIMEOUT,
        CUDA_ERROR_ASSERT,
        CUDA_ERROR_HARDWARE_STACK_ERROR,
        CUDA_ERROR_ILLEGAL_INSTRUCTION,
        CUDA_ERROR_MISALIGNED_ADDRESS,
        CUDA_ERROR_INVALID_PC,
        CUDA_ERROR_INVALID_ADDRESS_SPACE,
        CUDA_ERROR_LAUNCH_FAILED,
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (result == faults[i])
            return true;
    return false;
}

bool context_fault(struct context *context, CUresult result)
{
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY)
        return false;
    if (context->broken)
        return true;
    context->broken = true;
    if (kernel_fault(result))
        flight_fault(real_error(result));
    return true;
}
