/* Parts of the prompt, private to runtime/tune. */
#ifndef KG_PROMPT_H
#define KG_PROMPT_H

#include "kgenrt.h"

/* Text that grows up to a limit; a failure is remembered and ends all further writing. */
struct text {
    char *data;
    size_t size, room;
    kg_status status;
};
void text_put(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_bytes(struct text *text, const char *data, size_t size);

enum { PROMPT_LIMIT = 128 << 10 };

/* The PTX of `entry` with what it calls and the variables these name, as a model is shown it: no
 * comments, no debug lines, the entry called `name` and other functions f0, f1, …. */
void prompt_ptx(struct text *out, const struct kg_bytes *ptx, const char *entry, const char *name);

#endif
