/* Libraries: code that belongs to no context, and its kernels. Each context gets a module of the
 * library's code when it first needs one. Without a current context the primary one stands in. */
#include "soft.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct library *library_of(CUlibrary handle)
{
    return handle_kind_of(handle) == HANDLE_LIBRARY ? (struct library *)handle : NULL;
}

static CUresult find_or_create(struct library *library, struct context *context,
                               struct module **out)
{
    soft_lock();
    struct module *module = context->modules;
    while (module && module->library != library)
        module = module->next;
    if (!module)
        library->code->references++;
    soft_unlock();
    if (module) {
        *out = module;
        return CUDA_SUCCESS;
    }
    CUresult result = module_create(context, library->code, library, out);
    if (result != CUDA_SUCCESS)
        code_release(library->code);
    return result;
}

/* One thread at a time: there must be one module, or there would be two of each variable. */
CUresult library_module(struct library *library, struct context *context, struct module **out)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    CUresult result = find_or_create(library, context_whole(context), out);
    pthread_mutex_unlock(&mutex);
    return result;
}

/* The library's module where this thread is. */
static CUresult module_here(struct library *library, struct module **out)
{
    return library_module(library, context_here(), out);
}

/* The code is selected once, for the device of the thread that loads it. */
static const char *arch_here(void)
{
    struct context *context = context_current();
    return (context && context->alive ? context->device : device_at(0))->arch;
}

static CUresult load(CUlibrary *out, struct code *code)
{
    struct library *library = calloc(1, sizeof *library);
    if (!library || !handle_add(library, HANDLE_LIBRARY)) {
        free(library);
        code_release(code);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    library->code = code;
    struct module *module;
    CUresult result = module_eager() ? module_here(library, &module) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) {
        handle_remove(library);
        free(library);
        code_release(code);
        return result;
    }
    *out = (CUlibrary)library;
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
                           void **jitOptionsValues, unsigned int numJitOptions,
                           CUlibraryOption *libraryOptions, void **libraryOptionValues,
                           unsigned int numLibraryOptions)
{
    struct code *selected;
    CUresult result = soft_enter();
    if (result == CUDA_SUCCESS && (!library || !code))
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = code_create(code, 0, arch_here(), &selected);
    return result == CUDA_SUCCESS ? load(library, selected) : result;
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
                               void **jitOptionsValues, unsigned int numJitOptions,
                               CUlibraryOption *libraryOptions, void **libraryOptionValues,
                               unsigned int numLibraryOptions)
{
    struct code *selected;
    CUresult result = soft_enter();
    if (result == CUDA_SUCCESS && !library)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = code_from_file(fileName, arch_here(), &selected);
    return result == CUDA_SUCCESS ? load(library, selected) : result;
}

/* Takes the library's modules out of every context, after its work. */
static void unload_modules(struct library *library)
{
    for (struct context *context = contexts_first(); context; context = context->next) {
        struct module *module;
        do {
            soft_lock();
            module = context->modules;
            while (module && module->library != library)
                module = module->next;
            soft_unlock();
            if (module) {
                (void)context_drain(context); /* a fault there does not keep the code */
                module_unlink(module);
                module_destroy(module);
            }
        } while (module);
    }
}

CUresult cuLibraryUnload(CUlibrary handle)
{
    CUresult result = soft_enter();
    struct library *library = library_of(handle);
    if (result != CUDA_SUCCESS || !library)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_HANDLE;
    handle_remove(library);
    unload_modules(library);
    while (library->kernels) {
        struct kernel *kernel = library->kernels;
        library->kernels = kernel->next;
        handle_remove(kernel);
        free(kernel->name);
        free(kernel);
    }
    code_release(library->code);
    free(library);
    return CUDA_SUCCESS;
}

/* ---- kernels ---- */

static struct kernel *kernel_find(struct library *library, const char *name)
{
    struct kernel *kernel = library->kernels;
    while (kernel && strcmp(kernel->name, name))
        kernel = kernel->next;
    return kernel;
}

/* Caller holds the lock. */
static struct kernel *kernel_add(struct library *library, const struct function *function)
{
    struct kernel *kernel = calloc(1, sizeof *kernel);
    char *name = strdup(function->info.name);
    if (!kernel || !name || !handle_add(kernel, HANDLE_KERNEL)) {
        free(kernel);
        free(name);
        return NULL;
    }
    *kernel = (struct kernel){library,         name, function->max_shared, function->carveout, NULL,
                              library->kernels};
    library->kernels = kernel;
    return kernel;
}

static CUresult kernel_get(struct library *library, const char *name, struct kernel **out)
{
    struct module *module;
    struct function *function;
    soft_lock();
    *out = kernel_find(library, name);
    soft_unlock();
    if (*out)
        return CUDA_SUCCESS;
    CUresult result = module_here(library, &module);
    if (result == CUDA_SUCCESS)
        result = module_function(module, name, &function);
    if (result != CUDA_SUCCESS)
        return result;
    soft_lock();
    *out = kernel_find(library, name);
    if (!*out)
        *out = kernel_add(library, function);
    soft_unlock();
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult enter(CUlibrary handle, struct library **out)
{
    *out = (struct library *)handle;
    return handle_enter(handle, HANDLE_LIBRARY, CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary handle, const char *name)
{
    struct library *library;
    struct kernel *kernel;
    CUresult result = enter(handle, &library);
    if (result == CUDA_SUCCESS && (!pKernel || !name))
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = kernel_get(library, name, &kernel);
    if (result == CUDA_SUCCESS)
        *pKernel = (CUkernel)kernel;
    return result;
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)
{
    struct library *library;
    struct module *module;
    CUresult result = enter(lib, &library);
    if (result == CUDA_SUCCESS && !count)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = module_here(library, &module);
    if (result == CUDA_SUCCESS)
        *count = exec_module_kernel_count(module->exec);
    return result;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
    struct library *library;
    struct module *module;
    CUresult result = enter(lib, &library);
    if (result == CUDA_SUCCESS && !kernels)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = module_here(library, &module);
    for (unsigned i = 0; result == CUDA_SUCCESS && i < numKernels; i++) {
        struct exec_info info;
        struct kernel *kernel;
        const struct exec_kernel *exec = exec_module_kernel_at(module->exec, i);
        if (!exec)
            break;
        exec_kernel_info(exec, &info);
        result = kernel_get(library, info.name, &kernel);
        if (result == CUDA_SUCCESS)
            kernels[i] = (CUkernel)kernel;
    }
    return result;
}

CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary handle)
{
    struct library *library;
    struct context *context;
    struct module *module;
    CUresult result = enter(handle, &library);
    if (result == CUDA_SUCCESS)
        result = context_enter(&context);
    if (result == CUDA_SUCCESS && !pMod)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = library_module(library, context, &module);
    if (result == CUDA_SUCCESS)
        *pMod = (CUmodule)module;
    return result;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary handle, const char *name)
{
    struct library *library;
    struct context *context;
    struct module *module;
    CUresult result = enter(handle, &library);
    if (result == CUDA_SUCCESS)
        result = context_enter(&context);
    if (result == CUDA_SUCCESS)
        result = library_module(library, context, &module);
    return result == CUDA_SUCCESS ? module_global(module, name, dptr, bytes) : result;
}

/* Managed variables are ordinary ones here: the host may touch every device address. */
CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    return cuLibraryGetGlobal(dptr, bytes, library, name);
}
