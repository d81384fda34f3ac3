/* Inside the PTX front end only: tokens, interned names, and the state that the files of the
 * parser (ptx_module.c, ptx_variable.c, ptx_parse.c, ptx_operand.c) share. Users of the
 * tree include ptx.h. */
#ifndef KG_PTX_LEX_H
#define KG_PTX_LEX_H

#include "code/ptx.h"

#include <string.h>

enum token_kind {
    TOKEN_END,       /* of the text, or after an error: nothing follows */
    TOKEN_NAME,      /* identifier, % and $ included */
    TOKEN_DIRECTIVE, /* .word, .word::word; name without the dot */
    TOKEN_INT,
    TOKEN_F32,
    TOKEN_F64,
    TOKEN_STRING,
    TOKEN_PUNCT, /* one character: text[begin] */
};

/* What a name means in the scope being parsed; inner ones shadow outer ones. */
struct binding {
    enum { BIND_REG, BIND_RANGE, BIND_VAR, BIND_FUNC, BIND_LIST, BIND_LABEL } kind;
    bool closed;    /* its scope has ended */
    uint32_t depth; /* 0: module, 1: body of the function, ... */
    struct binding *shadowed;
    struct binding *in_scope; /* next of the same scope */
    struct name *name;
    union {
        const struct ptx_reg_decl *decl;
        struct ptx_var *var;
        struct ptx_func *func;
        struct ptx_list *list;
        uint32_t label;
    };
};

/* A register number given to a name, under a declaration. */
struct numbered {
    struct numbered *next;
    const struct binding *declared;
    uint32_t reg;
};

struct name {
    struct name *chain;
    uint32_t hash, length;
    uint64_t head;           /* the first eight bytes of text */
    struct binding *binding; /* innermost meaning */
    struct binding *range;   /* innermost range "text<n>" of which this is the prefix */
    struct name *prefix;     /* of "prefix12", or NULL; number: 12; known once split is set */
    uint32_t number;
    bool split;
    struct numbered *numbers;
    int32_t special;   /* enum ptx_special; -1 not looked up, 0 none */
    int32_t type, mod; /* as a suffix; -1 not looked up */
    char text[];
};

struct token {
    uint8_t kind;
    uint32_t begin, end, line, column;
    struct name *name;
    uint64_t bits; /* of numbers */
};

struct growing {
    void *data;
    uint32_t count, room;
};

struct pending_label {
    struct name *name;
    uint32_t *slot;
    uint32_t line, column;
};

enum { SCOPE_DEPTH = 256, VECTOR_PARTS = 1024 };

struct parser {
    const char *text;
    uint32_t size, at;
    uint32_t line, line_start; /* of `at` */
    struct token token;        /* the current one */
    uint32_t previous_end;     /* of the token before it */
    struct ptx_module *module;
    struct name **buckets;
    uint32_t bucket_count, name_count;
    struct ptx_form **form_buckets;
    uint32_t form_bucket_count;
    kg_status status;
    char *error;
    size_t error_size;
    bool trial; /* failures are not reported: the caller will try otherwise */

    struct growing items, vars, funcs, forms, lines, mod_texts; /* of the module */

    /* the function being parsed */
    struct ptx_func *func;
    uint32_t depth, scope;
    struct binding *scope_bindings[SCOPE_DEPTH + 2];
    uint32_t scope_pending[SCOPE_DEPTH + 2];
    struct growing reg_decls, regs, body_vars, labels, scopes, lists, instrs, stmts;
    struct growing pending; /* struct pending_label */
    struct growing scratch; /* struct ptx_operand */
};

/* A place in the text to come back to. */
struct lex_place {
    uint32_t at, line, line_start;
    struct token token;
};

/* ---- ptx_lex.c ---- */
struct lex_place lex_place(const struct parser *p);
void lex_return(struct parser *p, const struct lex_place *place);
void lex_next(struct parser *p);
/* The current token is the first word of an opcode: extends it by its suffixes and moves on. */
const struct ptx_form *lex_opcode(struct parser *p);
/* A copy of the text from `begin` to the end of the token before the current one. */
const char *lex_text_from(struct parser *p, uint32_t begin);
/* Text from the current token to the end of its line; moves behind it. */
const char *lex_rest_of_line(struct parser *p);
/* Text from the current token up to and with `;`, or up to and with a {...} block. */
const char *lex_statement(struct parser *p);
bool lex_colon_follows(const struct parser *p); /* behind the current token; `::` does not count */
struct name *name_intern(struct parser *p, const char *text, uint32_t length);

/* Fails at the current token: records the first message, and no token follows. */
void parse_fail(struct parser *p, kg_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void parse_no_memory(struct parser *p);
void *parse_alloc(struct parser *p, size_t size);
bool growing_more(struct parser *p, struct growing *array, size_t size); /* makes room */
/* One more element of `size` bytes, to be written whole by the caller; NULL after a failure. */
static inline void *growing_slot(struct parser *p, struct growing *array, size_t size)
{
    if (array->count == array->room && !growing_more(p, array, size))
        return NULL;
    return (char *)array->data + (size_t)array->count++ * size;
}
/* The same, all zero. */
static inline void *growing_add(struct parser *p, struct growing *array, size_t size)
{
    void *slot = growing_slot(p, array, size);
    return slot ? memset(slot, 0, size) : NULL;
}
/* The elements, copied to the arena; the array is empty again. */
void *growing_take(struct parser *p, struct growing *array, size_t size, uint32_t *count);

/* ---- ptx_variable.c: scopes ---- */
struct binding *name_bind(struct parser *p, struct name *name, int kind);
void scope_open(struct parser *p);
void scope_close(struct parser *p); /* resolves its labels */

/* ---- ptx_variable.c ---- */
/* Current token: a space directive. Variables go to `vars`, and as items or statements. */
void parse_variables(struct parser *p, uint8_t linkage, struct ptx_place start);
/* (.param ..., .reg ...), the parentheses included. */
void parse_params(struct parser *p, struct ptx_var ***out, uint32_t *count, uint32_t *bytes);
/* Current token: .attribute. The text between its parentheses. */
const char *parse_attribute(struct parser *p);
uint8_t token_type(struct parser *p);    /* current directive as a type, or PTX_TYPE_none */
int token_space(const struct parser *p); /* current directive as a space, or -1 */

/* ---- ptx_parse.c ---- */
struct ptx_place token_place(const struct token *token);
static inline bool token_is(const struct parser *p, char c)
{
    return p->token.kind == TOKEN_PUNCT && p->text[p->token.begin] == c;
}
static inline bool parse_take(struct parser *p, char c)
{
    if (!token_is(p, c))
        return false;
    lex_next(p);
    return true;
}
bool token_is_word(const struct parser *p, const char *word);
void parse_expect(struct parser *p, char c);
struct name *parse_name(struct parser *p);
void parse_body(struct parser *p);

/* ---- ptx_constant.c ---- */
uint64_t parse_int(struct parser *p); /* an expression */
uint64_t parse_plain_int(struct parser *p);

/* ---- ptx_operand.c ---- */
/* A register's number; it is given one at its first use. */
uint32_t reg_number(struct parser *p, struct name *name);
const struct ptx_reg_decl *reg_declare(struct parser *p, struct name *name, uint8_t type,
                                       uint8_t vector, bool range, uint32_t count);
/* A float with its signs: kind TOKEN_F32 or TOKEN_F64. False, at the same place: another operand.
 */
bool parse_float(struct parser *p, uint8_t *kind, uint64_t *bits);
/* Operands up to the semicolon, added to p->scratch. */
void parse_operands(struct parser *p, const struct ptx_form *form);

#endif
