/* Bodies of PTX functions: nested scopes, registers, labels, instructions. Operands:
 * ptx_operand.c; the module level around them: ptx_module.c. */
#include "code/ptx_lex.h"

#include <stdlib.h>
#include <string.h>

/* ---- small words of the parser --------------------------------------------------------------- */

struct ptx_place token_place(const struct token *token)
{
    return (struct ptx_place){token->begin, token->end, token->line, token->column};
}

bool token_is_word(const struct parser *p, const char *word)
{
    return p->token.kind == TOKEN_DIRECTIVE && !strcmp(p->token.name->text, word);
}

void parse_expect(struct parser *p, char c)
{
    if (!parse_take(p, c))
        parse_fail(p, KG_BAD_INPUT, "'%c' expected", c);
}

struct name *parse_name(struct parser *p)
{
    struct name *name = p->token.name;
    if (p->token.kind != TOKEN_NAME) {
        parse_fail(p, KG_BAD_INPUT, "name expected");
        return NULL;
    }
    lex_next(p);
    return name;
}

static void add_stmt(struct parser *p, int kind, uint32_t index)
{
    struct ptx_stmt *stmt = growing_slot(p, &p->stmts, sizeof *stmt);
    if (stmt) {
        stmt->kind = kind;
        stmt->index = index;
    }
}

/* ---- instructions ---------------------------------------------------------------------------- */

static void pend_label(struct parser *p, struct name *name, const struct token *at, uint32_t *slot)
{
    struct pending_label *pending = growing_add(p, &p->pending, sizeof *pending);
    if (pending)
        *pending = (struct pending_label){name, slot, at->line, at->column};
}

/* .reg .type name, prefix<n>, ...; */
static void parse_reg_declaration(struct parser *p)
{
    uint8_t type = 0, vector = 0;
    for (lex_next(p); p->token.kind == TOKEN_DIRECTIVE; lex_next(p)) {
        uint8_t found = token_type(p);
        if (found)
            type = found;
        else if (token_is_word(p, "v2") || token_is_word(p, "v4"))
            vector = token_is_word(p, "v2") ? 2 : 4;
        else
            break;
    }
    if (!type)
        parse_fail(p, KG_BAD_INPUT, "type of registers expected");
    do {
        struct name *name = parse_name(p);
        uint64_t count = 1;
        bool range = parse_take(p, '<');
        if (range) {
            count = parse_plain_int(p);
            parse_expect(p, '>');
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
    } while (parse_take(p, ','));
    parse_expect(p, ';');
}

/* An operation that the table does not know: operands if they read like others', else just text. */
static const char *parse_opaque(struct parser *p, const struct ptx_form *form)
{
    const struct lex_place begin = lex_place(p);
    uint32_t scratch = p->scratch.count;
    p->module->unknown_count++;
    p->trial = true;
    parse_operands(p, form);
    p->trial = false;
    if (p->status == KG_OK || p->status == KG_NO_MEMORY)
        return NULL;
    p->status = KG_OK;
    lex_return(p, &begin);
    p->scratch.count = scratch;
    while (p->token.kind != TOKEN_END && !token_is(p, ';'))
        lex_next(p);
    return lex_text_from(p, begin.token.begin);
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
    struct ptx_instr instr = {
        .guard = PTX_NO_REG, .scope = p->scope, .place = token_place(&p->token)};
    if (parse_take(p, '@')) {
        instr.guard_negated = parse_take(p, '!');
        struct token guard = p->token;
        struct name *name = parse_name(p);
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
    p->module->unknown_count += instr.form->strange && !instr.opaque;
    if (instr.opaque)
        instr.opaque_text = parse_opaque(p, instr.form);
    else
        parse_operands(p, instr.form);
    uint32_t count = p->scratch.count - first;
    if (count > UINT16_MAX)
        parse_fail(p, KG_LIMIT, "too many operands");
    instr.place.end = p->token.end;
    parse_expect(p, ';');
    struct ptx_operand *operands = parse_alloc(p, sizeof *operands * count);
    struct ptx_instr *slot = growing_slot(p, &p->instrs, sizeof *slot);
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
        if (token_is(p, '(')) {
            parse_params(p, &params, &count, &bytes);
            *out = parse_alloc(p, sizeof **out * (count + 1));
            for (uint32_t k = 0; p->status == KG_OK && *out && k < count; k++)
                (*out)[k] = *params[k];
        }
        *(i ? &list->param_count : &list->result_count) = count;
        if (!i)
            parse_name(p); /* _ */
    }
    while (p->token.kind == TOKEN_DIRECTIVE) {
        list->noreturn |= token_is_word(p, "noreturn");
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
        parse_name(p);
    } while (parse_take(p, ','));
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
    list->kind = token_is_word(p, "callprototype") ? PTX_PROTOTYPE
                 : token_is_word(p, "calltargets") ? PTX_CALL_TARGETS
                                                   : PTX_BRANCH_TARGETS;
    lex_next(p);
    if (list->kind == PTX_PROTOTYPE)
        parse_prototype(p, list);
    else
        parse_targets(p, list);
    parse_expect(p, ';');
    struct binding *binding = name_bind(p, name, BIND_LIST);
    slot = growing_add(p, &p->lists, sizeof *slot);
    if (!binding || !slot)
        return;
    *slot = binding->list = list;
    add_stmt(p, PTX_STMT_LIST, p->lists.count - 1);
}

static void parse_label(struct parser *p)
{
    struct token at = p->token;
    struct name *name = parse_name(p);
    parse_expect(p, ':');
    if (token_is_word(p, "callprototype") || token_is_word(p, "calltargets") ||
        token_is_word(p, "branchtargets")) {
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
    struct binding *binding = name_bind(p, name, BIND_LABEL);
    if (!label || !binding)
        return;
    binding->label = p->labels.count - 1;
    *label = (struct ptx_label){
        .name = name->text, .instr = p->instrs.count, .scope = p->scope, .place = token_place(&at)};
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
    int space = token_space(p);
    if (space == PTX_SPACE_reg)
        parse_reg_declaration(p);
    else if (space > 0)
        parse_variables(p, PTX_LOCAL, token_place(&p->token));
    else if (token_is_word(p, "loc") || token_is_word(p, "file"))
        body_line(p, lex_rest_of_line(p));
    else
        body_line(p, lex_statement(p));
}

static void parse_statement(struct parser *p)
{
    if (token_is(p, '{')) {
        scope_open(p);
        open_brace(p);
        add_stmt(p, PTX_STMT_OPEN, p->scope);
    } else if (token_is(p, '}')) {
        add_stmt(p, PTX_STMT_CLOSE, p->scope);
        close_brace(p);
        scope_close(p);
        lex_next(p);
    } else if (p->token.kind == TOKEN_DIRECTIVE) {
        parse_directive(p);
    } else if (p->token.kind == TOKEN_NAME && lex_colon_follows(p)) {
        parse_label(p);
    } else if (!parse_take(p, ';')) {
        parse_instruction(p);
    }
}

void parse_body(struct parser *p)
{
    struct ptx_func *func = p->func;
    func->body_begin = p->token.begin;
    p->scope = 0;
    open_brace(p);
    while (p->token.kind != TOKEN_END && !(token_is(p, '}') && p->depth == 1))
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
