/* What admission asks of a candidate's PTX: decided on the parsed tree of the whole module, never
 * on text. Says what is there; whether it is allowed is the gate's business. */
#include "origin.h"

#include <stdio.h>

/* What eligible.c finds, as admission's words. */
static const struct {
    enum eligible_reason reason;
    size_t field; /* a bool of struct ptx_facts */
    const char *text;
} hazards[] = {
#define HAZARD(reason, field, text)                                                                \
    {                                                                                              \
        ELIGIBLE_##reason, offsetof(struct ptx_facts, field), text                                 \
    }
    HAZARD(UNDEFINED, unresolved_externs, "uses something that it does not define"),
    HAZARD(INDIRECT, unresolved_externs, "calls through a function pointer"),
    HAZARD(UNKNOWN, unresolved_externs, "has an instruction that is not known here"),
    HAZARD(TEXTURE, unresolved_externs, "uses a texture or surface"),
    HAZARD(LAUNCHES, device_runtime, "calls the device runtime"),
    HAZARD(GRID_SYNC, device_runtime, "synchronizes the grid"),
    HAZARD(DEPENDENT, device_runtime,
           "takes part in programmatic dependent launch, not waiting first"),
    HAZARD(CLUSTER, clusters, "uses thread block clusters"),
    HAZARD(ALLOCATES, allocates, "allocates memory"),
    HAZARD(PRINTS, prints, "prints"),
    HAZARD(ASSERTS, traps, "has an assert"),
    HAZARD(TRAPS, traps, "has a trap"),
    HAZARD(CLOCKS, clocks, "reads a clock"),
    HAZARD(PLACE, clocks, "asks where it runs"),
    HAZARD(VOLATILE, volatile_access, "has a volatile access"),
    HAZARD(SYSTEM, volatile_access, "has an access of system scope"),
    HAZARD(ORDERED, volatile_access, "has an ordered access"),
    HAZARD(SPINS, spins, "waits for memory to change"),
    HAZARD(TOO_LARGE, spins, "is too large to tell that it ends"),
    HAZARD(HIDDEN, writable_globals, "has a variable inside its body"),
    HAZARD(MANAGED, writable_globals, "has a managed variable"),
#undef HAZARD
};

struct reading {
    struct ptx_facts *out;
    const struct ptx_module *module;
    const struct origins *origins;
    uint32_t detail_line; /* 0: none yet */
};

/* Keeps the first offending construct of the text. */
static void offend(struct reading *reading, uint32_t line, const char *text, const char *name)
{
    if (reading->detail_line && reading->detail_line <= line)
        return;
    reading->detail_line = line;
    snprintf(reading->out->detail, sizeof reading->out->detail, "line %u: %s%s%.128s", line, text,
             *name ? " " : "", name);
}

/* ---- precision ---- */

/* Copies of bits are no arithmetic. */
static bool moves_only(enum ptx_op op)
{
    return op == PTX_OP_ld || op == PTX_OP_ldu || op == PTX_OP_st || op == PTX_OP_mov ||
           op == PTX_OP_selp || op == PTX_OP_shfl || op == PTX_OP_prmt;
}

static void read_types(const struct ptx_instr *instr, struct ptx_facts *out)
{
    if (moves_only(instr->form->op))
        return;
    if (instr->form->op == PTX_OP_tcgen05_mma) /* its types are in a descriptor */
        out->half_math = out->bf16_math = out->tf32_math = true;
    for (unsigned i = 0; i < instr->form->type_count; i++) {
        enum ptx_type type = instr->form->types[i];
        if (ptx_types[type].class != PTX_FLOAT)
            continue;
        out->double_math |= type == PTX_TYPE_f64 && instr->form->op != PTX_OP_cvt;
        if (type == PTX_TYPE_tf32)
            out->tf32_math = true;
        else if (type == PTX_TYPE_bf16 || type == PTX_TYPE_bf16x2)
            out->bf16_math = true;
        else if (type != PTX_TYPE_f32 && type != PTX_TYPE_f32x2 && type != PTX_TYPE_f64)
            out->half_math = true; /* f16, and what is smaller still */
    }
}

static bool adds_floats(const struct ptx_form *form)
{
    return ptx_has(form, PTX_MOD_add) && form->type_count &&
           ptx_types[form->types[form->type_count - 1]].class == PTX_FLOAT;
}

static void note_inexact(struct ptx_facts *out, enum ptx_op op, unsigned how)
{
    uint16_t item = (uint16_t)(op * FACT_HOWS + how);
    for (unsigned i = 0; i < out->inexact_count; i++)
        if (out->inexact[i] == item)
            return;
    if (out->inexact_count < FACT_INEXACT)
        out->inexact[out->inexact_count++] = item;
}

static void read_exactness(const struct ptx_instr *instr, struct ptx_facts *out)
{
    const struct ptx_form *form = instr->form;
    if (ptx_has(form, PTX_MOD_approx))
        note_inexact(out, form->op, FACT_APPROX);
    if (ptx_has(form, PTX_MOD_ftz))
        note_inexact(out, form->op, FACT_FTZ);
    if (ptx_has(form, PTX_MOD_full))
        note_inexact(out, form->op, FACT_FULL);
}

const char *ptx_inexact_text(uint16_t inexact, char *text, size_t size)
{
    static const char *const hows[FACT_HOWS] = {"approx", "ftz", "full"};
    snprintf(text, size, "%s.%s", ptx_ops[inexact / FACT_HOWS].text, hows[inexact % FACT_HOWS]);
    return text;
}

static void read_body(const struct ptx_func *func, struct ptx_facts *out)
{
    for (uint32_t i = 0; i < func->instr_count; i++) {
        const struct ptx_instr *instr = &func->instrs[i];
        read_types(instr, out);
        read_exactness(instr, out);
        out->nc_loads |= ptx_has(instr->form, PTX_MOD_nc);
        if (ptx_effects(instr) & PTX_ATOMIC) {
            out->atomics = true;
            out->float_atomics |= adds_floats(instr->form);
        }
        if (instr->form->op == PTX_OP_griddepcontrol) {
            out->waits_for_previous |= ptx_has(instr->form, PTX_MOD_wait);
            out->lets_next_start |= ptx_has(instr->form, PTX_MOD_launch_dependents);
        }
    }
}

/* ---- writable globals ---- */

/* Tables that are only read (those of sinf, say) are .global too: a variable counts as writable
 * when its address, followed, is written through or gets out of sight. */
static void global_use(void *self, const struct origin_access *access)
{
    struct reading *reading = self;
    const struct origin_set set = origins_set(reading->origins, access->set);
    if (access->use == ORIGIN_READ || access->use == ORIGIN_READ_CACHED)
        return;
    for (uint32_t i = 0; i < set.count && set.items[i] < ORIGIN_LOADED; i++) {
        const struct ptx_var *var = reading->origins->origins[set.items[i]].var;
        if (!var || var->space != PTX_SPACE_global)
            continue;
        reading->out->writable_globals = true;
        offend(reading, var->place.line, "writes the variable", var->name);
    }
}

static kg_status read_globals(struct reading *reading, const struct needs *needs)
{
    struct origins origins;
    const struct ptx_module *module = reading->module;
    bool any = false;
    for (uint32_t i = 0; i < module->var_count; i++) {
        const struct ptx_var *var = module->vars[i];
        if (var->space != PTX_SPACE_global)
            continue;
        any = true;
        for (uint32_t j = 0; j < var->reloc_count; j++)
            if (var->relocs[j].var && var->relocs[j].var->space == PTX_SPACE_global) {
                reading->out->writable_globals = true;
                offend(reading, var->place.line, "stores an address in the variable", var->name);
            }
    }
    if (!any || reading->out->writable_globals)
        return KG_OK;
    kg_status status = origins_make(needs, NULL, needs->func_numbers.arena, &origins);
    reading->origins = &origins;
    if (status == KG_OK)
        origins_uses(&origins, global_use, reading);
    reading->origins = NULL;
    return status;
}

/* ---- the whole ---- */

static kg_status read_entry(const struct ptx_func *entry, struct ptx_facts *out)
{
    if (entry->param_count > sizeof out->params / sizeof *out->params)
        return KG_LIMIT;
    snprintf(out->entry, sizeof out->entry, "%s", entry->name);
    out->param_count = entry->param_count;
    for (uint32_t i = 0; i < entry->param_count; i++)
        out->params[i] =
            (struct kg_param){entry->params[i]->offset, (uint32_t)entry->params[i]->size};
    return KG_OK;
}

static void read_hazards(struct reading *reading, const struct needs *needs)
{
    struct eligible found = {0};
    eligible_scan(reading->module, needs, &found);
    for (size_t i = 0; i < sizeof hazards / sizeof *hazards; i++) {
        if (!(found.reasons >> hazards[i].reason & 1))
            continue;
        *(bool *)((char *)reading->out + hazards[i].field) = true;
        offend(reading, found.lines[hazards[i].reason], hazards[i].text, "");
    }
}

static kg_status read_module(struct reading *reading, const struct ptx_func *entry,
                             struct kg_arena *arena)
{
    struct needs needs;
    struct ptx_facts *out = reading->out;
    kg_status status = needs_make(reading->module, entry, arena, &needs);
    for (uint32_t i = 0; status == KG_OK && i < needs.func_count; i++) {
        const struct ptx_func *func = needs.funcs[i];
        if (func->entry && func->defined && !out->entries++)
            status = read_entry(func, out);
        read_body(func, out);
    }
    if (status != KG_OK)
        return status;
    out->static_shared = needs_shared(&needs);
    out->local_bytes = needs_local(&needs);
    read_hazards(reading, &needs);
    return read_globals(reading, &needs);
}

kg_status ptx_facts_of_entry(const char *ptx, const char *entry, struct ptx_facts *out, char *error,
                             size_t error_size)
{
    struct ptx_module module;
    struct kg_arena arena = {0};
    *out = (struct ptx_facts){0};
    kg_status status = ptx_parse(ptx, strlen(ptx), &module, error, error_size);
    if (status != KG_OK)
        return status;
    struct reading reading = {.out = out, .module = &module};
    const struct ptx_func *func = entry ? ptx_find_func(&module, entry) : NULL;
    status = entry && !func ? KG_NOT_FOUND : read_module(&reading, func, &arena);
    if (status == KG_NOT_FOUND && error_size)
        snprintf(error, error_size, "the PTX has no entry %.200s", entry);
    else if (status != KG_OK && error_size)
        snprintf(error, error_size, "the PTX is too large or too twisted to be checked");
    arena_free(&arena);
    ptx_module_free(&module);
    return status;
}

kg_status ptx_facts_of(const char *ptx, struct ptx_facts *out, char *error, size_t error_size)
{
    return ptx_facts_of_entry(ptx, NULL, out, error, error_size);
}
