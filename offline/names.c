/* Readable names from mangled ones, short enough for a listing: the C++ library's own demangler,
 * without return type and arguments; template arguments as far as there is room, the inner ones cut
 * to <> first. Never more than the name says. */
#include "cli.h"
#include "code/code.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { LEVELS = 4, ROOM = 100 };

/* Itanium C++ ABI: result from malloc, NULL if it is no mangled name. Opened at run time: the tool
 * works where there is no C++ library, too, and shows names as they are. */
static char *demangle(const char *name)
{
    static char *(*function)(const char *, char *, size_t *, int *);
    static bool tried;
    if (!tried) {
        void *library = dlopen("libstdc++.so.6", RTLD_LAZY);
        if (!library)
            library = dlopen("libc++abi.so.1", RTLD_LAZY);
        if (library)
            function =
                (char *(*)(const char *, char *, size_t *, int *))dlsym(library, "__cxa_demangle");
        tried = true;
    }
    return function && !strncmp(name, "_Z", 2) ? function(name, NULL, NULL, NULL) : NULL;
}

/* The name in a demangled declaration, template arguments down to this level; false where its form
 * is not understood. */
static bool shorten(const char *text, unsigned level, char *out, size_t size)
{
    static const char anonymous[] = "(anonymous namespace)";
    size_t used = 0, start = 0; /* start: behind the return type */
    unsigned depth = 0;
    for (const char *p = text; *p && used + 16 < size; p++) {
        if (*p == '<' && depth++ == level) {
            used += (size_t)snprintf(out + used, size - used, "<>");
        } else if (*p == '>' && !depth--) {
            return false;
        } else if (depth > level || (*p == '>' && depth == level)) {
            continue; /* left out, or the end of what is */
        } else if (!strncmp(p, anonymous, sizeof anonymous - 1)) {
            used += (size_t)snprintf(out + used, size - used, "(anonymous)");
            p += sizeof anonymous - 2;
        } else if (*p == '(' && !depth) {
            break;
        } else {
            out[used++] = *p;
            if (*p == ' ' && !depth)
                start = used;
        }
    }
    out[used] = 0;
    memmove(out, out + start, used - start + 1);
    return !depth && used > start;
}

/* As much of the template arguments as a listing has room for. */
const char *name_readable(const char *mangled, char *out, size_t size)
{
    const char *plain = mangled + name_static_prefix(mangled);
    char *text = demangle(plain);
    bool good = false;
    for (unsigned level = LEVELS; text && level-- && !good;)
        good = shorten(text, level, out, size) && (!level || strlen(out) <= ROOM);
    if (!good)
        snprintf(out, size, "%s", plain);
    free(text);
    return out;
}

bool name_matches(const char *what, const char *name, const struct kg_id *id)
{
    char readable[512], text[KG_ID_TEXT];
    return strstr(name, what) || strstr(name_readable(name, readable, sizeof readable), what) ||
           (strlen(what) >= 4 && !strncmp(id_text(id, text), what, strlen(what)));
}

const char *names_readable(const char *text, char *out, size_t size)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$";
    char word[512], clear[512];
    size_t used = 0;
    *out = 0;
    while (*text && used + 1 < size) {
        size_t length = strspn(text, letters);
        bool name = length < sizeof word && (!strncmp(text, "_Z", 2) || !strncmp(text, "__nv_", 5));
        length += !length; /* one sign that is no letter */
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        const char *put = name ? name_readable(word, clear, sizeof clear) : text;
        used += (size_t)snprintf(out + used, size - used, "%.*s",
                                 name ? (int)strlen(put) : (int)length, put);
        text += length;
    }
    return out;
}
