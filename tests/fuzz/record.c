/* Records of the store and of snapshots: no bytes crash a parser, and what one accepts, packed
 * again, is the same bytes. The first byte chooses the kind. */
#include "../../cache/record.h"

#include "seal.h"

/* The record's head, from an empty one of its kind. */
static bool head_of(kg_status status, struct kg_bytes *record, unsigned char head[SEAL_HEAD])
{
    if (status == KG_OK)
        memcpy(head, record->data, SEAL_HEAD);
    bytes_free(record);
    return status == KG_OK;
}

static void same(const struct kg_bytes *in, struct kg_bytes *again, kg_status status)
{
    if (status != KG_OK || again->size != in->size || memcmp(again->data, in->data, in->size))
        abort();
    bytes_free(again);
}

static void variant(const uint8_t *data, size_t size)
{
    struct kg_variant empty = {.entry = "e"}, out;
    struct kg_bytes record, again;
    unsigned char head[SEAL_HEAD];
    if (!head_of(variant_pack(&empty, &record), &record, head))
        return;
    record = seal(head, data, size);
    if (variant_parse(record.data, record.size, &out) == KG_OK) {
        same(&record, &again, variant_pack(&out, &again));
        variant_identify(&out);
        variant_free(&out);
    }
    bytes_free(&record);
}

#define RECORD(name, type)                                                                         \
    static void name(const uint8_t *data, size_t size)                                             \
    {                                                                                              \
        static const type empty;                                                                   \
        type out;                                                                                  \
        struct kg_bytes record, again;                                                             \
        unsigned char head[SEAL_HEAD];                                                             \
        if (!head_of(name##_pack(&empty, &record), &record, head))                                 \
            return;                                                                                \
        record = seal(head, data, size);                                                           \
        if (name##_parse(record.data, record.size, &out) == KG_OK)                                 \
            same(&record, &again, name##_pack(&out, &again));                                      \
        bytes_free(&record);                                                                       \
    }
RECORDS
#undef RECORD

/* The digest of a blob's content is no secret: the fuzzer's bytes are under a wrong one. */
static void blob(const uint8_t *data, size_t size)
{
    struct kg_id id = {{0}};
    struct kg_bytes out;
    if (blob_unpack(data, size, &id, &out) == KG_OK)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const kinds[])(const uint8_t *, size_t) = {variant, blob,
#define RECORD(name, type) name,
                                                             RECORDS
#undef RECORD
    };
    if (size)
        kinds[data[0] % (sizeof kinds / sizeof *kinds)](data + 1, size - 1);
    return 0;
}
