/* A parsed tree back to text, such that parsing that text gives an equal tree. */
#include "code/ptx.h"

#include <stdlib.h>
#include <string.h>

struct printer {
    struct kg_bytes out;
    size_t room;
    bool failed;
    const struct ptx_module *module;
    const struct ptx_func *func;
};

static bool room_for(struct printer *p, size_t more)
{
    if (p->failed || p->room - p->out.size > more)
        return !p->failed;
    size_t room = (p->room + more) * 2 + 4096;
    unsigned char *data = realloc(p->out.data, room);
    if (!data) {
        p->failed = true;
        return false;
    }
    p->out.data = data;
    p->room = room;
    return true;
}

static void put_bytes(struct printer *p, const char *text, size_t length)
{
    if (!room_for(p, length))
        return;
    memcpy(p->out.data + p->out.size, text, length);
    p->out.size += length;
}

static void put(struct printer *p, const char *text)
{
    put_bytes(p, text, strlen(text));
}

/* Numbers make up much of the text: no printf for them. */
static void number(struct printer *p, const char *before, uint64_t value, const char *after)
{
    char digits[20], *at = digits + sizeof digits;
    put(p, before);
    do
        *--at = (char)('0' + value % 10);
    while (value /= 10);
    put_bytes(p, at, (size_t)(digits + sizeof digits - at));
    put(p, after);
}

static void signed_number(struct printer *p, const char *before, uint64_t bits)
{
    put(p, before);
    number(p, bits >> 63 ? "-" : "", bits >> 63 ? 0 - bits : bits, "");
}

/* At least `width` digits. */
static void hexadecimal(struct printer *p, const char *before, uint64_t value, unsigned width)
{
    char digits[16], *at = digits + sizeof digits;
    put(p, before);
    for (unsigned count = 0; count < width || value; count++, value >>= 4)
        *--at = "0123456789ABCDEF"[value & 15];
    put_bytes(p, at, (size_t)(digits + sizeof digits - at));
}

static void linkage(struct printer *p, uint8_t linkage)
{
    static const char *const words[] = {"", ".visible ", ".weak ", ".extern ", ".common "};
    put(p, words[linkage]);
}

/* ---- variables ------------------------------------------------------------------------------- */

static void reloc(struct printer *p, const struct ptx_reloc *reloc)
{
    if (reloc->shift || reloc->size == 1) {
        hexadecimal(p, "0x", 0xFFull << reloc->shift, 1);
        put(p, "(");
    }
    put(p, reloc->generic ? "generic(" : "");
    put(p, reloc->var ? reloc->var->name : reloc->func->name);
    put(p, reloc->generic ? ")" : "");
    if (reloc->addend)
        signed_number(p, "+", (uint64_t)reloc->addend);
    if (reloc->shift || reloc->size == 1)
        put(p, ")");
}

static void initialiser(struct printer *p, const struct ptx_var *var)
{
    unsigned size = (ptx_types[var->type].bits + 7u) / 8;
    uint32_t next = 0;
    bool braces = var->array || var->vector;
    if (var->opaque) {
        put(p, " = ");
        put(p, var->opaque);
    }
    if (!var->image_bytes)
        return;
    put(p, braces ? " = {" : " = ");
    for (uint64_t at = 0; at < var->image_bytes; at += size) {
        put(p, at ? ", " : "");
        if (next < var->reloc_count && var->relocs[next].offset == at) {
            reloc(p, &var->relocs[next++]);
            continue;
        }
        uint64_t bits = 0;
        memcpy(&bits, var->image + at, size);
        if (var->type == PTX_TYPE_f32)
            hexadecimal(p, "0f", bits, 8);
        else if (var->type == PTX_TYPE_f64)
            hexadecimal(p, "0d", bits, 16);
        else if (bits > 255)
            hexadecimal(p, "0x", bits, 1);
        else
            number(p, "", bits, "");
    }
    put(p, braces ? "}" : "");
}

static void attribute(struct printer *p, const char *text)
{
    if (!text)
        return;
    put(p, " .attribute(");
    put(p, text);
    put(p, ")");
}

static void variable(struct printer *p, const struct ptx_var *var)
{
    linkage(p, var->linkage);
    put(p, ".");
    put(p, var->is_register ? "reg" : ptx_spaces[var->space]);
    attribute(p, var->attribute);
    if (var->declared_align)
        number(p, " .align ", var->declared_align, "");
    if (var->vector)
        number(p, " .v", var->vector, "");
    put(p, " .");
    put(p, ptx_types[var->type].text);
    if (var->pointer) {
        put(p, " .ptr");
        if (var->ptr_space) {
            put(p, " .");
            put(p, ptx_spaces[var->ptr_space]);
        }
        if (var->ptr_align)
            number(p, " .align ", var->ptr_align, "");
    }
    put(p, " ");
    put(p, var->name);
    for (unsigned d = 0; d < var->dim_count; d++)
        if (d || !var->unsized)
            number(p, "[", var->dims[d], "]");
        else
            put(p, "[]");
    initialiser(p, var);
}

static void params(struct printer *p, struct ptx_var *const *list, uint32_t count)
{
    put(p, "(");
    for (uint32_t i = 0; i < count; i++) {
        put(p, i ? ",\n\t" : "");
        variable(p, list[i]);
    }
    put(p, ")");
}

/* ---- instructions ---------------------------------------------------------------------------- */

static void reg(struct printer *p, uint32_t register_number)
{
    const struct ptx_reg *reg = &p->func->regs[register_number];
    if (reg->decl->range)
        number(p, reg->decl->name, reg->index, "");
    else
        put(p, reg->decl->name);
}

static void component(struct printer *p, const struct ptx_operand *operand)
{
    static const char *const names[] = {"", ".x", ".y", ".z", ".w", "."};
    put(p, names[operand->component]);
    if (operand->component == PTX_SELECTOR)
        put(p, operand->name);
}

static void operand(struct printer *p, const struct ptx_operand *o);

static void parts(struct printer *p, const struct ptx_operand *o, const char *open,
                  const char *between, const char *close)
{
    put(p, open);
    for (uint32_t i = 0; i < o->part_count; i++) {
        put(p, i ? between : "");
        operand(p, &o->parts[i]);
    }
    put(p, close);
}

static void address(struct printer *p, const struct ptx_operand *o)
{
    put(p, "[");
    if (o->reg != PTX_NO_REG)
        reg(p, o->reg);
    else if (o->name)
        put(p, o->name);
    if ((o->reg == PTX_NO_REG && !o->name) || o->offset)
        signed_number(p, o->reg == PTX_NO_REG && !o->name ? "" : "+", o->bits);
    if (o->part_count)
        parts(p, o, ", ", ", ", "");
    put(p, "]");
}

static void operand(struct printer *p, const struct ptx_operand *o)
{
    put(p, o->negated ? "!" : "");
    switch ((enum ptx_kind)o->kind) {
    case PTX_REG:
        reg(p, o->reg);
        component(p, o);
        return;
    case PTX_INT:
        signed_number(p, "", o->bits);
        return;
    case PTX_F32:
        hexadecimal(p, "0f", o->bits, 8);
        return;
    case PTX_F64:
        hexadecimal(p, "0d", o->bits, 16);
        return;
    case PTX_SPECIAL:
        put(p, o->name);
        component(p, o);
        return;
    case PTX_SYMBOL:
        put(p, o->name);
        if (o->offset)
            signed_number(p, "+", o->bits);
        return;
    case PTX_ADDRESS:
        address(p, o);
        return;
    case PTX_VECTOR:
        parts(p, o, "{", ", ", "}");
        return;
    case PTX_PAIR:
        parts(p, o, "", "|", "");
        return;
    case PTX_LIST:
        parts(p, o, "(", ", ", ")");
        return;
    case PTX_LABEL:
        put(p, o->name);
        return;
    case PTX_SINK:
        put(p, "_");
        return;
    }
}

static void call(struct printer *p, const struct ptx_instr *instr)
{
    const struct ptx_operand *o = instr->operands;
    if (o[0].part_count) {
        operand(p, &o[0]);
        put(p, ", ");
    }
    operand(p, &o[1]);
    if (o[2].part_count || instr->operand_count > 3) {
        put(p, ", ");
        operand(p, &o[2]);
    }
    if (instr->operand_count > 3) {
        put(p, ", ");
        operand(p, &o[3]);
    }
}

static void instruction(struct printer *p, const struct ptx_instr *instr)
{
    put(p, "\t");
    if (instr->guard != PTX_NO_REG) {
        put(p, instr->guard_negated ? "@!" : "@");
        reg(p, instr->guard);
        put(p, " ");
    }
    put(p, instr->form->text);
    put(p, " ");
    if (instr->opaque_text)
        put(p, instr->opaque_text);
    else if (instr->form->op == PTX_OP_call)
        call(p, instr);
    else
        for (unsigned i = 0; i < instr->operand_count; i++) {
            put(p, i ? ", " : "");
            operand(p, &instr->operands[i]);
        }
    put(p, ";\n");
}

/* ---- functions ------------------------------------------------------------------------------- */

static void list(struct printer *p, const struct ptx_list *list)
{
    static const char *const words[] = {": .callprototype ", ": .calltargets ",
                                        ": .branchtargets "};
    put(p, list->name);
    put(p, words[list->kind]);
    if (list->kind == PTX_PROTOTYPE) {
        struct ptx_var *one;
        for (int i = 0; i < 2; i++) {
            uint32_t count = i ? list->param_count : list->result_count;
            put(p, i ? "_ (" : "(");
            for (uint32_t k = 0; k < count; k++) {
                one = &(i ? list->params : list->results)[k];
                put(p, k ? ", " : "");
                variable(p, one);
            }
            put(p, ") ");
        }
        put(p, list->noreturn ? ".noreturn" : "");
    }
    for (uint32_t i = 0; i < list->count; i++) {
        put(p, i ? ", " : "");
        put(p, list->kind == PTX_BRANCH_TARGETS ? p->func->labels[list->labels[i]].name
                                                : list->funcs[i]->name);
    }
    put(p, ";\n");
}

static void registers(struct printer *p, const struct ptx_reg_decl *decl)
{
    put(p, "\t.reg ");
    if (decl->vector)
        number(p, ".v", decl->vector, " ");
    put(p, ".");
    put(p, ptx_types[decl->type].text);
    put(p, " ");
    put(p, decl->name);
    if (decl->range)
        number(p, "<", decl->count, ">");
    put(p, ";\n");
}

static void statement(struct printer *p, const struct ptx_stmt *stmt)
{
    const struct ptx_func *func = p->func;
    switch (stmt->kind) {
    case PTX_STMT_INSTR:
        instruction(p, &func->instrs[stmt->index]);
        return;
    case PTX_STMT_LABEL:
        put(p, func->labels[stmt->index].name);
        put(p, ":\n");
        return;
    case PTX_STMT_OPEN:
        put(p, "\t{\n");
        return;
    case PTX_STMT_CLOSE:
        put(p, "\t}\n");
        return;
    case PTX_STMT_REG:
        registers(p, func->reg_decls[stmt->index]);
        return;
    case PTX_STMT_VAR:
        put(p, "\t");
        variable(p, func->vars[stmt->index]);
        put(p, ";\n");
        return;
    case PTX_STMT_LIST:
        list(p, func->lists[stmt->index]);
        return;
    case PTX_STMT_LINE:
        put(p, "\t");
        put(p, p->module->lines[stmt->index]);
        put(p, "\n");
        return;
    }
}

static void function(struct printer *p, const struct ptx_func *func, bool define)
{
    p->func = func;
    linkage(p, func->linkage);
    put(p, func->entry ? ".entry" : ".func");
    attribute(p, func->attribute);
    put(p, " ");
    if (func->result_count) {
        params(p, func->results, func->result_count);
        put(p, " ");
    }
    put(p, func->name);
    params(p, func->params, func->param_count);
    put(p, "\n");
    for (uint32_t i = 0; i < func->directive_count; i++) {
        put(p, func->directives[i]);
        put(p, "\n");
    }
    if (!define) {
        put(p, ";\n");
        return;
    }
    put(p, "{\n");
    for (uint32_t i = 0; i < func->stmt_count; i++)
        statement(p, &func->stmts[i]);
    put(p, "}\n");
}

kg_status ptx_print(const struct ptx_module *module, struct kg_bytes *out)
{
    struct printer p = {.module = module};
    number(&p, ".version ", module->version_major, ".");
    number(&p, "", module->version_minor, "\n");
    if (module->target) {
        put(&p, ".target ");
        put(&p, module->target);
    }
    number(&p, "\n.address_size ", module->address_size, "\n");
    for (uint32_t i = 0; i < module->item_count; i++) {
        const struct ptx_item *item = &module->items[i];
        if (item->kind == PTX_ITEM_VAR) {
            variable(&p, item->var);
            put(&p, ";\n");
        } else if (item->kind == PTX_ITEM_LINE) {
            put(&p, item->line);
            put(&p, "\n");
        } else {
            function(&p, item->func, item->kind == PTX_ITEM_DEFINE);
        }
    }
    put_bytes(&p, "", 1); /* a NUL behind the text, not counted */
    p.out.size--;
    if (p.failed) {
        free(p.out.data);
        *out = (struct kg_bytes){0};
        return KG_NO_MEMORY;
    }
    *out = p.out;
    return KG_OK;
}
