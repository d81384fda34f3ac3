/* Texts around compilation: what a source may not say, which entries PTX has, which lines of a log
 * are worth showing. Hostile input, no allocation but one copy of the source. */
#include "tune/compile.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- source -----------------------------------------------------------------------------------
 */

/* Past spaces and comments, as between the # of a directive and its name. */
static const char *skip_blank(const char *at)
{
    for (;;) {
        while (*at == ' ' || *at == '\t' || *at == '\v' || *at == '\f' || *at == '\r')
            at++;
        if (strncmp(at, "/*", 2))
            return at;
        const char *end = strstr(at + 2, "*/");
        if (!end)
            return at + strlen(at);
        at = end + 2;
    }
}

static bool begins_any(const char *at, const char *const *words)
{
    for (; *words; words++)
        if (!strncmp(at, *words, strlen(*words)))
            return true;
    return false;
}

/* Copy with each backslash-newline taken out, as the compiler's first phase does. */
static char *splice(const char *source)
{
    char *copy = calloc(1, strlen(source) + 1), *to = copy;
    if (!copy)
        return NULL;
    for (const char *at = source; *at; at++) {
        const char *next = at + 1;
        while (*at == '\\' && (*next == ' ' || *next == '\t' || *next == '\r'))
            next++;
        if (*at == '\\' && *next == '\n')
            at = next;
        else
            *to++ = *at;
    }
    return copy;
}

kg_status source_admit(const char *source, char *message, size_t message_size)
{
    static const char *const directives[] = {"include", "import", "embed", NULL};
    static const char *const anywhere[] = {"__has_include", "__has_embed", "?\?=", NULL};
    char *text = splice(source);
    if (!text)
        return KG_NO_MEMORY;
    kg_status status = KG_OK;
    for (const char *at = text; *at && status == KG_OK; at++) {
        bool hash = *at == '#' || !strncmp(at, "%:", 2);
        if ((hash && begins_any(skip_blank(at + (*at == '#' ? 1 : 2)), directives)) ||
            ((*at == '_' || *at == '?') && begins_any(at, anywhere)))
            status = KG_COMPILE;
    }
    free(text);
    if (status != KG_OK)
        snprintf(message, message_size,
                 "#include, #import, #embed, __has_include and trigraphs are refused, in comments "
                 "and strings too: no header is needed or available");
    return status;
}

/* ---- PTX --------------------------------------------------------------------------------------
 */

static bool word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.';
}

/* Past a comment or a string that begins here; NULL if none does. */
static const char *skip_text(const char *at)
{
    const char *end = NULL;
    if (!strncmp(at, "//", 2))
        return at + strcspn(at, "\n");
    if (!strncmp(at, "/*", 2)) {
        end = strstr(at + 2, "*/");
        return end ? end + 2 : at + strlen(at);
    }
    if (*at != '"')
        return NULL;
    end = strpbrk(at + 1, "\"\n");
    return end ? end + 1 : at + strlen(at);
}

unsigned ptx_entries(const char *ptx, char one[static COMPILE_ENTRY])
{
    unsigned count = 0;
    *one = 0;
    for (const char *at = ptx; *at;) {
        const char *past = skip_text(at);
        if (past) {
            at = past;
            continue;
        }
        const char *start = at;
        while (word_char(*at))
            at++;
        if (at == start) {
            at++;
            continue;
        }
        if (at - start != 6 || memcmp(start, ".entry", 6) || count++)
            continue;
        const char *name = at + strspn(at, " \t\r\n");
        size_t length = 0;
        while (word_char(name[length]))
            length++;
        if (length < COMPILE_ENTRY) {
            memcpy(one, name, length);
            one[length] = 0;
        }
    }
    return count;
}

/* ---- logs -------------------------------------------------------------------------------------
 */

enum { LINE = 400 };

static bool line_has(const char *line, size_t length, const char *word)
{
    return memmem(line, length, word, strlen(word)) != NULL;
}

/* One printable line, cut where it gets too long to be of use. */
static size_t line_put(const char *line, size_t length, char *out, size_t room)
{
    size_t take = length < LINE ? length : LINE;
    if (take + 1 > room)
        take = room ? room - 1 : 0;
    for (size_t i = 0; i < take; i++)
        out[i] = (unsigned char)line[i] < 0x20 && line[i] != '\t' ? ' ' : line[i];
    if (room)
        out[take++] = '\n';
    return take;
}

void log_trim(const char *log, char *out, size_t out_size)
{
    size_t used = 0;
    bool keep = false, any = strstr(log, "error") || strstr(log, "fatal");
    for (const char *line = log; *line && out_size;) {
        size_t length = strcspn(line, "\n");
        bool indented = *line == ' ' || *line == '\t' || !length;
        /* what is indented belongs to the line before it */
        if (!indented)
            keep = (!any || line_has(line, length, "error") || line_has(line, length, "fatal")) &&
                   !line_has(line, length, LOG_NAME_MAP) && !line_has(line, length, " detected in");
        if (keep && length)
            used += line_put(line, length, out + used, out_size - used - 1);
        line += length + (line[length] == '\n');
    }
    while (used && out[used - 1] == '\n')
        used--;
    if (out_size)
        out[used] = 0;
}
