/* A model's reply in pieces. The fuzz target and the tests use the pieces; makers use reply_parse
 * of tune.h. */
#ifndef KG_REPLY_H
#define KG_REPLY_H

#include "kgenrt.h"

enum {
    REPLY_LIMIT = 1 << 20,   /* bytes of a whole reply */
    SOURCE_LIMIT = 1 << 18,  /* of its cuda block */
    JSON_LIMIT = 1 << 16,    /* of its json block */
    REPLY_GUARDS = 16,       /* most guards */
    NAME_LIMIT = 64,         /* bytes of a parameter's name */
    NOTE_LIMIT = 1000,       /* bytes of the note */
    ENTRY_LIMIT = 256,       /* bytes of the entry's name */
    SHARED_LIMIT = 227 << 10 /* most dynamic shared memory of any architecture so far */
};

/* A piece of the text. */
struct reply_span {
    const char *data;
    size_t size;
};

/* Finds the one fenced block with each of the two info strings. KG_BAD_INPUT and a message unless
 * each is there exactly once, and closed. */
kg_status reply_blocks(const char *text, size_t size, struct reply_span *cuda,
                       struct reply_span *json, char *message, size_t message_size);

#endif
