/* Programs of several processes, and variants that are not bitwise: all processes of a job use what
 * the first of them began with, and nothing is swapped while they run. The variants differ on
 * purpose (one adds 100, the other 200, the bitwise one 300), so that each launch tells which code
 * ran. Runs on the software GPU, or with the argument "gpu" on the machine's.
 *
 * Processes: `prepare KIND` publishes a variant, `rank` launches until a file appears and prints
 * which codes ran, in order; the test itself starts them. */
#include "made_variant.h"

enum { COUNT = 256, BYTES = 4 * COUNT };

#define BODY(name, extra)                                                                          \
    ".version 7.0\n.target sm_50\n.address_size 64\n"                                              \
    ".visible .entry " name "(.param .u64 in, .param .u64 out)\n{\n"                               \
    ".reg .b32 %r<4>; .reg .f32 %f<4>; .reg .b64 %d<8>;\n"                                         \
    "ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out]; mov.u32 %r1, %tid.x;\n"                      \
    "cvta.to.global.u64 %d1, %d1; cvta.to.global.u64 %d2, %d2;\n"                                  \
    "mul.wide.u32 %d3, %r1, 4; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;\n"                    \
    "ld.global.f32 %f1, [%d4];\n" extra "st.global.f32 [%d5], %f1;\nret;\n}\n"

static const char original[] = BODY("work", "add.f32 %f1, %f1, 0f3F800000;\n");
static const struct {
    const char *kind, *text, *accuracy;
    double ratio;
} variants[] = {
    {"A", BODY("fast", "add.f32 %f1, %f1, 0f42C80000;\n"), "rel:1e-5", 1.5},
    {"B", BODY("fast", "add.f32 %f1, %f1, 0f43480000;\n"), "rel:1e-5", 2},
    {"C", BODY("fast", "add.f32 %f1, %f1, 0f43960000;\n"), "bitwise", 3},
};

static int prepare(const char *kind)
{
    struct made made;
    unsigned which = (unsigned)(*kind - 'A');
    struct kg_pointer pointers[] = {{0, 0, 16, KG_READ, 0, BYTES},
                                    {1, 0, 16, KG_WRITTEN, 0, BYTES}};
    struct kg_variant v = made_begin(&made, original);
    v.launch = (struct kg_launch){{1, 1, 1}, {COUNT, 1, 1}, 0};
    v.signature =
        (struct kg_signature){.launch = v.launch, .pointer_count = 2, .pointers = pointers};
    v.note = kind;
    v.accuracy = variants[which].accuracy;
    v.ratio = v.low = v.high = variants[which].ratio;
    made_publish(&made, &v, variants[which].text, "{}");
    return test_result();
}

/* ---- a process of a job ------------------------------------------------------------------------
 */

static char which_ran(float got)
{
    return got == 1 ? 'o' : got == 100 ? 'A' : got == 200 ? 'B' : got == 300 ? 'C' : '?';
}

static int rank(const char *stop)
{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction work;
    CUdeviceptr in, out;
    char seen = 0;
    WELL(real_open(NULL)); /* by dlsym, hence through the hooks */
    WELL(real.cuInit(0));
    WELL(real.cuDeviceGet(&device, 0));
    WELL(real.cuDevicePrimaryCtxRetain(&context, device));
    WELL(real.cuCtxSetCurrent(context));
    WELL(real.cuModuleLoadData(&module, original));
    WELL(real.cuModuleGetFunction(&work, module, "work"));
    WELL(real.cuMemAlloc_v2(&in, BYTES));
    WELL(real.cuMemAlloc_v2(&out, BYTES));
    WELL(real.cuMemsetD32_v2(in, 0, COUNT));
    for (double end = e2e_now() + 60; access(stop, F_OK) && e2e_now() < end; usleep(5000)) {
        float got;
        void *params[] = {&in, &out};
        WELL(real.cuLaunchKernel(work, 1, 1, 1, COUNT, 1, 1, 0, NULL, params, NULL));
        WELL(real.cuCtxSynchronize());
        WELL(real.cuMemcpyDtoH_v2(&got, out, sizeof got));
        if (seen != which_ran(got)) {
            putchar(seen = which_ran(got));
            fflush(stdout);
        }
    }
    return 0;
}

/* ---- the test ----------------------------------------------------------------------------------
 */

struct process {
    pid_t pid;
    const char *stop, *out;
};

/* environment: its job's, beside the preload's. */
static struct process begin(const char *first, const char *second)
{
    static int number;
    struct process p = {.stop = e2e_text("%s/stop%d", e2e_cache, number),
                        .out = e2e_text("%s/out%d", e2e_cache, number)};
    number++;
    int fd = open(p.out, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    p.pid = e2e_start((const char *[]){"/proc/self/exe", "rank", p.stop, NULL},
                      (const char *[]){e2e_preload(), first, second, NULL}, fd);
    close(fd);
    return p;
}

static const char *output_of(const struct process *p)
{
    FILE *file = fopen(p->out, "re");
    char text[64] = "";
    size_t got = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[got] = 0;
    if (file)
        fclose(file);
    return e2e_text("%s", text);
}

/* Until it has launched; busy machines take their time. */
static void launched(const struct process *p)
{
    for (double end = e2e_now() + 30; !*output_of(p) && e2e_now() < end;)
        usleep(20000);
}

/* What it ran, in order: "A", "oC". */
static const char *end(const struct process *p)
{
    int status = -1;
    close(open(p->stop, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    CHECK(waitpid(p->pid, &status, 0) == p->pid && WIFEXITED(status) && !WEXITSTATUS(status));
    const char *ran = output_of(p);
    fprintf(stderr, "ran: %s\n", ran);
    return ran;
}

static void publish(const char *kind)
{
    CHECK(e2e_run((const char *[]){"/proc/self/exe", "prepare", kind, NULL}, NULL, 60) == 0);
}

static void fresh(void)
{
    e2e_remove_cache();
    e2e_fresh_cache();
}

static bool status_says(const char *part)
{
    CHECK(e2e_run((const char *[]){e2e_cli(), "status", NULL}, NULL, 60) == 0);
    return strstr(e2e_output, part) != NULL;
}

static void settle(void)
{
    usleep(1500000); /* a watcher that wanted to swap would have */
}

#define TWO "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_SIZE=2"

/* A new snapshot between the starts of two processes: both use the old one's variant. */
static void one_job(void)
{
    fresh();
    setenv("PMIX_NAMESPACE", "job-1", 1);
    publish("A");
    struct process one = begin(TWO);
    launched(&one);
    publish("B");
    struct process two = begin(TWO);
    launched(&two);
    settle();
    CHECK(!strcmp(end(&two), "A") && !strcmp(end(&one), "A"));
    CHECK(status_says("come from the snapshot that all began with"));
    setenv("PMIX_NAMESPACE", "job-2", 1);
    struct process other = begin(TWO);
    launched(&other);
    CHECK(!strcmp(end(&other), "B"));
}

/* The first process found nothing: so does the second, and what comes is for neither; a bitwise
 * variant is for both, even while they run. */
static void began_empty(void)
{
    fresh();
    setenv("PMIX_NAMESPACE", "job-3", 1);
    struct process one = begin(TWO);
    launched(&one);
    publish("A");
    struct process two = begin(TWO);
    launched(&two);
    settle();
    CHECK(!strcmp(output_of(&one), "o") && !strcmp(output_of(&two), "o"));
    CHECK(status_says("began without a snapshot"));
    publish("C");
    settle();
    CHECK(!strcmp(end(&two), "oC") && !strcmp(end(&one), "oC"));
}

/* Where the processes cannot agree, such variants are not used. */
static void no_agreement(void)
{
    fresh();
    publish("A");
    setenv("PMIX_NAMESPACE", "job-4", 1);
    struct process far = begin("WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2");
    launched(&far);
    CHECK(!strcmp(end(&far), "o") && status_says("on several machines"));
    struct process unknown = begin("PMI_SIZE=2", NULL);
    launched(&unknown);
    CHECK(!strcmp(end(&unknown), "o") && status_says("not known whether"));
    unsetenv("PMIX_NAMESPACE");
    struct process alone = begin(NULL, NULL);
    launched(&alone);
    publish("B");
    settle();
    CHECK(!strcmp(end(&alone), "AB")); /* may change as it likes */
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "prepare"))
        return prepare(argv[2]);
    if (argc > 2 && !strcmp(argv[1], "rank"))
        return rank(argv[2]);
    e2e_begin(argc, argv);
    setenv("KGENRT_WORKER", "off", 1);
    setenv("KGENRT_MODE", "cached", 1);
    setenv("KGENRT_ACCURACY", "rel:1e-5", 1);
    setenv("KGENRT_SHADOW_MIB", "0", 1); /* a check would find out that they differ */
    setenv("KGENRT_LIVE_PAIRS", "0", 1);
    one_job();
    began_empty();
    no_agreement();
    if (test_failures)
        e2e_show_log();
    e2e_remove_cache();
    return test_result();
}
