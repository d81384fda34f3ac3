/* Which snapshot the processes of one job share: DIR/bound/<digest of the job>, a small file that
 * names it. Whoever comes first makes it, by a hard link of a file that is whole already, so that
 * nobody reads half a name and nobody makes a second one. Safe in the app. */
#include "cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { DAY = 24 * 3600 };

static kg_status read_name(const char *path, struct kg_id *out)
{
    struct kg_bytes file;
    struct stat info;
    char text[KG_ID_TEXT] = "";
    if (lstat(path, &info))
        return errno == ENOENT ? KG_NOT_FOUND : KG_IO;
    if (!S_ISREG(info.st_mode) || !stat_trusted(&info))
        return KG_DENIED;
    kg_status status = file_read(path, KG_ID_TEXT, &file);
    if (status != KG_OK)
        return status;
    if (file.size == KG_ID_TEXT && file.data[KG_ID_TEXT - 1] == '\n')
        memcpy(text, file.data, KG_ID_TEXT - 1);
    bytes_free(&file);
    return id_parse(text, out) == KG_OK ? KG_OK : KG_CORRUPT;
}

kg_status bound_take(const char *dir, const struct kg_id *job, const struct kg_id *offer,
                     struct kg_id *out)
{
    char folder[KG_PATH], path[KG_PATH], whole[KG_PATH], id[KG_ID_TEXT], text[KG_ID_TEXT + 1];
    kg_status status = path_make(folder, "%s/bound", dir);
    if (status == KG_OK)
        status = dir_make(folder);
    if (status == KG_OK)
        status = path_make(path, "%s/%s", folder, id_text(job, id));
    if (status == KG_OK)
        status = path_make(whole, "%s/.%d-%.16s", folder, (int)getpid(), id);
    if (status != KG_OK)
        return status;
    status = read_name(path, out);
    if (status != KG_NOT_FOUND)
        return status;
    snprintf(text, sizeof text, "%s\n", id_text(offer, id));
    status = file_write(whole, text, KG_ID_TEXT, 0600);
    if (status != KG_OK)
        return status;
    bool made = !link(whole, path), there = !made && errno == EEXIST;
    (void)unlink(whole);
    if (!made && !there)
        return KG_IO;
    return read_name(path, out);
}

bool bound_holds(const char *dir, const struct kg_id *snapshot)
{
    char folder[KG_PATH], path[KG_PATH];
    bool held = false;
    if (path_make(folder, "%s/bound", dir) != KG_OK)
        return false;
    DIR *list = opendir(folder);
    for (struct dirent *e; list && (e = readdir(list));) {
        struct kg_id named;
        struct stat info;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
            path_make(path, "%s/%s", folder, e->d_name) != KG_OK || lstat(path, &info))
            continue;
        if (info.st_mtime + DAY < time(NULL)) {
            if (unlink(path) && errno != ENOENT)
                log_line(KG_INFO, "%s: %s", path, strerror(errno));
            continue;
        }
        held |= read_name(path, &named) == KG_OK && id_equal(&named, snapshot);
    }
    if (list)
        closedir(list);
    return held;
}
