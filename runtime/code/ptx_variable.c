/* Names, variables and parameters of PTX: scopes, declarations, initialisers. */
#include "code/ptx_lex.h"

#include <stdlib.h>
#include <string.h>

enum { INIT_DEPTH = 16, PARAM_BYTES = 1 << 30 };

/* ---- scopes ---------------------------------------------------------------------------------- */

struct binding *name_bind(struct parser *p, struct name *name, int kind)
{
    struct binding *binding = parse_alloc(p, sizeof *binding);
    if (!binding || !name)
        return NULL;
    struct binding **place = kind == BIND_RANGE ? &name->range : &name->binding;
    binding->kind = kind;
    binding->name = name;
    binding->depth = p->depth;
    binding->shadowed = *place;
    *place = binding;
    binding->in_scope = p->scope_bindings[p->depth];
    p->scope_bindings[p->depth] = binding;
    return binding;
}

void scope_open(struct parser *p)
{
    if (p->depth + 1 > SCOPE_DEPTH) {
        parse_fail(p, KG_LIMIT, "scopes nest too deeply");
        return;
    }
    p->depth++;
    p->scope_bindings[p->depth] = NULL;
    p->scope_pending[p->depth] = p->pending.count;
}

/* References to labels that this scope has are resolved, others are left to the scope around. */
static void scope_resolve(struct parser *p)
{
    struct pending_label *pending = p->pending.data;
    uint32_t kept = p->scope_pending[p->depth];
    for (uint32_t i = kept; i < p->pending.count; i++) {
        const struct binding *binding = pending[i].name->binding;
        if (binding && binding->kind == BIND_LABEL && binding->depth == p->depth) {
            *pending[i].slot = binding->label;
        } else if (p->depth == 1) {
            p->token.line = pending[i].line;
            p->token.column = pending[i].column;
            parse_fail(p, KG_BAD_INPUT, "label %.100s is not defined", pending[i].name->text);
        } else {
            pending[kept++] = pending[i];
        }
    }
    p->pending.count = kept;
}

void scope_close(struct parser *p)
{
    if (p->status == KG_OK)
        scope_resolve(p);
    for (struct binding *b = p->scope_bindings[p->depth]; b; b = b->in_scope) {
        *(b->kind == BIND_RANGE ? &b->name->range : &b->name->binding) = b->shadowed;
        b->closed = true;
    }
    p->depth--;
}

/* ---- variables ------------------------------------------------------------------------------- */

uint8_t token_type(struct parser *p)
{
    if (p->token.kind == TOKEN_DIRECTIVE)
        for (unsigned type = 1; type < PTX_TYPE_COUNT; type++)
            if (!strcmp(ptx_types[type].text, p->token.name->text))
                return (uint8_t)type;
    return PTX_TYPE_none;
}

int token_space(const struct parser *p)
{
    if (p->token.kind == TOKEN_DIRECTIVE)
        for (int space = PTX_SPACE_global; space <= PTX_SPACE_tex; space++)
            if (!strcmp(ptx_spaces[space], p->token.name->text))
                return space;
    return -1;
}

static uint8_t vector_of(const struct parser *p)
{
    return token_is_word(p, "v2") ? 2 : token_is_word(p, "v4") ? 4 : token_is_word(p, "v8") ? 8 : 0;
}

static uint64_t element_bytes(const struct ptx_var *var)
{
    return (uint64_t)((ptx_types[var->type].bits + 7) / 8) * (var->vector ? var->vector : 1);
}

const char *parse_attribute(struct parser *p)
{
    unsigned nesting = 0;
    lex_next(p);
    parse_expect(p, '(');
    uint32_t begin = p->token.begin;
    while (p->token.kind != TOKEN_END && (nesting || !token_is(p, ')'))) {
        nesting += token_is(p, '(');
        nesting -= token_is(p, ')');
        lex_next(p);
    }
    const char *text = lex_text_from(p, begin);
    parse_expect(p, ')');
    return text;
}

/* .align, .ptr, .attribute, vector and type, in any order. */
static void variable_attributes(struct parser *p, struct ptx_var *var)
{
    while (p->token.kind == TOKEN_DIRECTIVE) {
        uint8_t vector = vector_of(p), type = token_type(p);
        if (vector || type) {
            var->vector = vector ? vector : var->vector;
            var->type = type ? type : var->type;
            lex_next(p);
        } else if (token_is_word(p, "align")) {
            lex_next(p);
            uint64_t align = parse_int(p);
            if (p->status == KG_OK && (!align || align & (align - 1) || align > 65536))
                parse_fail(p, KG_BAD_INPUT, "alignment is no power of two up to 65536");
            *(var->pointer ? &var->ptr_align : &var->declared_align) = (uint32_t)align;
        } else if (token_is_word(p, "ptr")) {
            var->pointer = true;
            lex_next(p);
            int space = token_space(p);
            if (space > 0) {
                var->ptr_space = (uint8_t)space;
                lex_next(p);
            }
        } else if (token_is_word(p, "attribute")) {
            var->attribute = parse_attribute(p);
            var->managed = var->attribute && strstr(var->attribute, ".managed");
        } else {
            parse_fail(p, KG_BAD_INPUT, "unexpected .%.100s in a declaration", p->token.name->text);
        }
    }
    if (p->status == KG_OK && !var->type)
        parse_fail(p, KG_BAD_INPUT, "type expected");
}

/* Name and dimensions. */
static void variable_name(struct parser *p, struct ptx_var *var)
{
    struct token at = p->token;
    struct name *name = parse_name(p);
    var->name = name ? name->text : "";
    var->element_count = 1;
    while (parse_take(p, '[')) {
        uint64_t dim = 0;
        if (token_is(p, ']'))
            var->unsized = true;
        else
            dim = parse_int(p);
        parse_expect(p, ']');
        if (var->dim_count == 8) {
            parse_fail(p, KG_LIMIT, "too many dimensions");
            return;
        }
        var->array = true;
        var->dims[var->dim_count++] = dim;
        if (__builtin_mul_overflow(var->element_count, var->unsized ? 1 : dim, &var->element_count))
            parse_fail(p, KG_LIMIT, "array too large");
    }
    if (__builtin_mul_overflow(var->element_count, element_bytes(var), &var->size) ||
        var->size > (uint64_t)1 << 48)
        parse_fail(p, KG_LIMIT, "variable too large");
    if (var->unsized)
        var->size = 0;
    uint32_t natural = (uint32_t)element_bytes(var);
    var->align = var->declared_align ? var->declared_align : natural ? natural : 1;
    var->place = token_place(&at);
}

/* ---- initialisers ---------------------------------------------------------------------------- */

struct filling {
    struct ptx_var *var;
    unsigned char *image;
    uint64_t room, used; /* bytes; used: up to the last given one */
    uint64_t at;         /* next element */
    struct growing relocs;
};

static bool filling_room(struct parser *p, struct filling *f, uint64_t offset, unsigned size)
{
    uint64_t most = (uint64_t)p->size * 8 + 4096, bytes = offset + size;
    if (offset > most || bytes > most) {
        parse_fail(p, KG_LIMIT, "initialiser too sparse");
        return false;
    }
    if (bytes > f->room || !f->image) {
        uint64_t room = bytes * 2 + 8;
        unsigned char *image = realloc(f->image, room);
        if (!image) {
            parse_no_memory(p);
            return false;
        }
        memset(image + f->room, 0, room - f->room);
        f->image = image;
        f->room = room;
    }
    f->used = bytes > f->used ? bytes : f->used;
    return true;
}

/* symbol, generic(symbol), each with + or - integer */
static void fill_symbol(struct parser *p, struct ptx_reloc *reloc)
{
    struct token at = p->token;
    struct name *name = parse_name(p);
    if (name && !strcmp(name->text, "generic") && parse_take(p, '(')) {
        reloc->generic = true;
        at = p->token;
        name = parse_name(p);
        parse_expect(p, ')');
    }
    if (!name || p->status != KG_OK)
        return;
    if (name->binding && name->binding->kind == BIND_VAR) {
        reloc->var = name->binding->var;
    } else if (name->binding && name->binding->kind == BIND_FUNC) {
        reloc->func = name->binding->func;
    } else {
        p->token = at;
        parse_fail(p, KG_BAD_INPUT, "%.100s is not declared", name->text);
        return;
    }
    if (token_is(p, '+') || token_is(p, '-'))
        reloc->addend = (int64_t)parse_int(p);
}

static void fill_reloc(struct parser *p, struct filling *f, uint64_t offset, unsigned size,
                       uint64_t mask)
{
    struct ptx_reloc *reloc = growing_add(p, &f->relocs, sizeof *reloc);
    if (!reloc)
        return;
    reloc->offset = (uint32_t)offset;
    reloc->size = (uint8_t)size;
    if (offset > UINT32_MAX)
        parse_fail(p, KG_LIMIT, "initialiser too long");
    if (mask) {
        reloc->shift = (uint8_t)__builtin_ctzll(mask);
        parse_expect(p, '(');
        fill_symbol(p, reloc);
        parse_expect(p, ')');
    } else {
        fill_symbol(p, reloc);
    }
}

/* The bits of one number as an element of `type`. */
static uint64_t number_bits(struct parser *p, uint8_t type)
{
    uint8_t kind;
    uint64_t bits;
    double value;
    float narrow;
    if (!parse_float(p, &kind, &bits)) {
        bits = parse_int(p);
        if (ptx_types[type].class != PTX_FLOAT || ptx_types[type].bits < 32)
            return bits;
        value = (double)(int64_t)bits;
        narrow = (float)value;
    } else if (kind == TOKEN_F32) {
        memcpy(&narrow, &bits, 4);
        if (type != PTX_TYPE_f64)
            return bits;
        value = narrow;
    } else {
        memcpy(&value, &bits, 8);
        narrow = (float)value;
    }
    if (type == PTX_TYPE_f64) {
        memcpy(&bits, &value, 8);
        return bits;
    }
    uint32_t word;
    memcpy(&word, &narrow, 4);
    return word;
}

static void fill_element(struct parser *p, struct filling *f)
{
    unsigned size = (ptx_types[f->var->type].bits + 7u) / 8;
    uint64_t elements = f->var->element_count * (f->var->vector ? f->var->vector : 1);
    uint64_t offset;
    if (!f->var->unsized && f->at >= elements) {
        parse_fail(p, KG_BAD_INPUT, "too many initialisers");
        return;
    }
    if (!size || size > 8 || __builtin_mul_overflow(f->at, (uint64_t)size, &offset) ||
        !filling_room(p, f, offset, size)) {
        parse_fail(p, KG_UNSUPPORTED, "initialiser of this type");
        return;
    }
    f->at++;
    if (p->token.kind == TOKEN_NAME) {
        fill_reloc(p, f, offset, size, 0);
        return;
    }
    bool may_be_mask = p->token.kind == TOKEN_INT;
    uint64_t bits = number_bits(p, f->var->type);
    if (may_be_mask && token_is(p, '(') && bits)
        fill_reloc(p, f, offset, size, bits);
    else
        memcpy(f->image + offset, &bits, size);
}

/* {..} with nested ones for the inner dimensions; depth: dimension that this brace lists. */
static void fill_braces(struct parser *p, struct filling *f, unsigned depth)
{
    const struct ptx_var *var = f->var;
    uint64_t stride = var->vector ? var->vector : 1;
    for (unsigned d = depth + 1; d < var->dim_count; d++)
        stride *= var->dims[d]; /* no overflow: variable_name has checked the whole product */
    parse_expect(p, '{');
    if (depth > INIT_DEPTH)
        parse_fail(p, KG_LIMIT, "initialiser nests too deeply");
    uint64_t start = f->at;
    for (uint64_t i = 0; p->token.kind != TOKEN_END && !token_is(p, '}'); i++) {
        if (token_is(p, '{')) {
            if (__builtin_mul_overflow(i, stride, &f->at) ||
                __builtin_add_overflow(f->at, start, &f->at))
                parse_fail(p, KG_LIMIT, "initialiser too long");
            fill_braces(p, f, depth + 1);
        } else {
            fill_element(p, f);
        }
        if (!parse_take(p, ','))
            break;
    }
    parse_expect(p, '}');
}

static void parse_initialiser(struct parser *p, struct ptx_var *var)
{
    if (ptx_types[var->type].class == PTX_OPAQUE) { /* samplers: nothing we use */
        unsigned nesting = 0;
        uint32_t begin = p->token.begin;
        do {
            nesting += token_is(p, '{');
            nesting -= token_is(p, '}') && nesting;
            lex_next(p);
        } while (p->token.kind != TOKEN_END &&
                 (nesting || !(token_is(p, ';') || token_is(p, ','))));
        var->opaque = lex_text_from(p, begin);
        return;
    }
    struct filling f = {.var = var};
    if (token_is(p, '{'))
        fill_braces(p, &f, 0);
    else
        fill_element(p, &f);
    if (var->unsized && p->status == KG_OK) {
        unsigned size = (unsigned)element_bytes(var);
        var->dims[0] = var->element_count = (f.used + size - 1) / size;
        var->size = var->element_count * size;
        var->unsized = false;
    }
    var->image_bytes = f.used;
    unsigned char *image = parse_alloc(p, f.used + 1);
    if (image && f.used)
        memcpy(image, f.image, f.used);
    var->image = image;
    var->relocs = growing_take(p, &f.relocs, sizeof *var->relocs, &var->reloc_count);
    free(f.relocs.data);
    free(f.image);
}

/* Lists a finished variable where it was declared. */
static void variable_add(struct parser *p, struct ptx_var *var)
{
    struct growing *list = p->func ? &p->body_vars : &p->vars;
    struct ptx_var **slot = growing_add(p, list, sizeof *slot);
    if (!slot)
        return;
    *slot = var;
    if (p->func) {
        struct ptx_stmt *stmt = growing_add(p, &p->stmts, sizeof *stmt);
        if (stmt)
            *stmt = (struct ptx_stmt){.kind = PTX_STMT_VAR, .index = list->count - 1};
        return;
    }
    struct ptx_item *item = growing_add(p, &p->items, sizeof *item);
    if (item)
        *item = (struct ptx_item){.kind = PTX_ITEM_VAR, .var = var, .place = var->place};
}

void parse_variables(struct parser *p, uint8_t linkage, struct ptx_place start)
{
    int space = token_space(p);
    struct ptx_var first = {.space = (uint8_t)space, .linkage = linkage, .scope = p->scope};
    lex_next(p);
    if (token_is(p, '[')) { /* .const[bank] of old PTX */
        lex_next(p);
        parse_int(p);
        parse_expect(p, ']');
    }
    variable_attributes(p, &first);
    do {
        struct ptx_var *var = parse_alloc(p, sizeof *var);
        if (!var)
            return;
        *var = first;
        struct name *name = p->token.name;
        variable_name(p, var);
        var->place.begin = start.begin;
        struct binding *binding = p->status == KG_OK ? name_bind(p, name, BIND_VAR) : NULL;
        if (!binding)
            return;
        binding->var = var;
        if (parse_take(p, '='))
            parse_initialiser(p, var);
        var->place.end = p->token.end;
        variable_add(p, var);
    } while (parse_take(p, ','));
    parse_expect(p, ';');
}

/* ---- parameters -------------- ----------------------------------------------------------------
 */

static struct ptx_var *parse_param(struct parser *p)
{
    struct ptx_var *var = parse_alloc(p, sizeof *var);
    int space = token_space(p);
    if (!var)
        return NULL;
    if (space != PTX_SPACE_param && space != PTX_SPACE_reg) {
        parse_fail(p, KG_BAD_INPUT, ".param or .reg expected");
        return NULL;
    }
    var->space = PTX_SPACE_param;
    var->is_register = space == PTX_SPACE_reg;
    lex_next(p);
    variable_attributes(p, var);
    struct name *name = p->token.name;
    variable_name(p, var);
    if (p->status != KG_OK || !strcmp(var->name, "_"))
        return var;
    struct binding *binding = NULL;
    if (var->is_register)
        reg_declare(p, name, var->type, var->vector, false, 1);
    else if ((binding = name_bind(p, name, BIND_VAR)))
        binding->var = var;
    if (var->is_register && p->func)
        var->reg = reg_number(p, name);
    return var;
}

void parse_params(struct parser *p, struct ptx_var ***out, uint32_t *count, uint32_t *bytes)
{
    struct growing params = {0};
    uint64_t offset = 0;
    parse_expect(p, '(');
    while (p->token.kind != TOKEN_END && !token_is(p, ')')) {
        struct ptx_var *var = parse_param(p), **slot;
        if (!var || !(slot = growing_add(p, &params, sizeof *slot)))
            break;
        *slot = var;
        offset = (offset + var->align - 1) & ~(uint64_t)(var->align - 1);
        var->offset = (uint32_t)offset;
        offset += var->size;
        if (offset > PARAM_BYTES)
            parse_fail(p, KG_LIMIT, "parameters too large");
        if (!parse_take(p, ','))
            break;
    }
    parse_expect(p, ')');
    *bytes = (uint32_t)offset;
    *out = growing_take(p, &params, sizeof **out, count);
    free(params.data);
}
