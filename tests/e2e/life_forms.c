/* What a program may do with modules, contexts, devices and libraries while variants are in use:
 * take them away, with launches under way, and make others, which get the same handles. Each
 * launch's result is right, and either the variant ran (adding_variant.h: each launch tells) or
 * `status` counts why not. Runs on the software GPU, or with the argument "gpu" on the machine's.
 */
#define E2E_OWN_PROGRAM 1
#include "adding_variant.h"

#include <dlfcn.h>
#include <pthread.h>

static bool swaps;

static const char equal[] =
    BODY("fast", ", .param .u64 c", "ld.param.u64 %d6, [c]; ld.global.f32 %f3, [%d6];\n", "");

/* The same name and parameters, another kernel: nobody made a variant of it. */
static const char other[] =
    BODY("work", "", "ld.const.f32 %f3, [coefficient];\n", "add.f32 %f4, %f4, 0f40E00000;\n");

static float two = 2;
static unsigned count = COUNT;
static void *params[] = {&in, &out, &two, &count};

static CUresult launch(CUfunction function, CUstream stream)
{
    return real.cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, stream, params, NULL);
}

/* c: what is added; 1 by the original. */
static char added(float c)
{
    char which = ran(out, 2, c);
    WELL(real.cuMemsetD32_v2(out, 0, COUNT));
    return which;
}

static void expect(const char *what, char now, char wanted)
{
    char right = wanted == 'v' && !swaps ? 'o' : wanted;
    if (!CHECK(now == right))
        fprintf(stderr, "%s: '%c' ran instead of '%c'\n", what, now, right);
}

static CUcontext primary(void)
{
    CUcontext context;
    WELL(real.cuDevicePrimaryCtxRetain(&context, 0));
    WELL(real.cuCtxSetCurrent(context));
    return context;
}

static void begin(void)
{
    WELL(real_open(NULL));
    WELL(real.cuInit(0));
    primary();
}

static void buffers(void)
{
    WELL(real.cuMemAlloc_v2(&in, BYTES));
    WELL(real.cuMemAlloc_v2(&out, BYTES));
    fill();
}

/* ---- modules -----------------------------------------------------------------------------------
 */

enum { ROUNDS = 24, MOST_ROUNDS = 400, FLIGHT = 16 };

/* Launches are under way when the module goes. */
static void unloading(void)
{
    CUstream streams[2];
    CUfunction seen[MOST_ROUNDS];
    CUdeviceptr aside; /* the second stream's output */
    void *params_aside[] = {&in, &aside, &two, &count};
    int again = 0;
    begin();
    buffers();
    WELL(real.cuMemAlloc_v2(&aside, BYTES));
    for (int i = 0; i < 2; i++)
        WELL(real.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    /* as often as it takes until a handle comes back, but where a sanitizer keeps freed memory back
     * (and where a driver does, nobody knows) */
    bool comes_back = !e2e_gpu && !*PRELOAD_FIRST;
    for (int i = 0; i < ROUNDS || (comes_back && !again && i < MOST_ROUNDS); i++) {
        bool its = i % 3 != 2;
        CUmodule module;
        WELL(real.cuModuleLoadData(&module, its ? original : other));
        WELL(real.cuModuleGetFunction(&seen[i], module, "work"));
        for (int k = 0; k < i; k++)
            again += seen[k] == seen[i];
        for (int k = 0; k < FLIGHT; k++)
            WELL(real.cuLaunchKernel(seen[i], 4, 1, 1, 256, 1, 1, 0, streams[k % 2],
                                     k % 2 ? params_aside : params, NULL));
        WELL(real.cuModuleUnload(module));
        expect(e2e_text("module %d", i), added(its ? 1 : 8), its ? 'v' : 'o');
    }
    CHECK(!comes_back || again);
    for (int i = 0; i < 2; i++)
        WELL(real.cuStreamDestroy_v2(streams[i]));
}

static void libraries(void)
{
    begin();
    buffers();
    for (int i = 0; i < ROUNDS; i++) {
        bool its = i % 3 != 2;
        CUlibrary library;
        CUkernel kernel;
        CUfunction function;
        WELL(
            real.cuLibraryLoadData(&library, its ? original : other, NULL, NULL, 0, NULL, NULL, 0));
        WELL(real.cuLibraryGetKernel(&kernel, library, "work"));
        WELL(real.cuKernelGetFunction(&function, kernel));
        for (int k = 0; k < FLIGHT; k++)
            WELL(launch(k % 2 ? function : (CUfunction)(void *)kernel, NULL));
        WELL(real.cuLibraryUnload(library));
        expect(e2e_text("library %d", i), added(its ? 1 : 8), its ? 'v' : 'o');
    }
}

/* ---- contexts ----------------------------------------------------------------------------------
 */

/* Launches until the variant runs: it is loaded at a safe point of the program's own. */
static char eventually(CUfunction function)
{
    char now = '?';
    for (double end = e2e_now() + 60; e2e_now() < end;) {
        WELL(launch(function, NULL));
        now = added(1);
        if (now != 'o' || !swaps)
            return now;
        usleep(20000);
    }
    return now;
}

/* A library's kernel is one handle for all contexts, and gets its variants in each. */
static void library_kernel(CUkernel kernel, CUcontext other)
{
    CUcontext popped;
    CUfunction function = (CUfunction)(void *)kernel;
    CUdeviceptr kept[] = {in, out};
    WELL(real.cuCtxPushCurrent_v2(other));
    buffers();
    expect("a library's kernel in another context", eventually(function), 'v');
    WELL(real.cuKernelGetFunction(&function, kernel));
    WELL(launch(function, NULL));
    expect("its function there", added(1), 'v');
    WELL(real.cuCtxPopCurrent_v2(&popped));
    in = kept[0];
    out = kept[1];
    expect("a library's kernel in the first context", eventually((CUfunction)(void *)kernel), 'v');
}

static void contexts(void)
{
    CUlibrary library;
    CUkernel kernel;
    CUcontext first, second, popped;
    CUmodule here, there;
    CUfunction work_here, work_there;
    begin();
    WELL(real.cuCtxGetCurrent(&first));
    buffers();
    WELL(real.cuModuleLoadData(&here, original));
    WELL(real.cuModuleGetFunction(&work_here, here, "work"));
    WELL(launch(work_here, NULL));
    expect("the first context", added(1), 'v');
    WELL(real.cuLibraryLoadData(&library, original, NULL, NULL, 0, NULL, NULL, 0));
    WELL(real.cuLibraryGetKernel(&kernel, library, "work"));
    for (int i = 0; i < 4; i++) {
        WELL(real.cuCtxCreate_v2(&second, 0, 0)); /* current now, over the first */
        WELL(real.cuModuleLoadData(&there, i == 2 ? other : original));
        WELL(real.cuModuleGetFunction(&work_there, there, "work"));
        WELL(launch(work_there, NULL));
        expect("another context", added(i == 2 ? 8 : 1), i == 2 ? 'o' : 'v');
        WELL(real.cuCtxPushCurrent_v2(first));
        WELL(launch(work_here, NULL));
        expect("the first one again", added(1), 'v');
        CHECK(launch(work_there, NULL) != CUDA_SUCCESS); /* not of this context */
        library_kernel(kernel, second);
        WELL(real.cuCtxPopCurrent_v2(&popped));
        for (int k = 0; k < FLIGHT; k++) {
            WELL(launch(work_there, NULL));
            WELL(launch((CUfunction)(void *)kernel, NULL));
        }
        WELL(real.cuCtxDestroy_v2(second));
        WELL(real.cuCtxSetCurrent(first));
        expect("a context that went with launches under way", added(1), 'v');
        WELL(launch(work_here, NULL));
        expect("the first one after that", added(1), 'v');
    }
}

/* In a thread, whose checks the main thread makes: returns what went wrong. */
#define NEED(call)                                                                                 \
    do {                                                                                           \
        if ((call) != CUDA_SUCCESS)                                                                \
            return #call;                                                                          \
    } while (0)

/* One of several threads: contexts of its own, one after the other, in which it launches the
 * library's kernel until the variant runs, and which it destroys with launches under way. */
static void *thread_main(void *handle)
{
    CUfunction function = handle;
    static float numbers[COUNT];
    float got[COUNT];
    for (int round = 0; round < 3; round++) {
        CUcontext context;
        CUdeviceptr from, to;
        float one = -1;
        void *given[] = {&from, &to, &two, &count};
        NEED(real.cuCtxCreate_v2(&context, 0, 0));
        NEED(real.cuMemAlloc_v2(&from, BYTES));
        NEED(real.cuMemAlloc_v2(&to, BYTES));
        NEED(real.cuMemcpyHtoD_v2(from, numbers, BYTES)); /* all zero */
        for (double end = e2e_now() + 60; e2e_now() < end && one != 101;) {
            NEED(real.cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, NULL, given, NULL));
            NEED(real.cuCtxSynchronize());
            NEED(real.cuMemcpyDtoH_v2(got, to, BYTES));
            one = got[0];
            for (int i = 0; i < COUNT; i++)
                if (got[i] != one || (one != 1 && one != 101))
                    return "another number";
            if (!swaps)
                break;
            usleep(5000);
        }
        if (one != (swaps ? 101 : 1))
            return "the variant never ran";
        for (int k = 0; k < FLIGHT; k++)
            NEED(real.cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, NULL, given, NULL));
        NEED(real.cuCtxDestroy_v2(context));
    }
    return NULL;
}

static void threads(void)
{
    enum { THREADS = 4 };
    pthread_t made[THREADS];
    CUlibrary library;
    CUkernel kernel;
    begin();
    buffers();
    WELL(real.cuLibraryLoadData(&library, original, NULL, NULL, 0, NULL, NULL, 0));
    WELL(real.cuLibraryGetKernel(&kernel, library, "work"));
    WELL(launch((CUfunction)(void *)kernel, NULL));
    expect("the first thread's", added(1), 'v');
    for (int i = 0; i < THREADS; i++)
        WELL(pthread_create(&made[i], NULL, thread_main, kernel));
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        WELL(pthread_join(made[i], &wrong));
        if (!CHECK(!wrong))
            fprintf(stderr, "thread %d: %s\n", i, (const char *)wrong);
    }
    expect("the first thread's after them", eventually((CUfunction)(void *)kernel), 'v');
    WELL(real.cuLibraryUnload(library));
}

/* A library and its kernel live on when the primary context is reset, a module does not. */
static void reset(void)
{
    CUlibrary library;
    CUkernel kernel;
    CUmodule module;
    begin();
    buffers();
    WELL(real.cuLibraryLoadData(&library, original, NULL, NULL, 0, NULL, NULL, 0));
    WELL(real.cuLibraryGetKernel(&kernel, library, "work"));
    for (int i = 0; i < 3; i++) {
        WELL(real.cuModuleLoadData(&module, i % 2 ? other : original));
        WELL(real.cuModuleGetFunction(&work, module, "work"));
        WELL(launch(work, NULL));
        expect("a module's", added(i % 2 ? 8 : 1), i % 2 ? 'o' : 'v');
        expect("a library's", eventually((CUfunction)(void *)kernel), 'v');
        for (int k = 0; k < FLIGHT; k++)
            WELL(launch((CUfunction)(void *)kernel, NULL));
        if (i == 1) { /* the last release ends it, too */
            WELL(real.cuDevicePrimaryCtxRelease_v2(0));
        } else {
            WELL(real.cuDevicePrimaryCtxReset_v2(0));
        }
        primary();
        buffers();
    }
    WELL(real.cuLibraryUnload(library));
}

/* ---- devices -----------------------------------------------------------------------------------
 */

static void on_devices(char second_runs)
{
    CUcontext first, second;
    CUmodule modules[2];
    CUfunction functions[2];
    CUlibrary library;
    CUkernel kernel;
    CUdeviceptr kept[2];
    begin();
    WELL(real.cuCtxGetCurrent(&first));
    buffers();
    WELL(real.cuModuleLoadData(&modules[0], original));
    WELL(real.cuModuleGetFunction(&functions[0], modules[0], "work"));
    WELL(real.cuLibraryLoadData(&library, original, NULL, NULL, 0, NULL, NULL, 0));
    WELL(real.cuLibraryGetKernel(&kernel, library, "work"));
    WELL(launch(functions[0], NULL));
    expect("the first device", added(1), 'v');
    kept[0] = in;
    kept[1] = out;
    WELL(real.cuDevicePrimaryCtxRetain(&second, 1));
    WELL(real.cuCtxPushCurrent_v2(second));
    buffers();
    WELL(real.cuModuleLoadData(&modules[1], original));
    WELL(real.cuModuleGetFunction(&functions[1], modules[1], "work"));
    WELL(launch(functions[1], NULL));
    expect("the second device", added(1), second_runs);
    WELL(launch((CUfunction)(void *)kernel, NULL));
    expect("a library's kernel on the second device", added(1), 'o');
    if (second_runs == 'v')
        expect("the same, later", eventually((CUfunction)(void *)kernel), 'v');
    WELL(real.cuCtxPopCurrent_v2(&second));
    in = kept[0];
    out = kept[1];
    WELL(launch(functions[0], NULL));
    expect("the first device again", added(1), 'v');
    WELL(launch((CUfunction)(void *)kernel, NULL));
    expect("a library's kernel on the first device", added(1), 'v');
}

static void alike(void)
{
    on_devices('v');
}

static void unlike(void)
{
    on_devices('o');
}

/* ---- dlclose -----------------------------------------------------------------------------------
 */

/* A program that opens the driver, works, and closes it; the code comes from memory that goes. */
static void closed(void)
{
    for (int round = 0; round < 3; round++) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!CHECK(driver != NULL))
            return;
#define GET(name) __typeof__(real.name) name##_ = (__typeof__(real.name))dlsym(driver, #name)
        GET(cuInit);
        GET(cuDevicePrimaryCtxRetain);
        GET(cuDevicePrimaryCtxRelease_v2);
        GET(cuCtxSetCurrent);
        GET(cuModuleLoadData);
        GET(cuModuleGetFunction);
        GET(cuModuleUnload);
        GET(cuLaunchKernel);
#undef GET
        CUcontext context;
        CUmodule module;
        char *text = strdup(round == 1 ? other : original);
        WELL(cuInit_(0));
        WELL(cuDevicePrimaryCtxRetain_(&context, 0));
        WELL(cuCtxSetCurrent_(context));
        WELL(real_open(NULL));
        buffers();
        WELL(cuModuleLoadData_(&module, text));
        memset(text, 'x', strlen(text));
        free(text);
        WELL(cuModuleGetFunction_(&work, module, "work"));
        for (int i = 0; i < FLIGHT; i++)
            WELL(cuLaunchKernel_(work, 4, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
        expect(e2e_text("opened %d times", round + 1), added(round == 1 ? 8 : 1),
               round == 1 ? 'o' : 'v');
        WELL(cuModuleUnload_(module));
        WELL(cuDevicePrimaryCtxRelease_v2_(0));
        WELL(dlclose(driver));
    }
}

/* ---- all of them -------------------------------------------------------------------------------
 */

static const struct form {
    const char *name, *devices;
    void (*run)(void);
    const char *key; /* of refusals that `status` counts */
    int refused;
    const char *note;
} forms[] = {
    {"unloading", "1", unloading, NULL, 0, NULL},
    {"libraries", "1", libraries, NULL, 0, NULL},
    {"contexts", "1", contexts, NULL, 0, NULL},
    {"threads", "1", threads, NULL, 0, NULL},
    {"reset", "1", reset, NULL, 0, NULL},
    {"alike", "2", alike, NULL, 0, NULL},
    {"unlike", "standard,t4", unlike, NULL, 0, "several kinds of devices"},
    {"closed", "1", closed, NULL, 0, NULL},
};

static int sum_of(const json_t *process, const char *key)
{
    json_t *kernel;
    size_t i;
    int sum = 0;
    json_array_foreach(json_object_get(process, "kernels"), i, kernel)
    {
        const json_t *refused = json_object_get(json_object_get(kernel, "refused"), key);
        sum += (int)json_integer_value(refused ? refused : json_object_get(kernel, key));
    }
    return sum;
}

static void one(const struct form *form)
{
    const char *gpu = e2e_gpu ? "gpu" : "soft";
    const char *const alone[] = {"/proc/self/exe", "program", form->name, "plain", gpu, NULL};
    const char *const with[] = {"/proc/self/exe", "program", form->name, "swapped", gpu, NULL};
    const char *devices = e2e_text("SOFTGPU_DEVICES=%s", form->devices);
    if (!CHECK(e2e_run(alone, (const char *[]){devices, NULL}, 100) == 0))
        fprintf(stderr, "%s alone: %s\n", form->name, e2e_output);
    WELL(system(e2e_text("rm -rf '%s/flight'", e2e_cache)));
    if (!CHECK(e2e_run(with, (const char *[]){e2e_preload(), "KGENRT_MODE=cached", devices, NULL},
                       100) == 0)) {
        fprintf(stderr, "%s:\n", form->name);
        e2e_show_log();
    }
    json_t *status = e2e_json("status", NULL);
    json_t *process = json_array_get(json_object_get(status, "processes"), 0);
    bool said = CHECK(sum_of(process, "swapped") > 0) && CHECK(!sum_of(process, "error"));
    if (form->key)
        said &= CHECK(sum_of(process, form->key) == form->refused);
    if (form->note)
        said &= CHECK(strstr(e2e_output, form->note));
    if (!said)
        fprintf(stderr, "%s: %s\n", form->name, e2e_output);
    fprintf(stderr, "%s: %d launches ran the variant\n", form->name, sum_of(process, "swapped"));
    json_decref(status);
}

/* Runs the form again and again under mode tune; how many of its launches were checked. */
static int run_watched(const struct form *form, const char *seconds)
{
    const char *devices = e2e_text("SOFTGPU_DEVICES=%s", form->devices);
    const char *const command[] = {"/proc/self/exe",         "program", form->name, "plain",
                                   e2e_gpu ? "gpu" : "soft", seconds,   NULL};
    const char *const with[] = {e2e_preload(),
                                "KGENRT_MODE=tune",
                                "KGENRT_SHADOW_EVERY=2",
                                "KGENRT_HOT_LAUNCHES=1",
                                "KGENRT_HOT_SHARE=0",
                                devices,
                                NULL};
    int checked = 0;
    WELL(system(e2e_text("rm -rf '%s/flight'", e2e_cache)));
    int status = e2e_run(command, with, 200);
    if (!CHECK(status == 0)) {
        fprintf(stderr, "%s, watched: exit status %d\n", form->name, status);
        e2e_show_log();
    }
    json_t *json = e2e_json("status", NULL), *kernel, *one;
    json_t *process = json_array_get(json_object_get(json, "processes"), 0);
    size_t k, v;
    json_array_foreach(json_object_get(process, "kernels"), k, kernel)
    {
        json_array_foreach(json_object_get(kernel, "variants"), v, one)
        {
            checked += (int)json_integer_value(json_object_get(one, "checked"));
            CHECK(!json_integer_value(json_object_get(one, "differed")));
        }
    }
    json_decref(json);
    return checked;
}

/* With a variant that is equal, while it is checked and timed beside the original and launches are
 * captured: what goes under the program's hands goes under these, too. */
static void watched(void)
{
    int checked = 0;
    unsetenv("KGENRT_SHADOW_MIB");
    setenv("KGENRT_LIVE_PAIRS", "512", 1);
    e2e_fresh_cache();
    CHECK(e2e_run((const char *[]){"/proc/self/exe", "equal", NULL}, NULL, 60) == 0);
    for (int seconds = 1; !checked && seconds < 60; seconds *= 4)
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
            if (!strcmp(forms[i].devices, "1"))
                checked += run_watched(&forms[i], e2e_text("%d", seconds));
    fprintf(stderr, "watched: %d launches were checked\n", checked);
    CHECK(checked > 0);
    e2e_remove_cache();
}

/* forms/closing.c: a program without any code of ours, whose library loads the code and goes. */
static inline void closing(void)
{
    const char *program = e2e_text("%s/closing", e2e_cache),
               *plugin = e2e_text("%s/plugin.so", e2e_cache),
               *image = e2e_text("%s/work.ptx", e2e_cache);
    const char *build =
        e2e_text("gcc -I'%s/include' -I'%s/targets/x86_64-linux/include' "
                 "'%s/tests/e2e/forms/closing.c' -ldl -o",
                 e2e_place("CUDA_ROOT", CUDA_ROOT), e2e_place("CUDA_ROOT", CUDA_ROOT), E2E_SOURCE);
    FILE *file = fopen(image, "w");
    if (!CHECK(file != NULL))
        return;
    fputs(original, file);
    WELL(fclose(file));
    WELL(system(e2e_text("%s '%s'", build, program)));
    WELL(system(e2e_text("%s '%s' -DPLUGIN -shared -fPIC", build, plugin)));
    static const struct {
        const char *mode, *out;
    } runs[] = {{"off", "oooooo\n"}, {"observe", "oooooo\n"}, {"cached", "vvvvvv\n"}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        int status = e2e_run(
            (const char *[]){program, plugin, image, NULL},
            (const char *[]){e2e_preload(), e2e_text("KGENRT_MODE=%s", runs[i].mode), NULL}, 60);
        if (!CHECK(status == 0 && !strcmp(e2e_output, runs[i].out)))
            fprintf(stderr, "closing, mode %s: exit status %d, %s\n", runs[i].mode, status,
                    e2e_output);
    }
}

int main(int argc, char **argv)
{
    size_t all = sizeof forms / sizeof *forms;
    if (argc > 1 && !strcmp(argv[1], "prepare"))
        return adding_prepare();
    if (argc > 1 && !strcmp(argv[1], "equal"))
        return adding_publish(equal);
    if (argc > 4 && !strcmp(argv[1], "program")) {
        swaps = !strcmp(argv[3], "swapped");
        e2e_gpu = !strcmp(argv[4], "gpu");
        double end = e2e_now() + (argc > 5 ? atoi(argv[5]) : 0);
        for (size_t i = 0; i < all; i++)
            if (!strcmp(argv[2], forms[i].name))
                do
                    forms[i].run();
                while (e2e_now() < end);
        return test_result();
    }
    e2e_begin(argc, argv);
    made_environment();
    CHECK(e2e_run((const char *[]){"/proc/self/exe", "prepare", NULL}, NULL, 60) == 0);
    for (size_t i = 0; i < all; i++)
        if (!e2e_gpu || !strcmp(forms[i].devices, "1"))
            one(&forms[i]);
#ifndef __SANITIZE_THREAD__ /* the program is not instrumented */
    closing();
#endif
    e2e_remove_cache();
    watched();
    return test_result();
}
