/* Conditions: what setp and its like compute, and the inequalities that hold where a branch or a
 * guard lets a thread pass. An unknown condition gives no fact. */
#include "reach_parts.h"

enum { COND_DEPTH = 8 };

static const struct cond *make(struct reaching *r, enum cond_kind kind, const struct form *form,
                               const struct cond *a, const struct cond *b)
{
    struct cond *out = arena_alloc(r->arena, sizeof *out);
    if (!out) {
        r->affine.failed = true;
        return NULL;
    }
    *out = (struct cond){(uint8_t)kind, form ? form_keep(&r->affine, form) : NULL, a, b};
    return form && !out->form ? NULL : out;
}

static const struct cond *combine(struct reaching *r, enum cond_kind kind, const struct cond *a,
                                  const struct cond *b)
{
    static const struct cond unknown = {COND_UNKNOWN, NULL, NULL, NULL};
    if (!a && !b)
        return NULL;
    return make(r, kind, NULL, a ? a : &unknown, b ? b : &unknown);
}

static const struct cond *negate(struct reaching *r, const struct cond *cond, unsigned depth)
{
    struct form form = form_of(1);
    if (!cond || depth > COND_DEPTH)
        return NULL;
    switch (cond->kind) {
    case COND_LE: /* f <= 0; else 1 - f <= 0 */
        return form_add(&form, cond->form, -1, &form) ? make(r, COND_LE, &form, NULL, NULL) : NULL;
    case COND_EQ:
        return make(r, COND_NE, cond->form, NULL, NULL);
    case COND_NE:
        return make(r, COND_EQ, cond->form, NULL, NULL);
    case COND_AND:
    case COND_OR:
        return combine(r, cond->kind == COND_AND ? COND_OR : COND_AND,
                       negate(r, cond->a, depth + 1), negate(r, cond->b, depth + 1));
    default:
        return NULL;
    }
}

/* ---- comparisons ----------------------------------------------------------------------------- */

struct compare {
    enum ptx_mod mod; /* lt, le, gt, ge, eq, ne */
    bool is_unsigned;
};

static bool compare_of(const struct ptx_form *form, struct compare *out)
{
    static const struct {
        enum ptx_mod mod, plain;
        bool is_unsigned;
    } table[] = {
        {PTX_MOD_eq, PTX_MOD_eq, false}, {PTX_MOD_ne, PTX_MOD_ne, false},
        {PTX_MOD_lt, PTX_MOD_lt, false}, {PTX_MOD_le, PTX_MOD_le, false},
        {PTX_MOD_gt, PTX_MOD_gt, false}, {PTX_MOD_ge, PTX_MOD_ge, false},
        {PTX_MOD_lo, PTX_MOD_lt, true},  {PTX_MOD_ls, PTX_MOD_le, true},
        {PTX_MOD_hi, PTX_MOD_gt, true},  {PTX_MOD_hs, PTX_MOD_ge, true},
    };
    if (!form->mod_count || !form->type_count)
        return false;
    uint8_t class = ptx_types[form->types[0]].class;
    if (class != PTX_BITS && class != PTX_SIGNED && class != PTX_UNSIGNED)
        return false;
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].mod == form->mods[0]) {
            *out = (struct compare){table[i].plain, table[i].is_unsigned || class != PTX_SIGNED};
            return true;
        }
    return false;
}

static bool fits(struct reaching *r, const struct form *form, struct range type)
{
    struct range range = form_range(&r->affine, form, false);
    if (range.low < type.low || range.high > type.high)
        range = form_bound(&r->affine, form, r->now, false, EFFORT_FIT);
    return range.low >= type.low && range.high <= type.high;
}

/* An unsigned a < b or a <= b where a may be negative, seen as signed: then it is huge, and the
 * comparison fails if b is no larger than the largest signed number. */
static const struct cond *below(struct reaching *r, struct form *a, struct form *b, unsigned bits,
                                bool or_equal)
{
    struct range positive = {0, ((wide_int)1 << (bits - 1)) - 1};
    struct form less, minus;
    if (!fits(r, a, reach_type_range(bits, true)) || !fits(r, b, positive) ||
        !form_add(a, b, -1, &less) || !form_scale(a, -1, &minus))
        return NULL;
    less.constant += !or_equal;
    return combine(r, COND_AND, make(r, COND_LE, &less, NULL, NULL),
                   make(r, COND_LE, &minus, NULL, NULL));
}

static const struct cond *compare(struct reaching *r, const struct ptx_instr *instr)
{
    struct compare kind;
    struct form a, b, d;
    if (!compare_of(instr->form, &kind))
        return NULL;
    unsigned bits = reach_bits(instr->form, 0);
    reach_operand(r, &instr->operands[1], 1, &a);
    reach_operand(r, &instr->operands[2], 2, &b);
    bool equality = kind.mod == PTX_MOD_eq || kind.mod == PTX_MOD_ne;
    struct range type = reach_type_range(bits, !kind.is_unsigned);
    bool swapped = kind.mod == PTX_MOD_gt || kind.mod == PTX_MOD_ge;
    bool or_equal = kind.mod == PTX_MOD_le || kind.mod == PTX_MOD_ge;
    if (equality && !(fits(r, &a, type) && fits(r, &b, type)))
        type = reach_type_range(bits, kind.is_unsigned);
    if (!r->symbolic && !equality && kind.is_unsigned && bits <= 64 &&
        !(fits(r, &a, type) && fits(r, &b, type))) {
        /* a > b is b < a; where the larger side may be negative, its opposite is looked at */
        const struct cond *cond = swapped ? negate(r, below(r, &a, &b, bits, !or_equal), 0)
                                          : below(r, &a, &b, bits, or_equal);
        if (cond)
            return cond;
    }
    reach_typed(r, &a, bits, type.low < 0, 1, &a);
    reach_typed(r, &b, bits, type.low < 0, 2, &b);
    if (!form_add(swapped ? &b : &a, swapped ? &a : &b, -1, &d))
        return NULL;
    if (equality)
        return make(r, kind.mod == PTX_MOD_eq ? COND_EQ : COND_NE, &d, NULL, NULL);
    if (!or_equal && __builtin_add_overflow(d.constant, 1, &d.constant))
        return NULL;
    return make(r, COND_LE, &d, NULL, NULL);
}

/* Comparisons that a predicate is made of, as they stand, whether or not anything wraps: for
 * guesses. */
void reach_comparisons(struct reaching *r, uint32_t value, unsigned depth,
                       void (*each)(struct reaching *r, const struct form *difference,
                                    bool or_equal, uint32_t self),
                       uint32_t self)
{
    uint32_t instr = value == GRAPH_UNKNOWN ? GRAPH_NONE : graph_def(r->graph, value);
    if (instr == GRAPH_NONE || depth > 3)
        return;
    const struct ptx_instr *at = &r->func->instrs[instr];
    struct compare kind;
    struct form a, b;
    r->instr = instr;
    r->block = r->graph->block_of[instr];
    if (at->form->op != PTX_OP_setp) {
        for (unsigned i = 1; i < at->operand_count; i++)
            if (at->operands[i].kind == PTX_REG)
                reach_comparisons(r, graph_operand(r->graph, instr, &at->operands[i]), depth + 1,
                                  each, self);
        return;
    }
    if (at->operand_count < 3 || !compare_of(at->form, &kind) || kind.mod == PTX_MOD_eq ||
        kind.mod == PTX_MOD_ne)
        return;
    reach_operand(r, &at->operands[1], 1, &a);
    reach_operand(r, &at->operands[2], 2, &b);
    /* a < b and its opposite a >= b draw the line at one place, a <= b and a > b at another */
    if (form_add(&a, &b, -1, &a))
        each(r, &a, kind.mod == PTX_MOD_le || kind.mod == PTX_MOD_gt, self);
}

const struct cond *reach_predicate(struct reaching *r, uint32_t instr, uint32_t reg)
{
    uint32_t value = graph_read(r->graph, instr, reg);
    return value == GRAPH_UNKNOWN ? NULL : r->values[value].cond;
}

static const struct cond *operand_cond(struct reaching *r, const struct ptx_operand *operand)
{
    struct form form = form_of(operand->kind == PTX_INT && operand->bits ? 0 : 1);
    if (operand->kind == PTX_INT) /* true or false: 0 <= 0, 1 <= 0 */
        return make(r, COND_LE, &form, NULL, NULL);
    if (operand->kind != PTX_REG || operand->reg == PTX_NO_REG)
        return NULL;
    const struct cond *cond = reach_predicate(r, r->instr, operand->reg);
    return operand->negated ? negate(r, cond, 0) : cond;
}

static const struct cond *set_predicate(struct reaching *r, const struct ptx_instr *instr)
{
    if (instr->operands[0].kind != PTX_REG)
        return NULL; /* p|q: seldom, and q is another thing */
    const struct cond *cond = compare(r, instr);
    if (instr->operand_count < 4)
        return cond;
    const struct cond *other = operand_cond(r, &instr->operands[3]);
    if (ptx_has(instr->form, PTX_MOD_and))
        return combine(r, COND_AND, cond, other);
    return ptx_has(instr->form, PTX_MOD_or) ? combine(r, COND_OR, cond, other) : NULL;
}

const struct cond *reach_cond(struct reaching *r, const struct ptx_instr *instr)
{
    const struct ptx_operand *o = instr->operands;
    unsigned count = instr->operand_count;
    switch (instr->form->op) {
    case PTX_OP_setp:
        return count >= 3 ? set_predicate(r, instr) : NULL;
    case PTX_OP_mov:
        return count >= 2 ? operand_cond(r, &o[1]) : NULL;
    case PTX_OP_not:
        return count >= 2 ? negate(r, operand_cond(r, &o[1]), 0) : NULL;
    case PTX_OP_and:
    case PTX_OP_or:
        return count >= 3 ? combine(r, instr->form->op == PTX_OP_and ? COND_AND : COND_OR,
                                    operand_cond(r, &o[1]), operand_cond(r, &o[2]))
                          : NULL;
    default:
        return NULL;
    }
}

/* ---- facts ----------------------------------------------------------------------------------- */

/* Where the new fact cannot be true, nobody comes. */
static const struct fact *add(struct reaching *r, const struct form *form, bool equal,
                              const struct fact *facts)
{
    if (form_impossible(&r->affine, form, facts, EFFORT_FIT))
        return fact_never(&r->affine);
    return fact_add(&r->affine, form, GRAPH_NONE, equal, facts);
}

static const struct fact *assume(struct reaching *r, const struct cond *cond, bool wanted,
                                 const struct fact *facts, unsigned depth)
{
    struct form form = form_of(1), minus;
    if (!cond || depth > COND_DEPTH || facts_never(facts))
        return facts;
    bool equal = (cond->kind == COND_EQ) == wanted;
    switch (cond->kind) {
    case COND_LE:
        if (wanted ? form_scale(cond->form, 1, &form) : form_add(&form, cond->form, -1, &form))
            facts = add(r, &form, false, facts);
        return facts;
    case COND_EQ:
    case COND_NE:
        if (!form_scale(cond->form, 1, &form) || !form_scale(cond->form, -1, &minus))
            return facts;
        if (equal) {
            facts = add(r, &minus, false, facts);
            return add(r, &form, true, facts);
        }
        if (form_proven(&r->affine, &minus, facts, EFFORT_FACT)) /* 0 <= f, so 1 <= f */
            form = minus;
        else if (!form_proven(&r->affine, &form, facts, EFFORT_FACT))
            return facts;
        return __builtin_add_overflow(form.constant, 1, &form.constant)
                   ? facts
                   : add(r, &form, false, facts);
    case COND_AND:
    case COND_OR:
        if ((cond->kind == COND_AND) != wanted)
            return facts;
        facts = assume(r, cond->a, wanted, facts, depth + 1);
        return assume(r, cond->b, wanted, facts, depth + 1);
    default:
        return facts;
    }
}

const struct fact *reach_assume(struct reaching *r, const struct cond *cond, bool wanted,
                                const struct fact *facts)
{
    return assume(r, cond, wanted, facts, 0);
}

const struct fact *reach_edge(struct reaching *r, uint32_t from, uint32_t to)
{
    const struct graph_block *block = &r->graph->blocks[from];
    const struct fact *facts = r->facts[from];
    if (block->ends == GRAPH_FALLS || !block->guarded || block->end == block->first)
        return facts;
    const struct ptx_instr *last = &r->func->instrs[block->end - 1];
    bool branch =
        block->ends == GRAPH_BRANCHES && last->form->op == PTX_OP_bra && block->succ_count == 2;
    bool leaves = block->ends == GRAPH_RETURNS && to != r->graph->exit &&
                  (last->form->op == PTX_OP_ret || last->form->op == PTX_OP_exit);
    if ((!branch && !leaves) || last->guard == PTX_NO_REG)
        return facts;
    bool taken = branch && block->succs[0] == to;
    return reach_assume(r, reach_predicate(r, block->end - 1, last->guard),
                        taken != last->guard_negated, facts);
}

const struct fact *reach_at(struct reaching *r, uint32_t instr)
{
    const struct ptx_instr *at = &r->func->instrs[instr];
    const struct fact *facts = r->facts[r->graph->block_of[instr]];
    if (at->guard == PTX_NO_REG)
        return facts;
    return reach_assume(r, reach_predicate(r, instr, at->guard), !at->guard_negated, facts);
}
