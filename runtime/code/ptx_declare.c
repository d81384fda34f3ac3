/* The module level of the PTX parser: version, target, variables with their initialisers,
 * parameters, functions and their directives; the scopes of names. Bodies: ptx_parse.c. */
#include "code/ptx_lex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INIT_DEPTH = 16, MODULE_BYTES = 1 << 30 };

/* ---- scopes ---------------------------------------------------------------------------------- */

struct binding *bind(struct parser *p, struct name *name, int kind)
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
    for (struct binding *b = p->scope_bindings[p->depth]; b; b = b->in_scope)
        *(b->kind == BIND_RANGE ? &b->name->range : &b->name->binding) = b->shadowed;
    p->depth--;
}

/* ---- variables ------------------------------------------------------------------------------- */

uint8_t type_of(struct parser *p)
{
    if (p->token.kind == TOKEN_DIRECTIVE)
        for (unsigned type = 1; type < PTX_TYPE_COUNT; type++)
            if (!strcmp(ptx_types[type].text, p->token.name->text))
                return (uint8_t)type;
    return PTX_TYPE_none;
}

int space_of(const struct parser *p)
{
    if (p->token.kind == TOKEN_DIRECTIVE)
        for (int space = PTX_SPACE_global; space <= PTX_SPACE_tex; space++)
            if (!strcmp(ptx_spaces[space], p->token.name->text))
                return space;
    return -1;
}

static uint8_t vector_of(const struct parser *p)
{
    return is_directive(p, "v2") ? 2 : is_directive(p, "v4") ? 4 : is_directive(p, "v8") ? 8 : 0;
}

static uint64_t element_bytes(const struct ptx_var *var)
{
    return (uint64_t)((ptx_types[var->type].bits + 7) / 8) * (var->vector ? var->vector : 1);
}

/* .align, .ptr, .attribute, vector and type, in any order. */
static void variable_attributes(struct parser *p, struct ptx_var *var)
{
    while (p->token.kind == TOKEN_DIRECTIVE) {
        uint8_t vector = vector_of(p), type = type_of(p);
        if (vector || type) {
            var->vector = vector ? vector : var->vector;
            var->type = type ? type : var->type;
            lex_next(p);
        } else if (is_directive(p, "align")) {
            lex_next(p);
            uint64_t align = expect_int(p);
            if (p->status == KG_OK && (!align || align & (align - 1) || align > 65536))
                parse_fail(p, KG_BAD_INPUT, "alignment is no power of two up to 65536");
            *(var->pointer ? &var->ptr_align : &var->declared_align) = (uint32_t)align;
        } else if (is_directive(p, "ptr")) {
            var->pointer = true;
            lex_next(p);
            int space = space_of(p);
            if (space > 0) {
                var->ptr_space = (uint8_t)space;
                lex_next(p);
            }
        } else if (is_directive(p, "attribute")) {
            lex_next(p);
            expect(p, '(');
            var->managed |= is_directive(p, "managed");
            while (p->token.kind != TOKEN_END && !is_punct(p, ')'))
                lex_next(p);
            expect(p, ')');
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
    struct name *name = expect_name(p);
    var->name = name ? name->text : "";
    var->element_count = 1;
    while (accept(p, '[')) {
        uint64_t dim = 0;
        if (is_punct(p, ']'))
            var->unsized = true;
        else
            dim = expect_int(p);
        expect(p, ']');
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
    var->place = place_of(&at);
}

/* ---- initialisers ---------------------------------------------------------------------------- */

struct filling {
    struct ptx_var *var;
    unsigned char *image;
    uint64_t room, used; /* bytes; used: up to the last given one */
    uint64_t at;         /* next element */
    struct growing relocs;
};

static bool filling_room(struct parser *p, struct filling *f, uint64_t bytes)
{
    if (bytes > (uint64_t)p->size * 8 + 4096) {
        parse_fail(p, KG_LIMIT, "initialiser too sparse");
        return false;
    }
    if (bytes > f->room) {
        uint64_t room = bytes * 2;
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
    struct name *name = expect_name(p);
    if (name && !strcmp(name->text, "generic") && accept(p, '(')) {
        reloc->generic = true;
        name = expect_name(p);
        expect(p, ')');
    }
    if (!name || p->status != KG_OK)
        return;
    if (name->binding && name->binding->kind == BIND_VAR)
        reloc->var = name->binding->var;
    else if (name->binding && name->binding->kind == BIND_FUNC)
        reloc->func = name->binding->func;
    else
        parse_fail(p, KG_BAD_INPUT, "%.100s is not declared", name->text);
    if (is_punct(p, '+') || is_punct(p, '-'))
        reloc->addend = (int64_t)expect_int(p);
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
        expect(p, '(');
        fill_symbol(p, reloc);
        expect(p, ')');
    } else {
        fill_symbol(p, reloc);
    }
}

/* The bits of one number as an element of `type`. */
static uint64_t number_bits(struct parser *p, uint8_t type)
{
    bool negative = false;
    while (is_punct(p, '-') || is_punct(p, '+')) {
        negative ^= is_punct(p, '-');
        lex_next(p);
    }
    uint8_t kind = p->token.kind;
    if (kind != TOKEN_F32 && kind != TOKEN_F64) {
        uint64_t bits = expect_int(p);
        bits = negative ? 0 - bits : bits;
        if (ptx_types[type].class != PTX_FLOAT || ptx_types[type].bits < 32)
            return bits;
        double value = (double)(int64_t)bits;
        float narrow = (float)value;
        memcpy(&bits, &value, 8);
        if (type != PTX_TYPE_f64) {
            bits = 0;
            memcpy(&bits, &narrow, 4);
        }
        return bits;
    }
    uint64_t bits = p->token.bits;
    double value;
    float narrow;
    memcpy(&narrow, &bits, 4);
    memcpy(&value, &bits, 8);
    lex_next(p);
    if (kind == TOKEN_F32 && type == PTX_TYPE_f64)
        value = narrow;
    if (kind == TOKEN_F64)
        narrow = (float)value;
    if (type == PTX_TYPE_f64) {
        memcpy(&bits, &value, 8);
        return negative ? bits ^ (uint64_t)1 << 63 : bits;
    }
    uint32_t word;
    memcpy(&word, &narrow, 4);
    return negative ? word ^ 0x80000000u : word;
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
    if (size > 8 || __builtin_mul_overflow(f->at, (uint64_t)size, &offset) ||
        !filling_room(p, f, offset + size)) {
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
    if (may_be_mask && is_punct(p, '(') && bits)
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
    expect(p, '{');
    if (depth > INIT_DEPTH)
        parse_fail(p, KG_LIMIT, "initialiser nests too deeply");
    uint64_t start = f->at;
    for (uint64_t i = 0; p->token.kind != TOKEN_END && !is_punct(p, '}'); i++) {
        if (is_punct(p, '{')) {
            if (__builtin_mul_overflow(i, stride, &f->at) ||
                __builtin_add_overflow(f->at, start, &f->at))
                parse_fail(p, KG_LIMIT, "initialiser too long");
            fill_braces(p, f, depth + 1);
        } else {
            fill_element(p, f);
        }
        if (!accept(p, ','))
            break;
    }
    expect(p, '}');
}

static void parse_initialiser(struct parser *p, struct ptx_var *var)
{
    if (ptx_types[var->type].class == PTX_OPAQUE) { /* samplers: nothing we use */
        unsigned nesting = 0;
        do {
            nesting += is_punct(p, '{');
            nesting -= is_punct(p, '}') && nesting;
            lex_next(p);
        } while (p->token.kind != TOKEN_END && (nesting || !is_punct(p, ';')));
        return;
    }
    struct filling f = {.var = var};
    if (is_punct(p, '{'))
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
    int space = space_of(p);
    struct ptx_var first = {.space = (uint8_t)space, .linkage = linkage, .scope = p->scope};
    lex_next(p);
    if (is_punct(p, '[')) { /* .const[bank] of old PTX */
        lex_next(p);
        expect_int(p);
        expect(p, ']');
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
        struct binding *binding = p->status == KG_OK ? bind(p, name, BIND_VAR) : NULL;
        if (!binding)
            return;
        binding->var = var;
        if (accept(p, '='))
            parse_initialiser(p, var);
        var->place.end = p->token.end;
        variable_add(p, var);
    } while (accept(p, ','));
    expect(p, ';');
}

/* ---- parameters and functions ---------------------------------------------------------------- */

static struct ptx_var *parse_param(struct parser *p)
{
    struct ptx_var *var = parse_alloc(p, sizeof *var);
    int space = space_of(p);
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
    else if ((binding = bind(p, name, BIND_VAR)))
        binding->var = var;
    if (var->is_register && p->func)
        var->reg = reg_number(p, name);
    return var;
}

void parse_params(struct parser *p, struct ptx_var ***out, uint32_t *count, uint32_t *bytes)
{
    struct growing params = {0};
    uint64_t offset = 0;
    expect(p, '(');
    while (p->token.kind != TOKEN_END && !is_punct(p, ')')) {
        struct ptx_var *var = parse_param(p), **slot = growing_add(p, &params, sizeof *slot);
        if (!var || !slot)
            break;
        *slot = var;
        offset = (offset + var->align - 1) & ~(uint64_t)(var->align - 1);
        var->offset = (uint32_t)offset;
        offset += var->size;
        if (offset > MODULE_BYTES)
            parse_fail(p, KG_LIMIT, "parameters too large");
        if (!accept(p, ','))
            break;
    }
    expect(p, ')');
    *bytes = (uint32_t)offset;
    *out = growing_take(p, &params, sizeof **out, count);
    free(params.data);
}

static void three(struct parser *p, uint32_t out[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = 1;
    for (int i = 0; i < 3; i++) {
        out[i] = (uint32_t)expect_int(p);
        if (!accept(p, ','))
            return;
    }
    parse_fail(p, KG_BAD_INPUT, "more than three dimensions");
}

/* Between a function's head and its body or semicolon. */
static void function_directives(struct parser *p, struct ptx_func *func)
{
    struct growing texts = {0};
    while (p->token.kind == TOKEN_DIRECTIVE) {
        uint32_t begin = p->token.begin;
        const struct {
            const char *name;
            uint32_t *three, *one;
            bool *flag;
        } known[] = {
            {"maxntid", func->maxntid, NULL, NULL},
            {"reqntid", func->reqntid, NULL, NULL},
            {"reqnctapercluster", func->reqnctapercluster, NULL, NULL},
            {"minnctapersm", NULL, &func->minnctapersm, NULL},
            {"maxnctapersm", NULL, &func->maxnctapersm, NULL},
            {"maxnreg", NULL, &func->maxnreg, NULL},
            {"maxclusterrank", NULL, &func->maxclusterrank, NULL},
            {"explicitcluster", NULL, NULL, &func->explicit_cluster},
            {"noreturn", NULL, NULL, &func->noreturn},
        };
        unsigned i = 0, count = sizeof known / sizeof *known;
        while (i < count && !is_directive(p, known[i].name))
            i++;
        lex_next(p);
        if (i < count && known[i].flag)
            *known[i].flag = true;
        else if (i < count && known[i].one)
            *known[i].one = (uint32_t)expect_int(p);
        else if (i < count)
            three(p, known[i].three);
        else /* unknown: its operands are all up to what must follow */
            while (p->token.kind != TOKEN_END && p->token.kind != TOKEN_DIRECTIVE &&
                   !is_punct(p, '{') && !is_punct(p, ';'))
                lex_next(p);
        if (p->status != KG_OK)
            break;
        const char **text = growing_add(p, &texts, sizeof *text);
        uint32_t length = p->previous_end - begin;
        if (text && !(*text = arena_copy(&p->module->arena, p->text + begin, length)))
            parse_no_memory(p);
    }
    func->directives = growing_take(p, &texts, sizeof *func->directives, &func->directive_count);
    free(texts.data);
}

/* The one ptx_func of this name. */
static struct ptx_func *function_named(struct parser *p, struct name *name)
{
    if (name && name->binding && name->binding->kind == BIND_FUNC)
        return name->binding->func;
    struct ptx_func *func = parse_alloc(p, sizeof *func);
    struct ptx_func **slot = growing_add(p, &p->funcs, sizeof *slot);
    struct binding *binding = bind(p, name, BIND_FUNC);
    if (!func || !slot || !binding) {
        parse_fail(p, KG_BAD_INPUT, "name expected");
        return NULL;
    }
    func->name = name->text;
    return *slot = binding->func = func;
}

/* .entry or .func: head, directives, and body if there is one. */
static void parse_function(struct parser *p, uint8_t linkage, struct ptx_place start)
{
    struct ptx_func head = {.entry = is_directive(p, "entry"), .linkage = linkage, .place = start};
    uint32_t ignored;
    lex_next(p);
    while (p->token.kind == TOKEN_DIRECTIVE) { /* .noreturn, .attribute(...) before the name */
        head.noreturn |= is_directive(p, "noreturn");
        lex_next(p);
        if (accept(p, '(')) {
            while (p->token.kind != TOKEN_END && !is_punct(p, ')'))
                lex_next(p);
            expect(p, ')');
        }
    }
    p->func = &head; /* registers among the parameters belong to the body */
    scope_open(p);
    p->function_number++;
    if (is_punct(p, '('))
        parse_params(p, &head.results, &head.result_count, &ignored);
    struct token named = p->token;
    struct name *name = expect_name(p);
    if (is_punct(p, '('))
        parse_params(p, &head.params, &head.param_count, &head.param_bytes);
    function_directives(p, &head);
    bool defined = is_punct(p, '{');
    uint32_t depth = p->depth;
    p->depth = 0; /* the function's own name belongs to the module */
    struct ptx_func *func = p->status == KG_OK ? function_named(p, name) : NULL;
    p->depth = depth;
    if (func && defined && func->defined) {
        p->token = named;
        parse_fail(p, KG_BAD_INPUT, "%.100s is defined twice", func->name);
    }
    if (func && p->status == KG_OK) {
        if (!func->defined) {
            head.name = func->name;
            *func = head;
        }
        p->func = func;
        if (defined)
            parse_body(p);
        else
            expect(p, ';');
        struct ptx_item *item = growing_add(p, &p->items, sizeof *item);
        if (item)
            *item = (struct ptx_item){
                .kind = defined ? PTX_ITEM_DEFINE : PTX_ITEM_DECLARE, .func = func, .place = start};
        func->defined |= defined;
    }
    if (p->depth)
        scope_close(p);
    p->regs.count = p->reg_decls.count = p->stmts.count =
        0; /* of a declaration's .reg parameters */
    p->func = NULL;
}

/* ---- module ---------------------------------------------------------------------------------- */

static void module_line(struct parser *p, const char *text, struct ptx_place place)
{
    struct ptx_item *item = growing_add(p, &p->items, sizeof *item);
    if (item && text)
        *item = (struct ptx_item){.kind = PTX_ITEM_LINE, .line = text, .place = place};
}

static void parse_target(struct parser *p)
{
    uint32_t begin = p->token.begin;
    do {
        const char *text = p->token.kind == TOKEN_NAME ? p->token.name->text : "";
        if (!strncmp(text, "sm_", 3) || !strncmp(text, "compute_", 8))
            p->module->sm = (unsigned)strtoul(strchr(text, '_') + 1, NULL, 10);
        expect_name(p);
    } while (accept(p, ','));
    p->module->target = arena_copy(&p->module->arena, p->text + begin, p->previous_end - begin);
    if (!p->module->target)
        parse_no_memory(p);
}

static void parse_version(struct parser *p)
{
    if (p->token.kind != TOKEN_F64 || p->token.end - p->token.begin > 15) {
        parse_fail(p, KG_BAD_INPUT, "version expected");
        return;
    }
    char text[16] = "";
    memcpy(text, p->text + p->token.begin, p->token.end - p->token.begin);
    if (sscanf(text, "%u.%u", &p->module->version_major, &p->module->version_minor) != 2)
        parse_fail(p, KG_BAD_INPUT, "version expected");
    lex_next(p);
}

static uint8_t parse_linkage(struct parser *p)
{
    static const char *const words[] = {NULL, "visible", "weak", "extern", "common"};
    uint8_t linkage = PTX_LOCAL;
    for (uint8_t i = PTX_VISIBLE; i <= PTX_COMMON; i++) {
        if (is_directive(p, words[i])) {
            linkage = i;
            lex_next(p);
            i = PTX_LOCAL;
        }
    }
    return linkage;
}

static void parse_item(struct parser *p)
{
    struct ptx_place start = place_of(&p->token);
    uint8_t linkage = parse_linkage(p);
    if (is_punct(p, '@') || is_directive(p, "file") || is_directive(p, "loc")) {
        module_line(p, lex_rest_of_line(p), start);
    } else if (is_directive(p, "version")) {
        lex_next(p);
        parse_version(p);
    } else if (is_directive(p, "target")) {
        lex_next(p);
        parse_target(p);
    } else if (is_directive(p, "address_size")) {
        lex_next(p);
        p->module->address_size = (unsigned)expect_int(p);
    } else if (is_directive(p, "entry") || is_directive(p, "func")) {
        parse_function(p, linkage, start);
    } else if (space_of(p) > 0 && space_of(p) != PTX_SPACE_reg) {
        parse_variables(p, linkage, start);
    } else if (is_directive(p, "section") || is_directive(p, "pragma") ||
               is_directive(p, "alias")) {
        module_line(p, lex_statement(p), start);
    } else if (!accept(p, ';')) {
        parse_fail(p, KG_BAD_INPUT, "directive expected");
    }
}

static void parser_free(struct parser *p)
{
    struct growing *arrays[] = {&p->items,     &p->vars,    &p->funcs,     &p->forms,
                                &p->lines,     &p->regs,    &p->reg_decls, &p->labels,
                                &p->scopes,    &p->lists,   &p->instrs,    &p->stmts,
                                &p->body_vars, &p->pending, &p->scratch,   &p->mod_texts};
    for (unsigned i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]->data);
    free(p->buckets);
    free(p->form_buckets);
}

kg_status ptx_parse(const char *text, size_t size, struct ptx_module *out, char *error,
                    size_t error_size)
{
    *out = (struct ptx_module){.address_size = 64};
    if (error_size)
        error[0] = 0;
    const char *nul = memchr(text, 0, size);
    size = nul ? (size_t)(nul - text) : size;
    struct parser p = {.text = text,
                       .size = (uint32_t)size,
                       .line = 1,
                       .module = out,
                       .error = error,
                       .error_size = error_size};
    if (size > MODULE_BYTES) {
        p.token = (struct token){.line = 1, .column = 1};
        parse_fail(&p, KG_LIMIT, "more than 1 GiB of PTX");
    } else {
        lex_next(&p);
    }
    while (p.token.kind != TOKEN_END)
        parse_item(&p);
    if (p.status == KG_OK && !out->version_major) {
        p.token.line = p.token.column = 1;
        parse_fail(&p, KG_BAD_INPUT, "no .version: this is no PTX");
    }
    out->items = growing_take(&p, &p.items, sizeof *out->items, &out->item_count);
    out->vars = growing_take(&p, &p.vars, sizeof *out->vars, &out->var_count);
    out->funcs = growing_take(&p, &p.funcs, sizeof *out->funcs, &out->func_count);
    out->forms = growing_take(&p, &p.forms, sizeof *out->forms, &out->form_count);
    out->lines = growing_take(&p, &p.lines, sizeof *out->lines, &out->line_count);
    out->mod_texts = growing_take(&p, &p.mod_texts, sizeof *out->mod_texts, &out->mod_text_count);
    parser_free(&p);
    if (p.status != KG_OK)
        ptx_module_free(out);
    return p.status;
}

void ptx_module_free(struct ptx_module *module)
{
    arena_free(&module->arena);
    *module = (struct ptx_module){0};
}
