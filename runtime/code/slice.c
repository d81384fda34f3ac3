/* Leaves the other entries out of a module's text before it is parsed: a library's module has
 * hundreds, and one kernel is asked for. Knows only as much of PTX as finds their ends: comments,
 * strings, braces. Where the text surprises it, the whole is taken; the parser then has the word.
 */
#include "parts.h"

#include <ctype.h>
#include <stdlib.h>

struct slice {
    const char *text, *end;
    const char *word; /* the last directive outside of braces: ".visible" */
    const char *entry;
    size_t entry_length;
    char *out;
    size_t used;
};

static const char *skip_to(const char *at, const char *end, const char *stop)
{
    size_t length = strlen(stop);
    const char *found = memmem(at, (size_t)(end - at), stop, length);
    return found ? found + length : end;
}

/* Behind what starts at `at`: a comment, a string, a word, or one character. */
static const char *skip_one(const char *at, const char *end)
{
    if (end - at >= 2 && at[0] == '/' && at[1] == '/')
        return skip_to(at, end, "\n");
    if (end - at >= 2 && at[0] == '/' && at[1] == '*')
        return skip_to(at + 2, end, "*/");
    if (*at == '"')
        return skip_to(at + 1, end, "\"");
    const char *word = at + (*at == '.' || *at == '%' || *at == '$');
    while (word < end && (isalnum((unsigned char)*word) || *word == '_' || *word == '$'))
        word++;
    return word > at ? word : at + 1;
}

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (isspace((unsigned char)*at) || *at == '/')) {
        const char *next = skip_one(at, end);
        if (*at == '/' && next == at + 1)
            return at;
        at = next;
    }
    return at;
}

static bool is_word(const char *at, const char *end, const char *word)
{
    size_t length = strlen(word);
    return at && (size_t)(end - at) > length && !memcmp(at, word, length) &&
           !isalnum((unsigned char)at[length]) && at[length] != '_';
}

/* Behind the entry's body, or its declaration's semicolon; NULL if it does not end. */
static const char *entry_end(const char *at, const char *end)
{
    unsigned depth = 0;
    while ((at += strcspn(at, "{};\"/")) < end) {
        char what = *at;
        at = skip_one(at, end);
        depth += what == '{';
        if (what == '}' && (!depth || !--depth))
            return depth ? NULL : at;
        if (what == ';' && !depth)
            return at;
    }
    return NULL;
}

static bool linkage_before(const struct slice *slice, const char *at)
{
    static const char *const words[] = {".visible", ".weak", ".extern", ".common"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (is_word(slice->word, slice->end, words[i]) &&
            skip_space(slice->word + strlen(words[i]), slice->end) == at)
            return true;
    return false;
}

/* At ".entry", outside of braces: copies or leaves out the whole of it. Returns what is behind. */
static const char *take_entry(struct slice *slice, const char *from, const char *at)
{
    const char *name = skip_space(at + strlen(".entry"), slice->end);
    const char *after = skip_one(name < slice->end ? name : at, slice->end);
    const char *end = entry_end(after, slice->end);
    const char *begin = linkage_before(slice, at) ? slice->word : at;
    if (!end)
        return NULL;
    bool own = (size_t)(after - name) == slice->entry_length &&
               !memcmp(name, slice->entry, slice->entry_length);
    const char *until = own ? end : begin;
    memcpy(slice->out + slice->used, from, (size_t)(until - from));
    slice->used += (size_t)(until - from);
    for (at = until; at < end; at++) /* what stays keeps its line */
        if (*at == '\n')
            slice->out[slice->used++] = '\n';
    return end;
}

static bool cut(struct slice *slice)
{
    unsigned depth = 0;
    const char *from = slice->text;
    for (const char *at = from; at < slice->end;) {
        if (!depth && is_word(at, slice->end, ".entry")) {
            at = from = take_entry(slice, from, at);
            slice->word = NULL;
            if (!at)
                return false;
            continue;
        }
        if (depth) {
            at += strcspn(at, "{}\"/");
            if (at >= slice->end)
                return false;
        } else if (*at == '.') {
            slice->word = at;
        }
        depth += *at == '{';
        if (*at == '}' && depth-- == 0)
            return false;
        at = skip_one(at, slice->end);
    }
    memcpy(slice->out + slice->used, from, (size_t)(slice->end - from));
    slice->used += (size_t)(slice->end - from);
    return !depth;
}

kg_status ptx_slice(const struct kg_bytes *ptx, const char *entry, struct kg_bytes *out)
{
    const char *text = (const char *)ptx->data;
    size_t size = strlen(text);
    struct slice slice = {.text = text,
                          .end = text + size,
                          .entry = entry,
                          .entry_length = entry ? strlen(entry) : 0,
                          .out = malloc(size + 1)};
    if (!slice.out)
        return KG_NO_MEMORY;
    if (!entry || !cut(&slice)) {
        memcpy(slice.out, text, size);
        slice.used = size;
    }
    slice.out[slice.used] = 0;
    *out = (struct kg_bytes){(unsigned char *)slice.out, slice.used};
    return KG_OK;
}
