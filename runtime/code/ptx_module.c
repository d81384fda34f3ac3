/* The module level of the PTX parser: version, target, functions with their directives, what is
 * kept verbatim; ptx_parse itself. Variables: ptx_variable.c; bodies: ptx_parse.c. */
#include "code/ptx_lex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODULE_BYTES = 1 << 30 };

/* ---- functions --------------------------------------------------------------------------------
 */

static void three(struct parser *p, uint32_t out[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = 1;
    for (int i = 0; i < 3; i++) {
        out[i] = (uint32_t)parse_int(p);
        if (!parse_take(p, ','))
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
        const char *word = p->token.name->text;
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
        while (i < count && !token_is_word(p, known[i].name))
            i++;
        lex_next(p);
        if (i < count && known[i].flag)
            *known[i].flag = true;
        else if (i < count && known[i].one)
            *known[i].one = (uint32_t)parse_int(p);
        else if (i < count)
            three(p, known[i].three);
        else if (!strcmp(word, "pragma"))
            while (p->token.kind != TOKEN_END && !parse_take(p, ';'))
                lex_next(p);
        else /* unknown: its operands are all up to what must follow */
            while (p->token.kind != TOKEN_END && p->token.kind != TOKEN_DIRECTIVE &&
                   !token_is(p, '{') && !token_is(p, ';'))
                lex_next(p);
        if (p->status != KG_OK)
            break;
        const char **text = growing_add(p, &texts, sizeof *text);
        if (text)
            *text = lex_text_from(p, begin);
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
    struct binding *binding = name_bind(p, name, BIND_FUNC);
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
    struct ptx_func head = {.entry = token_is_word(p, "entry"), .linkage = linkage, .place = start};
    uint32_t ignored;
    lex_next(p);
    while (p->token.kind == TOKEN_DIRECTIVE) { /* before the name */
        if (token_is_word(p, "attribute")) {
            head.attribute = parse_attribute(p);
            continue;
        }
        head.noreturn |= token_is_word(p, "noreturn");
        lex_next(p);
    }
    p->func = &head; /* registers among the parameters belong to the body */
    scope_open(p);
    if (token_is(p, '('))
        parse_params(p, &head.results, &head.result_count, &ignored);
    struct token named = p->token;
    struct name *name = parse_name(p);
    if (token_is(p, '('))
        parse_params(p, &head.params, &head.param_count, &head.param_bytes);
    function_directives(p, &head);
    bool defined = token_is(p, '{');
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
            parse_expect(p, ';');
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
        parse_name(p);
    } while (parse_take(p, ','));
    p->module->target = lex_text_from(p, begin);
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
    for (unsigned i = PTX_VISIBLE; i <= PTX_COMMON; i++) {
        if (token_is_word(p, words[i])) {
            linkage = (uint8_t)i;
            lex_next(p);
            i = PTX_LOCAL;
        }
    }
    return linkage;
}

static void parse_item(struct parser *p)
{
    struct ptx_place start = token_place(&p->token);
    uint8_t linkage = parse_linkage(p);
    if (token_is(p, '@') || token_is_word(p, "file") || token_is_word(p, "loc")) {
        module_line(p, lex_rest_of_line(p), start);
    } else if (token_is_word(p, "version")) {
        lex_next(p);
        parse_version(p);
    } else if (token_is_word(p, "target")) {
        lex_next(p);
        parse_target(p);
    } else if (token_is_word(p, "address_size")) {
        lex_next(p);
        p->module->address_size = (unsigned)parse_int(p);
    } else if (token_is_word(p, "entry") || token_is_word(p, "func")) {
        parse_function(p, linkage, start);
    } else if (token_space(p) > 0 && token_space(p) != PTX_SPACE_reg) {
        parse_variables(p, linkage, start);
    } else if (token_is_word(p, "section") || token_is_word(p, "pragma") ||
               token_is_word(p, "alias")) {
        module_line(p, lex_statement(p), start);
    } else if (!parse_take(p, ';')) {
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
