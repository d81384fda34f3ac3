/* Constant expressions of integers, as the ISA has them: C's operators on 64 bits, signed unless an
 * operand is unsigned (written with U, or too large for a signed one). Sums of floats are not
 * evaluated: compilers write none. */
#include "code/ptx_lex.h"

enum { CONSTANT_DEPTH = 64 };

struct constant {
    uint64_t bits;
    bool is_unsigned;
};

/* A row each: the operator, how tightly it binds. Longer ones first. */
static const struct {
    char text[3];
    uint8_t level;
} binary[] = {{"||", 2}, {"&&", 3}, {"==", 7}, {"!=", 7}, {"<=", 8}, {">=", 8},
              {"<<", 9}, {">>", 9}, {"|", 4},  {"^", 5},  {"&", 6},  {"<", 8},
              {">", 8},  {"+", 10}, {"-", 10}, {"*", 11}, {"/", 11}, {"%", 11}};

static struct constant parse_level(struct parser *p, unsigned level, unsigned depth);

/* Index of the operator at the current token, or -1. */
static int operator_at(const struct parser *p)
{
    bool rest = p->token.kind == TOKEN_NAME && p->token.end - p->token.begin == 1; /* a lone % */
    if (p->token.kind != TOKEN_PUNCT && !rest)
        return -1;
    const char *text = p->text + p->token.begin;
    for (unsigned i = 0; i < sizeof binary / sizeof *binary; i++)
        if (text[0] == binary[i].text[0] &&
            (!binary[i].text[1] || (p->at < p->size && p->text[p->at] == binary[i].text[1])))
            return (int)i;
    return -1;
}

static uint64_t divide(struct parser *p, char op, struct constant a, struct constant b, bool plain)
{
    int64_t x = (int64_t)a.bits, y = (int64_t)b.bits;
    if (!b.bits) {
        parse_fail(p, KG_BAD_INPUT, "division by zero");
        return 0;
    }
    if (plain)
        return op == '/' ? a.bits / b.bits : a.bits % b.bits;
    if (y == -1) /* the one quotient that overflows among them */
        return op == '/' ? 0 - a.bits : 0;
    return (uint64_t)(op == '/' ? x / y : x % y);
}

static struct constant apply(struct parser *p, const char *op, struct constant a, struct constant b)
{
    bool plain = a.is_unsigned || b.is_unsigned; /* unsigned arithmetic */
    int64_t x = (int64_t)a.bits, y = (int64_t)b.bits;
    bool less = plain ? a.bits < b.bits : x < y, truth = true;
    struct constant out = {0, plain};
    switch (op[0] | op[1] << 8) {
    case '+':
        out.bits = a.bits + b.bits;
        return out;
    case '-':
        out.bits = a.bits - b.bits;
        return out;
    case '*':
        out.bits = a.bits * b.bits;
        return out;
    case '/':
    case '%':
        out.bits = divide(p, op[0], a, b, plain);
        return out;
    case '&':
        out.bits = a.bits & b.bits;
        return out;
    case '|':
        out.bits = a.bits | b.bits;
        return out;
    case '^':
        out.bits = a.bits ^ b.bits;
        return out;
    case '<' | '<' << 8:
        return (struct constant){b.bits < 64 ? a.bits << b.bits : 0, a.is_unsigned};
    case '>' | '>' << 8:
        if (a.is_unsigned)
            return (struct constant){b.bits < 64 ? a.bits >> b.bits : 0, true};
        return (struct constant){(uint64_t)(x >> (b.bits < 64 ? b.bits : 63)), false};
    case '=' | '=' << 8:
        truth = a.bits == b.bits;
        break;
    case '!' | '=' << 8:
        truth = a.bits != b.bits;
        break;
    case '<':
        truth = less;
        break;
    case '>' | '=' << 8:
        truth = !less;
        break;
    case '>':
        truth = !less && a.bits != b.bits;
        break;
    case '<' | '=' << 8:
        truth = less || a.bits == b.bits;
        break;
    case '&' | '&' << 8:
        truth = a.bits && b.bits;
        break;
    default: /* || */
        truth = a.bits || b.bits;
    }
    return (struct constant){truth, false};
}

/* Number, (expression), or one of them with -, +, ~, !, (.s64), (.u64) before it. */
static struct constant parse_primary(struct parser *p, unsigned depth)
{
    struct constant out = {0};
    if (depth > CONSTANT_DEPTH)
        parse_fail(p, KG_LIMIT, "expression nests too deeply");
    for (const char *at = "-+~!"; *at; at++) {
        if (!parse_take(p, *at))
            continue;
        out = parse_primary(p, depth + 1);
        out.bits = *at == '-' ? 0 - out.bits : *at == '~' ? ~out.bits : out.bits;
        return *at == '!' ? (struct constant){!out.bits, false} : out;
    }
    if (parse_take(p, '(')) {
        bool is_unsigned = token_is_word(p, "u64"), cast = is_unsigned || token_is_word(p, "s64");
        if (cast)
            lex_next(p);
        else
            out = parse_level(p, 1, depth + 1);
        parse_expect(p, ')');
        return cast ? (struct constant){parse_primary(p, depth + 1).bits, is_unsigned} : out;
    }
    if (p->token.kind != TOKEN_INT) {
        parse_fail(p, KG_BAD_INPUT, "integer expected");
        return out;
    }
    out.bits = p->token.bits;
    out.is_unsigned = out.bits >> 63 || p->text[p->token.end - 1] == 'U';
    lex_next(p);
    return out;
}

/* An expression of operators that bind at least as tightly as `level`; 1: the ternary one too. */
static struct constant parse_level(struct parser *p, unsigned level, unsigned depth)
{
    struct constant left = parse_primary(p, depth);
    for (int op; (op = operator_at(p)) >= 0 && binary[op].level >= level;) {
        lex_next(p);
        if (binary[op].text[1])
            lex_next(p);
        left = apply(p, binary[op].text, left, parse_level(p, binary[op].level + 1u, depth + 1));
    }
    if (level > 1 || !parse_take(p, '?'))
        return left;
    struct constant yes = parse_level(p, 1, depth + 1);
    parse_expect(p, ':');
    struct constant no = parse_level(p, 1, depth + 1);
    return left.bits ? yes : no;
}

uint64_t parse_int(struct parser *p)
{
    return parse_level(p, 1, 0).bits;
}

/* Without operators behind it: of what stands in <...>. */
uint64_t parse_plain_int(struct parser *p)
{
    return parse_primary(p, 0).bits;
}
