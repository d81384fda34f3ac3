/* Launches: checked and packed in the caller's thread, executed by a stream's worker. */
#include "clock.h"
#include "graph.h"
#include "strict.h"

#include <string.h>
#include <time.h>

struct launch_op {
    struct op op;
    struct module *module; /* held */
    const struct exec_kernel *kernel;
    struct exec_config config;
    bool fail, hang; /* by SOFTGPU_FAULT */
    _Alignas(16) unsigned char params[];
};

static CUresult fault_of(enum exec_fault fault)
{
    static const CUresult results[] = {
        [EXEC_OK] = CUDA_SUCCESS,
        [EXEC_ILLEGAL_ADDRESS] = CUDA_ERROR_ILLEGAL_ADDRESS,
        [EXEC_MISALIGNED] = CUDA_ERROR_MISALIGNED_ADDRESS,
        [EXEC_TRAP] = CUDA_ERROR_LAUNCH_FAILED,
        [EXEC_ASSERT] = CUDA_ERROR_ASSERT,
        [EXEC_UNSUPPORTED] = CUDA_ERROR_ILLEGAL_INSTRUCTION,
        [EXEC_DEADLOCK] = CUDA_ERROR_LAUNCH_TIMEOUT,
        [EXEC_CANCELLED] = CUDA_ERROR_LAUNCH_TIMEOUT,
        [EXEC_DIVERGENT] = CUDA_ERROR_LAUNCH_FAILED,
        [EXEC_UNWRITTEN] = CUDA_ERROR_LAUNCH_FAILED,
        [EXEC_RACE] = CUDA_ERROR_LAUNCH_FAILED,
    };
    return (size_t)fault < sizeof results / sizeof *results ? results[fault] : CUDA_ERROR_UNKNOWN;
}

static void hang(void)
{
    while (!__atomic_load_n(&soft_cancel, __ATOMIC_RELAXED))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static const char *exec_name(const struct exec_kernel *kernel)
{
    struct exec_info info;
    exec_kernel_info(kernel, &info);
    return info.name;
}

static CUresult launch_run(struct op *op)
{
    struct launch_op *launch = (struct launch_op *)op;
    struct exec_result result = {0};
    if (soft_lost())
        return CUDA_ERROR_UNKNOWN;
    if (launch->hang)
        hang();
    if (launch->hang || launch->fail)
        return CUDA_ERROR_LAUNCH_FAILED;
    exec_launch(launch->kernel, &launch->config, launch->params, &result);
    uint64_t time = exec_model_time(launch->config.device, &result.counts);
    op->cost = clock_of_launch(time);
    if (soft_verbose())
        soft_say("kernel %.200s: modelled %.3f us, %llu instructions", exec_name(launch->kernel),
                 (double)time * 1e-6, (unsigned long long)result.instructions);
    if (result.fault != EXEC_OK && result.fault != EXEC_CANCELLED)
        soft_say("%s", result.text);
    return fault_of(result.fault);
}

static void launch_drop(struct op *op)
{
    struct launch_op *launch = (struct launch_op *)op;
    if (launch->config.workspace)
        soft_memory.free(launch->config.workspace);
    module_release(launch->module);
}

/* Cooperative groups keep the barrier of the grid there: its size, and a counter. */
static uint64_t workspace_make(int device)
{
    const uint32_t first[4] = {sizeof first};
    memory_owner_set(device);
    uint64_t address = soft_memory.alloc(sizeof first, 16);
    if (address)
        memcpy((void *)(uintptr_t)address, first,
               sizeof first); /* device memory is ours to write */
    return address;
}

/* ---- arguments ---- */

static CUresult pack_extra(const struct exec_info *info, void **extra, unsigned char *out)
{
    const void *buffer = NULL;
    size_t size = 0;
    for (; extra[0] != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(const size_t *)extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (info->param_bytes && (!buffer || size < info->param_bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (info->param_bytes)
        memcpy(out, buffer, info->param_bytes);
    return CUDA_SUCCESS;
}

CUresult launch_pack(const struct exec_info *info, void **params, void **extra, unsigned char *out)
{
    if (params && extra)
        return CUDA_ERROR_INVALID_VALUE;
    if (extra)
        return pack_extra(info, extra, out);
    if (!params)
        return info->param_count ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    for (uint32_t i = 0; i < info->param_count; i++) {
        if (!params[i])
            return CUDA_ERROR_INVALID_VALUE;
        memcpy(out + info->params[i].offset, params[i], info->params[i].size);
    }
    return CUDA_SUCCESS;
}

/* ---- checks ---- */

static CUresult check_shape(const struct function *function, const struct kg_launch *shape)
{
    struct kg_dim grid = shape->grid, block = shape->block;
    if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z || grid.x > 2147483647 ||
        grid.y > 65535 || grid.z > 65535 || block.x > 1024 || block.y > 1024 || block.z > 64 ||
        (uint64_t)block.x * block.y * block.z > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    if (block.x * block.y * block.z > function->info.max_threads)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    return shape->shared <= function->max_shared ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_cooperative(const struct function *function, const struct kg_launch *shape)
{
    int blocks;
    uint64_t threads = (uint64_t)shape->block.x * shape->block.y * shape->block.z;
    CUresult result = function_blocks(function, threads, shape->shared, &blocks);
    if (result != CUDA_SUCCESS)
        return result;
    uint64_t sms = (uint64_t)function->module->context->device->model->sms;
    uint64_t grid = (uint64_t)shape->grid.x * shape->grid.y * shape->grid.z;
    return grid <= (uint64_t)blocks * sms ? CUDA_SUCCESS : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

CUresult launch_check(const struct function *function, const struct launch_shape *shape)
{
    CUresult result = check_shape(function, &shape->launch);
    return result == CUDA_SUCCESS && shape->cooperative
               ? check_cooperative(function, &shape->launch)
               : result;
}

/* ---- the launch ---- */

CUresult launch_make(struct function *function, const struct launch_shape *shape,
                     unsigned char **params, struct op **out)
{
    static atomic_uint_fast64_t number;
    struct launch_op *launch = op_create(sizeof *launch + function->info.param_bytes);
    if (!launch)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t seed = soft_number("SOFTGPU_SEED", 0);
    launch->module = function->module;
    launch->kernel = function->exec;
    launch->config = (struct exec_config){
        .launch = shape->launch,
        .seed = seed ? seed + atomic_fetch_add(&number, 1) : 0,
        .threads = (unsigned)soft_number("SOFTGPU_THREADS", 0),
        .cancel = &soft_cancel,
        .cooperative = shape->cooperative,
        .strict = strict_wanted() & (EXEC_STRICT_UNWRITTEN | EXEC_STRICT_RACES),
        .device = clock_device(function->module->context->device),
        .heap = function->module->context->limits[CU_LIMIT_MALLOC_HEAP_SIZE],
    };
    if (shape->cooperative) {
        launch->config.workspace = workspace_make(function->module->context->device->ordinal);
        if (!launch->config.workspace) {
            op_discard(&launch->op);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    launch->fail = soft_fault_due(SOFT_LAUNCH);
    launch->hang = soft_fault_due(SOFT_HANG);
    if (soft_fault_due(SOFT_LOST))
        soft_lose();
    launch->op.run = launch_run;
    launch->op.drop = launch_drop;
    launch->op.cost = clock_of_launch(0);
    module_hold(function->module);
    *params = launch->params;
    *out = &launch->op;
    return CUDA_SUCCESS;
}

struct request {
    const void *handle;
    struct launch_shape shape;
    bool per_thread;
    CUstream stream;
    void **params, **extra;
};

static CUresult enqueue(const struct request *request, struct function *function,
                        struct stream *stream)
{
    struct op *op;
    unsigned char *params;
    CUresult result = launch_make(function, &request->shape, &params, &op);
    if (result != CUDA_SUCCESS)
        return result;
    result = launch_pack(&function->info, request->params, request->extra, params);
    if (result == CUDA_SUCCESS)
        return op_submit(stream, op, false);
    op_discard(op);
    return result;
}

static CUresult launch(const struct request *request)
{
    struct context *context;
    struct function *function;
    struct stream *stream;
    CUresult result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = stream_of(context, request->stream, request->per_thread, &stream);
    if (result == CUDA_SUCCESS && context_whole(stream->context) != context_whole(context))
        result = CUDA_ERROR_INVALID_HANDLE; /* unlike a copy, which may go into any stream */
    if (result == CUDA_SUCCESS)
        result = function_of(request->handle, stream->context, &function);
    if (result == CUDA_SUCCESS)
        result = launch_check(function, &request->shape);
    struct capture *capture = NULL;
    if (result == CUDA_SUCCESS)
        result = capture_of(stream, &capture);
    if (result != CUDA_SUCCESS)
        return result;
    return capture ? capture_kernel(stream, (void *)(uintptr_t)request->handle, function,
                                    &request->shape, request->params, request->extra)
                   : enqueue(request, function, stream);
}

/* The others change when a kernel starts or how it is scheduled, not what it does. */
CUresult launch_attributes(const CUlaunchAttribute *attributes, unsigned count,
                           struct launch_shape *shape)
{
    for (unsigned i = 0; i < count; i++) {
        const CUlaunchAttributeValue *value = &attributes[i].value;
        if (attributes[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
            shape->cooperative = value->cooperative;
        if (attributes[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
            (uint64_t)value->clusterDim.x * value->clusterDim.y * value->clusterDim.z > 1)
            return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

static CUresult launch_ex(const CUlaunchConfig *config, CUfunction f, void **params, void **extra,
                          bool per_thread)
{
    if (!config || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    struct request request = {
        .handle = f,
        .shape.launch = {{config->gridDimX, config->gridDimY, config->gridDimZ},
                         {config->blockDimX, config->blockDimY, config->blockDimZ},
                         config->sharedMemBytes},
        .per_thread = per_thread,
        .stream = config->hStream,
        .params = params,
        .extra = extra,
    };
    CUresult result = launch_attributes(config->attrs, config->numAttrs, &request.shape);
    return result == CUDA_SUCCESS ? launch(&request) : result;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                          void **extra)
{
    return launch_ex(config, f, kernelParams, extra, false);
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                               void **extra)
{
    return launch_ex(config, f, kernelParams, extra, true);
}

#define DIMENSIONS                                                                                 \
    unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,   \
        unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes
#define REQUEST(is_cooperative, is_per_thread, extra_)                                             \
    &(struct request)                                                                              \
    {                                                                                              \
        .handle = f,                                                                               \
        .shape = {{{gridDimX, gridDimY, gridDimZ},                                                 \
                   {blockDimX, blockDimY, blockDimZ},                                              \
                   sharedMemBytes},                                                                \
                  is_cooperative},                                                                 \
        .per_thread = is_per_thread, .stream = hStream, .params = kernelParams, .extra = extra_    \
    }

CUresult cuLaunchKernel(CUfunction f, DIMENSIONS, CUstream hStream, void **kernelParams,
                        void **extra)
{
    return launch(REQUEST(false, false, extra));
}

CUresult cuLaunchKernel_ptsz(CUfunction f, DIMENSIONS, CUstream hStream, void **kernelParams,
                             void **extra)
{
    return launch(REQUEST(false, true, extra));
}

CUresult cuLaunchCooperativeKernel(CUfunction f, DIMENSIONS, CUstream hStream, void **kernelParams)
{
    return launch(REQUEST(true, false, NULL));
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, DIMENSIONS, CUstream hStream,
                                        void **kernelParams)
{
    return launch(REQUEST(true, true, NULL));
}
