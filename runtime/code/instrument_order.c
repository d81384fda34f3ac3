/* Rewrites what orders threads and what repeats: barriers and fences move the clocks of race tags;
 * branches backward and calls take from the thread's budget; calls hand the thread's record on. */
#include "instrument_parts.h"

static void write_original(struct rewriting *work, const struct ptx_instr *instr)
{
    int length;
    const char *bare = bare_text(work, instr, &length);
    fprintf(work->to, "%s%.*s", guard_of(work, instr), length, bare);
}

/* ---- barriers and fences ---------------------------------------------------------------------
 */

static bool is_full_barrier(const struct ptx_instr *instr)
{
    unsigned first = 0, count = instr->operand_count;
    switch (instr->form->op) {
    case PTX_OP_bar_sync:
    case PTX_OP_bar_cta_sync:
    case PTX_OP_barrier_sync:
    case PTX_OP_barrier_cta_sync:
        break;
    case PTX_OP_bar_red:
    case PTX_OP_bar_cta_red:
    case PTX_OP_barrier_red:
    case PTX_OP_barrier_cta_red:
        first = 1;
        count--; /* the predicate */
        break;
    default:
        return false;
    }
    return count == first + 1 && instr->operands[first].kind == PTX_INT;
}

static bool has_loop(const struct ptx_func *func)
{
    for (uint32_t i = 0; i < func->instr_count; i++)
        if (goes_back(func, &func->instrs[i], i) || func->instrs[i].form->op == PTX_OP_call)
            return true;
    return false;
}

/* Only whole blocks meet: a thread that ends counts as one that came. Where so many are awaited,
 * the others would wait for one whose budget is spent. */
static bool rewrite_barrier(struct rewriting *work, const struct ptx_instr *instr)
{
    bool full = is_full_barrier(instr), races = wants(work, INSTRUMENT_RACES);
    if (!full && races) {
        refuse(work, instr, "%s: not a barrier of the whole block", instr->form->text);
        return false;
    }
    if (!full && wants(work, INSTRUMENT_CHECK) && has_loop(work->func) &&
        instr->form->op != PTX_OP_barrier_cluster_arrive &&
        instr->form->op != PTX_OP_barrier_cluster_wait) {
        refuse(work, instr, "%s beside loops: others could wait for a thread that was ended",
               instr->form->text);
        return false;
    }
    if (!races)
        return false;
    write_original(work, instr);
    fprintf(work->to, "\n %scall kgi_barrier, (%%kgi_t);", guard_of(work, instr));
    return true;
}

static bool rewrite_fence(struct rewriting *work, const struct ptx_instr *instr)
{
    const struct ptx_form *form = instr->form;
    if (!wants(work, INSTRUMENT_RACES) || (form->op != PTX_OP_membar && form->op != PTX_OP_fence) ||
        ptx_has(form, PTX_MOD_proxy))
        return false;
    bool device = !ptx_has(form, PTX_MOD_cta);
    fprintf(work->to, "%scall kgi_fence, (%%kgi_t, %u);\n ", guard_of(work, instr), device);
    write_original(work, instr);
    return true;
}

static bool rewrite_warp_barrier(struct rewriting *work, const struct ptx_instr *instr)
{
    if (!wants(work, INSTRUMENT_RACES))
        return false;
    const struct ptx_operand *mask = instr->operands;
    if (instr->operand_count != 1 || (mask->kind != PTX_INT && mask->kind != PTX_REG)) {
        refuse(work, instr, "%s in an unusual form", instr->form->text);
        return false;
    }
    write_original(work, instr);
    fprintf(work->to, "\n %scall kgi_warp, (%%kgi_t, %.*s);", guard_of(work, instr),
            (int)(mask->end - mask->begin), work->source + mask->begin);
    return true;
}

/* ---- budget ----------------------------------------------------------------------------------
 */

bool goes_back(const struct ptx_func *func, const struct ptx_instr *instr, uint32_t index)
{
    for (unsigned i = 0; i < instr->operand_count; i++) {
        const struct ptx_operand *operand = &instr->operands[i];
        if (operand->kind == PTX_LABEL && func->labels[operand->label].instr <= index)
            return true;
        const struct ptx_list *list = operand->list;
        for (uint32_t j = 0; list && list->kind == PTX_BRANCH_TARGETS && j < list->count; j++)
            if (func->labels[list->labels[j]].instr <= index)
                return true;
    }
    return false;
}

static void write_budget(struct rewriting *work, const struct ptx_instr *instr)
{
    fprintf(work->to,
            "%ssub.u32 %%kgi_n, %%kgi_n, 1; setp.eq.u32 %%kgi_q, %%kgi_n, 0;\n"
            " @%%kgi_q mov.u32 %%kgi_l, %u; @%%kgi_q bra kgi_end;\n ",
            guard_of(work, instr), instr->place.line);
}

/* ---- calls -----------------------------------------------------------------------------------
 */

static const struct ptx_func *callee_of(const struct ptx_instr *instr)
{
    const struct ptx_operand *callee = &instr->operands[1];
    return callee->kind == PTX_SYMBOL ? callee->func : NULL;
}

/* The thread's record goes along as one more argument. */
static bool rewrite_call(struct rewriting *work, const struct ptx_instr *instr)
{
    const struct ptx_func *callee = instr->operand_count == 3 ? callee_of(instr) : NULL;
    if (!callee) {
        refuse(work, instr, "an indirect call");
        return false;
    }
    if (!callee->defined) {
        bool known = !strcmp(callee->name, "vprintf") || !strcmp(callee->name, "__assertfail");
        if (known && !wants(work, INSTRUMENT_CHECK))
            return false;
        refuse(work, instr, "calls %.100s, whose code is not in the module", callee->name);
        return false;
    }
    const struct ptx_operand *results = &instr->operands[0], *arguments = &instr->operands[2];
    const char *source = work->source, *guard = guard_of(work, instr);
    unsigned number = work->number++;
    FILE *to = work->to;
    if (wants(work, INSTRUMENT_CHECK)) {
        write_budget(work, instr);
        fputs("st.u32 [%kgi_t], %kgi_n;\n ", to);
    }
    fprintf(to, ".param .b64 kgi_p%u; st.param.b64 [kgi_p%u], %%kgi_t;\n %scall ", number, number,
            guard);
    if (results->part_count)
        fprintf(to, "%.*s, ", (int)(results->end - results->begin), source + results->begin);
    fprintf(to, "%s, (", callee->name);
    for (uint32_t i = 0; i < arguments->part_count; i++)
        fprintf(to, "%.*s, ", (int)(arguments->parts[i].end - arguments->parts[i].begin),
                source + arguments->parts[i].begin);
    fprintf(to, "kgi_p%u);", number);
    if (wants(work, INSTRUMENT_CHECK))
        fputs(" ld.u32 %kgi_n, [%kgi_t];", to);
    return true;
}

static bool rewrite_exit(struct rewriting *work, const struct ptx_instr *instr)
{
    fprintf(work->to, "%scall kgi_used, (%%kgi_n);\n ", guard_of(work, instr));
    write_original(work, instr);
    return true;
}

static bool rewrite_return(struct rewriting *work, const struct ptx_instr *instr)
{
    if (!wants(work, INSTRUMENT_CHECK))
        return false;
    if (work->func == work->entry)
        return rewrite_exit(work, instr);
    fputs("st.u32 [%kgi_t], %kgi_n; st.u64 [%kgi_t+32], %kgi_lo; st.u64 [%kgi_t+40], %kgi_hi;\n ",
          work->to);
    write_original(work, instr);
    return true;
}

bool rewrite_order(struct rewriting *work, const struct ptx_instr *instr, uint32_t index)
{
    uint32_t effects = ptx_effects(instr);
    bool check = wants(work, INSTRUMENT_CHECK);
    switch (instr->form->op) {
    case PTX_OP_call:
        return rewrite_call(work, instr);
    case PTX_OP_ret:
        return rewrite_return(work, instr);
    case PTX_OP_exit:
        return check && rewrite_exit(work, instr);
    case PTX_OP_trap:
    case PTX_OP_brkpt:
        if (check)
            refuse(work, instr, "%s ends the whole launch", instr->form->text);
        return false;
    case PTX_OP_alloca:
    case PTX_OP_stackrestore:
    case PTX_OP_griddepcontrol:
    case PTX_OP_setmaxnreg: /* the helpers' registers are not counted in it */
        refuse(work, instr, "%s", instr->form->text);
        return false;
    case PTX_OP_prefetch: /* of memory that may not be there, for nothing but speed */
    case PTX_OP_prefetchu:
    case PTX_OP_applypriority:
    case PTX_OP_cp_async_bulk_prefetch:
        return check;
    case PTX_OP_cvta:
        if (check && (instr->form->space == PTX_SPACE_param || ptx_has(instr->form, PTX_MOD_param)))
            refuse(work, instr, "%s: parameters by generic addresses", instr->form->text);
        return false;
    case PTX_OP_bar_warp_sync:
        return rewrite_warp_barrier(work, instr);
    default:
        break;
    }
    if (effects & PTX_BARRIER && !(effects & (PTX_READS | PTX_WRITES)))
        return rewrite_barrier(work, instr);
    if (effects & PTX_FENCE)
        return rewrite_fence(work, instr);
    if (!(effects & PTX_BRANCH) || !check || !goes_back(work->func, instr, index))
        return false;
    write_budget(work, instr);
    write_original(work, instr);
    return true;
}
