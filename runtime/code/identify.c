/* The kernel id of PTX: a digest of the entry's canonical form, which two builds of a program
 * share. Left out: white space, comments, debug lines, label names, register names and
 * declarations, names of functions, parameters and shared variables, the order of the module, other
 * entries; `.version` and the architecture in `.target`, because a spelled-out instruction means
 * the same under each (what they allow is another matter, and the hardware key holds the
 * architecture). Kept: everything else, the names of globals too: a variant asks for the original's
 * globals by name, so two kernels that differ in which table they read must not share a record. */
#include "parts.h"

#include <ctype.h>
#include <stdlib.h>

struct canon {
    struct kg_hash *hash;
    const struct needs *needs;
    const struct ptx_func *func;
    const char *text;
    struct numbers locals; /* of func: parameters, results, variables of the body */
};

/* "36_GLOBAL__N__85742630_4_a_cu_e3d5275c": a length, then as many characters. Returns how many
 * characters are such a part, 0 for none. */
static size_t path_part(const char *name)
{
    static const char *const marks[] = {"_GLOBAL__N_", "_INTERNAL_"};
    char *after;
    if (!isdigit((unsigned char)*name))
        return 0;
    unsigned long length = strtoul(name, &after, 10);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (!strncmp(after, marks[i], strlen(marks[i])) && length <= strlen(after))
            return (size_t)(after - name) + length;
    return 0;
}

/* "__nv_static_28__6bbe125e_10_program_cu_coef__ZN…": what -rdc puts before a local name. */
size_t name_static_prefix(const char *name)
{
    static const char mark[] = "__nv_static_";
    char *after;
    if (strncmp(name, mark, sizeof mark - 1))
        return 0;
    unsigned long length = strtoul(name + sizeof mark - 1, &after, 10);
    size_t left = strlen(after);
    return left > 2 && length <= left - 2 ? (size_t)(after - name) + length + 2 : 0;
}

void hash_name(struct kg_hash *hash, const char *name)
{
    name += name_static_prefix(name);
    while (*name) {
        size_t skip = path_part(name);
        hash_bytes(hash, skip ? "?" : name, 1);
        name += skip ? skip : 1;
    }
    hash_bytes(hash, "", 1);
}

static void hash_image(struct canon *canon, const struct ptx_var *var)
{
    hash_u64(canon->hash, var->image_bytes);
    hash_bytes(canon->hash, var->image, var->image_bytes);
    hash_u64(canon->hash, var->reloc_count);
    for (uint32_t i = 0; i < var->reloc_count; i++) {
        const struct ptx_reloc *reloc = &var->relocs[i];
        hash_u64(canon->hash, reloc->offset);
        hash_u64(canon->hash, reloc->size | reloc->shift << 8 | reloc->generic << 16);
        hash_u64(canon->hash, (uint64_t)reloc->addend);
        hash_u64(canon->hash,
                 reloc->var ? number_find(&canon->needs->var_numbers, reloc->var, 0) : NO_NUMBER);
        hash_u64(canon->hash, reloc->func ? number_find(&canon->needs->func_numbers, reloc->func, 0)
                                          : NO_NUMBER);
    }
}

static void hash_var(struct canon *canon, const struct ptx_var *var)
{
    hash_text(canon->hash, ptx_spaces[var->space]);
    hash_text(canon->hash, ptx_types[var->type].text);
    hash_u64(canon->hash, var->vector | var->managed << 8 | var->is_register << 9);
    hash_u64(canon->hash, var->align);
    hash_u64(canon->hash, var->size);
    hash_u64(canon->hash, var->pointer ? 1 + var->ptr_space + ((uint64_t)var->ptr_align << 8) : 0);
    hash_image(canon, var);
}

/* What the host and variants look up by name; the compiler's own string constants are numbered
 * "$str$1" through the whole module. */
static void hash_module_var(struct canon *canon, const struct ptx_var *var)
{
    hash_var(canon, var);
    hash_u64(canon->hash, var->linkage == PTX_EXTERN);
    bool named = var->space != PTX_SPACE_shared && var->name[0] != '$';
    hash_name(canon->hash, named ? var->name : "");
}

static void hash_vars(struct canon *canon, struct ptx_var *const *vars, uint32_t count)
{
    hash_u64(canon->hash, count);
    for (uint32_t i = 0; i < count; i++)
        hash_var(canon, vars[i]);
}

static void hash_list(struct canon *canon, const struct ptx_list *list)
{
    hash_u64(canon->hash, list->kind);
    hash_u64(canon->hash, list->count);
    for (uint32_t i = 0; i < list->count; i++)
        hash_u64(canon->hash, list->kind == PTX_BRANCH_TARGETS
                                  ? canon->func->labels[list->labels[i]].instr
                                  : number_find(&canon->needs->func_numbers, list->funcs[i], 0));
    hash_u64(canon->hash, list->result_count);
    for (uint32_t i = 0; i < list->result_count; i++)
        hash_var(canon, &list->results[i]);
    hash_u64(canon->hash, list->param_count);
    for (uint32_t i = 0; i < list->param_count; i++)
        hash_var(canon, &list->params[i]);
}

/* The variable, function or list that an operand names. */
static void hash_symbol(struct canon *canon, const struct ptx_operand *operand)
{
    if (operand->var) {
        uint32_t local = number_find(&canon->locals, operand->var, 0);
        hash_u64(canon->hash, local != NO_NUMBER ? 1 : 2);
        hash_u64(canon->hash, local != NO_NUMBER
                                  ? local
                                  : number_find(&canon->needs->var_numbers, operand->var, 0));
    } else if (operand->func) {
        hash_u64(canon->hash, 3);
        hash_u64(canon->hash, number_find(&canon->needs->func_numbers, operand->func, 0));
    } else if (operand->list) {
        hash_u64(canon->hash, 4);
        hash_list(canon, operand->list);
    } else {
        hash_u64(canon->hash, 5);
        hash_text(canon->hash, operand->name ? operand->name : "");
    }
}

static void hash_reg(struct canon *canon, uint32_t number)
{
    hash_u64(canon->hash, number);
    if (number < canon->func->reg_count)
        hash_text(canon->hash, ptx_types[canon->func->regs[number].type].text);
}

static void hash_operand(void *self, const struct ptx_operand *operand)
{
    struct canon *canon = self;
    hash_u64(canon->hash, operand->kind | operand->component << 8 | operand->negated << 16 |
                              (uint64_t)operand->part_count << 32);
    switch (operand->kind) {
    case PTX_REG:
        hash_reg(canon, operand->reg);
        if (operand->component == PTX_SELECTOR)
            hash_text(canon->hash, operand->name);
        break;
    case PTX_INT:
    case PTX_F32:
    case PTX_F64:
        hash_u64(canon->hash, operand->bits);
        break;
    case PTX_SPECIAL:
        hash_text(canon->hash, operand->special == PTX_SR_unknown ? operand->name
                                                                  : ptx_specials[operand->special]);
        break;
    case PTX_SYMBOL:
    case PTX_ADDRESS:
        hash_u64(canon->hash, (uint64_t)operand->offset);
        if (operand->reg != PTX_NO_REG && operand->kind == PTX_ADDRESS)
            hash_reg(canon, operand->reg);
        else
            hash_symbol(canon, operand);
        break;
    case PTX_LABEL:
        hash_u64(canon->hash, operand->label < canon->func->label_count
                                  ? canon->func->labels[operand->label].instr
                                  : UINT32_MAX);
        break;
    default: /* its parts follow */
        break;
    }
}

static void hash_instr(struct canon *canon, const struct ptx_instr *instr)
{
    hash_text(canon->hash, instr->form->text);
    hash_u64(canon->hash, (uint64_t)instr->guard << 1 | instr->guard_negated);
    hash_u64(canon->hash, instr->operand_count);
    if (instr->opaque)
        hash_bytes(canon->hash, canon->text + instr->place.begin,
                   instr->place.end - instr->place.begin);
    for (unsigned i = 0; i < instr->operand_count; i++)
        operand_each(&instr->operands[i], hash_operand, canon);
}

/* A .pragma tells the compiler something and is kept, without its white space; .loc and the like
 * are for debuggers. */
static void hash_line(struct canon *canon, const char *line)
{
    line += strspn(line, " \t\r\n");
    if (strncmp(line, ".pragma", 7))
        return;
    for (; *line; line++)
        if (!isspace((unsigned char)*line))
            hash_bytes(canon->hash, line, 1);
    hash_bytes(canon->hash, "", 1);
}

static void hash_func(struct canon *canon, const struct ptx_module *module,
                      const struct ptx_func *func)
{
    canon->func = func;
    canon->locals = (struct numbers){.arena = canon->needs->func_numbers.arena};
    for (uint32_t i = 0; i < func->result_count; i++)
        number_of(&canon->locals, func->results[i], 0);
    for (uint32_t i = 0; i < func->param_count; i++)
        number_of(&canon->locals, func->params[i], 0);
    for (uint32_t i = 0; i < func->var_count; i++)
        number_of(&canon->locals, func->vars[i], 0);
    hash_text(canon->hash, func->defined ? "" : func->name);
    hash_vars(canon, func->results, func->result_count);
    hash_vars(canon, func->params, func->param_count);
    hash_vars(canon, func->vars, func->var_count);
    hash_u64(canon->hash, func->directive_count);
    for (uint32_t i = 0; i < func->directive_count; i++)
        hash_text(canon->hash, func->directives[i]);
    hash_u64(canon->hash, func->instr_count);
    for (uint32_t i = 0; i < func->stmt_count; i++) {
        const struct ptx_stmt *stmt = &func->stmts[i];
        if (stmt->kind == PTX_STMT_INSTR)
            hash_instr(canon, &func->instrs[stmt->index]);
        if (stmt->kind == PTX_STMT_LINE)
            hash_line(canon, module->lines[stmt->index]);
    }
}

void hash_ptx(struct kg_hash *hash, const struct ptx_module *module, const struct needs *needs,
              const char *text)
{
    struct canon canon = {.hash = hash, .needs = needs, .text = text};
    const char *modes = strchr(module->target, ','); /* "sm_90, texmode_independent" */
    hash_text(hash, "ptx 1");
    hash_u64(hash, module->address_size);
    hash_text(hash, modes && !strstr(modes, "debug") ? modes : "");
    hash_u64(hash, needs->func_count);
    for (uint32_t i = 0; i < needs->func_count; i++)
        hash_func(&canon, module, needs->funcs[i]);
    hash_u64(hash, needs->var_count);
    for (uint32_t i = 0; i < needs->var_count; i++)
        hash_module_var(&canon, needs->vars[i]);
}
