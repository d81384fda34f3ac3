/* Recorded results: one zstd frame of
 *   "kgdiff1", the device's name (64 bytes), number of rows (u32), then for each row
 *   key (u64), status (u8), size (u32), and that many bytes: the first threads' results, output
 *   after output, then a hash (u64) for each chunk of the others; or why there are none, as text.
 * Little endian. */
#include "differential.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { NAME = 64, HEAD = 8 + NAME + 4, ROW_HEAD = 8 + 1 + 4, LIMIT = 64 << 20 };

uint64_t chunk_hash(const struct row *row, const unsigned char *data, unsigned chunk)
{
    unsigned threads = row_threads(row), before = 0, first = row_raw(row) + chunk * CHUNK;
    uint64_t hash = chunk;
    for (unsigned i = 0; i < row->output_count; i++) {
        unsigned bytes = output_bytes(row->outputs[i]);
        const unsigned char *at = data + (size_t)before * threads + (size_t)first * bytes;
        for (unsigned k = 0; k < CHUNK * bytes; k += 8) {
            uint64_t word;
            memcpy(&word, at + k, 8);
            hash = mix(hash ^ word) + UINT64_C(0x9E3779B97F4A7C15);
        }
        before += bytes;
    }
    return hash;
}

static unsigned char *write_row(unsigned char *to, const struct row *row,
                                const struct outcome *outcome)
{
    unsigned threads = row_threads(row), raw = row_raw(row), before = 0;
    unsigned char *start = to;
    memcpy(to, &row->key, 8);
    to[8] = (unsigned char)outcome->status;
    to += ROW_HEAD;
    if (outcome->status != ROW_OK) {
        size_t length = strlen(outcome->message);
        memcpy(to, outcome->message, length);
        to += length;
    } else {
        for (unsigned i = 0; i < row->output_count; i++) {
            unsigned bytes = output_bytes(row->outputs[i]);
            memcpy(to, outcome->data + (size_t)before * threads, (size_t)raw * bytes);
            to += (size_t)raw * bytes;
            before += bytes;
        }
        for (unsigned chunk = 0; chunk < CHUNKS; chunk++, to += 8)
            memcpy(to, &(uint64_t){chunk_hash(row, outcome->data, chunk)}, 8);
    }
    uint32_t size = (uint32_t)(to - start) - ROW_HEAD;
    memcpy(start + 9, &size, 4);
    return to;
}

bool store_write(const char *path, const char *device, const struct corpus *corpus,
                 const struct outcome *outcomes)
{
    size_t room = HEAD;
    for (unsigned i = 0; i < corpus->count; i++)
        room += ROW_HEAD + row_raw(&corpus->rows[i]) * (size_t)row_bytes(&corpus->rows[i]) +
                CHUNKS * 8 + sizeof outcomes[i].message;
    unsigned char *data = calloc(1, room), *to = data;
    size_t most = ZSTD_compressBound(room);
    void *packed = malloc(most);
    bool good = data && packed;
    if (good) {
        memcpy(to, "kgdiff1", 8);
        snprintf((char *)to + 8, NAME, "%s", device);
        memcpy(to + 8 + NAME, &corpus->count, 4);
        to += HEAD;
        for (unsigned i = 0; i < corpus->count; i++)
            to = write_row(to, &corpus->rows[i], &outcomes[i]);
        size_t size = ZSTD_compress(packed, most, data, (size_t)(to - data), 19);
        good = !ZSTD_isError(size) && file_write(path, packed, size, 0644) == KG_OK;
    }
    if (!good)
        fprintf(stderr, "%s: cannot be written\n", path);
    free(data);
    free(packed);
    return good;
}

bool store_read(const char *path, struct store *out)
{
    struct kg_bytes packed = {0};
    *out = (struct store){0};
    if (file_read(path, LIMIT, &packed) != KG_OK) {
        fprintf(stderr, "%s: cannot be read\n", path);
        return false;
    }
    unsigned long long size = ZSTD_getFrameContentSize(packed.data, packed.size);
    unsigned char *data = size >= HEAD && size < LIMIT ? malloc(size + 1) : NULL;
    bool good = data && ZSTD_decompress(data, size, packed.data, packed.size) == size &&
                !memcmp(data, "kgdiff1", 8);
    bytes_free(&packed);
    if (!good) {
        fprintf(stderr, "%s: not a file of results\n", path);
        free(data);
        return false;
    }
    out->bytes = (struct kg_bytes){.data = data, .size = size};
    snprintf(out->device, sizeof out->device, "%.63s", (const char *)data + 8);
    memcpy(&out->count, data + 8 + NAME, 4);
    return true;
}

struct stored store_find(const struct store *store, const struct row *row)
{
    size_t at = HEAD;
    for (unsigned i = 0; i < store->count && at + ROW_HEAD <= store->bytes.size; i++) {
        const unsigned char *head = (const unsigned char *)store->bytes.data + at;
        uint64_t key;
        uint32_t size;
        memcpy(&key, head, 8);
        memcpy(&size, head + 9, 4);
        at += ROW_HEAD;
        if (size > store->bytes.size - at)
            break;
        at += size;
        if (key != row->key)
            continue;
        struct stored out = {.status = head[8]};
        size_t raw = row_raw(row) * (size_t)row_bytes(row);
        if (out.status != ROW_OK)
            snprintf(out.message, sizeof out.message, "%.*s", (int)size,
                     (const char *)head + ROW_HEAD);
        else if (size == raw + CHUNKS * 8)
            out.raw = head + ROW_HEAD, out.hashes = out.raw + raw;
        else
            out.status = ROW_MISSING;
        return out;
    }
    return (struct stored){.status = ROW_MISSING};
}
