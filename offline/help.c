/* Help like a manual page's, from the tables: the tool's, and each command's. */
#include "cli.h"

#include <string.h>

enum { WIDTH = 78, INDENT = 7 };

/* Words of a paragraph, broken at WIDTH; a newline in the text is kept, and a line that begins with
 * a space stays as it is. */
static void wrap(FILE *out, const char *text, int indent)
{
    while (*text) {
        size_t line = strcspn(text, "\n");
        int column = 0;
        fprintf(out, "%*s", line ? indent : 0, "");
        if (*text == ' ') {
            fprintf(out, "%.*s", (int)line, text);
            text += line;
            line = 0;
        }
        for (const char *end = text + line; text < end;) {
            size_t word = strcspn(text, " \n");
            if (column && column + 1 + (int)word > WIDTH - indent) {
                fprintf(out, "\n%*s", indent, "");
                column = 0;
            }
            column += fprintf(out, "%s%.*s", column ? " " : "", (int)word, text);
            text += word;
            while (text < end && *text == ' ')
                text++;
        }
        fputc('\n', out);
        text += *text == '\n';
    }
}

static void section(FILE *out, const char *title)
{
    fprintf(out, "%s%s\n", strcmp(title, "NAME") ? "\n" : "", title);
}

static void print_option(FILE *out, const struct cli_option *option)
{
    char letter[] = {'-', option->letter, ',', 0};
    fprintf(out, "%*s%-4s--%s%s%s\n", INDENT, "", option->letter ? letter : "", option->name,
            option->argument ? " " : "", option->argument ? option->argument : "");
    wrap(out, option->text, INDENT + 6);
}

static void print_exits(FILE *out)
{
#define EXIT_CODE(name, code, text) fprintf(out, "%*s%-5d %s\n", INDENT, "", code, text);
    EXIT_CODES
#undef EXIT_CODE
}

static void print_variable(void *self, const char *variable, const char *value,
                           const char *standard, const char *text)
{
    FILE *out = self;
    fprintf(out, "%*s%s", INDENT, "", variable);
    if (*standard)
        fprintf(out, " (%s)", standard);
    fputc('\n', out);
    wrap(out, text, INDENT + 6);
}

static void print_environment(FILE *out)
{
    section(out, "ENVIRONMENT");
    wrap(out,
         "The preload library, the worker and the tool read these; the value in parentheses is "
         "used where a variable is not set.",
         INDENT);
    options_each(print_variable, out);
}

void help_tool(FILE *out)
{
    section(out, "NAME");
    wrap(out, "kgenrt - makes the GPU kernels of running programs faster, and proves it", INDENT);
    section(out, "SYNOPSIS");
    wrap(out, "kgenrt COMMAND [OPTION...] [ARGUMENT...]", INDENT);
    wrap(out, "LD_PRELOAD=libkgenrt.so PROGRAM [ARGUMENT...]", INDENT);
    section(out, "DESCRIPTION");
    wrap(out,
         "kgenrt watches the kernel launches of an unmodified CUDA program, captures some launches "
         "of "
         "each kernel that matters, and has a worker process make variants of it. A variant that "
         "computes what the original computes, and is measurably faster on this GPU, goes into the "
         "cache; the running program picks it up between two launches, and the next run at once. "
         "Whatever fails, the original runs.",
         INDENT);
    section(out, "COMMANDS");
    for (const struct command *const *command = commands; *command; command++)
        if (!(*command)->hidden)
            fprintf(out, "%*s%-9s %s\n", INDENT, "", (*command)->name, (*command)->summary);
    fprintf(out, "\n%*s'kgenrt COMMAND --help' describes one.\n", INDENT, "");
    section(out, "OPTIONS");
    fprintf(out, "%*s-h, --help\n%*s    --version\n", INDENT, "", INDENT, "");
    fprintf(out, "\n%*sEvery command has (--json where it lists something):\n", INDENT, "");
    for (int i = 0; i < COMMON_OPTIONS; i++)
        print_option(out, &common_options[i]);
    section(out, "EXIT STATUS");
    print_exits(out);
    print_environment(out);
    section(out, "FILES");
    wrap(out,
         "Below the cache folder (KGENRT_CACHE, else $XDG_CACHE_HOME/kgenrt, else "
         "~/.cache/kgenrt), which belongs to one user and is readable by nobody else:",
         INDENT);
    wrap(out,
         " store/      what the worker knows: variants, evidence, rejections, jobs\n"
         " snapshots/  what programs open: the best variants for one kind of GPU\n"
         " spool/      captures that wait for the worker; removed after its verdict\n"
         " captures/   captures of published variants, for kgenrt verify, as KGENRT_KEPT_MIB says\n"
         " material/   PTX of kernels that programs load as machine code, as compilers made it;\n"
         "             removed when unused for 30 days\n"
         " judged/     kernels without a faster variant; programs leave them alone for 7 days\n"
         " looked/     variants that were verified again on a launch of a program, for a week\n"
         " bound/      the snapshot that all processes of one job use, for a day\n"
         " missed/     programs that used the driver past the preload, for kgenrt run\n"
         " flight/     what each program last said of itself\n"
         " work/       what a replay is made from; empty between replays\n"
         " worker.log  what a worker that a program started says",
         INDENT);
    section(out, "EXAMPLES");
    wrap(out,
         " kgenrt run ./app            run a program, tune it meanwhile\n"
         " kgenrt status               what got faster, by how much, on what evidence\n"
         " kgenrt doctor               what would stand in the way on this machine",
         INDENT);
}

void help_command(FILE *out, const struct command *command)
{
    section(out, "NAME");
    fprintf(out, "%*skgenrt %s - %s\n", INDENT, "", command->name, command->summary);
    section(out, "SYNOPSIS");
    fprintf(out, "%*skgenrt %s\n", INDENT, "", command->synopsis);
    section(out, "DESCRIPTION");
    wrap(out, command->description, INDENT);
    section(out, "OPTIONS");
    for (const struct cli_option *option = command->options; option && option->name; option++)
        print_option(out, option);
    for (int i = 0; i < common_count(command); i++)
        print_option(out, &common_options[i]);
    section(out, "EXIT STATUS");
    if (!command->foreign_status)
        print_exits(out);
    if (command->exits)
        wrap(out, command->exits, INDENT);
    print_environment(out);
    if (command->examples) {
        section(out, "EXAMPLES");
        wrap(out, command->examples, INDENT);
    }
}
