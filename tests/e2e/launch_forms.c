/* Forms of launches and of look-ups: in each of them either the variant runs, or the original and
 * `status` counts why. The variant differs on purpose (adding_variant.h), so each launch tells.
 * Each form is a process of its own, run without the library and with it; runs on the software GPU,
 * or with the argument "gpu" on the machine's. */
#define E2E_OWN_PROGRAM 1
#include "adding_variant.h"

static bool swaps; /* the library is there */

/* What ran is what should have: the variant where `wanted` says so and the library is there. */
static void ran_as(const char *what, CUresult result, char wanted)
{
    char now = result == CUDA_SUCCESS ? ran(out, 2, 1) : 'e';
    if (wanted == '*') { /* as the device does it, with and without the library */
        CHECK(now == 'o' || now == 'e');
        printf("%s: %c\n", what, now);
        wanted = now;
    }
    char right = wanted == 'v' && !swaps ? 'o' : wanted;
    if (!CHECK(now == right))
        fprintf(stderr, "%s: error %d, '%c' ran instead of '%c'\n", what, (int)result, now, right);
    WELL(real.cuMemsetD32_v2(out, 0, COUNT));
}

static float two = 2;
static unsigned count = COUNT;
static void *params[] = {&in, &out, &two, &count};

static CUresult plain_launch(CUfunction function, CUstream stream)
{
    return real.cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, stream, params, NULL);
}

/* As a runtime finds it. */
static void *entry(const char *name, int version)
{
    void *found = NULL;
    CUdriverProcAddressQueryResult status;
    WELL(real.cuGetProcAddress_v2(name, &found, version, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    return found;
}

static void begin(void)
{
    CUmodule module;
    start(&module);
    fill();
}

/* ---- attributes --------------------------------------------------------------------------------
 */

static CUresult with(const CUlaunchAttribute *attribute)
{
    CUlaunchAttribute copy = *attribute;
    const CUlaunchConfig config = {4, 1, 1, 256, 1, 1, 0, NULL, &copy, 1};
    return real.cuLaunchKernelEx(&config, work, params, NULL);
}

static void attributes(void)
{
    CUevent event;
    begin();
    WELL(real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    const struct {
        CUlaunchAttributeID id;
        CUlaunchAttributeValue value;
        char wanted;
    } rows[] = {
        {CU_LAUNCH_ATTRIBUTE_IGNORE, {{0}}, 'v'},
        {CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
         {.accessPolicyWindow = {(void *)in, BYTES, 0.5F, CU_ACCESS_PROPERTY_PERSISTING,
                                 CU_ACCESS_PROPERTY_STREAMING}},
         'v'},
        {CU_LAUNCH_ATTRIBUTE_COOPERATIVE, {.cooperative = 1}, 'o'},
        {CU_LAUNCH_ATTRIBUTE_COOPERATIVE, {.cooperative = 0}, 'v'},
        {CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, {.clusterDim = {1, 1, 1}}, 'v'},
        {CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, {.clusterDim = {2, 1, 1}}, '*'},
        {CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
         {.programmaticStreamSerializationAllowed = 1},
         'o'},
        {CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
         {.programmaticStreamSerializationAllowed = 0},
         'v'},
        {CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, {.programmaticEvent = {event, 0, 0}}, 'o'},
        {CU_LAUNCH_ATTRIBUTE_PRIORITY, {.priority = -1}, 'v'},
        {CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, {.memSyncDomainMap = {0, 1}}, 'v'},
        {CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN,
         {.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE},
         'v'},
        {CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT, {.launchCompletionEvent = {event, 0}}, 'o'},
        {CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, {.sharedMemCarveout = 50}, 'v'},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const CUlaunchAttribute attribute = {.id = rows[i].id, .value = rows[i].value};
        ran_as(e2e_text("attribute %d", (int)rows[i].id), with(&attribute), rows[i].wanted);
    }
    const CUlaunchConfig missing = {4, 1, 1, 256, 1, 1, 0, NULL, NULL, 1};
    CHECK(real.cuLaunchKernelEx(&missing, work, params, NULL) == CUDA_ERROR_INVALID_VALUE);
    ran_as("cuLaunchCooperativeKernel",
           real.cuLaunchCooperativeKernel(work, 4, 1, 1, 256, 1, 1, 0, NULL, params), 'o');
    ran_as("cuLaunchCooperativeKernel_ptsz",
           real.cuLaunchCooperativeKernel_ptsz(work, 4, 1, 1, 256, 1, 1, 0, NULL, params), 'o');
}

/* ---- packed arguments --------------------------------------------------------------------------
 */

static void packed(void)
{
    begin();
    struct {
        CUdeviceptr in, out;
        float a;
        unsigned n;
    } buffer = {in, out, 2, COUNT};
    size_t size = sizeof buffer, less = sizeof buffer - 1;
    void *pointer_first[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE,
                             &size, CU_LAUNCH_PARAM_END};
    void *size_first[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_BUFFER_POINTER,
                          &buffer, CU_LAUNCH_PARAM_END};
    void *too_short[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE,
                         &less, CU_LAUNCH_PARAM_END};
    const CUlaunchConfig config = {4, 1, 1, 256, 1, 1, 0, NULL, NULL, 0};
    ran_as("pointer first",
           real.cuLaunchKernel(work, 4, 1, 1, 256, 1, 1, 0, NULL, NULL, pointer_first), 'v');
    ran_as("size first", real.cuLaunchKernel(work, 4, 1, 1, 256, 1, 1, 0, NULL, NULL, size_first),
           'v');
    ran_as("by cuLaunchKernelEx", real.cuLaunchKernelEx(&config, work, NULL, size_first), 'v');
    if (!e2e_gpu) { /* what an error is of other drivers is not said anywhere */
        ran_as("too short", real.cuLaunchKernel(work, 4, 1, 1, 256, 1, 1, 0, NULL, NULL, too_short),
               'e');
        ran_as("both forms",
               real.cuLaunchKernel(work, 4, 1, 1, 256, 1, 1, 0, NULL, params, size_first), 'e');
    }
}

/* ---- launches of before CUDA 4 -----------------------------------------------------------------
 */

/* They pass through: nobody counts them, and they run the original. */
static void legacy(void)
{
    CUstream stream;
    begin();
    WELL(real.cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    ran_as("as today", plain_launch(work, NULL), 'v');
    CUresult (*shape)(CUfunction, int, int, int) =
        (__typeof__(shape))entry("cuFuncSetBlockShape", 2000);
    CUresult (*size)(CUfunction, unsigned) = (__typeof__(size))entry("cuParamSetSize", 2000);
    CUresult (*bytes)(CUfunction, int, void *, unsigned) =
        (__typeof__(bytes))entry("cuParamSetv", 2000);
    CUresult (*real_number)(CUfunction, int, float) =
        (__typeof__(real_number))entry("cuParamSetf", 2000);
    CUresult (*number)(CUfunction, int, unsigned) = (__typeof__(number))entry("cuParamSeti", 2000);
    CUresult (*grid)(CUfunction, int, int) = (__typeof__(grid))entry("cuLaunchGrid", 2000);
    CUresult (*later)(CUfunction, int, int, CUstream) =
        (__typeof__(later))entry("cuLaunchGridAsync", 2000);
    CUresult (*several)(CUDA_LAUNCH_PARAMS *, unsigned, unsigned) =
        (__typeof__(several))entry("cuLaunchCooperativeKernelMultiDevice", 9000);
    WELL(shape(work, 256, 1, 1));
    WELL(size(work, 24));
    WELL(bytes(work, 0, &in, sizeof in));
    WELL(bytes(work, 8, &out, sizeof out));
    WELL(real_number(work, 16, 2));
    WELL(number(work, 20, COUNT));
    ran_as("cuLaunchGrid", grid(work, 4, 1), 'o');
    ran_as("cuLaunchGridAsync", later(work, 4, 1, stream), 'o');
    CUDA_LAUNCH_PARAMS one = {work, 4, 1, 1, 256, 1, 1, 0, stream, params};
    ran_as("cuLaunchCooperativeKernelMultiDevice", several(&one, 1, 0), 'o');
    ran_as("as today, after them", plain_launch(work, NULL), 'v');
    WELL(real.cuStreamDestroy_v2(stream));
}

/* ---- streams -----------------------------------------------------------------------------------
 */

static void streams(void)
{
    CUstream made[3];
    int least, greatest;
    const CUlaunchConfig config = {4, 1, 1, 256, 1, 1, 0, NULL, NULL, 0};
    begin();
    WELL(real.cuCtxGetStreamPriorityRange(&least, &greatest));
    WELL(real.cuStreamCreate(&made[0], CU_STREAM_DEFAULT));
    WELL(real.cuStreamCreateWithPriority(&made[1], CU_STREAM_NON_BLOCKING, greatest));
    WELL(real.cuStreamCreateWithPriority(&made[2], CU_STREAM_DEFAULT, least));
    for (int i = 0; i < 3; i++)
        ran_as(e2e_text("stream %d", i), plain_launch(work, made[i]), 'v');
    ran_as("legacy", plain_launch(work, CU_STREAM_LEGACY), 'v');
    ran_as("per thread", plain_launch(work, CU_STREAM_PER_THREAD), 'v');
    ran_as("_ptsz", real.cuLaunchKernel_ptsz(work, 4, 1, 1, 256, 1, 1, 0, NULL, params, NULL), 'v');
    ran_as("Ex_ptsz", real.cuLaunchKernelEx_ptsz(&config, work, params, NULL), 'v');
    for (int i = 0; i < 3; i++)
        WELL(real.cuStreamDestroy_v2(made[i]));
}

/* ---- look-ups ----------------------------------------------------------------------------------
 */

static void modules(void)
{
    CUmodule module, again;
    CUfunction function;
    unsigned functions = 0;
    start(&module);
    fill();
    ran_as("cuModuleGetFunction", plain_launch(work, NULL), 'v');
    WELL(real.cuModuleGetFunctionCount(&functions, module));
    CHECK(functions == 1);
    WELL(real.cuModuleEnumerateFunctions(&function, 1, module));
    ran_as("cuModuleEnumerateFunctions", plain_launch(function, NULL), 'v');
    WELL(real.cuFuncGetModule(&again, function));
    WELL(real.cuModuleGetFunction(&function, again, "work"));
    ran_as("cuFuncGetModule", plain_launch(function, NULL), 'v');
    CUresult (*get)(CUfunction *, CUmodule, const char *) =
        (CUresult(*)(CUfunction *, CUmodule, const char *))entry("cuModuleGetFunction", 2000);
    CUresult (*by_address)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                           unsigned, CUstream, void **, void **) =
        (__typeof__(by_address))entry("cuLaunchKernel", 4000);
    WELL(get(&function, module, "work"));
    ran_as("cuGetProcAddress", by_address(function, 4, 1, 1, 256, 1, 1, 0, NULL, params, NULL),
           'v');
}

static void libraries(void)
{
    CUlibrary library;
    CUkernel kernel;
    CUmodule module;
    CUfunction function;
    unsigned kernels = 0;
    begin();
    WELL(real.cuLibraryLoadData(&library, original, NULL, NULL, 0, NULL, NULL, 0));
    WELL(real.cuLibraryGetKernel(&kernel, library, "work"));
    ran_as("a CUkernel as it is", plain_launch((CUfunction)(void *)kernel, NULL), 'v');
    WELL(real.cuKernelGetFunction(&function, kernel));
    ran_as("cuKernelGetFunction", plain_launch(function, NULL), 'v');
    WELL(real.cuLibraryGetModule(&module, library));
    WELL(real.cuModuleGetFunction(&function, module, "work"));
    ran_as("cuLibraryGetModule", plain_launch(function, NULL), 'v');
    WELL(real.cuLibraryUnload(library));
    WELL(real.cuLibraryLoadData(&library, original, NULL, NULL, 0, NULL, NULL, 0));
    WELL(real.cuLibraryGetKernelCount(&kernels, library));
    CHECK(kernels == 1);
    WELL(real.cuLibraryEnumerateKernels(&kernel, 1, library));
    ran_as("cuLibraryEnumerateKernels", plain_launch((CUfunction)(void *)kernel, NULL), 'v');
    WELL(real.cuKernelGetLibrary(&library, kernel));
    WELL(real.cuLibraryUnload(library));
}

/* ---- attributes of functions -------------------------------------------------------------------
 */

/* What a program is told of its kernel is of the original, whatever runs. */
static void told(const char *when)
{
    int blocks = 0, grid = 0, block = 0, registers = 0, threads = 0, most = 0;
    WELL(real.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, work, 256, 0));
    WELL(real.cuOccupancyMaxPotentialBlockSize(&grid, &block, work, NULL, 0, 0));
    WELL(real.cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, work));
    WELL(real.cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, work));
    WELL(real.cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, work));
    printf("%s: blocks %d, grid %d of %d, registers %d, threads %d, shared %d\n", when, blocks,
           grid, block, registers, threads, most);
}

static void functions(void)
{
    begin();
    told("before");
    ran_as("as loaded", plain_launch(work, NULL), 'v');
    WELL(real.cuFuncSetAttribute(work, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50));
    WELL(real.cuFuncSetAttribute(work, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536));
    WELL(real.cuFuncSetCacheConfig(work, CU_FUNC_CACHE_PREFER_L1));
    WELL(real.cuFuncSetSharedMemConfig(work, CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE));
    ran_as("attributes set", plain_launch(work, NULL), 'v');
    told("after");
}

/* ---- green contexts ----------------------------------------------------------------------------
 */

static void green(void)
{
    CUdevResource whole, part, rest;
    CUdevResourceDesc description;
    CUgreenCtx made;
    CUcontext primary, context;
    CUmodule module;
    CUfunction loaded;
    CUstream stream;
    unsigned groups = 1;
    begin();
    WELL(real.cuCtxGetCurrent(&primary));
    ran_as("before", plain_launch(work, NULL), 'v');
    CUresult (*resource_of)(CUdevice, CUdevResource *, CUdevResourceType) =
        (__typeof__(resource_of))entry("cuDeviceGetDevResource", 12040);
    CUresult (*split)(CUdevResource *, unsigned *, const CUdevResource *, CUdevResource *, unsigned,
                      unsigned) = (__typeof__(split))entry("cuDevSmResourceSplitByCount", 12040);
    CUresult (*describe)(CUdevResourceDesc *, CUdevResource *, unsigned) =
        (__typeof__(describe))entry("cuDevResourceGenerateDesc", 12040);
    CUresult (*stream_create)(CUstream *, CUgreenCtx, unsigned, int) =
        (__typeof__(stream_create))entry("cuGreenCtxStreamCreate", 12050);
    WELL(resource_of(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
    WELL(split(&part, &groups, &whole, &rest, 0, 16));
    WELL(describe(&description, &part, 1));
    WELL(real.cuGreenCtxCreate(&made, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    WELL(stream_create(&stream, made, CU_STREAM_NON_BLOCKING, 0));
    ran_as("its stream", plain_launch(work, stream), 'o');
    ran_as("the whole device beside it", plain_launch(work, NULL), 'v');
    ran_as("per thread", plain_launch(work, CU_STREAM_PER_THREAD), 'v');
    WELL(real.cuCtxFromGreenCtx(&context, made));
    WELL(real.cuCtxPushCurrent_v2(context));
    ran_as("current", plain_launch(work, NULL), 'o');
    WELL(real.cuModuleLoadData(&module, original));
    WELL(real.cuModuleGetFunction(&loaded, module, "work"));
    ran_as("loaded there", plain_launch(loaded, NULL), 'o');
    WELL(real.cuCtxSynchronize());
    WELL(real.cuCtxPopCurrent_v2(&context));
    if (!e2e_gpu) /* whether it takes functions that were loaded in a part is not said */
        ran_as("loaded there, launched here", plain_launch(loaded, NULL), 'v');
    ran_as("popped", plain_launch(work, NULL), 'v');
    WELL(real.cuStreamDestroy_v2(stream));
    WELL(real.cuGreenCtxDestroy(made));
    ran_as("after", plain_launch(work, NULL), 'v');
}

/* ---- all of them -------------------------------------------------------------------------------
 */

static const struct form {
    const char *name;
    void (*run)(void);
    struct {
        const char *key;
        int count;
    } refused[4]; /* what `status` counts */
} forms[] = {
    {"attributes",
     attributes,
     {{"cooperative", 3}, {"programmatic", 2}, {"event", 1}, {"cluster", 1}}},
    {"packed", packed, {{NULL, 0}}},
    {"legacy", legacy, {{NULL, 0}}},
    {"streams", streams, {{NULL, 0}}},
    {"modules", modules, {{NULL, 0}}},
    {"libraries", libraries, {{NULL, 0}}},
    {"functions", functions, {{NULL, 0}}},
    {"green", green, {{"green", 3}}},
};

/* Of all kernels of the only process that the recorder has. */
static int refused_count(const json_t *status, const char *key, int *swapped)
{
    json_t *process = json_array_get(json_object_get(status, "processes"), 0), *kernel;
    size_t i;
    int sum = 0;
    *swapped = 0;
    json_array_foreach(json_object_get(process, "kernels"), i, kernel)
    {
        sum += (int)json_integer_value(json_object_get(json_object_get(kernel, "refused"), key));
        *swapped += (int)json_integer_value(json_object_get(kernel, "swapped"));
    }
    return sum;
}

static void one(const struct form *form, const char *setting)
{
    static char plain[sizeof e2e_output];
    const char *gpu = e2e_gpu ? "gpu" : "soft";
    const char *const alone[] = {"/proc/self/exe", "program", form->name, "plain", gpu, NULL};
    const char *const with_it[] = {"/proc/self/exe", "program", form->name, "swapped", gpu, NULL};
    bool right = CHECK(e2e_run(alone, (const char *[]){setting, NULL}, 60) == 0);
    strcpy(plain, e2e_output);
    WELL(system(e2e_text("rm -rf '%s/flight'", e2e_cache)));
    right &=
        CHECK(e2e_run(with_it, (const char *[]){e2e_preload(), "KGENRT_MODE=cached", setting, NULL},
                      60) == 0);
    right &= CHECK(!strcmp(plain, e2e_output)); /* all that it was told, too */
    if (!right) {
        fprintf(stderr, "%s: alone it said: %s\n", form->name, plain);
        e2e_show_log();
    }
    json_t *status = e2e_json("status", NULL);
    int swapped = 0;
    for (unsigned i = 0; i < 4 && form->refused[i].key; i++)
        if (!CHECK(refused_count(status, form->refused[i].key, &swapped) == form->refused[i].count))
            fprintf(stderr, "%s: status counts another number of '%s'\n%s\n", form->name,
                    form->refused[i].key, e2e_output);
    if (form->run == attributes) /* in words, too */
        CHECK(strstr(e2e_output, "got the original: a cooperative launch") &&
              strstr(e2e_output, "got the original: a programmatic dependent launch"));
    (void)refused_count(status, "shape", &swapped);
    CHECK(swapped > 0);
    fprintf(stderr, "%s (%s): %d launches ran the variant\n", form->name, setting, swapped);
    json_decref(status);
}

int main(int argc, char **argv)
{
    size_t all = sizeof forms / sizeof *forms;
    if (argc > 1 && !strcmp(argv[1], "prepare"))
        return adding_prepare();
    if (argc > 4 && !strcmp(argv[1], "program")) {
        swaps = !strcmp(argv[3], "swapped");
        e2e_gpu = !strcmp(argv[4], "gpu");
        for (size_t i = 0; i < all; i++)
            if (!strcmp(argv[2], forms[i].name))
                forms[i].run();
        return test_result();
    }
    e2e_begin(argc, argv);
    made_environment();
    CHECK(e2e_run((const char *[]){"/proc/self/exe", "prepare", NULL}, NULL, 60) == 0);
    for (size_t i = 0; i < all; i++) {
        one(&forms[i], "CUDA_MODULE_LOADING=LAZY");
        one(&forms[i], "CUDA_MODULE_LOADING=EAGER");
    }
    e2e_remove_cache();
    return test_result();
}
