/* Registers and operands of PTX instructions: what each name stands for in its scope. Statements
 * around them: ptx_parse.c. */
#include "code/ptx_lex.h"

#include <string.h>

/* ---- registers ------------------------------------------------------------------------------- */

const struct ptx_reg_decl *reg_declare(struct parser *p, struct name *name, uint8_t type,
                                       uint8_t vector, bool range, uint32_t count)
{
    struct ptx_reg_decl *decl = parse_alloc(p, sizeof *decl);
    struct binding *binding = decl ? name_bind(p, name, range ? BIND_RANGE : BIND_REG) : NULL;
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

/* "%r12" is element 12 of a range "%r<n>", if there is one. */
static void name_split(struct parser *p, struct name *name)
{
    uint32_t digits = name->length;
    name->split = true;
    while (digits && name->text[digits - 1] >= '0' && name->text[digits - 1] <= '9')
        digits--;
    uint32_t count = name->length - digits;
    if (!digits || !count || count > 9 || (count > 1 && name->text[digits] == '0'))
        return;
    for (uint32_t i = digits; i < name->length; i++)
        name->number = name->number * 10 + (uint32_t)(name->text[i] - '0');
    name->prefix = name_intern(p, name->text, digits);
}

/* The range that `name` is an element of, or NULL. */
static const struct binding *range_of(struct parser *p, struct name *name)
{
    if (!name->split)
        name_split(p, name);
    const struct binding *range = name->prefix ? name->prefix->range : NULL;
    while (range && name->number >= range->decl->count)
        range = range->shadowed;
    return range;
}

/* The declaration of a register in force, or NULL: another kind of name, or none. */
static const struct binding *reg_find(struct parser *p, struct name *name)
{
    const struct binding *own = name->binding, *range = range_of(p, name);
    if (range && (!own || own->depth < range->depth))
        return range;
    return own && own->kind == BIND_REG ? own : NULL;
}

static uint32_t reg_give(struct parser *p, struct name *name, const struct binding *declared)
{
    const struct ptx_reg_decl *decl = declared->decl;
    struct numbered **at = &name->numbers;
    while (*at && (*at)->declared != declared) {
        if ((*at)->declared->closed) /* never asked for again */
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
    if (*at)
        return (*at)->reg;
    struct numbered *n = parse_alloc(p, sizeof *n);
    struct ptx_reg *reg = growing_add(p, &p->regs, sizeof *reg);
    if (!n || !reg)
        return PTX_NO_REG;
    *reg =
        (struct ptx_reg){.decl = decl, .index = decl->range ? name->number : 0, .type = decl->type};
    *n = (struct numbered){name->numbers, declared, p->regs.count - 1};
    name->numbers = n;
    return n->reg;
}

uint32_t reg_number(struct parser *p, struct name *name)
{
    const struct binding *declared = name ? reg_find(p, name) : NULL;
    if (!declared) {
        parse_fail(p, KG_BAD_INPUT, "register %.100s is not declared", name ? name->text : "");
        return PTX_NO_REG;
    }
    return reg_give(p, name, declared);
}

/* ---- operands -------------------------------------------------------------------------------- */

static void parse_operand(struct parser *p, struct ptx_operand *out, char role, unsigned nesting);

/* Operands up to `close`, copied to the arena as out->parts. */
static void parse_parts(struct parser *p, struct ptx_operand *out, char close, char role,
                        unsigned nesting)
{
    uint32_t first = p->scratch.count;
    while (p->token.kind != TOKEN_END && !token_is(p, close)) {
        struct ptx_operand part, *slot;
        parse_operand(p, &part, role, nesting + 1);
        slot = growing_slot(p, &p->scratch, sizeof *slot);
        if (!slot)
            return;
        *slot = part;
        if (p->scratch.count - first > VECTOR_PARTS)
            parse_fail(p, KG_LIMIT, "too many elements");
        if (!parse_take(p, ','))
            break;
    }
    out->part_count = p->scratch.count - first;
    out->parts = parse_alloc(p, sizeof *out->parts * out->part_count);
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

/* .b0, .h1, .b3210, .h10: parts of a register, as the video operations take them. */
static bool is_selector(const struct parser *p, uint32_t name_end)
{
    if (p->token.kind != TOKEN_DIRECTIVE || p->token.begin != name_end)
        return false;
    const char *text = p->token.name->text;
    return (text[0] == 'b' || text[0] == 'h') && text[1] && !text[1 + strspn(text + 1, "01234567")];
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
static bool resolve(struct parser *p, struct name *name, char role, struct ptx_operand *out)
{
    const struct binding *declared = reg_find(p, name);
    out->name = name->text;
    if (declared) {
        out->kind = PTX_REG;
        out->name = NULL;
        out->reg = reg_give(p, name, declared);
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
    /* a special register that we do not know: but a range's missing element, or what is written to,
     * is none */
    bool missing = role == 'd' || (name->prefix && name->prefix->range);
    bool strange = name->text[0] == '%' && !missing;
    if (special_find(name) || strange) {
        out->kind = PTX_SPECIAL;
        out->special = (uint16_t)(name->special > 0 ? name->special : PTX_SR_unknown);
        return true;
    }
    if (!strcmp(name->text, "WARP_SZ")) {
        out->kind = PTX_INT;
        out->name = NULL;
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
    if (name->text[0] == '_' && !name->text[1]) {
        out->kind = PTX_SINK;
        return;
    }
    if (role == 'l') {
        out->kind = PTX_LABEL;
        out->name = name->text;
        return; /* the slot is pended once the operand stands in the arena */
    }
    if (!resolve(p, name, role, out)) {
        p->token = at;
        parse_fail(p, KG_BAD_INPUT, "%.100s is not declared", name->text);
        return;
    }
    if (out->kind == PTX_REG || out->kind == PTX_SPECIAL) {
        out->component = component_of(p, at.end);
        if (!out->component && out->kind == PTX_REG && is_selector(p, at.end)) {
            out->component = PTX_SELECTOR;
            out->name = p->token.name->text;
        }
        if (out->component)
            lex_next(p);
        if (out->kind == PTX_SPECIAL && !out->special)
            p->module->unknown_count++;
    } else if (out->kind == PTX_SYMBOL && (token_is(p, '+') || token_is(p, '-'))) {
        out->offset = (int64_t)parse_int(p);
    }
}

/* [base + offset, more] */
static void parse_address(struct parser *p, struct ptx_operand *out, unsigned nesting)
{
    parse_expect(p, '[');
    out->kind = PTX_ADDRESS;
    if (p->token.kind == TOKEN_NAME) {
        struct token at = p->token;
        lex_next(p);
        struct ptx_operand base = {.reg = PTX_NO_REG};
        if (!resolve(p, at.name, 'a', &base) || (base.kind != PTX_REG && base.kind != PTX_SYMBOL)) {
            p->token = at;
            parse_fail(p, KG_BAD_INPUT, "%.100s is no address", at.name->text);
            return;
        }
        out->reg = base.reg;
        out->var = base.var;
        out->func = base.func;
        out->list = base.list;
        out->name = base.name;
        if (token_is(p, '+') || token_is(p, '-'))
            out->offset = (int64_t)parse_int(p);
    } else {
        out->bits = parse_int(p);
    }
    if (parse_take(p, ','))
        parse_parts(p, out, ']', 's', nesting);
    parse_expect(p, ']');
}

bool parse_float(struct parser *p, uint8_t *kind, uint64_t *bits)
{
    const struct lex_place begin = lex_place(p);
    bool minus = false;
    while (token_is(p, '-') || token_is(p, '+')) {
        minus ^= token_is(p, '-');
        lex_next(p);
    }
    if (p->token.kind != TOKEN_F32 && p->token.kind != TOKEN_F64) {
        lex_return(p, &begin);
        return false;
    }
    *kind = p->token.kind;
    *bits = p->token.bits;
    if (minus)
        *bits ^= *kind == TOKEN_F32 ? UINT64_C(1) << 31 : UINT64_C(1) << 63;
    lex_next(p);
    return true;
}

static void parse_number(struct parser *p, struct ptx_operand *out)
{
    uint8_t kind = TOKEN_INT;
    if (p->token.kind != TOKEN_INT && parse_float(p, &kind, &out->bits)) {
        out->kind = kind == TOKEN_F32 ? PTX_F32 : PTX_F64;
        return;
    }
    if (p->token.kind != TOKEN_INT && p->token.kind != TOKEN_PUNCT)
        parse_fail(p, KG_BAD_INPUT, "operand expected");
    out->kind = PTX_INT;
    out->bits = parse_int(p);
}

/* first | second: *out holds the first. */
static void parse_pair(struct parser *p, struct ptx_operand *out, char role, unsigned nesting)
{
    struct ptx_operand *parts = parse_alloc(p, 2 * sizeof *parts);
    if (!parts)
        return;
    parts[0] = *out;
    lex_next(p);
    parse_operand(p, &parts[1], role, nesting + 1);
    *out = (struct ptx_operand){.kind = PTX_PAIR,
                                .begin = parts[0].begin,
                                .end = p->previous_end,
                                .reg = PTX_NO_REG,
                                .parts = parts,
                                .part_count = 2};
}

static void parse_operand(struct parser *p, struct ptx_operand *out, char role, unsigned nesting)
{
    *out = (struct ptx_operand){.begin = p->token.begin, .reg = PTX_NO_REG};
    if (nesting > 4)
        parse_fail(p, KG_LIMIT, "operands nest too deeply");
    if (token_is(p, '!')) {
        const struct lex_place begin = lex_place(p);
        lex_next(p);
        out->negated = p->token.kind == TOKEN_NAME;
        if (!out->negated) /* of an expression */
            lex_return(p, &begin);
    }
    if (p->token.kind == TOKEN_NAME) {
        parse_named(p, out, role);
    } else if (parse_take(p, '{')) {
        out->kind = PTX_VECTOR;
        parse_parts(p, out, '}', role, nesting);
        parse_expect(p, '}');
    } else if (token_is(p, '[')) {
        parse_address(p, out, nesting);
    } else {
        parse_number(p, out);
    }
    out->end = p->previous_end;
    if (token_is(p, '|') &&
        (out->kind == PTX_REG || out->kind == PTX_SINK || out->kind == PTX_VECTOR))
        parse_pair(p, out, role, nesting);
}

static struct ptx_operand *push_operand(struct parser *p, const struct ptx_operand *operand)
{
    struct ptx_operand *slot = growing_slot(p, &p->scratch, sizeof *slot);
    if (slot)
        *slot = *operand;
    return slot;
}

/* (a, b) of a call, or nothing. */
static void parse_call_list(struct parser *p)
{
    struct ptx_operand list = {
        .kind = PTX_LIST, .reg = PTX_NO_REG, .begin = p->token.begin, .end = p->token.begin};
    if (parse_take(p, '(')) {
        parse_parts(p, &list, ')', 's', 0);
        list.end = p->token.end;
        parse_expect(p, ')');
    }
    push_operand(p, &list);
}

/* call (results), callee, (arguments), prototype; everything but the callee may be missing. */
static void parse_call(struct parser *p)
{
    struct ptx_operand operand;
    bool results = token_is(p, '(');
    parse_call_list(p);
    if (results)
        parse_expect(p, ',');
    parse_operand(p, &operand, 'f', 0);
    push_operand(p, &operand);
    bool more = parse_take(p, ',');
    bool arguments = more && token_is(p, '(');
    parse_call_list(p);
    if (arguments)
        more = parse_take(p, ',');
    if (more) {
        parse_operand(p, &operand, 't', 0);
        push_operand(p, &operand);
    }
}

void parse_operands(struct parser *p, const struct ptx_form *form)
{
    const char *roles = ptx_ops[form->op].roles;
    if (form->op == PTX_OP_call) {
        parse_call(p);
        return;
    }
    while (p->token.kind != TOKEN_END && !token_is(p, ';')) {
        struct ptx_operand operand;
        parse_operand(p, &operand, *roles, 0);
        push_operand(p, &operand);
        if (roles[1])
            roles++;
        if (!parse_take(p, ','))
            break;
    }
    if (p->status == KG_OK && !token_is(p, ';'))
        parse_fail(p, KG_BAD_INPUT, "';' expected");
}
