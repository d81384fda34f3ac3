/* Reading a snapshot, in the app: an immutable LMDB file, mapped only after its whole content was
 * read and found to have the digest in its name. LMDB trusts page headers, and a flipped bit in one
 * is a crash: so nothing is mapped that has not been checked, and what is mapped never changes (a
 * new snapshot is another file). No lock file, no writing; every call has its own transaction, so
 * calls from several threads do not meet. */
#include "env.h"
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEX = KG_ID_TEXT - 1, CHUNK = 1 << 16 };
static const off_t most_file = (off_t)4 << 30;
static const off_t most_copy = (off_t)64 << 20; /* of a snapshot in memory */

struct snapshot {
    MDB_env *env;
    MDB_dbi databases[SNAPSHOT_DATABASES];
    struct kg_id hardware, id;
    size_t kernels;
    struct stat file; /* what LMDB's descriptor stands for */
};

/* ---- which one is current -------------------------------------------------------------------- */

/* "<hardware key>-<digest>.kgs" and a newline. */
static kg_status parse_current(const char *text, size_t size, const struct kg_id *hardware,
                               struct kg_id *out)
{
    char key[KG_ID_TEXT], digest[KG_ID_TEXT];
    id_text(hardware, key);
    if (size != HEX + 1 + HEX + 5 || memcmp(text, key, HEX) || text[HEX] != '-' ||
        memcmp(text + HEX + 1 + HEX, ".kgs\n", 5))
        return KG_CORRUPT;
    memcpy(digest, text + HEX + 1, HEX);
    digest[HEX] = 0;
    return id_parse(digest, out);
}

/* The watcher asks ten times a second: what is wrong is said once. */
static kg_status say_once(kg_status status, const char *path)
{
    static atomic_bool said;
    if (!atomic_exchange_explicit(&said, true, memory_order_relaxed))
        log_line(KG_WARN, "%s: not used: %s", path, status_text(status));
    return status;
}

bool snapshot_changed(const char *dir, const struct kg_id *hardware, struct snapshot_mark *mark)
{
    char path[KG_PATH], key[KG_ID_TEXT];
    struct snapshot_mark now = {0};
    struct stat info;
    if (path_make(path, "%s/snapshots/%s.current", dir, id_text(hardware, key)) == KG_OK &&
        !stat(path, &info))
        now = (struct snapshot_mark){(uint64_t)info.st_ino, (uint64_t)info.st_dev,
                                     (uint64_t)info.st_mtim.tv_sec * 1000000000u +
                                         (uint64_t)info.st_mtim.tv_nsec};
    bool changed = now.inode && memcmp(&now, mark, sizeof now);
    *mark = now;
    return changed;
}

kg_status snapshot_current(const char *dir, const struct kg_id *hardware, struct kg_id *out)
{
    char path[KG_PATH], key[KG_ID_TEXT], text[2 * HEX + 16];
    struct stat info;
    if (path_make(path, "%s/snapshots/%s.current", dir, id_text(hardware, key)) != KG_OK)
        return KG_LIMIT;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? KG_NOT_FOUND : say_once(KG_IO, path);
    bool sound = !fstat(fd, &info) && S_ISREG(info.st_mode);
    ssize_t size = sound ? read(fd, text, sizeof text) : -1;
    close(fd);
    if (size < 0)
        return say_once(KG_IO, path);
    if (!stat_trusted(&info))
        return say_once(KG_DENIED, path);
    kg_status status = parse_current(text, (size_t)size, hardware, out);
    return status == KG_OK ? KG_OK : say_once(KG_CORRUPT, path);
}

/* ---- open ------------------------------------------------------------------------------------ */

kg_status snapshot_digest(int fd, struct kg_id *out)
{
    struct kg_hash hash;
    unsigned char *chunk = malloc(CHUNK);
    off_t at = 0;
    ssize_t got = -1;
    if (!chunk)
        return KG_NO_MEMORY;
    hash_begin(&hash);
    while ((got = pread(fd, chunk, CHUNK, at)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            break;
        hash_bytes(&hash, chunk, (size_t)got);
        at += got;
    }
    free(chunk);
    hash_end(&hash, out);
    return got ? KG_IO : KG_OK;
}

static kg_status check_file(int fd, const char *path, const struct kg_id *digest, struct stat *info)
{
    struct kg_id got;
    if (fstat(fd, info) || !S_ISREG(info->st_mode) || info->st_size > most_file)
        return KG_IO;
    kg_status status = snapshot_digest(fd, &got);
    if (status == KG_OK && !id_equal(&got, digest)) {
        log_line(KG_WARN, "%s: the snapshot is damaged; it is not used", path);
        status = KG_CORRUPT;
    }
    return status;
}

static int open_databases(struct snapshot *snapshot)
{
    MDB_txn *txn;
    int code = mdb_txn_begin(snapshot->env, NULL, MDB_RDONLY, &txn);
    if (code)
        return code;
    code = env_databases(txn, SNAPSHOT_DATABASES, SNAPSHOT_FORMAT, false, snapshot->databases);
    if (!code)
        return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return code;
}

/* LMDB opens by name: the file that it got must be the one that was checked. */
static bool same_file(MDB_env *env, const struct stat *checked)
{
    struct stat info;
    int fd;
    return !mdb_env_get_fd(env, &fd) && !fstat(fd, &info) && info.st_ino == checked->st_ino &&
           info.st_dev == checked->st_dev && info.st_size == checked->st_size;
}

static kg_status map_file(struct snapshot *snapshot, const char *path, const struct stat *info)
{
    int code = mdb_env_create(&snapshot->env);
    snapshot->file = *info;
    if (!code)
        code = mdb_env_set_maxdbs(snapshot->env, SNAPSHOT_DATABASES);
    if (!code) /* not a byte beyond the file: touching it would be a SIGBUS */
        code = mdb_env_set_mapsize(snapshot->env, (size_t)info->st_size);
    if (!code)
        code = mdb_env_open(snapshot->env, path, MDB_RDONLY | MDB_NOLOCK | MDB_NOSUBDIR | MDB_NOTLS,
                            0600);
    if (!code && !same_file(snapshot->env, info)) {
        mdb_env_close(snapshot->env);
        snapshot->env = NULL;
        return KG_CORRUPT;
    }
    if (!code)
        code = open_databases(snapshot);
    return env_status(code, path);
}

static bool copy_all(int from, int to, off_t size)
{
    struct kg_quiet quiet; /* a limit on file sizes holds here too */
    bool good = true;
    quiet_begin(&quiet);
    for (off_t at = 0; at < size && good;) {
        ssize_t done = sendfile(to, from, &at, (size_t)(size - at));
        good = done > 0 || (done < 0 && errno == EINTR);
    }
    quiet_end(&quiet);
    return good;
}

/* Copies a small snapshot into memory that nobody can change any more, so that a file cut short
 * later, or a disk that fails, is no SIGBUS in the app. -1: it is read where it is. */
static int copy_open(int fd)
{
    struct stat info;
    int copy = -1;
    if (!fstat(fd, &info) && info.st_size <= most_copy)
        copy = memfd_create("kgenrt-snapshot", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (copy < 0)
        return -1;
    if (copy_all(fd, copy, info.st_size) &&
        !fcntl(copy, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        return copy;
    close(copy);
    return -1;
}

/* Maps the file, or better its copy, once its digest is found right. */
static kg_status open_checked(struct snapshot *snapshot, int fd, const char *path,
                              const struct kg_id *digest)
{
    struct stat info;
    char copied[32];
    kg_status status = file_trusted(fd, path);
    if (status != KG_OK)
        return status;
    int copy = copy_open(fd);
    if (copy >= 0) {
        snprintf(copied, sizeof copied, "/proc/self/fd/%d", copy);
        bool there = !access(copied, R_OK); /* not where /proc is not mounted */
        if (there && (status = check_file(copy, path, digest, &info)) == KG_OK)
            status = map_file(snapshot, copied, &info);
        close(copy);
        if (there)
            return status;
    }
    status = check_file(fd, path, digest, &info);
    return status == KG_OK ? map_file(snapshot, path, &info) : status;
}

/* Calls row for each pair of best under the prefix; a missing transaction is the only failure. */
static kg_status best_walk(const struct snapshot *snapshot, struct store_key *prefix,
                           bool (*row)(void *self, const MDB_val *key, const MDB_val *value),
                           void *self)
{
    MDB_txn *txn;
    MDB_cursor *cursor = NULL;
    int code = mdb_txn_begin(snapshot->env, NULL, MDB_RDONLY, &txn);
    if (code)
        return env_status(code, "snapshot");
    MDB_val key = store_key_value(prefix), value;
    code = mdb_cursor_open(txn, snapshot->databases[DB_best], &cursor);
    if (!code)
        code = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    while (!code && key.mv_size == 3 * sizeof(struct kg_id) &&
           !memcmp(key.mv_data, prefix->bytes, prefix->size) && row(self, &key, &value))
        code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    if (cursor)
        mdb_cursor_close(cursor);
    mdb_txn_abort(txn);
    return code == MDB_NOTFOUND ? KG_OK : env_status(code, "snapshot");
}

struct kernel_count {
    struct kg_id last;
    size_t count;
};

static bool count_kernel(void *self, const MDB_val *key, const MDB_val *value)
{
    struct kernel_count *kernels = self;
    const unsigned char *id = (const unsigned char *)key->mv_data + KG_ID_BYTES;
    if (!kernels->count || memcmp(kernels->last.bytes, id, KG_ID_BYTES)) {
        kernels->count++;
        memcpy(kernels->last.bytes, id, KG_ID_BYTES);
    }
    return true;
}

kg_status snapshot_open_file(const char *path, const struct kg_id *hardware,
                             const struct kg_id *digest, struct snapshot **out)
{
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? KG_NOT_FOUND : KG_IO;
    struct snapshot *snapshot = calloc(1, sizeof *snapshot);
    kg_status status = snapshot ? open_checked(snapshot, fd, path, digest) : KG_NO_MEMORY;
    close(fd);
    if (status == KG_OK) {
        struct kernel_count kernels = {.count = 0};
        struct store_key prefix = {.size = 0};
        snapshot->hardware = *hardware;
        snapshot->id = *digest;
        store_key_add(&prefix, hardware);
        status = best_walk(snapshot, &prefix, count_kernel, &kernels);
        snapshot->kernels = kernels.count;
    }
    if (status == KG_OK)
        *out = snapshot;
    else
        snapshot_close(snapshot);
    return status;
}

/* KG_NOT_FOUND without a folder; else whether nobody else could have put files there. */
static kg_status check_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? KG_NOT_FOUND : KG_IO;
    kg_status status = file_trusted(fd, path);
    close(fd);
    return status;
}

static kg_status check_folders(const char *dir)
{
    char path[KG_PATH];
    kg_status status = path_make(path, "%s/snapshots", dir);
    if (status == KG_OK)
        status = check_folder(dir);
    return status == KG_OK ? check_folder(path) : status;
}

kg_status snapshot_open_named(const char *dir, const struct kg_id *hardware,
                              const struct kg_id *digest, struct snapshot **out)
{
    char path[KG_PATH], key[KG_ID_TEXT], text[KG_ID_TEXT];
    *out = NULL;
    kg_status status = check_folders(dir);
    if (status == KG_OK)
        status = path_make(path, "%s/snapshots/%s-%s.kgs", dir, id_text(hardware, key),
                           id_text(digest, text));
    return status == KG_OK ? snapshot_open_file(path, hardware, digest, out) : status;
}

kg_status snapshot_open(const char *dir, const struct kg_id *hardware, struct snapshot **out)
{
    struct kg_id digest;
    *out = NULL;
    kg_status status = check_folders(dir);
    /* Between reading the name and opening the file, a writer may have pruned it: ask again. */
    for (int tries = 0; status == KG_OK && tries < 3; tries++) {
        status = snapshot_current(dir, hardware, &digest);
        if (status != KG_OK)
            break;
        status = snapshot_open_named(dir, hardware, &digest, out);
        if (status != KG_NOT_FOUND)
            break;
        status = tries < 2 ? KG_OK : KG_NOT_FOUND;
    }
    return status;
}

void snapshot_close(struct snapshot *snapshot)
{
    int fd = -1;
    if (!snapshot)
        return;
    /* LMDB closes its descriptor by number: an app that has closed all descriptors may have a file
     * of its own there by now. Then the map stays. */
    bool opened = snapshot->env && !mdb_env_get_fd(snapshot->env, &fd) && fd >= 0;
    if (snapshot->env && (!opened || same_file(snapshot->env, &snapshot->file)))
        mdb_env_close(snapshot->env);
    free(snapshot);
}

const struct kg_id *snapshot_id(const struct snapshot *snapshot)
{
    return &snapshot->id;
}

size_t snapshot_kernel_count(const struct snapshot *snapshot)
{
    return snapshot->kernels;
}

/* ---- look-up --------------------------------------------------------------------------------- */

struct variant_walk {
    bool (*each)(void *self, const struct kg_variant *variant);
    void *self;
    kg_status status; /* of the first record that is not sound */
};

/* The record must say of itself what its key says of it. */
static bool variant_row(void *self, const MDB_val *key, const MDB_val *value)
{
    struct variant_walk *walker = self;
    struct kg_variant variant;
    struct store_key own = {.size = 0};
    struct kg_id signature;
    kg_status status = variant_parse(value->mv_data, value->mv_size, &variant);
    if (status == KG_OK) {
        signature_id(&variant.signature, &signature);
        store_key_add(&own, &variant.hardware);
        store_key_add(&own, &variant.kernel);
        store_key_add(&own, &signature);
        if (memcmp(own.bytes, key->mv_data, own.size))
            status = KG_CORRUPT;
    }
    bool more = status != KG_OK || walker->each(walker->self, &variant);
    if (status != KG_OK && walker->status == KG_OK) {
        walker->status = status;
        log_line(KG_WARN, "cache: a record of the snapshot is not used: %s", status_text(status));
    }
    variant_free(&variant);
    return more;
}

kg_status snapshot_each(const struct snapshot *snapshot, const struct kg_id *kernel,
                        bool (*each)(void *, const struct kg_variant *), void *self)
{
    struct variant_walk walker = {.each = each, .self = self};
    struct store_key prefix = {.size = 0};
    store_key_add(&prefix, &snapshot->hardware);
    store_key_add(&prefix, kernel);
    kg_status status = best_walk(snapshot, &prefix, variant_row, &walker);
    return status == KG_OK ? walker.status : status;
}

kg_status snapshot_blob(const struct snapshot *snapshot, const struct kg_id *id,
                        struct kg_bytes *out)
{
    MDB_txn *txn;
    *out = (struct kg_bytes){0};
    int code = mdb_txn_begin(snapshot->env, NULL, MDB_RDONLY, &txn);
    if (code)
        return env_status(code, "snapshot");
    MDB_val key = {KG_ID_BYTES, (void *)id->bytes}, value;
    kg_status status =
        env_status(mdb_get(txn, snapshot->databases[DB_blobs], &key, &value), "snapshot's blob");
    if (status == KG_OK)
        status = blob_unpack(value.mv_data, value.mv_size, id, out);
    mdb_txn_abort(txn);
    return status;
}

struct verification {
    const struct snapshot *snapshot;
    size_t count;
    kg_status status;
};

static bool verify_variant(void *self, const struct kg_variant *variant)
{
    struct verification *verification = self;
    struct kg_bytes code;
    verification->status = snapshot_blob(verification->snapshot, &variant->code, &code);
    verification->count++;
    bytes_free(&code);
    return verification->status == KG_OK;
}

kg_status snapshot_verify(const struct snapshot *snapshot, size_t *count)
{
    struct verification verification = {.snapshot = snapshot};
    struct variant_walk walker = {.each = verify_variant, .self = &verification};
    struct store_key prefix = {.size = 0};
    store_key_add(&prefix, &snapshot->hardware);
    kg_status status = best_walk(snapshot, &prefix, variant_row, &walker);
    *count = verification.count;
    if (status == KG_OK)
        status = walker.status;
    return status == KG_OK ? verification.status : status;
}
