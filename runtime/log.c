/* The log: one line, one write(2), from a stack buffer; no allocation, no lock, bounded in number.
 */
#include "log.h"

#include "kgenrt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_LINES = 200 };

static const char *const names[] = {"error", "warn", "info", "debug"};

static const char *(*readable)(const char *line, char *out, size_t size);

void log_readable(const char *(*function)(const char *line, char *out, size_t size))
{
    readable = function;
}

static enum kg_level threshold(void)
{
    static atomic_int known = -1;
    int level = atomic_load_explicit(&known, memory_order_relaxed);
    if (level >= 0)
        return (enum kg_level)level;
    level = KG_WARN;
    for (int i = 0; i < 4; i++)
        if (!strcmp(options()->log, names[i]))
            level = i;
    atomic_store_explicit(&known, level, memory_order_relaxed);
    return (enum kg_level)level;
}

bool log_wanted(enum kg_level level)
{
    return level <= threshold();
}

/* The file is opened for each line: the app may close any descriptor, and log files rotate. */
static void emit(const char *line, size_t length)
{
    const char *path = options()->log_file;
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK; /* of a FIFO */
    int fd = *path ? open(path, flags, 0600) : STDERR_FILENO;
    struct kg_quiet quiet;
    if (fd < 0)
        return;
    quiet_begin(&quiet);
    while (write(fd, line, length) < 0 && errno == EINTR)
        ;
    quiet_end(&quiet);
    if (fd != STDERR_FILENO)
        close(fd);
}

void log_line(enum kg_level level, const char *format, ...)
{
    static atomic_int lines;
    if (!log_wanted(level))
        return;
    if (level <= KG_WARN &&
        atomic_fetch_add_explicit(&lines, 1, memory_order_relaxed) >= MOST_LINES)
        return;
    int saved = errno;
    char line[1024];
    int used = snprintf(line, sizeof line, "kgenrt[%d] %s: ", (int)getpid(), names[level]);
    va_list args;
    va_start(args, format);
    int more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
    va_end(args);
    size_t length = (size_t)used + (more < 0 ? 0 : (size_t)more);
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    char clear[sizeof line];
    if (readable && readable(line, clear, sizeof clear - 1))
        length = strlen(strcpy(line, clear));
    line[length++] = '\n';
    emit(line, length);
    errno = saved;
}

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
