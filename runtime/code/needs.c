/* What an entry needs of its module: the functions it calls and the variables they name. Only walks
 * the tree; judges nothing. */
#include "parts.h"

enum {
    NEEDS_MAX = 65536, /* functions and variables: more than any real kernel names */
    DEPTH_MAX = 8,     /* of operands inside operands */
};

struct number_slot {
    const void *thing;
    uint64_t offset;
    uint32_t number;
};

static uint32_t probe(const struct number_slot *slots, uint32_t capacity, const void *thing,
                      uint64_t offset)
{
    uint64_t hash =
        ((uint64_t)(uintptr_t)thing ^ offset * 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u;
    uint32_t at = (uint32_t)(hash >> 32) & (capacity - 1);
    while (slots[at].thing && (slots[at].thing != thing || slots[at].offset != offset))
        at = (at + 1) & (capacity - 1);
    return at;
}

static bool grow(struct numbers *numbers)
{
    uint32_t capacity = numbers->capacity ? 2 * numbers->capacity : 64;
    struct number_slot *slots = arena_alloc(numbers->arena, capacity * sizeof *slots);
    if (!slots)
        return false;
    for (uint32_t i = 0; i < numbers->capacity; i++) {
        const struct number_slot *old = &numbers->slots[i];
        if (old->thing)
            slots[probe(slots, capacity, old->thing, old->offset)] = *old;
    }
    numbers->slots = slots;
    numbers->capacity = capacity;
    return true;
}

uint32_t number_find(const struct numbers *numbers, const void *thing, uint64_t offset)
{
    if (!numbers->capacity)
        return NO_NUMBER;
    const struct number_slot *slot =
        &numbers->slots[probe(numbers->slots, numbers->capacity, thing, offset)];
    return slot->thing ? slot->number : NO_NUMBER;
}

uint32_t number_of(struct numbers *numbers, const void *thing, uint64_t offset)
{
    uint32_t number = number_find(numbers, thing, offset);
    if (number != NO_NUMBER)
        return number;
    if (2 * numbers->count >= numbers->capacity && !grow(numbers))
        return NO_NUMBER;
    uint32_t at = probe(numbers->slots, numbers->capacity, thing, offset);
    numbers->slots[at] = (struct number_slot){thing, offset, numbers->count};
    return numbers->count++;
}

static void operand_walk(const struct ptx_operand *operand, unsigned depth,
                         void (*each)(void *self, const struct ptx_operand *operand), void *self)
{
    each(self, operand);
    for (uint32_t i = 0; depth < DEPTH_MAX && i < operand->part_count; i++)
        operand_walk(&operand->parts[i], depth + 1, each, self);
}

void operand_each(const struct ptx_operand *operand,
                  void (*each)(void *self, const struct ptx_operand *operand), void *self)
{
    operand_walk(operand, 0, each, self);
}

/* As seen from inside func: not one of its body or parameters. */
static bool var_of_module(const struct ptx_func *func, const struct ptx_var *var)
{
    return var->place.begin < func->place.begin || var->place.begin >= func->place.end;
}

struct walk {
    struct needs *needs;
    struct kg_arena *arena;
    const struct ptx_func *func;
    uint32_t func_room, var_room;
};

/* Appends to an array that doubles in the arena. */
static bool append(struct kg_arena *arena, const void ***items, uint32_t count, uint32_t *room,
                   const void *item)
{
    if (count == *room) {
        uint32_t more = *room ? 2 * *room : 32;
        const void **grown = more > NEEDS_MAX ? NULL : arena_alloc(arena, more * sizeof *grown);
        if (!grown)
            return false;
        if (count)
            memcpy(grown, *items, count * sizeof *grown);
        *items = grown;
        *room = more;
    }
    (*items)[count] = item;
    return true;
}

static void need_func(struct walk *walk, const struct ptx_func *func)
{
    struct needs *needs = walk->needs;
    if (number_find(&needs->func_numbers, func, 0) != NO_NUMBER)
        return;
    if (number_of(&needs->func_numbers, func, 0) == NO_NUMBER ||
        !append(walk->arena, (const void ***)&needs->funcs, needs->func_count, &walk->func_room,
                func))
        needs->failed = true;
    else
        needs->func_count++;
}

static void need_var(struct walk *walk, const struct ptx_var *var)
{
    struct needs *needs = walk->needs;
    if (number_find(&needs->var_numbers, var, 0) != NO_NUMBER)
        return;
    if (number_of(&needs->var_numbers, var, 0) == NO_NUMBER ||
        !append(walk->arena, (const void ***)&needs->vars, needs->var_count, &walk->var_room, var))
        needs->failed = true;
    else
        needs->var_count++;
}

static void need_image(struct walk *walk, const struct ptx_var *var)
{
    for (uint32_t i = 0; i < var->reloc_count; i++) {
        if (var->relocs[i].var)
            need_var(walk, var->relocs[i].var);
        if (var->relocs[i].func)
            need_func(walk, var->relocs[i].func);
    }
}

static void need_operand(void *self, const struct ptx_operand *operand)
{
    struct walk *walk = self;
    if (operand->var && var_of_module(walk->func, operand->var))
        need_var(walk, operand->var);
    if (operand->func)
        need_func(walk, operand->func);
    if (operand->list && operand->list->kind == PTX_CALL_TARGETS)
        for (uint32_t i = 0; i < operand->list->count; i++)
            need_func(walk, operand->list->funcs[i]);
}

static void need_body(struct walk *walk, const struct ptx_func *func)
{
    walk->func = func;
    for (uint32_t i = 0; i < func->var_count; i++)
        need_image(walk, func->vars[i]);
    for (uint32_t i = 0; i < func->instr_count; i++) {
        const struct ptx_instr *instr = &func->instrs[i];
        for (unsigned j = 0; j < instr->operand_count; j++)
            operand_each(&instr->operands[j], need_operand, walk);
        if (instr->form->op == PTX_OP_call && instr->operand_count > 1 &&
            instr->operands[1].kind == PTX_REG)
            walk->needs->indirect = true;
    }
}

kg_status needs_make(const struct ptx_module *module, const struct ptx_func *entry,
                     struct kg_arena *arena, struct needs *out)
{
    struct walk walk = {.needs = out, .arena = arena};
    *out = (struct needs){.func_numbers.arena = arena, .var_numbers.arena = arena};
    if (entry)
        need_func(&walk, entry);
    for (uint32_t i = 0; !entry && i < module->func_count; i++)
        need_func(&walk, module->funcs[i]);
    for (uint32_t i = 0; !entry && i < module->var_count; i++)
        need_var(&walk, module->vars[i]);
    uint32_t funcs = 0, vars = 0;
    while (!out->failed && (funcs < out->func_count || vars < out->var_count)) {
        if (funcs < out->func_count)
            need_body(&walk, out->funcs[funcs++]);
        else
            need_image(&walk, out->vars[vars++]);
    }
    return out->failed ? KG_LIMIT : KG_OK;
}

bool needs_item(const struct needs *needs, const struct ptx_item *item)
{
    if (item->kind != PTX_ITEM_VAR)
        return number_find(&needs->func_numbers, item->func, 0) != NO_NUMBER;
    for (uint32_t i = 0; i < needs->var_count; i++)
        if (!strcmp(needs->vars[i]->name, item->var->name))
            return true;
    return false;
}

uint32_t statement_end(const struct ptx_module *module, uint32_t item, uint32_t size, uint32_t *end)
{
    uint32_t next = item + 1;
    while (next < module->item_count &&
           module->items[next].place.begin == module->items[item].place.begin)
        next++;
    *end = next < module->item_count ? module->items[next].place.begin : size;
    return next;
}
