/* The functions that start another program, with the variables put back by which kgenrt gets into
 * it. What the program set itself stays as it is; of LD_AUDIT, LD_PRELOAD and GLIBC_TUNABLES only
 * our own entry is added. They may run in the child of a vfork and in signal handlers: nothing but
 * the stack is written. */
#include "audit.h"
#include "tunable.h"

#include <spawn.h>
#include <stdarg.h>

enum { KEPT = 64, KEPT_BYTES = 8192, MOST_VARIABLES = 4096, LISTS = 3 };

static struct {
    char text[KEPT_BYTES];
    size_t used;
    const char *lines[KEPT]; /* the first LISTS are lists, of which one entry is ours */
    unsigned count;
} kept;

static char ***environment; /* the program's */

typedef int exec_function(const char *, char *const[], char *const[]);
typedef int descriptor_function(int, char *const[], char *const[]);
typedef int spawn_function(pid_t *, const char *, const posix_spawn_file_actions_t *,
                           const posix_spawnattr_t *, char *const[], char *const[]);
static exec_function *real_execve, *real_execvpe;
static descriptor_function *real_fexecve;
static spawn_function *real_spawn, *real_spawnp;

/* ---- texts -------------------------------------------------------------------------------------
 */

/* Length of what both begin with. */
static size_t common(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n])
        n++;
    return n;
}

static bool begins(const char *text, const char *with)
{
    return !with[common(text, with)];
}

/* With the '='. */
static size_t name_length(const char *line)
{
    size_t n = 0;
    while (line[n] && line[n] != '=')
        n++;
    return n + (line[n] == '=');
}

static bool contains(const char *text, const char *part)
{
    for (; *text; text++)
        if (begins(text, part))
            return true;
    return false;
}

/* Appends as much as fits before the last byte. */
static size_t append(char *out, size_t size, size_t at, const char *text)
{
    while (*text && at + 1 < size)
        out[at++] = *text++;
    out[at] = 0;
    return at;
}

/* ---- what is kept ------------------------------------------------------------------------------
 */

static void keep(const char *name, const char *value)
{
    if (kept.count == KEPT)
        return;
    char *line = kept.text + kept.used;
    size_t room = sizeof kept.text - kept.used;
    size_t length = append(line, room, append(line, room, 0, name), value);
    if (length + 1 >= room)
        return; /* it may have been cut */
    kept.lines[kept.count++] = line;
    kept.used += length + 1;
}

void exec_begin(const struct link_map *program, const struct link_map *libc)
{
    /* a program that is no PIE has its own copy */
    environment = object_symbol(program, "environ");
    if (!environment)
        environment = object_symbol(libc, "environ");
    *(void **)&real_execve = object_symbol(libc, "execve");
    *(void **)&real_execvpe = object_symbol(libc, "execvpe");
}

void exec_keep(const char *auditor, const char *library)
{
    keep("LD_AUDIT=", auditor);
    keep("LD_PRELOAD=", library);
    keep("GLIBC_TUNABLES=", AUDIT_TUNABLE);
    if (kept.count != LISTS)
        kept.count = 0;
    for (char **line = kept.count ? *environment : NULL; line && *line; line++)
        if (begins(*line, "KGENRT_"))
            keep("", *line);
}

/* ---- what children get -------------------------------------------------------------------------
 */

static size_t length_of(char *const *list)
{
    size_t n = 0;
    while (list && list[n])
        n++;
    return n;
}

/* "NAME=ours:theirs" into the buffer, unless it does not fit. */
static char *joined(const char *mine, char *theirs, char buffer[static PATH_BYTES])
{
    size_t name = name_length(mine), length = append(buffer, PATH_BYTES, 0, mine);
    if (contains(theirs, mine + name))
        return theirs;
    if (theirs[name])
        length = append(buffer, PATH_BYTES, append(buffer, PATH_BYTES, length, ":"), theirs + name);
    return length + 1 < PATH_BYTES ? buffer : theirs;
}

/* out: room for what was given, what is kept, and the end. */
static void restored(char *const *given, char **out, char buffers[LISTS][PATH_BYTES])
{
    size_t count = length_of(given);
    for (size_t i = 0; i < count; i++)
        out[i] = given[i];
    for (unsigned k = 0; k < kept.count; k++) {
        const char *line = kept.lines[k];
        size_t name = name_length(line), i = 0;
        while (i < count && common(out[i], line) < name)
            i++;
        if (i == count)
            out[count++] = (char *)(uintptr_t)line;
        else if (k < LISTS)
            out[i] = joined(line, out[i], buffers[k]);
    }
    out[count] = NULL;
}

/* Runs `call` with `changed` instead of the environment `given`, or with that if it is too large.
 */
#define WITH_OURS(given, call)                                                                     \
    do {                                                                                           \
        size_t count_ = length_of(given);                                                          \
        char *list_[count_ > MOST_VARIABLES ? 1 : count_ + KEPT + 1];                              \
        char buffers_[LISTS][PATH_BYTES];                                                          \
        char *const *changed = given;                                                              \
        if (count_ <= MOST_VARIABLES) {                                                            \
            restored(given, list_, buffers_);                                                      \
            changed = list_;                                                                       \
        }                                                                                          \
        return call;                                                                               \
    } while (0)

static int audit_execve(const char *path, char *const arguments[], char *const given[])
{
    WITH_OURS(given, real_execve(path, arguments, changed));
}

static int audit_execvpe(const char *file, char *const arguments[], char *const given[])
{
    WITH_OURS(given, real_execvpe(file, arguments, changed));
}

static int audit_fexecve(int fd, char *const arguments[], char *const given[])
{
    WITH_OURS(given, real_fexecve(fd, arguments, changed));
}

static int audit_execv(const char *path, char *const arguments[])
{
    return audit_execve(path, arguments, *environment);
}

static int audit_execvp(const char *file, char *const arguments[])
{
    return audit_execvpe(file, arguments, *environment);
}

/* Runs `call` with `arguments`: those from `first` up to NULL, and `more` behind that. */
#define WITH_LIST(first, more, call)                                                               \
    do {                                                                                           \
        va_list list_;                                                                             \
        size_t count_ = 0;                                                                         \
        va_start(list_, first);                                                                    \
        for (const char *one_ = first; one_; one_ = va_arg(list_, const char *))                   \
            count_++;                                                                              \
        va_end(list_);                                                                             \
        char *arguments[count_ + 1];                                                               \
        arguments[0] = (char *)(uintptr_t)first;                                                   \
        va_start(list_, first);                                                                    \
        for (size_t i_ = 1; i_ <= count_; i_++)                                                    \
            arguments[i_] = va_arg(list_, char *);                                                 \
        more;                                                                                      \
        va_end(list_);                                                                             \
        return call;                                                                               \
    } while (0)

static int audit_execl(const char *path, const char *first, ...)
{
    WITH_LIST(first, (void)0, audit_execv(path, arguments));
}

static int audit_execlp(const char *file, const char *first, ...)
{
    WITH_LIST(first, (void)0, audit_execvp(file, arguments));
}

static int audit_execle(const char *path, const char *first, ...)
{
    char *const *given;
    WITH_LIST(first, given = va_arg(list_, char *const *), audit_execve(path, arguments, given));
}

static int audit_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[],
                       char *const given[])
{
    WITH_OURS(given, real_spawn(pid, path, actions, attributes, arguments, changed));
}

static int audit_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const arguments[],
                        char *const given[])
{
    WITH_OURS(given, real_spawnp(pid, file, actions, attributes, arguments, changed));
}

/* ---- whose binding they take -------------------------------------------------------------------
 */

void *exec_instead(const char *name, void *real)
{
    static void *unused;
    static const struct {
        const char *name;
        void *instead, **real;
    } functions[] = {
        {"execve", (void *)audit_execve, &unused},
        {"execv", (void *)audit_execv, &unused},
        {"execvp", (void *)audit_execvp, &unused},
        {"execvpe", (void *)audit_execvpe, &unused},
        {"execl", (void *)audit_execl, &unused},
        {"execlp", (void *)audit_execlp, &unused},
        {"execle", (void *)audit_execle, &unused},
        {"fexecve", (void *)audit_fexecve, (void **)&real_fexecve},
        {"posix_spawn", (void *)audit_spawn, (void **)&real_spawn},
        {"posix_spawnp", (void *)audit_spawnp, (void **)&real_spawnp},
    };
    if (!environment || !real_execve || !real_execvpe)
        return NULL;
    for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++)
        if (text_equal(functions[i].name, name)) {
            *functions[i].real = real;
            return functions[i].instead;
        }
    return NULL;
}
