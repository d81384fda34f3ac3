/* The two ways into a program. LD_PRELOAD does for nearly all. Where a library of the program hides
 * the driver (RTLD_DEEPBIND), or a process of it was started without the variables, LD_AUDIT helps,
 * too. Nothing in a program's files tells that beforehand, so `auto` goes by what an earlier run
 * has shown: the library says so when it ends beside a driver that it never was asked about, and
 * while the program runs its processes are looked at now and then. What lives for a moment only, or
 * left the program's process tree, is not seen. */
#include "way.h"

#include "../interpose/audit/tunable.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_PROCESSES = 4096, NOTE_BYTES = 4096 };
#define FIRST_SCAN UINT64_C(500000000) /* ns; each pause is twice the one before */

/* ---- the choice --------------------------------------------------------------------------------
 */

/* The auditor takes itself out where it would cost. */
static bool libc_fits(void)
{
    int major = 0, minor = 0;
    return sscanf(gnu_get_libc_version(), "%d.%d", &major, &minor) == 2 &&
           (major > 2 || (major == 2 && minor >= 35));
}

const char *auditor_find(const char *library, char auditor[static KG_PATH])
{
    const char *slash = strrchr(library, '/');
    if (!slash ||
        path_make(auditor, "%.*s/libkgenrt_audit.so", (int)(slash - library), library) != KG_OK ||
        access(auditor, R_OK))
        return "libkgenrt_audit.so is not beside libkgenrt.so";
    return libc_fits() ? NULL
                       : "this machine's glibc is older than 2.35, where auditing slows every "
                         "program down";
}

static bool auditor_usable(struct way *way, bool said)
{
    const char *why = auditor_find(way->library, way->auditor);
    if (why && said)
        failed("%s: only the preload is used", why);
    return !why;
}

/* A note is of the file that was run, and of no later one. */
static bool note_counts(const struct way *way)
{
    struct stat note, file;
    return *way->note && !stat(way->note, &note) && !stat(way->program.file, &file) &&
           note.st_uid == geteuid() && note.st_mtime >= file.st_mtime;
}

static void note_find(struct way *way)
{
    struct kg_hash hash;
    struct kg_id id;
    char text[KG_ID_TEXT], *whole = realpath(way->program.file, NULL);
    if (!whole || !*cache_dir())
        return free(whole);
    hash_begin(&hash);
    hash_text(&hash, whole);
    hash_end(&hash, &id);
    if (path_make(way->note, "%s/missed/%s", cache_dir(), id_text(&id, text)) != KG_OK)
        *way->note = 0;
    way->known = note_counts(way);
    free(whole);
}

static kg_status path_fits(const char *path)
{
    if (!strpbrk(path, " :"))
        return KG_OK;
    failed("%s: a path with a space or a colon cannot be preloaded: install it elsewhere", path);
    return KG_UNSUPPORTED;
}

kg_status way_choose(struct way *way, const char *name, const char *asked)
{
    const bool automatic = !asked || !strcmp(asked, "auto");
    kg_status status = path_fits(way->library);
    if (status != KG_OK)
        return status;
    program_look(name, &way->program);
    if (*way->program.reason)
        failed("%s %s: it runs as it would without kgenrt", way->program.path, way->program.reason);
    note_find(way);
    way->preload = !way->program.refuses;
    if (way->program.refuses || (automatic && !way->known) || (asked && !strcmp(asked, "preload")))
        return KG_OK;
    way->audit = auditor_usable(way, !automatic);
    if (way->audit && automatic)
        failed("%s used the driver past the preload in an earlier run: libkgenrt_audit.so is used "
               "as well ('kgenrt run --via preload' does without)",
               way->program.file);
    return KG_OK;
}

/* ---- the environment ---------------------------------------------------------------------------
 */

/* Ours comes first. */
static bool put_first(const char *variable, const char *path)
{
    const char *present = getenv(variable);
    char value[2 * KG_PATH];
    int length = snprintf(value, sizeof value, "%s%s%s", path, present && *present ? ":" : "",
                          present ? present : "");
    return length < (int)sizeof value && !setenv(variable, value, 1);
}

bool way_environment(const struct way *way)
{
    if (way->preload && !put_first("LD_PRELOAD", way->library))
        return false;
    if (way->audit &&
        (!put_first("LD_AUDIT", way->auditor) || !put_first("GLIBC_TUNABLES", AUDIT_TUNABLE) ||
         setenv("KGENRT_CACHE", cache_dir(), 0))) /* HOME may be lost on the way */
        return false;
    return !*way->note || !setenv("KGENRT_MISSED", way->note, 1);
}

/* ---- processes without the library -------------------------------------------------------------
 */

static bool text_of(pid_t pid, const char *name, char *out, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    FILE *file = fopen(path, "re");
    size_t got = file ? fread(out, 1, size - 1, file) : 0;
    out[got] = 0;
    if (file)
        fclose(file);
    return got > 0;
}

static pid_t parent_of(pid_t pid)
{
    char text[512];
    int parent = 0;
    char *after = text_of(pid, "stat", text, sizeof text) ? strrchr(text, ')') : NULL;
    return after && sscanf(after + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* Whether the driver is mapped, and our library is not. */
static bool misses(pid_t pid)
{
    char path[64], line[KG_PATH + 128];
    bool driver = false, library = false;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    while (maps && !library && fgets(line, sizeof line, maps)) {
        driver |= strstr(line, "/libcuda.so") != NULL;
        library = strstr(line, "/libkgenrt.so") != NULL;
    }
    if (maps)
        fclose(maps);
    return driver && !library;
}

static bool descends(pid_t pid, pid_t from)
{
    for (int depth = 0; depth < 64 && pid > 1; depth++) {
        if (pid == from)
            return true;
        pid = parent_of(pid);
    }
    return false;
}

void way_watch(struct way *way, pid_t program)
{
    struct dirent *entry;
    char path[64];
    uint64_t now = now_ns();
    if (!way->next_scan)
        way->next_scan = now + FIRST_SCAN;
    if (*way->process || now < way->next_scan)
        return;
    way->next_scan = now + (FIRST_SCAN << ++way->scans);
    DIR *folder = opendir("/proc");
    for (int i = 0; folder && i < MOST_PROCESSES && !*way->process && (entry = readdir(folder));) {
        pid_t pid = isdigit((unsigned char)*entry->d_name) ? (pid_t)atoi(entry->d_name) : 0;
        i += pid > 0;
        if (pid <= 0 || !descends(pid, program) || !misses(pid))
            continue;
        snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
        ssize_t length = readlink(path, way->process, sizeof way->process - 1);
        way->process[length < 0 ? 0 : length] = 0;
    }
    if (folder)
        closedir(folder);
}

/* ---- the report --------------------------------------------------------------------------------
 */

/* For the next run; where the cache cannot be written, there is none. */
static void note_write(const struct way *way)
{
    char folder[KG_PATH];
    if (path_make(folder, "%s/missed", cache_dir()) == KG_OK && dir_make(folder) == KG_OK)
        (void)file_write(way->note, way->process, strlen(way->process), 0600);
}

void way_report(struct way *way)
{
    if (*way->program.reason || !*way->note)
        return;
    bool noted = note_counts(way);
    if (*way->process) {
        failed("%s ran without libkgenrt.so and used the driver: its launches were not seen",
               way->process);
        if (!way->audit)
            note_write(way);
    }
    if (!way->audit && (*way->process || (noted && !way->known)) && auditor_usable(way, false))
        failed("run it again and libkgenrt_audit.so, which reaches such programs, is used as well");
}
