/* Blobs: machine code, sources, evidence. Zstandard frames, named by the digest of what they hold.
 */
#include "record.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { HEAD = 8, LEVEL = 3 };
static const size_t most = (size_t)256 << 20;

kg_status blob_pack(const void *data, size_t size, struct kg_id *id, struct kg_bytes *out)
{
    *out = (struct kg_bytes){0};
    if (size > most)
        return KG_LIMIT;
    size_t room = ZSTD_compressBound(size);
    unsigned char *bytes = malloc(HEAD + room + 1);
    if (!bytes)
        return KG_NO_MEMORY;
    for (unsigned i = 0; i < HEAD; i++)
        bytes[i] = (unsigned char)((uint64_t)size >> (8 * i));
    size_t used = ZSTD_compress(bytes + HEAD, room, data, size, LEVEL);
    if (ZSTD_isError(used)) {
        free(bytes);
        return KG_NO_MEMORY; /* the bound was given: only memory can be short */
    }
    bytes[HEAD + used] = 0;
    hash_data(data, size, id);
    *out = (struct kg_bytes){bytes, HEAD + used};
    return KG_OK;
}

kg_status blob_unpack(const void *data, size_t size, const struct kg_id *id, struct kg_bytes *out)
{
    const unsigned char *bytes = data;
    uint64_t length = 0;
    struct kg_id got;
    *out = (struct kg_bytes){0};
    if (size < HEAD)
        return KG_CORRUPT;
    for (unsigned i = 0; i < HEAD; i++)
        length |= (uint64_t)bytes[i] << (8 * i);
    if (length > most)
        return KG_CORRUPT;
    out->data = malloc((size_t)length + 1);
    if (!out->data)
        return KG_NO_MEMORY;
    out->size = ZSTD_decompress(out->data, (size_t)length, bytes + HEAD, size - HEAD);
    if (!ZSTD_isError(out->size) && out->size == length) {
        out->data[length] = 0;
        hash_data(out->data, out->size, &got);
        if (id_equal(&got, id))
            return KG_OK;
    }
    bytes_free(out);
    return KG_CORRUPT;
}
