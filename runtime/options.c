/* Options from the environment, by the rows of options.def. Read once: an app may change its
 * environment later from another thread. */
#include "kgenrt.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPT_INT(variable, standard) integer(variable, standard)
#define OPT_TEXT(variable, standard) text(variable, standard)

static struct kg_options values;
static char folder[KG_PATH];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *bad_variable, *bad_value; /* the first one, said when the log can be used */

static const char *text(const char *variable, const char *standard)
{
    const char *value = getenv(variable);
    char *copy = strdup(value ? value : standard);
    return copy ? copy : standard;
}

static long integer(const char *variable, long standard)
{
    const char *value = getenv(variable);
    if (!value || !*value)
        return standard;
    char *end;
    errno = 0;
    long number = strtol(value, &end, 10);
    if (!errno && !*end && number >= 0)
        return number;
    bad_variable = variable;
    bad_value = value;
    return standard;
}

static void choose_folder(void)
{
    const char *base = values.cache, *tail = "";
    if (!*base && (base = getenv("XDG_CACHE_HOME")) && *base)
        tail = "/kgenrt";
    else if (!base || !*base)
        base = getenv("HOME"), tail = "/.cache/kgenrt";
    if (!base || !*base ||
        snprintf(folder, sizeof folder, "%s%s", base, tail) >= (int)sizeof folder)
        *folder = 0;
    for (size_t n = strlen(folder); n > 1 && folder[n - 1] == '/'; n--)
        folder[n - 1] = 0;
}

static void load(void)
{
#define OPT(type, field, variable, standard, description)                                          \
    values.field = OPT_##type(variable, standard);
#include "options.def"
#undef OPT
    choose_folder();
}

const struct kg_options *options(void)
{
    pthread_once(&once, load);
    if (bad_variable) {
        const char *variable = bad_variable, *value = bad_value;
        bad_variable = NULL;
        log_line(KG_WARN, "%s='%s' is no number from 0 up: the default is used", variable, value);
    }
    return &values;
}

void options_each(void (*row)(void *, const char *, const char *, const char *, const char *),
                  void *self)
{
    char value[64];
    const struct kg_options *now = options();
#define SHOW_INT(field) (snprintf(value, sizeof value, "%ld", now->field), value)
#define SHOW_TEXT(field) now->field
#define SHOW_STANDARD_INT(standard) #standard
#define SHOW_STANDARD_TEXT(standard) standard
#undef OPT_INT
#undef OPT_TEXT
#define OPT(type, field, variable, standard, description)                                          \
    row(self, variable, SHOW_##type(field), SHOW_STANDARD_##type(standard), description);
#include "options.def"
#undef OPT
}

enum kg_mode options_mode(void)
{
    static const char *const modes[] = {"off", "observe", "cached", "tune"};
    const char *mode = options()->mode;
    for (int i = 0; i < 4; i++)
        if (!strcmp(mode, modes[i]))
            return (enum kg_mode)i;
    log_line(KG_WARN, "KGENRT_MODE='%s' is none of off, observe, cached, tune: off is used", mode);
    return KG_MODE_OFF;
}

const char *cache_dir(void)
{
    options();
    return folder;
}
