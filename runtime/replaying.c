/* See replaying.h. A pid in a file may be another process by now, or one of another container that
 * shares the folder: a process is ended only while it is seen to hold that very file, and by a
 * descriptor of the process, which cannot come to mean another one. */
#include "replaying.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

kg_status replaying_begin(const char *folder)
{
    char path[KG_PATH], text[32];
    kg_status status = path_make(path, "%s/child", folder);
    if (status != KG_OK)
        return status;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600); /* until the end */
    int length = snprintf(text, sizeof text, "%d %d\n", (int)getpid(), fd);
    if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB) && !ftruncate(fd, 0) &&
        pwrite(fd, text, (size_t)length, 0) == length)
        return KG_OK;
    log_line(KG_WARN, "%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return KG_IO;
}

bool replaying_ended(const char *folder)
{
    char path[KG_PATH];
    return path_make(path, "%s/yield", folder) == KG_OK && !access(path, F_OK);
}

/* A descriptor of the process that holds the file, or -1. */
static int holder(const char *path)
{
    char text[32] = "", link[64];
    struct stat file, held;
    int pid, number, process = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -1;
    if (!fstat(fd, &file) && file.st_uid == geteuid() && read(fd, text, sizeof text - 1) > 0 &&
        sscanf(text, "%d %d", &pid, &number) == 2 && pid > 1 && number >= 0) {
        process = (int)syscall(SYS_pidfd_open, pid, 0);
        snprintf(link, sizeof link, "/proc/%d/fd/%d", pid, number);
    }
    if (process >= 0 &&
        (stat(link, &held) || held.st_dev != file.st_dev || held.st_ino != file.st_ino)) {
        close(process);
        process = -1;
    }
    close(fd);
    return process;
}

static bool end_one(const char *folder, int process, unsigned wait_ms)
{
    char mark[KG_PATH];
    struct pollfd gone = {.fd = process, .events = POLLIN};
    int fd = path_make(mark, "%s/yield", folder) == KG_OK
                 ? open(mark, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)
                 : -1;
    if (fd >= 0)
        close(fd);
    bool ended = !syscall(SYS_pidfd_send_signal, process, SIGKILL, NULL, 0);
    if (ended)
        (void)poll(&gone, 1, (int)wait_ms);
    return ended;
}

/* Calls `each` for every folder with a living replay until it says no. Returns how often it was
 * called. */
static unsigned walk(const char *dir, bool (*each)(const char *folder, int process, unsigned ms),
                     unsigned ms)
{
    char folder[KG_PATH], path[KG_PATH];
    unsigned found = 0;
    bool more = true;
    if (path_make(folder, "%s/work", dir) != KG_OK)
        return 0;
    DIR *list = opendir(folder);
    for (struct dirent *e; list && more && (e = readdir(list));) {
        if (*e->d_name == '.' || path_make(folder, "%s/work/%s", dir, e->d_name) != KG_OK ||
            path_make(path, "%s/child", folder) != KG_OK)
            continue;
        int process = holder(path);
        if (process < 0)
            continue;
        more = each(folder, process, ms);
        found++;
        close(process);
    }
    if (list)
        closedir(list);
    return found;
}

unsigned replaying_end_all(const char *dir, unsigned wait_ms)
{
    return walk(dir, end_one, wait_ms);
}

static bool first_is_enough(const char *folder, int process, unsigned ms)
{
    return false;
}

bool replaying_any(const char *dir)
{
    return walk(dir, first_is_enough, 0) > 0;
}
