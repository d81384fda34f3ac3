/* Small integer expressions of a reply's launch transform and guards: worked out once for one
 * launch, never in the app. Hostile input: length and depth are bounded, every step is checked for
 * overflow.
 *
 * Numbers (decimal), names, + - * / %, unary -, comparisons (< <= > >= == !=, giving 0 or 1),
 * parentheses, ceil_div(a, b), min(a, b), max(a, b). 64-bit signed; precedence as in C. */
#ifndef KG_EXPR_H
#define KG_EXPR_H

#include "kgenrt.h"

struct expr_name {
    const char *name;
    int64_t value;
    const char *why_not; /* NULL, or why the name has no value: text for the message */
};

enum { EXPR_LENGTH = 512, EXPR_DEPTH = 32 };

/* KG_BAD_INPUT and one line in message, which quotes the text, otherwise. */
kg_status expr_eval(const char *text, const struct expr_name *names, unsigned count, int64_t *out,
                    char *message, size_t message_size);
/* True for the names of functions: no parameter may be called so. */
bool expr_reserved(const char *name, size_t length);

#endif
