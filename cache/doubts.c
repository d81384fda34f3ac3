/* Doubts in the spool: DIR/spool/<variant id>.doubt, one small file a variant, written by the
 * program in which the variant differed from its original, removed by the worker that settled it.
 * Safe in the app; what stands in a file is not believed beyond its form. */
#include "cache.h"
#include "pack.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_DOUBT = 4096, WEEK = 7 * 24 * 3600 };
static const char magic[PACK_MAGIC] = "KGDOUB\0";

static kg_status file_name(const char *dir, const struct kg_id *variant, char path[static KG_PATH])
{
    char id[KG_ID_TEXT];
    return path_make(path, "%s/spool/%s" DOUBT_SUFFIX, dir, id_text(variant, id));
}

kg_status doubt_put(const char *dir, const struct kg_doubt *doubt)
{
    char path[KG_PATH];
    struct pack pack = {0};
    struct kg_bytes bytes;
    pack_begin(&pack, magic, 1);
    pack_id(&pack, &doubt->variant);
    pack_id(&pack, &doubt->hardware);
    pack_id(&pack, &doubt->kernel);
    pack_id(&pack, &doubt->signature);
    pack_u8(&pack, doubt->differed);
    pack_u32(&pack, (uint32_t)doubt->pid);
    pack_u64(&pack, doubt->time);
    pack_text(&pack, doubt->program);
    pack_text(&pack, doubt->reason);
    kg_status status = pack_seal(&pack, &bytes);
    if (status == KG_OK)
        status = file_name(dir, &doubt->variant, path);
    if (status == KG_OK)
        status = file_write(path, bytes.data, bytes.size, 0600);
    bytes_free(&bytes);
    return status;
}

static kg_status parse(const struct kg_bytes *file, struct kg_doubt *out)
{
    struct unpack in;
    *out = (struct kg_doubt){0};
    kg_status status = unpack_begin(&in, file->data, file->size, magic, 1);
    if (status != KG_OK)
        return status;
    unpack_id(&in, &out->variant);
    unpack_id(&in, &out->hardware);
    unpack_id(&in, &out->kernel);
    unpack_id(&in, &out->signature);
    out->differed = unpack_u8(&in) != 0;
    out->pid = (int)unpack_u32(&in);
    out->time = unpack_u64(&in);
    unpack_text(&in, out->program, sizeof out->program);
    unpack_text(&in, out->reason, sizeof out->reason);
    return unpack_done(&in) ? KG_OK : KG_CORRUPT;
}

void doubt_remove(const char *dir, const struct kg_id *variant)
{
    char path[KG_PATH];
    if (file_name(dir, variant, path) == KG_OK && unlink(path) && errno != ENOENT)
        log_line(KG_WARN, "%s: %s", path, strerror(errno));
}

unsigned doubts_read(const char *dir, struct kg_doubt *out, unsigned most)
{
    char folder[KG_PATH], path[KG_PATH];
    unsigned count = 0;
    if (path_make(folder, "%s/spool", dir) != KG_OK)
        return 0;
    DIR *list = opendir(folder);
    for (struct dirent *e; list && count < most && (e = readdir(list));) {
        struct kg_bytes file;
        if (!text_ends(e->d_name, DOUBT_SUFFIX) ||
            path_make(path, "%s/%s", folder, e->d_name) != KG_OK ||
            file_read(path, MOST_DOUBT, &file) != KG_OK)
            continue;
        kg_status status = parse(&file, &out[count]);
        bytes_free(&file);
        if (status == KG_OK)
            count++;
        else if (unlink(path)) /* damaged, or of another version */
            log_line(KG_INFO, "%s: %s", path, strerror(errno));
    }
    if (list)
        closedir(list);
    return count;
}

static kg_status looked_name(const char *dir, const struct kg_id *variant,
                             char path[static KG_PATH])
{
    char id[KG_ID_TEXT];
    return path_make(path, "%s/looked/%s", dir, id_text(variant, id));
}

void looked_put(const char *dir, const struct kg_id *variant)
{
    char path[KG_PATH];
    if (path_make(path, "%s/looked", dir) == KG_OK && dir_make(path) == KG_OK &&
        looked_name(dir, variant, path) == KG_OK)
        (void)file_write(path, "\n", 1, 0600); /* says itself what failed: it is looked at again */
}

bool looked_holds(const char *dir, const struct kg_id *variant)
{
    char path[KG_PATH];
    struct stat info;
    return looked_name(dir, variant, path) == KG_OK && !stat(path, &info) &&
           info.st_mtime <= time(NULL) && info.st_mtime + WEEK > time(NULL);
}
