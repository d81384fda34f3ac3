/* The store: the worker's LMDB environment in DIR/store. One process writes at a time (LMDB's own
 * lock), the command line reads. Records are packed by record.c; a record that does not parse is
 * treated as missing and said in the log, never followed.
 *
 * A map that is full is grown between transactions and the transaction is made again, so a change
 * is a function that may run twice. */
#include "env.h"
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

static const size_t first_map = (size_t)64 << 20, last_map = (size_t)64 << 30;

/* ---- open ------------------------------------------------------------------------------------ */

/* DIR or DIR/store: it must be there (or is made), be ours, and lie on a file system of this
 * machine. */
static kg_status check_folder(const char *path, bool read_only)
{
    if (!read_only) {
        kg_status status = dir_make(path);
        if (status != KG_OK)
            return status;
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? KG_NOT_FOUND
               : errno == EACCES                   ? KG_DENIED
                                                   : KG_IO;
    struct statfs info;
    kg_status status = file_trusted(fd, path);
    if (status == KG_OK && !fstatfs(fd, &info) &&
        file_system_remote((unsigned long)info.f_type & 0xffffffff)) {
        log_line(KG_WARN,
                 "%s: lies on a network file system, where the cache's locks do not hold: set "
                 "KGENRT_CACHE to a folder on a local disk",
                 path);
        status = KG_UNSUPPORTED;
    }
    close(fd);
    return status;
}

/* The files inside must be as safe as their folder. */
static kg_status check_files(const char *folder)
{
    static const char *const names[] = {"data.mdb", "lock.mdb"};
    kg_status status = KG_OK;
    for (int i = 0; i < 2 && status == KG_OK; i++) {
        char path[KG_PATH];
        status = path_make(path, "%s/%s", folder, names[i]);
        if (status != KG_OK)
            break;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue; /* LMDB makes what is missing, or says why it cannot */
        status = file_trusted(fd, path);
        close(fd);
    }
    return status;
}

/* LMDB believes its header: a page beyond the file's end would be a SIGBUS. */
static int check_length(struct store *store)
{
    MDB_envinfo info;
    MDB_stat stat;
    struct stat file;
    int fd, code = mdb_env_info(store->env, &info);
    if (!code)
        code = mdb_env_stat(store->env, &stat);
    if (!code)
        code = mdb_env_get_fd(store->env, &fd);
    if (!code && fstat(fd, &file))
        code = errno;
    if (!code && (uint64_t)file.st_size < (uint64_t)(info.me_last_pgno + 1) * stat.ms_psize)
        code = MDB_CORRUPTED;
    return code;
}

static int open_databases(struct store *store)
{
    MDB_txn *txn;
    int code = mdb_txn_begin(store->env, NULL, store->read_only ? MDB_RDONLY : 0, &txn);
    if (code == MDB_MAP_RESIZED && !(code = mdb_env_set_mapsize(store->env, 0)))
        code = mdb_txn_begin(store->env, NULL, store->read_only ? MDB_RDONLY : 0, &txn);
    if (code)
        return code;
    code = env_databases(txn, DATABASE_COUNT, STORE_FORMAT, !store->read_only, store->databases);
    if (!code)
        return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return code;
}

static kg_status open_env(struct store *store, const char *path)
{
    int code = mdb_env_create(&store->env), dead;
    if (!code)
        code = mdb_env_set_maxdbs(store->env, DATABASE_COUNT);
    if (!code && !store->read_only)
        code = mdb_env_set_mapsize(store->env, first_map);
    /* NOMETASYNC: a power cut may undo the last change, and damages nothing. */
    if (!code)
        code = mdb_env_open(store->env, path,
                            MDB_NOTLS | (store->read_only ? MDB_RDONLY : MDB_NOMETASYNC), 0600);
    if (!code)
        code = check_length(store);
    if (!code)
        code = mdb_reader_check(store->env, &dead);
    if (!code)
        code = open_databases(store);
    return env_status(code, path);
}

kg_status store_open(const char *dir, bool read_only, struct store **out)
{
    char path[KG_PATH];
    *out = NULL;
    kg_status status = path_make(path, "%s/store", dir);
    if (status == KG_OK)
        status = check_folder(dir, read_only);
    if (status == KG_OK)
        status = check_folder(path, read_only);
    if (status == KG_OK)
        status = check_files(path);
    if (status != KG_OK)
        return status;
    struct store *store = calloc(1, sizeof *store);
    if (!store)
        return KG_NO_MEMORY;
    store->read_only = read_only;
    status = open_env(store, path);
    if (status == KG_OK)
        *out = store;
    else
        store_close(store);
    return status;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    if (store->env)
        mdb_env_close(store->env);
    free(store);
}

/* ---- transactions ---------------------------------------------------------------------------- */

kg_status store_begin_read(struct store *store, MDB_txn **out)
{
    int code = mdb_txn_begin(store->env, NULL, MDB_RDONLY, out);
    if (code == MDB_MAP_RESIZED && !store->walks && !(code = mdb_env_set_mapsize(store->env, 0)))
        code = mdb_txn_begin(store->env, NULL, MDB_RDONLY, out);
    if (!code)
        store->walks++;
    return env_status(code, "read");
}

void store_end_read(struct store *store, MDB_txn *txn)
{
    mdb_txn_abort(txn);
    store->walks--;
}

static int attempt(struct store *store, int (*change)(struct store *, MDB_txn *, void *),
                   void *self)
{
    MDB_txn *txn;
    int code = mdb_txn_begin(store->env, NULL, 0, &txn);
    if (code)
        return code;
    code = change(store, txn, self);
    if (!code)
        return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return code;
}

static int grow(struct store *store)
{
    MDB_envinfo info;
    int code = mdb_env_info(store->env, &info);
    if (code)
        return code;
    if (info.me_mapsize >= last_map)
        return MDB_MAP_FULL;
    return mdb_env_set_mapsize(store->env, 2 * info.me_mapsize);
}

/* Runs `change` in a write transaction; again after the map had to grow. */
static kg_status update(struct store *store, int (*change)(struct store *, MDB_txn *, void *),
                        void *self)
{
    if (store->read_only)
        return KG_DENIED;
    if (store->walks)
        return KG_BUSY; /* from inside a walk: the walker's memory would move */
    for (;;) {
        int code = attempt(store, change, self);
        if (code == MDB_MAP_FULL)
            code = grow(store);
        else if (code == MDB_MAP_RESIZED)
            code = mdb_env_set_mapsize(store->env, 0);
        else
            return env_status(code, "write");
        if (code)
            return env_status(code, "growing the store");
    }
}

/* ---- plain records --------------------------------------------------------------------------- */

struct one_put {
    enum database database;
    struct store_key key;
    struct kg_bytes record;
    bool keep; /* what is there stays */
};

static int put(struct store *store, MDB_txn *txn, void *self)
{
    struct one_put *one = self;
    MDB_val key = store_key_value(&one->key), value = {one->record.size, one->record.data};
    int code = mdb_put(txn, store->databases[one->database], &key, &value,
                       one->keep ? MDB_NOOVERWRITE : 0);
    return code == MDB_KEYEXIST ? 0 : code;
}

static kg_status put_take(struct store *store, struct one_put *one, kg_status packed)
{
    kg_status status = packed == KG_OK ? update(store, put, one) : packed;
    bytes_free(&one->record);
    return status;
}

kg_status store_put_blob(struct store *store, const void *data, size_t size, struct kg_id *out)
{
    struct one_put one = {.database = DB_blobs, .keep = true};
    kg_status status = blob_pack(data, size, out, &one.record);
    store_key_add(&one.key, out);
    return put_take(store, &one, status);
}

kg_status store_get_blob(struct store *store, const struct kg_id *id, struct kg_bytes *out)
{
    MDB_txn *txn;
    *out = (struct kg_bytes){0};
    kg_status status = store_begin_read(store, &txn);
    if (status != KG_OK)
        return status;
    MDB_val key = {KG_ID_BYTES, (void *)id->bytes}, value;
    status = env_status(mdb_get(txn, store->databases[DB_blobs], &key, &value), "blob");
    if (status == KG_OK)
        status = blob_unpack(value.mv_data, value.mv_size, id, out);
    store_end_read(store, txn);
    return status;
}

kg_status store_put_hardware(struct store *store, const struct kg_hardware *hardware)
{
    struct one_put one = {.database = DB_hardware};
    struct kg_id key;
    hardware_key(hardware, &key);
    store_key_add(&one.key, &key);
    return put_take(store, &one, hardware_pack(hardware, &one.record));
}

kg_status store_put_kernel(struct store *store, const struct kg_kernel_note *note)
{
    struct one_put one = {.database = DB_kernels};
    store_key_add(&one.key, &note->hardware);
    store_key_add(&one.key, &note->kernel);
    return put_take(store, &one, kernel_note_pack(note, &one.record));
}

kg_status store_put_job(struct store *store, const struct kg_job_note *note)
{
    struct one_put one = {.database = DB_jobs};
    store_key_add(&one.key, &note->hardware);
    store_key_add(&one.key, &note->kernel);
    store_key_add(&one.key, &note->signature);
    return put_take(store, &one, job_note_pack(note, &one.record));
}

/* The same candidate refused at the same gate again replaces its record. */
static kg_status rejection_put_of(const struct kg_rejection *rejection, struct one_put *out)
{
    struct kg_hash hash;
    struct kg_id what;
    hash_begin(&hash);
    hash_text(&hash, rejection->maker);
    hash_text(&hash, rejection->gate);
    hash_bytes(&hash, rejection->candidate.bytes, KG_ID_BYTES);
    hash_end(&hash, &what);
    *out = (struct one_put){.database = DB_rejected};
    store_key_add(&out->key, &rejection->hardware);
    store_key_add(&out->key, &rejection->kernel);
    store_key_add(&out->key, &rejection->signature);
    store_key_add(&out->key, &what);
    return rejection_pack(rejection, &out->record);
}

kg_status store_put_rejection(struct store *store, const struct kg_rejection *rejection)
{
    struct one_put one;
    kg_status status = rejection_put_of(rejection, &one);
    return put_take(store, &one, status);
}

/* ---- variants -------------------------------------------------------------------------------- */

static int variant_get(struct store *store, MDB_txn *txn, const MDB_val *id, struct kg_variant *out)
{
    MDB_val key = *id, value;
    int code = mdb_get(txn, store->databases[DB_variants], &key, &value);
    if (code)
        return code;
    return variant_parse(value.mv_data, value.mv_size, out) == KG_OK ? 0 : MDB_NOTFOUND;
}

static void best_key(const struct kg_variant *variant, struct store_key *out)
{
    struct kg_id signature;
    signature_id(&variant->signature, &signature);
    *out = (struct store_key){.size = 0};
    store_key_add(out, &variant->hardware);
    store_key_add(out, &variant->kernel);
    store_key_add(out, &signature);
}

struct variant_put {
    const struct kg_variant *variant;
    struct one_put record;
    bool best;
};

/* A best that cannot be read any more counts as none, and so does one that was verified under
 * another driver: apps leave it out. */
static int variant_put(struct store *store, MDB_txn *txn, void *self)
{
    struct variant_put *one = self;
    struct kg_variant present = {0};
    struct store_key best;
    MDB_val value;
    best_key(one->variant, &best);
    MDB_val key = store_key_value(&best);
    one->best = true;
    int code = mdb_get(txn, store->databases[DB_best], &key, &value);
    if (!code)
        code = variant_get(store, txn, &value, &present);
    if (!code)
        one->best = id_equal(&present.id, &one->variant->id) ||
                    one->variant->driver_version != present.driver_version ||
                    one->variant->ratio > present.ratio;
    variant_free(&present);
    if (code && code != MDB_NOTFOUND)
        return code;
    code = put(store, txn, &one->record);
    if (code || !one->best)
        return code;
    value = (MDB_val){KG_ID_BYTES, (void *)one->variant->id.bytes};
    return mdb_put(txn, store->databases[DB_best], &key, &value, 0);
}

kg_status store_put_variant(struct store *store, const struct kg_variant *variant, bool *is_best)
{
    struct variant_put one = {.variant = variant, .record = {.database = DB_variants}};
    store_key_add(&one.record.key, &variant->id);
    kg_status status = variant_pack(variant, &one.record.record);
    if (status == KG_OK)
        status = update(store, variant_put, &one);
    bytes_free(&one.record.record);
    if (is_best)
        *is_best = status == KG_OK && one.best;
    return status;
}

struct demotion {
    const struct kg_id *variant;
    const char *reason;
};

/* The record that a demotion leaves. */
static kg_status demotion_put_of(const struct kg_variant *variant, const char *reason,
                                 struct one_put *out)
{
    static const struct kg_id none;
    struct kg_rejection note = {.hardware = variant->hardware,
                                .kernel = variant->kernel,
                                .candidate = variant->source,
                                .gate = "demoted",
                                .ratio = variant->ratio,
                                .low = variant->low,
                                .high = variant->high,
                                .driver_version = variant->driver_version,
                                .time = (uint64_t)time(NULL)};
    if (id_equal(&note.candidate, &none)) /* made as PTX */
        note.candidate = id_equal(&variant->ptx, &none) ? variant->code : variant->ptx;
    signature_id(&variant->signature, &note.signature);
    snprintf(note.kernel_name, sizeof note.kernel_name, "%s", variant->kernel_name);
    snprintf(note.maker, sizeof note.maker, "%s", variant->maker);
    snprintf(note.reason, sizeof note.reason, "%s", reason);
    return rejection_put_of(&note, out);
}

static int note_demotion(struct store *store, MDB_txn *txn, const struct kg_variant *variant,
                         const char *reason)
{
    struct one_put one;
    if (demotion_put_of(variant, reason, &one) != KG_OK)
        return ENOMEM;
    int code = put(store, txn, &one);
    bytes_free(&one.record);
    return code;
}

/* Whether the variant was demoted and has not been verified since. */
static bool demoted(struct store *store, MDB_txn *txn, const struct kg_variant *variant)
{
    struct one_put one;
    struct kg_rejection note;
    if (demotion_put_of(variant, "", &one) != KG_OK)
        return true;
    MDB_val key = store_key_value(&one.key), value;
    int code = mdb_get(txn, store->databases[DB_rejected], &key, &value);
    bytes_free(&one.record);
    if (code)
        return code != MDB_NOTFOUND;
    return rejection_parse(value.mv_data, value.mv_size, &note) != KG_OK ||
           note.time >= variant->time;
}

/* Whether `other` may take the place of `gone`, whose key in `best` is `best`. */
static bool may_follow(struct store *store, MDB_txn *txn, const struct kg_variant *gone,
                       const struct store_key *best, const struct kg_variant *other)
{
    struct store_key own;
    if (id_equal(&other->id, &gone->id) || other->driver_version != gone->driver_version)
        return false;
    best_key(other, &own);
    return own.size == best->size && !memcmp(own.bytes, best->bytes, own.size) &&
           !demoted(store, txn, other);
}

/* The fastest of the others for this key becomes the best; MDB_NOTFOUND: there is none. */
static int promote_next(struct store *store, MDB_txn *txn, const struct kg_variant *gone,
                        struct store_key *best)
{
    MDB_cursor *cursor;
    MDB_val key, value;
    struct kg_id next;
    double ratio = 0;
    uint64_t time = 0;
    int code = mdb_cursor_open(txn, store->databases[DB_variants], &cursor);
    if (code)
        return code;
    while (!(code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT))) {
        struct kg_variant other;
        if (variant_parse(value.mv_data, value.mv_size, &other) != KG_OK)
            continue;
        bool faster = other.ratio > ratio || (other.ratio == ratio && other.time < time);
        if (faster && may_follow(store, txn, gone, best, &other)) {
            next = other.id;
            ratio = other.ratio;
            time = other.time;
        }
        variant_free(&other);
    }
    mdb_cursor_close(cursor);
    if (code != MDB_NOTFOUND || !(ratio > 0))
        return code;
    key = store_key_value(best);
    value = (MDB_val){KG_ID_BYTES, next.bytes};
    return mdb_put(txn, store->databases[DB_best], &key, &value, 0);
}

static int demote(struct store *store, MDB_txn *txn, void *self)
{
    struct demotion *one = self;
    struct kg_variant variant;
    struct store_key best;
    MDB_val id = {KG_ID_BYTES, (void *)one->variant->bytes}, value;
    int code = variant_get(store, txn, &id, &variant);
    if (code)
        return code;
    best_key(&variant, &best);
    MDB_val key = store_key_value(&best);
    code = mdb_get(txn, store->databases[DB_best], &key, &value);
    if (!code && value.mv_size == KG_ID_BYTES && !memcmp(value.mv_data, id.mv_data, KG_ID_BYTES))
        code = mdb_del(txn, store->databases[DB_best], &key, NULL);
    else if (!code)
        code = MDB_NOTFOUND; /* another is the best already */
    if (!code)
        code = promote_next(store, txn, &variant, &best);
    if (!code || code == MDB_NOTFOUND)
        code = note_demotion(store, txn, &variant, one->reason);
    variant_free(&variant);
    return code;
}

kg_status store_demote(struct store *store, const struct kg_id *variant, const char *reason)
{
    struct demotion one = {variant, reason};
    return update(store, demote, &one);
}
