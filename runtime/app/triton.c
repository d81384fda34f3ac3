/* PTX of kernels that Triton compiled: it loads cubins, and keeps for each the PTX it came from in
 * its cache, CACHE/<hash>/<kernel>.cubin and .ptx beside it. A module's cubin is looked for there
 * by its bytes; a name alone proves nothing. Reads files, so: watcher only, never under
 * records_lock. */
#include "app/inside.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEVICE_FOLDERS = 8, ENTRIES = 20000 };
#define FILE_LIMIT ((size_t)16 << 20)

/* Read once, at the start: later the app's threads may be changing their environment. */
static struct {
    char triton[KG_PATH], inductor[KG_PATH];
} places;

void triton_start(void)
{
    const char *triton = getenv("TRITON_CACHE_DIR"), *home = getenv("HOME");
    const char *inductor = getenv("TORCHINDUCTOR_CACHE_DIR"), *user = getenv("USER");
    if (triton && *triton)
        (void)path_make(places.triton, "%s", triton);
    else if (home && *home)
        (void)path_make(places.triton, "%s/.triton/cache", home);
    if (inductor && *inductor)
        (void)path_make(places.inductor, "%s", inductor);
    else
        (void)path_make(places.inductor, "/tmp/torchinductor_%s",
                        user && *user ? user
                        : !geteuid()  ? "root"
                                      : "");
}

struct wanted {
    const char *name;
    size_t size;
    struct kg_id id; /* hash of the cubin's bytes */
};

/* A file that the user may trust, of at most FILE_LIMIT bytes; NULL data: no such. size 0: any. */
static struct kg_bytes read_trusted(int folder, const char *name, size_t size)
{
    struct kg_bytes out = {0};
    struct stat info;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return out;
    bool fits = !fstat(fd, &info) && S_ISREG(info.st_mode) && stat_trusted(&info) &&
                info.st_size > 0 && (size_t)info.st_size <= FILE_LIMIT &&
                (!size || (size_t)info.st_size == size);
    if (fits && (out.data = malloc((size_t)info.st_size + 1))) {
        ssize_t got = pread(fd, out.data, (size_t)info.st_size, 0);
        if (got == info.st_size) {
            out.size = (size_t)got;
            out.data[out.size] = 0;
        } else {
            bytes_free(&out);
        }
    }
    close(fd);
    return out;
}

/* The PTX in one folder of the cache, if its cubin is the wanted one. */
static char *look_in(int folder, const struct wanted *wanted)
{
    char name[600];
    struct kg_id id;
    snprintf(name, sizeof name, "%s.cubin", wanted->name);
    struct kg_bytes cubin = read_trusted(folder, name, wanted->size), ptx = {0};
    if (!cubin.data)
        return NULL;
    hash_data(cubin.data, cubin.size, &id);
    bytes_free(&cubin);
    snprintf(name, sizeof name, "%s.ptx", wanted->name);
    if (id_equal(&id, &wanted->id))
        ptx = read_trusted(folder, name, 0);
    return (char *)ptx.data;
}

static char *look_below(const char *root, const struct wanted *wanted)
{
    char *found = NULL;
    DIR *list = opendir(root);
    unsigned left = ENTRIES;
    for (struct dirent *e; list && !found && left && (e = readdir(list)); left--) {
        if (*e->d_name == '.' || (e->d_type != DT_DIR && e->d_type != DT_UNKNOWN))
            continue;
        int folder =
            openat(dirfd(list), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (folder < 0)
            continue;
        found = look_in(folder, wanted);
        close(folder);
    }
    if (list)
        closedir(list);
    return found;
}

char *triton_ptx(const char *name, size_t size, const struct kg_id *cubin)
{
    struct wanted wanted = {.name = name, .size = size, .id = *cubin};
    char path[KG_PATH];
    if (strchr(name, '/'))
        return NULL;
    char *found = *places.triton ? look_below(places.triton, &wanted) : NULL;
    for (unsigned i = 0; !found && i < DEVICE_FOLDERS; i++)
        if (path_make(path, "%s/triton/%u", places.inductor, i) == KG_OK)
            found = look_below(path, &wanted);
    return found;
}
