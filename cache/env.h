/* What store.c, walk.c, snapshot.c and snapshot_make.c share: the LMDB side of the cache. Inside
 * cache/ only. */
#ifndef KG_ENV_H
#define KG_ENV_H

#include "cache.h"

#include <lmdb.h>

/* The named databases of the store. A snapshot has the first three, in the same form. */
#define DATABASES                                                                                  \
    DATABASE(meta)     /* "format": version of this layout */                                      \
    DATABASE(best)     /* hardware, kernel, signature: variant id (in a snapshot: the record) */   \
    DATABASE(blobs)    /* id: Zstandard form */                                                    \
    DATABASE(hardware) /* key: record */                                                           \
    DATABASE(kernels)  /* hardware, kernel: record */                                              \
    DATABASE(variants) /* variant id: record */                                                    \
    DATABASE(jobs)     /* hardware, kernel, signature: record of the latest job */                 \
    DATABASE(rejected) /* hardware, kernel, signature, digest of maker, gate, candidate: record */ \
    DATABASE(traces)   /* kept for counters of launches; nothing is written there yet */

enum database {
#define DATABASE(name) DB_##name,
    DATABASES
#undef DATABASE
        DATABASE_COUNT,
    SNAPSHOT_DATABASES = DB_blobs + 1
};
extern const char *const database_names[DATABASE_COUNT];

enum { STORE_FORMAT = 1, SNAPSHOT_FORMAT = 1 };

struct store {
    MDB_env *env;
    MDB_dbi databases[DATABASE_COUNT];
    bool read_only;
    unsigned walks; /* read transactions under way: the map must not move now */
};

/* The status for LMDB's code; other than 0 and MDB_NOTFOUND it is logged with `what`. */
kg_status env_status(int code, const char *what);

/* Opens the first `count` databases inside txn; create: makes what is missing, with its format. */
int env_databases(MDB_txn *txn, unsigned count, uint32_t format, bool create, MDB_dbi *out);

/* A read transaction; end it by store_end_read. Another process may have grown the map meanwhile.
 */
kg_status store_begin_read(struct store *store, MDB_txn **out);
void store_end_read(struct store *store, MDB_txn *txn);

/* Key of up to four ids, one after the other. */
struct store_key {
    unsigned char bytes[4 * KG_ID_BYTES];
    size_t size;
};
void store_key_add(struct store_key *key, const struct kg_id *id);
MDB_val store_key_value(struct store_key *key);

/* Digest of the whole open file, by reading it. */
kg_status snapshot_digest(int fd, struct kg_id *out);
/* Opens a snapshot file whose bytes must have this digest. */
kg_status snapshot_open_file(const char *path, const struct kg_id *hardware,
                             const struct kg_id *digest, struct snapshot **out);
/* Reads every record and blob; the number of variants through *count. */
kg_status snapshot_verify(const struct snapshot *snapshot, size_t *count);

/* True if a file system of this statfs type is a network's. */
bool file_system_remote(unsigned long type);

#endif
