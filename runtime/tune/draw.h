/* Other inputs for a kernel: contents drawn from a secret seed, for what its PTX says that it
 * loads. Pure functions over images; whether the original is sound on them is the gates' business.
 */
#ifndef KG_DRAW_H
#define KG_DRAW_H

#include "tune/replay.h"

enum draw_flag {
    DRAW_SOLO = 1,
    DRAW_EXACT = 2,
    DRAW_ILL = 4,
    DRAW_INDEXED = 8,
    DRAW_LATER = 16,
    DRAW_GROWING = 32,
    DRAW_BITWISE = 64,
    DRAW_INFINITE = 128,
};

struct draw_row {
    const char *text;
    uint8_t floats, integers, indices;
    unsigned flags;
};
extern const struct draw_row draw_rows[];
extern const unsigned draw_row_count;

/* Loaded data that reach no address, loop bound or branch cannot make the original unsound. */
enum {
    ROLES_INDEX = ROLE_INDEX | ROLE_BOUND | ROLE_UNKNOWN,
    ROLES_RISK = ROLES_INDEX | ROLE_BRANCH | ROLE_POINTER,
};
/* A run whose bytes may be drawn: loaded, captured, and no addresses. */
bool draw_takes(const struct replay_datum *datum);

/* One draw into `image`, which holds a state of memory: row, for a row with DRAW_SOLO the turn of
 * the buffer that it is about (DRAW_GROWING: how far it goes), and the seed. level 0: also numbers
 * whose sums overflow in one order and not in another; 1: none of these; up to DRAW_LEVELS: smaller
 * and smaller magnitudes. What was poisoned stays. Says what was changed. */
enum { DRAW_LEVELS = 5 };
struct drawn {
    unsigned changed; /* runs */
    unsigned roles;   /* of their data */
};
struct draw_buffer;
/* All elements of a buffer, by threads of this process. */
void draw_here(const struct draw_buffer *buffer);
struct drawn draw_fill(const struct replay_memory *memory, const struct draw_row *row,
                       unsigned turn, unsigned level, uint64_t seed, unsigned char *image);

#endif
