/* From the lines of corpus.def to rows: alternatives are multiplied out, operands get registers. */
#include "differential.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 4096, VERSION = 1 }; /* VERSION: of inputs.c and ptx.c */

static const struct kind kinds[] = {
    {"pred", KIND_PREDICATE, 1, 1, 0, 0, 1},  {"u8", KIND_INTEGER, 8, 1, 0, 0, 32},
    {"s8", KIND_INTEGER, 8, 1, 0, 0, 32},     {"b8", KIND_INTEGER, 8, 1, 0, 0, 32},
    {"u16", KIND_INTEGER, 16, 1, 0, 0, 16},   {"s16", KIND_INTEGER, 16, 1, 0, 0, 16},
    {"b16", KIND_INTEGER, 16, 1, 0, 0, 16},   {"u32", KIND_INTEGER, 32, 1, 0, 0, 32},
    {"s32", KIND_INTEGER, 32, 1, 0, 0, 32},   {"b32", KIND_INTEGER, 32, 1, 0, 0, 32},
    {"u64", KIND_INTEGER, 64, 1, 0, 0, 64},   {"s64", KIND_INTEGER, 64, 1, 0, 0, 64},
    {"b64", KIND_INTEGER, 64, 1, 0, 0, 64},   {"u16x2", KIND_INTEGER, 16, 2, 0, 0, 32},
    {"s16x2", KIND_INTEGER, 16, 2, 0, 0, 32}, {"b8x4", KIND_INTEGER, 8, 4, 0, 0, 32},
    {"b4x8", KIND_INTEGER, 4, 8, 0, 0, 32},   {"f16", KIND_FLOAT, 16, 1, 5, 10, 16},
    {"f16x2", KIND_FLOAT, 16, 2, 5, 10, 32},  {"bf16", KIND_FLOAT, 16, 1, 8, 7, 16},
    {"bf16x2", KIND_FLOAT, 16, 2, 8, 7, 32},  {"tf32", KIND_FLOAT, 32, 1, 8, 23, 32},
    {"f32", KIND_FLOAT, 32, 1, 8, 23, 32},    {"f32x2", KIND_FLOAT, 32, 2, 8, 23, 64},
    {"f64", KIND_FLOAT, 64, 1, 11, 52, 64},   {"e4m3x2", KIND_FLOAT, 8, 2, 4, 3, 16},
    {"e5m2x2", KIND_FLOAT, 8, 2, 5, 2, 16},   {"e4m3x4", KIND_FLOAT, 8, 4, 4, 3, 32},
    {"e5m2x4", KIND_FLOAT, 8, 4, 5, 2, 32}};

const struct bound_row bounds[BOUND_COUNT] = {
#define BOUND(id, ...) {__VA_ARGS__},
#include "bounds.def"
};

const struct kind *kind_find(const char *name, size_t length)
{
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strlen(kinds[i].name) == length && !strncmp(kinds[i].name, name, length))
            return &kinds[i];
    return NULL;
}

unsigned output_bytes(const struct kind *kind)
{
    return kind->reg == 1 ? 1 : kind->reg / 8;
}

unsigned row_bytes(const struct row *row)
{
    unsigned bytes = 0;
    for (unsigned i = 0; i < row->output_count; i++)
        bytes += output_bytes(row->outputs[i]);
    return bytes;
}

unsigned row_raw(const struct row *row)
{
    return bounds[row->bound].raw;
}

unsigned row_threads(const struct row *row)
{
    return row_raw(row) + CHUNK * CHUNKS;
}

/* ---- one row --------------------------------------------------------------------------------- */

struct parse {
    struct row *row;
    const struct kind *first, *type; /* the instruction's first and last type suffix */
    const char *instruction;
    char body[2 * TEXT];
    size_t used;
};

static void append(struct parse *p, const char *format, char letter, unsigned number)
{
    int length = snprintf(p->body + p->used, sizeof p->body - p->used, format, letter, number);
    p->used += (size_t)length;
}

static size_t word_length(const char *text)
{
    size_t length = 0;
    while (isalnum((unsigned char)text[length]))
        length++;
    return length;
}

/* After < or >: a type, "@" and a generator. Returns the end of it, or NULL. */
static const char *operand(struct parse *p, const char *at, bool result)
{
    struct row *row = p->row;
    size_t length = word_length(at);
    bool converts = result && !strncmp(p->instruction, "cvt", 3);
    const struct kind *kind = length ? kind_find(at, length) : converts ? p->first : p->type;
    char generator = 0;
    at += length;
    if (*at == '@') {
        length = word_length(at + 1);
        generator = generator_find(at + 1, length);
        at += 1 + length;
    }
    if (!kind || generator < 0 || row->input_count == MAX_INPUTS ||
        row->output_count == MAX_OUTPUTS)
        return NULL;
    if (result) {
        append(p, "%%%c%u", 'o', row->output_count);
        row->outputs[row->output_count++] = kind;
    } else {
        append(p, "%%%c%u", 'i', row->input_count);
        row->inputs[row->input_count++] = (struct operand){kind, generator};
    }
    return at;
}

static bool parse_row(struct parse *p, const char *at)
{
    while (*at && p->used + 32 < sizeof p->body) {
        if (*at == '<' || *at == '>') {
            at = operand(p, at + 1, *at == '>');
            if (!at)
                return false;
        } else if ((*at == '$' || *at == '^') && isdigit((unsigned char)at[1])) {
            append(p, "%%%c%u", *at == '$' ? 'i' : 'o', (unsigned)strtoul(at + 1, NULL, 10));
            for (at++; isdigit((unsigned char)*at); at++)
                continue;
        } else {
            const struct kind *type = *at == '.' ? kind_find(at + 1, word_length(at + 1)) : NULL;
            p->type = type ? type : p->type;
            p->first = p->first ? p->first : type;
            if (*at == ';') {
                p->first = NULL;
                p->instruction = at + 1 + strspn(at + 1, " ");
            }
            p->body[p->used++] = *at++;
            p->body[p->used] = 0;
        }
    }
    return !*at && p->row->output_count;
}

static uint64_t text_key(const char *text)
{
    uint64_t key = VERSION;
    for (; *text; text++)
        key = mix(key ^ (unsigned char)*text) + UINT64_C(0x9E3779B97F4A7C15);
    return key;
}

static bool add_one(struct corpus *corpus, enum bound bound, const char *text)
{
    if (corpus->count == corpus->room) {
        corpus->room = corpus->room * 2 + 256;
        corpus->rows = realloc(corpus->rows, corpus->room * sizeof *corpus->rows);
        if (!corpus->rows)
            return false;
    }
    struct row *row = &corpus->rows[corpus->count];
    *row = (struct row){.bound = (uint8_t)bound, .key = text_key(text)};
    struct parse p = {.row = row, .instruction = text};
    if (!parse_row(&p, text)) {
        fprintf(stderr, "corpus: \"%s\" is no row\n", text);
        return false;
    }
    row->text = arena_copy(&corpus->arena, text, strlen(text));
    row->body = arena_copy(&corpus->arena, p.body, p.used);
    corpus->count++;
    return row->text && row->body;
}

/* Multiplies out the first "(a|b)" and goes on with what results. */
bool corpus_add(struct corpus *corpus, enum bound bound, const char *text)
{
    const char *open = text, *close = NULL;
    char one[TEXT];
    while ((open = strchr(open, '('))) {
        close = strchr(open, ')');
        if (close && memchr(open, '|', (size_t)(close - open)))
            break;
        open++; /* as it is, of a call */
    }
    if (!open)
        return add_one(corpus, bound, text);
    for (const char *at = open + 1;;) {
        size_t length = strcspn(at, "|)");
        int size = snprintf(one, sizeof one, "%.*s%.*s%s", (int)(open - text), text, (int)length,
                            at, close + 1);
        if (size < 0 || (size_t)size >= sizeof one || !corpus_add(corpus, bound, one))
            return false;
        if (at + length >= close)
            return true;
        at += length + 1;
    }
}

bool corpus_make(struct corpus *corpus)
{
    static const struct {
        enum bound bound;
        const char *text;
    } lines[] = {
#define ROWS(bound, text) {BOUND_##bound, text},
#include "corpus.def"
    };
    *corpus = (struct corpus){0};
    for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!corpus_add(corpus, lines[i].bound, lines[i].text))
            return false;
    return true;
}

void corpus_free(struct corpus *corpus)
{
    arena_free(&corpus->arena);
    free(corpus->rows);
    *corpus = (struct corpus){0};
}
