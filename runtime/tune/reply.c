/* A model's reply: from text to a candidate, or to one clear message that a repair turn can quote.
 * Hostile input: every size is bounded, unknown fields are refused, numbers come from checked
 * expressions only, and nothing in the reply reaches a compiler option, a path or a log line as it
 * stands.
 *
 * In expressions a scalar parameter of 4 or 8 bytes has its captured value, read as a signed
 * integer; a by-value struct, a pointer, a scalar of another size and one that the guard does not
 * pin have none. */
#include "tune/reply.h"

#include "tune/expr.h"
#include "tune/tune.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { PARAMS = 64, SHAPE_NAMES = 7 };

struct reading {
    struct job *job;
    struct candidate *out;
    char *message;
    size_t message_size;
    unsigned count; /* of params */
    const char *params[PARAMS + VARIANT_GLOBALS];
    unsigned name_count;
    struct expr_name names[SHAPE_NAMES + PARAMS + VARIANT_GLOBALS];
};

static kg_status say(char *message, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* One printable line, whatever the reply put into it. */
static kg_status say(char *message, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(message, size, format, args);
    va_end(args);
    for (char *c = message; size && *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = ' ';
    return KG_BAD_INPUT;
}

#define BAD(r, ...) say((r)->message, (r)->message_size, __VA_ARGS__)

/* ---- fenced blocks ----------------------------------------------------------------------------
 */

struct line {
    const char *start, *end; /* without the newline */
    const char *next;        /* of the following line, or the text's end */
};

static struct line line_at(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    struct line line = {at, newline ? newline : end, newline ? newline + 1 : end};
    while (line.end > line.start && (line.end[-1] == '\r' || line.end[-1] == ' '))
        line.end--;
    return line;
}

/* Number of backticks that open or close a block on this line, 0 if none; info: what follows. */
static size_t fence(struct line line, struct reply_span *info)
{
    const char *at = line.start;
    while (at < line.end && *at == ' ' && at - line.start < 3)
        at++;
    const char *ticks = at;
    while (at < line.end && *at == '`')
        at++;
    size_t count = (size_t)(at - ticks);
    if (count < 3)
        return 0;
    while (at < line.end && *at == ' ')
        at++;
    *info = (struct reply_span){at, (size_t)(line.end - at)};
    return memchr(at, '`', info->size) ? 0 : count;
}

static bool is_word(struct reply_span span, const char *word)
{
    return span.size == strlen(word) && !memcmp(span.data, word, span.size);
}

kg_status reply_blocks(const char *text, size_t size, struct reply_span *cuda,
                       struct reply_span *json, char *message, size_t message_size)
{
    static const char *const names[] = {"cuda", "json"};
    struct reply_span *const out[] = {cuda, json};
    *cuda = *json = (struct reply_span){0};
    const char *end = text + size;
    for (const char *at = text; at < end;) {
        struct line line = line_at(at, end);
        struct reply_span info, closing;
        size_t ticks = fence(line, &info);
        at = line.next;
        if (!ticks)
            continue;
        const char *body = at;
        for (;;) {
            if (at >= end)
                return say(message, message_size, "a ``` block is not closed");
            line = line_at(at, end);
            at = line.next;
            if (fence(line, &closing) >= ticks && !closing.size)
                break;
        }
        for (int i = 0; i < 2; i++) {
            if (!is_word(info, names[i]))
                continue;
            if (out[i]->data)
                return say(message, message_size, "more than one ```%s block; one is asked for",
                           names[i]);
            *out[i] = (struct reply_span){body, (size_t)(line.start - body)};
        }
    }
    for (int i = 0; i < 2; i++)
        if (!out[i]->data)
            return say(message, message_size, "no ```%s block in the reply", names[i]);
    return KG_OK;
}

static kg_status source_take(struct reading *r, struct reply_span span)
{
    if (span.size > SOURCE_LIMIT)
        return BAD(r, "the source is longer than %d bytes", SOURCE_LIMIT);
    for (size_t i = 0; i < span.size; i++) {
        unsigned char c = (unsigned char)span.data[i];
        if ((c < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7f)
            return BAD(r, "the source holds a control character (0x%02x)", c);
    }
    r->out->source = arena_copy(&r->job->arena, span.data, span.size);
    return r->out->source ? KG_OK : KG_NO_MEMORY;
}

/* ---- names ------------------------------------------------------------------------------------
 */

static bool identifier(const char *name)
{
    if (!isalpha((unsigned char)*name) && *name != '_')
        return false;
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_')
            return false;
    return strlen(name) <= NAME_LIMIT;
}

static void shape_names(struct reading *r)
{
    const struct kg_launch *launch = &r->job->capture.launch;
    const struct expr_name names[SHAPE_NAMES] = {
        {"gx", launch->grid.x, NULL},     {"gy", launch->grid.y, NULL},
        {"gz", launch->grid.z, NULL},     {"bx", launch->block.x, NULL},
        {"by", launch->block.y, NULL},    {"bz", launch->block.z, NULL},
        {"shared", launch->shared, NULL},
    };
    memcpy(r->names, names, sizeof names);
    r->name_count = SHAPE_NAMES;
}

/* What the parameter is worth in an expression. */
static struct expr_name param_name(struct reading *r, unsigned index, const char *name)
{
    const struct kernel_model *model = &r->job->model;
    const struct kg_bytes *args = &r->job->capture.args;
    struct expr_name out = {name, 0, "is a global's address, not a number"};
    if (index >= model->param_count)
        return out;
    for (unsigned i = 0; i < model->pointer_count; i++)
        if (model->pointers[i].param == index) {
            out.why_not = "is or holds a pointer, not a number";
            return out;
        }
    struct kg_param param = model->params[index];
    for (uint32_t i = 0; i < r->job->free_count; i++) {
        const struct free_piece *piece = &r->job->free[i];
        if (piece->at < param.offset + param.size && param.offset < piece->at + piece->size) {
            out.why_not = "is not the same in all launches, so no launch can depend on it";
            return out;
        }
    }
    out.why_not = "is not an integer of 4 or 8 bytes";
    if ((size_t)param.offset + param.size > args->size)
        return out;
    int32_t narrow;
    if (param.size == sizeof narrow) {
        memcpy(&narrow, args->data + param.offset, sizeof narrow);
        out = (struct expr_name){name, narrow, NULL};
    } else if (param.size == sizeof out.value) {
        memcpy(&out.value, args->data + param.offset, sizeof out.value);
        out.why_not = NULL;
    }
    return out;
}

static kg_status param_take(struct reading *r, const json_t *item)
{
    const char *name = json_string_value(item);
    if (!name || !identifier(name))
        return BAD(r, "\"params\": `%.64s` is not a C identifier of at most %d characters",
                   name ? name : "(no text)", NAME_LIMIT);
    bool taken = expr_reserved(name, strlen(name));
    for (unsigned i = 0; i < r->name_count; i++)
        taken |= !strcmp(r->names[i].name, name);
    if (taken)
        return BAD(r, "\"params\": the name `%s` is used twice or has another meaning", name);
    const char *copy = arena_copy(&r->job->arena, name, strlen(name));
    if (!copy)
        return KG_NO_MEMORY;
    r->names[r->name_count++] = param_name(r, r->count, copy);
    r->params[r->count++] = copy;
    return KG_OK;
}

static kg_status params_take(struct reading *r, const json_t *list)
{
    unsigned wanted = r->job->model.param_count + r->out->global_count;
    if (!json_is_array(list) || json_array_size(list) != wanted)
        return BAD(r,
                   "\"params\" must list %u names: %u for the original's parameters, then one for "
                   "each of \"globals\"",
                   wanted, r->job->model.param_count);
    size_t i;
    const json_t *item;
    json_array_foreach(list, i, item)
    {
        kg_status status = param_take(r, item);
        if (status != KG_OK)
            return status;
    }
    return KG_OK;
}

static kg_status globals_take(struct reading *r, const json_t *list)
{
    struct candidate *out = r->out;
    if (!json_is_array(list) || json_array_size(list) > VARIANT_GLOBALS)
        return BAD(r, "\"globals\" must be a list of at most %d names", VARIANT_GLOBALS);
    size_t i;
    const json_t *item;
    json_array_foreach(list, i, item)
    {
        /* from here on it has this build's name: a recorded reply may know another's */
        const char *wanted = json_string_value(item);
        const struct kernel_global *global =
            wanted ? kernel_global_find(&r->job->model, wanted) : NULL;
        if (!global)
            return BAD(r, "\"globals\": the kernel has no global variable `%.64s`",
                       wanted ? wanted : "(no text)");
        const char *name = global->name;
        for (unsigned k = 0; k < out->global_count; k++)
            if (!strcmp(out->globals[k], name))
                return BAD(r, "\"globals\": `%.64s` is named twice", name);
        out->globals[out->global_count++] = arena_copy(&r->job->arena, name, strlen(name));
        if (!out->globals[out->global_count - 1])
            return KG_NO_MEMORY;
    }
    return KG_OK;
}

/* ---- launch and guards ------------------------------------------------------------------------
 */

static kg_status value_take(struct reading *r, const json_t *item, const char *what, int64_t low,
                            int64_t high, uint32_t *out)
{
    int64_t value = 0;
    if (json_is_integer(item)) {
        value = json_integer_value(item);
    } else if (json_is_string(item)) {
        kg_status status = expr_eval(json_string_value(item), r->names, r->name_count, &value,
                                     r->message, r->message_size);
        if (status != KG_OK) {
            char why[256];
            snprintf(why, sizeof why, "%s", r->message);
            return BAD(r, "\"launch\": %s: %s", what, why);
        }
    } else {
        return BAD(r, "\"launch\": %s must be an integer or an expression in quotes", what);
    }
    if (value < low || value > high)
        return BAD(r, "\"launch\": %s is %lld here; it must be %lld to %lld", what,
                   (long long)value, (long long)low, (long long)high);
    *out = (uint32_t)value;
    return KG_OK;
}

static kg_status dim_take(struct reading *r, const json_t *list, const char *const names[3],
                          const int64_t most[3], struct kg_dim *out)
{
    uint32_t values[3];
    if (!json_is_array(list) || json_array_size(list) != 3)
        return BAD(r, "\"launch\": \"%.*s\" must be a list of three items",
                   (int)strcspn(names[0], "["), names[0]);
    for (unsigned i = 0; i < 3; i++) {
        kg_status status = value_take(r, json_array_get(list, i), names[i], 1, most[i], &values[i]);
        if (status != KG_OK)
            return status;
    }
    *out = (struct kg_dim){values[0], values[1], values[2]};
    return KG_OK;
}

static kg_status launch_take(struct reading *r, const json_t *launch)
{
    static const char *const grid[] = {"grid[0]", "grid[1]", "grid[2]"};
    static const char *const block[] = {"block[0]", "block[1]", "block[2]"};
    static const int64_t grid_most[] = {INT32_MAX, 65535, 65535}, block_most[] = {1024, 1024, 64};
    struct kg_launch *out = &r->out->launch;
    if (!json_is_object(launch) || json_object_size(launch) != 3)
        return BAD(r, "\"launch\" must have just \"grid\", \"block\" and \"shared\"");
    const json_t *shared = json_object_get(launch, "shared");
    kg_status status = dim_take(r, json_object_get(launch, "grid"), grid, grid_most, &out->grid);
    if (status == KG_OK)
        status = dim_take(r, json_object_get(launch, "block"), block, block_most, &out->block);
    if (status == KG_OK)
        status = value_take(r, shared, "\"shared\"", 0, SHARED_LIMIT, &out->shared);
    uint64_t threads = (uint64_t)out->block.x * out->block.y * out->block.z;
    if (status == KG_OK && threads > 1024)
        return BAD(r, "\"launch\": a block of %llu threads; at most 1024 are possible",
                   (unsigned long long)threads);
    return status;
}

static kg_status guards_take(struct reading *r, const json_t *list)
{
    if (!json_is_array(list) || json_array_size(list) > REPLY_GUARDS)
        return BAD(r, "\"guards\" must be a list of at most %d expressions", REPLY_GUARDS);
    size_t i;
    const json_t *item;
    json_array_foreach(list, i, item)
    {
        const char *text = json_string_value(item);
        int64_t value;
        if (!text)
            return BAD(r, "\"guards\": item %zu is not an expression in quotes", i);
        kg_status status =
            expr_eval(text, r->names, r->name_count, &value, r->message, r->message_size);
        if (status != KG_OK) {
            char why[256];
            snprintf(why, sizeof why, "%s", r->message);
            return BAD(r, "\"guards\": %s", why);
        }
        if (!value)
            return BAD(r, "guard does not hold for this launch: `%.80s`", text);
    }
    return KG_OK;
}

/* ---- the JSON block ---------------------------------------------------------------------------
 */

/* A name expression goes to the compiler: the characters of a (qualified, templated) name only. */
static kg_status entry_take(struct reading *r, const json_t *item)
{
    const char *entry = json_string_value(item);
    size_t length = entry ? strlen(entry) : 0;
    bool good = length && length <= ENTRY_LIMIT && !isdigit((unsigned char)*entry);
    for (size_t i = 0; good && i < length; i++)
        good = isalnum((unsigned char)entry[i]) || strchr("_:<>, ", entry[i]);
    if (!good)
        return BAD(r, "\"entry\" must be the name of the __global__ function in the cuda block");
    r->out->entry = arena_copy(&r->job->arena, entry, length);
    return r->out->entry ? KG_OK : KG_NO_MEMORY;
}

static kg_status note_take(struct reading *r, const json_t *item)
{
    const char *note = json_string_value(item);
    if (!note)
        return BAD(r, "\"note\" must be a text");
    size_t length = strlen(note);
    if (length > NOTE_LIMIT)
        for (length = NOTE_LIMIT; length && ((unsigned char)note[length] & 0xc0) == 0x80;)
            length--;
    char *copy = arena_copy(&r->job->arena, note, length);
    if (!copy)
        return KG_NO_MEMORY;
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = ' ';
    r->out->note = copy;
    return KG_OK;
}

/* The fields in the order in which they depend on each other. */
static const struct {
    const char *name;
    kg_status (*take)(struct reading *r, const json_t *value);
} fields[] = {
    {"entry", entry_take},   {"globals", globals_take}, {"params", params_take},
    {"launch", launch_take}, {"guards", guards_take},   {"note", note_take},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static kg_status object_take(struct reading *r, json_t *object)
{
    if (!json_is_object(object))
        return BAD(r, "the json block must be one object");
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        bool known = false;
        for (int i = 0; i < FIELDS; i++)
            known |= !strcmp(fields[i].name, key);
        if (!known)
            return BAD(r, "the json block has an unknown field `%.64s`", key);
    }
    for (int i = 0; i < FIELDS; i++) {
        value = json_object_get(object, fields[i].name);
        if (!value)
            return BAD(r, "the json block lacks \"%s\"", fields[i].name);
        kg_status status = fields[i].take(r, value);
        if (status != KG_OK)
            return status;
    }
    return KG_OK;
}

static kg_status json_take(struct reading *r, struct reply_span span)
{
    if (span.size > JSON_LIMIT)
        return BAD(r, "the json block is longer than %d bytes", JSON_LIMIT);
    r->out->recipe = arena_copy(&r->job->arena, span.data, span.size);
    if (!r->out->recipe)
        return KG_NO_MEMORY;
    if (r->job->model.param_count > PARAMS)
        return BAD(r, "the kernel has more than %d parameters", PARAMS);
    shape_names(r);
    json_error_t error;
    json_t *object = json_loadb(span.data, span.size, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        return BAD(r, "the json block, line %d: %.120s", error.line, error.text);
    kg_status status = object_take(r, object);
    json_decref(object);
    return status;
}

kg_status reply_parse(struct job *job, const char *text, size_t size, struct candidate *out,
                      char *message, size_t message_size)
{
    struct reading r = {.job = job, .out = out, .message = message, .message_size = message_size};
    struct reply_span cuda, json;
    *out = (struct candidate){0};
    if (size > REPLY_LIMIT)
        return BAD(&r, "the reply is longer than %d bytes", REPLY_LIMIT);
    kg_status status = reply_blocks(text, size, &cuda, &json, message, message_size);
    if (status != KG_OK)
        return status;
    status = source_take(&r, cuda);
    return status == KG_OK ? json_take(&r, json) : status;
}

kg_status reply_recipe(struct job *job, const char *json, size_t size, struct candidate *out,
                       char *message, size_t message_size)
{
    struct reading r = {.job = job, .out = out, .message = message, .message_size = message_size};
    out->global_count = 0;
    return json_take(&r, (struct reply_span){json, size});
}
