/* Where parameter words and addresses of variables go: a flow-insensitive analysis over virtual
 * registers, parameters of calls, and one summary of local and shared memory. It over-approximates:
 * what it cannot tell apart it keeps. What comes out of global memory is not followed.
 *
 * Pointer or index? Both are 64 bits wide and meet in an addition. A word *proves* itself a pointer
 * if it alone passes through cvta, or alone is the address of an access, or is declared .ptr.
 * Where a proven and an unproven value are added, the sum is made of the proven one: the other is
 * an offset. Multiplications, shifts and conversions of width end a pointer's path, so scaled
 * indices never meet this question. If neither side is proven anywhere (base + byte index, neither
 * converted), both are kept: the capture compares values with live allocations. */
#include "parts.h"

#include <stdlib.h>

enum {
    REGISTERS_MAX = 400000,
    PASSES_MAX = 64,     /* over the code, until nothing changes; real code needs 3 or 4 */
    ROUNDS_MAX = 16,     /* of proving pointers */
    WORK_MAX = 20000000, /* instructions and bytes of arguments visited: about a second */
};

struct flow {
    const struct needs *needs;
    const struct ptx_func *entry, *func; /* func: the one at hand */
    const struct ptx_var *const *objects;
    uint32_t object_count, *bases; /* first register of each function in regs */
    uint32_t reg_count, cell_room;
    struct taint *regs, *own;    /* own: those of func */
    struct taint *cells, memory; /* memory: of local and shared stores */
    struct numbers cell_numbers; /* (.param variable, offset) -> index into cells */
    uint64_t proven[TAINT_WORDS / 64],
        narrow[TAINT_WORDS / 64]; /* narrow: read as smaller things */
    uint64_t work;
    bool changed, failed;
    void (*use)(void *self, enum taint_use kind, const struct taint *value);
    void *self;
};

/* ---- values ---- */

static void join(struct flow *flow, struct taint *to, const struct taint *from)
{
    uint64_t fresh = from->objects & ~to->objects;
    for (unsigned i = 0; i < TAINT_WORDS / 64; i++) {
        fresh |= from->words[i] & ~to->words[i];
        to->words[i] |= from->words[i];
    }
    to->objects |= from->objects;
    if (fresh)
        flow->changed = true;
}

static struct taint both(struct taint a, const struct taint *b)
{
    for (unsigned i = 0; i < TAINT_WORDS / 64; i++)
        a.words[i] |= b->words[i];
    a.objects |= b->objects;
    return a;
}

static bool is_proven(const struct flow *flow, const struct taint *value)
{
    for (unsigned i = 0; i < TAINT_WORDS / 64; i++)
        if (value->words[i] & flow->proven[i])
            return true;
    return false;
}

/* A value that may be just one word proves that word. */
static void prove(struct flow *flow, const struct taint *value)
{
    unsigned bits = 0, where = 0;
    for (unsigned i = 0; i < TAINT_WORDS / 64; i++) {
        bits += (unsigned)__builtin_popcountll(value->words[i]);
        where = value->words[i] ? i : where;
    }
    if (bits == 1)
        flow->proven[where] |= value->words[where];
}

static void word_add(struct flow *flow, uint64_t *words, uint64_t byte)
{
    if (byte / 8 >= TAINT_WORDS)
        flow->failed = true;
    else
        words[byte / 64 / 8] |= 1ull << (byte / 8 % 64);
}

static struct taint *reg_in(struct flow *flow, const struct ptx_func *func, uint32_t number)
{
    if (number >= func->reg_count)
        return NULL;
    return &flow->regs[flow->bases[number_find(&flow->needs->func_numbers, func, 0)] + number];
}

static struct taint *reg(struct flow *flow, uint32_t number)
{
    return number < flow->func->reg_count ? &flow->own[number] : NULL;
}

/* The bytes at `offset` of a .param variable. NULL when memory is out. */
static struct taint *cell(struct flow *flow, const struct ptx_var *var, int64_t offset)
{
    uint32_t number = number_of(&flow->cell_numbers, var, (uint64_t)offset);
    if (number != NO_NUMBER && number >= flow->cell_room) {
        uint32_t room = flow->cell_room ? 2 * flow->cell_room : 64;
        struct taint *cells = realloc(flow->cells, room * sizeof *cells);
        if (cells) {
            memset(cells + flow->cell_room, 0, (room - flow->cell_room) * sizeof *cells);
            flow->cells = cells;
            flow->cell_room = room;
        }
    }
    if (number >= flow->cell_room) {
        flow->failed = true;
        return NULL;
    }
    return &flow->cells[number];
}

static uint64_t object_bit(const struct flow *flow, const struct ptx_var *var)
{
    for (uint32_t i = 0; i < flow->object_count; i++)
        if (flow->objects[i] == var)
            return 1ull << i;
    return 0;
}

/* What an operand's value may be made of: a register, the address of a variable, or all parts. */
static struct taint value_of(struct flow *flow, const struct ptx_operand *operand)
{
    struct taint value = {0};
    if (operand->reg != PTX_NO_REG && (operand->kind == PTX_REG || operand->kind == PTX_ADDRESS)) {
        struct taint *from = reg(flow, operand->reg);
        return from ? *from : value;
    }
    if (operand->var && (operand->kind == PTX_SYMBOL || operand->kind == PTX_ADDRESS))
        value.objects = object_bit(flow, operand->var);
    if (operand->kind == PTX_VECTOR || operand->kind == PTX_PAIR || operand->kind == PTX_LIST)
        for (uint32_t i = 0; i < operand->part_count; i++)
            if (operand->parts[i].kind == PTX_REG) {
                struct taint part = value_of(flow, &operand->parts[i]);
                value = both(value, &part);
            }
    return value;
}

static void assign(struct flow *flow, const struct ptx_operand *to, const struct taint *value)
{
    if (to->kind == PTX_REG) {
        struct taint *into = reg(flow, to->reg);
        if (into)
            join(flow, into, value);
    }
    for (uint32_t i = 0; to->kind != PTX_ADDRESS && i < to->part_count; i++)
        if (to->parts[i].kind == PTX_REG)
            assign(flow, &to->parts[i], value);
}

/* ---- instructions ---- */

static unsigned width(const struct ptx_form *form)
{
    return form->type_count ? ptx_types[form->types[form->type_count - 1]].bits / 8 : 0;
}

/* Part `index` of a vector operand; the operand itself if it is none. */
static const struct ptx_operand *part(const struct ptx_operand *operand, unsigned index)
{
    return operand->kind == PTX_VECTOR && index < operand->part_count ? &operand->parts[index]
                                                                      : operand;
}

/* The words of a parameter whose address is known but for the offset: an array in a struct. Words
 * that are elsewhere read as something smaller belong to the struct's other members. */
static void words_of_object(struct flow *flow, uint64_t objects, struct taint *value)
{
    for (uint32_t i = 0; i < flow->object_count; i++) {
        const struct ptx_var *var = flow->objects[i];
        if (!(objects >> i & 1) || var->space != PTX_SPACE_param)
            continue;
        for (uint64_t at = 0; at + 8 <= var->size && !flow->failed; at += 8)
            word_add(flow, value->words, var->offset + at);
    }
    for (unsigned i = 0; objects && i < TAINT_WORDS / 64; i++)
        value->words[i] &= ~flow->narrow[i];
}

static bool is_entry_param(const struct flow *flow, const struct ptx_var *var)
{
    if (flow->func != flow->entry)
        return false;
    for (uint32_t i = 0; i < flow->entry->param_count; i++)
        if (flow->entry->params[i] == var)
            return true;
    return false;
}

static void load_param(struct flow *flow, const struct ptx_instr *instr)
{
    const struct ptx_operand *to = &instr->operands[0], *from = &instr->operands[1];
    bool entry = is_entry_param(flow, from->var);
    unsigned bytes = width(instr->form), count = instr->form->vector ? instr->form->vector : 1;
    for (unsigned i = 0; i < count; i++) {
        struct taint value = {0};
        int64_t offset = from->offset + (int64_t)i * bytes;
        if (entry && offset >= 0 && (uint64_t)offset < from->var->size)
            for (unsigned at = 0; at < (bytes ? bytes : 1); at += 8)
                word_add(flow, value.words, from->var->offset + (uint64_t)offset + at);
        if (entry && bytes && bytes < 8 && count == 1)
            for (unsigned j = 0; j < TAINT_WORDS / 64; j++)
                flow->narrow[j] |= value.words[j];
        struct taint *kept = entry ? NULL : cell(flow, from->var, offset);
        if (kept)
            value = *kept;
        assign(flow, part(to, i), &value);
    }
}

static void load(struct flow *flow, const struct ptx_instr *instr)
{
    if (instr->operand_count < 2 || instr->operands[1].kind != PTX_ADDRESS)
        return;
    const struct ptx_operand *from = &instr->operands[1];
    enum ptx_space space = instr->form->space;
    if (space == PTX_SPACE_param && from->var) {
        load_param(flow, instr);
        return;
    }
    struct taint value = {0}, base = value_of(flow, from);
    if (space == PTX_SPACE_local || space == PTX_SPACE_shared || space == PTX_SPACE_generic)
        value = flow->memory;
    if (space == PTX_SPACE_param || space == PTX_SPACE_generic)
        words_of_object(flow, base.objects, &value);
    assign(flow, &instr->operands[0], &value);
}

/* A pointer is stored whole, or as two words of one vector. */
static bool stores_pointers(const struct ptx_form *form)
{
    return width(form) >= 8 || (width(form) == 4 && form->vector >= 2);
}

static void store(struct flow *flow, const struct ptx_instr *instr)
{
    if (instr->operand_count < 2 || instr->operands[0].kind != PTX_ADDRESS)
        return;
    const struct ptx_operand *to = &instr->operands[0];
    if (instr->form->space == PTX_SPACE_param && to->var) {
        unsigned bytes = width(instr->form), count = instr->form->vector ? instr->form->vector : 1;
        for (unsigned i = 0; i < count; i++) {
            struct taint value = value_of(flow, part(&instr->operands[1], i));
            struct taint *into = cell(flow, to->var, to->offset + (int64_t)i * bytes);
            if (into)
                join(flow, into, &value);
        }
    } else if (instr->form->space != PTX_SPACE_global && stores_pointers(instr->form)) {
        struct taint value = value_of(flow, &instr->operands[1]);
        join(flow, &flow->memory, &value);
    }
}

/* Where a proven pointer and something else are added, the other is an offset. */
static void add(struct flow *flow, const struct ptx_instr *instr)
{
    struct taint a = value_of(flow, &instr->operands[1]), b = value_of(flow, &instr->operands[2]);
    bool proven_a = is_proven(flow, &a), proven_b = is_proven(flow, &b);
    struct taint sum = both(a, &b);
    if (proven_a != proven_b)
        memcpy(sum.words, proven_a ? a.words : b.words, sizeof sum.words);
    assign(flow, &instr->operands[0], &sum);
}

static void pass_on(struct flow *flow, const struct ptx_instr *instr)
{
    struct taint value = {0};
    for (unsigned i = 1; i < instr->operand_count; i++) {
        struct taint source = value_of(flow, &instr->operands[i]);
        value = both(value, &source);
    }
    assign(flow, &instr->operands[0], &value);
    if (instr->form->op == PTX_OP_cvta)
        prove(flow, &value);
}

/* Copies the cells of a .param variable of the caller to the callee's, or back. */
static void copy_cells(struct flow *flow, const struct ptx_var *from, const struct ptx_var *to)
{
    flow->work += from->size < 8 * TAINT_WORDS ? from->size : 8 * TAINT_WORDS;
    for (uint64_t at = 0; at < from->size && at < 8 * TAINT_WORDS && !flow->failed; at++) {
        if (number_find(&flow->cell_numbers, from, at) == NO_NUMBER)
            continue;
        struct taint value = *cell(flow, from, (int64_t)at);
        struct taint *into = cell(flow, to, (int64_t)at);
        if (into)
            join(flow, into, &value);
    }
}

static void pass_argument(struct flow *flow, const struct ptx_operand *argument,
                          const struct ptx_func *callee, const struct ptx_var *param)
{
    if (argument->var && !param->is_register) {
        copy_cells(flow, argument->var, param);
        return;
    }
    struct taint value = value_of(flow, argument);
    struct taint *into =
        param->is_register ? reg_in(flow, callee, param->reg) : cell(flow, param, 0);
    if (into)
        join(flow, into, &value);
}

static void take_result(struct flow *flow, const struct ptx_operand *result,
                        const struct ptx_func *callee, const struct ptx_var *param)
{
    if (result->var && !param->is_register) {
        copy_cells(flow, param, result->var);
        return;
    }
    struct taint *from =
        param->is_register ? reg_in(flow, callee, param->reg) : cell(flow, param, 0);
    struct taint value = from ? *from : (struct taint){0};
    assign(flow, result, &value);
}

static void call(struct flow *flow, const struct ptx_instr *instr)
{
    if (instr->operand_count < 3)
        return;
    const struct ptx_operand *results = &instr->operands[0], *arguments = &instr->operands[2];
    const struct ptx_func *callee = instr->operands[1].func;
    if (!callee || !callee->defined)
        return; /* seen by use_call */
    for (uint32_t i = 0; i < arguments->part_count && i < callee->param_count; i++)
        pass_argument(flow, &arguments->parts[i], callee, callee->params[i]);
    for (uint32_t i = 0; i < results->part_count && i < callee->result_count; i++)
        take_result(flow, &results->parts[i], callee, callee->results[i]);
}

/* Only a conversion that keeps all 64 bits keeps a pointer. */
static bool keeps_width(const struct ptx_form *form)
{
    return form->type_count == 2 && ptx_types[form->types[0]].bits == 64 &&
           ptx_types[form->types[1]].bits == 64;
}

static void step(struct flow *flow, const struct ptx_instr *instr)
{
    switch (instr->form->op) {
    case PTX_OP_ld:
    case PTX_OP_ldu:
        load(flow, instr);
        return;
    case PTX_OP_st:
        store(flow, instr);
        return;
    case PTX_OP_call:
        call(flow, instr);
        return;
    case PTX_OP_add:
    case PTX_OP_sub:
    case PTX_OP_addc:
    case PTX_OP_subc:
        if (instr->operand_count >= 3)
            add(flow, instr);
        return;
    case PTX_OP_mad:
    case PTX_OP_madc:
    case PTX_OP_mad24:
        if (instr->operand_count >= 4) {
            struct taint base = value_of(flow, &instr->operands[3]);
            assign(flow, &instr->operands[0], &base);
        }
        return;
    case PTX_OP_cvt:
        if (!keeps_width(instr->form))
            return;
        break;
    case PTX_OP_mov:
    case PTX_OP_cvta:
    case PTX_OP_selp:
    case PTX_OP_slct:
    case PTX_OP_min:
    case PTX_OP_max:
    case PTX_OP_and:
    case PTX_OP_or:
    case PTX_OP_xor:
    case PTX_OP_lop3:
    case PTX_OP_shfl:
        break;
    default:
        return;
    }
    if (instr->operand_count >= 2)
        pass_on(flow, instr);
}

/* ---- uses ---- */

/* Accesses to these spaces tell nothing about pointers to global memory. Of asynchronous copies the
 * space is that of what is written. */
static bool other_space(const struct ptx_form *form)
{
    return form->space == PTX_SPACE_shared || form->space == PTX_SPACE_local ||
           form->space == PTX_SPACE_param || ptx_has(form, PTX_MOD_shared_cta) ||
           ptx_has(form, PTX_MOD_shared_cluster);
}

/* Operations with two addresses: to where, and from where. */
static bool is_copy(enum ptx_op op)
{
    return op == PTX_OP_cp_async || op == PTX_OP_cp_async_bulk ||
           op == PTX_OP_cp_async_bulk_tensor || op == PTX_OP_cp_reduce_async_bulk;
}

static void report(struct flow *flow, enum taint_use kind, const struct taint *value)
{
    if (kind != TAINT_ESCAPE)
        prove(flow, value);
    if (flow->use)
        flow->use(flow->self, kind, value);
}

static void use_addresses(struct flow *flow, const struct ptx_instr *instr)
{
    const struct ptx_form *form = instr->form;
    uint32_t effects = ptx_effects(instr);
    bool copy = is_copy(form->op);
    if (effects & PTX_TEXTURE || (other_space(form) && !copy))
        return;
    enum taint_use kind = effects & (PTX_WRITES | PTX_WORST) ? TAINT_WRITE
                          : ptx_has(form, PTX_MOD_nc)        ? TAINT_READ_CACHED
                                                             : TAINT_READ;
    for (unsigned i = 0; i < instr->operand_count; i++) {
        if (instr->operands[i].kind != PTX_ADDRESS)
            continue;
        struct taint base = value_of(flow, &instr->operands[i]);
        report(flow, copy && i ? TAINT_READ : kind, &base);
    }
}

static void use_call(struct flow *flow, const struct ptx_instr *instr)
{
    if (instr->operand_count < 3)
        return;
    const struct ptx_func *callee = instr->operands[1].func;
    if (callee && callee->defined)
        return;
    for (uint32_t i = 0; i < instr->operands[2].part_count; i++) {
        const struct ptx_operand *argument = &instr->operands[2].parts[i];
        struct taint value = value_of(flow, argument);
        for (uint64_t at = 0; argument->var && at < argument->var->size && at < 4096; at++)
            if (number_find(&flow->cell_numbers, argument->var, at) != NO_NUMBER)
                value = both(value, cell(flow, argument->var, (int64_t)at));
        report(flow, TAINT_ESCAPE, &value);
    }
}

/* An address of an object that is stored can be used by anybody who loads it. */
static void use_store(struct flow *flow, const struct ptx_instr *instr)
{
    uint32_t effects = ptx_effects(instr);
    if (!(effects & (PTX_WRITES | PTX_WORST)) || instr->form->space == PTX_SPACE_param)
        return;
    for (unsigned i = 0; i < instr->operand_count; i++) {
        if (instr->operands[i].kind == PTX_ADDRESS)
            continue;
        struct taint value = {.objects = value_of(flow, &instr->operands[i]).objects};
        if (value.objects)
            report(flow, TAINT_ESCAPE, &value);
    }
}

static void each_instr(struct flow *flow,
                       void (*each)(struct flow *flow, const struct ptx_instr *instr))
{
    for (uint32_t i = 0; i < flow->needs->func_count; i++) {
        flow->func = flow->needs->funcs[i];
        flow->own = flow->regs + flow->bases[i];
        flow->work += flow->func->instr_count;
        for (uint32_t j = 0; j < flow->func->instr_count; j++)
            each(flow, &flow->func->instrs[j]);
    }
}

static void uses(struct flow *flow, const struct ptx_instr *instr)
{
    use_addresses(flow, instr);
    use_store(flow, instr);
    if (instr->form->op == PTX_OP_call)
        use_call(flow, instr);
}

/* Until nothing changes, under the present proofs. */
static kg_status settle(struct flow *flow)
{
    memset(flow->regs, 0, flow->reg_count * sizeof *flow->regs);
    if (flow->cells)
        memset(flow->cells, 0, flow->cell_room * sizeof *flow->cells);
    flow->memory = (struct taint){0};
    for (unsigned pass = 0; pass < PASSES_MAX; pass++) {
        flow->changed = false;
        each_instr(flow, step);
        if (flow->failed || flow->work > WORK_MAX)
            return KG_LIMIT;
        if (!flow->changed)
            return KG_OK;
    }
    return KG_LIMIT;
}

/* Proofs found under fewer proofs stay: each round starts from all of them, so that an offset which
 * was taken for part of a pointer falls away. */
static kg_status prove_all(struct flow *flow,
                           void (*use)(void *self, enum taint_use kind, const struct taint *value))
{
    kg_status status = KG_OK;
    for (unsigned round = 0; round < ROUNDS_MAX && status == KG_OK; round++) {
        uint64_t before[TAINT_WORDS / 64];
        memcpy(before, flow->proven, sizeof before);
        flow->use = NULL;
        status = settle(flow);
        if (status == KG_OK)
            each_instr(flow, uses);
        if (!memcmp(before, flow->proven, sizeof before))
            break;
    }
    if (status != KG_OK)
        return status;
    flow->use = use;
    each_instr(flow, uses);
    return KG_OK;
}

static kg_status number_registers(struct flow *flow, struct kg_arena *arena)
{
    uint64_t count = 0;
    flow->bases = arena_alloc(arena, (flow->needs->func_count + 1) * sizeof *flow->bases);
    if (!flow->bases)
        return KG_NO_MEMORY;
    for (uint32_t i = 0; i < flow->needs->func_count; i++) {
        flow->bases[i] = (uint32_t)count;
        count += flow->needs->funcs[i]->reg_count;
        if (count > REGISTERS_MAX)
            return KG_LIMIT;
    }
    flow->reg_count = (uint32_t)count;
    flow->regs = malloc((count + 1) * sizeof *flow->regs);
    return flow->regs ? KG_OK : KG_NO_MEMORY;
}

kg_status taint_run(const struct needs *needs, const struct ptx_func *entry,
                    const struct ptx_var *const *objects, uint32_t object_count,
                    struct kg_arena *arena,
                    void (*use)(void *self, enum taint_use kind, const struct taint *value),
                    void *self)
{
    struct flow flow = {.needs = needs,
                        .entry = entry,
                        .objects = objects,
                        .object_count = object_count < TAINT_OBJECTS ? object_count : TAINT_OBJECTS,
                        .cell_numbers.arena = arena,
                        .self = self};
    kg_status status = number_registers(&flow, arena);
    for (uint32_t i = 0; status == KG_OK && entry && i < entry->param_count; i++) {
        struct taint value = {0};
        if (!entry->params[i]->pointer || entry->params[i]->size != 8)
            continue;
        word_add(&flow, value.words, entry->params[i]->offset);
        prove(&flow, &value);
    }
    if (status == KG_OK)
        status = prove_all(&flow, use);
    free(flow.regs);
    free(flow.cells);
    return status;
}
