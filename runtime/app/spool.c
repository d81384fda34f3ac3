/* The spool folder as the app sees it: names of captures, whether one waits there already, and
 * whether there is room for another. Never deletes anything: that is the worker's. */
#include "app/inside.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "capture.h"

#define RESERVE (UINT64_C(512) << 20) /* bytes that the disk keeps free */

kg_status spool_path(const struct kg_id *kernel, char path[static KG_PATH])
{
    static atomic_uint number;
    char id[KG_ID_TEXT];
    return path_make(path, "%s/spool/%s-%d-%u" CAPTURE_SUFFIX, app_dir(), id_text(kernel, id),
                     (int)getpid(), atomic_fetch_add(&number, 1));
}

/* Calls each(self, name, size) for the captures in the spool; false: no such folder. */
static bool spool_each(void (*each)(void *self, const char *name, uint64_t size), void *self)
{
    char folder[KG_PATH];
    if (path_make(folder, "%s/spool", app_dir()) != KG_OK)
        return false;
    DIR *list = opendir(folder);
    for (struct dirent *e; list && (e = readdir(list));) {
        struct stat info;
        if (!fstatat(dirfd(list), e->d_name, &info, AT_SYMLINK_NOFOLLOW) && S_ISREG(info.st_mode))
            each(self, e->d_name, (uint64_t)info.st_size);
    }
    if (list)
        closedir(list);
    return list != NULL;
}

struct wanted {
    char id[KG_ID_TEXT]; /* empty: any */
    bool found;
};

static void compare(void *self, const char *name, uint64_t size)
{
    struct wanted *wanted = self;
    if (size && text_ends(name, CAPTURE_SUFFIX) && !strncmp(name, wanted->id, strlen(wanted->id)))
        wanted->found = true;
}

bool spool_holds(const struct kg_id *kernel)
{
    struct wanted wanted = {.found = false};
    if (kernel)
        id_text(kernel, wanted.id);
    return spool_each(compare, &wanted) && wanted.found;
}

static void add(void *self, const char *name, uint64_t size)
{
    *(uint64_t *)self += size; /* others' unfinished files too */
}

kg_status spool_room(uint64_t size)
{
    char folder[KG_PATH];
    struct statvfs disk;
    uint64_t used = 0;
    if (path_make(folder, "%s/spool", app_dir()) != KG_OK || !spool_each(add, &used) ||
        statvfs(folder, &disk))
        return KG_IO;
    uint64_t quota = (uint64_t)options()->spool_mib << 20;
    uint64_t free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    if (used + size > quota) {
        app_note("the spool is full: a capture of %llu MiB would pass KGENRT_SPOOL_MIB=%ld",
                 (unsigned long long)(size >> 20), options()->spool_mib);
        return KG_LIMIT;
    }
    if (free_bytes < size + RESERVE) {
        app_note("%s: too little free disk space for a capture of %llu MiB", folder,
                 (unsigned long long)(size >> 20));
        return KG_LIMIT;
    }
    return KG_OK;
}
