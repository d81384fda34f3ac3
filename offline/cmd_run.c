/* kgenrt run: a program with the library in it, a worker beside it. */
#include "cli.h"

#include <string.h>

enum { KGENRT_FAILED = 125 };

static int run(const struct arguments *arguments)
{
    struct start start = {.program = arguments->operands,
                          .mode = argument(arguments, "mode"),
                          .makers = argument(arguments, "makers"),
                          .via = argument(arguments, "via")};
    enum kg_mode known;
    if (start.mode && !mode_parse(start.mode, &known))
        return wrong_use(arguments->command, "'%s' is none of off, observe, cached, tune",
                         start.mode);
    if (start.via && strcmp(start.via, "auto") && strcmp(start.via, "preload") &&
        strcmp(start.via, "audit"))
        return wrong_use(arguments->command, "'%s' is none of auto, preload, audit", start.via);
    const char *mode = start.mode ? start.mode : options()->mode;
    start.worker = !strcmp(mode, "tune") && strcmp(options()->worker, "off");
    kg_status status = start_run(&start);
    return status == KG_OK || status == KG_BAD_INPUT ? start.code : KGENRT_FAILED;
}

static const struct cli_option own_options[] = {
    {"mode", 'm', "MODE", "off, observe, cached or tune; sets KGENRT_MODE"},
    {"makers", 'M', "LIST", "who makes variants: rules, openai, recorded:DIR; sets KGENRT_MAKERS"},
    {"via", 'v', "WAY", "auto, preload or audit: how the library gets into PROGRAM (auto)"},
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
        "The program itself is not changed. One that is linked statically, set-user-id, for "
        "another "
        "kind of processor or for another C library than glibc cannot be reached: that is said, "
        "and "
        "it runs as it would without kgenrt.\n"
        "\n"
        "With --via audit, libkgenrt_audit.so is loaded as well, by LD_AUDIT. It sees what a "
        "library "
        "opened with RTLD_DEEPBIND hides from a preload, and puts the variables back that the "
        "program removes or overwrites for programs that it starts by exec or posix_spawn (not by "
        "system or popen). It costs nothing a launch, a part of a millisecond at each start of a "
        "process and 64 KiB of address space a thread (for which GLIBC_TUNABLES is set), and needs "
        "glibc 2.35. With --via auto the preload alone is used, unless an "
        "earlier run of the same file was seen to use the driver past it: the driver "
        "was used, and the library in that process was not asked for it, or a process of the "
        "program had "
        "the driver and not the library, when kgenrt run looked (after half a second, and then "
        "after ever longer times). What ends before that, is killed or ends by _exit, is not seen; "
        "nor is a driver of a namespace of its own (dlmopen), nor what a library opened with "
        "RTLD_DEEPBIND calls without a PLT.\n"
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
                " kgenrt run --mode cached --cache /srv/kgenrt ./app\n"
                " kgenrt run --via audit ./app",
    .run = run,
};
