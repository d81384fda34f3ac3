/* kgenrt, the tool: the table of its commands. */
#include "cli.h"
#include "log.h"

#include <string.h>

const struct command *const commands[] = {&cmd_run,     &cmd_status, &cmd_list,   &cmd_show,
                                          &cmd_capture, &cmd_replay, &cmd_verify, &cmd_worker,
                                          &cmd_doctor,  &cmd_child,  NULL};

static const struct command *find(const char *name)
{
    for (const struct command *const *command = commands; *command; command++)
        if (!strcmp((*command)->name, name))
            return *command;
    return NULL;
}

static int unknown(const char *name)
{
    fprintf(stderr, "kgenrt: there is no command '%s'; try 'kgenrt --help'\n", name);
    return EXIT_WRONG_USE;
}

static int help(int argc, char **argv)
{
    if (argc < 3) {
        help_tool(stdout);
        return EXIT_GOOD;
    }
    const struct command *command = find(argv[2]);
    if (!command)
        return unknown(argv[2]);
    help_command(stdout, command);
    return EXIT_GOOD;
}

int main(int argc, char **argv)
{
    log_readable(names_readable);
    if (argc < 2) {
        fprintf(stderr, "kgenrt: a command is missing; try 'kgenrt --help'\n");
        return EXIT_WRONG_USE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return help(argc, argv);
    if (!strcmp(argv[1], "--version")) {
        printf("kgenrt %s\n", KG_VERSION);
        return EXIT_GOOD;
    }
    const struct command *command = find(argv[1]);
    if (!command)
        return unknown(argv[1]);
    struct arguments arguments;
    if (!arguments_parse(command, argc - 2, argv + 2, &arguments))
        return EXIT_WRONG_USE;
    if (argument(&arguments, "help")) {
        help_command(stdout, command);
        return EXIT_GOOD;
    }
    return command->run(&arguments);
}
