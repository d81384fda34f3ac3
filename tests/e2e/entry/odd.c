/* Calls as they should not be, and as they may be: missing places for results, handles of nothing
 * and of the dead, wrong sizes, no context. Prints what each returns; the output is the same with
 * and without kgenrt. Every function is looked up by its exact name. */
#include "job.h"

static unsigned asked;

#define SAY(call) printf("%3u %-24s %d\n", ++asked, #call, (int)JOB_##call)
#define FUNCTION(name) ((__typeof__(&(name)))dlsym(job_driver, #name))

/* The table of calls names them without this. */
#define JOB_cuInit(...) JOB_CALL(cuInit)(__VA_ARGS__)
#define JOB_cuCtxSynchronize(...) JOB_CALL(cuCtxSynchronize)(__VA_ARGS__)
#define JOB_cuCtxSetCurrent(...) JOB_CALL(cuCtxSetCurrent)(__VA_ARGS__)
#define JOB_cuDevicePrimaryCtxRetain(...) JOB_CALL(cuDevicePrimaryCtxRetain)(__VA_ARGS__)
#define JOB_cuDevicePrimaryCtxRelease(...) JOB_CALL(cuDevicePrimaryCtxRelease)(__VA_ARGS__)
#define JOB_cuModuleLoad(...) JOB_CALL(cuModuleLoad)(__VA_ARGS__)
#define JOB_cuModuleLoadData(...) JOB_CALL(cuModuleLoadData)(__VA_ARGS__)
#define JOB_cuModuleLoadDataEx(...) JOB_CALL(cuModuleLoadDataEx)(__VA_ARGS__)
#define JOB_cuModuleLoadFatBinary(...) JOB_CALL(cuModuleLoadFatBinary)(__VA_ARGS__)
#define JOB_cuModuleGetFunction(...) JOB_CALL(cuModuleGetFunction)(__VA_ARGS__)
#define JOB_cuModuleUnload(...) JOB_CALL(cuModuleUnload)(__VA_ARGS__)
#define JOB_cuLibraryLoadData(...) JOB_CALL(cuLibraryLoadData)(__VA_ARGS__)
#define JOB_cuLibraryGetKernel(...) JOB_CALL(cuLibraryGetKernel)(__VA_ARGS__)
#define JOB_cuLibraryGetModule(...) JOB_CALL(cuLibraryGetModule)(__VA_ARGS__)
#define JOB_cuLibraryUnload(...) JOB_CALL(cuLibraryUnload)(__VA_ARGS__)
#define JOB_cuKernelGetFunction(...) JOB_CALL(cuKernelGetFunction)(__VA_ARGS__)
#define JOB_cuFuncSetAttribute(...) JOB_CALL(cuFuncSetAttribute)(__VA_ARGS__)
#define JOB_cuFuncSetCacheConfig(...) JOB_CALL(cuFuncSetCacheConfig)(__VA_ARGS__)
#define JOB_cuMemAlloc(...) JOB_CALL(cuMemAlloc)(__VA_ARGS__)
#define JOB_cuMemAllocManaged(...) JOB_CALL(cuMemAllocManaged)(__VA_ARGS__)
#define JOB_cuLaunchKernel(...) JOB_CALL(cuLaunchKernel)(__VA_ARGS__)
#define JOB_cuLaunchKernelEx(...) JOB_CALL(cuLaunchKernelEx)(__VA_ARGS__)
#define JOB_cuGetProcAddress_v2(...) FUNCTION(cuGetProcAddress_v2)(__VA_ARGS__)

static void look_ups(void)
{
    void *found;
    SAY(cuGetProcAddress_v2("", &found, 0, 0, NULL));
    SAY(cuGetProcAddress_v2("cuLaunchKernel", NULL, 12000, 0, NULL));
    SAY(cuGetProcAddress_v2(NULL, &found, 12000, 0, NULL));
    SAY(cuGetProcAddress_v2("cuLaunchKernel", &found, 1, 0, NULL));
    SAY(cuGetProcAddress_v2("cuNothing", &found, 13000, 2, NULL));
}

static void without_context(CUcontext context)
{
    CUmodule module;
    CUdeviceptr address;
    SAY(cuCtxSetCurrent(NULL));
    SAY(cuCtxSynchronize());
    SAY(cuModuleLoadData(&module, job_ptx));
    SAY(cuMemAlloc(&address, 64));
    SAY(cuCtxSetCurrent(context));
}

static void loading(void)
{
    static const char garbage[64] = "no code at all";
    CUmodule module = NULL;
    SAY(cuModuleLoad(&module, "/nowhere"));
    SAY(cuModuleLoad(&module, NULL));
    SAY(cuModuleLoadData(&module, NULL));
    SAY(cuModuleLoadData(&module, garbage));
    SAY(cuModuleLoadData(NULL, job_ptx));
    SAY(cuModuleLoadDataEx(&module, garbage, 0, NULL, NULL));
    SAY(cuModuleLoadFatBinary(&module, garbage));
    SAY(cuModuleUnload(NULL));
}

static void functions(CUfunction function, CUdeviceptr values)
{
    CUmodule module;
    CUfunction other = NULL;
    int count = JOB_VALUES;
    void *params[] = {&values, &count};
    SAY(cuModuleLoadData(&module, job_ptx));
    SAY(cuModuleGetFunction(&other, module, "none"));
    SAY(cuModuleGetFunction(&other, module, NULL));
    SAY(cuModuleGetFunction(&other, NULL, "add_one"));
    SAY(cuModuleGetFunction(NULL, module, "add_one"));
    SAY(cuModuleGetFunction(&other, module, "add_one"));
    SAY(cuFuncSetAttribute(NULL, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1));
    SAY(cuFuncSetAttribute(other, CU_FUNC_ATTRIBUTE_NUM_REGS, 1));
    SAY(cuFuncSetAttribute(other, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 30));
    SAY(cuFuncSetCacheConfig(NULL, CU_FUNC_CACHE_PREFER_L1));
    SAY(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    SAY(cuLaunchKernel(other, 0, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    SAY(cuLaunchKernel(other, 1, 1, 1, 1, 1, 0, 0, NULL, params, NULL));
    SAY(cuLaunchKernel(other, 1, 1, 1, 4096, 1, 1, 0, NULL, params, NULL));
    SAY(cuLaunchKernel(other, 1, 1, 1, 1, 1, 1, 1 << 30, NULL, params, NULL));
    SAY(cuLaunchKernel(other, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    SAY(cuLaunchKernelEx(NULL, other, params, NULL));
    SAY(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    SAY(cuModuleUnload(module));
    SAY(cuCtxSynchronize());
}

static void libraries(void)
{
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    CUfunction function = NULL;
    CUmodule module = NULL;
    SAY(cuLibraryLoadData(&library, NULL, NULL, NULL, 0, NULL, NULL, 0));
    SAY(cuLibraryLoadData(NULL, job_ptx, NULL, NULL, 0, NULL, NULL, 0));
    SAY(cuLibraryLoadData(&library, job_ptx, NULL, NULL, 0, NULL, NULL, 0));
    SAY(cuLibraryGetKernel(&kernel, library, "none"));
    SAY(cuLibraryGetKernel(NULL, library, "add_one"));
    SAY(cuLibraryGetKernel(&kernel, NULL, "add_one"));
    SAY(cuLibraryGetKernel(&kernel, library, "add_one"));
    SAY(cuKernelGetFunction(NULL, kernel));
    SAY(cuKernelGetFunction(&function, NULL));
    SAY(cuKernelGetFunction(&function, kernel));
    SAY(cuLibraryGetModule(NULL, library));
    SAY(cuLibraryGetModule(&module, NULL));
    SAY(cuLibraryUnload(library));
    SAY(cuLibraryUnload(NULL));
}

static void memory(void)
{
    CUdeviceptr address;
    SAY(cuMemAlloc(&address, 0));
    SAY(cuMemAlloc(NULL, 64));
    SAY(cuMemAlloc(&address, (size_t)1 << 60));
    SAY(cuMemAllocManaged(&address, 64, 77));
}

int main(void)
{
    struct job job = {0};
    CUcontext context;
    job_driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!job_driver)
        return 3;
    look_ups();
    SAY(cuCtxSynchronize()); /* before cuInit */
    SAY(cuInit(1));
    if (job_begin(&job))
        return 4;
    SAY(cuDevicePrimaryCtxRetain(NULL, 0));
    SAY(cuDevicePrimaryCtxRetain(&context, 99));
    SAY(cuDevicePrimaryCtxRelease(99));
    without_context(job.context);
    loading();
    functions(job.add, job.values);
    libraries();
    memory();
    return 0;
}
