/* LMDB's words and databases, for the store and for snapshots. */
#include "env.h"

#include <errno.h>
#include <string.h>

const char *const database_names[DATABASE_COUNT] = {
#define DATABASE(name) #name,
    DATABASES
#undef DATABASE
};

/* ---- LMDB's words ---------------------------------------------------------------------------- */

kg_status env_status(int code, const char *what)
{
    static const struct {
        int code;
        kg_status status;
    } table[] = {{MDB_CORRUPTED, KG_CORRUPT},
                 {MDB_PAGE_NOTFOUND, KG_CORRUPT},
                 {MDB_INVALID, KG_CORRUPT},
                 {MDB_INCOMPATIBLE, KG_CORRUPT},
                 {MDB_VERSION_MISMATCH, KG_UNSUPPORTED},
                 {MDB_MAP_FULL, KG_LIMIT},
                 {MDB_READERS_FULL, KG_BUSY},
                 {EAGAIN, KG_BUSY},
                 {EBUSY, KG_BUSY},
                 {ENOMEM, KG_NO_MEMORY},
                 {EACCES, KG_DENIED},
                 {EPERM, KG_DENIED}};
    if (!code)
        return KG_OK;
    if (code == MDB_NOTFOUND || code == ENOENT)
        return KG_NOT_FOUND;
    kg_status status = KG_IO;
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].code == code)
            status = table[i].status;
    log_line(KG_WARN, "cache: %s: %s", what, mdb_strerror(code));
    return status;
}

static int check_format(MDB_txn *txn, MDB_dbi meta, uint32_t format, bool create)
{
    unsigned char bytes[4];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(format >> (8 * i));
    MDB_val key = {6, (char[]){"format"}}, value;
    int code = mdb_get(txn, meta, &key, &value);
    if (!code)
        return value.mv_size == sizeof bytes && !memcmp(value.mv_data, bytes, sizeof bytes)
                   ? 0
                   : MDB_VERSION_MISMATCH;
    if (code != MDB_NOTFOUND || !create)
        return code;
    value = (MDB_val){sizeof bytes, bytes};
    return mdb_put(txn, meta, &key, &value, 0);
}

int env_databases(MDB_txn *txn, unsigned count, uint32_t format, bool create, MDB_dbi *out)
{
    int code = 0;
    for (unsigned i = 0; i < count && !code; i++)
        code = mdb_dbi_open(txn, database_names[i], create ? MDB_CREATE : 0, &out[i]);
    return code ? code : check_format(txn, out[DB_meta], format, create);
}

bool file_system_remote(unsigned long type)
{
    /* By statfs(2) and the kernel's headers. 9p is left out: a container's own root may be one. */
    static const unsigned long types[] = {0x6969 /* NFS */,
                                          0x517B /* SMB */,
                                          0xFE534D42 /* SMB2 */,
                                          0xFF534D42 /* CIFS */,
                                          0x5346414F /* AFS */,
                                          0x73757245 /* Coda */,
                                          0x0BD00BD0 /* Lustre */,
                                          0x00C36400 /* Ceph */,
                                          0x47504653 /* GPFS */,
                                          0x19830326 /* BeeGFS */,
                                          0x7461636F /* OCFS2 */,
                                          0x01161970 /* GFS2 */,
                                          0x65735546 /* FUSE: sshfs, s3fs, … */};
    for (unsigned i = 0; i < sizeof types / sizeof *types; i++)
        if (type == types[i])
            return true;
    return false;
}

void store_key_add(struct store_key *key, const struct kg_id *id)
{
    if (key->size + KG_ID_BYTES > sizeof key->bytes)
        return;
    memcpy(key->bytes + key->size, id->bytes, KG_ID_BYTES);
    key->size += KG_ID_BYTES;
}

MDB_val store_key_value(struct store_key *key)
{
    return (MDB_val){key->size, key->bytes};
}
