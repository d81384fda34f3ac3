/* NVRTC through a table of its functions. The options are fixed here: no caller and no reply can
 * add one. There is no include path, and no fast math: results must be the original's. */
#include "gpu/nvrtc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/lib.h"

/* nvrtc.h is not needed: these few signatures are stable from CUDA 11.2 to 13. 0 is success. */
static struct {
    int (*version)(int *major, int *minor);
    int (*arch_count)(int *count);
    int (*archs)(int *archs);
    int (*create)(void **program, const char *source, const char *name, int headers,
                  const char *const *texts, const char *const *names);
    int (*destroy)(void **program);
    int (*add_name)(void *program, const char *expression);
    int (*lowered)(void *program, const char *expression, const char **out);
    int (*compile)(void *program, int count, const char *const *options);
    int (*log_size)(void *program, size_t *size);
    int (*log)(void *program, char *out);
    int (*ptx_size)(void *program, size_t *size);
    int (*ptx)(void *program, char *out);
    const char *(*error)(int result);
} api;
static int version;

enum { MOST_OUTPUT = 64 << 20 };

/* NVRTC opens its second half by name when it first compiles, when the compile child may open
 * nothing any more. Loaded now, it is found by that name then. A release that does without is
 * content too. */
static void builtins_open(int major, int minor)
{
    Dl_info info;
    char name[64], path[KG_PATH];
    snprintf(name, sizeof name, "libnvrtc-builtins.so.%d.%d", major, minor);
    const char *slash =
        dladdr((void *)api.create, &info) && info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    if (slash &&
        path_make(path, "%.*s/%s", (int)(slash - info.dli_fname), info.dli_fname, name) == KG_OK &&
        dlopen(path, RTLD_NOW | RTLD_LOCAL))
        return;
    if (!dlopen(name, RTLD_NOW | RTLD_LOCAL))
        log_line(KG_DEBUG, "%s: %s", name, dlerror());
}

kg_status nvrtc_open(void)
{
    static const char *const names[] = {
        "libnvrtc.so.13",
        "libnvrtc.so.12",
        "/usr/local/cuda/lib64/libnvrtc.so.13",
        "/usr/local/cuda/lib64/libnvrtc.so.12",
        "/usr/local/cuda/lib64/libnvrtc.so",
        "/opt/cuda/lib64/libnvrtc.so",
        NULL,
    };
    static const struct lib_row rows[] = {
        {"nvrtcVersion", (void **)&api.version, false},
        {"nvrtcGetNumSupportedArchs", (void **)&api.arch_count, false},
        {"nvrtcGetSupportedArchs", (void **)&api.archs, false},
        {"nvrtcCreateProgram", (void **)&api.create, false},
        {"nvrtcDestroyProgram", (void **)&api.destroy, false},
        {"nvrtcAddNameExpression", (void **)&api.add_name, false},
        {"nvrtcGetLoweredName", (void **)&api.lowered, false},
        {"nvrtcCompileProgram", (void **)&api.compile, false},
        {"nvrtcGetProgramLogSize", (void **)&api.log_size, false},
        {"nvrtcGetProgramLog", (void **)&api.log, false},
        {"nvrtcGetPTXSize", (void **)&api.ptx_size, false},
        {"nvrtcGetPTX", (void **)&api.ptx, false},
        {"nvrtcGetErrorString", (void **)&api.error, false},
        {0},
    };
    if (version)
        return KG_OK;
    kg_status status =
        lib_open("libnvrtc", options()->nvrtc, names, rows,
                 "install the CUDA toolkit's NVRTC, or give its path in KGENRT_NVRTC");
    if (status != KG_OK)
        return status;
    int major = 0, minor = 0;
    if (api.version(&major, &minor) || major < 1)
        return KG_NO_LIBRARY;
    version = major * 1000 + minor * 10;
    builtins_open(major, minor);
    return KG_OK;
}

int nvrtc_version(void)
{
    return version;
}

static unsigned best_arch(unsigned sm)
{
    int count = 0, archs[128];
    unsigned best = 0;
    if (api.arch_count(&count) || count < 1 || count > 128 || api.archs(archs))
        return 0;
    for (int i = 0; i < count; i++)
        if (archs[i] > 0 && (unsigned)archs[i] <= sm && (unsigned)archs[i] > best)
            best = (unsigned)archs[i];
    return best;
}

static kg_status take(void *program, int (*size_of)(void *, size_t *), int (*get)(void *, char *),
                      struct kg_bytes *out)
{
    size_t size = 0;
    if (size_of(program, &size) || size > MOST_OUTPUT)
        return KG_LIMIT;
    out->data = calloc(1, size + 1);
    if (!out->data)
        return KG_NO_MEMORY;
    out->size = size ? size - 1 : 0; /* the library counts the NUL */
    return get(program, (char *)out->data) ? KG_COMPILE : KG_OK;
}

static kg_status compile(void *program, const char *entry, struct nvrtc_output *out)
{
    char arch[40];
    snprintf(arch, sizeof arch, "--gpu-architecture=compute_%u", out->sm);
    const char *const fixed[] = {arch, "--std=c++17", "--fmad=true", "-default-device",
                                 "--no-source-include"};
    /* the last is only a second bolt: a library too old to know it does without */
    int count = version >= 12040 ? 5 : 4;
    int result = api.add_name(program, entry);
    if (!result)
        result = api.compile(program, count, fixed);
    kg_status status = take(program, api.log_size, api.log, &out->log);
    if (status != KG_OK)
        return status;
    if (result) {
        log_line(KG_DEBUG, "nvrtc: %s", api.error(result));
        return KG_COMPILE;
    }
    const char *name = NULL;
    if (api.lowered(program, entry, &name) || !name || strlen(name) >= sizeof out->entry)
        return KG_COMPILE;
    snprintf(out->entry, sizeof out->entry, "%s", name);
    return take(program, api.ptx_size, api.ptx, &out->ptx);
}

kg_status nvrtc_compile(const char *source, const char *entry, unsigned sm,
                        struct nvrtc_output *out)
{
    *out = (struct nvrtc_output){.sm = best_arch(sm)};
    if (!out->sm)
        return KG_UNSUPPORTED;
    void *program = NULL;
    if (api.create(&program, source, "candidate.cu", 0, NULL, NULL))
        return KG_NO_MEMORY;
    kg_status status = compile(program, entry, out);
    api.destroy(&program);
    return status;
}

void nvrtc_free(struct nvrtc_output *output)
{
    bytes_free(&output->ptx);
    bytes_free(&output->log);
}
