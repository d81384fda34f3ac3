/* PTX text to tokens, interned names and opcode forms. One pass, no copy but of names; every name
 * and every spelling of an opcode is looked at once a module. */
#include "code/ptx_lex.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD = 1, DIGIT = 2, SPACE = 4 }; /* WORD: may stand inside a name */

/* Bytes above z have no class. */
static const uint8_t classes[256] = {
    ['\t'] = SPACE, ['\n'] = SPACE, ['\v'] = SPACE, ['\f'] = SPACE, ['\r'] = SPACE, [' '] = SPACE,
    ['$'] = WORD,   ['%'] = WORD,   ['_'] = WORD,
#define D(c) [c] = WORD | DIGIT
    D('0'),         D('1'),         D('2'),         D('3'),         D('4'),         D('5'),
    D('6'),         D('7'),         D('8'),         D('9'),
#define L(c) [c] = WORD, [c + 32] = WORD /* both cases */
    L('A'),         L('B'),         L('C'),         L('D'),         L('E'),         L('F'),
    L('G'),         L('H'),         L('I'),         L('J'),         L('K'),         L('L'),
    L('M'),         L('N'),         L('O'),         L('P'),         L('Q'),         L('R'),
    L('S'),         L('T'),         L('U'),         L('V'),         L('W'),         L('X'),
    L('Y'),         L('Z')};
#undef D
#undef L

static inline bool is(const struct parser *p, uint32_t at, unsigned class)
{
    return at < p->size && classes[(unsigned char)p->text[at]] & class;
}

static inline char peek(const struct parser *p, uint32_t at)
{
    return at < p->size ? p->text[at] : 0;
}

void parse_fail(struct parser *p, kg_status status, const char *format, ...)
{
    if (p->status == KG_OK) {
        p->status = status;
        if (!p->trial && p->error_size) {
            int used = snprintf(p->error, p->error_size, "%u:%u: ", p->token.line, p->token.column);
            va_list args;
            va_start(args, format);
            if (used > 0 && (size_t)used < p->error_size)
                vsnprintf(p->error + used, p->error_size - (size_t)used, format, args);
            va_end(args);
        }
    }
    p->at = p->size;
    p->token.kind = TOKEN_END;
}

void parse_no_memory(struct parser *p)
{
    p->trial = false;
    parse_fail(p, KG_NO_MEMORY, "out of memory");
}

void *parse_alloc(struct parser *p, size_t size)
{
    void *out = arena_alloc(&p->module->arena, size);
    if (!out)
        parse_no_memory(p);
    return out;
}

bool growing_more(struct parser *p, struct growing *array, size_t size)
{
    uint32_t room = array->room ? array->room * 2 : 64;
    void *data = room < array->room ? NULL : realloc(array->data, (size_t)room * size);
    if (!data) {
        parse_no_memory(p);
        return false;
    }
    array->data = data;
    array->room = room;
    return true;
}

void *growing_take(struct parser *p, struct growing *array, size_t size, uint32_t *count)
{
    *count = 0;
    if (!array->count)
        return NULL;
    void *out = parse_alloc(p, (size_t)array->count * size);
    if (out) {
        memcpy(out, array->data, (size_t)array->count * size);
        *count = array->count;
    }
    array->count = 0;
    return out;
}

/* ---- names ----------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9FB21C651E98DF25);
    return hash ^ hash >> 32;
}

/* The first eight bytes of a text, or fewer and zeros: two loads that overlap are faster than a
 * loop. */
static uint64_t head_of(const char *text, uint32_t length)
{
    uint64_t word = 0;
    uint32_t low, high;
    if (length >= 8) {
        memcpy(&word, text, 8);
        return word;
    }
    if (length >= 4) {
        memcpy(&low, text, 4);
        memcpy(&high, text + length - 4, 4);
        return low | (uint64_t)high << 8 * (length - 4);
    }
    const unsigned char *bytes = (const unsigned char *)text;
    if (length)
        word = bytes[0] | (uint64_t)bytes[length / 2] << 8 * (length / 2) |
               (uint64_t)bytes[length - 1] << 8 * (length - 1);
    return word;
}

static uint32_t hash_of(const char *text, uint32_t length, uint64_t head)
{
    uint64_t hash = mix(length * UINT64_C(0x9E3779B97F4A7C15), head);
    for (uint32_t at = 8; at < length; at += 8)
        hash = mix(hash, head_of(text + at, length - at));
    return (uint32_t)(hash >> 11);
}

static bool names_grow(struct parser *p)
{
    uint32_t count = p->bucket_count ? p->bucket_count * 4 : 1024;
    struct name **buckets = calloc(count, sizeof *buckets);
    if (!buckets)
        return false;
    for (uint32_t i = 0; i < p->bucket_count; i++) {
        while (p->buckets[i]) {
            struct name *name = p->buckets[i];
            p->buckets[i] = name->chain;
            name->chain = buckets[name->hash & (count - 1)];
            buckets[name->hash & (count - 1)] = name;
        }
    }
    free(p->buckets);
    p->buckets = buckets;
    p->bucket_count = count;
    return true;
}

struct name *name_intern(struct parser *p, const char *text, uint32_t length)
{
    if (p->name_count >= p->bucket_count && !names_grow(p)) {
        parse_no_memory(p);
        return NULL;
    }
    uint64_t head = head_of(text, length);
    uint32_t hash = hash_of(text, length, head);
    struct name **bucket = &p->buckets[hash & (p->bucket_count - 1)];
    for (struct name *name = *bucket; name; name = name->chain)
        if (name->head == head && name->hash == hash && name->length == length &&
            (length <= 8 || !memcmp(name->text + 8, text + 8, length - 8)))
            return name;
    struct name *name = parse_alloc(p, sizeof *name + length + 1);
    if (!name)
        return NULL;
    memcpy(name->text, text, length);
    name->head = head;
    name->hash = hash;
    name->length = length;
    name->special = name->type = name->mod = -1;
    name->chain = *bucket;
    *bucket = name;
    p->name_count++;
    return name;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* Moves over white space and comments. */
static void skip_blank(struct parser *p)
{
    for (;;) {
        for (; is(p, p->at, SPACE); p->at++) {
            if (p->text[p->at] == '\n') {
                p->line++;
                p->line_start = p->at + 1;
            }
        }
        char c = peek(p, p->at);
        if (c != '/')
            return;
        if (peek(p, p->at + 1) == '/') {
            const char *end = memchr(p->text + p->at, '\n', p->size - p->at);
            p->at = end ? (uint32_t)(end - p->text) : p->size;
        } else if (peek(p, p->at + 1) == '*') {
            for (p->at += 2; p->at < p->size; p->at++) {
                if (p->text[p->at] == '*' && peek(p, p->at + 1) == '/')
                    break;
                if (p->text[p->at] == '\n') {
                    p->line++;
                    p->line_start = p->at + 1;
                }
            }
            p->at = p->at + 2 > p->size ? p->size : p->at + 2;
        } else {
            return;
        }
    }
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

/* Digits of `base` from `at`; exact: how many, or 0 for any. */
static uint32_t lex_digits(struct parser *p, uint32_t at, unsigned base, unsigned exact)
{
    uint32_t first = at;
    uint64_t value = 0;
    bool over = false;
    while (at < p->size && (unsigned)digit_value(p->text[at]) < base &&
           (!exact || at - first < exact)) {
        over |= __builtin_mul_overflow(value, (uint64_t)base, &value);
        over |= __builtin_add_overflow(value, (uint64_t)digit_value(p->text[at]), &value);
        at++;
    }
    if (over)
        parse_fail(p, KG_BAD_INPUT, "number too large");
    else if (at == first || (exact && at - first != exact))
        parse_fail(p, KG_BAD_INPUT, "malformed number");
    p->token.bits = value;
    return at;
}

/* A decimal number with point or exponent. */
static uint32_t lex_decimal(struct parser *p, uint32_t at)
{
    char copy[64], *end;
    uint32_t length = 0;
    while (length < sizeof copy - 1 && at + length < p->size) {
        char c = p->text[at + length];
        bool sign = (c == '+' || c == '-') && length && (copy[length - 1] | 0x20) == 'e';
        if (!sign && c != '.' && c != 'e' && c != 'E' && !(c >= '0' && c <= '9'))
            break;
        copy[length++] = c;
    }
    copy[length] = 0;
    double value = strtod(copy, &end);
    if (end != copy + length)
        parse_fail(p, KG_BAD_INPUT, "malformed number");
    memcpy(&p->token.bits, &value, sizeof value);
    p->token.kind = TOKEN_F64;
    return at + length;
}

static void lex_number(struct parser *p)
{
    uint32_t at = p->at;
    char second = peek(p, at + 1) | 0x20;
    p->token.kind = TOKEN_INT;
    if (p->text[at] == '0' && second == 'x') {
        at = lex_digits(p, at + 2, 16, 0);
    } else if (p->text[at] == '0' && (second == 'f' || second == 'd')) {
        p->token.kind = second == 'f' ? TOKEN_F32 : TOKEN_F64;
        at = lex_digits(p, at + 2, 16, second == 'f' ? 8 : 16);
    } else if (p->text[at] == '0' && second == 'b') {
        at = lex_digits(p, at + 2, 2, 0);
    } else {
        uint32_t end = at;
        while (is(p, end, DIGIT))
            end++;
        char next = peek(p, end);
        if (next == '.' || (next | 0x20) == 'e')
            at = lex_decimal(p, at);
        else
            at = lex_digits(p, at, p->text[at] == '0' && end > at + 1 ? 8 : 10, 0);
    }
    if (p->token.kind == TOKEN_INT && peek(p, at) == 'U')
        at++;
    if (is(p, at, WORD))
        parse_fail(p, KG_BAD_INPUT, "malformed number");
    if (p->token.kind != TOKEN_END)
        p->at = at;
}

static void lex_string(struct parser *p)
{
    for (uint32_t at = p->at + 1; at < p->size && p->text[at] != '\n'; at++) {
        if (p->text[at] == '\\') {
            at++;
        } else if (p->text[at] == '"') {
            p->at = at + 1;
            return;
        }
    }
    parse_fail(p, KG_BAD_INPUT, "string without end");
}

static uint32_t word_end(const struct parser *p, uint32_t at, bool colons)
{
    for (;;) {
        const char *text = p->text, *end = text + p->size, *byte = text + at;
        while (byte < end && classes[(unsigned char)*byte] & WORD)
            byte++;
        at = (uint32_t)(byte - text);
        if (!colons || peek(p, at) != ':' || peek(p, at + 1) != ':')
            return at;
        at += 2;
    }
}

void lex_next(struct parser *p)
{
    p->previous_end = p->token.end;
    skip_blank(p);
    p->token = (struct token){
        .begin = p->at, .line = p->line, .column = p->at - p->line_start + 1, .kind = TOKEN_PUNCT};
    if (p->at >= p->size) {
        p->token.kind = TOKEN_END;
    } else if (is(p, p->at, DIGIT)) {
        lex_number(p);
    } else if (is(p, p->at, WORD)) {
        p->at = word_end(p, p->at, false);
        p->token.kind = TOKEN_NAME;
        p->token.name = name_intern(p, p->text + p->token.begin, p->at - p->token.begin);
    } else if (p->text[p->at] == '.' && is(p, p->at + 1, WORD)) {
        p->at = word_end(p, p->at + 1, true);
        p->token.kind = TOKEN_DIRECTIVE;
        p->token.name = name_intern(p, p->text + p->token.begin + 1, p->at - p->token.begin - 1);
    } else if (p->text[p->at] == '"') {
        p->token.kind = TOKEN_STRING;
        lex_string(p);
    } else {
        p->at++;
    }
    if (p->status != KG_OK)
        p->token.kind = TOKEN_END;
    p->token.end = p->at;
}

struct lex_place lex_place(const struct parser *p)
{
    return (struct lex_place){p->at, p->line, p->line_start, p->token};
}

void lex_return(struct parser *p, const struct lex_place *place)
{
    if (p->status != KG_OK)
        return;
    p->at = place->at;
    p->line = place->line;
    p->line_start = place->line_start;
    p->token = place->token;
}

bool lex_colon_follows(const struct parser *p)
{
    uint32_t at = p->at;
    while (is(p, at, SPACE))
        at++;
    return peek(p, at) == ':' && peek(p, at + 1) != ':';
}

const char *lex_text_from(struct parser *p, uint32_t begin)
{
    if (p->status != KG_OK)
        return NULL;
    uint32_t end = p->previous_end > begin ? p->previous_end : begin;
    char *out = arena_copy(&p->module->arena, p->text + begin, end - begin);
    if (!out)
        parse_no_memory(p);
    return out;
}

const char *lex_rest_of_line(struct parser *p)
{
    const char *from = p->text + p->token.begin;
    const char *end = memchr(from, '\n', p->size - p->token.begin);
    size_t length = end ? (size_t)(end - from) : p->size - p->token.begin;
    while (length && is(p, p->token.begin + (uint32_t)length - 1, SPACE))
        length--;
    p->at = p->token.begin + (uint32_t)length;
    char *out = arena_copy(&p->module->arena, from, length);
    if (!out)
        parse_no_memory(p);
    lex_next(p);
    return out;
}

const char *lex_statement(struct parser *p)
{
    uint32_t begin = p->token.begin, nesting = 0;
    for (;;) {
        if (p->token.kind == TOKEN_END) {
            parse_fail(p, KG_BAD_INPUT, "the text ends inside a statement");
            return NULL;
        }
        bool last = token_is(p, ';') && !nesting;
        if (token_is(p, '{'))
            nesting++;
        if (token_is(p, '}') && (!nesting || !--nesting))
            last = true;
        if (last)
            break;
        lex_next(p);
    }
    char *out = arena_copy(&p->module->arena, p->text + begin, p->token.end - begin);
    if (!out)
        parse_no_memory(p);
    lex_next(p);
    return out;
}

/* ---- opcodes --------------------------------------------------------------------------------- */

/* Row of the longest match of the dotted text; *rest: behind it. */
static uint16_t op_match(const char *text, const char **rest)
{
    uint16_t best = PTX_OP_unknown;
    size_t best_length = 0;
    for (unsigned op = 1; op < PTX_OP_COUNT; op++) {
        if (ptx_ops[op].text[0] != text[0])
            continue;
        size_t length = strlen(ptx_ops[op].text);
        if (length > best_length && !strncmp(ptx_ops[op].text, text, length) &&
            (!text[length] || text[length] == '.')) {
            best = (uint16_t)op;
            best_length = length;
        }
    }
    if (!best)
        best_length = strcspn(text, ".");
    *rest = text + best_length;
    return best;
}

static void suffix_look_up(struct parser *p, struct name *suffix)
{
    suffix->type = suffix->mod = 0;
    for (int type = 1; type < PTX_TYPE_COUNT && !suffix->type; type++)
        if (!strcmp(ptx_types[type].text, suffix->text))
            suffix->type = type;
    for (int mod = 1; mod < PTX_MOD_COUNT && !suffix->mod; mod++)
        if (!strcmp(ptx_mods[mod], suffix->text))
            suffix->mod = mod;
    if (suffix->type || suffix->mod)
        return;
    const char **text = growing_add(p, &p->mod_texts, sizeof *text);
    if (!text)
        return;
    *text = suffix->text;
    if (PTX_MOD_COUNT + p->mod_texts.count > UINT16_MAX)
        parse_fail(p, KG_LIMIT, "too many different suffixes");
    suffix->mod = PTX_MOD_COUNT + (int)p->mod_texts.count - 1;
}

/* Splits the suffixes of form->text into types and others. */
static void form_fill(struct parser *p, struct ptx_form *form)
{
    const char *at;
    uint16_t mods[64];
    form->op = op_match(form->text, &at);
    form->vector = 1;
    while (*at == '.') {
        uint32_t length = (uint32_t)strcspn(++at, ".");
        struct name *suffix = name_intern(p, at, length);
        at += length;
        if (suffix && suffix->type < 0)
            suffix_look_up(p, suffix);
        if (p->status != KG_OK)
            return;
        if (suffix->type) {
            if (form->type_count < sizeof form->types)
                form->types[form->type_count++] = (uint8_t)suffix->type;
            continue;
        }
        if (form->mod_count == 64) {
            parse_fail(p, KG_LIMIT, "too many suffixes");
            return;
        }
        mods[form->mod_count++] = (uint16_t)suffix->mod;
        form->strange |= suffix->mod >= PTX_MOD_COUNT;
        if (!form->space)
            form->space = (uint8_t)ptx_mod_space((unsigned)suffix->mod);
        if (suffix->mod >= PTX_MOD_v2 && suffix->mod <= PTX_MOD_v8)
            form->vector = (uint8_t)(2 << (suffix->mod - PTX_MOD_v2));
    }
    uint16_t *copy = parse_alloc(p, sizeof mods[0] * (form->mod_count + 1u));
    if (copy)
        form->mods = memcpy(copy, mods, sizeof mods[0] * form->mod_count);
}

/* Forms hang on the name of their text: type and mod of that name are not used otherwise, but the
 * table of forms is separate, since a spelling without suffix is also a name. */
static const struct ptx_form *form_of(struct parser *p, const char *text, uint32_t length)
{
    uint32_t hash = hash_of(text, length, head_of(text, length));
    if (p->forms.count * 2 >= p->form_bucket_count) {
        uint32_t count = p->form_bucket_count ? p->form_bucket_count * 4 : 1024;
        struct ptx_form **buckets = calloc(count, sizeof *buckets);
        if (!buckets) {
            parse_no_memory(p);
            return NULL;
        }
        for (uint32_t i = 0; i < p->forms.count; i++) {
            struct ptx_form *form = ((struct ptx_form **)p->forms.data)[i];
            uint32_t size = (uint32_t)strlen(form->text);
            uint32_t slot = hash_of(form->text, size, head_of(form->text, size)) & (count - 1);
            while (buckets[slot])
                slot = (slot + 1) & (count - 1);
            buckets[slot] = form;
        }
        free(p->form_buckets);
        p->form_buckets = buckets;
        p->form_bucket_count = count;
    }
    uint32_t slot = hash & (p->form_bucket_count - 1);
    for (struct ptx_form *form; (form = p->form_buckets[slot]);
         slot = (slot + 1) & (p->form_bucket_count - 1))
        if (!strncmp(form->text, text, length) && !form->text[length])
            return form;
    struct ptx_form *form = parse_alloc(p, sizeof *form);
    struct ptx_form **listed = growing_add(p, &p->forms, sizeof *listed);
    char *copy = form ? arena_copy(&p->module->arena, text, length) : NULL;
    if (!copy || !listed) {
        parse_no_memory(p);
        return NULL;
    }
    form->text = copy;
    form->index = p->forms.count - 1;
    *listed = p->form_buckets[slot] = form;
    form_fill(p, form);
    return form;
}

const struct ptx_form *lex_opcode(struct parser *p)
{
    uint32_t begin = p->token.begin, end = p->token.end;
    while (peek(p, end) == '.' && is(p, end + 1, WORD))
        end = word_end(p, end + 1, true);
    p->at = end;
    lex_next(p);
    if (p->token.kind != TOKEN_DIRECTIVE)
        return p->status == KG_OK ? form_of(p, p->text + begin, end - begin) : NULL;
    char joined[512]; /* white space between suffixes: rare, so joined in a buffer */
    uint32_t length = end - begin;
    if (length >= sizeof joined) {
        parse_fail(p, KG_LIMIT, "operation name too long");
        return NULL;
    }
    memcpy(joined, p->text + begin, length);
    while (p->token.kind == TOKEN_DIRECTIVE) {
        uint32_t more = p->token.end - p->token.begin;
        if (length + more >= sizeof joined) {
            parse_fail(p, KG_LIMIT, "operation name too long");
            return NULL;
        }
        memcpy(joined + length, p->text + p->token.begin, more);
        length += more;
        lex_next(p);
    }
    return p->status == KG_OK ? form_of(p, joined, length) : NULL;
}
