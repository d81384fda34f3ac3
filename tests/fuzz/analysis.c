/* The analyses of the PTX library on any text that begins like PTX: graphs keep their invariants
 * (a definition dominates what reads it, merges have an input for each way in), roles and reasons
 * come out or a limit is named, and nothing hangs. Threads that are walked touch only what reach
 * says. */
#include "ptx_text.h"

#include "code/reach.h"
#include "code/roles.h"

static void expect(bool good)
{
    if (!good)
        abort();
}

/* The value is made before the end of block `at`, or before instruction `instr` in it. */
static void check_order(const struct graph *graph, uint32_t value, uint32_t at, uint32_t instr)
{
    const struct graph_value *v = &graph->values[value];
    expect(value < graph->value_count);
    if (v->kind == VALUE_UNKNOWN || v->kind == VALUE_START)
        return;
    expect(graph_dominates(graph, v->block, at));
    if (v->kind == VALUE_WRITE && v->block == at)
        expect(v->instr < instr);
}

static void check_values(const struct graph *graph)
{
    for (uint32_t i = 0; i < graph->func->instr_count; i++) {
        if (!graph->blocks[graph->block_of[i]].reachable)
            continue;
        for (uint32_t r = graph->read_first[i]; r < graph->write_first[i]; r++) {
            expect(graph->wild || graph->refs[r].value != GRAPH_UNKNOWN);
            expect(graph_read(graph, i, graph->refs[r].reg) == graph->refs[r].value);
            check_order(graph, graph->refs[r].value, graph->block_of[i], i);
        }
        for (uint32_t r = graph->write_first[i]; r < graph->read_first[i + 1]; r++)
            expect(graph->wild || graph->values[graph->refs[r].value].instr == i);
    }
    for (uint32_t v = 1; v < graph->value_count; v++) {
        const struct graph_value *value = &graph->values[v];
        const struct graph_block *block = &graph->blocks[value->block];
        expect(value->kind != VALUE_PHI || value->input_count == block->pred_count);
        for (uint32_t i = 0; i < value->input_count; i++)
            if (value->kind == VALUE_PHI)
                check_order(graph, value->inputs[i], block->preds[i], UINT32_MAX);
            else
                check_order(graph, value->inputs[i], value->block, value->instr);
        uint32_t defs[8], count;
        if (v % 16 == 1)
            graph_defs(graph, v, defs, 8, &count);
    }
}

static void check_blocks(const struct graph *graph)
{
    uint32_t count, at = 0;
    for (uint32_t b = 0; b < graph->block_count; b++) {
        const struct graph_block *block = &graph->blocks[b];
        expect(block->first == at && block->end >= at);
        at = block->end;
        for (uint32_t i = 0; i < block->succ_count; i++)
            expect(block->succs[i] <= graph->exit);
        if (!block->reachable || graph->wild)
            continue;
        expect(b == 0 || graph_dominates(graph, block->idom, b));
        expect(block->ipdom <= graph->exit && block->ipdom != b);
        expect(block->loop == GRAPH_NONE || graph_in_loop(graph, block->loop, b));
        graph_controllers(graph, b, &count);
    }
    expect(at == graph->func->instr_count);
}

static void check_func(const struct ptx_func *func)
{
    struct kg_arena arena = {0};
    struct graph graph;
    kg_status status = graph_make(func, &arena, &graph);
    expect(status == KG_OK || status == KG_LIMIT);
    if (status == KG_OK) {
        check_blocks(&graph);
        check_values(&graph);
        spin_find(&graph);
    }
    arena_free(&arena);
}

static void check_roles(const struct ptx_module *module, const struct ptx_func *entry)
{
    struct kg_arena arena = {0};
    struct roles roles;
    char text[256];
    kg_status status = roles_make(module, entry, &arena, &roles);
    expect(status == KG_OK || status == KG_LIMIT);
    uint64_t bytes = 0, given = 0;
    for (uint32_t i = 0; status == KG_OK && i < roles.piece_count; i++) {
        const struct roles_piece *piece = &roles.pieces[i];
        expect(piece->why && piece->size && roles_at(&roles, piece->offset));
        expect(!piece->pinned || piece->uses.roles);
        expect(!(piece->uses.roles & ROLE_UNKNOWN) || piece->pinned || piece->pointer);
        roles_text(&piece->uses, text, sizeof text);
        bytes += piece->size;
    }
    for (uint32_t i = 0; i < entry->param_count; i++)
        given += entry->params[i]->size;
    expect(status != KG_OK || bytes == given);
    for (uint32_t i = 0; status == KG_OK && i < roles.access_count; i++)
        roles_origin_text(&roles, roles.accesses[i].set, text, sizeof text);
    arena_free(&arena);
}

static void check_reach(const struct ptx_module *module, const struct ptx_func *entry,
                        const uint8_t *data, size_t size)
{
    unsigned char params[4096];
    struct kg_launch launch = {{2, 1, 2}, {4, 2, 1}, 0};
    struct reach_launch how = {.launch = &launch,
                               .params = params,
                               .param_bytes = sizeof params,
                               .exact = true,
                               .thorough = true};
    struct reach reach;
    if (entry->param_bytes > sizeof params)
        return;
    for (size_t i = 0; i < sizeof params; i++) /* small numbers, mostly */
        params[i] = i % 4 ? 0 : size ? data[i / 4 % size] : 0;
    kg_status status = reach_of(module, entry, &how, &reach);
    expect(status == KG_OK || status == KG_LIMIT);
    expect(!reach.contradicted);
    for (uint32_t i = 0; i < reach.target_count; i++) {
        const struct reach_target *target = &reach.targets[i];
        expect(target->read.state != REACH_KNOWN || target->read.low < target->read.high);
        expect(target->written.state != REACH_UNKNOWN || target->written.why);
    }
    reach_free(&reach);
    how.launch = NULL;
    how.params = NULL;
    status = reach_of(module, entry, &how, &reach);
    expect(status == KG_OK || status == KG_LIMIT);
    reach_free(&reach);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ptx_module module;
    char error[128], *text = ptx_text(data, size);
    if (ptx_parse(text, PTX_TEXT_HEAD_SIZE + size, &module, error, sizeof error) == KG_OK) {
        for (uint32_t i = 0, reached = 0; i < module.func_count; i++) {
            if (!module.funcs[i]->defined)
                continue;
            check_func(module.funcs[i]);
            if (module.funcs[i]->entry) {
                check_roles(&module, module.funcs[i]);
                if (reached++ < 3) /* threads that walk take most of the time */
                    check_reach(&module, module.funcs[i], data, size);
            }
        }
        ptx_module_free(&module);
    }
    free(text);
    return 0;
}
