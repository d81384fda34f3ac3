/* A program that makes or loads code while it runs: jit STOP ADDS FORM FILE…, and launches each
 * add_one(values, count) that it got in turn until the file STOP is there. ADDS: what all of them
 * add in one turn. FORM:
 *   files FILE…               each file is a module (one named twice is loaded twice)
 *   nvrtc NVRTC               a cubin that NVRTC makes here
 *   nvjitlink NVRTC NVJITLINK a cubin that nvJitLink links here, of two PTX texts
 *   culink FILE…              what the driver links of the files
 * For the software GPU, which runs no cubins, it puts the PTX they were made from beside a copy of
 * each cubin into the folder SOFTGPU_CUBINS. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

enum { COUNT = 1000, MODULES = 4, TURNS = 20000 };

static int failed_at(int line, int result)
{
    fprintf(stderr, "jit.c: line %d: result %d\n", line, result);
    exit(2);
}
#define NEED(call)                                                                                 \
    do {                                                                                           \
        int result_ = (int)(call);                                                                 \
        if (result_)                                                                               \
            failed_at(__LINE__, result_);                                                          \
    } while (0)

struct bytes {
    char *data;
    size_t size;
};

/* Kept to the end, where leak checkers find it. */
static char *room(size_t size)
{
    static char *all[32];
    static unsigned used;
    char *data = calloc(1, size);
    NEED(!data || used == 32);
    return all[used++] = data;
}

static struct bytes contents(const char *path)
{
    struct bytes out = {room(1 << 22), 0};
    FILE *f = fopen(path, "rb");
    NEED(!f);
    out.size = fread(out.data, 1, (1 << 22) - 1, f);
    fclose(f);
    return out;
}

static void put(const char *name, const char *ending, const void *data, size_t size)
{
    char path[1024];
    const char *folder = getenv("SOFTGPU_CUBINS");
    if (!folder)
        return;
    snprintf(path, sizeof path, "%s/%s-%d.%s", folder, name, (int)getpid(), ending);
    FILE *f = fopen(path, "wb");
    NEED(!f || fwrite(data, 1, size, f) != size);
    NEED(fclose(f));
}

/* ---- NVRTC and nvJitLink, found as CuPy and cuda.core do ------------------------------------- */

#define WHOLE                                                                                      \
    "extern \"C\" __global__ void add_one(int *v, int n)\n"                                        \
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) v[i] += "
static const char whole[] = WHOLE "1; }\n";
static const char caller[] = "__device__ int step(int); " WHOLE "step(i); }\n";
static const char called[] = "__device__ int step(int i) { return i < 0 ? 0 : 1; }\n";

typedef int program_call(void *program, void *out);

/* Output of NVRTC for one source: getter is nvrtcGetPTX or nvrtcGetCUBIN. */
static struct bytes compiled(void *nvrtc, const char *source, const char *arch, const char *getter)
{
    int (*create)(void **, const char *, const char *, int, const char **, const char **);
    int (*compile)(void *, int, const char *const *);
    program_call *size_of, *get;
    char size_name[64];
    void *program;
    const char *const options[] = {arch, "-rdc=true"};
    struct bytes out;
    snprintf(size_name, sizeof size_name, "%sSize", getter);
    *(void **)&create = dlsym(nvrtc, "nvrtcCreateProgram");
    *(void **)&compile = dlsym(nvrtc, "nvrtcCompileProgram");
    *(void **)&size_of = dlsym(nvrtc, size_name);
    *(void **)&get = dlsym(nvrtc, getter);
    NEED(create(&program, source, "jit.cu", 0, NULL, NULL));
    NEED(compile(program, strcmp(getter, "nvrtcGetPTX") ? 1 : 2, options));
    NEED(size_of(program, &out.size));
    out.data = room(out.size + 1);
    NEED(get(program, out.data));
    return out;
}

static struct bytes by_nvrtc(const char *library)
{
    void *nvrtc = dlopen(library, RTLD_NOW);
    NEED(!nvrtc);
    struct bytes cubin = compiled(nvrtc, whole, "-arch=sm_90", "nvrtcGetCUBIN");
    struct bytes ptx = compiled(nvrtc, whole, "-arch=compute_90", "nvrtcGetPTX");
    put("nvrtc", "cubin", cubin.data, cubin.size);
    put("nvrtc", "ptx", ptx.data, strlen(ptx.data));
    return cubin;
}

static struct bytes by_nvjitlink(const char *nvrtc_library, const char *library)
{
    void *nvrtc = dlopen(nvrtc_library, RTLD_NOW), *linker = dlopen(library, RTLD_NOW), *link;
    int (*create)(void **, uint32_t, const char **);
    int (*add)(void *, int, const void *, size_t, const char *);
    int (*complete)(void *), (*destroy)(void **);
    program_call *size_of, *get;
    enum { INPUT_PTX = 2 };
    const char *options[] = {"-arch=sm_90"};
    struct bytes cubin;
    NEED(!nvrtc || !linker);
    *(void **)&create = dlsym(linker, "nvJitLinkCreate");
    *(void **)&add = dlsym(linker, "nvJitLinkAddData");
    *(void **)&complete = dlsym(linker, "nvJitLinkComplete");
    *(void **)&size_of = dlsym(linker, "nvJitLinkGetLinkedCubinSize");
    *(void **)&get = dlsym(linker, "nvJitLinkGetLinkedCubin");
    *(void **)&destroy = dlsym(linker, "nvJitLinkDestroy");
    struct bytes one = compiled(nvrtc, caller, "-arch=compute_90", "nvrtcGetPTX");
    struct bytes two = compiled(nvrtc, called, "-arch=compute_90", "nvrtcGetPTX");
    struct bytes ptx = compiled(nvrtc, whole, "-arch=compute_90", "nvrtcGetPTX");
    NEED(create(&link, 1, options));
    NEED(add(link, INPUT_PTX, one.data, one.size, "one"));
    NEED(add(link, INPUT_PTX, two.data, two.size, "two"));
    NEED(complete(link));
    NEED(size_of(link, &cubin.size));
    cubin.data = room(cubin.size);
    NEED(get(link, cubin.data));
    NEED(destroy(&link));
    put("nvjitlink", "cubin", cubin.data, cubin.size);
    put("nvjitlink", "ptx", ptx.data, strlen(ptx.data));
    return cubin;
}

/* ---- the driver ------------------------------------------------------------------------------ */

static struct bytes by_driver(char **files, int count)
{
    CUlinkState link;
    struct bytes out;
    void *made;
    NEED(cuLinkCreate(0, NULL, NULL, &link));
    for (int i = 0; i < count; i++) {
        struct bytes text = contents(files[i]);
        NEED(cuLinkAddData(link, CU_JIT_INPUT_PTX, text.data, text.size + 1, files[i], 0, NULL,
                           NULL));
    }
    NEED(cuLinkComplete(link, &made, &out.size));
    out.data = room(out.size + 1);
    memcpy(out.data, made, out.size);
    NEED(cuLinkDestroy(link));
    return out;
}

static CUfunction function_of(struct bytes image)
{
    CUmodule module;
    CUfunction function;
    NEED(cuModuleLoadData(&module, image.data));
    NEED(cuModuleGetFunction(&function, module, "add_one"));
    return function;
}

/* What FORM and its files give. */
static int functions(char **words, int count, CUfunction out[MODULES])
{
    const char *form = words[0];
    if (!strcmp(form, "files") && count - 1 <= MODULES) {
        for (int i = 1; i < count; i++)
            out[i - 1] = function_of(contents(words[i]));
        return count - 1;
    }
    if (!strcmp(form, "nvrtc") && count == 2)
        out[0] = function_of(by_nvrtc(words[1]));
    else if (!strcmp(form, "nvjitlink") && count == 3)
        out[0] = function_of(by_nvjitlink(words[1], words[2]));
    else if (!strcmp(form, "culink"))
        out[0] = function_of(by_driver(words + 1, count - 1));
    else
        failed_at(__LINE__, count);
    return 1;
}

int main(int argc, char **argv)
{
    CUdevice device;
    CUcontext context;
    CUdeviceptr values;
    CUfunction launched[MODULES];
    static int host[COUNT];
    int count = COUNT, turns = 0;
    if (argc < 4)
        return 5;
    NEED(cuInit(0));
    NEED(cuDeviceGet(&device, 0));
    NEED(cuDevicePrimaryCtxRetain(&context, device));
    NEED(cuCtxSetCurrent(context));
    int number = functions(argv + 3, argc - 3, launched);
    NEED(cuMemAlloc(&values, sizeof host));
    NEED(cuMemsetD32(values, 0, COUNT));
    void *params[] = {&values, &count};
    for (; turns < TURNS && (turns < 40 || access(argv[1], F_OK)); turns++) {
        for (int i = 0; i < number; i++)
            NEED(cuLaunchKernel(launched[i], 8, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
        NEED(cuCtxSynchronize());
        usleep(3000);
    }
    NEED(cuMemcpyDtoH(host, values, sizeof host));
    for (int i = 0; i < COUNT; i++)
        if (host[i] != turns * atoi(argv[2]))
            return 7;
    puts("right");
    return 0;
}
