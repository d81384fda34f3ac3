/* Affine forms as text for people. */
#include "reach_parts.h"

#include <stdio.h>

struct text {
    struct reaching *r;
    char out[512];
    size_t used;
};

static void put(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct text *text, const char *format, ...)
{
    va_list args;
    size_t room = sizeof text->out - text->used;
    va_start(args, format);
    int length = vsnprintf(text->out + text->used, room, format, args);
    va_end(args);
    if (length > 0)
        text->used += (size_t)length < room ? (size_t)length : room - 1;
}

static void put_form(struct text *text, const struct form *form, unsigned depth);

static void put_symbol(struct text *text, const struct symbol *symbol, unsigned depth)
{
    static const char *const names[] = {"tid", "ctaid", "ntid", "nctaid"};
    const struct ptx_func *func = text->r->func;
    switch (symbol->kind) {
    case SYMBOL_TID:
    case SYMBOL_CTAID:
    case SYMBOL_NTID:
    case SYMBOL_NCTAID:
        put(text, "%s.%c", names[symbol->kind - SYMBOL_TID], "xyz"[symbol->axis]);
        return;
    case SYMBOL_SCALAR:
    case SYMBOL_POINTER:
        for (uint32_t i = 0; i < func->param_count; i++) {
            uint32_t at = symbol->number - func->params[i]->offset;
            if (symbol->number < func->params[i]->offset || at >= func->params[i]->size)
                continue;
            put(text, at ? "p%u[%u]" : "p%u", i, at);
        }
        return;
    case SYMBOL_VARIABLE:
        put(text, "%s", symbol->var->name);
        return;
    case SYMBOL_TRIP:
        put(text, "turn@%u", symbol->line);
        return;
    case SYMBOL_QUOTIENT:
        if (depth > 2) {
            put(text, "...");
            return;
        }
        put(text, "((");
        put_form(text, symbol->of, depth + 1);
        put(text, ") / %lld)", (long long)symbol->by);
        return;
    default:
        put(text, "value@%u", symbol->line);
    }
}

static void put_form(struct text *text, const struct form *form, unsigned depth)
{
    bool first = true;
    for (uint32_t i = 0; i < form->count; i++) {
        const struct monomial *mono = &text->r->affine.monos[form->terms[i].mono];
        int64_t coef = form->terms[i].coef;
        put(text, "%s", coef < 0 ? (first ? "-" : " - ") : first ? "" : " + ");
        uint64_t size = coef < 0 ? 0 - (uint64_t)coef : (uint64_t)coef;
        if (size != 1)
            put(text, "%llu*", (unsigned long long)size);
        for (uint32_t s = 0; s < mono->count; s++) {
            put(text, "%s", s ? "*" : "");
            put_symbol(text, &text->r->affine.symbols[mono->symbols[s]], depth);
        }
        first = false;
    }
    if (form->constant || first)
        put(text,
            first                ? "%lld"
            : form->constant < 0 ? " - %lld"
                                 : " + %lld",
            (long long)(first || form->constant > 0 ? form->constant : -form->constant));
}

const char *reach_text(struct reaching *r, const struct form *form, struct kg_arena *arena)
{
    struct text text = {.r = r};
    put_form(&text, form, 0);
    return arena_copy(arena, text.out, text.used);
}
