/* After the swap: launches checked beside the original, and timed, in a running program. Variants
 * made by hand: one is right and fast, one is right until a number above a million comes by, one is
 * right and slow. Runs on the software GPU, or with the argument "gpu" on the machine's.
 *
 * Processes: `prepare KIND` publishes a variant, `program WHAT` is the unmodified program, whose
 * every result it checks; the test itself starts both, and asks `kgenrt status`. */
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>

#include "made_variant.h"
#include "tune/again.h"
#include "turning_kernel.h"

enum { COUNT = 4096, BYTES = 4 * COUNT, BLOCK = 256 };

#define TWIST "setp.gt.f32 %p2, %f2, 0f49742400;\n@%p2 mov.f32 %f4, 0f00000000;\n" /* 1,000,000 */
#define ODD "setp.eq.f32 %p2, %f2, 0f47F12000;\n@%p2 mov.f32 %f4, 0f00000000;\n"   /* 123,456 */
#define NEAR "mul.f32 %f4, %f4, 0f3F800001;\n" /* the last bit */
#define FAR "mul.f32 %f4, %f4, 0f3F800101;\n"  /* 3 in 100,000 */

/* For the software GPU, and for one beside which a launch takes a while. */
static const char *const originals[2] = {BODY("work", "60", ""), BODY("work", "20000", "")};
static const struct {
    const char *kind, *texts[2], *accuracy;
} variants[] = {
    {"right", {BODY("fast", "2", ""), BODY("fast", "200", "")}, "bitwise"},
    {"twisted", {BODY("fast", "2", TWIST), BODY("fast", "200", TWIST)}, "bitwise"},
    {"slow", {BODY("fast", "90", ""), BODY("fast", "30000", "")}, "bitwise"},
    {"near", {BODY("fast", "2", NEAR), BODY("fast", "200", NEAR)}, "rel:1e-5"},
    {"nested", {NESTED("fast", "2"), NESTED("fast", "200")}, "bitwise"},
    {"far", {BODY("fast", "2", FAR), BODY("fast", "200", FAR)}, "rel:1e-5"},
    {"odd", {BODY("fast", "2", ODD), BODY("fast", "200", ODD)}, "bitwise"},
};
enum { KINDS = sizeof variants / sizeof *variants };

static const char *const nested_originals[2] = {NESTED("work", "60"), NESTED("work", "20000")};

static bool on_gpu(void)
{
    return getenv("AFTER_SWAP_GPU") != NULL;
}

/* ---- prepare -----------------------------------------------------------------------------------
 */

/* Evidence that names the capture in the folder $AFTER_SWAP_KEPT, if that is set, which is put
 * where captures are kept: beside the cache's other folders, by its digest. */
static const char *evidence_make(const struct kg_id *kernel)
{
    const char *folder = getenv("AFTER_SWAP_KEPT");
    char seal[KG_ID_TEXT], path[KG_PATH];
    struct kg_id digest;
    struct kg_bytes bytes;
    glob_t found;
    if (!folder)
        return "{}";
    WELL(glob(e2e_text("%s/*.kgcap", folder), 0, NULL, &found));
    WELL(file_read(found.gl_pathv[0], 64 << 20, &bytes));
    globfree(&found);
    memcpy(digest.bytes, bytes.data + bytes.size - KG_ID_BYTES, KG_ID_BYTES);
    WELL(kept_path(cache_dir(), kernel, id_text(&digest, seal), path));
    WELL(dir_make(e2e_text("%s/captures", cache_dir())));
    WELL(file_write(path, bytes.data, bytes.size, 0600));
    bytes_free(&bytes);
    return e2e_text("{\"capture\": \"%s\"}", seal);
}

static int prepare(const char *kind)
{
    struct made made;
    unsigned which = 0;
    while (which < KINDS && strcmp(variants[which].kind, kind))
        which++;
    if (!CHECK(which < KINDS))
        return test_result();
    bool nested = !strcmp(kind, "nested");
    struct kg_scalar scalars[] = {{2, 0, 4, COUNT, 0}};
    struct kg_pointer pointers[] = {{0, 0, 16, KG_READ, 0, nested ? 8 : BYTES},
                                    {1, 0, 16, KG_WRITTEN, 0, BYTES}};
    struct kg_variant v = made_begin(&made, (nested ? nested_originals : originals)[on_gpu()]);
    v.launch = (struct kg_launch){{COUNT / BLOCK, 1, 1}, {BLOCK, 1, 1}, 0};
    v.signature = (struct kg_signature){.launch = v.launch,
                                        .scalar_count = 1,
                                        .pointer_count = 2,
                                        .scalars = scalars,
                                        .pointers = pointers};
    v.note = kind;
    v.accuracy = variants[which].accuracy;
    made_publish(&made, &v, variants[which].texts[on_gpu()], evidence_make(&v.kernel));
    return test_result();
}

/* A doubt about the published variant, as another program would leave it. */
static bool doubt_about(void *self, const struct kg_variant *v, bool best)
{
    struct kg_doubt *doubt = self;
    doubt->variant = v->id;
    doubt->hardware = v->hardware;
    doubt->kernel = v->kernel;
    signature_id(&v->signature, &doubt->signature);
    return false;
}

static int doubt(void)
{
    struct kg_doubt one = {.differed = true,
                           .pid = 1,
                           .time = 1700000000,
                           .program = "/usr/bin/other",
                           .reason = "differed from the original in launch 5"};
    struct store *store;
    WELL(store_open(cache_dir(), true, &store));
    WELL(store_each_variant(store, doubt_about, &one));
    store_close(store);
    WELL(doubt_put(cache_dir(), &one));
    struct kg_doubt back[2];
    CHECK(doubts_read(cache_dir(), back, 2) == 1 && !memcmp(&back[0], &one, sizeof one));
    return test_result();
}

/* ---- program -----------------------------------------------------------------------------------
 */

static CUdeviceptr in, out, table; /* table: holds the address of in, or 0 */
static CUfunction work;
static CUstream stream;
static float host[COUNT];

static void start(bool nested)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    WELL(real_open(NULL)); /* by dlsym, hence through the hooks */
    WELL(real.cuInit(0));
    WELL(real.cuDeviceGet(&device, 0));
    WELL(real.cuDevicePrimaryCtxRetain(&context, device));
    WELL(real.cuCtxSetCurrent(context));
    WELL(real.cuModuleLoadData(&module, (nested ? nested_originals : originals)[on_gpu()]));
    WELL(real.cuModuleGetFunction(&work, module, "work"));
    WELL(real.cuMemAlloc_v2(&in, BYTES));
    WELL(real.cuMemAlloc_v2(&out, BYTES));
    WELL(real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static void fill(float first)
{
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)i;
    host[7] = first;
    WELL(real.cuMemcpyHtoD_v2(in, host, BYTES));
}

static void enqueue(void)
{
    unsigned n = COUNT;
    void *params[] = {table ? &table : &in, &out, &n};
    WELL(real.cuLaunchKernel(work, COUNT / BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, params, NULL));
}

/* One launch from a cleared output; whether its result is right. */
static bool right(float first)
{
    WELL(real.cuMemsetD32Async(out, 0x7f000000, COUNT, stream));
    enqueue();
    WELL(real.cuStreamSynchronize(stream));
    WELL(real.cuMemcpyDtoH_v2(host, out, BYTES));
    for (int i = 0; i < COUNT; i++)
        if (host[i] != (i == 7 ? first : (float)i) * 2 + 1)
            return false;
    return true;
}

static unsigned wrong_of(unsigned launches, float first)
{
    unsigned wrong = 0;
    for (unsigned i = 0; i < launches; i++)
        wrong += !right(first);
    return wrong;
}

static void nap(unsigned ms)
{
    usleep(1000 * ms);
}

/* Launches in small lots until `seconds` are over. */
static unsigned wrong_for(double seconds, float first)
{
    unsigned wrong = 0;
    for (double end = e2e_now() + seconds; e2e_now() < end;) {
        wrong += wrong_of(20, first);
        nap(10);
    }
    return wrong;
}

/* Goes on until a launch is captured, for the worker to look at the variant again. */
static void until_captured(float first)
{
    const char *files = e2e_text("%s/spool/*.kgcap", getenv("KGENRT_CACHE"));
    glob_t found;
    int none;
    for (double end = e2e_now() + 60; (none = glob(files, 0, NULL, &found)) && e2e_now() < end;) {
        CHECK(!wrong_of(20, first));
        nap(10);
    }
    CHECK(!none);
    if (!none)
        globfree(&found);
}

/* Right data, then data that the twisted variant gets wrong. */
static void later_data(void)
{
    fill(7);
    CHECK(!wrong_for(0.5, 7));
    fill(2e6f);
    /* until it is dropped: how soon a check comes by depends on how busy the machine is */
    unsigned wrong = wrong_of(100, 2e6f), more = wrong;
    for (double end = e2e_now() + 60; more && e2e_now() < end; wrong += more) {
        nap(10);
        more = wrong_of(100, 2e6f);
    }
    fprintf(stderr, "wrong results until the variant was dropped: %u\n", wrong);
    CHECK(!wrong_of(100, 2e6f)); /* it is gone */
    if (!strcmp(getenv("KGENRT_MODE"), "tune"))
        until_captured(2e6f);
}

/* The variant comes while the program runs, on data that it gets wrong: no result is ever wrong,
 * because the first checks come before it is used. */
static void comes_later(void)
{
    fill(2e6f);
    CHECK(!wrong_of(60, 2e6f));
    CHECK(!system(e2e_text("LD_PRELOAD= /proc/%d/exe prepare twisted", (int)getpid())));
    CHECK(!wrong_for(2, 2e6f));
}

static void nested(void)
{
    WELL(real.cuMemAlloc_v2(&table, 8));
    WELL(real.cuMemcpyHtoD_v2(table, &in, 8));
    fill(7);
    CHECK(!wrong_for(2.5, 7));
}

static void steady(void)
{
    fill(7);
    CHECK(!wrong_for(1.5, 7));
}

/* Until status says how the variant's time compares: it takes more pairs of launches, and these
 * more time, where the machine is busy. */
static void timed(void)
{
    const char *known = e2e_text("LD_PRELOAD= %s status --json | "
                                 "grep -q 'confirmed in the app\\|not faster in the app'",
                                 e2e_cli());
    steady();
    for (double end = e2e_now() + 60; system(known) && e2e_now() < end;)
        CHECK(!wrong_for(1, 7));
}

/* Which code's last bits the results have: "v" variant, "o" original, "b" both were seen. */
static void odd(void)
{
    fill(123456);
    CHECK(!wrong_for(1.5, 123456));
}

static void near(void)
{
    bool original = false, variant = false;
    fill(7);
    for (double end = e2e_now() + 1.5; e2e_now() < end; usleep(500)) {
        (void)right(7);
        float exact = 2 * 5 + 1, got = host[5];
        CHECK(got >= exact && got < exact * 1.0001f);
        original |= got == exact;
        variant |= got != exact;
    }
    printf("ran %s\n", original && variant ? "b" : variant ? "v" : "o");
}

/* An entry that kgenrt itself has no use for. */
#define ENTRY(name) ((__typeof__(&name))(uintptr_t)dlsym(driver, #name))

/* Every launch is captured into a graph: nothing is added to it, whichever kernel it got. */
static void graphs(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    fill(7);
    for (int i = 0; CHECK(driver) && i < 20; i++) {
        CUgraph graph;
        CUgraphExec exec;
        size_t nodes = 0;
        WELL(real.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        enqueue();
        WELL(real.cuStreamEndCapture(stream, &graph));
        WELL(ENTRY(cuGraphGetNodes)(graph, NULL, &nodes));
        CHECK(nodes == 1);
        WELL(ENTRY(cuGraphInstantiateWithFlags)(&exec, graph, 0));
        WELL(real.cuMemsetD32Async(out, 0, COUNT, stream));
        WELL(ENTRY(cuGraphLaunch)(exec, stream));
        WELL(real.cuStreamSynchronize(stream));
        WELL(real.cuMemcpyDtoH_v2(host, out, BYTES));
        CHECK(host[7] == 15 && host[COUNT - 1] == 2 * (COUNT - 1) + 1);
        WELL(ENTRY(cuGraphExecDestroy)(exec));
        WELL(ENTRY(cuGraphDestroy)(graph));
    }
}

static int program(const char *what)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } kinds[] = {{"later_data", later_data},
                 {"comes_later", comes_later},
                 {"nested", nested},
                 {"steady", steady},
                 {"timed", timed},
                 {"odd", odd},
                 {"near", near},
                 {"graphs", graphs}};
    size_t i = 0;
    while (i < sizeof kinds / sizeof *kinds && strcmp(kinds[i].name, what))
        i++;
    if (!CHECK(i < sizeof kinds / sizeof *kinds))
        return test_result();
    start(!strcmp(what, "nested"));
    kinds[i].run();
    WELL(real.cuDevicePrimaryCtxRelease_v2(0));
    return test_result();
}

/* ---- the test ----------------------------------------------------------------------------------
 */

static json_t *status;      /* of the last program */
static const char *printed; /* what it printed */

static json_t *variant(void)
{
    json_t *process = json_array_get(json_object_get(status, "processes"), 0);
    json_t *kernel = json_array_get(json_object_get(process, "kernels"), 0);
    return json_array_get(json_object_get(kernel, "variants"), 0);
}

static long number(const char *key)
{
    return (long)json_number_value(json_object_get(variant(), key));
}

static bool says(const char *part)
{
    const char *said = json_string_value(json_object_get(variant(), "said"));
    return said && strstr(said, part);
}

static bool shown(const char *part)
{
    CHECK(e2e_run((const char *[]){e2e_cli(), "status", NULL}, NULL, 60) == 0);
    return strstr(e2e_output, part) != NULL;
}

/* published: kind of a variant that is there from the start, or NULL. */
static void run(const char *what, const char *published, const char *more)
{
    int before = test_failures;
    json_decref(status);
    e2e_remove_cache();
    e2e_fresh_cache();
    if (published)
        CHECK(e2e_run((const char *[]){"/proc/self/exe", "prepare", published, NULL}, NULL, 60) ==
              0);
    CHECK(e2e_run((const char *[]){"/proc/self/exe", "program", what, NULL},
                  (const char *[]){e2e_preload(), more, NULL}, 120) == 0);
    printed = e2e_text("%s", e2e_output);
    fprintf(stderr, "%s: %s", what, e2e_output);
    status = e2e_json("status", NULL);
    if (test_failures > before)
        e2e_show_log();
}

/* What the store says of its one variant: whether programs get it, and what stands against it. */
static bool best(void)
{
    json_t *list = e2e_json("list", NULL);
    bool is =
        json_is_true(json_object_get(json_array_get(json_object_get(list, "variants"), 0), "best"));
    json_decref(list);
    return is;
}

static bool stands_against(const char *gate, const char *part)
{
    bool found = false;
    json_t *one, *all = e2e_json("status", NULL);
    size_t i;
    json_array_foreach(json_object_get(all, "rejections"), i, one)
    {
        const char *at = json_string_value(json_object_get(one, "gate"));
        const char *reason = json_string_value(json_object_get(one, "reason"));
        found |= at && reason && !strcmp(at, gate) && strstr(reason, part);
        if (at && reason)
            fprintf(stderr, "%s: %s\n", at, reason);
    }
    json_decref(all);
    return found;
}

static void work_off(void)
{
    if (!CHECK(e2e_run((const char *[]){e2e_cli(), "worker", "--once", NULL},
                       (const char *[]){"KGENRT_MAKERS=recorded:/nowhere", NULL}, 300) == 0))
        e2e_show_log();
}

/* Not bitwise: the original's results show in checked launches of a program that is alone; in one
 * of several processes every launch gives the variant's, and is checked the other way round. */
static void last_bits(void)
{
    setenv("KGENRT_ACCURACY", "rel:1e-5", 1);
    run("near", "near", "KGENRT_SHADOW_EVERY=16");
    CHECK(strstr(printed, "ran b") && number("checked") > 3 && number("differed") == 0);
    CHECK(number("pairs") > 0);
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    setenv("PMIX_NAMESPACE", "last_bits", 1);
    run("near", "near", "KGENRT_SHADOW_EVERY=16");
    CHECK(strstr(printed, "ran v") && number("checked") > 3 && number("differed") == 0);
    CHECK(number("pairs") == 0);
    run("near", "far", "KGENRT_SHADOW_EVERY=16");
    CHECK(strstr(printed, "ran b") && number("differed") == 1); /* until it was dropped */
    FILE *log = popen(e2e_text("grep -c 'warn.*other processes' '%s/log'", e2e_cache), "r");
    char count[16] = "";
    CHECK(log && fgets(count, sizeof count, log) && atoi(count) == 1);
    if (log)
        pclose(log);
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    unsetenv("PMIX_NAMESPACE");
    unsetenv("KGENRT_ACCURACY");
}

/* A capture of the program, into a folder of the cache's. */
static void capture_into(const char *folder, const char *what)
{
    char self[PATH_MAX];
    CHECK(e2e_run((const char *[]){e2e_cli(), "capture", "-o", e2e_text("%s/%s", e2e_cache, folder),
                                   realpath("/proc/self/exe", self), "program", what, NULL},
                  NULL, 120) == 0);
}

/* The capture of now does not show what is wrong; the one that was kept does. */
static void kept_too(void)
{
    e2e_remove_cache();
    e2e_fresh_cache();
    capture_into("odd", "odd");
    capture_into("spool", "steady");
    CHECK(e2e_run((const char *[]){"/proc/self/exe", "prepare", "odd", NULL},
                  (const char *[]){e2e_text("AFTER_SWAP_KEPT=%s/odd", e2e_cache), NULL}, 60) == 0);
    CHECK(e2e_run((const char *[]){"/proc/self/exe", "doubt", NULL}, NULL, 60) == 0);
    CHECK(best());
    work_off();
    CHECK(!best() && stands_against("demoted", "a replay refused it at gate"));
}

/* What a replay confirms is taken from everybody; what it does not is noted. */
static void doubts(void)
{
    setenv("KGENRT_MODE", "tune", 1);
    run("later_data", "twisted", "KGENRT_SHADOW_EVERY=16");
    CHECK(best());
    work_off();
    if (!CHECK(!best() && stands_against("demoted", "a replay refused it at gate")))
        e2e_show_log();

    run("steady", "right", "KGENRT_SHADOW_EVERY=16");
    CHECK(e2e_run((const char *[]){"/proc/self/exe", "doubt", NULL}, NULL, 60) == 0);
    capture_into("spool", "steady");
    work_off();
    CHECK(best() && stands_against("doubt", "other programs keep the variant"));
    CHECK(e2e_run((const char *[]){e2e_cli(), "doctor", NULL}, NULL, 60) >= 0 &&
          strstr(e2e_output, "in no replay"));

    CHECK(e2e_run((const char *[]){"/proc/self/exe", "doubt", NULL}, NULL, 60) == 0);
    work_off(); /* no capture came for it */
    CHECK(best() && stands_against("doubt", "no launch of it was captured"));

    run("nested", "nested", "KGENRT_SHADOW_EVERY=16"); /* what cannot be checked in the app */
    const char *why = json_string_value(json_object_get(variant(), "unchecked"));
    CHECK(number("checked") == 0 && why && strstr(why, "stand in memory"));
    work_off();
    CHECK(best() && !access(e2e_text("%s/looked/%s", e2e_cache,
                                     json_string_value(json_object_get(variant(), "id"))),
                            R_OK));
    kept_too();
    setenv("KGENRT_MODE", "cached", 1);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "doubt"))
        return doubt();
    if (argc > 2 && !strcmp(argv[1], "prepare"))
        return prepare(argv[2]);
    if (argc > 2 && !strcmp(argv[1], "program"))
        return program(argv[2]);
    e2e_begin(argc, argv);
    if (e2e_gpu)
        setenv("AFTER_SWAP_GPU", "1", 1);
    setenv("KGENRT_WORKER", "off", 1);
    setenv("KGENRT_MODE", "cached", 1);

    run("timed", "right", "KGENRT_SHADOW_EVERY=16");
    CHECK(number("checked") > 3 && number("differed") == 0 && says("confirmed in the app"));
    CHECK(json_is_true(json_object_get(variant(), "in_use")));
    CHECK(shown("launches, 0 differences") && shown("confirmed in the app: "));

    run("timed", "slow", "KGENRT_SHADOW_EVERY=16");
    CHECK(number("differed") == 0 && says("not faster in the app"));
    CHECK(!json_is_true(json_object_get(variant(), "in_use")));

    run("later_data", "twisted", "KGENRT_SHADOW_EVERY=16");
    CHECK(number("checked") > 3 && number("differed") == 1 && says("differed from the original"));
    CHECK(!json_is_true(json_object_get(variant(), "in_use")));

    run("comes_later", NULL, "KGENRT_SHADOW_EVERY=16");
    CHECK(number("checked") >= 1 && number("differed") == 1);

    run("graphs", "right", "KGENRT_SHADOW_EVERY=16");
    CHECK(number("checked") == 0);
    CHECK(json_number_value(json_object_get(json_object_get(variant(), "skipped"), "graph")) > 0);

    run("steady", "twisted", "KGENRT_SHADOW_MIB=0");
    CHECK(number("checked") == 0 && shown("is not checked beside the original here: switched off"));
    last_bits();
    doubts();
    json_decref(status);
    e2e_remove_cache();
    return test_result();
}
