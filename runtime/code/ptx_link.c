/* Links PTX texts into one: what a program's parts were compiled to, as raw material of the code
 * that was linked from them, and for the software GPU's linker. At the outermost level a text is a
 * row of statements; each is kept, or left out where another text defines what it only declares. A
 * symbol that is its text's own gets another name where two texts have one of that name. Variables
 * come first, then declarations of all functions, then their bodies, so that nothing is used before
 * it is known. Debug sections and line numbers are left out. Work is bounded: what is too large is
 * a status. */
#include "ptx_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code/ptx.h"

enum { STATEMENTS = 1 << 14, CLASHES = 64 }; /* in all; names that are changed in one text */
enum linkage { LINK_OWN, LINK_VISIBLE, LINK_WEAK, LINK_EXTERN };
enum kind { KIND_HEADER, KIND_VARIABLE, KIND_DECLARATION, KIND_BODY, KIND_OTHER };

struct statement {
    const char *at;
    size_t size, head; /* head: of a function, the bytes before its body */
    enum linkage linkage;
    enum kind kind;
    bool shared; /* a variable of the blocks: each text may declare it */
    const char *name;
    size_t name_size;
    bool dropped;
};

struct input {
    char *text;
    struct statement *statements;
    unsigned count;
    const struct statement *clashes[CLASHES]; /* its own, and another text has the name, too */
    unsigned clash_count;
};

struct ptx_linker {
    struct input *inputs;
    unsigned count, statements;
};

struct text {
    char *data;
    size_t size, room;
    bool failed;
};

static void put(struct text *text, const char *data, size_t size)
{
    if (text->failed)
        return;
    if (text->size + size + 1 > text->room) {
        size_t room = 2 * (text->size + size) + 4096;
        char *grown = realloc(text->data, room);
        if (!grown) {
            text->failed = true;
            return;
        }
        text->data = grown;
        text->room = room;
    }
    memcpy(text->data + text->size, data, size);
    text->size += size;
    text->data[text->size] = 0;
}

static void put_line(struct text *text, const char *line)
{
    put(text, line, strlen(line));
    put(text, "\n", 1);
}

/* ---- words ---- */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$' || c == '%' || c == '.';
}

/* What no statement consists of: blanks, and comments. */
static const char *skip(const char *at)
{
    for (;;) {
        if (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r') {
            at++;
        } else if (at[0] == '/' && at[1] == '/') {
            at += strcspn(at, "\n");
        } else if (at[0] == '/' && at[1] == '*') {
            const char *end = strstr(at + 2, "*/");
            at = end ? end + 2 : at + strlen(at);
        } else {
            return at;
        }
    }
}

/* The end of the word, string or sign that begins at `at`. */
static const char *after(const char *at)
{
    if (*at == '"') {
        for (at++; *at && *at != '"'; at++)
            at += *at == '\\' && at[1];
        return *at ? at + 1 : at;
    }
    if (!is_word(*at))
        return at + 1;
    while (is_word(*at))
        at++;
    return at;
}

static bool same(const char *at, const char *end, const char *word)
{
    return (size_t)(end - at) == strlen(word) && !memcmp(at, word, (size_t)(end - at));
}

/* ---- statements ---- */

static bool to_line_end(const char *at, const char *end)
{
    return same(at, end, ".version") || same(at, end, ".target") ||
           same(at, end, ".address_size") || same(at, end, ".file") || same(at, end, ".loc");
}

/* Whether a word at the outermost level says what the statement is. */
static void classify(struct statement *s, const char *at, const char *end)
{
    if (same(at, end, ".visible"))
        s->linkage = LINK_VISIBLE;
    else if (same(at, end, ".weak") || same(at, end, ".common"))
        s->linkage = LINK_WEAK;
    else if (same(at, end, ".extern"))
        s->linkage = LINK_EXTERN;
    else if (same(at, end, ".func") || same(at, end, ".entry"))
        s->kind = KIND_DECLARATION; /* until there is a body */
    else if (same(at, end, ".section"))
        s->kind = KIND_BODY;
    else if (s->kind == KIND_OTHER &&
             (same(at, end, ".global") || same(at, end, ".const") || same(at, end, ".shared")))
        s->kind = KIND_VARIABLE;
    s->shared |= s->kind == KIND_VARIABLE && same(at, end, ".shared");
}

/* Reads one statement; its end. */
static const char *read_one(const char *at, struct statement *s)
{
    const char *end = after(at);
    *s = (struct statement){.at = at, .kind = KIND_OTHER};
    if (to_line_end(at, end)) {
        s->kind = KIND_HEADER;
        s->size = strcspn(at, "\n");
        return at + s->size;
    }
    int round = 0, curly = 0;
    for (; *at; at = skip(end)) {
        end = after(at);
        if (!curly && !round && is_word(*at)) {
            classify(s, at, end);
            bool name = *at != '.' && (*at < '0' || *at > '9');
            if (name && !s->name && s->kind != KIND_OTHER) {
                s->name = at;
                s->name_size = (size_t)(end - at);
            }
        }
        round += (*at == '(') - (*at == ')');
        if (*at == '{' && !curly++ && s->kind == KIND_DECLARATION) {
            s->kind = KIND_BODY;
            s->head = (size_t)(at - s->at);
        }
        bool closed = *at == '}' && curly && !--curly && s->kind == KIND_BODY;
        if (closed || (*at == ';' && !curly && !round))
            break;
    }
    s->size = (size_t)(end - s->at);
    return end;
}

static bool split(struct input *input)
{
    unsigned room = 0;
    for (const char *at = skip(input->text); *at; at = skip(at)) {
        if (input->count == room) {
            room = 2 * room + 32;
            struct statement *grown = realloc(input->statements, room * sizeof *grown);
            if (!grown)
                return false;
            input->statements = grown;
        }
        at = read_one(at, &input->statements[input->count++]);
    }
    return true;
}

/* ---- inputs ---- */

struct ptx_linker *ptx_linker_create(void)
{
    return calloc(1, sizeof(struct ptx_linker));
}

static void input_free(struct input *input)
{
    free(input->text);
    free(input->statements);
}

void ptx_linker_free(struct ptx_linker *linker)
{
    for (unsigned i = 0; linker && i < linker->count; i++)
        input_free(&linker->inputs[i]);
    if (linker)
        free(linker->inputs);
    free(linker);
}

unsigned ptx_linker_count(const struct ptx_linker *linker)
{
    return linker->count;
}

kg_status ptx_linker_add(struct ptx_linker *linker, const char *text, size_t size, char *error,
                         size_t error_size)
{
    struct input input = {.text = strndup(text, size)};
    struct ptx_module module = {0};
    if (!input.text)
        return KG_NO_MEMORY;
    kg_status status = ptx_parse(input.text, strlen(input.text), &module, error, error_size);
    ptx_module_free(&module);
    struct input *grown = NULL;
    if (status == KG_OK && !split(&input))
        status = KG_NO_MEMORY;
    if (status == KG_OK && linker->statements + input.count > STATEMENTS) {
        snprintf(error, error_size, "more than %d functions and variables", STATEMENTS);
        status = KG_LIMIT;
    }
    if (status == KG_OK)
        grown = realloc(linker->inputs, (linker->count + 1) * sizeof *grown);
    if (!grown) {
        input_free(&input);
        return status != KG_OK ? status : KG_NO_MEMORY;
    }
    linker->inputs = grown;
    grown[linker->count++] = input;
    linker->statements += input.count;
    return KG_OK;
}

/* ---- symbols ---- */

static bool named(const struct statement *a, const struct statement *b)
{
    return a->name && b->name && a->name_size == b->name_size &&
           !memcmp(a->name, b->name, a->name_size);
}

static bool defines(const struct statement *s)
{
    return s->name && s->linkage != LINK_EXTERN &&
           (s->kind == KIND_BODY || s->kind == KIND_VARIABLE);
}

/* A definition, seen by all texts, of what `wanted` names; NULL: none. */
static struct statement *defined(const struct ptx_linker *linker, const struct statement *wanted)
{
    struct statement *weak = NULL;
    for (unsigned i = 0; i < linker->count; i++)
        for (unsigned j = 0; j < linker->inputs[i].count; j++) {
            struct statement *s = &linker->inputs[i].statements[j];
            if (!defines(s) || !named(s, wanted) || s->linkage == LINK_OWN)
                continue;
            if (s->linkage == LINK_VISIBLE)
                return s;
            weak = weak ? weak : s;
        }
    return weak;
}

/* What a device has by itself, or its runtime library does: that one is left out of links here, and
 * who calls it launches kernels. */
static bool built_in(const struct statement *s)
{
    static const char *const names[] = {"vprintf", "malloc", "free", "__assertfail"};
    static const char *const beginnings[] = {"cuda", "__cudaCDP"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (same(s->name, s->name + s->name_size, names[i]))
            return true;
    for (size_t i = 0; s->kind == KIND_DECLARATION && i < sizeof beginnings / sizeof *beginnings;
         i++)
        if (s->name_size > strlen(beginnings[i]) &&
            !memcmp(s->name, beginnings[i], strlen(beginnings[i])))
            return true;
    return false;
}

/* The same declaration in an earlier text. */
static bool said_before(const struct ptx_linker *linker, unsigned input, const struct statement *s)
{
    for (unsigned i = 0; i < input; i++)
        for (unsigned j = 0; j < linker->inputs[i].count; j++) {
            const struct statement *other = &linker->inputs[i].statements[j];
            if (other->linkage == LINK_EXTERN && other->kind == s->kind && named(other, s))
                return true;
        }
    return false;
}

static kg_status complain(char *error, size_t size, const char *what, const struct statement *s)
{
    snprintf(error, size, "%s '%.*s'", what, (int)s->name_size, s->name);
    return KG_BAD_INPUT;
}

/* Whether a name that is one text's own stands in another one as well. */
static bool elsewhere(const struct ptx_linker *linker, unsigned input, const struct statement *s)
{
    for (unsigned i = 0; s->name && s->linkage == LINK_OWN && i < linker->count; i++)
        for (unsigned j = 0; i != input && j < linker->inputs[i].count; j++)
            if (named(s, &linker->inputs[i].statements[j]))
                return true;
    return false;
}

static kg_status find_clashes(struct ptx_linker *linker)
{
    for (unsigned i = 0; i < linker->count; i++) {
        struct input *input = &linker->inputs[i];
        input->clash_count = 0;
        for (unsigned j = 0; j < input->count; j++) {
            if (!elsewhere(linker, i, &input->statements[j]))
                continue;
            if (input->clash_count == CLASHES)
                return KG_LIMIT;
            input->clashes[input->clash_count++] = &input->statements[j];
        }
    }
    return KG_OK;
}

static bool clashes(const struct input *input, const char *at, size_t size)
{
    const struct statement word = {.name = at, .name_size = size};
    for (unsigned i = 0; i < input->clash_count; i++)
        if (named(input->clashes[i], &word))
            return true;
    return false;
}

/* Which statements the result has. */
static kg_status resolve(struct ptx_linker *linker, bool whole, char *error, size_t error_size)
{
    for (unsigned i = 0; i < linker->count; i++)
        for (unsigned j = 0; j < linker->inputs[i].count; j++) {
            struct statement *s = &linker->inputs[i].statements[j];
            s->dropped = s->kind == KIND_HEADER || (s->kind == KIND_BODY && !s->name);
            if (s->dropped || !s->name || s->linkage == LINK_OWN)
                continue;
            const struct statement *chosen = defined(linker, s);
            if (s->linkage == LINK_EXTERN) {
                if (whole && !chosen && !built_in(s) && !(s->shared && s->kind == KIND_VARIABLE))
                    return complain(error, error_size, "Undefined reference to", s);
                s->dropped = chosen || said_before(linker, i, s);
            } else if (defines(s) && chosen != s) {
                if (s->linkage == LINK_VISIBLE)
                    return complain(error, error_size, "Multiple definition of", s);
                s->dropped = true;
            } else if (s->kind == KIND_DECLARATION) {
                s->dropped = chosen != NULL; /* its head is repeated for all */
            }
        }
    return KG_OK;
}

/* ---- output ---- */

/* Copies words, the text's own names changed where they clash. */
static void put_words(struct text *out, const struct ptx_linker *linker, unsigned input,
                      const char *at, size_t size)
{
    const struct input *from = &linker->inputs[input];
    const char *stop = at + size;
    while (at < stop) {
        const char *next = skip(at);
        if (next > at)
            put(out, memchr(at, '\n', (size_t)(next - at)) ? "\n" : " ", 1);
        if (next >= stop)
            return;
        at = next;
        next = after(at);
        if (same(at, next, ".loc")) { /* its file is not named any more */
            at += strcspn(at, "\n");
            continue;
        }
        put(out, at, (size_t)(next - at));
        if (is_word(*at) && *at != '.' && *at != '%' && clashes(from, at, (size_t)(next - at))) {
            char suffix[24];
            snprintf(suffix, sizeof suffix, "__of_%u", input);
            put(out, suffix, strlen(suffix));
        }
        at = next;
    }
}

/* The highest of the versions and of the targets; targets end in a letter only where all do. */
static void put_header(struct text *out, const struct ptx_linker *linker)
{
    char line[96], version[32] = "1.0", target[32] = "sm_10";
    for (unsigned i = 0; i < linker->count; i++)
        for (unsigned j = 0; j < linker->inputs[i].count; j++) {
            const struct statement *s = &linker->inputs[i].statements[j];
            char word[32];
            snprintf(line, sizeof line, "%.*s", (int)(s->size < 90 ? s->size : 90), s->at);
            if (sscanf(line, ".version %31s", word) == 1 &&
                strtod(word, NULL) > strtod(version, NULL))
                memcpy(version, word, sizeof version);
            if (sscanf(line, ".target %31[a-z_0-9]", word) == 1 && !strncmp(word, "sm_", 3) &&
                strtol(word + 3, NULL, 10) >= strtol(target + 3, NULL, 10))
                memcpy(target, word, sizeof target);
        }
    snprintf(line, sizeof line, ".version %s\n.target %s\n.address_size 64", version, target);
    put_line(out, line);
}

/* pass: KIND_VARIABLE: variables and the rest; KIND_DECLARATION; KIND_BODY. */
static void put_pass(struct text *out, const struct ptx_linker *linker, enum kind pass)
{
    for (unsigned i = 0; i < linker->count; i++)
        for (unsigned j = 0; j < linker->inputs[i].count; j++) {
            const struct statement *s = &linker->inputs[i].statements[j];
            bool entry = s->kind == KIND_BODY && s->head && memmem(s->at, s->head, ".entry", 6);
            bool early = s->kind == KIND_VARIABLE || s->kind == KIND_OTHER;
            if (s->dropped)
                continue;
            if ((pass == KIND_VARIABLE && early) || (pass == s->kind && !early)) {
                put_words(out, linker, i, s->at, s->size);
                put(out, "\n", 1);
            } else if (pass == KIND_DECLARATION && s->kind == KIND_BODY && !entry) {
                put_words(out, linker, i, s->at, s->head);
                put(out, ";\n", 2);
            }
        }
}

kg_status ptx_linker_link(struct ptx_linker *linker, bool whole, char **out, char *error,
                          size_t error_size)
{
    struct text text = {0};
    kg_status status = resolve(linker, whole, error, error_size);
    if (status == KG_OK && (status = find_clashes(linker)) != KG_OK)
        snprintf(error, error_size, "more than %d names of one text clash", CLASHES);
    if (status != KG_OK)
        return status;
    put_header(&text, linker);
    put_pass(&text, linker, KIND_VARIABLE);
    put_pass(&text, linker, KIND_DECLARATION);
    put_pass(&text, linker, KIND_BODY);
    if (text.failed) {
        free(text.data);
        return KG_NO_MEMORY;
    }
    *out = text.data;
    return KG_OK;
}
