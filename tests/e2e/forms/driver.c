/* A driver-API program: usage driver FORM IMAGE-FILE LAUNCH. FORM is how the code is loaded (data,
 * dataex, fatbin, file, library, nvrtc); LAUNCH how it is launched (params, extra, ex). Built
 * twice: linked with libcuda, and with -DBY_DLOPEN, when every function comes from dlopen and
 * dlsym. 60 launches of one kernel, checked. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#ifdef BY_DLOPEN
static void *driver;
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define CALL(function) ((__typeof__(&(function)))dlsym(driver, TEXT(function)))
#else
#define CALL(function) function
#endif

#define NEED(call)                                                                                 \
    do {                                                                                           \
        CUresult result_ = (call);                                                                 \
        if (result_ != CUDA_SUCCESS) {                                                             \
            fprintf(stderr, "line %d: error %d\n", __LINE__, (int)result_);                        \
            exit(2);                                                                               \
        }                                                                                          \
    } while (0)

static void *contents(const char *path)
{
    static char bytes[1 << 20];
    FILE *f = fopen(path, "rb");
    if (!f || !fread(bytes, 1, sizeof bytes - 1, f))
        exit(3);
    fclose(f);
    return bytes;
}

/* PTX made in this process by NVRTC, from the source file at `path`. */
static void *by_nvrtc(const char *path)
{
    void *nvrtc = dlopen("libnvrtc.so.13", RTLD_NOW);
    if (!nvrtc)
        nvrtc = dlopen("libnvrtc.so.12", RTLD_NOW);
    if (!nvrtc)
        exit(77);
    int (*create)(void **, const char *, const char *, int, const char **, const char **) =
        (int (*)(void **, const char *, const char *, int, const char **, const char **))dlsym(
            nvrtc, "nvrtcCreateProgram");
    int (*compile)(void *, int, const char *const *) =
        (int (*)(void *, int, const char *const *))dlsym(nvrtc, "nvrtcCompileProgram");
    int (*get)(void *, char *) = (int (*)(void *, char *))dlsym(nvrtc, "nvrtcGetPTX");
    void *program;
    static char ptx[1 << 20];
    const char *const options[] = {"--gpu-architecture=compute_75"};
    if (create(&program, contents(path), "add_one.cu", 0, NULL, NULL) ||
        compile(program, 1, options) || get(program, ptx))
        exit(4);
    return ptx;
}

static CUfunction load(const char *form, const char *path)
{
    CUmodule module;
    CUfunction function;
    if (!strcmp(form, "library")) {
        CUlibrary library;
        CUkernel kernel;
        NEED(CALL(cuLibraryLoadData)(&library, contents(path), NULL, NULL, 0, NULL, NULL, 0));
        NEED(CALL(cuLibraryGetKernel)(&kernel, library, "add_one"));
        return (CUfunction)kernel;
    }
    if (!strcmp(form, "file"))
        NEED(CALL(cuModuleLoad)(&module, path));
    else if (!strcmp(form, "fatbin"))
        NEED(CALL(cuModuleLoadFatBinary)(&module, contents(path)));
    else if (!strcmp(form, "dataex"))
        NEED(CALL(cuModuleLoadDataEx)(&module, contents(path), 0, NULL, NULL));
    else if (!strcmp(form, "nvrtc"))
        NEED(CALL(cuModuleLoadData)(&module, by_nvrtc(path)));
    else
        NEED(CALL(cuModuleLoadData)(&module, contents(path)));
    NEED(CALL(cuModuleGetFunction)(&function, module, "add_one"));
    return function;
}

int main(int argc, char **argv)
{
    enum { COUNT = 1000, LAUNCHES = 60 };
    CUdevice device;
    CUcontext context;
    CUdeviceptr values;
    static int host[COUNT];
    int count = COUNT;
    if (argc != 4)
        return 5;
#ifdef BY_DLOPEN
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        return 6;
#endif
    NEED(CALL(cuInit)(0));
    NEED(CALL(cuDeviceGet)(&device, 0));
    NEED(CALL(cuDevicePrimaryCtxRetain)(&context, device));
    NEED(CALL(cuCtxSetCurrent)(context));
    CUfunction function = load(argv[1], argv[2]);
    NEED(CALL(cuMemAlloc)(&values, sizeof host));
    NEED(CALL(cuMemsetD32)(values, 0, COUNT));
    struct {
        CUdeviceptr values;
        int count;
    } packed = {values, COUNT};
    size_t size = 12;
    void *params[] = {&values, &count};
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    CUlaunchConfig config = {.gridDimX = 8,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 128,
                             .blockDimY = 1,
                             .blockDimZ = 1};
    for (int i = 0; i < LAUNCHES; i++) {
        if (!strcmp(argv[3], "ex"))
            NEED(CALL(cuLaunchKernelEx)(&config, function, params, NULL));
        else if (!strcmp(argv[3], "extra"))
            NEED(CALL(cuLaunchKernel)(function, 8, 1, 1, 128, 1, 1, 0, NULL, NULL, extra));
        else
            NEED(CALL(cuLaunchKernel)(function, 8, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    }
    NEED(CALL(cuCtxSynchronize)());
    NEED(CALL(cuMemcpyDtoH)(host, values, sizeof host));
    for (int i = 0; i < COUNT; i++)
        if (host[i] != LAUNCHES)
            return 7;
    puts("right");
    return 0;
}
