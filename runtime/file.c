/* Files: whole reads, atomic writes, folders that only their owner may write. */
#include "kgenrt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

void bytes_free(struct kg_bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct kg_bytes){0};
}

kg_status path_make(char out[static KG_PATH], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(out, KG_PATH, format, args);
    va_end(args);
    if (length >= 0 && length < KG_PATH)
        return KG_OK;
    log_line(KG_WARN, "path too long: %.80s…", out);
    return KG_LIMIT;
}

static kg_status fill(int fd, struct kg_bytes *out, size_t size)
{
    out->data = malloc(size + 1);
    if (!out->data)
        return KG_NO_MEMORY;
    while (out->size < size) {
        ssize_t got = read(fd, out->data + out->size, size - out->size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return KG_IO;
        out->size += (size_t)got;
    }
    out->data[size] = 0;
    return KG_OK;
}

kg_status file_read(const char *path, size_t limit, struct kg_bytes *out)
{
    *out = (struct kg_bytes){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? KG_NOT_FOUND : KG_IO;
    struct stat info;
    kg_status status = KG_IO;
    if (!fstat(fd, &info) && S_ISREG(info.st_mode))
        status = (size_t)info.st_size > limit ? KG_LIMIT : fill(fd, out, (size_t)info.st_size);
    close(fd);
    if (status != KG_OK) {
        log_line(KG_INFO, "%s: cannot be read: %s", path, status_text(status));
        bytes_free(out);
    }
    return status;
}

static ssize_t put_once(int fd, const unsigned char *data, size_t size)
{
    struct kg_quiet quiet;
    quiet_begin(&quiet);
    ssize_t done = write(fd, data, size);
    quiet_end(&quiet);
    return done;
}

bool write_all(int fd, const void *data, size_t size)
{
    const unsigned char *at = data;
    while (size) {
        ssize_t done = put_once(fd, at, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        at += done;
        size -= (size_t)done;
    }
    return true;
}

kg_status file_write(const char *path, const void *data, size_t size, unsigned mode)
{
    static atomic_uint number;
    char temporary[KG_PATH];
    kg_status status = path_make(temporary, "%s.%d.%u.tmp", path, (int)getpid(),
                                 atomic_fetch_add_explicit(&number, 1, memory_order_relaxed));
    if (status != KG_OK)
        return status;
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    bool good = fd >= 0 && write_all(fd, data, size) && !fsync(fd);
    int error = errno;
    if (fd >= 0 && close(fd))
        good = false;
    if (good && !rename(temporary, path))
        return KG_OK;
    if (good)
        error = errno;
    if (fd >= 0)
        unlink(temporary);
    log_line(KG_WARN, "%s: cannot be written: %s", path, strerror(error));
    return KG_IO;
}

kg_status dir_make(const char *path)
{
    char part[KG_PATH];
    kg_status status = path_make(part, "%s", path);
    if (status != KG_OK || !*part)
        return KG_IO;
    for (char *slash = part + 1;; slash++) {
        if (*slash && *slash != '/')
            continue;
        char kept = *slash;
        *slash = 0;
        if (mkdir(part, 0700) && errno != EEXIST) {
            log_line(KG_WARN, "%s: folder cannot be made: %s", part, strerror(errno));
            return KG_IO;
        }
        *slash = kept;
        if (!kept)
            break;
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        log_line(KG_WARN, "%s: cannot be opened: %s", path, strerror(errno));
        return KG_IO;
    }
    status = file_trusted(fd, path);
    close(fd);
    return status;
}

bool stat_trusted(const struct stat *info)
{
    return (info->st_uid == geteuid() || !info->st_uid) && !(info->st_mode & 022);
}

kg_status file_trusted(int fd, const char *path)
{
    struct stat info;
    if (fstat(fd, &info)) {
        log_line(KG_WARN, "%s: %s", path, strerror(errno));
        return KG_IO;
    }
    if (stat_trusted(&info))
        return KG_OK;
    log_line(KG_WARN,
             "%s: belongs to user %u, mode %03o: it must belong to you or root, and be "
             "writable by nobody else; it is not used",
             path, (unsigned)info.st_uid, (unsigned)info.st_mode & 0777);
    return KG_DENIED;
}

bool file_locked(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool locked = flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    close(fd); /* and with it our lock */
    return locked;
}

bool text_ends(const char *text, const char *suffix)
{
    size_t length = strlen(text), end = strlen(suffix);
    return length > end && !strcmp(text + length - end, suffix);
}
