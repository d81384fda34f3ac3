/* Expressions of a reply: any text must give a value or a message. */
#include <stdlib.h>
#include <string.h>

#include "tune/expr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct expr_name names[] = {{"n", 1000, NULL},
                                             {"big", INT64_MAX, NULL},
                                             {"low", INT64_MIN, NULL},
                                             {"p", 0, "is a pointer"}};
    char message[64], *text = malloc(size + 1);
    int64_t value;
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    message[0] = 0;
    if (expr_eval(text, names, 4, &value, message, sizeof message) != KG_OK && (value || !*message))
        abort();
    free(text);
    return 0;
}
