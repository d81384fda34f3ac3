/* Expressions of launch transforms and guards: values, precedence, limits, and each way to be
 * refused. */
#include <string.h>

#include "test.h"
#include "tune/expr.h"

static const struct expr_name names[] = {
    {"n", 10000, NULL}, {"big", INT64_MAX, NULL}, {"low", INT64_MIN, NULL},
    {"gx", 40, NULL},   {"p", 0, "is a pointer"},
};
static char message[256];

static bool gives(const char *text, int64_t value)
{
    int64_t out = -77;
    kg_status status = expr_eval(text, names, 5, &out, message, sizeof message);
    if (status == KG_OK && out == value)
        return true;
    fprintf(stderr, "%s: %s, %lld, %s\n", text, status_text(status), (long long)out, message);
    return false;
}

static bool refused(const char *text, const char *why)
{
    int64_t out;
    *message = 0;
    if (expr_eval(text, names, 5, &out, message, sizeof message) == KG_BAD_INPUT && !out &&
        strstr(message, why))
        return true;
    fprintf(stderr, "%s: %lld, %s\n", text, (long long)out, message);
    return false;
}

static void values(void)
{
    CHECK(gives("1", 1) && gives(" 7 ", 7) && gives("n", 10000) && gives("(n)", 10000));
    CHECK(gives("1 + 2 * 3", 7) && gives("(1 + 2) * 3", 9) && gives("10 - 3 - 2", 5));
    CHECK(gives("7 / 2", 3) && gives("-7 / 2", -3) && gives("7 % 4", 3) &&
          gives("100 / 10 / 5", 2));
    CHECK(gives("- - 3", 3) && gives("2 - -3", 5) && gives("-n", -10000) && gives("2*-3", -6));
    CHECK(gives("ceil_div(n, 1024)", 10) && gives("ceil_div(0, 5)", 0) &&
          gives("ceil_div(10, 5)", 2));
    CHECK(gives("ceil_div(-3, 2)", -1) && gives("min(n, gx)", 40) && gives("max(n,gx)", 10000));
    CHECK(gives("min(1, 1)", 1) && gives("max(-2, -3)", -2));
    CHECK(gives("n > 9999", 1) && gives("n < 1", 0) && gives("n <= 10000", 1) &&
          gives("n >= 10001", 0));
    CHECK(gives("n == 10000", 1) && gives("n != 10000", 0) && gives("n % 4 == 0", 1) &&
          gives("(n > 1) * (n < 5)", 0));
    CHECK(gives("1 + 1 == 2", 1) && gives("big", INT64_MAX) && gives("low", INT64_MIN));
    CHECK(gives("low % 2", 0) && gives("9223372036854775807", INT64_MAX));
}

static void refusals(void)
{
    CHECK(refused("", "value is expected") && refused("  ", "value is expected"));
    CHECK(refused("1 +", "value is expected") && refused("(1", ") expected") &&
          refused("1)", "column 2"));
    CHECK(refused("x", "unknown name x") && refused("nn", "unknown name nn") &&
          refused("p", "p is a pointer"));
    CHECK(refused("min", "( expected") && refused("min(1)", "two arguments") &&
          refused("min(1, 2, 3)", ") expected"));
    CHECK(refused("sin(1)", "unknown name sin") && refused("1 2", "not understood") &&
          refused("n = 3", "not understood"));
    CHECK(refused("1.5", "decimal integers") && refused("0x10", "decimal integers") &&
          refused("3u", "decimal integers"));
    CHECK(refused("n << 2", "expected at column") && refused("n & 1", "not understood") &&
          refused("!n", "value expected"));
    CHECK(refused("1 < 2 < 3", "not understood") && refused("a;b", "unknown name") &&
          refused("\"n\"", "value expected"));
    CHECK(refused("1 / 0", "division by zero") && refused("1 % (n - n)", "division by zero"));
    CHECK(refused("ceil_div(1, 0)", "above zero") && refused("ceil_div(1, -1)", "above zero"));
    CHECK(refused("big + 1", "overflow") && refused("low - 1", "overflow") &&
          refused("big * 2", "overflow"));
    CHECK(refused("-low", "overflow") && refused("low / -1", "overflow") &&
          refused("low % -1", "overflow"));
    CHECK(refused("9223372036854775808", "does not fit") &&
          refused("99999999999999999999999", "does not fit"));
    CHECK(refused("1\n+2", "not understood"));
}

static void limits(void)
{
    char text[EXPR_LENGTH + 64];
    memset(text, '(', 400);
    strcpy(text + 400, "1");
    CHECK(refused(text, "nested deeper"));
    memset(text, '(', EXPR_DEPTH - 1);
    text[EXPR_DEPTH - 1] = '1';
    memset(text + EXPR_DEPTH, ')', EXPR_DEPTH - 1);
    text[2 * EXPR_DEPTH - 1] = 0;
    CHECK(gives(text, 1));
    memset(text, '-', 400);
    strcpy(text + 400, "1");
    CHECK(gives(text, 1));
    memset(text, ' ', EXPR_LENGTH + 1);
    strcpy(text + EXPR_LENGTH + 1, "1");
    CHECK(refused(text, "longer than"));
    memset(text, 'a', 500);
    text[500] = 0;
    CHECK(refused(text, "unknown name"));
    int64_t out;
    char tiny[8];
    CHECK(expr_eval("nothing at all", names, 5, &out, tiny, sizeof tiny) == KG_BAD_INPUT &&
          strlen(tiny) == 7);
}

int main(void)
{
    values();
    refusals();
    limits();
    return test_result();
}
