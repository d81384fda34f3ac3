/* The replay child for real: a capture is written, originals and variants run as PTX in child
 * processes on the software GPU (or, with the argument gpu, on the machine's own), and each hostile
 * kind is refused by the gate named here, against both kernels of the fixture. */
#include "tune_fixture.h"

#include "tune/job.h"

#include <signal.h>

static char program[KG_PATH];

static bool open_job(struct job *job, const char *path)
{
    *job = (struct job){.dir = tune_dir};
    return job_open(job, path) == KG_OK && job_model(job) == KG_OK;
}

/* ---- cases -------------------------------------------------------------------------------------
 */

static void expect(struct job *job, bool in_place, const char *what, const struct parts *parts,
                   kg_status status, const char *gate, const char *words)
{
    char *ptx = kernel_ptx(in_place, true, parts);
    struct candidate candidate = {.maker = "test",
                                  .ptx = ptx,
                                  .entry = "k",
                                  .launch = job->capture.launch,
                                  .global_count = in_place,
                                  .globals = {"factor"}};
    struct verdict verdict = {0};
    candidate.code.data = (unsigned char *)ptx;
    candidate.code.size = strlen(ptx) + 1;
    kg_status got = verify_candidate(job, &candidate, &verdict);
    /* a real GPU does a kernel as small as this in no time: what it sees as faster is noise or
     * accident, but all other gates must have passed */
    bool timed = status == KG_OK || status == KG_SLOWER;
    if (timed && (got == KG_OK || got == KG_SLOWER) &&
        strcmp(job->capture.hardware.vendor, "softgpu"))
        status = got, gate = got == KG_OK ? "" : "time", words = "";
    bool good = CHECK(got == status) && CHECK(!strcmp(verdict.gate, gate)) &&
                CHECK(strstr(verdict.reason, words));
    fprintf(stderr, "%s%s, %s: %s%s%s%s%s\n", good ? "" : "  ", in_place ? "in place" : "plain",
            what, status_text(got), *gate ? ", gate " : "", verdict.gate,
            *verdict.reason ? ": " : "", verdict.reason);
    if (!good || !strcmp(what, "right"))
        fprintf(stderr, "%s\n", verdict.evidence ? verdict.evidence : "no evidence");
    free(verdict.evidence);
    free(ptx);
}

static void variants(struct job *job, bool in_place)
{
    const char *unwritten = in_place ? "compare" : "poison";
    bool soft = !strcmp(job->capture.hardware.vendor, "softgpu"); /* it ends hangs by itself */
    char distance[160]; /* right only where its buffers stand as near as in the capture */
    const struct capture_region *regions = job->capture.regions;
    snprintf(distance, sizeof distance,
             "\tsub.s64 %%rd9, %%rd4, %%rd3;\n\tsetp.ne.s64 %%p2, %%rd9, %lld;\n"
             "\t@%%p2 add.f32 %%f3, %%f3, 0f3F800000;\n",
             (long long)(regions[1].address - regions[0].address));
    const struct {
        const char *what;
        struct parts parts;
        kg_status status;
        const char *gate, *words;
    } cases[] = {
        {"right", {0}, KG_OK, "", ""},
        {"not faster", {.slow = slow}, KG_SLOWER, "time", "no gain, ratio "},
        {"off by one at the edge",
         {.limit = "\tadd.s32 %r5, %r5, 1;\n"},
         KG_REFUSED,
         "bounds",
         "reads k_0 out of bounds"}, /* reads x there first */
        {"missing tail",
         {.limit = "\tand.b32 %r5, %r5, -128;\n"},
         KG_REFUSED,
         unwritten,
         "parameter 1 + 3584"},
        {"one block wrong",
         {.before = "\tsetp.eq.s32 %p2, %r1, 3;\n\t@%p2 add.f32 %f3, %f3, 0f3F800000;\n"},
         KG_REFUSED,
         "compare",
         "block 3 if"},
        {"writes past the end",
         {.after = "\tsetp.eq.s32 %p2, %r4, 5;\n\t@%p2 st.global.f32 [%rd7+4400], %f3;\n"},
         KG_REFUSED,
         "bounds",
         "thread (5,0,0): writes k_1 out of bounds"},
        {"endless loop",
         {.before = "FOREVER:\n\tadd.s32 %r8, %r8, 1;\n\tbra FOREVER;\n"},
         KG_REFUSED,
         "instrumented",
         "more iterations than its budget"},
        {"does nothing",
         {.limit = "\tmov.u32 %r5, 0;\n"},
         KG_REFUSED,
         unwritten,
         "parameter 1 + 0"},
        {"illegal address",
         {.after = "\tadd.s64 %rd9, %rd7, 17592186044416;\n"
                   "\tst.global.f32 [%rd9], %f3;\n"},
         KG_REFUSED,
         "bounds",
         "writes k_1 out of bounds"},
        {"out of bounds where data says so", /* no thread of which is known to */
         {.after = "\tsetp.gt.f32 %p2, %f1, 0f00000000;\n\tsetp.lt.f32 %p3, %f1, 0f42C80000;\n"
                   "\tand.pred %p2, %p2, %p3;\n\t@%p2 st.global.f32 [%rd7+4400], %f3;\n"},
         KG_REFUSED,
         "instrumented",
         "past the end of parameter 1"},
        {"reads out of bounds and does not use it",
         {.after = "\tsetp.gt.f32 %p2, %f1, 0f00000000;\n"
                   "\t@%p2 ld.global.f32 %f4, [%rd6+9000];\n"},
         KG_REFUSED,
         "instrumented",
         "read of 4 bytes"},
        {"writes what another thread writes",
         {.after = "\tsetp.gt.f32 %p2, %f1, 0f00000000;\n\tsetp.lt.s32 %p3, %r4, 990;\n"
                   "\tand.pred %p2, %p2, %p3;\n\t@%p2 st.global.f32 [%rd7+4], %f3;\n"},
         KG_REFUSED,
         "instrumented",
         "race"},
        {"knows the distance", {.before = distance}, KG_REFUSED, "layout", "other addresses"},
        {"a barrier that is never complete",
         {.before = "\tbar.sync 1, 256;\n"},
         soft ? KG_REFUSED : KG_TIMEOUT,
         soft ? "instrumented" : "deadline",
         soft ? "LAUNCH_TIMEOUT" : "did not end"},
        {"no entry of this name", {.limit = "}\n"}, KG_REFUSED, "admission", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(job, in_place, cases[i].what, &cases[i].parts, cases[i].status, cases[i].gate,
               cases[i].words);
}

static void original_alone(struct job *job)
{
    struct verdict verdict = {0};
    CHECK(replay_original(job, 5, &verdict) == KG_OK);
    CHECK(verdict.original_ns > 0 && verdict.evidence && strstr(verdict.evidence, "\"result\""));
    fprintf(stderr, "original: %.0f ns %s\n", verdict.original_ns, verdict.reason);
    free(verdict.evidence);
}

/* Buffers that touch one another part in the other layouts. */
static void touching(const CUdeviceptr at[2], const struct kg_hardware *hardware)
{
    const CUdeviceptr next[2] = {at[0], at[0] + N * 4};
    char *ptx = kernel_ptx(false, true, &(struct parts){0});
    struct verdict verdict = {0};
    struct job job;
    if (!CHECK(write_capture(program, false, next, hardware)) || !CHECK(open_job(&job, program)))
        return;
    struct candidate candidate = {.maker = "test",
                                  .ptx = ptx,
                                  .entry = "k",
                                  .launch = job.capture.launch,
                                  .code = {(unsigned char *)ptx, strlen(ptx) + 1}};
    kg_status got = verify_candidate(&job, &candidate, &verdict);
    if (!CHECK(got == KG_OK || got == KG_SLOWER) ||
        !CHECK(strstr(verdict.evidence, "\"elsewhere\": \"same\"")) ||
        !CHECK(!options()->guard_pages ||
               (strstr(verdict.evidence, "\"end_at_unmapped_page\": \"same\"") &&
                strstr(verdict.evidence, "\"start_at_unmapped_page\": \"same\""))))
        fprintf(stderr, "  touching: %s: %s\n", verdict.gate, verdict.reason);
    free(verdict.evidence);
    free(ptx);
    job_close(&job);
}

/* Ends of the child that nobody can blame on a variant: a first SIGKILL is forgiven, and a device
 * without memory is one to wait for. */
static void deaths(struct job *job)
{
    char *ptx = kernel_ptx(false, true, &(struct parts){0});
    struct candidate candidate = {.maker = "test",
                                  .ptx = ptx,
                                  .entry = "k",
                                  .launch = job->capture.launch,
                                  .code = {(unsigned char *)ptx, strlen(ptx) + 1}};
    struct verdict verdict = {0};
    setenv("TEST_KILLS", "1", 1);
    kg_status got = verify_candidate(job, &candidate, &verdict);
    if (!CHECK(got == KG_OK || got == KG_SLOWER))
        fprintf(stderr, "  killed once: %s: %s\n", verdict.gate, verdict.reason);
    free(verdict.evidence);
    verdict = (struct verdict){0};
    setenv("TEST_KILLS", "2", 1);
    CHECK(verify_candidate(job, &candidate, &verdict) == KG_NOT_ELIGIBLE);
    if (!CHECK(strstr(verdict.reason, "was killed twice")))
        fprintf(stderr, "  killed twice: %s: %s\n", verdict.gate, verdict.reason);
    free(verdict.evidence);
    unsetenv("TEST_KILLS");
    verdict = (struct verdict){0};
    setenv("SOFTGPU_FAULT", "oom:1", 1);
    if (!strcmp(job->capture.hardware.vendor, "softgpu")) {
        CHECK(verify_candidate(job, &candidate, &verdict) == KG_BUSY);
        if (!CHECK(strstr(verdict.reason, "OUT_OF_MEMORY")))
            fprintf(stderr, "  no memory: %s: %s\n", verdict.gate, verdict.reason);
    }
    unsetenv("SOFTGPU_FAULT");
    free(verdict.evidence);
    free(ptx);
}

/* In the child: as many of them as TEST_KILLS says are killed. */
static void die_if_told(const char *request)
{
    const char *text = getenv("TEST_KILLS");
    char path[KG_PATH];
    for (int kill = 0; text && kill < atoi(text); kill++) {
        CHECK(path_make(path, "%s.killed%d", request, kill) == KG_OK);
        if (!access(path, F_OK))
            continue;
        CHECK(file_write(path, "", 0, 0600) == KG_OK);
        (void)raise(SIGKILL);
    }
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "child")) {
        die_if_told(argv[argc - 1]);
        return replay_child(argc - 2, argv + 2);
    }
    fixture_device(argv);
    CUdeviceptr at[2];
    struct kg_hardware hardware;
    setenv("KGENRT_REPEATS", "5", 0);
    if (getenv("KGENRT_TEST_INSIDE")) /* the driver of a GPU would log what faults there */
        setenv("KGENRT_GUARD_PAGES", "1", 0);
    if (!fresh_dir() || !CHECK(addresses(at, &hardware)))
        return test_result();
    for (int in_place = 0; in_place < 2; in_place++) {
        struct job job;
        CHECK(path_make(program, "%s/%d.kgcap", tune_dir, in_place) == KG_OK);
        if (!CHECK(write_capture(program, in_place, at, &hardware)) ||
            !CHECK(open_job(&job, program)))
            continue;
        original_alone(&job);
        variants(&job, in_place);
        if (!in_place)
            deaths(&job);
        job_close(&job);
    }
    touching(at, &hardware);
    remove_all("");
    return test_result();
}
