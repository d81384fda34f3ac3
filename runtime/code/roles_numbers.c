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

struct saying {
    const struct roles *roles;
    uint8_t *bytes;    /* by byte of the parameters: what is said of it; 0: nothing yet */
    uint8_t *is_param; /* by origin: a parameter's address */
};

/* Through an address that may lead to any byte of some parameters. */
static void say_all(const struct saying *saying, uint32_t set, uint8_t what)
{
    const struct origins *origins = &saying->roles->origins;
    const struct origin_set items = origins_set(origins, set);
    for (uint32_t i = 0; i < items.count; i++) {
        uint16_t item = items.items[i];
        if (item == ORIGIN_UNKNOWN)
            say(saying->bytes, 0, ORIGIN_PARAM_BYTES, OTHERWISE);
        else if (item < ORIGIN_LOADED && saying->is_param[item])
            say(saying->bytes, origins->origins[item].var->offset, origins->origins[item].var->size,
                what);
    }
}

static void escape(void *self, const struct origin_access *access)
{
    if (access->use == ORIGIN_ESCAPE)
        say_all(self, access->set, OTHERWISE);
}

/* A load through a register that holds the address of an entry's parameter as it is. */
static bool at_address(const struct saying *saying, const struct roles_access *access,
                       const struct ptx_operand *from, uint32_t *offset)
{
    const struct origins *origins = &saying->roles->origins;
    const struct graph *graph = &origins->graphs[access->func];
    uint32_t def = from->reg == PTX_NO_REG
                       ? GRAPH_NONE
                       : graph_def(graph, graph_operand(graph, access->instr, from));
    const struct ptx_instr *mov = def == GRAPH_NONE ? NULL : &graph->func->instrs[def];
    if (!mov || mov->form->op != PTX_OP_mov || mov->guard != PTX_NO_REG ||
        mov->operand_count != 2 || mov->operands[1].kind != PTX_SYMBOL || !mov->operands[1].var)
        return false;
    const struct ptx_var *var = mov->operands[1].var;
    uint32_t number = origins_of_var(origins, var);
    int64_t inside;
    if (number == GRAPH_NONE || !saying->is_param[number] ||
        __builtin_add_overflow(mov->operands[1].offset, from->offset, &inside) || inside < 0 ||
        (uint64_t)inside + access->bytes > var->size)
        return false;
    *offset = var->offset + (uint32_t)inside;
    return access->bytes > 0;
}

static void load(const struct saying *saying, const struct roles_access *access)
{
    const struct origins *origins = &saying->roles->origins;
    const struct ptx_instr *instr = &origins->graphs[access->func].func->instrs[access->instr];
    uint32_t offset, size = access->bytes;
    uint8_t what = taken_for(instr->form, access);
    if (origins_param_load(origins, access->func, instr, &offset, &size) ||
        at_address(saying, access, &instr->operands[access->operand], &offset))
        say(saying->bytes, offset, size, what);
    else if (access->spaces & SPACE_PARAM)
        say_all(saying, access->set, what);
}

kg_status roles_find_numbers(struct roles *roles, struct kg_arena *arena)
{
    struct saying saying = {.roles = roles,
                            .bytes = arena_alloc(arena, ORIGIN_PARAM_BYTES),
                            .is_param = arena_alloc(arena, ORIGIN_COUNT)};
    uint8_t *bytes = saying.bytes;
    roles->numbers = arena_alloc(arena, ORIGIN_PARAM_BYTES);
    if (!bytes || !saying.is_param || !roles->numbers)
        return KG_NO_MEMORY;
    for (uint32_t i = 0; i < roles->entry->param_count; i++) {
        uint32_t number = origins_of_var(&roles->origins, roles->entry->params[i]);
        if (number != GRAPH_NONE)
            saying.is_param[number] = true;
    }
    origins_uses(&roles->origins, escape, &saying);
    for (uint32_t i = 0; i < roles->access_count; i++)
        load(&saying, &roles->accesses[i]);
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
