/* Decodes a function of the PTX tree to dense code: every operand a slot, every opcode a row or a
 * function, every label a place. What is not implemented becomes X_unsupported: a fault if it is
 * reached, never skipped. */
#include "exec_decode.h"
#include "exec_matrix.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SLOTS = 1 << 24 };

/* ---- slots ----------------------------------------------------------------------------------- */

static void *grow(struct decoder *x, void *data, uint32_t count, uint32_t *room, size_t size)
{
    if (count < *room)
        return data;
    *room = *room * 2 + 64;
    void *more = realloc(data, *room * size);
    if (!more) {
        x->failed = true;
        *room = count;
        return data;
    }
    return more;
}

/* Index of the slot of that number. */
static uint32_t slot_at(uint32_t number)
{
    return number * WARP;
}

uint32_t reg_slot(uint32_t reg)
{
    return slot_at(1 + reg);
}

uint32_t new_slot(struct decoder *x, uint64_t value)
{
    x->frame = grow(x, x->frame, x->slots, &x->slot_room, sizeof *x->frame);
    if (x->failed || x->slots >= MAX_SLOTS) {
        x->failed = true;
        return 0;
    }
    x->frame[x->slots].u64 = value;
    return slot_at(x->slots++);
}

static void hash_grow(struct decoder *x)
{
    uint32_t count = x->hash_count ? x->hash_count * 2 : 256;
    uint32_t *hash = calloc(count, sizeof *hash);
    if (!hash) {
        x->failed = true;
        return;
    }
    for (uint32_t i = 0; i < x->hash_count; i++) {
        if (!x->hash[i])
            continue;
        uint64_t value = x->frame[x->hash[i]].u64;
        uint32_t at = (uint32_t)(value * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (count - 1);
        while (hash[at])
            at = (at + 1) & (count - 1);
        hash[at] = x->hash[i];
    }
    free(x->hash);
    x->hash = hash;
    x->hash_count = count;
}

static uint32_t constant(struct decoder *x, uint64_t value)
{
    if (x->constants * 2 >= x->hash_count)
        hash_grow(x);
    if (x->failed)
        return 0;
    uint32_t at = (uint32_t)(value * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (x->hash_count - 1);
    for (; x->hash[at]; at = (at + 1) & (x->hash_count - 1))
        if (x->frame[x->hash[at]].u64 == value)
            return slot_at(x->hash[at]);
    x->constants++;
    x->hash[at] = x->slots;
    return new_slot(x, value);
}

static uint32_t fixed_up(struct decoder *x, unsigned special, unsigned component, uint64_t value)
{
    for (uint32_t i = 0; i < x->fixup_count; i++)
        if (x->fixups[i].special == special && x->fixups[i].component == component &&
            x->fixups[i].value == value)
            return x->fixups[i].slot;
    x->fixups = grow(x, x->fixups, x->fixup_count, &x->fixup_room, sizeof *x->fixups);
    uint32_t slot = new_slot(x, 0);
    if (x->failed)
        return 0;
    x->fixups[x->fixup_count++] = (struct fixup){slot, (uint8_t)special, (uint8_t)component, value};
    return slot;
}

struct code *emit(struct decoder *x, unsigned op, const struct ptx_instr *instr)
{
    x->code = grow(x, x->code, x->count, &x->room, sizeof *x->code);
    if (x->failed)
        return &x->spare;
    struct code *c = &x->code[x->count++];
    *c = (struct code){.op = (uint16_t)op, .instr = instr, .count = 1};
    return c;
}

/* ---- operands -------------------------------------------------------------------------------- */

static uint32_t index_of_var(const struct ptx_var *const *vars, uint32_t count,
                             const struct ptx_var *var)
{
    for (uint32_t i = 0; i < count; i++)
        if (vars[i] == var)
            return i;
    return UINT32_MAX;
}

/* Where a variable stands: a fixed address in *address (as the space counts), or an offset in the
 * frame's local memory. False: unknown. */
static bool place_of_var(struct decoder *x, const struct ptx_var *var, uint64_t *address,
                         bool *in_frame)
{
    const struct exec_module *module = x->module;
    uint32_t at = index_of_var((const struct ptx_var *const *)x->ptx->vars, x->ptx->var_count, var);
    *in_frame = false;
    if (at != UINT32_MAX) {
        *in_frame = var->space != PTX_SPACE_shared;
        *address = x->var_offset[at];
        return var->space == PTX_SPACE_shared || var->space == PTX_SPACE_local ||
               var->space == PTX_SPACE_param;
    }
    struct ptx_var *const *lists[] = {x->ptx->params, x->ptx->results};
    const uint32_t counts[] = {x->ptx->param_count, x->ptx->result_count};
    const uint32_t *offsets[] = {x->func->param_offset, x->func->result_offset};
    for (int i = 0; i < 2; i++) {
        at = index_of_var((const struct ptx_var *const *)lists[i], counts[i], var);
        if (at == UINT32_MAX)
            continue;
        *in_frame = !x->ptx->entry;
        *address = x->ptx->entry ? WINDOW_BASE(WINDOW_PARAM) + var->offset : offsets[i][at];
        return true;
    }
    for (uint32_t i = 0; i < module->ptx.var_count; i++) {
        const struct ptx_var *other = module->ptx.vars[i];
        if (other != var && (strcmp(other->name, var->name) || other->linkage == PTX_EXTERN))
            continue;
        *address = var->space == PTX_SPACE_shared ? module->shared_offset[i]
                                                  : module->variables[i].address;
        return var->space == PTX_SPACE_shared || *address;
    }
    return false;
}

static uint64_t function_address(const struct decoder *x, const struct ptx_func *func)
{
    for (uint32_t i = 0; i < x->module->ptx.func_count; i++)
        if (x->module->ptx.funcs[i] == func)
            return WINDOW_BASE(WINDOW_FUNCTION) + i;
    return 0;
}

static uint32_t symbol_slot(struct decoder *x, const struct ptx_operand *o)
{
    uint64_t address = 0;
    bool in_frame = false;
    if (o->func)
        return constant(x, function_address(x, o->func));
    if (!o->var || !place_of_var(x, o->var, &address, &in_frame)) {
        x->unsupported = true;
        return 0;
    }
    address += (uint64_t)o->offset;
    if (!in_frame)
        return constant(x, address);
    /* a local variable's own address is an offset; a parameter's, as a generic address, is not */
    return fixed_up(x, 0, o->var->space == PTX_SPACE_local, address);
}

/* The bits of a number as an operand of `type`. */
static uint64_t number_bits(const struct ptx_operand *o, uint8_t type)
{
    uint64_t bits = o->bits;
    float narrow;
    double value;
    if (o->kind == PTX_F64 && type != PTX_TYPE_f64 && ptx_types[type].bits == 32) {
        memcpy(&value, &bits, 8);
        narrow = (float)value;
        bits = 0;
        memcpy(&bits, &narrow, 4);
    } else if (o->kind == PTX_F32 && ptx_types[type].bits == 64) {
        memcpy(&narrow, &bits, 4);
        value = narrow;
        memcpy(&bits, &value, 8);
    }
    return bits;
}

uint32_t slot_of(struct decoder *x, const struct ptx_operand *o, uint8_t type)
{
    uint32_t slot = 0;
    switch ((enum ptx_kind)o->kind) {
    case PTX_REG:
        x->unsupported |=
            (o->component && !(x->selects && o->component == PTX_SELECTOR && video_selects(o))) ||
            ptx_types[x->ptx->regs[o->reg].type].bits > 64;
        slot = reg_slot(o->reg);
        break;
    case PTX_INT:
    case PTX_F32:
    case PTX_F64:
        return constant(x, number_bits(o, type));
    case PTX_SPECIAL:
        x->unsupported |=
            !o->special || (o->special >= PTX_SR_clock && o->special <= PTX_SR_globaltimer_hi);
        return fixed_up(x, o->special, o->component, 0);
    case PTX_SYMBOL:
        return symbol_slot(x, o);
    case PTX_SINK:
        return 0;
    default:
        x->unsupported = true;
        return 0;
    }
    if (o->negated) {
        struct code *c = emit(x, X_negate, NULL);
        c->a = slot;
        c->d = slot = new_slot(x, 0);
    }
    return slot;
}

static const uint32_t *list_of(struct decoder *x, const struct ptx_operand *o, uint8_t type)
{
    uint32_t *list = arena_alloc(&x->module->arena, sizeof *list * (o->part_count + 1));
    if (!list) {
        x->failed = true;
        return NULL;
    }
    for (uint32_t i = 0; i < o->part_count; i++)
        list[i] = slot_of(x, &o->parts[i], type);
    return list;
}

/* ---- memory ---------------------------------------------------------------------------------- */

unsigned address_of(struct decoder *x, const struct ptx_operand *o, unsigned space, struct code *c)
{
    uint64_t address = 0;
    bool in_frame;
    if (o->kind != PTX_ADDRESS || o->part_count || o->func || o->list) {
        x->unsupported = true;
        return space;
    }
    c->imm = o->offset;
    if (o->reg != PTX_NO_REG) {
        c->a = reg_slot(o->reg);
        c->narrow = ptx_types[x->ptx->regs[o->reg].type].bits == 32;
        return space == PTX_SPACE_param ? PTX_SPACE_generic : space;
    }
    if (!o->var) {
        c->a = constant(x, 0);
        return space;
    }
    if (!place_of_var(x, o->var, &address, &in_frame))
        x->unsupported = true;
    unsigned own = o->var->space;
    if (in_frame) {
        c->a = fixed_up(x, 0, true, 0);
        c->imm += (int64_t)address;
        return PTX_SPACE_local;
    }
    c->a = constant(x, address);
    c->cost.direct = own == PTX_SPACE_param || own == PTX_SPACE_const;
    return own == PTX_SPACE_param || own == PTX_SPACE_shared || own == PTX_SPACE_const
               ? own
               : PTX_SPACE_global;
}

static void count_defs(struct known *known, const struct ptx_operand *o)
{
    if (o->kind == PTX_REG && known[o->reg].defs < 2)
        known[o->reg].defs++;
    for (uint32_t i = 0; i < o->part_count; i++)
        count_defs(known, &o->parts[i]);
}

static struct known known_value(const struct decoder *x, const struct ptx_instr *instr)
{
    const struct ptx_operand *o = instr->operands;
    if (instr->form->op == PTX_OP_mov && instr->operand_count == 2 && o[1].kind == PTX_SYMBOL &&
        o[1].var && o[1].var->space == PTX_SPACE_param)
        return (struct known){.var = o[1].var, .offset = o[1].offset};
    if (instr->form->op == PTX_OP_add && instr->operand_count == 3 && o[1].kind == PTX_REG &&
        x->known[o[1].reg].var && o[2].kind == PTX_INT)
        return (struct known){.var = x->known[o[1].reg].var,
                              .offset = x->known[o[1].reg].offset + (int64_t)o[2].bits};
    return (struct known){0};
}

/* What is written under a guard, or not in the order of the text, is not known. */
static void find_known(struct decoder *x)
{
    const struct ptx_func *ptx = x->ptx;
    x->known = calloc(ptx->reg_count + 1, sizeof *x->known);
    x->failed |= !x->known;
    for (uint32_t i = 0; !x->failed && i < ptx->instr_count; i++)
        for (unsigned k = 0; k < ptx->instrs[i].operand_count; k++)
            if (ptx->instrs[i].opaque || ptx_role(&ptx->instrs[i], k) != 's')
                count_defs(x->known, &ptx->instrs[i].operands[k]);
    for (uint32_t i = 0; !x->failed && ptx->entry && i < ptx->instr_count; i++) {
        const struct ptx_instr *instr = &ptx->instrs[i];
        if (instr->opaque || instr->guard != PTX_NO_REG || !instr->operand_count ||
            instr->operands[0].kind != PTX_REG || x->known[instr->operands[0].reg].defs != 1)
            continue;
        struct known value = known_value(x, instr);
        x->known[instr->operands[0].reg].var = value.var;
        x->known[instr->operands[0].reg].offset = value.offset;
    }
}

/* The operand, with a register of a known address replaced by that. */
static struct ptx_operand direct(const struct decoder *x, const struct ptx_operand *o)
{
    struct ptx_operand out = *o;
    if (o->kind != PTX_ADDRESS || o->reg == PTX_NO_REG || !x->known[o->reg].var)
        return out;
    out.var = x->known[o->reg].var;
    out.offset += x->known[o->reg].offset;
    out.reg = PTX_NO_REG;
    return out;
}

static void memory_access(struct decoder *x, const struct ptx_instr *instr, bool store)
{
    const struct ptx_form *form = instr->form;
    const struct ptx_operand *data = &instr->operands[store ? 1 : 0];
    const struct ptx_operand known = direct(x, &instr->operands[store ? 0 : 1]), *address = &known;
    bool hinted = ptx_has(form, PTX_MOD_L2_cache_hint); /* the policy is the last operand */
    if (instr->operand_count != 2u + hinted || form->type_count != 1 || !form_known(form)) {
        x->unsupported = true;
        return;
    }
    uint8_t type = form->types[0];
    struct code c = {
        .type = type, .width = ptx_types[type].bits / 8, .count = form->vector, .instr = instr};
    unsigned space = address_of(x, address, form->space, &c);
    bool is_signed = ptx_types[type].class == PTX_SIGNED;
    c.op = store ? X_store : X_load;
    c.kind = (uint8_t)(space == PTX_SPACE_param ? PTX_SPACE_generic : space);
    if (type == PTX_TYPE_b128) {
        c.width = 8;
        c.count = form->vector > 1 ? 2 * form->vector : 2;
        c.list = wide_list(x, data, c.count / 2u);
    } else if (form->vector > 1) {
        x->unsupported |= data->kind != PTX_VECTOR || data->part_count != form->vector;
        c.list = x->unsupported ? NULL : list_of(x, data, type);
    } else {
        uint32_t slot = slot_of(x, data, type);
        *(store ? &c.b : &c.d) = slot;
        if (space == PTX_SPACE_param && !store && !is_signed && address->offset >= 0 &&
            (uint64_t)address->offset + c.width <= address->var->size) {
            int64_t offset = address->var->offset + address->offset;
            if (offset % c.width == 0) {
                c.op = X_ld_param;
                c.imm = offset;
            }
        }
    }
    *emit(x, c.op, instr) = c;
}

/* ---- control --------------------------------------------------------------------------------- */

static struct call_arg *call_list(struct decoder *x, const struct ptx_operand *list)
{
    struct call_arg *args = arena_alloc(&x->module->arena, sizeof *args * (list->part_count + 1));
    if (!args) {
        x->failed = true;
        return NULL;
    }
    for (uint32_t i = 0; i < list->part_count; i++) {
        const struct ptx_operand *o = &list->parts[i];
        uint64_t offset;
        if (o->kind == PTX_SYMBOL && o->var && o->var->space == PTX_SPACE_param) {
            args[i].in_memory = true;
            if (!place_of_var(x, o->var, &offset, &args[i].in_memory) || !args[i].in_memory)
                x->unsupported = true;
            args[i].offset = (uint32_t)offset;
            args[i].size = (uint32_t)o->var->size;
        } else {
            args[i].slot = slot_of(x, o, PTX_TYPE_b64);
            args[i].size = 8;
        }
    }
    return args;
}

static void call(struct decoder *x, const struct ptx_instr *instr)
{
    const struct ptx_operand *o = instr->operands;
    struct call_site *site = arena_alloc(&x->module->arena, sizeof *site);
    if (!site) {
        x->failed = true;
        return;
    }
    site->results = call_list(x, &o[0]);
    site->result_count = o[0].part_count;
    site->args = call_list(x, &o[2]);
    site->arg_count = o[2].part_count;
    if (o[1].kind == PTX_SYMBOL && o[1].func) {
        const struct ptx_func *func = o[1].func;
        if (func->defined)
            site->callee =
                &x->module->funcs[function_address(x, func) - WINDOW_BASE(WINDOW_FUNCTION)];
        else if (!strcmp(func->name, "vprintf") && site->arg_count == 2)
            site->builtin = BUILTIN_PRINTF;
        else if (!strcmp(func->name, "__assertfail"))
            site->builtin = BUILTIN_ASSERT;
        else if (!strcmp(func->name, "malloc") && site->arg_count == 1 && site->result_count == 1)
            site->builtin = BUILTIN_MALLOC;
        else if (!strcmp(func->name, "free") && site->arg_count == 1)
            site->builtin = BUILTIN_FREE;
        else
            x->unsupported = true;
    } else {
        site->indirect = true;
        site->slot = slot_of(x, &o[1], PTX_TYPE_b64);
    }
    emit(x, X_call, instr)->call = site;
}

/* Branches name instructions at first; places are put in at the end. */
static void branch(struct decoder *x, const struct ptx_instr *instr)
{
    const struct ptx_operand *o = instr->operands;
    bool indexed = instr->form->op == PTX_OP_brx_idx;
    if (indexed && instr->operand_count == 2 && o[1].list &&
        o[1].list->kind == PTX_BRANCH_TARGETS) {
        const struct ptx_list *targets = o[1].list;
        uint32_t *list = arena_alloc(&x->module->arena, sizeof *list * (targets->count + 1));
        uint32_t slot = slot_of(x, &o[0], PTX_TYPE_u32);
        if (!list) {
            x->failed = true;
            return;
        }
        list[0] = targets->count;
        for (uint32_t i = 0; i < targets->count; i++)
            list[i + 1] = x->ptx->labels[targets->labels[i]].instr;
        struct code *c = emit(x, X_brx, instr);
        c->a = slot;
        c->list = list;
        return;
    }
    if (indexed || instr->operand_count != 1 || o[0].kind != PTX_LABEL) {
        x->unsupported = true;
        return;
    }
    bool guarded = instr->guard != PTX_NO_REG;
    struct code *c = emit(x,
                          !guarded               ? X_bra
                          : instr->guard_negated ? X_bra_unless
                                                 : X_bra_if,
                          instr);
    c->a = guarded ? reg_slot(instr->guard) : 0;
    c->imm = x->ptx->labels[o[0].label].instr;
}

/* bar.sync a, b; bar.red d, a, b, c; barrier.* alike */
static void barrier(struct decoder *x, const struct ptx_instr *instr, bool arrives, bool reduces)
{
    const struct ptx_form *form = instr->form;
    const struct ptx_operand *o = instr->operands;
    unsigned first = reduces ? 1 : 0, count = instr->operand_count;
    struct code c = {.op = arrives ? X_arrive : X_barrier, .instr = instr, .count = 1};
    for (unsigned k = 0; k < form->mod_count; k++) {
        uint16_t mod = form->mods[k];
        if (mod == PTX_MOD_popc || mod == PTX_MOD_and || mod == PTX_MOD_or)
            c.kind = (uint8_t)mod;
        else if (mod != PTX_MOD_aligned)
            x->unsupported = true;
    }
    if (count < first + 1 + reduces || count > first + 2 + reduces || (reduces && !c.kind)) {
        x->unsupported = true;
        return;
    }
    c.a = slot_of(x, &o[first], PTX_TYPE_u32);
    if (count == first + 2 + reduces)
        c.b = slot_of(x, &o[first + 1], PTX_TYPE_u32);
    else
        c.b = constant(x, 0);
    if (reduces) {
        c.d = slot_of(x, &o[0], PTX_TYPE_u32);
        c.c = slot_of(x, &o[count - 1], PTX_TYPE_pred);
    }
    *emit(x, c.op, instr) = c;
}

/* ---- the rest -------------------------------------------------------------------------------- */

static const uint16_t collective_mods[] = {
    PTX_MOD_sync, PTX_MOD_up,     PTX_MOD_down, PTX_MOD_bfly, PTX_MOD_idx,    PTX_MOD_all,
    PTX_MOD_any,  PTX_MOD_ballot, PTX_MOD_uni,  PTX_MOD_add,  PTX_MOD_min,    PTX_MOD_max,
    PTX_MOD_and,  PTX_MOD_or,     PTX_MOD_xor,  PTX_MOD_eq,   PTX_MOD_aligned};

/* A warp collective: kind is its last suffix that says what to compute. */
static bool collective(struct code *c, const struct ptx_form *form)
{
    for (unsigned k = 0; k < form->mod_count; k++) {
        bool known = false;
        for (unsigned i = 0; i < sizeof collective_mods / sizeof *collective_mods; i++)
            known |= form->mods[k] == collective_mods[i];
        if (!known)
            return false;
        if (form->mods[k] != PTX_MOD_sync && form->mods[k] != PTX_MOD_aligned)
            c->kind = (uint8_t)form->mods[k];
    }
    bool needs_sync = form->op != PTX_OP_activemask && form->op != PTX_OP_bar_warp_sync;
    if (needs_sync && !ptx_has(form, PTX_MOD_sync))
        return false;
    c->op = X_collective;
    return form->type_count ? ptx_types[form->types[0]].bits <= 32 || form->op == PTX_OP_match
                            : true;
}

/* Destination, then up to four sources, in their slots. */
static void plain(struct decoder *x, const struct ptx_instr *instr, struct code c)
{
    const struct ptx_operand *o = instr->operands;
    uint32_t *sources[] = {&c.a, &c.b, &c.c, &c.m};
    unsigned at = 0;
    char first = instr->operand_count ? ptx_role(instr, 0) : 's';
    if (first == 'd' && o[0].kind == PTX_VECTOR) {
        c.list = list_of(x, &o[0], c.type);
        c.count = (uint8_t)o[0].part_count;
        at = 1;
    } else if (first == 'd' && o[0].kind == PTX_PAIR) {
        c.d = slot_of(x, &o[0].parts[0], c.type);
        c.p = slot_of(x, &o[0].parts[1], PTX_TYPE_pred);
        at = 1;
    } else if (first == 'd') {
        c.d = slot_of(x, &o[0], c.type);
        at = 1;
    }
    if (at + 4 < instr->operand_count)
        x->unsupported = true;
    for (unsigned i = 0; at < instr->operand_count && i < 4; at++, i++) {
        if (o[at].kind == PTX_ADDRESS) {
            c.type = instr->form->type_count ? instr->form->types[0] : 0;
            c.kind = (uint8_t)address_of(x, &o[at], instr->form->space, &c);
        } else if (o[at].kind == PTX_VECTOR) {
            x->unsupported |= c.list != NULL;
            c.list = list_of(x, &o[at], c.type);
            c.count = (uint8_t)o[at].part_count;
        } else {
            *sources[i] = slot_of(x, &o[at], c.type);
        }
    }
    *emit(x, c.op, instr) = c;
}

/* Operations on matrices: registers by fragment, an address, a stride. */
static void matrix(struct decoder *x, const struct ptx_instr *instr)
{
    static const uint16_t mods[] = {
        PTX_MOD_sync,  PTX_MOD_aligned,    PTX_MOD_row,    PTX_MOD_col,   PTX_MOD_satfinite,
        PTX_MOD_xor,   PTX_MOD_and,        PTX_MOD_popc,   PTX_MOD_a,     PTX_MOD_b,
        PTX_MOD_c,     PTX_MOD_d,          PTX_MOD_x1,     PTX_MOD_x2,    PTX_MOD_x4,
        PTX_MOD_trans, PTX_MOD_shared_cta, PTX_MOD_shared, PTX_MOD_global};
    static const uint8_t order[] = {FRAGMENT_D, FRAGMENT_A, FRAGMENT_B, FRAGMENT_C};
    const struct ptx_form *form = instr->form;
    struct matrix *plan = arena_alloc(&x->module->arena, sizeof *plan);
    struct code c = {.op = X_collective, .instr = instr, .count = 1, .matrix = plan};
    if (!plan) {
        x->failed = true;
        return;
    }
    for (unsigned k = 0; k < form->mod_count; k++) {
        bool known = form->mods[k] >= PTX_MOD_m8n8 && form->mods[k] <= PTX_MOD_m32n8k16;
        for (unsigned i = 0; i < sizeof mods / sizeof *mods; i++)
            known |= form->mods[k] == mods[i];
        x->unsupported |= !known;
    }
    if (x->unsupported || !matrix_plan(form, plan)) {
        x->unsupported = true;
        return;
    }
    unsigned registers = form->op == PTX_OP_stmatrix; /* fragments that have been met */
    for (unsigned i = 0; i < instr->operand_count; i++) {
        const struct ptx_operand *o = &instr->operands[i];
        unsigned fragment =
            plan->wmma && form->op != PTX_OP_wmma_mma ? plan->fragment : order[registers & 3];
        if (o->kind == PTX_ADDRESS) {
            c.kind = (uint8_t)address_of(x, o, form->space, &c);
        } else if (o->kind == PTX_INT || (o->kind == PTX_REG && plan->wmma)) {
            plan->stride = slot_of(x, o, PTX_TYPE_u32);
        } else {
            const struct ptx_operand one = {.part_count = 1, .parts = (struct ptx_operand *)o};
            plan->slots[fragment] = list_of(x, o->kind == PTX_VECTOR ? o : &one, PTX_TYPE_b32);
            plan->counts[fragment] = (uint8_t)(o->kind == PTX_VECTOR ? o->part_count : 1);
            registers++;
        }
    }
    c.b = constant(x, UINT32_MAX); /* who takes part */
    x->unsupported |= !matrix_fits(form, plan);
    if (!x->unsupported && (form->op == PTX_OP_mma || form->op == PTX_OP_wmma_mma))
        x->failed |= !matrix_places(&x->module->arena, plan);
    *emit(x, c.op, instr) = c;
}

/* cp.async [shared], [global], bytes {, bytes that are there} */
static void copy_async(struct decoder *x, const struct ptx_instr *instr)
{
    struct code c = {.op = X_slow, .instr = instr, .slow = slow_copy_async, .count = 1}, from = c;
    const struct ptx_operand *o = instr->operands;
    if (instr->operand_count < 3 || instr->operand_count > 4 || o[2].kind != PTX_INT ||
        !form_slow(instr->form)) {
        x->unsupported = true;
        return;
    }
    c.kind = (uint8_t)address_of(x, &o[0], PTX_SPACE_shared, &c);
    from.kind = (uint8_t)address_of(x, &o[1], PTX_SPACE_global, &from);
    c.b = from.a;
    c.width = (uint8_t)o[2].bits;
    c.c = slot_of(x, &o[instr->operand_count - 1], PTX_TYPE_u32);
    uint32_t *list = arena_alloc(&x->module->arena, sizeof *list * 2);
    if (!list) {
        x->failed = true;
        return;
    }
    memcpy(list, &from.imm, sizeof from.imm);
    c.list = list;
    *emit(x, c.op, instr) = c;
}

/* atom and red on vectors: the list has the results, then the operands. */
static void vector_atomic(struct decoder *x, const struct ptx_instr *instr)
{
    const struct ptx_form *form = instr->form;
    unsigned at = form->op == PTX_OP_atom, count = form->vector;
    const struct ptx_operand *o = instr->operands;
    struct ptx_operand both = {.part_count = 0};
    struct code c = {.op = X_slow,
                     .instr = instr,
                     .slow = form_slow(form),
                     .type = form->types[0],
                     .count = form->vector};
    struct ptx_operand parts[16];
    if (!c.slow || count > 8 || instr->operand_count != 2 + at || o[at + 1].kind != PTX_VECTOR ||
        o[at + 1].part_count != count ||
        (at && (o[0].kind != PTX_VECTOR || o[0].part_count != count))) {
        x->unsupported = true;
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        parts[i] = at ? o[0].parts[i] : o[1].parts[i];
        parts[count + i] = o[at + 1].parts[i];
    }
    both.parts = parts;
    both.part_count = count * (at + 1);
    c.list = list_of(x, &both, c.type);
    c.kind = (uint8_t)address_of(x, &o[at], form->space, &c);
    *emit(x, c.op, instr) = c;
}

/* cp.async.bulk [to], [from], bytes {, [mbarrier]} */
static void bulk_copy(struct decoder *x, const struct ptx_instr *instr)
{
    struct code c = {.op = X_slow, .instr = instr, .slow = form_slow(instr->form), .count = 1};
    struct bulk *bulk = arena_alloc(&x->module->arena, sizeof *bulk);
    bool to_shared = instr->form->space == PTX_SPACE_shared;
    x->failed |= !bulk;
    x->unsupported |= !c.slow || !ptx_has(instr->form, PTX_MOD_global) ||
                      instr->operand_count != (to_shared ? 4 : 3);
    for (unsigned i = 0; bulk && !x->unsupported && i < instr->operand_count; i++) {
        struct code one = {0};
        if (i == 2) {
            bulk->size = slot_of(x, &instr->operands[i], PTX_TYPE_u32);
            continue;
        }
        unsigned space = (i == 1) == to_shared ? PTX_SPACE_global : PTX_SPACE_shared;
        bulk->spaces[bulk->count] = (uint8_t)address_of(x, &instr->operands[i], space, &one);
        bulk->slots[bulk->count] = one.a;
        bulk->offsets[bulk->count] = one.imm;
        bulk->narrow[bulk->count++] = one.narrow;
    }
    c.bulk = bulk;
    *emit(x, c.op, instr) = c;
}

static void move(struct decoder *x, const struct ptx_instr *instr)
{
    const struct ptx_operand *o = instr->operands;
    struct code c = {.op = X_mov,
                     .instr = instr,
                     .count = 1,
                     .type = instr->form->type_count ? instr->form->types[0] : 0};
    if (c.type == PTX_TYPE_b128) {
        wide_move(x, instr);
    } else if (instr->operand_count != 2) {
        x->unsupported = true;
    } else if (o[0].kind == PTX_VECTOR || o[1].kind == PTX_VECTOR) {
        x->unsupported |= o[0].kind == o[1].kind;
        c.op = X_slow;
        c.slow = slow_pack;
        plain(x, instr, c);
    } else if (o[1].kind == PTX_SPECIAL && o[1].special >= PTX_SR_clock &&
               o[1].special <= PTX_SR_globaltimer_hi) {
        c.op = X_special;
        c.d = slot_of(x, &o[0], c.type);
        c.a = o[1].special;
        *emit(x, c.op, instr) = c;
    } else {
        plain(x, instr, c);
    }
}

static void operation(struct decoder *x, const struct ptx_instr *instr)
{
    const struct ptx_form *form = instr->form;
    struct code c = {.instr = instr,
                     .count = 1,
                     .type = form->type_count ? form->types[form->type_count - 1] : 0};
    c.width = ptx_types[c.type].bits / 8;
    c.op = form_row(form, &c.mode);
    if (c.op < X_mov && form->op == PTX_OP_setp && instr->operand_count == 3 &&
        instr->operands[0].kind == PTX_PAIR)
        c.op = X_COUNT;
    if (c.op == X_COUNT) {
        c.op = X_slow;
        c.slow = form_slow(form);
        x->unsupported |= !c.slow;
    }
    x->selects = c.slow == slow_video;
    if (form->op == PTX_OP_lop3 && instr->operand_count == 6) { /* the last one: a predicate */
        const struct ptx_operand last = {.part_count = 1, .parts = &instr->operands[5]};
        struct ptx_instr shorter = *instr;
        c.list = list_of(x, &last, PTX_TYPE_pred);
        shorter.operand_count = 5;
        plain(x, &shorter, c);
    } else {
        plain(x, instr, c);
    }
    x->selects = false;
    if (form->op == PTX_OP_mbarrier_try_wait && !x->unsupported) { /* let others run */
        struct code *skip = emit(x, X_skip_if, instr);
        skip->a = slot_of(x, &instr->operands[0], PTX_TYPE_pred);
        skip->imm = x->count + 1;
        emit(x, X_yield, instr);
    }
}

static unsigned leaving(const struct decoder *x, unsigned op)
{
    if (op == PTX_OP_ret && !x->ptx->entry)
        return X_ret;
    return op == PTX_OP_trap ? X_trap : op == PTX_OP_nanosleep ? X_yield : X_exit;
}

static void instruction(struct decoder *x, const struct ptx_instr *instr)
{
    struct code c = {
        .instr = instr, .count = 1, .type = instr->form->type_count ? instr->form->types[0] : 0};
    unsigned of_block = instr->form->op - PTX_OP_bar_sync; /* sync, arrive, red by turns */
    _Static_assert(PTX_OP_barrier_cta_red - PTX_OP_bar_sync == 11, "12 rows in order");
    if (!instr->opaque && of_block < 12) {
        barrier(x, instr, of_block % 3 == 1, of_block % 3 == 2);
        return;
    }
    switch (instr->opaque ? PTX_OP_unknown : (enum ptx_op)instr->form->op) {
    case PTX_OP_unknown:
        x->unsupported = true;
        return;
    case PTX_OP_mov:
        move(x, instr);
        return;
    case PTX_OP_ld:
    case PTX_OP_ldu:
    case PTX_OP_st:
        memory_access(x, instr, instr->form->op == PTX_OP_st);
        return;
    case PTX_OP_cp_async:
        copy_async(x, instr);
        return;
    case PTX_OP_bra:
    case PTX_OP_brx_idx:
        branch(x, instr);
        return;
    case PTX_OP_call:
        call(x, instr);
        return;
    case PTX_OP_ret:
    case PTX_OP_exit:
    case PTX_OP_trap:
    case PTX_OP_nanosleep:
        emit(x, leaving(x, instr->form->op), instr);
        return;
    case PTX_OP_barrier_cluster_wait: /* a block is a cluster of its own */
        c.op = X_barrier;
        c.a = constant(x, CLUSTER_BARRIER);
        c.b = constant(x, 0);
        *emit(x, c.op, instr) = c;
        return;
    case PTX_OP_shfl:
    case PTX_OP_vote:
    case PTX_OP_match:
    case PTX_OP_redux:
    case PTX_OP_activemask:
    case PTX_OP_elect:
    case PTX_OP_bar_warp_sync:
        x->unsupported |= !collective(&c, instr->form);
        plain(x, instr, c);
        return;
    case PTX_OP_cp_async_bulk:
        bulk_copy(x, instr);
        return;
    case PTX_OP_atom:
    case PTX_OP_red:
        if (instr->form->vector > 1)
            vector_atomic(x, instr);
        else if (instr->form->type_count && instr->form->types[0] == PTX_TYPE_b128)
            wide_atomic(x, instr);
        else
            operation(x, instr);
        return;
    case PTX_OP_mma:
    case PTX_OP_wmma_load:
    case PTX_OP_wmma_store:
    case PTX_OP_wmma_mma:
    case PTX_OP_ldmatrix:
    case PTX_OP_stmatrix:
    case PTX_OP_movmatrix:
        matrix(x, instr);
        return;
    default:
        operation(x, instr);
        return;
    }
}

/* One instruction with its guard; unsupported ones become a fault at their place. */
static void guarded(struct decoder *x, const struct ptx_instr *instr)
{
    uint32_t start = x->count;
    bool branches = instr->form->op == PTX_OP_bra && !instr->opaque;
    struct code *skip = NULL;
    if (instr->guard != PTX_NO_REG && !branches) {
        skip = emit(x, instr->guard_negated ? X_skip_if : X_skip_unless, instr);
        skip->a = reg_slot(instr->guard);
    }
    uint32_t body = x->count;
    x->unsupported = false;
    instruction(x, instr);
    if (x->unsupported) {
        x->count = body;
        emit(x, X_unsupported, instr);
    }
    if (skip && !x->failed)
        x->code[start].imm = x->count;
}

/* ---- functions ------------------------------------------------------------------------------- */

static uint32_t place(uint32_t *used, const struct ptx_var *var)
{
    uint32_t offset = (*used + var->align - 1) & ~(var->align - 1);
    *used = offset + (uint32_t)var->size;
    return offset;
}

/* Offsets of the body's variables; false if they are too large to run. */
static bool lay_out(struct decoder *x)
{
    const struct ptx_func *ptx = x->ptx;
    uint32_t local = 0, shared = x->func->shared_base;
    x->var_offset = calloc(ptx->var_count + 1, sizeof *x->var_offset);
    if (!x->var_offset)
        return false;
    for (uint32_t i = 0; i < ptx->var_count; i++) {
        const struct ptx_var *var = ptx->vars[i];
        if (var->size > 64 << 20 || local > 64 << 20 || shared > 64 << 20)
            return false;
        bool dynamic = var->space == PTX_SPACE_shared && var->unsized;
        x->var_offset[i] = dynamic ? x->module->dynamic_offset
                                   : place(var->space == PTX_SPACE_shared ? &shared : &local, var);
    }
    x->func->shared_bytes = shared;
    if (!ptx->entry) {
        for (uint32_t i = 0; i < ptx->param_count; i++)
            x->func->param_offset[i] = place(&local, ptx->params[i]);
        for (uint32_t i = 0; i < ptx->result_count; i++)
            x->func->result_offset[i] = place(&local, ptx->results[i]);
    }
    x->func->local_bytes = (local + 15) & ~15u;
    return true;
}

static void resolve(struct decoder *x)
{
    row_function (*row)(uint16_t) = row_of;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        row = row_of_wide;
#endif
    for (uint32_t i = 0; i < x->count; i++) {
        struct code *c = &x->code[i];
        c->row = row(c->op);
        cost_of(c);
        if (c->op == X_bra || c->op == X_bra_if || c->op == X_bra_unless)
            c->imm = x->places[c->imm];
        if (c->op != X_brx)
            continue;
        uint32_t *list = (uint32_t *)c->list;
        for (uint32_t k = 1; k <= list[0]; k++)
            list[k] = x->places[list[k]];
    }
}

static void *keep(struct decoder *x, const void *data, size_t size)
{
    void *out = arena_alloc(&x->module->arena, size + 1);
    if (out && size)
        memcpy(out, data, size);
    x->failed |= !out;
    return out;
}

kg_status exec_decode(struct exec_module *module, struct exec_func *func)
{
    const struct ptx_func *ptx = func->ptx;
    struct decoder x = {.module = module, .func = func, .ptx = ptx};
    func->param_offset = arena_alloc(&module->arena, sizeof(uint32_t) * (ptx->param_count + 1));
    func->result_offset = arena_alloc(&module->arena, sizeof(uint32_t) * (ptx->result_count + 1));
    x.places = calloc(ptx->instr_count + 1, sizeof *x.places);
    x.failed = !x.places || !func->param_offset || !func->result_offset;
    bool fits = !x.failed && lay_out(&x);
    find_known(&x);
    for (uint32_t i = 0; i <= ptx->reg_count; i++) /* slot 0: the sink */
        new_slot(&x, 0);
    for (uint32_t i = 0; fits && i < ptx->instr_count && !x.failed; i++) {
        x.places[i] = x.count;
        guarded(&x, &ptx->instrs[i]);
    }
    if (fits && !x.failed) {
        x.places[ptx->instr_count] = x.count;
        emit(&x, ptx->entry ? X_exit : X_ret, NULL); /* falling off the end */
    }
    if (fits && !x.failed) {
        resolve(&x);
        func->code = keep(&x, x.code, sizeof *x.code * x.count);
        func->frame = keep(&x, x.frame, sizeof *x.frame * x.slots);
        func->fixups = keep(&x, x.fixups, sizeof *x.fixups * x.fixup_count);
        func->code_count = x.count;
        func->slot_count = x.slots;
        func->fixup_count = x.fixup_count;
    }
    free(x.code);
    free(x.frame);
    free(x.fixups);
    free(x.places);
    free(x.known);
    free(x.high);
    free(x.hash);
    free(x.var_offset);
    return x.failed ? KG_NO_MEMORY : fits ? KG_OK : KG_LIMIT;
}
