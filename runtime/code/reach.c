/* The door of reach: sets the analysis of an entry up, and turns values and facts into what each
 * access, pointer and loop does. */
#include "origin.h"
#include "reach_parts.h"

enum { ACCESSES_MAX = 20000 };

/* ---- the whole ------------------------------------------------------------------------------- */

static void summarise(struct collecting *c)
{
    struct reach *out = c->out;
    out->complete = out->stray.state == REACH_UNTOUCHED;
    for (uint32_t t = 0; t < out->target_count; t++) {
        struct reach_target *target = &out->targets[t];
        out->complete &= target->at == REACH_NONE || (target->read.state != REACH_UNKNOWN &&
                                                      target->written.state != REACH_UNKNOWN);
        int64_t low, high;
        /* Accesses that are not listed, or those of a function that is called, prove nothing. */
        bool all = !c->dropped && target->read.state != REACH_UNKNOWN &&
                   target->written.state != REACH_UNKNOWN;
        if (reach_extent_of(c, target, &low, &high))
            target->proof = all ? PROOF_PROVEN : PROOF_UNKNOWN;
        for (uint32_t i = 0; i < c->count; i++)
            if (c->found[i].access.target == t && c->found[i].access.proof > target->proof)
                target->proof = c->found[i].access.proof;
    }
}

static kg_status collect(struct collecting *c)
{
    struct reaching *r = c->r;
    struct reach *out = c->out;
    uint32_t room = 0;
    for (uint32_t i = 0; i < r->func->instr_count; i++)
        for (unsigned n = 0; n < r->func->instrs[i].operand_count; n++) {
            struct shape shape;
            room += reach_shape_of(&r->func->instrs[i], n, &shape);
        }
    if (room > ACCESSES_MAX)
        return KG_LIMIT;
    c->room = 4 * room + 16; /* an address may be one of several */
    c->found = arena_alloc(r->arena, (c->room + 1) * sizeof *c->found);
    out->loops = arena_alloc(&out->arena, (r->graph->loop_count + 1) * sizeof *out->loops);
    out->loop_count = r->graph->loop_count;
    if (!c->found || !out->loops)
        return KG_NO_MEMORY;
    bool calls = reach_all_harmless(c);
    for (uint32_t l = 0; l < out->loop_count; l++)
        reach_take_loop(c, l);
    for (uint32_t i = 0; i < r->func->instr_count; i++)
        if (r->graph->blocks[r->graph->block_of[i]].reachable && !facts_never(reach_at(r, i)))
            reach_take_instr(c, i, calls);
    for (uint32_t i = 0; i < c->count; i++) {
        struct found *found = &c->found[i];
        found->access.times = reach_times_of(c, r->graph->block_of[found->access.instr]);
        reach_coalescing(c, found);
        reach_prove(c, &found->access);
        found->access.address = reach_text(r, &found->rest, &out->arena);
    }
    reach_intensity(c);
    if (r->launch->exact && r->launch->launch && r->launch->params && !r->launch->scalar_count)
        reach_walk_ends(c);
    summarise(c);
    out->accesses = arena_alloc(&out->arena, (c->count + 1) * sizeof *out->accesses);
    if (!out->accesses || r->affine.failed)
        return KG_NO_MEMORY;
    for (uint32_t i = 0; i < c->count; i++)
        out->accesses[i] = c->found[i].access;
    out->access_count = c->count;
    return KG_OK;
}

/* Everything the result points to is its own. */
static kg_status own_texts(struct reach *out)
{
    for (uint32_t i = 0; i < out->target_count; i++)
        if (!(out->targets[i].name =
                  arena_copy(&out->arena, out->targets[i].name, strlen(out->targets[i].name))))
            return KG_NO_MEMORY;
    for (uint32_t i = 0; i < out->access_count; i++)
        if (!(out->accesses[i].operation = arena_copy(&out->arena, out->accesses[i].operation,
                                                      strlen(out->accesses[i].operation))))
            return KG_NO_MEMORY;
    return KG_OK;
}

struct uses {
    struct reaching *r;
    struct collecting *c;
    const struct origins *origins;
};

/* An access of a function that is called: into variables only, or who knows. */
static void use_called(struct uses *uses, const struct origin_access *access)
{
    const struct origin_set set = origins_set(uses->origins, access->set);
    bool write = access->use == ORIGIN_WRITE;
    uses->r->calls_touch |= !set.count;
    for (uint32_t i = 0; i < set.count; i++) {
        const struct ptx_var *var =
            set.items[i] < ORIGIN_LOADED ? uses->origins->origins[set.items[i]].var : NULL;
        uses->r->calls_touch |= !var || var->space == PTX_SPACE_param;
        if (!var || !reach_in_arrays(var))
            continue;
        uint32_t target = reach_target_of(uses->c, REACH_NONE, var);
        uses->r->calls_touch |= target == REACH_NONE;
        if (target != REACH_NONE)
            reach_not_known(write ? &uses->c->out->targets[target].written
                                  : &uses->c->out->targets[target].read,
                            "a function that is called", 0);
    }
}

/* Marks the words that lead to an address, and what functions that are called do. */
static void use_origin(void *self, const struct origin_access *access)
{
    struct uses *uses = self;
    const struct origin_set set = origins_set(uses->origins, access->set);
    if (access->func && !access->other_space && access->use != ORIGIN_ESCAPE)
        use_called(uses, access);
    for (uint32_t i = 0; !access->other_space && i < set.count; i++) {
        const struct origin *origin =
            set.items[i] < ORIGIN_LOADED ? &uses->origins->origins[set.items[i]] : NULL;
        if (origin && !origin->var && 8 * origin->word + 8 <= uses->r->func->param_bytes)
            uses->r->pointer_words[8 * origin->word] = 1;
    }
}

static uint32_t fixed_symbol(struct reaching *r, enum symbol_kind kind, unsigned axis, wide_int low,
                             wide_int high)
{
    uint32_t id = symbol_new(&r->affine, kind);
    if (id == NO_SYMBOL)
        return id;
    r->affine.symbols[id].axis = (uint8_t)axis;
    r->affine.symbols[id].range = (struct range){low, high};
    r->affine.symbols[id].pass = PASS_ALWAYS;
    return id;
}

static void make_axes(struct reaching *r)
{
    const struct kg_launch *l = r->launch->launch;
    static const struct kg_launch none = {{0, 0, 0}, {0, 0, 0}, 0};
    const struct kg_launch *use = l ? l : &none;
    const uint32_t block[3] = {use->block.x, use->block.y, use->block.z};
    const uint32_t grid[3] = {use->grid.x, use->grid.y, use->grid.z};
    for (unsigned i = 0; i < 3; i++) {
        r->tid[i] = r->ctaid[i] = r->ntid[i] = r->nctaid[i] = NO_SYMBOL;
        if (!l) {
            r->tid[i] = fixed_symbol(r, SYMBOL_TID, i, 0, 1023);
            r->ctaid[i] = fixed_symbol(r, SYMBOL_CTAID, i, 0, INT32_MAX - 1);
            r->ntid[i] = fixed_symbol(r, SYMBOL_NTID, i, 1, 1024);
            r->nctaid[i] = fixed_symbol(r, SYMBOL_NCTAID, i, 1, INT32_MAX);
            continue;
        }
        if (block[i] > 1)
            r->tid[i] = fixed_symbol(r, SYMBOL_TID, i, 0, (wide_int)block[i] - 1);
        if (grid[i] > 1)
            r->ctaid[i] = fixed_symbol(r, SYMBOL_CTAID, i, 0, (wide_int)grid[i] - 1);
    }
}

/* An answer all the same. */
static void know_nothing(struct reach *out, const char *why, uint32_t line)
{
    out->access_count = out->loop_count = 0;
    out->stray_writes = true;
    out->complete = false;
    reach_not_known(&out->stray, why, line);
    for (uint32_t i = 0; i < out->target_count; i++) {
        out->targets[i].read = out->targets[i].written = out->stray;
        out->targets[i].proof = PROOF_UNKNOWN;
    }
}

static kg_status analyse(struct reaching *r, const struct needs *needs, struct reach *out)
{
    struct origins origins;
    kg_status status = origins_make(needs, r->func, r->arena, &origins);
    if (status != KG_OK)
        return status;
    const struct graph *graph = r->graph = &origins.graphs[0];
    struct collecting *c = arena_alloc(r->arena, sizeof *c);
    out->targets = arena_alloc(&out->arena, TARGETS_MAX * sizeof *out->targets);
    if (!c || !out->targets)
        return KG_NO_MEMORY;
    c->r = r;
    c->out = out;
    c->needs = needs;
    struct uses uses = {r, c, &origins};
    origins_uses(&origins, use_origin, &uses);
    for (uint32_t at = 0; at < r->func->param_bytes; at++)
        if (r->pointer_words[at])
            (void)reach_target_of(c, at, NULL);
    status = graph->wild || graph->irreducible ? KG_LIMIT : KG_OK;
    make_axes(r);
    if (status == KG_OK)
        status = reach_flow(r);
    if (status == KG_OK)
        status = collect(c);
    if (status == KG_OK && out->contradicted)
        know_nothing(out, "the analysis contradicts what a thread does", 0);
    if (status != KG_LIMIT)
        return status;
    know_nothing(out, "code too twisted to follow", graph->wild_line);
    return KG_OK;
}

kg_status reach_of(const struct ptx_module *module, const struct ptx_func *entry,
                   const struct reach_launch *launch, struct reach *out)
{
    struct kg_arena arena = {0};
    struct needs needs;
    struct reach_launch own = *launch;
    struct reaching *r = arena_alloc(&arena, sizeof *r);
    *out = (struct reach){0};
    if (!entry->entry || !entry->defined ||
        (launch->params && launch->param_bytes < entry->param_bytes)) {
        arena_free(&arena);
        return KG_BAD_INPUT;
    }
    own.param_bytes = entry->param_bytes;
    const struct kg_launch *l = launch->launch;
    kg_status status = r ? needs_make(module, entry, &arena, &needs) : KG_NO_MEMORY;
    if (l && (!l->grid.x || !l->grid.y || !l->grid.z || !l->block.x || !l->block.y || !l->block.z))
        status = KG_BAD_INPUT;
    if (status == KG_OK) {
        r->arena = r->affine.arena = r->affine.mono_numbers.arena = r->symbol_keys.arena = &arena;
        r->module = module;
        r->func = entry;
        r->launch = &own;
        r->symbolic = !l;
        r->pointer_words = arena_alloc(&arena, entry->param_bytes + 8);
        status = r->pointer_words ? analyse(r, &needs, out) : KG_NO_MEMORY;
    }
    if (status == KG_OK)
        status = own_texts(out);
    arena_free(&arena);
    if (status != KG_OK)
        reach_free(out);
    return status;
}

kg_status reach_of_ptx(const char *ptx, const char *entry, const struct reach_launch *launch,
                       struct reach *out)
{
    struct ptx_module module;
    char error[128];
    *out = (struct reach){0};
    kg_status status = ptx_parse(ptx, strlen(ptx), &module, error, sizeof error);
    if (status != KG_OK)
        return status;
    const struct ptx_func *func = ptx_find_func(&module, entry);
    status =
        func && func->entry && func->defined ? reach_of(&module, func, launch, out) : KG_NOT_FOUND;
    ptx_module_free(&module);
    return status;
}

void reach_free(struct reach *reach)
{
    arena_free(&reach->arena);
    *reach = (struct reach){0};
}
