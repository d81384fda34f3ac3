/* The tables of ptx_ops.def as data, and small questions about a parsed tree. */
#include "code/ptx.h"

#include <stdio.h>
#include <string.h>

const struct ptx_op_row ptx_ops[PTX_OP_COUNT] = {
#define PTX_OP(id, text, roles, effects) {text, roles, effects},
#include "code/ptx_ops.def"
};

const struct ptx_type_row ptx_types[PTX_TYPE_COUNT] = {
    {"", 0, PTX_OPAQUE},
#define PTX_TYPE(id, bits, class) {#id, bits, class},
#include "code/ptx_ops.def"
};

const char *const ptx_mods[PTX_MOD_COUNT] = {
    "",
#define PTX_MOD(id, text) text,
#include "code/ptx_ops.def"
};

const char *const ptx_specials[PTX_SR_COUNT] = {
    "",
#define PTX_SPECIAL(id) #id,
#include "code/ptx_ops.def"
};

const char *const ptx_spaces[] = {"", "global", "const", "shared", "local", "param", "reg", "tex"};

bool ptx_has(const struct ptx_form *form, enum ptx_mod mod)
{
    for (unsigned i = 0; i < form->mod_count; i++)
        if (form->mods[i] == mod)
            return true;
    return false;
}

enum ptx_space ptx_mod_space(unsigned mod)
{
    switch (mod) {
    case PTX_MOD_global:
        return PTX_SPACE_global;
    case PTX_MOD_const:
        return PTX_SPACE_const;
    case PTX_MOD_shared:
    case PTX_MOD_shared_cta:
    case PTX_MOD_shared_cluster:
        return PTX_SPACE_shared;
    case PTX_MOD_local:
        return PTX_SPACE_local;
    case PTX_MOD_param:
    case PTX_MOD_param_entry:
    case PTX_MOD_param_func:
        return PTX_SPACE_param;
    default:
        return PTX_SPACE_generic;
    }
}

uint32_t ptx_effects(const struct ptx_instr *instr)
{
    return ptx_ops[instr->form->op].effects | (instr->form->strange ? PTX_WORST : 0u);
}

uint32_t ptx_moved_bytes(const struct ptx_form *form)
{
    switch (form->op) {
    case PTX_OP_ld:
    case PTX_OP_ldu:
    case PTX_OP_st:
    case PTX_OP_atom:
    case PTX_OP_red:
        break;
    default:
        return 0;
    }
    unsigned bits = form->type_count ? ptx_types[form->types[form->type_count - 1]].bits : 0;
    return form->strange ? 0 : bits / 8 * (form->vector ? form->vector : 1);
}

char ptx_role(const struct ptx_instr *instr, unsigned index)
{
    const char *roles = instr->form->op == PTX_OP_call ? "dfst" : ptx_ops[instr->form->op].roles;
    size_t length = strlen(roles);
    return roles[index < length ? index : length - 1];
}

char *ptx_reg_name(const struct ptx_reg *reg, char *text, size_t size)
{
    if (reg->decl->range)
        snprintf(text, size, "%s%u", reg->decl->name, reg->index);
    else
        snprintf(text, size, "%s", reg->decl->name);
    return text;
}

struct ptx_func *ptx_find_func(const struct ptx_module *module, const char *name)
{
    for (uint32_t i = 0; i < module->func_count; i++)
        if (!strcmp(module->funcs[i]->name, name))
            return module->funcs[i];
    return NULL;
}

struct ptx_var *ptx_find_var(const struct ptx_module *module, const char *name)
{
    struct ptx_var *found = NULL;
    for (uint32_t i = 0; i < module->var_count; i++) {
        struct ptx_var *var = module->vars[i];
        if (!strcmp(var->name, name) && (!found || found->linkage == PTX_EXTERN))
            found = var;
    }
    return found;
}

struct ptx_var *ptx_find_param(const struct ptx_func *func, const char *name)
{
    for (uint32_t i = 0; i < func->param_count; i++)
        if (!strcmp(func->params[i]->name, name))
            return func->params[i];
    return NULL;
}
