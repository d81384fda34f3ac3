/* Writes JSON into a fixed buffer: no allocation, no locale, no errors but "full". For the flight
 * recorder, which must not bring a JSON library into the app. (jout: jansson, in the worker, has
 * the names json_*.) */
#ifndef KG_APP_JSON_H
#define KG_APP_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jout {
    char *data;
    size_t size, used;
    bool full; /* something did not fit; from then on nothing is added */
};

void jout_raw(struct jout *out, const char *text);
/* Quoted and escaped; what is not UTF-8 becomes U+FFFD. */
void jout_text(struct jout *out, const char *text);
void jout_integer(struct jout *out, uint64_t value);
/* Not negative, four decimals, 0 for what is no number. */
void jout_decimal(struct jout *out, double value);
/* A comma unless the object or list has just begun. */
void jout_comma(struct jout *out);
/* Back to an earlier `used`, and no longer full. */
void jout_cut(struct jout *out, size_t used);

#endif
