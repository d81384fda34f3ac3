/* Little-endian fields, written and read without overruns: see pack.h. */
#include "pack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool grow(struct pack *pack, size_t more)
{
    if (pack->failed || more > SIZE_MAX / 2 - pack->size) {
        pack->failed = true;
        return false;
    }
    if (pack->size + more <= pack->room)
        return true;
    size_t room = pack->room ? 2 * pack->room : 1024;
    if (room < pack->size + more)
        room = pack->size + more;
    unsigned char *data = realloc(pack->data, room);
    if (!data) {
        pack->failed = true;
        return false;
    }
    pack->data = data;
    pack->room = room;
    return true;
}

void pack_bytes(struct pack *pack, const void *data, size_t size)
{
    if (!size || !grow(pack, size))
        return;
    memcpy(pack->data + pack->size, data, size);
    pack->size += size;
}

static void number(struct pack *pack, uint64_t value, unsigned size)
{
    unsigned char bytes[8];
    for (unsigned i = 0; i < size; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
    pack_bytes(pack, bytes, size);
}

void pack_begin(struct pack *pack, const char magic[static PACK_MAGIC], uint32_t version)
{
    pack_bytes(pack, magic, PACK_MAGIC);
    pack_u32(pack, version);
}

void pack_u8(struct pack *pack, uint8_t value)
{
    number(pack, value, 1);
}

void pack_u16(struct pack *pack, uint16_t value)
{
    number(pack, value, 2);
}

void pack_u32(struct pack *pack, uint32_t value)
{
    number(pack, value, 4);
}

void pack_u64(struct pack *pack, uint64_t value)
{
    number(pack, value, 8);
}

void pack_f64(struct pack *pack, double value)
{
    uint64_t bits = 0;
    if (isfinite(value))
        memcpy(&bits, &value, sizeof bits);
    number(pack, bits, 8);
}

void pack_id(struct pack *pack, const struct kg_id *id)
{
    pack_bytes(pack, id->bytes, sizeof id->bytes);
}

void pack_text(struct pack *pack, const char *text)
{
    size_t length = text ? strlen(text) : 0;
    if (length > UINT32_MAX) {
        pack->failed = true;
        return;
    }
    pack_u32(pack, (uint32_t)length);
    pack_bytes(pack, text, length);
}

kg_status pack_seal(struct pack *pack, struct kg_bytes *out)
{
    struct kg_id digest;
    *out = (struct kg_bytes){0};
    hash_data(pack->data, pack->size, &digest);
    pack_id(pack, &digest);
    pack_u8(pack, 0); /* the NUL that struct kg_bytes promises, not counted */
    if (pack->failed) {
        pack_free(pack);
        return KG_NO_MEMORY;
    }
    *out = (struct kg_bytes){pack->data, pack->size - 1};
    *pack = (struct pack){0};
    return KG_OK;
}

void pack_free(struct pack *pack)
{
    free(pack->data);
    *pack = (struct pack){0};
}

kg_status unpack_begin(struct unpack *in, const void *data, size_t size,
                       const char magic[static PACK_MAGIC], uint32_t version)
{
    *in = (struct unpack){.data = data, .failed = true};
    if (size < PACK_MAGIC)
        return KG_CORRUPT;
    if (memcmp(data, magic, PACK_MAGIC))
        return KG_BAD_INPUT;
    if (size < PACK_MAGIC + 4 + KG_ID_BYTES)
        return KG_CORRUPT;
    *in = (struct unpack){.data = data, .size = size - KG_ID_BYTES, .at = PACK_MAGIC};
    if (unpack_u32(in) != version) {
        in->failed = true;
        return KG_UNSUPPORTED;
    }
    struct kg_id digest;
    hash_data(data, in->size, &digest);
    if (!memcmp(in->data + in->size, digest.bytes, KG_ID_BYTES))
        return KG_OK;
    in->failed = true;
    return KG_CORRUPT;
}

const unsigned char *unpack_bytes(struct unpack *in, size_t size)
{
    if (in->failed || size > in->size - in->at) {
        in->failed = true;
        return NULL;
    }
    const unsigned char *bytes = in->data + in->at;
    in->at += size;
    return bytes;
}

static uint64_t number_of(struct unpack *in, unsigned size)
{
    const unsigned char *bytes = unpack_bytes(in, size);
    uint64_t value = 0;
    for (unsigned i = 0; bytes && i < size; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

uint8_t unpack_u8(struct unpack *in)
{
    return (uint8_t)number_of(in, 1);
}

uint16_t unpack_u16(struct unpack *in)
{
    return (uint16_t)number_of(in, 2);
}

uint32_t unpack_u32(struct unpack *in)
{
    return (uint32_t)number_of(in, 4);
}

uint64_t unpack_u64(struct unpack *in)
{
    return number_of(in, 8);
}

double unpack_f64(struct unpack *in)
{
    uint64_t bits = number_of(in, 8);
    double value;
    memcpy(&value, &bits, sizeof value);
    if (isfinite(value))
        return value;
    in->failed = true;
    return 0;
}

void unpack_id(struct unpack *in, struct kg_id *out)
{
    const unsigned char *bytes = unpack_bytes(in, KG_ID_BYTES);
    *out = (struct kg_id){{0}};
    if (bytes)
        memcpy(out->bytes, bytes, KG_ID_BYTES);
}

/* Lends the bytes of a text and its length; NULL on failure. */
static const unsigned char *text_of(struct unpack *in, size_t limit, size_t *length)
{
    *length = unpack_u32(in);
    const unsigned char *bytes = *length <= limit ? unpack_bytes(in, *length) : NULL;
    if (bytes && !memchr(bytes, 0, *length))
        return bytes;
    in->failed = true;
    return NULL;
}

void unpack_text(struct unpack *in, char *out, size_t room)
{
    size_t length;
    const unsigned char *bytes = text_of(in, room - 1, &length);
    if (!bytes)
        length = 0;
    else
        memcpy(out, bytes, length);
    memset(out + length, 0, room - length);
}

const char *unpack_text_arena(struct unpack *in, struct kg_arena *arena, size_t limit)
{
    size_t length;
    const unsigned char *bytes = text_of(in, limit, &length);
    const char *copy = bytes ? arena_copy(arena, (const char *)bytes, length) : NULL;
    if (copy)
        return copy;
    in->failed = true;
    return "";
}

uint32_t unpack_count(struct unpack *in, size_t each)
{
    uint32_t count = unpack_u32(in);
    if (!in->failed && count <= (in->size - in->at) / each)
        return count;
    in->failed = true;
    return 0;
}

void unpack_align(struct unpack *in, size_t alignment)
{
    while (!in->failed && in->at % alignment)
        if (unpack_u8(in))
            in->failed = true;
}

bool unpack_done(const struct unpack *in)
{
    return !in->failed && in->at == in->size;
}

/* ---- the nouns that several formats hold ----------------------------------------------------- */

void pack_hardware(struct pack *out, const struct kg_hardware *hardware)
{
    pack_text(out, hardware->vendor);
    pack_text(out, hardware->name);
    pack_text(out, hardware->arch);
    pack_text(out, hardware->mig);
    pack_u32(out, hardware->sm_count);
    pack_u32(out, hardware->bus_bits);
    pack_u64(out, hardware->l2_bytes);
    pack_u64(out, hardware->memory_bytes);
    pack_text(out, hardware->uuid);
    pack_u32(out, (uint32_t)hardware->driver_version);
}

static void pack_dim(struct pack *out, const struct kg_dim *dim)
{
    pack_u32(out, dim->x);
    pack_u32(out, dim->y);
    pack_u32(out, dim->z);
}

void pack_launch(struct pack *out, const struct kg_launch *launch)
{
    pack_dim(out, &launch->grid);
    pack_dim(out, &launch->block);
    pack_u32(out, launch->shared);
}

void unpack_hardware(struct unpack *in, struct kg_hardware *out)
{
    unpack_text(in, out->vendor, sizeof out->vendor);
    unpack_text(in, out->name, sizeof out->name);
    unpack_text(in, out->arch, sizeof out->arch);
    unpack_text(in, out->mig, sizeof out->mig);
    out->sm_count = unpack_u32(in);
    out->bus_bits = unpack_u32(in);
    out->l2_bytes = unpack_u64(in);
    out->memory_bytes = unpack_u64(in);
    unpack_text(in, out->uuid, sizeof out->uuid);
    out->driver_version = (int)unpack_u32(in);
}

static void unpack_dim(struct unpack *in, struct kg_dim *out)
{
    out->x = unpack_u32(in);
    out->y = unpack_u32(in);
    out->z = unpack_u32(in);
    if (!out->x || !out->y || !out->z)
        in->failed = true;
}

void unpack_launch(struct unpack *in, struct kg_launch *out)
{
    unpack_dim(in, &out->grid);
    unpack_dim(in, &out->block);
    out->shared = unpack_u32(in);
}
