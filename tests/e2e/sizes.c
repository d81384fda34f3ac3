/* A program that launches one kernel with three sizes ends with a variant for each of them, though
 * a maker could be asked but once: launches that no guard covers are captured in their turn, and
 * the variant that is known is verified for them. On the software GPU. */
#include "e2e.h"
#include "gpu/real.h"
#include "sized_kernel.h"

enum { N = 1000, SIZES = 3, THREADS = 128 };
static const unsigned sizes[SIZES] = {1000, 700, 300};

/* ---- the program -------------------------------------------------------------------------------
 */

static CUdeviceptr x, y;

static void launch(CUfunction function, unsigned n, float factor)
{
    uint32_t unused = (uint32_t)n * 7;
    void *params[] = {&x, &y, &n, &factor, &unused};
    WELL(real.cuLaunchKernel(function, (n + THREADS - 1) / THREADS, 1, 1, THREADS, 1, 1, 0, NULL,
                             params, NULL));
}

/* All sizes in turn, with a factor that changes, until the file is there. */
static int program(const char *stop)
{
    static float in[N], out[N];
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction function;
    WELL(real_open(NULL) != KG_OK);
    WELL(real.cuInit(0) || real.cuDeviceGet(&device, 0));
    WELL(real.cuDevicePrimaryCtxRetain(&context, device) || real.cuCtxSetCurrent(context));
    WELL(real.cuModuleLoadData(&module, sized_ptx));
    WELL(real.cuModuleGetFunction(&function, module, "k"));
    WELL(real.cuMemAlloc_v2(&x, sizeof in) || real.cuMemAlloc_v2(&y, sizeof out));
    for (unsigned i = 0; i < N; i++)
        in[i] = (float)(i * 37 % 1009) - 500;
    WELL(real.cuMemcpyHtoD_v2(x, in, sizeof in));
    double end = e2e_now() + 240;
    for (unsigned turn = 0; access(stop, F_OK) && e2e_now() < end; turn++) {
        float factor = (float)(turn % 50) / 4 + 0.25f;
        unsigned n = sizes[turn % SIZES];
        launch(function, n, factor);
        WELL(real.cuCtxSynchronize());
        if (turn % 16)
            continue;
        WELL(real.cuMemcpyDtoH_v2(out, y, sizeof out));
        for (unsigned i = 0; i < n; i++)
            WELL(out[i] != in[i] * factor + 1);
        usleep(1000);
    }
    return 0;
}

/* ---- the test ----------------------------------------------------------------------------------
 */

/* Best variants by that maker. */
static unsigned variants(const char *maker)
{
    unsigned count = 0;
    size_t i;
    json_t *list = e2e_json("list", NULL), *one;
    json_array_foreach(json_object_get(list, "variants"), i, one)
    {
        const char *made = json_string_value(json_object_get(one, "maker"));
        count += json_is_true(json_object_get(one, "best")) && made && !strcmp(made, maker);
    }
    json_decref(list);
    return count;
}

static bool wait_for(unsigned wanted, double seconds)
{
    double end = e2e_now() + seconds;
    while (variants("recorded") < wanted && e2e_now() < end)
        usleep(300000);
    return variants("recorded") == wanted;
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "program"))
        return program(argv[2]);
    e2e_begin(argc, argv);
    if (e2e_gpu)
        SKIP("its kernel is too small for a real GPU to gain");
    if (strstr(NVCC, "NOTFOUND"))
        SKIP("no CUDA toolkit here, so replies cannot be compiled");
    char self[512] = "";
    int status = -1;
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    char *folder = e2e_text("%s/replies", e2e_cache), *stop = e2e_text("%s/stop", e2e_cache);
    char *reply = e2e_text("%s/1.md", folder);
    CHECK(!mkdir(folder, 0700));
    sized_reply(reply, "n", "f", "n > 0");
    int log = open(e2e_text("%s/output", e2e_cache), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    pid_t pid = e2e_start(
        (const char *[]){e2e_cli(), "run", self, "program", stop, NULL},
        (const char *[]){e2e_text("KGENRT_MAKERS=recorded:%s", folder), "KGENRT_REPEATS=3", NULL},
        log);
    CHECK(wait_for(1, 120));
    CHECK(unlink(reply) == 0); /* nobody can be asked any more */
    CHECK(wait_for(SIZES, 200));
    CHECK(file_write(stop, "", 0, 0600) == KG_OK);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    if (test_failures)
        e2e_show_log();
    e2e_remove_cache();
    return test_result();
}
