/* kgenrt worker: what works the spool off. */
#include "cli.h"

#include "tune/tune.h"

static int run(const struct arguments *arguments)
{
    struct worker_config config = {.once = argument(arguments, "once") != NULL,
                                   .detach = argument(arguments, "detach") != NULL,
                                   .capture = arguments->count ? arguments->operands[0] : NULL};
    return worker_main(&config);
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
        "With CAPTURE it works on that file alone, and keeps it. One worker runs for each user and "
        "GPU: a second one says so and ends.",
    .options = own_options,
    .most = 1,
    .no_json = true,
    .examples = " kgenrt worker --once\n"
                " KGENRT_LOG=info kgenrt worker stencil.kgcap",
    .run = run,
};
