/* nvJitLink through a table of its functions, by the unversioned names that every release exports
 * beside those its header is bound to. */
#include "gpu/nvjitlink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/lib.h"

enum { INPUT_PTX = 2, MOST_OUTPUT = 64 << 20 };

/* nvJitLink.h is not needed: stable from CUDA 12.0 to 13. 0 is success. */
static struct {
    int (*create)(void **link, uint32_t count, const char **options);
    int (*destroy)(void **link);
    int (*add)(void *link, int kind, const void *data, size_t size, const char *name);
    int (*complete)(void *link);
    int (*cubin_size)(void *link, size_t *size);
    int (*cubin)(void *link, void *out);
    int (*error_size)(void *link, size_t *size);
    int (*error)(void *link, char *out);
    int (*version)(unsigned *major, unsigned *minor);
} api;
static bool opened;

kg_status nvjitlink_open(void)
{
    static const char *const names[] = {
        "libnvJitLink.so.13",
        "libnvJitLink.so.12",
        "/usr/local/cuda/lib64/libnvJitLink.so.13",
        "/usr/local/cuda/lib64/libnvJitLink.so.12",
        "/usr/local/cuda/lib64/libnvJitLink.so",
        "/opt/cuda/lib64/libnvJitLink.so",
        NULL,
    };
    static const struct lib_row rows[] = {
        {"nvJitLinkCreate", (void **)&api.create, false},
        {"nvJitLinkDestroy", (void **)&api.destroy, false},
        {"nvJitLinkAddData", (void **)&api.add, false},
        {"nvJitLinkComplete", (void **)&api.complete, false},
        {"nvJitLinkGetLinkedCubinSize", (void **)&api.cubin_size, false},
        {"nvJitLinkGetLinkedCubin", (void **)&api.cubin, false},
        {"nvJitLinkGetErrorLogSize", (void **)&api.error_size, false},
        {"nvJitLinkGetErrorLog", (void **)&api.error, false},
        {"nvJitLinkVersion", (void **)&api.version, true},
        {0},
    };
    if (opened)
        return KG_OK;
    kg_status status =
        lib_open("libnvJitLink", options()->nvjitlink, names, rows,
                 "install the CUDA toolkit's nvJitLink, or give its path in KGENRT_NVJITLINK");
    opened = status == KG_OK;
    return status;
}

int nvjitlink_version(void)
{
    unsigned major = 0, minor = 0;
    if (!opened || !api.version || api.version(&major, &minor) || major > 1000)
        return 0;
    return (int)(major * 1000 + minor * 10);
}

static kg_status log_take(void *link, struct kg_bytes *log)
{
    size_t size = 0;
    if (api.error_size(link, &size) || size > MOST_OUTPUT)
        return KG_LIMIT;
    log->data = calloc(1, size + 1);
    if (!log->data)
        return KG_NO_MEMORY;
    if (size && api.error(link, (char *)log->data))
        return KG_IO;
    log->size = strlen((char *)log->data);
    return KG_OK;
}

static kg_status cubin_take(void *link, struct kg_bytes *cubin)
{
    size_t size = 0;
    if (api.cubin_size(link, &size) || !size || size > MOST_OUTPUT)
        return KG_COMPILE;
    cubin->data = calloc(1, size + 1);
    if (!cubin->data)
        return KG_NO_MEMORY;
    cubin->size = size;
    return api.cubin(link, cubin->data) ? KG_COMPILE : KG_OK;
}

kg_status nvjitlink_compile(const char *ptx, const char *arch, struct kg_bytes *cubin,
                            struct kg_bytes *log)
{
    char option[40];
    snprintf(option, sizeof option, "-arch=%s", arch);
    const char *fixed[] = {option, "-O3"};
    void *link = NULL;
    *cubin = *log = (struct kg_bytes){0};
    if (api.create(&link, 2, fixed))
        return KG_UNSUPPORTED;
    bool good =
        !api.add(link, INPUT_PTX, ptx, strlen(ptx) + 1, "candidate.ptx") && !api.complete(link);
    kg_status status = log_take(link, log);
    if (status == KG_OK)
        status = good ? cubin_take(link, cubin) : KG_COMPILE;
    api.destroy(&link);
    return status;
}
