/* Writes JSON into a fixed buffer: no allocation, no locale, no errors but "full". For the flight
 * recorder, which must not bring a JSON library into the app. */
#ifndef KG_APP_JSON_H
#define KG_APP_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
    char *data;
    size_t size, used;
    bool full; /* something did not fit; from then on nothing is added */
};

void json_raw(struct json *out, const char *text);
/* Quoted and escaped; what is not UTF-8 becomes U+FFFD. */
void json_text(struct json *out, const char *text);
void json_integer(struct json *out, uint64_t value);
/* Not negative, four decimals, 0 for what is no number. */
void json_decimal(struct json *out, double value);
/* A comma unless the object or list has just begun. */
void json_comma(struct json *out);
/* Back to an earlier `used`, and no longer full. */
void json_cut(struct json *out, size_t used);

#endif
