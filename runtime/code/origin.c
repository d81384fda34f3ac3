/* Origins of addresses as a whole: graphs of all functions, rounds of proofs, and the list of
 * accesses. The flow itself is in origin_flow.c. */
#include "origin_parts.h"

enum {
    VALUES_MAX = 8000000,
    ROUNDS_MAX = 16, /* of proving pointers */
};

uint32_t origin_number(struct origins *of, const struct ptx_var *var, uint32_t word)
{
    const void *thing = var ? (const void *)var : (const void *)of->entry;
    uint32_t number = number_of(&of->hidden->vars, thing, word);
    if (number == NO_NUMBER || number >= ORIGIN_COUNT)
        return GRAPH_NONE;
    if (number == of->origin_count)
        of->origins[of->origin_count++] = (struct origin){.var = var, .word = word};
    return number;
}

uint32_t origins_of_var(const struct origins *of, const struct ptx_var *var)
{
    uint32_t number = number_find(&of->hidden->vars, var, 0);
    return number < ORIGIN_COUNT ? number : GRAPH_NONE;
}

struct origin_set origins_set(const struct origins *of, uint32_t set)
{
    return of->hidden->sets.sets[set];
}

void origin_prove(struct origins *of, uint32_t set)
{
    const struct origin_set s = origins_set(of, set);
    if (s.count == 1 && s.items[0] < ORIGIN_LOADED)
        of->origins[s.items[0]].proven = true;
}

uint32_t origins_operand(const struct origins *of, uint32_t func, uint32_t instr,
                         const struct ptx_operand *operand)
{
    struct origin_sets *sets = &of->hidden->sets;
    uint32_t set = 0;
    if (operand->reg != PTX_NO_REG && (operand->kind == PTX_REG || operand->kind == PTX_ADDRESS))
        return of->value_sets[of->bases[func] + graph_operand(&of->graphs[func], instr, operand)];
    if (operand->var && (operand->kind == PTX_SYMBOL || operand->kind == PTX_ADDRESS)) {
        uint32_t number = origin_number((struct origins *)of, operand->var, 0);
        uint16_t item = number == GRAPH_NONE ? ORIGIN_UNKNOWN : (uint16_t)number;
        return set_of(sets, &item, 1);
    }
    for (uint32_t i = 0; operand->kind != PTX_ADDRESS && i < operand->part_count; i++)
        if (operand->parts[i].kind == PTX_REG)
            set = set_join(sets, set, origins_operand(of, func, instr, &operand->parts[i]));
    return set;
}

bool origins_param_load(const struct origins *of, uint32_t func, const struct ptx_instr *instr,
                        uint32_t *offset, uint32_t *size)
{
    const struct ptx_form *form = instr->form;
    if (form->op != PTX_OP_ld || form->space != PTX_SPACE_param || instr->operand_count < 2 ||
        instr->operands[1].kind != PTX_ADDRESS || instr->operands[1].reg != PTX_NO_REG ||
        !of->entry || of->needs->funcs[func] != of->entry)
        return false;
    const struct ptx_operand *from = &instr->operands[1];
    uint64_t bytes = form->type_count ? ptx_types[form->types[form->type_count - 1]].bits / 8 : 0;
    bytes *= form->vector ? form->vector : 1;
    bool own = false;
    for (uint32_t i = 0; i < of->entry->param_count; i++)
        own |= of->entry->params[i] == from->var;
    if (!own || from->offset < 0 || !bytes || (uint64_t)from->offset > from->var->size ||
        bytes > from->var->size - (uint64_t)from->offset)
        return false;
    *offset = from->var->offset + (uint32_t)from->offset;
    *size = (uint32_t)bytes;
    return true;
}

uint32_t origins_start(const struct origins *of, uint32_t func, const struct ptx_var *param)
{
    uint32_t number = number_find(&of->hidden->starts, param, func);
    return number == NO_NUMBER ? GRAPH_UNKNOWN : of->hidden->start_values[number];
}

/* ---- uses -------------------------------------------------------------------------------------
 */

struct using
{
    const struct origins *of;
    uint32_t func, instr;
    void (*each)(void *self, const struct origin_access *access);
    void *self;
};

static void tell(const struct using *at, enum origin_use use, unsigned operand, uint32_t set,
                 bool other_space)
{
    struct origin_access access = {at->func, at->instr, operand, use, set, other_space};
    at->each(at->self, &access);
}

/* Of a copy's two addresses the first is written. */
static bool is_copy(enum ptx_op op)
{
    return op == PTX_OP_cp_async || op == PTX_OP_cp_async_bulk ||
           op == PTX_OP_cp_async_bulk_tensor || op == PTX_OP_cp_reduce_async_bulk;
}

static void use_addresses(const struct using *at, const struct ptx_instr *instr)
{
    const struct ptx_form *form = instr->form;
    uint32_t effects = ptx_effects(instr);
    bool copy = is_copy(form->op);
    if (effects & PTX_TEXTURE)
        return;
    enum origin_use use = effects & (PTX_WRITES | PTX_WORST) ? ORIGIN_WRITE
                          : ptx_has(form, PTX_MOD_nc)        ? ORIGIN_READ_CACHED
                                                             : ORIGIN_READ;
    for (unsigned i = 0; i < instr->operand_count; i++) {
        if (instr->operands[i].kind != PTX_ADDRESS)
            continue;
        enum ptx_space space = graph_named_space(instr, i);
        bool other =
            space == PTX_SPACE_shared || space == PTX_SPACE_local || space == PTX_SPACE_param;
        tell(at, copy && i ? ORIGIN_READ : use, i,
             origins_operand(at->of, at->func, at->instr, &instr->operands[i]), other);
    }
}

static bool callee_known(const struct origins *of, uint32_t func, uint32_t instr)
{
    bool known = true;
    for (uint32_t s = graph_calls_at(&of->calls, func, instr);
         s < of->calls.first[func + 1] && of->calls.sites[s].instr == instr; s++)
        known &= of->calls.sites[s].callee != GRAPH_NONE &&
                 of->needs->funcs[of->calls.sites[s].callee]->defined;
    return known;
}

static void use_call(const struct using *at, const struct ptx_instr *instr)
{
    struct origin_hidden *hidden = at->of->hidden;
    if (instr->operand_count < 3 || callee_known(at->of, at->func, at->instr))
        return;
    for (uint32_t i = 0; i < instr->operands[2].part_count; i++) {
        const struct ptx_operand *argument = &instr->operands[2].parts[i];
        uint32_t set = argument->var && argument->var->space == PTX_SPACE_param
                           ? 0
                           : origins_operand(at->of, at->func, at->instr, argument);
        for (uint64_t byte = 0;
             argument->var && byte < argument->var->size && byte < ORIGIN_PARAM_BYTES; byte++) {
            uint32_t number = number_find(&hidden->cells, argument->var, byte);
            if (number < hidden->cell_room)
                set = set_join(&hidden->sets, set, hidden->cell_sets[number]);
        }
        const uint16_t anything = ORIGIN_UNKNOWN;
        if (argument->var && argument->var->size > ORIGIN_PARAM_BYTES)
            set = set_join(&hidden->sets, set, set_of(&hidden->sets, &anything, 1));
        tell(at, ORIGIN_ESCAPE, 2, set, false);
    }
}

/* An address of a variable that is stored can be used by anybody who loads it. */
static void use_store(const struct using *at, const struct ptx_instr *instr)
{
    struct origin_hidden *hidden = at->of->hidden;
    uint32_t effects = ptx_effects(instr);
    if (!(effects & (PTX_WRITES | PTX_WORST)) || instr->form->space == PTX_SPACE_param)
        return;
    for (unsigned i = 0; i < instr->operand_count; i++) {
        if (instr->operands[i].kind == PTX_ADDRESS)
            continue;
        uint32_t vars = 0;
        const struct origin_set set =
            origins_set(at->of, origins_operand(at->of, at->func, at->instr, &instr->operands[i]));
        for (uint32_t j = 0; j < set.count && set.items[j] < ORIGIN_LOADED; j++)
            if (at->of->origins[set.items[j]].var)
                vars = set_join(&hidden->sets, vars, set_of(&hidden->sets, &set.items[j], 1));
        if (vars)
            tell(at, ORIGIN_ESCAPE, i, vars, false);
    }
}

/* In a function of which nothing is known: all that it reads or names escapes. */
static void use_wildly(const struct using *at, const struct ptx_instr *instr)
{
    struct origin_sets *sets = &at->of->hidden->sets;
    uint32_t offset, size;
    if (origins_param_load(at->of, at->func, instr, &offset, &size))
        for (uint32_t byte = offset & ~7u; byte < offset + size && byte < ORIGIN_PARAM_BYTES;
             byte += 8) {
            uint16_t item = (uint16_t)origin_number((struct origins *)at->of, NULL, byte / 8);
            tell(at, ORIGIN_ESCAPE, 1, set_of(sets, &item, 1), false);
        }
    for (unsigned i = 0; i < instr->operand_count; i++)
        if (instr->operands[i].var && instr->operands[i].kind == PTX_SYMBOL)
            tell(at, ORIGIN_ESCAPE, i,
                 origins_operand(at->of, at->func, at->instr, &instr->operands[i]), false);
}

void origins_uses(const struct origins *of,
                  void (*each)(void *self, const struct origin_access *access), void *self)
{
    for (uint32_t f = 0; f < of->needs->func_count; f++) {
        const struct graph *graph = &of->graphs[f];
        struct using at = {.of = of, .func = f, .each = each, .self = self};
        for (uint32_t i = 0; graph->func && i < graph->func->instr_count; i++) {
            const struct ptx_instr *instr = &graph->func->instrs[i];
            at.instr = i;
            if (!graph->blocks[graph->block_of[i]].reachable)
                continue;
            use_addresses(&at, instr);
            use_store(&at, instr);
            if (instr->form->op == PTX_OP_call)
                use_call(&at, instr);
            if (graph->wild)
                use_wildly(&at, instr);
        }
    }
}

/* ---- the whole --------------------------------------------------------------------------------
 */

static void prove_use(void *self, const struct origin_access *access)
{
    if (access->use != ORIGIN_ESCAPE && !access->other_space)
        origin_prove(self, access->set);
}

/* Proofs found under fewer proofs stay: each round starts from all of them, so that an offset which
 * was taken for part of a pointer falls away. */
static kg_status prove_all(struct origins *of)
{
    uint32_t before = GRAPH_NONE, now = 0;
    for (unsigned round = 0; round < ROUNDS_MAX && now != before; round++) {
        before = now;
        kg_status status = origins_settle(of);
        if (status != KG_OK)
            return status;
        origins_uses(of, prove_use, of);
        now = 0;
        for (uint32_t i = 0; i < of->origin_count; i++)
            now += of->origins[i].proven;
    }
    /* Sets of the last uses, which all later ones make again: one that failed is empty. */
    return of->hidden->failed || of->hidden->sets.failed ? KG_LIMIT : KG_OK;
}

static kg_status note_starts(struct origins *of, uint32_t func)
{
    struct origin_hidden *hidden = of->hidden;
    const struct graph *graph = &of->graphs[func];
    for (uint32_t v = 1; v < graph->value_count; v++) {
        const struct ptx_var *param = graph->values[v].param;
        if (!param)
            continue;
        uint32_t number = number_of(&hidden->starts, param, func);
        if (number != NO_NUMBER && number >= hidden->start_room) {
            uint32_t room = hidden->start_room ? 2 * hidden->start_room : 16;
            uint32_t *grown = graph_numbers(of->arena, room);
            if (grown && hidden->start_room)
                memcpy(grown, hidden->start_values, hidden->start_room * sizeof *grown);
            hidden->start_values = grown;
            hidden->start_room = grown ? room : 0;
        }
        if (number >= hidden->start_room)
            return KG_NO_MEMORY;
        hidden->start_values[number] = v;
    }
    return KG_OK;
}

static kg_status make_graphs(struct origins *of)
{
    uint32_t count = of->needs->func_count;
    uint64_t values = 0;
    of->graphs = arena_alloc(of->arena, (count + 1ull) * sizeof *of->graphs);
    of->bases = graph_numbers(of->arena, count);
    if (!of->graphs || !of->bases)
        return KG_NO_MEMORY;
    for (uint32_t f = 0; f < count; f++) {
        of->bases[f] = (uint32_t)values;
        values++;
        if (!of->needs->funcs[f]->defined)
            continue;
        kg_status status = graph_make(of->needs->funcs[f], of->arena, &of->graphs[f]);
        if (status == KG_OK)
            status = note_starts(of, f);
        if (status != KG_OK)
            return status;
        values += of->graphs[f].value_count;
        if (values > VALUES_MAX)
            return KG_LIMIT;
    }
    of->value_count = (uint32_t)values;
    of->value_sets = graph_numbers(of->arena, values);
    return of->value_sets ? KG_OK : KG_NO_MEMORY;
}

kg_status origins_make(const struct needs *needs, const struct ptx_func *entry,
                       struct kg_arena *arena, struct origins *out)
{
    *out = (struct origins){.needs = needs, .entry = entry, .arena = arena};
    struct origin_hidden *hidden = out->hidden = arena_alloc(arena, sizeof *hidden);
    if (!hidden)
        return KG_NO_MEMORY;
    hidden->vars.arena = hidden->cells.arena = hidden->starts.arena = arena;
    hidden->contents = graph_numbers(arena, ORIGIN_COUNT);
    hidden->narrow = arena_alloc(arena, ORIGIN_PARAM_BYTES / 8 + 1);
    out->origins = arena_alloc(arena, ORIGIN_COUNT * sizeof *out->origins);
    if (!hidden->contents || !hidden->narrow || !out->origins || !sets_begin(&hidden->sets, arena))
        return KG_NO_MEMORY;
    kg_status status = graph_calls_make(needs, arena, &out->calls);
    if (status == KG_OK)
        status = make_graphs(out);
    for (uint32_t i = 0; status == KG_OK && entry && i < entry->param_count; i++) {
        const struct ptx_var *param = entry->params[i];
        if (!param->pointer || param->size != 8)
            continue;
        uint32_t number = param->offset < ORIGIN_PARAM_BYTES
                              ? origin_number(out, NULL, param->offset / 8)
                              : GRAPH_NONE;
        if (number == GRAPH_NONE)
            return KG_LIMIT;
        out->origins[number].proven = true;
    }
    return status == KG_OK ? prove_all(out) : status;
}
