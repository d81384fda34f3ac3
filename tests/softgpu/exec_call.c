/* Calls of .func and the few functions that the device runtime brings: vprintf and __assertfail. */
#include "exec_core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STACK_SLOTS = 1 << 16, TEXT = 4096 };

static uint32_t local_base(const struct lane *lane)
{
    return lane->depth ? lane->frames[lane->depth - 1].local_base : 0;
}

/* The column of a lane's current frame. */
static union slot *column_of(const struct lane *lane)
{
    const struct warp *warp = lane->warp;
    union slot *frame = lane->depth
                            ? warp->stack + (size_t)lane->frames[lane->depth - 1].slot_base * WARP
                            : warp->base;
    return frame + lane->index % WARP;
}

static uint64_t fixed_value(const struct lane *lane, const struct fixup *fix)
{
    if (fix->special)
        return special_value(lane, fix->special, fix->component);
    return fix->value + local_base(lane) + (fix->component ? 0 : WINDOW_BASE(WINDOW_LOCAL));
}

/* The values that depend on the block alone. */
static bool of_block(const struct fixup *fix)
{
    return fix->special == PTX_SR_ctaid || fix->special == PTX_SR_clusterid ||
           fix->special == PTX_SR_smid;
}

void warp_begin(struct warp *warp)
{
    const struct exec_func *func = warp->block->worker->launch->kernel->func;
    union slot *R = warp->base;
    bool again = warp->block->used; /* then constants and places of threads are there already */
    memset(R, 0, (size_t)(1 + func->ptx->reg_count) * WARP * sizeof *R);
    for (uint32_t s = 1 + func->ptx->reg_count; !again && s < func->slot_count; s++)
        for (uint32_t i = 0; i < WARP; i++)
            R[(size_t)s * WARP + i] = func->frame[s];
    for (uint32_t i = 0; i < warp->count; i++) {
        struct lane *lane = &warp->lanes[i];
        lane->func = func;
        lane->pc = func->code;
        lane->R = R + i;
        lane->depth = lane->stack_used = 0;
    }
    for (uint32_t k = 0; k < func->fixup_count; k++) {
        const struct fixup *fix = &func->fixups[k];
        if (again && !of_block(fix))
            continue;
        for (uint32_t i = 0; i < warp->count; i++)
            R[fix->slot + i].u64 = fixed_value(&warp->lanes[i], fix);
    }
}

/* Room for that many slots of callees. The warp's other lanes keep their columns. */
static bool stack_grow(struct warp *warp, uint32_t slots)
{
    if (slots <= warp->stack_room)
        return true;
    size_t size = (size_t)slots * 2 * WARP * sizeof *warp->stack;
    union slot *stack = aligned_alloc(64, size);
    if (!stack)
        return false;
    memset(stack, 0, size);
    if (warp->stack_room)
        memcpy(stack, warp->stack, (size_t)warp->stack_room * WARP * sizeof *stack);
    free(warp->stack);
    warp->stack = stack;
    warp->stack_room = slots * 2;
    for (uint32_t i = 0; i < warp->count; i++)
        warp->lanes[i].R = column_of(&warp->lanes[i]);
    return true;
}

static bool frame_enter(struct lane *lane, const struct exec_func *func, const struct code *back,
                        const struct call_site *site)
{
    uint32_t base = local_base(lane) + lane->func->local_bytes;
    uint32_t slots = lane->stack_used + func->slot_count;
    if (!lane->frames)
        lane->frames = calloc(MAX_DEPTH, sizeof *lane->frames);
    if (!lane->frames || lane->depth == MAX_DEPTH || slots > STACK_SLOTS ||
        base + func->local_bytes + lane->allocated > lane->block->worker->launch->local_bytes)
        return lane_fault(lane, EXEC_ILLEGAL_ADDRESS, "stack overflow in a call of %s",
                          func->ptx->name);
    if (!stack_grow(lane->warp, slots))
        return lane_fault(lane, EXEC_ILLEGAL_ADDRESS, "out of memory in a call");
    lane->frames[lane->depth++] =
        (struct frame){func, back, site, lane->stack_used, base, lane->allocated};
    lane->stack_used = slots;
    lane->func = func;
    lane->R = column_of(lane);
    lane->pc = func->code;
    for (uint32_t s = 0; s < func->slot_count; s++)
        lane->R[(size_t)s * WARP] = func->frame[s];
    for (uint32_t k = 0; k < func->fixup_count; k++)
        lane->R[func->fixups[k].slot].u64 = fixed_value(lane, &func->fixups[k]);
    return true;
}

/* ---- printf and assert ----------------------------------------------------------------------- */

/* A text in device memory, cut to size. */
static bool text_at(struct lane *lane, uint64_t address, char *out, size_t size)
{
    for (size_t i = 0; i + 1 < size; i++) {
        const char *c = memory_at(lane, address + i, 1, false);
        if (!c)
            return false;
        out[i] = *c;
        if (!*c)
            return true;
    }
    out[size - 1] = 0;
    return true;
}

struct printing {
    char text[TEXT];
    size_t used;
    uint64_t values, offset; /* the argument buffer */
};

static bool next_value(struct lane *lane, struct printing *p, unsigned size, union slot *out)
{
    p->offset = (p->offset + size - 1) & ~(uint64_t)(size - 1);
    const void *at = memory_at(lane, p->values + p->offset, size, false);
    if (!at)
        return false;
    out->u64 = 0;
    memcpy(out, at, size);
    p->offset += size;
    return true;
}

/* One conversion, `spec` being its text from the % to the letter. */
static bool print_one(struct lane *lane, struct printing *p, const char *spec)
{
    char letter = spec[strlen(spec) - 1], copy[48], text[512];
    union slot value;
    bool wide = strstr(spec, "ll") || strchr(spec, 'l') || strchr(spec, 'z') || strchr(spec, 'j');
    char *to = p->text + p->used;
    size_t room = sizeof p->text - p->used;
    int length = 0;
    if (strchr(spec, '*'))
        return lane_fault(lane, EXEC_UNSUPPORTED, "printf with %s", spec);
    if (strchr("diouxXc", letter)) {
        if (!next_value(lane, p, wide ? 8 : 4, &value))
            return false;
        size_t flags = strspn(spec, "%-+ #0123456789.");
        snprintf(copy, sizeof copy, "%.*s%s%c", (int)(flags > 30 ? 30 : flags), spec,
                 letter == 'c' ? "" : "ll", letter);
        if (letter == 'c')
            length = snprintf(to, room, copy, value.s32);
        else if (wide)
            length = snprintf(to, room, copy, value.s64);
        else
            length = snprintf(to, room, copy,
                              letter == 'd' || letter == 'i' ? (long long)value.s32
                                                             : (long long)value.u32);
    } else if (strchr("eEfFgGaA", letter)) {
        if (!next_value(lane, p, 8, &value))
            return false;
        length = snprintf(to, room, spec, value.f64);
    } else if (letter == 's' || letter == 'p') {
        if (!next_value(lane, p, 8, &value))
            return false;
        if (letter == 'p')
            length = snprintf(to, room, "0x%llx", (unsigned long long)value.u64);
        else if (!text_at(lane, value.u64, text, sizeof text))
            return false;
        else
            length = snprintf(to, room, spec, text);
    }
    p->used += length < 0 ? 0 : (size_t)length < room ? (size_t)length : room - 1;
    return true;
}

/* count: of the values printed, which is what vprintf returns. */
static bool print(struct lane *lane, uint64_t format_address, uint64_t values, uint64_t *count)
{
    char format[TEXT], spec[32];
    struct printing p = {.values = values};
    if (!text_at(lane, format_address, format, sizeof format))
        return false;
    for (const char *at = format; *at && p.used + 1 < sizeof p.text;) {
        if (*at != '%' || at[1] == '%') {
            p.text[p.used++] = *at;
            at += *at == '%' ? 2 : 1;
            continue;
        }
        size_t length = 1 + strcspn(at + 1, "diouxXcseEfFgGaApn%");
        length += at[length] != 0;
        snprintf(spec, sizeof spec, "%.*s", (int)length, at);
        if (length < sizeof spec && !print_one(lane, &p, spec))
            return false;
        ++*count;
        at += length;
    }
    fwrite(p.text, 1, p.used, stdout); /* one call: lines of threads do not mix */
    return true;
}

/* The i-th argument of a call site as a number. */
static uint64_t argument(const struct lane *lane, const struct call_site *site, uint32_t i)
{
    const struct call_arg *arg = &site->args[i];
    uint64_t value = 0;
    if (!arg->in_memory)
        return lane->R[arg->slot].u64;
    memcpy(&value, lane->local + local_base(lane) + arg->offset, arg->size < 8 ? arg->size : 8);
    return value;
}

static void answer(struct lane *lane, const struct call_site *site, uint64_t value)
{
    if (!site->result_count)
        return;
    const struct call_arg *result = &site->results[0];
    if (!result->in_memory)
        lane->R[result->slot].u64 = value;
    else
        memcpy(lane->local + local_base(lane) + result->offset, &value,
               result->size < 8 ? result->size : 8);
}

static bool call_builtin(struct lane *lane, const struct call_site *site)
{
    uint64_t count = 0;
    switch (site->builtin) {
    case BUILTIN_PRINTF:
        if (!print(lane, argument(lane, site, 0), argument(lane, site, 1), &count))
            return false;
        answer(lane, site, count);
        return true;
    case BUILTIN_MALLOC:
        answer(lane, site, heap_take(lane, argument(lane, site, 0)));
        return true;
    case BUILTIN_FREE:
        return heap_give(lane, argument(lane, site, 0));
    default:
        break;
    }
    char condition[200] = "", file[200] = "";
    if (site->arg_count >= 3 &&
        text_at(lane, argument(lane, site, 0), condition, sizeof condition) &&
        text_at(lane, argument(lane, site, 1), file, sizeof file))
        lane_fault(lane, EXEC_ASSERT, "assertion %s failed at %s:%u", condition, file,
                   (unsigned)argument(lane, site, 2));
    return false;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static const struct exec_func *callee_of(struct lane *lane, const struct call_site *site)
{
    const struct exec_module *module = lane->func->module;
    if (!site->indirect)
        return site->callee;
    uint64_t address = lane->R[site->slot].u64, index = address & (WINDOW_BASE(1) - 1);
    if (address >> 48 != WINDOW_FUNCTION || index >= module->func_count ||
        !module->funcs[index].code || module->funcs[index].ptx->entry) {
        lane_fault(lane, EXEC_ILLEGAL_ADDRESS, "call of 0x%llx, which is no function",
                   (unsigned long long)address);
        return NULL;
    }
    return &module->funcs[index];
}

bool lane_call(struct lane *lane, const struct code *c)
{
    const struct call_site *site = c->call;
    if (site->builtin)
        return call_builtin(lane, site);
    const struct code *back = lane->pc;
    lane->pc = c; /* so that a fault names the call */
    const struct exec_func *func = callee_of(lane, site);
    if (!func || !func->code)
        return func ? lane_fault(lane, EXEC_UNSUPPORTED, "call of %s", func->ptx->name) : false;
    if (site->arg_count != func->ptx->param_count)
        return lane_fault(lane, EXEC_UNSUPPORTED, "call of %s with %u arguments", func->ptx->name,
                          site->arg_count);
    unsigned char *from = lane->local + local_base(lane);
    bool from_entry = !lane->depth;
    uint32_t caller = from_entry ? 0 : lane->frames[lane->depth - 1].slot_base;
    if (!frame_enter(lane, func, back, site))
        return false;
    const union slot *R = (from_entry ? lane->warp->base : lane->warp->stack) +
                          (size_t)caller * WARP + lane->index % WARP;
    unsigned char *to = lane->local + local_base(lane);
    for (uint32_t i = 0; i < site->arg_count; i++) {
        const struct call_arg *arg = &site->args[i];
        const struct ptx_var *param = func->ptx->params[i];
        size_t size = param->size < arg->size ? param->size : arg->size;
        const void *value = arg->in_memory ? (const void *)(from + arg->offset) : &R[arg->slot];
        if (param->is_register)
            memcpy(&lane->R[(size_t)(1 + param->reg) * WARP], value, size);
        else
            memcpy(to + func->param_offset[i], value, size);
    }
    return true;
}

void lane_return(struct lane *lane)
{
    const struct frame frame = lane->frames[--lane->depth];
    const struct exec_func *func = frame.func;
    const union slot *R = lane->R;
    const unsigned char *from = lane->local + frame.local_base;
    unsigned char *to = lane->local + local_base(lane);
    lane->stack_used = frame.slot_base;
    lane->allocated = frame.allocated;
    lane->R = column_of(lane);
    lane->func = lane->depth ? lane->frames[lane->depth - 1].func
                             : lane->block->worker->launch->kernel->func;
    for (uint32_t i = 0; i < frame.site->result_count && i < func->ptx->result_count; i++) {
        const struct call_arg *arg = &frame.site->results[i];
        const struct ptx_var *result = func->ptx->results[i];
        size_t size = result->size < arg->size ? result->size : arg->size;
        const void *value = result->is_register ? (const void *)&R[(size_t)(1 + result->reg) * WARP]
                                                : from + func->result_offset[i];
        memcpy(arg->in_memory ? (void *)(to + arg->offset) : &lane->R[arg->slot], value, size);
    }
    lane->pc = frame.back;
}
