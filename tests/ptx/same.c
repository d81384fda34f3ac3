/* Whether two trees of PTX are equal, places apart: what a round trip must give. */
#include "ptx/same.h"

#include <string.h>

static bool same_name(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

static bool same_var(const struct ptx_var *a, const struct ptx_var *b)
{
    if (!a || !b)
        return a == b;
    bool same = same_name(a->name, b->name) && a->space == b->space && a->type == b->type &&
                a->vector == b->vector && a->linkage == b->linkage && a->managed == b->managed &&
                a->array == b->array && a->unsized == b->unsized && a->align == b->align &&
                a->declared_align == b->declared_align && a->size == b->size &&
                a->element_count == b->element_count && a->dim_count == b->dim_count &&
                a->offset == b->offset && a->is_register == b->is_register && a->reg == b->reg &&
                a->pointer == b->pointer && a->ptr_space == b->ptr_space &&
                a->ptr_align == b->ptr_align && a->image_bytes == b->image_bytes &&
                a->reloc_count == b->reloc_count && a->scope == b->scope;
    same = same && !memcmp(a->dims, b->dims, sizeof a->dims) &&
           (!a->image_bytes || !memcmp(a->image, b->image, a->image_bytes));
    for (uint32_t i = 0; same && i < a->reloc_count; i++) {
        const struct ptx_reloc *x = &a->relocs[i], *y = &b->relocs[i];
        same =
            x->offset == y->offset && x->size == y->size && x->shift == y->shift &&
            x->generic == y->generic && x->addend == y->addend && !x->var == !y->var &&
            same_name(x->var ? x->var->name : x->func->name, y->var ? y->var->name : y->func->name);
    }
    return same;
}

static bool same_operand(const struct ptx_operand *a, const struct ptx_operand *b)
{
    bool same = a->kind == b->kind && a->component == b->component && a->negated == b->negated &&
                a->special == b->special && a->reg == b->reg && a->label == b->label &&
                a->part_count == b->part_count && a->bits == b->bits && same_var(a->var, b->var) &&
                same_name(a->func ? a->func->name : NULL, b->func ? b->func->name : NULL) &&
                same_name(a->list ? a->list->name : NULL, b->list ? b->list->name : NULL) &&
                same_name(a->name, b->name);
    for (uint32_t i = 0; same && i < a->part_count; i++)
        same = same_operand(&a->parts[i], &b->parts[i]);
    return same;
}

static bool same_instr(const struct ptx_instr *a, const struct ptx_instr *b)
{
    bool same = same_name(a->form->text, b->form->text) && a->form->op == b->form->op &&
                a->form->space == b->form->space && a->form->vector == b->form->vector &&
                a->form->type_count == b->form->type_count &&
                a->form->mod_count == b->form->mod_count && a->guard == b->guard &&
                a->guard_negated == b->guard_negated && a->opaque == b->opaque &&
                same_name(a->opaque_text, b->opaque_text) && a->scope == b->scope &&
                a->operand_count == b->operand_count;
    for (unsigned i = 0; same && i < a->operand_count; i++)
        same = same_operand(&a->operands[i], &b->operands[i]);
    return same;
}

static bool same_params(struct ptx_var *const *a, struct ptx_var *const *b, uint32_t count)
{
    bool same = true;
    for (uint32_t i = 0; same && i < count; i++)
        same = same_var(a[i], b[i]);
    return same;
}

static bool same_list(const struct ptx_list *a, const struct ptx_list *b)
{
    bool same = same_name(a->name, b->name) && a->kind == b->kind && a->count == b->count &&
                a->result_count == b->result_count && a->param_count == b->param_count &&
                a->noreturn == b->noreturn;
    for (uint32_t i = 0; same && i < a->count; i++)
        same = a->kind == PTX_BRANCH_TARGETS ? a->labels[i] == b->labels[i]
                                             : same_name(a->funcs[i]->name, b->funcs[i]->name);
    for (uint32_t i = 0; same && i < a->param_count; i++)
        same = same_var(&a->params[i], &b->params[i]);
    return same;
}

static bool same_body(const struct ptx_func *a, const struct ptx_func *b)
{
    bool same = a->reg_decl_count == b->reg_decl_count && a->reg_count == b->reg_count &&
                a->var_count == b->var_count && a->label_count == b->label_count &&
                a->scope_count == b->scope_count && a->list_count == b->list_count &&
                a->instr_count == b->instr_count && a->stmt_count == b->stmt_count;
    for (uint32_t i = 0; same && i < a->reg_count; i++)
        same = a->regs[i].index == b->regs[i].index && a->regs[i].type == b->regs[i].type &&
               same_name(a->regs[i].decl->name, b->regs[i].decl->name) &&
               a->regs[i].decl->count == b->regs[i].decl->count &&
               a->regs[i].decl->scope == b->regs[i].decl->scope;
    for (uint32_t i = 0; same && i < a->label_count; i++)
        same = same_name(a->labels[i].name, b->labels[i].name) &&
               a->labels[i].instr == b->labels[i].instr && a->labels[i].scope == b->labels[i].scope;
    for (uint32_t i = 0; same && i < a->scope_count; i++)
        same = a->scopes[i].parent == b->scopes[i].parent &&
               a->scopes[i].first == b->scopes[i].first && a->scopes[i].end == b->scopes[i].end;
    for (uint32_t i = 0; same && i < a->list_count; i++)
        same = same_list(a->lists[i], b->lists[i]);
    for (uint32_t i = 0; same && i < a->instr_count; i++)
        same = same_instr(&a->instrs[i], &b->instrs[i]);
    for (uint32_t i = 0; same && i < a->stmt_count; i++)
        same = a->stmts[i].kind == b->stmts[i].kind && a->stmts[i].index == b->stmts[i].index;
    return same && same_params(a->vars, b->vars, a->var_count);
}

static bool same_func(const struct ptx_func *a, const struct ptx_func *b)
{
    bool same = same_name(a->name, b->name) && a->entry == b->entry && a->defined == b->defined &&
                a->noreturn == b->noreturn && a->linkage == b->linkage &&
                a->param_count == b->param_count && a->param_bytes == b->param_bytes &&
                a->result_count == b->result_count && !memcmp(a->maxntid, b->maxntid, 12) &&
                !memcmp(a->reqntid, b->reqntid, 12) && a->minnctapersm == b->minnctapersm &&
                a->maxnreg == b->maxnreg && a->directive_count == b->directive_count;
    for (uint32_t i = 0; same && i < a->directive_count; i++)
        same = same_name(a->directives[i], b->directives[i]);
    return same && same_params(a->params, b->params, a->param_count) &&
           same_params(a->results, b->results, a->result_count) && same_body(a, b);
}

bool ptx_same(const struct ptx_module *a, const struct ptx_module *b)
{
    bool same = a->version_major == b->version_major && a->version_minor == b->version_minor &&
                a->sm == b->sm && same_name(a->target, b->target) &&
                a->address_size == b->address_size && a->item_count == b->item_count &&
                a->var_count == b->var_count && a->func_count == b->func_count &&
                a->line_count == b->line_count && a->unknown_count == b->unknown_count;
    for (uint32_t i = 0; same && i < a->item_count; i++)
        same = a->items[i].kind == b->items[i].kind;
    for (uint32_t i = 0; same && i < a->line_count; i++)
        same = same_name(a->lines[i], b->lines[i]);
    for (uint32_t i = 0; same && i < a->func_count; i++)
        same = same_func(a->funcs[i], b->funcs[i]);
    return same && same_params(a->vars, b->vars, a->var_count);
}
