/* What the fuzzers of packed formats share: a right head and a right digest around the fuzzer's
 * bytes, so that it gets past both. */
#ifndef FUZZ_SEAL_H
#define FUZZ_SEAL_H

#include "kgenrt.h"

#include <stdlib.h>
#include <string.h>

enum { SEAL_HEAD = 12 }; /* magic and version */

static inline struct kg_bytes seal(const unsigned char head[SEAL_HEAD], const uint8_t *body,
                                   size_t size)
{
    struct kg_hash hash;
    struct kg_id digest;
    struct kg_bytes out = {malloc(SEAL_HEAD + size + KG_ID_BYTES), SEAL_HEAD + size + KG_ID_BYTES};
    if (!out.data)
        abort();
    memcpy(out.data, head, SEAL_HEAD);
    if (size)
        memcpy(out.data + SEAL_HEAD, body, size);
    hash_begin(&hash);
    hash_bytes(&hash, out.data, SEAL_HEAD + size);
    hash_end(&hash, &digest);
    memcpy(out.data + SEAL_HEAD + size, digest.bytes, KG_ID_BYTES);
    return out;
}

#endif
