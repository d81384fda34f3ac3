/* kgenrt run: a program with the preload, a worker beside it. */
#include "cli.h"

#include <string.h>

enum { KGENRT_FAILED = 125 };

static int run(const struct arguments *arguments)
{
    struct start start = {.program = arguments->operands,
                          .mode = argument(arguments, "mode"),
                          .makers = argument(arguments, "makers")};
    enum kg_mode known;
    if (start.mode && !mode_parse(start.mode, &known))
        return wrong_use(arguments->command, "'%s' is none of off, observe, cached, tune",
                         start.mode);
    const char *mode = start.mode ? start.mode : options()->mode;
    start.worker = !strcmp(mode, "tune") && strcmp(options()->worker, "off");
    kg_status status = start_run(&start);
    return status == KG_OK || status == KG_BAD_INPUT ? start.code : KGENRT_FAILED;
}

static const struct cli_option own_options[] = {
    {"mode", 'm', "MODE", "off, observe, cached or tune; sets KGENRT_MODE"},
    {"makers", 'M', "LIST", "who makes variants: rules, openai, recorded:DIR; sets KGENRT_MAKERS"},
    {NULL, 0, NULL, NULL},
};

const struct command cmd_run = {
    .name = "run",
    .synopsis = "run [OPTION...] PROGRAM [ARGUMENT...]",
    .summary = "run a program and make its kernels faster meanwhile",
    .description =
        "Starts PROGRAM with libkgenrt.so preloaded. In mode tune a worker process is started "
        "beside it; it makes, verifies and times variants of the program's hot kernels, is started "
        "again if it dies while there is work, and ends with the program. Signals sent to kgenrt "
        "run are handed on to the program. Its output, input and exit status are the program's.\n"
        "\n"
        "The program itself is not changed. A program that is linked statically, set-user-id, or "
        "that clears its environment for its children, cannot be reached by a preload: it runs as "
        "it would without kgenrt, and 'kgenrt status' does not list it.\n"
        "\n"
        "Options of kgenrt run end at PROGRAM.",
    .options = own_options,
    .least = 1,
    .most = -1,
    .program = true,
    .no_json = true,
    .foreign_status = true,
    .exits = "The program's own exit status, or 128 + N if signal N ended it; 125 if kgenrt could "
             "not do its part before the program was started; 126 or 127 if the program cannot be "
             "started or is not found.",
    .examples = " kgenrt run ./app --iterations 1000\n"
                " kgenrt run --makers rules ./app\n"
                " kgenrt run --mode cached --cache /srv/kgenrt ./app",
    .run = run,
};
