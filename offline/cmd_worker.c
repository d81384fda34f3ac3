/* kgenrt worker: what works the spool off. */
#include "cli.h"

#include "tune/tune.h"

#include <time.h>

/* What became of the jobs that ended since `start`: who works by hand wants to see it. */
static void print_jobs(time_t start)
{
    json_t *stored = stored_read(cache_dir()), *job;
    size_t i;
    unsigned shown = 0;
    json_array_foreach(json_object_get(stored, "jobs"), i, job)
    {
        if (member_number(job, "time") < (double)start)
            continue;
        say("%s: %s: %s\n", member_text(job, "readable"), member_text(job, "state"),
            member_text(job, "detail"));
        shown++;
    }
    if (shown)
        say("'kgenrt status' and 'kgenrt show KERNEL' have the evidence, and why candidates were "
            "refused.\n");
    else
        say("No capture was worked off: 'kgenrt status' tells what there is.\n");
    json_decref(stored);
}

static int run(const struct arguments *arguments)
{
    struct worker_config config = {.once = argument(arguments, "once") != NULL,
                                   .detach = argument(arguments, "detach") != NULL,
                                   .capture = arguments->count ? arguments->operands[0] : NULL};
    time_t start = time(NULL);
    int code = worker_main(&config);
    if (!code && !config.detach && (config.once || config.capture))
        print_jobs(start);
    return code;
}

static const struct cli_option own_options[] = {
    {"once", 'o', NULL, "work off what is in the spool now, then end"},
    {"detach", 'd', NULL, "go into the background, in a session of its own"},
    {NULL, 0, NULL, NULL},
};

const struct command cmd_worker = {
    .name = "worker",
    .synopsis = "worker [OPTION...] [CAPTURE]",
    .summary = "make, verify and time variants of captured kernels",
    .description =
        "Takes captures from the spool of the cache folder, makes variants of each kernel, "
        "verifies "
        "them against the original in child processes, times both, and stores what is equal and "
        "faster. Programs start a worker themselves when there is work, and 'kgenrt run' does; by "
        "hand it is wanted for captures that wait (KGENRT_WORKER=off), and to see what it does "
        "(KGENRT_LOG=info).\n"
        "\n"
        "With CAPTURE it works on that file alone, and keeps it. One worker runs for each cache "
        "folder: a second one says so and ends. With --once or CAPTURE it prints what came of each "
        "job.",
    .options = own_options,
    .most = 1,
    .no_json = true,
    .examples = " kgenrt worker --once\n"
                " KGENRT_LOG=info kgenrt worker --once stencil.kgcap",
    .run = run,
};
