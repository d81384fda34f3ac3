/* Kernels that a worker judged without gain: one small file each, DIR/judged/<hardware key>-<kernel
 * id>, so that apps leave them alone instead of capturing them anew in every run. What stands in it
 * is a digest of all that the verdict hangs on; it holds for a week, and no longer than driver,
 * kgenrt, makers and accuracy stay as they are. A file that is damaged or gone costs a capture. */
#include "cache.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { WEEK = 7 * 24 * 3600, SKEW = 3600 };

/* A reply more or less in a maker's folder makes it another maker. */
static void hash_makers(struct kg_hash *hash, const char *makers)
{
    static const char folder[] = "recorded:";
    hash_text(hash, makers);
    for (const char *item = makers; *item; item += strcspn(item, ","), item += *item == ',') {
        char path[KG_PATH];
        struct stat info;
        item += strspn(item, " ");
        if (strncmp(item, folder, sizeof folder - 1))
            continue;
        const char *name = item + sizeof folder - 1;
        if (path_make(path, "%.*s", (int)strcspn(name, ","), name) != KG_OK || stat(path, &info))
            continue;
        hash_u64(hash, (uint64_t)info.st_mtim.tv_sec);
        hash_u64(hash, (uint64_t)info.st_mtim.tv_nsec);
    }
}

static void digest_text(int driver_version, char text[static KG_ID_TEXT])
{
    const struct kg_options *o = options();
    struct kg_hash hash;
    struct kg_id digest;
    hash_begin(&hash);
    hash_text(&hash, KG_VERSION);
    hash_u64(&hash, (uint64_t)driver_version);
    hash_makers(&hash, o->makers);
    hash_text(&hash, o->openai_url);
    hash_text(&hash, o->openai_model);
    hash_text(&hash, o->accuracy);
    hash_text(&hash, o->lower);
    hash_end(&hash, &digest);
    id_text(&digest, text);
}

static kg_status file_name(const char *dir, const struct kg_id *hardware,
                           const struct kg_id *kernel, char path[static KG_PATH])
{
    char key[KG_ID_TEXT], id[KG_ID_TEXT];
    return path_make(path, "%s/judged/%s-%s", dir, id_text(hardware, key), id_text(kernel, id));
}

kg_status judged_put(const char *dir, const struct kg_id *hardware, const struct kg_id *kernel,
                     int driver_version)
{
    char path[KG_PATH], text[KG_ID_TEXT];
    kg_status status = path_make(path, "%s/judged", dir);
    if (status == KG_OK)
        status = dir_make(path);
    if (status == KG_OK)
        status = file_name(dir, hardware, kernel, path);
    digest_text(driver_version, text);
    return status == KG_OK ? file_write(path, text, strlen(text), 0600) : status;
}

void judged_remove(const char *dir, const struct kg_id *hardware, const struct kg_id *kernel)
{
    char path[KG_PATH];
    if (file_name(dir, hardware, kernel, path) == KG_OK)
        (void)unlink(path); /* as a rule there is none */
}

bool judged_holds(const char *dir, const struct kg_id *hardware, const struct kg_id *kernel,
                  int driver_version)
{
    char path[KG_PATH], text[KG_ID_TEXT];
    struct stat info;
    struct kg_bytes file;
    time_t now = time(NULL);
    if (file_name(dir, hardware, kernel, path) != KG_OK || stat(path, &info) ||
        info.st_mtime > now + SKEW || info.st_mtime + WEEK <= now ||
        file_read(path, sizeof text, &file) != KG_OK)
        return false;
    digest_text(driver_version, text);
    bool same = file.size == strlen(text) && !memcmp(file.data, text, file.size);
    bytes_free(&file);
    return same;
}
