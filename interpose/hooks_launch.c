/* Launches. An unknown function goes straight to the driver; a known one to dispatch. Records exist
 * only while kgenrt is active, so the table alone decides. No lock, no allocation, no system call.
 */
#include "interpose.h"

static struct kernel *kernel_of(CUfunction function)
{
    struct kernel *kernel = kernel_find(function);
    return kernel && !inside_kgenrt ? kernel : NULL;
}

/* Stream 0 means another stream in each form; the calls that kgenrt adds name it. */
static CUstream explicit_stream(CUstream stream, CUstream standard)
{
    return stream ? stream : standard;
}

/* To dispatch, from the arguments of a launch that are written out; what else is known of it. */
#define LAUNCH(symbol, standard, ...)                                                              \
    const struct launch launch = {                                                                 \
        .function = f,                                                                             \
        .shape = {{gridDimX, gridDimY, gridDimZ},                                                  \
                  {blockDimX, blockDimY, blockDimZ},                                               \
                  sharedMemBytes},                                                                 \
        .stream = hStream,                                                                         \
        .explicit_stream = explicit_stream(hStream, standard),                                     \
        .params = kernelParams,                                                                    \
        .run = run_##symbol,                                                                       \
        __VA_ARGS__,                                                                               \
    };                                                                                             \
    return dispatch_launch(kernel, &launch)

#define PLAIN_HOOK(symbol, standard)                                                               \
    static CUresult run_##symbol(const struct launch *launch)                                      \
    {                                                                                              \
        const struct kg_launch *shape = &launch->shape;                                            \
        return real.symbol(launch->function, shape->grid.x, shape->grid.y, shape->grid.z,          \
                           shape->block.x, shape->block.y, shape->block.z, shape->shared,          \
                           launch->stream, launch->params, launch->extra);                         \
    }                                                                                              \
                                                                                                   \
    CUresult symbol(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,                    \
                    unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,         \
                    unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,         \
                    void **kernelParams, void **extra)                                             \
    {                                                                                              \
        NEED(symbol);                                                                              \
        struct kernel *kernel = kernel_of(f);                                                      \
        if (!kernel)                                                                               \
            return real.symbol(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,   \
                               sharedMemBytes, hStream, kernelParams, extra);                      \
        LAUNCH(symbol, standard, .extra = extra);                                                  \
    }

PLAIN_HOOK(cuLaunchKernel, CU_STREAM_LEGACY)
PLAIN_HOOK(cuLaunchKernel_ptsz, CU_STREAM_PER_THREAD)

#define EX_HOOK(symbol, standard)                                                                  \
    static CUresult run_##symbol(const struct launch *launch)                                      \
    {                                                                                              \
        return real.symbol(launch->config, launch->function, launch->params, launch->extra);       \
    }                                                                                              \
                                                                                                   \
    CUresult symbol(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra) \
    {                                                                                              \
        NEED(symbol);                                                                              \
        bool readable = config && (config->attrs || !config->numAttrs);                            \
        struct kernel *kernel = readable ? kernel_of(f) : NULL;                                    \
        if (!kernel)                                                                               \
            return real.symbol(config, f, kernelParams, extra);                                    \
        const struct launch launch = {                                                             \
            .function = f,                                                                         \
            .shape = {{config->gridDimX, config->gridDimY, config->gridDimZ},                      \
                      {config->blockDimX, config->blockDimY, config->blockDimZ},                   \
                      config->sharedMemBytes},                                                     \
            .stream = config->hStream,                                                             \
            .explicit_stream = explicit_stream(config->hStream, standard),                         \
            .params = kernelParams,                                                                \
            .extra = extra,                                                                        \
            .attributes = config->numAttrs,                                                        \
            .run = run_##symbol,                                                                   \
            .config = config,                                                                      \
        };                                                                                         \
        return dispatch_launch(kernel, &launch);                                                   \
    }

EX_HOOK(cuLaunchKernelEx, CU_STREAM_LEGACY)
EX_HOOK(cuLaunchKernelEx_ptsz, CU_STREAM_PER_THREAD)

/* What a plain launch would say by an attribute. */
static CUlaunchAttribute cooperative = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                        .value.cooperative = 1};
static const CUlaunchConfig cooperatively = {.attrs = &cooperative, .numAttrs = 1};

#define COOPERATIVE_HOOK(symbol, standard)                                                         \
    static CUresult run_##symbol(const struct launch *launch)                                      \
    {                                                                                              \
        const struct kg_launch *shape = &launch->shape;                                            \
        return real.symbol(launch->function, shape->grid.x, shape->grid.y, shape->grid.z,          \
                           shape->block.x, shape->block.y, shape->block.z, shape->shared,          \
                           launch->stream, launch->params);                                        \
    }                                                                                              \
                                                                                                   \
    CUresult symbol(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,                    \
                    unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,         \
                    unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,         \
                    void **kernelParams)                                                           \
    {                                                                                              \
        NEED(symbol);                                                                              \
        struct kernel *kernel = kernel_of(f);                                                      \
        if (!kernel)                                                                               \
            return real.symbol(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,   \
                               sharedMemBytes, hStream, kernelParams);                             \
        LAUNCH(symbol, standard, .attributes = cooperatively.numAttrs, .config = &cooperatively);  \
    }

COOPERATIVE_HOOK(cuLaunchCooperativeKernel, CU_STREAM_LEGACY)
COOPERATIVE_HOOK(cuLaunchCooperativeKernel_ptsz, CU_STREAM_PER_THREAD)
