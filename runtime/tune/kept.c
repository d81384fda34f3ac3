/* Captures of published variants, kept in DIR/captures so that anybody can have the verdict made
 * again: <kernel id>-<beginning of the capture's own digest>.kgcap, 0600, as many as
 * KGENRT_KEPT_MIB holds; those that were not used for the longest time go first. What an app had in
 * memory stays on disk this way: 0 keeps none, and removes what was kept. */
#include "tune/again.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHORT_SEAL = 16 };
static const size_t most_copied = (size_t)8 << 30;

/* A capture ends in the digest of all before it. */
static kg_status seal_read(const char *path, struct kg_id *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat info;
    if (fd < 0)
        return errno == ENOENT ? KG_NOT_FOUND : KG_IO;
    bool good = !fstat(fd, &info) && info.st_size > KG_ID_BYTES &&
                pread(fd, out->bytes, KG_ID_BYTES, info.st_size - KG_ID_BYTES) == KG_ID_BYTES;
    close(fd);
    return good ? KG_OK : KG_CORRUPT;
}

kg_status kept_path(const char *dir, const struct kg_id *kernel, const char *seal,
                    char out[static KG_PATH])
{
    char id[KG_ID_TEXT];
    if (strlen(seal) < SHORT_SEAL)
        return KG_BAD_INPUT;
    return path_make(out, "%s/captures/%s-%.*s%s", dir, id_text(kernel, id), SHORT_SEAL, seal,
                     CAPTURE_SUFFIX);
}

void kept_used(const char *path)
{
    if (utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) && errno != ENOENT)
        log_line(KG_DEBUG, "%s: %s", path, strerror(errno));
}

/* A link where that is as good as a copy: the app's own file in the spool, which nobody changes. */
static kg_status take(const char *from, const char *to)
{
    struct stat info;
    struct kg_bytes bytes;
    if (!lstat(from, &info) && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
        !(info.st_mode & 077) && !link(from, to))
        return KG_OK;
    if (errno == EEXIST)
        return KG_OK;
    kg_status status = file_read(from, most_copied, &bytes);
    if (status == KG_OK)
        status = file_write(to, bytes.data, bytes.size, 0600);
    bytes_free(&bytes);
    return status;
}

/* Removes the file that was not used for the longest time, but for `but`; false: there is none.
 * *sum: bytes of all that are there. */
static bool remove_oldest(const char *folder, const char *but, uint64_t most, uint64_t *sum)
{
    char path[KG_PATH] = "", oldest[KG_PATH] = "";
    struct timespec least = {0, 0};
    struct stat info;
    DIR *list = opendir(folder);
    *sum = 0;
    for (struct dirent *e; list && (e = readdir(list));) {
        if (!text_ends(e->d_name, CAPTURE_SUFFIX) ||
            path_make(path, "%s/%s", folder, e->d_name) != KG_OK || lstat(path, &info) ||
            !S_ISREG(info.st_mode))
            continue;
        *sum += (uint64_t)info.st_size;
        bool older = !*oldest || info.st_mtim.tv_sec < least.tv_sec ||
                     (info.st_mtim.tv_sec == least.tv_sec && info.st_mtim.tv_nsec < least.tv_nsec);
        if (strcmp(path, but) && older) {
            least = info.st_mtim;
            memcpy(oldest, path, sizeof oldest);
        }
    }
    if (list)
        closedir(list);
    if (*sum <= most || !*oldest)
        return false;
    if (!unlink(oldest) || errno == ENOENT)
        return true;
    log_line(KG_WARN, "%s: cannot be removed: %s", oldest, strerror(errno));
    return false;
}

void kept_trim(const char *dir, const char *but)
{
    uint64_t most = (uint64_t)options()->kept_mib << 20, sum;
    char folder[KG_PATH];
    if (path_make(folder, "%s/captures", dir) != KG_OK)
        return;
    while (remove_oldest(folder, but, most, &sum))
        ;
}

static kg_status keep(const struct job *job, const char *from)
{
    char to[KG_PATH], seal[KG_ID_TEXT];
    struct kg_id digest;
    struct stat info;
    kg_status status = seal_read(from, &digest);
    if (status == KG_OK)
        status = kept_path(job->dir, &job->capture.kernel, id_text(&digest, seal), to);
    if (status == KG_OK &&
        (stat(from, &info) || (uint64_t)info.st_size > (uint64_t)options()->kept_mib << 20))
        return KG_LIMIT;
    if (status == KG_OK)
        status = take(from, to);
    if (status != KG_OK)
        return status;
    kept_used(to);
    kept_trim(job->dir, to);
    return KG_OK;
}

void kept_put(const struct job *job)
{
    char folder[KG_PATH];
    if (options()->kept_mib <= 0)
        return;
    kg_status status = path_make(folder, "%s/captures", job->dir);
    if (status == KG_OK)
        status = dir_make(folder);
    for (unsigned i = 0; i < job->other_count && status == KG_OK; i++)
        status = keep(job, job->others[i]);
    if (status == KG_OK)
        status = keep(job, job->capture_path);
    if (status != KG_OK)
        log_line(KG_WARN, "%s: its capture is not kept, 'kgenrt verify' will not work: %s",
                 job->capture.entry, status_text(status));
}

kg_status kept_find(const char *dir, const struct kg_id *kernel, const char *seal,
                    char out[static KG_PATH])
{
    char found[KG_ID_TEXT];
    struct kg_id digest;
    kg_status status = kept_path(dir, kernel, seal, out);
    if (status == KG_OK)
        status = seal_read(out, &digest);
    if (status != KG_OK)
        return status;
    return strcmp(id_text(&digest, found), seal) ? KG_CORRUPT : KG_OK;
}
