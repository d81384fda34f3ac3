/* Plans: see plan.h. Reach gives the intervals, roles and origins say where addresses come from:
 * what is reached through a loaded address is in no pointer's interval, so the memory that it is
 * loaded from is searched for addresses instead. */
#include "app/plan.h"

#include <stdlib.h>
#include <string.h>

#include "code/reach.h"
#include "code/roles.h"

static struct plan *plan_new(const struct kernel_model *model)
{
    struct plan *plan = calloc(1, sizeof *plan);
    for (uint32_t i = 0; plan && i < model->pointer_count && i < PLAN_POINTERS; i++) {
        const struct kernel_pointer *p = &model->pointers[i];
        plan->pointers[plan->pointer_count++] =
            (struct plan_pointer){.param = p->param,
                                  .offset = p->offset,
                                  .at = model->params[p->param].offset + p->offset};
    }
    return plan;
}

/* Nothing is known: everything may be written, and addresses may stand anywhere. */
static void know_nothing(struct plan *plan, const char *why, uint32_t line)
{
    for (uint32_t i = 0; i < plan->pointer_count; i++) {
        struct plan_pointer *p = &plan->pointers[i];
        *p = (struct plan_pointer){.param = p->param,
                                   .offset = p->offset,
                                   .at = p->at,
                                   .written = true,
                                   .scan = true,
                                   .why = why,
                                   .line = line};
    }
    memset(plan->globals_written, 1, sizeof plan->globals_written);
    plan->nested = plan->nested_written = plan->scan_globals = plan->scan_nested = true;
    plan->nested_line = line;
}

static struct plan_pointer *pointer_at(struct plan *plan, uint32_t at)
{
    for (uint32_t i = 0; i < plan->pointer_count; i++)
        if (plan->pointers[i].at == at)
            return &plan->pointers[i];
    return NULL;
}

/* ---- what is known -----------------------------------------------------------------------------
 */

static void take_target(struct plan_pointer *p, const struct reach_target *target)
{
    const struct reach_bytes *const both[] = {&target->read, &target->written};
    p->known = true;
    p->written = target->written.state != REACH_UNTOUCHED;
    for (unsigned i = 0; i < 2 && p->known; i++) {
        if (both[i]->state == REACH_UNTOUCHED)
            continue;
        if (both[i]->state == REACH_UNKNOWN) {
            p->known = false;
            p->why = both[i]->why;
            p->line = both[i]->line;
            continue;
        }
        bool first = p->low == p->high;
        p->low = first || both[i]->low < p->low ? both[i]->low : p->low;
        p->high = first || both[i]->high > p->high ? both[i]->high : p->high;
    }
}

static void take_reach(struct plan *plan, const struct kernel_model *model,
                       const struct reach *reach)
{
    for (uint32_t i = 0; i < plan->pointer_count; i++)
        plan->pointers[i].known = true; /* no target: no access */
    for (uint32_t t = 0; t < reach->target_count; t++) {
        const struct reach_target *target = &reach->targets[t];
        struct plan_pointer *p = target->at == REACH_NONE ? NULL : pointer_at(plan, target->at);
        if (p)
            take_target(p, target);
        for (uint32_t g = 0; target->at == REACH_NONE && g < model->global_count; g++)
            if (g < PLAN_GLOBALS && !strcmp(model->globals[g].name, target->name))
                plan->globals_written[g] = target->written.state != REACH_UNTOUCHED;
    }
    plan->nested = reach->stray.state != REACH_UNTOUCHED;
    plan->nested_line = reach->stray.line;
    plan->nested_written = reach->stray_writes;
}

static void not_known(struct plan_pointer *p, const char *why, uint32_t line)
{
    if (p->known) {
        p->known = false;
        p->why = why;
        p->line = line;
    }
}

/* One origin of an access that no interval explains: made by a function that is called, through an
 * address from memory, or by arithmetic that is not followed. */
static void take_origin(struct plan *plan, const struct roles *roles, uint16_t item,
                        const struct roles_access *access)
{
    bool loaded = item != ORIGIN_UNKNOWN && item & ORIGIN_LOADED;
    const struct origin *origin =
        item == ORIGIN_UNKNOWN ? NULL : &roles->origins.origins[item & ~ORIGIN_LOADED];
    if (!origin || (!origin->var && !pointer_at(plan, 8 * origin->word))) {
        know_nothing(plan, "an address that may come from anywhere", access->line);
    } else if (loaded && origin->var) {
        plan->scan_globals = true;
    } else if (!origin->var) {
        struct plan_pointer *p = pointer_at(plan, 8 * origin->word);
        if (loaded)
            p->scan = true;
        else
            not_known(p, access->func ? "a function that is called" : "an address not followed",
                      access->line);
        p->written |= access->written;
    }
    if (loaded && access->read && access->data.roles & (ROLE_POINTER | ROLE_UNKNOWN))
        plan->scan_nested = true;
}

/* Whether the intervals of targets hold all that this access touches. */
static bool explained(const struct reach *reach, const struct roles_access *access)
{
    bool listed = false;
    for (uint32_t i = 0; !access->func && i < reach->access_count; i++)
        if (reach->accesses[i].instr == access->instr) {
            listed = true;
            if (reach->accesses[i].target == REACH_NONE)
                return false;
        }
    return listed;
}

/* Where addresses may stand, and pointers whose intervals miss something. */
static void take_roles(struct plan *plan, const struct roles *roles, const struct reach *reach)
{
    for (uint32_t a = 0; a < roles->access_count; a++) {
        const struct roles_access *access = &roles->accesses[a];
        if (!(access->spaces & (SPACE_GLOBAL | SPACE_CONST)) || explained(reach, access))
            continue;
        const struct origin_set set = origins_set(&roles->origins, access->set);
        if (!set.count)
            know_nothing(plan, "an address of no parameter", access->line);
        for (uint32_t i = 0; i < set.count; i++)
            take_origin(plan, roles, set.items[i], access);
    }
}

/* A scalar that decides neither an address nor a branch makes no difference to what is touched. */
static void take_scalars(struct plan *plan, const struct roles *roles)
{
    for (uint32_t i = 0; i < roles->piece_count; i++) {
        const struct roles_piece *piece = &roles->pieces[i];
        if (!piece->pinned && piece->offset + piece->size <= plan->arg_count)
            memset(plan->matters + piece->offset, 0, piece->size);
    }
}

/* ---- making ------------------------------------------------------------------------------------
 */

static const char *analyse(struct plan *plan, const struct kernel_model *model,
                           const struct ptx_module *module, const struct ptx_func *func)
{
    struct kg_arena arena = {0};
    struct roles roles;
    struct reach reach;
    const struct reach_launch launch = {
        .launch = &plan->launch, .params = plan->args, .param_bytes = plan->arg_count};
    if (reach_of(module, func, &launch, &reach) != KG_OK)
        return "its code is too large or too twisted to follow";
    take_reach(plan, model, &reach);
    const char *why = NULL;
    if (roles_make(module, func, &arena, &roles) == KG_OK) {
        take_scalars(plan, &roles);
        if (plan->nested)
            take_roles(plan, &roles, &reach);
    } else if (plan->nested) {
        why = "its code is too large or too twisted to follow";
    }
    reach_free(&reach);
    arena_free(&arena);
    return why;
}

static bool copy_arguments(struct plan *plan, const unsigned char *args, uint32_t size)
{
    plan->args = malloc(size + 1);
    plan->matters = malloc(size + 1);
    if (!plan->args || !plan->matters)
        return false;
    memcpy(plan->args, args, size);
    memset(plan->matters, 0xff, size);
    for (uint32_t i = 0; i < plan->pointer_count; i++)
        if (plan->pointers[i].at + 8 <= size)
            memset(plan->matters + plan->pointers[i].at, 0, 8);
    plan->arg_count = size;
    return true;
}

struct plan *plan_make(const struct kernel_model *model, const struct kg_bytes *ptx,
                       const struct kg_launch *launch, const unsigned char *args, uint32_t size)
{
    struct ptx_module module = {0};
    struct kg_bytes text = {0};
    char error[128];
    const char *why = "its PTX could not be read";
    struct plan *plan = plan_new(model);
    if (!plan)
        return NULL;
    plan->launch = *launch;
    if (!copy_arguments(plan, args, size)) {
        plan_free(plan);
        return NULL;
    }
    if (ptx && ptx->data && ptx_slice(ptx, model->entry, &text) == KG_OK &&
        ptx_parse((const char *)text.data, text.size, &module, error, sizeof error) == KG_OK) {
        const struct ptx_func *func = ptx_find_func(&module, model->entry);
        if (func && func->entry && func->defined)
            why = analyse(plan, model, &module, func);
    }
    if (why)
        know_nothing(plan, why, 0);
    ptx_module_free(&module);
    bytes_free(&text);
    return plan;
}

struct plan *plan_make_any(const struct kernel_model *model, const char *why)
{
    struct plan *plan = plan_new(model);
    if (plan) {
        plan->any = true;
        know_nothing(plan, why, 0);
    }
    return plan;
}

/* ---- using -------------------------------------------------------------------------------------
 */

bool plan_fits(const struct plan *plan, const struct kg_launch *launch, const unsigned char *args,
               uint32_t size)
{
    if (plan->any)
        return true;
    if (memcmp(&plan->launch, launch, sizeof *launch) || size != plan->arg_count)
        return false;
    for (uint32_t i = 0; i < size; i++)
        if (plan->matters[i] && plan->args[i] != args[i])
            return false;
    return true;
}

bool plan_contains(const struct plan *plan, const struct plan *exact)
{
    for (uint32_t i = 0; i < plan->pointer_count; i++) {
        const struct plan_pointer *p = &plan->pointers[i], *e = &exact->pointers[i];
        if (p->known && (!e->known || (e->low < e->high && (e->low < p->low || e->high > p->high))))
            return false;
        if ((e->scan && !p->scan) || (e->written && !p->written))
            return false;
    }
    return exact->nested <= plan->nested && exact->scan_globals <= plan->scan_globals &&
           exact->scan_nested <= plan->scan_nested &&
           exact->nested_written <= plan->nested_written &&
           !memcmp(exact->globals_written, plan->globals_written, sizeof plan->globals_written);
}

void plan_free(struct plan *plan)
{
    if (!plan)
        return;
    free(plan->args);
    free(plan->matters);
    free(plan);
}
