/* Modules: PTX selected from whatever a load call was given, prepared by the executor. Machine code
 * cannot run here: an image without PTX is CUDA_ERROR_NO_BINARY_FOR_GPU. */
#include "graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code/ptx_link.h"

/* ---- code ---- */

/* The parts of a program that was linked on the device (nvcc -rdc): the fatbins that a wrapper of
 * version 2 names beside its own, which holds machine code at most. NULL: it is no such wrapper. */
static void *const *parts_of(const unsigned char *data, size_t size)
{
    uint32_t magic, version;
    void *const *parts;
    memcpy(&magic, data, sizeof magic);
    if (size || magic != 0x466243b1)
        return NULL;
    memcpy(&version, data + 4, sizeof version);
    memcpy(&parts, data + 16, sizeof parts);
    return version >= 2 && parts && parts[0] ? parts : NULL;
}

/* Adds the PTX of one part. Left out are a part without PTX for this device, such as NVIDIA's
 * device runtime: what a kernel misses of it the linker names; and that runtime's PTX where there
 * is some: kernels launch nothing here. */
static CUresult part_add(struct ptx_linker *linker, const void *fatbin, const char *arch)
{
    struct image_code image = {0};
    char error[256] = "";
    CUresult result = soft_status(image_select(fatbin, 0, arch, true, &image));
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU)
        result = CUDA_SUCCESS;
    if (image.ptx.size && !strstr((const char *)image.ptx.data, "cudartErrorTable")) {
        kg_status status = ptx_linker_add(linker, (const char *)image.ptx.data, image.ptx.size,
                                          error, sizeof error);
        result = status == KG_OK          ? CUDA_SUCCESS
                 : status == KG_NO_MEMORY ? CUDA_ERROR_OUT_OF_MEMORY
                                          : CUDA_ERROR_INVALID_PTX;
        if (result != CUDA_SUCCESS)
            soft_say("PTX refused: %s", error);
    }
    image_code_free(&image);
    return result;
}

static CUresult parts_link(void *const *parts, const char *arch, struct image_code *out)
{
    struct ptx_linker *linker = ptx_linker_create();
    CUresult result = linker ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    char error[256] = "", *text;
    for (; result == CUDA_SUCCESS && *parts; parts++)
        result = part_add(linker, *parts, arch);
    if (result == CUDA_SUCCESS && !ptx_linker_count(linker))
        result = CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (result == CUDA_SUCCESS) {
        kg_status status = ptx_linker_link(linker, true, &text, error, sizeof error);
        if (status == KG_OK)
            out->ptx = (struct kg_bytes){.data = (unsigned char *)text, .size = strlen(text) + 1};
        else
            soft_say("link: %s", error);
        result = soft_status(status);
    }
    ptx_linker_free(linker);
    return result;
}

/* Machine code with a stand-in (cubin.c). data: no wrapper with parts. */
static CUresult machine_code(const void *data, size_t size, const char *arch,
                             struct image_code *out)
{
    struct image_code code = {0};
    CUresult result = soft_status(image_select(data, size, arch, false, &code));
    if (result == CUDA_SUCCESS && !(code.machine_code && cubin_ptx(&code.selected, &out->ptx)))
        result = CUDA_ERROR_NO_BINARY_FOR_GPU;
    image_code_free(&code);
    return result;
}

/* What the linker made of a program's parts: the fatbin that a wrapper names. */
static const void *linked_of(const void *wrapper)
{
    const void *fatbin;
    memcpy(&fatbin, (const char *)wrapper + 8, sizeof fatbin);
    return fatbin;
}

CUresult code_create(const void *data, size_t size, const char *arch, struct code **out)
{
    struct code *code = calloc(1, sizeof *code);
    if (!code)
        return CUDA_ERROR_OUT_OF_MEMORY;
    void *const *parts = parts_of(data, size);
    CUresult result = parts ? parts_link(parts, arch, &code->image)
                            : soft_status(image_select(data, size, arch, true, &code->image));
    if (result == CUDA_SUCCESS && !code->image.ptx.size)
        result = CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU)
        result = machine_code(parts ? linked_of(data) : data, size, arch, &code->image);
    if (result != CUDA_SUCCESS) {
        image_code_free(&code->image);
        free(code);
        return result;
    }
    code->references = 1;
    *out = code;
    return CUDA_SUCCESS;
}

void code_release(struct code *code)
{
    soft_lock();
    bool last = --code->references == 0;
    soft_unlock();
    if (!last)
        return;
    image_code_free(&code->image);
    free(code);
}

CUresult code_from_file(const char *path, const char *arch, struct code **out)
{
    struct kg_bytes file = {0};
    if (!path)
        return CUDA_ERROR_INVALID_VALUE;
    if (file_read(path, (size_t)1 << 30, &file) != KG_OK)
        return CUDA_ERROR_FILE_NOT_FOUND;
    CUresult result = code_create(file.data, file.size, arch, out);
    bytes_free(&file);
    return result;
}

/* ---- modules ---- */

static _Thread_local char
    refusal[256]; /* why this thread's last PTX was refused; empty: it was not */

/* Consumes one reference of code on success. */
CUresult module_create(struct context *context, struct code *code, struct library *library,
                       struct module **out)
{
    refusal[0] = 0;
    struct module *module = calloc(1, sizeof *module);
    if (!module)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memory_owner_set(context->device->ordinal);
    kg_status status = exec_module_create((const char *)code->image.ptx.data, &soft_memory,
                                          &module->exec, refusal, sizeof refusal);
    if (status != KG_OK || !handle_add(module, HANDLE_MODULE)) {
        if (status == KG_OK)
            exec_module_destroy(module->exec);
        else
            soft_say("PTX refused: %s", refusal);
        free(module);
        return status == KG_OK || status == KG_NO_MEMORY ? CUDA_ERROR_OUT_OF_MEMORY
                                                         : CUDA_ERROR_INVALID_PTX;
    }
    module->context = context;
    module->library = library;
    module->code = code;
    module->references = 1;
    soft_lock();
    module->next = context->modules;
    context->modules = module;
    soft_unlock();
    *out = module;
    return CUDA_SUCCESS;
}

void module_hold(struct module *module)
{
    soft_lock();
    module->references++;
    soft_unlock();
}

void module_release(struct module *module)
{
    soft_lock();
    bool last = --module->references == 0;
    soft_unlock();
    if (!last)
        return;
    exec_module_destroy(module->exec);
    code_release(module->code);
    free(module);
}

void module_destroy(struct module *module)
{
    handle_remove(module);
    while (module->functions) {
        struct function *function = module->functions;
        module->functions = function->next;
        if (function->kernel && function->kernel->function == function)
            function->kernel->function = NULL;
        handle_remove(function);
        free(function->legacy);
        free(function);
    }
    module_release(module);
}

CUresult module_function(struct module *module, const char *name, struct function **out)
{
    const struct exec_kernel *exec = exec_module_kernel(module->exec, name);
    if (!exec)
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = CUDA_SUCCESS;
    soft_lock();
    struct function *function = module->functions;
    while (function && function->exec != exec)
        function = function->next;
    if (!function) {
        function = calloc(1, sizeof *function);
        if (function && handle_add(function, HANDLE_FUNCTION)) {
            function->module = module;
            function->exec = exec;
            exec_kernel_info(exec, &function->info);
            function->max_shared = SOFT_SHARED - (function->info.static_shared < SOFT_SHARED
                                                      ? function->info.static_shared
                                                      : SOFT_SHARED);
            function->carveout = -1;
            function->next = module->functions;
            module->functions = function;
        } else {
            free(function);
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    soft_unlock();
    if (result == CUDA_SUCCESS)
        *out = function;
    return result;
}

/* ---- calls ---- */

/* Consumes code. */
static CUresult load(CUmodule *out, struct context *context, struct code *code)
{
    struct module *module;
    CUresult result = module_create(context_whole(context), code, NULL, &module);
    if (result == CUDA_SUCCESS)
        *out = (CUmodule)module;
    else
        code_release(code);
    return result;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    struct context *context;
    struct code *code;
    CUresult result = context_enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    result = code_create(image, 0, context->device->arch, &code);
    return result == CUDA_SUCCESS ? load(module, context, code) : result;
}

/* The loader's message into the caller's log, as the options say. */
static void tell(unsigned count, const CUjit_option *options, void **values)
{
    char *log = NULL;
    size_t room = 0;
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
            log = values[i];
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            room = (uintptr_t)values[i];
    }
    if (log && room)
        snprintf(log, room, "%s", refusal);
}

/* Other options speak of machine code. */
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
                            CUjit_option *options, void **optionValues)
{
    if (numOptions && (!options || !optionValues))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = cuModuleLoadData(module, image);
    if (result == CUDA_ERROR_INVALID_PTX)
        tell(numOptions, options, optionValues);
    return result;
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
    return cuModuleLoadData(module, fatCubin);
}

CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
    struct context *context;
    struct code *code;
    CUresult result = context_enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (!module)
        return CUDA_ERROR_INVALID_VALUE;
    result = code_from_file(fname, context->device->arch, &code);
    return result == CUDA_SUCCESS ? load(module, context, code) : result;
}

static CUresult enter(CUmodule handle, struct module **out)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result != CUDA_SUCCESS)
        return result;
    if (handle_kind_of(handle) != HANDLE_MODULE)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (struct module *)handle;
    return CUDA_SUCCESS;
}

/* Waits for the context's work, as the unloading of code on hardware does. */
CUresult cuModuleUnload(CUmodule hmod)
{
    struct module *module;
    CUresult result = enter(hmod, &module);
    if (result == CUDA_SUCCESS && module->library)
        return CUDA_ERROR_INVALID_HANDLE; /* goes with its library */
    if (result == CUDA_SUCCESS)
        result = capture_unsafe();
    if (result == CUDA_SUCCESS)
        result = context_drain(module->context);
    if (result != CUDA_SUCCESS)
        return result;
    module_unlink(module);
    module_destroy(module);
    return CUDA_SUCCESS;
}

void module_unlink(struct module *module)
{
    soft_lock();
    struct module **link = &module->context->modules;
    while (*link && *link != module)
        link = &(*link)->next;
    if (*link)
        *link = module->next;
    soft_unlock();
}

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    struct module *module;
    struct function *function;
    CUresult result = enter(hmod, &module);
    if (result == CUDA_SUCCESS && (!hfunc || !name))
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = module_function(module, name, &function);
    if (result == CUDA_SUCCESS)
        *hfunc = (CUfunction)function;
    return result;
}

CUresult module_global(struct module *module, const char *name, CUdeviceptr *address, size_t *size)
{
    uint64_t base, bytes;
    if (!name || (!address && !size))
        return CUDA_ERROR_INVALID_VALUE;
    if (!exec_module_global(module->exec, name, &base, &bytes))
        return CUDA_ERROR_NOT_FOUND;
    if (address)
        *address = base;
    if (size)
        *size = bytes;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
    struct module *module;
    CUresult result = enter(hmod, &module);
    return result == CUDA_SUCCESS ? module_global(module, name, dptr, bytes) : result;
}

bool module_eager(void)
{
    const char *mode = getenv("CUDA_MODULE_LOADING");
    return mode && !strcmp(mode, "EAGER");
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    CUresult result = soft_enter();
    if (result == CUDA_SUCCESS && !mode)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *mode = module_eager() ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
    return result;
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule hmod)
{
    struct module *module;
    CUresult result = enter(hmod, &module);
    if (result == CUDA_SUCCESS && !count)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *count = exec_module_kernel_count(module->exec);
    return result;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod)
{
    struct module *module;
    CUresult result = enter(mod, &module);
    if (result == CUDA_SUCCESS && !functions)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; result == CUDA_SUCCESS && i < numFunctions; i++) {
        struct function *function;
        struct exec_info info;
        const struct exec_kernel *exec = exec_module_kernel_at(module->exec, i);
        if (!exec)
            break;
        exec_kernel_info(exec, &info);
        result = module_function(module, info.name, &function);
        if (result == CUDA_SUCCESS)
            functions[i] = (CUfunction)function;
    }
    return result;
}
