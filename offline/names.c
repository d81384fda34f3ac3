/* Readable names from mangled ones: enough of the Itanium scheme for a listing (nested names,
 * templates cut to <…>), and never more than the name says. */
#include "cli.h"

#include <ctype.h>
#include <string.h>

/* One <length><name> at *at, appended to out; false if there is none. */
static bool component(const char **at, char *out, size_t size)
{
    size_t length = 0, used = strlen(out);
    const char *p = *at;
    while (isdigit((unsigned char)*p) && length < 10000)
        length = 10 * length + (size_t)(*p++ - '0');
    if (!length || strnlen(p, length) < length)
        return false;
    bool anonymous = length >= 10 && !strncmp(p, "_GLOBAL__N", 10);
    snprintf(out + used, size - used, "%s%.*s", used ? "::" : "", anonymous ? 11 : (int)length,
             anonymous ? "(anonymous)" : p);
    *at = p + length;
    return true;
}

/* Skips template arguments I…E; false if their end cannot be told (an expression, a literal of a
 * kind we do not read). */
static bool skip_template(const char **at)
{
    unsigned depth = 0;
    for (const char *p = *at; *p;) {
        char ignored[256] = "";
        if (isdigit((unsigned char)*p)) {
            if (!component(&p, ignored, sizeof ignored))
                return false;
        } else if (*p == 'L') { /* a literal: type, digits, E */
            p += strcspn(p, "E");
            p += *p == 'E';
        } else {
            depth += *p == 'I' || *p == 'N' || *p == 'J' || *p == 'F';
            depth -= *p == 'E';
            p++;
            if (!depth) {
                *at = p;
                return true;
            }
        }
    }
    return false;
}

const char *name_readable(const char *mangled, char *out, size_t size)
{
    const char *at = mangled;
    *out = 0;
    if (!strncmp(at, "_Z", 2)) {
        at += 2;
        bool nested = *at == 'N';
        at += nested;
        at += strspn(at, nested ? "KVr" : "L");
        while (component(&at, out, size)) {
            size_t used = strlen(out);
            if (*at == 'I' && skip_template(&at))
                snprintf(out + used, size - used, "<>");
            if (!nested || *at == 'E')
                return out;
            at += *at == 'L';
        }
    }
    snprintf(out, size, "%s", mangled);
    return out;
}

bool name_matches(const char *what, const char *name, const struct kg_id *id)
{
    char readable[512], text[KG_ID_TEXT];
    return strstr(name, what) || strstr(name_readable(name, readable, sizeof readable), what) ||
           (strlen(what) >= 4 && !strncmp(id_text(id, text), what, strlen(what)));
}
