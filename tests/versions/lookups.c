/* How NVIDIA's cudart of other versions, shared and static, finds the driver: each library given is
 * started under the preload, and with the auditor alone, against a driver that logs what it is
 * asked for (tests/fake). NVIDIA's cudart then refuses that driver, but by then all its look-ups
 * are made. For each of them:
 *
 * - the form asked for (version, stream flag) is one that cuda_api.def has, so that no newer form
 * of a hooked entry passes by;
 * - what the cudart now holds in its own variables is our hook where the entry is hooked, by the
 *   right name, and nowhere the driver's own function of it;
 * - an entry of launches or code that cuda_api.def lacks is one of `left`, with its reason.
 *
 *   lookups [--table] LIBRARY ...   a line each, and one for each hooked request; exit status 0 if
 *                                   all hold */
#include <dlfcn.h>
#include <link.h>

#include "gpu/real.h"

#include "../../interpose/audit/tunable.h"
#include "e2e/edge_child.h"

/* Asked for, of launches and code, and passed on without a row. */
static const char *const left[] = {
    "cuLaunchCooperativeKernelMultiDevice", /* several devices: observed only */
    "cuLibraryGetUnifiedFunction",          /* a host function's device address, nothing launched */
    "cuModuleGetSurfRef",                   /* such kernels are left alone */
    "cuModuleGetTexRef",
    "cuGraphInstantiateWithParams_ptsz", /* 12.1's slip, no base name: told by its address, if given
                                          */
};

/* What cuBLASLt 13.1 and cuFFT 12.0 take by dlsym instead, of what is hooked: exported names, so
 * the oldest form of an entry where there is no suffix. */
static const char *const by_dlsym[] = {
    "cuCtxPushCurrent",
    "cuCtxPushCurrent_v2",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDevicePrimaryCtxRelease",
    "cuDevicePrimaryCtxReset",
    "cuDevicePrimaryCtxRetain",
    "cuFuncSetAttribute",
    "cuFuncSetCacheConfig",
    "cuGetProcAddress_v2",
    "cuGraphExecDestroy",
    "cuGraphExecKernelNodeSetParams",
    "cuGraphInstantiate",
    "cuGraphLaunch",
    "cuInit",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuLinkAddData_v2",
    "cuLinkAddFile_v2",
    "cuLinkComplete",
    "cuLinkDestroy",
    "cuMemAlloc_v2",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleLoadDataEx",
    "cuModuleLoadFatBinary",
    "cuModuleUnload",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
};

struct request {
    const char *base;
    int version;
    unsigned flags;
};

static struct request requests[2048];
static unsigned request_count;
static unsigned *held;     /* by row: how often the library holds our function */
static unsigned strangers; /* driver's own functions of hooked rows that it holds */
static void *ours, *driver;

/* ---- what was asked ----------------------------------------------------------------------------
 */

/* Lines "cuGetProcAddress[_v2] NAME VERSION FLAGS"; the name may be empty, and is no request then.
 */
static void read_requests(const char *log)
{
    static char copy[1 << 20];
    snprintf(copy, sizeof copy, "%s", log);
    char *rest = copy;
    for (char *line; (line = strtok_r(rest, "\n", &rest));) {
        struct request r;
        char name[128];
        if (strncmp(line, "cuGetProcAddress", 16) ||
            sscanf(line, "%*s %127s %d %u", name, &r.version, &r.flags) != 3)
            continue;
        if (!CHECK(request_count < sizeof requests / sizeof *requests))
            return;
        r.base = strdup(name);
        requests[request_count++] = r;
    }
}

/* The row of exactly this form, or -1. *known: the table has the entry; *hooks: in some form
 * hooked. */
static int row_of(const struct request *r, bool *known, bool *hooks)
{
    int row = -1;
    *known = *hooks = false;
    for (unsigned i = 0; i < real_row_count; i++) {
        if (strcmp(real_rows[i].base, r->base))
            continue;
        *known = true;
        *hooks |= real_rows[i].hooked;
        if (real_rows[i].version == r->version &&
            (real_rows[i].stream == 'B' || (real_rows[i].stream == 'P') == (r->flags == 2)))
            row = (int)i;
    }
    return row;
}

static bool of_launches_or_code(const char *base)
{
    static const char *const words[] = {"Launch", "Module", "Library", "Kernel", "Load", "Func"};
    /* by which kernels get into executable graphs; the app's own graphs are left as they are */
    static const char *const graph_words[] = {"Launch", "Instantiate", "ExecUpdate", "ExecKernel",
                                              "ExecNode"};
    bool graph = !strncmp(base, "cuGraph", 7);
    const char *const *list = graph ? graph_words : words;
    unsigned count = graph ? sizeof graph_words / sizeof *words : sizeof words / sizeof *words;
    for (unsigned i = 0; i < count; i++)
        if (strstr(base, list[i]))
            return true;
    return false;
}

static bool is_left(const char *base)
{
    for (unsigned i = 0; i < sizeof left / sizeof *left; i++)
        if (!strcmp(base, left[i]))
            return true;
    return false;
}

/* ---- what it holds -----------------------------------------------------------------------------
 */

static void look_at(void *address)
{
    Dl_info info;
    if ((uintptr_t)address < 4096 || !dladdr(address, &info) || info.dli_saddr != address)
        return;
    bool mine = info.dli_fbase == ours;
    if (!mine && info.dli_fbase != driver)
        return;
    for (unsigned i = 0; i < real_row_count; i++)
        if (real_rows[i].hooked && !strcmp(real_rows[i].symbol, info.dli_sname)) {
            held[i] += mine;
            strangers += !mine;
            if (!mine)
                fprintf(stderr, "the driver's own %s is held\n", info.dli_sname);
        }
}

/* The words of a library's writable segments. */
static int look_through(struct dl_phdr_info *info, size_t size, void *base)
{
    (void)size;
    for (int k = 0; (void *)info->dlpi_addr == base && k < info->dlpi_phnum; k++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[k];
        void **words = (void **)(info->dlpi_addr + p->p_vaddr);
        for (size_t i = 0; p->p_type == PT_LOAD && (p->p_flags & PF_W) && i < p->p_memsz / 8; i++)
            look_at(words[i]);
    }
    return 0;
}

static void *base_of(void *address)
{
    Dl_info info;
    return address && dladdr(address, &info) ? info.dli_fbase : NULL;
}

/* ---- a library ---------------------------------------------------------------------------------
 */

/* A launch through what the library was given enters the driver's function of that form, once. */
static void launch_through(const char *symbol, const char *expected, const char *(*calls)(void),
                           void (*forget)(void))
{
    CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       unsigned, CUstream, void **, void **);
    void *self = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD);
    *(void **)&launch = self ? dlsym(self, symbol) : NULL;
    if (!CHECK(base_of((void *)launch) == ours))
        return;
    forget();
    CHECK(!launch((CUfunction)8, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    CHECK(!strcmp(calls(), expected));
}

static void start(const char *path)
{
    static void *place[8];
    int (*begin)(void *) = NULL;
    static const char *const ways[] = {"begin", "cudaGetDeviceCount", "nvjpegCreateSimple"};
    void *library = dlopen(path, RTLD_NOW);
    for (unsigned i = 0; library && !begin && i < 3; i++)
        *(void **)&begin = dlsym(library, ways[i]);
    if (!CHECK(begin != NULL)) {
        fprintf(stderr, "%s: %s\n", path, dlerror());
        exit(test_result());
    }
    begin(place); /* which fails: see above */
    driver = base_of(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "fake_calls"));
    void *self = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD);
    ours = base_of(self ? dlsym(self, "dlsym") : NULL);
    held = calloc(real_row_count, sizeof *held);
    if (!CHECK(ours && driver && ours != driver && held))
        exit(test_result());
    dl_iterate_phdr(look_through, base_of((void *)begin));
}

static int check(const char *path, bool table)
{
    const char *(*calls)(void);
    void (*forget)(void);
    unsigned hooked = 0, launches = 0;
    start(path);
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    *(void **)&calls = dlsym(handle, "fake_calls");
    *(void **)&forget = dlsym(handle, "fake_forget");
    read_requests(calls());
    for (unsigned i = 0; i < request_count; i++) {
        bool known, hooks;
        int row = row_of(&requests[i], &known, &hooks);
        if (!CHECK(row >= 0 || !hooks) ||
            !CHECK(known || !of_launches_or_code(requests[i].base) || is_left(requests[i].base)))
            fprintf(stderr, "asked for: %s %d, flags %u\n", requests[i].base, requests[i].version,
                    requests[i].flags);
        if (row < 0 || !real_rows[row].hooked)
            continue;
        hooked++;
        if (table)
            printf("    %s %d, flags %u: %s\n", requests[i].base, requests[i].version,
                   requests[i].flags, real_rows[row].symbol);
        launches += !strncmp(requests[i].base, "cuLaunch", 8);
        if (!CHECK(held[row] > 0))
            fprintf(stderr, "not held: our %s\n", real_rows[row].symbol);
    }
    for (unsigned i = 0; i < sizeof by_dlsym / sizeof *by_dlsym; i++)
        if (!CHECK(base_of(dlsym(handle, by_dlsym[i])) == ours))
            fprintf(stderr, "not ours by dlsym: %s\n", by_dlsym[i]);
    CHECK(strangers == 0);
    CHECK(launches >= 4); /* two entries in two stream forms; an empty log shows here */
    launch_through("cuLaunchKernel", "cuLaunchKernel (nil)\n", calls, forget);
    launch_through("cuLaunchKernel_ptsz", "cuLaunchKernel_ptsz\n", calls, forget);
    const char *name = strrchr(path, '/');
    printf("%-18s %s: %3u requests, %2u of them hooked, all held by it; %u of launches\n",
           name ? name + 1 : path, getenv("LD_AUDIT") ? "audit" : "preload", request_count, hooked,
           launches);
    return test_result();
}

/* In a process of its own, with our library preloaded or brought by the auditor alone. */
static void started(const char *how, char *path, bool audit)
{
    pid_t pid = fork();
    if (!pid) {
        child_environment(PRELOAD, FAKE);
        if (audit) {
            unsetenv("LD_PRELOAD");
            setenv("LD_AUDIT", BUILD_DIR "/libkgenrt_audit.so", 1);
            setenv("GLIBC_TUNABLES", AUDIT_TUNABLE, 1);
        }
        execl("/proc/self/exe", "lookups", how, path, NULL);
        _exit(126);
    }
    if (!CHECK(child_status(pid) == 0))
        fprintf(stderr, "%s, %s\n", path, audit ? "with LD_AUDIT" : "with LD_PRELOAD");
}

int main(int argc, char **argv)
{
    if (!PRELOADABLE)
        SKIP("a library instrumented for threads cannot be preloaded");
    if (argc == 3 && !strncmp(argv[1], "--one", 5))
        return check(argv[2], !strcmp(argv[1], "--one-table"));
    bool table = argc > 1 && !strcmp(argv[1], "--table"), can_audit = !*PRELOAD_FIRST;
    if (!CHECK(argc > 1 + table))
        return test_result();
    fresh_cache();
    for (int i = 1 + table; i < argc; i++)
        started(table ? "--one-table" : "--one", argv[i], false);
    for (int i = 1 + table; i < argc && can_audit && !table; i++)
        started("--one", argv[i], true);
    remove_cache();
    return test_result();
}
