/* Identifiers and the digest they are made by: BLAKE2b-256 from libsodium. */
#include "kgenrt.h"

#include <sodium/crypto_generichash.h>
#include <string.h>

_Static_assert(sizeof(crypto_generichash_state) <= sizeof(((struct kg_hash *)0)->state),
               "state fits");

static crypto_generichash_state *state(struct kg_hash *hash)
{
    return (crypto_generichash_state *)(void *)hash->state;
}

void hash_begin(struct kg_hash *hash)
{
    crypto_generichash_init(state(hash), NULL, 0, KG_ID_BYTES);
}

void hash_bytes(struct kg_hash *hash, const void *data, size_t size)
{
    if (size)
        crypto_generichash_update(state(hash), data, size);
}

void hash_text(struct kg_hash *hash, const char *text)
{
    hash_bytes(hash, text, strlen(text) + 1);
}

void hash_u64(struct kg_hash *hash, uint64_t value)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
    hash_bytes(hash, bytes, sizeof bytes);
}

void hash_end(struct kg_hash *hash, struct kg_id *out)
{
    crypto_generichash_final(state(hash), out->bytes, sizeof out->bytes);
}

void hash_data(const void *data, size_t size, struct kg_id *out)
{
    struct kg_hash hash;
    hash_begin(&hash);
    hash_bytes(&hash, data, size);
    hash_end(&hash, out);
}

bool id_equal(const struct kg_id *a, const struct kg_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

char *id_text(const struct kg_id *id, char text[static KG_ID_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < KG_ID_BYTES; i++) {
        text[2 * i] = digits[id->bytes[i] >> 4];
        text[2 * i + 1] = digits[id->bytes[i] & 15];
    }
    text[2 * KG_ID_BYTES] = 0;
    return text;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

kg_status id_parse(const char *text, struct kg_id *out)
{
    if (strlen(text) != 2 * KG_ID_BYTES)
        return KG_BAD_INPUT;
    for (int i = 0; i < KG_ID_BYTES; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return KG_BAD_INPUT;
        out->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return KG_OK;
}

void hardware_key(const struct kg_hardware *hardware, struct kg_id *out)
{
    struct kg_hash hash;
    hash_begin(&hash);
    hash_text(&hash, "kgenrt hardware 1");
    hash_text(&hash, hardware->vendor);
    hash_text(&hash, hardware->name);
    hash_text(&hash, hardware->arch);
    hash_text(&hash, hardware->mig);
    hash_u64(&hash, hardware->sm_count);
    hash_u64(&hash, hardware->bus_bits);
    hash_u64(&hash, hardware->l2_bytes);
    hash_u64(&hash, hardware->memory_bytes);
    hash_end(&hash, out);
}
