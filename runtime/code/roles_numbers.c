/* Numbers of floating point among the parameters with which nothing but arithmetic is done: any
 * other value of theirs could not lead the kernel anywhere else. A piece of roles.c can be too
 * coarse for this: an array in a by-value struct, indexed at run time, is one piece with all that
 * stands beside it.
 *
 * Here a byte is what every load says that may read it, by the type that the load names and the
 * roles of what it loads. Safe direction: one load that says otherwise, or an address that goes
 * where it cannot be followed, and it is no such number. */
#include "roles_parts.h"

enum { OTHERWISE = 0xff };

/* What a load takes its data for: ELEMENT_F32, ELEMENT_F64 or OTHERWISE. */
static uint8_t taken_for(const struct ptx_form *form, const struct roles_access *access)
{
    if (form->op != PTX_OP_ld || form->type_count != 1 || access->written ||
        access->data.roles & ~(unsigned)ROLE_VALUE)
        return OTHERWISE;
    return form->types[0] == PTX_TYPE_f32   ? ELEMENT_F32
           : form->types[0] == PTX_TYPE_f64 ? ELEMENT_F64
                                            : OTHERWISE;
}

static void say(uint8_t *bytes, uint64_t from, uint64_t size, uint8_t what)
{
    for (uint64_t i = from; i < from + size && i < ORIGIN_PARAM_BYTES; i++)
        bytes[i] = !bytes[i] || bytes[i] == what ? what : OTHERWISE;
}

/* Through an address that may lead to any byte of some parameters. */
static void say_all(const struct roles *roles, uint32_t set, uint8_t what, uint8_t *bytes)
{
    const struct origin_set items = origins_set(&roles->origins, set);
    const struct ptx_func *entry = roles->entry;
    for (uint32_t i = 0; i < items.count; i++) {
        bool any = items.items[i] == ORIGIN_UNKNOWN, loaded = items.items[i] >= ORIGIN_LOADED;
        const struct ptx_var *var = loaded ? NULL : roles->origins.origins[items.items[i]].var;
        for (uint32_t p = 0; p < entry->param_count; p++)
            if (any || (var && entry->params[p] == var))
                say(bytes, entry->params[p]->offset, entry->params[p]->size,
                    any ? OTHERWISE : what);
    }
}

struct saying {
    const struct roles *roles;
    uint8_t *bytes;
};

static void escape(void *self, const struct origin_access *access)
{
    struct saying *saying = self;
    if (access->use == ORIGIN_ESCAPE)
        say_all(saying->roles, access->set, OTHERWISE, saying->bytes);
}

/* A load of an entry's parameter through a register that holds the parameter's address as it is. */
static bool at_address(const struct origins *origins, const struct roles_access *access,
                       const struct ptx_instr *instr, uint32_t *offset)
{
    const struct graph *graph = &origins->graphs[access->func];
    const struct ptx_operand *from = &instr->operands[access->operand];
    uint32_t def = from->reg == PTX_NO_REG
                       ? GRAPH_NONE
                       : graph_def(graph, graph_operand(graph, access->instr, from));
    const struct ptx_instr *mov = def == GRAPH_NONE ? NULL : &graph->func->instrs[def];
    if (!mov || mov->form->op != PTX_OP_mov || mov->guard != PTX_NO_REG ||
        mov->operand_count != 2 || mov->operands[1].kind != PTX_SYMBOL)
        return false;
    const struct ptx_var *var = mov->operands[1].var;
    int64_t inside = mov->operands[1].offset + from->offset;
    for (uint32_t i = 0; i < origins->entry->param_count; i++)
        if (origins->entry->params[i] == var && inside >= 0 &&
            (uint64_t)inside + access->bytes <= var->size) {
            *offset = var->offset + (uint32_t)inside;
            return access->bytes > 0;
        }
    return false;
}

static void load(const struct roles *roles, const struct roles_access *access, uint8_t *bytes)
{
    const struct origins *origins = &roles->origins;
    const struct ptx_instr *instr = &origins->graphs[access->func].func->instrs[access->instr];
    uint32_t offset, size = access->bytes;
    uint8_t what = taken_for(instr->form, access);
    if (origins_param_load(origins, access->func, instr, &offset, &size) ||
        at_address(origins, access, instr, &offset))
        say(bytes, offset, size, what);
    else if (access->spaces & SPACE_PARAM)
        say_all(roles, access->set, what, bytes);
}

kg_status roles_find_numbers(struct roles *roles, struct kg_arena *arena)
{
    uint8_t *bytes = arena_alloc(arena, ORIGIN_PARAM_BYTES);
    roles->numbers = arena_alloc(arena, ORIGIN_PARAM_BYTES);
    if (!bytes || !roles->numbers)
        return KG_NO_MEMORY;
    origins_uses(&roles->origins, escape, &(struct saying){roles, bytes});
    for (uint32_t i = 0; i < roles->access_count; i++)
        load(roles, &roles->accesses[i], bytes);
    for (uint32_t at = 0, width; at < ORIGIN_PARAM_BYTES; at += 4) {
        width = bytes[at] == ELEMENT_F32 ? 4 : 8;
        if (!bytes[at] || bytes[at] == OTHERWISE || at % width)
            continue;
        for (uint32_t i = 1; i < width && bytes[at]; i++)
            if (bytes[at + i] != bytes[at])
                bytes[at] = 0;
        roles->numbers[at] = bytes[at];
    }
    return KG_OK;
}
