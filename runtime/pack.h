/* Bytes of a file or record, written and read field by field: little endian, whatever the machine.
 * The reader cannot overrun: after the first field that does not fit, or is not what it must be, it
 * is `failed`, every further field reads as zero, and the caller looks once, at the end. The writer
 * is `failed` when memory is out, in the same way. */
#ifndef KG_PACK_H
#define KG_PACK_H

#include "kgenrt.h"

enum { PACK_MAGIC = 8 };

/* Writer. Zero it before use; its memory is freed by pack_free or handed over by pack_seal. */
struct pack {
    unsigned char *data;
    size_t size, room;
    bool failed;
};

/* Begins with the magic (8 bytes) and the format's version. */
void pack_begin(struct pack *pack, const char magic[static PACK_MAGIC], uint32_t version);
void pack_bytes(struct pack *pack, const void *data, size_t size);
void pack_u8(struct pack *pack, uint8_t value);
void pack_u16(struct pack *pack, uint16_t value);
void pack_u32(struct pack *pack, uint32_t value);
void pack_u64(struct pack *pack, uint64_t value);
void pack_f64(struct pack *pack, double value); /* NaN and infinity become 0, "unknown" */
void pack_id(struct pack *pack, const struct kg_id *id);
/* Length and bytes, without the NUL; NULL is written as the empty text. */
void pack_text(struct pack *pack, const char *text);
void pack_hardware(struct pack *pack, const struct kg_hardware *hardware);
void pack_launch(struct pack *pack, const struct kg_launch *launch);
/* Appends the BLAKE2b-256 of all bytes so far and hands the bytes over. KG_NO_MEMORY if it failed;
 * the writer is empty afterwards in either case. */
kg_status pack_seal(struct pack *pack, struct kg_bytes *out);
void pack_free(struct pack *pack);

/* Reader. It owns nothing: data must outlive it. */
struct unpack {
    const unsigned char *data;
    size_t size, at;
    bool failed;
};

/* Checks magic, version and the digest at the end, which is then left out of what is read.
 * KG_BAD_INPUT: another magic; KG_UNSUPPORTED: another version; KG_CORRUPT: too short or damaged.
 */
kg_status unpack_begin(struct unpack *in, const void *data, size_t size,
                       const char magic[static PACK_MAGIC], uint32_t version);
/* Lends `size` bytes where they stand, or NULL. */
const unsigned char *unpack_bytes(struct unpack *in, size_t size);
uint8_t unpack_u8(struct unpack *in);
uint16_t unpack_u16(struct unpack *in);
uint32_t unpack_u32(struct unpack *in);
uint64_t unpack_u64(struct unpack *in);
double unpack_f64(struct unpack *in); /* fails on NaN and infinity: no field of ours may be one */
void unpack_id(struct unpack *in, struct kg_id *out);
/* A text into a buffer of `room` bytes, NUL added; fails if it does not fit or holds a NUL. */
void unpack_text(struct unpack *in, char *out, size_t room);
/* The same as a copy in the arena; "" on failure, never NULL. */
const char *unpack_text_arena(struct unpack *in, struct kg_arena *arena, size_t limit);
void unpack_hardware(struct unpack *in, struct kg_hardware *out);
void unpack_launch(struct unpack *in, struct kg_launch *out); /* fails on a dimension of zero */
/* A count of items of at least `each` bytes, so many that they can still fit; 0 on failure. */
uint32_t unpack_count(struct unpack *in, size_t each);
/* Skips to a multiple of `alignment`; fails on padding that is not zero. */
void unpack_align(struct unpack *in, size_t alignment);
/* True if nothing failed and every byte has been read. */
bool unpack_done(const struct unpack *in);

#endif
