/* The instrumenter's walk: takes an entry and what it needs out of a module, and writes their text
 * again with helpers before it and rewritten instructions in it. Everything else is copied byte for
 * byte. All names that are added begin with kgi_ or %kgi_; a text that has such names is refused.
 */
#include "graph.h"
#include "instrument_parts.h"

#include <stdarg.h>
#include <stdlib.h>

#include "instrument_device.inc"

enum { THREAD_BYTES = 64, CONSTANT_ROOM = 65536 - 4096 };

const char *const instrument_kinds[] = {
    "?",
    "outside all that it may touch",
    "misaligned",
    "without permission",
    "more iterations than its budget",
    "race: read after an unordered write",
    "race: write after an unordered read",
    "race: write after an unordered write",
};

_Static_assert(sizeof(struct instrument_state) == 88 + 8 * 48,
               "as instrument_device.inc declares it");
_Static_assert(sizeof(struct instrument_range) == 48, "as in instrument_device.cu");
_Static_assert(sizeof(struct instrument_report) == 56, "as in instrument_device.cu");

void instrument_digest(struct kg_id *out)
{
    struct kg_hash hash;
    hash_begin(&hash);
    hash_text(&hash, instrument_base);
    hash_text(&hash, instrument_races);
    hash_end(&hash, out);
}

/* ---- shared with the other files -------------------------------------------------------------
 */

void refuse(struct rewriting *work, const struct ptx_instr *instr, const char *format, ...)
{
    if (work->status != KG_OK)
        return;
    work->status = KG_NOT_ELIGIBLE;
    char what[200];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    if (instr)
        snprintf(work->out->reason, sizeof work->out->reason, "line %u: %s", instr->place.line,
                 what);
    else
        snprintf(work->out->reason, sizeof work->out->reason, "%s", what);
}

bool wants(const struct rewriting *work, unsigned what)
{
    return work->options->what & what;
}

const char *reg_text(struct rewriting *work, uint32_t reg)
{
    char name[512];
    const char *text =
        arena_format(&work->arena, "%s", ptx_reg_name(&work->func->regs[reg], name, sizeof name));
    if (!text)
        work->status = KG_NO_MEMORY;
    return text ? text : "";
}

const char *guard_of(struct rewriting *work, const struct ptx_instr *instr)
{
    if (instr->guard == PTX_NO_REG)
        return "";
    const char *text = arena_format(&work->arena, "@%s%s ", instr->guard_negated ? "!" : "",
                                    reg_text(work, instr->guard));
    if (!text)
        work->status = KG_NO_MEMORY;
    return text ? text : "";
}

const char *bare_text(const struct rewriting *work, const struct ptx_instr *instr, int *length)
{
    const char *at = work->source + instr->place.begin, *end = work->source + instr->place.end;
    if (instr->guard != PTX_NO_REG) {
        at += strcspn(at, "%$_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
        at += strcspn(at, " \t\r\n");
        at += strspn(at, " \t\r\n");
    }
    *length = (int)(end - at);
    return at;
}

/* ---- a function ------------------------------------------------------------------------------
 */

static void copy_to(struct rewriting *work, uint32_t until)
{
    if (until < work->cursor) {
        refuse(work, NULL, "statements out of order");
        return;
    }
    fwrite(work->source + work->cursor, 1, until - work->cursor, work->to);
    work->cursor = until;
}

/* The smallest and largest address of variables in a space, as running minimum and maximum. */
static void write_bounds(struct rewriting *work, uint8_t space, struct ptx_var *const *vars,
                         uint32_t count)
{
    const char *low = space == PTX_SPACE_local ? "%kgi_vlo" : "%kgi_slo";
    const char *high = space == PTX_SPACE_local ? "%kgi_vhi" : "%kgi_shi";
    for (uint32_t i = 0; i < count; i++) {
        const struct ptx_var *var = vars[i];
        if (var->space != space)
            continue;
        fprintf(work->to, " mov.u64 %%kgi_v, %s; min.u64 %s, %s, %%kgi_v;", var->name, low, low);
        if (var->unsized)
            fputs(" mov.u32 %kgi_w, %dynamic_smem_size; cvt.u64.u32 %kgi_x, %kgi_w;"
                  " add.s64 %kgi_v, %kgi_v, %kgi_x;",
                  work->to);
        else
            fprintf(work->to, " add.s64 %%kgi_v, %%kgi_v, %llu;", (unsigned long long)var->size);
        fprintf(work->to, " max.u64 %s, %s, %%kgi_v;\n", high, high);
    }
}

/* The variables of an entry's own body are all declared in its outermost scope. */
static bool nameable(const struct rewriting *work, const struct ptx_func *func, uint32_t begin)
{
    for (uint32_t i = 0; i < func->var_count; i++) {
        const struct ptx_var *var = func->vars[i];
        bool own = var->space == PTX_SPACE_local ||
                   (var->space == PTX_SPACE_shared && func == work->entry);
        if (var->space != PTX_SPACE_local && var->space != PTX_SPACE_shared)
            continue;
        if (!own || var->scope || var->place.begin > begin)
            return false;
    }
    return true;
}

static void write_entry_bounds(struct rewriting *work)
{
    fputs(" mov.u64 %kgi_vlo, 0xffffffffffffffff; mov.u64 %kgi_vhi, 0;\n"
          " mov.u64 %kgi_slo, 0xffffffff; mov.u64 %kgi_shi, 0;\n",
          work->to);
    write_bounds(work, PTX_SPACE_local, work->func->vars, work->func->var_count);
    write_bounds(work, PTX_SPACE_shared, work->func->vars, work->func->var_count);
    write_bounds(work, PTX_SPACE_shared, (struct ptx_var *const *)work->needs.vars,
                 work->needs.var_count);
    fputs(" st.u64 [%kgi_t+32], %kgi_vlo; st.u64 [%kgi_t+40], %kgi_vhi;\n"
          " cvt.u32.u64 %kgi_w, %kgi_slo; st.u32 [%kgi_t+48], %kgi_w;\n"
          " cvt.u32.u64 %kgi_w, %kgi_shi; st.u32 [%kgi_t+52], %kgi_w;\n",
          work->to);
}

static void write_registers(struct rewriting *work)
{
    fputs("\n .reg .b64 %kgi_t; .reg .b32 %kgi_n, %kgi_l; .reg .pred %kgi_q;"
          " .reg .b64 %kgi_lo, %kgi_hi;\n",
          work->to);
    if (work->func == work->entry)
        fprintf(work->to, " .local .align 8 .b8 kgi_thread[%d];\n", THREAD_BYTES);
}

/* Before the first instruction or label. */
static void write_start(struct rewriting *work)
{
    bool check = wants(work, INSTRUMENT_CHECK);
    FILE *to = work->to;
    if (check && !nameable(work, work->func, work->cursor))
        refuse(work, NULL, "%.100s has variables that cannot be named at its start",
               work->func->name);
    fputs("{ .reg .b64 %kgi_v, %kgi_x, %kgi_vlo, %kgi_vhi, %kgi_slo, %kgi_shi; .reg .b32 %kgi_w;\n",
          to);
    if (work->func == work->entry) {
        fputs(" mov.u64 %kgi_t, kgi_thread; cvta.local.u64 %kgi_t, %kgi_t;\n"
              " call kgi_begin, (%kgi_t);\n",
              to);
        if (check)
            write_entry_bounds(work);
    } else {
        fputs(" ld.param.b64 %kgi_t, [kgi_frame];\n", to);
        if (check) {
            fputs(" ld.u64 %kgi_lo, [%kgi_t+32]; ld.u64 %kgi_hi, [%kgi_t+40];\n"
                  " mov.u64 %kgi_vlo, %kgi_lo; mov.u64 %kgi_vhi, %kgi_hi;\n",
                  to);
            write_bounds(work, PTX_SPACE_local, work->func->vars, work->func->var_count);
            fputs(" st.u64 [%kgi_t+32], %kgi_vlo; st.u64 [%kgi_t+40], %kgi_vhi;\n", to);
        }
    }
    if (check)
        fputs(" ld.u32 %kgi_n, [%kgi_t];\n", to);
    fputs("}\n", to);
}

/* Behind the last statement: a way out for falling off the end, and the end of a spent thread. */
static void write_end(struct rewriting *work)
{
    if (!wants(work, INSTRUMENT_CHECK))
        return;
    if (work->func != work->entry)
        fputs(" st.u32 [%kgi_t], %kgi_n; st.u64 [%kgi_t+32], %kgi_lo;"
              " st.u64 [%kgi_t+40], %kgi_hi;\n",
              work->to);
    else
        fputs(" call kgi_used, (%kgi_n);\n", work->to);
    fputs(" ret;\nkgi_end:\n call kgi_spent, (%kgi_l);\n exit;\n", work->to);
}

/* Before the first instruction, and before labels there that something branches to. */
static uint32_t start_of(const struct ptx_func *func)
{
    uint32_t start = func->instr_count ? func->instrs[0].place.begin : func->body_end - 1;
    bool back = !func->instr_count;
    for (uint32_t i = 0; i < func->instr_count && !back; i++)
        back = ptx_effects(&func->instrs[i]) & (PTX_BRANCH | PTX_WORST) &&
               goes_back(func, &func->instrs[i], 0);
    for (uint32_t i = 0; i < func->label_count && back; i++)
        if (func->labels[i].place.begin < start)
            start = func->labels[i].place.begin;
    return start;
}

static void write_body(struct rewriting *work)
{
    const struct ptx_func *func = work->func;
    if (func == work->entry && work->options->block.x && !func->maxntid[0] && !func->reqntid[0]) {
        const struct kg_dim *block = &work->options->block;
        copy_to(work, func->body_begin);
        fprintf(work->to, " .maxntid %u, %u, %u\n", block->x, block->y, block->z);
    }
    copy_to(work, func->body_begin + 1);
    write_registers(work);
    copy_to(work, start_of(func));
    write_start(work);
    for (uint32_t i = 0; i < func->instr_count && work->status == KG_OK; i++) {
        const struct ptx_instr *instr = &func->instrs[i];
        copy_to(work, instr->place.begin);
        if (rewrite_order(work, instr, i) || rewrite_access(work, instr))
            work->cursor = instr->place.end;
    }
    copy_to(work, func->body_end - 1);
    write_end(work);
    copy_to(work, func->body_end);
}

/* ---- functions' heads ------------------------------------------------------------------------
 */

/* Behind white space and comments. */
static uint32_t skip_blank(const char *text, uint32_t at, uint32_t end)
{
    while (at < end) {
        if (text[at] == '/' && at + 1 < end && text[at + 1] == '/') {
            while (at < end && text[at] != '\n')
                at++;
        } else if (text[at] == '/' && at + 1 < end && text[at + 1] == '*') {
            for (at += 2; at + 1 < end && !(text[at] == '*' && text[at + 1] == '/'); at++)
                continue;
            at += 2;
        } else if (text[at] == ' ' || (text[at] >= '\t' && text[at] <= '\r')) {
            at++;
        } else {
            break;
        }
    }
    return at < end ? at : end;
}

/* Of a .func: adds the parameter for the thread's record. `end`: of its head. */
static void write_head(struct rewriting *work, const struct ptx_func *func, uint32_t end)
{
    const char *text = work->source;
    size_t length = strlen(func->name);
    uint32_t at = work->cursor, depth = 0, close = 0;
    for (; at < end; at = skip_blank(text, at + 1, end)) { /* the name, outside of parentheses */
        depth += text[at] == '(';
        depth -= text[at] == ')';
        if (!depth && at > work->cursor && end - at > length &&
            !memcmp(text + at, func->name, length) && strchr(" \t\r\n(/;{", text[at + length]) &&
            strchr(" \t\r\n)/", text[at - 1]))
            break;
    }
    if (at >= end) {
        refuse(work, NULL, "the head of %.100s is not understood", func->name);
        return;
    }
    uint32_t open = skip_blank(text, at + (uint32_t)length, end);
    if (open >= end || text[open] != '(') {
        copy_to(work, at + (uint32_t)length);
        fputs(" (.param .b64 kgi_frame)", work->to);
        return;
    }
    for (close = open; close < end && text[close] != ')';)
        close = skip_blank(text, close + 1, end);
    copy_to(work, close);
    fputs(func->param_count ? ", .param .b64 kgi_frame" : ".param .b64 kgi_frame", work->to);
}

/* ---- the module ------------------------------------------------------------------------------
 */

static bool is_needed(const struct rewriting *work, const struct ptx_item *item)
{
    if (item->kind == PTX_ITEM_LINE) /* no call goes by an alias, which would have no body */
        return strncmp(item->line, ".section", 8) != 0 && strncmp(item->line, ".alias", 6) != 0;
    return needs_item(&work->needs, item);
}

static void write_item(struct rewriting *work, const struct ptx_item *item, uint32_t end)
{
    work->cursor = item->place.begin;
    work->func = item->kind == PTX_ITEM_VAR || item->kind == PTX_ITEM_LINE ? NULL : item->func;
    if (item->kind == PTX_ITEM_DEFINE) {
        if (!item->func->entry)
            write_head(work, item->func, item->func->body_begin);
        write_body(work);
    } else {
        if (item->kind == PTX_ITEM_DECLARE && !item->func->entry && item->func->defined)
            write_head(work, item->func, end);
        copy_to(work, end);
    }
    fputc('\n', work->to);
}

static void write_items(struct rewriting *work)
{
    const struct ptx_module *module = work->module;
    uint32_t whole = (uint32_t)strlen(work->source);
    for (uint32_t i = 0, next, end; i < module->item_count && work->status == KG_OK; i = next) {
        bool needed = false;
        next = statement_end(module, i, whole, &end);
        for (uint32_t j = i; j < next && !needed; j++)
            needed = is_needed(work, &module->items[j]);
        if (needed)
            write_item(work, &module->items[i], end);
    }
}

/* A table of the constant variables' addresses, as the code sees them. */
static void write_consts(struct rewriting *work)
{
    struct instrumented *out = work->out;
    uint64_t bytes = 0;
    out->consts = arena_alloc(&out->arena, (work->needs.var_count + 1) * sizeof *out->consts);
    out->const_sizes =
        arena_alloc(&out->arena, (work->needs.var_count + 1) * sizeof *out->const_sizes);
    if (!out->consts || !out->const_sizes) {
        work->status = KG_NO_MEMORY;
        return;
    }
    for (uint32_t i = 0; i < work->needs.var_count; i++) {
        const struct ptx_var *var = work->needs.vars[i];
        if (var->space != PTX_SPACE_const)
            continue;
        out->const_sizes[out->const_count] = var->size;
        const char *name = arena_copy(&out->arena, var->name, strlen(var->name));
        if (!name) {
            work->status = KG_NO_MEMORY;
            return;
        }
        out->consts[out->const_count++] = name;
        bytes += var->size;
    }
    if (bytes > CONSTANT_ROOM)
        refuse(work, NULL, "constant memory is full");
    if (!out->const_count)
        return;
    fprintf(work->to, ".visible .global .align 8 .u64 kgi_consts[%u] = {", out->const_count);
    for (uint32_t i = 0; i < out->const_count; i++)
        fprintf(work->to, "%s%s", i ? ", " : "", out->consts[i]);
    fputs("};\n", work->to);
}

/* A stack has an end, which no count of calls tells. */
static void refuse_recursion(struct rewriting *work)
{
    struct graph_calls calls;
    kg_status status = graph_calls_make(&work->needs, &work->arena, &calls);
    if (status != KG_OK) {
        work->status = status;
        return;
    }
    for (uint32_t i = 0; i < work->needs.func_count; i++)
        if (calls.recursive[i])
            refuse(work, NULL, "recursion: its stack has no known end");
}

/* Functions that several entries share have one text: it is this entry's. */
static bool accepted(struct rewriting *work)
{
    if (work->module->address_size != 64)
        refuse(work, NULL, "addresses of %u bits", work->module->address_size);
    if (strstr(work->source, "kgi_"))
        refuse(work, NULL, "it has names that begin with kgi_");
    if (work->needs.indirect)
        refuse(work, NULL, "indirect calls");
    for (uint32_t i = 1; i < work->needs.func_count; i++)
        if (work->needs.funcs[i]->entry)
            refuse(work, NULL, "it names another entry");
    if (wants(work, INSTRUMENT_CHECK) && work->status == KG_OK)
        refuse_recursion(work);
    return work->status == KG_OK;
}

static uint8_t granule(unsigned smallest)
{
    return smallest >= 4 ? 4 : smallest >= 2 ? 2 : 1;
}

/* The letter of "sm_90a". */
static const char *variant_of(const char *target)
{
    const char *at = target + strcspn(target, "0123456789");
    at += strspn(at, "0123456789");
    return *at == 'a' ? "a" : *at == 'f' ? "f" : "";
}

static kg_status write_module(struct rewriting *work)
{
    const struct ptx_module *module = work->module;
    struct instrumented *out = work->out;
    char *text = NULL;
    size_t size = 0;
    if (!accepted(work))
        return work->status;
    work->to = open_memstream(&text, &size);
    if (!work->to)
        return KG_NO_MEMORY;
    bool old =
        module->version_major < 6 || (module->version_major == 6 && module->version_minor < 2);
    fprintf(work->to, ".version %u.%u\n.target sm_%u%s\n.address_size 64\n\n%s",
            old ? 6 : module->version_major, old ? 2 : module->version_minor, module->sm,
            variant_of(module->target), instrument_base);
    if (wants(work, INSTRUMENT_RACES))
        fputs(instrument_races, work->to);
    work->smallest_global = work->smallest_shared = 4;
    write_items(work);
    write_consts(work);
    if (fclose(work->to) && work->status == KG_OK)
        work->status = KG_NO_MEMORY;
    out->text = (struct kg_bytes){(unsigned char *)text, size};
    out->global_granule = granule(work->smallest_global);
    out->shared_granule = granule(work->smallest_shared);
    return work->status;
}

kg_status ptx_instrument(const char *ptx, const char *entry,
                         const struct instrument_options *options, struct instrumented *out)
{
    char error[256];
    struct ptx_module module;
    struct rewriting work = {
        .source = ptx, .module = &module, .options = options, .out = out, .status = KG_OK};
    *out = (struct instrumented){.what = options->what};
    kg_status status = ptx_parse(ptx, strlen(ptx), &module, error, sizeof error);
    if (status != KG_OK) {
        snprintf(out->reason, sizeof out->reason, "PTX not understood: %.200s", error);
        return status;
    }
    const struct ptx_func *func = ptx_find_func(&module, entry);
    work.entry = func;
    status = func && func->entry && func->defined
                 ? needs_make(&module, func, &work.arena, &work.needs)
                 : KG_NOT_FOUND;
    if (status == KG_OK)
        status = write_module(&work);
    if (status != KG_OK)
        bytes_free(&out->text);
    arena_free(&work.arena);
    ptx_module_free(&module);
    return status;
}

void instrumented_free(struct instrumented *instrumented)
{
    bytes_free(&instrumented->text);
    arena_free(&instrumented->arena);
    *instrumented = (struct instrumented){0};
}
