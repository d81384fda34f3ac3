/* kgenrt replay: runs a captured launch of an original again. */
#include "cli.h"

#include "tune/tune.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RUNS = 100000, STANDARD_RUNS = 20 };

static void print(const json_t *result)
{
    const json_t *evidence = json_object_get(result, "evidence");
    char time[SHORT_TEXT], app[SHORT_TEXT];
    if (!json_is_true(json_object_get(result, "replayed"))) {
        say("%s: not replayed: %s\n", member_text(result, "readable"),
            member_text(result, "reason"));
        return;
    }
    say("%s: %s, the best of %.0f runs", member_text(result, "readable"),
        duration_text(member_number(result, "time_ns"), time), member_number(result, "runs"));
    if (member_number(evidence, "app_ns") > 0)
        say("; %s in the program", duration_text(member_number(evidence, "app_ns"), app));
    say("\n  %-14s %s\n", "on", member_text(evidence, "device"));
    say("  %-14s %s\n", "inputs", member_text(evidence, "inputs"));
    say("  %-14s %s\n", "result", member_text(evidence, "result"));
}

static kg_status open_job(struct job *job, const char *path)
{
    job->dir = cache_dir();
    kg_status status = job_open(job, path);
    if (status != KG_OK)
        return status;
    status = job_model(job);
    if (status != KG_OK)
        failed("%s: its code cannot be read: %s", path, status_text(status));
    return status;
}

static json_t *result_of(const struct job *job, const char *path, long runs, kg_status status,
                         const struct verdict *verdict)
{
    char readable[512];
    json_t *evidence = verdict->evidence ? json_loads(verdict->evidence, 0, NULL) : NULL;
    const char *reason = *verdict->reason  ? verdict->reason
                         : status == KG_OK ? ""
                                           : status_text(status);
    return json_pack("{s:o, s:o, s:o, s:o, s:b, s:I, s:f, s:o, s:o, s:o}", "file", json_text(path),
                     "kernel", json_id(&job->capture.kernel), "name", json_text(job->capture.entry),
                     "readable",
                     json_text(name_readable(job->capture.entry, readable, sizeof readable)),
                     "replayed", status == KG_OK, "runs", (json_int_t)runs, "time_ns",
                     verdict->original_ns, "gate", json_text(verdict->gate), "reason",
                     json_text(reason), "evidence", evidence ? evidence : json_null());
}

static int run(const struct arguments *arguments)
{
    const char *path = arguments->operands[0];
    struct verdict verdict = {.status = KG_OK};
    long runs;
    if (!argument_number(arguments, "runs", 1, MOST_RUNS, STANDARD_RUNS, &runs))
        return EXIT_WRONG_USE;
    if (!*cache_dir() || dir_make(cache_dir()) != KG_OK)
        return failed("the cache folder '%s' cannot be used: set KGENRT_CACHE", cache_dir());
    struct job *job = calloc(1, sizeof *job);
    if (!job)
        return failed("out of memory");
    kg_status status = open_job(job, path);
    int code = EXIT_FAILED;
    if (status == KG_OK) {
        status = replay_original(job, (unsigned)runs, &verdict);
        if (status == KG_NO_DRIVER)
            failed("the capture was made on %s: 'kgenrt doctor' says what is missing here",
                   job->capture.hardware.name);
        code = output(arguments, result_of(job, path, runs, status, &verdict), print,
                      status == KG_OK ? EXIT_GOOD : EXIT_FAILED);
        free(verdict.evidence);
    }
    job_close(job);
    free(job);
    return code;
}

static const struct cli_option own_options[] = {
    {"runs", 'n', "N", "launches that are timed (20)"},
    {NULL, 0, NULL, NULL},
};

const struct command cmd_replay = {
    .name = "replay",
    .synopsis = "replay [OPTION...] CAPTURE",
    .summary = "run a captured launch again, and time it",
    .description =
        "Runs the original kernel of CAPTURE in a child process, at the captured addresses and "
        "with "
        "the captured memory, and prints its time and the digests of its inputs and of what it "
        "wrote. Two replays of one capture whose results differ mean that the kernel's result "
        "varies from run to run. The device must be of the kind the capture was made on. --json "
        "has all that was found.",
    .options = own_options,
    .least = 1,
    .most = 1,
    .examples = " kgenrt replay --runs 100 softmax-1f2e3d4c.kgcap",
    .run = run,
};
