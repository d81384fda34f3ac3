/* The fatbin container, as nvcc's fatbinary writes it: entries of PTX and machine code, stored or
 * compressed. Knows nothing of what is inside an entry, and trusts no length it reads. */
#include "parts.h"

#include <lz4.h>
#include <stdio.h>
#include <stdlib.h>
#include <zstd.h>

enum {
    MAGIC = 0xBA55ED50,
    CONTAINER_HEADER = 16, /* magic, version, header size, size of what follows */
    ENTRY_HEADER = 64,     /* at least: options and names make it longer */
};

enum entry_flag {
    FLAG_PLAIN = 0x11, /* 64 bits, and what else nvcc always sets */
    FLAG_LZ4 = 0x2000,
    FLAG_ZSTD = 0x8000,
    FLAG_EXACT = 0x100000,  /* arch-specific, sm_90a */
    FLAG_FAMILY = 0x200000, /* family-specific, sm_100f */
};

kg_status fatbin_extent(const unsigned char *data, size_t size, size_t *extent)
{
    if (size && size < CONTAINER_HEADER)
        return KG_BAD_INPUT;
    if (read_u32(data) != MAGIC)
        return KG_BAD_INPUT;
    uint64_t header = read_u16(data + 6), body = read_u64(data + 8);
    if (header < CONTAINER_HEADER || body > IMAGE_LIMIT || (size && header + body > size))
        return KG_BAD_INPUT;
    *extent = header + body;
    return KG_OK;
}

/* Moves over container headers, and over the zeros that pad one fatbin to the next. */
static kg_status skip_headers(const unsigned char *data, size_t size, size_t *position)
{
    size_t at = *position;
    for (;;) {
        size_t extent, left = size - at;
        if (left < CONTAINER_HEADER)
            return KG_NOT_FOUND;
        if (read_u32(data + at) == MAGIC) {
            if (fatbin_extent(data + at, left, &extent) != KG_OK)
                return KG_BAD_INPUT;
            at += read_u16(data + at + 6);
        } else if (!read_u64(data + at)) {
            at += 8;
        } else {
            *position = at;
            return KG_OK;
        }
    }
}

/* The option record: offset and length of a text, both relative to and inside the entry's header.
 */
static bool read_options(const unsigned char *entry, uint64_t header, struct fatbin_entry *out)
{
    uint64_t record = read_u32(entry + 20);
    if (!record)
        return true;
    if (record + 8 > header)
        return false;
    uint64_t offset = read_u32(entry + record), length = read_u32(entry + record + 4);
    if (offset + length > header)
        return false;
    out->options = (const char *)entry + offset;
    out->options_size = strnlen(out->options, length);
    return true;
}

kg_status fatbin_next(const unsigned char *data, size_t size, size_t *position,
                      struct fatbin_entry *out)
{
    kg_status status = skip_headers(data, size, position);
    if (status != KG_OK)
        return status;
    const unsigned char *entry = data + *position;
    uint64_t left = size - *position;
    if (left < ENTRY_HEADER)
        return KG_BAD_INPUT;
    uint64_t header = read_u32(entry + 4), padded = read_u64(entry + 8);
    uint64_t packed = read_u32(entry + 16), flags = read_u64(entry + 40);
    if (header < ENTRY_HEADER || header > left || padded > left - header || packed > padded)
        return KG_BAD_INPUT;
    *out = (struct fatbin_entry){.kind = read_u16(entry),
                                 .sm = read_u32(entry + 28),
                                 .payload = entry + header,
                                 .stored = padded};
    out->reach = flags & FLAG_EXACT    ? REACH_EXACT
                 : flags & FLAG_FAMILY ? REACH_FAMILY
                                       : REACH_LATER;
    if (flags & (FLAG_LZ4 | FLAG_ZSTD)) {
        out->packing = flags & FLAG_ZSTD ? FATBIN_ZSTD : FATBIN_LZ4;
        out->stored = packed;
        out->unpacked = read_u64(entry + 56);
    }
    if (!read_options(entry, header, out))
        return KG_BAD_INPUT;
    *position += header + padded;
    return KG_OK;
}

/* Both formats must give exactly the size that the header declares. */
static bool inflate(const struct fatbin_entry *entry, unsigned char *to)
{
    if (entry->packing == FATBIN_ZSTD) {
        size_t got = ZSTD_decompress(to, entry->unpacked, entry->payload, entry->stored);
        return !ZSTD_isError(got) && got == entry->unpacked;
    }
    int got = LZ4_decompress_safe((const char *)entry->payload, (char *)to, (int)entry->stored,
                                  (int)entry->unpacked);
    return got >= 0 && (size_t)got == entry->unpacked;
}

kg_status fatbin_unpack(const struct fatbin_entry *entry, struct kg_bytes *out)
{
    *out = (struct kg_bytes){0};
    size_t size = entry->packing == FATBIN_STORED ? entry->stored : entry->unpacked;
    if (!size || size > IMAGE_LIMIT || entry->stored > IMAGE_LIMIT)
        return KG_BAD_INPUT;
    unsigned char *data = malloc(size + 1);
    if (!data)
        return KG_NO_MEMORY;
    if (entry->packing == FATBIN_STORED) {
        memcpy(data, entry->payload, size);
    } else if (!inflate(entry, data)) {
        free(data);
        return KG_BAD_INPUT;
    }
    data[size] = 0;
    *out = (struct kg_bytes){data, entry->kind == FATBIN_PTX ? strlen((char *)data) : size};
    return KG_OK;
}

/* ---- writing -----------------------------------------------------------------------------------
 */

static void put(unsigned char *at, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> 8 * i);
}

static size_t padded(size_t size)
{
    return (size + 7) / 8 * 8;
}

/* The rest of the header stays zero. code_version: of the payload's own format, as nvcc gives it.
 */
static unsigned char *put_entry(unsigned char *at, enum fatbin_kind kind, const struct elf *elf,
                                uint32_t code_version, const void *payload, size_t size)
{
    put(at, kind, 2);
    put(at + 2, 0x0101, 2);
    put(at + 4, ENTRY_HEADER, 4);
    put(at + 8, padded(size), 8);
    put(at + 24, code_version, 4);
    put(at + 28, elf->sm, 4);
    put(at + 40, FLAG_PLAIN | (elf->exact ? FLAG_EXACT : 0), 8);
    memcpy(at + ENTRY_HEADER, payload, size);
    return at + ENTRY_HEADER + padded(size);
}

kg_status image_join(const void *cubin, size_t size, const char *ptx, struct kg_bytes *out)
{
    struct elf elf;
    unsigned major = 0, minor = 0;
    size_t text = strlen(ptx) + 1;
    *out = (struct kg_bytes){0};
    const char *version = strstr(ptx, ".version");
    if (!version || sscanf(version, ".version %u.%u", &major, &minor) != 2 ||
        elf_open(cubin, size, &elf) != KG_OK)
        return KG_BAD_INPUT;
    size_t body = 2 * ENTRY_HEADER + padded(size) + padded(text);
    unsigned char *data = calloc(1, CONTAINER_HEADER + body);
    if (!data)
        return KG_NO_MEMORY;
    put(data, MAGIC, 4);
    put(data + 4, 1, 2);
    put(data + 6, CONTAINER_HEADER, 2);
    put(data + 8, body, 8);
    unsigned char *at = put_entry(data + CONTAINER_HEADER, FATBIN_PTX, &elf,
                                  (major & 0xffff) << 16 | (minor & 0xffff), ptx, text);
    put_entry(at, FATBIN_ELF, &elf, 0x10008, cubin, size);
    *out = (struct kg_bytes){data, CONTAINER_HEADER + body};
    return KG_OK;
}
