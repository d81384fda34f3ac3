/* Questions about the values of a graph. */
#include "graph_parts.h"

#include <stdlib.h>

static uint32_t find(const struct graph *graph, uint32_t first, uint32_t end, uint32_t reg)
{
    uint32_t stop = end;
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        if (graph->refs[middle].reg < reg)
            first = middle + 1;
        else
            end = middle;
    }
    return first < stop && graph->refs[first].reg == reg ? graph->refs[first].value : GRAPH_UNKNOWN;
}

uint32_t graph_read(const struct graph *graph, uint32_t instr, uint32_t reg)
{
    return find(graph, graph->read_first[instr], graph->write_first[instr], reg);
}

uint32_t graph_write(const struct graph *graph, uint32_t instr, uint32_t reg)
{
    return find(graph, graph->write_first[instr], graph->read_first[instr + 1], reg);
}

uint32_t graph_operand(const struct graph *graph, uint32_t instr, const struct ptx_operand *operand)
{
    if ((operand->kind != PTX_REG && operand->kind != PTX_ADDRESS) || operand->reg == PTX_NO_REG)
        return GRAPH_UNKNOWN;
    return graph_read(graph, instr, operand->reg);
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* A new round of marks, in which nothing is marked. */
static uint32_t *begin_round(struct graph_hidden *hidden, uint32_t value_count)
{
    if (++hidden->seen_round == 0) {
        memset(hidden->seen, 0, value_count * sizeof *hidden->seen);
        hidden->seen_round = 1;
    }
    return hidden->seen;
}

bool graph_defs(const struct graph *graph, uint32_t value, uint32_t *instrs, uint32_t room,
                uint32_t *count)
{
    struct graph_hidden *hidden = graph->hidden;
    uint32_t *seen = begin_round(hidden, graph->value_count), depth = 0;
    *count = 0;
    seen[value] = hidden->seen_round;
    for (hidden->value_stack[depth++] = value; depth;) {
        uint32_t number = hidden->value_stack[--depth];
        const struct graph_value *at = &graph->values[number];
        if (at->kind == VALUE_UNKNOWN)
            return false;
        if (at->kind != VALUE_PHI) {
            if (*count == room)
                return false;
            instrs[(*count)++] = at->instr;
        }
        for (uint32_t i = 0; i < at->input_count; i++) {
            uint32_t input = at->inputs[i];
            if (seen[input] != hidden->seen_round)
                hidden->value_stack[depth++] = input;
            seen[input] = hidden->seen_round;
        }
    }
    if (*count)
        qsort(instrs, *count, sizeof *instrs, by_number);
    return true;
}

uint32_t graph_def(const struct graph *graph, uint32_t value)
{
    uint32_t instr, count;
    const struct graph_value *at = &graph->values[value];
    if (at->kind == VALUE_WRITE)
        return at->may ? GRAPH_NONE : at->instr;
    return graph_defs(graph, value, &instr, 1, &count) && count == 1 ? instr : GRAPH_NONE;
}
