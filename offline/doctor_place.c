/* Whether programs can be reached here, and where results go: the preload library, the environment,
 * the cache folder and what is in it. */
#include "doctor.h"
#include "way.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_DOUBTS = 64 };

/* ---- the preload ----------------------------------------------------------------------------- */

/* Whether a child that is started with the preload has it mapped: `cat /proc/self/maps` does. */
static bool preload_works(const char *library)
{
    char line[KG_PATH + 128];
    bool found = false;
    int pipes[2];
    char *real_path = realpath(library, NULL);
    if (!real_path || pipe2(pipes, O_CLOEXEC)) {
        free(real_path);
        return false;
    }
    pid_t child = fork();
    if (!child) {
        if (dup2(pipes[1], STDOUT_FILENO) == STDOUT_FILENO && !setenv("LD_PRELOAD", library, 1))
            execlp("cat", "cat", "/proc/self/maps", (char *)NULL);
        _exit(127);
    }
    close(pipes[1]);
    FILE *maps = fdopen(pipes[0], "r");
    while (maps && fgets(line, sizeof line, maps))
        found = found || strstr(line, real_path);
    if (maps)
        fclose(maps);
    if (child > 0)
        waitpid(child, NULL, 0);
    free(real_path);
    return found;
}

static void ways_in(struct doctor *doctor, const char *library)
{
    char auditor[KG_PATH];
    finding(doctor, LEVEL_OK, "preload", NULL, "%s", library);
    const char *why = auditor_find(library, auditor);
    if (why)
        finding(doctor, LEVEL_NOTE, "audit",
                "programs that a preload does not reach run as they are",
                "kgenrt run --via audit is not possible: %s", why);
    else
        finding(doctor, LEVEL_OK, "audit", NULL, "%s", auditor);
}

void check_preload(struct doctor *doctor)
{
    char library[KG_PATH], self[KG_PATH];
    if (place_self(self) == KG_OK)
        finding(doctor, LEVEL_OK, "kgenrt", NULL, "version %s, %s", KG_VERSION, self);
    if (place_library(library) != KG_OK)
        finding(doctor, LEVEL_FAIL, "preload", "install libkgenrt.so beside kgenrt or in ../lib",
                "libkgenrt.so is not found");
    else if (strpbrk(library, " :"))
        finding(doctor, LEVEL_FAIL, "preload", "install it elsewhere",
                "%s: the loader cannot preload a path with a space or a colon", library);
    else if (!preload_works(library))
        finding(doctor, LEVEL_FAIL, "preload",
                "is it of this machine's architecture? LD_DEBUG=libs shows what the loader says",
                "%s is not loaded into a program that is started with it", library);
    else
        ways_in(doctor, library);
}

/* ---- the environment ------------------------------------------------------------------------- */

static const struct trap {
    const char *variable, *value; /* value: trap only if it is this; NULL: if it is set */
    enum level level;
    const char *text, *advice;
} traps[] = {
    {"KGENRT_MODE", "off", LEVEL_WARN, "kgenrt is switched off", "unset KGENRT_MODE"},
    {"KGENRT_MODE", "observe", LEVEL_NOTE, "kernels are seen, none is replaced", NULL},
    {"KGENRT_MODE", "cached", LEVEL_NOTE, "the cache is used, nothing is tuned", NULL},
    {"KGENRT_WORKER", "off", LEVEL_NOTE, "captures wait for 'kgenrt worker' or 'kgenrt run'", NULL},
    {"CUDA_VISIBLE_DEVICES", "", LEVEL_WARN, "programs see no device", "unset it"},
    {"CUDA_LAUNCH_BLOCKING", "1", LEVEL_WARN, "every launch waits: times say little", "unset it"},
    {"CUDA_INJECTION64_PATH", NULL, LEVEL_WARN, "a profiler is injected and may change times",
     "unset it"},
    {"CUDA_MPS_PIPE_DIRECTORY", NULL, LEVEL_NOTE,
     "MPS: a fault of one client can end its neighbours; no replay is run beside a program", NULL},
    {"LD_AUDIT", NULL, LEVEL_NOTE, "another tool may bind symbols before the preload does", NULL},
};

void check_environment(struct doctor *doctor)
{
    const char *preload = getenv("LD_PRELOAD");
    for (unsigned i = 0; i < sizeof traps / sizeof *traps; i++) {
        const struct trap *trap = &traps[i];
        const char *value = getenv(trap->variable);
        if (value && (!trap->value || !strcmp(value, trap->value)))
            finding(doctor, trap->level, "environment", trap->advice, "%s=%s: %s", trap->variable,
                    value, trap->text);
    }
    if (preload && strstr(preload, "libkgenrt"))
        finding(doctor, LEVEL_NOTE, "environment", NULL,
                "LD_PRELOAD=%s is set: every program started from here is watched", preload);
    else
        finding(doctor, LEVEL_NOTE, "environment",
                "out of reach: programs linked statically or set-user-id; where the environment is "
                "cleared (sudo, some job launchers), set LD_PRELOAD behind that",
                "LD_PRELOAD is not set: programs are watched if started by 'kgenrt run'");
    if (options_mode() == KG_MODE_OFF && strcmp(options()->mode, "off"))
        finding(doctor, LEVEL_FAIL, "environment", "correct or unset KGENRT_MODE",
                "KGENRT_MODE='%s' is no mode: kgenrt is off", options()->mode);
    struct accuracy accuracy;
    if (!accuracy_parse(options()->accuracy, &accuracy))
        finding(doctor, LEVEL_FAIL, "environment", "correct or unset KGENRT_ACCURACY",
                "KGENRT_ACCURACY='%s' is none of bitwise, auto, ulp:N (0 < N <= 65536), rel:X "
                "(0 < X < 1)",
                options()->accuracy);
}

/* ---- the cache ------------------------------------------------------------------------------- */

/* Whether the folder is there and may be used; by looking, nothing is changed. */
static bool check_folder(struct doctor *doctor, const char *dir)
{
    struct stat info;
    struct statvfs disk;
    char above[KG_PATH];
    if (!*dir) {
        finding(doctor, LEVEL_FAIL, "cache", "set KGENRT_CACHE or HOME", "there is no folder");
        return false;
    }
    if (stat(dir, &info)) {
        int error = errno;
        snprintf(above, sizeof above, "%s", dir);
        while (*above && access(above, F_OK))
            *(strrchr(above, '/') ? strrchr(above, '/') : above) = 0;
        if (error == ENOENT && !access(*above ? above : "/", W_OK))
            finding(doctor, LEVEL_OK, "cache", NULL, "%s is made when it is needed", dir);
        else
            finding(doctor, LEVEL_FAIL, "cache", "set KGENRT_CACHE to a folder that you may write",
                    "%s cannot be made: %s", dir, strerror(error == ENOENT ? EACCES : error));
        return false;
    }
    if (!S_ISDIR(info.st_mode)) {
        finding(doctor, LEVEL_FAIL, "cache", "set KGENRT_CACHE to a folder", "%s is no folder",
                dir);
        return false;
    }
    if (!stat_trusted(&info)) {
        finding(doctor, LEVEL_FAIL, "cache",
                "make it yours (chown) and closed to others (chmod 700): code from it runs in your "
                "programs",
                "%s belongs to user %u, mode %03o: nothing in it is used", dir,
                (unsigned)info.st_uid, (unsigned)info.st_mode & 0777);
        return false;
    }
    if (access(dir, W_OK) || (!statvfs(dir, &disk) && disk.f_flag & ST_RDONLY))
        finding(doctor, LEVEL_WARN, "cache", "set KGENRT_CACHE to a folder that can be written",
                "%s cannot be written: what it holds is used, nothing is added", dir);
    else if (!statvfs(dir, &disk) &&
             (double)disk.f_bavail * (double)disk.f_frsize < 2.0 * (1 << 30))
        finding(doctor, LEVEL_WARN, "cache", "make room, or set KGENRT_CACHE to another disk",
                "%s: less than 2 GiB are free, captures may be left out", dir);
    else
        finding(doctor, LEVEL_OK, "cache", NULL, "%s", dir);
    return true;
}

static void check_store(struct doctor *doctor, const char *dir)
{
    json_t *stored = stored_read(dir);
    const char *state = member_text(stored, "store");
    if (!strcmp(state, "none"))
        finding(doctor, LEVEL_OK, "store", NULL, "nothing was tuned yet");
    else if (!strcmp(state, "ok"))
        finding(doctor, LEVEL_OK, "store", NULL, "%zu variants, %zu jobs, %zu refused candidates",
                json_array_size(json_object_get(stored, "variants")),
                json_array_size(json_object_get(stored, "jobs")),
                json_array_size(json_object_get(stored, "rejections")));
    else
        finding(doctor, LEVEL_FAIL, "store",
                "if it is damaged, remove this folder: programs keep the snapshot they have, and a "
                "new store is filled from the next run on",
                "%s/store: %s", dir, state);
    json_decref(stored);
}

/* Variants that programs found fault with: what a replay confirmed is gone, the rest is told. */
static void check_doubts(struct doctor *doctor, const char *dir)
{
    json_t *stored = stored_read(dir), *item;
    struct kg_doubt *doubts = calloc(MOST_DOUBTS, sizeof *doubts);
    unsigned waiting = doubts ? doubts_read(dir, doubts, MOST_DOUBTS) : 0, noted = 0;
    size_t i;
    json_array_foreach(json_object_get(stored, "rejections"), i, item)
    {
        noted += !strcmp(member_text(item, "gate"), "doubt");
    }
    if (waiting)
        finding(doctor, LEVEL_NOTE, "doubts",
                "a running worker settles them; else run 'kgenrt worker --once'",
                "%u variants differed from their original in a program and wait to be verified "
                "again",
                waiting);
    if (noted)
        finding(doctor, LEVEL_WARN, "doubts", "'kgenrt show KERNEL' says which and where",
                "%u times a variant differed from its original in a program and in no replay: "
                "others keep it",
                noted);
    free(doubts);
    json_decref(stored);
}

static void check_snapshots(struct doctor *doctor, const char *dir)
{
    const json_t *device;
    size_t i;
    json_array_foreach(doctor->devices, i, device)
    {
        struct kg_id key = {{0}};
        struct snapshot *snapshot;
        (void)id_parse(member_text(device, "key"), &key); /* ours: it parses */
        kg_status status = snapshot_open(dir, &key, &snapshot);
        if (status == KG_OK)
            finding(doctor, LEVEL_OK, "snapshot", NULL, "%zu kernels have variants for %s",
                    snapshot_kernel_count(snapshot), member_text(device, "name"));
        else if (status == KG_NOT_FOUND)
            finding(doctor, LEVEL_OK, "snapshot", NULL, "none for %s yet",
                    member_text(device, "name"));
        else
            finding(doctor, LEVEL_FAIL, "snapshot",
                    "remove this folder: the worker makes it again from the store",
                    "%s/snapshots: that for %s is not used: %s", dir, member_text(device, "name"),
                    status_text(status));
        if (status == KG_OK)
            snapshot_close(snapshot);
    }
}

static void check_spool(struct doctor *doctor, const char *dir)
{
    char path[KG_PATH];
    struct dirent *entry;
    struct stat info;
    unsigned count = 0;
    double bytes = 0;
    if (path_make(path, "%s/spool", dir) != KG_OK)
        return;
    DIR *folder = opendir(path);
    while (folder && (entry = readdir(folder)))
        if (!fstatat(dirfd(folder), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) &&
            S_ISREG(info.st_mode) && !text_ends(entry->d_name, DOUBT_SUFFIX)) {
            count++;
            bytes += (double)info.st_size;
        }
    if (folder)
        closedir(folder);
    if (bytes > 0.9 * (double)options()->spool_mib * (1 << 20))
        finding(doctor, LEVEL_WARN, "spool",
                "run 'kgenrt worker --once', or raise KGENRT_SPOOL_MIB",
                "%u captures, %.0f MiB: the quota is nearly used up", count, bytes / (1 << 20));
    else
        finding(doctor, count ? LEVEL_NOTE : LEVEL_OK, "spool",
                count ? "a running worker takes them; else run 'kgenrt worker --once'" : NULL,
                "%u captures wait, %.0f MiB", count, bytes / (1 << 20));
}

static void check_flights(struct doctor *doctor, const char *dir)
{
    json_t *flights = flights_read(dir), *flight;
    size_t i;
    unsigned unclean = 0, said = 0;
    json_array_foreach(flights, i, flight)
    {
        char when[SHORT_TEXT];
        if (!json_is_true(json_object_get(flight, "unclean")))
            continue;
        unclean++;
        if (said++ >= 3)
            continue;
        size_t late = json_array_size(json_object_get(flight, "late"));
        finding(doctor, LEVEL_WARN, "recorder",
                late ? "its variants are suspended until they are verified again" : NULL,
                "%s (process %.0f, started %s) did not end cleanly%s%s; %zu variants may have run",
                member_text(flight, "program"), member_number(flight, "pid"),
                date_text(member_number(flight, "start"), when),
                *member_text(flight, "fault") ? ": " : "", member_text(flight, "fault"), late);
    }
    if (!unclean)
        finding(doctor, LEVEL_OK, "recorder", NULL, "%zu programs, all ended cleanly or still run",
                json_array_size(flights));
    json_decref(flights);
}

void check_cache(struct doctor *doctor)
{
    const char *dir = cache_dir();
    if (!check_folder(doctor, dir))
        return;
    check_store(doctor, dir);
    check_doubts(doctor, dir);
    check_snapshots(doctor, dir);
    check_spool(doctor, dir);
    check_flights(doctor, dir);
}
