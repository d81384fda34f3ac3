/* Before anything else: takes from ptxas what it would do to constants, or to code that constants
 * make simpler, and not to the original. It fuses a product without a rounding of its own where all
 * that read it are sums, and only there; it multiplies known numbers and rounds where it would have
 * fused; it drops x * 1.0 and with that the quieting of a NaN; and of known numbers it computes
 * approximate operations otherwise than the GPU does. (Seen in what ptxas 13.0 makes;
 * another one may decide otherwise, which verification is there to find.) */
#include "passes.h"

enum { FOLLOWED_MAX = 64 };

static bool is_product(const struct ptx_form *form)
{
    return form->op == PTX_OP_mul && form->type_count == 1 &&
           ptx_types[form->types[0]].class == PTX_FLOAT &&
           form->mod_count == ptx_has(form, PTX_MOD_ftz);
}

struct uses {
    bool sum, other; /* read by a sum, perhaps through copies and signs; by anything else */
    bool full;       /* too many, or not known */
};

static void follow(const struct rewriter *r, uint32_t value, struct uses *out)
{
    uint32_t pending[FOLLOWED_MAX] = {value}, count = 1;
    for (uint32_t at = 0; at < count; at++) {
        const struct graph_value *of = &r->graph->values[pending[at]];
        out->full |= pending[at] == GRAPH_UNKNOWN;
        for (uint32_t i = 0; i < of->user_count; i++) {
            uint32_t user = of->users[i].instr;
            unsigned op = user == GRAPH_NONE ? PTX_OP_unknown : r->func->instrs[user].form->op;
            bool sum = op == PTX_OP_add || op == PTX_OP_sub;
            bool through = op == PTX_OP_mov || op == PTX_OP_neg;
            out->sum |= sum;
            out->other |= !sum && !through;
            for (uint32_t k = through ? r->graph->write_first[user] : UINT32_MAX;
                 through && k < r->graph->read_first[user + 1]; k++) {
                if (count == FOLLOWED_MAX)
                    out->full = true;
                else
                    pending[count++] = r->graph->refs[k].value;
            }
        }
    }
}

/* "mul.f64" becomes "mul.rn.f64": the same number, never fused. */
static bool round_it(const struct rewriter *r, const struct ptx_instr *at, struct rewrite *out)
{
    const char *text = r->source + at->place.begin;
    size_t size = at->place.end - at->place.begin;
    size_t skip = at->guard == PTX_NO_REG ? 0 : guard_size(text, size);
    if ((at->guard != PTX_NO_REG && !skip) || size - skip < 4 || memcmp(text + skip, "mul.", 4))
        return false;
    out->pass = PASS_rounded;
    out->text = arena_format(r->arena, "%.*smul.rn.%.*s", (int)skip, text, (int)(size - skip - 4),
                             text + skip + 4);
    return out->text != NULL;
}

/* The last operand becomes a number that ptxas cannot see: or-ed with a zero made of %nctaid, whose
 * value only the guard knows. */
static bool hide_last(const struct rewriter *r, const struct ptx_instr *at, uint64_t value,
                      struct rewrite *out)
{
    const struct kg_launch *launch = r->values->launch;
    const struct ptx_operand *to = &at->operands[0], *left = &at->operands[1];
    bool wide = at->form->types[0] == PTX_TYPE_f64, two = at->operand_count == 3;
    if (!launch || names_ours(r, at))
        return false;
    out->pass = PASS_hidden;
    out->text = arena_format(
        r->arena,
        "{ .reg .b32 %%kgz, %%kgl, %%kgh; .reg .f%s %%kgt; mov.u32 %%kgz, %%nctaid.x; "
        "xor.b32 %%kgz, %%kgz, 0x%X; or.b32 %%kgl, %%kgz, 0x%X; or.b32 %%kgh, %%kgz, 0x%X; %s; "
        "%s%s %s, %s%s%%kgt; }",
        wide ? "64" : "32", launch->grid.x, (uint32_t)value, (uint32_t)(value >> 32),
        wide ? "mov.b64 %kgt, {%kgl, %kgh}" : "mov.b32 %kgt, %kgl", guard_text(r, at),
        at->form->text, source_text(r, to->begin, to->end),
        two ? source_text(r, left->begin, left->end) : "", two ? ", " : "");
    return out->text != NULL;
}

/* What the GPU computes in its own way, and ptxas, of known numbers, in another. */
static bool is_approximate(const struct ptx_form *form)
{
    switch (form->op) {
    case PTX_OP_ex2:
    case PTX_OP_lg2:
    case PTX_OP_sin:
    case PTX_OP_cos:
    case PTX_OP_tanh:
    case PTX_OP_rsqrt:
        return true;
    case PTX_OP_rcp:
    case PTX_OP_sqrt:
    case PTX_OP_div:
        return ptx_has(form, PTX_MOD_approx) || ptx_has(form, PTX_MOD_full);
    default:
        return false;
    }
}

static bool settle_approximate(const struct rewriter *r, uint32_t instr, struct rewrite *out)
{
    const struct ptx_instr *at = &r->func->instrs[instr];
    struct range last = {0};
    if (at->form->type_count != 1 || !fold_is_float(at->form->types[0]) || at->operand_count < 2 ||
        at->operand_count > 3)
        return false;
    for (unsigned i = 1; i < at->operand_count; i++) {
        last = values_source(r->values, instr, &at->operands[i], at->form->types[0]);
        if (!range_known(&last))
            return false;
    }
    return hide_last(r, at, last.low, out);
}

bool rewrite_settle(const struct rewriter *r, uint32_t instr, struct rewrite *out)
{
    const struct ptx_instr *at = &r->func->instrs[instr];
    struct uses uses = {false, false, false};
    if (at->opaque || at->opaque_text || !at->operand_count || at->operands[0].kind != PTX_REG ||
        at->operands[0].component)
        return false;
    if (is_approximate(at->form))
        return settle_approximate(r, instr, out);
    if (at->operand_count != 3 || !is_product(at->form))
        return false;
    uint8_t type = at->form->types[0];
    follow(r, graph_write(r->graph, instr, at->operands[0].reg), &uses);
    struct range a = {0}, b = {0};
    if (fold_is_float(type)) {
        a = values_source(r->values, instr, &at->operands[1], type);
        b = values_source(r->values, instr, &at->operands[2], type);
    }
    bool known_a = range_known(&a), known_b = range_known(&b);
    uint64_t one = type == PTX_TYPE_f64 ? 0x3ff0000000000000 : 0x3f800000;
    uint64_t sign = UINT64_C(1) << (ptx_types[type].bits - 1);
    /* x * 1.0 + y is x + y rounded once, fused or not */
    if ((known_a && (a.low | sign) == (one | sign)) || (known_b && (b.low | sign) == (one | sign)))
        return round_it(r, at, out);
    if (known_a && known_b && !uses.other && (uses.sum || uses.full))
        return hide_last(r, at, b.low, out);
    return uses.other && !uses.full && round_it(r, at, out);
}
