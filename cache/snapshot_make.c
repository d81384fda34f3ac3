/* Making a snapshot, in the worker: what is best for one hardware key, and its code, as a compact
 * file of its own; checked as the app will check it, then renamed into place. */
#include "env.h"
#include "record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { STALE_SECONDS = 3600, SLACK = 16 << 20 };

struct making {
    struct store *store;
    const struct kg_id *hardware;
    const char *dir;
    char folder[KG_PATH], build[KG_PATH], file[KG_PATH]; /* build: loose, file: compact */
    MDB_dbi databases[SNAPSHOT_DATABASES];
    size_t variants;
};

/* One best variant: its record and its code. What is not sound stays behind. */
static int copy_variant(struct making *making, MDB_txn *from, MDB_txn *to, MDB_val *key,
                        const MDB_val *best)
{
    struct kg_variant variant;
    struct kg_bytes code = {0};
    MDB_val id = *best, record, blob;
    int result = mdb_get(from, making->store->databases[DB_variants], &id, &record);
    if (result)
        return result == MDB_NOTFOUND ? 0 : result;
    if (variant_parse(record.mv_data, record.mv_size, &variant) != KG_OK)
        return 0;
    id = (MDB_val){KG_ID_BYTES, variant.code.bytes};
    result = mdb_get(from, making->store->databases[DB_blobs], &id, &blob);
    if (!result && blob_unpack(blob.mv_data, blob.mv_size, &variant.code, &code) != KG_OK)
        result = MDB_NOTFOUND;
    bytes_free(&code);
    if (!result)
        result = mdb_put(to, making->databases[DB_blobs], &id, &blob, 0);
    if (!result)
        result = mdb_put(to, making->databases[DB_best], key, &record, 0);
    if (!result)
        making->variants++;
    if (result == MDB_NOTFOUND)
        log_line(KG_WARN, "cache: a best variant of %s has no sound code: left out",
                 variant.kernel_name);
    variant_free(&variant);
    return result == MDB_NOTFOUND ? 0 : result;
}

static int copy_best(struct making *making, MDB_txn *from, MDB_txn *to)
{
    MDB_cursor *cursor;
    MDB_val key = {KG_ID_BYTES, (void *)making->hardware->bytes}, value;
    int code = mdb_cursor_open(from, making->store->databases[DB_best], &cursor);
    if (code)
        return code;
    code = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    while (!code && key.mv_size >= KG_ID_BYTES &&
           !memcmp(key.mv_data, making->hardware->bytes, KG_ID_BYTES)) {
        code = copy_variant(making, from, to, &key, &value);
        if (!code)
            code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    return code == MDB_NOTFOUND ? 0 : code;
}

/* All in one transaction of the new environment, and of the store. */
static kg_status fill(struct making *making, MDB_env *env)
{
    MDB_txn *from, *to;
    kg_status status = store_begin_read(making->store, &from);
    if (status != KG_OK)
        return status;
    int code = mdb_txn_begin(env, NULL, 0, &to);
    if (!code) {
        code = env_databases(to, SNAPSHOT_DATABASES, SNAPSHOT_FORMAT, true, making->databases);
        if (!code)
            code = copy_best(making, from, to);
        if (code)
            mdb_txn_abort(to);
        else
            code = mdb_txn_commit(to);
    }
    store_end_read(making->store, from);
    return env_status(code, making->build);
}

/* The compact copy, without a free page, synced. */
static kg_status compact(const struct making *making, MDB_env *env)
{
    int fd = open(making->file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        log_line(KG_WARN, "%s: %s", making->file, strerror(errno));
        return KG_IO;
    }
    int code = mdb_env_copyfd2(env, fd, MDB_CP_COMPACT);
    if (!code && fsync(fd))
        code = errno;
    if (close(fd) && !code)
        code = errno;
    return env_status(code, making->file);
}

static kg_status build(struct making *making)
{
    MDB_env *env = NULL;
    MDB_envinfo info;
    MDB_stat stat;
    int code = mdb_env_info(making->store->env, &info);
    if (!code)
        code = mdb_env_stat(making->store->env, &stat);
    if (!code)
        code = mdb_env_create(&env);
    if (!code)
        code = mdb_env_set_maxdbs(env, SNAPSHOT_DATABASES);
    if (!code) /* a part of the store: twice what the store uses is enough */
        code = mdb_env_set_mapsize(env, 2 * (info.me_last_pgno + 1) * stat.ms_psize + SLACK);
    if (!code)
        code = mdb_env_open(env, making->build, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0600);
    kg_status status = env_status(code, making->build);
    if (status == KG_OK)
        status = fill(making, env);
    if (status == KG_OK)
        status = compact(making, env);
    if (env)
        mdb_env_close(env);
    return status;
}

/* The file's digest, and a look at all that is in it, with the eyes of the app. */
static kg_status check(const struct making *making, struct kg_id *digest)
{
    struct snapshot *snapshot;
    size_t count = 0;
    int fd = open(making->file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return KG_IO;
    kg_status status = snapshot_digest(fd, digest);
    close(fd);
    if (status == KG_OK)
        status = snapshot_open_file(making->file, making->hardware, digest, &snapshot);
    if (status != KG_OK)
        return status;
    status = snapshot_verify(snapshot, &count);
    snapshot_close(snapshot);
    return status == KG_OK && count != making->variants ? KG_CORRUPT : status;
}

/* Removes this hardware's snapshots but the two named, and what a killed writer left. */
static void prune(const struct making *making, const char *keep, const char *keep_too)
{
    char key[KG_ID_TEXT], path[KG_PATH];
    struct dirent *entry;
    struct stat info;
    DIR *folder = opendir(making->folder);
    id_text(making->hardware, key);
    while (folder && (entry = readdir(folder))) {
        const char *name = entry->d_name;
        bool ours = !strncmp(name, key, strlen(key)) && strstr(name, ".kgs");
        bool stale = !strncmp(name, ".build-", 7) || strstr(name, ".tmp");
        if (!(ours || stale) || !strcmp(name, keep) || !strcmp(name, keep_too) ||
            path_make(path, "%s/%s", making->folder, name) != KG_OK)
            continue;
        struct kg_id named;
        char digest[KG_ID_TEXT] = "";
        if (ours && strlen(name) > strlen(key) + 1)
            snprintf(digest, sizeof digest, "%s", name + strlen(key) + 1);
        if (ours && id_parse(digest, &named) == KG_OK && bound_holds(making->dir, &named))
            continue; /* processes of a program that is just starting may want it */
        if (stale && (stat(path, &info) || info.st_mtime + STALE_SECONDS > time(NULL)))
            continue;
        if (unlink(path))
            log_line(KG_INFO, "%s: cannot be removed: %s", path, strerror(errno));
    }
    if (folder)
        closedir(folder);
}

static kg_status publish(const struct making *making, const char *dir, const struct kg_id *digest)
{
    char key[KG_ID_TEXT], text[KG_ID_TEXT], path[KG_PATH], name[2 * KG_ID_TEXT + 8],
        before[2 * KG_ID_TEXT + 8] = "";
    struct kg_id previous;
    id_text(making->hardware, key);
    if (snapshot_current(dir, making->hardware, &previous) == KG_OK) {
        if (id_equal(&previous, digest))
            return KG_OK; /* nothing new */
        snprintf(before, sizeof before, "%s-%s.kgs", key, id_text(&previous, text));
    }
    snprintf(name, sizeof name, "%s-%s.kgs\n", key, id_text(digest, text));
    size_t length = strlen(name);
    kg_status status = path_make(path, "%s/%.*s", making->folder, (int)(length - 1), name);
    if (status != KG_OK)
        return status;
    if (rename(making->file, path)) {
        log_line(KG_WARN, "%s: %s", path, strerror(errno));
        return KG_IO;
    }
    status = path_make(path, "%s/%s.current", making->folder, key);
    if (status == KG_OK)
        status = file_write(path, name, length, 0600);
    name[length - 1] = 0;
    if (status == KG_OK)
        prune(making, name, before);
    return status;
}

/* One worker works in a folder, but a command may make a snapshot too: one at a time, from what the
 * store holds then. */
static int lock(const char *folder)
{
    char path[KG_PATH];
    if (path_make(path, "%s/.lock", folder) != KG_OK)
        return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    while (fd >= 0 && flock(fd, LOCK_EX)) {
        if (errno == EINTR)
            continue;
        close(fd);
        fd = -1;
    }
    if (fd < 0)
        log_line(KG_WARN, "%s: %s", path, strerror(errno));
    return fd;
}

kg_status snapshot_make(struct store *store, const char *dir, const struct kg_id *hardware)
{
    struct making making = {.store = store, .hardware = hardware, .dir = dir};
    struct kg_id digest;
    kg_status status = path_make(making.folder, "%s/snapshots", dir);
    if (status == KG_OK)
        status = dir_make(making.folder);
    if (status == KG_OK)
        status = path_make(making.build, "%s/.build-%d", making.folder, (int)getpid());
    if (status == KG_OK)
        status = path_make(making.file, "%s/.build-%d.compact", making.folder, (int)getpid());
    if (status != KG_OK)
        return status;
    int held = lock(making.folder);
    if (held < 0)
        return KG_IO;
    unlink(making.build); /* of a process that had this number and was killed */
    unlink(making.file);
    status = build(&making);
    if (status == KG_OK)
        status = check(&making, &digest);
    if (status == KG_OK)
        status = publish(&making, dir, &digest);
    unlink(making.build);
    unlink(making.file);
    close(held);
    return status;
}
