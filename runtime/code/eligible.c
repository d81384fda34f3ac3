/* What in an original's own code rules out replacement, by name. Decided on the parsed tree: a row
 * of eligible.def is found here or nowhere. Also the eyes of admission (facts.c). */
#include "graph.h"

static const char *const eligible_texts[ELIGIBLE_COUNT] = {
#define ELIGIBLE(name, text) text,
#include "eligible.def"
#undef ELIGIBLE
};
_Static_assert(ELIGIBLE_COUNT <= 64, "reasons are bits of 64");

void eligible_add(struct eligible *eligible, enum eligible_reason reason, uint32_t line)
{
    if (!(eligible->reasons >> reason & 1))
        eligible->lines[reason] = line;
    eligible->reasons |= 1ull << reason;
}

const char *eligible_first(const struct eligible *eligible)
{
    return eligible->reasons ? eligible_texts[__builtin_ctzll(eligible->reasons)] : NULL;
}

/* Functions that the driver or the device runtime provides; a name that ends with '*' is a prefix.
 */
static const struct {
    const char *name;
    enum eligible_reason reason;
} provided[] = {
    {"vprintf", ELIGIBLE_PRINTS},
    {"malloc", ELIGIBLE_ALLOCATES},
    {"free", ELIGIBLE_ALLOCATES},
    {"__assertfail", ELIGIBLE_ASSERTS},
    {"__assert_fail", ELIGIBLE_ASSERTS},
    {"cudaMalloc", ELIGIBLE_ALLOCATES},
    {"cudaFree", ELIGIBLE_ALLOCATES},
    {"cudaCGSynchronizeGrid", ELIGIBLE_GRID_SYNC},
    {"cudaCGGetIntrinsicHandle", ELIGIBLE_GRID_SYNC},
    {"cudaCGSynchronize", ELIGIBLE_GRID_SYNC},
    {"__cuda*", ELIGIBLE_LAUNCHES},
    {"cuda*", ELIGIBLE_LAUNCHES},
};

static enum eligible_reason provided_by(const char *name)
{
    for (size_t i = 0; i < sizeof provided / sizeof *provided; i++) {
        size_t length = strlen(provided[i].name);
        bool prefix = provided[i].name[length - 1] == '*';
        if (prefix ? !strncmp(name, provided[i].name, length - 1) : !strcmp(name, provided[i].name))
            return provided[i].reason;
    }
    return ELIGIBLE_UNDEFINED;
}

static const struct {
    enum ptx_special special;
    enum eligible_reason reason;
} specials[] = {
    {PTX_SR_unknown, ELIGIBLE_UNKNOWN},
    {PTX_SR_clock, ELIGIBLE_CLOCKS},
    {PTX_SR_clock_hi, ELIGIBLE_CLOCKS},
    {PTX_SR_clock64, ELIGIBLE_CLOCKS},
    {PTX_SR_globaltimer, ELIGIBLE_CLOCKS},
    {PTX_SR_globaltimer_lo, ELIGIBLE_CLOCKS},
    {PTX_SR_globaltimer_hi, ELIGIBLE_CLOCKS},
    {PTX_SR_pm0, ELIGIBLE_CLOCKS},
    {PTX_SR_pm1, ELIGIBLE_CLOCKS},
    {PTX_SR_pm2, ELIGIBLE_CLOCKS},
    {PTX_SR_pm3, ELIGIBLE_CLOCKS},
    {PTX_SR_pm4, ELIGIBLE_CLOCKS},
    {PTX_SR_pm5, ELIGIBLE_CLOCKS},
    {PTX_SR_pm6, ELIGIBLE_CLOCKS},
    {PTX_SR_pm7, ELIGIBLE_CLOCKS},
    {PTX_SR_pm0_64, ELIGIBLE_CLOCKS},
    {PTX_SR_pm1_64, ELIGIBLE_CLOCKS},
    {PTX_SR_pm2_64, ELIGIBLE_CLOCKS},
    {PTX_SR_pm3_64, ELIGIBLE_CLOCKS},
    {PTX_SR_pm4_64, ELIGIBLE_CLOCKS},
    {PTX_SR_pm5_64, ELIGIBLE_CLOCKS},
    {PTX_SR_pm6_64, ELIGIBLE_CLOCKS},
    {PTX_SR_pm7_64, ELIGIBLE_CLOCKS},
    {PTX_SR_smid, ELIGIBLE_PLACE},
    {PTX_SR_nsmid, ELIGIBLE_PLACE},
    {PTX_SR_warpid, ELIGIBLE_PLACE},
    {PTX_SR_nwarpid, ELIGIBLE_PLACE},
    {PTX_SR_gridid, ELIGIBLE_PLACE},
    {PTX_SR_current_graph_exec, ELIGIBLE_LAUNCHES},
    {PTX_SR_envreg0, ELIGIBLE_GRID_SYNC}, /* cooperative groups find the grid's barrier there */
    {PTX_SR_envreg1, ELIGIBLE_GRID_SYNC},
    {PTX_SR_envreg2, ELIGIBLE_GRID_SYNC},
    {PTX_SR_envreg3, ELIGIBLE_GRID_SYNC},
    {PTX_SR_clusterid, ELIGIBLE_CLUSTER},
    {PTX_SR_nclusterid, ELIGIBLE_CLUSTER},
    {PTX_SR_cluster_ctaid, ELIGIBLE_CLUSTER},
    {PTX_SR_cluster_nctaid, ELIGIBLE_CLUSTER},
    {PTX_SR_cluster_ctarank, ELIGIBLE_CLUSTER},
    {PTX_SR_cluster_nctarank, ELIGIBLE_CLUSTER},
    {PTX_SR_is_explicit_cluster, ELIGIBLE_CLUSTER},
};

static const struct {
    enum ptx_op op;
    enum eligible_reason reason;
} operations[] = {
    {PTX_OP_unknown, ELIGIBLE_UNKNOWN},
    {PTX_OP_nanosleep, ELIGIBLE_SPINS},
    {PTX_OP_pmevent, ELIGIBLE_CLOCKS},
    {PTX_OP_barrier_cluster_arrive, ELIGIBLE_CLUSTER},
    {PTX_OP_barrier_cluster_wait, ELIGIBLE_CLUSTER},
    {PTX_OP_mapa, ELIGIBLE_CLUSTER},
    {PTX_OP_getctarank, ELIGIBLE_CLUSTER},
    {PTX_OP_st_async, ELIGIBLE_CLUSTER},
    {PTX_OP_red_async, ELIGIBLE_CLUSTER},
    {PTX_OP_multimem_ld_reduce, ELIGIBLE_SYSTEM}, /* memory of several devices */
    {PTX_OP_multimem_st, ELIGIBLE_SYSTEM},
    {PTX_OP_multimem_red, ELIGIBLE_SYSTEM},
    {PTX_OP_multimem_cp_async_bulk, ELIGIBLE_SYSTEM},
    {PTX_OP_multimem_cp_reduce_async_bulk, ELIGIBLE_SYSTEM},
    {PTX_OP_clusterlaunchcontrol_try_cancel, ELIGIBLE_CLUSTER},
    {PTX_OP_clusterlaunchcontrol_query_cancel, ELIGIBLE_CLUSTER},
    {PTX_OP_tcgen05_alloc, ELIGIBLE_TENSOR_MEMORY},
    {PTX_OP_tcgen05_dealloc, ELIGIBLE_TENSOR_MEMORY},
    {PTX_OP_tcgen05_relinquish_alloc_permit, ELIGIBLE_TENSOR_MEMORY},
    {PTX_OP_tcgen05_ld, ELIGIBLE_TENSOR_MEMORY},
    {PTX_OP_tcgen05_ld_red, ELIGIBLE_TENSOR_MEMORY},
    {PTX_OP_tcgen05_st, ELIGIBLE_TENSOR_MEMORY},
    {PTX_OP_tcgen05_cp, ELIGIBLE_TENSOR_MEMORY},
    {PTX_OP_tcgen05_shift, ELIGIBLE_TENSOR_MEMORY},
    {PTX_OP_tcgen05_mma, ELIGIBLE_TENSOR_MEMORY},
    {PTX_OP_tcgen05_commit, ELIGIBLE_TENSOR_MEMORY},
    {PTX_OP_st_bulk, ELIGIBLE_BULK},
    {PTX_OP_cp_async_mbarrier_arrive, ELIGIBLE_BULK},
    {PTX_OP_cp_async_bulk, ELIGIBLE_BULK},
    {PTX_OP_cp_async_bulk_commit_group, ELIGIBLE_BULK},
    {PTX_OP_cp_async_bulk_wait_group, ELIGIBLE_BULK},
    {PTX_OP_cp_async_bulk_prefetch, ELIGIBLE_BULK},
    {PTX_OP_cp_async_bulk_prefetch_tensor, ELIGIBLE_BULK},
    {PTX_OP_cp_reduce_async_bulk_tensor, ELIGIBLE_BULK},
    {PTX_OP_cp_async_bulk_tensor, ELIGIBLE_BULK},
    {PTX_OP_cp_reduce_async_bulk, ELIGIBLE_BULK},
    {PTX_OP_tensormap_replace, ELIGIBLE_BULK},
    {PTX_OP_tensormap_cp_fenceproxy, ELIGIBLE_BULK},
    {PTX_OP_mbarrier_init, ELIGIBLE_BULK},
    {PTX_OP_mbarrier_inval, ELIGIBLE_BULK},
    {PTX_OP_mbarrier_expect_tx, ELIGIBLE_BULK},
    {PTX_OP_mbarrier_complete_tx, ELIGIBLE_BULK},
    {PTX_OP_mbarrier_arrive, ELIGIBLE_BULK},
    {PTX_OP_mbarrier_arrive_drop, ELIGIBLE_BULK},
    {PTX_OP_mbarrier_test_wait, ELIGIBLE_BULK},
    {PTX_OP_mbarrier_try_wait, ELIGIBLE_BULK},
};

struct seen {
    struct eligible *out;
    uint32_t line;
};

static void scan_operand(void *self, const struct ptx_operand *operand)
{
    const struct seen *seen = self;
    if (operand->kind != PTX_SPECIAL)
        return;
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        if (specials[i].special == operand->special)
            eligible_add(seen->out, specials[i].reason, seen->line);
}

/* Order and scope of one access or fence. Atomics are relaxed and of device scope by nature; a
 * plain load or store that says so is written for blocks that talk to each other. */
static void scan_order(const struct ptx_instr *instr, struct eligible *out)
{
    const struct ptx_form *form = instr->form;
    uint32_t line = instr->place.line, effects = ptx_effects(instr);
    if (ptx_has(form, PTX_MOD_volatile) || ptx_has(form, PTX_MOD_cv) || ptx_has(form, PTX_MOD_mmio))
        eligible_add(out, ELIGIBLE_VOLATILE, line);
    if (ptx_has(form, PTX_MOD_sys))
        eligible_add(out, ELIGIBLE_SYSTEM, line);
    if (ptx_has(form, PTX_MOD_proxy))
        eligible_add(out, ELIGIBLE_BULK, line);
    bool access = form->op == PTX_OP_ld || form->op == PTX_OP_st;
    bool ordered = ptx_has(form, PTX_MOD_acquire) || ptx_has(form, PTX_MOD_release) ||
                   ptx_has(form, PTX_MOD_acq_rel);
    /* fence.acq_rel below system scope is __threadfence(): with atomics it orders what blocks add,
     * and does not wait for anybody. */
    if ((ordered && !(effects & PTX_FENCE)) || ptx_has(form, PTX_MOD_sc) ||
        (access && ptx_has(form, PTX_MOD_relaxed)))
        eligible_add(out, ELIGIBLE_ORDERED, line);
    if (ptx_has(form, PTX_MOD_cluster) || ptx_has(form, PTX_MOD_shared_cluster))
        eligible_add(out, ELIGIBLE_CLUSTER, line);
}

static void scan_instr(const struct ptx_instr *instr, struct eligible *out)
{
    struct seen seen = {out, instr->place.line};
    uint32_t effects = ptx_effects(instr);
    bool named = false;
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        if (operations[i].op != instr->form->op)
            continue;
        eligible_add(out, operations[i].reason, seen.line);
        named = true;
    }
    if (!named && (instr->opaque || instr->form->strange))
        eligible_add(out, ELIGIBLE_UNKNOWN, seen.line);
    if (effects & PTX_TRAPS)
        eligible_add(out, ELIGIBLE_TRAPS, seen.line);
    if (effects & PTX_TEXTURE)
        eligible_add(out, ELIGIBLE_TEXTURE, seen.line);
    if (effects & PTX_CALLS && instr->operand_count > 1 && instr->operands[1].kind == PTX_REG)
        eligible_add(out, ELIGIBLE_INDIRECT, seen.line);
    scan_order(instr, out);
    for (unsigned i = 0; i < instr->operand_count; i++)
        operand_each(&instr->operands[i], scan_operand, &seen);
}

/* Waits before anything that the launch before it may still write is touched, in every thread. */
static bool waits_first(const struct graph *graph)
{
    const struct ptx_func *func = graph->func;
    uint32_t wait = 0;
    while (wait < func->instr_count && (func->instrs[wait].form->op != PTX_OP_griddepcontrol ||
                                        !ptx_has(func->instrs[wait].form, PTX_MOD_wait) ||
                                        func->instrs[wait].guard != PTX_NO_REG))
        wait++;
    for (uint32_t i = 0; i < func->instr_count; i++) {
        const struct ptx_instr *instr = &func->instrs[i];
        uint32_t effects = ptx_effects(instr);
        unsigned spaces = 0;
        for (unsigned j = 0; j < instr->operand_count; j++)
            if (instr->operands[j].kind == PTX_ADDRESS)
                spaces |= graph_spaces(graph, i, j);
        bool touches = effects & (PTX_CALLS | PTX_WORST | PTX_TEXTURE) ||
                       (effects & (PTX_READS | PTX_WRITES) && spaces & SPACE_GLOBAL);
        if (touches && graph->blocks[graph->block_of[i]].reachable &&
            (wait == func->instr_count || !graph_instr_dominates(graph, wait, i)))
            return false;
    }
    return wait < func->instr_count;
}

/* Programmatic dependent launch, anywhere but in an entry that waits first. */
static void scan_dependence(const struct graph *graph, struct eligible *out)
{
    const struct ptx_func *func = graph->func;
    for (uint32_t i = 0; i < func->instr_count; i++) {
        if (func->instrs[i].form->op != PTX_OP_griddepcontrol)
            continue;
        if (!func->entry || !waits_first(graph))
            eligible_add(out, ELIGIBLE_DEPENDENT, func->instrs[i].place.line);
        return;
    }
}

/* What is told from where control and values go. */
static void scan_graph(const struct ptx_func *func, struct eligible *out)
{
    struct kg_arena arena = {0};
    struct graph graph;
    uint32_t line = UINT32_MAX;
    if (graph_make(func, &arena, &graph) == KG_OK) {
        scan_dependence(&graph, out);
        line = spin_find(&graph);
    }
    if (line)
        eligible_add(out, line == UINT32_MAX ? ELIGIBLE_TOO_LARGE : ELIGIBLE_SPINS,
                     line == UINT32_MAX ? func->place.line : line);
    arena_free(&arena);
}

static void scan_func(const struct ptx_func *func, struct eligible *out)
{
    if (!func->defined) {
        eligible_add(out, provided_by(func->name), func->place.line);
        return;
    }
    if (func->explicit_cluster || func->maxclusterrank || func->reqnctapercluster[0])
        eligible_add(out, ELIGIBLE_CLUSTER, func->place.line);
    for (uint32_t i = 0; i < func->instr_count; i++)
        scan_instr(&func->instrs[i], out);
    for (uint32_t i = 0; i < func->var_count; i++)
        if (func->vars[i]->space == PTX_SPACE_global || func->vars[i]->space == PTX_SPACE_const)
            eligible_add(out, ELIGIBLE_HIDDEN, func->vars[i]->place.line);
    scan_graph(func, out);
}

void eligible_scan(const struct ptx_module *module, const struct needs *needs, struct eligible *out)
{
    if (module->address_size != 64)
        eligible_add(out, ELIGIBLE_ADDRESS_SIZE, 1);
    for (uint32_t i = 0; i < needs->func_count; i++)
        scan_func(needs->funcs[i], out);
    for (uint32_t i = 0; i < needs->var_count; i++) {
        const struct ptx_var *var = needs->vars[i];
        bool own = var->space == PTX_SPACE_global || var->space == PTX_SPACE_const;
        if (own && var->linkage == PTX_EXTERN)
            eligible_add(out, ELIGIBLE_UNDEFINED, var->place.line);
        if (var->managed)
            eligible_add(out, ELIGIBLE_MANAGED, var->place.line);
        if (var->space == PTX_SPACE_tex)
            eligible_add(out, ELIGIBLE_TEXTURE, var->place.line);
    }
}
