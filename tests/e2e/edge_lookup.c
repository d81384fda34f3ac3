/* The ways a program finds the driver's functions, under the preload, against a driver that logs
 * and answers: which requests get our functions, and which the driver's own. And all of it with the
 * auditor beside the preload. */
#include <dlfcn.h>

#include "gpu/real.h"

#include "../../interpose/audit/tunable.h"
#include "edge_child.h"

static void *driver;
static const char *(*calls)(void);
static void (*forget)(void);

static void open_driver(void)
{
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!CHECK(driver != NULL))
        exit(test_result());
    *(void **)&calls = dlsym(driver, "fake_calls");
    *(void **)&forget = dlsym(driver, "fake_forget");
    CHECK(calls && forget);
}

/* 'k' ours, 'd' the driver's, 'o' another library's, '0' none. */
static char whose(void *address)
{
    Dl_info info;
    if (!address)
        return '0';
    if (!dladdr(address, &info) || !info.dli_fname)
        return '?';
    return strstr(info.dli_fname, "libkgenrt") ? 'k'
           : strstr(info.dli_fname, "libcuda") ? 'd'
                                               : 'o';
}

/* The name under which an address is exported. */
static bool named(void *address, const char *name)
{
    Dl_info info;
    return address && dladdr(address, &info) && info.dli_sname && !strcmp(info.dli_sname, name);
}

/* ---- dlsym -------------------------------------------------------------------------------------
 */

static void exact_names(void)
{
    open_driver();
    for (unsigned i = 0; i < real_row_count; i++)
        if (!CHECK(whose(dlsym(driver, real_rows[i].symbol)) == (real_rows[i].hooked ? 'k' : 'd')))
            fprintf(stderr, "%s\n", real_rows[i].symbol);
    CHECK(named(dlsym(driver, "cuLaunchKernel_ptsz"), "cuLaunchKernel_ptsz"));
    CHECK(!dlsym(driver, "cuLaunchKernelX"));
    const char *error = dlerror();
    CHECK(error && strstr(error, "cuLaunchKernelX"));
    CHECK(!dlsym(driver, "cublasCreate_v2") && !dlsym(driver, "cuda") && !dlsym(driver, ""));
    CHECK(whose(dlsym(RTLD_DEFAULT, "printf")) == 'o');
}

/* Without a driver in the process nobody is told that there is one. */
static void no_driver_yet(void)
{
    CHECK(!dlsym(RTLD_DEFAULT, "cuInit"));
    CHECK(dlerror() != NULL);
    CHECK(!dlsym(RTLD_NEXT, "cuInit"));
    void *self = dlopen(NULL, RTLD_NOW);
    CHECK(self && !dlsym(self, "cuGetProcAddress_v2"));
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    CHECK(whose(dlsym(RTLD_DEFAULT, "cuInit")) == 'k');
    CHECK(whose(dlsym(self, "cuInit")) == 'k');
    CHECK(whose(dlsym(RTLD_DEFAULT, "cuDeviceGet")) == 'd');
}

/* A driver that lacks an entry is not said to have it. */
static void old_driver(void)
{
    open_driver();
    CHECK(!dlsym(driver, "cuGetProcAddress_v2"));
    CHECK(!dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2"));
    CUresult (*ask)(const char *, void **, int, cuuint64_t);
    *(void **)&ask = dlsym(driver, "cuGetProcAddress");
    CHECK(whose((void *)ask) == 'k');
    void *found = NULL;
    CHECK(ask("cuGetProcAddress", &found, 11030, 0) == CUDA_SUCCESS && found == (void *)ask);
    CHECK(ask("cuGetProcAddress", &found, 12000, 0) == CUDA_SUCCESS && found == (void *)ask);
    CHECK(ask("cuLaunchKernel", &found, 11080, 2) == CUDA_SUCCESS);
    CHECK(named(found, "cuLaunchKernel_ptsz") && whose(found) == 'k');
    CHECK(ask("cuLaunchKernel", NULL, 11080, 0) == CUDA_SUCCESS);
}

/* ---- RTLD_NEXT ---------------------------------------------------------------------------------
 */

static void next_users(void)
{
    void *library = dlopen(FAKE "/libnext.so", RTLD_NOW | RTLD_GLOBAL);
    void *(*start_tool)(void), *(*next_init)(void);
    if (!CHECK(library != NULL))
        return;
    *(void **)&start_tool = dlsym(library, "start_tool");
    *(void **)&next_init = dlsym(library, "next_init");
    CHECK(!start_tool()); /* itself, if the hook's own frame were the caller */
    CHECK(!next_init());
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    CHECK(!start_tool());
}

/* What a driver looks up for itself is its own. */
static void own_look_ups(void)
{
    void *(*own)(void *, const char *);
    open_driver();
    *(void **)&own = dlsym(driver, "fake_own");
    CHECK(whose(own(driver, "cuInit")) == 'd' && whose(own(driver, "cuLaunchKernel")) == 'd');
    CHECK(whose(dlsym(driver, "cuInit")) == 'k');
}

/* Another interposer of the launch, before us or behind us: each is entered once, and the driver.
 */
static void wrapped(void)
{
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **);
    void *self = dlopen(FAKE "/libwrap.so", RTLD_NOW | RTLD_NOLOAD);
    int *count = self ? dlsym(self, "wrapped_launches") : NULL;
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    *(void **)&calls = dlsym(driver, "fake_calls");
    *(void **)&launch = self ? dlsym(self, "cuLaunchKernel") : NULL;
    if (!CHECK(count && calls && launch))
        return;
    CHECK(launch((void *)1, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == CUDA_SUCCESS);
    CHECK(*count == 1 && !strcmp(calls(), "cuLaunchKernel (nil)\n"));
}

/* ---- cuGetProcAddress --------------------------------------------------------------------------
 */

static CUresult (*ask_v2)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static void *asked(const char *base, int version, cuuint64_t flags)
{
    void *found = NULL;
    return ask_v2(base, &found, version, flags, NULL) == CUDA_SUCCESS ? found : NULL;
}

static bool is_hook(void *address, const char *symbol)
{
    return whose(address) == 'k' && named(address, symbol);
}

static void versions(void)
{
    open_driver();
    *(void **)&ask_v2 = dlsym(driver, "cuGetProcAddress_v2");
    CHECK(asked("cuGetProcAddress", 12000, 0) == (void *)ask_v2);
    CHECK(asked("cuGetProcAddress", 13000, 0) == (void *)ask_v2);
    CHECK(is_hook(asked("cuGetProcAddress", 11030, 0), "cuGetProcAddress"));
    CHECK(is_hook(asked("cuGetProcAddress", 11080, 2), "cuGetProcAddress"));
    CHECK(is_hook(asked("cuLaunchKernel", 4000, 0), "cuLaunchKernel"));
    CHECK(is_hook(asked("cuLaunchKernel", 13000, 1), "cuLaunchKernel"));
    CHECK(is_hook(asked("cuLaunchKernel", 7000, 2), "cuLaunchKernel_ptsz"));
    CHECK(is_hook(asked("cuLaunchKernelEx", 11060, 2), "cuLaunchKernelEx_ptsz"));
    CHECK(is_hook(asked("cuCtxCreate", 3020, 0), "cuCtxCreate_v2"));
    CHECK(is_hook(asked("cuCtxCreate", 11040, 0), "cuCtxCreate_v3"));
    CHECK(is_hook(asked("cuCtxCreate", 13000, 0), "cuCtxCreate_v4"));
    CHECK(is_hook(asked("cuCtxSynchronize", 12090, 0), "cuCtxSynchronize"));
    CHECK(is_hook(asked("cuCtxSynchronize", 13000, 0), "cuCtxSynchronize_v2"));
    CHECK(is_hook(asked("cuMemAlloc", 3020, 0), "cuMemAlloc_v2"));
    CHECK(whose(asked("cuMemFree", 3020, 0)) == 'd');
    CHECK(is_hook(asked("cuLaunchCooperativeKernel", 9000, 2), "cuLaunchCooperativeKernel_ptsz"));
    CHECK(whose(asked("cuLaunchHostFunc", 10000, 2)) == 'd');
    CHECK(is_hook(asked("cuGraphInstantiate", 11000, 0), "cuGraphInstantiate_v2"));
    CHECK(is_hook(asked("cuGraphInstantiate", 13000, 0), "cuGraphInstantiateWithFlags"));
    CHECK(whose(asked("cuCtxCreate", 14000, 0)) ==
          'd'); /* newer than our table: not ours to call */
    CHECK(!asked("cuLaunchKernel", 3000, 0) && !asked("cuNothing", 13000, 0));
}

static void odd_requests(void)
{
    open_driver();
    *(void **)&ask_v2 = dlsym(driver, "cuGetProcAddress_v2");
    CUdriverProcAddressQueryResult status = 77;
    void *found = (void *)1;
    CHECK(ask_v2("", &found, 0, 0, NULL) == CUDA_ERROR_NOT_FOUND && !found);
    CHECK(ask_v2("cuLaunchKernel", NULL, 12000, 0, NULL) == CUDA_SUCCESS);
    CHECK(ask_v2("cuLaunchKernel", NULL, 12000, 0, &status) == CUDA_SUCCESS && status == 0);
    CHECK(ask_v2(NULL, &found, 12000, 0, &status) == CUDA_ERROR_INVALID_VALUE);
    CUresult (*load)(CUmodule *, const char *); /* given out at another address than exported */
    *(void **)&load = asked("cuModuleLoad", 13000, 0);
    CUmodule module;
    forget();
    CHECK(is_hook((void *)load, "cuModuleLoad") && load(&module, "x") == CUDA_SUCCESS);
    CHECK(!strcmp(calls(), "cuModuleLoad\n"));
}

/* ---- the whole way -----------------------------------------------------------------------------
 */

static void streams(void)
{
    open_driver();
    *(void **)&ask_v2 = dlsym(driver, "cuGetProcAddress_v2");
    CUresult (*launch[2])(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, CUstream, void **, void **);
    *(void **)&launch[0] = asked("cuLaunchKernel", 13000, 0);
    *(void **)&launch[1] = asked("cuLaunchKernel", 13000, 2);
    static const char *const expected[] = {"cuLaunchKernel (nil)\n", "cuLaunchKernel_ptsz\n"};
    for (int i = 0; i < 2; i++) {
        forget();
        CHECK(!launch[i]((CUfunction)8, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
        CHECK(!strcmp(calls(), expected[i])); /* just the call that was made, and no other */
    }
}

/* The child of a fork goes on without us. */
static void forked(void)
{
    open_driver();
    CUresult (*init)(unsigned);
    *(void **)&init = dlsym(driver, "cuInit");
    CHECK(init(0) == CUDA_SUCCESS);
    pid_t pid = fork();
    if (!pid)
        _exit(whose(dlsym(driver, "cuInit")) == 'k' && init(0) == CUDA_SUCCESS ? 0 : 1);
    CHECK(child_status(pid) == 0);
}

int main(int argc, char **argv)
{
    const struct scenario list[] = {
        {"exact-names", exact_names, PRELOAD, FAKE},
        {"no-driver-yet", no_driver_yet, PRELOAD, FAKE},
        {"old-driver", old_driver, PRELOAD, FAKE "/old"},
        {"next-users", next_users, PRELOAD, FAKE},
        {"own-look-ups", own_look_ups, PRELOAD, FAKE},
        {"wrapped-before", wrapped, FAKE "/libwrap.so " PRELOAD, FAKE},
        {"wrapped-behind", wrapped, PRELOAD " " FAKE "/libwrap.so", FAKE},
        {"versions", versions, PRELOAD, FAKE},
        {"odd-requests", odd_requests, PRELOAD, FAKE},
        {"streams", streams, PRELOAD, FAKE},
        {"forked", forked, PRELOAD, FAKE},
    };
    int result = scenarios_run(argc, argv, list, sizeof list / sizeof *list);
    if (argc > 1 || result)
        return result;
    fprintf(stderr, "-- and with LD_AUDIT\n");
    CHECK(!access(BUILD_DIR "/libkgenrt_audit.so", R_OK)); /* one that is missing is passed over */
    setenv("LD_AUDIT", BUILD_DIR "/libkgenrt_audit.so", 1);
    setenv("GLIBC_TUNABLES", AUDIT_TUNABLE, 1);
    return scenarios_run(argc, argv, list, sizeof list / sizeof *list);
}
