/* Walks over the store, for the command line and for what makes snapshots. A damaged record is
 * passed over, counted, and makes the walk KG_CORRUPT once all sound ones have been seen. */
#include "env.h"
#include "record.h"

#include <string.h>

/* Calls row(self, …) for every pair of a database until it returns false; row says whether the
 * record was sound through *damaged. */
static kg_status walk(struct store *store, enum database database,
                      bool (*row)(void *self, MDB_txn *txn, const MDB_val *key,
                                  const MDB_val *value, bool *damaged),
                      void *self)
{
    MDB_txn *txn;
    MDB_cursor *cursor = NULL;
    unsigned lost = 0;
    kg_status status = store_begin_read(store, &txn);
    if (status != KG_OK)
        return status;
    int code = mdb_cursor_open(txn, store->databases[database], &cursor);
    MDB_val key, value;
    while (!code && !(code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT))) {
        bool damaged = false;
        bool more = row(self, txn, &key, &value, &damaged);
        lost += damaged;
        if (!more)
            break;
    }
    if (cursor)
        mdb_cursor_close(cursor);
    store_end_read(store, txn);
    if (code && code != MDB_NOTFOUND)
        return env_status(code, database_names[database]);
    if (!lost)
        return KG_OK;
    log_line(KG_WARN, "cache: %u damaged records in '%s' were passed over", lost,
             database_names[database]);
    return KG_CORRUPT;
}

/* The four plain kinds of record differ in their type alone. */
#define WALK(name, type, database, prefix)                                                         \
    struct name##_walk {                                                                           \
        bool (*each)(void *self, const type *record);                                              \
        void *self;                                                                                \
    };                                                                                             \
    static bool name##_row(void *self, MDB_txn *txn, const MDB_val *key, const MDB_val *value,     \
                           bool *damaged)                                                          \
    {                                                                                              \
        struct name##_walk *walker = self;                                                         \
        type record;                                                                               \
        *damaged = prefix##_parse(value->mv_data, value->mv_size, &record) != KG_OK;               \
        return *damaged || walker->each(walker->self, &record);                                    \
    }                                                                                              \
    kg_status store_each_##name(struct store *store, bool (*each)(void *, const type *),           \
                                void *self)                                                        \
    {                                                                                              \
        struct name##_walk walker = {each, self};                                                  \
        return walk(store, database, name##_row, &walker);                                         \
    }

WALK(rejection, struct kg_rejection, DB_rejected, rejection)
WALK(kernel, struct kg_kernel_note, DB_kernels, kernel_note)
WALK(job, struct kg_job_note, DB_jobs, job_note)

struct hardware_walk {
    bool (*each)(void *self, const struct kg_id *key, const struct kg_hardware *hardware);
    void *self;
};

static bool hardware_row(void *self, MDB_txn *txn, const MDB_val *key, const MDB_val *value,
                         bool *damaged)
{
    struct hardware_walk *walker = self;
    struct kg_hardware hardware;
    struct kg_id id;
    *damaged = hardware_parse(value->mv_data, value->mv_size, &hardware) != KG_OK;
    hardware_key(&hardware, &id);
    *damaged |= key->mv_size != KG_ID_BYTES || memcmp(key->mv_data, id.bytes, KG_ID_BYTES);
    return *damaged || walker->each(walker->self, &id, &hardware);
}

kg_status store_each_hardware(struct store *store,
                              bool (*each)(void *, const struct kg_id *,
                                           const struct kg_hardware *),
                              void *self)
{
    struct hardware_walk walker = {each, self};
    return walk(store, DB_hardware, hardware_row, &walker);
}

struct variant_walk {
    struct store *store;
    bool (*each)(void *self, const struct kg_variant *variant, bool best);
    void *self;
};

static bool is_best(struct store *store, MDB_txn *txn, const struct kg_variant *variant)
{
    struct store_key name = {.size = 0};
    struct kg_id signature;
    signature_id(&variant->signature, &signature);
    store_key_add(&name, &variant->hardware);
    store_key_add(&name, &variant->kernel);
    store_key_add(&name, &signature);
    MDB_val key = store_key_value(&name), value;
    return !mdb_get(txn, store->databases[DB_best], &key, &value) && value.mv_size == KG_ID_BYTES &&
           !memcmp(value.mv_data, variant->id.bytes, KG_ID_BYTES);
}

static bool variant_row(void *self, MDB_txn *txn, const MDB_val *key, const MDB_val *value,
                        bool *damaged)
{
    struct variant_walk *walker = self;
    struct kg_variant variant;
    *damaged = variant_parse(value->mv_data, value->mv_size, &variant) != KG_OK ||
               key->mv_size != KG_ID_BYTES || memcmp(key->mv_data, variant.id.bytes, KG_ID_BYTES);
    bool more =
        *damaged || walker->each(walker->self, &variant, is_best(walker->store, txn, &variant));
    variant_free(&variant);
    return more;
}

kg_status store_each_variant(struct store *store,
                             bool (*each)(void *, const struct kg_variant *, bool), void *self)
{
    struct variant_walk walker = {store, each, self};
    return walk(store, DB_variants, variant_row, &walker);
}
