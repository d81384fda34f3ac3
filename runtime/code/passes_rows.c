/* The rows of passes.def that look at one instruction and what is known of its operands: dead and
 * unreachable code, decided guards and selections, known results, integer identities, copies. */
#include "passes.h"

#include <ctype.h>
#include <stdio.h>

enum { PARTS_MAX = 8, TEXT_MAX = 4096 };

const char *source_text(const struct rewriter *r, uint32_t begin, uint32_t end)
{
    const char *text = arena_copy(r->arena, r->source + begin, end - begin);
    return text ? text : "";
}

/* From the source: the register may have its name from an outer scope. */
const char *guard_text(const struct rewriter *r, const struct ptx_instr *instr)
{
    char name[256];
    if (instr->guard == PTX_NO_REG)
        return "";
    const char *text = arena_format(r->arena, "@%s%s ", instr->guard_negated ? "!" : "",
                                    ptx_reg_name(&r->func->regs[instr->guard], name, sizeof name));
    return text ? text : "";
}

const char *literal_text(const struct rewriter *r, uint8_t type, uint64_t bits)
{
    const char *text;
    if (type == PTX_TYPE_f32)
        text = arena_format(r->arena, "0f%08llX", (unsigned long long)bits);
    else if (type == PTX_TYPE_f64)
        text = arena_format(r->arena, "0d%016llX", (unsigned long long)bits);
    else if (type == PTX_TYPE_s32)
        text = arena_format(r->arena, "%d", (int)(int32_t)(uint32_t)bits);
    else if (type == PTX_TYPE_s64)
        text = arena_format(r->arena, "%lld", (long long)bits);
    else
        text = arena_format(r->arena, "0x%llX", (unsigned long long)bits);
    return text ? text : "";
}

bool names_ours(const struct rewriter *r, const struct ptx_instr *instr)
{
    return memmem(r->source + instr->place.begin, instr->place.end - instr->place.begin, OUR_PREFIX,
                  strlen(OUR_PREFIX)) != NULL;
}

static bool finish(struct rewrite *out, enum rewrite_pass pass, const char *text)
{
    *out = (struct rewrite){pass, text};
    return true;
}

/* ---- reachability and guards ---- */

static bool unreachable(const struct rewriter *r, uint32_t instr, struct rewrite *out)
{
    const struct ptx_instr *at = &r->func->instrs[instr];
    if (r->values->executed[r->graph->block_of[instr]])
        return false;
    /* a body keeps its end */
    if (instr + 1 == r->func->instr_count && ptx_effects(at) & PTX_LEAVES)
        return false;
    return finish(out, PASS_unreachable, "");
}

size_t guard_size(const char *text, size_t size)
{
    size_t at = 1;
    while (at < size && (isspace((unsigned char)text[at]) || text[at] == '!'))
        at++;
    while (at < size && (isalnum((unsigned char)text[at]) || strchr("%_$", text[at])))
        at++;
    while (at < size && isspace((unsigned char)text[at]))
        at++;
    return at < size && isalpha((unsigned char)text[at]) ? at : 0;
}

static bool guard(const struct rewriter *r, uint32_t instr, struct rewrite *out)
{
    const struct ptx_instr *at = &r->func->instrs[instr];
    if (at->guard == PTX_NO_REG || at->opaque)
        return false;
    uint32_t value = graph_read(r->graph, instr, at->guard);
    const struct range *range = &r->values->ranges[value];
    if (value == GRAPH_UNKNOWN || !range_known(range))
        return false;
    if ((range->low != 0) == at->guard_negated)
        return finish(out, PASS_guard, "");
    size_t skip = guard_size(r->source + at->place.begin, at->place.end - at->place.begin);
    return skip &&
           finish(out, PASS_guard, source_text(r, at->place.begin + (uint32_t)skip, at->place.end));
}

/* ---- known results ---- */

static bool is_literal(const struct ptx_operand *operand)
{
    return operand->kind == PTX_INT || operand->kind == PTX_F32 || operand->kind == PTX_F64;
}

/* "mov.b32 %r1, 0x7;" for one result; a predicate is compared into being. */
static const char *assigned(const struct rewriter *r, const struct ptx_instr *at,
                            const struct ptx_operand *to, uint64_t value)
{
    uint8_t type = r->func->regs[to->reg].type;
    unsigned bits = ptx_types[type].bits;
    const char *name = source_text(r, to->begin, to->end), *guard = guard_text(r, at);
    if (type == PTX_TYPE_pred)
        return arena_format(r->arena, "%ssetp.%s.u32 %s, 0, 0; ", guard, value ? "eq" : "ne", name);
    if (fold_is_float(type))
        return arena_format(r->arena, "%smov.f%u %s, %s; ", guard, bits, name,
                            literal_text(r, type, value));
    if (bits != 16 && bits != 32 && bits != 64)
        return NULL;
    return arena_format(r->arena, "%smov.b%u %s, %s; ", guard, bits, name,
                        literal_text(r, PTX_TYPE_b64, value));
}

static enum rewrite_pass pass_of_result(const struct ptx_instr *at, bool known_sources)
{
    if (at->form->op == PTX_OP_mov && at->operands[1].kind == PTX_SPECIAL)
        return PASS_range;
    if (!known_sources)
        return PASS_range;
    for (unsigned i = 0; i < at->form->type_count; i++)
        if (ptx_types[at->form->types[i]].class == PTX_FLOAT && at->form->op != PTX_OP_mov)
            return PASS_fold_float;
    return PASS_fold_int;
}

/* Already as plain as it gets. */
static bool is_assignment(const struct ptx_instr *at)
{
    if (at->form->op == PTX_OP_mov)
        return at->operand_count == 2 && is_literal(&at->operands[1]);
    return at->form->op == PTX_OP_setp && at->operand_count == 3 && is_literal(&at->operands[1]) &&
           is_literal(&at->operands[2]);
}

static bool results(const struct rewriter *r, uint32_t instr, struct rewrite *out)
{
    const struct ptx_instr *at = &r->func->instrs[instr];
    const struct ptx_operand *to[PARTS_MAX];
    unsigned count = instr_results(at, to, PARTS_MAX);
    const char *text = "";
    bool all_known = true;
    if (!count || ptx_effects(at) || is_assignment(at))
        return false;
    for (unsigned i = 0; i < count && text; i++) {
        bool known;
        if (to[i]->kind == PTX_SINK)
            continue;
        struct range range = values_result(r->values, instr, i, &known);
        bool plain = to[i]->kind == PTX_REG && !to[i]->component && range_known(&range) &&
                     r->func->regs[to[i]->reg].decl->vector <= 1 &&
                     to[i]->reg != at->guard; /* the guard of the next one */
        const char *move = plain ? assigned(r, at, to[i], range.low) : NULL;
        text = move ? arena_format(r->arena, "%s%s", text, move) : NULL;
        all_known &= known;
    }
    return text && *text && finish(out, pass_of_result(at, all_known), text);
}

/* ---- copies ---- */

static const char *copy_text(const struct rewriter *r, const struct ptx_instr *at,
                             const struct ptx_operand *from)
{
    const struct ptx_operand *to = &at->operands[0];
    uint8_t type = r->func->regs[to->reg].type;
    unsigned bits = ptx_types[type].bits;
    if (to->kind != PTX_REG || to->component || (bits != 16 && bits != 32 && bits != 64))
        return NULL;
    if (from->kind == PTX_REG &&
        (from->component || ptx_types[r->func->regs[from->reg].type].bits != bits))
        return NULL;
    /* literals of floats are written as such; else the bits */
    bool real = fold_is_float(type) && from->kind != PTX_INT;
    if (from->kind != PTX_REG && fold_is_float(type) != (from->kind != PTX_INT))
        return NULL;
    if (from->kind == PTX_F64 && bits != 64)
        return NULL;
    return arena_format(r->arena, "%smov.%c%u %s, %s;", guard_text(r, at), real ? 'f' : 'b', bits,
                        source_text(r, to->begin, to->end), source_text(r, from->begin, from->end));
}

static bool selection(const struct rewriter *r, uint32_t instr, struct rewrite *out)
{
    const struct ptx_instr *at = &r->func->instrs[instr];
    if (at->form->op != PTX_OP_selp || at->operand_count != 4 || at->operands[0].kind != PTX_REG)
        return false;
    struct range by = values_source(r->values, instr, &at->operands[3], PTX_TYPE_pred);
    if (!range_known(&by))
        return false;
    const struct ptx_operand *from = &at->operands[by.low ? 1 : 2];
    if (from->kind != PTX_REG && !is_literal(from))
        return false;
    const char *text = copy_text(r, at, from);
    return text && finish(out, PASS_select, text);
}

/* The operand number that comes out unchanged; 0: none. */
static unsigned unchanged(const struct rewriter *r, uint32_t instr)
{
    const struct ptx_instr *at = &r->func->instrs[instr];
    const struct ptx_form *form = at->form;
    uint8_t type = form->types[0];
    bool lo = form->op == PTX_OP_mul && form->mod_count == 1 && form->mods[0] == PTX_MOD_lo;
    if (form->mod_count && !lo)
        return 0;
    struct range a = values_source(r->values, instr, &at->operands[1], fold_source_type(form, 0));
    struct range b = values_source(r->values, instr, &at->operands[2], fold_source_type(form, 1));
    uint64_t ones = bits_mask(ptx_types[type].bits);
    bool known_a = range_known(&a), known_b = range_known(&b);
    switch (form->op) {
    case PTX_OP_add:
    case PTX_OP_or:
    case PTX_OP_xor:
        return known_b && !b.low ? 1 : known_a && !a.low ? 2 : 0;
    case PTX_OP_and:
        return known_b && b.low == ones ? 1 : known_a && a.low == ones ? 2 : 0;
    case PTX_OP_sub:
    case PTX_OP_shl:
    case PTX_OP_shr:
        return known_b && !b.low ? 1 : 0;
    case PTX_OP_mul:
        return known_b && b.low == 1 ? 1 : known_a && a.low == 1 ? 2 : 0;
    case PTX_OP_div:
        return known_b && b.low == 1 ? 1 : 0;
    case PTX_OP_rem: /* of less than the divisor */
        return a.some && b.some && a.high < b.low && b.high <= ones >> 1 ? 1 : 0;
    default:
        return 0;
    }
}

static bool identity(const struct rewriter *r, uint32_t instr, struct rewrite *out)
{
    const struct ptx_instr *at = &r->func->instrs[instr];
    uint8_t class = at->form->type_count == 1 ? ptx_types[at->form->types[0]].class : PTX_OPAQUE;
    if (at->operand_count != 3 || class < PTX_BITS || class > PTX_SIGNED ||
        at->operands[0].kind != PTX_REG || ptx_effects(at))
        return false;
    unsigned index = unchanged(r, instr);
    if (!index || at->operands[index].kind != PTX_REG)
        return false;
    const char *text = copy_text(r, at, &at->operands[index]);
    return text && finish(out, PASS_identity, text);
}

/* ---- reading through copies ---- */

/* The operand that `operand` is a copy of; NULL: none that still holds the same. */
static const struct ptx_operand *copied(const struct rewriter *r, uint32_t instr,
                                        const struct ptx_operand *operand)
{
    uint32_t value = graph_operand(r->graph, instr, operand);
    const struct graph_value *of = &r->graph->values[value];
    if (value == GRAPH_UNKNOWN || of->kind != VALUE_WRITE || of->may || of->instr == GRAPH_NONE)
        return NULL;
    const struct ptx_instr *def = &r->func->instrs[of->instr];
    if (def->form->op != PTX_OP_mov || def->opaque || def->operand_count != 2 ||
        def->form->mod_count || def->operands[1].kind != PTX_REG || def->operands[1].component ||
        def->operands[1].negated || def->operands[0].kind != PTX_REG ||
        def->operands[0].component || def->guard != PTX_NO_REG ||
        def->scope != r->func->instrs[instr].scope)
        return NULL;
    const struct ptx_operand *from = &def->operands[1];
    const struct graph_value *source = &r->graph->values[graph_operand(r->graph, of->instr, from)];
    if (source->kind != VALUE_WRITE || source->may ||
        r->func->regs[from->reg].type != r->func->regs[operand->reg].type ||
        r->values->writes[from->reg] != 1)
        return NULL;
    return from;
}

static bool read_through(const struct rewriter *r, uint32_t instr, struct rewrite *out)
{
    const struct ptx_instr *at = &r->func->instrs[instr];
    if (at->form->op == PTX_OP_call || at->form->op == PTX_OP_mov)
        return false;
    for (unsigned i = 0; i < at->operand_count; i++) {
        const struct ptx_operand *operand = &at->operands[i];
        if (operand->kind != PTX_REG || operand->component || operand->negated ||
            ptx_role(at, i) != 's')
            continue;
        const struct ptx_operand *from = copied(r, instr, operand);
        if (!from)
            continue;
        const char *head = source_text(r, at->place.begin, operand->begin);
        const char *tail = source_text(r, operand->end, at->place.end);
        const char *text =
            arena_format(r->arena, "%s%s%s", head, source_text(r, from->begin, from->end), tail);
        return text && finish(out, PASS_copy, text);
    }
    return false;
}

/* ---- what nobody reads ---- */

/* A .func may hand a register to its caller. */
static bool is_result(const struct ptx_func *func, uint32_t reg)
{
    for (uint32_t i = 0; i < func->result_count; i++)
        if (func->results[i]->is_register && func->results[i]->reg == reg)
            return true;
    return false;
}

static bool dead(const struct rewriter *r, uint32_t instr, struct rewrite *out)
{
    const struct ptx_instr *at = &r->func->instrs[instr];
    const struct graph *graph = r->graph;
    uint32_t first = graph->write_first[instr], end = graph->read_first[instr + 1];
    bool reads_param = at->form->op == PTX_OP_ld && at->form->space == PTX_SPACE_param;
    if (first == end || (ptx_effects(at) && !reads_param) || at->form->op == PTX_OP_alloca ||
        at->form->op == PTX_OP_stacksave)
        return false;
    for (uint32_t i = first; i < end; i++)
        if (graph->refs[i].value == GRAPH_UNKNOWN || is_result(r->func, graph->refs[i].reg) ||
            graph->values[graph->refs[i].value].user_count)
            return false;
    return finish(out, PASS_dead, "");
}

bool rewrite_common(const struct rewriter *r, uint32_t instr, struct rewrite *out)
{
    static rewrite_row *const rows[] = {unreachable,    guard,         results,
                                        selection,      rewrite_float, identity,
                                        rewrite_divide, dead,          read_through};
    const struct ptx_instr *at = &r->func->instrs[instr];
    if (at->place.end - at->place.begin > TEXT_MAX)
        return false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (i && (at->opaque || at->opaque_text || names_ours(r, at)))
            return false;
        if (rows[i](r, instr, out) && out->text)
            return true;
    }
    return false;
}
