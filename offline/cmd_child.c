/* kgenrt child NAME: the worker's short-lived children, in which unproven code is compiled and run.
 * Not for people: what they read and write is between the worker and them. */
#include "cli.h"

#include "tune/tune.h"

#include <string.h>

static int run(const struct arguments *arguments)
{
    static const struct {
        const char *name;
        int (*main)(int argc, char **argv);
    } children[] = {{"compile", compile_child}, {"replay", replay_child}};
    for (unsigned i = 0; i < sizeof children / sizeof *children; i++)
        if (!strcmp(arguments->operands[0], children[i].name))
            return children[i].main(arguments->count, arguments->operands);
    return wrong_use(arguments->command, "there is no child '%s'", arguments->operands[0]);
}

const struct command cmd_child = {
    .name = "child",
    .synopsis = "child NAME [ARGUMENT...]",
    .summary = "a child of the worker (internal)",
    .description = "Started by the worker alone.",
    .least = 1,
    .most = -1,
    .program = true,
    .hidden = true,
    .no_json = true,
    .foreign_status = true,
    .run = run,
};
