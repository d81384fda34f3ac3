/* Runs the built kgenrt and looks at what it prints and returns. */
#ifndef CLI_H
#define CLI_H

#include "../unit/cache_fixture.h"

#include <fcntl.h>
#include <jansson.h>
#include <sys/wait.h>

static struct {
    int code;
    char out[1 << 20], errors[1 << 16];
} cli;

static inline void cli_read(const char *path, char *out, size_t size)
{
    FILE *file = fopen(path, "r");
    size_t used = file ? fread(out, 1, size - 1, file) : 0;
    out[used] = 0;
    if (file)
        fclose(file);
}

/* A shell command; $K is the built tool. Leaves code and both outputs in `cli`. */
static inline int cli_run(const char *dir, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline int cli_run(const char *dir, const char *format, ...)
{
    char command[4096], line[6000], path[300];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    snprintf(line, sizeof line, "{ %s ; } >%s/out 2>%s/errors </dev/null", command, dir, dir);
    int state = system(line);
    cli.code = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
    snprintf(path, sizeof path, "%s/out", dir);
    cli_read(path, cli.out, sizeof cli.out);
    snprintf(path, sizeof path, "%s/errors", dir);
    cli_read(path, cli.errors, sizeof cli.errors);
    return cli.code;
}

/* The environment that every run of the tool gets. */
static inline const char *cli_start(const char *name)
{
    const char *dir = fixture_folder(name);
    char cache[300];
    snprintf(cache, sizeof cache, "%s/cache", dir);
    setenv("KGENRT_CACHE", cache, 1);
    setenv("K", BUILD_DIR "/kgenrt", 1);
    setenv("KGENRT_LOG", "warn", 1);
    unsetenv("KGENRT_LOG_FILE");
    unsetenv("KGENRT_MODE");
    unsetenv("KGENRT_WORKER");
    unsetenv("KGENRT_MAKERS");
    unsetenv("LD_PRELOAD");
    return dir;
}

static inline bool cli_says(const char *text)
{
    if (strstr(cli.out, text))
        return true;
    fprintf(stderr, "not in the output: \"%s\"; it is:\n%s%s\n", text, cli.out, cli.errors);
    return false;
}

static inline bool cli_errs(const char *text)
{
    if (strstr(cli.errors, text))
        return true;
    fprintf(stderr, "not in the errors: \"%s\"; they are:\n%s\n", text, cli.errors);
    return false;
}

/* The output as JSON; NULL if it is none. */
static inline json_t *cli_json(void)
{
    json_error_t error;
    json_t *root = json_loads(cli.out, 0, &error);
    if (!root)
        fprintf(stderr, "no JSON: %s\n%s\n", error.text, cli.out);
    return root;
}

#endif
