/* Reads what flight recorders of dead processes tell: see suspects.h. A recorder that is locked is
 * of a living process and none of our business; nothing in a file is believed beyond the fixed
 * beginning. */
#include "suspects.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { QUOTED = 2 + 2 * KG_ID_BYTES, BEGINNING = 24 << 10 };
_Static_assert(BEGINNING > 256 + FLIGHT_LATE_MOST * (QUOTED + 1), "the whole list is read");

static bool skip(const char **at, const char *text)
{
    size_t length = strlen(text);
    if (strncmp(*at, text, length))
        return false;
    *at += length;
    return true;
}

/* A quoted id; false if there is none, or an empty text. */
static bool read_id(const char **at, struct kg_id *out)
{
    char text[KG_ID_TEXT];
    if (strnlen(*at, QUOTED) < QUOTED || **at != '"' || (*at)[QUOTED - 1] != '"')
        return false;
    memcpy(text, *at + 1, KG_ID_TEXT - 1);
    text[KG_ID_TEXT - 1] = 0;
    *at += QUOTED;
    return id_parse(text, out) == KG_OK;
}

/* Whether the text is of a process that ended uncleanly and had something in use. */
static bool learn(const char *at, uint64_t time, struct suspects *out)
{
    struct kg_id id;
    unsigned before = out->variant_count + out->snapshot_count;
    if (!skip(&at, FLIGHT_CLEAN "false" FLIGHT_READING))
        return false;
    if (!read_id(&at, &id))
        at += strcspn(at, ",");
    else if (out->snapshot_count < SUSPECT_SNAPSHOTS)
        out->snapshots[out->snapshot_count++] = id;
    if (!skip(&at, FLIGHT_LATE))
        return false;
    while (out->variant_count < SUSPECT_VARIANTS && read_id(&at, &id)) {
        out->variants[out->variant_count].id = id;
        out->variants[out->variant_count++].time = time;
        if (!skip(&at, ","))
            break;
    }
    return out->variant_count + out->snapshot_count > before;
}

/* 0: its process lives, or it is no recorder; else its time. text: room for the beginning, not on
 * the stack, which may be that of a small thread of the app. */
static uint64_t learn_file(int folder, const char *name, char *text, struct suspects *out,
                           bool *unclean)
{
    struct stat info;
    uint64_t time = 0;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return 0;
    if (!flock(fd, LOCK_SH | LOCK_NB) && !fstat(fd, &info) && S_ISREG(info.st_mode) &&
        info.st_uid == geteuid()) {
        ssize_t got = pread(fd, text, BEGINNING, 0);
        text[got < 0 ? 0 : got] = 0;
        time = (uint64_t)info.st_mtime;
        *unclean = learn(text, time, out);
    }
    close(fd);
    return time;
}

void suspects_read(const char *dir, struct suspects *out,
                   void (*each)(void *self, const char *name, uint64_t time, bool unclean),
                   void *self)
{
    char path[KG_PATH];
    out->variant_count = out->snapshot_count = 0;
    if (path_make(path, "%s/flight", dir) != KG_OK)
        return;
    DIR *list = opendir(path);
    char *text = malloc(BEGINNING + 1);
    for (struct dirent *e; list && text && (e = readdir(list));) {
        size_t length = strlen(e->d_name);
        bool unclean = false;
        if (length < 5 || strcmp(e->d_name + length - 4, ".kgf"))
            continue;
        uint64_t time = learn_file(dirfd(list), e->d_name, text, out, &unclean);
        if (time && each)
            each(self, e->d_name, time, unclean);
    }
    free(text);
    if (list)
        closedir(list);
}

bool suspects_variant(const struct suspects *suspects, const struct kg_id *variant,
                      uint64_t verified)
{
    for (unsigned i = 0; i < suspects->variant_count; i++)
        if (id_equal(&suspects->variants[i].id, variant) && verified <= suspects->variants[i].time)
            return true;
    return false;
}

bool suspects_snapshot(const struct suspects *suspects, const struct kg_id *snapshot)
{
    for (unsigned i = 0; i < suspects->snapshot_count; i++)
        if (id_equal(&suspects->snapshots[i], snapshot))
            return true;
    return false;
}
