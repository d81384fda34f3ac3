/* Rewrites one access: its address goes to the helpers of instrument_device.cu, and where accesses
 * are checked it is performed only if they let it. Everything added stands in a scope of its own
 * around the instruction, whose text is copied as it is. */
#include "instrument_parts.h"

#include <inttypes.h>

struct access {
    unsigned info, size;
    uint8_t space;
    const struct ptx_operand *address;
    const struct ptx_operand *length; /* of a copy: bytes read, fewer than size; NULL: size */
    /* of a matrix: rows of row_bytes, pitch elements of element_bytes apart (NULL: row_bytes) */
    unsigned rows, row_bytes, element_bytes;
    const struct ptx_operand *pitch;
};

struct accesses {
    unsigned count;
    struct access list[2];
    bool collective, acquires;
    const struct ptx_operand *results, *values; /* NULL: none */
};

/* Operations that touch memory at an address of theirs; all others that do are refused. */
static const struct access_row {
    uint16_t op;
    unsigned info, size; /* size 0: by type and vector */
    bool collective;     /* all lanes do it, or none */
    bool barrier;        /* orders threads in a way that race tags do not know */
} rows[] = {
    {PTX_OP_ld, INFO_READ, 0, false, false},
    {PTX_OP_ldu, INFO_READ, 0, false, false},
    {PTX_OP_st, INFO_WRITE, 0, false, false},
    {PTX_OP_atom, INFO_READ | INFO_WRITE | INFO_ATOMIC, 0, false, false},
    {PTX_OP_red, INFO_READ | INFO_WRITE | INFO_ATOMIC, 0, false, false},
    {PTX_OP_ldmatrix, INFO_READ, 16, true, false},
    {PTX_OP_stmatrix, INFO_WRITE, 16, true, false},
    {PTX_OP_mbarrier_init, INFO_WRITE, 8, false, true},
    {PTX_OP_mbarrier_inval, INFO_WRITE, 8, false, true},
    {PTX_OP_mbarrier_expect_tx, INFO_READ | INFO_WRITE | INFO_ATOMIC, 8, false, true},
    {PTX_OP_mbarrier_complete_tx, INFO_READ | INFO_WRITE | INFO_ATOMIC, 8, false, true},
    {PTX_OP_mbarrier_arrive, INFO_READ | INFO_WRITE | INFO_ATOMIC, 8, false, true},
    {PTX_OP_mbarrier_arrive_drop, INFO_READ | INFO_WRITE | INFO_ATOMIC, 8, false, true},
    {PTX_OP_mbarrier_test_wait, INFO_READ, 8, false, true},
    {PTX_OP_mbarrier_try_wait, INFO_READ, 8, false, true},
    {PTX_OP_cp_async_mbarrier_arrive, INFO_READ | INFO_WRITE | INFO_ATOMIC, 8, false, true},
};

static unsigned type_bytes(const struct ptx_form *form)
{
    unsigned bits = form->type_count ? ptx_types[form->types[0]].bits : 0;
    return bits % 8 ? 0 : bits / 8 * form->vector;
}

/* Strong accesses: of the memory model, between which there is no race. */
static unsigned strength(const struct ptx_form *form)
{
    unsigned info = 0;
    if (ptx_has(form, PTX_MOD_volatile) && form->space != PTX_SPACE_shared)
        info |= INFO_STRONG | INFO_VOLATILE;
    if (ptx_has(form, PTX_MOD_relaxed) || ptx_has(form, PTX_MOD_acquire) ||
        ptx_has(form, PTX_MOD_release) || ptx_has(form, PTX_MOD_mmio))
        info |= INFO_STRONG;
    if (ptx_has(form, PTX_MOD_release) || ptx_has(form, PTX_MOD_acq_rel) ||
        ptx_has(form, PTX_MOD_sc))
        info |= INFO_RELEASE;
    return info;
}

static bool is_address(const struct ptx_operand *operand)
{
    return operand->kind == PTX_ADDRESS && !operand->component && !operand->func;
}

/* cp.async SHARED, GLOBAL, size{, bytes read}{, cache policy}. */
static bool copy_async(struct rewriting *work, const struct ptx_instr *instr, struct accesses *out)
{
    const struct ptx_operand *operands = instr->operands;
    unsigned policy = ptx_has(instr->form, PTX_MOD_L2_cache_hint), count = instr->operand_count;
    if (count < 3 + policy || count > 4 + policy || !is_address(&operands[0]) ||
        !is_address(&operands[1]) || operands[2].kind != PTX_INT || operands[2].bits > 16) {
        refuse(work, instr, "%s in an unusual form", instr->form->text);
        return false;
    }
    const struct ptx_operand *length = count - policy > 3 ? &operands[3] : NULL;
    if (length && length->kind != PTX_INT &&
        (length->kind != PTX_REG || ptx_types[work->func->regs[length->reg].type].bits != 32)) {
        refuse(work, instr, "%s under a predicate", instr->form->text);
        return false;
    }
    unsigned size = (unsigned)operands[2].bits;
    out->count = 2;
    out->list[0] = (struct access){.info = INFO_WRITE | INFO_SHARED,
                                   .size = size,
                                   .space = PTX_SPACE_shared,
                                   .address = &operands[0]};
    out->list[1] = (struct access){.info = INFO_READ,
                                   .size = size,
                                   .space = PTX_SPACE_global,
                                   .address = &operands[1],
                                   .length = length};
    return true;
}

/* wmma.load.{a,b,c} {registers}, [address]{, pitch}; wmma.store.d [address], {registers}{, pitch}.
 */
static bool matrix(struct rewriting *work, const struct ptx_instr *instr, struct accesses *out)
{
    const struct ptx_form *form = instr->form;
    bool load = form->op == PTX_OP_wmma_load;
    unsigned m, n, k, bits = form->type_count ? ptx_types[form->types[0]].bits : 0;
    const char *shape = strstr(form->text, ".m");
    const struct ptx_operand *address = &instr->operands[load ? 1 : 0];
    if (wants(work, INSTRUMENT_RACES) || bits < 8 || instr->operand_count < 2 ||
        instr->operand_count > 3 || !is_address(address) || !shape ||
        sscanf(shape, ".m%un%uk%u", &m, &n, &k) != 3 ||
        (form->space == PTX_SPACE_generic && address->var)) {
        refuse(work, instr, "%s", form->text);
        return false;
    }
    unsigned rows = ptx_has(form, PTX_MOD_b) ? k : m, columns = ptx_has(form, PTX_MOD_a) ? k : n;
    bool by_row = ptx_has(form, PTX_MOD_row);
    unsigned length = (by_row ? columns : rows) * bits / 8;
    unsigned info = load ? INFO_READ : INFO_WRITE;
    info |= form->space == PTX_SPACE_shared    ? INFO_SHARED
            : form->space == PTX_SPACE_generic ? INFO_GENERIC
                                               : 0;
    out->count = 1;
    out->collective = true;
    out->list[0] = (struct access){.info = info,
                                   .space = form->space,
                                   .address = address,
                                   .rows = by_row ? rows : columns,
                                   .row_bytes = length,
                                   .element_bytes = bits / 8,
                                   .pitch = instr->operand_count > 2 ? &instr->operands[2] : NULL};
    out->results = load ? &instr->operands[0] : NULL;
    return true;
}

/* Memory that others cannot see: by the name of a parameter it is judged here. True: no more to do.
 */
static bool param_access(struct rewriting *work, const struct ptx_instr *instr,
                         const struct ptx_operand *address, unsigned size)
{
    if (!wants(work, INSTRUMENT_CHECK))
        return true;
    if (address->reg != PTX_NO_REG && work->func == work->entry && work->func->param_count)
        return false;
    if (address->reg != PTX_NO_REG || !address->var)
        refuse(work, instr, "parameter memory of a function by an address of its own");
    else if (address->offset < 0 || (uint64_t)address->offset + size > address->var->size)
        refuse(work, instr, "parameter memory beyond %s", address->var->name);
    return true;
}

/* Of shared memory alone, in a way that only recording, which leaves it out, can pass over. */
static bool is_unrecorded(const struct rewriting *work, const struct ptx_form *form)
{
    bool remote = form->op == PTX_OP_st_async || form->op == PTX_OP_red_async;
    return !wants(work, INSTRUMENT_CHECK | INSTRUMENT_RACES) &&
           (form->op == PTX_OP_wgmma_mma_async || (remote && form->space == PTX_SPACE_shared));
}

static bool accesses_of(struct rewriting *work, const struct ptx_instr *instr, struct accesses *out)
{
    const struct ptx_form *form = instr->form;
    const struct access_row *row = rows, *end = rows + sizeof rows / sizeof *rows;
    *out = (struct accesses){0};
    if (form->op == PTX_OP_cp_async)
        return copy_async(work, instr, out);
    if (form->op == PTX_OP_wmma_load || form->op == PTX_OP_wmma_store)
        return matrix(work, instr, out);
    while (row < end && row->op != form->op)
        row++;
    if (row == end && is_unrecorded(work, form))
        return false;
    if (row == end) {
        if (ptx_effects(instr) & (PTX_READS | PTX_WRITES | PTX_TEXTURE | PTX_WORST))
            refuse(work, instr, "%s", form->text);
        return false;
    }
    unsigned at = 0, size = row->size ? row->size : type_bytes(form);
    while (at < instr->operand_count && ptx_role(instr, at) != 'a')
        at++;
    if (instr->opaque || at == instr->operand_count || !is_address(&instr->operands[at]) || !size ||
        size > 32 ||
        (ptx_has(form, PTX_MOD_shared_cluster) &&
         wants(work, INSTRUMENT_CHECK | INSTRUMENT_RACES)) ||
        (row->barrier && wants(work, INSTRUMENT_RACES)) ||
        (row->collective && !ptx_has(form, PTX_MOD_m8n8))) {
        refuse(work, instr, "%s", form->text);
        return false;
    }
    const struct ptx_operand *address = &instr->operands[at];
    if (form->space == PTX_SPACE_param && param_access(work, instr, address, size))
        return false;
    if (form->space == PTX_SPACE_generic && address->var) {
        refuse(work, instr, "%s of a variable without its space", form->text);
        return false;
    }
    unsigned info = row->info | strength(form);
    uint8_t space = row->collective ? PTX_SPACE_shared : form->space;
    info |= space == PTX_SPACE_shared  ? INFO_SHARED
            : space == PTX_SPACE_local ? INFO_LOCAL
            : space == PTX_SPACE_const ? INFO_CONST
                                       : 0;
    out->count = 1;
    out->list[0] = (struct access){.info = info, .size = size, .space = space, .address = address};
    out->collective = row->collective;
    out->acquires = at && ((info & INFO_ATOMIC) || (info & INFO_STRONG && info & INFO_READ));
    out->results = at ? &instr->operands[0] : NULL;
    out->values =
        form->op == PTX_OP_st && at + 1 < instr->operand_count ? &instr->operands[at + 1] : NULL;
    return true;
}

/* ---- what is asked of an access ---------------------------------------------------------------
 */

/* By the name of a variable, inside it, and aligned. */
static bool is_plain(const struct access *access)
{
    const struct ptx_operand *a = access->address;
    return a->var && a->reg == PTX_NO_REG && !a->var->unsized && a->offset >= 0 &&
           (uint64_t)a->offset + access->size <= a->var->size && access->size &&
           !((uint64_t)a->offset % access->size) && !(a->var->align % access->size);
}

static const char *judge_of(const struct rewriting *work, const struct access *access)
{
    bool check = wants(work, INSTRUMENT_CHECK);
    bool any = check || wants(work, INSTRUMENT_RECORD);
    bool written = access->info & INFO_WRITE;
    if (is_plain(access) && (access->space == PTX_SPACE_shared || access->space == PTX_SPACE_local))
        return NULL;
    if (is_plain(access) && access->space == PTX_SPACE_const && !written &&
        !wants(work, INSTRUMENT_RECORD))
        return NULL;
    switch (access->space) {
    case PTX_SPACE_generic:
        return any ? "kgi_generic" : NULL;
    case PTX_SPACE_global:
        return any ? "kgi_global" : NULL;
    case PTX_SPACE_const:
        return any ? "kgi_const" : NULL;
    case PTX_SPACE_shared:
        return check ? "kgi_shared" : NULL;
    case PTX_SPACE_local:
        return check ? "kgi_local" : NULL;
    case PTX_SPACE_param:
        return check ? "kgi_param" : NULL;
    default:
        return NULL;
    }
}

static const char *tagger_of(struct rewriting *work, const struct access *access)
{
    if (!wants(work, INSTRUMENT_RACES))
        return NULL;
    unsigned size = access->size < 4 ? access->size : 4;
    bool global = access->space == PTX_SPACE_global || access->space == PTX_SPACE_generic;
    bool shared = access->space == PTX_SPACE_shared || access->space == PTX_SPACE_generic;
    if (global && size < work->smallest_global)
        work->smallest_global = size;
    if (shared && size < work->smallest_shared)
        work->smallest_shared = size;
    return access->space == PTX_SPACE_generic  ? "kgi_race_generic"
           : access->space == PTX_SPACE_global ? "kgi_race_global"
           : access->space == PTX_SPACE_shared ? "kgi_race_shared"
                                               : NULL;
}

/* ---- text ------------------------------------------------------------------------------------
 */

static void write_address(struct rewriting *work, unsigned index, const struct access *access)
{
    const struct ptx_operand *a = access->address;
    FILE *to = work->to;
    if (a->reg != PTX_NO_REG && ptx_types[work->func->regs[a->reg].type].bits == 32)
        fprintf(to, " add.s32 %%kgi_w, %s, %" PRId64 "; cvt.u64.u32 %%kgi_a%u, %%kgi_w;\n",
                reg_text(work, a->reg), a->offset, index);
    else if (a->reg != PTX_NO_REG)
        fprintf(to, " add.s64 %%kgi_a%u, %s, %" PRId64 ";\n", index, reg_text(work, a->reg),
                a->offset);
    else if (a->var)
        fprintf(to, " mov.u64 %%kgi_a%u, %s; add.s64 %%kgi_a%u, %%kgi_a%u, %" PRId64 ";\n", index,
                a->var->name, index, index, a->offset);
    else
        fprintf(to, " mov.u64 %%kgi_a%u, %" PRId64 ";\n", index, a->offset);
}

static void write_matrix(struct rewriting *work, const struct ptx_instr *instr,
                         const struct access *access)
{
    FILE *to = work->to;
    const struct ptx_operand *pitch = access->pitch;
    if (!pitch)
        fprintf(to, " mov.u32 %%kgi_w, %u;", access->row_bytes);
    else
        fprintf(to, " mul.lo.u32 %%kgi_w, %.*s, %u;", (int)(pitch->end - pitch->begin),
                work->source + pitch->begin, access->element_bytes);
    fprintf(to, " call (%%kgi_r), kgi_rows, (%%kgi_t, %%kgi_a0, %u, %u, %u, %%kgi_w, %u);\n",
            access->info, instr->place.line, access->rows, access->row_bytes);
}

/* %kgi_r becomes 0 if an access is not permitted. */
static void write_judge(struct rewriting *work, const struct ptx_instr *instr, unsigned index,
                        const struct access *access, const char *judge, const char *guard)
{
    FILE *to = work->to;
    if (access->length) {
        if (access->length->kind == PTX_INT)
            fprintf(to, " mov.u32 %%kgi_w, %" PRIu64 ";", access->length->bits);
        else
            fprintf(to, " mov.b32 %%kgi_w, %s;", reg_text(work, access->length->reg));
        fprintf(to, " or.b32 %%kgi_w, %%kgi_w, %u;\n", access->info);
    } else {
        fprintf(to, " mov.u32 %%kgi_w, %u;\n", access->info | access->size);
    }
    if (access->space == PTX_SPACE_param)
        fprintf(to,
                " mov.u64 %%kgi_b, %s; add.s64 %%kgi_v, %%kgi_b, %u; mov.u32 %%kgi_x, 1;\n"
                " %scall (%%kgi_x), %s, (%%kgi_a%u, %%kgi_w, %u, %%kgi_b, %%kgi_v);\n",
                work->func->params[0]->name, work->func->param_bytes, guard, judge, index,
                instr->place.line);
    else
        fprintf(to,
                " mov.u32 %%kgi_x, 1;\n %scall (%%kgi_x), %s, (%%kgi_t, %%kgi_a%u, %%kgi_w, %u);\n",
                guard, judge, index, instr->place.line);
    fputs(" and.b32 %kgi_r, %kgi_r, %kgi_x;\n", to);
}

/* %kgi_v: the bits of a stored value. */
static void write_value(struct rewriting *work, const struct ptx_instr *instr,
                        const struct ptx_operand *value)
{
    FILE *to = work->to;
    unsigned bits;
    switch (value->kind) {
    case PTX_INT:
    case PTX_F32:
    case PTX_F64:
        fprintf(to, " mov.u64 %%kgi_v, 0x%" PRIX64 ";\n", value->bits);
        return;
    case PTX_REG:
        bits = ptx_types[work->func->regs[value->reg].type].bits;
        if (value->component || value->negated || bits < 16 || bits > 64)
            break;
        if (bits == 64)
            fprintf(to, " mov.b64 %%kgi_v, %s;\n", reg_text(work, value->reg));
        else
            fprintf(to, " mov.b%u %%kgi_%c, %s; cvt.u64.u%u %%kgi_v, %%kgi_%c;\n", bits,
                    bits == 16 ? 'h' : 'w', reg_text(work, value->reg), bits,
                    bits == 16 ? 'h' : 'w');
        return;
    default:
        break;
    }
    refuse(work, instr, "a value of a kind whose races are not told apart");
}

static void write_tag(struct rewriting *work, const struct ptx_instr *instr,
                      const struct accesses *all, unsigned index, const char *guard)
{
    const struct access *access = &all->list[index];
    const char *tagger = tagger_of(work, access);
    if (!tagger)
        return;
    const struct ptx_operand *values = all->values, *parts = values;
    unsigned count = 1;
    if (values && values->kind == PTX_VECTOR) {
        count = values->part_count;
        parts = values->parts;
    }
    unsigned size = count ? access->size / count : 0;
    for (unsigned i = 0; i < count; i++) {
        fprintf(work->to, " add.s64 %%kgi_b, %%kgi_a%u, %u;\n", index, i * size);
        if (values)
            write_value(work, instr, &parts[i]);
        else
            fputs(" mov.u64 %kgi_v, 0;\n", work->to);
        fprintf(work->to, " %scall %s, (%%kgi_t, %%kgi_b, %u, %u, %%kgi_v);\n", guard, tagger,
                access->info | size, instr->place.line);
    }
}

/* Results of an access that was not performed. */
static void write_zero(struct rewriting *work, const struct ptx_instr *instr,
                       const struct ptx_operand *result)
{
    if (result->kind == PTX_VECTOR || result->kind == PTX_PAIR) {
        for (uint32_t i = 0; i < result->part_count; i++)
            write_zero(work, instr, &result->parts[i]);
        return;
    }
    if (result->kind == PTX_SINK)
        return;
    if (result->kind != PTX_REG || result->component) {
        refuse(work, instr, "a result of an unusual kind");
        return;
    }
    const struct ptx_type_row *type = &ptx_types[work->func->regs[result->reg].type];
    const char *name = reg_text(work, result->reg);
    if (type->class == PTX_PRED)
        fprintf(work->to, " @%%kgi_bad setp.ne.u32 %s, 0, 0;\n", name);
    else if (type->bits == 128)
        fprintf(work->to, " mov.u64 %%kgi_v, 0; @%%kgi_bad mov.b128 %s, {%%kgi_v, %%kgi_v};\n",
                name);
    else
        fprintf(work->to, " @%%kgi_bad mov.b%u %s, %s;\n", type->bits, name,
                type->class != PTX_FLOAT || type->bits < 32 ? "0"
                : type->bits == 32                          ? "0f00000000"
                                                            : "0d0000000000000000");
}

static void write_checked(struct rewriting *work, const struct ptx_instr *instr,
                          const struct accesses *all)
{
    FILE *to = work->to;
    int length;
    const char *bare = bare_text(work, instr, &length), *guard = "@!%kgi_bad ";
    fputs(" setp.eq.u32 %kgi_bad, %kgi_r, 0;\n", to);
    if (all->collective)
        fputs(" activemask.b32 %kgi_w; vote.sync.any.pred %kgi_bad, %kgi_bad, %kgi_w;\n"
              " selp.u32 %kgi_w, 0, 1, %kgi_bad; setp.ne.and.u32 %kgi_go, %kgi_w, 0, %kgi_go;\n",
              to);
    if (instr->guard != PTX_NO_REG) {
        guard = "@%kgi_go ";
        fputs(" selp.u32 %kgi_w, 0, 1, %kgi_bad;\n", to);
        fprintf(to, " setp.ne.and.u32 %%kgi_go, %%kgi_w, 0, %s%s;\n",
                instr->guard_negated ? "!" : "", reg_text(work, instr->guard));
    }
    for (unsigned i = 0; i < all->count; i++)
        write_tag(work, instr, all, i, all->collective ? "@%kgi_go " : guard);
    fprintf(to, " %s%.*s\n", guard, length, bare);
    if (all->results)
        write_zero(work, instr, all->results);
    if (all->acquires && wants(work, INSTRUMENT_RACES))
        fprintf(to, " %scall kgi_acquire, (%%kgi_t);\n", guard);
}

static void write_plain(struct rewriting *work, const struct ptx_instr *instr,
                        const struct accesses *all)
{
    const char *guard = guard_of(work, instr);
    int length;
    const char *bare = bare_text(work, instr, &length);
    for (unsigned i = 0; i < all->count; i++)
        write_tag(work, instr, all, i, all->collective ? "@%kgi_go " : guard);
    fprintf(work->to, " %s%.*s\n", guard, length, bare);
    if (all->acquires && wants(work, INSTRUMENT_RACES))
        fprintf(work->to, " %scall kgi_acquire, (%%kgi_t);\n", guard);
}

/* %kgi_go: a lane whose address a matrix operation uses. */
static void write_lanes(struct rewriting *work, const struct ptx_instr *instr)
{
    unsigned lanes = ptx_has(instr->form, PTX_MOD_x4)   ? 32
                     : ptx_has(instr->form, PTX_MOD_x2) ? 16
                                                        : 8;
    fprintf(work->to, " mov.u32 %%kgi_w, %%laneid; setp.lt.u32 %%kgi_go, %%kgi_w, %u;\n", lanes);
}

bool rewrite_access(struct rewriting *work, const struct ptx_instr *instr)
{
    struct accesses all;
    bool any = false;
    if (!accesses_of(work, instr, &all))
        return false;
    for (unsigned i = 0; i < all.count; i++)
        any |= judge_of(work, &all.list[i]) || tagger_of(work, &all.list[i]);
    if (!any)
        return false;
    if (all.collective && instr->guard != PTX_NO_REG) {
        refuse(work, instr, "%s under a guard", instr->form->text);
        return false;
    }
    work->out->accesses++;
    fputs("{ .reg .b64 %kgi_a0, %kgi_a1, %kgi_b, %kgi_v; .reg .b32 %kgi_w, %kgi_x, %kgi_r;"
          " .reg .b16 %kgi_h; .reg .pred %kgi_bad, %kgi_go;\n mov.u32 %kgi_r, 1;\n",
          work->to);
    if (all.collective)
        write_lanes(work, instr);
    const char *guard = all.collective ? "@%kgi_go " : guard_of(work, instr);
    for (unsigned i = 0; i < all.count; i++) {
        const char *judge = judge_of(work, &all.list[i]);
        write_address(work, i, &all.list[i]);
        if (judge && all.list[i].rows)
            write_matrix(work, instr, &all.list[i]);
        else if (judge)
            write_judge(work, instr, i, &all.list[i], judge, guard);
    }
    if (wants(work, INSTRUMENT_CHECK))
        write_checked(work, instr, &all);
    else
        write_plain(work, instr, &all);
    fputs("}", work->to);
    return true;
}
