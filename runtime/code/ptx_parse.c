/* Bodies of PTX functions: nested scopes, registers, labels, instructions and their operands.
 * The module level around them: ptx_declare.c. */
#include "code/ptx_lex.h"

#include <stdlib.h>
#include <string.h>

static void add_stmt(struct parser *p, int kind, uint32_t index)
{
    struct ptx_stmt *stmt = growing_add(p, &p->stmts, sizeof *stmt);
    if (stmt) {
        stmt->kind = kind;
        stmt->index = index;
    }
}

/* ---- registers ------------------------------------------------------------------------------- */

const struct ptx_reg_decl *reg_declare(struct parser *p, struct name *name, uint8_t type,
                                       uint8_t vector, bool range, uint32_t count)
{
    struct ptx_reg_decl *decl = parse_alloc(p, sizeof *decl);
    struct binding *binding = decl ? bind(p, name, range ? BIND_RANGE : BIND_REG) : NULL;
    if (!binding)
        return NULL;
    *decl = (struct ptx_reg_decl){.name = name->text,
                                  .type = type,
                                  .vector = vector,
                                  .range = range,
                                  .count = count,
                                  .scope = p->scope};
    binding->decl = decl;
    return decl;
}

/* .reg .type name, prefix<n>, ...; */
void parse_reg_declaration(struct parser *p)
{
    uint8_t type = 0, vector = 0;
    for (lex_next(p); p->token.kind == TOKEN_DIRECTIVE; lex_next(p)) {
        uint8_t found = type_of(p);
        if (found)
            type = found;
        else if (is_directive(p, "v2") || is_directive(p, "v4"))
            vector = is_directive(p, "v2") ? 2 : 4;
        else
            break;
    }
    if (!type)
        parse_fail(p, KG_BAD_INPUT, "type of registers expected");
    do {
        struct name *name = expect_name(p);
        uint64_t count = 1;
        bool range = accept(p, '<');
        if (range) {
            count = expect_int(p);
            expect(p, '>');
        }
        if (p->status == KG_OK && count > UINT32_MAX)
            parse_fail(p, KG_LIMIT, "too many registers");
        if (p->status != KG_OK)
            return;
        const struct ptx_reg_decl *decl =
            reg_declare(p, name, type, vector, range, (uint32_t)count);
        const struct ptx_reg_decl **slot = growing_add(p, &p->reg_decls, sizeof *slot);
        if (!slot)
            return;
        *slot = decl;
        add_stmt(p, PTX_STMT_REG, p->reg_decls.count - 1);
    } while (accept(p, ','));
    expect(p, ';');
}

/* The range that `name` is an element of, or NULL. */
static struct binding *range_of(struct parser *p, const struct name *name, uint32_t *index)
{
    uint32_t digits = name->length;
    while (digits && name->text[digits - 1] >= '0' && name->text[digits - 1] <= '9')
        digits--;
    uint32_t count = name->length - digits;
    if (!digits || !count || count > 10 || (count > 1 && name->text[digits] == '0'))
        return NULL;
    uint64_t number = 0;
    for (uint32_t i = digits; i < name->length; i++)
        number = number * 10 + (uint64_t)(name->text[i] - '0');
    struct name *prefix = name_intern(p, name->text, digits);
    struct binding *range = prefix ? prefix->range : NULL;
    while (range && number >= range->decl->count)
        range = range->shadowed;
    *index = (uint32_t)number;
    return range;
}

/* The declaration of a register in force, or NULL: another kind of name, or none. */
static const struct ptx_reg_decl *reg_find(struct parser *p, const struct name *name,
                                           uint32_t *index)
{
    const struct binding *own = name->binding, *range = range_of(p, name, index);
    if (range && (!own || own->depth < range->depth))
        return range->decl;
    *index = 0;
    return own && own->kind == BIND_REG ? own->decl : NULL;
}

static uint32_t reg_give(struct parser *p, struct name *name, const struct ptx_reg_decl *decl,
                         uint32_t index)
{
    if (name->numbers_function != p->function_number) {
        name->numbers_function = p->function_number;
        name->numbers = NULL;
    }
    for (struct numbered **at = &name->numbers; *at; at = &(*at)->next) {
        struct numbered *found = *at;
        if (found->decl != decl)
            continue;
        *at = found->next; /* to the front: scopes that shadow each other stay cheap */
        found->next = name->numbers;
        name->numbers = found;
        return found->reg;
    }
    struct numbered *n = parse_alloc(p, sizeof *n);
    struct ptx_reg *reg = growing_add(p, &p->regs, sizeof *reg);
    if (!n || !reg)
        return PTX_NO_REG;
    *reg = (struct ptx_reg){.decl = decl, .index = index, .type = decl->type};
    *n = (struct numbered){.next = name->numbers, .decl = decl, .reg = p->regs.count - 1};
    name->numbers = n;
    return n->reg;
}

uint32_t reg_number(struct parser *p, struct name *name)
{
    uint32_t index;
    const struct ptx_reg_decl *decl = name ? reg_find(p, name, &index) : NULL;
    if (!decl) {
        parse_fail(p, KG_BAD_INPUT, "register %.100s is not declared", name ? name->text : "");
        return PTX_NO_REG;
    }
    return reg_give(p, name, decl, index);
}

/* ---- operands -------------------------------------------------------------------------------- */

static void parse_operand(struct parser *p, struct ptx_operand *out, char role, unsigned nesting);

static void pend_label(struct parser *p, struct name *name, const struct token *at, uint32_t *slot)
{
    struct pending_label *pending = growing_add(p, &p->pending, sizeof *pending);
    if (pending)
        *pending = (struct pending_label){name, slot, at->line, at->column};
}

/* Operands up to `close`, copied to the arena as out->parts. */
static void parse_parts(struct parser *p, struct ptx_operand *out, char close, char role,
                        unsigned nesting)
{
    uint32_t first = p->scratch.count;
    while (p->token.kind != TOKEN_END && !is_punct(p, close)) {
        struct ptx_operand part, *slot;
        parse_operand(p, &part, role, nesting + 1);
        slot = growing_add(p, &p->scratch, sizeof *slot);
        if (!slot)
            return;
        *slot = part;
        if (p->scratch.count - first > VECTOR_PARTS)
            parse_fail(p, KG_LIMIT, "too many elements");
        if (!accept(p, ','))
            break;
    }
    out->part_count = p->scratch.count - first;
    out->parts = parse_alloc(p, sizeof *out->parts * (out->part_count + 1));
    if (out->parts && out->part_count)
        memcpy(out->parts, (struct ptx_operand *)p->scratch.data + first,
               sizeof *out->parts * out->part_count);
    p->scratch.count = first;
}

static uint8_t component_of(const struct parser *p, uint32_t name_end)
{
    if (p->token.kind != TOKEN_DIRECTIVE || p->token.begin != name_end ||
        p->token.name->length != 1)
        return 0;
    static const char names[] = "xyzwrgba";
    const char *found = strchr(names, p->token.name->text[0]);
    return found ? (uint8_t)((found - names) % 4 + 1) : 0;
}

static bool special_find(struct name *name)
{
    if (name->special < 0) {
        name->special = 0;
        if (name->text[0] == '%')
            for (int i = 1; i < PTX_SR_COUNT; i++)
                if (!strcmp(ptx_specials[i], name->text + 1))
                    name->special = i;
    }
    return name->special > 0;
}

/* What a name stands for: register, variable, function, list, special register. False: nothing. */
static bool resolve(struct parser *p, struct name *name, struct ptx_operand *out)
{
    uint32_t index;
    const struct ptx_reg_decl *decl = reg_find(p, name, &index);
    out->name = name->text;
    if (decl) {
        out->kind = PTX_REG;
        out->name = NULL;
        out->reg = reg_give(p, name, decl, index);
        return true;
    }
    out->kind = PTX_SYMBOL;
    const struct binding *binding = name->binding;
    if (binding && binding->kind == BIND_VAR)
        return (out->var = binding->var);
    if (binding && binding->kind == BIND_FUNC)
        return (out->func = binding->func);
    if (binding && binding->kind == BIND_LIST)
        return (out->list = binding->list);
    if (special_find(name) || name->text[0] == '%') {
        out->kind = PTX_SPECIAL;
        out->special = (uint16_t)(name->special > 0 ? name->special : PTX_SR_unknown);
        return true;
    }
    if (!strcmp(name->text, "WARP_SZ")) {
        out->kind = PTX_INT;
        out->bits = 32;
        return true;
    }
    return false;
}

static void parse_named(struct parser *p, struct ptx_operand *out, char role)
{
    struct token at = p->token;
    struct name *name = at.name;
    lex_next(p);
    if (!strcmp(name->text, "_")) {
        out->kind = PTX_SINK;
        return;
    }
    if (role == 'l') {
        out->kind = PTX_LABEL;
        out->name = name->text;
        return; /* the slot is pended once the operand stands in the arena */
    }
    if (!resolve(p, name, out)) {
        p->token = at;
        parse_fail(p, KG_BAD_INPUT, "%.100s is not declared", name->text);
        return;
    }
    if (out->kind == PTX_REG || out->kind == PTX_SPECIAL) {
        out->component = component_of(p, at.end);
        if (out->component)
            lex_next(p);
        if (out->kind == PTX_SPECIAL && !out->special)
            p->module->unknown_count++;
    } else if (out->kind == PTX_SYMBOL && (is_punct(p, '+') || is_punct(p, '-'))) {
        out->offset = (int64_t)expect_int(p);
    }
}

/* [base + offset, more] */
static void parse_address(struct parser *p, struct ptx_operand *out, unsigned nesting)
{
    expect(p, '[');
    out->kind = PTX_ADDRESS;
    if (p->token.kind == TOKEN_NAME) {
        struct token at = p->token;
        lex_next(p);
        struct ptx_operand base = {.reg = PTX_NO_REG};
        if (!resolve(p, at.name, &base) || (base.kind != PTX_REG && base.kind != PTX_SYMBOL)) {
            p->token = at;
            parse_fail(p, KG_BAD_INPUT, "%.100s is no address", at.name->text);
            return;
        }
        out->reg = base.reg;
        out->var = base.var;
        out->func = base.func;
        out->list = base.list;
        out->name = base.name;
        if (is_punct(p, '+') || is_punct(p, '-'))
            out->offset = (int64_t)expect_int(p);
    } else {
        out->bits = expect_int(p);
    }
    if (accept(p, ','))
        parse_parts(p, out, ']', 's', nesting);
    expect(p, ']');
}

static void parse_number(struct parser *p, struct ptx_operand *out)
{
    bool minus = false, inverted = false;
    while (is_punct(p, '-') || is_punct(p, '+') || is_punct(p, '~')) {
        minus ^= is_punct(p, '-');
        inverted ^= is_punct(p, '~');
        lex_next(p);
    }
    out->bits = p->token.bits;
    switch (p->token.kind) {
    case TOKEN_INT:
        out->kind = PTX_INT;
        out->bits = inverted ? ~out->bits : out->bits;
        out->bits = minus ? 0 - out->bits : out->bits;
        break;
    case TOKEN_F32:
        out->kind = PTX_F32;
        out->bits ^= minus ? 0x80000000u : 0;
        break;
    case TOKEN_F64:
        out->kind = PTX_F64;
        out->bits ^= minus ? (uint64_t)1 << 63 : 0;
        break;
    default:
        parse_fail(p, KG_BAD_INPUT, "operand expected");
        return;
    }
    lex_next(p);
}

static void parse_operand(struct parser *p, struct ptx_operand *out, char role, unsigned nesting)
{
    *out = (struct ptx_operand){.begin = p->token.begin, .reg = PTX_NO_REG};
    if (nesting > 4)
        parse_fail(p, KG_LIMIT, "operands nest too deeply");
    if (accept(p, '!'))
        out->negated = true;
    if (p->token.kind == TOKEN_NAME) {
        parse_named(p, out, role);
        if (is_punct(p, '|') && (out->kind == PTX_REG || out->kind == PTX_SINK)) {
            struct ptx_operand *parts = parse_alloc(p, 2 * sizeof *parts);
            if (!parts)
                return;
            parts[0] = *out;
            parts[0].end = p->previous_end;
            lex_next(p);
            parse_operand(p, &parts[1], role, nesting + 1);
            *out = (struct ptx_operand){.kind = PTX_PAIR,
                                        .begin = out->begin,
                                        .reg = PTX_NO_REG,
                                        .parts = parts,
                                        .part_count = 2};
        }
    } else if (accept(p, '{')) {
        out->kind = PTX_VECTOR;
        parse_parts(p, out, '}', role, nesting);
        expect(p, '}');
    } else if (is_punct(p, '[')) {
        parse_address(p, out, nesting);
    } else {
        parse_number(p, out);
    }
    out->end = p->previous_end;
}

static struct ptx_operand *push_operand(struct parser *p, const struct ptx_operand *operand)
{
    struct ptx_operand *slot = growing_add(p, &p->scratch, sizeof *slot);
    if (slot)
        *slot = *operand;
    return slot;
}

/* (a, b) of a call, or nothing. */
static void parse_call_list(struct parser *p)
{
    struct ptx_operand list = {
        .kind = PTX_LIST, .reg = PTX_NO_REG, .begin = p->token.begin, .end = p->token.begin};
    if (accept(p, '(')) {
        parse_parts(p, &list, ')', 's', 0);
        list.end = p->token.end;
        expect(p, ')');
    }
    push_operand(p, &list);
}

/* call (results), callee, (arguments), prototype; everything but the callee may be missing. */
static void parse_call(struct parser *p)
{
    struct ptx_operand operand;
    bool results = is_punct(p, '(');
    parse_call_list(p);
    if (results)
        expect(p, ',');
    parse_operand(p, &operand, 'f', 0);
    push_operand(p, &operand);
    bool more = accept(p, ',');
    bool arguments = more && is_punct(p, '(');
    parse_call_list(p);
    if (arguments)
        more = accept(p, ',');
    if (more) {
        parse_operand(p, &operand, 't', 0);
        push_operand(p, &operand);
    }
}

static void parse_operands(struct parser *p, const struct ptx_form *form)
{
    const char *roles = ptx_ops[form->op].roles;
    if (form->op == PTX_OP_call) {
        parse_call(p);
        return;
    }
    while (p->token.kind != TOKEN_END && !is_punct(p, ';')) {
        struct ptx_operand operand;
        parse_operand(p, &operand, *roles, 0);
        push_operand(p, &operand);
        if (roles[1])
            roles++;
        if (!accept(p, ','))
            break;
    }
    if (p->status == KG_OK && !is_punct(p, ';'))
        parse_fail(p, KG_BAD_INPUT, "';' expected");
}

/* An operation that the table does not know: operands if they read like others', else just text. */
static const char *parse_opaque(struct parser *p, const struct ptx_form *form)
{
    uint32_t at = p->at, line = p->line, line_start = p->line_start;
    struct token token = p->token;
    uint32_t scratch = p->scratch.count;
    p->module->unknown_count++;
    p->trial = true;
    parse_operands(p, form);
    p->trial = false;
    if (p->status == KG_OK || p->status == KG_NO_MEMORY)
        return NULL;
    p->status = KG_OK;
    p->at = at;
    p->line = line;
    p->line_start = line_start;
    p->token = token;
    p->scratch.count = scratch;
    while (p->token.kind != TOKEN_END && !is_punct(p, ';'))
        lex_next(p);
    char *text =
        arena_copy(&p->module->arena, p->text + token.begin, p->previous_end - token.begin);
    if (!text)
        parse_no_memory(p);
    return text;
}

/* Labels are looked up when the scope ends; by then the operands stand still in the arena. */
static void pend_operands(struct parser *p, struct ptx_operand *operands, uint32_t count,
                          const struct token *at)
{
    for (uint32_t i = 0; i < count; i++)
        if (operands[i].kind == PTX_LABEL)
            pend_label(p, name_intern(p, operands[i].name, (uint32_t)strlen(operands[i].name)), at,
                       &operands[i].label);
}

static void parse_instruction(struct parser *p)
{
    struct ptx_instr instr = {.guard = PTX_NO_REG, .scope = p->scope, .place = place_of(&p->token)};
    if (accept(p, '@')) {
        instr.guard_negated = accept(p, '!');
        struct token guard = p->token;
        struct name *name = expect_name(p);
        if (name && p->status == KG_OK) {
            struct token after = p->token;
            p->token = guard;
            instr.guard = reg_number(p, name);
            if (p->status == KG_OK)
                p->token = after;
        }
    }
    struct token opcode = p->token;
    if (p->token.kind != TOKEN_NAME) {
        parse_fail(p, KG_BAD_INPUT, "instruction expected");
        return;
    }
    instr.form = lex_opcode(p);
    if (!instr.form)
        return;
    uint32_t first = p->scratch.count;
    instr.opaque = instr.form->op == PTX_OP_unknown;
    if (instr.opaque)
        instr.opaque_text = parse_opaque(p, instr.form);
    else
        parse_operands(p, instr.form);
    uint32_t count = p->scratch.count - first;
    if (count > UINT16_MAX)
        parse_fail(p, KG_LIMIT, "too many operands");
    instr.place.end = p->token.end;
    expect(p, ';');
    struct ptx_operand *operands = parse_alloc(p, sizeof *operands * (count + 1));
    struct ptx_instr *slot = growing_add(p, &p->instrs, sizeof *slot);
    p->scratch.count = first;
    if (p->status != KG_OK || !operands || !slot)
        return;
    if (count)
        memcpy(operands, (struct ptx_operand *)p->scratch.data + first, sizeof *operands * count);
    instr.operands = operands;
    instr.operand_count = (uint16_t)count;
    *slot = instr;
    pend_operands(p, operands, count, &opcode);
    add_stmt(p, PTX_STMT_INSTR, p->instrs.count - 1);
}

/* ---- statements ------------------------------------------------------------------------------ */

static void parse_prototype(struct parser *p, struct ptx_list *list)
{
    struct ptx_var **params;
    uint32_t bytes, count;
    scope_open(p); /* its parameters' names mean nothing outside */
    for (int i = 0; i < 2 && p->status == KG_OK; i++) {
        struct ptx_var **out = i ? &list->params : &list->results;
        count = 0;
        if (is_punct(p, '(')) {
            parse_params(p, &params, &count, &bytes);
            *out = parse_alloc(p, sizeof **out * (count + 1));
            for (uint32_t k = 0; *out && k < count; k++)
                (*out)[k] = *params[k];
        }
        *(i ? &list->param_count : &list->result_count) = count;
        if (!i)
            expect_name(p); /* _ */
    }
    while (p->token.kind == TOKEN_DIRECTIVE) {
        list->noreturn |= is_directive(p, "noreturn");
        lex_next(p);
        if (p->token.kind == TOKEN_INT)
            lex_next(p);
    }
    scope_close(p);
}

static void parse_targets(struct parser *p, struct ptx_list *list)
{
    struct growing names = {0}; /* struct token: labels are pended when the array stands */
    do {
        struct token *token = growing_add(p, &names, sizeof *token);
        if (token)
            *token = p->token;
        expect_name(p);
    } while (accept(p, ','));
    struct token *tokens = growing_take(p, &names, sizeof *tokens, &list->count);
    free(names.data);
    if (list->kind == PTX_BRANCH_TARGETS)
        list->labels = parse_alloc(p, sizeof *list->labels * (list->count + 1));
    else
        list->funcs = parse_alloc(p, sizeof *list->funcs * (list->count + 1));
    for (uint32_t i = 0; i < list->count && p->status == KG_OK; i++) {
        struct name *name = tokens[i].name;
        if (list->kind == PTX_BRANCH_TARGETS)
            pend_label(p, name, &tokens[i], &list->labels[i]);
        else if (name->binding && name->binding->kind == BIND_FUNC)
            list->funcs[i] = name->binding->func;
        else
            parse_fail(p, KG_BAD_INPUT, "%.100s is no function", name->text);
    }
}

/* name: .callprototype / .calltargets / .branchtargets ...; */
static void parse_list(struct parser *p, struct name *name)
{
    struct ptx_list *list = parse_alloc(p, sizeof *list), **slot;
    if (!list)
        return;
    list->name = name->text;
    list->kind = is_directive(p, "callprototype") ? PTX_PROTOTYPE
                 : is_directive(p, "calltargets") ? PTX_CALL_TARGETS
                                                  : PTX_BRANCH_TARGETS;
    lex_next(p);
    if (list->kind == PTX_PROTOTYPE)
        parse_prototype(p, list);
    else
        parse_targets(p, list);
    expect(p, ';');
    struct binding *binding = bind(p, name, BIND_LIST);
    slot = growing_add(p, &p->lists, sizeof *slot);
    if (!binding || !slot)
        return;
    *slot = binding->list = list;
    add_stmt(p, PTX_STMT_LIST, p->lists.count - 1);
}

static void parse_label(struct parser *p)
{
    struct token at = p->token;
    struct name *name = expect_name(p);
    expect(p, ':');
    if (is_directive(p, "callprototype") || is_directive(p, "calltargets") ||
        is_directive(p, "branchtargets")) {
        parse_list(p, name);
        return;
    }
    if (p->status != KG_OK)
        return;
    const struct binding *old = name->binding;
    if (old && old->kind == BIND_LABEL && old->depth == p->depth) {
        p->token = at;
        parse_fail(p, KG_BAD_INPUT, "label %.100s is defined twice", name->text);
        return;
    }
    struct ptx_label *label = growing_add(p, &p->labels, sizeof *label);
    struct binding *binding = bind(p, name, BIND_LABEL);
    if (!label || !binding)
        return;
    binding->label = p->labels.count - 1;
    *label = (struct ptx_label){
        .name = name->text, .instr = p->instrs.count, .scope = p->scope, .place = place_of(&at)};
    add_stmt(p, PTX_STMT_LABEL, p->labels.count - 1);
}

static void open_brace(struct parser *p)
{
    struct ptx_scope *scope = growing_add(p, &p->scopes, sizeof *scope);
    if (!scope)
        return;
    scope->parent = p->scope;
    scope->first = p->instrs.count;
    p->scope = p->scopes.count - 1;
    lex_next(p);
}

static void close_brace(struct parser *p)
{
    struct ptx_scope *scope = (struct ptx_scope *)p->scopes.data + p->scope;
    scope->end = p->instrs.count;
    p->scope = scope->parent;
}

static void body_line(struct parser *p, const char *text)
{
    const char **line = growing_add(p, &p->lines, sizeof *line);
    if (!line || !text)
        return;
    *line = text;
    add_stmt(p, PTX_STMT_LINE, p->lines.count - 1);
}

static void parse_directive(struct parser *p)
{
    int space = space_of(p);
    if (space == PTX_SPACE_reg)
        parse_reg_declaration(p);
    else if (space > 0)
        parse_variables(p, PTX_LOCAL, place_of(&p->token));
    else if (is_directive(p, "loc") || is_directive(p, "file"))
        body_line(p, lex_rest_of_line(p));
    else
        body_line(p, lex_statement(p));
}

static void parse_statement(struct parser *p)
{
    if (is_punct(p, '{')) {
        scope_open(p);
        open_brace(p);
        add_stmt(p, PTX_STMT_OPEN, p->scope);
    } else if (is_punct(p, '}')) {
        add_stmt(p, PTX_STMT_CLOSE, p->scope);
        close_brace(p);
        scope_close(p);
        lex_next(p);
    } else if (p->token.kind == TOKEN_DIRECTIVE) {
        parse_directive(p);
    } else if (p->token.kind == TOKEN_NAME && lex_colon_follows(p)) {
        parse_label(p);
    } else if (!accept(p, ';')) {
        parse_instruction(p);
    }
}

void parse_body(struct parser *p)
{
    struct ptx_func *func = p->func;
    func->body_begin = p->token.begin;
    p->scope = 0;
    open_brace(p);
    while (p->token.kind != TOKEN_END && !(is_punct(p, '}') && p->depth == 1))
        parse_statement(p);
    if (p->status == KG_OK && p->token.kind == TOKEN_END)
        parse_fail(p, KG_BAD_INPUT, "the text ends inside %.100s", func->name);
    if (p->status != KG_OK) {
        while (p->depth > 1)
            scope_close(p);
        return;
    }
    close_brace(p);
    func->body_end = func->place.end = p->token.end;
    lex_next(p);
    func->reg_decls =
        growing_take(p, &p->reg_decls, sizeof *func->reg_decls, &func->reg_decl_count);
    func->regs = growing_take(p, &p->regs, sizeof *func->regs, &func->reg_count);
    func->vars = growing_take(p, &p->body_vars, sizeof *func->vars, &func->var_count);
    func->labels = growing_take(p, &p->labels, sizeof *func->labels, &func->label_count);
    func->scopes = growing_take(p, &p->scopes, sizeof *func->scopes, &func->scope_count);
    func->lists = growing_take(p, &p->lists, sizeof *func->lists, &func->list_count);
    func->instrs = growing_take(p, &p->instrs, sizeof *func->instrs, &func->instr_count);
    func->stmts = growing_take(p, &p->stmts, sizeof *func->stmts, &func->stmt_count);
}
