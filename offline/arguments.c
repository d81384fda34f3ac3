/* The command line, by each command's table of options. */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const struct cli_option common_options[COMMON_OPTIONS] = {
    {"cache", 'C', "DIR", "cache folder, instead of KGENRT_CACHE"},
    {"help", 'h', NULL, "show this help"},
    {"json", 'j', NULL, "print JSON instead of text"},
};

int common_count(const struct command *command)
{
    return COMMON_OPTIONS - command->no_json;
}

/* The option at `place`, counted through the command's own and the common ones; NULL at the end. */
static const struct cli_option *option_at(const struct command *command, int place)
{
    const struct cli_option *option = command->options;
    for (; option && option->name; option++)
        if (!place--)
            return option;
    return place < common_count(command) ? &common_options[place] : NULL;
}

/* Place of "--name", of "--name=value" or of a letter; -1: none. */
static int option_find(const struct command *command, const char *text)
{
    const struct cli_option *option;
    size_t length = strcspn(text, "=");
    for (int place = 0; (option = option_at(command, place)); place++) {
        if (text[1] == '-' && strlen(option->name) == length - 2 &&
            !strncmp(text + 2, option->name, length - 2))
            return place;
        if (text[1] != '-' && option->letter && text[1] == option->letter)
            return place;
    }
    return -1;
}

int wrong_use(const struct command *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "kgenrt %s: ", command->name);
    vfprintf(stderr, format, args);
    fprintf(stderr, "; try 'kgenrt %s --help'\n", command->name);
    va_end(args);
    return EXIT_WRONG_USE;
}

/* One option at argv[at]; the number of words it took, 0 after a line that says what is wrong. */
static int take_option(struct arguments *out, int argc, char **argv, int at)
{
    const char *text = argv[at];
    int place = option_find(out->command, text);
    if (place < 0) {
        wrong_use(out->command, "there is no option '%s'", text);
        return 0;
    }
    const struct cli_option *option = option_at(out->command, place);
    const char *equals = text[1] == '-' ? strchr(text, '=') : NULL;
    const char *joined = equals ? equals + 1 : text[1] != '-' && text[2] ? text + 2 : NULL;
    if (!option->argument) {
        if (joined) {
            wrong_use(out->command, "option --%s takes no argument", option->name);
            return 0;
        }
        out->values[place] = "";
        return 1;
    }
    if (!joined && at + 1 >= argc) {
        wrong_use(out->command, "option --%s needs an argument, %s", option->name,
                  option->argument);
        return 0;
    }
    out->values[place] = joined ? joined : argv[at + 1];
    return joined ? 1 : 2;
}

static bool check(const struct arguments *out)
{
    const struct command *command = out->command;
    if (argument(out, "help"))
        return true;
    if (out->count < command->least)
        wrong_use(command, "something is missing: kgenrt %s", command->synopsis);
    else if (command->most >= 0 && out->count > command->most)
        wrong_use(command, "too much is given, from '%s' on", out->operands[command->most]);
    else
        return true;
    return false;
}

bool arguments_parse(const struct command *command, int argc, char **argv, struct arguments *out)
{
    *out = (struct arguments){.command = command, .operands = argv};
    int at = 0;
    for (bool options = true; at < argc;) {
        if (options && !strcmp(argv[at], "--")) {
            options = false;
            at++;
        } else if (options && argv[at][0] == '-' && argv[at][1]) {
            int taken = take_option(out, argc, argv, at);
            if (!taken)
                return false;
            at += taken;
        } else if (command->program) {
            break;
        } else {
            argv[out->count++] = argv[at++]; /* never beyond what has been read */
        }
    }
    if (command->program) {
        out->operands = argv + at;
        out->count = argc - at;
    }
    const char *cache = argument(out, "cache");
    if (cache && setenv("KGENRT_CACHE", cache, 1)) {
        wrong_use(command, "%s", strerror(errno));
        return false;
    }
    return check(out);
}

const char *argument(const struct arguments *arguments, const char *name)
{
    const struct cli_option *option;
    for (int place = 0; (option = option_at(arguments->command, place)); place++)
        if (!strcmp(option->name, name))
            return arguments->values[place];
    return NULL;
}

bool argument_number(const struct arguments *arguments, const char *name, long least, long most,
                     long standard, long *out)
{
    const char *text = argument(arguments, name);
    char *end;
    *out = standard;
    if (!text)
        return true;
    errno = 0;
    *out = strtol(text, &end, 10);
    if (!errno && *text && !*end && *out >= least && *out <= most)
        return true;
    wrong_use(arguments->command, "--%s must be a number from %ld to %ld, not '%s'", name, least,
              most, text);
    return false;
}
