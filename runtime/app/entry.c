/* One variant's code, loaded into the current context and made ready to launch: its function, its
 * limits, and the addresses of the module variables that it is given. What does not fit the kernel
 * as the driver sees it is unloaded again. Called at safe points only: it must never be reached
 * from a launch. */
#include "app/inside.h"

enum { PARAM_BYTES = 8 }; /* of a global's address as an added parameter */

/* The driver's own view of the variant's parameters: the original's, then one address a global. A
 * driver that cannot say is believed. */
static bool parameters_match(CUfunction function, const struct kernel *kernel,
                             const struct kg_variant *variant)
{
    uint32_t wanted = kernel->param_count + variant->global_count;
    for (uint32_t i = 0; real.cuFuncGetParamInfo && i <= wanted; i++) {
        size_t offset, size;
        CUresult result = real.cuFuncGetParamInfo(function, i, &offset, &size);
        if (result == CUDA_ERROR_NOT_SUPPORTED)
            return true;
        if ((result == CUDA_SUCCESS) != (i < wanted))
            return false;
        if (i < kernel->param_count
                ? offset != kernel->params[i].offset || size != kernel->params[i].size
                : i < wanted && size != PARAM_BYTES)
            return false;
    }
    return true;
}

static bool attributes_set(CUfunction function, const struct kernel *kernel,
                           const struct kg_variant *variant)
{
    uint32_t most = variant->launch.shared > kernel->max_dynamic_shared
                        ? variant->launch.shared
                        : kernel->max_dynamic_shared;
    if (most > 48 * 1024 &&
        !real_ok(real.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                         (int)most),
                 "shared memory of a variant"))
        return false;
    if (kernel->carveout >= 0) /* a hint: refused, it changes speed only */
        (void)real.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                      kernel->carveout);
    if (kernel->cache_config >= 0)
        function_prefer(function, FUNCTION_CACHE_CONFIG, kernel->cache_config);
    if (kernel->shared_config >= 0)
        function_prefer(function, FUNCTION_SHARED_CONFIG, kernel->shared_config);
    return true;
}

static bool globals_find(const struct kernel *kernel, const struct kg_variant *variant,
                         struct swap_entry *out)
{
    const struct module *module = kernel->module;
    for (uint32_t i = 0; i < variant->global_count; i++) {
        /* the variant may have been made from another build, where the name is another */
        const struct kernel_global *global =
            kernel_global_find(&kernel->model, variant->globals[i]);
        size_t size;
        if (!global)
            return false;
        CUresult result =
            module->library
                ? real.cuLibraryGetGlobal(&out->globals[i], &size, module->handle, global->name)
                : real.cuModuleGetGlobal_v2(&out->globals[i], &size, module->handle, global->name);
        if (!real_ok(result, global->name))
            return false;
    }
    out->global_count = variant->global_count;
    return true;
}

/* Now, not lazily at its first launch: loading belongs to the safe point. */
static bool function_ready(CUfunction function)
{
    CUresult result = real.cuFuncLoad ? real.cuFuncLoad(function) : CUDA_SUCCESS;
    return result == CUDA_ERROR_NOT_SUPPORTED || real_ok(result, "loading a variant's function");
}

bool entry_load(const struct kernel *kernel, const struct snapshot *from,
                const struct kg_variant *variant, struct swap_entry *out)
{
    struct kg_bytes code;
    CUkernel handle;
    *out = (struct swap_entry){.launch = variant->launch,
                               .signature = variant->signature,
                               .variant = variant->id,
                               .ratio = variant->ratio};
    if (snapshot_blob(from, &variant->code, &code) != KG_OK)
        return false;
    CUresult result =
        real.cuLibraryLoadData(&out->library, code.data, NULL, NULL, 0, NULL, NULL, 0);
    bytes_free(&code);
    if (!real_ok(result, "loading a variant"))
        return false;
    if (real_ok(real.cuLibraryGetKernel(&handle, out->library, variant->entry),
                "entry of a variant") &&
        real_ok(real.cuKernelGetFunction(&out->function, handle), "function of a variant") &&
        function_ready(out->function) && parameters_match(out->function, kernel, variant) &&
        attributes_set(out->function, kernel, variant) && globals_find(kernel, variant, out))
        return true;
    (void)real.cuLibraryUnload(out->library); /* nothing of it was launched */
    return false;
}
