/* The replay's device by the real CUDA driver (or the software GPU's): both sides loaded, launches,
 * copies; what the other replay_*.c files do hangs on its table. Runs only in the replay child: it
 * may die at any call here. */
#include "tune/replay_cuda.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Shared memory keeps what the block before left there, and in a fresh process that is zeros, in
 * the app it is anything: a variant that reads it before it writes must not find zeros in a replay.
 */
static const char dirty_ptx[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".extern .shared .align 16 .b8 all[];\n"
    ".visible .entry dirty(.param .u32 bytes, .param .u32 value)\n{\n"
    "\t.reg .pred %p<2>;\n\t.reg .b32 %r<7>;\n"
    "\tld.param.u32 %r1, [bytes];\n\tld.param.u32 %r2, [value];\n"
    "\tmov.u32 %r3, %tid.x;\n\tshl.b32 %r3, %r3, 2;\n"
    "\tmov.u32 %r4, %ntid.x;\n\tshl.b32 %r4, %r4, 2;\n\tmov.u32 %r5, all;\n"
    "more:\n\tsetp.ge.u32 %p1, %r3, %r1;\n\t@%p1 ret;\n\tadd.u32 %r6, %r5, %r3;\n"
    "\tst.volatile.shared.u32 [%r6], %r2;\n\tadd.u32 %r3, %r3, %r4;\n\tbra more;\n}\n";

kg_status cuda_fail(struct cuda *cuda, CUresult result, const char *what)
{
    snprintf(cuda->device.error, sizeof cuda->device.error, "%s: %s", what, real_error(result));
    log_line(KG_INFO, "replay: %s", cuda->device.error);
    return result == CUDA_ERROR_OUT_OF_MEMORY ? KG_NO_MEMORY : KG_DRIVER;
}

/* ---- operations --------------------------------------------------------------------------------
 */

static kg_status cuda_read(struct replay_device *device, uint64_t address, void *out, size_t size)
{
    struct cuda *cuda = (struct cuda *)device;
    if (cuda->moved)
        return layout_read(cuda, address, out, size);
    TRY("copy from the device", real.cuMemcpyDtoH_v2(out, address, size));
    return KG_OK;
}

static kg_status cuda_write(struct replay_device *device, uint64_t address, const void *data,
                            size_t size)
{
    struct cuda *cuda = (struct cuda *)device;
    if (cuda->moved)
        return layout_write(cuda, address, data, size);
    TRY("copy to the device", real.cuMemcpyHtoD_v2(address, data, size));
    TRY("copy to the device", real.cuCtxSynchronize());
    return KG_OK;
}

CUresult cuda_enqueue(struct cuda *cuda, enum side side, CUfunction function)
{
    const struct kg_launch *l = &cuda->launches[side];
    return real.cuLaunchKernel(function, l->grid.x, l->grid.y, l->grid.z, l->block.x, l->block.y,
                               l->block.z, l->shared, cuda->stream, cuda->params[side], NULL);
}

/* NaN, small and large numbers by turns. */
static CUresult make_dirty(struct cuda *cuda)
{
    static const uint32_t values[] = {0xffffffff, 0xa5a5a5a5, 0x7f7f7f7f};
    uint32_t value = values[cuda->dirty_turn++ % 3], bytes = cuda->dirty_bytes;
    void *params[] = {&bytes, &value};
    return real.cuLaunchKernel(cuda->dirty, cuda->dirty_blocks, 1, 1, 256, 1, 1, bytes,
                               cuda->stream, params, NULL);
}

static kg_status cuda_launch(struct replay_device *device, enum side side)
{
    struct cuda *cuda = (struct cuda *)device;
    if (side == VARIANT && cuda->dirty)
        TRY("filling shared memory", make_dirty(cuda));
    TRY("launch", cuda_enqueue(cuda, side, cuda->functions[side]));
    TRY("launch", real.cuStreamSynchronize(cuda->stream));
    return KG_OK;
}

/* ---- opening -----------------------------------------------------------------------------------
 */

/* The capture's own device, else one that is equal in all that the hardware key holds. */
static kg_status pick_device(struct cuda *cuda)
{
    struct kg_id wanted, key;
    int count = 0;
    bool found = false;
    TRY("cuInit", real.cuInit(0));
    TRY("cuDeviceGetCount", real.cuDeviceGetCount(&count));
    hardware_key(&cuda->capture->hardware, &wanted);
    for (int i = 0; i < count; i++) {
        struct kg_hardware hardware;
        CUdevice device;
        TRY("cuDeviceGet", real.cuDeviceGet(&device, i));
        if (real_hardware(device, &hardware) != KG_OK)
            continue;
        hardware_key(&hardware, &key);
        bool same = !strcmp(hardware.uuid, cuda->capture->hardware.uuid);
        if (!id_equal(&key, &wanted) || (found && !same))
            continue;
        found = true;
        cuda->handle = device;
        cuda->hardware = hardware;
        if (same)
            break;
    }
    if (found)
        return KG_OK;
    snprintf(cuda->device.error, sizeof cuda->device.error,
             "no device here is a %s (%s), on which the launch was captured",
             cuda->capture->hardware.name, cuda->capture->hardware.arch);
    return KG_NO_DRIVER;
}

int cuda_attribute(const struct cuda *cuda, CUdevice_attribute which)
{
    int value = 0;
    return real.cuDeviceGetAttribute(&value, which, cuda->handle) == CUDA_SUCCESS ? value : 0;
}

static kg_status limit(struct cuda *cuda, CUlimit which, uint64_t wanted, const char *what)
{
    size_t present = 0;
    if (!wanted || (real.cuCtxGetLimit(&present, which) == CUDA_SUCCESS && present >= wanted))
        return KG_OK;
    TRY(what, real.cuCtxSetLimit(which, wanted));
    return KG_OK;
}

/* Under MPS a fault here could end other programs; in exclusive mode our context would keep the
 * next start of the app from its GPU. */
static kg_status allowed(struct cuda *cuda)
{
    const CUdevice_attribute mps_enabled = (CUdevice_attribute)133; /* older headers lack it */
    bool mps = cuda_attribute(cuda, mps_enabled) > 0;
    if (!mps && cuda_attribute(cuda, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) == CU_COMPUTEMODE_DEFAULT)
        return KG_OK;
    snprintf(cuda->device.error, sizeof cuda->device.error,
             "the GPU is %s: no replay beside other programs",
             mps ? "shared through MPS" : "not in its default compute mode");
    return KG_BUSY;
}

static kg_status open_context(struct cuda *cuda)
{
    CUcontext context;
    /* waiting must not cost the app a processor */
    if (!real.cuDevicePrimaryCtxSetFlags_v2 ||
        real.cuDevicePrimaryCtxSetFlags_v2(cuda->handle, CU_CTX_SCHED_BLOCKING_SYNC) !=
            CUDA_SUCCESS)
        log_line(KG_DEBUG, "replay: waiting by spinning");
    TRY("context", real.cuDevicePrimaryCtxRetain(&context, cuda->handle));
    TRY("context", real.cuCtxSetCurrent(context));
    const struct kg_capture *capture = cuda->capture;
    kg_status status = limit(cuda, CU_LIMIT_STACK_SIZE, capture->stack_limit, "stack limit");
    if (status == KG_OK)
        status = limit(cuda, CU_LIMIT_PRINTF_FIFO_SIZE, capture->printf_limit, "printf limit");
    if (status == KG_OK)
        status = limit(cuda, CU_LIMIT_MALLOC_HEAP_SIZE, capture->heap_limit, "heap limit");
    return status;
}

/* The app's own options, for the original. */
struct jit {
    unsigned count;
    CUjit_option options[16];
    void *values[16];
};

static kg_status parse_jit(struct cuda *cuda, struct jit *out)
{
    static const struct {
        CUjit_option option;
        const char *name;
    } known[] = {
#define JIT(option, name) {option, name},
#include "gpu/jit_options.def"
#undef JIT
    };
    out->count = 0;
    for (const char *p = cuda->capture->jit_options; *p; p += *p == ' ') {
        size_t length = strcspn(p, "= "), i = 0, count = sizeof known / sizeof *known;
        while (i < count &&
               (strncmp(known[i].name, p, length) || known[i].name[length] || p[length] != '='))
            i++;
        if (i == count || out->count == 16) {
            snprintf(cuda->device.error, sizeof cuda->device.error,
                     "the app's load option '%.40s' is not known", p);
            return KG_UNSUPPORTED;
        }
        char *end;
        out->options[out->count] = known[i].option;
        out->values[out->count++] = (void *)(uintptr_t)strtoul(p + length + 1, &end, 10);
        p = end + strcspn(end, " ");
    }
    return KG_OK;
}

static kg_status load(struct cuda *cuda, enum side side, const void *image, const char *entry)
{
    const struct kg_capture *capture = cuda->capture;
    struct jit jit = {0};
    kg_status status = side == ORIGINAL ? parse_jit(cuda, &jit) : KG_OK;
    if (status != KG_OK)
        return status;
    TRY(side ? "loading the variant" : "loading the original",
        real.cuModuleLoadDataEx(&cuda->modules[side], image, jit.count, jit.options, jit.values));
    TRY(side ? "the variant's entry" : "the original's entry",
        real.cuModuleGetFunction(&cuda->functions[side], cuda->modules[side], entry));
    CUfunction function = cuda->functions[side];
    static const CUfunction_attribute wanted[4] = {
        CU_FUNC_ATTRIBUTE_NUM_REGS, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
        CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK};
    int values[4] = {0};
    for (unsigned i = 0; i < 4; i++)
        TRY("function attributes", real.cuFuncGetAttribute(&values[i], wanted[i], function));
    cuda->device.footprint[side] = (struct replay_footprint){
        (uint32_t)values[0], (uint32_t)values[1], (uint32_t)values[2], (uint32_t)values[3]};
    uint32_t shared = side == ORIGINAL ? capture->max_dynamic_shared : cuda->launches[side].shared;
    if (side == ORIGINAL ? shared : shared > 48 << 10)
        TRY("shared memory attribute",
            real.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    (int)shared));
    if (side == ORIGINAL && capture->carveout >= 0)
        TRY("carve-out attribute",
            real.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                    capture->carveout));
    return KG_OK;
}

/* The original's variables: captured ones become extents, so that they are set and watched like all
 * memory; those that the variant wants give it their addresses. */
static kg_status find_globals(struct cuda *cuda)
{
    const struct kg_capture *capture = cuda->capture;
    CUdeviceptr address;
    size_t size;
    for (uint32_t i = 0; i < capture->region_count; i++) {
        const struct capture_region *region = &capture->regions[i];
        if (region->kind != CAPTURE_GLOBAL || !region->size)
            continue;
        TRY("the original's variable",
            real.cuModuleGetGlobal_v2(&address, &size, cuda->modules[ORIGINAL], region->name));
        kg_status status = size == region->size
                               ? memory_global(cuda->memory, region->name, address, size)
                               : KG_BAD_INPUT;
        if (status != KG_OK) {
            snprintf(cuda->device.error, sizeof cuda->device.error,
                     "variable %.100s has %zu bytes, %" PRIu64 " were captured", region->name, size,
                     region->size);
            return status;
        }
    }
    for (uint32_t i = 0; i < cuda->request->global_count; i++)
        TRY("the original's variable",
            real.cuModuleGetGlobal_v2(&cuda->globals[i], &size, cuda->modules[ORIGINAL],
                                      cuda->request->globals[i]));
    return KG_OK;
}

static kg_status bind_params(struct cuda *cuda)
{
    const struct kg_capture *capture = cuda->capture;
    if (capture->args.size > sizeof cuda->args || capture->param_count > 64)
        return KG_LIMIT;
    if (capture->args.size)
        memcpy(cuda->args, capture->args.data, capture->args.size);
    cuda->device.args = cuda->args;
    cuda->device.args_size = capture->args.size;
    for (uint32_t i = 0; i < capture->param_count; i++) {
        const struct kg_param *param = &capture->params[i];
        if (param->offset > capture->args.size || param->size > capture->args.size - param->offset)
            return KG_BAD_INPUT;
        cuda->params[ORIGINAL][i] = cuda->params[VARIANT][i] = cuda->args + param->offset;
    }
    for (uint32_t i = 0; i < cuda->request->global_count; i++)
        cuda->params[VARIANT][capture->param_count + i] = &cuda->globals[i];
    return KG_OK;
}

/* All that a block may have, in so many blocks that each multiprocessor gets some. The software GPU
 * does this by itself. */
static void load_dirty(struct cuda *cuda)
{
    CUmodule module;
    CUfunction function;
    bool soft = cuda->device.exact_clock;
    int processors = cuda_attribute(cuda, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    cuda->dirty_bytes = soft ? 1024 : cuda->device.shared_limit & ~3u;
    cuda->dirty_blocks = soft || processors < 1 ? 1 : 2 * (unsigned)processors;
    if (real.cuModuleLoadData(&module, dirty_ptx) != CUDA_SUCCESS ||
        real.cuModuleGetFunction(&function, module, "dirty") != CUDA_SUCCESS ||
        (cuda->dirty_bytes > 48 << 10 &&
         real.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                 (int)cuda->dirty_bytes) != CUDA_SUCCESS))
        log_line(KG_INFO, "replay: shared memory cannot be filled before launches");
    else
        cuda->dirty = function;
}

static kg_status open_all(struct cuda *cuda, const struct kg_bytes *code)
{
    const struct kg_capture *capture = cuda->capture;
    kg_status status = real_open(NULL);
    if (status != KG_OK) {
        snprintf(cuda->device.error, sizeof cuda->device.error, "%s", status_text(status));
        return status;
    }
    if ((status = pick_device(cuda)) != KG_OK || (status = allowed(cuda)) != KG_OK ||
        (status = open_context(cuda)) != KG_OK || (status = place_all(cuda)) != KG_OK)
        return status;
    cuda->device.driver_version = cuda->hardware.driver_version;
    cuda->device.exact_clock = !strcmp(cuda->hardware.vendor, "softgpu");
    int shared = cuda_attribute(cuda, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    cuda->device.shared_limit = shared > 0 ? (uint32_t)shared : 0;
    if ((status = load(cuda, ORIGINAL, cuda->image, capture->entry)) != KG_OK ||
        (status = find_globals(cuda)) != KG_OK || (status = bind_params(cuda)) != KG_OK)
        return status;
    if (code && load(cuda, VARIANT, code->data, cuda->request->entry) != KG_OK)
        return KG_REFUSED; /* the candidate's own fault, unlike all else here */
    if (code)
        load_dirty(cuda);
    return clock_open(cuda);
}

kg_status cuda_open(const struct kg_capture *capture, const struct replay_request *request,
                    const struct kg_bytes *code, struct replay_memory *memory,
                    struct replay_device **out, char *reason, size_t reason_size)
{
    struct cuda *cuda = calloc(1, sizeof *cuda);
    if (!cuda)
        return KG_NO_MEMORY;
    cuda->device = (struct replay_device){.read = cuda_read,
                                          .write = cuda_write,
                                          .launch = cuda_launch,
                                          .keep = cuda_keep,
                                          .restore = cuda_restore,
                                          .sample = cuda_sample,
                                          .set_select = cuda_set_select,
                                          .observe = cuda_observe,
                                          .walk = cuda_walk,
                                          .draw = cuda_draw,
                                          .holds = cuda_holds,
                                          .settle = cuda_settle,
                                          .settled = cuda_settled,
                                          .relocate = cuda_relocate};
    cuda->capture = capture;
    cuda->request = request;
    cuda->memory = memory;
    cuda->launches[ORIGINAL] = capture->launch;
    cuda->launches[VARIANT] = request->launch;
    cuda->image = calloc(1, capture->image_size + 1); /* aligned, and PTX ends with a NUL */
    if (cuda->image)
        memcpy(cuda->image, capture->image, capture->image_size);
    kg_status status = cuda->image ? open_all(cuda, code) : KG_NO_MEMORY;
    if (status != KG_OK) {
        snprintf(reason, reason_size, "%s",
                 *cuda->device.error ? cuda->device.error : status_text(status));
        cuda_close(&cuda->device);
        return status;
    }
    *out = &cuda->device;
    return KG_OK;
}

void cuda_code(const struct replay_device *device, enum side side, void **module, void **function)
{
    const struct cuda *cuda = (const struct cuda *)device;
    *module = cuda->modules[side];
    *function = cuda->functions[side];
}

/* The driver's own objects go with the process. The original's module may still look at `image`:
 * nothing is launched after this. */
void cuda_close(struct replay_device *device)
{
    struct cuda *cuda = (struct cuda *)device;
    if (!cuda)
        return;
    cuda_unpin(cuda);
    observers_free(cuda);
    free(cuda->moved);
    clock_close(cuda);
    free(cuda->image);
    free(cuda);
}
