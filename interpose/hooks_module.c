/* Code comes, is looked up, and goes. Every successful load and look-up is told to runtime/app;
 * what dies is told before the real call, so that a recycled handle never meets an old record. */
#include "interpose.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- options of a load, as text --------------------------------------------------------------
 */

/* Those that change the code; buffers and times of a log do not. */
static const struct {
    CUjit_option option;
    const char *name;
} jit_names[] = {
#define JIT(option, name) {option, name},
#include "gpu/jit_options.def"
#undef JIT
};

struct jit_text {
    char text[256];
};

static const char *jit_text(struct jit_text *out, unsigned count, const CUjit_option *options,
                            void *const *values)
{
    size_t used = 0;
    out->text[0] = 0;
    for (unsigned i = 0; options && values && i < count; i++)
        for (unsigned n = 0; n < sizeof jit_names / sizeof *jit_names; n++) {
            if (jit_names[n].option != options[i])
                continue;
            int more = snprintf(out->text + used, sizeof out->text - used, "%s%s=%u",
                                used ? " " : "", jit_names[n].name, (unsigned)(uintptr_t)values[i]);
            if (more < 0 || used + (size_t)more >= sizeof out->text)
                return out->text;
            used += (size_t)more;
        }
    return out->text;
}

/* Code that comes or is looked up is for a context, which kgenrt must know first. */
static bool reporting(void)
{
    context_met();
    return watching();
}

/* ---- loading ---------------------------------------------------------------------------------
 */

CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
    NEED(cuModuleLoad);
    CUresult result = real.cuModuleLoad(module, fname);
    if (result == CUDA_SUCCESS && reporting())
        module_loaded(*module, false, NULL, fname, "");
    return result;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    NEED(cuModuleLoadData);
    CUresult result = real.cuModuleLoadData(module, image);
    if (result == CUDA_SUCCESS && reporting())
        module_loaded(*module, false, image, NULL, "");
    return result;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
                            CUjit_option *options, void **optionValues)
{
    NEED(cuModuleLoadDataEx);
    struct jit_text text; /* before the call: it writes results into the values */
    jit_text(&text, numOptions, options, optionValues);
    CUresult result = real.cuModuleLoadDataEx(module, image, numOptions, options, optionValues);
    if (result == CUDA_SUCCESS && reporting())
        module_loaded(*module, false, image, NULL, text.text);
    return result;
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
    NEED(cuModuleLoadFatBinary);
    CUresult result = real.cuModuleLoadFatBinary(module, fatCubin);
    if (result == CUDA_SUCCESS && reporting())
        module_loaded(*module, false, fatCubin, NULL, "");
    return result;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
                           void **jitOptionsValues, unsigned int numJitOptions,
                           CUlibraryOption *libraryOptions, void **libraryOptionValues,
                           unsigned int numLibraryOptions)
{
    NEED(cuLibraryLoadData);
    struct jit_text text;
    jit_text(&text, numJitOptions, jitOptions, jitOptionsValues);
    CUresult result =
        real.cuLibraryLoadData(library, code, jitOptions, jitOptionsValues, numJitOptions,
                               libraryOptions, libraryOptionValues, numLibraryOptions);
    if (result == CUDA_SUCCESS && reporting())
        module_loaded(*library, true, code, NULL, text.text);
    return result;
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
                               void **jitOptionsValues, unsigned int numJitOptions,
                               CUlibraryOption *libraryOptions, void **libraryOptionValues,
                               unsigned int numLibraryOptions)
{
    NEED(cuLibraryLoadFromFile);
    struct jit_text text;
    jit_text(&text, numJitOptions, jitOptions, jitOptionsValues);
    CUresult result =
        real.cuLibraryLoadFromFile(library, fileName, jitOptions, jitOptionsValues, numJitOptions,
                                   libraryOptions, libraryOptionValues, numLibraryOptions);
    if (result == CUDA_SUCCESS && reporting())
        module_loaded(*library, true, NULL, fileName, text.text);
    return result;
}

/* ---- unloading -------------------------------------------------------------------------------
 */

CUresult cuModuleUnload(CUmodule hmod)
{
    NEED(cuModuleUnload);
    if (watching())
        module_dying(hmod);
    return real.cuModuleUnload(hmod);
}

CUresult cuLibraryUnload(CUlibrary library)
{
    NEED(cuLibraryUnload);
    if (watching())
        module_dying(library);
    return real.cuLibraryUnload(library);
}

/* ---- look-up ---------------------------------------------------------------------------------
 */

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    NEED(cuModuleGetFunction);
    CUresult result = real.cuModuleGetFunction(hfunc, hmod, name);
    if (result == CUDA_SUCCESS && reporting())
        function_found(hmod, name, *hfunc);
    return result;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod)
{
    NEED(cuModuleEnumerateFunctions);
    CUresult result = real.cuModuleEnumerateFunctions(functions, numFunctions, mod);
    const char *name;
    for (unsigned i = 0; !result && watching() && real.cuFuncGetName && i < numFunctions; i++)
        if (functions[i] && real.cuFuncGetName(&name, functions[i]) == CUDA_SUCCESS)
            function_found(mod, name, functions[i]);
    return result;
}

CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
    NEED(cuLibraryGetKernel);
    CUresult result = real.cuLibraryGetKernel(pKernel, library, name);
    if (result == CUDA_SUCCESS && reporting())
        function_found(library, name, *pKernel);
    return result;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
    NEED(cuLibraryEnumerateKernels);
    CUresult result = real.cuLibraryEnumerateKernels(kernels, numKernels, lib);
    const char *name;
    for (unsigned i = 0; !result && watching() && real.cuKernelGetName && i < numKernels; i++)
        if (kernels[i] && real.cuKernelGetName(&name, kernels[i]) == CUDA_SUCCESS)
            function_found(lib, name, kernels[i]);
    return result;
}

CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
    NEED(cuLibraryGetModule);
    CUresult result = real.cuLibraryGetModule(pMod, library);
    if (result == CUDA_SUCCESS && watching())
        module_alias(library, *pMod);
    return result;
}

CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
    NEED(cuFuncGetModule);
    CUresult result = real.cuFuncGetModule(hmod, hfunc);
    if (result == CUDA_SUCCESS && watching())
        module_of_function(*hmod, hfunc);
    return result;
}

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
    NEED(cuKernelGetFunction);
    CUresult result = real.cuKernelGetFunction(pFunc, kernel);
    if (result == CUDA_SUCCESS && watching())
        function_alias(kernel, *pFunc);
    return result;
}

/* ---- attributes ------------------------------------------------------------------------------
 */

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
    NEED(cuKernelSetAttribute);
    CUresult result = real.cuKernelSetAttribute(attrib, val, kernel, dev);
    if (result == CUDA_SUCCESS && watching())
        function_attribute(kernel, (int)attrib, val);
    return result;
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
    NEED(cuKernelSetCacheConfig);
    CUresult result = real.cuKernelSetCacheConfig(kernel, config, dev);
    if (result == CUDA_SUCCESS && watching())
        function_attribute(kernel, FUNCTION_CACHE_CONFIG, (int)config);
    return result;
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    NEED(cuFuncSetAttribute);
    CUresult result = real.cuFuncSetAttribute(hfunc, attrib, value);
    if (result == CUDA_SUCCESS && watching())
        function_attribute(hfunc, (int)attrib, value);
    return result;
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
    NEED(cuFuncSetCacheConfig);
    CUresult result = real.cuFuncSetCacheConfig(hfunc, config);
    if (result == CUDA_SUCCESS && watching())
        function_attribute(hfunc, FUNCTION_CACHE_CONFIG, (int)config);
    return result;
}

CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
    NEED(cuFuncSetSharedMemConfig);
    CUresult result = real.cuFuncSetSharedMemConfig(hfunc, config);
    if (result == CUDA_SUCCESS && watching())
        function_attribute(hfunc, FUNCTION_SHARED_CONFIG, (int)config);
    return result;
}
