/* Recursive descent over the text, evaluating as it goes: there is no tree, because an expression
 * is used once. The first failure writes the message and turns every later step into a no-op. */
#include "tune/expr.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct reader {
    const char *text, *at;
    const struct expr_name *names;
    unsigned count, depth;
    bool failed;
    char *message;
    size_t message_size;
};

static int64_t fail(struct reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static int64_t comparison(struct reader *r);

static int64_t fail(struct reader *r, const char *format, ...)
{
    if (r->failed)
        return 0;
    r->failed = true;
    char why[160];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    snprintf(r->message, r->message_size, "expression `%.80s`: %s", r->text, why);
    return 0;
}

static void skip(struct reader *r)
{
    while (*r->at == ' ' || *r->at == '\t')
        r->at++;
}

static bool take(struct reader *r, const char *token)
{
    skip(r);
    size_t length = strlen(token);
    if (r->failed || strncmp(r->at, token, length))
        return false;
    r->at += length;
    return true;
}

static int64_t apply(struct reader *r, const char *op, int64_t a, int64_t b)
{
    int64_t out = 0;
    bool overflow = false;
    if (r->failed)
        return 0;
    switch (*op) {
    case '+':
        overflow = __builtin_add_overflow(a, b, &out);
        break;
    case '-':
        overflow = __builtin_sub_overflow(a, b, &out);
        break;
    case '*':
        overflow = __builtin_mul_overflow(a, b, &out);
        break;
    default:
        if (!b)
            return fail(r, "division by zero");
        if (a == INT64_MIN && b == -1)
            overflow = true;
        else
            out = *op == '/' ? a / b : a % b;
    }
    return overflow ? fail(r, "64-bit overflow in %s", op) : out;
}

static int64_t ceil_div(struct reader *r, int64_t a, int64_t b)
{
    if (!r->failed && b <= 0)
        return fail(r, "ceil_div needs a divisor above zero");
    int64_t whole = apply(r, "/", a, b);
    return r->failed ? 0 : whole + (a > 0 && a % b != 0);
}

static const char *const functions[] = {"ceil_div", "min", "max"};

bool expr_reserved(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strlen(functions[i]) == length && !memcmp(functions[i], name, length))
            return true;
    return false;
}

static int64_t call(struct reader *r, const char *name)
{
    if (!take(r, "("))
        return fail(r, "( expected after a function's name");
    int64_t a = comparison(r);
    if (!take(r, ","))
        return fail(r, "two arguments expected");
    int64_t b = comparison(r);
    if (!take(r, ")"))
        return fail(r, ") expected");
    if (*name == 'c')
        return ceil_div(r, a, b);
    return (name[1] == 'i') == (a < b) ? a : b;
}

static int64_t word(struct reader *r)
{
    const char *start = r->at;
    while (isalnum((unsigned char)*r->at) || *r->at == '_')
        r->at++;
    size_t length = (size_t)(r->at - start);
    if (expr_reserved(start, length))
        return call(r, start);
    for (unsigned i = 0; i < r->count; i++) {
        const struct expr_name *name = &r->names[i];
        if (strlen(name->name) != length || memcmp(name->name, start, length))
            continue;
        return name->why_not ? fail(r, "%s %s", name->name, name->why_not) : name->value;
    }
    return fail(r, "unknown name %.*s", length > 64 ? 64 : (int)length, start);
}

static int64_t number(struct reader *r)
{
    int64_t out = 0;
    for (; isdigit((unsigned char)*r->at); r->at++)
        if (__builtin_mul_overflow(out, 10, &out) ||
            __builtin_add_overflow(out, *r->at - '0', &out))
            return fail(r, "a number does not fit 64 bits");
    if (isalnum((unsigned char)*r->at) || *r->at == '_' || *r->at == '.')
        return fail(r, "only decimal integers are understood");
    return out;
}

static int64_t primary(struct reader *r)
{
    skip(r);
    if (r->failed)
        return 0;
    if (isdigit((unsigned char)*r->at))
        return number(r);
    if (isalpha((unsigned char)*r->at) || *r->at == '_')
        return word(r);
    if (take(r, "(")) {
        int64_t value = comparison(r);
        return take(r, ")") ? value : fail(r, ") expected");
    }
    if (!*r->at)
        return fail(r, "ends where a value is expected");
    return fail(r, "value expected at column %d", (int)(r->at - r->text) + 1);
}

static int64_t sign(struct reader *r)
{
    bool negative = false;
    while (take(r, "-"))
        negative = !negative;
    int64_t value = primary(r);
    return negative ? apply(r, "-", 0, value) : value;
}

static int64_t product(struct reader *r)
{
    int64_t value = sign(r);
    for (;;) {
        if (take(r, "*"))
            value = apply(r, "*", value, sign(r));
        else if (take(r, "/"))
            value = apply(r, "/", value, sign(r));
        else if (take(r, "%"))
            value = apply(r, "%", value, sign(r));
        else
            return value;
    }
}

static int64_t sum(struct reader *r)
{
    int64_t value = product(r);
    for (;;) {
        if (take(r, "+"))
            value = apply(r, "+", value, product(r));
        else if (take(r, "-"))
            value = apply(r, "-", value, product(r));
        else
            return value;
    }
}

/* A single comparison: a < b < c means something else to a mathematician, so it is refused. */
static int64_t comparison(struct reader *r)
{
    if (++r->depth > EXPR_DEPTH)
        return fail(r, "nested deeper than %d", EXPR_DEPTH);
    int64_t a = sum(r), out = a, b;
    if (take(r, "<="))
        b = sum(r), out = a <= b;
    else if (take(r, ">="))
        b = sum(r), out = a >= b;
    else if (take(r, "=="))
        b = sum(r), out = a == b;
    else if (take(r, "!="))
        b = sum(r), out = a != b;
    else if (take(r, "<"))
        b = sum(r), out = a < b;
    else if (take(r, ">"))
        b = sum(r), out = a > b;
    r->depth--;
    return out;
}

kg_status expr_eval(const char *text, const struct expr_name *names, unsigned count, int64_t *out,
                    char *message, size_t message_size)
{
    struct reader r = {.text = text,
                       .at = text,
                       .names = names,
                       .count = count,
                       .message = message,
                       .message_size = message_size};
    *out = 0;
    if (strnlen(text, EXPR_LENGTH + 1) > EXPR_LENGTH)
        fail(&r, "longer than %d characters", EXPR_LENGTH);
    int64_t value = r.failed ? 0 : comparison(&r);
    skip(&r);
    if (!r.failed && *r.at)
        fail(&r, "not understood from column %d on", (int)(r.at - text) + 1);
    if (r.failed)
        return KG_BAD_INPUT;
    *out = value;
    return KG_OK;
}
