/* Graphs of functions: hand-written ones for each shape of control flow, and random small ones
 * against brute force: dominance by deletion, reaching definitions by walking all paths, loops by
 * reachability. */
#include <string.h>

#include "code/graph.h"
#include "test.h"

struct fixture {
    struct ptx_module module;
    struct kg_arena arena;
    struct graph graph;
    const struct ptx_func *func;
};

static bool open_text(struct fixture *f, const char *text)
{
    char error[200] = "";
    *f = (struct fixture){0};
    if (!CHECK(ptx_parse(text, strlen(text), &f->module, error, sizeof error) == KG_OK)) {
        fprintf(stderr, "%s\n%s\n", error, text);
        return false;
    }
    f->func = ptx_find_func(&f->module, "k");
    return CHECK(f->func && graph_make(f->func, &f->arena, &f->graph) == KG_OK);
}

static bool open_body(struct fixture *f, const char *body)
{
    static char text[1 << 16];
    snprintf(text, sizeof text,
             ".version 8.3\n.target sm_90\n.address_size 64\n.global .b32 gvar[4];\n"
             ".extern .func stop .noreturn;\n"
             ".visible .entry k(.param .u64 a, .param .u32 n) {\n.reg .b64 %%rd<40>;\n"
             ".reg .b32 %%r<40>;\n.reg .pred %%p<40>;\n.shared .b32 svar[4];\n.local .b32 lvar[4];"
             "\n%s\n}\n",
             body);
    return open_text(f, text);
}

static void close_fixture(struct fixture *f)
{
    arena_free(&f->arena);
    ptx_module_free(&f->module);
}

static uint32_t instr_at(const struct fixture *f, const char *label)
{
    uint32_t i = 0;
    while (i + 1 < f->func->label_count && strcmp(f->func->labels[i].name, label))
        i++;
    CHECK(!strcmp(f->func->labels[i].name, label));
    return f->func->labels[i].instr;
}

/* The block of the label's instruction; the exit at the end. */
static uint32_t at(const struct fixture *f, const char *label)
{
    uint32_t instr = instr_at(f, label);
    return instr < f->func->instr_count ? f->graph.block_of[instr] : f->graph.exit;
}

/* Definitions that reach the first read of the first source of the instruction at `label`, as text
 * of labels' instructions: "A B start". */
static bool defs_are(const struct fixture *f, const char *label, unsigned operand,
                     const char *expected)
{
    char found[256] = "";
    uint32_t instr = instr_at(f, label), defs[16], count;
    uint32_t value = graph_operand(&f->graph, instr, &f->func->instrs[instr].operands[operand]);
    if (!graph_defs(&f->graph, value, defs, 16, &count)) {
        strcpy(found, "unknown");
        count = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        const char *name = defs[i] == GRAPH_NONE ? "start" : "?";
        for (uint32_t l = 0; l < f->func->label_count; l++)
            if (f->func->labels[l].instr == defs[i])
                name = f->func->labels[l].name;
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s", i ? " " : "", name);
    }
    if (!strcmp(found, expected))
        return true;
    fprintf(stderr, "%s: %s, not %s\n", label, found, expected);
    return false;
}

/* ---- by hand ---- */

static void check_diamond(void)
{
    struct fixture f;
    if (!open_body(&f, "setp.eq.u32 %p1, %r1, 0;\n@%p1 bra T;\nA: mov.u32 %r2, 1;\nbra J;\n"
                       "T: mov.u32 %r2, 2;\nJ: add.u32 %r3, %r2, 1;\nret;\n"))
        return;
    const struct graph *g = &f.graph;
    uint32_t a = at(&f, "A"), t = at(&f, "T"), j = at(&f, "J"), count;
    CHECK(g->block_count == 4 && !g->wild && !g->irreducible && g->order_count == 4);
    CHECK(g->blocks[0].succ_count == 2 && g->blocks[0].succs[0] == t && g->blocks[0].succs[1] == a);
    CHECK(g->blocks[0].ends == GRAPH_BRANCHES && g->blocks[0].guarded && !g->blocks[a].guarded);
    CHECK(g->blocks[j].ends == GRAPH_RETURNS && g->blocks[t].ends == GRAPH_FALLS);
    CHECK(g->blocks[j].idom == 0 && g->blocks[0].ipdom == j && g->blocks[j].ipdom == g->exit);
    CHECK(graph_dominates(g, 0, j) && !graph_dominates(g, a, j) && graph_dominates(g, j, j));
    CHECK(defs_are(&f, "J", 1, "A T"));
    const uint32_t *controllers = graph_controllers(g, t, &count);
    CHECK(count == 1 && controllers[0] == 0);
    graph_controllers(g, j, &count);
    CHECK(count == 0);
    const struct graph_value *merge = &g->values[graph_operand(
        g, instr_at(&f, "J"), &f.func->instrs[instr_at(&f, "J")].operands[1])];
    CHECK(merge->kind == VALUE_PHI && merge->block == j && merge->input_count == 2);
    CHECK(merge->user_count == 1 && merge->users[0].instr == instr_at(&f, "J"));
    CHECK(graph_def(g, merge->inputs[0]) == instr_at(&f, "A") ||
          graph_def(g, merge->inputs[0]) == instr_at(&f, "T"));
    close_fixture(&f);
}

static void check_loops(void)
{
    struct fixture f;
    if (!open_body(&f, "S: mov.u32 %r1, 0;\nO: mov.u32 %r2, 0;\nI: add.u32 %r2, %r2, 1;\n"
                       "setp.lt.u32 %p1, %r2, 9;\n@%p1 bra I;\nX: add.u32 %r1, %r1, %r2;\n"
                       "setp.gt.u32 %p2, %r1, 99;\n@%p2 bra E;\nsetp.lt.u32 %p1, %r1, 9;\n"
                       "L: @%p1 bra O;\nE: ret;\n"))
        return;
    const struct graph *g = &f.graph;
    uint32_t o = at(&f, "O"), i = at(&f, "I"), x = at(&f, "X"), e = at(&f, "E");
    CHECK(g->loop_count == 2 && !g->irreducible);
    uint32_t inner = g->blocks[i].loop, outer = g->blocks[x].loop;
    CHECK(outer == g->blocks[o].loop && g->blocks[e].loop == GRAPH_NONE && inner != outer);
    CHECK(g->loops[inner].parent == outer && g->loops[inner].depth == 2 &&
          g->loops[outer].depth == 1 && g->loops[outer].end == 2 && outer == 0 && inner == 1);
    CHECK(g->loops[inner].header == i && g->loops[inner].block_count == 1 &&
          g->loops[inner].latch_count == 1 && g->loops[inner].latches[0] == i);
    CHECK(g->loops[inner].exit_count == 1 && g->loops[inner].exits[0].from == i &&
          g->loops[inner].exits[0].to == x);
    CHECK(g->loops[outer].header == o && g->loops[outer].block_count == 4 &&
          g->loops[outer].exit_count == 2 && g->loops[outer].exits[0].to == e);
    CHECK(graph_in_loop(g, outer, i) && graph_in_loop(g, inner, i) && !graph_in_loop(g, inner, x) &&
          !graph_in_loop(g, outer, e));
    CHECK(defs_are(&f, "I", 1, "O I") && defs_are(&f, "X", 1, "S X") && defs_are(&f, "X", 2, "I"));
    close_fixture(&f);
}

static void check_irreducible(void)
{
    struct fixture f;
    if (!open_body(&f, "@%p1 bra B;\nA: add.u32 %r1, %r1, 1;\nB: add.u32 %r2, %r1, 1;\n"
                       "@%p2 bra A;\nE: ret;\n"))
        return;
    const struct graph *g = &f.graph;
    uint32_t a = at(&f, "A"), b = at(&f, "B"), e = at(&f, "E");
    CHECK(g->irreducible && !g->wild && g->wild_line && g->loop_count == 1);
    CHECK(g->loops[0].irreducible && graph_in_loop(g, 0, a) && graph_in_loop(g, 0, b) &&
          !graph_in_loop(g, 0, e));
    CHECK(!graph_dominates(g, a, b) && !graph_dominates(g, b, a) && graph_dominates(g, b, e));
    CHECK(defs_are(&f, "B", 1, "A start"));
    close_fixture(&f);
}

static void check_unreachable(void)
{
    struct fixture f;
    if (!open_body(&f, "S: mov.u32 %r1, 1;\nbra E;\nU: mov.u32 %r1, %r2;\nV: mov.u32 %r3, %r1;\n"
                       "E: add.u32 %r4, %r1, 1;\nret;\nW: bra U;\n"))
        return;
    const struct graph *g = &f.graph;
    CHECK(!g->blocks[at(&f, "U")].reachable && !g->blocks[at(&f, "W")].reachable &&
          g->blocks[at(&f, "E")].reachable && g->blocks[at(&f, "E")].pred_count == 1);
    CHECK(defs_are(&f, "E", 1, "S") && defs_are(&f, "V", 1, "unknown"));
    CHECK(graph_dominates(g, 0, at(&f, "E")) && !graph_dominates(g, 0, at(&f, "U")) &&
          !graph_dominates(g, at(&f, "U"), at(&f, "E")));
    CHECK(g->blocks[at(&f, "U")].idom == GRAPH_NONE && g->blocks[at(&f, "U")].rank == GRAPH_NONE);
    close_fixture(&f);
}

static void check_guards(void)
{
    struct fixture f;
    if (!open_body(&f, "A: mov.u32 %r1, 1;\nB: @%p1 mov.u32 %r1, 2;\nC: add.u32 %r2, %r1, 1;\n"
                       "D: mov.u32 %r1, 3;\nE: add.u32 %r2, %r1, 1;\n@!%p1 ret;\n"
                       "F: add.cc.u32 %r3, %r1, %r1;\nG: addc.u32 %r4, %r1, %r1;\n"
                       "H: mov.b64 {%r5, %r6}, %rd1;\nI: add.u32 %r7, %r6, 1;\nret;\n"))
        return;
    const struct graph *g = &f.graph;
    CHECK(defs_are(&f, "C", 1, "A B") && defs_are(&f, "E", 1, "D") && defs_are(&f, "I", 1, "H"));
    uint32_t b = instr_at(&f, "B");
    uint32_t write = graph_write(g, b, f.func->instrs[b].operands[0].reg);
    CHECK(g->values[write].may && g->values[write].input_count == 1 &&
          graph_def(g, g->values[write].inputs[0]) == instr_at(&f, "A"));
    CHECK(graph_def(g, write) == GRAPH_NONE);
    CHECK(graph_read(g, b, f.func->instrs[b].guard) != GRAPH_UNKNOWN);
    CHECK(graph_def(g, graph_read(g, instr_at(&f, "G"), g->carry)) == instr_at(&f, "F"));
    CHECK(g->blocks[0].ends == GRAPH_RETURNS && g->blocks[0].guarded &&
          g->blocks[0].succ_count == 2);
    close_fixture(&f);
}

static void check_scopes(void)
{
    struct fixture f;
    /* A branch into the middle of a scope, and a register of the same name in it. */
    if (!open_body(&f, "A: mov.u32 %r1, 1;\n@%p1 bra M;\n{\n.reg .b32 %r1;\nB: mov.u32 %r1, 2;\n"
                       "@%p2 bra M2;\nC: mov.u32 %r2, %r1;\nM2: mov.u32 %r3, %r1;\n}\n"
                       "M: mov.u32 %r4, %r1;\nbra N;\nN: ret;\n"))
        return;
    CHECK(defs_are(&f, "C", 1, "B") && defs_are(&f, "M2", 1, "B") && defs_are(&f, "M", 1, "A"));
    close_fixture(&f);
}

static void check_brx(void)
{
    struct fixture f;
    if (!open_body(&f, "TS: .branchtargets A, B, A, C;\nS: brx.idx %r1, TS;\nA: mov.u32 %r2, 1;\n"
                       "bra J;\nB: mov.u32 %r2, 2;\nbra J;\nC: mov.u32 %r2, 3;\n"
                       "J: mov.u32 %r3, %r2;\nbra.uni S;\n"))
        return;
    const struct graph *g = &f.graph;
    uint32_t s = at(&f, "S");
    CHECK(g->blocks[s].succ_count == 3 && g->blocks[s].succs[0] == at(&f, "A") &&
          g->blocks[s].succs[1] == at(&f, "B") && g->blocks[s].succs[2] == at(&f, "C"));
    CHECK(defs_are(&f, "J", 1, "A B C") && g->irreducible == false && g->loop_count == 1);
    /* no way out: endless, and nobody is sure to come */
    CHECK(g->blocks[s].endless && g->blocks[at(&f, "J")].endless && g->blocks[s].ipdom == g->exit);
    close_fixture(&f);
}

static void check_ends(void)
{
    struct fixture f;
    if (open_body(&f, "A: @%p1 bra L;\nB: @%p2 exit;\nC: call stop;\nD: trap;\nL: @%p3 bra L;\n"
                      "E: bra E;\n")) {
        const struct graph *g = &f.graph;
        CHECK(!g->blocks[at(&f, "D")].reachable && g->blocks[at(&f, "C")].succs[0] == g->exit);
        CHECK(g->blocks[at(&f, "E")].endless && g->blocks[at(&f, "L")].endless &&
              !g->blocks[0].endless);
        CHECK(g->loop_count == 2 && g->blocks[at(&f, "E")].loop != GRAPH_NONE);
        close_fixture(&f);
    }
    if (open_body(&f, "L: add.u32 %r1, %r1, 1;\n@%p1 bra L;\n")) { /* to the first instruction */
        const struct graph *g = &f.graph;
        CHECK(g->block_count == 2 && g->blocks[0].first == g->blocks[0].end &&
              g->blocks[0].pred_count == 0 && at(&f, "L") == 1);
        CHECK(defs_are(&f, "L", 1, "L start") && g->blocks[g->exit].pred_count == 1);
        close_fixture(&f);
    }
    if (open_body(&f, "")) {
        CHECK(f.graph.block_count == 1 && f.graph.blocks[0].succs[0] == f.graph.exit);
        close_fixture(&f);
    }
    if (open_body(&f, "bra END;\nEND:\n")) {
        CHECK(f.graph.blocks[0].succ_count == 1 && f.graph.blocks[0].succs[0] == f.graph.exit);
        close_fixture(&f);
    }
}

static void check_wild(void)
{
    struct fixture f;
    /* An unknown operation may write what it names, and may end there; one whose operands are not
     * understood leaves nothing known. */
    if (open_body(&f,
                  "A: mov.u32 %r1, 1;\nB: mystery.u32 %r1, %r2;\nC: mov.u32 %r3, %r1;\nret;\n")) {
        CHECK(!f.graph.wild && defs_are(&f, "C", 1, "A B"));
        CHECK(f.graph.blocks[0].succ_count == 2);
        close_fixture(&f);
    }
    if (open_body(&f, "A: mov.u32 %r1, 1;\nB: mystery ? %r1;\nC: mov.u32 %r3, %r1;\nret;\n")) {
        const struct graph *g = &f.graph;
        CHECK(g->wild && g->wild_line && defs_are(&f, "C", 1, "unknown"));
        CHECK(g->loop_count == 1 && g->loops[0].irreducible && graph_in_loop(g, 0, at(&f, "C")));
        CHECK(!graph_dominates(g, 0, at(&f, "C")));
        CHECK(!graph_instr_dominates(g, 0, 1));
        close_fixture(&f);
    }
}

static void check_spaces(void)
{
    struct fixture f;
    if (!open_body(
            &f, "ld.param.u64 %rd1, [a];\nmov.u64 %rd2, svar;\ncvta.shared.u64 %rd3, %rd2;\n"
                "cvta.to.global.u64 %rd4, %rd1;\nmul.wide.u32 %rd5, %r1, 4;\n"
                "add.s64 %rd6, %rd3, %rd5;\nA: ld.u32 %r2, [%rd6];\nB: ld.global.u32 %r2, [%rd4];\n"
                "add.s64 %rd7, %rd1, %rd5;\nC: st.u32 [%rd7+4], %r2;\n"
                "selp.b64 %rd8, %rd6, %rd7, %p1;\nD: ld.u32 %r2, [%rd8];\n"
                "ld.global.u64 %rd9, [%rd4];\nE: ld.u32 %r2, [%rd9];\n"
                "mov.u64 %rd10, lvar;\ncvta.local.u64 %rd11, %rd10;\n"
                "L: add.s64 %rd11, %rd11, 4;\nF: st.u32 [%rd11], %r2;\n@%p1 bra L;\n"
                "G: ld.u32 %r2, [%rd5];\nH: cp.async.ca.shared.global [%r3], [%rd4], 4;\n"
                "I: ld.u32 %r2, [gvar];\nmov.u64 %rd12, gvar;\nJ: ld.u32 %r2, [%rd12];\n"
                "K: ld.shared.u32 %r2, [%r3];\nret;\n"))
        return;
    static const struct {
        const char *label;
        unsigned operand, spaces;
    } expected[] = {{"A", 1, SPACE_SHARED}, {"B", 1, SPACE_GLOBAL},
                    {"C", 0, SPACE_GLOBAL}, {"D", 1, SPACE_SHARED | SPACE_GLOBAL},
                    {"E", 1, SPACE_ANY},    {"F", 0, SPACE_LOCAL},
                    {"G", 1, SPACE_ANY},    {"H", 0, SPACE_SHARED},
                    {"H", 1, SPACE_GLOBAL}, {"I", 1, SPACE_GLOBAL},
                    {"J", 1, SPACE_GLOBAL}, {"K", 1, SPACE_SHARED}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        if (!CHECK(graph_spaces(&f.graph, instr_at(&f, expected[i].label), expected[i].operand) ==
                   expected[i].spaces))
            fprintf(stderr, "%s: %u\n", expected[i].label,
                    graph_spaces(&f.graph, instr_at(&f, expected[i].label), expected[i].operand));
    close_fixture(&f);
}

static void check_calls(void)
{
    static const char text[] =
        ".version 8.3\n.target sm_90\n.address_size 64\n"
        ".func leaf() { ret; }\n.func odd();\n.func even() { call odd; ret; }\n"
        ".func odd() { call even; call leaf; ret; }\n.func self() { call self; ret; }\n"
        ".entry k() { .reg .b64 %rd; T: .calltargets leaf, self; call even; call self;\n"
        "P: .callprototype _ (); mov.u64 %rd, leaf; call %rd, (), T; call %rd, (), P; ret; }\n";
    struct fixture f;
    struct needs needs;
    struct graph_calls calls;
    if (!open_text(&f, text))
        return;
    CHECK(needs_make(&f.module, f.func, &f.arena, &needs) == KG_OK);
    CHECK(graph_calls_make(&needs, &f.arena, &calls) == KG_OK);
    CHECK(calls.unknown && calls.first[1] - calls.first[0] == 5 && calls.site_count == 9);
    uint32_t place[8] = {0};
    for (uint32_t i = 0; i < needs.func_count; i++) {
        const char *name = needs.funcs[i]->name;
        CHECK(calls.recursive[i] ==
              (!strcmp(name, "even") || !strcmp(name, "odd") || !strcmp(name, "self")));
        place[calls.bottom_up[i]] = i;
    }
    CHECK(place[0] == needs.func_count - 1); /* the entry comes last */
    for (uint32_t s = 0; s < calls.site_count; s++)
        if (calls.sites[s].callee != GRAPH_NONE && !calls.recursive[calls.sites[s].callee])
            CHECK(place[calls.sites[s].callee] < place[calls.sites[s].caller]);
    close_fixture(&f);
}

/* ---- random graphs against brute force ---- */

enum { BLOCKS = 9, REGS = 3 };

static uint32_t seed = 12345;

static uint32_t pick(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

/* A function of BLOCKS labelled blocks with writes and reads of REGS registers, guarded or not. */
static void random_text(char *text, size_t size)
{
    size_t at = 0;
#define PUT(...) at += (size_t)snprintf(text + at, size - at, __VA_ARGS__)
    text[0] = 0;
    for (int b = 0; b < BLOCKS; b++) {
        PUT("B%d:\n", b);
        for (uint32_t i = pick(4); i-- > 0;)
            if (pick(2))
                PUT("%smov.u32 %%r%u, %u;\n", pick(3) ? "" : "@%p1 ", pick(REGS), pick(99));
            else
                PUT("add.u32 %%r9, %%r%u, 1;\n", pick(REGS));
        switch (pick(7)) {
        case 0:
            PUT("bra B%u;\n", pick(BLOCKS));
            break;
        case 1:
            PUT("%sret;\n", pick(2) ? "" : "@%p1 ");
            break;
        case 2:
            PUT("T%d: .branchtargets B%u, B%u, B%u;\nbrx.idx %%r30, T%d;\n", b, pick(BLOCKS),
                pick(BLOCKS), pick(BLOCKS), b);
            break;
        case 3:
            break;
        default:
            PUT("@%%p2 bra B%u;\n", pick(BLOCKS));
        }
    }
#undef PUT
}

/* Blocks reached from `from` by at least one edge, never entering `without`. Backwards: from the
 * exit, endless blocks counting as its neighbours. */
static void flood(const struct graph *g, uint32_t from, uint32_t without, bool *reached)
{
    uint32_t stack[64], depth = 0;
    memset(reached, 0, 64);
    for (stack[depth++] = from; depth;) {
        const struct graph_block *block = &g->blocks[stack[--depth]];
        for (uint32_t i = 0; i < block->succ_count; i++)
            if (block->succs[i] != without && !reached[block->succs[i]]) {
                reached[block->succs[i]] = true;
                stack[depth++] = block->succs[i];
            }
        if (block->endless)
            reached[g->exit] = without != g->exit;
    }
}

static bool postdominates(const struct graph *g, uint32_t a, uint32_t b)
{
    while (b != a && b < g->exit)
        b = g->blocks[b].ipdom;
    return b == a;
}

static void check_dominance(const struct graph *g)
{
    bool live[64], reached[64];
    flood(g, 0, GRAPH_NONE, live);
    live[0] = true;
    for (uint32_t b = 0; b < g->block_count; b++)
        CHECK(g->blocks[b].reachable == live[b]);
    for (uint32_t a = 0; a < g->block_count; a++) {
        if (!live[a])
            continue;
        flood(g, 0, a, reached);
        for (uint32_t b = 0; b < g->block_count; b++) {
            bool dominates = a == b || (live[b] && (a == 0 || (b != 0 && !reached[b])));
            CHECK(graph_dominates(g, a, b) == dominates);
        }
        for (uint32_t b = 0; b < g->block_count; b++) {
            if (!live[b])
                continue;
            flood(g, b, a, reached);
            CHECK(postdominates(g, a, b) == (a == b || !reached[g->exit]));
        }
    }
}

/* A loop's blocks reach its header and are reached from it; every cycle lies in a loop. */
static void check_loop_forest(const struct graph *g)
{
    for (uint32_t l = 0; l < g->loop_count; l++) {
        const struct graph_loop *loop = &g->loops[l];
        bool entered = false;
        CHECK(graph_in_loop(g, l, loop->header));
        for (uint32_t i = 0; i < loop->block_count; i++) {
            uint32_t b = loop->blocks[i];
            bool on[64], back[64];
            flood(g, loop->header, GRAPH_NONE, on);
            flood(g, b, GRAPH_NONE, back);
            CHECK(graph_in_loop(g, l, b) && on[b] && back[loop->header]);
            for (uint32_t p = 0; p < g->blocks[b].pred_count; p++)
                entered |= b != loop->header && !graph_in_loop(g, l, g->blocks[b].preds[p]);
            CHECK(loop->irreducible || graph_dominates(g, loop->header, b));
        }
        CHECK(entered == loop->irreducible);
    }
    for (uint32_t b = 0; b < g->block_count; b++) {
        bool reached[64];
        flood(g, b, GRAPH_NONE, reached);
        CHECK(!g->blocks[b].reachable || reached[b] == (g->blocks[b].loop != GRAPH_NONE));
    }
}

static const struct ptx_instr *walked;

/* Walks back from instruction `at` over all paths; marks the writes of reg that are met first. */
static void walk_back(const struct graph *g, uint32_t block, uint32_t at, uint32_t reg,
                      bool *writes, bool *start, bool *visited)
{
    for (uint32_t i = at; i-- > g->blocks[block].first;) {
        const struct ptx_instr *instr = &walked[i];
        if (instr->form->op != PTX_OP_mov || instr->operands[0].reg != reg)
            continue;
        writes[i] = true;
        if (instr->guard == PTX_NO_REG)
            return;
    }
    if (block == 0)
        *start = true;
    for (uint32_t p = 0; p < g->blocks[block].pred_count; p++) {
        uint32_t from = g->blocks[block].preds[p];
        if (visited[from])
            continue;
        visited[from] = true;
        walk_back(g, from, g->blocks[from].end, reg, writes, start, visited);
    }
}

static void check_reaching(const struct fixture *f)
{
    const struct graph *g = &f->graph;
    walked = f->func->instrs;
    for (uint32_t i = 0; i < f->func->instr_count; i++) {
        const struct ptx_instr *instr = &f->func->instrs[i];
        if (instr->form->op != PTX_OP_add || !g->blocks[g->block_of[i]].reachable)
            continue;
        bool writes[256] = {0}, visited[64] = {0}, start = false;
        uint32_t defs[256], count, expected = 0;
        walk_back(g, g->block_of[i], i, instr->operands[1].reg, writes, &start, visited);
        CHECK(graph_defs(g, graph_operand(g, i, &instr->operands[1]), defs, 256, &count));
        for (uint32_t j = 0; j < f->func->instr_count; j++)
            expected += writes[j];
        CHECK(count == expected + start);
        for (uint32_t j = 0; j < count; j++)
            CHECK(defs[j] == GRAPH_NONE ? start : writes[defs[j]]);
    }
}

static void check_random(void)
{
    static char text[16384];
    struct fixture f;
    unsigned irreducible = 0, endless = 0, loops = 0;
    for (int round = 0; round < 1500; round++) {
        random_text(text, sizeof text);
        if (!open_body(&f, text))
            return;
        check_dominance(&f.graph);
        check_loop_forest(&f.graph);
        check_reaching(&f);
        irreducible += f.graph.irreducible;
        loops += f.graph.loop_count > 1;
        for (uint32_t b = 0; b < f.graph.block_count; b++)
            endless += f.graph.blocks[b].endless;
        close_fixture(&f);
        if (test_failures) {
            fprintf(stderr, "%s\n", text);
            return;
        }
    }
    CHECK(irreducible > 50 && endless > 50 && loops > 50); /* the cases are there */
}

/* 50,000 lines: branches that skip ahead, nested loops, a register each turn, which is read `near`:
 * in the next turn, else much later. */
static kg_status make_large(struct fixture *f, bool near)
{
    size_t room = 8 << 20, at = 0;
    char error[100], *text = malloc(room);
    *f = (struct fixture){0};
    if (!CHECK(text))
        return KG_NO_MEMORY;
    at += (size_t)snprintf(text, room,
                           ".version 8.3\n.target sm_90\n.address_size 64\n.entry k() {\n"
                           ".reg .b32 %%r<30000>;\n.reg .pred %%p<9>;\n");
    for (int i = 0; i < 10000; i++)
        at += (size_t)snprintf(text + at, room - at,
                               "L%d: add.u32 %%r%d, %%r%d, 1;\nadd.u32 %%r1, %%r1, %%r%d;\n"
                               "setp.lt.u32 %%p1, %%r%d, %d;\n@%%p1 bra L%d;\n"
                               "@%%p2 mov.u32 %%r%d, 7;\n",
                               i, i + 2, near ? i + 1 : i / 2 + 2, i + 2, i + 2, i,
                               i % 7 == 6               ? i - 5
                               : i % 5 == 2 && i < 9900 ? i + 90
                                                        : i,
                               i % 100 + 2);
    snprintf(text + at, room - at, "ret;\n}\n");
    CHECK(ptx_parse(text, strlen(text), &f->module, error, sizeof error) == KG_OK);
    free(text);
    f->func = ptx_find_func(&f->module, "k");
    uint64_t before = now_ns();
    kg_status status = graph_make(f->func, &f->arena, &f->graph);
    fprintf(stderr, "50,000 lines: %u values, %.0f ms\n", f->graph.value_count,
            (double)(now_ns() - before) / 1e6);
    return status;
}

static void check_large(void)
{
    struct fixture f;
    CHECK(make_large(&f, true) == KG_OK);
    CHECK(f.graph.block_count > 10000 && f.graph.loop_count > 1000);
    close_fixture(&f);
    CHECK(make_large(&f, false) == KG_LIMIT); /* and soon */
    close_fixture(&f);
}

int main(void)
{
    check_diamond();
    check_loops();
    check_irreducible();
    check_unreachable();
    check_guards();
    check_scopes();
    check_brx();
    check_ends();
    check_wild();
    check_spaces();
    check_calls();
    check_random();
    check_large();
    return test_result();
}
