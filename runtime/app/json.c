/* JSON into a fixed buffer: see json.h. Never writes outside it; printf is not used for fractions
 * because the app's locale may write them with a comma. */
#include "app/json.h"

#include <stdio.h>
#include <string.h>

static void add(struct jout *out, const char *text, size_t length)
{
    if (out->full || length > out->size - out->used) {
        out->full = true;
        return;
    }
    memcpy(out->data + out->used, text, length);
    out->used += length;
}

void jout_raw(struct jout *out, const char *text)
{
    add(out, text, strlen(text));
}

/* Bytes of the UTF-8 sequence at text, 0 if there is none: RFC 3629's table. */
static size_t utf8_length(const unsigned char *t)
{
    size_t length = t[0] < 0x80                    ? 1
                    : t[0] >= 0xc2 && t[0] <= 0xdf ? 2
                    : (t[0] & 0xf0) == 0xe0        ? 3
                    : t[0] >= 0xf0 && t[0] <= 0xf4 ? 4
                                                   : 0;
    for (size_t i = 1; i < length; i++)
        if ((t[i] & 0xc0) != 0x80) /* the NUL at the end included */
            return 0;
    bool overlong = (t[0] == 0xe0 && t[1] < 0xa0) || (t[0] == 0xf0 && t[1] < 0x90);
    bool outside = (t[0] == 0xed && t[1] > 0x9f) || (t[0] == 0xf4 && t[1] > 0x8f);
    return overlong || outside ? 0 : length;
}

void jout_text(struct jout *out, const char *text)
{
    const unsigned char *t = (const unsigned char *)text;
    char escape[8];
    add(out, "\"", 1);
    while (*t) {
        size_t length = utf8_length(t);
        if (*t == '"' || *t == '\\') {
            add(out, "\\", 1);
            add(out, (const char *)t, 1);
        } else if (*t < 0x20) {
            snprintf(escape, sizeof escape, "\\u%04x", *t);
            add(out, escape, 6);
        } else if (length) {
            add(out, (const char *)t, length);
        } else {
            add(out, "\\ufffd", 6);
        }
        t += length ? length : 1;
    }
    add(out, "\"", 1);
}

void jout_integer(struct jout *out, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    jout_raw(out, text);
}

void jout_decimal(struct jout *out, double value)
{
    if (!(value > 0 && value < 1e14))
        value = 0;
    uint64_t scaled = (uint64_t)(value * 10000 + 0.5);
    char text[32];
    snprintf(text, sizeof text, "%llu.%04u", (unsigned long long)(scaled / 10000),
             (unsigned)(scaled % 10000));
    jout_raw(out, text);
}

void jout_comma(struct jout *out)
{
    char last = out->used ? out->data[out->used - 1] : '[';
    if (last != '[' && last != '{')
        add(out, ",", 1);
}

void jout_cut(struct jout *out, size_t used)
{
    out->used = used;
    out->full = false;
}
