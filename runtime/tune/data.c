/* What is known of the bytes of an image from the original's PTX: for each run of bytes the element
 * type of what is written, the type and width of what is loaded, and what loaded data are used for.
 * By these, results are compared and other inputs are drawn. And which numbers among the parameters
 * are in arithmetic only.
 *
 * Safe direction: what cannot be told is compared by bits, and its uses are unknown. */
#include "tune/replay.h"

#include <stdlib.h>
#include <string.h>

/* What one pointer or variable leads to. */
struct target {
    uint64_t address, size;
    uint32_t origin_word; /* 8-byte word of the parameters; UINT32_MAX: a variable */
    const char *name;     /* of a variable */
    bool known;           /* an access names it */
    bool read, written;
    uint8_t loads, stores, width;
    unsigned roles;
};

struct reading {
    struct replay_memory *memory;
    const struct roles *roles;
    struct target *targets;
    uint32_t count;
    bool all_unknown;   /* an access may lead anywhere, or the PTX says nothing */
    bool writes_nested; /* through pointers that stand in memory */
};

static unsigned type_bytes(const struct ptx_instr *instr)
{
    unsigned bits = instr->form->type_count ? ptx_types[instr->form->types[0]].bits : 0;
    return bits >= 8 ? bits / 8 : 1;
}

/* Whatever several accesses say, the finer width and the more doubtful type hold. */
static uint8_t both(bool any, uint8_t a, uint8_t b)
{
    return !any || a == b ? b : ELEMENT_UNKNOWN;
}

/* ---- what a store stores -----------------------------------------------------------------------
 *
 * Where types by unification contradict each other (a struct with numbers of several types in one
 * memory unites all that is loaded from it), the value stored may still be of one type by what
 * computes it: then all its definitions are arithmetic of that type, or loads that name it.
 */

enum { DEFS = 64, DEEPEST = 8 };

struct stored {
    const struct graph *graph;
    unsigned work;
    bool computed; /* by at least one operation */
};

static uint8_t element_of_type(unsigned type)
{
    switch (type) {
    case PTX_TYPE_f16:
    case PTX_TYPE_f16x2:
        return ELEMENT_F16;
    case PTX_TYPE_bf16:
    case PTX_TYPE_bf16x2:
        return ELEMENT_BF16;
    case PTX_TYPE_f32:
        return ELEMENT_F32;
    case PTX_TYPE_f64:
        return ELEMENT_F64;
    default:
        return ELEMENT_UNKNOWN;
    }
}

static uint8_t element_of_operand(struct stored *at, uint32_t instr,
                                  const struct ptx_operand *operand, unsigned depth);

static uint8_t element_of_def(struct stored *at, uint32_t index, unsigned depth)
{
    const struct ptx_instr *instr = &at->graph->func->instrs[index];
    unsigned first = 1, last = 1;
    uint8_t all = ELEMENT_UNKNOWN;
    switch (instr->form->op) {
    case PTX_OP_selp:
        last = 2;
        break;
    case PTX_OP_mov:
    case PTX_OP_shfl:
        break;
    default:
        if (instr->opaque || !instr->form->type_count ||
            ptx_effects(instr) & (PTX_CALLS | PTX_WORST))
            return ELEMENT_UNKNOWN;
        at->computed |= !(ptx_effects(instr) & PTX_READS);
        return element_of_type(instr->form->types[0]);
    }
    for (unsigned i = first; i <= last && i < instr->operand_count; i++) {
        uint8_t one = element_of_operand(at, index, &instr->operands[i], depth + 1);
        if (one == ELEMENT_UNKNOWN || (i > first && one != all))
            return ELEMENT_UNKNOWN;
        all = one;
    }
    return all;
}

static uint8_t element_of_operand(struct stored *at, uint32_t instr,
                                  const struct ptx_operand *operand, unsigned depth)
{
    uint32_t defs[DEFS] = {0};
    uint8_t all = ELEMENT_UNKNOWN;
    if (depth > DEEPEST || operand->kind != PTX_REG || ++at->work > DEFS)
        return ELEMENT_UNKNOWN;
    uint32_t value = graph_read(at->graph, instr, operand->reg), count = 0;
    if (value == GRAPH_UNKNOWN || !graph_defs(at->graph, value, defs, DEFS, &count) || !count)
        return ELEMENT_UNKNOWN;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t one = defs[i] == GRAPH_NONE ? ELEMENT_UNKNOWN : element_of_def(at, defs[i], depth);
        if (one == ELEMENT_UNKNOWN || (i && one != all))
            return ELEMENT_UNKNOWN;
        all = one;
    }
    return all;
}

static uint8_t stored_element(const struct graph *graph, uint32_t index)
{
    const struct ptx_instr *instr = &graph->func->instrs[index];
    struct stored at = {.graph = graph};
    if (instr->form->op != PTX_OP_st || instr->operand_count < 2)
        return ELEMENT_UNKNOWN;
    const struct ptx_operand *value = &instr->operands[1];
    uint8_t all =
        value->kind == PTX_VECTOR ? ELEMENT_UNKNOWN : element_of_operand(&at, index, value, 0);
    for (uint32_t i = 0; value->kind == PTX_VECTOR && i < value->part_count; i++) {
        uint8_t one = element_of_operand(&at, index, &value->parts[i], 0);
        if (one == ELEMENT_UNKNOWN || (i && one != all))
            return ELEMENT_UNKNOWN;
        all = one;
    }
    return at.computed ? all : ELEMENT_UNKNOWN;
}

/* ---- accesses ----------------------------------------------------------------------------------
 */

static unsigned element_width(uint8_t element, unsigned moved)
{
    switch (element) {
    case ELEMENT_F16:
    case ELEMENT_BF16:
        return 2;
    case ELEMENT_F32:
        return 4;
    case ELEMENT_F64:
        return 8;
    default:
        return moved > 8 ? 8 : moved;
    }
}

static void note(struct target *target, const struct roles_access *access,
                 const struct ptx_instr *instr, const struct graph *graph)
{
    unsigned width = element_width(access->element, type_bytes(instr));
    if (!target->known || width < target->width)
        target->width = (uint8_t)width;
    target->known = true;
    if (access->read) {
        target->loads = both(target->read, target->loads, access->element);
        target->roles |= access->data.roles;
        target->read = true;
    }
    if (access->written || access->atomic) {
        /* a type that only moves name is no arithmetic */
        uint8_t stores = access->element_declared ? ELEMENT_MOVED : access->element;
        if (stores == ELEMENT_UNKNOWN && graph)
            stores = stored_element(graph, access->instr);
        target->stores = both(target->written, target->stores, stores);
        target->written = true;
    }
}

/* Gives what an access says to all that it may lead to; what it may lead to unseen makes all
 * doubtful. Data behind loaded pointers belong to no target. */
static void take_access(struct reading *reading, const struct roles_access *access)
{
    const struct origins *origins = &reading->roles->origins;
    const struct origin_set set = origins_set(origins, access->set);
    const struct ptx_instr *instr =
        &reading->roles->needs.funcs[access->func]->instrs[access->instr];
    if (!(access->spaces & (SPACE_GLOBAL | SPACE_CONST)))
        return;
    for (uint32_t i = 0; i < set.count; i++) {
        uint16_t item = set.items[i];
        if (item == ORIGIN_UNKNOWN)
            reading->all_unknown = true;
        if (item >= ORIGIN_LOADED) {
            reading->writes_nested |= access->written || access->atomic;
            continue;
        }
        const struct origin *origin = &origins->origins[item];
        for (uint32_t t = 0; t < reading->count; t++) {
            struct target *target = &reading->targets[t];
            if (origin->var ? target->name && !strcmp(target->name, origin->var->name)
                            : !target->name && target->origin_word == origin->word)
                note(target, access, instr,
                     reading->roles->unknown_writes ? NULL : &origins->graphs[access->func]);
        }
    }
    if (!set.count)
        reading->all_unknown = true;
}

static void find_targets(struct reading *reading)
{
    const struct kg_capture *capture = reading->memory->capture;
    for (uint32_t i = 0; i < capture->pointer_count; i++) {
        const struct capture_pointer *pointer = &capture->pointers[i];
        if (pointer->region >= capture->region_count || pointer->param >= capture->param_count)
            continue;
        const struct capture_region *region = &capture->regions[pointer->region];
        reading->targets[reading->count++] = (struct target){
            .address = region->address,
            .size = region->size,
            .origin_word = (capture->params[pointer->param].offset + pointer->offset) / 8};
    }
    for (uint32_t i = 0; i < capture->region_count; i++)
        if (capture->regions[i].kind == CAPTURE_GLOBAL)
            reading->targets[reading->count++] =
                (struct target){.origin_word = UINT32_MAX, .name = capture->regions[i].name};
}

/* ---- pieces of the image -----------------------------------------------------------------------
 */

static int by_place(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return x < y ? -1 : x > y;
}

static bool covers(const struct replay_memory *memory, const struct replay_extent *extent,
                   const struct target *target, size_t at)
{
    if (extent->global)
        return target->name && !strcmp(target->name, memory->capture->regions[extent->region].name);
    uint64_t address = extent->address + (at - extent->at);
    return !target->name && address >= target->address && address - target->address < target->size;
}

static bool nested(const struct replay_memory *memory, const struct replay_extent *extent,
                   size_t at)
{
    const struct kg_capture *capture = memory->capture;
    uint64_t address = extent->address + (at - extent->at);
    for (uint32_t i = 0; i < capture->region_count && !extent->global; i++)
        if (capture->regions[i].kind == CAPTURE_NESTED && address >= capture->regions[i].address &&
            address - capture->regions[i].address < capture->regions[i].size)
            return true;
    return false;
}

/* What all targets that cover these bytes say together. */
static void describe(const struct reading *reading, const struct replay_extent *extent,
                     struct replay_datum *datum)
{
    bool any = false, read = false, written = false, covered = false;
    datum->global = extent->global;
    for (uint32_t i = 0; i < reading->count; i++) {
        const struct target *target = &reading->targets[i];
        if (!covers(reading->memory, extent, target, datum->from))
            continue;
        covered = true;
        if (!target->known)
            continue;
        datum->width = any && datum->width < target->width ? datum->width : target->width;
        if (target->read)
            datum->loads = both(read, datum->loads, target->loads);
        if (target->written)
            datum->stores = both(written, datum->stores, target->stores);
        datum->roles |= target->roles;
        read |= target->read;
        written |= target->written;
        any = true;
    }
    bool unseen = nested(reading->memory, extent, datum->from);
    datum->read = read;
    if (unseen || (covered && reading->all_unknown)) {
        datum->stores = datum->loads = ELEMENT_UNKNOWN;
        datum->roles |= ROLE_UNKNOWN;
        datum->read = true;
    }
    if (reading->writes_nested)
        datum->stores = ELEMENT_UNKNOWN;
    if (!datum->width)
        datum->width = 4;
}

static kg_status cut(const struct reading *reading)
{
    struct replay_memory *memory = reading->memory;
    const struct kg_capture *capture = memory->capture;
    size_t room = 2 * (size_t)(capture->region_count + memory->extent_count) + 1, count = 0;
    size_t *cuts = calloc(room, sizeof *cuts);
    memory->data = calloc(room, sizeof *memory->data);
    if (!cuts || !memory->data) {
        free(cuts);
        return KG_NO_MEMORY;
    }
    for (uint32_t i = 0; i < memory->extent_count; i++) {
        const struct replay_extent *extent = &memory->extents[i];
        cuts[count++] = extent->at;
        for (uint32_t r = 0; r < capture->region_count && !extent->global; r++) {
            const struct capture_region *region = &capture->regions[r];
            uint64_t from = region->address - extent->address;
            if (region->kind == CAPTURE_GLOBAL || region->address < extent->address ||
                from >= extent->size || count + 2 > room)
                continue;
            cuts[count++] = extent->at + from;
            if (from + region->size < extent->size)
                cuts[count++] = extent->at + from + region->size;
        }
    }
    qsort(cuts, count, sizeof *cuts, by_place);
    for (size_t i = 0, e = 0; i < count; i++) {
        size_t end = i + 1 < count ? cuts[i + 1] : memory->total;
        while (e + 1 < memory->extent_count && memory->extents[e + 1].at <= cuts[i])
            e++;
        if (end == cuts[i])
            continue;
        struct replay_datum *datum = &memory->data[memory->datum_count++];
        *datum = (struct replay_datum){.from = cuts[i], .to = end};
        if (memory->extents[e].global && end > cuts[i] + memory->extents[e].size)
            datum->to = cuts[i] + memory->extents[e].size;
        describe(reading, &memory->extents[e], datum);
    }
    free(cuts);
    return KG_OK;
}

static kg_status take_numbers(struct replay_memory *memory, const struct roles *roles)
{
    struct replay_number *numbers = malloc((ORIGIN_PARAM_BYTES / 4) * sizeof *numbers);
    memory->numbers = numbers;
    for (uint32_t at = 0; numbers && at < ORIGIN_PARAM_BYTES; at += 4)
        if (roles->numbers[at])
            numbers[memory->number_count++] = (struct replay_number){at, roles->numbers[at]};
    return numbers ? KG_OK : KG_NO_MEMORY;
}

static kg_status read_ptx(struct reading *reading, const char *ptx, const char *entry)
{
    struct kg_arena arena = {0};
    struct ptx_module module;
    struct roles roles;
    char error[128];
    kg_status status = ptx_parse(ptx, strlen(ptx), &module, error, sizeof error);
    if (status != KG_OK)
        return status;
    const struct ptx_func *func = ptx_find_func(&module, entry);
    status = func && func->entry && func->defined ? roles_make(&module, func, &arena, &roles)
                                                  : KG_NOT_FOUND;
    reading->roles = &roles;
    for (uint32_t i = 0; status == KG_OK && i < roles.access_count; i++)
        take_access(reading, &roles.accesses[i]);
    if (status == KG_OK && roles.unknown_writes)
        reading->all_unknown = true;
    if (status == KG_OK)
        status = take_numbers(reading->memory, &roles);
    arena_free(&arena);
    ptx_module_free(&module);
    return status;
}

kg_status memory_data(struct replay_memory *memory, const char *ptx, const char *entry)
{
    const struct kg_capture *capture = memory->capture;
    struct reading reading = {.memory = memory};
    reading.targets =
        calloc(capture->pointer_count + capture->region_count + 1, sizeof *reading.targets);
    if (!reading.targets)
        return KG_NO_MEMORY;
    find_targets(&reading);
    free(memory->numbers);
    memory->numbers = NULL;
    memory->number_count = 0;
    if (!ptx || read_ptx(&reading, ptx, entry) != KG_OK)
        reading.all_unknown = true;
    free(memory->data);
    memory->datum_count = 0;
    kg_status status = cut(&reading);
    free(reading.targets);
    return status;
}

const struct replay_datum *memory_datum(const struct replay_memory *memory, size_t at)
{
    uint32_t low = 0, high = memory->datum_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (memory->data[middle].to <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low < memory->datum_count && memory->data[low].from <= at ? &memory->data[low] : NULL;
}
