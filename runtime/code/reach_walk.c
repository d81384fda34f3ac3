/* One thread of a launch, executed as far as its parameters and numbers determine it: what memory
 * holds is unknown, and what depends on it too. A branch on something unknown is passed over to
 * where its ways meet again, and what is written on these ways is unknown after it. So the accesses
 * that are reported are those that the thread makes whatever memory holds, as long as the kernel
 * ends. It is a second opinion too: it shares no arithmetic with the forms. */
#include "reach_parts.h"

enum { STEPS_MAX = 100000, ALL_STEPS_MAX = 1000000 };

__extension__ typedef unsigned __int128 wide_bits;

/* bits, plus the address of base if that is not NULL. */
struct word {
    uint64_t bits;
    const void *base; /* a ptx_var, or a byte of pointer_words; NULL: none */
    bool known;
};

struct walk {
    struct reaching *r;
    struct word *regs;
    const uint32_t *tid, *ctaid;
    void (*touch)(void *self, const struct walk_touch *touch);
    void *self;
    bool whole; /* nothing was passed over */
};

static const struct word unknown_word = {0, NULL, false};

static struct word word_of(uint64_t bits)
{
    return (struct word){bits, NULL, true};
}

static uint64_t cut(uint64_t bits, unsigned width)
{
    return width >= 64 ? bits : bits & (((uint64_t)1 << width) - 1);
}

static int64_t extend(uint64_t bits, unsigned width)
{
    if (!width)
        return 0;
    return width >= 64 ? (int64_t)bits : (int64_t)(bits << (64 - width)) >> (64 - width);
}

/* ---- operands -------------------------------------------------------------------------------- */

static struct word special(struct walk *walk, const struct ptx_operand *operand)
{
    const struct kg_launch *launch = walk->r->launch->launch;
    const uint32_t block[3] = {launch->block.x, launch->block.y, launch->block.z};
    const uint32_t grid[3] = {launch->grid.x, launch->grid.y, launch->grid.z};
    unsigned i = operand->component - 1u;
    if (operand->special == PTX_SR_laneid)
        return word_of((walk->tid[0] +
                        (uint64_t)block[0] * (walk->tid[1] + (uint64_t)block[1] * walk->tid[2])) %
                       32);
    if (i > 2)
        return unknown_word;
    switch (operand->special) {
    case PTX_SR_tid:
        return word_of(walk->tid[i]);
    case PTX_SR_ntid:
        return word_of(block[i]);
    case PTX_SR_ctaid:
        return word_of(walk->ctaid[i]);
    case PTX_SR_nctaid:
        return word_of(grid[i]);
    default:
        return unknown_word;
    }
}

static struct word operand_word(struct walk *walk, const struct ptx_operand *operand)
{
    switch (operand->kind) {
    case PTX_REG:
        if (operand->component || operand->reg >= walk->r->func->reg_count)
            return unknown_word;
        struct word out = walk->regs[operand->reg];
        out.bits ^= operand->negated;
        return out;
    case PTX_INT:
        return word_of(operand->bits);
    case PTX_SPECIAL:
        return special(walk, operand);
    case PTX_SYMBOL:
        return operand->var ? (struct word){(uint64_t)operand->offset, operand->var, true}
                            : unknown_word;
    default:
        return unknown_word;
    }
}

static struct word address_word(struct walk *walk, const struct ptx_operand *operand)
{
    struct word out = unknown_word;
    if (operand->kind != PTX_ADDRESS)
        return out;
    if (operand->reg != PTX_NO_REG && operand->reg < walk->r->func->reg_count)
        out = walk->regs[operand->reg];
    else if (operand->var)
        out = (struct word){0, operand->var, true};
    out.bits += (uint64_t)operand->offset;
    return out;
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

static struct word product(const struct ptx_form *form, struct word a, struct word b)
{
    unsigned bits = reach_bits(form, 0);
    bool is_signed = reach_is_signed(form, 0), narrow = false;
    if (form->op == PTX_OP_mul24 || form->op == PTX_OP_mad24)
        narrow = true;
    unsigned taken = narrow ? 24 : bits;
    wide_int x = is_signed ? (wide_int)extend(a.bits, taken) : (wide_int)cut(a.bits, taken);
    wide_int y = is_signed ? (wide_int)extend(b.bits, taken) : (wide_int)cut(b.bits, taken);
    wide_bits all = (wide_bits)x * (wide_bits)y;
    if (narrow && ptx_has(form, PTX_MOD_hi))
        return unknown_word;
    if (ptx_has(form, PTX_MOD_hi))
        return word_of(cut((uint64_t)(all >> bits), bits));
    return word_of(cut((uint64_t)all, ptx_has(form, PTX_MOD_wide) ? 2 * bits : bits));
}

static struct word quotient(const struct ptx_form *form, struct word a, struct word b)
{
    unsigned bits = reach_bits(form, 0);
    bool rest = form->op == PTX_OP_rem;
    if (!cut(b.bits, bits))
        return unknown_word;
    if (!reach_is_signed(form, 0)) {
        uint64_t x = cut(a.bits, bits), y = cut(b.bits, bits);
        return word_of(rest ? x % y : x / y);
    }
    int64_t x = extend(a.bits, bits), y = extend(b.bits, bits);
    if (y == -1)
        return word_of(rest ? 0 : cut(0 - (uint64_t)x, bits));
    return word_of(cut((uint64_t)(rest ? x % y : x / y), bits));
}

static struct word shifted(const struct ptx_form *form, struct word a, struct word b)
{
    unsigned bits = reach_bits(form, 0);
    uint64_t places = (uint32_t)b.bits;
    if (form->op == PTX_OP_shl)
        return word_of(places >= bits ? 0 : cut(a.bits << places, bits));
    if (reach_is_signed(form, 0))
        return word_of(
            cut((uint64_t)(extend(a.bits, bits) >> (places >= bits ? bits - 1 : places)), bits));
    return word_of(places >= bits ? 0 : cut(a.bits, bits) >> places);
}

static bool less(const struct ptx_form *form, struct word a, struct word b)
{
    unsigned bits = reach_bits(form, 0);
    return reach_is_signed(form, 0) ? extend(a.bits, bits) < extend(b.bits, bits)
                                    : cut(a.bits, bits) < cut(b.bits, bits);
}

static struct word binary(const struct ptx_form *form, struct word a, struct word b)
{
    unsigned bits = reach_bits(form, 0);
    switch (form->op) {
    case PTX_OP_add:
        if ((a.base && b.base) || ptx_has(form, PTX_MOD_sat))
            return unknown_word;
        return (struct word){cut(a.bits + b.bits, bits), a.base ? a.base : b.base, true};
    case PTX_OP_sub:
        if ((b.base && a.base != b.base) || ptx_has(form, PTX_MOD_sat))
            return unknown_word;
        return (struct word){cut(a.bits - b.bits, bits), b.base ? NULL : a.base, true};
    default:
        break;
    }
    if (a.base || b.base)
        return unknown_word;
    switch (form->op) {
    case PTX_OP_mul:
    case PTX_OP_mul24:
        return product(form, a, b);
    case PTX_OP_div:
    case PTX_OP_rem:
        return quotient(form, a, b);
    case PTX_OP_and:
        return word_of(cut(a.bits & b.bits, bits));
    case PTX_OP_or:
        return word_of(cut(a.bits | b.bits, bits));
    case PTX_OP_xor:
        return word_of(cut(a.bits ^ b.bits, bits));
    case PTX_OP_shl:
    case PTX_OP_shr:
        return shifted(form, a, b);
    case PTX_OP_min:
        return word_of(cut(less(form, a, b) ? a.bits : b.bits, bits));
    case PTX_OP_max:
        return word_of(cut(less(form, a, b) ? b.bits : a.bits, bits));
    default:
        return unknown_word;
    }
}

static struct word converted(const struct ptx_form *form, struct word a)
{
    if (form->type_count != 2 || ptx_has(form, PTX_MOD_sat) ||
        ptx_types[form->types[0]].class == PTX_FLOAT ||
        ptx_types[form->types[1]].class == PTX_FLOAT)
        return unknown_word;
    unsigned to = reach_bits(form, 0), from = reach_bits(form, 1);
    if (a.base)
        return to == 64 && from == 64 ? a : unknown_word;
    uint64_t bits = reach_is_signed(form, 1) ? (uint64_t)extend(a.bits, from) : cut(a.bits, from);
    /* A narrow result fills its register. */
    bits = reach_is_signed(form, 0) ? (uint64_t)extend(bits, to) : cut(bits, to);
    return word_of(bits);
}

static struct word unary(const struct ptx_form *form, struct word a)
{
    unsigned bits = reach_bits(form, 0);
    if (form->op == PTX_OP_mov || form->op == PTX_OP_cvta)
        return a;
    if (form->op == PTX_OP_cvt)
        return converted(form, a);
    if (a.base)
        return unknown_word;
    int64_t value = extend(a.bits, bits);
    switch (form->op) {
    case PTX_OP_neg:
        return word_of(cut(0 - a.bits, bits));
    case PTX_OP_not:
        return word_of(cut(~a.bits, bits));
    case PTX_OP_abs:
        return word_of(cut(value < 0 ? 0 - (uint64_t)value : (uint64_t)value, bits));
    case PTX_OP_popc:
        return word_of((uint64_t)__builtin_popcountll(cut(a.bits, bits)));
    case PTX_OP_clz:
        return word_of(
            cut(a.bits, bits) ? (uint64_t)__builtin_clzll(cut(a.bits, bits)) - (64 - bits) : bits);
    default:
        return unknown_word;
    }
}

static struct word field(const struct ptx_form *form, struct word a, struct word b, struct word c)
{
    unsigned bits = reach_bits(form, 0);
    uint64_t at = b.bits & 255, count = c.bits & 255;
    if (reach_is_signed(form, 0) || a.base || b.base || c.base || at >= bits || at + count > bits)
        return unknown_word;
    return word_of(count ? cut(cut(a.bits, bits) >> at, (unsigned)count) : 0);
}

static struct word comparison(struct walk *walk, const struct ptx_instr *instr)
{
    const struct ptx_form *form = instr->form;
    struct word a = operand_word(walk, &instr->operands[1]);
    struct word b = operand_word(walk, &instr->operands[2]);
    if (!a.known || !b.known || a.base != b.base || !form->mod_count ||
        instr->operands[0].kind != PTX_REG || ptx_types[form->types[0]].class == PTX_FLOAT ||
        ptx_types[form->types[0]].class == PTX_PRED)
        return unknown_word;
    unsigned bits = reach_bits(form, 0);
    bool below = less(form, a, b), same = cut(a.bits, bits) == cut(b.bits, bits), result;
    bool lower = cut(a.bits, bits) < cut(b.bits, bits);
    switch (form->mods[0]) {
    case PTX_MOD_eq:
        result = same;
        break;
    case PTX_MOD_ne:
        result = !same;
        break;
    case PTX_MOD_lt:
        result = below;
        break;
    case PTX_MOD_le:
        result = below || same;
        break;
    case PTX_MOD_gt:
        result = !below && !same;
        break;
    case PTX_MOD_ge:
        result = !below;
        break;
    case PTX_MOD_lo:
        result = lower;
        break;
    case PTX_MOD_ls:
        result = lower || same;
        break;
    case PTX_MOD_hi:
        result = !lower && !same;
        break;
    case PTX_MOD_hs:
        result = !lower;
        break;
    default:
        return unknown_word;
    }
    if (instr->operand_count > 3) {
        struct word c = operand_word(walk, &instr->operands[3]);
        if (!c.known)
            return unknown_word;
        result = ptx_has(form, PTX_MOD_and)  ? result && (c.bits & 1)
                 : ptx_has(form, PTX_MOD_or) ? result || (c.bits & 1)
                                             : result != (c.bits & 1);
    }
    return word_of(result);
}

/* ---- instructions ---------------------------------------------------------------------------- */

static struct word parameter(struct walk *walk, const struct ptx_instr *instr, unsigned part)
{
    struct reaching *r = walk->r;
    unsigned bits = reach_bits(instr->form, 0), bytes = bits / 8;
    struct word from = address_word(walk, &instr->operands[1]);
    const struct ptx_var *var = from.base;
    if (!from.known || !var || bytes < 1 || bytes > 8)
        return unknown_word;
    bool mine = false;
    for (uint32_t i = 0; i < r->func->param_count; i++)
        mine |= r->func->params[i] == var;
    uint64_t offset = from.bits + (uint64_t)part * bytes;
    if (!mine || offset > var->size || bytes > var->size - offset)
        return unknown_word;
    uint64_t at = var->offset + offset, value = 0;
    if (at + bytes > r->launch->param_bytes)
        return unknown_word;
    if (bytes == 8 && r->pointer_words[at])
        return (struct word){0, &r->pointer_words[at], true};
    for (uint64_t b = at < 7 ? 0 : at - 7; b < at + bytes; b++)
        if (r->pointer_words[b])
            return unknown_word;
    memcpy(&value, r->launch->params + at, bytes);
    return word_of(reach_is_signed(instr->form, 0) ? (uint64_t)extend(value, bits) : value);
}

static void write_word(struct walk *walk, const struct ptx_operand *to, struct word value)
{
    if (to->kind == PTX_REG && to->reg < walk->r->func->reg_count && !to->component)
        walk->regs[to->reg] = value;
}

static struct word computed(struct walk *walk, const struct ptx_instr *instr)
{
    const struct ptx_form *form = instr->form;
    struct word o[4] = {{0}};
    if (instr->operand_count < 2 || instr->operand_count > 5 || ptx_has(form, PTX_MOD_cc))
        return unknown_word;
    if (form->op == PTX_OP_setp)
        return instr->operand_count >= 3 ? comparison(walk, instr) : unknown_word;
    bool plain = form->op == PTX_OP_mov || form->op == PTX_OP_cvta;
    if (!plain && (!form->type_count ||
                   (ptx_types[form->types[0]].class == PTX_FLOAT && form->op != PTX_OP_selp)))
        return unknown_word;
    for (unsigned i = 1; i < instr->operand_count && i < 4; i++)
        o[i] = operand_word(walk, &instr->operands[i]);
    switch (instr->operand_count) {
    case 2:
        return o[1].known ? unary(form, o[1]) : unknown_word;
    case 3:
        return o[1].known && o[2].known ? binary(form, o[1], o[2]) : unknown_word;
    default:
        break;
    }
    if (form->op == PTX_OP_selp)
        return o[3].known ? (o[3].bits & 1 ? o[1] : o[2]) : unknown_word;
    if (!o[1].known || !o[2].known || !o[3].known)
        return unknown_word;
    if (form->op == PTX_OP_bfe)
        return field(form, o[1], o[2], o[3]);
    if ((form->op != PTX_OP_mad && form->op != PTX_OP_mad24) || o[1].base || o[2].base ||
        ptx_has(form, PTX_MOD_sat))
        return unknown_word;
    struct word out = product(form, o[1], o[2]);
    unsigned bits = reach_bits(form, 0) << ptx_has(form, PTX_MOD_wide);
    return out.known ? (struct word){cut(out.bits + o[3].bits, bits), o[3].base, true} : out;
}

static void report(struct walk *walk, uint32_t i)
{
    const struct ptx_instr *instr = &walk->r->func->instrs[i];
    for (unsigned n = 0; n < instr->operand_count; n++) {
        struct word at = address_word(walk, &instr->operands[n]);
        if (!at.known || !at.base)
            continue;
        struct walk_touch touch = {i, n, REACH_NONE, NULL, (int64_t)at.bits};
        const uint8_t *word = at.base, *words = walk->r->pointer_words;
        uint64_t count = walk->r->launch->param_bytes;
        if ((uintptr_t)word >= (uintptr_t)words && (uintptr_t)word < (uintptr_t)words + count)
            touch.target_word = (uint32_t)(word - words);
        else
            touch.var = at.base;
        walk->touch(walk->self, &touch);
    }
}

static void step(struct walk *walk, uint32_t i)
{
    const struct ptx_instr *instr = &walk->r->func->instrs[i];
    const struct ptx_form *form = instr->form;
    struct word guard = instr->guard == PTX_NO_REG || instr->guard >= walk->r->func->reg_count
                            ? word_of(1 ^ instr->guard_negated)
                            : walk->regs[instr->guard];
    if (guard.known && (guard.bits & 1) == instr->guard_negated)
        return;
    const struct graph *graph = walk->r->graph;
    struct word value = unknown_word;
    if (guard.known && !instr->opaque && !form->strange) {
        bool load = form->op == PTX_OP_ld && instr->operand_count >= 2;
        if (ptx_ops[form->op].effects & (PTX_READS | PTX_WRITES))
            report(walk, i);
        if (load && form->space == PTX_SPACE_param && instr->operands[0].kind == PTX_VECTOR) {
            for (unsigned p = 0; p < instr->operands[0].part_count; p++)
                write_word(walk, &instr->operands[0].parts[p], parameter(walk, instr, p));
            return;
        }
        if (load && form->space == PTX_SPACE_param)
            value = parameter(walk, instr, 0);
        else if (!ptx_ops[form->op].effects)
            value = computed(walk, instr);
    }
    uint32_t first = graph->write_first[i], end = graph->read_first[i + 1];
    for (uint32_t w = first; w < end; w++)
        if (graph->refs[w].reg < walk->r->func->reg_count)
            walk->regs[graph->refs[w].reg] = end - first == 1 ? value : unknown_word;
}

/* Forgets what is written on the ways from `block` to `meet`. */
static bool forget(struct walk *walk, uint32_t block, uint32_t meet)
{
    const struct graph *graph = walk->r->graph;
    uint8_t *seen = walk->r->walk_seen;
    uint32_t *stack = walk->r->walk_stack, depth = 0;
    memset(seen, 0, graph->block_count + 1);
    seen[block] = 1;
    stack[depth++] = block;
    while (depth) {
        const struct graph_block *at = &graph->blocks[stack[--depth]];
        bool self = at == &graph->blocks[block];
        for (uint32_t i = at->first; !self && i < at->end; i++)
            for (uint32_t w = graph->write_first[i]; w < graph->read_first[i + 1]; w++)
                if (graph->refs[w].reg < walk->r->func->reg_count)
                    walk->regs[graph->refs[w].reg] = unknown_word;
        for (uint32_t s = 0; s < at->succ_count; s++) {
            uint32_t next = at->succs[s];
            if (next == graph->exit)
                return false;
            /* Back at the branch itself: its own block is on the way too. */
            if (next == block)
                for (uint32_t i = graph->blocks[block].first; i < graph->blocks[block].end; i++)
                    for (uint32_t w = graph->write_first[i]; w < graph->read_first[i + 1]; w++)
                        if (graph->refs[w].reg < walk->r->func->reg_count)
                            walk->regs[graph->refs[w].reg] = unknown_word;
            if (next != meet && !seen[next]) {
                seen[next] = 1;
                stack[depth++] = next;
            }
        }
    }
    return true;
}

/* The block after `b`; the exit: it ends. */
static uint32_t next_block(struct walk *walk, uint32_t b)
{
    const struct graph *graph = walk->r->graph;
    const struct graph_block *block = &graph->blocks[b];
    if (!block->succ_count)
        return graph->exit;
    if (block->succ_count == 1 && !(block->guarded && block->ends == GRAPH_RETURNS))
        return block->succs[0];
    const struct ptx_instr *last = &walk->r->func->instrs[block->end - 1];
    struct word guard = last->guard == PTX_NO_REG || last->guard >= walk->r->func->reg_count
                            ? unknown_word
                            : walk->regs[last->guard];
    if (guard.known && block->ends == GRAPH_BRANCHES && last->form->op == PTX_OP_bra) {
        bool taken = (guard.bits & 1) != last->guard_negated;
        return taken ? block->succs[0] : block->succs[1];
    }
    if (guard.known && block->ends == GRAPH_RETURNS && block->guarded) {
        bool leaves = (guard.bits & 1) != last->guard_negated;
        for (uint32_t s = 0; !leaves && s < block->succ_count; s++)
            if (block->succs[s] != graph->exit)
                return block->succs[s];
        return graph->exit;
    }
    walk->whole = false;
    uint32_t meet = block->ipdom;
    if (meet == GRAPH_NONE || meet == graph->exit || !forget(walk, b, meet))
        return graph->exit;
    return meet;
}

bool reach_walk(struct reaching *r, const uint32_t tid[3], const uint32_t ctaid[3],
                void (*touch)(void *self, const struct walk_touch *touch), void *self)
{
    struct walk walk = {.r = r, .tid = tid, .ctaid = ctaid, .touch = touch, .self = self};
    size_t blocks = r->graph->block_count + 1, regs = (r->func->reg_count + 1) * sizeof *walk.regs;
    walk.whole = true;
    if (!r->walk_regs) {
        r->walk_regs = arena_alloc(r->arena, regs);
        r->walk_seen = arena_alloc(r->arena, blocks);
        r->walk_stack = arena_alloc(r->arena, blocks * sizeof *r->walk_stack);
    }
    walk.regs = r->walk_regs;
    if (!walk.regs || !r->walk_seen || !r->walk_stack || !r->launch->launch || !r->launch->params ||
        !r->func->instr_count)
        return false;
    memset(walk.regs, 0, regs);
    for (uint32_t b = 0, steps = 0; b < r->graph->exit;) {
        const struct graph_block *block = &r->graph->blocks[b];
        for (uint32_t i = block->first; i < block->end; i++, steps++, r->walk_steps++) {
            if (steps > STEPS_MAX || r->walk_steps > ALL_STEPS_MAX)
                return false;
            step(&walk, i);
        }
        if (++steps > STEPS_MAX)
            return false;
        b = next_block(&walk, b);
    }
    return walk.whole;
}
