/* The bytes of the store's records and blobs: packed, versioned, checksummed. Inside cache/ only.
 * No LMDB here: what can be read is decided by these functions alone, so the fuzzer needs no more.
 */
#ifndef KG_RECORD_H
#define KG_RECORD_H

#include "cache.h"
#include "pack.h"

/* One row a kind of record: RECORD(function prefix, type). */
#define RECORDS                                                                                    \
    RECORD(rejection, struct kg_rejection)                                                         \
    RECORD(kernel_note, struct kg_kernel_note)                                                     \
    RECORD(job_note, struct kg_job_note)                                                           \
    RECORD(hardware, struct kg_hardware)

#define RECORD(name, type)                                                                         \
    kg_status name##_pack(const type *in, struct kg_bytes *out);                                   \
    kg_status name##_parse(const void *data, size_t size, type *out);
RECORDS
#undef RECORD

/* A signature inside a larger record. What is read lives in the arena. */
void pack_signature(struct pack *pack, const struct kg_signature *signature);
void unpack_signature(struct unpack *in, struct kg_arena *arena, struct kg_signature *out);

/* Zstandard form of a blob and its id. unpack: a copy checked against id; free with bytes_free. */
kg_status blob_pack(const void *data, size_t size, struct kg_id *id, struct kg_bytes *out);
kg_status blob_unpack(const void *data, size_t size, const struct kg_id *id, struct kg_bytes *out);

#endif
