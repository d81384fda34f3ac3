/* Options from the environment, by the rows of options.def. Read once: an app may change its
 * environment later from another thread. */
#include "kgenrt.h"

#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_NUMBER = 1000000000 }; /* so that no unit overflows */

#define OPT_INT(variable, standard) integer(variable, standard)
#define OPT_TEXT(variable, standard) text(variable, standard)

static struct kg_options values;
static char folder[KG_PATH];
static pthread_once_t once = PTHREAD_ONCE_INIT;
/* The first bad one; said when the log can be used, by whoever comes first. */
static _Atomic(const char *) bad_variable;
static const char *bad_value;

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
    if (!errno && !*end && number >= 0 && number <= MOST_NUMBER)
        return number;
    if (!atomic_load(&bad_variable)) {
        bad_value = value;
        atomic_store(&bad_variable, variable);
    }
    return standard;
}

static void choose_folder(void)
{
    const char *base = values.cache, *tail = "";
    if (!*base && (base = getenv("XDG_CACHE_HOME")) && *base)
        tail = "/kgenrt";
    else if (!base || !*base)
        base = getenv("HOME"), tail = "/.cache/kgenrt";
    char here[KG_PATH] = "";
    if (base && *base && *base != '/' && !getcwd(here, sizeof here)) /* the app may go elsewhere */
        base = NULL;
    if (!base || !*base ||
        snprintf(folder, sizeof folder, "%s%s%s%s", here, *here ? "/" : "", base, tail) >=
            (int)sizeof folder)
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
    if (atomic_load_explicit(&bad_variable, memory_order_relaxed)) {
        const char *variable = atomic_exchange(&bad_variable, NULL);
        if (variable)
            log_line(KG_WARN, "%s='%s' is no number from 0 to %d: the default is used", variable,
                     bad_value, MOST_NUMBER);
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

const char *const mode_names[KG_MODE_COUNT] = {"off", "observe", "cached", "tune"};

bool mode_parse(const char *text, enum kg_mode *out)
{
    for (int i = 0; i < KG_MODE_COUNT; i++)
        if (!strcmp(text, mode_names[i])) {
            *out = (enum kg_mode)i;
            return true;
        }
    return false;
}

enum kg_mode options_mode(void)
{
    enum kg_mode mode = KG_MODE_OFF;
    const char *text = options()->mode;
    if (!mode_parse(text, &mode))
        log_line(KG_WARN, "KGENRT_MODE='%s' is none of off, observe, cached, tune: off is used",
                 text);
    return mode;
}

static bool limit_parse(const char *text, double most, bool inclusive, double *out)
{
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", NULL);
    char *end = NULL;
    if (!plain)
        return false;
    *out = strtod_l(text, &end, plain);
    freelocale(plain);
    return end != text && !*end && *out > 0 && (*out < most || (inclusive && *out <= most));
}

bool accuracy_parse(const char *text, struct accuracy *out)
{
    struct accuracy found = {.mode = ACCURACY_BITWISE};
    bool good = true;
    if (!strcmp(text, "auto")) {
        found.mode = ACCURACY_AUTO;
    } else if (!strncmp(text, "ulp:", 4)) {
        found.mode = ACCURACY_ULP;
        good = limit_parse(text + 4, 65536, true, &found.limit);
    } else if (!strncmp(text, "rel:", 4)) {
        found.mode = ACCURACY_REL;
        good = limit_parse(text + 4, 1, false, &found.limit);
    } else {
        good = !strcmp(text, "bitwise");
    }
    *out = good ? found : (struct accuracy){.mode = ACCURACY_BITWISE};
    return good;
}

bool accuracy_suits(const struct accuracy *has, const struct accuracy *wanted)
{
    return has->mode == ACCURACY_BITWISE ||
           (has->mode == wanted->mode && has->limit <= wanted->limit);
}

const char *cache_dir(void)
{
    options();
    return folder;
}
