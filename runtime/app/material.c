/* Raw material of machine code: the PTX that a compiler in this process made beside a cubin, or
 * that Triton's cache has beside it, by the cubin's hash. What a compiler made for a kernel that
 * matters is kept in DIR/material for later processes, which may load the cubin from a cache of
 * their own, as CuPy does. Bounded; never guesses: other bytes are another cubin. */
#include "app/inside.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { KEPT = 1024 };
#define KEPT_BYTES ((size_t)64 << 20)

struct material {
    struct kg_id cubin; /* hash of its bytes */
    char *ptx;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct material kept[KEPT]; /* a ring: the oldest give way */
static unsigned next;
static size_t bytes;
static atomic_bool any; /* has ever held one */

static struct material *find(const struct kg_id *cubin)
{
    for (unsigned i = 0; i < KEPT; i++)
        if (kept[i].ptx && id_equal(&kept[i].cubin, cubin))
            return &kept[i];
    return NULL;
}

static void forget(struct material *one)
{
    if (!one->ptx)
        return;
    bytes -= strlen(one->ptx) + 1;
    free(one->ptx);
    one->ptx = NULL;
}

/* The text is ours now. */
static void keep(const struct kg_id *id, char *ptx)
{
    size_t length = strlen(ptx) + 1;
    pthread_mutex_lock(&lock);
    if (find(id) || length > KEPT_BYTES / 4) {
        pthread_mutex_unlock(&lock);
        free(ptx);
        return;
    }
    forget(&kept[next]);
    for (unsigned i = 1; i < KEPT && bytes + length > KEPT_BYTES; i++)
        forget(&kept[(next + i) % KEPT]);
    kept[next] = (struct material){*id, ptx};
    atomic_store_explicit(&any, true, memory_order_release);
    bytes += length;
    next = (next + 1) % KEPT;
    pthread_mutex_unlock(&lock);
}

void material_add(const void *cubin, size_t size, char *ptx)
{
    struct kg_id id;
    enum image_kind kind;
    const void *data;
    size_t extent;
    if (image_extent(cubin, size, &kind, &data, &extent) != KG_OK || kind != IMAGE_ELF) {
        free(ptx);
        return;
    }
    hash_data(cubin, extent, &id); /* all that a load call, which gives no length, can know */
    keep(&id, ptx);
}

bool material_join(const void *cubin, size_t size, struct kg_bytes *out)
{
    struct kg_id id;
    if (!atomic_load_explicit(&any, memory_order_acquire))
        return false; /* most programs: nothing is hashed */
    hash_data(cubin, size, &id);
    pthread_mutex_lock(&lock);
    const struct material *one = find(&id);
    bool joined = one && image_join(cubin, size, one->ptx, out) == KG_OK;
    pthread_mutex_unlock(&lock);
    return joined;
}

static bool path_of(char path[static KG_PATH], const struct kg_id *cubin)
{
    char text[KG_ID_TEXT];
    return *app_dir() &&
           path_make(path, "%s/material/%s.ptx", app_dir(), id_text(cubin, text)) == KG_OK;
}

/* Bytes in the folder; the worker removes what was not used for long. */
static uint64_t folder_bytes(void)
{
    char folder[KG_PATH];
    uint64_t sum = 0;
    struct stat info;
    if (path_make(folder, "%s/material", app_dir()) != KG_OK)
        return UINT64_MAX;
    DIR *list = opendir(folder);
    for (struct dirent *e; list && (e = readdir(list));)
        if (!fstatat(dirfd(list), e->d_name, &info, AT_SYMLINK_NOFOLLOW) && S_ISREG(info.st_mode))
            sum += (uint64_t)info.st_size;
    if (!list)
        return UINT64_MAX;
    closedir(list);
    return sum;
}

/* For later processes. */
static void hand_down(const struct kg_id *cubin)
{
    char path[KG_PATH];
    struct kg_bytes text = {0};
    struct stat info;
    if (!path_of(path, cubin) || !stat(path, &info))
        return;
    pthread_mutex_lock(&lock);
    const struct material *one = find(cubin);
    if (one && (text.data = (unsigned char *)strdup(one->ptx)))
        text.size = strlen(one->ptx);
    pthread_mutex_unlock(&lock);
    if (text.data && folder_bytes() <= KEPT_BYTES - text.size)
        (void)file_write(path, text.data, text.size, 0600);
    bytes_free(&text);
}

static char *handed_down(const struct kg_id *cubin)
{
    char path[KG_PATH];
    struct kg_bytes text;
    if (!path_of(path, cubin) || file_read(path, KEPT_BYTES / 4, &text) != KG_OK)
        return NULL;
    (void)utimensat(AT_FDCWD, path, NULL, 0); /* used: the worker keeps it */
    return (char *)text.data;                 /* file_read ends it with a NUL */
}

/* Whether a kernel of the module was launched this often. */
static const struct kernel *launched(const struct module *module, uint64_t times)
{
    for (const struct kernel *k = module->kernels; k; k = k->sibling)
        if (kernel_launches(k) >= times)
            return k;
    return NULL;
}

/* A living module of which nothing but a cubin is known, and one of whose kernels was launched; or
 * one whose PTX was made here, and matters. Once each. Locked. */
static struct module *module_to_ask(char name[static 512])
{
    for (struct module *m = modules_first(); m; m = m->next) {
        bool bare = m->image.size > 4 && !memcmp(m->image.data, "\177ELF", 4);
        if (m->asked || m->dead || (!bare && !(m->joined && app_mode() == KG_MODE_TUNE)))
            continue;
        const struct kernel *kernel =
            launched(m, m->joined ? (uint64_t)options()->hot_launches : 1);
        if (!kernel)
            continue;
        m->asked = true;
        memcpy(name, kernel->name, 512);
        return m;
    }
    return NULL;
}

void material_tick(void)
{
    char name[512];
    struct kg_id id;
    records_lock();
    struct module *module = module_to_ask(name);
    size_t size = module ? module->image.size : 0;
    bool joined = module && module->joined;
    if (joined)
        id = module->cubin;
    else if (module)
        hash_data(module->image.data, size, &id);
    records_unlock();
    if (joined)
        hand_down(&id);
    if (!module || joined)
        return;
    char *ptx = handed_down(&id);
    if (!ptx && !(ptx = triton_ptx(name, size, &id)))
        return;
    keep(&id, ptx);
    records_lock();
    module_material_found(module,
                          &id); /* if it is the same still: a record serves another one later */
    records_unlock();
}

/* The parent's lock may be held by a thread that the child does not have. */
void material_after_fork_child(void)
{
    pthread_mutex_init(&lock, NULL);
}
